/* kern.h - shared by the CPU device's named kernels: the vector primitives of this processor, the
 * destination of a finished tile, checked operand ranges, scratch, and the matrix library.
 *
 * A kernel cuts its result into parts whose size never depends on the number of threads, and each element
 * is summed in an order that only its shape decides; so the bits are the same on 1 or 64 threads.
 */
#ifndef WF_KERN_H
#define WF_KERN_H

#include "cpu.h"
#include "cpu_kernels.h"

enum { WF_QK = 32 }; /* elements of a GGUF block */
enum { WF_KERN_Q8_0, WF_KERN_Q4_0, WF_KERN_Q4_1, WF_KERN_Q_COUNT };
enum { WF_KERN_F32, WF_KERN_F16, WF_KERN_BF16, WF_KERN_F_COUNT }; /* equal to the WEFT_DTYPE_ values */

#define WF_KERN_MAX_MR 12
#define WF_KERN_MAX_NR 32

/* ---- vector primitives: one row of this table an instruction set, one file each (kern_isa_*.c) ---- */
typedef struct wf_kern_isa {
    const char *name;
    int mr, nr; /* tile of the matrix microkernel */
    bool int8_products; /* integer products of many rows beat the f32 microkernel */
    /* to [mr, nr] = from + a^T b with a [kc, mr] and b [kc, nr] packed; from may be NULL (nothing) or to itself */
    void (*micro)(int64_t kc, const float *a, const float *b, const float *from, int64_t ld_from, float *to, int64_t ld_to);
    /* the same with words of two i16 in the place of floats: to = from + sum of both products, in i32, which wrap */
    void (*micro_pairs)(int64_t kc, const float *a, const float *b, const float *from, int64_t ld_from, float *to, int64_t ld_to);
    /* packing of `count` rows or columns to strips of `width`, dst[i / width * width * n + k * width + i % width], zeros
     * from count on: rows i of src contiguous along k, `stride` apart.. */
    void (*weave)(const float *src, int64_t stride, int64_t count, int width, int64_t n, float *dst);
    /* ..or n rows k of src contiguous along i */
    void (*lay[WF_KERN_F_COUNT])(const void *src, int64_t stride, int64_t count, int width, int64_t n, float *dst);
    /* conversion of n contiguous 16-bit floats */
    void (*widen[WF_KERN_F_COUNT])(const void *src, float *dst, int64_t n);
    void (*narrow[WF_KERN_F_COUNT])(const float *src, void *dst, int64_t n);
    /* out[r * 4 + j] = sum_k w[r][k] x[j][k]: 1 <= rows <= 4, 1 <= nx <= 4; rows w_stride elements apart */
    void (*dot[WF_KERN_F_COUNT])(const void *w, int64_t w_stride, int rows, const float *x, int64_t x_stride, int nx,
                                 int64_t k, float *out);
    /* acc[j * acc_stride + n] += sum_r x[j * x_stride + r] w[r][n], r < rows <= 8, j < nx */
    void (*axpy[WF_KERN_F_COUNT])(const void *w, int64_t w_stride, int rows, const float *x, int64_t x_stride, int nx,
                                  int64_t n, float *acc, int64_t acc_stride);
    /* out[r * 4 + j] = sum over blocks of dequantised w[r] times x[j]; 1 <= nx <= 4 */
    void (*qdot[WF_KERN_Q_COUNT])(const uint8_t *w, size_t row_bytes, int rows, const float *x, int64_t x_stride, int nx,
                                  int64_t blocks, float *out);
    void (*dequant[WF_KERN_Q_COUNT])(const uint8_t *w, int64_t blocks, float *dst);
    /* x quantised to i8 by blocks: q [blocks * 32], d [blocks] scales, s [blocks] = d * sum(q) */
    void (*quantise)(const float *x, int64_t blocks, int8_t *q, float *d, float *s);
    /* as qdot; row j of the activations is at q + j * blocks * 32, d + j * blocks, s + j * blocks */
    void (*idot[WF_KERN_Q_COUNT])(const uint8_t *w, size_t row_bytes, int rows, const int8_t *q, const float *d, const float *s,
                                  int nx, int64_t blocks, float *out);
    /* p[i] = exp(p[i] - max) in place, returns the sum in a fixed order; -inf gives 0, NaN stays */
    float (*exp_row)(float *p, int64_t n, float max);
    float (*max_row)(const float *p, int64_t n, float start); /* NaN ignored */
} wf_kern_isa;

