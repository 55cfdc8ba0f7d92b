/* webgpu_map.c - open addressing with linear probing; removal shifts the cluster back, so there are no
 * tombstones and a lookup ends at the first free slot. */
#include "webgpu_map.h"

static size_t home(const wf_wmap *m, wf_hash128 key)
{
    return (size_t)((key.lo ^ (key.lo >> 32)) & (m->capacity - 1));
}

static size_t find(const wf_wmap *m, wf_hash128 key)
{
    size_t i = home(m, key);
    while (m->slots[i].value && (m->slots[i].key.lo != key.lo || m->slots[i].key.hi != key.hi))
        i = (i + 1) & (m->capacity - 1);
    return i;
}

void *wf_wmap_get(const wf_wmap *m, wf_hash128 key)
{
    return m->capacity ? m->slots[find(m, key)].value : NULL;
}

static weft_status enlarge(wf_wmap *m)
{
    wf_wmap bigger = {NULL, m->capacity ? m->capacity * 2 : 32, m->count};
    bigger.slots = wf_calloc(bigger.capacity, sizeof *bigger.slots);
    if (!bigger.slots)
        return WEFT_E_OOM;
    for (size_t i = 0; i < m->capacity; i++)
        if (m->slots[i].value)
            bigger.slots[find(&bigger, m->slots[i].key)] = m->slots[i];
    wf_free(m->slots);
    *m = bigger;
    return WEFT_OK;
}

weft_status wf_wmap_put(wf_wmap *m, wf_hash128 key, void *value)
{
    if ((m->count + 1) * 4 > m->capacity * 3)
        WF_TRY(enlarge(m));
    size_t i = find(m, key);
    if (!m->slots[i].value)
        m->count++;
    m->slots[i] = (wf_wmap_slot){key, value};
    return WEFT_OK;
}

void *wf_wmap_remove(wf_wmap *m, wf_hash128 key)
{
    if (!m->capacity)
        return NULL;
    size_t mask = m->capacity - 1, hole = find(m, key);
    void *value = m->slots[hole].value;
    if (!value)
        return NULL;
    m->slots[hole].value = NULL;
    m->count--;
    for (size_t i = (hole + 1) & mask; m->slots[i].value; i = (i + 1) & mask) {
        size_t from_home = (i - home(m, m->slots[i].key)) & mask, from_hole = (i - hole) & mask;
        if (from_home < from_hole)
            continue; /* its probe starts after the hole: it stays */
        m->slots[hole] = m->slots[i];
        m->slots[i].value = NULL;
        hole = i;
    }
    return value;
}

void wf_wmap_free(wf_wmap *m)
{
    wf_free(m->slots);
    *m = (wf_wmap){0};
}
