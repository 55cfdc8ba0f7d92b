/* weft/device.h - contexts and devices.
 *
 * A context is one opened device with its plan cache, buffer pool and counters. Tensors belong to a
 * context. Several contexts may be open at once; one context may be used by several threads (calls
 * on it are serialised inside).
 */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include "weft/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A context. The caller of weft_ctx_open owns it and ends it with weft_ctx_close. */
typedef struct weft_ctx weft_ctx;

/* Options of weft_ctx_open; all zero is the default. */
typedef struct weft_ctx_opts {
    const char *device;       /* SPEC; NULL: WEFT_DEVICE from the environment, else "auto" */
    int n_threads;            /* CPU threads, at most 1024; 0: WEFT_THREADS, else affinity, cgroup quota and core kind */
    const char *webgpu_lib;   /* path of a WebGPU library; NULL: WEFT_WEBGPU_LIB, else the usual names */
    void *webgpu_get_proc;    /* a wgpuGetProcAddress to use instead of a library; NULL: none */
    const char *cache_dir;    /* folder for what later runs can use; NULL: WEFT_CACHE_DIR, else none; "": none. See below */
    uint64_t cache_max_bytes; /* the most that folder holds; 0: 256 MiB */
    const char *trace_path;   /* write a Chrome trace of submits here at close; NULL: none */
    /* Limits of a WebGPU or null device to lower, for tests of splitting; 0: WEFT_LIMITS from the
     * environment (binding=N,buffers=N,workgroup_bytes=N,invocations=N), else as the adapter has them. */
    uint64_t max_binding_bytes;         /* of one storage binding */
    uint32_t max_storage_buffers;       /* storage bindings of one kernel */
    uint32_t max_workgroup_invocations; /* threads of one workgroup */
    uint32_t max_workgroup_bytes;       /* shared memory of one workgroup */
} weft_ctx_opts;

/* The cache on disk. A library writes no files unasked, so without cache_dir and WEFT_CACHE_DIR nothing is kept; the weft
 * program asks for $XDG_CACHE_HOME/weft, else ~/.cache/weft. Kept are the texts of shaders, what weft_tune measured and, where the WebGPU
 * implementation hands them out (Dawn), compiled pipelines. Each value is a file whose key holds everything the value
 * follows from: the library and its sources, device, driver, features and limits, the kernel. So nothing goes stale, several
 * processes may share the folder, and it may be removed at any time. The folder is made for this user alone; files that are
 * cut short, damaged, of another origin or that others could write are passed over with one line of the log
 * (WEFT_LOG_WARN) and written anew; a folder that cannot be written is one line too. Neither fails a call.
 * Files unused for longest go when it is full. weft_stats counts texts_generated and cache_found. */

/* Open a context on a device.
 *
 *   SPEC  "auto"      a discrete, then an integrated GPU, else the CPU; never a software adapter
 *         "cpu"       this machine's processor
 *         "webgpu"    the best adapter WebGPU offers, software ones last
 *         "webgpu:N"  adapter N of weft_device_list
 *         "null"      records what it is asked to do and computes nothing
 *
 *   opts  NULL for the defaults.
 * Errors: WEFT_E_VALUE for an unknown SPEC or a value of the environment that is not known (WEFT_THREADS counts without
 * n_threads): the message lists those that are; a cache_dir too long for a path;
 * WEFT_E_DEVICE_INIT; WEFT_E_CONTEXT for out NULL; WEFT_E_OOM.
 * The caller owns *out and ends it with weft_ctx_close. */
WEFT_API weft_status weft_ctx_open(const weft_ctx_opts *opts, weft_ctx **out);

/* Close: waits (bounded) for work in flight and frees the device. Handles of the context that are
 * still held stay valid memory, but every call on them reports WEFT_E_CONTEXT. NULL is a no-op. */
WEFT_API void weft_ctx_close(weft_ctx *ctx);

/* Ask the running or next action on this context to stop with WEFT_E_CANCELLED; safe from any thread
 * or a signal handler. The flag is cleared by the action that reports it, or by weft_cancel_clear.
 * NULL is a no-op for both. */
WEFT_API void weft_cancel(weft_ctx *ctx);
/* Take the request back. */
WEFT_API void weft_cancel_clear(weft_ctx *ctx);

/* Entries of weft_device_info.features. */
#define WEFT_DEVICE_MAX_FEATURES 16

/* What a device can have beyond the minimum, such as "f16". */
typedef struct weft_device_feature {
    char name[32];   /* as WebGPU names it where it does */
    bool on;         /* usable */
    char reason[96]; /* why it is off; "" when it is on */
} weft_device_feature;

/* A device: what it is, its limits and its features. Texts end with NUL; a long one is cut, perhaps
 * inside a UTF-8 sequence. */
typedef struct weft_device_info {
    char spec[32];           /* what to pass to open it, such as "webgpu:1" */
    char kind[16];           /* "cpu", "discrete", "integrated", "software", "null" */
    char name[128];          /* of the processor or adapter, as the system says */
    char driver[128];        /* driver or instruction sets */
    char implementation[96]; /* "wgpu-native 29.0.1", "Dawn", "weft cpu" */
    char backend[32];        /* "vulkan", "metal", "d3d12", "cpu" */
    uint64_t memory_bytes;   /* of the device; 0: unknown */
    uint64_t max_buffer_bytes;          /* of one buffer: the largest tensor */
    uint64_t max_binding_bytes;         /* of a buffer, what one kernel sees; larger operands are cut */
    uint32_t max_storage_buffers;       /* storage bindings of one kernel */
    uint32_t max_workgroup_invocations; /* threads of one workgroup */
    uint32_t max_workgroup_bytes;       /* shared memory of one workgroup */
    uint32_t max_workgroups;            /* along one axis of a dispatch */
    uint32_t n_threads;      /* that the CPU device works with; 0 on others */
    int n_features;          /* entries of features */
    weft_device_feature features[WEFT_DEVICE_MAX_FEATURES];
} weft_device_info;

/* Every device that can be opened here, CPU first, then WebGPU adapters, then null. `*out` is an
 * array of *n that the caller frees with weft_device_list_free. A missing WebGPU library is not an
 * error; the sentence why none is offered is then in weft_error_message(). Of opts (NULL: defaults)
 * webgpu_lib and webgpu_get_proc count. Errors: WEFT_E_VALUE for out or n NULL; WEFT_E_OOM. */
WEFT_API weft_status weft_device_list(const weft_ctx_opts *opts, weft_device_info **out, int *n);
/* Free such a list; NULL is a no-op. */
WEFT_API void weft_device_list_free(weft_device_info *list);

/* The device of a context. Errors: WEFT_E_CONTEXT for a closed context or a NULL. */
WEFT_API weft_status weft_ctx_device(weft_ctx *ctx, weft_device_info *out);

#ifdef __cplusplus
}
#endif
#endif
