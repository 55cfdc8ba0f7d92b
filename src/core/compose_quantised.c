/* compose_quantised.c - integers with scales, written over other operations.
 *
 * Unpacking is arithmetic on f32, exact for bytes: high = floor(v / 16), low = v - 16 high. A product over packed
 * rows is one reduction whose prologue unpacks, so no weight is ever expanded in memory.
 */
#include "build.h"
#include "composite.h"
#include "weft/ops_pointwise.h"
#include "weft/ops_quantised.h"

typedef struct format_info {
    const char *name;
    int per_byte;    /* numbers in a byte */
    int levels;      /* largest |q| */
    int zero;        /* what is added before packing */
    weft_dtype dtype;
} format_info;

static const format_info formats[] = {
    [WEFT_ROWS_I8] = {"i8", 1, 127, 0, WEFT_DTYPE_I8},
    [WEFT_ROWS_I4] = {"i4", 2, 7, 8, WEFT_DTYPE_U8},
    [WEFT_ROWS_TERNARY] = {"ternary", 4, 1, 1, WEFT_DTYPE_U8},
};

weft_status weft_row_format_find(const char *name, weft_row_format *out)
{
    for (size_t i = 0; name && out && i < WF_COUNT(formats); i++)
        if (strcmp(name, formats[i].name) == 0) {
            *out = (weft_row_format)i;
            return WEFT_OK;
        }
    return wf_fail(WEFT_E_VALUE, "row format \"%.20s\" is not i8, i4 or ternary", name ? name : "");
}

static const format_info *info_of(weft_row_format format)
{
    return (int)format >= 0 && (size_t)format < WF_COUNT(formats) ? &formats[format] : NULL;
}

static weft_tensor *f32(weft_tensor *like, double v) { return weft_full(weft_tensor_ctx(like), WEFT_DTYPE_F32, 0, NULL, v); }

/* round(x / scale) within +-levels, as f32; 0 where the scale is 0. */
static weft_tensor *to_levels(weft_tensor *x, weft_tensor *scale, int levels)
{
    weft_tensor *safe = weft_where(weft_eq(scale, f32(x, 0)), f32(x, 1), scale);
    weft_tensor *q = weft_round(weft_div(x, safe), 0);
    return weft_maximum(weft_minimum(q, f32(x, levels)), f32(x, -levels));
}

static bool is_float(const weft_tensor *t)
{
    weft_dtype d = weft_tensor_dtype(t);
    return weft_dtype_is_float(d) && weft_dtype_block(d) == 1;
}

/* Both results are the error tensor. */
static weft_tensor *fail_both(weft_tensor *failed, weft_tensor **scale)
{
    if (scale)
        *scale = failed;
    return failed;
}

/* ---- one scale ---- */

weft_tensor *weft_quantize_tensor(weft_tensor *x, weft_tensor **scale)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "quantize_tensor", 1, WF_INPUTS(x)))
        return fail_both(c.failed, scale);
    if (!is_float(x))
        return fail_both(wf_composite_fail(&c, WEFT_E_DTYPE, "input is %s, expected a float dtype", weft_dtype_name(weft_tensor_dtype(x))), scale);
    weft_tensor *v = weft_cast(x, WEFT_DTYPE_F32);
    weft_tensor *s = weft_tensor_numel(x) == 0 ? f32(x, 0) : weft_div(weft_max(weft_abs(v), NULL, 0, false), f32(x, 127));
    if (scale)
        *scale = wf_composite_give(&c, s);
    return wf_composite_end(&c, weft_cast(to_levels(v, s, 127), WEFT_DTYPE_I8));
}

weft_tensor *weft_dequantize_tensor(weft_tensor *data, weft_tensor *scale)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "dequantize_tensor", 2, WF_INPUTS(data, scale)))
        return c.failed;
    return wf_composite_end(&c, weft_mul(weft_cast(data, WEFT_DTYPE_F32), weft_cast(scale, WEFT_DTYPE_F32)));
}

