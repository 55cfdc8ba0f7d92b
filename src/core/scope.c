/* scope.c - scopes own the handles that builders make, so that expressions need no release of each part.
 *
 * The stack of open scopes belongs to the thread; the list of handles in a scope is guarded by the
 * context's lock, because weft_keep may be called from another thread.
 */
#include "scope.h"

static _Thread_local weft_scope *innermost;

void wf_core_unhold_unlock(weft_ctx *ctx, int64_t n)
{
    wf_core_ctx *core = wf_core(ctx);
    core->holds -= n;
    bool last = n > 0 && core->holds == 0;
    wf_unlock(&core->lock);
    if (last)
        wf_core_release(ctx);
}

void wf_scope_adopt_from(weft_scope *s, weft_tensor *t)
{
    while (s && s->ctx != t->ctx)
        s = s->below;
    t->scope = s;
    t->scope_prev = NULL;
    t->scope_next = NULL;
    if (s) {
        t->scope_next = s->first;
        if (s->first)
            s->first->scope_prev = t;
        s->first = t;
    }
}

void wf_scope_adopt(weft_tensor *t)
{
    wf_scope_adopt_from(innermost, t);
}

void wf_scope_disown(weft_tensor *t)
{
    weft_scope *s = t->scope;
    if (!s)
        return;
    if (t->scope_prev)
        t->scope_prev->scope_next = t->scope_next;
    else
        s->first = t->scope_next;
    if (t->scope_next)
        t->scope_next->scope_prev = t->scope_prev;
    t->scope = NULL;
}

void wf_scope_push(weft_scope *s, weft_ctx *ctx)
{
    s->ctx = ctx;
    s->first = NULL;
    s->below = innermost;
    innermost = s;
    wf_core_hold(wf_core(ctx));
}

/* The handles of a scope that is off the stack lose one reference each. */
static int64_t drop_handles(weft_scope *s)
{
    int64_t dropped = 1; /* the scope's own */
    for (weft_tensor *t = s->first, *next; t; t = next) {
        next = t->scope_next;
        t->scope = NULL;
        /* With one reference left it is ours, and nobody can add another. */
        if (atomic_load_explicit(&t->refs, memory_order_acquire) == 1 || atomic_fetch_sub(&t->refs, 1) == 1) {
            wf_tensor_free(t);
            dropped++;
        }
    }
    return dropped;
}

void wf_scope_pop_unlock(weft_scope *s)
{
    innermost = s->below;
    wf_core_unhold_unlock(s->ctx, drop_handles(s));
}

weft_scope *weft_scope_begin(weft_ctx *ctx)
{
    if (!ctx) {
        wf_fail(WEFT_E_CONTEXT, "scope_begin: the context is NULL");
        return NULL;
    }
    weft_scope *s = wf_alloc(sizeof *s);
    if (!s)
        return NULL;
    wf_lock(&wf_core(ctx)->lock);
    wf_scope_push(s, ctx);
    wf_unlock(&wf_core(ctx)->lock);
    return s;
}

void weft_scope_end(weft_scope *scope)
{
    if (!scope)
        return;
    /* Only a scope on this thread's stack is touched: ending one twice, or elsewhere, does nothing. */
    weft_scope **link = &innermost;
    while (*link && *link != scope)
        link = &(*link)->below;
    if (!*link) {
        wf_fail(WEFT_E_VALUE, "scope_end: not a scope that is open on this thread");
        return;
    }
    *link = scope->below;

    weft_ctx *ctx = scope->ctx;
    wf_lock(&wf_core(ctx)->lock);
    int64_t dropped = drop_handles(scope);
    wf_free(scope);
    wf_core_unhold_unlock(ctx, dropped);
}
