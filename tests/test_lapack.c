/* test_lapack.c - decompositions: weft's own code and the LAPACK that is found give factors that multiply back. */
#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lapack.h"

enum { MOST = 12 };
static uint64_t seed = 3;
static double draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(seed >> 11) / 4503599627370496.0 - 1;
}

static void near(const char *what, const wf_lapack *p, int m, int n, double got, double want, double scale)
{
    if (!(fabs(got - want) <= 1e-13 * (m + n) * scale))
        fail_msg("%s of %s, %d x %d: %.17g, expected %.17g", what, p->name, m, n, got, want);
}

/* c [m, n] = a [m, k] b [k, n], column-major; turned: b is [n, k]. */
static void multiply(int m, int n, int k, const double *a, const double *b, bool turned, double *c)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            c[j * m + i] = 0;
            for (int l = 0; l < k; l++)
                c[j * m + i] += a[l * m + i] * (turned ? b[l * n + j] : b[j * k + l]);
        }
}

/* Columns of q [m, n] are orthonormal. */
static void orthonormal(const char *what, const wf_lapack *p, int m, int n, const double *q)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double s = 0;
            for (int k = 0; k < m; k++)
                s += q[i * m + k] * q[j * m + k];
            near(what, p, m, n, s, i == j, 1);
        }
}

/* rank < min(m, n): the last columns repeat the first. */
static void random_matrix(int m, int n, int rank, double *a)
{
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++)
            a[j * m + i] = j < rank ? draw() : a[j % rank * m + i];
}

static void run(const wf_lapack *p, int m, int n, int rank)
{
    double a[MOST * MOST], f[MOST * MOST], q[MOST * MOST], r[MOST * MOST], s[MOST], back[MOST * MOST];
    int64_t pivot[MOST];
    int k = m < n ? m : n;
    random_matrix(m, n, rank, a);
    memcpy(f, a, sizeof f);
    assert_int_equal(p->lu(m, n, f, pivot), 0);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            back[j * m + i] = 0;
            for (int l = 0; l < k && l <= i && l <= j; l++)
                back[j * m + i] += (l == i ? 1 : f[l * m + i]) * f[j * m + l];
        }
    for (int i = k - 1; i >= 0; i--)
        for (int j = 0; j < n; j++) {
            double v = back[j * m + i];
            back[j * m + i] = back[j * m + pivot[i]];
            back[j * m + pivot[i]] = v;
        }
    for (int i = 0; i < m * n; i++)
        near("lu", p, m, n, back[i], a[i], 1);
    for (int full = 0; full < 2; full++) {
        int c = full ? m : k;
        memcpy(f, a, sizeof f);
        assert_int_equal(p->qr(m, n, f, c, q), 0);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < c; i++)
                r[j * c + i] = i <= j ? f[j * m + i] : 0;
        multiply(m, n, c, q, r, false, back);
        for (int i = 0; i < m * n; i++)
            near("qr", p, m, n, back[i], a[i], 1);
        orthonormal("q", p, m, c, q);
        memcpy(f, a, sizeof f);
        assert_int_equal(p->svd(m, n, f, full, q, s, r), 0);
        int rows = full ? n : k;
        for (int i = 0; i < m * n; i++) {
            double v = 0;
            for (int l = 0; l < k; l++)
                v += q[l * m + i % m] * s[l] * r[i / m * rows + l];
            near("svd", p, m, n, v, a[i], 4);
        }
        for (int i = 1; i < k; i++)
            assert_true(s[i] <= s[i - 1] && s[i] >= 0);
        orthonormal("u", p, m, c, q);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < rows; j++)
                f[j * n + i] = r[i * rows + j];
        orthonormal("v", p, n, rows, f);
    }
    if (m != n)
        return;
    double sym[MOST * MOST], w[MOST];
    multiply(n, n, n, a, a, true, sym); /* a a^T: positive where a has full rank */
    memcpy(f, sym, sizeof f);
    assert_int_equal(p->eigh(n, f, w), 0);
    for (int i = 0; i < n * n; i++) {
        double v = 0;
        for (int l = 0; l < n; l++)
            v += f[l * n + i % n] * w[l] * f[l * n + i / n];
        near("eigh", p, n, n, v, sym[i], 16);
    }
    for (int i = 1; i < n; i++)
        assert_true(w[i] >= w[i - 1]);
    orthonormal("eigenvectors", p, n, n, f);
    memcpy(f, sym, sizeof f);
    for (int i = 0; i < n; i++)
        f[i * n + i] += 1;
    assert_int_equal(p->cholesky(n, f), 0);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < j; i++)
            f[j * n + i] = 0;
    multiply(n, n, n, f, f, true, back);
    for (int i = 0; i < n * n; i++)
        near("cholesky", p, n, n, back[i], sym[i] + (i % (n + 1) == 0), 16);
    f[0] = -1;
    assert_int_equal(p->cholesky(n, f), 1);
}

static void run_all(const wf_lapack *p)
{
    for (int m = 1; m <= 9; m += 2)
        for (int n = 1; n <= 9; n += 2) {
            int k = m < n ? m : n;
            run(p, m, n, k);
            run(p, m, n, (k + 1) / 2);
        }
    run(p, MOST, MOST, MOST);
}

static void own_factors_multiply_back(void **state)
{
    (void)state;
    run_all(&wf_lapack_plain);
}

static void found_factors_multiply_back(void **state)
{
    (void)state;
    print_message("LAPACK: %s\n", wf_lapack_get()->name);
    run_all(wf_lapack_get());
}

static void extreme_values_keep_their_digits(void **state)
{
    (void)state;
    double a[4] = {3e200, 4e200, 0, 1e-200}, q[4], s[2], vt[4], w[2];
    assert_int_equal(wf_lapack_plain.svd(2, 2, a, false, q, s, vt), 0);
    assert_true(fabs(s[0] / 5e200 - 1) < 1e-14);
    double zero[4] = {0};
    assert_int_equal(wf_lapack_plain.svd(2, 2, zero, false, q, s, vt), 0);
    orthonormal("u of zeros", &wf_lapack_plain, 2, 2, q);
    assert_int_equal(wf_lapack_plain.eigh(2, zero, w), 0);
    assert_true(w[0] == 0 && w[1] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_factors_multiply_back),
        cmocka_unit_test(found_factors_multiply_back),
        cmocka_unit_test(extreme_values_keep_their_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
