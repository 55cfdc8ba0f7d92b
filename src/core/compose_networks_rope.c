/* compose_networks_rope.c - rotary position embedding in f64, where a product of position and frequency keeps its
 * fraction of a turn: the angle of position 2^20 is off by less than 2^-31.
 */
#include <math.h>

#include "compose_networks.h"

/* [dim/2] radians a position. */
static weft_tensor *frequencies(weft_ctx *ctx, const wf_rope_spec *r, const float *factors)
{
    int64_t half = r->dim / 2;
    double *f = wf_alloc((size_t)half * sizeof *f);
    if (!f)
        return wf_tensor_error_last(ctx, WEFT_E_OOM);
    for (int64_t i = 0; i < half; i++) {
        if (factors && (!isfinite(factors[i]) || factors[i] == 0)) {
            wf_free(f);
            return wf_tensor_error(ctx, WEFT_E_VALUE, "rope: frequency factor %d is %g", (int)i, (double)factors[i]);
        }
        f[i] = pow(r->base, -2.0 * (double)i / r->dim) * r->scale / (factors ? (double)factors[i] : 1.0);
    }
    weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_F64, 1, &half, f);
    wf_free(f);
    return t;
}

/* The first and second components of the pairs, turned, back in their places. */
static weft_tensor *turned(weft_tensor *x, const wf_rope_spec *r, weft_tensor *angles)
{
    int64_t D = weft_tensor_dim(x, -1), dim = r->dim, half = dim / 2, second = r->pairing == WF_PAIR_ACROSS_HEAD ? D / 2 : half;
    bool interleaved = r->pairing == WF_PAIR_INTERLEAVED;
    weft_tensor *a = interleaved ? weft_slice(x, -1, 0, dim, 2) : weft_slice(x, -1, 0, half, 1);
    weft_tensor *b = interleaved ? weft_slice(x, -1, 1, dim, 2) : weft_slice(x, -1, second, second + half, 1);
    weft_tensor *cosine = weft_cos(angles), *sine = weft_sin(angles), *parts[4];
    weft_tensor *first = weft_sub(weft_mul(a, cosine), weft_mul(b, sine));
    weft_tensor *other = weft_add(weft_mul(b, cosine), weft_mul(a, sine));
    int n = 0;
    if (interleaved) {
        int64_t shape[WEFT_MAX_RANK];
        int rank = weft_tensor_rank(x);
        memcpy(shape, weft_tensor_shape(x), sizeof shape);
        shape[rank - 1] = half;
        weft_tensor *pairs[2] = {weft_reshape(first, rank, shape), weft_reshape(other, rank, shape)};
        /* Pairs side by side without one more axis, which x may have no room for: [.., dim] by position in the pair. */
        int64_t flat[3] = {weft_tensor_numel(pairs[0]), 1, 0};
        weft_tensor *joined = weft_cat((weft_tensor *[]){weft_reshape(pairs[0], 2, flat), weft_reshape(pairs[1], 2, flat)}, 2, 1);
        shape[rank - 1] = dim;
        parts[n++] = weft_reshape(joined, rank, shape);
    } else {
        parts[n++] = first;
        if (second > half)
            parts[n++] = weft_slice(x, -1, half, second, 1);
        parts[n++] = other;
    }
    int64_t end = interleaved ? dim : second + half;
    if (end < D)
        parts[n++] = weft_slice(x, -1, end, D, 1);
    return weft_cat(parts, n, -1);
}

weft_tensor *wf_rope_f64(weft_tensor *x, const weft_rope_opts *o)
{
    wf_composite c;
    wf_rope_spec r;
    if (!wf_composite_begin(&c, "rope", 1, WF_INPUTS(x, o->positions, o->offset)))
        return c.failed;
    weft_status st = wf_rope_check(x, o, &r);
    if (st == WEFT_OK && o->positions)
        st = wf_rope_check_positions(x, o->positions);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    if (o->offset && (weft_tensor_rank(o->offset) != 0 || !weft_dtype_is_integer(weft_tensor_dtype(o->offset))))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "offset has rank %d and dtype %s, expected one integer", weft_tensor_rank(o->offset),
                                 weft_dtype_name(weft_tensor_dtype(o->offset)));
    if (r.dim == 0)
        return wf_composite_end(&c, x);
    weft_tensor *positions = o->positions ? o->positions : weft_arange(c.ctx, WEFT_DTYPE_I32, weft_tensor_dim(x, -2), 0, 1);
    positions = weft_cast(positions, WEFT_DTYPE_F64);
    if (o->offset)
        positions = weft_add(positions, weft_cast(o->offset, WEFT_DTYPE_F64));
    weft_tensor *angles = weft_mul(weft_unsqueeze(positions, -1), frequencies(c.ctx, &r, o->freq_factors));
    return wf_composite_end(&c, turned(x, &r, angles));
}
