/* compose_index.c - advanced indexing: several index tensors, each for an axis, become one index of one axis.
 *
 * The indexed axes are merged into one (moved to the front when they are no neighbours), and the indices, each checked
 * against its own axis, into a row-major position in it. Where the result's new axes go is NumPy's rule (its manual,
 * "Combining advanced and basic indexing").
 */
#include "compose_lines.h"
#include "weft/ops_indexing.h"

typedef struct plan {
    weft_tensor *x;       /* with the indexed axes merged into one */
    int axis, rank;       /* that one; of x */
    weft_tensor *index;   /* checked positions in it, in the broadcast shape of the indices */
    int order[WEFT_MAX_RANK]; /* axes of the caller's x, as they stand before merging */
    int64_t shape[WEFT_MAX_RANK]; /* extents in that order */
} plan;

/* One list of integer indices, an axis each: a bool tensor becomes a column of coordinates for each of its axes. */
static weft_status list_indices(const char *who, weft_tensor *x, weft_tensor *const *indices, int n, weft_tensor **by_axis, int *n_axes)
{
    int at = 0;
    for (int i = 0; i < n; i++) {
        weft_tensor *t = indices[i];
        int takes = t && wf_dtype_of(t) == WEFT_DTYPE_BOOL ? weft_tensor_rank(t) : 1;
        if (at + takes > weft_tensor_rank(x))
            return wf_fail(WEFT_E_SHAPE, "%s: %d indices take more than the %d axes of input", who, n, weft_tensor_rank(x));
        if (!t || wf_dtype_of(t) != WEFT_DTYPE_BOOL) {
            by_axis[at++] = t;
            continue;
        }
        if (takes == 0)
            return wf_fail(WEFT_E_SHAPE, "%s: index %d is a bool of rank 0", who, i);
        for (int d = 0; d < takes; d++)
            if (weft_tensor_dim(t, d) != weft_tensor_dim(x, at + d))
                return wf_fail(WEFT_E_SHAPE, "%s: the bool index %d has extent %lld where input has %lld", who, i,
                               (long long)weft_tensor_dim(t, d), (long long)weft_tensor_dim(x, at + d));
        weft_tensor *places = weft_nonzero(t);
        WF_TRY(weft_tensor_status(places));
        for (int d = 0; d < takes; d++)
            by_axis[at++] = weft_squeeze(weft_slice(places, 1, d, d + 1, 1), 1);
    }
    *n_axes = at;
    return WEFT_OK;
}

/* The position in the merged axis: row-major over the indexed axes. */
static weft_status merge_index(const char *who, weft_tensor *x, weft_tensor *const *by_axis, int n_axes, weft_tensor **out)
{
    int64_t product = 1;
    weft_tensor *sum = NULL;
    for (int d = 0; d < n_axes; d++) {
        if (!by_axis[d])
            continue;
        int64_t extent = weft_tensor_dim(x, d);
        WF_TRY(wf_require_index(who, by_axis[d]));
        if (!wf_mul_i64(product, extent, &product) || product > INT32_MAX)
            return wf_fail(WEFT_E_SHAPE, "%s: the indexed axes have more than 2^31-1 places", who);
        if (extent == 0 && weft_tensor_numel(by_axis[d]) > 0)
            return wf_fail(WEFT_E_INDEX, "%s: axis %d is empty", who, d);
        weft_tensor *one = wf_checked_index(by_axis[d], extent);
        sum = sum ? weft_add(weft_mul(sum, wf_index_number(x, extent)), one) : one;
        WF_TRY(weft_tensor_status(sum));
    }
    *out = sum;
    return WEFT_OK;
}

