/* kern_isa_plain.c - the vector primitives for any processor, and the plain integer dot products that the
 * instruction-set files are tested against. */
#include "kern.h"

#define V 4
#define MR 6
#define NV 2
#define TARGET

static inline float half_to_float(uint16_t h) { return wf_f16_to_f32(h); }
static inline void halves_to_floats(uint64_t h, float out[4])
{
    for (int i = 0; i < 4; i++)
        out[i] = wf_f16_to_f32((uint16_t)(h >> 16 * i));
}
typedef float plain_v4 __attribute__((vector_size(16)));
static inline plain_v4 isa_fma(plain_v4 a, plain_v4 b, plain_v4 c) { return a * b + c; }
static inline plain_v4 load_f16(const uint16_t *p)
{
    return (plain_v4){wf_f16_to_f32(p[0]), wf_f16_to_f32(p[1]), wf_f16_to_f32(p[2]), wf_f16_to_f32(p[3])};
}
static inline void store_f16(uint16_t *p, plain_v4 v)
{
    for (int i = 0; i < 4; i++)
        p[i] = wf_f32_to_f16(v[i]);
}
typedef int32_t plain_i4 __attribute__((vector_size(16)));
#define ISA_INT plain_i4
static inline plain_i4 load_i8(const int8_t *p) { return (plain_i4){p[0], p[1], p[2], p[3]}; }
static inline plain_i4 load_u8(const uint8_t *p) { return (plain_i4){p[0], p[1], p[2], p[3]}; }
static inline plain_i4 load_u16(const uint16_t *p) { return (plain_i4){p[0], p[1], p[2], p[3]}; }
static inline void store_i8(int8_t *p, plain_i4 v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (int8_t)v[i];
}

#include "kern_simd.h"

/* Sum of products of one block in integers; Q4_0 is shifted by 8, Q4_1's minimum is the caller's. */
static int32_t block_idot(int type, const uint8_t *block, const int8_t *x)
{
    int32_t sum = 0;
    if (type == WF_KERN_Q8_0) {
        for (int i = 0; i < WF_QK; i++)
            sum += (int8_t)block[2 + i] * x[i];
        return sum;
    }
    const uint8_t *q = block + (type == WF_KERN_Q4_0 ? 2 : 4);
    const int shift = type == WF_KERN_Q4_0 ? 8 : 0;
    for (int i = 0; i < WF_QK / 2; i++)
        sum += ((q[i] & 15) - shift) * x[i] + ((q[i] >> 4) - shift) * x[i + WF_QK / 2];
    return sum;
}
static void idot_any(int type, const uint8_t *w, size_t row_bytes, int rows, const int8_t *q, const float *d, const float *s, int nx,
                     int64_t blocks, float *out)
{
    for (int i = 0; i < rows * nx; i++) {
        const int r = i / nx, j = i % nx;
        float acc = 0;
        for (int64_t b = 0; b < blocks; b++) {
            const uint8_t *block = w + (size_t)r * row_bytes + (size_t)b * block_bytes[type];
            acc += half_at(block) * d[j * blocks + b] * (float)block_idot(type, block, q + (j * blocks + b) * WF_QK);
            if (type == WF_KERN_Q4_1)
                acc += half_at(block + 2) * s[j * blocks + b];
        }
        out[r * 4 + j] = acc;
    }
}
#define IDOT_FN(name, type)                                                                                                \
    static void name(const uint8_t *w, size_t row_bytes, int rows, const int8_t *q, const float *d, const float *s, int nx, \
                     int64_t blocks, float *out)                                                                           \
    {                                                                                                                      \
        idot_any(type, w, row_bytes, rows, q, d, s, nx, blocks, out);                                                      \
    }
IDOT_FN(idot_q8_0, WF_KERN_Q8_0)
IDOT_FN(idot_q4_0, WF_KERN_Q4_0)
IDOT_FN(idot_q4_1, WF_KERN_Q4_1)

const wf_kern_isa wf_kern_isa_plain = SIMD_ROW("plain", false, idot_q8_0, idot_q4_0, idot_q4_1);
