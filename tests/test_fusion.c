/* test_fusion.c - named graphs whose views the compiler must read in place: on the null device no copies and this many
 * kernels; on the device that WEFT_TEST_DEVICE names the values of WEFT_FUSE=0.
 */
#include "device_context.h"

#include <math.h>
#include <stdio.h>

#define AXES(...) (int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))
#define P(...) (int[]){__VA_ARGS__}

static weft_ctx *ctx;

/* A leaf of small numbers of both signs, another for every seed. */
static weft_tensor *leaf(uint32_t seed, int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int k = 0; k < rank; k++)
        n *= shape[k];
    float *data = malloc(sizeof *data * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)((int)(seed >> 16) % 200 - 100) / 64.0f;
    }
    weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_F32, rank, shape, data);
    free(data);
    return t;
}
#define X leaf(1, DIMS(12, 20))
#define Y leaf(2, DIMS(12, 20))
#define ROW leaf(3, DIMS(20))
#define COLUMN leaf(4, DIMS(12, 1))
#define SQUARE leaf(5, DIMS(20, 20))
#define CUBE leaf(6, DIMS(3, 4, 10))
#define HEADS(seed) leaf(seed, DIMS(1, 6, 2, 8)) /* [batch, time, heads, width] */
#define PLANE leaf(7, DIMS(1, 3, 9, 9))

static weft_tensor *ids(void)
{
    const int32_t v[5] = {3, 0, 11, 3, 7};
    return weft_tensor_from(ctx, WEFT_DTYPE_I32, DIMS(5), v);
}
static weft_tensor *number(double v) { return weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, v); }
static weft_tensor *f16(weft_tensor *x) { return weft_cast(x, WEFT_DTYPE_F16); }
static weft_tensor *f32(weft_tensor *x) { return weft_cast(x, WEFT_DTYPE_F32); }
static weft_tensor *heads(uint32_t seed) { return weft_permute(HEADS(seed), P(0, 2, 1, 3)); }
static weft_tensor *standardised(weft_tensor *x)
{
    weft_tensor *mean, *var = weft_var_mean(x, AXES(1), 0, true, &mean);
    return weft_mul(weft_sub(x, mean), weft_rsqrt(weft_add(var, number(1e-5))));
}
static weft_tensor *spread_of(weft_tensor *x)
{
    return weft_sub(weft_max(x, AXES(1), true), weft_min(x, AXES(1), true));
}
static weft_tensor *exp_sums(weft_tensor *x)
{
    return weft_sum(weft_exp(weft_sub(x, weft_max(x, AXES(1), true))), AXES(1), true);
}
/* A third reduction that needs the second, which needs the first. */
static weft_tensor *moments(weft_tensor *x)
{
    weft_tensor *mean, *var = weft_var_mean(x, AXES(1), 0, true, &mean), *u = weft_div(weft_sub(x, mean), weft_sqrt(weft_add(var, number(1))));
    return weft_sum(weft_mul(weft_mul(u, u), u), AXES(1), false);
}

