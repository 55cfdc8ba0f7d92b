/* webgpu_submit.c - command lists: checked and resolved once, then encoded in one pass and one submit.
 *
 * Resolving turns ids into handles and bindings into bind groups. A list with a key keeps its resolved
 * form: a repeated submit only walks an array and encodes. What was resolved is checked again, cheaply,
 * after any buffer or program was destroyed.
 *
 * An indirect grid is read here from the step block that comes with the list: the host knows it, so a
 * direct dispatch is encoded, which spares the GPU the indirection and the implementation its check of
 * the counts. A list without a step block dispatches indirectly, from what the step buffer holds.
 */
#include "webgpu_device.h"

enum { MAX_LISTS = 128 };
#define SCRATCH_BYTES (4u << 20)

typedef struct item {
    uint8_t kind;        /* wf_cmd_kind */
    bool set_pipeline;   /* differs from the dispatch before it in the pass */
    bool set_group;
    uint32_t indirect;   /* as in wf_cmd */
    uint32_t grid[3];
    wf_wgpu_pipeline *pipeline;
    wf_wgpu_group *group;
    WGPUBuffer from, to; /* COPY; FILL: to */
    uint64_t from_offset, to_offset, size;
} item;

typedef struct used_buffer {
    wf_wgpu_buffer *buffer; /* valid when the id still gives the serial */
    uint32_t id;
    uint64_t serial;
} used_buffer;

typedef struct used_program {
    uint32_t id;
    uint64_t serial;
} used_program;

struct wf_wgpu_list {
    uint64_t key;
    uint64_t epoch; /* of the last check */
    uint64_t used;  /* fence of the last submit */
    uint32_t static_id, step_id;
    wf_wgpu_buffer *step;
    uint32_t n_items;
    size_t n_buffers, buffers_capacity;
    size_t n_programs, programs_capacity;
    item *items;
    used_buffer *buffers;
    used_program *programs;
};

static void free_list(wf_wgpu *d, wf_wgpu_list *l)
{
    if (!l)
        return;
    for (uint32_t i = 0; i < l->n_items; i++) {
        wf_wgpu_group_release(d, l->items[i].group);
        wf_wgpu_pipeline_release(d, l->items[i].pipeline);
    }
    wf_free(l->items);
    wf_free(l->buffers);
    wf_free(l->programs);
    wf_free(l);
}

/* ---- resolving ---- */

static weft_status use_buffer(wf_wgpu *d, wf_wgpu_list *l, uint32_t id, wf_wgpu_buffer **out)
{
    wf_wgpu_buffer *b = wf_wgpu_buffer_find(d, id);
    if (!b)
        return WEFT_E_VALUE;
    *out = b;
    for (size_t i = l->n_buffers; i > 0; i--) /* newest first: neighbours share buffers */
        if (l->buffers[i - 1].buffer == b)
            return WEFT_OK;
    WF_TRY(wf_grow((void **)&l->buffers, &l->buffers_capacity, l->n_buffers + 1, sizeof *l->buffers));
    l->buffers[l->n_buffers++] = (used_buffer){b, id, b->serial};
    return WEFT_OK;
}

static weft_status use_program(wf_wgpu *d, wf_wgpu_list *l, uint32_t id, wf_wgpu_program **out)
{
    wf_wgpu_program *p = wf_wmap_get(&d->programs, wf_wmap_id(id));
    if (!p)
        return wf_fail(WEFT_E_VALUE, "webgpu: no program %u", id);
    *out = p;
    for (size_t i = l->n_programs; i > 0; i--)
        if (l->programs[i - 1].id == id)
            return WEFT_OK;
    WF_TRY(wf_grow((void **)&l->programs, &l->programs_capacity, l->n_programs + 1, sizeof *l->programs));
    l->programs[l->n_programs++] = (used_program){id, p->serial};
    return WEFT_OK;
}

