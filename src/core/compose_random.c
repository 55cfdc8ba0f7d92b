/* compose_random.c - random numbers: a node that gives Philox words of (seed, offset + i), and everything else as ops on it.
 *
 * Seed and offset are four run-time scalars, so that a draw at another place is the same plan. A draw takes its place in the
 * stream when it is recorded. emit_random.c is the generator itself.
 */
#include <math.h>

#include "build.h"
#include "composite.h"
#include "compose_lines.h"
#include "weft/ops_indexing.h"
#include "weft/ops_pointwise.h"
#include "weft/ops_random.h"
#include "weft/ops_reduction.h"

typedef struct draw {
    weft_ctx *ctx;
    const char *who;
    wf_view shape;
    weft_tensor *place[4]; /* seed low, high, offset low, high */
    weft_tensor *error;    /* not NULL: the result */
} draw;

static bool is_float(weft_dtype dtype) { return wf_dtype_known(dtype) && weft_dtype_is_float(dtype); }

weft_status weft_manual_seed(weft_ctx *ctx, uint64_t seed)
{
    weft_tensor *r;
    if (!wf_enter_ctx("manual_seed", ctx, &r))
        return WEFT_E_CONTEXT;
    wf_core(ctx)->random_seed = seed;
    wf_core(ctx)->random_offset = 0;
    wf_unlock(&wf_core(ctx)->lock);
    return WEFT_OK;
}

/* Takes the next values of the stream, one for each element of the shape. */
static draw begin(const char *who, weft_ctx *ctx, int rank, const int64_t *shape, weft_generator *g)
{
    draw d = {.ctx = ctx, .who = who};
    if (!wf_enter_ctx(who, ctx, &d.error))
        return d;
    weft_status st = wf_view_contiguous(who, rank, shape, &d.shape);
    weft_generator at = g ? *g : (weft_generator){wf_core(ctx)->random_seed, wf_core(ctx)->random_offset};
    if (st == WEFT_OK) {
        uint64_t n = (uint64_t)wf_view_numel(&d.shape);
        if (g)
            g->offset += n;
        else
            wf_core(ctx)->random_offset += n;
    }
    wf_unlock(&wf_core(ctx)->lock);
    if (st != WEFT_OK) {
        d.error = wf_tensor_error_last(ctx, st);
        return d;
    }
    uint32_t words[4] = {(uint32_t)at.seed, (uint32_t)(at.seed >> 32), (uint32_t)at.offset, (uint32_t)(at.offset >> 32)};
    for (int i = 0; i < 4; i++) {
        int32_t bits;
        memcpy(&bits, &words[i], sizeof bits);
        d.place[i] = weft_scalar_i32(ctx, bits);
    }
    return d;
}

static weft_tensor *take(const draw *d, uint32_t form, uint32_t word, uint32_t range)
{
    weft_tensor *r;
    if (d->error)
        return d->error;
    if (!wf_enter(d->who, 4, d->place, &r))
        return r;
    weft_dtype dtype = form == WF_RANDOM_WORD || form == WF_RANDOM_BELOW ? WEFT_DTYPE_U32 : WEFT_DTYPE_F32;
    wf_node *n = wf_node_like(d->ctx, WF_OP_RANDOM, dtype, 4, &d->shape);
    if (!n)
        return wf_leave(d->ctx, wf_tensor_error_last(d->ctx, WEFT_E_OOM));
    for (int i = 0; i < 4; i++)
        wf_node_set_input(n, i, d->place[i]->node, &d->place[i]->view);
    n->attrs.random.form = form;
    n->attrs.random.word = word;
    n->attrs.random.range = range;
    return wf_leave(d->ctx, wf_tensor_new(d->ctx, n, NULL));
}

/* A number of the dtype; of f32 one that is no part of the plan. */
static weft_tensor *number(weft_ctx *ctx, weft_dtype dtype, double value)
{
    return dtype == WEFT_DTYPE_F32 ? weft_scalar_f32(ctx, (float)value) : weft_full(ctx, dtype, 0, NULL, value);
}

