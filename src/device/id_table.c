/* id_table.c - inserting and removing ids. */
#include "id_table.h"

static void place(wf_id_entry *entries, uint32_t capacity, uint32_t id, void *object)
{
    uint32_t i = wf_id_home(id);
    while (entries[i & (capacity - 1)].id)
        i++;
    entries[i & (capacity - 1)] = (wf_id_entry){id, object};
}

static weft_status make_room(wf_id_table *t)
{
    if ((t->count + 1) * 2 <= t->capacity)
        return WEFT_OK;
    uint32_t capacity = t->capacity ? t->capacity * 2 : 64;
    wf_id_entry *entries = wf_calloc(capacity, sizeof *entries);
    if (!entries)
        return WEFT_E_OOM;
    for (uint32_t i = 0; i < t->capacity; i++)
        if (t->entries[i].id)
            place(entries, capacity, t->entries[i].id, t->entries[i].object);
    wf_free(t->entries);
    t->entries = entries;
    t->capacity = capacity;
    return WEFT_OK;
}

weft_status wf_id_insert(wf_id_table *t, const char *what, uint32_t id, void *object)
{
    if (id == 0 || wf_id_find(t, id))
        return wf_fail(WEFT_E_VALUE, "device: %s id %u is %s", what, id, id ? "in use" : "0");
    WF_TRY(make_room(t));
    place(t->entries, t->capacity, id, object);
    t->count++;
    return WEFT_OK;
}

void *wf_id_remove(wf_id_table *t, uint32_t id)
{
    if (!wf_id_find(t, id))
        return NULL;
    uint32_t mask = t->capacity - 1, hole = wf_id_home(id) & mask;
    while (t->entries[hole].id != id)
        hole = (hole + 1) & mask;
    void *object = t->entries[hole].object;
    /* Entries behind the hole move up unless that would put them before their home. */
    for (uint32_t i = (hole + 1) & mask; t->entries[i].id; i = (i + 1) & mask) {
        uint32_t home = wf_id_home(t->entries[i].id) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            t->entries[hole] = t->entries[i];
            hole = i;
        }
    }
    t->entries[hole] = (wf_id_entry){0, NULL};
    t->count--;
    return object;
}

void wf_id_table_free(wf_id_table *t)
{
    wf_free(t->entries);
    *t = (wf_id_table){0};
}
