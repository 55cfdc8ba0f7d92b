/* cmd_run.c - weft run: the prompt is echoed, the continuation streams, then a table on standard error. */
#include "cli.h"

#include <stdlib.h>
#include <time.h>

typedef struct run_state {
    cli_session s;
    cli_stream out;
    bool drop_space; /* the next text begins the output: its leading space belongs to the tokenizer */
    bool json;
    size_t n_new, n_prompt_bytes;
    int32_t *ids; /* what on_token saw, so that an interrupted run still has its ids */
    size_t cap;
    double first_at;
} run_state;

static bool on_token(void *user, int32_t id, const char *bytes, size_t n)
{
    run_state *r = user;
    cli_progress(NULL, -1);
    if (r->n_new == 0)
        r->first_at = cli_now();
    if (r->n_new == r->cap) {
        size_t cap = 2 * r->cap + 64;
        int32_t *p = realloc(r->ids, cap * sizeof *p);
        if (!p)
            return false;
        r->ids = p;
        r->cap = cap;
    }
    r->ids[r->n_new++] = id;
    if (r->drop_space && n > 0) {
        if (bytes[0] == ' ') {
            bytes++;
            n--;
        }
        r->drop_space = false;
    }
    cli_stream_add(&r->out, bytes, n);
    return !ferror(stdout);
}

static bool on_progress(void *user, const char *phase, uint64_t done, uint64_t total)
{
    (void)user;
    if (phase[0] == 'p')
        cli_progress("prompt", done == total ? -1 : (double)done / (double)total);
    return !cli_interrupted();
}

static double rate(size_t n, double s)
{
    return n > 0 && s > 0 ? (double)n / s : 0;
}

/* The first new token comes out of the prompt's evaluation; the rate is of the steps after it. */
static size_t n_steps(const run_state *r, const weft_generate_result *g)
{
    return r->n_new > 0 ? r->n_new - 1 + (g->stop_id >= 0) : 0;
}

/* "12.3", or a dash where nothing was measured. */
static const char *rate_text(size_t n, double s, char room[32])
{
    if (rate(n, s) > 0)
        snprintf(room, 32, "%.1f", rate(n, s));
    else
        snprintf(room, 32, "-");
    return room;
}

static json_t *rate_json(size_t n, double s) { return rate(n, s) > 0 ? json_real(rate(n, s)) : json_null(); }

static void print_table(const run_state *r, const weft_generate_result *g, uint64_t seed)
{
    weft_stats st = {0};
    char host[32], device[32], speed[32];
    weft_ctx_stats(r->s.ctx, &st);
    cli_format_bytes(cli_peak_memory(), host);
    cli_format_bytes(st.bytes_peak, device);
    fprintf(stderr, "\n  device      %s (%s, %s)\n", r->s.device.name, r->s.device.spec, r->s.device.implementation);
    fprintf(stderr, "  load        %.2f s\n", r->s.load_s);
    fprintf(stderr, "  prompt      %zu tokens, %s tokens/s\n", r->s.n_ids, rate_text(r->s.n_ids, g->prompt_s, speed));
    fprintf(stderr, "  generation  %zu tokens, %s tokens/s (seed %llu)\n", r->n_new, rate_text(n_steps(r, g), g->generate_s, speed),
            (unsigned long long)seed);
    fprintf(stderr, "  memory      %s peak of the process, %s peak on the device\n", host, device);
}

static json_t *to_json(const run_state *r, const weft_generate_result *g, uint64_t seed, bool cancelled)
{
    weft_stats st = {0};
    const char *text = r->out.text ? r->out.text : "";
    weft_ctx_stats(r->s.ctx, &st);
    return json_pack("{s:o, s:o, s:o, s:o, s:i, s:b, s:o, s:{s:f, s:f, s:f, s:o, s:o}, s:{s:o, s:o, s:o, s:o}, s:{s:I, s:I}, s:o}",
                     "prompt_ids", cli_json_ids(r->s.ids, r->s.n_ids), "ids", cli_json_ids(r->ids, r->n_new), "text",
                     cli_json_text(text, r->out.len), "continuation",
                     cli_json_text(text + r->n_prompt_bytes, r->out.len - r->n_prompt_bytes), "stop_id", (int)g->stop_id, "cancelled",
                     (int)cancelled, "seed", cli_json_u64(seed), "timings", "load_s", r->s.load_s, "prompt_s", g->prompt_s,
                     "generate_s", g->generate_s, "prompt_tokens_per_s", rate_json(r->s.n_ids, g->prompt_s), "tokens_per_s",
                     rate_json(n_steps(r, g), g->generate_s), "device", "spec", cli_json_str(r->s.device.spec), "kind", cli_json_str(r->s.device.kind),
                     "name", cli_json_str(r->s.device.name), "implementation", cli_json_str(r->s.device.implementation), "memory", "host_peak_bytes",
                     (json_int_t)cli_peak_memory(), "device_peak_bytes", (json_int_t)st.bytes_peak, "stats", cli_json_stats(r->s.ctx));
}

