/* functions_calls_algebra.h - calls of functions_algebra.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_ALGEBRA_H
#define WF_FUNCTIONS_CALLS_ALGEBRA_H

#include "weft/ops_algebra.h"

static weft_tensor *einsum(const wf_call *c)
{
    if (N_LIST < 1)
        return wf_tensor_error(CTX, WEFT_E_VALUE, "einsum: no operands for \"%.60s\"", S(0));
    return weft_einsum(S(0), LIST, N_LIST);
}

static weft_tensor *tensordot(const wf_call *c)
{
    int a[WEFT_MAX_RANK] = {0}, b[WEFT_MAX_RANK] = {0}, n = HAS(3) ? N(3) : (int)WF_MAX(WF_MIN(I(2), WEFT_MAX_RANK + 1), -1);
    if (HAS(3) != HAS(4) || (HAS(3) && N(3) != N(4)))
        return wf_tensor_error(CTX, WEFT_E_VALUE, "tensordot: dims_self has %d axes, dims_other %d", N(3), N(4));
    if (!HAS(3) && (!HAS(2) || n < 0 || n > weft_tensor_rank(T(0)) || n > weft_tensor_rank(T(1))))
        return wf_tensor_error(CTX, WEFT_E_VALUE, "tensordot: dims is %lld for tensors of rank %d and %d", (long long)I(2), weft_tensor_rank(T(0)),
                               weft_tensor_rank(T(1)));
    if (n > WEFT_MAX_RANK)
        return wf_tensor_error(CTX, WEFT_E_VALUE, "tensordot: %d pairs of axes", n);
    for (int i = 0; i < n; i++) {
        a[i] = HAS(3) ? wf_call_axis(V(3)[i]) : weft_tensor_rank(T(0)) - n + i;
        b[i] = HAS(3) ? wf_call_axis(V(4)[i]) : i;
    }
    return weft_tensordot(T(0), T(1), a, b, n);
}

static weft_tensor *cross(const wf_call *c)
{
    int axis = 0, rank = WF_MAX(weft_tensor_rank(T(0)), weft_tensor_rank(T(1)));
    if (HAS(2))
        return weft_cross(T(0), T(1), AXIS(2));
    while (axis + 1 < rank && weft_tensor_dim(T(0), axis - rank) != 3 && weft_tensor_dim(T(1), axis - rank) != 3)
        axis++;
    return weft_cross(T(0), T(1), axis);
}

static int lu(const wf_call *c)
{
    OUT[0] = weft_lu(T(0), &OUT[1], &OUT[2]);
    return 3;
}

static int qr(const wf_call *c)
{
    bool complete = strcmp(S(1), "complete") == 0;
    if (!complete && strcmp(S(1), "reduced") != 0) {
        OUT[0] = OUT[1] = wf_tensor_error(CTX, WEFT_E_VALUE, "qr: mode is \"%.20s\", not reduced or complete", S(1));
        return 2;
    }
    OUT[0] = weft_qr(T(0), complete, &OUT[1]);
    return 2;
}

static int slogdet(const wf_call *c)
{
    OUT[0] = weft_slogdet(T(0), &OUT[1]);
    return 2;
}

static int eigh(const wf_call *c)
{
    if (strcmp(S(1), "L") != 0 && strcmp(S(1), "U") != 0) {
        OUT[0] = OUT[1] = wf_tensor_error(CTX, WEFT_E_VALUE, "eigh: UPLO is \"%.20s\", not L or U", S(1));
        return 2;
    }
    OUT[0] = weft_eigh(T(0), S(1)[0] == 'U', &OUT[1]);
    return 2;
}

static int svd(const wf_call *c)
{
    OUT[0] = weft_svd(T(0), B(1), &OUT[1], &OUT[2]);
    return 3;
}

#endif
