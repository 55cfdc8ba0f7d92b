/* kernels_cpu.c - from a request to the named kernels of the CPU device: merges axes, writes the static words,
 * and takes the first admissible row of the op's table. The choice depends on the request, the device's
 * thread count and the environment, never on a measurement.
 */
#include "kernels_cpu.h"

#include "cpu_kernels.h"
#include "kernel_rows.h"

#include <math.h>
#include <stdio.h>

/* ---- words ---- */
static weft_status put(wf_launch *l, int at, int64_t v)
{
    if (v < INT32_MIN || v > INT32_MAX)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: %lld does not fit in 32 bits", l->row, (long long)v);
    l->statics[at] = (int32_t)v;
    return WEFT_OK;
}
static weft_status put_all(wf_launch *l, int at, const int64_t *v, int n)
{
    for (int i = 0; i < n; i++)
        WF_TRY(put(l, at + i, v[i]));
    return WEFT_OK;
}
static int32_t dtype_word(weft_dtype t, int at) { return (int32_t)t << (4 * at); }

static void bind(wf_launch *l, int what, uint8_t access)
{
    l->bind[l->n_bind] = what;
    l->access[l->n_bind++] = access;
}
/* Output or epilogue with its error word, and scratch between the two. */
static weft_status bind_rest(const wf_kernel_req *req, wf_launch *l, wf_kernel_choice *out, int dtypes_at)
{
    const wf_kir *e = req->epilogue;
    if (l->n_bind + 2 + (e ? e->n_bind + e->has_error : 0) > WF_MAX_BIND)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: more than %d bindings", l->row, WF_MAX_BIND);
    if (!e)
        bind(l, WF_BIND_OUT, WF_ACCESS_WRITE);
    if (out->scratch_bytes) {
        bind(l, WF_BIND_SCRATCH, WF_ACCESS_READ_WRITE);
        l->statics[dtypes_at] |= WF_KERN_HAS_SCRATCH;
    }
    for (int i = 0; e && i < e->n_bind; i++)
        bind(l, WF_BIND_EPILOGUE - i, e->bind[i].access);
    if (e && e->has_error)
        bind(l, WF_BIND_EPILOGUE - e->n_bind, WF_ACCESS_READ_WRITE);
    l->with_epilogue = e != NULL;
    return WEFT_OK;
}

/* ---- axes ---- */
/* The stride of output axis `at` of rank `out_rank` in a view that is aligned at the right. */
static int64_t aligned_stride(const wf_view *v, int out_rank, int at)
{
    const int i = at - (out_rank - v->rank);
    return i < 0 || v->shape[i] == 1 ? 0 : v->strides[i];
}
static bool is_float(weft_dtype t) { return t == WEFT_DTYPE_F32 || t == WEFT_DTYPE_F16 || t == WEFT_DTYPE_BF16; }
static int n_threads(const wf_caps *caps) { return caps->info.n_threads > 0 ? (int)caps->info.n_threads : 1; }

/* ---- WEFT_KERNEL ---- */
static weft_status check_forced(const wf_kernel_req *req, const char *op, const char *only)
{
    char row[64];
    if (!req->unforced && wf_kernel_forced(op, row, sizeof row) && strcmp(row, only) != 0)
        return wf_fail(WEFT_E_UNSUPPORTED, "WEFT_KERNEL asks for %s:%s: the only row on the CPU is %s", op, row, only);
    return WEFT_OK;
}

/* ---- matmul and linear, plain dtypes ---- */
static bool fits_packed(const int32_t *words, const char **why)
{
    *why = "f64 operands";
    return (words[19] & 15) != WEFT_DTYPE_F64;
}
static bool fits_plain(const int32_t *words, const char **why)
{
    (void)words;
    *why = NULL;
    return true;
}
static size_t no_scratch(const int32_t *words, int threads)
{
    (void)words, (void)threads;
    return 0;
}
/* Best first; the last fits everything. */
static const struct matrix_row {
    const char *name;
    bool (*fits)(const int32_t *words, const char **why);
    size_t (*scratch)(const int32_t *words, int threads);
} matrix_rows[] = {
    {"matmul_vec", wf_kern_vec_fits, wf_kern_vec_scratch},
    {"matmul_blas", wf_kern_blas_fits, wf_kern_blas_scratch},
    {"matmul_packed", fits_packed, wf_kern_packed_scratch},
    {"matmul_plain", fits_plain, no_scratch},
};

