/* wgsl_expr.c - one IR instruction to one WGSL statement.
 *
 * An operation is a row: a pattern in which $a $b $c stand for the operands and $T for the result
 * type. Patterns of operators work on vectors as they are; the others are written out lane by lane.
 */
#include "wgsl_gen.h"

#include <inttypes.h>
#include <stdio.h>

static const char lane_name[] = "xyzw";

typedef struct pattern {
    uint8_t op;
    uint8_t types;    /* set of 1 << kty: of the result; for comparisons, of the operands */
    bool by_lane;
    const char *text;
} pattern;

#define F (1u << WF_KTY_F32)
#define I (1u << WF_KTY_I32)
#define U (1u << WF_KTY_U32)
#define B (1u << WF_KTY_BOOL)

static const pattern patterns[] = {
    {WF_KOP_ADD, F | I | U, false, "$a + $b"},
    {WF_KOP_SUB, F, true, "$a + bitcast<f32>(bitcast<u32>($b) ^ 0x80000000u)"}, /* a driver takes x - x for 0, infinity too */
    {WF_KOP_SUB, I | U, false, "$a - $b"},
    {WF_KOP_MUL, F | I | U, false, "$a * $b"},
    {WF_KOP_DIV, F, true, "wf_div($a, $b)"},
    {WF_KOP_DIV, I, true, "wf_idiv($a, $b)"},
    {WF_KOP_DIV, U, true, "wf_udiv($a, $b)"},
    {WF_KOP_MOD, F, true, "wf_fmod($a, $b)"},
    {WF_KOP_MOD, I, true, "wf_imod($a, $b)"},
    {WF_KOP_MOD, U, true, "wf_umod($a, $b)"},
    {WF_KOP_POW, F, true, "wf_pow($a, $b)"},
    {WF_KOP_MAX, F, true, "wf_max($a, $b)"},
    {WF_KOP_MAX, I | U, false, "max($a, $b)"},
    {WF_KOP_MAX, B, false, "$a | $b"},
    {WF_KOP_MIN, F, true, "wf_min($a, $b)"},
    {WF_KOP_MIN, I | U, false, "min($a, $b)"},
    {WF_KOP_MIN, B, false, "$a & $b"},
    {WF_KOP_MULHI, U, true, "wf_mulhi($a, $b)"},
    {WF_KOP_AND, I | U | B, false, "$a & $b"},
    {WF_KOP_OR, I | U | B, false, "$a | $b"},
    {WF_KOP_XOR, I | U, false, "$a ^ $b"},
    {WF_KOP_XOR, B, false, "$a != $b"},
    {WF_KOP_SHL, I | U, true, "$a << (u32($b) & 31u)"},
    {WF_KOP_SHR, I | U, true, "$a >> (u32($b) & 31u)"},
    {WF_KOP_EQ, F, true, "wf_eq($a, $b)"},
    {WF_KOP_EQ, I | U | B, false, "$a == $b"},
    {WF_KOP_NE, F, true, "!wf_eq($a, $b)"},
    {WF_KOP_NE, I | U | B, false, "$a != $b"},
    {WF_KOP_LT, F, true, "wf_lt($a, $b)"},
    {WF_KOP_LT, I | U, false, "$a < $b"},
    {WF_KOP_LT, B, true, "!$a && $b"},
    {WF_KOP_LE, F, true, "wf_le($a, $b)"},
    {WF_KOP_LE, I | U, false, "$a <= $b"},
    {WF_KOP_LE, B, true, "!$a || $b"},
    {WF_KOP_GT, F, true, "wf_lt($b, $a)"},
    {WF_KOP_GT, I | U, false, "$a > $b"},
    {WF_KOP_GT, B, true, "$a && !$b"},
    {WF_KOP_GE, F, true, "wf_le($b, $a)"},
    {WF_KOP_GE, I | U, false, "$a >= $b"},
    {WF_KOP_GE, B, true, "$a || !$b"},
    {WF_KOP_NEG, F, true, "bitcast<f32>(bitcast<u32>($a) ^ 0x80000000u)"}, /* drivers flush subnormals in -x and abs */
    {WF_KOP_NEG, I, false, "-$a"},
    {WF_KOP_NEG, U, true, "0u - $a"},
    {WF_KOP_ABS, F, true, "bitcast<f32>(bitcast<u32>($a) & 0x7fffffffu)"},
    {WF_KOP_ABS, I, false, "abs($a)"},
    {WF_KOP_ABS, U, false, "$a"},
    {WF_KOP_NOT, B, false, "!$a"},
    {WF_KOP_NOT, I | U, false, "~$a"},
    {WF_KOP_EXP, F, true, "wf_exp($a)"},
    {WF_KOP_LOG, F, true, "wf_log($a)"},
    {WF_KOP_SQRT, F, true, "wf_sqrt($a)"},
    {WF_KOP_RSQRT, F, true, "wf_rsqrt($a)"},
    {WF_KOP_SIN, F, true, "wf_sin($a)"},
    {WF_KOP_COS, F, true, "wf_cos($a)"},
    {WF_KOP_TANH, F, true, "wf_tanh($a)"},
    {WF_KOP_ERF, F, true, "wf_erf($a)"},
    {WF_KOP_FLOOR, F, true, "wf_floor($a)"},
    {WF_KOP_SELECT, F | I | U | B, false, "select($c, $b, $a)"},
    {WF_KOP_FMA, F, false, "fma($a, $b, $c)"},
    {WF_KOP_FMA, I | U, false, "$a * $b + $c"},
    {WF_KOP_BITCAST, F | I | U, false, "bitcast<$T>($a)"},
};

