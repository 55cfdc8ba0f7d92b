/* mem.c - every allocation of the library: the caller's allocator hook, a count of the blocks held, the
 * fail-the-nth test hook, arenas and growing arrays. */
#include <stdlib.h>

#include "base.h"

static void *std_realloc(void *user, void *ptr, size_t size_bytes)
{
    (void)user;
    return realloc(ptr, size_bytes);
}

static void std_free(void *user, void *ptr)
{
    (void)user;
    free(ptr);
}

static const weft_allocator std_allocator = {std_realloc, std_free, NULL};
static weft_allocator hook = {std_realloc, std_free, NULL};
static _Atomic uint64_t live;
static _Atomic uint64_t fail_in; /* 0: never */

weft_status weft_set_allocator(const weft_allocator *allocator)
{
    if (allocator && (!allocator->realloc || !allocator->free))
        return wf_fail(WEFT_E_VALUE, "set_allocator: realloc and free are both required");
    uint64_t held = atomic_load(&live);
    if (held)
        return wf_fail(WEFT_E_VALUE, "set_allocator: weft already holds %llu blocks",
                       (unsigned long long)held);
    hook = allocator ? *allocator : std_allocator;
    return WEFT_OK;
}

void wf_alloc_fail_nth(uint64_t n)
{
    atomic_store(&fail_in, n);
}

uint64_t wf_alloc_live(void)
{
    return atomic_load(&live);
}

static bool told_to_fail(void)
{
    uint64_t n = atomic_load_explicit(&fail_in, memory_order_relaxed);
    while (n)
        if (atomic_compare_exchange_weak(&fail_in, &n, n - 1))
            return n == 1;
    return false;
}

void *wf_realloc(void *ptr, size_t size_bytes)
{
    size_t n = size_bytes ? size_bytes : 1;
    /* A size with the top bit set is a negative number or an overflow, whatever the allocator thinks. */
    void *p = told_to_fail() || n > PTRDIFF_MAX ? NULL : hook.realloc(hook.user, ptr, n);
    if (!p) {
        wf_fail_oom(size_bytes);
        return NULL;
    }
    if (!ptr)
        atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return p;
}

void *wf_alloc(size_t size_bytes)
{
    return wf_realloc(NULL, size_bytes);
}

void *wf_calloc(size_t count, size_t size_bytes)
{
    size_t n;
    if (!wf_mul_size(count, size_bytes, &n)) {
        wf_fail(WEFT_E_OOM, "out of memory: %zu x %zu bytes", count, size_bytes);
        return NULL;
    }
    void *p = wf_realloc(NULL, n);
    if (p)
        memset(p, 0, n);
    return p;
}

void wf_free(void *ptr)
{
    if (!ptr)
        return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    hook.free(hook.user, ptr);
}

char *wf_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = wf_alloc(n);
    if (p)
        memcpy(p, s, n);
    return p;
}

/* ---- arena ---- */

struct wf_arena_chunk {
    struct wf_arena_chunk *next; /* older */
    size_t size_bytes;           /* of data */
    _Alignas(16) unsigned char data[];
};

enum { FIRST_CHUNK_BYTES = 16 << 10, LARGEST_STEP_BYTES = 4 << 20 };

void *wf_arena_alloc(wf_arena *a, size_t size_bytes)
{
    if (size_bytes > PTRDIFF_MAX / 2) {
        wf_fail_oom(size_bytes);
        return NULL;
    }
    size_t need = wf_align_up(size_bytes ? size_bytes : 1, 16);
    if (!a->head || a->head->size_bytes - a->used < need) {
        size_t step = a->head ? WF_MIN(a->head->size_bytes * 2, (size_t)LARGEST_STEP_BYTES) : FIRST_CHUNK_BYTES;
        step = WF_MAX(step, need);
        struct wf_arena_chunk *c = wf_alloc(sizeof *c + step);
        if (!c)
            return NULL;
        c->next = a->head;
        c->size_bytes = step;
        a->head = c;
        a->used = 0;
    }
    void *p = a->head->data + a->used;
    a->used += need;
    return memset(p, 0, need);
}

void wf_arena_reset(wf_arena *a)
{
    struct wf_arena_chunk *keep = a->head;
    for (struct wf_arena_chunk *c = a->head; c; c = c->next)
        if (c->size_bytes > keep->size_bytes)
            keep = c;
    for (struct wf_arena_chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        if (c != keep)
            wf_free(c);
    }
    if (keep)
        keep->next = NULL;
    a->head = keep;
    a->used = 0;
}

void wf_arena_free(wf_arena *a)
{
    for (struct wf_arena_chunk *c = a->head, *next; c; c = next) {
        next = c->next;
        wf_free(c);
    }
    a->head = NULL;
    a->used = 0;
}

weft_status wf_grow(void **array, size_t *capacity, size_t need, size_t element_bytes)
{
    if (need <= *capacity)
        return WEFT_OK;
    size_t cap = *capacity < 8 ? 8 : *capacity;
    cap = cap > SIZE_MAX / 2 ? need : WF_MAX(cap + cap / 2, need);
    size_t bytes;
    if (!wf_mul_size(cap, element_bytes, &bytes))
        return wf_fail(WEFT_E_OOM, "out of memory: %zu x %zu bytes", cap, element_bytes);
    void *p = wf_realloc(*array, bytes);
    if (!p)
        return WEFT_E_OOM;
    *array = p;
    *capacity = cap;
    return WEFT_OK;
}