#define GRAPHS(G)                                                                                                              \
    G(slice_add_sum, 1, weft_sum(weft_add(weft_slice(X, 1, 2, 18, 2), weft_slice(Y, 1, 1, 17, 2)), AXES(1), false))              \
    G(permute_softmax, 1, weft_softmax(weft_permute(CUBE, P(2, 0, 1)), 1))                                                       \
    G(flip_matmul, 1, weft_matmul(weft_flip(X, 1), SQUARE))                                                                      \
    G(transpose_matmul, 1, weft_matmul(weft_transpose(X, 0, 1), Y))                                                              \
    G(matmul_of_transposes, 1, weft_matmul(weft_transpose(SQUARE, 0, 1), weft_transpose(X, 0, 1)))                               \
    G(slice_matmul, 1, weft_matmul(weft_slice(X, 1, 4, 20, 1), weft_slice(SQUARE, 0, 0, 16, 1)))                                 \
    G(broadcast_chain, 1, weft_relu(weft_add(weft_mul(weft_sub(X, COLUMN), ROW), number(0.5))))                                  \
    G(expand_sum, 1, weft_sum(weft_expand(COLUMN, DIMS(12, 20)), AXES(0, 1), false))                                             \
    G(exp_sum, 1, weft_sum(weft_exp(X), AXES(0), false))                                                                         \
    G(sum_sqrt, 1, weft_sqrt(weft_sum(weft_mul(X, X), AXES(1), true)))                                                           \
    G(mean_of_differences, 1, weft_mean(weft_abs(weft_sub(X, weft_flip(Y, 0))), NULL, 0, false))                                 \
    G(log_softmax_of_scaled, 1, weft_log_softmax(weft_mul(X, number(0.25)), 1))                                                  \
    G(softmax_times, 1, weft_mul(weft_softmax(X, 1), Y))                                                                         \
    G(layer_norm_gelu, 1, weft_gelu(weft_layer_norm(X, ROW, ROW, 1e-5f, 1)))                                                     \
    G(residual_rms_norm, 1, weft_rms_norm(weft_add(X, Y), ROW, 1e-5f, 1))                                                        \
    G(matmul_bias_relu, 1, weft_relu(weft_add(weft_matmul(X, SQUARE), ROW)))                                                     \
    G(matmul_residual, 1, weft_add(Y, weft_matmul(X, SQUARE)))                                                                   \
    G(linear_silu_gate, 2, weft_mul(weft_silu(weft_linear(X, SQUARE, NULL)), weft_linear(X, leaf(8, DIMS(20, 20)), NULL)))       \
    G(matmul_to_f16, 1, f32(f16(weft_matmul(X, SQUARE))))                                                                        \
    G(half_chain, 1, weft_add(f32(f16(X)), weft_mul(f16(Y), f16(ROW))))                                                          \
    G(integers_and_floats, 1, weft_mul(weft_cast(weft_gt(X, Y), WEFT_DTYPE_I32), X))                                             \
    G(where_of_comparison, 1, weft_where(weft_gt(X, number(0)), X, weft_mul(Y, number(0.1))))                                    \
    G(gather_then_norm, 1, weft_rms_norm(weft_index_select(X, 0, ids()), ROW, 1e-5f, 1))                                         \
    G(gather_add_sum, 1, weft_sum(weft_add(weft_index_select(X, 0, ids()), ROW), AXES(0), false))                                \
    G(diagonal_sum, 1, weft_sum(weft_diagonal(SQUARE, 1, 0, 1), AXES(0), false))                                                 \
    G(windows_mean, 1, weft_mean(weft_unfold(ROW, 0, 5, 2), AXES(1), false))                                                     \
    G(windows_max, 1, weft_max(weft_unfold(weft_unfold(PLANE, 2, 3, 2), 3, 3, 2), AXES(4, 5), false))                            \
    G(masked_softmax, 1, weft_softmax(weft_where(weft_tri(ctx, 20, 20, 0), SQUARE, number(-INFINITY)), 1))                       \
    G(attention_of_permuted_heads, 1, weft_scaled_dot_product_attention(heads(11), heads(12), heads(13), NULL))                  \
    G(reshape_of_rows, 1, weft_sum(weft_reshape(weft_slice(X, 0, 2, 10, 1), DIMS(4, 2, 20)), AXES(1), false))                    \
    G(two_uses, 1, weft_add(weft_exp(weft_mul(X, Y)), weft_mul(X, Y)))                                                           \
    G(square_of_a_shared_view, 1, weft_mul(weft_transpose(SQUARE, 0, 1), weft_sub(weft_transpose(SQUARE, 0, 1), SQUARE)))        \
    G(variance, 1, weft_var(X, AXES(1), 1, false))                                                                              \
    G(standardise, 1, standardised(X))                                                                                          \
    G(variance_of_columns, 1, weft_var(X, AXES(0), 0, true))                                                                    \
    G(variance_of_everything, 1, weft_var(CUBE, NULL, 0, 1, false))                                                             \
    G(deviation_over_two_axes, 1, weft_std(CUBE, AXES(0, 2), 1, false))                                                         \
    G(spread_of_rows, 1, weft_sub(weft_max(X, AXES(1), false), weft_min(X, AXES(1), false)))                                    \
    G(scaled_to_unit, 1, weft_div(weft_sub(X, weft_min(X, AXES(1), true)), spread_of(X)))                                       \
    G(softmax_by_hand, 1, weft_div(weft_exp(weft_sub(X, weft_max(X, AXES(1), true))), exp_sums(X)))                             \
    G(mean_over_deviation, 1, weft_div(weft_mean(X, AXES(1), false), weft_std(X, AXES(1), 1, false)))                           \
    G(half_standard_columns, 1, f32(standardised(weft_transpose(f16(X), 0, 1))))                                           \
    G(two_directions, 2, weft_sub(weft_sub(X, weft_mean(X, AXES(1), true)), weft_mean(X, AXES(0), true)))                       \
    G(mean_of_another_row, 2, weft_sub(X, weft_flip(weft_mean(X, AXES(1), true), 0)))                                           \
    G(moment_chain, 1, moments(X))

