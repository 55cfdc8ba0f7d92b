/* check.c - WEFT_CHECK: after each kernel of a plan its result is read back and looked at.
 *
 *   WEFT_CHECK=1       the result is computed again on the CPU, one operation a kernel, from what this device gave for the
 *                      operands; the first kernel that differs fails the evaluation and is named.
 *   WEFT_CHECK=finite  the first kernel that wrote a NaN or an infinity fails the evaluation.
 *
 * For finding faults: every kernel is waited for and its operands are copied.
 */
#include <math.h>
#include <stdio.h>

#include "quant.h"
#include "runtime.h"

struct wf_check {
    bool finite;
    weft_ctx *reference;   /* a CPU context that fuses nothing */
    weft_scope *scope;     /* of the evaluation that is checked */
    wf_node **value;       /* by order: a leaf of `reference` with this device's bytes, or a node made of such */
    double *most;          /* by order: the largest finite magnitude of a leaf, else 0 */
    size_t cap_value, cap_most;
    double unit, largest;  /* of the group that is computed again: coarsest unit roundoff, largest operand or product of two */
};

weft_status wf_check_open(const char *how, wf_check **out)
{
    bool finite = strcmp(how, "finite") == 0;
    if (!finite && strcmp(how, "1") != 0)
        return wf_fail(WEFT_E_VALUE, "WEFT_CHECK is \"%.40s\": \"1\" and \"finite\" are known", how);
    *out = wf_calloc(1, sizeof **out);
    if (!*out)
        return wf_fail_oom(sizeof **out);
    (*out)->finite = finite;
    return WEFT_OK;
}

void wf_check_close(wf_check *c)
{
    if (!c)
        return;
    weft_ctx_close(c->reference);
    wf_free(c->value);
    wf_free(c->most);
    wf_free(c);
}

/* ---- bytes ---- */

/* Elements as f64. Integers of 64 bits lose what f64 cannot hold; where that matters, bytes are compared. */
static double element(weft_dtype dtype, const uint8_t *bytes, int64_t i)
{
    switch (dtype) {
    case WEFT_DTYPE_F32: return (double)((const float *)(const void *)bytes)[i];
    case WEFT_DTYPE_F64: return ((const double *)(const void *)bytes)[i];
    case WEFT_DTYPE_F16: return (double)wf_f16_to_f32(((const uint16_t *)(const void *)bytes)[i]);
    case WEFT_DTYPE_BF16: return (double)wf_bf16_to_f32(((const uint16_t *)(const void *)bytes)[i]);
    case WEFT_DTYPE_I32: return ((const int32_t *)(const void *)bytes)[i];
    case WEFT_DTYPE_U32: return ((const uint32_t *)(const void *)bytes)[i];
    case WEFT_DTYPE_I64: return (double)((const int64_t *)(const void *)bytes)[i];
    case WEFT_DTYPE_I8: return ((const int8_t *)bytes)[i];
    default: return bytes[i];
    }
}

static double largest_of(weft_dtype dtype, const uint8_t *bytes, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n && !weft_dtype_is_quantised(dtype); i++) {
        double v = fabs(element(dtype, bytes, i));
        largest = isfinite(v) && v > largest ? v : largest;
    }
    return largest;
}

/* The reference's leaf for node `order`, with the bytes that this device has for it. */
static weft_status set_value(weft_ctx *ctx, int32_t order, const uint8_t *bytes)
{
    const wf_node *n = ctx->order[order];
    weft_tensor *t = weft_tensor_from(ctx->check->reference, (weft_dtype)n->dtype, n->rank, n->shape, bytes);
    if (t->status != WEFT_OK)
        return wf_fail(t->status, "%s", weft_tensor_message(t));
    ctx->check->value[order] = t->node;
    ctx->check->most[order] = largest_of((weft_dtype)n->dtype, bytes, n->numel);
    return WEFT_OK;
}

static weft_status mirror_leaf(weft_ctx *ctx, int32_t order)
{
    const wf_node *n = ctx->order[order];
    const wf_storage *s = n->storage;
    weft_dtype dtype = (weft_dtype)n->dtype;
    size_t plain_bytes = wf_dtype_bytes(dtype, n->numel);
    uint8_t *bytes = wf_alloc(s->size_bytes), *plain = NULL;
    if (!bytes)
        return wf_fail_oom(s->size_bytes);
    weft_status st = wf_read_back(ctx, s->buffer, 0, bytes, s->size_bytes);
    if (st == WEFT_OK && s->layout == WF_LAYOUT_PLANAR) {
        int64_t blocks = n->numel / weft_dtype_block(dtype);
        plain = wf_alloc(plain_bytes);
        st = plain ? wf_quant_from_sections(dtype, blocks, s->section_blocks, bytes, plain, 0, blocks) : wf_fail_oom(plain_bytes);
    }
    if (st == WEFT_OK)
        st = set_value(ctx, order, plain ? plain : bytes);
    wf_free(bytes);
    wf_free(plain);
    return st;
}

