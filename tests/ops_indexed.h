/* ops_indexed.h - cases of ranges, selections, joins, updates and top-k. */
#ifndef OPS_INDEXED_H
#define OPS_INDEXED_H

#include "ops_attention.h"

static bool runs(const ops_row *op, ref_dtype t, ops_kind kind)
{
    return n_shapes(op, t, kind) > 0;
}

static void run_iota(const ops_row *op)
{
    static const struct {
        ref_dtype t;
        int64_t n;
        double start, step;
    } cases[] = {{REF_F32, 1031, 0.5, 0.1}, {REF_F32, 7, -3, 1e6}, {REF_I32, 1031, -5, 3}, {REF_I32, 9, 2147483000, -77},
                 {REF_I64, 33, 1e12, -1000}, {REF_F32, 0, 1, 1}, {REF_I32, 0, 0, 1}, {REF_F32, 1, 7, 3}, {REF_F32, 70001, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        op_case c = begin(op, cases[i].t, cases[i].n == 0 ? EMPTY : cases[i].n == 1 ? SIZE1 : CONTIGUOUS);
        snprintf(c.note, sizeof c.note, "%lld from %g by %g", (long long)cases[i].n, cases[i].start, cases[i].step);
        ref_array scale, want = ref_iota(cases[i].n, cases[i].start, cases[i].step, &scale);
        ref_array bound = bounds(&c, cases[i].t, 1, &want, &scale, 0, NULL);
        check(&c, weft_arange(ctx, weft_dtype_of(dtype_names[cases[i].t]), cases[i].n, cases[i].start, cases[i].step), cases[i].t,
              &want, &bound, NULL);
        end(&c);
    }
}

static void run_tri(const ops_row *op)
{
    static const int64_t cases[][3] = {{5, 7, 0}, {7, 5, 2}, {5, 7, -3}, {5, 7, 1000000000000}, {5, 7, -100}, {1, 1, 0}, {0, 3, 0}, {3, 0, 1}, {65, 33, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        op_case c = begin(op, REF_BOOL, cases[i][0] * cases[i][1] == 0 ? EMPTY : cases[i][1] == 1 ? SIZE1 : CONTIGUOUS);
        snprintf(c.note, sizeof c.note, "%lld x %lld, diagonal %lld", (long long)cases[i][0], (long long)cases[i][1], (long long)cases[i][2]);
        ref_array want = ref_tri(cases[i][0], cases[i][1], cases[i][2]);
        check(&c, weft_tri(ctx, cases[i][0], cases[i][1], cases[i][2]), REF_BOOL, &want, NULL, NULL);
        end(&c);
    }
}

/* ---- index_select, gather ---- */

/* Indices into an axis of `extent`, some counted from the end. */
static operand indices(ref_dtype t, int rank, const int64_t *dims, ops_kind kind, int64_t extent)
{
    operand o = make(t, rank, dims, kind, ANY, 0); /* for the view; then the storage gets indices */
    ref_array whole = ref_copy(&o.r);
    for (int64_t i = 0, n = ref_numel(&whole); i < n; i++)
        whole.data[i] = (double)rng_below(extent) - (rng_below(3) == 0 && t != REF_U8 ? (double)extent : 0);
    operand r = operand_of(t, whole);
    if (rank < 1 || kind == CONTIGUOUS || ref_numel(&whole) == 0)
        return r;
    r.t = weft_flip(r.t, -1); /* a view with a negative stride */
    r.r = ref_slice(r.r, rank - 1, dims[rank - 1] - 1, dims[rank - 1], -1);
    return r;
}

static void select_case(const ops_row *op, ref_dtype t, ops_kind kind, const shape *s, int axis, int index_rank)
{
    static const int64_t dims[3] = {3, 2, 4};
    op_case c = begin(op, t, kind);
    snprintf(c.note, sizeof c.note, "axis %d, index of rank %d", axis, index_rank);
    int64_t extent = s->dims[axis], none = 0;
    operand x = make(t, s->rank, s->dims, kind, ANY, axis);
    operand i = extent == 0 ? operand_of(REF_I32, ref_new(1, &none))
                            : indices(index_rank == 2 && (!thrifty || t == REF_I64) ? REF_I64 : REF_I32, index_rank, dims, kind, extent);
    uses(&c, &x);
    uses(&c, &i);
    ref_array want = ref_index_select(&x.r, axis, &i.r);
    check(&c, weft_index_select(x.t, axis % 2 ? axis - s->rank : axis, i.t), t, &want, NULL, NULL);
    end(&c);
}

static void gather_case(const ops_row *op, ref_dtype t, ops_kind kind, const shape *s, int axis)
{
    op_case c = begin(op, t, kind);
    snprintf(c.note, sizeof c.note, "axis %d", axis);
    int64_t dims[REF_MAX_RANK];
    for (int k = 0; k < s->rank; k++) /* shorter than x on another axis, longer on the picked one */
        dims[k] = k == axis ? s->dims[k] + 1 : s->dims[k] > 1 ? s->dims[k] - 1 : s->dims[k];
    if (s->dims[axis] == 0)
        dims[axis] = 0;
    operand x = make(t, s->rank, s->dims, kind, ANY, axis);
    operand i = indices(REF_I32, s->rank, dims, kind, s->dims[axis] ? s->dims[axis] : 1);
    uses(&c, &x);
    uses(&c, &i);
    ref_array want = ref_gather(&x.r, axis, &i.r);
    check(&c, weft_gather(x.t, axis, i.t), t, &want, NULL, NULL);
    end(&c);
}

static void run_select(const ops_row *op)
{
    for (int t = REF_F32; t <= REF_BOOL; t++)
        for (int kind = 0; kind < SPECIALS; kind++) {
            if (!runs(op, (ref_dtype)t, (ops_kind)kind))
                continue;
            const shape cube = {3, {3, 5, 7}}, *s = kind == EMPTY || kind == SIZE1 ? &kind_shapes[kind].of[0] : &cube;
            for (int axis = 0; axis < 3; axis++) {
                if (thrifty && (t != REF_F32 || kind % 2) && axis != 0)
                    continue;
                if (op->id == OP_GATHER)
                    gather_case(op, (ref_dtype)t, (ops_kind)kind, s, axis);
                else
                    for (int rank = axis == 0 && !thrifty ? 0 : axis; rank <= axis; rank++)
                        select_case(op, (ref_dtype)t, (ops_kind)kind, s, axis, thrifty ? 1 + kind % 2 : rank);
            }
        }
}

/* ---- cat, slice_update ---- */
static void cat_case(const ops_row *op, ref_dtype t, ops_kind kind, const shape *s, int axis, int n)
{
    op_case c = begin(op, t, kind);
    snprintf(c.note, sizeof c.note, "axis %d, %d parts", axis, n);
    operand parts[4];
    ref_array arrays[4];
    weft_tensor *tensors[4];
    if (kind == OVERLAPPING)
        make_overlapping(t, s->rank, s->dims, ANY, n, parts);
    for (int i = 0; i < n; i++) {
        int64_t dims[REF_MAX_RANK];
        memcpy(dims, s->dims, sizeof s->dims);
        if (kind != OVERLAPPING) {
            dims[axis] += i == 1 ? 2 : 0;
            parts[i] = make(t, s->rank, dims, i == 2 ? CONTIGUOUS : kind, ANY, i);
        }
        uses(&c, &parts[i]);
        arrays[i] = parts[i].r;
        tensors[i] = parts[i].t;
    }
    ref_array want = ref_cat(arrays, n, axis);
    check(&c, weft_cat(tensors, n, axis - (axis % 2 ? s->rank : 0)), t, &want, NULL, NULL);
    end(&c);
}

static void update_case(const ops_row *op, ref_dtype t, ops_kind kind, const shape *s, int axis, bool kept)
{
    op_case c = begin(op, t, kind);
    int64_t dims[REF_MAX_RANK], start = s->dims[axis] > 2 ? 1 : 0;
    memcpy(dims, s->dims, sizeof s->dims);
    if (dims[axis] > 2)
        dims[axis] -= 2;
    snprintf(c.note, sizeof c.note, "axis %d at %lld", axis, (long long)start);
    operand dst = make(t, s->rank, s->dims, kind, ANY, 0), src = make(t, s->rank, dims, kind, ANY, 1), both[2];
    if (kind == OVERLAPPING) { /* src is a window of dst's own storage */
        make_overlapping(t, s->rank, s->dims, ANY, 2, both);
        dst = both[0];
        src = cut(both[1], axis, 0, dims[axis], 1);
    }
    uses(&c, &dst);
    uses(&c, &src);
    ref_array old = ref_copy(&dst.r), want = ref_slice_update(&dst.r, &src.r, axis, start);
    weft_tensor *y = weft_slice_update(dst.t, src.t, axis, weft_scalar_i32(ctx, (int32_t)start));
    check(&c, y, t, &want, NULL, NULL);
    if (kept) /* the old value is as it was */
        check(&c, dst.t, t, &old, NULL, NULL);
    end(&c);
}

static void run_joins(const ops_row *op)
{
    for (int t = REF_F32; t <= REF_BOOL; t++)
        for (int kind = 0; kind < SPECIALS; kind++) {
            if (!runs(op, (ref_dtype)t, (ops_kind)kind))
                continue;
            const shape cube = {3, {3, 5, 7}}, *s = kind == EMPTY || kind == SIZE1 ? &kind_shapes[kind].of[0] : &cube;
            for (int axis = 0; axis < 3; axis++) {
                if (thrifty && (t != REF_F32 || kind % 2) && axis != 2)
                    continue;
                if (op->id == OP_SLICE_UPDATE)
                    update_case(op, (ref_dtype)t, (ops_kind)kind, s, axis, axis % 2 == 0);
                else
                    for (int n = thrifty ? 3 : 1; n <= (thrifty ? 3 : 4); n++)
                        cat_case(op, (ref_dtype)t, (ops_kind)kind, s, axis, n);
            }
        }
}

/* ---- top-k ---- */
static void check_topk(op_case *c, const operand *x, int64_t k)
{
    ref_array values, want = ref_topk(&x->r, k, &values);
    weft_tensor *v = NULL, *i = weft_topk(x->t, k, &v);
    check(c, i, REF_I32, &want, NULL, NULL);
    if (v)
        check(c, v, x->dtype, &values, NULL, NULL);
}

static void topk_case(const ops_row *op, ref_dtype t, ops_kind kind, shape s, int64_t k)
{
    op_case c = begin(op, t, kind);
    snprintf(c.note, sizeof c.note, "k %lld", (long long)k);
    operand x[2];
    if (kind == OVERLAPPING)
        make_overlapping(t, s.rank, s.dims, TIES, 2, x);
    else
        x[0] = make(t, s.rank, s.dims, kind, k % 2 ? TIES : ANY, 0);
    uses(&c, &x[0]);
    check_topk(&c, &x[0], k);
    if (kind == OVERLAPPING)
        check_topk(&c, &x[1], k);
    end(&c);
}

static void run_topk(const ops_row *op)
{
    for (int t = REF_F32; t <= REF_BOOL; t++) {
        for (int kind = 0; kind < SPECIALS; kind++) {
            if (!runs(op, (ref_dtype)t, (ops_kind)kind))
                continue;
            shape s = kind == EMPTY || kind == SIZE1 ? kind_shapes[kind].of[0] : (shape){3, {3, 5, 7}};
            for (int64_t k = 0; k <= s.dims[s.rank - 1]; k += thrifty ? 3 : 1)
                topk_case(op, (ref_dtype)t, (ops_kind)kind, s, k);
        }
        if (!ref_is_float((ref_dtype)t) || !runs(op, (ref_dtype)t, SPECIALS))
            continue;
        op_case c = begin(op, (ref_dtype)t, SPECIALS);
        ref_array v = ref_new(2, (int64_t[]){2, 6});
        memcpy(v.data, (double[]){1, NAN, INFINITY, -INFINITY, NAN, 2, -INFINITY, -1, -2, -1, -INFINITY, 0}, 12 * sizeof(double));
        operand x = operand_of((ref_dtype)t, v);
        uses(&c, &x);
        check_topk(&c, &x, 5);
        end(&c);
    }
    topk_case(op, REF_F32, CONTIGUOUS, (shape){2, {2, 5003}}, 7);
    topk_case(op, REF_F32, CONTIGUOUS, (shape){1, {300}}, 300);
}

#endif
