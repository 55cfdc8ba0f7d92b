/* vocab.c - tokens, scores and types out of GGUF metadata, and from bytes back to ids. */
#include "tokenizer.h"

static weft_status array_length(const weft_file *file, const char *key, bool strings, uint64_t *out)
{
    weft_meta info;
    *out = 0;
    if (weft_file_meta_find(file, key, &info) != WEFT_OK)
        return WEFT_OK;
    if (info.kind != WEFT_META_ARRAY || (info.elem == WEFT_META_STRING) != strings)
        return wf_fail(WEFT_E_FORMAT, "tokenizer: %s is %s, expected an array of %s", key, info.type_name,
                       strings ? "strings" : "numbers");
    *out = info.count;
    return WEFT_OK;
}

/* A parallel array may be absent, but not of another length. */
static weft_status parallel(const weft_file *file, const char *key, int32_t n, bool *present)
{
    uint64_t count;
    WF_TRY(array_length(file, key, false, &count));
    if (count && count != (uint64_t)n)
        return wf_fail(WEFT_E_FORMAT, "tokenizer: %s has %llu elements for %d tokens", key, (unsigned long long)count, n);
    *present = count != 0;
    return WEFT_OK;
}

static weft_status load_types(const weft_file *file, weft_tokenizer *t)
{
    static const char key[] = "tokenizer.ggml.token_type";
    bool present = false;
    WF_TRY(parallel(file, key, t->n, &present));
    for (int32_t i = 0; i < t->n; i++) {
        int64_t v = WF_TOKEN_NORMAL;
        if (present)
            WF_TRY(weft_file_meta_i64(file, key, (uint64_t)i, &v));
        t->type[i] = v >= WF_TOKEN_NORMAL && v <= WF_TOKEN_BYTE ? (uint8_t)v : WF_TOKEN_NORMAL;
    }
    return WEFT_OK;
}

static weft_status load_scores(const weft_file *file, weft_tokenizer *t)
{
    static const char key[] = "tokenizer.ggml.scores";
    bool present = false;
    WF_TRY(parallel(file, key, t->n, &present));
    for (int32_t i = 0; i < t->n; i++) {
        double v = 0;
        if (present)
            WF_TRY(weft_file_meta_f64(file, key, (uint64_t)i, &v));
        t->score[i] = (float)v;
    }
    return WEFT_OK;
}

/* "<0x0A>" to 10; -1 for any other text. */
static int byte_token(const char *s, size_t n)
{
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return -1;
    int v = 0;
    for (int i = 3; i < 5; i++) {
        int digit = s[i] >= '0' && s[i] <= '9' ? s[i] - '0' : s[i] >= 'A' && s[i] <= 'F' ? s[i] - 'A' + 10
                  : s[i] >= 'a' && s[i] <= 'f' ? s[i] - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        v = v * 16 + digit;
    }
    return v;
}

static size_t spaces_for_signs(char *s, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n;)
        if (n - i >= 3 && memcmp(s + i, "\xe2\x96\x81", 3) == 0) {
            s[k++] = ' ';
            i += 3;
        } else {
            s[k++] = s[i++];
        }
    return k;
}

static bool is_special(uint8_t type)
{
    return type == WF_TOKEN_CONTROL || type == WF_TOKEN_UNKNOWN || type == WF_TOKEN_USER;
}

/* What the token stands for, in place. Special tokens are written as they are. */
static size_t decode_token(weft_tokenizer *t, int32_t id, char *s, size_t n)
{
    int byte;
    if (is_special(t->type[id]))
        return n;
    if (t->spm && t->type[id] == WF_TOKEN_BYTE && (byte = byte_token(s, n)) >= 0) {
        s[0] = (char)byte;
        t->byte_id[byte] = id;
        return 1;
    }
    if (t->spm)
        return spaces_for_signs(s, n);
    wf_bpe_undo_alphabet(s, &n);
    return n;
}

static weft_status load_texts(const weft_file *file, weft_tokenizer *t)
{
    static const char key[] = "tokenizer.ggml.tokens";
    const char *text;
    size_t n, total = 0;
    for (int32_t i = 0; i < t->n; i++) {
        WF_TRY(weft_file_meta_str(file, key, (uint64_t)i, &text, &n));
        if (!wf_add_size(total, n, &total))
            return wf_fail_oom(SIZE_MAX);
    }
    t->bytes = wf_alloc(total);
    if (!t->bytes)
        return WEFT_E_OOM;
    uint64_t at = 0;
    for (int32_t i = 0; i < t->n; i++) {
        WF_TRY(weft_file_meta_str(file, key, (uint64_t)i, &text, &n));
        t->at[i] = at;
        memcpy(t->bytes + at, text, n);
        at += decode_token(t, i, t->bytes + at, n);
    }
    t->at[t->n] = at;
    return WEFT_OK;
}

/* ---- bytes to ids ---- */

static size_t find_slot(const weft_tokenizer *t, const char *bytes, size_t n)
{
    size_t slot = (size_t)wf_hash(bytes, n, 0).lo & t->slot_mask;
    for (; t->slots[slot] >= 0; slot = (slot + 1) & t->slot_mask) {
        size_t len;
        const char *s = wf_token_text(t, t->slots[slot], &len);
        if (len == n && memcmp(s, bytes, n) == 0)
            break;
    }
    return slot;
}

