/* weft/ops_indexing.h - scatter, advanced indexing, sorting and searching; see weft/ops.h for what all operations share.
 *
 * Index tensors are as in weft/ops.h: integers, negative ones count from the end, one outside is WEFT_E_INDEX of the
 * evaluation. Results that are indices or counts are i32.
 */
#ifndef WEFT_OPS_INDEXING_H
#define WEFT_OPS_INDEXING_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- scatter ----
 *
 *   x        any plain dtype
 *   index    rank of x; on other axes its extents are at most those of x
 *   src      rank 0, or at least the shape of index (its leading part is taken); converted to the dtype of x
 *   returns  a copy of x; for every element of index, x at its place with index on the axis meets that element of src
 * Several elements that meet one come in the order of the index: the same bits on any number of threads. f16 and bf16
 * combine in f32 and round once. */

/* Elements are set; of several the last stays. */
WEFT_API weft_tensor *weft_scatter(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src);
/* Elements are added; on bools "or". */
WEFT_API weft_tensor *weft_scatter_add(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src);
/* Elements are combined.
 *   reduce        "sum", "prod", "mean", "amax" or "amin"
 *   include_self  whether the elements of x count; where no index points they stay in any case
 * Errors: WEFT_E_VALUE for another reduce. */
WEFT_API weft_tensor *weft_scatter_reduce(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src, const char *reduce,
                                          bool include_self);

/* ---- slices along one axis ----
 *
 *   index    rank 0 or 1: M slices of x
 *   src      the shape of x with M on the axis */

/* x with src, times alpha, added to slices. */
WEFT_API weft_tensor *weft_index_add(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src, double alpha);
/* x with slices set to src; of equal indices the last counts. */
WEFT_API weft_tensor *weft_index_copy(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src);
/* x with slices filled. value: rank 0. */
WEFT_API weft_tensor *weft_index_fill(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *value);

/* ---- picking ---- */

/* Elements of x in row-major order at an index of any shape. */
WEFT_API weft_tensor *weft_take(weft_tensor *x, weft_tensor *index);
/* One element for each index along an axis; the other axes of x and index broadcast. Source: numpy.take_along_axis. */
WEFT_API weft_tensor *weft_take_along_axis(weft_tensor *x, weft_tensor *index, int axis);
/* x[i, j, ..]: NumPy's advanced indexing.
 *   indices  n tensors for the first axes of x, which broadcast; NULL takes a whole axis. A bool tensor stands for the
 *            places where it is true and takes as many axes as it has: that evaluates it
 *   returns  the broadcast shape in place of the indexed axes where they are neighbours, else in front
 * Errors: WEFT_E_SHAPE for more indices than axes, or a bool tensor of another shape than its axes. */
WEFT_API weft_tensor *weft_index(weft_tensor *x, weft_tensor *const *indices, int n);
/* A copy of x with x[i, j, ..] set to values, which broadcast and are converted; accumulate: added.
 * Of several values for one element the last counts, or all are added in order. */
WEFT_API weft_tensor *weft_index_put(weft_tensor *x, weft_tensor *const *indices, int n, weft_tensor *values, bool accumulate);

/* ---- where: shapes that follow from values. All but nonzero_static evaluate what they need. ---- */

/* [count, rank]: the coordinates of the elements that are not 0, in row-major order. */
WEFT_API weft_tensor *weft_nonzero(weft_tensor *x);
/* [size, rank]: the first of them, and rows of fill_value after the last: no evaluation. Errors: WEFT_E_VALUE for size below 0. */
WEFT_API weft_tensor *weft_nonzero_static(weft_tensor *x, int64_t size, int64_t fill_value);
/* [count]: the elements where mask, a bool tensor, is true; both broadcast. */
WEFT_API weft_tensor *weft_masked_select(weft_tensor *x, weft_tensor *mask);
/* x where mask, which broadcasts to x, is false, else the next element of src in row-major order: no evaluation.
 * Too few elements are WEFT_E_INDEX of the evaluation. */
