/* lower.h - inside lowering: what its files share.
 *
 *   lower_memory.c   where values live, and commands over them
 *   lower_kir.c is in codegen; lower_generated.c dispatches what it makes, in pieces when an operand is
 *   larger than a binding
 *   lower_window.c, lower_parts.c  what pieces of a kernel bind of large operands
 *   lower_special.c  hand-written kernels
 *   lower.c          group by group, and the finished plan
 */
#ifndef WF_LOWER_H
#define WF_LOWER_H

#include "compile.h"

enum { MEM_NONE, MEM_LEAF, MEM_OUT, MEM_ITEM };
enum { WF_CHOSEN_BYTES = 120 };

typedef struct wf_mem_ref {
    uint8_t kind;
    int32_t index;
} wf_mem_ref;

typedef struct wf_lowering {
    wf_compile_state *s;
    wf_plan *plan;
    const wf_caps *caps;
    wf_mem_ref *mem;          /* by cgraph node */
    wf_mem_item *items;
    size_t n_items, cap_items;
    wf_cmd *cmds;
    size_t n_cmds, cap_cmds;
    const char **labels;
    size_t cap_labels;
    wf_patch *patches;     /* kind ARENA: index is the item until memory is placed */
    size_t n_patches, cap_patches;
    wf_plan_part *parts;
    size_t n_parts, cap_parts;
    wf_plan_out *outs;
    size_t n_outs, cap_outs;
    wf_plan_check *checks;
    size_t n_checks, cap_checks;
    wf_plan_indirect *indirect;
    size_t n_indirect, cap_indirect;
    wf_plan_result *results; /* index is the item until memory is placed */
    size_t n_results, cap_results;
    int32_t *first_order;    /* with env.record: cgraph node -> first node of the order that it stands for, -1: none */
    wf_str statics;
    wf_group_code code;
    wf_group_code epilogue;
    wf_kernel_choice choice;
    /* target of the kernel that is lowered now */
    wf_device *dev;
    wf_programs *programs;
    bool host;
    char chosen[WF_CHOSEN_BYTES]; /* how measuring chose its row; "": it did not */
} wf_lowering;

typedef struct wf_dispatch {
    uint32_t program;
    int n_bind;
    wf_mem_ref bind[WF_MAX_BIND + 1];
    uint64_t offset[WF_MAX_BIND + 1], size[WF_MAX_BIND + 1]; /* bytes inside the value's memory */
    uint8_t access[WF_MAX_BIND + 1];
    uint8_t quant[WF_MAX_BIND + 1];
    int64_t section_blocks[WF_MAX_BIND + 1];
    bool is_error[WF_MAX_BIND + 1];
    const int32_t *statics;
    int n_static;
    uint32_t grid[3];
    uint32_t indirect;
    const char *label, *op; /* op: of a hand-written kernel, whose label is the row */
} wf_dispatch;


/* lower_memory.c */
uint64_t wf_lower_node_bytes(const wf_cnode *n);
weft_status wf_lower_item(wf_lowering *l, uint64_t size_bytes, int32_t *out);
weft_status wf_lower_out(wf_lowering *l, const wf_cnode *n, int32_t alias_leaf, wf_mem_ref *m);
weft_status wf_lower_place(wf_lowering *l, int32_t id); /* memory for a node's result, once */
weft_status wf_lower_dispatch(wf_lowering *l, const wf_dispatch *d);
/* Binding i is a node (or the output, or the error word), whole. */
void wf_lower_bind(wf_lowering *l, wf_dispatch *d, int i, int32_t src, int32_t out_node, uint8_t access);

/* lower_generated.c */
weft_status wf_lower_code(wf_lowering *l, int32_t root); /* dispatch l->code, whose output is `root` */
void wf_lower_planes(wf_lowering *l, wf_group_code *c);
weft_status wf_lower_use_host(wf_lowering *l, const char *what, const char *why);
void wf_lower_use_device(wf_lowering *l);
/* lower_window.c: operands larger than a binding. A window is the part of a value that one piece of a
 * kernel touches. */
typedef struct wf_window {
    uint64_t offset, size;
} wf_window;
/* True when some binding of the code is larger than the device's largest. */
bool wf_lower_is_big(const wf_lowering *l, const wf_group_code *c, int32_t out_node);
/* Whether one point of the outer loop touches no more of the binding than a binding holds. */
bool wf_lower_reaches(const wf_lowering *l, const wf_group_code *c, int32_t out_node, int bind);
/* The operand takes several bindings of the kernel; false where there are not enough. */
bool wf_lower_chunk(const wf_lowering *l, wf_group_code *c, int32_t out_node, int bind);
/* A box of the loop: axis k runs over begin[k] .. begin[k] + len[k] - 1. */
typedef struct wf_box {
    int64_t begin[WF_KIR_MAX_AXES], len[WF_KIR_MAX_AXES];
} wf_box;
wf_box wf_lower_whole_box(const wf_group_code *c);
/* The windows of the bindings over a box, and the static words for it. False when one is larger than a
 * binding. */
bool wf_lower_window(const wf_lowering *l, const wf_group_code *c, int32_t out_node, const wf_box *box, int32_t *words,
                     wf_window *windows);
/* lower_parts.c: a table in parts, one run of the kernel for each. */
typedef struct wf_parts {
    int bind, slot;
    weft_dtype dtype;
    int64_t numel, len, section_blocks; /* elements, elements of a part but the last */
} wf_parts;
/* Rewrite the kernel so that it takes parts of binding `bind`; false where it cannot. */
bool wf_lower_take_parts(const wf_lowering *l, wf_group_code *c, int bind, wf_parts *out);
int64_t wf_lower_n_parts(const wf_parts *p);
void wf_lower_part(const wf_parts *p, wf_group_code *c, int64_t i); /* turn the kernel to part i */
/* Bytes that the windows of a box have beyond what bindings hold, those of unknown ones whole. */
uint64_t wf_lower_excess(const wf_lowering *l, const wf_group_code *c, int32_t out_node, const wf_box *box);
/* The longest piece of an axis whose windows fit, 0: none. */
int64_t wf_lower_piece(const wf_lowering *l, const wf_group_code *c, int32_t out_node, int axis);
uint64_t wf_lower_value_bytes(const wf_lowering *l, int32_t src, int32_t out_node);

/* The largest size of one binding, rounded to what offsets must be multiples of. */
static inline uint64_t wf_lower_limit(const wf_lowering *l)
{
    return l->caps->max_binding_bytes / WF_BIND_ALIGN * WF_BIND_ALIGN;
}

/* lower_special.c */
weft_status wf_lower_special(wf_lowering *l, int32_t root, int32_t anchor);

/* lower.c */
weft_status wf_lower_check(wf_lowering *l, int32_t scalar, int64_t lo, int64_t hi, const char *who);

#endif
