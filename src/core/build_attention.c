/* build_attention.c - the node of scaled dot-product attention; compose_networks_attention.c is its builder.
 *
 * The node's result is stored [B, Tq, Hq, D], time before heads, and handed out through a permuted view:
 * joining the heads again after attention is then a free reshape.
 */
#include "build.h"

#include <math.h>

typedef struct attention {
    wf_arg q, k, v, mask, kv_len, slopes, sinks;
    wf_view room_k, room_v, room_mask, room_len;
    int64_t B, Hq, Tq, Tk, D, E;
} attention;

static weft_status operand(const char *name, const weft_tensor *t)
{
    weft_dtype dtype = (weft_dtype)t->node->dtype;
    if (dtype > WEFT_DTYPE_BF16)
        return wf_fail(WEFT_E_DTYPE, "scaled_dot_product_attention: %s is %s, expected f32, f16 or bf16", name,
                       weft_dtype_name(dtype));
    if (t->view.rank != 4)
        return wf_fail(WEFT_E_SHAPE, "scaled_dot_product_attention: %s has rank %d, expected [B, H, T, D]", name,
                       t->view.rank);
    return WEFT_OK;
}

static weft_status check_shapes(const weft_tensor *q, const weft_tensor *k, const weft_tensor *v)
{
    const int64_t *sq = q->view.shape, *sk = k->view.shape, *sv = v->view.shape;
    char tq[200], tk[200], tv[200];
    wf_view_format(&q->view, tq, sizeof tq);
    wf_view_format(&k->view, tk, sizeof tk);
    wf_view_format(&v->view, tv, sizeof tv);
    if (memcmp(sk, sv, 3 * sizeof *sk) != 0)
        return wf_fail(WEFT_E_SHAPE, "scaled_dot_product_attention: k %s and v %s differ", tk, tv);
    if (sq[0] != sk[0] || sq[3] != sk[3])
        return wf_fail(WEFT_E_SHAPE, "scaled_dot_product_attention: batch or head dimension differs: q %s, k %s", tq, tk);
    return wf_fail(WEFT_E_SHAPE, "scaled_dot_product_attention: %lld query heads are no multiple of %lld key heads",
                   (long long)sq[1], (long long)sk[1]);
}

static bool shapes_fit(const int64_t *q, const int64_t *k, const int64_t *v)
{
    for (int i = 0; i < 3; i++)
        if (k[i] != v[i])
            return false;
    bool heads = k[1] == 0 ? q[1] == 0 : q[1] % k[1] == 0;
    return q[0] == k[0] && q[3] == k[3] && heads;
}

static weft_status mask_operand(attention *a, const weft_tensor *mask)
{
    weft_dtype dtype = (weft_dtype)mask->node->dtype;
    if (dtype != WEFT_DTYPE_BOOL && dtype > WEFT_DTYPE_F64)
        return wf_fail(WEFT_E_DTYPE, "scaled_dot_product_attention: mask is %s, expected bool or a float",
                       weft_dtype_name(dtype));
    a->mask = wf_arg_of(mask);
    if (dtype == WEFT_DTYPE_F64)
        WF_TRY(wf_arg_cast(mask->ctx, &a->mask, WEFT_DTYPE_F32, &a->room_mask));
    wf_view expanded;
    WF_TRY(wf_view_expand("scaled_dot_product_attention: mask", a->mask.view, 4,
                          (int64_t[]){a->B, a->Hq, a->Tq, a->Tk}, &expanded));
    a->room_mask = expanded;
    a->mask.view = &a->room_mask;
    return WEFT_OK;
}

static weft_status prepare(weft_ctx *ctx, attention *a, weft_tensor *q, weft_tensor *k, weft_tensor *v,
                           const weft_attention_opts *opts)
{
    WF_TRY(operand("q", q));
    WF_TRY(operand("k", k));
    WF_TRY(operand("v", v));
    if (!shapes_fit(q->view.shape, k->view.shape, v->view.shape))
        return check_shapes(q, k, v);
    a->B = q->view.shape[0];
    a->Hq = q->view.shape[1];
    a->Tq = q->view.shape[2];
    a->Tk = k->view.shape[2];
    a->D = q->view.shape[3];
    a->E = v->view.shape[3];
    a->q = wf_arg_of(q);
    a->k = wf_arg_of(k);
    a->v = wf_arg_of(v);
    if (k->node->dtype != v->node->dtype) {
        weft_dtype both;
        WF_TRY(weft_dtype_promote((weft_dtype)k->node->dtype, (weft_dtype)v->node->dtype, &both));
        WF_TRY(wf_arg_cast(ctx, &a->k, both, &a->room_k));
        WF_TRY(wf_arg_cast(ctx, &a->v, both, &a->room_v));
    }
    if (opts && !isfinite(opts->scale))
        return wf_fail(WEFT_E_VALUE, "scaled_dot_product_attention: scale is %g", (double)opts->scale);
    if (opts && opts->mask)
        WF_TRY(mask_operand(a, opts->mask));
    if (opts && opts->alibi_slopes)
        a->slopes = wf_arg_of(opts->alibi_slopes);
    if (opts && opts->sinks)
        a->sinks = wf_arg_of(opts->sinks);
    if (opts && opts->kv_len) {
        a->kv_len = wf_arg_of(opts->kv_len);
        WF_TRY(wf_arg_rank0_i32("scaled_dot_product_attention", "kv_len", ctx, &a->kv_len, &a->room_len));
    }
    return WEFT_OK;
}

