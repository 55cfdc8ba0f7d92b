/* functions_calls_creation.h - calls of functions_creation.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_CREATION_H
#define WF_FUNCTIONS_CALLS_CREATION_H

#include "weft/ops_creation.h"

/* The dtype of parameter k, else that which numbers first .. last ask for: bool, i32 or f32. */
static weft_dtype number_dtype(const wf_call *c, int k, int first, int last)
{
    if (HAS(k))
        return D(k);
    weft_dtype dtype = WEFT_DTYPE_BOOL;
    for (int i = first; i <= last; i++) {
        if (!HAS(i))
            continue;
        if (c->slot[i].i == WEFT_ATTR_FLOAT)
            return WEFT_DTYPE_F32;
        if (c->slot[i].i == WEFT_ATTR_INT)
            dtype = WEFT_DTYPE_I32;
    }
    if (dtype == WEFT_DTYPE_I32)
        for (int i = first; i <= last; i++)
            if (HAS(i) && (F(i) < INT32_MIN || F(i) > INT32_MAX))
                dtype = WEFT_DTYPE_I64;
    return dtype;
}

/* The dtype of parameter k, else that of the input. */
static weft_dtype like_dtype(const wf_call *c, int k)
{
    return HAS(k) ? D(k) : weft_tensor_dtype(T(0));
}

#endif
