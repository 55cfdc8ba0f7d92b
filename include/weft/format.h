/* weft/format.h - files of tensors: GGUF v2 and v3, safetensors, npy. Every offset is checked before use.
 *
 * Sources: ggml, docs/gguf.md; huggingface/safetensors, "Format"; NumPy, numpy.lib.format.
 * A weft_file is immutable: any number of threads may ask it, if its reader allows that. A NULL where
 * something is required is WEFT_E_CONTEXT. On failure the results are untouched.
 */
#ifndef WEFT_FORMAT_H
#define WEFT_FORMAT_H

#include "weft/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where bytes come from. The functions get `user` and may be called until `close`. */
typedef struct weft_reader {
    void *user;          /* handed to each function */
    uint64_t size_bytes; /* of the whole */
    /* Fill dst with all of the n bytes at offset, or return false. */
    bool (*read)(void *user, uint64_t offset, void *dst, size_t n);
    /* The whole in memory, readable until `close`, or NULL when it is not mapped. May be NULL. */
    const void *(*map)(void *user);
    /* The pages of these bytes are not needed again; they must stay readable. May be NULL. */
    void (*release)(void *user, uint64_t offset, size_t n);
    void (*close)(void *user); /* the last call; may be NULL */
} weft_reader;

/* A reader of a file, memory-mapped where possible.
 *   path        UTF-8; a regular file
 *   offset      where the part begins that is shown as a whole
 *   size_bytes  of that part; 0: to the end of the file
 *   *out        the caller ends it with weft_reader_close, unless a weft_file takes it over
 * Errors: WEFT_E_IO (with the system's reason, or a part outside the file), WEFT_E_OOM. */
WEFT_API weft_status weft_reader_open_file(const char *path, uint64_t offset, uint64_t size_bytes, weft_reader *out);
/* A reader of memory, which the caller keeps alive and unchanged until the reader is closed; data may be
 * NULL for size 0. Errors: WEFT_E_OOM. */
WEFT_API weft_status weft_reader_borrow_memory(const void *data, size_t size_bytes, weft_reader *out);
/* Call the reader's `close` and set it to zero. NULL, and a reader that was closed, are no-ops. */
WEFT_API void weft_reader_close(weft_reader *reader);

/* An open file of tensors: names, places and metadata. Ended with weft_file_close. */
typedef struct weft_file weft_file;

/* Open a GGUF or safetensors file, recognised by its content.
 *   path  UTF-8
 *   *out  the caller's; ended with weft_file_close
 * Errors: WEFT_E_FORMAT (names what and where), WEFT_E_IO, WEFT_E_OOM. */
WEFT_API weft_status weft_file_open(const char *path, weft_file **out);
/* The same from a reader. It is copied; on success the file closes it, on failure it stays the caller's.
 * Errors: as weft_file_open. */
WEFT_API weft_status weft_file_open_reader(const weft_reader *reader, weft_file **out);
/* Close the file and its reader: everything borrowed from it ends. NULL is a no-op. */
WEFT_API void weft_file_close(weft_file *file);
/* "gguf" or "safetensors"; "" for NULL. Static. */
WEFT_API const char *weft_file_format(const weft_file *file);
/* The GGUF version; 0 for safetensors. */
WEFT_API uint32_t weft_file_version(const weft_file *file);

/* A tensor of a file: what it is and where its bytes are. */
typedef struct weft_file_tensor {
    const char *name;      /* borrowed from the file */
    const char *type_name; /* as the file says: "Q4_K", "BF16", "F8_E4M3" */
    bool known;            /* weft can load it: `dtype` is valid */
    weft_dtype dtype;      /* of the elements, when known */
    int rank;              /* 0 .. 8 */
    int64_t shape[8];      /* [rank] row-major, outermost first (GGUF's ne reversed) */
    uint64_t offset;       /* of the first byte, from the beginning of the file */
    uint64_t size_bytes;   /* of all elements; offset + size_bytes lies in the file */
} weft_file_tensor;

