/* host_part.c - one kernel of a plan on the CPU, because the device has no row for it: its operands come
 * down, it runs, what it wrote goes back up. Slow and counted (stats.fallbacks), but right.
 */
#include "quant.h"
#include "runtime.h"

weft_status wf_ctx_host(void *user, wf_device **dev, wf_programs **programs)
{
    weft_ctx *ctx = user;
    if (!ctx->host) {
        weft_ctx_opts opts = {.n_threads = ctx->n_threads};
        WF_TRY(wf_device_open("cpu", &opts, &ctx->host_stats, &ctx->core.cancel, &ctx->host));
        ctx->host_programs = (wf_programs){.dev = ctx->host, .next_id = &ctx->next_id};
        wf_log(WEFT_LOG_INFO, "runtime: the CPU was opened for kernels this device has no row for");
    }
    *dev = ctx->host;
    *programs = &ctx->host_programs;
    return WEFT_OK;
}

typedef struct host_buffer {
    uint32_t id;
    uint64_t size_bytes;
} host_buffer;

static weft_status host_write(weft_ctx *ctx, host_buffer *b, const void *bytes, uint64_t n)
{
    uint32_t id = ++ctx->next_id;
    WF_TRY(ctx->host->vt->buffer_create(ctx->host, id, wf_align_up(n ? n : 4, 4)));
    *b = (host_buffer){id, n};
    return bytes ? ctx->host->vt->write(ctx->host, id, 0, bytes, n) : WEFT_OK;
}

static weft_status fetch(weft_ctx *ctx, const wf_bind *from, uint8_t quant, int64_t section_blocks, host_buffer *to)
{
    uint8_t *bytes = wf_alloc(from->size);
    if (!bytes)
        return wf_fail_oom(from->size);
    weft_status st = wf_read_back(ctx, from->buffer, from->offset, bytes, from->size);
    ctx->stats.bytes_down += from->size;
    if (st == WEFT_OK && quant) {
        /* Planar to plain: the count of blocks is the largest whose planes fit. */
        weft_dtype dtype = (weft_dtype)(quant - 1);
        uint64_t section = wf_quant_section_offset(dtype, section_blocks, 1), before = section ? (from->size - 1) / section : 0, rest = from->size - before * section;
        int64_t n = (int64_t)(rest / weft_dtype_block_bytes(dtype));
        while (n > 0 && wf_quant_planar_bytes(dtype, n) > rest)
            n--;
        n += (int64_t)before * section_blocks;
        size_t padded = (size_t)wf_align_up((uint64_t)n * weft_dtype_block_bytes(dtype), 4);
        uint8_t *plain = wf_calloc(1, padded);
        st = plain ? wf_quant_from_sections(dtype, n, section_blocks, bytes, plain, 0, n) : wf_fail_oom(padded);
        if (st == WEFT_OK)
            st = host_write(ctx, to, plain, padded);
        wf_free(plain);
    } else if (st == WEFT_OK) {
        st = host_write(ctx, to, bytes, from->size);
    }
    wf_free(bytes);
    return st;
}

weft_status wf_run_host_part(weft_ctx *ctx, wf_plan *plan, const wf_plan_part *part, const void *step)
{
    wf_cmd cmd = plan->cmds[part->first];
    host_buffer buffers[WF_MAX_BIND + 2] = {{0, 0}};
    uint32_t statics = 0, steps = 0;
    uint64_t fence = 0;
    weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < cmd.n_bind && st == WEFT_OK; i++) {
        st = fetch(ctx, &plan->cmds[part->first].bind[i], part->quant[i], part->section_blocks[i], &buffers[i]);
        cmd.bind[i] = (wf_bind){.buffer = buffers[i].id, .offset = 0, .size = wf_align_up(buffers[i].size_bytes, 4)};
    }
    host_buffer sb = {0, 0}, pb = {0, 0};
    if (st == WEFT_OK && cmd.static_bytes) {
        uint8_t window[WF_STATIC_MAX_BYTES] = {0};
        memcpy(window, (const uint8_t *)plan->statics + cmd.static_offset, cmd.static_bytes);
        st = host_write(ctx, &sb, window, sizeof window);
        statics = sb.id;
        cmd.static_offset = 0;
    }
    if (st == WEFT_OK && plan->step_bytes) {
        st = host_write(ctx, &pb, NULL, WF_STEP_BYTES);
        steps = pb.id;
    }
    wf_cmdlist list = {.cmds = &cmd, .n_cmds = 1, .static_buffer = statics, .step_buffer = steps, .step = plan->step_bytes ? step : NULL, .step_bytes = plan->step_bytes};
    if (st == WEFT_OK)
        st = ctx->host->vt->submit(ctx->host, &list, &fence);
    if (st == WEFT_OK)
        st = ctx->host->vt->wait(ctx->host, fence, -1);
    for (uint32_t i = 0; i < cmd.n_bind && st == WEFT_OK; i++)
        if (part->writes >> i & 1) {
            const wf_bind *to = &plan->cmds[part->first].bind[i];
            st = ctx->dev->vt->write(ctx->dev, to->buffer, to->offset, ctx->host->vt->map(ctx->host, buffers[i].id), to->size);
            ctx->stats.bytes_up += to->size;
        }
    ctx->stats.cpu_programs++;
    for (uint32_t i = 0; i < cmd.n_bind; i++)
        if (buffers[i].id)
            ctx->host->vt->buffer_destroy(ctx->host, buffers[i].id);
    if (statics)
        ctx->host->vt->buffer_destroy(ctx->host, statics);
    if (steps)
        ctx->host->vt->buffer_destroy(ctx->host, steps);
    return st;
}
