/* weft/ops_networks.h - normalisation, embeddings, positions, losses and distances; see weft/ops.h for what all
 * operations share.
 *
 * All are composed of other operations and computed in f32 (f64 where an input is f64), whatever the storage type.
 */
#ifndef WEFT_OPS_NETWORKS_H
#define WEFT_OPS_NETWORKS_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- normalisation ----
 *
 *   x        a float dtype
 *   weight, bias, running_mean, running_var  any float dtype; NULL: absent
 *   eps      used as given, at least 0
 *   returns  shape and dtype of x
 * Errors: WEFT_E_SHAPE; WEFT_E_VALUE for an eps below 0 or not finite. */

/* (x - mean) / sqrt(var + eps) * weight + bias over the last n axes, whose extents are normalized_shape.
 *   weight, bias  [normalized_shape]
 * Source: Ba, Kiros and Hinton 2016, Layer Normalization, arXiv:1607.06450. */
WEFT_API weft_tensor *weft_layer_norm_shape(weft_tensor *x, int n, const int64_t *normalized_shape, weft_tensor *weight,
                                            weft_tensor *bias, double eps);
/* x / sqrt(mean(x^2) + eps) * weight over the last n axes. Source: Zhang and Sennrich 2019, arXiv:1910.07467, eq. 4. */
WEFT_API weft_tensor *weft_rms_norm_shape(weft_tensor *x, int n, const int64_t *normalized_shape, weft_tensor *weight, double eps);
/* (1 + scale) layer_norm(x) + shift along the last axis.
 *   scale, shift  floats that broadcast to x
 * Source: Peebles and Xie 2022, Scalable Diffusion Models with Transformers, arXiv:2212.09748, section 3.2. */
WEFT_API weft_tensor *weft_adaln(weft_tensor *x, weft_tensor *scale, weft_tensor *shift, double eps);
/* x [N, C, ..] normalised over each group of C / num_groups channels of each n.
 *   weight, bias  [C]
 * Errors: WEFT_E_VALUE when C does not divide. Source: Wu and He 2018, Group Normalization, arXiv:1803.08494. */
WEFT_API weft_tensor *weft_group_norm(weft_tensor *x, int64_t num_groups, weft_tensor *weight, weft_tensor *bias, double eps);

/* Options of batch and instance norm. Numbers are used as given. */
typedef struct weft_batch_norm_opts {
    weft_tensor *running_mean, *running_var; /* [C]; NULL, both: none */
    weft_tensor *weight, *bias;              /* [C]; NULL: 1 and 0 */
    bool training;    /* statistics of x; else the running ones */
    double momentum;  /* running = (1 - momentum) running + momentum now; PyTorch's default is 0.1 */
    double eps;       /* PyTorch's default is 1e-5 */
} weft_batch_norm_opts;

/* x [N, C, ..] normalised channel by channel over all other axes.
 *   new_mean, new_var  NULL, or receive the running statistics after this batch (with the variance of a sample) in
 *                      training with running statistics, else NULL; owned as the result is
 * Errors: WEFT_E_VALUE when running statistics are needed and absent, or one value a channel is to train on.
 * Source: Ioffe and Szegedy 2015, Batch Normalization, arXiv:1502.03167. */
WEFT_API weft_tensor *weft_batch_norm(weft_tensor *x, const weft_batch_norm_opts *opts, weft_tensor **new_mean, weft_tensor **new_var);
/* The same for each n by itself; running statistics move to the mean over n. `training` is PyTorch's use_input_stats.
 * Source: Ulyanov et al. 2016, Instance Normalization, arXiv:1607.08022. */
WEFT_API weft_tensor *weft_instance_norm(weft_tensor *x, const weft_batch_norm_opts *opts, weft_tensor **new_mean, weft_tensor **new_var);
/* x / (k + alpha/size * sum of x^2 over `size` neighbouring channels)^beta; x [N, C, ..] of rank at least 3.
 * Errors: WEFT_E_VALUE for size below 1. Source: Krizhevsky et al. 2012, ImageNet Classification, section 3.3. */
