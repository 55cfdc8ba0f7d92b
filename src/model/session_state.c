/* session_state.c - a session as bytes: a header with the model's shape, the ids, then the used rows of
 * each cache. The random draws need no state of their own: they depend on seed and position alone. */
#include "mdl.h"

#define STATE_MAGIC 0x53544657u /* "WFTS", little-endian */
#define STATE_VERSION 2u

typedef struct state_header {
    uint32_t magic, version, n_layers, n_kv_heads, head_dim, vocab_size, kv_dtype, checksum;
    uint64_t length, size_bytes;
} state_header;

static size_t cache_bytes(const weft_session *s, weft_dtype dtype, int64_t length)
{
    const mdl_config *c = &s->model->config;
    return (size_t)length * (size_t)c->n_kv_heads * (size_t)c->head_dim * weft_dtype_block_bytes(dtype);
}

/* FNV-1a over 64-bit words folded to 32 bits; the field of the checksum itself counts as 0. */
static uint32_t checksum(state_header h, const uint8_t *rest, size_t n)
{
    uint64_t hash = 0xcbf29ce484222325u, word;
    uint8_t head[sizeof h];
    h.checksum = 0;
    memcpy(head, &h, sizeof h);
    for (size_t i = 0; i < sizeof h + n; i += sizeof word) {
        word = 0;
        for (size_t j = i; j < i + sizeof word && j < sizeof h + n; j++)
            word |= (uint64_t)(j < sizeof h ? head[j] : rest[j - sizeof h]) << (8 * (j - i));
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 32;
    }
    return (uint32_t)(hash ^ hash >> 32);
}

/* Bytes of a state, or 0 when they do not fit in size_t. */
static uint64_t state_bytes(const weft_session *s, weft_dtype dtype, uint64_t length)
{
    const mdl_config *c = &s->model->config;
    uint64_t row = (uint64_t)c->n_kv_heads * (uint64_t)c->head_dim * weft_dtype_block_bytes(dtype), n;
    if (__builtin_mul_overflow(row, 2 * (uint64_t)c->n_layers, &row) || __builtin_add_overflow(row, sizeof(int32_t), &row) ||
        __builtin_mul_overflow(row, length, &n) || __builtin_add_overflow(n, sizeof(state_header), &n) || n > SIZE_MAX)
        return 0;
    return n;
}

static weft_status read_cache(weft_session *s, weft_tensor *cache, void *dst)
{
    weft_scope *scope = weft_scope_begin(s->model->ctx);
    if (!scope)
        return WEFT_E_OOM;
    weft_status st = weft_read(weft_slice(cache, 2, 0, s->length, 1), dst, cache_bytes(s, s->kv_dtype, s->length));
    weft_scope_end(scope);
    return st;
}

static weft_status refresh(weft_session *s)
{
    if (!s->stale)
        return WEFT_OK;
    /* Recording a step rebuilds; the step itself is dropped. */
    weft_scope *scope = weft_scope_begin(s->model->ctx);
    if (!scope)
        return WEFT_E_OOM;
    weft_status st = mdl_step_record(s, s->history, 1, MDL_WANT_CACHE, NULL);
    weft_scope_end(scope);
    mdl_step_abort(s);
    return st;
}

weft_status weft_session_save(weft_session *s, void **data, size_t *size_bytes)
{
    if (!s || !data || !size_bytes)
        return weft_fail(WEFT_E_CONTEXT, "session_save: session, data and size_bytes must not be NULL");
    const mdl_config *c = &s->model->config;
    uint64_t n = state_bytes(s, s->kv_dtype, (uint64_t)s->length);
    if (n == 0)
        return weft_fail(WEFT_E_OOM, "session_save: the state of %lld tokens is too large", (long long)s->length);
    if (s->length > 0)
        MDL_TRY(refresh(s));
    uint8_t *p = weft_realloc(NULL, (size_t)n);
    if (!p)
        return WEFT_E_OOM;
    state_header h = {STATE_MAGIC, STATE_VERSION, (uint32_t)c->n_layers, (uint32_t)c->n_kv_heads, (uint32_t)c->head_dim,
                      (uint32_t)c->vocab_size, (uint32_t)s->kv_dtype, 0, (uint64_t)s->length, n};
    size_t at = sizeof h, step = cache_bytes(s, s->kv_dtype, s->length);
    memcpy(p, &h, sizeof h);
    memcpy(p + at, s->history, (size_t)s->length * sizeof *s->history);
    at += (size_t)s->length * sizeof *s->history;
    weft_status st = WEFT_OK;
    for (int i = 0; st == WEFT_OK && s->length > 0 && i < 2 * c->n_layers; i++, at += step)
        st = read_cache(s, s->kv[i], p + at);
    if (st != WEFT_OK) {
        weft_free(p);
        return st;
    }
    h.checksum = checksum(h, p + sizeof h, (size_t)n - sizeof h);
    memcpy(p, &h, sizeof h);
    *data = p;
    *size_bytes = (size_t)n;
    return WEFT_OK;
}

