/* webgpu_adapter.c - the adapters of an instance: found, described, ordered best first.
 *
 * Offered are Vulkan, Metal and D3D12. OpenGL is left out: it would list the same device a second time,
 * with fewer features. Dawn answers with its Null backend, which computes nothing, when Vulkan fails;
 * it is refused unless WEFT_WEBGPU_NULL=1 asks for it (it checks WGSL without a GPU).
 */
#include <stdio.h>
#include <stdlib.h>

#include "webgpu_device.h"

enum { RANK_DISCRETE, RANK_INTEGRATED, RANK_SOFTWARE, RANK_NULL };
#define REQUEST_TIMEOUT_NS 30000000000 /* a cold driver may compile for seconds */

static const char *const backend_names[] = {
    [WGPUBackendType_Null] = "null",     [WGPUBackendType_WebGPU] = "webgpu", [WGPUBackendType_D3D11] = "d3d11",
    [WGPUBackendType_D3D12] = "d3d12",   [WGPUBackendType_Metal] = "metal",   [WGPUBackendType_Vulkan] = "vulkan",
    [WGPUBackendType_OpenGL] = "opengl", [WGPUBackendType_OpenGLES] = "opengles",
};

static bool null_wanted(void)
{
    const char *v = getenv("WEFT_WEBGPU_NULL");
    return v && strcmp(v, "1") == 0;
}

weft_status wf_wgpu_instance_create(const wf_wgpu_lib *lib, WGPUInstance *out)
{
    /* No flags: wgpu-native's indirect validation would add a dispatch before each indirect one; the
     * counts are checked on the host here. */
    WGPUInstanceExtras extras = {.chain.sType = (WGPUSType)WGPUSType_InstanceExtras, .backends = WGPUInstanceBackend_Primary};
    wf_dawn_toggles toggles;
    WGPUInstanceDescriptor desc = {0};
    if (wf_wgpu_toggles_instance(lib, &toggles))
        desc.nextInChain = &toggles.chain;
    else if (lib->impl == WF_WGPU_NATIVE)
        desc.nextInChain = &extras.chain;
    WGPUInstance instance = lib->CreateInstance(&desc);
    if (!instance)
        return wf_fail(WEFT_E_DEVICE_INIT, "webgpu: %s cannot create an instance", lib->name);
    *out = instance;
    return WEFT_OK;
}

static void classify(wf_wgpu_adapter *a, const WGPUAdapterInfo *info)
{
    const char *kind = "integrated";
    a->rank = RANK_INTEGRATED;
    if (info->backendType == WGPUBackendType_Null) {
        kind = "null";
        a->rank = RANK_NULL;
    } else if (info->adapterType == WGPUAdapterType_DiscreteGPU) {
        kind = "discrete";
        a->rank = RANK_DISCRETE;
    } else if (info->adapterType == WGPUAdapterType_CPU) {
        kind = "software";
        a->rank = RANK_SOFTWARE;
    }
    snprintf(a->info.kind, sizeof a->info.kind, "%s", kind);
}

static weft_status read_limits(const wf_wgpu_lib *lib, WGPUAdapter adapter, WGPUDevice device, WGPULimits *out)
{
    /* A Dawn of another date may know limits that this header lacks: room for them. */
    union {
        WGPULimits limits;
        unsigned char room[sizeof(WGPULimits) + 256];
    } u;
    memset(&u, 0, sizeof u);
    if ((device ? lib->DeviceGetLimits(device, &u.limits) : lib->AdapterGetLimits(adapter, &u.limits)) != WGPUStatus_Success)
        return wf_fail(WEFT_E_DEVICE_INIT, "webgpu: the %s does not tell its limits", device ? "device" : "adapter");
    u.limits.nextInChain = NULL;
    u.limits.maxImmediateSize = 0; /* not used, and a feature on its own */
    *out = u.limits;
    return WEFT_OK;
}

