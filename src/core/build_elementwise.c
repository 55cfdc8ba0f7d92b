/* build_elementwise.c - builders of elementwise ops: promotion, broadcasting, casts.
 *
 * A node's inputs have the result's shape (stride 0 where they broadcast) and, but for comparisons,
 * casts and the condition of where, the result's dtype: conversions are nodes of their own, which fuse.
 */
#include "build.h"

/* ---- dtypes ---- */

enum { CATEGORY_BOOL, CATEGORY_INTEGER, CATEGORY_FLOAT };

static int category(weft_dtype dtype)
{
    return dtype <= WEFT_DTYPE_F64 ? CATEGORY_FLOAT : dtype == WEFT_DTYPE_BOOL ? CATEGORY_BOOL : CATEGORY_INTEGER;
}

static bool is_float(weft_dtype dtype)
{
    return dtype <= WEFT_DTYPE_F64;
}

/* Whether a conversion to an integer dtype would change a number of rank 0 whose value is known. */
static bool number_changes(const weft_tensor *t, weft_dtype to, double *value)
{
    const wf_node *n = t->node;
    if (t->view.rank != 0 || category((weft_dtype)n->dtype) != CATEGORY_INTEGER || category(to) != CATEGORY_INTEGER)
        return false;
    if (n->op == WF_OP_SCALAR) {
        int32_t i;
        memcpy(&i, &n->scalar_bits, sizeof i);
        *value = n->dtype == WEFT_DTYPE_U32 ? (double)(uint32_t)i : i;
    } else if (wf_node_is_constant(n))
        *value = n->attrs.constant.value;
    else
        return false;
    return wf_dtype_round(to, *value) != *value;
}

weft_status wf_numbers_fit(const char *who, int n, weft_tensor *const *in, weft_dtype dtype)
{
    double value;
    for (int i = 0; i < n; i++)
        if (in[i] && number_changes(in[i], dtype, &value))
            return wf_fail(WEFT_E_VALUE, "%s: %s cannot hold the number %.17g: cast first", who, weft_dtype_name(dtype), value);
    return WEFT_OK;
}

/* A rank-0 operand beside one with axes counts only when its category is higher (PyTorch's rule). */
static weft_status promote(const char *who, const weft_tensor *a, const weft_tensor *b, weft_dtype *out)
{
    weft_dtype da = (weft_dtype)a->node->dtype, db = (weft_dtype)b->node->dtype;
    WF_TRY(wf_require_plain(who, a));
    WF_TRY(wf_require_plain(who, b));
    if (da == db || (b->view.rank == 0 && a->view.rank > 0 && category(db) <= category(da))) {
        *out = da;
        return WEFT_OK;
    }
    if (a->view.rank == 0 && b->view.rank > 0 && category(da) <= category(db)) {
        *out = db;
        return WEFT_OK;
    }
    return weft_dtype_promote(da, db, out);
}

weft_status wf_promote(const char *who, int n, weft_tensor *const *in, weft_dtype *out)
{
    bool there[2] = {false, false}; /* of rank 0, with axes */
    weft_dtype dtype[2];
    for (int i = 0; i < n; i++) {
        if (!in[i])
            continue;
        WF_TRY(wf_require_plain(who, in[i]));
        int with_axes = in[i]->view.rank > 0;
        weft_dtype d = (weft_dtype)in[i]->node->dtype;
        if (there[with_axes])
            WF_TRY(weft_dtype_promote(dtype[with_axes], d, &d));
        dtype[with_axes] = d;
        there[with_axes] = true;
    }
    if (there[0] && there[1] && category(dtype[0]) > category(dtype[1]))
        return weft_dtype_promote(dtype[0], dtype[1], out);
    *out = dtype[there[1]];
    return wf_numbers_fit(who, n, in, *out);
}

/* Numbers that the dtype cannot hold: comparisons compute in one that can, sums, products and bits wrap where the number is
 * only of the wrong sign (u8 + -1), the others would give a wrong answer. */
