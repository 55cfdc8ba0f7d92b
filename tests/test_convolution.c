/* test_convolution.c - convolutions, windows, pooling and resampling against their definitions in double. */
#include <math.h>
#include <stdio.h>

#include "convolution_reference.h"
#include "scope_fixture.h"

static uint64_t seed = 1;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

#define EPS 5.9604644775390625e-08 /* 2^-24 */

static float *values(int64_t n)
{
    float *v = malloc((size_t)(n + 1) * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)((int32_t)draw(20001) - 10000) / 7919.0f;
    return v;
}

static weft_tensor *tensor(int rank, const int64_t *shape, const float *v)
{
    return weft_tensor_from(ctx, WEFT_DTYPE_F32, rank, shape, v);
}

/* t equals want, element by element within n eps m. */
static void expect(const char *what, weft_tensor *t, int64_t n, const double *want, const double *m, double factor)
{
    float *got = malloc((size_t)(n + 1) * 4);
    assert_non_null(got);
    if (weft_tensor_numel(t) != n)
        fail_msg("%s: %lld elements, expected %lld: %s", what, (long long)weft_tensor_numel(t), (long long)n, weft_tensor_message(t));
    if (weft_read_as(t, WEFT_DTYPE_F32, got, (size_t)n * 4) != WEFT_OK)
        fail_msg("%s: %s", what, weft_error_message());
    for (int64_t i = 0; i < n; i++) {
        double bound = factor * EPS * (m ? m[i] : fabs(want[i]));
        if (!(fabs(got[i] - want[i]) <= bound) && !(isnan(got[i]) && isnan(want[i])) && got[i] != want[i])
            fail_msg("%s: element %lld is %.9g, expected %.9g within %.3g", what, (long long)i, got[i], want[i], bound);
    }
    free(got);
}

static void shape_of(int64_t *shape, int64_t a, int64_t b, const int64_t *axes, int nd)
{
    shape[0] = a;
    shape[1] = b;
    memcpy(shape + 2, axes + 3 - nd, sizeof *shape * (size_t)nd);
}

/* Draws a convolution of nd axes; the leading axes are 1. */
static ref_conv draw_conv(int nd, bool depthwise, weft_conv_opts *o)
{
    ref_conv c = {.B = 1 + draw(3), .groups = depthwise ? 1 + draw(4) : 1 + draw(3)};
    c.C = c.groups * (depthwise ? 1 : 1 + draw(3));
    c.O = c.groups * (1 + draw(3));
    *o = (weft_conv_opts){.groups = c.groups};
    for (int i = 0; i < 3; i++) {
        bool used = i >= 3 - nd;
        c.size[i] = used ? 1 + draw(3) : 1;
        c.stride[i] = used ? 1 + draw(3) : 1;
        c.dilation[i] = used ? 1 + draw(2) : 1;
        c.low[i] = used ? draw(3) : 0;
        int64_t span = c.dilation[i] * (c.size[i] - 1) + 1;
        c.in[i] = used ? span + draw(7) : 1;
        c.out[i] = (c.in[i] + 2 * c.low[i] - span) / c.stride[i] + 1;
        if (used) {
            o->stride[i - (3 - nd)] = c.stride[i];
            o->dilation[i - (3 - nd)] = c.dilation[i];
            o->padding[i - (3 - nd)] = c.low[i];
        }
    }
    return c;
}

typedef weft_tensor *conv_fn(weft_tensor *, weft_tensor *, const weft_conv_opts *);
static conv_fn *const convs[] = {weft_conv1d, weft_conv2d, weft_conv3d};
static conv_fn *const transposed[] = {weft_conv_transpose1d, weft_conv_transpose2d, weft_conv_transpose3d};

