/* compose_networks_distances.c - distances between vectors, and the bilinear form. */
#include <math.h>

#include "compose_networks.h"

/* Widens a and b to one dtype. The error tensor, or NULL. */
static weft_tensor *pair(wf_composite *c, weft_tensor **a, weft_tensor **b, weft_dtype *dtype)
{
    if (!wf_is_float(*a) || !wf_is_float(*b))
        return wf_composite_fail(c, WEFT_E_DTYPE, "inputs are %s and %s, expected float dtypes", weft_dtype_name(weft_tensor_dtype(*a)),
                                 weft_dtype_name(weft_tensor_dtype(*b)));
    if (weft_dtype_promote(weft_tensor_dtype(*a), weft_tensor_dtype(*b), dtype) != WEFT_OK)
        return wf_composite_end(c, wf_tensor_error_last(c->ctx, WEFT_E_DTYPE));
    weft_dtype wide = *dtype == WEFT_DTYPE_F64 ? WEFT_DTYPE_F64 : WEFT_DTYPE_F32;
    *a = weft_cast(*a, wide);
    *b = weft_cast(*b, wide);
    return NULL;
}

weft_tensor *weft_pairwise_distance(weft_tensor *x1, weft_tensor *x2, double p, double eps, bool keepdim)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *fail;
    if (!wf_composite_begin(&c, "pairwise_distance", 2, WF_INPUTS(x1, x2)))
        return c.failed;
    if (!(p >= 0))
        return wf_composite_fail(&c, WEFT_E_VALUE, "p is %g, expected at least 0", p);
    if (weft_tensor_rank(x1) < 1 && weft_tensor_rank(x2) < 1)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "both inputs have rank 0, expected [.., D]");
    if ((fail = pair(&c, &x1, &x2, &dtype)))
        return fail;
    return wf_composite_end(&c, weft_cast(wf_p_norm(wf_plus(weft_sub(x1, x2), eps), p, -1, keepdim), dtype));
}

weft_tensor *weft_cdist(weft_tensor *x1, weft_tensor *x2, double p)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *fail;
    char a[200], b[200];
    if (!wf_composite_begin(&c, "cdist", 2, WF_INPUTS(x1, x2)))
        return c.failed;
    if (!(p >= 0))
        return wf_composite_fail(&c, WEFT_E_VALUE, "p is %g, expected at least 0", p);
    if (weft_tensor_rank(x1) < 2 || weft_tensor_rank(x2) < 2 || weft_tensor_dim(x1, -1) != weft_tensor_dim(x2, -1))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "inputs are %s and %s, expected [.., P, M] and [.., R, M]", wf_shape_text(x1, a),
                                 wf_shape_text(x2, b));
    if ((fail = pair(&c, &x1, &x2, &dtype)))
        return fail;
    weft_tensor *apart = weft_sub(weft_unsqueeze(x1, -2), weft_unsqueeze(x2, -3));
    return wf_composite_end(&c, weft_cast(wf_p_norm(apart, p, -1, false), dtype));
}

/* x1 [.., I] W [O, I, J] x2 [.., J]: x1 with all of W in one product, [.., O, J], then a sum over J. */
weft_tensor *weft_bilinear(weft_tensor *x1, weft_tensor *x2, weft_tensor *weight, weft_tensor *bias)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *fail;
    char a[200], b[200], w[200];
    if (!wf_composite_begin(&c, "bilinear", 3, WF_INPUTS(x1, x2, weight, bias)))
        return c.failed;
    int rank = weft_tensor_rank(x1), last = -1;
    const int64_t *s = weft_tensor_shape(weight);
    bool fits = rank >= 1 && rank == weft_tensor_rank(x2) && weft_tensor_rank(weight) == 3 && weft_tensor_dim(x1, -1) == s[1] &&
                weft_tensor_dim(x2, -1) == s[2] &&
                memcmp(weft_tensor_shape(x1), weft_tensor_shape(x2), (size_t)(rank - 1) * sizeof *s) == 0;
    if (!fits)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "input1 %s, input2 %s, weight %s, expected [.., I], [.., J], [O, I, J]",
                                 wf_shape_text(x1, a), wf_shape_text(x2, b), wf_shape_text(weight, w));
    if (bias && (weft_tensor_rank(bias) != 1 || weft_tensor_shape(bias)[0] != s[0]))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "bias is %s, expected [%lld]", wf_shape_text(bias, b), (long long)s[0]);
    if (!wf_is_float(weight) || (bias && !wf_is_float(bias)))
        return wf_composite_fail(&c, WEFT_E_DTYPE, "weight and bias take float dtypes");
    if ((fail = pair(&c, &x1, &x2, &dtype)))
        return fail;
    weft_dtype wide = weft_tensor_dtype(x1);
    int64_t out[WEFT_MAX_RANK], O = s[0], rows = 1;
    for (int k = 0; k < rank - 1; k++)
        rows *= out[k] = weft_tensor_shape(x1)[k];
    out[rank - 1] = O;
    weft_tensor *matrix = weft_reshape(weft_permute(weft_cast(weight, wide), (int[]){1, 0, 2}), 2, (int64_t[]){s[1], O * s[2]});
    weft_tensor *left = weft_reshape(weft_matmul(weft_reshape(x1, 2, (int64_t[]){rows, s[1]}), matrix), 3, (int64_t[]){rows, O, s[2]});
    weft_tensor *right = weft_reshape(x2, 3, (int64_t[]){rows, 1, s[2]});
    weft_tensor *y = weft_reshape(weft_sum(weft_mul(left, right), &last, 1, false), rank, out);
    return wf_composite_end(&c, weft_cast(bias ? weft_add(y, weft_cast(bias, wide)) : y, dtype));
}
