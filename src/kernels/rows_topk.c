/* rows_topk.c - the rows of top-k: radix selection for k up to 1024, repeated selection behind it. */
#include "kernel_rows.h"

typedef struct topk_problem {
    int64_t rows, n, k, offset, extent[3], stride[3], element;
} topk_problem;
_Static_assert(sizeof(topk_problem) <= WF_PROBLEM_BYTES, "WF_PROBLEM_BYTES");

static weft_status read_problem(const wf_caps *caps, const wf_kernel_req *req, void *problem)
{
    topk_problem *p = problem;
    const wf_view *v = &req->in[0].view;
    wf_axis_run axes[WEFT_MAX_RANK];
    (void)caps;
    if (req->n_in < 1 || v->rank < 1)
        return wf_fail(WEFT_E_UNSUPPORTED, "topk: operand of rank %d", req->n_in < 1 ? -1 : v->rank);
    WF_TRY(wf_operand_check("x", &req->in[0]));
    p->n = v->shape[v->rank - 1];
    p->element = v->strides[v->rank - 1];
    p->k = req->attrs.topk.k;
    p->offset = v->offset;
    for (int i = 0; i < v->rank - 1; i++)
        axes[i] = (wf_axis_run){v->shape[i], {v->strides[i], 0}};
    int n = wf_axes_merge(axes, v->rank - 1, 1);
    if (n > 3)
        return wf_fail(WEFT_E_UNSUPPORTED, "topk: %d leading axes do not merge into 3", n);
    p->rows = 1;
    for (int i = 0; i < 3; i++) {
        int from = i - (3 - n);
        p->extent[i] = from < 0 ? 1 : axes[from].extent;
        p->stride[i] = from < 0 ? 0 : axes[from].stride[0];
        p->rows *= p->extent[i];
    }
    if (p->k < 1 || p->k > p->n || p->rows > INT32_MAX / p->k)
        return wf_fail(WEFT_E_UNSUPPORTED, "topk: k is %lld of %lld in %lld rows", (long long)p->k, (long long)p->n,
                       (long long)p->rows);
    return WEFT_OK;
}

static bool is_select(const wf_kernel_row *row) { return strcmp(row->name, "select") == 0; }

static int64_t k_padded(int64_t k) { return k <= 16 ? 16 : k <= 64 ? 64 : k <= 256 ? 256 : 1024; }

static bool admissible(wf_kernel_ask *ask)
{
    const topk_problem *p = ask->problem;
    int64_t group = ask->row->param[0];
    int64_t bytes = is_select(ask->row) ? 8 * k_padded(p->k) + 2064 : 8 * group;
    if (is_select(ask->row) && p->k > 1024)
        return wf_kernel_refuse(ask, "k is %lld, it takes at most 1024", (long long)p->k);
    if (group > wf_group_limit(ask->caps))
        return wf_kernel_refuse(ask, "%lld invocations, the device has %u", (long long)group, wf_group_limit(ask->caps));
    if (bytes > wf_group_bytes(ask->caps))
        return wf_kernel_refuse(ask, "%lld bytes of workgroup memory, the device has %u", (long long)bytes,
                                wf_group_bytes(ask->caps));
    return true;
}

static bool wanted(const wf_kernel_ask *ask)
{
    const topk_problem *p = ask->problem;
    return !is_select(ask->row) || p->k > 1;
}

static void text_row(wf_str *out)
{
    wf_str_add(out, "fn row_base(row: i32) -> i32 {\n"
                    "    let r = row / p(6u);\n"
                    "    return p(3u) + (r / p(5u)) * p(7u) + (r % p(5u)) * p(8u) + (row % p(6u)) * p(9u);\n}\n");
}

static weft_status build(const wf_kernel_ask *ask, wf_kernel_choice *out)
{
    weft_status st;
    const topk_problem *p = ask->problem;
    wf_launch *l = &out->launch[0];
    wf_str decls = WF_STR_INIT;
    wf_slots s = {0};
    int passes = 1;
    while (passes < 4 && p->n > 1ll << (8 * passes))
        passes++;
    const int64_t w[12] = {p->rows, p->n, p->k, p->offset, p->extent[0], p->extent[1], p->extent[2],
                           p->stride[0], p->stride[1], p->stride[2], p->element, 0};
    l->n_static = 12;
    for (int i = 0; i < 12; i++)
        l->statics[i] = (int32_t)w[i];
    wf_launch_bind(l, 0, WF_ACCESS_READ);
    wf_launch_bind(l, WF_BIND_OUT, WF_ACCESS_READ_WRITE);
    wf_slots_set(&s, "WG", ask->row->param[0]);
    wf_slots_set(&s, "K_PAD", k_padded(p->k));
    wf_slots_set(&s, "INDEX_PASSES", passes);
    wf_slots_set(&s, "INDEX_ONES", (1ll << (8 * passes)) - 1);
    WF_TRY_GOTO(st, wf_text_key("topk", &decls, ask->req->in[0].dtype), done);
    text_row(&decls);
    WF_TRY_GOTO(st, wf_grid_flat(ask->caps, p->rows, l->grid), done);
    WF_TRY_GOTO(st, wf_launch_compose(ask, ask->row->file, &s, &decls, false, l), done);
    out->n_launches = 1;
done:
    wf_str_free(&decls);
    return st;
}

const wf_kernel_family wf_topk_family = {read_problem, admissible, wanted, build};
