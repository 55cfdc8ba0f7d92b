/* null_device.c - a device that looks like a GPU to the compiler, records what it is asked to do and
 * computes nothing: reads give zeros. It is the skeleton of a backend (copy it, fill the entries in the
 * order of hal.h), and shows in tests what a step submits.
 */
#include <stdio.h>
#include <stdlib.h>

#include "id_table.h"
#include "null_device.h"
#include "thread.h"

/* Writes into buffers up to this size are kept, since one of them may be a static block. */
enum { KEEP_BYTES = 4 << 20 };

typedef struct buffer {
    int refs; /* the table, and the record of the last submit */
    uint64_t size;
    char *bytes; /* NULL until the first write */
} buffer;

typedef struct null_device {
    wf_device base;
    wf_mutex lock;
    wf_id_table buffers, programs; /* programs: the object is the device itself */
    uint64_t fence;
    /* the last submit */
    wf_cmd *cmds;
    size_t cmds_cap, cmds_bytes;
    buffer *statics;
    char step[WF_STEP_BYTES];
    size_t step_bytes;
    bool replays; /* WEFT_NULL_REPLAY=1: a list whose key is that of the last one is not copied again */
    uint64_t key;
    wf_null_cost cost; /* NULL: none */
    void *cost_user;
    uint64_t now_ns;   /* of its clock, with `cost` */
} null_device;

static null_device *null_of(wf_device *d) { return (null_device *)d; }

static void buffer_release(buffer *b)
{
    if (!b || --b->refs > 0)
        return;
    wf_free(b->bytes);
    wf_free(b);
}

static void close_device(wf_device *d)
{
    null_device *c = null_of(d);
    for (uint32_t i = 0; i < c->buffers.capacity; i++)
        buffer_release(c->buffers.entries[i].object);
    buffer_release(c->statics);
    wf_id_table_free(&c->buffers);
    wf_id_table_free(&c->programs);
    wf_free(c->cmds);
    pthread_mutex_destroy(&c->lock);
    wf_free(c);
}

static weft_status buffer_create(wf_device *d, uint32_t id, uint64_t size)
{
    null_device *c = null_of(d);
    if (size == 0)
        return wf_fail(WEFT_E_VALUE, "null: a buffer of 0 bytes");
    if (size > d->caps.max_buffer_bytes)
        return wf_fail_oom((size_t)size);
    buffer *b = wf_calloc(1, sizeof *b);
    if (!b)
        return WEFT_E_OOM;
    b->refs = 1;
    b->size = size;
    wf_lock(&c->lock);
    weft_status st = wf_id_insert(&c->buffers, "buffer", id, b);
    wf_unlock(&c->lock);
    if (st != WEFT_OK)
        wf_free(b);
    return st;
}

static void buffer_destroy(wf_device *d, uint32_t id)
{
    null_device *c = null_of(d);
    wf_lock(&c->lock);
    buffer *b = wf_id_remove(&c->buffers, id);
    if (b)
        buffer_release(b);
    wf_unlock(&c->lock);
}

/* Under the lock: the buffer, if the range lies inside it. */
static buffer *find(null_device *c, const char *what, uint32_t id, uint64_t offset, uint64_t n)
{
    buffer *b = wf_id_find(&c->buffers, id);
    if (b && offset <= b->size && n <= wf_align_up(b->size, 4) - offset)
        return b;
    wf_fail(WEFT_E_VALUE, "null: %s: bytes %llu+%llu of buffer %u", what, (unsigned long long)offset, (unsigned long long)n, id);
    return NULL;
}

static weft_status write_buffer(wf_device *d, uint32_t id, uint64_t offset, const void *src, uint64_t n)
{
    null_device *c = null_of(d);
    weft_status st = WEFT_OK;
    wf_lock(&c->lock);
    buffer *b = find(c, "write", id, offset, n);
    if (!b)
        st = WEFT_E_VALUE;
    else if (b->size <= KEEP_BYTES) {
        if (!b->bytes)
            b->bytes = wf_calloc(1, (size_t)wf_align_up(b->size, 4));
        if (b->bytes)
            memcpy(b->bytes + offset, src, (size_t)n);
        else
            st = WEFT_E_OOM;
    }
    wf_unlock(&c->lock);
    return st;
}

static weft_status read_buffer(wf_device *d, uint32_t id, uint64_t offset, void *dst, uint64_t n, uint64_t *fence)
{
    null_device *c = null_of(d);
    wf_lock(&c->lock);
    bool ok = find(c, "read", id, offset, n) != NULL;
    if (ok) {
        memset(dst, 0, (size_t)n);
        *fence = ++c->fence;
    }
    wf_unlock(&c->lock);
    return ok ? WEFT_OK : WEFT_E_VALUE;
}

static weft_status program_create(wf_device *d, uint32_t id, const wf_program_desc *desc)
{
    null_device *c = null_of(d);
    if (desc->n_bind > WF_MAX_BIND)
        return wf_fail(WEFT_E_VALUE, "null: %u bindings, at most %d", desc->n_bind, WF_MAX_BIND);
    if (c->cost && desc->label && c->cost(c->cost_user, desc->label, NULL) == WF_NULL_REFUSED)
        return wf_fail(WEFT_E_INTERNAL, "null: program \"%s\" is refused", desc->label);
    wf_lock(&c->lock);
    weft_status st = wf_id_insert(&c->programs, "program", id, c);
    wf_unlock(&c->lock);
    return st;
}

static void program_destroy(wf_device *d, uint32_t id)
{
    null_device *c = null_of(d);
    wf_lock(&c->lock);
    wf_id_remove(&c->programs, id);
    wf_unlock(&c->lock);
}

