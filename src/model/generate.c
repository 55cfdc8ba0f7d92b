/* generate.c - the loop of step and choice, and scoring.
 *
 * What comes back from the device each step is as little as the sampling allows: the index of the
 * largest logit, or the candidates that top-k can reach, or the whole row. */
#include "mdl.h"

#include <time.h>

typedef struct picker {
    weft_session *s;
    const weft_sampling *sampling;
    int64_t vocab, n_candidates; /* 0: the whole row; greedy without penalty: 1 */
    bool argmax;
    mdl_candidate *candidates;
    float *values;
    int32_t *indices;
    weft_tensor *outs[2];
    int n_outs;
} picker;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static weft_status picker_init(picker *p, weft_session *s, const weft_sampling *sampling)
{
    *p = (picker){.s = s, .sampling = sampling, .vocab = s->model->config.vocab_size};
    p->n_candidates = mdl_sampling_candidates(sampling, p->vocab);
    p->argmax = p->n_candidates == 1 && sampling->temperature == 0;
    size_t n = (size_t)(p->n_candidates ? p->n_candidates : p->vocab);
    p->candidates = weft_realloc(NULL, n * sizeof *p->candidates);
    p->values = weft_realloc(NULL, n * sizeof *p->values);
    p->indices = weft_realloc(NULL, n * sizeof *p->indices);
    return p->candidates && p->values && p->indices ? WEFT_OK : WEFT_E_OOM;
}

static void picker_release_outs(picker *p)
{
    for (int i = 0; i < p->n_outs; i++)
        weft_tensor_release(p->outs[i]);
    p->n_outs = 0;
}

static void picker_free(picker *p)
{
    picker_release_outs(p);
    weft_free(p->candidates);
    weft_free(p->values);
    weft_free(p->indices);
}

/* Adds to the step what this sampling reads of the logits [1, vocab]. */
static void picker_record(picker *p, weft_tensor *logits)
{
    static const int last[1] = {-1};
    picker_release_outs(p);
    if (p->argmax) {
        p->outs[p->n_outs++] = weft_keep(weft_argmax(logits, last, 1, false));
    } else if (p->n_candidates) {
        weft_tensor *values = NULL, *indices = weft_topk(logits, p->n_candidates, &values);
        p->outs[p->n_outs++] = weft_keep(indices);
        if (values && values != indices)
            p->outs[p->n_outs++] = weft_keep(values);
    } else {
        p->outs[p->n_outs++] = weft_keep(logits);
    }
}

static weft_status picker_choose(picker *p, int32_t *id)
{
    weft_session *s = p->s;
    if (p->argmax)
        return weft_read(p->outs[0], id, sizeof *id);
    int64_t n = p->n_candidates ? p->n_candidates : p->vocab;
    MDL_TRY(weft_read_as(p->outs[p->n_outs - 1], WEFT_DTYPE_F32, p->values, (size_t)n * sizeof *p->values));
    if (p->n_candidates)
        MDL_TRY(weft_read(p->outs[0], p->indices, (size_t)n * sizeof *p->indices));
    for (int64_t i = 0; i < n; i++)
        p->candidates[i] = (mdl_candidate){p->values[i], p->n_candidates ? p->indices[i] : (int32_t)i};
    *id = mdl_sample(p->sampling, p->candidates, n, s->history, s->length, (uint64_t)s->length);
    return WEFT_OK;
}

/* Runs ids and chooses the token after them. */
static weft_status step_and_choose(picker *p, const int32_t *ids, int64_t n, int32_t *id)
{
    weft_tensor *logits = NULL;
    weft_scope *scope = weft_scope_begin(p->s->model->ctx);
    if (!scope)
        return WEFT_E_OOM;
    weft_status st = mdl_step_record(p->s, ids, n, MDL_WANT_LAST, &logits);
    if (st == WEFT_OK)
        picker_record(p, logits);
    weft_scope_end(scope);
    if (st == WEFT_OK)
        st = mdl_step_commit(p->s, ids, n, p->outs, p->n_outs);
    if (st == WEFT_OK)
        st = picker_choose(p, id);
    if (st == WEFT_OK && (*id < 0 || *id >= p->vocab))
        st = weft_fail(WEFT_E_INTERNAL, "generate: the device chose id %d of a vocabulary of %lld", *id, (long long)p->vocab);
    return st;
}

