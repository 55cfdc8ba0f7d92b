/* lower_window.c - operands larger than the device's largest binding.
 *
 * What is read and written at indices that are affine in the loop is cut along an axis: each piece binds
 * only the window it touches, and its offsets are moved by the window's start. What is read at computed
 * indices (the table of a gather) is bound whole, in several bindings.
 */
#include "lower.h"

uint64_t wf_lower_value_bytes(const wf_lowering *l, int32_t src, int32_t out_node)
{
    if (src == WF_SRC_ERROR)
        return 4;
    const wf_cnode *n = &l->s->g.nodes[src == WF_SRC_OUT ? out_node : src];
    if (n->kind == WF_CK_LEAF)
        return n->node->storage ? n->node->storage->size_bytes : 0;
    return wf_lower_node_bytes(n);
}

static bool is_big(const wf_lowering *l, const wf_group_code *c, int32_t out_node, int bind)
{
    return wf_lower_value_bytes(l, c->src[bind], out_node) > l->caps->max_binding_bytes;
}

bool wf_lower_is_big(const wf_lowering *l, const wf_group_code *c, int32_t out_node)
{
    for (int i = 0; i < c->kir.n_bind; i++)
        if (is_big(l, c, out_node, i))
            return true;
    return false;
}

/* Every access of the binding is at an affine index. */
static bool is_affine(const wf_kir *k, int bind)
{
    if (weft_dtype_is_quantised(k->bind[bind].dtype))
        return false;
    for (int i = 0; i < k->n_instr; i++) {
        const wf_kinstr *in = &k->instr[i];
        if ((in->op == WF_KOP_LOAD || in->op == WF_KOP_STORE) && in->slot == bind && k->instr[in->a].op != WF_KOP_AFFINE)
            return false;
    }
    return true;
}

weft_status wf_lower_chunk(const wf_lowering *l, wf_group_code *c, int32_t out_node, const char *label)
{
    wf_kir *k = &c->kir;
    uint64_t limit = wf_lower_limit(l);
    for (int i = 0; i < k->n_bind; i++) {
        if (!is_big(l, c, out_node, i) || is_affine(k, i))
            continue;
        uint64_t need = wf_lower_value_bytes(l, c->src[i], out_node), n = (need + limit - 1) / limit;
        int total = wf_kir_total_bind(k) + (int)WF_MIN(n, 1000) - 1;
        if (k->bind[i].access != WF_ACCESS_READ || total > (int)WF_MIN(l->caps->max_storage_buffers, WF_MAX_BIND) ||
            k->n_static == WF_STATIC_WORDS_MAX)
            return wf_fail(WEFT_E_UNSUPPORTED, "%s: an operand of %llu bytes needs %llu bindings of %llu bytes; the device has %u for all operands",
                           label, (unsigned long long)need, (unsigned long long)n, (unsigned long long)limit, l->caps->max_storage_buffers);
        k->bind[i].chunks = (uint8_t)n;
        k->bind[i].chunk_slot = k->n_static;
        c->statics[k->n_static++] = (int32_t)(limit / 4);
    }
    return WEFT_OK;
}

static int element_bits(weft_dtype dtype)
{
    return (int)weft_dtype_block_bytes(dtype) * 8 / weft_dtype_block(dtype);
}

/* Elements touched by an AFFINE under the given words. */
static void affine_range(const wf_kir *k, const wf_kinstr *affine, const int32_t *words, int64_t *lo, int64_t *hi)
{
    *lo = *hi = words[affine->slot];
    for (int a = 0; a < k->n_outer + k->n_inner; a++) {
        int64_t move = (int64_t)words[affine->slot + 1 + a] * (words[k->extent_slot + a] - 1);
        *lo += move < 0 ? move : 0;
        *hi += move > 0 ? move : 0;
    }
}

wf_box wf_lower_whole_box(const wf_group_code *c)
{
    wf_box box = {{0}, {0}};
    for (int a = 0; a < c->kir.n_outer + c->kir.n_inner; a++)
        box.len[a] = c->statics[c->kir.extent_slot + a];
    return box;
}