/* ---- the same graph on the reference ---- */

static double unit_roundoff(weft_dtype dtype)
{
    if (!weft_dtype_is_float(dtype))
        return 0;
    return dtype == WEFT_DTYPE_F16 ? 0x1p-11 : dtype == WEFT_DTYPE_BF16 ? 0x1p-8 : dtype == WEFT_DTYPE_F64 ? 0x1p-53 : 0x1p-24;
}

/* The node of the reference for node `order`: known, or made like it of its inputs'. The depth is bounded by a group's. */
static wf_node *mirror(weft_ctx *ctx, const wf_plan *plan, int32_t order)
{
    wf_check *c = ctx->check;
    order = plan->same_as[order];
    c->largest = fmax(c->largest, c->most[order]);
    if (c->value[order])
        return c->value[order];
    const wf_node *n = ctx->order[order];
    wf_node *m = wf_node_new(c->reference, n->op, (weft_dtype)n->dtype, n->n_in, n->rank, n->shape);
    if (!m || wf_tensor_new(c->reference, m, NULL)->status != WEFT_OK)
        return NULL;
    c->unit = fmax(c->unit, unit_roundoff((weft_dtype)n->dtype));
    m->attrs = n->attrs;
    if (n->op == WF_OP_LINEAR && ctx->dev->caps.runs_wgsl)
        m->attrs.linear.act_int8 = 0; /* activations stay f32 there */
    m->scalar_bits = n->scalar_bits;
    for (int i = 0; i < n->n_in; i++) {
        wf_node *in = mirror(ctx, plan, n->in[i].node->topo);
        if (!in)
            return NULL;
        wf_node_set_input(m, i, in, &n->in[i].view);
    }
    if (wf_op_table[n->op].klass == WF_CLASS_MATMUL)
        c->largest = fmax(c->largest, c->most[plan->same_as[n->in[0].node->topo]] * c->most[plan->same_as[n->in[1].node->topo]]);
    return c->value[order] = m;
}

weft_status wf_check_begin(weft_ctx *ctx, const wf_plan *plan)
{
    wf_check *c = ctx->check;
    if (c->finite)
        return WEFT_OK;
    if (!c->reference) {
        weft_ctx_opts opts = {.device = "cpu", .n_threads = ctx->n_threads};
        WF_TRY(weft_ctx_open(&opts, &c->reference));
        wf_check_close(c->reference->check);
        c->reference->check = NULL;
        c->reference->no_fuse = true;
        c->reference->dev->caps.unforced = true;
    }
    if (ctx->n_order > c->cap_value)
        WF_TRY(wf_grow((void **)&c->value, &c->cap_value, ctx->n_order, sizeof *c->value));
    if (ctx->n_order > c->cap_most)
        WF_TRY(wf_grow((void **)&c->most, &c->cap_most, ctx->n_order, sizeof *c->most));
    memset(c->value, 0, sizeof *c->value * ctx->n_order);
    memset(c->most, 0, sizeof *c->most * ctx->n_order);
    c->scope = weft_scope_begin(c->reference);
    if (!c->scope)
        return wf_fail_oom(sizeof c->scope);
    for (int32_t i = 0; i < plan->n_leaves; i++)
        WF_TRY(mirror_leaf(ctx, plan->leaf_order[i]));
    return WEFT_OK;
}

void wf_check_end(weft_ctx *ctx)
{
    weft_scope_end(ctx->check->scope);
    ctx->check->scope = NULL;
}

/* ---- comparing ---- */

/* Where a result is wrong, as a sentence's beginning: softmax (command 3 of 7, [4, 100] of f32, written by "softmax") at [1, 2] */
static void describe(const weft_ctx *ctx, const wf_plan *plan, const wf_plan_result *r, int64_t at, char *buf, size_t size)
{
    const wf_node *n = ctx->order[r->order];
    wf_view v;
    char shape[200] = "", index[200] = "[";
    if (wf_view_contiguous("check", n->rank, n->shape, &v) == WEFT_OK)
        wf_view_format(&v, shape, sizeof shape);
    size_t len = 1;
    int64_t place[WEFT_MAX_RANK];
    for (int k = n->rank - 1; k >= 0; at /= n->shape[k--])
        place[k] = at % n->shape[k];
    for (int k = 0; k < n->rank && len < sizeof index - 24; k++)
        len += (size_t)snprintf(index + len, sizeof index - len, "%s%lld", k ? ", " : "", (long long)place[k]);
    snprintf(index + len, sizeof index - len, "]");
    snprintf(buf, size, "%s (command %u of %u, %s of %s, written by \"%s\") at %s", wf_op_table[n->op].name, r->last_cmd + 1, plan->n_cmds, shape,
             weft_dtype_name((weft_dtype)n->dtype), r->label, index);
}