/* Errors too when no axis is indexed: plan->index is NULL then. */
static weft_status make_plan(const char *who, weft_tensor *x, weft_tensor *const *indices, int n, plan *p)
{
    weft_tensor *by_axis[WEFT_MAX_RANK] = {NULL};
    int n_axes = 0, first = -1, last = -1, count = 0, k = 0, rank = weft_tensor_rank(x);
    memset(p, 0, sizeof *p);
    WF_TRY(wf_require_plain(who, x));
    WF_TRY(list_indices(who, x, indices, n, by_axis, &n_axes));
    WF_TRY(merge_index(who, x, by_axis, n_axes, &p->index));
    for (int d = 0; d < n_axes; d++)
        if (by_axis[d]) {
            first = first < 0 ? d : first;
            last = d;
            count++;
        }
    bool neighbours = last - first + 1 == count;
    p->axis = neighbours && first >= 0 ? first : 0;
    for (int d = 0; d < p->axis; d++)
        p->order[k++] = d;
    for (int d = 0; d < n_axes; d++)
        if (by_axis[d])
            p->order[k++] = d;
    for (int d = p->axis; d < rank; d++)
        if (d >= n_axes || !by_axis[d])
            p->order[k++] = d;
    int64_t merged[WEFT_MAX_RANK];
    p->rank = 0;
    for (int d = 0; d < rank; d++) {
        p->shape[d] = weft_tensor_dim(x, p->order[d]);
        if (d > p->axis && d < p->axis + count)
            merged[p->rank - 1] *= p->shape[d];
        else
            merged[p->rank++] = p->shape[d];
    }
    p->x = neighbours ? x : weft_permute(x, p->order);
    if (count > 1)
        p->x = weft_reshape(p->x, p->rank, merged);
    if (p->index && p->rank - 1 + weft_tensor_rank(p->index) > WEFT_MAX_RANK)
        return wf_fail(WEFT_E_SHAPE, "%s: the result has rank %d, the largest is %d", who, p->rank - 1 + weft_tensor_rank(p->index), WEFT_MAX_RANK);
    return weft_tensor_status(p->x);
}

/* x, the values and the indices that are there: one context, no error among them. */
static bool begin(wf_composite *c, const char *who, weft_tensor *x, weft_tensor *values, weft_tensor *const *indices, int n)
{
    weft_tensor *in[WEFT_MAX_RANK + 2] = {x};
    int k = 1;
    if (values)
        in[k++] = values;
    for (int i = 0; i < n && i < WEFT_MAX_RANK && indices; i++)
        if (indices[i])
            in[k++] = indices[i];
    return wf_composite_begin(c, who, k, k, in);
}

weft_tensor *weft_index(weft_tensor *x, weft_tensor *const *indices, int n)
{
    wf_composite c;
    plan p;
    if (!begin(&c, "index", x, NULL, indices, n))
        return c.failed;
    if (n < 0 || (n > 0 && !indices))
        return wf_composite_fail(&c, WEFT_E_VALUE, "%d indices", n);
    weft_status st = make_plan(c.who, x, indices, n, &p);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    return wf_composite_end(&c, p.index ? weft_index_select(p.x, p.axis, p.index) : x);
}

/* values, broadcast to the shape of x[indices], with one axis in place of the index's; and the index beside them. */
static weft_status line_up(const char *who, const plan *p, weft_tensor **values, weft_tensor **index)
{
    int64_t shape[WEFT_MAX_RANK], flat[WEFT_MAX_RANK], only[WEFT_MAX_RANK], m = weft_tensor_numel(p->index);
    int rank = 0, ir = weft_tensor_rank(p->index);
    for (int d = 0; d < p->rank; d++) {
        flat[d] = d == p->axis ? m : weft_tensor_dim(p->x, d);
        only[d] = d == p->axis ? m : 1;
        if (d != p->axis)
            shape[rank++] = flat[d];
        for (int k = 0; d == p->axis && k < ir; k++)
            shape[rank++] = weft_tensor_dim(p->index, k);
    }
    wf_view want, got;
    WF_TRY(wf_view_contiguous(who, rank, shape, &want));
    WF_TRY(wf_view_expand(who, &(*values)->view, rank, shape, &got));
    *values = weft_reshape(weft_expand(*values, rank, shape), p->rank, flat);
    *index = weft_expand(weft_reshape(p->index, p->rank, only), p->rank, flat);
    WF_TRY(weft_tensor_status(*values));
    return weft_tensor_status(*index);
}

