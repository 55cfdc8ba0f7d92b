/* explain_notes.c - notes of what lowering made, kernel by kernel. */
#include "explain_notes.h"

#include "rows_reduce.h"

#include <stdio.h>

enum { MAX_NAMES = 40 };

static void kernel_free(wf_explain_kernel *k)
{
    wf_free(k->row);
    wf_free(k->ops);
    wf_free(k->result);
    wf_free(k->passed);
    wf_free(k->chosen);
    wf_free(k->host_why);
    wf_free(k->reads);
    wf_str_free(&k->wgsl);
}

void wf_explain_reset(wf_explain *x)
{
    for (size_t i = 0; i < x->n; i++)
        kernel_free(&x->kernels[i]);
    wf_free(x->kernels);
    wf_str_free(&x->wgsl);
    memset(x, 0, sizeof *x);
}

void wf_explain_wgsl(wf_explain *x, const char *text) { wf_str_add(&x->wgsl, text); }

/* The operations of a group, producers first: "mul, add, relu". */
static void name_operations(const wf_cgraph *g, int32_t root, wf_str *out)
{
    int named = 0, left = 0;
    for (int32_t i = 0; i <= root; i++) {
        if (g->nodes[i].group != root || g->nodes[i].kind == WF_CK_LEAF)
            continue;
        if (named == MAX_NAMES) {
            left++;
            continue;
        }
        wf_str_addf(out, "%s%s", named++ ? ", " : "", wf_op_table[g->nodes[i].op].name);
    }
    if (left)
        wf_str_addf(out, " and %d more", left);
}

/* Work of one node: one operation an element, two a term of a product, five an element of a softmax or norm. */
static int64_t node_flops(const wf_cnode *n)
{
    switch (wf_op_table[n->op].klass) {
    case WF_CLASS_ELEMENTWISE: return n->op == WF_OP_COPY || n->op == WF_OP_CAST ? 0 : n->numel;
    case WF_CLASS_REDUCE: return wf_view_numel(&n->in[0].view);
    case WF_CLASS_ROW: return 5 * n->numel;
    case WF_CLASS_MATMUL: {
        int64_t after = n->op == WF_OP_LINEAR ? (n->attrs.linear.has_bias != 0) + (n->attrs.linear.activation != WEFT_ACT_NONE) : 0;
        return n->numel * (2 * n->in[0].view.shape[n->in[0].view.rank - 1] + after);
    }
    default: return 0;
    }
}

typedef struct totals {
    int32_t *src;   /* what the group reads, each once */
    int64_t *count; /* elements of it that it needs at most */
    int n, cap;
} totals;

static weft_status add_read(totals *t, int32_t src, int64_t count)
{
    for (int i = 0; i < t->n; i++)
        if (t->src[i] == src) {
            t->count[i] += count;
            return WEFT_OK;
        }
    if (t->n == t->cap) {
        size_t a = (size_t)t->cap, b = a;
        WF_TRY(wf_grow((void **)&t->src, &a, (size_t)t->n + 1, sizeof *t->src));
        WF_TRY(wf_grow((void **)&t->count, &b, (size_t)t->n + 1, sizeof *t->count));
        t->cap = (int)WF_MIN(a, b);
    }
    t->src[t->n] = src;
    t->count[t->n++] = count;
    return WEFT_OK;
}

/* What a use of `src` needs of it: all that the view shows, but no more of a table than the result takes out. */
static int64_t needed(const wf_cnode *user, int i)
{
    int64_t n = wf_view_numel(&user->in[i].view);
    bool picks = wf_op_table[user->op].klass == WF_CLASS_INDEXED && i == 0;
    return picks ? WF_MIN(n, user->numel) : n;
}

static weft_status count_work(const wf_cgraph *g, int32_t root, wf_explain_kernel *k, totals *t)
{
    for (int32_t i = 0; i <= root; i++) {
        const wf_cnode *n = &g->nodes[i];
        if (n->group != root || n->kind == WF_CK_LEAF)
            continue;
        k->flops += n->kind == WF_CK_COMPUTE ? node_flops(n) : 0;
        for (int j = 0; j < n->n_in; j++)
            if (g->nodes[n->src[j]].materialised)
                WF_TRY(add_read(t, n->src[j], needed(n, j)));
    }
    k->bytes = (int64_t)wf_dtype_bytes((weft_dtype)g->nodes[root].dtype, g->nodes[root].numel);
    for (int i = 0; i < t->n; i++) {
        const wf_cnode *s = &g->nodes[t->src[i]];
        int64_t block = weft_dtype_block((weft_dtype)s->dtype), n = WF_MIN(t->count[i], s->numel);
        k->bytes += (n + block - 1) / block * (int64_t)weft_dtype_block_bytes((weft_dtype)s->dtype);
    }
    return WEFT_OK;
}

