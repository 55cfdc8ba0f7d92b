/* webgpu_read.c - readback: a copy into a mapped staging buffer, taken from a pool by size class.
 *
 * read() encodes and submits the copy and asks for the mapping at once; wait() copies out of the mapped
 * memory. Long reads go in pieces, and a bound on the bytes in flight makes read() itself wait for the
 * oldest piece, so reading a large tensor holds a bounded amount of staging.
 */
#include "webgpu_device.h"

#define PIECE_BYTES (16u << 20)         /* the largest class */
#define FLIGHT_BYTES (64u << 20)
#define KEEP_BYTES (48u << 20)          /* idle staging */
enum { SMALLEST_CLASS_BITS = 8 };

enum { STAGE_MAPPING, STAGE_MAPPED, STAGE_FAILED };

struct wf_wgpu_stage {
    wf_wgpu_stage *next;
    wf_wgpu *owner;
    WGPUBuffer handle;
    int class;
    int state;
    uint64_t fence;
    void *dst; /* valid until its fence is waited for, or NULL: forgotten */
    void *whole; /* where the whole read goes, of which this is a piece */
    uint64_t n;
    char message[200];
};

static uint64_t class_bytes(int class)
{
    return (uint64_t)1 << (SMALLEST_CLASS_BITS + class);
}

static int class_of(uint64_t n)
{
    int class = 0;
    while (class < WF_WGPU_STAGE_CLASSES - 1 && class_bytes(class) < n)
        class++;
    return class;
}

static void destroy(wf_wgpu *d, wf_wgpu_stage *s)
{
    d->lib.BufferDestroy(s->handle);
    d->lib.BufferRelease(s->handle);
    wf_free(s);
}

static void recycle(wf_wgpu *d, wf_wgpu_stage *s)
{
    if (s->state == STAGE_FAILED || d->stage_free_bytes + class_bytes(s->class) > KEEP_BYTES) {
        destroy(d, s);
        return;
    }
    s->next = d->stage_free[s->class];
    d->stage_free[s->class] = s;
    d->stage_free_bytes += class_bytes(s->class);
}

static weft_status acquire(wf_wgpu *d, uint64_t n, wf_wgpu_stage **out)
{
    int class = class_of(n);
    wf_wgpu_stage *s = d->stage_free[class];
    if (s) {
        d->stage_free[class] = s->next;
        d->stage_free_bytes -= class_bytes(class);
        *out = s;
        return WEFT_OK;
    }
    s = wf_calloc(1, sizeof *s);
    if (!s)
        return WEFT_E_OOM;
    *s = (wf_wgpu_stage){.owner = d, .class = class};
    weft_status st = wf_wgpu_buffer_raw(d, class_bytes(class), WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst, "staging buffer",
                                        &s->handle);
    if (st != WEFT_OK) {
        wf_free(s);
        return st;
    }
    *out = s;
    return WEFT_OK;
}

static void on_map(WGPUMapAsyncStatus status, WGPUStringView message, void *stage, void *unused)
{
    (void)unused;
    wf_wgpu_stage *s = stage;
    s->state = status == WGPUMapAsyncStatus_Success ? STAGE_MAPPED : STAGE_FAILED;
    if (s->state == STAGE_FAILED)
        wf_wgpu_sv_copy(message, s->message, sizeof s->message);
    s->owner->n_callbacks--;
    /* The queue is in order: whatever was submitted before the copy is finished too. */
    if (s->fence > s->owner->done_fence)
        s->owner->done_fence = s->fence;
}

static weft_status copy_out(wf_wgpu *d, wf_wgpu_stage *s)
{
    uint64_t mapped = wf_align_up(s->n, 4);
    WF_TRY(wf_wgpu_probe(d)); /* wgpu-native ends the process on a mapped range of a lost device */
    if (s->state == STAGE_FAILED)
        return wf_fail(WEFT_E_INTERNAL, "webgpu: a readback of %llu bytes failed: %s", (unsigned long long)s->n, s->message);
    const void *p = d->lib.BufferGetConstMappedRange(s->handle, 0, (size_t)mapped);
    if (p && s->dst)
        memcpy(s->dst, p, (size_t)s->n);
    d->lib.BufferUnmap(s->handle);
    return p ? WEFT_OK : wf_fail(WEFT_E_INTERNAL, "webgpu: a readback of %llu bytes has no mapped range", (unsigned long long)s->n);
}

bool wf_wgpu_reads_pending(const wf_wgpu *d, uint64_t fence)
{
    return d->stage_first && d->stage_first->fence <= fence;
}

