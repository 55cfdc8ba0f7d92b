/* contract.c - sums of products over i8 that are matrix products, made by the CPU's row for them.
 *
 * matmul_i8 and linear_rows are recorded as a sum over the last axis of [.., M, 1, K] times [.., 1, N, K], with the bytes
 * cast in between: exact, and native on every device, but each result is a reduction of its own. Where a plan is made for
 * the CPU, such a sum becomes one product that reads the bytes. Rows of i4 and ternary are a sum over the bytes of two or four
 * such products, each unpacking its number by arithmetic on the byte; what that arithmetic gives for every byte is
 * computed here and compared with the format, whatever its form.
 */
#include <math.h>

#include "compile.h"

enum { MIN_ROWS = 3, MIN_COLS = 8 }; /* fewer rows: panels would be packed for little (1 x 2048 x 2048 of i8: 1.7 ms as a sum, 5 as a product) */

/* Factor i of a product as a view, [.., M, N, K], of what is stored: behind a cast from i8, which keeps every element. */
static bool read_factor(const wf_compile_state *s, const wf_cnode *mul, int i, wf_view *out, int32_t *src)
{
    const wf_view *v = &mul->in[i].view;
    const wf_cnode *n = &s->g.nodes[mul->src[i]];
    *out = *v;
    *src = mul->src[i];
    if (n->op != WF_OP_CAST || n->kind != WF_CK_COMPUTE || s->g.nodes[n->src[0]].dtype != WEFT_DTYPE_I8)
        return true;
    const wf_view *from = &n->in[0].view;
    const int lead = v->rank - n->rank;
    if (from->rank != n->rank || lead < 0 || v->offset != 0)
        return false;
    int64_t unit = 1;
    for (int d = v->rank - 1; d >= 0; d--) {
        const int64_t extent = d < lead ? 1 : n->shape[d - lead];
        const bool moves = extent > 1;
        if (v->strides[d] != (moves ? unit : 0) || (moves && v->shape[d] != extent))
            return false;
        out->strides[d] = moves ? from->strides[d - lead] : 0;
        unit *= extent;
    }
    out->offset = from->offset;
    *src = n->src[0];
    return true;
}

/* v without one of its last three axes, along which it must not move. */
static bool drop_axis(wf_view *v, int axis)
{
    if (v->strides[axis] != 0)
        return false;
    for (int d = axis; d + 1 < v->rank; d++) {
        v->shape[d] = v->shape[d + 1];
        v->strides[d] = v->strides[d + 1];
    }
    v->rank--;
    v->shape[v->rank] = 1;
    v->strides[v->rank] = 0;
    return true;
}

static bool is_product(const wf_compile_state *s, const wf_cnode *c, wf_view views[2], int32_t src[2])
{
    if (c->op != WF_OP_SUM || c->kind != WF_CK_COMPUTE || c->numel == 0)
        return false;
    const wf_cnode *mul = &s->g.nodes[c->src[0]];
    const int rank = mul->rank;
    if (mul->op != WF_OP_MUL || mul->kind != WF_CK_COMPUTE || mul->dtype != c->dtype || rank < 3 || c->rank != rank - 1 || mul->numel == 0 ||
        c->attrs.reduce.axes != 1u << (rank - 1) || c->in[0].view.rank != rank || !wf_view_is_whole(&c->in[0].view, mul->numel) ||
        c->shape[rank - 2] < MIN_COLS || c->numel / c->shape[rank - 2] < MIN_ROWS)
        return false;
    for (int i = 0; i < 2; i++)
        if (!read_factor(s, mul, i, &views[i], &src[i]))
            return false;
    const uint8_t a = s->g.nodes[src[0]].dtype, b = s->g.nodes[src[1]].dtype;
    const bool floats = c->dtype == WEFT_DTYPE_F32 && (a == WEFT_DTYPE_F32 || a == WEFT_DTYPE_F16 || a == WEFT_DTYPE_BF16);
    int batches = 0;
    for (int d = 0; d < rank - 3; d++)
        batches += mul->shape[d] > 1;
    if (b != WEFT_DTYPE_I8 || !(floats || (c->dtype == WEFT_DTYPE_I32 && a == WEFT_DTYPE_I8)) || batches > 3)
        return false;
    if (!drop_axis(&views[0], rank - 2) || !drop_axis(&views[1], rank - 3))
        return false;
    const int64_t extent = views[1].shape[rank - 3], stride = views[1].strides[rank - 3]; /* [.., N, K] to [.., K, N] */
    views[1].shape[rank - 3] = views[1].shape[rank - 2];
    views[1].strides[rank - 3] = views[1].strides[rank - 2];
    views[1].shape[rank - 2] = extent;
    views[1].strides[rank - 2] = stride;
    return true;
}

