/* compose_networks_classes.c - cross entropy and negative log-likelihood over classes.
 *
 * Logits are [C] or [N, C, d1, ..]: the classes are axis 0 of a vector and axis 1 of everything else. Targets are
 * indices, of the shape without that axis, or probabilities, of the whole shape.
 */
#include <math.h>

#include "compose_networks.h"

typedef struct classes {
    weft_tensor *log_p;  /* logarithms of probabilities, wide */
    weft_tensor *target; /* i32 or i64 indices, or wide probabilities */
    weft_tensor *weight; /* [C] wide, or NULL */
    weft_dtype dtype;    /* of the result */
    int axis;
    int64_t C;
    bool soft;           /* targets are probabilities */
} classes;

/* The shape of x without an axis. */
static bool is_without(const weft_tensor *t, const weft_tensor *x, int axis)
{
    int rank = weft_tensor_rank(x);
    if (weft_tensor_rank(t) != rank - 1)
        return false;
    for (int k = 0, j = 0; k < rank; k++)
        if (k != axis && weft_tensor_shape(t)[j++] != weft_tensor_shape(x)[k])
            return false;
    return true;
}

/* The error tensor, or NULL. */
static weft_tensor *check(wf_composite *c, weft_tensor *input, weft_tensor *target, weft_tensor *weight, bool may_be_soft, classes *k)
{
    char a[200], b[200];
    if (!wf_is_float(input))
        return wf_composite_fail(c, WEFT_E_DTYPE, "input is %s, expected a float dtype", weft_dtype_name(weft_tensor_dtype(input)));
    if (weft_tensor_rank(input) < 1)
        return wf_composite_fail(c, WEFT_E_SHAPE, "input has rank 0, expected [C] or [N, C, ..]");
    k->axis = weft_tensor_rank(input) == 1 ? 0 : 1;
    k->C = weft_tensor_shape(input)[k->axis];
    k->dtype = weft_tensor_dtype(input);
    k->soft = may_be_soft && wf_is_float(target) && wf_same_extents(input, target);
    if (!k->soft && !weft_dtype_is_integer(weft_tensor_dtype(target)))
        return wf_composite_fail(c, WEFT_E_DTYPE, "target is %s %s, expected class indices%s", weft_dtype_name(weft_tensor_dtype(target)),
                                 wf_shape_text(target, b), may_be_soft ? ", or probabilities of the shape of input" : "");
    if (!k->soft && !is_without(target, input, k->axis))
        return wf_composite_fail(c, WEFT_E_SHAPE, "target is %s, expected input %s without axis %d", wf_shape_text(target, b),
                                 wf_shape_text(input, a), k->axis);
    if (weight && !wf_is_float(weight))
        return wf_composite_fail(c, WEFT_E_DTYPE, "weight is %s, expected a float dtype", weft_dtype_name(weft_tensor_dtype(weight)));
    if (weight && (weft_tensor_rank(weight) != 1 || weft_tensor_shape(weight)[0] != k->C))
        return wf_composite_fail(c, WEFT_E_SHAPE, "weight is %s, expected [%lld], one for each class", wf_shape_text(weight, b), (long long)k->C);
    weft_dtype wide = k->dtype == WEFT_DTYPE_F64 ? WEFT_DTYPE_F64 : WEFT_DTYPE_F32;
    k->log_p = weft_cast(input, wide);
    bool long_index = weft_tensor_dtype(target) == WEFT_DTYPE_I64 || weft_tensor_dtype(target) == WEFT_DTYPE_U32;
    k->target = weft_cast(target, k->soft ? wide : long_index ? WEFT_DTYPE_I64 : WEFT_DTYPE_I32);
    k->weight = weight ? weft_cast(weight, wide) : NULL;
    return NULL;
}

/* The weights [C] beside the logits. */
static weft_tensor *beside(const classes *k)
{
    int64_t shape[WEFT_MAX_RANK] = {k->C, 1, 1, 1, 1, 1, 1, 1};
    return weft_reshape(k->weight, weft_tensor_rank(k->log_p) - k->axis, shape);
}

static weft_tensor *soft_loss(const classes *k, double smoothing, weft_reduction reduction)
{
    weft_tensor *p = k->target;
    if (smoothing > 0)
        p = wf_plus(wf_times(p, 1 - smoothing), smoothing / (double)k->C);
    weft_tensor *terms = weft_mul(weft_neg(k->log_p), p);
    if (k->weight)
        terms = weft_mul(terms, beside(k));
    if (reduction == WEFT_REDUCTION_NONE)
        return weft_sum(terms, &k->axis, 1, false);
    weft_tensor *sum = weft_sum(terms, NULL, 0, false);
    int64_t rows = k->C > 0 ? weft_tensor_numel(k->log_p) / k->C : 0;
    return reduction == WEFT_REDUCTION_SUM ? sum : weft_div(sum, wf_number(sum, (double)rows));
}

