/* webgpu_event.c - everything asynchronous: answers, error scopes, fences, lost devices.
 *
 * The one way of waiting that wgpu-native, Dawn and browsers share is callback mode AllowProcessEvents
 * and asking again and again; wgpu-native's wgpuDevicePoll is the same without the other devices. All
 * waits are bounded.
 */
#include <stdio.h>
#include <time.h>

#include "webgpu_device.h"

#define SPIN_NS 50000             /* an empty submit takes 45 to 115 us on a fast GPU */
#define SHORT_WAIT_NS 2000000
#define SHORT_SLEEP_NS 20000
#define LONG_SLEEP_NS 1000000
#define SCOPE_TIMEOUT_NS 60000000000
#define DEFAULT_TIMEOUT_NS 60000000000

void wf_wgpu_backoff(uint64_t since_ns)
{
    uint64_t waited = wf_now_ns() - since_ns;
    if (waited < SPIN_NS)
        return;
    /* A sixteenth of what was waited so far: the end is overshot by a few percent at most. */
    uint64_t sleep_ns = waited < SHORT_WAIT_NS ? SHORT_SLEEP_NS : WF_MIN(waited / 16, (uint64_t)LONG_SLEEP_NS);
    nanosleep(&(struct timespec){.tv_nsec = (long)sleep_ns}, NULL);
}

/* ---- answers ---- */

wf_wgpu_answer *wf_wgpu_answer_new(const wf_wgpu_lib *lib)
{
    wf_wgpu_answer *a = wf_calloc(1, sizeof *a);
    if (a)
        a->lib = lib;
    return a;
}

void wf_wgpu_answer_give(wf_wgpu_answer *a, int status, int type, void *object, WGPUStringView message)
{
    a->status = status;
    a->type = type;
    a->object = object;
    wf_wgpu_sv_copy(message, a->message, sizeof a->message);
    a->done = 1;
    if (a->abandoned) {
        if (a->drop)
            a->drop(a);
        wf_free(a);
    }
}

bool wf_wgpu_answer_wait(const wf_wgpu_lib *lib, WGPUInstance instance, wf_wgpu_answer *a, int64_t timeout_ns)
{
    uint64_t start = wf_now_ns();
    while (!a->done) {
        lib->InstanceProcessEvents(instance);
        if (a->done)
            break;
        if (wf_now_ns() - start > (uint64_t)timeout_ns) {
            a->abandoned = true;
            return false;
        }
        wf_wgpu_backoff(start);
    }
    return true;
}

/* ---- errors and lost devices ---- */

static weft_status status_of(WGPUErrorType type)
{
    return type == WGPUErrorType_OutOfMemory ? WEFT_E_OOM : WEFT_E_INTERNAL;
}

static void on_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message, void *events, void *unused)
{
    (void)device, (void)unused;
    wf_wgpu_events *e = events;
    wf_lock(&e->lock);
    e->error_serial++; /* also behind an unreported one: the serial tells that what is being made is invalid */
    e->newest = status_of(type);
    e->newest_fence = e->fence;
    if (e->error == WEFT_OK && !atomic_load(&e->closing)) {
        e->error = e->newest;
        e->error_fence = e->fence;
        e->recorded_serial = e->error_serial;
        wf_wgpu_sv_copy(message, e->error_message, sizeof e->error_message);
    }
    wf_unlock(&e->lock);
}

static void on_lost(WGPUDevice const *device, WGPUDeviceLostReason reason, WGPUStringView message, void *events, void *unused)
{
    (void)device, (void)unused;
    wf_wgpu_events *e = events;
    wf_lock(&e->lock);
    if (!atomic_load(&e->lost)) {
        wf_wgpu_sv_copy(message, e->lost_message, sizeof e->lost_message);
        if (!e->lost_message[0])
            snprintf(e->lost_message, sizeof e->lost_message, "reason %d", (int)reason);
    }
    wf_unlock(&e->lock);
    atomic_store(&e->lost, true);
}

void wf_wgpu_events_attach(wf_wgpu_events *e, WGPUDeviceDescriptor *desc)
{
    desc->uncapturedErrorCallbackInfo = (WGPUUncapturedErrorCallbackInfo){.callback = on_error, .userdata1 = e};
    desc->deviceLostCallbackInfo =
        (WGPUDeviceLostCallbackInfo){.mode = WGPUCallbackMode_AllowSpontaneous, .callback = on_lost, .userdata1 = e};
}

