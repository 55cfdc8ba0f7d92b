/* lower.c - groups to programs and commands.
 *
 * The one place that proves a kernel stays inside the device's limits. A kernel the device has no row
 * for becomes a host part: its operands are copied to the CPU, computed, and copied back, inside the
 * same plan.
 */
#include "explain_notes.h"

/* ---- one group ---- */

weft_status wf_lower_check(wf_lowering *l, int32_t scalar, int64_t lo, int64_t hi, const char *who)
{
    if (l->s->g.nodes[scalar].kind != WF_CK_SCALAR)
        return WEFT_OK;
    WF_TRY(wf_grow((void **)&l->checks, &l->cap_checks, l->n_checks + 1, sizeof *l->checks));
    l->checks[l->n_checks++] = (wf_plan_check){l->s->order_of[scalar], lo, hi, who};
    return WEFT_OK;
}

/* A place of the update may lie anywhere on its axis, and that axis alone spans more than a binding. */
static bool spreads(const wf_lowering *l, int32_t id)
{
    const wf_group_code *c = &l->code;
    for (int i = 0; i < c->kir.n_bind; i++)
        if (c->src[i] == WF_SRC_OUT)
            return wf_lower_value_bytes(l, WF_SRC_OUT, id) > l->caps->max_binding_bytes && !wf_lower_reaches(l, c, id, i);
    return false;
}

static weft_status emit_slice_update(wf_lowering *l, int32_t id)
{
    const wf_cgraph *g = &l->s->g;
    const wf_cnode *n = &g->nodes[id];
    const wf_cnode *dst = &g->nodes[n->src[0]];
    int axis = n->attrs.index.axis;
    int64_t len = n->in[1].view.shape[axis];
    WF_TRY(wf_lower_check(l, n->src[2], 0, n->shape[axis] - len + 1, "slice_update"));
    bool whole = wf_view_is_whole(&n->in[0].view, dst->numel);
    if (whole && dst->uses == 1 && dst->kind == WF_CK_LEAF && dst->stealable) {
        wf_mem_ref leaf = l->mem[n->src[0]];
        if (n->target)
            WF_TRY(wf_lower_out(l, n, leaf.index, &l->mem[id]));
        else
            l->mem[id] = leaf;
    } else if (whole && dst->uses == 1 && dst->kind == WF_CK_COMPUTE && l->mem[n->src[0]].kind == MEM_ITEM && !n->target) {
        l->mem[id] = l->mem[n->src[0]];
    } else {
        WF_TRY(wf_lower_place(l, id));
        WF_TRY(wf_codegen_copy_input(g, id, 0, &l->code));
        WF_TRY(wf_lower_code(l, id));
        l->plan->n_copies += dst->materialised;
    }
    if (len == 0 || g->nodes[n->src[1]].numel == 0)
        return WEFT_OK;
    WF_TRY(wf_codegen_store_part(g, id, 1, 0, &l->code));
    if (g->window_bytes && spreads(l, id))
        WF_TRY(wf_codegen_merge_part(g, id, &l->code));
    return wf_lower_code(l, id);
}

static weft_status emit_cat(wf_lowering *l, int32_t id)
{
    const wf_cnode *n = &l->s->g.nodes[id];
    int64_t at = 0;
    WF_TRY(wf_lower_place(l, id));
    for (int i = 0; i < n->n_in; i++) {
        if (wf_view_numel(&n->in[i].view) == 0)
            continue;
        WF_TRY(wf_codegen_store_part(&l->s->g, id, i, at, &l->code));
        WF_TRY(wf_lower_code(l, id));
        at += n->in[i].view.shape[n->attrs.index.axis];
    }
    return WEFT_OK;
}

/* Nothing to fold: K = 0, no keys, or an empty reduced axis. */
static bool anchor_is_empty(const wf_cnode *a)
{
    return wf_op_table[a->op].klass != WF_CLASS_ROW && a->n_in > 0 &&
           (wf_view_numel(&a->in[0].view) == 0 || (a->op == WF_OP_SDPA && wf_view_numel(&a->in[1].view) == 0));
}