static void run_conv(int nd, bool depthwise, bool back)
{
    weft_conv_opts o;
    ref_conv c = draw_conv(nd, depthwise, &o);
    if (back) { /* output_padding: what the forward rounding lost */
        for (int i = 0; i < 3; i++) {
            int64_t rest = c.in[i] + 2 * c.low[i] - c.dilation[i] * (c.size[i] - 1) - 1 - (c.out[i] - 1) * c.stride[i];
            if (i >= 3 - nd)
                o.output_padding[i - (3 - nd)] = rest;
        }
    }
    int64_t I = ref_count(c.in), P = ref_count(c.out), K = ref_count(c.size), nx = c.B * (back ? c.O * P : c.C * I), nw = c.O * (c.C / c.groups) * K;
    int64_t ny = c.B * (back ? c.C * I : c.O * P), shape[5], n_bias = back ? c.C : c.O;
    float *x = values(nx), *w = values(nw), *bias = values(n_bias);
    double *y = malloc((size_t)ny * 8), *m = malloc((size_t)ny * 8);
    bool with_bias = draw(2);
    (back ? ref_conv_backward : ref_conv_forward)(&c, x, w, with_bias ? bias : NULL, y, m);
    shape_of(shape, c.B, back ? c.O : c.C, back ? c.out : c.in, nd);
    weft_tensor *tx = tensor(2 + nd, shape, x);
    shape_of(shape, c.O, c.C / c.groups, c.size, nd);
    weft_tensor *tw = tensor(2 + nd, shape, w);
    o.bias = with_bias ? tensor(1, &n_bias, bias) : NULL;
    char what[200];
    snprintf(what, sizeof what, "%s%dd B %d C %d O %d groups %d in %d %d %d kernel %d %d %d stride %d %d %d", back ? "conv_transpose" : "conv", nd,
             (int)c.B, (int)c.C, (int)c.O, (int)c.groups, (int)c.in[0], (int)c.in[1], (int)c.in[2], (int)c.size[0], (int)c.size[1], (int)c.size[2],
             (int)c.stride[0], (int)c.stride[1], (int)c.stride[2]);
    expect(what, (back ? transposed[nd - 1] : convs[nd - 1])(tx, tw, &o), ny, y, m, (double)(c.C * K + 8));
    free(x), free(w), free(bias), free(y), free(m);
}

static int cases(void) { return getenv("WEFT_TEST_DEVICE") ? 4 : 25; }

static void convolutions_equal_their_definition(void **state)
{
    (void)state;
    for (int i = 0; i < cases(); i++)
        for (int nd = 1; nd <= 3; nd++)
            run_conv(nd, i % 3 == 0, false);
}

static void transposed_convolutions_equal_their_definition(void **state)
{
    (void)state;
    for (int i = 0; i < cases(); i++)
        for (int nd = 1; nd <= 3; nd++)
            run_conv(nd, i % 3 == 0, true);
}

/* The same tensor, behind a view of other strides: 1 turned around, 2 the last two axes the other way in memory. */
static weft_tensor *lying(weft_tensor *t, int how)
{
    if (how == 0)
        return t;
    int last[] = {-1, -2};
    weft_tensor *other = weft_contiguous(how == 1 ? weft_flip_axes(t, last, 2) : weft_transpose(t, -1, -2));
    assert_int_equal(weft_eval(&other, 1), WEFT_OK);
    return how == 1 ? weft_flip_axes(other, last, 2) : weft_transpose(other, -1, -2);
}

/* Enough rows and columns that the CPU's product reads windows and padding in place: one kernel, no copy. */
static void wide_convolutions_read_their_windows(void **state)
{
    (void)state;
    const bool on_cpu = !getenv("WEFT_TEST_DEVICE");
    for (int i = 0; i < 3 * cases(); i++) {
        const int nd = 1 + i % 3, how = nd == 1 ? 0 : i / 3 % 3;
        weft_conv_opts o;
        ref_conv c = draw_conv(nd, false, &o);
        c.O = c.groups * (4 + draw(i % 5 ? 9 : 300));
        c.in[2] += 8 + (i % 5 ? 0 : 60);
        c.out[2] = (c.in[2] + 2 * c.low[2] - c.dilation[2] * (c.size[2] - 1) - 1) / c.stride[2] + 1;
        int64_t I = ref_count(c.in), P = ref_count(c.out), K = ref_count(c.size), shape[5];
        int64_t nx = c.B * c.C * I, nw = c.O * (c.C / c.groups) * K, ny = c.B * c.O * P;
        float *x = values(nx), *w = values(nw);
        double *y = malloc((size_t)ny * 8), *m = malloc((size_t)ny * 8);
        ref_conv_forward(&c, x, w, NULL, y, m);
        shape_of(shape, c.B, c.C, c.in, nd);
        weft_tensor *tx = lying(tensor(2 + nd, shape, x), how);
        shape_of(shape, c.O, c.C / c.groups, c.size, nd);
        weft_tensor *t = convs[nd - 1](tx, tensor(2 + nd, shape, w), &o);
        weft_stats before, after;
        weft_ctx_stats(ctx, &before);
        char what[120];
        snprintf(what, sizeof what, "case %d: %dd, view %d, %d x %d places, stride %d", i, nd, how, (int)c.O, (int)P, (int)c.stride[2]);
        expect(what, t, ny, y, m, (double)(c.C * K + 8));
        weft_ctx_stats(ctx, &after);
        if (on_cpu && c.C > c.groups && K > 1 && P >= 8 && (after.copies != before.copies || after.dispatches != before.dispatches + 1))
            fail_msg("%s: %d copies, %d dispatches", what, (int)(after.copies - before.copies), (int)(after.dispatches - before.dispatches));
        free(x), free(w), free(y), free(m);
    }
}