/* From row to column, in the order F32, I32, U32, BOOL. */
static const struct { const char *text; bool by_lane; } casts[4][4] = {
    {{"$a", false}, {"wf_f2i($a)", true}, {"wf_f2u($a)", true}, {"(bitcast<u32>($a) & 0x7fffffffu) != 0u", true}},
    {{"$T($a)", false}, {"$a", false}, {"$T($a)", false}, {"$a != 0i", true}},
    {{"$T($a)", false}, {"$T($a)", false}, {"$a", false}, {"$a != 0u", true}},
    {{"select(0.0f, 1.0f, $a)", true}, {"select(0i, 1i, $a)", true}, {"select(0u, 1u, $a)", true}, {"$a", false}},
};

/* ---- text ---- */

const char *wf_wgsl_type(wf_kty type)
{
    static const char *const name[WF_KTY_COUNT] = {"f32", "i32", "u32", "bool", "f64", "i64"};
    return name[type];
}

void wf_wgsl_type_n(wf_kty type, int width, wf_str *out)
{
    if (width == 1)
        wf_str_add(out, wf_wgsl_type(type));
    else
        wf_str_addf(out, "vec%d<%s>", width, wf_wgsl_type(type));
}

const char *wf_wgsl_word(const wf_wgsl_gen *g, uint32_t slot, char buf[32])
{
    uint32_t word = g->static_base + slot;
    snprintf(buf, 32, "P[%u].%c", word / 4, lane_name[word % 4]);
    return buf;
}

/* A float literal that reads back as the same bits; infinity, NaN and subnormals go through a function
 * because constant expressions may not hold them, and the largest float because 9 digits exceed it. */
static void float_literal(uint32_t bits, wf_str *out)
{
    uint32_t mag = bits & 0x7fffffffu;
    char text[40];
    float f;
    if (mag >= 0x7f7fffffu || (mag > 0 && mag < 0x800000u) || bits == 0x80000000u) {
        wf_str_addf(out, "wf_bits(0x%08xu)", bits);
        return;
    }
    memcpy(&f, &bits, sizeof f);
    snprintf(text, sizeof text, "%.9g", (double)f);
    for (char *p = text; *p; p++) /* the decimal point of the caller's locale may be a comma */
        if (!strchr("0123456789+-e", *p))
            *p = '.';
    wf_str_addf(out, "%sf", text);
}

