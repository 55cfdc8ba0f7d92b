/* build_matrix.c - builders of matmul (NumPy's rules) and linear (weights stored [N, K], block types too). */
#include "build.h"
#include "composite.h"

/* ---- matmul ---- */

static weft_status matmul_shape_error(const char *what, const weft_tensor *a, const weft_tensor *b)
{
    char ta[200], tb[200];
    wf_view_format(&a->view, ta, sizeof ta);
    wf_view_format(&b->view, tb, sizeof tb);
    return wf_fail(WEFT_E_SHAPE, "matmul: %s: a %s x b %s", what, ta, tb);
}

/* A vector becomes a matrix with one row (a) or one column (b). */
static void as_matrix(wf_view *v, bool is_row)
{
    if (v->rank != 1)
        return;
    int at = is_row ? 1 : 0;
    v->shape[at] = v->shape[0];
    v->strides[at] = v->strides[0];
    v->shape[1 - at] = 1;
    v->strides[1 - at] = 0;
    v->rank = 2;
}

static weft_status matmul_operand(const char *name, weft_tensor *t)
{
    if (weft_dtype_is_quantised((weft_dtype)t->node->dtype))
        return wf_fail(WEFT_E_DTYPE, "matmul: %s is %s: use weft_linear for block types", name,
                       weft_dtype_name((weft_dtype)t->node->dtype));
    return wf_require_float("matmul", t);
}

/* Both operands as views [batch.., M, K] and [batch.., K, N] of one dtype, and the result's shape. */
static weft_status matmul_operands(weft_ctx *ctx, weft_tensor *a, weft_tensor *b, wf_arg args[2], wf_view views[2],
                                   wf_view *result)
{
    weft_dtype dtype;
    WF_TRY(matmul_operand("a", a));
    WF_TRY(matmul_operand("b", b));
    WF_TRY(weft_dtype_promote((weft_dtype)a->node->dtype, (weft_dtype)b->node->dtype, &dtype));
    if (a->view.rank == 0 || b->view.rank == 0)
        return matmul_shape_error("rank 0 operand", a, b);

    wf_view va = a->view, vb = b->view;
    as_matrix(&va, true);
    as_matrix(&vb, false);
    int64_t M = va.shape[va.rank - 2], K = va.shape[va.rank - 1], N = vb.shape[vb.rank - 1];
    if (K != vb.shape[vb.rank - 2])
        return matmul_shape_error("inner dimensions differ", a, b);

    int rank = WF_MAX(va.rank, vb.rank);
    int64_t shape_a[WEFT_MAX_RANK], shape_b[WEFT_MAX_RANK], shape_r[WEFT_MAX_RANK];
    for (int k = 0; k < rank - 2; k++) {
        int ka = k - (rank - va.rank), kb = k - (rank - vb.rank);
        int64_t na = ka < 0 ? 1 : va.shape[ka], nb = kb < 0 ? 1 : vb.shape[kb];
        if (na != nb && na != 1 && nb != 1)
            return matmul_shape_error("batch axes do not broadcast", a, b);
        shape_a[k] = shape_b[k] = shape_r[k] = na == 1 ? nb : na;
    }
    shape_a[rank - 2] = shape_r[rank - 2] = M;
    shape_a[rank - 1] = shape_b[rank - 2] = K;
    shape_b[rank - 1] = shape_r[rank - 1] = N;
    WF_TRY(wf_view_contiguous("matmul", rank, shape_r, result));

    /* Cast before the expansion, so that a broadcast operand is converted once. */
    args[0] = (wf_arg){a->node, &va};
    args[1] = (wf_arg){b->node, &vb};
    WF_TRY(wf_arg_cast(ctx, &args[0], dtype, &views[0]));
    WF_TRY(wf_arg_cast(ctx, &args[1], dtype, &views[1]));
    WF_TRY(wf_view_expand("matmul", args[0].view, rank, shape_a, &views[0]));
    return wf_view_expand("matmul", args[1].view, rank, shape_b, &views[1]);
}

static void drop_axis(wf_view *v, int axis)
{
    for (int k = axis; k + 1 < v->rank; k++) {
        v->shape[k] = v->shape[k + 1];
        v->strides[k] = v->strides[k + 1];
    }
    v->rank--;
    v->shape[v->rank] = 1;
    v->strides[v->rank] = 0;
}

static weft_tensor *matmul(weft_ctx *ctx, weft_tensor *a, weft_tensor *b)
{
    wf_arg args[2] = {wf_arg_of(a), wf_arg_of(b)};
    wf_view views[2], result;
    wf_node *n = NULL;
    weft_status st = matmul_operands(ctx, a, b, args, views, &result);
    if (st == WEFT_OK && !(n = wf_node_new(ctx, WF_OP_MATMUL, (weft_dtype)args[0].node->dtype, 2, result.rank, result.shape)))
        st = WEFT_E_OOM;
    if (st != WEFT_OK) {
        wf_node_sink(args[0].node);
        if (args[1].node != args[0].node)
            wf_node_sink(args[1].node);
        return wf_tensor_error_last(ctx, st);
    }
    wf_node_set_input(n, 0, args[0].node, &views[0]);
    wf_node_set_input(n, 1, args[1].node, &views[1]);
    if (b->view.rank == 1)
        drop_axis(&result, result.rank - 1);
    if (a->view.rank == 1)
        drop_axis(&result, result.rank - (b->view.rank == 1 ? 1 : 2));
    return wf_tensor_new(ctx, n, &result);
}

weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b)
{
    weft_tensor *in[2] = {a, b}, *r;
    if (!wf_enter("matmul", 2, in, &r))
        return r;
    weft_ctx *ctx = a->ctx;
    return wf_leave(ctx, matmul(ctx, a, b));
}

