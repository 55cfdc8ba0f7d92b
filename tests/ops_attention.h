/* ops_attention.h - cases of scaled dot-product attention and of rotary embedding. */
#ifndef OPS_ATTENTION_H
#define OPS_ATTENTION_H

#include "ops_matrix.h"

typedef enum mask_kind { NO_MASK, BOOL_MASK, FLOAT_MASK, HOLE_MASK } mask_kind;
/* [1, H, Tq, Tk], [B, H, Tq, Tk], [B, 1, Tq, Tk], [1, 1, 1, Tk], [1, 1, Tk, Tq] transposed */
typedef enum mask_form { OF_HEADS, WHOLE, OF_BATCHES, OF_KEYS, TURNED } mask_form;
typedef struct attention_case {
    int64_t B, Hq, Hkv, Tq, Tk, D;
    bool causal;
    mask_kind mask; /* HOLE_MASK: bool, one row wholly masked */
    int64_t kv_len; /* below 0: none */
    float scale;
    mask_form form;
    int64_t E;           /* width of v; 0: D */
    int64_t left, right; /* of the window, one more; 0: no bound */
    float softcap;
    bool slopes, sinks;
} attention_case;

static const attention_case attention_cases[] = {
    {1, 1, 1, 1, 1, 5, false, NO_MASK, -1, 0, OF_HEADS, 0, 0, 0, 0, false, false},
    {2, 4, 2, 7, 7, 8, true, NO_MASK, -1, 0, OF_HEADS, 0, 0, 0, 0, false, false},
    {1, 6, 2, 3, 17, 5, true, NO_MASK, -1, 0, OF_HEADS, 0, 0, 0, 0, false, false},
    {2, 3, 3, 9, 4, 5, false, NO_MASK, -1, 0.3f, OF_HEADS, 0, 0, 0, 0, false, false},
    {1, 4, 1, 1, 33, 16, true, NO_MASK, 20, 0, OF_HEADS, 0, 0, 0, 0, false, false},
    {1, 4, 2, 5, 40, 64, true, NO_MASK, 37, 0, OF_HEADS, 0, 0, 0, 0, false, false},
    {2, 4, 2, 6, 9, 5, false, BOOL_MASK, -1, 0, OF_HEADS, 0, 0, 0, 0, false, false},
    {1, 2, 2, 6, 9, 5, false, HOLE_MASK, -1, 0, OF_HEADS, 0, 0, 0, 0, false, false},
    {2, 4, 4, 6, 9, 8, true, FLOAT_MASK, -1, 0, OF_HEADS, 0, 0, 0, 0, false, false},
    {1, 2, 1, 5, 12, 5, true, BOOL_MASK, 8, 0, OF_HEADS, 0, 0, 0, 0, false, false},
    {1, 2, 1, 65, 67, 32, true, NO_MASK, -1, 0, OF_HEADS, 0, 0, 0, 0, false, false},
    {1, 2, 2, 9, 4, 5, true, NO_MASK, -1, 0, OF_HEADS, 0, 0, 0, 0, false, false},
    {1, 9, 3, 1, 130, 64, false, NO_MASK, 129, 0, OF_HEADS, 0, 0, 0, 0, false, false},
    {1, 2, 1, 33, 33, 128, false, FLOAT_MASK, -1, 0, OF_HEADS, 0, 0, 0, 0, false, false},
};
enum { N_ATTENTION = sizeof attention_cases / sizeof *attention_cases };

