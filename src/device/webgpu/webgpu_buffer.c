/* webgpu_buffer.c - buffers under client ids, writes, and destruction that waits for work in flight. */
#include <stdio.h>

#include "webgpu_device.h"

/* wgpuQueueWriteBuffer copies into staging that lives until a later submit is done: so that loading a
 * model does not hold it twice, a submit is made each time this much was written, and the one before
 * it waited for. */
#define WRITE_CHUNK_BYTES (8u << 20)
#define WRITE_FLUSH_BYTES (16u << 20)
/* Destroyed buffers that make a new one wait for their work to end. */
#define DEAD_PRESSURE_BYTES (64u << 20)
enum { DEAD_PRESSURE_COUNT = 256 };

static const WGPUBufferUsage every_use = WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst |
                                         WGPUBufferUsage_Uniform | WGPUBufferUsage_Indirect;

wf_wgpu_buffer *wf_wgpu_buffer_find(wf_wgpu *d, uint32_t id)
{
    wf_wgpu_buffer *b = wf_wmap_get(&d->buffers, wf_wmap_id(id));
    if (!b)
        wf_fail(WEFT_E_VALUE, "webgpu: no buffer %u", id);
    return b;
}

weft_status wf_wgpu_buffer_raw(wf_wgpu *d, uint64_t size, WGPUBufferUsage usage, const char *what, WGPUBuffer *out)
{
    WGPUBufferDescriptor desc = {.label = wf_wgpu_sv(what), .usage = usage, .size = size};
    char sentence[96];
    snprintf(sentence, sizeof sentence, "%s of %llu bytes", what, (unsigned long long)size);
    wf_wgpu_scope_push(d);
    WGPUBuffer handle = d->lib.DeviceCreateBuffer(d->device, &desc);
    weft_status st = wf_wgpu_scope_pop(d, sentence);
    if (st == WEFT_OK && !handle)
        st = wf_fail(WEFT_E_OOM, "webgpu: %s: refused", sentence);
    if (st != WEFT_OK && handle)
        d->lib.BufferRelease(handle);
    if (st == WEFT_OK)
        *out = handle;
    return st;
}

/* ---- deferred destruction ---- */

static void destroy_now(wf_wgpu *d, wf_wgpu_dead *dead)
{
    if (!dead->foreign)
        d->lib.BufferDestroy(dead->handle);
    d->lib.BufferRelease(dead->handle);
    if (dead->release)
        dead->release(dead->user);
    d->dead_bytes -= dead->size;
}

void wf_wgpu_collect(wf_wgpu *d)
{
    size_t kept = 0;
    for (size_t i = 0; i < d->n_dead; i++) {
        if (d->dead[i].fence <= d->done_fence)
            destroy_now(d, &d->dead[i]);
        else
            d->dead[kept++] = d->dead[i];
    }
    d->n_dead = kept;
}

/* Wait for everything submitted and free what was only waiting for it. */
static weft_status drain(wf_wgpu *d)
{
    if (d->n_dead == 0)
        return WEFT_OK;
    weft_status st = wf_wgpu_settle(d, wf_wgpu_flush(d));
    wf_wgpu_collect(d);
    return st;
}

/* ---- entries ---- */

weft_status wf_wgpu_buffer_create(wf_device *base, uint32_t id, uint64_t size)
{
    wf_wgpu *d = wf_wgpu_of(base);
    WF_TRY(wf_wgpu_check_lost(d));
    if (id == 0 || wf_wmap_get(&d->buffers, wf_wmap_id(id)))
        return wf_fail(WEFT_E_VALUE, "webgpu: buffer id %u is %s", id, id ? "in use" : "not an id");
    if (size > base->caps.max_buffer_bytes)
        return wf_fail(WEFT_E_OOM, "webgpu: a buffer of %llu bytes was asked for, the device's largest is %llu",
                       (unsigned long long)size, (unsigned long long)base->caps.max_buffer_bytes);
    if (d->n_dead > 0) {
        wf_wgpu_pump(d);
        wf_wgpu_collect(d);
        if (d->dead_bytes > DEAD_PRESSURE_BYTES || d->n_dead > DEAD_PRESSURE_COUNT)
            WF_TRY(drain(d));
    }
    wf_wgpu_buffer *b = wf_calloc(1, sizeof *b);
    if (!b)
        return WEFT_E_OOM;
    *b = (wf_wgpu_buffer){.id = id, .size = size ? wf_align_up(size, 4) : 4, .serial = ++d->serial};
    weft_status st = wf_wgpu_buffer_raw(d, b->size, every_use, "buffer", &b->handle);
    if (st == WEFT_E_OOM && d->n_dead > 0 && drain(d) == WEFT_OK)
        st = wf_wgpu_buffer_raw(d, b->size, every_use, "buffer", &b->handle);
    if (st == WEFT_OK && (st = wf_wmap_put(&d->buffers, wf_wmap_id(id), b)) != WEFT_OK) {
        d->lib.BufferDestroy(b->handle);
        d->lib.BufferRelease(b->handle);
    }
    if (st != WEFT_OK)
        wf_free(b);
    return st;
}

