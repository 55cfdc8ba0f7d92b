/* compose_shape_copy.c - repetition, joining, rolling and padding: views that one copy or one concatenation lays out.
 */
#include "build.h"
#include "composite.h"
#include "weft/ops_shape.h"

static weft_tensor *failed(weft_tensor *x, weft_status st)
{
    return wf_tensor_error_last(x->ctx, st);
}

/* Products of extents before, of and behind an axis: x as [outer, n, inner]. */
static weft_tensor *around(weft_tensor *x, int axis, int64_t *outer, int64_t *inner)
{
    *outer = *inner = 1;
    for (int k = 0; k < x->view.rank; k++)
        if (k != axis && !wf_mul_i64(k < axis ? *outer : *inner, x->view.shape[k], k < axis ? outer : inner))
            return wf_tensor_error(x->ctx, WEFT_E_SHAPE, "repeat: extents beside axis %d are too large", axis);
    return weft_reshape(x, 3, (int64_t[]){*outer, x->view.shape[axis], *inner});
}

/* ---- repetition ---- */

static weft_tensor *repeat_one_axis(weft_tensor *x, int axis, int64_t times, bool interleave)
{
    int64_t outer, inner, n = x->view.shape[axis], shape[WEFT_MAX_RANK];
    memcpy(shape, x->view.shape, sizeof shape);
    shape[axis] = n * times; /* the caller has checked the count */
    weft_tensor *t = weft_unsqueeze(around(x, axis, &outer, &inner), interleave ? 2 : 1);
    t = weft_expand(t, 4, interleave ? (int64_t[]){outer, n, times, inner} : (int64_t[]){outer, times, n, inner});
    return weft_reshape(t, x->view.rank, shape);
}

/* Axis k `times[k]` times: each axis that grows becomes two, the new one without a stride, and a reshape joins them. */
static weft_tensor *repeat(const char *who, weft_tensor *x, const int64_t *times, bool interleave)
{
    int rank = x->view.rank, n = 0;
    int64_t shape[WEFT_MAX_RANK] = {0}, wide[2 * WEFT_MAX_RANK], apart[2 * WEFT_MAX_RANK];
    for (int k = 0; k < rank; k++) {
        int64_t have = x->view.shape[k];
        if (times[k] < 0)
            return wf_tensor_error(x->ctx, WEFT_E_VALUE, "%s: %lld repeats of axis %d", who, (long long)times[k], k);
        if (!wf_mul_i64(have, times[k], &shape[k]))
            return wf_tensor_error(x->ctx, WEFT_E_SHAPE, "%s: %lld times %lld elements are too many", who, (long long)times[k], (long long)have);
        bool both = times[k] != 1 && have != 1;
        int at = both && !interleave ? n + 1 : n; /* where the elements of x lie */
        if (both)
            wide[interleave ? n + 1 : n] = times[k];
        apart[n] = apart[n + (both ? 1 : 0)] = 1;
        wide[at] = have;
        apart[at] = have;
        if (!both && times[k] != 1)
            wide[at] = times[k];
        n += both ? 2 : 1;
    }
    wf_view whole;
    weft_status st = wf_view_contiguous(who, rank, shape, &whole);
    if (st != WEFT_OK)
        return failed(x, st);
    if (n <= WEFT_MAX_RANK)
        return weft_reshape(weft_expand(weft_reshape(x, n, apart), n, wide), rank, shape);
    for (int k = 0; k < rank && x->status == WEFT_OK; k++)
        if (times[k] != 1)
            x = repeat_one_axis(x, k, times[k], interleave);
    return x;
}

static weft_tensor *repeat_ranks(const char *who, weft_tensor *x, int n, const int64_t *repeats, bool pad)
{
    int rank = x->view.rank, full = WF_MAX(n, rank);
    if (n < 0 || (n > 0 && !repeats) || (!pad && n < rank))
        return wf_tensor_error(x->ctx, WEFT_E_VALUE, "%s: %d repeats for rank %d", who, n, rank);
    if (full > WEFT_MAX_RANK)
        return wf_tensor_error(x->ctx, WEFT_E_SHAPE, "%s: rank %d is above %d", who, full, WEFT_MAX_RANK);
    int64_t times[WEFT_MAX_RANK], shape[WEFT_MAX_RANK];
    for (int k = 0; k < full; k++) {
        times[k] = k < full - n ? 1 : repeats[k - (full - n)];
        shape[k] = k < full - rank ? 1 : x->view.shape[k - (full - rank)];
    }
    return repeat(who, full == rank ? x : weft_reshape(x, full, shape), times, false);
}

