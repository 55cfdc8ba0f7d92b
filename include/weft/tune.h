/* weft/tune.h - measuring which row of the kernel table is fastest here, and taking it from then on.
 *
 * Matrix products and reductions can be computed by several rows. Without measuring, a rule takes one; tuning runs each on
 * the device itself and keeps the fastest for the kind of kernel: operation, dtypes, extents rounded up to powers of two,
 * and what of strides and divisibility the rows ask. Plans made later take it; weft_explain says so. Rows add in different
 * orders, so results of floating-point sums can differ in their last bits from those before tuning; the same row always
 * gives the same bits. Where there is a cache on disk (weft/device.h) later runs know what was measured. WEFT_TUNE=off leaves everything that was measured out of account. docs/tuning.md says when it pays.
 */
#ifndef WEFT_TUNE_H
#define WEFT_TUNE_H

#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_tune_format {
    WEFT_TUNE_TEXT, /* a table for people */
    WEFT_TUNE_JSON  /* one object: device, seconds, complete, kernels */
} weft_tune_format;

/* How far tuning is: kernel `done` of `total` is next. */
typedef struct weft_tune_progress {
    int done, total;
    const char *operation, *shape; /* "matmul", "f32 x f32 -> f32, M <= 64, ..": until the callback returns */
} weft_tune_progress;

/* Options; all zero is the default. */
typedef struct weft_tune_opts {
    double budget_s;         /* no kernel is begun after this many seconds; 0: 30 */
    int repeats;             /* how often each row is timed, the fastest counts; 0: 5, at most 1000 */
    bool again;              /* measure what was measured before, too */
    weft_tune_format format; /* of the report */
    bool (*progress)(void *user, const weft_tune_progress *p); /* before each kernel; false stops. It must not use the context. NULL: none */
    void *user;
} weft_tune_opts;

/* Measure the rows of the kernels that evaluating these tensors would run. The tensors are not evaluated: what the kernels
 * write goes to scratch buffers. A row replaces the usual one of its kind when it is at least 3 % faster. One that does not
 * compile or run is skipped, with a line in the log, and never chosen.
 *   opts  NULL for the defaults
 *   *out  the report, ending with NUL: of each kind of kernel the row that is now taken, and the time of each row, or why it has
 *         none; the caller frees it with weft_tune_free. NULL: not wanted
 * Errors: WEFT_E_CONTEXT (a NULL, an empty list, tensors of several contexts), WEFT_E_VALUE (an option outside its range),
 * WEFT_E_CANCELLED (the callback or weft_cancel; what was measured until then is kept), an error tensor's own, and what
 * compiling can report. *out is then untouched. */
WEFT_API weft_status weft_tune(weft_tensor *const *tensors, int n, const weft_tune_opts *opts, char **out);

/* Tune every graph that is evaluated from now on, before it runs, for callers whose graphs are built inside other functions,
 * such as weft_session_step. The budget and the report are of all of them together. weft_tune_end gives the report and stops.
 * Errors of begin: WEFT_E_CONTEXT, WEFT_E_VALUE, WEFT_E_OOM; of end: WEFT_E_CONTEXT, WEFT_E_VALUE without a begin, WEFT_E_OOM. */
WEFT_API weft_status weft_tune_begin(weft_ctx *ctx, const weft_tune_opts *opts);
WEFT_API weft_status weft_tune_end(weft_ctx *ctx, char **out);

/* Free such a report; NULL is a no-op. */
WEFT_API void weft_tune_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
