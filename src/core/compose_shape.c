/* compose_shape.c - views: other shapes, orders and parts of the same elements. Nothing here computes or copies.
 *
 * Most are the views of build_view.c one after another. Diagonals, windows and lists of axes to drop are
 * new strides on the same storage.
 */
#include "build.h"
#include "composite.h"
#include "weft/ops_shape.h"

/* Whether x is sound; else *fail is the result. */
static bool sound(const char *who, weft_tensor *x, weft_tensor **fail)
{
    if (!wf_enter(who, 1, &x, fail))
        return false;
    wf_unlock(&wf_core(x->ctx)->lock);
    return true;
}

/* Canonical, as view.h says: equal views have equal bytes. */
static void settle(wf_view *v)
{
    bool empty = wf_view_numel(v) == 0;
    if (empty)
        v->offset = 0;
    for (int k = 0; k < WEFT_MAX_RANK; k++) {
        if (k >= v->rank)
            v->shape[k] = 1;
        if (k >= v->rank || v->shape[k] == 1 || empty)
            v->strides[k] = 0;
    }
}

static weft_tensor *view_of(const char *who, weft_tensor *x, wf_view *v)
{
    weft_tensor *r;
    if (!wf_enter(who, 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    settle(v);
    weft_status st = wf_require_plain(who, x);
    return wf_leave(ctx, st == WEFT_OK ? wf_tensor_new(ctx, x->node, v) : wf_tensor_error_last(ctx, st));
}

static weft_tensor *shape_error(const char *who, weft_tensor *x, weft_status st)
{
    (void)who;
    return wf_tensor_error_last(x->ctx, st);
}

/* Distinct axes as a mask. */
static weft_status axes_mask(const char *who, int rank, const int *axes, int n, uint32_t *mask)
{
    *mask = 0;
    if (n < 0 || (n > 0 && !axes))
        return wf_fail(WEFT_E_VALUE, "%s: %d axes%s", who, n, n > 0 ? " at NULL" : "");
    for (int i = 0; i < n; i++) {
        int axis = 0;
        WF_TRY(wf_axis(who, rank, axes[i], &axis));
        if (*mask & 1u << axis)
            return wf_fail(WEFT_E_SHAPE, "%s: axis %d is named twice", who, axis);
        *mask |= 1u << axis;
    }
    return WEFT_OK;
}

/* ---- shapes ---- */

weft_tensor *weft_view(weft_tensor *x, int rank, const int64_t *shape)
{
    weft_tensor *r;
    if (!sound("view", x, &r))
        return r;
    weft_tensor *t = weft_reshape(x, rank, shape);
    if (t->status != WEFT_OK || t->node == x->node || weft_tensor_numel(x) == 0)
        return t;
    char from[200], to[200];
    wf_view_format(&x->view, from, sizeof from);
    wf_view_format(&t->view, to, sizeof to);
    return wf_tensor_error(x->ctx, WEFT_E_SHAPE, "view: the strides of %s allow no view as %s: use reshape", from, to);
}

weft_tensor *weft_flatten(weft_tensor *x, int first, int last)
{
    weft_tensor *r;
    if (!sound("flatten", x, &r))
        return r;
    int rank = x->view.rank;
    weft_status st = wf_axis("flatten", rank ? rank : 1, first, &first);
    if (st == WEFT_OK)
        st = wf_axis("flatten", rank ? rank : 1, last, &last);
    if (st == WEFT_OK && first > last)
        st = wf_fail(WEFT_E_SHAPE, "flatten: start_dim %d is behind end_dim %d", first, last);
    if (st != WEFT_OK)
        return shape_error("flatten", x, st);
    if (rank == 0)
        return weft_reshape(x, 1, (int64_t[]){1});
    int64_t shape[WEFT_MAX_RANK], joined = 1;
    int n = 0;
    for (int k = 0; k < rank; k++) {
        if (k < first || k > last) {
            shape[n++] = x->view.shape[k];
            continue;
        }
        if (!wf_mul_i64(joined, x->view.shape[k], &joined))
            joined = 0; /* only beside an extent 0 */
        if (k == last)
            shape[n++] = joined;
    }
    return weft_reshape(x, n, shape);
}

weft_tensor *weft_unflatten(weft_tensor *x, int axis, int n, const int64_t *sizes)
{
    weft_tensor *r;
    if (!sound("unflatten", x, &r))
        return r;
    int rank = x->view.rank;
    weft_status st = wf_axis("unflatten", rank, axis, &axis);
    if (st == WEFT_OK && (n < 1 || !sizes))
        st = wf_fail(WEFT_E_VALUE, "unflatten: %d sizes", n);
    if (st == WEFT_OK && rank - 1 + n > WEFT_MAX_RANK)
        st = wf_fail(WEFT_E_SHAPE, "unflatten: rank %d is above %d", rank - 1 + n, WEFT_MAX_RANK);
    if (st != WEFT_OK)
        return shape_error("unflatten", x, st);
    int64_t shape[WEFT_MAX_RANK], have = x->view.shape[axis], known = 1;
    int inferred = -1;
    bool fits = true;
    for (int i = 0; i < n && fits; i++) {
        fits = sizes[i] >= 0 || (sizes[i] == -1 && inferred < 0);
        if (sizes[i] == -1)
            inferred = i;
        else
            fits = fits && wf_mul_i64(known, sizes[i], &known);
    }
    fits = fits && (inferred < 0 ? known == have : known > 0 && have % known == 0);
    if (!fits)
        return wf_tensor_error(x->ctx, WEFT_E_SHAPE, "unflatten: %d sizes do not make axis %d of extent %lld", n, axis, (long long)have);
    for (int k = 0; k < rank; k++)
        shape[k < axis ? k : k + n - 1] = x->view.shape[k]; /* the axis itself is overwritten */
    for (int i = 0; i < n; i++)
        shape[axis + i] = i == inferred ? have / known : sizes[i];
    return weft_reshape(x, rank - 1 + n, shape);
}

weft_tensor *weft_squeeze_axes(weft_tensor *x, const int *axes, int n)
{
    weft_tensor *r;
    if (!sound("squeeze", x, &r))
        return r;
    uint32_t mask = ~0u;
    int rank = x->view.rank;
    weft_status st = axes ? axes_mask("squeeze", rank ? rank : 1, axes, n, &mask) : WEFT_OK;
    if (st != WEFT_OK)
        return shape_error("squeeze", x, st);
    int64_t shape[WEFT_MAX_RANK];
    int kept = 0;
    for (int k = 0; k < rank; k++)
        if (!(mask & 1u << k) || x->view.shape[k] != 1)
            shape[kept++] = x->view.shape[k];
    return weft_reshape(x, kept, shape);
}

weft_tensor *weft_atleast(weft_tensor *x, int rank)
{
    weft_tensor *r;
    if (!sound("atleast", x, &r))
        return r;
    if (rank < 1 || rank > 3)
        return wf_tensor_error(x->ctx, WEFT_E_VALUE, "atleast: rank is %d, not 1, 2 or 3", rank);
    int64_t n = x->view.rank ? x->view.shape[0] : 1;
    if (x->view.rank >= rank)
        return weft_reshape(x, x->view.rank, x->view.shape);
    if (rank == 3 && x->view.rank == 2)
        return weft_unsqueeze(x, 2);
    return weft_reshape(x, rank, rank == 1 ? (int64_t[]){n} : (int64_t[]){1, n, 1});
}

/* ---- orders ---- */

weft_tensor *weft_movedim(weft_tensor *x, int n, const int *from, const int *to)
{
    weft_tensor *r;
    if (!sound("movedim", x, &r))
        return r;
    int rank = x->view.rank, axes[WEFT_MAX_RANK];
    uint32_t taken = 0, filled = 0;
    if (n == 1 && from && to && wf_axis_of_number(rank, from[0]) && wf_axis_of_number(rank, to[0]))
        return weft_reshape(x, 0, NULL);
    weft_status st = axes_mask("movedim", rank, from, n, &taken);
    if (st == WEFT_OK)
        st = axes_mask("movedim", rank, to, n, &filled);
    if (st != WEFT_OK)
        return shape_error("movedim", x, st);
    for (int i = 0; i < n; i++)
        axes[to[i] < 0 ? to[i] + rank : to[i]] = from[i];
    for (int k = 0, next = 0; k < rank; k++) {
        if (filled & 1u << k)
            continue;
        while (taken & 1u << next)
            next++;
        axes[k] = next++;
    }
    return weft_permute(x, axes);
}

weft_tensor *weft_flip_axes(weft_tensor *x, const int *axes, int n)
{
    weft_tensor *r;
    if (!sound("flip", x, &r))
        return r;
    uint32_t mask = 0;
    if (n == 1 && axes && wf_axis_of_number(x->view.rank, axes[0]))
        return weft_reshape(x, 0, NULL);
    weft_status st = axes_mask("flip", x->view.rank, axes, n, &mask);
    if (st != WEFT_OK)
        return shape_error("flip", x, st);
    wf_view v = x->view;
    for (int k = 0; k < v.rank && st == WEFT_OK; k++)
        if (mask & 1u << k)
            st = wf_view_slice(&v, k, WEFT_INDEX_NONE, WEFT_INDEX_NONE, -1, &v);
    return st == WEFT_OK ? view_of("flip", x, &v) : shape_error("flip", x, st);
}

static weft_tensor *compose_rot90(weft_tensor *x, int64_t k, int axis0, int axis1)
{
    uint32_t mask;
    weft_status st = axes_mask("rot90", x->view.rank, (int[]){axis0, axis1}, 2, &mask);
    if (st != WEFT_OK)
        return shape_error("rot90", x, st);
    switch ((k % 4 + 4) % 4) {
    case 1: return weft_transpose(weft_flip(x, axis1), axis0, axis1);
    case 2: return weft_flip(weft_flip(x, axis0), axis1);
    case 3: return weft_flip(weft_transpose(x, axis0, axis1), axis1);
    default: return weft_permute(x, (int[]){0, 1, 2, 3, 4, 5, 6, 7});
    }
}

weft_tensor *weft_rot90(weft_tensor *x, int64_t k, int axis0, int axis1)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "rot90", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, compose_rot90(x, k, axis0, axis1));
}

