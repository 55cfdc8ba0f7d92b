/* graph_steps.h - random steps of test_graphs: each adds a node to a graph, as a tensor and as the reference's array.
 */
#ifndef GRAPH_STEPS_H
#define GRAPH_STEPS_H

#include "ops_elementwise.h"

enum { LIMIT = 8, MAX_NODES = 48, MAX_ELEMENTS = 3000, STEPS = 16 };

typedef struct graph {
    operand node[MAX_NODES];
    bool held[MAX_NODES]; /* the test still owns a handle */
    int n;
    char text[4096];
    size_t len;
} graph;

static void note(graph *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(g->text + g->len, sizeof g->text - g->len, format, args);
    va_end(args);
    if (n > 0 && g->len + (size_t)n < sizeof g->text)
        g->len += (size_t)n;
}

static const operand *pick(const graph *g)
{
    int i; /* rather a late node: deep graphs */
    do
        i = g->n - 1 - (int)rng_below(rng_below(2) ? 4 : g->n);
    while (i < 0 || !g->held[i]);
    return &g->node[i];
}

static int number(const graph *g, const operand *o) { return (int)(o - g->node); }

/* A new node; one that is too large is dropped again. */
static void push(graph *g, weft_tensor *t, ref_array r)
{
    if (ref_numel(&r) > MAX_ELEMENTS || g->n == MAX_NODES) {
        weft_tensor_release(t);
        note(g, " (dropped)\n");
        return;
    }
    g->node[g->n] = (operand){t, r, REF_F32};
    g->held[g->n] = true;
    note(g, " -> %d [", g->n);
    for (int k = 0; k < r.rank; k++)
        note(g, "%s%lld", k ? "," : "", (long long)r.shape[k]);
    note(g, "]\n");
    g->n++;
}

/* The result of an inner call, whose handle only the next call needs. */
static weft_tensor *with(weft_tensor *result, weft_tensor *spent)
{
    weft_tensor_release(spent);
    return result;
}

static weft_tensor *number_of(double v) { return weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, v); }

/* Clamps both to +-LIMIT. */
static void push_clamped(graph *g, weft_tensor *t, ref_array r)
{
    weft_tensor *high = number_of(LIMIT), *low = number_of(-LIMIT);
    t = with(weft_minimum(t, high), t);
    t = with(weft_maximum(t, low), t);
    weft_tensor_release(high);
    weft_tensor_release(low);
    ref_array c = ref_copy(&r);
    for (int64_t i = 0, n = ref_numel(&c); i < n; i++)
        c.data[i] = fmax(-LIMIT, fmin(LIMIT, c.data[i]));
    push(g, t, c);
}

/* ---- steps ---- */
static void leaf(graph *g)
{
    static const int64_t extents[] = {1, 2, 3, 5, 7, 4};
    int rank = (int)rng_below(5);
    int64_t dims[REF_MAX_RANK];
    for (int k = 0; k < rank; k++)
        dims[k] = rng_below(40) == 0 ? 0 : rng_below(30) == 0 ? 67 : extents[rng_below(6)];
    ref_array v = ref_new(rank, dims);
    for (int64_t i = 0, n = ref_numel(&v); i < n; i++)
        v.data[i] = (double)rng_below(2 * LIMIT + 1) - LIMIT;
    note(g, "leaf");
    push(g, operand_of(REF_F32, v).t, v);
}

static void one_operand(graph *g)
{
    static const struct {
        const char *name;
        weft_tensor *(*fn)(weft_tensor *);
    } ops[] = {{"neg", weft_neg}, {"abs", weft_abs}, {"relu", weft_relu}, {"floor", weft_floor}, {"copy", weft_contiguous}};
    const operand *x = pick(g);
    int i = (int)rng_below(5);
    note(g, "%s %d", ops[i].name, number(g, x));
    push(g, ops[i].fn(x->t), apply_fn(ref_pointwise(ops[i].name), REF_F32, x, 1, x->r.rank, x->r.shape, false));
}

static bool broadcast(const ref_array *a, const ref_array *b, int *rank, int64_t *dims)
{
    *rank = a->rank > b->rank ? a->rank : b->rank;
    for (int k = 0; k < *rank; k++) {
        int ka = k - (*rank - a->rank), kb = k - (*rank - b->rank);
        int64_t na = ka < 0 ? 1 : a->shape[ka], nb = kb < 0 ? 1 : b->shape[kb];
        if (na != nb && na != 1 && nb != 1)
            return false;
        dims[k] = na == 1 ? nb : na;
    }
    return true;
}