/* Elements folded into one of the result. */
static double folded(const wf_node *n)
{
    int64_t most = n->numel;
    for (int i = 0; i < n->n_in; i++)
        most = WF_MAX(most, wf_view_numel(&n->in[i].view));
    if (wf_op_table[n->op].klass == WF_CLASS_MATMUL && n->n_in > 0 && n->in[0].view.rank > 0)
        return (double)n->in[0].view.shape[n->in[0].view.rank - 1];
    return (double)(n->numel ? most / n->numel : 1);
}

/* Two roundings of every fold and some of every function, of the coarsest dtype of the group, relative to the largest value or operand:
 * loose beside what a wrong index, a lost term or a race does. */
static weft_status compare(const weft_ctx *ctx, const wf_plan *plan, const wf_plan_result *r, const uint8_t *got, const uint8_t *want)
{
    const wf_node *n = ctx->order[r->order];
    weft_dtype dtype = (weft_dtype)n->dtype;
    if (memcmp(got, want, wf_dtype_bytes(dtype, n->numel)) == 0)
        return WEFT_OK;
    const bool floats = weft_dtype_is_float(dtype);
    const size_t size = weft_dtype_block_bytes(dtype);
    double allowed = 0, largest = fmax(ctx->check->largest, largest_of(dtype, want, n->numel));
    if (floats)
        allowed = (64 + 2 * folded(n)) * fmax(ctx->check->unit, unit_roundoff(dtype)) * largest + 0x1p-126;
    for (int64_t i = 0; i < n->numel; i++) {
        double g = element(dtype, got, i), w = element(dtype, want, i);
        bool same = floats ? g == w || (isnan(g) && isnan(w)) || fabs(g - w) <= allowed : memcmp(got + (size_t)i * size, want + (size_t)i * size, size) == 0;
        if (same)
            continue;
        char what[700];
        describe(ctx, plan, r, i, what, sizeof what);
        return wf_fail(WEFT_E_INTERNAL, "WEFT_CHECK: %s is %.9g, on the CPU reference %.9g (allowed %.3g)", what, g, w, allowed);
    }
    return WEFT_OK;
}

static weft_status check_finite(const weft_ctx *ctx, const wf_plan *plan, const wf_plan_result *r, const uint8_t *got)
{
    const wf_node *n = ctx->order[r->order];
    for (int64_t i = 0; i < n->numel && weft_dtype_is_float((weft_dtype)n->dtype) && !r->constant; i++) {
        double v = element((weft_dtype)n->dtype, got, i);
        if (isfinite(v))
            continue;
        char what[700];
        describe(ctx, plan, r, i, what, sizeof what);
        return wf_fail(WEFT_E_NONFINITE, "WEFT_CHECK: %s is %g", what, v);
    }
    return WEFT_OK;
}

static uint32_t buffer_of(const weft_ctx *ctx, const wf_plan *plan, const wf_plan_result *r)
{
    return r->kind == WF_MEM_LEAF ? plan->leaf_buffer[r->index] : r->kind == WF_MEM_OUT ? plan->out_buffer[r->index] : ctx->arena[r->index];
}

static weft_status check_result(weft_ctx *ctx, const wf_plan *plan, const wf_plan_result *r)
{
    wf_check *c = ctx->check;
    const wf_node *n = ctx->order[r->order];
    size_t size = wf_dtype_bytes((weft_dtype)n->dtype, n->numel);
    uint8_t *got = wf_alloc((size_t)wf_align_up(size, 4)), *want = NULL;
    if (!got)
        return wf_fail_oom(size);
    weft_status st = wf_read_back(ctx, buffer_of(ctx, plan, r), r->offset, got, wf_align_up(size, 4));
    if (st == WEFT_OK && c->finite)
        st = check_finite(ctx, plan, r, got);
    if (st == WEFT_OK && !c->finite) {
        c->unit = c->largest = 0;
        wf_node *m = mirror(ctx, plan, r->order);
        want = wf_alloc(size);
        st = m && want ? WEFT_OK : wf_fail_oom(size);
        if (st == WEFT_OK)
            st = weft_read(wf_tensor_new(c->reference, m, NULL), want, size);
        if (st == WEFT_OK)
            st = compare(ctx, plan, r, got, want);
        if (st == WEFT_OK) /* what follows is computed from this device's values */
            st = set_value(ctx, r->order, got);
    }
    wf_free(got);
    wf_free(want);
    return st;
}

weft_status wf_check_after(weft_ctx *ctx, const wf_plan *plan, uint32_t cmd)
{
    for (uint32_t i = 0; i < plan->n_results; i++)
        if (plan->results[i].last_cmd == cmd)
            WF_TRY(check_result(ctx, plan, &plan->results[i]));
    return WEFT_OK;
}
