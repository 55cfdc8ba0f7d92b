/* bench_decode.c - prompt and decode rates of a llama-shaped model of 168 million random weights,
 * a usual size for comparing runtimes on small machines. The file is made by the program itself. */
#include "bench.h"

#include <stdlib.h>
#include <unistd.h>

enum { PROMPT = 512, STEPS = 64 };

typedef struct decode_case {
    const char *type;
    bool int8;
} decode_case;
static const decode_case cases[] = {{"f16", false}, {"q8_0", false}, {"q8_0", true}, {"q4_0", false}, {"q4_0", true}};

static int make(const char *path, const char *type)
{
    char *args[] = {(char *)path, "--layers", "12", "--width", "1024", "--heads", "16", "--kv-heads", "4", "--ffn", "2816",
                    "--vocab", "32000", "--type", (char *)type};
    return cmd_make_model(sizeof args / sizeof args[0], args);
}

static bool keep_going(void *user, const char *phase, uint64_t done, uint64_t total)
{
    (void)user, (void)phase, (void)done, (void)total;
    return !cli_interrupted();
}

/* One prompt and one generation from an empty cache. */
static weft_status once(weft_session *s, const int32_t *ids, int n, double *prompt_rate, double *decode_rate)
{
    weft_generate_result r = {0};
    weft_generate_opts opts = {.max_tokens = STEPS + 1, .progress = keep_going};
    weft_status st = weft_session_truncate(s, 0);
    if (st == WEFT_OK)
        st = weft_session_generate(s, ids, (size_t)n, &opts, &r);
    if (st != WEFT_OK)
        return st;
    size_t steps = r.n_ids > 0 ? r.n_ids - 1 + (r.stop_id >= 0) : 0;
    *prompt_rate = r.prompt_s > 0 ? n / r.prompt_s : 0;
    *decode_rate = r.generate_s > 0 ? (double)steps / r.generate_s : 0;
    weft_ids_free(r.ids);
    return WEFT_OK;
}

static weft_status measure(bench_run *run, weft_model *model, const char *what, bool prompt, bool decode)
{
    weft_session *s = NULL;
    weft_model_info info;
    int32_t ids[PROMPT];
    char name[96];
    double p = 0, d = 0;
    weft_status st = weft_model_describe(model, &info);
    if (st == WEFT_OK)
        st = weft_session_create(model, &(weft_session_opts){.context_length = PROMPT + STEPS + 8}, &s);
    if (st != WEFT_OK)
        return st;
    for (int i = 0; i < PROMPT; i++)
        ids[i] = 300 + i * 37 % (info.vocab_size - 300);
    snprintf(name, sizeof name, "prompt %d tokens, 168M %s", PROMPT, what);
    bench_row *prompts = prompt ? bench_add(run, name, "tokens/s", BENCH_NO_LIMIT) : NULL;
    snprintf(name, sizeof name, "decode %d tokens, 168M %s", STEPS, what);
    bench_row *steps = decode ? bench_add(run, name, "tokens/s", BENCH_READ) : NULL;
    if (steps)
        steps->bytes_per_unit = (double)info.weight_bytes;
    for (int r = 0; st == WEFT_OK && r < 4; r++) { /* the first run warms up */
        st = once(s, ids, prompts ? PROMPT : 8, &p, &d);
        if (st == WEFT_OK && r > 0 && prompts)
            prompts->samples[prompts->n_samples++] = p;
        if (st == WEFT_OK && r > 0 && steps)
            steps->samples[steps->n_samples++] = d;
    }
    if (prompts)
        bench_done(run, prompts, st);
    if (steps)
        bench_done(run, steps, st);
    weft_session_destroy(s);
    return st;
}

int bench_decode(bench_run *run)
{
    int code = CLI_OK;
    const char *dir = getenv("TMPDIR");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0] && code == CLI_OK && !cli_interrupted(); i++) {
        char what[64], prompt[96], decode[96], path[512];
        snprintf(what, sizeof what, "%s%s", cases[i].type, cases[i].int8 ? ", int8 activations" : "");
        snprintf(prompt, sizeof prompt, "prompt %d tokens, 168M %s", PROMPT, what);
        snprintf(decode, sizeof decode, "decode %d tokens, 168M %s", STEPS, what);
        bool want_prompt = bench_wanted(run, "decode", prompt), want_decode = bench_wanted(run, "decode", decode);
        if (!want_prompt && !want_decode)
            continue;
        snprintf(path, sizeof path, "%s/weft-bench-XXXXXX", dir && *dir ? dir : "/tmp");
        int fd = mkstemp(path);
        if (fd < 0)
            return cli_fail("bench: cannot make a file in %s", dir && *dir ? dir : "/tmp");
        close(fd);
        code = make(path, cases[i].type);
        weft_model *model = NULL;
        if (code == CLI_OK) {
            weft_status st = weft_model_load(run->ctx, path, &(weft_model_opts){.act_int8 = cases[i].int8}, &model);
            if (st == WEFT_OK)
                st = measure(run, model, what, want_prompt, want_decode);
            if (st != WEFT_OK)
                code = cli_fail("bench: decode %s: %s", what, weft_error_message());
        }
        weft_model_close(model);
        unlink(path);
    }
    return code;
}
