/* test_algebra_linalg.c - the builders of linear algebra: results by known values and by multiplying back; errors at the call and at
 * evaluation.
 */
#include <math.h>
#include <stdio.h>

#include "base.h"
#include "scope_fixture.h"
#include "weft/ops_convolution.h"

static weft_tensor *tensor(int rank, const int64_t *shape, const float *v)
{
    return weft_tensor_from(ctx, WEFT_DTYPE_F32, rank, shape, v);
}

static void expect(const char *what, weft_tensor *t, int64_t n, const double *want, double bound)
{
    double got[256];
    assert_true(n <= 256);
    if (weft_tensor_status(t) != WEFT_OK)
        fail_msg("%s: %s", what, weft_tensor_message(t));
    assert_int_equal(weft_tensor_numel(t), n);
    if (weft_read_as(t, WEFT_DTYPE_F64, got, (size_t)n * 8) != WEFT_OK)
        fail_msg("%s: %s", what, weft_error_message());
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= bound) && got[i] != want[i])
            fail_msg("%s: element %lld is %.9g, expected %.9g", what, (long long)i, got[i], want[i]);
}

static void same(const char *what, weft_tensor *a, weft_tensor *b, double bound)
{
    double want[256];
    int64_t n = weft_tensor_numel(b);
    assert_true(n <= 256);
    if (weft_read_as(b, WEFT_DTYPE_F64, want, (size_t)n * 8) != WEFT_OK)
        fail_msg("%s: %s", what, weft_error_message());
    expect(what, a, n, want, bound);
}

/* [2, 3, 3], well conditioned */
static const float two[18] = {4, -2, 1, 3, 6, -4, 2, 1, 8, 1, 5, 2, -3, 2, 7, 6, -1, 1};
static weft_tensor *batch(void) { return tensor(3, (int64_t[]){2, 3, 3}, two); }
static weft_tensor *identity(void)
{
    return weft_matrix_power(batch(), 0);
}
static weft_tensor *turned(weft_tensor *x) { return weft_transpose(x, -1, -2); }
static weft_tensor *symmetric(void) { return weft_matmul(batch(), turned(batch())); }

#define E 3e-6 /* 16 unit roundoffs of f32 for entries of at most 12 */

static void factors_multiply_back(void **state)
{
    (void)state;
    weft_tensor *a = batch(), *l, *u, *r, *s, *vh, *v;
    weft_tensor *p = weft_lu(a, &l, &u);
    same("lu", weft_matmul(weft_matmul(p, l), u), a, E);
    weft_tensor *q = weft_qr(a, false, &r);
    same("qr", weft_matmul(q, r), a, 4 * E);
    same("q", weft_matmul(turned(q), q), identity(), E);
    weft_tensor *w = weft_svd(a, false, &s, &vh);
    same("svd", weft_matmul(weft_mul(w, weft_unsqueeze(s, -2)), vh), a, 4 * E);
    weft_tensor *c = weft_cholesky(symmetric(), false);
    same("cholesky", weft_matmul(c, turned(c)), symmetric(), 64 * E);
    same("upper cholesky", weft_cholesky(symmetric(), true), turned(c), 16 * E);
    weft_tensor *e = weft_eigh(symmetric(), false, &v);
    same("eigh", weft_matmul(weft_mul(v, weft_unsqueeze(e, -2)), turned(v)), symmetric(), 64 * E);
    same("inv", weft_matmul(weft_inv(a), a), identity(), E);
    same("inverse power", weft_matmul(weft_matrix_power(a, -2), weft_matmul(a, a)), identity(), 32 * E);
}

