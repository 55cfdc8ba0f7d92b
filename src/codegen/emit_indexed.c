/* emit_indexed.c - elementwise ops that compute where they read: iota, tri, index_select, gather and
 * rope. Updates and concatenations are roots of their own: see lower_kir.c.
 */
#include "emit.h"

static int one(wf_kb *b, wf_kop op, wf_kty t, int x)
{
    return wf_kb_op(b, op, t, x, -1, -1);
}

static int two(wf_kb *b, wf_kop op, wf_kty t, int x, int y)
{
    return wf_kb_op(b, op, t, x, y, -1);
}

static int i32(wf_kb *b, int64_t word)
{
    return wf_kb_static(b, WF_KTY_I32, (int32_t)word);
}

int wf_emit_coord(wf_emit *e, const wf_cnode *n, const wf_pos *pos, int axis)
{
    if (pos->affine)
        return wf_kb_affine(&e->b, &pos->coord[axis]);
    int64_t unit[WEFT_MAX_RANK] = {0};
    unit[axis] = 1;
    return wf_kb_unravel(&e->b, pos->lin, n->rank, n->shape, 0, unit);
}

int wf_emit_view_index(wf_emit *e, const wf_cnode *n, const wf_view *v, const wf_pos *pos, int axis, int dyn)
{
    wf_kb *b = &e->b;
    int64_t strides[WEFT_MAX_RANK];
    for (int d = 0; d < v->rank; d++)
        strides[d] = d == axis ? 0 : v->strides[d];
    int base;
    if (pos->affine) {
        wf_affine lin = {.offset = v->offset};
        for (int d = 0; d < v->rank; d++) {
            lin.offset += strides[d] * pos->coord[d].offset;
            for (int k = 0; k < WF_KIR_MAX_AXES; k++)
                lin.stride[k] += strides[d] * pos->coord[d].stride[k];
        }
        base = wf_kb_affine(b, &lin);
    } else {
        base = wf_kb_unravel(b, pos->lin, n->rank, n->shape, v->offset, strides);
    }
    if (axis < 0 || base < 0 || dyn < 0)
        return axis < 0 ? base : base < 0 ? base : dyn;
    return two(b, WF_KOP_ADD, WF_KTY_I32, base, two(b, WF_KOP_MUL, WF_KTY_I32, dyn, i32(b, v->strides[axis])));
}

int wf_emit_bounded(wf_kb *b, int v, int64_t extent)
{
    return two(b, WF_KOP_MAX, WF_KTY_I32, two(b, WF_KOP_MIN, WF_KTY_I32, v, i32(b, extent - 1)), i32(b, 0));
}

/* An index checked against an extent. Scalars were checked on the host; they only wrap. */
static int checked_index(wf_emit *e, int32_t n, int input, const wf_pos *at, int64_t extent)
{
    wf_kb *b = &e->b;
    const wf_cnode *index = &e->g->nodes[e->g->nodes[n].src[input]];
    int v;
    if (index->kind == WF_CK_SCALAR) {
        v = wf_kb_step(b, WF_KTY_I32, index->step_word);
        int wrapped = two(b, WF_KOP_ADD, WF_KTY_I32, v, i32(b, extent));
        v = wf_kb_op(b, WF_KOP_SELECT, WF_KTY_I32, two(b, WF_KOP_LT, WF_KTY_BOOL, v, i32(b, 0)), wrapped, v);
        return b->unshared ? wf_emit_bounded(b, v, extent) : v;
    }
    v = wf_emit_input(e, n, input, at);
    return v < 0 ? v : wf_kb_check(b, v, extent, e->g->nodes[n].attrs.index.strict != 0);
}

/* out[pre.., idx.., post..] = x[pre.., index[idx..], post..] */
static int emit_index_select(wf_emit *e, int32_t id, const wf_pos *pos)
{
    const wf_cnode *n = &e->g->nodes[id];
    const wf_view *xv = &n->in[0].view, *iv = &n->in[1].view;
    int axis = n->attrs.index.axis, ir = iv->rank;
    wf_pos ipos = {.affine = pos->affine}, xpos = {.affine = pos->affine};
    int64_t istrides[WEFT_MAX_RANK] = {0}, xstrides[WEFT_MAX_RANK] = {0};
    for (int d = 0; d < n->rank; d++) {
        bool in_index = d >= axis && d < axis + ir;
        int xd = d < axis ? d : d - ir + 1;
        if (in_index) {
            ipos.coord[d - axis] = pos->coord[d];
            istrides[d] = iv->strides[d - axis];
        } else {
            xpos.coord[xd] = pos->coord[d];
            xstrides[d] = xv->strides[xd];
        }
    }
    int v, base;
    if (pos->affine) {
        v = checked_index(e, id, 1, &ipos, xv->shape[axis]);
        base = wf_emit_view_index(e, n, xv, &xpos, axis, v);
        return wf_emit_at(e, n->src[0], base);
    }
    /* Row-major position: both bases by UNRAVEL over the output's shape. */
    const wf_cnode *index = &e->g->nodes[n->src[1]];
    if (index->kind == WF_CK_SCALAR) {
        v = checked_index(e, id, 1, pos, xv->shape[axis]);
    } else {
        int at = wf_kb_unravel(&e->b, pos->lin, n->rank, n->shape, iv->offset, istrides);
        v = wf_emit_at(e, n->src[1], at);
        v = v < 0 ? v : wf_kb_check(&e->b, v, xv->shape[axis], n->attrs.index.strict != 0);
    }
    base = wf_kb_unravel(&e->b, pos->lin, n->rank, n->shape, xv->offset, xstrides);
    if (v < 0 || base < 0)
        return -1;
    base = two(&e->b, WF_KOP_ADD, WF_KTY_I32, base, two(&e->b, WF_KOP_MUL, WF_KTY_I32, v, i32(&e->b, xv->strides[axis])));
    return wf_emit_at(e, n->src[0], base);
}

