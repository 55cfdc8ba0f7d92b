/* warm.c - pipelines before they are needed, here or beside the caller.
 *
 * A graph is compiled with programs that are only listed (wf_eval_warm); they are made one at a time, the context's lock held
 * for each alone; then it is compiled again. A row that the device refused leads to another row and so to other programs: until
 * none is new, which the number of rows bounds. Then its plan is kept.
 */
#include <errno.h>
#include <time.h>

#include "runtime.h"
#include "weft/warm.h"

enum { MAX_ROUNDS = 64 }; /* as many as a table of rows has, each refused in turn */

struct weft_warm {
    weft_ctx *ctx;
    weft_tensor **tensors; /* held */
    wf_node **nodes;
    int n;
    weft_warm_opts opts;
    wf_pending pending;
    uint64_t done; /* of earlier rounds */
    atomic_bool stop;
    bool heeds_cancel; /* of the context: where it is the caller's own action */
    pthread_t thread;
    wf_mutex lock; /* of what follows */
    pthread_cond_t finished;
    bool is_done;
    weft_status status;
    char message[WF_MESSAGE_BYTES];
};

/* ---- the work ---- */

static bool is_stopped(weft_warm *w)
{
    return atomic_load(&w->stop) || (w->heeds_cancel && atomic_exchange(&w->ctx->core.cancel, false));
}

/* The programs that are still missing, into w->pending; none: the plan is kept. */
static weft_status list_missing(weft_warm *w)
{
    wf_pending_clear(&w->pending);
    WF_TRY(wf_ctx_enter(w->ctx, "warm_up"));
    weft_status st = wf_eval_warm(w->ctx, w->nodes, w->n, &w->pending);
    wf_unlock(&w->ctx->core.lock);
    return st;
}

static weft_status make_missing(weft_warm *w)
{
    uint64_t total = w->done + w->pending.n;
    for (size_t i = 0; i < w->pending.n; i++) {
        if (is_stopped(w))
            return wf_fail(WEFT_E_CANCELLED, "warm_up: cancelled after %llu of %llu pipelines", (unsigned long long)w->done, (unsigned long long)total);
        WF_TRY(wf_ctx_enter(w->ctx, "warm_up"));
        weft_status st = wf_programs_make(&w->ctx->programs, &w->pending.item[i]);
        wf_unlock(&w->ctx->core.lock);
        WF_TRY(st);
        w->done++;
        if (w->opts.progress && !w->opts.progress(w->opts.progress_user, "warm", w->done, total))
            return wf_fail(WEFT_E_CANCELLED, "warm_up: the progress callback asked to stop after %llu of %llu pipelines",
                           (unsigned long long)w->done, (unsigned long long)total);
    }
    return WEFT_OK;
}

/* The first list is there. */
static weft_status warm_up(weft_warm *w)
{
    for (int round = 0; w->pending.n && round < MAX_ROUNDS; round++) {
        WF_TRY(make_missing(w));
        WF_TRY(list_missing(w));
    }
    return WEFT_OK;
}

/* ---- here ---- */

static void free_warm(weft_warm *w)
{
    for (int i = 0; w->tensors && i < w->n; i++)
        weft_tensor_release(w->tensors[i]);
    wf_pending_clear(&w->pending);
    pthread_cond_destroy(&w->finished);
    pthread_mutex_destroy(&w->lock);
    wf_free(w->tensors);
    wf_free(w->nodes);
    wf_free(w);
}

/* Checked, with the first list. */
static weft_status new_warm(weft_tensor *const *tensors, int n, const weft_warm_opts *opts, bool heeds_cancel, weft_warm **out)
{
    WF_TRY(wf_check_tensors("warm_up", tensors, n));
    weft_warm *w = wf_calloc(1, sizeof *w);
    if (!w)
        return wf_fail_oom(sizeof *w);
    wf_mutex_init(&w->lock, false);
    pthread_cond_init(&w->finished, NULL);
    w->ctx = tensors[0]->ctx;
    w->n = n;
    w->heeds_cancel = heeds_cancel;
    w->opts = opts ? *opts : (weft_warm_opts){0};
    w->tensors = wf_calloc((size_t)n, sizeof *w->tensors);
    w->nodes = wf_calloc((size_t)n, sizeof *w->nodes);
    weft_status st = w->tensors && w->nodes ? WEFT_OK : wf_fail_oom((size_t)n * sizeof *w->nodes);
    for (int i = 0; i < n && st == WEFT_OK; i++) {
        w->tensors[i] = weft_tensor_retain(tensors[i]);
        w->nodes[i] = tensors[i]->node;
    }
    if (st == WEFT_OK)
        st = list_missing(w);
    if (st != WEFT_OK) {
        free_warm(w);
        return st;
    }
    *out = w;
    return WEFT_OK;
}

weft_status weft_warm_up(weft_tensor *const *tensors, int n, const weft_warm_opts *opts)
{
    weft_warm *w;
    WF_TRY(new_warm(tensors, n, opts, true, &w));
    weft_status st = warm_up(w);
    free_warm(w);
    return st;
}

/* ---- beside the caller ---- */

static void *run(void *user)
{
    weft_warm *w = user;
    weft_status st = warm_up(w);
    wf_lock(&w->lock);
    w->is_done = true;
    w->status = st;
    if (st != WEFT_OK)
        strncpy(w->message, weft_error_message(), sizeof w->message - 1);
    pthread_cond_broadcast(&w->finished);
    wf_unlock(&w->lock);
    return NULL;
}

weft_status weft_warm_begin(weft_tensor *const *tensors, int n, const weft_warm_opts *opts, weft_warm **out)
{
    weft_warm *w;
    if (!out)
        return wf_fail(WEFT_E_CONTEXT, "warm_begin: the result pointer is NULL");
    WF_TRY(new_warm(tensors, n, opts, false, &w));
    int err = pthread_create(&w->thread, NULL, run, w);
    if (err) {
        free_warm(w);
        return wf_fail(WEFT_E_OOM, "warm_begin: no thread: %s", strerror(err));
    }
    *out = w;
    return WEFT_OK;
}

weft_status weft_warm_wait(weft_warm *w, int64_t timeout_ms)
{
    struct timespec until;
    if (!w)
        return wf_fail(WEFT_E_CONTEXT, "warm_wait: warm is NULL");
    clock_gettime(CLOCK_REALTIME, &until);
    if (timeout_ms > 0) {
        until.tv_sec += timeout_ms / 1000;
        until.tv_nsec += timeout_ms % 1000 * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
    }
    wf_lock(&w->lock);
    for (int err = 0; !w->is_done && err != ETIMEDOUT && timeout_ms != 0;)
        err = timeout_ms < 0 ? pthread_cond_wait(&w->finished, &w->lock) : pthread_cond_timedwait(&w->finished, &w->lock, &until);
    bool is_done = w->is_done;
    weft_status st = w->status;
    wf_unlock(&w->lock);
    if (!is_done)
        return wf_fail(WEFT_E_TIMEOUT, "warm_wait: not done after %lld ms", (long long)timeout_ms);
    return st == WEFT_OK ? st : wf_fail(st, "%s", w->message);
}

void weft_warm_end(weft_warm *w)
{
    if (!w)
        return;
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    free_warm(w);
}
