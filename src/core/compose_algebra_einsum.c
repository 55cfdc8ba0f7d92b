/* compose_algebra_einsum.c - einsum: an equation to views, sums and matrix products.
 *
 * Each operand becomes a term: a tensor whose axes have distinct labels. Diagonals are views (strides add up), extents of 1
 * that meet larger ones are dropped, and labels that nothing else needs are summed at once. Then pairs are contracted in the
 * order that costs least, until one term is left. A pair has four kinds of labels: in both and still needed (batch), in both and
 * not (summed), in one only (rows, columns): one permutation and one reshape make a matrix product of it.
 */
#include <stdio.h>

#include "compose_algebra.h"

enum { LETTERS = 52, LABELS = LETTERS + WEFT_MAX_RANK, MAX_TERMS = 32 };

typedef struct term {
    weft_tensor *t;
    int n;
    uint8_t label[WEFT_MAX_RANK];
} term;

typedef struct einsum {
    const char *who, *equation;
    weft_ctx *ctx;
    term terms[MAX_TERMS];
    int n;
    int64_t extent[LABELS]; /* 0 .. : known; -1: not seen */
    uint8_t out[LABELS];
    int n_out;
} einsum;

static uint64_t bit(int label) { return (uint64_t)1 << label; }
static uint64_t labels_of(const term *t)
{
    uint64_t m = 0;
    for (int i = 0; i < t->n; i++)
        m |= bit(t->label[i]);
    return m;
}

/* ---- the equation ---- */

static int label_of(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1; }
static char letter_of(int label) { return (char)(label < 26 ? 'A' + label : 'a' + label - 26); }

/* One side's subscripts: letters, and where "..." stands (-1: nowhere). */
typedef struct subscripts {
    uint8_t letter[64];
    int n, dots;
} subscripts;

/* Reads up to ',', '-' or the end. */
static weft_status read_subscripts(const einsum *e, const char **at, subscripts *s)
{
    const char *p = *at;
    s->n = 0;
    s->dots = -1;
    for (; *p && *p != ',' && *p != '-'; p++) {
        int label = label_of(*p);
        if (*p == ' ')
            continue;
        if (strncmp(p, "...", 3) == 0) {
            if (s->dots >= 0)
                return wf_fail(WEFT_E_VALUE, "%s: \"%s\" has two \"...\" in one operand", e->who, e->equation);
            s->dots = s->n;
            p += 2;
            continue;
        }
        if (label < 0) { /* a byte of a longer character is no text by itself */
            char shown[8];
            snprintf(shown, sizeof shown, *p >= ' ' && *p < 127 ? "'%c'" : "0x%02x", (unsigned char)*p);
            return wf_fail(WEFT_E_VALUE, "%s: \"%s\": character %s at %d is no letter, comma, \"...\" or \"->\"", e->who, e->equation, shown,
                           (int)(p - e->equation));
        }
        if (s->n == (int)WF_COUNT(s->letter))
            return wf_fail(WEFT_E_VALUE, "%s: \"%.60s\": more than %d letters in one operand", e->who, e->equation, s->n);
        s->letter[s->n++] = (uint8_t)label;
    }
    *at = p;
    return WEFT_OK;
}

static weft_status meet(einsum *e, int operand, int label, int64_t extent)
{
    int64_t *known = &e->extent[label];
    if (*known < 0 || *known == 1)
        *known = extent;
    else if (extent != 1 && extent != *known)
        return label < LETTERS ? wf_fail(WEFT_E_SHAPE, "%s: \"%s\": '%c' is %lld in operand %d and %lld before", e->who, e->equation, letter_of(label),
                                         (long long)extent, operand, (long long)*known)
                               : wf_fail(WEFT_E_SHAPE, "%s: \"%s\": axes of \"...\" do not broadcast: %lld in operand %d and %lld before", e->who,
                                         e->equation, (long long)extent, operand, (long long)*known);
    return WEFT_OK;
}

