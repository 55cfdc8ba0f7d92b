/* compose_networks_losses.c - losses: element by element, then reduced. */
#include <math.h>

#include "compose_networks.h"
#include "weft/ops_pointwise.h"

/* ---- shared ---- */

weft_tensor *wf_softplus(weft_tensor *x)
{
    return weft_add(weft_relu(x), weft_log1p(weft_exp(weft_neg(weft_abs(x)))));
}

weft_tensor *wf_p_norm(weft_tensor *x, double p, int axis, bool keepdim)
{
    weft_tensor *size = weft_abs(x);
    if (p == 0)
        return weft_sum(weft_cast(weft_ne(x, wf_number(x, 0)), weft_tensor_dtype(x)), &axis, 1, keepdim);
    if (p == 1)
        return weft_sum(size, &axis, 1, keepdim);
    if (p == 2)
        return weft_sqrt(weft_sum(wf_square(x), &axis, 1, keepdim));
    if (isinf(p))
        return weft_tensor_dim(x, axis) == 0 ? weft_sum(size, &axis, 1, keepdim) : weft_max(size, &axis, 1, keepdim);
    return weft_pow(weft_sum(weft_pow(size, wf_number(x, p)), &axis, 1, keepdim), wf_number(x, 1 / p));
}

/* The dtype of a loss: that of the input if it is a float, else f32. */
static weft_dtype loss_dtype(const weft_tensor *a, const weft_tensor *b)
{
    weft_dtype da = weft_tensor_dtype(a), db = weft_tensor_dtype(b), both;
    if (da > WEFT_DTYPE_F64)
        return db > WEFT_DTYPE_F64 ? WEFT_DTYPE_F32 : db;
    return db > WEFT_DTYPE_F64 || weft_dtype_promote(da, db, &both) != WEFT_OK ? da : both;
}

static weft_tensor *reduced(weft_tensor *loss, weft_reduction reduction)
{
    switch (reduction) {
    case WEFT_REDUCTION_MEAN: return weft_mean(loss, NULL, 0, false);
    case WEFT_REDUCTION_SUM: return weft_sum(loss, NULL, 0, false);
    case WEFT_REDUCTION_BATCHMEAN: {
        weft_tensor *sum = weft_sum(loss, NULL, 0, false);
        return weft_tensor_rank(loss) ? wf_times(sum, 1.0 / (double)weft_tensor_shape(loss)[0]) : sum;
    }
    default: return loss;
    }
}

static bool known(weft_reduction r, bool batch) { return r == WEFT_REDUCTION_BATCHMEAN ? batch : r >= WEFT_REDUCTION_MEAN && r <= WEFT_REDUCTION_NONE; }

/* Begins a loss of two to four tensors, the first two of which are required; widens them in place. With `alike` the
 * first two have one shape. The result dtype is *dtype. */
static bool begin(wf_composite *c, const char *who, weft_reduction reduction, bool alike, int n, weft_tensor **t, int n_required, weft_dtype *dtype)
{
    char a[200], b[200];
    if (!wf_composite_begin(c, who, n_required, n, t))
        return false;
    if (!known(reduction, strcmp(who, "kl_div") == 0)) {
        c->failed = wf_composite_fail(c, WEFT_E_VALUE, "no reduction of number %d", (int)reduction);
        return false;
    }
    for (int i = 0; i < n; i++)
        if (t[i] && wf_require_plain(who, t[i]) != WEFT_OK) {
            c->failed = wf_composite_end(c, wf_tensor_error_last(c->ctx, WEFT_E_DTYPE));
            return false;
        }
    if (alike && !wf_same_extents(t[0], t[1])) {
        c->failed = wf_composite_fail(c, WEFT_E_SHAPE, "target is %s, input is %s", wf_shape_text(t[1], b), wf_shape_text(t[0], a));
        return false;
    }
    *dtype = loss_dtype(t[0], t[1]);
    bool f64 = *dtype == WEFT_DTYPE_F64;
    for (int i = 0; i < n; i++)
        if (t[i])
            t[i] = weft_cast(t[i], f64 ? WEFT_DTYPE_F64 : WEFT_DTYPE_F32);
    return true;
}