typedef struct named_graph {
    const char *name;
    int kernels; /* at most */
    weft_tensor *(*make)(void);
} named_graph;

#define MAKE(name, kernels, graph) static weft_tensor *make_##name(void) { return graph; }
GRAPHS(MAKE)
#define ENTRY(name, kernels, graph) {#name, kernels, make_##name},
static const named_graph graphs[] = {GRAPHS(ENTRY)};
enum { N_GRAPHS = sizeof graphs / sizeof *graphs };

static void views_are_read_in_place(void **state)
{
    (void)state;
    weft_ctx_opts o = {.device = "null"};
    int wrong = 0;
    assert_int_equal(weft_ctx_open(&o, &ctx), WEFT_OK);
    assert_true(N_GRAPHS >= 30);
    for (int i = 0; i < N_GRAPHS; i++) {
        weft_scope *s = weft_scope_begin(ctx);
        weft_tensor *t = graphs[i].make();
        weft_stats before, after;
        weft_ctx_stats(ctx, &before);
        if (weft_eval(&t, 1) != WEFT_OK)
            fail_msg("%s: %s", graphs[i].name, weft_error_message());
        weft_ctx_stats(ctx, &after);
        int copies = (int)(after.copies - before.copies), kernels = (int)(after.dispatches - before.dispatches);
        if (copies || kernels > graphs[i].kernels || after.fallbacks != before.fallbacks) {
            print_message("%s: %d copies, %d kernels (at most %d), %d on the CPU\n", graphs[i].name, copies, kernels, graphs[i].kernels,
                          (int)(after.fallbacks - before.fallbacks));
            wrong++;
        }
        weft_scope_end(s);
    }
    weft_ctx_close(ctx);
    assert_int_equal(wrong, 0);
}

/* bound[i]: fusion keeps intermediates of f16 in f32, so graphs with such may differ by a rounding of numbers below 4. */
static void values_of(bool fused, double *out, double *bound, int *count)
{
    setenv("WEFT_FUSE", fused ? "1" : "0", 1);
    ctx = open_test_ctx();
    unsetenv("WEFT_FUSE");
    assert_non_null(ctx);
    *count = 0;
    for (int i = 0; i < N_GRAPHS; i++) {
        weft_scope *s = weft_scope_begin(ctx);
        weft_tensor *t = weft_cast(graphs[i].make(), WEFT_DTYPE_F32);
        int64_t n = weft_tensor_numel(t);
        float *got = malloc(sizeof *got * (size_t)n);
        if (weft_read(t, got, sizeof *got * (size_t)n) != WEFT_OK)
            fail_msg("%s: %s", graphs[i].name, weft_error_message());
        bool half = strstr(graphs[i].name, "half") || strstr(graphs[i].name, "f16");
        for (int64_t k = 0; k < n; k++) {
            bound[*count] = half ? 0x1p-9 : 0x1p-16;
            out[(*count)++] = (double)got[k];
        }
        free(got);
        weft_scope_end(s);
    }
    weft_ctx_close(ctx);
}

static void fused_and_unfused_agree(void **state)
{
    (void)state;
    static double fused[40000], unfused[40000], bound[40000];
    int n, m;
    values_of(true, fused, bound, &n);
    values_of(false, unfused, bound, &m);
    assert_int_equal(n, m);
    assert_true(n < 40000);
    for (int i = 0; i < n; i++)
        if (!(fabs(fused[i] - unfused[i]) <= bound[i] * fmax(1, fabs(unfused[i]))) && !(isnan(fused[i]) && isnan(unfused[i])))
            fail_msg("value %d: fused %.9g, unfused %.9g", i, fused[i], unfused[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(views_are_read_in_place), cmocka_unit_test(fused_and_unfused_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
