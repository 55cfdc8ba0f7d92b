/* fuse.c - which nodes are materialised and which are inlined into the kernel that uses them.
 *
 * Nodes are visited consumers first. A node joins a group when every use of it lies in that one group:
 * the group then stays convex, so no cycle can arise, and the node is computed once. A group holds at
 * most one anchor (a reduction, row op or matrix product), which must stand at the same row-major index
 * as the root, so what follows it is its epilogue. Constants are inlined wherever they are used.
 *
 * More reductions join where they go over the same axes of the same shape: beside an anchor that is a reduction, or for a
 * root with a value for each element. Every use of such a one must be at the row that it stands for; that is what the
 * places of nodes are for.
 *
 * Joining is bounded by the bindings and by the nodes of a group, so a chain of any length becomes a
 * chain of kernels. Where a group still outgrows a kernel's instructions or words, the compiler fuses
 * again with a smaller bound.
 */
#include "compile.h"

#define MAX_PENDING 16

enum { VOTE_NONE = -1, VOTE_CONFLICT = -2 };

/* Where in its group a node's value is wanted: at the root's own index; at the element that the anchor folds; at the row that
 * an element is in, for rows along some axes; anywhere. */
enum { AT_ROOT = 1, AT_POINT = 2, AT_ROW = 4, AT_OTHER = 8 };

typedef struct place {
    uint8_t at;     /* bits of the above */
    uint8_t height; /* most reductions on the way to the root */
    uint32_t axes;  /* AT_ROW: longer than 1, along which nothing changes */
} place;

typedef struct vote {
    int32_t group;
    bool identity; /* every use is at the root's own index */
    bool barrier;  /* some use needs it in memory */
    place place;
} vote;

typedef struct group_info {
    int32_t n_nodes, n_pending;
    int32_t pending[MAX_PENDING]; /* nodes read by the group: an upper bound of its bindings */
    uint8_t at_height[WF_MAX_HEIGHT + 1]; /* reductions */
} group_info;

typedef struct fuser {
    wf_compile_state *s;
    wf_cgraph *g;
    vote *votes;
    group_info **groups;
    int max_bind;
} fuser;

static bool is_anchor_class(uint16_t op)
{
    wf_op_class k = wf_op_table[op].klass;
    return k == WF_CLASS_REDUCE || k == WF_CLASS_ROW || k == WF_CLASS_MATMUL;
}

/* Its operands must be in memory: a hand-written kernel reads them. */
static bool reads_memory(uint16_t op)
{
    return wf_op_table[op].klass == WF_CLASS_MATMUL || wf_op_table[op].klass == WF_CLASS_SPECIAL;
}

static bool inlines(const wf_cnode *n)
{
    return wf_op_table[n->op].klass == WF_CLASS_ELEMENTWISE ||
           (wf_op_table[n->op].klass == WF_CLASS_INDEXED && n->op != WF_OP_SLICE_UPDATE && n->op != WF_OP_CAT);
}

static bool is_pending(const group_info *gi, int32_t n)
{
    for (int i = 0; i < gi->n_pending; i++)
        if (gi->pending[i] == n)
            return true;
    return false;
}

static bool needs_binding(const wf_cnode *n)
{
    return n->kind != WF_CK_SCALAR && n->kind != WF_CK_CONST;
}

/* The group's pending set if node n were inlined; false when it would not fit. */
static bool pending_with(const fuser *f, const group_info *gi, int32_t n, int32_t *out, int *n_out)
{
    int count = 0, limit = WF_MIN(f->max_bind - 2, MAX_PENDING); /* the output and the error word */
    for (int i = 0; i < gi->n_pending; i++)
        if (gi->pending[i] != n)
            out[count++] = gi->pending[i];
    const wf_cnode *node = &f->g->nodes[n];
    for (int i = 0; i < node->n_in; i++) {
        int32_t p = node->src[i];
        bool seen = !needs_binding(&f->g->nodes[p]);
        for (int j = 0; j < count && !seen; j++)
            seen = out[j] == p;
        if (seen)
            continue;
        if (count == limit)
            return false;
        out[count++] = p;
    }
    *n_out = count;
    return true;
}

static bool join(fuser *f, int32_t n, int32_t root)
{
    group_info *gi = f->groups[root];
    int32_t pending[MAX_PENDING];
    int count;
    if (gi->n_nodes >= f->s->max_group_nodes || !pending_with(f, gi, n, pending, &count))
        return false;
    memcpy(gi->pending, pending, sizeof(int32_t) * (size_t)count);
    gi->n_pending = count;
    gi->n_nodes++;
    f->g->nodes[n].group = root;
    return true;
}

