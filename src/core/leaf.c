/* leaf.c - tensors that begin a graph: the caller's data, constants, run-time scalars, ranges, triangles.
 *
 * Only weft_tensor_from moves bytes. A constant stays an attribute of its node until a kernel needs it
 * in memory, and a run-time scalar is a word of the parameters of a step.
 */
#include "build.h"

#include <math.h>

static weft_status check_dtype(const char *who, weft_dtype dtype)
{
    if (!wf_dtype_known(dtype))
        return wf_fail(WEFT_E_DTYPE, "%s: dtype number %d is outside 0 .. %d", who, (int)dtype, WEFT_DTYPE_COUNT - 1);
    return WEFT_OK;
}

/* A bool is 0 or 1 from here on, whatever byte the caller took for true. *copy is NULL when it already was. */
static weft_status normal_bools(const void *data, size_t n, uint8_t **copy)
{
    const uint8_t *from = data;
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= from[i];
    if (any <= 1)
        return WEFT_OK;
    uint8_t *to = wf_alloc(n);
    if (!to)
        return WEFT_E_OOM;
    for (size_t i = 0; i < n; i++)
        to[i] = from[i] != 0;
    *copy = to;
    return WEFT_OK;
}

static weft_status upload(weft_ctx *ctx, weft_dtype dtype, const wf_view *v, const void *data, wf_node **out)
{
    wf_core_ctx *core = wf_core(ctx);
    int64_t numel = wf_view_numel(v), row = v->rank ? v->shape[v->rank - 1] : 1;
    if (numel == 0) { /* no bytes: nothing to keep on a device */
        *out = wf_full_node(ctx, dtype, v->rank, v->shape, 0);
        return *out ? WEFT_OK : WEFT_E_OOM;
    }
    if (!data)
        return wf_fail(WEFT_E_VALUE, "tensor_from: data is NULL");
    if (!core->upload)
        return wf_fail(WEFT_E_UNSUPPORTED, "tensor_from: the context takes no data");
    size_t size_bytes = wf_dtype_bytes(dtype, numel);
    uint8_t *bools = NULL;
    if (dtype == WEFT_DTYPE_BOOL)
        WF_TRY(normal_bools(data, size_bytes, &bools));
    wf_storage *storage = NULL;
    weft_status st = core->upload(ctx, dtype, numel, row, bools ? bools : data, size_bytes, &storage);
    wf_free(bools);
    WF_TRY(st);
    wf_node *n = wf_node_new(ctx, WF_OP_LEAF, dtype, 0, v->rank, v->shape);
    if (!n) {
        wf_storage_release(storage);
        return WEFT_E_OOM;
    }
    n->storage = storage;
    *out = n;
    return WEFT_OK;
}

static weft_tensor *tensor_from(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, const void *data)
{
    wf_view v;
    weft_status st = check_dtype("tensor_from", dtype);
    if (st == WEFT_OK)
        st = wf_view_contiguous("tensor_from", rank, shape, &v);
    int block = weft_dtype_block(dtype);
    if (st == WEFT_OK && block > 1) {
        if (rank < 1)
            st = wf_fail(WEFT_E_SHAPE, "tensor_from: %s needs rank 1 or more", weft_dtype_name(dtype));
        else if (shape[rank - 1] % block)
            st = wf_fail(WEFT_E_SHAPE, "tensor_from: last extent %lld is no multiple of %d, the block of %s",
                         (long long)shape[rank - 1], block, weft_dtype_name(dtype));
    }
    wf_node *n = NULL;
    if (st == WEFT_OK)
        st = upload(ctx, dtype, &v, data, &n);
    return st == WEFT_OK ? wf_tensor_new(ctx, n, &v) : wf_tensor_error_last(ctx, st);
}

weft_tensor *weft_tensor_from(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, const void *data)
{
    weft_tensor *r;
    if (!wf_enter_ctx("tensor_from", ctx, &r))
        return r;
    return wf_leave(ctx, tensor_from(ctx, dtype, rank, shape, data));
}

/* The storage of the caller's memory, or NULL where it must be copied. */
static weft_status lend(weft_ctx *ctx, weft_dtype dtype, const wf_view *v, const void *data, void (*release)(void *), void *user, wf_node **out)
{
    wf_core_ctx *core = wf_core(ctx);
    int64_t numel = wf_view_numel(v);
    wf_storage *storage = NULL;
    if (!core->borrow || !data || numel == 0 || weft_dtype_is_quantised(dtype))
        return WEFT_OK;
    size_t size_bytes = wf_dtype_bytes(dtype, numel);
    uint8_t any = 0;
    for (size_t i = 0; dtype == WEFT_DTYPE_BOOL && i < size_bytes; i++)
        any |= ((const uint8_t *)data)[i];
    if (any > 1)
        return WEFT_OK;
    wf_node *n = wf_node_new(ctx, WF_OP_LEAF, dtype, 0, v->rank, v->shape);
    if (!n)
        return WEFT_E_OOM;
    weft_status st = core->borrow(ctx, data, size_bytes, release, user, &storage);
    if (st != WEFT_OK || !storage) {
        wf_node_sink(n);
        return st;
    }
    n->storage = storage;
    *out = n;
    return WEFT_OK;
}

weft_tensor *weft_tensor_borrow(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, const void *data,
                                void (*release)(void *user), void *user)
{
    weft_tensor *r;
    wf_view v;
    wf_node *n = NULL;
    if (!wf_enter_ctx("tensor_borrow", ctx, &r)) {
        if (release)
            release(user);
        return r;
    }
    if (check_dtype("tensor_borrow", dtype) == WEFT_OK && wf_view_contiguous("tensor_borrow", rank, shape, &v) == WEFT_OK)
        lend(ctx, dtype, &v, data, release, user, &n); /* what fails here fails again, or is copied */
    if (n) /* from here on the storage gives the memory back */
        return wf_leave(ctx, wf_tensor_new(ctx, n, &v));
    r = wf_leave(ctx, tensor_from(ctx, dtype, rank, shape, data));
    if (release)
        release(user);
    return r;
}

