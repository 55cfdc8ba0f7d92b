/* compose_algebra_lapack.c - decompositions: one LINALG node over a row-major batch, whose packed result is taken apart
 * into views.
 */
#include "compose_algebra.h"

#include "linalg.h"

/* A batch of matrices: leading axes, and the matrix axes. */
typedef struct batch {
    int rank; /* of the leading axes */
    int64_t lead[WEFT_MAX_RANK], count, m, n;
    weft_dtype dtype;
} batch;

/* ---- operands ---- */

static weft_status read_batch(const char *who, const weft_tensor *a, bool square, batch *out)
{
    char ta[200];
    weft_dtype d = weft_tensor_dtype(a);
    int rank = weft_tensor_rank(a);
    wf_view_format(&a->view, ta, sizeof ta);
    if (d != WEFT_DTYPE_F32 && d != WEFT_DTYPE_F64)
        return wf_fail(WEFT_E_DTYPE, "%s: input is %s, expected f32 or f64", who, weft_dtype_name(d));
    if (rank < 2)
        return wf_fail(WEFT_E_SHAPE, "%s: input is %s, expected [.., M, N]", who, ta);
    *out = (batch){.rank = rank - 2, .count = 1, .m = weft_tensor_dim(a, -2), .n = weft_tensor_dim(a, -1), .dtype = d};
    if (square && out->m != out->n)
        return wf_fail(WEFT_E_SHAPE, "%s: input is %s, expected square matrices", who, ta);
    for (int i = 0; i < rank - 2; i++) {
        out->lead[i] = weft_tensor_dim(a, i);
        out->count *= out->lead[i];
    }
    return WEFT_OK;
}

static weft_tensor *flat(weft_tensor *x, const batch *b, int64_t rows, int64_t cols)
{
    return weft_contiguous(weft_reshape(x, 3, (int64_t[]){b->count, rows, cols}));
}

static weft_tensor *linalg(int kind, int flags, weft_tensor *a, weft_tensor *b, int64_t size)
{
    weft_tensor *in[2] = {a, b}, *r;
    int n_in = b ? 2 : 1;
    if (!wf_enter("linalg", n_in, in, &r))
        return r;
    weft_ctx *ctx = a->ctx;
    int64_t shape[WEFT_MAX_RANK] = {a->view.shape[0], size, 1, 1, 1, 1, 1, 1};
    wf_node *n = wf_node_new(ctx, WF_OP_LINALG, (weft_dtype)a->node->dtype, n_in, 2, shape);
    if (!n)
        return wf_leave(ctx, wf_tensor_error_last(ctx, WEFT_E_OOM));
    for (int i = 0; i < n_in; i++)
        wf_node_set_input(n, i, in[i]->node, &in[i]->view);
    n->attrs.linalg.kind = kind;
    n->attrs.linalg.flags = (uint32_t)flags;
    return wf_leave(ctx, wf_tensor_new(ctx, n, NULL));
}

/* ---- results ---- */

static weft_tensor *shaped(const batch *b, weft_tensor *x, int64_t rows, int64_t cols)
{
    int64_t shape[WEFT_MAX_RANK];
    memcpy(shape, b->lead, sizeof shape);
    shape[b->rank] = rows;
    shape[b->rank + 1] = cols;
    return weft_reshape(x, b->rank + 2, shape);
}

/* A result where there is nothing to decompose: orthogonal factors are identities, a determinant is 1. */
static weft_tensor *of_nothing(weft_ctx *ctx, const batch *b, int kind, int part, int64_t rows, int64_t cols)
{
    bool one = part == 0 && (kind == WF_LINALG_DET || kind == WF_LINALG_SLOGDET);
    bool orthogonal = rows == cols && ((part == 0 && (kind == WF_LINALG_LU || kind == WF_LINALG_QR)) || (part != 1 && kind == WF_LINALG_SVD));
    int64_t shape[WEFT_MAX_RANK];
    memcpy(shape, b->lead, sizeof shape);
    shape[b->rank] = rows;
    shape[b->rank + 1] = cols;
    return orthogonal ? wf_identity(ctx, b->dtype, b->rank + 2, shape) : weft_full(ctx, b->dtype, b->rank + 2, shape, one);
}

