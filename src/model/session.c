/* session.c - a conversation: the KV caches, how many tokens they hold, and running more.
 *
 * A step records new cache handles, gives the old ones up (so that the update happens in place) and
 * evaluates. When the evaluation fails the tokens are not counted and the session is as before:
 * rows past `length` are never read. After a cancellation the recorded handles stay, and the next
 * step overwrites what they hold; after any other failure the caches are dropped and rebuilt from the
 * history of ids when they are next needed, so that one failed graph is not evaluated again. */
#include "mdl.h"

static int n_caches(const weft_session *s)
{
    return 2 * s->model->config.n_layers;
}

void mdl_caches_release(const weft_session *s, weft_tensor **kv)
{
    for (int i = 0; i < n_caches(s); i++) {
        weft_tensor_release(kv[i]);
        kv[i] = NULL;
    }
}

weft_status mdl_caches_create(weft_session *s, weft_tensor **kv)
{
    const mdl_config *c = &s->model->config;
    const int64_t shape[4] = {1, c->n_kv_heads, s->capacity, c->head_dim};
    weft_scope *scope = weft_scope_begin(s->model->ctx);
    if (!scope)
        return WEFT_E_OOM;
    for (int i = 0; i < n_caches(s); i++)
        kv[i] = weft_keep(weft_zeros(s->model->ctx, s->kv_dtype, 4, shape));
    weft_scope_end(scope);
    weft_status st = weft_eval(kv, n_caches(s));
    if (st == WEFT_OK)
        st = weft_ctx_sync(s->model->ctx);
    if (st != WEFT_OK)
        mdl_caches_release(s, kv);
    return st;
}

static void free_session(weft_session *s)
{
    if (s->kv)
        mdl_caches_release(s, s->kv);
    if (s->next)
        mdl_caches_release(s, s->next);
    weft_free(s->kv);
    weft_free(s->next);
    weft_free(s->eval);
    weft_free(s->history);
    weft_model_close(s->model);
    weft_free(s);
}

static void *zeroed(size_t count, size_t size_bytes)
{
    size_t n;
    if (__builtin_mul_overflow(count, size_bytes, &n)) {
        weft_fail(WEFT_E_OOM, "session: %zu elements of %zu bytes overflow", count, size_bytes);
        return NULL;
    }
    void *p = weft_realloc(NULL, n ? n : 1);
    if (p)
        memset(p, 0, n);
    return p;
}

weft_status weft_session_create(weft_model *model, const weft_session_opts *opts, weft_session **out)
{
    if (!model || !out)
        return weft_fail(WEFT_E_CONTEXT, "session_create: model and out must not be NULL");
    int64_t capacity = opts && opts->context_length ? opts->context_length : model->config.context_length;
    weft_dtype dtype = opts ? opts->kv_dtype : WEFT_DTYPE_F32;
    if (capacity < 1 || capacity > INT32_MAX)
        return weft_fail(WEFT_E_VALUE, "session_create: context length %lld is not in 1 .. %d", (long long)capacity, INT32_MAX);
    if (dtype != WEFT_DTYPE_F32 && dtype != WEFT_DTYPE_F16)
        return weft_fail(WEFT_E_VALUE, "session_create: the cache can be f32 or f16, not %s", weft_dtype_name(dtype));
    weft_session *s = zeroed(1, sizeof *s);
    if (!s)
        return WEFT_E_OOM;
    s->model = mdl_model_retain(model);
    s->capacity = capacity;
    s->kv_dtype = dtype;
    size_t n = (size_t)n_caches(s);
    s->kv = zeroed(n, sizeof *s->kv);
    s->next = zeroed(n, sizeof *s->next);
    s->eval = zeroed(n + MDL_MAX_OUTPUTS, sizeof *s->eval);
    weft_status st = s->kv && s->next && s->eval ? mdl_caches_create(s, s->kv) : WEFT_E_OOM;
    /* Last, and not filled: nobody reads beyond the length, and a context too long for the device fails above. */
    if (st == WEFT_OK && !(s->history = weft_realloc(NULL, (size_t)capacity * sizeof *s->history)))
        st = WEFT_E_OOM;
    if (st != WEFT_OK) {
        free_session(s);
        return st;
    }
    *out = s;
    return WEFT_OK;
}

void weft_session_destroy(weft_session *session)
{
    if (session)
        free_session(session);
}

int64_t weft_session_length(const weft_session *session)
{
    return session ? session->length : 0;
}

int64_t weft_session_capacity(const weft_session *session)
{
    return session ? session->capacity : 0;
}

/* ---- one step ---- */

static weft_tensor *ids_tensor(weft_ctx *ctx, const int32_t *ids, int64_t n)
{
    static const int64_t one[1] = {1};
    if (n == 1) /* a run-time parameter: the plan of one token serves every token */
        return weft_reshape(weft_scalar_i32(ctx, ids[0]), 1, one);
    return weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, &n, ids);
}

