/* scope.h - scopes, and the reference that handles and scopes hold on their context. */
#ifndef WF_SCOPE_H
#define WF_SCOPE_H

#include "node.h"

struct weft_scope {
    weft_ctx *ctx;
    weft_scope *below; /* on this thread's stack */
    weft_tensor *first;
};

/* All under the context's lock. */
void wf_scope_push(weft_scope *s, weft_ctx *ctx);   /* s is the innermost scope from now on */
void wf_scope_pop_unlock(weft_scope *s);            /* s, innermost, ends: its handles lose one reference each; unlocks */
void wf_scope_adopt(weft_tensor *t);                /* a new handle joins the innermost scope, if any */
void wf_scope_adopt_from(weft_scope *s, weft_tensor *t); /* the innermost from s on that is of t's context */
void wf_scope_disown(weft_tensor *t);
void wf_tensor_free(weft_tensor *t);                /* a handle without references; the hold stays */

static inline void wf_core_hold(wf_core_ctx *core)
{
    if (core->holds++ == 0)
        atomic_fetch_add_explicit(&core->refs, 1, memory_order_relaxed);
}
/* Gives n holds back and unlocks; the context's memory may be gone after it. */
void wf_core_unhold_unlock(weft_ctx *ctx, int64_t n);

#endif
