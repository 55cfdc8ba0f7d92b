/* read.c - reading tensors back: at once, converted, or with a fence. */
#include <math.h>

#include "quant.h"
#include "runtime.h"

struct weft_fence {
    weft_ctx *ctx;
    uint64_t fence;
    bool done;
    weft_status status;
    void *target;          /* of the device's read: dst or staging; NULL: none was started */
    uint8_t *staging;      /* aligned bytes, when dst cannot take them directly; else NULL */
    size_t skip;           /* of the staging bytes before the first wanted one */
    void *dst;
    size_t size_bytes;
    weft_dtype planar;     /* block type to convert from planar */
    bool is_planar;
    int64_t n_blocks, first_block, section_blocks;
    weft_tensor *held;     /* keeps the storage until the read is done */
};

weft_status wf_materialise(weft_ctx *ctx, weft_tensor *t, weft_tensor **out)
{
    weft_tensor *c = wf_view_is_contiguous(&t->view) ? weft_tensor_retain(t) : weft_keep(weft_contiguous(t));
    weft_status st = weft_tensor_status(c);
    bool waited;
    if (st != WEFT_OK)
        wf_fail(st, "%s", weft_tensor_message(c));
    else if (!c->node->storage)
        st = wf_eval_nodes(ctx, &c->node, 1, &waited);
    if (st != WEFT_OK) {
        weft_tensor_release(c);
        return st;
    }
    *out = c;
    return WEFT_OK;
}

/* What a trial of weft_device_supports reads. */
static void write_ones(weft_dtype dtype, uint8_t *dst, size_t size_bytes)
{
    const float one_f32 = 1;
    const double one_f64 = 1;
    const uint16_t one_f16 = 0x3c00, one_bf16 = 0x3f80;
    const uint64_t one = 1; /* of a little-endian host; block types get bytes of it */
    const void *from = dtype == WEFT_DTYPE_F32 ? (const void *)&one_f32 : dtype == WEFT_DTYPE_F64 ? (const void *)&one_f64
                       : dtype == WEFT_DTYPE_F16 ? (const void *)&one_f16 : dtype == WEFT_DTYPE_BF16 ? (const void *)&one_bf16 : (const void *)&one;
    size_t unit = weft_dtype_block_bytes(dtype);
    memset(dst, 0, size_bytes);
    for (size_t at = 0; at + unit <= size_bytes && unit <= 8; at += unit)
        memcpy(dst + at, from, unit);
}

static weft_status start_read(weft_ctx *ctx, weft_tensor *t, void *dst, size_t size_bytes, weft_fence *f)
{
    weft_dtype dtype = (weft_dtype)t->node->dtype;
    wf_storage *s = t->node->storage;
    size_t unit = weft_dtype_block_bytes(dtype);
    uint64_t begin = (uint64_t)(t->view.offset / weft_dtype_block(dtype)) * unit, end = begin + size_bytes;
    *f = (weft_fence){.ctx = ctx, .dst = dst, .size_bytes = size_bytes};
    if (!s || s->trial) {
        write_ones(dtype, dst, size_bytes);
        f->done = true;
        return WEFT_OK;
    }
    if (size_bytes == 0 || !s || !s->buffer) {
        f->done = true;
        return WEFT_OK;
    }
    if (s->layout == WF_LAYOUT_PLANAR) {
        f->is_planar = true;
        f->planar = dtype;
        f->n_blocks = t->node->numel / weft_dtype_block(dtype);
        f->section_blocks = s->section_blocks;
        f->first_block = t->view.offset / weft_dtype_block(dtype);
        begin = 0;
        end = s->size_bytes;
    } else if (ctx->dev->vt->map) {
        const uint8_t *bytes = ctx->dev->vt->map(ctx->dev, s->buffer);
        if (bytes) {
            memcpy(dst, bytes + begin, size_bytes);
            ctx->stats.bytes_down += size_bytes;
            f->done = true;
            return WEFT_OK;
        }
    }
    uint64_t from = begin & ~(uint64_t)3, to = wf_align_up(end, 4);
    f->target = dst;
    if (f->is_planar || from != begin || to != end) {
        f->target = f->staging = wf_alloc((size_t)(to - from));
        if (!f->target)
            return wf_fail_oom((size_t)(to - from));
        f->skip = (size_t)(begin - from);
    }
    ctx->stats.bytes_down += to - from;
    f->held = weft_tensor_retain(t);
    return ctx->dev->vt->read(ctx->dev, s->buffer, from, f->target, to - from, &f->fence);
}