static weft_status fit_numbers(wf_op op, const char *who, weft_tensor *const in[2], weft_dtype *dtype)
{
    double value;
    bool changes = false, beyond = false;
    for (int i = 0; i < 2; i++)
        if (number_changes(in[i], *dtype, &value)) {
            changes = true;
            beyond |= value > 0 || wf_dtype_round(*dtype, -value) != -value;
        }
    if (!changes)
        return WEFT_OK;
    switch (op) {
    case WF_OP_EQ: case WF_OP_NE: case WF_OP_LT: case WF_OP_LE: case WF_OP_GT: case WF_OP_GE: case WF_OP_DIV:
        return weft_dtype_promote((weft_dtype)in[0]->node->dtype, (weft_dtype)in[1]->node->dtype, dtype);
    case WF_OP_ADD: case WF_OP_SUB: case WF_OP_MUL: case WF_OP_BITWISE_AND: case WF_OP_BITWISE_OR: case WF_OP_BITWISE_XOR:
        if (!beyond)
            return WEFT_OK;
        /* fallthrough */
    default:
        return wf_numbers_fit(who, 2, in, *dtype);
    }
}

/* In which dtype a binary op computes, and what it gives. */
static weft_status binary_dtypes(wf_op op, const char *who, weft_tensor *a, weft_tensor *b,
                                 weft_dtype *compute, weft_dtype *result)
{
    weft_dtype dtype;
    WF_TRY(promote(who, a, b, &dtype));
    WF_TRY(fit_numbers(op, who, (weft_tensor *[]){a, b}, &dtype));
    *compute = *result = dtype;
    switch (op) {
    case WF_OP_DIV:
        if (!is_float(dtype))
            *compute = *result = WEFT_DTYPE_F32;
        return WEFT_OK;
    case WF_OP_POW:
        if (!is_float(dtype))
            return wf_fail(WEFT_E_DTYPE, "pow: %s is no float dtype: cast first", weft_dtype_name(dtype));
        return WEFT_OK;
    case WF_OP_SUB:
        if (dtype == WEFT_DTYPE_BOOL)
            return wf_fail(WEFT_E_DTYPE, "sub: bool has no difference: cast first, or use ne");
        return WEFT_OK;
    case WF_OP_ATAN2: case WF_OP_HYPOT: case WF_OP_COPYSIGN:
        if (!is_float(dtype))
            *compute = *result = WEFT_DTYPE_F32;
        return WEFT_OK;
    case WF_OP_FMOD: case WF_OP_REMAINDER: case WF_OP_FLOOR_DIVIDE:
        if (dtype == WEFT_DTYPE_BOOL)
            return wf_fail(WEFT_E_DTYPE, "%s: bools do not divide: cast first", who);
        return WEFT_OK;
    case WF_OP_LEFT_SHIFT: case WF_OP_RIGHT_SHIFT:
        if (dtype == WEFT_DTYPE_BOOL)
            return wf_fail(WEFT_E_DTYPE, "%s: bool has no bits to shift: cast first", who);
        /* fallthrough */
    case WF_OP_BITWISE_AND: case WF_OP_BITWISE_OR: case WF_OP_BITWISE_XOR:
        if (is_float(dtype))
            return wf_fail(WEFT_E_DTYPE, "%s: %s has no bits to work on: cast first", who, weft_dtype_name(dtype));
        return WEFT_OK;
    case WF_OP_EQ: case WF_OP_NE: case WF_OP_LT: case WF_OP_LE: case WF_OP_GT: case WF_OP_GE:
        *result = WEFT_DTYPE_BOOL;
        break;
    default:
        break;
    }
    if (dtype == WEFT_DTYPE_BOOL) /* add is or, mul is and: integers, then not equal to 0 */
        *compute = WEFT_DTYPE_I32;
    return WEFT_OK;
}

/* ---- nodes ---- */

