/* compose_convolution_resample.c - interpolation, axis by axis: elements picked by index tables that the host makes, times
 * weights that it makes too.
 */
#include "compose_convolution.h"

#include <math.h>

enum { TAPS = 4 };

typedef struct axis_map {
    int64_t n, out;
    double scale; /* input elements an output element */
    weft_interpolation mode;
    bool align;
} axis_map;

/* ---- where an output element comes from ---- */

static double source(const axis_map *m, int64_t o)
{
    if (m->align)
        return m->out > 1 ? (double)o * (double)(m->n - 1) / (double)(m->out - 1) : 0;
    return ((double)o + 0.5) * m->scale - 0.5;
}

/* Elements and weights of output element o; the count of them. */
static int taps(const axis_map *m, int64_t o, int64_t *at, double *weight)
{
    if (m->mode == WEFT_NEAREST || m->mode == WEFT_NEAREST_EXACT) {
        float scale = (float)m->scale; /* PyTorch's arithmetic, to pick the same element */
        float s = m->mode == WEFT_NEAREST ? floorf((float)o * scale) : floorf(((float)o + 0.5f) * scale);
        at[0] = s >= (float)m->n ? m->n - 1 : WF_MIN((int64_t)s, m->n - 1);
        return 1;
    }
    double s = source(m, o);
    if (m->mode == WEFT_LINEAR) {
        s = s < 0 ? 0 : s;
        int64_t i = WF_MIN((int64_t)s, m->n - 1);
        at[0] = i;
        at[1] = WF_MIN(i + 1, m->n - 1);
        weight[1] = WF_MIN(s - (double)i, 1);
        weight[0] = 1 - weight[1];
        return 2;
    }
    /* Keys 1981, Cubic convolution interpolation for digital image processing, eq. 4, a = -3/4. */
    const double a = -0.75;
    double t = s - floor(s);
    for (int k = 0; k < TAPS; k++) {
        int64_t i = (int64_t)floor(s) + k - 1;
        double d = fabs(t - (k - 1));
        at[k] = i < 0 ? 0 : WF_MIN(i, m->n - 1);
        weight[k] = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    }
    return TAPS;
}

/* ---- one axis ---- */

static weft_tensor *along(weft_tensor *t, int64_t n, int axis, int rank)
{
    int64_t shape[WEFT_MAX_RANK];
    for (int d = 0; d < rank; d++)
        shape[d] = d == axis ? n : 1;
    return weft_reshape(t, rank, shape);
}

static weft_tensor *resample_axis(weft_tensor *x, int axis, const axis_map *m)
{
    weft_ctx *ctx = x->ctx;
    weft_dtype dtype = weft_tensor_dtype(x);
    int64_t n = m->out, at[TAPS];
    double weight[TAPS] = {1};
    int k = n > 0 ? taps(m, 0, at, weight) : 1;
    if (x->status != WEFT_OK || (k == 1 && m->n == n && m->mode == WEFT_NEAREST && m->scale == 1))
        return x;
    int32_t *index = wf_calloc((size_t)n + 1, sizeof *index * (size_t)k);
    double *weights = wf_calloc((size_t)n + 1, sizeof *weights * (size_t)k);
    weft_tensor *sum = index && weights ? NULL : wf_tensor_error_last(ctx, WEFT_E_OOM);
    for (int64_t o = 0; !sum && o < n; o++) {
        taps(m, o, at, weight);
        for (int j = 0; j < k; j++) {
            index[j * n + o] = (int32_t)at[j];
            weights[j * n + o] = weight[j];
        }
    }
    for (int j = 0; j < k && (!sum || sum->status == WEFT_OK); j++) {
        weft_tensor *picked = weft_index_select(x, axis, weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, &n, index + j * n));
        if (k > 1) {
            if (dtype == WEFT_DTYPE_F32)
                for (int64_t o = 0; o < n; o++) { /* in place: the f32 takes the first half of its f64 */
                    float w = (float)weights[j * n + o];
                    memcpy((char *)(weights + j * n) + 4 * o, &w, 4);
                }
            weft_tensor *w = weft_tensor_from(ctx, dtype, 1, &n, weights + j * n);
            picked = weft_mul(picked, along(w, n, axis, weft_tensor_rank(x)));
        }
        sum = sum ? weft_add(sum, picked) : picked;
    }
    wf_free(index);
    wf_free(weights);
    return sum;
}

