/* weft/tensor.h - tensors, scopes, evaluation and reading.
 *
 * A tensor is a handle on an immutable value that may not have been computed yet. Handles are
 * reference counted. A builder returns a new handle that belongs to the innermost scope of this
 * thread and context (weft_keep moves it out), or to the caller when no scope is open.
 * A builder never returns NULL: bad input gives an error tensor, which passes through every further
 * operation and is reported by weft_eval, weft_read and weft_tensor_status.
 */
#ifndef WEFT_TENSOR_H
#define WEFT_TENSOR_H

#include "weft/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most axes a tensor can have. */
#define WEFT_MAX_RANK 8

typedef struct weft_tensor weft_tensor;
typedef struct weft_scope weft_scope;

/* ---- scopes ---- */

/* Begin a scope on this thread. End it with weft_scope_end, innermost first; NULL is a no-op there.
 * NULL when memory is out: new handles would then belong to the enclosing scope or the caller. */
WEFT_API weft_scope *weft_scope_begin(weft_ctx *ctx);
WEFT_API void weft_scope_end(weft_scope *scope);

/* Move a handle out of its scope: the caller now owns one reference. Returns `t`. */
WEFT_API weft_tensor *weft_keep(weft_tensor *t);
WEFT_API weft_tensor *weft_tensor_retain(weft_tensor *t);
WEFT_API void weft_tensor_release(weft_tensor *t); /* NULL is a no-op */

/* ---- leaves ---- */

/* A tensor with the caller's data, copied at once.
 *   data  row-major elements; block types: rank >= 1, shape[rank-1] a multiple of the block, GGUF blocks
 * Errors: SHAPE (rank, negative extents, overflow, block multiple), DTYPE, OOM. */
WEFT_API weft_tensor *weft_tensor_from(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, const void *data);

/* Every element 0, or `value` converted to dtype as a cast does. Not for block types.
 * Errors: SHAPE, DTYPE, OOM. */
WEFT_API weft_tensor *weft_zeros(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape);
WEFT_API weft_tensor *weft_full(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, double value);

/* A rank-0 run-time parameter: its value is not part of the structure of a graph, so a plan that was
 * made with one value runs with any other. Positions, lengths, scales and learning rates are these. */
WEFT_API weft_tensor *weft_scalar_f32(weft_ctx *ctx, float value);
WEFT_API weft_tensor *weft_scalar_i32(weft_ctx *ctx, int32_t value);

/* start, start + step, ... (n elements). dtype f32, i32 or i64. */
WEFT_API weft_tensor *weft_arange(weft_ctx *ctx, weft_dtype dtype, int64_t n, double start, double step);

/* ---- inspection: never evaluates ---- */

WEFT_API weft_status weft_tensor_status(const weft_tensor *t); /* WEFT_OK, or that of an error tensor */
WEFT_API const char *weft_tensor_message(const weft_tensor *t); /* its sentence, "" when it is sound */
WEFT_API int weft_tensor_rank(const weft_tensor *t);
WEFT_API const int64_t *weft_tensor_shape(const weft_tensor *t); /* borrowed; rank entries */
WEFT_API int64_t weft_tensor_dim(const weft_tensor *t, int axis); /* negative axes count from the end; -1: no such axis */
WEFT_API int64_t weft_tensor_numel(const weft_tensor *t);
WEFT_API size_t weft_tensor_nbytes(const weft_tensor *t); /* of the elements, packed */
WEFT_API weft_dtype weft_tensor_dtype(const weft_tensor *t);
WEFT_API bool weft_tensor_is_contiguous(const weft_tensor *t);
WEFT_API weft_ctx *weft_tensor_ctx(const weft_tensor *t);

/* ---- actions ---- */

/* Compute n tensors in one evaluation: one plan, one submit. On a GPU it returns when the work is
 * submitted (weft_ctx_sync waits), except that a graph with index tensors waits to check them; what goes
 * wrong later is reported by the next action on the context.
 * Errors: that of the first error tensor; OOM, DEVICE_LOST, TIMEOUT, INDEX (an index outside its axis),
 * CANCELLED. On failure the tensors stay uncomputed. */
WEFT_API weft_status weft_eval(weft_tensor *const *tensors, int n);

/* Compute, then copy to `dst` row-major in the tensor's own dtype. `size_bytes` must be nbytes.
 * Block types give back GGUF blocks. */
WEFT_API weft_status weft_read(weft_tensor *t, void *dst, size_t size_bytes);

/* The same, converted to `dtype` as weft_cast converts. */
WEFT_API weft_status weft_read_as(weft_tensor *t, weft_dtype dtype, void *dst, size_t size_bytes);

/* Wait for everything submitted on the context. Errors: those of the work waited for. */
WEFT_API weft_status weft_ctx_sync(weft_ctx *ctx);

typedef struct weft_fence weft_fence;

/* Start reading; `dst` must stay valid until the fence is waited for or destroyed. */
WEFT_API weft_status weft_read_async(weft_tensor *t, void *dst, size_t size_bytes, weft_fence **out);
/* Wait at most timeout_ms (negative: the device's own bound). WEFT_E_TIMEOUT leaves the fence usable. */
WEFT_API weft_status weft_fence_wait(weft_fence *fence, int64_t timeout_ms);
WEFT_API void weft_fence_destroy(weft_fence *fence); /* waits (bounded) if the read is in flight; NULL is a no-op */

#ifdef __cplusplus
}
#endif
#endif