/* ---- parts ---- */

weft_tensor *weft_narrow(weft_tensor *x, int axis, int64_t start, int64_t length)
{
    weft_tensor *r;
    if (!sound("narrow", x, &r))
        return r;
    weft_status st = wf_axis("narrow", x->view.rank, axis, &axis);
    if (st != WEFT_OK)
        return shape_error("narrow", x, st);
    int64_t n = x->view.shape[axis], first = start < 0 ? start + n : start;
    if (first < 0 || first > n || length < 0 || length > n - first)
        return wf_tensor_error(x->ctx, WEFT_E_SHAPE, "narrow: %lld elements from %lld on of an axis of %lld", (long long)length, (long long)start, (long long)n);
    return weft_slice(x, axis, first, first + length, 1);
}

static weft_tensor *compose_select(weft_tensor *x, int axis, int64_t index)
{
    weft_status st = wf_axis("select", x->view.rank, axis, &axis);
    if (st != WEFT_OK)
        return shape_error("select", x, st);
    int64_t n = x->view.shape[axis];
    if (index < -n || index >= n)
        return wf_tensor_error(x->ctx, WEFT_E_INDEX, "select: index %lld of an axis of %lld", (long long)index, (long long)n);
    index = index < 0 ? index + n : index;
    return weft_squeeze(weft_slice(x, axis, index, index + 1, 1), axis);
}