static weft_status named_matrix_row(const char *op, const char *name, const int32_t *words, const struct matrix_row **out)
{
    const char *why;
    for (size_t i = 0; i < WF_COUNT(matrix_rows); i++) {
        if (strcmp(name, matrix_rows[i].name) != 0)
            continue;
        if (!matrix_rows[i].fits(words, &why))
            return wf_fail(WEFT_E_UNSUPPORTED, "%s:%s does not fit: it takes or needs %s", op, name, why);
        *out = &matrix_rows[i];
        return WEFT_OK;
    }
    return wf_fail(WEFT_E_UNSUPPORTED, "%s:%s: no such row on the CPU", op, name);
}

static weft_status pick_matrix_row(const char *op, const wf_kernel_req *req, const int32_t *words, const struct matrix_row **out, char *passed, size_t size)
{
    char forced[64];
    const char *why;
    size_t used = 0;
    if (!req->unforced && wf_kernel_forced(op, forced, sizeof forced)) {
        weft_status st = named_matrix_row(op, forced, words, out);
        return st == WEFT_OK ? st : wf_fail(st, "WEFT_KERNEL asks for %s", weft_error_message());
    }
    if (req->row) {
        weft_status st = named_matrix_row(op, req->row, words, out);
        if (st == WEFT_OK || req->only)
            return st;
    }
    for (size_t i = 0; i < WF_COUNT(matrix_rows); i++) {
        *out = &matrix_rows[i];
        if (matrix_rows[i].fits(words, &why))
            return WEFT_OK;
        if (used < size)
            used += (size_t)snprintf(passed + used, size - used, "%s%s: it takes or needs %s", used ? "; " : "", matrix_rows[i].name, why);
    }
    return wf_fail(WEFT_E_INTERNAL, "%s: no row", op); /* the last fits everything */
}

static weft_status put_unfold(wf_launch *l, const wf_unfold *u)
{
    const int64_t head[4] = {u->operand, u->n_k, u->n_free, u->n_bounds};
    WF_TRY(put_all(l, 20, head, 4));
    for (int i = 0; i < WF_UNFOLD_BOUNDS; i++) {
        const int64_t bound[3] = {u->bound[i].extent, u->bound[i].start, u->bound[i].stride};
        WF_TRY(put_all(l, 24 + 3 * i, bound, 3));
    }
    for (int i = 0; i < 2 * WF_UNFOLD_AXES; i++) {
        const wf_unfold_axis *a = i < WF_UNFOLD_AXES ? &u->k[i] : &u->free[i - WF_UNFOLD_AXES];
        const int64_t axis[3] = {a->extent, a->move, a->bound};
        WF_TRY(put_all(l, 33 + 3 * i, axis, 3));
    }
    l->n_static = WF_KERN_UNFOLD_WORDS;
    return WEFT_OK;
}

typedef struct matrix {
    int64_t m, n, k, batch;
    int64_t extents[3];
    int64_t side[2][6]; /* offset, row stride, column stride, batch strides */
    bool flat;
} matrix;

static weft_status set_batch(const wf_launch *l, matrix *t, const wf_axis_run *axes, int n)
{
    if (n > 3)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: %d batch axes do not merge to 3", l->row, n);
    t->batch = 1;
    for (int i = 0; i < 3; i++) {
        const wf_axis_run one = {1, {0, 0}}, *a = i < 3 - n ? &one : &axes[i - (3 - n)];
        t->extents[i] = a->extent;
        t->side[0][3 + i] = a->stride[0];
        t->side[1][3 + i] = a->stride[1];
        if (!wf_mul_i64(t->batch, a->extent, &t->batch))
            return wf_fail(WEFT_E_UNSUPPORTED, "%s: too many batches", l->row);
    }
    return WEFT_OK;
}

