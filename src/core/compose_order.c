/* compose_order.c - extremes with their indices, medians and quantiles: reductions and the sorted order of a line. */
#include "compose_lines.h"
#include "weft/ops_pointwise.h"
#include "weft/ops_reduction.h"

/* The element of every line whose index, with extent 1 on the axis, is `at`. */
static weft_tensor *finish(wf_composite *c, weft_tensor *x, weft_tensor *line, int axis, weft_tensor *at, bool keepdim, weft_tensor **indices)
{
    weft_tensor *v = weft_gather(line, axis, at);
    if (weft_tensor_rank(x) == 0 || !keepdim) {
        v = weft_squeeze(v, axis);
        at = weft_squeeze(at, axis);
    }
    if (indices)
        *indices = wf_composite_give(c, at);
    return wf_composite_end(c, v);
}

weft_tensor *weft_max_along(weft_tensor *x, int axis, bool keepdim, weft_tensor **indices)
{
    wf_composite c;
    weft_tensor *line = x;
    if (!wf_begin_line(&c, "max", &line, &axis, true))
        return wf_refuse_both(c.failed, indices);
    return finish(&c, x, line, axis, weft_argmax(line, &axis, 1, true), keepdim, indices);
}

weft_tensor *weft_min_along(weft_tensor *x, int axis, bool keepdim, weft_tensor **indices)
{
    wf_composite c;
    weft_tensor *line = x;
    if (!wf_begin_line(&c, "min", &line, &axis, true))
        return wf_refuse_both(c.failed, indices);
    return finish(&c, x, line, axis, weft_argmin(line, &axis, 1, true), keepdim, indices);
}

/* ---- medians ---- */

weft_tensor *weft_median_along(weft_tensor *x, int axis, bool keepdim, weft_tensor **indices)
{
    wf_composite c;
    weft_tensor *line = x;
    if (!wf_begin_line(&c, "median", &line, &axis, true))
        return wf_refuse_both(c.failed, indices);
    int64_t middle = (weft_tensor_dim(line, axis) - 1) / 2;
    weft_tensor *at = weft_slice(wf_order(line, axis, false), axis, middle, middle + 1, 1);
    if (wf_is_float(line)) { /* a NaN is what argmax finds */
        weft_tensor *first = weft_argmax(line, &axis, 1, true);
        at = weft_where(wf_isnan(weft_gather(line, axis, first)), first, at);
    }
    return finish(&c, x, line, axis, at, keepdim, indices);
}

weft_tensor *weft_nanmedian_along(weft_tensor *x, int axis, bool keepdim, weft_tensor **indices)
{
    wf_composite c;
    weft_tensor *line = x;
    if (!wf_begin_line(&c, "nanmedian", &line, &axis, true))
        return wf_refuse_both(c.failed, indices);
    weft_tensor *n = weft_sum(weft_eq(line, line), &axis, 1, true); /* NaN comes last in the order */
    weft_tensor *middle = weft_cast(weft_floor(weft_mul(weft_cast(weft_sub(n, wf_const_like(n, 1)), WEFT_DTYPE_F32),
                                                        weft_full(c.ctx, WEFT_DTYPE_F32, 0, NULL, 0.5))), WEFT_DTYPE_I32);
    middle = weft_maximum(middle, wf_const_like(middle, 0));
    return finish(&c, x, line, axis, weft_gather(wf_order(line, axis, false), axis, middle), keepdim, indices);
}

static weft_tensor *of_all(const char *who, weft_tensor *x, weft_tensor *(*along)(weft_tensor *, int, bool, weft_tensor **))
{
    wf_composite c;
    if (!wf_composite_begin(&c, who, 1, 1, &x))
        return c.failed;
    return wf_composite_end(&c, along(weft_reshape(x, 1, (int64_t[]){-1}), 0, false, NULL));
}

weft_tensor *weft_median(weft_tensor *x) { return of_all("median", x, weft_median_along); }
weft_tensor *weft_nanmedian(weft_tensor *x) { return of_all("nanmedian", x, weft_nanmedian_along); }

/* ---- quantiles ---- */

static weft_tensor *inside(weft_tensor *q)
{
    return weft_logical_and(weft_ge(q, wf_const_like(q, 0)), weft_le(q, wf_const_like(q, 1)));
}

/* Of lines along `axis`: [.., Q, ..] where x has [.., N, ..]. */
static weft_tensor *between(weft_tensor *x, int axis, weft_tensor *q)
{
    int64_t last = weft_tensor_dim(x, axis) - 1;
    weft_tensor *sorted = weft_gather(x, axis, wf_order(x, axis, false));
    weft_tensor *at = weft_mul(wf_checked_values(q, inside(q), WF_CHECK_FRACTIONS), wf_const_like(q, (double)last));
    weft_tensor *below = weft_floor(at), *part = weft_sub(at, below), *low = weft_cast(below, WEFT_DTYPE_I32);
    weft_tensor *high = weft_minimum(weft_add(low, wf_const_like(low, 1)), wf_const_like(low, (double)last));
    int64_t shape[WEFT_MAX_RANK];
    for (int d = 0; d < weft_tensor_rank(x); d++)
        shape[d] = d == axis ? -1 : 1;
    part = weft_cast(weft_reshape(part, weft_tensor_rank(x), shape), wf_dtype_of(x));
    weft_tensor *a = weft_index_select(sorted, axis, low), *b = weft_index_select(sorted, axis, high);
    /* An infinity less itself is NaN: equal neighbours stay as they are. */
    weft_tensor *v = weft_where(weft_eq(a, b), a, weft_add(a, weft_mul(weft_sub(b, a), part)));
    weft_tensor *top = weft_max(x, &axis, 1, true);
    return weft_where(wf_isnan(top), top, v);
}

weft_tensor *weft_quantile(weft_tensor *x, weft_tensor *q, const int *axis, bool keepdim)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "quantile", 2, WF_INPUTS(x, q)))
        return c.failed;
    const int rank = weft_tensor_rank(x), q_rank = weft_tensor_rank(q);
    int a = 0, order[WEFT_MAX_RANK], n = 0;
    weft_tensor *line = axis ? x : weft_reshape(x, 1, (int64_t[]){-1});
    weft_status st = wf_require_float(c.who, x);
    if (st == WEFT_OK)
        st = wf_require_float(c.who, q);
    if (st == WEFT_OK && axis) {
        a = *axis;
        st = wf_line(c.who, &line, &a);
    }
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    if (q_rank > 1)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "q has rank %d, expected 0 or 1", q_rank);
    if (weft_tensor_dim(line, a) == 0)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "no elements on axis %d", a);
    if (q_rank == 1 && rank + 1 > WEFT_MAX_RANK && keepdim)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "the result has rank %d, the largest is %d", rank + 1, WEFT_MAX_RANK);
    weft_tensor *v = between(wf_wide(line), a, weft_reshape(wf_wide(q), 1, (int64_t[]){-1}));
    order[n++] = a; /* the fractions come first */
    for (int d = 0; d < weft_tensor_rank(line); d++)
        if (d != a)
            order[n++] = d;
    v = weft_cast(weft_permute(v, order), wf_dtype_of(x));
    int64_t shape[WEFT_MAX_RANK];
    n = 0;
    if (q_rank == 1)
        shape[n++] = weft_tensor_dim(q, 0);
    for (int d = 0; d < rank; d++) {
        bool reduced = !axis || d == a;
        if (!reduced || keepdim)
            shape[n++] = reduced ? 1 : weft_tensor_dim(x, d);
    }
    return wf_composite_end(&c, weft_reshape(v, n, shape));
}
