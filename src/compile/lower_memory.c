/* lower_memory.c - where values live, and commands over them. */
#include "lower.h"

uint64_t wf_lower_node_bytes(const wf_cnode *n)
{
    return wf_align_up(wf_dtype_bytes(n->dtype, n->numel), 4);
}

/* ---- where values live ---- */

weft_status wf_lower_item(wf_lowering *l, uint64_t size_bytes, int32_t *out)
{
    WF_TRY(wf_grow((void **)&l->items, &l->cap_items, l->n_items + 1, sizeof *l->items));
    l->items[l->n_items] = (wf_mem_item){.size_bytes = size_bytes, .first = INT32_MAX, .last = -1, .arena = -1};
    *out = (int32_t)l->n_items++;
    return WEFT_OK;
}

weft_status wf_lower_out(wf_lowering *l, const wf_cnode *n, int32_t alias_leaf, wf_mem_ref *m)
{
    WF_TRY(wf_grow((void **)&l->outs, &l->cap_outs, l->n_outs + 1, sizeof *l->outs));
    l->outs[l->n_outs] = (wf_plan_out){.numel = n->numel, .size_bytes = wf_lower_node_bytes(n), .alias_leaf = alias_leaf};
    *m = (wf_mem_ref){MEM_OUT, (int32_t)l->n_outs++};
    return WEFT_OK;
}

weft_status wf_lower_place(wf_lowering *l, int32_t id)
{
    const wf_cnode *n = &l->s->g.nodes[id];
    if (l->mem[id].kind != MEM_NONE || n->numel == 0)
        return WEFT_OK;
    if (n->target)
        return wf_lower_out(l, n, -1, &l->mem[id]);
    l->mem[id].kind = MEM_ITEM;
    return wf_lower_item(l, wf_lower_node_bytes(n), &l->mem[id].index);
}

static weft_status add_neighbour(wf_lowering *l, int32_t item, int32_t other)
{
    wf_mem_item *w = &l->items[item];
    for (int32_t i = 0; i < w->n_reads; i++)
        if (w->reads[i] == other)
            return WEFT_OK;
    if ((w->n_reads & (w->n_reads - 1)) == 0) { /* grow at powers of two */
        int32_t *more = wf_arena_alloc(&l->s->scratch, sizeof *more * (size_t)(w->n_reads ? 2 * w->n_reads : 1));
        if (!more)
            return wf_fail_oom(sizeof *more * 2 * (size_t)w->n_reads);
        if (w->n_reads)
            memcpy(more, w->reads, sizeof *more * (size_t)w->n_reads);
        w->reads = more;
    }
    w->reads[w->n_reads++] = other;
    return WEFT_OK;
}

/* A command writes one and reads the other. Only shaders mind that both lie in one buffer. */
static weft_status keep_apart(wf_lowering *l, int32_t a, int32_t b)
{
    if (a == b || !l->caps->runs_wgsl)
        return WEFT_OK;
    WF_TRY(add_neighbour(l, a, b));
    return add_neighbour(l, b, a);
}

/* ---- commands ---- */

static weft_status begin_part(wf_lowering *l, const wf_dispatch *d)
{
    wf_plan_part *last = l->n_parts ? &l->parts[l->n_parts - 1] : NULL;
    if (last && !last->host && !l->host) {
        last->count++;
        return WEFT_OK;
    }
    WF_TRY(wf_grow((void **)&l->parts, &l->cap_parts, l->n_parts + 1, sizeof *l->parts));
    wf_plan_part *p = &l->parts[l->n_parts++];
    *p = (wf_plan_part){.first = (uint32_t)l->n_cmds, .count = 1, .host = l->host};
    for (int i = 0; i < d->n_bind && l->host; i++) {
        p->writes |= d->access[i] != WF_ACCESS_READ ? 1u << i : 0;
        p->quant[i] = d->quant[i];
        p->section_blocks[i] = d->section_blocks[i];
    }
    if (l->host)
        l->plan->n_fallbacks++;
    return WEFT_OK;
}

static weft_status add_patch(wf_lowering *l, int bind, uint32_t kind, int32_t index)
{
    WF_TRY(wf_grow((void **)&l->patches, &l->cap_patches, l->n_patches + 1, sizeof *l->patches));
    l->patches[l->n_patches++] = (wf_patch){(uint32_t)l->n_cmds, (uint32_t)bind, kind, (uint32_t)index};
    return WEFT_OK;
}

