/* compose_convolution_pool.c - pooling: pad, view the windows, reduce. Adaptive windows of unequal extents are gathered by
 * index tables instead, with the last element of a short window repeated (max) or masked (avg).
 */
#include "compose_convolution.h"

#include <math.h>

typedef struct pool {
    const char *who;
    int nd;
    bool is_max, regular;
    int64_t n[WF_SPATIAL], size[WF_SPATIAL], step[WF_SPATIAL], dilation[WF_SPATIAL], low[WF_SPATIAL], high[WF_SPATIAL], out[WF_SPATIAL];
} pool;

/* First element of window i of an axis, before padding is added, and one past its last inside x (adaptive). */
static int64_t first_of(const pool *p, int axis, int64_t i)
{
    return p->regular ? i * p->step[axis] - p->low[axis] : i * p->n[axis] / p->out[axis];
}
static int64_t end_of(const pool *p, int axis, int64_t i)
{
    return ((i + 1) * p->n[axis] + p->out[axis] - 1) / p->out[axis];
}

/* ---- leaves made axis by axis ---- */

/* [extent] at axis `at` of `rank`. */
static weft_tensor *along(weft_tensor *t, int at, int rank)
{
    int64_t shape[WEFT_MAX_RANK];
    for (int d = 0; d < rank; d++)
        shape[d] = d == at ? weft_tensor_dim(t, 0) : 1;
    return weft_reshape(t, rank, shape);
}

typedef int64_t entry(const pool *p, int axis, int64_t i);
static weft_tensor *table(weft_ctx *ctx, const pool *p, int axis, int64_t n, weft_dtype dtype, entry *f)
{
    int32_t *v = n <= WF_TABLE_MAX ? wf_calloc((size_t)n + 1, sizeof *v) : NULL;
    if (!v)
        return wf_tensor_error(ctx, WEFT_E_OOM, "%s: out of memory", p->who);
    for (int64_t i = 0; i < n; i++) {
        int32_t word = (int32_t)f(p, axis, i);
        float as_float = (float)word;
        memcpy(&v[i], dtype == WEFT_DTYPE_F32 ? (const void *)&as_float : &word, 4);
    }
    weft_tensor *t = weft_tensor_from(ctx, dtype, 1, &n, v);
    wf_free(v);
    return t;
}

/* ---- indices of a max ---- */

static int64_t axis_stride(const pool *p, int axis)
{
    int64_t s = 1;
    for (int i = axis + 1; i < p->nd; i++)
        s *= p->n[i];
    return s;
}
/* Offset along an axis of the winner w, counted row-major in the window. */
static int64_t winner_offset(const pool *p, int axis, int64_t w)
{
    for (int i = p->nd - 1; i > axis; i--)
        w /= p->size[i];
    return w % p->size[axis] * (p->regular ? p->dilation[axis] : 1) * axis_stride(p, axis);
}
static int64_t window_start(const pool *p, int axis, int64_t i) { return first_of(p, axis, i) * axis_stride(p, axis); }
/* The first element of the window that is inside: where all are -inf, padding must not win. */
static int64_t window_inside(const pool *p, int axis, int64_t i)
{
    int64_t at = first_of(p, axis, i), d = p->regular ? p->dilation[axis] : 1;
    return (at >= 0 ? at : at + (-at + d - 1) / d * d) * axis_stride(p, axis);
}

static weft_tensor *flat_index(weft_ctx *ctx, const pool *p, weft_tensor *winner)
{
    weft_tensor *sum = NULL;
    int64_t window = 1;
    for (int i = 0; i < p->nd; i++)
        window *= p->size[i];
    for (int i = 0; i < p->nd; i++) {
        weft_tensor *at = weft_index_select(table(ctx, p, i, window, WEFT_DTYPE_I32, winner_offset), 0, winner);
        at = weft_add(at, along(table(ctx, p, i, p->out[i], WEFT_DTYPE_I32, window_start), i, p->nd));
        if (p->low[i])
            at = weft_maximum(at, along(table(ctx, p, i, p->out[i], WEFT_DTYPE_I32, window_inside), i, p->nd));
        sum = sum ? weft_add(sum, at) : at;
    }
    return sum;
}

/* ---- regular windows ---- */

