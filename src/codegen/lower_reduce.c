/* lower_reduce.c - a group with reductions over the same axes of one shape to one kernel.
 *
 * Reductions that do not need each other share a stage; one that needs another's result, as a variance needs
 * the mean, comes in a stage behind it, so a row is read while it still lies in a cache. Then either the
 * root has a value for each row (its anchor is a reduction), or one for each element, in a MAP stage.
 */
#include "lower_group.h"

typedef struct reduce_row {
    uint16_t op;
    uint8_t rop;
} reduce_row;
static const reduce_row reduce_rows[] = {
    {WF_OP_SUM, WF_KROP_SUM}, {WF_OP_MEAN, WF_KROP_SUM}, {WF_OP_PROD, WF_KROP_PROD}, {WF_OP_MAX, WF_KROP_MAX},
    {WF_OP_MIN, WF_KROP_MIN}, {WF_OP_ARGMAX, WF_KROP_ARGMAX}, {WF_OP_ARGMIN, WF_KROP_ARGMIN},
};

static wf_krop fold_of(uint16_t op)
{
    for (size_t i = 0; i < WF_COUNT(reduce_rows); i++)
        if (reduce_rows[i].op == op)
            return (wf_krop)reduce_rows[i].rop;
    return WF_KROP_SUM;
}

typedef struct rows {
    wf_emit e;
    int rank, n_outer, n_inner;
    int64_t extents[WF_KIR_MAX_AXES];
    int64_t count, inner; /* rows; elements of one */
    wf_pos point;         /* the element of the loop */
    bool last;            /* the reduced axes are the last */
} rows;

/* Loop axes for a shape, the reduced ones inside. */
static weft_status lay_axes(rows *r, const wf_cgraph *g, int32_t root, int rank, const int64_t *shape, uint32_t axes, wf_group_code *out)
{
    int axis_of[WEFT_MAX_RANK];
    r->rank = rank;
    r->count = r->inner = 1;
    r->last = true;
    for (int d = 0; d < rank; d++)
        if (!(axes >> d & 1)) {
            axis_of[d] = r->n_outer;
            r->extents[r->n_outer++] = shape[d];
            r->count *= shape[d];
            r->last &= shape[d] == 1 || (axes & ((1u << d) - 1)) == 0;
        }
    if (r->n_outer == 0)
        r->extents[r->n_outer++] = 1;
    for (int d = 0; d < rank; d++)
        if (axes >> d & 1) {
            if (r->n_outer + r->n_inner == WF_KIR_MAX_AXES) /* rank 8 with all axes reduced */
                return wf_fail(WEFT_E_UNSUPPORTED, "codegen: reduction over %d axes", rank);
            axis_of[d] = r->n_outer + r->n_inner;
            r->extents[r->n_outer + r->n_inner++] = shape[d];
            r->inner *= shape[d];
        }
    if (r->n_inner == 0) { /* no axis to reduce: one point */
        if (r->n_outer == WF_KIR_MAX_AXES)
            return wf_fail(WEFT_E_UNSUPPORTED, "codegen: reduction over no axis of a rank-8 tensor");
        r->extents[r->n_outer + r->n_inner++] = 1;
    }
    WF_TRY(wf_lower_begin(&r->e, g, root, out, r->n_outer, r->n_inner, r->extents));
    r->point = (wf_pos){.affine = true};
    for (int d = 0; d < rank; d++)
        r->point.coord[d].stride[axis_of[d]] = 1;
    return WEFT_OK;
}

static wf_kty folded_type(const wf_cgraph *g, const wf_cnode *n)
{
    wf_kty from = wf_kty_of_dtype(g->nodes[n->src[0]].dtype);
    if (n->op == WF_OP_ARGMAX || n->op == WF_OP_ARGMIN)
        return from == WF_KTY_BOOL ? WF_KTY_I32 : from;
    return wf_kty_of_dtype(n->dtype);
}

