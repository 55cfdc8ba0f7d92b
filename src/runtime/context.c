/* context.c - opening and closing a context, its counters, cancelling. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime.h"

weft_status wf_ctx_enter(weft_ctx *ctx, const char *who)
{
    if (!ctx)
        return wf_fail(WEFT_E_CONTEXT, "%s: the context is NULL", who);
    wf_lock(&ctx->core.lock);
    if (!ctx->core.closed)
        return WEFT_OK;
    wf_unlock(&ctx->core.lock);
    return wf_fail(WEFT_E_CONTEXT, "%s: the context is closed", who);
}

static void destroy_ctx(weft_ctx *ctx)
{
    wf_free(ctx);
}

static const char *env_or(const char *given, const char *name, const char *fallback)
{
    if (given)
        return given;
    const char *v = getenv(name);
    return v && *v ? v : fallback;
}

static bool env_is(const char *name, const char *value)
{
    const char *v = getenv(name);
    return v && strcmp(v, value) == 0;
}

/* WEFT_LIMITS=binding=N,buffers=N,workgroup_bytes=N,invocations=N lowers limits that the caller left alone. */
static weft_status limits_from_env(weft_ctx_opts *opts)
{
    const char *at = getenv("WEFT_LIMITS");
    while (at && *at) {
        char name[24];
        unsigned long long value;
        int used = 0;
        if (sscanf(at, "%23[a-z_]=%llu%n", name, &value, &used) != 2)
            return wf_fail(WEFT_E_VALUE, "WEFT_LIMITS: \"%.40s\" is not NAME=NUMBER", at);
        unsigned long long most = strcmp(name, "binding") == 0 ? LLONG_MAX : UINT32_MAX;
        if (value == 0 || value > most || (at[used] && at[used] != ','))
            return wf_fail(WEFT_E_VALUE, "WEFT_LIMITS: \"%.40s\" is no number from 1 to %llu", at, most);
        if (strcmp(name, "binding") == 0)
            opts->max_binding_bytes = opts->max_binding_bytes ? opts->max_binding_bytes : value;
        else if (strcmp(name, "buffers") == 0)
            opts->max_storage_buffers = opts->max_storage_buffers ? opts->max_storage_buffers : (uint32_t)value;
        else if (strcmp(name, "workgroup_bytes") == 0)
            opts->max_workgroup_bytes = opts->max_workgroup_bytes ? opts->max_workgroup_bytes : (uint32_t)value;
        else if (strcmp(name, "invocations") == 0)
            opts->max_workgroup_invocations = opts->max_workgroup_invocations ? opts->max_workgroup_invocations : (uint32_t)value;
        else
            return wf_fail(WEFT_E_VALUE, "WEFT_LIMITS: \"%s\" is none of binding, buffers, workgroup_bytes, invocations", name);
        at += used;
        at += *at == ',';
    }
    return WEFT_OK;
}

static weft_status open_cache(weft_ctx *ctx, const weft_ctx_opts *opts)
{
    const char *dir = opts->cache_dir ? opts->cache_dir : env_or(NULL, "WEFT_CACHE_DIR", "");
    return *dir ? wf_disk_open(dir, opts->cache_max_bytes, &ctx->cache) : WEFT_OK;
}

static weft_status open_device(weft_ctx *ctx, const weft_ctx_opts *opts, const wf_webgpu_handles *handles)
{
    if (handles)
        return wf_device_adopt(handles, opts, &ctx->stats, &ctx->core.cancel, &ctx->dev);
    return wf_device_open_with(env_or(opts->device, "WEFT_DEVICE", "auto"), opts, ctx->cache, &ctx->stats, &ctx->core.cancel, &ctx->dev);
}

weft_status weft_ctx_open(const weft_ctx_opts *opts, weft_ctx **out)
{
    if (!out)
        return wf_fail(WEFT_E_CONTEXT, "ctx_open: the result pointer is NULL");
    return wf_ctx_open_on(opts, NULL, out);
}

