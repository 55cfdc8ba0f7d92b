/* ops_linalg.h - cases of test_ops: decompositions, through solutions of systems behind every kind of view. The factors
 * themselves are in test_algebra_linalg.c.
 */
#ifndef OPS_LINALG_H
#define OPS_LINALG_H

#include "ops_case.h"
#include "weft/ops_algebra.h"

/* x of a x = b by elimination; a is dominated by its diagonal. */
static void eliminate(int n, double *a, double *x)
{
    for (int i = 0; i < n; i++)
        for (int r = i + 1; r < n; r++) {
            double f = a[r * n + i] / a[i * n + i];
            for (int c = i; c < n; c++)
                a[r * n + c] -= f * a[i * n + c];
            x[r] -= f * x[i];
        }
    for (int i = n - 1; i >= 0; i--) {
        for (int c = i + 1; c < n; c++)
            x[i] -= a[i * n + c] * x[c];
        x[i] /= a[i * n + i];
    }
}

/* Two systems of n unknowns: row-major, transposed, reversed, or broadcast from one. */
static void linalg_case(const ops_row *op, weft_dtype dtype, int n, int lie)
{
    enum { MOST = 8 };
    double a[2 * MOST * MOST], b[2 * MOST], m[MOST * MOST], x[2 * MOST], got[2 * MOST];
    weft_scope *scope = weft_scope_begin(ctx);
    rng_state = (uint64_t)(n * 64 + lie * 8 + (int)dtype);
    case_number++;
    for (int i = 0; i < 2 * n * n; i++)
        a[i] = rng_unit() * 2 - 1 + (i % (n * n) % (n + 1) == 0 ? n + 1 : 0);
    for (int i = 0; i < 2 * n; i++)
        x[i] = b[i] = (double)(float)rng_unit();
    weft_tensor *ta = weft_tensor_from(ctx, WEFT_DTYPE_F64, 3, (int64_t[]){2, n, n}, a), *tb = weft_tensor_from(ctx, WEFT_DTYPE_F64, 3, (int64_t[]){2, n, 1}, b);
    ta = lie == 1 ? weft_transpose(ta, 1, 2) : lie == 2 ? weft_flip(weft_flip(ta, 1), 2) : lie == 3 ? weft_slice(ta, 0, 0, 1, 1) : ta;
    for (int s = 0; s < 2; s++) {
        const double *from = a + (lie == 3 ? 0 : s) * n * n;
        for (int i = 0; i < n * n; i++) {
            double v = lie == 1 ? from[i % n * n + i / n] : lie == 2 ? from[n * n - 1 - i] : from[i];
            m[i] = dtype == WEFT_DTYPE_F32 ? (float)v : v;
        }
        eliminate(n, m, x + s * n);
    }
    weft_tensor *t = weft_solve(weft_cast(ta, dtype), weft_cast(tb, dtype));
    weft_status st = weft_read_as(t, WEFT_DTYPE_F64, got, sizeof *got * 2 * (size_t)n);
    double eps = dtype == WEFT_DTYPE_F64 ? 0x1p-53 : 0x1p-24;
    for (int i = 0; i < 2 * n && n_failed < 8; i++)
        if (st != WEFT_OK || !(fabs(got[i] - x[i]) <= 64 * n * eps)) {
            print_error("%s: n %d, lie %d, element %d is %.17g, expected %.17g %s\n", op->name, n, lie, i, got[i], x[i], st ? weft_error_message() : "");
            n_failed++;
        }
    weft_scope_end(scope);
}

static void run_linalg(const ops_row *op)
{
    for (int n = 1; n <= 8; n += thrifty ? 7 : 1)
        for (int lie = 0; lie < 4; lie++) {
            linalg_case(op, WEFT_DTYPE_F32, n, lie);
            linalg_case(op, WEFT_DTYPE_F64, n, lie);
        }
}

#endif
