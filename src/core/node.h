/* node.h - the lazy graph: nodes, values, storages, tensors, scopes, contexts as core sees them.
 *
 * A node is one application of an op; its result is contiguous, row-major, `shape`. A value is a node
 * seen through a view, so view operations make no node. A node is immutable but for `storage`: once
 * computed (or from the start, for a leaf) it holds its bytes, and drops its inputs.
 *
 * Lifetimes: `refs` counts tensor handles and consuming nodes. All of a context's nodes are touched
 * only under ctx->lock.
 */
#ifndef WF_NODE_H
#define WF_NODE_H

#include "line_ops.h"
#include "thread.h"
#include "view.h"
#include "weft/ops.h"
#include "weft/stats.h"

/* ---- op ids, from op.def ---- */
typedef enum wf_op {
#define WF_OP(id, name, n_in, klass, diff, bound, doc) WF_OP_##id,
#include "op.def"
#undef WF_OP
    WF_OP_COUNT
} wf_op;

typedef enum wf_op_class {
    WF_CLASS_LEAF,        /* has storage, or is a constant or run-time scalar */
    WF_CLASS_ELEMENTWISE, /* out[i] = f(in0[i], ..); inputs already broadcast views of the output's shape */
    WF_CLASS_REDUCE,      /* one input; attrs.reduce */
    WF_CLASS_ROW,         /* softmax, norms: reductions along one axis, then elementwise; attrs.row */
    WF_CLASS_MATMUL,      /* matmul, linear */
    WF_CLASS_INDEXED,     /* elementwise with computed indices: iota, gather, rope, cat, slice_update, tri */
    WF_CLASS_SPECIAL      /* own kernels: attention, topk, scan, sort, scatter */
} wf_op_class;

typedef struct wf_op_info {
    const char *name;
    int n_in; /* -1: any number */
    wf_op_class klass;
    bool differentiable;
    const char *bound; /* error bound as an expression in eps (of the result dtype) and n (reduction length) */
    const char *doc;
} wf_op_info;
extern const wf_op_info wf_op_table[WF_OP_COUNT];

/* ---- attributes: plain bytes, part of the structure of a graph. Unused bytes are zero. ---- */
typedef union wf_attrs {
    struct { uint32_t axes; /* bit mask of input axes */ uint32_t keepdim; } reduce;
    struct { int32_t axis; float eps; uint32_t has_weight, has_bias; } row; /* inputs: x, [weight], [bias] */
    struct { double value; } constant;                                     /* FULL */
    struct { double start, step; } iota;
    struct { int32_t activation; uint32_t has_bias, act_int8; } linear;    /* inputs: x, w, [bias] */
    struct { int64_t diagonal; } tri;
    struct { uint32_t form, word, range; } random; /* inputs: seed low, high, offset low, high, rank 0 i32. form: WF_RANDOM_* */
    struct {                         /* index_select: x, index; gather: x, index; cat: xs; slice_update: dst, src, start */
        int32_t axis;
        uint32_t strict;             /* index_select: negative indices do not count from the end */
    } index;
    struct {                         /* inputs: x, freq [dim/2, 2] u32 (turns a position in 0.64 fixed point, high and
                                      * low word: see rope.c), [positions], [offset] */
        int32_t dim, pairing;        /* pairing: 0 half within dim, 1 interleaved, 2 half across the head */
        uint32_t has_positions, has_offset;
    } rope;
    struct {                         /* inputs: q, k, v, [mask], [kv_len], [slopes], [sinks] */
        float scale, softcap;        /* softcap 0: none */
        int32_t left, right;         /* of the window, where it has that bound */
        uint8_t causal, has_mask, has_kv_len, has_left, has_right, has_slopes, has_sinks;
    } sdpa;
    struct { int64_t k; } topk;
    struct { int32_t kind; uint32_t flags; } linalg; /* wf_linalg_kind; inputs [batch, m, n] and maybe [batch, n, k], row-major */
    struct { int32_t axis; uint32_t kind; } line; /* scan: wf_scan_kind; sort: 1 descending, + WF_SORT_VALUES; scatter: wf_scatter_kind */
    struct { uint32_t per_byte; } packed; /* MATMUL in a plan for the CPU: numbers in a byte of b, u8 [.., K / per_byte, N]; 0: not packed */
    uint64_t raw[4];
} wf_attrs;

/* What a RANDOM node gives of the four Philox words of an element. */
enum {
    WF_RANDOM_WORD,       /* u32: word `word`, shifted right by `range` */
    WF_RANDOM_BELOW,      /* u32: 0 .. range-1 of 64 bits; range 0: 2^32 */
    WF_RANDOM_NORMAL,     /* f32: mean 0, deviation 1 */
    WF_RANDOM_EXPONENTIAL /* f32: mean 1 */
};

/* ---- storage: a counted handle on bytes of a device. core defines it, the runtime fills it. ---- */
typedef struct wf_storage {
    atomic_int refs;
    uint32_t buffer;      /* HAL buffer id; 0: no bytes (empty tensor) */
    uint32_t layout;      /* WF_LAYOUT_* : how block types lie in the buffer */
    size_t size_bytes;
    int64_t section_blocks; /* block types in planar layout: blocks of each section (wf_quant_section_blocks), 0: one section */
    weft_ctx *ctx;
    void (*release)(struct wf_storage *); /* gives the buffer back and frees the handle */
    bool borrowed;        /* the caller's memory: never written, never pooled */
    char *trial;          /* not NULL: there are no bytes, what depends on it is compiled and not run, and here the reason is written
                           * why a part of it would run on the CPU (WF_WHY_BYTES; "" until then) */
} wf_storage;

