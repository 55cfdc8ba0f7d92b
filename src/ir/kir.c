/* kir.c - the tables of the kernel IR and its verifier.
 *
 * The verifier is the gate for kernels that come from outside (a peer, a cache file): after it, an
 * emitter or interpreter may index bindings, static words, stages and operands without checks. It
 * proves structure and types, not element indices: those are values.
 */
#include "kir.h"

const char *const wf_kop_name[WF_KOP_COUNT] = {
#define X(id, name, n) [WF_KOP_##id] = name,
    WF_KOPS(X)
#undef X
};
const uint8_t wf_kop_operands[WF_KOP_COUNT] = {
#define X(id, name, n) [WF_KOP_##id] = n,
    WF_KOPS(X)
#undef X
};

/* The block of one dispatch is 1024 bytes (WF_STATIC_MAX_BYTES): 256 words. */
enum { MAX_STATIC_WORDS = 256 };

wf_kty wf_kty_of_dtype(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_DTYPE_I32:
    case WEFT_DTYPE_I8: return WF_KTY_I32;
    case WEFT_DTYPE_U32:
    case WEFT_DTYPE_U8: return WF_KTY_U32;
    case WEFT_DTYPE_BOOL: return WF_KTY_BOOL;
    case WEFT_DTYPE_F64: return WF_KTY_F64;
    case WEFT_DTYPE_I64: return WF_KTY_I64;
    default: return WF_KTY_F32;
    }
}

/* ---- sets of compute types ---- */

#define TY(id) (1u << WF_KTY_##id)
#define TY_FLOAT (TY(F32) | TY(F64))
#define TY_INT (TY(I32) | TY(U32) | TY(I64))
#define TY_NUMBER (TY_FLOAT | TY_INT)
#define TY_WORD (TY(F32) | TY(I32) | TY(U32))
#define TY_ANY (TY_NUMBER | TY(BOOL))

typedef enum operand_rule {
    SAME,    /* operands have the result's type */
    INDEX,   /* operand a is an I32 index */
    FREE,    /* operand a may have any type of `operand_types` */
    COMPARE, /* operands share a type; the result is BOOL */
    CHOOSE,  /* a is BOOL, b and c have the result's type */
    STORED   /* a is an I32 index, b has the result's type */
} operand_rule;

typedef struct op_rule {
    uint8_t types;         /* allowed result types */
    uint8_t operand_types; /* FREE and COMPARE: allowed operand types */
    uint8_t operands;      /* operand_rule */
} op_rule;

static const op_rule rules[WF_KOP_COUNT] = {
    [WF_KOP_CONST] = {TY_ANY, 0, SAME},
    [WF_KOP_STATIC] = {TY_WORD, 0, SAME},
    [WF_KOP_STEP] = {TY_WORD, 0, SAME},
    [WF_KOP_AXIS] = {TY(I32), 0, SAME},
    [WF_KOP_AFFINE] = {TY(I32), 0, SAME},
    [WF_KOP_UNRAVEL] = {TY(I32), 0, INDEX},
    [WF_KOP_LOAD] = {TY_ANY, 0, INDEX},
    [WF_KOP_ACC] = {TY_ANY, 0, SAME},
    [WF_KOP_IN] = {TY(F32), 0, SAME},
    [WF_KOP_STORE] = {TY_ANY, 0, STORED},
    [WF_KOP_CHECK] = {TY(I32), 0, INDEX},
    [WF_KOP_CAST] = {TY_ANY, TY_ANY, FREE},
    [WF_KOP_ROUND16] = {TY(F32), 0, SAME},
    [WF_KOP_BITCAST] = {TY_WORD, TY_WORD, FREE},
    [WF_KOP_ADD] = {TY_NUMBER, 0, SAME},
    [WF_KOP_SUB] = {TY_NUMBER, 0, SAME},
    [WF_KOP_MUL] = {TY_NUMBER, 0, SAME},
    [WF_KOP_DIV] = {TY_NUMBER, 0, SAME},
    [WF_KOP_MOD] = {TY_NUMBER, 0, SAME},
    [WF_KOP_POW] = {TY_FLOAT, 0, SAME},
    [WF_KOP_MAX] = {TY_ANY, 0, SAME},
    [WF_KOP_MIN] = {TY_ANY, 0, SAME},
    [WF_KOP_MULHI] = {TY(U32), 0, SAME},
    [WF_KOP_AND] = {TY_INT | TY(BOOL), 0, SAME},
    [WF_KOP_OR] = {TY_INT | TY(BOOL), 0, SAME},
    [WF_KOP_XOR] = {TY_INT | TY(BOOL), 0, SAME},
    [WF_KOP_SHL] = {TY_INT, 0, SAME},
    [WF_KOP_SHR] = {TY_INT, 0, SAME},
    [WF_KOP_EQ] = {TY(BOOL), TY_ANY, COMPARE},
    [WF_KOP_NE] = {TY(BOOL), TY_ANY, COMPARE},
    [WF_KOP_LT] = {TY(BOOL), TY_ANY, COMPARE},
    [WF_KOP_LE] = {TY(BOOL), TY_ANY, COMPARE},
    [WF_KOP_GT] = {TY(BOOL), TY_ANY, COMPARE},
    [WF_KOP_GE] = {TY(BOOL), TY_ANY, COMPARE},
    [WF_KOP_NEG] = {TY_NUMBER, 0, SAME},
    [WF_KOP_ABS] = {TY_NUMBER, 0, SAME},
    [WF_KOP_NOT] = {TY_INT | TY(BOOL), 0, SAME},
    [WF_KOP_EXP] = {TY_FLOAT, 0, SAME},
    [WF_KOP_LOG] = {TY_FLOAT, 0, SAME},
    [WF_KOP_SQRT] = {TY_FLOAT, 0, SAME},
    [WF_KOP_RSQRT] = {TY_FLOAT, 0, SAME},
    [WF_KOP_SIN] = {TY_FLOAT, 0, SAME},
    [WF_KOP_COS] = {TY_FLOAT, 0, SAME},
    [WF_KOP_TANH] = {TY_FLOAT, 0, SAME},
    [WF_KOP_ERF] = {TY_FLOAT, 0, SAME},
    [WF_KOP_FLOOR] = {TY_FLOAT, 0, SAME},
    [WF_KOP_SELECT] = {TY_ANY, 0, CHOOSE},
    [WF_KOP_FMA] = {TY_NUMBER, 0, SAME},
    [WF_KOP_LIBM] = {TY(F64), 0, SAME},
};

