/* pretok.c - the table of pre-tokenisers, run by PCRE2 (compiled to machine code where it can).
 *
 * A row is a list of stages. Each stage cuts every piece of the one before at its matches; what lies
 * between two matches is a piece too. White space is spelt out (the Unicode property White_Space):
 * the \s of PCRE2 also takes U+180E, which the models' own libraries do not.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "pretok.h"

#define WS "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define SPACES_BEFORE_WORD "[" WS "]+(?![^" WS "])|[" WS "]+"
#define SYMBOLS "[^" WS "\\p{L}\\p{N}]+"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?" SYMBOLS "|" SPACES_BEFORE_WORD
#define LLAMA3(digits)                                                                                      \
    "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?" SYMBOLS \
    "[\\r\\n]*|[" WS "]*[\\r\\n]+|" SPACES_BEFORE_WORD

enum { MAX_STAGES = 4 };

static const struct row {
    const char *name;
    bool ignores_merges;
    const char *stages[MAX_STAGES];
} rows[] = {
    {"gpt-2", false, {GPT2}},
    {"phi-2", false, {GPT2}},
    {"mpt", false, {GPT2}},
    {"olmo", false, {GPT2}},
    {"jais", false, {GPT2}},
    {"smollm", false, {"\\p{N}", GPT2}},
    {"starcoder", false, {"\\p{N}", GPT2}},
    {"refact", false, {"\\p{N}", GPT2}},
    {"command-r", false, {"\\p{N}", GPT2}},
    {"codeshell", false, {"\\p{N}", GPT2}},
    {"exaone", false, {"\\p{N}", GPT2}},
    {"llama-bpe", true, {LLAMA3("\\p{N}{1,3}")}},
    {"llama3", true, {LLAMA3("\\p{N}{1,3}")}},
    {"llama-v3", true, {LLAMA3("\\p{N}{1,3}")}},
    {"dbrx", false, {LLAMA3("\\p{N}{1,3}")}},
    {"smaug-bpe", false, {LLAMA3("\\p{N}{1,3}")}},
    {"qwen2", false, {LLAMA3("\\p{N}")}},
    {"deepseek-r1-qwen", false, {LLAMA3("\\p{N}")}},
    {"stablelm2", false, {LLAMA3("\\p{N}")}},
    {"", false, {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"default", false, {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
};

struct wf_pretok {
    bool ignores_merges;
    int n_stages;
    pcre2_code *stages[MAX_STAGES];
    pcre2_general_context *memory;
};

static void *pcre_malloc(size_t n, void *user)
{
    (void)user;
    return wf_alloc(n);
}

static void pcre_free(void *p, void *user)
{
    (void)user;
    wf_free(p);
}

void wf_pretok_destroy(wf_pretok *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n_stages; i++)
        pcre2_code_free(p->stages[i]);
    pcre2_general_context_free(p->memory);
    wf_free(p);
}

bool wf_pretok_ignores_merges(const wf_pretok *p)
{
    return p->ignores_merges;
}

static weft_status compile(wf_pretok *p, const char *pattern)
{
    int error;
    PCRE2_SIZE where;
    pcre2_compile_context *cc = pcre2_compile_context_create(p->memory);
    if (!cc)
        return WEFT_E_OOM;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_NO_UTF_CHECK,
                                     &error, &where, cc);
    pcre2_compile_context_free(cc);
    if (!code && error == PCRE2_ERROR_HEAP_FAILED)
        return WEFT_E_OOM;
    if (!code)
        return wf_fail(WEFT_E_INTERNAL, "tokenizer: pattern \"%.60s\" does not compile: error %d at %zu", pattern, error,
                       (size_t)where);
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* the interpreter serves as well, slower */
    p->stages[p->n_stages++] = code;
    return WEFT_OK;
}

static const struct row *find_row(const char *name, size_t n)
{
    for (size_t i = 0; i < WF_COUNT(rows); i++)
        if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0)
            return &rows[i];
    return NULL;
}

static weft_status unknown_row(const char *name, size_t n)
{
    wf_str known = WF_STR_INIT;
    for (size_t i = 0; i < WF_COUNT(rows); i++)
        if (*rows[i].name)
            wf_str_addf(&known, " %s", rows[i].name);
    weft_status st = wf_fail(WEFT_E_UNSUPPORTED, "tokenizer: pre-tokeniser \"%.*s\" is none of%s", (int)WF_MIN(n, 80), name,
                             known.ptr ? known.ptr : "");
    wf_str_free(&known);
    return st;
}

weft_status wf_pretok_create(const char *name, size_t n, wf_pretok **out)
{
    const struct row *r = find_row(name, n);
    if (!r)
        return unknown_row(name, n);
    wf_pretok *p = wf_calloc(1, sizeof *p);
    if (!p)
        return WEFT_E_OOM;
    p->ignores_merges = r->ignores_merges;
    p->memory = pcre2_general_context_create(pcre_malloc, pcre_free, NULL);
    weft_status st = p->memory ? WEFT_OK : WEFT_E_OOM;
    for (int i = 0; st == WEFT_OK && i < MAX_STAGES && r->stages[i]; i++)
        st = compile(p, r->stages[i]);
    if (st != WEFT_OK) {
        wf_pretok_destroy(p);
        return st;
    }
    *out = p;
    return WEFT_OK;
}

