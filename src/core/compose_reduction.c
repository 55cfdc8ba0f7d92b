/* compose_reduction.c - statistics and norms over any axes, written over sum, mean, max and elementwise ops. */
#include <math.h>

#include "compose_lines.h"
#include "weft/ops_reduction.h"

/* ---- axes ---- */

weft_status wf_axes_read(const char *who, const weft_tensor *x, const int *axes, int n_axes, wf_axes *out)
{
    const int rank = x->view.rank;
    uint32_t mask;
    WF_TRY(wf_reduce_axes(who, x, axes, n_axes, &mask));
    *out = (wf_axes){.count = 1};
    for (int d = 0; d < rank; d++)
        if (mask & 1u << d) {
            out->axis[out->n++] = d;
            out->count *= x->view.shape[d]; /* at most the elements of x, or 0 */
        }
    return WEFT_OK;
}

weft_tensor *wf_axes_drop(weft_tensor *x, const wf_axes *axes)
{
    for (int i = axes->n - 1; i >= 0; i--)
        x = weft_squeeze(x, axes->axis[i]);
    return x;
}

static weft_tensor *keep_axes(weft_tensor *x, const wf_axes *axes, bool keepdim)
{
    return keepdim ? x : wf_axes_drop(x, axes);
}

/* Begin, and read the axes: what every composite here does first. */
static bool begin(wf_composite *c, const char *who, weft_tensor *x, const int *axes, int n_axes, bool floats, wf_axes *out)
{
    if (!wf_composite_begin(c, who, 1, 1, &x))
        return false;
    weft_status st = floats ? wf_require_float(who, x) : wf_require_plain(who, x);
    if (st == WEFT_OK)
        st = wf_axes_read(who, x, axes, n_axes, out);
    if (st == WEFT_OK)
        return true;
    c->failed = wf_composite_end(c, wf_tensor_error_last(c->ctx, st));
    return false;
}

/* ---- variance ---- */

/* In the wide dtype, with the axes kept. */
static weft_tensor *variance(weft_tensor *x, const wf_axes *axes, double correction, weft_tensor **mean)
{
    weft_tensor *wide = wf_wide(x);
    *mean = weft_mean(wide, axes->axis, axes->n, true);
    weft_tensor *d = weft_sub(wide, *mean);
    weft_tensor *sum = weft_sum(weft_mul(d, d), axes->axis, axes->n, true);
    return weft_div(sum, wf_const_like(wide, fmax((double)axes->count - correction, 0)));
}

static weft_tensor *spread(const char *who, weft_tensor *x, const int *axes, int n_axes, double correction, bool keepdim, bool root,
                           weft_tensor **mean)
{
    wf_composite c;
    wf_axes over;
    if (!begin(&c, who, x, axes, n_axes, true, &over)) {
        if (mean)
            *mean = wf_error_again(c.failed);
        return c.failed;
    }
    weft_tensor *m, *v = variance(x, &over, correction, &m);
    v = weft_cast(keep_axes(root ? weft_sqrt(v) : v, &over, keepdim), wf_dtype_of(x));
    if (mean)
        *mean = wf_composite_give(&c, weft_cast(keep_axes(m, &over, keepdim), wf_dtype_of(x)));
    return wf_composite_end(&c, v);
}

weft_tensor *weft_var(weft_tensor *x, const int *axes, int n_axes, double correction, bool keepdim)
{
    return spread("var", x, axes, n_axes, correction, keepdim, false, NULL);
}
weft_tensor *weft_std(weft_tensor *x, const int *axes, int n_axes, double correction, bool keepdim)
{
    return spread("std", x, axes, n_axes, correction, keepdim, true, NULL);
}
weft_tensor *weft_var_mean(weft_tensor *x, const int *axes, int n_axes, double correction, bool keepdim, weft_tensor **mean)
{
    return spread("var_mean", x, axes, n_axes, correction, keepdim, false, mean);
}
weft_tensor *weft_std_mean(weft_tensor *x, const int *axes, int n_axes, double correction, bool keepdim, weft_tensor **mean)
{
    return spread("std_mean", x, axes, n_axes, correction, keepdim, true, mean);
}

weft_tensor *weft_aminmax(weft_tensor *x, const int *axes, int n_axes, bool keepdim, weft_tensor **max)
{
    if (max)
        *max = weft_max(x, axes, n_axes, keepdim);
    return weft_min(x, axes, n_axes, keepdim);
}

