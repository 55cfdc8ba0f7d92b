/* functions_calls_convolution.h - calls of functions_convolution.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_CONVOLUTION_H
#define WF_FUNCTIONS_CALLS_CONVOLUTION_H

#include "weft/ops_convolution.h"

/* Parameter k as nd numbers, one for all or one each, at least `least`; one error tensor for all. */
static bool numbers(const wf_call *c, int k, int nd, int64_t least, int64_t *v, weft_tensor **error)
{
    if (*error)
        return false;
    if (HAS(k) && N(k) != 1 && N(k) != nd) {
        *error = wf_tensor_error(CTX, WEFT_E_VALUE, "%s: %s has %d entries, expected 1 or %d", c->op->name, c->op->params[k].name, N(k), nd);
        return false;
    }
    for (int i = 0; HAS(k) && i < nd; i++) {
        v[i] = V(k)[N(k) == 1 ? 0 : i];
        if (v[i] < least) {
            *error = wf_tensor_error(CTX, WEFT_E_VALUE, "%s: %s is %lld, expected at least %lld", c->op->name, c->op->params[k].name, (long long)v[i],
                                     (long long)least);
            return false;
        }
    }
    return true;
}

static int64_t positive(const wf_call *c, int k, weft_tensor **error)
{
    if (I(k) < 1 && !*error)
        *error = wf_tensor_error(CTX, WEFT_E_VALUE, "%s: %s is %lld, expected at least 1", c->op->name, c->op->params[k].name, (long long)I(k));
    return I(k);
}

typedef weft_tensor *convolution(weft_tensor *, weft_tensor *, const weft_conv_opts *);
/* input, weight, bias, stride, padding, dilation, groups */
static weft_tensor *conv(const wf_call *c, convolution *f, int nd)
{
    weft_conv_opts o = {.bias = T(2)};
    weft_tensor *error = NULL;
    numbers(c, 3, nd, 1, o.stride, &error);
    if (S(4) && strcmp(S(4), "same") == 0)
        o.pad = WEFT_CONV_PAD_SAME;
    else if (S(4) && strcmp(S(4), "valid") == 0)
        o.pad = WEFT_CONV_PAD_VALID;
    else if (S(4))
        error = wf_tensor_error(CTX, WEFT_E_VALUE, "%s: padding is \"%.20s\", not same or valid", c->op->name, S(4));
    else
        numbers(c, 4, nd, 0, o.padding, &error);
    numbers(c, 5, nd, 1, o.dilation, &error);
    o.groups = positive(c, 6, &error);
    return error ? error : f(T(0), T(1), &o);
}

/* input, weight, bias, stride, padding, output_padding, groups, dilation */
static weft_tensor *conv_transposed(const wf_call *c, convolution *f, int nd)
{
    weft_conv_opts o = {.bias = T(2)};
    weft_tensor *error = NULL;
    numbers(c, 3, nd, 1, o.stride, &error);
    numbers(c, 4, nd, 0, o.padding, &error);
    numbers(c, 5, nd, 0, o.output_padding, &error);
    o.groups = positive(c, 6, &error);
    numbers(c, 7, nd, 1, o.dilation, &error);
    return error ? error : f(T(0), T(1), &o);
}

static int causal_conv(const wf_call *c)
{
    weft_causal_conv1d_opts o = {.bias = T(2), .state = T(3), .silu = strcmp(S(4), "silu") == 0, .final_state = B(5) ? &OUT[1] : NULL};
    if (!o.silu && strcmp(S(4), "none") != 0) {
        OUT[0] = wf_tensor_error(CTX, WEFT_E_VALUE, "causal_conv1d: activation is \"%.20s\", not none or silu", S(4));
        return 1;
    }
    OUT[0] = weft_causal_conv1d(T(0), T(1), &o);
    return B(5) ? 2 : 1;
}

/* kernel_size, dilation, padding, stride in the order of torch.nn.functional.unfold, from parameter k on */
static weft_tensor *window_options(const wf_call *c, int k, int64_t *kernel, weft_window_opts *o)
{
    weft_tensor *error = NULL;
    numbers(c, k, 2, 1, kernel, &error);
    numbers(c, k + 1, 2, 1, o->dilation, &error);
    numbers(c, k + 2, 2, 0, o->padding, &error);
    numbers(c, k + 3, 2, 1, o->stride, &error);
    return error;
}
static weft_tensor *im2col(const wf_call *c)
{
    int64_t kernel[2] = {1, 1};
    weft_window_opts o = {0};
    weft_tensor *error = window_options(c, 1, kernel, &o);
    return error ? error : weft_im2col(T(0), kernel, &o);
}
static weft_tensor *fold(const wf_call *c)
{
    int64_t kernel[2] = {1, 1}, size[2];
    weft_window_opts o = {0};
    weft_tensor *error = window_options(c, 2, kernel, &o);
    numbers(c, 1, 2, 1, size, &error);
    return error ? error : weft_fold(T(0), size, kernel, &o);
}

