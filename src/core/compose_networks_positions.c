/* compose_networks_positions.c - positions made into numbers: sinusoids, relative buckets, ALiBi, rotations by several
 * coordinates.
 */
#include <math.h>
#include <stdlib.h>

#include "compose_networks.h"

/* Rotation of (cos, sin) basis vectors: weft_rope forms angles in fixed point, so that large positions keep theirs. */
weft_tensor *weft_sinusoidal_embedding(weft_tensor *positions, int64_t dim, double base, bool interleaved)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "sinusoidal_embedding", 1, WF_INPUTS(positions)))
        return c.failed;
    if (dim < 2 || dim % 2 || dim > INT32_MAX - 1)
        return wf_composite_fail(&c, WEFT_E_VALUE, "dim is %lld, expected an even number from 2", (long long)dim);
    if (!(base > 0) || !isfinite(base))
        return wf_composite_fail(&c, WEFT_E_VALUE, "base is %g", base);
    int rank = weft_tensor_rank(positions);
    int64_t n = weft_tensor_numel(positions), half = dim / 2, shape[WEFT_MAX_RANK];
    if (rank + 1 > WEFT_MAX_RANK)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "positions have rank %d, the largest is %d", rank, WEFT_MAX_RANK - 1);
    memcpy(shape, weft_tensor_shape(positions), sizeof shape);
    shape[rank] = dim;
    weft_tensor *one = weft_full(c.ctx, WEFT_DTYPE_F32, 2, (int64_t[]){n, half}, 1);
    weft_tensor *zero = weft_zeros(c.ctx, WEFT_DTYPE_F32, 2, (int64_t[]){n, half});
    weft_tensor *turned = weft_rope(weft_cat((weft_tensor *[]){one, zero}, 2, 1),
                                    &(weft_rope_opts){.base = base, .positions = weft_reshape(positions, 1, &n)});
    weft_tensor *cosine = weft_slice(turned, 1, 0, half, 1), *sine = weft_slice(turned, 1, half, dim, 1);
    weft_tensor *parts[2] = {interleaved ? weft_unsqueeze(sine, -1) : sine, interleaved ? weft_unsqueeze(cosine, -1) : cosine};
    return wf_composite_end(&c, weft_reshape(weft_cat(parts, 2, -1), rank + 1, shape));
}

/* ---- relative positions ---- */

/* The smallest distance that falls into logarithmic bucket `k` of `n` between `exact` and `farthest`. The logarithm is
 * taken in long double with a margin, so that distances on a border fall where exact arithmetic puts them. */
static int64_t first_of_bucket(int64_t k, int64_t n, int64_t exact, int64_t farthest)
{
    long double span = logl((long double)farthest / (long double)exact), border = (long double)exact * expl(span * k / n);
    int64_t d = (int64_t)floorl(border) - 1;
    while (logl((long double)d / (long double)exact) / span * n < (long double)k - 1e-12L)
        d++;
    return d;
}

static weft_tensor *bucket(wf_composite *c, weft_tensor *relative, bool bidirectional, int64_t num_buckets, int64_t max_distance)
{
    weft_tensor *rel = weft_cast(relative, WEFT_DTYPE_I32), *zero = weft_scalar_i32(c->ctx, 0), *distance, *base = NULL;
    int64_t buckets = num_buckets;
    if (bidirectional) {
        buckets /= 2;
        base = weft_mul(weft_cast(weft_gt(rel, zero), WEFT_DTYPE_I32), weft_full(c->ctx, WEFT_DTYPE_I32, 0, NULL, (double)buckets));
        distance = weft_abs(rel);
    } else {
        distance = weft_relu(weft_neg(rel));
    }
    int64_t exact = buckets / 2, n = buckets - exact - 1; /* borders after the exact ones */
    weft_tensor *index = weft_minimum(distance, weft_full(c->ctx, WEFT_DTYPE_I32, 0, NULL, (double)exact));
    if (n > 0) {
        int32_t *borders = wf_alloc((size_t)n * sizeof *borders);
        if (!borders)
            return wf_tensor_error_last(c->ctx, WEFT_E_OOM);
        for (int64_t k = 0; k < n; k++)
            borders[k] = (int32_t)WF_MIN(first_of_bucket(k + 1, n + 1, exact, max_distance), INT32_MAX);
        weft_tensor *table = weft_tensor_from(c->ctx, WEFT_DTYPE_I32, 1, &n, borders);
        wf_free(borders);
        int last = -1;
        weft_tensor *passed = weft_cast(weft_ge(weft_unsqueeze(distance, -1), table), WEFT_DTYPE_I32);
        index = weft_add(index, weft_sum(passed, &last, 1, false));
    }
    return base ? weft_add(base, index) : index;
}

