/* weft/ops_random.h - random numbers; see weft/ops.h for what all operations share.
 *
 * Philox 4x32-10: value i of a call depends on the seed and on offset + i alone, not on the device, its threads or the shape. Integers and
 * uniform numbers are the same bits everywhere; normal and exponential ones differ by at most 4 units in the last place.
 *   g  the stream, advanced by the number of values of the call (NULL: the context's own, which starts at seed 0, offset 0)
 * Seed and offset are run-time values: a step that draws again finds its plan.
 * "dtype" is f32, f16, bf16 or f64 unless said otherwise. Errors: WEFT_E_DTYPE for another.
 * Source: Salmon, Moraes, Dror and Shaw 2011, Parallel random numbers: as easy as 1, 2, 3.
 */
#ifndef WEFT_OPS_RANDOM_H
#define WEFT_OPS_RANDOM_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A stream of random numbers and the place in it. */
typedef struct weft_generator {
    uint64_t seed;
    uint64_t offset; /* values drawn so far */
} weft_generator;

/* Seed the context's own stream, at offset 0. Errors: WEFT_E_CONTEXT for a closed context or a NULL. */
WEFT_API weft_status weft_manual_seed(weft_ctx *ctx, uint64_t seed);

/* Uniform in [0, 1): multiples of 2^-24 (f16 2^-11, bf16 2^-8, f64 2^-53). */
WEFT_API weft_tensor *weft_rand(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, weft_generator *g);
/* Normal, mean 0 and deviation 1; |x| is below 6.7. Source: Box and Muller 1958. */
WEFT_API weft_tensor *weft_randn(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, weft_generator *g);
/* Integers low .. high - 1 in any plain dtype but bool; the probability of each is within 2^-64 of 1 / (high - low).
 * Errors: WEFT_E_VALUE unless low < high and the dtype (i32 for floats) holds low and high - 1; WEFT_E_DTYPE. */
WEFT_API weft_tensor *weft_randint(weft_ctx *ctx, weft_dtype dtype, int64_t low, int64_t high, int rank, const int64_t *shape, weft_generator *g);
/* Uniform from low to high; rounding may give high. Errors: WEFT_E_VALUE for a bound that is not finite. */
WEFT_API weft_tensor *weft_uniform(weft_ctx *ctx, weft_dtype dtype, double low, double high, int rank, const int64_t *shape, weft_generator *g);
/* Exponential with the given rate: mean 1 / rate. Errors: WEFT_E_VALUE for a rate that is not above 0. */
WEFT_API weft_tensor *weft_exponential(weft_ctx *ctx, weft_dtype dtype, double rate, int rank, const int64_t *shape, weft_generator *g);
/* mean + std times normal numbers; mean and std broadcast, floats or integers (as f32). */
WEFT_API weft_tensor *weft_normal(weft_tensor *mean, weft_tensor *std, weft_generator *g);
/* In the shape and dtype of x. */
WEFT_API weft_tensor *weft_rand_like(weft_tensor *x, weft_generator *g);
WEFT_API weft_tensor *weft_randn_like(weft_tensor *x, weft_generator *g);
/* Integers low .. high - 1 in the shape and dtype of x. Errors: as weft_randint. */
WEFT_API weft_tensor *weft_randint_like(weft_tensor *x, int64_t low, int64_t high, weft_generator *g);
/* 1 with probability p, element by element, else 0; shape and dtype of p. A p below 0 counts as 0, above 1 as 1. */
WEFT_API weft_tensor *weft_bernoulli(weft_tensor *p, weft_generator *g);
/* i32 indices drawn by weights that need not add up to 1.
 *   weights  [C] or [B, C], a float dtype, finite, at least 0, and of each line one above 0
 *   returns  [n] or [B, n]; without replacement n <= C, and when fewer than n weights are above 0 the others follow
 * Errors: WEFT_E_SHAPE; WEFT_E_VALUE for n, and of the evaluation for weights. */
WEFT_API weft_tensor *weft_multinomial(weft_tensor *weights, int64_t n, bool replacement, weft_generator *g);
/* 0 .. n-1 in random order, i32. Equal sort keys (two of n with probability n^2 / 2^33) keep their order. */
WEFT_API weft_tensor *weft_randperm(weft_ctx *ctx, int64_t n, weft_generator *g);
/* The slices of x along an axis in random order. */
WEFT_API weft_tensor *weft_permutation(weft_tensor *x, int axis, weft_generator *g);
/* x where a coin with probability 1 - p says so, times 1 / (1 - p), else 0; x itself unless training.
 * Errors: WEFT_E_VALUE for p outside 0 .. 1. Source: Srivastava et al. 2014, JMLR 15. */
WEFT_API weft_tensor *weft_dropout(weft_tensor *x, double p, bool training, weft_generator *g);

#ifdef __cplusplus
}
#endif
#endif