WEFT_API weft_tensor *weft_local_response_norm(weft_tensor *x, int64_t size, double alpha, double beta, double k);
/* g v / ||v||, the norm over all axes but `axis`.
 *   g  [v.shape[axis]], or v's rank with extent 1 elsewhere
 * Source: Salimans and Kingma 2016, Weight Normalization, arXiv:1602.07868. */
WEFT_API weft_tensor *weft_weight_norm(weft_tensor *v, weft_tensor *g, int axis);
/* weft_softmax of -x. */
WEFT_API weft_tensor *weft_softmin(weft_tensor *x, int axis);

/* ---- embeddings and positions ---- */

/* How a bag is made one. */
typedef enum weft_bag_mode {
    WEFT_BAG_MEAN = 0, /* mean */
    WEFT_BAG_SUM,      /* sum */
    WEFT_BAG_MAX       /* largest of each component */
} weft_bag_mode;

/* Options of weft_embedding_bag; all zero: means over the rows of a matrix of indices. */
typedef struct weft_embedding_bag_opts {
    weft_tensor *offsets;            /* [B] integers, ascending: where each bag begins in a vector of indices; NULL: none */
    weft_tensor *per_sample_weights; /* shape of ids, mode sum alone; NULL: 1 */
    weft_bag_mode mode;
    bool include_last_offset;        /* the last offset is the end of the last bag */
    bool has_padding_idx;
    int64_t padding_idx;             /* indices of this value count for nothing */
} weft_embedding_bag_opts;

/* Sums, means or maxima of rows of a table; an empty bag gives zeros.
 *   ids      [B, L] integers, or [L] with offsets
 *   weight   [V, D] of any dtype, block types too
 *   returns  [B, D]; f32 for block types, else dtype of weight
 * Errors: WEFT_E_VALUE for per_sample_weights with another mode; WEFT_E_INDEX for padding_idx outside the table. */
WEFT_API weft_tensor *weft_embedding_bag(weft_tensor *ids, weft_tensor *weight, const weft_embedding_bag_opts *opts);
/* Sines and cosines of positions times base^(-2i/dim), i = 0 .. dim/2-1.
 *   positions    integers or floats of any shape
 *   interleaved  (sin, cos) pairs, else all sines, then all cosines
 *   returns      positions.shape followed by [dim], f32
 * Errors: WEFT_E_VALUE for an odd dim. Source: Vaswani et al. 2017, Attention Is All You Need, section 3.5. */
WEFT_API weft_tensor *weft_sinusoidal_embedding(weft_tensor *positions, int64_t dim, double base, bool interleaved);
/* Buckets of relative positions (key - query): one each for small distances, then growing by a constant factor up to
 * max_distance. Bidirectional: half of them for positions above 0, else those count as 0.
 *   returns  shape of relative_position, i32
 * Source: Raffel et al. 2019, T5, arXiv:1910.10683, section 2.1. */
WEFT_API weft_tensor *weft_relative_position_bucket(weft_tensor *relative_position, bool bidirectional, int64_t num_buckets,
                                                    int64_t max_distance);
/* The bias of those buckets, [H, query_length, key_length], a mask for attention; weight [num_buckets, H]; the first
 * query stands at query_offset. */
WEFT_API weft_tensor *weft_relative_position_bias(weft_tensor *weight, int64_t query_length, int64_t key_length, bool bidirectional,
                                                  int64_t max_distance, int64_t query_offset);
/* [n_heads] f32 slopes of ALiBi: 2^(-8i/n), i = 1 .. n, for a power of two; else those of the power below, then
 * every other one of the next power. Source: Press et al. 2021, arXiv:2108.12409, section 3. */
