/* rows_matrix.c - the rows of MATMUL and LINEAR: reading a request into M, N, K and strides, which
 * row is admissible, which is wanted, and its text.
 *
 * MATMUL calls the epilogue with (batch, m, n), batch being the row-major index in the leading axes of
 * the output. LINEAR flattens all leading axes: (0, row, n). A MATMUL whose right matrix is the same for the
 * whole batch runs as one taller matrix where the strides of a allow; its rows are taken apart again for
 * the epilogue, with the M of one batch in word 19.
 */
#include "kernel_rows.h"
#include "quant.h"

#include <stdio.h>

typedef struct matrix_side {
    weft_dtype dtype;
    int64_t offset, row, col, batch[3]; /* a: row m, col k; b: row k, col n */
} matrix_side;

typedef struct matrix_problem {
    int64_t m, n, k, batch, batch_extent[3];
    matrix_side a, b;
    bool flat;                   /* LINEAR */
    int64_t m_batch;             /* M of one batch, where batches were joined to m; else m */
    int quant;                   /* 0 plain, 8 Q8_0, 4 Q4_0, 5 Q4_1 */
    int64_t first_block, row_blocks, scales, minima;
} matrix_problem;
_Static_assert(sizeof(matrix_problem) <= WF_PROBLEM_BYTES, "WF_PROBLEM_BYTES");

/* ---- reading ---- */
static int64_t batch_stride(const wf_view *v, int out_rank, int axis)
{
    int at = axis - (out_rank - v->rank);
    return at < 0 || v->shape[at] == 1 ? 0 : v->strides[at];
}

static weft_status read_batch(matrix_problem *p, wf_axis_run *axes, int n)
{
    if (n > 3)
        return wf_fail(WEFT_E_UNSUPPORTED, "matmul: %d batch axes do not merge into 3", n);
    p->batch = 1;
    for (int i = 0; i < 3; i++) {
        int from = i - (3 - n);
        p->batch_extent[i] = from < 0 ? 1 : axes[from].extent;
        p->a.batch[i] = from < 0 ? 0 : axes[from].stride[0];
        p->b.batch[i] = from < 0 ? 0 : axes[from].stride[1];
        p->batch *= p->batch_extent[i];
    }
    return WEFT_OK;
}

static weft_status read_matmul(const wf_kernel_req *req, matrix_problem *p)
{
    const wf_view *a = &req->in[0].view, *b = &req->in[1].view;
    wf_axis_run axes[WEFT_MAX_RANK];
    int rank = req->out_rank;
    if (a->rank < 2 || b->rank < 2 || rank < 2)
        return wf_fail(WEFT_E_UNSUPPORTED, "matmul: operands of rank %d and %d", a->rank, b->rank);
    p->m = a->shape[a->rank - 2];
    p->k = a->shape[a->rank - 1];
    p->n = b->shape[b->rank - 1];
    p->a.row = a->strides[a->rank - 2];
    p->a.col = a->strides[a->rank - 1];
    p->b.row = b->strides[b->rank - 2];
    p->b.col = b->strides[b->rank - 1];
    for (int i = 0; i < rank - 2; i++)
        axes[i] = (wf_axis_run){req->out_shape[i], {batch_stride(a, rank, i), batch_stride(b, rank, i)}};
    int n = wf_axes_merge(axes, rank - 2, 2);
    if (n == 1 && axes[0].stride[1] == 0 && (p->m == 1 || axes[0].stride[0] == p->m * p->a.row)) {
        p->m_batch = p->m;
        p->a.row = p->m == 1 ? axes[0].stride[0] : p->a.row;
        p->m *= axes[0].extent;
        n = 0;
    }
    return read_batch(p, axes, n);
}