static weft_status record(weft_session *s, const int32_t *ids, int64_t n, mdl_want want, weft_tensor **logits)
{
    weft_ctx *ctx = s->model->ctx;
    mdl_step step = {
        .ids = ids_tensor(ctx, ids, n), .n = n, .kv_dtype = s->kv_dtype, .kv_in = s->kv, .kv_out = s->next,
        .position = weft_scalar_i32(ctx, (int32_t)s->length), .length = weft_scalar_i32(ctx, (int32_t)(s->length + n)),
    };
    weft_tensor *x = s->model->family->build(s->model, &step);
    for (int i = 0; i < n_caches(s); i++)
        s->next[i] = s->next[i] ? weft_keep(s->next[i]) : NULL;
    if (want == MDL_WANT_LAST && n > 1)
        x = weft_slice(x, 0, n - 1, n, 1);
    weft_tensor *y = want == MDL_WANT_CACHE ? x : mdl_logits(s->model, x);
    weft_status st = weft_tensor_status(y);
    if (st != WEFT_OK) {
        st = weft_fail(st, "%s", weft_tensor_message(y));
        mdl_caches_release(s, s->next);
        return st;
    }
    if (want != MDL_WANT_CACHE)
        *logits = y;
    return WEFT_OK;
}

static weft_status rebuild(weft_session *s);

weft_status mdl_step_record(weft_session *s, const int32_t *ids, int64_t n, mdl_want want, weft_tensor **logits)
{
    if (s->stale)
        MDL_TRY(rebuild(s));
    return record(s, ids, n, want, logits);
}

void mdl_step_abort(weft_session *s)
{
    mdl_caches_release(s, s->next);
}

weft_status mdl_step_commit(weft_session *s, const int32_t *ids, int64_t n, weft_tensor *const *outs, int n_outs)
{
    int n_kv = n_caches(s);
    for (int i = 0; i < n_kv; i++) { /* the old handle goes first: an update in place needs it gone */
        weft_tensor_release(s->kv[i]);
        s->kv[i] = s->eval[i] = s->next[i];
        s->next[i] = NULL;
    }
    for (int i = 0; i < n_outs; i++)
        s->eval[n_kv + i] = outs[i];
    weft_status st = weft_eval(s->eval, n_kv + n_outs);
    if (st == WEFT_OK) {
        memcpy(s->history + s->length, ids, (size_t)n * sizeof *ids);
        s->length += n;
    } else if (st != WEFT_E_CANCELLED) {
        mdl_caches_release(s, s->kv);
        s->stale = true;
    }
    return st;
}

static weft_status run_cache_only(weft_session *s, const int32_t *ids, int64_t n)
{
    weft_scope *scope = weft_scope_begin(s->model->ctx);
    if (!scope)
        return WEFT_E_OOM;
    weft_status st = mdl_step_record(s, ids, n, MDL_WANT_CACHE, NULL);
    weft_scope_end(scope);
    return st == WEFT_OK ? mdl_step_commit(s, ids, n, NULL, 0) : st;
}

/* Fresh caches, filled again by running the history. */
static weft_status rebuild(weft_session *s)
{
    int64_t length = s->length;
    weft_status st = mdl_caches_create(s, s->kv);
    if (st != WEFT_OK)
        return st;
    s->stale = false;
    s->length = 0;
    while (st == WEFT_OK && s->length < length) {
        int64_t left = length - s->length;
        st = run_cache_only(s, s->history + s->length, left < MDL_CHUNK ? left : MDL_CHUNK);
    }
    if (st != WEFT_OK && !s->stale) {
        mdl_caches_release(s, s->kv);
        s->stale = true;
    }
    s->length = length;
    return st;
}

weft_status mdl_check_ids(const weft_session *s, const char *who, const int32_t *ids, int64_t n)
{
    if (n < 1)
        return weft_fail(WEFT_E_VALUE, "%s: %lld tokens, expected at least 1", who, (long long)n);
    if (n > s->capacity - s->length)
        return weft_fail(WEFT_E_VALUE, "%s: %lld tokens, but the context of %lld has %lld left", who, (long long)n,
                         (long long)s->capacity, (long long)(s->capacity - s->length));
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->model->config.vocab_size)
            return weft_fail(WEFT_E_VALUE, "%s: id %d at %lld is outside the vocabulary of %d", who, ids[i], (long long)i,
                             s->model->config.vocab_size);
    return WEFT_OK;
}