static void lower_u32(uint32_t *limit, uint32_t to)
{
    if (to && *limit > to)
        *limit = to;
}

/* The tests of splitting ask for lower limits; the device is then created with them, so that going
 * past one is a validation error. */
static void lower(WGPULimits *l, const weft_ctx_opts *opts)
{
    if (opts && opts->max_binding_bytes && opts->max_binding_bytes < l->maxStorageBufferBindingSize)
        l->maxStorageBufferBindingSize = opts->max_binding_bytes;
    lower_u32(&l->maxStorageBuffersPerShaderStage, opts ? opts->max_storage_buffers : 0);
    lower_u32(&l->maxComputeInvocationsPerWorkgroup, opts ? opts->max_workgroup_invocations : 0);
    lower_u32(&l->maxComputeWorkgroupStorageSize, opts ? opts->max_workgroup_bytes : 0);
    lower_u32(&l->maxComputeWorkgroupSizeX, l->maxComputeInvocationsPerWorkgroup);
    lower_u32(&l->maxComputeWorkgroupSizeY, l->maxComputeInvocationsPerWorkgroup);
}

/* wgpu-native reports 0 to 0: then known makers' fixed sizes, else unknown. */
static void subgroup_sizes(const WGPUAdapterInfo *info, wf_wgpu_adapter *a)
{
    enum { VENDOR_NVIDIA = 0x10DE, VENDOR_APPLE = 0x106B };
    a->subgroup_min = info->subgroupMinSize;
    a->subgroup_max = info->subgroupMaxSize;
    if (a->subgroup_max == 0 && (info->vendorID == VENDOR_NVIDIA || info->vendorID == VENDOR_APPLE))
        a->subgroup_min = a->subgroup_max = 32;
}

/* Describe an adapter, or of the device that was made of it. The handle becomes the entry's when this succeeds. */
static weft_status describe(const wf_wgpu_lib *lib, WGPUAdapter handle, WGPUDevice device, const WGPUAdapterInfo *info, const weft_ctx_opts *opts,
                            wf_wgpu_adapter *a)
{
    *a = (wf_wgpu_adapter){.handle = handle};
    WF_TRY(read_limits(lib, handle, device, &a->limits));
    lower(&a->limits, opts);
    classify(a, info);
    weft_device_info *out = &a->info;
    wf_wgpu_sv_copy(info->device, out->name, sizeof out->name);
    wf_wgpu_sv_copy(info->description, out->driver, sizeof out->driver);
    if (!out->name[0])
        snprintf(out->name, sizeof out->name, "%s", out->driver);
    snprintf(out->implementation, sizeof out->implementation, "%s", lib->name);
    snprintf(out->backend, sizeof out->backend, "%s", backend_names[info->backendType]);
    wf_wgpu_features_find(lib, handle, device, &a->features, out);
    a->backend = (uint32_t)info->backendType;
    a->vendor_id = info->vendorID;
    a->device_id = info->deviceID;
    if (a->features.subgroups)
        subgroup_sizes(info, a);
    const WGPULimits *l = &a->limits;
    out->max_buffer_bytes = l->maxBufferSize & ~(uint64_t)3;
    out->max_binding_bytes = WF_MIN(l->maxStorageBufferBindingSize, l->maxBufferSize) & ~(uint64_t)3;
    out->max_storage_buffers = WF_MIN(l->maxStorageBuffersPerShaderStage, (uint32_t)WF_MAX_BIND);
    out->max_workgroup_invocations = l->maxComputeInvocationsPerWorkgroup;
    out->max_workgroup_bytes = l->maxComputeWorkgroupStorageSize;
    out->max_workgroups = l->maxComputeWorkgroupsPerDimension;
    return WEFT_OK;
}

/* Why an adapter is not offered; NULL when it is. */
static const char *refusal(const WGPUAdapterInfo *info)
{
    switch (info->backendType) {
    case WGPUBackendType_Vulkan:
    case WGPUBackendType_Metal:
    case WGPUBackendType_D3D12:
        return NULL;
    case WGPUBackendType_Null:
        return null_wanted() ? NULL : "is Dawn's Null backend, which computes nothing";
    default:
        return "is neither Vulkan, Metal nor D3D12";
    }
}