/* The best table row this processor has; WEFT_ISA=name takes another admissible one. Read once. */
const wf_kern_isa *wf_kern_isa_get(void);
const wf_kern_isa *wf_kern_isa_find(const char *name); /* NULL: unknown, or not on this processor */
const char *wf_kern_isa_name(int i);                   /* NULL past the end */
weft_status wf_kern_isa_check(void);                   /* of WEFT_ISA */
extern const wf_kern_isa wf_kern_isa_plain;
#if defined(__x86_64__)
extern const wf_kern_isa wf_kern_isa_avx2, wf_kern_isa_avx2_vnni, wf_kern_isa_avx512, wf_kern_isa_avx512_vnni;
#elif defined(__aarch64__)
extern const wf_kern_isa wf_kern_isa_neon, wf_kern_isa_neon_dot;
#endif

/* ---- where finished values go ---- */
typedef struct wf_kern_dest {
    const wf_cpu_run *run;
    const wf_cpu_kernel *epilogue; /* NULL: store to out */
    uint32_t bind_base, static_base;
    void *out;
    weft_dtype dtype;              /* f32, f16, bf16 */
    int64_t batch_rows;            /* result rows of one batch: row r is (r / batch_rows, r % batch_rows) */
    int64_t cols;
    const wf_kern_isa *isa;
} wf_kern_dest;
/* Hand on the values acc[i * row_stride + j] of result rows row0 + i, columns col0 + j. Called by many threads at once. */
void wf_kern_emit(const wf_kern_dest *d, const float *acc, int64_t row_stride, int64_t row0, int64_t rows, int64_t col0,
                  int64_t cols);

/* ---- operands ---- */
#define WF_KERN_MAX_DIMS 8
/* Whether every element addressed by offset + sum i_k stride_k (all extents > 0) lies in a binding of
 * size_bytes, elements of element_bytes. */
bool wf_kern_in_range(uint64_t size_bytes, size_t element_bytes, int64_t offset, int n, const int64_t *extents, const int64_t *strides);
static inline size_t wf_kern_float_bytes(weft_dtype t)
{
    return t == WEFT_DTYPE_F32 || t == WEFT_DTYPE_I32 ? 4 : t == WEFT_DTYPE_F64 ? 8 : t == WEFT_DTYPE_I8 || t == WEFT_DTYPE_U8 ? 1 : 2;
}
static inline bool wf_kern_is_f(weft_dtype t) { return t == WEFT_DTYPE_F32 || t == WEFT_DTYPE_F16 || t == WEFT_DTYPE_BF16; }
static inline float wf_kern_load(const void *p, weft_dtype t, int64_t i)
{
    switch (t) {
    case WEFT_DTYPE_F16: return wf_f16_to_f32(((const uint16_t *)p)[i]);
    case WEFT_DTYPE_BF16: return wf_bf16_to_f32(((const uint16_t *)p)[i]);
    default: return ((const float *)p)[i];
    }
}
/* n elements `stride` apart to contiguous f32 */
void wf_kern_gather(const wf_kern_isa *isa, const void *p, weft_dtype t, int64_t at, int64_t stride, int64_t n, float *dst);

/* dtypes of up to 7 operands in one static word, 4 bits each; operand 0 lowest */
static inline weft_dtype wf_kern_dtype(int32_t word, int i) { return (weft_dtype)(((uint32_t)word >> (4 * i)) & 15u); }

