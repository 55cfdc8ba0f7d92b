/* functions_calls.h - the words of the CALL column of functions.def, and what needs more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_H
#define WF_FUNCTIONS_CALLS_H

#include "composite.h"
#include "functions.h"
#include "weft/ops.h"

#define T(k) (c->slot[k].t)
#define I(k) (c->slot[k].i)
#define F(k) (c->slot[k].f)
#define B(k) (c->slot[k].i != 0)
#define S(k) (c->slot[k].s)
#define D(k) ((weft_dtype)c->slot[k].i)
#define V(k) (c->slot[k].ints)
#define FS(k) (c->slot[k].floats)
#define N(k) (c->slot[k].n)
#define HAS(k) (c->slot[k].given)
#define AXIS(k) wf_call_axis(c->slot[k].i)
#define CTX (c->ctx)
#define LIST (c->list)
#define N_LIST (c->n_list)
#define OUT (c->out->tensor)
#define ROOM WEFT_MAX_OUTPUTS
#define ONE(tensor) (OUT[0] = (tensor), c->out->n = 1, (void)0)
#define MANY(count) (c->out->n = (count), (void)0)
#define COMPOSED(tensor) \
    do { \
        wf_composite k_; \
        bool begun_ = wf_composite_begin_ctx(&k_, c->op->name, CTX); \
        ONE(begun_ ? wf_composite_end(&k_, tensor) : k_.failed); \
    } while (0)

/* A float parameter that came as an integer which a double may not hold, and that integer as a tensor. */
#define BEYOND(k) (c->slot[k].i == WEFT_ATTR_INT && wf_beyond_double(c->slot[k].whole))
#define WHOLE(k) weft_tensor_from(CTX, WEFT_DTYPE_I64, 0, NULL, &c->slot[k].whole)

/* input and alpha * other, parameter 2; alpha is 1 in almost every call. */
#define SCALED(f) \
    do { \
        if (F(2) == 1 && c->slot[2].i != WEFT_ATTR_FLOAT) \
            ONE(f(T(0), T(1))); \
        else \
            COMPOSED(f(T(0), scaled(c, T(0), T(1)))); \
    } while (0)

/* alpha * other, where alpha, parameter 2, is no float among integers. */
static weft_tensor *scaled(const wf_call *c, weft_tensor *x, weft_tensor *other)
{
    bool is_float = c->slot[2].i == WEFT_ATTR_FLOAT, floats = weft_dtype_is_float(weft_tensor_dtype(other));
    if (weft_tensor_status(x) != WEFT_OK || weft_tensor_status(other) != WEFT_OK)
        return other;
    if (is_float && !floats && !weft_dtype_is_float(weft_tensor_dtype(x)))
        return wf_tensor_error(CTX, WEFT_E_DTYPE, "%s: alpha is %g, a float, beside tensors of %s and %s", c->op->name, F(2),
                               weft_dtype_name(weft_tensor_dtype(x)), weft_dtype_name(weft_tensor_dtype(other)));
    if (F(2) == 1)
        return other;
    if (is_float && !floats)
        other = weft_cast(other, weft_tensor_dtype(x));
    if (BEYOND(2) && weft_tensor_dtype(other) == WEFT_DTYPE_I64)
        return weft_mul(other, WHOLE(2));
    return weft_mul(other, wf_call_number(c, other, F(2), !is_float));
}

/* The axes of parameter 1: None is all of them. */
typedef weft_tensor *reduction(weft_tensor *, const int *, int, bool);
static weft_tensor *reduce_of(const wf_call *c, weft_tensor *x, reduction *f)
{
    int axes[WEFT_MAX_RANK + 1];
    int n = WF_MIN(N(1), WEFT_MAX_RANK + 1); /* more than the rank repeat one, which the builder refuses */
    for (int i = 0; i < n; i++)
        axes[i] = wf_call_axis(V(1)[i]);
    return f(x, HAS(1) && n > 0 ? axes : NULL, n, B(2));
}

static weft_tensor *reduce(const wf_call *c, reduction *f) { return reduce_of(c, T(0), f); }

/* A reduction whose dtype, where given, is parameter 3. */
#define REDUCED(f) \
    do { \
        if (HAS(3)) \
            COMPOSED(reduce_of(c, input_as(c, 3), f)); \
        else \
            ONE(reduce(c, f)); \
    } while (0)

/* The input in the dtype of parameter k, where that is given. */
static weft_tensor *input_as(const wf_call *c, int k) { return HAS(k) ? weft_cast(T(0), D(k)) : T(0); }

static weft_tensor *reduce_one(const wf_call *c, reduction *f)
{
    int axis = AXIS(1);
    return f(T(0), HAS(1) ? &axis : NULL, HAS(1) ? 1 : 0, B(2));
}

static weft_tensor *gelu(const wf_call *c)
{
    if (strcmp(S(1), "tanh") == 0)
        return weft_gelu_tanh(T(0));
    if (strcmp(S(1), "none") == 0)
        return weft_gelu(T(0));
    return wf_tensor_error(CTX, WEFT_E_VALUE, "gelu: approximate is \"%.20s\", not none or tanh", S(1));
}

static weft_tensor *permute(const wf_call *c)
{
    int axes[WEFT_MAX_RANK];
    if (N(1) != weft_tensor_rank(T(0)))
        return wf_tensor_error(CTX, WEFT_E_SHAPE, "permute: %d axes for a tensor of rank %d", N(1), weft_tensor_rank(T(0)));
    for (int i = 0; i < N(1); i++)
        axes[i] = wf_call_axis(V(1)[i]);
    return weft_permute(T(0), axes);
}

#include "functions_calls_pointwise.h"
#include "functions_calls_creation.h"
#include "functions_calls_random.h"
#include "functions_calls_shape.h"
#include "functions_calls_indexing.h"
#include "functions_calls_reduction.h"
#include "functions_calls_networks.h"
#include "functions_calls_convolution.h"
#include "functions_calls_algebra.h"
#include "functions_calls_quantised.h"

#endif