static weft_status make(weft_ctx *ctx, wf_op op, weft_dtype dtype, int n, const wf_arg *args, const wf_view *shape,
                        wf_node **out)
{
    wf_node *node = wf_node_like(ctx, op, dtype, n, shape);
    if (!node)
        return WEFT_E_OOM;
    for (int i = 0; i < n; i++) {
        if (wf_same_shape(args[i].view, shape)) {
            wf_node_set_input(node, i, args[i].node, args[i].view);
            continue;
        }
        wf_view expanded;
        weft_status st = wf_view_expand(wf_op_table[op].name, args[i].view, shape->rank, shape->shape, &expanded);
        if (st != WEFT_OK) { /* the operands stay the caller's, fresh ones too */
            while (--i >= 0)
                args[i].node->refs--;
            node->n_in = 0;
            wf_node_sink(node);
            return st;
        }
        wf_node_set_input(node, i, args[i].node, &expanded);
    }
    *out = node;
    return WEFT_OK;
}

static weft_tensor *finish(weft_ctx *ctx, weft_status st, wf_node *node)
{
    return st == WEFT_OK ? wf_tensor_new(ctx, node, NULL) : wf_tensor_error_last(ctx, st);
}

/* What differs in dtype or shape. */
static weft_tensor *binary_general(weft_ctx *ctx, wf_op op, const char *who, weft_tensor *a, weft_tensor *b)
{
    weft_dtype compute, result;
    wf_view shape, room[2];
    wf_arg args[2] = {wf_arg_of(a), wf_arg_of(b)};
    wf_node *node = NULL;
    weft_status st = binary_dtypes(op, who, a, b, &compute, &result);
    if (st == WEFT_OK)
        st = wf_view_broadcast_shape(who, &a->view, &b->view, &shape);
    if (st != WEFT_OK)
        return wf_tensor_error_last(ctx, st);
    for (int i = 0; i < 2 && st == WEFT_OK; i++)
        st = wf_arg_cast(ctx, &args[i], compute, &room[i]);
    bool compares = result == WEFT_DTYPE_BOOL && op >= WF_OP_EQ && op <= WF_OP_GE;
    if (st == WEFT_OK)
        st = make(ctx, op, compares ? result : compute, 2, args, &shape, &node);
    if (st == WEFT_OK && !compares && result != compute) {
        wf_arg whole = {node, &shape};
        st = wf_arg_cast(ctx, &whole, result, &room[0]);
        if (st != WEFT_OK) {
            wf_node_sink(node); /* and with it the operands */
            return wf_tensor_error_last(ctx, st);
        }
        node = whole.node;
    }
    if (st != WEFT_OK) { /* casts that became no input */
        wf_node_sink(args[0].node);
        if (args[1].node != args[0].node)
            wf_node_sink(args[1].node);
    }
    return finish(ctx, st, node);
}

weft_tensor *wf_build_binary(wf_op op, weft_tensor *a, weft_tensor *b)
{
    const char *who = wf_op_table[op].name;
    weft_tensor *in[2] = {a, b}, *r;
    if (!wf_enter(who, 2, in, &r))
        return r;
    weft_ctx *ctx = a->ctx;
    weft_dtype dtype = (weft_dtype)a->node->dtype;
    if (op < WF_OP_EQ && is_float(dtype) && b->node->dtype == dtype && wf_same_shape(&a->view, &b->view)) {
        wf_arg args[2] = {wf_arg_of(a), wf_arg_of(b)};
        wf_node *node = NULL;
        weft_status st = make(ctx, op, dtype, 2, args, &a->view, &node);
        r = finish(ctx, st, node);
    } else {
        r = binary_general(ctx, op, who, a, b);
    }
    return wf_leave(ctx, r);
}

weft_tensor *weft_add(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_ADD, a, b); }
weft_tensor *weft_sub(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_SUB, a, b); }
weft_tensor *weft_mul(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_MUL, a, b); }
weft_tensor *weft_div(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_DIV, a, b); }
weft_tensor *weft_pow(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_POW, a, b); }
weft_tensor *weft_maximum(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_MAXIMUM, a, b); }
weft_tensor *weft_minimum(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_MINIMUM, a, b); }
weft_tensor *weft_eq(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_EQ, a, b); }
weft_tensor *weft_ne(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_NE, a, b); }
weft_tensor *weft_lt(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_LT, a, b); }
weft_tensor *weft_le(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_LE, a, b); }
weft_tensor *weft_gt(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_GT, a, b); }
weft_tensor *weft_ge(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_GE, a, b); }

