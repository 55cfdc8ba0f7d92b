/* kern_simd.h - the vector primitives of wf_kern_isa, written once over GCC vector types and compiled once an
 * instruction set. No include guard: each kern_isa_*.c includes it after defining
 *   V       floats in a vector            TARGET  the target attribute, or empty
 *   MR, NV  microkernel rows, and vectors in its columns (MR a multiple of 6)
 * and the functions isa_fma, half_to_float, halves_to_floats (4 in 64 bits), load_f16, store_f16 (round to nearest
 * even), load_i8, load_u8, load_u16 (V values widened to i32) and store_i8 (narrowed): compilers make scalar
 * code of a vector conversion of bytes.
 *
 * Sums of products go through isa_fma: one rounding where the processor has it, a * b + c elsewhere.
 */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline)) TARGET

typedef float vf __attribute__((vector_size(V * 4)));
typedef int32_t vi __attribute__((vector_size(V * 4)));
typedef uint32_t vu __attribute__((vector_size(V * 4))); /* for sums that may wrap */
typedef float vf_mem __attribute__((vector_size(V * 4), aligned(4), may_alias));

INLINE vf load_vf(const float *p) { return *(const vf_mem *)p; }
INLINE void store_vf(float *p, vf v) { *(vf_mem *)p = v; }
INLINE vf fma_vf(vf a, vf b, vf c) { return (vf)isa_fma(a, b, c); }
INLINE vf splat(float x) { return x - (vf){0}; }
INLINE vf select_vf(vi mask, vf a, vf b) { return (vf)(((vi)a & mask) | ((vi)b & ~mask)); }
INLINE vf load_bf16(const uint16_t *p) { return (vf)((vi)load_u16(p) << 16); }
/* Lanes are summed pairwise in a fixed order. */
INLINE float sum_vf(vf v)
{
    float lane[V];
    memcpy(lane, &v, sizeof lane);
    UNROLL for (int w = V / 2; w > 0; w /= 2)
        UNROLL for (int i = 0; i < w; i++)
            lane[i] += lane[i + w];
    return lane[0];
}

/* ---- matrix microkernel ---- */
#ifndef ISA_HAS_MICRO_SUM
INLINE void micro_step(const float *a, const float *b, vf acc[MR][NV])
{
    vf bv[NV];
    UNROLL for (int j = 0; j < NV; j++)
        bv[j] = load_vf(b + j * V);
    UNROLL for (int i = 0; i < MR; i++) {
        const vf ai = splat(a[i]);
        UNROLL for (int j = 0; j < NV; j++)
            acc[i][j] = fma_vf(ai, bv[j], acc[i][j]);
    }
}
/* acc = a^T b: k in order, one accumulator an element. */
INLINE void micro_sum(int64_t kc, const float *a, const float *b, vf acc[MR][NV])
{
    enum { K_UNROLL = 4, A_AHEAD = 192 }; /* 1: 10 % slower, 8: 15 % slower (Zen 3) */
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NV; j++)
            acc[i][j] = (vf){0};
    int64_t k = 0;
    for (; k + K_UNROLL <= kc; k += K_UNROLL, a += K_UNROLL * MR, b += K_UNROLL * NV * V) {
        __builtin_prefetch(a + A_AHEAD);
        __builtin_prefetch(a + A_AHEAD + 16);
        UNROLL for (int u = 0; u < K_UNROLL; u++)
            micro_step(a + u * MR, b + u * NV * V, acc);
    }
    for (; k < kc; k++, a += MR, b += NV * V)
        micro_step(a, b, acc);
}
#endif
TARGET static void micro(int64_t kc, const float *a, const float *b, const float *from, int64_t ld_from, float *to, int64_t ld_to)
{
    vf acc[MR][NV];
    UNROLL for (int i = 0; i < MR; i++) {
        __builtin_prefetch(to + i * ld_to, 1);
        __builtin_prefetch(to + i * ld_to + NV * V - 1, 1);
    }
    for (int i = 0; from && from != to && i < MR; i++) {
        __builtin_prefetch(from + i * ld_from);
        __builtin_prefetch(from + i * ld_from + NV * V - 1);
    }
    micro_sum(kc, a, b, acc);
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NV; j++) {
            const vf sum = from ? load_vf(from + i * ld_from + j * V) + acc[i][j] : acc[i][j];
            store_vf(to + i * ld_to + j * V, sum);
        }
}

