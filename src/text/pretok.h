/* pretok.h - the pre-tokeniser of byte-level BPE: regular expressions that cut the text into pieces. */
#ifndef WF_PRETOK_H
#define WF_PRETOK_H

#include "tokenizer.h"

/* By the name in tokenizer.ggml.pre ("" where the file names none). Errors: UNSUPPORTED (lists the known ones), OOM. */
weft_status wf_pretok_create(const char *name, size_t n, wf_pretok **out);
void wf_pretok_destroy(wf_pretok *p);
/* A piece that is a token as a whole is taken without merging. */
bool wf_pretok_ignores_merges(const wf_pretok *p);

typedef struct wf_cuts {
    size_t *end; /* end of each piece; the first begins at 0 */
    size_t n, cap;
} wf_cuts;
/* Cut the text; bytes that are no UTF-8 count as symbols. Errors: OOM, INTERNAL. */
weft_status wf_pretok_cut(const wf_pretok *p, const char *text, size_t n, wf_cuts *out);

#endif
