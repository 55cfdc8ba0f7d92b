/* lapack.c - a LAPACK found at run time, called through its Fortran symbols: by reference, 32-bit integers, and the
 * length of each character argument at the end.
 *
 * A batch is spread by weft's own pool, so a library with threads of its own is told to use one.
 */
#include "lapack.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

typedef int32_t fint;
static struct {
    void (*potrf)(const char *, const fint *, double *, const fint *, fint *, size_t);
    void (*getrf)(const fint *, const fint *, double *, const fint *, fint *, fint *);
    void (*geqrf)(const fint *, const fint *, double *, const fint *, double *, double *, const fint *, fint *);
    void (*orgqr)(const fint *, const fint *, const fint *, double *, const fint *, const double *, double *, const fint *, fint *);
    void (*syevd)(const char *, const char *, const fint *, double *, const fint *, double *, double *, const fint *, fint *, const fint *,
                  fint *, size_t, size_t);
    void (*gesdd)(const char *, const fint *, const fint *, double *, const fint *, double *, double *, const fint *, double *, const fint *,
                  double *, const fint *, fint *, fint *, size_t);
} lib;

static fint at_least_1(int64_t n) { return n > 1 ? (fint)n : 1; }
static int64_t failed_at(fint info) { return info < 0 ? -(int64_t)info : info; }

static int64_t cholesky(int64_t n, double *a)
{
    fint N = (fint)n, ld = at_least_1(n), info = 0;
    lib.potrf("L", &N, a, &ld, &info, 1);
    return failed_at(info);
}

static int64_t lu(int64_t m, int64_t n, double *a, int64_t *pivot)
{
    fint M = (fint)m, N = (fint)n, ld = at_least_1(m), info = 0;
    int64_t p = WF_MIN(m, n);
    fint *ipiv = wf_alloc(sizeof *ipiv * (size_t)(p + 1));
    if (!ipiv)
        return WF_LAPACK_OOM;
    lib.getrf(&M, &N, a, &ld, ipiv, &info);
    for (int64_t i = 0; i < p; i++)
        pivot[i] = ipiv[i] - 1;
    wf_free(ipiv);
    return info < 0 ? failed_at(info) : 0; /* a zero pivot is no failure */
}

static int64_t qr(int64_t m, int64_t n, double *a, int64_t q_cols, double *q)
{
    int64_t p = WF_MIN(m, n);
    fint M = (fint)m, N = (fint)n, K = (fint)p, Q = (fint)q_cols, ld = at_least_1(m), info = 0, ask = -1;
    double best[2] = {1, 1}, *tau = wf_alloc(sizeof *tau * (size_t)(p + 1));
    lib.geqrf(&M, &N, a, &ld, tau, &best[0], &ask, &info);
    lib.orgqr(&M, &Q, &K, q, &ld, tau, &best[1], &ask, &info);
    fint lwork = (fint)WF_MAX(best[0], best[1]);
    double *work = wf_alloc(sizeof *work * (size_t)at_least_1(lwork));
    if (!tau || !work) {
        wf_free(tau);
        wf_free(work);
        return WF_LAPACK_OOM;
    }
    lib.geqrf(&M, &N, a, &ld, tau, work, &lwork, &info);
    memcpy(q, a, sizeof *q * (size_t)(m * p));
    if (info == 0)
        lib.orgqr(&M, &Q, &K, q, &ld, tau, work, &lwork, &info);
    wf_free(tau);
    wf_free(work);
    return failed_at(info);
}

static int64_t eigh(int64_t n, double *a, double *w)
{
    fint N = (fint)n, ld = at_least_1(n), info = 0, ask = -1, iask = 1;
    double best = 1;
    lib.syevd("V", "L", &N, a, &ld, w, &best, &ask, &iask, &ask, &info, 1, 1);
    fint lwork = at_least_1((int64_t)best), liwork = at_least_1(iask);
    double *work = wf_alloc(sizeof *work * (size_t)lwork);
    fint *iwork = wf_alloc(sizeof *iwork * (size_t)liwork);
    if (work && iwork)
        lib.syevd("V", "L", &N, a, &ld, w, work, &lwork, iwork, &liwork, &info, 1, 1);
    int64_t result = work && iwork ? failed_at(info) : WF_LAPACK_OOM;
    wf_free(work);
    wf_free(iwork);
    return result;
}

