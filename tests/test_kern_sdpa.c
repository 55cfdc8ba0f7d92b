/* test_kern_sdpa.c - attention on the CPU against a plain f64 loop. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "kern_check.h"

static wf_pool *pools[2];
static int start(void **state)
{
    (void)state;
    return wf_pool_create(1, &pools[0]) != WEFT_OK || wf_pool_create(3, &pools[1]) != WEFT_OK;
}
static int stop(void **state)
{
    (void)state;
    wf_pool_destroy(pools[0]);
    wf_pool_destroy(pools[1]);
    return 0;
}

typedef struct problem {
    int64_t b, hq, hkv, tq, tk, d;
    int lie;
    bool causal;
    int mask;      /* 0 none, 1 bool, 2 float */
    int64_t len;   /* -1: Tk; else a step scalar */
    bool len_bound; /* kv_len as an i32 tensor */
    weft_dtype kv;
    int64_t e;          /* width of v; 0: d */
    int left, right;    /* of the window, one more; 0: no bound */
    float softcap;
    bool slopes, sinks;
} problem;

static int64_t width(const problem *p) { return p->e ? p->e : p->d; }

static int64_t at4(const wf_view *v, int64_t b, int64_t h, int64_t t, int64_t d)
{
    return v->offset + b * v->strides[0] + h * v->strides[1] + t * v->strides[2] + d * v->strides[3];
}

/* out [B, Tq, Hq, E]. The caller may have changed the operands; slopes and sinks, one a head, are there or NULL. */
static void compare(const problem *p, const operand *q, const operand *k, const operand *v, const operand *mask, const float *slopes,
                    const float *sinks, const float *out)
{
    const int64_t len = p->len < 0 ? p->tk : p->len > p->tk ? p->tk : p->len;
    double *w = malloc((size_t)(p->tk + 1) * 8);
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->hq; h++)
            for (int64_t t = 0; t < p->tq; t++) {
                double most = sinks ? (double)sinks[h] : -INFINITY, sum = 0, size = sinks && isfinite(sinks[h]) ? fabs((double)sinks[h]) : 0, vmax = 0;
                const int64_t at = len - p->tq + t;
                for (int64_t j = 0; j < len; j++) {
                    double s = 0;
                    for (int64_t d = 0; d < p->d; d++)
                        s += get_value(q->data, q->op.dtype, at4(&q->op.view, b, h, t, d)) *
                             get_value(k->data, p->kv, at4(&k->op.view, b, h / (p->hq / p->hkv), j, d));
                    s /= sqrt((double)p->d);
                    double reach = fabs(s);
                    if (p->softcap > 0)
                        s = p->softcap * tanh(s / p->softcap);
                    if (slopes) {
                        s += (double)slopes[h] * (double)(j - at);
                        reach += fabs((double)slopes[h] * (double)(j - at));
                    }
                    if (mask) {
                        const double m = get_value(mask->data, mask->op.dtype, at4(&mask->op.view, 0, mask->op.view.shape[1] == 1 ? 0 : h, t, j));
                        s = p->mask == 2 ? s + m : m != 0 ? s : -INFINITY;
                    }
                    if ((p->causal && j > at) || (p->left && j < at - (p->left - 1)) || (p->right && j > at + (p->right - 1)))
                        s = -INFINITY;
                    w[j] = s;
                    size = isfinite(s) ? fmax(size, fmax(reach, fabs(s))) : size;
                    most = fmax(most, s);
                }
                for (int64_t j = 0; j < len; j++) {
                    w[j] = most == -INFINITY ? 0 : exp(w[j] - most);
                    sum += w[j];
                }
                sum += sinks && isfinite(sinks[h]) ? exp((double)sinks[h] - most) : 0;
                for (int64_t d = 0; d < width(p); d++) {
                    double o = 0;
                    for (int64_t j = 0; j < len; j++)
                        if (w[j] != 0) {
                            const double x = get_value(v->data, p->kv, at4(&v->op.view, b, h / (p->hq / p->hkv), j, d));
                            o += w[j] * x;
                            vmax = fmax(vmax, fabs(x));
                        }
                    o = sum == 0 ? 0 : o / sum;
                    const double bound = ((double)(p->d + len) + 32) * 6e-8 * vmax * (1 + size);
                    const float got = out[((b * p->tq + t) * p->hq + h) * width(p) + d];
                    if (!(fabs(got - o) <= bound))
                        fail_msg("b %lld h %lld t %lld d %lld: %.9g, expected %.9g +- %.2g (Tq %lld Tk %lld D %lld len %lld mask %d causal %d left %d right %d softcap %g)",
                                 (long long)b, (long long)h, (long long)t, (long long)d, got, o, bound, (long long)p->tq, (long long)p->tk,
                                 (long long)p->d, (long long)len, p->mask, p->causal, p->left, p->right, (double)p->softcap);
                }
            }
    free(w);
}

