/* compose_algebra.h - what the files of products and linear algebra share. */
#ifndef WF_COMPOSE_ALGEBRA_H
#define WF_COMPOSE_ALGEBRA_H

#include <math.h>

#include "build.h"
#include "composite.h"
#include "weft/ops_algebra.h"

/* A handle on the node of x through a view that the caller proves to lie in it. */
weft_tensor *wf_view_tensor(weft_tensor *x, const wf_view *v);
/* weft_einsum of sound operands of one context, whose sentences begin with `who`. */
weft_tensor *wf_einsum(const char *who, const char *equation, weft_tensor *const *xs, int n);
/* Ones on the diagonal of the last two axes, zeros elsewhere. */
weft_tensor *wf_identity(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape);
/* A matrix product of any plain dtypes: [.., M, K] x [.., K, N]. */
weft_tensor *wf_product(weft_tensor *a, weft_tensor *b);

#endif
