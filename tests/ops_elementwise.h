/* ops_elementwise.h - cases of the elementwise rows: one table, one driver; casts and copies have their own. */
#ifndef OPS_ELEMENTWISE_H
#define OPS_ELEMENTWISE_H

#include "ops_case.h"

enum { BIT_F32 = 1 << REF_F32, BIT_F16 = 1 << REF_F16, BIT_BF16 = 1 << REF_BF16, BIT_F64 = 1 << REF_F64, BIT_BOOL = 1 << REF_BOOL };
enum { FLOATS = BIT_F32 | BIT_F16 | BIT_BF16 | BIT_F64, PLAIN = (1 << (REF_BOOL + 1)) - 1, NUMBERS = PLAIN & ~BIT_BOOL, INTEGERS = NUMBERS & ~FLOATS };

typedef enum ops_result { SAME, BOOLEAN, FLOAT_OR_F32 } ops_result;

typedef struct pointwise {
    weft_tensor *(*one)(weft_tensor *);
    weft_tensor *(*two)(weft_tensor *, weft_tensor *);
    int dtypes;
    ops_result result;
    ops_domain domain[2];
} pointwise;

static weft_tensor *round_whole(weft_tensor *x) { return weft_round(x, 0); }

#define ONE(fn, dtypes, result, domain) {fn, NULL, dtypes, result, {domain, domain}}
#define TWO(fn, dtypes, result, first, second) {NULL, fn, dtypes, result, {first, second}}
static const pointwise pointwise_rows[OP_COUNT] = {
    [OP_ADD] = TWO(weft_add, PLAIN, SAME, ANY, ANY),
    [OP_SUB] = TWO(weft_sub, NUMBERS, SAME, ANY, ANY),
    [OP_MUL] = TWO(weft_mul, PLAIN, SAME, ANY, ANY),
    [OP_DIV] = TWO(weft_div, NUMBERS, FLOAT_OR_F32, ANY, ANY),
    [OP_POW] = TWO(weft_pow, FLOATS, SAME, POSITIVE, SMALL),
    [OP_MAXIMUM] = TWO(weft_maximum, PLAIN, SAME, TIES, TIES),
    [OP_MINIMUM] = TWO(weft_minimum, PLAIN, SAME, TIES, TIES),
    [OP_EQ] = TWO(weft_eq, PLAIN, BOOLEAN, TIES, TIES),
    [OP_NE] = TWO(weft_ne, PLAIN, BOOLEAN, TIES, TIES),
    [OP_LT] = TWO(weft_lt, PLAIN, BOOLEAN, TIES, TIES),
    [OP_LE] = TWO(weft_le, PLAIN, BOOLEAN, TIES, TIES),
    [OP_GT] = TWO(weft_gt, PLAIN, BOOLEAN, TIES, TIES),
    [OP_GE] = TWO(weft_ge, PLAIN, BOOLEAN, TIES, TIES),
    [OP_NEG] = ONE(weft_neg, NUMBERS, SAME, ANY),
    [OP_ABS] = ONE(weft_abs, NUMBERS, SAME, ANY),
    [OP_EXP] = ONE(weft_exp, PLAIN, FLOAT_OR_F32, ANY),
    [OP_LOG] = ONE(weft_log, NUMBERS, FLOAT_OR_F32, POSITIVE),
    [OP_SQRT] = ONE(weft_sqrt, NUMBERS, FLOAT_OR_F32, POSITIVE),
    [OP_RSQRT] = ONE(weft_rsqrt, NUMBERS, FLOAT_OR_F32, POSITIVE),
    [OP_SIN] = ONE(weft_sin, NUMBERS, FLOAT_OR_F32, ANY),
    [OP_COS] = ONE(weft_cos, NUMBERS, FLOAT_OR_F32, ANY),
    [OP_TANH] = ONE(weft_tanh, NUMBERS, FLOAT_OR_F32, SMALL),
    [OP_ERF] = ONE(weft_erf, NUMBERS, FLOAT_OR_F32, SMALL),
    [OP_FLOOR] = ONE(weft_floor, PLAIN, SAME, ANY),
    [OP_SIGMOID] = ONE(weft_sigmoid, NUMBERS, FLOAT_OR_F32, ANY),
    [OP_SILU] = ONE(weft_silu, NUMBERS, FLOAT_OR_F32, ANY),
    [OP_GELU] = ONE(weft_gelu, NUMBERS, FLOAT_OR_F32, SMALL),
    [OP_GELU_TANH] = ONE(weft_gelu_tanh, NUMBERS, FLOAT_OR_F32, SMALL),
    [OP_RELU] = ONE(weft_relu, NUMBERS, SAME, ANY),
    [OP_ERFC] = ONE(weft_erfc, NUMBERS, FLOAT_OR_F32, ANY),
    [OP_LGAMMA] = ONE(weft_lgamma, NUMBERS, FLOAT_OR_F32, POSITIVE),
    [OP_EXPM1] = ONE(weft_expm1, NUMBERS, FLOAT_OR_F32, ANY),
    [OP_LOG1P] = ONE(weft_log1p, NUMBERS, FLOAT_OR_F32, POSITIVE),
    [OP_LOG2] = ONE(weft_log2, NUMBERS, FLOAT_OR_F32, POSITIVE),
    [OP_EXP2] = ONE(weft_exp2, NUMBERS, FLOAT_OR_F32, ANY),
    [OP_LOG10] = ONE(weft_log10, NUMBERS, FLOAT_OR_F32, POSITIVE),
    [OP_SINH] = ONE(weft_sinh, NUMBERS, FLOAT_OR_F32, ANY),
    [OP_COSH] = ONE(weft_cosh, NUMBERS, FLOAT_OR_F32, ANY),
    [OP_TAN] = ONE(weft_tan, NUMBERS, FLOAT_OR_F32, ANY),
    [OP_ASIN] = ONE(weft_asin, NUMBERS, FLOAT_OR_F32, SMALL),
    [OP_ACOS] = ONE(weft_acos, NUMBERS, FLOAT_OR_F32, SMALL),
    [OP_ATAN] = ONE(weft_atan, NUMBERS, FLOAT_OR_F32, ANY),
    [OP_ASINH] = ONE(weft_asinh, NUMBERS, FLOAT_OR_F32, ANY),
    [OP_ACOSH] = ONE(weft_acosh, NUMBERS, FLOAT_OR_F32, POSITIVE),
    [OP_ATANH] = ONE(weft_atanh, NUMBERS, FLOAT_OR_F32, SMALL),
    [OP_CEIL] = ONE(weft_ceil, PLAIN, SAME, ANY),
    [OP_TRUNC] = ONE(weft_trunc, PLAIN, SAME, ANY),
    [OP_ROUND] = ONE(round_whole, PLAIN, SAME, ANY),
    [OP_SIGNBIT] = ONE(weft_signbit, PLAIN, BOOLEAN, TIES),
    [OP_BITWISE_NOT] = ONE(weft_bitwise_not, INTEGERS, SAME, ANY),
    [OP_ATAN2] = TWO(weft_atan2, NUMBERS, FLOAT_OR_F32, ANY, ANY),
    [OP_HYPOT] = TWO(weft_hypot, NUMBERS, FLOAT_OR_F32, ANY, ANY),
    [OP_COPYSIGN] = TWO(weft_copysign, NUMBERS, FLOAT_OR_F32, ANY, ANY),
    [OP_FMOD] = TWO(weft_fmod, FLOATS, SAME, ANY, ANY),
    [OP_REMAINDER] = TWO(weft_remainder, FLOATS, SAME, ANY, ANY),
    [OP_FLOOR_DIVIDE] = TWO(weft_floor_divide, FLOATS, SAME, ANY, ANY),
    [OP_BITWISE_AND] = TWO(weft_bitwise_and, INTEGERS | BIT_BOOL, SAME, TIES, ANY),
    [OP_BITWISE_OR] = TWO(weft_bitwise_or, INTEGERS | BIT_BOOL, SAME, TIES, ANY),
    [OP_BITWISE_XOR] = TWO(weft_bitwise_xor, INTEGERS | BIT_BOOL, SAME, TIES, ANY),
    [OP_LEFT_SHIFT] = TWO(weft_bitwise_left_shift, INTEGERS, SAME, ANY, SMALL),
    [OP_RIGHT_SHIFT] = TWO(weft_bitwise_right_shift, INTEGERS, SAME, ANY, SMALL),
};
/* Bounds of op.def that name |x| of the element itself. */
static bool bound_names_x(ops_id id) { return id == OP_GELU || id == OP_GELU_TANH || id == OP_SILU; }