static weft_status read_linear(const wf_kernel_req *req, matrix_problem *p)
{
    const wf_view *x = &req->in[0].view, *w = &req->in[1].view;
    wf_axis_run axes[WEFT_MAX_RANK];
    if (x->rank < 1 || w->rank != 2)
        return wf_fail(WEFT_E_UNSUPPORTED, "linear: operands of rank %d and %d", x->rank, w->rank);
    p->flat = true;
    p->k = x->shape[x->rank - 1];
    p->n = w->shape[0];
    p->a.col = x->strides[x->rank - 1];
    p->b.row = w->strides[1];
    p->b.col = w->strides[0];
    for (int i = 0; i < x->rank - 1; i++)
        axes[i] = (wf_axis_run){x->shape[i], {x->strides[i], 0}};
    int n = wf_axes_merge(axes, x->rank - 1, 1);
    p->m = n ? axes[n - 1].extent : 1;
    p->a.row = n ? axes[n - 1].stride[0] : 0;
    for (int i = 0; i < n; i++)
        axes[i].stride[1] = 0;
    return read_batch(p, axes, n ? n - 1 : 0);
}

static weft_status read_quant(const wf_kernel_req *req, matrix_problem *p)
{
    const wf_operand *w = &req->in[1];
    int64_t blocks = w->numel / 32;
    wf_planes planes = wf_quant_planar_offsets(w->dtype, blocks);
    p->quant = w->dtype == WEFT_DTYPE_Q8_0 ? 8 : w->dtype == WEFT_DTYPE_Q4_0 ? 4 : w->dtype == WEFT_DTYPE_Q4_1 ? 5 : 0;
    if (!p->quant || planes.bytes == 0)
        return wf_fail(WEFT_E_UNSUPPORTED, "linear: no WGSL kernel reads %s", weft_dtype_name(w->dtype));
    if (w->layout != WF_LAYOUT_PLANAR)
        return wf_fail(WEFT_E_UNSUPPORTED, "linear: %s weights are not in planar layout", weft_dtype_name(w->dtype));
    if (p->batch != 1)
        return wf_fail(WEFT_E_UNSUPPORTED, "linear: the leading axes of x do not merge into rows");
    if (p->k % 32 || p->b.row != 1 || p->b.col % 32 || p->b.col < 0 || p->b.offset % 32)
        return wf_fail(WEFT_E_UNSUPPORTED, "linear: view of %s weights is not whole blocks", weft_dtype_name(w->dtype));
    p->first_block = p->b.offset / 32;
    p->row_blocks = p->b.col / 32;
    p->scales = (int64_t)planes.scales;
    p->minima = (int64_t)planes.minima;
    if (planes.bytes > INT32_MAX)
        return wf_fail(WEFT_E_UNSUPPORTED, "linear: weights of %llu bytes pass 32-bit offsets", (unsigned long long)planes.bytes);
    return WEFT_OK;
}

static weft_status read_problem(const wf_caps *caps, const wf_kernel_req *req, void *problem)
{
    matrix_problem *p = problem;
    (void)caps;
    if (req->n_in < 2)
        return wf_fail(WEFT_E_INTERNAL, "kernels: matrix product with %d inputs", req->n_in);
    WF_TRY(wf_operand_check("left operand", &req->in[0]));
    WF_TRY(wf_operand_check("right operand", &req->in[1]));
    p->a.dtype = req->in[0].dtype;
    p->a.offset = req->in[0].view.offset;
    p->b.dtype = req->in[1].dtype;
    p->b.offset = req->in[1].view.offset;
    WF_TRY(req->op == WF_OP_LINEAR ? read_linear(req, p) : read_matmul(req, p));
    p->m_batch = p->m_batch ? p->m_batch : p->m;
    bool quant = weft_dtype_is_quantised(p->b.dtype);
    if (!wf_operand_loads(p->a.dtype) || (!quant && !wf_operand_loads(p->b.dtype)))
        return wf_fail(WEFT_E_UNSUPPORTED, "kernels: no WGSL matrix product of %s and %s", weft_dtype_name(p->a.dtype),
                       weft_dtype_name(p->b.dtype));
    if (quant)
        WF_TRY(read_quant(req, p));
    int64_t outputs;
    if (!wf_mul_i64(p->m, p->n, &outputs) || !wf_mul_i64(outputs, p->batch, &outputs) || outputs > INT32_MAX - 65536 * 256)
        return wf_fail(WEFT_E_UNSUPPORTED, "kernels: %lld x %lld x %lld outputs pass 32-bit indices", (long long)p->batch,
                       (long long)p->m, (long long)p->n);
    return WEFT_OK;
}