static weft_tensor *check_buckets(wf_composite *c, bool bidirectional, int64_t num_buckets, int64_t max_distance)
{
    int64_t buckets = bidirectional ? num_buckets / 2 : num_buckets;
    if (num_buckets > 1 << 20 || buckets < 2)
        return wf_composite_fail(c, WEFT_E_VALUE, "num_buckets is %lld, expected at least %d", (long long)num_buckets, bidirectional ? 4 : 2);
    if (max_distance <= buckets / 2 || max_distance > INT32_MAX)
        return wf_composite_fail(c, WEFT_E_VALUE, "max_distance is %lld, expected more than %lld, the distances with a bucket each",
                                 (long long)max_distance, (long long)(buckets / 2));
    return NULL;
}

weft_tensor *weft_relative_position_bucket(weft_tensor *relative_position, bool bidirectional, int64_t num_buckets, int64_t max_distance)
{
    wf_composite c;
    weft_tensor *fail;
    if (!wf_composite_begin(&c, "relative_position_bucket", 1, WF_INPUTS(relative_position)))
        return c.failed;
    if (!weft_dtype_is_integer(weft_tensor_dtype(relative_position)))
        return wf_composite_fail(&c, WEFT_E_DTYPE, "relative_position is %s, expected integers",
                                 weft_dtype_name(weft_tensor_dtype(relative_position)));
    if ((fail = check_buckets(&c, bidirectional, num_buckets, max_distance)))
        return fail;
    return wf_composite_end(&c, bucket(&c, relative_position, bidirectional, num_buckets, max_distance));
}

weft_tensor *weft_relative_position_bias(weft_tensor *weight, int64_t query_length, int64_t key_length, bool bidirectional,
                                         int64_t max_distance, int64_t query_offset)
{
    wf_composite c;
    weft_tensor *fail;
    char text[200];
    if (!wf_composite_begin(&c, "relative_position_bias", 1, WF_INPUTS(weight)))
        return c.failed;
    if (weft_tensor_rank(weight) != 2 || !wf_is_float(weight))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "weight is %s, expected [num_buckets, H] of a float dtype", wf_shape_text(weight, text));
    if (query_length < 0 || key_length < 0 || query_length > INT32_MAX || key_length > INT32_MAX || llabs(query_offset) > INT32_MAX / 2)
        return wf_composite_fail(&c, WEFT_E_VALUE, "lengths %lld and %lld, offset %lld", (long long)query_length, (long long)key_length,
                                 (long long)query_offset);
    if ((fail = check_buckets(&c, bidirectional, weft_tensor_shape(weight)[0], max_distance)))
        return fail;
    weft_tensor *keys = weft_arange(c.ctx, WEFT_DTYPE_I32, key_length, 0, 1);
    weft_tensor *queries = weft_unsqueeze(weft_arange(c.ctx, WEFT_DTYPE_I32, query_length, (double)query_offset, 1), -1);
    weft_tensor *index = bucket(&c, weft_sub(keys, queries), bidirectional, weft_tensor_shape(weight)[0], max_distance);
    return wf_composite_end(&c, weft_permute(weft_embedding(weight, index), (int[]){2, 0, 1}));
}

weft_tensor *weft_alibi_slopes(weft_ctx *ctx, int64_t n_heads)
{
    wf_composite c;
    if (!wf_composite_begin_ctx(&c, "alibi_slopes", ctx))
        return c.failed;
    if (n_heads < 1 || n_heads > 1 << 20)
        return wf_composite_fail(&c, WEFT_E_VALUE, "n_heads is %lld, expected 1 .. %d", (long long)n_heads, 1 << 20);
    float *slopes = wf_alloc((size_t)n_heads * sizeof *slopes);
    if (!slopes)
        return wf_composite_end(&c, wf_tensor_error_last(ctx, WEFT_E_OOM));
    /* A geometric sequence of the largest power of two in n; the rest take every other one of the next power's. */
    int64_t power = 1;
    while (power * 2 <= n_heads)
        power *= 2;
    for (int64_t i = 0; i < n_heads; i++)
        slopes[i] = (float)(i < power ? pow(2, -8.0 * (double)(i + 1) / (double)power)
                                      : pow(2, -4.0 * (double)(2 * (i - power) + 1) / (double)power));
    weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, &n_heads, slopes);
    wf_free(slopes);
    return wf_composite_end(&c, t);
}

/* ---- rotations by several coordinates ---- */

/* Coordinate `which` (0: t, 1: h, 2: w) of the tokens of a grid, [gt * gh * gw] i32. */
static weft_tensor *coordinate(weft_ctx *ctx, int which, const int64_t grid[3], int64_t T)
{
    int64_t shape[3] = {1, 1, 1};
    shape[which] = grid[which];
    weft_tensor *line = weft_reshape(weft_arange(ctx, WEFT_DTYPE_I32, grid[which], 0, 1), 3, shape);
    return weft_reshape(weft_expand(line, 3, grid), 1, &T);
}

