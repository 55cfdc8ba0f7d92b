/* cli_args.c - options from a table: parsing, range checks and the help text. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static void print_help(const cli_command *cmd, const cli_option *options, int n)
{
    printf("usage: weft %s %s\n\n%s\n\noptions:\n", cmd->name, cmd->usage, cmd->summary);
    for (int i = 0; i < n; i++) {
        char left[48];
        if (!options[i].help)
            continue;
        snprintf(left, sizeof left, "%s%s%s", options[i].name, options[i].argument ? " " : "",
                 options[i].argument ? options[i].argument : "");
        printf("  %-24s %s\n", left, options[i].help);
    }
    printf("  %-24s %s\n", "--help", "this text");
}

static int parse_int(const cli_command *cmd, const cli_option *o, const char *text)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno == ERANGE || (double)v < o->low || (double)v > o->high)
        return cli_usage("%s: %s must be a whole number from %.0f to %.0f, got \"%s\"", cmd->name, o->name, o->low, o->high, text);
    *(int64_t *)o->value = v;
    return CLI_OK;
}

static int parse_u64(const cli_command *cmd, const cli_option *o, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (end == text || *end || errno == ERANGE || strchr(text, '-'))
        return cli_usage("%s: %s must be a whole number from 0 to 2^64 - 1, got \"%s\"", cmd->name, o->name, text);
    *(uint64_t *)o->value = v;
    return CLI_OK;
}

static int parse_real(const cli_command *cmd, const cli_option *o, const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !isfinite(v) || v < o->low || v > o->high)
        return cli_usage("%s: %s must be a number from %g to %g, got \"%s\"", cmd->name, o->name, o->low, o->high, text);
    *(double *)o->value = v;
    return CLI_OK;
}

static int set_value(const cli_command *cmd, const cli_option *o, const char *text)
{
    switch (o->kind) {
    case CLI_FLAG: *(bool *)o->value = true; return CLI_OK;
    case CLI_STR: *(const char **)o->value = text; return CLI_OK;
    case CLI_INT: return parse_int(cmd, o, text);
    case CLI_U64: return parse_u64(cmd, o, text);
    case CLI_REAL: return parse_real(cmd, o, text);
    }
    return CLI_USAGE;
}

/* "--name" or "--name=value": *inline_value is the text after '='. */
static const cli_option *find(const cli_option *options, int n, const char *arg, const char **inline_value)
{
    const char *eq = strncmp(arg, "--", 2) == 0 ? strchr(arg, '=') : NULL;
    size_t len = eq ? (size_t)(eq - arg) : strlen(arg);
    *inline_value = eq ? eq + 1 : NULL;
    for (int i = 0; i < n; i++)
        if (strlen(options[i].name) == len && memcmp(options[i].name, arg, len) == 0)
            return &options[i];
    return NULL;
}

int cli_parse(const cli_command *cmd, int argc, char **argv, const cli_option *options, int n_options, const char **positional,
              int min_positional, int max_positional)
{
    int n_pos = 0;
    bool only_positional = false;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i], *text;
        if (!only_positional && (!strcmp(arg, "--help") || !strcmp(arg, "-h"))) {
            print_help(cmd, options, n_options);
            return CLI_HELP;
        }
        if (!only_positional && !strcmp(arg, "--")) {
            only_positional = true;
            continue;
        }
        if (only_positional || arg[0] != '-' || !arg[1]) {
            if (n_pos == max_positional)
                return cli_usage("%s: unexpected \"%s\"; usage: weft %s %s", cmd->name, arg, cmd->name, cmd->usage);
            positional[n_pos++] = arg;
            continue;
        }
        const cli_option *o = find(options, n_options, arg, &text);
        if (!o)
            return cli_usage("%s: \"%s\" is no option; see weft %s --help", cmd->name, arg, cmd->name);
        if (o->kind == CLI_FLAG && text)
            return cli_usage("%s: %s takes no value", cmd->name, o->name);
        if (o->kind != CLI_FLAG && !text) {
            if (i + 1 == argc)
                return cli_usage("%s: %s needs a value", cmd->name, o->name);
            text = argv[++i];
        }
        int code = set_value(cmd, o, text);
        if (code != CLI_OK)
            return code;
    }
    if (n_pos < min_positional)
        return cli_usage("%s: %.*s is missing; usage: weft %s %s", cmd->name, (int)strcspn(cmd->usage, " "), cmd->usage, cmd->name, cmd->usage);
    return CLI_OK;
}
