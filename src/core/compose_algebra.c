/* compose_algebra.c - products by their names, written over matmul and einsum. */
#include "compose_algebra.h"

#include <stdio.h>

weft_tensor *wf_view_tensor(weft_tensor *x, const wf_view *v)
{
    weft_tensor *r;
    if (!wf_enter("view", 1, &x, &r))
        return r;
    weft_ctx *ctx = x->ctx;
    return wf_leave(ctx, wf_tensor_new(ctx, x->node, v));
}

static bool is_rank(const weft_tensor *t, int rank) { return weft_tensor_rank(t) == rank; }

static weft_tensor *expected(wf_composite *c, const weft_tensor *a, const weft_tensor *b, const char *what)
{
    char ta[200], tb[200];
    wf_view_format(&a->view, ta, sizeof ta);
    wf_view_format(&b->view, tb, sizeof tb);
    return wf_composite_fail(c, WEFT_E_SHAPE, "expected %s, got %s and %s", what, ta, tb);
}

/* Integers have no matrix kernels: they multiply and sum, which fuses. */
weft_tensor *wf_product(weft_tensor *a, weft_tensor *b)
{
    if (weft_dtype_is_float(weft_tensor_dtype(a)) && weft_dtype_is_float(weft_tensor_dtype(b)))
        return weft_matmul(a, b);
    return wf_einsum("matmul", "...ij,...jk->...ik", (weft_tensor *[]){a, b}, 2);
}

weft_tensor *weft_mm(weft_tensor *a, weft_tensor *b)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "mm", 2, WF_INPUTS(a, b)))
        return c.failed;
    if (!is_rank(a, 2) || !is_rank(b, 2) || weft_tensor_dim(a, 1) != weft_tensor_dim(b, 0))
        return expected(&c, a, b, "[N, K] and [K, M]");
    return wf_composite_end(&c, wf_product(a, b));
}

weft_tensor *weft_bmm(weft_tensor *a, weft_tensor *b)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "bmm", 2, WF_INPUTS(a, b)))
        return c.failed;
    if (!is_rank(a, 3) || !is_rank(b, 3) || weft_tensor_dim(a, 2) != weft_tensor_dim(b, 1) || weft_tensor_dim(a, 0) != weft_tensor_dim(b, 0))
        return expected(&c, a, b, "[B, N, K] and [B, K, M]");
    return wf_composite_end(&c, wf_product(a, b));
}

weft_tensor *weft_mv(weft_tensor *a, weft_tensor *b)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "mv", 2, WF_INPUTS(a, b)))
        return c.failed;
    if (!is_rank(a, 2) || !is_rank(b, 1) || weft_tensor_dim(a, 1) != weft_tensor_dim(b, 0))
        return expected(&c, a, b, "[N, K] and [K]");
    return wf_composite_end(&c, weft_squeeze(wf_product(a, weft_unsqueeze(b, 1)), 1));
}

static weft_tensor *dot(const char *who, weft_tensor *a, weft_tensor *b)
{
    wf_composite c;
    if (!wf_composite_begin(&c, who, 2, WF_INPUTS(a, b)))
        return c.failed;
    if (!is_rank(a, 1) || !is_rank(b, 1) || weft_tensor_dim(a, 0) != weft_tensor_dim(b, 0))
        return expected(&c, a, b, "two vectors of one length");
    return wf_composite_end(&c, wf_einsum(who, "i,i->", (weft_tensor *[]){a, b}, 2));
}
weft_tensor *weft_dot(weft_tensor *a, weft_tensor *b) { return dot("dot", a, b); }
weft_tensor *weft_vdot(weft_tensor *a, weft_tensor *b) { return dot("vdot", a, b); }

weft_tensor *weft_outer(weft_tensor *a, weft_tensor *b)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "outer", 2, WF_INPUTS(a, b)))
        return c.failed;
    if (!is_rank(a, 1) || !is_rank(b, 1))
        return expected(&c, a, b, "two vectors");
    return wf_composite_end(&c, weft_mul(weft_unsqueeze(a, 1), b));
}