/* ---- shapes ---- */
typedef struct shape {
    int rank;
    int64_t dims[5];
} shape;
typedef struct shapes {
    shape of[4];
} shapes; /* rank -1 ends the list */
static const shapes kind_shapes[KIND_COUNT] = {
    [CONTIGUOUS] = {{{1, {1031}}, {0, {0}}, {4, {2, 3, 4, 5}}, {5, {2, 1, 3, 2, 5}}}},
    [TRANSPOSED] = {{{3, {3, 5, 7}}, {2, {5, 33}}, {4, {2, 3, 4, 5}}, {-1, {0}}}},
    [SLICED] = {{{3, {3, 5, 7}}, {1, {17}}, {2, {5, 65}}, {-1, {0}}}},
    [NEGATIVE] = {{{3, {3, 5, 7}}, {1, {17}}, {2, {5, 65}}, {-1, {0}}}},
    [BROADCAST] = {{{3, {3, 5, 7}}, {1, {17}}, {5, {2, 2, 3, 2, 5}}, {-1, {0}}}},
    [OVERLAPPING] = {{{2, {5, 7}}, {1, {17}}, {3, {3, 5, 7}}, {-1, {0}}}},
    [EMPTY] = {{{3, {3, 0, 2}}, {1, {0}}, {-1, {0}}, {-1, {0}}}},
    [SIZE1] = {{{3, {1, 5, 1}}, {1, {1}}, {5, {1, 1, 1, 1, 1}}, {-1, {0}}}},
    [SPECIALS] = {{{-1, {0}}, {-1, {0}}, {-1, {0}}, {-1, {0}}}},
};

