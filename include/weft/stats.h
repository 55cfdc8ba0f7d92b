/* weft/stats.h - what a context did: counters that only grow (live ones excepted). */
#ifndef WEFT_STATS_H
#define WEFT_STATS_H

#include "weft/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_stats {
    uint64_t evals;            /* evaluations that ran something */
    uint64_t plans_built, plans_reused;
    uint64_t buffers_created, buffers_reused; /* device buffers made, and taken from the pool */
    uint64_t buffers_live, bytes_live, bytes_peak; /* device buffers held by tensors, plans and the pool */
    uint64_t pipelines;        /* distinct programs created on the device */
    uint64_t dispatches, submits;
    uint64_t copies;           /* materialisations the planner had to add: reshapes that are no view */
    uint64_t fallbacks;        /* kernels that ran on the CPU because the device has no row */
    uint64_t cpu_programs;     /* programs run by the CPU device on behalf of this context */
    uint64_t bytes_up, bytes_down;
    uint64_t static_uploads, step_uploads; /* parameter blocks written */
} weft_stats;

/* Read the counters. Errors: WEFT_E_CONTEXT. */
WEFT_API weft_status weft_ctx_stats(weft_ctx *ctx, weft_stats *out);

/* The record of a "null" context: the bytes of the last submitted command list (borrowed until the
 * next evaluation) and of the static and step parameter blocks. Errors: WEFT_E_UNSUPPORTED elsewhere. */
WEFT_API weft_status weft_null_last_list(weft_ctx *ctx, const void **list, size_t *list_bytes, const void **params,
                                         size_t *param_bytes, const void **step, size_t *step_bytes);

#ifdef __cplusplus
}
#endif
#endif