static void windows_in_half_precision_are_widened_in_place(void **state)
{
    (void)state;
    const ref_conv c = {.B = 2, .groups = 1, .C = 5, .O = 7, .in = {1, 9, 11}, .size = {1, 3, 2}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .low = {0, 1, 0}, .out = {1, 9, 10}};
    const int64_t nx = 2 * 5 * 99, nw = 7 * 5 * 6, ny = 2 * 7 * 90;
    float *x = values(nx), *w = values(nw);
    double y[2 * 7 * 90], m[2 * 7 * 90];
    for (int64_t i = 0; i < nx; i++)
        x[i] = (float)(int)(x[i] * 8); /* exact in f16 and bf16 */
    for (int64_t i = 0; i < nw; i++)
        w[i] = (float)(int)(w[i] * 4);
    ref_conv_forward(&c, x, w, NULL, y, m);
    for (int k = 0; k < 2; k++) {
        const weft_dtype d = k ? WEFT_DTYPE_BF16 : WEFT_DTYPE_F16;
        weft_tensor *tx = weft_cast(tensor(4, (int64_t[]){2, 5, 9, 11}, x), d), *tw = weft_cast(tensor(4, (int64_t[]){7, 5, 3, 2}, w), d);
        weft_tensor *t = weft_conv2d(tx, tw, &(weft_conv_opts){.padding = {1, 0}});
        expect("half precision", t, ny, y, m, k ? 65536.0 * 2 : 8192 * 2);
    }
    free(x), free(w);
}

/* A product whose left operand is the windows, and bits that do not depend on threads. */
static void windows_may_be_the_left_operand(void **state)
{
    (void)state;
    if (getenv("WEFT_TEST_DEVICE"))
        return;
    enum { T = 70, W = 9, N = 24 };
    float *x = values(T), *b = values(W * N), got[2][(T - W + 1) * N];
    double want[(T - W + 1) * N], m[(T - W + 1) * N];
    for (int t = 0; t < T - W + 1; t++)
        for (int n = 0; n < N; n++) {
            want[t * N + n] = m[t * N + n] = 0;
            for (int k = 0; k < W; k++) {
                want[t * N + n] += (double)x[t + k] * b[k * N + n];
                m[t * N + n] += fabs((double)x[t + k] * b[k * N + n]);
            }
        }
    for (int threads = 1; threads <= 4; threads += 3) {
        weft_ctx *other = NULL;
        assert_int_equal(weft_ctx_open(&(weft_ctx_opts){.device = "cpu", .n_threads = threads}, &other), WEFT_OK);
        weft_scope *inside = weft_scope_begin(other);
        weft_tensor *tx = weft_tensor_from(other, WEFT_DTYPE_F32, 1, (int64_t[]){T}, x), *tb = weft_tensor_from(other, WEFT_DTYPE_F32, 2, (int64_t[]){W, N}, b);
        weft_tensor *y = weft_matmul(weft_contiguous(weft_unfold(tx, 0, W, 1)), tb);
        assert_int_equal(weft_read(y, got[threads > 1], sizeof got[0]), WEFT_OK);
        weft_scope_end(inside);
        weft_ctx_close(other);
    }
    for (int i = 0; i < (T - W + 1) * N; i++)
        assert_true(fabs(got[0][i] - want[i]) <= (W + 2) * EPS * m[i]);
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    free(x), free(b);
}

static void a_kernel_of_one_copies_nothing(void **state)
{
    (void)state;
    weft_stats before, after;
    float *x = values(2 * 8 * 5 * 7), *w = values(4 * 8);
    weft_tensor *y = weft_conv2d(tensor(4, (int64_t[]){2, 8, 5, 7}, x), tensor(4, (int64_t[]){4, 8, 1, 1}, w), NULL);
    weft_ctx_stats(ctx, &before);
    assert_int_equal(weft_eval(&y, 1), WEFT_OK);
    weft_ctx_stats(ctx, &after);
    assert_int_equal(after.copies, before.copies);
    free(x), free(w);
}