typedef struct id_list {
    int32_t *ids;
    size_t n, cap;
} id_list;

static weft_status push(id_list *l, int32_t id)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        int32_t *p = weft_realloc(l->ids, cap * sizeof *p);
        if (!p)
            return WEFT_E_OOM;
        l->ids = p;
        l->cap = cap;
    }
    l->ids[l->n++] = id;
    return WEFT_OK;
}

static weft_status loop(picker *p, const weft_generate_opts *o, const weft_tokenizer *tok, int32_t id, id_list *out, int32_t *stop)
{
    weft_session *s = p->s;
    *stop = -1;
    for (;;) {
        const char *bytes = "";
        size_t n = 0;
        if (tok && id < weft_tokenizer_size(tok) && weft_tokenizer_is_stop(tok, id)) {
            *stop = id;
            return WEFT_OK;
        }
        MDL_TRY(push(out, id));
        if (tok && id < weft_tokenizer_size(tok))
            MDL_TRY(weft_token_bytes(tok, id, false, &bytes, &n));
        if (o->on_token && !o->on_token(o->user, id, bytes, n))
            return WEFT_OK;
        if (o->progress && !o->progress(o->progress_user, "generate", out->n, (uint64_t)o->max_tokens))
            return weft_fail(WEFT_E_CANCELLED, "generate: cancelled after %zu tokens", out->n);
        if ((o->max_tokens && (int64_t)out->n >= o->max_tokens) || s->length >= s->capacity)
            return WEFT_OK;
        MDL_TRY(step_and_choose(p, &id, 1, &id));
    }
}

static weft_status generate(picker *p, const int32_t *ids, size_t n, const weft_generate_opts *o, id_list *list,
                            weft_generate_result *r)
{
    weft_session *s = p->s;
    const weft_tokenizer *tok = o->tokenizer ? o->tokenizer : s->model->tokenizer;
    int64_t done;
    int32_t id = 0;
    double start = now_s();
    MDL_TRY(mdl_prefill(s, ids, (int64_t)n, o->progress, o->progress_user, &done));
    MDL_TRY(step_and_choose(p, ids + done, (int64_t)n - done, &id));
    if (o->progress && !o->progress(o->progress_user, "prompt", n, n))
        return weft_fail(WEFT_E_CANCELLED, "prompt: cancelled after %zu tokens", n);
    double first = now_s();
    MDL_TRY(loop(p, o, tok, id, list, &r->stop_id));
    r->prompt_s = first - start;
    r->generate_s = now_s() - first;
    return WEFT_OK;
}

weft_status weft_session_generate(weft_session *session, const int32_t *ids, size_t n, const weft_generate_opts *opts,
                                  weft_generate_result *out)
{
    static const weft_generate_opts none;
    const weft_generate_opts *o = opts ? opts : &none;
    if (!session || !out || (n > 0 && !ids))
        return weft_fail(WEFT_E_CONTEXT, "session_generate: session, ids and out must not be NULL");
    if (n > INT32_MAX)
        return weft_fail(WEFT_E_VALUE, "session_generate: %zu tokens are too many", n);
    MDL_TRY(mdl_check_ids(session, "session_generate", ids, (int64_t)n));
    if (o->max_tokens < 0)
        return weft_fail(WEFT_E_VALUE, "session_generate: max_tokens %lld must not be negative", (long long)o->max_tokens);
    MDL_TRY(mdl_sampling_check(&o->sampling));
    picker p = {0};
    id_list list = {0};
    weft_generate_result r = {0};
    int64_t before = session->length;
    weft_status st = picker_init(&p, session, &o->sampling);
    if (st == WEFT_OK)
        st = generate(&p, ids, n, o, &list, &r);
    picker_free(&p);
    if (st != WEFT_OK) {
        session->length = before;
        weft_free(list.ids);
        return st;
    }
    r.ids = list.ids;
    r.n_ids = list.n;
    *out = r;
    return WEFT_OK;
}

/* ---- scoring ---- */
#define SCORE_CHUNK 128 /* rows of logits alive at a time */

