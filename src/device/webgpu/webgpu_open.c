/* webgpu_open.c - opening and closing the WebGPU device, and listing what can be opened. */
#include <stdio.h>

#include "webgpu_device.h"

#define REQUEST_TIMEOUT_NS 30000000000
#define CLOSE_TIMEOUT_NS 10000000000 /* for work in flight */
#define LATE_TIMEOUT_NS 2000000000   /* for answers still due after the device is destroyed */

static void close_device(wf_device *base);

/* ---- small entries ---- */

static void *map_nothing(wf_device *base, uint32_t id)
{
    (void)base, (void)id;
    return NULL;
}

static const wf_device_vt webgpu_vt = {
    .name = "webgpu",
    .close = close_device,
    .buffer_create = wf_wgpu_buffer_create,
    .buffer_destroy = wf_wgpu_buffer_destroy,
    .write = wf_wgpu_write,
    .read = wf_wgpu_read,
    .program_create = wf_wgpu_program_create,
    .program_destroy = wf_wgpu_program_destroy,
    .submit = wf_wgpu_submit,
    .wait = wf_wgpu_wait,
    .forget = wf_wgpu_forget,
    .map = map_nothing,
};

/* ---- closing ---- */

/* Run callbacks until none is due, so that none can come after its memory is gone. */
static bool quiesce(wf_wgpu *d)
{
    uint64_t start = wf_now_ns();
    while (d->n_callbacks > 0) {
        wf_wgpu_pump(d);
        if (d->n_callbacks == 0)
            break;
        if (wf_now_ns() - start > LATE_TIMEOUT_NS)
            return false;
        wf_wgpu_backoff(start);
    }
    return true;
}

static void free_events(wf_wgpu_events *e)
{
    if (!e)
        return;
    pthread_mutex_destroy(&e->lock);
    wf_free(e);
}

/* The first instance of each library stays for the life of the process: with the last one a driver is unloaded, and each
 * time that NVIDIA's is loaded again it takes more of the static thread-local storage, until (after 30 times) it cannot be. */
static void drop_instance(const wf_wgpu_lib *lib, WGPUInstance instance)
{
    static struct { WGPUProcCreateInstance library; WGPUInstance kept; } anchors[4];
    static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
    bool keep = false;
    pthread_mutex_lock(&guard);
    for (size_t i = 0; i < WF_COUNT(anchors) && anchors[i].library != lib->CreateInstance; i++)
        if (!anchors[i].library) {
            anchors[i].library = lib->CreateInstance;
            anchors[i].kept = instance;
            keep = true;
            break;
        }
    pthread_mutex_unlock(&guard);
    if (!keep)
        lib->InstanceRelease(instance);
}

static void release_handles(wf_wgpu *d)
{
    if (d->device) {
        d->lib.QueueRelease(d->queue);
        d->lib.DeviceRelease(d->device);
    }
    if (d->adapter)
        d->lib.AdapterRelease(d->adapter);
    if (d->instance)
        drop_instance(&d->lib, d->instance);
}

static void close_device(wf_device *base)
{
    wf_wgpu *d = wf_wgpu_of(base);
    bool quiet = true;
    if (d->device) {
        (void)wf_wgpu_settle_within(d, d->last_fence, CLOSE_TIMEOUT_NS);
        atomic_store(&d->events->closing, true);
        wf_wgpu_lists_close(d);
        wf_wgpu_groups_close(d);
        wf_wgpu_programs_close(d);
        wf_wgpu_buffers_close(d);
        wf_wgpu_reads_close(d);
        WGPUBuffer internal[] = {d->zero, d->scratch};
        for (size_t i = 0; i < WF_COUNT(internal); i++) {
            if (!internal[i])
                continue;
            d->lib.BufferDestroy(internal[i]);
            d->lib.BufferRelease(internal[i]);
        }
        if (!d->adopted)
            d->lib.DeviceDestroy(d->device);
        wf_wgpu_kept_detach(d->kept);
        quiet = quiesce(d);
        if (quiet)
            wf_wgpu_reads_free(d);
    }
    if (!d->adopted)
        release_handles(d);
    wf_wgpu_lib_close(&d->lib);
    if (!quiet) {
        wf_log(WEFT_LOG_WARN, "webgpu: %u callbacks never came; their memory is left to the process", d->n_callbacks);
        return;
    }
    free_events(d->events);
    wf_wgpu_kept_free(d->kept);
    wf_free(d);
}

/* ---- opening ---- */

