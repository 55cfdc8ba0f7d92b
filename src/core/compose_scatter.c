/* compose_scatter.c - scatter and what is written over it: sums at indices, slices along an axis. */
#include "compose_lines.h"
#include "weft/ops_indexing.h"

/* Combined in a dtype that the kernels combine in, and back. index is checked. */
static weft_tensor *combine(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src, wf_scatter_kind kind)
{
    weft_dtype dtype = wf_dtype_of(x);
    src = weft_cast(src, dtype);
    if (kind == WF_SCATTER_SET)
        return wf_scatter(x, axis, index, src, kind);
    weft_dtype in = wf_is_half(x) ? WEFT_DTYPE_F32 : dtype == WEFT_DTYPE_BOOL ? WEFT_DTYPE_I32 : dtype;
    return weft_cast(wf_scatter(weft_cast(x, in), axis, index, weft_cast(src, in), kind), dtype);
}

/* index fits x, src fits index; all with an axis at least. Writes the operands as the node takes them. */
static weft_status fit(const char *who, weft_tensor **x, int *axis, weft_tensor **index, weft_tensor **src)
{
    WF_TRY(wf_require_plain(who, *x));
    WF_TRY(wf_require_plain(who, *src));
    WF_TRY(wf_require_index(who, *index));
    WF_TRY(wf_line(who, x, axis));
    if (weft_tensor_rank(*index) == 0)
        *index = weft_reshape(*index, 1, (int64_t[]){1});
    const wf_view *xv = &(*x)->view, *iv = &(*index)->view;
    char tx[200], ti[200], ts[200];
    wf_view_format(xv, tx, sizeof tx);
    wf_view_format(iv, ti, sizeof ti);
    wf_view_format(&(*src)->view, ts, sizeof ts);
    bool fits = xv->rank == iv->rank;
    for (int d = 0; fits && d < xv->rank; d++)
        fits = d == *axis || iv->shape[d] <= xv->shape[d];
    if (!fits)
        return wf_fail(WEFT_E_SHAPE, "%s: index %s does not fit input %s along axis %d", who, ti, tx, *axis);
    if (wf_view_numel(iv) > 0 && xv->shape[*axis] == 0)
        return wf_fail(WEFT_E_INDEX, "%s: axis %d is empty", who, *axis);
    if (weft_tensor_rank(*src) == 0) {
        *src = weft_expand(*src, iv->rank, iv->shape);
        return weft_tensor_status(*src);
    }
    fits = weft_tensor_rank(*src) == iv->rank;
    for (int d = 0; fits && d < iv->rank; d++)
        fits = iv->shape[d] <= weft_tensor_dim(*src, d);
    if (!fits)
        return wf_fail(WEFT_E_SHAPE, "%s: src %s is smaller than index %s", who, ts, ti);
    for (int d = 0; d < iv->rank; d++)
        *src = weft_slice(*src, d, 0, iv->shape[d], 1);
    return WEFT_OK;
}

static bool begin(wf_composite *c, const char *who, weft_tensor **x, int *axis, weft_tensor **index, weft_tensor **src)
{
    if (!wf_composite_begin(c, who, 3, WF_INPUTS(*x, *index, *src)))
        return false;
    weft_status st = fit(who, x, axis, index, src);
    if (st == WEFT_OK) {
        *index = wf_checked_index(*index, weft_tensor_dim(*x, *axis));
        return true;
    }
    c->failed = wf_composite_end(c, wf_tensor_error_last(c->ctx, st));
    return false;
}

static weft_tensor *finish(wf_composite *c, weft_tensor *x, weft_tensor *result)
{
    return wf_composite_end(c, weft_tensor_rank(x) == 0 ? weft_reshape(result, 0, NULL) : result);
}

static weft_tensor *scatter(const char *who, weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src, wf_scatter_kind kind)
{
    wf_composite c;
    weft_tensor *line = x, *given = src;
    if (!begin(&c, who, &line, &axis, &index, &src))
        return c.failed;
    if (wf_numbers_fit(who, 1, &given, wf_dtype_of(x)) != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, WEFT_E_VALUE));
    return finish(&c, x, combine(line, axis, index, src, kind));
}

weft_tensor *weft_scatter(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src)
{
    return scatter("scatter", x, axis, index, src, WF_SCATTER_SET);
}

weft_tensor *weft_scatter_add(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src)
{
    return scatter("scatter_add", x, axis, index, src, WF_SCATTER_ADD);
}

/* ---- scatter_reduce ---- */

/* x with 0 or 1 where an index points. */
static weft_tensor *without_self(weft_tensor *x, int axis, weft_tensor *index, double start)
{
    weft_ctx *ctx = weft_tensor_ctx(x);
    weft_tensor *none = weft_zeros(ctx, WEFT_DTYPE_BOOL, weft_tensor_rank(x), weft_tensor_shape(x));
    weft_tensor *all = weft_full(ctx, WEFT_DTYPE_BOOL, weft_tensor_rank(index), weft_tensor_shape(index), 1);
    return weft_where(wf_scatter(none, axis, index, all, WF_SCATTER_SET), wf_const_like(x, start), x);
}

