/* reader.c - where bytes come from: a file or a part of one (mapped where the system allows), or memory. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base.h"
#include "weft/format.h"

typedef struct file_source {
    int fd;
    uint64_t offset, size_bytes; /* the part that is shown */
    uint8_t *pages;              /* what mmap gave, or NULL */
    size_t pages_bytes, lead;    /* `lead` bytes lie before the part: a mapping starts at a page */
} file_source;

static bool file_read(void *user, uint64_t offset, void *dst, size_t n)
{
    file_source *s = user;
    if (offset > s->size_bytes || n > s->size_bytes - offset)
        return false;
    if (s->pages) {
        memcpy(dst, s->pages + s->lead + offset, n);
        return true;
    }
    uint8_t *p = dst;
    while (n) {
        ssize_t got = pread(s->fd, p, WF_MIN(n, (size_t)1 << 30), (off_t)(s->offset + offset));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        p += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return true;
}

static const void *file_map(void *user)
{
    file_source *s = user;
    return s->pages ? s->pages + s->lead : NULL;
}

static void file_release(void *user, uint64_t offset, size_t n)
{
    file_source *s = user;
    if (!s->pages || offset > s->size_bytes || n > s->size_bytes - offset)
        return;
    /* Whole pages only: the neighbours on the first and last page may still be wanted. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t from = wf_align_up(s->lead + offset, page), to = (s->lead + offset + n) / page * page;
    if (from < to)
        madvise(s->pages + from, to - from, MADV_DONTNEED);
}

static void file_close(void *user)
{
    file_source *s = user;
    if (s->pages)
        munmap(s->pages, s->pages_bytes);
    if (s->fd >= 0)
        close(s->fd);
    wf_free(s);
}

static void map_part(file_source *s)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    s->lead = (size_t)(s->offset % page);
    if (!s->size_bytes || s->size_bytes > SIZE_MAX - s->lead)
        return;
    s->pages_bytes = (size_t)s->size_bytes + s->lead;
    void *p = mmap(NULL, s->pages_bytes, PROT_READ, MAP_PRIVATE, s->fd, (off_t)(s->offset - s->lead));
    if (p == MAP_FAILED)
        return; /* pread serves as well */
    s->pages = p;
    close(s->fd);
    s->fd = -1;
}

static weft_status open_part(const char *path, file_source *s, uint64_t offset, uint64_t size_bytes)
{
    struct stat info;
    s->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0 || fstat(s->fd, &info) != 0)
        return wf_fail(WEFT_E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return wf_fail(WEFT_E_IO, "%s: is %s", path, S_ISDIR(info.st_mode) ? "a directory" : "no regular file");
    uint64_t total = (uint64_t)info.st_size;
    if (offset > total || size_bytes > total - offset)
        return wf_fail(WEFT_E_IO, "%s: bytes %llu + %llu asked for, the file has %llu", path,
                       (unsigned long long)offset, (unsigned long long)size_bytes, (unsigned long long)total);
    s->offset = offset;
    s->size_bytes = size_bytes ? size_bytes : total - offset;
    map_part(s);
    return WEFT_OK;
}

weft_status weft_reader_open_file(const char *path, uint64_t offset, uint64_t size_bytes, weft_reader *out)
{
    if (!path || !out)
        return wf_fail(WEFT_E_CONTEXT, "reader_open_file: path and out are required");
    file_source *s = wf_calloc(1, sizeof *s);
    if (!s)
        return WEFT_E_OOM;
    s->fd = -1;
    weft_status st = open_part(path, s, offset, size_bytes);
    if (st != WEFT_OK) {
        file_close(s);
        return st;
    }
    *out = (weft_reader){s, s->size_bytes, file_read, file_map, file_release, file_close};
    return WEFT_OK;
}

typedef struct memory_source {
    const uint8_t *data;
    size_t size_bytes;
} memory_source;

static bool memory_read(void *user, uint64_t offset, void *dst, size_t n)
{
    const memory_source *s = user;
    if (offset > s->size_bytes || n > s->size_bytes - offset)
        return false;
    if (n)
        memcpy(dst, s->data + offset, n);
    return true;
}

static const void *memory_map(void *user)
{
    return ((const memory_source *)user)->data;
}

weft_status weft_reader_borrow_memory(const void *data, size_t size_bytes, weft_reader *out)
{
    if (!out || (!data && size_bytes))
        return wf_fail(WEFT_E_CONTEXT, "reader_borrow_memory: data and out are required");
    memory_source *s = wf_alloc(sizeof *s);
    if (!s)
        return WEFT_E_OOM;
    *s = (memory_source){data, size_bytes};
    *out = (weft_reader){s, size_bytes, memory_read, memory_map, NULL, wf_free};
    return WEFT_OK;
}

void weft_reader_close(weft_reader *reader)
{
    if (!reader)
        return;
    if (reader->close)
        reader->close(reader->user);
    memset(reader, 0, sizeof *reader);
}