static weft_tensor *apply(const char *name, weft_tensor **in, int n, const weft_attr *list, int n_attr, weft_tensor **second)
{
    weft_outputs out;
    weft_attrs attrs = {.list = list, .n = n_attr};
    if (weft_apply(ctx, name, in, n, &attrs, &out) != WEFT_OK)
        fail_msg("%s: %s", name, weft_error_message());
    if (second)
        *second = out.n > 1 ? out.tensor[1] : NULL;
    return out.tensor[0];
}

static void same_padding_keeps_the_extent(void **state)
{
    (void)state;
    float x[5] = {1, 2, 3, 4, 5}, w[4] = {1, 10, 100, 1000};
    /* total 3: one zero left, two right */
    double want[5] = {0 + 10 + 200 + 3000, 1 + 20 + 300 + 4000, 2 + 30 + 400 + 5000, 3 + 40 + 500, 4 + 50};
    weft_tensor *in[2] = {tensor(3, (int64_t[]){1, 1, 5}, x), tensor(3, (int64_t[]){1, 1, 4}, w)};
    weft_attr same = {.name = "padding", .kind = WEFT_ATTR_STRING, .s = "same"};
    expect("same", apply("conv1d", in, 2, &same, 1, NULL), 5, want, NULL, 8);
    weft_attr valid = {.name = "padding", .kind = WEFT_ATTR_STRING, .s = "valid"};
    expect("valid", apply("conv1d", in, 2, &valid, 1, NULL), 2, (double[]){4321, 5432}, NULL, 8);
    in[0] = tensor(2, (int64_t[]){1, 5}, x);
    weft_tensor *y = apply("conv1d", in, 2, &valid, 1, NULL);
    assert_int_equal(weft_tensor_rank(y), 2);
}

static void causal_convolution_continues_from_its_state(void **state)
{
    (void)state;
    enum { B = 2, C = 3, T = 7, K = 4 };
    float *x = values(B * C * T), *w = values(C * K), *bias = values(C);
    double want[B * C * T], m[B * C * T];
    for (int i = 0; i < B * C * T; i++) {
        int c = i / T % C, t = i % T;
        double s = bias[c];
        for (int k = 0; k < K; k++)
            s += t - (K - 1) + k >= 0 ? (double)w[c * K + k] * x[i - (K - 1) + k] : 0;
        want[i] = s / (1 + exp(-s));
        m[i] = fabs(want[i]) + 4;
    }
    weft_tensor *tx = tensor(3, (int64_t[]){B, C, T}, x), *tw = tensor(2, (int64_t[]){C, K}, w), *tb = tensor(1, (int64_t[]){C}, bias), *mid;
    weft_causal_conv1d_opts o = {.bias = tb, .silu = true};
    expect("causal", weft_causal_conv1d(tx, tw, &o), B * C * T, want, m, 32);
    o.final_state = &mid;
    weft_tensor *parts[2] = {weft_causal_conv1d(weft_slice(tx, 2, 0, 2, 1), tw, &o)};
    o.state = mid;
    parts[1] = weft_causal_conv1d(weft_slice(tx, 2, 2, WEFT_INDEX_NONE, 1), tw, &o);
    expect("causal in two", weft_cat(parts, 2, 2), B * C * T, want, m, 32);
    free(x), free(w), free(bias);
}

static void columns_fold_back(void **state)
{
    (void)state;
    ref_conv c = {2, 2, 1, 1, {1, 5, 6}, {1, 2, 3}, {1, 2, 1}, {1, 1, 2}, {0, 1, 2}, {1, 3, 6}};
    int64_t kernel[2] = {2, 3}, I = 30, P = 18, K = 6;
    weft_window_opts o = {.dilation = {1, 2}, .padding = {1, 2}, .stride = {2, 1}};
    float *x = values(2 * 2 * I);
    double *cols = calloc(2 * 2 * (size_t)(K * P), 8), *back = calloc(2 * 2 * (size_t)I, 8);
    for (int64_t ch = 0; ch < 4; ch++)
        REF_WINDOWS(&c, if (inside) {
            cols[(ch * K + at_k) * P + at_out] = x[ch * I + at_in];
            back[ch * I + at_in] += x[ch * I + at_in];
        })
    weft_tensor *t = weft_im2col(tensor(4, (int64_t[]){2, 2, 5, 6}, x), kernel, &o);
    assert_int_equal(weft_tensor_dim(t, 1), 2 * K);
    expect("im2col", t, 4 * K * P, cols, NULL, 0);
    expect("fold", weft_fold(t, (int64_t[]){5, 6}, kernel, &o), 4 * I, back, NULL, 16);
    free(x), free(cols), free(back);
}