static void tall_and_wide_factors_multiply_back(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++)
        for (int full = 0; full < 2; full++) {
            weft_tensor *a = tensor(2, wide ? (int64_t[]){3, 5} : (int64_t[]){5, 3}, two), *r, *s, *vh, *l, *u;
            int64_t p = 3;
            weft_tensor *q = weft_qr(a, full, &r);
            same("qr", weft_matmul(q, r), a, 4 * E);
            weft_tensor *w = weft_svd(a, full, &s, &vh);
            weft_tensor *cut = weft_mul(weft_slice(w, 1, 0, p, 1), s);
            same("svd", weft_matmul(cut, weft_slice(vh, 0, 0, p, 1)), a, 4 * E);
            assert_int_equal(weft_tensor_dim(w, 1), full && !wide ? 5 : 3);
            weft_tensor *perm = weft_lu(a, &l, &u);
            same("lu", weft_matmul(weft_matmul(perm, l), u), a, E);
            weft_tensor *inverse = weft_pinv(a, -1);
            same("pinv", weft_matmul(weft_matmul(a, inverse), a), a, 16 * E);
        }
}

static void solutions_solve(void **state)
{
    (void)state;
    weft_tensor *a = batch(), *b = tensor(2, (int64_t[]){3, 2}, (float[]){1, 2, 3, 4, 5, 6}), *v = tensor(1, (int64_t[]){3}, (float[]){1, -2, 3});
    weft_tensor *x = weft_solve(a, b);
    same("solve", weft_matmul(a, x), weft_expand(b, 3, (int64_t[]){2, 3, 2}), E);
    weft_tensor *a0 = weft_squeeze(weft_slice(a, 0, 0, 1, 1), 0);
    weft_tensor *y = weft_solve(a0, v);
    assert_int_equal(weft_tensor_rank(y), 1);
    same("solve vector", weft_matmul(a0, y), v, E);
    weft_tensor *low = tensor(2, (int64_t[]){3, 3}, (float[]){2, 9, 9, 1, 4, 9, 3, -1, 5});
    expect("lower", weft_solve_triangular(low, weft_unsqueeze(v, 1), false, true, false), 3, (double[]){0.5, -0.625, 0.175}, 1e-7);
    weft_tensor *up = turned(low);
    expect("upper", weft_solve_triangular(up, weft_unsqueeze(v, 1), true, true, false), 3, (double[]){-0.225, -0.35, 0.6}, 1e-7);
    expect("right", weft_solve_triangular(low, weft_unsqueeze(v, 0), false, false, false), 3, (double[]){-0.225, -0.35, 0.6}, 1e-7);
    expect("unit", weft_solve_triangular(low, weft_unsqueeze(v, 1), false, true, true), 3, (double[]){1, -3, -3}, 0);
    weft_tensor *zero = tensor(2, (int64_t[]){2, 2}, (float[]){0, 0, 0, 1});
    expect("a zero on the diagonal", weft_solve_triangular(zero, tensor(2, (int64_t[]){2, 1}, (float[]){1, 1}), true, true, false), 2,
           (double[]){INFINITY, 1}, 0);
    /* least squares of a line through 4 points */
    weft_tensor *t = tensor(2, (int64_t[]){4, 2}, (float[]){0, 1, 1, 1, 2, 1, 3, 1});
    expect("lstsq", weft_lstsq(t, tensor(2, (int64_t[]){4, 1}, (float[]){-1, 0.2f, 0.9f, 2.1f}), -1), 2, (double[]){1, -0.95}, 1e-6);
}

static void determinants_have_their_sign(void **state)
{
    (void)state;
    double det[2];
    for (int i = 0; i < 2; i++) {
        const float *m = two + 9 * i;
        det[i] = m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) + m[2] * (m[3] * m[7] - m[4] * m[6]);
    }
    expect("det", weft_det(batch()), 2, det, 1e-4);
    weft_tensor *log_abs, *sign = weft_slogdet(batch(), &log_abs);
    expect("sign", sign, 2, (double[]){copysign(1, det[0]), copysign(1, det[1])}, 0);
    expect("log", log_abs, 2, (double[]){log(fabs(det[0])), log(fabs(det[1]))}, 1e-5);
    weft_tensor *singular = tensor(2, (int64_t[]){2, 2}, (float[]){1, 2, 2, 4});
    expect("det of a singular matrix", weft_det(singular), 1, (double[]){0}, 0);
    sign = weft_slogdet(singular, &log_abs);
    expect("its sign", sign, 1, (double[]){0}, 0);
    expect("its logarithm", log_abs, 1, (double[]){-INFINITY}, 0);
    weft_tensor *turn = tensor(2, (int64_t[]){2, 2}, (float[]){0, 1, 1, 0});
    expect("det of an exchange", weft_det(turn), 1, (double[]){-1}, 0);
    expect("det of nothing", weft_det(weft_zeros(ctx, WEFT_DTYPE_F64, 2, (int64_t[]){0, 0})), 1, (double[]){1}, 0);
    expect("f64", weft_det(weft_cast(batch(), WEFT_DTYPE_F64)), 2, det, 1e-11);
}

