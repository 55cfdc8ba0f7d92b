/* compose_networks.h - what the composites of weft/ops_networks.h share.
 *
 * They compute in f32, or f64 where an input is f64, and convert once at the end.
 */
#ifndef WF_COMPOSE_NETWORKS_H
#define WF_COMPOSE_NETWORKS_H

#include "build.h"
#include "composite.h"
#include "weft/ops_networks.h"

/* f64 as it is, everything else in f32. */
static inline weft_tensor *wf_wide(weft_tensor *t)
{
    return weft_tensor_dtype(t) == WEFT_DTYPE_F64 ? t : weft_cast(t, WEFT_DTYPE_F32);
}

/* A rank-0 constant of the dtype that `like` computes in. */
static inline weft_tensor *wf_number(const weft_tensor *like, double v)
{
    weft_dtype dtype = weft_tensor_dtype(like) == WEFT_DTYPE_F64 ? WEFT_DTYPE_F64 : WEFT_DTYPE_F32;
    return weft_full(weft_tensor_ctx(like), dtype, 0, NULL, v);
}

static inline weft_tensor *wf_times(weft_tensor *t, double v) { return v == 1 ? t : weft_mul(t, wf_number(t, v)); }
static inline weft_tensor *wf_plus(weft_tensor *t, double v) { return v == 0 ? t : weft_add(t, wf_number(t, v)); }
static inline weft_tensor *wf_square(weft_tensor *t) { return weft_mul(t, t); }

static inline bool wf_is_float(const weft_tensor *t) { return weft_tensor_dtype(t) <= WEFT_DTYPE_F64; }
static inline bool wf_same_extents(const weft_tensor *a, const weft_tensor *b)
{
    return wf_same_shape(&a->view, &b->view);
}

/* log(1 + exp(x)) without overflow. */
weft_tensor *wf_softplus(weft_tensor *x);
/* The p-norm of x along an axis, p 0 .. inf. */
weft_tensor *wf_p_norm(weft_tensor *x, double p, int axis, bool keepdim);
/* "[2, 3]" of a tensor's shape. */
const char *wf_shape_text(const weft_tensor *t, char text[200]);

#endif
