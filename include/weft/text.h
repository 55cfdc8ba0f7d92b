/* weft/text.h - tokenizers read from the metadata of a GGUF file. */
#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H

#include "weft/format.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_tokenizer weft_tokenizer;

/* tokenizer.ggml.model "llama" (SentencePiece BPE with byte fallback) or "gpt2" (byte-level BPE with
 * the pre-tokeniser of tokenizer.ggml.pre). Errors: WEFT_E_FORMAT, WEFT_E_UNSUPPORTED (names the
 * model or pre-tokeniser, with those known). The file may be closed afterwards. */
WEFT_API weft_status weft_tokenizer_from_file(const weft_file *file, weft_tokenizer **out);
WEFT_API void weft_tokenizer_destroy(weft_tokenizer *tok); /* NULL is a no-op */

typedef struct weft_tokenize_opts {
    int add_bos;        /* 0: as the file says; 1: yes; -1: no */
    bool parse_special; /* recognise control tokens written out, such as <s> or <|im_end|> */
} weft_tokenize_opts;

/* Text (n bytes; invalid UTF-8 is tokenized byte by byte where the vocabulary can, else WEFT_E_VALUE)
 * to ids: *ids is allocated, freed with weft_ids_free. */
WEFT_API weft_status weft_tokenize(const weft_tokenizer *tok, const char *text, size_t n, const weft_tokenize_opts *opts,
                                   int32_t **ids, size_t *n_ids);
WEFT_API void weft_ids_free(int32_t *ids);

/* The bytes of one token as they appear in running text, borrowed. Control tokens give 0 bytes unless
 * `special`. *n can hold part of a UTF-8 sequence. Errors: WEFT_E_INDEX. */
WEFT_API weft_status weft_token_bytes(const weft_tokenizer *tok, int32_t id, bool special, const char **bytes, size_t *n);
WEFT_API int32_t weft_tokenizer_size(const weft_tokenizer *tok);
WEFT_API int32_t weft_tokenizer_bos(const weft_tokenizer *tok); /* -1: none */
WEFT_API int32_t weft_tokenizer_eos(const weft_tokenizer *tok);
WEFT_API bool weft_tokenizer_adds_bos(const weft_tokenizer *tok);
/* True for EOS, EOT, end-of-message and BOS: generation stops there. */
WEFT_API bool weft_tokenizer_is_stop(const weft_tokenizer *tok, int32_t id);
WEFT_API bool weft_tokenizer_is_control(const weft_tokenizer *tok, int32_t id);
/* SentencePiece puts a space before the text: the first token's leading space is dropped when printing. */
WEFT_API bool weft_tokenizer_space_prefix(const weft_tokenizer *tok);

#ifdef __cplusplus
}
#endif
#endif
