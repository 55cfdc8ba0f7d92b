/* weft/ops_pointwise.h - functions element by element, beside those of weft/ops.h, which says what all operations share.
 *
 * Unless a comment says otherwise, results have the shape of x or the broadcast shape; floats keep their dtype,
 * integers and bools compute in f32 and give f32. Arguments outside a function's domain give NaN, poles infinity, as
 * C's functions do; NaN gives NaN. A number that is a parameter does not promote the result. The bound of each
 * operation's error is in docs/ops.md.
 */
#ifndef WEFT_OPS_POINTWISE_H
#define WEFT_OPS_POINTWISE_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- functions of one operand ---- */

/* 1 - erf(x), without its cancellation. */
WEFT_API weft_tensor *weft_erfc(weft_tensor *x);
/* ln |gamma(x)|. */
WEFT_API weft_tensor *weft_lgamma(weft_tensor *x);
/* e^x - 1, exact near 0. */
WEFT_API weft_tensor *weft_expm1(weft_tensor *x);
/* ln(1 + x), exact near 0. */
WEFT_API weft_tensor *weft_log1p(weft_tensor *x);
/* The logarithm to base 2. */
WEFT_API weft_tensor *weft_log2(weft_tensor *x);
/* 2 to the power x. */
WEFT_API weft_tensor *weft_exp2(weft_tensor *x);
/* The logarithm to base 10. */
WEFT_API weft_tensor *weft_log10(weft_tensor *x);
/* Hyperbolic sine. */
WEFT_API weft_tensor *weft_sinh(weft_tensor *x);
/* Hyperbolic cosine. */
WEFT_API weft_tensor *weft_cosh(weft_tensor *x);
/* Tangent, x in radians. */
WEFT_API weft_tensor *weft_tan(weft_tensor *x);
/* Arc sine, in radians. */
WEFT_API weft_tensor *weft_asin(weft_tensor *x);
/* Arc cosine, in radians. */
WEFT_API weft_tensor *weft_acos(weft_tensor *x);
/* Arc tangent, in radians. */
WEFT_API weft_tensor *weft_atan(weft_tensor *x);
/* Inverse hyperbolic sine. */
WEFT_API weft_tensor *weft_asinh(weft_tensor *x);
/* Inverse hyperbolic cosine. */
WEFT_API weft_tensor *weft_acosh(weft_tensor *x);
/* Inverse hyperbolic tangent. */
WEFT_API weft_tensor *weft_atanh(weft_tensor *x);
/* sin(pi x) / (pi x), 1 at 0. */
WEFT_API weft_tensor *weft_sinc(weft_tensor *x);
/* 1 / x. */
WEFT_API weft_tensor *weft_reciprocal(weft_tensor *x);
/* Degrees of x radians. */
WEFT_API weft_tensor *weft_rad2deg(weft_tensor *x);
/* Radians of x degrees. */
WEFT_API weft_tensor *weft_deg2rad(weft_tensor *x);

/* ---- roundings and signs: integers stay as they are ---- */

/* To the nearest multiple of 10^-decimals, ties to even. Beside 0, decimals are x times 10^decimals rounded and divided, as
 * PyTorch has it. Errors: WEFT_E_VALUE for decimals outside -30 .. 30. */
WEFT_API weft_tensor *weft_round(weft_tensor *x, int decimals);
/* The smallest integer not below x. */
WEFT_API weft_tensor *weft_ceil(weft_tensor *x);
/* x without its fraction. */
WEFT_API weft_tensor *weft_trunc(weft_tensor *x);
/* The fraction of x, with its sign. */
WEFT_API weft_tensor *weft_frac(weft_tensor *x);
/* -1, 0 or 1, dtype of x; NaN stays NaN. Errors: WEFT_E_DTYPE for bool. */
WEFT_API weft_tensor *weft_sign(weft_tensor *x);
/* bool: whether the sign bit is set, that of -0 and NaN too. */
WEFT_API weft_tensor *weft_signbit(weft_tensor *x);
/* x itself. Errors: WEFT_E_DTYPE for bool. */
WEFT_API weft_tensor *weft_positive(weft_tensor *x);
/* x * x. */
WEFT_API weft_tensor *weft_square(weft_tensor *x);

/* ---- tests of floats, to bool; integers are finite ---- */

