/* view.c - the algebra of shapes and strides.
 *
 * Every function leaves its result canonical: entries from rank on are 1 and 0, axes of extent 1 have
 * stride 0, and an empty view has offset 0 and strides 0. Equal views therefore have equal bytes, which
 * is what value numbering and the plan cache compare.
 */
#include "view.h"

#include "weft/ops.h"

#include <stdio.h>

static void clear_tail(wf_view *v, int rank)
{
    v->rank = rank;
    v->pad_ = 0;
    for (int k = rank; k < WEFT_MAX_RANK; k++) {
        v->shape[k] = 1;
        v->strides[k] = 0;
    }
}

static void canonicalise(wf_view *v)
{
    bool empty = false;
    for (int k = 0; k < v->rank; k++) {
        if (v->shape[k] == 1)
            v->strides[k] = 0;
        empty |= v->shape[k] == 0;
    }
    if (empty) {
        v->offset = 0;
        for (int k = 0; k < v->rank; k++)
            v->strides[k] = 0;
    }
}

static weft_status check_count(const char *who, const wf_view *v)
{
    int64_t n = 1;
    bool over = false;
    for (int k = 0; k < v->rank; k++) {
        if (v->shape[k] == 0)
            return WEFT_OK;
        if (!over && (!wf_mul_i64(n, v->shape[k], &n) || n > WF_MAX_NUMEL))
            over = true;
    }
    if (!over)
        return WEFT_OK;
    char text[200];
    wf_view_format(v, text, sizeof text);
    return wf_fail(WEFT_E_SHAPE, "%s: shape %s has too many elements", who, text);
}

