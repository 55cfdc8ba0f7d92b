/* bench_limits.c - what this machine can do: read, copy and triad over arrays of four times the last
 * cache, and multiply-add in registers, on all threads.
 *
 * Copy and triad store past the cache, because a plain store first reads the line it will overwrite.
 * Arrays sit on 2 MiB pages where the kernel gives them. Each number is the median of several runs;
 * the triad is McCalpin's (STREAM, 1995): a = b + s c. */
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

const char *const bench_limit_names[BENCH_N_LIMITS] = {"read", "copy", "triad", "fma"};

enum { RUNS = 9, FMA_STEPS = 1 << 21, FMA_CHAINS = 10, MAX_THREADS = 1024, CHUNK = 1024, HUGE = 2 << 20 };

/* Kernels work on n floats, a multiple of CHUNK, on 64-byte boundaries. `fma` returns the flops done. */
typedef struct kernels {
    const char *isa;
    double (*read)(const float *a, size_t n);
    void (*copy)(float *dst, const float *a, size_t n);
    void (*triad)(float *dst, const float *a, const float *b, size_t n);
    double (*fma)(double *flops);
} kernels;

/* ---- plain C: the compiler's vectors ---- */
static double read_plain(const float *a, size_t n)
{
    float s[16] = {0}, sum = 0;
    for (size_t i = 0; i < n; i += 16)
        for (int k = 0; k < 16; k++)
            s[k] += a[i + (size_t)k];
    for (int k = 0; k < 16; k++)
        sum += s[k];
    return sum;
}

static void copy_plain(float *dst, const float *a, size_t n)
{
    memcpy(dst, a, n * sizeof *dst);
}

static void triad_plain(float *dst, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = a[i] + 0.5f * b[i];
}

static double fma_plain(double *flops)
{
    float x[64], sum = 0;
    for (int k = 0; k < 64; k++)
        x[k] = (float)k;
    for (int i = 0; i < FMA_STEPS; i++)
        for (int k = 0; k < 64; k++)
            x[k] = x[k] * 0.999f + 0.001f;
    for (int k = 0; k < 64; k++)
        sum += x[k];
    *flops = 2.0 * 64 * FMA_STEPS;
    return sum;
}

#if defined(__x86_64__)
#define VECTOR_KERNELS(SUFFIX, TARGET, VEC, WIDTH, ZERO, SET1, LOAD, STREAM, ADD, FMA)                        \
    __attribute__((target(TARGET))) static double read_##SUFFIX(const float *a, size_t n)                     \
    {                                                                                                         \
        VEC s[8];                                                                                             \
        float out[WIDTH];                                                                                     \
        double sum = 0;                                                                                       \
        for (int k = 0; k < 8; k++)                                                                           \
            s[k] = ZERO();                                                                                    \
        for (size_t i = 0; i < n; i += 8 * (WIDTH))                                                           \
            for (int k = 0; k < 8; k++)                                                                       \
                s[k] = ADD(s[k], LOAD(a + i + (size_t)k * (WIDTH)));                                          \
        for (int k = 1; k < 8; k++)                                                                           \
            s[0] = ADD(s[0], s[k]);                                                                           \
        memcpy(out, &s[0], sizeof out);                                                                       \
        for (int k = 0; k < (WIDTH); k++)                                                                     \
            sum += out[k];                                                                                    \
        return sum;                                                                                           \
    }                                                                                                         \
    __attribute__((target(TARGET))) static void copy_##SUFFIX(float *dst, const float *a, size_t n)           \
    {                                                                                                         \
        for (size_t i = 0; i < n; i += 4 * (WIDTH))                                                           \
            for (size_t k = 0; k < 4; k++)                                                                    \
                STREAM(dst + i + k * (WIDTH), LOAD(a + i + k * (WIDTH)));                                     \
        _mm_sfence();                                                                                         \
    }                                                                                                         \
    __attribute__((target(TARGET))) static void triad_##SUFFIX(float *dst, const float *a, const float *b,    \
                                                               size_t n)                                      \
    {                                                                                                         \
        VEC s = SET1(0.5f);                                                                                   \
        for (size_t i = 0; i < n; i += 4 * (WIDTH))                                                           \
            for (size_t k = 0; k < 4; k++)                                                                    \
                STREAM(dst + i + k * (WIDTH), FMA(s, LOAD(b + i + k * (WIDTH)), LOAD(a + i + k * (WIDTH))));  \
        _mm_sfence();                                                                                         \
    }                                                                                                         \
    __attribute__((target(TARGET))) static double fma_##SUFFIX(double *flops)                                 \
    {                                                                                                         \
        VEC x[FMA_CHAINS], m = SET1(0.999f), c = SET1(0.001f);                                                \
        float out[WIDTH];                                                                                     \
        for (int k = 0; k < FMA_CHAINS; k++)                                                                  \
            x[k] = SET1((float)k);                                                                            \
        for (int i = 0; i < FMA_STEPS; i++)                                                                   \
            for (int k = 0; k < FMA_CHAINS; k++)                                                              \
                x[k] = FMA(x[k], m, c);                                                                       \
        for (int k = 1; k < FMA_CHAINS; k++)                                                                  \
            x[0] = ADD(x[0], x[k]);                                                                           \
        memcpy(out, &x[0], sizeof out);                                                                       \
        *flops = 2.0 * FMA_CHAINS * (WIDTH) * (double)FMA_STEPS;                                              \
        return out[0];                                                                                        \
    }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* the inner loops of constant length must unroll in every build type */
