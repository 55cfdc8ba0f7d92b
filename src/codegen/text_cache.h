/* text_cache.h - shader texts by what they are made of, kept on disk between runs where the caller wants that. */
#ifndef WF_TEXT_CACHE_H
#define WF_TEXT_CACHE_H

#include "disk_cache.h"
#include "hal.h"

/* The texts of one device. All zero counts and keeps nothing. */
typedef struct wf_texts {
    wf_disk_cache *disk; /* borrowed; NULL: nothing is kept */
    weft_stats *stats;   /* counts texts_generated; NULL: not counted */
    const wf_caps *caps; /* of the device */
    wf_str device;       /* wf_caps_identity of it, written at the first use */
} wf_texts;
void wf_texts_free(wf_texts *t);

/* What validity on a device depends on besides the caller's own key: the library, the sources that write texts, the
 * device, its driver, features and limits. Adapter numbers, memory and threads are not part of it. */
void wf_caps_identity(const wf_caps *caps, wf_str *out);
extern const char wf_text_fingerprint[]; /* generated: a hash of the sources that write texts */

/* True: *out holds the text that was kept for `key`. `t` may be NULL in both. */
bool wf_texts_find(wf_texts *t, const wf_str *key, wf_str *out);
/* A text was generated: count it, and keep it. */
void wf_texts_made(wf_texts *t, const wf_str *key, const wf_str *text);

#endif
