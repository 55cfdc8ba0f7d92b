/* compose_convolution.c - convolutions written over views and matrix products.
 *
 * conv: pad, view the windows, and multiply [O, C K] by the windows as columns [C K, positions]. A product takes
 * matrices with one stride an axis, which overlapping windows are not, so a copy of them is recorded; the CPU's product
 * reads through it and the padding (unfold.c in compile), other devices make it. A kernel of extent 1 with
 * stride 1 needs no copy, and a depthwise one multiplies and sums the view itself. Transposed: the product first, then its
 * columns are summed where windows overlap (wf_fold_windows).
 */
#include "compose_convolution.h"

typedef struct conv {
    const char *who;
    int nd;
    int64_t B, C, O, groups;
    int64_t in[WF_SPATIAL], size[WF_SPATIAL], stride[WF_SPATIAL], dilation[WF_SPATIAL], low[WF_SPATIAL], high[WF_SPATIAL],
        out[WF_SPATIAL];
} conv;

static const weft_conv_opts no_opts;

/* ---- options ---- */

static weft_status read_opts(conv *c, const weft_conv_opts *o, bool transposed)
{
    c->groups = o->groups ? o->groups : 1;
    if (c->groups < 1)
        return wf_fail(WEFT_E_VALUE, "%s: groups is %lld", c->who, (long long)c->groups);
    if ((unsigned)o->pad > WEFT_CONV_PAD_VALID || (transposed && o->pad != WEFT_CONV_PAD_LIST))
        return wf_fail(WEFT_E_VALUE, "%s: pad is %d", c->who, (int)o->pad);
    for (int i = 0; i < c->nd; i++) {
        c->stride[i] = o->stride[i] ? o->stride[i] : 1;
        c->dilation[i] = o->dilation[i] ? o->dilation[i] : 1;
        c->low[i] = c->high[i] = o->pad == WEFT_CONV_PAD_LIST ? o->padding[i] : 0;
        if (c->stride[i] < 1 || c->dilation[i] < 1 || c->low[i] < 0)
            return wf_fail(WEFT_E_VALUE, "%s: stride %lld, dilation %lld, padding %lld of axis %d", c->who, (long long)c->stride[i],
                           (long long)c->dilation[i], (long long)c->low[i], i);
        if (o->pad == WEFT_CONV_PAD_SAME && c->stride[i] != 1)
            return wf_fail(WEFT_E_VALUE, "%s: padding \"same\" with stride %lld of axis %d, expected 1", c->who, (long long)c->stride[i], i);
    }
    return WEFT_OK;
}

static weft_status check_operands(conv *c, const weft_tensor *x, const weft_tensor *w, const weft_tensor *bias, bool transposed)
{
    char tx[200], tw[200];
    wf_view_format(&x->view, tx, sizeof tx);
    wf_view_format(&w->view, tw, sizeof tw);
    WF_TRY(wf_require_float(c->who, w));
    if (w->view.rank != c->nd + 2)
        return wf_fail(WEFT_E_SHAPE, "%s: weight is %s, expected rank %d", c->who, tw, c->nd + 2);
    c->B = x->view.shape[0];
    c->C = x->view.shape[1];
    int64_t first = w->view.shape[0], second = w->view.shape[1], want;
    if (transposed) {
        c->O = wf_reach(second, c->groups, 0);
        if (first != c->C)
            return wf_fail(WEFT_E_SHAPE, "%s: weight %s takes %lld channels, input %s has %lld", c->who, tw, (long long)first, tx, (long long)c->C);
    } else {
        c->O = first;
        want = wf_reach(second, c->groups, 0);
        if (want < 0)
            return wf_fail(WEFT_E_SHAPE, "%s: %lld groups of %lld channels are too many", c->who, (long long)c->groups, (long long)second);
        if (want != c->C)
            return wf_fail(WEFT_E_SHAPE, "%s: weight %s with %lld groups takes %lld channels, input %s has %lld", c->who, tw, (long long)c->groups,
                           (long long)want, tx, (long long)c->C);
    }
    if (c->O < 0)
        return wf_fail(WEFT_E_SHAPE, "%s: %lld groups of %lld channels are too many", c->who, (long long)c->groups, (long long)second);
    if (c->O % c->groups || c->C % c->groups)
        return wf_fail(WEFT_E_SHAPE, "%s: %lld groups do not divide %lld channels in and %lld out", c->who, (long long)c->groups, (long long)c->C,
                       (long long)c->O);
    if (bias) {
        WF_TRY(wf_require_float(c->who, bias));
        if (bias->view.rank != 1 || bias->view.shape[0] != c->O) {
            char tb[200];
            wf_view_format(&bias->view, tb, sizeof tb);
            return wf_fail(WEFT_E_SHAPE, "%s: bias is %s, expected [%lld]", c->who, tb, (long long)c->O);
        }
    }
    for (int i = 0; i < c->nd; i++) {
        c->in[i] = x->view.shape[2 + i];
        c->size[i] = w->view.shape[2 + i];
        if (c->size[i] < 1)
            return wf_fail(WEFT_E_SHAPE, "%s: weight %s has no kernel", c->who, tw);
    }
    return WEFT_OK;
}