static bool pick_two(const graph *g, const operand **a, const operand **b, int *rank, int64_t *dims)
{
    for (int attempt = 0; attempt < 8; attempt++) {
        *a = pick(g);
        *b = attempt == 7 ? *a : pick(g);
        if (broadcast(&(*a)->r, &(*b)->r, rank, dims) && ref_count(*rank, dims) <= MAX_ELEMENTS)
            return true;
    }
    return false;
}

static void two_operands(graph *g)
{
    static const struct {
        const char *name;
        weft_tensor *(*fn)(weft_tensor *, weft_tensor *);
    } ops[] = {{"add", weft_add}, {"sub", weft_sub}, {"mul", weft_mul}, {"maximum", weft_maximum}, {"minimum", weft_minimum}};
    const operand *a, *b;
    int rank, i = (int)rng_below(5);
    int64_t dims[REF_MAX_RANK];
    if (!pick_two(g, &a, &b, &rank, dims))
        return;
    operand in[2] = {*a, *b};
    note(g, "%s %d %d", ops[i].name, number(g, a), number(g, b));
    push_clamped(g, ops[i].fn(a->t, b->t), apply_fn(ref_pointwise(ops[i].name), REF_F32, in, 2, rank, dims, false));
}

static void choose(graph *g)
{
    const operand *a, *b;
    int rank;
    int64_t dims[REF_MAX_RANK];
    if (!pick_two(g, &a, &b, &rank, dims))
        return;
    operand in[3] = {{0}, *a, *b};
    note(g, "where lt %d %d", number(g, a), number(g, b));
    in[0].r = apply_fn(ref_pointwise("lt"), REF_BOOL, in + 1, 2, rank, dims, false);
    weft_tensor *less = weft_lt(a->t, b->t);
    push(g, with(weft_where(less, b->t, a->t), less), apply_fn(ref_pointwise("where"), REF_F32, (operand[]){in[0], *b, *a}, 3, rank, dims, false));
}

static void convert(graph *g)
{
    static const weft_dtype to[] = {WEFT_DTYPE_F16, WEFT_DTYPE_BF16, WEFT_DTYPE_I32, WEFT_DTYPE_I8, WEFT_DTYPE_I64, WEFT_DTYPE_F64};
    const operand *x = pick(g);
    int i = (int)rng_below(on_gpu ? 4 : 6);
    note(g, "cast %d to %s and back", number(g, x), weft_dtype_name(to[i]));
    weft_tensor *t = weft_cast(x->t, to[i]);
    push(g, with(weft_cast(t, WEFT_DTYPE_F32), t), ref_copy(&x->r));
}

static void reduction(graph *g)
{
    static const struct {
        const char *name;
        weft_tensor *(*fn)(weft_tensor *, const int *, int, bool);
    } ops[] = {{"sum", weft_sum}, {"max", weft_max}, {"min", weft_min}, {"argmax", weft_argmax}, {"argmin", weft_argmin}};
    const operand *x = pick(g);
    if (x->r.rank == 0 || ref_numel(&x->r) == 0)
        return;
    uint32_t mask = 1 + (uint32_t)rng_below((1 << x->r.rank) - 1);
    int axes[REF_MAX_RANK], n = 0, i = (int)rng_below(5);
    for (int k = 0; k < x->r.rank; k++)
        if (mask >> k & 1)
            axes[n++] = k;
    bool keepdim = rng_below(2);
    ref_array scale;
    int64_t length;
    note(g, "%s %d over 0x%x%s", ops[i].name, number(g, x), mask, keepdim ? " keepdim" : "");
    weft_tensor *t = ops[i].fn(x->t, axes, n, keepdim);
    if (i >= 3)
        t = with(weft_cast(t, WEFT_DTYPE_F32), t);
    push_clamped(g, t, ref_reduce(ops[i].name, &x->r, mask, keepdim, &scale, &length));
}