/* ---- pooling ---- */

typedef weft_tensor *pool_fn(weft_tensor *, const int64_t *, const weft_pool_opts *);
static pool_fn *const max_pools[] = {weft_max_pool1d, weft_max_pool2d, weft_max_pool3d};
static pool_fn *const avg_pools[] = {weft_avg_pool1d, weft_avg_pool2d, weft_avg_pool3d};

static void run_pool(int nd, bool is_max)
{
    ref_conv c = {.B = 2, .C = 3};
    weft_pool_opts o = {.ceil_mode = draw(2), .exclude_padding = draw(2)};
    int64_t kernel[3] = {1, 1, 1}, shape[5];
    for (int i = 0; i < 3; i++) {
        bool used = i >= 3 - nd;
        c.size[i] = used ? 1 + draw(3) : 1;
        c.stride[i] = used ? 1 + draw(3) : 1;
        c.dilation[i] = used && is_max ? 1 + draw(2) : 1;
        int64_t span = c.dilation[i] * (c.size[i] - 1) + 1;
        c.low[i] = used ? draw((uint32_t)(c.size[i] / 2 + 1)) : 0;
        c.in[i] = used ? span + draw(8) : 1;
        int64_t room = c.in[i] + 2 * c.low[i] - span, s = c.stride[i];
        c.out[i] = (o.ceil_mode ? (room + s - 1) / s : room / s) + 1;
        if (o.ceil_mode && (c.out[i] - 1) * s >= c.in[i] + c.low[i])
            c.out[i]--;
        if (used) {
            int at = i - (3 - nd);
            kernel[at] = c.size[i];
            o.stride[at] = s;
            o.padding[at] = c.low[i];
            o.dilation[at] = c.dilation[i];
        }
    }
    if (!is_max && draw(4) == 0)
        o.divisor_override = 5;
    int64_t I = ref_count(c.in), P = ref_count(c.out);
    float *x = values(6 * I);
    if (is_max)
        for (int64_t i = 0; i < 6 * I; i += 5)
            x[i] = -INFINITY;
    double *y = calloc((size_t)(6 * P), 8), *m = calloc((size_t)(6 * P), 8), *n = calloc((size_t)P, 8);
    int32_t *index = malloc((size_t)(6 * P) * 4), *got = malloc((size_t)(6 * P) * 4);
    for (int64_t ch = 0; ch < 6; ch++) {
        for (int64_t p = 0; p < P; p++)
            index[ch * P + p] = -1;
        REF_WINDOWS(&c, {
            float v = inside ? x[ch * I + at_in] : 0;
            int64_t at = ch * P + at_out;
            int padded = i0 < c.in[0] + c.low[0] && i1 < c.in[1] + c.low[1] && i2 < c.in[2] + c.low[2];
            if (is_max && inside && (index[at] < 0 || v > y[at])) {
                y[at] = v;
                index[at] = (int32_t)at_in;
            }
            if (!is_max) {
                y[at] += v;
                m[at] += fabs(v);
                n[at_out] += ch == 0 && (o.exclude_padding ? inside : padded);
            }
        })
    }
    for (int64_t i = 0; i < 6 * P && !is_max; i++) {
        y[i] /= o.divisor_override ? (double)o.divisor_override : n[i % P];
    }
    shape_of(shape, 2, 3, c.in, nd);
    weft_tensor *indices = NULL;
    o.indices = is_max ? &indices : NULL;
    weft_tensor *t = (is_max ? max_pools[nd - 1] : avg_pools[nd - 1])(tensor(2 + nd, shape, x), kernel, &o);
    expect(is_max ? "max_pool" : "avg_pool", t, 6 * P, y, is_max ? NULL : m, is_max ? 0 : (double)ref_count(c.size) + 4);
    if (is_max) {
        if (weft_read(indices, got, (size_t)(6 * P) * 4) != WEFT_OK)
            fail_msg("%s", weft_error_message());
        for (int64_t i = 0; i < 6 * P; i++)
            if (got[i] != index[i])
                fail_msg("max_pool%dd: index %lld is %d, expected %d", nd, (long long)i, got[i], index[i]);
    }
    free(x), free(y), free(m), free(n), free(index), free(got);
}

static void pools_equal_their_definition(void **state)
{
    (void)state;
    for (int i = 0; i < cases(); i++)
        for (int nd = 1; nd <= 3; nd++) {
            run_pool(nd, true);
            run_pool(nd, false);
        }
}

