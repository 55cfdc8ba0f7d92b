/* compose_networks_norms.c - normalisations as composites over the row kernels and means. */
#include <math.h>

#include "compose_networks.h"

const char *wf_shape_text(const weft_tensor *t, char text[200])
{
    wf_view_format(&t->view, text, 200);
    return text;
}

/* ---- over trailing axes ---- */

/* The product of the last n extents, when they are those of dims. */
static bool trailing(const weft_tensor *x, int n, const int64_t *dims, int64_t *product)
{
    int rank = weft_tensor_rank(x);
    if (n < 1 || n > rank)
        return false;
    *product = 1;
    for (int k = 0; k < n; k++) {
        if (dims[k] != weft_tensor_shape(x)[rank - n + k])
            return false;
        *product *= dims[k]; /* no larger than the count of x, or 0 */
    }
    return true;
}

static bool has_extents(const weft_tensor *t, int n, const int64_t *dims)
{
    return weft_tensor_rank(t) == n && memcmp(weft_tensor_shape(t), dims, (size_t)n * sizeof *dims) == 0;
}

static weft_tensor *last_axes_joined(weft_tensor *x, int n, int64_t product)
{
    int64_t shape[WEFT_MAX_RANK];
    int rank = weft_tensor_rank(x) - n;
    memcpy(shape, weft_tensor_shape(x), sizeof shape);
    shape[rank] = product;
    return weft_reshape(x, rank + 1, shape);
}

/* x less its mean over the axes. The mean of the rest, which rounding left, is taken off too: a row of one value gives
 * zeros, however large the value and small the eps. */
static weft_tensor *centred(weft_tensor *x, const int *axes, int n)
{
    weft_tensor *off = weft_sub(x, weft_mean(x, axes, n, true));
    return weft_sub(off, weft_mean(off, axes, n, true));
}

/* Row kernels keep eps in f32; in f64 it would be the largest error. */
static weft_tensor *normalised_f64(weft_tensor *x, weft_tensor *weight, weft_tensor *bias, double eps, bool centre)
{
    int axis = -1;
    if (centre)
        x = centred(x, &axis, 1);
    weft_tensor *y = weft_div(x, weft_sqrt(wf_plus(weft_mean(wf_square(x), &axis, 1, true), eps)));
    if (weight)
        y = weft_mul(y, weight);
    return bias ? weft_add(y, bias) : y;
}

static weft_tensor *norm_over_shape(const char *who, weft_tensor *x, int n, const int64_t *dims, weft_tensor *weight,
                                    weft_tensor *bias, double eps, bool centre)
{
    wf_composite c;
    char text[200];
    int64_t product;
    if (!wf_composite_begin(&c, who, 1, WF_INPUTS(x, weight, bias)))
        return c.failed;
    if (n > 0 && !dims)
        return wf_composite_fail(&c, WEFT_E_VALUE, "normalized_shape is NULL");
    if (!wf_is_float(x))
        return wf_composite_fail(&c, WEFT_E_DTYPE, "input is %s, expected a float dtype", weft_dtype_name(weft_tensor_dtype(x)));
    if (!trailing(x, n, dims, &product))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "normalized_shape of %d axes, the last %lld, is not the end of input %s", n,
                                 n > 0 ? (long long)dims[n - 1] : 0LL, wf_shape_text(x, text));
    if (weight && !has_extents(weight, n, dims))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "weight is %s, expected normalized_shape", wf_shape_text(weight, text));
    if (bias && !has_extents(bias, n, dims))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "bias is %s, expected normalized_shape", wf_shape_text(bias, text));
    if (!(eps >= 0 && isfinite(eps)))
        return wf_composite_fail(&c, WEFT_E_VALUE, "eps is %g", eps);
    weft_tensor *flat = x;
    if (n > 1) {
        flat = last_axes_joined(x, n, product);
        weight = weight ? weft_reshape(weight, 1, &product) : NULL;
        bias = bias ? weft_reshape(bias, 1, &product) : NULL;
    }
    weft_tensor *y;
    if (weft_tensor_dtype(x) == WEFT_DTYPE_F64)
        y = normalised_f64(flat, weight ? weft_cast(weight, WEFT_DTYPE_F64) : NULL,
                           bias ? weft_cast(bias, WEFT_DTYPE_F64) : NULL, eps, centre);
    else if (centre)
        y = weft_layer_norm(flat, weight, bias, (float)eps, -1);
    else
        y = weft_rms_norm(flat, weight, (float)eps, -1);
    return wf_composite_end(&c, n > 1 ? weft_reshape(y, weft_tensor_rank(x), weft_tensor_shape(x)) : y);
}