static weft_status read_pool(pool *p, weft_tensor *x, const int64_t *kernel, const weft_pool_opts *o)
{
    if (!kernel)
        return wf_fail(WEFT_E_VALUE, "%s: kernel is NULL", p->who);
    for (int i = 0; i < p->nd; i++) {
        int64_t n = p->n[i] = weft_tensor_dim(x, 2 + i), k = p->size[i] = kernel[i];
        int64_t s = p->step[i] = o->stride[i] ? o->stride[i] : k, d = p->dilation[i] = o->dilation[i] ? o->dilation[i] : 1;
        int64_t pad = p->low[i] = p->high[i] = o->padding[i];
        if (k < 1 || s < 1 || d < 1 || pad < 0)
            return wf_fail(WEFT_E_VALUE, "%s: axis %d: kernel %lld, stride %lld, dilation %lld, padding %lld", p->who, i, (long long)k, (long long)s,
                           (long long)d, (long long)pad);
        int64_t reach = wf_reach(d, k - 1, 1);
        if (reach < 0)
            return wf_fail(WEFT_E_SHAPE, "%s: axis %d: kernel %lld with dilation %lld is too large", p->who, i, (long long)k, (long long)d);
        if (pad > ((d * (k - 1)) + 1) / 2)
            return wf_fail(WEFT_E_VALUE, "%s: axis %d: padding %lld is more than half of the window's %lld", p->who, i, (long long)pad, (long long)reach);
        int64_t room = n + 2 * pad - reach, up = o->ceil_mode ? s - 1 : 0;
        if (n == 0 || room + up < 0)
            return wf_fail(WEFT_E_SHAPE, "%s: axis %d: a window of %lld does not fit %lld elements", p->who, i, (long long)reach, (long long)(n + 2 * pad));
        p->out[i] = (room + up) / s + 1;
        if (o->ceil_mode && (p->out[i] - 1) * s >= n + pad)
            p->out[i]--; /* a window that would begin beyond x and its left padding */
        int64_t need = (p->out[i] - 1) * s + reach - n - pad;
        if (p->out[i] < 1)
            return wf_fail(WEFT_E_SHAPE, "%s: axis %d: no window", p->who, i);
        p->high[i] = WF_MAX(need, 0);
    }
    return WEFT_OK;
}

static int64_t count_inside(const pool *p, int axis, int64_t i)
{
    int64_t a = first_of(p, axis, i), b = a + p->size[axis];
    return WF_MIN(b, p->n[axis]) - WF_MAX(a, 0);
}
/* With the padding that the caller asked for; what ceil_mode adds does not count. */
static int64_t count_padded(const pool *p, int axis, int64_t i)
{
    int64_t a = first_of(p, axis, i), b = a + p->size[axis];
    return WF_MIN(b, p->n[axis] + p->low[axis]) - a;
}

static weft_tensor *divided(weft_ctx *ctx, const pool *p, weft_tensor *sum, const weft_pool_opts *o)
{
    double window = 1;
    bool even = true;
    for (int i = 0; i < p->nd; i++) {
        window *= (double)p->size[i];
        even &= o->exclude_padding ? p->low[i] == 0 && p->high[i] == 0 : p->high[i] <= p->low[i];
    }
    weft_dtype dtype = weft_tensor_dtype(sum);
    if (o->divisor_override || even)
        return weft_div(sum, weft_full(ctx, dtype, 0, NULL, o->divisor_override ? (double)o->divisor_override : window));
    weft_tensor *by = NULL;
    for (int i = 0; i < p->nd; i++) {
        weft_tensor *n = along(table(ctx, p, i, p->out[i], WEFT_DTYPE_F32, o->exclude_padding ? count_inside : count_padded), i, p->nd);
        by = by ? weft_mul(by, n) : n;
    }
    return weft_div(sum, by);
}

