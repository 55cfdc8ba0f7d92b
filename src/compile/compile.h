/* compile.h - a graph to a plan: number and fold (cgraph.c), fuse (fuse.c), lower to programs and
 * commands (lower.c), place memory (memplan.c).
 *
 * A plan is everything an evaluation needs but the buffers of its leaves and the values of its run-time
 * scalars. It is made once for a structure and replayed.
 */
#ifndef WF_COMPILE_H
#define WF_COMPILE_H

#include "group.h"
#include "hal.h"
#include "kernel_table.h"
#include "tune_pass.h"

/* ---- programs of a device, one a text ---- */
typedef struct wf_program_entry {
    wf_hash128 key;
    uint32_t id;
} wf_program_entry;
/* Programs that a compilation needs and that are still to be made; see weft/warm.h. */
typedef struct wf_pending_program {
    wf_hash128 key;
    wf_program_desc desc; /* WGSL; the text is owned, names live as long as the library */
    char *wgsl;
} wf_pending_program;
typedef struct wf_pending {
    wf_pending_program *item;
    size_t n, capacity;
} wf_pending;
void wf_pending_clear(wf_pending *p);
typedef struct wf_programs {
    wf_device *dev;
    uint32_t *next_id;
    wf_program_entry *table; /* open addressing, capacity a power of two */
    size_t capacity, count;
    wf_pending *pending;     /* new programs go here and are not made: the plan they are for is never run; else NULL */
} wf_programs;
/* The program of a description; made when it is new. `identity` bytes stand for the description. */
weft_status wf_programs_get(wf_programs *p, const wf_program_desc *desc, const void *identity, size_t n, uint32_t *id);
/* Make one that is pending, unless it was made since. A row's program that does not compile is not an error: another row
 * will stand in for it. */
weft_status wf_programs_make(wf_programs *p, const wf_pending_program *what);
bool wf_programs_find(const wf_programs *p, const void *identity, size_t n, uint32_t *id);
void wf_programs_free(wf_programs *p);

/* ---- plans ---- */
typedef enum wf_mem_kind { WF_MEM_LEAF, WF_MEM_OUT, WF_MEM_ARENA, WF_MEM_ERROR } wf_mem_kind;

typedef struct wf_patch {
    uint32_t cmd, bind;
    uint32_t kind;  /* wf_mem_kind */
    uint32_t index; /* leaf, output or arena number */
} wf_patch;

typedef struct wf_plan_out {
    int64_t numel;
    size_t size_bytes;
    int32_t alias_leaf; /* >= 0: this output is that leaf's storage, updated in place */
} wf_plan_out;

typedef struct wf_plan_realise {
    int32_t order; /* node of the evaluation's order that gets a storage */
    int32_t out;   /* output number, -1: empty tensor */
} wf_plan_realise;

typedef struct wf_plan_check { /* host check of a scalar used as an index */
    int32_t order;
    int64_t lo, hi; /* lo <= value < hi */
    const char *who;
} wf_plan_check;

typedef struct wf_plan_indirect {
    uint32_t step_word; /* first of three counts */
    uint32_t grid[3];
    int32_t order, axis, div;
} wf_plan_indirect;

/* A run of commands for the device, or one command for the host. */
typedef struct wf_plan_part {
    uint32_t first, count;
    bool host;
    uint32_t writes;                  /* host: bit mask of the bindings it writes */
    uint8_t quant[WF_MAX_BIND];       /* host: 1 + dtype of a planar block-type binding, which the host wants plain */
    int64_t section_blocks[WF_MAX_BIND]; /* of that binding */
} wf_plan_part;

/* Where the result of a group of commands lies once its last one has run; recorded when the caller checks results. */
typedef struct wf_plan_result {
    int32_t order;              /* node of the evaluation's order */
    uint32_t last_cmd;
    uint32_t kind, index;       /* as in wf_patch */
    uint64_t offset;
    const char *label;
    bool constant;              /* made of no leaf */
} wf_plan_result;

#define WF_MAX_ARENAS 16

