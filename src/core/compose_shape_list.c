/* compose_shape_list.c - ops that give several views of a tensor, and grids of coordinates.
 *
 * Every part is checked before the first is made, so that a failing call leaves one error tensor and nothing else.
 */
#include "build.h"
#include "composite.h"
#include "weft/ops_shape.h"

/* The list is this error. */
static int fail(weft_tensor **out, int room, weft_tensor *error)
{
    if (room < 1 || !out)
        return 0;
    out[0] = error;
    return 1;
}

/* The axis is there and `count` results fit; else *n_failed is what the function returns. */
static bool ready(const char *who, weft_tensor *x, int *axis, weft_tensor **out, int room, int *n_failed)
{
    weft_tensor *r;
    if (!wf_enter(who, 1, &x, &r)) {
        *n_failed = fail(out, room, r);
        return false;
    }
    wf_unlock(&wf_core(x->ctx)->lock);
    weft_status st = wf_axis(who, x->view.rank, *axis, axis);
    if (st != WEFT_OK) {
        *n_failed = fail(out, room, wf_tensor_error_last(x->ctx, st));
        return false;
    }
    return true;
}

static bool fits(const char *who, weft_ctx *ctx, int64_t count, weft_tensor **out, int room, int *n_failed)
{
    if (count <= room && out)
        return true;
    *n_failed = fail(out, room, wf_tensor_error(ctx, WEFT_E_VALUE, "%s: %lld results, room for %d", who, (long long)count, room));
    return false;
}

static int equal_parts(const char *who, weft_tensor *x, int64_t size, int64_t count, int axis, weft_tensor **out, int room)
{
    int failed;
    int64_t n = x->view.shape[axis];
    if (!fits(who, x->ctx, count, out, room, &failed))
        return failed;
    for (int64_t i = 0; i < count; i++)
        out[i] = weft_slice(x, axis, WF_MIN(i * size, n), i == count - 1 ? n : WF_MIN((i + 1) * size, n), 1);
    return (int)count;
}

int weft_split(weft_tensor *x, int64_t size, int axis, weft_tensor **out, int room)
{
    int failed;
    if (!ready("split", x, &axis, out, room, &failed))
        return failed;
    int64_t n = x->view.shape[axis];
    if (size < 0 || (size == 0 && n > 0))
        return fail(out, room, wf_tensor_error(x->ctx, WEFT_E_VALUE, "split: parts of %lld elements", (long long)size));
    return equal_parts("split", x, size, n == 0 ? 1 : (n - 1) / size + 1, axis, out, room);
}

int weft_chunk(weft_tensor *x, int64_t n, int axis, weft_tensor **out, int room)
{
    int failed;
    if (!ready("chunk", x, &axis, out, room, &failed))
        return failed;
    int64_t have = x->view.shape[axis];
    if (n < 1)
        return fail(out, room, wf_tensor_error(x->ctx, WEFT_E_VALUE, "chunk: %lld chunks", (long long)n));
    if (have == 0) /* as many empty ones */
        return equal_parts("chunk", x, 0, n, axis, out, room);
    int64_t size = (have - 1) / n + 1;
    return equal_parts("chunk", x, size, (have - 1) / size + 1, axis, out, room);
}

int weft_split_sizes(weft_tensor *x, int n, const int64_t *sizes, int axis, weft_tensor **out, int room)
{
    int failed;
    if (!ready("split", x, &axis, out, room, &failed))
        return failed;
    int64_t have = x->view.shape[axis], sum = 0;
    bool right = n > 0 && sizes;
    for (int i = 0; i < n && right; i++)
        right = sizes[i] >= 0 && wf_add_i64(sum, sizes[i], &sum);
    if (!right || sum != have)
        return fail(out, room, wf_tensor_error(x->ctx, WEFT_E_VALUE, "split: %d sizes add up to %lld, axis %d has %lld", n, (long long)sum, axis, (long long)have));
    if (!fits("split", x->ctx, n, out, room, &failed))
        return failed;
    int64_t at = 0;
    for (int i = 0; i < n; at += sizes[i++])
        out[i] = weft_slice(x, axis, at, at + sizes[i], 1);
    return n;
}

