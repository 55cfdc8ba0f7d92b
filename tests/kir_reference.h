/* kir_reference.h - the meaning of kernel IR, one point and one value at a time: what the interpreter is
 * compared with. Written from the comments of kir.h alone. */
#ifndef WF_TEST_KIR_REFERENCE_H
#define WF_TEST_KIR_REFERENCE_H

#include <math.h>
#include <stdlib.h>

#include "kir.h"

typedef union rvalue {
    float f;
    int32_t i;
    uint32_t u; /* BOOL too */
    double d;
    int64_t l;
} rvalue;

typedef struct rmachine {
    const wf_kir *k;
    const int32_t *statics;
    const uint32_t *step;
    void *const *ptr;
    const uint64_t *size;
    const float *in; /* IN: value of the point, or NULL */
    int64_t coord[WF_KIR_MAX_AXES];
    rvalue val[WF_KIR_MAX_INSTR];
    rvalue acc[WF_KIR_MAX_STAGES][WF_KIR_MAX_ACC];
    double wide[WF_KIR_MAX_STAGES][WF_KIR_MAX_ACC]; /* F32 sums and products */
    int32_t arg[WF_KIR_MAX_STAGES][WF_KIR_MAX_ACC];
    uint32_t error;
} rmachine;

static double r_as_double(wf_kty t, rvalue v)
{
    switch (t) {
    case WF_KTY_F32: return v.f;
    case WF_KTY_I32: return v.i;
    case WF_KTY_F64: return v.d;
    case WF_KTY_I64: return (double)v.l;
    default: return v.u;
    }
}

static float r_block_element(weft_dtype dtype, const uint8_t *p, int64_t i)
{
    size_t bytes = weft_dtype_block_bytes(dtype);
    p += (size_t)(i / 32) * bytes;
    int j = (int)(i % 32);
    uint16_t s, m;
    memcpy(&s, p, 2);
    memcpy(&m, p + 2, 2);
    if (dtype == WEFT_DTYPE_Q8_0)
        return (float)(int8_t)p[2 + j] * wf_f16_to_f32(s);
    const uint8_t *q = p + (dtype == WEFT_DTYPE_Q4_0 ? 2 : 4);
    int n = j < 16 ? q[j] & 15 : q[j - 16] >> 4;
    if (dtype == WEFT_DTYPE_Q4_0)
        return (float)(n - 8) * wf_f16_to_f32(s);
    float product = (float)n * wf_f16_to_f32(s);
    return product + wf_f16_to_f32(m);
}

static rvalue r_load(weft_dtype dtype, const void *p, int64_t i)
{
    rvalue v = {.l = 0};
    switch (dtype) {
    case WEFT_DTYPE_F32: v.f = ((const float *)p)[i]; break;
    case WEFT_DTYPE_F16: v.f = wf_f16_to_f32(((const uint16_t *)p)[i]); break;
    case WEFT_DTYPE_BF16: v.f = wf_bf16_to_f32(((const uint16_t *)p)[i]); break;
    case WEFT_DTYPE_F64: v.d = ((const double *)p)[i]; break;
    case WEFT_DTYPE_I32: v.i = ((const int32_t *)p)[i]; break;
    case WEFT_DTYPE_U32: v.u = ((const uint32_t *)p)[i]; break;
    case WEFT_DTYPE_I8: v.i = ((const int8_t *)p)[i]; break;
    case WEFT_DTYPE_U8: v.u = ((const uint8_t *)p)[i]; break;
    case WEFT_DTYPE_I64: v.l = ((const int64_t *)p)[i]; break;
    case WEFT_DTYPE_BOOL: v.u = ((const uint8_t *)p)[i] != 0; break;
    default: v.f = r_block_element(dtype, p, i);
    }
    return v;
}

