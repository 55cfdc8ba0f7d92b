/* build_index.c - builders of ops with computed indices: select, gather, cat, slice update, top-k. */
#include "build.h"

/* ---- index_select, embedding ---- */

enum { TAKES_BLOCKS = 1, STRICT = 2 };

static weft_tensor *select_rows(const char *who, weft_tensor *x, int axis, weft_tensor *index, int flags)
{
    weft_ctx *ctx = x->ctx;
    weft_dtype dtype = (weft_dtype)x->node->dtype;
    bool blocks = dtype >= WEFT_DTYPE_Q8_0;
    wf_arg arg = wf_arg_of(index);
    wf_view room, result;
    wf_node *n = NULL;
    weft_status st = blocks && flags & TAKES_BLOCKS ? WEFT_OK : wf_require_plain(who, x);
    if (st == WEFT_OK)
        st = wf_axis(who, x->view.rank, axis, &axis);
    if (st == WEFT_OK && blocks && x->view.rank != 2)
        st = wf_fail(WEFT_E_SHAPE, "%s: w has rank %d, expected 2", who, x->view.rank);
    int rank = x->view.rank - 1 + index->view.rank;
    if (st == WEFT_OK && rank > WEFT_MAX_RANK)
        st = wf_fail(WEFT_E_SHAPE, "%s: the result has rank %d, the largest is %d", who, rank, WEFT_MAX_RANK);
    if (st == WEFT_OK && x->view.shape[axis] == 0 && wf_view_numel(&index->view) > 0)
        st = wf_fail(WEFT_E_INDEX, "%s: axis %d is empty", who, axis);
    if (st == WEFT_OK)
        st = wf_arg_index(who, ctx, &arg, &room);
    if (st == WEFT_OK) {
        int64_t shape[WEFT_MAX_RANK];
        int r = 0;
        for (int k = 0; k < axis; k++)
            shape[r++] = x->view.shape[k];
        for (int k = 0; k < index->view.rank; k++)
            shape[r++] = index->view.shape[k];
        for (int k = axis + 1; k < x->view.rank; k++)
            shape[r++] = x->view.shape[k];
        st = wf_view_contiguous(who, rank, shape, &result);
    }
    if (st == WEFT_OK &&
        !(n = wf_node_new(ctx, WF_OP_INDEX_SELECT, blocks ? WEFT_DTYPE_F32 : dtype, 2, rank, result.shape)))
        st = WEFT_E_OOM;
    if (st != WEFT_OK) {
        wf_node_sink(arg.node);
        return wf_tensor_error_last(ctx, st);
    }
    wf_node_set_input(n, 0, x->node, &x->view);
    wf_node_set_input(n, 1, arg.node, arg.view);
    n->attrs.index.axis = axis;
    n->attrs.index.strict = (flags & STRICT) != 0;
    return wf_tensor_new(ctx, n, &result);
}

