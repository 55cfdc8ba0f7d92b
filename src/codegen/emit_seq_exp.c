/* emit_seq_exp.c - exponentials and logarithms of F32 as instructions, and what is made of them.
 *
 * Polynomials are minimax fits on the intervals named; the errors beside them are relative to the function and include
 * the rounding of the coefficients to f32. Errors of whole functions are measured by tests/test_pointwise.c.
 */
#include "emit_sequence.h"

/* ln 2 and log10 2 in two parts: the first times an exponent is exact. */
#define LN2_HI 0x1.62e4p-1f
#define LN2_LO 1.42860682030941723e-6f
#define LOG10_2_HI 0x1.344p-2f
#define LOG10_2_LO 4.60503889e-6f

/* ---- logarithms ---- */

/* -f^2/2 + f^3 P(f), 8.9e-10 */
int wf_seq_log_rest(wf_kb *b, int f)
{
    int p = SEQ_POLY(b, f, 0.0710528567f, -0.119664997f, 0.118885495f, -0.123583637f, 0.142130911f, -0.166703731f, 0.20002529f,
                     -0.249999732f, 0.333333075f);
    int f2 = seq_mul(b, f, f);
    return seq_fma(b, f2, seq_num(b, -0.5f), seq_mul(b, seq_mul(b, f2, f), p));
}

/* x = 2^k (1 + f), 1 + f in [sqrt 1/2, sqrt 2), *k a whole F32. A subnormal is 2^-149 times its bits as an integer. */
static int log_parts(wf_kb *b, int x, int *k)
{
    int u = seq_as_int(b, x);
    int tiny = wf_kb_op(b, WF_KOP_LT, WF_KTY_BOOL, u, seq_int(b, 0x800000), -1);
    int v = seq_as_int(b, seq_pick(b, tiny, seq_to_float(b, u), x));
    int e = seq_ishr(b, seq_isub(b, v, seq_int(b, 0x3f3504f3)), seq_int(b, 23));
    int m = seq_as_float(b, seq_isub(b, v, seq_ishl(b, e, seq_int(b, 23))));
    *k = seq_to_float(b, seq_iadd(b, e, seq_ipick(b, tiny, seq_int(b, -149), seq_int(b, 0))));
    return seq_sub(b, m, seq_num(b, 1.0f));
}

/* r where x is above 0 and finite, else what a logarithm gives there. */
static int log_specials(wf_kb *b, int x, int r)
{
    int zero = seq_num(b, 0.0f);
    r = seq_pick(b, seq_lt(b, x, zero), seq_bits(b, SEQ_NAN), r);
    r = seq_pick(b, seq_eq(b, x, zero), seq_bits(b, 0xff800000u), r);
    return seq_pick(b, seq_lt(b, x, seq_bits(b, SEQ_INF)), r, x);
}

int wf_seq_log2(wf_kb *b, int x, int y)
{
    int k, f = log_parts(b, x, &k);
    int l = seq_mul(b, seq_add(b, f, wf_seq_log_rest(b, f)), seq_num(b, 1.44269504f));
    return log_specials(b, x, seq_add(b, k, l));
}

int wf_seq_log10(wf_kb *b, int x, int y)
{
    int k, f = log_parts(b, x, &k);
    int l = seq_mul(b, seq_add(b, f, wf_seq_log_rest(b, f)), seq_num(b, 0.434294482f));
    l = seq_fma(b, k, seq_num(b, LOG10_2_LO), l);
    return log_specials(b, x, seq_fma(b, k, seq_num(b, LOG10_2_HI), l));
}