typedef struct built {
    operand q, k, v, mask;
    wf_kernel_req req;
    void *in[8];
    size_t in_bytes[8];
    uint32_t step[8];
    int32_t len[3];
    float slopes[16], sinks[16];
} built;

static void build(const problem *p, built *t)
{
    const int64_t qs[4] = {p->b, p->hq, p->tq, p->d}, ks[4] = {p->b, p->hkv, p->tk, p->d}, vs[4] = {p->b, p->hkv, p->tk, width(p)},
                  ms[4] = {1, p->mask == 1 ? p->hq : 1, p->tq, p->tk};
    memset(t, 0, sizeof *t);
    t->q = make_operand(WEFT_DTYPE_F32, 4, qs, p->lie);
    t->k = make_operand(p->kv, 4, ks, p->lie);
    t->v = make_operand(p->kv, 4, vs, p->lie);
    t->req = (wf_kernel_req){.op = WF_OP_SDPA, .n_in = 3, .in = {t->q.op, t->k.op, t->v.op}, .out_rank = 4};
    memcpy(t->req.out_shape, qs, sizeof qs);
    t->req.attrs.sdpa.scale = 1.0f / sqrtf((float)p->d);
    t->req.attrs.sdpa.causal = p->causal;
    t->req.out_shape[3] = width(p);
    t->req.attrs.sdpa.softcap = p->softcap;
    t->req.attrs.sdpa.has_left = p->left > 0;
    t->req.attrs.sdpa.left = p->left - 1;
    t->req.attrs.sdpa.has_right = p->right > 0;
    t->req.attrs.sdpa.right = p->right - 1;
    for (int i = 0; i < 3; i++) {
        operand *o = i == 0 ? &t->q : i == 1 ? &t->k : &t->v;
        t->in[i] = o->data;
        t->in_bytes[i] = o->bytes;
    }
    if (p->mask) {
        t->mask = make_operand(p->mask == 1 ? WEFT_DTYPE_BOOL : WEFT_DTYPE_F32, 4, ms, LIE_SLICED);
        for (int64_t i = 0; i < t->mask.op.numel; i++)
            put_value(t->mask.data, t->mask.op.dtype, i, p->mask == 1 ? (double)pick(2) : pick(4) ? rng_float() : -INFINITY);
        t->req.attrs.sdpa.has_mask = 1;
        t->in[t->req.n_in] = t->mask.data;
        t->in_bytes[t->req.n_in] = t->mask.bytes;
        t->req.in[t->req.n_in++] = t->mask.op;
    }
    if (p->len >= 0) {
        t->step[5] = (uint32_t)p->len;
        t->len[2] = (int32_t)p->len;
        t->req.attrs.sdpa.has_kv_len = 1;
        t->in[t->req.n_in] = t->len;
        t->in_bytes[t->req.n_in] = sizeof t->len;
        t->req.in[t->req.n_in++] = (wf_operand){.dtype = WEFT_DTYPE_I32, .numel = 3, .step_slot = p->len_bound ? -1 : 5, .view = {.offset = 2}};
    }
    t->req.attrs.sdpa.has_slopes = p->slopes;
    t->req.attrs.sdpa.has_sinks = p->sinks;
    for (int i = 0; i < 2; i++) {
        float *x = i ? t->sinks : t->slopes; /* head h at 15 - h: seen backwards */
        for (int h = 0; h < 16; h++)
            x[15 - h] = i ? (pick(5) ? 2 * rng_float() : -INFINITY) : 0.25f * rng_float();
        if (i ? !p->sinks : !p->slopes)
            continue;
        t->in[t->req.n_in] = x;
        t->in_bytes[t->req.n_in] = sizeof t->sinks;
        t->req.in[t->req.n_in++] = (wf_operand){.dtype = WEFT_DTYPE_F32, .numel = 16, .step_slot = -1,
                                                .view = {.rank = 1, .shape = {p->hq}, .strides = {-1}, .offset = 15}};
    }
}
/* Head h of slopes or sinks. */
static const float *by_head(const float x[16], float out[16])
{
    for (int h = 0; h < 16; h++)
        out[h] = x[15 - h];
    return out;
}
static void drop(built *t)
{
    free(t->q.data);
    free(t->k.data);
    free(t->v.data);
    free(t->mask.data);
}
static float *run_built(const problem *p, built *t)
{
    const size_t bytes = (size_t)(p->b * p->hq * p->tq * width(p)) * 4;
    float *out[2];
    for (int i = 0; i < 2; i++) {
        out[i] = malloc(bytes + GUARD);
        assert_non_null(out[i]);
        if (run_request(&t->req, t->in, t->in_bytes, out[i], bytes, t->step, pools[i], NULL) != WEFT_OK)
            fail_msg("%s", weft_error_message());
    }
    assert_memory_equal(out[0], out[1], bytes);
    free(out[1]);
    return out[0];
}
static void check(const problem *p)
{
    built t;
    build(p, &t);
    float *out = run_built(p, &t);
    float slopes[16], sinks[16];
    compare(p, &t.q, &t.k, &t.v, p->mask ? &t.mask : NULL, p->slopes ? by_head(t.slopes, slopes) : NULL,
            p->sinks ? by_head(t.sinks, sinks) : NULL, out);
    free(out);
    drop(&t);
}