static weft_tensor *run_pool(const char *who, int nd, bool is_max, weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts)
{
    static const weft_pool_opts none;
    const weft_pool_opts *o = opts ? opts : &none;
    pool p = {.who = who, .nd = nd, .is_max = is_max, .regular = true};
    bool batched = true;
    wf_composite c;
    if (!wf_composite_begin(&c, who, 1, WF_INPUTS(x))) {
        if (is_max && o->indices)
            *o->indices = wf_error_again(c.failed);
        return c.failed;
    }
    x = wf_spatial_input(who, x, nd, !is_max, &batched);
    weft_tensor *y = x, *index = NULL;
    if (x->status == WEFT_OK) {
        weft_ctx *ctx = x->ctx;
        weft_dtype dtype = weft_tensor_dtype(x);
        weft_status st = dtype == WEFT_DTYPE_BOOL ? wf_fail(WEFT_E_DTYPE, "%s: input is bool", who) : read_pool(&p, x, kernel, o);
        int axes[WF_SPATIAL];
        for (int i = 0; i < nd; i++)
            axes[i] = 2 + nd + i;
        if (st != WEFT_OK) {
            y = wf_tensor_error_last(ctx, st);
        } else {
            for (int i = 0; i < nd; i++)
                x = wf_pad_axis(x, 2 + i, p.low[i], p.high[i], is_max ? -INFINITY : 0);
            weft_tensor *v = wf_windows(is_max ? x : wf_widened(x), 2, nd, p.out, p.step, p.size, p.dilation);
            y = is_max ? weft_max(v, axes, nd, false) : weft_cast(divided(ctx, &p, weft_sum(v, axes, nd, false), o), dtype);
            y = wf_spatial_result(y, batched);
            if (is_max && o->indices)
                index = wf_spatial_result(flat_index(ctx, &p, weft_argmax(v, axes, nd, false)), batched);
        }
    }
    if (is_max && o->indices)
        *o->indices = wf_composite_give(&c, index ? index : y);
    return wf_composite_end(&c, y);
}

weft_tensor *weft_max_pool1d(weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts)
{
    return run_pool("max_pool1d", 1, true, x, kernel, opts);
}
weft_tensor *weft_max_pool2d(weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts)
{
    return run_pool("max_pool2d", 2, true, x, kernel, opts);
}
weft_tensor *weft_max_pool3d(weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts)
{
    return run_pool("max_pool3d", 3, true, x, kernel, opts);
}

static weft_tensor *avg(const char *who, int nd, weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts)
{
    weft_pool_opts o = {0};
    if (opts)
        o = *opts;
    memset(o.dilation, 0, sizeof o.dilation);
    return run_pool(who, nd, false, x, kernel, &o);
}
weft_tensor *weft_avg_pool1d(weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts) { return avg("avg_pool1d", 1, x, kernel, opts); }
weft_tensor *weft_avg_pool2d(weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts) { return avg("avg_pool2d", 2, x, kernel, opts); }
weft_tensor *weft_avg_pool3d(weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts) { return avg("avg_pool3d", 3, x, kernel, opts); }

/* ---- adaptive ---- */

static weft_status read_adaptive(pool *p, weft_tensor *x, const int64_t *size)
{
    if (!size)
        return wf_fail(WEFT_E_VALUE, "%s: output_size is NULL", p->who);
    p->regular = true;
    for (int i = 0; i < p->nd; i++) {
        int64_t n = p->n[i] = weft_tensor_dim(x, 2 + i), out = p->out[i] = size[i] == -1 ? n : size[i];
        if (out < 0)
            return wf_fail(WEFT_E_VALUE, "%s: output_size %lld of axis %d", p->who, (long long)out, i);
        if (n == 0 || out > WF_TABLE_MAX || n > INT32_MAX)
            return wf_fail(WEFT_E_SHAPE, "%s: axis %d has %lld elements for %lld windows, at most %lld", p->who, i, (long long)n, (long long)out,
                           (long long)WF_TABLE_MAX);
        p->regular &= out > 0 && n % out == 0;
        p->size[i] = p->step[i] = out > 0 ? n / out : 1;
        p->dilation[i] = 1;
    }
    for (int i = 0; !p->regular && i < p->nd; i++) {
        p->size[i] = 1;
        for (int64_t w = 0; w < p->out[i]; w++)
            p->size[i] = WF_MAX(p->size[i], end_of(p, i, w) - first_of(p, i, w));
    }
    return WEFT_OK;
}

static int64_t element_of(const pool *p, int axis, int64_t at)
{
    int64_t w = at / p->size[axis];
    return WF_MIN(first_of(p, axis, w) + at % p->size[axis], end_of(p, axis, w) - 1);
}
static int64_t is_inside(const pool *p, int axis, int64_t at)
{
    int64_t w = at / p->size[axis];
    return first_of(p, axis, w) + at % p->size[axis] < end_of(p, axis, w);
}
static int64_t adaptive_count(const pool *p, int axis, int64_t w) { return end_of(p, axis, w) - first_of(p, axis, w); }

/* [B, C, out, size, ..]: windows gathered axis by axis. */
static weft_tensor *gathered(weft_ctx *ctx, const pool *p, weft_tensor *x)
{
    for (int i = p->nd - 1; i >= 0; i--) {
        weft_tensor *at = table(ctx, p, i, p->out[i] * p->size[i], WEFT_DTYPE_I32, element_of);
        x = weft_index_select(x, 2 + i, weft_reshape(at, 2, (int64_t[]){p->out[i], p->size[i]}));
    }
    return x;
}

