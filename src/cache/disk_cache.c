/* disk_cache.c - one file a key: DIR/HASH.weft, the hash being that of the key.
 *
 *   8  magic "WEFTKEPT"     4  version of this layout     4  bytes of the key     8  bytes of the value
 *   key, value
 *   16 hash of everything before it
 *
 * in the byte order of the machine: another one's files fail the check. A file is written under a name of its own and then
 * renamed, so a reader sees all of it or nothing, whoever else writes or is killed meanwhile; it is not flushed to the medium,
 * because what a crash of the system leaves half written fails the check too. The oldest files go when the folder is too large:
 * a file that is used gets a new date, at most once a day. Why files and not one table: docs/decisions/0018-disk-cache.md.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "disk_cache.h"
#include "thread.h"

enum { HEADER = 24, TRAILER = 16, LAYOUT = 1, HEX = 32, NAME_SEED = 11, SUM_SEED = 12, DAY_S = 86400, PART_AGE_S = 3600 };
static const char magic[8] = "WEFTKEPT", suffix[] = ".weft", part_suffix[] = ".part";
#define DEFAULT_MAX_BYTES ((uint64_t)256 << 20)

struct wf_disk_cache {
    wf_mutex lock; /* of everything below max_bytes */
    char *dir;
    uint64_t max_bytes;
    wf_disk_counts counts;
    uint64_t unswept; /* bytes written since the folder was last measured */
    uint64_t serial;  /* of names being written */
    bool swept, stopped, warned;
};

weft_status wf_disk_open(const char *dir, uint64_t max_bytes, wf_disk_cache **out)
{
    char here[PATH_MAX] = "";
    wf_disk_cache *c = wf_calloc(1, sizeof *c);
    if (!c)
        return wf_fail_oom(sizeof *c);
    weft_status st = WEFT_OK;
    if (dir[0] != '/' && !getcwd(here, sizeof here))
        st = wf_fail(WEFT_E_IO, "cache: %.200s: the current folder has no name: %s", dir, strerror(errno));
    size_t n = strlen(here) + 1 + strlen(dir) + 1;
    if (st == WEFT_OK && n + HEX + 64 > PATH_MAX)
        st = wf_fail(WEFT_E_VALUE, "cache: the folder's name has %zu bytes, the system takes %d", n, PATH_MAX - HEX - 64);
    if (st == WEFT_OK && !(c->dir = wf_alloc(n)))
        st = wf_fail_oom(n);
    if (st != WEFT_OK) {
        wf_free(c);
        return st;
    }
    snprintf(c->dir, n, "%s%s%s", here, here[0] ? "/" : "", dir);
    c->max_bytes = max_bytes ? max_bytes : DEFAULT_MAX_BYTES;
    wf_mutex_init(&c->lock, false);
    *out = c;
    return WEFT_OK;
}

void wf_disk_close(wf_disk_cache *c)
{
    if (!c)
        return;
    pthread_mutex_destroy(&c->lock);
    wf_free(c->dir);
    wf_free(c);
}

wf_disk_counts wf_disk_counted(wf_disk_cache *c)
{
    wf_lock(&c->lock);
    wf_disk_counts counts = c->counts;
    wf_unlock(&c->lock);
    return counts;
}

static void path_of(const wf_disk_cache *c, wf_hash128 h, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%016llx%016llx%s", c->dir, (unsigned long long)h.hi, (unsigned long long)h.lo, suffix);
}

/* ---- reading ---- */

/* The whole file, or NULL: `why` is then "" where there is none, else what is wrong with it. */
static uint8_t *read_whole(const char *path, size_t *size, char *why, size_t cap)
{
    struct stat info;
    uint8_t *bytes = NULL;
    why[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); /* a pipe must not hold us up */
    if (fd < 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            snprintf(why, cap, "%s", strerror(errno));
        return NULL;
    }
    if (fstat(fd, &info) != 0)
        snprintf(why, cap, "%s", strerror(errno));
    else if (!S_ISREG(info.st_mode))
        snprintf(why, cap, "it is no file");
    else if ((info.st_uid != geteuid() && info.st_uid != 0) || (info.st_mode & (S_IWGRP | S_IWOTH)))
        snprintf(why, cap, "others can write to it"); /* shaders may run without bounds checks: nobody else gives us one */
    else if (info.st_size < HEADER + TRAILER || info.st_size > (off_t)WF_DISK_MAX_VALUE * 2)
        snprintf(why, cap, "its size is %lld bytes", (long long)info.st_size);
    else if (!(bytes = wf_alloc((size_t)info.st_size)))
        snprintf(why, cap, "out of memory");
    *size = bytes ? (size_t)info.st_size : 0;
    for (size_t at = 0; bytes && at < *size;) {
        ssize_t got = read(fd, bytes + at, *size - at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            snprintf(why, cap, "%s", got ? strerror(errno) : "it became shorter");
            wf_free(bytes);
            bytes = NULL;
            break;
        }
        at += (size_t)got;
    }
    if (bytes && info.st_mtime + DAY_S < time(NULL))
        (void)futimens(fd, NULL); /* it is in use; a folder that cannot be written keeps its dates */
    close(fd);
    return bytes;
}

