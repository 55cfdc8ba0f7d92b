/* tune_kept.c - measured choices between runs: the table of tune_store.c as one value of the cache on disk, a device each. */
#include "tuner.h"

/* The threads are part of it: they decide which row of the CPU is fastest. */
static bool key_of(weft_ctx *ctx, wf_str *key)
{
    wf_str_addf(key, "tune\n%u\n", ctx->dev->caps.info.n_threads);
    wf_caps_identity(&ctx->dev->caps, key);
    return !key->oom;
}

/* Losing what was measured costs time alone: nothing here fails a call. */
void wf_tune_recall(weft_ctx *ctx)
{
    wf_str key = WF_STR_INIT;
    void *bytes = NULL;
    size_t n = 0;
    if (!ctx->cache || ctx->tune_off)
        return;
    if (key_of(ctx, &key) && wf_disk_find(ctx->cache, key.ptr, key.len, &bytes, &n) && wf_tune_load(ctx, bytes, n) != WEFT_OK)
        wf_log(WEFT_LOG_WARN, "cache: measured choices are not used: %s", weft_error_message());
    wf_free(bytes);
    wf_str_free(&key);
}

void wf_tune_keep(weft_ctx *ctx)
{
    wf_str key = WF_STR_INIT;
    size_t n = 0;
    if (!ctx->cache || ctx->tune_off)
        return;
    wf_tune_recall(ctx); /* what other processes measured meanwhile stays */
    void *bytes = wf_tune_save(ctx, NULL, 0, &n) == WEFT_OK ? wf_alloc(n) : NULL;
    if (bytes && wf_tune_save(ctx, bytes, n, &n) == WEFT_OK && key_of(ctx, &key))
        wf_disk_store(ctx->cache, key.ptr, key.len, bytes, n);
    wf_free(bytes);
    wf_str_free(&key);
}
