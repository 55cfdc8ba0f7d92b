/* weft/model.h - language models: weights (a model, shared) and a conversation with them (a session).
 *
 * Several sessions may share a model and run on several threads; one session is used by one thread at a
 * time. A NULL where something is required is WEFT_E_CONTEXT. On failure the results are untouched, where
 * a comment does not say otherwise.
 */
#ifndef WEFT_MODEL_H
#define WEFT_MODEL_H

#include "weft/ops.h"
#include "weft/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weights on a device, counted: the loader's reference ends with weft_model_close, sessions hold their own. */
typedef struct weft_model weft_model;
/* A KV cache and the tokens in it. The creator ends it with weft_session_destroy. */
typedef struct weft_session weft_session;

/* Options of loading; all zero is the default. */
typedef struct weft_model_opts {
    weft_progress_fn progress; /* phase "load", bytes of the tensors used; NULL: none */
    void *progress_user;       /* handed to it */
    const char *config_path;   /* config.json of a safetensors model; NULL: beside the file (weft_model_load) */
    bool act_int8;             /* quantise activations of block-type matrices to 8 bits */
} weft_model_opts;

/* Load the weights of a GGUF or safetensors file to the device of ctx.
 *   ctx   must stay open as long as the model and its sessions
 *   path  UTF-8; a safetensors model needs its config.json
 *   opts  NULL for the defaults
 *   *out  the caller's; given back with weft_model_close
 * Matrices keep the type they have in the file, vectors become f32. Every tensor of the file must have a
 * place in the model: one that has none (a bias, a further norm) would make the logits wrong. Passed over
 * are only the inverse frequencies (.. rotary_emb.inv_freq) and the lm_head of tied safetensors models.
 * Errors: WEFT_E_FORMAT (a tensor or a number is missing or does not fit), WEFT_E_UNSUPPORTED
 * (architecture, tensor type or a tensor without a place, by name), WEFT_E_VALUE (safetensors without a
 * config_path), WEFT_E_OOM, WEFT_E_CANCELLED, WEFT_E_IO. */
WEFT_API weft_status weft_model_load(weft_ctx *ctx, const char *path, const weft_model_opts *opts, weft_model **out);
/* The same from an open file, which stays the caller's and may be closed afterwards. */
WEFT_API weft_status weft_model_load_file(weft_ctx *ctx, weft_file *file, const weft_model_opts *opts, weft_model **out);
/* Give the caller's reference back; sessions keep the model alive. NULL is a no-op. */
WEFT_API void weft_model_close(weft_model *model);

/* The numbers of a model. */
typedef struct weft_model_info {
    char architecture[64];  /* the family, such as "llama" */
    int n_layers;           /* blocks */
    int n_heads;            /* of queries */
    int n_kv_heads;         /* of keys and values; n_heads is a multiple */
    int head_dim;           /* components of a head */
    int width;              /* components of the residual stream */
    int ffn_width;          /* components inside the feed-forward part */
    int vocab_size;         /* tokens: columns of the logits */
    int rope_dim;           /* components of a head that turn */
    int64_t context_length; /* tokens it was trained for */
    int64_t n_params;       /* elements of all weights */
    size_t weight_bytes;    /* of them on the device */
} weft_model_info;
/* Describe a model. */
WEFT_API weft_status weft_model_describe(const weft_model *model, weft_model_info *out);
/* The tokenizer in the model's file, borrowed from the model; NULL when it has none. */
WEFT_API const weft_tokenizer *weft_model_tokenizer(const weft_model *model);

/* Options of a session; all zero is the default. */
typedef struct weft_session_opts {
    int64_t context_length; /* tokens the KV cache holds, 1 .. 2^31-1; 0: the trained context */
    weft_dtype kv_dtype;    /* of the cache: WEFT_DTYPE_F32 (0, the default) or WEFT_DTYPE_F16 */
} weft_session_opts;

/* An empty session; it keeps the model alive. The cache is 2 n_layers tensors [1, n_kv_heads, context,
 * head_dim] on the device.
 *   opts  NULL for the defaults
 *   *out  the caller's; ended with weft_session_destroy
 * Errors: WEFT_E_VALUE (context or dtype), WEFT_E_OOM and what weft_eval can report. */
WEFT_API weft_status weft_session_create(weft_model *model, const weft_session_opts *opts, weft_session **out);
/* NULL is a no-op. */
WEFT_API void weft_session_destroy(weft_session *session);
/* Tokens in the cache, 0 .. capacity; 0 for NULL. */
WEFT_API int64_t weft_session_length(const weft_session *session);
/* Tokens that the cache can hold: the context length of its creation; 0 for NULL. */
WEFT_API int64_t weft_session_capacity(const weft_session *session);

/* Run n tokens (n >= 1) after those in the cache.
 *   ids     [n] in 0 .. vocab_size-1
 *   logits  [n, vocab_size] f32 when `all`, else [1, vocab_size] of the last one; owned by the caller (or
 *           its scope)
 * Errors: WEFT_E_VALUE (an id outside the vocabulary; more tokens than the context has left: the message
 * says both numbers), WEFT_E_OOM, WEFT_E_CANCELLED (weft_cancel), WEFT_E_DEVICE_LOST. On failure the
 * session is as before. */
