/* run.c - replay a plan: bind this evaluation's buffers, fill the step block, submit.
 *
 * When every buffer is the one the commands were resolved for, nothing is patched and the list keeps its
 * key, so the device replays what it prepared.
 */
#include "runtime.h"

static weft_status check_scalars(const weft_ctx *ctx, const wf_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_checks; i++) {
        const wf_plan_check *c = &plan->checks[i];
        int32_t v = (int32_t)ctx->order[c->order]->scalar_bits;
        if (v < c->lo || v >= c->hi)
            return wf_fail(WEFT_E_INDEX, "%s: %d is outside %lld .. %lld", c->who, v, (long long)c->lo, (long long)c->hi - 1);
    }
    return WEFT_OK;
}

static weft_status ready_arenas(weft_ctx *ctx, const wf_plan *plan)
{
    for (int a = 0; a < WF_MAX_ARENAS; a++) {
        if (plan->arena_bytes[a] <= ctx->arena_bytes[a])
            continue;
        wf_buffer_drop(ctx, ctx->arena[a], ctx->arena_bytes[a]);
        ctx->arena[a] = 0;
        ctx->arena_bytes[a] = 0;
        uint64_t size = wf_align_up(plan->arena_bytes[a], WF_BIND_ALIGN);
        weft_status st = wf_buffer_new(ctx, size, &ctx->arena[a]);
        if (st == WEFT_E_OOM) { /* what the pool holds may be what is missing */
            wf_buffers_trim(&ctx->buffers, 0);
            st = wf_buffer_new(ctx, size, &ctx->arena[a]);
        }
        WF_TRY(st);
        ctx->arena_bytes[a] = size;
    }
    if (plan->step_bytes && !ctx->step_buffer)
        WF_TRY(wf_buffer_new(ctx, WF_STEP_BYTES, &ctx->step_buffer));
    if (plan->uses_error && !ctx->error_buffer) {
        static const uint32_t zero[64];
        WF_TRY(wf_buffer_new(ctx, sizeof zero, &ctx->error_buffer));
        WF_TRY(ctx->dev->vt->write(ctx->dev, ctx->error_buffer, 0, zero, sizeof zero));
    }
    return WEFT_OK;
}

/* Storages for the outputs; ctx->fresh[i] holds one reference each. */
static weft_status make_outputs(weft_ctx *ctx, const wf_plan *plan)
{
    if (plan->n_outs > ctx->cap_fresh)
        WF_TRY(wf_grow((void **)&ctx->fresh, &ctx->cap_fresh, plan->n_outs, sizeof *ctx->fresh));
    for (uint32_t i = 0; i < plan->n_outs; i++) {
        const wf_plan_out *o = &plan->outs[i];
        weft_status st = WEFT_OK;
        if (o->alias_leaf >= 0) {
            ctx->fresh[i] = ctx->order[plan->leaf_order[o->alias_leaf]]->storage;
            wf_storage_retain(ctx->fresh[i]);
        } else {
            st = wf_storage_new(ctx, o->size_bytes, WF_LAYOUT_PLAIN, &ctx->fresh[i]);
        }
        if (st != WEFT_OK) {
            while (i-- > 0)
                wf_storage_release(ctx->fresh[i]);
            return st;
        }
    }
    return WEFT_OK;
}