int weft_tensor_split(weft_tensor *x, int64_t n, int axis, weft_tensor **out, int room)
{
    int failed;
    if (!ready("tensor_split", x, &axis, out, room, &failed))
        return failed;
    if (n < 1)
        return fail(out, room, wf_tensor_error(x->ctx, WEFT_E_VALUE, "tensor_split: %lld sections", (long long)n));
    if (!fits("tensor_split", x->ctx, n, out, room, &failed))
        return failed;
    int64_t have = x->view.shape[axis], at = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t size = have / n + (i < have % n);
        out[i] = weft_slice(x, axis, at, at + size, 1);
        at += size;
    }
    return (int)n;
}

int weft_tensor_split_at(weft_tensor *x, int n, const int64_t *indices, int axis, weft_tensor **out, int room)
{
    int failed;
    if (!ready("tensor_split", x, &axis, out, room, &failed))
        return failed;
    if (n < 0 || (n > 0 && !indices))
        return fail(out, room, wf_tensor_error(x->ctx, WEFT_E_VALUE, "tensor_split: %d indices", n));
    if (!fits("tensor_split", x->ctx, (int64_t)n + 1, out, room, &failed))
        return failed;
    for (int i = 0; i <= n; i++)
        out[i] = weft_slice(x, axis, i ? indices[i - 1] : 0, i < n ? indices[i] : WEFT_INDEX_NONE, 1);
    return n + 1;
}

int weft_unbind(weft_tensor *x, int axis, weft_tensor **out, int room)
{
    int failed;
    if (!ready("unbind", x, &axis, out, room, &failed))
        return failed;
    int64_t n = x->view.shape[axis];
    if (!fits("unbind", x->ctx, n, out, room, &failed))
        return failed;
    for (int64_t i = 0; i < n; i++)
        out[i] = weft_select(x, axis, i);
    return (int)n;
}

int weft_meshgrid(weft_tensor *const *xs, int n, bool xy, weft_tensor **out, int room)
{
    weft_tensor *r;
    int64_t shape[WEFT_MAX_RANK];
    int failed;
    if (n < 1 || !xs)
        return fail(out, room, wf_tensor_error(NULL, WEFT_E_VALUE, "meshgrid: %d inputs", n));
    if (!wf_enter("meshgrid", n, xs, &r))
        return fail(out, room, r);
    weft_ctx *ctx = xs[0]->ctx;
    wf_unlock(&wf_core(ctx)->lock);
    if (n > WEFT_MAX_RANK)
        return fail(out, room, wf_tensor_error(ctx, WEFT_E_SHAPE, "meshgrid: %d inputs make a rank above %d", n, WEFT_MAX_RANK));
    for (int i = 0; i < n; i++) {
        if (xs[i]->view.rank > 1)
            return fail(out, room, wf_tensor_error(ctx, WEFT_E_SHAPE, "meshgrid: input %d has rank %d, expected 0 or 1", i, xs[i]->view.rank));
        int axis = xy && n > 1 && i < 2 ? 1 - i : i;
        shape[axis] = weft_tensor_numel(xs[i]);
    }
    if (!fits("meshgrid", ctx, n, out, room, &failed))
        return failed;
    for (int i = 0; i < n; i++) {
        int axis = xy && n > 1 && i < 2 ? 1 - i : i;
        int64_t line[WEFT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
        line[axis] = shape[axis];
        wf_composite c;
        out[i] = wf_composite_begin(&c, "meshgrid", 1, 1, &xs[i]) ? wf_composite_end(&c, weft_expand(weft_reshape(xs[i], n, line), n, shape)) : c.failed;
    }
    return n;
}
