/* weft/stats.h - what a context did: counters that only grow (live ones excepted). */
#ifndef WEFT_STATS_H
#define WEFT_STATS_H

#include "weft/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counters of a context since it was opened. */
typedef struct weft_stats {
    uint64_t evals;            /* evaluations that ran something */
    uint64_t plans_built;      /* graphs of a new structure that were compiled */
    uint64_t plans_reused;     /* evaluations that found their plan */
    uint64_t buffers_created;  /* device buffers made */
    uint64_t buffers_reused;   /* device buffers taken from the pool instead */
    uint64_t buffers_live;     /* device buffers held now by tensors, plans and the pool */
    uint64_t bytes_live;       /* the bytes of those */
    uint64_t bytes_peak;       /* the largest bytes_live so far */
    uint64_t pipelines;        /* distinct programs created on the device */
    uint64_t dispatches;       /* commands given to the device: kernels, copies and fills */
    uint64_t submits;          /* command lists given to the device */
    uint64_t copies;           /* materialisations the planner had to add: reshapes that are no view */
    uint64_t fallbacks;        /* kernels that ran on the CPU because the device has no row */
    uint64_t cpu_programs;     /* programs run by the CPU device on behalf of this context */
    uint64_t bytes_up;         /* written from host to device */
    uint64_t bytes_down;       /* read back */
    uint64_t static_uploads;   /* parameter blocks written once a plan */
    uint64_t step_uploads;     /* parameter blocks written once an evaluation: run-time scalars */
    uint64_t texts_generated;  /* shader texts written, not found in the cache on disk */
    uint64_t cache_found;      /* texts, blobs of pipelines and tables of the tuner read from the cache on disk */
    uint64_t cache_stored;     /* those written to it */
    uint64_t cache_refused;    /* its files that were passed over: damaged, foreign */
    uint64_t handles_live;     /* tensors and scopes that are alive */
    uint64_t rows_measured;    /* rows of kernels that weft_tune timed */
} weft_stats;

/* Read the counters. Errors: WEFT_E_CONTEXT for a closed context or a NULL. */
WEFT_API weft_status weft_ctx_stats(weft_ctx *ctx, weft_stats *out);

/* The record of a "null" context, for tests: the bytes of the last submitted command list and of the
 * static and step parameter blocks, all borrowed until the next evaluation.
 * Errors: WEFT_E_UNSUPPORTED on another device; WEFT_E_CONTEXT for a closed context or a NULL. */
WEFT_API weft_status weft_null_last_list(weft_ctx *ctx, const void **list, size_t *list_bytes, const void **params,
                                         size_t *param_bytes, const void **step, size_t *step_bytes);

#ifdef __cplusplus
}
#endif
#endif