/* A vector operand is a matrix of one row (a) or one column (b). */
static weft_status read_matmul(const wf_kernel_req *req, const wf_launch *l, matrix *t)
{
    const wf_view *a = &req->in[0].view, *b = &req->in[1].view;
    if (a->rank < 1 || b->rank < 1)
        return wf_fail(WEFT_E_UNSUPPORTED, "matmul: an operand of rank 0");
    const bool a_vec = a->rank == 1, b_vec = b->rank == 1;
    t->m = a_vec ? 1 : a->shape[a->rank - 2];
    t->k = a->shape[a->rank - 1];
    t->n = b_vec ? 1 : b->shape[b->rank - 1];
    const int64_t a_side[3] = {a->offset, a_vec ? 0 : a->strides[a->rank - 2], a->strides[a->rank - 1]};
    const int64_t b_side[3] = {b->offset, b->strides[b->rank - (b_vec ? 1 : 2)], b_vec ? 0 : b->strides[b->rank - 1]};
    memcpy(t->side[0], a_side, sizeof a_side);
    memcpy(t->side[1], b_side, sizeof b_side);
    /* Leading axes of the output, without the matrix axes that it has. */
    const int lead = req->out_rank - (a_vec ? 0 : 1) - (b_vec ? 0 : 1);
    wf_axis_run axes[WEFT_MAX_RANK];
    for (int i = 0; i < lead; i++)
        axes[i] = (wf_axis_run){req->out_shape[i], {a_vec ? 0 : aligned_stride(a, lead + 2, i), b_vec ? 0 : aligned_stride(b, lead + 2, i)}};
    return set_batch(l, t, axes, wf_axes_merge(axes, lead > 0 ? lead : 0, 2));
}

static int linear_rows(const wf_view *x, wf_axis_run *axes)
{
    for (int i = 0; i < x->rank - 1; i++)
        axes[i] = (wf_axis_run){x->shape[i], {x->strides[i], 0}};
    /* stride[1] is 0 everywhere: b does not move with the rows */
    return wf_axes_merge(axes, x->rank - 1, 2);
}

static weft_status read_linear(const wf_kernel_req *req, const wf_launch *l, matrix *t)
{
    const wf_view *x = &req->in[0].view, *w = &req->in[1].view;
    wf_axis_run axes[WEFT_MAX_RANK];
    if (x->rank < 1 || w->rank != 2)
        return wf_fail(WEFT_E_UNSUPPORTED, "linear: operands of rank %d and %d", x->rank, w->rank);
    const int n = linear_rows(x, axes);
    t->flat = true;
    t->m = n ? axes[n - 1].extent : 1;
    t->n = w->shape[0];
    t->k = x->shape[x->rank - 1];
    const int64_t a_side[3] = {x->offset, n ? axes[n - 1].stride[0] : 0, x->strides[x->rank - 1]};
    const int64_t b_side[3] = {w->offset, w->strides[1], w->strides[0]};
    memcpy(t->side[0], a_side, sizeof a_side);
    memcpy(t->side[1], b_side, sizeof b_side);
    return set_batch(l, t, axes, n ? n - 1 : 0);
}

/* The words of a product, in l. `bytes`: one of whole numbers, which has a row of its own. */
static weft_status matrix_words(const wf_kernel_req *req, wf_launch *l, matrix *out, bool *is_bytes)
{
    matrix t = {0};
    const weft_dtype a = req->in[0].dtype, b = req->in[1].dtype, o = req->epilogue ? WEFT_DTYPE_F32 : req->out_dtype;
    const bool f64 = a == WEFT_DTYPE_F64 && b == WEFT_DTYPE_F64 && req->out_dtype == WEFT_DTYPE_F64;
    const uint32_t per_byte = req->op == WF_OP_MATMUL ? req->attrs.packed.per_byte : 0;
    const bool bytes = b == WEFT_DTYPE_U8 ? per_byte && is_float(a) && is_float(o) : b == WEFT_DTYPE_I8 && ((a == WEFT_DTYPE_I8 && req->out_dtype == WEFT_DTYPE_I32 && !req->epilogue) || (is_float(a) && is_float(o)));
    if (!f64 && !bytes && (!is_float(a) || !is_float(b) || !is_float(o)))
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: no CPU kernel of %s and %s giving %s", l->row, weft_dtype_name(a), weft_dtype_name(b),
                       weft_dtype_name(req->out_dtype));
    if (f64 && req->epilogue)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: f64 with an epilogue, whose input is f32", l->row);
    WF_TRY(req->op == WF_OP_LINEAR ? read_linear(req, l, &t) : read_matmul(req, l, &t));
    const int64_t head[4] = {t.m, t.n, t.k, t.batch};
    WF_TRY(put_all(l, 0, head, 4));
    WF_TRY(put_all(l, 4, t.extents, 3));
    WF_TRY(put_all(l, 7, t.side[0], 6));
    WF_TRY(put_all(l, 13, t.side[1], 6));
    l->statics[19] = dtype_word(a, 0) | dtype_word(b, 1) | dtype_word(f64 ? WEFT_DTYPE_F64 : o, 2) | (int32_t)(per_byte << 12) | (t.flat ? WF_KERN_FLAT : 0);
    l->n_static = WF_KERN_MAT_WORDS;
    *out = t;
    *is_bytes = bytes;
    return WEFT_OK;
}

