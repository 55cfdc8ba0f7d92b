/* lapack_plain.c - weft's own decompositions, for when no LAPACK is found: Cholesky, LU with partial pivoting, Householder
 * QR, and Jacobi rotations for eigenvalues and singular values. Column-major, f64.
 *
 * Golub and Van Loan, Matrix Computations, 4th ed.: algorithms 4.2.1, 3.4.1, 5.2.1, 8.5.3 and section 8.6.3.
 */
#include "lapack.h"

#include <math.h>

#define NOISE 2.220446049250313e-16 /* 2^-52: a column this small beside the matrix has no direction */
enum { SWEEPS = 60 }; /* Jacobi converges quadratically: 6 to 10 are usual */

static int64_t cholesky(int64_t n, double *a)
{
    for (int64_t j = 0; j < n; j++) {
        double d = a[j * n + j];
        for (int64_t k = 0; k < j; k++)
            d -= a[k * n + j] * a[k * n + j];
        if (!(d > 0) || isinf(d))
            return j + 1;
        d = sqrt(d);
        a[j * n + j] = d;
        for (int64_t i = j + 1; i < n; i++) {
            double v = a[j * n + i];
            for (int64_t k = 0; k < j; k++)
                v -= a[k * n + i] * a[k * n + j];
            a[j * n + i] = v / d;
        }
    }
    return 0;
}

static int64_t lu(int64_t m, int64_t n, double *a, int64_t *pivot)
{
    for (int64_t j = 0; j < WF_MIN(m, n); j++) {
        int64_t best = j;
        for (int64_t i = j + 1; i < m; i++)
            if (fabs(a[j * m + i]) > fabs(a[j * m + best]))
                best = i;
        pivot[j] = best;
        for (int64_t c = 0; c < n && best != j; c++) {
            double v = a[c * m + j];
            a[c * m + j] = a[c * m + best];
            a[c * m + best] = v;
        }
        if (a[j * m + j] == 0)
            continue;
        for (int64_t i = j + 1; i < m; i++)
            a[j * m + i] /= a[j * m + j];
        for (int64_t c = j + 1; c < n; c++)
            for (int64_t i = j + 1; i < m; i++)
                a[c * m + i] -= a[j * m + i] * a[c * m + j];
    }
    return 0;
}

static double dot(int64_t n, const double *x, const double *y)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += x[i] * y[i];
    return s;
}

/* Norm without overflow. */
static double norm(int64_t n, const double *x)
{
    double most = 0, s = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    if (most == 0 || !isfinite(most))
        return most;
    for (int64_t i = 0; i < n; i++)
        s += x[i] / most * (x[i] / most);
    return most * sqrt(s);
}

/* y -= tau v (v . y), where v[0] stands for 1. */
static void reflect(int64_t n, const double *v, double tau, double *y)
{
    double s = tau * (y[0] + dot(n - 1, v + 1, y + 1));
    y[0] -= s;
    for (int64_t i = 1; i < n; i++)
        y[i] -= s * v[i];
}

static int64_t qr(int64_t m, int64_t n, double *a, int64_t q_cols, double *q)
{
    int64_t p = WF_MIN(m, n);
    double *tau = wf_calloc((size_t)p + 1, sizeof *tau);
    if (!tau)
        return WF_LAPACK_OOM;
    for (int64_t j = 0; j < p; j++) {
        double *x = a + j * m + j, rest = norm(m - j - 1, x + 1);
        if (rest == 0)
            continue;
        double beta = -copysign(hypot(x[0], rest), x[0]);
        tau[j] = (beta - x[0]) / beta;
        for (int64_t i = 1; i < m - j; i++)
            x[i] /= x[0] - beta;
        for (int64_t c = j + 1; c < n; c++)
            reflect(m - j, x, tau[j], a + c * m + j);
        x[0] = beta;
    }
    memset(q, 0, sizeof *q * (size_t)(m * q_cols));
    for (int64_t c = 0; c < q_cols; c++) {
        q[c * m + c] = 1;
        for (int64_t j = WF_MIN(c, p - 1); j >= 0; j--)
            reflect(m - j, a + j * m + j, tau[j], q + c * m + j);
    }
    wf_free(tau);
    return 0;
}

static void rotate(int64_t n, double *x, double *y, double c, double s)
{
    for (int64_t i = 0; i < n; i++) {
        double v = x[i];
        x[i] = c * v - s * y[i];
        y[i] = s * v + c * y[i];
    }
}

/* cos and sin that make the symmetric [[p, r], [r, q]] diagonal. */
static void angle(double p, double q, double r, double *c, double *s)
{
    double tau = (q - p) / (2 * r), t = copysign(1, tau) / (fabs(tau) + sqrt(1 + tau * tau));
    if (isinf(tau * tau))
        t = 1 / (2 * tau);
    *c = 1 / sqrt(1 + t * t);
    *s = t * *c;
}

static void swap_columns(int64_t n, double *x, double *y)
{
    for (int64_t i = 0; i < n; i++) {
        double v = x[i];
        x[i] = y[i];
        y[i] = v;
    }
}