static wf_wgpu *new_device(void)
{
    wf_wgpu *d = wf_calloc(1, sizeof *d);
    if (!d || !(d->events = wf_calloc(1, sizeof *d->events))) {
        wf_free(d);
        return NULL;
    }
    wf_mutex_init(&d->events->lock, false);
    d->events->fence = 1;
    d->base.vt = &webgpu_vt;
    d->base.stats = &d->own_stats;
    d->base.cancel = &d->own_cancel;
    return d;
}

static void drop_device(const wf_wgpu_answer *a)
{
    if (a->object)
        a->lib->DeviceRelease(a->object);
}

static void on_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void *answer, void *unused)
{
    (void)unused;
    wf_wgpu_answer_give(answer, (int)status, 0, device, message);
}

static weft_status request_device(wf_wgpu *d, const wf_wgpu_adapter *adapter, const wf_wgpu_features *features)
{
    wf_dawn_toggles toggles;
    wf_dawn_cache cache;
    WGPUDeviceDescriptor desc = {.label = wf_wgpu_sv("weft"), .requiredFeatureCount = features->n_want,
                                 .requiredFeatures = features->want, .requiredLimits = &adapter->limits};
    if (wf_wgpu_toggles_device(&d->lib, &toggles))
        desc.nextInChain = &toggles.chain;
    wf_wgpu_kept_attach(d->kept, &cache, &desc);
    wf_wgpu_events_attach(d->events, &desc);
    wf_wgpu_answer *a = wf_wgpu_answer_new(&d->lib);
    if (!a)
        return WEFT_E_OOM;
    a->drop = drop_device;
    WGPURequestDeviceCallbackInfo info = {.mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_device, .userdata1 = a};
    d->lib.AdapterRequestDevice(adapter->handle, &desc, info);
    if (!wf_wgpu_answer_wait(&d->lib, d->instance, a, REQUEST_TIMEOUT_NS))
        return wf_fail(WEFT_E_DEVICE_INIT, "webgpu: %s: no device after 30 s", adapter->info.name);
    weft_status st = WEFT_OK;
    if (a->object)
        d->device = a->object;
    else
        st = wf_fail(WEFT_E_DEVICE_INIT, "webgpu: %s: no device: %s", adapter->info.name, a->message);
    wf_free(a);
    return st;
}

/* With everything the adapter offers; if that is refused, with nothing but its limits. */
static weft_status create_device(wf_wgpu *d, wf_wgpu_adapter *adapter)
{
    weft_status st = request_device(d, adapter, &adapter->features);
    if (st == WEFT_OK || adapter->features.n_want == 0)
        return st;
    wf_log(WEFT_LOG_WARN, "%s; trying without optional features", weft_error_message());
    bool unchecked = adapter->features.unchecked;
    adapter->features = (wf_wgpu_features){.unchecked = unchecked};
    for (int i = 0; i < adapter->info.n_features; i++) {
        weft_device_feature *f = &adapter->info.features[i];
        if (!f->on || strcmp(f->name, "unchecked") == 0)
            continue;
        f->on = false;
        snprintf(f->reason, sizeof f->reason, "the device was refused with it");
    }
    atomic_store(&d->events->lost, false); /* a refused device counts as lost at birth */
    d->events->lost_message[0] = '\0';
    return request_device(d, adapter, &adapter->features);
}

static void fill_caps(wf_caps *caps, const wf_wgpu_adapter *a)
{
    *caps = (wf_caps){
        .info = a->info,
        .runs_wgsl = true,
        .subgroups = a->features.subgroups,
        .unchecked = a->features.unchecked,
        .indirect = true,
        .subgroup_min = a->subgroup_min,
        .subgroup_max = a->subgroup_max,
        .layout = WF_LAYOUT_PLANAR, /* shaders read whole words of each plane */
        .max_buffer_bytes = a->info.max_buffer_bytes,
        .max_binding_bytes = a->info.max_binding_bytes,
        .max_storage_buffers = a->info.max_storage_buffers,
        .max_workgroup_invocations = a->info.max_workgroup_invocations,
        .max_workgroup_bytes = a->info.max_workgroup_bytes,
        .max_workgroups = a->info.max_workgroups,
    };
}

static weft_status make_ready(wf_wgpu *d, const wf_wgpu_adapter *a)
{
    fill_caps(&d->base.caps, a);
    /* Uniform bindings of every program have to be bound, used or not. WebGPU zeroes new buffers. */
    return wf_wgpu_buffer_raw(d, WF_STEP_BYTES, WGPUBufferUsage_Uniform, "zero block", &d->zero);
}

