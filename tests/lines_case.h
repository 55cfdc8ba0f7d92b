/* lines_case.h - cases of operations along one axis: random [3, N, 5] operands (and turned, sliced, reversed views of them) with
 * ties and NaN, read back beside an f64 copy. */
#ifndef LINES_CASE_H
#define LINES_CASE_H

#include <math.h>
#include <stdio.h>

#include "device_context.h"

static weft_ctx *ctx;
static weft_scope *scope;
static uint32_t seed;

static inline int open_case(void **state)
{
    (void)state;
    return (ctx = open_test_ctx()) ? 0 : -1;
}
static inline int close_case(void **state)
{
    (void)state;
    weft_ctx_close(ctx);
    return 0;
}
static inline int begin_case(void **state)
{
    (void)state;
    seed = 1;
    return (scope = weft_scope_begin(ctx)) ? 0 : -1;
}
static inline int end_case(void **state)
{
    (void)state;
    weft_scope_end(scope);
    return 0;
}

static inline uint32_t next_random(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

/* A tensor and its elements, row-major, as numbers. */
typedef struct data {
    weft_tensor *t;
    int rank;
    int64_t shape[8], n;
    double *v;
} data;

static inline void sound(weft_tensor *t)
{
    if (weft_tensor_status(t) != WEFT_OK)
        fail_msg("%s", weft_tensor_message(t));
}

static inline double *read_all(weft_tensor *t)
{
    int64_t n = weft_tensor_numel(t);
    double *v = malloc((size_t)(n + 1) * sizeof *v);
    float *f = malloc((size_t)(n + 1) * sizeof *f);
    sound(t);
    assert_non_null(v);
    assert_non_null(f);
    weft_status st;
    if (weft_tensor_dtype(t) == WEFT_DTYPE_F64 || weft_tensor_dtype(t) == WEFT_DTYPE_I64) {
        st = weft_read_as(t, WEFT_DTYPE_F64, v, (size_t)n * 8);
    } else if (weft_tensor_dtype(t) == WEFT_DTYPE_I32) {
        int32_t *i = (int32_t *)(void *)f;
        st = weft_read(t, i, (size_t)n * 4);
        for (int64_t k = 0; k < n; k++)
            v[k] = i[k];
    } else {
        st = weft_read_as(t, WEFT_DTYPE_F32, f, (size_t)n * 4);
        for (int64_t k = 0; k < n; k++)
            v[k] = (double)f[k];
    }
    if (st != WEFT_OK)
        fail_msg("%s", weft_error_message());
    free(f);
    return v;
}

static inline data data_of(weft_tensor *t)
{
    data d = {.t = t, .rank = weft_tensor_rank(t), .n = weft_tensor_numel(t), .v = read_all(t)};
    memcpy(d.shape, weft_tensor_shape(t), sizeof(int64_t) * (size_t)d.rank);
    return d;
}

enum { VIEWS = 4 };

/* [3, n, 5] small multiples of 1/4 with ties; `nans`: some are NaN. view 0: whole, 1: turned, 2: every other, 3: backwards. */
static inline data operand(weft_dtype dtype, int64_t n, bool nans, int view)
{
    int64_t shape[3] = {3, n, 5}, wide[3] = {3, 2 * n, 5};
    int64_t count = 30 * n;
    float *v = malloc((size_t)count * sizeof *v + 4);
    assert_non_null(v);
    for (int64_t i = 0; i < count; i++) {
        v[i] = (float)((int)(next_random() % 33) - 16) / (dtype <= WEFT_DTYPE_F64 ? 4.0f : 1.0f);
        if (dtype == WEFT_DTYPE_U8 || dtype == WEFT_DTYPE_U32 || dtype == WEFT_DTYPE_BOOL)
            v[i] = fabsf(v[i]);
        if (nans && next_random() % 7 == 0)
            v[i] = NAN;
    }
    weft_tensor *t;
    if (view == 1) {
        t = weft_transpose(weft_tensor_from(ctx, WEFT_DTYPE_F32, 3, (int64_t[]){5, n, 3}, v), 0, 2);
    } else if (view == 2) {
        t = weft_slice(weft_tensor_from(ctx, WEFT_DTYPE_F32, 3, wide, v), 1, 1, WEFT_INDEX_NONE, 2);
    } else {
        t = weft_tensor_from(ctx, WEFT_DTYPE_F32, 3, shape, v);
        if (view == 3)
            t = weft_flip(t, 1);
    }
    free(v);
    t = weft_cast(t, dtype);
    return data_of(t);
}

/* Where element k of line `line` along `axis` stands. */
static inline int64_t place(const data *d, int axis, int64_t line, int64_t k)
{
    int64_t inner = 1;
    for (int a = axis + 1; a < d->rank; a++)
        inner *= d->shape[a];
    return line / inner * inner * d->shape[axis] + k * inner + line % inner;
}

static inline bool equal(double a, double b) { return a == b || (a != a && b != b); }

static inline void close_to(double got, double want, double tolerance, const char *what, int64_t at)
{
    if (!equal(got, want) && !(fabs(got - want) <= tolerance))
        fail_msg("%s: element %lld is %.9g, expected %.9g", what, (long long)at, got, want);
}

static inline void expect(weft_tensor *t, int n, const double *want, double tolerance)
{
    double *got = read_all(t);
    assert_int_equal(weft_tensor_numel(t), n);
    for (int i = 0; i < n; i++)
        close_to(got[i], want[i], tolerance, "expect", i);
    free(got);
}
#define EXPECT(t, tolerance, ...) expect(t, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__}, tolerance)

static inline void refuses(weft_status want, const char *part, weft_tensor *t)
{
    assert_int_equal(weft_tensor_status(t), want);
    if (!strstr(weft_tensor_message(t), part))
        fail_msg("\"%s\" does not say \"%s\"", weft_tensor_message(t), part);
}

static inline weft_tensor *floats(int n, const float *v) { return weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){n}, v); }
#define FLOATS(...) floats((int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (float[]){__VA_ARGS__})
static inline weft_tensor *ints(int n, const int32_t *v) { return weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, (int64_t[]){n}, v); }
#define INTS(...) ints((int)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), (int32_t[]){__VA_ARGS__})

#endif
