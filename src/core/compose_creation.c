/* compose_creation.c - creation ops written as other ops: ranges, identities, triangles, one-hot rows.
 *
 * What is regular is an expression over a range of integers, which kernels compute where they use it. Lists
 * of indices, and numbers that must be rounded from f64, are made on the host.
 */
#include <math.h>

#include "build.h"
#include "composite.h"
#include "weft/ops_creation.h"

static weft_tensor *number(weft_ctx *ctx, weft_dtype dtype, double value)
{
    return weft_full(ctx, dtype, 0, NULL, value);
}

weft_tensor *weft_ones(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape)
{
    return weft_full(ctx, dtype, rank, shape, 1);
}

weft_tensor *weft_full_like(weft_tensor *x, weft_dtype dtype, double value)
{
    weft_tensor *r;
    if (!wf_enter("full_like", 1, &x, &r))
        return r;
    wf_unlock(&wf_core(x->ctx)->lock);
    return weft_full(x->ctx, dtype, x->view.rank, x->view.shape, value);
}

weft_tensor *weft_scalar_tensor(weft_ctx *ctx, weft_dtype dtype, double value)
{
    if (dtype == WEFT_DTYPE_F32)
        return weft_scalar_f32(ctx, (float)value);
    if (dtype == WEFT_DTYPE_I32)
        return weft_scalar_i32(ctx, (int32_t)wf_dtype_round(dtype, value));
    return number(ctx, dtype, value);
}

static weft_tensor *compose_eye(weft_ctx *ctx, weft_dtype dtype, int64_t rows, int64_t cols)
{
    if (rows < 0 || cols < 0)
        return wf_tensor_error(ctx, WEFT_E_SHAPE, "eye: %lld rows and %lld columns", (long long)rows, (long long)cols);
    if (rows > INT32_MAX || cols > INT32_MAX)
        return wf_tensor_error(ctx, WEFT_E_SHAPE, "eye: [%lld, %lld] is too large", (long long)rows, (long long)cols);
    weft_tensor *row = weft_unsqueeze(weft_arange(ctx, WEFT_DTYPE_I32, rows, 0, 1), 1);
    return weft_cast(weft_eq(row, weft_arange(ctx, WEFT_DTYPE_I32, cols, 0, 1)), dtype);
}

weft_tensor *weft_eye(weft_ctx *ctx, weft_dtype dtype, int64_t rows, int64_t cols)
{
    wf_composite c;
    if (!wf_composite_begin_ctx(&c, "eye", ctx))
        return c.failed;
    return wf_composite_end(&c, compose_eye(ctx, dtype, rows, cols));
}

/* ---- ranges ---- */

static weft_tensor *compose_arange_to(weft_ctx *ctx, weft_dtype dtype, double start, double end, double step)
{
    if (!wf_dtype_known(dtype) || weft_dtype_is_quantised(dtype) || dtype == WEFT_DTYPE_BOOL)
        return wf_tensor_error(ctx, WEFT_E_DTYPE, "arange: no range of %s", weft_dtype_name(dtype));
    if (!isfinite(start) || !isfinite(end) || !isfinite(step) || step == 0)
        return wf_tensor_error(ctx, WEFT_E_VALUE, "arange: start %g, end %g, step %g", start, end, step);
    if ((step > 0 && end < start) || (step < 0 && end > start))
        return wf_tensor_error(ctx, WEFT_E_VALUE, "arange: step %g leads from %g away from %g", step, start, end);
    double count = ceil((end - start) / step);
    if (!(count <= (double)WF_MAX_NUMEL))
        return wf_tensor_error(ctx, WEFT_E_SHAPE, "arange: %g .. %g by %g has too many elements", start, end, step);
    int64_t n = (int64_t)count;
    switch (dtype) {
    case WEFT_DTYPE_F32:
    case WEFT_DTYPE_I32:
    case WEFT_DTYPE_I64:
        return weft_arange(ctx, dtype, n, start, step);
    case WEFT_DTYPE_F64: {
        weft_tensor *i = weft_cast(weft_arange(ctx, WEFT_DTYPE_I32, n, 0, 1), dtype);
        return weft_add(weft_mul(i, number(ctx, dtype, step)), number(ctx, dtype, start));
    }
    case WEFT_DTYPE_F16:
    case WEFT_DTYPE_BF16:
        return weft_cast(weft_arange(ctx, WEFT_DTYPE_F32, n, start, step), dtype);
    default: {
        double last = start + (count - 1) * step;
        bool narrow = fabs(start) < 0x1p31 && fabs(last) < 0x1p31;
        return weft_cast(weft_arange(ctx, narrow ? WEFT_DTYPE_I32 : WEFT_DTYPE_I64, n, start, step), dtype);
    }
    }
}

