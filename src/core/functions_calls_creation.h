/* functions_calls_creation.h - calls of functions_creation.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_CREATION_H
#define WF_FUNCTIONS_CALLS_CREATION_H

#include "build.h"
#include "weft/ops_creation.h"

/* The dtype of parameter k, else that which numbers first .. last ask for: bool, i32 or f32. */
static weft_dtype number_dtype(const wf_call *c, int k, int first, int last)
{
    if (HAS(k))
        return D(k);
    weft_dtype dtype = WEFT_DTYPE_BOOL;
    for (int i = first; i <= last; i++) {
        if (!HAS(i))
            continue;
        if (c->slot[i].i == WEFT_ATTR_FLOAT)
            return WEFT_DTYPE_F32;
        if (c->slot[i].i == WEFT_ATTR_INT)
            dtype = WEFT_DTYPE_I32;
    }
    if (dtype == WEFT_DTYPE_I32)
        for (int i = first; i <= last; i++)
            if (HAS(i) && (F(i) < INT32_MIN || F(i) > INT32_MAX))
                dtype = WEFT_DTYPE_I64;
    return dtype;
}

/* The dtype of parameter k, else that of the input. */
static weft_dtype like_dtype(const wf_call *c, int k)
{
    return HAS(k) ? D(k) : weft_tensor_dtype(T(0));
}

/* An error where number k is one that an integer dtype cannot hold. */
static weft_status require_number(const wf_call *c, int k, weft_dtype dtype)
{
    double whole = trunc(F(k));
    if (!wf_dtype_known(dtype) || !weft_dtype_is_integer(dtype) || dtype == WEFT_DTYPE_BOOL)
        return WEFT_OK;
    if (isfinite(whole) && (dtype == WEFT_DTYPE_I64 ? whole >= -0x1p63 && (whole < 0x1p63 || c->slot[k].whole) : wf_dtype_round(dtype, whole) == whole))
        return WEFT_OK;
    return wf_fail(WEFT_E_VALUE, "%s: %s cannot hold the number %.17g", c->op->name, weft_dtype_name(dtype), F(k));
}

/* Every element number k. */
static weft_tensor *filled(const wf_call *c, int k, weft_dtype dtype, int rank, const int64_t *shape)
{
    weft_tensor *t = weft_full(CTX, dtype, rank, shape, F(k));
    weft_status st = require_number(c, k, dtype);
    if (weft_tensor_status(t) != WEFT_OK)
        return t;
    if (st != WEFT_OK)
        return wf_tensor_error_last(CTX, st);
    return dtype == WEFT_DTYPE_I64 && BEYOND(k) ? weft_contiguous(weft_expand(WHOLE(k), rank, shape)) : t;
}

static weft_tensor *scalar(const wf_call *c)
{
    weft_dtype dtype = number_dtype(c, 1, 0, 0);
    weft_status st = require_number(c, 0, dtype);
    if (st != WEFT_OK)
        return wf_tensor_error_last(CTX, st);
    return dtype == WEFT_DTYPE_I64 && BEYOND(0) ? WHOLE(0) : weft_scalar_tensor(CTX, dtype, F(0));
}

static weft_tensor *full_like(const wf_call *c)
{
    weft_tensor *t = weft_full_like(T(0), like_dtype(c, 2), F(1));
    if (weft_tensor_status(t) != WEFT_OK)
        return t;
    return filled(c, 1, like_dtype(c, 2), weft_tensor_rank(T(0)), weft_tensor_shape(T(0)));
}

/* Integers of 64 bits, whose difference may take one bit more. */
static weft_tensor *wide_range(const wf_call *c, int64_t start, int64_t end, int64_t step)
{
    if (step == 0 || (step > 0 ? end < start : end > start))
        return wf_tensor_error(CTX, WEFT_E_VALUE, "arange: step %lld leads from %lld away from %lld", (long long)step, (long long)start, (long long)end);
    uint64_t span = step > 0 ? (uint64_t)end - (uint64_t)start : (uint64_t)start - (uint64_t)end;
    uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, n = span / by + (span % by != 0);
    if (n > (uint64_t)WF_MAX_NUMEL)
        return wf_tensor_error(CTX, WEFT_E_SHAPE, "arange: %lld .. %lld by %lld has too many elements", (long long)start, (long long)end, (long long)step);
    weft_tensor *i = weft_arange(CTX, WEFT_DTYPE_I64, (int64_t)n, 0, 1);
    return weft_add(weft_mul(i, weft_tensor_from(CTX, WEFT_DTYPE_I64, 0, NULL, &step)), weft_tensor_from(CTX, WEFT_DTYPE_I64, 0, NULL, &start));
}

static weft_tensor *range(const wf_call *c)
{
    weft_dtype dtype = number_dtype(c, 3, 0, 2);
    int first = HAS(1) ? 0 : -1, last = HAS(1) ? 1 : 0;
    bool whole = c->slot[last].i == WEFT_ATTR_INT && c->slot[2].i == WEFT_ATTR_INT && (first < 0 || c->slot[first].i == WEFT_ATTR_INT);
    if (dtype == WEFT_DTYPE_I64 && whole && (BEYOND(last) || BEYOND(2) || (first == 0 && BEYOND(0))))
        return wide_range(c, first == 0 ? c->slot[0].whole : 0, c->slot[last].whole, F(2) == 1 ? 1 : c->slot[2].whole);
    return weft_arange_to(CTX, dtype, first == 0 ? F(0) : 0, F(last), F(2));
}

#endif
