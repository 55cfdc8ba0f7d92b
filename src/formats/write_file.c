/* write_file.c - a file is written beside its place under a free name and then renamed, which replaces
 * what was there in one step. Only a name that was created here is ever removed, by its writer or, when that was killed,
 * by the next one. cli_file.c does the same through the public headers alone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "write_file.h"

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

static weft_status fail(const char *path, const char *what, int err)
{
    return wf_fail(WEFT_E_IO, "%s: %s: %s", path, what, strerror(err));
}

static bool write_parts(int fd, const wf_bytes *parts, int n_parts)
{
    for (int i = 0; i < n_parts; i++) {
        const uint8_t *p = parts[i].ptr;
        for (size_t left = parts[i].n; left;) {
            ssize_t wrote = write(fd, p, WF_MIN(left, (size_t)1 << 30));
            if (wrote < 0 && errno == EINTR)
                continue;
            if (wrote <= 0) {
                errno = wrote == 0 ? EIO : errno;
                return false;
            }
            p += wrote;
            left -= (size_t)wrote;
        }
    }
    return true;
}

/* Writes and closes; the errno of the first failure, 0 for none. */
static int finish(int fd, const wf_bytes *parts, int n_parts)
{
    int err = write_parts(fd, parts, n_parts) ? 0 : errno;
    if (close(fd) != 0 && !err)
        err = errno;
    return err;
}

static weft_status write_directly(const char *path, const wf_bytes *parts, int n_parts)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail(path, "cannot open", errno);
    int err = finish(fd, parts, n_parts);
    return err ? fail(path, "cannot write", err) : WEFT_OK;
}

/* A file that was not there: -1 with errno when no name is to be had. */
static int create_beside(const char *path, char name[PATH_MAX])
{
    int fd = -1;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    remove_stale(path);
    errno = EEXIST;
    for (int i = 0; i < NAME_TRIES && fd < 0 && errno == EEXIST; i++) {
        int n = snprintf(name, PATH_MAX, "%s.%ld-%d.part", path, (long)getpid(), i);
        if (n < 0 || n >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (fd >= 0)
        fcntl(fd, F_SETLK, &whole); /* a file system without locks has the process alone */
    return fd;
}

static weft_status replace(const char *path, const struct stat *old, const wf_bytes *parts, int n_parts)
{
    char name[PATH_MAX];
    int fd = create_beside(path, name), err = 0;
    if (fd < 0)
        return fail(path, "cannot make a file beside it", errno);
    if (old && fchmod(fd, old->st_mode & 07777) != 0)
        err = errno;
    int wrote = finish(fd, parts, n_parts);
    err = err ? err : wrote;
    if (!err && rename(name, path) != 0)
        err = errno;
    if (!err)
        return WEFT_OK;
    unlink(name);
    return fail(path, "cannot write", err);
}

weft_status wf_write_file(const char *path, const wf_bytes *parts, int n_parts)
{
    char real[PATH_MAX];
    struct stat info;
    if (stat(path, &info) != 0) /* a link to nothing: its target is to be created */
        return lstat(path, &info) == 0 ? write_directly(path, parts, n_parts) : replace(path, NULL, parts, n_parts);
    if (!S_ISREG(info.st_mode))
        return write_directly(path, parts, n_parts);
    if (!realpath(path, real) || access(real, W_OK) != 0)
        return fail(path, "cannot write", errno);
    return replace(real, &info, parts, n_parts);
}