static void nothing_decomposes_to_nothing(void **state)
{
    (void)state;
    weft_tensor *r, *s, *vh, *a = weft_zeros(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){3, 0});
    weft_tensor *q = weft_qr(a, true, &r);
    expect("q", q, 9, (double[]){1, 0, 0, 0, 1, 0, 0, 0, 1}, 0);
    assert_int_equal(weft_tensor_dim(r, 0), 3);
    weft_tensor *u = weft_svd(a, false, &s, &vh);
    assert_int_equal(weft_tensor_numel(u) + weft_tensor_numel(s) + weft_tensor_numel(vh), 0);
    weft_tensor *inverse = weft_pinv(a, -1);
    assert_int_equal(weft_tensor_dim(inverse, 1), 3);
    assert_int_equal(weft_eval(&inverse, 1), WEFT_OK);
    weft_tensor *none = weft_inv(weft_zeros(ctx, WEFT_DTYPE_F32, 3, (int64_t[]){0, 2, 2}));
    assert_int_equal(weft_eval(&none, 1), WEFT_OK);
}

static void fails_at_evaluation(weft_tensor *t, const char *part)
{
    if (weft_tensor_status(t) != WEFT_OK)
        fail_msg("%s", weft_tensor_message(t));
    weft_status st = weft_eval(&t, 1);
    if (st != WEFT_E_VALUE || !strstr(weft_error_message(), part))
        fail_msg("status %d \"%s\", expected \"%s\"", (int)st, weft_error_message(), part);
}

static void is_error(weft_tensor *t, weft_status st, const char *part)
{
    if (weft_tensor_status(t) != st || !strstr(weft_tensor_message(t), part))
        fail_msg("status %d \"%s\", expected %d with \"%s\"", (int)weft_tensor_status(t), weft_tensor_message(t), (int)st, part);
}

static void singular_matrices_are_errors_at_evaluation(void **state)
{
    (void)state;
    weft_tensor *a = tensor(3, (int64_t[]){2, 2, 2}, (float[]){1, 0, 0, 1, 1, 2, 2, 4});
    fails_at_evaluation(weft_inv(a), "inv: matrix 1 of the batch is singular: pivot 2 of 2 is 0");
    fails_at_evaluation(weft_solve(a, a), "solve: matrix 1");
    fails_at_evaluation(weft_cholesky(weft_neg(a), false), "matrix 0 of the batch is not positive definite: its leading minor of order 1");
    weft_tensor *v, *nan = weft_full(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){2, 2}, NAN);
    fails_at_evaluation(weft_eigh(nan, false, &v), "NaN");
    fails_at_evaluation(weft_svd(nan, false, NULL, NULL), "NaN");
    weft_tensor *fine = weft_inv(weft_slice(a, 0, 0, 1, 1)); /* the context goes on */
    assert_int_equal(weft_eval(&fine, 1), WEFT_OK);
}

