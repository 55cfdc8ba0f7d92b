/* lower_kir.c - a group of nodes to one kernel: elementwise, row op with prologue and epilogue, epilogue of a
 * matrix product, and the writing part of updates. Reductions are in lower_reduce.c.
 */
#include "lower_group.h"

weft_status wf_lower_begin(wf_emit *e, const wf_cgraph *g, int32_t root, wf_group_code *out, int n_outer, int n_inner,
                         const int64_t *extents)
{
    memset(e, 0, sizeof *e);
    e->g = g;
    e->root = root;
    e->anchor = -1;
    wf_kb_begin(&e->b, g->arena, out, n_outer, n_inner, extents);
    e->b.unshared = g->window_bytes != 0;
    return e->b.status;
}

void wf_lower_store_root(wf_emit *e, const wf_affine *lin, int value, bool covers)
{
    const wf_cnode *r = &e->g->nodes[e->root];
    if (value < 0 || e->b.status != WEFT_OK)
        return;
    int bind = wf_kb_bind(&e->b, WF_SRC_OUT, r->dtype, WF_ACCESS_WRITE, 0);
    wf_kb_store(&e->b, bind, wf_kb_affine(&e->b, lin), value);
    e->b.code->kir.bind[bind].linear = covers;
}

int wf_lower_root_value(wf_emit *e, const wf_affine *lin)
{
    wf_pos pos = wf_pos_of_affine(e, &e->g->nodes[e->root], lin);
    return wf_emit_value(e, e->root, &pos);
}

/* Work groups pay when rows are long and few enough that one invocation each would leave the device
 * idle or read with a large stride between neighbours. */
wf_kstrategy wf_lower_strategy(int64_t rows, int64_t inner)
{
    return inner >= 64 && rows < 16384 ? WF_KSTRAT_GROUP : inner >= 512 ? WF_KSTRAT_GROUP : WF_KSTRAT_THREAD;
}

/* What an anchor yields when there is nothing to fold: 0, 1 for a product, NaN for a mean; a linear layer
 * still adds its bias and applies its activation. */
static int empty_anchor_value(wf_emit *e, const wf_pos *root_pos)
{
    wf_kb *b = &e->b;
    const wf_cnode *a = &e->g->nodes[e->anchor];
    wf_kty t = wf_kty_of_dtype(a->dtype);
    int v = wf_kb_const(b, t, a->op == WF_OP_PROD ? 1 : 0);
    if (a->op == WF_OP_MEAN)
        return wf_kb_op(b, WF_KOP_DIV, t, v, v, -1);
    if (a->op != WF_OP_LINEAR)
        return v;
    wf_affine lin;
    wf_pos_linear(&e->g->nodes[e->root], root_pos, &lin);
    wf_pos at = wf_pos_of_affine(e, a, &lin), p = {.affine = true};
    if (a->attrs.linear.has_bias) {
        int n = wf_emit_coord(e, a, &at, a->rank - 1);
        int bias = wf_emit_at(e, a->src[2], wf_emit_view_index(e, a, &a->in[2].view, &p, 0, n));
        v = bias < 0 ? bias : wf_kb_op(b, WF_KOP_ADD, t, v, bias, -1);
    }
    return v < 0 ? v : wf_emit_activation(b, a->attrs.linear.activation, t, v);
}

static weft_status lower_elementwise(const wf_cgraph *g, int32_t root, bool zero_anchor, wf_group_code *out)
{
    wf_emit e;
    const wf_cnode *r = &g->nodes[root];
    static const int64_t one = 1;
    WF_TRY(wf_lower_begin(&e, g, root, out, r->rank ? r->rank : 1, 0, r->rank ? r->shape : &one));
    wf_kb_stage(&e.b, WF_KSTAGE_OUTER);
    wf_pos pos = wf_pos_axes(r, 0);
    if (zero_anchor) {
        e.anchor = r->anchor >= 0 ? r->anchor : root;
        e.anchor_value = empty_anchor_value(&e, &pos);
    }
    int v = wf_emit_value(&e, root, &pos);
    wf_affine lin;
    wf_pos_linear(r, &pos, &lin);
    wf_lower_store_root(&e, &lin, v, true);
    return wf_kb_finish(&e.b);
}

/* ---- rows ---- */

typedef struct row_kernel {
    wf_emit e;
    int32_t id;
    const wf_cnode *n;
    wf_kty t;       /* f32, or f64 */
    wf_pos pos;     /* of the row op's element, in the loop */
    int inner_axis;
    int64_t len;
} row_kernel;

static int row_x(row_kernel *r)
{
    return wf_emit_input(&r->e, r->id, 0, &r->pos);
}

static int row_op(row_kernel *r, wf_kop op, int a, int b)
{
    return wf_kb_op(&r->e.b, op, r->t, a, b, -1);
}

