/* memplan.c - lifetimes to arena offsets.
 *
 * Largest first, each at the lowest free offset among the items alive at the same time (greedy by size,
 * as in Pisarchyk and Lee 2020, "Efficient Memory Management for Deep Neural Net Inference"). WebGPU
 * forbids a buffer that one dispatch both reads and writes, so a command's output lies in another arena
 * than its inputs.
 */
#include "compile.h"

#include <stdlib.h>

typedef struct placed {
    const wf_mem_item *items;
    int32_t index;
} placed;

static int by_size(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    uint64_t sx = x->items[x->index].size_bytes, sy = y->items[y->index].size_bytes;
    if (sx != sy)
        return sx < sy ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

static bool overlap(const wf_mem_item *a, const wf_mem_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Lowest offset in the arena where the item fits beside those alive with it. */
static uint64_t lowest_fit(const wf_mem_item *items, const placed *order, int32_t n_placed, const wf_mem_item *it, int32_t arena)
{
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t j = 0; j < n_placed; j++) {
            const wf_mem_item *o = &items[order[j].index];
            if (o->arena == arena && overlap(o, it) && offset < o->offset + o->size_bytes && o->offset < offset + it->size_bytes) {
                offset = o->offset + o->size_bytes;
                moved = true;
            }
        }
    }
    return offset;
}

static bool apart(const wf_mem_item *items, int32_t a, int32_t b)
{
    for (int32_t i = 0; i < items[a].n_reads; i++)
        if (items[a].reads[i] == b)
            return true;
    return false;
}

/* Above this many values the quadratic search costs more than it saves: slots are taken first come,
 * first served. */
#define GREEDY_MAX 2048
#define RECENT_SLOTS 64

typedef struct slot {
    uint64_t offset, size_bytes;
    int32_t free_at; /* the last command that uses it */
    int32_t arena;
} slot;

static bool arena_clash(const wf_mem_item *items, int32_t i, int32_t arena)
{
    for (int32_t k = 0; k < items[i].n_reads; k++)
        if (items[items[i].reads[k]].arena == arena)
            return true;
    return false;
}

static weft_status place_in_order(wf_mem_item *items, int32_t n, uint64_t max_bytes, uint64_t arena_bytes[WF_MAX_ARENAS])
{
    slot *slots = NULL;
    size_t n_slots = 0, cap = 0;
    weft_status st = WEFT_OK;
    for (int32_t i = 0; i < n && st == WEFT_OK; i++) {
        wf_mem_item *it = &items[i];
        slot *best = NULL;
        for (size_t j = n_slots > RECENT_SLOTS ? n_slots - RECENT_SLOTS : 0; j < n_slots; j++)
            if (slots[j].free_at < it->first && slots[j].size_bytes >= it->size_bytes &&
                (!best || slots[j].size_bytes < best->size_bytes) && !arena_clash(items, i, slots[j].arena))
                best = &slots[j];
        if (!best) {
            int32_t arena = 0;
            while (arena < WF_MAX_ARENAS && (arena_clash(items, i, arena) || arena_bytes[arena] + it->size_bytes > max_bytes))
                arena++;
            if (arena == WF_MAX_ARENAS) {
                st = wf_fail(WEFT_E_OOM, "intermediate values need more than %d buffers of %llu bytes", WF_MAX_ARENAS,
                             (unsigned long long)max_bytes);
                break;
            }
            st = wf_grow((void **)&slots, &cap, n_slots + 1, sizeof *slots);
            if (st != WEFT_OK)
                break;
            best = &slots[n_slots++];
            *best = (slot){.offset = arena_bytes[arena], .size_bytes = it->size_bytes, .arena = arena};
            arena_bytes[arena] += it->size_bytes;
        }
        best->free_at = it->last;
        it->arena = best->arena;
        it->offset = best->offset;
    }
    wf_free(slots);
    return st;
}

weft_status wf_memplan(wf_mem_item *items, int32_t n, uint64_t max_bytes, uint64_t arena_bytes[WF_MAX_ARENAS])
{
    for (int32_t i = 0; i < n; i++) {
        items[i].arena = -1;
        items[i].size_bytes = wf_align_up(items[i].size_bytes ? items[i].size_bytes : 1, WF_BIND_ALIGN);
        if (items[i].size_bytes > max_bytes)
            return wf_fail(WEFT_E_OOM, "a value of %llu bytes does not fit a buffer of this device (%llu)",
                           (unsigned long long)items[i].size_bytes, (unsigned long long)max_bytes);
    }
    if (n > GREEDY_MAX)
        return place_in_order(items, n, max_bytes, arena_bytes);
    placed *order = wf_alloc(sizeof *order * (size_t)(n ? n : 1));
    if (!order)
        return wf_fail_oom(sizeof *order * (size_t)n);
    for (int32_t i = 0; i < n; i++)
        order[i] = (placed){items, i};
    if (n)
        qsort(order, (size_t)n, sizeof *order, by_size);
    weft_status st = WEFT_OK;
    for (int32_t k = 0; k < n && st == WEFT_OK; k++) {
        wf_mem_item *it = &items[order[k].index];
        bool done = false;
        for (int32_t arena = 0; arena < WF_MAX_ARENAS && !done; arena++) {
            bool clash = false;
            for (int32_t j = 0; j < k && !clash; j++) {
                int32_t o = order[j].index;
                clash = items[o].arena == arena && overlap(&items[o], it) && apart(items, order[k].index, o);
            }
            uint64_t offset = clash ? 0 : lowest_fit(items, order, k, it, arena);
            if (clash || offset + it->size_bytes > max_bytes)
                continue;
            it->arena = arena;
            it->offset = offset;
            arena_bytes[arena] = WF_MAX(arena_bytes[arena], offset + it->size_bytes);
            done = true;
        }
        if (!done) { /* in the order of definition a value has fewer placed neighbours */
            wf_free(order);
            for (int32_t i = 0; i < n; i++)
                items[i].arena = -1;
            memset(arena_bytes, 0, sizeof *arena_bytes * WF_MAX_ARENAS);
            return place_in_order(items, n, max_bytes, arena_bytes);
        }
    }
    wf_free(order);
    return st;
}