/* ---- microkernel of i16 pairs: exact products of bytes ---- */
typedef int32_t vi_mem __attribute__((vector_size(V * 4), aligned(4), may_alias));
typedef uint32_t vu_mem __attribute__((vector_size(V * 4), aligned(4), may_alias));
#ifndef ISA_HAS_PAIRS_SUM
#ifndef ISA_PAIR_DOT
/* Of each lane the products of the low halves and of the high ones, added. */
INLINE vi pair_dot(vi a, vi b) { return (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16); }
#define ISA_PAIR_DOT pair_dot
#endif
INLINE void pairs_sum(int64_t kc, const float *a, const float *b, vu acc[MR][NV])
{
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NV; j++)
            acc[i][j] = (vu){0};
    for (int64_t k = 0; k < kc; k++, a += MR, b += NV * V)
        UNROLL for (int i = 0; i < MR; i++) {
            int32_t pair;
            memcpy(&pair, a + i, 4);
            UNROLL for (int j = 0; j < NV; j++)
                acc[i][j] += (vu)ISA_PAIR_DOT(pair - (vi){0}, (vi)*(const vi_mem *)(b + j * V));
        }
}
#endif
TARGET static void micro_pairs(int64_t kc, const float *a, const float *b, const float *from, int64_t ld_from, float *to, int64_t ld_to)
{
    vu acc[MR][NV];
    pairs_sum(kc, a, b, acc);
    UNROLL for (int i = 0; i < MR; i++)
        UNROLL for (int j = 0; j < NV; j++) {
            const vu before = from ? (vu)*(const vu_mem *)(from + i * ld_from + j * V) : (vu){0};
            *(vu_mem *)(to + i * ld_to + j * V) = before + acc[i][j];
        }
}

/* ---- packing ---- */
typedef float v4 __attribute__((vector_size(16)));
typedef float v2_mem __attribute__((vector_size(8), aligned(4), may_alias));
typedef float v4_mem __attribute__((vector_size(16), aligned(4), may_alias));
/* Four elements of four rows, transposed. */
INLINE void turn4(const float *src, int64_t stride, v4 out[4])
{
    const v4 a = *(const v4_mem *)src, b = *(const v4_mem *)(src + stride), c = *(const v4_mem *)(src + 2 * stride),
             d = *(const v4_mem *)(src + 3 * stride);
    const v4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const v4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    out[0] = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
    out[1] = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
    out[2] = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
    out[3] = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
}
INLINE void weave_strip(const float *src, int64_t stride, int count, int width, int64_t n, float *dst)
{
    int i = 0;
    for (; i + 4 <= count; i += 4) {
        int64_t k = 0;
        for (; k + 4 <= n; k += 4) {
            v4 out[4];
            turn4(src + i * stride + k, stride, out);
            UNROLL for (int q = 0; q < 4; q++)
                *(v4_mem *)(dst + (k + q) * width + i) = out[q];
        }
        for (; k < n; k++)
            for (int q = 0; q < 4; q++)
                dst[k * width + i + q] = src[(i + q) * stride + k];
    }
    if (i + 2 <= count) {
        const float *p = src + i * stride;
        int64_t k = 0;
        for (; k + 4 <= n; k += 4) {
            const v4 a = *(const v4_mem *)(p + k), b = *(const v4_mem *)(p + stride + k);
            const v4 lo = __builtin_shufflevector(a, b, 0, 4, 1, 5), hi = __builtin_shufflevector(a, b, 2, 6, 3, 7);
            *(v2_mem *)(dst + k * width + i) = __builtin_shufflevector(lo, lo, 0, 1);
            *(v2_mem *)(dst + (k + 1) * width + i) = __builtin_shufflevector(lo, lo, 2, 3);
            *(v2_mem *)(dst + (k + 2) * width + i) = __builtin_shufflevector(hi, hi, 0, 1);
            *(v2_mem *)(dst + (k + 3) * width + i) = __builtin_shufflevector(hi, hi, 2, 3);
        }
        for (; k < n; k++) {
            dst[k * width + i] = p[k];
            dst[k * width + i + 1] = p[stride + k];
        }
        i += 2;
    }
    for (; i < width; i++)
        for (int64_t k = 0; k < n; k++)
            dst[k * width + i] = i < count ? src[i * stride + k] : 0;
}
TARGET static void weave(const float *src, int64_t stride, int64_t count, int width, int64_t n, float *dst)
{
    for (int64_t i = 0; i < count; i += width)
        weave_strip(src + i * stride, stride, (int)WF_MIN(width, count - i), width, n, dst + i * n);
}

