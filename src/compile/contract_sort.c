/* contract_sort.c - values picked by the order of their own line, where nothing else asks for that order.
 *
 * weft_sort is recorded as the stable order of each line and a gather by it, which differentiates and runs on every device. Where a
 * plan is made for the CPU and only the values are wanted, the gather becomes a sort that gives them: keys without indices are
 * half the memory, and nothing is picked.
 */
#include "compile.h"

static bool is_used_once(const wf_compile_state *s, int32_t id)
{
    int uses = 0;
    for (int i = 0; i < s->n_targets; i++)
        uses += s->canon[s->targets[i]] == id;
    for (int32_t i = id + 1; i < s->g.n; i++)
        for (int k = 0; k < s->g.nodes[i].n_in; k++)
            uses += s->g.nodes[i].src[k] == id;
    return uses == 1;
}

static bool picks_in_order(const wf_compile_state *s, const wf_cnode *c)
{
    if (c->op != WF_OP_GATHER || c->kind != WF_CK_COMPUTE || c->numel == 0)
        return false;
    const wf_cnode *sort = &s->g.nodes[c->src[1]];
    return sort->op == WF_OP_SORT && sort->kind == WF_CK_COMPUTE && !(sort->attrs.line.kind & WF_SORT_VALUES) && sort->src[0] == c->src[0] &&
           memcmp(&sort->in[0].view, &c->in[0].view, sizeof(wf_view)) == 0 && sort->attrs.line.axis == c->attrs.index.axis &&
           c->rank == sort->rank && memcmp(c->shape, sort->shape, sizeof c->shape) == 0 && wf_view_is_whole(&c->in[1].view, sort->numel) &&
           (c->dtype == WEFT_DTYPE_F32 || c->dtype == WEFT_DTYPE_I32 || c->dtype == WEFT_DTYPE_U32) && is_used_once(s, c->src[1]);
}

void wf_contract_sorts(wf_compile_state *s)
{
    const wf_caps *caps = &s->env->dev->caps;
    if (!caps->runs_kir || caps->runs_wgsl)
        return;
    for (int32_t i = 0; i < s->g.n; i++) {
        wf_cnode *c = &s->g.nodes[i];
        if (!picks_in_order(s, c))
            continue;
        const wf_cnode *sort = &s->g.nodes[c->src[1]];
        const uint32_t kind = sort->attrs.line.kind | WF_SORT_VALUES;
        const int axis = sort->attrs.line.axis;
        memset(&c->attrs, 0, sizeof c->attrs);
        c->attrs.line.axis = axis;
        c->attrs.line.kind = kind;
        c->op = WF_OP_SORT;
        c->n_in = 1; /* the line is the gather's first operand too */
    }
}
