/* decoder.c - the llama block recorded as tensor operations. Shapes: T tokens, C width, H query heads,
 * G key and value heads, D head dim, S capacity of the cache.
 *
 * Nothing here depends on the position: it enters as a run-time scalar, so every step of one length
 * records the same structure and finds its plan in the cache. Moving between [T, H*D] and [1, H, T, D]
 * is views only. */
#include "mdl.h"

#include <stdio.h>

static weft_tensor *weight(const weft_model *m, int layer, mdl_role role)
{
    return m->layers[(size_t)layer * MDL_LAYER_ROLES + (size_t)(role - MDL_LAYER_ROLE)];
}

static weft_tensor *linear(const weft_model *m, weft_tensor *x, weft_tensor *w, weft_tensor *bias, weft_activation act)
{
    weft_linear_opts opts = {.bias = bias, .activation = act,
                             .act_int8 = m->act_int8 && weft_dtype_is_quantised(weft_tensor_dtype(w))};
    return weft_linear(x, w, &opts);
}

/* [T, n*D] -> [1, n, T, D] */
static weft_tensor *split_heads(weft_tensor *x, int64_t t, int n, int d)
{
    static const int swap[4] = {0, 2, 1, 3};
    if (t == 1)
        return weft_reshape(x, 4, (const int64_t[]){1, n, 1, d});
    return weft_permute(weft_reshape(x, 4, (const int64_t[]){1, t, n, d}), swap);
}

/* [1, n, T, D] -> [T, n*D] */
static weft_tensor *join_heads(weft_tensor *x, int64_t t, int n, int d)
{
    static const int swap[4] = {0, 2, 1, 3};
    return weft_reshape(t == 1 ? x : weft_permute(x, swap), 2, (const int64_t[]){t, (int64_t)n * d});
}

/* Values that weft_tap can show: "blk.3.attn_out", or without a block "embed", "norm", "logits". */
static weft_tensor *named(weft_tensor *x, int layer, const char *what)
{
    char name[48];
    if (!weft_tapped(weft_tensor_ctx(x)))
        return x;
    snprintf(name, sizeof name, "blk.%d.%s", layer, what);
    return weft_named(x, layer < 0 ? what : name);
}

static weft_tensor *rope(const mdl_config *c, weft_tensor *x, weft_tensor *position)
{
    if (c->rope_dim == 0)
        return x;
    return weft_rope(x, &(weft_rope_opts){.dim = c->rope_dim, .base = c->rope_base, .scale = c->rope_scale,
                                          .interleaved = c->rope_interleaved, .freq_factors = c->freq_factors, .offset = position});
}

static weft_tensor *cache(weft_tensor *old, weft_tensor *rows, const mdl_step *s)
{
    if (s->kv_dtype != WEFT_DTYPE_F32)
        rows = weft_cast(rows, s->kv_dtype);
    return weft_slice_update(old, rows, 2, s->position);
}

static weft_tensor *attention(const weft_model *m, int layer, weft_tensor *x, const mdl_step *s)
{
    const mdl_config *c = &m->config;
    int64_t t = s->n;
    weft_tensor *q = linear(m, x, weight(m, layer, MDL_Q), weight(m, layer, MDL_Q_BIAS), WEFT_ACT_NONE);
    weft_tensor *k = linear(m, x, weight(m, layer, MDL_K), weight(m, layer, MDL_K_BIAS), WEFT_ACT_NONE);
    weft_tensor *v = linear(m, x, weight(m, layer, MDL_V), weight(m, layer, MDL_V_BIAS), WEFT_ACT_NONE);
    q = rope(c, split_heads(q, t, c->n_heads, c->head_dim), s->position);    /* [1, H, T, D] */
    k = rope(c, split_heads(k, t, c->n_kv_heads, c->head_dim), s->position); /* [1, G, T, D] */
    v = split_heads(v, t, c->n_kv_heads, c->head_dim);
    k = s->kv_out[2 * layer] = cache(s->kv_in[2 * layer], k, s);             /* [1, G, S, D] */
    v = s->kv_out[2 * layer + 1] = cache(s->kv_in[2 * layer + 1], v, s);
    named(q, layer, "q");
    weft_tensor *y = weft_scaled_dot_product_attention(q, k, v, &(weft_attention_opts){.is_causal = true, .kv_len = s->length});
    named(y, layer, "attn");
    return linear(m, join_heads(y, t, c->n_heads, c->head_dim), weight(m, layer, MDL_O), weight(m, layer, MDL_O_BIAS),
                  WEFT_ACT_NONE);
}

static weft_tensor *feed_forward(const weft_model *m, int layer, weft_tensor *x)
{
    weft_tensor *gate = linear(m, x, weight(m, layer, MDL_GATE), NULL, WEFT_ACT_SILU); /* [T, F] */
    weft_tensor *up = linear(m, x, weight(m, layer, MDL_UP), NULL, WEFT_ACT_NONE);
    named(gate, layer, "gate");
    named(up, layer, "up");
    return linear(m, weft_mul(gate, up), weight(m, layer, MDL_DOWN), NULL, WEFT_ACT_NONE);
}

weft_tensor *mdl_llama_block(const weft_model *m, int layer, weft_tensor *x, const mdl_step *step)
{
    float eps = m->config.norm_eps;
    weft_tensor *h = weft_rms_norm(x, weight(m, layer, MDL_ATTN_NORM), eps, -1);
    x = weft_add(x, named(attention(m, layer, named(h, layer, "attn_norm"), step), layer, "attn_out"));
    h = weft_rms_norm(x, weight(m, layer, MDL_FFN_NORM), eps, -1);
    return named(weft_add(x, named(feed_forward(m, layer, named(h, layer, "ffn_norm")), layer, "ffn_out")), layer, "out");
}

weft_tensor *mdl_llama_build(const weft_model *m, const mdl_step *step)
{
    weft_tensor *x = weft_embedding(m->weights[MDL_EMBED], step->ids); /* [T, C] */
    if (weft_tensor_dtype(x) != WEFT_DTYPE_F32)
        x = weft_cast(x, WEFT_DTYPE_F32);
    named(x, -1, "embed");
    for (int layer = 0; layer < m->config.n_layers; layer++)
        x = mdl_llama_block(m, layer, x, step);
    return x;
}

weft_tensor *mdl_logits(const weft_model *m, weft_tensor *hidden)
{
    weft_tensor *out = m->weights[MDL_OUTPUT] ? m->weights[MDL_OUTPUT] : m->weights[MDL_EMBED];
    weft_tensor *h = named(weft_rms_norm(hidden, m->weights[MDL_OUT_NORM], m->config.norm_eps, -1), -1, "norm");
    return named(linear(m, h, out, NULL, WEFT_ACT_NONE), -1, "logits"); /* [T, vocab] */
}