/* ---- conversion ---- */
TARGET static void widen_f32(const void *src, float *dst, int64_t n) { memcpy(dst, src, (size_t)n * 4); }
TARGET static void widen_f16(const void *src, float *dst, int64_t n)
{
    const uint16_t *s = src;
    int64_t i = 0;
    for (; i + V <= n; i += V)
        store_vf(dst + i, load_f16(s + i));
    for (; i < n; i++)
        dst[i] = half_to_float(s[i]);
}
TARGET static void widen_bf16(const void *src, float *dst, int64_t n)
{
    const uint16_t *s = src;
    int64_t i = 0;
    for (; i + V <= n; i += V)
        store_vf(dst + i, load_bf16(s + i));
    for (; i < n; i++)
        dst[i] = wf_bf16_to_f32(s[i]);
}
TARGET static void narrow_f32(const float *src, void *dst, int64_t n) { memcpy(dst, src, (size_t)n * 4); }
TARGET static void narrow_f16(const float *src, void *dst, int64_t n)
{
    uint16_t *d = dst;
    int64_t i = 0;
    for (; i + V <= n; i += V)
        store_f16(d + i, load_vf(src + i));
    for (; i < n; i++)
        d[i] = wf_f32_to_f16(src[i]);
}
TARGET static void narrow_bf16(const float *src, void *dst, int64_t n)
{
    uint16_t *d = dst;
    for (int64_t i = 0; i < n; i++)
        d[i] = wf_f32_to_bf16(src[i]);
}

/* ---- weights ---- */
INLINE vf load_w(int type, const void *w, int64_t i)
{
    if (type == WF_KERN_F16)
        return load_f16((const uint16_t *)w + i);
    if (type == WF_KERN_BF16)
        return load_bf16((const uint16_t *)w + i);
    return load_vf((const float *)w + i);
}
INLINE float load_w1(int type, const void *w, int64_t i)
{
    if (type == WF_KERN_F16)
        return half_to_float(((const uint16_t *)w)[i]);
    if (type == WF_KERN_BF16)
        return wf_bf16_to_f32(((const uint16_t *)w)[i]);
    return ((const float *)w)[i];
}
#define LAY_AHEAD 8 /* rows; they lie too far apart for the processor to foresee */
/* Row by row over all full strips: a row's lines are read together. */
INLINE void lay_any(int type, const void *src, int64_t stride, int64_t count, int width, int64_t n, float *dst)
{
    const char *p = src;
    const size_t size = type == WF_KERN_F32 ? 4 : 2, row_bytes = (size_t)stride * size;
    const int64_t full = width == NV * V ? count / width * width : 0;
    for (int64_t k = 0; full && k < n; k++) {
        const char *row = p + (size_t)k * row_bytes;
        for (int64_t i = 0; i < full; i += NV * V) {
            __builtin_prefetch(row + LAY_AHEAD * row_bytes + (size_t)i * size);
            UNROLL for (int j = 0; j < NV; j++)
                store_vf(dst + i * n + k * (NV * V) + j * V, load_w(type, row, i + j * V));
        }
    }
    for (int64_t i = full; i < count; i += width)
        for (int64_t k = 0; k < n; k++)
            for (int q = 0; q < width; q++)
                dst[i * n + k * width + q] = i + q < count ? load_w1(type, p + (size_t)k * row_bytes, i + q) : 0;
}
#define LAY_FN(name, type)                                                                                            \
    TARGET static void name(const void *src, int64_t stride, int64_t count, int width, int64_t n, float *dst)         \
    {                                                                                                                 \
        lay_any(type, src, stride, count, width, n, dst);                                                             \
    }