/* ---- the verifier ---- */

#define BAD(...) wf_fail(WEFT_E_FORMAT, "kernel: " __VA_ARGS__)

static int n_axes(const wf_kir *k) { return k->n_outer + k->n_inner; }
static bool is_block_type(unsigned dtype) { return weft_dtype_is_quantised((weft_dtype)dtype); }

/* Static words first .. first+count-1 exist. */
static bool has_words(const wf_kir *k, uint64_t first, uint64_t count)
{
    return first <= k->n_static && count <= k->n_static - first;
}

static weft_status check_header(const wf_kir *k)
{
    if (n_axes(k) > WF_KIR_MAX_AXES)
        return BAD("%d axes, at most %d", n_axes(k), WF_KIR_MAX_AXES);
    if (k->n_bind > WF_KIR_MAX_BIND || wf_kir_total_bind(k) > WF_KIR_MAX_BIND) /* the total reads bind[] */
        return BAD("more than %d bindings", WF_KIR_MAX_BIND);
    if (k->n_stages < 1 || k->n_stages > WF_KIR_MAX_STAGES)
        return BAD("%d stages, expected 1 to %d", k->n_stages, WF_KIR_MAX_STAGES);
    if (k->n_instr < 1 || k->n_instr > WF_KIR_MAX_INSTR)
        return BAD("%d instructions, expected 1 to %d", k->n_instr, WF_KIR_MAX_INSTR);
    if (k->n_static > MAX_STATIC_WORDS)
        return BAD("%d static words, at most %d", k->n_static, MAX_STATIC_WORDS);
    if (!has_words(k, k->extent_slot, (uint64_t)n_axes(k)))
        return BAD("extents of %d axes at word %d, %d words", n_axes(k), k->extent_slot, k->n_static);
    if (k->strategy > WF_KSTRAT_LANES || k->has_error > 1)
        return BAD("strategy %d, has_error %d", k->strategy, k->has_error);
    if (k->vec > 4 || k->vec == 3)
        return BAD("vec is %d, expected 1, 2 or 4", k->vec);
    if (k->vec > 1 && (k->n_inner != 0 || k->n_outer == 0))
        return BAD("vec %d in a kernel that is not elementwise", k->vec);
    return WEFT_OK;
}

