/* build_lines.c - the nodes of scan, sort and scatter: one axis of the operand is the line they run along.
 *
 * Composites check the arguments; here the operands only take the dtype that the kernels work in.
 */
#include "compose_lines.h"

weft_status wf_line(const char *who, weft_tensor **x, int *axis)
{
    if (weft_tensor_rank(*x) == 0 && (*axis == 0 || *axis == -1)) {
        *x = weft_reshape(*x, 1, (int64_t[]){1});
        *axis = 0;
        return weft_tensor_status(*x);
    }
    return wf_axis(who, weft_tensor_rank(*x), *axis, axis);
}

static weft_tensor *line_node(wf_op op, weft_tensor *x, int axis, uint32_t kind, weft_dtype result)
{
    weft_tensor *r;
    if (!wf_enter(wf_op_table[op].name, 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    wf_node *n = wf_node_like(ctx, op, result, 1, &x->view);
    if (!n)
        return wf_leave(ctx, wf_tensor_error_last(ctx, WEFT_E_OOM));
    wf_node_set_input(n, 0, x->node, &x->view);
    n->attrs.line.axis = axis;
    n->attrs.line.kind = kind;
    return wf_leave(ctx, wf_tensor_new(ctx, n, NULL));
}

weft_tensor *wf_scan(weft_tensor *x, int axis, wf_scan_kind kind)
{
    weft_dtype in = weft_tensor_dtype(x), result = in;
    if (kind >= WF_SCAN_MAX_INDEX)
        result = WEFT_DTYPE_I32;
    else if (in == WEFT_DTYPE_F16 || in == WEFT_DTYPE_BF16)
        result = WEFT_DTYPE_F32;
    else if (in == WEFT_DTYPE_I8 || in == WEFT_DTYPE_U8 || in == WEFT_DTYPE_BOOL)
        return line_node(WF_OP_SCAN, weft_cast(x, WEFT_DTYPE_I32), axis, kind, WEFT_DTYPE_I32);
    return line_node(WF_OP_SCAN, x, axis, kind, result);
}

weft_tensor *wf_order(weft_tensor *x, int axis, bool descending)
{
    return line_node(WF_OP_SORT, x, axis, descending, WEFT_DTYPE_I32);
}

weft_tensor *wf_scatter(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src, wf_scatter_kind kind)
{
    weft_tensor *in[3] = {x, index, src}, *r;
    if (!wf_enter("scatter", 3, in, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    if (wf_view_numel(&index->view) == 0 || wf_view_numel(&x->view) == 0)
        return wf_leave(ctx, wf_same_value(x));
    wf_node *n = wf_node_like(ctx, WF_OP_SCATTER, (weft_dtype)x->node->dtype, 3, &x->view);
    if (!n)
        return wf_leave(ctx, wf_tensor_error_last(ctx, WEFT_E_OOM));
    for (int i = 0; i < 3; i++)
        wf_node_set_input(n, i, in[i]->node, &in[i]->view);
    n->attrs.line.axis = axis;
    n->attrs.line.kind = kind;
    return wf_leave(ctx, wf_tensor_new(ctx, n, NULL));
}

weft_tensor *wf_checked_index(weft_tensor *index, int64_t extent)
{
    /* Picking from 0, 1, .. is the check, the wrap of negative ones, and no memory. */
    return weft_index_select(weft_arange(weft_tensor_ctx(index), WEFT_DTYPE_I32, extent, 0, 1), 0, index);
}

/* The check of an index is that of values too: what is wrong becomes an index far outside an axis of one element, a number
 * that no program computes, which says which check it was when the error words are read. */
enum { FIRST_CHECK = -2118351337, ONE_ELEMENT = 1 };

weft_tensor *wf_checked_values(weft_tensor *x, weft_tensor *ok, wf_value_check which)
{
    weft_ctx *ctx = weft_tensor_ctx(x);
    weft_tensor *right = weft_full(ctx, WEFT_DTYPE_I32, 0, NULL, 0), *wrong = weft_full(ctx, WEFT_DTYPE_I32, 0, NULL, FIRST_CHECK + (int)which);
    weft_tensor *checked = wf_checked_index(weft_where(ok, right, wrong), ONE_ELEMENT);
    return weft_where(weft_eq(checked, right), x, wf_const_like(x, 0));
}

const char *wf_value_sentence(int32_t index, uint32_t extent)
{
    static const char *const sentences[] = {
        [WF_CHECK_WEIGHTS] = "multinomial: a weight is negative, infinite or NaN, or all of a line are 0",
        [WF_CHECK_FRACTIONS] = "quantile: a q is outside 0 .. 1",
    };
    _Static_assert(WF_COUNT(sentences) == WF_VALUE_CHECKS, "a sentence for each check");
    bool is_check = extent == ONE_ELEMENT && index >= FIRST_CHECK && index < FIRST_CHECK + WF_VALUE_CHECKS;
    return is_check ? sentences[index - FIRST_CHECK] : NULL;
}
