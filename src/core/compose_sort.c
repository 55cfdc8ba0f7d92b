/* compose_sort.c - sorting, selecting and searching along an axis. */
#include "compose_lines.h"
#include "weft/ops_indexing.h"

static weft_tensor *as_shape(weft_tensor *x, weft_tensor *t) { return weft_tensor_rank(x) == 0 ? weft_reshape(t, 0, NULL) : t; }

weft_tensor *weft_sort(weft_tensor *x, int axis, bool descending, weft_tensor **indices)
{
    wf_composite c;
    weft_tensor *line = x;
    if (!wf_begin_line(&c, "sort", &line, &axis, false))
        return wf_refuse_both(c.failed, indices);
    weft_tensor *order = wf_order(line, axis, descending);
    if (indices)
        *indices = wf_composite_give(&c, as_shape(x, order));
    return wf_composite_end(&c, as_shape(x, weft_gather(line, axis, order)));
}

weft_tensor *weft_argsort(weft_tensor *x, int axis, bool descending)
{
    wf_composite c;
    weft_tensor *line = x;
    if (!wf_begin_line(&c, "argsort", &line, &axis, false))
        return c.failed;
    return wf_composite_end(&c, as_shape(x, wf_order(line, axis, descending)));
}

weft_tensor *weft_topk_along(weft_tensor *x, int64_t k, int axis, bool largest, weft_tensor **values)
{
    wf_composite c;
    weft_tensor *line = x, *at, *v;
    if (!wf_begin_line(&c, "topk", &line, &axis, false))
        return wf_refuse_both(c.failed, values);
    int64_t n = weft_tensor_dim(line, axis);
    if (k < 0 || k > n) {
        weft_tensor *failed = wf_composite_fail(&c, WEFT_E_VALUE, "k is %lld, axis %d has %lld elements", (long long)k, axis, (long long)n);
        return wf_refuse_both(failed, values);
    }
    if (largest) {
        at = weft_topk(weft_transpose(line, axis, -1), k, &v);
        at = weft_transpose(at, axis, -1);
        v = weft_transpose(v, axis, -1);
    } else {
        at = weft_slice(wf_order(line, axis, false), axis, 0, k, 1);
        v = weft_gather(line, axis, at);
    }
    bool scalar = weft_tensor_rank(x) == 0 && k == 1;
    if (values)
        *values = wf_composite_give(&c, scalar ? weft_reshape(v, 0, NULL) : v);
    return wf_composite_end(&c, scalar ? weft_reshape(at, 0, NULL) : at);
}

weft_tensor *weft_kthvalue(weft_tensor *x, int64_t k, int axis, bool keepdim, weft_tensor **indices)
{
    wf_composite c;
    weft_tensor *line = x;
    if (!wf_begin_line(&c, "kthvalue", &line, &axis, false))
        return wf_refuse_both(c.failed, indices);
    int64_t n = weft_tensor_dim(line, axis);
    if (k < 1 || k > n)
        return wf_refuse_both(wf_composite_fail(&c, WEFT_E_VALUE, "k is %lld, axis %d has %lld elements", (long long)k, axis, (long long)n), indices);
    weft_tensor *at = weft_slice(wf_order(line, axis, false), axis, k - 1, k, 1), *v = weft_gather(line, axis, at);
    if (!keepdim || weft_tensor_rank(x) == 0) {
        at = weft_squeeze(at, axis);
        v = weft_squeeze(v, axis);
    }
    if (indices)
        *indices = wf_composite_give(&c, at);
    return wf_composite_end(&c, v);
}

/* ---- searching ---- */

/* How many elements of each sorted line stand before the values, by halving: a chain of picks and comparisons. */
static weft_tensor *search(weft_tensor *sorted, weft_tensor *values, bool right)
{
    bool lines = weft_tensor_rank(sorted) > 1;
    int64_t n = weft_tensor_dim(sorted, -1), step = 1;
    weft_tensor *at = weft_zeros(weft_tensor_ctx(values), WEFT_DTYPE_I32, weft_tensor_rank(values), weft_tensor_shape(values));
    if (n == 0)
        return at;
    while (step * 2 <= n)
        step *= 2;
    weft_tensor *last = wf_index_number(values, n), *one = wf_index_number(values, 1);
    for (; step > 0; step /= 2) {
        weft_tensor *next = weft_add(at, wf_index_number(values, step));
        weft_tensor *probe = weft_sub(weft_minimum(next, last), one);
        weft_tensor *e = lines ? weft_gather(sorted, -1, probe) : weft_index_select(sorted, 0, probe);
        weft_tensor *stays = right ? weft_gt(e, values) : weft_ge(e, values); /* false beside a NaN, which stands last */
        at = weft_where(weft_maximum(stays, weft_gt(next, last)), at, next);
    }
    return at;
}

