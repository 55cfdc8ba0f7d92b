/* wgsl_helpers.c - the library of WGSL functions that generated and hand-written kernels call by name.
 *
 * WGSL promises little about NaN, denormals and the error of exp, sin, pow and division, and drivers
 * contract, reassociate and flush as they like (Mesa turns (a + b) - a into b). So: comparisons go
 * through integer keys; exponents, subnormals and special values are handled on the bits; where more
 * than f32 is needed, products are of operands cut to 12 bits with an integer mask, or of integers.
 * Coefficients are minimax fits made for these intervals; the errors in the comments are measured
 * against f64 over the whole f32 range by test_wgsl.
 *
 * Rows stand in order of dependence: a text calls only functions above it.
 */
#include "wgsl.h"

typedef struct helper {
    const char *name;
    const char *text;
} helper;

static const helper helpers[] = {
    /* A float from bits that a constant expression may not hold (infinity, NaN): parameters are not constant. */
    {"wf_bits", "fn wf_bits(u: u32) -> f32 { return bitcast<f32>(u); }\n"},
    {"wf_is_nan", "fn wf_is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }\n"},

    /* An integer ordered as the floats are, the same for both zeros; NaN lies outside +-0x7f800000. */
    {"wf_key", "fn wf_key(x: f32) -> i32 {\n"
               "    let i = bitcast<i32>(x);\n"
               "    let m = i & 0x7fffffff;\n"
               "    return select(m, -m, i < 0);\n"
               "}\n"},
    {"wf_ordered", "fn wf_ordered(a: i32, b: i32) -> bool { return max(abs(a), abs(b)) <= 0x7f800000; }\n"},
    {"wf_eq", "fn wf_eq(x: f32, y: f32) -> bool {\n"
              "    let a = wf_key(x);\n"
              "    return a == wf_key(y) && abs(a) <= 0x7f800000;\n"
              "}\n"},
    {"wf_lt", "fn wf_lt(x: f32, y: f32) -> bool {\n"
              "    let a = wf_key(x);\n"
              "    let b = wf_key(y);\n"
              "    return a < b && wf_ordered(a, b);\n"
              "}\n"},
    {"wf_le", "fn wf_le(x: f32, y: f32) -> bool {\n"
              "    let a = wf_key(x);\n"
              "    let b = wf_key(y);\n"
              "    return a <= b && wf_ordered(a, b);\n"
              "}\n"},
    /* NaN wins. */
    {"wf_max", "fn wf_max(x: f32, y: f32) -> f32 {\n"
               "    let a = wf_key(x);\n"
               "    let b = wf_key(y);\n"
               "    let take_y = a < b || abs(b) > 0x7f800000;\n"
               "    return select(x, y, take_y && abs(a) <= 0x7f800000);\n"
               "}\n"},
    {"wf_min", "fn wf_min(x: f32, y: f32) -> f32 {\n"
               "    let a = wf_key(x);\n"
               "    let b = wf_key(y);\n"
               "    let take_y = b < a || abs(b) > 0x7f800000;\n"
               "    return select(x, y, take_y && abs(a) <= 0x7f800000);\n"
               "}\n"},
    /* Whether (v, i) replaces the best so far: a larger value or NaN, or the same at a lower index. */
    {"wf_arg_max", "fn wf_arg_max(best: f32, at: i32, v: f32, i: i32) -> bool {\n"
                   "    let a = select(wf_key(best), 0x7f800001, wf_is_nan(best));\n"
                   "    let b = select(wf_key(v), 0x7f800001, wf_is_nan(v));\n"
                   "    return b > a || (b == a && i < at);\n"
                   "}\n"},
    {"wf_arg_min", "fn wf_arg_min(best: f32, at: i32, v: f32, i: i32) -> bool {\n"
                   "    let a = select(wf_key(best), -0x7f800001, wf_is_nan(best));\n"
                   "    let b = select(wf_key(v), -0x7f800001, wf_is_nan(v));\n"
                   "    return b < a || (b == a && i < at);\n"
                   "}\n"},

    /* ---- 16-bit floats: bits in the low half of a word ---- */
    {"wf_f16_to_f32", "fn wf_f16_to_f32(h: u32) -> f32 {\n"
                      "    let m = h & 0x7fffu;\n"
                      "    let small = bitcast<u32>(f32(m) * 5.9604644775390625e-8f);\n"
                      "    let large = (m << 13u) + select(0x38000000u, 0x70000000u, m >= 0x7c00u);\n"
                      "    return bitcast<f32>(((h & 0x8000u) << 16u) | select(large, small, m < 0x400u));\n"
                      "}\n"},
    /* Below 2^-14, adding 1/2 rounds to a multiple of 2^-24, the unit of the subnormals of f16. */
    {"wf_f32_to_f16", "fn wf_f32_to_f16(x: f32) -> u32 {\n"
                      "    let u = bitcast<u32>(x);\n"
                      "    let a = u & 0x7fffffffu;\n"
                      "    let large = (a - 0x38000000u + 0xfffu + ((a >> 13u) & 1u)) >> 13u;\n"
                      "    let small = bitcast<u32>(bitcast<f32>(a) + 0.5f) - 0x3f000000u;\n"
                      "    let finite = min(select(large, small, a < 0x38800000u), 0x7c00u);\n"
                      "    let h = select(finite, 0x7e00u | ((a >> 13u) & 0x1ffu), a > 0x7f800000u);\n"
                      "    return ((u >> 16u) & 0x8000u) | h;\n"
                      "}\n"},
    {"wf_bf16_to_f32", "fn wf_bf16_to_f32(h: u32) -> f32 { return bitcast<f32>(h << 16u); }\n"},
    {"wf_f32_to_bf16", "fn wf_f32_to_bf16(x: f32) -> u32 {\n"
                       "    let u = bitcast<u32>(x);\n"
                       "    let rounded = (u + 0x7fffu + ((u >> 16u) & 1u)) >> 16u;\n"
                       "    return select(rounded, (u >> 16u) | 0x40u, (u & 0x7fffffffu) > 0x7f800000u);\n"
                       "}\n"},

    /* ---- integers ---- */
    {"wf_mulhi", "fn wf_mulhi(a: u32, b: u32) -> u32 {\n"
                 "    let al = a & 0xffffu;\n"
                 "    let ah = a >> 16u;\n"
                 "    let bl = b & 0xffffu;\n"
                 "    let bh = b >> 16u;\n"
                 "    let m = ah * bl + ((al * bl) >> 16u);\n"
                 "    let n = al * bh + (m & 0xffffu);\n"
                 "    return ah * bh + (m >> 16u) + (n >> 16u);\n"
                 "}\n"},
    {"wf_idiv", "fn wf_idiv(a: i32, b: i32) -> i32 {\n"
                "    if (b == 0) { return 0; }\n"
                "    if (b == -1) { return -a; }\n"
                "    return a / b;\n"
                "}\n"},
    {"wf_imod", "fn wf_imod(a: i32, b: i32) -> i32 {\n"
                "    if (b == 0 || b == -1) { return 0; }\n"
                "    return a - (a / b) * b;\n"
                "}\n"},
    {"wf_udiv", "fn wf_udiv(a: u32, b: u32) -> u32 {\n"
                "    if (b == 0u) { return 0u; }\n"
                "    return a / b;\n"
                "}\n"},
    {"wf_umod", "fn wf_umod(a: u32, b: u32) -> u32 {\n"
                "    if (b == 0u) { return 0u; }\n"
                "    return a % b;\n"
                "}\n"},
    /* Truncate and saturate, NaN to 0. */
    {"wf_f2i", "fn wf_f2i(x: f32) -> i32 {\n"
               "    if (wf_is_nan(x)) { return 0; }\n"
               "    if (x >= 2147483648.0f) { return 0x7fffffff; }\n"
               "    if (x < -2147483520.0f) { return -0x7fffffff - 1; }\n"
               "    return i32(x);\n"
               "}\n"},
    {"wf_f2u", "fn wf_f2u(x: f32) -> u32 {\n"
               "    if (wf_is_nan(x) || x < 1.0f) { return 0u; }\n"
               "    if (x >= 4294967296.0f) { return 0xffffffffu; }\n"
               "    return u32(x);\n"
               "}\n"},

    /* ---- floats: parts ---- */
    /* The 12 high bits of the significand: products of two such values are exact. */
    {"wf_cut", "fn wf_cut(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u); }\n"},
    /* a - q b, nearly exact when q is near a / b. */
    {"wf_residual", "fn wf_residual(a: f32, q: f32, b: f32) -> f32 {\n"
                    "    let qh = wf_cut(q);\n"
                    "    let ql = q - qh;\n"
                    "    let bh = wf_cut(b);\n"
                    "    let bl = b - bh;\n"
                    "    return (((a - qh * bh) - qh * bl) - ql * bh) - ql * bl;\n"
                    "}\n"},
    /* p 2^k for p in [1/2, 2]; rounds into the subnormals without float arithmetic, which may flush. */
    {"wf_scale", "fn wf_scale(p: f32, k: i32) -> f32 {\n"
                 "    let u = bitcast<u32>(p);\n"
                 "    let e = i32(u >> 23u) + k;\n"
                 "    let m = (u & 0x7fffffu) | 0x800000u;\n"
                 "    let shift = u32(clamp(1 - e, 1, 25));\n"
                 "    let q = m >> shift;\n"
                 "    let rest = m & ((1u << shift) - 1u);\n"
                 "    let tie = 1u << (shift - 1u);\n"
                 "    let small = q + select(0u, 1u, rest > tie || (rest == tie && (q & 1u) == 1u));\n"
                 "    let normal = (u & 0x7fffffu) | (u32(clamp(e, 0, 255)) << 23u);\n"
                 "    return wf_bits(select(select(select(small, 0u, e < -24), normal, e > 0), 0x7f800000u, e >= 255));\n"
                 "}\n"},
    /* A finite nonzero magnitude's bits with the leading one at bit 23; the exponent wf_exponent fits it. */
    {"wf_significand", "fn wf_significand(a: u32) -> u32 {\n"
                       "    return select((a & 0x7fffffu) | 0x800000u, a << ((countLeadingZeros(a) - 8u) & 31u), a < 0x800000u);\n"
                       "}\n"},
    {"wf_exponent", "fn wf_exponent(a: u32) -> i32 { return select(i32(a >> 23u), 9 - i32(countLeadingZeros(a)), a < 0x800000u); }\n"
},
    /* Negative subnormals, which floor may see as zero, go to -1. */
    {"wf_floor", "fn wf_floor(x: f32) -> f32 {\n"
                 "    return select(floor(x), -1.0f, bitcast<u32>(x) - 0x80000001u < 0x7fffffu);\n"
                 "}\n"},

    /* C's fmod, exact: the significand of x, shifted left a few bits at a time, modulo that of y. */
    {"wf_fmod", "fn wf_fmod(x: f32, y: f32) -> f32 {\n"
                "    let a = bitcast<u32>(x) & 0x7fffffffu;\n"
                "    let b = bitcast<u32>(y) & 0x7fffffffu;\n"
                "    if (a >= 0x7f800000u || b > 0x7f800000u || b == 0u) { return wf_bits(0x7fc00000u); }\n"
                "    if (a < b) { return x; }\n"
                "    let n = wf_significand(b);\n"
                "    var m = wf_significand(a) % n;\n"
                "    var shift = wf_exponent(a) - wf_exponent(b);\n"
                "    while (shift > 0 && m != 0u) {\n"
                "        let s = min(shift, 8);\n"
                "        m = (m << u32(s)) % n;\n"
                "        shift = shift - s;\n"
                "    }\n"
                "    let sign = bitcast<u32>(x) & 0x80000000u;\n"
                "    if (m == 0u) { return bitcast<f32>(sign); }\n"
                "    let z = i32(countLeadingZeros(m)) - 8;\n"
                "    let e = wf_exponent(b) - z;\n"
                "    m = m << u32(z);\n"
                "    if (e < 1) { return bitcast<f32>(sign | (m >> u32(1 - e))); }\n"
                "    return bitcast<f32>(sign | (u32(e) << 23u) | (m & 0x7fffffu));\n"
                "}\n"},

    /* ---- division and roots: within 0.51 ulp for normal results ----
     * Corrections are scaled by a cut operand: NVIDIA's compiler makes a / b + r / b into (a + r) / b. */
    {"wf_div", "fn wf_div(a: f32, b: f32) -> f32 {\n"
               "    let ua = bitcast<u32>(a) & 0x7fffffffu;\n"
               "    let ub = bitcast<u32>(b) & 0x7fffffffu;\n"
               "    if (ua - 0x30000000u < 0x20000000u && ub - 0x30000000u < 0x20000000u) {\n"
               "        let q = a / b;\n"
               "        return q + wf_residual(a, q, b) / wf_cut(b);\n"
               "    }\n"
               "    let sign = (bitcast<u32>(a) ^ bitcast<u32>(b)) & 0x80000000u;\n"
               "    if (ua > 0x7f800000u || ub > 0x7f800000u || (ua == 0x7f800000u && ub == 0x7f800000u) ||\n"
               "        (ua == 0u && ub == 0u)) {\n"
               "        return wf_bits(0x7fc00000u);\n"
               "    }\n"
               "    if (ua == 0x7f800000u || ub == 0u) { return wf_bits(sign | 0x7f800000u); }\n"
               "    if (ub == 0x7f800000u || ua == 0u) { return wf_bits(sign); }\n"
               "    let x = bitcast<f32>(wf_significand(ua) + 0x3f000000u);\n"
               "    let y = bitcast<f32>(wf_significand(ub) + 0x3f000000u);\n"
               "    let q = x / y;\n"
               "    let p = wf_scale(q + wf_residual(x, q, y) / wf_cut(y), wf_exponent(ua) - wf_exponent(ub));\n"
               "    return bitcast<f32>(bitcast<u32>(p) | sign);\n"
               "}\n"},
    {"wf_sqrt", "fn wf_sqrt(x: f32) -> f32 {\n"
                "    let u = bitcast<u32>(x);\n"
                "    if ((u & 0x7fffffffu) == 0u || u == 0x7f800000u) { return x; }\n"
                "    if (u > 0x7f800000u) { return wf_bits(0x7fc00000u); }\n"
                "    let e = wf_exponent(u) + 1;\n"
                "    let m = bitcast<f32>(wf_significand(u) + 0x3f000000u + (u32(e & 1) << 23u));\n"
                "    let s = sqrt(m);\n"
                "    return wf_scale(s + wf_residual(m, s, s) * (0.5f / s), (e >> 1u) - 64);\n"
                "}\n"},
    {"wf_rsqrt", "fn wf_rsqrt(x: f32) -> f32 {\n"
                 "    let u = bitcast<u32>(x);\n"
                 "    if ((u & 0x7fffffffu) == 0u) { return wf_bits(u | 0x7f800000u); }\n"
                 "    if (u == 0x7f800000u) { return 0.0f; }\n"
                 "    if (u > 0x7f800000u) { return wf_bits(0x7fc00000u); }\n"
                 "    let e = wf_exponent(u) + 1;\n"
                 "    let m = bitcast<f32>(wf_significand(u) + 0x3f000000u + (u32(e & 1) << 23u));\n"
                 "    let y = inverseSqrt(m);\n"
                 "    let yh = wf_cut(y);\n"
                 "    let yl = y - yh;\n"
                 "    let s = yh * yh;\n"
                 "    let sh = wf_cut(s);\n"
                 "    let sl = s - sh;\n"
                 "    let mh = wf_cut(m);\n"
                 "    let ml = m - mh;\n"
                 "    let r = (((1.0f - mh * sh) - mh * sl) - ml * s) - m * (2.0f * yh * yl + yl * yl);\n"
                 "    return wf_scale(y + 0.5f * yh * r, 64 - (e >> 1u));\n"
                 "}\n"},

    /* ---- exponential and logarithm: below 1 ulp ---- */
    {"wf_exp", "fn wf_exp(x: f32) -> f32 {\n"
               "    if (wf_is_nan(x)) { return x; }\n"
               "    if (x > 89.0f) { return wf_bits(0x7f800000u); }\n"
               "    if (x < -104.0f) { return 0.0f; }\n"
               "    let k = floor(x * 1.44269504f + 0.5f);\n"
               "    let r = (x - k * 0.693359375f) + k * 2.12194440e-4f;\n"
               "    let q = 0.5f + r * (0.166665182f + r * (0.041666206f + r * (0.00836888794f + r * 0.00139504881f)));\n"
               "    return wf_scale(1.0f + (r + r * r * q), i32(k));\n"
               "}\n"},
    {"wf_log", "fn wf_log(x: f32) -> f32 {\n"
               "    let u = bitcast<u32>(x);\n"
               "    if ((u & 0x7fffffffu) == 0u) { return wf_bits(0xff800000u); }\n"
               "    if (u == 0x7f800000u) { return x; }\n"
               "    if (u > 0x7f800000u) { return wf_bits(0x7fc00000u); }\n"
               "    let s = wf_significand(u);\n"
               "    let high = s >= 0xb504f3u;\n"
               "    let f = bitcast<f32>(s + select(0x3f000000u, 0x3e800000u, high)) - 1.0f;\n"
               "    let k = f32(wf_exponent(u) - select(127, 126, high));\n"
               "    let t = f / (2.0f + f);\n"
               "    let z = t * t;\n"
               "    let h = 0.5f * f * f;\n"
               "    let r = z * (0.666666627f + z * (0.400003344f + z * (0.285373032f + z * 0.235822842f)));\n"
               "    return k * 0.693359375f - ((h - (t * (h + r) - k * 2.12194440e-4f)) - f);\n"
               "}\n"},

    /* ---- sine and cosine: error below 1.5e-7 for every finite argument ---- */
    /* Bits 32 i .. 32 i + 31 after the point of 1 / (32 zero bits, then 2 pi). */
    {"wf_turn_word", "fn wf_turn_word(i: u32) -> u32 {\n"
                     "    switch (i) {\n"
                     "        case 1u: { return 0x28be60dbu; }\n"
                     "        case 2u: { return 0x9391054au; }\n"
                     "        case 3u: { return 0x7f09d5f4u; }\n"
                     "        case 4u: { return 0x7d4d3770u; }\n"
                     "        case 5u: { return 0x36d8a566u; }\n"
                     "        case 6u: { return 0x4f10e410u; }\n"
                     "        default: { return 0u; }\n"
                     "    }\n"
                     "}\n"},
    /* The fraction of |x| / (2 pi), in 2^-32 turns, from the bits of |x| >= 1/2 (Payne and Hanek 1983): whole
     * turns drop out of the product of the significand and the bits of 1 / (2 pi) that matter. */
    {"wf_turns", "fn wf_turns(a: u32) -> u32 {\n"
                 "    let m = (a & 0x7fffffu) | 0x800000u;\n"
                 "    let at = (a >> 23u) - 118u;\n"
                 "    let i = at >> 5u;\n"
                 "    let s = at & 31u;\n"
                 "    let t0 = wf_turn_word(i);\n"
                 "    let t1 = wf_turn_word(i + 1u);\n"
                 "    let t2 = wf_turn_word(i + 2u);\n"
                 "    let w0 = (t0 << s) | ((t1 >> 1u) >> (31u - s));\n"
                 "    let w1 = (t1 << s) | ((t2 >> 1u) >> (31u - s));\n"
                 "    return m * w0 + wf_mulhi(m, w1);\n"
                 "}\n"},
    /* sin(x + quarter pi / 2) */
    {"wf_sin_quarter", "fn wf_sin_quarter(x: f32, quarter: u32) -> f32 {\n"
                       "    let a = bitcast<u32>(x) & 0x7fffffffu;\n"
                       "    if (a >= 0x7f800000u) { return wf_bits(0x7fc00000u); }\n"
                       "    var q = quarter;\n"
                       "    var r = x;\n"
                       "    if (a >= 0x3f000000u) {\n"
                       "        var t = wf_turns(a);\n"
                       "        if (bitcast<u32>(x) != a) { t = 0u - t; }\n"
                       "        let n = (t + 0x20000000u) >> 30u;\n"
                       "        q = q + n;\n"
                       "        r = f32(bitcast<i32>(t - (n << 30u))) * 1.46291808e-9f;\n"
                       "    }\n"
                       "    let z = r * r;\n"
                       "    let s = r + r * z * (-0.166666672f + z * (0.00833332911f + z * (-0.000198393245f + z * 2.71821682e-6f)));\n"
                       "    let c = 1.0f - (0.5f * z - z * z * (0.0416666456f + z * (-0.00138873595f + z * 2.44375333e-5f)));\n"
                       "    let y = select(s, c, (q & 1u) == 1u);\n"
                       "    return bitcast<f32>(bitcast<u32>(y) ^ ((q & 2u) << 30u));\n"
                       "}\n"},
    {"wf_sin", "fn wf_sin(x: f32) -> f32 {\n"
               "    if ((bitcast<u32>(x) & 0x7fffffffu) < 0x39000000u) { return x; }\n"
               "    return wf_sin_quarter(x, 0u);\n"
               "}\n"},
    {"wf_cos", "fn wf_cos(x: f32) -> f32 { return wf_sin_quarter(x, 1u); }\n"},

    /* ---- tanh and erf: below 2 ulp. Subnormals are multiplied as integers of their unit. ---- */
    {"wf_tanh", "fn wf_tanh(x: f32) -> f32 {\n"
                "    let u = bitcast<u32>(x);\n"
                "    let a = u & 0x7fffffffu;\n"
                "    if (a > 0x7f800000u || a < 0x39000000u) { return x; }\n"
                "    if (a < 0x3f200000u) {\n"
                "        let z = x * x;\n"
                "        return x + x * z * (-0.333332807f + z * (0.133313835f + z * (-0.0537340008f + z * (0.0206181295f + z * -0.0056793117f))));\n"
                "    }\n"
                "    var y = 1.0f;\n"
                "    if (a < 0x41180000u) { y = 1.0f - 2.0f / (wf_exp(2.0f * bitcast<f32>(a)) + 1.0f); }\n"
                "    return bitcast<f32>(bitcast<u32>(y) | (u ^ a));\n"
                "}\n"},
    {"wf_erf", "fn wf_erf(x: f32) -> f32 {\n"
               "    let u = bitcast<u32>(x);\n"
               "    let a = u & 0x7fffffffu;\n"
               "    if (a > 0x7f800000u) { return x; }\n"
               "    if (a < 0x800000u) { return bitcast<f32>((u ^ a) | u32(f32(a) * 1.12837917f + 0.5f)); }\n"
               "    if (a < 0x3f600000u) {\n"
               "        let z = x * x;\n"
               "        return x * (1.12837916f + z * (-0.376125515f + z * (0.112824693f + z * (-0.0267916694f + z * (0.0050320439f + z * -0.000620026782f)))));\n"
               "    }\n"
               "    var y = 1.0f;\n"
               "    if (a < 0x40800000u) {\n"
               "        let t = bitcast<f32>(a);\n"
               "        let q = 0.0041367758f + t * (-0.000427349732f + t * 2.04772459e-5f);\n"
               "        let p = t * (1.12945402f + t * (0.633471072f + t * (0.108142301f + t * (-0.0250296891f + t * q))));\n"
               "        y = 1.0f - wf_exp(0.000162153272f - p);\n"
               "    }\n"
               "    return bitcast<f32>(bitcast<u32>(y) | (u ^ a));\n"
               "}\n"},

    /* ---- power: below 4 ulp. log2 of the base as 32-bit integers, the product with y as 56 bits. ---- */
    /* a b / 2^31 for signed a, b */
    {"wf_mul31", "fn wf_mul31(a: i32, b: i32) -> i32 {\n"
                 "    let h = wf_mulhi(u32(abs(a)), u32(abs(b)));\n"
                 "    let l = u32(abs(a)) * u32(abs(b));\n"
                 "    let p = i32((h << 1u) | (l >> 31u));\n"
                 "    return select(p, -p, (a ^ b) < 0);\n"
                 "}\n"},
    /* log2(1 + f) / f in 2^-30, for f = i / 2^31 in [-0.293, 0.4141] */
    {"wf_log2_slope", "fn wf_log2_slope(i: i32) -> i32 {\n"
                      "    let f = f32(i) * 4.656612873e-10f;\n"
                      "    let high = -0.134394243f + f * (0.134066835f + f * -0.0717106834f);\n"
                      "    let mid = 0.160257578f + f * (-0.142480776f + f * (0.129867032f + f * high));\n"
                      "    let low = 0.206105188f + f * (-0.18044053f + f * mid);\n"
                      "    var g = i32(low * 1073741824.0f);\n"
                      "    g = -258177191 + wf_mul31(g, i);\n"
                      "    g = 309816219 + wf_mul31(g, i);\n"
                      "    g = -387270540 + wf_mul31(g, i);\n"
                      "    g = 516360670 + wf_mul31(g, i);\n"
                      "    g = -774541002 + wf_mul31(g, i);\n"
                      "    return 1549082005 + wf_mul31(g, i);\n"
                      "}\n"},
    /* log2 of a finite positive float's bits, not 1: x significand, y 2^-y its unit, z sign */
    /* From here without branches: Mesa follows a condition that hangs on uniforms alone through every path of its
     * operands, which takes minutes for the power of one base. */
    {"wf_log2_parts", "fn wf_log2_parts(a: u32) -> vec3<u32> {\n"
                      "    let s = wf_significand(a);\n"
                      "    let high = s >= 0xb50000u;\n"
                      "    let e = wf_exponent(a) - select(127, 126, high);\n"
                      "    let f = bitcast<i32>(select(s << 8u, s << 7u, high) - 0x80000000u);\n"
                      "    let g = wf_log2_slope(f);\n"
                      "    let n = u32(abs(f));\n"
                      "    let near = countLeadingZeros(n) & 31u;\n"
                      "    let low = (wf_mulhi(n, u32(g)) << 3u) | ((n * u32(g)) >> 29u);\n"
                      "    let below = f < 0;\n"
                      "    let up = u32(e) - select(0u, 1u, below && low != 0u);\n"
                      "    let down = select(low, 0u - low, below);\n"
                      "    let sign = up >> 31u;\n"
                      "    let hi = select(up, ~up + select(0u, 1u, down == 0u), sign == 1u);\n"
                      "    let lo = select(down, 0u - down, sign == 1u);\n"
                      "    let small = hi == 0u;\n"
                      "    let z = countLeadingZeros(select(hi, lo, small)) & 31u;\n"
                      "    let top = select((hi << z) | (lo >> ((32u - z) & 31u)), lo << z, small);\n"
                      "    let far = vec3<u32>(top, select(z, 32u + z, small), sign);\n"
                      "    return select(far, vec3<u32>(wf_mulhi(n << near, u32(g) << 1u), 30u + near, u32(f) >> 31u), e == 0);\n"
                      "}\n"},
    /* |x|^y for finite nonzero x, y, from their bits */
    {"wf_pow_finite", "fn wf_pow_finite(a: u32, y: u32) -> f32 {\n"
                      "    let b = y & 0x7fffffffu;\n"
                      "    let trivial = a == 0x3f800000u || b < 0x20000000u;\n"
                      "    let l = wf_log2_parts(select(a, 0x40000000u, trivial));\n"
                      "    let m = (b & 0x7fffffu) | 0x800000u;\n"
                      "    let n = i32(l.y) + 118 - i32(b >> 23u);\n"
                      "    let negative = l.z != (y >> 31u);\n"
                      "    let high = wf_mulhi(l.x, m);\n"
                      "    let low = l.x * m;\n"
                      "    let s = u32(clamp(n, 13, 63));\n"
                      "    let t = s & 31u;\n"
                      "    let up = select(high >> t, 0u, s >= 32u);\n"
                      "    let down = select((low >> t) | (high << ((32u - t) & 31u)), high >> t, s >= 32u);\n"
                      "    let hi = select(up, ~up + select(0u, 1u, down == 0u), negative);\n"
                      "    let lo = select(down, 0u - down, negative);\n"
                      "    let k = bitcast<i32>(hi + (lo >> 31u));\n"
                      "    let r = f32(bitcast<i32>(lo)) * 2.3283064365386963e-10f;\n"
                      "    let q = 0.0555041097f + r * (0.00961803645f + r * (0.0013333431f + r * (0.000154671099f + r * 1.53149504e-5f)));\n"
                      "    let v = wf_scale(1.0f + r * (0.693147182f + r * (0.240226507f + r * q)), k);\n"
                      "    return select(select(v, wf_bits(select(0x7f800000u, 0u, negative)), n < 13), 1.0f, trivial || n >= 64);\n"
                      "}\n"},
    {"wf_pow", "fn wf_pow(x: f32, y: f32) -> f32 {\n"
               "    let ux = bitcast<u32>(x);\n"
               "    let uy = bitcast<u32>(y);\n"
               "    let a = ux & 0x7fffffffu;\n"
               "    let b = uy & 0x7fffffffu;\n"
               "    let shift = (150u - (b >> 23u)) & 31u;\n"
               "    let m = (b & 0x7fffffu) | 0x800000u;\n"
               "    let even = b >= 0x4b800000u;\n"
               "    let fits = !even && b >= 0x3f800000u && (m & ((1u << shift) - 1u)) == 0u;\n"
               "    let odd = fits && ((m >> shift) & 1u) == 1u;\n"
               "    let edge = select(0u, 0x7f800000u, (a > 0x3f800000u) == (uy == b));\n"
               "    let finite = a != 0u && a < 0x7f800000u;\n"
               "    let p = bitcast<u32>(wf_pow_finite(select(0x3f800000u, a, finite), select(uy, 0x3f800000u, b >= 0x7f800000u)));\n"
               "    let of_infinite = select(edge, 0x3f800000u, a == 0x3f800000u);\n"
               "    let size = select(edge, select(p, of_infinite, b == 0x7f800000u), finite);\n"
               "    let nan = a > 0x7f800000u || b > 0x7f800000u || (finite && ux != a && !even && !fits);\n"
               "    let v = select(size | select(0u, 0x80000000u, odd && ux != a), 0x7fc00000u, nan);\n"
               "    return wf_bits(select(v, 0x3f800000u, b == 0u || ux == 0x3f800000u));\n"
               "}\n"},
};

/* Whether `name` occurs in `text` as a whole identifier. */
static bool mentions(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = text; (p = strstr(p, name)) != NULL; p += n) {
        char before = p == text ? ' ' : p[-1], after = p[n];
#define IS_WORD(c) (((c) >= 'a' && (c) <= 'z') || ((c) >= 'A' && (c) <= 'Z') || ((c) >= '0' && (c) <= '9') || (c) == '_')
        if (!IS_WORD(before) && !IS_WORD(after))
            return true;
#undef IS_WORD
    }
    return false;
}

weft_status wf_wgsl_emit_helpers(const char *body, wf_str *out)
{
    bool needed[WF_COUNT(helpers)] = {false};
    for (size_t i = WF_COUNT(helpers); i-- > 0;) {
        needed[i] = mentions(body, helpers[i].name);
        for (size_t j = i + 1; !needed[i] && j < WF_COUNT(helpers); j++)
            needed[i] = needed[j] && mentions(helpers[j].text, helpers[i].name);
    }
    for (size_t i = 0; i < WF_COUNT(helpers); i++)
        if (needed[i])
            wf_str_add(out, helpers[i].text);
    return out->oom ? wf_fail_oom(out->len) : WEFT_OK;
}
