/* constant.c - conversion of operands: rounding a number to a dtype, constants, and casts that need no kernel.
 */
#include "build.h"

#include <math.h>

/* f64 to bf16 rounded once: f32 rounded to odd keeps what the second rounding must know. */
static double round_bf16(double v)
{
    float f = (float)v;
    if ((double)f != v && isfinite(f)) {
        if (fabs((double)f) > fabs(v))
            f = nextafterf(f, 0.0f);
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        bits |= 1;
        memcpy(&f, &bits, sizeof f);
    }
    return wf_bf16_to_f32(wf_f32_to_bf16(f));
}

/* Truncation, saturating; NaN to 0. */
static double round_integer(double v, double lowest, double highest)
{
    if (isnan(v))
        return 0;
    v = trunc(v);
    return v < lowest ? lowest : v > highest ? highest : v + 0.0; /* -0 becomes 0 */
}

double wf_dtype_round(weft_dtype dtype, double value)
{
    if (isnan(value) && weft_dtype_is_float(dtype))
        return (double)NAN; /* one NaN, so that equal constants have equal bytes */
    switch (dtype) {
    case WEFT_DTYPE_F32: return (double)(float)value;
    case WEFT_DTYPE_F16: return wf_f16_to_f32(wf_f64_to_f16(value));
    case WEFT_DTYPE_BF16: return round_bf16(value);
    case WEFT_DTYPE_I32: return round_integer(value, INT32_MIN, INT32_MAX);
    case WEFT_DTYPE_U32: return round_integer(value, 0, UINT32_MAX);
    case WEFT_DTYPE_I8: return round_integer(value, INT8_MIN, INT8_MAX);
    case WEFT_DTYPE_U8: return round_integer(value, 0, UINT8_MAX);
    case WEFT_DTYPE_I64: return round_integer(value, -0x1p63, 0x1p63);
    case WEFT_DTYPE_BOOL: return value != 0;
    default: return value;
    }
}

wf_node *wf_full_node(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, double value)
{
    wf_node *n = wf_node_new(ctx, WF_OP_FULL, dtype, 0, rank, shape);
    if (n)
        n->attrs.constant.value = wf_dtype_round(dtype, value);
    return n;
}

/* A run-time scalar of the other 32-bit dtype; stays a parameter, so it costs no kernel. */
static wf_node *scalar_cast(weft_ctx *ctx, const wf_node *src, weft_dtype dtype)
{
    wf_node *n = wf_node_new(ctx, WF_OP_SCALAR, dtype, 0, 0, NULL);
    if (!n)
        return NULL;
    if (dtype == WEFT_DTYPE_F32) {
        int32_t i;
        memcpy(&i, &src->scalar_bits, sizeof i);
        float f = (float)i;
        memcpy(&n->scalar_bits, &f, sizeof f);
    } else {
        float f;
        memcpy(&f, &src->scalar_bits, sizeof f);
        int32_t i = (int32_t)wf_dtype_round(WEFT_DTYPE_I32, f);
        memcpy(&n->scalar_bits, &i, sizeof i);
    }
    return n;
}

weft_status wf_arg_cast(weft_ctx *ctx, wf_arg *arg, weft_dtype dtype, wf_view *room)
{
    wf_node *src = arg->node, *n;
    if (src->dtype == dtype)
        return WEFT_OK;
    if (src->op == WF_OP_FULL) {
        n = wf_full_node(ctx, dtype, src->rank, src->shape, src->attrs.constant.value);
        if (!n)
            return WEFT_E_OOM;
        if (arg->view != room)
            *room = *arg->view;
    } else if (src->op == WF_OP_SCALAR && arg->view->rank == 0 && (dtype == WEFT_DTYPE_F32 || dtype == WEFT_DTYPE_I32)) {
        n = scalar_cast(ctx, src, dtype);
        if (!n)
            return WEFT_E_OOM;
        wf_view_rows(0, n->shape, room);
    } else {
        n = wf_node_like(ctx, WF_OP_CAST, dtype, 1, arg->view);
        if (!n)
            return WEFT_E_OOM;
        wf_node_set_input(n, 0, src, arg->view);
        wf_view_rows(n->rank, n->shape, room);
    }
    wf_node_sink(src);
    arg->node = n;
    arg->view = room;
    return WEFT_OK;
}

weft_status wf_arg_rank0_i32(const char *who, const char *what, weft_ctx *ctx, wf_arg *arg, wf_view *room)
{
    if (arg->view->rank != 0)
        return wf_fail(WEFT_E_SHAPE, "%s: %s has rank %d, expected 0", who, what, arg->view->rank);
    if (!weft_dtype_is_integer((weft_dtype)arg->node->dtype))
        return wf_fail(WEFT_E_DTYPE, "%s: %s is %s, expected i32", who, what, weft_dtype_name((weft_dtype)arg->node->dtype));
    return wf_arg_cast(ctx, arg, WEFT_DTYPE_I32, room);
}

/* The operand within `bound`: op is MINIMUM or MAXIMUM. The operand is unchanged on failure. */
static weft_status bound_arg(weft_ctx *ctx, wf_arg *arg, wf_op op, double bound, wf_view *room)
{
    weft_dtype dtype = (weft_dtype)arg->node->dtype;
    wf_view whole;
    WF_TRY(wf_view_contiguous(wf_op_table[op].name, arg->view->rank, arg->view->shape, &whole));
    wf_node *n = wf_node_like(ctx, op, dtype, 2, &whole), *limit = wf_full_node(ctx, dtype, whole.rank, whole.shape, bound);
    if (!n || !limit) {
        wf_node_sink(n);
        wf_node_sink(limit);
        return WEFT_E_OOM;
    }
    wf_node_set_input(n, 0, arg->node, arg->view);
    wf_node_set_input(n, 1, limit, &whole);
    *room = whole;
    *arg = (wf_arg){n, room};
    return WEFT_OK;
}

weft_status wf_arg_index(const char *who, weft_ctx *ctx, wf_arg *arg, wf_view *room)
{
    weft_dtype dtype = (weft_dtype)arg->node->dtype;
    if (!weft_dtype_is_integer(dtype))
        return wf_fail(WEFT_E_DTYPE, "%s: index is %s, expected i32", who, weft_dtype_name(dtype));
    /* A cast would wrap, and an index far outside would be one inside. */
    if (dtype == WEFT_DTYPE_U32 || dtype == WEFT_DTYPE_I64)
        WF_TRY(bound_arg(ctx, arg, WF_OP_MINIMUM, INT32_MAX, room));
    if (dtype == WEFT_DTYPE_I64)
        WF_TRY(bound_arg(ctx, arg, WF_OP_MAXIMUM, INT32_MIN, room));
    return wf_arg_cast(ctx, arg, WEFT_DTYPE_I32, room);
}

weft_status wf_require_plain(const char *who, const weft_tensor *t)
{
    weft_dtype dtype = (weft_dtype)t->node->dtype;
    if (dtype < WEFT_DTYPE_Q8_0)
        return WEFT_OK;
    return wf_fail(WEFT_E_DTYPE, "%s: %s is a block type: only linear, embedding and cast read it", who,
                   weft_dtype_name(dtype));
}

weft_status wf_require_float(const char *who, const weft_tensor *t)
{
    weft_dtype dtype = (weft_dtype)t->node->dtype;
    if (dtype <= WEFT_DTYPE_F64)
        return WEFT_OK;
    WF_TRY(wf_require_plain(who, t));
    return wf_fail(WEFT_E_DTYPE, "%s: %s is no float dtype: cast first", who, weft_dtype_name(dtype));
}