static weft_tensor *scoped_repeat(const char *who, weft_tensor *x, int n, const int64_t *repeats, bool pad)
{
    wf_composite c;
    if (!wf_composite_begin(&c, who, 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, repeat_ranks(who, x, n, repeats, pad));
}

weft_tensor *weft_repeat(weft_tensor *x, int n, const int64_t *repeats) { return scoped_repeat("repeat", x, n, repeats, false); }
weft_tensor *weft_tile(weft_tensor *x, int n, const int64_t *repeats) { return scoped_repeat("tile", x, n, repeats, true); }

static weft_tensor *compose_repeat_interleave(weft_tensor *x, int64_t repeats, int axis)
{
    weft_status st = wf_axis("repeat_interleave", x->view.rank, axis, &axis);
    if (st != WEFT_OK)
        return failed(x, st);
    int64_t times[WEFT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    times[axis] = repeats;
    return repeat("repeat_interleave", x, times, true);
}

weft_tensor *weft_repeat_interleave(weft_tensor *x, int64_t repeats, int axis)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "repeat_interleave", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, compose_repeat_interleave(x, repeats, axis));
}

static weft_tensor *compose_kron(weft_tensor *a, weft_tensor *b)
{
    int rank = WF_MAX(a->view.rank, b->view.rank), n = 0;
    int64_t sa[WEFT_MAX_RANK], sb[WEFT_MAX_RANK], shape[WEFT_MAX_RANK], wa[2 * WEFT_MAX_RANK], wb[2 * WEFT_MAX_RANK];
    for (int k = 0; k < rank; k++) {
        int ka = k - (rank - a->view.rank), kb = k - (rank - b->view.rank);
        sa[k] = ka < 0 ? 1 : a->view.shape[ka];
        sb[k] = kb < 0 ? 1 : b->view.shape[kb];
        if (!wf_mul_i64(sa[k], sb[k], &shape[k]))
            return wf_tensor_error(a->ctx, WEFT_E_SHAPE, "kron: axis %d has %lld times %lld elements", k, (long long)sa[k], (long long)sb[k]);
        wa[n] = sa[k];
        wb[n] = sa[k] != 1 && sb[k] != 1 ? 1 : sb[k];
        if (wb[n++] != sb[k]) {
            wa[n] = 1;
            wb[n++] = sb[k];
        }
    }
    wf_view whole;
    weft_status st = wf_view_contiguous("kron", rank, shape, &whole);
    if (st != WEFT_OK)
        return failed(a, st);
    if (n <= WEFT_MAX_RANK)
        return weft_reshape(weft_mul(weft_reshape(a, n, wa), weft_reshape(b, n, wb)), rank, shape);
    return weft_mul(repeat("kron", weft_reshape(a, rank, sa), sb, true), repeat("kron", weft_reshape(b, rank, sb), sa, false));
}

weft_tensor *weft_kron(weft_tensor *a, weft_tensor *b)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "kron", 2, WF_INPUTS(a, b)))
        return c.failed;
    return wf_composite_end(&c, compose_kron(a, b));
}

/* ---- joining ---- */

/* xs, each seen with an axis more or at a least rank, one after another. */
static weft_tensor *join(const char *who, weft_tensor *const *xs, int n, int least, int axis)
{
    size_t bytes;
    if (n < 1 || !xs)
        return wf_tensor_error(NULL, WEFT_E_VALUE, "%s: %d inputs%s", who, n, xs ? "" : " at NULL");
    wf_composite c;
    if (!wf_composite_begin(&c, who, 1, 1, xs))
        return c.failed;
    weft_tensor **seen = wf_mul_size((size_t)n, sizeof *seen, &bytes) ? wf_alloc(bytes) : NULL;
    if (!seen)
        return wf_composite_fail(&c, WEFT_E_OOM, "no memory for %d inputs", n);
    for (int i = 0; i < n; i++)
        seen[i] = least ? weft_atleast(xs[i], least) : weft_unsqueeze(xs[i], axis);
    if (least == 1)
        axis = weft_tensor_rank(seen[0]) > 1 ? 1 : 0;
    weft_tensor *r = weft_cat(seen, n, axis);
    wf_free(seen);
    return wf_composite_end(&c, r);
}