/* How many of a kind's shapes run where a new structure is dear (a software adapter compiles tens of milliseconds
 * for each): every kind in f32; in other dtypes contiguous, special values, and, for every second pair of row and
 * dtype, one other kind that changes from row to row. */
static int n_shapes(const ops_row *op, ref_dtype t, ops_kind kind)
{
    if (!thrifty)
        return 4;
    if (t == REF_F32)
        return kind == CONTIGUOUS ? 1 + op->id % 2 : 1;
    int turn = 1 + (int)(op->id + 3 * (int)t) % EMPTY;
    bool in_turn = (op->id + (int)t) % 2;
    if (op->id > OP_EQ && op->id <= OP_GE) /* six rows that differ by an operator */
        return kind == SPECIALS || (in_turn && kind == CONTIGUOUS);
    return kind == CONTIGUOUS || kind == SPECIALS || (in_turn && (int)kind == turn);
}

/* ---- special values ---- */
static const double special_floats[] = {0, -0.0, 1, -1, 0.5, -2.5, 3, 88, -88, 104, -104, 1e-30, -1e-30, 1e-40, -1e-40, 6e-8,
                                        1e-5, 65504, 65519, 16777217, 1e30, -1e30, 3.4028234663852886e38, INFINITY, -INFINITY, NAN};
static const double special_ints[] = {0, 1, -1, 2, -3, 127, -128, 255, 32767, 65535, 2147483647, -2147483648.0, 4294967295.0};

