/* lapack.h - decompositions of one matrix in f64, column-major without gaps: a LAPACK found at run time, or
 * weft's own. Every function returns 0, or a positive number that says where it failed.
 */
#ifndef WF_LAPACK_H
#define WF_LAPACK_H

#include "base.h"

typedef struct wf_lapack {
    const char *name; /* "liblapack.so.3", "plain" */
    /* Lower triangle of a to L with L L^T = a; the column that is not positive, from 1. */
    int64_t (*cholesky)(int64_t n, double *a);
    /* a [m, n] to L and U; row i was exchanged with row pivot[i]. 0 always. */
    int64_t (*lu)(int64_t m, int64_t n, double *a, int64_t *pivot);
    /* a [m, n] to R in its upper triangle, and Q [m, q_cols], where min(m, n) <= q_cols <= m. */
    int64_t (*qr)(int64_t m, int64_t n, double *a, int64_t q_cols, double *q);
    /* Symmetric, lower triangle read: a to eigenvectors, w ascending. */
    int64_t (*eigh)(int64_t n, double *a, double *w);
    /* u [m, full ? m : min], s [min] descending, vt [full ? n : min, n]; a is destroyed. */
    int64_t (*svd)(int64_t m, int64_t n, double *a, bool full, double *u, double *s, double *vt);
} wf_lapack;

/* WEFT_LAPACK names a library, or says none; without it the usual names are tried. Never NULL. */
const wf_lapack *wf_lapack_get(void);
weft_status wf_lapack_check(void); /* of WEFT_LAPACK: "none", or a library that is there */
extern const wf_lapack wf_lapack_plain; /* lapack_plain.c */

#define WF_LAPACK_OOM INT64_MAX

#endif