static void adaptive_pools_cover_unequal_windows(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{3, 3}, {7, 5}, {1, 1}, {2, 9}, {10, 4}};
    float *x = values(2 * 7 * 9);
    x[5] = NAN;
    x[20] = INFINITY;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t h = sizes[s][0], w = sizes[s][1];
        double mean[2 * 100], most[2 * 100], m[2 * 100];
        int32_t index[200], got[200];
        for (int64_t i = 0; i < 2 * h * w; i++) {
            int64_t a = i / w % h, b = i % w, n = 0;
            const float *xc = x + i / (h * w) * 63;
            mean[i] = m[i] = 0;
            index[i] = -1;
            for (int64_t r = a * 7 / h; r < ((a + 1) * 7 + h - 1) / h; r++)
                for (int64_t q = b * 9 / w; q < ((b + 1) * 9 + w - 1) / w; q++, n++) {
                    double v = xc[r * 9 + q];
                    mean[i] += v;
                    m[i] += fabs(v);
                    if (index[i] < 0 || v > most[i] || (isnan(v) && !isnan(most[i]))) {
                        most[i] = v;
                        index[i] = (int32_t)(r * 9 + q);
                    }
                }
            mean[i] /= (double)n;
        }
        weft_tensor *t = tensor(3, (int64_t[]){2, 7, 9}, x), *at;
        expect("adaptive_avg_pool2d", weft_adaptive_avg_pool2d(t, sizes[s]), 2 * h * w, mean, m, 64);
        expect("adaptive_max_pool2d", weft_adaptive_max_pool2d(t, sizes[s], &at), 2 * h * w, most, NULL, 0);
        if (weft_read(at, got, (size_t)(2 * h * w) * 4) != WEFT_OK)
            fail_msg("%s", weft_error_message());
        for (int64_t i = 0; i < 2 * h * w; i++)
            assert_int_equal(got[i], index[i]);
    }
    free(x);
}

/* ---- resampling ---- */

static double cubic(double d)
{
    d = fabs(d);
    return d <= 1 ? 1.25 * d * d * d - 2.25 * d * d + 1 : d < 2 ? -0.75 * (d * d * d - 5 * d * d + 8 * d - 4) : 0;
}

/* One axis of one element: the sum over all source elements of value times weight. */
static double weight_of(const weft_interpolate_opts *o, int64_t n, int64_t out, double scale, int64_t at, int64_t from)
{
    double s = o->align_corners ? (out > 1 ? (double)at * (double)(n - 1) / (double)(out - 1) : 0) : ((double)at + 0.5) * scale - 0.5, w = 0;
    if (o->mode == WEFT_NEAREST || o->mode == WEFT_NEAREST_EXACT) {
        double f = floor(((double)at + (o->mode == WEFT_NEAREST ? 0 : 0.5)) * scale);
        return (f > (double)n - 1 ? (double)n - 1 : f) == (double)from;
    }
    if (o->mode == WEFT_LINEAR && s < 0)
        s = 0;
    int64_t low = (int64_t)floor(s) - 1;
    for (int64_t i = low; i < low + 4; i++) { /* borders repeat */
        int64_t at_edge = i < 0 ? 0 : i >= n ? n - 1 : i;
        double d = fabs(s - (double)i);
        if (at_edge == from)
            w += o->mode == WEFT_LINEAR ? (d < 1 ? 1 - d : 0) : cubic(d);
    }
    return w;
}

static void interpolation_equals_its_definition(void **state)
{
    (void)state;
    enum { H = 4, W = 5 };
    static const int64_t sizes[][2] = {{8, 10}, {4, 5}, {3, 2}, {1, 1}, {9, 7}};
    float *x = values(2 * H * W);
    for (int mode = 0; mode < 4; mode++)
        for (int align = 0; align < (mode < 2 ? 1 : 2); align++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                int64_t h = sizes[s][0], w = sizes[s][1];
                double want[2 * 100], m[2 * 100];
                weft_interpolate_opts o = {.size = sizes[s], .mode = (weft_interpolation)mode, .align_corners = align};
                for (int64_t i = 0; i < 2 * h * w; i++) {
                    want[i] = m[i] = 0;
                    for (int64_t a = 0; a < H; a++)
                        for (int64_t b = 0; b < W; b++) {
                            double v = x[i / (h * w) * H * W + a * W + b] * weight_of(&o, H, h, (double)H / (double)h, i / w % h, a) *
                                       weight_of(&o, W, w, (double)W / (double)w, i % w, b);
                            want[i] += v;
                            m[i] += 4 + fabs(v);
                        }
                }
                char what[80];
                snprintf(what, sizeof what, "interpolate mode %d align %d to %d x %d", mode, align, (int)h, (int)w);
                expect(what, weft_interpolate(tensor(4, (int64_t[]){1, 2, H, W}, x), &o), 2 * h * w, want, m, 32);
            }
    free(x);
}

