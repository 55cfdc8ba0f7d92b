/* compose_where.c - shapes that follow from values: nonzero, masked_select, unique, bincount.
 *
 * A running count numbers the places that are wanted; scattering their positions there makes them dense. How many there
 * are must be known first: the actions evaluate that count, and what follows is lazy again.
 */
#include "compose_lines.h"
#include "weft/ops_indexing.h"
#include "weft/ops_reduction.h"

static weft_tensor *flatten(weft_tensor *x) { return weft_reshape(x, 1, (int64_t[]){-1}); }

/* [size] i32: the first positions where flags [n] hold, -1 after the last. *running gets their running count. */
static weft_tensor *positions(weft_tensor *flags, int64_t size, weft_tensor **running)
{
    weft_ctx *ctx = weft_tensor_ctx(flags);
    int64_t n = weft_tensor_numel(flags), room = size + 1;
    weft_tensor *count = wf_scan(flags, 0, WF_SCAN_SUM);
    weft_tensor *wanted = weft_mul(flags, weft_le(count, wf_index_number(flags, size)));
    weft_tensor *place = weft_where(wanted, weft_sub(count, wf_index_number(flags, 1)), wf_index_number(flags, size));
    weft_tensor *none = weft_full(ctx, WEFT_DTYPE_I32, 1, &room, -1);
    if (running)
        *running = count;
    return weft_slice(wf_scatter(none, 0, place, weft_arange(ctx, WEFT_DTYPE_I32, n, 0, 1), WF_SCATTER_SET), 0, 0, size, 1);
}

/* How many flags hold. Evaluates. */
static weft_status count_now(weft_tensor *flags, int64_t *n)
{
    int32_t count = 0;
    *n = 0;
    if (weft_tensor_numel(flags) == 0)
        return weft_tensor_status(flags);
    WF_TRY(weft_read(weft_sum(flags, NULL, 0, false), &count, sizeof count));
    *n = count;
    return WEFT_OK;
}

static weft_status check_size(const char *who, const weft_tensor *x)
{
    if (wf_view_numel(&x->view) <= INT32_MAX - 1)
        return WEFT_OK;
    return wf_fail(WEFT_E_SHAPE, "%s: a position among %lld elements does not fit i32", who, (long long)wf_view_numel(&x->view));
}

/* Coordinate d of row-major positions in the shape of x. */
static weft_tensor *coordinate(weft_tensor *x, int d, weft_tensor *at)
{
    int64_t shape[WEFT_MAX_RANK];
    if (weft_tensor_rank(x) == 1)
        return at;
    for (int k = 0; k < weft_tensor_rank(x); k++)
        shape[k] = k == d ? -1 : 1;
    weft_tensor *line = weft_arange(weft_tensor_ctx(x), WEFT_DTYPE_I32, weft_tensor_dim(x, d), 0, 1);
    weft_tensor *all = weft_expand(weft_reshape(line, weft_tensor_rank(x), shape), weft_tensor_rank(x), weft_tensor_shape(x));
    return weft_index_select(flatten(all), 0, at); /* nothing of this is stored */
}

/* [size, rank]; rows after the last are fill_value, where `fills`. */
static weft_tensor *coordinates(weft_tensor *x, weft_tensor *flags, int64_t size, bool fills, int64_t fill_value)
{
    weft_ctx *ctx = weft_tensor_ctx(x);
    int rank = weft_tensor_rank(x);
    int64_t shape[2] = {size, rank}, column[2] = {size, 1};
    weft_tensor *columns[WEFT_MAX_RANK];
    if (rank == 0 || size == 0 || weft_tensor_numel(x) == 0)
        return weft_full(ctx, WEFT_DTYPE_I32, 2, shape, (double)fill_value);
    weft_tensor *at = positions(flags, size, NULL), *zero = wf_index_number(x, 0), *there = weft_ge(at, zero);
    for (int d = 0; d < rank; d++) {
        weft_tensor *v = coordinate(x, d, weft_maximum(at, zero));
        columns[d] = weft_reshape(fills ? weft_where(there, v, wf_index_number(x, fill_value)) : v, 2, column);
    }
    return weft_cat(columns, rank, 1);
}