static const char *spoken(const wf_kernel_req *req) { return req->op == WF_OP_LINEAR ? "linear" : "matmul"; }

static weft_status choose_matrix(const wf_caps *caps, const wf_kernel_req *req, wf_kernel_choice *out)
{
    matrix t;
    bool bytes;
    wf_launch *l = &out->launch[0];
    const weft_dtype a = req->in[0].dtype, b = req->in[1].dtype;
    WF_TRY(matrix_words(req, l, &t, &bytes));
    static const struct matrix_row unfolds = {"matmul_unfold", fits_packed, wf_kern_packed_scratch};
    static const struct matrix_row eights = {"matmul_i8", fits_plain, wf_kern_i8_scratch};
    const struct matrix_row *row = bytes ? &eights : &unfolds;
    if (req->unfold)
        WF_TRY(put_unfold(l, req->unfold));
    else if (!bytes)
        WF_TRY(pick_matrix_row(spoken(req), req, l->statics, &row, out->passed, sizeof out->passed));
    l->row = row->name;
    out->scratch_bytes = row->scratch(l->statics, n_threads(caps));
    out->flops = 2 * t.batch * t.m * t.n * t.k;
    out->bytes = (int64_t)weft_dtype_block_bytes(a) * wf_view_numel(&req->in[0].view) +
                 (int64_t)weft_dtype_block_bytes(b) * wf_view_numel(&req->in[1].view) +
                 (int64_t)weft_dtype_block_bytes(req->out_dtype) * t.batch * t.m * t.n;
    bind(l, 0, WF_ACCESS_READ);
    bind(l, 1, WF_ACCESS_READ);
    return bind_rest(req, l, out, 19);
}

/* ---- for the tuner, and WEFT_KERNEL's check ---- */

/* A product that several rows may compute. */
static bool tuned_words(const wf_kernel_req *req, wf_launch *l, matrix *t)
{
    bool bytes;
    if (req->n_in < 2 || weft_dtype_is_quantised(req->in[1].dtype) || req->unfold || (req->op != WF_OP_MATMUL && req->op != WF_OP_LINEAR))
        return false;
    memset(l, 0, sizeof *l);
    l->row = spoken(req);
    return matrix_words(req, l, t, &bytes) == WEFT_OK && !bytes;
}

bool wf_kernel_tune_key_cpu(const wf_kernel_req *req, wf_tune_key *out)
{
    wf_launch l;
    matrix t;
    const char *why;
    if (!tuned_words(req, &l, &t))
        return false;
    const int64_t extents[4] = {t.m, t.n, t.k, t.batch};
    for (int i = 0; i < 4; i++)
        out->bucket[i] = wf_tune_bucket(extents[i]);
    out->dtype[0] = (uint8_t)req->in[0].dtype;
    out->dtype[1] = (uint8_t)req->in[1].dtype;
    out->dtype[2] = (uint8_t)req->out_dtype;
    for (int i = 0; i < 2; i++) /* stride 1 along the rows, along the columns */
        out->facts |= (uint32_t)(t.side[i][2] == 1) << (2 * i) | (uint32_t)(t.side[i][1] == 1) << (2 * i + 1);
    for (size_t i = 0; i < WF_COUNT(matrix_rows); i++)
        out->facts |= (uint32_t)matrix_rows[i].fits(l.statics, &why) << (8 + i);
    return true;
}

