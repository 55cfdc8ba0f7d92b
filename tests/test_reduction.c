/* test_reduction.c - statistics, running folds and order statistics against f64 loops, on views, dtypes, NaN, empty axes. */
#include "lines_case.h"

/* ---- running folds ---- */

static double log_add(double a, double b)
{
    double m = fmax(a, b);
    return a != a || b != b ? NAN : isinf(m) ? m : m + log(exp(a - m) + exp(b - m));
}

typedef enum fold { SUM, PROD, LOG, MAX, MIN } fold;

static void check_running(const data *x, int axis, fold f, double eps)
{
    weft_tensor *at = NULL, *r;
    switch (f) {
    case SUM: r = weft_cumsum(x->t, axis); break;
    case PROD: r = weft_cumprod(x->t, axis); break;
    case LOG: r = weft_logcumsumexp(x->t, axis); break;
    case MAX: r = weft_cummax(x->t, axis, &at); break;
    default: r = weft_cummin(x->t, axis, &at); break;
    }
    double *got = read_all(r), *index = at ? read_all(at) : NULL;
    for (int64_t line = 0; line < x->n / x->shape[axis]; line++) {
        double acc = f == PROD ? 1 : f == LOG ? -INFINITY : 0, size = 0;
        int64_t best = 0;
        for (int64_t k = 0; k < x->shape[axis]; k++) {
            int64_t p = place(x, axis, line, k);
            double v = x->v[p];
            size += fabs(v);
            if (f == SUM)
                acc += v;
            else if (f == PROD)
                acc *= v;
            else if (f == LOG)
                acc = log_add(acc, v);
            else if (k == 0 || v != v || (acc == acc && (f == MAX ? v >= acc : v <= acc)))
                acc = v, best = k;
            double scale = f == SUM ? size : f == PROD ? fabs(acc) : f == LOG ? fabs(acc) + 8 : 0;
            close_to(got[p], acc, (double)(k + 4) * eps * scale, "running", p);
            if (index && index[p] != (double)best)
                fail_msg("running: index %lld is %g, expected %lld", (long long)p, index[p], (long long)best);
        }
    }
    free(got);
    free(index);
}

static void running_folds_equal_loops_on_every_view(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 7, 130, 1100};
    for (size_t i = 0; i < 4; i++)
        for (int view = 0; view < VIEWS; view++)
            for (int axis = 0; axis < 3; axis++)
                for (int f = SUM; f <= MIN; f++) {
                    if (f == PROD && sizes[i] > 7)
                        continue;
                    data x = operand(WEFT_DTYPE_F32, sizes[i], f >= MAX, view);
                    check_running(&x, axis, (fold)f, 1.2e-7);
                    free(x.v);
                }
}

/* Dense f32 has loops of its own, along lines and across them. Sums that f32 cannot hold on the way, and an infinity. */
static void running_sums_of_dense_lines_are_those_of_f64(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 3, 4, 6, 33, 1103, 2500};
    const char *device = getenv("WEFT_TEST_DEVICE");
    const double eps = device && strcmp(device, "cpu") != 0 ? 1.2e-7 : 0; /* a GPU sums in f32 */
    for (int i = 0; i < 49; i++) {
        const int64_t rows = sizes[i / 7], cols = sizes[i % 7], n = rows * cols;
        float *v = malloc((size_t)n * sizeof *v);
        assert_non_null(v);
        for (int64_t k = 0; k < n; k++)
            v[k] = (next_random() % 5 == 0 ? 1e8f : 1.0f) * (float)((int)(next_random() % 3) - 1);
        v[n / 2] = INFINITY;
        data x = data_of(weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){rows, cols}, v));
        for (int axis = 0; axis < 2; axis++) {
            double *got = read_all(weft_cumsum(x.t, axis));
            for (int64_t line = 0; line < n / x.shape[axis]; line++) {
                double acc = 0, size = 0;
                for (int64_t k = 0; k < x.shape[axis]; k++) {
                    const int64_t p = place(&x, axis, line, k);
                    acc += x.v[p];
                    size += fabs(x.v[p]);
                    close_to(got[p], (double)(float)acc, eps > 0 ? (double)(k + 4) * eps * size : 0, "dense sum", p);
                }
            }
            free(got);
        }
        free(x.v);
        free(v);
    }
}

