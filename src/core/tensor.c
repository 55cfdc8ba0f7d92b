/* tensor.c - handles: making, counting and inspecting them, and error tensors.
 *
 * Handles come from a freelist of their context. All handles and scopes of a context own one reference
 * of it together, so that memory stays valid after the context is closed. Three error tensors are static:
 * they stand in where no context, or no memory, is there to make one.
 */
#include "build.h"
#include "scope.h"

#include <stdio.h>

enum { FREE_MAX = 8192 };

static char text_null[] = "a required tensor or context is NULL";
static char text_value[] = "no tensors were given";
static char text_oom[] = "out of memory";
static weft_tensor static_null = {.status = WEFT_E_CONTEXT, .message = text_null};
static weft_tensor static_value = {.status = WEFT_E_VALUE, .message = text_value};
static weft_tensor static_oom = {.status = WEFT_E_OOM, .message = text_oom};

/* ---- making ---- */

static inline weft_tensor *take_block(wf_core_ctx *core)
{
    weft_tensor *t = core->free_tensors;
    if (t) {
        core->free_tensors = t->scope_next;
        core->n_free_tensors--;
    } else {
        t = wf_alloc(sizeof *t);
        if (!t)
            return NULL;
    }
    core->live_tensors++;
    wf_core_hold(core);
    return t;
}

weft_tensor *wf_tensor_begin(weft_ctx *ctx, wf_node *node)
{
    weft_tensor *t = take_block(wf_core(ctx));
    if (!t) {
        wf_node_sink(node);
        return NULL;
    }
    atomic_init(&t->refs, 1);
    t->status = WEFT_OK;
    t->message = NULL;
    t->ctx = ctx;
    t->node = node;
    node->refs++;
    node->handles++;
    wf_scope_adopt(t);
    return t;
}

/* The view of a whole node. Its count is known to fit, so that nothing is checked. */
static inline void whole_view(const wf_node *n, wf_view *out)
{
    out->rank = n->rank;
    out->pad_ = 0;
    out->offset = 0;
    uint64_t stride = 1;
#pragma GCC unroll 8
    for (int k = WEFT_MAX_RANK - 1; k >= 0; k--) {
        int64_t extent = n->shape[k];
        out->shape[k] = extent;
        out->strides[k] = extent == 1 ? 0 : (int64_t)stride;
        stride *= (uint64_t)extent;
    }
    if (__builtin_expect(n->numel == 0, 0))
        memset(out->strides, 0, sizeof out->strides);
}

weft_tensor *wf_tensor_new(weft_ctx *ctx, wf_node *node, const wf_view *view)
{
    weft_tensor *t = wf_tensor_begin(ctx, node);
    if (!t)
        return &static_oom;
    if (view)
        t->view = *view;
    else
        whole_view(node, &t->view);
    return t;
}