static void view(graph *g)
{
    const operand *x = pick(g);
    ref_array r = x->r;
    int rank = r.rank, axis = rank ? (int)rng_below(rank) : 0;
    if (rank == 0)
        return;
    int64_t extent = r.shape[axis];
    switch (rng_below(6)) {
    case 0: { /* slice */
        if (extent < 2)
            return;
        int64_t step = 1 + rng_below(2), first = rng_below(extent), count = (extent - first + step - 1) / step;
        bool back = rng_below(2);
        if (back)
            count = first / step + 1;
        int64_t stop = back ? first - count * step : first + (count - 1) * step + 1;
        note(g, "slice %d axis %d from %lld, %lld by %lld", number(g, x), axis, (long long)first, (long long)count, (long long)(back ? -step : step));
        push(g, weft_slice(x->t, axis, first, stop < 0 ? WEFT_INDEX_NONE : stop, back ? -step : step),
             ref_slice(r, axis, first, count, back ? -step : step));
        return;
    }
    case 1: { /* permute */
        int axes[REF_MAX_RANK];
        for (int k = 0; k < rank; k++)
            axes[k] = k;
        for (int k = rank - 1; k > 0; k--) {
            int j = (int)rng_below(k + 1), a = axes[k];
            axes[k] = axes[j];
            axes[j] = a;
        }
        note(g, "permute %d", number(g, x));
        push(g, weft_permute(x->t, axes), ref_permute(r, axes));
        return;
    }
    case 2:
        note(g, "flip %d axis %d", number(g, x), axis);
        push(g, weft_flip(x->t, axis), extent ? ref_slice(r, axis, extent - 1, extent, -1) : r);
        return;
    case 3: { /* expand: a new outer axis, and one of extent 1 if there is one */
        int64_t dims[REF_MAX_RANK];
        if (rank > 4)
            return;
        dims[0] = 1 + rng_below(3);
        for (int k = 0; k < rank; k++)
            dims[k + 1] = r.shape[k] == 1 ? 1 + rng_below(4) : r.shape[k];
        note(g, "expand %d", number(g, x));
        push(g, weft_expand(x->t, rank + 1, dims), ref_expand(r, rank + 1, dims));
        return;
    }
    default: { /* reshape: all in one axis, or the first two joined */
        int64_t dims[REF_MAX_RANK] = {-1};
        bool flat = rank < 2 || rng_below(2);
        if (ref_numel(&r) == 0)
            return;
        for (int k = 2; k < rank && !flat; k++)
            dims[k - 1] = r.shape[k];
        note(g, "reshape %d", number(g, x));
        ref_array c = ref_copy(&r);
        int64_t whole[REF_MAX_RANK] = {flat ? ref_numel(&r) : r.shape[0] * (rank > 1 ? r.shape[1] : 1)};
        memcpy(whole + 1, dims + 1, sizeof dims - sizeof *dims);
        ref_array shaped = ref_new(flat ? 1 : rank - 1, whole);
        shaped.data = c.data;
        push(g, weft_reshape(x->t, flat ? 1 : rank - 1, dims), shaped);
        return;
    }
    }
}

static void join(graph *g)
{
    const operand *x = pick(g);
    if (x->r.rank == 0)
        return;
    int axis = (int)rng_below(x->r.rank), n = 2 + (int)rng_below(2);
    weft_tensor *t[3];
    ref_array r[3];
    for (int i = 0; i < n; i++) { /* parts that fit along the axis, x itself otherwise */
        const operand *p = pick(g);
        bool fits = p->r.rank == x->r.rank;
        for (int k = 0; fits && k < x->r.rank; k++)
            fits = k == axis || p->r.shape[k] == x->r.shape[k];
        p = fits ? p : x;
        t[i] = p->t;
        r[i] = p->r;
    }
    note(g, "cat %d and %d more, axis %d", number(g, x), n - 1, axis);
    push(g, weft_cat(t, n, axis), ref_cat(r, n, axis));
}

static void select_rows(graph *g)
{
    const operand *x = pick(g);
    int axis = x->r.rank ? (int)rng_below(x->r.rank) : 0;
    if (x->r.rank == 0 || x->r.rank > 4 || x->r.shape[axis] == 0)
        return;
    int64_t dims[2] = {1 + rng_below(3), 2};
    ref_array ids = ref_new((int)rng_below(3), dims);
    for (int64_t i = 0, n = ref_numel(&ids); i < n; i++)
        ids.data[i] = (double)(rng_below(2 * x->r.shape[axis]) - x->r.shape[axis]);
    operand index = operand_of(REF_I32, ids);
    note(g, "index_select %d axis %d", number(g, x), axis);
    push(g, with(weft_index_select(x->t, axis, index.t), index.t), ref_index_select(&x->r, axis, &ids));
}