weft_tensor *weft_layer_norm_shape(weft_tensor *x, int n, const int64_t *normalized_shape, weft_tensor *weight,
                                   weft_tensor *bias, double eps)
{
    return norm_over_shape("layer_norm", x, n, normalized_shape, weight, bias, eps, true);
}

weft_tensor *weft_rms_norm_shape(weft_tensor *x, int n, const int64_t *normalized_shape, weft_tensor *weight, double eps)
{
    return norm_over_shape("rms_norm", x, n, normalized_shape, weight, NULL, eps, false);
}

weft_tensor *weft_adaln(weft_tensor *x, weft_tensor *scale, weft_tensor *shift, double eps)
{
    wf_composite c;
    char text[200];
    if (!wf_composite_begin(&c, "adaln", 3, WF_INPUTS(x, scale, shift)))
        return c.failed;
    if (!wf_is_float(x) || !wf_is_float(scale) || !wf_is_float(shift))
        return wf_composite_fail(&c, WEFT_E_DTYPE, "input, scale and shift take float dtypes");
    if (weft_tensor_rank(x) < 1)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "input has rank 0, expected at least 1");
    if (!(eps >= 0 && isfinite(eps)))
        return wf_composite_fail(&c, WEFT_E_VALUE, "eps is %g", eps);
    weft_tensor *wide = wf_wide(x);
    int64_t C = weft_tensor_dim(x, -1);
    weft_tensor *y = weft_add(weft_mul(wf_plus(wf_wide(scale), 1), weft_layer_norm_shape(wide, 1, &C, NULL, NULL, eps)), wf_wide(shift));
    if (weft_tensor_status(y) == WEFT_OK && !wf_same_extents(y, x))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "scale and shift do not broadcast to input %s", wf_shape_text(x, text));
    return wf_composite_end(&c, weft_cast(y, weft_tensor_dtype(x)));
}

/* ---- over channels ---- */

/* A vector of C elements as [C, 1, ..] beside x [N, C, ..]. */
static weft_tensor *per_channel(const weft_tensor *x, weft_tensor *v)
{
    int64_t shape[WEFT_MAX_RANK] = {weft_tensor_shape(x)[1], 1, 1, 1, 1, 1, 1, 1};
    v = weft_tensor_dtype(x) == WEFT_DTYPE_F64 ? weft_cast(v, WEFT_DTYPE_F64) : wf_wide(v);
    return weft_reshape(v, weft_tensor_rank(x) - 1, shape);
}

static weft_tensor *affine(const weft_tensor *x, weft_tensor *y, weft_tensor *weight, weft_tensor *bias)
{
    if (weight)
        y = weft_mul(y, per_channel(x, weight));
    return bias ? weft_add(y, per_channel(x, bias)) : y;
}

