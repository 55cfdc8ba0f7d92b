/* weft/model.h - language models: weights (a model, shared) and a conversation with them (a session). */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "weft/ops.h"
#include "weft/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_model weft_model;
typedef struct weft_session weft_session;

typedef struct weft_model_opts {
    weft_progress_fn progress; /* phase "load", bytes; NULL: none */
    void *progress_user;
    const char *config_path;   /* config.json of a safetensors model; NULL: beside the file */
    bool act_int8;             /* quantise activations of block-type matrices to 8 bits */
} weft_model_opts;

/* Load weights to the device of ctx. The context must outlive the model. A safetensors model needs
 * its config.json. Errors: FORMAT, UNSUPPORTED (architecture or tensor type, by name, with those
 * known), OOM, CANCELLED, IO. */
WEFT_API weft_status weft_model_load(weft_ctx *ctx, const char *path, const weft_model_opts *opts, weft_model **out);
WEFT_API weft_status weft_model_load_file(weft_ctx *ctx, weft_file *file, const weft_model_opts *opts, weft_model **out);
/* Sessions keep the model alive; this gives the caller's reference back. NULL is a no-op. */
WEFT_API void weft_model_close(weft_model *model);

typedef struct weft_model_info {
    char architecture[64];
    int n_layers, n_heads, n_kv_heads, head_dim, width, ffn_width, vocab_size, rope_dim;
    int64_t context_length; /* trained context */
    int64_t n_params;
    size_t weight_bytes;    /* on the device */
} weft_model_info;
WEFT_API weft_status weft_model_describe(const weft_model *model, weft_model_info *out);
/* The tokenizer in the model's file, borrowed; NULL when it has none. */
WEFT_API const weft_tokenizer *weft_model_tokenizer(const weft_model *model);

typedef struct weft_session_opts {
    int64_t context_length; /* tokens the KV cache holds; 0: the trained context */
    weft_dtype kv_dtype;    /* F32 (0, default) or F16 */
} weft_session_opts;

/* A KV cache, its length and a generator state. Errors: OOM, VALUE. */
WEFT_API weft_status weft_session_create(weft_model *model, const weft_session_opts *opts, weft_session **out);
WEFT_API void weft_session_destroy(weft_session *session); /* NULL is a no-op */
WEFT_API int64_t weft_session_length(const weft_session *session);   /* tokens in the cache */
WEFT_API int64_t weft_session_capacity(const weft_session *session);

/* Run n tokens (n >= 1) after those in the cache.
 *   logits  [n, vocab] f32 when `all`, else [1, vocab] of the last one; owned by the caller (or its
 *           scope). Errors: VALUE (an id outside the vocabulary; more tokens than the context has
 *           left: the message says both numbers), OOM, CANCELLED, DEVICE_LOST. On failure the
 *           session is as before. */
WEFT_API weft_status weft_session_step(weft_session *session, const int32_t *ids, int64_t n, bool all, weft_tensor **logits);
/* Forget all tokens from `length` on; 0 resets. Errors: VALUE. */
WEFT_API weft_status weft_session_truncate(weft_session *session, int64_t length);
/* The state (cache, generator) as bytes: *data allocated, freed with weft_state_free. Restoring needs
 * the same model shape and at least that context. Errors: FORMAT, VALUE, OOM. */
WEFT_API weft_status weft_session_save(weft_session *session, void **data, size_t *size_bytes);
WEFT_API weft_status weft_session_restore(weft_session *session, const void *data, size_t size_bytes);
WEFT_API void weft_state_free(void *data);

typedef struct weft_sampling {
    float temperature;    /* 0: greedy */
    int top_k;            /* 0: all */
    float top_p;          /* 0 or 1: off. Nucleus: Holtzman et al. 2020 */
    float min_p;          /* 0: off. Keep p >= min_p * max p */
    float repeat_penalty; /* 0 or 1: off. Keskar et al. 2019, over the last `repeat_last` ids */
    int repeat_last;      /* 0: 64 */
    uint64_t seed;
} weft_sampling;

/* One token. Return false to stop: generation then ends with WEFT_OK. */
typedef bool (*weft_token_fn)(void *user, int32_t id, const char *bytes, size_t n);

typedef struct weft_generate_opts {
    int64_t max_tokens;       /* at most this many new tokens; 0: until a stop token or the context is full */
    weft_sampling sampling;
    const weft_tokenizer *tokenizer; /* NULL: the model's own; without one, bytes are empty and nothing stops */
    weft_token_fn on_token;   /* NULL: none */
    void *user;
    weft_progress_fn progress; /* phase "prompt" and "generate", tokens; return false to cancel */
    void *progress_user;
} weft_generate_opts;

typedef struct weft_generate_result {
    int32_t *ids;   /* new tokens without the stopping one; weft_ids_free */
    size_t n_ids;
    int32_t stop_id; /* the stop token that ended it, or -1 */
    double prompt_s, generate_s;
} weft_generate_result;

/* Run the prompt's ids (n >= 1), then sample until a stop. Errors: as weft_session_step; VALUE for
 * sampling numbers outside their range (the message names the number). */
WEFT_API weft_status weft_session_generate(weft_session *session, const int32_t *ids, size_t n, const weft_generate_opts *opts,
                                           weft_generate_result *out);

/* Mean negative log-likelihood in nats and that of each token 1 .. n-1 (`nll`: n-1 floats or NULL).
 * The session is reset first. */
WEFT_API weft_status weft_session_score(weft_session *session, const int32_t *ids, size_t n, float *nll, double *mean_nll,
                                        float *logits /* [n, vocab] or NULL */);

#ifdef __cplusplus
}
#endif
#endif
