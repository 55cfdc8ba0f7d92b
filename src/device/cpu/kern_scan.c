/* kern_scan.c - running sums, products, log-sum-exps and extremes along the lines of a tensor.
 *
 * A line is walked in order, in f64 for floats, so the bits do not depend on threads. Where neighbouring lines lie
 * closer in memory than the elements of one, many of them advance together. Sums of dense f32 have vector loops.
 */
#include "kern.h"

#include <math.h>

#include "line_ops.h"
#include "vec_ops.h"

enum {
    WIDE = 32,
    WIDE_SUMS = 2048, /* whole pages of memory; their f64 sums fit the first-level cache */
    PART_ELEMENTS = 16384
};

weft_status wf_kern_lines_read(const char *row, const wf_cpu_run *run, wf_kern_lines *l)
{
    const int32_t *w = run->statics;
    *l = (wf_kern_lines){.lines = w[0], .n = w[1], .x_at = w[2], .x_step = w[3], .out_step = w[4], .kind = w[5], .x = run->ptr[0],
                         .out = run->ptr[1], .dtype = wf_kern_dtype(w[27], 0), .out_dtype = wf_kern_dtype(w[27], 1)};
    WF_TRY(wf_kern_binds(row, run, 2));
    int64_t lines = 1, ext[8], xs[8], os[8];
    for (int i = 0; i < 7; i++) {
        l->extents[i] = ext[i] = w[6 + i];
        l->x_strides[i] = xs[i] = w[13 + i];
        l->out_strides[i] = os[i] = w[20 + i];
        if (ext[i] < 1 || !wf_mul_i64(lines, ext[i], &lines))
            return wf_kern_bad(row, "extents");
    }
    ext[7] = l->n;
    xs[7] = l->x_step;
    os[7] = l->out_step;
    if (l->lines != lines || l->n < 1 || l->dtype > WEFT_DTYPE_BOOL || l->out_dtype > WEFT_DTYPE_BOOL)
        return wf_kern_bad(row, "extents or dtype");
    if (!wf_kern_in_range(run->size[0], weft_dtype_block_bytes(l->dtype), l->x_at, 8, ext, xs) ||
        !wf_kern_in_range(run->size[1], weft_dtype_block_bytes(l->out_dtype), 0, 8, ext, os))
        return wf_kern_bad(row, "an operand leaves its binding");
    return WEFT_OK;
}

/* log(exp(a) + exp(b)) */
static double log_add(double a, double b)
{
    const double high = a > b || a != a ? a : b, low = high == a ? b : a;
    if (isinf(high) || high != high || low != low)
        return low != low ? low : high;
    return high + log1p(exp(low - high));
}

/* w lines, side by side: element i of line c at x + i * x_step + c * x_side. */
typedef struct walk {
    const wf_kern_lines *l;
    int64_t x, out, x_side, out_side;
    int w;
} walk;

#define AS(type) ((const type *)x)
#define NAME scan_f32
#define OUT float
#define ACC double
#define LOAD(x, i) (double)AS(float)[i]
#define NOTHING -INFINITY
#include "kern_scan_loops.inc"
#define NAME scan_f16
#define OUT float
#define ACC double
#define LOAD(x, i) (double)wf_kern_load(x, WEFT_DTYPE_F16, i)
#define NOTHING -INFINITY
#include "kern_scan_loops.inc"
#define NAME scan_bf16
#define OUT float
#define ACC double
#define LOAD(x, i) (double)wf_kern_load(x, WEFT_DTYPE_BF16, i)
#define NOTHING -INFINITY
#include "kern_scan_loops.inc"
#define NAME scan_f64
#define OUT double
#define ACC double
#define LOAD(x, i) AS(double)[i]
#define NOTHING -INFINITY
#include "kern_scan_loops.inc"
#define NAME scan_32 /* unsigned: sums wrap, and those of i32 have the same bits */
#define OUT uint32_t
#define ACC uint32_t
#define LOAD(x, i) AS(uint32_t)[i]
#define NOTHING 0
#include "kern_scan_loops.inc"
#define NAME scan_64
#define OUT uint64_t
#define ACC uint64_t
#define LOAD(x, i) AS(uint64_t)[i]
#define NOTHING 0
#include "kern_scan_loops.inc"

/* Lines side by side, or elements of one, where they are dense on both ends. */
static bool dense_sides(const wf_kern_lines *l) { return l->x_strides[6] == 1 && l->out_strides[6] == 1; }

