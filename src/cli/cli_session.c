/* cli_session.c - from arguments to a loaded model and the ids of the prompt; and Ctrl-C. */
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

/* ---- Ctrl-C ---- */
static volatile sig_atomic_t interrupted;
static weft_ctx *volatile interrupt_ctx;
static void (*previous)(int);

static void on_interrupt(int sig)
{
    if (interrupted) { /* the second one: end as programs do */
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    interrupted = 1;
    weft_ctx *ctx = interrupt_ctx;
    if (ctx)
        weft_cancel(ctx);
}

void cli_interrupt_begin(weft_ctx *ctx)
{
    interrupted = 0;
    interrupt_ctx = ctx;
    previous = signal(SIGINT, on_interrupt);
}

void cli_interrupt_end(void)
{
    if (interrupt_ctx)
        signal(SIGINT, previous == SIG_ERR ? SIG_DFL : previous);
    interrupt_ctx = NULL;
}

bool cli_interrupted(void)
{
    return interrupted != 0;
}

/* ---- prompt ---- */
static int read_prompt_file(const char *path, cli_session *s)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t cap = 0;
    int code = CLI_OK;
    if (!f)
        return cli_fail("%s: %s", path, strerror(errno));
    for (;;) {
        if (cap - s->prompt_len < 4096) {
            cap = 2 * cap + 65536;
            char *p = realloc(s->prompt_owned, cap);
            if (!p) {
                code = cli_fail("out of memory: %zu bytes for the prompt", cap);
                break;
            }
            s->prompt_owned = p;
        }
        size_t n = fread(s->prompt_owned + s->prompt_len, 1, cap - s->prompt_len, f);
        s->prompt_len += n;
        if (n == 0)
            break;
    }
    if (code == CLI_OK && ferror(f))
        code = cli_fail("%s: %s", path, strerror(errno));
    if (f != stdin)
        fclose(f);
    s->prompt = s->prompt_owned;
    return code;
}

static int take_prompt(const cli_model_args *a, cli_session *s)
{
    size_t bad;
    if (a->prompt && a->prompt_file)
        return cli_usage("-p and --prompt-file exclude each other");
    if (a->prompt_file) {
        int code = read_prompt_file(a->prompt_file, s);
        if (code != CLI_OK)
            return code;
    } else {
        s->prompt = a->prompt ? a->prompt : "";
        s->prompt_len = strlen(s->prompt);
    }
    if (!cli_utf8_valid(s->prompt, s->prompt_len, &bad))
        return cli_fail("the prompt is not valid UTF-8: byte %zu is 0x%02x", bad, (unsigned char)s->prompt[bad]);
    return CLI_OK;
}

/* ---- model ---- */
static bool load_progress(void *user, const char *phase, uint64_t done, uint64_t total)
{
    (void)user;
    (void)phase;
    cli_progress("loading", total ? (double)done / (double)total : 0);
    return !cli_interrupted();
}

static int load_tokenizer(const char *path, cli_session *s)
{
    weft_file *file;
    if (weft_file_open(path, &file) != WEFT_OK)
        return cli_fail_last();
    weft_status st = weft_tokenizer_from_file(file, &s->own_tokenizer);
    weft_file_close(file);
    if (st != WEFT_OK)
        return cli_fail_last();
    s->tokenizer = s->own_tokenizer;
    return CLI_OK;
}

static int tokenize_prompt(cli_session *s)
{
    weft_tokenize_opts opts = {.parse_special = true};
    weft_model_info info;
    if (weft_tokenize(s->tokenizer, s->prompt, s->prompt_len, &opts, &s->ids, &s->n_ids) != WEFT_OK)
        return cli_fail_last();
    if (s->n_ids == 0 && weft_tokenizer_bos(s->tokenizer) >= 0) { /* something must be there to continue */
        weft_ids_free(s->ids);
        s->ids = NULL;
        opts.add_bos = 1;
        if (weft_tokenize(s->tokenizer, s->prompt, s->prompt_len, &opts, &s->ids, &s->n_ids) != WEFT_OK)
            return cli_fail_last();
    }
    if (s->n_ids == 0)
        return cli_fail("the prompt has no tokens, and the vocabulary no BOS to begin with");
    if (weft_model_describe(s->model, &info) != WEFT_OK)
        return cli_fail_last();
    for (size_t i = 0; i < s->n_ids; i++)
        if (s->ids[i] >= info.vocab_size)
            return cli_fail("the tokenizer gives id %d, but the model has %d tokens; is --tokenizer of this model?", s->ids[i],
                            info.vocab_size);
    return CLI_OK;
}