weft_tensor *weft_arange_to(weft_ctx *ctx, weft_dtype dtype, double start, double end, double step)
{
    wf_composite c;
    if (!wf_composite_begin_ctx(&c, "arange_to", ctx))
        return c.failed;
    return wf_composite_end(&c, compose_arange_to(ctx, dtype, start, end, step));
}

static weft_status check_space(const char *who, weft_dtype dtype, double start, double end, int64_t n)
{
    if (!wf_dtype_known(dtype) || weft_dtype_is_quantised(dtype) || dtype == WEFT_DTYPE_BOOL)
        return wf_fail(WEFT_E_DTYPE, "%s: no numbers of %s", who, weft_dtype_name(dtype));
    if (n < 0)
        return wf_fail(WEFT_E_VALUE, "%s: steps is %lld", who, (long long)n);
    if (n > WF_MAX_NUMEL)
        return wf_fail(WEFT_E_SHAPE, "%s: %lld elements are too many", who, (long long)n);
    if (!isfinite(start) || !isfinite(end))
        return wf_fail(WEFT_E_VALUE, "%s: start %g, end %g", who, start, end);
    return WEFT_OK;
}

/* Element i of n, from the nearer end so that both ends are met. */
static double spaced(double start, double end, int64_t n, int64_t i)
{
    double step = n > 1 ? (end - start) / (double)(n - 1) : 0;
    return i < (n + 1) / 2 ? start + (double)i * step : end - (double)(n - 1 - i) * step;
}

/* The numbers, or a base to the power of each, in f64 and then the dtype. */
static weft_tensor *host_space(const char *who, weft_ctx *ctx, weft_dtype dtype, double start, double end, int64_t n, const double *base)
{
    size_t bytes;
    weft_dtype wide = weft_dtype_is_integer(dtype) ? WEFT_DTYPE_I64 : WEFT_DTYPE_F64;
    if (dtype == WEFT_DTYPE_F32 || dtype == WEFT_DTYPE_I32)
        wide = dtype; /* the others convert on the way, and have to exist on the device */
    if (dtype == WEFT_DTYPE_F16 || dtype == WEFT_DTYPE_BF16)
        wide = WEFT_DTYPE_F32;
    if (dtype == WEFT_DTYPE_I8 || dtype == WEFT_DTYPE_U8)
        wide = WEFT_DTYPE_I32;
    if (dtype == WEFT_DTYPE_U32)
        wide = WEFT_DTYPE_U32;
    void *data = wf_mul_size((size_t)n, weft_dtype_block_bytes(wide), &bytes) ? wf_alloc(bytes ? bytes : 1) : NULL;
    if (!data)
        return wf_tensor_error(ctx, WEFT_E_OOM, "%s: no memory for %lld elements", who, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        double v = spaced(start, end, n, i);
        v = wf_dtype_round(wide, base ? pow(*base, v) : v);
        switch (wide) {
        case WEFT_DTYPE_F32: ((float *)data)[i] = (float)v; break;
        case WEFT_DTYPE_F64: ((double *)data)[i] = v; break;
        case WEFT_DTYPE_I32: ((int32_t *)data)[i] = (int32_t)v; break;
        case WEFT_DTYPE_U32: ((uint32_t *)data)[i] = (uint32_t)v; break;
        default: ((int64_t *)data)[i] = v >= 0x1p63 ? INT64_MAX : (int64_t)v; break;
        }
    }
    weft_tensor *r = weft_tensor_from(ctx, wide, 1, &n, data);
    wf_free(data);
    return wide == dtype ? r : weft_cast(r, dtype);
}

