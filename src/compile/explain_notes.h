/* explain_notes.h - what lowering tells of each kernel, for weft_explain. */
#ifndef WF_EXPLAIN_NOTES_H
#define WF_EXPLAIN_NOTES_H

#include "lower.h"

typedef struct wf_explain_kernel {
    int32_t root;            /* its node in the compiler's graph */
    char *row, *ops, *result, *passed, *chosen, *host_why; /* owned; the last three may be "" */
    int32_t *reads;          /* kernels whose results it reads; -1: a leaf */
    int n_reads;
    int64_t flops, bytes;
    uint32_t grid[3], n_cmds;
    bool host, copy;
    wf_str wgsl;
} wf_explain_kernel;

struct wf_explain {
    wf_explain_kernel *kernels;
    size_t n, cap;
    wf_str wgsl;             /* of the kernel that is lowered now */
    char host_why[256];
    uint32_t dispatches, copies, fallbacks;
    uint64_t arena_bytes, largest_live;
    bool seen;               /* an evaluation was explained */
};

void wf_explain_reset(wf_explain *x);
/* One kernel: after its commands from first_cmd on, while the compiler's graph stands. Errors: OOM. */
weft_status wf_explain_group(wf_explain *x, const wf_lowering *l, int32_t root, uint32_t first_cmd);
void wf_explain_totals(wf_explain *x, const wf_plan *plan);
void wf_explain_wgsl(wf_explain *x, const char *text);

#endif
