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
int64_t wf_view_numel(const wf_view *v);
bool wf_view_is_contiguous(const wf_view *v); /* row-major from offset, size-1 axes ignored; offset may be any */
bool wf_view_is_whole(const wf_view *v, int64_t numel); /* contiguous, offset 0, all numel elements */
/* Lowest and highest element index touched; false for an empty view. */
bool wf_view_extent(const wf_view *v, int64_t *lo, int64_t *hi);
weft_status wf_axis(const char *who, int rank, int axis, int *out); /* negative counts from the end */

weft_status wf_view_broadcast_shape(const char *who, const wf_view *a, const wf_view *b, wf_view *out_shape);
weft_status wf_view_expand(const char *who, const wf_view *v, int rank, const int64_t *shape, wf_view *out);
weft_status wf_view_permute(const wf_view *v, const int *axes, wf_view *out);
weft_status wf_view_slice(const wf_view *v, int axis, int64_t start, int64_t stop, int64_t step, wf_view *out);
/* True when the reshape is possible without a copy. */
bool wf_view_reshape(const wf_view *v, int rank, const int64_t *shape, wf_view *out);
void wf_view_format(const wf_view *v, char *buf, size_t n); /* "[2, 3]" */

#endif
