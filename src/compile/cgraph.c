/* cgraph.c - the compiler's numbered copy of a graph; equal nodes are one (value numbering).
 *
 * Value numbering: Cocke and Schwartz 1970; a node is equal to an earlier one when op, dtype, shape,
 * attributes, inputs and views are.
 */
#include <math.h>
#include <stdlib.h>

#include "compile.h"

typedef struct vn_table {
    int32_t *slot;
    size_t mask;
} vn_table;

static wf_hash128 hash_node(const wf_cnode *n)
{
    struct {
        uint16_t op;
        uint8_t dtype, n_in;
        int32_t rank;
        int64_t shape[WEFT_MAX_RANK];
        wf_attrs attrs;
    } head;
    memset(&head, 0, sizeof head);
    head.op = n->op;
    head.dtype = n->dtype;
    head.n_in = n->n_in;
    head.rank = n->rank;
    memcpy(head.shape, n->shape, sizeof head.shape);
    head.attrs = n->attrs;
    wf_hash128 h = wf_hash(&head, sizeof head, 0);
    for (int i = 0; i < n->n_in; i++) {
        h = wf_hash(&n->in[i].view, sizeof(wf_view), h.lo ^ h.hi);
        h = wf_hash(&n->src[i], sizeof(int32_t), h.lo ^ h.hi);
    }
    return h;
}

static bool same_node(const wf_cnode *a, const wf_cnode *b)
{
    if (a->op != b->op || a->dtype != b->dtype || a->n_in != b->n_in || a->rank != b->rank || a->kind != b->kind ||
        memcmp(a->shape, b->shape, sizeof a->shape) != 0 || memcmp(&a->attrs, &b->attrs, sizeof a->attrs) != 0)
        return false;
    for (int i = 0; i < a->n_in; i++)
        if (a->src[i] != b->src[i] || memcmp(&a->in[i].view, &b->in[i].view, sizeof(wf_view)) != 0)
            return false;
    return true;
}

/* The slot of an equal node, or the empty one where `c` belongs. */
static int32_t *find_slot(const wf_compile_state *s, const vn_table *vn, const wf_cnode *c)
{
    size_t at = hash_node(c).lo & vn->mask;
    while (vn->slot[at] >= 0 && !same_node(&s->g.nodes[vn->slot[at]], c))
        at = (at + 1) & vn->mask;
    return &vn->slot[at];
}

/* A product's operand that is a cast to f32 of stored 16-bit or 32-bit floats is read as stored: the
 * kernels convert on load. */
static void bypass_cast(const wf_compile_state *s, int32_t *src)
{
    const wf_cnode *cast = &s->g.nodes[*src];
    if (cast->op != WF_OP_CAST || cast->dtype != WEFT_DTYPE_F32 || cast->kind != WF_CK_COMPUTE)
        return;
    const wf_cnode *p = &s->g.nodes[cast->src[0]];
    if (p->dtype != WEFT_DTYPE_F16 && p->dtype != WEFT_DTYPE_BF16)
        return;
    if (p->kind == WF_CK_LEAF && wf_view_is_whole(&cast->in[0].view, p->numel))
        *src = cast->src[0];
}

static weft_status copy_inputs(wf_compile_state *s, wf_cnode *c, const wf_node *node)
{
    wf_value *in = wf_arena_alloc(&s->scratch, sizeof *in * node->n_in);
    int32_t *src = wf_arena_alloc(&s->scratch, sizeof *src * node->n_in);
    if (!in || !src)
        return wf_fail_oom(sizeof *in * node->n_in);
    for (int i = 0; i < node->n_in; i++) {
        in[i] = node->in[i];
        src[i] = s->canon[node->in[i].node->topo];
        if (c->op == WF_OP_MATMUL || c->op == WF_OP_LINEAR)
            bypass_cast(s, &src[i]);
    }
    c->in = in;
    c->src = src;
    c->n_in = node->n_in;
    return WEFT_OK;
}

/* ---- operands with many leading axes ---- */

/* The runs of leading axes that are one axis in both views, all but the last `inner`. */
static int leading_runs(const wf_view *a, const wf_view *b, int inner)
{
    int runs = 0, last = -1;
    for (int d = 0; d < a->rank - inner; d++) {
        if (a->shape[d] == 1)
            continue;
        if (last < 0 || a->strides[last] != a->strides[d] * a->shape[d] || b->strides[last] != b->strides[d] * b->shape[d])
            runs++;
        last = d;
    }
    return runs;
}

/* A reduction over all axes, or none, of the highest rank leaves no axis for the other kind. */
static bool has_no_room(const wf_cnode *c)
{
    uint32_t all = (1u << WEFT_MAX_RANK) - 1, axes = c->attrs.reduce.axes;
    return c->in[0].view.rank == WEFT_MAX_RANK && (axes == all || axes == 0);
}

