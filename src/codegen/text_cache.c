/* text_cache.c - the keys of kept texts.
 *
 * A key is a word of its kind, the identity of library and device, and what the caller made the text of. Numbers go in as
 * text and every part ends with a byte of its own, so that no two lists of parts give the same bytes.
 */
#include "text_cache.h"

#include "weft/weft.h"

void wf_caps_identity(const wf_caps *caps, wf_str *out)
{
    const weft_device_info *i = &caps->info;
    wf_str_addf(out, "weft %s\n%s\n%s\n%s\n%s\n%s\n%s\n", weft_version(), wf_text_fingerprint, i->kind, i->name, i->driver, i->implementation,
                i->backend);
    for (int f = 0; f < i->n_features; f++)
        wf_str_addf(out, "%c%s\n", i->features[f].on ? '+' : '-', i->features[f].name);
    wf_str_addf(out, "%d%d%d%d%d%d%d %u %u %u\n", caps->runs_wgsl, caps->runs_kir, caps->f64, caps->i64, caps->subgroups, caps->unchecked,
                caps->indirect, caps->subgroup_min, caps->subgroup_max, caps->layout);
    wf_str_addf(out, "%llu %llu %u %u %u %u\n", (unsigned long long)caps->max_buffer_bytes, (unsigned long long)caps->max_binding_bytes,
                caps->max_storage_buffers, caps->max_workgroup_invocations, caps->max_workgroup_bytes, caps->max_workgroups);
}

void wf_texts_free(wf_texts *t)
{
    wf_str_free(&t->device);
}

/* The key of the file; false without memory, and then nothing is kept. */
static bool whole_key(wf_texts *t, const wf_str *key, wf_str *out)
{
    if (!t->device.len)
        wf_caps_identity(t->caps, &t->device);
    wf_str_add(out, "wgsl\n");
    wf_str_addn(out, t->device.ptr, t->device.len);
    wf_str_addn(out, key->ptr, key->len);
    if (t->device.oom)
        wf_str_free(&t->device); /* tried again at the next text */
    return !out->oom && !key->oom && t->device.len;
}

bool wf_texts_find(wf_texts *t, const wf_str *key, wf_str *out)
{
    wf_str whole = WF_STR_INIT;
    void *text = NULL;
    size_t n = 0;
    if (!t || !t->disk)
        return false;
    bool found = whole_key(t, key, &whole) && wf_disk_find(t->disk, whole.ptr, whole.len, &text, &n);
    if (found)
        wf_str_addn(out, text, n);
    wf_free(text);
    wf_str_free(&whole);
    return found;
}

void wf_texts_made(wf_texts *t, const wf_str *key, const wf_str *text)
{
    wf_str whole = WF_STR_INIT;
    if (!t)
        return;
    if (t->stats)
        t->stats->texts_generated++;
    if (t->disk && !text->oom && whole_key(t, key, &whole))
        wf_disk_store(t->disk, whole.ptr, whole.len, text->ptr, text->len);
    wf_str_free(&whole);
}
