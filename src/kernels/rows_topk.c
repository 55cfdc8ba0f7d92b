/* rows_topk.c - the rows of top-k: radix selection for k up to 1024, of long rows block by block first; a sort whose first k
 * places are stored; repeated selection behind them. */
#include "rows_lines.h"

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

enum { SELECT_MOST = 1024 };

static bool is_blocks(const wf_kernel_row *row) { return strcmp(row->name, "blocks") == 0; }
static bool is_select(const wf_kernel_row *row) { return strcmp(row->name, "select") == 0 || is_blocks(row); }
static bool is_sort(const wf_kernel_row *row) { return strcmp(row->name, "sort") == 0; }

/* Blocks of a row, the last one longer than the others: each has k elements, and few enough are left of all. */
static wf_line_cut cut_of(const topk_problem *p)
{
    int64_t len = WF_MAX(WF_MAX(8192, 32 * p->k), p->n / 1024);
    return (wf_line_cut){WF_MAX(p->n / len, 1), len};
}

/* The words of a sort of the rows, descending, into a result of k places a row. */
static void line_words(const topk_problem *p, int32_t w[27])
{
    const int64_t head[6] = {p->rows, p->n, p->offset, p->element, 1, 1};
    for (int i = 0; i < 27; i++)
        w[i] = i < 6 ? (int32_t)head[i] : i < 13;
    int64_t stride = p->k;
    for (int i = 2; i >= 0; i--) {
        w[10 + i] = (int32_t)p->extent[i];
        w[17 + i] = (int32_t)p->stride[i];
        w[24 + i] = (int32_t)stride;
        stride *= p->extent[i];
    }
}

static wf_sort_plan sort_plan(const topk_problem *p, const int32_t *words)
{
    return (wf_sort_plan){.words = words, .lines = p->rows, .n = p->n, .limit = p->k, .to_output = true, .blocks = true};
}

static int64_t k_padded(int64_t k) { return k <= 16 ? 16 : k <= 64 ? 64 : k <= 256 ? 256 : 1024; }

static bool admissible(wf_kernel_ask *ask)
{
    const topk_problem *p = ask->problem;
    int64_t group = ask->row->param[0];
    int64_t bytes = is_select(ask->row) ? 8 * k_padded(p->k) + 2064 : 8 * group;
    if (is_select(ask->row) && p->k > SELECT_MOST)
        return wf_kernel_refuse(ask, "k is %lld, it takes at most %d", (long long)p->k, SELECT_MOST);
    if (is_blocks(ask->row) && (cut_of(p).blocks < 2 || p->rows > INT32_MAX / (cut_of(p).blocks * p->k)))
        return wf_kernel_refuse(ask, "%lld rows of %lld are no blocks of %lld", (long long)p->rows, (long long)p->n, (long long)cut_of(p).len);
    if (is_sort(ask->row)) {
        wf_sort_plan s = sort_plan(p, NULL);
        if (wf_sort_words(&s) < 0)
            return wf_kernel_refuse(ask, "%lld rows of %lld elements pass 32-bit indices", (long long)p->rows, (long long)p->n);
        bytes = 68 * group;
    }
    if (!is_select(ask->row) && !is_sort(ask->row) && !wf_kernel_rounds(ask, p->k * (p->n / group + 12) + 1))
        return false;
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
    if (is_blocks(ask->row))
        return p->n > 65536 && p->rows < 64;
    if (is_sort(ask->row))
        return p->k > SELECT_MOST;
    return !is_select(ask->row) || p->k > 1;
}

static void text_row(wf_str *out)
{
    wf_str_add(out, "fn row_base(row: i32) -> i32 {\n"
                    "    let r = row / p(6u);\n"
                    "    return p(3u) + (r / p(5u)) * p(7u) + (r % p(5u)) * p(8u) + (row % p(6u)) * p(9u);\n}\n");
}

/* What one dispatch selects from, and where it puts the indices. */
typedef enum topk_phase { WHOLE_ROWS, OF_BLOCKS, OF_CANDIDATES } topk_phase;