/* ---- counts ---- */

/* i32: how many elements are (not) 0. */
static weft_tensor *count(weft_tensor *x, const wf_axes *axes, bool zeros, bool keepdim)
{
    weft_tensor *zero = wf_const_like(x, 0);
    return weft_sum(zeros ? weft_eq(x, zero) : weft_ne(x, zero), axes->axis, axes->n, keepdim);
}

weft_tensor *weft_any(weft_tensor *x, const int *axes, int n_axes, bool keepdim)
{
    wf_composite c;
    wf_axes over;
    if (!begin(&c, "any", x, axes, n_axes, false, &over))
        return c.failed;
    weft_tensor *n = count(x, &over, false, keepdim);
    return wf_composite_end(&c, weft_ne(n, wf_const_like(n, 0)));
}

weft_tensor *weft_all(weft_tensor *x, const int *axes, int n_axes, bool keepdim)
{
    wf_composite c;
    wf_axes over;
    if (!begin(&c, "all", x, axes, n_axes, false, &over))
        return c.failed;
    weft_tensor *n = count(x, &over, true, keepdim);
    return wf_composite_end(&c, weft_eq(n, wf_const_like(n, 0)));
}

weft_tensor *weft_count_nonzero(weft_tensor *x, const int *axes, int n_axes, bool keepdim)
{
    wf_composite c;
    wf_axes over;
    if (!begin(&c, "count_nonzero", x, axes, n_axes, false, &over))
        return c.failed;
    return wf_composite_end(&c, count(x, &over, false, keepdim));
}

/* ---- log-sum-exp ---- */

weft_tensor *weft_logsumexp(weft_tensor *x, const int *axes, int n_axes, bool keepdim)
{
    wf_composite c;
    wf_axes over;
    if (!begin(&c, "logsumexp", x, axes, n_axes, false, &over))
        return c.failed;
    weft_tensor *wide = wf_float(x);
    weft_dtype result = wf_is_float(x) ? wf_dtype_of(x) : WEFT_DTYPE_F32;
    if (over.count == 0)
        return wf_composite_end(&c, weft_cast(weft_log(weft_sum(wide, over.axis, over.n, keepdim)), result));
    weft_tensor *top = weft_max(wide, over.axis, over.n, true), *zero = wf_const_like(wide, 0);
    /* An infinite maximum is not subtracted: inf - inf is NaN. */
    top = weft_where(weft_lt(weft_abs(top), wf_const_like(wide, INFINITY)), top, zero);
    weft_tensor *sum = weft_sum(weft_exp(weft_sub(wide, top)), over.axis, over.n, true);
    return wf_composite_end(&c, weft_cast(keep_axes(weft_add(weft_log(sum), top), &over, keepdim), result));
}

/* ---- norms ---- */

/* Of wide elements; `axes` as weft_sum takes them. */
static weft_tensor *norm(weft_tensor *x, double p, const int *axes, int n_axes, bool keepdim)
{
    if (p == 2)
        return weft_sqrt(weft_sum(weft_mul(x, x), axes, n_axes, keepdim));
    weft_tensor *size = weft_abs(x);
    if (isinf(p))
        return p > 0 ? weft_max(size, axes, n_axes, keepdim) : weft_min(size, axes, n_axes, keepdim);
    if (p == 1)
        return weft_sum(size, axes, n_axes, keepdim);
    if (p == 0)
        return weft_sum(weft_cast(weft_ne(x, wf_const_like(x, 0)), wf_dtype_of(x)), axes, n_axes, keepdim);
    return weft_pow(weft_sum(weft_pow(size, wf_const_like(x, p)), axes, n_axes, keepdim), wf_const_like(x, 1 / p));
}

weft_tensor *weft_norm(weft_tensor *x, double p, const int *axes, int n_axes, bool keepdim)
{
    wf_composite c;
    wf_axes over;
    if (!begin(&c, "norm", x, axes, n_axes, true, &over))
        return c.failed;
    if (p != p)
        return wf_composite_fail(&c, WEFT_E_VALUE, "p is NaN");
    if (isinf(p) && over.count == 0)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "no elements have no largest or smallest");
    return wf_composite_end(&c, weft_cast(norm(wf_wide(x), p, over.axis, over.n, keepdim), wf_dtype_of(x)));
}

