/* weft_main.c - the table of commands, --help and --version. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>

void *cli_webgpu_get_proc;

const cli_command cli_commands[] = {
    {"run", "MODEL [options]", "continue a prompt with a language model", cmd_run},
    {"score", "MODEL -p TEXT [options]", "how likely a text is: negative log-likelihood of each token", cmd_score},
    {"explain", "MODEL [options]", "the kernels that a step of a model runs, and why these", cmd_explain},
    {"tune", "MODEL [options]", "measure which kernels are fastest here for a model's steps", cmd_tune},
    {"tokenize", "FILE -p TEXT [options]", "text to token ids", cmd_tokenize},
    {"info", "FILE [options]", "what a GGUF or safetensors file holds", cmd_info},
    {"devices", "[options]", "every device that can be opened here", cmd_devices},
    {"bench", "[SUITE] [options]", "speed of kernels and of decoding, as a share of this machine's limits", cmd_bench},
    {"make-model", "OUT [options]", "write a llama-shaped GGUF file of random weights", cmd_make_model},
};
const int cli_n_commands = sizeof cli_commands / sizeof cli_commands[0];

const cli_command *cli_command_named(const char *name)
{
    for (int i = 0; i < cli_n_commands; i++)
        if (strcmp(cli_commands[i].name, name) == 0)
            return &cli_commands[i];
    return NULL;
}

/* One line whatever the text holds: file names and prompts can carry line breaks. */
static void print_line(const char *format, va_list ap)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, ap);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 32)
            *c = ' ';
    cli_progress(NULL, -1);
    fflush(stdout);
    fprintf(stderr, "weft: %s\n", text);
}

int cli_fail(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    print_line(format, ap);
    va_end(ap);
    return CLI_FAILED;
}

int cli_usage(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    print_line(format, ap);
    va_end(ap);
    return CLI_USAGE;
}

int cli_fail_last(void)
{
    const char *m = weft_error_message();
    return cli_fail("%s", m[0] ? m : "failed without a message");
}

static void help(FILE *out)
{
    fputs("usage: weft COMMAND [options]\n\ncommands:\n", out);
    for (int i = 0; i < cli_n_commands; i++)
        fprintf(out, "  %-10s %s\n", cli_commands[i].name, cli_commands[i].summary);
    fputs("\n  weft COMMAND --help   options of a command\n"
          "  weft --version        version of the library\n\n"
          "environment: WEFT_DEVICE WEFT_WEBGPU_LIB WEFT_THREADS WEFT_CACHE_DIR WEFT_LOG (off, error, warn, info, debug)\n"
          "exit codes: 0 done, 1 failed, 2 wrong usage\n",
          out);
}

static const char *const log_names[] = {
    [WEFT_LOG_ERROR] = "error", [WEFT_LOG_WARN] = "warn", [WEFT_LOG_INFO] = "info", [WEFT_LOG_DEBUG] = "debug",
};
enum { N_LOG_NAMES = sizeof log_names / sizeof log_names[0] };

static void log_line(void *user, weft_log_level level, const char *message)
{
    (void)user;
    fprintf(stderr, "weft: %s: %s\n", (unsigned)level < N_LOG_NAMES ? log_names[level] : "log", message);
}

static int set_log(void)
{
    const char *want = getenv("WEFT_LOG");
    if (!want || !*want || !strcmp(want, "off")) {
        weft_set_log(NULL, NULL, WEFT_LOG_ERROR);
        return CLI_OK;
    }
    for (int i = 0; i < N_LOG_NAMES; i++)
        if (strcmp(log_names[i], want) == 0) {
            weft_set_log(log_line, NULL, (weft_log_level)i);
            return CLI_OK;
        }
    return cli_usage("WEFT_LOG is \"%s\", expected off, error, warn, info or debug", want);
}

/* Output that could not be written (a full disk) is a failure; a reader that left is not our error. */
static int finish(int code)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == CLI_OK)
        return cli_fail("standard output could not be written");
    return code;
}

int weft_main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("weft %s\n", weft_version());
        return finish(CLI_OK);
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || (!strcmp(name, "help") && argc == 2)) {
        help(stdout);
        return finish(CLI_OK);
    }
    if (!strcmp(name, "help")) {
        static char flag[] = "--help";
        char *args[3] = {argv[0], argv[2], flag};
        return weft_main(3, args);
    }
    const cli_command *cmd = cli_command_named(name);
    if (!cmd)
        return cli_usage("\"%s\" is no command; see weft --help", name);
    int code = set_log();
    return code == CLI_OK ? finish(cmd->run(argc - 2, argv + 2)) : code;
}

int weft_main_with_webgpu(int argc, char **argv, void *webgpu_get_proc)
{
    cli_webgpu_get_proc = webgpu_get_proc;
    int code = weft_main(argc, argv);
    cli_webgpu_get_proc = NULL;
    return code;
}
