/* quantize.c - the public codecs (weft/quantize.h): rows of f32 to the layout of files and back. */
#include "quant.h"
#include "weft/quantize.h"

#define MAX_NUMEL ((int64_t)1 << 58) /* a byte count of any dtype fits 63 bits */

static weft_status check(const char *who, weft_dtype dtype, int64_t n_rows, int64_t n_cols, const void *src, const void *dst,
                         int64_t *n)
{
    if (dtype != WEFT_DTYPE_F32 && !wf_quant_find(dtype))
        return wf_fail(WEFT_E_DTYPE, "%s: %s, expected f32, f16, bf16, q8_0, q4_0 or q4_1", who, weft_dtype_name(dtype));
    if (n_rows < 0 || n_cols < 0 || !wf_mul_i64(n_rows, n_cols, n) || *n > MAX_NUMEL)
        return wf_fail(WEFT_E_SHAPE, "%s: [%lld, %lld] is out of range", who, (long long)n_rows, (long long)n_cols);
    if (n_cols % weft_dtype_block(dtype))
        return wf_fail(WEFT_E_SHAPE, "%s: rows of %lld elements, expected a multiple of %d, the block of %s", who,
                       (long long)n_cols, weft_dtype_block(dtype), weft_dtype_name(dtype));
    if (*n && (!src || !dst))
        return wf_fail(WEFT_E_CONTEXT, "%s: src and dst must not be NULL", who);
    return WEFT_OK;
}

weft_status weft_quantize_rows(weft_dtype dtype, int64_t n_rows, int64_t n_cols, const float *src, void *dst)
{
    int64_t n = 0;
    WF_TRY(check("quantize_rows", dtype, n_rows, n_cols, src, dst, &n));
    if (dtype != WEFT_DTYPE_F32)
        return wf_quant_encode(dtype, src, dst, n);
    if (n)
        memcpy(dst, src, (size_t)n * sizeof *src);
    return WEFT_OK;
}

weft_status weft_dequantize_rows(weft_dtype dtype, int64_t n_rows, int64_t n_cols, const void *src, float *dst)
{
    int64_t n = 0;
    WF_TRY(check("dequantize_rows", dtype, n_rows, n_cols, src, dst, &n));
    if (dtype != WEFT_DTYPE_F32)
        return wf_quant_decode(dtype, src, dst, n);
    if (n)
        memcpy(dst, src, (size_t)n * sizeof *dst);
    return WEFT_OK;
}