int wf_kernel_rows_cpu(const wf_kernel_req *req, const char *names[WF_TUNE_ROWS])
{
    wf_launch l;
    matrix t;
    const char *why;
    int n = 0;
    if (!tuned_words(req, &l, &t))
        return 0;
    for (size_t i = 0; i < WF_COUNT(matrix_rows); i++)
        if (matrix_rows[i].fits(l.statics, &why))
            names[n++] = matrix_rows[i].name;
    return n;
}

const char *wf_kernel_row_cpu(const char *op, int i)
{
    static const struct { const char *op, *row; } others[] = {
        {"matmul", "matmul_unfold"}, {"matmul", "matmul_i8"}, {"linear", "matmul_i8"}, {"qlinear", "linear_q8_0"}, {"qlinear", "linear_q4_0"},
        {"qlinear", "linear_q4_1"}, {"sdpa", "sdpa"}, {"topk", "topk"}, {"scan", "scan"}, {"sort", "sort"}, {"scatter", "scatter"}};
    const int n = (int)WF_COUNT(matrix_rows);
    if (strcmp(op, "matmul") == 0 || strcmp(op, "linear") == 0) {
        if (i < n)
            return matrix_rows[i].name;
        i -= n;
    }
    for (size_t k = 0; k < WF_COUNT(others); k++)
        if (strcmp(others[k].op, op) == 0 && i-- == 0)
            return others[k].row;
    return NULL;
}

/* ---- linear, block types ---- */
static weft_status choose_quant(const wf_caps *caps, const wf_kernel_req *req, wf_kernel_choice *out)
{
    const wf_operand *x = &req->in[0], *w = &req->in[1];
    wf_launch *l = &out->launch[0];
    wf_axis_run axes[WEFT_MAX_RANK];
    l->row = w->dtype == WEFT_DTYPE_Q8_0 ? "linear_q8_0" : w->dtype == WEFT_DTYPE_Q4_0 ? "linear_q4_0" : "linear_q4_1";
    const weft_dtype o = req->epilogue ? WEFT_DTYPE_F32 : req->out_dtype;
    if (x->view.rank < 1 || w->view.rank != 2 || !is_float(x->dtype) || !is_float(o))
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: x is %s of rank %d", l->row, weft_dtype_name(x->dtype), x->view.rank);
    if (w->layout != WF_LAYOUT_PLAIN)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: the weights are not in plain layout", l->row);
    const int n = linear_rows(&x->view, axes);
    if (n > 4)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: %d leading axes of x do not merge to 4", l->row, n);
    const int64_t k = x->view.shape[x->view.rank - 1], rows = w->view.shape[0];
    const int64_t w_row = rows == 1 ? w->view.shape[1] : w->view.strides[0];
    if (k % 32 || w->view.offset % 32 || w_row % 32 || (w->view.strides[1] != 1 && k > 1))
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: the view of the weights is not whole blocks", l->row);
    int64_t m = 1, extents[4] = {1, 1, 1, 1}, strides[4] = {0};
    for (int i = 0; i < n; i++) {
        extents[4 - n + i] = axes[i].extent;
        strides[4 - n + i] = axes[i].stride[0];
        if (!wf_mul_i64(m, axes[i].extent, &m))
            return wf_fail(WEFT_E_UNSUPPORTED, "%s: too many rows", l->row);
    }
    const int64_t head[11] = {m, rows, k, w->view.offset / 32, x->view.offset, n ? axes[n - 1].stride[0] : 0,
                              x->view.strides[x->view.rank - 1], 0, 0, req->attrs.linear.act_int8 != 0, w_row / 32};
    WF_TRY(put_all(l, 0, head, 11));
    WF_TRY(put_all(l, 12, extents, 4));
    WF_TRY(put_all(l, 16, strides, 4));
    l->statics[11] = dtype_word(x->dtype, 0) | dtype_word(o, 1);
    l->n_static = WF_KERN_QUANT_WORDS;
    WF_TRY(check_forced(req, "qlinear", l->row));
    out->scratch_bytes = wf_kern_quant_scratch(m, rows, k, head[9] != 0, n_threads(caps));
    out->flops = 2 * m * rows * k;
    out->bytes = (int64_t)weft_dtype_block_bytes(w->dtype) * (rows * k / 32) +
                 (int64_t)weft_dtype_block_bytes(x->dtype) * m * k + (int64_t)weft_dtype_block_bytes(req->out_dtype) * m * rows;
    bind(l, 0, WF_ACCESS_READ);
    bind(l, 1, WF_ACCESS_READ);
    return bind_rest(req, l, out, 11);
}

