/* weft/ops_creation.h - tensors from nothing but numbers, and triangles; see weft/ops.h for what all operations share.
 *
 * weft_zeros, weft_full, weft_arange and weft_tri are in weft/tensor.h and weft/ops.h. "dtype" is any plain dtype.
 */
#ifndef WEFT_OPS_CREATION_H
#define WEFT_OPS_CREATION_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every element 1. */
WEFT_API weft_tensor *weft_ones(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape);
/* Every element `value`, in the shape of x. The result does not depend on the elements of x. */
WEFT_API weft_tensor *weft_full_like(weft_tensor *x, weft_dtype dtype, double value);
/* One number of rank 0; f32 and i32 are run-time values, as weft_scalar_f32. */
WEFT_API weft_tensor *weft_scalar_tensor(weft_ctx *ctx, weft_dtype dtype, double value);
/* [rows, cols]: 1 where row == col, else 0. Errors: WEFT_E_SHAPE for a negative extent. */
WEFT_API weft_tensor *weft_eye(weft_ctx *ctx, weft_dtype dtype, int64_t rows, int64_t cols);
/* start, start + step, .. up to but without end: ceil((end - start) / step) elements.
 *   dtype  any plain dtype but bool; integers narrower than i32 wrap
 * Errors: WEFT_E_VALUE for step 0, a bound that is not finite, an end on the wrong side of start, and for integers a
 * start or step that is none or a value out of i32 (i64 for i64 and u32). */
WEFT_API weft_tensor *weft_arange_to(weft_ctx *ctx, weft_dtype dtype, double start, double end, double step);
/* n numbers from start to end, both included, equally spaced; n = 1 gives start.
 *   dtype  any plain dtype but bool; integers truncate
 * Errors: WEFT_E_VALUE for n below 0 or a bound that is not finite. */
WEFT_API weft_tensor *weft_linspace(weft_ctx *ctx, weft_dtype dtype, double start, double end, int64_t n);
/* base to the power of each of weft_linspace, rounded once. Errors: as weft_linspace. */
WEFT_API weft_tensor *weft_logspace(weft_ctx *ctx, weft_dtype dtype, double start, double end, int64_t n, double base);
/* The lower triangle of the last two axes: x where col <= row + diagonal, else 0. Errors: WEFT_E_SHAPE for rank below 2. */
WEFT_API weft_tensor *weft_tril(weft_tensor *x, int64_t diagonal);
/* The upper triangle: x where col >= row + diagonal, else 0. Errors: WEFT_E_SHAPE for rank below 2. */
WEFT_API weft_tensor *weft_triu(weft_tensor *x, int64_t diagonal);
/* i32 [2, n]: rows and columns of the lower (upper) triangle of a rows x cols matrix, row by row.
 * Errors: WEFT_E_VALUE for an extent below 0 or above 2^31-1. */
WEFT_API weft_tensor *weft_tril_indices(weft_ctx *ctx, int64_t rows, int64_t cols, int64_t diagonal);
WEFT_API weft_tensor *weft_triu_indices(weft_ctx *ctx, int64_t rows, int64_t cols, int64_t diagonal);
/* index.shape followed by [n_classes], i32: 1 at the index, else 0. n_classes -1 is the largest index + 1, which is evaluated.
 * Errors: WEFT_E_VALUE for other n_classes below 1, and for -1 without an index; WEFT_E_DTYPE unless index is an integer;
 * WEFT_E_INDEX of the evaluation for an index outside 0 .. n_classes-1. */
WEFT_API weft_tensor *weft_one_hot(weft_tensor *index, int64_t n_classes);

#ifdef __cplusplus
}
#endif
#endif
