/* weft/warm.h - making the pipelines of a graph before it is evaluated.
 *
 * Most of the time of a first evaluation on a GPU is the driver's, which compiles each kernel. Warming up a graph compiles it,
 * makes its pipelines and keeps its plan; nothing is computed. The evaluation of these tensors, or of others recorded the same
 * way (operations, shapes, dtypes), then finds all of it. What is warmed up also goes to the cache on disk, where there is one
 * (weft/device.h). On the CPU and the null device it costs little, and is the same calls.
 */
#ifndef WEFT_WARM_H
#define WEFT_WARM_H

#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options; all zero is the default. */
typedef struct weft_warm_opts {
    weft_progress_fn progress; /* phase "warm", pipelines done and in all (that may grow); false stops; NULL: none */
    void *progress_user;       /* handed to it */
} weft_warm_opts;

/* Warm up what evaluating these tensors together would run. Tensors that are computed already need nothing.
 *   tensors  n of one context; n >= 1
 *   opts     NULL for the defaults; progress is called by this thread
 * Errors: WEFT_E_CONTEXT (a NULL, no tensor, several contexts), WEFT_E_CANCELLED (progress, weft_cancel), an error tensor's own, and
 * what compiling can report. What was made until then stays. */
WEFT_API weft_status weft_warm_up(weft_tensor *const *tensors, int n, const weft_warm_opts *opts);

/* The same beside the caller: one of its threads makes the pipelines one after another and holds the context only for each
 * single one, so evaluations go on meanwhile; one that needs a pipeline which is not there yet makes it.
 * The tensors are kept until the end. The caller owns *out and ends it with weft_warm_end, before or after weft_ctx_close.
 *   opts  copied; progress is called by the other thread, and may use the context
 * Errors: those of weft_warm_up that are known before the first pipeline is made; WEFT_E_OOM, where no thread can be had too. */
typedef struct weft_warm weft_warm;
WEFT_API weft_status weft_warm_begin(weft_tensor *const *tensors, int n, const weft_warm_opts *opts, weft_warm **out);
/* Wait until it is done; its status then, and its sentence. timeout_ms 0 asks, negative waits without bound.
 * Errors: WEFT_E_TIMEOUT when it still runs; WEFT_E_CONTEXT for a NULL. */
WEFT_API weft_status weft_warm_wait(weft_warm *warm, int64_t timeout_ms);
/* Stop after the pipeline that is being made, wait for that, and free it. NULL is a no-op. Not from its own progress callback. */
WEFT_API void weft_warm_end(weft_warm *warm);

#ifdef __cplusplus
}
#endif
#endif
