/* weft/status.h - status codes, the error sentence of this thread, logging, and the allocator hook.
 *
 * Functions that do something return weft_status. The code is for programs; the sentence, with the
 * numbers in it, is for people: weft_error_message(). The library prints nothing and never ends the
 * process.
 */
#ifndef WEFT_STATUS_H
#define WEFT_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the shared library exports. */
#if defined(_WIN32)
#define WEFT_API __declspec(dllexport)
#else
#define WEFT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a call reports: WEFT_OK, or why it failed. */
typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_E_SHAPE,       /* shapes, ranks or axes that do not fit */
    WEFT_E_DTYPE,       /* a dtype that the operation does not take */
    WEFT_E_VALUE,       /* any other argument out of its range */
    WEFT_E_INDEX,       /* an index outside its axis, found on the host or on the device */
    WEFT_E_UNSUPPORTED, /* right, but not possible on this device or in this build */
    WEFT_E_OOM,         /* out of host or device memory */
    WEFT_E_DEVICE_INIT, /* a device could not be opened */
    WEFT_E_DEVICE_LOST, /* a device went away while in use */
    WEFT_E_TIMEOUT,     /* a bounded wait ran out */
    WEFT_E_FORMAT,      /* a file that breaks its format */
    WEFT_E_IO,          /* the operating system refused a read or write */
    WEFT_E_CONTEXT,     /* handles of different contexts, or a NULL where a handle is required */
    WEFT_E_NONFINITE,   /* NaN or infinity where the caller asked to be told */
    WEFT_E_CANCELLED,   /* a cancel or progress callback asked to stop */
    WEFT_E_INTERNAL,    /* a fault of weft itself */
    WEFT_STATUS_COUNT   /* how many there are; no status */
} weft_status;

/* The name of a code, such as "WEFT_E_SHAPE"; "WEFT_E_UNKNOWN" for a number that is none. */
WEFT_API const char *weft_status_name(weft_status status);

/* The sentence of the last failure on this thread; "" before the first. Borrowed: valid until the
 * next failure on this thread. */
WEFT_API const char *weft_error_message(void);

/* Urgency of a log message, most urgent first. */
typedef enum weft_log_level {
    WEFT_LOG_ERROR = 0, /* something failed that no status reports */
    WEFT_LOG_WARN,      /* it works, but not as asked */
    WEFT_LOG_INFO,      /* what was chosen, and why */
    WEFT_LOG_DEBUG      /* for people who work on weft */
} weft_log_level;

/* One log line, without a line break; `message` is valid during the call. Any thread may call it. */
typedef void (*weft_log_fn)(void *user, weft_log_level level, const char *message);

/* Send messages of `level` and more urgent ones to `fn`, with `user`; NULL switches logging off (the
 * default). For the whole process. */
WEFT_API void weft_set_log(weft_log_fn fn, void *user, weft_log_level level);

/* Host memory comes from here. Both functions may be called from any thread, several at once. Large
 * tensor buffers of the CPU device are mapped from the operating system and do not pass here. */
typedef struct weft_allocator {
    /* As C's realloc: ptr NULL allocates; size_bytes is never 0; NULL on failure, and ptr then stays
     * valid. Blocks begin at a multiple of 16 bytes, as malloc's do where max_align_t is 16. */
    void *(*realloc)(void *user, void *ptr, size_t size_bytes);
    void (*free)(void *user, void *ptr); /* ptr comes from `realloc`; NULL does nothing */
    void *user;                          /* handed to both */
} weft_allocator;

/* Install an allocator before any other call of the library; NULL restores malloc. It is copied.
 * Errors: WEFT_E_VALUE when weft already holds memory, or a function of it is NULL. */
WEFT_API weft_status weft_set_allocator(const weft_allocator *allocator);

/* For parts built on the public interface (models, plug-ins, bindings): store the sentence, formatted
 * as printf does, for this thread and return `status`. An argument may be the sentence before. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
WEFT_API weft_status weft_fail(weft_status status, const char *format, ...);
/* Memory through the allocator hook: ptr NULL allocates. NULL on failure, with the sentence set (a
 * WEFT_E_OOM); ptr then stays valid. */
WEFT_API void *weft_realloc(void *ptr, size_t size_bytes);
/* Give such memory back; NULL is a no-op. */
WEFT_API void weft_free(void *ptr);

/* Progress of a long call: `done` of `total` units (total 0: unknown). Return false to cancel: the
 * call then fails with WEFT_E_CANCELLED and everything it was given goes on working. It is called on
 * the thread of the call; `phase` is valid during it. */
typedef bool (*weft_progress_fn)(void *user, const char *phase, uint64_t done, uint64_t total);

#ifdef __cplusplus
}
#endif
#endif