/* What a kernel spans: dilation (size - 1) + 1. */
static int64_t span(const conv *c, int i) { return wf_reach(c->dilation[i], c->size[i] - 1, 1); }

static weft_status plan_forward(conv *c, const weft_conv_opts *o)
{
    for (int i = 0; i < c->nd; i++) {
        int64_t reach = span(c, i);
        if (o->pad == WEFT_CONV_PAD_SAME && reach > 0) {
            c->low[i] = (reach - 1) / 2;
            c->high[i] = reach - 1 - c->low[i];
        }
        int64_t room = wf_reach(1, c->in[i], c->low[i]);
        room = room < 0 ? -1 : wf_reach(1, room, c->high[i]);
        if (reach < 0 || room < 0)
            return wf_fail(WEFT_E_SHAPE, "%s: axis %d: extent %lld, padding %lld, kernel %lld and dilation %lld are too large together", c->who, i,
                           (long long)c->in[i], (long long)c->low[i], (long long)c->size[i], (long long)c->dilation[i]);
        if (room < reach)
            return wf_fail(WEFT_E_SHAPE, "%s: axis %d: a kernel of %lld with dilation %lld spans %lld, the padded input %lld", c->who, i,
                           (long long)c->size[i], (long long)c->dilation[i], (long long)reach, (long long)room);
        c->out[i] = (room - reach) / c->stride[i] + 1;
    }
    return WEFT_OK;
}

static weft_status plan_transposed(conv *c, const weft_conv_opts *o)
{
    for (int i = 0; i < c->nd; i++) {
        int64_t more = o->output_padding[i], reach = span(c, i);
        if (more < 0 || (more >= c->stride[i] && more >= c->dilation[i]))
            return wf_fail(WEFT_E_VALUE, "%s: output_padding %lld of axis %d is not below stride %lld or dilation %lld", c->who, (long long)more, i,
                           (long long)c->stride[i], (long long)c->dilation[i]);
        int64_t end = reach < 0 ? -1 : c->in[i] > 0 ? wf_reach(c->in[i] - 1, c->stride[i], reach) : reach - c->stride[i];
        if (end > WF_MAX_NUMEL / 4 || c->low[i] > WF_MAX_NUMEL / 4 || (c->out[i] = end + more - 2 * c->low[i]) < 1 || reach < 0)
            return wf_fail(WEFT_E_SHAPE, "%s: axis %d: extent %lld, kernel %lld, stride %lld, padding %lld leave no result", c->who, i,
                           (long long)c->in[i], (long long)c->size[i], (long long)c->stride[i], (long long)c->low[i]);
    }
    return WEFT_OK;
}