static void running_folds_take_every_dtype(void **state)
{
    (void)state;
    const weft_dtype dtypes[] = {WEFT_DTYPE_F16, WEFT_DTYPE_BF16, WEFT_DTYPE_F64, WEFT_DTYPE_I8, WEFT_DTYPE_U8,
                                 WEFT_DTYPE_I32, WEFT_DTYPE_U32, WEFT_DTYPE_I64, WEFT_DTYPE_BOOL};
    const double eps[] = {1e-3, 8e-3, 1e-15};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        data x = operand(dtypes[i], 37, i < 3, 2);
        check_running(&x, 1, MAX, 0);
        check_running(&x, 2, MIN, 0);
        free(x.v);
        x = operand(dtypes[i], 37, false, 0);
        check_running(&x, 1, SUM, i < 3 ? eps[i] : 0);
        check_running(&x, 0, PROD, i < 3 ? eps[i] : 0);
        if (i < 3)
            check_running(&x, 1, LOG, eps[i]);
        free(x.v);
    }
}

static void running_folds_know_their_edges(void **state)
{
    (void)state;
    EXPECT(weft_cumsum(weft_scalar_f32(ctx, 3), -1), 0, 3);
    weft_tensor *none = weft_zeros(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){0, 3});
    assert_int_equal(weft_tensor_numel(weft_cumsum(none, 0)), 0);
    EXPECT(weft_logcumsumexp(FLOATS(-INFINITY, -INFINITY, 0, INFINITY, 1), 0), 1e-6, -INFINITY, -INFINITY, 0, INFINITY, INFINITY);
    EXPECT(weft_diff(FLOATS(1, 4, 9, 16), 2, 0, NULL, NULL), 0, 2, 2);
    EXPECT(weft_diff(FLOATS(1, 4), 1, -1, FLOATS(0), FLOATS(10)), 0, 1, 3, 6);
    refuses(WEFT_E_SHAPE, "cumsum: axis 2 is outside rank 1", weft_cumsum(FLOATS(1, 2), 2));
    refuses(WEFT_E_DTYPE, "logcumsumexp", weft_logcumsumexp(INTS(1, 2), 0));
}

/* ---- statistics ---- */

static void statistics_equal_f64(void **state)
{
    (void)state;
    for (int view = 0; view < VIEWS; view++) {
        data x = operand(WEFT_DTYPE_F32, 40, false, view);
        const int axes[2] = {2, 0};
        weft_tensor *mean, *v = weft_var_mean(x.t, axes, 2, 1, false, &mean), *s = weft_std(x.t, axes, 2, 0, true);
        double *var = read_all(v), *m = read_all(mean), *std = read_all(s);
        double *lse = read_all(weft_logsumexp(x.t, axes, 2, false)), *n3 = read_all(weft_norm(x.t, 3, axes, 2, false));
        double *n1 = read_all(weft_norm(x.t, 1, axes, 2, false)), *low = read_all(weft_norm(x.t, -INFINITY, axes, 2, false));
        assert_int_equal(weft_tensor_rank(s), 3);
        for (int64_t k = 0; k < 40; k++) {
            double sum = 0, square = 0, e = 0, c3 = 0, c1 = 0, least = INFINITY;
            for (int64_t i = 0; i < 15; i++) {
                double a = x.v[i / 5 * 200 + k * 5 + i % 5];
                sum += a;
                e += exp(a);
                c3 += pow(fabs(a), 3);
                c1 += fabs(a);
                least = fmin(least, fabs(a));
            }
            for (int64_t i = 0; i < 15; i++)
                square += pow(x.v[i / 5 * 200 + k * 5 + i % 5] - sum / 15, 2);
            close_to(m[k], sum / 15, 1e-6, "mean", k);
            close_to(var[k], square / 14, 1e-5, "var", k);
            close_to(std[k], sqrt(square / 15), 1e-5, "std", k);
            close_to(lse[k], log(e), 1e-5, "logsumexp", k);
            close_to(n3[k], cbrt(c3), 1e-4, "norm 3", k);
            close_to(n1[k], c1, 1e-5, "norm 1", k);
            close_to(low[k], least, 0, "norm -inf", k);
        }
        double *all[] = {var, m, std, lse, n3, n1, low, x.v};
        for (size_t i = 0; i < 8; i++)
            free(all[i]);
    }
    /* Two passes: a large mean costs nothing. */
    EXPECT(weft_var(FLOATS(1e6f, 1e6f + 1, 1e6f + 2), NULL, 0, 1, false), 1e-6, 1);
    EXPECT(weft_var(weft_cast(FLOATS(0, 800, -800, 0), WEFT_DTYPE_F16), NULL, 0, 0, false), 0, INFINITY);
    EXPECT(weft_std(weft_cast(FLOATS(0, 800, -800, 0), WEFT_DTYPE_F16), NULL, 0, 0, false), 0.3, 565.685);
}

