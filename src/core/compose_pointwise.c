/* compose_pointwise.c - the functions of weft/ops_pointwise.h: nodes, and compositions but for activations. */
#include "pointwise.h"
#include "weft/ops_pointwise.h"

#include <math.h>

/* ---- beginning and ending ---- */

bool wf_plain_begin(wf_composite *c, const char *who, int n_required, int n, weft_tensor *const *in)
{
    if (!wf_composite_begin(c, who, n_required, n, in))
        return false;
    for (int i = 0; i < n; i++)
        if (in[i] && wf_require_plain(who, in[i]) != WEFT_OK) {
            c->failed = wf_composite_end(c, wf_tensor_error_last(c->ctx, WEFT_E_DTYPE));
            return false;
        }
    return true;
}

bool wf_pointwise_begin(wf_pointwise *p, const char *who, int n_required, int n, weft_tensor *const *in)
{
    weft_dtype dtype;
    if (!wf_composite_begin(&p->c, who, n_required, n, in))
        return false;
    weft_status st = wf_promote(who, n, in, &dtype);
    if (st != WEFT_OK) {
        p->c.failed = wf_composite_end(&p->c, wf_tensor_error_last(p->c.ctx, st));
        return false;
    }
    p->result = weft_dtype_is_float(dtype) ? dtype : WEFT_DTYPE_F32;
    p->work = dtype == WEFT_DTYPE_F64 ? dtype : WEFT_DTYPE_F32;
    for (int i = 0; i < n; i++)
        p->in[i] = in[i] ? weft_cast(in[i], p->work) : NULL;
    return true;
}

weft_tensor *wf_pointwise_end(wf_pointwise *p, weft_tensor *t)
{
    return wf_composite_end(&p->c, t->status == WEFT_OK ? weft_cast(t, p->result) : t);
}

static weft_tensor *param(weft_ctx *ctx, weft_dtype dtype, double v)
{
    if (dtype == WEFT_DTYPE_F32)
        return weft_scalar_f32(ctx, (float)v);
    return weft_full(ctx, dtype, 0, NULL, v);
}

weft_tensor *wf_pointwise_const(const wf_pointwise *p, double v) { return weft_full(p->c.ctx, p->work, 0, NULL, v); }
weft_tensor *wf_pointwise_param(const wf_pointwise *p, double v) { return param(p->c.ctx, p->work, v); }
weft_tensor *wf_const_like(const weft_tensor *x, double v) { return weft_full(x->ctx, weft_tensor_dtype(x), 0, NULL, v); }
weft_tensor *wf_param_like(const weft_tensor *x, double v) { return param(x->ctx, weft_tensor_dtype(x), v); }

/* ---- nodes ---- */

#define UNARY(name, id) \
    weft_tensor *weft_##name(weft_tensor *x) { return wf_build_unary(WF_OP_##id, x); }
#define BINARY(name, id) \
    weft_tensor *weft_##name(weft_tensor *a, weft_tensor *b) { return wf_build_binary(WF_OP_##id, a, b); }
UNARY(erfc, ERFC)
UNARY(lgamma, LGAMMA)
UNARY(expm1, EXPM1)
UNARY(log1p, LOG1P)
UNARY(log2, LOG2)
UNARY(exp2, EXP2)
UNARY(log10, LOG10)
UNARY(sinh, SINH)
UNARY(cosh, COSH)
UNARY(tan, TAN)
UNARY(asin, ASIN)
UNARY(acos, ACOS)
UNARY(atan, ATAN)
UNARY(asinh, ASINH)
UNARY(acosh, ACOSH)
UNARY(atanh, ATANH)
UNARY(ceil, CEIL)
UNARY(trunc, TRUNC)
UNARY(signbit, SIGNBIT)
UNARY(bitwise_not, BITWISE_NOT)
BINARY(atan2, ATAN2)
BINARY(hypot, HYPOT)
BINARY(copysign, COPYSIGN)
BINARY(fmod, FMOD)
BINARY(remainder, REMAINDER)
BINARY(floor_divide, FLOOR_DIVIDE)
BINARY(bitwise_and, BITWISE_AND)
BINARY(bitwise_or, BITWISE_OR)
BINARY(bitwise_xor, BITWISE_XOR)
BINARY(bitwise_left_shift, LEFT_SHIFT)
BINARY(bitwise_right_shift, RIGHT_SHIFT)