int32_t wf_vocab_find(const weft_tokenizer *t, const char *bytes, size_t n)
{
    return n > t->longest ? -1 : t->slots[find_slot(t, bytes, n)];
}

/* Can running text become this token? Control tokens only by parse_special, byte tokens only as a fallback. */
static bool from_text(const weft_tokenizer *t, int32_t id)
{
    return t->type[id] != WF_TOKEN_CONTROL && t->type[id] != WF_TOKEN_UNKNOWN &&
           !(t->spm && t->type[id] == WF_TOKEN_BYTE);
}

static weft_status build_slots(weft_tokenizer *t)
{
    size_t slots = 8, bytes;
    while (slots < 2 * (size_t)t->n)
        slots *= 2;
    t->slots = wf_mul_size(slots, sizeof *t->slots, &bytes) ? wf_alloc(bytes) : NULL;
    if (!t->slots)
        return WEFT_E_OOM;
    memset(t->slots, 0xff, bytes);
    t->slot_mask = slots - 1;
    /* Users' tokens first: a normal token of the same bytes takes their place. */
    for (int user = 1; user >= 0; user--)
        for (int32_t i = 0; i < t->n; i++) {
            size_t n;
            const char *s = wf_token_text(t, i, &n);
            if (!n || !from_text(t, i) || (t->type[i] == WF_TOKEN_USER) != user)
                continue;
            t->slots[find_slot(t, s, n)] = i;
            t->longest = WF_MAX(t->longest, n);
        }
    for (int b = 0; b < 256 && !t->spm; b++)
        t->byte_id[b] = wf_vocab_find(t, (char[]){(char)b}, 1);
    return WEFT_OK;
}

/* ---- special tokens, grouped by first byte ---- */

/* Longest first, so that the first that fits is the one; insertion sort by halves: a group can be large. */
static void sort_by_length(const weft_tokenizer *t, int32_t *ids, int32_t *room, int32_t n)
{
    for (int32_t width = 1; width < n; width *= 2) {
        for (int32_t lo = 0; lo < n; lo += 2 * width) {
            int32_t mid = WF_MIN(lo + width, n), hi = WF_MIN(mid + width, n), a = lo, b = mid;
            for (int32_t k = lo; k < hi; k++) {
                size_t la = 0, lb = 0;
                if (a < mid)
                    wf_token_text(t, ids[a], &la);
                if (b < hi)
                    wf_token_text(t, ids[b], &lb);
                room[k] = a < mid && (b >= hi || la >= lb) ? ids[a++] : ids[b++];
            }
        }
        memcpy(ids, room, (size_t)n * sizeof *ids);
    }
}

static weft_status build_specials(weft_tokenizer *t)
{
    int32_t count[256] = {0};
    int32_t total = 0;
    size_t n;
    for (int32_t i = 0; i < t->n; i++) {
        const char *s = wf_token_text(t, i, &n);
        if (is_special(t->type[i]) && n)
            count[(unsigned char)*s]++;
    }
    for (int b = 0; b < 256; b++) {
        t->special_begin[b] = total;
        total += count[b];
    }
    t->special_begin[256] = total;
    t->specials = wf_alloc((size_t)total * sizeof *t->specials);
    int32_t *room = wf_alloc((size_t)total * sizeof *room);
    if (!t->specials || !room) {
        wf_free(room);
        return WEFT_E_OOM;
    }
    int32_t next[256];
    memcpy(next, t->special_begin, sizeof next);
    for (int32_t i = 0; i < t->n; i++) {
        const char *s = wf_token_text(t, i, &n);
        if (is_special(t->type[i]) && n)
            t->specials[next[(unsigned char)*s]++] = i;
    }
    for (int b = 0; b < 256; b++)
        sort_by_length(t, t->specials + t->special_begin[b], room, count[b]);
    wf_free(room);
    return WEFT_OK;
}

weft_status wf_vocab_load(const weft_file *file, weft_tokenizer *t)
{
    static const char key[] = "tokenizer.ggml.tokens";
    uint64_t count;
    WF_TRY(array_length(file, key, true, &count));
    if (!count || count > INT32_MAX / 4)
        return wf_fail(WEFT_E_FORMAT, "tokenizer: %llu %s", (unsigned long long)count, key);
    t->n = (int32_t)count;
    t->at = wf_calloc((size_t)count + 1, sizeof *t->at);
    t->type = wf_calloc((size_t)count, sizeof *t->type);
    t->stop = wf_calloc((size_t)count, sizeof *t->stop);
    if (!t->at || !t->type || !t->stop)
        return WEFT_E_OOM;
    for (int b = 0; b < 256; b++)
        t->byte_id[b] = -1;
    WF_TRY(load_types(file, t));
    if (t->spm) {
        t->score = wf_calloc((size_t)count, sizeof *t->score);
        if (!t->score)
            return WEFT_E_OOM;
        WF_TRY(load_scores(file, t));
    }
    WF_TRY(load_texts(file, t));
    WF_TRY(build_slots(t));
    return build_specials(t);
}