/* What is wrong with a file's bytes; NULL: nothing. */
static const char *check(const uint8_t *bytes, size_t size, const void *key, size_t key_bytes, size_t *value_bytes)
{
    uint32_t layout, n_key;
    uint64_t n_value, sum[2];
    memcpy(&layout, bytes + 8, 4);
    memcpy(&n_key, bytes + 12, 4);
    memcpy(&n_value, bytes + 16, 8);
    memcpy(sum, bytes + size - TRAILER, TRAILER);
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return "it is not a file of this cache";
    if (layout != LAYOUT)
        return "its layout is of another version";
    if (n_value > WF_DISK_MAX_VALUE || n_key + n_value != size - HEADER - TRAILER)
        return "it is cut short, or more follows";
    wf_hash128 h = wf_hash(bytes, size - TRAILER, SUM_SEED);
    if (h.lo != sum[0] || h.hi != sum[1])
        return "its check does not hold";
    if (n_key != key_bytes || memcmp(bytes + HEADER, key, key_bytes) != 0)
        return "it is of another key";
    *value_bytes = (size_t)n_value;
    return NULL;
}

static void refuse(wf_disk_cache *c, const char *path, const char *why)
{
    wf_lock(&c->lock);
    bool first = !c->warned;
    c->warned = true;
    c->counts.refused++;
    wf_unlock(&c->lock);
    /* One line a run: a folder full of them is one event. */
    wf_log(first ? WEFT_LOG_WARN : WEFT_LOG_DEBUG, "cache: %s is not used: %s", path, why);
}

bool wf_disk_find(wf_disk_cache *c, const void *key, size_t key_bytes, void **out, size_t *value_bytes)
{
    char path[PATH_MAX], why[128];
    size_t size, n;
    path_of(c, wf_hash(key, key_bytes, NAME_SEED), path);
    uint8_t *bytes = read_whole(path, &size, why, sizeof why);
    const char *wrong = bytes ? check(bytes, size, key, key_bytes, &n) : why[0] ? why : NULL;
    if (wrong)
        refuse(c, path, wrong);
    if (!bytes || wrong) {
        wf_free(bytes);
        return false;
    }
    memmove(bytes, bytes + HEADER + key_bytes, n);
    bytes[n] = '\0'; /* there is room: the trailer was behind it */
    wf_lock(&c->lock);
    c->counts.found++;
    wf_unlock(&c->lock);
    *out = bytes;
    *value_bytes = n;
    return true;
}

/* ---- keeping the folder small ---- */

typedef struct kept_file {
    char name[HEX + sizeof suffix];
    time_t used;
    uint64_t size;
} kept_file;

static int by_age(const void *a, const void *b)
{
    const kept_file *x = a, *y = b;
    return x->used != y->used ? (x->used < y->used ? -1 : 1) : strcmp(x->name, y->name);
}

/* Is it a name that this code gives, with this end? Nothing else in the folder is ever touched. */
static bool is_ours(const char *name, const char *end)
{
    size_t n = strspn(name, "0123456789abcdef");
    const char *tail = name + strlen(name) - WF_MIN(strlen(name), strlen(end));
    return n == HEX && strcmp(tail, end) == 0 && (end == part_suffix || name + HEX == tail);
}

