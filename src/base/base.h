/* base.h - what every room uses: failing with a sentence, memory, growing arrays, strings, hashes.
 *
 * Allocation goes through wf_alloc so that the caller's allocator hook and the fail-the-nth test see
 * every byte. Nothing here ends the process.
 */
#ifndef WF_BASE_H
#define WF_BASE_H

#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include "weft/dtype.h"
#include "weft/status.h"

/* ---- errors ---- */
enum { WF_MESSAGE_BYTES = 1024 }; /* of a sentence with its end; longer ones are cut */
/* Store the sentence for this thread and return `st`. */
weft_status wf_fail(weft_status st, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
weft_status wf_fail_oom(size_t size_bytes); /* "out of memory: N bytes" without allocating */

#define WF_TRY(expr)                  \
    do {                              \
        weft_status wf_st_ = (expr);  \
        if (wf_st_ != WEFT_OK)        \
            return wf_st_;            \
    } while (0)
#define WF_TRY_GOTO(st, expr, label)  \
    do {                              \
        if (((st) = (expr)) != WEFT_OK) \
            goto label;               \
    } while (0)

/* ---- how tensors lie in a buffer: tensors, the IR and devices name it ---- */
enum {
    WF_LAYOUT_PLAIN = 0, /* row-major elements, GGUF blocks in order */
    WF_LAYOUT_PLANAR = 1 /* block types: all quants, then all f16 scales, then all f16 minima; each plane 16-byte aligned */
};

/* ---- log ---- */
void wf_log(weft_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- memory ---- */
void *wf_alloc(size_t size_bytes);                 /* NULL on failure, with the message set; size 0 gives a valid pointer */
void *wf_calloc(size_t count, size_t size_bytes);  /* zeroed, checked product */
void *wf_realloc(void *ptr, size_t size_bytes);    /* ptr stays valid on failure */
void wf_free(void *ptr);
char *wf_strdup(const char *s);
/* Test hook: the nth allocation from now fails (1 = the next); 0 switches it off. */
void wf_alloc_fail_nth(uint64_t n);
uint64_t wf_alloc_live(void); /* blocks held */

static inline bool wf_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool wf_add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline bool wf_mul_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool wf_add_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline uint64_t wf_align_up(uint64_t n, uint64_t align) { return (n + align - 1) / align * align; }
#define WF_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WF_MIN(a, b) ((a) < (b) ? (a) : (b)) /* arguments without side effects only */
#define WF_MAX(a, b) ((a) > (b) ? (a) : (b))

/* Arena: bump allocation in chunks, freed at once. All zero is a valid empty arena. */
typedef struct wf_arena {
    struct wf_arena_chunk *head;
    size_t used; /* of the head chunk */
} wf_arena;
void *wf_arena_alloc(wf_arena *a, size_t size_bytes); /* zeroed, 16-byte aligned; NULL on OOM */
void wf_arena_reset(wf_arena *a);                     /* keeps the largest chunk */
void wf_arena_free(wf_arena *a);

/* Make room for `need` elements in a growing array: WF_TRY(wf_grow((void **)&v, &cap, need, sizeof *v)); */
weft_status wf_grow(void **array, size_t *capacity, size_t need, size_t element_bytes);

/* ---- strings ---- */
typedef struct wf_str {
    char *ptr; /* NUL-terminated, or NULL when empty */
    size_t len, cap;
    bool oom; /* an append failed; later ones do nothing */
} wf_str;
#define WF_STR_INIT {0}
void wf_str_add(wf_str *s, const char *text);
void wf_str_addn(wf_str *s, const char *bytes, size_t n);
void wf_str_addf(wf_str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void wf_str_clear(wf_str *s);
void wf_str_free(wf_str *s);

/* ---- hash ---- */
typedef struct wf_hash128 { uint64_t lo, hi; } wf_hash128;
wf_hash128 wf_hash(const void *data, size_t n, uint64_t seed); /* fast, not cryptographic */

/* ---- 16-bit floats: round to nearest even, overflow to infinity, subnormals kept, NaN stays NaN ---- */
uint16_t wf_f32_to_f16(float f);
float wf_f16_to_f32(uint16_t h);
uint16_t wf_f32_to_bf16(float f);
static inline float wf_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
/* f64 to f16 rounded once */
uint16_t wf_f64_to_f16(double d);

/* ---- time ---- */
uint64_t wf_now_ns(void); /* monotonic */

#endif