static bool known(const wf_wgpu_adapters *list, const wf_wgpu_adapter *a)
{
    for (int i = 0; i < list->n; i++) {
        const wf_wgpu_adapter *b = &list->item[i];
        if (a->backend == b->backend && a->vendor_id == b->vendor_id && a->device_id == b->device_id &&
            strcmp(a->info.name, b->info.name) == 0 && strcmp(a->info.driver, b->info.driver) == 0)
            return true;
    }
    return false;
}

/* Takes the handle over: into the list or released. `once`: the implementation hands out the same
 * adapter again and again, so equal ones are one. */
static void offer(const wf_wgpu_lib *lib, WGPUAdapter handle, bool once, const weft_ctx_opts *opts, wf_wgpu_adapters *list,
                  wf_str *refused)
{
    WGPUAdapterInfo info = {0};
    wf_wgpu_adapter a;
    if (lib->AdapterGetInfo(handle, &info) != WGPUStatus_Success) {
        lib->AdapterRelease(handle);
        return;
    }
    const char *why = (unsigned)info.backendType < WF_COUNT(backend_names) ? refusal(&info) : "has an unknown backend";
    bool taken = false;
    if (why) {
        char name[96];
        wf_wgpu_sv_copy(info.device.length ? info.device : info.description, name, sizeof name);
        if (refused->len < 300)
            wf_str_addf(refused, "; \"%s\" %s", name, why);
    } else if (list->n < WF_WGPU_MAX_ADAPTERS && describe(lib, handle, NULL, &info, opts, &a) == WEFT_OK &&
               !(once && known(list, &a))) {
        list->item[list->n++] = a;
        taken = true;
    }
    lib->AdapterInfoFreeMembers(info);
    if (!taken)
        lib->AdapterRelease(handle);
}

static void enumerate(const wf_wgpu_lib *lib, WGPUInstance instance, const weft_ctx_opts *opts, wf_wgpu_adapters *list,
                      wf_str *refused)
{
    WGPUAdapter handles[4 * WF_WGPU_MAX_ADAPTERS];
    WGPUInstanceEnumerateAdapterOptions options = {.backends = WGPUInstanceBackend_Primary};
    size_t n = lib->InstanceEnumerateAdapters(instance, &options, NULL);
    if (n == 0 || n > WF_COUNT(handles))
        return;
    n = lib->InstanceEnumerateAdapters(instance, &options, handles);
    for (size_t i = 0; i < n; i++)
        offer(lib, handles[i], false, opts, list, refused);
}

static void drop_adapter(const wf_wgpu_answer *a)
{
    if (a->object)
        a->lib->AdapterRelease(a->object);
}

static void on_adapter(WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView message, void *answer, void *unused)
{
    (void)unused;
    wf_wgpu_answer_give(answer, (int)status, 0, adapter, message);
}

static void request(const wf_wgpu_lib *lib, WGPUInstance instance, const WGPURequestAdapterOptions *options,
                    const weft_ctx_opts *opts, wf_wgpu_adapters *list, wf_str *refused)
{
    wf_wgpu_answer *a = wf_wgpu_answer_new(lib);
    if (!a)
        return;
    a->drop = drop_adapter;
    WGPURequestAdapterCallbackInfo info = {.mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_adapter, .userdata1 = a};
    lib->InstanceRequestAdapter(instance, options, info);
    if (!wf_wgpu_answer_wait(lib, instance, a, REQUEST_TIMEOUT_NS)) {
        wf_str_add(refused, "; a request for an adapter got no answer");
        return;
    }
    if (a->object)
        offer(lib, a->object, true, opts, list, refused);
    else if (a->message[0] && refused->len < 300)
        wf_str_addf(refused, "; %.160s", a->message);
    wf_free(a);
}

