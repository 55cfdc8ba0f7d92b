/* contract.c - sums of products over i8 that are matrix products, made by the CPU's row for them.
 *
 * matmul_i8 and linear_rows are recorded as a sum over the last axis of [.., M, 1, K] times [.., 1, N, K], with the bytes
 * cast in between: exact, and native on every device, but each result is a reduction of its own. Where a plan is made for
 * the CPU, such a sum becomes one product that reads the bytes.
 */
#include "compile.h"

enum { MIN_ROWS = 8, MIN_COLS = 8 };

/* Factor i of a product as a view, [.., M, N, K], of what is stored: behind a cast from i8, which keeps every element. */
static bool read_factor(const wf_compile_state *s, const wf_cnode *mul, int i, wf_view *out, int32_t *src)
{
    const wf_view *v = &mul->in[i].view;
    const wf_cnode *n = &s->g.nodes[mul->src[i]];
    *out = *v;
    *src = mul->src[i];
    if (n->op != WF_OP_CAST || n->kind != WF_CK_COMPUTE || s->g.nodes[n->src[0]].dtype != WEFT_DTYPE_I8)
        return true;
    const wf_view *from = &n->in[0].view;
    const int lead = v->rank - n->rank;
    if (from->rank != n->rank || lead < 0 || v->offset != 0)
        return false;
    int64_t unit = 1;
    for (int d = v->rank - 1; d >= 0; d--) {
        const int64_t extent = d < lead ? 1 : n->shape[d - lead];
        const bool moves = extent > 1;
        if (v->strides[d] != (moves ? unit : 0) || (moves && v->shape[d] != extent))
            return false;
        out->strides[d] = moves ? from->strides[d - lead] : 0;
        unit *= extent;
    }
    out->offset = from->offset;
    *src = n->src[0];
    return true;
}

/* v without one of its last three axes, along which it must not move. */
static bool drop_axis(wf_view *v, int axis)
{
    if (v->strides[axis] != 0)
        return false;
    for (int d = axis; d + 1 < v->rank; d++) {
        v->shape[d] = v->shape[d + 1];
        v->strides[d] = v->strides[d + 1];
    }
    v->rank--;
    v->shape[v->rank] = 1;
    v->strides[v->rank] = 0;
    return true;
}

static bool is_product(const wf_compile_state *s, const wf_cnode *c, wf_view views[2], int32_t src[2])
{
    if (c->op != WF_OP_SUM || c->kind != WF_CK_COMPUTE || c->numel == 0)
        return false;
    const wf_cnode *mul = &s->g.nodes[c->src[0]];
    const int rank = mul->rank;
    if (mul->op != WF_OP_MUL || mul->kind != WF_CK_COMPUTE || mul->dtype != c->dtype || rank < 3 || c->rank != rank - 1 || mul->numel == 0 ||
        c->attrs.reduce.axes != 1u << (rank - 1) || c->in[0].view.rank != rank || !wf_view_is_whole(&c->in[0].view, mul->numel) ||
        c->shape[rank - 2] < MIN_COLS || c->numel / c->shape[rank - 2] < MIN_ROWS)
        return false;
    for (int i = 0; i < 2; i++)
        if (!read_factor(s, mul, i, &views[i], &src[i]))
            return false;
    const uint8_t a = s->g.nodes[src[0]].dtype, b = s->g.nodes[src[1]].dtype;
    const bool floats = c->dtype == WEFT_DTYPE_F32 && (a == WEFT_DTYPE_F32 || a == WEFT_DTYPE_F16 || a == WEFT_DTYPE_BF16);
    int batches = 0;
    for (int d = 0; d < rank - 3; d++)
        batches += mul->shape[d] > 1;
    if (b != WEFT_DTYPE_I8 || !(floats || (c->dtype == WEFT_DTYPE_I32 && a == WEFT_DTYPE_I8)) || batches > 3)
        return false;
    if (!drop_axis(&views[0], rank - 2) || !drop_axis(&views[1], rank - 3))
        return false;
    const int64_t extent = views[1].shape[rank - 3], stride = views[1].strides[rank - 3]; /* [.., N, K] to [.., K, N] */
    views[1].shape[rank - 3] = views[1].shape[rank - 2];
    views[1].strides[rank - 3] = views[1].strides[rank - 2];
    views[1].shape[rank - 2] = extent;
    views[1].strides[rank - 2] = stride;
    return true;
}

weft_status wf_contract_bytes(wf_compile_state *s)
{
    const wf_caps *caps = &s->env->dev->caps;
    if (!caps->runs_kir || caps->runs_wgsl)
        return WEFT_OK;
    for (int32_t i = 0; i < s->g.n; i++) {
        wf_cnode *c = &s->g.nodes[i];
        wf_view views[2];
        int32_t src[2];
        if (!is_product(s, c, views, src))
            continue;
        wf_value *in = wf_arena_alloc(&s->scratch, 2 * sizeof *in);
        int32_t *srcs = wf_arena_alloc(&s->scratch, sizeof src);
        if (!in || !srcs)
            return wf_fail_oom(2 * sizeof *in);
        for (int k = 0; k < 2; k++) {
            in[k] = (wf_value){NULL, views[k]};
            srcs[k] = src[k];
        }
        c->op = WF_OP_MATMUL;
        memset(&c->attrs, 0, sizeof c->attrs);
        c->in = in;
        c->src = srcs;
        c->n_in = 2;
    }
    return WEFT_OK;
}
