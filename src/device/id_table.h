/* id_table.h - from the ids that a client chooses to a device's objects. Open addressing, linear probing. */
#ifndef WF_ID_TABLE_H
#define WF_ID_TABLE_H

#include "base.h"

typedef struct wf_id_entry {
    uint32_t id; /* 0: empty */
    void *object;
} wf_id_entry;

typedef struct wf_id_table {
    wf_id_entry *entries; /* NULL when empty */
    uint32_t capacity;    /* a power of two, or 0 */
    uint32_t count;
} wf_id_table;

static inline uint32_t wf_id_home(uint32_t id) { return id * 2654435761u >> 7; } /* golden ratio of 2^32 */

static inline void *wf_id_find(const wf_id_table *t, uint32_t id)
{
    if (id == 0 || t->count == 0)
        return NULL;
    for (uint32_t i = wf_id_home(id);; i++) {
        const wf_id_entry *e = &t->entries[i & (t->capacity - 1)];
        if (e->id == id)
            return e->object;
        if (e->id == 0)
            return NULL;
    }
}

/* `what` ("buffer") names the object in messages. Errors: VALUE (0, or in use), OOM. */
weft_status wf_id_insert(wf_id_table *t, const char *what, uint32_t id, void *object);
void *wf_id_remove(wf_id_table *t, uint32_t id); /* the object, or NULL */
void wf_id_table_free(wf_id_table *t);           /* objects are the caller's */

#endif
