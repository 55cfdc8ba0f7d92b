/* blas.c - a matrix library found at run time: oneDNN, OpenBLAS or BLIS, whichever is installed.
 *
 * WEFT_BLAS names one (dnnl, openblas, blis), gives the path of a library with dnnl_sgemm or cblas_sgemm,
 * or says none. Each is called for one tile on one thread: weft's own pool spreads the tiles, because a
 * library that cuts a product by its number of threads changes the bits with it.
 */
#include "kern.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*dnnl_sgemm_fn)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t, float,
                             float *, int64_t);
typedef void (*cblas_sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
enum { CBLAS_ROW_MAJOR = 101, CBLAS_NO_TRANS = 111, CBLAS_TRANS = 112 };

static struct {
    dnnl_sgemm_fn dnnl;
    cblas_sgemm_fn cblas;
    void (*omp_set)(int);
    int (*omp_get)(void);
} lib;

/* oneDNN takes the thread count from OpenMP, whose setting belongs to the calling thread: it is put back. */
static bool sgemm_dnnl(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                       float *c, int64_t ldc)
{
    const int before = lib.omp_get ? lib.omp_get() : 1;
    if (before != 1)
        lib.omp_set(1);
    const int st = lib.dnnl(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb, 0.0f, c, ldc);
    if (before != 1)
        lib.omp_set(before);
    return st == 0;
}

static bool sgemm_cblas(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                        float *c, int64_t ldc)
{
    if (m > INT32_MAX || n > INT32_MAX || k > INT32_MAX || lda > INT32_MAX || ldb > INT32_MAX || ldc > INT32_MAX)
        return false;
    lib.cblas(CBLAS_ROW_MAJOR, ta ? CBLAS_TRANS : CBLAS_NO_TRANS, tb ? CBLAS_TRANS : CBLAS_NO_TRANS, (int)m, (int)n, (int)k, 1.0f, a,
              (int)lda, b, (int)ldb, 0.0f, c, (int)ldc);
    return true;
}

static void *find(void *handle, const char *name) { return dlsym(handle, name); }
/* A function pointer from dlsym without a cast that ISO C does not know. */
#define BIND(field, handle, name)                   \
    do {                                            \
        void *p_ = find(handle, name);              \
        memcpy(&(field), &p_, sizeof p_);           \
    } while (0)

static bool take_dnnl(void *h, wf_blas *out, char *name, size_t size)
{
    BIND(lib.dnnl, h, "dnnl_sgemm");
    if (!lib.dnnl)
        return false;
    BIND(lib.omp_set, h, "omp_set_num_threads"); /* finds the OpenMP that this oneDNN is linked with */
    BIND(lib.omp_get, h, "omp_get_max_threads");
    if (!lib.omp_set || !lib.omp_get) {
        lib.omp_set = NULL;
        lib.omp_get = NULL;
    }
    const struct {
        int major, minor, patch;
    } *v = NULL;
    const void *(*version)(void) = NULL;
    BIND(version, h, "dnnl_version");
    if (version)
        v = version();
    snprintf(name, size, "oneDNN %d.%d.%d", v ? v->major : 0, v ? v->minor : 0, v ? v->patch : 0);
    out->sgemm = sgemm_dnnl;
    return true;
}

static bool take_cblas(void *h, wf_blas *out, char *name, size_t size)
{
    BIND(lib.cblas, h, "cblas_sgemm");
    if (!lib.cblas)
        return false;
    void (*openblas_threads)(int) = NULL;
    char *(*openblas_config)(void) = NULL;
    const char *(*blis_version)(void) = NULL;
    void (*blis_threads)(int64_t) = NULL;
    BIND(openblas_threads, h, "openblas_set_num_threads");
    BIND(openblas_config, h, "openblas_get_config");
    BIND(blis_version, h, "bli_info_get_version_str");
    BIND(blis_threads, h, "bli_thread_set_num_threads");
    if (openblas_threads) {
        openblas_threads(1);
        snprintf(name, size, "%.40s", openblas_config ? openblas_config() : "OpenBLAS");
    } else if (blis_version) {
        if (blis_threads)
            blis_threads(1);
        snprintf(name, size, "BLIS %.32s", blis_version());
    } else {
        snprintf(name, size, "CBLAS");
    }
    out->sgemm = sgemm_cblas;
    return true;
}

static const struct {
    const char *name, *file;
} known[] = {
#if defined(__APPLE__)
    {"dnnl", "libdnnl.dylib"}, {"openblas", "libopenblas.dylib"}, {"blis", "libblis.dylib"},
#else
    {"dnnl", "libdnnl.so.2"}, {"dnnl", "libdnnl.so.3"}, {"openblas", "libopenblas.so.0"}, {"openblas", "libopenblas.so"},
    {"blis", "libblis.so.4"}, {"blis", "libblis.so"},
#endif
};

static bool open_file(const char *file, wf_blas *out, char *name, size_t size)
{
    void *h = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!h)
        return false;
    if (take_dnnl(h, out, name, size) || take_cblas(h, out, name, size))
        return true; /* never closed: its threads and thread-local data may outlive a close */
    dlclose(h);
    return false;
}

/* Nothing of a library is used here: it may be opened after another one was chosen for the process. It stays loaded, as above. */
static bool is_there(const char *file)
{
    void *h = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    return h && (find(h, "dnnl_sgemm") || find(h, "cblas_sgemm"));
}

weft_status wf_blas_check(void)
{
    const char *asked = getenv("WEFT_BLAS");
    if (!asked || !*asked || strcmp(asked, "none") == 0)
        return WEFT_OK;
    bool is_known = false;
    for (size_t i = 0; i < WF_COUNT(known); i++)
        if (strcmp(asked, known[i].name) == 0) {
            is_known = true;
            if (is_there(known[i].file))
                return WEFT_OK;
        }
    if (!is_known && is_there(asked))
        return WEFT_OK;
    return wf_fail(WEFT_E_VALUE, "WEFT_BLAS is \"%.200s\": %s; known: dnnl, openblas, blis, none, the path of a library", asked,
                   is_known ? "not installed" : "no library with dnnl_sgemm or cblas_sgemm");
}

static wf_blas chosen;
static void choose(void)
{
    static char name[64];
    const char *asked = getenv("WEFT_BLAS");
    if (!asked || !*asked || strcmp(asked, "none") == 0) {
        chosen.reason = asked && *asked ? "WEFT_BLAS=none" : "weft's own kernel is the faster one; WEFT_BLAS names a library";
        return;
    }
    bool is_known = false;
    for (size_t i = 0; i < WF_COUNT(known) && !chosen.name; i++)
        if (strcmp(asked, known[i].name) == 0) {
            is_known = true;
            if (open_file(known[i].file, &chosen, name, sizeof name))
                chosen.name = name;
        }
    if (!is_known && open_file(asked, &chosen, name, sizeof name))
        chosen.name = name;
    if (!chosen.name)
        chosen.reason = "the library that WEFT_BLAS names is not there, or has neither dnnl_sgemm nor cblas_sgemm";
}

const wf_blas *wf_blas_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return &chosen;
}
