/* tokenizer.c - the public face: what the file says about special ids, cutting special tokens out of the
 * text, and questions about tokens. The algorithms are in spm.c and bpe.c. */
#include "pretok.h"
#include "tokenizer.h"

weft_status wf_ids_add(wf_ids *out, int32_t id)
{
    WF_TRY(wf_grow((void **)&out->ids, &out->cap, out->n + 1, sizeof *out->ids));
    out->ids[out->n++] = id;
    return WEFT_OK;
}

/* ---- load ---- */

static const struct family {
    const char *name;
    bool spm;
    int32_t bos, eos, unk; /* where the file names none */
} families[] = {
    {"llama", true, 1, 2, 0},
    {"gpt2", false, -1, -1, -1},
};

/* Texts of tokens that end a turn or a message. Files name at most one of them by its id. */
static const char *const end_texts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>",
    "<EOT>",      "_<EOT>",     "<|end_of_text|>", "<end_of_utterance>",
};

static weft_status pick_family(const weft_file *file, const struct family **out)
{
    const char *name;
    size_t n;
    if (weft_file_meta_str(file, "tokenizer.ggml.model", 0, &name, &n) != WEFT_OK)
        return wf_fail(WEFT_E_FORMAT, "tokenizer: the file has no tokenizer.ggml.model");
    for (size_t i = 0; i < WF_COUNT(families); i++)
        if (strlen(families[i].name) == n && memcmp(families[i].name, name, n) == 0) {
            *out = &families[i];
            return WEFT_OK;
        }
    return wf_fail(WEFT_E_UNSUPPORTED, "tokenizer: model \"%.*s\" is none of llama gpt2", (int)WF_MIN(n, 80), name);
}

/* An id that the file gives, or `fallback`. Out of range means none: files write -1 so. */
static int32_t special_id(const weft_file *file, const weft_tokenizer *t, const char *key, int32_t fallback)
{
    int64_t id;
    if (weft_file_meta_i64(file, key, 0, &id) != WEFT_OK)
        id = fallback;
    return id >= 0 && id < t->n ? (int32_t)id : -1;
}

static bool flag(const weft_file *file, const char *key, bool fallback)
{
    int64_t v;
    return weft_file_meta_i64(file, key, 0, &v) == WEFT_OK ? v != 0 : fallback;
}

static bool has_text(const weft_tokenizer *t, int32_t id, const char *text)
{
    size_t n;
    const char *s = wf_token_text(t, id, &n);
    return n == strlen(text) && memcmp(s, text, n) == 0;
}

static void mark_stops(const weft_file *file, weft_tokenizer *t)
{
    const int32_t ids[] = {
        t->bos,
        t->eos,
        special_id(file, t, "tokenizer.ggml.eot_token_id", -1),
        special_id(file, t, "tokenizer.ggml.eom_token_id", -1),
    };
    for (size_t i = 0; i < WF_COUNT(ids); i++)
        if (ids[i] >= 0)
            t->stop[ids[i]] = true;
    for (int32_t id = 0; id < t->n; id++)
        for (size_t i = 0; i < WF_COUNT(end_texts) && t->type[id] == WF_TOKEN_CONTROL; i++)
            t->stop[id] |= has_text(t, id, end_texts[i]);
}

static weft_status load(const weft_file *file, weft_tokenizer *t)
{
    const struct family *family = NULL;
    WF_TRY(pick_family(file, &family));
    t->spm = family->spm;
    WF_TRY(wf_vocab_load(file, t));
    t->bos = special_id(file, t, "tokenizer.ggml.bos_token_id", family->bos);
    t->eos = special_id(file, t, "tokenizer.ggml.eos_token_id", family->eos);
    t->unk = special_id(file, t, "tokenizer.ggml.unknown_token_id", family->unk);
    t->adds_bos = flag(file, "tokenizer.ggml.add_bos_token", t->spm) && t->bos >= 0;
    t->space_prefix = t->spm && flag(file, "tokenizer.ggml.add_space_prefix", true);
    mark_stops(file, t);
    return t->spm ? WEFT_OK : wf_bpe_load(file, t);
}

weft_status weft_tokenizer_from_file(const weft_file *file, weft_tokenizer **out)
{
    if (!file || !out)
        return wf_fail(WEFT_E_CONTEXT, "tokenizer_from_file: file and out are required");
    weft_tokenizer *t = wf_calloc(1, sizeof *t);
    if (!t)
        return WEFT_E_OOM;
    weft_status st = load(file, t);
    if (st != WEFT_OK) {
        weft_tokenizer_destroy(t);
        return st;
    }
    *out = t;
    return WEFT_OK;
}

void weft_tokenizer_destroy(weft_tokenizer *t)
{
    if (!t)
        return;
    wf_pretok_destroy(t->pretok);
    wf_free(t->rules);
    wf_free(t->specials);
    wf_free(t->slots);
    wf_free(t->score);
    wf_free(t->stop);
    wf_free(t->type);
    wf_free(t->at);
    wf_free(t->bytes);
    wf_free(t);
}

