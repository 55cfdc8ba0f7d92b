/* bpe.c - byte-level BPE: pieces by the pre-tokeniser, then merges by rank within each piece.
 *
 * Merges are kept as triples of token ids, so that a step is one look-up of a pair of numbers.
 * Source: Sennrich et al. 2016, arXiv:1508.07909; the alphabet of bytes is that of GPT-2.
 */
#include "merge.h"
#include "pretok.h"

static size_t rule_slot(const weft_tokenizer *t, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key *= 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    size_t slot = (size_t)(key ^ key >> 29) & t->rule_mask;
    while (t->rules[slot].id >= 0 && (t->rules[slot].left != left || t->rules[slot].right != right))
        slot = (slot + 1) & t->rule_mask;
    return slot;
}

static bool may_join(const weft_tokenizer *t, const char *text, const wf_symbol *a, const wf_symbol *b,
                     uint32_t *priority, int32_t *id)
{
    (void)text;
    if (a->id < 0 || b->id < 0)
        return false;
    const wf_merge_rule *r = &t->rules[rule_slot(t, a->id, b->id)];
    *priority = r->rank;
    *id = r->id;
    return r->id >= 0;
}

/* ---- load ---- */

/* The byte that a character of the printable alphabet stands for, -1 for any other: printable Latin-1
 * stands for itself, the other bytes in order are U+0100 and on. */
static int byte_of(uint32_t c)
{
    if ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255))
        return (int)c;
    if (c < 256 || c >= 256 + 68)
        return -1;
    c -= 256;
    return (int)(c < 33 ? c : c < 67 ? c - 33 + 127 : 173);
}

/* Undo the alphabet in place; false (and nothing changed) when a character is not in it. */
bool wf_bpe_undo_alphabet(char *s, size_t *n)
{
    size_t len;
    for (size_t i = 0; i < *n; i += len) {
        uint32_t c = wf_utf8_decode(s + i, *n - i, &len);
        if (!len || byte_of(c) < 0)
            return false;
    }
    size_t k = 0;
    for (size_t i = 0; i < *n; i += len)
        s[k++] = (char)byte_of(wf_utf8_decode(s + i, *n - i, &len));
    *n = k;
    return true;
}


static weft_status add_merge(weft_tokenizer *t, const char *text, size_t n, uint64_t rank, char *room)
{
    const char *gap = n ? memchr(text + 1, ' ', n - 1) : NULL; /* the first part has at least one byte */
    if (!gap || gap + 1 == text + n)
        return wf_fail(WEFT_E_FORMAT, "tokenizer: merge %llu is no pair", (unsigned long long)rank);
    size_t a = (size_t)(gap - text), b = n - a - 1, whole;
    memcpy(room, text, a);
    memcpy(room + a, gap + 1, b);
    whole = a + b;
    size_t left_n = a, right_n = b;
    char *right = room + a;
    /* Both halves first: undoing the alphabet shortens each in its place. */
    if (!wf_bpe_undo_alphabet(right, &right_n) || !wf_bpe_undo_alphabet(room, &left_n))
        return wf_fail(WEFT_E_FORMAT, "tokenizer: merge %llu is not in the alphabet of bytes", (unsigned long long)rank);
    int32_t left_id = wf_vocab_find(t, room, left_n), right_id = wf_vocab_find(t, right, right_n);
    memmove(room + left_n, right, right_n);
    whole = left_n + right_n;
    int32_t id = wf_vocab_find(t, room, whole);
    if (left_id < 0 || right_id < 0 || id < 0)
        return WEFT_OK; /* can never come up */
    size_t slot = rule_slot(t, left_id, right_id);
    if (t->rules[slot].id < 0)
        t->rules[slot] = (wf_merge_rule){left_id, right_id, id, (uint32_t)rank};
    return WEFT_OK;
}

