/* kir_exec.h - inside the block interpreter of kernel IR.
 *
 * A run covers its points in tiles of rows x cols elements along two axes, p and q (either may be an
 * outer or an inner axis; p may be absent). For each tile every instruction is one vector loop, so an
 * operand stays in the first-level cache while the whole body runs over it.
 *
 *   kir_plan.c  once a program: lifetimes of values, block slots
 *   kir_tile.c  once a run: which axes make the tile
 *   kir_bind.c  once a run: how each value varies over the tile (class), how often it changes (level), which
 *               loop computes it (step)
 *   kir_step.c  once a tile: the steps
 *   kir_walk.c  a stage along one axis, where its steps allow: addresses once, then block after block
 *   kir_walk_run.c  running that
 *   kir_fold.c  accumulators
 *   kir_exec.c  the loops around them, and the threads
 *
 * Everything that decides the order of arithmetic (tile shape, split of long reductions) depends on
 * extents and strides only, so results do not depend on the number of threads.
 */
#ifndef WF_KIR_EXEC_H
#define WF_KIR_EXEC_H

#include "cpu.h"
#include "vec_ops.h"

enum {
    KX_BLOCK = 1024,         /* elements of a tile: a few f32 blocks fit the first-level cache */
    KX_BLOCK_ROW = 1024,    /* columns of a tile of a row */
    KX_BLOCK_ROW_BARE = 2048, /* the same where loads are folded as they are */
    KX_BLOCK_COLS = 2048,    /* columns of a tile that folds along its rows */
    KX_BLOCK_WALK = 128,     /* columns of a tile of a memory-bound elementwise kernel, */
    KX_WALK_COLS_MIN = 4096, /* and how many are walked together: making the list costs as much as 400 elements, */
    KX_WALK_COLS_MAX = 65536,
    KX_WALK_PARTS = 64,      /* but threads want parts */
    KX_BLOCK_MOVE = 4096,    /* elements of a tile of short rows that are moved as they are: nothing is kept of them, */
    KX_MOVE_AXIS = 2048,     /* and rows below this that an index picks share a tile, so that one is asked for behind the other */
    KX_KEEP_BYTES = 128 << 10, /* of a row's values that a later stage uses again: a part of the second-level cache */
    KX_MAX_AXES = WF_KIR_MAX_AXES,
    KX_PAGE = 4096,       /* slots of whole pages get */
    KX_PAGE_PAD = 192,    /* this many bytes more */
    KX_TEMPS = 5,         /* slots after the values': three operands, raw storage, indices */
    KX_MAX_ACCS = WF_KIR_MAX_STAGES * WF_KIR_MAX_ACC
};

/* How a value varies over a tile. */
enum { KX_S = 0, KX_P = 1, KX_Q = 2, KX_F = 3 };

/* What is known when the program is created, for each instruction. */
typedef struct kx_info {
    uint8_t stage, esize; /* esize: bytes of an element in a block, 4 or 8 */
    uint8_t weight;       /* AFFINE: what its strides count in the choice of axes */
    uint8_t uses;         /* instructions and accumulators that read the value, up to 255 */
    int16_t slot;         /* block slot */
} kx_info;

struct wf_cpu_kernel {
    wf_kir *k; /* only n_instr instructions are stored */
    const wf_vec_ops *ops;
    int n_slots, slot_esize;
    int acc_first[WF_KIR_MAX_STAGES]; /* number of the stage's first accumulator */
    int n_accs;
    int n_row_stages; /* REDUCE and MAP */
    bool bare_rows;   /* no loop between a load and its fold */
    bool moves;       /* elementwise, and what is loaded is stored as it is, */
    bool picks_rows;  /* from where an index says */
    bool has_twins;   /* some costly value is computed in two row stages */
    int16_t *twin;    /* instruction of an earlier row stage of the same form, -1: none */
    kx_info *info;
};

typedef enum kx_kind {
    KX_CONST, KX_STATIC, KX_STEP, KX_AFFINE, KX_AXIS, KX_SUM /* of index forms */, KX_UNRAVEL, KX_LOAD, KX_LOAD_GATHER,
    KX_ROWS /* an index of rows, see by_row */, KX_LOAD_ROWS, KX_MOVED /* by its store */, KX_STORE_MOVED,
    KX_ACC, KX_IN, KX_STORE, KX_STORE_SCATTER, KX_CHECK, KX_VEC1, KX_VEC2, KX_VEC3
} kx_kind;

