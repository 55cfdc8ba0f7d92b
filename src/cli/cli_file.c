/* cli_file.c - an output file that appears under its name only when it is complete. It is written beside
 * its place and renamed; what is no regular file (a device, a pipe) is written to directly. Only a name
 * that was created here is ever removed. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_TRIES = 100 };

static int open_directly(cli_file *f)
{
    f->stream = fopen(f->path, "wb");
    return f->stream ? CLI_OK : cli_fail("%s: %s", f->path, strerror(errno));
}

static int open_beside(cli_file *f, const struct stat *old)
{
    int fd = -1, n = 0;
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
