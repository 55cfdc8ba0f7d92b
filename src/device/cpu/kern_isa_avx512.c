/* kern_isa_avx512.c - the vector primitives for x86-64 with AVX-512 F and BW, with and without VNNI. */
#if defined(__x86_64__)
#include "kern.h"

#include <immintrin.h>

#define V 16
#define MR 12
#define NV 2
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))

TARGET static inline float half_to_float(uint16_t h) { return _cvtsh_ss(h); }
TARGET static inline void halves_to_floats(uint64_t h, float out[4])
{
    _mm_storeu_ps(out, _mm_cvtph_ps(_mm_cvtsi64_si128((int64_t)h)));
}
TARGET static inline __m512 isa_fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
TARGET static inline __m512 load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
TARGET static inline void store_f16(uint16_t *p, __m512 v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#define ISA_INT __m512i
TARGET static inline __m512i load_i8(const int8_t *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)); }
TARGET static inline __m512i load_u8(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)); }
TARGET static inline __m512i load_u16(const uint16_t *p) { return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)); }
TARGET static inline void store_i8(int8_t *p, __m512i v) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(v)); }

#define ISA_PAIR_DOT(a, b) (vi)_mm512_madd_epi16((__m512i)(a), (__m512i)(b))
#include "kern_simd.h"

#define IDOT_SUFFIX _bw
#define IDOT_TARGET TARGET
#include "kern_idot_x86.h"
#undef IDOT_SUFFIX
#undef IDOT_TARGET

#define IDOT_SUFFIX _vnni
#define IDOT_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")))
#define IDOT_VNNI _mm256_dpbusd_epi32
#include "kern_idot_x86.h"

const wf_kern_isa wf_kern_isa_avx512 = SIMD_ROW("avx512", false, idot_q8_0_bw, idot_q4_0_bw, idot_q4_1_bw);
const wf_kern_isa wf_kern_isa_avx512_vnni = SIMD_ROW("avx512-vnni", true, idot_q8_0_vnni, idot_q4_0_vnni, idot_q4_1_vnni);
#else
typedef int wf_kern_isa_avx512_absent;
#endif
