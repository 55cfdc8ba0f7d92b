/* webgpu_feature.c - what an adapter offers beyond the minimum: one table per implementation, whose
 * rows say which WebGPU features a name needs and why it is off. Nothing here is ever required. */
#include <stdio.h>
#include <stdlib.h>

#include "webgpu_device.h"

typedef struct subgroup_matrix_config { /* Dawn's WGPUSubgroupMatrixConfig */
    uint32_t component, result, m, n, k, subgroup_min, subgroup_max;
} subgroup_matrix_config;
typedef struct subgroup_matrix_configs {
    WGPUChainedStruct chain;
    size_t n;
    const subgroup_matrix_config *configs;
} subgroup_matrix_configs;
enum { COMPONENT_F32 = 1, COMPONENT_F16 = 2 };

typedef struct memory_heap { /* Dawn's WGPUMemoryHeapInfo */
    uint64_t properties;
    uint64_t size;
} memory_heap;
typedef struct memory_heaps {
    WGPUChainedStruct chain;
    size_t n;
    const memory_heap *heaps;
} memory_heaps;
enum { HEAP_DEVICE_LOCAL = 1 };

/* "" when it can be on; else the reason. */
typedef const char *(*feature_test)(const wf_wgpu_lib *lib, WGPUAdapter adapter);

typedef struct feature_row {
    const char *name;
    uint32_t needs;       /* WebGPU feature number; 0: none */
    uint32_t also;        /* asked for too when the adapter has it */
    const char *missing;  /* the reason when the adapter lacks `needs` */
    feature_test test;    /* NULL: nothing more to ask */
    size_t flag;          /* offset of a bool in wf_wgpu_features, or 0 (the list of names) */
} feature_row;

static const char *native_trusted(const wf_wgpu_lib *lib, WGPUAdapter adapter)
{
    (void)adapter;
    return lib->DeviceCreateShaderModuleTrusted ? "" : "the library has no wgpuDeviceCreateShaderModuleTrusted";
}

static const char *native_matrix(const wf_wgpu_lib *lib, WGPUAdapter adapter)
{
    (void)lib, (void)adapter;
    return "experimental in wgpu-native and not to be enabled from C";
}

/* The kernels use f16 inputs with f32 sums in 16x16x16 tiles. */
static const char *dawn_matrix(const wf_wgpu_lib *lib, WGPUAdapter adapter)
{
    void (*free_members)(subgroup_matrix_configs) = NULL;
    void *p = wf_wgpu_lib_symbol(lib, "wgpuAdapterPropertiesSubgroupMatrixConfigsFreeMembers");
    memcpy(&free_members, &p, sizeof p);
    subgroup_matrix_configs c = {.chain.sType = (WGPUSType)WF_DAWN_STYPE_SUBGROUP_MATRIX_CONFIGS};
    WGPUAdapterInfo info = {.nextInChain = &c.chain};
    if (lib->AdapterGetInfo(adapter, &info) != WGPUStatus_Success)
        return "the adapter does not list its matrix shapes";
    bool found = info.backendType == WGPUBackendType_Null; /* there to check WGSL only: any shape */
    for (size_t i = 0; i < c.n; i++)
        found |= c.configs[i].component == COMPONENT_F16 && c.configs[i].result == COMPONENT_F32 &&
                 c.configs[i].m == 16 && c.configs[i].n == 16 && c.configs[i].k == 16;
    if (free_members)
        free_members(c);
    lib->AdapterInfoFreeMembers(info);
    return found ? "" : "the adapter has no 16x16x16 f16 to f32 shape";
}

#define FLAG(field) offsetof(wf_wgpu_features, field)
static const feature_row native_rows[] = {
    {"f16", WGPUFeatureName_ShaderF16, 0, "the adapter has no 16-bit floats in shaders", NULL, 0},
    {"subgroups", WGPUNativeFeature_Subgroup, WGPUNativeFeature_SubgroupBarrier, "the adapter has no subgroup operations", NULL,
     FLAG(subgroups)},
    {"subgroup-matrix", 0, 0, "", native_matrix, 0},
    {"unchecked", 0, 0, "", native_trusted, FLAG(unchecked)},
    {"timestamp-query", WGPUFeatureName_TimestampQuery, 0, "the adapter has no timestamps", NULL, 0},
};
static const feature_row dawn_rows[] = {
    {"f16", WGPUFeatureName_ShaderF16, 0, "the adapter has no 16-bit floats in shaders", NULL, 0},
    {"subgroups", WGPUFeatureName_Subgroups, 0, "the adapter has no subgroup operations", NULL, FLAG(subgroups)},
    {"subgroup-matrix", WF_DAWN_FEATURE_SUBGROUP_MATRIX, 0, "the adapter has no subgroup matrices", dawn_matrix, 0},
    {"unchecked", 0, 0, "", NULL, FLAG(unchecked)}, /* the toggle disable_robustness */
    {"timestamp-query", WGPUFeatureName_TimestampQuery, 0, "the adapter has no timestamps", NULL, 0},
};