/* What the node takes beside a mask: windows, softcap, slopes, sinks, values of their own width, masks of every form. */
static const attention_case attention_forms[] = {
    {.B = 2, .Hq = 4, .Hkv = 2, .Tq = 9, .Tk = 12, .D = 5, .mask = BOOL_MASK, .form = OF_BATCHES, .kv_len = -1, .left = 4, .sinks = true},
    {.B = 2, .Hq = 4, .Hkv = 1, .Tq = 1, .Tk = 70, .D = 8, .kv_len = 66, .causal = true, .left = 20, .slopes = true, .softcap = 2},
    {.B = 2, .Hq = 2, .Hkv = 2, .Tq = 33, .Tk = 33, .D = 6, .E = 9, .mask = FLOAT_MASK, .form = WHOLE, .kv_len = -1, .causal = true, .softcap = 1.5f},
    {.B = 1, .Hq = 3, .Hkv = 3, .Tq = 20, .Tk = 40, .D = 33, .E = 7, .kv_len = -1, .left = 3, .right = 6, .slopes = true, .sinks = true},
    {.B = 2, .Hq = 2, .Hkv = 1, .Tq = 12, .Tk = 7, .D = 4, .mask = BOOL_MASK, .form = OF_KEYS, .kv_len = -1, .causal = true, .sinks = true},
    {.B = 1, .Hq = 4, .Hkv = 2, .Tq = 10, .Tk = 11, .D = 16, .mask = FLOAT_MASK, .form = TURNED, .kv_len = 9, .right = 1, .slopes = true},
    {.B = 2, .Hq = 2, .Hkv = 2, .Tq = 60, .Tk = 200, .D = 12, .mask = BOOL_MASK, .form = TURNED, .kv_len = -1, .left = 30, .right = 2, .softcap = 4, .scale = 0.7f},
    {.B = 1, .Hq = 2, .Hkv = 1, .Tq = 1, .Tk = 9, .D = 3, .mask = HOLE_MASK, .kv_len = -1, .sinks = true, .slopes = true, .softcap = 0.5f},
};
enum { N_FORMS = sizeof attention_forms / sizeof *attention_forms };

static operand attention_mask(const attention_case *a)
{
    int64_t dims[4] = {1, a->Hq, a->Tq, a->Tk}, whole[4] = {a->B, a->Hq, a->Tq, a->Tk};
    if (a->mask == HOLE_MASK || a->form > WHOLE)
        dims[1] = 1;
    if (a->form == WHOLE || a->form == OF_BATCHES)
        dims[0] = a->B;
    if (a->form == OF_KEYS)
        dims[2] = 1;
    if (a->form == TURNED) {
        dims[2] = a->Tk;
        dims[3] = a->Tq;
    }
    ref_array v = ref_new(4, dims);
    for (int64_t i = 0, n = ref_numel(&v); i < n; i++) {
        bool hole = a->mask == HOLE_MASK && i / a->Tk % a->Tq == 2;
        v.data[i] = a->mask == FLOAT_MASK ? (rng_below(4) ? sample(SMALL, REF_F32) : -INFINITY) : !hole && rng_below(3) != 0;
    }
    operand o = operand_of(a->mask == FLOAT_MASK ? REF_F32 : REF_BOOL, v);
    if (a->form == TURNED) {
        o.t = weft_transpose(o.t, 2, 3);
        o.r = ref_swap(o.r, 2, 3);
    }
    o.r = ref_expand(o.r, 4, whole);
    return o;
}

static void sdpa_case(const ops_row *op, ref_dtype tq, ref_dtype tk, ops_kind kind, const attention_case *a)
{
    op_case c = begin(op, tq, kind);
    snprintf(c.note, sizeof c.note, "causal %d, mask %d, kv_len %lld, scale %g", a->causal, a->mask, (long long)a->kv_len,
             (double)a->scale);
    int64_t sq[4] = {a->B, a->Hq, a->Tq, a->D}, sk[4] = {a->B, a->Hkv, a->Tk, a->D}, sv[4] = {a->B, a->Hkv, a->Tk, a->E ? a->E : a->D};
    operand q = make(tq, 4, sq, kind, SMALL, 1), k = make(tk, 4, sk, kind, SMALL, 2), v = make(tk, 4, sv, kind, SMALL, 3), mask, slopes, sinks, both[2];
    if (kind == OVERLAPPING) {
        make_overlapping(tk, 4, sk, SMALL, 2, both);
        k = both[0];
        v = both[1];
    }
    uses(&c, &q);
    uses(&c, &k);
    uses(&c, &v);
    weft_attention_opts opts = {.is_causal = a->causal, .scale = a->scale};
    ref_attention o = {.causal = a->causal, .scale = a->scale, .kv_len = a->kv_len, .mask_is_bool = a->mask != FLOAT_MASK};
    if (a->mask != NO_MASK) {
        mask = attention_mask(a);
        uses(&c, &mask);
        opts.mask = mask.t;
        o.mask = &mask.r;
    }
    if (a->left || a->right) {
        opts.has_window = true;
        opts.window_left = o.left = a->left;
        opts.window_right = o.right = a->right;
        opts.window_left--;
        opts.window_right--;
    }
    opts.softcap = a->softcap;
    o.softcap = a->softcap;
    double per_head[2][16];
    if (a->slopes) {
        slopes = make(REF_F32, 1, &a->Hq, kind == SLICED || kind == NEGATIVE ? kind : CONTIGUOUS, SMALL, 4);
        uses(&c, &slopes);
        opts.alibi_slopes = slopes.t;
        o.slopes = per_head[0];
    }
    if (a->sinks) {
        sinks = make(REF_F32, 1, &a->Hq, kind == SLICED || kind == NEGATIVE ? kind : CONTIGUOUS, SMALL, 5);
        uses(&c, &sinks);
        opts.sinks = sinks.t;
        o.sinks = per_head[1];
    }
    for (int64_t h = 0; h < a->Hq; h++) {
        per_head[0][h] = a->slopes ? *ref_at(&slopes.r, &h) : 0;
        per_head[1][h] = a->sinks ? *ref_at(&sinks.r, &h) : 0;
    }
    if (a->kv_len >= 0)
        opts.kv_len = weft_scalar_i32(ctx, (int32_t)a->kv_len);
    ref_array max_v, max_s, want = ref_sdpa(&q.r, &k.r, &v.r, &o, &max_v, &max_s);
    quantity more[2] = {{BOUND_MAX_V, &max_v}, {BOUND_MAX_S, &max_s}};
    ref_array bound = bounds(&c, tq, (double)(a->D + a->Tk), &want, NULL, 2, more);
    check(&c, weft_scaled_dot_product_attention(q.t, k.t, v.t, &opts), tq, &want, &bound, NULL);
    end(&c);
}