/* ---- the forms ---- */

static int64_t product(const int64_t *v, int n)
{
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        if (!wf_mul_i64(p, v[i], &p))
            return -1; /* one extent of -1 too many: reshape says so */
    return p;
}

static weft_tensor *shaped(const conv *c, weft_tensor *y)
{
    int64_t shape[2 + WF_SPATIAL] = {c->B, c->O};
    memcpy(shape + 2, c->out, sizeof *shape * (size_t)c->nd);
    return weft_reshape(y, 2 + c->nd, shape);
}

static weft_tensor *windows(const conv *c, weft_tensor *x)
{
    for (int i = 0; i < c->nd; i++)
        x = wf_pad_axis(x, 2 + i, c->low[i], c->high[i], 0);
    return wf_windows(x, 2, c->nd, c->out, c->stride, c->size, c->dilation);
}

/* [B, C, 1, out .., kernel ..] times [C, O / C, 1 .., kernel ..], summed over the kernel. */
static weft_tensor *depthwise(const conv *c, weft_tensor *x, weft_tensor *w)
{
    int64_t shape[WEFT_MAX_RANK] = {c->C, c->O / c->C};
    int axes[WF_SPATIAL], nd = c->nd, lead = c->O == c->C ? 1 : 2;
    x = windows(c, x);
    if (lead == 2)
        x = weft_unsqueeze(x, 2);
    for (int i = 0; i < nd; i++) {
        shape[lead + i] = 1;
        shape[lead + nd + i] = c->size[i];
        axes[i] = 1 + lead + nd + i;
    }
    return shaped(c, weft_sum(weft_mul(x, weft_reshape(w, lead + 2 * nd, shape)), axes, nd, false));
}

static weft_tensor *columns(const conv *c, weft_tensor *x)
{
    int order[WEFT_MAX_RANK] = {0, 1}, nd = c->nd;
    for (int i = 0; i < nd; i++) {
        order[2 + i] = 2 + nd + i;
        order[2 + nd + i] = 2 + i;
    }
    int64_t K = c->C / c->groups * product(c->size, nd), P = product(c->out, nd);
    return weft_reshape(weft_permute(windows(c, x), order), 4, (int64_t[]){c->B, c->groups, K, P});
}

static weft_tensor *general(const conv *c, weft_tensor *x, weft_tensor *w)
{
    int64_t K = c->C / c->groups * product(c->size, c->nd);
    weft_tensor *wm = weft_reshape(w, 3, (int64_t[]){c->groups, c->O / c->groups, K});
    return shaped(c, weft_matmul(wm, columns(c, x)));
}

static weft_tensor *add_bias(const conv *c, weft_tensor *y, weft_tensor *bias)
{
    int64_t shape[1 + WF_SPATIAL] = {c->O, 1, 1, 1};
    return bias ? weft_add(y, weft_reshape(bias, 1 + c->nd, shape)) : y;
}

static weft_dtype result_dtype(const weft_tensor *x, const weft_tensor *w)
{
    weft_dtype d = weft_tensor_dtype(x);
    weft_dtype_promote(d, weft_tensor_dtype(w), &d); /* floats, which promote */
    return d;
}

/* ---- entry ---- */

static weft_tensor *begin(conv *c, weft_tensor *x, weft_tensor *w, weft_conv_opts *o, bool transposed, bool *batched)
{
    x = wf_spatial_input(c->who, x, c->nd, true, batched);
    if (x->status != WEFT_OK)
        return x;
    weft_status st = read_opts(c, o, transposed);
    if (st == WEFT_OK)
        st = check_operands(c, x, w, o->bias, transposed);
    if (st == WEFT_OK)
        st = transposed ? plan_transposed(c, o) : plan_forward(c, o);
    return st == WEFT_OK ? x : wf_tensor_error_last(x->ctx, st);
}