static weft_tensor *end(wf_composite *c, weft_tensor *loss, weft_reduction reduction, weft_dtype dtype)
{
    return wf_composite_end(c, weft_cast(reduced(loss, reduction), dtype));
}

/* ---- distances ---- */

weft_tensor *weft_mse_loss(weft_tensor *input, weft_tensor *target, weft_tensor *weight, weft_reduction reduction)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[3] = {input, target, weight};
    if (!begin(&c, "mse_loss", reduction, false, 3, t, 2, &dtype))
        return c.failed;
    weft_tensor *loss = wf_square(weft_sub(t[0], t[1]));
    if (t[2] && reduction == WEFT_REDUCTION_MEAN) {
        weft_tensor *sum = weft_sum(weft_mul(loss, t[2]), NULL, 0, false);
        weft_tensor *all = weft_expand(t[2], weft_tensor_rank(loss), weft_tensor_shape(loss));
        return wf_composite_end(&c, weft_cast(weft_div(sum, weft_sum(all, NULL, 0, false)), dtype));
    }
    return end(&c, t[2] ? weft_mul(loss, t[2]) : loss, reduction, dtype);
}

weft_tensor *weft_l1_loss(weft_tensor *input, weft_tensor *target, weft_reduction reduction)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[2] = {input, target};
    if (!begin(&c, "l1_loss", reduction, false, 2, t, 2, &dtype))
        return c.failed;
    return end(&c, weft_abs(weft_sub(t[0], t[1])), reduction, dtype);
}

weft_tensor *weft_smooth_l1_loss(weft_tensor *input, weft_tensor *target, weft_reduction reduction, double beta)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[2] = {input, target};
    if (!begin(&c, "smooth_l1_loss", reduction, false, 2, t, 2, &dtype))
        return c.failed;
    if (!(beta >= 0))
        return wf_composite_fail(&c, WEFT_E_VALUE, "beta is %g, expected at least 0", beta);
    weft_tensor *d = weft_abs(weft_sub(t[0], t[1]));
    if (beta == 0)
        return end(&c, d, reduction, dtype);
    weft_tensor *near = wf_times(wf_square(d), 0.5 / beta);
    return end(&c, weft_where(weft_lt(d, wf_number(d, beta)), near, wf_plus(d, -0.5 * beta)), reduction, dtype);
}

weft_tensor *weft_huber_loss(weft_tensor *input, weft_tensor *target, weft_reduction reduction, double delta)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[2] = {input, target};
    if (!begin(&c, "huber_loss", reduction, false, 2, t, 2, &dtype))
        return c.failed;
    if (!(delta > 0))
        return wf_composite_fail(&c, WEFT_E_VALUE, "delta is %g, expected more than 0", delta);
    weft_tensor *d = weft_abs(weft_sub(t[0], t[1]));
    weft_tensor *far = wf_times(wf_plus(d, -0.5 * delta), delta);
    return end(&c, weft_where(weft_le(d, wf_number(d, delta)), wf_times(wf_square(d), 0.5), far), reduction, dtype);
}

/* ---- probabilities ---- */

weft_tensor *weft_binary_cross_entropy(weft_tensor *input, weft_tensor *target, weft_tensor *weight, weft_reduction reduction)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[3] = {input, target, weight};
    if (!begin(&c, "binary_cross_entropy", reduction, true, 3, t, 2, &dtype))
        return c.failed;
    weft_tensor *p = t[0], *y = t[1], *low = wf_number(p, -100); /* so that no log is -inf */
    weft_tensor *yes = weft_maximum(weft_log(p), low), *no = weft_maximum(weft_log1p(weft_neg(p)), low);
    /* (y - 1) no - y yes */
    weft_tensor *loss = weft_sub(weft_mul(wf_plus(y, -1), no), weft_mul(y, yes));
    return end(&c, t[2] ? weft_mul(loss, t[2]) : loss, reduction, dtype);
}

