/* ops_matrix.h - cases of matmul, linear (plain and block-type weights) and attention. */
#ifndef OPS_MATRIX_H
#define OPS_MATRIX_H

#include "ops_reduce.h"

/* ---- matmul ---- */
static void matmul_case(const ops_row *op, ref_dtype ta, ref_dtype tb, ops_kind ka, ops_kind kb, shape sa, shape sb)
{
    ref_dtype result = ref_promote(ta, tb);
    op_case c = begin(op, result, ka != CONTIGUOUS ? ka : kb);
    operand a = make(ta, sa.rank, sa.dims, ka, SMALL, 0), b = make(tb, sb.rank, sb.dims, kb, SMALL, 1);
    if (ka == OVERLAPPING && sa.rank == sb.rank && ta == tb) {
        operand both[2];
        make_overlapping(ta, sa.rank, sa.dims, SMALL, 2, both);
        a = both[0];
        b = (operand){weft_transpose(both[1].t, -1, -2), ref_swap(both[1].r, sa.rank - 1, sa.rank - 2), ta};
    }
    uses(&c, &a);
    uses(&c, &b);
    ref_array scale, want = ref_matmul(&a.r, &b.r, &scale);
    quantity more = {BOUND_SUM_AB, &scale};
    ref_array bound = bounds(&c, result, (double)a.r.shape[a.r.rank - 1], &want, NULL, 1, &more);
    check(&c, weft_matmul(a.t, b.t), result, &want, &bound, NULL);
    end(&c);
}

static const struct {
    shape a, b;
} matmul_shapes[] = {
    {{2, {5, 7}}, {2, {7, 3}}},          {{2, {33, 17}}, {2, {17, 65}}},      {{1, {7}}, {2, {7, 5}}},
    {{2, {5, 7}}, {1, {7}}},             {{1, {9}}, {1, {9}}},                {{3, {2, 5, 7}}, {2, {7, 3}}},
    {{4, {2, 1, 3, 5}}, {3, {4, 5, 2}}}, {{2, {1, 64}}, {2, {64, 33}}},       {{3, {3, 4, 8}}, {3, {3, 8, 4}}},
    {{2, {65, 130}}, {2, {130, 66}}},    {{2, {2, 0}}, {2, {0, 3}}},          {{2, {0, 3}}, {2, {3, 2}}},
    {{3, {0, 2, 3}}, {2, {3, 2}}},       {{2, {1, 1}}, {2, {1, 1}}},
};
enum { N_MATMUL_SHAPES = sizeof matmul_shapes / sizeof *matmul_shapes, MATMUL_EMPTY = 10, MATMUL_SIZE1 = 13 };

static void run_matmul(const ops_row *op)
{
    for (int t = REF_F32; t <= REF_F64; t++)
        for (int i = 0; i < N_MATMUL_SHAPES; i++) {
            ops_kind kind = i >= MATMUL_SIZE1 ? SIZE1 : i >= MATMUL_EMPTY ? EMPTY : CONTIGUOUS;
            if (!thrifty || t == REF_F32 || i % 4 == t)
                matmul_case(op, (ref_dtype)t, (ref_dtype)t, kind, kind, matmul_shapes[i].a, matmul_shapes[i].b);
        }
    shape a = {3, {2, 33, 18}}, b = {3, {2, 18, 21}};
    for (int t = REF_F32; t <= REF_F64; t++)
        for (int kind = TRANSPOSED; kind <= OVERLAPPING; kind++) {
            if (thrifty && t != REF_F32 && kind % 3 != t)
                continue;
            matmul_case(op, (ref_dtype)t, (ref_dtype)t, (ops_kind)kind, CONTIGUOUS, a, b);
            if (kind != OVERLAPPING) {
                matmul_case(op, (ref_dtype)t, (ref_dtype)t, CONTIGUOUS, (ops_kind)kind, a, b);
                matmul_case(op, (ref_dtype)t, (ref_dtype)t, (ops_kind)kind, (ops_kind)kind, a, b);
            }
        }
    matmul_case(op, REF_F16, REF_F32, CONTIGUOUS, TRANSPOSED, a, b);
    matmul_case(op, REF_F16, REF_BF16, CONTIGUOUS, CONTIGUOUS, a, b);
}

/* ---- linear ---- */
static const struct {
    weft_activation activation;
    const char *name;
    ops_id op;
    double slope; /* largest |derivative| */
} activations[] = {
    {WEFT_ACT_NONE, NULL, OP_COPY, 1},         {WEFT_ACT_RELU, "relu", OP_RELU, 1},
    {WEFT_ACT_SILU, "silu", OP_SILU, 1.1},     {WEFT_ACT_GELU, "gelu", OP_GELU, 1.13},
    {WEFT_ACT_GELU_TANH, "gelu_tanh", OP_GELU_TANH, 1.13}, {WEFT_ACT_SIGMOID, "sigmoid", OP_SIGMOID, 0.25},
};