/* ---- entry ---- */

static weft_status read_axes(weft_tensor *x, const weft_interpolate_opts *o, axis_map *maps, int nd)
{
    if ((unsigned)o->mode > WEFT_AREA)
        return wf_fail(WEFT_E_VALUE, "interpolate: mode is %d", (int)o->mode);
    if (o->mode == WEFT_CUBIC && nd != 2)
        return wf_fail(WEFT_E_SHAPE, "interpolate: bicubic takes two spatial axes, not %d", nd);
    if (o->align_corners && o->mode != WEFT_LINEAR && o->mode != WEFT_CUBIC)
        return wf_fail(WEFT_E_VALUE, "interpolate: align_corners with mode %d", (int)o->mode);
    for (int i = 0; i < nd; i++) {
        int64_t n = weft_tensor_dim(x, 2 + i);
        axis_map *m = &maps[i];
        *m = (axis_map){.n = n, .mode = o->mode, .align = o->align_corners};
        if (o->size) {
            m->out = o->size[i];
        } else if (!(o->scale[i] > 0) || !(o->scale[i] * (double)n < INT32_MAX)) {
            return wf_fail(WEFT_E_VALUE, "interpolate: scale_factor %g of axis %d with %lld elements", o->scale[i], i, (long long)n);
        } else {
            m->out = (int64_t)floor((double)n * o->scale[i]);
        }
        if (m->out < 1 || m->out > WF_TABLE_MAX || n < 1 || n > INT32_MAX)
            return wf_fail(WEFT_E_SHAPE, "interpolate: axis %d from %lld to %lld elements, at most %lld", i, (long long)n, (long long)m->out,
                           (long long)WF_TABLE_MAX);
        m->scale = o->size || o->recompute_scale ? (double)n / (double)m->out : 1 / o->scale[i];
        if (o->mode < WEFT_LINEAR) /* rounded as PyTorch rounds */
            m->scale = o->size || o->recompute_scale ? (float)n / (float)m->out : (float)(1 / o->scale[i]);
    }
    return WEFT_OK;
}

static weft_tensor *interpolate(weft_tensor *x, const weft_interpolate_opts *opts)
{
    static const weft_interpolate_opts none;
    const weft_interpolate_opts *o = opts ? opts : &none;
    axis_map maps[WF_SPATIAL] = {0};
    bool batched;
    int nd = weft_tensor_rank(x) - 2;
    if (nd < 1 || nd > WF_SPATIAL) {
        char text[200];
        wf_view_format(&x->view, text, sizeof text);
        return wf_tensor_error(x->ctx, WEFT_E_SHAPE, "interpolate: input is %s, expected rank 3 to 5", text);
    }
    x = wf_spatial_input("interpolate", x, nd, (unsigned)o->mode >= WEFT_LINEAR, &batched);
    if (x->status != WEFT_OK)
        return x;
    weft_status st = read_axes(x, o, maps, nd);
    if (st != WEFT_OK)
        return wf_tensor_error_last(x->ctx, st);
    if (o->mode == WEFT_AREA) {
        int64_t size[WF_SPATIAL] = {maps[0].out, maps[1].out, maps[2].out};
        return nd == 1 ? weft_adaptive_avg_pool1d(x, size) : nd == 2 ? weft_adaptive_avg_pool2d(x, size) : weft_adaptive_avg_pool3d(x, size);
    }
    weft_dtype dtype = weft_tensor_dtype(x);
    if (o->mode >= WEFT_LINEAR)
        x = wf_widened(x);
    for (int i = nd - 1; i >= 0; i--)
        x = resample_axis(x, 2 + i, &maps[i]);
    return weft_cast(x, dtype);
}

weft_tensor *weft_interpolate(weft_tensor *x, const weft_interpolate_opts *opts)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "interpolate", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, interpolate(x, opts));
}
