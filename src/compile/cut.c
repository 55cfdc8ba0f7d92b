/* cut.c - operations of hand-written kernels on more than a binding holds, as several on less.
 *
 * Scans, sorts, top-k and attention are cut along an axis whose places do not meet (other lines; batches, then heads of
 * keys), each part a node of its own, and the results joined. A matrix product's operand that lies across, so that one row
 * of it spans the whole, is copied to lie along the product's long axis: then lowering cuts it. What no axis helps stays
 * as it is, and lowering says what it needs. Reductions are cut in cgraph.c, generated kernels when they are lowered.
 */
#include "compile.h"

typedef struct cutter {
    wf_compile_state *s;
    int32_t topo;
    int n_new;
} cutter;

static uint64_t limit_of(const cutter *t)
{
    return t->s->env->dev->caps.max_binding_bytes / 256 * 256;
}

static uint64_t touched(const cutter *t, const wf_cnode *c, int i)
{
    int64_t lo, hi;
    const wf_cnode *p = &t->s->g.nodes[c->src[i]];
    return wf_view_extent(&c->in[i].view, &lo, &hi) ? wf_dtype_bytes(p->dtype, hi - lo + 1) + 256 : 0;
}

/* Operands and result fit; sorting keeps a few words an element beside them. */
static bool fits(const cutter *t, const wf_cnode *c)
{
    uint64_t words = c->op == WF_OP_SORT || c->op == WF_OP_TOPK ? 4 : 1;
    if (wf_dtype_bytes(c->dtype, c->numel) > limit_of(t) || (words > 1 && touched(t, c, 0) * words > limit_of(t)))
        return false;
    for (int i = 0; i < c->n_in; i++)
        if (touched(t, c, i) > limit_of(t))
            return false;
    return true;
}

static weft_status append(cutter *t, const wf_cnode *c, int32_t *id)
{
    if (t->n_new == WF_CUT_NODES)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: more than %d parts of the device's largest binding (%llu bytes)", wf_op_table[c->op].name,
                       WF_CUT_NODES, (unsigned long long)limit_of(t));
    t->n_new++;
    *id = t->s->g.n;
    t->s->order_of[t->s->g.n] = t->topo;
    t->s->g.nodes[t->s->g.n++] = *c;
    return WEFT_OK;
}

static weft_status inputs(cutter *t, wf_cnode *c, int n)
{
    wf_value *in = wf_arena_alloc(&t->s->scratch, sizeof *in * (size_t)n);
    int32_t *src = wf_arena_alloc(&t->s->scratch, sizeof *src * (size_t)n);
    if (!in || !src)
        return wf_fail_oom(sizeof *in * (size_t)n);
    for (int i = 0; i < n && i < c->n_in; i++) {
        in[i] = c->in[i];
        src[i] = c->src[i];
    }
    c->in = in;
    c->src = src;
    c->n_in = (uint8_t)n;
    return WEFT_OK;
}

/* ---- along which axis ---- */

/* How operand i goes along with cut axis `axis`: its own axis (-1: whole) and places a step. */
typedef struct along {
    int axis;
    int64_t step;
} along;

static along along_of(const wf_cnode *c, int axis, int i)
{
    const wf_view *v = &c->in[i].view;
    if (c->op != WF_OP_SDPA)
        return (along){axis, 1};
    int64_t group = c->in[1].view.shape[1] ? c->in[0].view.shape[1] / c->in[1].view.shape[1] : 1;
    if (i == 1 || i == 2)
        return (along){axis, 1};
    if (v->rank == 4)
        return v->shape[axis] > 1 || c->in[0].view.shape[axis] == 1 ? (along){axis, axis == 1 ? group : 1} : (along){-1, 0};
    return axis == 1 && v->rank == 1 ? (along){0, group} : (along){-1, 0}; /* slopes and sinks have one a head of q */
}