weft_status mdl_prefill(weft_session *s, const int32_t *ids, int64_t n, weft_progress_fn progress, void *user, int64_t *done)
{
    *done = 0;
    while (n - *done > MDL_CHUNK) {
        if (progress && !progress(user, "prompt", (uint64_t)*done, (uint64_t)n))
            return weft_fail(WEFT_E_CANCELLED, "prompt: cancelled after %lld of %lld tokens", (long long)*done, (long long)n);
        MDL_TRY(run_cache_only(s, ids + *done, MDL_CHUNK));
        *done += MDL_CHUNK;
    }
    if (progress && !progress(user, "prompt", (uint64_t)*done, (uint64_t)n))
        return weft_fail(WEFT_E_CANCELLED, "prompt: cancelled after %lld of %lld tokens", (long long)*done, (long long)n);
    return WEFT_OK;
}

/* ---- the public step ---- */

/* One chunk whose logits are kept: *out is a computed handle outside any scope. */
static weft_status run_logits(weft_session *s, const int32_t *ids, int64_t n, mdl_want want, weft_tensor **out)
{
    weft_tensor *logits = NULL;
    weft_scope *scope = weft_scope_begin(s->model->ctx);
    if (!scope)
        return WEFT_E_OOM;
    weft_status st = mdl_step_record(s, ids, n, want, &logits);
    if (st == WEFT_OK)
        weft_keep(logits);
    weft_scope_end(scope);
    if (st != WEFT_OK)
        return st;
    st = mdl_step_commit(s, ids, n, &logits, 1);
    if (st != WEFT_OK)
        weft_tensor_release(logits);
    else
        *out = logits;
    return st;
}

/* Hands a kept tensor to the caller: to the caller's scope when there is one. */
static weft_status hand_over(weft_tensor *kept, weft_tensor **out)
{
    weft_tensor *t = weft_reshape(kept, weft_tensor_rank(kept), weft_tensor_shape(kept));
    weft_status st = weft_tensor_status(t);
    weft_tensor_release(kept);
    if (st == WEFT_OK) {
        *out = t;
        return WEFT_OK;
    }
    st = weft_fail(st, "%s", weft_tensor_message(t));
    weft_tensor_release(weft_keep(t));
    return st;
}

/* *out may be set on failure too. */
static weft_status join_rows(weft_session *s, weft_tensor *const *parts, int n, weft_tensor **out)
{
    weft_scope *scope = weft_scope_begin(s->model->ctx);
    if (!scope)
        return WEFT_E_OOM;
    *out = weft_keep(weft_cat(parts, n, 0));
    weft_scope_end(scope);
    return weft_eval(out, 1);
}

static weft_status step_all(weft_session *s, const int32_t *ids, int64_t n, weft_tensor **out)
{
    int64_t n_chunks = (n + MDL_CHUNK - 1) / MDL_CHUNK, k = 0;
    weft_tensor **parts = zeroed((size_t)n_chunks, sizeof *parts), *whole = NULL;
    weft_status st = parts ? WEFT_OK : WEFT_E_OOM;
    for (int64_t at = 0; st == WEFT_OK && at < n; at += MDL_CHUNK, k++)
        st = run_logits(s, ids + at, n - at < MDL_CHUNK ? n - at : MDL_CHUNK, MDL_WANT_ALL, &parts[k]);
    if (st == WEFT_OK && n_chunks == 1) {
        whole = parts[0];
        parts[0] = NULL;
    } else if (st == WEFT_OK) {
        st = join_rows(s, parts, (int)n_chunks, &whole);
    }
    for (int64_t i = 0; parts && i < n_chunks; i++)
        weft_tensor_release(parts[i]);
    weft_free(parts);
    if (st == WEFT_OK)
        *out = whole;
    else
        weft_tensor_release(whole);
    return st;
}

weft_status weft_session_step(weft_session *session, const int32_t *ids, int64_t n, bool all, weft_tensor **logits)
{
    weft_tensor *kept = NULL;
    int64_t done = 0;
    if (!session || !logits || (n > 0 && !ids))
        return weft_fail(WEFT_E_CONTEXT, "session_step: session, ids and logits must not be NULL");
    MDL_TRY(mdl_check_ids(session, "session_step", ids, n));
    int64_t before = session->length;
    weft_status st;
    if (all) {
        st = step_all(session, ids, n, &kept);
    } else {
        st = mdl_prefill(session, ids, n, NULL, NULL, &done);
        if (st == WEFT_OK)
            st = run_logits(session, ids + done, n - done, MDL_WANT_LAST, &kept);
    }
    if (st == WEFT_OK)
        st = hand_over(kept, logits);
    if (st != WEFT_OK)
        session->length = before;
    return st;
}

weft_status weft_session_truncate(weft_session *session, int64_t length)
{
    if (!session)
        return weft_fail(WEFT_E_CONTEXT, "session_truncate: session must not be NULL");
    if (length < 0 || length > session->length)
        return weft_fail(WEFT_E_VALUE, "session_truncate: length %lld is not in 0 .. %lld", (long long)length,
                         (long long)session->length);
    session->length = length;
    return WEFT_OK;
}
