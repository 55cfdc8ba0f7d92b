/* tune.c - measured choices: a graph is compiled once for each row that its kernels may take, the rows of each kind of kernel
 * are timed side by side, and the fastest goes to the context's table, which later plans ask.
 */
#include "tuner.h"

enum { REPEATS_MAX = 1000 };
#define DEFAULT_BUDGET_S 30.0
/* A row must be this much faster than the usual one: two equal rows do not change places by chance. */
#define GAIN 0.97

uint64_t wf_tune_now(const weft_ctx *ctx)
{
    return ctx->dev->vt->clock ? ctx->dev->vt->clock(ctx->dev) : wf_now_ns();
}

static wf_tune_result *seen(wf_tune *t, const wf_tune_key *key)
{
    for (size_t i = 0; i < t->n; i++)
        if (memcmp(&t->results[i].kernel.key, key, sizeof *key) == 0)
            return &t->results[i];
    return NULL;
}

/* The fastest row, the usual one in doubt; -1: none was measured. */
static int fastest(const wf_tune_result *r)
{
    int best = r->ns[0] ? 0 : -1;
    for (int i = 1; i < r->kernel.n_rows; i++)
        if (r->ns[i] && (best < 0 || r->ns[i] < r->ns[best]))
            best = i;
    return best > 0 && r->ns[0] && (double)r->ns[best] > GAIN * (double)r->ns[0] ? 0 : best;
}

static weft_status keep(weft_ctx *ctx, wf_tune_result *r)
{
    const wf_tune_kernel *k = &r->kernel;
    int best = fastest(r), other = best > 0 && r->ns[0] ? 0 : -1;
    r->taken = best;
    if (best < 0)
        return WEFT_OK;
    for (int i = 0; best == 0 && i < k->n_rows; i++) /* the next one beside the usual */
        if (i != best && r->ns[i] && (other < 0 || r->ns[i] < r->ns[other]))
            other = i;
    wf_tune_entry e = {.key = k->key, .ns = r->ns[best], .other_ns = other < 0 ? 0 : r->ns[other]};
    strncpy(e.row, k->rows[best], sizeof e.row - 1);
    strncpy(e.other, other < 0 ? "" : k->rows[other], sizeof e.other - 1);
    return wf_tune_put(&ctx->tuned, &e);
}

static bool proceed(const wf_tune *t, const wf_tune_kernel *k, int done, int total)
{
    wf_str shape = WF_STR_INIT;
    if (!t->opts.progress)
        return true;
    wf_tune_key_print(&k->key, &shape);
    const weft_tune_progress p = {.done = done, .total = total, .operation = wf_tune_op_name(k->key.op), .shape = shape.ptr ? shape.ptr : ""};
    bool on = t->opts.progress(t->opts.user, &p);
    wf_str_free(&shape);
    return on;
}

static void note_known(wf_tune_result *r, const wf_tune_entry *e)
{
    r->known = true;
    r->taken = -1;
    for (int i = 0; i < r->kernel.n_rows; i++) {
        if (strcmp(r->kernel.rows[i], e->row) == 0) {
            r->taken = i;
            r->ns[i] = e->ns;
        } else if (strcmp(r->kernel.rows[i], e->other) == 0) {
            r->ns[i] = e->other_ns;
        }
    }
}

/* Kernels that no earlier graph of this run had become results; *first is the first of them. */
static weft_status list_results(weft_ctx *ctx, wf_tune *t, const wf_tune_pass *pass, size_t *first)
{
    *first = t->n;
    for (size_t i = 0; i < pass->n; i++) {
        wf_tune_result *old = seen(t, &pass->kernels[i].key);
        if (old) {
            old->kernel.n_uses += pass->kernels[i].n_uses;
            continue;
        }
        WF_TRY(wf_grow((void **)&t->results, &t->cap, t->n + 1, sizeof *t->results));
        wf_tune_result *r = &t->results[t->n++];
        *r = (wf_tune_result){.kernel = pass->kernels[i], .taken = -1};
        const wf_tune_entry *e = t->opts.again ? NULL : wf_tune_find(&ctx->tuned, &r->kernel.key);
        if (e)
            note_known(r, e);
    }
    return WEFT_OK;
}

static bool out_of_time(const weft_ctx *ctx, const wf_tune *t)
{
    double budget = t->opts.budget_s > 0 ? t->opts.budget_s : DEFAULT_BUDGET_S;
    return (double)(wf_tune_now(ctx) - t->begin_ns) * 1e-9 >= budget;
}

static weft_status measure_all(weft_ctx *ctx, wf_tune *t, size_t first, wf_plan *const *plans)
{
    for (size_t i = first; i < t->n; i++) {
        wf_tune_result *r = &t->results[i];
        if (r->known)
            continue;
        if (atomic_exchange(&ctx->core.cancel, false) || !proceed(t, &r->kernel, (int)i, (int)t->n))
            return wf_fail(WEFT_E_CANCELLED, "tune: cancelled, %zu of %zu kinds of kernels measured", i, t->n);
        if (out_of_time(ctx, t)) {
            t->incomplete = true;
            return WEFT_OK;
        }
        WF_TRY(wf_tune_measure(ctx, t, plans, r));
        WF_TRY(keep(ctx, r));
    }
    return WEFT_OK;
}

/* Only kinds of kernels that are not known yet ask for further rounds. */
static int rounds_needed(const wf_tune *t, size_t first)
{
    int most = 0;
    for (size_t i = first; i < t->n; i++)
        if (!t->results[i].known)
            most = WF_MAX(most, t->results[i].kernel.n_rows);
    return most;
}