void weft_state_free(void *data)
{
    weft_free(data);
}

static weft_status check_header(const weft_session *s, const state_header *h, size_t size_bytes)
{
    const mdl_config *c = &s->model->config;
    if (h->magic != STATE_MAGIC || h->version != STATE_VERSION)
        return weft_fail(WEFT_E_FORMAT, "session_restore: magic 0x%08x version %u, expected 0x%08x version %u", h->magic, h->version,
                         STATE_MAGIC, STATE_VERSION);
    if (h->n_layers != (uint32_t)c->n_layers || h->n_kv_heads != (uint32_t)c->n_kv_heads ||
        h->head_dim != (uint32_t)c->head_dim || h->vocab_size != (uint32_t)c->vocab_size)
        return weft_fail(WEFT_E_VALUE,
                         "session_restore: the state has %u layers, %u heads of %u, vocabulary %u; the model %d, %d of %d, %d",
                         h->n_layers, h->n_kv_heads, h->head_dim, h->vocab_size, c->n_layers, c->n_kv_heads, c->head_dim,
                         c->vocab_size);
    if (h->kv_dtype != WEFT_DTYPE_F32 && h->kv_dtype != WEFT_DTYPE_F16)
        return weft_fail(WEFT_E_FORMAT, "session_restore: cache type %u is not known", h->kv_dtype);
    if (h->length > (uint64_t)s->capacity)
        return weft_fail(WEFT_E_VALUE, "session_restore: the state has %llu tokens, the context %lld", (unsigned long long)h->length,
                         (long long)s->capacity);
    if (h->size_bytes != size_bytes || state_bytes(s, (weft_dtype)h->kv_dtype, h->length) != size_bytes)
        return weft_fail(WEFT_E_FORMAT, "session_restore: the state should have %llu bytes, got %zu",
                         (unsigned long long)state_bytes(s, (weft_dtype)h->kv_dtype, h->length), size_bytes);
    return WEFT_OK;
}

/* A cache of zeros becomes one that starts with the saved rows. */
static weft_status fill_cache(weft_session *s, weft_tensor **cache, weft_dtype dtype, int64_t length, const void *rows)
{
    const mdl_config *c = &s->model->config;
    weft_ctx *ctx = s->model->ctx;
    weft_scope *scope = weft_scope_begin(ctx);
    if (!scope)
        return WEFT_E_OOM;
    weft_tensor *src = weft_tensor_from(ctx, dtype, 4, (const int64_t[]){1, c->n_kv_heads, length, c->head_dim}, rows);
    if (dtype != s->kv_dtype)
        src = weft_cast(src, s->kv_dtype);
    weft_tensor *filled = weft_keep(weft_slice_update(*cache, src, 2, weft_scalar_i32(ctx, 0)));
    weft_scope_end(scope);
    weft_tensor_release(*cache);
    *cache = filled;
    return weft_eval(cache, 1);
}

weft_status weft_session_restore(weft_session *s, const void *data, size_t size_bytes)
{
    state_header h;
    if (!s || !data)
        return weft_fail(WEFT_E_CONTEXT, "session_restore: session and data must not be NULL");
    if (size_bytes < sizeof h)
        return weft_fail(WEFT_E_FORMAT, "session_restore: %zu bytes are no state", size_bytes);
    memcpy(&h, data, sizeof h);
    MDL_TRY(check_header(s, &h, size_bytes));
    int64_t length = (int64_t)h.length;
    const uint8_t *p = (const uint8_t *)data + sizeof h;
    uint32_t sum = checksum(h, p, size_bytes - sizeof h);
    if (sum != h.checksum)
        return weft_fail(WEFT_E_FORMAT, "session_restore: checksum 0x%08x, the state says 0x%08x: it is damaged", sum, h.checksum);
    for (int64_t i = 0; i < length; i++) {
        int32_t id;
        memcpy(&id, p + (size_t)i * sizeof id, sizeof id);
        if (id < 0 || id >= s->model->config.vocab_size)
            return weft_fail(WEFT_E_FORMAT, "session_restore: id %d at %lld is outside the vocabulary", id, (long long)i);
    }
    const uint8_t *rows = p + (size_t)length * sizeof(int32_t);
    size_t step = cache_bytes(s, (weft_dtype)h.kv_dtype, length);
    MDL_TRY(mdl_caches_create(s, s->next));
    for (int i = 0; length > 0 && i < 2 * s->model->config.n_layers; i++) {
        weft_status st = fill_cache(s, &s->next[i], (weft_dtype)h.kv_dtype, length, rows + step * (size_t)i);
        if (st != WEFT_OK) {
            mdl_step_abort(s);
            return st;
        }
    }
    mdl_caches_release(s, s->kv);
    memcpy(s->kv, s->next, 2 * (size_t)s->model->config.n_layers * sizeof *s->kv);
    memset(s->next, 0, 2 * (size_t)s->model->config.n_layers * sizeof *s->next);
    memcpy(s->history, p, (size_t)length * sizeof *s->history);
    s->length = length;
    s->stale = false;
    return WEFT_OK;
}