/* The operand's axes by label, with diagonals taken. */
static weft_status read_operand(einsum *e, int i, weft_tensor *x, const subscripts *s, int *most_dots)
{
    wf_view v = x->view;
    int dots = v.rank - s->n;
    char text[200];
    wf_view_format(&v, text, sizeof text);
    if (dots < 0 || (dots > 0 && s->dots < 0))
        return wf_fail(WEFT_E_SHAPE, "%s: \"%s\" names %d axes of operand %d, which is %s", e->who, e->equation, s->n, i, text);
    term *t = &e->terms[i];
    t->n = 0;
    *most_dots = WF_MAX(*most_dots, dots);
    int64_t stride[WEFT_MAX_RANK], extent[WEFT_MAX_RANK];
    for (int d = 0; d < v.rank; d++) {
        bool in_dots = s->dots >= 0 && d >= s->dots && d < s->dots + dots;
        int label = in_dots ? LETTERS + (s->dots + dots - 1 - d) : s->letter[s->dots >= 0 && d >= s->dots ? d - dots : d]; /* dots count from the right */
        int at = 0;
        while (at < t->n && t->label[at] != label)
            at++;
        if (at < t->n && extent[at] != v.shape[d])
            return wf_fail(WEFT_E_SHAPE, "%s: \"%s\": '%c' is %lld and %lld in operand %d, which is %s", e->who, e->equation, letter_of(label),
                           (long long)extent[at], (long long)v.shape[d], i, text);
        WF_TRY(meet(e, i, label, v.shape[d]));
        if (at == t->n) {
            t->label[t->n] = (uint8_t)label;
            extent[t->n] = v.shape[d];
            stride[t->n++] = 0;
        }
        stride[at] += v.strides[d];
    }
    wf_view diagonal = {.rank = t->n, .offset = v.offset};
    for (int k = 0; k < WEFT_MAX_RANK; k++) {
        diagonal.shape[k] = k < t->n ? extent[k] : 1;
        diagonal.strides[k] = k < t->n && extent[k] > 1 ? stride[k] : 0;
    }
    t->t = t->n == v.rank ? x : wf_view_tensor(x, &diagonal);
    return WEFT_OK;
}

static weft_status read_output(einsum *e, const char *arrow, const int *seen, int dots)
{
    subscripts s = {.dots = 0};
    e->n_out = 0;
    if (arrow) {
        const char *at = arrow + 2;
        WF_TRY(read_subscripts(e, &at, &s));
        if (*at)
            return wf_fail(WEFT_E_VALUE, "%s: \"%s\" goes on after its result: \"%s\"", e->who, e->equation, at);
    } else {
        for (int label = 0; label < LETTERS; label++)
            if (seen[label] == 1)
                s.letter[s.n++] = (uint8_t)label;
    }
    uint64_t taken = 0;
    for (int i = 0; i <= s.n; i++) {
        for (int d = dots - 1; i == s.dots && d >= 0; d--)
            e->out[e->n_out++] = (uint8_t)(LETTERS + d);
        if (i == s.n)
            break;
        int label = s.letter[i];
        if (e->extent[label] < 0)
            return wf_fail(WEFT_E_VALUE, "%s: \"%s\": '%c' of the result is in no operand", e->who, e->equation, letter_of(label));
        if (taken & bit(label))
            return wf_fail(WEFT_E_VALUE, "%s: \"%s\": '%c' stands twice in the result", e->who, e->equation, letter_of(label));
        taken |= bit(label);
        e->out[e->n_out++] = (uint8_t)label;
    }
    if (e->n_out > WEFT_MAX_RANK)
        return wf_fail(WEFT_E_SHAPE, "%s: \"%s\" gives %d axes, the most are %d", e->who, e->equation, e->n_out, WEFT_MAX_RANK);
    return WEFT_OK;
}

static weft_status read_equation(einsum *e, weft_tensor *const *xs, int n)
{
    const char *at = e->equation, *arrow = NULL;
    int seen[LETTERS] = {0}, dots = 0, i = 0;
    for (int k = 0; k < LABELS; k++)
        e->extent[k] = -1;
    for (bool more = true; more; i++) {
        subscripts s;
        WF_TRY(read_subscripts(e, &at, &s));
        if (i < n)
            WF_TRY(read_operand(e, i, xs[i], &s, &dots));
        for (int k = 0; k < s.n; k++)
            seen[s.letter[k]]++;
        more = *at == ',';
        at += more;
    }
    if (*at == '-') {
        if (at[1] != '>')
            return wf_fail(WEFT_E_VALUE, "%s: \"%s\": '-' at %d without '>'", e->who, e->equation, (int)(at - e->equation));
        arrow = at;
    }
    if (i != n)
        return wf_fail(WEFT_E_VALUE, "%s: \"%s\" has %d operands, %d are given", e->who, e->equation, i, n);
    e->n = n;
    return read_output(e, arrow, seen, dots);
}

