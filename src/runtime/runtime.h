/* runtime.h - inside a context: the device, its buffers, plans and counters. */
#ifndef WF_RUNTIME_H
#define WF_RUNTIME_H

#include "compile.h"

/* ---- buffers.c: device buffers with a pool ---- */
typedef struct wf_pool_entry {
    uint64_t size_bytes;
    uint64_t freed_at; /* ctx->stats.evals when it was put back */
    uint32_t id;
} wf_pool_entry;
typedef struct wf_buffers {
    weft_ctx *ctx;
    wf_pool_entry *free_list; /* last in, first out, so that a repeating step gets the same buffers */
    size_t n_free, cap_free;
    uint64_t free_bytes;
} wf_buffers;
weft_status wf_buffers_get(wf_buffers *b, uint64_t size_bytes, uint32_t *id);
void wf_buffers_put(wf_buffers *b, uint32_t id, uint64_t size_bytes);
void wf_buffers_trim(wf_buffers *b, uint64_t keep_bytes);
void wf_buffers_age(wf_buffers *b); /* give back what nobody asked for in a while; once an evaluation */
/* Without the pool. */
weft_status wf_buffer_new(weft_ctx *ctx, uint64_t size_bytes, uint32_t *id);
void wf_buffer_drop(weft_ctx *ctx, uint32_t id, uint64_t size_bytes);
/* A storage of its own buffer (from the pool); size 0 gives one without a buffer. */
weft_status wf_storage_new(weft_ctx *ctx, uint64_t size_bytes, uint32_t layout, wf_storage **out);
/* A storage without a buffer becomes one of the caller's memory, which the device has under this id. */
void wf_storage_lend(wf_storage *s, uint32_t buffer, uint64_t size_bytes);
weft_status wf_storage_borrow(weft_ctx *ctx, const void *data, size_t size_bytes, void (*release)(void *), void *user, wf_storage **out);
weft_status wf_storage_upload(weft_ctx *ctx, weft_dtype dtype, int64_t numel, int64_t row, const void *data, size_t size_bytes,
                              wf_storage **out);

/* ---- trace.c: Chrome trace events ---- */
typedef struct wf_trace {
    char *path;
    wf_str events;
    uint64_t start_ns;
} wf_trace;
weft_status wf_trace_open(wf_trace *t, const char *path); /* IO when it cannot be written */
static inline uint64_t wf_trace_now(const wf_trace *t) { return t->path ? wf_now_ns() : 0; } /* the clock costs 25 ns */
void wf_trace_add(wf_trace *t, const char *name, const char *category, uint64_t begin_ns, uint64_t end_ns);
void wf_trace_write(wf_trace *t);

/* ---- check.c: WEFT_CHECK ---- */
typedef struct wf_check wf_check;
weft_status wf_check_open(const char *how, wf_check **out); /* VALUE for what is not known */
void wf_check_close(wf_check *c);
/* Around the commands of a plan that was compiled with env.record. `after` a command: INTERNAL, NONFINITE. */
weft_status wf_check_begin(weft_ctx *ctx, const wf_plan *plan);
weft_status wf_check_after(weft_ctx *ctx, const wf_plan *plan, uint32_t cmd);
void wf_check_end(weft_ctx *ctx);

/* ---- taps.c: named values ---- */
typedef struct wf_taps wf_taps;
int wf_taps_count(const weft_ctx *ctx); /* values that wait for an evaluation */
wf_node *wf_taps_node(const weft_ctx *ctx, int i);
void wf_taps_deliver(weft_ctx *ctx); /* those that are computed go to their callbacks; not under the lock */
void wf_taps_close(weft_ctx *ctx);
void wf_ctx_leave(weft_ctx *ctx);       /* unlocks after an evaluation, and delivers */

#define WF_PLAN_BUCKETS 256
#define WF_PLANS_MAX 512

