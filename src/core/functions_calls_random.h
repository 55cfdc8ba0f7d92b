/* functions_calls_random.h - calls of functions_random.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_RANDOM_H
#define WF_FUNCTIONS_CALLS_RANDOM_H

#include "weft/ops_random.h"

/* The stream of parameters k, the seed, and k + 1, the offset. */
#define GENERATOR(k) (HAS(k) ? &(weft_generator){(uint64_t)I(k), (uint64_t)I((k) + 1)} : NULL)

static weft_tensor *random_like(const wf_call *c, weft_tensor *(*f)(weft_ctx *, weft_dtype, int, const int64_t *, weft_generator *))
{
    if (weft_tensor_status(T(0)) != WEFT_OK)
        return weft_rand_like(T(0), NULL);
    return f(weft_tensor_ctx(T(0)), HAS(1) ? D(1) : weft_tensor_dtype(T(0)), weft_tensor_rank(T(0)), weft_tensor_shape(T(0)), GENERATOR(2));
}

/* (low, high, size), or (high, size): then the size stands where high does. */
static weft_tensor *randint(const wf_call *c)
{
    if (!HAS(1))
        return wf_tensor_error(CTX, WEFT_E_VALUE, "randint: %s is missing: %s(%s)", HAS(2) ? "high" : "size", c->op->name, c->op->signature);
    if (!HAS(2))
        return weft_randint(CTX, D(3), 0, I(0), N(1), V(1), GENERATOR(4));
    if (N(1) != 1)
        return wf_tensor_error(CTX, WEFT_E_VALUE, "randint: high has %d numbers, expected 1", N(1));
    return weft_randint(CTX, D(3), I(0), V(1)[0], N(2), V(2), GENERATOR(4));
}

/* (input, low, high), or (input, high): then high stands where low does. */
static weft_tensor *randint_like(const wf_call *c)
{
    int64_t low = HAS(2) ? I(1) : 0, high = HAS(2) ? I(2) : I(1);
    if (!HAS(3) || weft_tensor_status(T(0)) != WEFT_OK)
        return weft_randint_like(T(0), low, high, GENERATOR(4));
    return weft_randint(weft_tensor_ctx(T(0)), D(3), low, high, weft_tensor_rank(T(0)), weft_tensor_shape(T(0)), GENERATOR(4));
}

/* Of an integer, that many numbers. */
static weft_tensor *permutation(const wf_call *c)
{
    const weft_attr *n = c->slot[0].number;
    if (n && n->kind == WEFT_ATTR_INT)
        return weft_randperm(CTX, n->i, GENERATOR(2));
    return weft_permutation(T(0), AXIS(1), GENERATOR(2));
}

static weft_tensor *normal_sized(const wf_call *c)
{
    weft_tensor *mean = HAS(2) ? weft_expand(T(0), N(2), V(2)) : T(0);
    return weft_normal(mean, T(1), GENERATOR(3));
}

#endif
