/* explain_calls.c - weft_explain: of lazy tensors, or of what runs between begin and end. */
#include "explain_page.h"
#include "runtime.h"

static weft_status render(weft_ctx *ctx, const wf_explain *x, const weft_explain_opts *opts, char **out)
{
    static const weft_explain_opts plain;
    wf_str text = WF_STR_INIT;
    wf_explain_render(x, &ctx->dev->caps.info, opts ? opts : &plain, &text);
    if (text.oom) {
        wf_str_free(&text);
        return wf_fail_oom(text.len);
    }
    *out = text.ptr;
    return WEFT_OK;
}

static weft_status check_opts(const weft_explain_opts *opts, char **out)
{
    if (!out)
        return wf_fail(WEFT_E_CONTEXT, "explain: the result pointer is NULL");
    if (opts && (unsigned)opts->format > WEFT_EXPLAIN_HTML)
        return wf_fail(WEFT_E_VALUE, "explain: format %d is none of text, JSON, HTML", (int)opts->format);
    return WEFT_OK;
}

static weft_status explain_locked(weft_ctx *ctx, weft_tensor *const *tensors, int n, const weft_explain_opts *opts, char **out)
{
    wf_explain x = {0};
    wf_node **nodes = wf_alloc(sizeof *nodes * (size_t)n);
    if (!nodes)
        return wf_fail_oom(sizeof *nodes * (size_t)n);
    for (int i = 0; i < n; i++)
        nodes[i] = tensors[i]->node;
    weft_status st = wf_eval_explain(ctx, nodes, n, &x);
    if (st == WEFT_OK)
        st = render(ctx, &x, opts, out);
    wf_explain_reset(&x);
    wf_free(nodes);
    return st;
}

weft_status weft_explain(weft_tensor *const *tensors, int n, const weft_explain_opts *opts, char **out)
{
    WF_TRY(check_opts(opts, out));
    WF_TRY(wf_check_tensors("explain", tensors, n));
    weft_ctx *ctx = tensors[0]->ctx;
    WF_TRY(wf_ctx_enter(ctx, "explain"));
    weft_status st = explain_locked(ctx, tensors, n, opts, out);
    wf_unlock(&ctx->core.lock);
    return st;
}

weft_status weft_explain_begin(weft_ctx *ctx)
{
    WF_TRY(wf_ctx_enter(ctx, "explain_begin"));
    weft_status st = WEFT_OK;
    if (!ctx->explain)
        ctx->explain = wf_calloc(1, sizeof *ctx->explain);
    if (ctx->explain)
        wf_explain_reset(ctx->explain);
    else
        st = wf_fail_oom(sizeof *ctx->explain);
    wf_unlock(&ctx->core.lock);
    return st;
}

weft_status weft_explain_end(weft_ctx *ctx, const weft_explain_opts *opts, char **out)
{
    WF_TRY(check_opts(opts, out));
    WF_TRY(wf_ctx_enter(ctx, "explain_end"));
    weft_status st = WEFT_OK;
    if (!ctx->explain || !ctx->explain->seen)
        st = wf_fail(WEFT_E_VALUE, ctx->explain ? "explain_end: nothing was evaluated since explain_begin" : "explain_end without explain_begin");
    else
        st = render(ctx, ctx->explain, opts, out);
    wf_explain_drop(ctx);
    wf_unlock(&ctx->core.lock);
    return st;
}

void wf_explain_drop(weft_ctx *ctx)
{
    if (!ctx->explain)
        return;
    wf_explain_reset(ctx->explain);
    wf_free(ctx->explain);
    ctx->explain = NULL;
}

void weft_explain_free(char *text) { wf_free(text); }