/* 1 + x = 2^k (1 + f), where k is read off the rounded sum and f = 2^-k x + (2^-k - 1) is rounded once. */
int wf_seq_log1p(wf_kb *b, int x, int y)
{
    int one = seq_num(b, 1.0f);
    int sum = seq_as_int(b, seq_add(b, x, one));
    int shift = seq_iand(b, seq_isub(b, sum, seq_int(b, 0x3f3504f3)), seq_int(b, (int32_t)0xff800000u));
    int k = seq_to_float(b, seq_ishr(b, shift, seq_int(b, 23)));
    int s = seq_as_float(b, seq_imax(b, seq_isub(b, seq_int(b, 0x3f800000), shift), seq_int(b, 0)));
    int f = seq_add(b, seq_sub(b, s, one), seq_as_float(b, seq_isub(b, seq_as_int(b, x), shift)));
    int low = seq_fma(b, k, seq_num(b, LN2_LO), wf_seq_log_rest(b, f));
    int r = seq_fma(b, k, seq_num(b, LN2_HI), seq_add(b, f, low));
    int least = seq_num(b, -1.0f);
    r = seq_pick(b, seq_lt(b, x, least), seq_bits(b, SEQ_NAN), r);
    r = seq_pick(b, seq_eq(b, x, least), seq_bits(b, 0xff800000u), r);
    r = seq_tiny(b, seq_abs(b, x), 0x1p-25f, x, r);
    return seq_pick(b, seq_lt(b, x, seq_bits(b, SEQ_INF)), r, x);
}

/* ---- exponentials ---- */

/* e^r - 1 for |r| <= 0.45: r + r^2 Q(r), 1.5e-9 */
static int expm1_near(wf_kb *b, int r)
{
    int q = SEQ_POLY(b, r, 0.000198484617f, 0.00139758922f, 0.00833349396f, 0.0416658036f, 0.166666657f, 0.5f);
    return seq_fma(b, seq_mul(b, q, r), r, r);
}

int wf_seq_exp_parts(wf_kb *b, int x, int more, int *n)
{
    *n = seq_floor(b, seq_fma(b, x, seq_num(b, 1.44269504f), seq_num(b, 0.5f)));
    /* A difference, then a sum: of two fused steps with parts of one sign Mesa loses the low part (26 eps in expm1). */
    int r = seq_sub(b, x, seq_mul(b, *n, seq_num(b, 0.693359375f)));
    r = seq_add(b, r, seq_mul(b, *n, seq_num(b, 2.12194440e-4f)));
    return expm1_near(b, more >= 0 ? seq_add(b, r, more) : r);
}

/* 2^n for I32 n in [-126, 127]. */
static int power_of_two(wf_kb *b, int n)
{
    return seq_as_float(b, seq_ishl(b, seq_iadd(b, n, seq_int(b, 127)), seq_int(b, 23)));
}

int wf_seq_scale(wf_kb *b, int v, int n)
{
    int half = seq_ishr(b, n, seq_int(b, 1));
    int normal = seq_mul(b, seq_mul(b, v, power_of_two(b, half)), power_of_two(b, seq_isub(b, n, half)));
    int raised = seq_mul(b, v, power_of_two(b, seq_iadd(b, seq_imin(b, n, seq_int(b, 0)), seq_int(b, 64))));
    int bits = seq_to_int(b, seq_fma(b, raised, seq_num(b, 0x1p85f), seq_num(b, 0.5f)));
    return seq_pick(b, seq_lt(b, raised, seq_num(b, 0x1p-62f)), seq_as_float(b, bits), normal);
}

int wf_seq_exp2(wf_kb *b, int x, int y)
{
    int c = seq_min(b, seq_max(b, x, seq_num(b, -160.0f)), seq_num(b, 130.0f));
    int n = seq_floor(b, seq_add(b, c, seq_num(b, 0.5f)));
    int p = expm1_near(b, seq_mul(b, seq_sub(b, c, n), seq_num(b, 0.693147181f)));
    int r = wf_seq_scale(b, seq_add(b, p, seq_num(b, 1.0f)), seq_to_int(b, n));
    return seq_through(b, x, r);
}

/* 2^n p + (2^n - 1); far above the 1 is lost in rounding. */
int wf_seq_expm1(wf_kb *b, int x, int y)
{
    int c = seq_min(b, seq_max(b, x, seq_num(b, -30.0f)), seq_num(b, 40.0f)), n;
    int p = wf_seq_exp_parts(b, c, -1, &n);
    int s = power_of_two(b, seq_to_int(b, n));
    int r = seq_fma(b, s, p, seq_sub(b, s, seq_num(b, 1.0f)));
    r = seq_pick(b, seq_lt(b, seq_num(b, 40.0f), x), seq_exp(b, x), r);
    r = seq_tiny(b, seq_abs(b, x), 0x1p-25f, x, r);
    return seq_through(b, x, r);
}