weft_tensor *weft_index_select(weft_tensor *x, int axis, weft_tensor *index)
{
    weft_tensor *in[2] = {x, index}, *r;
    if (x && x->status == WEFT_OK && wf_axis_of_number(x->view.rank, axis))
        return wf_select_number(x, index);
    if (!wf_enter("index_select", 2, in, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    return wf_leave(ctx, select_rows("index_select", x, axis, index, 0));
}

weft_tensor *wf_select_strict(const char *who, weft_tensor *x, weft_tensor *index)
{
    weft_tensor *in[2] = {x, index}, *r;
    if (!wf_enter(who, 2, in, &r))
        return r;
    return wf_leave(x->ctx, select_rows(who, x, 0, index, STRICT));
}

weft_tensor *weft_embedding(weft_tensor *w, weft_tensor *ids)
{
    weft_tensor *in[2] = {w, ids}, *r;
    if (!wf_enter("embedding", 2, in, &r))
        return r;
    weft_ctx *ctx = w->ctx;
    return wf_leave(ctx, select_rows("embedding", w, 0, ids, TAKES_BLOCKS));
}

/* ---- gather ---- */

/* The node of a gather whose operands were checked. x is cut to the index on all axes but one. */
static wf_node *gather_node(weft_ctx *ctx, wf_arg x, int axis, wf_arg index)
{
    wf_node *n = wf_node_like(ctx, WF_OP_GATHER, (weft_dtype)x.node->dtype, 2, index.view);
    if (!n)
        return NULL;
    int64_t shape[WEFT_MAX_RANK];
    wf_view v = *x.view;
    memcpy(shape, index.view->shape, sizeof shape);
    shape[axis] = v.shape[axis];
    for (int k = 0; k < v.rank; k++)
        if (v.shape[k] != shape[k]) /* a slice from 0: cannot fail */
            wf_view_slice(&v, k, 0, shape[k], 1, &v);
    wf_node_set_input(n, 0, x.node, &v);
    wf_node_set_input(n, 1, index.node, index.view);
    n->attrs.index.axis = axis;
    return n;
}

static weft_status gather_check(const weft_tensor *x, int *axis, const weft_tensor *index)
{
    WF_TRY(wf_require_plain("gather", x));
    WF_TRY(wf_axis("gather", x->view.rank, *axis, axis));
    bool fits = x->view.rank == index->view.rank;
    for (int k = 0; fits && k < x->view.rank; k++)
        fits = k == *axis || index->view.shape[k] <= x->view.shape[k];
    if (!fits) {
        char tx[200], ti[200];
        wf_view_format(&x->view, tx, sizeof tx);
        wf_view_format(&index->view, ti, sizeof ti);
        return wf_fail(WEFT_E_SHAPE, "gather: index %s does not fit x %s along axis %d", ti, tx, *axis);
    }
    if (x->view.shape[*axis] == 0 && wf_view_numel(&index->view) > 0)
        return wf_fail(WEFT_E_INDEX, "gather: axis %d is empty", *axis);
    return WEFT_OK;
}

weft_tensor *weft_gather(weft_tensor *x, int axis, weft_tensor *index)
{
    weft_tensor *in[2] = {x, index}, *r;
    if (x && index && x->status == WEFT_OK && index->status == WEFT_OK && x->view.rank < 2 && index->view.rank < 2 &&
        (x->view.rank == 0 || index->view.rank == 0) && (axis == 0 || axis == -1))
        return wf_gather_number(x, index);
    if (!wf_enter("gather", 2, in, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    wf_arg arg = wf_arg_of(index);
    wf_view room;
    wf_node *n = NULL;
    weft_status st = gather_check(x, &axis, index);
    if (st == WEFT_OK)
        st = wf_arg_index("gather", ctx, &arg, &room);
    if (st == WEFT_OK && !(n = gather_node(ctx, wf_arg_of(x), axis, arg)))
        st = WEFT_E_OOM;
    if (st == WEFT_OK) {
        r = wf_tensor_new(ctx, n, NULL);
    } else {
        wf_node_sink(arg.node);
        r = wf_tensor_error_last(ctx, st);
    }
    return wf_leave(ctx, r);
}

/* ---- slice update ---- */

static weft_status update_check(const weft_tensor *dst, const weft_tensor *src, int *axis, const weft_tensor *start)
{
    WF_TRY(wf_require_plain("slice_update", dst));
    WF_TRY(wf_require_plain("slice_update", src));
    WF_TRY(wf_axis("slice_update", dst->view.rank, *axis, axis));
    bool fits = dst->view.rank == src->view.rank;
    for (int k = 0; fits && k < dst->view.rank; k++)
        fits = k == *axis ? src->view.shape[k] <= dst->view.shape[k] : src->view.shape[k] == dst->view.shape[k];
    if (!fits) {
        char td[200], ts[200];
        wf_view_format(&dst->view, td, sizeof td);
        wf_view_format(&src->view, ts, sizeof ts);
        return wf_fail(WEFT_E_SHAPE, "slice_update: src %s does not fit dst %s along axis %d", ts, td, *axis);
    }
    if (start->node->op == WF_OP_SCALAR && start->node->dtype == WEFT_DTYPE_I32 && start->view.rank == 0) {
        int32_t at = (int32_t)start->node->scalar_bits; /* known already: say so now */
        int64_t n = src->view.shape[*axis], extent = dst->view.shape[*axis];
        if (at < 0 || at > extent - n)
            return wf_fail(WEFT_E_INDEX, "slice_update: %lld .. %lld is outside axis %d of extent %lld", (long long)at,
                           (long long)at + n, *axis, (long long)extent);
    }
    return WEFT_OK;
}

weft_tensor *weft_slice_update(weft_tensor *dst, weft_tensor *src, int axis, weft_tensor *start)
{
    weft_tensor *in[3] = {dst, src, start}, *r;
    if (!wf_enter("slice_update", 3, in, &r))
        return r;
    weft_ctx *ctx = dst->ctx;
    weft_dtype dtype = (weft_dtype)dst->node->dtype;
    wf_arg from = wf_arg_of(src), at = wf_arg_of(start);
    wf_view room_from, room_at;
    wf_node *n = NULL;
    weft_status st = update_check(dst, src, &axis, start);
    if (st == WEFT_OK)
        st = wf_arg_rank0_i32("slice_update", "start", ctx, &at, &room_at);
    if (st == WEFT_OK)
        st = wf_arg_cast(ctx, &from, dtype, &room_from);
    bool nothing = st == WEFT_OK && wf_view_numel(from.view) == 0;
    if (nothing) {
        r = wf_same_value(dst);
    } else if (st == WEFT_OK && !(n = wf_node_like(ctx, WF_OP_SLICE_UPDATE, dtype, 3, &dst->view))) {
        st = WEFT_E_OOM;
    }
    if (nothing || st != WEFT_OK) {
        wf_node_sink(from.node);
        if (at.node != from.node)
            wf_node_sink(at.node);
        return wf_leave(ctx, st == WEFT_OK ? r : wf_tensor_error_last(ctx, st));
    }
    wf_node_set_input(n, 0, dst->node, &dst->view);
    wf_node_set_input(n, 1, from.node, from.view);
    wf_node_set_input(n, 2, at.node, at.view);
    n->attrs.index.axis = axis;
    return wf_leave(ctx, wf_tensor_new(ctx, n, NULL));
}

/* ---- top-k ---- */

static weft_tensor *topk(weft_ctx *ctx, weft_tensor *x, int64_t k, weft_tensor **values)
{
    weft_status st = wf_require_plain("topk", x);
    int rank = x->view.rank;
    int64_t n = rank ? x->view.shape[rank - 1] : 0;
    if (st == WEFT_OK && rank == 0)
        st = wf_fail(WEFT_E_SHAPE, "topk: x has rank 0");
    if (st == WEFT_OK && (k < 0 || k > n))
        st = wf_fail(WEFT_E_VALUE, "topk: k is %lld, the last axis has %lld elements", (long long)k, (long long)n);
    if (st == WEFT_OK && n > INT32_MAX)
        st = wf_fail(WEFT_E_SHAPE, "topk: an index among %lld elements does not fit i32", (long long)n);
    if (st != WEFT_OK)
        return wf_tensor_error_last(ctx, st);
    int64_t shape[WEFT_MAX_RANK];
    memcpy(shape, x->view.shape, sizeof shape);
    shape[rank - 1] = k;
    wf_view rows, room;
    wf_view_contiguous("topk", rank, shape, &rows); /* no larger than x */
    wf_arg key = wf_arg_of(x); /* what is compared; the values come from x itself */
    wf_node *index = NULL;
    if (x->node->dtype == WEFT_DTYPE_BOOL)
        st = wf_arg_cast(ctx, &key, WEFT_DTYPE_I32, &room);
    if (st == WEFT_OK && !(index = wf_node_new(ctx, WF_OP_TOPK, WEFT_DTYPE_I32, 1, rank, shape))) {
        wf_node_sink(key.node);
        st = WEFT_E_OOM;
    }
    if (st != WEFT_OK)
        return wf_tensor_error_last(ctx, st);
    wf_node_set_input(index, 0, key.node, key.view);
    index->attrs.topk.k = k;
    wf_node *picked = NULL;
    if (values && !(picked = gather_node(ctx, wf_arg_of(x), rank - 1, (wf_arg){index, &rows}))) {
        wf_node_sink(index);
        return wf_tensor_error_last(ctx, WEFT_E_OOM);
    }
    weft_tensor *result = wf_tensor_new(ctx, index, &rows);
    if (picked && result->status == WEFT_OK)
        *values = wf_tensor_new(ctx, picked, NULL);
    else
        wf_node_sink(picked);
    return result;
}

weft_tensor *weft_topk(weft_tensor *x, int64_t k, weft_tensor **values)
{
    weft_tensor *r;
    bool entered = wf_enter("topk", 1, &x, &r);
    weft_ctx *ctx = entered ? x->ctx : r->ctx;
    if (entered) {
        r = topk(ctx, x, k, values);
        wf_unlock(&wf_core(ctx)->lock);
    }
    if (values && r->status != WEFT_OK) /* the other result is the same error */
        *values = ctx ? wf_tensor_error(ctx, r->status, "%s", weft_tensor_message(r)) : r;
    return r;
}
