/* cpu_describe.c - the CPU as a device of the list, the machine's memory, and the large copy. */
#include <stdio.h>
#include <stdlib.h>

#if !defined(_WIN32)
#include <unistd.h>
#endif

#include "cpu_internal.h"

static uint64_t meminfo_bytes(const char *text, const char *key)
{
    const char *p = strstr(text, key);
    return p ? strtoull(p + strlen(key), NULL, 10) << 10 : 0;
}

/* Of the machine; 0: unknown. */
static uint64_t memory_bytes(void)
{
    uint64_t total = 0;
    char text[2048];
    FILE *f = fopen("/proc/meminfo", "rb");
    if (f) {
        size_t n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        text[n] = 0;
        total = meminfo_bytes(text, "MemTotal:");
    }
#if defined(_SC_PHYS_PAGES) && defined(_SC_PAGESIZE)
    if (!total && sysconf(_SC_PHYS_PAGES) > 0)
        total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
#endif
    return total;
}

static void add_feature(weft_device_info *info, const char *name, bool on, const char *reason)
{
    if (info->n_features == WEFT_DEVICE_MAX_FEATURES)
        return;
    weft_device_feature *f = &info->features[info->n_features++];
    snprintf(f->name, sizeof f->name, "%s", name);
    f->on = on;
    snprintf(f->reason, sizeof f->reason, "%s", on ? "" : reason);
}

static void add_instruction_sets(weft_device_info *info)
{
    const wf_cpu_features *f = wf_cpu_detect();
    const struct { const char *name; bool on, here; } rows[] = {
#if defined(__x86_64__)
        {"avx2", f->avx2, true},         {"fma", f->fma, true},
        {"f16c", f->f16c, true},         {"avx512f", f->avx512f, true},
        {"avx512bw", f->avx512bw, true}, {"avx512_vnni", f->avx512vnni, true},
        {"avx_vnni", f->avxvnni, true},  {"avx512_bf16", f->avx512bf16, true},
#else
        {"neon", f->neon, true}, {"neon_dot", f->neon_dot, true}, {"neon_bf16", f->neon_bf16, true},
#endif
    };
    for (size_t i = 0; i < WF_COUNT(rows); i++) {
        add_feature(info, rows[i].name, rows[i].on, "the processor or the system does not offer it");
        if (rows[i].on) {
            size_t n = strlen(info->driver);
            snprintf(info->driver + n, sizeof info->driver - n, "%s%s", n ? " " : "", rows[i].name);
        }
    }
}

void wf_cpu_describe(weft_device_info *info)
{
    memset(info, 0, sizeof *info);
    snprintf(info->spec, sizeof info->spec, "cpu");
    snprintf(info->kind, sizeof info->kind, "cpu");
    char brand[64];
    wf_cpu_brand(brand);
    snprintf(info->name, sizeof info->name, "%s", brand);
    snprintf(info->implementation, sizeof info->implementation, "weft cpu (%s loops)", wf_vec_ops_get()->name);
    snprintf(info->backend, sizeof info->backend, "cpu");
    info->memory_bytes = memory_bytes();
    info->n_threads = (uint32_t)wf_thread_default();
    /* Kernels count elements with 32 bits; a buffer is limited by the machine's memory (ask for more and the
     * system may still say yes: it overcommits). */
    info->max_buffer_bytes = info->memory_bytes ? info->memory_bytes : (uint64_t)1 << 46;
    info->max_binding_bytes = info->max_buffer_bytes;
    info->max_storage_buffers = WF_MAX_BIND;
    info->max_workgroup_invocations = 1024; /* work groups mean nothing here; lowering may ask */
    info->max_workgroup_bytes = 1 << 20;
    info->max_workgroups = UINT32_MAX;
    add_instruction_sets(info);
    add_feature(info, "f64", true, "");
    add_feature(info, "i64", true, "");
}

/* ---- copies ---- */

enum { COPY_SERIAL = 1 << 20, COPY_PART = 256 << 10, COPY_STREAM = 16 << 20 };

typedef struct copy_job {
    char *dst;
    const char *src;
    size_t n;
    bool stream;
} copy_job;

static void copy_task(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    (void)worker;
    const copy_job *j = user;
    size_t first = (size_t)index * COPY_PART, n = WF_MIN(j->n - first, (size_t)COPY_PART);
    if (j->stream)
        wf_vec_ops_get()->stream(j->dst + first, j->src + first, n);
    else
        memcpy(j->dst + first, j->src + first, n);
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
}

void wf_cpu_copy(wf_pool *pool, void *dst, const void *src, size_t n)
{
    bool overlap = (char *)dst < (const char *)src + n && (const char *)src < (char *)dst + n;
    if (n < COPY_SERIAL || overlap) {
        memmove(dst, src, n);
        return;
    }
    copy_job j = {dst, src, n, n >= COPY_STREAM};
    wf_pool_run(pool, copy_task, &j, (int64_t)((n + COPY_PART - 1) / COPY_PART));
}