WEFT_API weft_tensor *weft_alibi_slopes(weft_ctx *ctx, int64_t n_heads);
/* Rotary embedding by three coordinates: token t gh gw + h gw + w turns three equal groups of its head by t, h and w,
 * each as weft_rope turns a head of D/3.
 *   x     [.., T, D]
 *   base  0: 10000
 * Errors: WEFT_E_SHAPE when D % 6 != 0 or T != gt gh gw. */
WEFT_API weft_tensor *weft_rope_3d(weft_tensor *x, int64_t gt, int64_t gh, int64_t gw, double base, bool interleaved);
/* Rotary embedding in sections (M-RoPE): pair i of the head turns by base^(-2i/dim), dim = 2 sum(sections), times the
 * position of its section.
 *   x          [.., T, D]; components from dim on stay
 *   positions  [n_sections, T] integers or floats
 *   sections   pairs in each section
 * Source: Wang et al. 2024, Qwen2-VL, arXiv:2409.12191, section 2.1. */
WEFT_API weft_tensor *weft_rope_sections(weft_tensor *x, weft_tensor *positions, int n_sections, const int64_t *sections, double base,
                                         bool interleaved);

/* ---- losses ----
 *
 *   input, target  floats or integers; they broadcast unless a comment says otherwise
 *   returns        rank 0, or with WEFT_REDUCTION_NONE each element's; the promoted float dtype
 * The mean over no elements is NaN. Names and formulas are PyTorch's. */

/* What becomes of the losses of the elements. */
typedef enum weft_reduction {
    WEFT_REDUCTION_MEAN = 0,  /* mean */
    WEFT_REDUCTION_SUM,       /* sum */
    WEFT_REDUCTION_NONE,      /* kept */
    WEFT_REDUCTION_BATCHMEAN  /* the sum divided by the first extent; kl_div alone */
} weft_reduction;

/* Options of losses over classes. NULL is all zero with ignore_index -100. */
typedef struct weft_class_loss_opts {
    weft_tensor *weight;     /* [C] of the classes; NULL: 1. The mean divides by the weights of the targets */
    int64_t ignore_index;    /* targets of this value count for nothing */
    weft_reduction reduction;
    double label_smoothing;  /* 0 .. 1, cross_entropy alone */
} weft_class_loss_opts;

/* -log softmax(input)[target].
 *   input   [C] or [N, C, d1, ..], a float dtype
 *   target  integers of that shape without C, or probabilities of the whole shape; i64 is compared before it is
 *           narrowed, so the device must have it
 * Errors: WEFT_E_INDEX of the evaluation for a target outside 0 .. C-1. */
WEFT_API weft_tensor *weft_cross_entropy(weft_tensor *input, weft_tensor *target, const weft_class_loss_opts *opts);
/* The same of logarithms of probabilities; target integers. */
WEFT_API weft_tensor *weft_nll_loss(weft_tensor *input, weft_tensor *target, const weft_class_loss_opts *opts);
/* (input - target)^2; weight NULL: 1, else the mean divides by its sum. */
WEFT_API weft_tensor *weft_mse_loss(weft_tensor *input, weft_tensor *target, weft_tensor *weight, weft_reduction reduction);
/* |input - target|. */
WEFT_API weft_tensor *weft_l1_loss(weft_tensor *input, weft_tensor *target, weft_reduction reduction);
/* d^2 / (2 beta) for d = |input - target| below beta, else d - beta/2. */
WEFT_API weft_tensor *weft_smooth_l1_loss(weft_tensor *input, weft_tensor *target, weft_reduction reduction, double beta);
/* d^2 / 2 for d up to delta, else delta (d - delta/2). */
WEFT_API weft_tensor *weft_huber_loss(weft_tensor *input, weft_tensor *target, weft_reduction reduction, double delta);
/* -(t log p + (1 - t) log(1 - p)) of one shape, logarithms at least -100; weight broadcasts. p outside 0 .. 1 gives NaN. */
WEFT_API weft_tensor *weft_binary_cross_entropy(weft_tensor *input, weft_tensor *target, weft_tensor *weight, weft_reduction reduction);
/* The same of p = sigmoid(input), without overflow; pos_weight multiplies the term of t. */
WEFT_API weft_tensor *weft_binary_cross_entropy_with_logits(weft_tensor *input, weft_tensor *target, weft_tensor *weight,
                                                            weft_tensor *pos_weight, weft_reduction reduction);
