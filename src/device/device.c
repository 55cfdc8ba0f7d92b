/* device.c - opening a device by its SPEC, and the list of all. A backend is one row of the table. */
#include <stdio.h>
#include <stdlib.h>

#include "hal.h"
#include "null_device.h"

enum { MAX_ADAPTER = 9999 };

typedef struct request {
    const weft_ctx_opts *opts;
    wf_disk_cache *disk;
    int index; /* the number after the colon, -1: none */
} request;

/* ---- backends ---- */

static weft_status open_cpu(const request *r, wf_device **out) { return wf_cpu_open(r->opts->n_threads, out); }

static weft_status open_webgpu(const request *r, wf_device **out) { return wf_webgpu_open_with(r->index, r->opts, r->disk, out); }

/* As a GPU with lowered limits would be, so that splitting is tested without one. */
static weft_status open_null(const request *r, wf_device **out)
{
    WF_TRY(wf_null_open(out));
    wf_caps *c = &(*out)->caps;
    const weft_ctx_opts *o = r->opts;
    if (o->max_binding_bytes)
        c->max_binding_bytes = c->info.max_binding_bytes = WF_MIN(c->max_binding_bytes, o->max_binding_bytes);
    if (o->max_storage_buffers)
        c->max_storage_buffers = c->info.max_storage_buffers = WF_MIN(c->max_storage_buffers, o->max_storage_buffers);
    if (o->max_workgroup_invocations)
        c->max_workgroup_invocations = c->info.max_workgroup_invocations =
            WF_MIN(c->max_workgroup_invocations, o->max_workgroup_invocations);
    if (o->max_workgroup_bytes)
        c->max_workgroup_bytes = c->info.max_workgroup_bytes = WF_MIN(c->max_workgroup_bytes, o->max_workgroup_bytes);
    return WEFT_OK;
}

static weft_status open_adapter_of_kind(const char *kind, const weft_device_info *list, int n, const request *r,
                                        wf_device **out)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(list[i].kind, kind) != 0)
            continue;
        request one = {r->opts, r->disk, i};
        if (open_webgpu(&one, out) == WEFT_OK)
            return WEFT_OK;
        wf_log(WEFT_LOG_WARN, "auto: %s: %s", list[i].name, weft_error_message());
    }
    return WEFT_E_DEVICE_INIT;
}

/* A real GPU that opens, else the CPU. A software adapter is the CPU by a detour. */
static weft_status open_auto(const request *r, wf_device **out)
{
    weft_device_info *list = NULL;
    int n = 0;
    weft_status st = wf_webgpu_list(r->opts, &list, &n);
    if (st == WEFT_OK)
        st = open_adapter_of_kind("discrete", list, n, r, out);
    else
        wf_log(WEFT_LOG_INFO, "auto: no WebGPU: %s", weft_error_message());
    if (st != WEFT_OK && list)
        st = open_adapter_of_kind("integrated", list, n, r, out);
    wf_free(list);
    return st == WEFT_OK ? st : open_cpu(r, out);
}

static const struct {
    const char *name;
    bool takes_index;
    weft_status (*open)(const request *r, wf_device **out);
} backends[] = {
    {"auto", false, open_auto},
    {"cpu", false, open_cpu},
    {"webgpu", true, open_webgpu},
    {"null", false, open_null},
};

/* ---- SPEC ---- */

/* "name" or "name:number". */
static weft_status parse(const char *spec, size_t *row, int *index)
{
    const char *colon = strchr(spec, ':');
    size_t n = colon ? (size_t)(colon - spec) : strlen(spec);
    *index = -1;
    for (*row = 0; *row < WF_COUNT(backends); ++*row) {
        if (strlen(backends[*row].name) != n || memcmp(spec, backends[*row].name, n) != 0)
            continue;
        if (!colon)
            return WEFT_OK;
        char *end;
        long v = colon[1] >= '0' && colon[1] <= '9' ? strtol(colon + 1, &end, 10) : -1;
        if (!backends[*row].takes_index || v < 0 || v > MAX_ADAPTER || *end)
            break;
        *index = (int)v;
        return WEFT_OK;
    }
    return wf_fail(WEFT_E_VALUE, "device: unknown SPEC \"%.64s\"; known: auto, cpu, webgpu, webgpu:N, null", spec);
}

weft_status wf_device_open(const char *spec, const weft_ctx_opts *opts, weft_stats *stats, atomic_bool *cancel, wf_device **out)
{
    return wf_device_open_with(spec, opts, NULL, stats, cancel, out);
}

weft_status wf_device_open_with(const char *spec, const weft_ctx_opts *opts, wf_disk_cache *disk, weft_stats *stats, atomic_bool *cancel,
                                wf_device **out)
{
    static const weft_ctx_opts defaults;
    size_t row;
    request r = {opts ? opts : &defaults, disk, -1};
    if (!stats || !cancel)
        return wf_fail(WEFT_E_INTERNAL, "device: no counters or no cancel flag");
    WF_TRY(parse(spec ? spec : "auto", &row, &r.index));
    WF_TRY(wf_environment_check(r.opts->n_threads));
    wf_device *d;
    WF_TRY(backends[row].open(&r, &d));
    d->stats = stats;
    d->cancel = cancel;
    *out = d;
    return WEFT_OK;
}

weft_status wf_device_adopt(const wf_webgpu_handles *handles, const weft_ctx_opts *opts, weft_stats *stats, atomic_bool *cancel, wf_device **out)
{
    WF_TRY(wf_environment_check(opts->n_threads));
    wf_device *d;
    WF_TRY(wf_webgpu_adopt(handles, opts, &d));
    d->stats = stats;
    d->cancel = cancel;
    *out = d;
    return WEFT_OK;
}

/* ---- the list ---- */

weft_status weft_device_list(const weft_ctx_opts *opts, weft_device_info **out, int *n)
{
    static const weft_ctx_opts defaults;
    if (!out || !n)
        return wf_fail(WEFT_E_VALUE, "device_list: out or n is NULL");
    weft_device_info *adapters = NULL;
    int n_adapters = 0;
    if (wf_webgpu_list(opts ? opts : &defaults, &adapters, &n_adapters) != WEFT_OK)
        n_adapters = 0; /* the sentence why stays in the message */
    weft_device_info *list = wf_calloc((size_t)n_adapters + 2, sizeof *list);
    if (!list) {
        wf_free(adapters);
        return WEFT_E_OOM;
    }
    wf_cpu_describe(&list[0]);
    if (n_adapters)
        memcpy(list + 1, adapters, (size_t)n_adapters * sizeof *list);
    wf_null_describe(&list[n_adapters + 1]);
    wf_free(adapters);
    *out = list;
    *n = n_adapters + 2;
    return WEFT_OK;
}

void weft_device_list_free(weft_device_info *list) { wf_free(list); }