LAY_FN(lay_f32, WF_KERN_F32)
LAY_FN(lay_f16, WF_KERN_F16)
LAY_FN(lay_bf16, WF_KERN_BF16)
/* ---- dot products of rows: bandwidth bound, so each weight is loaded once for all x ---- */
#define PREFETCH_BYTES 1024 /* ahead of each row stream; 512 to 2048 measure the same */

/* R rows, X vectors, U accumulators each (FMA latency 4, two a cycle: R * X * U >= 8 hides it). */
INLINE void dot_tile(int type, int R, int X, int U, const char *w, size_t row_bytes, const float *x, int64_t x_stride,
                     int64_t k, float *out)
{
    const int size = type == WF_KERN_F32 ? 4 : 2;
    vf acc[4][4][2];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int j = 0; j < X; j++)
            UNROLL for (int u = 0; u < U; u++)
                acc[r][j][u] = (vf){0};
    int64_t i = 0;
    for (; i + U * V <= k; i += U * V)
        UNROLL for (int u = 0; u < U; u++) {
            vf xv[4];
            UNROLL for (int j = 0; j < X; j++)
                xv[j] = load_vf(x + j * x_stride + i + u * V);
            UNROLL for (int r = 0; r < R; r++) {
                const char *row = w + (size_t)r * row_bytes;
                __builtin_prefetch(row + i * size + PREFETCH_BYTES);
                const vf wv = load_w(type, row, i + u * V);
                UNROLL for (int j = 0; j < X; j++)
                    acc[r][j][u] = fma_vf(wv, xv[j], acc[r][j][u]);
            }
        }
    for (; i + V <= k; i += V)
        UNROLL for (int r = 0; r < R; r++) {
            const vf wv = load_w(type, w + (size_t)r * row_bytes, i);
            UNROLL for (int j = 0; j < X; j++)
                acc[r][j][0] = fma_vf(wv, load_vf(x + j * x_stride + i), acc[r][j][0]);
        }
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int j = 0; j < X; j++) {
            float s = sum_vf(U == 2 ? acc[r][j][0] + acc[r][j][1] : acc[r][j][0]);
            for (int64_t t = i; t < k; t++)
                s += load_w1(type, w + (size_t)r * row_bytes, t) * x[j * x_stride + t];
            out[r * 4 + j] = s;
        }
}
/* A row's sum must not depend on how many rows are done with it: every R of one X uses the same U. */
INLINE void dot_any(int type, const void *w, int64_t w_stride, int rows, const float *x, int64_t x_stride, int nx, int64_t k,
                    float *out)
{
    const char *p = w;
    const size_t row_bytes = (size_t)w_stride * (type == WF_KERN_F32 ? 4 : 2);
    while (rows > 0) {
        const int step = nx == 1 ? (rows >= 4 ? 4 : 1) : (rows >= 2 ? 2 : 1);
        switch (nx * 8 + step) {
        case 8 + 4: dot_tile(type, 4, 1, 2, p, row_bytes, x, x_stride, k, out); break;
        case 8 + 1: dot_tile(type, 1, 1, 2, p, row_bytes, x, x_stride, k, out); break;
        case 16 + 2: dot_tile(type, 2, 2, 1, p, row_bytes, x, x_stride, k, out); break;
        case 16 + 1: dot_tile(type, 1, 2, 1, p, row_bytes, x, x_stride, k, out); break;
        case 24 + 2: dot_tile(type, 2, 3, 1, p, row_bytes, x, x_stride, k, out); break;
        case 24 + 1: dot_tile(type, 1, 3, 1, p, row_bytes, x, x_stride, k, out); break;
        case 32 + 2: dot_tile(type, 2, 4, 1, p, row_bytes, x, x_stride, k, out); break;
        default: dot_tile(type, 1, 4, 1, p, row_bytes, x, x_stride, k, out); break;
        }
        p += (size_t)step * row_bytes;
        out += step * 4;
        rows -= step;
    }
}
#define DOT_FN(name, type)                                                                                       \
    TARGET static void name(const void *w, int64_t w_stride, int rows, const float *x, int64_t x_stride, int nx, \
                            int64_t k, float *out)                                                               \
    {                                                                                                            \
        dot_any(type, w, w_stride, rows, x, x_stride, nx, k, out);                                               \
    }