weft_tensor *weft_select(weft_tensor *x, int axis, int64_t index)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "select", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, compose_select(x, axis, index));
}

weft_tensor *weft_diagonal(weft_tensor *x, int64_t offset, int axis0, int axis1)
{
    weft_tensor *r;
    if (!sound("diagonal", x, &r))
        return r;
    int rank = x->view.rank;
    uint32_t mask;
    weft_status st = axes_mask("diagonal", rank, (int[]){axis0, axis1}, 2, &mask);
    if (st != WEFT_OK)
        return shape_error("diagonal", x, st);
    axis0 = axis0 < 0 ? axis0 + rank : axis0;
    axis1 = axis1 < 0 ? axis1 + rank : axis1;
    int64_t rows = x->view.shape[axis0], cols = x->view.shape[axis1];
    offset = offset < -rows ? -rows : offset > cols ? cols : offset;
    int64_t n = offset < 0 ? WF_MIN(rows + offset, cols) : WF_MIN(rows, cols - offset);
    n = WF_MAX(n, 0);
    wf_view v = {.rank = 0, .offset = x->view.offset};
    for (int k = 0; k < rank; k++) {
        if (k == axis0 || k == axis1)
            continue;
        v.shape[v.rank] = x->view.shape[k];
        v.strides[v.rank++] = x->view.strides[k];
    }
    if (n > 0)
        v.offset += offset < 0 ? -offset * x->view.strides[axis0] : offset * x->view.strides[axis1];
    v.shape[v.rank] = n;
    v.strides[v.rank++] = x->view.strides[axis0] + x->view.strides[axis1];
    return view_of("diagonal", x, &v);
}

weft_tensor *weft_unfold(weft_tensor *x, int axis, int64_t size, int64_t step)
{
    weft_tensor *r;
    if (!sound("unfold", x, &r))
        return r;
    int rank = x->view.rank;
    if (rank == WEFT_MAX_RANK)
        return wf_tensor_error(x->ctx, WEFT_E_SHAPE, "unfold: rank %d is the largest", rank);
    weft_status st = wf_axis("unfold", rank ? rank : 1, axis, &axis);
    if (st != WEFT_OK)
        return shape_error("unfold", x, st);
    int64_t n = rank ? x->view.shape[axis] : 1;
    if (size < 0 || size > n || step < 1)
        return wf_tensor_error(x->ctx, WEFT_E_VALUE, "unfold: windows of %lld elements, %lld apart, of an axis of %lld", (long long)size, (long long)step,
                               (long long)n);
    if (rank == 0)
        return weft_slice(weft_unsqueeze(x, 0), 0, 0, size, 1);
    wf_view v = x->view;
    int64_t count = (n - size) / step + 1;
    v.shape[axis] = count;
    v.strides[axis] = count > 1 ? x->view.strides[axis] * step : 0; /* one window: step may be anything */
    v.shape[rank] = size;
    v.strides[rank] = x->view.strides[axis];
    v.rank = rank + 1;
    wf_view whole;
    st = wf_view_contiguous("unfold", v.rank, v.shape, &whole); /* windows overlap: their count may not fit */
    return st == WEFT_OK ? view_of("unfold", x, &v) : shape_error("unfold", x, st);
}
