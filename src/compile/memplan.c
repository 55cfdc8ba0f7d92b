/* memplan.c - lifetimes to arena offsets.
 *
 * In some order, each value at the lowest free offset among those alive at the same time (greedy by size, as in
 * Pisarchyk and Lee 2020, "Efficient Memory Management for Deep Neural Net Inference"), in the arena that grows
 * least by it. WebGPU forbids a buffer that one dispatch both reads and writes, so a command's output lies in
 * another arena than its inputs. Where the first order leaves more than a few percent over what is alive at
 * once, others are tried, and the smallest plan is taken.
 */
#include "compile.h"

#include <stdlib.h>

/* Orders to place values in: the sort key is the first word, then the second, then the index. */
enum { BY_SIZE, BY_SIZE_TIME, BY_FIRST, BY_NEIGHBOURS, N_ORDERS };

typedef struct placed {
    uint64_t key[2];
    int32_t index;
} placed;

static int by_key(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    for (int i = 0; i < 2; i++)
        if (x->key[i] != y->key[i])
            return x->key[i] < y->key[i] ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

static placed place_key(const wf_mem_item *it, int32_t index, int order)
{
    uint64_t lifetime = (uint64_t)(it->last - it->first) + 1;
    placed p = {{it->size_bytes, lifetime}, index};
    if (order == BY_SIZE_TIME)
        p.key[0] = it->size_bytes / WF_BIND_ALIGN * lifetime;
    else if (order == BY_FIRST)
        p.key[0] = UINT64_MAX - (uint64_t)it->first;
    else if (order == BY_NEIGHBOURS)
        p.key[0] = (uint64_t)it->n_reads, p.key[1] = it->size_bytes;
    return p;
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

weft_status wf_mem_largest_live(const wf_mem_item *items, int32_t n, int32_t n_cmds, uint64_t *out)
{
    *out = 0;
    if (n_cmds <= 0)
        return WEFT_OK;
    int64_t *change = wf_calloc((size_t)n_cmds + 1, sizeof *change), live = 0; /* where a value begins and ends */
    if (!change)
        return wf_fail_oom(sizeof *change * ((size_t)n_cmds + 1));
    for (int32_t i = 0; i < n; i++) {
        if (items[i].first > items[i].last)
            continue; /* no command uses it */
        change[items[i].first] += (int64_t)items[i].size_bytes;
        change[items[i].last + 1] -= (int64_t)items[i].size_bytes;
    }
    for (int32_t c = 0; c < n_cmds; c++) {
        live += change[c];
        *out = WF_MAX(*out, (uint64_t)live);
    }
    wf_free(change);
    return WEFT_OK;
}

/* Above this many values the quadratic search costs more than it saves: slots are taken first come,
 * first served. */
#define GREEDY_MAX 2048
#define SEVERAL_MAX 512 /* and above this many, one order is enough */
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

static uint64_t sum_of(const uint64_t arena_bytes[WF_MAX_ARENAS])
{
    uint64_t sum = 0;
    for (int a = 0; a < WF_MAX_ARENAS; a++)
        sum += arena_bytes[a];
    return sum;
}

/* Each value in turn in the arena that grows least by it. False: one fits nowhere. */
static bool place_all(wf_mem_item *items, const placed *order, int32_t n, uint64_t max_bytes, uint64_t arena_bytes[WF_MAX_ARENAS])
{
    for (int32_t i = 0; i < n; i++)
        items[i].arena = -1;
    memset(arena_bytes, 0, sizeof *arena_bytes * WF_MAX_ARENAS);
    for (int32_t k = 0; k < n; k++) {
        wf_mem_item *it = &items[order[k].index];
        uint64_t least = UINT64_MAX, at = 0;
        bool empty = false; /* one empty arena is as good as the next */
        for (int32_t arena = 0; arena < WF_MAX_ARENAS && least && !empty; arena++) {
            empty = arena_bytes[arena] == 0;
            bool clash = false;
            for (int32_t j = 0; j < k && !clash && !empty; j++) {
                int32_t o = order[j].index;
                clash = items[o].arena == arena && overlap(&items[o], it) && apart(items, order[k].index, o);
            }
            if (clash)
                continue;
            uint64_t offset = lowest_fit(items, order, k, it, arena), end = offset + it->size_bytes;
            uint64_t growth = end > arena_bytes[arena] ? end - arena_bytes[arena] : 0;
            if (end > max_bytes || growth >= least)
                continue;
            least = growth;
            at = offset;
            it->arena = arena;
        }
        if (it->arena < 0)
            return false;
        it->offset = at;
        arena_bytes[it->arena] = WF_MAX(arena_bytes[it->arena], at + it->size_bytes);
    }
    return true;
}

/* The largest arena is the first one: plans share the arenas of a context, and so the large ones meet. */
static void largest_first(wf_mem_item *items, int32_t n, uint64_t arena_bytes[WF_MAX_ARENAS])
{
    int32_t rank[WF_MAX_ARENAS];
    uint64_t sorted[WF_MAX_ARENAS];
    for (int32_t a = 0; a < WF_MAX_ARENAS; a++) {
        rank[a] = 0;
        for (int32_t b = 0; b < WF_MAX_ARENAS; b++)
            rank[a] += arena_bytes[b] > arena_bytes[a] || (arena_bytes[b] == arena_bytes[a] && b < a);
        sorted[rank[a]] = arena_bytes[a];
    }
    memcpy(arena_bytes, sorted, sizeof sorted);
    for (int32_t i = 0; i < n; i++)
        items[i].arena = rank[items[i].arena];
}

/* The orders in turn until one is within a part in SLACK of the bound. `done` is false when no order fits. */
#define SLACK 32
static weft_status place_best(wf_mem_item *items, int32_t n, uint64_t max_bytes, uint64_t bound, uint64_t arena_bytes[WF_MAX_ARENAS], bool *done)
{
    size_t count = (size_t)(n ? n : 1);
    placed *order = wf_alloc(sizeof *order * count);
    struct { uint64_t offset; int32_t arena; } *best = wf_alloc(sizeof *best * count);
    uint64_t least = UINT64_MAX, bytes[WF_MAX_ARENAS];
    weft_status st = order && best ? WEFT_OK : wf_fail_oom((sizeof *order + sizeof *best) * count);
    int orders = n <= SEVERAL_MAX ? N_ORDERS : 1;
    for (int o = 0; o < orders && st == WEFT_OK && (least == UINT64_MAX || least - bound > bound / SLACK); o++) {
        for (int32_t i = 0; i < n; i++)
            order[i] = place_key(&items[i], i, o);
        if (n)
            qsort(order, (size_t)n, sizeof *order, by_key);
        if (!place_all(items, order, n, max_bytes, bytes) || sum_of(bytes) >= least)
            continue;
        least = sum_of(bytes);
        memcpy(arena_bytes, bytes, sizeof bytes);
        for (int32_t i = 0; i < n; i++) {
            best[i].arena = items[i].arena;
            best[i].offset = items[i].offset;
        }
    }
    *done = least != UINT64_MAX;
    for (int32_t i = 0; i < n && st == WEFT_OK && *done; i++) {
        items[i].arena = best[i].arena;
        items[i].offset = best[i].offset;
    }
    wf_free(order);
    wf_free(best);
    return st;
}

weft_status wf_memplan(wf_mem_item *items, int32_t n, uint64_t max_bytes, uint64_t arena_bytes[WF_MAX_ARENAS])
{
    int32_t n_cmds = 0;
    uint64_t bound = 0;
    bool done = false;
    for (int32_t i = 0; i < n; i++) {
        items[i].arena = -1;
        items[i].size_bytes = wf_align_up(items[i].size_bytes ? items[i].size_bytes : 1, WF_BIND_ALIGN);
        n_cmds = WF_MAX(n_cmds, items[i].last + 1);
        if (items[i].size_bytes > max_bytes)
            return wf_fail(WEFT_E_OOM, "a value of %llu bytes does not fit a buffer of this device (%llu)",
                           (unsigned long long)items[i].size_bytes, (unsigned long long)max_bytes);
    }
    if (n <= GREEDY_MAX) {
        WF_TRY(wf_mem_largest_live(items, n, n_cmds, &bound));
        WF_TRY(place_best(items, n, max_bytes, bound, arena_bytes, &done));
    }
    if (!done) { /* in the order of definition a value has fewer placed neighbours */
        for (int32_t i = 0; i < n; i++)
            items[i].arena = -1;
        memset(arena_bytes, 0, sizeof *arena_bytes * WF_MAX_ARENAS);
        WF_TRY(place_in_order(items, n, max_bytes, arena_bytes));
    }
    largest_first(items, n, arena_bytes);
    return WEFT_OK;
}