static void statistics_know_their_edges(void **state)
{
    (void)state;
    weft_tensor *none = weft_zeros(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){2, 0}), *x = FLOATS(1, NAN, 3), *at, *v;
    int last = 1, zero = 0;
    EXPECT(weft_any(none, &last, 1, false), 0, 0, 0);
    EXPECT(weft_all(none, &last, 1, false), 0, 1, 1);
    EXPECT(weft_logsumexp(none, &last, 1, false), 0, -INFINITY, -INFINITY);
    EXPECT(weft_var(none, &last, 1, 1, false), 0, NAN, NAN);
    EXPECT(weft_var(FLOATS(2), NULL, 0, 1, false), 0, NAN);
    EXPECT(weft_any(x, NULL, 0, false), 0, 1);
    EXPECT(weft_count_nonzero(FLOATS(0, -0.0f, NAN, 2), NULL, 0, false), 0, 2);
    EXPECT(weft_nansum(x, NULL, 0, false), 0, 4);
    EXPECT(weft_nanmean(x, NULL, 0, false), 0, 2);
    EXPECT(weft_logsumexp(FLOATS(1000, 1000), NULL, 0, false), 1e-4, 1000 + log(2));
    EXPECT(weft_logsumexp(FLOATS(INFINITY, 1), NULL, 0, false), 0, INFINITY);
    EXPECT(weft_logsumexp(INTS(0, 0), NULL, 0, false), 1e-6, log(2));
    EXPECT(weft_norm(FLOATS(3, -4), 2, NULL, 0, false), 1e-6, 5);
    EXPECT(weft_norm(FLOATS(3, 0, -4), 0, NULL, 0, false), 0, 2);
    EXPECT(weft_norm(FLOATS(3, -4), INFINITY, NULL, 0, false), 0, 4);
    EXPECT(weft_normalize(FLOATS(3, -4), 2, 0, 1e-12), 1e-6, 0.6, -0.8);
    EXPECT(weft_normalize(FLOATS(0, 0), 2, 0, 1e-12), 0, 0, 0);
    EXPECT(weft_dist(FLOATS(1, 2), FLOATS(4, 6), 2), 1e-6, 5);
    EXPECT(weft_cosine_similarity(FLOATS(1, 0), FLOATS(1, 1), 0, 1e-8), 1e-6, sqrt(0.5));
    EXPECT(weft_trace(weft_reshape(FLOATS(1, 2, 3, 4, 5, 6), 2, (int64_t[]){2, 3})), 0, 6);
    v = weft_max_along(x, 0, false, &at);
    EXPECT(v, 0, NAN);
    EXPECT(at, 0, 1);
    EXPECT(weft_aminmax(INTS(4, -2, 9), NULL, 0, false, &at), 0, -2);
    EXPECT(at, 0, 9);
    refuses(WEFT_E_SHAPE, "max: axis 0 is empty", weft_max_along(weft_zeros(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){0}), 0, false, &at));
    assert_int_equal(weft_tensor_status(at), WEFT_E_SHAPE);
    refuses(WEFT_E_SHAPE, "var: axis 0 is named twice", weft_var(x, (int[]){0, -1}, 2, 1, false));
    refuses(WEFT_E_DTYPE, "std", weft_std(INTS(1, 2), &zero, 1, 1, false));
    refuses(WEFT_E_SHAPE, "trace: input has rank 1", weft_trace(x));
    refuses(WEFT_E_VALUE, "norm: p is NaN", weft_norm(x, NAN, NULL, 0, false));
}