static weft_tensor *full(const char *who, weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, double value)
{
    weft_tensor *r;
    if (!wf_enter_ctx(who, ctx, &r))
        return r;
    wf_view v;
    weft_status st = check_dtype(who, dtype);
    if (st == WEFT_OK && weft_dtype_is_quantised(dtype))
        st = wf_fail(WEFT_E_DTYPE, "%s: %s is a block type", who, weft_dtype_name(dtype));
    if (st == WEFT_OK)
        st = wf_view_contiguous(who, rank, shape, &v);
    wf_node *n = NULL;
    if (st == WEFT_OK && !(n = wf_full_node(ctx, dtype, rank, v.shape, value)))
        st = WEFT_E_OOM;
    r = st == WEFT_OK ? wf_tensor_new(ctx, n, &v) : wf_tensor_error_last(ctx, st);
    return wf_leave(ctx, r);
}

weft_tensor *weft_zeros(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape)
{
    return full("zeros", ctx, dtype, rank, shape, 0);
}

weft_tensor *weft_full(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, double value)
{
    return full("full", ctx, dtype, rank, shape, value);
}

static weft_tensor *scalar(const char *who, weft_ctx *ctx, weft_dtype dtype, uint32_t bits)
{
    weft_tensor *r;
    if (!wf_enter_ctx(who, ctx, &r))
        return r;
    wf_node *n = wf_node_new(ctx, WF_OP_SCALAR, dtype, 0, 0, NULL);
    if (n)
        n->scalar_bits = bits;
    return wf_leave(ctx, n ? wf_tensor_new(ctx, n, NULL) : wf_tensor_error_last(ctx, WEFT_E_OOM));
}

weft_tensor *weft_scalar_f32(weft_ctx *ctx, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return scalar("scalar_f32", ctx, WEFT_DTYPE_F32, bits);
}

weft_tensor *weft_scalar_i32(weft_ctx *ctx, int32_t value)
{
    return scalar("scalar_i32", ctx, WEFT_DTYPE_I32, (uint32_t)value);
}

static weft_status check_range(weft_dtype dtype, int64_t n, double start, double step)
{
    if (dtype != WEFT_DTYPE_F32 && dtype != WEFT_DTYPE_I32 && dtype != WEFT_DTYPE_I64)
        return wf_fail(WEFT_E_DTYPE, "arange: dtype %s, expected f32, i32 or i64", weft_dtype_name(dtype));
    if (n < 0)
        return wf_fail(WEFT_E_VALUE, "arange: %lld elements", (long long)n);
    if (dtype == WEFT_DTYPE_F32)
        return WEFT_OK;
    if (start != trunc(start) || step != trunc(step) || !isfinite(start) || !isfinite(step))
        return wf_fail(WEFT_E_VALUE, "arange: start %g and step %g must be integers for %s", start, step,
                       weft_dtype_name(dtype));
    double last = n ? start + (double)(n - 1) * step : start;
    double limit = dtype == WEFT_DTYPE_I32 ? 0x1p31 : 0x1p63;
    if (start < -limit || start >= limit || last < -limit || last >= limit || fabs(step) >= limit)
        return wf_fail(WEFT_E_VALUE, "arange: %.0f .. %.0f does not fit %s", start, last, weft_dtype_name(dtype));
    return WEFT_OK;
}

weft_tensor *weft_arange(weft_ctx *ctx, weft_dtype dtype, int64_t n, double start, double step)
{
    weft_tensor *r;
    if (!wf_enter_ctx("arange", ctx, &r))
        return r;
    wf_view v;
    wf_node *node = NULL;
    weft_status st = check_range(dtype, n, start, step);
    if (st == WEFT_OK)
        st = wf_view_contiguous("arange", 1, &n, &v);
    if (st == WEFT_OK && !(node = wf_node_new(ctx, WF_OP_IOTA, dtype, 0, 1, v.shape)))
        st = WEFT_E_OOM;
    if (st == WEFT_OK) {
        node->attrs.iota.start = start + 0.0;
        node->attrs.iota.step = step + 0.0;
        r = wf_tensor_new(ctx, node, &v);
    } else {
        r = wf_tensor_error_last(ctx, st);
    }
    return wf_leave(ctx, r);
}

weft_tensor *weft_tri(weft_ctx *ctx, int64_t rows, int64_t cols, int64_t diagonal)
{
    weft_tensor *r;
    if (!wf_enter_ctx("tri", ctx, &r))
        return r;
    wf_view v;
    wf_node *node = NULL;
    weft_status st = wf_view_contiguous("tri", 2, (int64_t[]){rows, cols}, &v);
    if (st == WEFT_OK && !(node = wf_node_new(ctx, WF_OP_TRI, WEFT_DTYPE_BOOL, 0, 2, v.shape)))
        st = WEFT_E_OOM;
    if (st == WEFT_OK) {
        /* Beyond the corners every diagonal means the same. */
        int64_t lowest = -rows, highest = cols;
        node->attrs.tri.diagonal = diagonal < lowest ? lowest : diagonal > highest ? highest : diagonal;
        r = wf_tensor_new(ctx, node, &v);
    } else {
        r = wf_tensor_error_last(ctx, st);
    }
    return wf_leave(ctx, r);
}
