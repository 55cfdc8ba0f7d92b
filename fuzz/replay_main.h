/* replay_main.h - lets a fuzz target run without libFuzzer: compiled with WEFT_FUZZ_REPLAY, it has a main()
 * that feeds it the files and folders given. Without, -fsanitize=fuzzer brings the fuzzer's own main. */
#ifndef WEFT_FUZZ_REPLAY_MAIN_H
#define WEFT_FUZZ_REPLAY_MAIN_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef WEFT_FUZZ_REPLAY
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return 1;
    size_t n = 0, cap = 4096, got;
    uint8_t *bytes = malloc(cap);
    while (bytes && (got = fread(bytes + n, 1, cap - n, f)) > 0)
        if ((n += got) == cap) {
            uint8_t *more = realloc(bytes, cap *= 2);
            if (!more)
                break;
            bytes = more;
        }
    fclose(f);
    uint8_t *exact = malloc(n ? n : 1); /* no byte behind the last */
    if (!bytes || !exact)
        return 1;
    for (size_t i = 0; i < n; i++)
        exact[i] = bytes[i];
    free(bytes);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0, run = 0;
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) != 0 || !S_ISDIR(info.st_mode)) {
            failed += replay_file(argv[i]);
            run++;
            continue;
        }
        DIR *d = opendir(argv[i]);
        for (struct dirent *e; d && (e = readdir(d));) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
            if (e->d_name[0] == '.' || stat(path, &info) != 0 || !S_ISREG(info.st_mode))
                continue;
            failed += replay_file(path);
            run++;
        }
        if (d)
            closedir(d);
    }
    fprintf(stderr, "%d inputs, %d unreadable\n", run, failed);
    return failed != 0;
}
#endif
#endif
