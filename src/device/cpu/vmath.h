/* vmath.h - elementary functions over arrays of f32, for hand-written kernels.
 *
 * Errors are at most 2 ulp (tanh, erf: 3; pow: 1) over the whole range, NaN, infinities and subnormal
 * numbers included; the tests measure them. d may be a.
 */
#ifndef WF_VMATH_H
#define WF_VMATH_H

#include <stdint.h>

void wf_vexp(float *d, const float *a, int64_t n);
void wf_vlog(float *d, const float *a, int64_t n);
void wf_vsin(float *d, const float *a, int64_t n);
void wf_vcos(float *d, const float *a, int64_t n);
void wf_vtanh(float *d, const float *a, int64_t n);
void wf_verf(float *d, const float *a, int64_t n);
void wf_vpow(float *d, const float *a, const float *b, int64_t n);
/* Rounding to nearest even, overflow to infinity, subnormals kept. */
void wf_vf16_to_f32(float *d, const uint16_t *a, int64_t n);
void wf_vf32_to_f16(uint16_t *d, const float *a, int64_t n);
void wf_vbf16_to_f32(float *d, const uint16_t *a, int64_t n);
void wf_vf32_to_bf16(uint16_t *d, const float *a, int64_t n);

#endif
