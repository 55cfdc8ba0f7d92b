/* config.c - a decoder's numbers from GGUF metadata, and the checks that every source must pass. */
#include "mdl.h"

#include <stdio.h>

typedef struct reader {
    const weft_file *file;
    const char *arch;
    char key[128];
} reader;

static const char *key(reader *r, const char *name)
{
    snprintf(r->key, sizeof r->key, "%s.%s", r->arch, name);
    return r->key;
}

static bool has(reader *r, const char *name)
{
    weft_meta meta;
    return weft_file_meta_find(r->file, key(r, name), &meta) == WEFT_OK;
}

/* A whole number, the same in every element when the file gives one a layer. */
static weft_status whole(reader *r, const char *name, int64_t low, int64_t high, int64_t *out)
{
    weft_meta meta;
    int64_t v, other;
    if (weft_file_meta_find(r->file, key(r, name), &meta) != WEFT_OK)
        return weft_fail(WEFT_E_FORMAT, "model: the file has no \"%s\"", r->key);
    if (weft_file_meta_i64(r->file, r->key, 0, &v) != WEFT_OK)
        return weft_fail(WEFT_E_FORMAT, "model: \"%s\" is %s, expected a whole number", r->key, meta.type_name);
    for (uint64_t i = 1; i < meta.count; i++) {
        MDL_TRY(weft_file_meta_i64(r->file, r->key, i, &other));
        if (other != v)
            return weft_fail(WEFT_E_UNSUPPORTED, "model: \"%s\" differs between layers (%lld and %lld)", r->key, (long long)v,
                             (long long)other);
    }
    if (v < low || v > high)
        return weft_fail(WEFT_E_FORMAT, "model: \"%s\" is %lld, expected %lld to %lld", r->key, (long long)v, (long long)low,
                         (long long)high);
    *out = v;
    return WEFT_OK;
}

static weft_status whole_int(reader *r, const char *name, int64_t low, int *out)
{
    int64_t v;
    MDL_TRY(whole(r, name, low, 1 << 24, &v));
    *out = (int)v;
    return WEFT_OK;
}

static weft_status real(reader *r, const char *name, double *out)
{
    double v;
    if (weft_file_meta_f64(r->file, key(r, name), 0, &v) != WEFT_OK)
        return weft_fail(WEFT_E_FORMAT, "model: \"%s\" is missing or no number", r->key);
    if (!isfinite(v) || v <= 0)
        return weft_fail(WEFT_E_FORMAT, "model: \"%s\" is %g, expected a positive number", r->key, v);
    *out = v;
    return WEFT_OK;
}

static weft_status rope_scaling(reader *r, mdl_config *c)
{
    const char *type;
    size_t n;
    double factor = 1;
    if (has(r, "rope.scale_linear")) {
        MDL_TRY(real(r, "rope.scale_linear", &factor));
        c->rope_scale = 1 / factor;
    }
    if (weft_file_meta_str(r->file, key(r, "rope.scaling.type"), 0, &type, &n) != WEFT_OK || (n == 4 && !memcmp(type, "none", 4)))
        return WEFT_OK;
    if (n != 6 || memcmp(type, "linear", 6) != 0)
        return weft_fail(WEFT_E_UNSUPPORTED, "model: rope scaling \"%.*s\" is not known; known: none, linear", (int)(n < 40 ? n : 40),
                         type);
    MDL_TRY(real(r, "rope.scaling.factor", &factor));
    c->rope_scale = 1 / factor;
    return WEFT_OK;
}

/* Rows of the embedding: the vocabulary that the matrices really have. */
static weft_status vocabulary(const weft_file *file, mdl_config *c)
{
    weft_file_tensor t;
    if (weft_file_tensor_find(file, "token_embd.weight", &t) != WEFT_OK)
        return weft_fail(WEFT_E_FORMAT, "model: tensor \"token_embd.weight\" is missing");
    if (t.rank != 2 || t.shape[0] < 1 || t.shape[0] > INT32_MAX)
        return weft_fail(WEFT_E_FORMAT, "model: tensor \"token_embd.weight\" is no matrix");
    c->vocab_size = (int)t.shape[0];
    return WEFT_OK;
}

weft_status mdl_config_gguf(const weft_file *file, const char *arch, mdl_config *out)
{
    reader r = {.file = file, .arch = arch};
    mdl_config c = {.rope_interleaved = true, .rope_base = 10000, .rope_scale = 1, .tied = true};
    double eps;
    MDL_TRY(vocabulary(file, &c));
    MDL_TRY(whole_int(&r, "block_count", 1, &c.n_layers));
    MDL_TRY(whole_int(&r, "embedding_length", 1, &c.width));
    MDL_TRY(whole_int(&r, "feed_forward_length", 1, &c.ffn_width));
    MDL_TRY(whole_int(&r, "attention.head_count", 1, &c.n_heads));
    c.n_kv_heads = c.n_heads;
    if (has(&r, "attention.head_count_kv"))
        MDL_TRY(whole_int(&r, "attention.head_count_kv", 1, &c.n_kv_heads));
    MDL_TRY(whole(&r, "context_length", 1, INT32_MAX, &c.context_length));
    MDL_TRY(real(&r, "attention.layer_norm_rms_epsilon", &eps));
    c.norm_eps = (float)eps;
    if (has(&r, "attention.key_length")) {
        int value_length;
        MDL_TRY(whole_int(&r, "attention.key_length", 1, &c.head_dim));
        value_length = c.head_dim;
        if (has(&r, "attention.value_length"))
            MDL_TRY(whole_int(&r, "attention.value_length", 1, &value_length));
        if (value_length != c.head_dim)
            return weft_fail(WEFT_E_UNSUPPORTED, "model: keys of %d and values of %d components differ", c.head_dim, value_length);
    } else if (c.width % c.n_heads == 0) {
        c.head_dim = c.width / c.n_heads;
    } else {
        return weft_fail(WEFT_E_FORMAT, "model: width %d is not a multiple of %d heads", c.width, c.n_heads);
    }
    c.rope_dim = c.head_dim;
    if (has(&r, "rope.dimension_count"))
        MDL_TRY(whole_int(&r, "rope.dimension_count", 0, &c.rope_dim));
    if (has(&r, "rope.freq_base"))
        MDL_TRY(real(&r, "rope.freq_base", &c.rope_base));
    MDL_TRY(rope_scaling(&r, &c));
    if (has(&r, "expert_count")) {
        int64_t experts;
        MDL_TRY(whole(&r, "expert_count", 0, 1 << 20, &experts));
        if (experts)
            return weft_fail(WEFT_E_UNSUPPORTED, "model: mixtures of experts (%lld) are not supported", (long long)experts);
    }
    MDL_TRY(mdl_config_check(&c));
    *out = c;
    return WEFT_OK;
}

weft_status mdl_config_check(const mdl_config *c)
{
    if (c->n_heads % c->n_kv_heads != 0)
        return weft_fail(WEFT_E_FORMAT, "model: %d query heads are not a multiple of %d key and value heads", c->n_heads,
                         c->n_kv_heads);
    if (c->rope_dim < 0 || c->rope_dim % 2 || c->rope_dim > c->head_dim)
        return weft_fail(WEFT_E_FORMAT, "model: rope dimension %d must be even and at most the head's %d", c->rope_dim, c->head_dim);
    if ((int64_t)c->n_heads * c->head_dim > INT32_MAX)
        return weft_fail(WEFT_E_FORMAT, "model: %d heads of %d components are too many", c->n_heads, c->head_dim);
    return WEFT_OK;
}
