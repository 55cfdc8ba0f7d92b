/* weft/ops_shape.h - shapes, orders of elements and lists of parts; see weft/ops.h for what all operations share.
 *
 * "a view": nothing is computed or copied. Where nothing is said, dtype and elements are those of x. Lists of axes hold distinct
 * axes; negative ones count from the end.
 */
#ifndef WEFT_OPS_SHAPE_H
#define WEFT_OPS_SHAPE_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- views ---- */

/* weft_reshape that never copies. Errors: also WEFT_E_SHAPE where the strides of x allow no view. */
WEFT_API weft_tensor *weft_view(weft_tensor *x, int rank, const int64_t *shape);
/* Axes first .. last joined into one; rank 0 gives rank 1. A view where strides allow. */
WEFT_API weft_tensor *weft_flatten(weft_tensor *x, int first, int last);
/* One axis split into n of the given sizes, one of which may be -1. A view. */
WEFT_API weft_tensor *weft_unflatten(weft_tensor *x, int axis, int n, const int64_t *sizes);
/* Axes from[i] moved to positions to[i] of the result; the others keep their order. A view. */
WEFT_API weft_tensor *weft_movedim(weft_tensor *x, int n, const int *from, const int *to);
/* x without those of the n axes that have extent 1; axes NULL: without every axis of extent 1. A view. */
WEFT_API weft_tensor *weft_squeeze_axes(weft_tensor *x, const int *axes, int n);
/* length elements from start on along an axis; start may count from the end. A view.
 * Errors: WEFT_E_SHAPE unless the range lies inside. */
WEFT_API weft_tensor *weft_narrow(weft_tensor *x, int axis, int64_t start, int64_t length);
/* Element `index` of an axis, which goes. A view. Errors: WEFT_E_INDEX unless it lies inside. */
WEFT_API weft_tensor *weft_select(weft_tensor *x, int axis, int64_t index);
/* x backwards along n axes. A view. */
WEFT_API weft_tensor *weft_flip_axes(weft_tensor *x, const int *axes, int n);
/* x turned by k quarters in the plane of two axes, from axis0 towards axis1. A view. */
WEFT_API weft_tensor *weft_rot90(weft_tensor *x, int64_t k, int axis0, int axis1);
/* The elements where the index on axis1 is that on axis0 plus offset; both axes go, and the diagonal is the last. A view. */
WEFT_API weft_tensor *weft_diagonal(weft_tensor *x, int64_t offset, int axis0, int axis1);
/* All windows of `size` elements along an axis, `step` apart: the axis counts windows, a new last axis holds them. A view.
 * Errors: WEFT_E_VALUE for size outside 0 .. extent or step below 1. */
WEFT_API weft_tensor *weft_unfold(weft_tensor *x, int axis, int64_t size, int64_t step);
/* x with axes of extent 1 up to `rank` 1, 2 or 3, where NumPy's atleast_1d, 2d and 3d put them. A view. */
WEFT_API weft_tensor *weft_atleast(weft_tensor *x, int rank);

/* ---- copies ---- */

/* x laid out repeats[k] times along axis k; n is at least the rank, further repeats are of new leading axes.
 * Errors: WEFT_E_VALUE for a repeat below 0. */
WEFT_API weft_tensor *weft_repeat(weft_tensor *x, int n, const int64_t *repeats);
/* The same, where missing leading repeats are 1. */
WEFT_API weft_tensor *weft_tile(weft_tensor *x, int n, const int64_t *repeats);
/* Each element of an axis `repeats` times in a row. */
WEFT_API weft_tensor *weft_repeat_interleave(weft_tensor *x, int64_t repeats, int axis);
/* n tensors of one shape along a new axis, promoted. */
WEFT_API weft_tensor *weft_stack(weft_tensor *const *xs, int n, int axis);
/* Side by side: along axis 1, or axis 0 for vectors (rank 0 counts as a vector). */
WEFT_API weft_tensor *weft_hstack(weft_tensor *const *xs, int n);
/* One above the other: along axis 0, vectors being rows. */
WEFT_API weft_tensor *weft_vstack(weft_tensor *const *xs, int n);
/* Elements moved by shifts[i] along axes[i], those beyond the end to the beginning; axes NULL with n = 1: over all elements in
 * row-major order. */
