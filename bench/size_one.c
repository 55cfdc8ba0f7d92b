/* size_one.c - nanoseconds of one addition of tensors of one element: built, evaluated by the plan that is cached,
 * given back. Prints the median of the batches. Built and run by bench_ops.py. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <weft/weft.h>

enum { BATCHES = 31, BATCH = 5000 };

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static weft_status batch(weft_tensor *a, weft_tensor *b)
{
    weft_status st = WEFT_OK;
    for (int i = 0; i < BATCH && st == WEFT_OK; i++) {
        weft_tensor *sum = weft_add(a, b);
        st = weft_eval(&sum, 1);
        weft_tensor_release(sum);
    }
    return st;
}

int main(void)
{
    const float one = 1, two = 2;
    const int64_t shape[1] = {1};
    double ns[BATCHES];
    weft_ctx *ctx;
    weft_status st = weft_ctx_open(&(weft_ctx_opts){.device = "cpu"}, &ctx);
    if (st == WEFT_OK) {
        weft_tensor *a = weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, shape, &one);
        weft_tensor *b = weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, shape, &two);
        st = batch(a, b); /* warm-up: makes the plan */
        for (int i = 0; i < BATCHES && st == WEFT_OK; i++) {
            double start = now_ns();
            st = batch(a, b);
            ns[i] = (now_ns() - start) / BATCH;
        }
        weft_tensor_release(a);
        weft_tensor_release(b);
        weft_ctx_close(ctx);
    }
    if (st != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_error_message());
        return 1;
    }
    qsort(ns, BATCHES, sizeof ns[0], by_value);
    printf("%.1f\n", ns[BATCHES / 2]);
    return 0;
}