static weft_tensor *constant(weft_ctx *ctx, weft_dtype dtype, double value) { return weft_full(ctx, dtype, 0, NULL, value); }

/* ---- uniform numbers ---- */

/* [0, 1) in f64, of words `word` and the next: 27 and 26 bits. */
static weft_tensor *wide_uniform(const draw *d, uint32_t word)
{
    weft_tensor *high = weft_cast(take(d, WF_RANDOM_WORD, word, 5), WEFT_DTYPE_F64);
    weft_tensor *low = weft_cast(take(d, WF_RANDOM_WORD, word + 1, 6), WEFT_DTYPE_F64);
    weft_tensor *both = weft_add(weft_mul(high, constant(d->ctx, WEFT_DTYPE_F64, 0x1p26)), low);
    return weft_mul(both, constant(d->ctx, WEFT_DTYPE_F64, 0x1p-53));
}

/* [0, 1) in f32, exact in `bits` bits. */
static weft_tensor *narrow_uniform(const draw *d, uint32_t bits)
{
    weft_tensor *word = weft_cast(take(d, WF_RANDOM_WORD, 0, 32 - bits), WEFT_DTYPE_F32);
    return weft_mul(word, constant(d->ctx, WEFT_DTYPE_F32, ldexp(1, -(int)bits)));
}

static weft_tensor *uniform(const draw *d, weft_dtype dtype)
{
    if (dtype == WEFT_DTYPE_F64)
        return wide_uniform(d, 0);
    return weft_cast(narrow_uniform(d, dtype == WEFT_DTYPE_F16 ? 11 : dtype == WEFT_DTYPE_BF16 ? 8 : 24), dtype);
}

static weft_tensor *no_float(const char *who, weft_ctx *ctx, weft_dtype dtype)
{
    return wf_tensor_error(ctx, WEFT_E_DTYPE, "%s: %s is no float dtype", who, weft_dtype_name(dtype));
}

static weft_tensor *compose_rand(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, weft_generator *g)
{
    if (!is_float(dtype))
        return no_float("rand", ctx, dtype);
    draw d = begin("rand", ctx, rank, shape, g);
    return uniform(&d, dtype);
}

weft_tensor *weft_rand(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, weft_generator *g)
{
    wf_composite c;
    if (!wf_composite_begin_ctx(&c, "rand", ctx))
        return c.failed;
    return wf_composite_end(&c, compose_rand(ctx, dtype, rank, shape, g));
}

static weft_tensor *compose_uniform(weft_ctx *ctx, weft_dtype dtype, double low, double high, int rank, const int64_t *shape, weft_generator *g)
{
    if (!is_float(dtype))
        return no_float("uniform", ctx, dtype);
    if (!isfinite(low) || !isfinite(high))
        return wf_tensor_error(ctx, WEFT_E_VALUE, "uniform: from %g to %g", low, high);
    draw d = begin("uniform", ctx, rank, shape, g);
    weft_dtype t = dtype == WEFT_DTYPE_F64 ? dtype : WEFT_DTYPE_F32;
    weft_tensor *u = weft_mul(uniform(&d, t), number(ctx, t, high - low));
    return weft_cast(weft_add(u, number(ctx, t, low)), dtype);
}

weft_tensor *weft_uniform(weft_ctx *ctx, weft_dtype dtype, double low, double high, int rank, const int64_t *shape, weft_generator *g)
{
    wf_composite c;
    if (!wf_composite_begin_ctx(&c, "uniform", ctx))
        return c.failed;
    return wf_composite_end(&c, compose_uniform(ctx, dtype, low, high, rank, shape, g));
}

/* The high word of the 128 bits of word times range, where `range` is not more than 2^64 - 1: 0 .. range - 1. In i64, which wraps as
 * unsigned numbers do; shifts to the right bring sign bits, which are cut off. */
