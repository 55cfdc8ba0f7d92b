/* kir_walk.h - the list that kir_walk.c makes and kir_walk_run.c runs. */
#ifndef WF_KIR_WALK_H
#define WF_KIR_WALK_H

#include "kir_exec.h"

enum {
    WALK_MAX_OPS = 64,
    WALK_MAX_ONES = 32,
    WALK_PREFETCH_POINTS = 1 << 20 /* smaller inputs may lie in a cache already */
};

typedef enum walk_kind { OP_VEC1, OP_VEC2, OP_VEC3, OP_STREAM, OP_FILL4, OP_FILL8, OP_IOTA, OP_STRIDED, OP_BLOCKS, OP_FOLD, OP_DOT,
    OP_SQUARES, OP_EXP_SUM, OP_STANDARD, OP_PREFETCH } walk_kind;

/* A pointer that moves evenly. */
typedef struct walk_ptr {
    char *at;
    ptrdiff_t add;  /* bytes a block */
    ptrdiff_t over; /* bytes from the end of a row to the start of the next */
    int16_t value;  /* >= 0: for each row it is where this value lies then */
} walk_ptr;

typedef struct walk_op {
    uint8_t kind;
    bool single; /* one element, not a block */
    union {
        wf_vec1 f1;
        wf_vec2 f2;
        wf_vec3 f3;
        void (*strided)(void *d, const void *a, int64_t stride, int64_t n);
        void (*dequantise)(float *d, const void *blocks, int64_t first, int64_t n);
    };
    walk_ptr d, a, b, c;
    walk_ptr e, f; /* STANDARD: factors and what is added */
    int64_t first, add_first, over_first; /* IOTA: value; BLOCKS: element */
    int64_t stride;                       /* IOTA, STRIDED; STREAM, PREFETCH: bytes of an element */
    kx_fold fold;
} walk_op;

struct kx_walk {
    kx_ctx *c;
    int stage, axis; /* -1: no axis, one block */
    int64_t step;    /* of the axis, a block */
    int64_t n_blocks, last_cols; /* elements of the last block */
    int64_t tile;    /* number of the first inner tile */
    int64_t rows;    /* that the list will run for, this one included: it moves along the last outer axis */
    bool replays;    /* all that is read and written moves evenly from row to row */
    int n_ops, n_ones;
    walk_op op[WALK_MAX_OPS];
    const kx_step *one[WALK_MAX_ONES]; /* single values to compute before each row */
    ptrdiff_t add[WF_KIR_MAX_INSTR];   /* bytes a block moves the value's pointer, */
    ptrdiff_t over[WF_KIR_MAX_INSTR];  /* bytes a row moves it */
    int64_t move[WF_KIR_MAX_INSTR];    /* elements a block moves an index form */
    int16_t made[WF_KIR_MAX_INSTR];    /* the op that makes a value, -1: none */
    bool constant[WF_KIR_MAX_INSTR];   /* one of `one` */
};

/* False: the stage does not fit, nothing was done. */
bool wf_kx_walk_make(kx_walk *w, kx_ctx *c, int stage, int axis, int64_t step, int64_t end, int64_t tile, int64_t rows);

#endif