/* The named kernels walk a few leading axes (block-type rows on a GPU: one). */
static bool is_scattered(const wf_compile_state *s, const wf_cnode *c)
{
    if (c->op == WF_OP_MATMUL)
        return leading_runs(&c->in[0].view, &c->in[1].view, 2) > 3;
    if (wf_op_table[c->op].klass == WF_CLASS_REDUCE)
        return has_no_room(c);
    if (c->op == WF_OP_TOPK)
        return leading_runs(&c->in[0].view, &c->in[0].view, 1) > 3;
    if (c->op != WF_OP_LINEAR)
        return false;
    bool one = s->env->dev->caps.runs_wgsl && s->g.nodes[c->src[1]].dtype >= WEFT_DTYPE_Q8_0;
    return leading_runs(&c->in[0].view, &c->in[0].view, 1) > (one ? 1 : 4);
}

/* Operands that a kernel cannot walk are copied row-major before it. *c moves behind the copies. */
static weft_status straighten(wf_compile_state *s, const vn_table *vn, wf_cnode **c)
{
    if ((*c)->numel == 0 || !is_scattered(s, *c))
        return WEFT_OK;
    wf_cnode user = **c;
    int n = user.op == WF_OP_MATMUL ? 2 : 1;
    wf_value *user_in = wf_arena_alloc(&s->scratch, sizeof *user_in * user.n_in);
    int32_t *user_src = wf_arena_alloc(&s->scratch, sizeof *user_src * user.n_in);
    if (!user_in || !user_src)
        return wf_fail_oom(sizeof *user_in * user.n_in);
    memcpy(user_in, user.in, sizeof *user_in * user.n_in);
    memcpy(user_src, user.src, sizeof *user_src * user.n_in);
    for (int i = 0; i < n; i++) {
        const wf_view *v = &user.in[i].view;
        wf_view whole;
        if (wf_view_is_contiguous(v))
            continue;
        WF_TRY(wf_view_contiguous(wf_op_table[user.op].name, v->rank, v->shape, &whole));
        wf_value *in = wf_arena_alloc(&s->scratch, sizeof *in);
        int32_t *src = wf_arena_alloc(&s->scratch, sizeof *src);
        if (!in || !src)
            return wf_fail_oom(sizeof *in);
        *in = user.in[i];
        *src = user.src[i];
        wf_cnode copy = {.op = WF_OP_COPY, .dtype = s->g.nodes[*src].dtype, .kind = WF_CK_COMPUTE, .rank = v->rank,
                         .numel = wf_view_numel(v), .node = user.node, .in = in, .src = src, .n_in = 1};
        copy.group = copy.anchor = copy.step_word = -1;
        memcpy(copy.shape, whole.shape, sizeof copy.shape);
        int32_t *slot = find_slot(s, vn, &copy);
        if (*slot < 0) {
            *slot = s->g.n;
            s->order_of[s->g.n] = user.node->topo;
            s->g.nodes[s->g.n++] = copy;
        }
        user_in[i] = (wf_value){NULL, whole};
        user_src[i] = *slot;
    }
    if (wf_op_table[user.op].klass == WF_CLASS_REDUCE) { /* row-major now: one axis */
        int64_t count = wf_view_numel(&user_in[0].view), offset = user_in[0].view.offset;
        WF_TRY(wf_view_contiguous(wf_op_table[user.op].name, 1, &count, &user_in[0].view));
        user_in[0].view.offset = offset;
        user.attrs.reduce.axes = user.attrs.reduce.axes ? 1 : 0;
    }
    user.in = user_in;
    user.src = user_src;
    *c = &s->g.nodes[s->g.n];
    **c = user;
    return WEFT_OK;
}

/* ---- long reductions ---- */

/* On a device with work groups one group folds one row. A few long rows would leave the rest idle, so
 * the row is cut into equal parts, folded apart, and the parts folded in a second kernel. */
enum { SPLIT_MAX_ROWS = 256, SPLIT_MIN_INNER = 32768, SPLIT_MIN_PARTS = 16, SPLIT_ENOUGH_PARTS = 64, SPLIT_MAX_PARTS = 1024 };

static int64_t parts_of(int64_t extent)
{
    for (int64_t parts = WF_MIN(extent, SPLIT_MAX_PARTS); parts >= SPLIT_MIN_PARTS; parts--)
        if (extent % parts == 0)
            return parts;
    return 0;
}

/* The divisor nearest to the root: parts and what remains of them are both small. 0: the extent is prime. */
static int64_t even_parts(int64_t extent)
{
    for (int64_t parts = (int64_t)sqrt((double)extent); parts > 1; parts--)
        if (extent % parts == 0)
            return parts;
    return 0;
}

