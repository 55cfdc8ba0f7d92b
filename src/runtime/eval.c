/* eval.c - evaluate: walk the graph, find the plan by the graph's structure, run it.
 *
 * The structure is written out as bytes (ops, dtypes, shapes, views, attributes, and which leaves share
 * a storage or may be updated in place), and the plan is looked up by their hash and compared byte by
 * byte. Values of run-time scalars and the leaves' bytes are not part of it.
 */
#include "tuner.h"

typedef struct wf_walk {
    wf_node *node;
    int next;
} wf_walk;

static weft_status push_order(weft_ctx *ctx, wf_node *n)
{
    if (ctx->n_order == INT32_MAX)
        return wf_fail(WEFT_E_UNSUPPORTED, "eval: the graph has more than 2^31 nodes");
    if (ctx->n_order == ctx->cap_order)
        WF_TRY(wf_grow((void **)&ctx->order, &ctx->cap_order, ctx->n_order + 1, sizeof *ctx->order));
    n->topo = (int32_t)ctx->n_order;
    ctx->order[ctx->n_order++] = n;
    return WEFT_OK;
}

static inline bool is_leaf(const wf_node *n)
{
    return n->storage || n->n_in == 0;
}

/* Producers first; no recursion, so depth is bounded by memory alone. */
static weft_status collect(weft_ctx *ctx, wf_node *root)
{
    size_t depth = 0;
    if (root->mark == ctx->core.epoch)
        return WEFT_OK;
    root->mark = ctx->core.epoch;
    root->uses = 0;
    if (is_leaf(root))
        return push_order(ctx, root);
    if (ctx->cap_walk == 0)
        WF_TRY(wf_grow((void **)&ctx->walk, &ctx->cap_walk, 64, sizeof *ctx->walk));
    ctx->walk[depth++] = (wf_walk){root, 0};
    while (depth) {
        wf_walk *top = &ctx->walk[depth - 1];
        if (top->next == top->node->n_in) {
            WF_TRY(push_order(ctx, top->node));
            depth--;
            continue;
        }
        wf_node *in = top->node->in[top->next++].node;
        if (in->mark == ctx->core.epoch) {
            in->uses++;
            continue;
        }
        in->mark = ctx->core.epoch;
        in->uses = 1;
        if (is_leaf(in)) {
            WF_TRY(push_order(ctx, in));
            continue;
        }
        if (depth == ctx->cap_walk)
            WF_TRY(wf_grow((void **)&ctx->walk, &ctx->cap_walk, depth + 1, sizeof *ctx->walk));
        ctx->walk[depth++] = (wf_walk){in, 0};
    }
    return WEFT_OK;
}

/* ---- the key ---- */

/* The key is built of 64-bit words, most of them extents and strides: plain stores, no calls. */
static inline uint64_t *put_words(uint64_t *p, const int64_t *src, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        p[i] = (uint64_t)src[i];
    return p + n;
}

enum { VIEW_WORDS = 2 + 2 * WEFT_MAX_RANK, NODE_WORDS = 1 + WEFT_MAX_RANK + sizeof(wf_attrs) / 8 };

/* Are the strides those of a row-major tensor of this shape? */
static inline bool is_row_major(const wf_view *v)
{
    int64_t stride = 1;
    for (int k = v->rank - 1; k >= 0; k--) {
        if (v->strides[k] != stride && v->shape[k] != 1)
            return false;
        stride *= v->shape[k];
    }
    return true;
}

static inline bool has_shape_of(const wf_view *v, const wf_node *n)
{
    if (v->rank != n->rank)
        return false;
    for (int k = 0; k < v->rank; k++)
        if (v->shape[k] != n->shape[k])
            return false;
    return true;
}

static uint64_t *key_leaf(weft_ctx *ctx, uint64_t *p, wf_node *n, size_t i)
{
    bool steal = n->handles == 0 && n->refs == n->uses && n->storage->refs == 1 && !n->storage->borrowed;
    ctx->stealable[i] = steal;
    if (n->storage->trial)
        ctx->trial = n->storage->trial;
    *p++ = (uint64_t)n->storage->layout << 1 | steal;
    return put_words(p, n->shape, n->rank);
}

/* Most inputs are whole results, and most others row-major; what follows from that is not written. A key is
 * written, hashed and compared at every step, so its length is time. */