/* ---- tokenize ---- */

/* The special token that the text begins with, -1 when it begins with none. Users' tokens are always
 * recognised; control and unknown tokens only on request. */
static int32_t special_at(const weft_tokenizer *t, const char *text, size_t n, bool parse_special)
{
    unsigned char first = (unsigned char)*text;
    for (int32_t i = t->special_begin[first]; i < t->special_begin[first + 1]; i++) {
        int32_t id = t->specials[i];
        size_t len;
        const char *s = wf_token_text(t, id, &len);
        if ((parse_special || t->type[id] == WF_TOKEN_USER) && len <= n && memcmp(s, text, len) == 0)
            return id;
    }
    return -1;
}

static weft_status plain_text(const weft_tokenizer *t, const char *text, size_t n, bool after_special, wf_ids *out)
{
    if (!n)
        return WEFT_OK;
    return t->spm ? wf_spm_tokenize(t, text, n, after_special, out) : wf_bpe_tokenize(t, text, n, out);
}

static weft_status tokenize(const weft_tokenizer *t, const char *text, size_t n, bool add_bos, bool parse_special,
                            wf_ids *out)
{
    bool after_special = true; /* the beginning counts as one */
    size_t begin = 0;
    if (add_bos && t->bos >= 0)
        WF_TRY(wf_ids_add(out, t->bos));
    for (size_t i = 0; i < n;) {
        int32_t id = special_at(t, text + i, n - i, parse_special);
        if (id < 0) {
            i++;
            continue;
        }
        size_t len;
        wf_token_text(t, id, &len);
        WF_TRY(plain_text(t, text + begin, i - begin, after_special, out));
        WF_TRY(wf_ids_add(out, id));
        after_special = true;
        begin = i += len;
    }
    return plain_text(t, text + begin, n - begin, after_special, out);
}

weft_status weft_tokenize(const weft_tokenizer *t, const char *text, size_t n, const weft_tokenize_opts *opts,
                          int32_t **ids, size_t *n_ids)
{
    if (!t || (!text && n) || !ids || !n_ids)
        return wf_fail(WEFT_E_CONTEXT, "tokenize: a tokenizer, a text, ids and n_ids are required");
    if (n > INT32_MAX / 2)
        return wf_fail(WEFT_E_VALUE, "tokenize: a text of %zu bytes, at most %d", n, INT32_MAX / 2);
    int add_bos = opts ? opts->add_bos : 0;
    wf_ids out = {0};
    weft_status st = wf_grow((void **)&out.ids, &out.cap, n / 4 + 1, sizeof *out.ids);
    if (st == WEFT_OK)
        st = tokenize(t, text ? text : "", n, add_bos ? add_bos > 0 : t->adds_bos, opts && opts->parse_special, &out);
    if (st != WEFT_OK) {
        wf_free(out.ids);
        return st;
    }
    *ids = out.ids;
    *n_ids = out.n;
    return WEFT_OK;
}

void weft_ids_free(int32_t *ids)
{
    wf_free(ids);
}

/* ---- tokens ---- */

static bool in_range(const weft_tokenizer *t, int32_t id)
{
    return t && id >= 0 && id < t->n;
}

weft_status weft_token_bytes(const weft_tokenizer *t, int32_t id, bool special, const char **bytes, size_t *n)
{
    if (!t || !bytes || !n)
        return wf_fail(WEFT_E_CONTEXT, "token_bytes: a tokenizer, bytes and n are required");
    if (!in_range(t, id))
        return wf_fail(WEFT_E_INDEX, "token_bytes: token %d of %d", id, t->n);
    *bytes = wf_token_text(t, id, n);
    if (!special && (t->type[id] == WF_TOKEN_CONTROL || t->type[id] == WF_TOKEN_UNKNOWN))
        *n = 0;
    return WEFT_OK;
}

int32_t weft_tokenizer_size(const weft_tokenizer *t)
{
    return t ? t->n : 0;
}

int32_t weft_tokenizer_bos(const weft_tokenizer *t)
{
    return t ? t->bos : -1;
}

int32_t weft_tokenizer_eos(const weft_tokenizer *t)
{
    return t ? t->eos : -1;
}

bool weft_tokenizer_adds_bos(const weft_tokenizer *t)
{
    return t && t->adds_bos;
}

bool weft_tokenizer_is_stop(const weft_tokenizer *t, int32_t id)
{
    return in_range(t, id) && t->stop[id];
}

bool weft_tokenizer_is_control(const weft_tokenizer *t, int32_t id)
{
    return in_range(t, id) && t->type[id] == WF_TOKEN_CONTROL;
}

bool weft_tokenizer_space_prefix(const weft_tokenizer *t)
{
    return t && t->space_prefix;
}