weft_tensor *weft_dist(weft_tensor *a, weft_tensor *b, double p)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "dist", 2, WF_INPUTS(a, b)))
        return c.failed;
    return wf_composite_end(&c, weft_norm(weft_sub(a, b), p, NULL, 0, false));
}

weft_tensor *weft_normalize(weft_tensor *x, double p, int axis, double eps)
{
    wf_composite c;
    wf_axes over;
    if (!begin(&c, "normalize", x, &axis, 1, true, &over))
        return c.failed;
    weft_tensor *wide = wf_wide(x), *size = norm(wide, p, &axis, 1, true);
    return wf_composite_end(&c, weft_cast(weft_div(wide, weft_maximum(size, wf_const_like(size, eps))), wf_dtype_of(x)));
}

weft_tensor *weft_cosine_similarity(weft_tensor *a, weft_tensor *b, int axis, double eps)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "cosine_similarity", 2, WF_INPUTS(a, b)))
        return c.failed;
    wf_view both;
    weft_dtype result = WEFT_DTYPE_F32;
    weft_status st = wf_require_float(c.who, a);
    if (st == WEFT_OK)
        st = wf_require_float(c.who, b);
    if (st == WEFT_OK)
        st = weft_dtype_promote(wf_dtype_of(a), wf_dtype_of(b), &result);
    if (st == WEFT_OK)
        st = wf_view_broadcast_shape(c.who, &a->view, &b->view, &both);
    if (st == WEFT_OK && wf_axis_of_number(both.rank, axis)) {
        both.rank = 1;
        both.shape[0] = 1;
    }
    if (st == WEFT_OK)
        st = wf_axis(c.who, both.rank, axis, &axis);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    a = weft_expand(wf_wide(a), both.rank, both.shape);
    b = weft_expand(wf_wide(b), both.rank, both.shape);
    weft_tensor *dot = weft_sum(weft_mul(a, b), &axis, 1, false);
    weft_tensor *na = norm(a, 2, &axis, 1, false), *nb = norm(b, 2, &axis, 1, false);
    weft_tensor *sizes = weft_mul(weft_maximum(na, wf_const_like(na, eps)), weft_maximum(nb, wf_const_like(nb, eps)));
    return wf_composite_end(&c, weft_cast(weft_div(dot, sizes), result));
}

/* ---- without NaN ---- */

weft_tensor *weft_nansum(weft_tensor *x, const int *axes, int n_axes, bool keepdim)
{
    wf_composite c;
    wf_axes over;
    if (!begin(&c, "nansum", x, axes, n_axes, false, &over))
        return c.failed;
    weft_tensor *there = wf_is_float(x) ? weft_where(wf_isnan(x), wf_const_like(x, 0), x) : x;
    return wf_composite_end(&c, weft_sum(there, axes, n_axes, keepdim));
}

weft_tensor *weft_nanmean(weft_tensor *x, const int *axes, int n_axes, bool keepdim)
{
    wf_composite c;
    wf_axes over;
    if (!begin(&c, "nanmean", x, axes, n_axes, true, &over))
        return c.failed;
    weft_tensor *wide = wf_wide(x), *sum = weft_sum(weft_where(wf_isnan(wide), wf_const_like(wide, 0), wide), axes, n_axes, keepdim);
    weft_tensor *n = weft_sum(weft_eq(wide, wide), axes, n_axes, keepdim);
    return wf_composite_end(&c, weft_cast(weft_div(sum, weft_cast(n, wf_dtype_of(wide))), wf_dtype_of(x)));
}

weft_tensor *weft_trace(weft_tensor *x)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "trace", 1, 1, &x))
        return c.failed;
    if (weft_tensor_rank(x) != 2)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "input has rank %d, expected 2", weft_tensor_rank(x));
    int64_t rows = weft_tensor_dim(x, 0), cols = weft_tensor_dim(x, 1), n = WF_MIN(rows, cols);
    weft_tensor *square = weft_slice(weft_slice(x, 0, 0, n, 1), 1, 0, n, 1), *line = weft_reshape(square, 1, (int64_t[]){-1});
    if (n > 0)
        line = weft_slice(line, 0, 0, n * n, n + 1);
    return wf_composite_end(&c, weft_sum(line, NULL, 0, false));
}
