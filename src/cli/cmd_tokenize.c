/* cmd_tokenize.c - weft tokenize: ids of a text with the vocabulary of a GGUF file. */
#include "cli.h"

#include <stdlib.h>

static void print_pieces(const weft_tokenizer *tok, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *bytes = "";
        size_t len = 0;
        weft_token_bytes(tok, ids[i], true, &bytes, &len);
        printf("%7d  ", ids[i]);
        for (size_t k = 0; k < len; k++)
            putchar((unsigned char)bytes[k] < 32 ? '.' : bytes[k]);
        putchar('\n');
    }
}

static int tokenize(const char *path, const char *text, const weft_tokenize_opts *opts, bool json)
{
    weft_file *file;
    weft_tokenizer *tok = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    if (weft_file_open(path, &file) != WEFT_OK)
        return cli_fail_last();
    weft_status st = weft_tokenizer_from_file(file, &tok);
    weft_file_close(file);
    if (st == WEFT_OK)
        st = weft_tokenize(tok, text, strlen(text), opts, &ids, &n);
    int code = CLI_OK;
    if (st != WEFT_OK)
        code = cli_fail_last();
    else if (json)
        code = cli_json_print(json_pack("{s:o}", "ids", cli_json_ids(ids, n)));
    else
        print_pieces(tok, ids, n);
    weft_ids_free(ids);
    weft_tokenizer_destroy(tok);
    return code;
}

int cmd_tokenize(int argc, char **argv)
{
    const char *path, *text = NULL;
    bool json = false, special = false, bos = false, no_bos = false;
    const cli_option options[] = {
        {"-p", CLI_STR, &text, 0, 0, "TEXT", "the text"},
        {"--prompt", CLI_STR, &text, 0, 0, NULL, NULL},
        {"--special", CLI_FLAG, &special, 0, 0, NULL, "recognise control tokens written out, such as <s>"},
        {"--bos", CLI_FLAG, &bos, 0, 0, NULL, "begin with BOS whatever the file says"},
        {"--no-bos", CLI_FLAG, &no_bos, 0, 0, NULL, "never begin with BOS"},
        {"--json", CLI_FLAG, &json, 0, 0, NULL, "print {ids}"},
    };
    int code = cli_parse(cli_command_named("tokenize"), argc, argv, options, sizeof options / sizeof options[0], &path, 1, 1);
    if (code != CLI_OK)
        return code == CLI_HELP ? CLI_OK : code;
    if (!text)
        return cli_usage("tokenize: a text is needed: -p TEXT");
    if (bos && no_bos)
        return cli_usage("tokenize: --bos and --no-bos exclude each other");
    return tokenize(path, text, &(weft_tokenize_opts){.add_bos = bos ? 1 : no_bos ? -1 : 0, .parse_special = special}, json);
}
