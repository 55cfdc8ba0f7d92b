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

/* The loop of the matrix microkernel, 6 x 16, in assembly: compilers spill an accumulator and load a rows ahead, and the
 * way through memory is then as long as the sums themselves (GCC 12, Zen 3: 0.88 of this from the first-level cache). Sums
 * are those of micro_sum in kern_simd.h, bit for bit. */
#define ISA_HAS_MICRO_SUM
#define PAIR(x, y, r0, r1)                                                                                        \
    "vbroadcastss " x "(%[a]), %[p]\n\tvbroadcastss " y "(%[a]), %[q]\n\t"                                        \
    "vfmadd231ps %[u], %[p], %[c" #r0 "0]\n\tvfmadd231ps %[v], %[p], %[c" #r0 "1]\n\t"                            \
    "vfmadd231ps %[u], %[q], %[c" #r1 "0]\n\tvfmadd231ps %[v], %[q], %[c" #r1 "1]\n\t"
#define STEP(b0, b1, a0, a1, a2, a3, a4, a5) \
    "vmovups " b0 "(%[b]), %[u]\n\tvmovups " b1 "(%[b]), %[v]\n\t" PAIR(a0, a1, 0, 1) PAIR(a2, a3, 2, 3) PAIR(a4, a5, 4, 5)
#define ZERO(i) "vxorps %[c" #i "0], %[c" #i "0], %[c" #i "0]\n\tvxorps %[c" #i "1], %[c" #i "1], %[c" #i "1]\n\t"
#define SUMS(i) [c##i##0] "=&x"(acc[i][0]), [c##i##1] "=&x"(acc[i][1])
TARGET static inline __attribute__((always_inline)) void micro_sum(int64_t kc, const float *a, const float *b, __m256 acc[MR][NV])
{
    __m256 p, q, u, v;
    int64_t fours = kc / 4, rest = kc % 4;
    __asm__ volatile(ZERO(0) ZERO(1) ZERO(2) ZERO(3) ZERO(4) ZERO(5)
                     "test %[fours], %[fours]\n\tjz 2f\n\t.p2align 5\n1:\n\t"
                     "prefetcht0 768(%[a])\n\tprefetcht0 832(%[a])\n\t"
                     STEP("0", "32", "0", "4", "8", "12", "16", "20")
                     STEP("64", "96", "24", "28", "32", "36", "40", "44")
                     STEP("128", "160", "48", "52", "56", "60", "64", "68")
                     STEP("192", "224", "72", "76", "80", "84", "88", "92")
                     "add $96, %[a]\n\tadd $256, %[b]\n\tdec %[fours]\n\tjnz 1b\n2:\n\t"
                     "test %[rest], %[rest]\n\tjz 4f\n3:\n\t"
                     STEP("0", "32", "0", "4", "8", "12", "16", "20")
                     "add $24, %[a]\n\tadd $64, %[b]\n\tdec %[rest]\n\tjnz 3b\n4:\n"
                     : SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4), SUMS(5), [p] "=&x"(p), [q] "=&x"(q), [u] "=&x"(u), [v] "=&x"(v),
                       [a] "+r"(a), [b] "+r"(b), [fours] "+r"(fours), [rest] "+r"(rest)
                     :
                     : "memory", "cc");
}

/* The same for pairs of i16: 16 products an instruction where a float has 8. */
#define ISA_HAS_PAIRS_SUM
#define PAIRS_ROW(a, r)                                                                             \
    "vpbroadcastd " a "(%[a]), %[p]\n\tvpmaddwd %[u], %[p], %[q]\n\tvpmaddwd %[v], %[p], %[p]\n\t"  \
    "vpaddd %[q], %[c" #r "0], %[c" #r "0]\n\tvpaddd %[p], %[c" #r "1], %[c" #r "1]\n\t"
typedef uint32_t avx2_sums __attribute__((vector_size(32)));
TARGET static inline __attribute__((always_inline)) void pairs_sum(int64_t kc, const float *a, const float *b, avx2_sums acc[MR][NV])
{
    __m256i p, q, u, v;
    __asm__ volatile(ZERO(0) ZERO(1) ZERO(2) ZERO(3) ZERO(4) ZERO(5)
                     "test %[kc], %[kc]\n\tjz 2f\n\t.p2align 5\n1:\n\t"
                     "prefetcht0 768(%[a])\n\tvmovdqu (%[b]), %[u]\n\tvmovdqu 32(%[b]), %[v]\n\t"
                     PAIRS_ROW("0", 0) PAIRS_ROW("4", 1) PAIRS_ROW("8", 2) PAIRS_ROW("12", 3) PAIRS_ROW("16", 4) PAIRS_ROW("20", 5)
                     "add $24, %[a]\n\tadd $64, %[b]\n\tdec %[kc]\n\tjnz 1b\n2:\n"
                     : SUMS(0), SUMS(1), SUMS(2), SUMS(3), SUMS(4), SUMS(5), [p] "=&x"(p), [q] "=&x"(q), [u] "=&x"(u), [v] "=&x"(v),
                       [a] "+r"(a), [b] "+r"(b), [kc] "+r"(kc)
                     :
                     : "memory", "cc");
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