DOT_FN(dot_f32, WF_KERN_F32)
DOT_FN(dot_f16, WF_KERN_F16)
DOT_FN(dot_bf16, WF_KERN_BF16)

/* ---- sums of scaled rows: acc stays in L1 while `rows` streams are read ---- */
/* R rows, X sums: each weight is loaded and widened once. */
INLINE void axpy_tile(int type, int R, int X, const char *w, size_t row_bytes, const float *x, int64_t x_stride, int64_t n, float *acc,
                      int64_t acc_stride)
{
    const size_t size = type == WF_KERN_F32 ? 4 : 2;
    int64_t i = 0;
    for (; i + V <= n; i += V) {
        vf wv[8];
        UNROLL for (int r = 0; r < R; r++) {
            const char *row = w + (size_t)r * row_bytes;
            /* The next R rows: pieces of rows are too short for the processor to foresee. */
            if (R > 1)
                __builtin_prefetch(row + (size_t)R * row_bytes + (size_t)i * size);
            wv[r] = load_w(type, row, i);
        }
        UNROLL for (int j = 0; j < X; j++) {
            vf s = load_vf(acc + j * acc_stride + i);
            UNROLL for (int r = 0; r < R; r++)
                s = fma_vf(splat(x[j * x_stride + r]), wv[r], s);
            store_vf(acc + j * acc_stride + i, s);
        }
    }
    for (; i < n; i++)
        UNROLL for (int j = 0; j < X; j++) {
            float s = acc[j * acc_stride + i];
            for (int r = 0; r < R; r++)
                s += x[j * x_stride + r] * load_w1(type, w + (size_t)r * row_bytes, i);
            acc[j * acc_stride + i] = s;
        }
}
INLINE void axpy_any(int type, const void *w, int64_t w_stride, int rows, const float *x, int64_t x_stride, int nx, int64_t n, float *acc,
                     int64_t acc_stride)
{
    const size_t row_bytes = (size_t)w_stride * (type == WF_KERN_F32 ? 4 : 2);
    for (; nx > 0; nx -= 4, x += 4 * x_stride, acc += 4 * acc_stride) {
        if (rows == 8 && nx >= 4) {
            axpy_tile(type, 8, 4, w, row_bytes, x, x_stride, n, acc, acc_stride);
            continue;
        }
        for (int j = 0; j < nx && j < 4; j++) {
            if (rows == 8) {
                axpy_tile(type, 8, 1, w, row_bytes, x + j * x_stride, 0, n, acc + j * acc_stride, 0);
                continue;
            }
            for (int r = 0; r < rows; r++)
                axpy_tile(type, 1, 1, (const char *)w + (size_t)r * row_bytes, row_bytes, x + j * x_stride + r, 0, n, acc + j * acc_stride, 0);
        }
    }
}
#define AXPY_FN(name, type)                                                                                           \
    TARGET static void name(const void *w, int64_t w_stride, int rows, const float *x, int64_t x_stride, int nx,      \
                            int64_t n, float *acc, int64_t acc_stride)                                                \
    {                                                                                                                 \
        axpy_any(type, w, w_stride, rows, x, x_stride, nx, n, acc, acc_stride);                                       \
    }
