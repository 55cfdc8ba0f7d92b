/* supports.c - would an operation run on the context's own device? Asked of the compiler itself, with leaves that
 * have no bytes.
 */
#include "build.h"
#include "quant.h"
#include "runtime.h"
#include "weft/apply.h"

static void release_nothing(wf_storage *s) { wf_free(s); }

/* A leaf that can be compiled with, not run. What evaluates while it is recorded, since its shape follows from values, reads ones. */
static weft_tensor *blank_leaf(weft_ctx *ctx, const weft_operand *o, char *why)
{
    wf_view v;
    weft_tensor *fail;
    if (!wf_dtype_known(o->dtype))
        return wf_tensor_error(ctx, WEFT_E_DTYPE, "device_supports: dtype number %d is unknown", (int)o->dtype);
    if (wf_view_contiguous("device_supports", o->rank, o->shape, &v) != WEFT_OK)
        return wf_tensor_error_last(ctx, WEFT_E_SHAPE);
    if (!wf_enter_ctx("device_supports", ctx, &fail))
        return fail;
    wf_storage *storage = wf_calloc(1, sizeof *storage);
    wf_node *n = storage ? wf_node_new(ctx, WF_OP_LEAF, o->dtype, 0, v.rank, v.shape) : NULL;
    if (!n) {
        wf_free(storage);
        return wf_leave(ctx, wf_tensor_error(ctx, WEFT_E_OOM, "device_supports: out of memory"));
    }
    *storage = (wf_storage){.refs = 1, .layout = ctx->dev->caps.runs_wgsl && weft_dtype_is_quantised(o->dtype) ? WF_LAYOUT_PLANAR : WF_LAYOUT_PLAIN,
                            .size_bytes = wf_dtype_bytes(o->dtype, wf_view_numel(&v)), .ctx = ctx, .release = release_nothing, .trial = why};
    if (storage->layout == WF_LAYOUT_PLANAR) {
        int64_t unit = weft_dtype_block(o->dtype), row = o->rank ? o->shape[o->rank - 1] / unit : 1;
        storage->section_blocks = wf_quant_section_blocks(o->dtype, wf_view_numel(&v) / unit, row, ctx->dev->caps.max_binding_bytes);
        storage->size_bytes = wf_quant_sections_bytes(o->dtype, wf_view_numel(&v) / unit, storage->section_blocks);
    }
    n->storage = storage;
    return wf_leave(ctx, wf_tensor_new(ctx, n, NULL));
}

/* Operations without operands have no leaf that makes it a trial. */
static weft_status try_outputs(weft_ctx *ctx, const weft_outputs *out, char *why)
{
    wf_node *nodes[WEFT_MAX_OUTPUTS];
    for (int i = 0; i < out->n; i++) {
        if (out->tensor[i]->status != WEFT_OK)
            return wf_fail(out->tensor[i]->status, "%s", weft_tensor_message(out->tensor[i]));
        nodes[i] = out->tensor[i]->node;
    }
    WF_TRY(wf_ctx_enter(ctx, "device_supports"));
    weft_status st = wf_eval_trial(ctx, nodes, out->n, why);
    wf_unlock(&ctx->core.lock);
    return st;
}

weft_status weft_device_supports(weft_ctx *ctx, const char *name, const weft_operand *operands, int n, const weft_attrs *attributes,
                                 weft_support *out)
{
    weft_tensor *in[WEFT_MAX_OUTPUTS];
    if (!out || n < 0 || n > WEFT_MAX_OUTPUTS || (n && !operands))
        return wf_fail(WEFT_E_VALUE, "device_supports: %d operands, or no room for the answer", n);
    *out = (weft_support){.native = false};
    weft_scope *scope = weft_scope_begin(ctx);
    if (!scope)
        return wf_fail(WEFT_E_CONTEXT, "device_supports: no open context");
    weft_status st = WEFT_OK;
    for (int i = 0; i < n && st == WEFT_OK; i++) {
        in[i] = blank_leaf(ctx, &operands[i], out->reason);
        if (in[i]->status != WEFT_OK)
            st = wf_fail(in[i]->status, "%s", weft_tensor_message(in[i]));
    }
    weft_outputs *results = st == WEFT_OK ? wf_alloc(sizeof *results) : NULL;
    if (st == WEFT_OK && !results)
        st = wf_fail_oom(sizeof *results);
    if (st == WEFT_OK)
        st = weft_apply(ctx, name, in, n, attributes, results);
    if (st == WEFT_OK)
        st = try_outputs(ctx, results, out->reason);
    wf_free(results);
    weft_scope_end(scope);
    out->native = st == WEFT_OK && out->reason[0] == '\0';
    return st;
}
