/* half.c - f16 and bf16 in integer arithmetic: the same bits on every machine. */
#include "base.h"

static inline uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

uint16_t wf_f32_to_f16(float f)
{
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u) /* NaN: keep the top of the payload, and quiet */
        return (uint16_t)(sign | 0x7e00u | (mag >> 13 & 0x1ffu));
    if (mag >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (mag >= 0x38800000u) { /* normal in f16: rebias the exponent by 127 - 15, round on 13 bits */
        uint32_t odd = mag >> 13 & 1;
        return (uint16_t)(sign | ((mag - (112u << 23) + 0xfffu + odd) >> 13));
    }
    if (mag < 0x33000000u) /* below half of the smallest subnormal, 2^-25 */
        return (uint16_t)sign;
    uint32_t exponent = mag >> 23, shift = 126 - exponent; /* 14 .. 24 */
    uint32_t m = (mag & 0x7fffffu) | 0x800000u, q = m >> shift;
    uint32_t rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
    q += rest > half || (rest == half && (q & 1));
    return (uint16_t)(sign | q);
}

float wf_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, mag = h & 0x7fffu;
    if (mag >= 0x7c00u)
        return float_of(sign | 0x7f800000u | (mag & 0x3ffu) << 13);
    if (mag >= 0x0400u)
        return float_of(sign | ((mag << 13) + (112u << 23)));
    float f = (float)mag * 0x1p-24f; /* exact */
    return float_of(bits_of(f) | sign);
}

uint16_t wf_f32_to_bf16(float f)
{
    uint32_t u = bits_of(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

uint16_t wf_f64_to_f16(double d)
{
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    uint32_t sign = (uint32_t)(u >> 48) & 0x8000u;
    uint64_t mag = u & 0x7fffffffffffffffu;
    if (mag > 0x7ff0000000000000u)
        return (uint16_t)(sign | 0x7e00u | (uint32_t)(mag >> 42 & 0x1ffu));
    if (mag >= 0x40effe0000000000u) /* 65520 */
        return (uint16_t)(sign | 0x7c00u);
    if (mag >= 0x3f10000000000000u) { /* 2^-14: rebias by 1023 - 15, round on 42 bits */
        uint64_t odd = mag >> 42 & 1;
        return (uint16_t)(sign | (uint32_t)((mag - ((uint64_t)1008 << 52) + 0x1ffffffffffu + odd) >> 42));
    }
    if (mag < 0x3e60000000000000u) /* 2^-25 */
        return (uint16_t)sign;
    uint64_t shift = 1051 - (mag >> 52); /* 43 .. 53 */
    uint64_t m = (mag & 0xfffffffffffffu) | 0x10000000000000u, q = m >> shift;
    uint64_t rest = m & (((uint64_t)1 << shift) - 1), half = (uint64_t)1 << (shift - 1);
    q += rest > half || (rest == half && (q & 1));
    return (uint16_t)(sign | (uint32_t)q);
}
