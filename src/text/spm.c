/* spm.c - SentencePiece's BPE: join neighbouring pieces whose concatenation is a token, best score first.
 *
 * A space stands before the text, and before what follows a special token, where the file asks for it.
 * A character that is no token becomes its bytes. Source: Kudo and Richardson 2018, arXiv:1808.06226.
 */
#include "merge.h"

static bool may_join(const weft_tokenizer *t, const char *text, const wf_symbol *a, const wf_symbol *b,
                     uint32_t *priority, int32_t *id)
{
    size_t n = (size_t)a->n + b->n;
    if (n > t->longest || (*id = wf_vocab_find(t, text + a->at, n)) < 0)
        return false;
    /* Order-preserving bits of the score, highest first; adding zero makes -0 equal 0. */
    float score = t->score[*id] + 0.0f;
    uint32_t u;
    memcpy(&u, &score, sizeof u);
    *priority = ~(u & 0x80000000u ? ~u : u | 0x80000000u);
    return true;
}

/* The text as the vocabulary sees it: a written-out space sign (U+2581) is a space too. */
static char *normalise(const weft_tokenizer *t, const char *text, size_t n, bool after_special, size_t *out_n)
{
    char *s = wf_alloc(n + 1);
    if (!s)
        return NULL;
    size_t k = 0;
    if (t->space_prefix && after_special)
        s[k++] = ' ';
    for (size_t i = 0; i < n;) {
        if (n - i >= 3 && memcmp(text + i, "\xe2\x96\x81", 3) == 0) {
            s[k++] = ' ';
            i += 3;
        } else {
            s[k++] = text[i++];
        }
    }
    *out_n = k;
    return s;
}

static weft_status split(const weft_tokenizer *t, const char *s, size_t n, wf_merger *m)
{
    for (size_t i = 0, len; i < n; i += len) {
        len = wf_utf8_len(s + i, n - i);
        len = len ? len : 1; /* a stray byte stands alone, and is no token */
        WF_TRY(wf_merger_add(m, (uint32_t)i, (uint32_t)len, wf_vocab_find(t, s + i, len)));
    }
    return WEFT_OK;
}

/* The tokens of a symbol that is no token: its bytes, else the unknown token (for a whole character). */
static weft_status spell(const weft_tokenizer *t, const char *bytes, size_t n, wf_ids *out)
{
    bool all = true;
    for (size_t i = 0; i < n; i++)
        all &= t->byte_id[(unsigned char)bytes[i]] >= 0;
    if (!all && t->unk >= 0 && wf_utf8_len(bytes, n) == n)
        return wf_ids_add(out, t->unk);
    if (!all)
        return wf_fail(WEFT_E_VALUE, "tokenize: the vocabulary has no token for byte 0x%02x", (unsigned char)bytes[0]);
    for (size_t i = 0; i < n; i++)
        WF_TRY(wf_ids_add(out, t->byte_id[(unsigned char)bytes[i]]));
    return WEFT_OK;
}

static weft_status emit(const weft_tokenizer *t, const char *s, const wf_merger *m, wf_ids *out)
{
    for (size_t i = 0; i < m->n_symbols; i++) {
        const wf_symbol *x = &m->symbols[i];
        if (!x->n)
            continue;
        if (x->id >= 0)
            WF_TRY(wf_ids_add(out, x->id));
        else
            WF_TRY(spell(t, s + x->at, x->n, out));
    }
    return WEFT_OK;
}

weft_status wf_spm_tokenize(const weft_tokenizer *t, const char *text, size_t n, bool after_special, wf_ids *out)
{
    weft_status st;
    wf_merger m = {0};
    size_t len = 0;
    char *s = normalise(t, text, n, after_special, &len);
    if (!s)
        return WEFT_E_OOM;
    WF_TRY_GOTO(st, split(t, s, len, &m), done);
    WF_TRY_GOTO(st, wf_merger_run(&m, t, s, may_join), done);
    st = emit(t, s, &m, out);
done:
    wf_merger_free(&m);
    wf_free(s);
    return st;
}
