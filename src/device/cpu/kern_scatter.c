/* kern_scatter.c - out = x with elements of src set or combined at indices along an axis.
 *
 * The result is cut into parts that no two threads share, and every part takes the elements of its lines in the order
 * of the index: the bits do not depend on threads, and of several elements set at one place the last stays. Where lines
 * are few, a part is a range of places along the axis and passes over the indices of the others.
 */
#include "kern.h"

#include "line_ops.h"

enum { D = 8, COPY = 65536, PART_ELEMENTS = 16384, RANGES = 8, RANGES_FROM = 65536 };

typedef struct job {
    const wf_cpu_run *run;
    const char *x, *src;
    char *out;
    const int32_t *index;
    weft_dtype dtype;
    size_t size; /* bytes of an element */
    int kind, axis;
    int64_t shape[D], index_shape[D], x_strides[D], i_strides[D], s_strides[D], out_strides[D], x_at, i_at, s_at;
    int64_t lines, per_part, ranges, numel;
} job;

/* ---- the copy of x ---- */

static void copy_part(void *user, int64_t part, int64_t count, int worker)
{
    (void)count, (void)worker;
    const job *j = user;
    const int64_t end = WF_MIN((part + 1) * COPY, j->numel);
    int64_t n;
    for (int64_t i = part * COPY; i < end; i += n) { /* a run along the last axis */
        int64_t rest = i, at = j->x_at;
        for (int d = D - 1; d >= 0; d--) {
            at += rest % j->shape[d] * j->x_strides[d];
            rest /= j->shape[d];
        }
        n = WF_MIN(end - i, j->shape[D - 1] - i % j->shape[D - 1]);
        const char *from = j->x + at * (int64_t)j->size;
        char *to = j->out + i * (int64_t)j->size;
        const int64_t step = j->x_strides[D - 1] * (int64_t)j->size;
        if (j->x_strides[D - 1] == 1) {
            memcpy(to, from, (size_t)n * j->size);
            continue;
        }
        for (int64_t k = 0; k < n; k++)
            memcpy(to + k * (int64_t)j->size, from + k * step, j->size);
    }
}

/* ---- combining ---- */

static double meet_f(int kind, double a, double b)
{
    switch (kind) {
    case WF_SCATTER_MAX: return a != a || a > b ? a : b;
    case WF_SCATTER_MIN: return a != a || a < b ? a : b;
    default: return b;
    }
}
static float meet_f32(int kind, float a, float b)
{
    return kind == WF_SCATTER_ADD ? a + b : kind == WF_SCATTER_MUL ? a * b : (float)meet_f(kind, (double)a, (double)b);
}
static double meet_f64(int kind, double a, double b)
{
    return kind == WF_SCATTER_ADD ? a + b : kind == WF_SCATTER_MUL ? a * b : meet_f(kind, a, b);
}
static int64_t meet_int(int kind, int64_t a, int64_t b)
{
    switch (kind) {
    case WF_SCATTER_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case WF_SCATTER_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case WF_SCATTER_MAX: return WF_MAX(a, b);
    case WF_SCATTER_MIN: return WF_MIN(a, b);
    default: return b;
    }
}

#define MEET(type, meet) (((type *)(void *)j->out)[to] = (type)meet(j->kind, ((type *)(void *)j->out)[to], ((const type *)(const void *)j->src)[from]))

static void combine(const job *j, int64_t to, int64_t from)
{
    switch (j->dtype) {
    case WEFT_DTYPE_F32: MEET(float, meet_f32); break;
    case WEFT_DTYPE_F64: MEET(double, meet_f64); break;
    case WEFT_DTYPE_I32: MEET(int32_t, meet_int); break;
    case WEFT_DTYPE_U32: MEET(uint32_t, meet_int); break;
    case WEFT_DTYPE_I64: MEET(int64_t, meet_int); break;
    case WEFT_DTYPE_I8: MEET(int8_t, meet_int); break;
    case WEFT_DTYPE_U8: MEET(uint8_t, meet_int); break;
    default: memcpy(j->out + to * (int64_t)j->size, j->src + from * (int64_t)j->size, j->size); break;
    }
}

/* ---- lines ---- */

typedef struct line {
    int64_t out, index, src;
} line;

static line line_at(const job *j, int64_t n)
{
    line l = {0, j->i_at, j->s_at};
    for (int d = D - 1; d >= 0; d--) {
        if (d == j->axis)
            continue;
        const int64_t c = n % j->index_shape[d];
        n /= j->index_shape[d];
        l.out += c * j->out_strides[d];
        l.index += c * j->i_strides[d];
        l.src += c * j->s_strides[d];
    }
    return l;
}