/* The elements that a view touches are more bytes than one binding may have. */
static bool passes_binding(const wf_compile_state *s, const wf_value *in, int32_t src)
{
    int64_t lo, hi;
    return wf_view_extent(&in->view, &lo, &hi) &&
           (uint64_t)(hi - lo + 1) * weft_dtype_block_bytes(s->g.nodes[src].dtype) > s->env->dev->caps.max_binding_bytes;
}

/* The reduced axis to cut, -1: none. Of those that give parts enough, the one with the longest stride: then
 * a part is read in order, and an operand larger than a binding is cut into pieces of memory. */
static int split_axis(const wf_compile_state *s, const wf_cnode *c, int64_t *parts)
{
    const wf_view *v = &c->in[0].view;
    int64_t inner = 1;
    int best = -1;
    if (!s->env->dev->caps.runs_wgsl || v->rank == WEFT_MAX_RANK || c->op == WF_OP_ARGMAX || c->op == WF_OP_ARGMIN || c->numel == 0)
        return -1;
    for (int d = 0; d < v->rank; d++) {
        if (!(c->attrs.reduce.axes >> d & 1))
            continue;
        inner *= v->shape[d];
        int64_t p = parts_of(v->shape[d]);
        bool both_enough = p >= SPLIT_ENOUGH_PARTS && *parts >= SPLIT_ENOUGH_PARTS;
        if (p && (best < 0 || (both_enough ? llabs(v->strides[d]) > llabs(v->strides[best]) : p > *parts))) {
            best = d;
            *parts = p;
        }
    }
    if (inner >= SPLIT_MIN_INNER && c->numel <= SPLIT_MAX_ROWS)
        return best;
    if (!passes_binding(s, &c->in[0], c->src[0]))
        return -1;
    for (int d = 0; d < v->rank; d++) {
        int64_t p = c->attrs.reduce.axes >> d & 1 ? even_parts(v->shape[d]) : 0;
        if (p && (best < 0 || llabs(v->strides[d]) >= llabs(v->strides[best]))) {
            best = d;
            *parts = p;
        }
    }
    return best;
}

/* Put the folding of the parts before reduction `c` (which stays where it is in memory) and let `c` fold
 * its results. */
static weft_status split_reduction(wf_compile_state *s, wf_cnode *c)
{
    int64_t parts = 0;
    int k = split_axis(s, c, &parts);
    if (k < 0)
        return WEFT_OK;
    wf_cnode first = *c, *p = &s->g.nodes[s->g.n];
    wf_value *in = wf_arena_alloc(&s->scratch, 2 * sizeof *in);
    int32_t *src = wf_arena_alloc(&s->scratch, sizeof *src);
    if (!in || !src)
        return wf_fail_oom(2 * sizeof *in);
    wf_view v = first.in[0].view, cut = v;
    uint32_t axes = c->attrs.reduce.axes, low = (1u << k) - 1;
    cut.rank = v.rank + 1;
    for (int d = v.rank; d > k; d--) {
        cut.shape[d] = v.shape[d - 1];
        cut.strides[d] = v.strides[d - 1];
    }
    cut.shape[k] = parts;
    cut.shape[k + 1] = v.shape[k] / parts;
    cut.strides[k] = v.strides[k] * cut.shape[k + 1];
    in[0] = (wf_value){first.in[0].node, cut};
    first.in = in;
    first.rank = cut.rank;
    first.attrs.reduce.axes = (axes & low) | (axes & ~low) << 1; /* the cut axis keeps its inner half */
    first.attrs.reduce.keepdim = 1;
    if (c->dtype == WEFT_DTYPE_F16 || c->dtype == WEFT_DTYPE_BF16)
        first.dtype = WEFT_DTYPE_F32; /* accumulated in f32, rounded once at the end */
    first.numel = 1;
    for (int d = 0; d < cut.rank; d++) {
        first.shape[d] = first.attrs.reduce.axes >> d & 1 ? 1 : cut.shape[d];
        first.numel *= first.shape[d];
    }
    wf_cnode last = *c;
    wf_view whole;
    WF_TRY(wf_view_contiguous("reduce", first.rank, first.shape, &whole));
    in[1] = (wf_value){NULL, whole};
    src[0] = s->g.n;
    last.in = &in[1];
    last.src = src;
    last.attrs.reduce.axes = 1u << k;
    *p = first;
    s->order_of[s->g.n++] = c->node->topo;
    s->g.nodes[s->g.n] = last;
    return WEFT_OK;
}

static wf_ckind kind_of(const wf_node *n)
{
    if (n->storage || n->op == WF_OP_LEAF)
        return WF_CK_LEAF;
    if (n->op == WF_OP_SCALAR)
        return WF_CK_SCALAR;
    return n->op == WF_OP_FULL || n->op == WF_OP_IOTA || n->op == WF_OP_TRI ? WF_CK_CONST : WF_CK_COMPUTE;
}

