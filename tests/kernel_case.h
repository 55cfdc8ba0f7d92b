/* kernel_case.h - operands for tests of the kernel table: storage filled with random values, seen through
 * a view of some style, with every value known in f64.
 */
#ifndef WEFT_TEST_KERNEL_CASE_H
#define WEFT_TEST_KERNEL_CASE_H

#include <stdlib.h>

#include "kernel_table.h"
#include "quant.h"

typedef struct operand {
    wf_operand op;
    uint8_t *bytes; /* storage, padded to 16 */
    size_t n_bytes;
    double *value;  /* of each element of the storage */
} operand;

static uint64_t rng_state = 1;
static inline double rng_unit(void) /* [-1, 1) */
{
    rng_state = rng_state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(int32_t)(rng_state >> 32) / 2147483648.0;
}

/* Styles: c contiguous, o contiguous from element 16, t the last two axes swapped in storage, s every
 * second element of the last axis from element 3, n the last axis backwards, b the first axis broadcast,
 * r (matrices) rows 2.. of a larger one. */
static inline wf_view styled_view(int rank, const int64_t *shape, char style, int64_t *numel)
{
    wf_view v = {.rank = rank};
    int64_t stride = style == 's' ? 2 : 1, first = style == 'b' ? 1 : 0;
    int last = rank - 1;
    for (int i = 0; i < WEFT_MAX_RANK; i++)
        v.shape[i] = i < rank ? shape[i] : 1;
    for (int k = last; k >= first; k--) {
        int axis = style == 't' && rank > 1 ? (k == last ? last - 1 : k == last - 1 ? last : k) : k;
        v.strides[axis] = stride;
        stride *= shape[axis];
    }
    v.offset = style == 's' ? 3 : style == 'o' ? 16 : style == 'r' ? 2 * shape[last] : 0;
    if (style == 'n') {
        v.offset = (shape[last] - 1) * v.strides[last];
        v.strides[last] = -v.strides[last];
    }
    *numel = stride + v.offset + (style == 'r' ? shape[last] : style == 's' ? 2 : 0);
    return v;
}

static inline void fill_plain(operand *x, int64_t i, double v)
{
    float f = (float)v;
    uint16_t h;
    int32_t n;
    switch (x->op.dtype) {
    case WEFT_DTYPE_F32:
        memcpy(x->bytes + 4 * i, &f, 4);
        x->value[i] = f;
        break;
    case WEFT_DTYPE_F16:
        h = wf_f32_to_f16(f);
        memcpy(x->bytes + 2 * i, &h, 2);
        x->value[i] = wf_f16_to_f32(h);
        break;
    case WEFT_DTYPE_BF16:
        h = wf_f32_to_bf16(f);
        memcpy(x->bytes + 2 * i, &h, 2);
        x->value[i] = wf_bf16_to_f32(h);
        break;
    case WEFT_DTYPE_BOOL:
        x->bytes[i] = v > -0.5;
        x->value[i] = x->bytes[i];
        break;
    default: /* i32 */
        n = (int32_t)v;
        memcpy(x->bytes + 4 * i, &n, 4);
        x->value[i] = n;
    }
}

static inline void fill_blocks(operand *x)
{
    int64_t n = x->op.numel, blocks = n / 32;
    float *f = calloc((size_t)n, 4);
    uint8_t *packed = calloc(1, (size_t)blocks * weft_dtype_block_bytes(x->op.dtype));
    for (int64_t i = 0; i < n; i++)
        f[i] = (float)rng_unit();
    wf_quant_encode(x->op.dtype, f, packed, n);
    wf_quant_to_planar(x->op.dtype, blocks, packed, x->bytes, 0, blocks);
    wf_quant_decode(x->op.dtype, packed, f, n);
    for (int64_t i = 0; i < n; i++)
        x->value[i] = f[i];
    free(packed);
    free(f);
}

static inline operand operand_make(weft_dtype dtype, int rank, const int64_t *shape, char style)
{
    operand x = {.op = {.dtype = dtype, .step_slot = -1}};
    x.op.view = styled_view(rank, shape, style, &x.op.numel);
    bool blocks = weft_dtype_is_quantised(dtype);
    x.op.layout = blocks ? WF_LAYOUT_PLANAR : WF_LAYOUT_PLAIN;
    x.n_bytes = blocks ? wf_quant_planar_bytes(dtype, x.op.numel / 32)
                       : (size_t)wf_align_up((uint64_t)x.op.numel * weft_dtype_block_bytes(dtype), 16);
    x.bytes = calloc(1, x.n_bytes);
    x.value = calloc((size_t)x.op.numel, sizeof *x.value);
    if (blocks)
        fill_blocks(&x);
    else
        for (int64_t i = 0; i < x.op.numel; i++)
            fill_plain(&x, i, rng_unit());
    return x;
}

static inline void operand_free(operand *x)
{
    free(x->bytes);
    free(x->value);
}

static inline int64_t at_index(const operand *x, int rank, const int64_t *index) /* broadcasting, aligned right */
{
    const wf_view *v = &x->op.view;
    int64_t at = v->offset;
    for (int i = 0; i < v->rank; i++) {
        int from = i + rank - v->rank;
        at += (v->shape[i] == 1 ? 0 : index[from]) * v->strides[i];
    }
    return at;
}

static inline double value_at(const operand *x, int rank, const int64_t *index)
{
    return x->value[at_index(x, rank, index)];
}

