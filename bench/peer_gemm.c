/* peer_gemm.c - f32 C = A B of a matrix library, timed beside weft.
 *
 *   peer_gemm NAME LIBRARY N     one line: NAME N median GFLOP/s of 9 runs after 2 warm-ups
 *
 * LIBRARY offers cblas_sgemm (OpenBLAS, BLIS) or dnnl_sgemm (oneDNN) and runs on as many threads as its own
 * environment variables say.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef void (*cblas_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
typedef int (*dnnl_fn)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t, float, float *, int64_t);

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    enum { WARM = 2, RUNS = 9 };
    if (argc != 4)
        return 2;
    void *lib = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL);
    if (!lib) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    cblas_fn cblas = (cblas_fn)dlsym(lib, "cblas_sgemm");
    dnnl_fn dnnl = (dnnl_fn)dlsym(lib, "dnnl_sgemm");
    int n = atoi(argv[3]);
    size_t count = (size_t)n * (size_t)n;
    float *a = malloc(count * sizeof *a), *b = malloc(count * sizeof *b), *c = malloc(count * sizeof *c);
    if ((!cblas && !dnnl) || !a || !b || !c)
        return 1;
    for (size_t i = 0; i < count; i++) {
        a[i] = (float)(i % 13) - 6;
        b[i] = (float)(i % 11) - 5;
        c[i] = 0;
    }
    double seconds[RUNS];
    for (int i = -WARM; i < RUNS; i++) {
        double begin = now_s();
        if (dnnl)
            dnnl('N', 'N', n, n, n, 1, a, n, b, n, 0, c, n);
        else
            cblas(101, 111, 111, n, n, n, 1, a, n, b, n, 0, c, n);
        if (i >= 0)
            seconds[i] = now_s() - begin;
    }
    qsort(seconds, RUNS, sizeof *seconds, by_value);
    printf("%s %d %.2f\n", argv[1], n, 2.0 * n * n * n / seconds[RUNS / 2] * 1e-9);
    return 0;
}