static weft_tensor *wide_below(const draw *d, uint64_t range)
{
    weft_dtype t = WEFT_DTYPE_I64;
    weft_tensor *low_half = constant(d->ctx, t, 0xffffffffu), *by = constant(d->ctx, t, 32);
    weft_tensor *a = weft_cast(take(d, WF_RANDOM_WORD, 0, 0), t), *b = weft_cast(take(d, WF_RANDOM_WORD, 1, 0), t);
    weft_tensor *high = constant(d->ctx, t, (double)(range >> 32)), *low = constant(d->ctx, t, (double)(range & 0xffffffffu));
    weft_tensor *first = weft_bitwise_and(weft_bitwise_right_shift(weft_mul(b, low), by), low_half);
    weft_tensor *second = weft_add(weft_mul(a, low), first);
    weft_tensor *third = weft_add(weft_mul(b, high), weft_bitwise_and(second, low_half));
    weft_tensor *carry = weft_add(weft_bitwise_and(weft_bitwise_right_shift(second, by), low_half),
                                  weft_bitwise_and(weft_bitwise_right_shift(third, by), low_half));
    return weft_add(weft_mul(a, high), carry);
}

static weft_tensor *compose_randint(weft_ctx *ctx, weft_dtype dtype, int64_t low, int64_t high, int rank, const int64_t *shape, weft_generator *g)
{
    if (!wf_dtype_known(dtype) || weft_dtype_is_quantised(dtype) || dtype == WEFT_DTYPE_BOOL)
        return wf_tensor_error(ctx, WEFT_E_DTYPE, "randint: no integers of %s", weft_dtype_name(dtype));
    weft_dtype t = dtype == WEFT_DTYPE_I64 || dtype == WEFT_DTYPE_U32 ? dtype : WEFT_DTYPE_I32;
    int64_t least = t == WEFT_DTYPE_I64 ? INT64_MIN : t == WEFT_DTYPE_U32 ? 0 : INT32_MIN;
    int64_t most = t == WEFT_DTYPE_I64 ? INT64_MAX : t == WEFT_DTYPE_U32 ? (int64_t)UINT32_MAX + 1 : (int64_t)INT32_MAX + 1;
    uint64_t range = (uint64_t)high - (uint64_t)low;
    bool is_byte = dtype == WEFT_DTYPE_I8 || dtype == WEFT_DTYPE_U8;
    if (is_byte) {
        least = dtype == WEFT_DTYPE_I8 ? INT8_MIN : 0;
        most = dtype == WEFT_DTYPE_I8 ? INT8_MAX + 1 : UINT8_MAX + 1;
    }
    if (low >= high || low < least || high > most)
        return wf_tensor_error(ctx, WEFT_E_VALUE, "randint: from %lld to %lld in %s", (long long)low, (long long)high, weft_dtype_name(is_byte ? dtype : t));
    draw d = begin("randint", ctx, rank, shape, g);
    if (d.error)
        return d.error;
    weft_tensor *r = range > (uint64_t)1 << 32 ? wide_below(&d, range) : weft_cast(take(&d, WF_RANDOM_BELOW, 0, (uint32_t)range), t);
    if (low != 0 && (t != WEFT_DTYPE_I64 || (low > -((int64_t)1 << 53) && low < (int64_t)1 << 53)))
        r = weft_add(r, constant(ctx, t, (double)low));
    else if (low != 0) /* a constant is a double */
        r = weft_add(r, weft_tensor_from(ctx, t, 0, NULL, &low));
    return weft_cast(r, dtype);
}

weft_tensor *weft_randint(weft_ctx *ctx, weft_dtype dtype, int64_t low, int64_t high, int rank, const int64_t *shape, weft_generator *g)
{
    wf_composite c;
    if (!wf_composite_begin_ctx(&c, "randint", ctx))
        return c.failed;
    return wf_composite_end(&c, compose_randint(ctx, dtype, low, high, rank, shape, g));
}

weft_tensor *weft_randint_like(weft_tensor *x, int64_t low, int64_t high, weft_generator *g)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "randint_like", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, compose_randint(c.ctx, (weft_dtype)x->node->dtype, low, high, x->view.rank, x->view.shape, g));
}