AXPY_FN(axpy_f32, WF_KERN_F32)
AXPY_FN(axpy_f16, WF_KERN_F16)
AXPY_FN(axpy_bf16, WF_KERN_BF16)

/* ---- GGUF blocks with f32 activations ---- */
INLINE float half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return half_to_float(h);
}
/* B (1 or 4) f16 at p, `step` bytes apart. */
INLINE void halves_at(const uint8_t *p, size_t step, int B, float out[4])
{
    uint16_t h[4] = {0};
    UNROLL for (int b = 0; b < B; b++)
        memcpy(&h[b], p + (size_t)b * step, 2);
    if (B == 1)
        out[0] = half_to_float(h[0]);
    else
        halves_to_floats((uint64_t)h[0] | (uint64_t)h[1] << 16 | (uint64_t)h[2] << 32 | (uint64_t)h[3] << 48, out);
}
#define QVECS (WF_QK / V)
/* The integer values of a block as floats, in element order. */
INLINE void block_values(int type, const uint8_t *block, vf out[QVECS])
{
    if (type == WF_KERN_Q8_0) {
        UNROLL for (int i = 0; i < QVECS; i++)
            out[i] = __builtin_convertvector((vi)load_i8((const int8_t *)block + 2 + i * V), vf);
        return;
    }
    const uint8_t *q = block + (type == WF_KERN_Q4_0 ? 2 : 4);
    UNROLL for (int i = 0; i < QVECS / 2; i++) {
        const vi b = (vi)load_u8(q + i * V);
        vi lo = b & 15, hi = b >> 4;
        if (type == WF_KERN_Q4_0) {
            lo -= 8;
            hi -= 8;
        }
        out[i] = __builtin_convertvector(lo, vf);
        out[i + QVECS / 2] = __builtin_convertvector(hi, vf);
    }
}
static const size_t block_bytes[WF_KERN_Q_COUNT] = {34, 18, 20};

/* B (4, or 1 for the last few) blocks of a row times X vectors. One x uses an accumulator a block, several one
 * each, so that four sums are always under way. A row is one stream of memory; several at a time measured slower
 * from DRAM. */
