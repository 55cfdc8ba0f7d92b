/* kern_isa_neon.c - the vector primitives for 64-bit Arm, with and without the dot product instruction. */
#if defined(__aarch64__)
#include "kern.h"

#include <arm_neon.h>

#define V 4
#define MR 6
#define NV 4
#define TARGET

static inline float32x4_t isa_fma(float32x4_t a, float32x4_t b, float32x4_t c) { return vfmaq_f32(c, a, b); }
static inline float half_to_float(uint16_t h)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}
static inline void halves_to_floats(uint64_t h, float out[4]) { vst1q_f32(out, vcvt_f32_f16(vreinterpret_f16_u64(vcreate_u64(h)))); }
static inline float32x4_t load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
static inline void store_f16(uint16_t *p, float32x4_t v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }
#define ISA_INT int32x4_t
static inline uint64_t four_bytes(const void *p)
{
    uint32_t bits;
    memcpy(&bits, p, 4);
    return bits;
}
static inline int32x4_t load_i8(const int8_t *p) { return vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four_bytes(p))))); }
static inline int32x4_t load_u8(const uint8_t *p)
{
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(four_bytes(p))))));
}
static inline int32x4_t load_u16(const uint16_t *p) { return vreinterpretq_s32_u32(vmovl_u16(vld1_u16(p))); }
static inline void store_i8(int8_t *p, int32x4_t v)
{
    const int16x4_t h = vmovn_s32(v);
    const uint32_t bits = vget_lane_u32(vreinterpret_u32_s8(vmovn_s16(vcombine_s16(h, h))), 0);
    memcpy(p, &bits, 4);
}

#include "kern_simd.h"

/* ---- integer dot products ---- */
/* The 32 values of a block in element order; Q4_1's are 0 .. 15. */
static inline void block_bytes_of(int type, const uint8_t *block, int8x16_t v[2])
{
    if (type == WF_KERN_Q8_0) {
        v[0] = vld1q_s8((const int8_t *)block + 2);
        v[1] = vld1q_s8((const int8_t *)block + 18);
        return;
    }
    const uint8x16_t b = vld1q_u8(block + (type == WF_KERN_Q4_0 ? 2 : 4));
    v[0] = vreinterpretq_s8_u8(vandq_u8(b, vdupq_n_u8(15)));
    v[1] = vreinterpretq_s8_u8(vshrq_n_u8(b, 4));
    if (type == WF_KERN_Q4_0) {
        v[0] = vsubq_s8(v[0], vdupq_n_s8(8));
        v[1] = vsubq_s8(v[1], vdupq_n_s8(8));
    }
}
static inline int32x4_t sum_base(const int8x16_t w[2], const int8x16_t x[2])
{
    int32x4_t sum = vdupq_n_s32(0);
    for (int i = 0; i < 2; i++) {
        sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(w[i]), vget_low_s8(x[i])));
        sum = vpadalq_s16(sum, vmull_high_s8(w[i], x[i]));
    }
    return sum;
}
#define DOT_TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
DOT_TARGET static inline int32x4_t sum_dot(const int8x16_t w[2], const int8x16_t x[2])
{
    return vdotq_s32(vdotq_s32(vdupq_n_s32(0), w[0], x[0]), w[1], x[1]);
}

/* One body, compiled for each of the two sums. */
#define IDOT_FN(name, type, target, sum_of)                                                                            \
    target static void name(const uint8_t *w, size_t row_bytes, int rows, const int8_t *q, const float *d,             \
                            const float *s, int nx, int64_t blocks, float *out)                                        \
    {                                                                                                                  \
        for (int r = 0; r < rows; r++, w += row_bytes, out += 4) {                                                     \
            float32x4_t acc[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};                     \
            float low[4] = {0};                                                                                        \
            for (int64_t b = 0; b < blocks; b++) {                                                                     \
                const uint8_t *block = w + (size_t)b * block_bytes[type];                                              \
                int8x16_t v[2];                                                                                        \
                block_bytes_of(type, block, v);                                                                        \
                for (int j = 0; j < nx; j++) {                                                                         \
                    const int64_t at = j * blocks + b;                                                                 \
                    const int8x16_t x[2] = {vld1q_s8(q + at * WF_QK), vld1q_s8(q + at * WF_QK + 16)};                  \
                    acc[j] = vfmaq_n_f32(acc[j], vcvtq_f32_s32(sum_of(v, x)), half_at(block) * d[at]);                 \
                    if (type == WF_KERN_Q4_1)                                                                          \
                        low[j] += half_at(block + 2) * s[at];                                                          \
                }                                                                                                      \
            }                                                                                                          \
            for (int j = 0; j < nx; j++)                                                                               \
                out[j] = vaddvq_f32(acc[j]) + low[j];                                                                  \
        }                                                                                                              \
    }
IDOT_FN(idot_q8_0, WF_KERN_Q8_0, , sum_base)
IDOT_FN(idot_q4_0, WF_KERN_Q4_0, , sum_base)
IDOT_FN(idot_q4_1, WF_KERN_Q4_1, , sum_base)
IDOT_FN(idot_q8_0_dot, WF_KERN_Q8_0, DOT_TARGET, sum_dot)
IDOT_FN(idot_q4_0_dot, WF_KERN_Q4_0, DOT_TARGET, sum_dot)
IDOT_FN(idot_q4_1_dot, WF_KERN_Q4_1, DOT_TARGET, sum_dot)

const wf_kern_isa wf_kern_isa_neon = SIMD_ROW("neon", false, idot_q8_0, idot_q4_0, idot_q4_1);
const wf_kern_isa wf_kern_isa_neon_dot = SIMD_ROW("neon-dot", true, idot_q8_0_dot, idot_q4_0_dot, idot_q4_1_dot);
#else
typedef int wf_kern_isa_neon_absent;
#endif
