/* weft/dtype.h - element types and quantised block types. */
#ifndef WEFT_DTYPE_H
#define WEFT_DTYPE_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_dtype {
    WEFT_DTYPE_F32 = 0,
    WEFT_DTYPE_F16,
    WEFT_DTYPE_BF16,
    WEFT_DTYPE_F64,
    WEFT_DTYPE_I32,
    WEFT_DTYPE_U32,
    WEFT_DTYPE_I8,
    WEFT_DTYPE_U8,
    WEFT_DTYPE_I64,
    WEFT_DTYPE_BOOL, /* one byte, 0 or 1 */
    /* Block types: the last axis is stored in blocks of 32 elements (GGUF, ggml block layouts).
     * They are weights: linear, embedding and cast read them; nothing else does. */
    WEFT_DTYPE_Q8_0, /* f16 scale, 32 x i8:                34 bytes */
    WEFT_DTYPE_Q4_0, /* f16 scale, 32 x 4 bits, minus 8:   18 bytes */
    WEFT_DTYPE_Q4_1, /* f16 scale, f16 minimum, 32 x 4 bits: 20 bytes */
    WEFT_DTYPE_COUNT
} weft_dtype;

/* Lower-case name: "f32", "q8_0"; "?" for a number that is none. */
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

/* The dtype of a name. Errors: WEFT_E_DTYPE. */
WEFT_API weft_status weft_dtype_parse(const char *name, weft_dtype *out);

/* Elements in one block: 1 for plain types, 32 for Q8_0, Q4_0 and Q4_1. */
WEFT_API int weft_dtype_block(weft_dtype dtype);

/* Bytes of one block (of one element for plain types); 0 for a number that is no dtype. */
WEFT_API size_t weft_dtype_block_bytes(weft_dtype dtype);

WEFT_API bool weft_dtype_is_float(weft_dtype dtype);     /* f16 bf16 f32 f64 */
WEFT_API bool weft_dtype_is_integer(weft_dtype dtype);   /* i8 u8 i32 u32 i64; not bool */
WEFT_API bool weft_dtype_is_quantised(weft_dtype dtype); /* block types */

/* The dtype of `a op b` by PyTorch's promotion rules (tensor with tensor): bool < u8, i8 < i32 <
 * u32 < i64 < f16, bf16 < f32 < f64; u8 with i8 gives i32 (PyTorch: i16, which weft has not);
 * i32 with u32 gives i64; f16 with bf16 gives f32.
 * Errors: WEFT_E_DTYPE for block types, which do not promote. */
WEFT_API weft_status weft_dtype_promote(weft_dtype a, weft_dtype b, weft_dtype *out);

#ifdef __cplusplus
}
#endif
#endif
