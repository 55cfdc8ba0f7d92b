/* kbuild.h - builds kernel IR: instructions with value numbering, index expressions, axis merging. */
#ifndef WF_KBUILD_H
#define WF_KBUILD_H

#include "group.h"

/* An affine function of the loop coordinates. */
typedef struct wf_affine {
    int64_t offset;
    int64_t stride[WF_KIR_MAX_AXES];
} wf_affine;

typedef struct wf_kb {
    wf_group_code *code;
    int n_outer, n_inner;            /* axes before merging; outer first */
    int64_t extent[WF_KIR_MAX_AXES];
    bool unshared;                   /* every AFFINE and UNRAVEL serves one use, so that its offset can be moved alone */
    bool fixed_axes;                 /* epilogues: keep the axes as given */
    int stage;                       /* index of the open stage, -1: none */
    /* per instruction: words it needs in the static block (AFFINE: by affine[]) */
    wf_affine *affine;               /* of AFFINE instructions, by instruction */
    int32_t (*words)[2 * WEFT_MAX_RANK + 2];
    uint8_t *n_words;
    weft_status status;              /* first failure; later calls do nothing */
    wf_arena *arena;
} wf_kb;

void wf_kb_begin(wf_kb *b, wf_arena *arena, wf_group_code *code, int n_outer, int n_inner, const int64_t *extents);
void wf_kb_stage(wf_kb *b, wf_kstage_kind kind);
int wf_kb_bind(wf_kb *b, int32_t src, weft_dtype dtype, uint8_t access, uint32_t layout);
int wf_kb_bind_apart(wf_kb *b, int32_t src, weft_dtype dtype, uint8_t access, uint32_t layout); /* never an earlier one */

/* Each returns the instruction number, or -1 after a failure. */
int wf_kb_op(wf_kb *b, wf_kop op, wf_kty type, int a, int bb, int c);
int wf_kb_imm(wf_kb *b, wf_kop op, wf_kty type, int a, int slot, uint64_t imm);
int wf_kb_op_imm(wf_kb *b, wf_kop op, wf_kty type, int a, int bb, uint64_t imm); /* two operands and an immediate */
int wf_kb_const(wf_kb *b, wf_kty type, double value);
int wf_kb_static(wf_kb *b, wf_kty type, int32_t word);
int wf_kb_step(wf_kb *b, wf_kty type, int32_t step_word);
int wf_kb_affine(wf_kb *b, const wf_affine *a);
int wf_kb_unravel(wf_kb *b, int index, int rank, const int64_t *shape, int64_t offset, const int64_t *strides);
int wf_kb_check(wf_kb *b, int index, int64_t extent, bool strict);
void wf_kb_store(wf_kb *b, int bind, int index, int value);
void wf_kb_acc(wf_kb *b, wf_krop rop, wf_kty type, int value);

/* Merge axes, lay the static block out, fill code. */
weft_status wf_kb_finish(wf_kb *b);

#endif