typedef struct wf_node wf_node;
typedef struct wf_value {
    wf_node *node;
    wf_view view;
} wf_value;

/* What an evaluation touches of every node comes first: the walk is bound by cache lines. */
struct wf_node {
    uint16_t op;     /* wf_op */
    uint8_t dtype;   /* weft_dtype of the result */
    uint8_t n_in;
    int32_t refs;    /* handles + consumers */
    int32_t handles; /* tensor handles alone */
    int32_t rank;
    wf_storage *storage; /* NULL until computed */
    /* scratch of the evaluation that runs now; valid when mark == ctx->epoch */
    uint64_t mark;
    int32_t topo;         /* index in the evaluation's order */
    int32_t uses;         /* edges seen in this evaluation */
    wf_value *in;         /* n_in values, allocated with the node */
    int64_t numel;
    uint32_t scalar_bits; /* WF_OP_SCALAR: the run-time value (f32 or i32 bits) */
    uint32_t room;        /* inputs the block has room for; n_in drops to 0 when realised */
    int64_t shape[WEFT_MAX_RANK];
    wf_attrs attrs;
    weft_ctx *ctx;
};

struct weft_tensor {
    atomic_int refs;
    weft_status status;   /* error tensors: not WEFT_OK, node NULL */
    char *message;        /* owned; error tensors only */
    weft_ctx *ctx;        /* NULL for the static error tensor */
    wf_node *node;
    wf_view view;
    weft_tensor *scope_prev, *scope_next; /* the list of the scope that owns one reference; see scope */
    weft_scope *scope;    /* NULL: not owned by a scope */
};

#define WF_NODE_ROOM_MAX 4 /* nodes with more inputs do not go through a freelist */

/* What core needs of a context; the runtime embeds this as the first member of weft_ctx. */
typedef struct wf_core_ctx {
    wf_biased_lock lock;
    bool closed;
    atomic_bool cancel;
    atomic_int refs;      /* the owner plus every live tensor: memory goes when it reaches 0 */
    uint64_t epoch;       /* starts at 1; a fresh node's mark is 0 */
    wf_node *free_nodes[WF_NODE_ROOM_MAX + 1]; /* freelists, by room for inputs */
    weft_tensor *free_tensors;
    int32_t n_free_nodes[WF_NODE_ROOM_MAX + 1], n_free_tensors;
    int64_t live_nodes, live_tensors;
    int64_t holds;        /* live tensors and scopes; together they own one of refs */
    uint64_t random_seed, random_offset; /* of the context's own stream; see compose_random.c */
    struct wf_rope_freq *rope_freqs; /* uploaded frequency leaves; see rope.c */
    void (*destroy)(weft_ctx *); /* frees the weft_ctx itself */
    /* leaves: make a storage filled from host data; set by the runtime */
    weft_status (*upload)(weft_ctx *, weft_dtype, int64_t numel, int64_t row, const void *data, size_t size_bytes, wf_storage **out);
    /* The caller's memory as it is; *out stays NULL where it must be copied. release as for weft_tensor_borrow. */
    weft_status (*borrow)(weft_ctx *, const void *data, size_t size_bytes, void (*release)(void *), void *user, wf_storage **out);
} wf_core_ctx;
static inline wf_core_ctx *wf_core(weft_ctx *ctx) { return (wf_core_ctx *)ctx; }

weft_status wf_core_init(wf_core_ctx *core);
void wf_core_release(weft_ctx *ctx); /* drops one reference; the last frees the freelists and calls destroy */
void wf_core_drop_caches(wf_core_ctx *core); /* leaves that core keeps for reuse: before the device closes, under the lock */

/* New node with room for n_in inputs (each retained by wf_node_set_input). NULL on OOM. The caller
 * holds ctx->lock. A fresh node has refs 0: wrap it in a tensor or make it an input. */
wf_node *wf_node_new(weft_ctx *ctx, wf_op op, weft_dtype dtype, int n_in, int rank, const int64_t *shape);
void wf_node_set_input(wf_node *n, int i, wf_node *src, const wf_view *view);
void wf_node_unref(wf_node *n);        /* iterative: chains of 10^6 nodes are freed without recursion */
void wf_node_realise(wf_node *n, wf_storage *storage); /* takes the storage over, drops the inputs */
void wf_storage_retain(wf_storage *s);
void wf_storage_release(wf_storage *s);

/* Handles. Both belong to the current scope. */
weft_tensor *wf_tensor_new(weft_ctx *ctx, wf_node *node, const wf_view *view); /* view NULL: the node's own shape */
weft_tensor *wf_tensor_error(weft_ctx *ctx, weft_status st, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
weft_tensor *wf_tensor_error_last(weft_ctx *ctx, weft_status st); /* with this thread's message */

static inline bool wf_node_is_constant(const wf_node *n) { return n->op == WF_OP_FULL; }

/* Helpers of builders (infer.c, composite.c). */
size_t wf_dtype_bytes(weft_dtype dtype, int64_t numel); /* packed bytes; numel a multiple of the block */
bool wf_dtype_known(weft_dtype dtype);
/* The error words as the sentence of a check of values (wf_checked_values); NULL: an index tensor is wrong. */
const char *wf_value_sentence(int32_t index, uint32_t extent);

#endif
