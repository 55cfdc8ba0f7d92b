/* build_cat.c - builder of concatenation. Empty parts drop out; one part left is that part; many parts
 * become a tree of nodes, since a node counts its inputs in a byte.
 */
#include "build.h"

enum { PARTS_MAX = 64 };

typedef struct part {
    wf_arg arg;
    wf_view view;
} part;

/* torch.cat ignores parts of shape [0], whatever the others' rank. */
static bool is_void(const weft_tensor *t)
{
    return t->view.rank == 1 && t->view.shape[0] == 0;
}

static weft_status check(weft_tensor *const *xs, int n, int *axis, weft_dtype *dtype, int64_t *total, int *model)
{
    *model = 0;
    for (int i = 0; i < n; i++) {
        WF_TRY(wf_require_plain("cat", xs[i]));
        weft_dtype d = (weft_dtype)xs[i]->node->dtype;
        if (i == 0)
            *dtype = d;
        else
            WF_TRY(weft_dtype_promote(*dtype, d, dtype));
        if (is_void(xs[*model]) && !is_void(xs[i]))
            *model = i;
    }
    const wf_view *m = &xs[*model]->view;
    WF_TRY(wf_axis("cat", m->rank, *axis, axis));
    *total = 0;
    for (int i = 0; i < n; i++) {
        const wf_view *v = &xs[i]->view;
        if (is_void(xs[i]))
            continue;
        bool fits = v->rank == m->rank;
        for (int k = 0; fits && k < m->rank; k++)
            fits = k == *axis || v->shape[k] == m->shape[k];
        if (!fits) {
            char tm[200], tv[200];
            wf_view_format(m, tm, sizeof tm);
            wf_view_format(v, tv, sizeof tv);
            return wf_fail(WEFT_E_SHAPE, "cat: input %d is %s, input %d is %s, along axis %d", *model, tm, i, tv, *axis);
        }
        if (!wf_add_i64(*total, v->shape[*axis], total))
            return wf_fail(WEFT_E_SHAPE, "cat: axis %d has too many elements", *axis);
    }
    return WEFT_OK;
}

/* Joins parts first .. first+n-1 into parts[to]. On failure the parts stay as they were. */
static weft_status join(weft_ctx *ctx, part *parts, int first, int n, int to, int axis)
{
    if (n == 1) {
        if (to != first) {
            parts[to].view = *parts[first].arg.view;
            parts[to].arg = (wf_arg){parts[first].arg.node, &parts[to].view};
            parts[first].arg.node = NULL;
        }
        return WEFT_OK;
    }
    const wf_view *one = parts[first].arg.view;
    int64_t shape[WEFT_MAX_RANK];
    memcpy(shape, one->shape, sizeof shape);
    for (int i = first + 1; i < first + n; i++)
        shape[axis] += parts[i].arg.view->shape[axis];
    wf_node *node = wf_node_new(ctx, WF_OP_CAT, (weft_dtype)parts[first].arg.node->dtype, n, one->rank, shape);
    if (!node)
        return WEFT_E_OOM;
    for (int i = 0; i < n; i++)
        wf_node_set_input(node, i, parts[first + i].arg.node, parts[first + i].arg.view);
    node->attrs.index.axis = axis;
    for (int i = first; i < first + n; i++)
        parts[i].arg.node = NULL;
    wf_view_rows(node->rank, node->shape, &parts[to].view); /* the whole was checked */
    parts[to].arg = (wf_arg){node, &parts[to].view};
    return WEFT_OK;
}

static weft_status join_all(weft_ctx *ctx, part *parts, int n, int axis)
{
    while (n > 1) {
        int joined = 0;
        for (int first = 0; first < n; first += PARTS_MAX, joined++)
            WF_TRY(join(ctx, parts, first, WF_MIN(PARTS_MAX, n - first), joined, axis));
        n = joined;
    }
    return WEFT_OK;
}

static weft_tensor *cat(weft_ctx *ctx, weft_tensor *const *xs, int n, int axis)
{
    weft_dtype dtype = WEFT_DTYPE_F32;
    int64_t total = 0;
    int model, kept = 0;
    wf_view result;
    weft_status st = check(xs, n, &axis, &dtype, &total, &model);
    if (st == WEFT_OK) {
        int64_t shape[WEFT_MAX_RANK];
        memcpy(shape, xs[model]->view.shape, sizeof shape);
        shape[axis] = total;
        st = wf_view_contiguous("cat", xs[model]->view.rank, shape, &result);
    }
    if (st != WEFT_OK)
        return wf_tensor_error_last(ctx, st);
    if (wf_view_numel(&result) == 0) {
        wf_node *empty = wf_full_node(ctx, dtype, result.rank, result.shape, 0);
        return empty ? wf_tensor_new(ctx, empty, &result) : wf_tensor_error_last(ctx, WEFT_E_OOM);
    }
    size_t bytes;
    part *parts = wf_mul_size((size_t)n, sizeof *parts, &bytes) ? wf_alloc(bytes) : NULL;
    if (!parts)
        return wf_tensor_error_last(ctx, WEFT_E_OOM);
    for (int i = 0; i < n && st == WEFT_OK; i++) {
        if (is_void(xs[i]) || xs[i]->view.shape[axis] == 0)
            continue;
        parts[kept].arg = wf_arg_of(xs[i]);
        st = wf_arg_cast(ctx, &parts[kept].arg, dtype, &parts[kept].view);
        kept++;
    }
    if (st == WEFT_OK)
        st = join_all(ctx, parts, kept, axis);
    weft_tensor *r;
    if (st == WEFT_OK) {
        r = wf_tensor_new(ctx, parts[0].arg.node, parts[0].arg.view);
    } else {
        /* Hold each once more and let go, so that a node that stands twice is freed once. */
        for (int i = 0; i < kept; i++)
            if (parts[i].arg.node)
                parts[i].arg.node->refs++;
        for (int i = 0; i < kept; i++)
            wf_node_unref(parts[i].arg.node);
        r = wf_tensor_error_last(ctx, st);
    }
    wf_free(parts);
    return r;
}

weft_tensor *weft_cat(weft_tensor *const *xs, int n, int axis)
{
    weft_tensor *r;
    if (n <= 0 || !xs) {
        weft_ctx *ctx = NULL; /* nothing says which context it would be */
        return wf_tensor_error(ctx, WEFT_E_VALUE, "cat: %d inputs%s", n, xs ? "" : " at NULL");
    }
    if (!wf_enter("cat", n, xs, &r))
        return r;
    weft_ctx *ctx = xs[0]->ctx;
    return wf_leave(ctx, cat(ctx, xs, n, axis));
}