weft_status wf_ctx_open_on(const weft_ctx_opts *opts, const wf_webgpu_handles *handles, weft_ctx **out)
{
    weft_ctx_opts lowered = {0};
    if (opts)
        lowered = *opts;
    WF_TRY(limits_from_env(&lowered));
    opts = &lowered;
    weft_ctx *ctx = wf_calloc(1, sizeof *ctx);
    if (!ctx)
        return wf_fail_oom(sizeof *ctx);
    weft_status st = wf_core_init(&ctx->core);
    if (st != WEFT_OK) {
        wf_free(ctx);
        return st;
    }
    ctx->core.destroy = destroy_ctx;
    ctx->core.upload = wf_storage_upload;
    ctx->core.borrow = wf_storage_borrow;
    ctx->buffers.ctx = ctx;
    ctx->n_threads = opts->n_threads;
    ctx->next_list_key = 1;
    ctx->fallback_is_error = env_is("WEFT_FALLBACK", "error");
    if (!ctx->fallback_is_error && *env_or(NULL, "WEFT_FALLBACK", ""))
        st = wf_fail(WEFT_E_VALUE, "WEFT_FALLBACK is \"%.40s\": only \"error\" is known", getenv("WEFT_FALLBACK"));
    ctx->no_fuse = env_is("WEFT_FUSE", "0");
    ctx->tune_off = env_is("WEFT_TUNE", "off");
    if (st == WEFT_OK && !ctx->tune_off && *env_or(NULL, "WEFT_TUNE", ""))
        st = wf_fail(WEFT_E_VALUE, "WEFT_TUNE is \"%.40s\": only \"off\" is known", getenv("WEFT_TUNE"));
    if (st == WEFT_OK)
        st = wf_kernel_check_env();
    if (st == WEFT_OK && *env_or(NULL, "WEFT_CHECK", ""))
        st = wf_check_open(getenv("WEFT_CHECK"), &ctx->check);
    if (st == WEFT_OK && opts->trace_path)
        st = wf_trace_open(&ctx->trace, opts->trace_path);
    if (st == WEFT_OK)
        st = open_cache(ctx, opts);
    if (st == WEFT_OK)
        st = open_device(ctx, opts, handles);
    if (st != WEFT_OK) {
        wf_check_close(ctx->check);
        wf_disk_close(ctx->cache);
        wf_free(ctx->trace.path);
        ctx->core.closed = true;
        wf_core_release(ctx);
        return st;
    }
    ctx->programs = (wf_programs){.dev = ctx->dev, .next_id = &ctx->next_id};
    ctx->texts = (wf_texts){.disk = ctx->cache, .stats = &ctx->stats, .caps = &ctx->dev->caps};
    wf_tune_recall(ctx);
    const weft_device_info *info = &ctx->dev->caps.info;
    wf_log(WEFT_LOG_INFO, "context: device %s (%s: %s, %s), %u threads, asked for as \"%s\"", info->spec, info->kind, info->name, info->implementation,
           info->n_threads, handles ? "(adopted)" : env_or(opts->device, "WEFT_DEVICE", "auto"));
    *out = ctx;
    return WEFT_OK;
}

static void free_scratch(weft_ctx *ctx)
{
    wf_free(ctx->order);
    wf_free(ctx->walk);
    wf_free(ctx->key.ptr);
    wf_free(ctx->stealable);
    wf_free(ctx->targets);
    wf_free(ctx->fresh);
    wf_free(ctx->buffers.free_list);
}