/* Whether x is NaN. */
WEFT_API weft_tensor *weft_isnan(weft_tensor *x);
/* Whether x is an infinity. */
WEFT_API weft_tensor *weft_isinf(weft_tensor *x);
/* Whether x is neither. */
WEFT_API weft_tensor *weft_isfinite(weft_tensor *x);
/* x with NaN, +infinity and -infinity replaced; posinf, neginf NULL: the largest and lowest number of the dtype. */
WEFT_API weft_tensor *weft_nan_to_num(weft_tensor *x, double nan, const double *posinf, const double *neginf);

/* ---- two operands: broadcast, promoted ---- */

/* The angle of the point (x, y) in radians, in [-pi, pi], with the special cases of C's atan2. */
WEFT_API weft_tensor *weft_atan2(weft_tensor *y, weft_tensor *x);
/* sqrt(a^2 + b^2) without overflow in between; an infinity wins over NaN. */
WEFT_API weft_tensor *weft_hypot(weft_tensor *a, weft_tensor *b);
/* |a| with the sign bit of b. */
WEFT_API weft_tensor *weft_copysign(weft_tensor *a, weft_tensor *b);
/* ln(e^a + e^b). */
WEFT_API weft_tensor *weft_logaddexp(weft_tensor *a, weft_tensor *b);
/* a ln b, 0 where a is 0 and b no NaN. */
WEFT_API weft_tensor *weft_xlogy(weft_tensor *a, weft_tensor *b);
/* 0 where x < 0, 1 where x > 0, `values` where x is 0; NaN stays NaN. */
WEFT_API weft_tensor *weft_heaviside(weft_tensor *x, weft_tensor *values);

/* Division that rounds; results have the promoted dtype, integers too. An integer divided by 0 gives 0, and so do its
 * remainders; floats divided by 0 follow IEEE 754. Errors: WEFT_E_DTYPE for two bools. */
/* The remainder of truncating division, with the sign of a: C's fmod. */
WEFT_API weft_tensor *weft_fmod(weft_tensor *a, weft_tensor *b);
/* The remainder of floor division, with the sign of b: Python's %. */
WEFT_API weft_tensor *weft_remainder(weft_tensor *a, weft_tensor *b);
/* The quotient rounded down: Python's //. */
WEFT_API weft_tensor *weft_floor_divide(weft_tensor *a, weft_tensor *b);
/* The quotient rounded towards 0: C's / of integers. */
WEFT_API weft_tensor *weft_trunc_divide(weft_tensor *a, weft_tensor *b);

/* ---- logic: any dtypes, other than 0 is true; to bool ---- */

/* Both. */
WEFT_API weft_tensor *weft_logical_and(weft_tensor *a, weft_tensor *b);
/* One or both. */
WEFT_API weft_tensor *weft_logical_or(weft_tensor *a, weft_tensor *b);
/* One of both. */
WEFT_API weft_tensor *weft_logical_xor(weft_tensor *a, weft_tensor *b);
/* Whether x is 0. */
WEFT_API weft_tensor *weft_logical_not(weft_tensor *x);

/* ---- bits: integers, and bools but for shifts; the promoted dtype. Errors: WEFT_E_DTYPE for floats ---- */

/* Bits set in both. */
WEFT_API weft_tensor *weft_bitwise_and(weft_tensor *a, weft_tensor *b);
/* Bits set in one or both. */
WEFT_API weft_tensor *weft_bitwise_or(weft_tensor *a, weft_tensor *b);
/* Bits set in one of both. */
WEFT_API weft_tensor *weft_bitwise_xor(weft_tensor *a, weft_tensor *b);
/* Every bit inverted; of a bool, "not". */
WEFT_API weft_tensor *weft_bitwise_not(weft_tensor *x);
/* a 2^b, wrapping; 0 for b below 0 or of at least the width. */
WEFT_API weft_tensor *weft_bitwise_left_shift(weft_tensor *a, weft_tensor *b);
/* a / 2^b rounded down; for b below 0 or of at least the width 0, or -1 for a negative a. */
WEFT_API weft_tensor *weft_bitwise_right_shift(weft_tensor *a, weft_tensor *b);

/* ---- selection and mixtures ---- */

/* x between min and max, each NULL for none or broadcast; max wins where min exceeds it, NaN stays NaN. All promoted.
 * Errors: WEFT_E_VALUE when both are NULL. */
WEFT_API weft_tensor *weft_clamp(weft_tensor *x, weft_tensor *min, weft_tensor *max);
/* x, or value where mask is true.
 *   mask     bool, broadcast with x
 *   value    rank 0, converted to the dtype of x
 *   returns  the broadcast shape of x and mask, the dtype of x */