/* t (log t - input), 0 for t = 0; log_target: t is given as its logarithm. */
WEFT_API weft_tensor *weft_kl_div(weft_tensor *input, weft_tensor *target, weft_reduction reduction, bool log_target);
/* exp(x) - t x, or without log_input x - t log(x + eps); full adds Stirling's log t! where t > 1. */
WEFT_API weft_tensor *weft_poisson_nll_loss(weft_tensor *input, weft_tensor *target, bool log_input, bool full, double eps,
                                            weft_reduction reduction);
/* (log v + (input - t)^2 / v) / 2, v = max(var, eps), one for each element or each row; full adds log(2 pi) / 2. */
WEFT_API weft_tensor *weft_gaussian_nll_loss(weft_tensor *input, weft_tensor *target, weft_tensor *var, bool full, double eps,
                                             weft_reduction reduction);
/* max(0, -t (input1 - input2) + margin). */
WEFT_API weft_tensor *weft_margin_ranking_loss(weft_tensor *input1, weft_tensor *input2, weft_tensor *target, double margin,
                                               weft_reduction reduction);
/* input for t = 1, max(0, margin - input) for t = -1. */
WEFT_API weft_tensor *weft_hinge_embedding_loss(weft_tensor *input, weft_tensor *target, double margin, weft_reduction reduction);
/* log(1 + exp(-t input)). */
WEFT_API weft_tensor *weft_soft_margin_loss(weft_tensor *input, weft_tensor *target, weft_reduction reduction);
/* 1 - cos for t = 1, max(0, cos - margin) for t = -1; inputs [N, D] and t [N], or [D] and []. */
WEFT_API weft_tensor *weft_cosine_embedding_loss(weft_tensor *input1, weft_tensor *input2, weft_tensor *target, double margin,
                                                 weft_reduction reduction);

/* Options of triplet_margin_loss, used as given; NULL is margin 1, p 2, eps 1e-6. */
typedef struct weft_triplet_opts {
    double margin, p, eps;
    bool swap; /* the distance of positive and negative counts when it is the smaller */
} weft_triplet_opts;
/* max(0, d(anchor, positive) - d(anchor, negative) + margin), d weft_pairwise_distance. */
WEFT_API weft_tensor *weft_triplet_margin_loss(weft_tensor *anchor, weft_tensor *positive, weft_tensor *negative,
                                               const weft_triplet_opts *opts, weft_reduction reduction);

/* ---- distances ----
 *
 *   x1, x2   float dtypes, promoted; leading axes broadcast
 *   p        0 (how many differ) .. infinity (the largest)
 * Errors: WEFT_E_VALUE for p below 0. */

/* The p-norm of x1 - x2 + eps along the last axis. */
WEFT_API weft_tensor *weft_pairwise_distance(weft_tensor *x1, weft_tensor *x2, double p, double eps, bool keepdim);
/* The p-norms of all differences of rows: [.., P, M] and [.., R, M] give [.., P, R]. */
WEFT_API weft_tensor *weft_cdist(weft_tensor *x1, weft_tensor *x2, double p);
/* x1^T W x2 + bias: x1 [.., I], x2 [.., J], weight [O, I, J], bias [O] or NULL; returns [.., O]. */
WEFT_API weft_tensor *weft_bilinear(weft_tensor *x1, weft_tensor *x2, weft_tensor *weight, weft_tensor *bias);

#ifdef __cplusplus
}
#endif
#endif