/* ---- order ---- */

static void medians_and_quantiles(void **state)
{
    (void)state;
    weft_tensor *at, *x = weft_reshape(FLOATS(4, 1, 3, 2, NAN, 7, 5, 6), 2, (int64_t[]){2, 4});
    EXPECT(weft_median_along(x, 1, false, &at), 0, 2, NAN);
    EXPECT(at, 0, 3, 0);
    EXPECT(weft_nanmedian_along(x, 1, true, &at), 0, 2, 6);
    EXPECT(at, 0, 3, 3);
    EXPECT(weft_nanmedian(FLOATS(NAN, NAN)), 0, NAN);
    EXPECT(weft_median(INTS(5, 1, 4)), 0, 4);
    EXPECT(weft_quantile(FLOATS(4, 1, 3, 2), FLOATS(0, 0.5f, 1, 0.25f), NULL, false), 1e-6, 1, 2.5, 4, 1.75);
    int axis = 0;
    EXPECT(weft_quantile(weft_reshape(FLOATS(0, 10, 4, 30), 2, (int64_t[]){2, 2}), weft_scalar_f32(ctx, 0.5f), &axis, false), 1e-6, 2, 20);
    EXPECT(weft_quantile(x, weft_scalar_f32(ctx, 1), NULL, false), 0, NAN);
    refuses(WEFT_E_SHAPE, "quantile: q has rank 2", weft_quantile(x, x, NULL, false));
}

/* As PyTorch: axis 0 or -1 of a number is there; 1 and two axes are not. */
static void a_number_has_an_axis_where_one_is_named(void **state)
{
    (void)state;
    weft_tensor *x = weft_scalar_f32(ctx, 2);
    for (int axis = -1; axis <= 0; axis++) {
        EXPECT(weft_logsumexp(x, &axis, 1, true), 1e-6, 2);
        EXPECT(weft_var(x, &axis, 1, 0, false), 0, 0);
        EXPECT(weft_std(x, &axis, 1, 1, false), 0, NAN);
        EXPECT(weft_nansum(x, &axis, 1, false), 0, 2);
        EXPECT(weft_any(x, &axis, 1, false), 0, 1);
        EXPECT(weft_all(x, &axis, 1, true), 0, 1);
        EXPECT(weft_count_nonzero(x, &axis, 1, false), 0, 1);
        EXPECT(weft_softmax(x, axis), 0, 1);
        EXPECT(weft_log_softmax(x, axis), 0, 0);
        assert_int_equal(weft_tensor_rank(weft_softmax(x, axis)), 0);
    }
    const int two[2] = {0, -1}, one = 1;
    refuses(WEFT_E_SHAPE, "outside rank 0", weft_var(x, two, 2, 0, false));
    refuses(WEFT_E_SHAPE, "outside rank 0", weft_any(x, &one, 1, false));
    refuses(WEFT_E_SHAPE, "outside rank 0", weft_softmax(x, 1));
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_case, end_case)
    const struct CMUnitTest tests[] = {
        CASE(running_folds_equal_loops_on_every_view), CASE(running_folds_take_every_dtype),
        CASE(running_sums_of_dense_lines_are_those_of_f64), CASE(running_folds_know_their_edges),
        CASE(statistics_equal_f64), CASE(statistics_know_their_edges), CASE(medians_and_quantiles),
        CASE(a_number_has_an_axis_where_one_is_named),
    };
    return cmocka_run_group_tests(tests, open_case, close_case);
}