/* The results of one node as [lead .., rows, cols]. b [lead .., n, k] or NULL. */
static void decompose(weft_ctx *ctx, int kind, int flags, const batch *m, weft_tensor *a, weft_tensor *b, weft_tensor *out[3])
{
    int64_t rows[3], cols[3], k = b ? weft_tensor_dim(b, -1) : 0, size = 0;
    int n = wf_linalg_parts(kind, flags, m->m, m->n, k, rows, cols);
    bool nothing = m->count == 0 || m->m == 0 || m->n == 0 || (b && k == 0);
    for (int i = 0; i < n; i++) {
        int64_t part;
        if (!wf_mul_i64(rows[i], cols[i], &part) || !wf_add_i64(size, part, &size)) {
            out[0] = out[1] = out[2] = wf_tensor_error(ctx, WEFT_E_SHAPE, "linalg: results of %lld x %lld are too large", (long long)rows[i], (long long)cols[i]);
            return;
        }
    }
    weft_tensor *packed = nothing ? NULL : linalg(kind, flags, flat(a, m, m->m, m->n), b ? flat(b, m, m->n, k) : NULL, size);
    for (int64_t i = 0, at = 0; i < n; at += rows[i] * cols[i], i++)
        out[i] = nothing ? of_nothing(ctx, m, kind, (int)i, rows[i], cols[i])
                         : shaped(m, weft_slice(packed, 1, at, at + rows[i] * cols[i], 1), rows[i], cols[i]);
}

static weft_tensor *without(weft_tensor *x, int n_axes)
{
    for (int i = 0; i < n_axes; i++)
        x = weft_squeeze(x, -1);
    return x;
}

static weft_tensor *turned(weft_tensor *x) { return weft_transpose(x, -2, -1); }

/* Begin, check, and end with an error; true: go on. */
static bool begin(wf_composite *c, const char *who, weft_tensor *a, bool square, batch *m, weft_tensor **result)
{
    if (!wf_composite_begin(c, who, 1, WF_INPUTS(a))) {
        *result = c->failed;
        return false;
    }
    weft_status st = read_batch(who, a, square, m);
    if (st != WEFT_OK)
        *result = wf_composite_end(c, wf_tensor_error_last(c->ctx, st));
    return st == WEFT_OK;
}

/* One more result, where the caller wants it. */
static void give(wf_composite *c, weft_tensor **to, weft_tensor *t)
{
    if (to)
        *to = wf_composite_give(c, t);
}
static weft_tensor *same_error(weft_tensor *r, weft_tensor **x, weft_tensor **y)
{
    if (x)
        *x = r;
    if (y)
        *y = r;
    return r;
}

/* ---- one matrix ---- */

weft_tensor *weft_cholesky(weft_tensor *a, bool upper)
{
    wf_composite c;
    batch m;
    weft_tensor *out[3], *r;
    if (!begin(&c, "cholesky", a, true, &m, &r))
        return r;
    decompose(c.ctx, WF_LINALG_CHOLESKY, 0, &m, upper ? turned(a) : a, NULL, out);
    return wf_composite_end(&c, upper ? turned(out[0]) : out[0]);
}

weft_tensor *weft_lu(weft_tensor *a, weft_tensor **l, weft_tensor **u)
{
    wf_composite c;
    batch m;
    weft_tensor *out[3], *r;
    if (!begin(&c, "lu", a, false, &m, &r))
        return same_error(r, l, u);
    decompose(c.ctx, WF_LINALG_LU, 0, &m, a, NULL, out);
    give(&c, l, out[1]);
    give(&c, u, out[2]);
    return wf_composite_end(&c, out[0]);
}

weft_tensor *weft_qr(weft_tensor *a, bool complete, weft_tensor **r)
{
    wf_composite c;
    batch m;
    weft_tensor *out[3], *q;
    if (!begin(&c, "qr", a, false, &m, &q))
        return same_error(q, r, NULL);
    decompose(c.ctx, WF_LINALG_QR, complete ? WF_LINALG_FULL : 0, &m, a, NULL, out);
    give(&c, r, out[1]);
    return wf_composite_end(&c, out[0]);
}

weft_tensor *weft_det(weft_tensor *a)
{
    wf_composite c;
    batch m;
    weft_tensor *out[3], *r;
    if (!begin(&c, "det", a, true, &m, &r))
        return r;
    decompose(c.ctx, WF_LINALG_DET, 0, &m, a, NULL, out);
    return wf_composite_end(&c, without(out[0], 2));
}