weft_tensor *weft_searchsorted(weft_tensor *sorted, weft_tensor *values, bool right)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "searchsorted", 2, WF_INPUTS(sorted, values)))
        return c.failed;
    int rank = weft_tensor_rank(sorted);
    bool fits = rank == 1 || (rank > 1 && weft_tensor_rank(values) == rank);
    for (int d = 0; fits && rank > 1 && d < rank - 1; d++)
        fits = weft_tensor_dim(sorted, d) == weft_tensor_dim(values, d);
    if (!fits) {
        char ts[200], tv[200];
        wf_view_format(&sorted->view, ts, sizeof ts);
        wf_view_format(&values->view, tv, sizeof tv);
        return wf_composite_fail(&c, WEFT_E_SHAPE, "sorted_sequence %s and input %s", ts, tv);
    }
    weft_status st = wf_require_plain(c.who, sorted);
    if (st == WEFT_OK)
        st = wf_require_plain(c.who, values);
    if (st == WEFT_OK && weft_tensor_dim(sorted, -1) > INT32_MAX / 2)
        st = wf_fail(WEFT_E_SHAPE, "searchsorted: a sequence of %lld elements", (long long)weft_tensor_dim(sorted, -1));
    return wf_composite_end(&c, st == WEFT_OK ? search(sorted, values, right) : wf_tensor_error_last(c.ctx, st));
}

weft_tensor *weft_bucketize(weft_tensor *x, weft_tensor *boundaries, bool right)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "bucketize", 2, WF_INPUTS(x, boundaries)))
        return c.failed;
    if (weft_tensor_rank(boundaries) != 1)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "boundaries have rank %d, expected 1", weft_tensor_rank(boundaries));
    return wf_composite_end(&c, weft_searchsorted(boundaries, x, right));
}

weft_tensor *weft_isin(weft_tensor *x, weft_tensor *test, bool invert)
{
    enum { FEW = 64 };
    wf_composite c;
    if (!wf_composite_begin(&c, "isin", 2, WF_INPUTS(x, test)))
        return c.failed;
    int64_t n = weft_tensor_numel(test);
    int rank = weft_tensor_rank(x);
    weft_tensor *found, *flat = weft_reshape(test, 1, (int64_t[]){-1});
    if (n == 0) {
        found = weft_zeros(c.ctx, WEFT_DTYPE_BOOL, rank, weft_tensor_shape(x));
    } else if (n <= FEW && rank < WEFT_MAX_RANK) {
        int axis = rank;
        found = weft_max(weft_eq(weft_unsqueeze(x, -1), flat), &axis, 1, false);
    } else {
        weft_tensor *sorted = weft_gather(flat, 0, wf_order(flat, 0, false)), *at = search(sorted, x, false);
        found = weft_eq(weft_index_select(sorted, 0, weft_minimum(at, wf_index_number(x, n - 1))), x);
    }
    return wf_composite_end(&c, invert ? weft_eq(found, wf_const_like(found, 0)) : found);
}

weft_tensor *weft_histc(weft_tensor *x, int64_t bins, double min, double max)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "histc", 1, 1, &x))
        return c.failed;
    weft_status st = wf_require_float("histc", x);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    if (bins < 1 || bins > INT32_MAX - 1 || !(min <= max))
        return wf_composite_fail(&c, WEFT_E_VALUE, "%lld bins from %g to %g", (long long)bins, min, max);
    weft_tensor *v = weft_reshape(wf_wide(x), 1, (int64_t[]){-1}), *low = wf_const_like(v, min), *high = wf_const_like(v, max);
    if (min == max && weft_tensor_numel(x) > 0) {
        low = weft_min(v, NULL, 0, false);
        high = weft_max(v, NULL, 0, false);
    }
    if (min == max) { /* of equal ends the middle of 2 */
        weft_tensor *same = weft_eq(low, high), *one = wf_const_like(v, 1), *l = low;
        low = weft_where(same, weft_sub(low, one), low);
        high = weft_where(same, weft_add(l, one), high);
    }
    weft_tensor *part = weft_mul(weft_div(weft_sub(v, low), weft_sub(high, low)), wf_const_like(v, (double)bins));
    weft_tensor *bin = weft_minimum(weft_cast(part, WEFT_DTYPE_I32), wf_index_number(v, bins - 1));
    bin = weft_where(weft_mul(weft_ge(v, low), weft_le(v, high)), bin, wf_index_number(v, bins));
    int64_t room = bins + 1;
    weft_tensor *counts = wf_scatter(weft_zeros(c.ctx, wf_dtype_of(v), 1, &room), 0, bin,
                                     weft_full(c.ctx, wf_dtype_of(v), 1, weft_tensor_shape(v), 1), WF_SCATTER_ADD);
    return wf_composite_end(&c, weft_cast(weft_slice(counts, 0, 0, bins, 1), wf_dtype_of(x)));
}
