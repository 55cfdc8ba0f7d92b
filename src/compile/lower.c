/* lower.c - groups to programs and commands.
 *
 * The one place that proves a kernel stays inside the device's limits. A kernel the device has no row
 * for becomes a host part: its operands are copied to the CPU, computed, and copied back, inside the
 * same plan.
 */
#include <stdlib.h>

#include "compile.h"
#include "quant.h"
#include "wgsl.h"

enum { MEM_NONE, MEM_LEAF, MEM_OUT, MEM_ITEM };

typedef struct mem_ref {
    uint8_t kind;
    int32_t index;
} mem_ref;

typedef struct lowering {
    wf_compile_state *s;
    wf_plan *plan;
    const wf_caps *caps;
    mem_ref *mem;          /* by cgraph node */
    wf_mem_item *items;
    size_t n_items, cap_items;
    wf_cmd *cmds;
    size_t n_cmds, cap_cmds;
    const char **labels;
    size_t cap_labels;
    wf_patch *patches;     /* kind ARENA: index is the item until memory is placed */
    size_t n_patches, cap_patches;
    wf_plan_part *parts;
    size_t n_parts, cap_parts;
    wf_plan_out *outs;
    size_t n_outs, cap_outs;
    wf_plan_check *checks;
    size_t n_checks, cap_checks;
    wf_plan_indirect *indirect;
    size_t n_indirect, cap_indirect;
    wf_str statics;
    wf_group_code code;
    wf_group_code epilogue;
    wf_kernel_choice choice;
    /* target of the kernel that is lowered now */
    wf_device *dev;
    wf_programs *programs;
    bool host;
} lowering;

static uint64_t node_bytes(const wf_cnode *n)
{
    return wf_align_up(wf_dtype_bytes(n->dtype, n->numel), 4);
}

/* ---- where values live ---- */

static weft_status new_item(lowering *l, uint64_t size_bytes, int32_t *out)
{
    WF_TRY(wf_grow((void **)&l->items, &l->cap_items, l->n_items + 1, sizeof *l->items));
    l->items[l->n_items] = (wf_mem_item){.size_bytes = size_bytes, .first = INT32_MAX, .last = -1, .arena = -1};
    *out = (int32_t)l->n_items++;
    return WEFT_OK;
}

static weft_status new_out(lowering *l, const wf_cnode *n, int32_t alias_leaf, mem_ref *m)
{
    WF_TRY(wf_grow((void **)&l->outs, &l->cap_outs, l->n_outs + 1, sizeof *l->outs));
    l->outs[l->n_outs] = (wf_plan_out){.numel = n->numel, .size_bytes = node_bytes(n), .alias_leaf = alias_leaf};
    *m = (mem_ref){MEM_OUT, (int32_t)l->n_outs++};
    return WEFT_OK;
}

static weft_status place(lowering *l, int32_t id)
{
    const wf_cnode *n = &l->s->g.nodes[id];
    if (l->mem[id].kind != MEM_NONE || n->numel == 0)
        return WEFT_OK;
    if (n->target)
        return new_out(l, n, -1, &l->mem[id]);
    l->mem[id].kind = MEM_ITEM;
    return new_item(l, node_bytes(n), &l->mem[id].index);
}

static weft_status add_read(lowering *l, int32_t writer, int32_t read)
{
    wf_mem_item *w = &l->items[writer];
    if (writer == read)
        return WEFT_OK;
    for (int32_t i = 0; i < w->n_reads; i++)
        if (w->reads[i] == read)
            return WEFT_OK;
    if ((w->n_reads & (w->n_reads - 1)) == 0) { /* grow at powers of two */
        int32_t *more = wf_arena_alloc(&l->s->scratch, sizeof *more * (size_t)(w->n_reads ? 2 * w->n_reads : 4));
        if (!more)
            return wf_fail_oom(sizeof *more * 2 * (size_t)w->n_reads);
        if (w->n_reads)
            memcpy(more, w->reads, sizeof *more * (size_t)w->n_reads);
        w->reads = more;
    }
    w->reads[w->n_reads++] = read;
    return WEFT_OK;
}

/* ---- commands ---- */

typedef struct dispatch {
    uint32_t program;
    int n_bind;
    mem_ref bind[WF_MAX_BIND + 1];
    uint64_t size[WF_MAX_BIND + 1];
    uint8_t access[WF_MAX_BIND + 1];
    uint8_t quant[WF_MAX_BIND + 1];
    bool is_error[WF_MAX_BIND + 1];
    const int32_t *statics;
    int n_static;
    uint32_t grid[3];
    uint32_t indirect;
    const char *label;
} dispatch;