weft_tensor *weft_index_put(weft_tensor *x, weft_tensor *const *indices, int n, weft_tensor *values, bool accumulate)
{
    wf_composite c;
    plan p;
    weft_tensor *index = NULL;
    if (!begin(&c, "index_put", x, values, indices, n))
        return c.failed;
    if (!values)
        return wf_composite_fail(&c, WEFT_E_CONTEXT, "values is NULL");
    if (n < 0 || (n > 0 && !indices))
        return wf_composite_fail(&c, WEFT_E_VALUE, "%d indices", n);
    weft_status st = make_plan(c.who, x, indices, n, &p);
    if (st == WEFT_OK)
        st = wf_numbers_fit(c.who, 1, &values, wf_dtype_of(x));
    weft_tensor *v = weft_cast(values, wf_dtype_of(x));
    if (st == WEFT_OK && !p.index) { /* all of x */
        v = weft_expand(v, weft_tensor_rank(x), weft_tensor_shape(x));
        return wf_composite_end(&c, accumulate ? weft_add(x, v) : v);
    }
    if (st == WEFT_OK)
        st = line_up(c.who, &p, &v, &index);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    weft_tensor *r = accumulate ? weft_scatter_add(p.x, p.axis, index, v) : weft_scatter(p.x, p.axis, index, v);
    int back[WEFT_MAX_RANK];
    for (int d = 0; d < weft_tensor_rank(x); d++)
        back[p.order[d]] = d;
    r = weft_permute(weft_reshape(r, weft_tensor_rank(x), p.shape), back);
    return wf_composite_end(&c, r);
}

/* ---- picking ---- */

weft_tensor *weft_take(weft_tensor *x, weft_tensor *index)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "take", 2, WF_INPUTS(x, index)))
        return c.failed;
    return wf_composite_end(&c, weft_index_select(weft_reshape(x, 1, (int64_t[]){-1}), 0, index));
}

/* A number is one line of one element, whose axis is 0 or -1. */
weft_tensor *wf_gather_number(weft_tensor *x, weft_tensor *index)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "gather", 2, WF_INPUTS(x, index)))
        return c.failed;
    weft_tensor *r = weft_gather(weft_reshape(x, 1, (int64_t[]){-1}), 0, weft_reshape(index, 1, (int64_t[]){-1}));
    return wf_composite_end(&c, weft_reshape(r, index->view.rank, index->view.shape));
}

weft_tensor *wf_select_number(weft_tensor *x, weft_tensor *index)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "index_select", 2, WF_INPUTS(x, index)))
        return c.failed;
    if (weft_tensor_numel(index) != 1)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "the input has rank 0, the index %lld elements, expected 1", (long long)weft_tensor_numel(index));
    weft_tensor *r = weft_index_select(weft_reshape(x, 1, (int64_t[]){1}), 0, weft_reshape(index, 0, NULL));
    return wf_composite_end(&c, r);
}

weft_tensor *weft_take_along_axis(weft_tensor *x, weft_tensor *index, int axis)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "take_along_axis", 2, WF_INPUTS(x, index)))
        return c.failed;
    if (index->view.rank == 0 && wf_axis_of_number(x->view.rank, axis))
        return wf_composite_end(&c, wf_gather_number(x, index));
    weft_tensor *line = x;
    weft_status st = wf_line(c.who, &line, &axis);
    if (st == WEFT_OK && weft_tensor_rank(line) != weft_tensor_rank(index))
        st = wf_fail(WEFT_E_SHAPE, "take_along_axis: input has rank %d, index %d", weft_tensor_rank(x), weft_tensor_rank(index));
    int64_t of_x[WEFT_MAX_RANK], of_index[WEFT_MAX_RANK];
    for (int d = 0; st == WEFT_OK && d < weft_tensor_rank(line); d++) {
        int64_t a = weft_tensor_dim(line, d), b = weft_tensor_dim(index, d);
        of_x[d] = d == axis ? a : a == 1 ? b : a;
        of_index[d] = d == axis || b != 1 ? b : a;
        if (d != axis && of_x[d] != of_index[d])
            st = wf_fail(WEFT_E_SHAPE, "take_along_axis: input has extent %lld on axis %d, index %lld", (long long)a, d, (long long)b);
    }
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    int rank = weft_tensor_rank(line);
    return wf_composite_end(&c, weft_gather(weft_expand(line, rank, of_x), axis, weft_expand(index, rank, of_index)));
}
