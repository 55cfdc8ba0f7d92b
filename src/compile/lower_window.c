/* lower_window.c - operands larger than the device's largest binding.
 *
 * What a piece of a kernel reads and writes is bounded from its instructions: the loop's box gives the range
 * of every index that is affine in it, or follows from one by splitting it into coordinates, adding, or a check
 * against an extent. The piece binds only that window, and its offsets are moved by the window's start. What
 * no box bounds (a table of a gather, one line of a reduction) is bound whole in several bindings, or part by
 * part: see lower_parts.c.
 */
#include "lower.h"
#include "quant.h"

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

static int element_bits(weft_dtype dtype)
{
    return (int)weft_dtype_block_bytes(dtype) * 8 / weft_dtype_block(dtype);
}

/* ---- the range of an index ---- */

typedef struct index_range {
    int64_t lo, hi;
} index_range;

static index_range affine_range(const wf_kir *k, const wf_kinstr *affine, const int32_t *words)
{
    index_range r = {words[affine->slot], words[affine->slot]};
    for (int a = 0; a < k->n_outer + k->n_inner; a++) {
        int64_t move = (int64_t)words[affine->slot + 1 + a] * (words[k->extent_slot + a] - 1);
        r.lo += move < 0 ? move : 0;
        r.hi += move > 0 ? move : 0;
    }
    return r;
}

/* Row-major indices from.lo .. from.hi of a shape, at its strides: leading coordinates that are the same for all of
 * them move nothing, the first that differs runs over a part of its axis, the others over theirs. False: they reach
 * outside the shape. */
static bool unravel_range(const int32_t *words, int rank, index_range from, index_range *out)
{
    index_range r = {words[rank], words[rank]};
    int64_t below = 1;
    bool same = true;
    for (int d = 0; d < rank; d++)
        below *= words[d] > 0 ? words[d] : 1;
    if (from.lo < 0 || from.hi >= below)
        return false;
    for (int d = 0; d < rank; d++) {
        int64_t extent = words[d] > 0 ? words[d] : 1, stride = words[rank + 1 + d];
        below /= extent;
        int64_t c0 = same ? from.lo / below % extent : 0, c1 = same ? from.hi / below % extent : extent - 1;
        same &= c0 == c1;
        r.lo += stride * (stride < 0 ? c1 : c0);
        r.hi += stride * (stride < 0 ? c0 : c1);
    }
    *out = r;
    return true;
}

enum { RANGE_DEPTH = 12 };

/* The values of an I32 instruction over the box that the words describe; false: not known. */
static bool range_of(const wf_kir *k, const int32_t *words, int i, int depth, index_range *r)
{
    const wf_kinstr *in = &k->instr[i];
    index_range a = {0, 0}, b = {0, 0};
    bool knows_a = false, knows_b = false;
    if (depth == RANGE_DEPTH || in->type != WF_KTY_I32)
        return false;
    if (in->op == WF_KOP_AFFINE || in->op == WF_KOP_STATIC || in->op == WF_KOP_CHECK) {
        *r = in->op == WF_KOP_AFFINE ? affine_range(k, in, words)
           : in->op == WF_KOP_STATIC ? (index_range){words[in->slot], words[in->slot]}
                                     : (index_range){0, WF_MAX(words[in->slot] - 1, 0)};
        return true;
    }
    if (in->op == WF_KOP_LOAD || in->op == WF_KOP_STEP || in->op == WF_KOP_CAST || in->op == WF_KOP_BITCAST)
        return false;
    if (in->op == WF_KOP_SELECT) {
        if (!range_of(k, words, in->b, depth + 1, &a) || !range_of(k, words, in->c, depth + 1, &b))
            return false;
        *r = (index_range){WF_MIN(a.lo, b.lo), WF_MAX(a.hi, b.hi)};
        return true;
    }
    if (in->a >= 0)
        knows_a = range_of(k, words, in->a, depth + 1, &a);
    if (in->b >= 0)
        knows_b = range_of(k, words, in->b, depth + 1, &b);
    if (in->op == WF_KOP_UNRAVEL)
        return knows_a && unravel_range(&words[in->slot], (int)in->imm, a, r);
    if (!knows_a && !knows_b)
        return false;
    if (!knows_a || !knows_b) { /* the known side of a bound holds whatever the other is, a run-time scalar for one */
        if (in->op != WF_KOP_MIN && in->op != WF_KOP_MAX)
            return false;
        *(knows_a ? &b : &a) = (index_range){INT32_MIN, INT32_MAX};
    }
    bool positive = a.lo >= 0 && b.lo >= 0;
    switch (in->op) {
    case WF_KOP_ADD: *r = (index_range){a.lo + b.lo, a.hi + b.hi}; break;
    case WF_KOP_SUB: *r = (index_range){a.lo - b.hi, a.hi - b.lo}; break;
    case WF_KOP_MIN: *r = (index_range){WF_MIN(a.lo, b.lo), WF_MIN(a.hi, b.hi)}; break;
    case WF_KOP_MAX: *r = (index_range){WF_MAX(a.lo, b.lo), WF_MAX(a.hi, b.hi)}; break;
    case WF_KOP_MUL: {
        int64_t p[4] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
        *r = (index_range){WF_MIN(WF_MIN(p[0], p[1]), WF_MIN(p[2], p[3])), WF_MAX(WF_MAX(p[0], p[1]), WF_MAX(p[2], p[3]))};
        break;
    }
    case WF_KOP_XOR: /* changes no bit that b has not */
        if (!positive)
            return false;
        *r = (index_range){WF_MAX(a.lo - b.hi, 0), a.hi + b.hi};
        break;
    case WF_KOP_SHR:
        if (!positive || b.hi > 31)
            return false;
        *r = (index_range){a.lo >> b.hi, a.hi >> b.lo};
        break;
    default: return false;
    }
    return r->lo >= INT32_MIN && r->hi <= INT32_MAX;
}