/* ---- linear ---- */

static weft_status linear_shape_error(const weft_tensor *x, const weft_tensor *w)
{
    char tx[200], tw[200];
    wf_view_format(&x->view, tx, sizeof tx);
    wf_view_format(&w->view, tw, sizeof tw);
    return wf_fail(WEFT_E_SHAPE, "linear: expected x [.., K] and w [N, K]: x %s, w %s", tx, tw);
}

static weft_status linear_check(const weft_tensor *x, const weft_tensor *w, const weft_tensor *bias, int activation)
{
    weft_dtype dx = (weft_dtype)x->node->dtype, dw = (weft_dtype)w->node->dtype;
    if (dx > WEFT_DTYPE_BF16)
        return wf_fail(WEFT_E_DTYPE, "linear: x is %s, expected f32, f16 or bf16", weft_dtype_name(dx));
    if (dw > WEFT_DTYPE_BF16 && dw < WEFT_DTYPE_Q8_0)
        return wf_fail(WEFT_E_DTYPE, "linear: w is %s, expected f32, f16, bf16 or a block type", weft_dtype_name(dw));
    if (x->view.rank < 1 || w->view.rank != 2 || x->view.shape[x->view.rank - 1] != w->view.shape[1])
        return linear_shape_error(x, w);
    int64_t N = w->view.shape[0], K = w->view.shape[1];
    /* Rows of blocks are read from the first to the last; a slice of whole rows is all that may differ. */
    if (dw >= WEFT_DTYPE_Q8_0 && N > 1 && K > 0 && w->view.strides[0] != K)
        return wf_fail(WEFT_E_DTYPE, "linear: w of %s must be consecutive whole rows", weft_dtype_name(dw));
    if ((unsigned)activation > WEFT_ACT_SIGMOID)
        return wf_fail(WEFT_E_VALUE, "linear: activation %d is outside 0 .. %d", activation, WEFT_ACT_SIGMOID);
    if (!bias)
        return WEFT_OK;
    if (bias->node->dtype > WEFT_DTYPE_BF16)
        return wf_fail(WEFT_E_DTYPE, "linear: bias is %s, expected f32, f16 or bf16",
                       weft_dtype_name((weft_dtype)bias->node->dtype));
    if (bias->view.rank != 1 || bias->view.shape[0] != N) {
        char text[200];
        wf_view_format(&bias->view, text, sizeof text);
        return wf_fail(WEFT_E_SHAPE, "linear: bias is %s, expected [%lld]", text, (long long)N);
    }
    return WEFT_OK;
}

static weft_tensor *linear(weft_ctx *ctx, weft_tensor *x, weft_tensor *w, const weft_linear_opts *opts)
{
    weft_tensor *bias = opts ? opts->bias : NULL;
    int activation = opts ? (int)opts->activation : WEFT_ACT_NONE;
    weft_status st = linear_check(x, w, bias, activation);
    if (st != WEFT_OK)
        return wf_tensor_error_last(ctx, st);
    int rank = x->view.rank;
    int64_t N = w->view.shape[0], count = N;
    bool large = false;
    for (int k = 0; k < rank - 1; k++)
        large |= __builtin_mul_overflow(count, x->view.shape[k], &count);
    wf_node *n = wf_node_like(ctx, WF_OP_LINEAR, (weft_dtype)x->node->dtype, bias ? 3 : 2, &x->view);
    if (!n)
        return wf_tensor_error_last(ctx, WEFT_E_OOM);
    n->shape[rank - 1] = N;
    n->numel = count;
    if (large || count > WF_MAX_NUMEL) {
        wf_view unused;
        st = wf_view_contiguous("linear", rank, n->shape, &unused);
        n->numel = 0; /* or there is a 0 among the extents */
    }
    if (st != WEFT_OK) {
        wf_node_sink(n);
        return wf_tensor_error_last(ctx, st);
    }
    wf_node_set_input(n, 0, x->node, &x->view);
    wf_node_set_input(n, 1, w->node, &w->view);
    if (bias)
        wf_node_set_input(n, 2, bias->node, &bias->view);
    n->attrs.linear.activation = activation;
    n->attrs.linear.has_bias = bias != NULL;
    n->attrs.linear.act_int8 = opts && opts->act_int8 && w->node->dtype >= WEFT_DTYPE_Q8_0;
    return wf_tensor_new(ctx, n, NULL);
}

/* f64 is computed by the matrix product, which every dtype has. */
static weft_tensor *linear_f64(weft_tensor *x, weft_tensor *w, weft_tensor *bias)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "linear", 2, WF_INPUTS(x, w, bias)))
        return c.failed;
    weft_tensor *y = weft_matmul(x, weft_transpose(w, 0, 1));
    return wf_composite_end(&c, bias ? weft_add(y, bias) : y);
}

weft_tensor *weft_linear(weft_tensor *x, weft_tensor *w, const weft_linear_opts *opts)
{
    if (weft_tensor_dtype(x) == WEFT_DTYPE_F64 && weft_tensor_dtype(w) < WEFT_DTYPE_Q8_0 && weft_tensor_rank(w) == 2 &&
        weft_tensor_rank(x) >= 1 && (!opts || opts->activation == WEFT_ACT_NONE))
        return linear_f64(x, w, opts ? opts->bias : NULL);
    weft_tensor *in[3] = {x, w, opts ? opts->bias : NULL}, *r;
    if (!wf_enter("linear", in[2] ? 3 : 2, in, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    return wf_leave(ctx, linear(ctx, x, w, opts));
}
