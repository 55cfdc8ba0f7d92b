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

/* A handle on a value; its dtype and shape are known at once, its elements when they are computed. */
typedef struct weft_tensor weft_tensor;
/* Owns the handles that this thread makes on one context until it ends. */
typedef struct weft_scope weft_scope;

/* ---- scopes ---- */

/* Begin a scope on this thread; the caller ends it with weft_scope_end. NULL, with a sentence, for ctx
 * NULL or when memory is out: new handles would then belong to the enclosing scope or the caller. */
WEFT_API weft_scope *weft_scope_begin(weft_ctx *ctx);
/* End a scope, the innermost first, on the thread that began it: its handles lose one reference each.
 * NULL is a no-op. */
WEFT_API void weft_scope_end(weft_scope *scope);

/* Move a handle out of its scope: the caller now owns one reference. Returns `t`; NULL gives NULL. */
WEFT_API weft_tensor *weft_keep(weft_tensor *t);
/* One reference more, which the caller owns. Returns `t`; NULL gives NULL. */
WEFT_API weft_tensor *weft_tensor_retain(weft_tensor *t);
/* Give back a reference that the caller owns, never one of a scope. NULL is a no-op. */
WEFT_API void weft_tensor_release(weft_tensor *t);

/* ---- leaves ----
 *
 *   rank, shape  0 .. WEFT_MAX_RANK and as many extents, at least 0; shape may be NULL for rank 0
 *   returns      a tensor, or an error tensor: WEFT_E_SHAPE for a rank, an extent or a product (above
 *                2^58) out of range, WEFT_E_DTYPE, WEFT_E_OOM, WEFT_E_CONTEXT for a NULL or closed context */

/* A tensor with the caller's data, copied at once.
 *   dtype  any
 *   data   row-major elements, of bool any byte but 0 is true; block types: GGUF blocks, rank at least 1
 *          and shape[rank-1] a multiple of weft_dtype_block; may be NULL when there are no elements
 * Errors: also WEFT_E_VALUE for data NULL. */
WEFT_API weft_tensor *weft_tensor_from(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, const void *data);

/* A tensor over the caller's memory, which is not copied where the device can read it: on the CPU, when it is aligned to 16 bytes,
 * its last 64 bytes share a page with what follows, and its dtype is plain (bools only of 0 and 1). Else it is copied at once.
 *   data     as for weft_tensor_from; it must not change before `release` is called
 *   release  called once with `user`, when the memory is no longer needed: at once where it was copied and on failure, else
 *            when the last tensor that reads it is gone, on the thread where that happens, which holds the context: it must
 *            not call weft or wait for who does. NULL: nobody is told
 * Errors: as weft_tensor_from. */
WEFT_API weft_tensor *weft_tensor_borrow(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, const void *data,
                                         void (*release)(void *user), void *user);

/* Every element 0. Errors: WEFT_E_DTYPE for block types. */
WEFT_API weft_tensor *weft_zeros(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape);
/* Every element `value`, converted to dtype as weft_cast converts. Errors: WEFT_E_DTYPE for block types. */
WEFT_API weft_tensor *weft_full(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, double value);

/* A rank-0 run-time parameter, f32 or i32: its value is not part of the structure of a graph, so a plan that was
 * made with one value runs with any other. Positions, lengths, scales and learning rates are these. */
WEFT_API weft_tensor *weft_scalar_f32(weft_ctx *ctx, float value);
WEFT_API weft_tensor *weft_scalar_i32(weft_ctx *ctx, int32_t value);

/* [n]: start, start + step, .., start + (n-1) step, rounded once.
 *   dtype  f32, i32 or i64
 * Errors: WEFT_E_VALUE for n below 0 and, for integers, a start or step that is none or a value out of
 * the dtype's range. */
WEFT_API weft_tensor *weft_arange(weft_ctx *ctx, weft_dtype dtype, int64_t n, double start, double step);

/* ---- inspection ----
 *
 * None of these evaluates. An error tensor and NULL have rank 0, no elements, no bytes and dtype f32. */

/* WEFT_OK, or the status of an error tensor; WEFT_E_CONTEXT for NULL. */
WEFT_API weft_status weft_tensor_status(const weft_tensor *t);
/* The sentence of an error tensor, "" when it is sound; borrowed from t. */
WEFT_API const char *weft_tensor_message(const weft_tensor *t);
/* The number of axes. */
WEFT_API int weft_tensor_rank(const weft_tensor *t);
/* The extents, as many as the rank; borrowed from t. */
WEFT_API const int64_t *weft_tensor_shape(const weft_tensor *t);
/* The distances in elements between neighbours along each axis, as many as the rank: 0 along one that repeats, below 0
 * along one that runs backwards; what is no view is row-major. Borrowed from t. */