/* ---- attention ---- */
/* Input `at`, if there is one; *types gets its dtype. */
static weft_status put_mask(const wf_kernel_req *req, int *at, wf_launch *l, int32_t *types)
{
    if (!req->attrs.sdpa.has_mask)
        return WEFT_OK;
    const wf_operand *m = &req->in[*at];
    if (m->dtype != WEFT_DTYPE_BOOL && !is_float(m->dtype))
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: a mask of %s", weft_dtype_name(m->dtype));
    l->statics[23] = m->dtype == WEFT_DTYPE_BOOL ? 1 : 2;
    *types |= dtype_word(m->dtype, 4);
    WF_TRY(put(l, 24, m->view.offset));
    for (int i = 0; i < 4; i++)
        WF_TRY(put(l, 25 + i, aligned_stride(&m->view, 4, i)));
    bind(l, (*at)++, WF_ACCESS_READ);
    return WEFT_OK;
}

/* The number of keys: a word of the step block, or a tensor. */
static weft_status put_kv_len(const wf_kernel_req *req, int *at, wf_launch *l, int32_t *types)
{
    l->statics[29] = -1;
    if (!req->attrs.sdpa.has_kv_len)
        return WEFT_OK;
    const wf_operand *n = &req->in[*at];
    if (n->step_slot >= 0) {
        l->statics[29] = n->step_slot;
        ++*at;
        return WEFT_OK;
    }
    if (n->dtype != WEFT_DTYPE_I32)
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: kv_len of %s", weft_dtype_name(n->dtype));
    WF_TRY(put(l, 30, n->view.offset));
    *types |= WF_KERN_LEN_BOUND;
    bind(l, (*at)++, WF_ACCESS_READ);
    return WEFT_OK;
}

static weft_status put_per_head(const wf_kernel_req *req, int *at, wf_launch *l)
{
    const bool has[2] = {req->attrs.sdpa.has_slopes != 0, req->attrs.sdpa.has_sinks != 0};
    for (int i = 0; i < 2; i++) {
        if (!has[i])
            continue;
        const wf_operand *x = &req->in[*at];
        if (x->dtype != WEFT_DTYPE_F32 || x->view.rank != 1)
            return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: %s of %s", i ? "sinks" : "slopes", weft_dtype_name(x->dtype));
        WF_TRY(put(l, 35 + 2 * i, x->view.offset));
        WF_TRY(put(l, 36 + 2 * i, x->view.strides[0]));
        l->statics[39] |= i ? WF_SDPA_SINKS : WF_SDPA_SLOPES;
        bind(l, (*at)++, WF_ACCESS_READ);
    }
    return WEFT_OK;
}

