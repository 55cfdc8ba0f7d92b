/* view.h - shapes and strides: what a view is and how views compose.
 *
 * A view addresses elements of a contiguous or stored value: element (i0, i1, ..) is at
 * offset + sum i_k * strides[k], counted in elements. Strides may be 0 (broadcast) and negative.
 */
#ifndef WF_VIEW_H
#define WF_VIEW_H

#include "base.h"
#include "weft/tensor.h"

typedef struct wf_view {
    int32_t rank;
    int32_t pad_; /* zero: views are hashed as bytes */
    int64_t offset;
    int64_t shape[WEFT_MAX_RANK];   /* entries from rank on are 1 */
    int64_t strides[WEFT_MAX_RANK]; /* entries from rank on are 0 */
} wf_view;

/* Row-major view of a shape; fails with SHAPE when the count of elements overflows. `who` names the
 * operation in the message. */
weft_status wf_view_contiguous(const char *who, int rank, const int64_t *shape, wf_view *out);
#define WF_MAX_NUMEL ((int64_t)1 << 58) /* a byte count of any dtype, and a sum of a few counts, fits 63 bits */

/* Row-major view of a shape whose entries from rank on are 1. Returns the count of elements, or -1 when
 * it does not fit (or there is a 0 among extents too large to multiply): then *out is not valid. Every
 * axis goes through the same steps, so that the loop unrolls: this is in the path of recording. */
static inline int64_t wf_view_rows(int rank, const int64_t shape[WEFT_MAX_RANK], wf_view *out)
{
    out->rank = rank;
    out->pad_ = 0;
    out->offset = 0;
    int64_t stride = 1;
    bool over = false;
#pragma GCC unroll 8
    for (int k = WEFT_MAX_RANK - 1; k >= 0; k--) {
        int64_t n = shape[k];
        out->shape[k] = n;
        out->strides[k] = n == 1 ? 0 : stride;
        over |= __builtin_mul_overflow(stride, n, &stride);
    }
    if (__builtin_expect(stride == 0 && !over, 0))
        memset(out->strides, 0, sizeof out->strides);
    return over || stride > WF_MAX_NUMEL ? -1 : stride;
}
int64_t wf_view_numel(const wf_view *v);
bool wf_view_is_contiguous(const wf_view *v); /* row-major from offset, size-1 axes ignored; offset may be any */
bool wf_view_is_whole(const wf_view *v, int64_t numel); /* contiguous, offset 0, all numel elements */
/* Lowest and highest element index touched; false for an empty view. */
bool wf_view_extent(const wf_view *v, int64_t *lo, int64_t *hi);
weft_status wf_axis(const char *who, int rank, int axis, int *out); /* negative counts from the end */
/* Whether an axis is one that a tensor of rank 0 has all the same, as in PyTorch. */
static inline bool wf_axis_of_number(int rank, int axis) { return rank == 0 && (axis == 0 || axis == -1); }

weft_status wf_view_broadcast_shape(const char *who, const wf_view *a, const wf_view *b, wf_view *out_shape);
weft_status wf_view_expand(const char *who, const wf_view *v, int rank, const int64_t *shape, wf_view *out);
weft_status wf_view_permute(const wf_view *v, const int *axes, wf_view *out);
weft_status wf_view_slice(const wf_view *v, int axis, int64_t start, int64_t stop, int64_t step, wf_view *out);
/* True when the reshape is possible without a copy. */
bool wf_view_reshape(const wf_view *v, int rank, const int64_t *shape, wf_view *out);
void wf_view_format(const wf_view *v, char *buf, size_t n); /* "[2, 3]" */

#endif
