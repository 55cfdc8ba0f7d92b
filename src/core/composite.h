/* composite.h - how a builder that is written over other builders begins and ends.
 *
 * Between begin and end the calling thread has a scope of its own, so that intermediate handles die with the
 * composite and only its results reach the caller, as the results of any builder do: they join the caller's
 * scope, or belong to the caller when none is open. Composites nest.
 *
 *     weft_tensor *weft_pairs(weft_tensor *x, weft_tensor *y, weft_tensor *weight)
 *     {
 *         wf_composite c;
 *         if (!wf_composite_begin(&c, "pairs", 2, WF_INPUTS(x, y, weight)))  x and y required, weight optional
 *             return c.failed;
 *         if (weft_tensor_rank(x) < 1)
 *             return wf_composite_fail(&c, WEFT_E_SHAPE, "input has rank 0, expected at least 1");
 *         weft_tensor *p = weft_mul(x, y);
 *         return wf_composite_end(&c, weight ? weft_mul(p, weight) : p);
 *     }
 *
 * Further results are handed out with wf_composite_give before the end. Nothing is released by hand, and every
 * path after a begin that succeeded ends with wf_composite_end or wf_composite_fail.
 */
#ifndef WF_COMPOSITE_H
#define WF_COMPOSITE_H

#include "scope.h"

typedef struct wf_composite {
    const char *who;     /* the operation, for its sentences */
    weft_ctx *ctx;
    weft_tensor *failed; /* the result, when begin says false */
    weft_scope scope;
} wf_composite;

/* A list of tensors, in place: its length and its address. */
#define WF_INPUTS(...) (int)(sizeof((weft_tensor *[]){__VA_ARGS__}) / sizeof(weft_tensor *)), (weft_tensor *[]){__VA_ARGS__}

/* The first n_required inputs are there; all that are there are sound and of one open context. If not, c->failed is
 * the result and no scope is open. n is at least 1 and in[0] decides the context when it is there. */
bool wf_composite_begin(wf_composite *c, const char *who, int n_required, int n, weft_tensor *const *in);
/* The same for an operation without inputs. */
bool wf_composite_begin_ctx(wf_composite *c, const char *who, weft_ctx *ctx);

/* A further result: `t`, made by this composite or an input, under a handle of the caller's scope. */
weft_tensor *wf_composite_give(wf_composite *c, weft_tensor *t);
/* The last result; everything else that was made since begin loses its handle. */
weft_tensor *wf_composite_end(wf_composite *c, weft_tensor *t);
/* An error tensor with the sentence "who: ..." as the result. */
weft_tensor *wf_composite_fail(wf_composite *c, weft_status st, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same error for a further result; outside of the composite that failed. */
static inline weft_tensor *wf_error_again(weft_tensor *t)
{
    weft_ctx *ctx = weft_tensor_ctx(t);
    return ctx ? wf_tensor_error(ctx, weft_tensor_status(t), "%s", weft_tensor_message(t)) : t;
}

#endif