/* ---- cutting ---- */

static weft_status add_cut(wf_cuts *c, size_t end)
{
    WF_TRY(wf_grow((void **)&c->end, &c->cap, c->n + 1, sizeof *c->end));
    c->end[c->n++] = end;
    return WEFT_OK;
}

static int match(const pcre2_code *code, const char *s, size_t n, size_t from, pcre2_match_data *data)
{
    int rc = pcre2_match(code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, data, NULL);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, NULL);
    return rc;
}

/* Cut s[0 .. n), which lies at `base` of the whole text. Looking ahead ends at the end of the piece. */
static weft_status cut_piece(const pcre2_code *code, const char *s, size_t n, size_t base, pcre2_match_data *data,
                             wf_cuts *out)
{
    size_t done = 0; /* everything before is in a piece */
    for (size_t from = 0; from < n;) {
        int rc = match(code, s, n, from, data);
        if (rc == PCRE2_ERROR_NOMATCH)
            break;
        if (rc == PCRE2_ERROR_NOMEMORY || rc == PCRE2_ERROR_HEAPLIMIT)
            return wf_fail(WEFT_E_OOM, "out of memory: matching %zu bytes of text", n);
        if (rc < 0)
            return wf_fail(WEFT_E_INTERNAL, "tokenizer: matching fails with error %d", rc);
        const PCRE2_SIZE *v = pcre2_get_ovector_pointer(data);
        if (v[0] > done)
            WF_TRY(add_cut(out, base + v[0]));
        if (v[1] > v[0])
            WF_TRY(add_cut(out, base + v[1]));
        done = WF_MAX(v[1], done);
        from = v[1] > from ? v[1] : from + 1;
    }
    return done < n ? add_cut(out, base + n) : WEFT_OK;
}

static weft_status run_stages(const wf_pretok *p, const char *s, size_t n, pcre2_match_data *data, wf_cuts *out)
{
    wf_cuts before = {0};
    weft_status st = WEFT_OK;
    for (int k = 0; k < p->n_stages && st == WEFT_OK; k++) {
        if (k == 0) {
            st = cut_piece(p->stages[0], s, n, 0, data, out);
            continue;
        }
        wf_cuts swapped = before;
        before = *out;
        *out = swapped;
        out->n = 0;
        for (size_t i = 0, at = 0; i < before.n && st == WEFT_OK; at = before.end[i++])
            st = cut_piece(p->stages[k], s + at, before.end[i] - at, at, data, out);
    }
    wf_free(before.end);
    return st;
}

/* PCRE2 takes well-formed text only: each byte that is none becomes U+FFFD, which is a symbol as well. */
static char *make_valid(const char *text, size_t n, size_t n_stray, size_t *out_n)
{
    size_t room;
    if (!wf_mul_size(n_stray, 2, &room) || !wf_add_size(room, n, &room)) {
        wf_fail_oom(SIZE_MAX);
        return NULL;
    }
    char *s = wf_alloc(room);
    size_t k = 0;
    for (size_t i = 0, len; s && i < n; i += len) {
        len = wf_utf8_len(text + i, n - i);
        memcpy(s + k, len ? text + i : "\xef\xbf\xbd", len ? len : 3);
        k += len ? len : 3;
        len = len ? len : 1;
    }
    *out_n = k;
    return s;
}

/* From ends in the valid copy to ends in the text. */
static void map_back(const char *text, size_t n, wf_cuts *cuts)
{
    size_t in_text = 0, in_copy = 0;
    for (size_t c = 0; c < cuts->n; c++) {
        while (in_copy < cuts->end[c] && in_text < n) {
            size_t len = wf_utf8_len(text + in_text, n - in_text);
            in_copy += len ? len : 3;
            in_text += len ? len : 1;
        }
        cuts->end[c] = in_text;
    }
}

static size_t count_stray(const char *text, size_t n)
{
    size_t stray = 0;
    for (size_t i = 0, len; i < n; i += len ? len : 1) {
        len = wf_utf8_len(text + i, n - i);
        stray += !len;
    }
    return stray;
}

weft_status wf_pretok_cut(const wf_pretok *p, const char *text, size_t n, wf_cuts *out)
{
    weft_status st;
    size_t stray = count_stray(text, n), valid_n = n;
    char *copy = NULL;
    pcre2_match_data *data = pcre2_match_data_create(1, p->memory);
    if (!data)
        return WEFT_E_OOM;
    if (stray && !(copy = make_valid(text, n, stray, &valid_n)))
        st = WEFT_E_OOM;
    else
        st = run_stages(p, copy ? copy : text, valid_n, data, out);
    if (st == WEFT_OK && copy)
        map_back(text, n, out);
    wf_free(copy);
    pcre2_match_data_free(data);
    return st;
}
