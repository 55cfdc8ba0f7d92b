/* compose_convolution.h - what convolution, pooling and resampling share. */
#ifndef WF_COMPOSE_CONVOLUTION_H
#define WF_COMPOSE_CONVOLUTION_H

#include "build.h"
#include "composite.h"
#include "weft/ops_convolution.h"

#define WF_SPATIAL 3
/* Entries of a table that the host makes, at most: half a gigabyte. */
#define WF_TABLE_MAX ((int64_t)1 << 27)

/* x is sound and of a plain dtype (floats only, where `floats`); [B, C, nd axes] or [C, nd axes], and then a batch
 * axis is put in front and *batched is false. An error tensor else. */
weft_tensor *wf_spatial_input(const char *who, weft_tensor *x, int nd, bool floats, bool *batched);
/* The result without the batch axis that was put in front. */
weft_tensor *wf_spatial_result(weft_tensor *y, bool batched);

/* x with `value` put before and after along an axis: a copy. */
weft_tensor *wf_pad_axis(weft_tensor *x, int axis, int64_t before, int64_t after, double value);

/* A view: axes axis .. axis + nd - 1 become positions `step` apart, and nd new last axes run over the elements of a
 * window, `dilation` apart. The caller proves that all of it lies in x. */
weft_tensor *wf_windows(weft_tensor *x, int axis, int nd, const int64_t *count, const int64_t *step, const int64_t *size,
                        const int64_t *dilation);

/* Columns [B, C, kernel .., positions ..] summed into [B, C, out ..]: element k of window t of an axis goes to
 * t * step + k * dilation - before. */
weft_tensor *wf_fold_windows(weft_tensor *cols, int nd, const int64_t *out, const int64_t *size, const int64_t *count,
                             const int64_t *step, const int64_t *dilation, const int64_t *before);

/* f32 for f16 and bf16, where one op would round in between; others as they are. */
weft_tensor *wf_widened(weft_tensor *x);

/* a * b + c, or -1 when it does not fit. All are at least 0. */
static inline int64_t wf_reach(int64_t a, int64_t b, int64_t c)
{
    int64_t r;
    return wf_mul_i64(a, b, &r) && wf_add_i64(r, c, &r) && r <= WF_MAX_NUMEL ? r : -1;
}

#endif