weft_tensor *weft_rope_3d(weft_tensor *x, int64_t gt, int64_t gh, int64_t gw, double base, bool interleaved)
{
    wf_composite c;
    int64_t grid[3] = {gt, gh, gw}, T;
    if (!wf_composite_begin(&c, "rope_3d", 1, WF_INPUTS(x)))
        return c.failed;
    if (weft_tensor_rank(x) < 2)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "input has rank %d, expected [.., T, D]", weft_tensor_rank(x));
    int64_t D = weft_tensor_dim(x, -1);
    if (D % 6)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "head dimension %lld is no multiple of 6", (long long)D);
    bool counted = gt >= 0 && gh >= 0 && gw >= 0 && wf_mul_i64(gt, gh, &T) && wf_mul_i64(T, gw, &T);
    if (!counted || T != weft_tensor_dim(x, -2))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "a grid of %lld x %lld x %lld for %lld tokens", (long long)gt, (long long)gh,
                                 (long long)gw, (long long)weft_tensor_dim(x, -2));
    if (D == 0)
        return wf_composite_end(&c, x);
    weft_tensor *parts[3];
    for (int i = 0; i < 3; i++) {
        weft_rope_opts o = {.base = base, .interleaved = interleaved, .positions = coordinate(c.ctx, i, grid, T)};
        parts[i] = weft_rope(weft_slice(x, -1, i * (D / 3), (i + 1) * (D / 3), 1), &o);
    }
    return wf_composite_end(&c, weft_cat(parts, 3, -1));
}

/* Pairs a .. b-1 of a head of dim 2n turn by base^(-2i / 2n): the rope of a head of 2(b-a) with base^((b-a) / n), its
 * positions times base^(-a / n). Base and scale are doubles, so nothing is lost. */
weft_tensor *weft_rope_sections(weft_tensor *x, weft_tensor *positions, int n_sections, const int64_t *sections, double base,
                                bool interleaved)
{
    wf_composite c;
    char text[200];
    enum { MOST = 8 };
    if (!wf_composite_begin(&c, "rope_sections", 2, WF_INPUTS(x, positions)))
        return c.failed;
    if (n_sections < 1 || n_sections > MOST || !sections)
        return wf_composite_fail(&c, WEFT_E_VALUE, "%d sections, expected 1 .. %d", n_sections, (int)MOST);
    if (!(base > 0) || !isfinite(base))
        return wf_composite_fail(&c, WEFT_E_VALUE, "base is %g", base);
    if (weft_tensor_rank(x) < 2)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "input has rank %d, expected [.., T, D]", weft_tensor_rank(x));
    int64_t D = weft_tensor_dim(x, -1), T = weft_tensor_dim(x, -2), pairs = 0;
    for (int i = 0; i < n_sections; i++) {
        if (sections[i] < 0 || sections[i] > D)
            return wf_composite_fail(&c, WEFT_E_VALUE, "section %d has %lld pairs", i, (long long)sections[i]);
        pairs += sections[i];
    }
    if (pairs * 2 > D || pairs == 0)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "sections of %lld pairs for a head of %lld", (long long)pairs, (long long)D);
    if (weft_tensor_rank(positions) != 2 || weft_tensor_shape(positions)[0] != n_sections || weft_tensor_shape(positions)[1] != T)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "positions are %s, expected [%d, %lld]", wf_shape_text(positions, text), n_sections,
                                 (long long)T);
    weft_tensor *parts[2 * MOST + 1];
    int n = 0, second = 0;
    int64_t at = 0;
    for (int i = 0; i < n_sections; i++)
        second += sections[i] > 0;
    for (int i = 0; i < n_sections; at += sections[i++]) {
        int64_t a = at, b = at + sections[i];
        if (a == b)
            continue;
        weft_rope_opts o = {.base = pow(base, (double)(b - a) / (double)pairs), .scale = pow(base, -(double)a / (double)pairs),
                            .interleaved = interleaved, .positions = weft_squeeze(weft_slice(positions, 0, i, i + 1, 1), 0)};
        if (interleaved) {
            parts[n++] = weft_rope(weft_slice(x, -1, 2 * a, 2 * b, 1), &o);
            continue;
        }
        weft_tensor *halves[2] = {weft_slice(x, -1, a, b, 1), weft_slice(x, -1, pairs + a, pairs + b, 1)};
        weft_tensor *turned = weft_rope(weft_cat(halves, 2, -1), &o);
        parts[n] = weft_slice(turned, -1, 0, b - a, 1);
        parts[second + n++] = weft_slice(turned, -1, b - a, 2 * (b - a), 1);
    }
    if (!interleaved)
        n *= 2;
    if (2 * pairs < D)
        parts[n++] = weft_slice(x, -1, 2 * pairs, D, 1);
    return wf_composite_end(&c, weft_cat(parts, n, -1));
}
