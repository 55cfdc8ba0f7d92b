/* weft/ops.h - operations on tensors.
 *
 * Every function returns a tensor, never NULL; see weft/tensor.h for error tensors and ownership.
 * Unless said otherwise: inputs of any rank to WEFT_MAX_RANK, any strides; elementwise operations
 * broadcast as NumPy does and promote dtypes as PyTorch does; f16 and bf16 compute in f32 and round
 * once, when stored; negative axes count from the end. A NULL where a tensor is required gives an
 * error tensor with WEFT_E_CONTEXT. Errors common to all: SHAPE, DTYPE, CONTEXT (two contexts).
 */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise, two operands (broadcast) ---- */
WEFT_API weft_tensor *weft_add(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_sub(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_mul(weft_tensor *a, weft_tensor *b);
/* True division: integers divide in f32. x / 0 follows IEEE 754. */
WEFT_API weft_tensor *weft_div(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_pow(weft_tensor *a, weft_tensor *b);     /* C's pow, for floats */
WEFT_API weft_tensor *weft_maximum(weft_tensor *a, weft_tensor *b); /* NaN if either is NaN */
WEFT_API weft_tensor *weft_minimum(weft_tensor *a, weft_tensor *b);
/* Comparisons give bool. */
WEFT_API weft_tensor *weft_eq(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_ne(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_lt(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_le(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_gt(weft_tensor *a, weft_tensor *b);
WEFT_API weft_tensor *weft_ge(weft_tensor *a, weft_tensor *b);
/* condition ? a : b; condition is bool, all three broadcast. */
WEFT_API weft_tensor *weft_where(weft_tensor *condition, weft_tensor *a, weft_tensor *b);

/* ---- elementwise, one operand (integers compute in f32 where the result is not an integer) ---- */
WEFT_API weft_tensor *weft_neg(weft_tensor *x);
WEFT_API weft_tensor *weft_abs(weft_tensor *x);
WEFT_API weft_tensor *weft_exp(weft_tensor *x);
WEFT_API weft_tensor *weft_log(weft_tensor *x);
WEFT_API weft_tensor *weft_sqrt(weft_tensor *x);
WEFT_API weft_tensor *weft_rsqrt(weft_tensor *x);
WEFT_API weft_tensor *weft_sin(weft_tensor *x);
WEFT_API weft_tensor *weft_cos(weft_tensor *x);
WEFT_API weft_tensor *weft_tanh(weft_tensor *x);
WEFT_API weft_tensor *weft_erf(weft_tensor *x);
WEFT_API weft_tensor *weft_floor(weft_tensor *x);
WEFT_API weft_tensor *weft_sigmoid(weft_tensor *x);   /* 1 / (1 + exp(-x)) */
WEFT_API weft_tensor *weft_silu(weft_tensor *x);      /* x * sigmoid(x) */
WEFT_API weft_tensor *weft_gelu(weft_tensor *x);      /* x/2 (1 + erf(x / sqrt 2)); Hendrycks and Gimpel 2016 */
WEFT_API weft_tensor *weft_gelu_tanh(weft_tensor *x); /* the tanh form of the same paper */
WEFT_API weft_tensor *weft_relu(weft_tensor *x);      /* max(x, 0); NaN stays NaN */
/* f32 to f16 and bf16: round to nearest even, overflow to infinity, subnormals kept. Float to integer:
 * truncation, saturating, NaN to 0. Block types cast to f32, f16 and bf16 (dequantisation). */
WEFT_API weft_tensor *weft_cast(weft_tensor *x, weft_dtype dtype);

/* ---- reductions ----
 *   axes     n_axes distinct axes; n_axes 0 means all of them (rank 0 result unless keepdim)
 *   returns  x without those axes, or with extent 1 there if keepdim
 * Accumulated in f32 (f64 for f64; i32 for integers, i64 for i64). Errors: SHAPE for a repeated or
 * absent axis; max, min, argmax and argmin of an empty axis. */
WEFT_API weft_tensor *weft_sum(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
WEFT_API weft_tensor *weft_mean(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
WEFT_API weft_tensor *weft_prod(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
WEFT_API weft_tensor *weft_max(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
WEFT_API weft_tensor *weft_min(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
/* i32 index of the first extreme along the given axes flattened in order; NaN counts as the extreme. */
WEFT_API weft_tensor *weft_argmax(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
WEFT_API weft_tensor *weft_argmin(weft_tensor *x, const int *axes, int n_axes, bool keepdim);

/* ---- views: free, they share storage ---- */
#define WEFT_INDEX_NONE INT64_MIN /* an absent slice bound */
/* One extent may be -1 (inferred). A view where strides allow, else one copy, counted in stats. */
WEFT_API weft_tensor *weft_reshape(weft_tensor *x, int rank, const int64_t *shape);
WEFT_API weft_tensor *weft_permute(weft_tensor *x, const int *axes); /* rank entries */
WEFT_API weft_tensor *weft_transpose(weft_tensor *x, int axis0, int axis1);
/* x[..., start:stop:step, ...] as Python slices, step negative too; WEFT_INDEX_NONE for an absent bound. */
WEFT_API weft_tensor *weft_slice(weft_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
WEFT_API weft_tensor *weft_expand(weft_tensor *x, int rank, const int64_t *shape); /* -1 keeps an extent */
WEFT_API weft_tensor *weft_squeeze(weft_tensor *x, int axis);
WEFT_API weft_tensor *weft_unsqueeze(weft_tensor *x, int axis);
WEFT_API weft_tensor *weft_flip(weft_tensor *x, int axis);
WEFT_API weft_tensor *weft_contiguous(weft_tensor *x);

/* ---- matrices ---- */
/* a [.., M, K] x b [.., K, N] -> [.., M, N]; batch axes broadcast; a vector operand is promoted as in
 * NumPy. Floats only; accumulated in f32 (f64 for f64). K = 0 gives zeros. Gradient: a, b. */
WEFT_API weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b);

/* Applied to each element of a linear layer in the same dispatch; the formulas are those of the ops. */
typedef enum weft_activation {
    WEFT_ACT_NONE = 0, WEFT_ACT_RELU, WEFT_ACT_SILU, WEFT_ACT_GELU, WEFT_ACT_GELU_TANH, WEFT_ACT_SIGMOID
} weft_activation;

typedef struct weft_linear_opts {
    weft_tensor *bias;         /* [N] or NULL */
    weft_activation activation;
    bool act_int8;             /* quantise activations to i8 by blocks of 32 (block-type weights only) */
} weft_linear_opts;

/* x [.., K] times w [N, K] transposed, plus bias, then the activation -> [.., N].
 *   x     f32, f16 or bf16;  w  f32, f16, bf16, q8_0, q4_0, q4_1 (block types are read as they are)
 *   opts  NULL: no bias, no activation
 *   returns the dtype of x. Gradient: x, w (plain types), bias. */
WEFT_API weft_tensor *weft_linear(weft_tensor *x, weft_tensor *w, const weft_linear_opts *opts);

/* ---- normalisation, along `axis` ---- */
WEFT_API weft_tensor *weft_softmax(weft_tensor *x, int axis);     /* all -inf gives NaN, as PyTorch */
WEFT_API weft_tensor *weft_log_softmax(weft_tensor *x, int axis);
/* x / sqrt(mean(x^2) + eps) * weight; weight [x.shape[axis]] or NULL. Zhang and Sennrich 2019. */
WEFT_API weft_tensor *weft_rms_norm(weft_tensor *x, weft_tensor *weight, float eps, int axis);
/* (x - mean) / sqrt(var + eps) * weight + bias; population variance; weight, bias NULL or
 * [x.shape[axis]]. Ba et al. 2016. */
WEFT_API weft_tensor *weft_layer_norm(weft_tensor *x, weft_tensor *weight, weft_tensor *bias, float eps, int axis);

/* ---- attention ---- */
typedef struct weft_rope_opts {
    int dim;                  /* rope_dim: leading components that turn; 0: all of D. Even, at most D */
    double base;              /* 0: 10000 */
    double scale;             /* multiplies positions; 0: 1 */
    bool interleaved;         /* pairs (2i, 2i+1) instead of (i, i + dim/2) */
    bool across_head;         /* half pairing over the whole head, (i, i + D/2), first dim/2 pairs turn */
    const float *freq_factors; /* [dim/2] divisors of the frequencies, copied; NULL: none */
    weft_tensor *positions;   /* [T] i32 or f32; NULL: offset + 0 .. T-1 */
    weft_tensor *offset;      /* rank 0 i32 added to positions; NULL: 0 */
} weft_rope_opts;

/* Rotary position embedding. x [.., T, D]: axis -2 is the position. Angles are formed in fixed point:
 * under 1e-5 rad at position 2^20. Errors: SHAPE for an odd or too large dim, T != positions.
 * Source: Su et al. 2021, arXiv:2104.09864, eq. 34. */
WEFT_API weft_tensor *weft_rope(weft_tensor *x, const weft_rope_opts *opts);

typedef struct weft_attention_opts {
    bool is_causal;       /* bottom-right: query i attends to keys 0 .. L - Tq + i, L = kv_len or Tk */
    float scale;          /* 0: 1 / sqrt(D) */
    weft_tensor *mask;    /* broadcastable to [B, Hq, Tq, Tk]: bool (true attends) or float (added); NULL: none */
    weft_tensor *kv_len;  /* rank 0 i32: only keys 0 .. kv_len-1 exist (KV cache); NULL: Tk */
} weft_attention_opts;

/* softmax(scale Q K^T + mask) V per head, without the Tq x Tk matrix.
 *   q [B, Hq, Tq, D]   k, v [B, Hkv, Tk, D], Hq a multiple of Hkv   -> [B, Hq, Tq, D], dtype of q
 * A fully masked row is zeros. Accumulated in f32. k and v may differ in dtype from q (f16 caches).
 * Source: Dao et al. 2022, arXiv:2205.14135, algorithm 1. */
WEFT_API weft_tensor *weft_scaled_dot_product_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                                        const weft_attention_opts *opts);

/* ---- indexing ---- */
/* Rows of x along `axis` picked by an i32 index tensor of any shape: x.shape with axis replaced by
 * index.shape. Negative indices count from the end; one outside is WEFT_E_INDEX at the fence. */
WEFT_API weft_tensor *weft_index_select(weft_tensor *x, int axis, weft_tensor *index);
/* weft_index_select(w, 0, ids) where w may be a block type; rows come out as f32 (plain w: its dtype). */
WEFT_API weft_tensor *weft_embedding(weft_tensor *w, weft_tensor *ids);
/* x[.., index, ..] with index of x's rank: out[i][j] = x[i][index[i][j]] for the last axis, and so on (torch.gather). */
WEFT_API weft_tensor *weft_gather(weft_tensor *x, int axis, weft_tensor *index);
WEFT_API weft_tensor *weft_cat(weft_tensor *const *xs, int n, int axis);
/* A copy of dst with src written at dst[.., start : start + src.shape[axis], ..]. start is a rank-0
 * i32 (run-time) tensor. When nothing else reads dst it happens in place. A range outside is WEFT_E_INDEX. */
WEFT_API weft_tensor *weft_slice_update(weft_tensor *dst, weft_tensor *src, int axis, weft_tensor *start);
/* bool [rows, cols]: true where col <= row + diagonal. */
WEFT_API weft_tensor *weft_tri(weft_ctx *ctx, int64_t rows, int64_t cols, int64_t diagonal);
/* The k largest along the last axis, descending, equal values by lower index, NaN first. i32 indices;
 * `values` may be NULL or receives the values handle (scope-owned as the result). */
WEFT_API weft_tensor *weft_topk(weft_tensor *x, int64_t k, weft_tensor **values);

#ifdef __cplusplus
}
#endif
#endif