static void wrong_arguments_say_what_is_wrong(void **state)
{
    (void)state;
    weft_tensor *a = tensor(2, (int64_t[]){2, 3}, two), *sq = tensor(2, (int64_t[]){3, 3}, two), *x = NULL;
    is_error(weft_inv(a), WEFT_E_SHAPE, "inv: input is [2, 3], expected square matrices");
    is_error(weft_det(tensor(1, (int64_t[]){3}, two)), WEFT_E_SHAPE, "det: input is [3], expected [.., M, N]");
    is_error(weft_cholesky(weft_cast(sq, WEFT_DTYPE_I32), false), WEFT_E_DTYPE, "i32, expected f32 or f64");
    is_error(weft_solve(sq, a), WEFT_E_SHAPE, "right side [2, 3], expected 3 rows");
    is_error(weft_solve(sq, weft_cast(sq, WEFT_DTYPE_F64)), WEFT_E_DTYPE, "right side f64");
    is_error(weft_solve_triangular(sq, turned(a), true, false, false), WEFT_E_SHAPE, "expected 3 columns");
    is_error(weft_svd(NULL, false, &x, NULL), WEFT_E_CONTEXT, "");
    is_error(x, WEFT_E_CONTEXT, "");
    is_error(weft_solve(weft_expand(sq, 3, (int64_t[]){2, 3, 3}), weft_expand(sq, 3, (int64_t[]){4, 3, 3})), WEFT_E_SHAPE, "broadcast");
    is_error(weft_pinv(sq, NAN), WEFT_E_VALUE, "NaN");
}

/* Every allocation fails once: an error, never a crash, and nothing is lost. */
static weft_status build_and_run(void)
{
    weft_scope *s = weft_scope_begin(ctx);
    if (!s)
        return WEFT_E_OOM;
    weft_tensor *a = batch(), *index = NULL, *vh = NULL, *out[8];
    weft_tensor *image = weft_reshape(a, 4, (int64_t[]){1, 2, 3, 3}), *kernel = weft_slice(image, 3, 0, 2, 1);
    out[0] = weft_conv2d(image, kernel, &(weft_conv_opts){.padding = {1, 1}});
    out[1] = weft_conv_transpose2d(image, weft_transpose(kernel, 0, 1), &(weft_conv_opts){.stride = {2, 1}, .groups = 2});
    out[2] = weft_max_pool2d(image, (int64_t[]){2, 2}, &(weft_pool_opts){.padding = {1, 0}, .indices = &index});
    out[3] = index;
    out[4] = weft_adaptive_avg_pool2d(image, (int64_t[]){2, 2});
    out[5] = weft_einsum("bij,bjk,bkk->ik", (weft_tensor *[]){a, a, a}, 3);
    out[6] = weft_svd(a, true, NULL, &vh);
    out[7] = weft_interpolate(image, &(weft_interpolate_opts){.size = (int64_t[]){5, 2}, .mode = WEFT_LINEAR});
    weft_status st = weft_eval(out, 8);
    weft_scope_end(s);
    return st;
}

static void every_failed_allocation_gives_an_error_and_no_leak(void **state)
{
    (void)state;
    if (getenv("WEFT_TEST_DEVICE"))
        skip();
    if (build_and_run() != WEFT_OK) /* and what is kept for reuse is there */
        fail_msg("%s", weft_error_message());
    uint64_t before = wf_alloc_live();
    int failures = 0;
    for (uint64_t n = 1; n < 4000; n++) {
        wf_alloc_fail_nth(n);
        weft_status st = build_and_run();
        wf_alloc_fail_nth(0);
        failures += st != WEFT_OK;
        if (st != WEFT_OK && st != WEFT_E_OOM)
            fail_msg("allocation %d: status %d: %s", (int)n, (int)st, weft_error_message());
    }
    assert_true(failures > 10);
    assert_true(wf_alloc_live() <= before + 64); /* lists of free handles may have grown */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(factors_multiply_back, begin, end),
        cmocka_unit_test_setup_teardown(tall_and_wide_factors_multiply_back, begin, end),
        cmocka_unit_test_setup_teardown(solutions_solve, begin, end),
        cmocka_unit_test_setup_teardown(determinants_have_their_sign, begin, end),
        cmocka_unit_test_setup_teardown(nothing_decomposes_to_nothing, begin, end),
        cmocka_unit_test_setup_teardown(singular_matrices_are_errors_at_evaluation, begin, end),
        cmocka_unit_test_setup_teardown(wrong_arguments_say_what_is_wrong, begin, end),
        cmocka_unit_test(every_failed_allocation_gives_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