static void run_sdpa(const ops_row *op)
{
    for (int t = REF_F32; t <= REF_BF16; t++)
        for (int i = 0; i < N_ATTENTION; i++)
            if (!thrifty || t == REF_F32 || i % 4 == t)
                sdpa_case(op, (ref_dtype)t, (ref_dtype)t, i == 0 ? SIZE1 : CONTIGUOUS, &attention_cases[i]);
    for (int kind = TRANSPOSED; kind <= OVERLAPPING; kind++)
        for (int i = 1; i < (thrifty ? 3 : 9); i++)
            sdpa_case(op, REF_F32, REF_F32, (ops_kind)kind, &attention_cases[i]);
    for (int t = REF_F32; t <= REF_BF16; t++)
        for (int i = 0; i < N_FORMS; i++)
            if (!thrifty || i % 3 == t)
                sdpa_case(op, (ref_dtype)t, (ref_dtype)t, t == REF_F32 ? (ops_kind)(i % 3 + CONTIGUOUS) : CONTIGUOUS, &attention_forms[i]);
    for (int i = 2; i < 6; i++) /* f16 caches beside f32 queries */
        sdpa_case(op, REF_F32, REF_F16, i == 3 ? TRANSPOSED : CONTIGUOUS, &attention_cases[i]);
    const attention_case empty[] = {
        {1, 2, 1, 0, 5, 4, true, NO_MASK, -1, 0, OF_HEADS, 0, 0, 0, 0, false, false},
        {0, 2, 1, 3, 5, 4, false, NO_MASK, -1, 0, OF_HEADS, 0, 0, 0, 0, false, false},
                                    {1, 2, 1, 3, 0, 4, false, NO_MASK, -1, 0, OF_HEADS, 0, 0, 0, 0, false, false},
        {1, 2, 2, 3, 5, 4, false, NO_MASK, 0, 0, OF_HEADS, 0, 0, 0, 0, false, false}};
    for (int i = 0; i < 4; i++)
        sdpa_case(op, REF_F32, REF_F32, EMPTY, &empty[i]);
}

/* ---- rope ---- */
typedef struct rope_case {
    int rank;
    int64_t dims[4];
    int dim;
    bool interleaved, across_head, factors;
    int positions; /* 0: none; 1: i32; 2: f32 */
    int offset;    /* below 0: none */
    double base, scale;
} rope_case;

