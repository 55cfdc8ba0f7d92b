/* emit.h - the value of a node at a position of the loop nest, as instructions. */
#ifndef WF_EMIT_H
#define WF_EMIT_H

#include "kbuild.h"

/* Where in a node's shape the value is wanted: a coordinate per axis, affine in the loop, or one
 * row-major index computed by an instruction. */
typedef struct wf_pos {
    bool affine;
    int lin;                       /* !affine */
    wf_affine coord[WEFT_MAX_RANK];
} wf_pos;

typedef struct wf_emit {
    wf_kb b;
    const wf_cgraph *g;
    int32_t root;
    int32_t anchor;   /* node whose value is `anchor_value` (an accumulator, IN), -1: none */
    int anchor_value;
    int n_rows;       /* reductions of the group whose values are known */
    int32_t row[WF_MAX_HEIGHT * WF_MAX_AT_HEIGHT];
    int row_value[WF_MAX_HEIGHT * WF_MAX_AT_HEIGHT];
    int depth;
    struct wf_emit_memo *memo; /* values already emitted, by node, position and stage */
} wf_emit;

/* The value of node n (compute type of its dtype), or -1 after a failure. */
int wf_emit_value(wf_emit *e, int32_t n, const wf_pos *pos);
/* The value of input i of node n, where n is at pos. */
int wf_emit_input(wf_emit *e, int32_t n, int i, const wf_pos *pos);
/* Loop axes from `axis` on are the coordinates of the node, in order. */
wf_pos wf_pos_axes(const wf_cnode *n, int axis);
/* The position in node n of a row-major index that is affine in the loop. */
wf_pos wf_pos_of_affine(wf_emit *e, const wf_cnode *n, const wf_affine *lin);
/* Row-major index of a position: affine when possible. */
bool wf_pos_linear(const wf_cnode *n, const wf_pos *pos, wf_affine *lin);
int wf_pos_linear_value(wf_emit *e, const wf_cnode *n, const wf_pos *pos);
int wf_emit_activation(wf_kb *b, weft_activation act, wf_kty t, int x);

/* emit_indexed.c */
int wf_emit_indexed(wf_emit *e, int32_t n, const wf_pos *pos);
/* emit_random.c */
int wf_emit_random(wf_emit *e, int32_t n, const wf_pos *pos);
/* Coordinate of pos on an axis of n. */
int wf_emit_coord(wf_emit *e, const wf_cnode *n, const wf_pos *pos, int axis);
/* Element index through an input's view when coordinates are given as: `pos` for the view's axes, except
 * that `axis` (-1: none) takes the value `dyn`. */
int wf_emit_bounded(wf_kb *b, int v, int64_t extent); /* v held in 0 .. extent - 1 */
int wf_emit_view_index(wf_emit *e, const wf_cnode *n, const wf_view *v, const wf_pos *pos, int axis, int dyn);
/* The value of node p at element index `index` of its row-major shape. */
int wf_emit_at(wf_emit *e, int32_t p, int index);

#endif