/* ---- terms ---- */

static void drop_label(term *t, int at)
{
    memmove(&t->label[at], &t->label[at + 1], (size_t)(t->n - at - 1));
    t->n--;
}

/* Without axes of extent 1 whose label is larger elsewhere. */
static void drop_ones(const einsum *e, term *t)
{
    for (int i = t->n - 1; i >= 0; i--)
        if (weft_tensor_dim(t->t, i) == 1 && e->extent[t->label[i]] != 1) {
            t->t = weft_squeeze(t->t, i);
            drop_label(t, i);
        }
}

/* Half-precision terms go into a sum that is not the last one as f32, so that only the result is rounded. */
static weft_tensor *widened(weft_tensor *t)
{
    return weft_dtype_is_float(weft_tensor_dtype(t)) && weft_dtype_block_bytes(weft_tensor_dtype(t)) == 2 ? weft_cast(t, WEFT_DTYPE_F32) : t;
}

/* Summed over the labels that `needed` lacks. */
static void sum_alone(term *t, uint64_t needed)
{
    int axes[WEFT_MAX_RANK], n = 0;
    for (int i = 0; i < t->n; i++)
        if (!(needed & bit(t->label[i])))
            axes[n++] = i;
    if (n == 0)
        return;
    t->t = widened(t->t);
    weft_dtype dtype = weft_tensor_dtype(t->t);
    t->t = weft_cast(weft_sum(t->t, axes, n, false), dtype);
    for (int i = n - 1; i >= 0; i--)
        drop_label(t, axes[i]);
}

/* Labels that a term other than a and b, or the result, has. */
static uint64_t needed_beside(const einsum *e, int a, int b)
{
    uint64_t m = 0;
    for (int i = 0; i < e->n_out; i++)
        m |= bit(e->out[i]);
    for (int i = 0; i < e->n; i++)
        if (i != a && i != b)
            m |= labels_of(&e->terms[i]);
    return m;
}

/* ---- one pair ---- */

typedef struct group {
    int n;
    uint8_t label[WEFT_MAX_RANK];
    int64_t count;
} group;

/* Labels of t in a mask, in t's order. */
static group group_of(const einsum *e, const term *t, uint64_t mask)
{
    group g = {.count = 1};
    for (int i = 0; i < t->n; i++)
        if (mask & bit(t->label[i])) {
            g.label[g.n++] = t->label[i];
            g.count *= e->extent[t->label[i]];
        }
    return g;
}

/* t with its axes in the order of three groups, reshaped. */
static weft_tensor *arranged(const term *t, const group *const groups[3], int rank, const int64_t *shape)
{
    int order[WEFT_MAX_RANK], n = 0;
    for (int g = 0; g < 3; g++)
        for (int i = 0; groups[g] && i < groups[g]->n; i++)
            for (int k = 0; k < t->n; k++)
                if (t->label[k] == groups[g]->label[i])
                    order[n++] = k;
    return weft_reshape(weft_permute(t->t, order), rank, shape);
}

/* t over the axes of four groups, of which it lacks one: extents of 1 there. No copy. */
static weft_tensor *spread(const einsum *e, const term *t, const group *const all[4], int absent)
{
    const group *has[3];
    int64_t shape[WEFT_MAX_RANK];
    int n = 0, n_has = 0;
    for (int g = 0; g < 4; g++) {
        if (g != absent)
            has[n_has++] = all[g];
        for (int i = 0; i < all[g]->n; i++)
            shape[n++] = g == absent ? 1 : e->extent[all[g]->label[i]];
    }
    return arranged(t, has, n, shape);
}

