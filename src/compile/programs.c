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

static uint32_t entry_of(const wf_programs *p, wf_hash128 key)
{
    return p->capacity ? p->table[find_slot(p, key)].id : 0;
}

bool wf_programs_find(const wf_programs *p, const void *identity, size_t n, uint32_t *id)
{
    uint32_t found = entry_of(p, wf_hash(identity, n, 7));
    *id = found == REFUSED ? 0 : found;
    return *id != 0;
}

static void remember(wf_programs *p, wf_hash128 key, uint32_t id)
{
    p->table[find_slot(p, key)] = (wf_program_entry){key, id};
    p->count++;
}

/* The program of a key that has no entry. */
static weft_status create(wf_programs *p, const wf_program_desc *desc, wf_hash128 key, uint32_t *id)
{
    if (2 * (p->count + 1) > p->capacity)
        WF_TRY(grow(p));
    uint32_t fresh = ++*p->next_id;
    weft_status st = p->dev->vt->program_create(p->dev, fresh, desc);
    if (st == WEFT_E_INTERNAL && desc->row) /* another row stands in for it: not tried again */
        remember(p, key, REFUSED);
    if (st != WEFT_OK)
        return st;
    remember(p, key, fresh);
    *id = fresh;
    return WEFT_OK;
}

/* ---- programs made later ---- */

void wf_pending_clear(wf_pending *p)
{
    for (size_t i = 0; i < p->n; i++)
        wf_free(p->item[i].wgsl);
    wf_free(p->item);
    *p = (wf_pending){0};
}

static weft_status put_off(wf_pending *list, const wf_program_desc *desc, wf_hash128 key)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->item[i].key.lo == key.lo && list->item[i].key.hi == key.hi)
            return WEFT_OK;
    if (list->n == list->capacity)
        WF_TRY(wf_grow((void **)&list->item, &list->capacity, list->n + 1, sizeof *list->item));
    wf_pending_program item = {.key = key, .desc = *desc, .wgsl = wf_strdup(desc->wgsl)};
    if (!item.wgsl)
        return WEFT_E_OOM;
    item.desc.kir = NULL; /* WGSL has no use for it */
    item.desc.wgsl = item.wgsl;
    list->item[list->n++] = item;
    return WEFT_OK;
}

weft_status wf_programs_make(wf_programs *p, const wf_pending_program *what)
{
    uint32_t id;
    if (entry_of(p, what->key))
        return WEFT_OK;
    weft_status st = create(p, &what->desc, what->key, &id);
    if (!what->desc.row || (st != WEFT_E_INTERNAL && st != WEFT_E_UNSUPPORTED))
        return st;
    wf_log(WEFT_LOG_WARN, "%s: a kernel is passed over: %s", what->desc.row, weft_error_message());
    if (st == WEFT_E_UNSUPPORTED) /* or it would be asked for again */
        remember(p, what->key, REFUSED);
    return WEFT_OK;
}

weft_status wf_programs_get(wf_programs *p, const wf_program_desc *desc, const void *identity, size_t n, uint32_t *id)
{
    wf_hash128 key = wf_hash(identity, n, 7);
    uint32_t found = entry_of(p, key);
    if (found == REFUSED)
        return wf_fail(WEFT_E_UNSUPPORTED, "program \"%s\" did not compile", desc->label);
    *id = found ? found : 1; /* put off: any number, the plan is never run */
    if (found)
        return WEFT_OK;
    return p->pending && desc->kind == WF_PROGRAM_WGSL ? put_off(p->pending, desc, key) : create(p, desc, key, id);
}

void wf_programs_free(wf_programs *p)
{
    for (size_t i = 0; i < p->capacity; i++)
        if (p->table[i].id && p->table[i].id != REFUSED && p->dev)
            p->dev->vt->program_destroy(p->dev, p->table[i].id);
    wf_free(p->table);
    *p = (wf_programs){.dev = p->dev, .next_id = p->next_id};
}