static void every_shape_mask_and_layout_matches_f64(void **state)
{
    (void)state;
    static const int64_t shapes[][6] = {{1, 1, 1, 1, 1, 1},   {2, 4, 2, 1, 7, 5},    {1, 6, 2, 3, 300, 8},  {1, 2, 1, 30, 30, 16}, {2, 3, 3, 50, 70, 5},
                                        {1, 4, 1, 97, 130, 33}, {1, 8, 2, 1, 600, 64}, {1, 2, 2, 20, 9, 4}, {1, 1, 1, 17, 64, 1},  {1, 1, 1, 3, 0, 4}};
    for (size_t s = 0; s < WF_COUNT(shapes); s++)
        for (int v = 0; v < 24; v++) {
            const int64_t *n = shapes[s];
            const problem p = {n[0], n[1], n[2], n[3], n[4], n[5], (int)pick(LIE_BROADCAST), v % 2 != 0, v / 2 % 3,
                               v / 6 % 2 ? pick(n[4] + 2) : -1, v >= 12, (weft_dtype)pick(3), 0, 0, 0, 0, false, false};
            check(&p);
        }
}

static void windows_softcap_slopes_and_sinks_match_f64(void **state)
{
    (void)state;
    static const int64_t shapes[][7] = {{1, 1, 1, 1, 1, 1, 1},      {2, 4, 2, 1, 7, 5, 3},       {1, 6, 2, 3, 600, 8, 12}, {1, 2, 1, 70, 30, 16, 16},
                                        {2, 3, 3, 50, 170, 5, 33},  {1, 4, 1, 97, 130, 33, 5},   {1, 8, 2, 1, 1100, 64, 64}, {1, 2, 2, 200, 300, 7, 2}};
    static const int windows[][2] = {{0, 0}, {1, 1}, {4, 1}, {20, 0}, {0, 8}, {300, 300}, {3, 90}};
    for (size_t s = 0; s < WF_COUNT(shapes); s++)
        for (int v = 0; v < 28; v++) {
            const int64_t *n = shapes[s];
            const problem p = {.b = n[0], .hq = n[1], .hkv = n[2], .tq = n[3], .tk = n[4], .d = n[5], .e = n[6], .lie = (int)pick(LIE_BROADCAST),
                               .causal = v % 2 != 0, .mask = (int)pick(3), .len = pick(3) ? -1 : pick(n[4] + 2), .len_bound = pick(2) != 0,
                               .kv = (weft_dtype)pick(3), .left = windows[v % 7][0], .right = windows[v % 7][1],
                               .softcap = pick(2) ? 0.5f + fabsf(rng_float()) : 0, .slopes = pick(2) != 0, .sinks = pick(2) != 0};
            check(&p);
        }
}

/* What a window hides may hold anything: the keys outside it are not even read. */
static void keys_outside_every_window_are_not_read(void **state)
{
    (void)state;
    for (int64_t tq = 1; tq <= 40; tq += 39) {
        const problem p = {.b = 1, .hq = 2, .hkv = 1, .tq = tq, .tk = 500, .d = 8, .len = -1, .causal = true, .left = 11};
        built t;
        build(&p, &t);
        for (int64_t i = 0; i < (500 - tq - 10) * 8; i++)
            ((float *)t.k.data)[i] = ((float *)t.v.data)[i] = NAN;
        float *out = run_built(&p, &t);
        compare(&p, &t.q, &t.k, &t.v, NULL, NULL, NULL, out);
        free(out);
        drop(&t);
    }
}

