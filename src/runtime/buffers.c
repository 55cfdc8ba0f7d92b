/* buffers.c - device buffers by size, kept for reuse, and storages made of them.
 *
 * A buffer may go back to the pool while the device still works with it: queues run in order, so the
 * next user's commands come after.
 */
#include "quant.h"
#include "runtime.h"

/* More than this held idle is given back to the device, oldest first; so is, beyond the small part that
 * costs nothing to keep, what no evaluation asked for in a while. */
#define POOL_KEEP_BYTES (1ull << 30)
#define POOL_SMALL_BYTES (16ull << 20)
#define POOL_AGE_EVALS 8
#define SIZE_STEP 256

weft_status wf_buffer_new(weft_ctx *ctx, uint64_t size_bytes, uint32_t *id)
{
    uint32_t fresh = ++ctx->next_id;
    if (size_bytes > ctx->dev->caps.max_buffer_bytes)
        return wf_fail(WEFT_E_OOM, "a buffer of %llu bytes was asked for; the device's largest is %llu",
                       (unsigned long long)size_bytes, (unsigned long long)ctx->dev->caps.max_buffer_bytes);
    WF_TRY(ctx->dev->vt->buffer_create(ctx->dev, fresh, size_bytes));
    ctx->stats.buffers_created++;
    ctx->stats.buffers_live++;
    ctx->stats.bytes_live += size_bytes;
    ctx->stats.bytes_peak = WF_MAX(ctx->stats.bytes_peak, ctx->stats.bytes_live);
    *id = fresh;
    return WEFT_OK;
}

void wf_buffer_drop(weft_ctx *ctx, uint32_t id, uint64_t size_bytes)
{
    if (!id)
        return;
    ctx->dev->vt->buffer_destroy(ctx->dev, id);
    ctx->stats.buffers_live--;
    ctx->stats.bytes_live -= size_bytes;
}

weft_status wf_buffers_get(wf_buffers *b, uint64_t size_bytes, uint32_t *id)
{
    uint64_t size = wf_align_up(size_bytes, SIZE_STEP);
    for (size_t i = b->n_free; i-- > 0;) {
        if (b->free_list[i].size_bytes != size)
            continue;
        *id = b->free_list[i].id;
        memmove(&b->free_list[i], &b->free_list[i + 1], (b->n_free - i - 1) * sizeof *b->free_list);
        b->n_free--;
        b->free_bytes -= size;
        b->ctx->stats.buffers_reused++;
        return WEFT_OK;
    }
    weft_status st = wf_buffer_new(b->ctx, size, id);
    if (st == WEFT_E_OOM && b->n_free) { /* what the pool holds may be what is missing */
        wf_buffers_trim(b, 0);
        st = wf_buffer_new(b->ctx, size, id);
    }
    return st;
}

void wf_buffers_put(wf_buffers *b, uint32_t id, uint64_t size_bytes)
{
    uint64_t size = wf_align_up(size_bytes, SIZE_STEP);
    if (size > POOL_KEEP_BYTES || wf_grow((void **)&b->free_list, &b->cap_free, b->n_free + 1, sizeof *b->free_list) != WEFT_OK) {
        wf_buffer_drop(b->ctx, id, size);
        return;
    }
    b->free_list[b->n_free++] = (wf_pool_entry){size, b->ctx->stats.evals, id};
    b->free_bytes += size;
    wf_buffers_trim(b, POOL_KEEP_BYTES);
}

void wf_buffers_trim(wf_buffers *b, uint64_t keep_bytes)
{
    size_t drop = 0;
    while (b->free_bytes > keep_bytes && drop < b->n_free) {
        wf_buffer_drop(b->ctx, b->free_list[drop].id, b->free_list[drop].size_bytes);
        b->free_bytes -= b->free_list[drop++].size_bytes;
    }
    if (drop)
        memmove(b->free_list, b->free_list + drop, (b->n_free - drop) * sizeof *b->free_list);
    b->n_free -= drop;
}

void wf_buffers_age(wf_buffers *b)
{
    while (b->n_free && b->free_bytes > POOL_SMALL_BYTES && b->free_list[0].freed_at + POOL_AGE_EVALS < b->ctx->stats.evals)
        wf_buffers_trim(b, b->free_bytes - 1);
}

static void release_storage(wf_storage *s)
{
    if (s->borrowed && s->ctx->dev)
        wf_buffer_drop(s->ctx, s->buffer, s->size_bytes);
    else if (s->buffer && s->ctx->dev)
        wf_buffers_put(&s->ctx->buffers, s->buffer, s->size_bytes);
    wf_free(s);
}

weft_status wf_storage_new(weft_ctx *ctx, uint64_t size_bytes, uint32_t layout, wf_storage **out)
{
    wf_storage *s = wf_calloc(1, sizeof *s);
    if (!s)
        return wf_fail_oom(sizeof *s);
    *s = (wf_storage){.layout = layout, .size_bytes = size_bytes, .ctx = ctx, .release = release_storage};
    atomic_init(&s->refs, 1);
    if (size_bytes) {
        weft_status st = wf_buffers_get(&ctx->buffers, size_bytes, &s->buffer);
        if (st != WEFT_OK) {
            wf_free(s);
            return st;
        }
    }
    *out = s;
    return WEFT_OK;
}

/* Blocks converted at a time: a multiple of 16, so that every plane's part begins at a multiple of 4 bytes. */
#define PLANAR_CHUNK 32768