static weft_tensor *compose_linspace(weft_ctx *ctx, weft_dtype dtype, double start, double end, int64_t n)
{
    weft_status st = check_space("linspace", dtype, start, end, n);
    if (st != WEFT_OK)
        return wf_tensor_error_last(ctx, st);
    if (n <= 1)
        return weft_full(ctx, dtype, 1, &n, start);
    if (!weft_dtype_is_float(dtype))
        return host_space("linspace", ctx, dtype, start, end, n, NULL);
    weft_dtype t = dtype == WEFT_DTYPE_F64 ? dtype : WEFT_DTYPE_F32;
    weft_tensor *i = weft_arange(ctx, WEFT_DTYPE_I32, n, 0, 1);
    weft_tensor *back = weft_cast(weft_arange(ctx, WEFT_DTYPE_I32, n, (double)(n - 1), -1), t);
    weft_tensor *step = number(ctx, t, (end - start) / (double)(n - 1));
    weft_tensor *low = weft_add(number(ctx, t, start), weft_mul(weft_cast(i, t), step));
    weft_tensor *high = weft_sub(number(ctx, t, end), weft_mul(back, step));
    weft_tensor *first = weft_lt(i, number(ctx, WEFT_DTYPE_I32, (double)((n + 1) / 2)));
    return weft_cast(weft_where(first, low, high), dtype);
}

weft_tensor *weft_linspace(weft_ctx *ctx, weft_dtype dtype, double start, double end, int64_t n)
{
    wf_composite c;
    if (!wf_composite_begin_ctx(&c, "linspace", ctx))
        return c.failed;
    return wf_composite_end(&c, compose_linspace(ctx, dtype, start, end, n));
}

static weft_tensor *compose_logspace(weft_ctx *ctx, weft_dtype dtype, double start, double end, int64_t n, double base)
{
    weft_status st = check_space("logspace", dtype, start, end, n);
    if (st == WEFT_OK && !isfinite(base))
        st = wf_fail(WEFT_E_VALUE, "logspace: base is %g", base);
    if (st != WEFT_OK)
        return wf_tensor_error_last(ctx, st);
    return host_space("logspace", ctx, dtype, start, end, n, &base);
}

weft_tensor *weft_logspace(weft_ctx *ctx, weft_dtype dtype, double start, double end, int64_t n, double base)
{
    wf_composite c;
    if (!wf_composite_begin_ctx(&c, "logspace", ctx))
        return c.failed;
    return wf_composite_end(&c, compose_logspace(ctx, dtype, start, end, n, base));
}

/* ---- triangles ---- */

static weft_tensor *triangle(const char *who, weft_tensor *x, int64_t diagonal, bool lower)
{
    wf_composite c;
    if (!wf_composite_begin(&c, who, 1, WF_INPUTS(x)))
        return c.failed;
    int rank = x->view.rank;
    if (rank < 2)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "input has rank %d, expected 2 or more", rank);
    weft_tensor *zero = number(x->ctx, (weft_dtype)x->node->dtype, 0);
    int64_t rows = x->view.shape[rank - 2], cols = x->view.shape[rank - 1];
    if (lower)
        return wf_composite_end(&c, weft_where(weft_tri(x->ctx, rows, cols, diagonal), x, zero));
    return wf_composite_end(&c, weft_where(weft_tri(x->ctx, rows, cols, diagonal == INT64_MIN ? diagonal : diagonal - 1), zero, x));
}

