/* lower_parts.c - a table that is larger than all bindings of a kernel, read at computed indices.
 *
 * The kernel runs once for each part of the table that a binding holds. It takes the elements whose index lies in that
 * part and gives the others what the result held before, so that after the last part every element has had its turn.
 * Parts of block types are the sections of their storage.
 */
#include "lower.h"
#include "quant.h"

/* An instruction before number `at`, in the kernel's only stage; -1 when there is no room. */
static int insert(wf_kir *k, int at, wf_kinstr in)
{
    if (at < 0 || k->n_instr == WF_KIR_MAX_INSTR)
        return -1;
    memmove(&k->instr[at + 1], &k->instr[at], sizeof in * (size_t)(k->n_instr - at));
    k->instr[at] = in;
    k->n_instr++;
    k->stages[0].count++;
    for (int i = at + 1; i < k->n_instr; i++) {
        wf_kinstr *j = &k->instr[i];
        j->a = (int16_t)(j->a + (j->a >= at));
        j->b = (int16_t)(j->b + (j->b >= at));
        j->c = (int16_t)(j->c + (j->c >= at));
    }
    return at;
}

static wf_kinstr instr(wf_kop op, wf_kty type, int a, int b, int c)
{
    return (wf_kinstr){.op = (uint8_t)op, .type = (uint8_t)type, .a = (int16_t)a, .b = (int16_t)b, .c = (int16_t)c};
}

static wf_kinstr word(wf_kty type, int slot)
{
    wf_kinstr in = instr(WF_KOP_STATIC, type, -1, -1, -1);
    in.slot = (uint16_t)slot;
    return in;
}

/* The only instruction of a kind on a binding, -1: none or several. */
static int only(const wf_kir *k, wf_kop op, int bind)
{
    int found = -1;
    for (int i = 0; i < k->n_instr; i++)
        if (k->instr[i].op == op && (bind < 0 || k->instr[i].slot == bind)) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

enum { FIRST, COUNT, ZERO, N_WORDS };

bool wf_lower_take_parts(const wf_lowering *l, wf_group_code *c, int bind, wf_parts *out)
{
    wf_kir *k = &c->kir;
    const int n_axes = k->n_outer + k->n_inner;
    int load = only(k, WF_KOP_LOAD, bind), store = only(k, WF_KOP_STORE, -1);
    if (k->n_stages != 1 || k->n_inner || load < 0 || store < load || k->instr[k->instr[store].a].op != WF_KOP_AFFINE ||
        k->bind[bind].access != WF_ACCESS_READ || k->n_static + N_WORDS + 1 + n_axes > WF_STATIC_WORDS_MAX || k->n_instr + 12 > WF_KIR_MAX_INSTR)
        return false;
    const wf_cnode *n = &l->s->g.nodes[c->src[bind]];
    bool quantised = weft_dtype_is_quantised(n->dtype);
    if (quantised && !n->section_blocks)
        return false;
    out->bind = bind;
    out->slot = k->n_static;
    out->numel = n->numel;
    out->section_blocks = n->section_blocks;
    out->dtype = n->dtype;
    out->len = quantised ? n->section_blocks * weft_dtype_block(n->dtype) : (int64_t)(wf_lower_limit(l) / weft_dtype_block_bytes(n->dtype));
    k->n_static += N_WORDS;
    c->statics[out->slot + ZERO] = 0;

    /* at = first <= index < first + count ? index - first : 0 */
    int at = load, index = k->instr[load].a;
    int first = insert(k, at++, word(WF_KTY_I32, out->slot + FIRST));
    int away = insert(k, at++, instr(WF_KOP_SUB, WF_KTY_I32, index, first, -1));
    int bits = insert(k, at++, instr(WF_KOP_BITCAST, WF_KTY_U32, away, -1, -1));
    int count = insert(k, at++, word(WF_KTY_U32, out->slot + COUNT));
    int inside = insert(k, at++, instr(WF_KOP_LT, WF_KTY_BOOL, bits, count, -1));
    int zero = insert(k, at++, word(WF_KTY_I32, out->slot + ZERO));
    int taken = insert(k, at++, instr(WF_KOP_SELECT, WF_KTY_I32, inside, away, zero));
    k->instr[at].a = (int16_t)taken;
    store += 7;

    /* what was there, at an index of its own: each access of a window is moved apart */
    int dst = k->instr[store].slot, value = k->instr[store].b;
    const wf_kinstr *place = &k->instr[k->instr[store].a];
    wf_kty type = wf_kty_of_dtype((weft_dtype)k->bind[dst].dtype);
    wf_kinstr again = *place;
    again.slot = k->n_static;
    memcpy(&c->statics[k->n_static], &c->statics[place->slot], sizeof(int32_t) * (size_t)(1 + n_axes));
    k->n_static = (uint16_t)(k->n_static + 1 + n_axes);
    at = store;
    int lies = insert(k, at++, again);
    wf_kinstr read = instr(WF_KOP_LOAD, type, lies, -1, -1);
    read.slot = (uint16_t)dst;
    int old = insert(k, at++, read);
    if (k->instr[value].type != type)
        value = insert(k, at++, instr(WF_KOP_CAST, type, value, -1, -1));
    int kept = insert(k, at++, instr(WF_KOP_SELECT, type, inside, value, old));
    k->instr[at].b = (int16_t)kept;
    k->instr[at].type = (uint8_t)type;
    k->bind[dst].access = WF_ACCESS_READ_WRITE;
    k->bind[dst].linear = 0;
    return true;
}

int64_t wf_lower_n_parts(const wf_parts *p)
{
    return (p->numel + p->len - 1) / p->len;
}

void wf_lower_part(const wf_parts *p, wf_group_code *c, int64_t i)
{
    int64_t count = WF_MIN(p->len, p->numel - i * p->len);
    c->statics[p->slot + FIRST] = (int32_t)(i * p->len);
    c->statics[p->slot + COUNT] = (int32_t)count;
    if (!weft_dtype_is_quantised(p->dtype)) {
        uint64_t bytes = weft_dtype_block_bytes(p->dtype);
        c->part[p->bind].offset = (uint64_t)(i * p->len) * bytes;
        c->part[p->bind].size = wf_align_up((uint64_t)count * bytes, 4);
        return;
    }
    int64_t blocks = wf_quant_section_count(p->numel / weft_dtype_block(p->dtype), p->section_blocks, i);
    wf_planes at = wf_quant_planar_offsets(p->dtype, blocks);
    c->part[p->bind].offset = wf_quant_section_offset(p->dtype, p->section_blocks, i);
    c->part[p->bind].size = at.bytes;
    c->statics[c->kir.bind[p->bind].plane_slot] = (int32_t)at.scales;
    c->statics[c->kir.bind[p->bind].plane_slot + 1] = (int32_t)at.minima;
}