weft_tensor *weft_slogdet(weft_tensor *a, weft_tensor **log_abs)
{
    wf_composite c;
    batch m;
    weft_tensor *out[3], *r;
    if (!begin(&c, "slogdet", a, true, &m, &r))
        return same_error(r, log_abs, NULL);
    decompose(c.ctx, WF_LINALG_SLOGDET, 0, &m, a, NULL, out);
    give(&c, log_abs, without(out[1], 2));
    return wf_composite_end(&c, without(out[0], 2));
}

weft_tensor *weft_inv(weft_tensor *a)
{
    wf_composite c;
    batch m;
    weft_tensor *out[3], *r;
    if (!begin(&c, "inv", a, true, &m, &r))
        return r;
    decompose(c.ctx, WF_LINALG_INV, 0, &m, a, NULL, out);
    return wf_composite_end(&c, out[0]);
}

weft_tensor *weft_eigh(weft_tensor *a, bool upper, weft_tensor **vectors)
{
    wf_composite c;
    batch m;
    weft_tensor *out[3], *r;
    if (!begin(&c, "eigh", a, true, &m, &r))
        return same_error(r, vectors, NULL);
    decompose(c.ctx, WF_LINALG_EIGH, 0, &m, upper ? turned(a) : a, NULL, out);
    give(&c, vectors, out[1]);
    return wf_composite_end(&c, weft_squeeze(out[0], -2));
}

weft_tensor *weft_svd(weft_tensor *a, bool full_matrices, weft_tensor **s, weft_tensor **vh)
{
    wf_composite c;
    batch m;
    weft_tensor *out[3], *r;
    if (!begin(&c, "svd", a, false, &m, &r))
        return same_error(r, s, vh);
    decompose(c.ctx, WF_LINALG_SVD, full_matrices ? WF_LINALG_FULL : 0, &m, a, NULL, out);
    give(&c, s, weft_squeeze(out[1], -2));
    give(&c, vh, out[2]);
    return wf_composite_end(&c, out[0]);
}

/* ---- two operands ---- */

/* a and b get common leading axes. */
static weft_status common_lead(const char *who, batch *m, weft_tensor **a, weft_tensor **b)
{
    wf_view va = (*a)->view, vb = (*b)->view, lead;
    int64_t rows_a = weft_tensor_dim(*a, -2), cols_a = weft_tensor_dim(*a, -1), rows_b = weft_tensor_dim(*b, -2), cols_b = weft_tensor_dim(*b, -1);
    va.rank -= 2;
    vb.rank -= 2;
    WF_TRY(wf_view_broadcast_shape(who, &va, &vb, &lead));
    int64_t shape[WEFT_MAX_RANK];
    m->rank = lead.rank;
    m->count = 1;
    for (int i = 0; i < lead.rank; i++) {
        shape[i] = m->lead[i] = lead.shape[i];
        m->count *= lead.shape[i];
    }
    shape[lead.rank] = rows_a;
    shape[lead.rank + 1] = cols_a;
    *a = weft_expand(*a, lead.rank + 2, shape);
    shape[lead.rank] = rows_b;
    shape[lead.rank + 1] = cols_b;
    *b = weft_expand(*b, lead.rank + 2, shape);
    return WEFT_OK;
}

/* Checks both and brings b to the dtype of a; `side`: the axis of b that meets a. */
static weft_status read_pair(const char *who, weft_tensor *a, weft_tensor *b, bool square, int side, batch *m)
{
    char ta[200], tb[200];
    WF_TRY(read_batch(who, a, square, m));
    wf_view_format(&a->view, ta, sizeof ta);
    wf_view_format(&b->view, tb, sizeof tb);
    if (weft_tensor_dtype(b) != m->dtype)
        return wf_fail(WEFT_E_DTYPE, "%s: input is %s and the right side %s", who, weft_dtype_name(m->dtype), weft_dtype_name(weft_tensor_dtype(b)));
    if (weft_tensor_rank(b) < 2 || weft_tensor_dim(b, side) != m->m)
        return wf_fail(WEFT_E_SHAPE, "%s: input is %s and the right side %s, expected %lld %s", who, ta, tb, (long long)m->m,
                       side == -2 ? "rows" : "columns");
    return WEFT_OK;
}

static weft_tensor *pair(wf_composite *c, const char *who, int kind, int flags, batch *m, weft_tensor *a, weft_tensor *b)
{
    weft_tensor *out[3];
    weft_status st = common_lead(who, m, &a, &b);
    if (st != WEFT_OK)
        return wf_tensor_error_last(c->ctx, st);
    decompose(c->ctx, kind, flags, m, a, b, out);
    return out[0];
}

