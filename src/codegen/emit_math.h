/* emit_math.h - elementwise functions whose value is a sequence of instructions. */
#ifndef WF_EMIT_MATH_H
#define WF_EMIT_MATH_H

#include "kbuild.h"

/* Whether `op` is one of the functions of wf_emit_math. */
bool wf_emits_math(wf_op op);
/* The value of op over the operands v (of n->n_in), computed in type t, that of the operands; `dtype` is the
 * result's. Returns the instruction, or -1 after a failure. */
int wf_emit_math(wf_kb *b, wf_op op, wf_kty t, weft_dtype dtype, const int v[3]);

/* emit_seq_*.c: functions of F32. y is ignored by those of one operand. */
typedef int wf_sequence(wf_kb *b, int x, int y);
wf_sequence wf_seq_erfc, wf_seq_lgamma, wf_seq_expm1, wf_seq_log1p, wf_seq_log2, wf_seq_exp2, wf_seq_log10, wf_seq_sinh,
    wf_seq_cosh, wf_seq_tan, wf_seq_asin, wf_seq_acos, wf_seq_atan, wf_seq_asinh, wf_seq_acosh, wf_seq_atanh, wf_seq_round,
    wf_seq_ceil, wf_seq_trunc, wf_seq_atan2, wf_seq_hypot, wf_seq_copysign;

#endif