/* out[.., i, ..] = x[.., index[.., i, ..], ..] */
static int emit_gather(wf_emit *e, int32_t id, const wf_pos *pos)
{
    const wf_cnode *n = &e->g->nodes[id];
    const wf_view *xv = &n->in[0].view;
    int axis = n->attrs.index.axis;
    int v = wf_emit_input(e, id, 1, pos);
    if (v < 0)
        return -1;
    v = wf_kb_check(&e->b, v, xv->shape[axis], false);
    return wf_emit_at(e, n->src[0], wf_emit_view_index(e, n, xv, pos, axis, v));
}

/* Turns of the pair at an integer position, in 0.32 fixed point: the high word of position * freq, where
 * freq is 0.64 fixed point. Exact modulo one turn, so position 2^20 is as good as position 1. */
static int integer_phase(wf_kb *b, int p, int hi, int lo)
{
    int neg = two(b, WF_KOP_LT, WF_KTY_BOOL, p, i32(b, 0));
    int mag = one(b, WF_KOP_BITCAST, WF_KTY_U32, one(b, WF_KOP_ABS, WF_KTY_I32, p));
    int turns = two(b, WF_KOP_ADD, WF_KTY_U32, two(b, WF_KOP_MUL, WF_KTY_U32, mag, hi), two(b, WF_KOP_MULHI, WF_KTY_U32, mag, lo));
    int zero = wf_kb_static(b, WF_KTY_U32, 0);
    return wf_kb_op(b, WF_KOP_SELECT, WF_KTY_U32, neg, two(b, WF_KOP_SUB, WF_KTY_U32, zero, turns), turns);
}

static int rope_phase(wf_emit *e, int32_t id, const wf_pos *pos, int pair)
{
    wf_kb *b = &e->b;
    const wf_cnode *n = &e->g->nodes[id];
    int t_axis = n->rank - 2;
    int hi = wf_emit_at(e, n->src[1], two(b, WF_KOP_MUL, WF_KTY_I32, pair, i32(b, 2)));
    int lo = wf_emit_at(e, n->src[1], two(b, WF_KOP_ADD, WF_KTY_I32, two(b, WF_KOP_MUL, WF_KTY_I32, pair, i32(b, 2)), i32(b, 1)));
    int t = wf_emit_coord(e, n, pos, t_axis), p = t, frac = -1;
    int next = 2;
    if (n->attrs.rope.has_positions) {
        const wf_view *pv = &n->in[next].view;
        int at = two(b, WF_KOP_ADD, WF_KTY_I32, two(b, WF_KOP_MUL, WF_KTY_I32, t, i32(b, pv->strides[0])), i32(b, pv->offset));
        p = wf_emit_at(e, n->src[next], at);
        if (p < 0)
            return -1;
        if (e->g->nodes[n->src[next]].dtype == WEFT_DTYPE_F32) {
            int whole = one(b, WF_KOP_FLOOR, WF_KTY_F32, p);
            frac = two(b, WF_KOP_SUB, WF_KTY_F32, p, whole);
            p = one(b, WF_KOP_CAST, WF_KTY_I32, whole);
        }
        next++;
    }
    if (n->attrs.rope.has_offset) {
        wf_pos origin = {.affine = true};
        int off = wf_emit_input(e, id, next, &origin);
        p = two(b, WF_KOP_ADD, WF_KTY_I32, p, off);
    }
    if (hi < 0 || lo < 0 || p < 0)
        return -1;
    int phase = integer_phase(b, p, hi, lo);
    if (frac >= 0) {
        /* The fraction is below 1, so f32 suffices: frac * turns, as 0.32 fixed point. */
        int turns = one(b, WF_KOP_CAST, WF_KTY_F32, hi);
        int add = one(b, WF_KOP_CAST, WF_KTY_U32, two(b, WF_KOP_MUL, WF_KTY_F32, frac, turns));
        phase = two(b, WF_KOP_ADD, WF_KTY_U32, phase, add);
    }
    return phase;
}

