/* ref_reduce.c - reductions over axes, and softmax and norms along one. */
#include "ref.h"

#include <math.h>
#include <string.h>

enum { SUM, MEAN, PROD, MAX, MIN, ARGMAX, ARGMIN };

static int reduction(const char *name)
{
    static const char *const names[] = {"sum", "mean", "prod", "max", "min", "argmax", "argmin"};
    for (int i = 0; i < 7; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* Whether v, later in order, beats the best so far. */
static bool beats(int op, double v, double best)
{
    if (isnan(best) || isnan(v))
        return isnan(v) && !isnan(best);
    return op == MAX || op == ARGMAX ? v > best : v < best;
}

static double reduce_one(int op, const ref_array *x, int64_t *index, const int *axes, int n_axes, int64_t count, double *scale)
{
    long double sum = 0, size = 0, product = 1;
    double best = NAN;
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        for (int k = n_axes - 1; k >= 0; k--) {
            index[axes[k]] = rest % x->shape[axes[k]];
            rest /= x->shape[axes[k]];
        }
        double v = *ref_at(x, index);
        sum += v;
        size += fabs(v);
        product *= v;
        if (i == 0 || beats(op, v, best)) {
            best = v;
            at = i;
        }
    }
    long double r = op == SUM ? sum : op == MEAN ? sum / count : op == PROD ? product : op >= ARGMAX ? at : best;
    *scale = (double)(op == SUM ? size : op == MEAN ? size / count : fabsl(r));
    return (double)r;
}

ref_array ref_reduce(const char *name, const ref_array *x, uint32_t mask, bool keepdim, ref_array *scale, int64_t *length)
{
    int axes[REF_MAX_RANK], kept[REF_MAX_RANK], n_axes = 0, n_kept = 0, rank = 0;
    int64_t shape[REF_MAX_RANK], count = 1;
    for (int k = 0; k < x->rank; k++) {
        bool reduced = mask >> k & 1;
        if (reduced) {
            axes[n_axes++] = k;
            count *= x->shape[k];
        } else {
            kept[n_kept++] = k;
        }
        if (!reduced || keepdim)
            shape[rank++] = reduced ? 1 : x->shape[k];
    }
    ref_array r = ref_new(rank, shape);
    *scale = ref_like(&r);
    *length = count;
    for (int64_t i = 0, n = ref_numel(&r); i < n; i++) {
        int64_t index[REF_MAX_RANK] = {0}, rest = i;
        for (int k = n_kept - 1; k >= 0; k--) {
            index[kept[k]] = rest % x->shape[kept[k]];
            rest /= x->shape[kept[k]];
        }
        r.data[i] = reduce_one(reduction(name), x, index, axes, n_axes, count, &scale->data[i]);
    }
    return r;
}

/* ---- rows ---- */

typedef struct row_stats {
    long double max, max_abs, mean, mean_square, variance, exp_sum;
} row_stats;

static row_stats stats_of(const ref_array *x, int axis, int64_t *index)
{
    row_stats s = {.max = -INFINITY};
    int64_t C = x->shape[axis];
    for (index[axis] = 0; index[axis] < C; index[axis]++) {
        long double v = *ref_at(x, index);
        s.max = isnan(v) || isnan(s.max) ? NAN : v > s.max ? v : s.max;
        s.max_abs = isnan(v) || fabsl(v) > s.max_abs ? fabsl(v) : s.max_abs;
        s.mean += v / C;
        s.mean_square += v * v / C;
    }
    for (index[axis] = 0; index[axis] < C; index[axis]++) {
        long double v = *ref_at(x, index);
        s.variance += (v - s.mean) * (v - s.mean) / C;
        s.exp_sum += expl(v - s.max);
    }
    return s;
}

ref_array ref_row(const char *name, const ref_array *x, int axis, const ref_array *weight, const ref_array *bias, double eps,
                  ref_row_scales *scales)
{
    bool softmax = strcmp(name, "softmax") == 0, log_softmax = strcmp(name, "log_softmax") == 0;
    bool rms = strcmp(name, "rms_norm") == 0;
    ref_array r = ref_like(x);
    *scales = (ref_row_scales){ref_like(x), ref_like(x), ref_like(x)};
    for (int64_t i = 0, n = ref_numel(x); i < n; i++) {
        int64_t index[REF_MAX_RANK];
        ref_index(x->rank, x->shape, i, index);
        int64_t c = index[axis];
        row_stats s = stats_of(x, axis, index);
        long double v = *ref_item(x, i), y, term, w = weight ? *ref_at(weight, &c) : 1, b = bias ? *ref_at(bias, &c) : 0;
        long double std = sqrtl(s.variance + eps), size = s.max_abs;
        if (softmax) {
            term = y = expl(v - s.max) / s.exp_sum;
        } else if (log_softmax) {
            term = y = v - s.max - logl(s.exp_sum);
        } else if (rms) {
            term = y = v / sqrtl(s.mean_square + eps) * w;
        } else {
            term = (v - s.mean) / std * w;
            y = term + b;
            size *= fabsl(w);
        }
        r.data[i] = (double)y;
        scales->S.data[i] = (double)(fabsl(term) + fabsl(b));
        scales->max_x.data[i] = (double)size;
        scales->std.data[i] = (double)std;
    }
    return r;
}