static void r_store(weft_dtype dtype, void *p, int64_t i, rvalue v)
{
    switch (dtype) {
    case WEFT_DTYPE_F32: ((float *)p)[i] = v.f; break;
    case WEFT_DTYPE_F16: ((uint16_t *)p)[i] = wf_f32_to_f16(v.f); break;
    case WEFT_DTYPE_BF16: ((uint16_t *)p)[i] = wf_f32_to_bf16(v.f); break;
    case WEFT_DTYPE_F64: ((double *)p)[i] = v.d; break;
    case WEFT_DTYPE_I32:
    case WEFT_DTYPE_U32: ((uint32_t *)p)[i] = v.u; break;
    case WEFT_DTYPE_I64: ((int64_t *)p)[i] = v.l; break;
    default: ((uint8_t *)p)[i] = (uint8_t)v.u;
    }
}

static int64_t r_saturate(double d, double lo, double hi, int64_t ilo, int64_t ihi)
{
    return d != d ? 0 : d <= lo ? ilo : d >= hi ? ihi : (int64_t)d;
}

static rvalue r_cast(wf_kty from, wf_kty to, rvalue v)
{
    rvalue r = {.l = 0};
    bool is_float = from == WF_KTY_F32 || from == WF_KTY_F64;
    double d = r_as_double(from, v);
    int64_t l = from == WF_KTY_I32 ? v.i : from == WF_KTY_I64 ? v.l : v.u;
    switch (to) {
    case WF_KTY_F32: r.f = from == WF_KTY_I64 ? (float)v.l : (float)d; break;
    case WF_KTY_F64: r.d = d; break;
    case WF_KTY_I32: r.i = is_float ? (int32_t)r_saturate(d, -2147483648.0, 2147483647.0, INT32_MIN, INT32_MAX) : (int32_t)l; break;
    case WF_KTY_U32: r.u = is_float ? (uint32_t)r_saturate(d, 0, 4294967295.0, 0, UINT32_MAX) : (uint32_t)l; break;
    case WF_KTY_I64: r.l = is_float ? r_saturate(d, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX) : l; break;
    default: r.u = is_float ? d != 0 : l != 0; break;
    }
    return r;
}

static bool r_less(wf_kty t, rvalue a, rvalue b)
{
    return t == WF_KTY_I64 ? a.l < b.l : r_as_double(t, a) < r_as_double(t, b);
}
static bool r_equal(wf_kty t, rvalue a, rvalue b)
{
    return t == WF_KTY_I64 ? a.l == b.l : r_as_double(t, a) == r_as_double(t, b);
}
static bool r_nan(wf_kty t, rvalue a) { return t == WF_KTY_F32 ? a.f != a.f : t == WF_KTY_F64 && a.d != a.d; }

static rvalue r_extreme(wf_kty t, rvalue a, rvalue b, bool max)
{
    if (r_nan(t, a))
        return a;
    if (r_nan(t, b))
        return b;
    return (max ? r_less(t, a, b) : r_less(t, b, a)) ? b : a;
}

static double r_unary(wf_kop op, double x)
{
    switch (op) {
    case WF_KOP_EXP: return exp(x);
    case WF_KOP_LOG: return log(x);
    case WF_KOP_SQRT: return sqrt(x);
    case WF_KOP_RSQRT: return 1 / sqrt(x);
    case WF_KOP_SIN: return sin(x);
    case WF_KOP_COS: return cos(x);
    case WF_KOP_TANH: return tanh(x);
    case WF_KOP_ERF: return erf(x);
    case WF_KOP_FLOOR: return floor(x);
    default: return op == WF_KOP_NEG ? -x : fabs(x);
    }
}

static double r_float_binary(wf_kop op, wf_kty t, double a, double b)
{
    switch (op) { /* one rounding of an exact or correctly rounded double is the float result for these */
    case WF_KOP_ADD: return t == WF_KTY_F32 ? (float)a + (float)b : a + b;
    case WF_KOP_SUB: return t == WF_KTY_F32 ? (float)a - (float)b : a - b;
    case WF_KOP_MUL: return t == WF_KTY_F32 ? (float)a * (float)b : a * b;
    case WF_KOP_DIV: return t == WF_KTY_F32 ? (float)a / (float)b : a / b;
    default: return pow(a, b);
    }
}

