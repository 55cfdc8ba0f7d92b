/* linalg.h - what a LINALG node computes, and how its results lie one after another in its output: core builds the
 * node and takes the results apart, the CPU device fills them in.
 */
#ifndef WF_LINALG_H
#define WF_LINALG_H

#include "base.h"

typedef enum wf_linalg_kind {
    WF_LINALG_CHOLESKY,   /* L */
    WF_LINALG_TRIANGULAR, /* x of a x = b */
    WF_LINALG_LU,         /* P, L, U */
    WF_LINALG_QR,         /* Q, R */
    WF_LINALG_DET,
    WF_LINALG_SLOGDET,    /* sign, logarithm */
    WF_LINALG_INV,
    WF_LINALG_SOLVE,      /* x of a x = b */
    WF_LINALG_EIGH,       /* eigenvalues, eigenvectors */
    WF_LINALG_SVD,        /* U, S, V^T */
    WF_LINALG_COUNT
} wf_linalg_kind;

enum {
    WF_LINALG_UPPER = 1, /* TRIANGULAR: the upper triangle is read */
    WF_LINALG_UNIT = 2,  /* TRIANGULAR: the diagonal is 1 */
    WF_LINALG_FULL = 4   /* QR: Q is [m, m]; SVD: U is [m, m] and V^T [n, n] */
};

/* Rows and columns of each result for a [m, n] and b [n, k]; the count of them. */
static inline int wf_linalg_parts(int kind, int flags, int64_t m, int64_t n, int64_t k, int64_t rows[3], int64_t cols[3])
{
    const int64_t p = WF_MIN(m, n);
    const bool full = (flags & WF_LINALG_FULL) != 0;
#define WF_PART(i, r, c) (rows[i] = (r), cols[i] = (c))
    switch (kind) {
    case WF_LINALG_TRIANGULAR:
    case WF_LINALG_SOLVE: WF_PART(0, n, k); return 1;
    case WF_LINALG_LU: WF_PART(0, m, m), WF_PART(1, m, p), WF_PART(2, p, n); return 3;
    case WF_LINALG_QR: WF_PART(0, m, full ? m : p), WF_PART(1, full ? m : p, n); return 2;
    case WF_LINALG_DET: WF_PART(0, 1, 1); return 1;
    case WF_LINALG_SLOGDET: WF_PART(0, 1, 1), WF_PART(1, 1, 1); return 2;
    case WF_LINALG_EIGH: WF_PART(0, 1, n), WF_PART(1, n, n); return 2;
    case WF_LINALG_SVD: WF_PART(0, m, full ? m : p), WF_PART(1, 1, p), WF_PART(2, full ? n : p, n); return 3;
    default: WF_PART(0, n, n); return 1;
    }
#undef WF_PART
}

#endif
