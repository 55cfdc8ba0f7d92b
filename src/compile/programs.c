/* programs.c - the programs of a device by what they are made of: equal kernels are one pipeline. */
#include "compile.h"

enum { REFUSED = UINT32_MAX >> 1 }; /* the id of a kernel row's text that did not compile */

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
    *id = p->table[at].id == REFUSED ? 0 : p->table[at].id;
    return *id != 0;
}

static void remember(wf_programs *p, const void *identity, size_t n, uint32_t id)
{
    wf_hash128 key = wf_hash(identity, n, 7);
    p->table[find_slot(p, key)] = (wf_program_entry){key, id};
    p->count++;
}

weft_status wf_programs_get(wf_programs *p, const wf_program_desc *desc, const void *identity, size_t n, uint32_t *id)
{
    if (wf_programs_find(p, identity, n, id))
        return WEFT_OK;
    if (2 * (p->count + 1) > p->capacity)
        WF_TRY(grow(p));
    if (p->table[find_slot(p, wf_hash(identity, n, 7))].id == REFUSED)
        return wf_fail(WEFT_E_UNSUPPORTED, "program \"%s\" did not compile", desc->label);
    uint32_t fresh = ++*p->next_id;
    weft_status st = p->dev->vt->program_create(p->dev, fresh, desc);
    if (st == WEFT_E_INTERNAL && desc->row) /* another row stands in for it: not tried again */
        remember(p, identity, n, REFUSED);
    if (st != WEFT_OK)
        return st;
    remember(p, identity, n, fresh);
    *id = fresh;
    return WEFT_OK;
}

void wf_programs_free(wf_programs *p)
{
    for (size_t i = 0; i < p->capacity; i++)
        if (p->table[i].id && p->table[i].id != REFUSED && p->dev)
            p->dev->vt->program_destroy(p->dev, p->table[i].id);
    wf_free(p->table);
    *p = (wf_programs){.dev = p->dev, .next_id = p->next_id};
}