static weft_status bind_memory(wf_lowering *l, const wf_dispatch *d, int i, wf_cmd *cmd)
{
    wf_mem_ref m = d->bind[i];
    cmd->bind[i].offset = d->offset[i];
    cmd->bind[i].size = d->size[i];
    if (!l->host && d->size[i] > l->caps->max_binding_bytes)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s (kernel \"%s\"): an operand of %llu bytes is larger than the device's largest binding (%llu)",
                       d->op ? d->op : d->label, d->label, (unsigned long long)d->size[i], (unsigned long long)l->caps->max_binding_bytes);
    if (d->is_error[i]) {
        l->plan->uses_error = true;
        return add_patch(l, i, WF_MEM_ERROR, 0);
    }
    if (m.kind == MEM_LEAF)
        return add_patch(l, i, WF_MEM_LEAF, m.index);
    if (m.kind == MEM_OUT)
        return add_patch(l, i, WF_MEM_OUT, m.index);
    if (m.kind != MEM_ITEM)
        return wf_fail(WEFT_E_INTERNAL, "%s: an operand has no memory", d->label);
    wf_mem_item *it = &l->items[m.index];
    it->first = WF_MIN(it->first, (int32_t)l->n_cmds);
    it->last = WF_MAX(it->last, (int32_t)l->n_cmds);
    return add_patch(l, i, WF_MEM_ARENA, m.index);
}

weft_status wf_lower_dispatch(wf_lowering *l, const wf_dispatch *d)
{
    wf_cmd cmd = {.kind = WF_CMD_DISPATCH, .program = d->program, .n_bind = (uint32_t)d->n_bind, .indirect = d->indirect};
    memcpy(cmd.grid, d->grid, sizeof cmd.grid);
    WF_TRY(begin_part(l, d));
    for (int i = 0; i < d->n_bind; i++)
        WF_TRY(bind_memory(l, d, i, &cmd));
    for (int w = 0; w < d->n_bind; w++)
        for (int r = 0; r < d->n_bind && d->access[w] != WF_ACCESS_READ && d->bind[w].kind == MEM_ITEM && !d->is_error[w]; r++)
            if (d->bind[r].kind == MEM_ITEM && !d->is_error[r])
                WF_TRY(keep_apart(l, d->bind[w].index, d->bind[r].index));
    cmd.static_offset = (uint32_t)l->statics.len;
    cmd.static_bytes = (uint32_t)d->n_static * 4;
    if (d->n_static) {
        static const char zeros[WF_BIND_ALIGN];
        wf_str_addn(&l->statics, (const char *)d->statics, cmd.static_bytes);
        wf_str_addn(&l->statics, zeros, (size_t)(wf_align_up(l->statics.len, WF_BIND_ALIGN) - l->statics.len));
        if (l->statics.oom)
            return wf_fail_oom(l->statics.len);
    }
    WF_TRY(wf_grow((void **)&l->cmds, &l->cap_cmds, l->n_cmds + 1, sizeof *l->cmds));
    WF_TRY(wf_grow((void **)&l->labels, &l->cap_labels, l->n_cmds + 1, sizeof *l->labels));
    cmd.label = (uint32_t)l->n_cmds;
    l->labels[l->n_cmds] = d->label;
    l->cmds[l->n_cmds++] = cmd;
    l->plan->n_dispatches++;
    return WEFT_OK;
}

static uint64_t leaf_bytes(const wf_cnode *n)
{
    return n->node->storage ? n->node->storage->size_bytes : 0;
}

void wf_lower_bind(wf_lowering *l, wf_dispatch *d, int i, int32_t src, int32_t out_node, uint8_t access)
{
    d->access[i] = access;
    d->is_error[i] = src == WF_SRC_ERROR;
    if (src == WF_SRC_ERROR) {
        d->size[i] = 4 * WF_ERROR_WORDS;
        return;
    }
    int32_t id = src == WF_SRC_OUT ? out_node : src;
    const wf_cnode *n = &l->s->g.nodes[id];
    d->bind[i] = l->mem[id];
    d->size[i] = n->kind == WF_CK_LEAF ? leaf_bytes(n) : wf_lower_node_bytes(n);
    if (n->kind == WF_CK_LEAF && weft_dtype_is_quantised(n->dtype) && n->layout == WF_LAYOUT_PLANAR) {
        d->quant[i] = (uint8_t)(1 + n->dtype);
        d->section_blocks[i] = n->section_blocks;
    }
}