static weft_tensor *new_error(weft_ctx *ctx, weft_status st, const char *message)
{
    if (!ctx)
        return st == WEFT_E_OOM ? &static_oom : st == WEFT_E_VALUE ? &static_value : &static_null;
    wf_core_ctx *core = wf_core(ctx);
    wf_lock(&core->lock);
    weft_tensor *t = take_block(core);
    if (t) {
        atomic_init(&t->refs, 1);
        t->status = st;
        t->message = wf_strdup(message); /* NULL: the status name stands in */
        t->ctx = ctx;
        t->node = NULL;
        static const int64_t ones[WEFT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
        wf_view_rows(0, ones, &t->view);
        wf_scope_adopt(t);
    }
    wf_unlock(&core->lock);
    return t ? t : &static_oom;
}

weft_tensor *wf_tensor_error(weft_ctx *ctx, weft_status st, const char *fmt, ...)
{
    char message[WF_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    wf_fail(st, "%s", message);
    return new_error(ctx, st, message);
}

weft_tensor *wf_tensor_error_last(weft_ctx *ctx, weft_status st)
{
    char message[WF_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", weft_error_message());
    return new_error(ctx, st, message);
}

weft_tensor *wf_enter_failed(const char *who, int n, weft_tensor *const *in)
{
    weft_ctx *ctx = NULL;
    for (int i = 0; i < n && !ctx; i++)
        if (in[i])
            ctx = in[i]->ctx;
    for (int i = 0; i < n; i++)
        if (in[i] && in[i]->status != WEFT_OK) {
            if (!ctx)
                return in[i];
            return new_error(ctx, in[i]->status, weft_tensor_message(in[i]));
        }
    for (int i = 0; i < n; i++)
        if (!in[i])
            return wf_tensor_error(ctx, WEFT_E_CONTEXT, "%s: input %d is NULL", who, i);
    for (int i = 0; i < n; i++)
        if (in[i]->ctx != ctx)
            return wf_tensor_error(ctx, WEFT_E_CONTEXT, "%s: inputs 0 and %d belong to two contexts, of which each has its own device", who, i);
    return wf_tensor_error(ctx, WEFT_E_CONTEXT, "%s: the context is closed", who);
}

bool wf_enter_ctx(const char *who, weft_ctx *ctx, weft_tensor **fail)
{
    if (!ctx) {
        *fail = wf_tensor_error(NULL, WEFT_E_CONTEXT, "%s: the context is NULL", who);
        return false;
    }
    wf_lock(&wf_core(ctx)->lock);
    if (!wf_core(ctx)->closed)
        return true;
    *fail = wf_tensor_error(ctx, WEFT_E_CONTEXT, "%s: the context is closed", who);
    wf_unlock(&wf_core(ctx)->lock);
    return false;
}

/* ---- counting ---- */

void wf_tensor_free(weft_tensor *t)
{
    wf_core_ctx *core = wf_core(t->ctx);
    wf_scope_disown(t);
    if (t->node) {
        t->node->handles--;
        wf_node_unref(t->node);
    } else {
        wf_free(t->message);
    }
    core->live_tensors--;
    if (core->n_free_tensors < FREE_MAX) {
        t->scope_next = core->free_tensors;
        core->free_tensors = t;
        core->n_free_tensors++;
    } else {
        wf_free(t);
    }
}

weft_tensor *weft_tensor_retain(weft_tensor *t)
{
    if (t && t->ctx)
        atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

void weft_tensor_release(weft_tensor *t)
{
    if (!t || !t->ctx || atomic_fetch_sub(&t->refs, 1) != 1)
        return;
    weft_ctx *ctx = t->ctx;
    wf_lock(&wf_core(ctx)->lock);
    wf_tensor_free(t);
    wf_core_unhold_unlock(ctx, 1);
}

weft_tensor *weft_keep(weft_tensor *t)
{
    if (!t || !t->ctx)
        return t;
    wf_lock(&wf_core(t->ctx)->lock);
    wf_scope_disown(t);
    wf_unlock(&wf_core(t->ctx)->lock);
    return t;
}

/* ---- inspection ---- */

weft_status weft_tensor_status(const weft_tensor *t)
{
    return t ? t->status : WEFT_E_CONTEXT;
}

const char *weft_tensor_message(const weft_tensor *t)
{
    if (!t)
        return text_null;
    if (t->status == WEFT_OK)
        return "";
    return t->message ? t->message : weft_status_name(t->status);
}

int weft_tensor_rank(const weft_tensor *t)
{
    return t ? t->view.rank : 0;
}

const int64_t *weft_tensor_shape(const weft_tensor *t)
{
    static const int64_t none[WEFT_MAX_RANK];
    return t && t->status == WEFT_OK ? t->view.shape : none;
}

const int64_t *weft_tensor_strides(const weft_tensor *t)
{
    static const int64_t none[WEFT_MAX_RANK];
    return t && t->status == WEFT_OK ? t->view.strides : none;
}

int64_t weft_tensor_dim(const weft_tensor *t, int axis)
{
    int rank = weft_tensor_rank(t);
    if (axis < -rank || axis >= rank)
        return -1;
    return t->view.shape[axis < 0 ? axis + rank : axis];
}

int64_t weft_tensor_numel(const weft_tensor *t)
{
    return t && t->status == WEFT_OK ? wf_view_numel(&t->view) : 0;
}

weft_dtype weft_tensor_dtype(const weft_tensor *t)
{
    return t && t->node ? (weft_dtype)t->node->dtype : WEFT_DTYPE_F32;
}

size_t weft_tensor_nbytes(const weft_tensor *t)
{
    return wf_dtype_bytes(weft_tensor_dtype(t), weft_tensor_numel(t));
}

bool weft_tensor_is_contiguous(const weft_tensor *t)
{
    return t && t->status == WEFT_OK && wf_view_is_contiguous(&t->view);
}

weft_ctx *weft_tensor_ctx(const weft_tensor *t)
{
    return t ? t->ctx : NULL;
}