weft_tensor *weft_solve_triangular(weft_tensor *a, weft_tensor *b, bool upper, bool left, bool unitriangular)
{
    static const char *who = "solve_triangular";
    wf_composite c;
    batch m;
    if (!wf_composite_begin(&c, who, 2, WF_INPUTS(a, b)))
        return c.failed;
    weft_status st = read_pair(who, a, b, true, left ? -2 : -1, &m);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    int flags = (upper == left ? WF_LINALG_UPPER : 0) | (unitriangular ? WF_LINALG_UNIT : 0); /* x a = b is a^T x^T = b^T */
    weft_tensor *x = pair(&c, who, WF_LINALG_TRIANGULAR, flags, &m, left ? a : turned(a), left ? b : turned(b));
    return wf_composite_end(&c, left ? x : turned(x));
}

static bool is_vector(const weft_tensor *a, const weft_tensor *b)
{
    int ra = weft_tensor_rank(a), rb = weft_tensor_rank(b);
    bool same = rb == ra - 1;
    for (int i = 0; same && i < rb; i++)
        same = weft_tensor_dim(a, i) == weft_tensor_dim(b, i);
    return rb == 1 || same;
}

weft_tensor *weft_solve(weft_tensor *a, weft_tensor *b)
{
    wf_composite c;
    batch m;
    if (!wf_composite_begin(&c, "solve", 2, WF_INPUTS(a, b)))
        return c.failed;
    bool vector = is_vector(a, b);
    if (vector)
        b = weft_unsqueeze(b, -1);
    weft_status st = b->status == WEFT_OK ? read_pair("solve", a, b, true, -2, &m) : b->status;
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    weft_tensor *x = pair(&c, "solve", WF_LINALG_SOLVE, 0, &m, a, b);
    return wf_composite_end(&c, vector ? weft_squeeze(x, -1) : x);
}

/* ---- from singular values ---- */

/* V diag(1 / s) U^T, times b where there is one; [.., N, M] or [.., N, K]. */
static weft_tensor *pseudo(wf_composite *c, const batch *m, weft_tensor *a, weft_tensor *b, double rcond)
{
    weft_tensor *out[3];
    decompose(c->ctx, WF_LINALG_SVD, 0, m, a, NULL, out);
    double eps = m->dtype == WEFT_DTYPE_F64 ? 0x1p-52 : 0x1p-23;
    weft_tensor *s = turned(out[1]); /* [.., K, 1] */
    weft_tensor *ut = turned(out[0]), *limit, *zero = weft_full(c->ctx, m->dtype, 0, NULL, 0);
    if (weft_tensor_dim(s, -2) == 0)
        return weft_matmul(turned(out[2]), b ? weft_matmul(ut, b) : ut);
    limit = weft_mul(weft_max(s, (int[]){-2}, 1, true), weft_full(c->ctx, m->dtype, 0, NULL, rcond < 0 ? eps * (double)WF_MAX(m->m, m->n) : rcond));
    weft_tensor *by = weft_where(weft_gt(s, limit), weft_div(weft_full(c->ctx, m->dtype, 0, NULL, 1), s), zero);
    return weft_matmul(turned(out[2]), weft_mul(by, b ? weft_matmul(ut, b) : ut));
}

weft_tensor *weft_pinv(weft_tensor *a, double rcond)
{
    wf_composite c;
    batch m;
    weft_tensor *r;
    if (!begin(&c, "pinv", a, false, &m, &r))
        return r;
    if (isnan(rcond))
        return wf_composite_fail(&c, WEFT_E_VALUE, "rcond is NaN");
    return wf_composite_end(&c, pseudo(&c, &m, a, NULL, rcond));
}

weft_tensor *weft_lstsq(weft_tensor *a, weft_tensor *b, double rcond)
{
    wf_composite c;
    batch m;
    if (!wf_composite_begin(&c, "lstsq", 2, WF_INPUTS(a, b)))
        return c.failed;
    weft_status st = isnan(rcond) ? wf_fail(WEFT_E_VALUE, "lstsq: rcond is NaN") : read_pair("lstsq", a, b, false, -2, &m);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    return wf_composite_end(&c, pseudo(&c, &m, a, b, rcond));
}