static void resolve(weft_ctx *ctx, wf_plan *plan)
{
    bool same = plan->list_key != 0;
    for (int32_t i = 0; i < plan->n_leaves; i++) {
        uint32_t b = ctx->order[plan->leaf_order[i]]->storage->buffer;
        same &= plan->leaf_buffer[i] == b;
        plan->leaf_buffer[i] = b;
    }
    for (uint32_t i = 0; i < plan->n_outs; i++) {
        uint32_t b = ctx->fresh[i]->buffer;
        same &= plan->out_buffer[i] == b;
        plan->out_buffer[i] = b;
    }
    for (int a = 0; a < WF_MAX_ARENAS; a++) {
        if (plan->arena_bytes[a])
            same &= plan->arena_buffer[a] == ctx->arena[a];
        plan->arena_buffer[a] = ctx->arena[a];
    }
    if (same)
        return;
    for (uint32_t i = 0; i < plan->n_patches; i++) {
        const wf_patch *p = &plan->patches[i];
        uint32_t *buffer = &plan->cmds[p->cmd].bind[p->bind].buffer;
        switch (p->kind) {
        case WF_MEM_LEAF: *buffer = plan->leaf_buffer[p->index]; break;
        case WF_MEM_OUT: *buffer = plan->out_buffer[p->index]; break;
        case WF_MEM_ARENA: *buffer = plan->arena_buffer[p->index]; break;
        default: *buffer = ctx->error_buffer; break;
        }
    }
    plan->list_key = ctx->next_list_key;
    ctx->next_list_key += plan->n_parts + 1;
}

void wf_plan_fill_step(const weft_ctx *ctx, const wf_plan *plan, uint32_t *step)
{
    for (int32_t i = 0; i < plan->n_scalars; i++)
        step[i] = ctx->order[plan->scalar_order[i]]->scalar_bits;
    for (uint32_t i = 0; i < plan->n_indirect; i++) {
        const wf_plan_indirect *in = &plan->indirect[i];
        uint32_t *counts = &step[in->step_word], value = ctx->order[in->order]->scalar_bits;
        memcpy(counts, in->grid, sizeof in->grid);
        uint32_t need = (value + (uint32_t)in->div - 1) / (uint32_t)in->div;
        counts[in->axis] = WF_MIN(in->grid[in->axis], need ? need : 1);
    }
}

/* With a trace or checks each command is its own submit, waited for: its time is known, its result can be read. */
static weft_status submit_apart(weft_ctx *ctx, const wf_plan *plan, const wf_plan_part *part, wf_cmdlist *list)
{
    const wf_cmd *cmds = list->cmds;
    list->key = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        uint64_t fence, begin = wf_now_ns();
        list->cmds = &cmds[i];
        list->n_cmds = 1;
        WF_TRY(ctx->dev->vt->submit(ctx->dev, list, &fence));
        WF_TRY(ctx->dev->vt->wait(ctx->dev, fence, -1));
        wf_trace_add(&ctx->trace, plan->labels[part->first + i], "kernel", begin, wf_now_ns());
        if (ctx->check)
            WF_TRY(wf_check_after(ctx, plan, part->first + i));
    }
    return WEFT_OK;
}

static weft_status submit_part(weft_ctx *ctx, wf_plan *plan, uint32_t index, const uint32_t *step, uint64_t *fence)
{
    const wf_plan_part *part = &plan->parts[index];
    if (part->host) {
        WF_TRY(wf_run_host_part(ctx, plan, part, step));
        return ctx->check ? wf_check_after(ctx, plan, part->first) : WEFT_OK;
    }
    wf_cmdlist list = {.key = plan->list_key + index, .cmds = plan->cmds + part->first, .n_cmds = part->count,
                       .static_buffer = plan->static_buffer, .step_buffer = plan->step_bytes ? ctx->step_buffer : 0,
                       .step = plan->step_bytes ? step : NULL, .step_bytes = plan->step_bytes, .labels = plan->labels};
    if (plan->step_bytes) {
        ctx->stats.step_uploads++;
        ctx->stats.bytes_up += plan->step_bytes;
    }
    ctx->stats.submits++;
    ctx->stats.dispatches += part->count;
    if (ctx->dev->caps.runs_kir)
        ctx->stats.cpu_programs += part->count;
    if (ctx->trace.path || ctx->check)
        return submit_apart(ctx, plan, part, &list);
    return ctx->dev->vt->submit(ctx->dev, &list, fence);
}