WEFT_API weft_tensor *weft_masked_fill(weft_tensor *x, weft_tensor *mask, weft_tensor *value);
/* x + weight (end - x), formed from the nearer end. */
WEFT_API weft_tensor *weft_lerp(weft_tensor *x, weft_tensor *end, weft_tensor *weight);
/* x + value a b. */
WEFT_API weft_tensor *weft_addcmul(weft_tensor *x, weft_tensor *a, weft_tensor *b, double value);
/* x + value a / b. */
WEFT_API weft_tensor *weft_addcdiv(weft_tensor *x, weft_tensor *a, weft_tensor *b, double value);

/* ---- activations ---- */

/* ln(1 + e^(beta x)) / beta; x itself where beta x exceeds threshold. */
WEFT_API weft_tensor *weft_softplus(weft_tensor *x, double beta, double threshold);
/* x above 0, alpha (e^x - 1) else. Source: Clevert et al. 2015, arXiv:1511.07289, eq. 15. */
WEFT_API weft_tensor *weft_elu(weft_tensor *x, double alpha);
/* scale (x above 0, alpha (e^x - 1) else), with the constants of Klambauer et al. 2017, arXiv:1706.02515, section 2. */
WEFT_API weft_tensor *weft_selu(weft_tensor *x);
/* max(x, 0) + min(0, alpha (e^(x / alpha) - 1)). Source: Barron 2017, arXiv:1704.07483. */
WEFT_API weft_tensor *weft_celu(weft_tensor *x, double alpha);
/* x above 0, negative_slope x else. */
WEFT_API weft_tensor *weft_leaky_relu(weft_tensor *x, double negative_slope);
/* The same with a slope to learn.
 *   weight  [1] or rank 0, or [C] with C = x.shape[1]
 * Errors: WEFT_E_SHAPE. Source: He et al. 2015, arXiv:1502.01852, eq. 1. */
WEFT_API weft_tensor *weft_prelu(weft_tensor *x, weft_tensor *weight);
/* min(max(x, 0), 6). Errors: WEFT_E_DTYPE for bool. */
WEFT_API weft_tensor *weft_relu6(weft_tensor *x);
/* max(x, 0)^2. Source: So et al. 2021, Primer, arXiv:2109.08668, section 4. */
WEFT_API weft_tensor *weft_relu2(weft_tensor *x);
/* 1 where x > 0, else 0, in the dtype of x: the derivative of relu. */
WEFT_API weft_tensor *weft_relu_mask(weft_tensor *x);
/* relu6(x + 3) / 6. */
WEFT_API weft_tensor *weft_hardsigmoid(weft_tensor *x);
/* x relu6(x + 3) / 6. Source: Howard et al. 2019, arXiv:1905.02244, section 5.2. */
WEFT_API weft_tensor *weft_hardswish(weft_tensor *x);
/* x between min_val and max_val. Errors: WEFT_E_VALUE for min_val above max_val. */
WEFT_API weft_tensor *weft_hardtanh(weft_tensor *x, double min_val, double max_val);
/* x tanh(softplus(x)). Source: Misra 2019, arXiv:1908.08681. */
WEFT_API weft_tensor *weft_mish(weft_tensor *x);
/* x / (1 + |x|). */
WEFT_API weft_tensor *weft_softsign(weft_tensor *x);
/* x - tanh(x). */
WEFT_API weft_tensor *weft_tanhshrink(weft_tensor *x);
/* x, 0 where |x| <= lambd. */
WEFT_API weft_tensor *weft_hardshrink(weft_tensor *x, double lambd);
/* x moved by lambd towards 0, 0 where |x| <= lambd. */
WEFT_API weft_tensor *weft_softshrink(weft_tensor *x, double lambd);
/* ln sigmoid(x). */
WEFT_API weft_tensor *weft_logsigmoid(weft_tensor *x);
/* x where it exceeds threshold, else value. */
WEFT_API weft_tensor *weft_threshold(weft_tensor *x, double threshold, double value);

/* Gated units: x is [a, b] halved along axis dim. Errors: WEFT_E_SHAPE for an odd extent.
 * Source: Dauphin et al. 2016, arXiv:1612.08083; Shazeer 2020, arXiv:2002.05202. */
/* a sigmoid(b). */
WEFT_API weft_tensor *weft_glu(weft_tensor *x, int dim);
/* a gelu(b). */
WEFT_API weft_tensor *weft_geglu(weft_tensor *x, int dim);
/* a silu(b). */
WEFT_API weft_tensor *weft_swiglu(weft_tensor *x, int dim);

#ifdef __cplusplus
}
#endif
#endif