weft_tensor *weft_inner(weft_tensor *a, weft_tensor *b)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "inner", 2, WF_INPUTS(a, b)))
        return c.failed;
    int ra = weft_tensor_rank(a), rb = weft_tensor_rank(b);
    if (ra == 0 || rb == 0)
        return wf_composite_end(&c, weft_mul(a, b));
    if (weft_tensor_dim(a, -1) != weft_tensor_dim(b, -1))
        return expected(&c, a, b, "equal last axes");
    weft_tensor *r = weft_tensordot(a, b, (int[]){ra - 1}, (int[]){rb - 1}, 1);
    return wf_composite_end(&c, r);
}

/* ---- products added ---- */

static weft_tensor *scaled(weft_tensor *x, double by)
{
    if (by == 1)
        return x;
    bool is_float = weft_dtype_is_float(weft_tensor_dtype(x)), whole = by == floor(by) && fabs(by) < INT32_MAX;
    weft_dtype number = weft_tensor_dtype(x) == WEFT_DTYPE_F64 ? WEFT_DTYPE_F64 : !is_float && whole ? WEFT_DTYPE_I32 : WEFT_DTYPE_F32;
    return weft_mul(x, weft_full(x->ctx, number, 0, NULL, by));
}

static weft_tensor *add_product(const char *who, weft_tensor *x, weft_tensor *a, weft_tensor *b, double beta, double alpha, int rank)
{
    wf_composite c;
    if (!wf_composite_begin(&c, who, 3, WF_INPUTS(x, a, b)))
        return c.failed;
    if (!is_rank(a, rank) || !is_rank(b, rank) || weft_tensor_dim(a, -1) != weft_tensor_dim(b, -2) ||
        (rank == 3 && weft_tensor_dim(a, 0) != weft_tensor_dim(b, 0)))
        return expected(&c, a, b, rank == 3 ? "[B, N, K] and [B, K, M]" : "[N, K] and [K, M]");
    int64_t shape[3] = {weft_tensor_dim(a, 0), weft_tensor_dim(a, rank - 2), weft_tensor_dim(b, -1)};
    if (rank == 2)
        shape[1] = shape[2];
    weft_tensor *to = weft_expand(x, rank, shape);
    if (to->status != WEFT_OK) {
        char tx[200];
        wf_view_format(&x->view, tx, sizeof tx);
        return wf_composite_fail(&c, WEFT_E_SHAPE, "input %s does not broadcast to the product's rows %lld and columns %lld", tx,
                                 (long long)shape[rank - 2], (long long)shape[rank - 1]);
    }
    weft_tensor *p = scaled(wf_product(a, b), alpha);
    return wf_composite_end(&c, beta == 0 ? p : weft_add(scaled(x, beta), p));
}

weft_tensor *weft_addmm(weft_tensor *x, weft_tensor *a, weft_tensor *b, double beta, double alpha)
{
    return add_product("addmm", x, a, b, beta, alpha, 2);
}
weft_tensor *weft_baddbmm(weft_tensor *x, weft_tensor *a, weft_tensor *b, double beta, double alpha)
{
    return add_product("baddbmm", x, a, b, beta, alpha, 3);
}

/* ---- tensordot, powers, vector product ---- */

