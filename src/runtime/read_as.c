/* read_as.c - reading with conversion, done on the host as weft_cast does it on a device. */
#include <math.h>

#include "quant.h"
#include "runtime.h"

/* A value on its way: floats as f64 (which holds every f32 and i32), 64-bit integers apart. */
typedef struct number {
    double f;
    int64_t i;
    bool is_int;
} number;

static number load_number(weft_dtype dtype, const void *src, int64_t k)
{
    switch (dtype) {
    case WEFT_DTYPE_F32: return (number){.f = ((const float *)src)[k]};
    case WEFT_DTYPE_F16: return (number){.f = wf_f16_to_f32(((const uint16_t *)src)[k])};
    case WEFT_DTYPE_BF16: return (number){.f = wf_bf16_to_f32(((const uint16_t *)src)[k])};
    case WEFT_DTYPE_F64: return (number){.f = ((const double *)src)[k]};
    case WEFT_DTYPE_I32: return (number){.i = ((const int32_t *)src)[k], .is_int = true};
    case WEFT_DTYPE_U32: return (number){.i = ((const uint32_t *)src)[k], .is_int = true};
    case WEFT_DTYPE_I8: return (number){.i = ((const int8_t *)src)[k], .is_int = true};
    case WEFT_DTYPE_I64: return (number){.i = ((const int64_t *)src)[k], .is_int = true};
    case WEFT_DTYPE_BOOL: return (number){.i = ((const uint8_t *)src)[k] != 0, .is_int = true};
    default: return (number){.i = ((const uint8_t *)src)[k], .is_int = true};
    }
}

/* Truncating and saturating; NaN gives 0. Integers wrap. */
static int64_t to_integer(number n, int64_t lo, int64_t hi)
{
    if (n.is_int)
        return n.i;
    if (isnan(n.f))
        return 0;
    return n.f <= (double)lo ? lo : n.f >= (double)hi ? hi : (int64_t)n.f;
}

static void store_number(weft_dtype dtype, void *dst, int64_t k, number n)
{
    double f = n.is_int ? (double)n.i : n.f;
    switch (dtype) {
    case WEFT_DTYPE_F32: ((float *)dst)[k] = n.is_int ? (float)n.i : (float)n.f; break;
    case WEFT_DTYPE_F16: ((uint16_t *)dst)[k] = wf_f32_to_f16((float)f); break; /* through f32, as a kernel does */
    case WEFT_DTYPE_BF16: ((uint16_t *)dst)[k] = wf_f32_to_bf16((float)f); break;
    case WEFT_DTYPE_F64: ((double *)dst)[k] = f; break;
    case WEFT_DTYPE_I32: ((int32_t *)dst)[k] = (int32_t)to_integer(n, INT32_MIN, INT32_MAX); break;
    case WEFT_DTYPE_U32: ((uint32_t *)dst)[k] = (uint32_t)to_integer(n, 0, UINT32_MAX); break;
    case WEFT_DTYPE_I8: ((int8_t *)dst)[k] = (int8_t)to_integer(n, INT8_MIN, INT8_MAX); break;
    case WEFT_DTYPE_I64: ((int64_t *)dst)[k] = to_integer(n, INT64_MIN, INT64_MAX); break;
    case WEFT_DTYPE_BOOL: ((uint8_t *)dst)[k] = n.is_int ? n.i != 0 : n.f != 0; break;
    default: ((uint8_t *)dst)[k] = (uint8_t)to_integer(n, 0, UINT8_MAX); break;
    }
}

weft_status weft_read_as(weft_tensor *t, weft_dtype dtype, void *dst, size_t size_bytes)
{
    if (!t || t->status != WEFT_OK || dtype == weft_tensor_dtype(t))
        return weft_read(t, dst, size_bytes);
    if (!wf_dtype_known(dtype) || weft_dtype_is_quantised(dtype))
        return wf_fail(WEFT_E_DTYPE, "read_as: %s is no dtype to convert to", weft_dtype_name(dtype));
    int64_t n = weft_tensor_numel(t);
    if (size_bytes != wf_dtype_bytes(dtype, n))
        return wf_fail(WEFT_E_VALUE, "read_as: %lld elements of %s are %zu bytes, the buffer has %zu", (long long)n,
                       weft_dtype_name(dtype), wf_dtype_bytes(dtype, n), size_bytes);
    weft_dtype from = weft_tensor_dtype(t);
    size_t raw_bytes = weft_tensor_nbytes(t);
    void *raw = wf_alloc(raw_bytes);
    float *plain = NULL;
    if (!raw)
        return wf_fail_oom(raw_bytes);
    weft_status st = weft_read(t, raw, raw_bytes);
    if (st == WEFT_OK && weft_dtype_is_quantised(from)) {
        plain = wf_alloc(sizeof *plain * (size_t)n);
        st = plain ? wf_quant_decode(from, raw, plain, n) : wf_fail_oom(sizeof *plain * (size_t)n);
        from = WEFT_DTYPE_F32;
    }
    for (int64_t k = 0; k < n && st == WEFT_OK; k++)
        store_number(dtype, dst, k, load_number(from, plain ? (void *)plain : raw, k));
    wf_free(plain);
    wf_free(raw);
    return st;
}
