/* functions_calls_indexing.h - calls of functions_indexing.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_INDEXING_H
#define WF_FUNCTIONS_CALLS_INDEXING_H

#include "weft/ops_indexing.h"

static int unique(const wf_call *c)
{
    int n = 1, inverse = B(2) ? n++ : 0, counts = B(3) ? n++ : 0;
    OUT[0] = weft_unique(T(0), inverse ? &OUT[inverse] : NULL, counts ? &OUT[counts] : NULL);
    return n;
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
