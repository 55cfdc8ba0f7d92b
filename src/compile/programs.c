/* programs.c - the programs of a device by what they are made of: equal kernels are one pipeline. */
#include "compile.h"

static size_t find_slot(const wf_programs *p, wf_hash128 key)
{
    size_t at = key.lo & (p->capacity - 1);
    while (p->table[at].id && (p->table[at].key.lo != key.lo || p->table[at].key.hi != key.hi))
        at = (at + 1) & (p->capacity - 1);
    return at;
}

static weft_status grow(wf_programs *p)
{
    wf_programs bigger = *p;
    bigger.capacity = p->capacity ? 2 * p->capacity : 64;
    bigger.table = wf_calloc(bigger.capacity, sizeof *bigger.table);
    if (!bigger.table)
        return wf_fail_oom(bigger.capacity * sizeof *bigger.table);
    for (size_t i = 0; i < p->capacity; i++)
        if (p->table[i].id)
            bigger.table[find_slot(&bigger, p->table[i].key)] = p->table[i];
    wf_free(p->table);
    *p = bigger;
    return WEFT_OK;
}

bool wf_programs_find(const wf_programs *p, const void *identity, size_t n, uint32_t *id)
{
    if (!p->capacity)
        return false;
    size_t at = find_slot(p, wf_hash(identity, n, 7));
    *id = p->table[at].id;
    return *id != 0;
}

weft_status wf_programs_get(wf_programs *p, const wf_program_desc *desc, const void *identity, size_t n, uint32_t *id)
{
    if (wf_programs_find(p, identity, n, id))
        return WEFT_OK;
    if (2 * (p->count + 1) > p->capacity)
        WF_TRY(grow(p));
    uint32_t fresh = ++*p->next_id;
    WF_TRY(p->dev->vt->program_create(p->dev, fresh, desc));
    wf_hash128 key = wf_hash(identity, n, 7);
    p->table[find_slot(p, key)] = (wf_program_entry){key, fresh};
    p->count++;
    *id = fresh;
    return WEFT_OK;
}

void wf_programs_free(wf_programs *p)
{
    for (size_t i = 0; i < p->capacity; i++)
        if (p->table[i].id && p->dev)
            p->dev->vt->program_destroy(p->dev, p->table[i].id);
    wf_free(p->table);
    *p = (wf_programs){.dev = p->dev, .next_id = p->next_id};
}