static weft_status choose_sdpa(const wf_caps *caps, const wf_kernel_req *req, wf_kernel_choice *out)
{
    wf_launch *l = &out->launch[0];
    l->row = "sdpa";
    if (req->epilogue)
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: takes no epilogue");
    if (req->n_in < 3 + (req->attrs.sdpa.has_mask != 0) + (req->attrs.sdpa.has_kv_len != 0) + (req->attrs.sdpa.has_slopes != 0) + (req->attrs.sdpa.has_sinks != 0))
        return wf_fail(WEFT_E_INTERNAL, "sdpa: %d inputs", req->n_in);
    int32_t types = 0;
    int at = 3;
    for (int i = 0; i < 3; i++) {
        if (req->in[i].view.rank != 4 || !is_float(req->in[i].dtype))
            return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: input %d is %s of rank %d", i, weft_dtype_name(req->in[i].dtype), req->in[i].view.rank);
        types |= dtype_word(req->in[i].dtype, i);
        WF_TRY(put(l, 8 + 5 * i, req->in[i].view.offset));
        WF_TRY(put_all(l, 9 + 5 * i, req->in[i].view.strides, 4));
        bind(l, i, WF_ACCESS_READ);
    }
    if (!is_float(req->out_dtype))
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: result in %s", weft_dtype_name(req->out_dtype));
    types |= dtype_word(req->out_dtype, 3);
    const wf_view *q = &req->in[0].view, *k = &req->in[1].view, *v = &req->in[2].view;
    const int64_t head[6] = {q->shape[0], q->shape[1], k->shape[1], q->shape[2], k->shape[2], q->shape[3]}, e = v->shape[3];
    WF_TRY(put_all(l, 0, head, 6));
    const float scale = req->attrs.sdpa.scale != 0 ? req->attrs.sdpa.scale : 1.0f / sqrtf((float)(head[5] > 0 ? head[5] : 1));
    memcpy(&l->statics[6], &scale, 4);
    int64_t left, right;
    wf_sdpa_window(&req->attrs, head[3], head[4], &left, &right);
    WF_TRY(put(l, 7, right));
    WF_TRY(put(l, 32, left));
    memcpy(&l->statics[33], &req->attrs.sdpa.softcap, 4);
    WF_TRY(put(l, 34, e));
    WF_TRY(put_mask(req, &at, l, &types));
    WF_TRY(put_kv_len(req, &at, l, &types));
    WF_TRY(put_per_head(req, &at, l));
    l->statics[31] = types;
    l->n_static = WF_KERN_SDPA_WORDS;
    WF_TRY(check_forced(req, "sdpa", l->row));
    out->scratch_bytes = wf_kern_sdpa_scratch(head[0], head[1], head[2], head[3], head[4], head[5], e, n_threads(caps));
    out->flops = wf_sdpa_flops(&req->attrs, q, k, v);
    for (int i = 0; i < 3; i++)
        out->bytes += (int64_t)weft_dtype_block_bytes(req->in[i].dtype) * wf_view_numel(&req->in[i].view);
    out->bytes += (int64_t)weft_dtype_block_bytes(req->out_dtype) * head[0] * head[1] * head[3] * e;
    return bind_rest(req, l, out, 31);
}

/* ---- top-k ---- */
static weft_status choose_topk(const wf_kernel_req *req, wf_kernel_choice *out)
{
    wf_launch *l = &out->launch[0];
    const wf_view *x = &req->in[0].view;
    wf_axis_run axes[WEFT_MAX_RANK];
    l->row = "topk";
    if (req->epilogue || x->rank < 1 || weft_dtype_is_quantised(req->in[0].dtype))
        return wf_fail(WEFT_E_UNSUPPORTED, "topk: %s of rank %d", weft_dtype_name(req->in[0].dtype), x->rank);
    const int n = linear_rows(x, axes);
    if (n > 3)
        return wf_fail(WEFT_E_UNSUPPORTED, "topk: %d leading axes do not merge to 3", n);
    int64_t rows = 1, extents[3] = {1, 1, 1}, strides[3] = {0};
    for (int i = 0; i < n; i++) {
        extents[3 - n + i] = axes[i].extent;
        strides[3 - n + i] = axes[i].stride[0];
        if (!wf_mul_i64(rows, axes[i].extent, &rows))
            return wf_fail(WEFT_E_UNSUPPORTED, "topk: too many rows");
    }
    const int64_t head[4] = {rows, x->shape[x->rank - 1], req->attrs.topk.k, x->offset};
    WF_TRY(put_all(l, 0, head, 4));
    WF_TRY(put_all(l, 4, extents, 3));
    WF_TRY(put_all(l, 7, strides, 3));
    WF_TRY(put(l, 10, x->strides[x->rank - 1]));
    l->statics[11] = dtype_word(req->in[0].dtype, 0);
    l->n_static = WF_KERN_TOPK_WORDS;
    WF_TRY(check_forced(req, "topk", l->row));
    out->scratch_bytes = wf_kern_topk_scratch(rows, head[1], head[2]);
    out->flops = 0;
    out->bytes = (int64_t)weft_dtype_block_bytes(req->in[0].dtype) * wf_view_numel(x) + 4 * rows * head[2];
    bind(l, 0, WF_ACCESS_READ);
    return bind_rest(req, l, out, 11);
}