weft_status wf_wgpu_reads_harvest(wf_wgpu *d, uint64_t fence)
{
    weft_status st = WEFT_OK;
    while (d->stage_first && d->stage_first->fence <= fence && d->stage_first->state != STAGE_MAPPING) {
        wf_wgpu_stage *s = d->stage_first;
        d->stage_first = s->next;
        if (!d->stage_first)
            d->stage_last = NULL;
        d->stage_flight_bytes -= class_bytes(s->class);
        weft_status one = copy_out(d, s);
        if (st == WEFT_OK)
            st = one;
        recycle(d, s);
    }
    return st;
}

/* After the device is lost: nothing is written to the callers' memory any more. */
void wf_wgpu_reads_drop(wf_wgpu *d)
{
    while (d->stage_first) {
        wf_wgpu_stage *s = d->stage_first;
        d->stage_first = s->next;
        if (s->state == STAGE_MAPPING) { /* its callback is still due */
            s->next = d->stage_lost;
            d->stage_lost = s;
        } else {
            destroy(d, s);
        }
    }
    d->stage_last = NULL;
    d->stage_flight_bytes = 0;
}

static weft_status start(wf_wgpu *d, wf_wgpu_buffer *b, uint64_t offset, void *whole, uint64_t at, uint64_t n)
{
    wf_wgpu_stage *s;
    WF_TRY(acquire(d, n, &s));
    uint64_t copied = wf_align_up(n, 4);
    s->fence = ++d->last_fence;
    d->events->fence = s->fence;
    s->dst = (char *)whole + at;
    s->whole = whole;
    s->n = n;
    s->state = STAGE_MAPPING;
    s->next = NULL;

    uint64_t errors = d->events->error_serial;
    WGPUCommandEncoder encoder = d->lib.DeviceCreateCommandEncoder(d->device, NULL);
    d->lib.CommandEncoderCopyBufferToBuffer(encoder, b->handle, offset, s->handle, 0, copied);
    wf_wgpu_send(d, encoder, errors);
    d->written_bytes = 0;
    b->last_fence = s->fence;

    if (d->stage_last)
        d->stage_last->next = s;
    else
        d->stage_first = s;
    d->stage_last = s;
    d->stage_flight_bytes += class_bytes(s->class);
    d->n_callbacks++;
    WGPUBufferMapCallbackInfo info = {.mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_map, .userdata1 = s};
    d->lib.BufferMapAsync(s->handle, WGPUMapMode_Read, 0, (size_t)copied, info);
    d->events->fence = s->fence + 1;
    return WEFT_OK;
}

/* The pieces in flight of the reads to `dst` write nothing any more. */
void wf_wgpu_forget(wf_device *base, void *dst)
{
    for (wf_wgpu_stage *s = wf_wgpu_of(base)->stage_first; s; s = s->next)
        if (s->whole == dst)
            s->dst = NULL;
}

weft_status wf_wgpu_read(wf_device *base, uint32_t id, uint64_t offset, void *dst, uint64_t n, uint64_t *fence)
{
    wf_wgpu *d = wf_wgpu_of(base);
    WF_TRY(wf_wgpu_check_lost(d));
    wf_wgpu_buffer *b = wf_wgpu_buffer_find(d, id);
    if (!b)
        return WEFT_E_VALUE;
    if (offset % 4 || offset > b->size || n > b->size - offset)
        return wf_fail(WEFT_E_VALUE, "webgpu: read of %llu bytes at %llu: the buffer has %llu, offsets are multiples of 4",
                       (unsigned long long)n, (unsigned long long)offset, (unsigned long long)b->size);
    weft_status st = WEFT_OK;
    for (uint64_t done = 0; done < n && st == WEFT_OK;) {
        uint64_t step = WF_MIN(n - done, (uint64_t)PIECE_BYTES);
        if (d->stage_flight_bytes > FLIGHT_BYTES)
            st = wf_wgpu_settle(d, d->stage_first->fence);
        if (st == WEFT_OK)
            st = start(d, b, offset + done, dst, done, step);
        done += step;
    }
    if (st != WEFT_OK) {
        wf_wgpu_forget(base, dst);
        return st;
    }
    *fence = d->last_fence;
    return WEFT_OK;
}

void wf_wgpu_reads_close(wf_wgpu *d)
{
    wf_wgpu_reads_drop(d);
    for (int i = 0; i < WF_WGPU_STAGE_CLASSES; i++) {
        while (d->stage_free[i]) {
            wf_wgpu_stage *s = d->stage_free[i];
            d->stage_free[i] = s->next;
            destroy(d, s);
        }
    }
    /* Destroying a buffer answers its mapping; one that stays unanswered cannot be freed safely. */
    for (wf_wgpu_stage *s = d->stage_lost; s; s = s->next)
        if (s->state == STAGE_MAPPING)
            d->lib.BufferDestroy(s->handle);
}

void wf_wgpu_reads_free(wf_wgpu *d)
{
    while (d->stage_lost) {
        wf_wgpu_stage *s = d->stage_lost;
        d->stage_lost = s->next;
        d->lib.BufferRelease(s->handle);
        wf_free(s);
    }
}
