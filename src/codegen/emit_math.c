/* emit_math.c - the table of functions that are sequences of instructions: F32 by emit_seq_*.c, F64 by LIBM; and those
 * that integers have too.
 */
#include "emit_math.h"

typedef struct function {
    uint16_t op;
    uint8_t libm;
    wf_sequence *f32;
} function;

static const function functions[] = {
#define ROW(id, name) {WF_OP_##id, WF_LIBM_##name, wf_seq_##name}
    ROW(ERFC, erfc),   ROW(LGAMMA, lgamma), ROW(EXPM1, expm1), ROW(LOG1P, log1p), ROW(LOG2, log2),   ROW(EXP2, exp2),
    ROW(LOG10, log10), ROW(SINH, sinh),     ROW(COSH, cosh),   ROW(TAN, tan),     ROW(ASIN, asin),   ROW(ACOS, acos),
    ROW(ATAN, atan),   ROW(ASINH, asinh),   ROW(ACOSH, acosh), ROW(ATANH, atanh), ROW(CEIL, ceil),   ROW(TRUNC, trunc),
    ROW(ATAN2, atan2), ROW(HYPOT, hypot),   ROW(COPYSIGN, copysign),
#undef ROW
    {WF_OP_ROUND, WF_LIBM_rint, wf_seq_round},
};

bool wf_emits_math(wf_op op) { return op >= WF_OP_ERFC && op <= WF_OP_RIGHT_SHIFT; }

static int one(wf_kb *b, wf_kop op, wf_kty t, int x) { return wf_kb_op(b, op, t, x, -1, -1); }
static int two(wf_kb *b, wf_kop op, wf_kty t, int x, int y) { return wf_kb_op(b, op, t, x, y, -1); }
static int pick(wf_kb *b, wf_kty t, int c, int x, int y) { return wf_kb_op(b, WF_KOP_SELECT, t, c, x, y); }

static int negative(wf_kb *b, wf_kty t, int x) { return two(b, WF_KOP_LT, WF_KTY_BOOL, x, wf_kb_const(b, t, 0.0)); }

static int sign_bit(wf_kb *b, wf_kty t, int x)
{
    if (t == WF_KTY_F32)
        return negative(b, WF_KTY_I32, one(b, WF_KOP_BITCAST, WF_KTY_I32, x));
    if (t == WF_KTY_F64) { /* -0 and NaN have a sign bit too */
        int s = wf_kb_op_imm(b, WF_KOP_LIBM, t, wf_kb_const(b, t, 1.0), x, WF_LIBM_copysign);
        return negative(b, t, s);
    }
    return negative(b, t, x);
}

/* Whether the remainder m of truncating division by y must move by y to have its sign (Python's rule). */
static int must_move(wf_kb *b, wf_kty t, int m, int y)
{
    int some = two(b, WF_KOP_NE, WF_KTY_BOOL, m, wf_kb_const(b, t, 0.0));
    int differ = two(b, WF_KOP_NE, WF_KTY_BOOL, negative(b, t, m), negative(b, t, y));
    return two(b, WF_KOP_AND, WF_KTY_BOOL, some, differ);
}

static int remainder_of(wf_kb *b, wf_kty t, int x, int y)
{
    int m = two(b, WF_KOP_MOD, t, x, y);
    return pick(b, t, must_move(b, t, m, y), two(b, WF_KOP_ADD, t, m, y), m);
}

static int floor_divide_integers(wf_kb *b, wf_kty t, int x, int y)
{
    int q = two(b, WF_KOP_DIV, t, x, y);
    int less = two(b, WF_KOP_SUB, t, q, wf_kb_const(b, t, 1.0));
    return pick(b, t, must_move(b, t, two(b, WF_KOP_MOD, t, x, y), y), less, q);
}

/* x minus its remainder is a multiple of y but for rounding, so the quotient is whole but for rounding: the nearest whole
 * number is it. A zero has the sign of the true quotient, and x / 0 is that of IEEE 754. */