static weft_tensor *run_forward(const char *who, int nd, weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts)
{
    conv c = {.who = who, .nd = nd};
    weft_conv_opts o = opts ? *opts : no_opts;
    bool batched = true;
    x = begin(&c, x, w, &o, false, &batched);
    if (x->status != WEFT_OK)
        return x;
    weft_dtype dtype = result_dtype(x, w);
    x = weft_cast(x, dtype);
    w = weft_cast(w, dtype);
    bool apart = c.C > 0 && c.groups == c.C && (nd < WF_SPATIAL || c.O == c.C);
    weft_tensor *y = apart ? depthwise(&c, x, w) : general(&c, x, w);
    return wf_spatial_result(weft_cast(add_bias(&c, y, o.bias), dtype), batched);
}

static weft_tensor *run_transposed(const char *who, int nd, weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts)
{
    conv c = {.who = who, .nd = nd};
    weft_conv_opts o = opts ? *opts : no_opts;
    bool batched = true;
    x = begin(&c, x, w, &o, true, &batched);
    if (x->status != WEFT_OK)
        return x;
    weft_dtype dtype = result_dtype(x, w);
    x = wf_widened(weft_cast(x, dtype)); /* sums of columns are not rounded before the last */
    w = wf_widened(weft_cast(w, dtype));
    int64_t K = c.O / c.groups * product(c.size, nd), P = product(c.in, nd), shape[WEFT_MAX_RANK] = {c.B, c.O};
    x = weft_reshape(x, 4, (int64_t[]){c.B, c.groups, c.C / c.groups, P});
    w = weft_transpose(weft_reshape(w, 3, (int64_t[]){c.groups, c.C / c.groups, K}), 1, 2);
    for (int i = 0; i < nd; i++) {
        shape[2 + i] = c.size[i];
        shape[2 + nd + i] = c.in[i];
    }
    weft_tensor *cols = weft_reshape(weft_matmul(w, x), 2 + 2 * nd, shape);
    weft_tensor *y = wf_fold_windows(cols, nd, c.out, c.size, c.in, c.stride, c.dilation, c.low);
    return wf_spatial_result(weft_cast(add_bias(&c, y, o.bias), dtype), batched);
}

typedef weft_tensor *form(const char *, int, weft_tensor *, weft_tensor *, const weft_conv_opts *);
static weft_tensor *run(form *f, const char *who, int nd, weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts)
{
    wf_composite c;
    if (!wf_composite_begin(&c, who, 2, WF_INPUTS(x, w, opts ? opts->bias : NULL)))
        return c.failed;
    return wf_composite_end(&c, f(who, nd, x, w, opts));
}

weft_tensor *weft_conv1d(weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts) { return run(run_forward, "conv1d", 1, x, w, opts); }
weft_tensor *weft_conv2d(weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts) { return run(run_forward, "conv2d", 2, x, w, opts); }
weft_tensor *weft_conv3d(weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts) { return run(run_forward, "conv3d", 3, x, w, opts); }
weft_tensor *weft_conv_transpose1d(weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts)
{
    return run(run_transposed, "conv_transpose1d", 1, x, w, opts);
}
weft_tensor *weft_conv_transpose2d(weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts)
{
    return run(run_transposed, "conv_transpose2d", 2, x, w, opts);
}
weft_tensor *weft_conv_transpose3d(weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts)
{
    return run(run_transposed, "conv_transpose3d", 3, x, w, opts);
}

/* ---- causal ---- */