struct weft_ctx {
    wf_core_ctx core; /* first: core sees only this */
    wf_device *dev;
    wf_device *host;  /* the CPU beside a GPU, opened when a plan first needs it */
    weft_stats stats, host_stats;
    wf_programs programs, host_programs;
    uint32_t next_id; /* buffers and programs of both devices */
    wf_buffers buffers;
    wf_plan *plans[WF_PLAN_BUCKETS];
    size_t n_plans;
    uint64_t clock;   /* of plan use */
    uint64_t next_list_key;
    uint32_t arena[WF_MAX_ARENAS];
    uint64_t arena_bytes[WF_MAX_ARENAS];
    uint32_t step_buffer, error_buffer;
    wf_disk_cache *cache; /* NULL: nothing is kept between runs */
    wf_texts texts;
    bool fallback_is_error, no_fuse;
    int n_threads;
    wf_trace trace;
    wf_check *check;  /* WEFT_CHECK; else NULL */
    wf_explain *explain; /* between weft_explain_begin and its end; else NULL */
    wf_taps *taps;    /* NULL: none was ever set */
    wf_tune_table tuned; /* measured choices; plans know its generation */
    bool tune_off;       /* WEFT_TUNE=off: they do not count */
    struct wf_tune *tune; /* between weft_tune_begin and its end; else NULL */
    /* scratch of the evaluation that runs */
    wf_node **order;
    size_t n_order, cap_order;
    struct wf_walk *walk;
    size_t cap_walk;
    wf_str key;
    bool *stealable;
    char *trial; /* of a leaf of this evaluation; see wf_storage */
    size_t cap_stealable;
    int32_t *targets;
    size_t cap_targets;
    wf_storage **fresh;
    size_t cap_fresh;
};

/* eval.c: sound tensors of one context, at least one. Errors: CONTEXT, and an error tensor's own. */
weft_status wf_check_tensors(const char *who, weft_tensor *const *tensors, int n);
/* Compute nodes; the caller holds the lock. `waited`: the device has finished when it returns. */
/* Compiles for what nodes need and runs nothing; `why` (WF_WHY_BYTES, "" at first) receives what would go to the host. */
weft_status wf_eval_trial(weft_ctx *ctx, wf_node *const *nodes, int n, char *why);
/* Compiles the same way and notes what the kernels are. */
weft_status wf_eval_explain(weft_ctx *ctx, wf_node *const *nodes, int n, wf_explain *x);
void wf_explain_drop(weft_ctx *ctx);
/* Compiles without making new programs of a device that takes WGSL: they are listed. When there are none the plan is made and kept. */
weft_status wf_eval_warm(weft_ctx *ctx, wf_node *const *nodes, int n, wf_pending *pending);
/* Tunes what evaluating nodes would run. */
weft_status wf_eval_tune(weft_ctx *ctx, wf_node *const *nodes, int n, struct wf_tune *t);
void wf_tune_drop(weft_ctx *ctx);
void wf_tune_recall(weft_ctx *ctx); /* what earlier runs measured, where there is a cache on disk */
/* The plan of the graph in ctx->order, for one round of a tuner; destroyed with wf_plan_destroy. */
weft_status wf_eval_compile_pass(weft_ctx *ctx, int n_targets, wf_tune_pass *pass, wf_plan **out);
weft_status wf_eval_nodes(weft_ctx *ctx, wf_node *const *nodes, int n, bool *waited);
/* read.c: a computed tensor whose elements are one run of its storage; the caller releases it */
weft_status wf_materialise(weft_ctx *ctx, weft_tensor *t, weft_tensor **out);
/* a read to dst that failed writes nothing any more */
void wf_ctx_forget(weft_ctx *ctx, void *dst);
/* Bytes of a buffer, waited for. */
weft_status wf_read_back(weft_ctx *ctx, uint32_t buffer, uint64_t offset, void *dst, uint64_t size_bytes);
/* run.c */
void wf_plan_fill_step(const weft_ctx *ctx, const wf_plan *plan, uint32_t *step); /* run-time scalars and counts of this evaluation */
weft_status wf_plan_run(weft_ctx *ctx, wf_plan *plan, bool *waited);
void wf_plan_destroy(weft_ctx *ctx, wf_plan *plan);
weft_status wf_run_host_part(weft_ctx *ctx, wf_plan *plan, const wf_plan_part *part, const void *step);
weft_status wf_ctx_host(void *user, wf_device **dev, wf_programs **programs);
/* Over a device of the caller; handles NULL: by opts->device. */
weft_status wf_ctx_open_on(const weft_ctx_opts *opts, const wf_webgpu_handles *handles, weft_ctx **out);
/* Lock and check that the context can be used: CONTEXT when it is NULL or closed. Unlock only on success. */
weft_status wf_ctx_enter(weft_ctx *ctx, const char *who);

#endif
