/* vmath_inl.h - single-precision functions as straight-line code, made to be inlined into vector loops.
 *
 * Every choice is a select, so a loop over one of these becomes vector instructions, and the tail of a
 * loop gives the same bits as its body. The polynomials are minimax fits (Remez exchange) whose errors
 * in exact arithmetic stand beside them; measured errors are in tests/test_vmath.c. VM_FMA is a fused
 * multiply-add where the instruction set of the including file has one, else two roundings.
 */
#ifndef WF_VMATH_INL_H
#define WF_VMATH_INL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(WF_VEC_HAS_FMA)
#define VM_FMA(a, b, c) __builtin_fmaf((a), (b), (c))
#define VM_FMAD(a, b, c) __builtin_fma((a), (b), (c))
#else
#define VM_FMA(a, b, c) ((a) * (b) + (c))
#define VM_FMAD(a, b, c) ((a) * (b) + (c))
#endif

static inline uint32_t vm_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float vm_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint64_t vm_bits64(double d)
{
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    return u;
}

static inline double vm_double(uint64_t u)
{
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

/* A select that compilers keep free of branches whatever the condition is made of (0 or 1). */
static inline float vm_pick(int condition, float a, float b)
{
    uint32_t m = 0u - (uint32_t)condition;
    return vm_float((vm_bits(a) & m) | (vm_bits(b) & ~m));
}

/* ln 2 in two parts: the first has 15 bits, so its product with an exponent is exact without FMA. */
#define VM_LN2_HI 0x1.62e4p-1f
#define VM_LN2_LO 1.42860682030941723e-6f

/* e^r for r = x - n ln 2, |r| <= ln 2 / 2: 1 + r + r^2 times these, highest power first; 3.1e-9. */
#define VM_EXP_POLY {0.001381443f, 0.00836879667f, 0.0416683964f, 0.166665196f, 0.49999994f}
static inline float vm_exp_part(float x, float n)
{
    const float c[5] = VM_EXP_POLY;
    float r = VM_FMA(n, -VM_LN2_HI, x);
    r = VM_FMA(n, -VM_LN2_LO, r);
    float p = VM_FMA(c[0], r, c[1]);
    p = VM_FMA(p, r, c[2]);
    p = VM_FMA(p, r, c[3]);
    p = VM_FMA(p, r, c[4]);
    return VM_FMA(p * r, r, r) + 1.0f;
}

#define VM_LOG2_E 1.44269504f
#define VM_EXP_SHIFT 12582912.0f /* 1.5 * 2^23: x log2 e + this holds n in its low bits */

/* e^x = 2^n e^r, 2^n in two factors, so that subnormal results round once. The clamp of n works on bits, as
 * integer minimum and maximum; beyond it r grows, which gives infinity above, and below is replaced by 0. */
static inline float vm_exp(float x)
{
    int32_t k = (int32_t)vm_bits(VM_FMA(x, VM_LOG2_E, VM_EXP_SHIFT));
    k = k < 0x4b400000 - 151 ? 0x4b400000 - 151 : k;
    k = k > 0x4b400000 + 130 ? 0x4b400000 + 130 : k;
    float e = vm_exp_part(x, vm_float((uint32_t)k) - VM_EXP_SHIFT);
    k -= 0x4b400000;
    int32_t k1 = k >> 1, k2 = k - k1;
    e = e * vm_float((uint32_t)(k1 + 127) << 23) * vm_float((uint32_t)(k2 + 127) << 23);
    return x < -104.0f ? 0.0f : e;
}

/* The same bits in two thirds of the time, where vm_exp_near holds. */
static inline float vm_exp_quick(float x)
{
    float z = VM_FMA(x, VM_LOG2_E, VM_EXP_SHIFT);
    float e = vm_exp_part(x, z - VM_EXP_SHIFT);
    e = vm_float(vm_bits(e) + (vm_bits(z) << 23));
    return x < -104.0f ? 0.0f : e;
}
static inline int vm_exp_near(float x) { return (fabsf(x) <= 87.0f) | (x < -104.0f); }

/* ln x: x = 2^k m, m in [sqrt 1/2, sqrt 2). */
static inline float vm_log(float x)
{
    int tiny = x < 0x1p-126f;
    float xs = tiny ? x * 0x1p23f : x;
    uint32_t u = vm_bits(xs);
    int32_t k = (int32_t)(u - 0x3f3504f3u) >> 23;
    float f = vm_float(u - ((uint32_t)k << 23)) - 1.0f;
    float kf = (float)(tiny ? k - 23 : k);
    float p = 0.0710528567f; /* 8.9e-10 */
    p = VM_FMA(p, f, -0.119664997f);
    p = VM_FMA(p, f, 0.118885495f);
    p = VM_FMA(p, f, -0.123583637f);
    p = VM_FMA(p, f, 0.142130911f);
    p = VM_FMA(p, f, -0.166703731f);
    p = VM_FMA(p, f, 0.20002529f);
    p = VM_FMA(p, f, -0.249999732f);
    p = VM_FMA(p, f, 0.333333075f);
    float f2 = f * f;
    float y = VM_FMA(f2 * f, p, kf * VM_LN2_LO);
    y = VM_FMA(f2, -0.5f, y);
    float r = VM_FMA(kf, VM_LN2_HI, f + y);
    r = x < 0.0f ? vm_float(0x7fc00000u) : r;
    r = x == 0.0f ? vm_float(0xff800000u) : r;
    return x < vm_float(0x7f800000u) ? r : x + x; /* infinity and NaN */
}

/* Beyond this |x| the reduction below loses bits; the caller does those elements with libm. */
#define VM_TRIG_MAX 1.0e6f

/* sin(x + quarter * pi/2). pi/2 in two parts, the first of 33 bits: its product with a quotient below
 * 2^20 is exact in double, so the remainder is good to the last bit of a float near every zero. */
static inline float vm_sin_quarter(float x, uint64_t quarter)
{
    double d = x;
    double z = d * 0.63661977236758134308 + 6755399441055744.0; /* 1.5 * 2^52 */
    double n = z - 6755399441055744.0;
    double rd = d - n * 1.57079632673412561417;
    rd = rd - n * 6.07710050650619224932e-11;
    uint32_t q = (uint32_t)(vm_bits64(z) + quarter);
    float r = (float)rd, r2 = r * r;
    float s = -0.000195147848f; /* 3.9e-9 */
    s = VM_FMA(s, r2, 0.00833215751f);
    s = VM_FMA(s, r2, -0.166666552f);
    s = VM_FMA(s * r2, r, r);
    float c = 2.44325875e-05f; /* 1.2e-10 */
    c = VM_FMA(c, r2, -0.00138873118f);
    c = VM_FMA(c, r2, 0.0416666456f);
    c = VM_FMA(c, r2, -0.5f);
    c = VM_FMA(c, r2, 1.0f);
    float v = (q & 1) ? c : s;
    return vm_float(vm_bits(v) ^ (q & 2) << 30);
}

static inline float vm_tanh(float x)
{
    float a = fabsf(x);
    float big = 1.0f - 2.0f / (vm_exp(a + a) + 1.0f);
    float x2 = x * x;
    float p = -0.00566697959f; /* 4.8e-9 on [0, 0.63] */
    p = VM_FMA(p, x2, 0.0206061788f);
    p = VM_FMA(p, x2, -0.0537300073f);
    p = VM_FMA(p, x2, 0.133313313f);
    p = VM_FMA(p, x2, -0.333332777f);
    float small = VM_FMA(p * x2, x, x);
    big = vm_float(vm_bits(big) | (vm_bits(x) & 0x80000000u));
    return a < 0.625f ? small : big;
}

/* erf: a polynomial in x^2 below 1; above, 1 - e^-q with q = -ln erfc as a polynomial. */
static inline float vm_erf(float x)
{
    float a = fabsf(x), x2 = x * x;
    float p = 7.85386146e-05f; /* 1.2e-9 */
    p = VM_FMA(p, x2, -0.000801019371f);
    p = VM_FMA(p, x2, 0.00518832775f);
    p = VM_FMA(p, x2, -0.026853811f);
    p = VM_FMA(p, x2, 0.112835854f);
    p = VM_FMA(p, x2, -0.37612626f);
    float small = VM_FMA(p * x2, x, x * 0.12837916709f) + x; /* 2/sqrt(pi) - 1 keeps the last bits */
    float t = a > 4.0f ? 4.0f : a; /* erfc(4) is below half an ulp of 1 */
    float q = 2.16976186e-05f;     /* 2.2e-11 */
    q = VM_FMA(q, t, -0.000441472715f);
    q = VM_FMA(q, t, 0.00420528511f);
    q = VM_FMA(q, t, -0.0252103414f);
    q = VM_FMA(q, t, 0.108422101f);
    q = VM_FMA(q, t, 0.633216381f);
    q = VM_FMA(q, t, 1.12958026f);
    q = VM_FMA(q, t, -0.000188468272f);
    float big = 1.0f - vm_exp(-q);
    big = vm_float(vm_bits(big) | (vm_bits(x) & 0x80000000u));
    return a < 1.0f ? small : a >= 1.0f ? big : x; /* NaN */
}

/* log2 of a positive double that is a float's magnitude; 0 gives -inf, infinity +inf. Terms of the
 * series of atanh to s^15, |s| <= 0.172: 5e-13. */
static inline double vm_log2d(double a)
{
    uint64_t u = vm_bits64(a);
    double e = vm_double((u >> 52) | 0x4330000000000000u) - 4503599627371519.0; /* 2^52 + 1023 */
    double m = vm_double((u & 0x000fffffffffffffu) | 0x3ff0000000000000u);
    int upper = m > 1.4142135623730951;
    m = upper ? m * 0.5 : m;
    e = upper ? e + 1.0 : e;
    double s = (m - 1.0) / (m + 1.0), s2 = s * s;
    double p = 1.0 / 15;
    p = VM_FMAD(p, s2, 1.0 / 13);
    p = VM_FMAD(p, s2, 1.0 / 11);
    p = VM_FMAD(p, s2, 1.0 / 9);
    p = VM_FMAD(p, s2, 1.0 / 7);
    p = VM_FMAD(p, s2, 1.0 / 5);
    p = VM_FMAD(p, s2, 1.0 / 3);
    p = VM_FMAD(p, s2, 1.0);
    double r = VM_FMAD(p * s, 2.8853900817779268, e); /* 2 / ln 2 */
    r = a == 0.0 ? -(double)INFINITY : r;
    return a < (double)INFINITY ? r : a;
}

/* 2^t for t clamped to where a float is finite and nonzero, and one step beyond. */
static inline double vm_exp2d(double t)
{
    double c = t < -160.0 ? -160.0 : t;
    c = c > 130.0 ? 130.0 : c;
    double z = c + 6755399441055744.0;
    double f = (c - (z - 6755399441055744.0)) * 0.69314718055994531;
    double p = 2.755731922398589e-7; /* Taylor to f^10: 2e-13 */
    p = VM_FMAD(p, f, 2.7557319223985893e-6);
    p = VM_FMAD(p, f, 2.48015873015873e-5);
    p = VM_FMAD(p, f, 1.984126984126984e-4);
    p = VM_FMAD(p, f, 1.388888888888889e-3);
    p = VM_FMAD(p, f, 8.333333333333333e-3);
    p = VM_FMAD(p, f, 4.1666666666666664e-2);
    p = VM_FMAD(p, f, 1.6666666666666666e-1);
    p = VM_FMAD(p, f, 0.5);
    p = VM_FMAD(p, f, 1.0);
    p = VM_FMAD(p, f, 1.0);
    return p * vm_double((vm_bits64(z) - 0x4338000000000000u + 1023) << 52);
}

/* |x|^y in double, rounded once. */
static inline float vm_pow_magnitude(float x, float y)
{
    return (float)vm_exp2d((double)y * vm_log2d((double)fabsf(x)));
}

/* The sign and the special cases of C's pow, on top of the magnitude r. Two functions, hence two loops: in
 * one, compilers turn the selects into branches. From 2^24 on every float is an even integer. */
static inline float vm_pow_special(float x, float y, float r)
{
    const float inf = vm_float(0x7f800000u), nan = vm_float(0x7fc00000u);
    float ax = fabsf(x), ay = fabsf(y);
    float yc = vm_pick(ay < 0x1p24f, ay, 0.0f); /* NaN: 0, and the result is NaN anyway */
    int32_t yi = (int32_t)yc;
    int whole = (ay >= 0x1p24f) | ((float)yi == yc);
    uint32_t odd = (uint32_t)yi & (uint32_t)whole & 1u;
    r = vm_float(vm_bits(r) | (odd << 31 & vm_bits(x)));
    r = vm_pick((x < 0.0f) & (whole ^ 1) & (ax < inf), nan, r);
    r = vm_pick((ax == 1.0f) & (ay == inf), 1.0f, r);
    r = vm_pick((x != x) | (y != y), x + y, r);
    return vm_pick((x == 1.0f) | (y == 0.0f), 1.0f, r);
}

#endif