bool wf_lower_window(const wf_lowering *l, const wf_group_code *c, int32_t out_node, const wf_box *box, int32_t *words,
                     wf_window *windows)
{
    const wf_kir *k = &c->kir;
    memcpy(words, c->statics, sizeof(int32_t) * k->n_static);
    for (int a = 0; a < k->n_outer + k->n_inner; a++) {
        words[k->extent_slot + a] = (int32_t)box->len[a];
        for (int i = 0; i < k->n_instr; i++)
            if (k->instr[i].op == WF_KOP_AFFINE)
                words[k->instr[i].slot] += (int32_t)(box->begin[a] * words[k->instr[i].slot + 1 + a]);
    }
    for (int b = 0; b < k->n_bind; b++) {
        uint64_t whole = wf_lower_value_bytes(l, c->src[b], out_node);
        windows[b] = (wf_window){0, whole};
        if (k->bind[b].chunks > 1 || !is_big(l, c, out_node, b))
            continue;
        int64_t lo = INT64_MAX, hi = INT64_MIN, bits = element_bits((weft_dtype)k->bind[b].dtype);
        for (int i = 0; i < k->n_instr; i++) {
            const wf_kinstr *in = &k->instr[i];
            if ((in->op != WF_KOP_LOAD && in->op != WF_KOP_STORE) || in->slot != b)
                continue;
            if (k->instr[in->a].op != WF_KOP_AFFINE)
                return false;
            int64_t from, to;
            affine_range(k, &k->instr[in->a], words, &from, &to);
            lo = WF_MIN(lo, from);
            hi = WF_MAX(hi, to);
        }
        uint64_t begin = (uint64_t)(lo * bits / 8) / WF_BIND_ALIGN * WF_BIND_ALIGN;
        uint64_t end = WF_MIN(wf_align_up((uint64_t)((hi + 1) * bits + 7) / 8, 4), whole);
        windows[b] = (wf_window){begin, end - begin};
        if (end - begin > l->caps->max_binding_bytes)
            return false;
        for (int i = 0; i < k->n_instr; i++) /* an AFFINE serves one access here: see wf_kb.unshared */
            if ((k->instr[i].op == WF_KOP_LOAD || k->instr[i].op == WF_KOP_STORE) && k->instr[i].slot == b)
                words[k->instr[k->instr[i].a].slot] -= (int32_t)((int64_t)begin * 8 / bits);
    }
    return true;
}

/* Pieces of a covered output begin at whole binding offsets: the kernel then counts from 0. */
static int64_t piece_step(const wf_lowering *l, const wf_group_code *c, int32_t out_node, int axis)
{
    const wf_kir *k = &c->kir;
    int64_t step = 1;
    for (int i = 0; i < k->n_instr; i++) {
        const wf_kinstr *in = &k->instr[i];
        if (in->op != WF_KOP_STORE || !is_big(l, c, out_node, in->slot) || k->instr[in->a].op != WF_KOP_AFFINE)
            continue;
        int64_t bits = (int64_t)c->statics[k->instr[in->a].slot + 1 + axis] * element_bits((weft_dtype)k->bind[in->slot].dtype);
        while (step < 8 * WF_BIND_ALIGN && bits * step % (8 * WF_BIND_ALIGN) != 0)
            step *= 2;
    }
    return step;
}

int64_t wf_lower_piece(const wf_lowering *l, const wf_group_code *c, int32_t out_node, int axis)
{
    int32_t words[WF_STATIC_WORDS_MAX];
    wf_window windows[WF_KIR_MAX_BIND];
    int64_t extent = c->statics[c->kir.extent_slot + axis], step = piece_step(l, c, out_node, axis), len = extent;
    wf_box box = wf_lower_whole_box(c);
    while (len > 0) {
        bool fits = true;
        for (int64_t s = 0; fits && s < extent; s += len) {
            box.begin[axis] = s;
            box.len[axis] = WF_MIN(len, extent - s);
            fits = wf_lower_window(l, c, out_node, &box, words, windows);
        }
        if (fits)
            break;
        len = len / 2 >= step ? len / 2 / step * step : 0;
    }
    return len;
}
