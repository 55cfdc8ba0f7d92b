/* compose_running.c - running sums and extremes along an axis, and differences: the inverse of a running sum. */
#include "compose_lines.h"
#include "weft/ops_reduction.h"

/* Begin with one operand and one of its axes. */
static bool begin(wf_composite *c, const char *who, bool floats, weft_tensor **x, int *axis)
{
    if (!wf_composite_begin(c, who, 1, 1, x))
        return false;
    weft_status st = floats ? wf_require_float(who, *x) : wf_require_plain(who, *x);
    if (st == WEFT_OK)
        st = wf_line(who, x, axis);
    if (st == WEFT_OK && weft_tensor_dim(*x, *axis) > INT32_MAX)
        st = wf_fail(WEFT_E_SHAPE, "%s: axis %d of %lld elements, at most 2^31-1", who, *axis, (long long)weft_tensor_dim(*x, *axis));
    if (st == WEFT_OK)
        return true;
    c->failed = wf_composite_end(c, wf_tensor_error_last(c->ctx, st));
    return false;
}

static weft_tensor *running(const char *who, bool floats, weft_tensor *x, int axis, wf_scan_kind kind)
{
    wf_composite c;
    weft_tensor *line = x;
    if (!begin(&c, who, floats, &line, &axis))
        return c.failed;
    weft_tensor *r = wf_scan(line, axis, kind);
    if (wf_is_float(x))
        r = weft_cast(r, wf_dtype_of(x));
    return wf_composite_end(&c, weft_tensor_rank(x) == 0 ? weft_reshape(r, 0, NULL) : r);
}

weft_tensor *weft_cumsum(weft_tensor *x, int axis) { return running("cumsum", false, x, axis, WF_SCAN_SUM); }
weft_tensor *weft_cumprod(weft_tensor *x, int axis) { return running("cumprod", false, x, axis, WF_SCAN_PROD); }
weft_tensor *weft_logcumsumexp(weft_tensor *x, int axis) { return running("logcumsumexp", true, x, axis, WF_SCAN_LOGSUMEXP); }

static weft_tensor *extremes(const char *who, weft_tensor *x, int axis, wf_scan_kind kind, weft_tensor **indices)
{
    wf_composite c;
    weft_tensor *line = x;
    if (!begin(&c, who, false, &line, &axis)) {
        if (indices)
            *indices = wf_error_again(c.failed);
        return c.failed;
    }
    weft_tensor *at = wf_scan(line, axis, kind), *v = weft_gather(line, axis, at);
    bool scalar = weft_tensor_rank(x) == 0;
    if (indices)
        *indices = wf_composite_give(&c, scalar ? weft_reshape(at, 0, NULL) : at);
    return wf_composite_end(&c, scalar ? weft_reshape(v, 0, NULL) : v);
}

weft_tensor *weft_cummax(weft_tensor *x, int axis, weft_tensor **indices)
{
    return extremes("cummax", x, axis, WF_SCAN_MAX_INDEX, indices);
}
weft_tensor *weft_cummin(weft_tensor *x, int axis, weft_tensor **indices)
{
    return extremes("cummin", x, axis, WF_SCAN_MIN_INDEX, indices);
}

weft_tensor *weft_diff(weft_tensor *x, int64_t n, int axis, weft_tensor *prepend, weft_tensor *append)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "diff", 1, WF_INPUTS(x, prepend, append)))
        return c.failed;
    weft_status st = wf_require_plain(c.who, x);
    if (st == WEFT_OK)
        st = wf_axis(c.who, weft_tensor_rank(x), axis, &axis);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    if (n < 0)
        return wf_composite_fail(&c, WEFT_E_VALUE, "n is %lld", (long long)n);
    weft_tensor *parts[3];
    int n_parts = 0;
    if (prepend)
        parts[n_parts++] = prepend;
    parts[n_parts++] = x;
    if (append)
        parts[n_parts++] = append;
    weft_tensor *r = n > 0 && n_parts > 1 ? weft_cat(parts, n_parts, axis) : x;
    bool is_bool = wf_dtype_of(r) == WEFT_DTYPE_BOOL;
    for (int64_t i = 0; i < n; i++) {
        int64_t extent = weft_tensor_dim(r, axis);
        if (extent == 0)
            break;
        weft_tensor *after = weft_slice(r, axis, 1, WEFT_INDEX_NONE, 1), *before = weft_slice(r, axis, 0, extent - 1, 1);
        r = is_bool ? weft_ne(after, before) : weft_sub(after, before);
    }
    return wf_composite_end(&c, r);
}