static int row_acc(row_kernel *r, int stage)
{
    return wf_kb_imm(&r->e.b, WF_KOP_ACC, r->t, -1, stage, 0);
}

static int row_mean(row_kernel *r, int stage)
{
    return row_op(r, WF_KOP_DIV, row_acc(r, stage), wf_kb_const(&r->e.b, r->t, (double)r->len));
}

/* A [C] parameter (input i) at the row's coordinate. */
static int row_param(row_kernel *r, int i)
{
    wf_pos p = {.affine = true};
    p.coord[0].stride[r->inner_axis] = 1;
    int v = wf_emit_input(&r->e, r->id, i, &p);
    wf_kty from = wf_kty_of_dtype(r->e.g->nodes[r->n->src[i]].dtype);
    return v >= 0 && from != r->t ? wf_kb_op(&r->e.b, WF_KOP_CAST, r->t, v, -1, -1) : v;
}

static int row_rstd(row_kernel *r, int stage)
{
    int eps = wf_kb_const(&r->e.b, r->t, r->n->attrs.row.eps);
    return row_op(r, WF_KOP_RSQRT, row_op(r, WF_KOP_ADD, row_mean(r, stage), eps), -1);
}

static int row_affine(row_kernel *r, int v)
{
    int next = 1;
    if (r->n->attrs.row.has_weight)
        v = row_op(r, WF_KOP_MUL, v, row_param(r, next++));
    if (r->n->attrs.row.has_bias)
        v = row_op(r, WF_KOP_ADD, v, row_param(r, next));
    return v;
}

static int emit_softmax(row_kernel *r, bool log)
{
    wf_kb *b = &r->e.b;
    wf_kb_stage(b, WF_KSTAGE_REDUCE);
    wf_kb_acc(b, WF_KROP_MAX, r->t, row_x(r));
    wf_kb_stage(b, WF_KSTAGE_REDUCE);
    wf_kb_acc(b, WF_KROP_SUM, r->t, row_op(r, WF_KOP_EXP, row_op(r, WF_KOP_SUB, row_x(r), row_acc(r, 0)), -1));
    wf_kb_stage(b, WF_KSTAGE_OUTER);
    int s = log ? row_op(r, WF_KOP_LOG, row_acc(r, 1), -1) : row_op(r, WF_KOP_DIV, wf_kb_const(b, r->t, 1.0), row_acc(r, 1));
    wf_kb_stage(b, WF_KSTAGE_MAP);
    int shifted = row_op(r, WF_KOP_SUB, row_x(r), row_acc(r, 0));
    return log ? row_op(r, WF_KOP_SUB, shifted, s) : row_op(r, WF_KOP_MUL, row_op(r, WF_KOP_EXP, shifted, -1), s);
}

static int emit_rms_norm(row_kernel *r)
{
    wf_kb *b = &r->e.b;
    wf_kb_stage(b, WF_KSTAGE_REDUCE);
    int x = row_x(r);
    wf_kb_acc(b, WF_KROP_SUM, r->t, row_op(r, WF_KOP_MUL, x, x));
    wf_kb_stage(b, WF_KSTAGE_OUTER);
    int s = row_rstd(r, 0);
    wf_kb_stage(b, WF_KSTAGE_MAP);
    return row_affine(r, row_op(r, WF_KOP_MUL, row_x(r), s));
}

static int emit_layer_norm(row_kernel *r)
{
    wf_kb *b = &r->e.b;
    wf_kb_stage(b, WF_KSTAGE_REDUCE);
    wf_kb_acc(b, WF_KROP_SUM, r->t, row_x(r));
    wf_kb_stage(b, WF_KSTAGE_OUTER);
    int mean = row_mean(r, 0);
    wf_kb_stage(b, WF_KSTAGE_REDUCE);
    int d = row_op(r, WF_KOP_SUB, row_x(r), mean);
    wf_kb_acc(b, WF_KROP_SUM, r->t, row_op(r, WF_KOP_MUL, d, d));
    wf_kb_stage(b, WF_KSTAGE_OUTER);
    int s = row_rstd(r, 2);
    wf_kb_stage(b, WF_KSTAGE_MAP);
    return row_affine(r, row_op(r, WF_KOP_MUL, row_op(r, WF_KOP_SUB, row_x(r), mean), s));
}