typedef weft_tensor *pooling(weft_tensor *, const int64_t *, const weft_pool_opts *);
/* input, kernel_size, stride, padding, dilation, ceil_mode, return_indices */
static int max_pool(const wf_call *c, pooling *f, int nd)
{
    int64_t kernel[3] = {0};
    weft_pool_opts o = {.ceil_mode = B(5), .indices = B(6) ? &OUT[1] : NULL};
    weft_tensor *error = NULL;
    numbers(c, 1, nd, 1, kernel, &error);
    if (N(2) > 0)
        numbers(c, 2, nd, 1, o.stride, &error);
    numbers(c, 3, nd, 0, o.padding, &error);
    numbers(c, 4, nd, 1, o.dilation, &error);
    OUT[0] = error ? error : f(T(0), kernel, &o);
    return B(6) && !error ? 2 : 1;
}
/* input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override */
static weft_tensor *avg_pool(const wf_call *c, pooling *f, int nd)
{
    int64_t kernel[3] = {0};
    weft_pool_opts o = {.ceil_mode = B(4), .exclude_padding = !B(5)};
    weft_tensor *error = NULL;
    numbers(c, 1, nd, 1, kernel, &error);
    if (N(2) > 0)
        numbers(c, 2, nd, 1, o.stride, &error);
    numbers(c, 3, nd, 0, o.padding, &error);
    if (nd > 1 && HAS(6))
        o.divisor_override = I(6);
    if (nd > 1 && HAS(6) && I(6) == 0 && !error)
        error = wf_tensor_error(CTX, WEFT_E_VALUE, "%s: divisor_override is 0", c->op->name);
    return error ? error : f(T(0), kernel, &o);
}

static int adaptive_max(const wf_call *c, weft_tensor *(*f)(weft_tensor *, const int64_t *, weft_tensor **), int nd)
{
    int64_t size[3] = {0};
    weft_tensor *error = NULL;
    numbers(c, 1, nd, -1, size, &error);
    OUT[0] = error ? error : f(T(0), size, B(2) ? &OUT[1] : NULL);
    return B(2) && !error ? 2 : 1;
}
static weft_tensor *adaptive_avg(const wf_call *c, weft_tensor *(*f)(weft_tensor *, const int64_t *), int nd)
{
    int64_t size[3] = {0};
    weft_tensor *error = NULL;
    numbers(c, 1, nd, -1, size, &error);
    return error ? error : f(T(0), size);
}

/* input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias */
static weft_tensor *interpolate(const wf_call *c)
{
    static const struct {
        const char *name;
        int nd; /* 0: any */
        weft_interpolation mode;
    } modes[] = {{"nearest", 0, WEFT_NEAREST}, {"nearest-exact", 0, WEFT_NEAREST_EXACT}, {"linear", 1, WEFT_LINEAR},
                 {"bilinear", 2, WEFT_LINEAR}, {"trilinear", 3, WEFT_LINEAR}, {"bicubic", 2, WEFT_CUBIC}, {"area", 0, WEFT_AREA}};
    int nd = weft_tensor_rank(T(0)) - 2;
    int64_t size[3] = {0};
    weft_tensor *error = NULL;
    weft_interpolate_opts o = {.align_corners = HAS(4) && B(4), .recompute_scale = HAS(5) && B(5)};
    if (weft_tensor_status(T(0)) != WEFT_OK || nd < 1 || nd > 3)
        return weft_interpolate(T(0), &o);
    size_t m = 0;
    while (m < WF_COUNT(modes) && strcmp(S(3), modes[m].name) != 0)
        m++;
    if (m == WF_COUNT(modes) || (modes[m].nd && modes[m].nd != nd))
        return wf_tensor_error(CTX, WEFT_E_VALUE, "%s: mode \"%.20s\" for %d spatial axes", c->op->name, S(3), nd);
    if (HAS(1) == HAS(2))
        return wf_tensor_error(CTX, WEFT_E_VALUE, "%s: size and scale_factor: expected one of the two", c->op->name);
    if (HAS(4) && modes[m].mode != WEFT_LINEAR && modes[m].mode != WEFT_CUBIC)
        return wf_tensor_error(CTX, WEFT_E_VALUE, "%s: align_corners with mode \"%s\"", c->op->name, S(3));
    if (B(6))
        return wf_tensor_error(CTX, WEFT_E_UNSUPPORTED, "%s: there is no antialias", c->op->name);
    if (HAS(2) && N(2) != 1 && N(2) != nd)
        return wf_tensor_error(CTX, WEFT_E_VALUE, "%s: scale_factor has %d entries, expected 1 or %d", c->op->name, N(2), nd);
    o.mode = modes[m].mode;
    numbers(c, 1, nd, 1, size, &error);
    if (HAS(1))
        o.size = size;
    for (int i = 0; HAS(2) && i < nd; i++)
        o.scale[i] = FS(2)[N(2) == 1 ? 0 : i];
    return error ? error : weft_interpolate(T(0), &o);
}

#endif
