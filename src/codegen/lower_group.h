/* lower_group.h - what lower_kir.c and lower_reduce.c share. */
#ifndef WF_LOWER_GROUP_H
#define WF_LOWER_GROUP_H

#include "emit.h"

weft_status wf_lower_begin(wf_emit *e, const wf_cgraph *g, int32_t root, wf_group_code *out, int n_outer, int n_inner,
                           const int64_t *extents);
/* Store the root's value, whose row-major index is `lin`. */
void wf_lower_store_root(wf_emit *e, const wf_affine *lin, int value, bool covers);
/* The root's value where its row-major index is `lin`; the anchor stands at the same index. */
int wf_lower_root_value(wf_emit *e, const wf_affine *lin);
wf_kstrategy wf_lower_strategy(int64_t rows, int64_t inner);
/* A group with reductions: its anchor, or those that feed an elementwise root. */
weft_status wf_lower_over_rows(const wf_cgraph *g, int32_t root, wf_group_code *out);

#endif
