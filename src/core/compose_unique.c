/* compose_unique.c - the different slices along an axis. The slices are read and put in order on the host: there is no order of
 * several keys on a device, and how many there are must be known anyway.
 */
#include <math.h>

#include "compose_lines.h"
#include "weft/ops_indexing.h"
#include "weft/ops_shape.h"

typedef struct slices {
    int64_t n, length;
    const double *real; /* one of the two: [n, length] */
    const int64_t *whole;
} slices;

/* -1, 0, 1. NaN is above all and equal to nothing. */
static int compare_reals(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? (isnan(b) ? -1 : 1) : -1;
    return (a > b) - (a < b);
}

static int compare(const slices *s, int32_t a, int32_t b)
{
    int order = 0;
    for (int64_t k = 0; k < s->length && order == 0; k++) {
        int64_t i = a * s->length + k, j = b * s->length + k;
        order = s->real ? compare_reals(s->real[i], s->real[j]) : (s->whole[i] > s->whole[j]) - (s->whole[i] < s->whole[j]);
    }
    return order;
}

/* Slices that compare as equal stay in their order. Merges runs of 1, 2, 4, .. from one array to the other. */
static int32_t *sorted(const slices *s, int32_t *from, int32_t *to)
{
    for (int64_t i = 0; i < s->n; i++)
        from[i] = (int32_t)i;
    for (int64_t run = 1; run < s->n; run *= 2) {
        for (int64_t begin = 0; begin < s->n; begin += 2 * run) {
            int64_t middle = WF_MIN(begin + run, s->n), end = WF_MIN(begin + 2 * run, s->n), a = begin, b = middle;
            for (int64_t k = begin; k < end; k++)
                to[k] = b >= end || (a < middle && compare(s, from[a], from[b]) <= 0) ? from[a++] : from[b++];
        }
        int32_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

/* The slices of x along an axis as rows of host memory, which the caller frees. */
static weft_status read_slices(weft_tensor *x, int axis, slices *s, void **memory)
{
    size_t bytes;
    weft_dtype dtype = wf_is_float(x) ? WEFT_DTYPE_F64 : WEFT_DTYPE_I64;
    s->n = weft_tensor_dim(x, axis);
    s->length = s->n ? weft_tensor_numel(x) / s->n : 0;
    if (s->n > INT32_MAX - 1)
        return wf_fail(WEFT_E_SHAPE, "unique: a position among %lld slices does not fit i32", (long long)s->n);
    if (!wf_mul_size((size_t)weft_tensor_numel(x), 8, &bytes))
        return wf_fail_oom(SIZE_MAX);
    if (!(*memory = wf_alloc(bytes + 8)))
        return wf_fail_oom(bytes);
    s->real = wf_is_float(x) ? *memory : NULL;
    s->whole = wf_is_float(x) ? NULL : *memory;
    return bytes ? weft_read_as(weft_movedim(x, 1, &axis, (int[]){0}), dtype, *memory, bytes) : WEFT_OK;
}

/* Where the first of each lies, [found]; for each slice which it is, [n]; and how many, [found]. */
static void number(const slices *s, const int32_t *order, int32_t *first, int32_t *which, int32_t *count, int64_t *found)
{
    for (int64_t i = 0; i < s->n; i++) {
        if (i == 0 || compare(s, order[i - 1], order[i]) != 0) {
            first[*found] = order[i];
            count[(*found)++] = 0;
        }
        which[order[i]] = (int32_t)*found - 1;
        count[*found - 1]++;
    }
}

weft_tensor *weft_unique_along(weft_tensor *x, int axis, weft_tensor **inverse, weft_tensor **counts)
{
    wf_composite c;
    slices s = {0};
    void *memory = NULL;
    int32_t *work = NULL;
    int64_t found = 0;
    weft_tensor *result = NULL, *which = NULL, *count = NULL;
    if (!wf_composite_begin(&c, "unique", 1, 1, &x)) {
        if (inverse)
            *inverse = wf_error_again(c.failed);
        if (counts)
            *counts = wf_error_again(c.failed);
        return c.failed;
    }
    weft_status st = wf_require_plain(c.who, x);
    if (st == WEFT_OK)
        st = wf_line(c.who, &x, &axis);
    if (st == WEFT_OK)
        st = read_slices(x, axis, &s, &memory);
    if (st == WEFT_OK && !(work = wf_calloc((size_t)s.n + 1, 5 * sizeof *work)))
        st = wf_fail_oom((size_t)s.n);
    if (st == WEFT_OK) {
        int32_t *first = work + 2 * s.n, *of_slice = first + s.n, *times = of_slice + s.n;
        number(&s, sorted(&s, work, work + s.n), first, of_slice, times, &found);
        result = weft_index_select(x, axis, weft_tensor_from(c.ctx, WEFT_DTYPE_I32, 1, &found, first));
        which = weft_tensor_from(c.ctx, WEFT_DTYPE_I32, 1, &s.n, of_slice);
        count = weft_tensor_from(c.ctx, WEFT_DTYPE_I32, 1, &found, times);
    } else {
        result = which = count = wf_tensor_error_last(c.ctx, st);
    }
    wf_free(work);
    wf_free(memory);
    if (inverse)
        *inverse = wf_composite_give(&c, which);
    if (counts)
        *counts = wf_composite_give(&c, count);
    return wf_composite_end(&c, result);
}
