/* tune_store.c - the table of measured choices as bytes.
 *
 *   8 bytes "WEFTTUNE"; u32 format; u32 length and text of the identity; u32 number of entries; the entries; 16 bytes of
 *   hash of everything before. Numbers are little-endian. An entry is the key (12 bytes), two names of 24, two u64.
 *
 * The identity is all that the entries are valid for: what texts are valid for (text_cache.h), and the number of threads.
 */
#include "tuner.h"

#include "text_cache.h"

enum { FORMAT = 1, ENTRY_BYTES = 12 + 2 * WF_ROW_NAME + 16, HASH_BYTES = 16 };
static const char magic[8] = {'W', 'E', 'F', 'T', 'T', 'U', 'N', 'E'};

static void put_number(wf_str *out, uint64_t v, int bytes)
{
    char b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (char)(v >> (8 * i));
    wf_str_addn(out, b, (size_t)bytes);
}

static uint64_t get_number(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static void identity(const weft_ctx *ctx, wf_str *out)
{
    wf_caps_identity(&ctx->dev->caps, out);
    wf_str_addf(out, "threads %u\n", ctx->dev->caps.info.n_threads);
}

static void put_hash(wf_str *out)
{
    wf_hash128 h = wf_hash(out->ptr, out->len, FORMAT);
    put_number(out, h.lo, 8);
    put_number(out, h.hi, 8);
}

weft_status wf_tune_save(weft_ctx *ctx, void *buf, size_t size, size_t *need)
{
    wf_str out = WF_STR_INIT, who = WF_STR_INIT;
    identity(ctx, &who);
    wf_str_addn(&out, magic, sizeof magic);
    put_number(&out, FORMAT, 4);
    put_number(&out, who.len, 4);
    wf_str_addn(&out, who.ptr, who.len);
    put_number(&out, ctx->tuned.n, 4);
    for (size_t i = 0; i < ctx->tuned.n; i++) {
        const wf_tune_entry *e = &ctx->tuned.entries[i];
        wf_str_addn(&out, (const char *)&e->key, 8); /* bytes */
        put_number(&out, e->key.facts, 4);
        wf_str_addn(&out, e->row, WF_ROW_NAME);
        wf_str_addn(&out, e->other, WF_ROW_NAME);
        put_number(&out, e->ns, 8);
        put_number(&out, e->other_ns, 8);
    }
    if (!out.oom)
        put_hash(&out);
    weft_status st = out.oom || who.oom ? wf_fail_oom(out.len) : WEFT_OK;
    if (st == WEFT_OK) {
        *need = out.len;
        if (buf && size < out.len)
            st = wf_fail(WEFT_E_VALUE, "tune_save: %zu bytes for a table of %zu", size, out.len);
        else if (buf)
            memcpy(buf, out.ptr, out.len);
    }
    wf_str_free(&out);
    wf_str_free(&who);
    return st;
}

static weft_status check_frame(weft_ctx *ctx, const uint8_t *p, size_t n, size_t *entries, size_t *count)
{
    const size_t head = sizeof magic + 8;
    if (n < head + 4 + HASH_BYTES || memcmp(p, magic, sizeof magic) != 0)
        return wf_fail(WEFT_E_FORMAT, "tune_load: %zu bytes that are no table of measured choices", n);
    wf_hash128 h = wf_hash(p, n - HASH_BYTES, FORMAT);
    if (get_number(p + n - 16, 8) != h.lo || get_number(p + n - 8, 8) != h.hi)
        return wf_fail(WEFT_E_FORMAT, "tune_load: the checksum does not match");
    if (get_number(p + sizeof magic, 4) != FORMAT)
        return wf_fail(WEFT_E_FORMAT, "tune_load: format %llu, expected %d", (unsigned long long)get_number(p + sizeof magic, 4), FORMAT);
    size_t len = (size_t)get_number(p + sizeof magic + 4, 4), room = n - head - 4 - HASH_BYTES;
    if (len > room)
        return wf_fail(WEFT_E_FORMAT, "tune_load: an identity of %zu bytes, the table has %zu", len, room);
    wf_str who = WF_STR_INIT;
    identity(ctx, &who);
    bool same = !who.oom && who.len == len && memcmp(who.ptr, p + head, len) == 0, oom = who.oom;
    wf_str_free(&who);
    if (oom)
        return wf_fail_oom(len);
    if (!same)
        return wf_fail(WEFT_E_FORMAT, "tune_load: measured on another device, driver or version");
    *entries = head + len + 4;
    *count = (size_t)get_number(p + head + len, 4);
    if (*count > WF_TUNE_MAX || room - len != *count * ENTRY_BYTES)
        return wf_fail(WEFT_E_FORMAT, "tune_load: %zu entries in %zu bytes", *count, room - len);
    return WEFT_OK;
}

static bool read_entry(const uint8_t *p, wf_tune_entry *e)
{
    memset(e, 0, sizeof *e);
    memcpy(&e->key, p, 8);
    e->key.facts = (uint32_t)get_number(p + 8, 4);
    memcpy(e->row, p + 12, WF_ROW_NAME);
    memcpy(e->other, p + 12 + WF_ROW_NAME, WF_ROW_NAME);
    e->ns = get_number(p + 12 + 2 * WF_ROW_NAME, 8);
    e->other_ns = get_number(p + 20 + 2 * WF_ROW_NAME, 8);
    return wf_tune_entry_valid(e);
}

weft_status wf_tune_load(weft_ctx *ctx, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    size_t at = 0, count = 0;
    wf_tune_entry e;
    if (!p)
        return wf_fail(WEFT_E_FORMAT, "tune_load: no bytes");
    WF_TRY(check_frame(ctx, p, n, &at, &count));
    for (size_t i = 0; i < count; i++)
        if (!read_entry(p + at + i * ENTRY_BYTES, &e))
            return wf_fail(WEFT_E_FORMAT, "tune_load: entry %zu names no known operation, type or row", i);
    for (size_t i = 0; i < count; i++) {
        read_entry(p + at + i * ENTRY_BYTES, &e);
        if (!wf_tune_find(&ctx->tuned, &e.key))
            WF_TRY(wf_tune_put(&ctx->tuned, &e));
    }
    return WEFT_OK;
}
