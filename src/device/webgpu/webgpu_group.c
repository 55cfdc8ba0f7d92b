/* webgpu_group.c - bind groups, cached by what they bind.
 *
 * A group is keyed by its layout and, for each binding, the buffer's serial, offset and size. It leaves
 * the cache when one of its buffers is destroyed, or, when the cache is full, if it was not used lately.
 */
#include "webgpu_device.h"

enum { MAX_GROUPS = 8192 };

typedef struct group_key {
    uint64_t layout;
    struct {
        uint64_t serial, offset, size;
    } bind[WF_WGPU_GROUP_BUFFERS];
} group_key;

void wf_wgpu_group_release(wf_wgpu *d, wf_wgpu_group *g)
{
    if (!g || --g->refs > 0)
        return;
    d->lib.BindGroupRelease(g->handle);
    wf_free(g);
}

static void uncache(wf_wgpu *d, wf_wgpu_group *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->buffers[i])
            g->buffers[i]->n_groups--;
    g->n = 0;
    wf_wmap_remove(&d->groups, g->key);
    wf_wgpu_group_release(d, g);
}

/* Remove every cached group for which `pick` is true. Removal moves slots, so the index stays put. */
static void sweep(wf_wgpu *d, bool (*pick)(const wf_wgpu_group *g, const void *arg), const void *arg)
{
    bool again = true;
    while (again) { /* a cluster that wraps around may move a slot behind the index */
        again = false;
        for (size_t i = 0; i < d->groups.capacity;) {
            wf_wgpu_group *g = d->groups.slots[i].value;
            if (g && pick(g, arg)) {
                uncache(d, g);
                again = true;
            } else {
                i++;
            }
        }
    }
}

static bool binds(const wf_wgpu_group *g, const void *buffer)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->buffers[i] == buffer)
            return true;
    return false;
}

static bool older(const wf_wgpu_group *g, const void *fence)
{
    return g->used < *(const uint64_t *)fence;
}

void wf_wgpu_groups_forget(wf_wgpu *d, wf_wgpu_buffer *b)
{
    sweep(d, binds, b);
}

static void make_room(wf_wgpu *d)
{
    if (d->groups.count < MAX_GROUPS)
        return;
    uint64_t recent = d->last_fence > 64 ? d->last_fence - 64 : 0;
    sweep(d, older, &recent);
    if (d->groups.count >= MAX_GROUPS) {
        uint64_t everything = UINT64_MAX;
        sweep(d, older, &everything);
    }
}

static weft_status make(wf_wgpu *d, const wf_wgpu_layout *layout, const wf_cmd *cmd, wf_wgpu_group *g)
{
    WGPUBindGroupEntry entries[WF_WGPU_GROUP_BUFFERS];
    uint32_t n = layout->n_bind;
    for (uint32_t i = 0; i < n; i++)
        entries[i] = (WGPUBindGroupEntry){.binding = i, .buffer = g->buffers[i]->handle, .offset = cmd->bind[i].offset,
                                          .size = cmd->bind[i].size};
    wf_wgpu_buffer *statics = g->buffers[n], *step = g->buffers[n + 1];
    entries[n] = (WGPUBindGroupEntry){.binding = n, .buffer = statics ? statics->handle : d->zero,
                                      .offset = statics ? cmd->static_offset : 0, .size = WF_STATIC_MAX_BYTES};
    entries[n + 1] = (WGPUBindGroupEntry){.binding = n + 1, .buffer = step ? step->handle : d->zero, .size = WF_STEP_BYTES};
    WGPUBindGroupDescriptor desc = {.layout = layout->group, .entryCount = n + 2, .entries = entries};
    g->handle = d->lib.DeviceCreateBindGroup(d->device, &desc); /* errors arrive with the fence */
    return g->handle ? WEFT_OK : wf_fail(WEFT_E_INTERNAL, "webgpu: bind group: refused");
}

weft_status wf_wgpu_group_get(wf_wgpu *d, const wf_wgpu_layout *layout, const wf_cmd *cmd, wf_wgpu_buffer *const *buffers,
                              wf_wgpu_buffer *statics, wf_wgpu_buffer *step, wf_wgpu_group **out)
{
    uint32_t n = layout->n_bind;
    group_key key;
    memset(&key, 0, sizeof key);
    key.layout = (uint64_t)(uintptr_t)layout;
    for (uint32_t i = 0; i < n; i++) {
        key.bind[i].serial = buffers[i]->serial;
        key.bind[i].offset = cmd->bind[i].offset;
        key.bind[i].size = cmd->bind[i].size;
    }
    key.bind[n].serial = statics ? statics->serial : 0;
    key.bind[n].offset = statics ? cmd->static_offset : 0;
    key.bind[n + 1].serial = step ? step->serial : 0;
    wf_hash128 hash = wf_hash(&key, offsetof(group_key, bind) + (n + 2) * sizeof key.bind[0], 0);

    wf_wgpu_group *g = wf_wmap_get(&d->groups, hash);
    if (!g) {
        make_room(d);
        g = wf_calloc(1, sizeof *g);
        if (!g)
            return WEFT_E_OOM;
        *g = (wf_wgpu_group){.refs = 1, .n = n + 2, .key = hash};
        memcpy(g->buffers, buffers, n * sizeof *buffers);
        g->buffers[n] = statics;
        g->buffers[n + 1] = step;
        weft_status st = make(d, layout, cmd, g);
        if (st == WEFT_OK && (st = wf_wmap_put(&d->groups, hash, g)) != WEFT_OK)
            d->lib.BindGroupRelease(g->handle);
        if (st != WEFT_OK) {
            wf_free(g);
            return st;
        }
        for (uint32_t i = 0; i < g->n; i++)
            if (g->buffers[i])
                g->buffers[i]->n_groups++;
    }
    g->refs++;
    g->used = d->last_fence + 1;
    *out = g;
    return WEFT_OK;
}

void wf_wgpu_groups_close(wf_wgpu *d)
{
    uint64_t everything = UINT64_MAX;
    sweep(d, older, &everything);
    wf_wmap_free(&d->groups);
}