/* ---- where ---- */

static weft_tensor *where(weft_ctx *ctx, weft_tensor *condition, weft_tensor *a, weft_tensor *b)
{
    weft_dtype dtype;
    wf_view shape, both, room[2];
    wf_arg args[3] = {wf_arg_of(condition), wf_arg_of(a), wf_arg_of(b)};
    wf_node *node = NULL;
    if (condition->node->dtype != WEFT_DTYPE_BOOL)
        return wf_tensor_error(ctx, WEFT_E_DTYPE, "where: condition is %s, expected bool",
                               weft_dtype_name((weft_dtype)condition->node->dtype));
    weft_status st = promote("where", a, b, &dtype);
    if (st == WEFT_OK)
        st = wf_numbers_fit("where", 2, (weft_tensor *[]){a, b}, dtype);
    if (st == WEFT_OK)
        st = wf_view_broadcast_shape("where", &a->view, &b->view, &both);
    if (st == WEFT_OK)
        st = wf_view_broadcast_shape("where", &condition->view, &both, &shape);
    for (int i = 1; i < 3 && st == WEFT_OK; i++)
        st = wf_arg_cast(ctx, &args[i], dtype, &room[i - 1]);
    if (st == WEFT_OK)
        st = make(ctx, WF_OP_WHERE, dtype, 3, args, &shape, &node);
    if (st != WEFT_OK) {
        wf_node_sink(args[1].node);
        if (args[2].node != args[1].node)
            wf_node_sink(args[2].node);
    }
    return finish(ctx, st, node);
}

weft_tensor *weft_where(weft_tensor *condition, weft_tensor *a, weft_tensor *b)
{
    weft_tensor *in[3] = {condition, a, b}, *r;
    if (!wf_enter("where", 3, in, &r))
        return r;
    weft_ctx *ctx = a->ctx;
    return wf_leave(ctx, where(ctx, condition, a, b));
}

/* ---- one operand ---- */

static weft_tensor *unary_general(weft_ctx *ctx, wf_op op, const char *who, weft_tensor *x)
{
    weft_dtype dtype = (weft_dtype)x->node->dtype, compute = dtype;
    weft_status st = wf_require_plain(who, x);
    bool to_bool = op == WF_OP_SIGNBIT;
    if (st != WEFT_OK)
        return wf_tensor_error_last(ctx, st);
    bool is_unsigned = dtype == WEFT_DTYPE_U8 || dtype == WEFT_DTYPE_U32 || dtype == WEFT_DTYPE_BOOL;
    switch (op) {
    case WF_OP_FLOOR: case WF_OP_CEIL: case WF_OP_TRUNC: case WF_OP_ROUND:
        if (!is_float(dtype))
            return wf_same_value(x);
        break;
    case WF_OP_SIGNBIT:
        if (dtype == WEFT_DTYPE_BOOL)
            compute = WEFT_DTYPE_I32;
        break;
    case WF_OP_BITWISE_NOT:
        if (is_float(dtype))
            return wf_tensor_error(ctx, WEFT_E_DTYPE, "%s: %s has no bits to work on: cast first", who, weft_dtype_name(dtype));
        break;
    case WF_OP_ABS:
        if (is_unsigned)
            return wf_same_value(x);
        break;
    case WF_OP_NEG:
    case WF_OP_RELU:
        if (dtype == WEFT_DTYPE_BOOL)
            return wf_tensor_error(ctx, WEFT_E_DTYPE, "%s: bool is not a number: cast first", who);
        if (op == WF_OP_RELU && is_unsigned)
            return wf_same_value(x);
        break;
    default:
        if (!is_float(dtype))
            compute = WEFT_DTYPE_F32;
        break;
    }
    wf_arg arg = wf_arg_of(x);
    wf_view room;
    wf_node *node = NULL;
    st = wf_arg_cast(ctx, &arg, compute, &room);
    if (st == WEFT_OK)
        st = make(ctx, op, to_bool ? WEFT_DTYPE_BOOL : compute, 1, &arg, &x->view, &node);
    if (st != WEFT_OK)
        wf_node_sink(arg.node);
    return finish(ctx, st, node);
}

