/* weft/explain.h - what an evaluation runs: the kernels that its graph became, and why these.
 *
 * For each kernel: the operations that were fused into it, what it reads, the row of the kernel table and why the rows
 * before it were passed over, work groups, the floating-point operations and bytes that the work needs at least, whether it
 * is a copy that the planner had to add, and, for one that went to the CPU, why.
 */
#ifndef WEFT_EXPLAIN_H
#define WEFT_EXPLAIN_H

#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_explain_format {
    WEFT_EXPLAIN_TEXT, /* a table for people */
    WEFT_EXPLAIN_JSON, /* one object: device, totals, kernels */
    WEFT_EXPLAIN_HTML  /* one page with the graph of kernels drawn, which needs nothing else */
} weft_explain_format;

/* Options; all zero is the default. */
typedef struct weft_explain_opts {
    weft_explain_format format;
    bool wgsl; /* with the text of each shader (of devices that take WGSL) */
} weft_explain_opts;

/* What evaluating these tensors would run; nothing runs. Tensors that are computed already need nothing.
 *   opts  NULL for the defaults
 *   *out  text ending with NUL; the caller frees it with weft_explain_free
 * Errors: WEFT_E_CONTEXT (a NULL, an empty list, tensors of several contexts), WEFT_E_VALUE (format), WEFT_E_OOM, an error
 * tensor's own, and what compiling can report. */
WEFT_API weft_status weft_explain(weft_tensor *const *tensors, int n, const weft_explain_opts *opts, char **out);

/* Explain what runs from now on, for callers whose graphs are built inside other functions, such as weft_session_step.
 * weft_explain_end gives the explanation of the last evaluation since, as weft_explain does, and stops.
 * Errors of the end: WEFT_E_VALUE when nothing was evaluated in between. */
WEFT_API weft_status weft_explain_begin(weft_ctx *ctx);
WEFT_API weft_status weft_explain_end(weft_ctx *ctx, const weft_explain_opts *opts, char **out);

/* Free such a text; NULL is a no-op. */
WEFT_API void weft_explain_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
