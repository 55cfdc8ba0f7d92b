/* weft/dtype.h - element types and quantised block types. */
#ifndef WEFT_DTYPE_H
#define WEFT_DTYPE_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The type of a tensor's elements. Bytes in memory are little endian. */
typedef enum weft_dtype {
    WEFT_DTYPE_F32 = 0, /* IEEE 754 binary32 */
    WEFT_DTYPE_F16,     /* IEEE 754 binary16 */
    WEFT_DTYPE_BF16,    /* the upper 16 bits of an f32 */
    WEFT_DTYPE_F64,     /* IEEE 754 binary64 */
    WEFT_DTYPE_I32,     /* signed, two's complement, as all signed ones */
    WEFT_DTYPE_U32,
    WEFT_DTYPE_I8,
    WEFT_DTYPE_U8,
    WEFT_DTYPE_I64,
    WEFT_DTYPE_BOOL, /* one byte, 0 or 1 */
    /* Block types: the last axis is stored in blocks of 32 elements (ggml's block layouts, as in GGUF
     * files). They are weights: linear, embedding and cast read them; nothing else does. */
    WEFT_DTYPE_Q8_0, /* f16 scale d, 32 x i8 q: d q; 34 bytes */
    WEFT_DTYPE_Q4_0, /* f16 scale d, 32 x 4-bit q: d (q - 8); byte i holds elements i (low) and i + 16; 18 bytes */
    WEFT_DTYPE_Q4_1, /* f16 scale d, f16 minimum m, 32 x 4-bit q: d q + m, the same order; 20 bytes */
    WEFT_DTYPE_COUNT /* how many there are; no dtype */
} weft_dtype;

/* Lower-case name, such as "f32" or "q8_0"; "?" for a number that is none. Static. */
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

/* The dtype of such a name. Errors: WEFT_E_DTYPE (the message lists the names); WEFT_E_CONTEXT for out NULL. */
WEFT_API weft_status weft_dtype_parse(const char *name, weft_dtype *out);

/* Elements in one block: 1 for plain types, 32 for q8_0, q4_0 and q4_1; 1 for a number that is no dtype. */
WEFT_API int weft_dtype_block(weft_dtype dtype);

/* Bytes of one block (of one element for plain types); 0 for a number that is no dtype. */
WEFT_API size_t weft_dtype_block_bytes(weft_dtype dtype);

/* Kinds of dtypes; a number that is none is of no kind, and bool is of none of these. */
WEFT_API bool weft_dtype_is_float(weft_dtype dtype);     /* f16 bf16 f32 f64 */
WEFT_API bool weft_dtype_is_integer(weft_dtype dtype);   /* i8 u8 i32 u32 i64 */
WEFT_API bool weft_dtype_is_quantised(weft_dtype dtype); /* block types */

/* The dtype of `a op b` by PyTorch's promotion rules (tensor with tensor): bool < u8, i8 < i32 <
 * u32 < i64 < f16, bf16 < f32 < f64; u8 with i8 gives i32 (PyTorch: i16, which weft has not);
 * i32 with u32 gives i64; f16 with bf16 gives f32.
 * Errors: WEFT_E_DTYPE for block types, which do not promote; WEFT_E_CONTEXT for out NULL.
 * Source: torch.promote_types. */
WEFT_API weft_status weft_dtype_promote(weft_dtype a, weft_dtype b, weft_dtype *out);

#ifdef __cplusplus
}
#endif
#endif