weft_tensor *weft_nonzero_static(weft_tensor *x, int64_t size, int64_t fill_value)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "nonzero_static", 1, 1, &x))
        return c.failed;
    if (size < 0 || size > INT32_MAX - 1 || fill_value < INT32_MIN || fill_value > INT32_MAX)
        return wf_composite_fail(&c, WEFT_E_VALUE, "size is %lld, fill_value %lld", (long long)size, (long long)fill_value);
    weft_status st = wf_require_plain(c.who, x);
    if (st == WEFT_OK)
        st = check_size(c.who, x);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    return wf_composite_end(&c, coordinates(x, weft_ne(flatten(x), wf_const_like(x, 0)), size, true, fill_value));
}

weft_tensor *weft_nonzero(weft_tensor *x)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "nonzero", 1, 1, &x))
        return c.failed;
    int64_t n = 0;
    weft_status st = wf_require_plain(c.who, x);
    if (st == WEFT_OK)
        st = check_size(c.who, x);
    weft_tensor *flags = st == WEFT_OK ? weft_ne(flatten(x), wf_const_like(x, 0)) : NULL;
    if (st == WEFT_OK)
        st = count_now(flags, &n);
    return wf_composite_end(&c, st == WEFT_OK ? coordinates(x, flags, n, false, 0) : wf_tensor_error_last(c.ctx, st));
}

weft_tensor *weft_masked_select(weft_tensor *x, weft_tensor *mask)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "masked_select", 2, WF_INPUTS(x, mask)))
        return c.failed;
    wf_view both;
    int64_t n = 0;
    weft_status st = wf_require_plain(c.who, x);
    if (st == WEFT_OK && wf_dtype_of(mask) != WEFT_DTYPE_BOOL)
        st = wf_fail(WEFT_E_DTYPE, "masked_select: mask is %s, expected bool", weft_dtype_name(wf_dtype_of(mask)));
    if (st == WEFT_OK)
        st = wf_view_broadcast_shape(c.who, &x->view, &mask->view, &both);
    if (st == WEFT_OK) {
        x = flatten(weft_expand(x, both.rank, both.shape));
        mask = flatten(weft_expand(mask, both.rank, both.shape));
        st = check_size(c.who, x);
    }
    if (st == WEFT_OK)
        st = count_now(mask, &n);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    if (n == 0)
        return wf_composite_end(&c, weft_zeros(c.ctx, wf_dtype_of(x), 1, &n));
    return wf_composite_end(&c, weft_index_select(x, 0, positions(mask, n, NULL)));
}

weft_tensor *weft_masked_scatter(weft_tensor *x, weft_tensor *mask, weft_tensor *src)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "masked_scatter", 3, WF_INPUTS(x, mask, src)))
        return c.failed;
    int rank = weft_tensor_rank(x);
    weft_status st = wf_require_plain(c.who, x);
    if (st == WEFT_OK)
        st = check_size(c.who, x);
    if (st == WEFT_OK && wf_dtype_of(mask) != WEFT_DTYPE_BOOL)
        st = wf_fail(WEFT_E_DTYPE, "masked_scatter: mask is %s, expected bool", weft_dtype_name(wf_dtype_of(mask)));
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    mask = weft_expand(mask, rank, weft_tensor_shape(x));
    if (weft_tensor_status(mask) != WEFT_OK || weft_tensor_numel(x) == 0)
        return wf_composite_end(&c, weft_tensor_status(mask) != WEFT_OK ? mask : x);
    weft_tensor *flat = flatten(mask), *zero = wf_index_number(x, 0);
    weft_tensor *at = weft_where(flat, weft_sub(wf_scan(flat, 0, WF_SCAN_SUM), wf_index_number(x, 1)), zero);
    weft_tensor *from = flatten(weft_cast(src, wf_dtype_of(x)));
    if (weft_tensor_numel(src) == 0) /* one that is never taken, unless an index is outside */
        from = weft_slice(weft_zeros(c.ctx, wf_dtype_of(x), 1, (int64_t[]){1}), 0, 0, 1, 1);
    weft_tensor *v = weft_reshape(weft_index_select(from, 0, at), rank, weft_tensor_shape(x));
    return wf_composite_end(&c, weft_where(mask, v, x));
}