/* ---- scratch: the binding when it is there and large enough, else allocated ---- */
typedef struct wf_kern_scratch {
    char *ptr;
    void *owned;
} wf_kern_scratch;
weft_status wf_kern_scratch_get(const wf_cpu_run *run, int bind /* < 0: none */, size_t size_bytes, wf_kern_scratch *out);
static inline void wf_kern_scratch_end(wf_kern_scratch *s) { wf_free(s->owned); }

static inline bool wf_kern_cancelled(const wf_cpu_run *run)
{
    return run->cancel && atomic_load_explicit(run->cancel, memory_order_relaxed);
}
weft_status wf_kern_done(const wf_cpu_run *run); /* OK, or CANCELLED */
weft_status wf_kern_bad(const char *row, const char *what); /* INTERNAL: bindings or words that do not fit the row */
/* Operand bindings (scratch included) that precede the epilogue's; fails when fewer are bound. */
weft_status wf_kern_binds(const char *row, const wf_cpu_run *run, uint32_t n);

/* ---- keys: a value as an integer in its order; floats by sign and magnitude, NaN above all, -0 equal to +0 ---- */
static inline uint64_t wf_kern_key_f64(double v)
{
    if (v != v)
        return UINT64_MAX;
    uint64_t u;
    v += 0.0; /* -0 to +0 */
    memcpy(&u, &v, 8);
    return u >> 63 ? ~u : u | (uint64_t)1 << 63;
}
static inline uint64_t wf_kern_key(const void *x, weft_dtype t, int64_t i)
{
    switch (t) {
    case WEFT_DTYPE_F64: return wf_kern_key_f64(((const double *)x)[i]);
    case WEFT_DTYPE_I32: return (uint64_t)((int64_t)((const int32_t *)x)[i] + ((int64_t)1 << 40));
    case WEFT_DTYPE_U32: return ((const uint32_t *)x)[i];
    case WEFT_DTYPE_I8: return (uint64_t)(((const int8_t *)x)[i] + 128);
    case WEFT_DTYPE_U8:
    case WEFT_DTYPE_BOOL: return ((const uint8_t *)x)[i];
    case WEFT_DTYPE_I64: return (uint64_t)((const int64_t *)x)[i] ^ (uint64_t)1 << 63;
    default: return wf_kern_key_f64((double)wf_kern_load(x, t, i));
    }
}

/* ---- lines: all elements along one axis of a tensor, and of a result of its shape (words of scan and sort) ---- */
typedef struct wf_kern_lines {
    int64_t lines, n, x_at, x_step, out_step;
    int64_t extents[7], x_strides[7], out_strides[7]; /* of the other axes, innermost last */
    int32_t kind;
    weft_dtype dtype, out_dtype;
    const void *x;
    void *out;
} wf_kern_lines;
/* Words and bindings, checked. */
weft_status wf_kern_lines_read(const char *row, const wf_cpu_run *run, wf_kern_lines *out);
/* First element of line `line` in x and in the result. */
static inline void wf_kern_line_at(const wf_kern_lines *l, int64_t line, int64_t *x, int64_t *out)
{
    *x = l->x_at;
    *out = 0;
    for (int i = 6; i >= 0 && line > 0; i--) {
        const int64_t c = line % l->extents[i];
        line /= l->extents[i];
        *x += c * l->x_strides[i];
        *out += c * l->out_strides[i];
    }
}

/* ---- packed matrix product: any operand layout to panels, then microkernel tiles ---- */
/* A packer writes rows (a) or columns (b) first .. first+count-1 for k0 .. k0+kc-1 as strips of `width`, each kc deep. */
typedef void (*wf_kern_pack_fn)(const void *user, const wf_kern_isa *isa, int64_t batch, int64_t first, int64_t count, int width,
                                int64_t k0, int64_t kc, float *dst);