static weft_status upload_planar(weft_ctx *ctx, weft_dtype dtype, int64_t n_blocks, const uint8_t *data, uint32_t buffer, uint64_t offset)
{
    wf_planes whole = wf_quant_planar_offsets(dtype, n_blocks);
    int64_t chunk = WF_MIN(n_blocks, PLANAR_CHUNK);
    uint8_t *staging = wf_alloc(wf_quant_planar_bytes(dtype, chunk));
    weft_status st = WEFT_OK;
    if (!staging)
        return wf_fail_oom(wf_quant_planar_bytes(dtype, chunk));
    size_t block_bytes = weft_dtype_block_bytes(dtype);
    for (int64_t at = 0; at < n_blocks && st == WEFT_OK; at += chunk) {
        int64_t n = WF_MIN(chunk, n_blocks - at);
        wf_planes part = wf_quant_planar_offsets(dtype, n);
        uint64_t quant_bytes = whole.scales > 0 ? (block_bytes - (dtype == WEFT_DTYPE_Q4_1 ? 4 : 2)) : 0;
        memset(staging, 0, part.bytes);
        st = wf_quant_to_planar(dtype, n, data + (size_t)at * block_bytes, staging, 0, n);
        if (st == WEFT_OK)
            st = ctx->dev->vt->write(ctx->dev, buffer, offset + whole.quants + (uint64_t)at * quant_bytes, staging + part.quants, (uint64_t)n * quant_bytes);
        uint64_t half = wf_align_up((uint64_t)n * 2, 4);
        if (st == WEFT_OK)
            st = ctx->dev->vt->write(ctx->dev, buffer, offset + whole.scales + (uint64_t)at * 2, staging + part.scales, half);
        if (st == WEFT_OK && dtype == WEFT_DTYPE_Q4_1)
            st = ctx->dev->vt->write(ctx->dev, buffer, offset + whole.minima + (uint64_t)at * 2, staging + part.minima, half);
    }
    wf_free(staging);
    return st;
}

static weft_status upload_sections(weft_ctx *ctx, weft_dtype dtype, int64_t n_blocks, const uint8_t *data, const wf_storage *s)
{
    int64_t step = s->section_blocks ? s->section_blocks : n_blocks;
    for (int64_t at = 0, i = 0; at < n_blocks; at += step, i++)
        WF_TRY(upload_planar(ctx, dtype, WF_MIN(step, n_blocks - at), data + (size_t)at * weft_dtype_block_bytes(dtype), s->buffer,
                             wf_quant_section_offset(dtype, s->section_blocks, i)));
    return WEFT_OK;
}

void wf_storage_lend(wf_storage *s, uint32_t buffer, uint64_t size_bytes)
{
    weft_stats *stats = &s->ctx->stats;
    s->buffer = buffer;
    s->size_bytes = size_bytes;
    s->borrowed = true;
    stats->buffers_live++;
    stats->bytes_live += size_bytes;
    stats->bytes_peak = WF_MAX(stats->bytes_peak, stats->bytes_live);
}

weft_status wf_storage_borrow(weft_ctx *ctx, const void *data, size_t size_bytes, void (*release)(void *), void *user, wf_storage **out)
{
    enum { SMALLEST_PAGE = 4096, ALIGNMENT = 16 };
    uint64_t size = wf_align_up(size_bytes, 4); /* what follows is in the same page, so it can be read */
    if (!ctx->dev->vt->buffer_borrow || (uintptr_t)data % ALIGNMENT || ((uintptr_t)data + size_bytes - 1) % SMALLEST_PAGE + WF_BORROW_TAIL >= SMALLEST_PAGE ||
        size > ctx->dev->caps.max_buffer_bytes)
        return WEFT_OK;
    wf_storage *s = NULL;
    WF_TRY(wf_storage_new(ctx, 0, WF_LAYOUT_PLAIN, &s));
    uint32_t id = ++ctx->next_id;
    weft_status st = ctx->dev->vt->buffer_borrow(ctx->dev, id, data, size, release, user);
    if (st != WEFT_OK) {
        wf_storage_release(s);
        return st;
    }
    wf_storage_lend(s, id, size);
    *out = s;
    return WEFT_OK;
}

weft_status wf_storage_upload(weft_ctx *ctx, weft_dtype dtype, int64_t numel, int64_t row, const void *data, size_t size_bytes,
                              wf_storage **out)
{
    bool planar = weft_dtype_is_quantised(dtype) && ctx->dev->caps.layout == WF_LAYOUT_PLANAR;
    int64_t n_blocks = numel / weft_dtype_block(dtype);
    int64_t section = planar ? wf_quant_section_blocks(dtype, n_blocks, row / weft_dtype_block(dtype), ctx->dev->caps.max_binding_bytes) : 0;
    uint64_t bytes = planar ? wf_quant_sections_bytes(dtype, n_blocks, section) : wf_align_up(size_bytes, 4);
    wf_storage *s = NULL;
    WF_TRY(wf_storage_new(ctx, numel ? bytes : 0, planar ? WF_LAYOUT_PLANAR : WF_LAYOUT_PLAIN, &s));
    s->section_blocks = section;
    weft_status st = WEFT_OK;
    size_t body = size_bytes & ~(size_t)3, tail = size_bytes - body;
    if (planar) {
        st = numel ? upload_sections(ctx, dtype, n_blocks, data, s) : WEFT_OK;
    } else if (numel) {
        if (body)
            st = ctx->dev->vt->write(ctx->dev, s->buffer, 0, data, body);
        if (st == WEFT_OK && tail) {
            uint8_t last[4] = {0};
            memcpy(last, (const uint8_t *)data + body, tail);
            st = ctx->dev->vt->write(ctx->dev, s->buffer, body, last, 4);
        }
    }
    if (st != WEFT_OK) {
        wf_storage_release(s);
        return st;
    }
    ctx->stats.bytes_up += size_bytes;
    *out = s;
    return WEFT_OK;
}