/* ---- repeats that follow from values ---- */

weft_tensor *weft_repeat_interleave_counts(weft_tensor *x, weft_tensor *counts, int axis, int64_t size)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "repeat_interleave", 2, WF_INPUTS(x, counts)))
        return c.failed;
    weft_status st = wf_require_plain(c.who, x);
    if (st == WEFT_OK)
        st = wf_line(c.who, &x, &axis);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    int64_t n = weft_tensor_dim(x, axis);
    if (!weft_dtype_is_integer(wf_dtype_of(counts)))
        return wf_composite_fail(&c, WEFT_E_DTYPE, "repeats are %s, expected integers", weft_dtype_name(wf_dtype_of(counts)));
    if (weft_tensor_rank(counts) > 1 || (weft_tensor_numel(counts) != 1 && weft_tensor_numel(counts) != n))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "%lld repeats of rank %d for axis %d of extent %lld", (long long)weft_tensor_numel(counts),
                                 weft_tensor_rank(counts), axis, (long long)n);
    if (size < -1 || size > INT32_MAX)
        return wf_composite_fail(&c, WEFT_E_VALUE, "output_size is %lld", (long long)size);
    counts = weft_expand(weft_tensor_rank(counts) ? counts : weft_reshape(counts, 1, (int64_t[]){1}), 1, &n);
    weft_tensor *wide = weft_cast(counts, WEFT_DTYPE_I64);
    if (size < 0 && n > 0) {
        int64_t least = 0;
        weft_tensor *ends[2] = {weft_min(counts, NULL, 0, false), weft_sum(wide, NULL, 0, false)};
        st = weft_eval(ends, 2);
        if (st == WEFT_OK)
            st = weft_read_as(ends[0], WEFT_DTYPE_I64, &least, sizeof least);
        if (st == WEFT_OK)
            st = weft_read(ends[1], &size, sizeof size);
        if (st != WEFT_OK)
            return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
        if (least < 0 || size < 0 || size > INT32_MAX)
            return wf_composite_fail(&c, WEFT_E_VALUE, "repeats of %lld and more, %lld in all", (long long)least, (long long)size);
    }
    if (n == 0 || size <= 0)
        return wf_composite_end(&c, weft_slice(x, axis, 0, 0, 1));
    weft_tensor *ends = weft_cumsum(weft_cast(counts, WEFT_DTYPE_I32), 0), *place = weft_arange(c.ctx, WEFT_DTYPE_I32, size, 0, 1);
    weft_tensor *from = weft_minimum(weft_searchsorted(ends, place, true), wf_index_number(x, n - 1));
    return wf_composite_end(&c, weft_index_select(x, axis, from));
}

/* ---- unique ---- */

