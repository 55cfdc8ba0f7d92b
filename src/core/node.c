/* node.c - life of graph nodes, storages and of the part of a context that core owns.
 *
 * Nodes come from freelists sorted by how many inputs they have room for: a decode step records some
 * hundred nodes, and none of them should reach the allocator. Freeing walks a work list, so the
 * depth of a graph never becomes depth of the C stack.
 */
#include "build.h"

/* What a freelist keeps at most. A decode step of a large model stays below it. */
enum { FREE_MAX = 4096 };

weft_status wf_core_init(wf_core_ctx *core)
{
    memset(core, 0, sizeof *core);
    wf_biased_init(&core->lock);
    atomic_init(&core->cancel, false);
    atomic_init(&core->refs, 1);
    core->epoch = 1;
    return WEFT_OK;
}

void wf_core_drop_caches(wf_core_ctx *core)
{
    wf_rope_drop(core);
}

/* A freed node links to the next through its input pointer, a freed tensor through its scope link. */
static void free_blocks(wf_core_ctx *core)
{
    for (int room = 0; room <= WF_NODE_ROOM_MAX; room++)
        for (wf_node *n = core->free_nodes[room], *next; n; n = next) {
            next = (wf_node *)(void *)n->in;
            wf_free(n);
        }
    for (weft_tensor *t = core->free_tensors, *next; t; t = next) {
        next = t->scope_next;
        wf_free(t);
    }
}

void wf_core_release(weft_ctx *ctx)
{
    wf_core_ctx *core = wf_core(ctx);
    if (atomic_fetch_sub(&core->refs, 1) != 1)
        return;
    wf_core_drop_caches(core);
    free_blocks(core);
    wf_biased_destroy(&core->lock);
    if (core->destroy)
        core->destroy(ctx);
}

/* ---- storages ---- */

void wf_storage_retain(wf_storage *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

void wf_storage_release(wf_storage *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    if (s->release)
        s->release(s);
    else
        wf_free(s);
}

/* ---- nodes ---- */

/* All but the shape. */
static inline wf_node *begin(weft_ctx *ctx, wf_op op, weft_dtype dtype, int n_in)
{
    wf_core_ctx *core = wf_core(ctx);
    wf_node *n = n_in <= WF_NODE_ROOM_MAX ? core->free_nodes[n_in] : NULL;
    if (n) {
        core->free_nodes[n_in] = (wf_node *)(void *)n->in;
        core->n_free_nodes[n_in]--;
    } else {
        n = wf_alloc(sizeof *n + (size_t)n_in * sizeof(wf_value));
        if (!n)
            return NULL;
    }
    n->op = (uint16_t)op;
    n->dtype = (uint8_t)dtype;
    n->n_in = (uint8_t)n_in;
    n->refs = 0;
    n->handles = 0;
    n->ctx = ctx;
    n->storage = NULL;
    memset(&n->attrs, 0, sizeof n->attrs);
    n->scalar_bits = 0;
    n->room = (uint32_t)n_in;
    n->mark = 0;
    n->topo = 0;
    n->uses = 0;
    n->in = (wf_value *)(n + 1);
    for (int i = 0; i < n_in; i++)
        n->in[i].node = NULL;
    core->live_nodes++;
    return n;
}

wf_node *wf_node_new(weft_ctx *ctx, wf_op op, weft_dtype dtype, int n_in, int rank, const int64_t *shape)
{
    wf_node *n = begin(ctx, op, dtype, n_in);
    if (!n)
        return NULL;
    n->rank = rank;
    uint64_t numel = 1; /* may wrap on the way to a 0 */
    for (int k = 0; k < WEFT_MAX_RANK; k++) {
        n->shape[k] = k < rank ? shape[k] : 1;
        numel *= (uint64_t)n->shape[k];
    }
    n->numel = (int64_t)numel;
    return n;
}

wf_node *wf_node_like(weft_ctx *ctx, wf_op op, weft_dtype dtype, int n_in, const wf_view *shape)
{
    wf_node *n = begin(ctx, op, dtype, n_in);
    if (!n)
        return NULL;
    n->rank = shape->rank;
    /* Word by word: the view is often fresh, and a wide load would wait for its narrow stores. */
    uint64_t numel = 1;
#pragma GCC unroll 8
    for (int k = 0; k < WEFT_MAX_RANK; k++) {
        n->shape[k] = shape->shape[k];
        numel *= (uint64_t)shape->shape[k];
    }
    n->numel = (int64_t)numel;
    return n;
}

void wf_node_set_input(wf_node *n, int i, wf_node *src, const wf_view *view)
{
    n->in[i].node = src;
    n->in[i].view = *view;
    src->refs++;
}

static void free_node(wf_node *n)
{
    wf_core_ctx *core = wf_core(n->ctx);
    core->live_nodes--;
    wf_storage_release(n->storage);
    if (n->room <= WF_NODE_ROOM_MAX && core->n_free_nodes[n->room] < FREE_MAX) {
        n->in = (wf_value *)(void *)core->free_nodes[n->room];
        core->free_nodes[n->room] = n;
        core->n_free_nodes[n->room]++;
        return;
    }
    wf_free(n);
}

/* A node without references waits in a list that runs through `mark`, which only live nodes use. */
static wf_node *push_dead(wf_node *dead, wf_node *n)
{
    n->mark = (uint64_t)(uintptr_t)dead;
    return n;
}

static wf_node *drop_inputs(wf_node *n, wf_node *dead)
{
    for (int i = 0; i < n->n_in; i++) {
        wf_node *src = n->in[i].node;
        if (src && --src->refs == 0)
            dead = push_dead(dead, src);
    }
    n->n_in = 0;
    return dead;
}

static void free_dead(wf_node *dead)
{
    while (dead) {
        wf_node *n = dead;
        dead = (wf_node *)(uintptr_t)n->mark;
        dead = drop_inputs(n, dead);
        free_node(n);
    }
}

void wf_node_unref(wf_node *n)
{
    if (n && --n->refs <= 0)
        free_dead(push_dead(NULL, n));
}

void wf_node_sink(wf_node *n)
{
    if (n && n->refs == 0)
        free_dead(push_dead(NULL, n));
}

void wf_node_realise(wf_node *n, wf_storage *storage)
{
    wf_storage *old = n->storage;
    n->storage = storage;
    wf_storage_release(old);
    free_dead(drop_inputs(n, NULL));
    /* From here on it is data: a graph that reads it must not depend on how it came about. */
    if (wf_op_table[n->op].klass != WF_CLASS_LEAF) {
        n->op = WF_OP_LEAF;
        memset(&n->attrs, 0, sizeof n->attrs);
    }
}