static void text_phase(wf_str *out, topk_phase phase)
{
    static const char *const length[3] = {
        "    return u32(p(1u));\n", "    return u32(select(p(12u), p(1u) - (p(11u) - 1) * p(12u), row % p(11u) == p(11u) - 1));\n", "    return u32(p(1u));\n"};
    static const char *const element[3] = {
        "    return key_at(row_base(row) + i32(i) * p(10u));\n",
        "    return key_at(row_base(row / p(11u)) + (row % p(11u) * p(12u) + i32(i)) * p(10u));\n",
        "    return key_at(row_base(row) + b2[row * p(1u) + i32(i)] * p(10u));\n"};
    static const char *const index[3] = {"i32(i)", "row % p(11u) * p(12u) + i32(i)", "b2[row * p(1u) + i32(i)]"};
    wf_str_addf(out, "fn length_of(row: i32) -> u32 {\n%s}\nfn element(row: i32, i: u32) -> u32 {\n%s}\n"
                     "fn put(row: i32, at: u32, i: u32) {\n    b1[row * p(2u) + i32(at)] = %s;\n}\n", length[phase], element[phase], index[phase]);
}

static weft_status launch(const wf_kernel_ask *ask, topk_phase phase, wf_launch *l)
{
    weft_status st;
    const topk_problem *p = ask->problem;
    wf_line_cut cut = phase == WHOLE_ROWS ? (wf_line_cut){1, p->n} : cut_of(p);
    wf_str decls = WF_STR_INIT;
    wf_slots s = {0};
    int passes = 1;
    int64_t most = phase == OF_BLOCKS ? 2 * cut.len : phase == OF_CANDIDATES ? cut.blocks * p->k : p->n;
    while (passes < 4 && most > 1ll << (8 * passes))
        passes++;
    int64_t rows = phase == OF_BLOCKS ? p->rows * cut.blocks : p->rows;
    const int64_t w[13] = {rows, phase == OF_CANDIDATES ? most : p->n, p->k, p->offset, p->extent[0], p->extent[1], p->extent[2],
                           p->stride[0], p->stride[1], p->stride[2], p->element, cut.blocks, cut.len};
    l->n_static = 13;
    for (int i = 0; i < 13; i++)
        l->statics[i] = (int32_t)w[i];
    wf_launch_bind(l, 0, WF_ACCESS_READ);
    wf_launch_bind(l, phase == OF_BLOCKS ? WF_BIND_SCRATCH : WF_BIND_OUT, WF_ACCESS_READ_WRITE);
    wf_slots_set(&s, "WG", ask->row->param[0]);
    wf_slots_set(&s, "K_PAD", k_padded(p->k));
    wf_slots_set(&s, "INDEX_PASSES", passes);
    wf_slots_set(&s, "INDEX_ONES", (1ll << (8 * passes)) - 1);
    WF_TRY_GOTO(st, wf_text_key("topk", &decls, ask->req->in[0].dtype), done);
    text_row(&decls);
    if (is_select(ask->row))
        text_phase(&decls, phase);
    if (phase == OF_CANDIDATES) {
        wf_str_add(&decls, "@group(0) @binding(2) var<storage, read> b2: array<i32>;\n");
        wf_launch_bind(l, WF_BIND_SCRATCH, WF_ACCESS_READ);
    }
    WF_TRY_GOTO(st, wf_grid_flat(ask->caps, rows, l->grid), done);
    st = wf_launch_compose(ask, ask->row->file, &s, &decls, false, l);
done:
    wf_str_free(&decls);
    return st;
}

static weft_status build(const wf_kernel_ask *ask, wf_kernel_choice *out)
{
    const topk_problem *p = ask->problem;
    if (is_sort(ask->row)) {
        int32_t words[27];
        line_words(p, words);
        wf_sort_plan s = sort_plan(p, words);
        return wf_sort_keys(ask, &s, out);
    }
    if (is_blocks(ask->row)) {
        out->scratch_bytes = 4 * (uint64_t)(p->rows * cut_of(p).blocks * p->k);
        WF_TRY(launch(ask, OF_BLOCKS, &out->launch[out->n_launches++]));
        return launch(ask, OF_CANDIDATES, &out->launch[out->n_launches++]);
    }
    return launch(ask, WHOLE_ROWS, &out->launch[out->n_launches++]);
}

const wf_kernel_family wf_topk_family = {read_problem, admissible, wanted, build, NULL};
