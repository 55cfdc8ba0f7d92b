/* kern_table.c - the named kernels of the CPU device. */
#include "kern.h"

static const wf_cpu_named rows[] = {
    {"matmul_vec", wf_kern_matmul_vec},       {"matmul_blas", wf_kern_matmul_blas},
    {"matmul_packed", wf_kern_matmul_packed}, {"matmul_plain", wf_kern_matmul_plain},
    {"linear_q8_0", wf_kern_linear_q8_0},     {"linear_q4_0", wf_kern_linear_q4_0},
    {"linear_q4_1", wf_kern_linear_q4_1},     {"sdpa", wf_kern_sdpa},
    {"topk", wf_kern_topk},
};

const wf_cpu_named *wf_cpu_named_find(const char *row)
{
    for (size_t i = 0; row && i < WF_COUNT(rows); i++)
        if (strcmp(rows[i].row, row) == 0)
            return &rows[i];
    return NULL;
}