weft_tensor *weft_matmul_i8(weft_tensor *a, weft_tensor *b)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "matmul_i8", 2, WF_INPUTS(a, b)))
        return c.failed;
    if (weft_tensor_dtype(a) != WEFT_DTYPE_I8 || weft_tensor_dtype(b) != WEFT_DTYPE_I8)
        return wf_composite_fail(&c, WEFT_E_DTYPE, "operands are %s and %s, expected i8", weft_dtype_name(weft_tensor_dtype(a)),
                                 weft_dtype_name(weft_tensor_dtype(b)));
    int ra = weft_tensor_rank(a), rb = weft_tensor_rank(b);
    if (ra < 2 || rb < 2 || weft_tensor_dim(a, -1) != weft_tensor_dim(b, -2))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "operands of rank %d and %d with K %lld and %lld: expected [.., M, K] and [.., K, N]", ra, rb,
                                 (long long)(ra ? weft_tensor_dim(a, -1) : 0), (long long)(rb > 1 ? weft_tensor_dim(b, -2) : 0));
    if (ra >= WEFT_MAX_RANK || rb >= WEFT_MAX_RANK)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "rank %d is above %d", WF_MAX(ra, rb), WEFT_MAX_RANK - 1);
    /* The casts have the axes of the product: the CPU sees a matrix product in it (contract.c in compile). */
    weft_tensor *x = weft_cast(weft_unsqueeze(a, -2), WEFT_DTYPE_I32);                       /* [.., M, 1, K] */
    weft_tensor *y = weft_cast(weft_unsqueeze(weft_transpose(b, -1, -2), -3), WEFT_DTYPE_I32); /* [.., 1, N, K] */
    return wf_composite_end(&c, weft_sum(weft_mul(x, y), (int[]){-1}, 1, false));
}

weft_tensor *weft_matmul_scaled(weft_tensor *a, weft_tensor *a_scale, weft_tensor *b, weft_tensor *b_scale)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "matmul_scaled", 4, WF_INPUTS(a, a_scale, b, b_scale)))
        return c.failed;
    weft_tensor *exact = weft_cast(weft_matmul_i8(a, b), WEFT_DTYPE_F32);
    return wf_composite_end(&c, weft_mul(weft_mul(exact, a_scale), b_scale));
}

/* ---- a scale for each row ---- */

/* The last axis from `from` on, every `step`th. */
static weft_tensor *every(weft_tensor *x, int64_t from, int64_t step) { return weft_slice(x, -1, from, WEFT_INDEX_NONE, step); }

/* x with its last axis filled up with `value` to a multiple of n. */
static weft_tensor *fill_up(weft_tensor *x, int64_t n, double value)
{
    int64_t k = weft_tensor_dim(x, -1), shape[WEFT_MAX_RANK];
    if (k % n == 0)
        return x;
    int rank = weft_tensor_rank(x);
    memcpy(shape, weft_tensor_shape(x), (size_t)rank * sizeof *shape);
    shape[rank - 1] = n - k % n;
    weft_tensor *rest = weft_full(weft_tensor_ctx(x), weft_tensor_dtype(x), rank, shape, value);
    return weft_cat((weft_tensor *[]){x, rest}, 2, -1);
}

weft_tensor *weft_quantize_to_rows(weft_tensor *x, weft_row_format format, weft_tensor **scale)
{
    const format_info *f = info_of(format);
    wf_composite c;
    if (!wf_composite_begin(&c, "quantize_rows", 1, WF_INPUTS(x)))
        return fail_both(c.failed, scale);
    if (!f)
        return fail_both(wf_composite_fail(&c, WEFT_E_VALUE, "format number %d is unknown", (int)format), scale);
    if (!is_float(x) || weft_tensor_rank(x) < 1)
        return fail_both(wf_composite_fail(&c, is_float(x) ? WEFT_E_SHAPE : WEFT_E_DTYPE, "input is %s of rank %d, expected a float dtype of rank 1 or more",
                                           weft_dtype_name(weft_tensor_dtype(x)), weft_tensor_rank(x)), scale);
    weft_tensor *v = weft_cast(x, WEFT_DTYPE_F32), *size = weft_abs(v);
    const int last = -1;
    weft_tensor *s = weft_tensor_dim(x, -1) == 0 ? weft_sum(size, &last, 1, true)
                     : f->levels == 1            ? weft_mean(size, &last, 1, true)
                                                 : weft_div(weft_max(size, &last, 1, true), f32(x, f->levels));
    weft_tensor *q = to_levels(v, s, f->levels), *packed = q;
    if (f->per_byte > 1) {
        q = fill_up(weft_add(q, f32(x, f->zero)), f->per_byte, f->zero);
        packed = every(q, 0, f->per_byte);
        double place = 1;
        for (int j = 1; j < f->per_byte; j++) {
            place *= 256 >> (8 - 8 / f->per_byte);
            packed = weft_add(packed, weft_mul(every(q, j, f->per_byte), f32(x, place)));
        }
    }
    if (scale)
        *scale = wf_composite_give(&c, weft_squeeze(s, -1));
    return wf_composite_end(&c, weft_cast(packed, f->dtype));
}

