/* cli.h - what the commands of the weft program share. Public headers only. */
#ifndef WEFT_CLI_H
#define WEFT_CLI_H

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "weft/model.h"
#include "weft/weft.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The program: what main() calls, and what a host process (Python with its own WebGPU library) calls.
 * Returns the exit code: 0 done, 1 failed, 2 wrong usage. */
WEFT_API int weft_main(int argc, char **argv);
/* The same on a WebGPU implementation that the host loaded: its wgpuGetProcAddress. */
WEFT_API int weft_main_with_webgpu(int argc, char **argv, void *webgpu_get_proc);

#ifdef __cplusplus
}
#endif

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* ---- options: a table a command ---- */
typedef enum cli_kind { CLI_FLAG, CLI_STR, CLI_INT, CLI_U64, CLI_REAL } cli_kind;
typedef struct cli_option {
    const char *name;  /* "--temp" or "-p"; a second spelling is a row of its own without help */
    cli_kind kind;
    void *value;       /* bool, const char *, int64_t, uint64_t, double */
    double low, high;  /* CLI_INT and CLI_REAL: the range allowed */
    const char *argument, *help;
} cli_option;

typedef struct cli_command {
    const char *name, *usage, *summary;
    int (*run)(int argc, char **argv);
} cli_command;
extern const cli_command cli_commands[];
extern const int cli_n_commands;

/* Fills options and up to max_positional others. Returns CLI_OK, CLI_USAGE (one line was printed), or
 * CLI_HELP (help was printed and the command should return 0). */
enum { CLI_HELP = 100 };
int cli_parse(const cli_command *cmd, int argc, char **argv, const cli_option *options, int n_options, const char **positional,
              int min_positional, int max_positional);
const cli_command *cli_command_named(const char *name);

int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));  /* prints "weft: ..", returns CLI_FAILED */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2))); /* the same, returns CLI_USAGE */
int cli_fail_last(void); /* with the library's sentence */

/* ---- commands ---- */
int cmd_run(int argc, char **argv);
int cmd_score(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_tune(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_make_model(int argc, char **argv);

/* ---- prompt and model, shared by run and score ---- */
typedef struct cli_model_args {
    const char *device, *tokenizer_path, *prompt, *prompt_file, *trace, *act, *config;
    int64_t threads, context, reserve; /* reserve: tokens wanted after the prompt */
} cli_model_args;
#define CLI_MODEL_OPTIONS(a)                                                                                         \
    {"-p", CLI_STR, &(a).prompt, 0, 0, "TEXT", "the prompt"},                                                        \
    {"--prompt", CLI_STR, &(a).prompt, 0, 0, NULL, NULL},                                                            \
    {"--prompt-file", CLI_STR, &(a).prompt_file, 0, 0, "FILE", "read the prompt from a file"},                      \
    {"--tokenizer", CLI_STR, &(a).tokenizer_path, 0, 0, "FILE", "take the vocabulary from this GGUF file"},          \
    {"--config", CLI_STR, &(a).config, 0, 0, "FILE", "config.json of a safetensors model (default: beside it)"},     \
    {"--ctx", CLI_INT, &(a).context, 0, 2147483647.0, "N", "tokens the cache holds (default: what the call needs, within the trained context)"},       \
    {"--act", CLI_STR, &(a).act, 0, 0, "f32|int8", "type of activations in quantised matrices (default f32)"},       \
    {"--device", CLI_STR, &(a).device, 0, 0, "SPEC", "auto, cpu, webgpu, webgpu:N or null"},                         \
    {"--threads", CLI_INT, &(a).threads, 0, 1024, "N", "CPU threads (0: what the process may use)"},                 \
    {"--trace", CLI_STR, &(a).trace, 0, 0, "FILE", "write a Chrome trace of the submits"}

typedef struct cli_session {
    weft_ctx *ctx;
    weft_model *model;
    weft_tokenizer *own_tokenizer;
    const weft_tokenizer *tokenizer;
    weft_session *session;
    char *prompt_owned;
    const char *prompt;
    size_t prompt_len;
    int32_t *ids;
    size_t n_ids;
    double load_s;
    weft_device_info device;
} cli_session;
/* Reads the prompt, opens the device, loads the model, tokenizes. Prints and returns a code on failure. */
int cli_session_open(const cli_model_args *a, const char *model_path, cli_session *out);
void cli_session_close(cli_session *s);
weft_ctx_opts cli_ctx_opts(const char *device, int64_t threads, const char *trace);
const char *cli_cache_dir(void); /* WEFT_CACHE_DIR, else the user's cache folder, else ""; "": nothing is kept */
extern void *cli_webgpu_get_proc; /* set by weft_main_with_webgpu */

/* Ctrl-C cancels the action of the context that runs; a second one ends the program as usual. */
void cli_interrupt_begin(weft_ctx *ctx);
void cli_interrupt_end(void);
bool cli_interrupted(void);

/* ---- output ---- */
/* Bytes of UTF-8 in pieces: whole sequences go out, an unfinished one waits. */
typedef struct cli_stream {
    FILE *out; /* NULL: only collect */
    char held[4];
    size_t n_held;
    char *text; /* everything, for JSON */
    size_t len, cap;
    bool failed;
} cli_stream;
void cli_stream_add(cli_stream *s, const char *bytes, size_t n);
void cli_stream_flush(cli_stream *s);
void cli_stream_free(cli_stream *s);

/* A file that is complete or not there: cli_file_begin opens `stream`; every begin that returned CLI_OK
 * needs its cli_file_end, which keeps the file when `code` is CLI_OK and returns the code. */
typedef struct cli_file {
    FILE *stream;
    bool beside; /* it is written as `part` and renamed */
    char path[PATH_MAX], part[PATH_MAX];
} cli_file;
int cli_file_begin(const char *path, cli_file *out);
int cli_file_end(cli_file *f, int code);

bool cli_utf8_valid(const char *s, size_t n, size_t *bad_at);
json_t *cli_json_text(const char *bytes, size_t n); /* invalid bytes become U+FFFD */
json_t *cli_json_str(const char *s);                /* the same, of a string that may be cut inside a sequence */
json_t *cli_json_u64(uint64_t n);                   /* exact: a number to 2^63 - 1, a string of digits from there on */
int cli_json_print(json_t *root);                   /* one line on stdout; frees root */
json_t *cli_json_ids(const int32_t *ids, size_t n);
json_t *cli_json_stats(weft_ctx *ctx);
void cli_progress(const char *what, double share); /* on stderr when it is a terminal; share < 0 clears */
size_t cli_peak_memory(void);                      /* peak resident bytes of the process */
double cli_now(void);                              /* seconds, monotonic */
void cli_format_bytes(uint64_t n, char out[32]);

#endif