static weft_status finish_read(weft_fence *f)
{
    if (f->is_planar)
        return wf_quant_from_sections(f->planar, f->n_blocks, f->section_blocks, f->staging, f->dst, f->first_block,
                                      (int64_t)(f->size_bytes / weft_dtype_block_bytes(f->planar)));
    if (f->staging)
        memcpy(f->dst, f->staging + f->skip, f->size_bytes);
    return WEFT_OK;
}

static weft_status wait_read(weft_fence *f, int64_t timeout_ns)
{
    if (f->done)
        return f->status;
    if (f->ctx->core.closed) {
        f->done = true;
        return f->status = wf_fail(WEFT_E_CONTEXT, "read: the context was closed");
    }
    weft_status st = f->ctx->dev->vt->wait(f->ctx->dev, f->fence, timeout_ns);
    if (st == WEFT_E_TIMEOUT)
        return st;
    f->done = true;
    return f->status = st == WEFT_OK ? finish_read(f) : st;
}

void wf_ctx_forget(weft_ctx *ctx, void *dst)
{
    if (ctx->dev && ctx->dev->vt->forget)
        ctx->dev->vt->forget(ctx->dev, dst);
}

weft_status wf_read_back(weft_ctx *ctx, uint32_t buffer, uint64_t offset, void *dst, uint64_t size_bytes)
{
    uint64_t fence;
    weft_status st = ctx->dev->vt->read(ctx->dev, buffer, offset, dst, size_bytes, &fence);
    if (st == WEFT_OK)
        st = ctx->dev->vt->wait(ctx->dev, fence, -1);
    if (st != WEFT_OK)
        wf_ctx_forget(ctx, dst);
    return st;
}

static void drop_read(weft_fence *f)
{
    if (f->target && (!f->done || f->status != WEFT_OK))
        wf_ctx_forget(f->ctx, f->target);
    wf_free(f->staging);
    weft_tensor_release(f->held);
}

static weft_status check_tensor(weft_tensor *t, const char *who)
{
    if (!t)
        return wf_fail(WEFT_E_CONTEXT, "%s: the tensor is NULL", who);
    if (t->status != WEFT_OK)
        return wf_fail(t->status, "%s", weft_tensor_message(t));
    return WEFT_OK;
}

static weft_status read_locked(weft_ctx *ctx, weft_tensor *t, void *dst, size_t size_bytes)
{
    weft_tensor *c;
    weft_fence f;
    WF_TRY(wf_materialise(ctx, t, &c));
    weft_status st = start_read(ctx, c, dst, size_bytes, &f);
    if (st == WEFT_OK)
        st = wait_read(&f, -1);
    drop_read(&f);
    weft_tensor_release(c);
    return st;
}

weft_status weft_read(weft_tensor *t, void *dst, size_t size_bytes)
{
    WF_TRY(check_tensor(t, "read"));
    if (size_bytes != weft_tensor_nbytes(t))
        return wf_fail(WEFT_E_VALUE, "read: the tensor has %zu bytes, the buffer %zu", weft_tensor_nbytes(t), size_bytes);
    if (size_bytes && !dst)
        return wf_fail(WEFT_E_VALUE, "read: the buffer is NULL");
    WF_TRY(wf_ctx_enter(t->ctx, "read"));
    weft_status st = read_locked(t->ctx, t, dst, size_bytes);
    wf_ctx_leave(t->ctx);
    return st;
}