bool wf_wgpu_feature_switched_off(const char *name)
{
    const char *list = getenv("WEFT_WEBGPU_OFF");
    size_t n = strlen(name);
    for (const char *at = list; at && *at;) {
        size_t len = strcspn(at, ",");
        if ((len == n && memcmp(at, name, n) == 0) || (len == 3 && memcmp(at, "all", 3) == 0))
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

static bool offers(const WGPUSupportedFeatures *have, uint32_t feature)
{
    for (size_t i = 0; i < have->featureCount; i++)
        if ((uint32_t)have->features[i] == feature)
            return true;
    return false;
}

static void want(wf_wgpu_features *f, uint32_t feature)
{
    if (feature && f->n_want < WF_WGPU_MAX_FEATURES)
        f->want[f->n_want++] = (WGPUFeatureName)feature;
}

static const char *decide(const wf_wgpu_lib *lib, WGPUAdapter adapter, const WGPUSupportedFeatures *have,
                          const feature_row *row)
{
    if (wf_wgpu_feature_switched_off(row->name))
        return "switched off by WEFT_WEBGPU_OFF";
    if (row->needs && !offers(have, row->needs))
        return row->missing;
    return row->test ? row->test(lib, adapter) : "";
}

static uint64_t dawn_memory(const wf_wgpu_lib *lib, WGPUAdapter adapter)
{
    void (*free_members)(memory_heaps) = NULL;
    void *p = wf_wgpu_lib_symbol(lib, "wgpuAdapterPropertiesMemoryHeapsFreeMembers");
    memcpy(&free_members, &p, sizeof p);
    memory_heaps h = {.chain.sType = (WGPUSType)WF_DAWN_STYPE_MEMORY_HEAPS};
    WGPUAdapterInfo info = {.nextInChain = &h.chain};
    if (lib->AdapterGetInfo(adapter, &info) != WGPUStatus_Success)
        return 0;
    uint64_t largest = 0;
    for (size_t i = 0; i < h.n; i++)
        if (h.heaps[i].properties & HEAP_DEVICE_LOCAL && h.heaps[i].size > largest)
            largest = h.heaps[i].size;
    if (free_members)
        free_members(h);
    lib->AdapterInfoFreeMembers(info);
    return largest;
}

void wf_wgpu_features_find(const wf_wgpu_lib *lib, WGPUAdapter adapter, WGPUDevice device, wf_wgpu_features *out, weft_device_info *info)
{
    bool native = lib->impl == WF_WGPU_NATIVE;
    const feature_row *rows = native ? native_rows : dawn_rows;
    size_t n_rows = native ? WF_COUNT(native_rows) : WF_COUNT(dawn_rows);
    WGPUSupportedFeatures have = {0};
    if (device)
        lib->DeviceGetFeatures(device, &have);
    else
        lib->AdapterGetFeatures(adapter, &have);
    *out = (wf_wgpu_features){0};
    info->n_features = 0;
    for (size_t i = 0; i < n_rows && info->n_features < WEFT_DEVICE_MAX_FEATURES; i++) {
        const char *reason = decide(lib, adapter, &have, &rows[i]);
        if (device && reason == rows[i].missing)
            reason = "the adopted device was made without it";
        if (device && !native && !rows[i].needs && !*reason)
            reason = "a switch of the device that the program made"; /* Dawn's toggles cannot be asked for */
        weft_device_feature *f = &info->features[info->n_features++];
        snprintf(f->name, sizeof f->name, "%s", rows[i].name);
        snprintf(f->reason, sizeof f->reason, "%s", reason);
        f->on = !*reason;
        if (!f->on)
            continue;
        if (rows[i].flag)
            *((bool *)out + rows[i].flag) = true;
        want(out, rows[i].needs);
        if (rows[i].also && offers(&have, rows[i].also))
            want(out, rows[i].also);
    }
    if (!native && offers(&have, WF_DAWN_FEATURE_MEMORY_HEAPS))
        info->memory_bytes = dawn_memory(lib, adapter);
    lib->SupportedFeaturesFreeMembers(have);
}

/* Dawn: experimental features need allow_unsafe_apis on the instance; f16 on NVIDIA and the memory model
 * that subgroup matrices need are adapter toggles; the rest removes work that lowering proves needless
 * (indices stay inside, divisors are not zero) or that our kernels never rely on (cleared workgroup memory). */
static const char *const instance_toggles[] = {"allow_unsafe_apis"};
static const char *const adapter_toggles[] = {"allow_unsafe_apis", "vulkan_enable_f16_on_nvidia", "use_vulkan_memory_model"};
static const char *const device_toggles[] = {"allow_unsafe_apis", "vulkan_enable_f16_on_nvidia", "use_vulkan_memory_model",
                                             /* from here on only when unchecked */
                                             "disable_robustness", "disable_workgroup_init",
                                             "disable_polyfills_on_integer_div_and_mod"};
enum { N_CHECKED_TOGGLES = 3 };

static bool toggles(const wf_wgpu_lib *lib, const char *const *names, size_t n, wf_dawn_toggles *out)
{
    if (lib->impl != WF_WGPU_DAWN)
        return false;
    *out = (wf_dawn_toggles){.chain.sType = (WGPUSType)WF_DAWN_STYPE_TOGGLES, .n_on = n, .on = names};
    return true;
}

bool wf_wgpu_toggles_instance(const wf_wgpu_lib *lib, wf_dawn_toggles *out)
{
    return toggles(lib, instance_toggles, WF_COUNT(instance_toggles), out);
}

bool wf_wgpu_toggles_adapter(const wf_wgpu_lib *lib, wf_dawn_toggles *out)
{
    return toggles(lib, adapter_toggles, WF_COUNT(adapter_toggles), out);
}

bool wf_wgpu_toggles_device(const wf_wgpu_lib *lib, wf_dawn_toggles *out)
{
    size_t n = wf_wgpu_feature_switched_off("unchecked") ? (size_t)N_CHECKED_TOGGLES : WF_COUNT(device_toggles);
    return toggles(lib, device_toggles, n, out);
}
