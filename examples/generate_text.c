/* generate_text.c - load a model and continue a prompt: ./generate_text MODEL.gguf "Once upon a time" [device] */
#include <stdio.h>
#include <string.h>
#include <weft/model.h>

static bool print_token(void *user, int32_t id, const char *bytes, size_t n)
{
    (void)user;
    (void)id;
    fwrite(bytes, 1, n, stdout);
    return fflush(stdout) == 0; /* false would end the generation */
}

static weft_status run(weft_ctx *ctx, const char *path, const char *prompt)
{
    weft_model *model = NULL;
    weft_session *session = NULL;
    weft_generate_result result = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    weft_status st = weft_model_load(ctx, path, NULL, &model);
    if (st == WEFT_OK) /* the weights may be shared by many sessions */
        st = weft_session_create(model, NULL, &session);
    if (st == WEFT_OK && !weft_model_tokenizer(model)) {
        fprintf(stderr, "%s holds no tokenizer\n", path);
        st = WEFT_E_UNSUPPORTED;
    }
    if (st == WEFT_OK)
        st = weft_tokenize(weft_model_tokenizer(model), prompt, strlen(prompt), NULL, &ids, &n);
    if (st == WEFT_OK) {
        printf("%s", prompt);
        st = weft_session_generate(session, ids, n, &(weft_generate_opts){.max_tokens = 100, .on_token = print_token}, &result);
    }
    if (st == WEFT_OK)
        printf("\n%zu tokens in %.2f s\n", result.n_ids, result.prompt_s + result.generate_s);
    weft_ids_free(result.ids);
    weft_ids_free(ids);
    weft_session_destroy(session);
    weft_model_close(model);
    return st;
}

int main(int argc, char **argv)
{
    weft_ctx *ctx;
    if (argc < 3) {
        fprintf(stderr, "usage: %s MODEL.gguf PROMPT [DEVICE]\n", argv[0]);
        return 2;
    }
    weft_status st = weft_ctx_open(&(weft_ctx_opts){.device = argc > 3 ? argv[3] : NULL}, &ctx);
    if (st == WEFT_OK) {
        st = run(ctx, argv[1], argv[2]);
        weft_ctx_close(ctx);
    }
    if (st != WEFT_OK)
        fprintf(stderr, "%s\n", weft_error_message());
    return st == WEFT_OK ? 0 : 1;
}
