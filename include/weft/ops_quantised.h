/* weft/ops_quantised.h - tensors stored as small integers with scales, made and used without files.
 *
 * Quantised data are ordinary tensors of i8 or u8 beside a tensor of scales: they cross devices, are saved and counted
 * (weft_tensor_nbytes) like others. Rounding is to nearest, ties to even. See weft/ops.h for what all operations share.
 */
#ifndef WEFT_OPS_QUANTISED_H
#define WEFT_OPS_QUANTISED_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How rows of K numbers are stored; each row has a scale of its own. */
typedef enum weft_row_format {
    WEFT_ROWS_I8 = 0,  /* i8 [.., K]: q = round(x / s), s = max|x| / 127 */
    WEFT_ROWS_I4,      /* u8 [.., ceil(K / 2)]: q + 8 in four bits, the even element in the low ones; s = max|x| / 7 */
    WEFT_ROWS_TERNARY  /* u8 [.., ceil(K / 4)]: q + 1 in two bits, the first element in the lowest; s = mean|x|, q in -1, 0, 1.
                        * Source: Ma et al. 2024, arXiv:2402.17764, eq. 1 to 3 */
} weft_row_format;

/* The format of that name ("i8", "i4", "ternary"). Errors: WEFT_E_VALUE for another name. */
WEFT_API weft_status weft_row_format_find(const char *name, weft_row_format *out);

/* One scale for a whole tensor: i8 data and, in *scale, rank 0 f32 max|x| / 127. A tensor of zeros has scale 0.
 *   x        a float dtype
 *   returns  i8, the shape of x
 * Errors: WEFT_E_DTYPE. */
WEFT_API weft_tensor *weft_quantize_tensor(weft_tensor *x, weft_tensor **scale);
/* data * scale. data i8; scale f32, broadcast; returns f32. */
WEFT_API weft_tensor *weft_dequantize_tensor(weft_tensor *data, weft_tensor *scale);
/* The exact integer product.
 *   a        i8 [.., M, K]
 *   b        i8 [.., K, N]; batch axes broadcast
 *   returns  i32 [.., M, N]: exact for K up to 2^17, beyond which sums may wrap
 * Errors: WEFT_E_DTYPE, WEFT_E_SHAPE. */
WEFT_API weft_tensor *weft_matmul_i8(weft_tensor *a, weft_tensor *b);
/* weft_matmul_i8(a, b) * a_scale * b_scale, in f32. The scales broadcast to [.., M, N]. */
WEFT_API weft_tensor *weft_matmul_scaled(weft_tensor *a, weft_tensor *a_scale, weft_tensor *b, weft_tensor *b_scale);

/* Rows along the last axis, each with its scale.
 *   x        [.., K], a float dtype, rank at least 1
 *   scale    receives f32 [..]: x.shape without the last axis; 0 for a row of zeros
 *   returns  the data in that format
 * Errors: WEFT_E_SHAPE, WEFT_E_DTYPE, WEFT_E_VALUE for an unknown format. */
WEFT_API weft_tensor *weft_quantize_to_rows(weft_tensor *x, weft_row_format format, weft_tensor **scale);
/* f32 [.., columns] of such rows. Errors: WEFT_E_SHAPE when columns does not fit the data. */
WEFT_API weft_tensor *weft_dequantize_from_rows(weft_tensor *data, weft_tensor *scale, weft_row_format format, int64_t columns);
/* x w^T + bias for rows w, which are unpacked inside the product and never expanded in memory.
 *   x        [.., K]  f32, f16 or bf16
 *   data     [N, ..] of K columns in that format; scale f32 [N]; bias [N] or NULL
 *   returns  [.., N]  dtype of x, accumulated in f32
 * Errors: WEFT_E_SHAPE when K does not fit the data. */
WEFT_API weft_tensor *weft_linear_rows(weft_tensor *x, weft_tensor *data, weft_tensor *scale, weft_row_format format, weft_tensor *bias);

#ifdef __cplusplus
}
#endif
#endif
