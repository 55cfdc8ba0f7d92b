/* vmath.c - array functions on top of the table of vector loops. In-place calls go through a small block,
 * since the loops of the table may not overlap. */
#include "vmath.h"
#include "vec_ops.h"

enum { BLOCK = 512 };

static void apply(wf_vec1 fn, float *d, const float *a, int64_t n)
{
    if (d + n <= a || a + n <= d) {
        fn(d, a, n);
        return;
    }
    float copy[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = WF_MIN(n - i, (int64_t)BLOCK);
        memcpy(copy, a + i, (size_t)m * sizeof *a);
        fn(d + i, copy, m);
    }
}

#define UNARY(name, op)                                               \
    void name(float *d, const float *a, int64_t n)                    \
    {                                                                 \
        apply(wf_vec_ops_get()->unary[WF_KOP_##op][WF_KTY_F32], d, a, n); \
    }
UNARY(wf_vexp, EXP)
UNARY(wf_vlog, LOG)
UNARY(wf_vsin, SIN)
UNARY(wf_vcos, COS)
UNARY(wf_vtanh, TANH)
UNARY(wf_verf, ERF)

void wf_vpow(float *d, const float *a, const float *b, int64_t n)
{
    float out[BLOCK];
    wf_vec2 fn = wf_vec_ops_get()->binary[WF_KOP_POW][WF_KTY_F32];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = WF_MIN(n - i, (int64_t)BLOCK);
        fn(out, a + i, b + i, m);
        memcpy(d + i, out, (size_t)m * sizeof *d);
    }
}

void wf_vf16_to_f32(float *d, const uint16_t *a, int64_t n) { wf_vec_ops_get()->load[WEFT_DTYPE_F16](d, a, n); }
void wf_vf32_to_f16(uint16_t *d, const float *a, int64_t n) { wf_vec_ops_get()->store[WEFT_DTYPE_F16](d, a, n); }
void wf_vbf16_to_f32(float *d, const uint16_t *a, int64_t n) { wf_vec_ops_get()->load[WEFT_DTYPE_BF16](d, a, n); }
void wf_vf32_to_bf16(uint16_t *d, const float *a, int64_t n) { wf_vec_ops_get()->store[WEFT_DTYPE_BF16](d, a, n); }
