/* kernels_cpu.h - hand-written kernels of the CPU device as launches of named programs. */
#ifndef WF_KERNELS_CPU_H
#define WF_KERNELS_CPU_H

#include "kernel_table.h"

/* Fill `out` for a device that runs named kernels. A launch binds the inputs in order (run-time scalars
 * are not bound), then the output unless there is an epilogue, then scratch where the row uses it, then the
 * epilogue's bindings. The epilogue of MATMUL sees (batch, m, n) with batch the row-major index in the leading
 * axes of the output; that of LINEAR sees all leading axes as rows: (0, row, n).
 * WEFT_KERNEL=op:row[,op:row..] forces a row. Errors: UNSUPPORTED, with what is in the way. */
weft_status wf_kernel_choose_cpu(const wf_caps *caps, const wf_kernel_req *req, wf_kernel_choice *out);

/* wf_kernel_tune_key and wf_kernel_rows for that device; out->op is set. */
bool wf_kernel_tune_key_cpu(const wf_kernel_req *req, wf_tune_key *out);
int wf_kernel_rows_cpu(const wf_kernel_req *req, const char *names[WF_TUNE_ROWS]);
const char *wf_kernel_row_cpu(const char *op, int i); /* the i-th row that WEFT_KERNEL may name; NULL past the last */

#endif