weft_tensor *weft_trunc_divide(weft_tensor *a, weft_tensor *b)
{
    wf_composite c;
    if (!wf_plain_begin(&c, "trunc_divide", 2, WF_INPUTS(a, b)))
        return c.failed;
    weft_tensor *rest = weft_fmod(a, b); /* what is left is a multiple, so an integer quotient is exact */
    if (weft_tensor_status(rest) != WEFT_OK || !weft_dtype_is_float(weft_tensor_dtype(rest)))
        return wf_composite_end(&c, weft_floor_divide(weft_sub(a, rest), b));
    return wf_composite_end(&c, weft_trunc(weft_div(a, b)));
}

/* ---- one operand ---- */

#define NUM(v) wf_pointwise_const(&p, v)
#define FLOAT_ONE(name, value)                              \
    weft_tensor *weft_##name(weft_tensor *x)                \
    {                                                       \
        wf_pointwise p;                                     \
        if (!wf_pointwise_begin(&p, #name, 1, 1, &x))       \
            return p.c.failed;                              \
        weft_tensor *v = p.in[0];                           \
        return wf_pointwise_end(&p, value);                 \
    }
FLOAT_ONE(reciprocal, weft_div(NUM(1), v))
FLOAT_ONE(rad2deg, weft_mul(v, NUM(57.29577951308232)))
FLOAT_ONE(deg2rad, weft_mul(v, NUM(0.017453292519943295)))

/* Whole turns are taken off exactly, before pi rounds. */
static weft_tensor *sinc(const wf_pointwise *p, weft_tensor *v)
{
    /* 1 to the last bit below 1e-18, and a GPU takes subnormals for 0. */
    weft_tensor *pi = wf_pointwise_const(p, 3.141592653589793), *zero = weft_lt(weft_abs(v), wf_pointwise_const(p, 1e-18));
    weft_tensor *sine = weft_sin(weft_mul(weft_fmod(v, wf_pointwise_const(p, 2)), pi));
    return weft_where(zero, wf_pointwise_const(p, 1), weft_div(sine, weft_mul(v, pi)));
}
FLOAT_ONE(sinc, sinc(&p, v))

weft_tensor *weft_round(weft_tensor *x, int decimals)
{
    if (decimals == 0 || !x || x->status != WEFT_OK)
        return wf_build_unary(WF_OP_ROUND, x);
    wf_pointwise p;
    if (!wf_pointwise_begin(&p, "round", 1, 1, &x))
        return p.c.failed;
    if (decimals < -30 || decimals > 30)
        return wf_composite_fail(&p.c, WEFT_E_VALUE, "decimals is %d, expected -30 to 30", decimals);
    if (!weft_dtype_is_float((weft_dtype)x->node->dtype)) {
        if (decimals < 0)
            return wf_composite_fail(&p.c, WEFT_E_DTYPE, "decimals is %d for %s, which has none to lose", decimals,
                                     weft_dtype_name((weft_dtype)x->node->dtype));
        return wf_composite_end(&p.c, x);
    }
    weft_tensor *unit = wf_pointwise_const(&p, pow(10, decimals < 0 ? -decimals : decimals)), *v = p.in[0];
    v = wf_build_unary(WF_OP_ROUND, decimals > 0 ? weft_mul(v, unit) : weft_div(v, unit));
    return wf_pointwise_end(&p, decimals > 0 ? weft_div(v, unit) : weft_mul(v, unit));
}

weft_tensor *weft_frac(weft_tensor *x)
{
    wf_composite c;
    if (!wf_plain_begin(&c, "frac", 1, 1, &x))
        return c.failed;
    return wf_composite_end(&c, weft_sub(x, weft_trunc(x)));
}

weft_tensor *weft_sign(weft_tensor *x)
{
    wf_composite c;
    if (!wf_plain_begin(&c, "sign", 1, 1, &x))
        return c.failed;
    weft_dtype dtype = weft_tensor_dtype(x);
    if (dtype == WEFT_DTYPE_BOOL)
        return wf_composite_fail(&c, WEFT_E_DTYPE, "bool is not a number: cast first");
    weft_tensor *zero = wf_const_like(x, 0);
    weft_tensor *s = weft_sub(weft_cast(weft_gt(x, zero), dtype), weft_cast(weft_lt(x, zero), dtype));
    return wf_composite_end(&c, weft_dtype_is_float(dtype) ? weft_where(weft_ne(x, x), x, s) : s);
}

weft_tensor *weft_positive(weft_tensor *x)
{
    wf_composite c;
    if (!wf_plain_begin(&c, "positive", 1, 1, &x))
        return c.failed;
    if (weft_tensor_dtype(x) == WEFT_DTYPE_BOOL)
        return wf_composite_fail(&c, WEFT_E_DTYPE, "bool is not a number: cast first");
    return wf_composite_end(&c, x);
}

weft_tensor *weft_square(weft_tensor *x) { return weft_mul(x, x); }

/* ---- tests of floats ---- */

#define TEST(name, of_float, of_integer)                                                                   \
    weft_tensor *weft_##name(weft_tensor *x)                                                               \
    {                                                                                                      \
        wf_composite c;                                                                                    \
        if (!wf_plain_begin(&c, #name, 1, 1, &x))                                                          \
            return c.failed;                                                                               \
        return wf_composite_end(&c, weft_dtype_is_float(weft_tensor_dtype(x)) ? of_float : of_integer);    \
    }
TEST(isnan, weft_ne(x, x), weft_ne(x, x))
TEST(isinf, weft_eq(weft_abs(x), wf_const_like(x, INFINITY)), weft_ne(x, x))
TEST(isfinite, weft_lt(weft_abs(x), wf_const_like(x, INFINITY)), weft_eq(x, x))

static double largest(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_DTYPE_F16: return 65504;
    case WEFT_DTYPE_BF16: return 0x1.fep127;
    case WEFT_DTYPE_F64: return 0x1.fffffffffffffp1023;
    default: return 0x1.fffffep127;
    }
}

weft_tensor *weft_nan_to_num(weft_tensor *x, double nan, const double *posinf, const double *neginf)
{
    wf_composite c;
    if (!wf_plain_begin(&c, "nan_to_num", 1, 1, &x))
        return c.failed;
    weft_dtype dtype = weft_tensor_dtype(x);
    if (!weft_dtype_is_float(dtype))
        return wf_composite_end(&c, x);
    weft_tensor *high = wf_const_like(x, posinf ? *posinf : largest(dtype)), *low = wf_const_like(x, neginf ? *neginf : -largest(dtype));
    weft_tensor *r = weft_where(weft_eq(x, wf_const_like(x, INFINITY)), high, x);
    r = weft_where(weft_eq(x, wf_const_like(x, -INFINITY)), low, r);
    return wf_composite_end(&c, weft_where(weft_ne(x, x), wf_const_like(x, nan), r));
}

/* ---- two operands ---- */

weft_tensor *weft_logaddexp(weft_tensor *a, weft_tensor *b)
{
    wf_pointwise p;
    if (!wf_pointwise_begin(&p, "logaddexp", 2, WF_INPUTS(a, b)))
        return p.c.failed;
    weft_tensor *u = p.in[0], *v = p.in[1], *most = weft_maximum(u, v);
    weft_tensor *rest = weft_log1p(weft_exp(weft_neg(weft_abs(weft_sub(u, v)))));
    /* Equal infinities have no difference. */
    rest = weft_where(weft_eq(u, v), NUM(0.6931471805599453), rest);
    return wf_pointwise_end(&p, weft_add(most, rest));
}

weft_tensor *weft_xlogy(weft_tensor *a, weft_tensor *b)
{
    wf_pointwise p;
    if (!wf_pointwise_begin(&p, "xlogy", 2, WF_INPUTS(a, b)))
        return p.c.failed;
    weft_tensor *u = p.in[0], *v = p.in[1];
    weft_tensor *zero = weft_bitwise_and(weft_eq(u, NUM(0)), weft_eq(v, v));
    return wf_pointwise_end(&p, weft_where(zero, NUM(0), weft_mul(u, weft_log(v))));
}

weft_tensor *weft_heaviside(weft_tensor *x, weft_tensor *values)
{
    wf_composite c;
    weft_dtype dtype;
    if (!wf_plain_begin(&c, "heaviside", 2, WF_INPUTS(x, values)))
        return c.failed;
    weft_status st = wf_promote("heaviside", 2, (weft_tensor *[]){x, values}, &dtype);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    weft_tensor *v = weft_cast(x, dtype), *zero = wf_const_like(v, 0);
    weft_tensor *r = weft_where(weft_eq(v, zero), weft_cast(values, dtype), weft_cast(weft_gt(v, zero), dtype));
    return wf_composite_end(&c, weft_where(weft_ne(v, v), v, r));
}

/* ---- logic ---- */

#define LOGICAL(name)                                                                                                  \
    weft_tensor *weft_logical_##name(weft_tensor *a, weft_tensor *b)                                                   \
    {                                                                                                                  \
        wf_composite c;                                                                                                \
        if (!wf_plain_begin(&c, "logical_" #name, 2, WF_INPUTS(a, b)))                                                 \
            return c.failed;                                                                                           \
        return wf_composite_end(&c, weft_bitwise_##name(weft_cast(a, WEFT_DTYPE_BOOL), weft_cast(b, WEFT_DTYPE_BOOL))); \
    }
LOGICAL(and)
LOGICAL(or)
LOGICAL(xor)

weft_tensor *weft_logical_not(weft_tensor *x)
{
    wf_composite c;
    if (!wf_plain_begin(&c, "logical_not", 1, 1, &x))
        return c.failed;
    return wf_composite_end(&c, weft_bitwise_not(weft_cast(x, WEFT_DTYPE_BOOL)));
}

/* ---- selection and mixtures ---- */

weft_tensor *weft_clamp(weft_tensor *x, weft_tensor *min, weft_tensor *max)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *in[3] = {x, min, max};
    if (!wf_plain_begin(&c, "clamp", 1, 3, in))
        return c.failed;
    if (!min && !max)
        return wf_composite_fail(&c, WEFT_E_VALUE, "min and max are both missing");
    weft_status st = wf_promote("clamp", 3, in, &dtype);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    weft_tensor *v = weft_cast(x, dtype);
    v = min ? weft_maximum(v, weft_cast(min, dtype)) : v;
    return wf_composite_end(&c, max ? weft_minimum(v, weft_cast(max, dtype)) : v);
}

weft_tensor *weft_masked_fill(weft_tensor *x, weft_tensor *mask, weft_tensor *value)
{
    wf_composite c;
    if (!wf_plain_begin(&c, "masked_fill", 3, WF_INPUTS(x, mask, value)))
        return c.failed;
    if (weft_tensor_dtype(mask) != WEFT_DTYPE_BOOL)
        return wf_composite_fail(&c, WEFT_E_DTYPE, "mask is %s, expected bool", weft_dtype_name(weft_tensor_dtype(mask)));
    if (weft_tensor_rank(value) != 0)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "value has rank %d, expected 0", weft_tensor_rank(value));
    if (wf_numbers_fit("masked_fill", 1, &value, weft_tensor_dtype(x)) != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, WEFT_E_VALUE));
    return wf_composite_end(&c, weft_where(mask, weft_cast(value, weft_tensor_dtype(x)), x));
}

weft_tensor *weft_lerp(weft_tensor *x, weft_tensor *end, weft_tensor *weight)
{
    wf_pointwise p;
    if (!wf_pointwise_begin(&p, "lerp", 3, WF_INPUTS(x, end, weight)))
        return p.c.failed;
    weft_tensor *u = p.in[0], *v = p.in[1], *w = p.in[2], *d = weft_sub(v, u);
    weft_tensor *from_start = weft_add(u, weft_mul(w, d)), *from_end = weft_sub(v, weft_mul(d, weft_sub(NUM(1), w)));
    return wf_pointwise_end(&p, weft_where(weft_lt(weft_abs(w), NUM(0.5)), from_start, from_end));
}

/* x + term(value a, b), in the promoted dtype: integers stay integers. */
static weft_tensor *add_term(const char *who, weft_tensor *(*term)(weft_tensor *, weft_tensor *), weft_tensor *x, weft_tensor *a,
                             weft_tensor *b, double value)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *in[3] = {x, a, b};
    if (!wf_plain_begin(&c, who, 3, 3, in))
        return c.failed;
    weft_status st = wf_promote(who, 3, in, &dtype);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    weft_dtype work = dtype == WEFT_DTYPE_F16 || dtype == WEFT_DTYPE_BF16 ? WEFT_DTYPE_F32 : dtype;
    weft_tensor *u = weft_cast(a, work);
    u = value == 1 || u->status != WEFT_OK ? u : weft_mul(u, wf_param_like(u, value));
    weft_tensor *t = weft_add(weft_cast(x, work), term(u, weft_cast(b, work)));
    return wf_composite_end(&c, work == dtype ? t : weft_cast(t, dtype));
}

weft_tensor *weft_addcmul(weft_tensor *x, weft_tensor *a, weft_tensor *b, double value)
{
    return add_term("addcmul", weft_mul, x, a, b, value);
}

weft_tensor *weft_addcdiv(weft_tensor *x, weft_tensor *a, weft_tensor *b, double value)
{
    return add_term("addcdiv", weft_div, x, a, b, value);
}