WEFT_API weft_tensor *weft_roll(weft_tensor *x, const int64_t *shifts, const int *axes, int n);

/* What weft_pad fills with. */
typedef enum weft_pad_mode {
    WEFT_PAD_CONSTANT = 0, /* a value */
    WEFT_PAD_REFLECT,      /* mirrored without the edge: at most extent - 1 */
    WEFT_PAD_REPLICATE,    /* the edge */
    WEFT_PAD_CIRCULAR      /* from the other end: at most the extent */
} weft_pad_mode;

/* x with elements added in front of and behind its axes.
 *   pads   n numbers, two an axis, of the last axis first (before, after), as in PyTorch; a negative one crops
 *   value  of the constant mode, in the dtype of x
 * Errors: WEFT_E_VALUE for an odd n, more than two an axis, a crop beyond the extent, or more than the mode can give. */
WEFT_API weft_tensor *weft_pad(weft_tensor *x, int n, const int64_t *pads, weft_pad_mode mode, double value);
/* A vector as diagonal of a square matrix of zeros, or the diagonal of a matrix (a view). Errors: WEFT_E_SHAPE for another rank. */
WEFT_API weft_tensor *weft_diag(weft_tensor *x, int64_t offset);
/* The last axis as the diagonal of zero matrices on axes axis0 and axis1 of the result. */
WEFT_API weft_tensor *weft_diag_embed(weft_tensor *x, int64_t offset, int axis0, int axis1);
/* [.., C r r, H, W] to [.., C, H r, W r]. Source: Shi et al. 2016, arXiv:1609.05158. */
WEFT_API weft_tensor *weft_pixel_shuffle(weft_tensor *x, int64_t r);
/* The inverse: [.., C, H r, W r] to [.., C r r, H, W]. */
WEFT_API weft_tensor *weft_pixel_unshuffle(weft_tensor *x, int64_t r);
/* Kronecker product: every element of a times all of b. Ranks are made equal by leading axes of extent 1. */
WEFT_API weft_tensor *weft_kron(weft_tensor *a, weft_tensor *b);

/* ---- lists ----
 *
 * Views of x in order, written to out[0 ..]. They return how many; where they fail, or there are more than `room`, one error
 * tensor. With room 0 nothing is written. */

/* Parts of `size` elements along an axis; the last may be smaller. */
WEFT_API int weft_split(weft_tensor *x, int64_t size, int axis, weft_tensor **out, int room);
/* Parts of the n sizes, which add up to the extent. */
WEFT_API int weft_split_sizes(weft_tensor *x, int n, const int64_t *sizes, int axis, weft_tensor **out, int room);
/* At most n parts of ceil(extent / n) elements. */
WEFT_API int weft_chunk(weft_tensor *x, int64_t n, int axis, weft_tensor **out, int room);
/* Exactly n parts, the first of which are one larger where the extent does not divide. */
WEFT_API int weft_tensor_split(weft_tensor *x, int64_t n, int axis, weft_tensor **out, int room);
/* Parts cut at the n indices, as slices are: n + 1 of them. */
WEFT_API int weft_tensor_split_at(weft_tensor *x, int n, const int64_t *indices, int axis, weft_tensor **out, int room);
/* The elements of an axis, which goes. */
WEFT_API int weft_unbind(weft_tensor *x, int axis, weft_tensor **out, int room);
/* Coordinates of a grid: vector i (rank at most 1) along axis i of all n results.
 *   xy  the first two axes change places (NumPy's default) */
WEFT_API int weft_meshgrid(weft_tensor *const *xs, int n, bool xy, weft_tensor **out, int room);

#ifdef __cplusplus
}
#endif
#endif
