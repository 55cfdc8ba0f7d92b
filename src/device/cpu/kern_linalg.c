/* kern_linalg.c - decompositions of a batch of small matrices: each is read into f64 columns, decomposed, and its results
 * are written row-major one after another. Matrices of the batch are parts of the pool's work.
 */
#include "kern.h"
#include "lapack.h"
#include "linalg.h"

#include <math.h>

typedef struct linalg_job {
    const wf_cpu_run *run;
    const wf_lapack *lapack;
    int kind, flags, n_parts;
    int64_t batch, m, n, k, size; /* size: elements of one matrix's results */
    int64_t rows[3], cols[3], at[3];
    weft_dtype dtype;
    const void *a, *b;
    void *out;
    _Atomic int64_t failed; /* lowest matrix of the batch that failed, batch: none */
    _Atomic int64_t where;  /* at which row or column it did, of the last one that was noted */
} linalg_job;

/* ---- rooms of one matrix ---- */

static double element(const linalg_job *j, const void *p, int64_t i)
{
    return j->dtype == WEFT_DTYPE_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

/* Row-major [rows, cols] of the batch to columns. */
static void read_matrix(const linalg_job *j, const void *from, int64_t index, int64_t rows, int64_t cols, double *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            to[c * rows + r] = element(j, from, (index * rows + r) * cols + c);
}

static void put(const linalg_job *j, int64_t index, int part, int64_t r, int64_t c, double v)
{
    int64_t i = index * j->size + j->at[part] + r * j->cols[part] + c;
    if (j->dtype == WEFT_DTYPE_F64)
        ((double *)j->out)[i] = v;
    else
        ((float *)j->out)[i] = (float)v;
}

/* Columns of `ld` rows to a result; `keep` < 0: below the diagonal 0, > 0: above it. */
static void put_matrix(const linalg_job *j, int64_t index, int part, const double *x, int64_t ld, int keep)
{
    for (int64_t r = 0; r < j->rows[part]; r++)
        for (int64_t c = 0; c < j->cols[part]; c++)
            put(j, index, part, r, c, (keep < 0 && c < r) || (keep > 0 && c > r) ? 0 : x[c * ld + r]);
}

/* ---- what is made of the factors ---- */

static void solve_triangle(int64_t n, const double *a, bool upper, bool unit, int64_t k, double *x)
{
    for (int64_t c = 0; c < k; c++) {
        double *y = x + c * n;
        for (int64_t s = 0; s < n; s++) {
            int64_t i = upper ? n - 1 - s : s;
            if (!unit)
                y[i] /= a[i * n + i];
            for (int64_t r = upper ? 0 : i + 1; r < (upper ? i : n); r++)
                y[r] -= a[i * n + r] * y[i];
        }
    }
}

static void exchange_rows(int64_t n, const int64_t *pivot, int64_t k, double *x)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < k && pivot[i] != i; c++) {
            double v = x[c * n + i];
            x[c * n + i] = x[c * n + pivot[i]];
            x[c * n + pivot[i]] = v;
        }
}

static void put_lu(const linalg_job *j, int64_t index, const double *a, const int64_t *pivot, int64_t *order)
{
    int64_t m = j->m, p = WF_MIN(m, j->n);
    for (int64_t i = 0; i < m; i++)
        order[i] = i;
    for (int64_t i = 0; i < p; i++) {
        int64_t row = order[i];
        order[i] = order[pivot[i]];
        order[pivot[i]] = row;
    }
    for (int64_t r = 0; r < m; r++)
        for (int64_t c = 0; c < m; c++)
            put(j, index, 0, r, c, order[c] == r); /* row order[c] of a came to c */
    for (int64_t r = 0; r < m; r++)
        for (int64_t c = 0; c < p; c++)
            put(j, index, 1, r, c, r == c ? 1 : r > c ? a[c * m + r] : 0);
    put_matrix(j, index, 2, a, m, -1);
}

