/* build_reduce.c - builders of reductions over axes, and of row ops (softmax, norms) along one axis. */
#include "build.h"
#include "composite.h"

#include <math.h>

/* ---- reductions ---- */

weft_status wf_reduce_axes(const char *who, const weft_tensor *x, const int *axes, int n_axes, uint32_t *mask)
{
    int rank = x->view.rank;
    if (n_axes < 0 || (n_axes > 0 && !axes))
        return wf_fail(WEFT_E_VALUE, "%s: %d axes%s", who, n_axes, n_axes > 0 ? " at NULL" : "");
    if (n_axes == 0) {
        *mask = (1u << rank) - 1;
        return WEFT_OK;
    }
    *mask = 0;
    if (rank == 0 && n_axes == 1 && (axes[0] == 0 || axes[0] == -1))
        return WEFT_OK;
    for (int i = 0; i < n_axes; i++) {
        int axis = 0;
        WF_TRY(wf_axis(who, rank, axes[i], &axis));
        if (*mask & 1u << axis)
            return wf_fail(WEFT_E_SHAPE, "%s: axis %d is named twice", who, axis);
        *mask |= 1u << axis;
    }
    return WEFT_OK;
}

/* The dtype the input is converted to, and that of the result. */
static void reduce_dtypes(wf_op op, weft_dtype in, weft_dtype *compute, weft_dtype *result)
{
    bool is_float = in <= WEFT_DTYPE_F64, is_bool = in == WEFT_DTYPE_BOOL;
    *compute = is_bool ? WEFT_DTYPE_I32 : in;
    switch (op) {
    case WF_OP_MEAN:
        if (!is_float)
            *compute = WEFT_DTYPE_F32;
        *result = *compute;
        return;
    case WF_OP_ARGMAX:
    case WF_OP_ARGMIN:
        *result = WEFT_DTYPE_I32;
        return;
    case WF_OP_SUM:
    case WF_OP_PROD:
        if (in == WEFT_DTYPE_I8 || in == WEFT_DTYPE_U8)
            *compute = WEFT_DTYPE_I32;
        *result = *compute;
        return;
    default: /* max, min */
        *result = in;
        return;
    }
}

/* No axis is reduced (rank 0): the value itself, or index 0. */
static weft_tensor *reduce_nothing(weft_ctx *ctx, weft_tensor *x, weft_dtype result, bool is_index)
{
    wf_arg arg = wf_arg_of(x);
    wf_view room;
    if (is_index) {
        wf_node *zero = wf_full_node(ctx, WEFT_DTYPE_I32, 0, NULL, 0);
        return zero ? wf_tensor_new(ctx, zero, NULL) : wf_tensor_error_last(ctx, WEFT_E_OOM);
    }
    weft_status st = wf_arg_cast(ctx, &arg, result, &room);
    return st == WEFT_OK ? wf_tensor_new(ctx, arg.node, arg.view) : wf_tensor_error_last(ctx, st);
}

static weft_tensor *reduce(wf_op op, weft_tensor *x, const int *axes, int n_axes, bool keepdim)
{
    const char *who = wf_op_table[op].name;
    weft_ctx *ctx = x->ctx;
    uint32_t mask = 0;
    weft_dtype compute, result;
    weft_status st = wf_require_plain(who, x);
    if (st == WEFT_OK)
        st = wf_reduce_axes(who, x, axes, n_axes, &mask);
    if (st != WEFT_OK)
        return wf_tensor_error_last(ctx, st);
    reduce_dtypes(op, (weft_dtype)x->node->dtype, &compute, &result);
    bool is_index = op == WF_OP_ARGMAX || op == WF_OP_ARGMIN;
    if (mask == 0)
        return reduce_nothing(ctx, x, result, is_index);

    int rank = 0;
    int64_t shape[WEFT_MAX_RANK], count = 1;
    bool needs_one = is_index || op == WF_OP_MAX || op == WF_OP_MIN;
    for (int k = 0; k < x->view.rank; k++) {
        bool reduced = mask & 1u << k;
        if (reduced && needs_one && x->view.shape[k] == 0)
            return wf_tensor_error(ctx, WEFT_E_SHAPE, "%s: axis %d is empty", who, k);
        if (reduced)
            count = wf_mul_i64(count, x->view.shape[k], &count) ? count : INT64_MAX;
        if (!reduced || keepdim)
            shape[rank++] = reduced ? 1 : x->view.shape[k];
    }
    if (is_index && count > INT32_MAX)
        return wf_tensor_error(ctx, WEFT_E_SHAPE, "%s: an index among %lld elements does not fit i32", who, (long long)count);

    wf_arg arg = wf_arg_of(x);
    wf_view room;
    st = wf_arg_cast(ctx, &arg, compute, &room);
    bool back = result == WEFT_DTYPE_BOOL; /* max and min of bool ran in i32 */
    wf_node *n = st == WEFT_OK ? wf_node_new(ctx, op, back ? compute : result, 1, rank, shape) : NULL;
    if (!n) {
        wf_node_sink(arg.node);
        return wf_tensor_error_last(ctx, WEFT_E_OOM);
    }
    wf_node_set_input(n, 0, arg.node, arg.view);
    n->attrs.reduce.axes = mask;
    n->attrs.reduce.keepdim = keepdim;
    if (!back)
        return wf_tensor_new(ctx, n, NULL);
    wf_view rows;
    wf_view_contiguous(who, rank, shape, &rows); /* no larger than x */
    wf_arg whole = {n, &rows};
    if (wf_arg_cast(ctx, &whole, result, &rows) != WEFT_OK) {
        wf_node_sink(n);
        return wf_tensor_error_last(ctx, WEFT_E_OOM);
    }
    return wf_tensor_new(ctx, whole.node, NULL);
}