static int emit_rope(wf_emit *e, int32_t id, const wf_pos *pos)
{
    wf_kb *b = &e->b;
    const wf_cnode *n = &e->g->nodes[id];
    const wf_view *xv = &n->in[0].view;
    wf_kty I = WF_KTY_I32, F = WF_KTY_F32; /* rope takes f32, f16 and bf16 */
    int64_t D = n->shape[n->rank - 1], dim = n->attrs.rope.dim;
    int c = wf_emit_coord(e, n, pos, n->rank - 1), partner, pair, first;
    if (n->attrs.rope.pairing == 1) {
        partner = two(b, WF_KOP_XOR, I, c, i32(b, 1));
        pair = two(b, WF_KOP_SHR, I, c, i32(b, 1));
        first = two(b, WF_KOP_LT, WF_KTY_BOOL, c, partner);
    } else {
        int64_t half = n->attrs.rope.pairing == 2 ? D / 2 : dim / 2;
        first = two(b, WF_KOP_LT, WF_KTY_BOOL, c, i32(b, half));
        partner = wf_kb_op(b, WF_KOP_SELECT, I, first, two(b, WF_KOP_ADD, I, c, i32(b, half)), two(b, WF_KOP_SUB, I, c, i32(b, half)));
        pair = wf_kb_op(b, WF_KOP_SELECT, I, first, c, partner);
    }
    bool all = dim == D;
    int turns = all ? -1 : two(b, WF_KOP_LT, WF_KTY_BOOL, pair, i32(b, dim / 2));
    if (!all) { /* held in range where nothing turns */
        pair = two(b, WF_KOP_MAX, I, two(b, WF_KOP_MIN, I, pair, i32(b, dim / 2 - 1)), i32(b, 0));
        partner = wf_kb_op(b, WF_KOP_SELECT, I, turns, partner, c);
    }
    int x = wf_emit_input(e, id, 0, pos);
    int y = wf_emit_at(e, n->src[0], wf_emit_view_index(e, n, xv, pos, n->rank - 1, partner));
    int phase = rope_phase(e, id, pos, pair);
    if (x < 0 || y < 0 || phase < 0)
        return -1;
    /* Signed turns in [-1/2, 1/2) to radians: 2 pi / 2^32. */
    int angle = one(b, WF_KOP_CAST, WF_KTY_F32, one(b, WF_KOP_BITCAST, I, phase));
    angle = two(b, WF_KOP_MUL, WF_KTY_F32, angle, wf_kb_const(b, WF_KTY_F32, 1.4629180792671596e-9));
    int cosine = one(b, WF_KOP_COS, WF_KTY_F32, angle), sine = one(b, WF_KOP_SIN, WF_KTY_F32, angle);
    sine = wf_kb_op(b, WF_KOP_SELECT, WF_KTY_F32, first, one(b, WF_KOP_NEG, WF_KTY_F32, sine), sine);
    int out = two(b, WF_KOP_ADD, F, two(b, WF_KOP_MUL, F, x, cosine), two(b, WF_KOP_MUL, F, y, sine));
    return all ? out : wf_kb_op(b, WF_KOP_SELECT, F, turns, out, x);
}

static int emit_iota(wf_emit *e, int32_t id, const wf_pos *pos)
{
    wf_kb *b = &e->b;
    const wf_cnode *n = &e->g->nodes[id];
    wf_kty t = wf_kty_of_dtype(n->dtype);
    int i = wf_pos_linear_value(e, n, pos);
    if (i < 0)
        return -1;
    if (t != WF_KTY_I32)
        i = one(b, WF_KOP_CAST, t, i);
    return two(b, WF_KOP_ADD, t, two(b, WF_KOP_MUL, t, i, wf_kb_const(b, t, n->attrs.iota.step)), wf_kb_const(b, t, n->attrs.iota.start));
}

static int emit_tri(wf_emit *e, int32_t id, const wf_pos *pos)
{
    const wf_cnode *n = &e->g->nodes[id];
    int row = wf_emit_coord(e, n, pos, 0), col = wf_emit_coord(e, n, pos, 1);
    if (row < 0 || col < 0)
        return -1;
    int64_t d = n->attrs.tri.diagonal, span = n->shape[0] + n->shape[1];
    d = d > span ? span : d < -span ? -span : d;
    return two(&e->b, WF_KOP_LE, WF_KTY_BOOL, col, two(&e->b, WF_KOP_ADD, WF_KTY_I32, row, i32(&e->b, d)));
}

int wf_emit_indexed(wf_emit *e, int32_t id, const wf_pos *pos)
{
    switch (e->g->nodes[id].op) {
    case WF_OP_IOTA:
        return emit_iota(e, id, pos);
    case WF_OP_TRI:
        return emit_tri(e, id, pos);
    case WF_OP_INDEX_SELECT:
        return emit_index_select(e, id, pos);
    case WF_OP_GATHER:
        return emit_gather(e, id, pos);
    case WF_OP_RANDOM:
        return wf_emit_random(e, id, pos);
    default:
        return emit_rope(e, id, pos);
    }
}
