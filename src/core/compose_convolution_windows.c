/* compose_convolution_windows.c - padding, sliding windows and their sums: what convolution and pooling are made of.
 *
 * A window is a view: its elements and its positions are axes of one storage, overlaps and all. So a pool is pad,
 * view, reduction, and a convolution is pad, view, matrix product. The way back (fold) is a gather: which elements of
 * which windows fall on a place is known on the host, axis by axis, and the index of a column is the sum of what
 * each axis says.
 */
#include "compose_convolution.h"

weft_tensor *wf_spatial_input(const char *who, weft_tensor *x, int nd, bool floats, bool *batched)
{
    weft_tensor *r;
    if (!wf_enter(who, 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    weft_status st = floats ? wf_require_float(who, x) : wf_require_plain(who, x);
    int rank = x->view.rank;
    if (st == WEFT_OK && rank != nd + 1 && rank != nd + 2) {
        char text[200];
        wf_view_format(&x->view, text, sizeof text);
        st = wf_fail(WEFT_E_SHAPE, "%s: input is %s, expected rank %d, or %d without a batch", who, text, nd + 2, nd + 1);
    }
    *batched = rank == nd + 2;
    r = st == WEFT_OK ? x : wf_tensor_error_last(ctx, st);
    wf_leave(ctx, r);
    return st == WEFT_OK && !*batched ? weft_unsqueeze(x, 0) : r;
}

weft_tensor *wf_spatial_result(weft_tensor *y, bool batched)
{
    return batched || y->status != WEFT_OK ? y : weft_squeeze(y, 0);
}

weft_tensor *wf_pad_axis(weft_tensor *x, int axis, int64_t before, int64_t after, double value)
{
    if (x->status != WEFT_OK || (before == 0 && after == 0))
        return x;
    int64_t shape[WEFT_MAX_RANK];
    weft_tensor *parts[3];
    int n = 0, rank = weft_tensor_rank(x);
    memcpy(shape, weft_tensor_shape(x), sizeof *shape * (size_t)rank);
    weft_dtype dtype = weft_tensor_dtype(x);
    shape[axis] = before;
    if (before)
        parts[n++] = weft_full(x->ctx, dtype, rank, shape, value);
    parts[n++] = x;
    shape[axis] = after;
    if (after)
        parts[n++] = weft_full(x->ctx, dtype, rank, shape, value);
    return weft_cat(parts, n, axis);
}

weft_tensor *wf_windows(weft_tensor *x, int axis, int nd, const int64_t *count, const int64_t *step, const int64_t *size,
                        const int64_t *dilation)
{
    weft_tensor *r;
    if (!wf_enter("windows", 1, &x, &r))
        return r;
    wf_view v = x->view;
    bool empty = false;
    int rank = v.rank;
    v.rank += nd;
    for (int i = 0; i < nd; i++) {
        int64_t stride = x->view.strides[axis + i];
        v.shape[axis + i] = count[i];
        v.strides[axis + i] = count[i] > 1 ? stride * step[i] : 0;
        v.shape[rank + i] = size[i];
        v.strides[rank + i] = size[i] > 1 ? stride * dilation[i] : 0;
    }
    for (int k = 0; k < v.rank; k++)
        empty |= v.shape[k] == 0;
    if (empty) {
        v.offset = 0;
        memset(v.strides, 0, sizeof v.strides);
    }
    weft_ctx *ctx = x->ctx;
    return wf_leave(ctx, wf_tensor_new(ctx, x->node, &v));
}

weft_tensor *wf_widened(weft_tensor *x)
{
    weft_dtype d = weft_tensor_dtype(x);
    return x->status == WEFT_OK && (d == WEFT_DTYPE_F16 || d == WEFT_DTYPE_BF16) ? weft_cast(x, WEFT_DTYPE_F32) : x;
}

/* ---- fold ---- */

typedef struct fold_axis {
    int64_t out, size, count, step, dilation, before;
    int64_t k_stride, t_stride; /* in a column of the flattened windows */
    int64_t most;               /* windows that meet in one place, at most */
} fold_axis;

/* Window of place o for element k; -1: none. */
static int64_t window_at(const fold_axis *a, int64_t o, int64_t k)
{
    int64_t t = o + a->before - k * a->dilation;
    return t >= 0 && t % a->step == 0 && t / a->step < a->count ? t / a->step : -1;
}

/* Index [out, most] i32 into a column and, unless every place has all, the mask of what is there. */
static weft_status fold_tables(weft_ctx *ctx, fold_axis *a, weft_tensor **index, weft_tensor **mask)
{
    bool whole = true;
    a->most = 1;
    for (int64_t o = 0; o < a->out; o++) {
        int64_t n = 0;
        for (int64_t k = 0; k < a->size; k++)
            n += window_at(a, o, k) >= 0;
        a->most = WF_MAX(a->most, n);
    }
    int64_t n;
    if (!wf_mul_i64(a->out, a->most, &n) || n > INT32_MAX)
        return wf_fail(WEFT_E_SHAPE, "fold: %lld places of %lld elements", (long long)a->out, (long long)a->most);
    int32_t *at = wf_calloc((size_t)n + 1, sizeof *at);
    uint8_t *there = wf_calloc((size_t)n + 1, 1);
    weft_status st = at && there ? WEFT_OK : WEFT_E_OOM;
    for (int64_t o = 0; st == WEFT_OK && o < a->out; o++) {
        int64_t m = 0;
        for (int64_t k = 0; k < a->size; k++) {
            int64_t t = window_at(a, o, k);
            if (t < 0)
                continue;
            at[o * a->most + m] = (int32_t)(k * a->k_stride + t * a->t_stride);
            there[o * a->most + m++] = 1;
        }
        whole &= m == a->most;
    }
    if (st == WEFT_OK) {
        int64_t shape[2] = {a->out, a->most};
        *index = weft_tensor_from(ctx, WEFT_DTYPE_I32, 2, shape, at);
        *mask = whole ? NULL : weft_tensor_from(ctx, WEFT_DTYPE_BOOL, 2, shape, there);
    }
    wf_free(at);
    wf_free(there);
    return st;
}

/* [out, most] at axes 2i and 2i + 1 of 2 nd. */
static weft_tensor *at_axes(weft_tensor *t, int i, int nd)
{
    int64_t shape[2 * WF_SPATIAL];
    for (int d = 0; d < 2 * nd; d++)
        shape[d] = d / 2 == i ? weft_tensor_dim(t, d % 2) : 1;
    return weft_reshape(t, 2 * nd, shape);
}

weft_tensor *wf_fold_windows(weft_tensor *cols, int nd, const int64_t *out, const int64_t *size, const int64_t *count,
                             const int64_t *step, const int64_t *dilation, const int64_t *before)
{
    if (cols->status != WEFT_OK)
        return cols;
    weft_ctx *ctx = cols->ctx;
    int64_t B = weft_tensor_dim(cols, 0), C = weft_tensor_dim(cols, 1), places = 1, column = 1;
    for (int i = 0; i < nd; i++) {
        if (!wf_mul_i64(column, size[i], &column) || !wf_mul_i64(column, count[i], &column) || !wf_mul_i64(places, out[i], &places) ||
            column > INT32_MAX || places > INT32_MAX)
            return wf_tensor_error(ctx, WEFT_E_SHAPE, "fold: a channel has more than 2^31 - 1 elements");
    }
    int64_t shape[WEFT_MAX_RANK] = {B, C};
    for (int i = 0; i < nd; i++)
        shape[2 + i] = out[i];
    if (column == 0 || places == 0)
        return weft_full(ctx, weft_tensor_dtype(cols), 2 + nd, shape, 0);
    weft_tensor *index = NULL, *mask = NULL;
    int64_t t_stride = 1, k_stride = 1;
    for (int i = 0; i < nd; i++)
        k_stride *= count[i];
    for (int i = nd - 1; i >= 0; i--) {
        fold_axis a = {out[i], size[i], count[i], step[i], dilation[i], before[i], k_stride, t_stride, 0};
        weft_tensor *at = NULL, *there = NULL;
        weft_status st = fold_tables(ctx, &a, &at, &there);
        if (st != WEFT_OK)
            return wf_tensor_error_last(ctx, st);
        at = at_axes(at, i, nd);
        index = index ? weft_add(index, at) : at;
        if (there)
            mask = mask ? weft_mul(mask, at_axes(there, i, nd)) : at_axes(there, i, nd);
        t_stride *= count[i];
        k_stride *= size[i];
    }
    weft_dtype dtype = weft_tensor_dtype(cols);
    weft_tensor *flat = weft_reshape(cols, 3, (int64_t[]){B, C, column});
    weft_tensor *terms = weft_index_select(flat, 2, index);
    if (mask)
        terms = weft_where(mask, terms, weft_full(ctx, dtype, 0, NULL, 0));
    int axes[WF_SPATIAL];
    for (int i = 0; i < nd; i++)
        axes[i] = 3 + 2 * i;
    return weft_sum(terms, axes, nd, false);
}
