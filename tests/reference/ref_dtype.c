/* ref_dtype.c - values of each dtype: rounding, conversion, bytes; block types decoded from their layout. */
#include "ref.h"

#include <math.h>
#include <string.h>

typedef struct dtype_row {
    const char *name;
    int bytes; /* of an element; of a block of 32 for block types */
    int mantissa, min_exponent, max_exponent; /* floats: stored mantissa bits; exponents of normal numbers */
    int bits;                                 /* integers; negative: signed */
    int rank;                                 /* order of promotion */
} dtype_row;

static const dtype_row rows[] = {
    [REF_F32] = {"f32", 4, 23, -126, 127, 0, 8},   [REF_F16] = {"f16", 2, 10, -14, 15, 0, 7},
    [REF_BF16] = {"bf16", 2, 7, -126, 127, 0, 7},  [REF_F64] = {"f64", 8, 52, -1022, 1023, 0, 9},
    [REF_I32] = {"i32", 4, 0, 0, 0, -32, 3},       [REF_U32] = {"u32", 4, 0, 0, 0, 32, 4},
    [REF_I8] = {"i8", 1, 0, 0, 0, -8, 1},          [REF_U8] = {"u8", 1, 0, 0, 0, 8, 1},
    [REF_I64] = {"i64", 8, 0, 0, 0, -64, 5},       [REF_BOOL] = {"bool", 1, 0, 0, 0, 0, 0},
    [REF_Q8_0] = {.name = "q8_0", .bytes = 34},    [REF_Q4_0] = {.name = "q4_0", .bytes = 18},
    [REF_Q4_1] = {.name = "q4_1", .bytes = 20},
};

int ref_dtype_of(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return (int)i;
    return -1;
}

bool ref_is_float(ref_dtype t)
{
    return rows[t].mantissa > 0;
}

double ref_eps(ref_dtype t)
{
    return ref_is_float(t) ? ldexp(1, -rows[t].mantissa - 1) : 0;
}

double ref_min_normal(ref_dtype t)
{
    return ref_is_float(t) ? ldexp(1, rows[t].min_exponent) : 0;
}

double ref_overflow(ref_dtype t)
{
    if (!ref_is_float(t) || t == REF_F64)
        return INFINITY;
    return ldexp(2 - ldexp(1, -rows[t].mantissa - 1), rows[t].max_exponent);
}

size_t ref_bytes(ref_dtype t, int64_t n)
{
    return (size_t)(t >= REF_Q8_0 ? n / 32 : n) * (size_t)rows[t].bytes;
}

static double round_float(const dtype_row *r, long double v)
{
    int exponent;
    if (v == 0 || !isfinite(v))
        return (double)v;
    frexpl(v, &exponent); /* |v| in [2^(exponent-1), 2^exponent) */
    int unit = (exponent - 1 > r->min_exponent ? exponent - 1 : r->min_exponent) - r->mantissa;
    long double q = ldexpl(nearbyintl(ldexpl(v, -unit)), unit);
    if (fabsl(q) >= ldexpl(1, r->max_exponent + 1))
        return v > 0 ? INFINITY : -INFINITY;
    return (double)q;
}

static double wrap(const dtype_row *r, long double v)
{
    int bits = r->bits < 0 ? -r->bits : r->bits;
    long double size = ldexpl(1, bits), half = size / 2;
    v = truncl(v);
    v -= size * floorl(v / size);
    return (double)(r->bits < 0 && v >= half ? v - size : v);
}

double ref_round(ref_dtype t, long double v)
{
    if (t == REF_BOOL)
        return v != 0;
    return ref_is_float(t) ? round_float(&rows[t], v) : wrap(&rows[t], v);
}

double ref_cast(ref_dtype from, ref_dtype to, double v)
{
    if (!ref_is_float(from) || ref_is_float(to) || to == REF_BOOL)
        return ref_round(to, v);
    int bits = rows[to].bits;
    double low = bits < 0 ? -ldexp(1, -bits - 1) : 0, high = bits < 0 ? ldexp(1, -bits - 1) - 1 : ldexp(1, bits) - 1;
    if (isnan(v))
        return 0;
    v = trunc(v);
    return v < low ? low : v > high ? high : v;
}

/* ---- bytes ---- */