typedef struct wf_kern_gemm {
    int64_t batch, m, n, k;
    wf_kern_pack_fn pack_a, pack_b;
    const void *user_a, *user_b;
    bool a_by_k, b_by_k; /* contiguous along K in memory: packed strip by strip, else block by block */
    bool a_shared, b_shared; /* the same for every batch */
    int scratch_bind;
} wf_kern_gemm;
weft_status wf_kern_gemm_run(const wf_kern_gemm *g, const wf_kern_dest *d);
size_t wf_kern_gemm_scratch(int64_t batch, int64_t m, int64_t n, int64_t k, int n_threads);

/* ---- operands of the matrix kernels ---- */
typedef struct wf_kern_mat {
    int64_t m, n, k, batch;
    int64_t extents[3];
    const void *a, *b;
    weft_dtype a_dtype, b_dtype, out_dtype;
    int64_t a_at, a_row, a_col, a_batch[3];
    int64_t b_at, b_row, b_col, b_batch[3]; /* b_row: stride of k, b_col: stride of n */
    int per_byte; /* numbers of b in an element: 1, or 2 and 4 where b is u8; b_row is the stride of elements */
    wf_kern_dest dest;
    int scratch_bind;
} wf_kern_mat;
/* The words alone. Batches that share b and continue the rows of a are merged into m. */
weft_status wf_kern_mat_words(const char *row, const int32_t *words, wf_kern_mat *out);
/* The words and bindings, checked. */
weft_status wf_kern_mat_read(const char *row, const wf_cpu_run *run, const wf_cpu_kernel *epilogue, wf_kern_mat *out);
void wf_kern_mat_at(const wf_kern_mat *t, int64_t batch, int64_t *a_at, int64_t *b_at); /* first element of each */
weft_status wf_kern_packed_run(const wf_kern_mat *t, wf_kern_pack_fn pack_a, const void *user_a, wf_kern_pack_fn pack_b, const void *user_b);
void wf_kern_mat_pack_a(const void *mat, const wf_kern_isa *isa, int64_t batch, int64_t first, int64_t count, int width, int64_t k0, int64_t kc, float *dst);
void wf_kern_mat_pack_b(const void *mat, const wf_kern_isa *isa, int64_t batch, int64_t first, int64_t count, int width, int64_t k0, int64_t kc, float *dst);
/* Packs from a strided matrix. */
void wf_kern_pack(const wf_kern_isa *isa, const void *p, weft_dtype t, int64_t at, int64_t stride, int64_t k_stride, int64_t count,
                  int width, int64_t kc, float *dst);
/* Rows of a part of the bandwidth-bound kernels: about 192 KiB, a multiple of 4. */
#define WF_PART_ROWS(row_bytes) (((int64_t)196608 / ((row_bytes) + 1) + 4) / 4 * 4)

/* ---- blas.c: a matrix library found at run time ---- */
typedef struct wf_blas {
    const char *name; /* "oneDNN 2.6.0", or NULL: none */
    const char *reason; /* why none */
    /* row-major c [m, n] = a b, single-threaded, callable from many threads at once */
    bool (*sgemm)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                  float *c, int64_t ldc);
} wf_blas;
const wf_blas *wf_blas_get(void);
weft_status wf_blas_check(void); /* of WEFT_BLAS: a name that is known, or a path, of a library that is there */

/* ---- the kernels ---- */
weft_status wf_kern_matmul_vec(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_matmul_blas(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_matmul_packed(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_matmul_plain(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_matmul_i8(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_matmul_unfold(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_linear_q8_0(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_linear_q4_0(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_linear_q4_1(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_sdpa(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_topk(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_linalg(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_scan(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_sort(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
weft_status wf_kern_sort_values(const wf_cpu_run *run, const wf_kern_lines *l, char *scratch); /* of wf_kern_sort, where kind has WF_SORT_VALUES */
weft_status wf_kern_scatter(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);

#endif
