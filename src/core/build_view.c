/* build_view.c - views: a new handle on the same node. Only a reshape that strides do not allow, and
 * weft_contiguous, make a node: a row-major copy.
 */
#include "build.h"

/* Blocks lie along the last axis, so a view of a block type keeps that axis whole and in order. */
static weft_status check_blocks(const char *who, const wf_node *n, const wf_view *v)
{
    if (n->dtype < WEFT_DTYPE_Q8_0)
        return WEFT_OK;
    int64_t row = n->shape[n->rank - 1];
    int last = v->rank - 1;
    if (last >= 0 && v->shape[last] == row && (v->strides[last] == 1 || wf_view_numel(v) == 0))
        return WEFT_OK;
    return wf_fail(WEFT_E_DTYPE, "%s: %s keeps its last axis of %lld elements whole", who,
                   weft_dtype_name((weft_dtype)n->dtype), (long long)row);
}

static weft_tensor *view_of(const char *who, weft_tensor *x, weft_status st, const wf_view *v)
{
    if (st == WEFT_OK && __builtin_expect(x->node->dtype >= WEFT_DTYPE_Q8_0, 0))
        st = check_blocks(who, x->node, v);
    return st == WEFT_OK ? wf_tensor_new(x->ctx, x->node, v) : wf_tensor_error_last(x->ctx, st);
}

/* The view's elements in row-major order under a shape of the same count. */
static weft_tensor *copy_of(const char *who, weft_tensor *x, const wf_view *as)
{
    weft_ctx *ctx = x->ctx;
    wf_node *src = x->node, *n;
    weft_status st = wf_require_plain(who, x);
    if (st != WEFT_OK)
        return wf_tensor_error_last(ctx, st);
    if (wf_node_is_constant(src)) {
        n = wf_full_node(ctx, (weft_dtype)src->dtype, as->rank, as->shape, src->attrs.constant.value);
    } else {
        n = wf_node_like(ctx, WF_OP_COPY, (weft_dtype)src->dtype, 1, &x->view);
        if (n)
            wf_node_set_input(n, 0, src, &x->view);
    }
    return n ? wf_tensor_new(ctx, n, as) : wf_tensor_error_last(ctx, WEFT_E_OOM);
}

/* The target shape with -1 filled in. */
static weft_status resolve_shape(const weft_tensor *x, int rank, const int64_t *shape, wf_view *out)
{
    int64_t full[WEFT_MAX_RANK] = {0};
    int inferred = -1;
    if (rank < 0 || rank > WEFT_MAX_RANK)
        return wf_fail(WEFT_E_SHAPE, "reshape: rank %d is outside 0 .. %d", rank, WEFT_MAX_RANK);
    if (rank > 0 && !shape)
        return wf_fail(WEFT_E_VALUE, "reshape: shape is NULL at rank %d", rank);
    for (int k = 0; k < rank; k++) {
        full[k] = shape[k];
        if (shape[k] != -1)
            continue;
        if (inferred >= 0)
            return wf_fail(WEFT_E_SHAPE, "reshape: axes %d and %d are both -1", inferred, k);
        inferred = k;
        full[k] = 1;
    }
    WF_TRY(wf_view_contiguous("reshape", rank, full, out));
    int64_t have = wf_view_numel(&x->view), rest = wf_view_numel(out);
    if (inferred >= 0 && rest > 0 && have % rest == 0) {
        full[inferred] = have / rest;
        WF_TRY(wf_view_contiguous("reshape", rank, full, out));
        rest = have;
    }
    if (have == rest && (inferred < 0 || rest > 0 || full[inferred] == 0))
        return WEFT_OK;
    char from[200], to[200];
    wf_view_format(&x->view, from, sizeof from);
    if (inferred >= 0)
        out->shape[inferred] = -1;
    wf_view_format(out, to, sizeof to);
    return wf_fail(WEFT_E_SHAPE, "reshape: %s with %lld elements does not fit %s", from, (long long)have, to);
}

