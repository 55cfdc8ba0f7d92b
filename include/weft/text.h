/* weft/text.h - tokenizers read from the metadata of a GGUF file. */
#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H

#include "weft/format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A vocabulary and its algorithm; immutable, so that any number of threads may use it. The caller of
 * weft_tokenizer_from_file owns it and ends it with weft_tokenizer_destroy. */
typedef struct weft_tokenizer weft_tokenizer;

/* The tokenizer that a GGUF file describes: tokenizer.ggml.model "llama" (SentencePiece BPE with byte
 * fallback) or "gpt2" (byte-level BPE with the pre-tokeniser of tokenizer.ggml.pre). The file may be
 * closed afterwards.
 * Errors: WEFT_E_FORMAT (keys are missing or do not fit), WEFT_E_UNSUPPORTED (names the model or
 * pre-tokeniser, with those known), WEFT_E_CONTEXT for a NULL, WEFT_E_OOM.
 * Source: ggml, docs/gguf.md, "Tokenizer"; Sennrich et al. 2016, arXiv:1508.07909 (BPE); Kudo and
 * Richardson 2018, arXiv:1808.06226 (SentencePiece). */
WEFT_API weft_status weft_tokenizer_from_file(const weft_file *file, weft_tokenizer **out);
/* NULL is a no-op. */
WEFT_API void weft_tokenizer_destroy(weft_tokenizer *tok);

/* Options of weft_tokenize; all zero is the default. */
typedef struct weft_tokenize_opts {
    int add_bos;        /* 0: as the file says; 1: yes; -1: no */
    bool parse_special; /* recognise control tokens written out, such as <s> or <|im_end|> */
} weft_tokenize_opts;

/* Text to token ids.
 *   text   n bytes, no NUL needed, at most 2^30 - 1; may be NULL for n 0. Invalid UTF-8 is tokenized byte
 *          by byte where the vocabulary can, else it is WEFT_E_VALUE
 *   opts   NULL for the defaults
 *   *ids   *n_ids ids, allocated; the caller frees them with weft_ids_free
 * Errors: WEFT_E_VALUE, WEFT_E_CONTEXT for a NULL, WEFT_E_OOM. */
WEFT_API weft_status weft_tokenize(const weft_tokenizer *tok, const char *text, size_t n, const weft_tokenize_opts *opts,
                                   int32_t **ids, size_t *n_ids);
/* Free the ids of weft_tokenize or of a weft_generate_result; NULL is a no-op. */
WEFT_API void weft_ids_free(int32_t *ids);

/* The *n bytes of one token as they appear in running text, borrowed from tok, without a NUL. Control and
 * unknown tokens give 0 bytes unless `special`. The bytes can be part of a UTF-8 sequence.
 * Errors: WEFT_E_INDEX for an id outside 0 .. size-1; WEFT_E_CONTEXT for a NULL. */
WEFT_API weft_status weft_token_bytes(const weft_tokenizer *tok, int32_t id, bool special, const char **bytes, size_t *n);
/* The number of tokens; 0 for NULL. */
WEFT_API int32_t weft_tokenizer_size(const weft_tokenizer *tok);
/* The id that begins a text; -1: none. */
WEFT_API int32_t weft_tokenizer_bos(const weft_tokenizer *tok);
/* The id that ends a text; -1: none. */
WEFT_API int32_t weft_tokenizer_eos(const weft_tokenizer *tok);
/* Whether weft_tokenize begins with BOS by default: tokenizer.ggml.add_bos_token. */
WEFT_API bool weft_tokenizer_adds_bos(const weft_tokenizer *tok);
/* True for EOS, EOT, end-of-message and BOS: generation stops there. False for an id outside. */
WEFT_API bool weft_tokenizer_is_stop(const weft_tokenizer *tok, int32_t id);
/* True for control tokens, which are no text. False for an id outside. */
WEFT_API bool weft_tokenizer_is_control(const weft_tokenizer *tok, int32_t id);
/* Whether a space was put before the text (SentencePiece): who prints tokens from the beginning of a text
 * drops the first one's leading space. */
WEFT_API bool weft_tokenizer_space_prefix(const weft_tokenizer *tok);

#ifdef __cplusplus
}
#endif
#endif
