/* kern_isa.c - which row of vector primitives this processor takes. */
#include "kern.h"

#include <stdio.h>
#include <stdlib.h>

#if defined(__x86_64__)
static bool has_avx2(const wf_cpu_features *f) { return f->avx2 && f->fma && f->f16c; }
static bool has_avx2_vnni(const wf_cpu_features *f) { return has_avx2(f) && f->avxvnni; }
static bool has_avx512(const wf_cpu_features *f) { return has_avx2(f) && f->avx512f && f->avx512bw; }
static bool has_avx512_vnni(const wf_cpu_features *f) { return has_avx512(f) && f->avx512vnni; }
#elif defined(__aarch64__)
static bool has_neon(const wf_cpu_features *f) { return f->neon; }
static bool has_neon_dot(const wf_cpu_features *f) { return f->neon && f->neon_dot; }
#endif
static bool has_any(const wf_cpu_features *f)
{
    (void)f;
    return true;
}

/* Best first. */
static const struct {
    const wf_kern_isa *isa;
    bool (*has)(const wf_cpu_features *);
} rows[] = {
#if defined(__x86_64__)
    {&wf_kern_isa_avx512_vnni, has_avx512_vnni},
    {&wf_kern_isa_avx512, has_avx512},
    {&wf_kern_isa_avx2_vnni, has_avx2_vnni},
    {&wf_kern_isa_avx2, has_avx2},
#elif defined(__aarch64__)
    {&wf_kern_isa_neon_dot, has_neon_dot},
    {&wf_kern_isa_neon, has_neon},
#endif
    {&wf_kern_isa_plain, has_any},
};

const char *wf_kern_isa_name(int i)
{
    return i >= 0 && (size_t)i < WF_COUNT(rows) ? rows[i].isa->name : NULL;
}

const wf_kern_isa *wf_kern_isa_find(const char *name)
{
    for (size_t i = 0; i < WF_COUNT(rows); i++)
        if (strcmp(rows[i].isa->name, name) == 0)
            return rows[i].has(wf_cpu_detect()) ? rows[i].isa : NULL;
    return NULL;
}

weft_status wf_kern_isa_check(void)
{
    const char *name = getenv("WEFT_ISA");
    char list[128];
    size_t used = 0;
    if (!name || !*name || wf_kern_isa_find(name))
        return WEFT_OK;
    for (size_t i = 0; i < WF_COUNT(rows) && used < sizeof list; i++)
        if (rows[i].has(wf_cpu_detect()))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", rows[i].isa->name);
    return wf_fail(WEFT_E_VALUE, "WEFT_ISA is \"%.40s\"; this processor has: %s", name, list);
}

static const wf_kern_isa *pick(void)
{
    const char *name = getenv("WEFT_ISA"); /* checked when the device was opened */
    const wf_kern_isa *asked = name ? wf_kern_isa_find(name) : NULL;
    if (asked)
        return asked;
    size_t i = 0;
    while (!rows[i].has(wf_cpu_detect()))
        i++;
    return rows[i].isa;
}

const wf_kern_isa *wf_kern_isa_get(void)
{
    /* Two threads that race here pick the same row. */
    static _Atomic(const wf_kern_isa *) chosen;
    const wf_kern_isa *isa = atomic_load_explicit(&chosen, memory_order_acquire);
    if (!isa) {
        isa = pick();
        atomic_store_explicit(&chosen, isa, memory_order_release);
    }
    return isa;
}