static weft_status start(wf_wgpu *d, wf_wgpu_adapters *adapters, int index, wf_disk_cache *disk)
{
    if (index >= adapters->n)
        return wf_fail(WEFT_E_DEVICE_INIT, "webgpu: adapter %d was asked for, there are %d", index, adapters->n);
    wf_wgpu_adapter *a = &adapters->item[index < 0 ? 0 : index];
    d->kept = wf_wgpu_kept_new(disk, &d->lib, &a->info);
    WF_TRY(create_device(d, a));
    d->adapter = a->handle;
    a->handle = NULL;
    d->queue = d->lib.DeviceGetQueue(d->device);
    return make_ready(d, a);
}

weft_status wf_webgpu_open(int adapter, const weft_ctx_opts *opts, wf_device **out)
{
    return wf_webgpu_open_with(adapter, opts, NULL, out);
}

weft_status wf_webgpu_open_with(int adapter, const weft_ctx_opts *opts, wf_disk_cache *disk, wf_device **out)
{
    wf_wgpu_adapters *adapters = wf_calloc(1, sizeof *adapters);
    wf_wgpu *d = new_device();
    weft_status st = WEFT_E_OOM;
    if (!d || !adapters)
        goto fail;
    WF_TRY_GOTO(st, wf_wgpu_lib_open(opts, &d->lib), fail);
    WF_TRY_GOTO(st, wf_wgpu_instance_create(&d->lib, &d->instance), fail);
    WF_TRY_GOTO(st, wf_wgpu_adapters_find(&d->lib, d->instance, opts, adapters), fail);
    WF_TRY_GOTO(st, start(d, adapters, adapter, disk), fail);
    wf_wgpu_adapters_free(&d->lib, adapters);
    wf_free(adapters);
    *out = &d->base;
    return WEFT_OK;
fail:
    if (adapters && d)
        wf_wgpu_adapters_free(&d->lib, adapters);
    wf_free(adapters);
    if (d)
        close_device(&d->base);
    return st;
}

weft_status wf_webgpu_adopt(const wf_webgpu_handles *handles, const weft_ctx_opts *opts, wf_device **out)
{
    wf_wgpu *d = new_device();
    wf_wgpu_adapter *a = wf_calloc(1, sizeof *a);
    weft_status st = WEFT_E_OOM;
    if (!d || !a)
        goto fail;
    d->adopted = true;
    WF_TRY_GOTO(st, wf_wgpu_lib_open(opts, &d->lib), fail);
    WF_TRY_GOTO(st, wf_wgpu_adapter_of(&d->lib, handles->adapter, handles->device, opts, a), fail);
    d->instance = handles->instance;
    d->adapter = handles->adapter;
    d->device = handles->device;
    d->queue = handles->queue;
    WF_TRY_GOTO(st, make_ready(d, a), fail);
    wf_free(a);
    *out = &d->base;
    return WEFT_OK;
fail:
    wf_free(a);
    if (d)
        close_device(&d->base);
    return st;
}

void wf_webgpu_note_lost(wf_device *base, const char *message)
{
    wf_wgpu_events *e = wf_wgpu_of(base)->events;
    wf_lock(&e->lock);
    if (!atomic_load(&e->lost))
        snprintf(e->lost_message, sizeof e->lost_message, "%s", message && *message ? message : "the program says so");
    wf_unlock(&e->lock);
    atomic_store(&e->lost, true);
}

void *wf_webgpu_handle(wf_device *base, uint32_t id)
{
    wf_wgpu_buffer *b = base->vt == &webgpu_vt ? wf_wmap_get(&wf_wgpu_of(base)->buffers, wf_wmap_id(id)) : NULL;
    if (b)
        b->shared = true;
    return b ? b->handle : NULL;
}

weft_status wf_webgpu_list(const weft_ctx_opts *opts, weft_device_info **out, int *n)
{
    wf_wgpu_lib lib = {0};
    WGPUInstance instance = NULL;
    weft_device_info *infos = NULL;
    weft_status st = WEFT_E_OOM;
    wf_wgpu_adapters *adapters = wf_calloc(1, sizeof *adapters);
    if (!adapters)
        return st;
    WF_TRY_GOTO(st, wf_wgpu_lib_open(opts, &lib), done);
    WF_TRY_GOTO(st, wf_wgpu_instance_create(&lib, &instance), done);
    WF_TRY_GOTO(st, wf_wgpu_adapters_find(&lib, instance, opts, adapters), done);
    infos = wf_calloc((size_t)adapters->n, sizeof *infos);
    if (!infos) {
        st = WEFT_E_OOM;
        goto done;
    }
    for (int i = 0; i < adapters->n; i++)
        infos[i] = adapters->item[i].info;
    *out = infos;
    *n = adapters->n;
done:
    wf_wgpu_adapters_free(&lib, adapters);
    if (instance)
        drop_instance(&lib, instance);
    wf_wgpu_lib_close(&lib);
    wf_free(adapters);
    return st;
}