/* An error of z before the activation is one of at most slope * error after it, plus the activation's own. */
static void activate(int which, ref_dtype t, ref_array *want, ref_array *bound)
{
    if (!activations[which].name)
        return;
    ref_fn fn = ref_pointwise(activations[which].name);
    for (int64_t i = 0, n = ref_numel(want); i < n; i++) {
        double z = *ref_item(want, i), y = (double)fn(z, 0, 0), own = 0;
        bound_values given = bound_given(ref_eps(t), least_of(t), 1);
        given.v[BOUND_S] = fmax(fabs(y), ref_min_normal(t));
        given.v[BOUND_X] = fabs(z);
        bound_value(ops_rows[activations[which].op].bound, &given, &own);
        *ref_item(bound, i) = activations[which].slope * *ref_item(bound, i) + own;
        *ref_item(want, i) = y;
    }
}

/* Random blocks: quants of all values, scales of both signs, none extreme. */
static operand random_blocks(ref_dtype t, int64_t N, int64_t K)
{
    int64_t shape[2] = {N, K}, n_blocks = N * K / 32;
    size_t size = ref_bytes(t, 32);
    uint8_t *bytes = ref_alloc(size * (size_t)n_blocks + 8);
    for (int64_t b = 0; b < n_blocks; b++) {
        uint8_t *p = bytes + size * (size_t)b;
        for (size_t i = 0; i < size; i++)
            p[i] = (uint8_t)rng();
        for (int k = 0; k < (t == REF_Q4_1 ? 2 : 1); k++) {
            double scale = ref_round(REF_F16, (0.01 + 0.02 * rng_unit()) * (rng() & 1 ? 1 : -1));
            ref_encode(REF_F16, &scale, 1, p + 2 * k);
        }
    }
    operand o = {.r = ref_new(2, shape), .dtype = t};
    ref_decode(t, bytes, N * K, o.r.data);
    o.t = weft_tensor_from(ctx, weft_dtype_of(dtype_names[t]), 2, shape, bytes);
    return o;
}

/* What rounding the activations to i8 by blocks of 32 may add: half a step of max|x| / 127 for each. */
static double int8_error(const ref_array *x, const ref_array *w, int64_t row, int64_t n)
{
    double sum = 0;
    for (int64_t k0 = 0, K = w->shape[1]; k0 < K; k0 += 32) {
        double most = 0, weights = 0;
        for (int64_t k = k0; k < k0 + 32 && k < K; k++) {
            most = fmax(most, fabs(*ref_item(x, row * K + k)));
            weights += fabs(*ref_at(w, (int64_t[]){n, k}));
        }
        sum += most / 254 * weights;
    }
    return sum;
}

static void linear_case(op_case *c, const operand *x, const operand *w, const operand *bias, int which, bool int8)
{
    uses(c, x);
    uses(c, w);
    if (bias)
        uses(c, bias);
    snprintf(c->note, sizeof c->note, "activation %s%s", activations[which].name ? activations[which].name : "none",
             int8 ? ", int8" : "");
    int64_t K = w->r.shape[1], N = w->r.shape[0];
    ref_array scale, want = ref_linear(&x->r, &w->r, bias ? &bias->r : NULL, &scale);
    quantity more = {BOUND_SUM_XW, &scale};
    ref_array bound = bounds(c, x->dtype, (double)K, &want, NULL, 1, &more);
    if (int8) /* the f16 scale of such a block rounds once more */
        for (int64_t i = 0, n = ref_numel(&want); i < n; i++)
            *ref_item(&bound, i) += int8_error(&x->r, &w->r, i / N, i % N) + ref_eps(REF_F16) * *ref_item(&scale, i);
    activate(which, x->dtype, &want, &bound);
    weft_linear_opts opts = {bias ? bias->t : NULL, activations[which].activation, int8};
    check(c, weft_linear(x->t, w->t, bias || which || int8 ? &opts : NULL), x->dtype, &want, &bound, NULL);
}

static void plain_linear(const ops_row *op, ref_dtype tx, ref_dtype tw, ops_kind kx, ops_kind kw, shape sx, int64_t N, int which)
{
    op_case c = begin(op, tx, kx != CONTIGUOUS ? kx : kw);
    int64_t K = sx.dims[sx.rank - 1];
    operand x = make(tx, sx.rank, sx.dims, kx, SMALL, 0), w = make(tw, 2, (int64_t[]){N, K}, kw, SMALL, 2);
    operand bias = make(tx, 1, &N, kw == SLICED || kw == NEGATIVE || kw == BROADCAST ? kw : CONTIGUOUS, SMALL, 1), both[2];
    if (kx == OVERLAPPING && sx.rank == 2 && tx == tw) { /* x and w are windows of one storage */
        int64_t rows = sx.dims[0] > N ? sx.dims[0] : N;
        make_overlapping(tx, 2, (int64_t[]){rows, K}, SMALL, 2, both);
        x = cut(both[0], 0, 0, sx.dims[0], 1);
        w = cut(both[1], 0, 0, N, 1);
    }
    linear_case(&c, &x, &w, which % 2 ? &bias : NULL, which, false);
    end(&c);
}