static inline void set_at(operand *x, int rank, const int64_t *index, double v)
{
    fill_plain(x, at_index(x, rank, index), v);
}

/* ---- requests ---- */
static inline wf_kernel_req req_matmul(const operand *a, const operand *b, bool linear)
{
    wf_kernel_req r = {.op = linear ? WF_OP_LINEAR : WF_OP_MATMUL, .n_in = 2, .in = {a->op, b->op}, .out_dtype = WEFT_DTYPE_F32};
    const wf_view *va = &a->op.view, *vb = &b->op.view;
    r.out_rank = linear ? va->rank : WF_MAX(va->rank, vb->rank);
    for (int i = 0; i < r.out_rank - 2; i++) {
        int ia = i - (r.out_rank - va->rank), ib = i - (r.out_rank - vb->rank);
        int64_t ea = ia < 0 ? 1 : va->shape[ia], eb = linear || ib < 0 ? 1 : vb->shape[ib];
        r.out_shape[i] = ea == 1 ? eb : ea;
    }
    if (r.out_rank > 1)
        r.out_shape[r.out_rank - 2] = va->shape[va->rank - 2];
    r.out_shape[r.out_rank - 1] = vb->shape[linear ? 0 : vb->rank - 1];
    return r;
}

static inline wf_kernel_req req_sdpa(const operand *q, const operand *k, const operand *v, const operand *mask, bool causal,
                                     const operand *len)
{
    wf_kernel_req r = {.op = WF_OP_SDPA, .n_in = 3, .in = {q->op, k->op, v->op}, .out_dtype = q->op.dtype, .out_rank = 4};
    memcpy(r.out_shape, q->op.view.shape, 4 * sizeof(int64_t));
    r.attrs.sdpa.scale = 0.37f;
    r.attrs.sdpa.causal = causal;
    if (mask) {
        r.attrs.sdpa.has_mask = 1;
        r.in[r.n_in++] = mask->op;
    }
    if (len) {
        r.attrs.sdpa.has_kv_len = 1;
        r.in[r.n_in++] = len->op;
    }
    return r;
}

static inline wf_kernel_req req_topk(const operand *x, int64_t k)
{
    wf_kernel_req r = {.op = WF_OP_TOPK, .n_in = 1, .in = {x->op}, .out_dtype = WEFT_DTYPE_I32, .out_rank = x->op.view.rank};
    memcpy(r.out_shape, x->op.view.shape, sizeof r.out_shape);
    r.out_shape[r.out_rank - 1] = k;
    r.attrs.topk.k = k;
    return r;
}

/* scan, sort: x along its axis 1; scatter: x, index and src along axis 0 */
static inline wf_kernel_req req_lines(wf_op op, const operand *x, const operand *index, uint32_t kind)
{
    bool indices = op == WF_OP_SORT || (op == WF_OP_SCAN && kind >= 3);
    wf_kernel_req r = {.op = op, .n_in = 1, .in = {x->op}, .out_dtype = indices ? WEFT_DTYPE_I32 : x->op.dtype, .out_rank = x->op.view.rank};
    memcpy(r.out_shape, x->op.view.shape, sizeof r.out_shape);
    r.attrs.line.axis = op != WF_OP_SCATTER;
    r.attrs.line.kind = kind;
    if (index) {
        r.n_in = 3;
        r.in[1] = index->op;
        r.in[2] = x->op;
        r.in[2].view.shape[0] = index->op.view.shape[0];
    }
    return r;
}

static inline wf_caps caps_default(void) /* the WebGPU defaults */
{
    return (wf_caps){.runs_wgsl = true, .indirect = true, .max_buffer_bytes = 256u << 20, .max_binding_bytes = 128u << 20,
                     .max_storage_buffers = 8, .max_workgroup_invocations = 256, .max_workgroup_bytes = 16384,
                     .max_workgroups = 65535};
}

static inline wf_caps caps_large(void)
{
    wf_caps c = caps_default();
    c.max_storage_buffers = 16;
    c.max_workgroup_invocations = 1024;
    c.max_workgroup_bytes = 49152;
    c.subgroups = true;
    c.subgroup_min = c.subgroup_max = 32;
    return c;
}

static inline void choice_free(wf_kernel_choice *c)
{
    for (int i = 0; i < c->n_launches; i++)
        wf_str_free(&c->launch[i].wgsl);
    c->n_launches = 0;
}

static const char *const kernel_rows_of[][12] = {
    {"matmul", "matvec_sg", "matvec_long", "matvec", "matvec_odd", "tile_256x128x16", "tile_128x128x16", "tile_128x64x16",
     "tile_64x64x16", "tile_32x32x16", "plain", NULL},
    {"linear", "matvec_sg", "matvec_long", "matvec", "matvec_odd", "tile_256x128x16", "tile_128x128x16", "tile_128x64x16",
     "tile_64x64x16", "tile_32x32x16", "plain", NULL},
    {"qlinear", "matvec_sg", "matvec_long", "matvec", "tile_128x128x32", "tile_128x64x32", "tile_64x64x32", "tile_32x32x32",
     "plain", NULL},
    {"sdpa", "decode", "tile_64", "tile_32", "row", "plain", NULL},
    {"topk", "blocks", "select", "sort", "plain", NULL},
    {"scan", "blocks", "line", NULL},
    {"sort", "rank", "blocks", "radix", NULL},
    {"scatter", "ordered", NULL},
};

#endif