weft_tensor *weft_binary_cross_entropy_with_logits(weft_tensor *input, weft_tensor *target, weft_tensor *weight,
                                                   weft_tensor *pos_weight, weft_reduction reduction)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[4] = {input, target, weight, pos_weight};
    if (!begin(&c, "binary_cross_entropy_with_logits", reduction, true, 4, t, 2, &dtype))
        return c.failed;
    weft_tensor *x = t[0], *y = t[1];
    /* -log sigmoid(x) = softplus(-x); with a weight w of the positives (1 - y) x + (1 + (w - 1) y) softplus(-x) */
    weft_tensor *soft = wf_softplus(weft_neg(x)), *rest = weft_mul(wf_plus(weft_neg(y), 1), x);
    if (t[3])
        soft = weft_mul(soft, wf_plus(weft_mul(wf_plus(t[3], -1), y), 1));
    weft_tensor *loss = weft_add(rest, soft);
    return end(&c, t[2] ? weft_mul(loss, t[2]) : loss, reduction, dtype);
}

/* y log y, 0 at 0. */
static weft_tensor *entropy_term(weft_tensor *y)
{
    weft_tensor *zero = wf_number(y, 0), *is_zero = weft_eq(y, zero);
    return weft_where(is_zero, zero, weft_mul(y, weft_log(y)));
}

weft_tensor *weft_kl_div(weft_tensor *input, weft_tensor *target, weft_reduction reduction, bool log_target)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[2] = {input, target};
    if (!begin(&c, "kl_div", reduction, false, 2, t, 2, &dtype))
        return c.failed;
    weft_tensor *loss;
    if (log_target)
        loss = weft_mul(weft_exp(t[1]), weft_sub(t[1], t[0]));
    else
        loss = weft_sub(entropy_term(t[1]), weft_mul(t[1], t[0]));
    return end(&c, loss, reduction, dtype);
}

weft_tensor *weft_poisson_nll_loss(weft_tensor *input, weft_tensor *target, bool log_input, bool full, double eps, weft_reduction reduction)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[2] = {input, target};
    if (!begin(&c, "poisson_nll_loss", reduction, false, 2, t, 2, &dtype))
        return c.failed;
    weft_tensor *x = t[0], *y = t[1];
    weft_tensor *loss = log_input ? weft_sub(weft_exp(x), weft_mul(y, x)) : weft_sub(x, weft_mul(y, weft_log(wf_plus(x, eps))));
    if (full) { /* Stirling's log y! where y is above 1 */
        weft_tensor *log_y = weft_log(y), *half = wf_times(weft_log(wf_times(y, 2 * 3.14159265358979323846)), 0.5);
        weft_tensor *stirling = weft_add(weft_sub(weft_mul(y, log_y), y), half);
        loss = weft_add(loss, weft_where(weft_gt(y, wf_number(y, 1)), stirling, wf_number(y, 0)));
    }
    return end(&c, loss, reduction, dtype);
}

weft_tensor *weft_gaussian_nll_loss(weft_tensor *input, weft_tensor *target, weft_tensor *var, bool full, double eps, weft_reduction reduction)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[3] = {input, target, var};
    if (!begin(&c, "gaussian_nll_loss", reduction, false, 3, t, 3, &dtype))
        return c.failed;
    if (!(eps > 0))
        return wf_composite_fail(&c, WEFT_E_VALUE, "eps is %g, expected more than 0", eps);
    /* One variance for each row: a missing last axis is one of extent 1. */
    int rank = weft_tensor_rank(t[2]);
    if (rank > 0 && rank == weft_tensor_rank(t[0]) - 1 &&
        memcmp(weft_tensor_shape(t[2]), weft_tensor_shape(t[0]), (size_t)rank * sizeof(int64_t)) == 0)
        t[2] = weft_unsqueeze(t[2], -1);
    weft_tensor *v = weft_maximum(t[2], wf_number(t[2], eps));
    weft_tensor *loss = wf_times(weft_add(weft_log(v), weft_div(wf_square(weft_sub(t[0], t[1])), v)), 0.5);
    return end(&c, full ? wf_plus(loss, 0.91893853320467274178) : loss, reduction, dtype); /* log(2 pi) / 2 */
}

/* ---- margins ---- */

