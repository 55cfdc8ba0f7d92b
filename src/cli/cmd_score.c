/* cmd_score.c - weft score: negative log-likelihood of each token of a text, and the logits as .npy. */
#include "cli.h"

#include <stdlib.h>

static int write_logits(const char *path, const cli_session *s, int vocab, const float *logits)
{
    const int64_t shape[2] = {(int64_t)s->n_ids, vocab};
    return weft_npy_write(path, WEFT_DTYPE_F32, 2, shape, logits) == WEFT_OK ? CLI_OK : cli_fail_last();
}

static void print_text(const cli_session *s, const float *nll, double mean)
{
    for (size_t i = 1; i < s->n_ids; i++) {
        const char *bytes = "";
        size_t n = 0;
        weft_token_bytes(s->tokenizer, s->ids[i], true, &bytes, &n);
        printf("%7d  %9.5f  ", s->ids[i], nll[i - 1]);
        for (size_t k = 0; k < n; k++)
            putchar((unsigned char)bytes[k] < 32 ? '.' : bytes[k]);
        putchar('\n');
    }
    printf("mean nll %.6f over %zu tokens, perplexity %.4f\n", mean, s->n_ids - 1, __builtin_exp(mean));
}

static int print_json(const cli_session *s, const float *nll, double mean)
{
    json_t *list = json_array();
    for (size_t i = 1; i < s->n_ids; i++)
        json_array_append_new(list, json_real(nll[i - 1]));
    json_t *m = s->n_ids > 1 ? json_real(mean) : json_null();
    return cli_json_print(json_pack("{s:o, s:o, s:o}", "ids", cli_json_ids(s->ids, s->n_ids), "nll", list, "mean_nll", m));
}

static bool on_progress(void *user, const char *phase, uint64_t done, uint64_t total)
{
    (void)user;
    cli_progress(phase, done == total ? -1 : (double)done / (double)total);
    return !cli_interrupted();
}

static int score(cli_session *s, const char *logits_path, bool json)
{
    const weft_score_opts opts = {.progress = on_progress};
    weft_model_info info;
    double mean = 0;
    size_t n_logits, n_bytes = 0;
    if (weft_model_describe(s->model, &info) != WEFT_OK)
        return cli_fail_last();
    if (__builtin_mul_overflow(s->n_ids, (size_t)info.vocab_size, &n_logits) ||
        __builtin_mul_overflow(n_logits, sizeof(float), &n_bytes))
        return cli_fail("%zu tokens are too many to score", s->n_ids);
    float *nll = malloc(s->n_ids * sizeof *nll), *logits = logits_path ? malloc(n_bytes) : NULL;
    int code = CLI_OK;
    if (!nll || (logits_path && !logits))
        code = cli_fail("out of memory: %zu bytes of logits", n_bytes);
    else if (weft_session_score(s->session, s->ids, s->n_ids, &opts, nll, &mean, logits) != WEFT_OK)
        code = cli_fail_last();
    else if (logits_path)
        code = write_logits(logits_path, s, info.vocab_size, logits);
    if (code == CLI_OK && json)
        code = print_json(s, nll, mean);
    else if (code == CLI_OK)
        print_text(s, nll, mean);
    free(nll);
    free(logits);
    return code;
}

int cmd_score(int argc, char **argv)
{
    cli_model_args a = {0};
    const char *model, *logits = NULL;
    bool json = false;
    const cli_option options[] = {
        CLI_MODEL_OPTIONS(a),
        {"--logits", CLI_STR, &logits, 0, 0, "FILE.npy", "write the logits [tokens, vocabulary] as f32"},
        {"--json", CLI_FLAG, &json, 0, 0, NULL, "print {ids, nll, mean_nll}"},
    };
    int code = cli_parse(cli_command_named("score"), argc, argv, options, sizeof options / sizeof options[0], &model, 1, 1);
    if (code != CLI_OK)
        return code == CLI_HELP ? CLI_OK : code;
    if (!a.prompt && !a.prompt_file)
        return cli_usage("score: a text is needed: -p TEXT or --prompt-file FILE");
    cli_session s;
    if ((code = cli_session_open(&a, model, &s)) != CLI_OK)
        return code;
    code = score(&s, logits, json);
    cli_session_close(&s);
    return code;
}