void wf_wgsl_literal(wf_kty type, uint64_t bits, wf_str *out)
{
    uint32_t u = (uint32_t)bits;
    switch (type) {
    case WF_KTY_F32: float_literal(u, out); break;
    case WF_KTY_I32:
        if (u == 0x80000000u)
            wf_str_add(out, "(-2147483647i - 1i)");
        else
            wf_str_addf(out, "%" PRId32 "i", (int32_t)u);
        break;
    case WF_KTY_BOOL: wf_str_add(out, u ? "true" : "false"); break;
    default: wf_str_addf(out, "%" PRIu32 "u", u); break;
    }
}

/* `text` with its operands put in; `lane` 0 for all lanes, else a component letter. */
static void expand_lane(const char *text, const char *const operand[3], wf_kty type, int width, char lane, wf_str *out)
{
    for (const char *p = text; *p; p++) {
        if (*p != '$') {
            wf_str_addn(out, p, 1);
            continue;
        }
        p++;
        if (*p == 'T') {
            wf_wgsl_type_n(type, lane ? 1 : width, out);
            continue;
        }
        wf_str_add(out, operand[*p - 'a']);
        if (lane) {
            char suffix[3] = {'.', lane, 0};
            wf_str_add(out, suffix);
        }
    }
}

static void expand(const char *text, bool by_lane, const char *const operand[3], wf_kty type, int width, wf_str *out)
{
    if (!by_lane || width == 1) {
        expand_lane(text, operand, type, width, 0, out);
        return;
    }
    wf_wgsl_type_n(type, width, out);
    wf_str_add(out, "(");
    for (int i = 0; i < width; i++) {
        wf_str_add(out, i ? ", " : "");
        expand_lane(text, operand, type, width, lane_name[i], out);
    }
    wf_str_add(out, ")");
}

void wf_wgsl_emit_cast(wf_kty from, wf_kty to, int width, const char *value, wf_str *out)
{
    const char *const operand[3] = {value, "", ""};
    expand(casts[from][to].text, casts[from][to].by_lane, operand, to, width, out);
}

/* ---- index expressions ---- */

/* The coordinate of an axis; 0 for inner axes of an OUTER stage. */
static bool has_coordinate(const wf_wgsl_gen *g, int axis)
{
    return axis < g->k->n_outer || g->k->stages[g->stage].kind != WF_KSTAGE_OUTER;
}

static void emit_affine(const wf_wgsl_gen *g, const wf_kinstr *in)
{
    char word[32];
    int n = g->k->n_outer + g->k->n_inner;
    if (g->width > 1)
        wf_str_addf(g->out, "vec%d<i32>(", g->width);
    wf_str_add(g->out, wf_wgsl_word(g, in->slot, word));
    for (int axis = 0; axis < n; axis++)
        if (has_coordinate(g, axis))
            wf_str_addf(g->out, " + c%d * %s", axis, wf_wgsl_word(g, in->slot + 1u + (uint32_t)axis, word));
    if (g->width > 1)
        wf_str_addf(g->out, ") + lanes * %s", wf_wgsl_word(g, in->slot + (uint32_t)g->k->n_outer, word));
}

static void emit_axis(const wf_wgsl_gen *g, const wf_kinstr *in)
{
    char name[16] = "0i";
    if (has_coordinate(g, in->slot))
        snprintf(name, sizeof name, "c%d", in->slot);
    if (g->width == 1)
        wf_str_add(g->out, name);
    else
        wf_str_addf(g->out, "vec%d<i32>(%s)%s", g->width, name, in->slot == g->k->n_outer - 1 ? " + lanes" : "");
}

/* fn unravelN(i) for instruction N: the strided position of a row-major index. */
static void emit_unravel_function(const wf_wgsl_gen *g, int at)
{
    const wf_kinstr *in = &g->k->instr[at];
    uint32_t n = (uint32_t)in->imm;
    char extent[32], stride[32];
    wf_str_addf(g->out, "fn unravel%d(i: i32) -> i32 {\n    var t = u32(i);\n    var at = %s;\n", at,
                wf_wgsl_word(g, in->slot + n, extent));
    for (uint32_t axis = n; axis-- > 0;) {
        wf_wgsl_word(g, in->slot + axis, extent);
        wf_wgsl_word(g, in->slot + n + 1 + axis, stride);
        if (axis == 0)
            wf_str_addf(g->out, "    at += i32(t) * %s;\n", stride);
        else
            wf_str_addf(g->out, "    at += i32(t %% u32(%s)) * %s;\n    t = t / u32(%s);\n", extent, stride, extent);
    }
    wf_str_add(g->out, "    return at;\n}\n");
}

