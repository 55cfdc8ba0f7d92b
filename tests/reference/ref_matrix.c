/* ref_matrix.c - matrix products and attention by their definitions. */
#include "ref.h"

#include <math.h>

static ref_array as_matrix(const ref_array *a, bool row)
{
    ref_array m = *a;
    if (a->rank != 1)
        return m;
    m.rank = 2;
    m.shape[row ? 1 : 0] = a->shape[0];
    m.strides[row ? 1 : 0] = a->strides[0];
    m.shape[row ? 0 : 1] = 1;
    m.strides[row ? 0 : 1] = 0;
    return m;
}

static ref_array drop_axis(ref_array a, int axis)
{
    for (int k = axis; k + 1 < a.rank; k++) {
        a.shape[k] = a.shape[k + 1];
        a.strides[k] = a.strides[k + 1];
    }
    a.rank--;
    return a;
}

ref_array ref_matmul(const ref_array *a, const ref_array *b, ref_array *scale)
{
    ref_array ma = as_matrix(a, true), mb = as_matrix(b, false);
    int rank = ma.rank > mb.rank ? ma.rank : mb.rank;
    int64_t shape[REF_MAX_RANK], sa[REF_MAX_RANK], sb[REF_MAX_RANK], K = ma.shape[ma.rank - 1];
    for (int k = 0; k < rank - 2; k++) {
        int ka = k - (rank - ma.rank), kb = k - (rank - mb.rank);
        int64_t na = ka < 0 ? 1 : ma.shape[ka], nb = kb < 0 ? 1 : mb.shape[kb];
        shape[k] = sa[k] = sb[k] = na == 1 ? nb : na;
    }
    shape[rank - 2] = sa[rank - 2] = ma.shape[ma.rank - 2];
    sa[rank - 1] = sb[rank - 2] = K;
    shape[rank - 1] = sb[rank - 1] = mb.shape[mb.rank - 1];
    ma = ref_expand(ma, rank, sa);
    mb = ref_expand(mb, rank, sb);
    ref_array r = ref_new(rank, shape);
    *scale = ref_like(&r);
    for (int64_t i = 0, n = ref_numel(&r); i < n; i++) {
        int64_t ia[REF_MAX_RANK], ib[REF_MAX_RANK];
        long double sum = 0, size = 0;
        ref_index(rank, shape, i, ia);
        ref_index(rank, shape, i, ib);
        for (int64_t k = 0; k < K; k++) {
            ia[rank - 1] = ib[rank - 2] = k;
            long double p = (long double)*ref_at(&ma, ia) * *ref_at(&mb, ib);
            sum += p;
            size += fabsl(p);
        }
        r.data[i] = (double)sum;
        scale->data[i] = (double)size;
    }
    if (b->rank == 1) {
        r = drop_axis(r, r.rank - 1);
        *scale = drop_axis(*scale, scale->rank - 1);
    }
    if (a->rank == 1) {
        int axis = r.rank - (b->rank == 1 ? 1 : 2);
        r = drop_axis(r, axis);
        *scale = drop_axis(*scale, axis);
    }
    return r;
}

ref_array ref_linear(const ref_array *x, const ref_array *w, const ref_array *bias, ref_array *scale)
{
    ref_array wt = ref_swap(*w, 0, 1), r = ref_matmul(x, &wt, scale);
    for (int64_t i = 0, n = ref_numel(&r); bias && i < n; i++) {
        double b = *ref_item(bias, i % w->shape[0]);
        r.data[i] += b;
        scale->data[i] += fabs(b);
    }
    return r;
}

/* ---- attention ---- */

/* The score of one pair; -inf where it is masked. *size: sum of the magnitudes. */
static long double score(const ref_array *q, const ref_array *k, const ref_attention *o, const int64_t at[3], int64_t j,
                         int64_t group, long double scale, long double *size)
{
    int64_t Tq = q->shape[2], Tk = k->shape[2], L = o->kv_len < 0 ? Tk : o->kv_len;
    *size = 0;
    int64_t distance = j - (L - Tq + at[2]);
    if (j >= L || (o->causal && distance > 0) || (o->left && distance < 1 - o->left) || (o->right && distance > o->right - 1))
        return -INFINITY;
    long double s = 0;
    for (int64_t d = 0; d < q->shape[3]; d++) {
        long double p = scale * *ref_at(q, (int64_t[]){at[0], at[1], at[2], d}) *
                        *ref_at(k, (int64_t[]){at[0], at[1] / group, j, d});
        s += p;
        *size += fabsl(p);
    }
    if (o->softcap > 0)
        s = o->softcap * tanhl(s / o->softcap);
    if (o->slopes) {
        s += (long double)o->slopes[at[1]] * distance;
        *size += fabsl((long double)o->slopes[at[1]] * distance);
    }
    if (!o->mask)
        return s;
    double m = *ref_at(o->mask, (int64_t[]){at[0], at[1], at[2], j});
    if (o->mask_is_bool)
        return m != 0 ? s : -INFINITY;
    if (isfinite(m))
        *size += fabs(m);
    return s + m;
}

ref_array ref_sdpa(const ref_array *q, const ref_array *k, const ref_array *v, const ref_attention *o, ref_array *max_v,
                   ref_array *max_s)
{
    int64_t Hq = q->shape[1], Tq = q->shape[2], D = q->shape[3], E = v->shape[3], Tk = k->shape[2], group = Hq ? Hq / k->shape[1] : 1;
    long double scale = o->scale != 0 ? o->scale : 1 / sqrtl((long double)D);
    int64_t dims[4] = {q->shape[0], Hq, Tq, E};
    ref_array r = ref_new(4, dims);
    *max_v = ref_new(4, dims);
    *max_s = ref_new(4, dims);
    long double *s = ref_alloc(sizeof *s * (size_t)(Tk + 1));
    for (int64_t row = 0; row < q->shape[0] * Hq * Tq; row++) {
        int64_t at[3] = {row / Tq / Hq, row / Tq % Hq, row % Tq};
        long double most = o->sinks ? o->sinks[at[1]] : -INFINITY, largest = o->sinks ? fabsl(most) : 0, sum = 0, size;
        for (int64_t j = 0; j < Tk; j++) {
            s[j] = score(q, k, o, at, j, group, scale, &size);
            most = s[j] > most ? s[j] : most;
            largest = s[j] > -INFINITY && size > largest ? size : largest;
        }
        for (int64_t j = 0; j < Tk; j++) {
            s[j] = s[j] == -INFINITY ? 0 : expl(s[j] - most);
            sum += s[j];
        }
        sum += o->sinks ? expl(o->sinks[at[1]] - most) : 0;
        for (int64_t d = 0; d < E; d++) {
            long double y = 0;
            double reach = 0;
            for (int64_t j = 0; j < Tk; j++) {
                if (s[j] == 0)
                    continue;
                double value = *ref_at(v, (int64_t[]){at[0], at[1] / group, j, d});
                y += s[j] / sum * value;
                reach = fabs(value) > reach ? fabs(value) : reach;
            }
            r.data[row * E + d] = (double)y;
            max_v->data[row * E + d] = reach;
            max_s->data[row * E + d] = (double)largest;
        }
    }
    return r;
}