/* x [N, C, ..] of a float dtype, vectors of C. The error tensor, or NULL. */
static weft_tensor *check_channels(wf_composite *c, const weft_tensor *x, int n, weft_tensor *const *vectors, const char *const *names,
                                   double eps)
{
    char text[200];
    if (!wf_is_float(x))
        return wf_composite_fail(c, WEFT_E_DTYPE, "input is %s, expected a float dtype", weft_dtype_name(weft_tensor_dtype(x)));
    if (weft_tensor_rank(x) < 2)
        return wf_composite_fail(c, WEFT_E_SHAPE, "input has rank %d, expected [N, C, ..]", weft_tensor_rank(x));
    int64_t C = weft_tensor_shape(x)[1];
    for (int i = 0; i < n; i++) {
        if (!vectors[i])
            continue;
        if (!wf_is_float(vectors[i]))
            return wf_composite_fail(c, WEFT_E_DTYPE, "%s is %s, expected a float dtype", names[i], weft_dtype_name(weft_tensor_dtype(vectors[i])));
        if (!has_extents(vectors[i], 1, &C))
            return wf_composite_fail(c, WEFT_E_SHAPE, "%s is %s, expected [%lld], the channels of input", names[i],
                                     wf_shape_text(vectors[i], text), (long long)C);
    }
    if (!(eps >= 0 && isfinite(eps)))
        return wf_composite_fail(c, WEFT_E_VALUE, "eps is %g", eps);
    return NULL;
}

static const char *const vector_names[] = {"weight", "bias", "running_mean", "running_var"};

/* [N, G, elements of a group] normalised along the last axis, in the shape of x. */
static weft_tensor *grouped(weft_tensor *x, int64_t groups, double eps)
{
    const int64_t *s = weft_tensor_shape(x);
    int64_t shape[3] = {s[0], groups, s[1] / groups};
    for (int k = 2; k < weft_tensor_rank(x); k++)
        shape[2] *= s[k];
    weft_tensor *y = weft_layer_norm_shape(weft_reshape(wf_wide(x), 3, shape), 1, &shape[2], NULL, NULL, eps);
    return weft_reshape(y, weft_tensor_rank(x), s);
}

weft_tensor *weft_group_norm(weft_tensor *x, int64_t num_groups, weft_tensor *weight, weft_tensor *bias, double eps)
{
    wf_composite c;
    weft_tensor *fail;
    if (!wf_composite_begin(&c, "group_norm", 1, WF_INPUTS(x, weight, bias)))
        return c.failed;
    if ((fail = check_channels(&c, x, 2, (weft_tensor *[]){weight, bias}, vector_names, eps)))
        return fail;
    if (num_groups < 1 || weft_tensor_shape(x)[1] % num_groups != 0)
        return wf_composite_fail(&c, WEFT_E_VALUE, "%lld channels do not divide into %lld groups",
                                 (long long)weft_tensor_shape(x)[1], (long long)num_groups);
    weft_tensor *y = affine(x, grouped(x, num_groups, eps), weight, bias);
    return wf_composite_end(&c, weft_cast(y, weft_tensor_dtype(x)));
}

/* (1 - momentum) running + momentum now, in the dtype of running. */
static weft_tensor *moved(weft_tensor *running, weft_tensor *now, double momentum)
{
    weft_tensor *next = weft_add(wf_times(wf_wide(running), 1 - momentum), wf_times(now, momentum));
    return weft_cast(next, weft_tensor_dtype(running));
}

typedef struct moments {
    weft_tensor *off;        /* x less the mean */
    weft_tensor *mean, *var; /* [C], population variance */
    int64_t count;           /* elements of x behind each */
} moments;

/* x [N, C, ..] over all axes but the channels; each_instance: over those after the channels, then averaged over N. */
static moments channel_moments(weft_tensor *x, bool each_instance)
{
    int axes[WEFT_MAX_RANK], n = 0, first = 0;
    moments m = {.count = 1};
    for (int k = 0; k < weft_tensor_rank(x); k++)
        if (k >= 2 || (k == 0 && !each_instance)) {
            axes[n++] = k;
            m.count *= weft_tensor_shape(x)[k];
        }
    weft_tensor *mean = n ? weft_mean(x, axes, n, true) : x;
    m.off = n ? centred(x, axes, n) : weft_sub(x, mean);
    weft_tensor *var = n ? weft_mean(wf_square(m.off), axes, n, true) : wf_square(m.off);
    int64_t shape[2] = {each_instance ? weft_tensor_shape(x)[0] : 1, weft_tensor_shape(x)[1]};
    m.mean = weft_mean(weft_reshape(mean, 2, shape), &first, 1, false);
    m.var = weft_mean(weft_reshape(var, 2, shape), &first, 1, false);
    return m;
}