static void sum_f32(const walk *k)
{
    const wf_vec_ops *ops = wf_vec_ops_get();
    const wf_kern_lines *l = k->l;
    const float *x = (const float *)l->x + k->x;
    float *out = (float *)l->out + k->out;
    double acc[WIDE_SUMS];
    if (k->w == 1 && l->x_step == 1 && l->out_step == 1) {
        acc[0] = 0;
        ops->sum_along(acc, x, out, l->n);
    } else if (dense_sides(l)) {
        memset(acc, 0, (size_t)k->w * sizeof *acc);
        ops->sum_side(acc, x, l->x_step, out, l->out_step, l->n, k->w);
    } else {
        scan_f32(k);
    }
}

static void scan_index(const walk *k)
{
    const wf_kern_lines *l = k->l;
    int32_t *out = l->out;
    for (int c = 0; c < k->w; c++) {
        uint64_t best = 0;
        int32_t index = 0;
        for (int64_t i = 0; i < l->n; i++) {
            uint64_t key = wf_kern_key(l->x, l->dtype, k->x + i * l->x_step + c * k->x_side);
            const bool is_nan = key == UINT64_MAX && weft_dtype_is_float(l->dtype); /* it stays above all; of i64 this is the largest */
            if (l->kind == WF_SCAN_MIN_INDEX && !is_nan)
                key = weft_dtype_is_float(l->dtype) ? UINT64_MAX - 1 - key : ~key;
            if (i == 0 || key >= best) {
                best = key;
                index = (int32_t)i;
            }
            out[k->out + i * l->out_step + c * k->out_side] = index;
        }
    }
}

typedef struct job {
    const wf_cpu_run *run;
    wf_kern_lines l;
    int64_t per_part; /* lines */
    int64_t wide;     /* lines that advance together, at most */
    void (*scan)(const walk *k);
} job;

static void part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count, (void)worker;
    const job *j = user;
    const wf_kern_lines *l = &j->l;
    const int64_t end = WF_MIN((index + 1) * j->per_part, l->lines);
    for (int64_t line = index * j->per_part; line < end && !wf_kern_cancelled(j->run);) {
        walk k = {.l = l, .x_side = l->x_strides[6], .out_side = l->out_strides[6], .w = 1};
        if (j->wide > 1)
            k.w = (int)WF_MIN(WF_MIN(end - line, l->extents[6] - line % l->extents[6]), j->wide);
        wf_kern_line_at(l, line, &k.x, &k.out);
        j->scan(&k);
        line += k.w;
    }
}

static void (*scan_of(const wf_kern_lines *l))(const walk *)
{
    if (l->kind >= WF_SCAN_MAX_INDEX)
        return l->out_dtype == WEFT_DTYPE_I32 ? scan_index : NULL;
    switch (l->dtype) {
    case WEFT_DTYPE_F32: return l->out_dtype != WEFT_DTYPE_F32 ? NULL : l->kind == WF_SCAN_SUM ? sum_f32 : scan_f32;
    case WEFT_DTYPE_F16: return l->out_dtype == WEFT_DTYPE_F32 ? scan_f16 : NULL;
    case WEFT_DTYPE_BF16: return l->out_dtype == WEFT_DTYPE_F32 ? scan_bf16 : NULL;
    case WEFT_DTYPE_F64: return l->out_dtype == WEFT_DTYPE_F64 ? scan_f64 : NULL;
    case WEFT_DTYPE_I32:
    case WEFT_DTYPE_U32: return l->out_dtype == l->dtype ? scan_32 : NULL;
    case WEFT_DTYPE_I64: return l->out_dtype == l->dtype ? scan_64 : NULL;
    default: return NULL;
    }
}

weft_status wf_kern_scan(const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    job j = {.run = run};
    if (epilogue)
        return wf_kern_bad("scan", "takes no epilogue");
    WF_TRY(wf_kern_lines_read("scan", run, &j.l));
    j.scan = scan_of(&j.l);
    if (!j.scan || j.l.kind < 0 || j.l.kind >= WF_SCAN_COUNT)
        return wf_kern_bad("scan", "kind or dtype");
    const int64_t side = j.l.x_strides[6] < 0 ? -j.l.x_strides[6] : j.l.x_strides[6];
    j.wide = side >= (j.l.x_step < 0 ? -j.l.x_step : j.l.x_step) ? 1 : WIDE;
    const int64_t parts = wf_pool_size(run->pool);
    if (j.wide > 1 && j.scan == sum_f32 && dense_sides(&j.l)) /* as wide as leaves each thread its parts */
        j.wide = WF_MAX(WF_MIN((j.l.lines + parts - 1) / parts, WIDE_SUMS), WIDE);
    j.per_part = WF_MAX((PART_ELEMENTS + j.l.n - 1) / j.l.n, j.wide);
    wf_pool_run(run->pool, part, &j, (j.l.lines + j.per_part - 1) / j.per_part);
    return wf_kern_done(run);
}