weft_status wf_bpe_load(const weft_file *file, weft_tokenizer *t)
{
    static const char key[] = "tokenizer.ggml.merges";
    weft_meta info;
    const char *text = "";
    size_t n = 0, slots = 8, longest = 0;
    if (weft_file_meta_str(file, "tokenizer.ggml.pre", 0, &text, &n) != WEFT_OK)
        n = 0;
    WF_TRY(wf_pretok_create(text, n, &t->pretok));
    if (weft_file_meta_find(file, key, &info) != WEFT_OK || info.kind != WEFT_META_ARRAY || info.elem != WEFT_META_STRING)
        return wf_fail(WEFT_E_FORMAT, "tokenizer: %s is no array of strings", key);
    if (info.count > UINT32_MAX / 4)
        return wf_fail(WEFT_E_FORMAT, "tokenizer: %llu merges", (unsigned long long)info.count);
    while (slots < 2 * info.count)
        slots *= 2;
    size_t bytes;
    t->rules = wf_mul_size(slots, sizeof *t->rules, &bytes) ? wf_alloc(bytes) : NULL;
    if (!t->rules)
        return WEFT_E_OOM;
    t->rule_mask = slots - 1;
    for (size_t i = 0; i < slots; i++)
        t->rules[i].id = -1;
    for (uint64_t i = 0; i < info.count; i++) {
        WF_TRY(weft_file_meta_str(file, key, i, &text, &n));
        longest = WF_MAX(longest, n);
    }
    char *room = wf_alloc(longest);
    if (!room)
        return WEFT_E_OOM;
    weft_status st = WEFT_OK;
    for (uint64_t i = 0; i < info.count && st == WEFT_OK; i++)
        if ((st = weft_file_meta_str(file, key, i, &text, &n)) == WEFT_OK)
            st = add_merge(t, text, n, i, room);
    wf_free(room);
    return st;
}

/* ---- tokenize ---- */

/* Some vocabularies lack bytes that their training text did not have (SmolLM: U+0004 and others). The
 * reference libraries drop them from a text; bytes that are no text at all are refused. */
static weft_status missing_byte(const char *s, size_t n, size_t at)
{
    for (size_t i = 0, len; i < n; i += len) {
        len = wf_utf8_len(s + i, n - i);
        if (!len)
            return wf_fail(WEFT_E_VALUE, "tokenize: the text is no UTF-8, and the vocabulary has no token for byte 0x%02x",
                           (unsigned char)s[at]);
    }
    return WEFT_OK;
}

static weft_status tokenize_piece(const weft_tokenizer *t, const char *s, size_t n, wf_merger *m, wf_ids *out)
{
    if (wf_pretok_ignores_merges(t->pretok)) {
        int32_t id = wf_vocab_find(t, s, n);
        if (id >= 0)
            return wf_ids_add(out, id);
    }
    m->n_symbols = 0;
    for (size_t i = 0; i < n; i++)
        WF_TRY(wf_merger_add(m, (uint32_t)i, 1, t->byte_id[(unsigned char)s[i]]));
    WF_TRY(wf_merger_run(m, t, s, may_join));
    for (size_t i = 0; i < m->n_symbols; i++) {
        const wf_symbol *x = &m->symbols[i];
        if (x->n && x->id >= 0)
            WF_TRY(wf_ids_add(out, x->id));
        else if (x->n)
            WF_TRY(missing_byte(s, n, x->at));
    }
    return WEFT_OK;
}

weft_status wf_bpe_tokenize(const weft_tokenizer *t, const char *text, size_t n, wf_ids *out)
{
    wf_cuts cuts = {0};
    wf_merger m = {0};
    weft_status st = wf_pretok_cut(t->pretok, text, n, &cuts);
    for (size_t i = 0, at = 0; i < cuts.n && st == WEFT_OK; at = cuts.end[i++])
        st = tokenize_piece(t, text + at, cuts.end[i] - at, &m, out);
    wf_merger_free(&m);
    wf_free(cuts.end);
    return st;
}
