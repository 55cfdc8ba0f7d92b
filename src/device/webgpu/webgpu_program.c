/* webgpu_program.c - programs: bind group layouts from the declaration, pipelines made once for equal text. */
#include <stdio.h>

#include "webgpu_device.h"

/* ---- layouts ---- */

static void free_layout(wf_wgpu *d, wf_wgpu_layout *l)
{
    if (l->pipeline)
        d->lib.PipelineLayoutRelease(l->pipeline);
    if (l->group)
        d->lib.BindGroupLayoutRelease(l->group);
    wf_free(l);
}

static WGPUBindGroupLayoutEntry layout_entry(uint32_t binding, WGPUBufferBindingType type)
{
    return (WGPUBindGroupLayoutEntry){.binding = binding, .visibility = WGPUShaderStage_Compute, .buffer.type = type};
}

static weft_status make_layout(wf_wgpu *d, const wf_program_desc *desc, wf_wgpu_layout *l)
{
    WGPUBindGroupLayoutEntry entries[WF_WGPU_GROUP_BUFFERS];
    uint32_t n = desc->n_bind;
    for (uint32_t i = 0; i < n; i++)
        entries[i] = layout_entry(i, desc->access[i] == WF_ACCESS_READ ? WGPUBufferBindingType_ReadOnlyStorage
                                                                        : WGPUBufferBindingType_Storage);
    entries[n] = layout_entry(n, WGPUBufferBindingType_Uniform);
    entries[n + 1] = layout_entry(n + 1, WGPUBufferBindingType_Uniform);
    WGPUBindGroupLayoutDescriptor group = {.entryCount = n + 2, .entries = entries};
    wf_wgpu_scope_push(d);
    l->n_bind = n;
    l->group = d->lib.DeviceCreateBindGroupLayout(d->device, &group);
    WGPUPipelineLayoutDescriptor pipeline = {.bindGroupLayoutCount = 1, .bindGroupLayouts = &l->group};
    if (l->group)
        l->pipeline = d->lib.DeviceCreatePipelineLayout(d->device, &pipeline);
    WF_TRY(wf_wgpu_scope_pop(d, "bind group layout"));
    return l->pipeline ? WEFT_OK : wf_fail(WEFT_E_INTERNAL, "webgpu: bind group layout: refused");
}

static weft_status find_layout(wf_wgpu *d, const wf_program_desc *desc, wf_wgpu_layout **out)
{
    uint64_t key = desc->n_bind;
    for (uint32_t i = 0; i < WF_MIN(desc->n_bind, (uint32_t)WF_MAX_BIND); i++)
        key |= (uint64_t)(desc->access[i] != WF_ACCESS_READ) << (8 + i);
    wf_wgpu_layout *l = wf_wmap_get(&d->layouts, wf_wmap_id(key));
    if (!l) {
        l = wf_calloc(1, sizeof *l);
        if (!l)
            return WEFT_E_OOM;
        weft_status st = make_layout(d, desc, l);
        if (st == WEFT_OK)
            st = wf_wmap_put(&d->layouts, wf_wmap_id(key), l);
        if (st != WEFT_OK) {
            free_layout(d, l);
            return st;
        }
    }
    *out = l;
    return WEFT_OK;
}

/* ---- pipelines ---- */

/* naga knows subgroup operations but not the directive that the standard asks for: blank it. */
static void blank_directive(char *wgsl, const char *directive)
{
    char *at = strstr(wgsl, directive);
    if (at)
        memset(at, ' ', strlen(directive));
}

static WGPUShaderModule make_module(wf_wgpu *d, const wf_program_desc *desc, const char *text)
{
    WGPUShaderSourceWGSL source = {.chain.sType = WGPUSType_ShaderSourceWGSL, .code = wf_wgpu_sv(text)};
    WGPUShaderModuleDescriptor module = {.nextInChain = &source.chain, .label = wf_wgpu_sv(desc->label)};
    if (d->base.caps.unchecked && d->lib.impl == WF_WGPU_NATIVE)
        return d->lib.DeviceCreateShaderModuleTrusted(d->device, &module, WGPUShaderRuntimeChecks_None);
    return d->lib.DeviceCreateShaderModule(d->device, &module);
}

static weft_status compile(wf_wgpu *d, const wf_program_desc *desc, const char *text, const wf_wgpu_layout *layout,
                           WGPUComputePipeline *out)
{
    char what[128];
    snprintf(what, sizeof what, "program \"%.100s\"", desc->label ? desc->label : "");
    wf_wgpu_scope_push(d);
    WGPUShaderModule module = make_module(d, desc, text);
    weft_status st = wf_wgpu_scope_pop(d, what);
    WGPUComputePipeline pipeline = NULL;
    if (st == WEFT_OK && module) {
        WGPUComputePipelineDescriptor pd = {.label = wf_wgpu_sv(desc->label), .layout = layout->pipeline,
                                            .compute = {.module = module, .entryPoint = wf_wgpu_sv("main")}};
        wf_wgpu_scope_push(d);
        pipeline = d->lib.DeviceCreateComputePipeline(d->device, &pd);
        st = wf_wgpu_scope_pop(d, what);
    }
    if (module)
        d->lib.ShaderModuleRelease(module);
    if (st == WEFT_OK && !pipeline)
        st = wf_fail(WEFT_E_INTERNAL, "webgpu: %s: refused", what);
    if (st != WEFT_OK && pipeline)
        d->lib.ComputePipelineRelease(pipeline);
    if (st == WEFT_OK)
        *out = pipeline;
    return st;
}