weft_tensor *weft_tril(weft_tensor *x, int64_t diagonal) { return triangle("tril", x, diagonal, true); }
weft_tensor *weft_triu(weft_tensor *x, int64_t diagonal) { return triangle("triu", x, diagonal, false); }

static weft_tensor *triangle_indices(const char *who, weft_ctx *ctx, int64_t rows, int64_t cols, int64_t diagonal, bool lower)
{
    if (rows < 0 || cols < 0 || rows > INT32_MAX || cols > INT32_MAX)
        return wf_tensor_error(ctx, WEFT_E_VALUE, "%s: %lld rows and %lld columns", who, (long long)rows, (long long)cols);
    diagonal = diagonal < -rows ? -rows : diagonal > cols ? cols : diagonal;
    int64_t n = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t edge = WF_MIN(WF_MAX(r + diagonal + (lower ? 1 : 0), 0), cols); /* first column that is not lower, or first upper one */
        n += lower ? edge : cols - edge;
    }
    size_t bytes;
    int32_t *at = wf_mul_size((size_t)n, 2 * sizeof *at, &bytes) ? wf_alloc(bytes ? bytes : 1) : NULL;
    if (!at)
        return wf_tensor_error(ctx, WEFT_E_OOM, "%s: no memory for %lld index pairs", who, (long long)n);
    int64_t k = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t edge = WF_MIN(WF_MAX(r + diagonal + (lower ? 1 : 0), 0), cols);
        for (int64_t c = lower ? 0 : edge, stop = lower ? edge : cols; c < stop; c++, k++) {
            at[k] = (int32_t)r;
            at[n + k] = (int32_t)c;
        }
    }
    weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_I32, 2, (int64_t[]){2, n}, at);
    wf_free(at);
    return t;
}

weft_tensor *weft_tril_indices(weft_ctx *ctx, int64_t rows, int64_t cols, int64_t diagonal)
{
    return triangle_indices("tril_indices", ctx, rows, cols, diagonal, true);
}

weft_tensor *weft_triu_indices(weft_ctx *ctx, int64_t rows, int64_t cols, int64_t diagonal)
{
    return triangle_indices("triu_indices", ctx, rows, cols, diagonal, false);
}

/* ---- one-hot ---- */

static weft_tensor *compose_one_hot(weft_tensor *index, int64_t n_classes)
{
    weft_ctx *ctx = index->ctx;
    weft_dtype dtype = (weft_dtype)index->node->dtype;
    if (!weft_dtype_is_integer(dtype))
        return wf_tensor_error(ctx, WEFT_E_DTYPE, "one_hot: index is %s, expected an integer", weft_dtype_name(dtype));
    if (n_classes == -1 && wf_view_numel(&index->view) == 0)
        return wf_tensor_error(ctx, WEFT_E_VALUE, "one_hot: num_classes is not given, and there is no index");
    if (n_classes == -1) {
        int64_t largest;
        weft_status st = weft_read_as(weft_max(index, NULL, 0, false), WEFT_DTYPE_I64, &largest, sizeof largest);
        if (st != WEFT_OK)
            return wf_tensor_error_last(ctx, st);
        n_classes = largest >= 0 ? largest + 1 : 1; /* one below 0 is found below */
    }
    if (n_classes < 1 || n_classes > INT32_MAX)
        return wf_tensor_error(ctx, WEFT_E_VALUE, "one_hot: num_classes is %lld", (long long)n_classes);
    if (index->view.rank == WEFT_MAX_RANK)
        return wf_tensor_error(ctx, WEFT_E_SHAPE, "one_hot: index has rank %d, the largest", WEFT_MAX_RANK);
    /* Rows of an identity that is never made. Negative values do not count from the end here. */
    return wf_select_strict("one_hot", weft_eye(ctx, WEFT_DTYPE_I32, n_classes, n_classes), index);
}

weft_tensor *weft_one_hot(weft_tensor *index, int64_t n_classes)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "one_hot", 1, WF_INPUTS(index)))
        return c.failed;
    return wf_composite_end(&c, compose_one_hot(index, n_classes));
}