static const rope_case rope_cases[] = {
    {2, {1, 4}, 0, false, false, false, 0, 1, 0, 0},           {4, {2, 3, 5, 8}, 0, false, false, false, 0, -1, 0, 0},
    {4, {2, 3, 5, 8}, 0, true, false, false, 0, 7, 0, 0},      {4, {2, 3, 5, 8}, 4, false, true, false, 0, 3, 0, 0},
    {3, {3, 5, 10}, 6, false, false, false, 1, -1, 0, 0},      {3, {3, 5, 10}, 6, true, false, false, 1, 11, 0, 0},
    {3, {3, 5, 10}, 6, false, true, false, 2, -1, 0, 0.25},    {2, {5, 16}, 0, false, false, true, 0, 1000, 500000, 0},
    {2, {5, 9}, 6, true, false, true, 2, -1, 0, 2},            {2, {3, 64}, 0, false, false, false, 0, 1048573, 0, 0},
    {2, {3, 64}, 0, true, false, false, 0, 1048573, 0, 0},     {2, {5, 64}, 0, false, false, false, 1, 1048571, 1e6, 0},
};
enum { N_ROPE = sizeof rope_cases / sizeof *rope_cases };

static void rope_case_run(const ops_row *op, ref_dtype t, ops_kind kind, const rope_case *r)
{
    op_case c = begin(op, t, kind);
    snprintf(c.note, sizeof c.note, "dim %d%s%s%s, positions %d, offset %d, base %g, scale %g", r->dim, r->interleaved ? ", interleaved" : "",
             r->across_head ? ", across head" : "", r->factors ? ", factors" : "", r->positions, r->offset, r->base, r->scale);
    operand x[2], positions;
    if (kind == OVERLAPPING)
        make_overlapping(t, r->rank, r->dims, SMALL, 2, x);
    else
        x[0] = make(t, r->rank, r->dims, kind, SMALL, 0);
    uses(&c, &x[0]);
    int64_t T = r->dims[r->rank - 2], D = r->dims[r->rank - 1];
    float factors[64];
    for (int i = 0; i < 64; i++)
        factors[i] = 1 + (float)rng_below(8) / 4;
    weft_rope_opts opts = {.dim = r->dim, .base = r->base, .scale = r->scale, .interleaved = r->interleaved,
                           .across_head = r->across_head, .freq_factors = r->factors ? factors : NULL};
    ref_rope_opts o = {.dim = r->dim ? r->dim : D, .base = r->base, .scale = r->scale, .interleaved = r->interleaved,
                       .across_head = r->across_head, .factors = r->factors ? factors : NULL};
    if (r->positions) {
        positions = make(r->positions == 1 ? REF_I32 : REF_F32, 1, &T, kind == SLICED || kind == NEGATIVE ? kind : CONTIGUOUS, ANY, 0);
        uses(&c, &positions);
        opts.positions = positions.t;
        o.positions = &positions.r;
    }
    if (r->offset >= 0) {
        opts.offset = weft_scalar_i32(ctx, r->offset);
        o.offset = r->offset;
    }
    for (int i = 0; i < (kind == OVERLAPPING ? 2 : 1); i++) {
        ref_array pair, want = ref_rope(&x[i].r, &o, &pair);
        quantity more[2] = {{BOUND_X, &x[i].r}, {BOUND_PAIR, &pair}};
        ref_array bound = bounds(&c, t, 1, &want, NULL, 2, more);
        check(&c, weft_rope(x[i].t, &opts), t, &want, &bound, NULL);
    }
    end(&c);
}

static void run_rope(const ops_row *op)
{
    for (int t = REF_F32; t <= REF_BF16; t++)
        for (int i = 0; i < N_ROPE; i++)
            if (!thrifty || t == REF_F32 || i % 3 == t % 3)
                rope_case_run(op, (ref_dtype)t, i == 0 ? SIZE1 : CONTIGUOUS, &rope_cases[i]);
    for (int t = REF_F32; t <= REF_BF16; t++)
        for (int kind = TRANSPOSED; kind <= OVERLAPPING; kind++)
            for (int i = 1; i < 7; i++)
                if (!thrifty || (t == REF_F32 && (kind + i) % 3 == 0))
                    rope_case_run(op, (ref_dtype)t, (ops_kind)kind, &rope_cases[i]);
    rope_case_run(op, REF_F32, EMPTY, &(rope_case){3, {2, 0, 8}, 0, false, false, false, 0, 1, 0, 0});
    rope_case_run(op, REF_F32, EMPTY, &(rope_case){3, {0, 3, 8}, 4, true, false, false, 1, -1, 0, 0});
}

#endif