static int floor_divide_floats(wf_kb *b, wf_kty t, int x, int y)
{
    int zero = wf_kb_const(b, t, 0.0), one_ = wf_kb_const(b, t, 1.0), m = two(b, WF_KOP_MOD, t, x, y);
    /* x itself where nothing remains: a GPU's x - 0 is 0 for a subnormal x. */
    int whole = pick(b, t, two(b, WF_KOP_EQ, WF_KTY_BOOL, m, zero), x, two(b, WF_KOP_SUB, t, x, m));
    int q = two(b, WF_KOP_DIV, t, whole, y), direct = two(b, WF_KOP_DIV, t, x, y);
    q = pick(b, t, must_move(b, t, m, y), two(b, WF_KOP_SUB, t, q, one_), q);
    int f = one(b, WF_KOP_FLOOR, t, q);
    int above = two(b, WF_KOP_GT, WF_KTY_BOOL, two(b, WF_KOP_SUB, t, q, f), wf_kb_const(b, t, 0.5));
    f = pick(b, t, above, two(b, WF_KOP_ADD, t, f, one_), f);
    int signed_zero = pick(b, t, sign_bit(b, t, direct), wf_kb_const(b, t, -0.0), zero);
    f = pick(b, t, two(b, WF_KOP_EQ, WF_KTY_BOOL, q, zero), signed_zero, f);
    return pick(b, t, two(b, WF_KOP_EQ, WF_KTY_BOOL, y, zero), direct, f);
}

/* Shifts by less than 0 or by the width and more leave nothing, or the sign. */
static int shift(wf_kb *b, wf_op op, wf_kty t, weft_dtype dtype, int x, int y)
{
    int width = 8 * (int)weft_dtype_block_bytes(dtype);
    int beyond = two(b, WF_KOP_GE, WF_KTY_BOOL, y, wf_kb_const(b, t, width));
    int out = two(b, WF_KOP_OR, WF_KTY_BOOL, negative(b, t, y), beyond);
    if (op == WF_OP_RIGHT_SHIFT && (t == WF_KTY_I32 || t == WF_KTY_I64))
        return two(b, WF_KOP_SHR, t, x, pick(b, t, out, wf_kb_const(b, t, width - 1), y));
    int r = two(b, op == WF_OP_LEFT_SHIFT ? WF_KOP_SHL : WF_KOP_SHR, t, x, y);
    return pick(b, t, out, wf_kb_const(b, t, 0.0), r);
}

int wf_emit_math(wf_kb *b, wf_op op, wf_kty t, weft_dtype dtype, const int v[3])
{
    bool is_float = t == WF_KTY_F32 || t == WF_KTY_F64;
    switch (op) {
    case WF_OP_SIGNBIT: return sign_bit(b, t, v[0]);
    case WF_OP_FMOD: return two(b, WF_KOP_MOD, t, v[0], v[1]);
    case WF_OP_REMAINDER: return remainder_of(b, t, v[0], v[1]);
    case WF_OP_FLOOR_DIVIDE: return is_float ? floor_divide_floats(b, t, v[0], v[1]) : floor_divide_integers(b, t, v[0], v[1]);
    case WF_OP_BITWISE_AND: return two(b, WF_KOP_AND, t, v[0], v[1]);
    case WF_OP_BITWISE_OR: return two(b, WF_KOP_OR, t, v[0], v[1]);
    case WF_OP_BITWISE_XOR: return two(b, WF_KOP_XOR, t, v[0], v[1]);
    case WF_OP_BITWISE_NOT: return one(b, WF_KOP_NOT, t, v[0]);
    case WF_OP_LEFT_SHIFT:
    case WF_OP_RIGHT_SHIFT: return shift(b, op, t, dtype, v[0], v[1]);
    default: break;
    }
    for (size_t i = 0; i < WF_COUNT(functions); i++)
        if (functions[i].op == op)
            return t == WF_KTY_F64 ? wf_kb_op_imm(b, WF_KOP_LIBM, t, v[0], v[1] >= 0 ? v[1] : v[0], functions[i].libm)
                                   : functions[i].f32(b, v[0], v[1]);
    if (b->status == WEFT_OK)
        b->status = wf_fail(WEFT_E_INTERNAL, "codegen: %s is no function", wf_op_table[op].name);
    return -1;
}
