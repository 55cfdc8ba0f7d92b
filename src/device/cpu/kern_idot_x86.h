/* kern_idot_x86.h - integer dot products of GGUF blocks with i8 activations in 256-bit registers. No include
 * guard: included with IDOT_SUFFIX, IDOT_TARGET and IDOT_VNNI (a dpbusd intrinsic) or none.
 *
 * Products of signed bytes go through |w| (unsigned) times x with the sign of w. Without VNNI two
 * products are added in 16 bits: |w| <= 128 and |x| <= 127, so 2 * 128 * 127 = 32512 fits.
 */
#define IDOT_CAT_(a, b) a##b
#define IDOT_CAT(a, b) IDOT_CAT_(a, b)
#define IDOT(name) IDOT_CAT(name, IDOT_SUFFIX)
#define IDOT_INLINE static inline __attribute__((always_inline)) IDOT_TARGET

IDOT_INLINE __m256i IDOT(mul_sum)(__m256i u, __m256i s)
{
#ifdef IDOT_VNNI
    return IDOT_VNNI(_mm256_setzero_si256(), u, s);
#else
    return _mm256_madd_epi16(_mm256_maddubs_epi16(u, s), _mm256_set1_epi16(1));
#endif
}
IDOT_INLINE uint64_t IDOT(half_bits)(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return h;
}
/* B (1 or 4) f16 at p, `step` bytes apart; gathered in an integer register, for the vector ones are the busy ones. */
IDOT_INLINE __m128 IDOT(halves)(const uint8_t *p, size_t step, int B)
{
    uint64_t bits = IDOT(half_bits)(p);
    if (B == 4)
        bits |= IDOT(half_bits)(p + step) << 16 | IDOT(half_bits)(p + 2 * step) << 32 | IDOT(half_bits)(p + 3 * step) << 48;
    return _mm_cvtph_ps(_mm_cvtsi64_si128((int64_t)bits));
}
IDOT_INLINE __m256i IDOT(nibbles)(const uint8_t *q)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)q);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(v), _mm_srli_epi16(v, 4), 1);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}
/* Eight partial sums of a block's integer product. */
IDOT_INLINE __m256i IDOT(block)(int type, const uint8_t *block, __m256i x)
{
    if (type == WF_KERN_Q4_1)
        return IDOT(mul_sum)(IDOT(nibbles)(block + 4), x);
    const __m256i w = type == WF_KERN_Q8_0 ? _mm256_loadu_si256((const __m256i *)(block + 2))
                                           : _mm256_sub_epi8(IDOT(nibbles)(block + 2), _mm256_set1_epi8(8));
    return IDOT(mul_sum)(_mm256_sign_epi8(w, w), _mm256_sign_epi8(x, w));
}
IDOT_INLINE float IDOT(lanes)(__m256 v)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
/* Four blocks of a row at a time, or the last few one by one: B accumulators, whose sum is in a fixed order. */
IDOT_INLINE void IDOT(blocks)(int type, int B, const uint8_t *w, const int8_t *q, const float *d, const float *s, __m256 acc[4],
                              __m128 *low)
{
    const size_t size = type == WF_KERN_Q8_0 ? 34 : type == WF_KERN_Q4_0 ? 18 : 20;
    /* From memory a scale is spread to all lanes without a shuffle. */
    float scale[4];
    _mm_storeu_ps(scale, _mm_mul_ps(IDOT(halves)(w, size, B), B == 4 ? _mm_loadu_ps(d) : _mm_load_ss(d)));
    UNROLL for (int b = 0; b < B; b++) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(q + b * WF_QK));
        _mm_prefetch((const char *)w + (size_t)b * size + PREFETCH_BYTES, _MM_HINT_T0);
        const __m256 v = _mm256_cvtepi32_ps(IDOT(block)(type, w + (size_t)b * size, x));
        acc[b] = _mm256_fmadd_ps(_mm256_broadcast_ss(&scale[b]), v, acc[b]);
    }
    if (type == WF_KERN_Q4_1)
        *low = _mm_fmadd_ps(IDOT(halves)(w + 2, size, B), B == 4 ? _mm_loadu_ps(s) : _mm_load_ss(s), *low);
}
IDOT_INLINE float IDOT(row)(int type, const uint8_t *w, const int8_t *q, const float *d, const float *s, int64_t blocks)
{
    const size_t size = type == WF_KERN_Q8_0 ? 34 : type == WF_KERN_Q4_0 ? 18 : 20;
    __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    __m128 low = _mm_setzero_ps();
    int64_t b = 0;
    for (; b + 4 <= blocks; b += 4)
        IDOT(blocks)(type, 4, w + (size_t)b * size, q + b * WF_QK, d + b, s + b, acc, &low);
    for (; b < blocks; b++)
        IDOT(blocks)(type, 1, w + (size_t)b * size, q + b * WF_QK, d + b, s + b, acc, &low);
    return IDOT(lanes)(_mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3]))) +
           IDOT(lanes)(_mm256_zextps128_ps256(low));
}
#define IDOT_FN(name, type)                                                                                              \
    IDOT_TARGET static void IDOT(name)(const uint8_t *w, size_t row_bytes, int rows, const int8_t *q, const float *d,    \
                                       const float *s, int64_t blocks, float *out)                                       \
    {                                                                                                                    \
        for (int r = 0; r < rows; r++)                                                                                   \
            out[r] = IDOT(row)(type, w + (size_t)r * row_bytes, q, d, s, blocks);                                        \
    }
IDOT_FN(idot_q8_0, WF_KERN_Q8_0)
IDOT_FN(idot_q4_0, WF_KERN_Q4_0)
IDOT_FN(idot_q4_1, WF_KERN_Q4_1)
#undef IDOT_FN
#undef IDOT_INLINE
#undef IDOT
#undef IDOT_CAT
#undef IDOT_CAT_
