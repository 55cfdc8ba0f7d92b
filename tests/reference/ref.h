/* ref.h - an independent reference of every op, for tests: what the documentation says, in f64, by naive loops.
 *
 * It includes nothing of the library, so that a mistake is not made twice. Arrays are strided as in NumPy:
 * views share their elements. Elements are f64 whatever dtype they stand for (ref_round makes a value one
 * of a dtype); sums and functions are computed in long double and rounded once. Arrays live until ref_reset.
 */
#ifndef REF_H
#define REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REF_MAX_RANK = 8, REF_MAX_ARGS = 8 };

/* ---- arrays: ref_array.c ---- */
typedef struct ref_array {
    double *data; /* the element at index 0, .., 0 */
    int rank;
    int64_t shape[REF_MAX_RANK], strides[REF_MAX_RANK];
} ref_array;

void *ref_alloc(size_t size_bytes); /* zeroed, until ref_reset */
void ref_reset(void);
ref_array ref_new(int rank, const int64_t *shape);
ref_array ref_like(const ref_array *a); /* of the same shape */
ref_array ref_scalar(double value);
int64_t ref_count(int rank, const int64_t *shape);
int64_t ref_numel(const ref_array *a);
/* The index of the i-th element in row-major order. */
void ref_index(int rank, const int64_t *shape, int64_t i, int64_t *index);
double *ref_at(const ref_array *a, const int64_t *index);
double *ref_item(const ref_array *a, int64_t i); /* i-th in row-major order */
ref_array ref_permute(ref_array a, const int *axes);
ref_array ref_swap(ref_array a, int axis0, int axis1);
ref_array ref_slice(ref_array a, int axis, int64_t first, int64_t count, int64_t step);
ref_array ref_expand(ref_array a, int rank, const int64_t *shape);
ref_array ref_copy(const ref_array *a);

/* ---- dtypes: ref_dtype.c ---- */
typedef enum ref_dtype {
    REF_F32, REF_F16, REF_BF16, REF_F64, REF_I32, REF_U32, REF_I8, REF_U8, REF_I64, REF_BOOL,
    REF_Q8_0, REF_Q4_0, REF_Q4_1
} ref_dtype;

int ref_dtype_of(const char *name); /* -1: unknown */
bool ref_is_float(ref_dtype t);
double ref_eps(ref_dtype t);        /* unit roundoff; 0 for integers */
double ref_min_normal(ref_dtype t); /* 0 for integers */
double ref_overflow(ref_dtype t);   /* the smallest magnitude that rounds to infinity */
size_t ref_bytes(ref_dtype t, int64_t n);
double ref_round(ref_dtype t, long double v); /* floats to nearest even; integers modulo 2^bits; bool: v != 0 */
double ref_cast(ref_dtype from, ref_dtype to, double v); /* float to integer: truncated, saturating, NaN to 0 */
void ref_encode(ref_dtype t, const double *src, int64_t n, void *dst); /* plain types; values already rounded */
void ref_decode(ref_dtype t, const void *src, int64_t n, double *dst); /* block types too */
ref_dtype ref_promote(ref_dtype a, ref_dtype b);

/* ---- elementwise: ref_pointwise.c ---- */
typedef long double (*ref_fn)(long double a, long double b, long double c);
ref_fn ref_pointwise(const char *name); /* name of op.def; NULL: none. Unused operands are ignored */

/* ---- reductions and rows: ref_reduce.c ---- */
/* name: sum mean prod max min argmax argmin. *scale: the sum (mean) of |x|, of |value| for the others; *length: elements of each. */
ref_array ref_reduce(const char *name, const ref_array *x, uint32_t axes, bool keepdim, ref_array *scale, int64_t *length);
/* name: softmax log_softmax rms_norm layer_norm. weight and bias may be NULL. */
typedef struct ref_row_scales {
    ref_array S;     /* size of the terms the value is summed from */
    ref_array max_x; /* largest |x| of the row, times |weight| for layer_norm */
    ref_array std;   /* of the row (layer_norm) */
} ref_row_scales;
ref_array ref_row(const char *name, const ref_array *x, int axis, const ref_array *weight, const ref_array *bias, double eps,
                  ref_row_scales *scales);

/* ---- matrices: ref_matrix.c ---- */
/* NumPy's matmul. *scale: sum of |a||b|. */
ref_array ref_matmul(const ref_array *a, const ref_array *b, ref_array *scale);
/* x w^T + bias, before the activation; *scale: sum of |x||w|, plus |bias|. */
ref_array ref_linear(const ref_array *x, const ref_array *w, const ref_array *bias, ref_array *scale);

typedef struct ref_attention {
    bool causal, mask_is_bool;
    double scale;          /* 0: 1 / sqrt(D) */
    const ref_array *mask; /* [B, Hq, Tq, Tk] by strides, or NULL */
    int64_t kv_len;        /* below 0: Tk */
    int64_t left, right;   /* of the window, one more; 0: no bound */
    double softcap;        /* 0: none */
    const double *slopes, *sinks; /* one a head, or NULL */
} ref_attention;
/* *max_v, *max_s: largest |v|, and largest sum of |scale q k| + |slope distance| + |mask|, that a row meets. */
ref_array ref_sdpa(const ref_array *q, const ref_array *k, const ref_array *v, const ref_attention *o, ref_array *max_v,
                   ref_array *max_s);

/* ---- indexed: ref_indexed.c ---- */
ref_array ref_iota(int64_t n, double start, double step, ref_array *scale);
ref_array ref_tri(int64_t rows, int64_t cols, int64_t diagonal);
ref_array ref_index_select(const ref_array *x, int axis, const ref_array *index);
ref_array ref_gather(const ref_array *x, int axis, const ref_array *index);
ref_array ref_cat(const ref_array *xs, int n, int axis);
ref_array ref_slice_update(const ref_array *dst, const ref_array *src, int axis, int64_t start);
ref_array ref_topk(const ref_array *x, int64_t k, ref_array *values);

typedef struct ref_rope_opts {
    int64_t dim;  /* 0: all */
    double base, scale; /* 0: 10000, 1 */
    bool interleaved, across_head;
    const float *factors;
    const ref_array *positions; /* [T] or NULL */
    double offset;
} ref_rope_opts;
/* *pair: |the other component| of each; 0 where nothing turns. */
ref_array ref_rope(const ref_array *x, const ref_rope_opts *o, ref_array *pair);

#endif