static weft_status begin_part(lowering *l, const dispatch *d)
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
    }
    if (l->host)
        l->plan->n_fallbacks++;
    return WEFT_OK;
}

static weft_status add_patch(lowering *l, int bind, uint32_t kind, int32_t index)
{
    WF_TRY(wf_grow((void **)&l->patches, &l->cap_patches, l->n_patches + 1, sizeof *l->patches));
    l->patches[l->n_patches++] = (wf_patch){(uint32_t)l->n_cmds, (uint32_t)bind, kind, (uint32_t)index};
    return WEFT_OK;
}

static weft_status bind_memory(lowering *l, const dispatch *d, int i, wf_cmd *cmd)
{
    mem_ref m = d->bind[i];
    cmd->bind[i].size = d->size[i];
    if (!l->host && d->size[i] > l->caps->max_binding_bytes)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: an operand of %llu bytes is larger than the device's largest binding (%llu)",
                       d->label, (unsigned long long)d->size[i], (unsigned long long)l->caps->max_binding_bytes);
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

static weft_status add_dispatch(lowering *l, const dispatch *d)
{
    wf_cmd cmd = {.kind = WF_CMD_DISPATCH, .program = d->program, .n_bind = (uint32_t)d->n_bind, .indirect = d->indirect};
    memcpy(cmd.grid, d->grid, sizeof cmd.grid);
    WF_TRY(begin_part(l, d));
    for (int i = 0; i < d->n_bind; i++)
        WF_TRY(bind_memory(l, d, i, &cmd));
    for (int w = 0; w < d->n_bind; w++)
        for (int r = 0; r < d->n_bind && d->access[w] != WF_ACCESS_READ && d->bind[w].kind == MEM_ITEM && !d->is_error[w]; r++)
            if (d->bind[r].kind == MEM_ITEM && !d->is_error[r])
                WF_TRY(add_read(l, d->bind[w].index, d->bind[r].index));
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

/* ---- generated kernels ---- */

static weft_status kir_program(lowering *l, wf_kir *k, const char *label, uint32_t *id)
{
    wf_str identity = WF_STR_INIT, text = WF_STR_INIT;
    weft_status st;
    bool wgsl = !l->host && l->caps->runs_wgsl;
    wf_str_add(&identity, wgsl ? "G" : "K");
    WF_TRY_GOTO(st, wf_kir_write(k, &identity), done);
    if (wf_programs_find(l->programs, identity.ptr, identity.len, id))
        goto done;
    wf_program_desc desc = {.kind = wgsl ? WF_PROGRAM_WGSL : WF_PROGRAM_KIR, .label = label, .kir = k};
    desc.n_bind = (uint32_t)k->n_bind + k->has_error;
    for (uint32_t i = 0; i < desc.n_bind; i++)
        desc.access[i] = i < k->n_bind && k->bind[i].access == WF_ACCESS_READ ? WF_ACCESS_READ : WF_ACCESS_READ_WRITE;
    if (wgsl) {
        WF_TRY_GOTO(st, wf_wgsl_emit(l->caps, k, &text), done);
        desc.wgsl = text.ptr;
    }
    st = wf_programs_get(l->programs, &desc, identity.ptr, identity.len, id);
done:
    wf_str_free(&identity);
    wf_str_free(&text);
    return st;
}

static bool kir_runs_here(const lowering *l, const wf_kir *k)
{
    for (int i = 0; i < k->n_instr; i++)
        if ((k->instr[i].type == WF_KTY_F64 && !l->caps->f64) || (k->instr[i].type == WF_KTY_I64 && !l->caps->i64))
            return false;
    return k->n_bind + k->has_error <= (int)l->caps->max_storage_buffers || !l->caps->runs_wgsl;
}

/* Turn to the host for one kernel; UNSUPPORTED when that is refused. */
static weft_status use_host(lowering *l, const char *what, const char *why)
{
    if (!l->caps->runs_wgsl || !l->s->env->host)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: %s", what, why);
    if (l->s->env->fallback_is_error)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s has no row on this device (%s) and WEFT_FALLBACK=error", what, why);
    WF_TRY(l->s->env->host(l->s->env->user, &l->dev, &l->programs));
    l->host = true;
    return WEFT_OK;
}

static void use_device(lowering *l)
{
    l->dev = l->s->env->dev;
    l->programs = l->s->env->programs;
    l->host = false;
}

static void fill_planes(lowering *l, wf_group_code *c)
{
    for (int i = 0; i < c->kir.n_bind; i++) {
        wf_kbind *b = &c->kir.bind[i];
        if (!weft_dtype_is_quantised(b->dtype) || b->layout != WF_LAYOUT_PLANAR)
            continue;
        wf_planes at = wf_quant_planar_offsets(b->dtype, l->s->g.nodes[c->src[i]].numel / weft_dtype_block(b->dtype));
        c->statics[b->plane_slot] = (int32_t)at.scales;
        c->statics[b->plane_slot + 1] = (int32_t)at.minima;
    }
}

static uint64_t leaf_bytes(const wf_cnode *n)
{
    return n->node->storage ? n->node->storage->size_bytes : 0;
}

static void set_bind(lowering *l, dispatch *d, int i, int32_t src, int32_t out_node, uint8_t access)
{
    d->access[i] = access;
    d->is_error[i] = src == WF_SRC_ERROR;
    if (src == WF_SRC_ERROR) {
        d->size[i] = 4;
        return;
    }
    int32_t id = src == WF_SRC_OUT ? out_node : src;
    const wf_cnode *n = &l->s->g.nodes[id];
    d->bind[i] = l->mem[id];
    d->size[i] = n->kind == WF_CK_LEAF ? leaf_bytes(n) : node_bytes(n);
    if (n->kind == WF_CK_LEAF && weft_dtype_is_quantised(n->dtype) && n->layout == WF_LAYOUT_PLANAR)
        d->quant[i] = (uint8_t)(1 + n->dtype);
}

static const char *group_label(const lowering *l, int32_t root)
{
    const wf_cnode *r = &l->s->g.nodes[root];
    return wf_op_table[r->anchor >= 0 ? l->s->g.nodes[r->anchor].op : r->op].name;
}

/* Dispatch l->code, whose output is `root`. */
static weft_status emit_code(lowering *l, int32_t root)
{
    wf_group_code *c = &l->code;
    wf_kir *k = &c->kir;
    const char *label = group_label(l, root);
    use_device(l);
    if (!kir_runs_here(l, k))
        WF_TRY(use_host(l, label, "64-bit numbers or too many buffers"));
    if (l->host)
        for (int i = 0; i < k->n_bind; i++)
            k->bind[i].layout = WF_LAYOUT_PLAIN;
    if (!l->host && l->caps->runs_wgsl)
        wf_wgsl_widen(k, c->statics);
    fill_planes(l, c);
    dispatch d = {.label = label, .statics = c->statics, .n_static = k->n_static, .grid = {1, 1, 1}};
    WF_TRY(kir_program(l, k, label, &d.program));
    d.n_bind = k->n_bind + k->has_error;
    for (int i = 0; i < d.n_bind; i++)
        set_bind(l, &d, i, c->src[i], root, i < k->n_bind ? k->bind[i].access : WF_ACCESS_READ_WRITE);
    if (!l->host && l->caps->runs_wgsl)
        wf_wgsl_grid(l->caps, k, c->extents, d.grid);
    return add_dispatch(l, &d);
}

/* ---- hand-written kernels ---- */

static weft_status make_operands(lowering *l, int32_t anchor, wf_kernel_req *req)
{
    const wf_cnode *a = &l->s->g.nodes[anchor];
    req->op = a->op;
    req->attrs = a->attrs;
    req->n_in = a->op == WF_OP_LINEAR ? 2 : a->n_in;
    req->out_dtype = a->dtype;
    req->out_rank = a->rank;
    memcpy(req->out_shape, a->shape, sizeof req->out_shape);
    if (req->n_in > (int)WF_COUNT(req->in))
        return wf_fail(WEFT_E_INTERNAL, "%s: %d inputs", wf_op_table[a->op].name, a->n_in);
    for (int i = 0; i < req->n_in; i++) {
        const wf_cnode *p = &l->s->g.nodes[a->src[i]];
        bool scalar = p->kind == WF_CK_SCALAR && a->in[i].view.rank == 0;
        req->in[i] = (wf_operand){.dtype = p->dtype, .layout = l->host ? WF_LAYOUT_PLAIN : p->layout, .view = a->in[i].view,
                                  .numel = p->numel, .step_slot = scalar ? p->step_word : -1};
    }
    return WEFT_OK;
}

static void product_extents(const wf_cnode *a, int64_t *batch, int64_t *m, int64_t *n)
{
    *n = a->shape[a->rank - 1];
    *m = a->rank > 1 ? a->shape[a->rank - 2] : 1;
    *batch = 1;
    for (int d = 0; d < a->rank - 2; d++)
        *batch *= a->shape[d];
    if (a->op == WF_OP_LINEAR) {
        *m *= *batch;
        *batch = 1;
    }
}

static weft_status add_indirect(lowering *l, const wf_launch *la, int32_t anchor, uint32_t *out)
{
    const wf_cnode *a = &l->s->g.nodes[anchor];
    int32_t scalar = a->src[la->indirect_in];
    WF_TRY(wf_grow((void **)&l->indirect, &l->cap_indirect, l->n_indirect + 1, sizeof *l->indirect));
    wf_plan_indirect *in = &l->indirect[l->n_indirect];
    in->step_word = (uint32_t)l->plan->n_scalars + 3 * (uint32_t)l->n_indirect;
    memcpy(in->grid, la->grid, sizeof in->grid);
    in->order = l->s->order_of[scalar];
    in->axis = la->indirect_axis;
    in->div = la->indirect_div;
    /* One entry serves every launch with the same counts. */
    for (size_t i = 0; i < l->n_indirect; i++) {
        const wf_plan_indirect *o = &l->indirect[i];
        if (o->order == in->order && o->axis == in->axis && o->div == in->div && memcmp(o->grid, in->grid, sizeof in->grid) == 0) {
            *out = 1 + 4 * o->step_word;
            return WEFT_OK;
        }
    }
    *out = 1 + 4 * in->step_word;
    l->n_indirect++;
    return WEFT_OK;
}

static weft_status launch_program(lowering *l, const wf_launch *la, const wf_kir *epilogue, uint32_t *id)
{
    wf_str identity = WF_STR_INIT;
    weft_status st = WEFT_OK;
    wf_program_desc desc = {.kind = la->kind, .label = la->row, .n_bind = la->n_bind, .row = la->row, .wgsl = la->wgsl.ptr};
    memcpy(desc.access, la->access, sizeof desc.access);
    if (la->kind == WF_PROGRAM_NAMED) {
        wf_str_addf(&identity, "N%s|", la->row);
        if (la->with_epilogue && epilogue) {
            desc.kir = epilogue;
            WF_TRY_GOTO(st, wf_kir_write(epilogue, &identity), done);
        }
    } else {
        wf_str_add(&identity, "W");
        wf_str_addn(&identity, (const char *)la->access, sizeof la->access);
        wf_str_addn(&identity, la->wgsl.ptr, la->wgsl.len);
    }
    st = identity.oom ? wf_fail_oom(identity.len) : wf_programs_get(l->programs, &desc, identity.ptr, identity.len, id);
done:
    wf_str_free(&identity);
    return st;
}

static weft_status emit_launch(lowering *l, wf_launch *la, int32_t root, int32_t anchor, int32_t scratch, uint64_t scratch_bytes,
                               const wf_group_code *ep)
{
    const wf_cnode *a = &l->s->g.nodes[anchor];
    dispatch d = {.label = la->row, .statics = la->statics, .n_bind = (int)la->n_bind};
    uint32_t n = la->n_static;
    if (ep && (la->kind == WF_PROGRAM_WGSL || la->with_epilogue)) {
        if (n + ep->kir.n_static > WF_STATIC_WORDS_MAX)
            return wf_fail(WEFT_E_UNSUPPORTED, "%s: the epilogue needs too many parameter words", la->row);
        memcpy(&la->statics[n], ep->statics, sizeof(int32_t) * ep->kir.n_static);
        n += ep->kir.n_static;
    }
    d.n_static = (int)n;
    memcpy(d.grid, la->grid, sizeof d.grid);
    for (int i = 0; i < d.n_bind; i++) {
        int b = la->bind[i];
        if (b == WF_BIND_SCRATCH) {
            d.bind[i] = (mem_ref){MEM_ITEM, scratch};
            d.size[i] = wf_align_up(scratch_bytes, 4);
            d.access[i] = la->access[i];
            continue;
        }
        int32_t src = b >= 0 ? a->src[b] : b == WF_BIND_OUT ? WF_SRC_OUT : ep->src[WF_BIND_EPILOGUE - b];
        set_bind(l, &d, i, src, root, la->access[i]);
    }
    WF_TRY(launch_program(l, la, ep ? &ep->kir : NULL, &d.program));
    if (la->indirect_in >= 0 && l->caps->indirect && !l->host)
        WF_TRY(add_indirect(l, la, anchor, &d.indirect));
    return add_dispatch(l, &d);
}

static weft_status check_kv_len(lowering *l, int32_t anchor);

static weft_status emit_special(lowering *l, int32_t root, int32_t anchor)
{
    const wf_cnode *a = &l->s->g.nodes[anchor];
    bool product = wf_op_table[a->op].klass == WF_CLASS_MATMUL;
    wf_kernel_req req;
    weft_status st;
    memset(&req, 0, sizeof req);
    use_device(l);
    if (a->op == WF_OP_SDPA)
        WF_TRY(check_kv_len(l, anchor));
    if (product && a->dtype != WEFT_DTYPE_F64) {
        int64_t batch, m, n;
        product_extents(a, &batch, &m, &n);
        WF_TRY(wf_codegen_epilogue(&l->s->g, root, batch, m, n, &l->epilogue));
        fill_planes(l, &l->epilogue);
        req.epilogue = &l->epilogue.kir;
    }
    bool refused = a->dtype == WEFT_DTYPE_F64 && !l->caps->f64;
    if (!refused) {
        WF_TRY(make_operands(l, anchor, &req));
        st = wf_kernel_choose(l->caps, &req, &l->choice);
        refused = st == WEFT_E_UNSUPPORTED && l->caps->runs_wgsl;
        if (st != WEFT_OK && !refused)
            return st;
    }
    if (refused) {
        char why[256];
        strncpy(why, weft_error_message(), sizeof why - 1);
        why[sizeof why - 1] = 0;
        WF_TRY(use_host(l, wf_op_table[a->op].name, a->dtype == WEFT_DTYPE_F64 ? "64-bit numbers" : why));
        WF_TRY(make_operands(l, anchor, &req));
        WF_TRY(wf_kernel_choose(&l->dev->caps, &req, &l->choice));
    }
    int32_t scratch = -1;
    st = l->choice.scratch_bytes ? new_item(l, l->choice.scratch_bytes, &scratch) : WEFT_OK;
    for (int i = 0; i < l->choice.n_launches; i++) {
        if (st == WEFT_OK)
            st = emit_launch(l, &l->choice.launch[i], root, anchor, scratch, l->choice.scratch_bytes, req.epilogue ? &l->epilogue : NULL);
        wf_str_free(&l->choice.launch[i].wgsl);
    }
    l->plan->flops += l->choice.flops;
    l->plan->bytes += l->choice.bytes;
    return st;
}

/* ---- one group ---- */

static weft_status add_check(lowering *l, int32_t scalar, int64_t lo, int64_t hi, const char *who)
{
    if (l->s->g.nodes[scalar].kind != WF_CK_SCALAR)
        return WEFT_OK;
    WF_TRY(wf_grow((void **)&l->checks, &l->cap_checks, l->n_checks + 1, sizeof *l->checks));
    l->checks[l->n_checks++] = (wf_plan_check){l->s->order_of[scalar], lo, hi, who};
    return WEFT_OK;
}

static weft_status check_kv_len(lowering *l, int32_t anchor)
{
    const wf_cnode *a = &l->s->g.nodes[anchor];
    return a->attrs.sdpa.has_kv_len ? add_check(l, a->src[a->n_in - 1], 0, a->in[1].view.shape[2] + 1, wf_op_table[a->op].name) : WEFT_OK;
}

static weft_status emit_slice_update(lowering *l, int32_t id)
{
    const wf_cgraph *g = &l->s->g;
    const wf_cnode *n = &g->nodes[id];
    const wf_cnode *dst = &g->nodes[n->src[0]];
    int axis = n->attrs.index.axis;
    int64_t len = n->in[1].view.shape[axis];
    WF_TRY(add_check(l, n->src[2], 0, n->shape[axis] - len + 1, "slice_update"));
    bool whole = wf_view_is_whole(&n->in[0].view, dst->numel);
    if (whole && dst->uses == 1 && dst->kind == WF_CK_LEAF && dst->stealable) {
        mem_ref leaf = l->mem[n->src[0]];
        if (n->target)
            WF_TRY(new_out(l, n, leaf.index, &l->mem[id]));
        else
            l->mem[id] = leaf;
    } else if (whole && dst->uses == 1 && dst->kind == WF_CK_COMPUTE && l->mem[n->src[0]].kind == MEM_ITEM && !n->target) {
        l->mem[id] = l->mem[n->src[0]];
    } else {
        WF_TRY(place(l, id));
        WF_TRY(wf_codegen_copy_input(g, id, 0, &l->code));
        WF_TRY(emit_code(l, id));
        l->plan->n_copies += dst->materialised;
    }
    if (len == 0 || g->nodes[n->src[1]].numel == 0)
        return WEFT_OK;
    WF_TRY(wf_codegen_store_part(g, id, 1, 0, &l->code));
    return emit_code(l, id);
}

static weft_status emit_cat(lowering *l, int32_t id)
{
    const wf_cnode *n = &l->s->g.nodes[id];
    int64_t at = 0;
    WF_TRY(place(l, id));
    for (int i = 0; i < n->n_in; i++) {
        if (wf_view_numel(&n->in[i].view) == 0)
            continue;
        WF_TRY(wf_codegen_store_part(&l->s->g, id, i, at, &l->code));
        WF_TRY(emit_code(l, id));
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

static weft_status checks_inside(lowering *l, int32_t id)
{
    const wf_cnode *n = &l->s->g.nodes[id];
    if (n->op != WF_OP_INDEX_SELECT)
        return WEFT_OK;
    int64_t extent = n->in[0].view.shape[n->attrs.index.axis];
    return add_check(l, n->src[1], -extent, extent, "index_select");
}

static weft_status emit_group(lowering *l, int32_t id)
{
    const wf_cgraph *g = &l->s->g;
    const wf_cnode *n = &g->nodes[id];
    if (n->op == WF_OP_SLICE_UPDATE)
        return emit_slice_update(l, id);
    if (n->op == WF_OP_CAT)
        return emit_cat(l, id);
    WF_TRY(place(l, id));
    l->plan->n_copies += n->op == WF_OP_COPY && n->kind == WF_CK_COMPUTE;
    int32_t a = n->anchor >= 0 ? n->anchor : id;
    wf_op_class k = wf_op_table[g->nodes[a].op].klass;
    if (k != WF_CLASS_ELEMENTWISE && k != WF_CLASS_INDEXED && k != WF_CLASS_LEAF && anchor_is_empty(&g->nodes[a])) {
        WF_TRY(wf_codegen_group_zero_anchor(g, id, &l->code));
        return emit_code(l, id);
    }
    if (k == WF_CLASS_MATMUL || k == WF_CLASS_SPECIAL)
        return emit_special(l, id, a);
    WF_TRY(wf_codegen_group(g, id, &l->code));
    return emit_code(l, id);
}

/* ---- the whole plan ---- */

static weft_status number_leaves(lowering *l)
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
                l->mem[i] = (mem_ref){MEM_LEAF, p->n_leaves};
                p->leaf_order[p->n_leaves++] = l->s->order_of[i];
            }
        } else if (n->kind == WF_CK_SCALAR) {
            n->step_word = p->n_scalars;
            p->scalar_order[p->n_scalars++] = l->s->order_of[i];
        }
    }
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