INLINE void qdot_blocks(int type, int B, int X, const uint8_t *w, const float *x, int64_t x_stride, vf acc[4])
{
    const size_t size = block_bytes[type];
    float scale[4], low[4]; /* from memory a scale is spread to all lanes without a shuffle */
    halves_at(w, size, B, scale);
    if (type == WF_KERN_Q4_1)
        halves_at(w + 2, size, B, low);
    UNROLL for (int b = 0; b < B; b++) {
        const uint8_t *block = w + (size_t)b * size;
        __builtin_prefetch(block + PREFETCH_BYTES);
        vf q[QVECS];
        block_values(type, block, q);
        UNROLL for (int j = 0; j < X; j++) {
            vf s = (vf){0}, xs = (vf){0};
            UNROLL for (int i = 0; i < QVECS; i++) {
                const vf xv = load_vf(x + j * x_stride + b * WF_QK + i * V);
                s = fma_vf(q[i], xv, s);
                if (type == WF_KERN_Q4_1)
                    xs += xv;
            }
            const int to = X == 1 ? b : j;
            acc[to] = fma_vf(splat(scale[b]), s, acc[to]);
            if (type == WF_KERN_Q4_1)
                acc[to] = fma_vf(splat(low[b]), xs, acc[to]);
        }
    }
}
INLINE void qdot_row(int type, int X, const uint8_t *w, const float *x, int64_t x_stride, int64_t blocks, float *out)
{
    vf acc[4] = {(vf){0}, (vf){0}, (vf){0}, (vf){0}};
    int64_t b = 0;
    for (; b + 4 <= blocks; b += 4)
        qdot_blocks(type, 4, X, w + (size_t)b * block_bytes[type], x + b * WF_QK, x_stride, acc);
    for (; b < blocks; b++)
        qdot_blocks(type, 1, X, w + (size_t)b * block_bytes[type], x + b * WF_QK, x_stride, acc);
    UNROLL for (int j = 0; j < X; j++)
        out[j] = sum_vf(X == 1 ? (acc[0] + acc[1]) + (acc[2] + acc[3]) : acc[j]);
}
#define QDOT_FN(name, dequant_name, type)                                                                              \
    TARGET static void name(const uint8_t *w, size_t row_bytes, int rows, const float *x, int64_t x_stride, int nx,    \
                            int64_t blocks, float *out)                                                                \
    {                                                                                                                  \
        for (int r = 0; r < rows; r++, w += row_bytes, out += 4)                                                       \
            switch (nx) {                                                                                              \
            case 1: qdot_row(type, 1, w, x, x_stride, blocks, out); break;                                             \
            case 2: qdot_row(type, 2, w, x, x_stride, blocks, out); break;                                             \
            case 3: qdot_row(type, 3, w, x, x_stride, blocks, out); break;                                             \
            default: qdot_row(type, 4, w, x, x_stride, blocks, out); break;                                            \
            }                                                                                                          \
    }                                                                                                                  \
    TARGET static void dequant_name(const uint8_t *w, int64_t blocks, float *dst)                                      \
    {                                                                                                                  \
        for (int64_t b = 0; b < blocks; b++, w += block_bytes[type], dst += WF_QK) {                                   \
            const float d = half_at(w), m = type == WF_KERN_Q4_1 ? half_at(w + 2) : 0.0f;                              \
            vf q[QVECS];                                                                                               \
            block_values(type, w, q);                                                                                  \
            UNROLL for (int i = 0; i < QVECS; i++)                                                                     \
                store_vf(dst + i * V, type == WF_KERN_Q4_1 ? d * q[i] + m : d * q[i]);                                 \
        }                                                                                                              \
    }
QDOT_FN(qdot_q8_0, dequant_q8_0, WF_KERN_Q8_0)
QDOT_FN(qdot_q4_0, dequant_q4_0, WF_KERN_Q4_0)
QDOT_FN(qdot_q4_1, dequant_q4_1, WF_KERN_Q4_1)

/* ---- activations to i8 ---- */
INLINE float max_abs32(const float *x)
{
    vf m = (vf){0};
    UNROLL for (int i = 0; i < QVECS; i++) {
        const vf v = (vf)((vi)load_vf(x + i * V) & 0x7fffffff);
        m = select_vf((vi)(v > m) | (vi)(v != v), v, m);
    }
    float lane[V], most = 0;
    memcpy(lane, &m, sizeof lane);
    for (int i = 0; i < V; i++)
        if (lane[i] > most || lane[i] != lane[i])
            most = lane[i];
    return most;
}
/* A block that holds NaN or infinity gets a NaN scale: the fault stays visible in the result. */
TARGET static void quantise(const float *x, int64_t blocks, int8_t *q, float *d, float *s)
{
    for (int64_t b = 0; b < blocks; b++, x += WF_QK, q += WF_QK) {
        const float most = max_abs32(x);
        const bool finite = most - most == 0.0f;
        const float scale = most / 127.0f;
        vi sum = (vi){0};
        UNROLL for (int i = 0; i < QVECS; i++) {
            /* Divided, not multiplied by the inverse: a product would be contracted with the addition on some
             * processors. Adding 1.5 * 2^23 rounds to the nearest integer, ties to even. */
            const vf t = finite && scale > 0.0f ? load_vf(x + i * V) / scale : (vf){0};
            vi v = (vi)(t + 12582912.0f) - 0x4b400000;
            v = (v & (v < 127)) | (127 & (v >= 127)); /* a subnormal scale is coarse */
            v = (v & (v > -127)) | (-127 & (v <= -127));
            store_i8(q + i * V, (ISA_INT)v);
            sum += v;
        }
        int32_t total = 0;
        for (int i = 0; i < V; i++)
            total += sum[i];
        d[b] = finite ? scale : most - most;
        s[b] = d[b] * (float)total;
    }
}