weft_tensor *weft_unique(weft_tensor *x, weft_tensor **inverse, weft_tensor **counts)
{
    wf_composite c;
    weft_tensor *ends = NULL, *running = NULL;
    int64_t n = weft_tensor_numel(x), found = 0;
    weft_status st = WEFT_E_CONTEXT;
    bool begun = wf_composite_begin(&c, "unique", 1, 1, &x);
    if (begun)
        st = wf_require_plain(c.who, x);
    if (begun && st == WEFT_OK)
        st = check_size(c.who, x);
    if (st == WEFT_OK && n == 0) {
        if (inverse)
            *inverse = wf_composite_give(&c, weft_zeros(c.ctx, WEFT_DTYPE_I32, weft_tensor_rank(x), weft_tensor_shape(x)));
        if (counts)
            *counts = wf_composite_give(&c, weft_zeros(c.ctx, WEFT_DTYPE_I32, 1, &n));
        return wf_composite_end(&c, flatten(x));
    }
    weft_tensor *order = NULL, *sorted = NULL, *first = NULL;
    if (st == WEFT_OK) {
        weft_tensor *flat = flatten(x), *yes = weft_full(c.ctx, WEFT_DTYPE_BOOL, 1, (int64_t[]){1}, 1);
        order = wf_order(flat, 0, false);
        sorted = weft_gather(flat, 0, order);
        weft_tensor *differs = weft_ne(weft_slice(sorted, 0, 1, n, 1), weft_slice(sorted, 0, 0, n - 1, 1));
        first = weft_cat((weft_tensor *[]){yes, differs}, 2, 0);
        weft_eval((weft_tensor *[]){sorted, order, first}, 3);
        st = count_now(first, &found);
    }
    if (st != WEFT_OK) {
        weft_tensor *failed = begun ? wf_composite_end(&c, wf_tensor_error_last(c.ctx, st)) : c.failed;
        if (inverse)
            *inverse = wf_error_again(failed);
        if (counts)
            *counts = wf_error_again(failed);
        return failed;
    }
    weft_tensor *at = positions(first, found, &running);
    if (inverse) {
        weft_tensor *place = weft_sub(running, wf_index_number(x, 1));
        weft_tensor *v = wf_scatter(weft_zeros(c.ctx, WEFT_DTYPE_I32, 1, &n), 0, order, place, WF_SCATTER_SET);
        *inverse = wf_composite_give(&c, weft_reshape(v, weft_tensor_rank(x), weft_tensor_shape(x)));
    }
    if (counts) {
        ends = weft_full(c.ctx, WEFT_DTYPE_I32, 1, (int64_t[]){1}, (double)n);
        *counts = wf_composite_give(&c, weft_diff(at, 1, 0, NULL, ends));
    }
    return wf_composite_end(&c, weft_index_select(sorted, 0, at));
}

/* ---- bincount ---- */

weft_tensor *weft_bincount(weft_tensor *x, weft_tensor *weights, int64_t minlength)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "bincount", 1, WF_INPUTS(x, weights)))
        return c.failed;
    int64_t n = weft_tensor_numel(x), size = minlength;
    weft_dtype dtype = wf_dtype_of(x);
    if (weft_tensor_rank(x) != 1 || (weights && (weft_tensor_rank(weights) != 1 || weft_tensor_numel(weights) != n)))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "input has rank %d and %lld elements, weights %lld; expected rank 1 and as many",
                                 weft_tensor_rank(x), (long long)n, (long long)(weights ? weft_tensor_numel(weights) : n));
    if (dtype <= WEFT_DTYPE_F64 || dtype == WEFT_DTYPE_BOOL || weft_dtype_is_quantised(dtype))
        return wf_composite_fail(&c, WEFT_E_DTYPE, "input is %s, expected integers", weft_dtype_name(dtype));
    if (minlength < 0)
        return wf_composite_fail(&c, WEFT_E_VALUE, "minlength is %lld", (long long)minlength);
    weft_tensor *at = weft_cast(x, WEFT_DTYPE_I32);
    if (n > 0) {
        int32_t low = 0, high = 0;
        weft_tensor *ends[2] = {weft_min(at, NULL, 0, false), weft_max(at, NULL, 0, false)};
        weft_status st = weft_eval(ends, 2);
        if (st == WEFT_OK)
            st = weft_read(ends[0], &low, sizeof low);
        if (st == WEFT_OK)
            st = weft_read(ends[1], &high, sizeof high);
        if (st != WEFT_OK)
            return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
        if (low < 0)
            return wf_composite_fail(&c, WEFT_E_VALUE, "input holds %d, which is below 0", low);
        size = WF_MAX(size, (int64_t)high + 1);
    }
    weft_dtype result = !weights ? WEFT_DTYPE_I32 : wf_dtype_of(weights) == WEFT_DTYPE_F64 ? WEFT_DTYPE_F64 : WEFT_DTYPE_F32;
    weft_tensor *each = weights ? weft_cast(weights, result) : weft_full(c.ctx, result, 1, &n, 1);
    return wf_composite_end(&c, wf_scatter(weft_zeros(c.ctx, result, 1, &size), 0, at, each, WF_SCATTER_ADD));
}