static weft_status checks_inside(wf_lowering *l, int32_t id)
{
    const wf_cnode *n = &l->s->g.nodes[id];
    if (n->op != WF_OP_INDEX_SELECT)
        return WEFT_OK;
    int64_t extent = n->in[0].view.shape[n->attrs.index.axis];
    return wf_lower_check(l, n->src[1], n->attrs.index.strict ? 0 : -extent, extent, "index_select");
}

static weft_status emit_group(wf_lowering *l, int32_t id)
{
    const wf_cgraph *g = &l->s->g;
    const wf_cnode *n = &g->nodes[id];
    if (n->op == WF_OP_SLICE_UPDATE)
        return emit_slice_update(l, id);
    if (n->op == WF_OP_CAT)
        return emit_cat(l, id);
    WF_TRY(wf_lower_place(l, id));
    l->plan->n_copies += n->op == WF_OP_COPY && n->kind == WF_CK_COMPUTE;
    int32_t a = n->anchor >= 0 ? n->anchor : id;
    wf_op_class k = wf_op_table[g->nodes[a].op].klass;
    if (k != WF_CLASS_ELEMENTWISE && k != WF_CLASS_INDEXED && k != WF_CLASS_LEAF && anchor_is_empty(&g->nodes[a])) {
        WF_TRY(wf_codegen_group_zero_anchor(g, id, &l->code));
        return wf_lower_code(l, id);
    }
    if (k == WF_CLASS_MATMUL || k == WF_CLASS_SPECIAL)
        return wf_lower_special(l, id, a);
    WF_TRY(wf_codegen_group(g, id, &l->code));
    return wf_lower_code(l, id);
}

/* ---- the whole plan ---- */

static weft_status number_leaves(wf_lowering *l)
{
    wf_cgraph *g = &l->s->g;
    wf_plan *p = l->plan;
    int32_t n_leaves = 0, n_scalars = 0;
    for (int32_t i = 0; i < g->n; i++) {
        n_leaves += g->nodes[i].kind == WF_CK_LEAF && g->nodes[i].uses > 0;
        n_scalars += g->nodes[i].kind == WF_CK_SCALAR && g->nodes[i].uses > 0;
    }
    p->leaf_order = wf_arena_alloc(&p->arena, sizeof(int32_t) * (size_t)(n_leaves + 1));
    p->leaf_buffer = wf_arena_alloc(&p->arena, sizeof(uint32_t) * (size_t)(n_leaves + 1));
    p->scalar_order = wf_arena_alloc(&p->arena, sizeof(int32_t) * (size_t)(n_scalars + 1));
    if (!p->leaf_order || !p->leaf_buffer || !p->scalar_order)
        return wf_fail_oom(sizeof(int32_t) * (size_t)n_leaves);
    for (int32_t i = 0; i < g->n; i++) {
        wf_cnode *n = &g->nodes[i];
        if (!n->uses)
            continue;
        if (n->kind == WF_CK_LEAF) {
            if (n->numel) {
                l->mem[i] = (wf_mem_ref){MEM_LEAF, p->n_leaves};
                p->leaf_order[p->n_leaves++] = l->s->order_of[i];
            }
        } else if (n->kind == WF_CK_SCALAR) {
            n->step_word = p->n_scalars;
            p->scalar_order[p->n_scalars++] = l->s->order_of[i];
        }
    }
    return WEFT_OK;
}

static weft_status number_orders(wf_lowering *l)
{
    size_t size = sizeof *l->first_order * (size_t)(l->s->g.n + 1);
    l->first_order = wf_arena_alloc(&l->s->scratch, size);
    if (!l->first_order)
        return wf_fail_oom(size);
    memset(l->first_order, 0xff, size);
    for (int32_t i = l->s->n_order - 1; i >= 0; i--)
        l->first_order[l->s->canon[i]] = i;
    return WEFT_OK;
}

/* The result of group `id`, whose commands end with the latest one. */
static weft_status record_result(wf_lowering *l, int32_t id)
{
    static const uint32_t kinds[] = {[MEM_LEAF] = WF_MEM_LEAF, [MEM_OUT] = WF_MEM_OUT, [MEM_ITEM] = WF_MEM_ARENA};
    int32_t order = l->first_order[id];
    if (order < 0 || !l->n_cmds || l->mem[id].kind == MEM_NONE)
        return WEFT_OK; /* a part that the compiler added: what is made of it is checked */
    WF_TRY(wf_grow((void **)&l->results, &l->cap_results, l->n_results + 1, sizeof *l->results));
    l->results[l->n_results++] = (wf_plan_result){.order = order, .last_cmd = (uint32_t)l->n_cmds - 1, .kind = kinds[l->mem[id].kind],
                                                  .index = (uint32_t)l->mem[id].index, .label = l->labels[l->n_cmds - 1],
                                                  .constant = l->s->g.nodes[id].kind == WF_CK_CONST};
    return WEFT_OK;
}