/* ---- what a row may assume of an operand ---- */
static bool aligned(const matrix_side *s, int64_t stride, int64_t grain)
{
    return s->offset % grain == 0 && stride % grain == 0 && s->batch[0] % grain == 0 && s->batch[1] % grain == 0 &&
           s->batch[2] % grain == 0;
}

enum { MODE_ANY = 0, MODE_ALONG_K = 1, MODE_ACROSS = 2, MODE_BLOCKS = 3 };

static int a_mode(const matrix_problem *p)
{
    if (p->a.col == 1 && p->k % 4 == 0 && aligned(&p->a, p->a.row, 4))
        return MODE_ALONG_K;
    return p->a.row == 1 && p->m % 4 == 0 && aligned(&p->a, p->a.col, 4) ? MODE_ACROSS : MODE_ANY;
}

static int b_mode(const matrix_problem *p)
{
    if (p->quant)
        return MODE_BLOCKS;
    if (p->b.col == 1 && p->n % 4 == 0 && aligned(&p->b, p->b.row, 4))
        return MODE_ACROSS;
    return p->b.row == 1 && p->k % 4 == 0 && aligned(&p->b, p->b.col, 4) ? MODE_ALONG_K : MODE_ANY;
}

/* ---- admissible, wanted ---- */
#define MATVEC_ROWS 8 /* rows of x that a matvec row takes */