typedef struct wf_plan {
    struct wf_plan *next;       /* bucket chain of the cache */
    uint64_t last_used;
    wf_hash128 hash;
    void *key;
    size_t key_bytes;

    wf_cmd *cmds;               /* resolved in place */
    uint32_t n_cmds;
    wf_patch *patches;
    uint32_t n_patches;
    const char **labels;        /* by command */
    uint32_t static_buffer, static_bytes;
    void *statics;              /* host copy of the static block */
    wf_plan_part *parts;
    uint32_t n_parts;

    int32_t n_leaves, *leaf_order;
    uint32_t *leaf_buffer;      /* buffers the commands are resolved for */
    wf_plan_out *outs;
    uint32_t n_outs, *out_buffer;
    wf_plan_realise *realise;
    uint32_t n_realise;
    int32_t n_scalars, *scalar_order; /* scalar k is step word k */
    wf_plan_check *checks;
    uint32_t n_checks;
    wf_plan_indirect *indirect;
    uint32_t n_indirect;
    wf_plan_result *results;    /* with env.record: in the order of last_cmd */
    uint32_t n_results;
    int32_t *same_as;           /* with env.record: for each node of the order the first equal one */
    uint32_t step_bytes;
    uint64_t arena_bytes[WF_MAX_ARENAS];
    uint32_t arena_buffer[WF_MAX_ARENAS];
    bool uses_error;
    uint64_t list_key;          /* 0: not resolved yet */
    uint32_t n_dispatches, n_copies, n_fallbacks;
    uint64_t largest_live;      /* with env.explain: bytes of intermediates alive at once */
    int64_t flops, bytes;
    wf_arena arena;             /* everything above lives here */
} wf_plan;

#define WF_WHY_BYTES 160
typedef struct wf_explain wf_explain; /* explain_notes.h */

typedef struct wf_compile_env {
    wf_device *dev;
    wf_programs *programs;
    /* The CPU, for kernels that `dev` has no row for; opened on first need. NULL when dev is the CPU. */
    weft_status (*host)(void *user, wf_device **dev, wf_programs **programs);
    void *user;
    wf_texts *texts;            /* of `dev`; NULL: texts are neither kept nor counted */
    bool fallback_is_error;     /* WEFT_FALLBACK=error */
    bool no_fuse;               /* WEFT_FUSE=0 */
    bool record;                /* the plan's results are wanted */
    const wf_tune_table *tuned; /* measured choices; NULL: none count */
    wf_tune_pass *pass;         /* of a tuner; else NULL */
    struct wf_explain *explain; /* receives what the kernels are; NULL: not asked */
    char *why;                  /* WF_WHY_BYTES, receives why the first kernel went to the host; NULL: not asked */
} wf_compile_env;

/* `order`: the nodes of the evaluation, producers first, each with node->topo = its index; nodes with a
 * storage are leaves. `stealable[i]`: nobody but this evaluation can see leaf i. */
weft_status wf_compile(const wf_compile_env *env, wf_node *const *order, int32_t n, const bool *stealable,
                       const int32_t *targets, int n_targets, wf_plan **out);
void wf_plan_free(wf_plan *plan); /* host memory; the caller destroys static_buffer */

/* ---- steps, in order ---- */
typedef struct wf_compile_state {
    const wf_compile_env *env;
    wf_cgraph g;
    wf_arena scratch;
    wf_arena kernel;           /* what making one kernel needs; empty again after each group */
    int32_t *canon;            /* order index -> cgraph node */
    int32_t *order_of;         /* cgraph node -> first order index */
    const bool *stealable;
    const int32_t *targets;
    int n_targets;
    int max_group_nodes;       /* fusion bound */
    int32_t n_order;
    wf_node *const *order;
    wf_plan *plan;
} wf_compile_state;
weft_status wf_cgraph_build(wf_compile_state *s);
/* cut.c: while the graph is built. Puts the parts of a node before it; *c moves behind them. */
enum { WF_CUT_NODES = 512 }; /* that one node may become */
bool wf_cut_wanted(const wf_compile_state *s, const wf_node *n);
size_t wf_cut_room(const wf_node *n); /* the most nodes that wf_cut adds for one that is wanted */
weft_status wf_cut(wf_compile_state *s, wf_cnode **c);
weft_status wf_contract_bytes(wf_compile_state *s);  /* contract.c: before wf_unfold_operands */
void wf_contract_sorts(wf_compile_state *s);         /* contract_sort.c */
weft_status wf_unfold_operands(wf_compile_state *s); /* unfold.c: before uses are counted */
weft_status wf_fuse(wf_compile_state *s);
weft_status wf_lower(wf_compile_state *s);

/* memplan.c: intervals of materialised values to (arena, offset). */
typedef struct wf_mem_item {
    uint64_t size_bytes;
    int32_t first, last;     /* commands, inclusive */
    int32_t n_reads;         /* items that some command writes while it reads this one, and the other way round:
                              * never in its arena */
    int32_t *reads;
    int32_t arena;           /* out; in: -1 */
    uint64_t offset;         /* out */
} wf_mem_item;
/* The most bytes that are alive during one command: what no plan of these lifetimes can go below. */
weft_status wf_mem_largest_live(const wf_mem_item *items, int32_t n, int32_t n_cmds, uint64_t *out);
weft_status wf_memplan(wf_mem_item *items, int32_t n, uint64_t max_bytes, uint64_t arena_bytes[WF_MAX_ARENAS]);

#endif