static void grouped_heads_share_keys(void **state)
{
    (void)state;
    const problem p = {.b = 1, .hq = 4, .hkv = 2, .tq = 1, .tk = 1, .d = 3, .len = -1};
    built t;
    build(&p, &t);
    for (int i = 0; i < 6; i++)
        ((float *)t.v.data)[i] = i < 3 ? 1 : 2;
    float *out = run_built(&p, &t);
    for (int i = 0; i < 12; i++)
        assert_true(out[i] == (i < 6 ? 1.0f : 2.0f));
    free(out);
    drop(&t);
}

static void fully_masked_rows_are_zeros(void **state)
{
    (void)state;
    for (int64_t tq = 5; tq < 100; tq += 45)
        for (int mask = 1; mask <= 2; mask++) {
            const problem p = {.b = 1, .hq = 2, .hkv = 2, .tq = tq, .tk = 70, .d = 5, .len = -1, .mask = mask};
            built t;
            build(&p, &t);
            for (int64_t i = 0; i < t.mask.op.numel; i++)
                put_value(t.mask.data, t.mask.op.dtype, i, mask == 1 ? 0 : -INFINITY);
            float *out = run_built(&p, &t);
            for (int64_t i = 0; i < 2 * tq * 5; i++)
                assert_true(out[i] == 0);
            free(out);
            drop(&t);
        }
}

static void nan_reaches_the_rows_that_attend_to_it_alone(void **state)
{
    (void)state;
    for (int64_t tq = 4; tq <= 40; tq += 36)
        for (int where = 0; where < 3; where++) {
            const problem p = {.b = 1, .hq = 1, .hkv = 1, .tq = tq, .tk = tq, .d = 4, .len = -1, .causal = true};
            built t;
            build(&p, &t);
            operand *o = where == 0 ? &t.q : where == 1 ? &t.k : &t.v;
            ((float *)o->data)[2 * 4 + 1] = NAN;
            float *out = run_built(&p, &t);
            for (int64_t i = 0; i < tq; i++) {
                const bool hit = where == 0 ? i == 2 : i >= 2;
                assert_true(isnan(out[i * 4 + 1]) == hit);
            }
            free(out);
            drop(&t);
        }
}

static void keys_past_kv_len_are_not_read(void **state)
{
    (void)state;
    for (int64_t tq = 1; tq <= 41; tq += 40) {
        const problem p = {.b = 1, .hq = 2, .hkv = 1, .tq = tq, .tk = 100, .d = 8, .len = 61, .causal = true};
        built t;
        build(&p, &t);
        for (int i = 61 * 8; i < 100 * 8; i++)
            ((float *)t.k.data)[i] = ((float *)t.v.data)[i] = NAN;
        float *out = run_built(&p, &t);
        compare(&p, &t.q, &t.k, &t.v, NULL, NULL, NULL, out);
        free(out);
        drop(&t);
    }
}

static void large_scores_do_not_overflow(void **state)
{
    (void)state;
    for (int64_t tq = 1; tq <= 20; tq += 19) {
        const problem p = {.b = 1, .hq = 1, .hkv = 1, .tq = tq, .tk = 64, .d = 4, .len = -1};
        built t;
        build(&p, &t);
        for (int64_t i = 0; i < t.q.op.numel; i++)
            ((float *)t.q.data)[i] *= 3000;
        float *out = run_built(&p, &t);
        for (int64_t i = 0; i < tq * 4; i++)
            assert_true(isfinite(out[i]) && fabsf(out[i]) <= 1.0f);
        free(out);
        drop(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_mask_and_layout_matches_f64),
        cmocka_unit_test(windows_softcap_slopes_and_sinks_match_f64),
        cmocka_unit_test(keys_outside_every_window_are_not_read),
        cmocka_unit_test(grouped_heads_share_keys),
        cmocka_unit_test(fully_masked_rows_are_zeros),
        cmocka_unit_test(nan_reaches_the_rows_that_attend_to_it_alone),
        cmocka_unit_test(keys_past_kv_len_are_not_read),
        cmocka_unit_test(large_scores_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