/* ---- normal and exponential numbers ---- */

static weft_tensor *normal(const draw *d, weft_dtype dtype)
{
    if (dtype != WEFT_DTYPE_F64)
        return weft_cast(take(d, WF_RANDOM_NORMAL, 0, 0), dtype);
    weft_tensor *u = weft_sub(constant(d->ctx, dtype, 1), wide_uniform(d, 0));
    weft_tensor *radius = weft_sqrt(weft_mul(weft_log(u), constant(d->ctx, dtype, -2)));
    return weft_mul(radius, weft_sin(weft_mul(wide_uniform(d, 2), constant(d->ctx, dtype, 6.283185307179586477))));
}

static weft_tensor *exponential(const draw *d, weft_dtype dtype)
{
    if (dtype != WEFT_DTYPE_F64)
        return take(d, WF_RANDOM_EXPONENTIAL, 0, 0);
    weft_tensor *u = weft_sub(constant(d->ctx, dtype, 1), wide_uniform(d, 0));
    return weft_sub(constant(d->ctx, dtype, 0), weft_log(u));
}

static weft_tensor *compose_randn(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, weft_generator *g)
{
    if (!is_float(dtype))
        return no_float("randn", ctx, dtype);
    draw d = begin("randn", ctx, rank, shape, g);
    return normal(&d, dtype);
}

weft_tensor *weft_randn(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, weft_generator *g)
{
    wf_composite c;
    if (!wf_composite_begin_ctx(&c, "randn", ctx))
        return c.failed;
    return wf_composite_end(&c, compose_randn(ctx, dtype, rank, shape, g));
}

static weft_tensor *compose_exponential(weft_ctx *ctx, weft_dtype dtype, double rate, int rank, const int64_t *shape, weft_generator *g)
{
    if (!is_float(dtype))
        return no_float("exponential", ctx, dtype);
    if (!(rate > 0))
        return wf_tensor_error(ctx, WEFT_E_VALUE, "exponential: the rate is %g", rate);
    draw d = begin("exponential", ctx, rank, shape, g);
    weft_tensor *e = exponential(&d, dtype);
    if (rate != 1)
        e = weft_div(e, number(ctx, dtype == WEFT_DTYPE_F64 ? dtype : WEFT_DTYPE_F32, rate));
    return weft_cast(e, dtype);
}

weft_tensor *weft_exponential(weft_ctx *ctx, weft_dtype dtype, double rate, int rank, const int64_t *shape, weft_generator *g)
{
    wf_composite c;
    if (!wf_composite_begin_ctx(&c, "exponential", ctx))
        return c.failed;
    return wf_composite_end(&c, compose_exponential(ctx, dtype, rate, rank, shape, g));
}

static weft_tensor *compose_normal(weft_tensor *mean, weft_tensor *std, weft_generator *g)
{
    weft_ctx *ctx = mean->ctx;
    wf_view shape;
    weft_dtype dtype = WEFT_DTYPE_F32;
    weft_status st = wf_view_broadcast_shape("normal", &mean->view, &std->view, &shape);
    if (st == WEFT_OK)
        st = weft_dtype_promote((weft_dtype)mean->node->dtype, (weft_dtype)std->node->dtype, &dtype);
    if (st != WEFT_OK)
        return wf_tensor_error_last(ctx, st);
    if (!is_float(dtype))
        dtype = WEFT_DTYPE_F32;
    draw d = begin("normal", ctx, shape.rank, shape.shape, g);
    weft_dtype t = dtype == WEFT_DTYPE_F64 ? dtype : WEFT_DTYPE_F32;
    return weft_cast(weft_add(weft_mul(normal(&d, t), weft_cast(std, t)), weft_cast(mean, t)), dtype);
}

weft_tensor *weft_normal(weft_tensor *mean, weft_tensor *std, weft_generator *g)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "normal", 2, WF_INPUTS(mean, std)))
        return c.failed;
    return wf_composite_end(&c, compose_normal(mean, std, g));
}