/* det or slogdet from the factors */
static void put_determinant(const linalg_job *j, int64_t index, const double *a, const int64_t *pivot)
{
    double sign = 1, det = 1, log_abs = 0;
    for (int64_t i = 0; i < j->n; i++) {
        double d = a[i * j->n + i];
        sign *= (pivot[i] != i ? -1 : 1) * (d > 0 ? 1 : d < 0 ? -1 : d);
        log_abs += log(fabs(d));
        det *= pivot[i] != i ? -d : d;
    }
    put(j, index, 0, 0, 0, j->kind == WF_LINALG_DET ? det : sign);
    if (j->kind == WF_LINALG_SLOGDET)
        put(j, index, 1, 0, 0, log_abs);
}

static int64_t with_lu(const linalg_job *j, int64_t index, double *a, double *x, int64_t *pivot)
{
    int64_t m = j->m, n = j->n, k = j->kind == WF_LINALG_INV ? n : j->k, st = j->lapack->lu(m, n, a, pivot);
    if (st)
        return st;
    if (j->kind == WF_LINALG_LU) {
        put_lu(j, index, a, pivot, pivot + WF_MIN(m, n));
        return 0;
    }
    if (j->kind == WF_LINALG_DET || j->kind == WF_LINALG_SLOGDET) {
        put_determinant(j, index, a, pivot);
        return 0;
    }
    for (int64_t i = 0; i < n; i++)
        if (a[i * n + i] == 0)
            return i + 1;
    if (j->kind == WF_LINALG_INV)
        for (int64_t i = 0; i < n * n; i++)
            x[i] = i % (n + 1) == 0;
    exchange_rows(n, pivot, k, x);
    solve_triangle(n, a, false, true, k, x);
    solve_triangle(n, a, true, false, k, x);
    put_matrix(j, index, 0, x, n, 0);
    return 0;
}

static bool all_finite(const double *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return false;
    return true;
}

/* rooms: a [m, n], b [n, k] or the inverse, q and r of the results */
static int64_t decompose(const linalg_job *j, int64_t index, double *a, double *x, double *y, double *z, int64_t *pivot)
{
    int64_t m = j->m, n = j->n, st;
    switch (j->kind) {
    case WF_LINALG_CHOLESKY:
        if ((st = j->lapack->cholesky(n, a)) == 0)
            put_matrix(j, index, 0, a, n, 1);
        return st;
    case WF_LINALG_TRIANGULAR:
        solve_triangle(n, a, (j->flags & WF_LINALG_UPPER) != 0, (j->flags & WF_LINALG_UNIT) != 0, j->k, x);
        put_matrix(j, index, 0, x, n, 0);
        return 0;
    case WF_LINALG_QR:
        if ((st = j->lapack->qr(m, n, a, j->cols[0], y)) == 0) {
            put_matrix(j, index, 0, y, m, 0);
            put_matrix(j, index, 1, a, m, -1);
        }
        return st;
    case WF_LINALG_EIGH:
        if (!all_finite(a, n * n))
            return 1;
        if ((st = j->lapack->eigh(n, a, z)) == 0) {
            put_matrix(j, index, 0, z, 1, 0);
            put_matrix(j, index, 1, a, n, 0);
        }
        return st;
    case WF_LINALG_SVD:
        if (!all_finite(a, m * n))
            return 1;
        if ((st = j->lapack->svd(m, n, a, (j->flags & WF_LINALG_FULL) != 0, y, z, x)) == 0) {
            put_matrix(j, index, 0, y, m, 0);
            put_matrix(j, index, 1, z, 1, 0);
            put_matrix(j, index, 2, x, j->rows[2], 0);
        }
        return st;
    default: return with_lu(j, index, a, x, pivot);
    }
}

static void matrix_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count, (void)worker;
    linalg_job *j = user;
    if (wf_kern_cancelled(j->run))
        return;
    int64_t m = j->m, n = j->n, p = WF_MIN(m, n), second = WF_MAX(n * j->k, n * n), first = m * WF_MAX(j->cols[0], 1);
    double *a = wf_calloc((size_t)(m * n + second + first + p + 4), sizeof *a);
    int64_t *pivot = wf_calloc((size_t)(m + p + 1), sizeof *pivot), st = WF_LAPACK_OOM;
    if (a && pivot) {
        double *x = a + m * n, *y = x + second, *z = y + first;
        read_matrix(j, j->a, index, m, n, a);
        if (j->b)
            read_matrix(j, j->b, index, n, j->k, x);
        st = decompose(j, index, a, x, y, z, pivot);
    }
    wf_free(a);
    wf_free(pivot);
    int64_t before = j->failed;
    while (st && index < before && !atomic_compare_exchange_weak(&j->failed, &before, index))
        ;
    if (st && index < before)
        j->where = st;
}

