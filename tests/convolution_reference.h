/* convolution_reference.h - convolution, pooling and resampling in double, by their definitions, over three axes
 * (fewer: leading extents of 1).
 */
#ifndef CONVOLUTION_REFERENCE_H
#define CONVOLUTION_REFERENCE_H

#include <math.h>
#include <stdint.h>

typedef struct ref_conv {
    int64_t B, C, O, groups, in[3], size[3], stride[3], dilation[3], low[3], out[3];
} ref_conv;

/* Visits every pair (output position, kernel element) with the input position it meets. */
#define REF_WINDOWS(c, body)                                                                                              \
    for (int64_t o0 = 0; o0 < (c)->out[0]; o0++)                                                                          \
        for (int64_t o1 = 0; o1 < (c)->out[1]; o1++)                                                                      \
            for (int64_t o2 = 0; o2 < (c)->out[2]; o2++)                                                                  \
                for (int64_t k0 = 0; k0 < (c)->size[0]; k0++)                                                             \
                    for (int64_t k1 = 0; k1 < (c)->size[1]; k1++)                                                         \
                        for (int64_t k2 = 0; k2 < (c)->size[2]; k2++) {                                                   \
                            const int64_t i0 = o0 * (c)->stride[0] + k0 * (c)->dilation[0] - (c)->low[0];                 \
                            const int64_t i1 = o1 * (c)->stride[1] + k1 * (c)->dilation[1] - (c)->low[1];                 \
                            const int64_t i2 = o2 * (c)->stride[2] + k2 * (c)->dilation[2] - (c)->low[2];                 \
                            const int inside = i0 >= 0 && i0 < (c)->in[0] && i1 >= 0 && i1 < (c)->in[1] && i2 >= 0 && i2 < (c)->in[2]; \
                            const int64_t at_out = (o0 * (c)->out[1] + o1) * (c)->out[2] + o2;                            \
                            const int64_t at_k = (k0 * (c)->size[1] + k1) * (c)->size[2] + k2;                            \
                            const int64_t at_in = (i0 * (c)->in[1] + i1) * (c)->in[2] + i2;                               \
                            (void)at_k, (void)at_in, (void)at_out, (void)inside;                                          \
                            body                                                                                          \
                        }

static inline int64_t ref_count(const int64_t *v) { return v[0] * v[1] * v[2]; }

/* y [B, O, out], m the sums of absolute products. */
static inline void ref_conv_forward(const ref_conv *c, const float *x, const float *w, const float *bias, double *y, double *m)
{
    const int64_t I = ref_count(c->in), P = ref_count(c->out), K = ref_count(c->size), Cg = c->C / c->groups, Og = c->O / c->groups;
    for (int64_t b = 0; b < c->B; b++)
        for (int64_t o = 0; o < c->O; o++) {
            double *yo = y + (b * c->O + o) * P, *mo = m + (b * c->O + o) * P;
            for (int64_t p = 0; p < P; p++) {
                yo[p] = bias ? bias[o] : 0;
                mo[p] = fabs(yo[p]);
            }
            for (int64_t ci = 0; ci < Cg; ci++) {
                const float *xc = x + (b * c->C + o / Og * Cg + ci) * I, *wc = w + (o * Cg + ci) * K;
                REF_WINDOWS(c, if (inside) {
                    yo[at_out] += (double)xc[at_in] * wc[at_k];
                    mo[at_out] += fabs((double)xc[at_in] * wc[at_k]);
                })
            }
        }
}

/* The other way round: `in` and C describe the result, `out` and O the operand; w [O, C / groups, K]. */
static inline void ref_conv_backward(const ref_conv *c, const float *x, const float *w, const float *bias, double *y, double *m)
{
    const int64_t I = ref_count(c->in), P = ref_count(c->out), K = ref_count(c->size), Cg = c->C / c->groups, Og = c->O / c->groups;
    for (int64_t i = 0; i < c->B * c->C * I; i++) {
        y[i] = bias ? bias[i / I % c->C] : 0;
        m[i] = fabs(y[i]);
    }
    for (int64_t b = 0; b < c->B; b++)
        for (int64_t o = 0; o < c->O; o++)
            for (int64_t ci = 0; ci < Cg; ci++) {
                const int64_t ch = b * c->C + o / Og * Cg + ci;
                const float *xo = x + (b * c->O + o) * P, *wc = w + (o * Cg + ci) * K;
                REF_WINDOWS(c, if (inside) {
                    y[ch * I + at_in] += (double)xo[at_out] * wc[at_k];
                    m[ch * I + at_in] += fabs((double)xo[at_out] * wc[at_k]);
                })
            }
}

#endif