/* ---- numbers packed in bytes ---- */

enum { PER_BYTE_MAX = 4, CHAIN_MAX = 16 };

/* A constant, or f32 arithmetic on one u8 tensor element by element: its value for every byte. *cast is the node that
 * reads the bytes, -1 where none does. */
static bool byte_function(const wf_compile_state *s, int32_t id, int depth, float out[256], int32_t *cast)
{
    const wf_cnode *n = &s->g.nodes[id];
    *cast = -1;
    if (n->dtype != WEFT_DTYPE_F32 || depth == CHAIN_MAX)
        return false;
    if (n->op == WF_OP_FULL) {
        for (int v = 0; v < 256; v++)
            out[v] = (float)n->attrs.constant.value;
        return true;
    }
    if (n->kind != WF_CK_COMPUTE || n->n_in < 1 || n->n_in > 2)
        return false;
    if (n->op == WF_OP_CAST && s->g.nodes[n->src[0]].dtype == WEFT_DTYPE_U8) {
        for (int v = 0; v < 256; v++)
            out[v] = (float)v;
        *cast = id;
        return true;
    }
    float in[2][256];
    for (int i = 0; i < n->n_in; i++) {
        int32_t from;
        if (!byte_function(s, n->src[i], depth + 1, in[i], &from) || (from >= 0 && !wf_view_is_whole(&n->in[i].view, n->numel)) || (from >= 0 && *cast >= 0 && from != *cast))
            return false;
        *cast = from >= 0 ? from : *cast;
    }
    for (int v = 0; v < 256; v++)
        switch (n->op) {
        case WF_OP_ADD: out[v] = in[0][v] + in[1][v]; break;
        case WF_OP_SUB: out[v] = in[0][v] - in[1][v]; break;
        case WF_OP_MUL: out[v] = in[0][v] * in[1][v]; break;
        case WF_OP_FLOOR: out[v] = floorf(in[0][v]); break;
        default: return false;
        }
    return true;
}

static bool gives_number(const float f[256], int per_byte, int i)
{
    const int bits = 8 / per_byte, zero = per_byte == 2 ? 8 : 1;
    for (int v = 0; v < 256; v++)
        if (f[v] != (float)((v >> (bits * i) & ((1 << bits) - 1)) - zero))
            return false;
    return true;
}

/* The products that a chain of sums adds, in order. */
static int products_of(const wf_compile_state *s, int32_t id, const wf_cnode *out[PER_BYTE_MAX])
{
    int n = 0;
    for (const wf_cnode *c = &s->g.nodes[id];; c = &s->g.nodes[c->src[0]]) {
        const bool more = c->op == WF_OP_ADD;
        const wf_cnode *term = more ? &s->g.nodes[c->src[1]] : c;
        if (n == PER_BYTE_MAX || term->op != WF_OP_MUL || term->kind != WF_CK_COMPUTE || c->dtype != WEFT_DTYPE_F32)
            return 0;
        if (more && (!wf_view_is_whole(&c->in[0].view, c->numel) || !wf_view_is_whole(&c->in[1].view, c->numel)))
            return 0;
        out[n++] = term;
        if (!more)
            break;
    }
    for (int i = 0; i < n / 2; i++) {
        const wf_cnode *t = out[i];
        out[i] = out[n - 1 - i];
        out[n - 1 - i] = t;
    }
    return n;
}

