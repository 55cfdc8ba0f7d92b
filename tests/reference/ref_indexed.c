/* ref_indexed.c - ops that compute where they read: ranges, selections, joins, rotary embedding, top-k. */
#include "ref.h"

#include <math.h>

ref_array ref_iota(int64_t n, double start, double step, ref_array *scale)
{
    ref_array r = ref_new(1, &n);
    *scale = ref_like(&r);
    for (int64_t i = 0; i < n; i++) {
        r.data[i] = (double)((long double)start + (long double)i * step);
        scale->data[i] = fabs(start) + fabs((double)i * step);
    }
    return r;
}

ref_array ref_tri(int64_t rows, int64_t cols, int64_t diagonal)
{
    ref_array r = ref_new(2, (int64_t[]){rows, cols});
    for (int64_t i = 0; i < rows * cols; i++)
        r.data[i] = i % cols <= i / cols + diagonal;
    return r;
}

static int64_t from_end(double index, int64_t extent)
{
    return (int64_t)index < 0 ? (int64_t)index + extent : (int64_t)index;
}

ref_array ref_index_select(const ref_array *x, int axis, const ref_array *index)
{
    int64_t shape[REF_MAX_RANK];
    int rank = 0;
    for (int k = 0; k < axis; k++)
        shape[rank++] = x->shape[k];
    for (int k = 0; k < index->rank; k++)
        shape[rank++] = index->shape[k];
    for (int k = axis + 1; k < x->rank; k++)
        shape[rank++] = x->shape[k];
    ref_array r = ref_new(rank, shape);
    for (int64_t i = 0, n = ref_numel(&r); i < n; i++) {
        int64_t out[REF_MAX_RANK], in[REF_MAX_RANK];
        ref_index(rank, shape, i, out);
        for (int k = 0; k < axis; k++)
            in[k] = out[k];
        in[axis] = from_end(*ref_at(index, out + axis), x->shape[axis]);
        for (int k = axis + 1; k < x->rank; k++)
            in[k] = out[k - 1 + index->rank];
        r.data[i] = *ref_at(x, in);
    }
    return r;
}

ref_array ref_gather(const ref_array *x, int axis, const ref_array *index)
{
    ref_array r = ref_like(index);
    for (int64_t i = 0, n = ref_numel(&r); i < n; i++) {
        int64_t in[REF_MAX_RANK];
        ref_index(r.rank, r.shape, i, in);
        in[axis] = from_end(*ref_at(index, in), x->shape[axis]);
        r.data[i] = *ref_at(x, in);
    }
    return r;
}

ref_array ref_cat(const ref_array *xs, int n, int axis)
{
    int64_t shape[REF_MAX_RANK];
    for (int k = 0; k < xs[0].rank; k++)
        shape[k] = xs[0].shape[k];
    for (int i = 1; i < n; i++)
        shape[axis] += xs[i].shape[axis];
    ref_array r = ref_new(xs[0].rank, shape);
    int64_t first = 0;
    for (int i = 0; i < n; i++) {
        ref_array part = ref_slice(r, axis, first, xs[i].shape[axis], 1);
        for (int64_t j = 0, m = ref_numel(&xs[i]); j < m; j++)
            *ref_item(&part, j) = *ref_item(&xs[i], j);
        first += xs[i].shape[axis];
    }
    return r;
}

ref_array ref_slice_update(const ref_array *dst, const ref_array *src, int axis, int64_t start)
{
    ref_array r = ref_copy(dst), part = ref_slice(r, axis, start, src->shape[axis], 1);
    for (int64_t i = 0, n = ref_numel(src); i < n; i++)
        *ref_item(&part, i) = *ref_item(src, i);
    return r;
}

/* ---- top-k ---- */

static bool before(double a, double b) /* a comes before b; equal values stay in order */
{
    return isnan(a) ? !isnan(b) : a > b;
}

ref_array ref_topk(const ref_array *x, int64_t k, ref_array *values)
{
    int64_t shape[REF_MAX_RANK], C = x->shape[x->rank - 1], rows = 1;
    for (int i = 0; i < x->rank; i++)
        shape[i] = x->shape[i];
    for (int i = 0; i + 1 < x->rank; i++)
        rows *= shape[i];
    shape[x->rank - 1] = k;
    ref_array r = ref_new(x->rank, shape);
    *values = ref_like(&r);
    bool *taken = ref_alloc((size_t)(C + 1) * sizeof *taken);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t c = 0; c < C; c++)
            taken[c] = false;
        for (int64_t j = 0; j < k; j++) {
            int64_t best = -1;
            for (int64_t c = 0; c < C; c++)
                if (!taken[c] && (best < 0 || before(*ref_item(x, row * C + c), *ref_item(x, row * C + best))))
                    best = c;
            taken[best] = true;
            r.data[row * k + j] = (double)best;
            values->data[row * k + j] = *ref_item(x, row * C + best);
        }
    }
    return r;
}

/* ---- rotary embedding: Su et al. 2021, eq. 34 ---- */

ref_array ref_rope(const ref_array *x, const ref_rope_opts *o, ref_array *pair)
{
    int64_t D = x->shape[x->rank - 1], dim = o->dim ? o->dim : D, half = dim / 2, across = o->across_head ? D / 2 : half;
    long double base = o->base != 0 ? o->base : 10000, scale = o->scale != 0 ? o->scale : 1;
    ref_array r = ref_copy(x);
    *pair = ref_like(x);
    for (int64_t i = 0, n = ref_numel(x); i < n; i++) {
        int64_t at[REF_MAX_RANK], other[REF_MAX_RANK];
        ref_index(x->rank, x->shape, i, at);
        ref_index(x->rank, x->shape, i, other);
        int64_t d = at[x->rank - 1], t = at[x->rank - 2], j, partner;
        bool first;
        if (o->interleaved) {
            j = d / 2;
            first = d % 2 == 0;
            partner = first ? d + 1 : d - 1;
        } else {
            first = d < across;
            j = first ? d : d - across;
            partner = first ? d + across : d - across;
        }
        if (j >= half)
            continue;
        other[x->rank - 1] = partner;
        long double p = (o->positions ? *ref_item(o->positions, t) : (long double)t) + o->offset;
        long double angle = p * scale * powl(base, -2.0L * j / dim) / (o->factors ? (long double)o->factors[j] : 1);
        long double c = cosl(angle), s = sinl(angle), a = *ref_at(x, at), b = *ref_at(x, other);
        r.data[i] = (double)(first ? a * c - b * s : a * c + b * s);
        pair->data[i] = fabs((double)b);
    }
    return r;
}