/* ---- decompositions ---- */
static weft_status choose_linalg(const wf_kernel_req *req, wf_kernel_choice *out)
{
    wf_launch *l = &out->launch[0];
    const wf_view *a = &req->in[0].view, *b = req->n_in > 1 ? &req->in[1].view : NULL;
    l->row = "linalg";
    if (req->epilogue || a->rank != 3 || (b && b->rank != 3) || !wf_view_is_contiguous(a) || (b && !wf_view_is_contiguous(b)))
        return wf_fail(WEFT_E_INTERNAL, "linalg: operands are not row-major batches");
    const int64_t head[8] = {req->attrs.linalg.kind, req->attrs.linalg.flags, a->shape[0], a->shape[1], a->shape[2], b ? b->shape[2] : 0, a->offset,
                             b ? b->offset : 0};
    WF_TRY(put_all(l, 0, head, 8));
    l->statics[8] = dtype_word(req->in[0].dtype, 0);
    l->n_static = WF_KERN_LINALG_WORDS;
    out->flops = 0;
    out->bytes = (int64_t)weft_dtype_block_bytes(req->in[0].dtype) * wf_view_numel(a);
    for (int i = 0; i < req->n_in; i++)
        bind(l, i, WF_ACCESS_READ);
    return bind_rest(req, l, out, 8);
}

/* ---- lines: scan, sort, scatter ---- */
static weft_status choose_lines(const wf_caps *caps, const wf_kernel_req *req, wf_kernel_choice *out)
{
    wf_launch *l = &out->launch[0];
    wf_line_words words;
    WF_TRY(wf_line_words_of(l->row, req, &words));
    memcpy(l->statics, words.word, sizeof words.word);
    l->statics[27] = dtype_word(req->in[0].dtype, 0) | dtype_word(req->out_dtype, 1);
    l->n_static = WF_KERN_LINE_WORDS;
    WF_TRY(check_forced(req, l->row, l->row));
    if (req->op == WF_OP_SORT)
        out->scratch_bytes = wf_kern_sort_scratch(words.lines, words.n, n_threads(caps));
    out->bytes = words.lines * words.n * (int64_t)(weft_dtype_block_bytes(req->in[0].dtype) + weft_dtype_block_bytes(req->out_dtype));
    bind(l, 0, WF_ACCESS_READ);
    return bind_rest(req, l, out, 27);
}

static weft_status choose_scatter(const wf_kernel_req *req, wf_kernel_choice *out)
{
    wf_launch *l = &out->launch[0];
    wf_scatter_words words;
    WF_TRY(wf_scatter_words_of(req, &words));
    memcpy(l->statics, words.word, sizeof words.word);
    l->statics[48] = dtype_word(req->in[0].dtype, 0);
    l->n_static = WF_KERN_SCATTER_WORDS;
    WF_TRY(check_forced(req, "scatter", l->row));
    for (int i = 0; i < 3; i++)
        bind(l, i, WF_ACCESS_READ);
    return bind_rest(req, l, out, 48);
}

weft_status wf_kernel_choose_cpu(const wf_caps *caps, const wf_kernel_req *req, wf_kernel_choice *out)
{
    memset(out, 0, sizeof *out);
    out->n_launches = 1;
    wf_launch *l = &out->launch[0];
    l->row = wf_op_table[req->op].name; /* until a row is taken; messages name it */
    l->kind = WF_PROGRAM_NAMED;
    l->grid[0] = l->grid[1] = l->grid[2] = 1;
    l->indirect_in = l->indirect_axis = l->indirect_div = -1;
    switch (req->op) {
    case WF_OP_MATMUL:
    case WF_OP_LINEAR:
        if (req->n_in < 2)
            return wf_fail(WEFT_E_INTERNAL, "%s: %d inputs", l->row, req->n_in);
        return weft_dtype_is_quantised(req->in[1].dtype) ? choose_quant(caps, req, out) : choose_matrix(caps, req, out);
    case WF_OP_SDPA: return choose_sdpa(caps, req, out);
    case WF_OP_TOPK: return choose_topk(req, out);
    case WF_OP_LINALG: return choose_linalg(req, out);
    case WF_OP_SCAN:
    case WF_OP_SORT: return choose_lines(caps, req, out);
    case WF_OP_SCATTER: return choose_scatter(req, out);
    default: return wf_fail(WEFT_E_UNSUPPORTED, "%s: no hand-written CPU kernel", l->row);
    }
}
