/* weights.c - tensors of a file to the device, by the names of the family's table, shapes checked
 * against the configuration; a tensor that no row names is refused. Matrices keep the type they have in the file; vectors become f32. The
 * pages of each tensor are given back as soon as it is on the device. */
#include "mdl.h"

#include <stdio.h>

typedef struct loader {
    weft_model *m;
    const weft_file *file;
    bool hf;
    const weft_model_opts *opts;
    uint64_t done, total;
    void *buffer; /* for files that are not mapped */
} loader;

static int64_t extent(const mdl_config *c, mdl_dim d)
{
    switch (d) {
    case MDL_DIM_WIDTH: return c->width;
    case MDL_DIM_VOCAB: return c->vocab_size;
    case MDL_DIM_HEADS: return (int64_t)c->n_heads * c->head_dim;
    case MDL_DIM_KV: return (int64_t)c->n_kv_heads * c->head_dim;
    case MDL_DIM_FFN: return c->ffn_width;
    case MDL_DIM_HALF_ROPE: return c->rope_dim / 2;
    case MDL_DIM_NONE: break;
    }
    return 0;
}

static weft_status check_shape(const loader *l, const mdl_tensor_name *row, const weft_file_tensor *t)
{
    char have[160] = "";
    size_t used = 0;
    int64_t rows = extent(&l->m->config, row->rows), cols = extent(&l->m->config, row->cols);
    bool matrix = row->rows != MDL_DIM_NONE;
    if (matrix ? t->rank == 2 && t->shape[0] == rows && t->shape[1] == cols : t->rank == 1 && t->shape[0] == cols)
        return WEFT_OK;
    for (int i = 0; i < t->rank && used < sizeof have - 24; i++)
        used += (size_t)snprintf(have + used, sizeof have - used, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    if (matrix)
        return weft_fail(WEFT_E_FORMAT, "model: tensor \"%s\" is [%s], expected [%lld, %lld]", t->name, have, (long long)rows,
                         (long long)cols);
    return weft_fail(WEFT_E_FORMAT, "model: tensor \"%s\" is [%s], expected [%lld]", t->name, have, (long long)cols);
}

static weft_status report(loader *l)
{
    if (l->opts && l->opts->progress && !l->opts->progress(l->opts->progress_user, "load", l->done, l->total))
        return weft_fail(WEFT_E_CANCELLED, "model: loading was cancelled at %llu of %llu bytes", (unsigned long long)l->done,
                         (unsigned long long)l->total);
    return WEFT_OK;
}

/* The bytes of a tensor: mapped, or read into the loader's buffer. */
static weft_status bytes_of(loader *l, const weft_file_tensor *t, const void **out)
{
    *out = weft_file_tensor_map(l->file, t);
    if (*out)
        return WEFT_OK;
    if (t->size_bytes > SIZE_MAX)
        return weft_fail(WEFT_E_OOM, "model: tensor \"%s\" of %llu bytes is too large", t->name, (unsigned long long)t->size_bytes);
    void *p = weft_realloc(l->buffer, t->size_bytes ? (size_t)t->size_bytes : 1);
    if (!p)
        return WEFT_E_OOM;
    l->buffer = p;
    *out = p;
    return weft_file_read(l->file, t->offset, p, (size_t)t->size_bytes);
}

/* The types that matrices are multiplied in; other plain types are converted. */
static bool is_matrix_type(weft_dtype d)
{
    return d == WEFT_DTYPE_F32 || d == WEFT_DTYPE_F16 || d == WEFT_DTYPE_BF16 || weft_dtype_is_quantised(d);
}

static weft_status upload(loader *l, const mdl_tensor_name *row, const weft_file_tensor *t, weft_tensor **out)
{
    const void *data;
    if (!t->known)
        return weft_fail(WEFT_E_UNSUPPORTED, "model: tensor \"%s\" is %s; known: F32, F16, BF16, F64, Q8_0, Q4_0, Q4_1", t->name,
                         t->type_name);
    if (!weft_dtype_is_float(t->dtype) && !weft_dtype_is_quantised(t->dtype))
        return weft_fail(WEFT_E_UNSUPPORTED, "model: tensor \"%s\" holds integers (%s)", t->name, t->type_name);
    MDL_TRY(bytes_of(l, t, &data));
    weft_tensor *x = weft_tensor_from(l->m->ctx, t->dtype, t->rank, t->shape, data);
    bool convert = row->rows == MDL_DIM_NONE ? t->dtype != WEFT_DTYPE_F32 : !is_matrix_type(t->dtype);
    if (convert)
        x = weft_cast(x, WEFT_DTYPE_F32);
    weft_status st = weft_eval(&x, 1);
    if (st != WEFT_OK)
        return st;
    *out = weft_keep(x);
    l->m->n_params += weft_tensor_numel(x);
    l->m->weight_bytes += weft_tensor_nbytes(x);
    return WEFT_OK;
}

/* ---- names ---- */

/* The tensor of a role, *present false where an optional one is absent. */
static weft_status find_one(const loader *l, const mdl_tensor_name *row, int layer, weft_file_tensor *out, bool *present)
{
    char name[128];
    const char *pattern = l->hf ? row->hf : row->gguf;
    *present = false;
    if (!pattern || (row->role == MDL_OUTPUT && l->hf && l->m->config.tied))
        return WEFT_OK; /* tied: the configuration says that the embedding is meant, whatever the file holds */
    const char *slot = strstr(pattern, "%d");
    if (slot)
        snprintf(name, sizeof name, "%.*s%d%s", (int)(slot - pattern), pattern, layer, slot + 2);
    else
        snprintf(name, sizeof name, "%s", pattern);
    if (weft_file_tensor_find(l->file, name, out) == WEFT_OK)
        *present = true;
    else if (row->required || (row->role == MDL_OUTPUT && !l->m->config.tied))
        return weft_fail(WEFT_E_FORMAT, "model: tensor \"%s\" is missing", name);
    return WEFT_OK;
}

/* Whether `name` is the pattern with a layer of the model in place of "%d". */
static bool matches(const char *pattern, const char *name, int n_layers)
{
    const char *slot = strstr(pattern, "%d");
    if (!slot)
        return strcmp(pattern, name) == 0;
    size_t before = (size_t)(slot - pattern);
    if (strncmp(pattern, name, before) != 0)
        return false;
    const char *digits = name + before;
    size_t n = strspn(digits, "0123456789");
    if (n < 1 || n > 7 || (n > 1 && digits[0] == '0') || strcmp(digits + n, slot + 2) != 0)
        return false;
    int layer = 0;
    for (size_t i = 0; i < n; i++)
        layer = 10 * layer + (digits[i] - '0');
    return layer < n_layers;
}

/* A tensor that the graph does not need: the output matrix beside a tied embedding is matched by its own
 * name, and the inverse frequencies that some writers of checkpoints store follow from the configuration. */
static bool is_redundant(const char *name)
{
    static const char end[] = "rotary_emb.inv_freq";
    size_t n = strlen(name), k = sizeof end - 1;
    return n >= k && strcmp(name + n - k, end) == 0;
}

static bool is_named(const loader *l, const char *name)
{
    const mdl_family *f = l->m->family;
    for (int i = 0; i < f->n_names; i++) {
        const char *pattern = l->hf ? f->names[i].hf : f->names[i].gguf;
        if (pattern && matches(pattern, name, l->m->config.n_layers))
            return true;
    }
    return false;
}

/* Every tensor that the model needs is there, and every one that is there is needed: with a bias or a norm
 * left out the logits would be wrong without a word. Also counts the bytes to load. */
static weft_status check_names(loader *l)
{
    const mdl_family *f = l->m->family;
    weft_file_tensor t, first = {0};
    int64_t n = weft_file_tensor_count(l->file), n_unknown = 0;
    for (int layer = 0; layer < l->m->config.n_layers; layer++)
        for (int i = 0; i < f->n_names; i++) {
            bool present;
            if (layer > 0 && f->names[i].role < MDL_LAYER_ROLE)
                continue;
            MDL_TRY(find_one(l, &f->names[i], layer, &t, &present));
            if (present)
                l->total += t.size_bytes;
        }
    for (int64_t i = 0; i < n; i++) {
        MDL_TRY(weft_file_tensor_at(l->file, i, &t));
        if (!is_named(l, t.name) && !is_redundant(t.name) && n_unknown++ == 0)
            first = t;
    }
    if (n_unknown)
        return weft_fail(WEFT_E_UNSUPPORTED, "model: tensor \"%s\" has no place in a %s model of %d layers (%lld of %lld tensors have none)",
                         first.name, f->name, l->m->config.n_layers, (long long)n_unknown, (long long)n);
    return WEFT_OK;
}

/* ---- loading ---- */

static weft_status load_one(loader *l, const mdl_tensor_name *row, int layer, weft_tensor **out)
{
    weft_file_tensor t;
    bool present;
    *out = NULL;
    MDL_TRY(find_one(l, row, layer, &t, &present));
    if (!present)
        return WEFT_OK;
    MDL_TRY(check_shape(l, row, &t));
    weft_scope *scope = weft_scope_begin(l->m->ctx);
    if (!scope)
        return WEFT_E_OOM;
    weft_status st = upload(l, row, &t, out);
    weft_scope_end(scope);
    if (st != WEFT_OK)
        return st;
    weft_file_release(l->file, &t);
    l->done += t.size_bytes;
    return report(l);
}

/* rope_freqs.weight is read to the host: it shapes the angle table, not the graph. */
static weft_status take_freq_factors(weft_model *m)
{
    weft_tensor *t = m->weights[MDL_ROPE_FREQS];
    if (!t || weft_tensor_numel(t) == 0)
        return WEFT_OK;
    size_t n_bytes = sizeof(float) * (size_t)weft_tensor_numel(t);
    float *f = weft_realloc(NULL, n_bytes);
    if (!f)
        return WEFT_E_OOM;
    weft_status st = weft_read(t, f, n_bytes);
    for (int i = 0; st == WEFT_OK && i < m->config.rope_dim / 2; i++)
        if (!isfinite(f[i]) || f[i] == 0)
            st = weft_fail(WEFT_E_FORMAT, "model: \"rope_freqs.weight\"[%d] is %g", i, f[i]);
    if (st != WEFT_OK) {
        weft_free(f);
        return st;
    }
    weft_free(m->config.freq_factors);
    m->config.freq_factors = f;
    return WEFT_OK;
}

static weft_status load_all(loader *l)
{
    weft_model *m = l->m;
    const mdl_family *f = m->family;
    MDL_TRY(check_names(l));
    MDL_TRY(report(l));
    for (int i = 0; i < f->n_names; i++)
        if (f->names[i].role < MDL_LAYER_ROLE)
            MDL_TRY(load_one(l, &f->names[i], 0, &m->weights[f->names[i].role]));
    for (int layer = 0; layer < m->config.n_layers; layer++)
        for (int i = 0; i < f->n_names; i++)
            if (f->names[i].role >= MDL_LAYER_ROLE)
                MDL_TRY(load_one(l, &f->names[i], layer,
                                 &m->layers[(size_t)layer * MDL_LAYER_ROLES + (f->names[i].role - MDL_LAYER_ROLE)]));
    return take_freq_factors(m);
}

weft_status mdl_weights_load(weft_model *m, const weft_file *file, bool hf, const weft_model_opts *opts)
{
    loader l = {.m = m, .file = file, .hf = hf, .opts = opts};
    int64_t n = weft_file_tensor_count(file);
    if (m->config.n_layers > n)
        return weft_fail(WEFT_E_FORMAT, "model: %d layers, but the file has only %lld tensors", m->config.n_layers, (long long)n);
    size_t n_layer = (size_t)m->config.n_layers * MDL_LAYER_ROLES;
    m->layers = weft_realloc(NULL, n_layer * sizeof *m->layers);
    if (!m->layers)
        return WEFT_E_OOM;
    memset(m->layers, 0, n_layer * sizeof *m->layers);
    weft_status st = load_all(&l);
    weft_free(l.buffer);
    return st == WEFT_OK ? weft_ctx_sync(m->ctx) : st; /* an upload that failed late belongs to the load */
}
