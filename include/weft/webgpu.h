/* weft/webgpu.h - for programs that use WebGPU themselves: one device for both, and buffers shared without copies.
 *
 * Handles are passed as void *, so that this header needs no webgpu.h: WGPUInstance, WGPUAdapter, WGPUDevice, WGPUQueue and
 * WGPUBuffer of the implementation that the options name (webgpu_get_proc or webgpu_lib). Calls of weft on a context and the
 * program's own calls on its device come from one thread at a time, as the implementation asks for.
 */
#ifndef WEFT_WEBGPU_H
#define WEFT_WEBGPU_H

#include "weft/device.h"
#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Open a context on a device that the program has already.
 *   opts  as for weft_ctx_open; `device` is not read. webgpu_get_proc or webgpu_lib have to be those that the handles come
 *         from; NULL finds the library as weft_ctx_open does
 * The handles stay the program's: it keeps them until weft_ctx_close has returned, which waits for weft's work and destroys
 * nothing of them. weft uses the features and limits that the device was made with. Errors of weft's own objects are
 * reported by its calls; errors of submits come to the callback for uncaptured errors that the device was made with, and
 * without one wgpu-native ends the process. A program that hears of a lost device tells weft with weft_webgpu_lost.
 * Errors: WEFT_E_CONTEXT (a NULL), WEFT_E_DEVICE_INIT (no such library), and those of weft_ctx_open. */
WEFT_API weft_status weft_webgpu_adopt(const weft_ctx_opts *opts, void *instance, void *adapter, void *device, void *queue, weft_ctx **out);

/* The device of an adopted context is lost: calls on it fail from now on with WEFT_E_DEVICE_LOST and this message (NULL:
 * none). May be called from the program's own callback, on any thread, where it waits for a call on the context that runs;
 * not after weft_ctx_close has returned. */
WEFT_API void weft_webgpu_lost(weft_ctx *ctx, const char *message);

/* A tensor whose elements are in a WGPUBuffer of the program, from byte `offset` on in row-major order; nothing is copied.
 * Of a context that weft opened itself the buffer has to be of that device.
 *   buffer   usages Storage and CopySrc. weft only reads it, in submits after the call; writes that the program submits
 *            before are seen. Its end is a multiple of 4 bytes behind what is read
 *   offset   bytes, a multiple of the size of an element
 *   dtype    a plain one; bool elements have to be 0 or 1
 *   shape    `rank` extents, not empty
 *   release  called when weft needs the buffer no more, also when the call fails; NULL: nobody is told. It runs inside some
 *            call on the context, whose lock is held: it must not use weft, nor wait for a thread that does
 * Gradient: as of any leaf. Errors: an error tensor with WEFT_E_CONTEXT, WEFT_E_UNSUPPORTED (no WebGPU device),
 * WEFT_E_DTYPE, WEFT_E_SHAPE, WEFT_E_VALUE (offset, usages, size), WEFT_E_OOM. */
WEFT_API weft_tensor *weft_webgpu_tensor(weft_ctx *ctx, void *buffer, uint64_t offset, weft_dtype dtype, int rank, const int64_t *shape,
                                         void (*release)(void *user), void *user);

/* The WGPUBuffer that holds a tensor's elements, row-major, computed first when they are not there; nothing is copied
 * unless the tensor is a view that is not contiguous.
 *   *buffer  of usages Storage, CopySrc and CopyDst when weft made it; valid while *held is
 *   *offset  byte of the first element
 *   *held    a tensor that keeps the buffer until its context closes; the caller releases it with weft_tensor_release
 * Work that the program submits to the same queue afterwards sees the elements. It must not write to the buffer.
 * Errors: WEFT_E_CONTEXT (a NULL), WEFT_E_UNSUPPORTED (no WebGPU device, or a tensor without elements), WEFT_E_DTYPE (a block
 * type, which lies planar), and what evaluating reports. */
WEFT_API weft_status weft_webgpu_buffer(weft_tensor *t, void **buffer, uint64_t *offset, weft_tensor **held);

#ifdef __cplusplus
}
#endif
#endif
