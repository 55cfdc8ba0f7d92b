/* weft/ops.h - operations on tensors.
 *
 * Every function here returns a tensor, never NULL; see weft/tensor.h for error tensors and ownership.
 * What the comments leave out is this:
 *
 *   shapes   inputs of any rank from 0 to WEFT_MAX_RANK, any extents (0 too), any strides. Negative axes
 *            count from the end. "broadcast" is NumPy's rule: axes are aligned at the end, and extent 1
 *            or a missing axis repeats.
 *   dtypes   any plain dtype unless a list is given; block types only where they are named. "promoted"
 *            is weft_dtype_promote, except that a rank-0 operand beside one with axes counts only when
 *            its category is higher (bool < integers < floats), as in PyTorch. f16 and bf16 compute in
 *            f32 and round once, when stored. Integers wrap.
 *   errors   WEFT_E_CONTEXT for a NULL where a tensor is required, a closed context, or inputs of two
 *            contexts; WEFT_E_SHAPE for an axis that does not exist, shapes that do not fit, or a result
 *            of more than 2^58 elements or of rank above WEFT_MAX_RANK; WEFT_E_DTYPE for a dtype that
 *            is not listed; WEFT_E_OOM. An error tensor among the inputs is passed on.
 *
 * The error bound of each operation, against exact arithmetic, is in the table src/core/op.def.
 * Gradients are not implemented.
 */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise, two operands ----
 *
 *   a, b     broadcast, promoted
 *   returns  the broadcast shape; the promoted dtype, or bool for comparisons
 * On two bools add and maximum are "or", mul and minimum are "and". */

/* a + b. */
WEFT_API weft_tensor *weft_add(weft_tensor *a, weft_tensor *b);
/* a - b. Errors: WEFT_E_DTYPE for two bools. */
WEFT_API weft_tensor *weft_sub(weft_tensor *a, weft_tensor *b);
/* a * b. */
WEFT_API weft_tensor *weft_mul(weft_tensor *a, weft_tensor *b);
/* a / b, true division: integers and bools divide in f32 and give f32. x / 0 follows IEEE 754. */
WEFT_API weft_tensor *weft_div(weft_tensor *a, weft_tensor *b);
/* a to the power b, with the special cases of C's pow. Errors: WEFT_E_DTYPE unless the promoted dtype is a float. */
WEFT_API weft_tensor *weft_pow(weft_tensor *a, weft_tensor *b);
/* The larger of both; NaN if either is NaN. */
WEFT_API weft_tensor *weft_maximum(weft_tensor *a, weft_tensor *b);
/* The smaller of both; NaN if either is NaN. */
WEFT_API weft_tensor *weft_minimum(weft_tensor *a, weft_tensor *b);
/* Comparisons in the promoted dtype, to bool. With a NaN all but ne are false, as in IEEE 754. */
WEFT_API weft_tensor *weft_eq(weft_tensor *a, weft_tensor *b); /* a == b */
WEFT_API weft_tensor *weft_ne(weft_tensor *a, weft_tensor *b); /* a != b */
WEFT_API weft_tensor *weft_lt(weft_tensor *a, weft_tensor *b); /* a < b */
WEFT_API weft_tensor *weft_le(weft_tensor *a, weft_tensor *b); /* a <= b */
WEFT_API weft_tensor *weft_gt(weft_tensor *a, weft_tensor *b); /* a > b */
WEFT_API weft_tensor *weft_ge(weft_tensor *a, weft_tensor *b); /* a >= b */
/* condition ? a : b, element by element.
 *   condition  bool
 *   a, b       promoted; all three broadcast
 *   returns    the common shape, the promoted dtype of a and b
 * Errors: WEFT_E_DTYPE when condition is not bool. */
WEFT_API weft_tensor *weft_where(weft_tensor *condition, weft_tensor *a, weft_tensor *b);

/* ---- elementwise, one operand ----
 *
 *   returns  the shape of x. Floats keep their dtype. neg, abs, floor and relu keep integers as they
 *            are; the others take integers and bools to f32.
 * Outside its domain a function gives what C's gives: log(-1) and sqrt(-1) are NaN, log(0) is -inf. */

