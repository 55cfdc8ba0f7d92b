/* weft/quantize.h - block and 16-bit types on the host: rows of f32 to the bytes of a file, and back.
 *
 * For writing model files and for looking into them. On a device weft_cast dequantises, and
 * weft_linear and weft_embedding read block types as they are.
 */
#ifndef WEFT_QUANTIZE_H
#define WEFT_QUANTIZE_H

#include "weft/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Encode rows of f32, in the layout of GGUF files: little endian, row after row, no padding.
 *
 *   dtype    f32 (a copy), f16, bf16, q8_0, q4_0 or q4_1
 *   src      [n_rows, n_cols] row-major; n_cols is a multiple of weft_dtype_block(dtype)
 *   dst      n_rows * n_cols / weft_dtype_block(dtype) * weft_dtype_block_bytes(dtype) bytes, any
 *            alignment, not overlapping src
 *
 * f16 and bf16 round to nearest even, overflow to infinity, subnormals kept. A block type rounds as
 * ggml's reference does, bit for bit; x is an element of a block of 32:
 *   q8_0     d = max|x| / 127, q = round(x / d) with halves away from zero
 *   q4_0     d = m / -8 for m the x of largest magnitude, q = floor(x / d + 8.5), at most 15
 *   q4_1     d = (max x - min x) / 15, q = floor((x - min x) / d + 0.5), at most 15
 * d and min x are stored as f16. A NaN or an infinity in a block makes the values of that block
 * meaningless, but is no error.
 * Errors: WEFT_E_DTYPE for another dtype; WEFT_E_SHAPE for a negative count, a product above 2^58, or
 * n_cols off the block; WEFT_E_CONTEXT for NULL where elements are expected. dst is then untouched.
 * Source: ggml, block_q8_0, block_q4_0 and block_q4_1 with their quantize_row_*_ref functions. */
WEFT_API weft_status weft_quantize_rows(weft_dtype dtype, int64_t n_rows, int64_t n_cols, const float *src, void *dst);

/* Decode such rows: the inverse, up to the rounding. Exact in f32 except that q4_1 rounds its sum once.
 *
 *   dtype    f32 (a copy), f16, bf16, q8_0, q4_0 or q4_1
 *   src      the bytes that weft_quantize_rows writes, any alignment
 *   dst      [n_rows, n_cols] f32 row-major, not overlapping src
 *
 * Values: q8_0 d q, q4_0 d (q - 8), q4_1 d q + min.
 * Errors: as weft_quantize_rows. */
WEFT_API weft_status weft_dequantize_rows(weft_dtype dtype, int64_t n_rows, int64_t n_cols, const void *src, float *dst);

#ifdef __cplusplus
}
#endif
#endif