static ref_array special_values(ref_dtype t)
{
    bool is_float = ref_is_float(t);
    int64_t n = is_float ? sizeof special_floats / sizeof(double) : sizeof special_ints / sizeof(double);
    ref_array a = ref_new(1, &n);
    for (int64_t i = 0; i < n; i++)
        a.data[i] = ref_round(t, is_float ? special_floats[i] : special_ints[i]);
    return a;
}

static double flushed(ref_dtype t, double v)
{
    return ref_is_float(t) && t != REF_F64 && fabs(v) < ref_min_normal(REF_F32) ? copysign(0, v) : v;
}

/* ---- the driver ---- */
static ref_dtype result_of(ops_result rule, ref_dtype t)
{
    return rule == BOOLEAN ? REF_BOOL : rule == FLOAT_OR_F32 && !ref_is_float(t) ? REF_F32 : t;
}

/* Integers wrap before anything is rounded to f64; for bool, several is true. */
static ref_array apply_fn(ref_fn fn, ref_dtype result, const operand *in, int n_in, int rank, const int64_t *dims, bool flush)
{
    ref_array r = ref_new(rank, dims), e[3];
    for (int k = 0; k < n_in; k++)
        e[k] = ref_expand(in[k].r, rank, dims);
    for (int64_t i = 0, n = ref_numel(&r); i < n; i++) {
        double v[3] = {0};
        for (int k = 0; k < n_in; k++) {
            v[k] = *ref_item(&e[k], i);
            if (flush)
                v[k] = flushed(in[k].dtype, v[k]);
        }
        long double y = fn(v[0], v[1], v[2]);
        r.data[i] = ref_is_float(result) ? (double)y : ref_round(result, y);
    }
    return r;
}

static void check_pointwise(op_case *c, weft_tensor *y, const operand *in, int n_in, int rank, const int64_t *dims,
                            ref_dtype result)
{
    ref_fn fn = ref_pointwise(c->op->name);
    ref_array want = apply_fn(fn, result, in, n_in, rank, dims, false), other, x = ref_expand(in[0].r, rank, dims);
    quantity more = {BOUND_X, &x};
    ref_array bound = bounds(c, result, 1, &want, NULL, bound_names_x(c->op->id), &more);
    if (flushes)
        other = apply_fn(fn, result, in, n_in, rank, dims, true);
    check(c, y, result, &want, &bound, flushes ? &other : NULL);
}

static weft_tensor *call_pointwise(const pointwise *p, const operand *in)
{
    return p->one ? p->one(in[0].t) : p->two(in[0].t, in[1].t);
}

static void pointwise_case(const ops_row *op, const pointwise *p, ref_dtype t, ops_kind kind, const shape *s)
{
    op_case c = begin(op, t, kind);
    operand in[2];
    int n_in = p->one ? 1 : 2;
    ref_dtype result = result_of(p->result, t);
    if (kind == OVERLAPPING && n_in == 1) { /* two windows of one storage, two results of one evaluation */
        make_overlapping(t, s->rank, s->dims, p->domain[0], 2, in);
        uses(&c, &in[0]);
        weft_tensor *y[2] = {p->one(in[0].t), p->one(in[1].t)};
        weft_eval(y, 2);
        for (int i = 0; i < 2; i++)
            check_pointwise(&c, y[i], &in[i], 1, s->rank, s->dims, result);
        end(&c);
        return;
    }
    if (kind == OVERLAPPING)
        make_overlapping(t, s->rank, s->dims, p->domain[0], 2, in);
    else
        for (int i = 0; i < n_in; i++)
            in[i] = make(t, s->rank, s->dims, kind, p->domain[i], i);
    for (int i = 0; i < n_in; i++)
        uses(&c, &in[i]);
    check_pointwise(&c, call_pointwise(p, in), in, n_in, s->rank, s->dims, result);
    end(&c);
}