/* ---- softmax parts ---- */
/* e^x for x <= 0: 2^n * p(r), |r| <= ln(2)/2, p of degree 6 (remainder under 2e-8); below -87 the result is 0. */
INLINE vf exp_vf(vf x)
{
    const vf t = x * 1.44269504f + 12582912.0f;
    const vf n = t - 12582912.0f;
    vf r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    vf p = fma_vf(r, splat(1.9875691500e-4f), splat(1.3981999507e-3f));
    p = fma_vf(p, r, splat(8.3334519073e-3f));
    p = fma_vf(p, r, splat(4.1665795894e-2f));
    p = fma_vf(p, r, splat(1.6666665459e-1f));
    p = fma_vf(p, r, splat(5.0000001201e-1f));
    p = fma_vf(p, r * r, r) + 1.0f;
    const vf scaled = (vf)((vu)p + ((vu)t << 23));
    const vf finite = select_vf((vi)(x < -87.0f), (vf){0}, scaled);
    return select_vf((vi)(x != x), x, finite);
}
TARGET static float exp_row(float *p, int64_t n, float max)
{
    vf sum = (vf){0};
    int64_t i = 0;
    for (; i + V <= n; i += V) {
        const vf e = exp_vf(load_vf(p + i) - max);
        store_vf(p + i, e);
        sum += e;
    }
    float total = sum_vf(sum);
    for (; i < n; i++) {
        const vf e = exp_vf(splat(p[i] - max));
        p[i] = e[0];
        total += e[0];
    }
    return total;
}
TARGET static float max_row(const float *p, int64_t n, float start)
{
    vf m = splat(start);
    int64_t i = 0;
    for (; i + V <= n; i += V) {
        const vf v = load_vf(p + i);
        m = select_vf((vi)(v > m), v, m);
    }
    for (int j = 0; j < V; j++)
        if (m[j] > start)
            start = m[j];
    for (; i < n; i++)
        if (p[i] > start)
            start = p[i];
    return start;
}

#define SIMD_ROW(isa_name, is_int8, dots0, dots1, dots2)                                     \
    {                                                                              \
        .name = isa_name, .int8_products = is_int8, .mr = MR, .nr = NV * V, .micro = micro, .micro_pairs = micro_pairs, .weave = weave,  \
        .lay = {lay_f32, lay_f16, lay_bf16},                                       \
        .widen = {widen_f32, widen_f16, widen_bf16},                               \
        .narrow = {narrow_f32, narrow_f16, narrow_bf16},                           \
        .dot = {dot_f32, dot_f16, dot_bf16}, .axpy = {axpy_f32, axpy_f16, axpy_bf16}, \
        .qdot = {qdot_q8_0, qdot_q4_0, qdot_q4_1},                                 \
        .dequant = {dequant_q8_0, dequant_q4_0, dequant_q4_1},                     \
        .quantise = quantise, .idot = {dots0, dots1, dots2},                       \
        .exp_row = exp_row, .max_row = max_row                                     \
    }