static weft_status check_bind(const wf_wgpu_buffer *b, const wf_bind *bind, uint64_t align, uint64_t largest, uint32_t at)
{
    if (bind->size == 0 || bind->size % 4 || bind->offset % align || bind->offset > b->size || bind->size > b->size - bind->offset)
        return wf_fail(WEFT_E_VALUE,
                       "webgpu: command %u binds %llu bytes at %llu of a buffer of %llu (offset a multiple of %llu, size of 4)", at,
                       (unsigned long long)bind->size, (unsigned long long)bind->offset, (unsigned long long)b->size,
                       (unsigned long long)align);
    if (bind->size > largest)
        return wf_fail(WEFT_E_UNSUPPORTED, "webgpu: command %u binds %llu bytes, the device's limit is %llu", at,
                       (unsigned long long)bind->size, (unsigned long long)largest);
    return WEFT_OK;
}

static weft_status resolve_dispatch(wf_wgpu *d, wf_wgpu_list *l, const wf_cmd *cmd, wf_wgpu_buffer *statics, uint32_t at, item *it)
{
    const wf_caps *caps = &d->base.caps;
    wf_wgpu_program *program = NULL;
    wf_wgpu_buffer *buffers[WF_MAX_BIND] = {NULL};
    WF_TRY(use_program(d, l, cmd->program, &program));
    const wf_wgpu_layout *layout = program->pipeline->layout;
    if (cmd->n_bind != layout->n_bind)
        return wf_fail(WEFT_E_VALUE, "webgpu: command %u binds %u buffers, its program has %u", at, cmd->n_bind, layout->n_bind);
    for (uint32_t i = 0; i < cmd->n_bind; i++) {
        WF_TRY(use_buffer(d, l, cmd->bind[i].buffer, &buffers[i]));
        WF_TRY(check_bind(buffers[i], &cmd->bind[i], WF_BIND_ALIGN, caps->max_binding_bytes, at));
    }
    if (cmd->static_bytes == 0)
        statics = NULL;
    else if (!statics || cmd->static_bytes > WF_STATIC_MAX_BYTES || cmd->static_offset % WF_BIND_ALIGN ||
             (uint64_t)cmd->static_offset + WF_STATIC_MAX_BYTES > statics->size)
        return wf_fail(WEFT_E_VALUE, "webgpu: command %u has its static block of %u bytes at %u: %d from there on must be inside the buffer",
                       at, cmd->static_bytes, cmd->static_offset, WF_STATIC_MAX_BYTES);
    for (int k = 0; k < 3; k++)
        if (!cmd->indirect && cmd->grid[k] > caps->max_workgroups)
            return wf_fail(WEFT_E_VALUE, "webgpu: command %u has %u work groups on axis %d, the device's limit is %u", at,
                           cmd->grid[k], k, caps->max_workgroups);
    if (cmd->indirect && (!l->step || (cmd->indirect - 1) % 4 || cmd->indirect - 1 > WF_STEP_BYTES - 12))
        return wf_fail(WEFT_E_VALUE, "webgpu: command %u reads its grid at byte %u of the step block", at, cmd->indirect - 1);
    it->indirect = cmd->indirect;
    memcpy(it->grid, cmd->grid, sizeof it->grid);
    WF_TRY(wf_wgpu_group_get(d, layout, cmd, buffers, statics, l->step, &it->group));
    it->pipeline = program->pipeline;
    it->pipeline->refs++;
    return WEFT_OK;
}

static weft_status resolve_copy(wf_wgpu *d, wf_wgpu_list *l, const wf_cmd *cmd, uint32_t at, item *it)
{
    wf_wgpu_buffer *from = NULL, *to = NULL;
    const wf_bind *s = &cmd->bind[0], *t = &cmd->bind[1];
    if (cmd->n_bind != 2 || s->size != t->size)
        return wf_fail(WEFT_E_VALUE, "webgpu: command %u is a copy with %u bindings, of %llu and %llu bytes", at, cmd->n_bind,
                       (unsigned long long)s->size, (unsigned long long)t->size);
    WF_TRY(use_buffer(d, l, s->buffer, &from));
    WF_TRY(use_buffer(d, l, t->buffer, &to));
    WF_TRY(check_bind(from, s, 4, UINT64_MAX, at));
    WF_TRY(check_bind(to, t, 4, UINT64_MAX, at));
    it->from = from->handle;
    it->to = to->handle;
    it->from_offset = s->offset;
    it->to_offset = t->offset;
    it->size = s->size;
    if (from == to && !d->scratch)
        WF_TRY(wf_wgpu_buffer_raw(d, SCRATCH_BYTES, WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst, "scratch buffer", &d->scratch));
    return WEFT_OK;
}

