/* tuner.h - inside tuning: what its files share, and the table as bytes. */
#ifndef WF_TUNER_H
#define WF_TUNER_H

#include "runtime.h"
#include "weft/tune.h"

/* One kind of kernel that was looked at. */
typedef struct wf_tune_result {
    wf_tune_kernel kernel;
    uint64_t ns[WF_TUNE_ROWS]; /* 0: not measured; kernel.why says why */
    int taken;                 /* the row that is taken from now on; -1: none was measured */
    bool known;                /* measured before */
} wf_tune_result;

/* Of a weft_tune, or between weft_tune_begin and its end. */
typedef struct wf_tune {
    weft_tune_opts opts;
    uint64_t begin_ns;
    bool incomplete;           /* the budget ended */
    wf_tune_result *results;
    size_t n, cap;
} wf_tune;

/* tune.c: the graph in ctx->order; the caller holds the lock. */
weft_status wf_tune_graph(weft_ctx *ctx, wf_tune *t, int n_targets);
/* tune_measure.c: times of the rows of one kernel, from the plans of the rounds. Errors: OOM, DEVICE_LOST, CANCELLED; what
 * concerns one row is a reason in r->kernel.why. */
weft_status wf_tune_measure(weft_ctx *ctx, const wf_tune *t, wf_plan *const *plans, wf_tune_result *r);
uint64_t wf_tune_now(const weft_ctx *ctx); /* the device's clock where it has its own */
/* tune_page.c */
void wf_tune_render(const wf_tune *t, const weft_device_info *device, double seconds, wf_str *out);

/* tune_store.c: the context's table as bytes, for whoever keeps it; the caller holds the lock. The bytes name the device
 * (kind, name, driver, implementation, limits, threads) and the library's version, and end with a checksum.
 * save: *need is set always; buf may be NULL. Errors: VALUE (size is less than *need), OOM.
 * load: adds what is not known yet; entries measured by this context stay. Nothing is added on failure. Errors: FORMAT
 * (damaged, of another device or version: the sentence says which), OOM. */
weft_status wf_tune_save(weft_ctx *ctx, void *buf, size_t size, size_t *need);
weft_status wf_tune_load(weft_ctx *ctx, const void *bytes, size_t n);
void wf_tune_keep(weft_ctx *ctx); /* tune_kept.c: the table to the cache on disk, with what is there; wf_tune_recall: runtime.h */

#endif
