/* emit.c - values of nodes as instructions: leaves load, inlined nodes recurse.
 *
 * An input is reached through its view. As long as the view keeps to the axes of the producer (permute,
 * slice, flip, expand and their compositions), the producer's coordinates are affine in the loop and no
 * division is needed; that is proved here, extent by extent, and what cannot be proved (a reshape that
 * splits or joins axes across a stride) goes through a row-major index and UNRAVEL. Recursion stays
 * inside one group, whose size the fuser bounds.
 */
#include "emit.h"
#include "emit_math.h"

#define MAX_DEPTH 600

static int fail(wf_emit *e, weft_status st)
{
    if (e->b.status == WEFT_OK)
        e->b.status = st;
    return -1;
}

/* ---- positions ---- */

wf_pos wf_pos_axes(const wf_cnode *n, int axis)
{
    wf_pos p = {.affine = true};
    for (int d = 0; d < n->rank; d++)
        p.coord[d].stride[axis + d] = 1;
    return p;
}

static void contiguous_strides(const wf_cnode *n, int64_t *s)
{
    int64_t step = 1;
    for (int d = n->rank - 1; d >= 0; d--) {
        s[d] = step;
        step *= n->shape[d];
    }
}

bool wf_pos_linear(const wf_cnode *n, const wf_pos *pos, wf_affine *lin)
{
    if (!pos->affine)
        return false;
    int64_t s[WEFT_MAX_RANK];
    contiguous_strides(n, s);
    memset(lin, 0, sizeof *lin);
    for (int d = 0; d < n->rank; d++) {
        lin->offset += s[d] * pos->coord[d].offset;
        for (int k = 0; k < WF_KIR_MAX_AXES; k++)
            lin->stride[k] += s[d] * pos->coord[d].stride[k];
    }
    return true;
}

int wf_pos_linear_value(wf_emit *e, const wf_cnode *n, const wf_pos *pos)
{
    wf_affine lin;
    return wf_pos_linear(n, pos, &lin) ? wf_kb_affine(&e->b, &lin) : pos->lin;
}

/* Split an affine row-major index into coordinates; true when every coordinate provably stays inside its
 * axis for all loop points, which makes the split exact. */
static bool decompose(const wf_emit *e, const wf_cnode *n, const wf_affine *lin, wf_pos *out)
{
    int64_t s[WEFT_MAX_RANK];
    contiguous_strides(n, s);
    memset(out, 0, sizeof *out);
    out->affine = true;
    int64_t rest = lin->offset;
    if (rest < 0)
        return false;
    for (int d = 0; d < n->rank; d++) {
        out->coord[d].offset = rest / s[d];
        rest %= s[d];
    }
    int n_axes = e->b.n_outer + e->b.n_inner;
    for (int k = 0; k < n_axes; k++) {
        int64_t left = e->b.extent[k] > 1 ? lin->stride[k] : 0;
        for (int d = 0; d < n->rank && left != 0; d++) {
            if (n->shape[d] == 1)
                continue;
            out->coord[d].stride[k] += left / s[d];
            left %= s[d];
        }
        if (left != 0)
            return false;
    }
    for (int d = 0; d < n->rank; d++) {
        int64_t lo = out->coord[d].offset, hi = lo;
        for (int k = 0; k < n_axes; k++) {
            int64_t move = e->b.extent[k] > 1 ? out->coord[d].stride[k] * (e->b.extent[k] - 1) : 0;
            lo += move < 0 ? move : 0;
            hi += move > 0 ? move : 0;
        }
        if (lo < 0 || hi >= n->shape[d])
            return false;
    }
    return true;
}

wf_pos wf_pos_of_affine(wf_emit *e, const wf_cnode *n, const wf_affine *lin)
{
    wf_pos p;
    if (decompose(e, n, lin, &p))
        return p;
    return (wf_pos){.affine = false, .lin = wf_kb_affine(&e->b, lin)};
}

/* ---- reaching an input ---- */

/* Element index of the view `v` at position `pos` of node n: affine, or an instruction. */
static bool through_view(wf_emit *e, const wf_cnode *n, const wf_view *v, const wf_pos *pos, wf_affine *lin, int *index)
{
    if (pos->affine) {
        memset(lin, 0, sizeof *lin);
        lin->offset = v->offset;
        for (int d = 0; d < v->rank; d++) {
            lin->offset += v->strides[d] * pos->coord[d].offset;
            for (int k = 0; k < WF_KIR_MAX_AXES; k++)
                lin->stride[k] += v->strides[d] * pos->coord[d].stride[k];
        }
        return true;
    }
    if (wf_view_is_contiguous(v) && v->offset == 0 && !e->b.unshared)
        *index = pos->lin;
    else
        *index = wf_kb_unravel(&e->b, pos->lin, n->rank, n->shape, v->offset, v->strides);
    return false;
}

