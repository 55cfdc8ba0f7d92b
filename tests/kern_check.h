/* kern_check.h - for the tests of the CPU's named kernels: random operands behind awkward views, and running
 * the launch that the kernel table chooses.
 */
#ifndef KERN_CHECK_H
#define KERN_CHECK_H

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cpu.h"
#include "kernels_cpu.h"

static uint64_t rng_state = 0x9e3779b97f4a7c15u;
static inline uint32_t rng(void)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33);
}
static inline float rng_float(void) { return (float)((double)rng() / 1073741824.0 - 1.0); }
static inline int64_t pick(int64_t n) { return (int64_t)(rng() % (uint64_t)n); }

typedef struct operand {
    wf_operand op;
    void *data;
    size_t bytes;
} operand;

/* How the elements of an operand lie. */
enum { LIE_ROWS, LIE_TURNED, LIE_SLICED, LIE_NEGATIVE, LIE_BROADCAST, LIE_COUNT };

static inline size_t float_bytes(weft_dtype t) { return t == WEFT_DTYPE_F64 || t == WEFT_DTYPE_I64 ? 8 : t == WEFT_DTYPE_F32 || t == WEFT_DTYPE_I32 ? 4 : t == WEFT_DTYPE_BOOL ? 1 : 2; }
static inline void put_value(void *p, weft_dtype t, int64_t i, double v)
{
    switch (t) {
    case WEFT_DTYPE_F64: ((double *)p)[i] = v; break;
    case WEFT_DTYPE_F16: ((uint16_t *)p)[i] = wf_f32_to_f16((float)v); break;
    case WEFT_DTYPE_BF16: ((uint16_t *)p)[i] = wf_f32_to_bf16((float)v); break;
    case WEFT_DTYPE_I32: ((int32_t *)p)[i] = (int32_t)v; break;
    case WEFT_DTYPE_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    default: ((float *)p)[i] = (float)v; break;
    }
}
static inline double get_value(const void *p, weft_dtype t, int64_t i)
{
    switch (t) {
    case WEFT_DTYPE_F64: return ((const double *)p)[i];
    case WEFT_DTYPE_F16: return wf_f16_to_f32(((const uint16_t *)p)[i]);
    case WEFT_DTYPE_BF16: return wf_bf16_to_f32(((const uint16_t *)p)[i]);
    case WEFT_DTYPE_I32: return ((const int32_t *)p)[i];
    case WEFT_DTYPE_BOOL: return ((const uint8_t *)p)[i];
    default: return ((const float *)p)[i];
    }
}

/* The storage is exactly as long as the view needs, so that a read past the end is found by ASan. */
static inline operand make_operand(weft_dtype t, int rank, const int64_t *shape, int lie)
{
    operand o = {.op = {.dtype = t, .step_slot = -1, .view = {.rank = rank}}};
    wf_view *v = &o.op.view;
    int order[WEFT_MAX_RANK];
    for (int i = 0; i < rank; i++)
        order[i] = i;
    if (lie == LIE_TURNED && rank >= 2) {
        order[rank - 1] = rank - 2;
        order[rank - 2] = rank - 1;
    }
    int64_t n = 1;
    for (int i = 0; i < WEFT_MAX_RANK; i++)
        v->shape[i] = i < rank ? shape[i] : 1;
    for (int i = rank - 1; i >= 0; i--) {
        const int at = order[i];
        int64_t step = 1;
        if (lie == LIE_SLICED)
            step = 1 + pick(3);
        if (lie == LIE_BROADCAST && at < rank - 2)
            step = 0;
        v->strides[at] = step * n;
        if (step)
            n *= WF_MAX(shape[at], 1) * step + (lie == LIE_SLICED ? pick(3) : 0);
    }
    if (lie == LIE_SLICED)
        v->offset = pick(7);
    int64_t lo = v->offset, hi = v->offset;
    for (int i = 0; i < rank; i++) {
        if (lie == LIE_NEGATIVE && pick(2))
            v->strides[i] = -v->strides[i];
        const int64_t span = (WF_MAX(shape[i], 1) - 1) * v->strides[i];
        *(span < 0 ? &lo : &hi) += span;
    }
    v->offset -= lo < 0 ? lo : 0;
    hi -= lo < 0 ? lo : 0;
    o.op.numel = hi + 1;
    o.bytes = (size_t)o.op.numel * float_bytes(t);
    o.data = malloc(o.bytes);
    assert_non_null(o.data);
    for (int64_t i = 0; i < o.op.numel; i++)
        put_value(o.data, t, i, rng_float());
    return o;
}

static inline wf_caps cpu_caps(int threads)
{
    wf_caps caps = {.runs_kir = true, .f64 = true, .i64 = true};
    caps.info.n_threads = (uint32_t)threads;
    return caps;
}

#define GUARD 64
/* Choose, bind and run; `out` is followed by a guard that must survive. `in` NULL entries are step scalars. */
static inline weft_status run_request(const wf_kernel_req *req, void *const *in, const size_t *in_bytes, void *out, size_t out_bytes,
                                      const uint32_t *step, wf_pool *pool, const char **row)
{
    wf_kernel_choice c;
    const wf_caps caps = cpu_caps(wf_pool_size(pool));
    const weft_status chosen = wf_kernel_choose_cpu(&caps, req, &c);
    if (chosen != WEFT_OK)
        return chosen;
    assert_int_equal(c.n_launches, 1);
    const wf_launch *l = &c.launch[0];
    if (row)
        *row = l->row;
    void *scratch = malloc(c.scratch_bytes + 1);
    assert_non_null(scratch);
    atomic_bool cancel = false;
    _Atomic uint32_t error[WF_ERROR_WORDS] = {0};
    wf_cpu_run run = {.n_bind = l->n_bind, .statics = l->statics, .step = step, .pool = pool, .cancel = &cancel, .error = error};
    for (uint32_t i = 0; i < l->n_bind; i++) {
        const int b = l->bind[i];
        run.ptr[i] = b >= 0 ? in[b] : b == WF_BIND_OUT ? out : scratch;
        run.size[i] = b >= 0 ? in_bytes[b] : b == WF_BIND_OUT ? out_bytes : c.scratch_bytes;
    }
    memset((char *)out + out_bytes, 0x5a, GUARD);
    const wf_cpu_named *named = wf_cpu_named_find(l->row);
    assert_non_null(named);
    const weft_status st = named->fn(&run, NULL);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(((unsigned char *)out)[out_bytes + i], 0x5a);
    free(scratch);
    return st;
}

#endif
