/* functions_calls_pointwise.h - calls of functions_pointwise.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_POINTWISE_H
#define WF_FUNCTIONS_CALLS_POINTWISE_H

#include "weft/ops_pointwise.h"

/* input, other, rounding_mode */
static weft_tensor *divide(const wf_call *c)
{
    if (!HAS(2))
        return weft_div(T(0), T(1));
    if (strcmp(S(2), "trunc") == 0)
        return weft_trunc_divide(T(0), T(1));
    if (strcmp(S(2), "floor") == 0)
        return weft_floor_divide(T(0), T(1));
    return wf_tensor_error(CTX, WEFT_E_VALUE, "div: rounding_mode is \"%.20s\", not trunc or floor", S(2));
}

static weft_tensor *threshold(const wf_call *c)
{
    if (weft_tensor_dtype(T(0)) != WEFT_DTYPE_I64 || (!BEYOND(1) && !BEYOND(2)))
        return weft_threshold(T(0), F(1), F(2));
    weft_tensor *least = BEYOND(1) ? WHOLE(1) : weft_full(CTX, WEFT_DTYPE_I64, 0, NULL, F(1));
    return weft_where(weft_gt(T(0), least), T(0), BEYOND(2) ? WHOLE(2) : weft_full(CTX, WEFT_DTYPE_I64, 0, NULL, F(2)));
}

#endif
