/* data_file.h - test data: where it lies, and reading it whole. Tests run from the root of the source
 * tree, or with WEFT_SOURCE_DIR naming it. */
#ifndef WEFT_TEST_DATA_FILE_H
#define WEFT_TEST_DATA_FILE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "tests/data/x" below the source tree; the result is valid until the eighth call from now. */
static inline const char *source_path(const char *relative)
{
    static char ring[8][1024];
    static unsigned turn;
    char *out = ring[turn++ % 8];
    const char *root = getenv("WEFT_SOURCE_DIR");
#ifdef WEFT_SOURCE_DIR
    if (!root)
        root = WEFT_SOURCE_DIR;
#endif
    snprintf(out, sizeof ring[0], "%s/%s", root ? root : ".", relative);
    return out;
}

/* The bytes of a file plus a NUL, malloced; NULL when it cannot be read. */
static inline char *read_whole(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    size_t len = 0, cap = 65536, got;
    char *bytes = malloc(cap + 1);
    while (bytes && (got = fread(bytes + len, 1, cap - len, f)) > 0) {
        len += got;
        if (len == cap) {
            char *more = realloc(bytes, (cap *= 2) + 1);
            if (!more)
                free(bytes);
            bytes = more;
        }
    }
    fclose(f);
    if (bytes)
        bytes[len] = '\0';
    if (n)
        *n = len;
    return bytes;
}

#endif