/* [batch .., rows, columns]; batch axes stay apart where the matrix kernels take them so. */
static weft_tensor *matrix(const einsum *e, const term *t, const group *batch, const group *rows, const group *cols)
{
    const group *const has[3] = {batch, rows, cols};
    int64_t shape[WEFT_MAX_RANK] = {batch->count};
    int n = batch->n <= 3 ? 0 : 1;
    for (int i = 0; n < batch->n && batch->n <= 3; i++)
        shape[n++] = e->extent[batch->label[i]];
    shape[n++] = rows->count;
    shape[n++] = cols->count;
    return arranged(t, has, n, shape);
}

static weft_tensor *multiply(const einsum *e, const term *a, const term *b, const group *batch, const group *rows, const group *cols,
                             const group *summed)
{
    const group *const all[4] = {batch, rows, cols, summed};
    bool floats = weft_dtype_is_float(weft_tensor_dtype(a->t)) && weft_dtype_is_float(weft_tensor_dtype(b->t));
    if (summed->n > 0 && floats && (rows->n || cols->n))
        return weft_matmul(matrix(e, a, batch, rows, summed), matrix(e, b, batch, summed, cols));
    int lead = batch->n + rows->n + cols->n, axes[WEFT_MAX_RANK];
    weft_tensor *p;
    if (lead + summed->n <= WEFT_MAX_RANK) {
        for (int i = 0; i < summed->n; i++)
            axes[i] = lead + i;
        p = weft_mul(spread(e, a, all, 2), spread(e, b, all, 1));
    } else {
        const group *const of_a[3] = {batch, rows, summed}, *const of_b[3] = {batch, cols, summed};
        int64_t B = batch->count, M = rows->count, N = cols->count, K = summed->count;
        axes[0] = 3;
        p = weft_mul(arranged(a, of_a, 4, (int64_t[]){B, M, 1, K}), arranged(b, of_b, 4, (int64_t[]){B, 1, N, K}));
        return weft_cast(weft_sum(p, axes, 1, false), weft_tensor_dtype(p));
    }
    return summed->n ? weft_cast(weft_sum(p, axes, summed->n, false), weft_tensor_dtype(p)) : p;
}

/* Terms a and b become one, in a's place. */
static weft_status contract(einsum *e, int ia, int ib)
{
    term *a = &e->terms[ia], *b = &e->terms[ib], r = {0};
    uint64_t needed = needed_beside(e, ia, ib);
    sum_alone(a, needed | labels_of(b));
    sum_alone(b, needed | labels_of(a));
    if (e->n > 2) {
        a->t = widened(a->t);
        b->t = widened(b->t);
    }
    uint64_t ma = labels_of(a), mb = labels_of(b);
    group batch = group_of(e, a, mb & needed), summed = group_of(e, a, mb & ~needed), rows = group_of(e, a, ~mb), cols = group_of(e, b, ~ma);
    const group *const parts[3] = {&batch, &rows, &cols};
    int64_t shape[3 * WEFT_MAX_RANK];
    if (batch.n + rows.n + cols.n > WEFT_MAX_RANK)
        return wf_fail(WEFT_E_SHAPE, "%s: \"%s\": an intermediate has %d axes, the most are %d", e->who, e->equation, batch.n + rows.n + cols.n,
                       WEFT_MAX_RANK);
    for (int g = 0; g < 3; g++)
        for (int i = 0; i < parts[g]->n; i++) {
            shape[r.n] = e->extent[parts[g]->label[i]];
            r.label[r.n++] = parts[g]->label[i];
        }
    r.t = weft_reshape(multiply(e, a, b, &batch, &rows, &cols, &summed), r.n, shape);
    *a = r;
    memmove(b, b + 1, sizeof *b * (size_t)(e->n - ib - 1));
    e->n--;
    return r.t->status; /* with this thread's message */
}

static double loop_size(const einsum *e, uint64_t mask)
{
    double size = 1;
    for (int label = 0; label < LABELS; label++)
        if (mask & bit(label))
            size *= (double)e->extent[label];
    return size;
}

/* ---- the order of pairs ---- */

enum { SEARCH_TERMS = 6 }; /* every order of so many terms is looked at: 2700 of 6; of more, the next pair alone */