weft_status wf_tune_graph(weft_ctx *ctx, wf_tune *t, int n_targets)
{
    wf_tune_pass pass = {0};
    wf_plan *plans[WF_TUNE_ROWS] = {NULL};
    size_t first;
    weft_status st = wf_eval_compile_pass(ctx, n_targets, &pass, &plans[0]);
    if (st == WEFT_OK)
        st = list_results(ctx, t, &pass, &first);
    int rounds = st == WEFT_OK && !out_of_time(ctx, t) ? rounds_needed(t, first) : 0;
    if (st == WEFT_OK && !rounds && rounds_needed(t, first))
        t->incomplete = true;
    for (pass.round = 1; st == WEFT_OK && pass.round < rounds; pass.round++)
        st = wf_eval_compile_pass(ctx, n_targets, &pass, &plans[pass.round]);
    for (size_t i = 0; st == WEFT_OK && rounds && i < pass.n; i++) { /* with the commands of all rounds */
        wf_tune_result *r = seen(t, &pass.kernels[i].key);
        if (r >= &t->results[first])
            r->kernel = pass.kernels[i];
    }
    if (st == WEFT_OK && rounds)
        st = measure_all(ctx, t, first, plans);
    for (size_t r = 0; r < WF_COUNT(plans); r++)
        if (plans[r])
            wf_plan_destroy(ctx, plans[r]);
    wf_tune_pass_free(&pass);
    return st;
}

/* ---- the public functions ---- */

static weft_status begin(weft_ctx *ctx, const weft_tune_opts *opts, wf_tune *t)
{
    *t = (wf_tune){.begin_ns = wf_tune_now(ctx)};
    if (opts)
        t->opts = *opts;
    if ((unsigned)t->opts.format > WEFT_TUNE_JSON)
        return wf_fail(WEFT_E_VALUE, "tune: format %d is none of text, JSON", (int)t->opts.format);
    if (!(t->opts.budget_s >= 0) || t->opts.repeats < 0 || t->opts.repeats > REPEATS_MAX)
        return wf_fail(WEFT_E_VALUE, "tune: a budget of %g s and %d repeats; it takes 0 or more, and 0 .. %d", t->opts.budget_s, t->opts.repeats, REPEATS_MAX);
    return WEFT_OK;
}

static weft_status finish(weft_ctx *ctx, wf_tune *t, char **out)
{
    wf_str text = WF_STR_INIT;
    wf_tune_render(t, &ctx->dev->caps.info, (double)(wf_tune_now(ctx) - t->begin_ns) * 1e-9, &text);
    if (text.oom) {
        wf_str_free(&text);
        return wf_fail_oom(text.len);
    }
    if (out)
        *out = text.ptr;
    else
        wf_str_free(&text);
    return WEFT_OK;
}

static weft_status tune_locked(weft_ctx *ctx, weft_tensor *const *tensors, int n, const weft_tune_opts *opts, char **out)
{
    wf_tune t;
    WF_TRY(begin(ctx, opts, &t));
    wf_node **nodes = wf_alloc(sizeof *nodes * (size_t)n);
    if (!nodes)
        return wf_fail_oom(sizeof *nodes * (size_t)n);
    for (int i = 0; i < n; i++)
        nodes[i] = tensors[i]->node;
    weft_status st = wf_eval_tune(ctx, nodes, n, &t);
    if (st == WEFT_OK)
        st = finish(ctx, &t, out);
    wf_free(t.results);
    wf_free(nodes);
    return st;
}

weft_status weft_tune(weft_tensor *const *tensors, int n, const weft_tune_opts *opts, char **out)
{
    WF_TRY(wf_check_tensors("tune", tensors, n));
    weft_ctx *ctx = tensors[0]->ctx;
    WF_TRY(wf_ctx_enter(ctx, "tune"));
    uint64_t measured = ctx->stats.rows_measured;
    weft_status st = tune_locked(ctx, tensors, n, opts, out);
    if (ctx->stats.rows_measured != measured)
        wf_tune_keep(ctx); /* also what was measured before it was stopped */
    wf_unlock(&ctx->core.lock);
    return st;
}

weft_status weft_tune_begin(weft_ctx *ctx, const weft_tune_opts *opts)
{
    wf_tune t;
    WF_TRY(wf_ctx_enter(ctx, "tune_begin"));
    weft_status st = begin(ctx, opts, &t);
    wf_tune *kept = st == WEFT_OK ? wf_alloc(sizeof *kept) : NULL;
    if (st == WEFT_OK && !kept)
        st = wf_fail_oom(sizeof *kept);
    if (st == WEFT_OK) {
        wf_tune_drop(ctx);
        *kept = t;
        ctx->tune = kept;
    }
    wf_unlock(&ctx->core.lock);
    return st;
}

weft_status weft_tune_end(weft_ctx *ctx, char **out)
{
    WF_TRY(wf_ctx_enter(ctx, "tune_end"));
    weft_status st = ctx->tune ? finish(ctx, ctx->tune, out) : wf_fail(WEFT_E_VALUE, "tune_end without tune_begin");
    if (ctx->tune)
        wf_tune_keep(ctx);
    wf_tune_drop(ctx);
    wf_unlock(&ctx->core.lock);
    return st;
}

void wf_tune_drop(weft_ctx *ctx)
{
    if (ctx->tune)
        wf_free(ctx->tune->results);
    wf_free(ctx->tune);
    ctx->tune = NULL;
}

void weft_tune_free(char *text) { wf_free(text); }