WEFT_API weft_tensor *weft_masked_scatter(weft_tensor *x, weft_tensor *mask, weft_tensor *src);
/* [count] of the dtype of x: the different elements in ascending order; every NaN is its own.
 *   inverse  NULL, or receives for each element of x where it stands in the result: i32 in the shape of x
 *   counts   NULL, or receives how often each is there: i32 [count]
 * Errors: WEFT_E_DTYPE for block types; WEFT_E_SHAPE for more elements than i32 counts. */
WEFT_API weft_tensor *weft_unique(weft_tensor *x, weft_tensor **inverse, weft_tensor **counts);
/* The different slices along an axis, in lexicographic order; one with a NaN is its own. The order is found on the host.
 *   inverse  NULL, or receives for each slice of x which of the result it is: i32 [extent of the axis]
 *   counts   NULL, or receives how often each is there: i32 [count]
 * Errors: as weft_unique; WEFT_E_SHAPE for the axis. */
WEFT_API weft_tensor *weft_unique_along(weft_tensor *x, int axis, weft_tensor **inverse, weft_tensor **counts);
/* Each element of an axis as often as counts, [extent] or one number, says.
 *   size     the sum of the counts, or -1: it is evaluated. Fewer fill no place: the last is repeated; more are left out
 * Errors: WEFT_E_SHAPE; WEFT_E_DTYPE for counts that are no integers; WEFT_E_VALUE for one below 0, if evaluated. */
WEFT_API weft_tensor *weft_repeat_interleave_counts(weft_tensor *x, weft_tensor *counts, int axis, int64_t size);
/* How often 0, 1, .. occur in x, a rank-1 tensor of integers from 0 on; at least minlength of them.
 *   weights  NULL, or the shape of x: its elements are summed instead (f32, or f64 of f64)
 * Errors: WEFT_E_VALUE for an element below 0. */
WEFT_API weft_tensor *weft_bincount(weft_tensor *x, weft_tensor *weights, int64_t minlength);

/* ---- order ----
 *
 * NaN is larger than all, -0 equal to 0, equal elements stay in their order. A rank-0 x has axis 0. */

/* x in order along an axis.
 *   indices  NULL, or receives where each element came from (the same error tensor on failure) */
WEFT_API weft_tensor *weft_sort(weft_tensor *x, int axis, bool descending, weft_tensor **indices);
/* The indices alone. */
WEFT_API weft_tensor *weft_argsort(weft_tensor *x, int axis, bool descending);
/* The k largest or smallest along an axis, the extreme first; as weft_topk. */
WEFT_API weft_tensor *weft_topk_along(weft_tensor *x, int64_t k, int axis, bool largest, weft_tensor **values);
/* The k-th smallest (k from 1) along an axis, and its index. Errors: WEFT_E_VALUE for k outside 1 .. N. */
WEFT_API weft_tensor *weft_kthvalue(weft_tensor *x, int64_t k, int axis, bool keepdim, weft_tensor **indices);
/* Where values would stand in a sorted sequence: how many elements are below (right: not above) each; a NaN stands last.
 *   sorted   [N], or [.., N] with the leading axes of values
 *   values   any shape, or [.., M] */
WEFT_API weft_tensor *weft_searchsorted(weft_tensor *sorted, weft_tensor *values, bool right);
/* searchsorted of every element of x in boundaries [N]. */
WEFT_API weft_tensor *weft_bucketize(weft_tensor *x, weft_tensor *boundaries, bool right);
/* [bins]: how many elements lie in each of equal parts of min .. max; the last part has its end. min = max: those of x.
 *   x  a float dtype, which the counts have too */
WEFT_API weft_tensor *weft_histc(weft_tensor *x, int64_t bins, double min, double max);
/* bool: whether each element of x is among those of test; invert: whether it is not. */
WEFT_API weft_tensor *weft_isin(weft_tensor *x, weft_tensor *test, bool invert);

#ifdef __cplusplus
}
#endif
#endif
