/* vec_ops_avx2.c - the vector loops with avx2, fma, f16c. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#include <immintrin.h>
#include <math.h>

#include "vec_ops.h"

#define WF_VEC_HAS_FMA 1
#define WF_VEC_HAS_F16C 1
#define WF_VEC_STREAM 1
#define WF_VEC_TABLE wf_vec_ops_avx2
#define WF_VEC_NAME "avx2"
#include "vec_ops.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int wf_vec_ops_avx2_unused; /* an empty file is no C */
#endif
