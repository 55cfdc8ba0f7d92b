/* kernel_table.h - hand-written kernels as rows of a table, and choosing one.
 *
 * The compiler describes what it wants (op, operands with views, attributes, an epilogue in IR); the
 * table answers with the launches to make, or says why no row is admissible. Behind every fast row
 * stands a plain one. `WEFT_KERNEL=op:row` forces a row.
 */
#ifndef WF_KERNEL_TABLE_H
#define WF_KERNEL_TABLE_H

#include "hal.h"
#include "node.h"
#include "text_cache.h"
#include "tune_table.h"

typedef struct wf_operand {
    weft_dtype dtype;
    uint32_t layout;   /* WF_LAYOUT_* */
    wf_view view;      /* in elements, relative to the start of the bound range */
    int64_t numel;     /* elements of the whole storage (planes of block types follow from it) */
    int32_t step_slot; /* >= 0: a run-time scalar, in this word of the step block; not bound */
} wf_operand;

/* A product's operand that lies in a tensor as windows (a convolution's columns): each of its two matrix axes is several
 * axes of the tensor, which may overlap, and places outside the tensor are zeros. */
enum { WF_UNFOLD_AXES = 4, WF_UNFOLD_BOUNDS = 3 };
typedef struct wf_unfold_axis {
    int64_t extent, move;
    int32_t bound, pad_; /* -1: a step moves the address by `move` elements; else it moves that coordinate by `move` > 0 */
} wf_unfold_axis;
typedef struct wf_unfold {
    int32_t operand; /* 0: a, 1: b */
    int32_t n_k, n_free, n_bounds;
    wf_unfold_axis k[WF_UNFOLD_AXES], free[WF_UNFOLD_AXES]; /* outermost first; free: rows of a, columns of b */
    struct {
        int64_t extent, start, stride; /* coordinate: start + moves; inside 0 .. extent - 1 it moves the address by stride */
    } bound[WF_UNFOLD_BOUNDS];
} wf_unfold;

typedef struct wf_kernel_req {
    wf_op op;               /* MATMUL, LINEAR, SDPA, TOPK, SCAN, SORT, SCATTER */
    wf_attrs attrs;
    int n_in;
    wf_operand in[8];       /* the node's inputs in order; for LINEAR the bias is in the epilogue already and absent */
    weft_dtype out_dtype;   /* of the node; with an epilogue its STORE decides */
    int out_rank;
    int64_t out_shape[WEFT_MAX_RANK];
    /* Epilogue: a KIR of one OUTER stage over 3 outer axes (batch, m, n) of the MATMUL/LINEAR result, using IN for the
     * accumulated f32 value and ending in its STOREs. Its bindings are its own (numbered from 0); the
     * compiler appends them after the kernel's operands. NULL: store IN to the output, contiguous. */
    const wf_kir *epilogue;
    wf_texts *texts;          /* where the texts of rows are kept; NULL: nowhere */
    uint64_t skip;            /* rows that are no longer asked, one bit a wf_kernel_choice.place */
    const char *row;          /* this row where it fits, before the others; NULL: none. WEFT_KERNEL comes before it */
    bool only;                /* no other row than that */
    bool unforced;            /* WEFT_KERNEL does not count */
    const wf_unfold *unfold; /* MATMUL on the CPU: that operand's view has offset and batch strides alone. NULL: none */
} wf_kernel_req;

/* What a launch binds: >= 0 an input of the request; the output; scratch; an epilogue binding. */
enum { WF_BIND_OUT = -1, WF_BIND_SCRATCH = -2, WF_BIND_EPILOGUE = -16 /* -16 - i: epilogue binding i */ };

typedef struct wf_launch {
    const char *row;
    wf_program_kind kind;    /* WGSL or NAMED */
    wf_str wgsl;             /* WGSL: text, to be freed by the compiler */
    bool with_epilogue;      /* NAMED: hand it the epilogue */
    uint32_t n_bind;
    int bind[WF_MAX_BIND];   /* as above */
    uint8_t access[WF_MAX_BIND];
    uint32_t grid[3];
    /* Work-group count that follows a run-time scalar: grid[indirect_axis] = ceil(value / indirect_div), from
     * input `indirect_in` (a step scalar). -1: none. grid then holds the largest. */
    int32_t indirect_in, indirect_axis, indirect_div;
    uint32_t n_static;
    int32_t statics[256];
} wf_launch;