static weft_status lower_row(const wf_cgraph *g, int32_t root, wf_group_code *out)
{
    row_kernel r = {.id = g->nodes[root].anchor};
    r.n = &g->nodes[r.id];
    const wf_cnode *n = r.n;
    int axis = n->attrs.row.axis, n_outer = 0;
    int64_t extents[WF_KIR_MAX_AXES], rows = 1;
    r.pos.affine = true;
    for (int d = 0; d < n->rank; d++)
        if (d != axis) {
            r.pos.coord[d].stride[n_outer] = 1;
            extents[n_outer++] = n->shape[d];
            rows *= n->shape[d];
        }
    if (n_outer == 0)
        extents[n_outer++] = 1;
    r.inner_axis = n_outer;
    r.len = extents[n_outer] = n->shape[axis];
    r.pos.coord[axis].stride[n_outer] = 1;
    wf_pos pos = r.pos;
    WF_TRY(wf_lower_begin(&r.e, g, root, out, n_outer, 1, extents));
    r.pos = pos;
    r.t = wf_kty_of_dtype(n->dtype);
    int v = -1;
    switch (n->op) {
    case WF_OP_SOFTMAX: v = emit_softmax(&r, false); break;
    case WF_OP_LOG_SOFTMAX: v = emit_softmax(&r, true); break;
    case WF_OP_RMS_NORM: v = emit_rms_norm(&r); break;
    default: v = emit_layer_norm(&r); break;
    }
    wf_affine lin;
    wf_pos_linear(n, &r.pos, &lin);
    if (v >= 0 && r.id != root) {
        r.e.anchor = r.id;
        r.e.anchor_value = v;
        v = wf_lower_root_value(&r.e, &lin);
    }
    wf_lower_store_root(&r.e, &lin, v, axis == n->rank - 1);
    out->kir.strategy = (uint8_t)wf_lower_strategy(rows, r.len);
    return wf_kb_finish(&r.e.b);
}

weft_status wf_codegen_group(const wf_cgraph *g, int32_t root, wf_group_code *out)
{
    int32_t a = g->nodes[root].anchor;
    if (a < 0)
        return g->nodes[root].row_axes ? wf_lower_over_rows(g, root, out) : lower_elementwise(g, root, false, out);
    return wf_op_table[g->nodes[a].op].klass == WF_CLASS_REDUCE ? wf_lower_over_rows(g, root, out) : lower_row(g, root, out);
}

weft_status wf_codegen_group_zero_anchor(const wf_cgraph *g, int32_t root, wf_group_code *out)
{
    return lower_elementwise(g, root, true, out);
}

/* ---- matrix epilogues ---- */

weft_status wf_codegen_epilogue(const wf_cgraph *g, int32_t root, int64_t batch, int64_t m, int64_t n, wf_group_code *out)
{
    wf_emit e;
    int32_t a = g->nodes[root].anchor;
    const wf_cnode *anchor = &g->nodes[a];
    int64_t extents[3] = {batch, m, n};
    WF_TRY(wf_lower_begin(&e, g, root, out, 3, 0, extents));
    wf_kb *b = &e.b;
    b->fixed_axes = true;
    wf_kb_stage(b, WF_KSTAGE_OUTER);
    int v = wf_kb_op(b, WF_KOP_IN, WF_KTY_F32, -1, -1, -1);
    if (wf_kty_of_dtype(anchor->dtype) == WF_KTY_F64)
        v = wf_kb_op(b, WF_KOP_CAST, WF_KTY_F64, v, -1, -1);
    if (anchor->op == WF_OP_LINEAR) {
        if (anchor->attrs.linear.has_bias) {
            wf_pos p = {.affine = true};
            p.coord[0].stride[2] = 1;
            int bias = wf_emit_input(&e, a, 2, &p);
            if (bias >= 0)
                v = wf_kb_op(b, WF_KOP_ADD, WF_KTY_F32, v, bias, -1);
        }
        v = wf_emit_activation(b, anchor->attrs.linear.activation, WF_KTY_F32, v);
    }
    wf_affine lin = {.stride = {m * n, n, 1}};
    e.anchor = a;
    e.anchor_value = v;
    if (a != root)
        v = wf_lower_root_value(&e, &lin);
    wf_lower_store_root(&e, &lin, v, true);
    return wf_kb_finish(b);
}

/* ---- updates ---- */

/* Where a SLICE_UPDATE begins on its axis: a tensor is checked, a scalar was, on the host. */
static int start_of(wf_emit *e, const wf_cnode *n, int32_t id)
{
    int axis = n->attrs.index.axis;
    int64_t places = n->shape[axis] - n->in[1].view.shape[axis] + 1;
    wf_pos origin = {.affine = true};
    int start = wf_emit_input(e, id, 2, &origin);
    if (start >= 0 && e->g->nodes[n->src[2]].kind != WF_CK_SCALAR)
        return wf_kb_check(&e->b, start, places, true);
    return start >= 0 && e->b.unshared ? wf_emit_bounded(&e->b, start, places) : start;
}