/* The error words of the list, if it has index tensors: read, and cleared when set. */
static weft_status check_error_words(weft_ctx *ctx)
{
    uint32_t word[WF_ERROR_WORDS] = {0}, zero = 0;
    WF_TRY(wf_read_back(ctx, ctx->error_buffer, 0, word, sizeof word));
    ctx->stats.bytes_down += sizeof word;
    if (!word[WF_ERROR_SET])
        return WEFT_OK;
    WF_TRY(ctx->dev->vt->write(ctx->dev, ctx->error_buffer, 0, &zero, 4));
    const char *values = wf_value_sentence((int32_t)word[WF_ERROR_INDEX], word[WF_ERROR_EXTENT]);
    if (values)
        return wf_fail(WEFT_E_VALUE, "%s", values);
    return wf_fail(WEFT_E_INDEX, "an index tensor holds %d, outside its axis of extent %u", (int32_t)word[WF_ERROR_INDEX], word[WF_ERROR_EXTENT]);
}

static weft_status run_parts(weft_ctx *ctx, wf_plan *plan, bool *waited)
{
    uint32_t step[WF_STEP_BYTES / 4];
    uint64_t fence = 0, begin = wf_trace_now(&ctx->trace);
    if (plan->step_bytes)
        wf_plan_fill_step(ctx, plan, step);
    for (uint32_t i = 0; i < plan->n_parts; i++)
        WF_TRY(submit_part(ctx, plan, i, step, &fence));
    ctx->stats.copies += plan->n_copies;
    ctx->stats.fallbacks += plan->n_fallbacks;
    if (plan->uses_error) {
        WF_TRY(check_error_words(ctx));
        *waited = true;
    } else if (ctx->dev->caps.runs_kir && fence) {
        WF_TRY(ctx->dev->vt->wait(ctx->dev, fence, -1));
        *waited = true;
    }
    wf_trace_add(&ctx->trace, "evaluate", "eval", begin, wf_trace_now(&ctx->trace));
    return WEFT_OK;
}

/* What a failed evaluation leaves behind must not be reported by the next one. The sentence stays. */
static void forget_failure(weft_ctx *ctx, const wf_plan *plan, weft_status st)
{
    static const uint32_t zero;
    char message[512];
    if (st == WEFT_E_CANCELLED)
        atomic_store(&ctx->core.cancel, false);
    if (!plan->uses_error || st == WEFT_E_DEVICE_LOST)
        return;
    strncpy(message, weft_error_message(), sizeof message - 1);
    message[sizeof message - 1] = 0;
    ctx->dev->vt->write(ctx->dev, ctx->error_buffer, 0, &zero, sizeof zero);
    wf_fail(st, "%s", message);
}

weft_status wf_plan_run(weft_ctx *ctx, wf_plan *plan, bool *waited)
{
    WF_TRY(check_scalars(ctx, plan));
    WF_TRY(ready_arenas(ctx, plan));
    WF_TRY(make_outputs(ctx, plan));
    resolve(ctx, plan);
    weft_status st = ctx->check ? wf_check_begin(ctx, plan) : WEFT_OK;
    if (st == WEFT_OK)
        st = run_parts(ctx, plan, waited);
    if (ctx->check)
        wf_check_end(ctx);
    if (st != WEFT_OK)
        forget_failure(ctx, plan, st);
    for (uint32_t i = 0; st == WEFT_OK && i < plan->n_realise; i++) {
        const wf_plan_realise *r = &plan->realise[i];
        wf_storage *s = NULL;
        if (r->out >= 0) {
            s = ctx->fresh[r->out];
            wf_storage_retain(s);
        } else {
            st = wf_storage_new(ctx, 0, WF_LAYOUT_PLAIN, &s);
        }
        if (st == WEFT_OK)
            wf_node_realise(ctx->order[r->order], s);
    }
    for (uint32_t i = 0; i < plan->n_outs; i++)
        wf_storage_release(ctx->fresh[i]);
    return st;
}

void wf_plan_destroy(weft_ctx *ctx, wf_plan *plan)
{
    if (plan->static_buffer)
        wf_buffer_drop(ctx, plan->static_buffer, plan->static_bytes);
    wf_plan_free(plan);
}