weft_status wf_wgpu_check_lost(wf_wgpu *d)
{
    wf_wgpu_events *e = d->events;
    if (!atomic_load(&e->lost))
        return WEFT_OK;
    char message[sizeof e->lost_message];
    wf_lock(&e->lock);
    memcpy(message, e->lost_message, sizeof message);
    wf_unlock(&e->lock);
    return wf_fail(WEFT_E_DEVICE_LOST, "webgpu: the device was lost: %s", message);
}

weft_status wf_wgpu_take_error(wf_wgpu *d, uint64_t fence)
{
    wf_wgpu_events *e = d->events;
    weft_status st = WEFT_OK;
    char message[sizeof e->error_message];
    wf_lock(&e->lock);
    if (e->error != WEFT_OK && e->error_fence <= fence) {
        st = e->error;
        e->error = WEFT_OK;
        memcpy(message, e->error_message, sizeof message);
        if (e->newest_fence > fence) { /* work beyond the fence failed too: the next to be reported */
            e->error = e->newest;
            e->error_fence = e->newest_fence;
            snprintf(e->error_message, sizeof e->error_message, "refused, behind an earlier error");
        }
    }
    wf_unlock(&e->lock);
    return st == WEFT_OK ? WEFT_OK : wf_fail(st, "webgpu: %s", message);
}

void wf_wgpu_pump(wf_wgpu *d)
{
    if (d->lib.DevicePoll)
        d->lib.DevicePoll(d->device, 0, NULL);
    else
        d->lib.InstanceProcessEvents(d->instance);
}

/* ---- error scopes: errors of a creating call, at once ---- */

/* Internal errors first: Dawn only, wgpu-native ends the process on that filter and reports them uncaptured. */
static const WGPUErrorFilter filters[] = {WGPUErrorFilter_Internal, WGPUErrorFilter_OutOfMemory, WGPUErrorFilter_Validation};

static size_t first_filter(const wf_wgpu *d)
{
    return d->lib.impl == WF_WGPU_NATIVE;
}

void wf_wgpu_scope_push(wf_wgpu *d)
{
    for (size_t i = first_filter(d); i < WF_COUNT(filters); i++)
        d->lib.DevicePushErrorScope(d->device, filters[i]);
    d->events->scope_serial = d->events->error_serial;
    d->events->scope_newest = d->events->newest_fence;
}

/* An error inside the scope that no filter caught. */
static weft_status uncaught(wf_wgpu *d, const char *what)
{
    wf_wgpu_events *e = d->events;
    weft_status st = WEFT_OK;
    char message[sizeof e->error_message];
    wf_lock(&e->lock);
    bool failed = e->error_serial != e->scope_serial, own = e->error != WEFT_OK && e->recorded_serial > e->scope_serial;
    if (failed) {
        st = own ? e->error : e->newest;
        e->newest_fence = e->scope_newest; /* reported here */
    }
    if (own) {
        e->error = WEFT_OK;
        memcpy(message, e->error_message, sizeof message);
    } else {
        snprintf(message, sizeof message, "refused, while an earlier error waits to be reported");
    }
    wf_unlock(&e->lock);
    return st == WEFT_OK ? WEFT_OK : wf_fail(st, "webgpu: %s: %s", what, message);
}

static void on_scope(WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView message, void *answer, void *unused)
{
    (void)unused;
    if (answer)
        wf_wgpu_answer_give(answer, (int)status, (int)type, NULL, message);
}

weft_status wf_wgpu_scope_pop(wf_wgpu *d, const char *what)
{
    wf_wgpu_answer *a[WF_COUNT(filters)];
    weft_status st = WEFT_OK;
    for (size_t i = first_filter(d); i < WF_COUNT(filters); i++) { /* every scope is popped, with or without memory for its answer */
        a[i] = wf_wgpu_answer_new(&d->lib);
        WGPUPopErrorScopeCallbackInfo info = {.mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_scope, .userdata1 = a[i]};
        d->lib.DevicePopErrorScope(d->device, info);
    }
    for (size_t i = first_filter(d); i < WF_COUNT(filters); i++) {
        if (!a[i]) {
            st = WEFT_E_OOM;
            continue;
        }
        if (!wf_wgpu_answer_wait(&d->lib, d->instance, a[i], SCOPE_TIMEOUT_NS)) {
            st = wf_fail(WEFT_E_TIMEOUT, "webgpu: %s: no answer from the device in 60 s", what);
            continue;
        }
        if (st == WEFT_OK && a[i]->status == WGPUPopErrorScopeStatus_Success && a[i]->type != WGPUErrorType_NoError)
            st = wf_fail(status_of((WGPUErrorType)a[i]->type), "webgpu: %s: %s", what, a[i]->message);
        wf_free(a[i]);
    }
    if (st == WEFT_OK)
        st = uncaught(d, what);
    weft_status lost = st == WEFT_OK ? wf_wgpu_check_lost(d) : wf_wgpu_probe(d);
    return lost != WEFT_OK ? lost : st;
}