WEFT_API weft_status weft_session_step(weft_session *session, const int32_t *ids, int64_t n, bool all, weft_tensor **logits);
/* Forget all tokens from `length` on; 0 resets. Errors: WEFT_E_VALUE unless length is 0 .. the present one. */
WEFT_API weft_status weft_session_truncate(weft_session *session, int64_t length);
/* The state (tokens and their cache) as *size_bytes bytes: *data allocated, the caller frees it with
 * weft_state_free. Draws depend on seed and position alone, so a restored session repeats them.
 * Errors: WEFT_E_OOM and what weft_read can report. */
WEFT_API weft_status weft_session_save(weft_session *session, void **data, size_t *size_bytes);
/* Continue from such bytes. The model must have the same layers, heads and vocabulary (its weights are the
 * caller's care), the session at least that many tokens of context; the cache dtype may differ.
 * Errors: WEFT_E_FORMAT (no state, or a damaged one), WEFT_E_VALUE (of another model, or too long),
 * WEFT_E_OOM. On failure the session is as before. */
WEFT_API weft_status weft_session_restore(weft_session *session, const void *data, size_t size_bytes);
/* Free what weft_session_save gave; NULL is a no-op. */
WEFT_API void weft_state_free(void *data);

/* How a token is drawn; all zero is greedy. Applied in this order: repetition penalty, temperature, top-k,
 * top-p, min-p, then one draw by Philox4x32-10 (Salmon et al. 2011) of seed and position. */
typedef struct weft_sampling {
    float temperature;    /* divides the logits; 0: greedy */
    int top_k;            /* 0: all */
    float top_p;          /* 0 or 1: off. Nucleus: Holtzman et al. 2020, arXiv:1904.09751 */
    float min_p;          /* 0: off. Keep p >= min_p * max p: Nguyen et al. 2024, arXiv:2407.01082 */
    float repeat_penalty; /* 0 or 1: off. Keskar et al. 2019, arXiv:1909.05858, over the last `repeat_last` ids */
    int repeat_last;      /* 0: 64 */
    uint64_t seed;        /* the same seed gives the same text */
} weft_sampling;

/* One new token and its n bytes, which are valid during the call. Return false to stop: generation then
 * ends with WEFT_OK. */
typedef bool (*weft_token_fn)(void *user, int32_t id, const char *bytes, size_t n);

/* Options of weft_session_generate; all zero: greedy, until a stop token or the context is full. */
typedef struct weft_generate_opts {
    int64_t max_tokens;        /* at most this many new tokens; 0: until a stop token or the context is full */
    weft_sampling sampling;    /* how each is drawn */
    const weft_tokenizer *tokenizer; /* NULL: the model's own; without one, bytes are empty and nothing stops */
    weft_token_fn on_token;    /* each new token; NULL: none */
    void *user;                /* handed to it */
    weft_progress_fn progress; /* phase "prompt" and "generate", tokens; NULL: none */
    void *progress_user;       /* handed to it */
} weft_generate_opts;

/* What came of a generation. */
typedef struct weft_generate_result {
    int32_t *ids;      /* new tokens without the stopping one; the caller frees them with weft_ids_free */
    size_t n_ids;      /* how many */
    int32_t stop_id;   /* the stop token that ended it, or -1 */
    double prompt_s;   /* seconds of the prompt, the first new token included */
    double generate_s; /* seconds of the tokens after it */
} weft_generate_result;

/* Run the prompt's ids (n >= 1) after those in the cache, then sample until a stop. The cache then holds
 * the prompt and every token drawn but the last one (a stop token, or the last of the result's ids).
 *   opts  NULL for the defaults
 * Errors: as weft_session_step; WEFT_E_VALUE for a sampling number outside its range (the message names
 * it); WEFT_E_CANCELLED. On failure the session has its length from before. */
WEFT_API weft_status weft_session_generate(weft_session *session, const int32_t *ids, size_t n, const weft_generate_opts *opts,
                                           weft_generate_result *out);

/* Options of weft_session_score; all zero is the default. */
typedef struct weft_score_opts {
    weft_progress_fn progress; /* phase "score", tokens; NULL: none */
    void *progress_user;       /* handed to it */
} weft_score_opts;

/* How likely a text is: the session is emptied, the ids are run (n >= 1), and the session holds them.
 *   opts      NULL for the defaults
 *   nll       [n-1] negative log-likelihood in nats of each of ids[1 .. n-1] after those before it; or NULL
 *   mean_nll  their mean, 0 for n 1; or NULL
 *   logits    [n, vocab_size] f32, row i of the token after ids[i]; or NULL
 * Errors: as weft_session_step; WEFT_E_CANCELLED.
 * On failure nll and mean_nll are untouched and what logits holds is unspecified. The session is as before
 * when arguments were refused (WEFT_E_VALUE, WEFT_E_CONTEXT); otherwise it is empty, and usable. */
WEFT_API weft_status weft_session_score(weft_session *session, const int32_t *ids, size_t n, const weft_score_opts *opts,
                                        float *nll, double *mean_nll, float *logits);

#ifdef __cplusplus
}
#endif
#endif
