/* line_ops.h - what a scan folds and how a scatter combines: shared by the graph, the kernel table and the kernels. */
#ifndef WF_LINE_OPS_H
#define WF_LINE_OPS_H

/* Element i of a scan folds elements 0 .. i of its line. The last two give the index of the extreme: the last of equal
 * ones, and NaN is the extreme of both. */
typedef enum wf_scan_kind { WF_SCAN_SUM, WF_SCAN_PROD, WF_SCAN_LOGSUMEXP, WF_SCAN_MAX_INDEX, WF_SCAN_MIN_INDEX, WF_SCAN_COUNT } wf_scan_kind;
/* Beside 1 for descending in the kind of a sort: its result is the sorted values, not their order. */
enum { WF_SORT_VALUES = 2 };

/* What becomes of an element that a scatter meets; several that meet one come in the order of the index. */
typedef enum wf_scatter_kind { WF_SCATTER_SET, WF_SCATTER_ADD, WF_SCATTER_MUL, WF_SCATTER_MAX, WF_SCATTER_MIN, WF_SCATTER_COUNT } wf_scatter_kind;

#endif