/* -x. Errors: WEFT_E_DTYPE for bool. */
WEFT_API weft_tensor *weft_neg(weft_tensor *x);
/* |x|. */
WEFT_API weft_tensor *weft_abs(weft_tensor *x);
/* e to the power x. */
WEFT_API weft_tensor *weft_exp(weft_tensor *x);
/* The natural logarithm. */
WEFT_API weft_tensor *weft_log(weft_tensor *x);
/* The square root. */
WEFT_API weft_tensor *weft_sqrt(weft_tensor *x);
/* 1 / sqrt(x). */
WEFT_API weft_tensor *weft_rsqrt(weft_tensor *x);
/* Sine, x in radians. */
WEFT_API weft_tensor *weft_sin(weft_tensor *x);
/* Cosine, x in radians. */
WEFT_API weft_tensor *weft_cos(weft_tensor *x);
/* Hyperbolic tangent. */
WEFT_API weft_tensor *weft_tanh(weft_tensor *x);
/* The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x. */
WEFT_API weft_tensor *weft_erf(weft_tensor *x);
/* The largest integer not above x. */
WEFT_API weft_tensor *weft_floor(weft_tensor *x);
/* 1 / (1 + exp(-x)). */
WEFT_API weft_tensor *weft_sigmoid(weft_tensor *x);
/* x sigmoid(x). Source: Hendrycks and Gimpel 2016, arXiv:1606.08415 (SiLU). */
WEFT_API weft_tensor *weft_silu(weft_tensor *x);
/* x/2 (1 + erf(x / sqrt 2)). Source: Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2. */
WEFT_API weft_tensor *weft_gelu(weft_tensor *x);
/* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). Source: the same paper, section 2. */
WEFT_API weft_tensor *weft_gelu_tanh(weft_tensor *x);
/* max(x, 0); NaN stays NaN. Errors: WEFT_E_DTYPE for bool. */
WEFT_API weft_tensor *weft_relu(weft_tensor *x);

/* x converted to `dtype`.
 *   float to f16, bf16  round to nearest even, overflow to infinity, subnormals kept
 *   float to integer    truncation towards 0, saturating; NaN gives 0
 *   integer to integer  wraps;  anything to bool: not equal to 0
 *   block types         to f32, f16 and bf16 (dequantisation); nothing converts to a block type
 * Errors: WEFT_E_DTYPE for any other pair. weft_quantize_rows (weft/quantize.h) makes blocks on the host. */
WEFT_API weft_tensor *weft_cast(weft_tensor *x, weft_dtype dtype);

/* ---- reductions ----
 *
 *   x        any plain dtype
 *   axes     n_axes distinct axes; n_axes 0 means all of them (a rank-0 result unless keepdim)
 *   returns  x without those axes, or with extent 1 there if keepdim; the dtype by this table
 *
 *              x              sum, prod   mean   max, min   argmax, argmin
 *              f32, f16, bf16 of x        of x   of x       i32             accumulated in f32
 *              f64            f64         f64    f64        i32             accumulated in f64
 *              bool           i32         f32    bool       i32             bool counts as 0 and 1
 *              i8, u8         i32         f32    of x       i32
 *              i32, u32, i64  of x        f32    of x       i32             sums and products wrap
 *
 * mean of integers converts each element to f32 first. Over no elements sum gives 0, prod 1, mean NaN.
 * Errors: WEFT_E_SHAPE for an axis that is named twice or does not exist, and for max, min, argmax and
 * argmin of an empty axis; WEFT_E_VALUE for n_axes below 0 or axes NULL with n_axes above 0. */