/* What a model does all the time: a contiguous tensor of a plain dtype, no -1. NULL: not this case. */
static weft_tensor *reshape_rows(weft_tensor *x, int rank, const int64_t *shape)
{
    int64_t full[WEFT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    if ((unsigned)rank > WEFT_MAX_RANK || x->node->dtype >= WEFT_DTYPE_Q8_0 || (rank > 0 && !shape))
        return NULL;
    int64_t count = 1;
    bool odd = false;
    for (int k = 0; k < rank; k++) {
        odd |= shape[k] <= 0 || __builtin_mul_overflow(count, shape[k], &count);
        full[k] = shape[k];
    }
    if (odd || count != wf_view_numel(&x->view) || !wf_view_is_contiguous(&x->view))
        return NULL;
    weft_tensor *t = wf_tensor_begin(x->ctx, x->node);
    if (t) {
        wf_view_rows(rank, full, &t->view);
        t->view.offset = x->view.offset;
    }
    return t;
}

static weft_tensor *reshape(weft_tensor *x, int rank, const int64_t *shape)
{
    wf_view rows, v;
    weft_tensor *plain = reshape_rows(x, rank, shape);
    if (plain)
        return plain;
    weft_status st = resolve_shape(x, rank, shape, &rows);
    if (st != WEFT_OK)
        return wf_tensor_error_last(x->ctx, st);
    if (wf_view_is_contiguous(&x->view)) {
        rows.offset = wf_view_numel(&rows) ? x->view.offset : 0;
        return view_of("reshape", x, WEFT_OK, &rows);
    }
    if (wf_view_reshape(&x->view, rank, rows.shape, &v))
        return view_of("reshape", x, WEFT_OK, &v);
    return copy_of("reshape", x, &rows);
}

weft_tensor *weft_reshape(weft_tensor *x, int rank, const int64_t *shape)
{
    weft_tensor *r;
    if (!wf_enter("reshape", 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    return wf_leave(ctx, reshape(x, rank, shape));
}

weft_tensor *weft_contiguous(weft_tensor *x)
{
    weft_tensor *r;
    if (!wf_enter("contiguous", 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    if (wf_view_is_contiguous(&x->view))
        return wf_leave(ctx, wf_same_value(x));
    wf_view rows;
    wf_view_rows(x->view.rank, x->view.shape, &rows); /* not empty: that is contiguous */
    return wf_leave(ctx, copy_of("contiguous", x, &rows));
}

weft_tensor *weft_permute(weft_tensor *x, const int *axes)
{
    weft_tensor *r;
    if (!wf_enter("permute", 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    if (x->node->dtype >= WEFT_DTYPE_Q8_0) {
        wf_view v;
        weft_status st = wf_view_permute(&x->view, axes, &v);
        return wf_leave(ctx, view_of("permute", x, st, &v));
    }
    /* In place: a view that is built and then copied is read back before its stores have settled. */
    r = wf_tensor_begin(ctx, x->node);
    if (!r)
        return wf_leave(ctx, wf_tensor_error_last(ctx, WEFT_E_OOM));
    weft_status st = wf_view_permute(&x->view, axes, &r->view);
    if (st != WEFT_OK) {
        weft_tensor_release(weft_keep(r));
        r = wf_tensor_error_last(ctx, st);
    }
    return wf_leave(ctx, r);
}

weft_tensor *weft_transpose(weft_tensor *x, int axis0, int axis1)
{
    weft_tensor *r;
    if (!wf_enter("transpose", 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    wf_view v = x->view;
    weft_status st = WEFT_OK;
    bool is_number = wf_axis_of_number(v.rank, axis0) && wf_axis_of_number(v.rank, axis1);
    if (!is_number)
        st = wf_axis("transpose", v.rank, axis0, &axis0);
    if (st == WEFT_OK && !is_number)
        st = wf_axis("transpose", v.rank, axis1, &axis1);
    if (st == WEFT_OK && !is_number) {
        v.shape[axis0] = x->view.shape[axis1];
        v.shape[axis1] = x->view.shape[axis0];
        v.strides[axis0] = x->view.strides[axis1];
        v.strides[axis1] = x->view.strides[axis0];
    }
    return wf_leave(ctx, view_of("transpose", x, st, &v));
}

weft_tensor *weft_slice(weft_tensor *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    weft_tensor *r;
    if (!wf_enter("slice", 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    wf_view v;
    weft_status st = wf_view_slice(&x->view, axis, start, stop, step, &v);
    return wf_leave(ctx, view_of("slice", x, st, &v));
}

weft_tensor *weft_flip(weft_tensor *x, int axis)
{
    weft_tensor *r;
    if (!wf_enter("flip", 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    wf_view v = x->view;
    weft_status st = WEFT_OK;
    bool is_number = wf_axis_of_number(v.rank, axis);
    if (!is_number)
        st = wf_axis("flip", v.rank, axis, &axis);
    if (st == WEFT_OK && !is_number)
        st = wf_view_slice(&x->view, axis, WEFT_INDEX_NONE, WEFT_INDEX_NONE, -1, &v);
    return wf_leave(ctx, view_of("flip", x, st, &v));
}

weft_tensor *weft_expand(weft_tensor *x, int rank, const int64_t *shape)
{
    weft_tensor *r;
    if (!wf_enter("expand", 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    wf_view v;
    weft_status st = wf_view_expand("expand", &x->view, rank, shape, &v);
    return wf_leave(ctx, view_of("expand", x, st, &v));
}

weft_tensor *weft_squeeze(weft_tensor *x, int axis)
{
    weft_tensor *r;
    if (!wf_enter("squeeze", 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    wf_view v = x->view;
    weft_status st = wf_axis("squeeze", v.rank, axis, &axis);
    if (st == WEFT_OK && v.shape[axis] != 1)
        st = wf_fail(WEFT_E_SHAPE, "squeeze: axis %d has extent %lld, expected 1", axis, (long long)v.shape[axis]);
    if (st == WEFT_OK) {
        for (int k = axis; k + 1 < v.rank; k++) {
            v.shape[k] = v.shape[k + 1];
            v.strides[k] = v.strides[k + 1];
        }
        v.rank--;
        v.shape[v.rank] = 1;
        v.strides[v.rank] = 0;
    }
    return wf_leave(ctx, view_of("squeeze", x, st, &v));
}

weft_tensor *weft_unsqueeze(weft_tensor *x, int axis)
{
    weft_tensor *r;
    if (!wf_enter("unsqueeze", 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    wf_view v = x->view;
    weft_status st = wf_axis("unsqueeze", v.rank + 1, axis, &axis);
    if (st == WEFT_OK && v.rank == WEFT_MAX_RANK)
        st = wf_fail(WEFT_E_SHAPE, "unsqueeze: rank %d is the largest", v.rank);
    if (st == WEFT_OK) {
        for (int k = v.rank; k > axis; k--) {
            v.shape[k] = v.shape[k - 1];
            v.strides[k] = v.strides[k - 1];
        }
        v.shape[axis] = 1;
        v.strides[axis] = 0;
        v.rank++;
    }
    return wf_leave(ctx, view_of("unsqueeze", x, st, &v));
}