weft_tensor *weft_stack(weft_tensor *const *xs, int n, int axis) { return join("stack", xs, n, 0, axis); }
weft_tensor *weft_hstack(weft_tensor *const *xs, int n) { return join("hstack", xs, n, 1, 0); }
weft_tensor *weft_vstack(weft_tensor *const *xs, int n) { return join("vstack", xs, n, 2, 0); }

static weft_tensor *roll_one(weft_tensor *x, int axis, int64_t shift)
{
    int64_t n = x->view.shape[axis];
    if (n < 2 || shift % n == 0)
        return x;
    int64_t cut = n - (shift % n + n) % n;
    weft_tensor *parts[2] = {weft_slice(x, axis, cut, n, 1), weft_slice(x, axis, 0, cut, 1)};
    return weft_cat(parts, 2, axis);
}

static weft_tensor *compose_roll(weft_tensor *x, const int64_t *shifts, const int *axes, int n)
{
    if (n < 0 || !shifts || (!axes && n != 1))
        return wf_tensor_error(x->ctx, WEFT_E_VALUE, "roll: %d shifts%s", n, axes ? "" : " without axes");
    if (!axes) {
        weft_tensor *flat = weft_reshape(x, 1, (int64_t[]){weft_tensor_numel(x)});
        return weft_reshape(roll_one(flat, 0, shifts[0]), x->view.rank, x->view.shape);
    }
    weft_tensor *t = weft_reshape(x, x->view.rank, x->view.shape);
    for (int i = 0; i < n && t->status == WEFT_OK; i++) {
        int axis = 0;
        weft_status st = wf_axis("roll", x->view.rank, axes[i], &axis);
        if (st != WEFT_OK)
            return failed(x, st);
        t = roll_one(t, axis, shifts[i]);
    }
    return t;
}

weft_tensor *weft_roll(weft_tensor *x, const int64_t *shifts, const int *axes, int n)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "roll", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, compose_roll(x, shifts, axes, n));
}

/* ---- padding ---- */

/* What stands in front of (or behind) axis `axis` of x: `count` elements. */
static weft_tensor *margin(weft_tensor *x, int axis, int64_t count, bool behind, weft_pad_mode mode, double value)
{
    int64_t n = x->view.shape[axis], shape[WEFT_MAX_RANK];
    int64_t first = behind ? n - count : 0; /* of the elements that are taken over */
    memcpy(shape, x->view.shape, sizeof shape);
    shape[axis] = count;
    switch (mode) {
    case WEFT_PAD_REFLECT:
        return weft_flip(weft_narrow(x, axis, behind ? first - 1 : 1, count), axis);
    case WEFT_PAD_REPLICATE:
        return weft_expand(weft_narrow(x, axis, behind ? n - 1 : 0, 1), x->view.rank, shape);
    case WEFT_PAD_CIRCULAR:
        return weft_narrow(x, axis, behind ? 0 : n - count, count);
    default:
        return weft_full(x->ctx, (weft_dtype)x->node->dtype, x->view.rank, shape, value);
    }
}