static weft_status check_causal(const weft_tensor *x, const weft_tensor *w, const weft_tensor *bias, const weft_tensor *state)
{
    static const char *who = "causal_conv1d";
    char tx[200], tw[200];
    wf_view_format(&x->view, tx, sizeof tx);
    wf_view_format(&w->view, tw, sizeof tw);
    WF_TRY(wf_require_float(who, x));
    WF_TRY(wf_require_float(who, w));
    if (x->view.rank != 3 || w->view.rank != 2 || w->view.shape[0] != x->view.shape[1] || w->view.shape[1] < 1)
        return wf_fail(WEFT_E_SHAPE, "%s: expected input [B, C, T] and weight [C, K]: input %s, weight %s", who, tx, tw);
    int64_t C = x->view.shape[1], K = w->view.shape[1];
    if (bias)
        WF_TRY(wf_require_float(who, bias));
    if (bias && (bias->view.rank != 1 || bias->view.shape[0] != C))
        return wf_fail(WEFT_E_SHAPE, "%s: bias of %lld elements for %lld channels", who, (long long)wf_view_numel(&bias->view), (long long)C);
    if (!state)
        return WEFT_OK;
    WF_TRY(wf_require_float(who, state));
    const int64_t *s = state->view.shape;
    if (state->view.rank == 3 && s[0] == x->view.shape[0] && s[1] == C && s[2] == K - 1)
        return WEFT_OK;
    wf_view_format(&state->view, tw, sizeof tw);
    return wf_fail(WEFT_E_SHAPE, "%s: state is %s, expected [%lld, %lld, %lld]", who, tw, (long long)x->view.shape[0], (long long)C, (long long)(K - 1));
}

static weft_tensor *causal(weft_tensor *x, weft_tensor *w, const weft_causal_conv1d_opts *o, weft_tensor **state)
{
    weft_status st = check_causal(x, w, o->bias, o->state);
    if (st != WEFT_OK)
        return wf_tensor_error_last(x->ctx, st);
    weft_dtype dtype = weft_tensor_dtype(x);
    int64_t C = weft_tensor_dim(x, 1), T = weft_tensor_dim(x, 2), K = weft_tensor_dim(w, 1), one = 1;
    weft_tensor *parts[2] = {o->state ? weft_cast(o->state, dtype) : x, x};
    weft_tensor *whole = o->state ? weft_cat(parts, 2, 2) : wf_pad_axis(x, 2, K - 1, 0, 0);
    *state = weft_slice(whole, 2, T, WEFT_INDEX_NONE, 1);
    weft_tensor *y = wf_windows(whole, 2, 1, &T, &one, &K, &one);
    y = weft_sum(weft_mul(y, weft_reshape(w, 3, (int64_t[]){C, 1, K})), (int[]){3}, 1, false);
    if (o->bias)
        y = weft_add(y, weft_unsqueeze(o->bias, 1));
    if (o->silu)
        y = weft_silu(y);
    return weft_cast(y, dtype);
}

weft_tensor *weft_causal_conv1d(weft_tensor *x, weft_tensor *w, const weft_causal_conv1d_opts *opts)
{
    weft_causal_conv1d_opts o = {0};
    weft_tensor *state = NULL;
    wf_composite c;
    if (opts)
        o = *opts;
    if (!wf_composite_begin(&c, "causal_conv1d", 2, WF_INPUTS(x, w, o.bias, o.state))) {
        if (o.final_state)
            *o.final_state = wf_error_again(c.failed);
        return c.failed;
    }
    weft_tensor *y = causal(x, w, &o, &state);
    if (o.final_state)
        *o.final_state = wf_composite_give(&c, state ? state : y);
    return wf_composite_end(&c, y);
}

/* ---- columns ---- */

static weft_status read_windows(const char *who, const int64_t *kernel, const weft_window_opts *opts, conv *c)
{
    static const weft_window_opts none;
    const weft_window_opts *o = opts ? opts : &none;
    if (!kernel)
        return wf_fail(WEFT_E_VALUE, "%s: kernel is NULL", who);
    for (int i = 0; i < 2; i++) {
        c->size[i] = kernel[i];
        c->stride[i] = o->stride[i] ? o->stride[i] : 1;
        c->dilation[i] = o->dilation[i] ? o->dilation[i] : 1;
        c->low[i] = c->high[i] = o->padding[i];
        if (c->size[i] < 1 || c->stride[i] < 1 || c->dilation[i] < 1 || c->low[i] < 0)
            return wf_fail(WEFT_E_VALUE, "%s: axis %d: kernel %lld, stride %lld, dilation %lld, padding %lld", who, i, (long long)c->size[i],
                           (long long)c->stride[i], (long long)c->dilation[i], (long long)c->low[i]);
    }
    return WEFT_OK;
}

