/* weft/ops_reduction.h - statistics, norms, running sums, order statistics; see weft/ops.h for what all operations share. */
#ifndef WEFT_OPS_REDUCTION_H
#define WEFT_OPS_REDUCTION_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- over any axes: axes, n_axes and keepdim as weft_sum takes them ---- */

/* The sum of (x - mean)^2 divided by max(0, n - correction), n elements folded into one: two passes, f32 inside.
 *   x           a float dtype
 *   correction  1: Bessel's, 0: the population's
 * n = correction gives NaN or infinity, as IEEE 754 divides. Errors: WEFT_E_DTYPE for integers and bool. */
WEFT_API weft_tensor *weft_var(weft_tensor *x, const int *axes, int n_axes, double correction, bool keepdim);
/* The square root of weft_var. */
WEFT_API weft_tensor *weft_std(weft_tensor *x, const int *axes, int n_axes, double correction, bool keepdim);
/* weft_var, and in *mean the mean of the same elements (the same error tensor on failure), owned as the result is. */
WEFT_API weft_tensor *weft_var_mean(weft_tensor *x, const int *axes, int n_axes, double correction, bool keepdim, weft_tensor **mean);
/* weft_std and the mean. */
WEFT_API weft_tensor *weft_std_mean(weft_tensor *x, const int *axes, int n_axes, double correction, bool keepdim, weft_tensor **mean);
/* The smallest, and in *max the largest; NaN if there is one. Errors: as weft_max. */
WEFT_API weft_tensor *weft_aminmax(weft_tensor *x, const int *axes, int n_axes, bool keepdim, weft_tensor **max);
/* bool: whether some element is not 0 (NaN is not); over no elements false. */
WEFT_API weft_tensor *weft_any(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
/* bool: whether no element is 0; over no elements true. */
WEFT_API weft_tensor *weft_all(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
/* i32: how many elements are not 0. */
WEFT_API weft_tensor *weft_count_nonzero(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
/* log(sum(exp(x))) without overflow; over no elements -inf. Integers and bools as f32. */
WEFT_API weft_tensor *weft_logsumexp(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
/* The p-norm (sum |x|^p)^(1/p); infinity: the largest |x|, -infinity: the smallest, 0: how many are not 0.
 * Errors: WEFT_E_DTYPE for integers and bool; WEFT_E_VALUE for p NaN; WEFT_E_SHAPE for an infinite p over no elements. */
WEFT_API weft_tensor *weft_norm(weft_tensor *x, double p, const int *axes, int n_axes, bool keepdim);
/* The sum of the elements that are not NaN. */
WEFT_API weft_tensor *weft_nansum(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
/* The mean of the elements that are not NaN; NaN where there are none. Errors: WEFT_E_DTYPE for integers and bool. */
WEFT_API weft_tensor *weft_nanmean(weft_tensor *x, const int *axes, int n_axes, bool keepdim);

/* ---- along one axis, with indices ----
 *
 *   indices  NULL, or receives i32 indices along the axis (the same error tensor on failure), owned as the result is */

/* The largest along an axis and the index of its first place; NaN is the largest. Errors: WEFT_E_SHAPE for an empty axis. */
WEFT_API weft_tensor *weft_max_along(weft_tensor *x, int axis, bool keepdim, weft_tensor **indices);
/* The smallest along an axis and the index of its first place; NaN is the smallest. */
WEFT_API weft_tensor *weft_min_along(weft_tensor *x, int axis, bool keepdim, weft_tensor **indices);
/* The middle element along an axis, of an even number the lower one; NaN if there is a NaN. */
WEFT_API weft_tensor *weft_median_along(weft_tensor *x, int axis, bool keepdim, weft_tensor **indices);
/* The middle of the elements that are not NaN; NaN where there are none. */
WEFT_API weft_tensor *weft_nanmedian_along(weft_tensor *x, int axis, bool keepdim, weft_tensor **indices);
/* The middle of all elements: rank 0. Errors: WEFT_E_SHAPE for no elements. */
WEFT_API weft_tensor *weft_median(weft_tensor *x);
/* The middle of all elements that are not NaN. */
WEFT_API weft_tensor *weft_nanmedian(weft_tensor *x);
/* Values at fractions of the order, linear between neighbours; NaN if there is a NaN.
 *   x        f32, f16, bf16 or f64
 *   q        rank 0 or 1, a float dtype, in 0 .. 1: another, or a NaN, is WEFT_E_VALUE of the evaluation
 *   axis     NULL: all elements
 *   returns  the shape of q, then that of x without the axis (extent 1 with keepdim) */
WEFT_API weft_tensor *weft_quantile(weft_tensor *x, weft_tensor *q, const int *axis, bool keepdim);

/* ---- running along one axis: the shape of x ----
 *
 * Integers below 32 bits and bools run in i32; f16 and bf16 run in f32 and round once. */

/* Element i: the sum of elements 0 .. i. */
WEFT_API weft_tensor *weft_cumsum(weft_tensor *x, int axis);
/* Element i: the product of elements 0 .. i. */
WEFT_API weft_tensor *weft_cumprod(weft_tensor *x, int axis);
/* Element i: log(sum(exp(x_0)) .. exp(x_i)), without overflow. Errors: WEFT_E_DTYPE for integers and bool. */
WEFT_API weft_tensor *weft_logcumsumexp(weft_tensor *x, int axis);
/* Element i: the largest of elements 0 .. i, and the index of its last place; NaN is the largest. */
WEFT_API weft_tensor *weft_cummax(weft_tensor *x, int axis, weft_tensor **indices);
/* Element i: the smallest of elements 0 .. i, and the index of its last place; NaN is the smallest. */
WEFT_API weft_tensor *weft_cummin(weft_tensor *x, int axis, weft_tensor **indices);
/* x_(i+1) - x_i along an axis, n times (n = 0: x); bool: whether they differ.
 *   prepend, append  put before and after x first; NULL: nothing
 * Errors: WEFT_E_VALUE for n below 0. */
WEFT_API weft_tensor *weft_diff(weft_tensor *x, int64_t n, int axis, weft_tensor *prepend, weft_tensor *append);

/* ---- more ---- */

/* The sum of the diagonal of a matrix. Errors: WEFT_E_SHAPE unless rank 2. */
WEFT_API weft_tensor *weft_trace(weft_tensor *x);
/* The p-norm of a - b, which broadcast; rank 0. */
WEFT_API weft_tensor *weft_dist(weft_tensor *a, weft_tensor *b, double p);
/* sum(a b) / (max(|a|, eps) max(|b|, eps)) along an axis of the broadcast shape. */
WEFT_API weft_tensor *weft_cosine_similarity(weft_tensor *a, weft_tensor *b, int axis, double eps);
/* x / max(|x|, eps) with the p-norm along an axis. */
WEFT_API weft_tensor *weft_normalize(weft_tensor *x, double p, int axis, double eps);

#ifdef __cplusplus
}
#endif
#endif