void wf_wgsl_emit_functions(const wf_wgsl_gen *g)
{
    bool has_check = false;
    unsigned word = g->bind_base + g->k->n_bind;
    for (int i = 0; i < g->k->n_instr; i++) {
        if (g->k->instr[i].op == WF_KOP_UNRAVEL)
            emit_unravel_function(g, i);
        has_check |= g->k->instr[i].op == WF_KOP_CHECK;
    }
    if (has_check)
        wf_str_addf(g->out,
                    "fn check_index(i: i32, n: i32, wrap: i32) -> i32 {\n"
                    "    let j = select(i, i + wrap, i < 0);\n"
                    "    if (j >= 0 && j < n) { return j; }\n"
                    "    if (atomicOr(&b%u[%d], 1u) == 0u) {\n"
                    "        atomicStore(&b%u[%d], bitcast<u32>(i));\n"
                    "        atomicStore(&b%u[%d], u32(n));\n"
                    "    }\n"
                    "    return 0;\n"
                    "}\n",
                    word, WF_ERROR_SET, word, WF_ERROR_INDEX, word, WF_ERROR_EXTENT);
}

/* ---- sources ---- */

/* Mesa folds x * 0.0 to 0.0, also for an infinite x: a zero that is multiplied is hidden from it. */
static bool is_hidden_zero(const wf_wgsl_gen *g, int at)
{
    const wf_kinstr *in = &g->k->instr[at];
    if (in->op != WF_KOP_CONST || g->form == WF_WGSL_EPILOGUE || in->type != WF_KTY_F32 || ((uint32_t)in->imm & 0x7fffffffu) != 0)
        return false;
    for (int i = at + 1; i < g->k->n_instr; i++) {
        const wf_kinstr *use = &g->k->instr[i];
        if ((use->op == WF_KOP_MUL || use->op == WF_KOP_FMA) && (use->a == at || use->b == at))
            return true;
    }
    return false;
}

bool wf_wgsl_hides_zero(const wf_wgsl_gen *g)
{
    for (int i = 0; i < g->k->n_instr; i++)
        if (is_hidden_zero(g, i))
            return true;
    return false;
}

static void emit_const(const wf_wgsl_gen *g, int at)
{
    const wf_kinstr *in = &g->k->instr[at];
    if (g->width > 1) {
        wf_wgsl_type_n((wf_kty)in->type, g->width, g->out);
        wf_str_add(g->out, "(");
    }
    if (is_hidden_zero(g, at))
        wf_str_add(g->out, (uint32_t)in->imm ? "-zero" : "zero");
    else
        wf_wgsl_literal((wf_kty)in->type, in->imm, g->out);
    wf_str_add(g->out, g->width > 1 ? ")" : "");
}

/* A parameter word as this instruction's type. */
static void emit_word(const wf_wgsl_gen *g, const wf_kinstr *in)
{
    char word[32];
    bool step = in->op == WF_KOP_STEP;
    bool convert = in->type != (step ? WF_KTY_U32 : WF_KTY_I32);
    if (g->width > 1)
        wf_str_addf(g->out, "vec%d<%s>(", g->width, wf_wgsl_type((wf_kty)in->type));
    if (convert)
        wf_str_addf(g->out, "bitcast<%s>(", wf_wgsl_type((wf_kty)in->type));
    wf_str_addf(g->out, step ? "step(%s)" : "%s", wf_wgsl_word(g, in->slot, word));
    wf_str_add(g->out, convert ? ")" : "");
    wf_str_add(g->out, g->width > 1 ? ")" : "");
}