static weft_tensor *im2col(weft_tensor *x, const int64_t *kernel, const weft_window_opts *opts)
{
    conv c = {.who = "im2col", .nd = 2, .groups = 1};
    bool batched = true;
    x = wf_spatial_input(c.who, x, 2, false, &batched);
    if (x->status != WEFT_OK)
        return x;
    weft_status st = read_windows(c.who, kernel, opts, &c);
    c.B = weft_tensor_dim(x, 0);
    c.C = weft_tensor_dim(x, 1);
    for (int i = 0; i < 2; i++)
        c.in[i] = weft_tensor_dim(x, 2 + i);
    if (st == WEFT_OK)
        st = plan_forward(&c, &no_opts);
    if (st != WEFT_OK)
        return wf_tensor_error_last(x->ctx, st);
    int64_t shape[3] = {c.B, c.C * product(c.size, 2), product(c.out, 2)};
    return wf_spatial_result(weft_reshape(columns(&c, x), 3, shape), batched);
}

static weft_tensor *fold(weft_tensor *x, const int64_t *output_size, const int64_t *kernel, const weft_window_opts *opts)
{
    conv c = {.who = "fold", .nd = 2, .groups = 1};
    bool batched = true;
    x = wf_spatial_input(c.who, x, 1, true, &batched);
    if (x->status != WEFT_OK)
        return x;
    weft_ctx *ctx = x->ctx;
    weft_status st = output_size ? read_windows(c.who, kernel, opts, &c) : wf_fail(WEFT_E_VALUE, "fold: output_size is NULL");
    for (int i = 0; st == WEFT_OK && i < 2; i++) {
        c.in[i] = output_size[i];
        if (c.in[i] < 1)
            st = wf_fail(WEFT_E_VALUE, "fold: output_size %lld of axis %d", (long long)c.in[i], i);
    }
    if (st == WEFT_OK)
        st = plan_forward(&c, &no_opts);
    int64_t K = product(c.size, 2), P = product(c.out, 2), have = weft_tensor_dim(x, 1);
    if (st == WEFT_OK && (K < 1 || have % K || weft_tensor_dim(x, 2) != P))
        st = wf_fail(WEFT_E_SHAPE, "fold: input is [%lld, %lld, %lld], expected a multiple of %lld rows and %lld columns", (long long)weft_tensor_dim(x, 0),
                     (long long)have, (long long)weft_tensor_dim(x, 2), (long long)K, (long long)P);
    if (st != WEFT_OK)
        return wf_tensor_error_last(ctx, st);
    int64_t shape[6] = {weft_tensor_dim(x, 0), have / K, c.size[0], c.size[1], c.out[0], c.out[1]};
    weft_dtype dtype = weft_tensor_dtype(x);
    weft_tensor *y = wf_fold_windows(weft_reshape(wf_widened(x), 6, shape), 2, c.in, c.size, c.out, c.stride, c.dilation, c.low);
    return wf_spatial_result(weft_cast(y, dtype), batched);
}

weft_tensor *weft_im2col(weft_tensor *x, const int64_t *kernel, const weft_window_opts *opts)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "im2col", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, im2col(x, kernel, opts));
}

weft_tensor *weft_fold(weft_tensor *x, const int64_t *output_size, const int64_t *kernel, const weft_window_opts *opts)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "fold", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, fold(x, output_size, kernel, opts));
}
