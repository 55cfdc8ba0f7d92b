/* compose_activation.c - the activations of weft/ops_pointwise.h as compositions. */
#include "pointwise.h"
#include "weft/ops_pointwise.h"

#define NUM(v) wf_pointwise_const(&p, v)
#define PARAM(v) wf_pointwise_param(&p, v)

/* A function of one operand v, in f32 or f64. */
#define FLOAT_ONE(name, params, value)                      \
    weft_tensor *weft_##name params                         \
    {                                                       \
        wf_pointwise p;                                     \
        if (!wf_pointwise_begin(&p, #name, 1, 1, &x))       \
            return p.c.failed;                              \
        weft_tensor *v = p.in[0];                           \
        return wf_pointwise_end(&p, value);                 \
    }

/* ln(1 + e^-|v|): with max(v, 0) the softplus of v, with min(v, 0) less it the logarithm of its sigmoid. */
static weft_tensor *soft_rest(weft_tensor *v) { return weft_log1p(weft_exp(weft_neg(weft_abs(v)))); }
static weft_tensor *softplus(weft_tensor *v) { return weft_add(weft_relu(v), soft_rest(v)); }

static weft_tensor *softplus_general(const wf_pointwise *p, weft_tensor *v, double beta, double threshold)
{
    weft_tensor *scale = wf_pointwise_param(p, beta), *z = beta == 1 ? v : weft_mul(v, scale);
    weft_tensor *s = softplus(z);
    return weft_where(weft_gt(z, wf_pointwise_param(p, threshold)), v, beta == 1 ? s : weft_div(s, scale));
}

static weft_tensor *above_zero(const wf_pointwise *p, weft_tensor *v, weft_tensor *other)
{
    return weft_where(weft_gt(v, wf_pointwise_const(p, 0)), v, other);
}

/* min(max(v + 3, 0), 6) / 6 */
static weft_tensor *hard_gate(const wf_pointwise *p, weft_tensor *v)
{
    weft_tensor *six = wf_pointwise_const(p, 6);
    return weft_div(weft_minimum(weft_relu(weft_add(v, wf_pointwise_const(p, 3))), six), six);
}

static weft_tensor *softshrink(const wf_pointwise *p, weft_tensor *v, double lambd)
{
    weft_tensor *l = wf_pointwise_param(p, lambd);
    weft_tensor *moved = weft_where(weft_gt(v, l), weft_sub(v, l), weft_add(v, l));
    return weft_where(weft_le(weft_abs(v), l), wf_pointwise_const(p, 0), moved);
}

#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717

FLOAT_ONE(softplus, (weft_tensor *x, double beta, double threshold), softplus_general(&p, v, beta, threshold))
FLOAT_ONE(elu, (weft_tensor *x, double alpha), above_zero(&p, v, weft_mul(weft_expm1(v), PARAM(alpha))))
FLOAT_ONE(selu, (weft_tensor *x), weft_mul(above_zero(&p, v, weft_mul(weft_expm1(v), NUM(SELU_ALPHA))), NUM(SELU_SCALE)))
FLOAT_ONE(leaky_relu, (weft_tensor *x, double negative_slope), above_zero(&p, v, weft_mul(v, PARAM(negative_slope))))
FLOAT_ONE(hardsigmoid, (weft_tensor *x), hard_gate(&p, v))
FLOAT_ONE(hardswish, (weft_tensor *x), weft_mul(v, hard_gate(&p, v)))
FLOAT_ONE(mish, (weft_tensor *x), weft_mul(v, weft_tanh(softplus(v))))
FLOAT_ONE(softsign, (weft_tensor *x), weft_div(v, weft_add(weft_abs(v), NUM(1))))
FLOAT_ONE(tanhshrink, (weft_tensor *x), weft_sub(v, weft_tanh(v)))
FLOAT_ONE(hardshrink, (weft_tensor *x, double lambd), weft_where(weft_le(weft_abs(v), PARAM(lambd)), NUM(0), v))
FLOAT_ONE(softshrink, (weft_tensor *x, double lambd), softshrink(&p, v, lambd))
FLOAT_ONE(logsigmoid, (weft_tensor *x), weft_sub(weft_minimum(v, NUM(0)), soft_rest(v)))

weft_tensor *weft_celu(weft_tensor *x, double alpha)
{
    wf_pointwise p;
    if (!wf_pointwise_begin(&p, "celu", 1, 1, &x))
        return p.c.failed;
    if (alpha == 0)
        return wf_composite_fail(&p.c, WEFT_E_VALUE, "alpha is 0");
    weft_tensor *v = p.in[0], *a = PARAM(alpha);
    return wf_pointwise_end(&p, above_zero(&p, v, weft_mul(weft_expm1(weft_div(v, a)), a)));
}

weft_tensor *weft_hardtanh(weft_tensor *x, double min_val, double max_val)
{
    wf_pointwise p;
    if (!wf_pointwise_begin(&p, "hardtanh", 1, 1, &x))
        return p.c.failed;
    if (min_val > max_val)
        return wf_composite_fail(&p.c, WEFT_E_VALUE, "min_val %g is above max_val %g", min_val, max_val);
    return wf_pointwise_end(&p, weft_minimum(weft_maximum(p.in[0], PARAM(min_val)), PARAM(max_val)));
}

weft_tensor *weft_prelu(weft_tensor *x, weft_tensor *weight)
{
    wf_pointwise p;
    if (!wf_pointwise_begin(&p, "prelu", 2, WF_INPUTS(x, weight)))
        return p.c.failed;
    int rank = weft_tensor_rank(x);
    int64_t n = weft_tensor_numel(weight), channels = rank >= 2 ? weft_tensor_dim(x, 1) : 1;
    if (weft_tensor_rank(weight) > 1 || (n != 1 && n != channels))
        return wf_composite_fail(&p.c, WEFT_E_SHAPE, "weight has rank %d and %lld elements, expected one, or the %lld of axis 1",
                                 weft_tensor_rank(weight), (long long)n, (long long)channels);
    int64_t shape[WEFT_MAX_RANK];
    for (int i = 0; i < WEFT_MAX_RANK; i++)
        shape[i] = i == 0 ? n : 1;
    int weight_rank = n == 1 ? 0 : rank - 1; /* aligned at the end, axis 1 of x is axis 0 of this */
    weft_tensor *w = weft_reshape(p.in[1], weight_rank, shape), *v = p.in[0];
    return wf_pointwise_end(&p, above_zero(&p, v, weft_mul(v, w)));
}

/* ---- those that keep integers ---- */

weft_tensor *weft_relu6(weft_tensor *x)
{
    wf_composite c;
    if (!wf_plain_begin(&c, "relu6", 1, 1, &x))
        return c.failed;
    return wf_composite_end(&c, weft_minimum(weft_relu(x), wf_const_like(x, 6)));
}

weft_tensor *weft_relu2(weft_tensor *x)
{
    wf_composite c;
    if (!wf_plain_begin(&c, "relu2", 1, 1, &x))
        return c.failed;
    return wf_composite_end(&c, weft_square(weft_relu(x)));
}

weft_tensor *weft_relu_mask(weft_tensor *x)
{
    wf_composite c;
    if (!wf_plain_begin(&c, "relu_mask", 1, 1, &x))
        return c.failed;
    return wf_composite_end(&c, weft_cast(weft_gt(x, wf_const_like(x, 0)), weft_tensor_dtype(x)));
}

weft_tensor *weft_threshold(weft_tensor *x, double threshold, double value)
{
    wf_composite c;
    if (!wf_plain_begin(&c, "threshold", 1, 1, &x))
        return c.failed;
    weft_tensor *v = wf_param_like(x, value), *beyond = weft_le(x, wf_param_like(x, threshold));
    return wf_composite_end(&c, weft_where(beyond, v, x));
}

/* ---- gated units ---- */

static weft_tensor *gated(const char *who, weft_tensor *(*gate)(weft_tensor *), weft_tensor *x, int dim)
{
    wf_pointwise p;
    if (!wf_pointwise_begin(&p, who, 1, 1, &x))
        return p.c.failed;
    int64_t n = weft_tensor_dim(x, dim);
    if (n < 0)
        return wf_composite_fail(&p.c, WEFT_E_SHAPE, "axis %d of a tensor of rank %d", dim, weft_tensor_rank(x));
    if (n % 2)
        return wf_composite_fail(&p.c, WEFT_E_SHAPE, "axis %d has extent %lld, which has no half", dim, (long long)n);
    weft_tensor *a = weft_slice(p.in[0], dim, 0, n / 2, 1), *b = weft_slice(p.in[0], dim, n / 2, n, 1);
    return wf_pointwise_end(&p, weft_mul(a, gate(b)));
}

weft_tensor *weft_glu(weft_tensor *x, int dim) { return gated("glu", weft_sigmoid, x, dim); }
weft_tensor *weft_geglu(weft_tensor *x, int dim) { return gated("geglu", weft_gelu, x, dim); }
weft_tensor *weft_swiglu(weft_tensor *x, int dim) { return gated("swiglu", weft_silu, x, dim); }