static int64_t r_int_binary(wf_kop op, wf_kty t, int64_t a, int64_t b)
{
    int bits = t == WF_KTY_I64 ? 64 : 32;
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    switch (op) {
    case WF_KOP_ADD: return (int64_t)(ua + ub);
    case WF_KOP_SUB: return (int64_t)(ua - ub);
    case WF_KOP_MUL: return (int64_t)(ua * ub);
    case WF_KOP_DIV: return b == 0 ? 0 : b == -1 ? (int64_t)(0 - ua) : a / b;
    case WF_KOP_MOD: return b == 0 || b == -1 ? 0 : a % b;
    case WF_KOP_MULHI: return (int64_t)((ua * ub) >> 32);
    case WF_KOP_AND: return a & b;
    case WF_KOP_OR: return a | b;
    case WF_KOP_XOR: return a ^ b;
    case WF_KOP_SHL: return (int64_t)(ua << (b & (bits - 1)));
    default: return a >> (b & (bits - 1));
    }
}

static rvalue r_from_int(wf_kty t, int64_t v)
{
    rvalue r = {.l = 0};
    if (t == WF_KTY_I64)
        r.l = v;
    else
        r.u = (uint32_t)v;
    return r;
}

static rvalue r_arithmetic(const wf_kinstr *in, wf_kty ta, rvalue a, rvalue b, rvalue c)
{
    wf_kty t = (wf_kty)in->type;
    rvalue r = {.l = 0};
    bool is_float = ta == WF_KTY_F32 || ta == WF_KTY_F64;
    int64_t ia = ta == WF_KTY_I32 ? a.i : ta == WF_KTY_I64 ? a.l : a.u, ib = ta == WF_KTY_I32 ? b.i : ta == WF_KTY_I64 ? b.l : b.u;
    double fr;
    switch (in->op) {
    case WF_KOP_SELECT: return a.u ? b : c;
    case WF_KOP_FMA:
        if (!is_float)
            return r_from_int(t, ia * ib + (t == WF_KTY_I64 ? c.l : c.i));
        fr = t == WF_KTY_F32 ? fmaf(a.f, b.f, c.f) : fma(a.d, b.d, c.d);
        break;
    case WF_KOP_MAX:
    case WF_KOP_MIN: return r_extreme(ta, a, b, in->op == WF_KOP_MAX);
    case WF_KOP_EQ: r.u = r_equal(ta, a, b); return r;
    case WF_KOP_NE: r.u = !r_equal(ta, a, b); return r;
    case WF_KOP_LT: r.u = r_less(ta, a, b); return r;
    case WF_KOP_LE: r.u = r_less(ta, a, b) || r_equal(ta, a, b); return r;
    case WF_KOP_GT: r.u = r_less(ta, b, a); return r;
    case WF_KOP_GE: r.u = r_less(ta, b, a) || r_equal(ta, a, b); return r;
    case WF_KOP_NOT: return t == WF_KTY_BOOL ? (r.u = !a.u, r) : r_from_int(t, ~ia);
    default:
        if (!is_float) {
            if (in->op == WF_KOP_NEG || (in->op == WF_KOP_ABS && ia < 0))
                return r_from_int(t, (int64_t)(0 - (uint64_t)ia));
            return in->op == WF_KOP_ABS ? a : r_from_int(t, r_int_binary((wf_kop)in->op, t, ia, ib));
        }
        fr = wf_kop_operands[in->op] == 1 ? r_unary((wf_kop)in->op, r_as_double(t, a))
                                          : r_float_binary((wf_kop)in->op, t, r_as_double(t, a), r_as_double(t, b));
    }
    if (t == WF_KTY_F32)
        r.f = (float)fr;
    else
        r.d = fr;
    return r;
}

