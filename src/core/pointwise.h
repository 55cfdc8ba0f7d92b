/* pointwise.h - composites of floats: inputs promoted once, computed in f32 or f64, rounded once to the result's dtype. */
#ifndef WF_POINTWISE_H
#define WF_POINTWISE_H

#include "build.h"
#include "composite.h"

typedef struct wf_pointwise {
    wf_composite c;
    weft_dtype work, result;
    weft_tensor *in[4]; /* in the dtype `work`; NULL where the input is */
} wf_pointwise;

/* As wf_composite_begin; false also when an input is of a block type. */
bool wf_pointwise_begin(wf_pointwise *p, const char *who, int n_required, int n, weft_tensor *const *in);
weft_tensor *wf_pointwise_end(wf_pointwise *p, weft_tensor *t);
/* Rank-0 operands that do not promote: a constant of the function, and a caller's number (in f32 a run-time value, so that
 * another one finds the same plan). */
weft_tensor *wf_pointwise_const(const wf_pointwise *p, double v);
weft_tensor *wf_pointwise_param(const wf_pointwise *p, double v);
/* The same in the dtype of x. */
weft_tensor *wf_const_like(const weft_tensor *x, double v);
weft_tensor *wf_param_like(const weft_tensor *x, double v);

/* All inputs are there, sound, and of one context, in which the composite begins; no block types. */
bool wf_plain_begin(wf_composite *c, const char *who, int n_required, int n, weft_tensor *const *in);

#endif