static weft_tensor *enter_reduce(wf_op op, weft_tensor *x, const int *axes, int n_axes, bool keepdim)
{
    weft_tensor *r;
    if (!wf_enter(wf_op_table[op].name, 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    return wf_leave(ctx, reduce(op, x, axes, n_axes, keepdim));
}

#define REDUCTION(name, id)                                                               \
    weft_tensor *weft_##name(weft_tensor *x, const int *axes, int n_axes, bool keepdim)   \
    {                                                                                     \
        return enter_reduce(WF_OP_##id, x, axes, n_axes, keepdim);                        \
    }
REDUCTION(sum, SUM)
REDUCTION(mean, MEAN)
REDUCTION(prod, PROD)
REDUCTION(max, MAX)
REDUCTION(min, MIN)
REDUCTION(argmax, ARGMAX)
REDUCTION(argmin, ARGMIN)

/* ---- row ops ---- */

/* A weight or bias of extent C along the axis. It keeps its own dtype unless f64 meets another. */
static weft_status row_vector(const char *who, const char *what, weft_ctx *ctx, const weft_tensor *x, int64_t C,
                              const weft_tensor *t, wf_arg *arg, wf_view *room)
{
    WF_TRY(wf_require_float(who, t));
    if (t->view.rank != 1 || t->view.shape[0] != C) {
        char text[200];
        wf_view_format(&t->view, text, sizeof text);
        return wf_fail(WEFT_E_SHAPE, "%s: %s is %s, expected [%lld]", who, what, text, (long long)C);
    }
    bool wide = x->node->dtype == WEFT_DTYPE_F64, is_wide = t->node->dtype == WEFT_DTYPE_F64;
    if (wide != is_wide)
        return wf_arg_cast(ctx, arg, (weft_dtype)x->node->dtype, room);
    return WEFT_OK;
}

static weft_tensor *row_op(wf_op op, weft_tensor *x, weft_tensor *weight, weft_tensor *bias, float eps, int axis)
{
    const char *who = wf_op_table[op].name;
    weft_tensor *in[3] = {x}, *r;
    int n_in = 1;
    if (weight)
        in[n_in++] = weight;
    if (bias)
        in[n_in++] = bias;
    if (!wf_enter(who, n_in, in, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    wf_arg args[3] = {wf_arg_of(x)};
    wf_view room[3];
    int made = 1;
    weft_status st = wf_require_float(who, x);
    if (st == WEFT_OK)
        st = wf_axis(who, x->view.rank, axis, &axis);
    if (st == WEFT_OK && !(eps >= 0 && isfinite(eps)))
        st = wf_fail(WEFT_E_VALUE, "%s: eps is %g", who, (double)eps);
    for (int i = 1; i < n_in && st == WEFT_OK; i++) {
        args[made++] = wf_arg_of(in[i]);
        st = row_vector(who, i == 1 && weight ? "weight" : "bias", ctx, x, x->view.shape[axis], in[i], &args[i], &room[i]);
    }
    wf_node *n = NULL;
    if (st == WEFT_OK && !(n = wf_node_like(ctx, op, (weft_dtype)x->node->dtype, n_in, &x->view)))
        st = WEFT_E_OOM;
    if (st != WEFT_OK) {
        for (int i = 1; i < made; i++)
            wf_node_sink(args[i].node);
        return wf_leave(ctx, wf_tensor_error_last(ctx, st));
    }
    for (int i = 0; i < n_in; i++)
        wf_node_set_input(n, i, args[i].node, args[i].view);
    n->attrs.row.axis = axis;
    n->attrs.row.eps = eps + 0.0f;
    n->attrs.row.has_weight = weight != NULL;
    n->attrs.row.has_bias = bias != NULL;
    return wf_leave(ctx, wf_tensor_new(ctx, n, NULL));
}

/* A number has an axis where one is named, as in a reduction. */
static weft_tensor *row_or_number(wf_op op, weft_tensor *x, int axis)
{
    wf_composite c;
    if (!x || x->status != WEFT_OK || x->view.rank > 0 || (axis != 0 && axis != -1))
        return row_op(op, x, NULL, NULL, 0, axis);
    if (!wf_composite_begin(&c, wf_op_table[op].name, 1, 1, &x))
        return c.failed;
    weft_tensor *line = weft_reshape(x, 1, (int64_t[]){1});
    return wf_composite_end(&c, weft_reshape(row_op(op, line, NULL, NULL, 0, 0), 0, NULL));
}

weft_tensor *weft_softmax(weft_tensor *x, int axis)
{
    return row_or_number(WF_OP_SOFTMAX, x, axis);
}

weft_tensor *weft_log_softmax(weft_tensor *x, int axis)
{
    return row_or_number(WF_OP_LOG_SOFTMAX, x, axis);
}

weft_tensor *weft_rms_norm(weft_tensor *x, weft_tensor *weight, float eps, int axis)
{
    return row_op(WF_OP_RMS_NORM, x, weight, NULL, eps, axis);
}

weft_tensor *weft_layer_norm(weft_tensor *x, weft_tensor *weight, weft_tensor *bias, float eps, int axis)
{
    return row_op(WF_OP_LAYER_NORM, x, weight, bias, eps, axis);
}