static int load(wf_emit *e, int32_t p, const wf_affine *lin, int index)
{
    const wf_cnode *n = &e->g->nodes[p];
    bool windowed = lin && e->g->window_bytes && wf_dtype_bytes(n->dtype, n->numel) > e->g->window_bytes;
    int bind = windowed ? wf_kb_bind_apart(&e->b, p, n->dtype, WF_ACCESS_READ, n->layout)
                        : wf_kb_bind(&e->b, p, n->dtype, WF_ACCESS_READ, n->layout);
    if (!lin && n->numel > INT32_MAX)
        return fail(e, wf_fail(WEFT_E_UNSUPPORTED, "codegen: computed indices reach 2^31 elements, the operand has %lld", (long long)n->numel));
    if (lin)
        index = wf_kb_affine(&e->b, lin);
    if (index < 0)
        return -1;
    return wf_kb_imm(&e->b, WF_KOP_LOAD, wf_kty_of_dtype(n->dtype), index, bind, 0);
}

static bool in_memory(const wf_emit *e, int32_t p)
{
    const wf_cnode *n = &e->g->nodes[p];
    return p != e->root && p != e->anchor && n->materialised;
}

static int scalar_value(wf_emit *e, const wf_cnode *n)
{
    return wf_kb_step(&e->b, wf_kty_of_dtype(n->dtype), n->step_word);
}

int wf_emit_at(wf_emit *e, int32_t p, int index)
{
    if (index < 0)
        return -1;
    if (e->g->nodes[p].kind == WF_CK_SCALAR)
        return scalar_value(e, &e->g->nodes[p]);
    if (in_memory(e, p))
        return load(e, p, NULL, index);
    wf_pos pos = {.affine = false, .lin = index};
    return wf_emit_value(e, p, &pos);
}

int wf_emit_input(wf_emit *e, int32_t n, int i, const wf_pos *pos)
{
    const wf_cnode *node = &e->g->nodes[n];
    int32_t p = node->src[i];
    const wf_cnode *producer = &e->g->nodes[p];
    wf_affine lin;
    int index = -1;
    if (producer->kind == WF_CK_SCALAR)
        return scalar_value(e, producer);
    bool affine = through_view(e, node, &node->in[i].view, pos, &lin, &index);
    if (!affine && index < 0)
        return -1;
    if (in_memory(e, p))
        return load(e, p, affine ? &lin : NULL, index);
    wf_pos at = affine ? wf_pos_of_affine(e, producer, &lin) : (wf_pos){.affine = false, .lin = index};
    return wf_emit_value(e, p, &at);
}

/* ---- elementwise ---- */

typedef struct simple_op {
    uint16_t op;
    uint8_t kop;
} simple_op;

static const simple_op simple_ops[] = {
    {WF_OP_ADD, WF_KOP_ADD}, {WF_OP_SUB, WF_KOP_SUB}, {WF_OP_MUL, WF_KOP_MUL}, {WF_OP_DIV, WF_KOP_DIV},
    {WF_OP_POW, WF_KOP_POW}, {WF_OP_MAXIMUM, WF_KOP_MAX}, {WF_OP_MINIMUM, WF_KOP_MIN}, {WF_OP_EQ, WF_KOP_EQ},
    {WF_OP_NE, WF_KOP_NE}, {WF_OP_LT, WF_KOP_LT}, {WF_OP_LE, WF_KOP_LE}, {WF_OP_GT, WF_KOP_GT},
    {WF_OP_GE, WF_KOP_GE}, {WF_OP_NEG, WF_KOP_NEG}, {WF_OP_ABS, WF_KOP_ABS}, {WF_OP_EXP, WF_KOP_EXP},
    {WF_OP_LOG, WF_KOP_LOG}, {WF_OP_SQRT, WF_KOP_SQRT}, {WF_OP_RSQRT, WF_KOP_RSQRT}, {WF_OP_SIN, WF_KOP_SIN},
    {WF_OP_COS, WF_KOP_COS}, {WF_OP_TANH, WF_KOP_TANH}, {WF_OP_ERF, WF_KOP_ERF}, {WF_OP_FLOOR, WF_KOP_FLOOR},
};