static weft_status check_bindings(const wf_kir *k)
{
    for (int i = 0; i < k->n_bind; i++) {
        const wf_kbind *b = &k->bind[i];
        if (b->dtype >= WEFT_DTYPE_COUNT)
            return BAD("binding %d: dtype %d", i, b->dtype);
        if (b->access < WF_ACCESS_READ || b->access > WF_ACCESS_READ_WRITE)
            return BAD("binding %d: access %d", i, b->access);
        if (b->layout > WF_LAYOUT_PLANAR || b->linear > 1 || b->wide > 1)
            return BAD("binding %d: layout %d, linear %d, wide %d", i, b->layout, b->linear, b->wide);
        if (b->chunks > 1 && (!has_words(k, b->chunk_slot, 1) || b->wide || b->access != WF_ACCESS_READ))
            return BAD("binding %d: %d chunks at word %d, %d words", i, b->chunks, b->chunk_slot, k->n_static);
        if (!is_block_type(b->dtype))
            continue;
        if (b->access != WF_ACCESS_READ)
            return BAD("binding %d: %s is read only", i, weft_dtype_name((weft_dtype)b->dtype));
        if (b->layout == WF_LAYOUT_PLANAR && !has_words(k, b->plane_slot, 2))
            return BAD("binding %d: planes at word %d, %d words", i, b->plane_slot, k->n_static);
    }
    return WEFT_OK;
}

/* Operand `v` of instruction `at` in stage `s` exists, comes earlier and is visible. */
static bool is_visible(const wf_kir *k, int s, int at, int v)
{
    if (v < 0 || v >= at || k->instr[v].op == WF_KOP_STORE)
        return false;
    if (v >= k->stages[s].first)
        return true;
    for (int t = 0; t < s; t++) {
        const wf_kstage *stage = &k->stages[t];
        if (v >= stage->first && v < stage->first + stage->count)
            return stage->kind == WF_KSTAGE_OUTER;
    }
    return false;
}

static weft_status check_operand_types(const wf_kir *k, int at)
{
    const wf_kinstr *in = &k->instr[at];
    const op_rule *rule = &rules[in->op];
    int n = wf_kop_operands[in->op];
    unsigned a = n > 0 ? k->instr[in->a].type : 0, b = n > 1 ? k->instr[in->b].type : 0;
    unsigned c = n > 2 ? k->instr[in->c].type : 0;
    bool ok = true;
    switch ((operand_rule)rule->operands) {
    case SAME: ok = (n < 1 || a == in->type) && (n < 2 || b == in->type) && (n < 3 || c == in->type); break;
    case INDEX: ok = a == WF_KTY_I32; break;
    case FREE: ok = rule->operand_types >> a & 1; break;
    case COMPARE: ok = a == b && (rule->operand_types >> a & 1); break;
    case CHOOSE: ok = a == WF_KTY_BOOL && b == in->type && c == in->type; break;
    case STORED: ok = a == WF_KTY_I32 && b == in->type; break;
    }
    return ok ? WEFT_OK : BAD("instruction %d (%s): operand types", at, wf_kop_name[in->op]);
}

static weft_status check_acc(const wf_kir *k, int s, int at)
{
    const wf_kinstr *in = &k->instr[at];
    if (in->slot >= s || k->stages[in->slot].kind != WF_KSTAGE_REDUCE)
        return BAD("instruction %d (acc): stage %d is no earlier reduce stage", at, in->slot);
    if (in->imm >= k->stages[in->slot].n_acc)
        return BAD("instruction %d (acc): accumulator %llu of %d", at, (unsigned long long)in->imm,
                   k->stages[in->slot].n_acc);
    const wf_kacc *acc = &k->stages[in->slot].acc[in->imm];
    bool arg = acc->rop == WF_KROP_ARGMAX || acc->rop == WF_KROP_ARGMIN;
    if (in->type != (arg ? WF_KTY_I32 : acc->type))
        return BAD("instruction %d (acc): type %d", at, in->type);
    return WEFT_OK;
}

static weft_status check_access(const wf_kir *k, int s, int at)
{
    const wf_kinstr *in = &k->instr[at];
    bool store = in->op == WF_KOP_STORE;
    if (in->slot >= k->n_bind)
        return BAD("instruction %d (%s): binding %d of %d", at, wf_kop_name[in->op], in->slot, k->n_bind);
    const wf_kbind *b = &k->bind[in->slot];
    if (!(b->access & (store ? WF_ACCESS_WRITE : WF_ACCESS_READ)))
        return BAD("instruction %d (%s): access %d of binding %d", at, wf_kop_name[in->op], b->access, in->slot);
    if (store && k->stages[s].kind == WF_KSTAGE_REDUCE)
        return BAD("instruction %d: store in a reduce stage", at);
    if (!store && in->type != wf_kty_of_dtype((weft_dtype)b->dtype))
        return BAD("instruction %d (load): type %d for %s", at, in->type, weft_dtype_name((weft_dtype)b->dtype));
    return WEFT_OK;
}

