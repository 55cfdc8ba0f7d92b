/* kern_isa_avx2.c - the vector primitives for x86-64 with AVX2, FMA and F16C, with and without AVX-VNNI. */
#if defined(__x86_64__)
#include "kern.h"

#include <immintrin.h>

#define V 8
#define MR 6
#define NV 2
#define TARGET __attribute__((target("avx2,fma,f16c")))

TARGET static inline float half_to_float(uint16_t h) { return _cvtsh_ss(h); }
TARGET static inline void halves_to_floats(uint64_t h, float out[4])
{
    _mm_storeu_ps(out, _mm_cvtph_ps(_mm_cvtsi64_si128((int64_t)h)));
}
TARGET static inline __m256 isa_fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
TARGET static inline __m256 load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
TARGET static inline void store_f16(uint16_t *p, __m256 v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#define ISA_INT __m256i
TARGET static inline __m256i load_i8(const int8_t *p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
TARGET static inline __m256i load_u8(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)); }
TARGET static inline __m256i load_u16(const uint16_t *p) { return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)); }
TARGET static inline void store_i8(int8_t *p, __m256i v)
{
    const __m128i h = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(h, h));
}

#include "kern_simd.h"

#define IDOT_SUFFIX _avx2
#define IDOT_TARGET TARGET
#include "kern_idot_x86.h"
#undef IDOT_SUFFIX
#undef IDOT_TARGET

#define IDOT_SUFFIX _vnni
#define IDOT_TARGET __attribute__((target("avx2,fma,f16c,avxvnni")))
#define IDOT_VNNI _mm256_dpbusd_avx_epi32
#include "kern_idot_x86.h"

const wf_kern_isa wf_kern_isa_avx2 = SIMD_ROW("avx2", false, idot_q8_0_avx2, idot_q4_0_avx2, idot_q4_1_avx2);
const wf_kern_isa wf_kern_isa_avx2_vnni = SIMD_ROW("avx2-vnni", true, idot_q8_0_vnni, idot_q4_0_vnni, idot_q4_1_vnni);
#else
typedef int wf_kern_isa_avx2_absent;
#endif