WEFT_API const int64_t *weft_tensor_strides(const weft_tensor *t);
/* One extent; negative axes count from the end; -1: no such axis. */
WEFT_API int64_t weft_tensor_dim(const weft_tensor *t, int axis);
/* The number of elements: the product of the extents, 1 for rank 0. */
WEFT_API int64_t weft_tensor_numel(const weft_tensor *t);
/* The bytes of the elements, packed: what weft_read copies. */
WEFT_API size_t weft_tensor_nbytes(const weft_tensor *t);
/* The dtype of the elements. */
WEFT_API weft_dtype weft_tensor_dtype(const weft_tensor *t);
/* Whether the elements lie row-major and without gaps. */
WEFT_API bool weft_tensor_is_contiguous(const weft_tensor *t);
/* The context; NULL for an error tensor that has none. */
WEFT_API weft_ctx *weft_tensor_ctx(const weft_tensor *t);

/* ---- actions ---- */

/* Compute n tensors in one evaluation: one plan, one submit. Those computed before are left alone.
 *
 * When it returns: on the CPU, when the elements are computed. On a GPU, when the work is submitted, so
 * that the next graph can be built meanwhile; weft_ctx_sync and weft_read wait. It waits there too when a
 * graph has index tensors (to check them), for kernels that run on the CPU for the device
 * (stats.fallbacks), and while a trace is written. What goes wrong after the return is reported by the
 * next action on the context.
 *
 * Errors: that of the first error tensor; WEFT_E_OOM, WEFT_E_DEVICE_LOST, WEFT_E_TIMEOUT, WEFT_E_INDEX (an
 * index outside its axis), WEFT_E_CANCELLED, WEFT_E_UNSUPPORTED (the device has no such dtype or kernel);
 * WEFT_E_CONTEXT for a NULL, two contexts or a closed one; WEFT_E_VALUE for n below 0. On failure the
 * tensors stay uncomputed. */
WEFT_API weft_status weft_eval(weft_tensor *const *tensors, int n);

/* Compute, wait, and copy to `dst` row-major in the tensor's own dtype; block types give GGUF blocks.
 *   size_bytes  exactly weft_tensor_nbytes
 * Errors: as weft_eval; WEFT_E_VALUE for another size or dst NULL. What dst holds on failure is unspecified. */
WEFT_API weft_status weft_read(weft_tensor *t, void *dst, size_t size_bytes);

/* The same, converted to `dtype` as weft_cast converts.
 *   size_bytes  numel * weft_dtype_block_bytes(dtype)
 * Errors: as weft_read; WEFT_E_DTYPE for a conversion to a block type. */
WEFT_API weft_status weft_read_as(weft_tensor *t, weft_dtype dtype, void *dst, size_t size_bytes);

/* Compute, and say where the elements lie in host memory. They must not be written, and stay there while the caller holds a
 * reference of `t` and the context is open.
 *   data     receives the address of element [0, 0, ..]; NULL when there are no elements
 *   strides  NULL, or receives the distance in elements along each axis, below 0 for one that runs backwards
 * Errors: as weft_eval; WEFT_E_VALUE for data NULL; WEFT_E_UNSUPPORTED where the device's memory is not the host's; WEFT_E_DTYPE for block types. */
WEFT_API weft_status weft_tensor_map(weft_tensor *t, const void **data, int64_t *strides);

/* Wait for everything submitted on the context. Errors: those of the work waited for; WEFT_E_TIMEOUT. */
WEFT_API weft_status weft_ctx_sync(weft_ctx *ctx);

/* A read in flight. The caller of weft_read_async owns it and ends it with weft_fence_destroy. */
typedef struct weft_fence weft_fence;

/* As weft_read, but the copy is only started: `dst` must stay valid, and is not to be looked at, until
 * the fence is waited for or destroyed. Errors: as weft_read; WEFT_E_VALUE for out NULL. */
WEFT_API weft_status weft_read_async(weft_tensor *t, void *dst, size_t size_bytes, weft_fence **out);
/* Wait at most timeout_ms (negative: the device's own bound). Errors: WEFT_E_TIMEOUT, which leaves the
 * fence usable; those of the read, again at every further wait; WEFT_E_CONTEXT for NULL. */
WEFT_API weft_status weft_fence_wait(weft_fence *fence, int64_t timeout_ms);
/* Waits (bounded) if the read is in flight. NULL is a no-op. */
WEFT_API void weft_fence_destroy(weft_fence *fence);

#ifdef __cplusplus
}
#endif
#endif
