/* group.h - the compiler's copy of a graph, and groups of nodes that become one kernel.
 *
 * The compile step numbers the nodes of one evaluation, folds equal ones, and decides which nodes
 * are materialised (have bytes of their own) and which are inlined into the kernel that uses them.
 * codegen turns one group - a materialised root and what is inlined into it - into kernel IR.
 */
#ifndef WF_GROUP_H
#define WF_GROUP_H

#include "kir.h"
#include "node.h"

#define WF_STATIC_WORDS_MAX 256 /* WF_STATIC_MAX_BYTES of words */

typedef enum wf_ckind {
    WF_CK_COMPUTE, /* needs a kernel or is inlined */
    WF_CK_LEAF,    /* has a storage */
    WF_CK_SCALAR,  /* a word of the step block */
    WF_CK_CONST    /* FULL, IOTA, TRI: inlined wherever used, materialised only on demand */
} wf_ckind;

typedef struct wf_cnode {
    uint16_t op;
    uint8_t dtype, kind;    /* weft_dtype, wf_ckind */
    uint8_t n_in;
    bool materialised;      /* others read it from memory */
    bool target;
    bool stealable;         /* a leaf that nothing but this evaluation can see */
    int32_t rank;
    int32_t uses;           /* edges from live consumers, plus one for a target */
    int32_t group;          /* root of the group it is inlined in (itself when materialised), -1: dead */
    int32_t anchor;         /* roots: the reduction, row op or matrix product inside the group, -1: none */
    int32_t step_word;      /* SCALAR: its word in the step block */
    uint32_t layout;        /* leaves: WF_LAYOUT_* */
    int64_t section_blocks; /* leaves in planar layout: wf_storage.section_blocks */
    bool identity;          /* inside its group: has the root's linear index */
    uint8_t height;         /* a reduction in a group: reductions on the way to the root, itself included */
    uint32_t row_axes;      /* roots without an anchor that reductions over these axes of the root's shape feed; 0: none */
    int32_t first_row;      /* roots: reductions of the group beside the anchor, by next_row; -1: none */
    int32_t next_row;
    int64_t shape[WEFT_MAX_RANK];
    int64_t numel;
    wf_attrs attrs;
    const wf_value *in;     /* views of the inputs */
    const int32_t *src;     /* their canonical node numbers */
    wf_node *node;          /* the graph's node (first of equal ones) */
    const struct wf_unfold *unfold; /* MATMUL: an operand that lies as windows (unfold.c in compile); NULL: none */
} wf_cnode;

typedef struct wf_cgraph {
    wf_cnode *nodes;
    int32_t n;
    uint64_t window_bytes; /* not 0: some value is larger than this, the largest binding, and is reached through
                            * windows: every AFFINE serves one use, every use of such a value has its own binding */
    wf_arena *arena; /* scratch of codegen; what lies there lives until the group is lowered */
} wf_cgraph;

/* What a binding of a generated kernel is. */
enum { WF_SRC_OUT = -1, WF_SRC_ERROR = -2 }; /* >= 0: a materialised node */

typedef struct wf_group_code {
    wf_kir kir;
    int32_t src[WF_KIR_MAX_BIND + 1]; /* source of each binding; the error word, if any, is last */
    int32_t statics[WF_STATIC_WORDS_MAX];
    int64_t extents[WF_KIR_MAX_AXES];
    int n_axes;
    struct {
        uint64_t offset, size; /* bytes of the value that this kernel binds; size 0: as its loop needs */
    } part[WF_KIR_MAX_BIND];
} wf_group_code;

/* Heights of reductions in a group, and how many may have one: stages of a kernel and accumulators of a stage. */
enum { WF_MAX_HEIGHT = WF_KIR_MAX_STAGES / 2, WF_MAX_AT_HEIGHT = WF_KIR_MAX_ACC };

/* One kernel for a group without a special anchor: elementwise, indexed, reductions, row.
 * Errors: UNSUPPORTED (too many bindings, words or instructions), OOM. */
weft_status wf_codegen_group(const wf_cgraph *g, int32_t root, wf_group_code *out);
/* Epilogue of a MATMUL or LINEAR anchor: 3 outer axes of these extents, value IN. */
weft_status wf_codegen_epilogue(const wf_cgraph *g, int32_t root, int64_t batch, int64_t m, int64_t n, wf_group_code *out);
/* A group whose anchor yields zero everywhere (matrix product with K = 0). */
weft_status wf_codegen_group_zero_anchor(const wf_cgraph *g, int32_t root, wf_group_code *out);
/* Writes input `part` of `node` into the node's storage: SLICE_UPDATE part 1 at its start, CAT part i at
 * axis position `at`. */
weft_status wf_codegen_store_part(const wf_cgraph *g, int32_t node, int part, int64_t at, wf_group_code *out);
/* SLICE_UPDATE part 1 as a loop over the node's storage that keeps what lies beside it: where it is stored follows from the
 * loop alone, so the loop can be cut along any axis. */
weft_status wf_codegen_merge_part(const wf_cgraph *g, int32_t node, wf_group_code *out);
/* Copies input 0 of a SLICE_UPDATE into its storage. */
weft_status wf_codegen_copy_input(const wf_cgraph *g, int32_t node, int part, wf_group_code *out);

#endif