static void pointwise_specials(const ops_row *op, const pointwise *p, ref_dtype t)
{
    bool is_float = ref_is_float(t);
    if (!is_float && (t == REF_BOOL || t == REF_I64 || p->result == FLOAT_OR_F32))
        return;
    op_case c = begin(op, t, SPECIALS);
    ref_array values = special_values(t);
    operand in[2] = {operand_of(t, values), operand_of(t, values)};
    int64_t n = values.shape[0], dims[2] = {n, n};
    int rank = p->one ? 1 : 2;
    uses(&c, &in[0]);
    if (rank == 2) { /* every value with every other */
        in[0].t = weft_unsqueeze(in[0].t, 1);
        in[0].r.rank = 2;
        in[0].r.shape[1] = 1;
        in[0].r.strides[1] = 0;
    }
    check_pointwise(&c, call_pointwise(p, in), in, rank, rank, dims, result_of(p->result, t));
    end(&c);
}

/* Two dtypes meet: what the result is, and one conversion for each. */
static void promotion_cases(const ops_row *op, const pointwise *p)
{
    static const ref_dtype pairs[][2] = {{REF_F16, REF_F32}, {REF_I32, REF_F32}, {REF_F16, REF_BF16}, {REF_U8, REF_I8}, {REF_BOOL, REF_F32}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        ref_dtype to = ref_promote(pairs[i][0], pairs[i][1]);
        if (!p->two || !(p->dtypes >> to & 1))
            continue;
        op_case c = begin(op, to, CONTIGUOUS);
        int64_t dims[2] = {5, 7};
        operand in[2];
        for (int k = 0; k < 2; k++) {
            in[k] = make(pairs[i][k], 2, dims, CONTIGUOUS, p->domain[k], k);
            uses(&c, &in[k]);
        }
        check_pointwise(&c, p->two(in[0].t, in[1].t), in, 2, 2, dims, result_of(p->result, to));
        end(&c);
    }
}

static inline void run_pointwise(const ops_row *op)
{
    const pointwise *p = &pointwise_rows[op->id];
    if (!ref_pointwise(op->name) || (!p->one && !p->two))
        fail_msg("%s: no case is made for this row", op->name);
    for (int t = REF_F32; t <= REF_BOOL; t++) {
        if (!(p->dtypes >> t & 1))
            continue;
        for (int kind = 0; kind < KIND_COUNT; kind++) {
            int n = n_shapes(op, (ref_dtype)t, (ops_kind)kind);
            for (int i = 0; i < n && kind_shapes[kind].of[i].rank >= 0; i++)
                pointwise_case(op, p, (ref_dtype)t, (ops_kind)kind, &kind_shapes[kind].of[i]);
        }
        if (n_shapes(op, (ref_dtype)t, SPECIALS))
            pointwise_specials(op, p, (ref_dtype)t);
    }
    promotion_cases(op, p);
}

/* ---- where ---- */
static void where_case(const ops_row *op, ref_dtype t, ops_kind kind, const shape *s)
{
    op_case c = begin(op, t, kind);
    operand in[3] = {make(REF_BOOL, s->rank, s->dims, kind == OVERLAPPING ? SLICED : kind, CONDITION, 0)};
    if (kind == OVERLAPPING)
        make_overlapping(t, s->rank, s->dims, ANY, 2, in + 1);
    else
        for (int i = 1; i < 3; i++)
            in[i] = make(t, s->rank, s->dims, kind, ANY, i);
    for (int i = 0; i < 3; i++)
        uses(&c, &in[i]);
    check_pointwise(&c, weft_where(in[0].t, in[1].t, in[2].t), in, 3, s->rank, s->dims, t);
    end(&c);
}

static inline void run_where(const ops_row *op)
{
    for (int t = REF_F32; t <= REF_BOOL; t++)
        for (int kind = 0; kind < SPECIALS; kind++) {
            int n = n_shapes(op, (ref_dtype)t, (ops_kind)kind);
            for (int i = 0; i < n && kind_shapes[kind].of[i].rank >= 0; i++)
                where_case(op, (ref_dtype)t, (ops_kind)kind, &kind_shapes[kind].of[i]);
        }
}