weft_tensor *weft_tensordot(weft_tensor *a, weft_tensor *b, const int *axes_a, const int *axes_b, int n)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "tensordot", 2, WF_INPUTS(a, b)))
        return c.failed;
    if (n < 0 || n > WEFT_MAX_RANK || (n > 0 && (!axes_a || !axes_b)))
        return wf_composite_fail(&c, WEFT_E_VALUE, "%d pairs of axes", n);
    char la[WEFT_MAX_RANK + 1] = "", lb[WEFT_MAX_RANK + 1] = "", rest[2 * WEFT_MAX_RANK + 1] = "", equation[64];
    int ra = weft_tensor_rank(a), rb = weft_tensor_rank(b), n_rest = 0;
    for (int i = 0; i < ra; i++)
        la[i] = (char)('a' + i);
    for (int i = 0; i < rb; i++)
        lb[i] = (char)('A' + i);
    for (int i = 0; i < n; i++) {
        int x, y;
        if (wf_axis("tensordot", ra, axes_a[i], &x) != WEFT_OK || wf_axis("tensordot", rb, axes_b[i], &y) != WEFT_OK)
            return wf_composite_end(&c, wf_tensor_error_last(c.ctx, WEFT_E_SHAPE));
        int64_t na = weft_tensor_dim(a, x), nb = weft_tensor_dim(b, y);
        if (la[x] < 'a' || lb[y] < 'A' || lb[y] > 'Z')
            return wf_composite_fail(&c, WEFT_E_SHAPE, "axis %d of a or %d of b is named twice", x, y);
        if (na != nb && na != 1 && nb != 1)
            return wf_composite_fail(&c, WEFT_E_SHAPE, "axis %d of a has %lld elements, axis %d of b %lld", x, (long long)na, y, (long long)nb);
        la[x] = (char)('P' + i); /* a pair's own letter; 'A' .. 'H' are b's */
        lb[y] = (char)('P' + i + 32);
    }
    for (int i = 0; i < ra; i++)
        if (la[i] >= 'a')
            rest[n_rest++] = la[i];
    for (int i = 0; i < rb; i++) {
        if (lb[i] >= 'a')
            lb[i] = (char)(lb[i] - 32);
        else
            rest[n_rest++] = lb[i];
    }
    snprintf(equation, sizeof equation, "%s,%s->%s", la, lb, rest);
    return wf_composite_end(&c, wf_einsum("tensordot", equation, (weft_tensor *[]){a, b}, 2));
}

weft_tensor *wf_identity(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape)
{
    weft_tensor *row = weft_arange(ctx, WEFT_DTYPE_I32, shape[rank - 2], 0, 1), *col = weft_arange(ctx, WEFT_DTYPE_I32, shape[rank - 1], 0, 1);
    return weft_contiguous(weft_expand(weft_cast(weft_eq(weft_unsqueeze(row, 1), col), dtype), rank, shape));
}

weft_tensor *weft_matrix_power(weft_tensor *x, int64_t n)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "matrix_power", 1, WF_INPUTS(x)))
        return c.failed;
    int rank = weft_tensor_rank(x);
    if (rank < 2 || weft_tensor_dim(x, -1) != weft_tensor_dim(x, -2)) {
        char tx[200];
        wf_view_format(&x->view, tx, sizeof tx);
        return wf_composite_fail(&c, WEFT_E_SHAPE, "input is %s, expected [.., N, N]", tx);
    }
    if (n < 0) {
        x = weft_inv(x);
        n = n == INT64_MIN ? INT64_MAX : -n;
    }
    weft_dtype dtype = weft_tensor_dtype(x);
    if (dtype == WEFT_DTYPE_F16 || dtype == WEFT_DTYPE_BF16)
        x = weft_cast(x, WEFT_DTYPE_F32); /* rounded once, not at each product */
    weft_tensor *power = NULL;
    for (uint64_t left = (uint64_t)n; left; left >>= 1) {
        if (left & 1)
            power = power ? wf_product(power, x) : x;
        if (left > 1)
            x = wf_product(x, x);
    }
    return wf_composite_end(&c, power ? weft_cast(power, dtype) : wf_identity(c.ctx, dtype, rank, weft_tensor_shape(x)));
}

weft_tensor *weft_cross(weft_tensor *a, weft_tensor *b, int axis)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "cross", 2, WF_INPUTS(a, b)))
        return c.failed;
    wf_view v;
    weft_status st = wf_view_broadcast_shape("cross", &a->view, &b->view, &v);
    if (st == WEFT_OK)
        st = wf_axis("cross", v.rank, axis, &axis);
    if (st != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, st));
    if (v.shape[axis] != 3)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "axis %d has %lld elements, expected 3", axis, (long long)v.shape[axis]);
    weft_tensor *x[3], *y[3], *z[3];
    a = weft_expand(a, v.rank, v.shape);
    b = weft_expand(b, v.rank, v.shape);
    for (int i = 0; i < 3; i++) {
        x[i] = weft_slice(a, axis, i, i + 1, 1);
        y[i] = weft_slice(b, axis, i, i + 1, 1);
    }
    for (int i = 0; i < 3; i++)
        z[i] = weft_sub(weft_mul(x[(i + 1) % 3], y[(i + 2) % 3]), weft_mul(x[(i + 2) % 3], y[(i + 1) % 3]));
    return wf_composite_end(&c, weft_cat(z, 3, axis));
}