/* The numbers that lie j-th in their bytes, as f32. */
static weft_tensor *unpack(weft_tensor *bytes, const format_info *f, int j)
{
    if (f->per_byte == 1)
        return bytes;
    const int bits = 8 / f->per_byte;
    const double low = 1 << (bits * j), width = 1 << bits;
    weft_tensor *v = j ? weft_floor(weft_mul(bytes, f32(bytes, 1 / low))) : bytes; /* a power of two: exact */
    if (j < f->per_byte - 1)
        v = weft_sub(v, weft_mul(weft_floor(weft_mul(v, f32(bytes, 1 / width))), f32(bytes, width)));
    return weft_sub(v, f32(bytes, f->zero));
}

static bool fits(weft_tensor *data, const format_info *f, int64_t columns)
{
    return weft_tensor_rank(data) >= 1 && columns >= 0 && weft_tensor_dtype(data) == f->dtype &&
           weft_tensor_dim(data, -1) == (columns + f->per_byte - 1) / f->per_byte;
}

static weft_tensor *no_fit(wf_composite *c, weft_tensor *data, const format_info *f, int64_t columns)
{
    return wf_composite_fail(c, WEFT_E_SHAPE, "data is %s with %lld bytes a row, but %lld columns in %s are %s with %lld", weft_dtype_name(weft_tensor_dtype(data)),
                             (long long)(weft_tensor_rank(data) ? weft_tensor_dim(data, -1) : 0), (long long)columns, f->name, weft_dtype_name(f->dtype),
                             (long long)((columns + f->per_byte - 1) / f->per_byte));
}

weft_tensor *weft_dequantize_from_rows(weft_tensor *data, weft_tensor *scale, weft_row_format format, int64_t columns)
{
    const format_info *f = info_of(format);
    wf_composite c;
    if (!wf_composite_begin(&c, "dequantize_rows", 2, WF_INPUTS(data, scale)))
        return c.failed;
    if (!f)
        return wf_composite_fail(&c, WEFT_E_VALUE, "format number %d is unknown", (int)format);
    if (!fits(data, f, columns))
        return no_fit(&c, data, f, columns);
    weft_tensor *bytes = weft_cast(data, WEFT_DTYPE_F32), *part[4], *all = bytes;
    if (f->per_byte > 1) {
        int64_t shape[WEFT_MAX_RANK];
        int rank = weft_tensor_rank(data);
        if (rank >= WEFT_MAX_RANK)
            return wf_composite_fail(&c, WEFT_E_SHAPE, "rank %d is above %d", rank, WEFT_MAX_RANK - 1);
        for (int j = 0; j < f->per_byte; j++)
            part[j] = weft_unsqueeze(unpack(bytes, f, j), -1);
        memcpy(shape, weft_tensor_shape(data), (size_t)rank * sizeof *shape);
        shape[rank - 1] *= f->per_byte;
        all = weft_slice(weft_reshape(weft_cat(part, f->per_byte, -1), rank, shape), -1, 0, columns, 1);
    }
    return wf_composite_end(&c, weft_mul(all, weft_unsqueeze(scale, -1)));
}

weft_tensor *weft_linear_rows(weft_tensor *x, weft_tensor *data, weft_tensor *scale, weft_row_format format, weft_tensor *bias)
{
    const format_info *f = info_of(format);
    wf_composite c;
    if (!wf_composite_begin(&c, "linear_rows", 3, WF_INPUTS(x, data, scale, bias)))
        return c.failed;
    if (!f)
        return wf_composite_fail(&c, WEFT_E_VALUE, "format number %d is unknown", (int)format);
    if (!is_float(x) || weft_tensor_rank(x) < 1 || weft_tensor_rank(x) >= WEFT_MAX_RANK || weft_tensor_rank(data) != 2)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "input is %s of rank %d and data of rank %d, expected a float [.., K] and [N, ..]",
                                 weft_dtype_name(weft_tensor_dtype(x)), weft_tensor_rank(x), weft_tensor_rank(data));
    if (!fits(data, f, weft_tensor_dim(x, -1)))
        return no_fit(&c, data, f, weft_tensor_dim(x, -1));
    weft_tensor *v = fill_up(weft_cast(x, WEFT_DTYPE_F32), f->per_byte, 0), *sum = NULL;
    weft_tensor *bytes = weft_cast(data, WEFT_DTYPE_F32);
    for (int j = 0; j < f->per_byte; j++) {
        weft_tensor *product = weft_mul(weft_unsqueeze(every(v, j, f->per_byte), -2), unpack(bytes, f, j)); /* [.., N, bytes] */
        sum = sum ? weft_add(sum, product) : product;
    }
    weft_tensor *y = weft_mul(weft_sum(sum, (int[]){-1}, 1, false), scale);
    return wf_composite_end(&c, weft_cast(bias ? weft_add(y, bias) : y, weft_tensor_dtype(x)));
}