weft_status wf_view_contiguous(const char *who, int rank, const int64_t *shape, wf_view *out)
{
    if (rank < 0 || rank > WEFT_MAX_RANK)
        return wf_fail(WEFT_E_SHAPE, "%s: rank %d is outside 0 .. %d", who, rank, WEFT_MAX_RANK);
    if (rank > 0 && !shape)
        return wf_fail(WEFT_E_VALUE, "%s: shape is NULL at rank %d", who, rank);
    int64_t full[WEFT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (int k = 0; k < rank; k++) {
        if (shape[k] < 0)
            return wf_fail(WEFT_E_SHAPE, "%s: extent %lld of axis %d is negative", who, (long long)shape[k], k);
        full[k] = shape[k];
    }
    wf_view v;
    if (wf_view_rows(rank, full, &v) < 0) {
        WF_TRY(check_count(who, &v));
        memset(v.strides, 0, sizeof v.strides); /* empty after all */
    }
    *out = v;
    return WEFT_OK;
}

int64_t wf_view_numel(const wf_view *v)
{
    uint64_t n = 1; /* may wrap on the way to a 0 */
    for (int k = 0; k < v->rank; k++)
        n *= (uint64_t)v->shape[k];
    return (int64_t)n;
}

bool wf_view_is_contiguous(const wf_view *v)
{
    int64_t stride = 1;
    for (int k = v->rank - 1; k >= 0; k--) {
        if (v->shape[k] == 0)
            return true;
        if (v->shape[k] == 1)
            continue;
        if (v->strides[k] != stride) {
            /* An empty view is contiguous whatever its strides: an outer axis may still be 0. */
            for (int j = 0; j < k; j++)
                if (v->shape[j] == 0)
                    return true;
            return false;
        }
        stride *= v->shape[k];
    }
    return true;
}

bool wf_view_is_whole(const wf_view *v, int64_t numel)
{
    return v->offset == 0 && wf_view_numel(v) == numel && wf_view_is_contiguous(v);
}

bool wf_view_extent(const wf_view *v, int64_t *lo, int64_t *hi)
{
    int64_t low = v->offset, high = v->offset;
    for (int k = 0; k < v->rank; k++) {
        if (v->shape[k] == 0)
            return false;
        int64_t reach = (v->shape[k] - 1) * v->strides[k];
        if (reach < 0)
            low += reach;
        else
            high += reach;
    }
    *lo = low;
    *hi = high;
    return true;
}

weft_status wf_axis(const char *who, int rank, int axis, int *out)
{
    if (axis < -rank || axis >= rank)
        return wf_fail(WEFT_E_SHAPE, "%s: axis %d is outside rank %d", who, axis, rank);
    *out = axis < 0 ? axis + rank : axis;
    return WEFT_OK;
}

weft_status wf_view_broadcast_shape(const char *who, const wf_view *a, const wf_view *b, wf_view *out_shape)
{
    int rank = WF_MAX(a->rank, b->rank);
    int64_t shape[WEFT_MAX_RANK];
    for (int k = 0; k < rank; k++) {
        int ka = k - (rank - a->rank), kb = k - (rank - b->rank);
        int64_t na = ka < 0 ? 1 : a->shape[ka], nb = kb < 0 ? 1 : b->shape[kb];
        if (na != nb && na != 1 && nb != 1) {
            char ta[200], tb[200];
            wf_view_format(a, ta, sizeof ta);
            wf_view_format(b, tb, sizeof tb);
            return wf_fail(WEFT_E_SHAPE, "%s: shapes do not broadcast: a %s, b %s", who, ta, tb);
        }
        shape[k] = na == 1 ? nb : na;
    }
    return wf_view_contiguous(who, rank, shape, out_shape);
}

weft_status wf_view_expand(const char *who, const wf_view *v, int rank, const int64_t *shape, wf_view *out)
{
    if (rank < v->rank || rank > WEFT_MAX_RANK)
        return wf_fail(WEFT_E_SHAPE, "%s: rank %d cannot expand to rank %d (at most %d)", who, v->rank, rank,
                       WEFT_MAX_RANK);
    if (rank > 0 && !shape)
        return wf_fail(WEFT_E_VALUE, "%s: shape is NULL at rank %d", who, rank);
    wf_view r;
    clear_tail(&r, rank);
    r.offset = v->offset;
    int lead = rank - v->rank;
    for (int k = 0; k < rank; k++) {
        int64_t have = k < lead ? 1 : v->shape[k - lead];
        int64_t want = shape[k] == -1 && k >= lead ? have : shape[k];
        if (want < 0 || (have != want && have != 1)) {
            char text[200];
            wf_view_format(v, text, sizeof text);
            return wf_fail(WEFT_E_SHAPE, "%s: %s cannot expand to extent %lld on axis %d", who, text,
                           (long long)shape[k], k);
        }
        r.shape[k] = want;
        r.strides[k] = have == want && k >= lead ? v->strides[k - lead] : 0;
    }
    WF_TRY(check_count(who, &r));
    canonicalise(&r);
    *out = r;
    return WEFT_OK;
}

weft_status wf_view_permute(const wf_view *v, const int *axes, wf_view *out)
{
    if (v->rank > 0 && !axes)
        return wf_fail(WEFT_E_VALUE, "permute: axes is NULL at rank %d", v->rank);
    int order[WEFT_MAX_RANK];
    unsigned seen = 0;
    for (int k = 0; k < v->rank; k++) {
        order[k] = 0;
        WF_TRY(wf_axis("permute", v->rank, axes[k], &order[k]));
        if (seen & 1u << order[k])
            return wf_fail(WEFT_E_SHAPE, "permute: axis %d is named twice", order[k]);
        seen |= 1u << order[k];
    }
    wf_view copy;
    if (out == v) {
        copy = *v;
        v = &copy;
    }
    clear_tail(out, v->rank);
    out->offset = v->offset;
    for (int k = 0; k < v->rank; k++) {
        out->shape[k] = v->shape[order[k]];
        out->strides[k] = v->strides[order[k]];
    }
    return WEFT_OK;
}

/* Python's rule for one bound: negative counts from the end, then the bound is clamped. */
static int64_t slice_bound(int64_t bound, int64_t n, int64_t absent, int64_t low, int64_t high)
{
    if (bound == WEFT_INDEX_NONE)
        return absent;
    if (bound < 0)
        bound = bound < -n ? -1 - n : bound + n; /* far below: clamped next, without overflow */
    return bound < low ? low : bound > high ? high : bound;
}

weft_status wf_view_slice(const wf_view *v, int axis, int64_t start, int64_t stop, int64_t step, wf_view *out)
{
    WF_TRY(wf_axis("slice", v->rank, axis, &axis));
    if (step == 0 || step == INT64_MIN)
        return wf_fail(WEFT_E_VALUE, "slice: step %lld", (long long)step);
    int64_t n = v->shape[axis], count;
    if (step > 0) {
        start = slice_bound(start, n, 0, 0, n);
        stop = slice_bound(stop, n, n, 0, n);
        count = stop > start ? (stop - start - 1) / step + 1 : 0;
    } else {
        start = slice_bound(start, n, n - 1, -1, n - 1);
        stop = slice_bound(stop, n, -1, -1, n - 1);
        count = start > stop ? (start - stop - 1) / -step + 1 : 0;
    }
    wf_view r = *v;
    r.shape[axis] = count;
    if (count > 0)
        r.offset += start * v->strides[axis];
    /* With one element left the stride is never used, and step * stride could overflow. */
    r.strides[axis] = count > 1 ? v->strides[axis] * step : 0;
    canonicalise(&r);
    *out = r;
    return WEFT_OK;
}

bool wf_view_reshape(const wf_view *v, int rank, const int64_t *shape, wf_view *out)
{
    if (rank < 0 || rank > WEFT_MAX_RANK)
        return false;
    wf_view r;
    clear_tail(&r, rank);
    r.offset = v->offset;
    int64_t count = 1;
    for (int k = 0; k < rank; k++) {
        r.shape[k] = shape[k];
        r.strides[k] = 0;
        count *= shape[k];
    }
    int64_t numel = wf_view_numel(v);
    if (count != numel)
        return false;
    if (numel == 0) {
        canonicalise(&r);
        *out = r;
        return true;
    }
    /* Axes of extent 1 say nothing about where elements lie. */
    int n_old = 0;
    int64_t old_shape[WEFT_MAX_RANK], old_strides[WEFT_MAX_RANK];
    for (int k = 0; k < v->rank; k++) {
        if (v->shape[k] == 1)
            continue;
        old_shape[n_old] = v->shape[k];
        old_strides[n_old++] = v->strides[k];
    }
    /* Walk groups of old and new axes with equal products. A group is a view when its old axes are
     * strided as one axis. */
    int old = 0, new = 0;
    while (new < rank) {
        if (shape[new] == 1) {
            new++;
            continue;
        }
        int old_end = old + 1, new_end = new + 1;
        int64_t old_count = old_shape[old], new_count = shape[new];
        while (old_count != new_count) {
            if (new_count < old_count)
                new_count *= shape[new_end++];
            else
                old_count *= old_shape[old_end++];
        }
        for (int k = old; k + 1 < old_end; k++)
            if (old_strides[k] != old_strides[k + 1] * old_shape[k + 1])
                return false;
        int64_t stride = old_strides[old_end - 1];
        for (int k = new_end - 1; k >= new; k--) {
            r.strides[k] = shape[k] == 1 ? 0 : stride;
            stride *= shape[k];
        }
        old = old_end;
        new = new_end;
    }
    *out = r;
    return true;
}

void wf_view_format(const wf_view *v, char *buf, size_t n)
{
    if (n == 0)
        return;
    size_t at = 0;
    buf[0] = 0;
    for (int k = 0; k <= v->rank && at + 1 < n; k++) {
        int wrote = k == v->rank ? snprintf(buf + at, n - at, k ? "]" : "[]")
                                 : snprintf(buf + at, n - at, "%s%lld", k ? ", " : "[", (long long)v->shape[k]);
        at += wrote > 0 ? (size_t)wrote : 0;
    }
}