static weft_tensor *index_loss(const char *who, const classes *k, int64_t ignore_index, double smoothing, weft_reduction reduction)
{
    weft_ctx *ctx = weft_tensor_ctx(k->target);
    weft_dtype dtype = weft_tensor_dtype(k->target); /* i32, or i64, whose values must not wrap into the range */
    bool can_match = dtype == WEFT_DTYPE_I64 || (ignore_index >= INT32_MIN && ignore_index <= INT32_MAX);
    weft_tensor *zero = weft_full(ctx, dtype, 0, NULL, 0);
    weft_tensor *ignored = weft_full(ctx, dtype, 0, NULL, can_match ? (double)ignore_index : 0);
    weft_tensor *live = can_match ? weft_ne(k->target, ignored) : weft_eq(zero, zero);
    /* An index below 0 must not count from the end. Picking from 0, 1, .. is the check, and no memory. */
    weft_tensor *classes = weft_arange(ctx, WEFT_DTYPE_I32, k->C, 0, 1);
    weft_tensor *safe = wf_select_strict(who, classes, weft_where(live, k->target, zero));

    weft_tensor *nothing = wf_number(k->log_p, 0), *w = NULL;
    weft_tensor *picked = weft_squeeze(weft_gather(k->log_p, k->axis, weft_unsqueeze(safe, k->axis)), k->axis);
    weft_tensor *loss = weft_neg(picked);
    if (k->weight) {
        w = weft_where(live, weft_index_select(k->weight, 0, safe), nothing);
        loss = weft_mul(loss, w);
    } else {
        w = weft_where(live, wf_number(k->log_p, 1), nothing);
    }
    loss = weft_where(live, loss, nothing);
    if (smoothing > 0) {
        weft_tensor *all = weft_neg(k->log_p);
        all = weft_sum(k->weight ? weft_mul(all, beside(k)) : all, &k->axis, 1, false);
        all = weft_where(live, all, nothing);
        loss = weft_add(wf_times(loss, 1 - smoothing), wf_times(all, smoothing / (double)k->C));
    }
    if (reduction == WEFT_REDUCTION_NONE)
        return loss;
    weft_tensor *sum = weft_sum(loss, NULL, 0, false);
    if (reduction == WEFT_REDUCTION_SUM)
        return sum;
    weft_tensor *all_w = weft_expand(w, weft_tensor_rank(loss), weft_tensor_shape(loss));
    return weft_div(sum, weft_sum(all_w, NULL, 0, false));
}

static weft_tensor *class_loss(const char *who, weft_tensor *input, weft_tensor *target, const weft_class_loss_opts *opts, bool is_log)
{
    static const weft_class_loss_opts none = {.ignore_index = -100};
    const weft_class_loss_opts *o = opts ? opts : &none;
    wf_composite c;
    classes k;
    weft_tensor *fail;
    if (!wf_composite_begin(&c, who, 2, WF_INPUTS(input, target, o->weight)))
        return c.failed;
    if (o->reduction < WEFT_REDUCTION_MEAN || o->reduction > WEFT_REDUCTION_NONE)
        return wf_composite_fail(&c, WEFT_E_VALUE, "no reduction of number %d", (int)o->reduction);
    if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1))
        return wf_composite_fail(&c, WEFT_E_VALUE, "label_smoothing is %g, outside 0 .. 1", o->label_smoothing);
    if ((fail = check(&c, input, target, o->weight, !is_log, &k)))
        return fail;
    if (!is_log)
        k.log_p = weft_log_softmax(k.log_p, k.axis);
    weft_tensor *loss = k.soft ? soft_loss(&k, o->label_smoothing, o->reduction)
                               : index_loss(who, &k, o->ignore_index, o->label_smoothing, o->reduction);
    return wf_composite_end(&c, weft_cast(loss, k.dtype));
}

weft_tensor *weft_cross_entropy(weft_tensor *input, weft_tensor *target, const weft_class_loss_opts *opts)
{
    return class_loss("cross_entropy", input, target, opts, false);
}

weft_tensor *weft_nll_loss(weft_tensor *input, weft_tensor *target, const weft_class_loss_opts *opts)
{
    return class_loss("nll_loss", input, target, opts, true);
}