/* ---- cast, copy, full ---- */
static void check_cast(op_case *c, weft_tensor *y, const operand *x, ref_dtype to)
{
    ref_array want = ref_like(&x->r), other = ref_like(&x->r);
    for (int64_t i = 0, n = ref_numel(&want); i < n; i++) {
        double v = *ref_item(&x->r, i);
        want.data[i] = ref_is_float(to) ? v : ref_cast(x->dtype, to, v);
        other.data[i] = ref_is_float(to) ? flushed(x->dtype, v) : ref_cast(x->dtype, to, flushed(x->dtype, v));
    }
    ref_array bound = bounds(c, to, 1, &want, NULL, 0, NULL);
    check(c, y, to, &want, &bound, flushes ? &other : NULL);
}

static inline void run_cast(const ops_row *op)
{
    for (int from = REF_F32; from <= REF_BOOL; from++)
        for (int to = REF_F32; to <= REF_BOOL; to++)
            for (int kind = 0; kind < KIND_COUNT; kind++) {
                if (from == to || (thrifty && kind != SPECIALS && (from + to + kind) % 8))
                    continue;
                op_case c = begin(op, (ref_dtype)from, (ops_kind)kind);
                snprintf(c.note, sizeof c.note, "to %s", dtype_names[to]);
                const shape *s = &kind_shapes[kind].of[0];
                operand x = kind == SPECIALS ? operand_of((ref_dtype)from, special_values((ref_dtype)from))
                                             : make((ref_dtype)from, s->rank, s->dims, (ops_kind)kind, ANY, to);
                uses(&c, &x);
                check_cast(&c, weft_cast(x.t, weft_dtype_of(dtype_names[to])), &x, (ref_dtype)to);
                end(&c);
            }
}

static inline void run_copy(const ops_row *op)
{
    for (int t = REF_F32; t <= REF_BOOL; t++)
        for (int kind = 0; kind < SPECIALS; kind++) {
            int n = n_shapes(op, (ref_dtype)t, (ops_kind)kind);
            for (int i = 0; i < n && kind_shapes[kind].of[i].rank >= 0; i++) {
                const shape *s = &kind_shapes[kind].of[i];
                op_case c = begin(op, (ref_dtype)t, (ops_kind)kind);
                operand x = make((ref_dtype)t, s->rank, s->dims, (ops_kind)kind, ANY, i);
                uses(&c, &x);
                weft_tensor *y = weft_contiguous(x.t);
                check(&c, y, (ref_dtype)t, &x.r, NULL, NULL);
                if (!weft_tensor_is_contiguous(y))
                    complain(&c, "the copy is not contiguous");
                end(&c);
            }
        }
}

static inline void run_full(const ops_row *op)
{
    static const double values[] = {0, -0.0, 1, 2.5, -3, 100, INFINITY, -INFINITY, NAN, 1e-40, 1e300};
    for (int t = REF_F32; t <= REF_BOOL; t++)
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            double v = values[i];
            if (!ref_is_float((ref_dtype)t) && !(fabs(v) <= 100))
                continue;
            op_case c = begin(op, (ref_dtype)t, i % 2 ? SIZE1 : CONTIGUOUS);
            shape s = i % 2 ? (shape){2, {1, 1}} : (shape){3, {3, 5, 7}};
            ref_array want = ref_new(s.rank, s.dims);
            snprintf(c.note, sizeof c.note, "value %g", v);
            for (int64_t k = 0, n = ref_numel(&want); k < n; k++)
                want.data[k] = ref_round((ref_dtype)t, ref_is_float((ref_dtype)t) ? v : ref_cast(REF_F64, (ref_dtype)t, v));
            check(&c, weft_full(ctx, weft_dtype_of(dtype_names[t]), s.rank, s.dims, v), (ref_dtype)t, &want, NULL, NULL);
            end(&c);
        }
}

#endif
