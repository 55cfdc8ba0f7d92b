/* tune_pass.h - what a tuner wants of a compilation and learns from it.
 *
 * A graph is compiled once for each of the rows that its kernels may take: in round r every kernel takes its r-th row, the
 * first being the one that is taken without measuring. Each kind of kernel (wf_tune_key) is noted once, with the commands
 * that its first occurrence became, so that they can be timed.
 */
#ifndef WF_TUNE_PASS_H
#define WF_TUNE_PASS_H

#include "tune_table.h"

typedef struct wf_tune_kernel {
    wf_tune_key key;
    int n_rows, n_uses;             /* of the graph's kernels, in the first round */
    const char *rows[WF_TUNE_ROWS]; /* static names; [0] is what is taken without measuring */
    bool made[WF_TUNE_ROWS];        /* compiled; else why not */
    char why[WF_TUNE_ROWS][160];
    uint32_t first[WF_TUNE_ROWS], count[WF_TUNE_ROWS]; /* its commands in the plan of that round */
} wf_tune_kernel;

typedef struct wf_tune_pass {
    int round;
    wf_tune_kernel *kernels;
    size_t n, cap;
    int open;          /* the kernel that is lowered now, -1: none, or one that was seen */
    const char *taken; /* the row it took; static */
} wf_tune_pass;

/* A new attempt to compile in this round. */
void wf_tune_pass_begin(wf_tune_pass *p);
/* A kernel that could take these rows. *want: the one that this round asks for, NULL: whatever is usual. Errors: OOM. */
weft_status wf_tune_pass_open(wf_tune_pass *p, const wf_tune_key *key, const char *const *rows, int n_rows, const char **want);
void wf_tune_pass_refused(wf_tune_pass *p, const char *why); /* the wanted row does not compile */
void wf_tune_pass_close(wf_tune_pass *p, uint32_t first_cmd, uint32_t n_cmds);
void wf_tune_pass_free(wf_tune_pass *p);

#endif