static void scale_factor_gives_the_extent(void **state)
{
    (void)state;
    float x[4] = {1, 2, 3, 4};
    weft_tensor *t = tensor(3, (int64_t[]){1, 1, 4}, x);
    weft_attr a[2] = {{.name = "scale_factor", .kind = WEFT_ATTR_FLOAT, .f = 1.6}, {.name = "mode", .kind = WEFT_ATTR_STRING, .s = "nearest"}};
    expect("scale 1.6", apply("interpolate", &t, 1, a, 2, NULL), 6, (double[]){1, 1, 2, 2, 3, 4}, NULL, 0);
    a[1].s = "linear";
    double want[6];
    for (int i = 0; i < 6; i++) {
        double s = (i + 0.5) / 1.6 - 0.5;
        want[i] = s < 0 ? 1 : s > 3 ? 4 : 1 + s;
    }
    expect("scale 1.6 linear", apply("upsample", &t, 1, a, 2, NULL), 6, want, NULL, 16);
}

/* ---- dtypes, views, errors ---- */

static void half_and_double_compute(void **state)
{
    (void)state;
    float *x = values(2 * 6 * 6), *w = values(3 * 2 * 9);
    ref_conv c = {1, 2, 3, 1, {1, 6, 6}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {1, 6, 6}};
    double y[108], m[108];
    ref_conv_forward(&c, x, w, NULL, y, m);
    weft_tensor *tx = tensor(4, (int64_t[]){1, 2, 6, 6}, x), *tw = tensor(4, (int64_t[]){3, 2, 3, 3}, w);
    weft_conv_opts o = {.padding = {1, 1}};
    weft_tensor *f16 = weft_conv2d(weft_cast(tx, WEFT_DTYPE_F16), weft_cast(tw, WEFT_DTYPE_F16), &o);
    assert_int_equal(weft_tensor_dtype(f16), WEFT_DTYPE_F16);
    expect("f16", f16, 108, y, m, 4 * 8192);
    weft_tensor *f64 = weft_conv2d(weft_cast(tx, WEFT_DTYPE_F64), tw, &o);
    assert_int_equal(weft_tensor_dtype(f64), WEFT_DTYPE_F64);
    expect("f64", f64, 108, y, m, 2);
    /* a transposed view of the input: the same as convolving with the transposed kernel */
    weft_tensor *turned = weft_transpose(weft_conv2d(weft_transpose(tx, 2, 3), weft_transpose(tw, 2, 3), &o), 2, 3);
    expect("transposed views", turned, 108, y, m, 32);
    weft_tensor *again = weft_conv2d(weft_flip(weft_flip(tx, 3), 3), tw, &o);
    expect("flipped twice", again, 108, y, m, 32);
    int32_t ints[6] = {1, 5, -3, 7, 7, 2}, got[3];
    weft_tensor *ti = weft_tensor_from(ctx, WEFT_DTYPE_I32, 2, (int64_t[]){1, 6}, ints);
    assert_int_equal(weft_read(weft_max_pool1d(ti, (int64_t[]){2}, NULL), got, sizeof got), WEFT_OK);
    assert_memory_equal(got, ((int32_t[]){5, 7, 7}), sizeof got);
    free(x), free(w);
}

static void is_error(weft_tensor *t, weft_status st, const char *part)
{
    if (weft_tensor_status(t) != st || !strstr(weft_tensor_message(t), part))
        fail_msg("status %d \"%s\", expected %d with \"%s\"", (int)weft_tensor_status(t), weft_tensor_message(t), (int)st, part);
}