static uint64_t half_bits(const dtype_row *r, double v)
{
    int exponent, width = 8 * r->bytes - 1 - r->mantissa;
    uint64_t sign = (uint64_t)(signbit(v) != 0) << (8 * r->bytes - 1), all = (1u << width) - 1;
    if (isnan(v))
        return sign | all << r->mantissa | (uint64_t)1 << (r->mantissa - 1);
    if (isinf(v))
        return sign | all << r->mantissa;
    v = fabs(v);
    if (v < ldexp(1, r->min_exponent)) /* subnormal or zero */
        return sign | (uint64_t)ldexp(v, r->mantissa - r->min_exponent);
    frexp(v, &exponent);
    uint64_t fraction = (uint64_t)(ldexp(v, r->mantissa - (exponent - 1)) - ldexp(1, r->mantissa));
    return sign | (uint64_t)(exponent - r->min_exponent) << r->mantissa | fraction;
}

static double half_value(const dtype_row *r, uint64_t bits)
{
    int width = 8 * r->bytes - 1 - r->mantissa, all = (1 << width) - 1;
    int exponent = (int)(bits >> r->mantissa) & all;
    double fraction = (double)(bits & (((uint64_t)1 << r->mantissa) - 1)), v;
    if (exponent == all)
        v = fraction != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        v = ldexp(fraction, r->min_exponent - r->mantissa);
    else
        v = ldexp(fraction + ldexp(1, r->mantissa), exponent - 1 + r->min_exponent - r->mantissa);
    return bits >> (8 * r->bytes - 1) ? -v : v;
}

void ref_encode(ref_dtype t, const double *src, int64_t n, void *dst)
{
    for (int64_t i = 0; i < n; i++)
        switch (t) {
        case REF_F32: ((float *)dst)[i] = (float)src[i]; break;
        case REF_F64: ((double *)dst)[i] = src[i]; break;
        case REF_F16: case REF_BF16: ((uint16_t *)dst)[i] = (uint16_t)half_bits(&rows[t], src[i]); break;
        case REF_I32: ((int32_t *)dst)[i] = (int32_t)src[i]; break;
        case REF_U32: ((uint32_t *)dst)[i] = (uint32_t)src[i]; break;
        case REF_I64: ((int64_t *)dst)[i] = (int64_t)src[i]; break;
        case REF_I8: ((int8_t *)dst)[i] = (int8_t)src[i]; break;
        default: ((uint8_t *)dst)[i] = (uint8_t)src[i]; break;
        }
}

static double f16_at(const uint8_t *p)
{
    return half_value(&rows[REF_F16], (uint64_t)p[0] | (uint64_t)p[1] << 8);
}

/* Blocks of 32 as GGUF lays them out: q8_0 {scale, 32 x i8}; q4_0 {scale, 16 bytes}; q4_1 {scale, minimum, 16
 * bytes}; byte j holds element j in its low and element 16 + j in its high four bits. */
static void decode_block(ref_dtype t, const uint8_t *p, double *dst)
{
    double d = f16_at(p);
    for (int j = 0; j < 32; j++) {
        if (t == REF_Q8_0) {
            dst[j] = d * (int8_t)p[2 + j];
            continue;
        }
        const uint8_t *q = p + (t == REF_Q4_0 ? 2 : 4);
        int nibble = j < 16 ? q[j] & 15 : q[j - 16] >> 4;
        dst[j] = t == REF_Q4_0 ? d * (nibble - 8) : d * nibble + f16_at(p + 2);
    }
}

void ref_decode(ref_dtype t, const void *src, int64_t n, double *dst)
{
    if (t >= REF_Q8_0) {
        for (int64_t b = 0; b < n / 32; b++)
            decode_block(t, (const uint8_t *)src + ref_bytes(t, 32) * (size_t)b, dst + 32 * b);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        switch (t) {
        case REF_F32: dst[i] = ((const float *)src)[i]; break;
        case REF_F64: dst[i] = ((const double *)src)[i]; break;
        case REF_F16: case REF_BF16: dst[i] = half_value(&rows[t], ((const uint16_t *)src)[i]); break;
        case REF_I32: dst[i] = ((const int32_t *)src)[i]; break;
        case REF_U32: dst[i] = ((const uint32_t *)src)[i]; break;
        case REF_I64: dst[i] = (double)((const int64_t *)src)[i]; break;
        case REF_I8: dst[i] = ((const int8_t *)src)[i]; break;
        default: dst[i] = ((const uint8_t *)src)[i]; break;
        }
}

/* bool < u8, i8 < i32 < u32 < i64 < f16, bf16 < f32 < f64, with three exceptions. */
ref_dtype ref_promote(ref_dtype a, ref_dtype b)
{
    if (a == b)
        return a;
    if (rows[a].rank == rows[b].rank)
        return ref_is_float(a) ? REF_F32 : REF_I32;
    ref_dtype high = rows[a].rank > rows[b].rank ? a : b, low = high == a ? b : a;
    return high == REF_U32 && low == REF_I32 ? REF_I64 : high;
}
