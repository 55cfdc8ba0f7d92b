/* compose_networks_bags.c - sums, means and maxima over bags of embedding rows.
 *
 * Bags are the rows of a matrix of indices, or runs of a vector of them that begin at given offsets. The offsets are
 * values of the device, so a run is a mask over the whole vector, which fuses with its reduction.
 */
#include <math.h>

#include "compose_networks.h"

typedef struct bag {
    weft_tensor *rows; /* [B or 1, L, D] wide */
    weft_tensor *live; /* bool [B, L, 1], or NULL: all of them */
    int64_t B, L;
} bag;

static weft_tensor *check(wf_composite *c, weft_tensor *ids, weft_tensor *weight, const weft_embedding_bag_opts *o)
{
    char text[200], w[200];
    if (!weft_dtype_is_integer(weft_tensor_dtype(ids)))
        return wf_composite_fail(c, WEFT_E_DTYPE, "input is %s, expected integers", weft_dtype_name(weft_tensor_dtype(ids)));
    if (weft_tensor_rank(weight) != 2)
        return wf_composite_fail(c, WEFT_E_SHAPE, "weight is %s, expected [V, D]", wf_shape_text(weight, text));
    if (weft_tensor_rank(ids) != (o->offsets ? 1 : 2))
        return wf_composite_fail(c, WEFT_E_SHAPE, "input is %s, expected %s", wf_shape_text(ids, text),
                                 o->offsets ? "[L], because offsets are given" : "[B, L], because no offsets are given");
    if (o->offsets && (weft_tensor_rank(o->offsets) != 1 || !weft_dtype_is_integer(weft_tensor_dtype(o->offsets))))
        return wf_composite_fail(c, WEFT_E_SHAPE, "offsets are %s %s, expected [B] of integers", weft_dtype_name(weft_tensor_dtype(o->offsets)),
                                 wf_shape_text(o->offsets, text));
    if (o->offsets && o->include_last_offset && weft_tensor_shape(o->offsets)[0] < 1)
        return wf_composite_fail(c, WEFT_E_SHAPE, "no offsets, where the last one is the end");
    if (o->per_sample_weights && o->mode != WEFT_BAG_SUM)
        return wf_composite_fail(c, WEFT_E_VALUE, "per_sample_weights need mode sum");
    if (o->per_sample_weights && !wf_same_extents(o->per_sample_weights, ids))
        return wf_composite_fail(c, WEFT_E_SHAPE, "per_sample_weights are %s, expected the shape of input, %s",
                                 wf_shape_text(o->per_sample_weights, w), wf_shape_text(ids, text));
    if (o->mode < WEFT_BAG_MEAN || o->mode > WEFT_BAG_MAX)
        return wf_composite_fail(c, WEFT_E_VALUE, "no mode of number %d", (int)o->mode);
    int64_t V = weft_tensor_shape(weight)[0];
    if (o->has_padding_idx && (o->padding_idx < -V || o->padding_idx >= V))
        return wf_composite_fail(c, WEFT_E_INDEX, "padding_idx %lld is outside a table of %lld rows", (long long)o->padding_idx, (long long)V);
    return NULL;
}

/* bool [B, L]: position j belongs to bag i when offset i <= j < offset i+1. */
static weft_tensor *membership(weft_tensor *offsets, bool include_last, int64_t L, int64_t *B)
{
    weft_ctx *ctx = weft_tensor_ctx(offsets);
    offsets = weft_cast(offsets, WEFT_DTYPE_I32);
    int64_t n = weft_tensor_shape(offsets)[0];
    *B = include_last ? n - 1 : n;
    weft_tensor *j = weft_arange(ctx, WEFT_DTYPE_I32, L, 0, 1), *begin = weft_slice(offsets, 0, 0, *B, 1);
    weft_tensor *end = weft_slice(offsets, 0, 1, n, 1);
    if (!include_last)
        end = weft_cat((weft_tensor *[]){weft_slice(offsets, 0, 1, n, 1), weft_full(ctx, WEFT_DTYPE_I32, 1, (int64_t[]){n > 0}, (double)L)}, 2, 0);
    return weft_mul(weft_ge(j, weft_unsqueeze(begin, 1)), weft_lt(j, weft_unsqueeze(end, 1)));
}

static weft_tensor *folded(const bag *b, weft_bag_mode mode)
{
    weft_tensor *zero = wf_number(b->rows, 0);
    int axis = 1;
    weft_tensor *rows = b->live ? weft_where(b->live, b->rows, zero) : b->rows;
    if (mode == WEFT_BAG_SUM)
        return weft_sum(rows, &axis, 1, false);
    weft_tensor *count = b->live ? weft_sum(weft_cast(b->live, weft_tensor_dtype(b->rows)), &axis, 1, false) : NULL;
    if (mode == WEFT_BAG_MEAN && count)
        return weft_div(weft_sum(rows, &axis, 1, false), weft_maximum(count, wf_number(count, 1)));
    if (mode == WEFT_BAG_MEAN)
        return wf_times(weft_sum(rows, &axis, 1, false), 1.0 / (double)WF_MAX(b->L, 1));
    if (b->L == 0)
        return weft_sum(rows, &axis, 1, false);
    if (!count)
        return weft_max(rows, &axis, 1, false);
    weft_tensor *most = weft_max(weft_where(b->live, b->rows, wf_number(b->rows, -INFINITY)), &axis, 1, false);
    return weft_where(weft_gt(count, wf_number(count, 0)), most, zero);
}

weft_tensor *weft_embedding_bag(weft_tensor *ids, weft_tensor *weight, const weft_embedding_bag_opts *opts)
{
    static const weft_embedding_bag_opts none;
    const weft_embedding_bag_opts *o = opts ? opts : &none;
    wf_composite c;
    weft_tensor *fail;
    if (!wf_composite_begin(&c, "embedding_bag", 2, WF_INPUTS(ids, weight, o->offsets, o->per_sample_weights)))
        return c.failed;
    if ((fail = check(&c, ids, weight, o)))
        return fail;
    weft_dtype dtype = weft_tensor_dtype(weight) >= WEFT_DTYPE_Q8_0 ? WEFT_DTYPE_F32 : weft_tensor_dtype(weight);
    bag b = {.L = weft_tensor_dim(ids, -1), .B = weft_tensor_dim(ids, 0)};
    weft_tensor *live = NULL;
    if (o->has_padding_idx) {
        int64_t V = weft_tensor_shape(weight)[0], pad = o->padding_idx < 0 ? o->padding_idx + V : o->padding_idx;
        live = weft_ne(ids, weft_full(c.ctx, WEFT_DTYPE_I32, 0, NULL, (double)pad));
    }
    if (o->offsets) {
        weft_tensor *mine = membership(o->offsets, o->include_last_offset, b.L, &b.B);
        live = live ? weft_mul(mine, live) : mine;
    }
    b.rows = wf_wide(weft_embedding(weight, ids));
    if (o->per_sample_weights)
        b.rows = weft_mul(b.rows, weft_unsqueeze(weft_cast(o->per_sample_weights, weft_tensor_dtype(b.rows)), -1));
    if (o->offsets)
        b.rows = weft_unsqueeze(b.rows, 0);
    b.live = live ? weft_unsqueeze(live, -1) : NULL;
    return wf_composite_end(&c, weft_cast(folded(&b, o->mode), dtype));
}