/* Move an array into the plan's arena. */
static weft_status keep(wf_plan *p, void **dst, const void *src, size_t n, size_t size_bytes)
{
    *dst = wf_arena_alloc(&p->arena, n * size_bytes + 1);
    if (!*dst)
        return wf_fail_oom(n * size_bytes);
    if (n)
        memcpy(*dst, src, n * size_bytes);
    return WEFT_OK;
}

static weft_status finish_realise(wf_lowering *l)
{
    wf_plan *p = l->plan;
    wf_compile_state *s = l->s;
    p->realise = wf_arena_alloc(&p->arena, sizeof *p->realise * (size_t)(s->n_targets + 1));
    if (!p->realise)
        return wf_fail_oom(sizeof *p->realise * (size_t)s->n_targets);
    for (int i = 0; i < s->n_targets; i++) {
        int32_t id = s->canon[s->targets[i]];
        if (s->g.nodes[id].kind == WF_CK_LEAF)
            continue;
        bool empty = s->g.nodes[id].numel == 0;
        if (!empty && l->mem[id].kind != MEM_OUT)
            return wf_fail(WEFT_E_INTERNAL, "lower: a target has no output");
        p->realise[p->n_realise++] = (wf_plan_realise){s->targets[i], empty ? -1 : l->mem[id].index};
    }
    return WEFT_OK;
}

static weft_status finish(wf_lowering *l)
{
    wf_plan *p = l->plan;
    WF_TRY(wf_memplan(l->items, (int32_t)l->n_items, l->caps->max_buffer_bytes, p->arena_bytes));
    if (l->s->env->explain)
        WF_TRY(wf_mem_largest_live(l->items, (int32_t)l->n_items, (int32_t)l->n_cmds, &p->largest_live));
    for (size_t i = 0; i < l->n_patches; i++) {
        wf_patch *pt = &l->patches[i];
        if (pt->kind != WF_MEM_ARENA)
            continue;
        const wf_mem_item *it = &l->items[pt->index];
        l->cmds[pt->cmd].bind[pt->bind].offset += it->offset;
        pt->index = (uint32_t)it->arena;
    }
    for (size_t i = 0; i < l->n_results; i++) {
        wf_plan_result *r = &l->results[i];
        if (r->kind != WF_MEM_ARENA)
            continue;
        r->offset = l->items[r->index].offset;
        r->index = (uint32_t)l->items[r->index].arena;
    }
    p->step_bytes = 4 * ((uint32_t)p->n_scalars + 3 * (uint32_t)l->n_indirect);
    if (p->step_bytes > WF_STEP_BYTES)
        return wf_fail(WEFT_E_UNSUPPORTED, "a graph holds %d run-time scalars; at most %d fit", p->n_scalars, WF_STEP_BYTES / 4);
    if (l->statics.len) {
        static const char zeros[WF_STATIC_MAX_BYTES];
        wf_str_addn(&l->statics, zeros, sizeof zeros);
        if (l->statics.oom)
            return wf_fail_oom(l->statics.len);
    }
    WF_TRY(keep(p, (void **)&p->cmds, l->cmds, l->n_cmds, sizeof *l->cmds));
    WF_TRY(keep(p, (void **)&p->labels, l->labels, l->n_cmds, sizeof *l->labels));
    WF_TRY(keep(p, (void **)&p->patches, l->patches, l->n_patches, sizeof *l->patches));
    WF_TRY(keep(p, (void **)&p->parts, l->parts, l->n_parts, sizeof *l->parts));
    WF_TRY(keep(p, (void **)&p->outs, l->outs, l->n_outs, sizeof *l->outs));
    WF_TRY(keep(p, (void **)&p->out_buffer, NULL, 0, 0));
    WF_TRY(keep(p, (void **)&p->checks, l->checks, l->n_checks, sizeof *l->checks));
    WF_TRY(keep(p, (void **)&p->indirect, l->indirect, l->n_indirect, sizeof *l->indirect));
    WF_TRY(keep(p, &p->statics, l->statics.ptr, l->statics.len, 1));
    if (l->s->env->record) {
        WF_TRY(keep(p, (void **)&p->results, l->results, l->n_results, sizeof *l->results));
        p->n_results = (uint32_t)l->n_results;
        WF_TRY(keep(p, (void **)&p->same_as, l->s->canon, (size_t)l->s->n_order, sizeof *p->same_as));
        for (int32_t i = 0; i < l->s->n_order; i++)
            p->same_as[i] = l->first_order[l->s->canon[i]];
    }
    p->out_buffer = wf_arena_alloc(&p->arena, sizeof(uint32_t) * (l->n_outs + 1));
    if (!p->out_buffer)
        return wf_fail_oom(sizeof(uint32_t) * l->n_outs);
    p->static_bytes = (uint32_t)l->statics.len;
    p->n_cmds = (uint32_t)l->n_cmds;
    p->n_patches = (uint32_t)l->n_patches;
    p->n_parts = (uint32_t)l->n_parts;
    p->n_outs = (uint32_t)l->n_outs;
    p->n_checks = (uint32_t)l->n_checks;
    p->n_indirect = (uint32_t)l->n_indirect;
    return finish_realise(l);
}