static uint64_t *key_input(uint64_t *p, const wf_value *in)
{
    enum { STRIDED, ROW_MAJOR, WHOLE };
    const wf_view *v = &in->view;
    uint64_t kind = STRIDED;
    if (is_row_major(v))
        kind = has_shape_of(v, in->node) ? WHOLE : ROW_MAJOR; /* so many elements in order: the offset is 0 */
    *p++ = (uint64_t)(uint32_t)in->node->topo | (uint64_t)v->rank << 32 | kind << 40;
    if (kind == WHOLE)
        return p;
    *p++ = (uint64_t)v->offset;
    p = put_words(p, v->shape, v->rank);
    return kind == ROW_MAJOR ? p : put_words(p, v->strides, v->rank);
}

static uint64_t *key_node(uint64_t *p, const wf_node *n)
{
    p = put_words(p, n->shape, n->rank);
    for (size_t i = 0; i < WF_COUNT(n->attrs.raw); i++)
        *p++ = n->attrs.raw[i];
    for (int j = 0; j < n->n_in; j++)
        p = key_input(p, &n->in[j]);
    return p;
}

static weft_status build_key(weft_ctx *ctx, int n_targets)
{
    size_t bound = 1 + (size_t)n_targets;
    for (size_t i = 0; i < ctx->n_order; i++)
        bound += NODE_WORDS + (size_t)ctx->order[i]->n_in * VIEW_WORDS;
    if (ctx->n_order > ctx->cap_stealable)
        WF_TRY(wf_grow((void **)&ctx->stealable, &ctx->cap_stealable, ctx->n_order, sizeof *ctx->stealable));
    if (bound * 8 > ctx->key.cap)
        WF_TRY(wf_grow((void **)&ctx->key.ptr, &ctx->key.cap, bound * 8, 1));
    uint64_t *base = (uint64_t *)(void *)ctx->key.ptr, *p = base;
    *p++ = ctx->n_order | (uint64_t)(ctx->tune_off ? 0 : ctx->tuned.generation) << 32;
    for (size_t i = 0; i < ctx->n_order; i++) {
        wf_node *n = ctx->order[i];
        uint64_t stored = n->storage != NULL;
        *p++ = n->op | (uint64_t)n->dtype << 16 | (uint64_t)n->n_in << 24 | (uint64_t)n->rank << 32 | stored << 40;
        ctx->stealable[i] = false;
        p = n->storage ? key_leaf(ctx, p, n, i) : key_node(p, n);
    }
    for (int i = 0; i < n_targets; i++)
        *p++ = (uint64_t)ctx->targets[i];
    ctx->key.len = (size_t)(p - base) * 8;
    return WEFT_OK;
}

/* ---- the cache ---- */

static wf_plan *find_plan(weft_ctx *ctx, wf_hash128 h)
{
    for (wf_plan *p = ctx->plans[h.lo % WF_PLAN_BUCKETS]; p; p = p->next)
        if (p->hash.lo == h.lo && p->hash.hi == h.hi && p->key_bytes == ctx->key.len && memcmp(p->key, ctx->key.ptr, p->key_bytes) == 0)
            return p;
    return NULL;
}

static void evict_oldest(weft_ctx *ctx)
{
    wf_plan **oldest = NULL;
    for (int b = 0; b < WF_PLAN_BUCKETS; b++)
        for (wf_plan **p = &ctx->plans[b]; *p; p = &(*p)->next)
            if (!oldest || (*p)->last_used < (*oldest)->last_used)
                oldest = p;
    if (!oldest)
        return;
    wf_plan *dead = *oldest;
    *oldest = dead->next;
    ctx->n_plans--;
    wf_plan_destroy(ctx, dead);
}

/* What every compilation of a context has. */
static wf_compile_env env_of(weft_ctx *ctx)
{
    return (wf_compile_env){.dev = ctx->dev, .programs = &ctx->programs, .host = ctx->dev->caps.runs_wgsl ? wf_ctx_host : NULL, .user = ctx,
                            .texts = &ctx->texts, .no_fuse = ctx->no_fuse, .tuned = ctx->tune_off ? NULL : &ctx->tuned};
}

/* Its static words, on the device. */
static weft_status upload_statics(weft_ctx *ctx, wf_plan *p)
{
    if (!p->static_bytes)
        return WEFT_OK;
    weft_status st = wf_buffer_new(ctx, p->static_bytes, &p->static_buffer);
    if (st == WEFT_OK)
        st = ctx->dev->vt->write(ctx->dev, p->static_buffer, 0, p->statics, p->static_bytes);
    ctx->stats.static_uploads++;
    ctx->stats.bytes_up += p->static_bytes;
    return st;
}