/* A sort of long lines takes three a digit; a scatter one more. */
enum { WF_MAX_LAUNCHES = 3 * 8 + 1 };
typedef struct wf_kernel_choice {
    int place;               /* of the row in the table of a device that takes WGSL */
    int n_launches;
    wf_launch launch[WF_MAX_LAUNCHES];
    uint64_t scratch_bytes;
    int64_t flops, bytes;    /* the least the work needs */
    char passed[600];        /* rows before the one that was taken, and why each was passed over */
} wf_kernel_choice;

/* Choose among admissible rows for a device. Static words of a launch start at word 0; epilogue static
 * words follow the kernel's own (the row must emit epilogue code with that base, and gets the words
 * appended by the compiler: it leaves launch.n_static at its own count).
 * Errors: UNSUPPORTED (why no row fits). */
weft_status wf_kernel_choose(const wf_caps *caps, const wf_kernel_req *req, wf_kernel_choice *out);

/* What a measured choice among the rows of a request is kept under; false: this kind of request is not tuned. */
bool wf_kernel_tune_key(const wf_caps *caps, const wf_kernel_req *req, wf_tune_key *out);
/* The rows that are admissible, wanted or not; their names are static. A slow plain row is left out of large work, where it
 * cannot win. Gives their number. */
int wf_kernel_rows(const wf_caps *caps, const wf_kernel_req *req, const char *rows[WF_TUNE_ROWS]);
/* Does WEFT_KERNEL name a row for this kind of request? */
bool wf_kernel_is_forced(const wf_kernel_req *req);
/* Is there such a row, on whatever device? `op` as WEFT_KERNEL names it. */
bool wf_kernel_row_known(const char *op, const char *row);
/* VALUE for a WEFT_KERNEL that is not op:row,.. of known operations and rows; the sentence lists those. */
weft_status wf_kernel_check_env(void);

/* Static words of the matrix kernels (MATMUL and LINEAR, plain dtypes), shared by CPU and WGSL:
 *   0 M  1 N  2 K  3 batch count  4..6 batch extents (outermost first, padded with leading 1s)
 *   7 a offset  8 a row stride  9 a col (k) stride  10..12 a batch strides
 *   13 b offset 14 b row (k) stride 15 b col (n) stride 16..18 b batch strides
 *   19 WGSL rows: M of one batch, where batches were joined to M. The output is contiguous [batch, M, N]. 20 words.
 *   matmul_unfold (CPU): 20 operand 21 axes of k 22 free axes 23 bounds; extent, start, stride of 3 bounds from 24;
 *   extent, move, bound of 4 axes of k from 33, of 4 free axes from 45. 57 words.
 * LINEAR with block-type w: 0 M 1 N 2 K 3 first block of w's view 4 x offset 5 x row stride 6 x k stride
 *   7 byte offset of w's scale plane 8 byte offset of w's minimum plane 9 act_int8 10 blocks a row. 12 words.
 * SDPA: 0 B 1 Hq 2 Hkv 3 Tq 4 Tk 5 D 6 scale (f32 bits) 7 keys after its position that a query sees (Tq: all)
 *   8 q offset 9..12 q strides (b,h,t,d) 13 k offset 14..17 18 v offset 19..22
 *   23 mask kind (0 none, 1 bool, 2 float) 24 mask offset 25..28 mask strides 29 kv_len step word or -1
 *   30 splits 31 WGSL rows: the bits of -infinity 32 keys before its position that a query sees (Tk: all) 33 softcap (f32 bits)
 *   34 E, the width of v 35 slopes offset 36 stride 37 sinks offset 38 stride. Query i stands at position kv_len - Tq + i.
 *   Output contiguous [B, Tq, Hq, E] (time before heads). 40 words.
 * TOPK: 0 rows 1 n 2 k 3 x offset 4..6 row extents (3) 7..9 row strides 10 element stride. Output i32 [rows, k]. 12 words; WGSL rows: 11 blocks of a
 *   row 12 elements of a block.
 * SCAN, SORT: 0 lines 1 n 2 x offset 3 element stride of x 4 of the output 5 kind 6..12 extents of the other axes (7, padded
 *   with leading 1s) 13..19 their strides in x 20..26 in the output, which is contiguous in the shape of x. 28 words.
 *   WGSL rows: 27 the bits of -infinity 28 blocks of a line 29 elements of a block 30..33 see sort_radix.wgsl 34 elements of a
 *   line that the output has.
 * SCATTER: 0 elements of the output 1 axis 2 kind 5..12 shape of x (8, padded with leading 1s) 13..20 shape of index and src
 *   21..28 strides of x 29..36 of index 37..44 of src 45..47 their offsets. The output is contiguous. 56 words;
 *   WGSL rows: 49 elements a line of the index has 50..57 strides of its order in scratch 58 the second half of it. */

#endif