static void r_instr(rmachine *m, int i)
{
    const wf_kinstr *in = &m->k->instr[i];
    rvalue a = in->a >= 0 ? m->val[in->a] : (rvalue){0}, b = in->b >= 0 ? m->val[in->b] : (rvalue){0};
    rvalue c = in->c >= 0 ? m->val[in->c] : (rvalue){0}, r = {.l = 0};
    const int32_t *w = m->statics + in->slot;
    int n_axes = m->k->n_outer + m->k->n_inner;
    switch (in->op) {
    case WF_KOP_CONST: r.l = (int64_t)in->imm; break;
    case WF_KOP_STATIC: r.i = w[0]; break;
    case WF_KOP_STEP: r.u = m->step[w[0]]; break;
    case WF_KOP_AXIS: r.i = (int32_t)m->coord[in->slot]; break;
    case WF_KOP_AFFINE:
        r.i = w[0];
        for (int k = 0; k < n_axes; k++)
            r.i += (int32_t)m->coord[k] * w[1 + k];
        break;
    case WF_KOP_UNRAVEL: {
        int n = (int)in->imm;
        uint32_t rest = a.u;
        r.i = w[n];
        for (int k = n - 1; k >= 0; k--) {
            uint32_t at = k ? rest % (uint32_t)w[k] : rest;
            r.i += (int32_t)at * w[n + 1 + k];
            rest = k ? rest / (uint32_t)w[k] : 0;
        }
        break;
    }
    case WF_KOP_LOAD: r = r_load((weft_dtype)m->k->bind[in->slot].dtype, m->ptr[in->slot], a.i); break;
    case WF_KOP_ACC: r = m->acc[in->slot][in->imm]; break;
    case WF_KOP_IN: r.f = *m->in; break;
    case WF_KOP_STORE: r_store((weft_dtype)m->k->bind[in->slot].dtype, m->ptr[in->slot], a.i, b); break;
    case WF_KOP_CHECK:
        r.i = a.i < 0 && !in->imm ? a.i + w[0] : a.i;
        if (r.i < 0 || r.i >= w[0]) {
            r.i = 0;
            m->error = 1;
        }
        break;
    case WF_KOP_CAST: r = r_cast((wf_kty)m->k->instr[in->a].type, (wf_kty)in->type, a); break;
    case WF_KOP_ROUND16:
        r.f = in->imm == WEFT_DTYPE_F16 ? wf_f16_to_f32(wf_f32_to_f16(a.f)) : wf_bf16_to_f32(wf_f32_to_bf16(a.f));
        break;
    case WF_KOP_BITCAST: r = a; break;
    default: r = r_arithmetic(in, in->a >= 0 ? (wf_kty)m->k->instr[in->a].type : (wf_kty)in->type, a, b, c);
    }
    m->val[i] = r;
}

static rvalue r_start(const wf_kacc *a)
{
    rvalue v = {.l = 0};
    bool low = a->rop == WF_KROP_MAX || a->rop == WF_KROP_ARGMAX, sum = a->rop == WF_KROP_SUM, prod = a->rop == WF_KROP_PROD;
    switch (a->type) {
    case WF_KTY_F32: v.f = sum ? 0 : prod ? 1 : low ? -INFINITY : INFINITY; break;
    case WF_KTY_F64: v.d = sum ? 0 : prod ? 1 : low ? -INFINITY : INFINITY; break;
    case WF_KTY_I32: v.i = sum ? 0 : prod ? 1 : low ? INT32_MIN : INT32_MAX; break;
    case WF_KTY_I64: v.l = sum ? 0 : prod ? 1 : low ? INT64_MIN : INT64_MAX; break;
    case WF_KTY_U32: v.u = sum ? 0 : prod ? 1 : low ? 0 : UINT32_MAX; break;
    default: v.u = sum ? 0 : prod ? 1 : low ? 0 : 1; break;
    }
    return v;
}