static weft_status make_plan(weft_ctx *ctx, wf_hash128 h, int n_targets, wf_plan **out)
{
    wf_compile_env env = env_of(ctx);
    env.fallback_is_error = ctx->fallback_is_error;
    env.record = ctx->check != NULL;
    wf_plan *p;
    uint64_t begin = wf_now_ns();
    WF_TRY(wf_compile(&env, ctx->order, (int32_t)ctx->n_order, ctx->stealable, ctx->targets, n_targets, &p));
    weft_status st = WEFT_OK;
    p->key = wf_alloc(ctx->key.len);
    if (!p->key)
        st = wf_fail_oom(ctx->key.len);
    if (st == WEFT_OK)
        st = upload_statics(ctx, p);
    if (st != WEFT_OK) {
        wf_plan_destroy(ctx, p);
        return st;
    }
    memcpy(p->key, ctx->key.ptr, ctx->key.len);
    p->key_bytes = ctx->key.len;
    p->hash = h;
    if (ctx->n_plans >= WF_PLANS_MAX)
        evict_oldest(ctx);
    p->next = ctx->plans[h.lo % WF_PLAN_BUCKETS];
    ctx->plans[h.lo % WF_PLAN_BUCKETS] = p;
    ctx->n_plans++;
    ctx->stats.plans_built++;
    wf_trace_add(&ctx->trace, "compile", "compile", begin, wf_now_ns());
    wf_log(WEFT_LOG_DEBUG, "compile: %zu nodes to %u commands in %.1f ms, %u of them on the CPU", ctx->n_order, p->n_cmds,
           (double)(wf_now_ns() - begin) * 1e-6, p->n_fallbacks);
    *out = p;
    return WEFT_OK;
}

static void add_target(weft_ctx *ctx, const wf_node *n, int *n_targets)
{
    bool again = n->storage != NULL;
    for (int j = 0; j < *n_targets && !again; j++)
        again = ctx->targets[j] == n->topo;
    if (!again)
        ctx->targets[(*n_targets)++] = n->topo;
}

/* The order and the targets of an evaluation, and their key. */
static weft_status prepare(weft_ctx *ctx, wf_node *const *nodes, int n, int *out)
{
    int n_targets = 0, n_taps = wf_taps_count(ctx);
    *out = 0;
    ctx->trial = NULL;
    ctx->core.epoch++;
    ctx->n_order = 0;
    if ((size_t)n + (size_t)n_taps > ctx->cap_targets)
        WF_TRY(wf_grow((void **)&ctx->targets, &ctx->cap_targets, (size_t)n + (size_t)n_taps, sizeof *ctx->targets));
    for (int i = 0; i < n; i++)
        if (!nodes[i]->storage)
            WF_TRY(collect(ctx, nodes[i]));
    for (int i = 0; i < n; i++)
        add_target(ctx, nodes[i], &n_targets);
    for (int i = 0; i < n_taps; i++) {
        const wf_node *named = wf_taps_node(ctx, i);
        if (named->mark == ctx->core.epoch)
            add_target(ctx, named, &n_targets);
    }
    *out = n_targets;
    return n_targets ? build_key(ctx, n_targets) : WEFT_OK;
}

static weft_status compile_trial(weft_ctx *ctx, int n_targets, char *why, wf_explain *x)
{
    wf_compile_env env = env_of(ctx);
    env.why = why;
    env.explain = x;
    wf_plan *p = NULL;
    WF_TRY(wf_compile(&env, ctx->order, (int32_t)ctx->n_order, ctx->stealable, ctx->targets, n_targets, &p));
    wf_plan_free(p);
    return WEFT_OK;
}

weft_status wf_eval_trial(weft_ctx *ctx, wf_node *const *nodes, int n, char *why)
{
    int n_targets;
    WF_TRY(prepare(ctx, nodes, n, &n_targets));
    return n_targets ? compile_trial(ctx, n_targets, why, NULL) : WEFT_OK;
}

weft_status wf_eval_explain(weft_ctx *ctx, wf_node *const *nodes, int n, wf_explain *x)
{
    int n_targets;
    WF_TRY(prepare(ctx, nodes, n, &n_targets));
    return n_targets ? compile_trial(ctx, n_targets, NULL, x) : WEFT_OK;
}