/* Often the last use of dst: then it happens in place, and must not be seen by any other node. */
static void update(graph *g)
{
    const operand *dst = pick(g), *from = pick(g);
    int axis = dst->r.rank ? (int)rng_below(dst->r.rank) : 0;
    if (dst->r.rank == 0 || ref_numel(&dst->r) == 0)
        return;
    ref_array src = ref_slice(dst->r, axis, 0, 1 + rng_below(dst->r.shape[axis]), 1);
    weft_tensor *t = weft_slice(dst->t, axis, 0, src.shape[axis], 1), *u;
    int64_t start = rng_below(dst->r.shape[axis] - src.shape[axis] + 1);
    bool fits = from->r.rank == dst->r.rank;
    for (int k = 0; fits && k < dst->r.rank; k++)
        fits = k == axis ? from->r.shape[k] <= dst->r.shape[k] && from->r.shape[k] > 0 : from->r.shape[k] == dst->r.shape[k];
    if (fits && rng_below(2)) {
        weft_tensor_release(t);
        t = weft_tensor_retain(from->t);
        src = from->r;
        start = dst->r.shape[axis] - src.shape[axis];
    } else if (rng_below(2)) {
        t = with(weft_neg(t), t);
        operand o = {.r = src};
        src = apply_fn(ref_pointwise("neg"), REF_F32, &o, 1, src.rank, src.shape, false);
    }
    weft_tensor *at = weft_scalar_i32(ctx, (int32_t)start);
    note(g, "slice_update %d axis %d at %lld", number(g, dst), axis, (long long)start);
    u = with(weft_slice_update(dst->t, t, axis, at), t);
    push(g, with(u, at), ref_slice_update(&dst->r, &src, axis, start));
}

static void product(graph *g)
{
    const operand *x = pick(g);
    int rank = x->r.rank;
    if (rank < 2 || x->r.shape[rank - 2] > 16)
        return;
    note(g, "matmul %d with its transpose", number(g, x));
    weft_tensor *t = weft_transpose(x->t, -1, -2);
    ref_array scale, b = ref_swap(x->r, rank - 1, rank - 2);
    push_clamped(g, with(weft_matmul(x->t, t), t), ref_matmul(&x->r, &b, &scale));
}

static void largest(graph *g)
{
    const operand *x = pick(g);
    int rank = x->r.rank;
    if (rank == 0 || x->r.shape[rank - 1] == 0 || ref_numel(&x->r) == 0)
        return;
    int64_t k = 1 + rng_below(x->r.shape[rank - 1]);
    ref_array values;
    weft_tensor *v = NULL;
    note(g, "topk %d, %lld", number(g, x), (long long)k);
    ref_topk(&x->r, k, &values);
    weft_tensor_release(weft_topk(x->t, k, &v));
    push(g, v, values);
}

static void masked(graph *g)
{
    const operand *x = pick(g);
    int rank = x->r.rank;
    if (rank < 2)
        return;
    int64_t rows = x->r.shape[rank - 2], cols = x->r.shape[rank - 1], diagonal = rng_below(3) - 1;
    ref_array steps;
    operand in[3] = {{.r = ref_tri(rows, cols, diagonal)}, *x, {.r = ref_iota(cols, -1, 1, &steps)}};
    note(g, "where tri %lld %d else arange", (long long)diagonal, number(g, x));
    weft_tensor *m = weft_tri(ctx, rows, cols, diagonal), *a = weft_arange(ctx, WEFT_DTYPE_F32, cols, -1, 1);
    weft_tensor *t = with(weft_where(m, x->t, a), m);
    push_clamped(g, with(t, a), apply_fn(ref_pointwise("where"), REF_F32, in, 3, rank, x->r.shape, false));
}

/* ---- a graph ---- */
static void (*const steps[])(graph *) = {one_operand, two_operands, two_operands, choose, convert, reduction, reduction, view,
                                         view, view, join, select_rows, update, update, product, largest, masked, leaf};

#endif
