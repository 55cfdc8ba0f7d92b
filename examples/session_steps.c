/* session_steps.c - one step at a time: logits as a tensor, shorten, save and restore: ./session_steps MODEL.gguf [device] */
#include <stdio.h>
#include <weft/model.h>

/* The likeliest next token after ids, which join the session. -1 on failure. */
static int32_t likeliest(weft_ctx *ctx, weft_session *session, const int32_t *ids, int64_t n)
{
    int32_t best = -1;
    weft_tensor *logits;
    weft_scope *scope = weft_scope_begin(ctx);
    if (weft_session_step(session, ids, n, false, &logits) == WEFT_OK) /* [1, vocabulary], still on the device */
        weft_read(weft_argmax(logits, NULL, 0, false), &best, sizeof best);
    weft_scope_end(scope);
    return best;
}

int main(int argc, char **argv)
{
    weft_ctx *ctx = NULL;
    weft_model *model = NULL;
    weft_session *session = NULL;
    void *state = NULL;
    size_t size = 0;
    const int32_t start[] = {1}; /* BOS of the story model */
    weft_status st = argc < 2 ? WEFT_E_VALUE : weft_ctx_open(&(weft_ctx_opts){.device = argc > 2 ? argv[2] : NULL}, &ctx);
    if (st == WEFT_OK)
        st = weft_model_load(ctx, argv[1], NULL, &model);
    if (st == WEFT_OK)
        st = weft_session_create(model, NULL, &session);
    if (st == WEFT_OK) {
        int32_t first = likeliest(ctx, session, start, 1), second = likeliest(ctx, session, &first, 1);
        st = weft_session_save(session, &state, &size); /* two tokens and their cache */
        printf("tokens %d %d; %lld in the session, %zu bytes saved\n", first, second, (long long)weft_session_length(session), size);
        if (st == WEFT_OK)
            st = weft_session_truncate(session, 1); /* back behind the first */
        printf("again %d\n", likeliest(ctx, session, &first, 1));
        if (st == WEFT_OK)
            st = weft_session_restore(session, state, size);
        printf("third %d\n", likeliest(ctx, session, &second, 1));
    }
    if (st != WEFT_OK)
        fprintf(stderr, "%s\n", argc < 2 ? "usage: session_steps MODEL.gguf [DEVICE]" : weft_error_message());
    weft_state_free(state);
    weft_session_destroy(session);
    weft_model_close(model);
    weft_ctx_close(ctx);
    return st == WEFT_OK ? 0 : 1;
}