static void lines_part(void *user, int64_t part, int64_t count, int worker)
{
    (void)count, (void)worker;
    const job *j = user;
    const int a = j->axis, side = a == D - 1 ? D - 2 : D - 1;
    const int64_t range = part % j->ranges, extent = j->shape[a], from = extent * range / j->ranges, to = extent * (range + 1) / j->ranges;
    const int64_t end = WF_MIN((part / j->ranges + 1) * j->per_part, j->lines);
    for (int64_t n = part / j->ranges * j->per_part, w; n < end && !wf_kern_cancelled(j->run); n += w) {
        const line l = line_at(j, n);
        w = WF_MIN(end - n, j->index_shape[side] - n % j->index_shape[side]); /* neighbours advance together */
        for (int64_t m = 0; m < j->index_shape[a]; m++)
            for (int64_t c = 0; c < w; c++) {
                const int64_t at = j->index[l.index + m * j->i_strides[a] + c * j->i_strides[side]];
                if (at >= from && at < to)
                    combine(j, l.out + at * j->out_strides[a] + c * j->out_strides[side], l.src + m * j->s_strides[a] + c * j->s_strides[side]);
            }
    }
}

static weft_status read_job(const wf_cpu_run *run, job *j)
{
    const int32_t *w = run->statics;
    *j = (job){.run = run, .x = run->ptr[0], .index = run->ptr[1], .src = run->ptr[2], .out = run->ptr[3], .axis = w[1], .kind = w[2],
               .dtype = wf_kern_dtype(w[48], 0), .x_at = w[45], .i_at = w[46], .s_at = w[47], .lines = 1, .numel = 1};
    WF_TRY(wf_kern_binds("scatter", run, 4));
    if (j->axis < 0 || j->axis >= D || j->kind < 0 || j->kind >= WF_SCATTER_COUNT || j->dtype > WEFT_DTYPE_BOOL)
        return wf_kern_bad("scatter", "axis, kind or dtype");
    const bool only_set = j->dtype == WEFT_DTYPE_F16 || j->dtype == WEFT_DTYPE_BF16 || j->dtype == WEFT_DTYPE_BOOL;
    if (only_set && j->kind != WF_SCATTER_SET)
        return wf_kern_bad("scatter", "combines no elements of this dtype");
    j->size = weft_dtype_block_bytes(j->dtype);
    for (int d = D - 1; d >= 0; d--) {
        j->shape[d] = w[5 + d];
        j->index_shape[d] = w[13 + d];
        j->x_strides[d] = w[21 + d];
        j->i_strides[d] = w[29 + d];
        j->s_strides[d] = w[37 + d];
        j->out_strides[d] = j->numel;
        if (j->shape[d] < 1 || j->index_shape[d] < 1 || (d != j->axis && j->index_shape[d] > j->shape[d]) ||
            !wf_mul_i64(j->numel, j->shape[d], &j->numel) || !wf_mul_i64(j->lines, d == j->axis ? 1 : j->index_shape[d], &j->lines))
            return wf_kern_bad("scatter", "extents");
    }
    if (!wf_kern_in_range(run->size[0], j->size, j->x_at, D, j->shape, j->x_strides) ||
        !wf_kern_in_range(run->size[1], 4, j->i_at, D, j->index_shape, j->i_strides) ||
        !wf_kern_in_range(run->size[2], j->size, j->s_at, D, j->index_shape, j->s_strides) || (uint64_t)j->numel > run->size[3] / j->size)
        return wf_kern_bad("scatter", "an operand leaves its binding");
    return WEFT_OK;
}

weft_status wf_kern_scatter(const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    job j;
    if (epilogue)
        return wf_kern_bad("scatter", "takes no epilogue");
    WF_TRY(read_job(run, &j));
    wf_pool_run(run->pool, copy_part, &j, (j.numel + COPY - 1) / COPY);
    const int64_t m = j.index_shape[j.axis];
    j.per_part = (PART_ELEMENTS + m - 1) / m;
    j.ranges = j.lines < RANGES && m >= RANGES_FROM ? RANGES : 1;
    wf_pool_run(run->pool, lines_part, &j, (j.lines + j.per_part - 1) / j.per_part * j.ranges);
    return wf_kern_done(run);
}
