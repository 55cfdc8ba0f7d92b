/* compose_lines.h - what composites over axes and along one axis share.
 *
 * The functions here make handles of the scope that is open: that of the composite which calls them.
 */
#ifndef WF_COMPOSE_LINES_H
#define WF_COMPOSE_LINES_H

#include "build.h"
#include "composite.h"
#include "pointwise.h"

static inline weft_dtype wf_dtype_of(const weft_tensor *t) { return weft_tensor_dtype(t); }
static inline bool wf_is_float(const weft_tensor *t) { return weft_tensor_dtype(t) <= WEFT_DTYPE_F64; }
static inline bool wf_is_half(const weft_tensor *t)
{
    return weft_tensor_dtype(t) == WEFT_DTYPE_F16 || weft_tensor_dtype(t) == WEFT_DTYPE_BF16;
}
/* 16-bit floats in f32: what is folded is rounded once, at the end. */
static inline weft_tensor *wf_wide(weft_tensor *x) { return wf_is_half(x) ? weft_cast(x, WEFT_DTYPE_F32) : x; }
static inline weft_tensor *wf_float(weft_tensor *x) { return wf_is_float(x) ? wf_wide(x) : weft_cast(x, WEFT_DTYPE_F32); }
static inline weft_tensor *wf_index_number(weft_tensor *x, int64_t value)
{
    return weft_full(weft_tensor_ctx(x), WEFT_DTYPE_I32, 0, NULL, (double)value);
}
static inline weft_tensor *wf_isnan(weft_tensor *x) { return weft_ne(x, x); }

/* The axes of a reduction, ascending: n_axes 0 names all. */
typedef struct wf_axes {
    int axis[WEFT_MAX_RANK];
    int n;         /* 0: rank 0 */
    int64_t count; /* elements folded into one */
} wf_axes;
weft_status wf_axes_read(const char *who, const weft_tensor *x, const int *axes, int n_axes, wf_axes *out);
/* x, where the axes have extent 1, without them. */
weft_tensor *wf_axes_drop(weft_tensor *x, const wf_axes *axes);

/* x with at least one axis, and the axis counted from 0. A rank-0 x has axes 0 and -1, as in PyTorch. */
weft_status wf_line(const char *who, weft_tensor **x, int *axis);

/* Begin a composite of one plain operand and one of its axes, whose indices fit i32 and which, if `some`, is not empty. False:
 * c->failed is the result. */
static inline bool wf_begin_line(wf_composite *c, const char *who, weft_tensor **x, int *axis, bool some)
{
    if (!wf_composite_begin(c, who, 1, 1, x))
        return false;
    weft_status st = wf_require_plain(who, *x);
    if (st == WEFT_OK)
        st = wf_line(who, x, axis);
    if (st == WEFT_OK && some && weft_tensor_dim(*x, *axis) == 0)
        st = wf_fail(WEFT_E_SHAPE, "%s: axis %d is empty", who, *axis);
    if (st == WEFT_OK && weft_tensor_dim(*x, *axis) > INT32_MAX)
        st = wf_fail(WEFT_E_SHAPE, "%s: an index among %lld elements does not fit i32", who, (long long)weft_tensor_dim(*x, *axis));
    if (st == WEFT_OK)
        return true;
    c->failed = wf_composite_end(c, wf_tensor_error_last(c->ctx, st));
    return false;
}
/* A failure as both results of an operation; `other` may be NULL. */
static inline weft_tensor *wf_refuse_both(weft_tensor *failed, weft_tensor **other)
{
    if (other)
        *other = wf_error_again(failed);
    return failed;
}

/* ---- nodes along one axis (build_lines.c), which check nothing ---- */
weft_tensor *wf_scan(weft_tensor *x, int axis, wf_scan_kind kind); /* in the dtype it computes in; i32 for the indices */
weft_tensor *wf_order(weft_tensor *x, int axis, bool descending);  /* i32: the stable order of every line, NaN above all */
/* out = x; for each element e of index, in order: out at e's place, with index[e] on the axis, combined with src[e].
 * index holds 0 .. extent-1 and its shape is that of src, no larger than x on the other axes; src has the dtype of x. */
weft_tensor *wf_scatter(weft_tensor *x, int axis, weft_tensor *index, weft_tensor *src, wf_scatter_kind kind);

/* Errors when index holds no integers. */
static inline weft_status wf_require_index(const char *who, const weft_tensor *index)
{
    weft_dtype d = weft_tensor_dtype(index);
    if (d > WEFT_DTYPE_F64 && d != WEFT_DTYPE_BOOL && !weft_dtype_is_quantised(d))
        return WEFT_OK;
    return wf_fail(WEFT_E_DTYPE, "%s: index is %s, expected integers", who, weft_dtype_name(d));
}
/* index, checked against an extent and counted from 0: one outside is WEFT_E_INDEX of the evaluation. */
weft_tensor *wf_checked_index(weft_tensor *index, int64_t extent);

/* What values can have to be, so that an evaluation is WEFT_E_VALUE where one is not. */
typedef enum wf_value_check { WF_CHECK_WEIGHTS, WF_CHECK_FRACTIONS, WF_VALUE_CHECKS } wf_value_check;
/* x, whose every use checks that ok, a bool of a shape that broadcasts to x's, is true everywhere. */
weft_tensor *wf_checked_values(weft_tensor *x, weft_tensor *ok, wf_value_check which);

#endif