/* Runs `n` ids at `at`; nll of the ids that follow each, and the logits if wanted. */
static weft_status score_chunk(weft_session *s, const int32_t *ids, int64_t n, int64_t n_targets, float *nll, float *rows)
{
    weft_ctx *ctx = s->model->ctx;
    weft_tensor *logits = NULL, *outs[2];
    int n_outs = 0;
    weft_scope *scope = weft_scope_begin(ctx);
    if (!scope)
        return WEFT_E_OOM;
    weft_status st = mdl_step_record(s, ids, n, MDL_WANT_ALL, &logits);
    if (st == WEFT_OK && n_targets > 0) {
        const int64_t shape[2] = {n_targets, 1};
        weft_tensor *targets = weft_tensor_from(ctx, WEFT_DTYPE_I32, 2, shape, ids + 1);
        weft_tensor *logp = weft_log_softmax(weft_slice(logits, 0, 0, n_targets, 1), -1);
        outs[n_outs++] = weft_keep(weft_neg(weft_gather(logp, -1, targets)));
    }
    if (st == WEFT_OK && rows)
        outs[n_outs++] = weft_keep(logits);
    weft_scope_end(scope);
    if (st != WEFT_OK)
        return st;
    st = mdl_step_commit(s, ids, n, outs, n_outs);
    if (st == WEFT_OK && n_targets > 0)
        st = weft_read(outs[0], nll, (size_t)n_targets * sizeof *nll);
    if (st == WEFT_OK && rows)
        st = weft_read_as(outs[n_outs - 1], WEFT_DTYPE_F32, rows, (size_t)n * (size_t)s->model->config.vocab_size * sizeof *rows);
    for (int i = 0; i < n_outs; i++)
        weft_tensor_release(outs[i]);
    return st;
}

typedef struct scorer {
    weft_session *s;
    const weft_score_opts *opts;
    float *nll, *logits; /* NULL where not wanted */
    double sum;
} scorer;

static weft_status score_report(const scorer *c, int64_t done, int64_t n)
{
    const weft_score_opts *o = c->opts;
    if (o && o->progress && !o->progress(o->progress_user, "score", (uint64_t)done, (uint64_t)n))
        return weft_fail(WEFT_E_CANCELLED, "session_score: cancelled after %lld of %lld tokens", (long long)done, (long long)n);
    return WEFT_OK;
}

static weft_status score_all(scorer *c, const int32_t *ids, int64_t n)
{
    float nll[SCORE_CHUNK];
    MDL_TRY(score_report(c, 0, n));
    for (int64_t at = 0; at < n;) {
        int64_t left = n - at, rows = left < SCORE_CHUNK ? left : SCORE_CHUNK, targets = left > rows ? rows : rows - 1;
        float *dst = c->logits ? c->logits + (size_t)at * (size_t)c->s->model->config.vocab_size : NULL;
        MDL_TRY(score_chunk(c->s, ids + at, rows, targets, nll, dst));
        for (int64_t i = 0; i < targets; i++)
            c->sum += nll[i];
        if (c->nll)
            memcpy(c->nll + at, nll, (size_t)targets * sizeof *nll);
        at += rows;
        MDL_TRY(score_report(c, at, n));
    }
    return WEFT_OK;
}

weft_status weft_session_score(weft_session *session, const int32_t *ids, size_t n, const weft_score_opts *opts, float *nll,
                               double *mean_nll, float *logits)
{
    if (!session || (n > 0 && !ids))
        return weft_fail(WEFT_E_CONTEXT, "session_score: session and ids must not be NULL");
    if (n > INT32_MAX)
        return weft_fail(WEFT_E_VALUE, "session_score: %zu tokens are too many", n);
    int64_t before = session->length;
    session->length = 0;
    weft_status st = mdl_check_ids(session, "session_score", ids, (int64_t)n);
    if (st != WEFT_OK) {
        session->length = before;
        return st;
    }
    scorer c = {.s = session, .opts = opts, .logits = logits};
    if (nll && n > 1 && !(c.nll = weft_realloc(NULL, (n - 1) * sizeof *c.nll))) {
        session->length = before;
        return WEFT_E_OOM;
    }
    st = score_all(&c, ids, (int64_t)n);
    if (st != WEFT_OK) {
        session->length = 0;
    } else {
        if (c.nll)
            memcpy(nll, c.nll, (n - 1) * sizeof *nll);
        if (mean_nll)
            *mean_nll = n > 1 ? c.sum / (double)(n - 1) : 0;
    }
    weft_free(c.nll);
    return st;
}