static weft_status make_pipeline(wf_wgpu *d, const wf_program_desc *desc, wf_wgpu_layout *layout, wf_hash128 key,
                                 wf_wgpu_pipeline **out)
{
    weft_status st = WEFT_E_OOM;
    wf_wgpu_pipeline *p = wf_calloc(1, sizeof *p);
    char *text = wf_strdup(desc->wgsl);
    if (!p || !text)
        goto fail;
    if (d->lib.impl == WF_WGPU_NATIVE)
        blank_directive(text, "enable subgroups;");
    *p = (wf_wgpu_pipeline){.refs = 1, .key = key, .layout = layout};
    WF_TRY_GOTO(st, compile(d, desc, text, layout, &p->handle), fail);
    st = wf_wmap_put(&d->pipelines, key, p);
    if (st != WEFT_OK) {
        d->lib.ComputePipelineRelease(p->handle);
        goto fail;
    }
    d->base.stats->pipelines++;
    wf_free(text);
    *out = p;
    return WEFT_OK;
fail:
    wf_free(text);
    wf_free(p);
    return st;
}

void wf_wgpu_pipeline_release(wf_wgpu *d, wf_wgpu_pipeline *p)
{
    if (!p || --p->refs > 0)
        return;
    wf_wmap_remove(&d->pipelines, p->key);
    d->lib.ComputePipelineRelease(p->handle);
    wf_free(p);
}

/* ---- entries ---- */

static weft_status check_desc(wf_wgpu *d, uint32_t id, const wf_program_desc *desc)
{
    if (id == 0 || wf_wmap_get(&d->programs, wf_wmap_id(id)))
        return wf_fail(WEFT_E_VALUE, "webgpu: program id %u is %s", id, id ? "in use" : "not an id");
    if (desc->kind != WF_PROGRAM_WGSL || !desc->wgsl)
        return wf_fail(WEFT_E_UNSUPPORTED, "webgpu: program \"%s\" is not WGSL, and only that runs here",
                       desc->label ? desc->label : "");
    if (desc->n_bind > d->base.caps.max_storage_buffers)
        return wf_fail(WEFT_E_UNSUPPORTED, "webgpu: program \"%s\" binds %u storage buffers, the device's limit is %u",
                       desc->label ? desc->label : "", desc->n_bind, d->base.caps.max_storage_buffers);
    return WEFT_OK;
}

weft_status wf_wgpu_program_create(wf_device *base, uint32_t id, const wf_program_desc *desc)
{
    wf_wgpu *d = wf_wgpu_of(base);
    WF_TRY(wf_wgpu_check_lost(d));
    WF_TRY(check_desc(d, id, desc));
    wf_wgpu_layout *layout;
    WF_TRY(find_layout(d, desc, &layout));
    wf_hash128 key = wf_hash(desc->wgsl, strlen(desc->wgsl), (uint64_t)(uintptr_t)layout);
    wf_wgpu_program *program = wf_calloc(1, sizeof *program);
    if (!program)
        return WEFT_E_OOM;
    weft_status st = WEFT_OK;
    wf_wgpu_pipeline *p = wf_wmap_get(&d->pipelines, key);
    if (p)
        p->refs++;
    else
        st = make_pipeline(d, desc, layout, key, &p);
    *program = (wf_wgpu_program){.id = id, .serial = ++d->serial, .pipeline = p};
    if (st == WEFT_OK && (st = wf_wmap_put(&d->programs, wf_wmap_id(id), program)) != WEFT_OK)
        wf_wgpu_pipeline_release(d, p);
    if (st != WEFT_OK)
        wf_free(program);
    return st;
}

void wf_wgpu_program_destroy(wf_device *base, uint32_t id)
{
    wf_wgpu *d = wf_wgpu_of(base);
    wf_wgpu_program *program = wf_wmap_remove(&d->programs, wf_wmap_id(id));
    if (!program)
        return;
    d->epoch++;
    wf_wgpu_pipeline_release(d, program->pipeline);
    wf_free(program);
}

void wf_wgpu_programs_close(wf_wgpu *d)
{
    for (size_t i = 0; i < d->programs.capacity; i++) {
        wf_wgpu_program *program = d->programs.slots[i].value;
        if (!program)
            continue;
        wf_wgpu_pipeline_release(d, program->pipeline);
        wf_free(program);
    }
    for (size_t i = 0; i < d->layouts.capacity; i++)
        if (d->layouts.slots[i].value)
            free_layout(d, d->layouts.slots[i].value);
    wf_wmap_free(&d->programs);
    wf_wmap_free(&d->pipelines);
    wf_wmap_free(&d->layouts);
}
