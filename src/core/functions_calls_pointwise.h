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

#endif