static weft_status make_root(fuser *f, int32_t n)
{
    wf_cnode *node = &f->g->nodes[n];
    group_info *gi = wf_arena_alloc(&f->s->scratch, sizeof *gi);
    if (!gi)
        return wf_fail_oom(sizeof *gi);
    f->groups[n] = gi;
    node->group = n;
    node->materialised = true;
    node->identity = true;
    node->first_row = -1;
    node->row_axes = 0;
    if (is_anchor_class(node->op))
        node->anchor = n;
    f->votes[n].place = (place){.at = AT_ROOT, .height = is_anchor_class(node->op)};
    gi->at_height[1] = is_anchor_class(node->op);
    gi->n_nodes = 1;
    for (int i = 0; i < node->n_in && gi->n_pending < MAX_PENDING; i++)
        if (needs_binding(&f->g->nodes[node->src[i]]) && !is_pending(gi, node->src[i]))
            gi->pending[gi->n_pending++] = node->src[i];
    return WEFT_OK;
}

static bool passes_binding(const fuser *f, int32_t n)
{
    const wf_caps *caps = &f->s->env->dev->caps;
    const wf_cnode *p = &f->g->nodes[n];
    return caps->runs_wgsl && wf_dtype_bytes(p->dtype, p->numel) > caps->max_binding_bytes;
}

/* Picks from what one binding does not hold: a kernel of its own can run part by part. */
static bool picks_from_parts(const fuser *f, const wf_cnode *n)
{
    bool picks = n->op == WF_OP_INDEX_SELECT || n->op == WF_OP_GATHER;
    return picks && f->g->nodes[n->src[0]].kind != WF_CK_CONST && passes_binding(f, n->src[0]); /* a constant is computed where it is picked */
}

/* The axes of v along which it repeats an operand of `numel` elements that lies in order along the others; 0: it is not so. */
static uint32_t repeated_axes(const wf_view *v, int64_t numel)
{
    uint32_t axes = 0;
    int64_t step = 1;
    for (int d = v->rank - 1; d >= 0; d--) {
        if (v->shape[d] == 1)
            continue;
        if (v->strides[d] == 0) {
            axes |= 1u << d;
            continue;
        }
        if (v->strides[d] != step)
            return 0;
        step *= v->shape[d];
    }
    return v->offset == 0 && step == numel ? axes : 0;
}

static uint32_t reduced_axes(const wf_cnode *n)
{
    uint32_t axes = 0;
    for (int d = 0; d < n->in[0].view.rank; d++)
        if (n->in[0].view.shape[d] > 1)
            axes |= n->attrs.reduce.axes & 1u << d;
    return axes;
}

/* The place of input i of node n. */
static place place_of_input(const fuser *f, const wf_cnode *n, int i, const place *at)
{
    const wf_cnode *p = &f->g->nodes[n->src[i]];
    const wf_view *v = &n->in[i].view;
    const bool whole = wf_view_is_whole(v, p->numel);
    wf_op_class k = wf_op_table[n->op].klass;
    if (k == WF_CLASS_REDUCE && whole)
        return (place){.at = f->g->nodes[n->group].row_axes ? AT_ROOT : AT_POINT, .height = at->height};
    if (k == WF_CLASS_ELEMENTWISE && whole && p->numel == n->numel && (at->at == AT_ROOT || at->at == AT_POINT || at->at == AT_ROW))
        return *at;
    uint32_t axes = k == WF_CLASS_ELEMENTWISE && (at->at == AT_ROOT || at->at == AT_POINT) ? repeated_axes(v, p->numel) : 0;
    return (place){.at = axes ? AT_ROW : AT_OTHER, .height = at->height, .axes = axes};
}

static void add_place(place *to, place p)
{
    if (to->at & p.at & AT_ROW && to->axes != p.axes)
        p.at |= AT_OTHER;
    if (p.at & AT_ROW)
        to->axes = p.axes;
    to->at |= p.at;
    to->height = WF_MAX(to->height, p.height);
}

static void cast_votes(fuser *f, int32_t n)
{
    const wf_cnode *node = &f->g->nodes[n];
    const wf_cnode *root = &f->g->nodes[node->group];
    bool elementwise = wf_op_table[node->op].klass == WF_CLASS_ELEMENTWISE;
    for (int i = 0; i < node->n_in; i++) {
        const wf_cnode *p = &f->g->nodes[node->src[i]];
        vote *v = &f->votes[node->src[i]];
        bool identity = elementwise && node->identity && p->numel == root->numel && wf_view_is_whole(&node->in[i].view, p->numel);
        v->identity &= identity;
        add_place(&v->place, place_of_input(f, node, i, &f->votes[n].place));
        bool by_word = p->kind == WF_CK_SCALAR && node->in[i].view.rank == 0; /* a kernel takes it from the step block */
        v->barrier |= reads_memory(node->op) && !(node->op == WF_OP_LINEAR && i == 2) && !by_word;
        v->barrier |= f->s->env->no_fuse || picks_from_parts(f, p) || (i == 0 && picks_from_parts(f, node));
        v->group = v->group == VOTE_NONE || v->group == node->group ? node->group : VOTE_CONFLICT;
    }
}

static bool same_rows(const wf_cnode *n, int rank, const int64_t *shape, uint32_t axes)
{
    const wf_view *v = &n->in[0].view;
    return v->rank == rank && memcmp(v->shape, shape, sizeof *shape * (size_t)rank) == 0 && n->attrs.reduce.axes == axes;
}

