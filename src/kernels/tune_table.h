/* tune_table.h - what was measured: for a kind of kernel and a bucket of shapes, the fastest row.
 *
 * A key is what a choice between rows may depend on and nothing else: operation, dtypes, each extent rounded up to a power
 * of two, and what the rows ask of strides and divisibility. One table is of one device and one version of the library;
 * whoever stores it adds those (tune_store.c in runtime).
 */
#ifndef WF_TUNE_TABLE_H
#define WF_TUNE_TABLE_H

#include "base.h"

typedef enum wf_tune_op { WF_TUNE_MATMUL, WF_TUNE_LINEAR, WF_TUNE_QLINEAR, WF_TUNE_REDUCE, WF_TUNE_OPS } wf_tune_op;
enum { WF_TUNE_ROWS = 16, WF_ROW_NAME = 24, WF_TUNE_MAX = 1 << 16 /* entries of a table */ };

typedef struct wf_tune_key {
    uint8_t op;        /* wf_tune_op */
    uint8_t dtype[3];  /* products: a, b, result; reductions: first input, what is folded, result */
    uint8_t bucket[4]; /* wf_tune_bucket of: M, N, K, batch; reductions: lines, elements of a line, and their stages and loads as they are */
    uint32_t facts;    /* the family's */
} wf_tune_key;

typedef struct wf_tune_entry {
    wf_tune_key key;
    char row[WF_ROW_NAME];   /* the fastest */
    char other[WF_ROW_NAME]; /* the row that is taken without measuring; where that is the fastest, the next one; "" none */
    uint64_t ns, other_ns;
} wf_tune_entry;

typedef struct wf_tune_table {
    wf_tune_entry *entries; /* by key */
    size_t n, cap;
    uint32_t generation;    /* counts changes */
} wf_tune_table;

/* The smallest b with 2^b >= n. */
uint8_t wf_tune_bucket(int64_t n);
const wf_tune_entry *wf_tune_find(const wf_tune_table *t, const wf_tune_key *key); /* NULL: not measured */
weft_status wf_tune_put(wf_tune_table *t, const wf_tune_entry *e);                 /* in place of one with its key. Errors: OOM */
void wf_tune_table_free(wf_tune_table *t);

const char *wf_tune_op_name(unsigned op); /* as WEFT_KERNEL spells it */
/* "f32 x f32 -> f32, M <= 64, N <= 1024, K <= 512": for people. */
void wf_tune_key_print(const wf_tune_key *key, wf_str *out);
/* Is this what a tuner could have written: a known operation, dtypes, and rows that it has on some device? */
bool wf_tune_entry_valid(const wf_tune_entry *e);
/* "chosen by measuring: 12.1 us against 19.0 us of row plain" */
void wf_tune_sentence(const wf_tune_entry *e, char *buf, size_t size);

#endif
