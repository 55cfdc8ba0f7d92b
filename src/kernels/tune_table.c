/* tune_table.c - the table of measured choices: sorted by key. */
#include "tune_table.h"

#include <stdio.h>

#include "kernel_table.h"

_Static_assert(sizeof(wf_tune_key) == 12, "keys are compared as bytes");

static const char *const op_names[] = {"matmul", "linear", "qlinear", "reduce"};
_Static_assert(WF_COUNT(op_names) == WF_TUNE_OPS, "a name an operation");

const char *wf_tune_op_name(unsigned op) { return op < WF_TUNE_OPS ? op_names[op] : "?"; }

uint8_t wf_tune_bucket(int64_t n)
{
    uint8_t b = 0;
    while (b < 62 && (int64_t)1 << b < n)
        b++;
    return b;
}

/* The place of a key: where it is, or where it belongs. */
static size_t place_of(const wf_tune_table *t, const wf_tune_key *key, bool *there)
{
    size_t lo = 0, hi = t->n;
    *there = false;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = memcmp(&t->entries[mid].key, key, sizeof *key);
        if (order == 0) {
            *there = true;
            return mid;
        }
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const wf_tune_entry *wf_tune_find(const wf_tune_table *t, const wf_tune_key *key)
{
    bool there;
    size_t at = place_of(t, key, &there);
    return there ? &t->entries[at] : NULL;
}

weft_status wf_tune_put(wf_tune_table *t, const wf_tune_entry *e)
{
    bool there;
    size_t at = place_of(t, &e->key, &there);
    if (!there) {
        if (t->n >= WF_TUNE_MAX)
            return WEFT_OK; /* what is not kept is not tuned */
        WF_TRY(wf_grow((void **)&t->entries, &t->cap, t->n + 1, sizeof *t->entries));
        memmove(&t->entries[at + 1], &t->entries[at], (t->n - at) * sizeof *t->entries);
        t->n++;
    }
    t->entries[at] = *e;
    t->generation++;
    return WEFT_OK;
}

void wf_tune_table_free(wf_tune_table *t)
{
    wf_free(t->entries);
    *t = (wf_tune_table){.generation = t->generation};
}

static void extent(const char *name, unsigned bucket, wf_str *out)
{
    if (bucket < 62)
        wf_str_addf(out, ", %s <= %lld", name, 1ll << bucket);
}

void wf_tune_key_print(const wf_tune_key *k, wf_str *out)
{
    const char *a = weft_dtype_name((weft_dtype)k->dtype[0]), *b = weft_dtype_name((weft_dtype)k->dtype[1]), *r = weft_dtype_name((weft_dtype)k->dtype[2]);
    if (k->op == WF_TUNE_REDUCE) {
        wf_str_addf(out, "%s -> %s", a, r);
        extent("lines", k->bucket[0], out);
        extent("elements", k->bucket[1], out);
        if (k->bucket[2] > 1)
            wf_str_addf(out, ", %u passes", k->bucket[2]);
        return;
    }
    wf_str_addf(out, "%s x %s -> %s", a, b, r);
    extent("M", k->bucket[0], out);
    extent("N", k->bucket[1], out);
    extent("K", k->bucket[2], out);
    if (k->bucket[3])
        extent("batch", k->bucket[3], out);
}

static bool name_valid(const char *name, unsigned op, bool may_be_empty)
{
    if (!memchr(name, 0, WF_ROW_NAME))
        return false;
    return name[0] ? wf_kernel_row_known(wf_tune_op_name(op), name) : may_be_empty;
}

bool wf_tune_entry_valid(const wf_tune_entry *e)
{
    if (e->key.op >= WF_TUNE_OPS || !name_valid(e->row, e->key.op, false) || !name_valid(e->other, e->key.op, true))
        return false;
    for (int i = 0; i < 3; i++)
        if (!wf_dtype_known((weft_dtype)e->key.dtype[i]))
            return false;
    return true;
}

void wf_tune_sentence(const wf_tune_entry *e, char *buf, size_t size)
{
    int n = snprintf(buf, size, "chosen by measuring: %.1f us", (double)e->ns * 1e-3);
    if (e->other[0] && n > 0 && (size_t)n < size)
        snprintf(buf + n, size - (size_t)n, " against %.1f us of row %s", (double)e->other_ns * 1e-3, e->other);
}
