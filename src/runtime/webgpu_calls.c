/* webgpu_calls.c - weft beside a program's own WebGPU: its device adopted, buffers taken in and handed out. */
#include "weft/webgpu.h"

#include "build.h"
#include "runtime.h"

weft_status weft_webgpu_adopt(const weft_ctx_opts *opts, void *instance, void *adapter, void *device, void *queue, weft_ctx **out)
{
    if (!instance || !adapter || !device || !queue || !out)
        return wf_fail(WEFT_E_CONTEXT, "webgpu_adopt: the %s is NULL", !instance ? "instance" : !adapter ? "adapter" : !device ? "device"
                       : !queue ? "queue" : "result pointer");
    return wf_ctx_open_on(opts, &(wf_webgpu_handles){instance, adapter, device, queue}, out);
}

static bool is_webgpu(const weft_ctx *ctx)
{
    return strcmp(ctx->dev->vt->name, "webgpu") == 0;
}

void weft_webgpu_lost(weft_ctx *ctx, const char *message)
{
    if (!ctx)
        return;
    wf_lock(&ctx->core.lock);
    if (!ctx->core.closed && is_webgpu(ctx))
        wf_webgpu_note_lost(ctx->dev, message);
    wf_unlock(&ctx->core.lock);
}

/* ---- taking in ---- */

/* The buffer as a row of elements up to the tensor's end; `v` shows the tensor in it. */
static weft_status wrap(weft_ctx *ctx, void *buffer, uint64_t offset, weft_dtype dtype, wf_view *v, void (*release)(void *), void *user,
                        wf_node **out, bool *taken)
{
    uint64_t unit = weft_dtype_block_bytes(dtype), end;
    int64_t numel = wf_view_numel(v), all;
    if (!is_webgpu(ctx))
        return wf_fail(WEFT_E_UNSUPPORTED, "webgpu_tensor: the device is \"%s\", not WebGPU", ctx->dev->caps.info.spec);
    if (offset % unit)
        return wf_fail(WEFT_E_VALUE, "webgpu_tensor: byte %llu is not a multiple of the %llu bytes of %s", (unsigned long long)offset,
                       (unsigned long long)unit, weft_dtype_name(dtype));
    if (numel == 0)
        return wf_fail(WEFT_E_SHAPE, "webgpu_tensor: the tensor is empty");
    if (offset / unit > INT64_MAX / 2 || __builtin_add_overflow(numel, (int64_t)(offset / unit), &all) || __builtin_mul_overflow((uint64_t)all, unit, &end) ||
        end > UINT64_MAX - 4)
        return wf_fail(WEFT_E_VALUE, "webgpu_tensor: byte %llu and %lld elements are more than any buffer holds", (unsigned long long)offset, (long long)numel);
    const int64_t row[WEFT_MAX_RANK] = {all};
    wf_node *n = offset ? wf_node_new(ctx, WF_OP_LEAF, dtype, 0, 1, row) : wf_node_new(ctx, WF_OP_LEAF, dtype, 0, v->rank, v->shape);
    wf_storage *s = NULL;
    if (!n)
        return WEFT_E_OOM;
    uint32_t id = ++ctx->next_id;
    weft_status st = wf_storage_new(ctx, 0, WF_LAYOUT_PLAIN, &s);
    if (st == WEFT_OK)
        st = wf_webgpu_wrap(ctx->dev, id, buffer, wf_align_up(end, 4), release, user);
    if (st != WEFT_OK) {
        wf_storage_release(s);
        wf_node_sink(n);
        return st;
    }
    *taken = true;
    wf_storage_lend(s, id, wf_align_up(end, 4));
    n->storage = s;
    v->offset = (int64_t)(offset / unit);
    *out = n;
    return WEFT_OK;
}

weft_tensor *weft_webgpu_tensor(weft_ctx *ctx, void *buffer, uint64_t offset, weft_dtype dtype, int rank, const int64_t *shape,
                                void (*release)(void *user), void *user)
{
    weft_tensor *r;
    wf_view v;
    wf_node *n = NULL;
    bool taken = false;
    if (!wf_enter_ctx("webgpu_tensor", ctx, &r)) {
        if (release)
            release(user);
        return r;
    }
    weft_status st = WEFT_OK;
    if (!buffer)
        st = wf_fail(WEFT_E_CONTEXT, "webgpu_tensor: the buffer is NULL");
    else if (!wf_dtype_known(dtype) || weft_dtype_is_quantised(dtype))
        st = wf_fail(WEFT_E_DTYPE, "webgpu_tensor: %s has no elements of its own", wf_dtype_known(dtype) ? weft_dtype_name(dtype) : "this number of a dtype");
    if (st == WEFT_OK)
        st = wf_view_contiguous("webgpu_tensor", rank, shape, &v);
    if (st == WEFT_OK)
        st = wrap(ctx, buffer, offset, dtype, &v, release, user, &n, &taken);
    r = wf_leave(ctx, st == WEFT_OK ? wf_tensor_new(ctx, n, &v) : wf_tensor_error_last(ctx, st));
    if (!taken && release)
        release(user);
    return r;
}

/* ---- handing out ---- */

weft_status weft_webgpu_buffer(weft_tensor *t, void **buffer, uint64_t *offset, weft_tensor **held)
{
    if (!t || !buffer || !offset || !held)
        return wf_fail(WEFT_E_CONTEXT, "webgpu_buffer: the %s is NULL", t ? "result pointer" : "tensor");
    if (t->status != WEFT_OK)
        return wf_fail(t->status, "%s", weft_tensor_message(t));
    weft_ctx *ctx = t->ctx;
    if (weft_dtype_is_quantised((weft_dtype)t->node->dtype))
        return wf_fail(WEFT_E_DTYPE, "webgpu_buffer: %s has no elements of its own", weft_dtype_name((weft_dtype)t->node->dtype));
    WF_TRY(wf_ctx_enter(ctx, "webgpu_buffer"));
    weft_status st = WEFT_OK;
    weft_tensor *c = NULL;
    if (!is_webgpu(ctx))
        st = wf_fail(WEFT_E_UNSUPPORTED, "webgpu_buffer: the device is \"%s\", not WebGPU", ctx->dev->caps.info.spec);
    else
        st = wf_materialise(ctx, t, &c);
    void *handle = st == WEFT_OK && c->node->storage && c->node->storage->buffer ? wf_webgpu_handle(ctx->dev, c->node->storage->buffer) : NULL;
    if (st == WEFT_OK && !handle)
        st = wf_fail(WEFT_E_UNSUPPORTED, "webgpu_buffer: the tensor has no elements");
    if (st == WEFT_OK) {
        *buffer = handle;
        *offset = (uint64_t)c->view.offset * weft_dtype_block_bytes((weft_dtype)c->node->dtype);
        *held = c;
    } else {
        weft_tensor_release(c);
    }
    wf_ctx_leave(ctx);
    return st;
}