static int one(wf_kb *b, wf_kop op, wf_kty t, int x)
{
    return wf_kb_op(b, op, t, x, -1, -1);
}

static int two(wf_kb *b, wf_kop op, wf_kty t, int x, int y)
{
    return wf_kb_op(b, op, t, x, y, -1);
}

/* scale / (1 + e^-x), or scale e^x / (1 + e^x) for negative x, where e^-x could overflow. scale -1: 1. */
static int logistic(wf_kb *b, wf_kty t, int x, int scale)
{
    int unit = wf_kb_const(b, t, 1.0), e = one(b, WF_KOP_EXP, t, one(b, WF_KOP_NEG, t, one(b, WF_KOP_ABS, t, x)));
    int negative = two(b, WF_KOP_LT, WF_KTY_BOOL, x, wf_kb_const(b, t, 0.0));
    int top = wf_kb_op(b, WF_KOP_SELECT, t, negative, e, unit);
    return two(b, WF_KOP_DIV, t, scale >= 0 ? two(b, WF_KOP_MUL, t, scale, top) : top, two(b, WF_KOP_ADD, t, e, unit));
}

/* x/2 * (1 + y) */
static int half_gate(wf_kb *b, wf_kty t, int x, int y)
{
    int gate = two(b, WF_KOP_ADD, t, y, wf_kb_const(b, t, 1.0));
    return two(b, WF_KOP_MUL, t, two(b, WF_KOP_MUL, t, x, wf_kb_const(b, t, 0.5)), gate);
}

int wf_emit_activation(wf_kb *b, weft_activation act, wf_kty t, int x)
{
    switch (act) {
    case WEFT_ACT_RELU:
        return two(b, WF_KOP_MAX, t, x, wf_kb_const(b, t, 0.0));
    case WEFT_ACT_SIGMOID:
        return logistic(b, t, x, -1);
    case WEFT_ACT_SILU:
        return logistic(b, t, x, x);
    case WEFT_ACT_GELU:
        return half_gate(b, t, x, one(b, WF_KOP_ERF, t, two(b, WF_KOP_MUL, t, x, wf_kb_const(b, t, 0.70710678118654752440))));
    case WEFT_ACT_GELU_TANH: {
        int cube = two(b, WF_KOP_MUL, t, two(b, WF_KOP_MUL, t, x, x), x);
        int inner = two(b, WF_KOP_ADD, t, x, two(b, WF_KOP_MUL, t, cube, wf_kb_const(b, t, 0.044715)));
        int scaled = two(b, WF_KOP_MUL, t, inner, wf_kb_const(b, t, 0.79788456080286535588)); /* sqrt(2 / pi) */
        return half_gate(b, t, x, one(b, WF_KOP_TANH, t, scaled));
    }
    default:
        return x;
    }
}

/* Arithmetic of 8-bit integers wraps at 8 bits. */
static int wrap8(wf_kb *b, weft_dtype dtype, int v)
{
    if (dtype == WEFT_DTYPE_U8)
        return two(b, WF_KOP_AND, WF_KTY_U32, v, wf_kb_static(b, WF_KTY_U32, 255));
    if (dtype != WEFT_DTYPE_I8)
        return v;
    int sh = wf_kb_static(b, WF_KTY_I32, 24);
    return two(b, WF_KOP_SHR, WF_KTY_I32, two(b, WF_KOP_SHL, WF_KTY_I32, v, sh), sh);
}

/* f64 to f32 towards zero, with the last bit set where something was lost ("round to odd"): rounding that to 16 bits gives what
 * one rounding would (Boldo and Melquiond, Emulation of a FMA and correctly rounded sums, 2008). */
