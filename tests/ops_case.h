/* ops_case.h - what the cases of test_ops are made of: seeded values, operands behind every kind of view (as a
 * tensor and as an array of the reference), and the cells of the report.
 */
#ifndef OPS_CASE_H
#define OPS_CASE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops_bound.h"
#include "reference/ref.h"
#include "weft/weft.h"

/* ---- the rows of op.def ---- */
typedef enum ops_class { LEAF, ELEMENTWISE, REDUCE, ROW, MATMUL, INDEXED, SPECIAL } ops_class;
typedef enum ops_id {
#define WF_OP(id, name, n_in, klass, diff, bound, doc) OP_##id,
#include "op.def"
#undef WF_OP
    OP_COUNT
} ops_id;
typedef struct ops_row {
    ops_id id;
    const char *name;
    int n_in;
    ops_class klass;
    const char *bound;
} ops_row;
static const ops_row ops_rows[OP_COUNT] = {
#define WF_OP(id, name, n_in, klass, diff, bound, doc) {OP_##id, name, n_in, klass, bound},
#include "op.def"
#undef WF_OP
};

/* ---- how an operand lies ---- */
typedef enum ops_kind {
    CONTIGUOUS, TRANSPOSED, SLICED, NEGATIVE, BROADCAST, OVERLAPPING, EMPTY, SIZE1, SPECIALS, KIND_COUNT
} ops_kind;
static const char *const kind_names[KIND_COUNT] = {"contiguous", "transposed", "sliced", "negative", "broadcast",
                                                   "overlapping", "empty", "size-1", "special values"};

static weft_ctx *ctx;
static bool on_gpu;   /* the device of the test is not this processor */
static bool thrifty;  /* a software adapter, where every new kernel is dear; WEFT_TEST_LONG runs everything there too */
static bool flushes;  /* it may take subnormal f32 for zero, as WGSL allows */

