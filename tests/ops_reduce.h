/* ops_reduce.h - cases of reductions over axes, and of softmax and norms along one. */
#ifndef OPS_REDUCE_H
#define OPS_REDUCE_H

#include "ops_elementwise.h"

typedef weft_tensor *(*reduce_fn)(weft_tensor *, const int *, int, bool);
static const reduce_fn reduce_rows[OP_COUNT] = {
    [OP_SUM] = weft_sum, [OP_MEAN] = weft_mean, [OP_PROD] = weft_prod, [OP_MAX] = weft_max,
    [OP_MIN] = weft_min, [OP_ARGMAX] = weft_argmax, [OP_ARGMIN] = weft_argmin,
};

static ref_dtype reduce_result(ops_id id, ref_dtype t)
{
    switch (id) {
    case OP_MEAN: return ref_is_float(t) ? t : REF_F32;
    case OP_ARGMAX: case OP_ARGMIN: return REF_I32;
    case OP_MAX: case OP_MIN: return t;
    default: return t == REF_I8 || t == REF_U8 || t == REF_BOOL ? REF_I32 : t;
    }
}

static void check_reduce(op_case *c, const operand *x, uint32_t mask, bool keepdim, bool all)
{
    int axes[REF_MAX_RANK], n_axes = 0;
    for (int k = 0; k < x->r.rank; k++)
        if (mask >> k & 1) {
            axes[n_axes] = n_axes % 2 ? k - x->r.rank : k; /* negative axes count from the end */
            n_axes++;
        }
    ref_array scale;
    int64_t length;
    ref_dtype result = reduce_result(c->op->id, x->dtype);
    ref_array want = ref_reduce(c->op->name, &x->r, mask, keepdim, &scale, &length);
    for (int64_t i = 0, n = ref_numel(&want); i < n && !ref_is_float(result); i++)
        want.data[i] = ref_round(result, want.data[i]);
    quantity more[2] = {{BOUND_SUM_X, &scale}, {BOUND_MEAN_X, &scale}};
    ref_array bound = bounds(c, result, (double)length, &want, NULL, 2, more);
    check(c, reduce_rows[c->op->id](x->t, axes, all ? 0 : n_axes, keepdim), result, &want, &bound, NULL);
}

static ops_domain reduce_domain(ops_id id)
{
    return id == OP_PROD ? AROUND1 : id == OP_ARGMAX || id == OP_ARGMIN ? TIES : ANY;
}

static bool needs_elements(ops_id id) { return id == OP_MAX || id == OP_MIN || id == OP_ARGMAX || id == OP_ARGMIN; }

static void reduce_case(const ops_row *op, ref_dtype t, ops_kind kind, const shape *s, uint32_t mask, bool keepdim)
{
    op_case c = begin(op, t, kind);
    bool all = mask == (1u << s->rank) - 1;
    snprintf(c.note, sizeof c.note, "axes 0x%x%s", mask, keepdim ? ", keepdim" : "");
    operand x[2];
    if (kind == OVERLAPPING)
        make_overlapping(t, s->rank, s->dims, reduce_domain(op->id), 2, x);
    else
        x[0] = make(t, s->rank, s->dims, kind, reduce_domain(op->id), (int)mask);
    uses(&c, &x[0]);
    bool empty_axis = false;
    for (int k = 0; k < s->rank; k++)
        empty_axis |= (mask >> k & 1) && s->dims[k] == 0;
    if (empty_axis && needs_elements(op->id)) {
        int axes[REF_MAX_RANK], n = 0;
        for (int k = 0; k < s->rank; k++)
            if (mask >> k & 1)
                axes[n++] = k;
        if (weft_tensor_status(reduce_rows[op->id](x[0].t, axes, n, keepdim)) != WEFT_E_SHAPE)
            complain(&c, "an empty axis is no error");
    } else {
        check_reduce(&c, &x[0], mask, keepdim, all);
        if (kind == OVERLAPPING)
            check_reduce(&c, &x[1], mask, keepdim, all);
    }
    end(&c);
}

/* NaN, infinities, and a row of equal values. */
static void reduce_specials(const ops_row *op, ref_dtype t)
{
    static const double rows[5][4] = {{1, NAN, 2, NAN}, {INFINITY, 1, -1, 2}, {-INFINITY, -5, -3, -3}, {-INFINITY, INFINITY, 0, 1},
                                      {-0.0, 0, -0.0, 0}};
    op_case c = begin(op, t, SPECIALS);
    ref_array values = ref_new(2, (int64_t[]){5, 4});
    memcpy(values.data, rows, sizeof rows);
    operand x = operand_of(t, values);
    uses(&c, &x);
    check_reduce(&c, &x, 2, false, false);
    check_reduce(&c, &x, 1, false, false);
    end(&c);
}

static void run_reduce(const ops_row *op)
{
    if (!reduce_rows[op->id])
        fail_msg("%s: no case is made for this row", op->name);
    const shape cube = {3, {3, 5, 7}}, four = {4, {3, 4, 5, 2}}, none = {0, {0}};
    for (int t = REF_F32; t <= REF_BOOL; t++) {
        for (int kind = 0; kind < SPECIALS; kind++) {
            if (!n_shapes(op, (ref_dtype)t, (ops_kind)kind))
                continue;
            const shape *s = kind == EMPTY || kind == SIZE1 ? &kind_shapes[kind].of[0] : &cube;
            for (uint32_t mask = 1; mask < 8; mask++)
                if (!thrifty || (t == REF_F32 ? mask != 2 && mask != 6 : mask == 4))
                    reduce_case(op, (ref_dtype)t, (ops_kind)kind, s, mask, mask % 2);
            if (!thrifty && kind < EMPTY)
                for (uint32_t mask = 5; mask < 16; mask += 5) /* axes apart, and all four */
                    reduce_case(op, (ref_dtype)t, (ops_kind)kind, &four, mask, mask == 10);
        }
        reduce_case(op, (ref_dtype)t, CONTIGUOUS, &none, 0, false);
        if (ref_is_float((ref_dtype)t) && n_shapes(op, (ref_dtype)t, SPECIALS))
            reduce_specials(op, (ref_dtype)t);
    }
    /* longer than a work group, than a block of the CPU's interpreter, and than 65,535 */
    for (int i = 0; i < 3; i++)
        reduce_case(op, REF_F32, CONTIGUOUS, &(shape[]){{2, {3, 1031}}, {2, {1031, 3}}, {1, {70001}}}[i], i == 0 ? 2 : 1, false);
}