weft_status weft_tensor_map(weft_tensor *t, const void **data, int64_t *strides)
{
    bool waited;
    WF_TRY(check_tensor(t, "map"));
    weft_dtype dtype = (weft_dtype)t->node->dtype;
    if (!data)
        return wf_fail(WEFT_E_VALUE, "map: the result pointer is NULL");
    if (weft_dtype_is_quantised(dtype))
        return wf_fail(WEFT_E_DTYPE, "map: %s has no elements of its own", weft_dtype_name(dtype));
    weft_ctx *ctx = t->ctx;
    WF_TRY(wf_ctx_enter(ctx, "map"));
    weft_status st = ctx->dev->vt->map && ctx->dev->caps.runs_kir ? WEFT_OK : wf_fail(WEFT_E_UNSUPPORTED, "map: the elements are not in host memory");
    if (st == WEFT_OK && !t->node->storage)
        st = wf_eval_nodes(ctx, &t->node, 1, &waited);
    if (st == WEFT_OK) {
        const wf_storage *s = t->node->storage;
        const uint8_t *bytes = s && s->buffer && wf_view_numel(&t->view) > 0 ? ctx->dev->vt->map(ctx->dev, s->buffer) : NULL;
        *data = bytes ? bytes + t->view.offset * (int64_t)weft_dtype_block_bytes(dtype) : NULL;
        for (int k = 0; strides && k < t->view.rank; k++)
            strides[k] = t->view.strides[k];
    }
    wf_ctx_leave(ctx);
    return st;
}

weft_status weft_read_async(weft_tensor *t, void *dst, size_t size_bytes, weft_fence **out)
{
    WF_TRY(check_tensor(t, "read_async"));
    if (size_bytes != weft_tensor_nbytes(t))
        return wf_fail(WEFT_E_VALUE, "read_async: the tensor has %zu bytes, the buffer %zu", weft_tensor_nbytes(t), size_bytes);
    if (!out || (size_bytes && !dst))
        return wf_fail(WEFT_E_VALUE, "read_async: the %s is NULL", out ? "buffer" : "result pointer");
    weft_fence *f = wf_calloc(1, sizeof *f);
    if (!f)
        return wf_fail_oom(sizeof *f);
    weft_status st = wf_ctx_enter(t->ctx, "read_async");
    if (st != WEFT_OK) {
        wf_free(f);
        return st;
    }
    weft_tensor *c;
    st = wf_materialise(t->ctx, t, &c);
    if (st == WEFT_OK) {
        st = start_read(t->ctx, c, dst, size_bytes, f);
        weft_tensor_release(c);
    }
    atomic_fetch_add(&t->ctx->core.refs, 1);
    weft_ctx *ctx = t->ctx;
    bool tapped = ctx->taps != NULL;
    wf_unlock(&ctx->core.lock);
    if (st != WEFT_OK) {
        drop_read(f);
        wf_free(f);
        wf_core_release(ctx);
        return st;
    }
    *out = f;
    if (tapped)
        wf_taps_deliver(ctx);
    return WEFT_OK;
}

weft_status weft_fence_wait(weft_fence *fence, int64_t timeout_ms)
{
    if (!fence)
        return wf_fail(WEFT_E_CONTEXT, "fence_wait: the fence is NULL");
    wf_lock(&fence->ctx->core.lock);
    weft_status st = wait_read(fence, timeout_ms < 0 ? -1 : timeout_ms > INT64_MAX / 1000000 ? INT64_MAX : timeout_ms * 1000000);
    wf_unlock(&fence->ctx->core.lock);
    return st;
}

void weft_fence_destroy(weft_fence *fence)
{
    if (!fence)
        return;
    weft_ctx *ctx = fence->ctx;
    wf_lock(&ctx->core.lock);
    wait_read(fence, -1);
    drop_read(fence);
    wf_unlock(&ctx->core.lock);
    wf_free(fence);
    wf_core_release(ctx);
}

weft_status weft_ctx_sync(weft_ctx *ctx)
{
    WF_TRY(wf_ctx_enter(ctx, "ctx_sync"));
    wf_cmdlist nothing = {0};
    uint64_t fence;
    weft_status st = ctx->dev->vt->submit(ctx->dev, &nothing, &fence);
    if (st == WEFT_OK)
        st = ctx->dev->vt->wait(ctx->dev, fence, -1);
    wf_unlock(&ctx->core.lock);
    return st;
}
