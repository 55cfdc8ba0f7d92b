/* cpu_kernels.h - what the kernel table must know of the CPU device's named kernels: their static words
 * beyond kernel_table.h, which row a shape suits, and the scratch memory a run can use.
 */
#ifndef WF_CPU_KERNELS_H
#define WF_CPU_KERNELS_H

#include "base.h"

/* Static words a row takes; the epilogue's follow. */
#define WF_KERN_MAT_WORDS 20   /* word 19: dtypes of a, b, out; matmul_i8 with b in u8: bits 12..15 numbers a byte (2: i4, 4: ternary) */
#define WF_KERN_UNFOLD_WORDS 57 /* those of a matrix, and how its windowed operand lies */
#define WF_KERN_QUANT_WORDS 20 /* word 11: dtypes of x, out; 12..15 row extents of x, outermost first; 16..19 their strides */
#define WF_KERN_SDPA_WORDS 40  /* word 31: dtypes of q, k, v, out, mask; word 30: element of a bound kv_len; word 39: WF_SDPA_* */
#define WF_KERN_TOPK_WORDS 12  /* word 11: dtype of x */
#define WF_KERN_LINALG_WORDS 9 /* 0 kind 1 flags (linalg.h) 2 batch 3 m 4 n 5 k 6 offset of a 7 offset of b 8 dtype */
#define WF_KERN_LINE_WORDS 28  /* scan, sort; word 27: dtypes of x, out */
#define WF_KERN_SCATTER_WORDS 56 /* word 48: dtype */

/* A dtypes word: operand i in bits 4 i .. 4 i + 3, and flags. */
#define WF_KERN_HAS_SCRATCH (1 << 24) /* the last binding before the epilogue's is scratch */
#define WF_KERN_LEN_BOUND (1 << 25)   /* sdpa: kv_len is bound after the mask */
enum { WF_SDPA_SLOPES = 1, WF_SDPA_SINKS = 2 }; /* sdpa: which of them are bound, in this order */
#define WF_KERN_FLAT (1 << 28)        /* matrix: the epilogue sees rows as (0, batch * M + m, n) */

/* Whether matmul_vec or matmul_blas is made for a problem (its words); else *why says what is in the way. */
bool wf_kern_vec_fits(const int32_t *words, const char **why);
bool wf_kern_blas_fits(const int32_t *words, const char **why);

/* Scratch bytes that a run on n_threads uses; it allocates what it does not get. */
size_t wf_kern_vec_scratch(const int32_t *words, int n_threads);
size_t wf_kern_blas_scratch(const int32_t *words, int n_threads);
size_t wf_kern_i8_scratch(const int32_t *words, int n_threads);
size_t wf_kern_packed_scratch(const int32_t *words, int n_threads);
size_t wf_kern_quant_scratch(int64_t m, int64_t n, int64_t k, bool act_int8, int n_threads);
size_t wf_kern_sdpa_scratch(int64_t b, int64_t hq, int64_t hkv, int64_t tq, int64_t tk, int64_t d, int64_t e, int n_threads);
size_t wf_kern_topk_scratch(int64_t rows, int64_t n, int64_t k);
size_t wf_kern_sort_scratch(int64_t lines, int64_t n, int n_threads);

#endif