static int32_t bound_of(int64_t keys) { return (int32_t)WF_MIN(keys, INT32_MAX); }

/* NULL on OOM. *result is the view [B, Hq, Tq, E] of what is stored [B, Tq, Hq, E]. */
static wf_node *attend(weft_ctx *ctx, const attention *a, const weft_attention_opts *opts, weft_dtype dtype,
                       wf_view *result)
{
    const wf_arg *inputs[7] = {&a->q, &a->k, &a->v};
    const wf_arg *const more[4] = {&a->mask, &a->kv_len, &a->slopes, &a->sinks};
    int n_in = 3;
    for (int i = 0; i < 4; i++)
        if (more[i]->node)
            inputs[n_in++] = more[i];
    wf_node *n = wf_node_new(ctx, WF_OP_SDPA, dtype, n_in, 4, (int64_t[]){a->B, a->Tq, a->Hq, a->E});
    if (!n)
        return NULL;
    for (int i = 0; i < n_in; i++)
        wf_node_set_input(n, i, inputs[i]->node, inputs[i]->view);
    n->attrs.sdpa.scale = opts && opts->scale != 0 ? opts->scale : a->D ? 1.0f / sqrtf((float)a->D) : 1.0f;
    n->attrs.sdpa.causal = opts && opts->is_causal;
    n->attrs.sdpa.has_mask = a->mask.node != NULL;
    n->attrs.sdpa.has_kv_len = a->kv_len.node != NULL;
    n->attrs.sdpa.has_slopes = a->slopes.node != NULL;
    n->attrs.sdpa.has_sinks = a->sinks.node != NULL;
    n->attrs.sdpa.softcap = opts ? opts->softcap : 0;
    if (opts && opts->has_window && opts->window_left >= 0) {
        n->attrs.sdpa.has_left = 1;
        n->attrs.sdpa.left = bound_of(opts->window_left);
    }
    if (opts && opts->has_window && opts->window_right >= 0) {
        n->attrs.sdpa.has_right = 1;
        n->attrs.sdpa.right = bound_of(opts->window_right);
    }
    wf_view_contiguous("scaled_dot_product_attention", 4, n->shape, result); /* wf_node_new has counted the elements */
    int64_t extent = result->shape[1], stride = result->strides[1];
    result->shape[1] = result->shape[2];
    result->strides[1] = result->strides[2];
    result->shape[2] = extent;
    result->strides[2] = stride;
    return n;
}

weft_tensor *wf_attention_node(weft_tensor *q, weft_tensor *k, weft_tensor *v, const weft_attention_opts *opts)
{
    weft_tensor *in[7] = {q, k, v}, *r;
    weft_tensor *const more[4] = {opts ? opts->mask : NULL, opts ? opts->kv_len : NULL, opts ? opts->alibi_slopes : NULL, opts ? opts->sinks : NULL};
    int n_in = 3;
    for (int i = 0; i < 4; i++)
        if (more[i])
            in[n_in++] = more[i];
    if (!wf_enter("scaled_dot_product_attention", n_in, in, &r))
        return r;
    weft_ctx *ctx = q->ctx;
    attention a;
    a.k.node = a.v.node = a.mask.node = a.kv_len.node = a.slopes.node = a.sinks.node = NULL;
    weft_status st = prepare(ctx, &a, q, k, v, opts);
    wf_view view;
    wf_node *n = NULL;
    if (st == WEFT_OK && !(n = attend(ctx, &a, opts, (weft_dtype)q->node->dtype, &view)))
        st = WEFT_E_OOM;
    if (st != WEFT_OK) { /* casts that became no input */
        wf_node *fresh[4] = {a.k.node, a.v.node, a.mask.node, a.kv_len.node};
        for (int i = 0; i < 4; i++) {
            bool again = false;
            for (int j = 0; j < i; j++)
                again |= fresh[j] == fresh[i];
            if (!again)
                wf_node_sink(fresh[i]);
        }
    }
    return wf_leave(ctx, st == WEFT_OK ? wf_tensor_new(ctx, n, &view) : wf_tensor_error_last(ctx, st));
}
