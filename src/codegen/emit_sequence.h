/* emit_sequence.h - words for writing F32 functions as instructions: what the emit_seq_*.c files share.
 *
 * Compilers of WGSL contract, reassociate and flush subnormals, so the sequences rely on none of it: what must be
 * exact is made on the bits or by integers, special values are selected last, and a tiny argument whose function is
 * the argument itself is passed on as it is.
 */
#ifndef WF_EMIT_SEQUENCE_H
#define WF_EMIT_SEQUENCE_H

#include "emit_math.h"

enum { SEQ_INF = 0x7f800000, SEQ_NAN = 0x7fc00000 };

static inline int seq_bits(wf_kb *b, uint32_t bits) { return wf_kb_imm(b, WF_KOP_CONST, WF_KTY_F32, -1, 0, bits); }
static inline int seq_num(wf_kb *b, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return seq_bits(b, bits);
}
static inline int seq_int(wf_kb *b, int32_t v) { return wf_kb_imm(b, WF_KOP_CONST, WF_KTY_I32, -1, 0, (uint32_t)v); }
static inline int seq_word(wf_kb *b, uint32_t v) { return wf_kb_imm(b, WF_KOP_CONST, WF_KTY_U32, -1, 0, v); }

#define SEQ_ONE(name, op, type) \
    static inline int seq_##name(wf_kb *b, int x) { return wf_kb_op(b, WF_KOP_##op, WF_KTY_##type, x, -1, -1); }
#define SEQ_TWO(name, op, type) \
    static inline int seq_##name(wf_kb *b, int x, int y) { return wf_kb_op(b, WF_KOP_##op, WF_KTY_##type, x, y, -1); }
SEQ_ONE(neg, NEG, F32)
SEQ_ONE(abs, ABS, F32)
SEQ_ONE(exp, EXP, F32)
SEQ_ONE(log, LOG, F32)
SEQ_ONE(sqrt, SQRT, F32)
SEQ_ONE(erf, ERF, F32)
SEQ_ONE(floor, FLOOR, F32)
SEQ_ONE(to_int, CAST, I32)
SEQ_ONE(to_float, CAST, F32)
SEQ_ONE(as_int, BITCAST, I32)
SEQ_ONE(as_word, BITCAST, U32)
SEQ_ONE(as_float, BITCAST, F32)
SEQ_TWO(add, ADD, F32)
SEQ_TWO(sub, SUB, F32)
SEQ_TWO(mul, MUL, F32)
SEQ_TWO(div, DIV, F32)
SEQ_TWO(min, MIN, F32)
SEQ_TWO(max, MAX, F32)
SEQ_TWO(lt, LT, BOOL)
SEQ_TWO(le, LE, BOOL)
SEQ_TWO(eq, EQ, BOOL)
SEQ_TWO(both, AND, BOOL)
SEQ_TWO(either, OR, BOOL)
SEQ_TWO(iadd, ADD, I32)
SEQ_TWO(isub, SUB, I32)
SEQ_TWO(imin, MIN, I32)
SEQ_TWO(imax, MAX, I32)
SEQ_TWO(iand, AND, I32)
SEQ_TWO(ior, OR, I32)
SEQ_TWO(ixor, XOR, I32)
SEQ_TWO(ishl, SHL, I32)
SEQ_TWO(ishr, SHR, I32)
SEQ_TWO(wadd, ADD, U32)
SEQ_TWO(wsub, SUB, U32)
SEQ_TWO(wmul, MUL, U32)
SEQ_TWO(wmulhi, MULHI, U32)
SEQ_TWO(wand, AND, U32)
SEQ_TWO(wor, OR, U32)
SEQ_TWO(wshl, SHL, U32)
SEQ_TWO(wshr, SHR, U32)
#undef SEQ_ONE
#undef SEQ_TWO

static inline int seq_fma(wf_kb *b, int x, int y, int z) { return wf_kb_op(b, WF_KOP_FMA, WF_KTY_F32, x, y, z); }
static inline int seq_pick(wf_kb *b, int c, int x, int y) { return wf_kb_op(b, WF_KOP_SELECT, WF_KTY_F32, c, x, y); }
static inline int seq_ipick(wf_kb *b, int c, int x, int y) { return wf_kb_op(b, WF_KOP_SELECT, WF_KTY_I32, c, x, y); }
static inline int seq_wpick(wf_kb *b, int c, int x, int y) { return wf_kb_op(b, WF_KOP_SELECT, WF_KTY_U32, c, x, y); }
static inline int seq_half(wf_kb *b, int x) { return seq_mul(b, x, seq_num(b, 0.5f)); }

/* Highest power first. */
static inline int seq_poly(wf_kb *b, int x, const float *c, int n)
{
    int p = seq_num(b, c[0]);
    for (int i = 1; i < n; i++)
        p = seq_fma(b, p, x, seq_num(b, c[i]));
    return p;
}
#define SEQ_POLY(b, x, ...) seq_poly(b, x, (const float[]){__VA_ARGS__}, (int)(sizeof(const float[]){__VA_ARGS__} / sizeof(float)))

/* The magnitude of m (whose sign bit is clear) with the sign of x. */
static inline int seq_signed(wf_kb *b, int m, int x)
{
    int sign = seq_iand(b, seq_as_int(b, x), seq_int(b, INT32_MIN));
    return seq_as_float(b, seq_ior(b, seq_as_int(b, m), sign));
}

/* x where |x| (given as a) is below the bound, else r. */
static inline int seq_tiny(wf_kb *b, int a, float below, int x, int r) { return seq_pick(b, seq_lt(b, a, seq_num(b, below)), x, r); }

/* NaN where x is NaN, else r. */
static inline int seq_through(wf_kb *b, int x, int r) { return seq_pick(b, seq_eq(b, x, x), r, x); }

/* ---- emit_seq_exp.c: what other functions are made of ---- */

/* ln(1 + f) = f + the result, f in [-0.293, 0.415]. */
int wf_seq_log_rest(wf_kb *b, int f);
/* e^(x + more) = 2^n (1 + p); *n a whole F32. more: -1 for none, else small. */
int wf_seq_exp_parts(wf_kb *b, int x, int more, int *n);
/* v 2^n for v in about [2^-8, 4] and I32 n, rounded once also where the result is subnormal. */
int wf_seq_scale(wf_kb *b, int v, int n);

#endif