static void r_fold(rmachine *m, int s, int j, int32_t position)
{
    const wf_kacc *a = &m->k->stages[s].acc[j];
    wf_kty t = (wf_kty)a->type;
    rvalue v = m->val[a->value], *acc = &m->acc[s][j];
    bool max = a->rop == WF_KROP_ARGMAX || a->rop == WF_KROP_MAX;
    switch (a->rop) {
    case WF_KROP_SUM:
    case WF_KROP_PROD: {
        bool sum = a->rop == WF_KROP_SUM;
        if (t == WF_KTY_F32)
            m->wide[s][j] = sum ? m->wide[s][j] + v.f : m->wide[s][j] * v.f;
        else if (t == WF_KTY_F64)
            acc->d = sum ? acc->d + v.d : acc->d * v.d;
        else if (t == WF_KTY_I64)
            acc->l = (int64_t)(sum ? (uint64_t)acc->l + (uint64_t)v.l : (uint64_t)acc->l * (uint64_t)v.l);
        else
            acc->u = sum ? acc->u + v.u : acc->u * v.u;
        break;
    }
    case WF_KROP_MAX:
    case WF_KROP_MIN: *acc = r_extreme(t, *acc, v, max); break;
    default:
        if (r_nan(t, *acc))
            break;
        if (r_nan(t, v) || (max ? r_less(t, *acc, v) : r_less(t, v, *acc))) {
            *acc = v;
            m->arg[s][j] = position;
        }
    }
}

static bool r_next(rmachine *m, int first, int end)
{
    const int32_t *extent = m->statics + m->k->extent_slot;
    for (int a = end - 1; a >= first; a--) {
        if (++m->coord[a] < extent[a])
            return true;
        m->coord[a] = 0;
    }
    return false;
}

static void r_point(rmachine *m)
{
    const wf_kir *k = m->k;
    int n_axes = k->n_outer + k->n_inner;
    const int32_t *extent = m->statics + k->extent_slot;
    int64_t n_inner = 1;
    for (int a = k->n_outer; a < n_axes; a++)
        n_inner *= extent[a];
    for (int s = 0; s < k->n_stages; s++) {
        const wf_kstage *st = &k->stages[s];
        int64_t n = st->kind == WF_KSTAGE_OUTER ? 1 : n_inner;
        for (int j = 0; j < st->n_acc; j++) {
            m->acc[s][j] = r_start(&st->acc[j]);
            m->wide[s][j] = st->acc[j].rop == WF_KROP_PROD;
            m->arg[s][j] = 0;
        }
        for (int64_t p = 0; p < n; p++) {
            for (int i = st->first; i < st->first + st->count; i++)
                r_instr(m, i);
            for (int j = 0; j < st->n_acc; j++)
                r_fold(m, s, j, (int32_t)p);
            if (st->kind != WF_KSTAGE_OUTER)
                r_next(m, k->n_outer, n_axes);
        }
        for (int j = 0; j < st->n_acc; j++) {
            const wf_kacc *a = &st->acc[j];
            if (a->rop >= WF_KROP_ARGMAX)
                m->acc[s][j].i = m->arg[s][j];
            else if (a->type == WF_KTY_F32 && a->rop <= WF_KROP_PROD)
                m->acc[s][j].f = (float)m->wide[s][j];
        }
    }
}

/* Runs the kernel; returns the error word. */
static uint32_t r_run(const wf_kir *k, const int32_t *statics, const uint32_t *step, void *const *ptr, const uint64_t *size)
{
    rmachine *m = calloc(1, sizeof *m);
    m->k = k;
    m->statics = statics;
    m->step = step;
    m->ptr = ptr;
    m->size = size;
    bool empty = false;
    for (int a = 0; a < k->n_outer; a++)
        empty |= statics[k->extent_slot + a] == 0;
    if (!empty)
        do
            r_point(m);
        while (r_next(m, 0, k->n_outer));
    uint32_t error = m->error;
    free(m);
    return error;
}

#endif