/* Loop over input `part`, storing through the node's own row-major strides from `at` on the axis. */
static weft_status store_part(const wf_cgraph *g, int32_t id, int part, int64_t at, bool dynamic, wf_group_code *out)
{
    wf_emit e;
    const wf_cnode *n = &g->nodes[id];
    const wf_view *v = &n->in[part].view;
    int64_t extents[WF_KIR_MAX_AXES] = {1};
    for (int d = 0; d < v->rank; d++)
        extents[d] = v->shape[d];
    WF_TRY(wf_lower_begin(&e, g, id, out, v->rank ? v->rank : 1, 0, extents));
    wf_kb *b = &e.b;
    wf_kb_stage(b, WF_KSTAGE_OUTER);
    wf_pos pos = wf_pos_axes(n, 0);
    int value = wf_emit_input(&e, id, part, &pos);
    int64_t strides[WEFT_MAX_RANK], step = 1;
    for (int d = n->rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= n->shape[d];
    }
    int axis = n->attrs.index.axis;
    wf_affine lin = {.offset = dynamic ? 0 : at * strides[axis]};
    for (int d = 0; d < n->rank; d++)
        lin.stride[d] = strides[d];
    int index = wf_kb_affine(b, &lin);
    if (dynamic) {
        int start = start_of(&e, n, id);
        int move = wf_kb_op(b, WF_KOP_MUL, WF_KTY_I32, start, wf_kb_static(b, WF_KTY_I32, (int32_t)strides[axis]), -1);
        index = wf_kb_op(b, WF_KOP_ADD, WF_KTY_I32, index, move, -1);
    }
    if (value >= 0 && index >= 0 && b->status == WEFT_OK) {
        int bind = wf_kb_bind(b, WF_SRC_OUT, n->dtype, WF_ACCESS_WRITE, 0);
        wf_kb_store(b, bind, index, value);
    }
    return wf_kb_finish(b);
}

weft_status wf_codegen_store_part(const wf_cgraph *g, int32_t node, int part, int64_t at, wf_group_code *out)
{
    return store_part(g, node, part, at, g->nodes[node].op == WF_OP_SLICE_UPDATE && part == 1, out);
}

weft_status wf_codegen_merge_part(const wf_cgraph *g, int32_t id, wf_group_code *out)
{
    wf_emit e;
    const wf_cnode *n = &g->nodes[id];
    const wf_view *v = &n->in[1].view;
    wf_kty I = WF_KTY_I32, t = wf_kty_of_dtype(n->dtype);
    int axis = n->attrs.index.axis;
    WF_TRY(wf_lower_begin(&e, g, id, out, n->rank, 0, n->shape));
    wf_kb *b = &e.b;
    wf_kb_stage(b, WF_KSTAGE_OUTER);
    wf_pos pos = wf_pos_axes(n, 0);
    wf_affine lin;
    wf_pos_linear(n, &pos, &lin);
    int away = wf_kb_op(b, WF_KOP_SUB, I, wf_emit_coord(&e, n, &pos, axis), start_of(&e, n, id), -1);
    int inside = wf_kb_op(b, WF_KOP_LT, WF_KTY_BOOL, wf_kb_op(b, WF_KOP_BITCAST, WF_KTY_U32, away, -1, -1),
                          wf_kb_static(b, WF_KTY_U32, (int32_t)v->shape[axis]), -1);
    int at = wf_emit_bounded(b, away, v->shape[axis]);
    int value = wf_emit_at(&e, n->src[1], wf_emit_view_index(&e, n, v, &pos, axis, at));
    if (value >= 0 && b->status == WEFT_OK) {
        int bind = wf_kb_bind(b, WF_SRC_OUT, n->dtype, WF_ACCESS_READ_WRITE, 0);
        int old = wf_kb_imm(b, WF_KOP_LOAD, t, wf_kb_affine(b, &lin), bind, 0);
        wf_kb_store(b, bind, wf_kb_affine(b, &lin), wf_kb_op(b, WF_KOP_SELECT, t, inside, value, old));
    }
    return wf_kb_finish(b);
}

weft_status wf_codegen_copy_input(const wf_cgraph *g, int32_t node, int part, wf_group_code *out)
{
    wf_emit e;
    const wf_cnode *n = &g->nodes[node];
    static const int64_t one = 1;
    WF_TRY(wf_lower_begin(&e, g, node, out, n->rank ? n->rank : 1, 0, n->rank ? n->shape : &one));
    wf_kb_stage(&e.b, WF_KSTAGE_OUTER);
    wf_pos pos = wf_pos_axes(n, 0);
    wf_affine lin;
    int v = wf_emit_input(&e, node, part, &pos);
    wf_pos_linear(n, &pos, &lin);
    wf_lower_store_root(&e, &lin, v, true);
    return wf_kb_finish(&e.b);
}
