/* composite.c - scopes of composites, and the results that leave them; see composite.h. */
#include "composite.h"

#include <stdarg.h>
#include <stdio.h>

#include "build.h"

bool wf_composite_begin(wf_composite *c, const char *who, int n_required, int n, weft_tensor *const *in)
{
    weft_tensor *there[WEFT_MAX_RANK * 2] = {NULL};
    int n_there = 0;
    for (int i = 0; i < n && n_there < (int)WF_COUNT(there); i++)
        if (in[i] || i < n_required)
            there[n_there++] = in[i];
    c->who = who;
    if (!wf_enter(who, n_there, there, &c->failed))
        return false;
    c->ctx = there[0]->ctx;
    wf_scope_push(&c->scope, c->ctx);
    wf_unlock(&wf_core(c->ctx)->lock);
    return true;
}

bool wf_composite_begin_ctx(wf_composite *c, const char *who, weft_ctx *ctx)
{
    c->who = who;
    if (!wf_enter_ctx(who, ctx, &c->failed))
        return false;
    c->ctx = ctx;
    wf_scope_push(&c->scope, ctx);
    wf_unlock(&wf_core(ctx)->lock);
    return true;
}

static weft_tensor *hand_out(wf_composite *c, weft_tensor *t)
{
    if (t->scope != &c->scope) /* an input, or given before: the caller gets one more handle of its own */
        t = t->status == WEFT_OK ? wf_same_value(t) : wf_tensor_error(c->ctx, t->status, "%s", weft_tensor_message(t));
    if (t->scope == &c->scope) {
        wf_scope_disown(t);
        wf_scope_adopt_from(c->scope.below, t);
    }
    return t;
}

weft_tensor *wf_composite_give(wf_composite *c, weft_tensor *t)
{
    if (!t)
        t = wf_tensor_error(c->ctx, WEFT_E_INTERNAL, "%s: a result is missing", c->who);
    if (!t->ctx)
        return t; /* static: what stands in when memory is out */
    wf_lock(&wf_core(c->ctx)->lock);
    t = hand_out(c, t);
    wf_unlock(&wf_core(c->ctx)->lock);
    return t;
}

weft_tensor *wf_composite_end(wf_composite *c, weft_tensor *t)
{
    t = wf_composite_give(c, t);
    wf_lock(&wf_core(c->ctx)->lock);
    wf_scope_pop_unlock(&c->scope);
    return t;
}

weft_tensor *wf_composite_fail(wf_composite *c, weft_status st, const char *fmt, ...)
{
    char sentence[WF_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, args);
    va_end(args);
    return wf_composite_end(c, wf_tensor_error(c->ctx, st, "%s: %s", c->who, sentence));
}