/* A few long rows with a work group each would leave a device idle that has many. */
static bool few_long_rows(const fuser *f, const wf_cnode *n, const wf_cnode *root)
{
    enum { FEW_ROWS = 256, LONG_ROW = 4096 };
    return f->s->env->dev->caps.runs_wgsl && n->numel < FEW_ROWS && root->numel / n->numel > LONG_ROW;
}

/* Reduction n beside those of its group, see above. */
static bool join_rows(fuser *f, int32_t n, const vote *v)
{
    wf_cnode *node = &f->g->nodes[n], *root = &f->g->nodes[v->group];
    group_info *gi = f->groups[v->group];
    const int height = v->place.height + 1;
    const uint8_t at = v->place.at;
    if (wf_op_table[node->op].klass != WF_CLASS_REDUCE || node->op == WF_OP_ARGMAX || node->op == WF_OP_ARGMIN ||
        wf_view_numel(&node->in[0].view) == 0 || (at & AT_ROW && v->place.axes != reduced_axes(node)) ||
        passes_binding(f, node->src[0]) || passes_binding(f, v->group)) /* those run piece by piece */
        return false;
    if (root->anchor >= 0) {
        const wf_cnode *a = &f->g->nodes[root->anchor];
        if (wf_op_table[a->op].klass != WF_CLASS_REDUCE || at & (AT_POINT | AT_OTHER) || height > WF_MAX_HEIGHT ||
            !same_rows(node, a->in[0].view.rank, a->in[0].view.shape, a->attrs.reduce.axes))
            return false;
    } else if (wf_op_table[root->op].klass != WF_CLASS_ELEMENTWISE || at != AT_ROW || height >= WF_MAX_HEIGHT ||
               root->rank == WEFT_MAX_RANK || few_long_rows(f, node, root) ||
               !same_rows(node, root->rank, root->shape, root->row_axes ? root->row_axes : node->attrs.reduce.axes)) {
        return false;
    }
    if (gi->at_height[height] == WF_MAX_AT_HEIGHT || !join(f, n, v->group))
        return false;
    gi->at_height[height]++;
    if (root->anchor < 0)
        root->row_axes = node->attrs.reduce.axes;
    node->height = (uint8_t)height;
    node->next_row = root->first_row;
    root->first_row = n;
    f->votes[n].place.height = (uint8_t)height;
    return true;
}

static bool try_join(fuser *f, int32_t n)
{
    wf_cnode *node = &f->g->nodes[n];
    const vote *v = &f->votes[n];
    if (node->target || v->barrier || v->group < 0 || node->numel == 0)
        return false;
    wf_cnode *root = &f->g->nodes[v->group];
    if (inlines(node)) {
        if (!join(f, n, v->group))
            return false;
        node->identity = v->identity;
        return true;
    }
    bool no_f32 = wf_op_table[node->op].klass == WF_CLASS_MATMUL && (node->dtype == WEFT_DTYPE_F64 || node->dtype == WEFT_DTYPE_I32);
    if (!is_anchor_class(node->op) || no_f32 || !v->identity || root->anchor >= 0 || root->row_axes ||
        wf_op_table[root->op].klass != WF_CLASS_ELEMENTWISE || !join(f, n, v->group))
        return join_rows(f, n, v);
    root->anchor = n;
    f->votes[n].place.height = 1;
    f->groups[v->group]->at_height[1]++;
    return true;
}

weft_status wf_fuse(wf_compile_state *s)
{
    fuser f = {.s = s, .g = &s->g};
    const wf_caps *caps = &s->env->dev->caps;
    f.max_bind = WF_KIR_MAX_BIND;
    if (caps->runs_wgsl && caps->max_storage_buffers < WF_KIR_MAX_BIND)
        f.max_bind = (int)caps->max_storage_buffers;
    f.votes = wf_arena_alloc(&s->scratch, sizeof *f.votes * (size_t)s->g.n);
    f.groups = wf_arena_alloc(&s->scratch, sizeof *f.groups * (size_t)s->g.n);
    if (!f.votes || !f.groups)
        return wf_fail_oom(sizeof *f.votes * (size_t)s->g.n);
    for (int32_t i = 0; i < s->g.n; i++)
        f.votes[i] = (vote){.group = VOTE_NONE, .identity = true};
    for (int32_t i = s->g.n - 1; i >= 0; i--) {
        wf_cnode *n = &s->g.nodes[i];
        if (!n->uses || n->kind == WF_CK_LEAF)
            continue;
        if (n->kind != WF_CK_COMPUTE) { /* run-time scalars and constants: inlined, but for those that must have bytes */
            if (n->target || f.votes[i].barrier)
                WF_TRY(make_root(&f, i));
            continue;
        }
        if (!try_join(&f, i))
            WF_TRY(make_root(&f, i));
        cast_votes(&f, i);
    }
    return WEFT_OK;
}
