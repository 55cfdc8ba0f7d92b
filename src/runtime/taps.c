/* taps.c - named values as further outputs of the evaluations that compute them.
 *
 * A named tensor that a tap asks for is held until an evaluation meets its node; the node is then a target, so the planner
 * gives it memory of its own. The callbacks run when the public call has left the context's lock.
 */
#include "runtime.h"
#include "weft/tap.h"

typedef struct tap {
    char *pattern;
    weft_tap_fn fn;
    void *user;
} tap;

typedef struct named {
    char *name;
    weft_tensor *value; /* one reference */
} named;

struct wf_taps {
    tap *taps;
    size_t n_taps, cap_taps;
    named *values; /* in the order in which they were named */
    size_t n_values, cap_values;
    bool delivering; /* a callback runs: what it computes is delivered after it, not inside it */
};

static bool matches(const char *pattern, const char *name)
{
    size_t n = strlen(pattern);
    return pattern[n - 1] == '*' ? strncmp(pattern, name, n - 1) == 0 : strcmp(pattern, name) == 0;
}

static bool wanted(const struct wf_taps *t, const char *name)
{
    for (size_t i = 0; i < t->n_taps; i++)
        if (matches(t->taps[i].pattern, name))
            return true;
    return false;
}

/* Under the lock: take value i out of the list; the caller releases it outside of the lock. */
static named take(struct wf_taps *t, size_t i)
{
    named v = t->values[i];
    memmove(&t->values[i], &t->values[i + 1], (t->n_values - i - 1) * sizeof v);
    t->n_values--;
    return v;
}

static void drop(named *v)
{
    wf_free(v->name);
    weft_tensor_release(v->value);
}

/* ---- the caller's side ---- */

static weft_status set_tap(weft_ctx *ctx, const char *pattern, weft_tap_fn fn, void *user)
{
    struct wf_taps *t = ctx->taps;
    if (!t) {
        if (!fn)
            return WEFT_OK;
        t = ctx->taps = wf_calloc(1, sizeof *t);
        if (!t)
            return wf_fail_oom(sizeof *t);
    }
    size_t i = 0;
    while (i < t->n_taps && strcmp(t->taps[i].pattern, pattern) != 0)
        i++;
    if (i < t->n_taps && fn) {
        t->taps[i].fn = fn;
        t->taps[i].user = user;
    } else if (i < t->n_taps) {
        wf_free(t->taps[i].pattern);
        memmove(&t->taps[i], &t->taps[i + 1], (t->n_taps - i - 1) * sizeof *t->taps);
        t->n_taps--;
    } else if (fn) {
        WF_TRY(wf_grow((void **)&t->taps, &t->cap_taps, t->n_taps + 1, sizeof *t->taps));
        char *copy = wf_strdup(pattern);
        if (!copy)
            return wf_fail_oom(strlen(pattern) + 1);
        t->taps[t->n_taps++] = (tap){copy, fn, user};
    }
    return WEFT_OK;
}

/* What no tap asks for any more. */
static void drop_unwanted(weft_ctx *ctx)
{
    for (bool more = true; more;) {
        named v = {0};
        wf_lock(&ctx->core.lock);
        struct wf_taps *t = ctx->taps;
        for (size_t i = 0; t && i < t->n_values && !v.value; i++)
            if (!wanted(t, t->values[i].name))
                v = take(t, i);
        wf_unlock(&ctx->core.lock);
        more = v.value != NULL;
        drop(&v);
    }
}

weft_status weft_tap(weft_ctx *ctx, const char *pattern, weft_tap_fn fn, void *user)
{
    if (!pattern || !*pattern)
        return wf_fail(WEFT_E_VALUE, "tap: the pattern is %s", pattern ? "empty" : "NULL");
    WF_TRY(wf_ctx_enter(ctx, "tap"));
    weft_status st = set_tap(ctx, pattern, fn, user);
    wf_unlock(&ctx->core.lock);
    if (!fn)
        drop_unwanted(ctx);
    return st;
}

