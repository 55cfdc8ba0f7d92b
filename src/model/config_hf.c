/* config_hf.c - a decoder's numbers from the config.json beside a safetensors file. */
#include "mdl.h"

#include <jansson.h>
#include <stdio.h>

static weft_status open_json(const char *path, json_t **out)
{
    json_error_t err;
    json_t *root = json_load_file(path, 0, &err);
    if (!root && err.line < 0)
        return weft_fail(WEFT_E_IO, "model: cannot read %s: %s", path, err.text);
    if (!root)
        return weft_fail(WEFT_E_FORMAT, "model: %s line %d: %s", path, err.line, err.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return weft_fail(WEFT_E_FORMAT, "model: %s is no JSON object", path);
    }
    *out = root;
    return WEFT_OK;
}

weft_status mdl_hf_architecture(const char *path, char *out, size_t size_bytes)
{
    json_t *root;
    MDL_TRY(open_json(path, &root));
    const char *name = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
    weft_status st = WEFT_OK;
    if (name)
        snprintf(out, size_bytes, "%s", name);
    else
        st = weft_fail(WEFT_E_FORMAT, "model: %s names no architecture", path);
    json_decref(root);
    return st;
}

/* An absent (or null) number leaves *v as it is when `required` is false. */
static weft_status real(const json_t *root, const char *key, bool required, double low, double high, double *v)
{
    const json_t *j = json_object_get(root, key);
    if (!j || json_is_null(j))
        return required ? weft_fail(WEFT_E_FORMAT, "model: the configuration has no \"%s\"", key) : WEFT_OK;
    if (!json_is_number(j))
        return weft_fail(WEFT_E_FORMAT, "model: \"%s\" of the configuration is no number", key);
    double x = json_number_value(j);
    if (!(x >= low && x <= high))
        return weft_fail(WEFT_E_FORMAT, "model: \"%s\" of the configuration is %g, expected %g to %g", key, x, low, high);
    *v = x;
    return WEFT_OK;
}

static weft_status whole(const json_t *root, const char *key, bool required, int *v)
{
    double x = *v;
    MDL_TRY(real(root, key, required, 0, 1 << 24, &x));
    if (x != floor(x))
        return weft_fail(WEFT_E_FORMAT, "model: \"%s\" of the configuration is %g, expected a whole number", key, x);
    *v = (int)x;
    return WEFT_OK;
}

/* Llama 3's stretched frequencies: long waves are slowed by `factor`, short ones kept, those between
 * blended (Meta, Llama 3.1, 2024: apply_scaling). */
static weft_status llama3_factors(const json_t *j, mdl_config *c)
{
    double factor = 0, low = 0, high = 0, old = 0;
    MDL_TRY(real(j, "factor", true, 1e-6, 1e9, &factor));
    MDL_TRY(real(j, "low_freq_factor", true, 1e-6, 1e9, &low));
    MDL_TRY(real(j, "high_freq_factor", true, 1e-6, 1e9, &high));
    MDL_TRY(real(j, "original_max_position_embeddings", true, 1, 1e12, &old));
    if (high <= low)
        return weft_fail(WEFT_E_FORMAT, "model: rope high_freq_factor %g is not above low_freq_factor %g", high, low);
    int half = c->rope_dim / 2;
    c->freq_factors = weft_realloc(NULL, sizeof(float) * (size_t)(half ? half : 1));
    if (!c->freq_factors)
        return WEFT_E_OOM;
    for (int i = 0; i < half; i++) {
        double wave = 2 * 3.14159265358979323846 * pow(c->rope_base, 2.0 * i / c->rope_dim);
        double blend = (old / wave - low) / (high - low);
        blend = blend < 0 ? 0 : blend > 1 ? 1 : blend;
        c->freq_factors[i] = (float)(1 / ((1 - blend) / factor + blend));
    }
    return WEFT_OK;
}

static weft_status rope_scaling(const json_t *root, mdl_config *c)
{
    const json_t *j = json_object_get(root, "rope_scaling");
    if (!json_is_object(j))
        j = json_object_get(root, "rope_parameters");
    if (!json_is_object(j))
        return WEFT_OK;
    const char *type = json_string_value(json_object_get(j, "rope_type"));
    if (!type)
        type = json_string_value(json_object_get(j, "type"));
    MDL_TRY(real(j, "rope_theta", false, 1e-6, 1e12, &c->rope_base));
    if (!type || !strcmp(type, "default"))
        return WEFT_OK;
    if (!strcmp(type, "llama3"))
        return llama3_factors(j, c);
    if (strcmp(type, "linear") != 0)
        return weft_fail(WEFT_E_UNSUPPORTED, "model: rope scaling \"%.40s\" is not known; known: default, linear, llama3", type);
    double factor = 1;
    MDL_TRY(real(j, "factor", true, 1e-6, 1e9, &factor));
    c->rope_scale = 1 / factor;
    return WEFT_OK;
}

static weft_status read_config(const json_t *root, mdl_config *c)
{
    double eps = 1e-6, partial = 1, context = 0;
    const char *act = json_string_value(json_object_get(root, "hidden_act"));
    if (act && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        return weft_fail(WEFT_E_UNSUPPORTED, "model: activation \"%.40s\" is not known; known: silu", act);
    MDL_TRY(whole(root, "hidden_size", true, &c->width));
    MDL_TRY(whole(root, "intermediate_size", true, &c->ffn_width));
    MDL_TRY(whole(root, "num_hidden_layers", true, &c->n_layers));
    MDL_TRY(whole(root, "num_attention_heads", true, &c->n_heads));
    MDL_TRY(whole(root, "vocab_size", true, &c->vocab_size));
    c->n_kv_heads = c->n_heads;
    MDL_TRY(whole(root, "num_key_value_heads", false, &c->n_kv_heads));
    MDL_TRY(real(root, "max_position_embeddings", true, 1, INT32_MAX, &context));
    MDL_TRY(real(root, "rms_norm_eps", false, 0, 1, &eps));
    MDL_TRY(real(root, "rope_theta", false, 1e-6, 1e12, &c->rope_base));
    MDL_TRY(real(root, "partial_rotary_factor", false, 0, 1, &partial));
    if (c->width < 1 || c->ffn_width < 1 || c->n_layers < 1 || c->n_heads < 1 || c->n_kv_heads < 1 || c->vocab_size < 1)
        return weft_fail(WEFT_E_FORMAT, "model: a size of the configuration is 0");
    MDL_TRY(whole(root, "head_dim", false, &c->head_dim));
    if (c->head_dim == 0 && c->width % c->n_heads != 0)
        return weft_fail(WEFT_E_FORMAT, "model: width %d is not a multiple of %d heads", c->width, c->n_heads);
    if (c->head_dim == 0)
        c->head_dim = c->width / c->n_heads;
    c->rope_dim = (int)(c->head_dim * partial);
    c->norm_eps = (float)eps;
    c->context_length = (int64_t)context;
    c->tied = json_is_true(json_object_get(root, "tie_word_embeddings"));
    MDL_TRY(mdl_config_check(c));
    return rope_scaling(root, c);
}

weft_status mdl_config_hf(const char *path, mdl_config *out)
{
    json_t *root;
    mdl_config c = {.rope_base = 10000, .rope_scale = 1};
    MDL_TRY(open_json(path, &root));
    weft_status st = read_config(root, &c);
    json_decref(root);
    if (st == WEFT_OK)
        *out = c;
    else
        weft_free(c.freq_factors);
    return st;
}
