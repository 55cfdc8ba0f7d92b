/* webgpu_map.h - a hash map from 128-bit keys to pointers: ids, programs, bind groups and lists. */
#ifndef WF_WEBGPU_MAP_H
#define WF_WEBGPU_MAP_H

#include "base.h"

typedef struct wf_wmap_slot {
    wf_hash128 key;
    void *value; /* NULL: free */
} wf_wmap_slot;

typedef struct wf_wmap { /* all zero is a valid empty map */
    wf_wmap_slot *slots;
    size_t capacity; /* 0 or a power of two */
    size_t count;
} wf_wmap;

void *wf_wmap_get(const wf_wmap *m, wf_hash128 key); /* NULL: absent */
weft_status wf_wmap_put(wf_wmap *m, wf_hash128 key, void *value); /* value is not NULL; replaces */
void *wf_wmap_remove(wf_wmap *m, wf_hash128 key);
void wf_wmap_free(wf_wmap *m);

static inline wf_hash128 wf_wmap_id(uint64_t id)
{
    /* Ids are small and dense: spread them (Fibonacci hashing). */
    return (wf_hash128){id * 0x9E3779B97F4A7C15u, id};
}

#endif
