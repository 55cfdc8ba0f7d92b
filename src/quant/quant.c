/* quant.c - the block types of GGUF files that weft computes with: decode and encode, one row each.
 *
 * A block is f16 numbers (scale, minimum), then quants. 4-bit quants pair element i (low half) with
 * i + 16 (high half). Encoding follows the rounding that ggml documents, so that files made here and
 * there are equal; decoding multiplies an integer of at most 8 bits with an 11-bit scale, which is
 * exact in f32, so the result does not depend on whether the compiler fuses the following addition.
 */
#include <math.h>

#include "quant.h"

enum { BLOCK = 32, HALF = BLOCK / 2 };

static inline uint16_t get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline void put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void f16_decode(const void *src, float *dst, int64_t n)
{
    const uint8_t *p = src;
    for (int64_t i = 0; i < n; i++)
        dst[i] = wf_f16_to_f32(get16(p + 2 * i));
}

static void f16_encode(const float *src, void *dst, int64_t n)
{
    uint8_t *p = dst;
    for (int64_t i = 0; i < n; i++)
        put16(p + 2 * i, wf_f32_to_f16(src[i]));
}

static void bf16_decode(const void *src, float *dst, int64_t n)
{
    const uint8_t *p = src;
    for (int64_t i = 0; i < n; i++)
        dst[i] = wf_bf16_to_f32(get16(p + 2 * i));
}

static void bf16_encode(const float *src, void *dst, int64_t n)
{
    uint8_t *p = dst;
    for (int64_t i = 0; i < n; i++)
        put16(p + 2 * i, wf_f32_to_bf16(src[i]));
}

static void q8_0_decode(const void *src, float *dst, int64_t n_blocks)
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n_blocks; b++, p += 34, dst += BLOCK) {
        float d = wf_f16_to_f32(get16(p));
        const int8_t *q = (const int8_t *)(p + 2);
        for (int i = 0; i < BLOCK; i++)
            dst[i] = (float)q[i] * d;
    }
}

static void q4_0_decode(const void *src, float *dst, int64_t n_blocks)
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n_blocks; b++, p += 18, dst += BLOCK) {
        float d = wf_f16_to_f32(get16(p));
        for (int i = 0; i < HALF; i++) {
            dst[i] = (float)((p[2 + i] & 15) - 8) * d;
            dst[i + HALF] = (float)((p[2 + i] >> 4) - 8) * d;
        }
    }
}

static void q4_1_decode(const void *src, float *dst, int64_t n_blocks)
{
    const uint8_t *p = src;
    for (int64_t b = 0; b < n_blocks; b++, p += 20, dst += BLOCK) {
        float d = wf_f16_to_f32(get16(p)), m = wf_f16_to_f32(get16(p + 2));
        for (int i = 0; i < HALF; i++) {
            dst[i] = (float)(p[4 + i] & 15) * d + m;
            dst[i + HALF] = (float)(p[4 + i] >> 4) * d + m;
        }
    }
}

/* Integers out of floats that may be NaN or infinite (an f32 weight can be): a conversion out of range is
 * undefined in C. */
static inline int clamp_int(float f, int lo, int hi)
{
    return f >= (float)hi ? hi : f > (float)lo ? (int)f : lo;
}

static void q8_0_encode(const float *x, void *dst, int64_t n_blocks)
{
    uint8_t *p = dst;
    for (int64_t b = 0; b < n_blocks; b++, p += 34, x += BLOCK) {
        float most = 0;
        for (int i = 0; i < BLOCK; i++)
            most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        float d = most / 127.0f, inverse = d != 0 ? 1.0f / d : 0;
        put16(p, wf_f32_to_f16(d));
        for (int i = 0; i < BLOCK; i++)
            p[2 + i] = (uint8_t)(int8_t)clamp_int(roundf(x[i] * inverse), -127, 127);
    }
}

/* Two roundings, never one: a fused multiply-add here would give other codes than ggml's. */
static inline int round4(float x, float inverse, float offset)
{
    volatile float product = x * inverse;
    return clamp_int(product + offset, 0, 15);
}

static void pack4(const float *x, float low, float inverse, float offset, uint8_t *q)
{
    for (int i = 0; i < HALF; i++)
        q[i] = (uint8_t)(round4(x[i] - low, inverse, offset) | round4(x[i + HALF] - low, inverse, offset) << 4);
}

static void q4_0_encode(const float *x, void *dst, int64_t n_blocks)
{
    uint8_t *p = dst;
    for (int64_t b = 0; b < n_blocks; b++, p += 18, x += BLOCK) {
        float most = 0; /* signed: the value of largest magnitude becomes code 0, which is -8 */
        for (int i = 0; i < BLOCK; i++)
            most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
        float d = most / -8.0f;
        put16(p, wf_f32_to_f16(d));
        pack4(x, 0, d != 0 ? 1.0f / d : 0, 8.5f, p + 2);
    }
}

static void q4_1_encode(const float *x, void *dst, int64_t n_blocks)
{
    uint8_t *p = dst;
    for (int64_t b = 0; b < n_blocks; b++, p += 20, x += BLOCK) {
        float low = x[0], high = x[0];
        for (int i = 1; i < BLOCK; i++) {
            low = x[i] < low ? x[i] : low;
            high = x[i] > high ? x[i] : high;
        }
        float d = (high - low) / 15.0f;
        put16(p, wf_f32_to_f16(d));
        put16(p + 2, wf_f32_to_f16(low));
        pack4(x, low, d != 0 ? 1.0f / d : 0, 0.5f, p + 4);
    }
}

static const wf_quant_codec table[] = {
    {WEFT_DTYPE_F16, 1, 2, 0, 0, f16_decode, f16_encode},
    {WEFT_DTYPE_BF16, 1, 2, 0, 0, bf16_decode, bf16_encode},
    {WEFT_DTYPE_Q8_0, 32, 34, 32, 1, q8_0_decode, q8_0_encode},
    {WEFT_DTYPE_Q4_0, 32, 18, 16, 1, q4_0_decode, q4_0_encode},
    {WEFT_DTYPE_Q4_1, 32, 20, 16, 2, q4_1_decode, q4_1_encode},
};

const wf_quant_codec *wf_quant_find(weft_dtype dtype)
{
    for (size_t i = 0; i < WF_COUNT(table); i++)
        if (table[i].dtype == dtype)
            return &table[i];
    return NULL;
}

static weft_status codec_for(const char *what, weft_dtype dtype, int64_t n, const wf_quant_codec **out)
{
    const wf_quant_codec *c = wf_quant_find(dtype);
    if (!c)
        return wf_fail(WEFT_E_DTYPE, "%s: dtype number %d has no codec", what, (int)dtype);
    if (n < 0 || n % c->block)
        return wf_fail(WEFT_E_SHAPE, "%s: %lld elements, expected a multiple of %d", what, (long long)n, c->block);
    *out = c;
    return WEFT_OK;
}

weft_status wf_quant_decode(weft_dtype dtype, const void *src, float *dst, int64_t n)
{
    const wf_quant_codec *c;
    WF_TRY(codec_for("decode", dtype, n, &c));
    c->decode(src, dst, n / c->block);
    return WEFT_OK;
}

weft_status wf_quant_encode(weft_dtype dtype, const float *src, void *dst, int64_t n)
{
    const wf_quant_codec *c;
    WF_TRY(codec_for("encode", dtype, n, &c));
    c->encode(src, dst, n / c->block);
    return WEFT_OK;
}
