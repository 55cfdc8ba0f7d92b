/* cpu_detect.c - which instruction sets this processor has, and what it is called. Read once. */
#include <stdio.h>
#include <stdlib.h>

#include "cpu.h"
#include "vec_ops.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Operating-system support for the wide registers: XCR0 bits of SSE, AVX and the three of AVX-512. */
static uint64_t enabled_state(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static void detect(wf_cpu_features *f)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
        return;
    f->sse42 = c >> 20 & 1;
    bool osxsave = c >> 27 & 1;
    uint64_t state = osxsave ? enabled_state() : 0;
    bool ymm = (state & 0x06) == 0x06, zmm = (state & 0xe6) == 0xe6;
    f->fma = ymm && (c >> 12 & 1);
    f->f16c = ymm && (c >> 29 & 1);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return;
    unsigned max_sub = a;
    f->avx2 = ymm && (b >> 5 & 1);
    f->avx512f = zmm && (b >> 16 & 1);
    f->avx512bw = zmm && (b >> 30 & 1) && (b >> 31 & 1) && (b >> 17 & 1); /* BW, VL, DQ */
    f->avx512vnni = zmm && (c >> 11 & 1);
    if (max_sub >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
        f->avxvnni = ymm && (a >> 4 & 1);
        f->avx512bf16 = zmm && (a >> 5 & 1);
    }
}

static void brand(char name[64])
{
    unsigned r[12];
    name[0] = 0;
    if (__get_cpuid_max(0x80000000u, NULL) < 0x80000004u)
        return;
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    memcpy(name, r, 48);
    name[48] = 0;
}
#else
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
static void detect(wf_cpu_features *f)
{
    unsigned long cap = getauxval(AT_HWCAP), cap2 = getauxval(AT_HWCAP2);
    f->neon = cap >> 1 & 1;        /* ASIMD */
    f->neon_dot = cap >> 20 & 1;   /* ASIMDDP */
    f->neon_bf16 = cap2 >> 14 & 1; /* BF16 */
}
#elif defined(__aarch64__)
static void detect(wf_cpu_features *f) { f->neon = true; }
#else
static void detect(wf_cpu_features *f) { (void)f; }
#endif
static void brand(char name[64]) { name[0] = 0; }
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static wf_cpu_features features;
static const wf_vec_ops *best_ops;

static void detect_once(void)
{
    detect(&features);
    best_ops = &wf_vec_ops_base;
#if defined(__x86_64__)
    const char *isa = getenv("WEFT_ISA"); /* as for the named kernels: plain, avx2.., avx512.. */
    bool plain = isa && strcmp(isa, "plain") == 0, no_avx512 = isa && *isa && strncmp(isa, "avx512", 6) != 0;
    if (!plain && features.avx2 && features.fma && features.f16c)
        best_ops = !no_avx512 && features.avx512f && features.avx512bw ? &wf_vec_ops_avx512 : &wf_vec_ops_avx2;
#endif
}

const wf_cpu_features *wf_cpu_detect(void)
{
    pthread_once(&once, detect_once);
    return &features;
}

const wf_vec_ops *wf_vec_ops_get(void)
{
    pthread_once(&once, detect_once);
    return best_ops;
}

void wf_cpu_brand(char name[64])
{
    brand(name);
    char *s = name;
    while (*s == ' ')
        s++;
    memmove(name, s, strlen(s) + 1);
    for (size_t n = strlen(name); n > 0 && name[n - 1] == ' ';)
        name[--n] = 0;
    if (!name[0])
        snprintf(name, 64, "%s", sizeof(void *) == 8 ? "64-bit processor" : "processor");
}