weft_tensor *weft_margin_ranking_loss(weft_tensor *input1, weft_tensor *input2, weft_tensor *target, double margin, weft_reduction reduction)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[3] = {input1, input2, target};
    if (!begin(&c, "margin_ranking_loss", reduction, false, 3, t, 3, &dtype))
        return c.failed;
    return end(&c, weft_relu(wf_plus(weft_mul(t[2], weft_sub(t[1], t[0])), margin)), reduction, dtype);
}

weft_tensor *weft_hinge_embedding_loss(weft_tensor *input, weft_tensor *target, double margin, weft_reduction reduction)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[2] = {input, target};
    if (!begin(&c, "hinge_embedding_loss", reduction, false, 2, t, 2, &dtype))
        return c.failed;
    weft_tensor *x = t[0], *y = t[1], *zero = wf_number(x, 0);
    weft_tensor *far = weft_relu(wf_plus(weft_neg(x), margin));
    weft_tensor *loss = weft_add(weft_where(weft_ne(y, wf_number(y, 1)), far, zero), weft_where(weft_ne(y, wf_number(y, -1)), x, zero));
    return end(&c, loss, reduction, dtype);
}

weft_tensor *weft_soft_margin_loss(weft_tensor *input, weft_tensor *target, weft_reduction reduction)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[2] = {input, target};
    if (!begin(&c, "soft_margin_loss", reduction, false, 2, t, 2, &dtype))
        return c.failed;
    return end(&c, wf_softplus(weft_neg(weft_mul(t[1], t[0]))), reduction, dtype);
}

weft_tensor *weft_cosine_embedding_loss(weft_tensor *input1, weft_tensor *input2, weft_tensor *target, double margin, weft_reduction reduction)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[3] = {input1, input2, target};
    if (!begin(&c, "cosine_embedding_loss", reduction, false, 3, t, 3, &dtype))
        return c.failed;
    int rank = weft_tensor_rank(t[2]), last = -1;
    if (rank > 1 || weft_tensor_rank(t[0]) != rank + 1 || weft_tensor_rank(t[1]) != rank + 1)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "inputs of rank %d and %d and target of rank %d, expected [N, D] and [N], or [D] and []",
                                 weft_tensor_rank(t[0]), weft_tensor_rank(t[1]), rank);
    weft_tensor *dot = weft_sum(weft_mul(t[0], t[1]), &last, 1, false);
    weft_tensor *n1 = wf_plus(weft_sum(wf_square(t[0]), &last, 1, false), 1e-12);
    weft_tensor *n2 = wf_plus(weft_sum(wf_square(t[1]), &last, 1, false), 1e-12);
    weft_tensor *cosine = weft_div(dot, weft_sqrt(weft_mul(n1, n2))), *y = t[2], *zero = wf_number(cosine, 0);
    weft_tensor *apart = weft_where(weft_eq(y, wf_number(y, -1)), weft_relu(wf_plus(cosine, -margin)), zero);
    weft_tensor *loss = weft_where(weft_eq(y, wf_number(y, 1)), wf_plus(weft_neg(cosine), 1), apart);
    return end(&c, loss, reduction, dtype);
}

weft_tensor *weft_triplet_margin_loss(weft_tensor *anchor, weft_tensor *positive, weft_tensor *negative,
                                      const weft_triplet_opts *opts, weft_reduction reduction)
{
    wf_composite c;
    weft_dtype dtype;
    weft_tensor *t[3] = {anchor, positive, negative};
    weft_triplet_opts o = opts ? *opts : (weft_triplet_opts){.margin = 1, .p = 2, .eps = 1e-6};
    if (!begin(&c, "triplet_margin_loss", reduction, false, 3, t, 3, &dtype))
        return c.failed;
    weft_tensor *near = weft_pairwise_distance(t[0], t[1], o.p, o.eps, false);
    weft_tensor *far = weft_pairwise_distance(t[0], t[2], o.p, o.eps, false);
    if (o.swap)
        far = weft_minimum(far, weft_pairwise_distance(t[1], t[2], o.p, o.eps, false));
    return end(&c, weft_relu(wf_plus(weft_sub(near, far), o.margin)), reduction, dtype);
}
