/* vec_ops.h - the vector loops behind the block interpreter: one table of functions an instruction set.
 *
 * Each function is one loop over n elements; destinations never overlap sources. Truth values (BOOL) lie
 * in blocks as 32-bit 0 or 1, so that every mask has the width of a float. The same source
 * (vec_ops.inc) is compiled once for each instruction set; fp contraction is off, so an element's bits
 * do not depend on whether a vector body or a tail computed it.
 */
#ifndef WF_VEC_OPS_H
#define WF_VEC_OPS_H

#include "kir.h"

typedef void (*wf_vec1)(void *d, const void *a, int64_t n);
typedef void (*wf_vec2)(void *d, const void *a, const void *b, int64_t n);
typedef void (*wf_vec3)(void *d, const void *a, const void *b, const void *c, int64_t n);
/* Fold n elements into one accumulator. SUM and PROD of F32 accumulate in a double. */
typedef void (*wf_fold_row)(void *acc, const void *v, int64_t n);
typedef void (*wf_fold_dot)(void *acc, const void *a, const void *b, int64_t n);
typedef void (*wf_exp_sum)(void *acc, void *d, const void *a, const void *shift, const void *ahead, int64_t n);
typedef void (*wf_vec_standard)(void *d, const void *a, const void *const s[4], int64_t n);
/* acc[c] = acc[c] op v[r][c] for rows x cols elements; acc has the type of v. */
typedef void (*wf_fold_cols)(void *acc, const void *v, int64_t rows, int64_t cols);
/* Extreme and its position: element i (of row r) stands at pos + i * step. */
typedef void (*wf_arg_row)(void *best, int32_t *index, const void *v, int64_t n, int32_t pos, int32_t step);
typedef void (*wf_arg_cols)(void *best, int32_t *index, const void *v, int64_t rows, int64_t cols, int32_t pos, int32_t step);

#define WF_KROP_COUNT (WF_KROP_ARGMIN + 1)

typedef struct wf_vec_ops {
    const char *name;
    wf_vec1 unary[WF_KOP_COUNT][WF_KTY_COUNT];
    wf_vec2 binary[WF_KOP_COUNT][WF_KTY_COUNT];    /* by the type of the operands */
    wf_vec2 vec_scalar[WF_KOP_COUNT];              /* F32: b is one element */
    wf_vec2 scalar_vec[WF_KOP_COUNT];              /* F32: a is one element */
    wf_vec2 vec_scalar_i32[WF_KOP_COUNT];          /* the same of I32, for what indices are made of */
    wf_vec3 exp_shift;                             /* F32: exp(a - b), b is one element; n elements at c (or a) are
                                                      asked for from memory on the way */
    wf_vec3 mul_add;                               /* F32: a * b + c, rounded twice */
    wf_fold_dot dot_row;                           /* F32: the sum of a * b, as SUM of their product */
    wf_fold_dot squares_row;                       /* F32: the sum of (a - b)^2, b is one element */
    wf_exp_sum exp_sum;                            /* exp_shift, and the sum of what it gives */
    wf_vec3 sub_mul;                               /* F32: (a - b) * c, b and c are one element */
    wf_vec_standard standard;                      /* F32: (a - s[0]) * s[1] * s[2] + s[3], s[0] and s[1] are one element */
    wf_vec3 fma[WF_KTY_COUNT];
    wf_vec3 select4, select8;                      /* by element size */
    wf_vec1 cast[WF_KTY_COUNT][WF_KTY_COUNT];      /* [from][to] */
    wf_vec1 round_f16, round_bf16;
    wf_vec1 load[WEFT_DTYPE_COUNT];                /* contiguous storage to a block of the compute type */
    wf_vec1 store[WEFT_DTYPE_COUNT];               /* and back */
    void (*stream)(void *d, const void *a, size_t n_bytes); /* past the caches; d is 4-byte aligned */
    /* F32: like binary and vec_scalar, past the caches; not for every operation */
    wf_vec2 binary_stream[WF_KOP_COUNT], scalar_stream[WF_KOP_COUNT];
    void (*fill4)(void *d, uint32_t v, int64_t n);
    void (*fill8)(void *d, uint64_t v, int64_t n);
    void (*iota)(int32_t *d, int32_t first, int32_t step, int64_t n);
    /* d[i] = a[i], + wrap where negative; 0 where that is not in 0 .. extent-1. Was there such a one? */
    bool (*check_index)(int32_t *d, const int32_t *a, int32_t wrap, int32_t extent, int64_t n);
    /* by log2 of the element size: d[i] = a[i * stride]; d[i] = a[clamp(index[i], 0, limit - 1)] */
    void (*strided[4])(void *d, const void *a, int64_t stride, int64_t n);
    void (*gather[4])(void *d, const void *a, const int32_t *index, int64_t n, int64_t limit);
    void (*scatter[4])(void *d, const void *a, const int32_t *index, int64_t n, int64_t limit); /* outside: dropped */
    /* d[r * cols + c] = a[r + c * stride] */
    void (*transpose[4])(void *d, const void *a, int64_t stride, int64_t rows, int64_t cols);
    wf_fold_row fold_row[WF_KROP_COUNT][WF_KTY_COUNT];
    wf_fold_cols fold_cols[WF_KROP_COUNT][WF_KTY_COUNT];
    wf_arg_row arg_row[2][WF_KTY_COUNT];           /* 0 max, 1 min */
    wf_arg_cols arg_cols[2][WF_KTY_COUNT];
    /* Running sums of F32 in f64: the next `rows` elements of each of n lines side by side; the next n elements of one line. */
    void (*sum_side)(double *acc, const float *x, int64_t x_step, float *out, int64_t out_step, int64_t rows, int64_t n);
    void (*sum_along)(double *acc, const float *x, float *out, int64_t n);
    /* One row of a block type in its file layout: elements first .. first + n - 1 of block data. */
    void (*dequantise[3])(float *d, const void *blocks, int64_t first, int64_t n); /* Q8_0, Q4_0, Q4_1 */
} wf_vec_ops;

extern const wf_vec_ops wf_vec_ops_base;
#if defined(__x86_64__)
extern const wf_vec_ops wf_vec_ops_avx2;
extern const wf_vec_ops wf_vec_ops_avx512;
#endif
const wf_vec_ops *wf_vec_ops_get(void); /* the best for this processor */
wf_vec2 wf_libm_loop(wf_libm function);   /* F64; the same for every instruction set */

#endif
