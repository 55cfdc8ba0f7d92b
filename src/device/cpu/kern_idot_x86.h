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
IDOT_INLINE float IDOT(lanes)(__m256 v)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
/* B (4, or 1 for the last few) blocks of a row times X rows of activations (q and d: the first; k and blocks apart).
 * One x uses an accumulator a block, several one each, so that four sums are always under way. */
IDOT_INLINE void IDOT(blocks)(int type, int B, int X, const uint8_t *w, const int8_t *q, const float *d, const float *s,
                              int64_t blocks, __m256 acc[4], __m128 low[4])
{
    const size_t size = type == WF_KERN_Q8_0 ? 34 : type == WF_KERN_Q4_0 ? 18 : 20;
    float scale[4][4]; /* from memory a scale is spread to all lanes without a shuffle */
    const __m128 scales = IDOT(halves)(w, size, B);
    UNROLL for (int j = 0; j < X; j++) {
        const float *dj = d + j * blocks, *sj = s + j * blocks;
        _mm_storeu_ps(scale[j], _mm_mul_ps(scales, B == 4 ? _mm_loadu_ps(dj) : _mm_load_ss(dj)));
        /* The constant part of w = scale * nibble + low: Q4_0 stores its values with 8 added. */
        if (type != WF_KERN_Q8_0)
            low[j] = _mm_fmadd_ps(type == WF_KERN_Q4_1 ? IDOT(halves)(w + 2, size, B) : _mm_mul_ps(scales, _mm_set1_ps(-8)), B == 4 ? _mm_loadu_ps(sj) : _mm_load_ss(sj), low[j]);
    }
    UNROLL for (int b = 0; b < B; b++) {
        const uint8_t *block = w + (size_t)b * size;
        _mm_prefetch((const char *)block + PREFETCH_BYTES, _MM_HINT_T0);
        const __m256i v = type == WF_KERN_Q8_0 ? _mm256_loadu_si256((const __m256i *)(block + 2))
                                               : IDOT(nibbles)(block + (type == WF_KERN_Q4_0 ? 2 : 4));
        UNROLL for (int j = 0; j < X; j++) {
            const __m256i x = _mm256_loadu_si256((const __m256i *)(q + j * blocks * WF_QK + b * WF_QK));
            const __m256i sum = type == WF_KERN_Q8_0 ? IDOT(mul_sum)(_mm256_sign_epi8(v, v), _mm256_sign_epi8(x, v))
                                                     : IDOT(mul_sum)(v, x);
            const int to = X == 1 ? b : j;
            acc[to] = _mm256_fmadd_ps(_mm256_broadcast_ss(&scale[j][b]), _mm256_cvtepi32_ps(sum), acc[to]);
        }
    }
}
IDOT_INLINE void IDOT(row)(int type, int X, const uint8_t *w, const int8_t *q, const float *d, const float *s, int64_t blocks, float *out)
{
    const size_t size = type == WF_KERN_Q8_0 ? 34 : type == WF_KERN_Q4_0 ? 18 : 20;
    __m256 acc[4];
    __m128 low[4];
    UNROLL for (int i = 0; i < 4; i++) {
        acc[i] = _mm256_setzero_ps();
        low[i] = _mm_setzero_ps();
    }
    int64_t b = 0;
    for (; b + 4 <= blocks; b += 4)
        IDOT(blocks)(type, 4, X, w + (size_t)b * size, q + b * WF_QK, d + b, s + b, blocks, acc, low);
    for (; b < blocks; b++)
        IDOT(blocks)(type, 1, X, w + (size_t)b * size, q + b * WF_QK, d + b, s + b, blocks, acc, low);
    UNROLL for (int j = 0; j < X; j++) {
        const __m256 sum = X == 1 ? _mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3])) : acc[j];
        out[j] = IDOT(lanes)(sum) + IDOT(lanes)(_mm256_zextps128_ps256(low[j]));
    }
}
#define IDOT_FN(name, type)                                                                                              \
    IDOT_TARGET static void IDOT(name)(const uint8_t *w, size_t row_bytes, int rows, const int8_t *q, const float *d,    \
                                       const float *s, int nx, int64_t blocks, float *out)                               \
    {                                                                                                                    \
        for (int r = 0; r < rows; r++, w += row_bytes, out += 4)                                                         \
            switch (nx) {                                                                                                \
            case 1: IDOT(row)(type, 1, w, q, d, s, blocks, out); break;                                                  \
            case 2: IDOT(row)(type, 2, w, q, d, s, blocks, out); break;                                                  \
            case 3: IDOT(row)(type, 3, w, q, d, s, blocks, out); break;                                                  \
            default: IDOT(row)(type, 4, w, q, d, s, blocks, out); break;                                                 \
            }                                                                                                            \
    }
IDOT_FN(idot_q8_0, WF_KERN_Q8_0)
IDOT_FN(idot_q4_0, WF_KERN_Q4_0)
IDOT_FN(idot_q4_1, WF_KERN_Q4_1)
#undef IDOT_FN
#undef IDOT_INLINE
#undef IDOT
#undef IDOT_CAT
#undef IDOT_CAT_
