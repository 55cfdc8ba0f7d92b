/* model.c - loading and closing: the file says its family, the family reads the numbers, the weights
 * follow. A model is counted: sessions hold it. */
#include "mdl.h"

#include <stdio.h>

static void destroy(weft_model *m)
{
    for (int i = 0; i < MDL_LAYER_ROLE; i++)
        weft_tensor_release(m->weights[i]);
    if (m->layers)
        for (size_t i = 0; i < (size_t)m->config.n_layers * MDL_LAYER_ROLES; i++)
            weft_tensor_release(m->layers[i]);
    weft_free(m->layers);
    weft_free(m->config.freq_factors);
    weft_tokenizer_destroy(m->tokenizer);
    weft_free(m);
}

weft_model *mdl_model_retain(weft_model *m)
{
    atomic_fetch_add(&m->refs, 1);
    return m;
}

void weft_model_close(weft_model *model)
{
    if (model && atomic_fetch_sub(&model->refs, 1) == 1)
        destroy(model);
}

static weft_status configure_gguf(weft_model *m, const weft_file *file)
{
    const char *arch;
    size_t n;
    if (weft_file_meta_str(file, "general.architecture", 0, &arch, &n) != WEFT_OK)
        return weft_fail(WEFT_E_FORMAT, "model: the file has no \"general.architecture\"");
    MDL_TRY(mdl_family_by_gguf(arch, n, &m->family));
    return m->family->config_gguf(file, m->family->gguf, &m->config);
}

static weft_status configure_hf(weft_model *m, const char *config_path)
{
    char arch[128];
    if (!config_path)
        return weft_fail(WEFT_E_VALUE, "model: a safetensors model needs the path of its config.json");
    MDL_TRY(mdl_hf_architecture(config_path, arch, sizeof arch));
    MDL_TRY(mdl_family_by_hf(arch, &m->family));
    return m->family->config_hf(config_path, &m->config);
}

/* A vocabulary is optional, but one that is there must be readable: silence would hide why text fails. */
static weft_status take_tokenizer(weft_model *m, const weft_file *file)
{
    weft_meta meta;
    if (weft_file_meta_find(file, "tokenizer.ggml.model", &meta) != WEFT_OK ||
        weft_file_meta_find(file, "tokenizer.ggml.tokens", &meta) != WEFT_OK)
        return WEFT_OK;
    return weft_tokenizer_from_file(file, &m->tokenizer);
}

static weft_status load(weft_model *m, const weft_file *file, const weft_model_opts *opts)
{
    bool hf = strcmp(weft_file_format(file), "safetensors") == 0;
    MDL_TRY(hf ? configure_hf(m, opts ? opts->config_path : NULL) : configure_gguf(m, file));
    if (!hf)
        MDL_TRY(take_tokenizer(m, file));
    return mdl_weights_load(m, file, hf, opts);
}

weft_status weft_model_load_file(weft_ctx *ctx, weft_file *file, const weft_model_opts *opts, weft_model **out)
{
    if (!ctx || !file || !out)
        return weft_fail(WEFT_E_CONTEXT, "model_load: ctx, file and out must not be NULL");
    weft_model *m = weft_realloc(NULL, sizeof *m);
    if (!m)
        return WEFT_E_OOM;
    memset(m, 0, sizeof *m);
    atomic_init(&m->refs, 1);
    m->ctx = ctx;
    m->act_int8 = opts && opts->act_int8;
    weft_status st = load(m, file, opts);
    if (st != WEFT_OK) {
        destroy(m);
        return st;
    }
    *out = m;
    return WEFT_OK;
}

/* "dir/model.safetensors" -> "dir/config.json"; NULL on OOM. */
static char *config_beside(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t dir = slash ? (size_t)(slash - path) + 1 : 0;
    char *p = weft_realloc(NULL, dir + sizeof "config.json");
    if (p) {
        memcpy(p, path, dir);
        memcpy(p + dir, "config.json", sizeof "config.json");
    }
    return p;
}

weft_status weft_model_load(weft_ctx *ctx, const char *path, const weft_model_opts *opts, weft_model **out)
{
    weft_model_opts o = opts ? *opts : (weft_model_opts){0};
    weft_file *file = NULL;
    char *beside = NULL;
    if (!ctx || !path || !out)
        return weft_fail(WEFT_E_CONTEXT, "model_load: ctx, path and out must not be NULL");
    MDL_TRY(weft_file_open(path, &file));
    weft_status st = WEFT_OK;
    if (!o.config_path) {
        beside = config_beside(path);
        o.config_path = beside;
        if (!beside)
            st = WEFT_E_OOM;
    }
    if (st == WEFT_OK)
        st = weft_model_load_file(ctx, file, &o, out);
    weft_free(beside);
    weft_file_close(file);
    return st;
}

weft_status weft_model_describe(const weft_model *m, weft_model_info *out)
{
    if (!m || !out)
        return weft_fail(WEFT_E_CONTEXT, "model_describe: model and out must not be NULL");
    const mdl_config *c = &m->config;
    *out = (weft_model_info){
        .n_layers = c->n_layers, .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .width = c->width,
        .ffn_width = c->ffn_width, .vocab_size = c->vocab_size, .rope_dim = c->rope_dim, .context_length = c->context_length,
        .n_params = m->n_params, .weight_bytes = m->weight_bytes,
    };
    snprintf(out->architecture, sizeof out->architecture, "%s", m->family->name);
    return WEFT_OK;
}

const weft_tokenizer *weft_model_tokenizer(const weft_model *model)
{
    return model ? model->tokenizer : NULL;
}
