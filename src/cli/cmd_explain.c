/* cmd_explain.c - weft explain: the kernels of a prompt or of one step of decoding, and why these. */
#include "cli.h"

#include <stdlib.h>

static int write_out(const char *html, const char *text)
{
    cli_file f;
    if (!html)
        return fputs(text, stdout) < 0 || fflush(stdout) != 0 ? cli_fail("standard output cannot be written") : CLI_OK;
    int code = cli_file_begin(html, &f);
    if (code != CLI_OK)
        return code;
    if (fputs(text, f.stream) < 0)
        code = cli_fail("%s cannot be written", html);
    return cli_file_end(&f, code);
}

/* The evaluation of the last n of the prompt's tokens. */
static int explain(cli_session *s, size_t n, const weft_explain_opts *opts, const char *html)
{
    weft_tensor *logits = NULL;
    char *text = NULL;
    size_t before = s->n_ids - n;
    weft_status st = WEFT_OK;
    if (before)
        st = weft_session_step(s->session, s->ids, (int64_t)before, false, &logits);
    weft_tensor_release(logits);
    logits = NULL;
    if (st == WEFT_OK)
        st = weft_explain_begin(s->ctx);
    if (st == WEFT_OK)
        st = weft_session_step(s->session, s->ids + before, (int64_t)n, false, &logits);
    weft_tensor_release(logits);
    if (st == WEFT_OK)
        st = weft_explain_end(s->ctx, opts, &text);
    int code = st == WEFT_OK ? write_out(html, text) : cli_fail_last();
    weft_explain_free(text);
    return code;
}

int cmd_explain(int argc, char **argv)
{
    cli_model_args a = {0};
    const char *model, *html = NULL;
    bool json = false, wgsl = false, whole = false;
    const cli_option options[] = {
        CLI_MODEL_OPTIONS(a),
        {"--prefill", CLI_FLAG, &whole, 0, 0, NULL, "explain the whole prompt at once instead of the step of its last token"},
        {"--wgsl", CLI_FLAG, &wgsl, 0, 0, NULL, "with the text of each shader"},
        {"--html", CLI_STR, &html, 0, 0, "FILE", "write one page with the graph of kernels drawn"},
        {"--json", CLI_FLAG, &json, 0, 0, NULL, "print {device, dispatches, copies, fallbacks, flops, bytes, arena_bytes, largest_live_bytes, kernels}"},
    };
    int code = cli_parse(cli_command_named("explain"), argc, argv, options, sizeof options / sizeof options[0], &model, 1, 1);
    if (code != CLI_OK)
        return code == CLI_HELP ? CLI_OK : code;
    if (json && html)
        return cli_usage("explain: --json and --html exclude each other");
    if (!a.prompt && !a.prompt_file)
        a.prompt = "Once upon a time";
    cli_session s;
    if ((code = cli_session_open(&a, model, &s)) != CLI_OK)
        return code;
    const weft_explain_opts opts = {.format = json ? WEFT_EXPLAIN_JSON : html ? WEFT_EXPLAIN_HTML : WEFT_EXPLAIN_TEXT, .wgsl = wgsl};
    code = s.n_ids ? explain(&s, whole ? s.n_ids : 1, &opts, html) : cli_fail("the prompt has no tokens");
    cli_session_close(&s);
    return code;
}