static int64_t eigh(int64_t n, double *a, double *w)
{
    double *b = wf_calloc((size_t)(n * n) + 1, sizeof *b), total = 0;
    if (!b)
        return WF_LAPACK_OOM;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j; i < n; i++)
            b[j * n + i] = b[i * n + j] = a[j * n + i];
    memset(a, 0, sizeof *a * (size_t)(n * n));
    for (int64_t i = 0; i < n; i++)
        a[i * n + i] = 1;
    total = norm(n * n, b);
    bool turned = true;
    for (int sweep = 0; turned && sweep < SWEEPS; sweep++) {
        turned = false;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double r = b[q * n + p], c, s;
                if (fabs(r) <= 1e-17 * total || r == 0)
                    continue;
                turned = true;
                angle(b[p * n + p], b[q * n + q], r, &c, &s);
                rotate(n, b + p * n, b + q * n, c, s);
                for (int64_t i = 0; i < n; i++) { /* the same for the rows */
                    double v = b[i * n + p];
                    b[i * n + p] = c * v - s * b[i * n + q];
                    b[i * n + q] = s * v + c * b[i * n + q];
                }
                rotate(n, a + p * n, a + q * n, c, s);
            }
    }
    for (int64_t i = 0; i < n; i++)
        w[i] = b[i * n + i];
    wf_free(b);
    for (int64_t i = 0; i < n; i++) {
        int64_t least = i;
        for (int64_t j = i + 1; j < n; j++)
            least = w[j] < w[least] ? j : least;
        swap_columns(1, &w[i], &w[least]);
        if (least != i)
            swap_columns(n, a + i * n, a + least * n);
    }
    return turned ? 1 : 0;
}

/* Fills columns `from` .. `to` - 1 of q [m, to] with an orthonormal completion of the columns before them. */
static void complete(int64_t m, double *q, int64_t from, int64_t to)
{
    int64_t unit = 0;
    for (int64_t c = from; c < to && unit < m; unit++) {
        double *x = q + c * m;
        memset(x, 0, sizeof *x * (size_t)m);
        x[unit] = 1;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t k = 0; k < c; k++) {
                double s = dot(m, q + k * m, x);
                for (int64_t i = 0; i < m; i++)
                    x[i] -= s * q[k * m + i];
            }
        double length = norm(m, x);
        if (length < 1e-3 / sqrt((double)m)) /* unit vectors span all: one in m is longer than 1/sqrt(m) */
            continue;
        for (int64_t i = 0; i < m; i++)
            x[i] /= length;
        c++;
    }
}

/* m >= n: columns of a are rotated until they are orthogonal; v [n, n] collects the rotations. */
static int64_t tall_svd(int64_t m, int64_t n, double *a, double *s, double *v)
{
    memset(v, 0, sizeof *v * (size_t)(n * n));
    for (int64_t i = 0; i < n; i++)
        v[i * n + i] = 1;
    const double total = norm(m * n, a), close = 1e-15 * sqrt((double)m);
    bool turned = true;
    for (int sweep = 0; turned && sweep < SWEEPS; sweep++) {
        turned = false;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                double *x = a + p * m, *y = a + q * m, c, t;
                double pp = dot(m, x, x), qq = dot(m, y, y), r = dot(m, x, y);
                if (fabs(r) <= close * sqrt(pp) * sqrt(qq) || sqrt(WF_MIN(pp, qq)) <= NOISE * total)
                    continue; /* orthogonal, or nothing but rounding */
                turned = true;
                angle(pp, qq, r, &c, &t);
                rotate(m, x, y, c, t);
                rotate(n, v + p * n, v + q * n, c, t);
            }
    }
    for (int64_t i = 0; i < n; i++)
        s[i] = norm(m, a + i * m);
    for (int64_t i = 0; i < n; i++) {
        int64_t most = i;
        for (int64_t j = i + 1; j < n; j++)
            most = s[j] > s[most] ? j : most;
        swap_columns(1, &s[i], &s[most]);
        if (most != i) {
            swap_columns(m, a + i * m, a + most * m);
            swap_columns(n, v + i * n, v + most * n);
        }
    }
    return turned ? 1 : 0;
}

static void transpose(int64_t m, int64_t n, const double *a, double *out)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            out[i * n + j] = a[j * m + i];
}

/* a = W diag(s) Z^T with the tall side first; scaled so that squares neither overflow nor vanish. */
static int64_t svd(int64_t m, int64_t n, double *a, bool full, double *u, double *s, double *vt)
{
    int64_t p = WF_MIN(m, n), big = WF_MAX(m, n), filled = 0;
    bool wide = n > m;
    double *w = wf_calloc((size_t)(big * (full ? big : p)) + 1, sizeof *w), *z = wf_calloc((size_t)(p * p) + 1, sizeof *z), most = 0;
    int64_t st = w && z ? 0 : WF_LAPACK_OOM;
    for (int64_t i = 0; i < m * n; i++)
        most = fmax(most, fabs(a[i]));
    double scale = most > 0 ? most : 1;
    for (int64_t i = 0; i < m * n; i++)
        a[i] /= scale;
    if (st == 0) {
        if (wide)
            transpose(m, n, a, w);
        else
            memcpy(w, a, sizeof *w * (size_t)(m * n));
        st = tall_svd(big, p, w, s, z);
        for (; filled < p && s[filled] > NOISE * s[0] * (double)big; filled++)
            for (int64_t i = 0; i < big; i++)
                w[filled * big + i] /= s[filled];
        complete(big, w, filled, full ? big : p);
        for (int64_t i = 0; i < p; i++)
            s[i] *= scale;
        if (wide) { /* a^T = w s z^T: u = z, vt = w^T */
            memcpy(u, z, sizeof *u * (size_t)(p * p));
            transpose(big, full ? big : p, w, vt);
        } else {
            memcpy(u, w, sizeof *u * (size_t)(big * (full ? big : p)));
            transpose(p, p, z, vt);
        }
    }
    wf_free(w);
    wf_free(z);
    return st;
}

const wf_lapack wf_lapack_plain = {"plain", cholesky, lu, qr, eigh, svd};