static bool is_packed_product(const wf_compile_state *s, const wf_cnode *c, wf_view views[2], int32_t src[2], uint32_t *per_byte)
{
    const wf_cnode *term[PER_BYTE_MAX], *cast = NULL;
    if (c->op != WF_OP_SUM || c->kind != WF_CK_COMPUTE || c->numel == 0 || c->dtype != WEFT_DTYPE_F32)
        return false;
    const int n = products_of(s, c->src[0], term), rank = s->g.nodes[c->src[0]].rank;
    if ((n != 2 && n != 4) || rank < 3 || c->rank != rank - 1 || c->attrs.reduce.axes != 1u << (rank - 1) ||
        !wf_view_is_whole(&c->in[0].view, term[0]->numel) || c->shape[rank - 2] < MIN_COLS)
        return false;
    const wf_view *x = &term[0]->in[0].view;
    const int64_t N = x->shape[rank - 2], bytes = x->shape[rank - 1], step = term[1]->in[0].view.offset - x->offset;
    for (int i = 0; i < n; i++) {
        float f[256];
        int32_t from;
        const wf_view *xi = &term[i]->in[0].view, *w = &term[i]->in[1].view;
        if (term[i]->src[0] != term[0]->src[0] || xi->offset != x->offset + i * step || memcmp(xi->strides, x->strides, sizeof x->strides) != 0 ||
            memcmp(xi->shape, x->shape, sizeof x->shape) != 0 || !byte_function(s, term[i]->src[1], 0, f, &from) || from < 0 || !gives_number(f, n, i))
            return false;
        if (cast && cast != &s->g.nodes[from])
            return false;
        cast = &s->g.nodes[from];
        /* The bytes lie [N, bytes], and every other axis repeats them. */
        if (cast->rank != 2 || cast->shape[0] != N || cast->shape[1] != bytes || cast->in[0].view.rank != 2 || w->offset != 0 ||
            (bytes > 1 && w->strides[rank - 1] != 1) || (N > 1 && w->strides[rank - 2] != bytes))
            return false;
        for (int d = 0; d < rank - 2; d++)
            if (w->strides[d] != 0 && w->shape[d] > 1)
                return false;
    }
    int batches = 0;
    for (int d = 0; d < rank - 3; d++)
        batches += x->shape[d] > 1;
    const uint8_t a = s->g.nodes[term[0]->src[0]].dtype;
    if (batches > 3 || step < 1 || (bytes > 1 && x->strides[rank - 1] != n * step) || (a != WEFT_DTYPE_F32 && a != WEFT_DTYPE_F16 && a != WEFT_DTYPE_BF16))
        return false;
    views[0] = views[1] = *x;
    if (!drop_axis(&views[0], rank - 2))
        return false;
    views[0].shape[rank - 2] = bytes * n;
    views[0].strides[rank - 2] = step;
    views[1] = views[0];
    views[1].offset = cast->in[0].view.offset;
    memset(views[1].strides, 0, sizeof views[1].strides);
    views[1].shape[rank - 3] = bytes;
    views[1].strides[rank - 3] = cast->in[0].view.strides[1];
    views[1].shape[rank - 2] = N;
    views[1].strides[rank - 2] = cast->in[0].view.strides[0];
    src[0] = term[0]->src[0];
    src[1] = cast->src[0];
    *per_byte = (uint32_t)n;
    return true;
}

weft_status wf_contract_bytes(wf_compile_state *s)
{
    const wf_caps *caps = &s->env->dev->caps;
    if (!caps->runs_kir || caps->runs_wgsl)
        return WEFT_OK;
    for (int32_t i = 0; i < s->g.n; i++) {
        wf_cnode *c = &s->g.nodes[i];
        wf_view views[2];
        int32_t src[2];
        uint32_t per_byte = 0;
        if (!is_product(s, c, views, src) && !is_packed_product(s, c, views, src, &per_byte))
            continue;
        wf_value *in = wf_arena_alloc(&s->scratch, 2 * sizeof *in);
        int32_t *srcs = wf_arena_alloc(&s->scratch, sizeof src);
        if (!in || !srcs)
            return wf_fail_oom(2 * sizeof *in);
        for (int k = 0; k < 2; k++) {
            in[k] = (wf_value){NULL, views[k]};
            srcs[k] = src[k];
        }
        c->op = WF_OP_MATMUL;
        memset(&c->attrs, 0, sizeof c->attrs);
        c->attrs.packed.per_byte = per_byte;
        c->in = in;
        c->src = srcs;
        c->n_in = 2;
    }
    return WEFT_OK;
}