static void run_linear(const ops_row *op)
{
    const shape shapes[] = {{2, {5, 7}}, {1, {40}}, {3, {2, 9, 33}}, {2, {1, 64}}, {2, {0, 7}}, {2, {3, 0}}, {2, {1, 1}}};
    const int64_t Ns[] = {3, 33, 17, 65, 5, 4, 1};
    for (int t = REF_F32; t <= REF_BF16; t++) {
        for (int i = 0; i < 7; i++) {
            ops_kind kind = i == 6 ? SIZE1 : i >= 4 ? EMPTY : CONTIGUOUS;
            plain_linear(op, (ref_dtype)t, (ref_dtype)t, kind, CONTIGUOUS, shapes[i], Ns[i], i % 6);
        }
        for (int kind = TRANSPOSED; kind <= OVERLAPPING; kind++) {
            if (thrifty && t != REF_F32 && kind % 3 != t)
                continue;
            plain_linear(op, (ref_dtype)t, (ref_dtype)t, (ops_kind)kind, CONTIGUOUS, (shape){2, {9, 18}}, 21, kind);
            if (kind != OVERLAPPING)
                plain_linear(op, (ref_dtype)t, (ref_dtype)t, CONTIGUOUS, (ops_kind)kind, (shape){3, {2, 9, 18}}, 21, kind + 1);
        }
    }
    for (int which = 0; which < 6; which++)
        plain_linear(op, REF_F32, REF_F16, CONTIGUOUS, CONTIGUOUS, (shape){2, {9, 34}}, 19, which);
    plain_linear(op, REF_F32, REF_BF16, SLICED, CONTIGUOUS, (shape){2, {9, 34}}, 19, 3);
    plain_linear(op, REF_F16, REF_F32, CONTIGUOUS, CONTIGUOUS, (shape){2, {9, 34}}, 19, 2);
}

/* ---- block types ---- */
static const int64_t quant_Ns[] = {1, 3, 7, 33, 65}, quant_Ms[] = {1, 2, 8, 9, 65}, quant_Ks[] = {32, 96};

static void run_quantised_linear(const ops_row *op, ref_dtype t)
{
    for (int n = 0; n < 5; n++)
        for (int m = 0; m < 5; m++)
            for (int k = 0; k < 2; k++)
                for (int int8 = 0; int8 < 2; int8++) {
                    op_case c = begin(op, t, CONTIGUOUS);
                    int64_t M = quant_Ms[m], N = quant_Ns[n], K = quant_Ks[k];
                    operand x = make(REF_F32, 2, (int64_t[]){M, K}, CONTIGUOUS, SMALL, 0), w = random_blocks(t, N, K);
                    linear_case(&c, &x, &w, NULL, 0, int8);
                    end(&c);
                }
    for (int kind = TRANSPOSED; kind <= BROADCAST; kind++) { /* views of x, whole rows of w, bias and activation */
        op_case c = begin(op, t, (ops_kind)kind);
        operand x = make(kind % 2 ? REF_F32 : REF_F16, 3, (int64_t[]){2, 5, 64}, (ops_kind)kind, SMALL, 0);
        operand w = cut(random_blocks(t, 23, 64), 0, 3, 18, 1), bias = make(x.dtype, 1, (int64_t[]){18}, SLICED, SMALL, 0);
        linear_case(&c, &x, &w, &bias, kind, false);
        end(&c);
    }
}

static void run_quantised_embedding(const ops_row *op, ref_dtype t)
{
    for (int k = 0; k < 2; k++) {
        op_case c = begin(op, t, CONTIGUOUS);
        operand w = random_blocks(t, 33, quant_Ks[k]);
        ref_array ids = ref_new(2, (int64_t[]){3, 5});
        for (int i = 0; i < 15; i++)
            ids.data[i] = (double)rng_below(33);
        ids.data[7] = -1;
        operand index = operand_of(REF_I32, ids);
        uses(&c, &w);
        uses(&c, &index);
        ref_array want = ref_index_select(&w.r, 0, &ids), bound = ref_like(&want);
        for (int64_t i = 0, n = ref_numel(&want); i < n; i++) /* d * q + m rounds twice; m may cancel */
            bound.data[i] = t == REF_Q4_1 ? 2 * ref_eps(REF_F32) * 16 * 0.03 : 0;
        check(&c, weft_embedding(w.t, index.t), REF_F32, &want, &bound, NULL);
        end(&c);
    }
}

#endif