static weft_tensor *pad_axis(weft_tensor *x, int axis, int64_t before, int64_t after, weft_pad_mode mode, double value)
{
    int64_t n = x->view.shape[axis], cut_before = before < 0 ? -before : 0, cut_after = after < 0 ? -after : 0;
    if (cut_before > n || cut_after > n - cut_before)
        return wf_tensor_error(x->ctx, WEFT_E_VALUE, "pad: (%lld, %lld) crops more than the %lld elements of axis %d", (long long)before, (long long)after,
                               (long long)n, axis);
    if (cut_before || cut_after)
        x = weft_slice(x, axis, cut_before, n - cut_after, 1);
    n -= cut_before + cut_after;
    int64_t most = mode == WEFT_PAD_REFLECT ? n - 1 : mode == WEFT_PAD_CIRCULAR || (mode == WEFT_PAD_REPLICATE && n == 0) ? n : INT64_MAX;
    if ((before > 0 && before > most) || (after > 0 && after > most))
        return wf_tensor_error(x->ctx, WEFT_E_VALUE, "pad: (%lld, %lld) is more than axis %d of extent %lld gives", (long long)before, (long long)after, axis,
                               (long long)n);
    weft_tensor *parts[3];
    int n_parts = 0;
    if (before > 0)
        parts[n_parts++] = margin(x, axis, before, false, mode, value);
    parts[n_parts++] = x;
    if (after > 0)
        parts[n_parts++] = margin(x, axis, after, true, mode, value);
    return n_parts == 1 ? x : weft_cat(parts, n_parts, axis);
}

static weft_tensor *compose_pad(weft_tensor *x, int n, const int64_t *pads, weft_pad_mode mode, double value)
{
    int rank = x->view.rank;
    if (n < 0 || n % 2 || n > 2 * rank || (n > 0 && !pads))
        return wf_tensor_error(x->ctx, WEFT_E_VALUE, "pad: %d numbers for rank %d, expected two for each of the last axes", n, rank);
    if ((unsigned)mode > WEFT_PAD_CIRCULAR)
        return wf_tensor_error(x->ctx, WEFT_E_VALUE, "pad: mode number %d is outside 0 .. 3", (int)mode);
    for (int i = 0; i < n; i++)
        if (pads[i] < -WF_MAX_NUMEL || pads[i] > WF_MAX_NUMEL)
            return wf_tensor_error(x->ctx, WEFT_E_SHAPE, "pad: %lld elements are too many", (long long)pads[i]);
    weft_tensor *t = weft_reshape(x, rank, x->view.shape);
    for (int i = 0; i < n / 2 && t->status == WEFT_OK; i++)
        t = pad_axis(t, rank - 1 - i, pads[2 * i], pads[2 * i + 1], mode, value);
    return t;
}

weft_tensor *weft_pad(weft_tensor *x, int n, const int64_t *pads, weft_pad_mode mode, double value)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "pad", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, compose_pad(x, n, pads, mode, value));
}

/* ---- diagonals ---- */

static weft_tensor *compose_diag_embed(weft_tensor *x, int64_t offset, int axis0, int axis1)
{
    weft_ctx *ctx = x->ctx;
    int rank = x->view.rank + 1;
    if (rank < 2 || rank > WEFT_MAX_RANK)
        return wf_tensor_error(ctx, WEFT_E_SHAPE, "diag_embed: input has rank %d, expected 1 .. %d", rank - 1, WEFT_MAX_RANK - 1);
    weft_status st = wf_axis("diag_embed", rank, axis0, &axis0);
    if (st == WEFT_OK)
        st = wf_axis("diag_embed", rank, axis1, &axis1);
    if (st == WEFT_OK && axis0 == axis1)
        st = wf_fail(WEFT_E_SHAPE, "diag_embed: axis %d is named twice", axis0);
    int64_t more = offset < 0 ? -(offset + 1) : offset, n = x->view.shape[rank - 2]; /* without overflow at INT64_MIN */
    if (st == WEFT_OK && (more >= INT32_MAX - 1 || n > INT32_MAX - 1 - more))
        st = wf_fail(WEFT_E_SHAPE, "diag_embed: %lld elements at offset %lld are too many", (long long)n, (long long)offset);
    if (st != WEFT_OK)
        return failed(x, st);
    more = offset < 0 ? -offset : offset;
    n += more;
    weft_tensor *line = more ? weft_pad(x, 2, (int64_t[]){0, more}, WEFT_PAD_CONSTANT, 0) : x;
    line = weft_unsqueeze(line, offset < 0 ? -2 : -1);
    weft_tensor *row = weft_unsqueeze(weft_arange(ctx, WEFT_DTYPE_I32, n, (double)offset, 1), 1);
    weft_tensor *on = weft_eq(row, weft_arange(ctx, WEFT_DTYPE_I32, n, 0, 1));
    weft_tensor *t = weft_where(on, line, weft_full(ctx, weft_tensor_dtype(x), 0, NULL, 0));
    return weft_movedim(t, 2, (int[]){-2, -1}, (int[]){axis0, axis1});
}