/* ---- seeded numbers: the seed of a case is derived from what it is, and printed when it fails ---- */
static uint64_t rng_state;
static uint64_t rng(void)
{
    rng_state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = rng_state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static double rng_unit(void) { return (double)(rng() >> 11) * 0x1p-53; }
static int64_t rng_below(int64_t n) { return (int64_t)(rng() % (uint64_t)n); }

/* What values an operand takes. Integer dtypes take whole numbers within it. */
typedef enum ops_domain {
    ANY,      /* -10 .. 10, some of them near 0 */
    TIES,     /* few whole numbers: equal values meet */
    POSITIVE, /* 2^-10 .. 2^10 */
    SMALL,    /* -3 .. 3 */
    AROUND1,  /* +-(0.5 .. 1.5) */
    CONDITION /* 0 or 1 */
} ops_domain;

static double sample(ops_domain domain, ref_dtype t)
{
    bool whole = !ref_is_float(t), is_unsigned = t == REF_U8 || t == REF_U32;
    double v;
    switch (domain) {
    case CONDITION: v = (double)rng_below(2); break;
    case TIES: v = (double)rng_below(5) - 2; break;
    case POSITIVE: v = whole ? 1 + (double)rng_below(20) : exp2(20 * rng_unit() - 10); break;
    case SMALL: v = 6 * rng_unit() - 3; break;
    case AROUND1: v = (0.5 + rng_unit()) * (rng() & 1 ? 1 : -1); break;
    default: v = (20 * rng_unit() - 10) * (rng_below(4) ? 1 : 0.01); break;
    }
    if (whole)
        v = rint(v);
    if (is_unsigned)
        v = fabs(v);
    return ref_round(t, v);
}

/* ---- operands ---- */
typedef struct operand {
    weft_tensor *t;
    ref_array r;
    ref_dtype dtype;
} operand;

static weft_dtype weft_dtype_of(const char *name)
{
    weft_dtype d = WEFT_DTYPE_COUNT;
    weft_dtype_parse(name, &d);
    return d;
}
static const char *const dtype_names[] = {"f32", "f16", "bf16", "f64", "i32", "u32", "i8", "u8", "i64", "bool", "q8_0", "q4_0", "q4_1"};

/* A contiguous operand with the given values, which are of the dtype. */
static operand operand_of(ref_dtype t, ref_array values)
{
    operand o = {.r = values, .dtype = t};
    int64_t n = ref_numel(&values);
    void *bytes = ref_alloc(ref_bytes(t, n) + 8);
    ref_encode(t, values.data, n, bytes);
    o.t = weft_tensor_from(ctx, weft_dtype_of(dtype_names[t]), values.rank, values.shape, bytes);
    return o;
}

static operand storage(ref_dtype t, int rank, const int64_t *shape, ops_domain domain)
{
    ref_array values = ref_new(rank, shape);
    for (int64_t i = 0, n = ref_numel(&values); i < n; i++)
        values.data[i] = sample(domain, t);
    return operand_of(t, values);
}

static operand cut(operand o, int axis, int64_t first, int64_t count, int64_t step)
{
    int64_t stop = first + count * step;
    o.t = weft_slice(o.t, axis, first, stop < 0 ? WEFT_INDEX_NONE : stop, step);
    o.r = ref_slice(o.r, axis, first, count, step);
    return o;
}

/* An operand of a shape, seen through a view of a kind. `variant` differs between the operands of a case. */
static operand make(ref_dtype t, int rank, const int64_t *shape, ops_kind kind, ops_domain domain, int variant)
{
    int64_t s[REF_MAX_RANK] = {0};
    operand o;
    for (int k = 0; k < rank; k++)
        s[k] = shape[k];
    if (rank == 0)
        return storage(t, 0, s, domain);
    switch (kind) {
    case TRANSPOSED: { /* two axes change places: the outer and the inner, or two outer ones */
        int a = rank - 1, b = variant % 2 && rank > 2 ? 1 : 0;
        s[a] = shape[b];
        s[b] = shape[a];
        o = storage(t, rank, s, domain);
        if (rank > 1) {
            o.t = weft_transpose(o.t, a, b);
            o.r = ref_swap(o.r, a, b);
        }
        return o;
    }
    case SLICED:
        s[rank - 1] = 2 * shape[rank - 1] + 1 + variant;
        s[0] += rank > 1 ? 2 : 0;
        o = storage(t, rank, s, domain);
        if (rank > 1)
            o = cut(o, 0, 1, shape[0], 1);
        return cut(o, rank - 1, 1, shape[rank - 1], 2);
    case NEGATIVE:
        s[0] = 2 * shape[0] + 1;
        o = storage(t, rank, s, domain);
        o = cut(o, 0, s[0] - 1 - variant % 2, shape[0], -2);
        if (rank > 1 && variant % 2 == 0) {
            o.t = weft_flip(o.t, -1);
            o.r = ref_slice(o.r, rank - 1, shape[rank - 1] - 1, shape[rank - 1], -1);
        }
        return o;
    case BROADCAST: { /* one axis with stride 0; a single axis whole */
        s[(rank - 1 + variant) % rank] = 1;
        o = storage(t, rank, s, domain);
        o.t = weft_expand(o.t, rank, shape);
        o.r = ref_expand(o.r, rank, shape);
        return o;
    }
    case OVERLAPPING: /* a window that begins at `variant` of a larger storage; make_overlapping shares it */
        s[0] += 3;
        return cut(storage(t, rank, s, domain), 0, variant % 4, shape[0], 1);
    default:
        return storage(t, rank, s, domain);
    }
}

/* n windows of one storage, each one row further. */
static void make_overlapping(ref_dtype t, int rank, const int64_t *shape, ops_domain domain, int n, operand *out)
{
    int64_t s[REF_MAX_RANK];
    for (int k = 0; k < rank; k++)
        s[k] = shape[k];
    s[0] += n - 1;
    operand whole = storage(t, rank, s, domain);
    for (int i = 0; i < n; i++)
        out[i] = cut(whole, 0, i, shape[0], 1);
}

/* ---- the report ---- */
typedef struct cell {
    ops_id op;
    ref_dtype dtype;
    ops_kind kind;
    int cases, fails, on_fallback;
    double worst; /* error / bound; infinite when a value is wrong that has to be exact */
    char reason[160]; /* the first case that did not run on the device */
} cell;
static cell cells[4096];
static int n_cells;

static cell *cell_of(ops_id op, ref_dtype dtype, ops_kind kind)
{
    for (int i = 0; i < n_cells; i++)
        if (cells[i].op == op && cells[i].dtype == dtype && cells[i].kind == kind)
            return &cells[i];
    if (n_cells == (int)(sizeof cells / sizeof *cells))
        return NULL;
    cells[n_cells] = (cell){.op = op, .dtype = dtype, .kind = kind};
    return &cells[n_cells++];
}

/* A case that is under way. */
typedef struct op_case {
    const ops_row *op;
    ref_dtype dtype;
    ops_kind kind;
    uint64_t seed;
    weft_scope *scope;
    const operand *in[REF_MAX_ARGS];
    int n_in;
    char note[160]; /* attributes, for the message of a failure */
    weft_stats before;
    bool failed;
} op_case;

static int n_failed;         /* of the row under test */
static int case_number;      /* of the row under test */

static op_case begin(const ops_row *op, ref_dtype dtype, ops_kind kind)
{
    op_case c = {.op = op, .dtype = dtype, .kind = kind};
    c.seed = ((uint64_t)op->id << 24 | (uint64_t)dtype << 20 | (uint64_t)kind << 16) + (uint64_t)case_number++;
    rng_state = c.seed * 0xd1342543de82ef95u;
    c.scope = weft_scope_begin(ctx);
    weft_ctx_stats(ctx, &c.before);
    return c;
}

static void end(op_case *c)
{
    weft_stats after;
    weft_ctx_stats(ctx, &after);
    cell *e = cell_of(c->op->id, c->dtype, c->kind);
    if (e) {
        e->cases++;
        e->fails += c->failed;
        if (after.fallbacks != c->before.fallbacks && e->on_fallback++ == 0)
            snprintf(e->reason, sizeof e->reason, "%s", c->note);
    }
    n_failed += c->failed;
    weft_scope_end(c->scope);
    ref_reset();
}

static void uses(op_case *c, const operand *o)
{
    if (c->n_in < REF_MAX_ARGS)
        c->in[c->n_in++] = o;
}

static void describe(const op_case *c)
{
    print_message("%s of %s, %s%s%s, seed %llu\n", c->op->name, dtype_names[c->dtype], kind_names[c->kind],
                  c->note[0] ? ", " : "", c->note, (unsigned long long)c->seed);
    for (int i = 0; i < c->n_in; i++) {
        const operand *o = c->in[i];
        print_message("  input %d: %s [", i, dtype_names[o->dtype]);
        for (int k = 0; k < o->r.rank; k++)
            print_message("%s%lld", k ? ", " : "", (long long)o->r.shape[k]);
        print_message("] strides [");
        for (int k = 0; k < o->r.rank; k++)
            print_message("%s%lld", k ? ", " : "", (long long)o->r.strides[k]);
        print_message("]\n");
    }
}

static bool complain(op_case *c, const char *format, ...)
{
    va_list args;
    if (!c->failed && n_failed < 3) { /* the first few say enough */
        describe(c);
        char text[400];
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        print_message("  %s\n", text);
    }
    c->failed = true;
    return false;
}

/* ---- comparing ---- */

static void worst(op_case *c, double ratio)
{
    cell *e = cell_of(c->op->id, c->dtype, c->kind);
    if (e && ratio > e->worst)
        e->worst = ratio;
}

/* Whether `got` is within `tolerance` of the true value `want`, in a dtype; *ratio: of the error to what is allowed. */
static bool close_to(ref_dtype t, double got, double want, double tolerance, double *ratio)
{
    *ratio = 0;
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (got == want || got == ref_round(t, want))
        return true;
    double limit = ref_overflow(t);
    if (isinf(got) || isinf(want)) /* the true value may round, or come within its error, to infinity */
        return isinf(got) && !isinf(want) && signbit(got) == signbit(want) && fabs(want) + tolerance >= limit;
    if (flushes && ref_min_normal(t) == ref_min_normal(REF_F32))
        tolerance += ref_min_normal(t);
    double error = fabs(got - want);
    if (t == REF_F64)
        tolerance += ref_eps(t) * fabs(want); /* the reference itself was rounded to f64 */
    *ratio = tolerance > 0 ? error / tolerance : INFINITY;
    return error <= tolerance;
}

/* A quantity of op.def's bounds, element by element. */
typedef struct quantity {
    bound_name name;
    const ref_array *values;
} quantity;

static double least_of(ref_dtype t) { return ref_min_normal(t) * (flushes ? 1 : 2 * ref_eps(t)); }

/* The bound of each element. S: the scale of the reference, NULL for |want|. In the subnormal range rounding is
 * absolute, as if the value had the size of the smallest normal number. */
static ref_array bounds(op_case *c, ref_dtype t, double n, const ref_array *want, const ref_array *S, int n_more,
                        const quantity *more)
{
    ref_array r = ref_like(want);
    bound_values given = bound_given(ref_eps(t), least_of(t), n);
    double least = ref_min_normal(t);
    for (int64_t i = 0, count = ref_numel(want); i < count; i++) {
        bool finite = true;
        double v = fabs(*ref_item(S ? S : want, i));
        finite &= isfinite(v) != 0;
        given.v[BOUND_S] = fmax(v, least);
        for (int k = 0; k < n_more; k++) {
            v = fabs(*ref_item(more[k].values, i));
            finite &= isfinite(v) != 0;
            given.v[more[k].name] = more[k].name == BOUND_STD ? v : fmax(v, least);
        }
        if (!bound_value(c->op->bound, &given, &v))
            complain(c, "\"%s\" is no bound that this test can read", c->op->bound);
        else if (isnan(v) && finite)
            complain(c, "the bound \"%s\" names what the case does not give", c->op->bound);
        r.data[i] = isnan(v) ? 0 : v;
    }
    return r;
}

/* Reads a result and compares. bound NULL: exact. alternative (or NULL): values that are right too. */
static bool check(op_case *c, weft_tensor *t, ref_dtype dtype, const ref_array *want, const ref_array *bound,
                  const ref_array *alternative)
{
    if (weft_tensor_status(t) != WEFT_OK)
        return complain(c, "%s: %s", weft_status_name(weft_tensor_status(t)), weft_tensor_message(t));
    if (weft_tensor_dtype(t) != weft_dtype_of(dtype_names[dtype]))
        return complain(c, "the result is %s, expected %s", weft_dtype_name(weft_tensor_dtype(t)), dtype_names[dtype]);
    bool same = weft_tensor_rank(t) == want->rank;
    for (int k = 0; same && k < want->rank; k++)
        same = weft_tensor_shape(t)[k] == want->shape[k];
    if (!same)
        return complain(c, "the result has another shape: rank %d, expected %d, %lld elements, expected %lld", weft_tensor_rank(t),
                        want->rank, (long long)weft_tensor_numel(t), (long long)ref_numel(want));
    int64_t n = ref_numel(want);
    void *bytes = ref_alloc(ref_bytes(dtype, n) + 8);
    double *got = ref_alloc(sizeof *got * (size_t)(n + 1));
    weft_status st = weft_read(t, bytes, ref_bytes(dtype, n));
    if (st != WEFT_OK)
        return complain(c, "%s: %s", weft_status_name(st), weft_error_message());
    ref_decode(dtype, bytes, n, got);
    for (int64_t i = 0; i < n; i++) {
        double w = *ref_item(want, i), tolerance = bound ? *ref_item(bound, i) : 0, ratio, second;
        bool ok = close_to(dtype, got[i], w, tolerance, &ratio);
        if (!ok && alternative && close_to(dtype, got[i], *ref_item(alternative, i), tolerance, &second)) {
            ok = true;
            ratio = second;
        }
        worst(c, ok ? ratio : INFINITY);
        if (!ok)
            return complain(c, "element %lld is %.17g, expected %.17g within %.3g", (long long)i, got[i], w, tolerance);
    }
    return true;
}

#endif