void wf_wgpu_buffer_destroy(wf_device *base, uint32_t id)
{
    wf_wgpu *d = wf_wgpu_of(base);
    wf_wgpu_buffer *b = wf_wmap_remove(&d->buffers, wf_wmap_id(id));
    if (!b)
        return;
    d->epoch++;
    if (b->n_groups > 0)
        wf_wgpu_groups_forget(d, b);
    wf_wgpu_dead dead = {b->handle, b->last_fence, b->foreign ? 0 : b->size, b->foreign || b->shared, b->release, b->user};
    bool busy = dead.fence > d->done_fence && !atomic_load(&d->events->lost);
    wf_free(b);
    d->dead_bytes += dead.size;
    if (busy && wf_grow((void **)&d->dead, &d->dead_capacity, d->n_dead + 1, sizeof *d->dead) == WEFT_OK)
        d->dead[d->n_dead++] = dead;
    else
        destroy_now(d, &dead); /* WebGPU itself keeps memory of submitted work alive */
}

weft_status wf_webgpu_wrap(wf_device *base, uint32_t id, void *buffer, uint64_t need_bytes, void (*release)(void *user), void *user)
{
    static const WGPUBufferUsage needs = WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc;
    wf_wgpu *d = wf_wgpu_of(base);
    WF_TRY(wf_wgpu_check_lost(d));
    WGPUBuffer handle = buffer;
    uint64_t size = d->lib.BufferGetSize(handle);
    if ((d->lib.BufferGetUsage(handle) & needs) != needs)
        return wf_fail(WEFT_E_VALUE, "webgpu: the buffer needs the usages Storage and CopySrc");
    if (need_bytes > size)
        return wf_fail(WEFT_E_VALUE, "webgpu: the tensor ends at byte %llu, the buffer has %llu", (unsigned long long)need_bytes, (unsigned long long)size);
    wf_wgpu_buffer *b = wf_calloc(1, sizeof *b);
    if (!b)
        return wf_fail_oom(sizeof *b);
    *b = (wf_wgpu_buffer){.id = id, .handle = handle, .size = size & ~(uint64_t)3, .serial = ++d->serial, .foreign = true, .release = release, .user = user};
    weft_status st = wf_wmap_put(&d->buffers, wf_wmap_id(id), b);
    if (st == WEFT_OK)
        d->lib.BufferAddRef(handle); /* a handle that its owner gave back ends the process in wgpu-native */
    else
        wf_free(b);
    return st;
}

uint64_t wf_wgpu_flush(wf_wgpu *d)
{
    uint64_t fence = ++d->last_fence;
    d->events->fence = fence + 1;
    uint64_t errors = d->events->error_serial;
    wf_wgpu_send(d, d->lib.DeviceCreateCommandEncoder(d->device, NULL), errors);
    wf_wgpu_watch(d, fence);
    d->written_bytes = 0;
    return fence;
}

/* Keep the queue's staging small: never more than two flushes' worth. */
static weft_status bound_staging(wf_wgpu *d)
{
    if (d->written_bytes < WRITE_FLUSH_BYTES)
        return WEFT_OK;
    uint64_t before = d->flush_fence;
    d->flush_fence = wf_wgpu_flush(d);
    return wf_wgpu_settle(d, before);
}

weft_status wf_wgpu_write(wf_device *base, uint32_t id, uint64_t offset, const void *src, uint64_t n)
{
    wf_wgpu *d = wf_wgpu_of(base);
    WF_TRY(wf_wgpu_check_lost(d));
    wf_wgpu_buffer *b = wf_wgpu_buffer_find(d, id);
    if (!b)
        return WEFT_E_VALUE;
    if (offset % 4 || offset > b->size || n > b->size - offset)
        return wf_fail(WEFT_E_VALUE, "webgpu: write of %llu bytes at %llu: the buffer has %llu, offsets are multiples of 4",
                       (unsigned long long)n, (unsigned long long)offset, (unsigned long long)b->size);
    const char *from = src;
    uint64_t whole = n & ~(uint64_t)3, done = 0, errors = d->events->error_serial;
    b->last_fence = d->last_fence + 1; /* it goes with the next submit */
    while (done < whole) {
        uint64_t step = WF_MIN(whole - done, (uint64_t)WRITE_CHUNK_BYTES);
        d->lib.QueueWriteBuffer(d->queue, b->handle, offset + done, from + done, (size_t)step);
        d->written_bytes += step;
        done += step;
        WF_TRY(bound_staging(d));
        b->last_fence = d->last_fence + 1;
    }
    if (n > whole) { /* sizes are multiples of 4, and so is the buffer's end */
        uint32_t tail = 0;
        memcpy(&tail, from + whole, (size_t)(n - whole));
        d->lib.QueueWriteBuffer(d->queue, b->handle, offset + whole, &tail, sizeof tail);
    }
    if (d->events->error_serial != errors)
        WF_TRY(wf_wgpu_probe(d)); /* any other error comes with the fence */
    return WEFT_OK;
}

void wf_wgpu_buffers_close(wf_wgpu *d)
{
    for (size_t i = 0; i < d->n_dead; i++)
        destroy_now(d, &d->dead[i]);
    wf_free(d->dead);
    d->dead = NULL;
    d->n_dead = d->dead_capacity = 0;
    for (size_t i = 0; i < d->buffers.capacity; i++) {
        wf_wgpu_buffer *b = d->buffers.slots[i].value;
        if (!b)
            continue;
        destroy_now(d, &(wf_wgpu_dead){.handle = b->handle, .foreign = b->foreign || b->shared, .release = b->release, .user = b->user});
        wf_free(b);
    }
    wf_wmap_free(&d->buffers);
}