/* Tokens the cache must hold: those asked for, else the need in steps of 64 within the trained context. */
static int64_t context_for(const cli_model_args *a, const cli_session *s)
{
    weft_model_info info;
    if (a->context > 0 || weft_model_describe(s->model, &info) != WEFT_OK)
        return a->context;
    int64_t need = ((int64_t)s->n_ids + a->reserve + 63) / 64 * 64;
    return need < info.context_length ? need : info.context_length;
}

/* XDG base directory specification: relative paths there are to be ignored. */
const char *cli_cache_dir(void)
{
    static char path[PATH_MAX];
    const char *asked = getenv("WEFT_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (asked)
        return asked;
    bool named = xdg && xdg[0] == '/';
    if (!named && (!home || home[0] != '/'))
        return "";
    int n = snprintf(path, sizeof path, "%s%s/weft", named ? xdg : home, named ? "" : "/.cache");
    return n > 0 && n < (int)sizeof path - 128 ? path : "";
}

weft_ctx_opts cli_ctx_opts(const char *device, int64_t threads, const char *trace)
{
    return (weft_ctx_opts){.device = device, .n_threads = (int)threads, .trace_path = trace, .cache_dir = cli_cache_dir(),
                           .webgpu_get_proc = cli_webgpu_get_proc};
}

static int open_all(const cli_model_args *a, const char *model_path, cli_session *s)
{
    bool int8 = a->act && strcmp(a->act, "int8") == 0;
    if (a->act && !int8 && strcmp(a->act, "f32") != 0)
        return cli_usage("--act is \"%s\", expected f32 or int8", a->act);
    int code = take_prompt(a, s);
    if (code != CLI_OK)
        return code;
    double start = cli_now();
    weft_ctx_opts ctx_opts = cli_ctx_opts(a->device, a->threads, a->trace);
    if (weft_ctx_open(&ctx_opts, &s->ctx) != WEFT_OK)
        return cli_fail_last();
    cli_interrupt_begin(s->ctx);
    weft_model_opts opts = {.progress = load_progress, .config_path = a->config, .act_int8 = int8};
    weft_status st = weft_model_load(s->ctx, model_path, &opts, &s->model);
    cli_progress(NULL, -1);
    if (st != WEFT_OK || weft_ctx_device(s->ctx, &s->device) != WEFT_OK)
        return cli_fail_last();
    s->tokenizer = weft_model_tokenizer(s->model);
    if (a->tokenizer_path && (code = load_tokenizer(a->tokenizer_path, s)) != CLI_OK)
        return code;
    if (!s->tokenizer)
        return cli_fail("%s holds no tokenizer; name a GGUF file that does with --tokenizer", model_path);
    if ((code = tokenize_prompt(s)) != CLI_OK)
        return code;
    if (weft_session_create(s->model, &(weft_session_opts){.context_length = context_for(a, s)}, &s->session) != WEFT_OK)
        return cli_fail_last();
    if ((int64_t)s->n_ids > weft_session_capacity(s->session)) /* before anything is printed */
        return cli_fail("the prompt has %zu tokens, but the context holds %lld", s->n_ids,
                        (long long)weft_session_capacity(s->session));
    s->load_s = cli_now() - start;
    return CLI_OK;
}

int cli_session_open(const cli_model_args *a, const char *model_path, cli_session *out)
{
    *out = (cli_session){0};
    int code = open_all(a, model_path, out);
    if (code != CLI_OK)
        cli_session_close(out);
    return code;
}

void cli_session_close(cli_session *s)
{
    cli_interrupt_end();
    weft_ids_free(s->ids);
    weft_session_destroy(s->session);
    weft_tokenizer_destroy(s->own_tokenizer);
    weft_model_close(s->model);
    weft_ctx_close(s->ctx);
    free(s->prompt_owned);
    *s = (cli_session){0};
}
