/* functions_calls_indexing.h - calls of functions_indexing.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_INDEXING_H
#define WF_FUNCTIONS_CALLS_INDEXING_H

#include "weft/ops_indexing.h"

/* input, dim, index, source, alpha: as those of add */
static weft_tensor *index_add(const wf_call *c)
{
    bool floats = weft_dtype_is_float(weft_tensor_dtype(T(0)));
    if (weft_tensor_status(T(0)) == WEFT_OK && !floats && c->slot[4].i == WEFT_ATTR_FLOAT)
        return wf_tensor_error(CTX, WEFT_E_DTYPE, "index_add: alpha is %g, a float, beside a tensor of %s", F(4), weft_dtype_name(weft_tensor_dtype(T(0))));
    if (BEYOND(4) && weft_tensor_dtype(T(0)) == WEFT_DTYPE_I64)
        return weft_index_add(T(0), AXIS(1), T(2), weft_mul(weft_cast(T(3), WEFT_DTYPE_I64), WHOLE(4)), 1);
    return weft_index_add(T(0), AXIS(1), T(2), T(3), F(4));
}

static int unique(const wf_call *c)
{
    int n = 1, inverse = B(2) ? n++ : 0, counts = B(3) ? n++ : 0;
    weft_tensor **of_inverse = inverse ? &OUT[inverse] : NULL, **of_counts = counts ? &OUT[counts] : NULL;
    OUT[0] = HAS(4) ? weft_unique_along(T(0), AXIS(4), of_inverse, of_counts) : weft_unique(T(0), of_inverse, of_counts);
    return n;
}

/* Rows of coordinates, or one column an axis; a number has one axis then, as in PyTorch. */
static int nonzero(const wf_call *c)
{
    if (!B(1)) {
        OUT[0] = weft_nonzero(T(0));
        return 1;
    }
    wf_composite k;
    if (!wf_composite_begin(&k, c->op->name, 1, WF_INPUTS(T(0)))) {
        OUT[0] = k.failed;
        return 1;
    }
    weft_tensor *x = weft_tensor_rank(T(0)) ? T(0) : weft_reshape(T(0), 1, (int64_t[]){1}), *rows = weft_nonzero(x);
    int n = weft_tensor_status(rows) == WEFT_OK ? weft_tensor_rank(x) : 1;
    for (int d = 1; d < n; d++)
        OUT[d] = wf_composite_give(&k, weft_select(rows, 1, d));
    OUT[0] = wf_composite_end(&k, weft_select(rows, 1, 0));
    return n;
}

static weft_tensor *searchsorted(const wf_call *c)
{
    bool left = HAS(3) && strcmp(S(3), "left") == 0, right = HAS(3) && strcmp(S(3), "right") == 0;
    if (HAS(3) && !left && !right)
        return wf_tensor_error(CTX, WEFT_E_VALUE, "searchsorted: side is \"%.20s\", not left or right", S(3));
    if (left && B(2))
        return wf_tensor_error(CTX, WEFT_E_VALUE, "searchsorted: side is left and right is true");
    return weft_searchsorted(T(4) ? weft_take_along_axis(T(0), T(4), -1) : T(0), T(1), right || B(2));
}

static int sort(const wf_call *c)
{
    OUT[0] = weft_sort(T(0), AXIS(1), B(2), &OUT[1]);
    return 2;
}

static int topk_along(const wf_call *c)
{
    OUT[1] = weft_topk_along(T(0), I(1), AXIS(2), B(3), &OUT[0]);
    return 2;
}

static int kthvalue(const wf_call *c)
{
    OUT[0] = weft_kthvalue(T(0), I(1), AXIS(2), B(3), &OUT[1]);
    return 2;
}

#endif
