/* functions_calls_random.h - calls of functions_random.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_RANDOM_H
#define WF_FUNCTIONS_CALLS_RANDOM_H

#include "weft/ops_random.h"

/* The stream of parameters k, the seed, and k + 1, the offset. */
#define GENERATOR(k) (HAS(k) ? &(weft_generator){(uint64_t)I(k), (uint64_t)I((k) + 1)} : NULL)

static weft_tensor *normal_sized(const wf_call *c)
{
    weft_tensor *mean = HAS(2) ? weft_expand(T(0), N(2), V(2)) : T(0);
    return weft_normal(mean, T(1), GENERATOR(3));
}

#endif