static weft_tensor *like(const char *who, weft_tensor *x, weft_generator *g, weft_tensor *(*f)(const draw *, weft_dtype))
{
    wf_composite c;
    if (!wf_composite_begin(&c, who, 1, WF_INPUTS(x)))
        return c.failed;
    weft_dtype dtype = (weft_dtype)x->node->dtype;
    if (!is_float(dtype))
        return wf_composite_end(&c, no_float(who, c.ctx, dtype));
    draw d = begin(who, c.ctx, x->view.rank, x->view.shape, g);
    return wf_composite_end(&c, f(&d, dtype));
}

weft_tensor *weft_rand_like(weft_tensor *x, weft_generator *g) { return like("rand_like", x, g, uniform); }
weft_tensor *weft_randn_like(weft_tensor *x, weft_generator *g) { return like("randn_like", x, g, normal); }

/* ---- choices ---- */

static weft_tensor *coin(const draw *d, weft_dtype dtype) /* the number to compare a probability with */
{
    return dtype == WEFT_DTYPE_F64 ? wide_uniform(d, 0) : narrow_uniform(d, 24);
}

static weft_tensor *compose_bernoulli(weft_tensor *p, weft_generator *g)
{
    weft_dtype dtype = (weft_dtype)p->node->dtype;
    if (!is_float(dtype))
        return no_float("bernoulli", p->ctx, dtype);
    draw d = begin("bernoulli", p->ctx, p->view.rank, p->view.shape, g);
    weft_tensor *chance = dtype == WEFT_DTYPE_F64 ? p : weft_cast(p, WEFT_DTYPE_F32);
    return weft_cast(weft_lt(coin(&d, dtype), chance), dtype);
}

weft_tensor *weft_bernoulli(weft_tensor *p, weft_generator *g)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "bernoulli", 1, WF_INPUTS(p)))
        return c.failed;
    return wf_composite_end(&c, compose_bernoulli(p, g));
}

static weft_tensor *compose_dropout(weft_tensor *x, double p, bool training, weft_generator *g)
{
    weft_ctx *ctx = x->ctx;
    weft_dtype dtype = (weft_dtype)x->node->dtype;
    if (!(p >= 0 && p <= 1))
        return wf_tensor_error(ctx, WEFT_E_VALUE, "dropout: p is %g, not 0 .. 1", p);
    if (!is_float(dtype))
        return no_float("dropout", ctx, dtype);
    if (!training)
        return weft_reshape(x, x->view.rank, x->view.shape);
    draw d = begin("dropout", ctx, x->view.rank, x->view.shape, g);
    weft_tensor *keep = weft_ge(narrow_uniform(&d, 24), weft_scalar_f32(ctx, (float)p));
    weft_dtype wide = dtype == WEFT_DTYPE_F64 ? dtype : WEFT_DTYPE_F32; /* x too: beside it a number of rank 0 would be rounded to 16 bits */
    weft_tensor *scaled = weft_mul(weft_cast(x, wide), number(ctx, wide, p < 1 ? 1 / (1 - p) : 0));
    return weft_where(keep, weft_cast(scaled, dtype), constant(ctx, dtype, 0));
}

weft_tensor *weft_dropout(weft_tensor *x, double p, bool training, weft_generator *g)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "dropout", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, compose_dropout(x, p, training, g));
}

static weft_tensor *compose_randperm(weft_ctx *ctx, int64_t n, weft_generator *g)
{
    if (n < 0 || n > INT32_MAX)
        return wf_tensor_error(ctx, WEFT_E_VALUE, "randperm: of %lld", (long long)n);
    draw d = begin("randperm", ctx, 1, &n, g);
    return weft_argsort(take(&d, WF_RANDOM_WORD, 0, 0), 0, true);
}

weft_tensor *weft_randperm(weft_ctx *ctx, int64_t n, weft_generator *g)
{
    wf_composite c;
    if (!wf_composite_begin_ctx(&c, "randperm", ctx))
        return c.failed;
    return wf_composite_end(&c, compose_randperm(ctx, n, g));
}