/* ---- fences ---- */

static void on_done(WGPUQueueWorkDoneStatus status, WGPUStringView message, void *device, void *fence)
{
    (void)status, (void)message; /* a failure shows as a lost device or an error of its own */
    wf_wgpu *d = device;
    uint64_t f = (uint64_t)(uintptr_t)fence;
    d->n_callbacks--;
    if (f > d->done_fence)
        d->done_fence = f;
}

void wf_wgpu_watch(wf_wgpu *d, uint64_t fence)
{
    WGPUQueueWorkDoneCallbackInfo info = {.mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_done, .userdata1 = d,
                                          .userdata2 = (void *)(uintptr_t)fence};
    d->n_callbacks++;
    d->lib.QueueOnSubmittedWorkDone(d->queue, info);
}

/* wgpu-native reports a destroyed device only when the next object is made on it, and until then ends
 * the process at the next submit or mapped range. An empty encoder is the cheapest object to ask with. */
weft_status wf_wgpu_probe(wf_wgpu *d)
{
    if (d->lib.impl == WF_WGPU_NATIVE && !atomic_load(&d->events->lost)) {
        WGPUCommandEncoder encoder = d->lib.DeviceCreateCommandEncoder(d->device, NULL);
        if (encoder)
            d->lib.CommandEncoderRelease(encoder);
    }
    return wf_wgpu_check_lost(d);
}

/* wgpu-native ends the process when an invalid command buffer is submitted, so one that was found
 * invalid while it was encoded is not: its error is recorded, and nothing of it would run anyway. */
void wf_wgpu_send(wf_wgpu *d, WGPUCommandEncoder encoder, uint64_t errors_before)
{
    WGPUCommandBuffer commands = d->lib.CommandEncoderFinish(encoder, NULL);
    bool sound = commands && d->events->error_serial == errors_before;
    if (!atomic_load(&d->events->lost))
        d->lib.QueueSubmit(d->queue, sound, sound ? &commands : NULL);
    if (commands)
        d->lib.CommandBufferRelease(commands);
    d->lib.CommandEncoderRelease(encoder);
}

weft_status wf_wgpu_settle_within(wf_wgpu *d, uint64_t fence, uint64_t bound_ns)
{
    uint64_t start = wf_now_ns();
    weft_status failed = WEFT_OK;
    bool pumped = false;
    for (;;) {
        weft_status st = wf_wgpu_reads_harvest(d, fence);
        if (failed == WEFT_OK)
            failed = st;
        if (d->done_fence >= fence && !wf_wgpu_reads_pending(d, fence))
            break;
        if (atomic_load(&d->events->lost)) {
            wf_wgpu_reads_drop(d);
            break;
        }
        if (pumped && wf_now_ns() - start > bound_ns)
            return wf_fail(WEFT_E_TIMEOUT, "webgpu: fence %llu is not reached after %.3f s", (unsigned long long)fence,
                           (double)(wf_now_ns() - start) * 1e-9);
        if (pumped)
            wf_wgpu_backoff(start);
        wf_wgpu_pump(d);
        pumped = true; /* a bound of 0 asks once */
    }
    WF_TRY(wf_wgpu_probe(d)); /* a lost device answers everything at once, with nothing done */
    return failed;
}

weft_status wf_wgpu_settle(wf_wgpu *d, uint64_t fence)
{
    return wf_wgpu_settle_within(d, fence, DEFAULT_TIMEOUT_NS);
}

weft_status wf_wgpu_wait(wf_device *base, uint64_t fence, int64_t timeout_ns)
{
    wf_wgpu *d = wf_wgpu_of(base);
    if (fence > d->last_fence)
        return wf_fail(WEFT_E_VALUE, "webgpu: fence %llu was never given, the newest is %llu", (unsigned long long)fence,
                       (unsigned long long)d->last_fence);
    weft_status st = wf_wgpu_settle_within(d, fence, timeout_ns < 0 ? DEFAULT_TIMEOUT_NS : (uint64_t)timeout_ns);
    if (st == WEFT_E_TIMEOUT || st == WEFT_E_DEVICE_LOST)
        return st;
    wf_wgpu_collect(d);
    /* The recorded error is the reason of a failed read, so it goes first. */
    WF_TRY(wf_wgpu_take_error(d, fence));
    return st;
}