static bool is_matvec(const wf_kernel_row *row) { return strstr(row->file, "matvec") != NULL; }
static bool is_plain(const wf_kernel_row *row) { return strstr(row->file, "plain") != NULL; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Rows of x unrolled in a matvec: a power of two, so that few programs serve all. */
static int matvec_mr(int64_t m) { return m <= 1 ? 1 : m <= 2 ? 2 : m <= 4 ? 4 : 8; }

static bool matvec_admissible(wf_kernel_ask *ask)
{
    const matrix_problem *p = ask->problem;
    const int32_t *v = ask->row->param;
    int64_t group = v[0] * v[1], bytes = 4 * group * matvec_mr(p->m) * v[2];
    if (p->m > MATVEC_ROWS)
        return wf_kernel_refuse(ask, "%lld rows, it takes %d", (long long)p->m, MATVEC_ROWS);
    if (group > wf_group_limit(ask->caps))
        return wf_kernel_refuse(ask, "%lld invocations, the device has %u", (long long)group, wf_group_limit(ask->caps));
    if (!(ask->row->needs & WF_NEED_SUBGROUP32) && bytes > wf_group_bytes(ask->caps))
        return wf_kernel_refuse(ask, "%lld bytes of workgroup memory, the device has %u", (long long)bytes,
                                wf_group_bytes(ask->caps));
    if (p->quant)
        return true;
    if (p->a.col != 1 || p->b.row != 1)
        return wf_kernel_refuse(ask, "k strides are %lld and %lld, it takes 1", (long long)p->a.col, (long long)p->b.row);
    if (v[3] == 8 && (p->k % 8 || !aligned(&p->a, p->a.row, 8) || !aligned(&p->b, p->b.col, 8)))
        return wf_kernel_refuse(ask, "k, offsets or strides are not multiples of 8");
    return true;
}

static int64_t tile_group(const int32_t *v) { return (int64_t)(v[0] / v[3]) * (v[1] / v[4]); }

static bool tile_admissible(wf_kernel_ask *ask)
{
    const int32_t *v = ask->row->param;
    int64_t group = tile_group(v), bytes = 4ll * v[2] * (v[0] + v[1]);
    if (group > wf_group_limit(ask->caps))
        return wf_kernel_refuse(ask, "%lld invocations, the device has %u", (long long)group, wf_group_limit(ask->caps));
    if (bytes > wf_group_bytes(ask->caps))
        return wf_kernel_refuse(ask, "%lld bytes of workgroup memory, the device has %u", (long long)bytes,
                                wf_group_bytes(ask->caps));
    return true;
}

static bool admissible(wf_kernel_ask *ask)
{
    const matrix_problem *p = ask->problem;
    if (is_plain(ask->row))
        return wf_kernel_rounds(ask, p->quant ? p->k / 32 * 10 + 1 : p->k + 1);
    return is_matvec(ask->row) ? matvec_admissible(ask) : tile_admissible(ask);
}

static bool wanted(const wf_kernel_ask *ask)
{
    const matrix_problem *p = ask->problem;
    const int32_t *v = ask->row->param;
    if (is_plain(ask->row))
        return true;
    if (is_matvec(ask->row))
        /* Long rows and few of them: a whole work group for a pair of columns. */
        return p->k >= 32 && (strcmp(ask->row->name, "matvec_long") != 0 || (p->n <= 2048 && p->k >= 2048));
    if (wf_caps_software(ask->caps) || p->m * p->n < 32 * 8 || p->k < 8 || (!p->quant && (p->m <= 4 || p->n <= 4)))
        return false; /* slow to compile, or most of a tile would be empty */
    if (v[0] == 32)
        return true;
    return ceil_div(p->m, v[0]) * ceil_div(p->n, v[1]) * p->batch >= 256;
}

/* ---- building ---- */
static void statics(const matrix_problem *p, wf_launch *l)
{
    const int64_t plain[20] = {p->m, p->n, p->k, p->batch, p->batch_extent[0], p->batch_extent[1], p->batch_extent[2],
                               p->a.offset, p->a.row, p->a.col, p->a.batch[0], p->a.batch[1], p->a.batch[2],
                               p->b.offset, p->b.row, p->b.col, p->b.batch[0], p->b.batch[1], p->b.batch[2], p->m_batch};
    const int64_t quant[12] = {p->m, p->n, p->k, p->first_block, p->a.offset, p->a.row, p->a.col,
                               p->scales, p->minima, 0, p->row_blocks, 0};
    l->n_static = p->quant ? 12 : 20;
    for (uint32_t i = 0; i < l->n_static; i++)
        l->statics[i] = (int32_t)(p->quant ? quant[i] : plain[i]);
}

/* Reading block-type weights: 16 bytes at a time; scales are halves of words of the same binding. */
static void text_blocks(wf_str *out, int quant)
{
    wf_str_add(out,
        "@group(0) @binding(1) var<storage, read> b1: array<vec4<u32>>;\n"
        "fn w_half(byte: u32) -> f32 {\n"
        "    return unpack2x16float(b1[byte >> 4u][(byte >> 2u) & 3u] >> ((byte & 2u) * 8u)).x;\n}\n"
        "fn w_scale(block: i32) -> f32 {\n    return w_half(u32(p(7u) + 2 * block));\n}\n");
    if (quant == 8) {
        wf_str_add(out,
            "fn quad8(w: u32) -> vec4<f32> {\n"
            "    return vec4<f32>(vec4<i32>(i32(w << 24u), i32(w << 16u), i32(w << 8u), i32(w)) >> vec4<u32>(24u));\n}\n"
            "fn w_quad(block: i32, j: i32) -> vec4<f32> {\n"
            "    return w_scale(block) * quad8(b1[block * 2 + j / 4][j % 4]);\n}\n");
        return;
    }
    const char *shift = quant == 4 ? " - vec4<f32>(8.0)" : "";
    wf_str_addf(out,
        "fn quad_low(w: u32) -> vec4<f32> {\n"
        "    return vec4<f32>(vec4<u32>(w, w >> 8u, w >> 16u, w >> 24u) & vec4<u32>(15u))%s;\n}\n"
        "fn quad_high(w: u32) -> vec4<f32> {\n    return quad_low(w >> 4u);\n}\n", shift);
    if (quant == 5)
        wf_str_add(out, "fn w_minimum(block: i32) -> f32 {\n    return w_half(u32(p(8u) + 2 * block));\n}\n");
    const char *add = quant == 5 ? " + vec4<f32>(w_minimum(block))" : "";
    wf_str_addf(out,
        "fn w_quad(block: i32, j: i32) -> array<vec4<f32>, 2> {\n"
        "    let w = b1[block][j];\n    let d = w_scale(block);\n"
        "    return array<vec4<f32>, 2>(d * quad_low(w)%s, d * quad_high(w)%s);\n}\n", add, add);
}

/* x4(row, k): four elements of x from k on, through the load that the view allows. */
static void text_x4(wf_str *out, int vec)
{
    wf_str_add(out, vec == 4 ? "fn x4(row: i32, k: i32) -> vec4<f32> {\n    return a4(row + k);\n}\n" :
        "fn x4(row: i32, k: i32) -> vec4<f32> {\n    let s = p(6u);\n    let i = row + k * s;\n"
        "    return vec4<f32>(a1(i), a1(i + s), a1(i + 2 * s), a1(i + 3 * s));\n}\n");
}

static void slots_matvec(const matrix_problem *p, const wf_kernel_row *row, wf_slots *s)
{
    const int32_t *v = row->param;
    wf_slots_set(s, "SPLIT", v[0]);
    wf_slots_set(s, "GROUPS", v[1]);
    wf_slots_set(s, "NR", v[2]);
    wf_slots_set(s, "GRAIN", v[3]);
    wf_slots_set(s, "MR", matvec_mr(p->m));
    wf_slots_set(s, "WG", v[0] * v[1]);
    wf_slots_set(s, "SUBGROUP", row->needs & WF_NEED_SUBGROUP32);
}

static void slots_tile(const matrix_problem *p, const wf_kernel_row *row, wf_slots *s)
{
    const int32_t *v = row->param;
    int64_t group = tile_group(v), a = a_mode(p), b = b_mode(p);
    int64_t words = p->quant == 8 ? 8 : 4; /* of a block, in one tile row */
    wf_slots_set(s, "TILE_M", v[0]);
    wf_slots_set(s, "TILE_N", v[1]);
    wf_slots_set(s, "TILE_K", v[2]);
    wf_slots_set(s, "REG_M", v[3]);
    wf_slots_set(s, "REG_N", v[4]);
    wf_slots_set(s, "TX", v[1] / v[4]);
    wf_slots_set(s, "WG", group);
    wf_slots_set(s, "A_MODE", a);
    wf_slots_set(s, "B_MODE", b);
    wf_slots_set(s, "A_KFAST", p->a.col == 1 || p->a.row != 1);
    wf_slots_set(s, "B_KFAST", p->b.row == 1 && p->b.col != 1);
    wf_slots_set(s, "LOADS_A", (int64_t)v[0] * v[2] / group / (a == MODE_ANY ? 1 : 4));
    wf_slots_set(s, "LOADS_B", b == MODE_BLOCKS ? ceil_div(v[1] * words, group)
                                                : (int64_t)v[1] * v[2] / group / (b == MODE_ANY ? 1 : 4));
    wf_slots_set(s, "EXACT", p->m % v[0] == 0 && p->n % v[1] == 0 && p->k % v[2] == 0);
}

/* What the epilogue is told of an output: in the texts the row is `m` (plain) or `row`. */
static void slots_epilogue(const matrix_problem *p, bool plain, wf_slots *s)
{
    static const char *const text[3][2][2] = {
        {{"batch", "row"}, {"batch", "m"}},
        {{"0", "batch * m_end + row"}, {"0", "batch * m_end + m"}},
        {{"row / p(19u)", "row % p(19u)"}, {"m / p(19u)", "m % p(19u)"}},
    };
    int kind = p->m_batch != p->m ? 2 : p->flat && !p->quant ? 1 : 0;
    wf_slots_set_text(s, "EPI_BATCH", text[kind][plain][0]);
    wf_slots_set_text(s, "EPI_ROW", text[kind][plain][1]);
}

static int64_t group_count(const matrix_problem *p, const wf_kernel_row *row, int64_t plain_group)
{
    const int32_t *v = row->param;
    if (is_plain(row))
        return ceil_div(p->m * p->n * p->batch, plain_group);
    if (is_matvec(row))
        return ceil_div(p->n, (int64_t)v[1] * v[2]) * p->batch;
    return ceil_div(p->m, v[0]) * ceil_div(p->n, v[1]) * p->batch;
}

static weft_status build(const wf_kernel_ask *ask, wf_kernel_choice *out)
{
    weft_status st;
    const matrix_problem *p = ask->problem;
    const wf_kernel_row *row = ask->row;
    wf_launch *l = &out->launch[0];
    wf_str decls = WF_STR_INIT;
    wf_slots s = {0};
    int64_t plain_group = WF_MIN(256, wf_group_limit(ask->caps));
    /* Matvec rows of blocks read x by fours; those of plain weights by their grain. */
    int vec_a = is_matvec(row) && !p->quant ? row->param[3] : is_plain(row) && !p->quant ? 1 : a_mode(p) ? 4 : 1;
    if (p->quant && a_mode(p) != MODE_ALONG_K)
        vec_a = is_matvec(row) || is_plain(row) ? 1 : vec_a;
    int vec_b = is_matvec(row) ? row->param[3] : is_plain(row) ? 1 : b_mode(p) ? 4 : 1;

    wf_launch_bind(l, 0, WF_ACCESS_READ);
    wf_launch_bind(l, 1, WF_ACCESS_READ);
    statics(p, l);
    wf_slots_set(&s, "QUANT", p->quant);
    slots_epilogue(p, is_plain(row), &s);
    if (is_plain(row))
        wf_slots_set(&s, "WG", plain_group);
    else
        (is_matvec(row) ? slots_matvec : slots_tile)(p, row, &s);
    WF_TRY_GOTO(st, wf_text_operand(&decls, 0, "a", p->a.dtype, vec_a), done);
    if (p->quant) {
        text_blocks(&decls, p->quant);
        if (is_matvec(row) || is_plain(row))
            text_x4(&decls, vec_a);
    } else {
        WF_TRY_GOTO(st, wf_text_operand(&decls, 1, "w", p->b.dtype, vec_b), done);
    }
    WF_TRY_GOTO(st, wf_grid_flat(ask->caps, group_count(p, row, plain_group), l->grid), done);
    WF_TRY_GOTO(st, wf_launch_compose(ask, row->file, &s, &decls, true, l), done);
    out->n_launches = 1;
    out->flops = 2 * p->m * p->n * p->k * p->batch;
done:
    wf_str_free(&decls);
    return st;
}

/* What the rows ask of the operands: how each may be loaded, and whether a matvec may take eight elements at once. */
static void tune_key(const wf_kernel_req *req, const void *problem, wf_tune_key *out)
{
    const matrix_problem *p = problem;
    bool eights = p->k % 8 == 0 && aligned(&p->a, p->a.row, 8) && (p->quant || aligned(&p->b, p->b.col, 8));
    const int64_t extents[4] = {p->m, p->n, p->k, p->batch};
    for (int i = 0; i < 4; i++)
        out->bucket[i] = wf_tune_bucket(extents[i]);
    out->dtype[0] = (uint8_t)p->a.dtype;
    out->dtype[1] = (uint8_t)p->b.dtype;
    out->dtype[2] = (uint8_t)req->out_dtype;
    out->facts = (uint32_t)a_mode(p) | (uint32_t)b_mode(p) << 2 | (uint32_t)(p->a.col == 1) << 4 | (uint32_t)(p->b.row == 1) << 5 | (uint32_t)eights << 6;
}

const wf_kernel_family wf_matrix_family = {read_problem, admissible, wanted, build, tune_key};
