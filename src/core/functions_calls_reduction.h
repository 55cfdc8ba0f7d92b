/* functions_calls_reduction.h - calls of functions_reduction.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_REDUCTION_H
#define WF_FUNCTIONS_CALLS_REDUCTION_H

#include "weft/ops_reduction.h"

/* The axes of parameter `at`: how many, 0 for all. */
static int reduced_axes(const wf_call *c, int at, int axes[WEFT_MAX_RANK + 1])
{
    int n = WF_MIN(N(at), WEFT_MAX_RANK + 1);
    for (int i = 0; i < n; i++)
        axes[i] = wf_call_axis(V(at)[i]);
    return HAS(at) ? n : 0;
}

static weft_tensor *spread(const wf_call *c, weft_tensor *(*f)(weft_tensor *, const int *, int, double, bool))
{
    int axes[WEFT_MAX_RANK + 1], n = reduced_axes(c, 1, axes);
    return f(T(0), n ? axes : NULL, n, F(2), B(3));
}

static int spread_mean(const wf_call *c, weft_tensor *(*f)(weft_tensor *, const int *, int, double, bool, weft_tensor **))
{
    int axes[WEFT_MAX_RANK + 1], n = reduced_axes(c, 1, axes);
    OUT[0] = f(T(0), n ? axes : NULL, n, F(2), B(3), &OUT[1]);
    return 2;
}

typedef weft_tensor *with_indices(weft_tensor *, int, bool, weft_tensor **);

static int extreme(const wf_call *c, reduction *all, with_indices *along)
{
    if (HAS(1)) {
        OUT[0] = along(T(0), AXIS(1), B(2), &OUT[1]);
        return 2;
    }
    OUT[0] = all(T(0), NULL, 0, B(2));
    return 1;
}

static int median(const wf_call *c, weft_tensor *(*all)(weft_tensor *), with_indices *along)
{
    if (HAS(1)) {
        OUT[0] = along(T(0), AXIS(1), B(2), &OUT[1]);
        return 2;
    }
    OUT[0] = all(T(0));
    return 1;
}

static int aminmax(const wf_call *c)
{
    int axis = AXIS(1);
    OUT[0] = weft_aminmax(T(0), HAS(1) ? &axis : NULL, HAS(1) ? 1 : 0, B(2), &OUT[1]);
    return 2;
}

static weft_tensor *norm(const wf_call *c)
{
    int axes[WEFT_MAX_RANK + 1], n = reduced_axes(c, 2, axes);
    return weft_norm(T(0), F(1), n ? axes : NULL, n, B(3));
}

static int along(const wf_call *c, weft_tensor *(*f)(weft_tensor *, int, weft_tensor **))
{
    OUT[0] = f(T(0), AXIS(1), &OUT[1]);
    return 2;
}

static weft_tensor *quantile(const wf_call *c)
{
    int axis = AXIS(2);
    const weft_attr *q = c->slot[1].number; /* known now, so it is no error of the evaluation */
    double v = q ? q->kind == WEFT_ATTR_FLOAT ? q->f : (double)q->i : 0;
    if (!(v >= 0 && v <= 1))
        return wf_tensor_error(CTX, WEFT_E_VALUE, "quantile: q is %g, not 0 .. 1", v);
    return weft_quantile(T(0), T(1), HAS(2) ? &axis : NULL, B(3));
}

#endif