static weft_status record(null_device *c, const wf_cmdlist *list)
{
    if (list->step_bytes > WF_STEP_BYTES)
        return wf_fail(WEFT_E_VALUE, "null: step block of %u bytes, at most %d", list->step_bytes, WF_STEP_BYTES);
    if (!c->replays || !list->key || list->key != c->key) {
        WF_TRY(wf_grow((void **)&c->cmds, &c->cmds_cap, list->n_cmds, sizeof *c->cmds));
        c->cmds_bytes = list->n_cmds * sizeof *c->cmds;
        if (list->n_cmds)
            memcpy(c->cmds, list->cmds, c->cmds_bytes);
        c->key = list->key;
    }
    c->step_bytes = list->step ? list->step_bytes : 0;
    if (c->step_bytes)
        memcpy(c->step, list->step, c->step_bytes);
    buffer *statics = wf_id_find(&c->buffers, list->static_buffer);
    if (statics)
        statics->refs++;
    buffer_release(c->statics);
    c->statics = statics;
    return WEFT_OK;
}

/* The clock goes on by what the dispatches of a list cost. */
static weft_status spend(null_device *c, const wf_cmdlist *list)
{
    for (uint32_t i = 0; c->cost && list->labels && i < list->n_cmds; i++) {
        int64_t ns = c->cost(c->cost_user, list->labels[list->cmds[i].label], &list->cmds[i]);
        if (ns < 0)
            return wf_fail(WEFT_E_INTERNAL, "null: \"%s\" fails", list->labels[list->cmds[i].label]);
        c->now_ns += (uint64_t)ns;
    }
    return WEFT_OK;
}

static uint64_t clock_ns(wf_device *d)
{
    null_device *c = null_of(d);
    return c->cost ? c->now_ns : wf_now_ns();
}

void wf_null_set_cost(wf_device *d, wf_null_cost cost, void *user)
{
    null_device *c = null_of(d);
    c->cost = cost;
    c->cost_user = user;
}

static weft_status submit(wf_device *d, const wf_cmdlist *list, uint64_t *fence)
{
    null_device *c = null_of(d);
    wf_lock(&c->lock);
    weft_status st = spend(c, list);
    if (st == WEFT_OK)
        st = record(c, list);
    if (st == WEFT_OK)
        *fence = ++c->fence;
    wf_unlock(&c->lock);
    return st;
}

static weft_status wait_fence(wf_device *d, uint64_t fence, int64_t timeout_ns)
{
    (void)timeout_ns;
    null_device *c = null_of(d);
    wf_lock(&c->lock);
    uint64_t last = c->fence;
    wf_unlock(&c->lock);
    if (fence > last)
        return wf_fail(WEFT_E_VALUE, "null: wait for fence %llu, the last is %llu", (unsigned long long)fence,
                       (unsigned long long)last);
    return WEFT_OK;
}

static void *map_buffer(wf_device *d, uint32_t id)
{
    (void)d;
    (void)id;
    return NULL;
}

static const wf_device_vt null_vt = {
    .name = "null",
    .close = close_device,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .write = write_buffer,
    .read = read_buffer,
    .program_create = program_create,
    .program_destroy = program_destroy,
    .submit = submit,
    .wait = wait_fence,
    .map = map_buffer,
    .clock = clock_ns,
};

void wf_null_describe(weft_device_info *info)
{
    memset(info, 0, sizeof *info);
    snprintf(info->spec, sizeof info->spec, "null");
    snprintf(info->kind, sizeof info->kind, "null");
    snprintf(info->name, sizeof info->name, "records, computes nothing");
    snprintf(info->implementation, sizeof info->implementation, "weft null");
    snprintf(info->backend, sizeof info->backend, "null");
    /* What desktop adapters commonly offer. */
    info->max_buffer_bytes = (uint64_t)4 << 30;
    info->max_binding_bytes = (uint64_t)2 << 30;
    info->max_storage_buffers = 16;
    info->max_workgroup_invocations = 256;
    info->max_workgroup_bytes = 32768;
    info->max_workgroups = 65535;
}

weft_status wf_null_open(wf_device **out)
{
    null_device *c = wf_calloc(1, sizeof *c);
    if (!c)
        return WEFT_E_OOM;
    const char *replay = getenv("WEFT_NULL_REPLAY");
    c->base.vt = &null_vt;
    c->replays = replay && strcmp(replay, "1") == 0;
    wf_mutex_init(&c->lock, false);
    wf_caps *caps = &c->base.caps;
    wf_null_describe(&caps->info);
    caps->runs_wgsl = true;
    caps->indirect = true;
    caps->layout = WF_LAYOUT_PLANAR;
    caps->max_buffer_bytes = caps->info.max_buffer_bytes;
    caps->max_binding_bytes = caps->info.max_binding_bytes;
    caps->max_storage_buffers = caps->info.max_storage_buffers;
    caps->max_workgroup_invocations = caps->info.max_workgroup_invocations;
    caps->max_workgroup_bytes = caps->info.max_workgroup_bytes;
    caps->max_workgroups = caps->info.max_workgroups;
    *out = &c->base;
    return WEFT_OK;
}

void wf_null_last(wf_device *d, const void **list, size_t *list_bytes, const void **statics, size_t *static_bytes,
                  const void **step, size_t *step_bytes)
{
    null_device *c = null_of(d);
    bool has_statics = c->statics && c->statics->bytes;
    *list = c->cmds;
    *list_bytes = c->cmds_bytes;
    *statics = has_statics ? c->statics->bytes : NULL;
    *static_bytes = has_statics ? (size_t)c->statics->size : 0;
    *step = c->step;
    *step_bytes = c->step_bytes;
}