static int narrow_to_odd(wf_kb *b, int x)
{
    int y = one(b, WF_KOP_CAST, WF_KTY_F32, x), back = one(b, WF_KOP_CAST, WF_KTY_F64, y);
    int past = two(b, WF_KOP_GT, WF_KTY_BOOL, one(b, WF_KOP_ABS, WF_KTY_F64, back), one(b, WF_KOP_ABS, WF_KTY_F64, x));
    int bits = one(b, WF_KOP_BITCAST, WF_KTY_I32, y), unit = wf_kb_static(b, WF_KTY_I32, 1);
    int below = wf_kb_op(b, WF_KOP_SELECT, WF_KTY_I32, past, two(b, WF_KOP_SUB, WF_KTY_I32, bits, unit), bits);
    int lost = two(b, WF_KOP_NE, WF_KTY_BOOL, back, x);
    return one(b, WF_KOP_BITCAST, WF_KTY_F32, wf_kb_op(b, WF_KOP_SELECT, WF_KTY_I32, lost, two(b, WF_KOP_OR, WF_KTY_I32, below, unit), bits));
}

static int emit_cast(wf_emit *e, const wf_cnode *n, weft_dtype from, int v)
{
    wf_kb *b = &e->b;
    wf_kty to = wf_kty_of_dtype(n->dtype);
    bool narrow = n->dtype == WEFT_DTYPE_I8 || n->dtype == WEFT_DTYPE_U8;
    if (from == n->dtype)
        return v;
    if (narrow && weft_dtype_is_float(from)) {
        /* Saturate in i32, which holds both ranges, then change the type. */
        bool is_signed = n->dtype == WEFT_DTYPE_I8;
        v = one(b, WF_KOP_CAST, WF_KTY_I32, v);
        v = two(b, WF_KOP_MAX, WF_KTY_I32, v, wf_kb_static(b, WF_KTY_I32, is_signed ? -128 : 0));
        v = two(b, WF_KOP_MIN, WF_KTY_I32, v, wf_kb_static(b, WF_KTY_I32, is_signed ? 127 : 255));
        return is_signed ? v : one(b, WF_KOP_CAST, WF_KTY_U32, v);
    }
    bool half = n->dtype == WEFT_DTYPE_F16 || n->dtype == WEFT_DTYPE_BF16;
    if (half && from == WEFT_DTYPE_F64)
        v = narrow_to_odd(b, v);
    else if (wf_kty_of_dtype(from) != to)
        v = one(b, WF_KOP_CAST, to, v);
    if (narrow)
        return wrap8(b, n->dtype, v);
    return half ? wf_kb_imm(b, WF_KOP_ROUND16, WF_KTY_F32, v, 0, n->dtype) : v;
}

static int emit_elementwise(wf_emit *e, int32_t id, const wf_pos *pos)
{
    const wf_cnode *n = &e->g->nodes[id];
    wf_kb *b = &e->b;
    wf_kty t = wf_kty_of_dtype(n->dtype);
    int v[3] = {-1, -1, -1};
    for (int i = 0; i < n->n_in; i++)
        if ((v[i] = wf_emit_input(e, id, i, pos)) < 0)
            return -1;
    weft_dtype in_dtype = e->g->nodes[n->src[0]].dtype;
    switch (n->op) {
    case WF_OP_COPY:
        return v[0];
    case WF_OP_CAST:
        return emit_cast(e, n, in_dtype, v[0]);
    case WF_OP_POW:
        for (int i = 0; i < 2; i++) { /* a driver can take minutes over the power of a literal */
            const wf_kinstr *in = &b->code->kir.instr[v[i]];
            if (in->op == WF_KOP_CONST && in->type == WF_KTY_F32)
                v[i] = wf_kb_static(b, WF_KTY_F32, (int32_t)(uint32_t)in->imm);
        }
        break;
    case WF_OP_WHERE:
        return wf_kb_op(b, WF_KOP_SELECT, t, v[0], v[1], v[2]);
    case WF_OP_SIGMOID:
        return wf_emit_activation(b, WEFT_ACT_SIGMOID, t, v[0]);
    case WF_OP_SILU:
        return wf_emit_activation(b, WEFT_ACT_SILU, t, v[0]);
    case WF_OP_GELU:
        return wf_emit_activation(b, WEFT_ACT_GELU, t, v[0]);
    case WF_OP_GELU_TANH:
        return wf_emit_activation(b, WEFT_ACT_GELU_TANH, t, v[0]);
    case WF_OP_RELU:
        return wf_emit_activation(b, WEFT_ACT_RELU, t, v[0]);
    default:
        break;
    }
    if (wf_emits_math((wf_op)n->op))
        return wrap8(b, n->dtype, wf_emit_math(b, (wf_op)n->op, wf_kty_of_dtype(in_dtype), n->dtype, v));
    for (size_t i = 0; i < WF_COUNT(simple_ops); i++) {
        if (simple_ops[i].op != n->op)
            continue;
        bool compare = simple_ops[i].kop >= WF_KOP_EQ && simple_ops[i].kop <= WF_KOP_GE;
        if (t == WF_KTY_BOOL && (!compare || wf_kty_of_dtype(in_dtype) == WF_KTY_BOOL)) {
            /* bool arithmetic and ordering: through i32 */
            for (int j = 0; j < n->n_in; j++)
                v[j] = one(b, WF_KOP_CAST, WF_KTY_I32, v[j]);
            int r = wf_kb_op(b, simple_ops[i].kop, compare ? WF_KTY_BOOL : WF_KTY_I32, v[0], v[1], -1);
            return compare ? r : one(b, WF_KOP_CAST, WF_KTY_BOOL, r);
        }
        return wrap8(b, n->dtype, wf_kb_op(b, simple_ops[i].kop, t, v[0], v[1], -1));
    }
    return fail(e, wf_fail(WEFT_E_INTERNAL, "codegen: %s is not elementwise", wf_op_table[n->op].name));
}