weft_status wf_eval_warm(weft_ctx *ctx, wf_node *const *nodes, int n, wf_pending *pending)
{
    int n_targets;
    WF_TRY(prepare(ctx, nodes, n, &n_targets));
    if (n_targets == 0 || ctx->trial)
        return WEFT_OK;
    wf_hash128 h = wf_hash(ctx->key.ptr, ctx->key.len, 1);
    wf_plan *plan = find_plan(ctx, h);
    if (plan)
        return WEFT_OK;
    ctx->programs.pending = pending;
    weft_status st = compile_trial(ctx, n_targets, NULL, NULL);
    ctx->programs.pending = NULL;
    if (st != WEFT_OK || pending->n)
        return st;
    WF_TRY(make_plan(ctx, h, n_targets, &plan));
    plan->last_used = ++ctx->clock;
    return WEFT_OK;
}

weft_status wf_eval_compile_pass(weft_ctx *ctx, int n_targets, wf_tune_pass *pass, wf_plan **out)
{
    wf_compile_env env = env_of(ctx);
    wf_plan *p = NULL;
    env.tuned = NULL;
    env.pass = pass;
    WF_TRY(wf_compile(&env, ctx->order, (int32_t)ctx->n_order, ctx->stealable, ctx->targets, n_targets, &p));
    weft_status st = upload_statics(ctx, p);
    if (st == WEFT_OK)
        *out = p;
    else
        wf_plan_destroy(ctx, p);
    return st;
}

weft_status wf_eval_tune(weft_ctx *ctx, wf_node *const *nodes, int n, wf_tune *t)
{
    int n_targets;
    WF_TRY(prepare(ctx, nodes, n, &n_targets));
    return n_targets && !ctx->trial ? wf_tune_graph(ctx, t, n_targets) : WEFT_OK;
}

weft_status wf_eval_nodes(weft_ctx *ctx, wf_node *const *nodes, int n, bool *waited)
{
    int n_targets;
    *waited = false;
    WF_TRY(prepare(ctx, nodes, n, &n_targets));
    if (n_targets == 0)
        return WEFT_OK;
    if (ctx->trial)
        return compile_trial(ctx, n_targets, ctx->trial, NULL);
    if (atomic_exchange(&ctx->core.cancel, false))
        return wf_fail(WEFT_E_CANCELLED, "cancelled");
    if (ctx->tune) {
        WF_TRY(wf_tune_graph(ctx, ctx->tune, n_targets));
        WF_TRY(build_key(ctx, n_targets)); /* what it found is part of the key */
    }
    if (ctx->explain)
        WF_TRY(compile_trial(ctx, n_targets, NULL, ctx->explain));
    wf_hash128 h = wf_hash(ctx->key.ptr, ctx->key.len, 1);
    wf_plan *plan = find_plan(ctx, h);
    if (plan)
        ctx->stats.plans_reused++;
    else
        WF_TRY(make_plan(ctx, h, n_targets, &plan));
    plan->last_used = ++ctx->clock;
    ctx->stats.evals++;
    wf_buffers_age(&ctx->buffers);
    return wf_plan_run(ctx, plan, waited);
}

weft_status wf_check_tensors(const char *who, weft_tensor *const *tensors, int n)
{
    if (n < 1 || !tensors)
        return wf_fail(WEFT_E_CONTEXT, "%s: %d tensors", who, n);
    for (int i = 0; i < n; i++) {
        if (!tensors[i])
            return wf_fail(WEFT_E_CONTEXT, "%s: tensor %d is NULL", who, i);
        if (tensors[i]->status != WEFT_OK)
            return wf_fail(tensors[i]->status, "%s", weft_tensor_message(tensors[i]));
        if (tensors[i]->ctx != tensors[0]->ctx)
            return wf_fail(WEFT_E_CONTEXT, "%s: tensors %d and 0 belong to different contexts", who, i);
    }
    return WEFT_OK;
}

weft_status weft_eval(weft_tensor *const *tensors, int n)
{
    wf_node *few[16], **nodes = few;
    if (n < 0 || (n && !tensors))
        return wf_fail(WEFT_E_VALUE, "eval: %d tensors", n);
    if (n == 0)
        return WEFT_OK;
    WF_TRY(wf_check_tensors("eval", tensors, n));
    weft_ctx *ctx = tensors[0]->ctx;
    if (n > (int)WF_COUNT(few) && !(nodes = wf_alloc(sizeof *nodes * (size_t)n)))
        return wf_fail_oom(sizeof *nodes * (size_t)n);
    weft_status st = wf_ctx_enter(ctx, "eval");
    if (st == WEFT_OK) {
        bool waited;
        for (int i = 0; i < n; i++)
            nodes[i] = tensors[i]->node;
        st = wf_eval_nodes(ctx, nodes, n, &waited);
        wf_ctx_leave(ctx);
    }
    if (nodes != few)
        wf_free(nodes);
    return st;
}
