/* rows_reduce.h - reductions in generated kernels: one row for each wf_kstrategy. */
#ifndef WF_ROWS_REDUCE_H
#define WF_ROWS_REDUCE_H

#include "kernel_rows.h"

bool wf_reduce_is(const wf_kir *k); /* folds something */
const char *wf_reduce_row_name(unsigned strategy);
int wf_reduce_row_named(const char *name); /* -1: no such row */
/* Right results for these extents on this device; else `why` says what is in the way. */
bool wf_reduce_admissible(const wf_caps *caps, const wf_kir *k, const int64_t *extents, int strategy, char why[WF_WHY_MAX]);
/* False for what is no reduction. `words` are the static words that it runs with. */
bool wf_reduce_tune_key(const wf_kir *k, const int64_t *extents, const int32_t *words, wf_tune_key *key);

#endif