/* -n 0: the prompt is run and nothing is generated. */
static weft_status only_prompt(run_state *r, weft_generate_result *g)
{
    weft_tensor *logits = NULL;
    double start = cli_now();
    weft_status st = weft_session_step(r->s.session, r->s.ids, (int64_t)r->s.n_ids, false, &logits);
    weft_tensor_release(logits);
    g->prompt_s = cli_now() - start;
    return st;
}

static int generate(run_state *r, int64_t n, const weft_sampling *sampling)
{
    weft_generate_result g = {.stop_id = -1};
    weft_generate_opts opts = {.max_tokens = n, .sampling = *sampling, .tokenizer = r->s.tokenizer,
                               .on_token = on_token, .user = r, .progress = on_progress, .progress_user = r};
    double start = cli_now();
    weft_status st = n == 0 ? only_prompt(r, &g) : weft_session_generate(r->s.session, r->s.ids, r->s.n_ids, &opts, &g);
    bool cancelled = st == WEFT_E_CANCELLED;
    cli_progress(NULL, -1);
    if (st != WEFT_OK && !cancelled) {
        if (!r->json && r->out.len)
            fputc('\n', stdout);
        return cli_fail_last();
    }
    if (cancelled) { /* what there is: timings from what on_token saw */
        g.prompt_s = (r->n_new ? r->first_at : cli_now()) - start;
        g.generate_s = r->n_new ? cli_now() - r->first_at : 0;
    }
    cli_stream_flush(&r->out);
    int code = CLI_OK;
    if (r->json) {
        code = cli_json_print(to_json(r, &g, sampling->seed, cancelled));
    } else {
        fputc('\n', stdout);
        fflush(stdout);
        print_table(r, &g, sampling->seed);
    }
    weft_ids_free(g.ids);
    return cancelled ? cli_fail("cancelled after %zu tokens", r->n_new) : code;
}

static uint64_t fresh_seed(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return ((uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec) & 0xFFFFFFFFu;
}

int cmd_run(int argc, char **argv)
{
    cli_model_args a = {0};
    int64_t n = 256, top_k = 40, repeat_last = 64;
    double temp = 0.8, top_p = 0.95, min_p = 0, penalty = 1;
    uint64_t seed = fresh_seed();
    bool json = false;
    const char *model;
    const cli_option options[] = {
        CLI_MODEL_OPTIONS(a),
        {"-n", CLI_INT, &n, 0, 2147483647.0, "N", "at most N new tokens (default 256)"},
        {"--temp", CLI_REAL, &temp, 0, 1e6, "T", "temperature (default 0.8; 0 is greedy)"},
        {"--top-k", CLI_INT, &top_k, 0, 2147483647.0, "K", "draw from the K likeliest (default 40; 0: all)"},
        {"--top-p", CLI_REAL, &top_p, 0, 1, "P", "draw from the likeliest with this much probability (default 0.95)"},
        {"--min-p", CLI_REAL, &min_p, 0, 1, "P", "draw from those with at least P of the best probability (default 0)"},
        {"--repeat-penalty", CLI_REAL, &penalty, 0, 1e6, "R", "lower the logits of recent tokens (default 1: off)"},
        {"--repeat-last", CLI_INT, &repeat_last, 1, 2147483647.0, "N", "tokens the penalty looks back (default 64)"},
        {"--seed", CLI_U64, &seed, 0, 0, "S", "seed of the draws (default: from the clock); --json prints one above 2^63 - 1 as a string"},
        {"--json", CLI_FLAG, &json, 0, 0, NULL, "print one JSON object instead of the text"},
    };
    int code = cli_parse(cli_command_named("run"), argc, argv, options, sizeof options / sizeof options[0], &model, 1, 1);
    if (code != CLI_OK)
        return code == CLI_HELP ? CLI_OK : code;
    run_state r = {.json = json};
    a.reserve = n;
    if ((code = cli_session_open(&a, model, &r.s)) != CLI_OK)
        return code;
    weft_sampling sampling = {(float)temp, (int)top_k, (float)top_p, (float)min_p, (float)penalty, (int)repeat_last, seed};
    r.out.out = json ? NULL : stdout;
    r.drop_space = r.s.prompt_len == 0 && weft_tokenizer_space_prefix(r.s.tokenizer);
    cli_stream_add(&r.out, r.s.prompt, r.s.prompt_len);
    r.n_prompt_bytes = r.out.len;
    code = generate(&r, n, &sampling);
    cli_stream_free(&r.out);
    free(r.ids);
    cli_session_close(&r.s);
    return code;
}
