/* vec_libm.c - the loops of LIBM: double-precision functions of the C library, element by element.
 *
 * In f64 no function of our own would be more exact, and no device but the CPU computes it.
 */
#include <math.h>

#include "vec_ops.h"

/* lgamma writes the global signgam; the reentrant form, where there is one, has its sign returned. */
#if defined(__GLIBC__)
double lgamma_r(double, int *);
static double wf_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}
#define lgamma wf_lgamma
#endif

#define X(name)                                                                      \
    static void loop_##name(void *dp, const void *ap, const void *bp, int64_t n)     \
    {                                                                                \
        double *d = dp;                                                              \
        const double *a = ap;                                                        \
        for (int64_t i = 0; i < n; i++)                                              \
            d[i] = name(a[i]);                                                       \
    }
WF_LIBM_ONE(X)
#undef X
#define X(name)                                                                      \
    static void loop_##name(void *dp, const void *ap, const void *bp, int64_t n)     \
    {                                                                                \
        double *d = dp;                                                              \
        const double *a = ap, *b = bp;                                               \
        for (int64_t i = 0; i < n; i++)                                              \
            d[i] = name(a[i], b[i]);                                                 \
    }
WF_LIBM_TWO(X)
#undef X

wf_vec2 wf_libm_loop(wf_libm function)
{
    static const wf_vec2 loops[WF_LIBM_COUNT] = {
#define X(name) loop_##name,
        WF_LIBM_ONE(X) WF_LIBM_TWO(X)
#undef X
    };
    return loops[function];
}
