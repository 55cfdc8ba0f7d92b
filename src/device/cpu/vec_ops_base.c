/* vec_ops_base.c - the vector loops for the processor every build of this architecture runs on (SSE2, NEON). */
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <math.h>

#include "vec_ops.h"

#if defined(__aarch64__)
#define WF_VEC_HAS_FMA 1
#endif
#define WF_VEC_TABLE wf_vec_ops_base
#define WF_VEC_NAME "base"
#include "vec_ops.inc"
