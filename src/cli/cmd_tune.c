/* cmd_tune.c - weft tune: measure the rows of the kernels that a model's prompt and step of decoding run. */
#include "cli.h"

static bool show(void *user, const weft_tune_progress *p)
{
    (void)user;
    cli_progress(p->operation, p->total ? (double)p->done / p->total : 0);
    return !cli_interrupted();
}

/* The prompt but its last token as one evaluation, then that token as a step of decoding does it. */
static weft_status evaluate(cli_session *s)
{
    weft_tensor *logits = NULL;
    weft_status st = WEFT_OK;
    if (s->n_ids > 1)
        st = weft_session_step(s->session, s->ids, (int64_t)s->n_ids - 1, false, &logits);
    weft_tensor_release(logits);
    logits = NULL;
    if (st == WEFT_OK)
        st = weft_session_step(s->session, s->ids + s->n_ids - 1, 1, false, &logits);
    weft_tensor_release(logits);
    return st;
}

static int tune(cli_session *s, const weft_tune_opts *opts)
{
    char *text = NULL;
    weft_status st = weft_tune_begin(s->ctx, opts);
    if (st == WEFT_OK)
        st = evaluate(s);
    cli_progress(NULL, -1);
    if (st == WEFT_OK)
        st = weft_tune_end(s->ctx, &text);
    int code = st != WEFT_OK ? cli_fail_last() : fputs(text, stdout) < 0 || fflush(stdout) != 0 ? cli_fail("standard output cannot be written") : CLI_OK;
    weft_tune_free(text);
    return code;
}

int cmd_tune(int argc, char **argv)
{
    cli_model_args a = {0};
    const char *model;
    bool json = false, again = false;
    double budget = 0;
    int64_t repeats = 0;
    const cli_option options[] = {
        CLI_MODEL_OPTIONS(a),
        {"--budget", CLI_REAL, &budget, 0, 1e6, "SECONDS", "begin no kernel after this long (default 30)"},
        {"--repeats", CLI_INT, &repeats, 0, 1000, "N", "times each row is timed; the fastest counts (default 5)"},
        {"--again", CLI_FLAG, &again, 0, 0, NULL, "measure what was measured before, too"},
        {"--json", CLI_FLAG, &json, 0, 0, NULL, "print {device, seconds, measured, complete, kernels}"},
    };
    int code = cli_parse(cli_command_named("tune"), argc, argv, options, sizeof options / sizeof options[0], &model, 1, 1);
    if (code != CLI_OK)
        return code == CLI_HELP ? CLI_OK : code;
    if (!a.prompt && !a.prompt_file)
        a.prompt = "Once upon a time";
    cli_session s;
    if ((code = cli_session_open(&a, model, &s)) != CLI_OK)
        return code;
    const weft_tune_opts opts = {.budget_s = budget, .repeats = (int)repeats, .again = again, .format = json ? WEFT_TUNE_JSON : WEFT_TUNE_TEXT, .progress = show};
    cli_interrupt_begin(s.ctx);
    code = s.n_ids ? tune(&s, &opts) : cli_fail("the prompt has no tokens");
    cli_interrupt_end();
    cli_session_close(&s);
    return code;
}