static weft_tensor *scaled(weft_tensor *off, weft_tensor *var, double eps)
{
    return weft_div(off, weft_sqrt(wf_plus(per_channel(off, var), eps)));
}

/* Hands out the running moments after this batch; the variance is that of a sample. */
static void give_running(wf_composite *c, const weft_batch_norm_opts *o, const moments *m, weft_tensor **new_mean, weft_tensor **new_var)
{
    double unbiased = m->count > 1 ? (double)m->count / (double)(m->count - 1) : NAN;
    if (new_mean)
        *new_mean = wf_composite_give(c, moved(o->running_mean, m->mean, o->momentum));
    if (new_var)
        *new_var = wf_composite_give(c, moved(o->running_var, wf_times(m->var, unbiased), o->momentum));
}

static weft_tensor *channel_norm(const char *who, weft_tensor *x, const weft_batch_norm_opts *opts, bool each_instance,
                                 weft_tensor **new_mean, weft_tensor **new_var)
{
    static const weft_batch_norm_opts none;
    const weft_batch_norm_opts *o = opts ? opts : &none;
    wf_composite c;
    weft_tensor *fail;
    if (!wf_composite_begin(&c, who, 1, WF_INPUTS(x, o->weight, o->bias, o->running_mean, o->running_var)))
        return c.failed;
    if ((fail = check_channels(&c, x, 4, (weft_tensor *[]){o->weight, o->bias, o->running_mean, o->running_var}, vector_names, o->eps)))
        return fail;
    bool running = o->running_mean && o->running_var;
    if (!running && (!o->training || o->running_mean || o->running_var))
        return wf_composite_fail(&c, WEFT_E_VALUE, "running_mean and running_var are needed together%s",
                                 o->training ? "" : " unless the statistics are those of the input");
    weft_tensor *wide = wf_wide(x), *y;
    if (o->training) {
        moments m = channel_moments(wide, each_instance);
        if (m.count == 1 && weft_tensor_numel(x) > 0)
            return wf_composite_fail(&c, WEFT_E_VALUE, "one value a channel has no variance");
        y = each_instance ? grouped(x, WF_MAX(weft_tensor_shape(x)[1], 1), o->eps) : scaled(m.off, m.var, o->eps);
        if (running)
            give_running(&c, o, &m, new_mean, new_var);
    } else {
        y = scaled(weft_sub(wide, per_channel(wide, o->running_mean)), o->running_var, o->eps);
    }
    y = affine(x, y, o->weight, o->bias);
    return wf_composite_end(&c, weft_cast(y, weft_tensor_dtype(x)));
}

static weft_tensor *same_error(weft_tensor *t)
{
    return t->ctx ? wf_tensor_error(t->ctx, t->status, "%s", weft_tensor_message(t)) : t;
}

/* The further results: NULL where there are none, error tensors when the operation failed. */
static weft_tensor *norm_with_running(const char *who, weft_tensor *x, const weft_batch_norm_opts *o, bool each_instance,
                                      weft_tensor **new_mean, weft_tensor **new_var)
{
    weft_tensor *mean = NULL, *var = NULL, *y = channel_norm(who, x, o, each_instance, new_mean ? &mean : NULL, new_var ? &var : NULL);
    bool failed = weft_tensor_status(y) != WEFT_OK;
    if (new_mean)
        *new_mean = failed && !mean ? same_error(y) : mean;
    if (new_var)
        *new_var = failed && !var ? same_error(y) : var;
    return y;
}

weft_tensor *weft_batch_norm(weft_tensor *x, const weft_batch_norm_opts *opts, weft_tensor **new_mean, weft_tensor **new_var)
{
    return norm_with_running("batch_norm", x, opts, false, new_mean, new_var);
}

weft_tensor *weft_instance_norm(weft_tensor *x, const weft_batch_norm_opts *opts, weft_tensor **new_mean, weft_tensor **new_var)
{
    return norm_with_running("instance_norm", x, opts, true, new_mean, new_var);
}

