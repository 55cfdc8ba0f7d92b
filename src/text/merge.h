/* merge.h - the merge loop of BPE: join the adjacent pair of best priority until none is left, in O(n log n). */
#ifndef WF_MERGE_H
#define WF_MERGE_H

#include "tokenizer.h"

typedef struct wf_symbol {
    uint32_t at, n;     /* bytes of the text; n is 0 once it was joined to the one before */
    int32_t prev, next; /* -1: none */
    int32_t id;         /* token, -1: none */
} wf_symbol;

typedef struct wf_pair {
    uint64_t key; /* priority, lowest first, then the position of `left` */
    uint32_t n;   /* bytes of both when this was noted: a pair whose parts have grown is stale */
    int32_t left, right, id;
} wf_pair;

/* Buffers that are used again from one piece to the next. */
typedef struct wf_merger {
    wf_symbol *symbols;
    size_t n_symbols, cap_symbols;
    wf_pair *heap;
    size_t n_heap, cap_heap;
} wf_merger;

/* May left and right join? Then the priority (lowest first) and the token that comes of it. */
typedef bool (*wf_pair_fn)(const weft_tokenizer *t, const char *text, const wf_symbol *left, const wf_symbol *right,
                           uint32_t *priority, int32_t *id);

weft_status wf_merger_add(wf_merger *m, uint32_t at, uint32_t n, int32_t id); /* the next symbol of the text */
/* Join; afterwards the symbols with n > 0 are the result, in order. */
weft_status wf_merger_run(wf_merger *m, const weft_tokenizer *t, const char *text, wf_pair_fn may_join);
void wf_merger_free(wf_merger *m);

#endif
