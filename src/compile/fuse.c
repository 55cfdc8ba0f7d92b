/* fuse.c - which nodes are materialised and which are inlined into the kernel that uses them.
 *
 * Nodes are visited consumers first. A node joins a group when every use of it lies in that one group:
 * the group then stays convex, so no cycle can arise, and the node is computed once. A group holds at
 * most one anchor (a reduction, row op or matrix product), which must stand at the same row-major index
 * as the root, so what follows it is its epilogue. Constants are inlined wherever they are used.
 *
 * Joining is bounded by the bindings and by the nodes of a group, so a chain of any length becomes a
 * chain of kernels. Where a group still outgrows a kernel's instructions or words, the compiler fuses
 * again with a smaller bound.
 */
#include "compile.h"

#define MAX_PENDING 16

enum { VOTE_NONE = -1, VOTE_CONFLICT = -2 };

typedef struct vote {
    int32_t group;
    bool identity; /* every use is at the root's own index */
    bool barrier;  /* some use needs it in memory */
} vote;

typedef struct group_info {
    int32_t n_nodes, n_pending;
    int32_t pending[MAX_PENDING]; /* nodes read by the group: an upper bound of its bindings */
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
    if (is_anchor_class(node->op))
        node->anchor = n;
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
        bool by_word = p->kind == WF_CK_SCALAR && node->in[i].view.rank == 0; /* a kernel takes it from the step block */
        v->barrier |= reads_memory(node->op) && !(node->op == WF_OP_LINEAR && i == 2) && !by_word;
        v->barrier |= f->s->env->no_fuse || picks_from_parts(f, p) || (i == 0 && picks_from_parts(f, node));
        v->group = v->group == VOTE_NONE || v->group == node->group ? node->group : VOTE_CONFLICT;
    }
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
    if (!is_anchor_class(node->op) || no_f32 || !v->identity || root->anchor >= 0 ||
        wf_op_table[root->op].klass != WF_CLASS_ELEMENTWISE || !join(f, n, v->group))
        return false;
    root->anchor = n;
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