/* ---- others ---- */

weft_tensor *weft_local_response_norm(weft_tensor *x, int64_t size, double alpha, double beta, double k)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "local_response_norm", 1, WF_INPUTS(x)))
        return c.failed;
    if (!wf_is_float(x))
        return wf_composite_fail(&c, WEFT_E_DTYPE, "input is %s, expected a float dtype", weft_dtype_name(weft_tensor_dtype(x)));
    if (weft_tensor_rank(x) < 3)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "input has rank %d, expected [N, C, ..] of rank at least 3", weft_tensor_rank(x));
    if (size < 1)
        return wf_composite_fail(&c, WEFT_E_VALUE, "size is %lld", (long long)size);
    if (weft_tensor_numel(x) == 0)
        return wf_composite_end(&c, x);
    /* Channel i sums the squares of channels i - size/2 .. i + (size-1)/2; those outside count as 0. */
    int64_t C = weft_tensor_shape(x)[1], low = WF_MIN(size / 2, C - 1), high = WF_MIN((size - 1) / 2, C - 1);
    int64_t shape[WEFT_MAX_RANK];
    memcpy(shape, weft_tensor_shape(x), sizeof shape);
    weft_tensor *wide = wf_wide(x), *parts[3] = {NULL, wf_square(wide), NULL};
    shape[1] = low;
    parts[0] = weft_zeros(c.ctx, weft_tensor_dtype(wide), weft_tensor_rank(x), shape);
    shape[1] = high;
    parts[2] = weft_zeros(c.ctx, weft_tensor_dtype(wide), weft_tensor_rank(x), shape);
    weft_tensor *padded = weft_cat(parts, 3, 1), *sum = NULL;
    for (int64_t i = 0; i <= low + high; i++) {
        weft_tensor *part = weft_slice(padded, 1, i, i + C, 1);
        sum = sum ? weft_add(sum, part) : part;
    }
    weft_tensor *denominator = weft_pow(wf_plus(wf_times(sum, alpha / (double)size), k), wf_number(wide, beta));
    return wf_composite_end(&c, weft_cast(weft_div(wide, denominator), weft_tensor_dtype(x)));
}

weft_tensor *weft_weight_norm(weft_tensor *v, weft_tensor *g, int axis)
{
    wf_composite c;
    char text[200];
    if (!wf_composite_begin(&c, "weight_norm", 2, WF_INPUTS(v, g)))
        return c.failed;
    if (!wf_is_float(v) || !wf_is_float(g))
        return wf_composite_fail(&c, WEFT_E_DTYPE, "v and g take float dtypes");
    int rank = weft_tensor_rank(v), axes[WEFT_MAX_RANK], n = 0;
    if (wf_axis(c.who, rank, axis, &axis) != WEFT_OK)
        return wf_composite_end(&c, wf_tensor_error_last(c.ctx, WEFT_E_SHAPE));
    int64_t shape[WEFT_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    shape[axis] = weft_tensor_shape(v)[axis];
    for (int k = 0; k < rank; k++)
        if (k != axis)
            axes[n++] = k;
    if (!has_extents(g, rank, shape) && !has_extents(g, 1, &shape[axis]))
        return wf_composite_fail(&c, WEFT_E_SHAPE, "g is %s, expected one element for each of %lld along axis %d",
                                 wf_shape_text(g, text), (long long)shape[axis], axis);
    weft_tensor *wide = wf_wide(v), *square = wf_square(wide);
    weft_tensor *norm = weft_sqrt(n ? weft_sum(square, axes, n, true) : square);
    weft_tensor *w = weft_mul(wide, weft_div(weft_reshape(wf_wide(g), rank, shape), norm));
    return wf_composite_end(&c, weft_cast(w, weft_tensor_dtype(v)));
}

weft_tensor *weft_softmin(weft_tensor *x, int axis)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "softmin", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, weft_softmax(weft_neg(x), axis));
}