weft_status wf_lower(wf_compile_state *s)
{
    wf_lowering *l = wf_calloc(1, sizeof *l);
    if (!l)
        return wf_fail_oom(sizeof *l);
    weft_status st;
    l->s = s;
    l->plan = s->plan;
    l->caps = &s->env->dev->caps;
    l->mem = wf_arena_alloc(&s->scratch, sizeof *l->mem * (size_t)(s->g.n + 1));
    if (!l->mem) {
        st = wf_fail_oom(sizeof *l->mem * (size_t)s->g.n);
        goto done;
    }
    for (int32_t i = 0; i < s->g.n; i++) {
        if (!s->g.nodes[i].uses || !s->g.nodes[i].materialised)
            continue;
        uint64_t bytes = wf_lower_value_bytes(l, i, i);
        if (bytes > l->caps->max_buffer_bytes && s->g.nodes[i].kind != WF_CK_LEAF) {
            st = wf_fail(WEFT_E_OOM, "%s: a result of %llu bytes; the device's largest buffer is %llu",
                         wf_op_table[s->g.nodes[i].op].name, (unsigned long long)bytes,
                         (unsigned long long)l->caps->max_buffer_bytes);
            goto done;
        }
        if (l->caps->runs_wgsl && bytes > l->caps->max_binding_bytes)
            s->g.window_bytes = l->caps->max_binding_bytes;
    }
    WF_TRY_GOTO(st, number_leaves(l), done);
    if (s->env->record)
        WF_TRY_GOTO(st, number_orders(l), done);
    for (int32_t i = 0; i < s->g.n; i++) {
        const wf_cnode *n = &s->g.nodes[i];
        if (n->group < 0 || n->kind == WF_CK_LEAF || n->numel == 0)
            continue;
        WF_TRY_GOTO(st, checks_inside(l, i), done);
        if (n->group != i)
            continue;
        uint32_t first_cmd = (uint32_t)l->n_cmds;
        l->chosen[0] = 0;
        WF_TRY_GOTO(st, emit_group(l, i), done);
        if (s->env->pass)
            wf_tune_pass_close(s->env->pass, first_cmd, (uint32_t)l->n_cmds - first_cmd);
        if (s->env->explain)
            WF_TRY_GOTO(st, wf_explain_group(s->env->explain, l, i, first_cmd), done);
        if (s->env->record)
            WF_TRY_GOTO(st, record_result(l, i), done);
        wf_arena_reset(&s->kernel);
    }
    st = finish(l);
    if (st == WEFT_OK && s->env->explain)
        wf_explain_totals(s->env->explain, l->plan);
done:
    wf_free(l->items);
    wf_free(l->cmds);
    wf_free(l->labels);
    wf_free(l->patches);
    wf_free(l->parts);
    wf_free(l->outs);
    wf_free(l->checks);
    wf_free(l->indirect);
    wf_free(l->results);
    wf_str_free(&l->statics);
    wf_free(l);
    return st;
}