/* Steps along an axis, 0: it cannot be cut. */
static int64_t steps_of(const wf_cnode *c, int axis)
{
    if (c->op == WF_OP_SDPA)
        return axis < 2 ? c->in[1].view.shape[axis] : 0;
    int line = c->op == WF_OP_TOPK ? c->rank - 1 : c->attrs.line.axis;
    return axis == line ? 0 : c->shape[axis];
}

static weft_status part_of(cutter *t, const wf_cnode *c, int axis, int64_t from, int64_t n, wf_cnode *out)
{
    *out = *c;
    WF_TRY(inputs(t, out, c->n_in));
    wf_value *in = (wf_value *)out->in;
    int out_axis = c->op == WF_OP_SDPA && axis == 1 ? 2 : axis;
    int64_t steps = steps_of(c, axis);
    for (int i = 0; i < c->n_in; i++) {
        along a = along_of(c, axis, i);
        if (a.axis < 0)
            continue;
        in[i].view.offset += from * a.step * in[i].view.strides[a.axis];
        in[i].view.shape[a.axis] = n * a.step;
    }
    out->numel = c->numel / c->shape[out_axis];
    out->shape[out_axis] = c->shape[out_axis] / steps * n;
    out->numel *= out->shape[out_axis];
    return WEFT_OK;
}

/* The first axis of which a part fits, outermost first, in the longest parts that halving finds; else the first that can
 * be cut at all, to be cut again inside; -1: none. */
static weft_status choose_axis(cutter *t, const wf_cnode *c, int *axis, int64_t *len)
{
    *axis = -1;
    *len = 0;
    for (int a = 0; a < c->rank && a < (c->op == WF_OP_SDPA ? 2 : WEFT_MAX_RANK); a++) {
        int64_t steps = steps_of(c, a), n = steps;
        wf_cnode part;
        if (steps < 2)
            continue;
        do {
            n = (n + 1) / 2;
            WF_TRY(part_of(t, c, a, 0, n, &part));
        } while (n > 1 && !fits(t, &part));
        bool fit = fits(t, &part);
        if (*axis < 0 || fit) {
            *axis = a;
            *len = n;
        }
        if (fit)
            break;
    }
    return WEFT_OK;
}

/* ---- parts and their join ---- */

enum { MAX_JOINED = 200 };

static weft_status cut(cutter *t, wf_cnode *c, int depth)
{
    int axis;
    int64_t len;
    if (fits(t, c) || depth == WEFT_MAX_RANK)
        return WEFT_OK;
    WF_TRY(choose_axis(t, c, &axis, &len));
    if (axis < 0)
        return WEFT_OK;
    int64_t steps = steps_of(c, axis), parts = (steps + len - 1) / len;
    if (parts > MAX_JOINED) {
        parts = MAX_JOINED;
        len = (steps + parts - 1) / parts;
        parts = (steps + len - 1) / len;
    }
    wf_cnode joined = *c;
    joined.op = WF_OP_CAT;
    memset(&joined.attrs, 0, sizeof joined.attrs);
    joined.attrs.index.axis = c->op == WF_OP_SDPA && axis == 1 ? 2 : axis;
    joined.n_in = 0;
    WF_TRY(inputs(t, &joined, (int)parts));
    for (int64_t i = 0; i < parts; i++) {
        wf_cnode part;
        wf_view whole;
        int32_t id;
        WF_TRY(part_of(t, c, axis, i * len, WF_MIN(len, steps - i * len), &part));
        WF_TRY(cut(t, &part, depth + 1));
        WF_TRY(wf_view_contiguous("cat", part.rank, part.shape, &whole));
        WF_TRY(append(t, &part, &id));
        ((wf_value *)joined.in)[i] = (wf_value){NULL, whole};
        ((int32_t *)joined.src)[i] = id;
    }
    *c = joined;
    return WEFT_OK;
}

/* ---- operands that lie across ---- */