static weft_tensor *irregular_mean(weft_ctx *ctx, const pool *p, weft_tensor *v, const int *axes)
{
    weft_tensor *zero = weft_full(ctx, weft_tensor_dtype(v), 0, NULL, 0), *by = NULL;
    for (int i = 0; i < p->nd; i++) {
        int64_t shape[2 * WF_SPATIAL];
        for (int d = 0; d < 2 * p->nd; d++)
            shape[d] = d == 2 * i ? p->out[i] : d == 2 * i + 1 ? p->size[i] : 1;
        weft_tensor *inside = weft_cast(table(ctx, p, i, p->out[i] * p->size[i], WEFT_DTYPE_I32, is_inside), WEFT_DTYPE_BOOL);
        v = weft_where(weft_reshape(inside, 2 * p->nd, shape), v, zero);
        weft_tensor *n = along(table(ctx, p, i, p->out[i], WEFT_DTYPE_F32, adaptive_count), i, p->nd);
        by = by ? weft_mul(by, n) : n;
    }
    return weft_div(weft_sum(v, axes, p->nd, false), by);
}

static weft_tensor *adaptive(const char *who, int nd, bool is_max, weft_tensor *x, const int64_t *size, weft_tensor **indices)
{
    pool p = {.who = who, .nd = nd, .is_max = is_max};
    bool batched = true;
    wf_composite c;
    if (!wf_composite_begin(&c, who, 1, WF_INPUTS(x))) {
        if (indices)
            *indices = wf_error_again(c.failed);
        return c.failed;
    }
    x = wf_spatial_input(who, x, nd, !is_max, &batched);
    weft_tensor *y = x, *index = NULL;
    if (x->status == WEFT_OK) {
        weft_ctx *ctx = x->ctx;
        weft_dtype dtype = weft_tensor_dtype(x);
        weft_status st = dtype == WEFT_DTYPE_BOOL ? wf_fail(WEFT_E_DTYPE, "%s: input is bool", who) : read_adaptive(&p, x, size);
        int axes[WF_SPATIAL];
        for (int i = 0; i < nd; i++)
            axes[i] = p.regular ? 2 + nd + i : 3 + 2 * i;
        if (st != WEFT_OK) {
            y = wf_tensor_error_last(ctx, st);
        } else {
            weft_tensor *v = is_max ? x : wf_widened(x);
            v = p.regular ? wf_windows(v, 2, nd, p.out, p.step, p.size, p.dilation) : gathered(ctx, &p, v);
            y = is_max ? weft_max(v, axes, nd, false)
                       : weft_cast(p.regular ? weft_mean(v, axes, nd, false) : irregular_mean(ctx, &p, v, axes), dtype);
            y = wf_spatial_result(y, batched);
            if (indices)
                index = wf_spatial_result(flat_index(ctx, &p, weft_argmax(v, axes, nd, false)), batched);
        }
    }
    if (indices)
        *indices = wf_composite_give(&c, index ? index : y);
    return wf_composite_end(&c, y);
}

weft_tensor *weft_adaptive_max_pool1d(weft_tensor *x, const int64_t *size, weft_tensor **indices)
{
    return adaptive("adaptive_max_pool1d", 1, true, x, size, indices);
}
weft_tensor *weft_adaptive_max_pool2d(weft_tensor *x, const int64_t *size, weft_tensor **indices)
{
    return adaptive("adaptive_max_pool2d", 2, true, x, size, indices);
}
weft_tensor *weft_adaptive_max_pool3d(weft_tensor *x, const int64_t *size, weft_tensor **indices)
{
    return adaptive("adaptive_max_pool3d", 3, true, x, size, indices);
}
weft_tensor *weft_adaptive_avg_pool1d(weft_tensor *x, const int64_t *size) { return adaptive("adaptive_avg_pool1d", 1, false, x, size, NULL); }
weft_tensor *weft_adaptive_avg_pool2d(weft_tensor *x, const int64_t *size) { return adaptive("adaptive_avg_pool2d", 2, false, x, size, NULL); }
weft_tensor *weft_adaptive_avg_pool3d(weft_tensor *x, const int64_t *size) { return adaptive("adaptive_avg_pool3d", 3, false, x, size, NULL); }