/* A value in this run. */
typedef struct kx_val {
    uint8_t cls, level; /* level: changes 0 never, 1 with the outer tile, 2 with the inner tile */
    uint8_t linear;     /* I32 that is base + r * sr + c * sc over the tile */
    uint8_t need;       /* somebody reads its elements */
    uint8_t by_row;     /* I32 that is a linear value, contiguous along a row, plus one that differs from row to row */
    int32_t sr, sc;
} kx_val;

typedef struct kx_step {
    uint8_t kind, cls;
    uint8_t expand; /* bit o: operand o is brought to this class first */
    uint8_t nt;     /* STORE: past the caches */
    int16_t i;      /* instruction */
    union {
        wf_vec1 f1;
        wf_vec2 f2;
        wf_vec3 f3;
    };
} kx_step;

/* Tiles along some axes, in row-major order. */
typedef struct kx_space {
    int n;
    uint8_t axis[KX_MAX_AXES];
    int64_t step[KX_MAX_AXES], count[KX_MAX_AXES];
    int64_t total;
} kx_space;

typedef struct kx_run {
    const wf_cpu_kernel *kernel;
    const wf_kir *k;
    const wf_cpu_run *run;
    void *const *ptr;
    const uint64_t *size;
    const int32_t *statics;
    int n_axes, p, q;             /* tile axes, -1: none */
    int64_t extent[KX_MAX_AXES];
    int64_t tile_rows, tile_cols; /* largest */
    uint8_t tile_class, outer_class; /* bits of the tile axes there are; of those that are outer */
    kx_space outer, inner;
    int64_t position[KX_MAX_AXES]; /* row-major weight of an inner axis */
    int64_t block_elems, acc_elems;
    size_t slot_bytes, acc_bytes, ws_bytes;
    size_t lists_at; /* in the work space: lists kept from row to row, 0: none */
    int64_t points; /* outer times inner */
    int64_t walk_cols; /* elementwise kernels that are walked: columns of an outer tile; 0: not */
    bool walk[WF_KIR_MAX_STAGES];
    bool past_caches;  /* some store is */
    int8_t longest;    /* the walked row stage that computes longest, -1: none */
    int64_t chunks;    /* of a row, for threads; 0: rows are not cut */
    int n_keep;        /* values kept for a row: number + 1 in `keep` of the value, `reuse` of its twin */
    uint8_t keep[WF_KIR_MAX_INSTR], reuse[WF_KIR_MAX_INSTR];
    bool dead[WF_KIR_MAX_INSTR]; /* nobody needs the value since its user is kept */
    /* steps of stage s and level l: step[first[s][l]] .. step[first[s][l + 1]] */
    uint16_t first[WF_KIR_MAX_STAGES][4];
    kx_val val[WF_KIR_MAX_INSTR];
    kx_step step[WF_KIR_MAX_INSTR];
} kx_run;

typedef struct kx_walk kx_walk;

/* One thread inside a run. */
typedef struct kx_ctx {
    const kx_run *x;
    char *ws;   /* slots, then accumulators */
    bool stores;
    int64_t rows, cols;
    int64_t n[4]; /* elements of a class in this tile */
    int64_t coord[KX_MAX_AXES];
    const float *in; /* epilogue: the tile handed in, row stride in_ld */
    int64_t in_ld;
    int64_t folded_rows; /* since the last flush of column sums */
    kx_walk *lists;      /* n_stages lists that move from row to row, NULL: none */
    bool kept;           /* the kept values of this row are there */
    int64_t base[WF_KIR_MAX_INSTR];
    void *at[WF_KIR_MAX_INSTR];
    uint64_t scalar[WF_KIR_MAX_INSTR];
} kx_ctx;

/* kir_plan.c */
bool wf_kx_costly(const wf_cpu_kernel *k, int i);
/* kir_tile.c */
int32_t wf_kx_stride(const kx_run *x, int i, int axis); /* of an AFFINE or AXIS instruction */
void wf_kx_choose(kx_run *x);
void wf_kx_set_tile(kx_run *x, int p, int q, int64_t rows, int64_t cols);
void wf_kx_layout(kx_run *x); /* spaces, sizes: after the tile is set */
/* kir_bind.c */
void wf_kx_bind(kx_run *x, const wf_cpu_kernel *kernel, const wf_cpu_run *run);
/* An epilogue: axes 1 and 2 make the tile, of at most these sizes. */
void wf_kx_bind_tile(kx_run *x, const wf_cpu_kernel *kernel, const wf_cpu_run *run, uint32_t bind_base, uint32_t static_base,
                     int64_t rows, int64_t cols);