void weft_ctx_close(weft_ctx *ctx)
{
    if (!ctx)
        return;
    wf_lock(&ctx->core.lock);
    if (ctx->core.closed) {
        wf_unlock(&ctx->core.lock);
        return;
    }
    wf_core_drop_caches(&ctx->core);
    wf_taps_close(ctx);
    ctx->core.closed = true;
    wf_trace_write(&ctx->trace);
    wf_check_close(ctx->check);
    ctx->check = NULL;
    wf_explain_drop(ctx);
    wf_tune_drop(ctx);
    wf_tune_table_free(&ctx->tuned);
    for (int b = 0; b < WF_PLAN_BUCKETS; b++)
        while (ctx->plans[b]) {
            wf_plan *next = ctx->plans[b]->next;
            wf_plan_destroy(ctx, ctx->plans[b]);
            ctx->plans[b] = next;
        }
    for (int a = 0; a < WF_MAX_ARENAS; a++)
        wf_buffer_drop(ctx, ctx->arena[a], ctx->arena_bytes[a]);
    wf_buffer_drop(ctx, ctx->step_buffer, WF_STEP_BYTES);
    wf_buffer_drop(ctx, ctx->error_buffer, 256);
    wf_buffers_trim(&ctx->buffers, 0);
    wf_programs_free(&ctx->programs);
    wf_programs_free(&ctx->host_programs);
    if (ctx->host)
        ctx->host->vt->close(ctx->host);
    ctx->dev->vt->close(ctx->dev);
    wf_texts_free(&ctx->texts);
    wf_disk_close(ctx->cache); /* after the device, which may keep blobs until its end */
    ctx->cache = NULL;
    ctx->host = ctx->dev = NULL; /* storages that are still held see that their buffer is gone */
    free_scratch(ctx);
    wf_unlock(&ctx->core.lock);
    wf_core_release(ctx);
}

void weft_cancel(weft_ctx *ctx)
{
    if (ctx)
        atomic_store(&ctx->core.cancel, true);
}

void weft_cancel_clear(weft_ctx *ctx)
{
    if (ctx)
        atomic_store(&ctx->core.cancel, false);
}

weft_status weft_ctx_device(weft_ctx *ctx, weft_device_info *out)
{
    if (!out)
        return wf_fail(WEFT_E_CONTEXT, "ctx_device: out must not be NULL");
    WF_TRY(wf_ctx_enter(ctx, "ctx_device"));
    *out = ctx->dev->caps.info;
    wf_unlock(&ctx->core.lock);
    return WEFT_OK;
}

weft_status weft_ctx_stats(weft_ctx *ctx, weft_stats *out)
{
    if (!out)
        return wf_fail(WEFT_E_CONTEXT, "ctx_stats: out must not be NULL");
    WF_TRY(wf_ctx_enter(ctx, "ctx_stats"));
    *out = ctx->stats;
    if (ctx->cache) {
        wf_disk_counts kept = wf_disk_counted(ctx->cache);
        out->cache_found = kept.found;
        out->cache_stored = kept.stored;
        out->cache_refused = kept.refused;
    }
    out->handles_live = (uint64_t)ctx->core.holds;
    out->pipelines = WF_MAX(ctx->stats.pipelines, ctx->dev->caps.runs_kir ? ctx->programs.count : 0);
    wf_unlock(&ctx->core.lock);
    return WEFT_OK;
}

weft_status weft_null_last_list(weft_ctx *ctx, const void **list, size_t *list_bytes, const void **params, size_t *param_bytes,
                                const void **step, size_t *step_bytes)
{
    if (!list || !list_bytes || !params || !param_bytes || !step || !step_bytes)
        return wf_fail(WEFT_E_CONTEXT, "null_last_list: a result pointer is NULL");
    WF_TRY(wf_ctx_enter(ctx, "null_last_list"));
    weft_status st = WEFT_OK;
    if (strcmp(ctx->dev->caps.info.kind, "null") != 0)
        st = wf_fail(WEFT_E_UNSUPPORTED, "null_last_list: the device is \"%s\", not null", ctx->dev->caps.info.spec);
    else
        wf_null_last(ctx->dev, list, list_bytes, params, param_bytes, step, step_bytes);
    wf_unlock(&ctx->core.lock);
    return st;
}