/* The sum over the axes. */
WEFT_API weft_tensor *weft_sum(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
/* The sum divided by the number of elements. */
WEFT_API weft_tensor *weft_mean(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
/* The product over the axes. */
WEFT_API weft_tensor *weft_prod(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
/* The largest; NaN if there is a NaN. */
WEFT_API weft_tensor *weft_max(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
/* The smallest; NaN if there is a NaN. */
WEFT_API weft_tensor *weft_min(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
/* Index of the first largest element along the reduced axes, flattened in their order in x; NaN counts
 * as the largest. Errors: WEFT_E_SHAPE for more than 2^31-1 elements to choose from. */
WEFT_API weft_tensor *weft_argmax(weft_tensor *x, const int *axes, int n_axes, bool keepdim);
/* Index of the first smallest; NaN counts as the smallest. Errors: as weft_argmax. */
WEFT_API weft_tensor *weft_argmin(weft_tensor *x, const int *axes, int n_axes, bool keepdim);

/* ---- views ----
 *
 * The result has the dtype of x and shares its storage: nothing is computed or copied, except where a
 * comment says so. Block types allow views that keep their last axis whole; others are WEFT_E_DTYPE. */

/* An absent bound of weft_slice. */
#define WEFT_INDEX_NONE INT64_MIN
/* The elements in row-major order under another shape: `rank` extents, one of which may be -1 (inferred).
 * A view where strides allow, else one copy, counted in stats.copies.
 * Errors: WEFT_E_SHAPE when the counts differ or two extents are -1; WEFT_E_VALUE for shape NULL. */
WEFT_API weft_tensor *weft_reshape(weft_tensor *x, int rank, const int64_t *shape);
/* Axis k of the result is axis axes[k] of x; `axes` has one entry for each axis of x.
 * Errors: WEFT_E_SHAPE for an axis named twice; WEFT_E_VALUE for axes NULL. */
WEFT_API weft_tensor *weft_permute(weft_tensor *x, const int *axes);
/* x with two axes exchanged. */
WEFT_API weft_tensor *weft_transpose(weft_tensor *x, int axis0, int axis1);
/* x[.., start:stop:step, ..] on one axis as Python slices: negative bounds count from the end, bounds
 * outside are clamped, step may be negative, WEFT_INDEX_NONE is an absent bound.
 * Errors: WEFT_E_VALUE for step 0. */
WEFT_API weft_tensor *weft_slice(weft_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
/* x repeated along axes of extent 1 and along new leading axes to `rank` extents; -1 keeps an extent.
 * Errors: WEFT_E_SHAPE when another extent would change or rank is below that of x. */
WEFT_API weft_tensor *weft_expand(weft_tensor *x, int rank, const int64_t *shape);
/* x without an axis of extent 1. Errors: WEFT_E_SHAPE when its extent is another. */
WEFT_API weft_tensor *weft_squeeze(weft_tensor *x, int axis);
/* x with a new axis of extent 1, which becomes axis `axis` of the result (negative: from the result's end). */
WEFT_API weft_tensor *weft_unsqueeze(weft_tensor *x, int axis);
/* x backwards along an axis. */
WEFT_API weft_tensor *weft_flip(weft_tensor *x, int axis);
/* x itself where it is row-major, else a row-major copy. */
WEFT_API weft_tensor *weft_contiguous(weft_tensor *x);

/* ---- matrices ---- */

/* Matrix product.
 *   a        [.., M, K]  a float dtype
 *   b        [.., K, N]  a float dtype; promoted with a; batch axes broadcast
 *   returns  [.., M, N]  the promoted dtype, accumulated in f32 (f64 for f64); K = 0 gives zeros
 * A vector a is [1, K] and b [K, 1], and that axis is left out of the result, as in NumPy.
 * Errors: WEFT_E_SHAPE when K differs, batch axes do not broadcast, or an operand has rank 0;
 * WEFT_E_DTYPE for integers and block types (weft_linear takes those). */
WEFT_API weft_tensor *weft_matmul(weft_tensor *a, weft_tensor *b);

/* Applied to each element of a linear layer in the same dispatch. */
typedef enum weft_activation {
    WEFT_ACT_NONE = 0,  /* none */
    WEFT_ACT_RELU,      /* weft_relu */
    WEFT_ACT_SILU,      /* weft_silu */
    WEFT_ACT_GELU,      /* weft_gelu */
    WEFT_ACT_GELU_TANH, /* weft_gelu_tanh */
    WEFT_ACT_SIGMOID    /* weft_sigmoid */
} weft_activation;

/* Options of weft_linear; all zero: no bias, no activation. */
typedef struct weft_linear_opts {
    weft_tensor *bias;          /* [N] f32, f16 or bf16; NULL: none */
    weft_activation activation; /* applied after the bias */
    bool act_int8;              /* quantise x to i8 by blocks of 32 along K; ignored for plain w */
} weft_linear_opts;

/* A linear layer: activation(x w^T + bias).
 *   x        [.., K]  f32, f16 or bf16, rank at least 1
 *   w        [N, K]   f32, f16, bf16 or a block type (read as it is; whole consecutive rows)
 *   opts     NULL for the defaults
 *   returns  [.., N]  dtype of x, accumulated in f32
 * Errors: WEFT_E_SHAPE, WEFT_E_DTYPE; WEFT_E_VALUE for an unknown activation. */
WEFT_API weft_tensor *weft_linear(weft_tensor *x, weft_tensor *w, const weft_linear_opts *opts);

/* ---- normalisation, along `axis` ----
 *
 *   x        a float dtype, rank at least 1
 *   returns  shape and dtype of x */

/* exp(x - max) / sum(exp(x - max)). A row of only -inf gives NaN, as in PyTorch. */
WEFT_API weft_tensor *weft_softmax(weft_tensor *x, int axis);
/* The logarithm of weft_softmax, without its underflow. */
WEFT_API weft_tensor *weft_log_softmax(weft_tensor *x, int axis);
/* x / sqrt(mean(x^2) + eps) * weight.
 *   weight  [x.shape[axis]], a float dtype; NULL: 1
 * Errors: WEFT_E_VALUE for an eps below 0 or not finite.
 * Source: Zhang and Sennrich 2019, Root Mean Square Layer Normalization, arXiv:1910.07467, eq. 4. */
WEFT_API weft_tensor *weft_rms_norm(weft_tensor *x, weft_tensor *weight, float eps, int axis);
/* (x - mean) / sqrt(var + eps) * weight + bias, with the population variance.
 *   weight, bias  [x.shape[axis]], a float dtype; NULL: 1 and 0
 * Errors: WEFT_E_VALUE for an eps below 0 or not finite.
 * Source: Ba, Kiros and Hinton 2016, Layer Normalization, arXiv:1607.06450. */
WEFT_API weft_tensor *weft_layer_norm(weft_tensor *x, weft_tensor *weight, weft_tensor *bias, float eps, int axis);

/* ---- attention ---- */

/* Options of weft_rope; all zero: the whole head turns by base 10000, positions 0 .. T-1. */
typedef struct weft_rope_opts {
    int dim;                   /* leading components that turn; 0: all of D. Even, at most D */
    double base;               /* pair i turns by base^(-2i/dim) a position; 0: 10000 */
    double scale;              /* multiplies positions; 0: 1 */
    bool interleaved;          /* pairs (2i, 2i+1) instead of (i, i + dim/2) */
    bool across_head;          /* half pairing over the whole head, (i, i + D/2), first dim/2 pairs turn */
    const float *freq_factors; /* [dim/2] divisors of the frequencies, finite and not 0, copied; NULL: none */
    weft_tensor *positions;    /* [T] integers (as i32) or floats (as f32); NULL: 0 .. T-1 */
    weft_tensor *offset;       /* rank 0 i32, added to positions; NULL: 0 */
} weft_rope_opts;

/* Rotary position embedding: each pair of components is turned by position times frequency.
 *   x        [.., T, D]  a float dtype; axis -2 is the position
 *   opts     NULL for the defaults
 *   returns  shape and dtype of x
 * Angles of integer positions are formed in fixed point: under 1e-5 rad off at position 2^20.
 * Errors: WEFT_E_SHAPE for rank below 2, a dim that is odd or above D, positions not [T], an odd D with
 * across_head; WEFT_E_VALUE for a base, scale or factor out of its range, or both pairings at once.
 * Source: Su et al. 2021, RoFormer, arXiv:2104.09864, eq. 34. */
WEFT_API weft_tensor *weft_rope(weft_tensor *x, const weft_rope_opts *opts);

/* Options of attention; all zero: scale 1/sqrt(D), every query attends to every key. */
typedef struct weft_attention_opts {
    bool is_causal;      /* bottom-right: query i attends to keys 0 .. L - Tq + i, L = kv_len or Tk */
    float scale;         /* finite; 0: 1 / sqrt(D) */
    weft_tensor *mask;   /* broadcastable to [B, Hq, Tq, Tk]: bool (true attends) or float (added); NULL: none */
    weft_tensor *kv_len; /* rank 0 i32: only keys 0 .. kv_len-1 exist (a KV cache); NULL: Tk */
    bool has_window;     /* query i attends to keys p - window_left .. p + window_right, p = L - Tq + i */
    int64_t window_left, window_right; /* below 0: no bound on that side */
    float softcap;       /* logits s become softcap tanh(s / softcap) before masks; 0: as they are */
    weft_tensor *alibi_slopes; /* [Hq] floats: slope (key - p) is added to logits; NULL: none */
    weft_tensor *sinks;  /* [Hq] floats: one more logit a head in the denominator alone; NULL: none */
} weft_attention_opts;

/* Scaled dot-product attention, per head: softmax(scale Q K^T + mask) V, without the Tq x Tk matrix
 * in any of its forms. Keys that causal bound and window hide from a block of queries are not computed.
 *   q        [B, Hq,  Tq, D]  f32, f16 or bf16
 *   k, v     [B, Hkv, Tk, D]  f32, f16 or bf16, which may differ from q (f16 caches); Hq is a multiple of
 *                             Hkv (grouped-query attention); two dtypes are promoted to one
 *   opts     NULL for the defaults
 *   returns  [B, Hq,  Tq, D]  dtype of q, accumulated in f32; a row with every key masked is zeros
 * Also: q, k, v of one other rank from 2, [T, D], [B, T, D] or [.., H, T, D]; f64; v [B, Hkv, Tk, E], which gives
 * [B, Hq, Tq, E]. f64 stores the logits.
 * Errors: WEFT_E_SHAPE, WEFT_E_DTYPE; WEFT_E_VALUE for a scale or softcap that is not finite, a softcap below 0.
 * Source: Dao et al. 2022, FlashAttention, arXiv:2205.14135, algorithm 1; ALiBi: Press et al. 2021,
 * arXiv:2108.12409; sinks: Xiao et al. 2023, arXiv:2309.17453. */
WEFT_API weft_tensor *weft_scaled_dot_product_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v,
                                                        const weft_attention_opts *opts);

/* ---- indexing ----
 *
 * Index tensors hold i32, or another integer dtype, which is converted. Their values are checked where they are
 * used: one outside is WEFT_E_INDEX of the evaluation, which then gives no results. */

/* Slices of x along `axis` picked by an index of any shape; negative indices count from the end.
 *   returns  x.shape with the axis replaced by index.shape; dtype of x
 * Errors: WEFT_E_INDEX when the axis is empty and index is not. */
WEFT_API weft_tensor *weft_index_select(weft_tensor *x, int axis, weft_tensor *index);
/* Rows of a table: weft_index_select(w, 0, ids), where w may be a block type.
 *   w        [V, C] if a block type, else any rank from 1
 *   ids      integers of any shape
 *   returns  ids.shape followed by w.shape[1..]; f32 for block types, else dtype of w */
WEFT_API weft_tensor *weft_embedding(weft_tensor *w, weft_tensor *ids);
/* One element of x for each index: out[i][j] = x[i][index[i][j]] along the last axis, and so on.
 *   index    rank of x; on other axes its extents are at most those of x; negative values count from the end
 *   returns  shape of index, dtype of x
 * Source: torch.gather. */
WEFT_API weft_tensor *weft_gather(weft_tensor *x, int axis, weft_tensor *index);
/* Tensors one after another along `axis`.
 *   xs       n >= 1 tensors, promoted, equal on all other axes; those of shape [0] are passed over
 *   returns  the sum of the extents on the axis; the promoted dtype
 * Errors: WEFT_E_SHAPE; WEFT_E_VALUE for n < 1 or xs NULL. */
WEFT_API weft_tensor *weft_cat(weft_tensor *const *xs, int n, int axis);
/* A copy of dst with src written at dst[.., start : start + src.shape[axis], ..].
 *   dst      any plain dtype
 *   src      rank of dst, its extents on all other axes, at most its extent on the axis; converted to its dtype
 *   start    rank 0 i32, a run-time value
 *   returns  shape and dtype of dst
 * It happens in place when nothing else can read dst: no other handle on it and no other use in the graph.
 * Errors: WEFT_E_INDEX when the range lies outside: at once if start is a weft_scalar_i32, else at evaluation. */
WEFT_API weft_tensor *weft_slice_update(weft_tensor *dst, weft_tensor *src, int axis, weft_tensor *start);
/* bool [rows, cols]: true where col <= row + diagonal. */
WEFT_API weft_tensor *weft_tri(weft_ctx *ctx, int64_t rows, int64_t cols, int64_t diagonal);
/* The k largest along the last axis, in descending order; equal ones by lower index, NaN before all.
 *   x        [.., N], rank at least 1, N at most 2^31-1
 *   k        0 .. N
 *   values   NULL, or receives the values [.., k], dtype of x (the same error tensor on failure);
 *            owned as the result is
 *   returns  [.., k] i32 indices
 * Errors: WEFT_E_SHAPE; WEFT_E_VALUE for k outside its range. */
WEFT_API weft_tensor *weft_topk(weft_tensor *x, int64_t k, weft_tensor **values);

#ifdef __cplusplus
}
#endif
#endif