static weft_tensor *mean(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src, bool include_self)
{
    weft_ctx *ctx = weft_tensor_ctx(x);
    weft_dtype dtype = wf_dtype_of(x), wide = dtype == WEFT_DTYPE_F64 ? dtype : WEFT_DTYPE_F32;
    weft_tensor *start = include_self ? x : without_self(x, axis, index, 0);
    weft_tensor *ones = weft_full(ctx, WEFT_DTYPE_I32, weft_tensor_rank(x), weft_tensor_shape(x), 1);
    weft_tensor *each = weft_full(ctx, WEFT_DTYPE_I32, weft_tensor_rank(index), weft_tensor_shape(index), 1);
    weft_tensor *n = wf_scatter(include_self ? ones : without_self(ones, axis, index, 0), axis, index, each, WF_SCATTER_ADD);
    weft_tensor *sum = wf_is_float(x) ? wf_scatter(weft_cast(start, wide), axis, index, weft_cast(src, wide), WF_SCATTER_ADD)
                                      : combine(start, axis, index, src, WF_SCATTER_ADD);
    weft_tensor *v = weft_div(weft_cast(sum, wide), weft_cast(n, wide));
    return weft_cast(wf_is_float(x) ? v : weft_floor(v), dtype);
}

weft_tensor *weft_scatter_reduce(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src, const char *reduce, bool include_self)
{
    static const char *const names[] = {"sum", "prod", "amax", "amin", "mean"};
    static const wf_scatter_kind kinds[] = {WF_SCATTER_ADD, WF_SCATTER_MUL, WF_SCATTER_MAX, WF_SCATTER_MIN};
    wf_composite c;
    weft_tensor *line = x;
    size_t k = 0;
    if (!begin(&c, "scatter_reduce", &line, &axis, &index, &src))
        return c.failed;
    while (k < WF_COUNT(names) && (!reduce || strcmp(names[k], reduce) != 0))
        k++;
    if (k == WF_COUNT(names))
        return wf_composite_fail(&c, WEFT_E_VALUE, "reduce is \"%.20s\", not sum, prod, mean, amax or amin", reduce ? reduce : "NULL");
    if (k == 4)
        return finish(&c, x, mean(line, axis, index, src, include_self));
    if (include_self)
        return finish(&c, x, combine(line, axis, index, src, kinds[k]));
    /* An extreme of src alone starts from one of its own elements. */
    weft_tensor *start = k >= 2 ? combine(line, axis, index, src, WF_SCATTER_SET) : without_self(line, axis, index, k == 1);
    return finish(&c, x, combine(start, axis, index, src, kinds[k]));
}

/* ---- slices ---- */

/* A checked rank-1 index in the shape of src. */
static weft_status spread(const char *who, weft_tensor *x, int axis, weft_tensor *src, weft_tensor **index)
{
    int rank = weft_tensor_rank(x);
    int64_t shape[WEFT_MAX_RANK], m = weft_tensor_numel(*index);
    char ts[200], tx[200];
    WF_TRY(wf_require_index(who, *index));
    if (weft_tensor_rank(*index) > 1)
        return wf_fail(WEFT_E_SHAPE, "%s: index has rank %d, expected 0 or 1", who, weft_tensor_rank(*index));
    wf_view_format(&src->view, ts, sizeof ts);
    wf_view_format(&x->view, tx, sizeof tx);
    bool fits = weft_tensor_rank(src) == rank;
    for (int d = 0; fits && d < rank; d++)
        fits = weft_tensor_dim(src, d) == (d == axis ? m : weft_tensor_dim(x, d));
    if (!fits)
        return wf_fail(WEFT_E_SHAPE, "%s: src %s does not fit input %s with %lld indices on axis %d", who, ts, tx, (long long)m, axis);
    if (m > 0 && weft_tensor_dim(x, axis) == 0)
        return wf_fail(WEFT_E_INDEX, "%s: axis %d is empty", who, axis);
    for (int d = 0; d < rank; d++)
        shape[d] = d == axis ? m : 1;
    weft_tensor *flat = wf_checked_index(weft_reshape(*index, 1, &m), weft_tensor_dim(x, axis));
    *index = weft_expand(weft_reshape(flat, rank, shape), rank, weft_tensor_shape(src));
    return weft_tensor_status(*index);
}

static weft_tensor *slices(const char *who, weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src, bool fills, double alpha,
                           wf_scatter_kind kind)
{
    wf_composite c;
    weft_tensor *line = x;
    if (!wf_composite_begin(&c, who, 3, WF_INPUTS(x, index, src)))
        return c.failed;
    weft_status st = wf_require_plain(who, x);
    if (st == WEFT_OK)
        st = wf_numbers_fit(who, 1, &src, wf_dtype_of(x));
    if (st == WEFT_OK)
        st = wf_line(who, &line, &axis);
    if (st == WEFT_OK && fills) {
        int64_t shape[WEFT_MAX_RANK];
        for (int d = 0; d < weft_tensor_rank(line); d++)
            shape[d] = d == axis ? weft_tensor_numel(index) : weft_tensor_dim(line, d);
        if (weft_tensor_numel(src) != 1)
            return wf_composite_fail(&c, WEFT_E_SHAPE, "value has %lld elements, expected 1", (long long)weft_tensor_numel(src));
        src = weft_expand(weft_reshape(src, 0, NULL), weft_tensor_rank(line), shape);
    } else if (st == WEFT_OK && weft_tensor_rank(src) == 0 && weft_tensor_rank(x) == 0) {
        src = weft_reshape(src, 1, (int64_t[]){1});
    }
    if (st == WEFT_OK)
        st = spread(who, line, axis, src, &index);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    if (alpha != 1)
        src = weft_mul(weft_cast(src, wf_dtype_of(x)), wf_const_like(x, alpha));
    return finish(&c, x, combine(line, axis, index, src, kind));
}

weft_tensor *weft_index_add(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src, double alpha)
{
    return slices("index_add", x, axis, index, src, false, alpha, WF_SCATTER_ADD);
}
weft_tensor *weft_index_copy(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src)
{
    return slices("index_copy", x, axis, index, src, false, 1, WF_SCATTER_SET);
}
weft_tensor *weft_index_fill(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *value)
{
    return slices("index_fill", x, axis, index, value, true, 1, WF_SCATTER_SET);
}