static weft_status list_files(int dir_fd, DIR *dir, kept_file **files, size_t *n, uint64_t *total)
{
    size_t cap = 0;
    struct dirent *e;
    while ((e = readdir(dir))) {
        struct stat info;
        bool part = is_ours(e->d_name, part_suffix);
        if ((!part && !is_ours(e->d_name, suffix)) || fstatat(dir_fd, e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
            continue;
        if (part) { /* of a process that was killed; one that writes has it for moments */
            if (info.st_mtime + PART_AGE_S < time(NULL))
                (void)unlinkat(dir_fd, e->d_name, 0);
            continue;
        }
        if (*n == cap)
            WF_TRY(wf_grow((void **)files, &cap, *n + 1, sizeof **files));
        kept_file *f = &(*files)[(*n)++];
        memcpy(f->name, e->d_name, sizeof f->name); /* HEX digits and the suffix, by is_ours */
        f->used = info.st_mtime;
        f->size = (uint64_t)info.st_size;
        *total += f->size;
    }
    return WEFT_OK;
}

/* Measure the folder; too large, the files that were unused longest go until it is at three quarters. */
static void sweep(wf_disk_cache *c)
{
    kept_file *files = NULL;
    size_t n = 0;
    uint64_t total = 0;
    c->swept = true;
    c->unswept = 0;
    DIR *dir = opendir(c->dir);
    if (!dir)
        return;
    int fd = dirfd(dir);
    if (list_files(fd, dir, &files, &n, &total) == WEFT_OK && total > c->max_bytes) {
        qsort(files, n, sizeof *files, by_age);
        for (size_t i = 0; i < n && total > c->max_bytes / 4 * 3; i++)
            if (unlinkat(fd, files[i].name, 0) == 0 || errno == ENOENT) /* another process may be at it too */
                total -= files[i].size;
    }
    wf_free(files);
    closedir(dir);
}

/* ---- writing ---- */

/* The folder and those it is in, for this user alone (XDG base directory specification: 0700). */
static bool make_folder(const char *dir)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", dir);
    for (char *at = path + 1; *at; at++)
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(path, 0700);
            *at = '/';
        }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool write_all(int fd, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    while (n) {
        ssize_t wrote = write(fd, p, n);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0) {
            errno = wrote ? errno : EIO;
            return false;
        }
        p += wrote;
        n -= (size_t)wrote;
    }
    return true;
}

/* 0, or the errno of what failed. */
static int write_file(wf_disk_cache *c, const char *path, const uint8_t *bytes, size_t n)
{
    char part[PATH_MAX + 64];
    /* No other thread, process or context has this name now: another context's cache has another address. */
    snprintf(part, sizeof part, "%.*s-%lx-%llx-%llx%s", (int)(strlen(path) - strlen(suffix)), path, (unsigned long)getpid(),
             (unsigned long long)(uintptr_t)c, (unsigned long long)(++c->serial + wf_now_ns()), part_suffix);
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == ENOENT && make_folder(c->dir))
        fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return errno;
    int err = write_all(fd, bytes, n) ? 0 : errno;
    if (close(fd) != 0 && !err)
        err = errno;
    if (!err && rename(part, path) != 0)
        err = errno;
    if (err)
        unlink(part);
    return err;
}

static uint8_t *pack(const void *key, size_t key_bytes, const void *value, size_t value_bytes, size_t *size)
{
    uint32_t layout = LAYOUT, n_key = (uint32_t)key_bytes;
    uint64_t n_value = value_bytes;
    *size = HEADER + key_bytes + value_bytes + TRAILER;
    uint8_t *bytes = wf_alloc(*size);
    if (!bytes)
        return NULL;
    memcpy(bytes, magic, 8);
    memcpy(bytes + 8, &layout, 4);
    memcpy(bytes + 12, &n_key, 4);
    memcpy(bytes + 16, &n_value, 8);
    memcpy(bytes + HEADER, key, key_bytes);
    memcpy(bytes + HEADER + key_bytes, value, value_bytes);
    wf_hash128 h = wf_hash(bytes, *size - TRAILER, SUM_SEED);
    memcpy(bytes + *size - TRAILER, (uint64_t[]){h.lo, h.hi}, TRAILER);
    return bytes;
}

void wf_disk_store(wf_disk_cache *c, const void *key, size_t key_bytes, const void *value, size_t value_bytes)
{
    char path[PATH_MAX];
    size_t size;
    if (key_bytes > WF_DISK_MAX_VALUE || value_bytes > WF_DISK_MAX_VALUE || key_bytes + value_bytes > c->max_bytes / 4)
        return;
    int err = 0;
    wf_lock(&c->lock);
    uint8_t *bytes = c->stopped ? NULL : pack(key, key_bytes, value, value_bytes, &size);
    if (bytes) {
        path_of(c, wf_hash(key, key_bytes, NAME_SEED), path);
        err = write_file(c, path, bytes, size);
        c->stopped = err != 0;
        c->counts.stored += !err;
        c->unswept += err ? 0 : size;
        if (!err && (!c->swept || c->unswept > c->max_bytes / 8))
            sweep(c);
        wf_free(bytes);
    }
    wf_unlock(&c->lock);
    if (err) /* once: nothing more is tried */
        wf_log(WEFT_LOG_WARN, "cache: nothing is kept in %s: %s", c->dir, strerror(err));
}