static int uses_of(const wf_kir *k, int i)
{
    int n = 0;
    for (int j = 0; j < k->n_instr; j++)
        n += (k->instr[j].a == i) + (k->instr[j].b == i) + (k->instr[j].c == i);
    for (int s = 0; s < k->n_stages; s++)
        for (int a = 0; a < k->stages[s].n_acc; a++)
            n += k->stages[s].acc[a].value == i;
    return n;
}

/* The static word that moves index `i` and nothing else; -1: there is none. */
static int offset_word(const wf_kir *k, int i)
{
    const wf_kinstr *in = &k->instr[i];
    if (uses_of(k, i) != 1)
        return -1;
    if (in->op == WF_KOP_AFFINE)
        return in->slot;
    if (in->op == WF_KOP_UNRAVEL)
        return in->slot + (int)in->imm;
    if (in->op != WF_KOP_ADD)
        return -1;
    int word = offset_word(k, in->a);
    return word >= 0 ? word : offset_word(k, in->b);
}

static bool is_access(const wf_kinstr *in, int bind)
{
    return (in->op == WF_KOP_LOAD || in->op == WF_KOP_STORE) && in->slot == bind;
}

/* ---- windows ---- */

/* The sections that elements lo .. hi of a planar tensor lie in. */
static wf_window sections_of(const wf_cnode *n, int64_t lo, int64_t hi)
{
    int64_t blocks = n->numel / weft_dtype_block(n->dtype), per = n->section_blocks * weft_dtype_block(n->dtype), first = lo / per, last = hi / per;
    uint64_t begin = wf_quant_section_offset(n->dtype, n->section_blocks, first);
    uint64_t end = wf_quant_section_offset(n->dtype, n->section_blocks, last) +
                   wf_quant_planar_bytes(n->dtype, wf_quant_section_count(blocks, n->section_blocks, last));
    return (wf_window){begin, end - begin};
}

/* The bytes of a binding that the box of the words touches. False: not known. */
static bool window_of(const wf_lowering *l, const wf_group_code *c, int bind, const int32_t *words, uint64_t whole, wf_window *w)
{
    const wf_kir *k = &c->kir;
    int64_t lo = INT64_MAX, hi = INT64_MIN, bits = element_bits((weft_dtype)k->bind[bind].dtype);
    for (int i = 0; i < k->n_instr; i++) {
        index_range r;
        if (!is_access(&k->instr[i], bind))
            continue;
        if (offset_word(k, k->instr[i].a) < 0 || !range_of(k, words, k->instr[i].a, 0, &r))
            return false;
        lo = WF_MIN(lo, r.lo);
        hi = WF_MAX(hi, r.hi);
    }
    if (lo > hi || lo < 0)
        return false;
    if (weft_dtype_is_quantised((weft_dtype)k->bind[bind].dtype)) {
        const wf_cnode *n = &l->s->g.nodes[c->src[bind]];
        if (!n->section_blocks || hi >= n->numel)
            return false;
        *w = sections_of(n, lo, hi);
        return true;
    }
    uint64_t begin = (uint64_t)(lo * bits / 8) / WF_BIND_ALIGN * WF_BIND_ALIGN;
    uint64_t end = WF_MIN(wf_align_up((uint64_t)((hi + 1) * bits + 7) / 8, 4), whole);
    if (end <= begin)
        return false;
    *w = (wf_window){begin, end - begin};
    return true;
}

/* What the bindings of operand b hold together. */
static uint64_t held_by(const wf_lowering *l, const wf_kir *k, int b)
{
    return k->bind[b].chunks > 1 ? k->bind[b].chunks * wf_lower_limit(l) : l->caps->max_binding_bytes;
}

static void box_words(const wf_group_code *c, const wf_box *box, int32_t *words)
{
    const wf_kir *k = &c->kir;
    memcpy(words, c->statics, sizeof(int32_t) * k->n_static);
    for (int a = 0; a < k->n_outer + k->n_inner; a++) {
        words[k->extent_slot + a] = (int32_t)box->len[a];
        for (int i = 0; i < k->n_instr; i++)
            if (k->instr[i].op == WF_KOP_AFFINE)
                words[k->instr[i].slot] += (int32_t)(box->begin[a] * words[k->instr[i].slot + 1 + a]);
    }
}