bool weft_tapped(weft_ctx *ctx)
{
    if (!ctx)
        return false;
    wf_lock(&ctx->core.lock);
    bool any = ctx->taps && ctx->taps->n_taps;
    wf_unlock(&ctx->core.lock);
    return any;
}

weft_tensor *weft_named(weft_tensor *t, const char *name)
{
    if (!t || t->status != WEFT_OK || !name || !weft_tapped(t->ctx))
        return t;
    weft_ctx *ctx = t->ctx;
    wf_lock(&ctx->core.lock);
    struct wf_taps *taps = ctx->taps;
    if (!ctx->core.closed && taps && wanted(taps, name)) {
        char *copy = wf_strdup(name);
        weft_status st = copy ? wf_grow((void **)&taps->values, &taps->cap_values, taps->n_values + 1, sizeof *taps->values) : WEFT_E_OOM;
        if (st == WEFT_OK) {
            taps->values[taps->n_values++] = (named){copy, weft_tensor_retain(t)};
        } else {
            wf_free(copy);
            wf_log(WEFT_LOG_WARN, "tap: out of memory: \"%s\" is not kept", name);
        }
    }
    wf_unlock(&ctx->core.lock);
    return t;
}

/* ---- the evaluation's side ---- */

int wf_taps_count(const weft_ctx *ctx)
{
    return ctx->taps ? (int)ctx->taps->n_values : 0;
}

wf_node *wf_taps_node(const weft_ctx *ctx, int i)
{
    return ctx->taps->values[i].value->node;
}

/* Take the first value that is there. */
static bool take_ready(weft_ctx *ctx, named *v)
{
    bool found = false;
    wf_lock(&ctx->core.lock);
    struct wf_taps *t = ctx->core.closed ? NULL : ctx->taps;
    for (size_t i = 0; t && i < t->n_values && !found; i++)
        if (t->values[i].value->node->storage) {
            *v = take(t, i);
            found = true;
        }
    wf_unlock(&ctx->core.lock);
    return found;
}

/* The i-th tap that matches, copied: the callback may change the list. */
static bool matching_tap(weft_ctx *ctx, const char *name, size_t i, tap *out)
{
    bool found = false;
    wf_lock(&ctx->core.lock);
    for (size_t k = 0; ctx->taps && k < ctx->taps->n_taps && !found; k++)
        if (matches(ctx->taps->taps[k].pattern, name) && i-- == 0) {
            *out = ctx->taps->taps[k];
            found = true;
        }
    wf_unlock(&ctx->core.lock);
    return found;
}

/* True for one caller at a time. */
static bool begin_delivery(weft_ctx *ctx)
{
    wf_lock(&ctx->core.lock);
    bool mine = ctx->taps && !ctx->taps->delivering;
    if (mine)
        ctx->taps->delivering = true;
    wf_unlock(&ctx->core.lock);
    return mine;
}

static void end_delivery(weft_ctx *ctx)
{
    wf_lock(&ctx->core.lock);
    if (ctx->taps)
        ctx->taps->delivering = false;
    wf_unlock(&ctx->core.lock);
}

void wf_taps_deliver(weft_ctx *ctx)
{
    named v;
    tap to;
    if (!begin_delivery(ctx))
        return;
    while (take_ready(ctx, &v)) {
        for (size_t i = 0; matching_tap(ctx, v.name, i, &to); i++)
            to.fn(to.user, v.name, v.value);
        drop(&v);
    }
    end_delivery(ctx);
}

void wf_ctx_leave(weft_ctx *ctx)
{
    bool tapped = ctx->taps != NULL;
    wf_unlock(&ctx->core.lock);
    if (tapped)
        wf_taps_deliver(ctx);
}

void wf_taps_close(weft_ctx *ctx)
{
    struct wf_taps *t = ctx->taps;
    if (!t)
        return;
    ctx->taps = NULL;
    for (size_t i = 0; i < t->n_taps; i++)
        wf_free(t->taps[i].pattern);
    for (size_t i = 0; i < t->n_values; i++)
        drop(&t->values[i]);
    wf_free(t->taps);
    wf_free(t->values);
    wf_free(t);
}