static weft_status check_slot(const wf_kir *k, int s, int at)
{
    const wf_kinstr *in = &k->instr[at];
    bool ok = true;
    switch (in->op) {
    case WF_KOP_STATIC:
    case WF_KOP_STEP: ok = has_words(k, in->slot, 1); break;
    case WF_KOP_CHECK: ok = in->imm <= 1 && has_words(k, in->slot, 1); break;
    case WF_KOP_AXIS: ok = in->slot < n_axes(k); break;
    case WF_KOP_AFFINE: ok = has_words(k, in->slot, 1 + (uint64_t)n_axes(k)); break;
    case WF_KOP_UNRAVEL: ok = in->imm <= WF_KIR_MAX_AXES && has_words(k, in->slot, 2 * in->imm + 1); break;
    case WF_KOP_ROUND16: ok = in->imm == WEFT_DTYPE_F16 || in->imm == WEFT_DTYPE_BF16; break;
    case WF_KOP_LIBM: ok = in->imm < WF_LIBM_COUNT; break;
    case WF_KOP_IN: ok = k->n_inner == 0 && k->n_outer == 3; break;
    case WF_KOP_LOAD:
    case WF_KOP_STORE: return check_access(k, s, at);
    case WF_KOP_ACC: return check_acc(k, s, at);
    default: break;
    }
    if (!ok)
        return BAD("instruction %d (%s): slot %d, imm %llu", at, wf_kop_name[in->op], in->slot,
                   (unsigned long long)in->imm);
    if (in->op == WF_KOP_CHECK && !k->has_error)
        return BAD("instruction %d (check): the kernel has no error word", at);
    return WEFT_OK;
}

static weft_status check_instruction(const wf_kir *k, int s, int at)
{
    const wf_kinstr *in = &k->instr[at];
    if (in->op >= WF_KOP_COUNT)
        return BAD("instruction %d: operation %d", at, in->op);
    if (in->type >= WF_KTY_COUNT || !(rules[in->op].types >> in->type & 1))
        return BAD("instruction %d (%s): type %d", at, wf_kop_name[in->op], in->type);
    const int16_t operand[3] = {in->a, in->b, in->c};
    for (int i = 0; i < wf_kop_operands[in->op]; i++)
        if (!is_visible(k, s, at, operand[i]))
            return BAD("instruction %d (%s): operand %d is value %d", at, wf_kop_name[in->op], i, operand[i]);
    WF_TRY(check_operand_types(k, at));
    return check_slot(k, s, at);
}

static weft_status check_accumulators(const wf_kir *k, int s)
{
    const wf_kstage *stage = &k->stages[s];
    if (stage->n_acc > WF_KIR_MAX_ACC || (stage->n_acc > 0) != (stage->kind == WF_KSTAGE_REDUCE))
        return BAD("stage %d: %d accumulators", s, stage->n_acc);
    for (int i = 0; i < stage->n_acc; i++) {
        const wf_kacc *acc = &stage->acc[i];
        if (acc->rop > WF_KROP_ARGMIN || acc->type >= WF_KTY_COUNT)
            return BAD("stage %d: accumulator %d: operation %d, type %d", s, i, acc->rop, acc->type);
        if (acc->type == WF_KTY_BOOL && (acc->rop == WF_KROP_SUM || acc->rop == WF_KROP_PROD))
            return BAD("stage %d: accumulator %d: sum of booleans", s, i);
        if (!is_visible(k, s, stage->first + stage->count, acc->value) || k->instr[acc->value].type != acc->type)
            return BAD("stage %d: accumulator %d folds value %d", s, i, acc->value);
    }
    return WEFT_OK;
}

weft_status wf_kir_verify(const wf_kir *k)
{
    WF_TRY(check_header(k));
    WF_TRY(check_bindings(k));
    int next = 0;
    for (int s = 0; s < k->n_stages; s++) {
        const wf_kstage *stage = &k->stages[s];
        if (stage->kind > WF_KSTAGE_MAP || stage->first != next || stage->count > k->n_instr - next)
            return BAD("stage %d: kind %d, instructions %d+%d of %d", s, stage->kind, stage->first, stage->count,
                       k->n_instr);
        if (k->vec > 1 && stage->kind != WF_KSTAGE_OUTER)
            return BAD("stage %d: vec %d in a kernel that is not elementwise", s, k->vec);
        for (int i = stage->first; i < stage->first + stage->count; i++)
            WF_TRY(check_instruction(k, s, i));
        WF_TRY(check_accumulators(k, s));
        next += stage->count;
    }
    if (next != k->n_instr)
        return BAD("stages hold %d of %d instructions", next, k->n_instr);
    return WEFT_OK;
}