static int32_t kernel_of(const wf_explain *x, int32_t node)
{
    for (size_t i = x->n; i-- > 0;)
        if (x->kernels[i].root == node)
            return (int32_t)i;
    return -1;
}

static void describe_result(const wf_cnode *n, char *buf, size_t size)
{
    wf_view v;
    char shape[160] = "?";
    if (wf_view_contiguous("explain", n->rank, n->shape, &v) == WEFT_OK)
        wf_view_format(&v, shape, sizeof shape);
    snprintf(buf, size, "%s %s", shape, weft_dtype_name((weft_dtype)n->dtype));
}

weft_status wf_explain_group(wf_explain *x, const wf_lowering *l, int32_t root, uint32_t first_cmd)
{
    const wf_cgraph *g = &l->s->g;
    const wf_cnode *n = &g->nodes[root];
    wf_explain_kernel k = {.root = root, .n_cmds = (uint32_t)l->n_cmds - first_cmd, .host = l->host && l->n_cmds > first_cmd};
    wf_str ops = WF_STR_INIT;
    char result[200];
    totals t = {0};
    if (!k.n_cmds)
        return WEFT_OK;
    name_operations(g, root, &ops);
    describe_result(n, result, sizeof result);
    weft_status st = count_work(g, root, &k, &t);
    if (n->op == WF_OP_SLICE_UPDATE && memcmp(&l->mem[root], &l->mem[n->src[0]], sizeof *l->mem) == 0) {
        const wf_cnode *dst = &g->nodes[n->src[0]]; /* in place: what is written is the part alone */
        int64_t size = (int64_t)weft_dtype_block_bytes((weft_dtype)n->dtype);
        k.bytes -= (n->numel + dst->numel - wf_view_numel(&n->in[1].view)) * size;
    }
    wf_op anchor = (wf_op)g->nodes[n->anchor >= 0 ? n->anchor : root].op;
    bool by_row = wf_op_table[anchor].klass == WF_CLASS_MATMUL || wf_op_table[anchor].klass == WF_CLASS_SPECIAL;
    bool reduces = !by_row && l->caps->runs_wgsl && wf_reduce_is(&l->code.kir);
    if (anchor == WF_OP_SDPA)
        k.flops += l->choice.flops;
    k.copy = n->op == WF_OP_COPY && n->kind == WF_CK_COMPUTE;
    memcpy(k.grid, l->cmds[l->n_cmds - 1].grid, sizeof k.grid);
    k.row = wf_strdup(by_row ? l->labels[l->n_cmds - 1] : reduces && !k.host ? wf_reduce_row_name(l->code.kir.strategy) : "generated");
    k.ops = wf_strdup(ops.ptr ? ops.ptr : "");
    k.result = wf_strdup(result);
    k.passed = wf_strdup(by_row ? l->choice.passed : "");
    k.chosen = wf_strdup(l->chosen);
    k.host_why = wf_strdup(k.host ? x->host_why : "");
    k.reads = wf_alloc(sizeof *k.reads * (size_t)(t.n + 1));
    for (int i = 0; i < t.n && k.reads; i++)
        k.reads[k.n_reads++] = kernel_of(x, t.src[i]);
    k.wgsl = x->wgsl;
    x->wgsl = (wf_str)WF_STR_INIT;
    if (st == WEFT_OK && (!k.row || !k.ops || !k.result || !k.passed || !k.chosen || !k.host_why || !k.reads || ops.oom || k.wgsl.oom))
        st = wf_fail_oom(sizeof k);
    wf_str_free(&ops);
    wf_free(t.src);
    wf_free(t.count);
    if (st == WEFT_OK)
        st = wf_grow((void **)&x->kernels, &x->cap, x->n + 1, sizeof *x->kernels);
    if (st == WEFT_OK)
        x->kernels[x->n++] = k;
    else
        kernel_free(&k);
    return st;
}

void wf_explain_totals(wf_explain *x, const wf_plan *plan)
{
    x->seen = true;
    x->dispatches = plan->n_dispatches;
    x->copies = plan->n_copies;
    x->fallbacks = plan->n_fallbacks;
    x->largest_live = plan->largest_live;
    for (int a = 0; a < WF_MAX_ARENAS; a++)
        x->arena_bytes += plan->arena_bytes[a];
}
