/* weft/format.h - files of tensors: GGUF v2 and v3, safetensors, npy. Every offset is checked before use. */
#ifndef WEFT_FORMAT_H
#define WEFT_FORMAT_H

#include "weft/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where bytes come from. `read` fills all of n bytes at offset or returns false. */
typedef struct weft_reader {
    void *user;
    uint64_t size_bytes;
    bool (*read)(void *user, uint64_t offset, void *dst, size_t n);
    const void *(*map)(void *user); /* the whole file in memory, or NULL when it is not mapped */
    void (*release)(void *user, uint64_t offset, size_t n); /* these pages are not needed again; may be NULL */
    void (*close)(void *user);      /* may be NULL */
} weft_reader;

/* A file (memory-mapped where possible), the part of a file from `offset` (size 0: to its end), or
 * memory that the caller keeps alive. UTF-8 paths. Errors: WEFT_E_IO, WEFT_E_OOM. */
WEFT_API weft_status weft_reader_open_file(const char *path, uint64_t offset, uint64_t size_bytes, weft_reader *out);
WEFT_API weft_status weft_reader_borrow_memory(const void *data, size_t size_bytes, weft_reader *out);
WEFT_API void weft_reader_close(weft_reader *reader);

typedef struct weft_file weft_file;

/* Open a GGUF or safetensors file, recognised by its content. The file takes the reader over on
 * success. Errors: WEFT_E_FORMAT (names what and where), WEFT_E_IO, WEFT_E_OOM. */
WEFT_API weft_status weft_file_open(const char *path, weft_file **out);
WEFT_API weft_status weft_file_open_reader(const weft_reader *reader, weft_file **out);
WEFT_API void weft_file_close(weft_file *file); /* NULL is a no-op */
WEFT_API const char *weft_file_format(const weft_file *file); /* "gguf" or "safetensors" */
WEFT_API uint32_t weft_file_version(const weft_file *file);   /* GGUF version; 0 for safetensors */

typedef struct weft_file_tensor {
    const char *name;      /* borrowed from the file */
    const char *type_name; /* as the file says: "Q4_K", "BF16", "F8_E4M3" */
    bool known;            /* `dtype` is valid: weft can load it */
    weft_dtype dtype;
    int rank;
    int64_t shape[8];      /* row-major, outermost first (GGUF's ne reversed) */
    uint64_t offset, size_bytes; /* absolute in the file */
} weft_file_tensor;

WEFT_API int64_t weft_file_tensor_count(const weft_file *file);
WEFT_API weft_status weft_file_tensor_at(const weft_file *file, int64_t index, weft_file_tensor *out);
/* By name; WEFT_E_VALUE when absent. */
WEFT_API weft_status weft_file_tensor_find(const weft_file *file, const char *name, weft_file_tensor *out);
/* Borrowed pointer to the bytes when the file is mapped, else NULL. */
WEFT_API const void *weft_file_tensor_map(const weft_file *file, const weft_file_tensor *tensor);
WEFT_API weft_status weft_file_read(const weft_file *file, uint64_t offset, void *dst, size_t n);
WEFT_API void weft_file_release(const weft_file *file, const weft_file_tensor *tensor); /* its pages may go */

/* Metadata. Scalars of any integer or float type convert; a missing key or another kind gives WEFT_E_VALUE. */
typedef enum weft_meta_kind {
    WEFT_META_UINT, WEFT_META_INT, WEFT_META_FLOAT, WEFT_META_BOOL, WEFT_META_STRING, WEFT_META_ARRAY
} weft_meta_kind;
typedef struct weft_meta {
    const char *key;     /* borrowed */
    weft_meta_kind kind; /* of the value; WEFT_META_ARRAY: see elem */
    weft_meta_kind elem; /* kind of an array's elements */
    const char *type_name; /* as the file says: "u32", "array<string>" */
    uint64_t count;      /* array elements; 1 otherwise */
} weft_meta;
WEFT_API int64_t weft_file_meta_count(const weft_file *file);
WEFT_API weft_status weft_file_meta_at(const weft_file *file, int64_t index, weft_meta *out);
WEFT_API weft_status weft_file_meta_find(const weft_file *file, const char *key, weft_meta *out);
WEFT_API weft_status weft_file_meta_i64(const weft_file *file, const char *key, uint64_t element, int64_t *out);
WEFT_API weft_status weft_file_meta_f64(const weft_file *file, const char *key, uint64_t element, double *out);
/* Strings are not NUL-terminated: pointer and length, borrowed. */
WEFT_API weft_status weft_file_meta_str(const weft_file *file, const char *key, uint64_t element, const char **out, size_t *n);

/* Write a NumPy .npy file (format 1.0), C order, plain dtypes except bf16. Errors: IO, DTYPE. */
WEFT_API weft_status weft_npy_write(const char *path, weft_dtype dtype, int rank, const int64_t *shape, const void *data);
/* Read one: *data is allocated, freed with weft_npy_free. Errors: FORMAT, IO, OOM. */
WEFT_API weft_status weft_npy_read(const char *path, weft_dtype *dtype, int *rank, int64_t shape[8], void **data);
WEFT_API void weft_npy_free(void *data);

#ifdef __cplusplus
}
#endif
#endif
