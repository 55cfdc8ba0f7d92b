/* weft/ops_algebra.h - products, einsum and small dense linear algebra; see weft/ops.h for what all operations share.
 *
 * Products take any plain dtype: floats multiply as weft_matmul, integers and bools exactly, in their promoted dtype.
 */
#ifndef WEFT_OPS_ALGEBRA_H
#define WEFT_OPS_ALGEBRA_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- products ---- */

/* [N, K] times [K, M]. */
WEFT_API weft_tensor *weft_mm(weft_tensor *a, weft_tensor *b);
/* [B, N, K] times [B, K, M]; the batches are equal. */
WEFT_API weft_tensor *weft_bmm(weft_tensor *a, weft_tensor *b);
/* [N, K] times [K]. */
WEFT_API weft_tensor *weft_mv(weft_tensor *a, weft_tensor *b);
/* The sum of the products of two vectors of one length. */
WEFT_API weft_tensor *weft_dot(weft_tensor *a, weft_tensor *b);
/* weft_dot: the same for real numbers. */
WEFT_API weft_tensor *weft_vdot(weft_tensor *a, weft_tensor *b);
/* All products of [N] and [M]: [N, M]. */
WEFT_API weft_tensor *weft_outer(weft_tensor *a, weft_tensor *b);
/* Products summed over the last axis of both; a rank-0 operand multiplies. */
WEFT_API weft_tensor *weft_inner(weft_tensor *a, weft_tensor *b);
/* beta x + alpha (a b), where x broadcasts to [N, M]; with beta 0 x is not read. */
WEFT_API weft_tensor *weft_addmm(weft_tensor *x, weft_tensor *a, weft_tensor *b, double beta, double alpha);
/* The same for batches [B, N, K] and [B, K, M]. */
WEFT_API weft_tensor *weft_baddbmm(weft_tensor *x, weft_tensor *a, weft_tensor *b, double beta, double alpha);

/* Einstein summation: "ij,jk->ik". Letters name axes; one that stands twice in an operand takes the diagonal; "..." stands
 * for the axes that no letter names, which broadcast; letters that the result lacks are summed over. Without "->" the result
 * has the axes of "..." and then the letters that occur once, in alphabetical order (upper case first). An extent of 1
 * meets any other, as in PyTorch. Operands are multiplied two at a time, the cheapest pair first.
 *   xs       1 .. 32 tensors of plain dtypes, promoted
 * Errors: WEFT_E_VALUE for an equation that is malformed; WEFT_E_SHAPE when operands do not fit it, or when an intermediate would
 * have more than 8 axes. */
WEFT_API weft_tensor *weft_einsum(const char *equation, weft_tensor *const *xs, int n);
/* Products summed over n pairs of axes: axes_a[i] of a runs with axes_b[i] of b. The result has the other axes of a, then
 * those of b. */
WEFT_API weft_tensor *weft_tensordot(weft_tensor *a, weft_tensor *b, const int *axes_a, const int *axes_b, int n);
/* [.., N, N] to the power n; below 0: of the inverse. */
WEFT_API weft_tensor *weft_matrix_power(weft_tensor *x, int64_t n);
/* The vector product along an axis of extent 3; the operands broadcast. */
WEFT_API weft_tensor *weft_cross(weft_tensor *a, weft_tensor *b, int axis);

/* ---- linear algebra ----
 *
 *   a        [.., M, N], f32 or f64; leading axes are a batch
 *   returns  the dtype of a; everything is computed in f64 and rounded once
 * It runs on the CPU on every device (stats.fallbacks counts), through a LAPACK that is found at run time where there is
 * one (WEFT_LAPACK names a library, or says none), else by weft's own code.
 * Errors: WEFT_E_SHAPE where a is not square but must be, WEFT_E_DTYPE; at evaluation WEFT_E_VALUE for a matrix that is
 * singular (inv, solve), not positive definite (cholesky) or where an iteration does not converge (a NaN or infinity). */

/* L with L L^T = a, lower triangular; upper: U with U^T U = a. One triangle of a is read: the one that is returned. */
WEFT_API weft_tensor *weft_cholesky(weft_tensor *a, bool upper);
/* x with a x = b, a triangular [.., N, N] and b [.., N, K]; not left: x a = b with b [.., K, N]. The other triangle of a is not
 * read; unitriangular: nor is its diagonal, which is 1. A zero on the diagonal gives infinities and NaN. Batches broadcast. */
WEFT_API weft_tensor *weft_solve_triangular(weft_tensor *a, weft_tensor *b, bool upper, bool left, bool unitriangular);
/* P, L and U with a = P L U: P [M, M] a permutation, L [M, K] with a unit diagonal, U [K, N], K = min(M, N). Returns P; l and u
 * receive the others, owned as the result is. */
WEFT_API weft_tensor *weft_lu(weft_tensor *a, weft_tensor **l, weft_tensor **u);
/* Q [M, K] with orthonormal columns and, in *r, the upper triangular R [K, N], with a = Q R; complete: Q [M, M], R [M, N]. */
WEFT_API weft_tensor *weft_qr(weft_tensor *a, bool complete, weft_tensor **r);
/* The determinant of [.., N, N]. */
WEFT_API weft_tensor *weft_det(weft_tensor *a);
/* The sign of the determinant (1, -1 or 0) and, in *log_abs, the logarithm of its absolute value. */
WEFT_API weft_tensor *weft_slogdet(weft_tensor *a, weft_tensor **log_abs);
/* The inverse of [.., N, N]. */
WEFT_API weft_tensor *weft_inv(weft_tensor *a);
/* x with a x = b: a [.., N, N], b [.., N, K], or [N] beside a single matrix. Batches broadcast. */
WEFT_API weft_tensor *weft_solve(weft_tensor *a, weft_tensor *b);
/* Eigenvalues of a symmetric matrix, ascending [.., N], and in *vectors the orthonormal eigenvectors as columns. Only one
 * triangle is read. The sign of a vector is not defined. */
WEFT_API weft_tensor *weft_eigh(weft_tensor *a, bool upper, weft_tensor **vectors);
/* U [M, K], and in *s the singular values in descending order [K], in *vh V^T [K, N], with a = U diag(s) V^T; full_matrices:
 * U [M, M] and V^T [N, N]. The signs of a pair of vectors are not defined. */
WEFT_API weft_tensor *weft_svd(weft_tensor *a, bool full_matrices, weft_tensor **s, weft_tensor **vh);
/* The pseudo-inverse [.., N, M]; singular values of at most rcond times the largest count as 0 (rcond below 0: max(M, N) times the
 * dtype's epsilon). */
WEFT_API weft_tensor *weft_pinv(weft_tensor *a, double rcond);
/* The x of least norm that minimises |a x - b|: a [.., M, N], b [.., M, K]. rcond as in weft_pinv. */
WEFT_API weft_tensor *weft_lstsq(weft_tensor *a, weft_tensor *b, double rcond);

#ifdef __cplusplus
}
#endif
#endif
