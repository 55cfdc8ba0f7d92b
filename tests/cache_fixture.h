/* cache_fixture.h - a folder for a test, its files as bytes, and the lines of the log that a test counts. */
#ifndef CACHE_FIXTURE_H
#define CACHE_FIXTURE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_context.h"

static char folder[64];

static int lines_logged;
static char last_line[1024];

static inline void count_line(void *user, weft_log_level level, const char *message)
{
    (void)user;
    if (level > WEFT_LOG_WARN)
        return;
    lines_logged++;
    snprintf(last_line, sizeof last_line, "%s", message);
}

static inline int make_test_folder(void **state)
{
    (void)state;
    lines_logged = 0;
    weft_set_log(count_line, NULL, WEFT_LOG_WARN);
    snprintf(folder, sizeof folder, "/tmp/weft-cache-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

/* Calls fn for each name in the folder; returns their number. */
static inline int each_file(void (*fn)(const char *path))
{
    char path[512];
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%.60s/%s", folder, e->d_name);
        if (fn)
            fn(path);
        n++;
    }
    if (dir)
        closedir(dir);
    return n;
}

static inline void remove_any(const char *path)
{
    if (unlink(path) != 0)
        rmdir(path);
}

static inline int drop_test_folder(void **state)
{
    (void)state;
    weft_set_log(NULL, NULL, WEFT_LOG_ERROR);
    each_file(remove_any);
    return rmdir(folder);
}

enum { FILES_MAX = 64 };
typedef struct file_image {
    char path[512];
    uint8_t *bytes;
    size_t n;
} file_image;
static file_image images[FILES_MAX];
static int n_images;

static inline void take_image(const char *path)
{
    file_image *f = &images[n_images++];
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_true(n_images < FILES_MAX);
    snprintf(f->path, sizeof f->path, "%s", path);
    fseek(in, 0, SEEK_END);
    f->n = (size_t)ftell(in);
    rewind(in);
    f->bytes = malloc(f->n + 1);
    assert_int_equal(fread(f->bytes, 1, f->n, in), f->n);
    fclose(in);
}

static inline void free_images(void)
{
    for (int i = 0; i < n_images; i++)
        free(images[i].bytes);
    n_images = 0;
}

static inline void put_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
}

#endif