#endif
VECTOR_KERNELS(avx2, "avx2,fma", __m256, 8, _mm256_setzero_ps, _mm256_set1_ps, _mm256_load_ps, _mm256_stream_ps, _mm256_add_ps,
               _mm256_fmadd_ps)
VECTOR_KERNELS(avx512, "avx512f", __m512, 16, _mm512_setzero_ps, _mm512_set1_ps, _mm512_load_ps, _mm512_stream_ps,
               _mm512_add_ps, _mm512_fmadd_ps)
#endif

static kernels choose(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return (kernels){"avx512", read_avx512, copy_avx512, triad_avx512, fma_avx512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (kernels){"avx2", read_avx2, copy_avx2, triad_avx2, fma_avx2};
#endif
    return (kernels){"plain", read_plain, copy_plain, triad_plain, fma_plain};
}

/* ---- all threads at once ---- */
typedef struct team {
    kernels k;
    bench_limit what;
    float *a, *b, *dst;
    size_t n; /* floats in each array */
    int n_threads;
    pthread_mutex_t lock;
    pthread_cond_t start, stop;
    int round, running; /* under lock: the round that runs, and helpers still in it */
    bool quit;
    double flops[MAX_THREADS], sink[MAX_THREADS];
} team;

typedef struct member {
    team *t;
    int index;
} member;

static void work(team *t, int i)
{
    size_t per = t->n / (size_t)t->n_threads / CHUNK * CHUNK, at = per * (size_t)i;
    switch (t->what) {
    case BENCH_READ: t->sink[i] = t->k.read(t->a + at, per); break;
    case BENCH_COPY: t->k.copy(t->dst + at, t->a + at, per); break;
    case BENCH_TRIAD: t->k.triad(t->dst + at, t->a + at, t->b + at, per); break;
    case BENCH_FMA: t->sink[i] = t->k.fma(&t->flops[i]); break;
    default: break;
    }
}

static void *thread_main(void *p)
{
    member *m = p;
    team *t = m->t;
    for (int seen = 0;; seen++) {
        pthread_mutex_lock(&t->lock);
        while (t->round == seen && !t->quit)
            pthread_cond_wait(&t->start, &t->lock);
        bool quit = t->quit;
        pthread_mutex_unlock(&t->lock);
        if (quit)
            return NULL;
        work(t, m->index);
        pthread_mutex_lock(&t->lock);
        if (--t->running == 0)
            pthread_cond_signal(&t->stop);
        pthread_mutex_unlock(&t->lock);
    }
}

/* One round on all threads, this one included. */
static void run_round(team *t)
{
    pthread_mutex_lock(&t->lock);
    t->round++;
    t->running = t->n_threads - 1;
    pthread_cond_broadcast(&t->start);
    pthread_mutex_unlock(&t->lock);
    work(t, 0);
    pthread_mutex_lock(&t->lock);
    while (t->running > 0)
        pthread_cond_wait(&t->stop, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static double measure(team *t, bench_limit what)
{
    static const double arrays_moved[] = {1, 2, 3};
    double rates[RUNS];
    size_t per = t->n / (size_t)t->n_threads / CHUNK * CHUNK;
    t->what = what;
    for (int r = -1; r < RUNS; r++) { /* run -1 warms up */
        double start = cli_now(), units = 0;
        run_round(t);
        double s = cli_now() - start;
        for (int i = 0; what == BENCH_FMA && i < t->n_threads; i++)
            units += t->flops[i];
        if (what != BENCH_FMA)
            units = arrays_moved[what] * (double)(per * (size_t)t->n_threads) * sizeof(float);
        if (r >= 0)
            rates[r] = units / s / 1e9;
    }
    return bench_median(rates, RUNS);
}

/* The C library can report the cache of a whole socket where a virtual machine sees less. */
static size_t last_cache_bytes(void)
{
    static const char *const files[] = {"/sys/devices/system/cpu/cpu0/cache/index3/size",
                                        "/sys/devices/system/cpu/cpu0/cache/index2/size"};
    long n = -1;
    for (int i = 0; i < 2 && n <= 0; i++) {
        FILE *f = fopen(files[i], "r");
        char unit = 'K';
        if (f && fscanf(f, "%ld%c", &n, &unit) >= 1)
            n *= unit == 'M' ? 1 << 20 : 1 << 10;
        if (f)
            fclose(f);
    }
#ifdef _SC_LEVEL3_CACHE_SIZE
    if (n <= 0)
        n = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return n > 0 ? (size_t)n : (size_t)32 << 20;
}

/* 2 MiB more is mapped than asked for, so that the array can start on a large page. */
static float *map_array(size_t n_bytes, void **mapped, bool *huge)
{
    uint8_t *p = mmap(NULL, n_bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    *mapped = p;
    p += -(uintptr_t)p % HUGE;
#ifdef MADV_HUGEPAGE
    *huge = madvise(p, n_bytes, MADV_HUGEPAGE) == 0;
#else
    *huge = false;
#endif
    for (size_t i = 0; i < n_bytes / sizeof(float); i++)
        ((float *)p)[i] = (float)(i % 1024) * 1e-3f;
    return (float *)p;
}

static weft_status run_team(team *t, bench_limits *l)
{
    pthread_t threads[MAX_THREADS];
    member members[MAX_THREADS];
    int started = 1, wanted = t->n_threads;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->start, NULL);
    pthread_cond_init(&t->stop, NULL);
    for (; started < wanted; started++) {
        members[started] = (member){t, started};
        if (pthread_create(&threads[started], NULL, thread_main, &members[started]) != 0)
            break;
    }
    for (int what = 0; started == wanted && what < BENCH_N_LIMITS; what++) {
        double v = measure(t, (bench_limit)what);
        l->value[what] = v > l->value[what] ? v : l->value[what];
    }
    pthread_mutex_lock(&t->lock);
    t->quit = true;
    pthread_cond_broadcast(&t->start);
    pthread_mutex_unlock(&t->lock);
    for (int i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_cond_destroy(&t->stop);
    pthread_cond_destroy(&t->start);
    pthread_mutex_destroy(&t->lock);
    return started == wanted ? WEFT_OK : weft_fail(WEFT_E_OOM, "bench: only %d of %d threads could be started", started, wanted);
}

weft_status bench_measure_limits(int n_threads, bench_limits *l)
{
    static team t; /* too large for a thread's stack; the bench runs once at a time */
    size_t cache = last_cache_bytes(), n_bytes = 4 * cache;
    void *mapped[3] = {NULL};
    bool huge[3] = {false};
    n_threads = n_threads < 1 ? 1 : n_threads > MAX_THREADS ? MAX_THREADS : n_threads;
    if (n_bytes < (size_t)64 << 20)
        n_bytes = (size_t)64 << 20;
    n_bytes = (n_bytes + HUGE - 1) / HUGE * HUGE;
    t = (team){.k = choose(), .n = n_bytes / sizeof(float), .n_threads = n_threads};
    t.a = map_array(n_bytes, &mapped[0], &huge[0]);
    t.b = map_array(n_bytes, &mapped[1], &huge[1]);
    t.dst = map_array(n_bytes, &mapped[2], &huge[2]);
    weft_status st = t.a && t.b && t.dst ? run_team(&t, l)
                                         : weft_fail(WEFT_E_OOM, "bench: no memory for arrays of %zu bytes", n_bytes);
    for (int i = 0; i < 3; i++)
        if (mapped[i])
            munmap(mapped[i], n_bytes + HUGE);
    l->array_bytes = n_bytes;
    l->cache_bytes = cache;
    l->huge_pages = huge[0] && huge[1] && huge[2];
    l->isa = t.k.isa;
    l->n_threads = n_threads;
    return st;
}