wf_box wf_lower_whole_box(const wf_group_code *c)
{
    wf_box box = {{0}, {0}};
    for (int a = 0; a < c->kir.n_outer + c->kir.n_inner; a++)
        box.len[a] = c->statics[c->kir.extent_slot + a];
    return box;
}

/* What one point of the outer loop touches; the whole operand where that is not known. */
static wf_window point_window(const wf_lowering *l, const wf_group_code *c, int32_t out_node, int bind)
{
    int32_t words[WF_STATIC_WORDS_MAX];
    wf_window w = {0, wf_lower_value_bytes(l, c->src[bind], out_node)};
    wf_box box = wf_lower_whole_box(c);
    for (int a = 0; a < c->kir.n_outer; a++)
        box.len[a] = 1;
    box_words(c, &box, words);
    window_of(l, c, bind, words, w.size, &w);
    return w;
}

bool wf_lower_reaches(const wf_lowering *l, const wf_group_code *c, int32_t out_node, int bind)
{
    return point_window(l, c, out_node, bind).size <= l->caps->max_binding_bytes;
}

/* Elements before byte `offset`, where a window begins; the planes of block types are those of its section. */
static int64_t elements_before(const wf_lowering *l, const wf_group_code *c, int bind, uint64_t offset, int32_t *words)
{
    const wf_kbind *b = &c->kir.bind[bind];
    if (!weft_dtype_is_quantised((weft_dtype)b->dtype))
        return (int64_t)(offset * 8 / (uint64_t)element_bits((weft_dtype)b->dtype));
    const wf_cnode *n = &l->s->g.nodes[c->src[bind]];
    int64_t index = (int64_t)(offset / wf_quant_section_offset(n->dtype, n->section_blocks, 1));
    wf_planes at = wf_quant_planar_offsets(n->dtype, wf_quant_section_count(n->numel / weft_dtype_block(n->dtype), n->section_blocks, index));
    words[b->plane_slot] = (int32_t)at.scales;
    words[b->plane_slot + 1] = (int32_t)at.minima;
    return index * n->section_blocks * weft_dtype_block(n->dtype);
}

bool wf_lower_window(const wf_lowering *l, const wf_group_code *c, int32_t out_node, const wf_box *box, int32_t *words,
                     wf_window *windows)
{
    const wf_kir *k = &c->kir;
    box_words(c, box, words);
    for (int b = 0; b < k->n_bind; b++) {
        uint64_t whole = wf_lower_value_bytes(l, c->src[b], out_node);
        windows[b] = (wf_window){0, whole};
        if (c->part[b].size) {
            windows[b] = (wf_window){c->part[b].offset, c->part[b].size};
            continue;
        }
        bool known = is_big(l, c, out_node, b) && window_of(l, c, b, words, whole, &windows[b]);
        if (windows[b].size > held_by(l, k, b))
            return false;
        if (!known)
            continue;
        int64_t start = elements_before(l, c, b, windows[b].offset, words);
        for (int i = 0; i < k->n_instr; i++) /* a moved word serves one access: see wf_kb.unshared */
            if (is_access(&k->instr[i], b))
                words[offset_word(k, k->instr[i].a)] -= (int32_t)start;
    }
    return true;
}

uint64_t wf_lower_excess(const wf_lowering *l, const wf_group_code *c, int32_t out_node, const wf_box *box)
{
    const wf_kir *k = &c->kir;
    int32_t words[WF_STATIC_WORDS_MAX];
    uint64_t excess = 0;
    box_words(c, box, words);
    for (int b = 0; b < k->n_bind; b++) {
        wf_window w = {0, wf_lower_value_bytes(l, c->src[b], out_node)};
        if (c->part[b].size)
            continue;
        if (is_big(l, c, out_node, b))
            window_of(l, c, b, words, w.size, &w);
        excess += w.size > held_by(l, k, b) ? w.size - held_by(l, k, b) : 0;
    }
    return excess;
}

bool wf_lower_chunk(const wf_lowering *l, wf_group_code *c, int32_t out_node, int bind)
{
    wf_kir *k = &c->kir;
    wf_window w = point_window(l, c, out_node, bind);
    uint64_t limit = wf_lower_limit(l), whole = wf_lower_value_bytes(l, c->src[bind], out_node);
    uint64_t n = (w.size + (w.size < whole ? WF_BIND_ALIGN : 0) + limit - 1) / limit; /* other points begin elsewhere in a unit of offsets */
    int total = wf_kir_total_bind(k) + (int)WF_MIN(n, 1000) - 1;
    if ((weft_dtype_is_quantised((weft_dtype)k->bind[bind].dtype) && l->s->g.nodes[c->src[bind]].section_blocks) || k->bind[bind].access != WF_ACCESS_READ || total > (int)WF_MIN(l->caps->max_storage_buffers, WF_MAX_BIND) ||
        k->n_static == WF_STATIC_WORDS_MAX)
        return false;
    k->bind[bind].chunks = (uint8_t)n;
    k->bind[bind].chunk_slot = k->n_static;
    c->statics[k->n_static++] = (int32_t)(limit / 4);
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