static void emit_load(const wf_wgsl_gen *g, const wf_kinstr *in, const char *index)
{
    char call[24];
    unsigned bind = g->bind_base + in->slot;
    if (wf_wgsl_loads_wide(g, in)) {
        wf_str_addf(g->out, "ldw%u(%s.x)", bind, index);
        return;
    }
    snprintf(call, sizeof call, "ld%u($a)", bind);
    const char *const operand[3] = {index, "", ""};
    expand(call, true, operand, (wf_kty)in->type, g->width, g->out);
}

static void emit_check(const wf_wgsl_gen *g, const wf_kinstr *in, const char *index)
{
    char word[32], call[96];
    const char *const operand[3] = {index, "", ""};
    wf_wgsl_word(g, in->slot, word);
    snprintf(call, sizeof call, "check_index($a, %s, %s)", word, in->imm ? "0" : word);
    expand(call, true, operand, WF_KTY_I32, g->width, g->out);
}

static void emit_unravel(const wf_wgsl_gen *g, int at, const char *index)
{
    char call[32];
    const char *const operand[3] = {index, "", ""};
    snprintf(call, sizeof call, "unravel%d($a)", at);
    expand(call, true, operand, WF_KTY_I32, g->width, g->out);
}

/* ---- any instruction but STORE ---- */

static void emit_pattern(const wf_wgsl_gen *g, const wf_kinstr *in, const char *const operand[3])
{
    bool compare = in->op >= WF_KOP_EQ && in->op <= WF_KOP_GE;
    unsigned type = compare ? g->k->instr[in->a].type : in->type;
    for (size_t i = 0; i < WF_COUNT(patterns); i++)
        if (patterns[i].op == in->op && (patterns[i].types >> type & 1)) {
            expand(patterns[i].text, patterns[i].by_lane, operand, (wf_kty)in->type, g->width, g->out);
            return;
        }
}

void wf_wgsl_emit_instr(const wf_wgsl_gen *g, int at, const char *indent)
{
    const wf_kinstr *in = &g->k->instr[at];
    char name[3][16] = {"", "", ""};
    const char *const operand[3] = {name[0], name[1], name[2]};
    const int16_t value[3] = {in->a, in->b, in->c};
    for (int i = 0; i < wf_kop_operands[in->op]; i++)
        snprintf(name[i], sizeof name[i], "v%d", value[i]);
    wf_str_addf(g->out, "%slet v%d = ", indent, at);
    switch (in->op) {
    case WF_KOP_CONST: emit_const(g, at); break;
    case WF_KOP_STATIC:
    case WF_KOP_STEP: emit_word(g, in); break;
    case WF_KOP_AXIS: emit_axis(g, in); break;
    case WF_KOP_AFFINE: emit_affine(g, in); break;
    case WF_KOP_UNRAVEL: emit_unravel(g, at, name[0]); break;
    case WF_KOP_LOAD: emit_load(g, in, name[0]); break;
    case WF_KOP_ACC: {
        unsigned rop = g->k->stages[in->slot].acc[in->imm].rop;
        bool arg = rop == WF_KROP_ARGMAX || rop == WF_KROP_ARGMIN;
        wf_str_addf(g->out, "a%d_%d%s", in->slot, (int)in->imm, arg ? "_at" : "");
        break;
    }
    case WF_KOP_IN: wf_str_add(g->out, "acc"); break;
    case WF_KOP_CHECK: emit_check(g, in, name[0]); break;
    case WF_KOP_CAST:
        wf_wgsl_emit_cast((wf_kty)g->k->instr[in->a].type, (wf_kty)in->type, g->width, name[0], g->out);
        break;
    case WF_KOP_ROUND16:
        expand(in->imm == WEFT_DTYPE_F16 ? "wf_f16_to_f32(wf_f32_to_f16($a))" : "wf_bf16_to_f32(wf_f32_to_bf16($a))",
               true, operand, WF_KTY_F32, g->width, g->out);
        break;
    default: emit_pattern(g, in, operand); break;
    }
    wf_str_add(g->out, ";\n");
}