/* The number of tensors; 0 for NULL. */
WEFT_API int64_t weft_file_tensor_count(const weft_file *file);
/* Tensor `index` in the order of the file. Errors: WEFT_E_INDEX outside 0 .. count-1. */
WEFT_API weft_status weft_file_tensor_at(const weft_file *file, int64_t index, weft_file_tensor *out);
/* The tensor of a name. Errors: WEFT_E_VALUE when there is none. */
WEFT_API weft_status weft_file_tensor_find(const weft_file *file, const char *name, weft_file_tensor *out);
/* The tensor's bytes, borrowed from the file, when it is mapped; else NULL, and weft_file_read copies. */
WEFT_API const void *weft_file_tensor_map(const weft_file *file, const weft_file_tensor *tensor);
/* Copy n bytes at `offset` of the file to dst. Errors: WEFT_E_INDEX past its end, WEFT_E_IO. */
WEFT_API weft_status weft_file_read(const weft_file *file, uint64_t offset, void *dst, size_t n);
/* Say that the tensor's bytes are not needed again soon: its pages may go. They stay readable. */
WEFT_API void weft_file_release(const weft_file *file, const weft_file_tensor *tensor);

/* ---- metadata: keys and values ---- */

/* Kinds of values; the widths of numbers are in weft_meta.type_name. */
typedef enum weft_meta_kind {
    WEFT_META_UINT,   /* u8 u16 u32 u64 */
    WEFT_META_INT,    /* i8 i16 i32 i64 */
    WEFT_META_FLOAT,  /* f32 f64 */
    WEFT_META_BOOL,   /* 0 or 1 */
    WEFT_META_STRING, /* bytes, by rule UTF-8 */
    WEFT_META_ARRAY   /* of one of the others */
} weft_meta_kind;
/* A key of a file and the kind of its value. Safetensors has strings only. */
typedef struct weft_meta {
    const char *key;       /* borrowed from the file */
    weft_meta_kind kind;   /* of the value; WEFT_META_ARRAY: see elem */
    weft_meta_kind elem;   /* kind of an array's elements; else as kind */
    const char *type_name; /* as the file says: "u32", "array<string>"; static */
    uint64_t count;        /* array elements; 1 otherwise */
} weft_meta;
/* The number of keys; 0 for NULL. */
WEFT_API int64_t weft_file_meta_count(const weft_file *file);
/* Key `index` in the order of the file. Errors: WEFT_E_INDEX outside 0 .. count-1. */
WEFT_API weft_status weft_file_meta_at(const weft_file *file, int64_t index, weft_meta *out);
/* A key by name. Errors: WEFT_E_VALUE when there is none. */
WEFT_API weft_status weft_file_meta_find(const weft_file *file, const char *key, weft_meta *out);
/* The values: `element` is 0 for a scalar. A bool is 0 or 1; a float that is whole is an integer too.
 * Errors: WEFT_E_VALUE for a missing key, another kind, or a number outside the range; WEFT_E_INDEX for an
 * element that the value has not. */
WEFT_API weft_status weft_file_meta_i64(const weft_file *file, const char *key, uint64_t element, int64_t *out);
WEFT_API weft_status weft_file_meta_f64(const weft_file *file, const char *key, uint64_t element, double *out);
/* A string is not NUL-terminated: *n bytes at *out, borrowed from the file. */
WEFT_API weft_status weft_file_meta_str(const weft_file *file, const char *key, uint64_t element, const char **out, size_t *n);

/* ---- NumPy's .npy ---- */

/* Write a .npy file, format 1.0, C order.
 *   path   UTF-8. The bytes go to a new file beside it that then takes its name, so that a failure leaves
 *          what was there; what is no regular file (a device, a pipe) is written to directly
 *   dtype  a plain one except bf16, which NumPy has not
 *   shape  `rank` extents, rank 0 .. 8
 *   data   row-major elements; may be NULL when there are none
 * Errors: WEFT_E_IO (with the system's reason), WEFT_E_DTYPE, WEFT_E_SHAPE, WEFT_E_OOM. */
WEFT_API weft_status weft_npy_write(const char *path, weft_dtype dtype, int rank, const int64_t *shape, const void *data);
/* Read a .npy file, format 1.0 to 3.0, C order, little endian.
 *   shape  receives *rank extents
 *   *data  the elements, allocated; the caller frees them with weft_npy_free
 * Errors: WEFT_E_FORMAT, WEFT_E_IO, WEFT_E_OOM. */
WEFT_API weft_status weft_npy_read(const char *path, weft_dtype *dtype, int *rank, int64_t shape[8], void **data);
/* Free what weft_npy_read gave; NULL is a no-op. */
WEFT_API void weft_npy_free(void *data);

#ifdef __cplusplus
}
#endif
#endif