static void count_uses(wf_compile_state *s)
{
    wf_cgraph *g = &s->g;
    for (int i = 0; i < s->n_targets; i++) {
        wf_cnode *t = &g->nodes[s->canon[s->targets[i]]];
        t->target = true;
        t->uses++;
    }
    for (int32_t i = g->n - 1; i >= 0; i--)
        if (g->nodes[i].uses && g->nodes[i].numel) /* what is empty reads nothing */
            for (int j = 0; j < g->nodes[i].n_in; j++)
                g->nodes[g->nodes[i].src[j]].uses++;
}

/* Room for `need` nodes, of which one may be begun after the last; nodes move. */
static weft_status reserve(wf_compile_state *s, size_t *held, size_t need)
{
    if (need <= *held)
        return WEFT_OK;
    size_t n = (size_t)s->g.n, more = WF_MAX(need, 2 * *held);
    wf_cnode *nodes = wf_arena_alloc(&s->scratch, sizeof *nodes * more);
    int32_t *order_of = wf_arena_alloc(&s->scratch, sizeof *order_of * more);
    if (!nodes || !order_of)
        return wf_fail_oom(sizeof *nodes * more);
    memcpy(nodes, s->g.nodes, sizeof *nodes * (n + 1));
    memcpy(order_of, s->order_of, sizeof *order_of * n);
    s->g.nodes = nodes;
    s->order_of = order_of;
    *held = more;
    return WEFT_OK;
}

weft_status wf_cgraph_build(wf_compile_state *s)
{
    size_t capacity = 16;
    size_t room = 3 * (size_t)s->n_order; /* a long reduction becomes two nodes, a product or a reduction may get copies */
    size_t held = room;
    while (capacity < room) /* parts of a node are not numbered */
        capacity *= 2;
    vn_table vn = {wf_arena_alloc(&s->scratch, sizeof(int32_t) * capacity), capacity - 1};
    s->canon = wf_arena_alloc(&s->scratch, sizeof(int32_t) * (size_t)s->n_order);
    s->order_of = wf_arena_alloc(&s->scratch, sizeof(int32_t) * room);
    s->g.nodes = wf_arena_alloc(&s->scratch, sizeof(wf_cnode) * room);
    if (!vn.slot || !s->canon || !s->order_of || !s->g.nodes)
        return wf_fail_oom(sizeof(wf_cnode) * (size_t)s->n_order);
    s->g.arena = &s->kernel;
    memset(vn.slot, 0xff, sizeof(int32_t) * capacity);
    for (int32_t i = 0; i < s->n_order; i++) {
        wf_node *node = s->order[i];
        wf_cnode *c = &s->g.nodes[s->g.n];
        memset(c, 0, sizeof *c);
        c->op = node->op;
        c->dtype = node->dtype;
        c->kind = kind_of(node);
        c->rank = node->rank;
        c->numel = node->numel;
        c->node = node;
        c->group = c->anchor = c->step_word = -1;
        memcpy(c->shape, node->shape, sizeof(int64_t) * (size_t)node->rank);
        for (int d = node->rank; d < WEFT_MAX_RANK; d++)
            c->shape[d] = 1;
        c->attrs = node->attrs;
        if (c->kind == WF_CK_LEAF) {
            c->op = WF_OP_LEAF;
            c->materialised = true;
            c->stealable = s->stealable[i];
            c->layout = node->storage ? node->storage->layout : 0;
            c->section_blocks = node->storage ? node->storage->section_blocks : 0;
        } else if (c->kind != WF_CK_SCALAR) {
            if (node->n_in)
                WF_TRY(copy_inputs(s, c, node));
            WF_TRY(straighten(s, &vn, &c));
            if (wf_cut_wanted(s, node)) {
                int32_t before = s->g.n;
                WF_TRY(reserve(s, &held, room + wf_cut_room(node)));
                c = &s->g.nodes[s->g.n];
                WF_TRY(wf_cut(s, &c));
                room += (size_t)(s->g.n - before);
            }
            int32_t *slot = find_slot(s, &vn, c);
            if (*slot >= 0) {
                s->canon[i] = *slot;
                continue;
            }
            if (wf_op_table[c->op].klass == WF_CLASS_REDUCE)
                WF_TRY(split_reduction(s, c));
            *slot = s->g.n;
        }
        s->order_of[s->g.n] = i;
        s->canon[i] = s->g.n++;
    }
    WF_TRY(wf_contract_bytes(s));
    wf_contract_sorts(s);
    WF_TRY(wf_unfold_operands(s));
    count_uses(s);
    return WEFT_OK;
}