weft_tensor *wf_build_unary(wf_op op, weft_tensor *x)
{
    const char *who = wf_op_table[op].name;
    weft_tensor *r;
    if (!wf_enter(who, 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    return wf_leave(ctx, unary_general(ctx, op, who, x));
}

weft_tensor *weft_neg(weft_tensor *x) { return wf_build_unary(WF_OP_NEG, x); }
weft_tensor *weft_abs(weft_tensor *x) { return wf_build_unary(WF_OP_ABS, x); }
weft_tensor *weft_exp(weft_tensor *x) { return wf_build_unary(WF_OP_EXP, x); }
weft_tensor *weft_log(weft_tensor *x) { return wf_build_unary(WF_OP_LOG, x); }
weft_tensor *weft_sqrt(weft_tensor *x) { return wf_build_unary(WF_OP_SQRT, x); }
weft_tensor *weft_rsqrt(weft_tensor *x) { return wf_build_unary(WF_OP_RSQRT, x); }
weft_tensor *weft_sin(weft_tensor *x) { return wf_build_unary(WF_OP_SIN, x); }
weft_tensor *weft_cos(weft_tensor *x) { return wf_build_unary(WF_OP_COS, x); }
weft_tensor *weft_tanh(weft_tensor *x) { return wf_build_unary(WF_OP_TANH, x); }
weft_tensor *weft_erf(weft_tensor *x) { return wf_build_unary(WF_OP_ERF, x); }
weft_tensor *weft_floor(weft_tensor *x) { return wf_build_unary(WF_OP_FLOOR, x); }
weft_tensor *weft_sigmoid(weft_tensor *x) { return wf_build_unary(WF_OP_SIGMOID, x); }
weft_tensor *weft_silu(weft_tensor *x) { return wf_build_unary(WF_OP_SILU, x); }
weft_tensor *weft_gelu(weft_tensor *x) { return wf_build_unary(WF_OP_GELU, x); }
weft_tensor *weft_gelu_tanh(weft_tensor *x) { return wf_build_unary(WF_OP_GELU_TANH, x); }
weft_tensor *weft_relu(weft_tensor *x) { return wf_build_unary(WF_OP_RELU, x); }

weft_tensor *weft_cast(weft_tensor *x, weft_dtype dtype)
{
    weft_tensor *r;
    if (!wf_enter("cast", 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    weft_dtype from = (weft_dtype)x->node->dtype;
    if (!wf_dtype_known(dtype))
        return wf_leave(ctx, wf_tensor_error(ctx, WEFT_E_DTYPE, "cast: dtype number %d is outside 0 .. %d", (int)dtype,
                                             WEFT_DTYPE_COUNT - 1));
    if (from == dtype)
        return wf_leave(ctx, wf_same_value(x));
    bool from_blocks = from >= WEFT_DTYPE_Q8_0;
    if (dtype >= WEFT_DTYPE_Q8_0 || (from_blocks && (!is_float(dtype) || dtype == WEFT_DTYPE_F64)))
        return wf_leave(ctx, wf_tensor_error(ctx, WEFT_E_DTYPE, "cast: no conversion from %s to %s", weft_dtype_name(from),
                                             weft_dtype_name(dtype)));
    wf_arg arg = wf_arg_of(x);
    wf_view view;
    weft_status st = wf_arg_cast(ctx, &arg, dtype, &view);
    r = st == WEFT_OK ? wf_tensor_new(ctx, arg.node, &view) : wf_tensor_error_last(ctx, st);
    return wf_leave(ctx, r);
}