/* What reduction `id` folds, in the open REDUCE stage. */
static void fold(rows *r, int32_t id)
{
    wf_kb *b = &r->e.b;
    const wf_cnode *n = &r->e.g->nodes[id];
    wf_kty type = folded_type(r->e.g, n);
    int x = wf_emit_input(&r->e, id, 0, &r->point);
    if (x >= 0 && wf_kty_of_dtype(r->e.g->nodes[n->src[0]].dtype) != type)
        x = wf_kb_op(b, WF_KOP_CAST, type, x, -1, -1);
    if (x >= 0)
        wf_kb_acc(b, fold_of(n->op), type, x);
}

/* The value of accumulator `number` of stage `stage`, which folded reduction `id`. */
static int folded(rows *r, int32_t id, int stage, int number)
{
    wf_kb *b = &r->e.b;
    const wf_cnode *n = &r->e.g->nodes[id];
    bool arg = n->op == WF_OP_ARGMAX || n->op == WF_OP_ARGMIN;
    wf_kty t = arg ? WF_KTY_I32 : folded_type(r->e.g, n);
    int v = wf_kb_imm(b, WF_KOP_ACC, t, -1, stage, (uint64_t)number);
    return n->op == WF_OP_MEAN ? wf_kb_op(b, WF_KOP_DIV, t, v, wf_kb_const(b, t, (double)r->inner), -1) : v;
}

/* The group's reductions of one height: a REDUCE stage, and their values in an OUTER one. */
static void lower_height(rows *r, int height)
{
    wf_emit *e = &r->e;
    const wf_cnode *root = &e->g->nodes[e->root];
    int32_t id[WF_MAX_AT_HEIGHT];
    int n = 0;
    if (height == 1 && root->anchor >= 0)
        id[n++] = root->anchor;
    for (int32_t i = root->first_row; i >= 0; i = e->g->nodes[i].next_row)
        if (e->g->nodes[i].height == height && n < WF_MAX_AT_HEIGHT)
            id[n++] = i;
    if (n == 0)
        return;
    wf_kb_stage(&e->b, WF_KSTAGE_REDUCE);
    for (int i = 0; i < n; i++)
        fold(r, id[i]);
    int stage = e->b.stage;
    wf_kb_stage(&e->b, WF_KSTAGE_OUTER);
    for (int i = 0; i < n; i++) {
        e->row_value[e->n_rows] = folded(r, id[i], stage, i);
        e->row[e->n_rows++] = id[i];
    }
}

static int top_height(const wf_cgraph *g, int32_t root)
{
    int height = 1;
    for (int32_t i = g->nodes[root].first_row; i >= 0; i = g->nodes[i].next_row)
        height = WF_MAX(height, g->nodes[i].height);
    return height;
}

weft_status wf_lower_over_rows(const wf_cgraph *g, int32_t root, wf_group_code *out)
{
    rows r = {.n_outer = 0};
    const wf_cnode *n = &g->nodes[root];
    const wf_cnode *a = n->anchor >= 0 ? &g->nodes[n->anchor] : NULL;
    if (a)
        WF_TRY(lay_axes(&r, g, root, a->in[0].view.rank, a->in[0].view.shape, a->attrs.reduce.axes, out));
    else
        WF_TRY(lay_axes(&r, g, root, n->rank, n->shape, n->row_axes, out));
    wf_emit *e = &r.e;
    for (int height = top_height(g, root); height > 0; height--)
        lower_height(&r, height);
    wf_affine lin = {0};
    if (a) {
        int64_t step = 1;
        for (int k = r.n_outer - 1; k >= 0; k--) {
            lin.stride[k] = step;
            step *= r.extents[k];
        }
        wf_lower_store_root(e, &lin, wf_lower_root_value(e, &lin), true);
    } else {
        wf_kb_stage(&e->b, WF_KSTAGE_MAP);
        wf_pos_linear(n, &r.point, &lin);
        wf_lower_store_root(e, &lin, wf_emit_value(e, root, &r.point), r.last);
    }
    out->kir.strategy = (uint8_t)wf_lower_strategy(r.count, r.inner);
    return wf_kb_finish(&e->b);
}