/* The axes of operand i that a product keeps and sums. */
static void product_axes(const wf_cnode *c, int i, int *kept, int *summed)
{
    int rank = c->in[i].view.rank;
    bool columns = c->op == WF_OP_MATMUL && i == 1;
    *kept = columns ? rank - 1 : rank - 2;
    *summed = columns ? rank - 2 : rank - 1;
}

static weft_status turn(cutter *t, wf_cnode *c, int i)
{
    const wf_view *v = &c->in[i].view;
    const wf_cnode *p = &t->s->g.nodes[c->src[i]];
    int kept, summed, order[WEFT_MAX_RANK], back[WEFT_MAX_RANK];
    if (v->rank < 2 || weft_dtype_is_quantised(p->dtype) || touched(t, c, i) <= limit_of(t))
        return WEFT_OK;
    product_axes(c, i, &kept, &summed);
    int64_t row = v->strides[kept] < 0 ? -v->strides[kept] : v->strides[kept], step = v->strides[summed] < 0 ? -v->strides[summed] : v->strides[summed];
    if (row >= step || v->shape[kept] == 1 || v->shape[summed] == 1)
        return WEFT_OK;
    for (int d = 0; d < v->rank; d++)
        order[d] = d;
    order[v->rank - 2] = kept;
    order[v->rank - 1] = summed;
    for (int d = 0; d < v->rank; d++)
        back[order[d]] = d;
    wf_cnode copy = {.op = WF_OP_COPY, .dtype = p->dtype, .kind = WF_CK_COMPUTE, .rank = v->rank, .numel = wf_view_numel(v), .node = c->node};
    copy.group = copy.anchor = copy.step_word = -1;
    WF_TRY(inputs(t, &copy, 1));
    WF_TRY(inputs(t, c, c->n_in));
    wf_value *from = (wf_value *)copy.in, *to = (wf_value *)c->in;
    wf_view whole;
    *from = c->in[i];
    ((int32_t *)copy.src)[0] = c->src[i];
    WF_TRY(wf_view_permute(&c->in[i].view, order, &from->view));
    WF_TRY(wf_view_contiguous("copy", from->view.rank, from->view.shape, &whole));
    memcpy(copy.shape, whole.shape, sizeof copy.shape);
    to[i].node = NULL;
    WF_TRY(wf_view_permute(&whole, back, &to[i].view));
    return append(t, &copy, &((int32_t *)c->src)[i]);
}

bool wf_cut_wanted(const wf_compile_state *s, const wf_node *n)
{
    const wf_caps *caps = &s->env->dev->caps;
    bool lines = n->op == WF_OP_SCAN || n->op == WF_OP_SORT || n->op == WF_OP_TOPK || n->op == WF_OP_SDPA;
    if (!caps->runs_wgsl || n->storage || n->n_in == 0 || n->numel == 0 || (!lines && wf_op_table[n->op].klass != WF_CLASS_MATMUL))
        return false;
    uint64_t most = wf_dtype_bytes((weft_dtype)n->dtype, n->numel);
    for (int i = 0; i < n->n_in; i++)
        most = WF_MAX(most, wf_dtype_bytes((weft_dtype)n->in[i].node->dtype, n->in[i].node->numel));
    return most > caps->max_binding_bytes / 4; /* room for what sorting keeps */
}

size_t wf_cut_room(const wf_node *n)
{
    return wf_op_table[n->op].klass == WF_CLASS_MATMUL ? 2 : WF_CUT_NODES;
}

weft_status wf_cut(wf_compile_state *s, wf_cnode **c)
{
    cutter t = {.s = s, .topo = (*c)->node->topo};
    wf_cnode user = **c;
    if (wf_op_table[user.op].klass == WF_CLASS_MATMUL)
        for (int i = 0; i < 2; i++)
            WF_TRY(turn(&t, &user, i));
    else
        WF_TRY(cut(&t, &user, 0));
    *c = &s->g.nodes[s->g.n];
    **c = user;
    return WEFT_OK;
}