static weft_status resolve_fill(wf_wgpu *d, wf_wgpu_list *l, const wf_cmd *cmd, uint32_t at, item *it)
{
    wf_wgpu_buffer *to = NULL;
    if (cmd->n_bind != 1)
        return wf_fail(WEFT_E_VALUE, "webgpu: command %u is a fill with %u bindings", at, cmd->n_bind);
    if (cmd->fill_word != 0)
        return wf_fail(WEFT_E_UNSUPPORTED, "webgpu: command %u fills with 0x%08x, only 0 is possible here", at, cmd->fill_word);
    WF_TRY(use_buffer(d, l, cmd->bind[0].buffer, &to));
    WF_TRY(check_bind(to, &cmd->bind[0], 4, UINT64_MAX, at));
    it->to = to->handle;
    it->to_offset = cmd->bind[0].offset;
    it->size = cmd->bind[0].size;
    return WEFT_OK;
}

/* Which state a dispatch has to set: the pass starts anew after a copy or a fill. */
static void mark_changes(wf_wgpu_list *l)
{
    const item *before = NULL;
    for (uint32_t i = 0; i < l->n_items; i++) {
        item *it = &l->items[i];
        if (it->kind != WF_CMD_DISPATCH) {
            before = NULL;
            continue;
        }
        it->set_pipeline = !before || before->pipeline != it->pipeline;
        it->set_group = !before || before->group != it->group || before->pipeline->layout != it->pipeline->layout;
        before = it;
    }
}

static weft_status resolve(wf_wgpu *d, const wf_cmdlist *list, wf_wgpu_list **out)
{
    weft_status st = WEFT_OK;
    wf_wgpu_buffer *statics = NULL;
    wf_wgpu_list *l = wf_calloc(1, sizeof *l);
    if (!l)
        return WEFT_E_OOM;
    *l = (wf_wgpu_list){.key = list->key, .epoch = d->epoch, .static_id = list->static_buffer, .step_id = list->step_buffer};
    l->items = wf_calloc(list->n_cmds, sizeof *l->items);
    if (!l->items) {
        st = WEFT_E_OOM;
        goto fail;
    }
    if (list->static_buffer)
        WF_TRY_GOTO(st, use_buffer(d, l, list->static_buffer, &statics), fail);
    if (list->step_buffer)
        WF_TRY_GOTO(st, use_buffer(d, l, list->step_buffer, &l->step), fail);
    if (l->step && l->step->size < WF_STEP_BYTES) {
        st = wf_fail(WEFT_E_VALUE, "webgpu: the step buffer has %llu bytes, expected %d", (unsigned long long)l->step->size, WF_STEP_BYTES);
        goto fail;
    }
    for (uint32_t i = 0; i < list->n_cmds; i++) {
        const wf_cmd *cmd = &list->cmds[i];
        item *it = &l->items[l->n_items++]; /* counted first, so that failing frees what it holds */
        it->kind = (uint8_t)cmd->kind;
        if (cmd->kind == WF_CMD_DISPATCH)
            st = resolve_dispatch(d, l, cmd, statics, i, it);
        else if (cmd->kind == WF_CMD_COPY)
            st = resolve_copy(d, l, cmd, i, it);
        else if (cmd->kind == WF_CMD_FILL)
            st = resolve_fill(d, l, cmd, i, it);
        else
            st = wf_fail(WEFT_E_VALUE, "webgpu: command %u has the unknown kind %u", i, cmd->kind);
        if (st != WEFT_OK)
            goto fail;
    }
    mark_changes(l);
    *out = l;
    return WEFT_OK;
fail:
    free_list(d, l);
    return st;
}

/* ---- cache ---- */