/* ---- hyperbolic functions ---- */

/* e^a / 2 for a >= 0: the scale is split, since it exceeds the largest float before the half does. */
static int half_exp(wf_kb *b, int a)
{
    int n, p = wf_seq_exp_parts(b, seq_min(b, a, seq_num(b, 91.0f)), -1, &n);
    int k = seq_isub(b, seq_to_int(b, n), seq_int(b, 1));
    int half = seq_ishr(b, k, seq_int(b, 1));
    int v = seq_mul(b, seq_add(b, p, seq_num(b, 1.0f)), power_of_two(b, half));
    return seq_mul(b, v, power_of_two(b, seq_isub(b, k, half)));
}

/* x + x^3 P(x^2) below 1, 5.2e-9 */
int wf_seq_sinh(wf_kb *b, int x, int y)
{
    int a = seq_abs(b, x), z = seq_mul(b, a, a);
    int p = SEQ_POLY(b, z, 2.81695134e-06f, 0.000198361595f, 0.0083333496f, 0.166666672f);
    int near = seq_fma(b, seq_mul(b, p, z), a, a);
    int h = half_exp(b, a);
    int far = seq_sub(b, h, seq_div(b, seq_num(b, 0.25f), h));
    int r = seq_signed(b, seq_pick(b, seq_lt(b, a, seq_num(b, 1.0f)), near, far), x);
    return seq_through(b, x, seq_tiny(b, a, 0x1p-13f, x, r));
}

int wf_seq_cosh(wf_kb *b, int x, int y)
{
    int h = half_exp(b, seq_abs(b, x));
    return seq_through(b, x, seq_add(b, h, seq_div(b, seq_num(b, 0.25f), h)));
}

/* ln a + ln 2, where a^2 would lose 1 beside it. */
#define FAR 4096.0f
static int log_of_twice(wf_kb *b, int a) { return seq_add(b, seq_log(b, a), seq_num(b, 0.693147181f)); }

/* log1p(a + a^2 / (1 + sqrt(1 + a^2))) */
int wf_seq_asinh(wf_kb *b, int x, int y)
{
    int a = seq_abs(b, x), one = seq_num(b, 1.0f), c = seq_min(b, a, seq_num(b, FAR)), z = seq_mul(b, c, c);
    int more = seq_div(b, z, seq_add(b, one, seq_sqrt(b, seq_add(b, one, z))));
    int near = wf_seq_log1p(b, seq_add(b, c, more), -1);
    int r = seq_signed(b, seq_pick(b, seq_lt(b, a, seq_num(b, FAR)), near, log_of_twice(b, a)), x);
    return seq_through(b, x, seq_tiny(b, a, 0x1p-12f, x, r));
}

/* log1p(t + sqrt(t (x + 1))), t = x - 1 */
int wf_seq_acosh(wf_kb *b, int x, int y)
{
    int one = seq_num(b, 1.0f), c = seq_min(b, x, seq_num(b, FAR)), t = seq_sub(b, c, one);
    int near = wf_seq_log1p(b, seq_add(b, t, seq_sqrt(b, seq_mul(b, t, seq_add(b, c, one)))), -1);
    int r = seq_pick(b, seq_lt(b, x, seq_num(b, FAR)), near, log_of_twice(b, x));
    return seq_pick(b, seq_lt(b, x, one), seq_bits(b, SEQ_NAN), seq_through(b, x, r));
}

/* log1p(2a / (1 - a)) / 2 */
int wf_seq_atanh(wf_kb *b, int x, int y)
{
    int a = seq_abs(b, x), one = seq_num(b, 1.0f);
    int l = wf_seq_log1p(b, seq_div(b, seq_add(b, a, a), seq_sub(b, one, a)), -1);
    int r = seq_tiny(b, a, 0x1p-12f, x, seq_signed(b, seq_half(b, l), x));
    r = seq_pick(b, seq_lt(b, one, a), seq_bits(b, SEQ_NAN), r);
    return seq_through(b, x, r);
}
