/* file_bytes.h - open a tensor file from bytes, mapped or through a callback, and ask it everything. For tests
 * and fuzz targets. */
#ifndef WEFT_TEST_FILE_BYTES_H
#define WEFT_TEST_FILE_BYTES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/format.h"

typedef struct byte_source {
    const unsigned char *bytes;
    size_t n;
    size_t most_read; /* the longest single read asked for */
} byte_source;

static inline bool byte_source_read(void *user, uint64_t offset, void *dst, size_t n)
{
    byte_source *s = user;
    s->most_read = n > s->most_read ? n : s->most_read;
    if (offset > s->n || n > s->n - offset)
        return false;
    memcpy(dst, s->bytes + offset, n);
    return true;
}

/* `source` and `bytes` stay the caller's and outlive the file. */
static inline weft_status open_bytes(byte_source *source, const void *bytes, size_t n, bool mapped, weft_file **out)
{
    weft_reader r = {0};
    *source = (byte_source){bytes, n, 0};
    if (mapped) {
        weft_status st = weft_reader_borrow_memory(bytes, n, &r);
        if (st != WEFT_OK)
            return st;
    } else {
        r.user = source;
        r.size_bytes = n;
        r.read = byte_source_read;
    }
    weft_status st = weft_file_open_reader(&r, out);
    if (st != WEFT_OK)
        weft_reader_close(&r);
    return st;
}

static inline unsigned sum_bytes(const void *p, size_t n)
{
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((const unsigned char *)p)[i];
    return sum;
}

/* Every tensor, every byte, every value: reads out of bounds show under a sanitizer. Returns a number
 * that depends on all of it. */
static inline unsigned touch_file(const weft_file *f)
{
    unsigned sum = weft_file_version(f);
    weft_file_tensor t, again;
    weft_meta m;
    for (int64_t i = 0; weft_file_tensor_at(f, i, &t) == WEFT_OK; i++) {
        sum += sum_bytes(t.name, strlen(t.name)) + (unsigned)strlen(t.type_name);
        if (weft_file_tensor_find(f, t.name, &again) != WEFT_OK || again.offset != t.offset)
            abort();
        if (t.known && t.rank >= 0 && t.size_bytes % weft_dtype_block_bytes(t.dtype))
            abort();
        const void *p = weft_file_tensor_map(f, &t);
        unsigned char *copy = malloc(t.size_bytes + 1);
        if (weft_file_read(f, t.offset, copy, t.size_bytes) != WEFT_OK)
            abort();
        if (p && memcmp(p, copy, t.size_bytes))
            abort();
        sum += sum_bytes(copy, t.size_bytes);
        free(copy);
        weft_file_release(f, &t);
    }
    for (int64_t i = 0; weft_file_meta_at(f, i, &m) == WEFT_OK; i++) {
        sum += sum_bytes(m.key, strlen(m.key)) + (unsigned)strlen(m.type_name);
        for (uint64_t k = 0; k < m.count && k < 100000; k++) {
            int64_t v;
            double d;
            const char *s;
            size_t n;
            if (weft_file_meta_i64(f, m.key, k, &v) == WEFT_OK)
                sum += (unsigned)v;
            if (weft_file_meta_f64(f, m.key, k, &d) == WEFT_OK)
                sum += d > 0;
            if (weft_file_meta_str(f, m.key, k, &s, &n) == WEFT_OK)
                sum += sum_bytes(s, n);
        }
    }
    return sum;
}

#endif