static bool still_valid(wf_wgpu *d, wf_wgpu_list *l)
{
    if (l->epoch == d->epoch)
        return true;
    for (size_t i = 0; i < l->n_buffers; i++) {
        const wf_wgpu_buffer *b = wf_wmap_get(&d->buffers, wf_wmap_id(l->buffers[i].id));
        if (!b || b->serial != l->buffers[i].serial)
            return false;
    }
    for (size_t i = 0; i < l->n_programs; i++) {
        const wf_wgpu_program *p = wf_wmap_get(&d->programs, wf_wmap_id(l->programs[i].id));
        if (!p || p->serial != l->programs[i].serial)
            return false;
    }
    l->epoch = d->epoch;
    return true;
}

static void forget(wf_wgpu *d, wf_wgpu_list *l)
{
    wf_wmap_remove(&d->lists, wf_wmap_id(l->key));
    free_list(d, l);
}

/* Drop lists that no longer hold (they keep pipelines and groups alive); when all do and the cache is
 * full, the one not used for longest. */
static void make_room(wf_wgpu *d)
{
    wf_wgpu_list *gone[MAX_LISTS], *oldest = NULL;
    size_t n = 0;
    for (size_t i = 0; i < d->lists.capacity; i++) {
        wf_wgpu_list *l = d->lists.slots[i].value;
        if (!l)
            continue;
        if (!still_valid(d, l) && n < MAX_LISTS)
            gone[n++] = l;
        else if (!oldest || l->used < oldest->used)
            oldest = l;
    }
    if (n == 0 && oldest && d->lists.count >= MAX_LISTS)
        gone[n++] = oldest;
    for (size_t i = 0; i < n; i++)
        forget(d, gone[i]);
}

/* `kept`: the cache owns the result; else the caller does. */
static weft_status find_or_resolve(wf_wgpu *d, const wf_cmdlist *list, wf_wgpu_list **out, bool *kept)
{
    *kept = false;
    if (list->key) {
        wf_wgpu_list *l = wf_wmap_get(&d->lists, wf_wmap_id(list->key));
        if (l && l->n_items == list->n_cmds && l->static_id == list->static_buffer && l->step_id == list->step_buffer &&
            still_valid(d, l)) {
            *out = l;
            *kept = true;
            return WEFT_OK;
        }
        if (l)
            forget(d, l);
        make_room(d);
    }
    WF_TRY(resolve(d, list, out));
    if (list->key)
        *kept = wf_wmap_put(&d->lists, wf_wmap_id(list->key), *out) == WEFT_OK;
    return WEFT_OK;
}

/* ---- encoding ---- */

typedef struct recorder {
    wf_wgpu *d;
    WGPUCommandEncoder encoder;
    WGPUComputePassEncoder pass; /* NULL: none is open */
} recorder;

static void end_pass(recorder *r)
{
    if (!r->pass)
        return;
    r->d->lib.ComputePassEncoderEnd(r->pass);
    r->d->lib.ComputePassEncoderRelease(r->pass);
    r->pass = NULL;
}

static void record_dispatch(recorder *r, const wf_wgpu_list *l, const item *it, const unsigned char *step)
{
    const wf_wgpu_lib *lib = &r->d->lib;
    uint32_t grid[3];
    memcpy(grid, it->grid, sizeof grid);
    if (!r->pass)
        r->pass = lib->CommandEncoderBeginComputePass(r->encoder, NULL);
    if (it->set_pipeline)
        lib->ComputePassEncoderSetPipeline(r->pass, it->pipeline->handle);
    if (it->set_group)
        lib->ComputePassEncoderSetBindGroup(r->pass, 0, it->group->handle, 0, NULL);
    if (it->indirect && !step) {
        lib->ComputePassEncoderDispatchWorkgroupsIndirect(r->pass, l->step->handle, it->indirect - 1);
        return;
    }
    if (it->indirect)
        memcpy(grid, step + it->indirect - 1, sizeof grid);
    if (grid[0] && grid[1] && grid[2])
        lib->ComputePassEncoderDispatchWorkgroups(r->pass, grid[0], grid[1], grid[2]);
}

/* WebGPU has no copy inside one buffer: by way of the scratch buffer, in the order of memmove. */
static void record_inner_copy(recorder *r, const item *it)
{
    uint64_t n = (it->size + SCRATCH_BYTES - 1) / SCRATCH_BYTES;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = (it->to_offset < it->from_offset ? i : n - 1 - i) * SCRATCH_BYTES;
        uint64_t size = WF_MIN(it->size - at, (uint64_t)SCRATCH_BYTES);
        r->d->lib.CommandEncoderCopyBufferToBuffer(r->encoder, it->from, it->from_offset + at, r->d->scratch, 0, size);
        r->d->lib.CommandEncoderCopyBufferToBuffer(r->encoder, r->d->scratch, 0, it->to, it->to_offset + at, size);
    }
}