static weft_status finish_realise(lowering *l)
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

static weft_status finish(lowering *l)
{
    wf_plan *p = l->plan;
    WF_TRY(wf_memplan(l->items, (int32_t)l->n_items, l->caps->max_buffer_bytes, p->arena_bytes));
    for (size_t i = 0; i < l->n_patches; i++) {
        wf_patch *pt = &l->patches[i];
        if (pt->kind != WF_MEM_ARENA)
            continue;
        const wf_mem_item *it = &l->items[pt->index];
        l->cmds[pt->cmd].bind[pt->bind].offset = it->offset;
        pt->index = (uint32_t)it->arena;
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
    lowering *l = wf_calloc(1, sizeof *l);
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
    WF_TRY_GOTO(st, number_leaves(l), done);
    for (int32_t i = 0; i < s->g.n; i++) {
        const wf_cnode *n = &s->g.nodes[i];
        if (n->group < 0 || n->kind == WF_CK_LEAF || n->numel == 0)
            continue;
        WF_TRY_GOTO(st, checks_inside(l, i), done);
        if (n->group == i)
            WF_TRY_GOTO(st, emit_group(l, i), done);
    }
    st = finish(l);
done:
    wf_free(l->items);
    wf_free(l->cmds);
    wf_free(l->labels);
    wf_free(l->patches);
    wf_free(l->parts);
    wf_free(l->outs);
    wf_free(l->checks);
    wf_free(l->indirect);
    wf_str_free(&l->statics);
    wf_free(l);
    return st;
}
