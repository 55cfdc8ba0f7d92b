/* mdl.h - what the files of src/model share: the configuration, the weights, the family table, the
 * session. Built on the public headers alone, so the model room proves that they are enough. */
#ifndef WEFT_MDL_H
#define WEFT_MDL_H

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "weft/model.h"
#include "weft/weft.h"

#define MDL_TRY(expr)                  \
    do {                               \
        weft_status mdl_st_ = (expr);  \
        if (mdl_st_ != WEFT_OK)        \
            return mdl_st_;            \
    } while (0)

typedef struct mdl_config {
    int n_layers, n_heads, n_kv_heads, head_dim, width, ffn_width, vocab_size, rope_dim;
    int64_t context_length;
    float norm_eps;
    double rope_base, rope_scale;
    bool rope_interleaved;
    bool tied;           /* the output matrix is the embedding */
    float *freq_factors; /* [rope_dim / 2] divisors, or NULL; owned */
} mdl_config;

/* The tensors of a decoder. Those from MDL_ATTN_NORM on exist once a layer. */
typedef enum mdl_role {
    MDL_EMBED, MDL_OUT_NORM, MDL_OUTPUT, MDL_ROPE_FREQS,
    MDL_ATTN_NORM, MDL_Q, MDL_K, MDL_V, MDL_O, MDL_Q_BIAS, MDL_K_BIAS, MDL_V_BIAS, MDL_O_BIAS,
    MDL_FFN_NORM, MDL_GATE, MDL_UP, MDL_DOWN,
    MDL_ROLE_COUNT
} mdl_role;
#define MDL_LAYER_ROLE MDL_ATTN_NORM
#define MDL_LAYER_ROLES (MDL_ROLE_COUNT - MDL_LAYER_ROLE)

/* One axis of a tensor, named by the configuration's number it must equal. */
typedef enum mdl_dim { MDL_DIM_NONE, MDL_DIM_WIDTH, MDL_DIM_VOCAB, MDL_DIM_HEADS, MDL_DIM_KV, MDL_DIM_FFN, MDL_DIM_HALF_ROPE } mdl_dim;

typedef struct mdl_tensor_name {
    mdl_role role;
    const char *gguf, *hf; /* "%d" is the layer; NULL: does not occur in that format */
    bool required;
    mdl_dim rows, cols;    /* rows NONE: a vector of `cols` */
} mdl_tensor_name;

typedef struct mdl_family mdl_family;

struct weft_model {
    atomic_int refs;
    weft_ctx *ctx;
    const mdl_family *family;
    mdl_config config;
    bool act_int8;
    weft_tensor *weights[MDL_LAYER_ROLE];
    weft_tensor **layers; /* [n_layers * MDL_LAYER_ROLES]; NULL where an optional one is absent */
    weft_tokenizer *tokenizer;
    int64_t n_params;
    size_t weight_bytes;
};

/* One recorded step: what goes in, and the cache handles that come out. */
typedef struct mdl_step {
    weft_tensor *ids;      /* i32 [T] */
    int64_t n;             /* T */
    weft_tensor *position; /* rank 0 i32: tokens in the cache before the step */
    weft_tensor *length;   /* rank 0 i32: position + T */
    weft_dtype kv_dtype;
    weft_tensor *const *kv_in; /* [2 * n_layers]: K of layer 0, V of layer 0, .. */
    weft_tensor **kv_out;
} mdl_step;

struct mdl_family {
    const char *name, *gguf, *hf; /* general.architecture; config.json architectures[0] */
    weft_status (*config_gguf)(const weft_file *file, const char *arch, mdl_config *out);
    weft_status (*config_hf)(const char *path, mdl_config *out);
    const mdl_tensor_name *names;
    int n_names;
    /* Records the blocks: returns the residual stream [T, width] before the final norm. */
    weft_tensor *(*build)(const weft_model *m, const mdl_step *step);
};

weft_status mdl_family_by_gguf(const char *name, size_t n, const mdl_family **out);
weft_status mdl_family_by_hf(const char *name, const mdl_family **out);

/* model.c */
weft_model *mdl_model_retain(weft_model *m);

/* config.c */
weft_status mdl_config_gguf(const weft_file *file, const char *arch, mdl_config *out);
weft_status mdl_config_check(const mdl_config *c);
/* config_hf.c: the architecture and the numbers of a config.json */
weft_status mdl_hf_architecture(const char *path, char *out, size_t size_bytes);
weft_status mdl_config_hf(const char *path, mdl_config *out);

/* weights.c */
weft_status mdl_weights_load(weft_model *m, const weft_file *file, bool hf, const weft_model_opts *opts);

/* decoder.c */
weft_tensor *mdl_llama_build(const weft_model *m, const mdl_step *step);
weft_tensor *mdl_llama_block(const weft_model *m, int layer, weft_tensor *x, const mdl_step *step); /* [T, C] -> [T, C] */
weft_tensor *mdl_logits(const weft_model *m, weft_tensor *hidden); /* final norm and output matrix */

/* ---- session ---- */
#define MDL_CHUNK 512 /* prompt tokens an evaluation */

struct weft_session {
    weft_model *model;
    int64_t length, capacity;
    weft_dtype kv_dtype;
    weft_tensor **kv;  /* [2 * n_layers] handles on the caches [1, Hkv, capacity, D] */
    weft_tensor **next; /* the same, recorded by a step that has not been committed */
    weft_tensor **eval; /* scratch: [2 * n_layers + MDL_MAX_OUTPUTS] */
    int32_t *history;  /* [capacity] ids in the cache */
    bool stale;        /* the caches were lost in a failed step: rebuilt from history when needed */
};
#define MDL_MAX_OUTPUTS 4

typedef enum mdl_want { MDL_WANT_CACHE, MDL_WANT_LAST, MDL_WANT_ALL } mdl_want;

/* Records n tokens after those in the cache; *logits belongs to the current scope (WANT_CACHE: not
 * set). Either mdl_step_commit or mdl_step_abort must follow. */
weft_status mdl_step_record(weft_session *s, const int32_t *ids, int64_t n, mdl_want want, weft_tensor **logits);
/* Computes the recorded step and the outputs (handles outside any scope), then advances. */
weft_status mdl_step_commit(weft_session *s, const int32_t *ids, int64_t n, weft_tensor *const *outs, int n_outs);
void mdl_step_abort(weft_session *s);
/* Checks ids and room for n more tokens. */
weft_status mdl_check_ids(const weft_session *s, const char *who, const int32_t *ids, int64_t n);
/* All but the last chunk of a prompt, whose length is returned in *done. */
weft_status mdl_prefill(weft_session *s, const int32_t *ids, int64_t n, weft_progress_fn progress, void *user, int64_t *done);
/* Fresh caches of zeros: 2 * n_layers kept handles in kv. */
weft_status mdl_caches_create(weft_session *s, weft_tensor **kv);
void mdl_caches_release(const weft_session *s, weft_tensor **kv);

/* ---- sampling ---- */
weft_status mdl_sampling_check(const weft_sampling *p);
/* Candidates that must come from the device for an exact draw; 0: the whole row. */
int64_t mdl_sampling_candidates(const weft_sampling *p, int64_t vocab);
/* Draws one of n candidates (logit, id) for context position `position`; sorts them in place. */
typedef struct mdl_candidate { float logit; int32_t id; } mdl_candidate;
int32_t mdl_sample(const weft_sampling *p, mdl_candidate *c, int64_t n, const int32_t *history, int64_t n_history, uint64_t position);

#endif