/* ---- rows ---- */

static weft_tensor *call_row(ops_id id, const operand *x, const operand *w, const operand *b, float eps, int axis)
{
    switch (id) {
    case OP_SOFTMAX: return weft_softmax(x->t, axis);
    case OP_LOG_SOFTMAX: return weft_log_softmax(x->t, axis);
    case OP_RMS_NORM: return weft_rms_norm(x->t, w ? w->t : NULL, eps, axis);
    case OP_LAYER_NORM: return weft_layer_norm(x->t, w ? w->t : NULL, b ? b->t : NULL, eps, axis);
    default: return NULL;
    }
}

static void check_row(op_case *c, const operand *x, const operand *w, const operand *b, float eps, int axis)
{
    ref_row_scales scales;
    ref_array want = ref_row(c->op->name, &x->r, axis, w ? &w->r : NULL, b ? &b->r : NULL, eps, &scales);
    quantity more[3] = {{BOUND_X, &scales.max_x}, {BOUND_MAX_X, &scales.max_x}, {BOUND_STD, &scales.std}};
    ref_array bound = bounds(c, x->dtype, (double)x->r.shape[axis], &want, &scales.S, 3, more);
    check(c, call_row(c->op->id, x, w, b, eps, axis - (axis % 2 ? x->r.rank : 0)), x->dtype, &want, &bound, NULL);
}

static void row_case(const ops_row *op, ref_dtype t, ops_kind kind, const shape *s, int axis)
{
    op_case c = begin(op, t, kind);
    snprintf(c.note, sizeof c.note, "axis %d", axis);
    bool norm = op->id == OP_RMS_NORM || op->id == OP_LAYER_NORM;
    operand x[2], w, b;
    if (kind == OVERLAPPING)
        make_overlapping(t, s->rank, s->dims, ANY, 2, x);
    else
        x[0] = make(t, s->rank, s->dims, kind, ANY, axis);
    uses(&c, &x[0]);
    ops_kind weight_kind = kind == SLICED || kind == NEGATIVE || kind == BROADCAST ? kind : CONTIGUOUS;
    w = make(t, 1, &s->dims[axis], weight_kind, SMALL, 0);
    b = make(t, 1, &s->dims[axis], weight_kind, SMALL, 1);
    bool with_w = norm && axis != 1, with_b = op->id == OP_LAYER_NORM && axis != 0;
    if (with_w)
        uses(&c, &w);
    if (with_b)
        uses(&c, &b);
    float eps = norm ? (float)ldexp(1, -17) : 0; /* the same in every dtype of computation */
    for (int i = 0; i < (kind == OVERLAPPING ? 2 : 1); i++)
        check_row(&c, &x[i], with_w ? &w : NULL, with_b ? &b : NULL, eps, axis);
    end(&c);
}

static void row_specials(const ops_row *op, ref_dtype t)
{
    static const double rows[6][4] = {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}, {-INFINITY, 0, 1, -INFINITY}, {1, NAN, 2, 3},
                                      {60000, 0, -60000, 1}, {88, 89, 90, 91}, {3, 3, 3, 3}};
    bool norm = op->id == OP_RMS_NORM || op->id == OP_LAYER_NORM;
    op_case c = begin(op, t, SPECIALS);
    ref_array values = ref_new(2, (int64_t[]){6, 4});
    memcpy(values.data, rows, sizeof rows);
    if (norm) /* infinities have no norm */
        for (int i = 0; i < 8; i++)
            values.data[i] = i;
    for (int i = 0; i < 24; i++)
        values.data[i] = ref_round(t, values.data[i]);
    operand x = operand_of(t, values);
    uses(&c, &x);
    check_row(&c, &x, NULL, NULL, norm ? (float)ldexp(1, -17) : 0, 1);
    end(&c);
}

static void run_row(const ops_row *op)
{
    if (!call_row(op->id, &(operand){0}, NULL, NULL, 0, 0))
        fail_msg("%s: no case is made for this row", op->name);
    const shape cube = {3, {3, 5, 7}};
    for (int t = REF_F32; t <= REF_F64; t++) {
        for (int kind = 0; kind < SPECIALS; kind++) {
            if (!n_shapes(op, (ref_dtype)t, (ops_kind)kind))
                continue;
            const shape *s = kind == EMPTY || kind == SIZE1 ? &kind_shapes[kind].of[0] : &cube;
            for (int axis = 0; axis < 3; axis++)
                if (!thrifty || t == REF_F32 || axis == 2)
                    row_case(op, (ref_dtype)t, (ops_kind)kind, s, axis);
        }
        if (n_shapes(op, (ref_dtype)t, SPECIALS))
            row_specials(op, (ref_dtype)t);
    }
    for (int i = 0; i < 2; i++)
        row_case(op, REF_F32, CONTIGUOUS, &(shape[]){{2, {3, 1031}}, {2, {1031, 3}}}[i], i == 0 ? 1 : 0);
}

#endif
