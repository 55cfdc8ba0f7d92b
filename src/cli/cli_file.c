/* cli_file.c - an output file that appears under its name only when it is complete. It is written beside
 * its place and renamed; what is no regular file (a device, a pipe) is written to directly. Only a name
 * that was created here is ever removed, by its writer or, when that was killed, by the next one. */
#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_TRIES = 100 };

/* ---- what a writer that was killed left behind ---- */

/* The process of "BASE.PID-N.part"; 0: another name. */
static long writer_of(const char *name, const char *base)
{
    size_t n = strlen(base);
    char *end;
    if (strncmp(name, base, n) != 0 || name[n] != '.' || name[n + 1] < '1' || name[n + 1] > '9')
        return 0;
    long pid = strtol(name + n + 1, &end, 10);
    if (*end != '-' || end[1] < '0' || end[1] > '9')
        return 0;
    strtol(end + 1, &end, 10);
    return strcmp(end, ".part") == 0 ? pid : 0;
}

/* Whether nobody writes it: its process is gone, and nobody holds the lock (a writer on another machine). */
static bool is_dead(const char *part, long pid)
{
    if (pid > INT_MAX || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
        return false;
    int fd = open(part, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    bool dead = fd >= 0 && fcntl(fd, F_SETLK, &whole) == 0;
    if (fd >= 0)
        close(fd);
    return dead;
}

static void remove_stale(const char *path)
{
    char folder[PATH_MAX], part[PATH_MAX];
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    int n = snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 2, slash ? path : "./");
    DIR *dir = n > 0 && (size_t)n < sizeof folder ? opendir(folder) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        long pid = writer_of(e->d_name, base);
        n = snprintf(part, sizeof part, "%s%s", folder, e->d_name);
        if (pid && n > 0 && (size_t)n < sizeof part && is_dead(part, pid))
            unlink(part);
    }
    if (dir)
        closedir(dir);
}

static int open_directly(cli_file *f)
{
    f->stream = fopen(f->path, "wb");
    return f->stream ? CLI_OK : cli_fail("%s: %s", f->path, strerror(errno));
}

static int open_beside(cli_file *f, const struct stat *old)
{
    int fd = -1, n = 0;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    remove_stale(f->path);
    errno = EEXIST;
    for (int i = 0; i < NAME_TRIES && fd < 0 && errno == EEXIST; i++) {
        n = snprintf(f->part, sizeof f->part, "%s.%ld-%d.part", f->path, (long)getpid(), i);
        if (n < 0 || (size_t)n >= sizeof f->part)
            return cli_fail("%s: %s", f->path, strerror(ENAMETOOLONG));
        fd = open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (fd < 0)
        return cli_fail("%s: cannot make a file beside it: %s", f->path, strerror(errno));
    f->beside = true;
    fcntl(fd, F_SETLK, &whole); /* a file system without locks has the process alone */
    if ((old && fchmod(fd, old->st_mode & 07777) != 0) || !(f->stream = fdopen(fd, "wb"))) {
        int err = errno;
        close(fd);
        unlink(f->part);
        return cli_fail("%s: %s", f->path, strerror(err));
    }
    return CLI_OK;
}

int cli_file_begin(const char *path, cli_file *f)
{
    struct stat info;
    *f = (cli_file){0};
    bool exists = stat(path, &info) == 0;
    if (exists && S_ISREG(info.st_mode)) { /* a link is followed, so that it stays one */
        if (!realpath(path, f->path) || access(f->path, W_OK) != 0)
            return cli_fail("%s: %s", path, strerror(errno));
        return open_beside(f, &info);
    }
    int n = snprintf(f->path, sizeof f->path, "%s", path);
    if (n < 0 || (size_t)n >= sizeof f->path)
        return cli_fail("%s: %s", path, strerror(ENAMETOOLONG));
    return exists || lstat(path, &info) == 0 ? open_directly(f) : open_beside(f, NULL);
}

int cli_file_end(cli_file *f, int code)
{
    int err = ferror(f->stream) ? EIO : 0;
    if (fclose(f->stream) != 0)
        err = errno;
    if (code == CLI_OK && !err && f->beside && rename(f->part, f->path) != 0)
        err = errno;
    if (f->beside && (code != CLI_OK || err))
        unlink(f->part);
    return code != CLI_OK ? code : err ? cli_fail("%s: cannot write: %s", f->path, strerror(err)) : CLI_OK;
}
