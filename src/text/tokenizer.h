/* tokenizer.h - a vocabulary and what the two algorithms share.
 *
 * Token texts are kept as the bytes they stand for: the space sign of SentencePiece is a space here, and the
 * printable alphabet of byte-level BPE is undone. Both algorithms then work on plain bytes.
 */
#ifndef WF_TOKENIZER_H
#define WF_TOKENIZER_H

#include "base.h"
#include "weft/text.h"

typedef struct wf_pretok wf_pretok;

/* Token types by their number in the file. */
enum { WF_TOKEN_NORMAL = 1, WF_TOKEN_UNKNOWN, WF_TOKEN_CONTROL, WF_TOKEN_USER, WF_TOKEN_UNUSED, WF_TOKEN_BYTE };

typedef struct wf_merge_rule { /* byte-level BPE: tokens left, right become `id` */
    int32_t left, right, id; /* id -1: a free slot */
    uint32_t rank;
} wf_merge_rule;

struct weft_tokenizer {
    bool spm; /* SentencePiece BPE, else byte-level BPE */
    int32_t n;
    char *bytes;         /* of all tokens, one after another */
    uint64_t *at;        /* n + 1 offsets */
    uint8_t *type;       /* WF_TOKEN_* */
    bool *stop;          /* generation ends at this token */
    float *score;        /* SentencePiece; else NULL */
    size_t longest;      /* bytes of the longest token that text can become */
    int32_t *slots;      /* bytes to id by open addressing, -1: free; no control or unknown tokens */
    size_t slot_mask;
    int32_t byte_id[256]; /* the token of a single byte; -1: none */
    int32_t *specials;   /* control, unknown and user tokens, longest first within one first byte */
    int32_t special_begin[257];
    wf_merge_rule *rules;
    size_t rule_mask;
    wf_pretok *pretok;   /* byte-level BPE; else NULL */
    int32_t bos, eos, unk;
    bool adds_bos, space_prefix;
};

typedef struct wf_ids {
    int32_t *ids;
    size_t n, cap;
} wf_ids;
weft_status wf_ids_add(wf_ids *out, int32_t id);

static inline const char *wf_token_text(const weft_tokenizer *t, int32_t id, size_t *n)
{
    *n = (size_t)(t->at[id + 1] - t->at[id]);
    return t->bytes + t->at[id];
}

/* vocab.c */
weft_status wf_vocab_load(const weft_file *file, weft_tokenizer *t);
int32_t wf_vocab_find(const weft_tokenizer *t, const char *bytes, size_t n); /* -1: none */

/* A piece of text without special tokens. */
weft_status wf_spm_tokenize(const weft_tokenizer *t, const char *text, size_t n, bool after_special, wf_ids *out);
weft_status wf_bpe_load(const weft_file *file, weft_tokenizer *t);
/* Undo the printable alphabet in place; false, and nothing changed, when a character is not in it. */
bool wf_bpe_undo_alphabet(char *s, size_t *n);
weft_status wf_bpe_tokenize(const weft_tokenizer *t, const char *text, size_t n, wf_ids *out);

/* utf8.c: bytes of the well-formed character at p, 0 when there is none in the next n bytes. */
size_t wf_utf8_len(const char *p, size_t n);
/* Its code point; *len receives wf_utf8_len. */
uint32_t wf_utf8_decode(const char *p, size_t n, size_t *len);

#endif