/* ---- entry ---- */

static weft_status report(const linalg_job *j)
{
    static const char *const names[] = {"cholesky", "solve_triangular", "lu", "qr", "det", "slogdet", "inv", "solve", "eigh", "svd"};
    _Static_assert(WF_COUNT(names) == WF_LINALG_COUNT, "one name a kind");
    long long index = (long long)j->failed, where = (long long)j->where;
    if (j->failed == j->batch)
        return wf_kern_done(j->run);
    if (j->where == WF_LAPACK_OOM)
        return wf_fail(WEFT_E_OOM, "%s: out of memory for a matrix of %lld rows", names[j->kind], (long long)j->m);
    switch (j->kind) {
    case WF_LINALG_CHOLESKY:
        return wf_fail(WEFT_E_VALUE, "cholesky: matrix %lld of the batch is not positive definite: its leading minor of order %lld", index, where);
    case WF_LINALG_EIGH:
    case WF_LINALG_SVD:
        return wf_fail(WEFT_E_VALUE, "%s: matrix %lld of the batch holds a NaN or infinity, or does not converge", names[j->kind], index);
    default:
        return wf_fail(WEFT_E_VALUE, "%s: matrix %lld of the batch is singular: pivot %lld of %lld is 0", names[j->kind], index, where, (long long)j->n);
    }
}

weft_status wf_kern_linalg(const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    const int32_t *w = run->statics;
    if (epilogue)
        return wf_kern_bad("linalg", "takes no epilogue");
    linalg_job j = {.run = run, .lapack = wf_lapack_get(), .kind = w[0], .flags = w[1], .batch = w[2], .m = w[3], .n = w[4], .k = w[5],
                    .dtype = wf_kern_dtype(w[8], 0)};
    bool two = j.kind == WF_LINALG_TRIANGULAR || j.kind == WF_LINALG_SOLVE;
    WF_TRY(wf_kern_binds("linalg", run, 2 + two));
    if (j.kind < 0 || j.kind >= WF_LINALG_COUNT || j.batch < 1 || j.m < 1 || j.n < 1 || j.k < 0 || (two && j.k < 1) ||
        (j.dtype != WEFT_DTYPE_F32 && j.dtype != WEFT_DTYPE_F64))
        return wf_kern_bad("linalg", "kind, extents or dtype");
    j.n_parts = wf_linalg_parts(j.kind, j.flags, j.m, j.n, j.k, j.rows, j.cols);
    for (int i = 0; i < j.n_parts; i++) {
        j.at[i] = j.size;
        j.size += j.rows[i] * j.cols[i];
    }
    size_t bytes = weft_dtype_block_bytes(j.dtype);
    int64_t ea[3] = {j.batch, j.m, j.n}, sa[3] = {j.m * j.n, j.n, 1}, eb[3] = {j.batch, j.n, j.k}, sb[3] = {j.n * j.k, j.k, 1};
    int64_t eo[2] = {j.batch, j.size}, so[2] = {j.size, 1};
    if (!wf_kern_in_range(run->size[0], bytes, w[6], 3, ea, sa) || (two && !wf_kern_in_range(run->size[1], bytes, w[7], 3, eb, sb)) ||
        !wf_kern_in_range(run->size[1 + two], bytes, 0, 2, eo, so))
        return wf_kern_bad("linalg", "an operand leaves its binding");
    j.a = (const char *)run->ptr[0] + (size_t)w[6] * bytes;
    j.b = two ? (const char *)run->ptr[1] + (size_t)w[7] * bytes : NULL;
    j.out = run->ptr[1 + two];
    atomic_init(&j.failed, j.batch);
    atomic_init(&j.where, 0);
    wf_pool_run(run->pool, matrix_part, &j, j.batch);
    return report(&j);
}