static int64_t svd(int64_t m, int64_t n, double *a, bool full, double *u, double *s, double *vt)
{
    int64_t p = WF_MIN(m, n);
    fint M = (fint)m, N = (fint)n, ld = at_least_1(m), ldvt = at_least_1(full ? n : p), info = 0, ask = -1;
    double best = 1;
    fint *iwork = wf_alloc(sizeof *iwork * (size_t)(8 * p + 1));
    if (!iwork)
        return WF_LAPACK_OOM;
    lib.gesdd(full ? "A" : "S", &M, &N, a, &ld, s, u, &ld, vt, &ldvt, &best, &ask, iwork, &info, 1);
    fint lwork = at_least_1((int64_t)best);
    double *work = wf_alloc(sizeof *work * (size_t)lwork);
    if (work)
        lib.gesdd(full ? "A" : "S", &M, &N, a, &ld, s, u, &ld, vt, &ldvt, work, &lwork, iwork, &info, 1);
    int64_t result = work ? failed_at(info) : WF_LAPACK_OOM;
    wf_free(work);
    wf_free(iwork);
    return result;
}

/* A function pointer from dlsym without a cast that ISO C does not know. */
static bool bind(void *handle, const char *name, void *field)
{
    void *p = dlsym(handle, name);
    memcpy(field, &p, sizeof p);
    return p != NULL;
}

/* Nothing of a library is used here: it may be named after another one was chosen for the process. It stays loaded, as below. */
static bool is_there(const char *file)
{
    static const char *const needed[] = {"dpotrf_", "dgetrf_", "dgeqrf_", "dorgqr_", "dsyevd_", "dgesdd_"};
    void *h = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    bool all = h != NULL;
    for (size_t i = 0; i < WF_COUNT(needed) && all; i++)
        all = dlsym(h, needed[i]) != NULL;
    return all;
}

weft_status wf_lapack_check(void)
{
    const char *asked = getenv("WEFT_LAPACK");
    if (!asked || !*asked || strcmp(asked, "none") == 0 || is_there(asked))
        return WEFT_OK;
    return wf_fail(WEFT_E_VALUE, "WEFT_LAPACK is \"%.200s\", no library with the functions of LAPACK; known: none, the name or path of one", asked);
}

static bool open_file(const char *file)
{
    void (*threads)(int) = NULL;
    void *h = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!h)
        return false;
    if (!bind(h, "dpotrf_", &lib.potrf) || !bind(h, "dgetrf_", &lib.getrf) || !bind(h, "dgeqrf_", &lib.geqrf) || !bind(h, "dorgqr_", &lib.orgqr) ||
        !bind(h, "dsyevd_", &lib.syevd) || !bind(h, "dgesdd_", &lib.gesdd)) {
        dlclose(h);
        return false;
    }
    if (bind(h, "openblas_set_num_threads", &threads))
        threads(1);
    return true; /* never closed: its threads and thread-local data may outlive a close */
}

static wf_lapack found;
static void choose(void)
{
#if defined(__APPLE__)
    static const char *const known[] = {"liblapack.dylib", "libopenblas.dylib"};
#else
    static const char *const known[] = {"liblapack.so.3", "libopenblas.so.0", "libopenblas.so", "liblapack.so"};
#endif
    const char *asked = getenv("WEFT_LAPACK"), *name = NULL;
    if (asked && !*asked)
        asked = NULL;
    if (asked && strcmp(asked, "none") != 0)
        name = open_file(asked) ? asked : NULL;
    for (size_t i = 0; !asked && !name && i < WF_COUNT(known); i++)
        name = open_file(known[i]) ? known[i] : NULL;
    found = name ? (wf_lapack){name, cholesky, lu, qr, eigh, svd} : wf_lapack_plain;
}

const wf_lapack *wf_lapack_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return &found;
}