weft_tensor *weft_diag_embed(weft_tensor *x, int64_t offset, int axis0, int axis1)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "diag_embed", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, compose_diag_embed(x, offset, axis0, axis1));
}

weft_tensor *weft_diag(weft_tensor *x, int64_t offset)
{
    weft_tensor *r;
    if (!wf_enter("diag", 1, &x, &r))
        return r;
    wf_unlock(&wf_core(x->ctx)->lock);
    if (x->view.rank == 1)
        return weft_diag_embed(x, offset, 0, 1);
    if (x->view.rank == 2)
        return weft_diagonal(x, offset, 0, 1);
    return wf_tensor_error(x->ctx, WEFT_E_SHAPE, "diag: input has rank %d, expected 1 or 2", x->view.rank);
}

/* ---- pixels ---- */

static weft_status pixel_shape(const char *who, const weft_tensor *x, int64_t r, int64_t *rest)
{
    int rank = x->view.rank;
    if (rank < 3)
        return wf_fail(WEFT_E_SHAPE, "%s: input has rank %d, expected 3 or more", who, rank);
    if (r < 1 || r > INT32_MAX)
        return wf_fail(WEFT_E_VALUE, "%s: the factor is %lld", who, (long long)r);
    *rest = 1;
    for (int k = 0; k < rank - 3; k++)
        if (!wf_mul_i64(*rest, x->view.shape[k], rest))
            return wf_fail(WEFT_E_SHAPE, "%s: the leading extents are too large", who);
    return WEFT_OK;
}

static weft_tensor *compose_pixel_shuffle(weft_tensor *x, int64_t r)
{
    int64_t B = 1, shape[WEFT_MAX_RANK];
    weft_status st = pixel_shape("pixel_shuffle", x, r, &B);
    if (st != WEFT_OK)
        return failed(x, st);
    int rank = x->view.rank;
    memcpy(shape, x->view.shape, sizeof shape);
    int64_t C = shape[rank - 3], H = shape[rank - 2], W = shape[rank - 1];
    if (C % (r * r) != 0 || !wf_mul_i64(H, r, &shape[rank - 2]) || !wf_mul_i64(W, r, &shape[rank - 1]))
        return wf_tensor_error(x->ctx, WEFT_E_SHAPE, "pixel_shuffle: %lld channels are no multiple of %lld squared", (long long)C, (long long)r);
    C /= r * r;
    shape[rank - 3] = C;
    weft_tensor *t = weft_reshape(x, 6, (int64_t[]){B, C, r, r, H, W});
    return weft_reshape(weft_permute(t, (int[]){0, 1, 4, 2, 5, 3}), rank, shape);
}

weft_tensor *weft_pixel_shuffle(weft_tensor *x, int64_t r)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "pixel_shuffle", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, compose_pixel_shuffle(x, r));
}

static weft_tensor *compose_pixel_unshuffle(weft_tensor *x, int64_t r)
{
    int64_t B = 1, shape[WEFT_MAX_RANK];
    weft_status st = pixel_shape("pixel_unshuffle", x, r, &B);
    if (st != WEFT_OK)
        return failed(x, st);
    int rank = x->view.rank;
    memcpy(shape, x->view.shape, sizeof shape);
    int64_t C = shape[rank - 3], H = shape[rank - 2], W = shape[rank - 1];
    if (H % r || W % r || !wf_mul_i64(C, r * r, &shape[rank - 3]))
        return wf_tensor_error(x->ctx, WEFT_E_SHAPE, "pixel_unshuffle: %lld x %lld is no multiple of %lld", (long long)H, (long long)W, (long long)r);
    shape[rank - 2] = H / r;
    shape[rank - 1] = W / r;
    weft_tensor *t = weft_reshape(x, 6, (int64_t[]){B, C, H / r, r, W / r, r});
    return weft_reshape(weft_permute(t, (int[]){0, 1, 3, 5, 2, 4}), rank, shape);
}

weft_tensor *weft_pixel_unshuffle(weft_tensor *x, int64_t r)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "pixel_unshuffle", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, compose_pixel_unshuffle(x, r));
}