/* Without enumeration: ask in the ways that may give different adapters. */
static void request_all(const wf_wgpu_lib *lib, WGPUInstance instance, const weft_ctx_opts *opts, wf_wgpu_adapters *list,
                        wf_str *refused)
{
    static const struct {
        WGPUPowerPreference power;
        bool fallback;
        WGPUBackendType backend;
    } ways[] = {
        {WGPUPowerPreference_HighPerformance, false, WGPUBackendType_Undefined},
        {WGPUPowerPreference_LowPower, false, WGPUBackendType_Undefined},
        {WGPUPowerPreference_Undefined, true, WGPUBackendType_Undefined},
        {WGPUPowerPreference_Undefined, false, WGPUBackendType_Null},
    };
    for (size_t i = 0; i < WF_COUNT(ways); i++) {
        bool null_backend = ways[i].backend == WGPUBackendType_Null;
        if (null_backend && !null_wanted())
            continue;
        wf_dawn_toggles toggles;
        WGPURequestAdapterOptions o = {.featureLevel = WGPUFeatureLevel_Core, .powerPreference = ways[i].power,
                                       .forceFallbackAdapter = ways[i].fallback, .backendType = ways[i].backend};
        if (wf_wgpu_toggles_adapter(lib, &toggles))
            o.nextInChain = &toggles.chain;
        request(lib, instance, &o, opts, list, refused);
    }
}

/* Stable: equal kinds keep the library's order. */
static void sort(wf_wgpu_adapters *list)
{
    for (int i = 1; i < list->n; i++) {
        wf_wgpu_adapter a = list->item[i];
        int j = i;
        for (; j > 0 && list->item[j - 1].rank > a.rank; j--)
            list->item[j] = list->item[j - 1];
        list->item[j] = a;
    }
    for (int i = 0; i < list->n; i++)
        snprintf(list->item[i].info.spec, sizeof list->item[i].info.spec, "webgpu:%d", i);
}

weft_status wf_wgpu_adapters_find(const wf_wgpu_lib *lib, WGPUInstance instance, const weft_ctx_opts *opts,
                                  wf_wgpu_adapters *out)
{
    wf_str refused = WF_STR_INIT;
    weft_status st = WEFT_OK;
    out->n = 0;
    if (lib->InstanceEnumerateAdapters)
        enumerate(lib, instance, opts, out, &refused);
    else
        request_all(lib, instance, opts, out, &refused);
    if (out->n == 0)
        st = wf_fail(WEFT_E_DEVICE_INIT, "webgpu: %s offers no adapter on Vulkan, Metal or D3D12%s", lib->name,
                     refused.ptr ? refused.ptr : "");
    wf_str_free(&refused);
    sort(out);
    return st;
}

weft_status wf_wgpu_adapter_of(const wf_wgpu_lib *lib, WGPUAdapter adapter, WGPUDevice device, const weft_ctx_opts *opts, wf_wgpu_adapter *out)
{
    WGPUAdapterInfo info = {0};
    if (lib->AdapterGetInfo(adapter, &info) != WGPUStatus_Success)
        return wf_fail(WEFT_E_DEVICE_INIT, "webgpu: the adapter does not describe itself");
    weft_status st = (unsigned)info.backendType < WF_COUNT(backend_names) ? describe(lib, adapter, device, &info, opts, out)
                                                                        : wf_fail(WEFT_E_DEVICE_INIT, "webgpu: the adapter has an unknown backend");
    lib->AdapterInfoFreeMembers(info);
    if (st == WEFT_OK)
        snprintf(out->info.spec, sizeof out->info.spec, "webgpu");
    return st;
}

void wf_wgpu_adapters_free(const wf_wgpu_lib *lib, wf_wgpu_adapters *list)
{
    for (int i = 0; i < list->n; i++)
        if (list->item[i].handle)
            lib->AdapterRelease(list->item[i].handle);
    list->n = 0;
}