/* Loop steps, and elements read and written, which cost about 16 steps of a matrix product each. */
static double pair_cost(const einsum *e, uint64_t a, uint64_t b, uint64_t result)
{
    int axes = 0;
    for (uint64_t m = result; m; m &= m - 1)
        axes++;
    return axes > WEFT_MAX_RANK ? INFINITY : loop_size(e, a | b) + 16 * (loop_size(e, a) + loop_size(e, b) + loop_size(e, result));
}

/* The cost of contracting n terms of these labels, if it is below `limit`; the first pair of the best order. */
static double best_order(const einsum *e, const uint64_t *labels, int n, uint64_t out, double limit, int *first_a, int *first_b)
{
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            uint64_t rest[MAX_TERMS], needed = out;
            int m = 0, skip_a, skip_b;
            for (int i = 0; i < n; i++)
                if (i != a && i != b)
                    needed |= rest[m++] = labels[i];
            rest[m] = (labels[a] | labels[b]) & needed;
            double cost = pair_cost(e, labels[a], labels[b], rest[m]);
            if (cost < limit && n > 2 && n <= SEARCH_TERMS)
                cost += best_order(e, rest, n - 1, out, limit - cost, &skip_a, &skip_b);
            if (cost < limit) {
                limit = cost;
                *first_a = a;
                *first_b = b;
            }
        }
    return limit;
}

static weft_tensor *run(einsum *e)
{
    uint64_t out = 0;
    for (int i = 0; i < e->n; i++)
        drop_ones(e, &e->terms[i]);
    for (int i = 0; i < e->n; i++)
        sum_alone(&e->terms[i], needed_beside(e, i, i));
    for (int i = 0; i < e->n_out; i++)
        out |= bit(e->out[i]);
    while (e->n > 1) {
        uint64_t labels[MAX_TERMS];
        int a = 0, b = 1; /* where no order fits, contract says so */
        for (int i = 0; i < e->n; i++)
            labels[i] = labels_of(&e->terms[i]);
        best_order(e, labels, e->n, out, INFINITY, &a, &b);
        weft_status st = contract(e, a, b);
        if (st != WEFT_OK)
            return e->terms[a].t->status != WEFT_OK ? e->terms[a].t : wf_tensor_error_last(e->ctx, st);
    }
    term *t = &e->terms[0];
    int order[WEFT_MAX_RANK] = {0};
    for (int i = 0; i < e->n_out; i++)
        for (int k = 0; k < t->n; k++)
            if (t->label[k] == e->out[i])
                order[i] = k;
    return weft_permute(t->t, order);
}

weft_tensor *wf_einsum(const char *who, const char *equation, weft_tensor *const *xs, int n)
{
    weft_dtype dtype = weft_tensor_dtype(xs[0]);
    weft_status st = WEFT_OK;
    einsum e = {.who = who, .equation = equation, .ctx = xs[0]->ctx};
    for (int i = 0; i < n && st == WEFT_OK; i++)
        st = wf_require_plain(who, xs[i]);
    for (int i = 1; i < n && st == WEFT_OK; i++)
        st = weft_dtype_promote(dtype, weft_tensor_dtype(xs[i]), &dtype);
    if (st == WEFT_OK)
        st = read_equation(&e, xs, n);
    return st == WEFT_OK ? weft_cast(run(&e), dtype) : wf_tensor_error_last(e.ctx, st);
}

weft_tensor *weft_einsum(const char *equation, weft_tensor *const *xs, int n)
{
    wf_composite c;
    if (!equation || !xs || n < 1 || n > MAX_TERMS)
        return wf_tensor_error(xs && n > 0 ? weft_tensor_ctx(xs[0]) : NULL, WEFT_E_VALUE, "einsum: %d operands%s, expected 1 to %d", n, equation ? "" : " and no equation", MAX_TERMS);
    weft_tensor *r;
    if (!wf_enter("einsum", n, xs, &r)) /* a composite looks at fewer inputs */
        return r;
    wf_leave(xs[0]->ctx, NULL);
    if (!wf_composite_begin(&c, "einsum", 1, 1, xs))
        return c.failed;
    return wf_composite_end(&c, wf_einsum("einsum", equation, xs, n));
}
