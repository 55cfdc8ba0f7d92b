/* kern_table.c - the named kernels of the CPU device. */
#include "kern.h"

#define MATRIX(name) {#name, wf_kern_##name, WF_KERN_MAT_WORDS, 19, 2, true}
#define UNFOLD(name) {#name, wf_kern_##name, WF_KERN_UNFOLD_WORDS, 19, 2, true}
#define BLOCKS(name) {#name, wf_kern_##name, WF_KERN_QUANT_WORDS, 11, 2, true}
static const wf_cpu_named rows[] = {
    MATRIX(matmul_vec),
    MATRIX(matmul_blas),
    MATRIX(matmul_packed),
    MATRIX(matmul_plain),
    UNFOLD(matmul_unfold),
    MATRIX(matmul_i8),
    BLOCKS(linear_q8_0),
    BLOCKS(linear_q4_0),
    BLOCKS(linear_q4_1),
    {"sdpa", wf_kern_sdpa, WF_KERN_SDPA_WORDS, 31, 3, false},
    {"linalg", wf_kern_linalg, WF_KERN_LINALG_WORDS, 8, 1, false},
    {"topk", wf_kern_topk, WF_KERN_TOPK_WORDS, 11, 1, false},
    {"scan", wf_kern_scan, WF_KERN_LINE_WORDS, 27, 1, false},
    {"sort", wf_kern_sort, WF_KERN_LINE_WORDS, 27, 1, false},
    {"scatter", wf_kern_scatter, WF_KERN_SCATTER_WORDS, 48, 3, false},
};

const wf_cpu_named *wf_cpu_named_find(const char *row)
{
    for (size_t i = 0; row && i < WF_COUNT(rows); i++)
        if (strcmp(rows[i].row, row) == 0)
            return &rows[i];
    return NULL;
}
