/* disk_cache.h - values kept between runs in a folder, found by the bytes of what they depend on.
 *
 * A key is everything that a value follows from, so nothing in the folder is ever stale: what changes gives another key.
 * Losing the folder costs time alone. Whatever lies in it that this code did not write as a whole is not used.
 */
#ifndef WF_DISK_CACHE_H
#define WF_DISK_CACHE_H

#include "base.h"

typedef struct wf_disk_cache wf_disk_cache;

typedef struct wf_disk_counts {
    uint64_t found, stored, refused; /* values read and sound; written; files passed over because they are not sound */
} wf_disk_counts;

enum { WF_DISK_MAX_VALUE = 64 << 20 }; /* bytes of a value; larger ones are not kept */

/* A cache in `dir`, which is made at the first store. Nothing is read or written here.
 *   max_bytes  of all files in the folder; 0: 256 MiB
 * Errors: OOM; VALUE for a path too long, IO where the current folder has no name (a relative `dir`). */
weft_status wf_disk_open(const char *dir, uint64_t max_bytes, wf_disk_cache **out);
void wf_disk_close(wf_disk_cache *c); /* NULL is a no-op */

/* True: *out is the value's bytes with a NUL behind them, for wf_free. False: there is none, or none that is sound;
 * the first of the latter is a line of the log. Any thread. */
bool wf_disk_find(wf_disk_cache *c, const void *key, size_t key_bytes, void **out, size_t *value_bytes);
/* Keep a value. Failing is a line of the log, once, and then nothing more is stored. Any thread. */
void wf_disk_store(wf_disk_cache *c, const void *key, size_t key_bytes, const void *value, size_t value_bytes);
wf_disk_counts wf_disk_counted(wf_disk_cache *c);

#endif
