/* cpu.h - inside the CPU device: the block interpreter of the IR and the named kernels. */
#ifndef WF_CPU_H
#define WF_CPU_H

#include "hal.h"
#include "thread.h"

/* Instruction sets this processor has, read once. */
typedef struct wf_cpu_features {
    bool sse42, avx2, fma, f16c, avx512f, avx512bw, avx512vnni, avx512bf16, avxvnni, neon, neon_dot, neon_bf16;
} wf_cpu_features;
const wf_cpu_features *wf_cpu_detect(void);

/* What a running program sees. */
typedef struct wf_cpu_run {
    void *ptr[WF_MAX_BIND];      /* start of each bound range */
    uint64_t size[WF_MAX_BIND];
    uint32_t n_bind;
    const int32_t *statics;      /* this dispatch's static words */
    const uint32_t *step;        /* the step block, or NULL */
    wf_pool *pool;
    atomic_bool *cancel;
    _Atomic uint32_t *error; /* WF_ERROR_WORDS, never NULL */
} wf_cpu_run;

/* kir_exec.c: run a verified kernel over all its points on all threads. */
typedef struct wf_cpu_kernel wf_cpu_kernel;
weft_status wf_cpu_kernel_create(const wf_kir *k, wf_cpu_kernel **out); /* copies k */
void wf_cpu_kernel_destroy(wf_cpu_kernel *k);
weft_status wf_cpu_kernel_run(const wf_cpu_kernel *k, const wf_cpu_run *run);

/* Epilogue of a named kernel on a tile: `acc` [rows, cols] f32 with row stride ld holds the values at
 * batch b, rows m0.., columns n0... Bindings of the epilogue are run->ptr[bind_base ..], its static words
 * run->statics[static_base ..]. Called by many threads at once. */
void wf_cpu_epilogue_run(const wf_cpu_kernel *epilogue, const wf_cpu_run *run, uint32_t bind_base, uint32_t static_base,
                         const float *acc, int64_t ld, int64_t b, int64_t m0, int64_t rows, int64_t n0, int64_t cols);

/* kern_table.c: named kernels. `epilogue` may be NULL: then the kernel stores to its output binding in
 * the dtype the row is declared with (f32, or as bound by the row's name). */
typedef weft_status (*wf_cpu_named_fn)(const wf_cpu_run *run, const wf_cpu_kernel *epilogue);
typedef struct wf_cpu_named {
    const char *row;
    wf_cpu_named_fn fn;
    uint8_t n_words;    /* static words of its own; the epilogue's follow */
    uint8_t flags_word; /* of those: the one with WF_KERN_HAS_SCRATCH */
    uint8_t n_operands; /* bindings before the output, at least */
    bool epilogues;     /* takes one; then n_operands is exact */
} wf_cpu_named;
const wf_cpu_named *wf_cpu_named_find(const char *row);

/* Large buffers: 2 MiB pages where the system gives them. */
void *wf_cpu_map_pages(size_t size_bytes);
void wf_cpu_unmap_pages(void *ptr, size_t size_bytes);

#endif