/* ---- each value once ---- */

/* A node that several paths reach is emitted at the first; without this a chain x = f(x, x) would take
 * time exponential in its length. Slots are taken, never freed: a full table only costs time. */
#define MEMO_SLOTS 1024
typedef struct wf_emit_memo {
    wf_hash128 key;
    int value; /* instruction + 1; 0: free */
} wf_emit_memo;

static wf_hash128 memo_key(const wf_emit *e, int32_t id, const wf_pos *pos)
{
    int64_t words[4 + WEFT_MAX_RANK * (1 + WF_KIR_MAX_AXES)];
    int n = 0, n_axes = e->b.n_outer + e->b.n_inner;
    words[n++] = id;
    words[n++] = e->b.stage;
    words[n++] = pos->affine;
    words[n++] = pos->affine ? 0 : pos->lin;
    for (int d = 0; pos->affine && d < e->g->nodes[id].rank; d++) {
        words[n++] = pos->coord[d].offset;
        for (int k = 0; k < n_axes; k++)
            words[n++] = e->b.extent[k] > 1 ? pos->coord[d].stride[k] : 0;
    }
    return wf_hash(words, sizeof *words * (size_t)n, 3);
}

static wf_emit_memo *memo_find(wf_emit *e, wf_hash128 key)
{
    if (!e->memo)
        e->memo = wf_arena_alloc(e->g->arena, sizeof *e->memo * MEMO_SLOTS);
    for (size_t i = 0; e->memo && i < MEMO_SLOTS; i++) {
        wf_emit_memo *m = &e->memo[(key.lo + i) % MEMO_SLOTS];
        if (!m->value || (m->key.lo == key.lo && m->key.hi == key.hi))
            return m;
    }
    return NULL;
}

int wf_emit_value(wf_emit *e, int32_t id, const wf_pos *pos)
{
    const wf_cnode *n = &e->g->nodes[id];
    int v;
    if (e->b.status != WEFT_OK)
        return -1;
    if (id == e->anchor)
        return e->anchor_value;
    for (int i = 0; i < e->n_rows; i++)
        if (id == e->row[i])
            return e->row_value[i];
    if (n->kind == WF_CK_SCALAR)
        return scalar_value(e, n);
    if (n->op == WF_OP_FULL)
        return wf_kb_const(&e->b, wf_kty_of_dtype(n->dtype), n->attrs.constant.value);
    wf_hash128 key = memo_key(e, id, pos);
    const wf_emit_memo *known = memo_find(e, key);
    if (known && known->value)
        return known->value - 1;
    if (e->depth++ > MAX_DEPTH)
        return fail(e, wf_fail(WEFT_E_UNSUPPORTED, "codegen: a group nests deeper than %d", MAX_DEPTH));
    switch (wf_op_table[n->op].klass) {
    case WF_CLASS_ELEMENTWISE:
        v = emit_elementwise(e, id, pos);
        break;
    case WF_CLASS_INDEXED:
        v = wf_emit_indexed(e, id, pos);
        break;
    default:
        v = fail(e, wf_fail(WEFT_E_INTERNAL, "codegen: %s cannot be inlined", wf_op_table[n->op].name));
    }
    e->depth--;
    wf_emit_memo *m = v >= 0 ? memo_find(e, key) : NULL;
    if (m)
        *m = (wf_emit_memo){key, v + 1};
    return v;
}
