/* lower_special.c - hand-written kernels: operands described to the kernel table, launches to commands. */
#include "explain_notes.h"
#include "quant.h"

static weft_status make_operands(wf_lowering *l, int32_t anchor, wf_kernel_req *req)
{
    const wf_cnode *a = &l->s->g.nodes[anchor];
    req->op = a->op;
    req->attrs = a->attrs;
    req->n_in = a->op == WF_OP_LINEAR ? 2 : a->n_in;
    req->out_dtype = a->dtype;
    req->unfold = a->unfold;
    req->unforced = l->caps->unforced;
    req->texts = l->s->env->texts;
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

/* The result is the product itself, row-major: a CPU kernel stores that without an epilogue. */
static bool is_bare_product(const wf_lowering *l, int32_t root, int32_t anchor)
{
    const wf_cnode *a = &l->s->g.nodes[anchor];
    return root == anchor && l->caps->runs_kir && !l->caps->runs_wgsl &&
           (a->op == WF_OP_MATMUL || (!a->attrs.linear.has_bias && a->attrs.linear.activation == 0));
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

static weft_status add_indirect(wf_lowering *l, const wf_launch *la, int32_t anchor, uint32_t *out)
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

static weft_status launch_program(wf_lowering *l, const wf_launch *la, const wf_kir *epilogue, uint32_t *id)
{
    wf_str identity = WF_STR_INIT;
    weft_status st = WEFT_OK;
    wf_program_desc desc = {.kind = la->kind, .label = la->row, .n_bind = la->n_bind, .row = la->row, .wgsl = la->wgsl.ptr};
    memcpy(desc.access, la->access, sizeof desc.access);
    if (la->kind == WF_PROGRAM_NAMED) {
        wf_str_addf(&identity, "N%s|%u|", la->row, la->n_bind);
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

/* The part of a product that one set of launches computes. */
typedef struct product_piece {
    wf_window in[8];                /* of the operands; size 0: whole */
    wf_window ep[WF_KIR_MAX_BIND];  /* of the epilogue's bindings */
    int32_t words[WF_STATIC_WORDS_MAX]; /* the epilogue's static words */
} product_piece;

static weft_status emit_launch(wf_lowering *l, wf_launch *la, int32_t root, int32_t anchor, int32_t scratch, uint64_t scratch_bytes,
                               const wf_group_code *ep, const product_piece *piece)
{
    const wf_cnode *a = &l->s->g.nodes[anchor];
    wf_dispatch d = {.label = la->row, .op = wf_op_table[a->op].name, .statics = la->statics, .n_bind = (int)la->n_bind};
    uint32_t n = la->n_static;
    if (ep && (la->kind == WF_PROGRAM_WGSL || la->with_epilogue)) {
        if (n + ep->kir.n_static > WF_STATIC_WORDS_MAX)
            return wf_fail(WEFT_E_UNSUPPORTED, "%s: the epilogue needs too many parameter words", la->row);
        memcpy(&la->statics[n], piece ? piece->words : ep->statics, sizeof(int32_t) * ep->kir.n_static);
        n += ep->kir.n_static;
    }
    d.n_static = (int)n;
    memcpy(d.grid, la->grid, sizeof d.grid);
    for (int i = 0; i < d.n_bind; i++) {
        int b = la->bind[i];
        if (b == WF_BIND_SCRATCH) {
            d.bind[i] = (wf_mem_ref){MEM_ITEM, scratch};
            d.size[i] = wf_align_up(scratch_bytes, 4);
            d.access[i] = la->access[i];
            continue;
        }
        int32_t src = b >= 0 ? a->src[b] : b == WF_BIND_OUT ? WF_SRC_OUT : ep->src[WF_BIND_EPILOGUE - b];
        wf_lower_bind(l, &d, i, src, root, la->access[i]);
        const wf_window *w = !piece || (b <= WF_BIND_OUT && b > WF_BIND_EPILOGUE) ? NULL : b >= 0 ? &piece->in[b] : &piece->ep[WF_BIND_EPILOGUE - b];
        if (w && w->size) {
            d.offset[i] = w->offset;
            d.size[i] = w->size;
        }
    }
    WF_TRY(launch_program(l, la, ep ? &ep->kir : NULL, &d.program));
    if (la->kind == WF_PROGRAM_WGSL && l->s->env->explain)
        wf_explain_wgsl(l->s->env->explain, la->wgsl.ptr);
    if (la->indirect_in >= 0 && l->caps->indirect && !l->host)
        WF_TRY(add_indirect(l, la, anchor, &d.indirect));
    return wf_lower_dispatch(l, &d);
}

static weft_status check_kv_len(wf_lowering *l, int32_t anchor)
{
    const wf_cnode *a = &l->s->g.nodes[anchor];
    return a->attrs.sdpa.has_kv_len ? wf_lower_check(l, a->src[a->n_in - 1], 0, a->in[1].view.shape[2] + 1, wf_op_table[a->op].name) : WEFT_OK;
}

/* The row that the table has for a request, and its programs. */
static weft_status make_row(wf_lowering *l, const wf_kernel_req *req)
{
    uint32_t id;
    weft_status st = wf_kernel_choose(&l->dev->caps, req, &l->choice);
    if (st != WEFT_OK) {
        l->choice.n_launches = 0;
        return st;
    }
    for (int i = 0; st == WEFT_OK && i < l->choice.n_launches; i++)
        st = launch_program(l, &l->choice.launch[i], req->epilogue, &id);
    for (int i = 0; st != WEFT_OK && i < l->choice.n_launches; i++)
        wf_str_free(&l->choice.launch[i].wgsl);
    return st;
}

/* For a tuner: the row of this round, when it compiles. Errors: OOM, a lost device. */
static weft_status row_of_pass(wf_lowering *l, wf_kernel_req *req, bool *made)
{
    wf_tune_pass *pass = l->s->env->pass;
    wf_tune_key key;
    const char *rows[WF_TUNE_ROWS];
    *made = false;
    pass->open = -1;
    if (l->host || wf_kernel_is_forced(req) || !wf_kernel_tune_key(&l->dev->caps, req, &key))
        return WEFT_OK;
    WF_TRY(wf_tune_pass_open(pass, &key, rows, wf_kernel_rows(&l->dev->caps, req, rows), &req->row));
    if (!req->row)
        return WEFT_OK;
    req->only = true;
    weft_status st = make_row(l, req);
    *made = st == WEFT_OK;
    if (st == WEFT_E_INTERNAL || st == WEFT_E_UNSUPPORTED) {
        wf_log(WEFT_LOG_WARN, "tune: %s:%s is passed over: %s", wf_tune_op_name(key.op), req->row, weft_error_message());
        wf_tune_pass_refused(pass, weft_error_message());
        st = WEFT_OK;
    }
    req->row = NULL;
    req->only = false;
    return st;
}

/* The measured choice for a request. */
static const wf_tune_entry *tuned_row(const wf_lowering *l, const wf_kernel_req *req)
{
    wf_tune_key key;
    const wf_tune_table *t = l->s->env->tuned;
    if (!t || !t->n || l->host || wf_kernel_is_forced(req) || !wf_kernel_tune_key(&l->dev->caps, req, &key))
        return NULL;
    return wf_tune_find(t, &key);
}

/* Choose the first row whose programs the device compiles. Errors: UNSUPPORTED (no row is left). */
static weft_status choose_row(wf_lowering *l, wf_kernel_req *req)
{
    const wf_tune_entry *tuned = tuned_row(l, req);
    req->row = tuned ? tuned->row : NULL;
    for (;;) {
        weft_status st = make_row(l, req);
        if (st == WEFT_OK && tuned && strcmp(l->choice.launch[0].row, tuned->row) == 0)
            wf_tune_sentence(tuned, l->chosen, sizeof l->chosen);
        if (st == WEFT_OK || l->choice.n_launches == 0)
            return st;
        if (!l->dev->caps.runs_wgsl || (st != WEFT_E_INTERNAL && st != WEFT_E_UNSUPPORTED))
            return st;
        wf_log(WEFT_LOG_WARN, "%s: a kernel is passed over: %s", wf_op_table[req->op].name, weft_error_message());
        req->skip |= 1ull << l->choice.place;
    }
}

/* Launch what was chosen for `req`. */
static weft_status launch_all(wf_lowering *l, const wf_kernel_req *req, int32_t root, int32_t anchor, const product_piece *piece)
{
    int32_t scratch = -1;
    weft_status st = l->choice.scratch_bytes ? wf_lower_item(l, l->choice.scratch_bytes, &scratch) : WEFT_OK;
    for (int i = 0; i < l->choice.n_launches; i++) {
        if (st == WEFT_OK)
            st = emit_launch(l, &l->choice.launch[i], root, anchor, scratch, l->choice.scratch_bytes, req->epilogue ? &l->epilogue : NULL, piece);
        wf_str_free(&l->choice.launch[i].wgsl);
    }
    l->plan->flops += l->choice.flops;
    l->plan->bytes += l->choice.bytes;
    return st;
}

/* ---- products with an operand larger than a binding ---- */

static bool operand_is_big(const wf_lowering *l, int32_t anchor, int i)
{
    return wf_lower_value_bytes(l, l->s->g.nodes[anchor].src[i], -1) > l->caps->max_binding_bytes;
}

/* The axis of operand i that runs with an axis (0 batch, 1 m, 2 n) of the result; -1: none. */
static int operand_axis(uint16_t op, int i, int axis)
{
    if (op == WF_OP_LINEAR)
        return i == 0 && axis == 1 ? 0 : i == 1 && axis == 2 ? 0 : -1;
    return axis == 0 ? 0 : i == 0 && axis == 1 ? 1 : i == 1 && axis == 2 ? 2 : -1;
}

/* Views of rank 2 (linear) or 3 (matmul), whose axes are those of the result's loop. */
static bool flatten_operand(const wf_kernel_req *req, int i, wf_view *v)
{
    const wf_view *from = &req->in[i].view;
    int want = req->op == WF_OP_LINEAR ? 2 : 3;
    int64_t shape[3] = {1, 1, 1};
    if (from->rank == want) {
        *v = *from;
        return true;
    }
    for (int d = 0; d < from->rank; d++)
        shape[d < from->rank - want + 1 ? 0 : d - (from->rank - want)] *= from->shape[d];
    return from->rank > want ? wf_view_reshape(from, want, shape, v) : wf_view_reshape(from, want, (int64_t[]){1, from->shape[0], from->shape[1]}, v);
}

/* The window of a section, when the view stays inside one; what the operand holds is then the section. */
static bool cut_section(const wf_lowering *l, wf_operand *o, int64_t section_blocks, int64_t lo, int64_t hi, wf_window *w)
{
    int64_t unit = weft_dtype_block(o->dtype), per = section_blocks * unit, index = per ? lo / per : 0;
    if (!per || hi / per != index)
        return false;
    o->numel = wf_quant_section_count(o->numel / unit, section_blocks, index) * unit;
    o->view.offset -= index * per;
    *w = (wf_window){wf_quant_section_offset(o->dtype, section_blocks, index), wf_quant_planar_bytes(o->dtype, o->numel / unit)};
    return w->size <= l->caps->max_binding_bytes;
}

static bool cut_operand(const wf_lowering *l, wf_kernel_req *req, int i, const wf_box *box, bool big, int64_t section_blocks, wf_window *w)
{
    wf_operand *o = &req->in[i];
    int64_t lo, hi;
    *w = (wf_window){0, 0};
    for (int axis = 0; axis < 3; axis++) {
        int d = operand_axis(req->op, i, axis);
        if (d < 0)
            continue;
        o->view.offset += box->begin[axis] * o->view.strides[d];
        o->view.shape[d] = box->len[axis];
    }
    if (!big || !wf_view_extent(&o->view, &lo, &hi))
        return true;
    if (weft_dtype_is_quantised(o->dtype))
        return cut_section(l, o, section_blocks, lo, hi, w);
    int64_t bytes = (int64_t)weft_dtype_block_bytes(o->dtype);
    uint64_t begin = (uint64_t)(lo * bytes) / WF_BIND_ALIGN * WF_BIND_ALIGN;
    *w = (wf_window){begin, wf_align_up((uint64_t)((hi + 1) * bytes), 4) - begin};
    o->view.offset -= (int64_t)begin / bytes;
    o->numel = (int64_t)w->size / bytes;
    return w->size <= l->caps->max_binding_bytes;
}

enum { FITS = 0, BIG_A = 1, BIG_B = 2, BIG_RESULT = 4 };

/* The request for a box of the result, and what of it does not fit. */
static unsigned cut_product(const wf_lowering *l, const wf_kernel_req *whole, int32_t root, int32_t anchor, const wf_box *box,
                        wf_kernel_req *req, product_piece *piece)
{
    *req = *whole;
    unsigned big = wf_lower_window(l, &l->epilogue, root, box, piece->words, piece->ep) ? FITS : BIG_RESULT;
    for (int i = 0; i < 2; i++)
        if (!flatten_operand(whole, i, &req->in[i].view) || !cut_operand(l, req, i, box, operand_is_big(l, anchor, i), l->s->g.nodes[l->s->g.nodes[anchor].src[i]].section_blocks, &piece->in[i]))
            big |= i == 0 ? BIG_A : BIG_B;
    int first = whole->op == WF_OP_LINEAR ? 1 : 0;
    req->out_rank = 3 - first;
    for (int d = 0; d < WEFT_MAX_RANK; d++)
        req->out_shape[d] = d < req->out_rank ? box->len[first + d] : 1;
    return big;
}

/* Rows of block-type weights in the section in which row `n` of the view lies; INT64_MAX: they are not in sections. */
static int64_t rows_to_section_end(const wf_lowering *l, const wf_kernel_req *req, int32_t anchor, int64_t n)
{
    const wf_cnode *w = &l->s->g.nodes[l->s->g.nodes[anchor].src[1]];
    const wf_view *v = &req->in[1].view;
    int64_t per = w->section_blocks * weft_dtype_block(w->dtype), at = v->offset + n * v->strides[0];
    if (!operand_is_big(l, anchor, 1) || !per || v->rank != 2 || v->strides[0] <= 0)
        return INT64_MAX;
    return WF_MAX((per - at % per + v->strides[0] - 1) / v->strides[0], 1);
}

typedef struct big_work {
    const wf_kernel_req *whole;
    int32_t root, anchor;
} big_work;

/* The longest axis of a box that makes smaller what does not fit, -1: none. */
static int axis_to_halve(const wf_box *box, unsigned big)
{
    const unsigned helps[3] = {BIG_A | BIG_B | BIG_RESULT, BIG_A | BIG_RESULT, BIG_B | BIG_RESULT};
    int best = -1;
    for (int a = 0; a < 3; a++)
        if ((helps[a] & big) && box->len[a] > 1 && (best < 0 || box->len[a] > box->len[best]))
            best = a;
    return best;
}

/* The box of the result in launches whose operands fit: halved along an axis that helps until they do. Result rows begin at whole
 * binding offsets when a piece has a multiple of 64 of them. */
static weft_status product_box(wf_lowering *l, const big_work *work, wf_box box)
{
    const char *name = wf_op_table[work->whole->op].name;
    product_piece piece = {0};
    wf_kernel_req req;
    while (box.len[2] > 0) {
        wf_box first = box;
        first.len[2] = WF_MIN(box.len[2], rows_to_section_end(l, work->whole, work->anchor, box.begin[2]));
        unsigned big = cut_product(l, work->whole, work->root, work->anchor, &first, &req, &piece);
        if (big == FITS) {
            WF_TRY(choose_row(l, &req));
            WF_TRY(launch_all(l, &req, work->root, work->anchor, &piece));
        } else {
            int longest = axis_to_halve(&first, big);
            if (longest < 0)
                return wf_fail(WEFT_E_UNSUPPORTED, "%s: a row of an operand is larger than the device's largest binding (%llu bytes)", name,
                               (unsigned long long)l->caps->max_binding_bytes);
            wf_box half = first, rest = first;
            half.len[longest] = first.len[longest] > 128 ? first.len[longest] / 128 * 64 : first.len[longest] / 2;
            rest.begin[longest] += half.len[longest];
            rest.len[longest] -= half.len[longest];
            WF_TRY(product_box(l, work, half));
            WF_TRY(product_box(l, work, rest));
        }
        box.begin[2] += first.len[2];
        box.len[2] -= first.len[2];
    }
    return WEFT_OK;
}

static weft_status big_product(wf_lowering *l, const wf_kernel_req *whole, int32_t root, int32_t anchor)
{
    big_work work = {whole, root, anchor};
    return product_box(l, &work, wf_lower_whole_box(&l->epilogue));
}

/* An operand larger than a binding is bound where its view reaches. */
static void narrow_operands(const wf_lowering *l, wf_kernel_req *req, int32_t anchor, product_piece *piece)
{
    for (int i = 0; i < req->n_in; i++) {
        wf_operand *o = &req->in[i];
        int64_t lo, hi, bytes = (int64_t)weft_dtype_block_bytes(o->dtype);
        if (o->step_slot >= 0 || !operand_is_big(l, anchor, i) || weft_dtype_is_quantised(o->dtype) || !wf_view_extent(&o->view, &lo, &hi))
            continue;
        uint64_t begin = (uint64_t)(lo * bytes) / WF_BIND_ALIGN * WF_BIND_ALIGN;
        piece->in[i] = (wf_window){begin, wf_align_up((uint64_t)((hi + 1) * bytes), 4) - begin};
        o->view.offset -= (int64_t)begin / bytes;
        o->numel = (int64_t)piece->in[i].size / bytes;
    }
}

weft_status wf_lower_special(wf_lowering *l, int32_t root, int32_t anchor)
{
    const wf_cnode *a = &l->s->g.nodes[anchor];
    bool product = wf_op_table[a->op].klass == WF_CLASS_MATMUL;
    wf_kernel_req req;
    product_piece piece = {0};
    weft_status st;
    memset(&req, 0, sizeof req);
    wf_lower_use_device(l);
    if (a->op == WF_OP_SDPA)
        WF_TRY(check_kv_len(l, anchor));
    if (product && a->dtype != WEFT_DTYPE_F64 && a->dtype != WEFT_DTYPE_I32 && !is_bare_product(l, root, anchor)) {
        int64_t extents[3];
        product_extents(a, &extents[0], &extents[1], &extents[2]);
        WF_TRY(wf_codegen_epilogue(&l->s->g, root, extents[0], extents[1], extents[2], &l->epilogue));
        wf_lower_planes(l, &l->epilogue);
        req.epilogue = &l->epilogue.kir;
        if (l->s->g.window_bytes && (operand_is_big(l, anchor, 0) || operand_is_big(l, anchor, 1) || wf_lower_is_big(l, &l->epilogue, root))) {
            WF_TRY(make_operands(l, anchor, &req));
            return big_product(l, &req, root, anchor);
        }
    }
    bool refused = a->dtype == WEFT_DTYPE_F64 && !l->caps->f64;
    if (!refused) {
        bool made = false;
        WF_TRY(make_operands(l, anchor, &req));
        if (!product)
            narrow_operands(l, &req, anchor, &piece);
        if (l->s->env->pass)
            WF_TRY(row_of_pass(l, &req, &made));
        st = made ? WEFT_OK : choose_row(l, &req);
        if (st == WEFT_OK && l->s->env->pass)
            l->s->env->pass->taken = l->choice.launch[0].row;
        refused = st == WEFT_E_UNSUPPORTED && l->caps->runs_wgsl && !wf_kernel_is_forced(&req);
        if (st != WEFT_OK && !refused)
            return st;
    }
    if (refused) {
        char why[256];
        strncpy(why, weft_error_message(), sizeof why - 1);
        why[sizeof why - 1] = 0;
        WF_TRY(wf_lower_use_host(l, wf_op_table[a->op].name, a->dtype == WEFT_DTYPE_F64 ? "64-bit numbers" : why));
        for (int i = 0; req.epilogue && i < l->epilogue.kir.n_bind; i++)
            l->epilogue.kir.bind[i].layout = WF_LAYOUT_PLAIN;
        WF_TRY(make_operands(l, anchor, &req));
        memset(&piece, 0, sizeof piece); /* the CPU takes operands whole */
        WF_TRY(choose_row(l, &req));
    }
    return launch_all(l, &req, root, anchor, product ? NULL : &piece);
}
