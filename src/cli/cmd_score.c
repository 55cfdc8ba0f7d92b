/* cmd_score.c - weft score: negative log-likelihood of each token of a text, and the logits as .npy. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    if (s->n_ids > 1)
        printf("mean nll %.6f over %zu tokens, perplexity %.4f\n", mean, s->n_ids - 1, __builtin_exp(mean));
    else
        printf("no token follows another: nothing to score\n");
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

/* ---- taps: values inside the model, a file each ---- */

typedef struct tap_files {
    const char *dir;
    struct { char name[64]; int times; } *seen; /* a long text is computed in parts: each gives every value */
    int n_seen, capacity, code;
} tap_files;

/* How often this name came before. */
static int times_seen(tap_files *t, const char *name)
{
    int i = 0;
    while (i < t->n_seen && strcmp(t->seen[i].name, name) != 0)
        i++;
    if (i == t->n_seen) {
        if (i == t->capacity) {
            int more = t->capacity ? 2 * t->capacity : 256;
            void *bigger = realloc(t->seen, (size_t)more * sizeof *t->seen);
            if (!bigger)
                return -1;
            t->seen = bigger;
            t->capacity = more;
        }
        t->seen[i].times = 0;
        snprintf(t->seen[t->n_seen++].name, sizeof t->seen[0].name, "%s", name);
    }
    return t->seen[i].times++;
}

static void write_tap(void *user, const char *name, weft_tensor *value)
{
    tap_files *t = user;
    char path[4096];
    size_t n_bytes = (size_t)weft_tensor_numel(value) * sizeof(float);
    if (t->code != CLI_OK)
        return;
    int part = times_seen(t, name);
    char which[16] = "";
    if (part > 0)
        snprintf(which, sizeof which, ".%d", part);
    if (part < 0 || snprintf(path, sizeof path, "%s/%s%s.npy", t->dir, name, which) >= (int)sizeof path) {
        t->code = part < 0 ? cli_fail("out of memory: the names of %d values", t->n_seen)
                           : cli_fail("score: the path of the folder for taps is too long");
        return;
    }
    float *v = malloc(n_bytes ? n_bytes : 1);
    if (!v)
        t->code = cli_fail("out of memory: %zu bytes of %s", n_bytes, name);
    else if (weft_read_as(value, WEFT_DTYPE_F32, v, n_bytes) != WEFT_OK ||
             weft_npy_write(path, WEFT_DTYPE_F32, weft_tensor_rank(value), weft_tensor_shape(value), v) != WEFT_OK)
        t->code = cli_fail_last();
    free(v);
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
    const char *model, *logits = NULL, *tap = NULL;
    tap_files taps = {.dir = "."};
    bool json = false;
    const cli_option options[] = {
        CLI_MODEL_OPTIONS(a),
        {"--logits", CLI_STR, &logits, 0, 0, "FILE.npy", "write the logits [tokens, vocabulary] as f32"},
        {"--tap", CLI_STR, &tap, 0, 0, "NAME", "write this value inside the model, or with a * at the end all that begin so"},
        {"--tap-dir", CLI_STR, &taps.dir, 0, 0, "DIR", "where: NAME.npy, f32 (default: here); further parts of a long text NAME.1.npy and so on"},
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
    struct stat at;
    if (tap && (stat(taps.dir, &at) != 0 || !S_ISDIR(at.st_mode)))
        code = cli_fail("score: --tap-dir: %s is not a folder", taps.dir);
    else if (tap && weft_tap(s.ctx, tap, write_tap, &taps) != WEFT_OK)
        code = cli_fail_last();
    if (code == CLI_OK)
        code = score(&s, logits, json);
    if (code == CLI_OK && taps.code != CLI_OK)
        code = taps.code;
    if (code == CLI_OK && tap && !taps.n_seen)
        code = cli_fail("score: no value of the model is named \"%s\": there are embed, blk.N.{attn_norm,q,attn,attn_out,ffn_norm,gate,up,ffn_out,out}, norm, logits", tap);
    cli_session_close(&s);
    free(taps.seen);
    return code;
}