/* kir_step.c */
void wf_kx_steps(kx_ctx *c, int stage, int level);
void *wf_kx_expand(kx_ctx *c, int temp, int value, uint8_t cls); /* value's elements in class cls */
void wf_kx_one(kx_ctx *c, const kx_step *s);
/* An index form over a class of the tile, as rows x cols with merged rows where they continue. */
typedef struct kx_form {
    int64_t base, rows, cols, sr, sc;
} kx_form;
kx_form wf_kx_form(const kx_ctx *c, int i, uint8_t cls);
bool wf_kx_inside(const kx_form *f, int64_t limit); /* all indices in 0 .. limit-1 */
/* Where each row of a tile begins in a binding: base + r * step + at[r]. */
typedef struct kx_rows {
    int64_t base, step;
    const int32_t *at; /* NULL: none */
} kx_rows;
/* What a LOAD or STORE reaches. */
typedef struct kx_memory {
    char *ptr;
    int64_t limit; /* elements */
    weft_dtype dtype;
    int log2_bytes; /* of an element; -1 for block types */
    bool direct;    /* storage is the compute type and never written: use it in place */
} kx_memory;
kx_memory wf_kx_memory(const kx_ctx *c, const wf_kinstr *in);
/* kir_walk.c */
bool wf_kx_walk_fits(const kx_run *x, int stage);
/* From the tile at c->coord along `axis` in steps up to coordinate `end`; `tile` is the number of the first
 * inner tile. False: nothing was done, the tiles need wf_kx_steps. */
bool wf_kx_walk(kx_ctx *c, int stage, int axis, int64_t step, int64_t end, int64_t tile);
/* kir_walk_run.c: whole rows one after another along the last outer axis keep their lists, which saves a tenth of a
 * softmax of rows of 4096. */
void wf_kx_rows_place(kx_run *x); /* sets lists_at where rows are of this kind */
/* The stage of the row at c->coord, the first of `rows`; false: nothing was done. */
bool wf_kx_rows_start(kx_ctx *c, int stage, int64_t rows);
bool wf_kx_rows_replay(const kx_ctx *c); /* after all stages were started: may the next row follow? */
void wf_kx_rows_next(kx_ctx *c, int stage, bool last);
/* kir_fold.c */
bool wf_kx_folds_columns(const kx_run *x); /* does a tile fold along its columns, each row to one number? */
void wf_kx_acc_start(kx_ctx *c, int stage);
void wf_kx_acc_fold(kx_ctx *c, int stage);
void wf_kx_acc_folded(kx_ctx *c, int stage, int64_t rows);         /* counts rows; flushes now and then */
void wf_kx_acc_finish(kx_ctx *c, int stage);                       /* state to results */
void wf_kx_acc_combine(kx_ctx *c, int stage, const char *partial); /* fold another thread's state in */
char *wf_kx_acc_state(kx_ctx *c, int stage, size_t *size_bytes);   /* all of a stage's state, contiguous */
void *wf_kx_acc_result(kx_ctx *c, int stage, int acc);
/* The fold of one accumulator, one block after another. */
typedef struct kx_fold {
    wf_fold_row row;   /* one of the four */
    wf_fold_cols cols;
    wf_arg_row arg_row;
    wf_arg_cols arg_cols;
    void *value;
    int32_t *index;
    int32_t pos, add_pos, step;
} kx_fold;
void wf_kx_fold_of(kx_ctx *c, int stage, int acc, kx_fold *out);
void wf_kx_fold_block(kx_fold *f, const void *v, int64_t n);

static inline char *wf_kx_slot(const kx_ctx *c, int slot) { return c->ws + (size_t)slot * c->x->slot_bytes; }

/* The place of kept value `number` for an inner tile. */
static inline char *wf_kx_kept(const kx_ctx *c, int number, int64_t tile)
{
    const kx_run *x = c->x;
    size_t before = (size_t)(x->kernel->n_slots + KX_TEMPS) * x->slot_bytes + (size_t)x->kernel->n_accs * 3 * x->acc_bytes;
    return c->ws + before + (size_t)(number * x->inner.total + tile) * x->slot_bytes;
}

static inline void wf_kx_dims(kx_ctx *c)
{
    const kx_run *x = c->x;
    c->rows = x->p < 0 ? 1 : WF_MIN(x->tile_rows, x->extent[x->p] - c->coord[x->p]);
    c->cols = x->q < 0 ? 1 : WF_MIN(x->tile_cols, x->extent[x->q] - c->coord[x->q]);
    c->n[KX_S] = 1;
    c->n[KX_P] = c->rows;
    c->n[KX_Q] = c->cols;
    c->n[KX_F] = c->rows * c->cols;
}

#endif