static void record(recorder *r, const wf_wgpu_list *l, const unsigned char *step)
{
    for (uint32_t i = 0; i < l->n_items; i++) {
        const item *it = &l->items[i];
        if (it->kind == WF_CMD_DISPATCH) {
            record_dispatch(r, l, it, step);
            continue;
        }
        end_pass(r);
        if (it->kind == WF_CMD_FILL)
            r->d->lib.CommandEncoderClearBuffer(r->encoder, it->to, it->to_offset, it->size);
        else if (it->from == it->to)
            record_inner_copy(r, it);
        else
            r->d->lib.CommandEncoderCopyBufferToBuffer(r->encoder, it->from, it->from_offset, it->to, it->to_offset, it->size);
    }
    end_pass(r);
}

/* ---- entry ---- */

static weft_status check_step(wf_wgpu *d, const wf_cmdlist *list, const wf_wgpu_list *l)
{
    if (!list->step)
        return WEFT_OK;
    if (!l->step || list->step_bytes == 0 || list->step_bytes % 4 || list->step_bytes > WF_STEP_BYTES)
        return wf_fail(WEFT_E_VALUE, "webgpu: a step block of %u bytes, for buffer %u (a multiple of 4, at most %d)", list->step_bytes,
                       list->step_buffer, WF_STEP_BYTES);
    for (uint32_t i = 0; i < l->n_items; i++) {
        const item *it = &l->items[i];
        uint32_t grid[3];
        if (!it->indirect)
            continue;
        if (it->indirect - 1 + sizeof grid > list->step_bytes)
            return wf_fail(WEFT_E_VALUE, "webgpu: command %u reads its grid at byte %u of a step block of %u", i, it->indirect - 1,
                           list->step_bytes);
        memcpy(grid, (const char *)list->step + it->indirect - 1, sizeof grid);
        for (int k = 0; k < 3; k++)
            if (grid[k] > d->base.caps.max_workgroups)
                return wf_fail(WEFT_E_VALUE, "webgpu: command %u has %u work groups on axis %d in the step block, the limit is %u", i,
                               grid[k], k, d->base.caps.max_workgroups);
    }
    return WEFT_OK;
}

static void send(wf_wgpu *d, const wf_cmdlist *list, wf_wgpu_list *l)
{
    recorder r = {.d = d};
    uint64_t fence = ++d->last_fence;
    d->events->fence = fence;
    uint64_t errors = d->events->error_serial;
    if (list->step)
        d->lib.QueueWriteBuffer(d->queue, l->step->handle, 0, list->step, list->step_bytes);
    r.encoder = d->lib.DeviceCreateCommandEncoder(d->device, NULL);
    record(&r, l, list->step);
    wf_wgpu_send(d, r.encoder, errors);
    wf_wgpu_watch(d, fence);
    d->events->fence = fence + 1;
    d->written_bytes = 0;
    for (size_t i = 0; i < l->n_buffers; i++)
        l->buffers[i].buffer->last_fence = fence;
    l->used = fence;
}

weft_status wf_wgpu_submit(wf_device *base, const wf_cmdlist *list, uint64_t *fence)
{
    wf_wgpu *d = wf_wgpu_of(base);
    wf_wgpu_list *l = NULL;
    bool kept;
    WF_TRY(wf_wgpu_check_lost(d));
    WF_TRY(find_or_resolve(d, list, &l, &kept));
    weft_status st = check_step(d, list, l);
    if (st == WEFT_OK) {
        send(d, list, l);
        *fence = d->last_fence;
    }
    if (!kept)
        free_list(d, l);
    return st;
}

void wf_wgpu_lists_close(wf_wgpu *d)
{
    for (size_t i = 0; i < d->lists.capacity; i++)
        free_list(d, d->lists.slots[i].value);
    wf_wmap_free(&d->lists);
}