static weft_tensor *compose_permutation(weft_tensor *x, int axis, weft_generator *g)
{
    weft_status st = wf_axis("permutation", x->view.rank, axis, &axis);
    if (st != WEFT_OK)
        return wf_tensor_error_last(x->ctx, st);
    return weft_index_select(x, axis, weft_randperm(x->ctx, x->view.shape[axis], g));
}

weft_tensor *weft_permutation(weft_tensor *x, int axis, weft_generator *g)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "permutation", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, compose_permutation(x, axis, g));
}

/* All of it in f64, which a device that lacks it leaves to the CPU: the indices are the same on every device.
 *
 * With replacement: where a uniform number falls among the running sums. It stays below the last sum, since u is at most 1 - 2^-53,
 * and what has no weight adds no sum to fall under. */
static weft_tensor *draw_again(weft_tensor *p, int64_t n, weft_generator *g)
{
    int rank = p->view.rank;
    weft_tensor *sums = weft_cumsum(p, -1);
    weft_tensor *total = weft_slice(sums, -1, -1, WEFT_INDEX_NONE, 1);
    draw d = begin("multinomial", p->ctx, rank, rank == 2 ? (int64_t[]){p->view.shape[0], n} : &n, g);
    return weft_searchsorted(sums, weft_mul(wide_uniform(&d, 0), total), true);
}

/* Without: a race. Each index arrives after an exponential time of its weight as rate, and the first n to arrive are the
 * draw (Efraimidis and Spirakis 2006). What has no weight arrives last. */
static weft_tensor *draw_once(weft_tensor *p, int64_t n, weft_generator *g)
{
    draw d = begin("multinomial", p->ctx, p->view.rank, p->view.shape, g);
    weft_tensor *has_weight = weft_gt(p, constant(p->ctx, WEFT_DTYPE_F64, 0));
    weft_tensor *speed = weft_div(p, exponential(&d, WEFT_DTYPE_F64));
    return weft_topk(weft_where(has_weight, speed, constant(p->ctx, WEFT_DTYPE_F64, -1)), n, NULL);
}

static weft_tensor *compose_multinomial(weft_tensor *weights, int64_t n, bool replacement, weft_generator *g)
{
    weft_ctx *ctx = weights->ctx;
    int rank = weights->view.rank;
    weft_dtype dtype = (weft_dtype)weights->node->dtype;
    if (!is_float(dtype))
        return no_float("multinomial", ctx, dtype);
    if (rank < 1 || rank > 2)
        return wf_tensor_error(ctx, WEFT_E_SHAPE, "multinomial: weights have rank %d, expected 1 or 2", rank);
    int64_t C = weights->view.shape[rank - 1];
    if (C == 0 || n < 1 || n > INT32_MAX || (!replacement && n > C))
        return wf_tensor_error(ctx, WEFT_E_VALUE, "multinomial: %lld draws of %lld weights", (long long)n, (long long)C);
    weft_tensor *p = weft_cast(weights, WEFT_DTYPE_F64), *zero = constant(ctx, WEFT_DTYPE_F64, 0);
    weft_tensor *some = weft_gt(weft_max(p, &(int){rank - 1}, 1, true), zero); /* of a NaN, which wins, no */
    weft_tensor *right = weft_logical_and(weft_ge(p, zero), weft_lt(p, constant(ctx, WEFT_DTYPE_F64, HUGE_VAL)));
    p = wf_checked_values(p, weft_logical_and(right, some), WF_CHECK_WEIGHTS);
    return replacement ? draw_again(p, n, g) : draw_once(p, n, g);
}

weft_tensor *weft_multinomial(weft_tensor *weights, int64_t n, bool replacement, weft_generator *g)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "multinomial", 1, WF_INPUTS(weights)))
        return c.failed;
    return wf_composite_end(&c, compose_multinomial(weights, n, replacement, g));
}