static void wrong_arguments_say_what_is_wrong(void **state)
{
    (void)state;
    float zeros[400] = {0};
    weft_tensor *x = tensor(4, (int64_t[]){1, 4, 5, 5}, zeros), *w = tensor(4, (int64_t[]){8, 3, 3, 3}, zeros), *ok = tensor(4, (int64_t[]){8, 4, 3, 3}, zeros);
    is_error(weft_conv2d(x, w, NULL), WEFT_E_SHAPE, "takes 3 channels, input [1, 4, 5, 5] has 4");
    is_error(weft_conv2d(x, ok, &(weft_conv_opts){.groups = 3}), WEFT_E_SHAPE, "groups");
    is_error(weft_conv2d(x, ok, &(weft_conv_opts){.stride = {-1, 1}}), WEFT_E_VALUE, "stride -1");
    is_error(weft_conv2d(x, ok, &(weft_conv_opts){.dilation = {3, 1}}), WEFT_E_SHAPE, "spans 7");
    is_error(weft_conv2d(x, ok, &(weft_conv_opts){.pad = WEFT_CONV_PAD_SAME, .stride = {2, 2}}), WEFT_E_VALUE, "same");
    is_error(weft_conv2d(x, ok, &(weft_conv_opts){.bias = tensor(1, (int64_t[]){7}, zeros)}), WEFT_E_SHAPE, "bias is [7], expected [8]");
    is_error(weft_conv1d(x, ok, NULL), WEFT_E_SHAPE, "expected rank 3");
    is_error(weft_conv2d(NULL, ok, NULL), WEFT_E_CONTEXT, "");
    is_error(weft_conv2d(weft_cast(x, WEFT_DTYPE_I32), ok, NULL), WEFT_E_DTYPE, "i32");
    is_error(weft_conv_transpose2d(x, ok, NULL), WEFT_E_SHAPE, "takes 8 channels");
    is_error(weft_conv_transpose2d(x, tensor(4, (int64_t[]){4, 2, 3, 3}, zeros), &(weft_conv_opts){.output_padding = {1, 0}}), WEFT_E_VALUE, "output_padding 1");
    is_error(weft_max_pool2d(x, (int64_t[]){6, 1}, NULL), WEFT_E_SHAPE, "does not fit");
    is_error(weft_max_pool2d(x, (int64_t[]){2, 2}, &(weft_pool_opts){.padding = {2, 0}}), WEFT_E_VALUE, "padding 2");
    is_error(weft_avg_pool2d(weft_cast(x, WEFT_DTYPE_I32), (int64_t[]){2, 2}, NULL), WEFT_E_DTYPE, "i32");
    is_error(weft_interpolate(x, NULL), WEFT_E_VALUE, "scale_factor 0");
    is_error(weft_fold(tensor(3, (int64_t[]){1, 4, 4}, zeros), (int64_t[]){3, 3}, (int64_t[]){2, 2}, &(weft_window_opts){.padding = {1, 0}}), WEFT_E_SHAPE, "columns");
    weft_attr zero = {.name = "stride", .kind = WEFT_ATTR_INT, .i = 0};
    weft_tensor *in[2] = {x, ok};
    is_error(apply("conv2d", in, 2, &zero, 1, NULL), WEFT_E_VALUE, "stride is 0");
    weft_tensor *none = weft_conv2d(weft_slice(x, 0, 0, 0, 1), ok, NULL);
    assert_int_equal(weft_tensor_dim(none, 1), 8);
    assert_int_equal(weft_tensor_numel(none), 0);
    assert_int_equal(weft_eval(&none, 1), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(convolutions_equal_their_definition, begin, end),
        cmocka_unit_test_setup_teardown(transposed_convolutions_equal_their_definition, begin, end),
        cmocka_unit_test_setup_teardown(wide_convolutions_read_their_windows, begin, end),
        cmocka_unit_test_setup_teardown(windows_in_half_precision_are_widened_in_place, begin, end),
        cmocka_unit_test_setup_teardown(windows_may_be_the_left_operand, begin, end),
        cmocka_unit_test_setup_teardown(a_kernel_of_one_copies_nothing, begin, end),
        cmocka_unit_test_setup_teardown(same_padding_keeps_the_extent, begin, end),
        cmocka_unit_test_setup_teardown(causal_convolution_continues_from_its_state, begin, end),
        cmocka_unit_test_setup_teardown(columns_fold_back, begin, end),
        cmocka_unit_test_setup_teardown(pools_equal_their_definition, begin, end),
        cmocka_unit_test_setup_teardown(adaptive_pools_cover_unequal_windows, begin, end),
        cmocka_unit_test_setup_teardown(interpolation_equals_its_definition, begin, end),
        cmocka_unit_test_setup_teardown(scale_factor_gives_the_extent, begin, end),
        cmocka_unit_test_setup_teardown(half_and_double_compute, begin, end),
        cmocka_unit_test_setup_teardown(wrong_arguments_say_what_is_wrong, begin, end),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
