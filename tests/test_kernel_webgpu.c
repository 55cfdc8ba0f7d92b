/* test_kernel_webgpu.c - the rows of the kernel table on a WebGPU device, each forced in turn, against
 * f64 loops.
 *
 * Bound of a sum of n products: (n + 4) * eps32 * sum |a||b|, as op.def has it. Where no adapter can be opened
 * every test is skipped (and fails when WEFT_REQUIRE names webgpu). WEFT_TEST_ADAPTER picks the adapter.
 * Compiling a row that shares workgroup memory costs a software adapter 0.5 to 3 s, so each of those runs
 * in the first few cases that it takes; WEFT_TEST_LONG=1 runs all.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel_case.h"
#include "kir_fixture.h"

#define EPS32 5.9604644775390625e-8 /* 2^-24 */

static wf_device *dev;
static weft_stats stats;
static atomic_bool cancel;
static uint32_t next_id = 1;

static bool need_device(void)
{
    const char *want = getenv("WEFT_REQUIRE");
    if (!dev && want && strstr(want, "webgpu"))
        fail_msg("no WebGPU device: %s", weft_error_message());
    if (!dev) {
        print_message("skip: webgpu: no device\n");
        skip();
    }
    return dev != NULL;
}

static int open_device(void **state)
{
    (void)state;
    const char *at = getenv("WEFT_TEST_ADAPTER");
    if (wf_webgpu_open(at ? atoi(at) : -1, NULL, &dev) == WEFT_OK) {
        dev->stats = &stats;
        dev->cancel = &cancel;
    } else {
        dev = NULL;
    }
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    if (dev)
        dev->vt->close(dev);
    return 0;
}

/* May this row run once more? */
static bool spend(const char *op, const char *row)
{
    static const struct { const char *prefix; int runs; } budget[] = {
        {"tile_32", 6}, {"tile_", 1}, {"decode", 3}, {"row", 3}, {"matvec", 4}, {"select", 4}, {"", 1000}};
    static struct { char name[48]; int runs; } spent[64];
    char name[48];
    size_t i = 0, k = 0;
    snprintf(name, sizeof name, "%s:%s", op, row);
    while (i < WF_COUNT(spent) - 1 && spent[i].name[0] && strcmp(spent[i].name, name) != 0)
        i++;
    memcpy(spent[i].name, name, sizeof name);
    while (strncmp(row, budget[k].prefix, strlen(budget[k].prefix)) != 0)
        k++;
    return getenv("WEFT_TEST_LONG") || spent[i].runs++ < budget[k].runs;
}

#define OK(expr) ok((expr), #expr, __LINE__)
static void ok(weft_status st, const char *what, int line)
{
    if (st != WEFT_OK)
        fail_msg("line %d: %s gives %s: %s", line, what, weft_status_name(st), weft_error_message());
}

/* ---- running a choice ---- */
static uint32_t buffer_with(const void *bytes, uint64_t n)
{
    uint32_t id = next_id++;
    n = wf_align_up(n, 16);
    OK(dev->vt->buffer_create(dev, id, n));
    if (bytes)
        OK(dev->vt->write(dev, id, 0, bytes, n));
    return id;
}

/* Runs the launches of a choice; `in` are the request's inputs in order (NULL: a step scalar, whose value
 * is step[0]). Epilogue binding 0 is the output, binding 1 the last input. The output is filled with 0xff
 * bytes before. */
static void run_choice_with(const wf_kernel_choice *c, const operand *const *in, int n_in, uint32_t step_value, const fixture *epi,
                            void *out, size_t n_out)
{
    uint32_t ids[8], progs[WF_MAX_LAUNCHES], step[64] = {step_value}, out_id, scratch_id = 0, step_id, static_id;
    uint64_t sizes[8], padded = wf_align_up(n_out, 16), fence;
    uint8_t *init = malloc(padded), words[WF_MAX_LAUNCHES * WF_STATIC_MAX_BYTES] = {0};
    wf_cmd cmds[WF_MAX_LAUNCHES];
    for (int i = 0; i < n_in; i++)
        if (in[i]) {
            ids[i] = buffer_with(in[i]->bytes, in[i]->n_bytes);
            sizes[i] = wf_align_up(in[i]->n_bytes, 16);
        }
    memset(init, 0xff, padded);
    out_id = buffer_with(init, padded);
    if (c->scratch_bytes)
        scratch_id = buffer_with(NULL, c->scratch_bytes);
    step_id = buffer_with(NULL, WF_STEP_BYTES);
    memset(cmds, 0, sizeof cmds);
    for (int i = 0; i < c->n_launches; i++) {
        const wf_launch *l = &c->launch[i];
        wf_program_desc d = {.kind = l->kind, .label = l->row, .n_bind = l->n_bind, .wgsl = l->wgsl.ptr};
        memcpy(d.access, l->access, sizeof d.access);
        progs[i] = next_id++;
        OK(dev->vt->program_create(dev, progs[i], &d));
        cmds[i] = (wf_cmd){.kind = WF_CMD_DISPATCH, .program = progs[i], .n_bind = l->n_bind,
                           .static_offset = (uint32_t)(i * WF_STATIC_MAX_BYTES), .static_bytes = l->n_static * 4};
        memcpy(words + i * WF_STATIC_MAX_BYTES, l->statics, l->n_static * 4);
        if (epi) {
            memcpy(words + i * WF_STATIC_MAX_BYTES + l->n_static * 4, epi->words, epi->k.n_static * 4);
            cmds[i].static_bytes += epi->k.n_static * 4;
        }
        memcpy(cmds[i].grid, l->grid, sizeof l->grid);
        if (l->indirect_in >= 0) {
            uint32_t *counts = step + 16 + 4 * i;
            memcpy(counts, l->grid, sizeof l->grid);
            counts[l->indirect_axis] = (step_value + (uint32_t)l->indirect_div - 1) / (uint32_t)l->indirect_div;
            cmds[i].indirect = 1 + (uint32_t)((uint8_t *)counts - (uint8_t *)step);
        }
        for (uint32_t b = 0; b < l->n_bind; b++) {
            wf_bind *w = &cmds[i].bind[b];
            if (l->bind[b] >= 0)
                *w = (wf_bind){.buffer = ids[l->bind[b]], .size = sizes[l->bind[b]]};
            else if (l->bind[b] == WF_BIND_EPILOGUE - 1)
                *w = (wf_bind){.buffer = ids[n_in - 1], .size = sizes[n_in - 1]};
            else if (l->bind[b] == WF_BIND_SCRATCH)
                *w = (wf_bind){.buffer = scratch_id, .size = c->scratch_bytes};
            else
                *w = (wf_bind){.buffer = out_id, .size = padded};
        }
    }
    static_id = buffer_with(words, sizeof words);
    wf_cmdlist list = {.key = 0x1000 + next_id, .cmds = cmds, .n_cmds = (uint32_t)c->n_launches, .static_buffer = static_id,
                       .step_buffer = step_id, .step = step, .step_bytes = sizeof step};
    OK(dev->vt->submit(dev, &list, &fence));
    OK(dev->vt->wait(dev, fence, -1));
    OK(dev->vt->read(dev, out_id, 0, init, padded, &fence));
    OK(dev->vt->wait(dev, fence, -1));
    memcpy(out, init, n_out);
    free(init);
    for (int i = 0; i < c->n_launches; i++)
        dev->vt->program_destroy(dev, progs[i]);
    for (int i = 0; i < n_in; i++)
        if (in[i])
            dev->vt->buffer_destroy(dev, ids[i]);
    dev->vt->buffer_destroy(dev, out_id);
    dev->vt->buffer_destroy(dev, step_id);
    dev->vt->buffer_destroy(dev, static_id);
    if (scratch_id)
        dev->vt->buffer_destroy(dev, scratch_id);
}

static void run_choice(const wf_kernel_choice *c, const operand *const *in, int n_in, uint32_t step_value, void *out, size_t n_out)
{
    run_choice_with(c, in, n_in, step_value, NULL, out, n_out);
}

/* Choose a row by name; false when it is not admissible here. */
static bool choose_row(const wf_kernel_req *req, const char *op, const char *row, wf_kernel_choice *c)
{
    char forced[100];
    snprintf(forced, sizeof forced, "%s:%s", op, row);
    setenv("WEFT_KERNEL", forced, 1);
    wf_caps caps = dev->caps;
    weft_status st = wf_kernel_choose(&caps, req, c);
    unsetenv("WEFT_KERNEL");
    if (st == WEFT_OK)
        return true;
    assert_int_equal(st, WEFT_E_UNSUPPORTED);
    return false;
}

/* ---- matrices ---- */
static int64_t numel(const wf_kernel_req *r)
{
    int64_t n = 1;
    for (int i = 0; i < r->out_rank; i++)
        n *= r->out_shape[i];
    return n;
}

static void matrix_reference(const operand *a, const operand *b, const wf_kernel_req *r, bool linear, double *want, double *scale)
{
    int rank = r->out_rank;
    int64_t k_end = a->op.view.shape[a->op.view.rank - 1], n = numel(r), ix[WEFT_MAX_RANK], ia[WEFT_MAX_RANK], ib[WEFT_MAX_RANK];
    for (int64_t o = 0; o < n; o++) {
        int64_t rest = o;
        for (int i = rank - 1; i >= 0; i--) {
            ix[i] = rest % r->out_shape[i];
            rest /= r->out_shape[i];
        }
        want[o] = scale[o] = 0;
        for (int64_t k = 0; k < k_end; k++) {
            memcpy(ia, ix, sizeof ia);
            memcpy(ib, ix, sizeof ib);
            ia[rank - 1] = k;
            if (linear) {
                ib[0] = ix[rank - 1];
                ib[1] = k;
            } else {
                ib[rank - 2] = k;
            }
            double x = value_at(a, rank, ia), y = value_at(b, linear ? 2 : rank, ib);
            want[o] += x * y;
            scale[o] += fabs(x * y);
        }
    }
}

static int run_matrix_rows(const char *op, const operand *a, const operand *b, bool linear, const char *const *names)
{
    wf_kernel_req r = req_matmul(a, b, linear);
    int64_t n = numel(&r), k = a->op.view.shape[a->op.view.rank - 1];
    double *want = malloc((size_t)n * 8), *scale = malloc((size_t)n * 8);
    float *got = malloc((size_t)n * 4);
    int ran = 0;
    matrix_reference(a, b, &r, linear, want, scale);
    for (; *names; names++) {
        wf_kernel_choice c;
        if (!choose_row(&r, op, *names, &c))
            continue;
        ran++;
        if (!spend(strcmp(op, "qlinear") ? "matrix" : op, *names)) {
            choice_free(&c);
            continue;
        }
        run_choice(&c, (const operand *[]){a, b}, 2, 0, got, (size_t)n * 4);
        for (int64_t o = 0; o < n; o++)
            if (!(fabs(got[o] - want[o]) <= (double)(k + 4) * EPS32 * scale[o] + 1e-30))
                fail_msg("%s:%s %s x %s, M %lld N %lld K %lld, element %lld: got %.9g, expected %.9g", op, *names,
                         weft_dtype_name(a->op.dtype), weft_dtype_name(b->op.dtype), (long long)a->op.view.shape[a->op.view.rank - 2],
                         (long long)r.out_shape[r.out_rank - 1], (long long)k, (long long)o, got[o], want[o]);
        choice_free(&c);
    }
    free(want);
    free(scale);
    free(got);
    return ran;
}

#define F32 WEFT_DTYPE_F32
#define F16 WEFT_DTYPE_F16
#define BF16 WEFT_DTYPE_BF16

static const struct matmul_case { int64_t m, n, k; weft_dtype a, b; char sa, sb; bool linear; } matmul_cases[] = {
    {129, 72, 20, F32, F32, 'c', 'c', true},  {31, 63, 31, BF16, F16, 's', 'n', false},
    {64, 64, 32, F32, F32, 'c', 'c', false},  {40, 36, 12, F16, BF16, 't', 'c', false},
    {33, 65, 17, F32, F32, 'c', 'c', false},  {36, 33, 20, F32, F32, 't', 't', false},
    {256, 128, 32, F32, F32, 'c', 'c', false},{33, 40, 24, F16, F16, 'o', 'c', true},
    {2, 7, 40, F32, F32, 'c', 'c', true},     {1, 33, 127, F32, F16, 'c', 'c', true},
    {5, 9, 64, F32, BF16, 'c', 'r', true},    {8, 3, 16, F16, F32, 'o', 'c', true},
    {129, 5, 3, F32, F32, 'n', 's', true},    {3, 17, 8, BF16, F32, 'c', 'c', true},
    {1, 1, 1, F32, F32, 'c', 'c', false},
};

static void matrix_rows_agree_with_f64(void **state)
{
    (void)state;
    if (!need_device())
        return;
    for (size_t i = 0; i < WF_COUNT(matmul_cases); i++) {
        const struct matmul_case *c = &matmul_cases[i];
        int64_t sa[2] = {c->m, c->k}, sb[2] = {c->linear ? c->n : c->k, c->linear ? c->k : c->n};
        operand a = operand_make(c->a, 2, sa, c->sa), b = operand_make(c->b, 2, sb, c->sb);
        assert_true(run_matrix_rows(kernel_rows_of[c->linear][0], &a, &b, c->linear, kernel_rows_of[c->linear] + 1) >= 2);
        operand_free(&a);
        operand_free(&b);
    }
}

static void batches_broadcast_and_merge(void **state)
{
    (void)state;
    if (!need_device())
        return;
    static const char *const rows[] = {"matvec", "matvec_odd", "tile_32x32x16", "plain", NULL};
    int64_t a4[4] = {2, 1, 5, 8}, b4[4] = {2, 3, 8, 9}, b2[2] = {8, 9}, a3[3] = {3, 4, 16}, w[2] = {6, 16};
    operand a = operand_make(F32, 4, a4, 'c'), b = operand_make(F32, 4, b4, 't'), c = operand_make(F32, 2, b2, 'c');
    operand d = operand_make(F16, 4, b4, 'b'), x = operand_make(F32, 3, a3, 's'), y = operand_make(F32, 2, w, 'c');
    assert_int_equal(run_matrix_rows("matmul", &a, &b, false, rows), 4);
    assert_int_equal(run_matrix_rows("matmul", &a, &c, false, rows), 2);
    assert_int_equal(run_matrix_rows("matmul", &a, &d, false, rows), 2);
    assert_int_equal(run_matrix_rows("linear", &x, &y, true, rows), 2);
    operand_free(&x);
    x = operand_make(F32, 3, a3, 'o');
    assert_int_equal(run_matrix_rows("linear", &x, &y, true, rows), 2); /* 12 rows: no matvec */
    operand_free(&x);
    x = operand_make(F32, 3, a3, 'b'); /* rows repeat: a batch in LINEAR */
    assert_int_equal(run_matrix_rows("linear", &x, &y, true, rows), 4);
    operand_free(&a), operand_free(&b), operand_free(&c), operand_free(&d), operand_free(&x), operand_free(&y);
}

static void block_weights_equal_dequantised_ones(void **state)
{
    (void)state;
    if (!need_device())
        return;
    static const struct { int64_t m, n, k; weft_dtype w, x; char sx, sw; } cases[] = {
        {1, 33, 96, WEFT_DTYPE_Q8_0, F32, 'c', 'c'}, {2, 7, 32, WEFT_DTYPE_Q4_0, F32, 's', 'r'},
        {8, 3, 96, WEFT_DTYPE_Q4_1, F32, 'o', 'c'},   {9, 65, 32, WEFT_DTYPE_Q4_0, F32, 'c', 'c'},
        {65, 130, 96, WEFT_DTYPE_Q8_0, F16, 'c', 'r'}, {36, 1, 64, WEFT_DTYPE_Q4_1, F32, 't', 'c'},
        {33, 65, 32, WEFT_DTYPE_Q8_0, BF16, 'n', 'c'},
    };
    for (size_t i = 0; i < WF_COUNT(cases); i++) {
        int64_t sx[2] = {cases[i].m, cases[i].k}, sw[2] = {cases[i].n, cases[i].k};
        operand x = operand_make(cases[i].x, 2, sx, cases[i].sx), w = operand_make(cases[i].w, 2, sw, cases[i].sw);
        assert_true(run_matrix_rows("qlinear", &x, &w, true, kernel_rows_of[2] + 1) >= 2);
        operand_free(&x);
        operand_free(&w);
    }
}

/* relu(x w^T + bias) as f16, [1, M, N]: what the compiler hands over for a fused linear. */
static void fused_bias(fixture *f, int64_t m, int64_t n)
{
    fx_begin(f, 3, 0, (int64_t[]){1, m, n});
    fx_stage(f, WF_KSTAGE_OUTER);
    int out = fx_bind(f, F16, WF_ACCESS_WRITE, true), bias = fx_bind(f, F32, WF_ACCESS_READ, false);
    int in = fx_imm(f, WF_KOP_IN, WF_KTY_F32, -1, 0, 0);
    int b = fx_load(f, bias, fx_affine(f, (int32_t[]){0, 0, 0, 1}));
    int sum = fx_op(f, WF_KOP_ADD, WF_KTY_F32, in, b, -1);
    int relu = fx_op(f, WF_KOP_MAX, WF_KTY_F32, sum, fx_f32(f, 0), -1);
    fx_store(f, out, fx_row_major(f, 3), relu);
}

static void epilogue_gets_each_element_once(void **state)
{
    (void)state;
    if (!need_device())
        return;
    static const weft_dtype weights[2] = {F32, WEFT_DTYPE_Q8_0};
    for (int w = 0; w < 4; w++) {
        int64_t m = w < 2 ? 5 : 35, n = 33, sx[3] = {1, m, 32}, sw[2] = {n, 32}, sb[1] = {n};
        operand x = operand_make(F32, 3, sx, 'c'), y = operand_make(weights[w % 2], 2, sw, 'c'), b = operand_make(F32, 1, sb, 'c');
        wf_kernel_req r = req_matmul(&x, &y, true);
        fixture f;
        fused_bias(&f, m, n);
        r.epilogue = &f.k;
        double want[35 * 33], scale[35 * 33];
        matrix_reference(&x, &y, &r, true, want, scale);
        for (const char *const *row = kernel_rows_of[w % 2 ? 2 : 1] + 1; *row; row++) {
            wf_kernel_choice c;
            uint16_t got[35 * 33];
            if (strncmp(*row, "tile_", 5) == 0 && strncmp(*row, "tile_32", 7) != 0)
                continue;
            if (!choose_row(&r, w % 2 ? "qlinear" : "linear", *row, &c))
                continue;
            run_choice_with(&c, (const operand *[]){&x, &y, &b}, 3, 0, &f, got, sizeof(uint16_t) * (size_t)(m * n));
            for (int64_t i = 0; i < m * n; i++) {
                double v = fmax(want[i] + b.value[i % n], 0);
                if (!(fabs(wf_f16_to_f32(got[i]) - v) <= 4.8828125e-4 * v + 40 * EPS32 * scale[i] + 6e-8))
                    fail_msg("%s w %d element %lld: got %g, expected %g", *row, w, (long long)i, wf_f16_to_f32(got[i]), v);
            }
            choice_free(&c);
        }
        operand_free(&x), operand_free(&y), operand_free(&b);
    }
}

/* ---- attention ---- */
typedef struct sdpa_case {
    int64_t b, hq, hkv, tq, tk, d;
    weft_dtype q, kv, mask; /* mask F64: none */
    char sq, sk;
    bool causal;
    int64_t len;            /* -1: none; else a step scalar */
    int64_t e;              /* width of v; 0: d */
    int left, right;        /* of the window, one more; 0: no bound */
    float softcap;
    bool slopes, sinks;
} sdpa_case;

static int64_t width(const sdpa_case *c) { return c->e ? c->e : c->d; }

static void sdpa_reference(const sdpa_case *c, const operand *q, const operand *k, const operand *v, const operand *mask,
                           const operand *slopes, const operand *sinks, double *want)
{
    int64_t len = c->len < 0 ? c->tk : c->len;
    double *s = malloc((size_t)(c->tk + 1) * 8);
    for (int64_t b = 0; b < c->b; b++)
        for (int64_t t = 0; t < c->tq; t++)
            for (int64_t h = 0; h < c->hq; h++) {
                int64_t hk = h / (c->hq / c->hkv), at = len - c->tq + t, end = c->causal ? at + 1 : len;
                double m = sinks ? value_at(sinks, 1, &h) : -HUGE_VAL, l = 0, sink = m, *o = want + ((b * c->tq + t) * c->hq + h) * width(c);
                for (int64_t j = 0; j < end; j++) {
                    double dot = 0;
                    for (int64_t d = 0; d < c->d; d++)
                        dot += value_at(q, 4, (int64_t[]){b, h, t, d}) * value_at(k, 4, (int64_t[]){b, hk, j, d});
                    s[j] = dot * (double)0.37f;
                    if (c->softcap > 0)
                        s[j] = c->softcap * tanh(s[j] / c->softcap);
                    if (slopes)
                        s[j] += value_at(slopes, 1, &h) * (double)(j - at);
                    if ((c->left && j < at - (c->left - 1)) || (c->right && j > at + (c->right - 1)))
                        s[j] = -HUGE_VAL;
                    if (mask) {
                        double w = value_at(mask, 4, (int64_t[]){b, h, t, j});
                        s[j] = mask->op.dtype == WEFT_DTYPE_BOOL ? (w ? s[j] : -HUGE_VAL) : s[j] + w;
                    }
                    m = fmax(m, s[j]);
                }
                for (int64_t d = 0; d < width(c); d++)
                    o[d] = 0;
                if (end <= 0 || m == -HUGE_VAL)
                    continue;
                l = sinks ? exp(sink - m) : 0;
                for (int64_t j = 0; j < end; j++) {
                    double w = exp(s[j] - m);
                    l += w;
                    for (int64_t d = 0; w != 0 && d < width(c); d++)
                        o[d] += w * value_at(v, 4, (int64_t[]){b, hk, j, d});
                }
                for (int64_t d = 0; d < width(c); d++)
                    o[d] /= l;
            }
    free(s);
}

static float out_value(const void *out, weft_dtype dtype, int64_t i)
{
    const uint16_t *h = out;
    return dtype == F32 ? ((const float *)out)[i] : dtype == F16 ? wf_f16_to_f32(h[i]) : wf_bf16_to_f32(h[i]);
}

static int run_sdpa(const sdpa_case *c)
{
    int64_t sq[4] = {c->b, c->hq, c->tq, c->d}, sk[4] = {c->b, c->hkv, c->tk, c->d}, sm[4] = {c->b, 1, c->tq, c->tk}, sv[4] = {c->b, c->hkv, c->tk, width(c)};
    operand q = operand_make(c->q, 4, sq, c->sq), k = operand_make(c->kv, 4, sk, c->sk), v = operand_make(c->kv, 4, sv, c->sk);
    operand slopes = operand_make(F32, 1, &c->hq, 's'), sinks = operand_make(F32, 1, &c->hq, 'n');
    operand mask, len = {.op = {.dtype = WEFT_DTYPE_I32, .step_slot = 0}};
    bool masked = c->mask != WEFT_DTYPE_F64;
    int64_t n = c->b * c->hq * c->tq * width(c);
    int ran = 0;
    if (masked) {
        mask = operand_make(c->mask, 4, sm, 'c');
        for (int64_t j = 0; j < c->tk; j++) /* the first row attends to nothing */
            set_at(&mask, 4, (int64_t[]){0, 0, 0, j}, c->mask == WEFT_DTYPE_BOOL ? -1 : -HUGE_VAL);
    }
    if (c->len >= 0) /* what lies past the length must not matter */
        for (int64_t j = c->len; j < c->tk; j++) {
            for (int64_t d = 0; d < c->d; d++)
                set_at(&k, 4, (int64_t[]){0, 0, j, d}, NAN);
            for (int64_t d = 0; d < width(c); d++)
                set_at(&v, 4, (int64_t[]){0, 0, j, d}, NAN);
        }
    wf_kernel_req r = req_sdpa(&q, &k, &v, masked ? &mask : NULL, c->causal, c->len >= 0 ? &len : NULL);
    const operand *in[7] = {&q, &k, &v};
    int n_in = 3;
    if (masked)
        in[n_in++] = &mask;
    if (c->len >= 0)
        in[n_in++] = NULL;
    r.out_shape[3] = width(c);
    r.attrs.sdpa.softcap = c->softcap;
    r.attrs.sdpa.has_left = c->left > 0;
    r.attrs.sdpa.left = c->left - 1;
    r.attrs.sdpa.has_right = c->right > 0;
    r.attrs.sdpa.right = c->right - 1;
    r.attrs.sdpa.has_slopes = c->slopes;
    r.attrs.sdpa.has_sinks = c->sinks;
    if (c->slopes) {
        in[n_in++] = &slopes;
        r.in[r.n_in++] = slopes.op;
    }
    if (c->sinks) {
        in[n_in++] = &sinks;
        r.in[r.n_in++] = sinks.op;
    }
    assert_int_equal(n_in, r.n_in);
    double *want = malloc((size_t)n * 8), eps = c->q == F32 ? EPS32 : c->q == F16 ? 4.8828125e-4 : 3.90625e-3;
    void *got = malloc((size_t)n * 4);
    sdpa_reference(c, &q, &k, &v, masked ? &mask : NULL, c->slopes ? &slopes : NULL, c->sinks ? &sinks : NULL, want);
    for (const char *const *row = kernel_rows_of[3] + 1; *row; row++) {
        wf_kernel_choice choice;
        if (!choose_row(&r, "sdpa", *row, &choice))
            continue;
        ran++;
        if (!spend(c->sinks || c->slopes ? "sdpa_more" : "sdpa", *row)) {
            choice_free(&choice);
            continue;
        }
        run_choice(&choice, in, r.n_in, (uint32_t)c->len, got, (size_t)n * (c->q == F32 ? 4 : 2));
        /* (n + 32) eps max|v| (1 + max|s|), |v| <= 1 and |s| <= 0.37 D + 1; halves round once more. */
        double bound = (double)(c->tk + c->d + 32) * EPS32 * (2 + 0.37 * (double)c->d + (c->slopes ? (double)c->tk : 0)) + (c->q == F32 ? 0 : eps);
        for (int64_t i = 0; i < n; i++)
            if (!(fabs(out_value(got, c->q, i) - want[i]) <= bound))
                fail_msg("sdpa:%s case %lld x %lld/%lld x %lld x %lld x %lld len %lld, element %lld: got %.9g, expected %.9g",
                         *row, (long long)c->b, (long long)c->hq, (long long)c->hkv, (long long)c->tq, (long long)c->tk,
                         (long long)c->d, (long long)c->len, (long long)i, out_value(got, c->q, i), want[i]);
        choice_free(&choice);
    }
    free(want);
    free(got);
    operand_free(&q), operand_free(&k), operand_free(&v), operand_free(&slopes), operand_free(&sinks);
    if (masked)
        operand_free(&mask);
    return ran;
}

#define NONE WEFT_DTYPE_F64
static void attention_rows_agree_with_f64(void **state)
{
    (void)state;
    if (!need_device())
        return;
    static const sdpa_case cases[] = {
        {1, 6, 2, 1, 200, 20, F32, F16, NONE, 'c', 'c', true, 129, 0, 0, 0, 0, false, false},
        {2, 4, 2, 33, 65, 8, F32, F16, WEFT_DTYPE_BOOL, 'c', 'c', false, -1, 0, 0, 0, 0, false, false},
        {1, 2, 2, 17, 33, 36, F32, F32, F32, 't', 's', true, -1, 0, 0, 0, 0, false, false},
        {1, 2, 1, 1, 128, 5, BF16, BF16, F32, 'n', 'n', false, 64, 0, 0, 0, 0, false, false},
        {1, 2, 1, 3, 7, 5, F32, F32, NONE, 'c', 'c', true, -1, 0, 0, 0, 0, false, false},
        {1, 1, 1, 9, 4, 64, F16, F16, F16, 'c', 't', true, -1, 0, 0, 0, 0, false, false},
        {1, 2, 1, 1, 128, 8, F32, F32, NONE, 'c', 'c', false, 0, 0, 0, 0, 0, false, false},
        {2, 3, 1, 1, 130, 16, F32, F32, WEFT_DTYPE_BOOL, 'c', 'c', false, -1, 0, 0, 0, 0, false, false},
        {1, 2, 1, 2, 40, 132, F32, F32, NONE, 'c', 'c', true, 33, 0, 0, 0, 0, false, false},
        {.b = 1, .hq = 4, .hkv = 2, .tq = 1, .tk = 300, .d = 12, .q = F32, .kv = F32, .mask = NONE, .sq = 'c', .sk = 'c', .causal = true, .len = 250,
         .left = 31, .sinks = true, .slopes = true, .softcap = 1.5f},
        {.b = 2, .hq = 4, .hkv = 2, .tq = 1, .tk = 200, .d = 9, .e = 14, .q = F32, .kv = F16, .mask = WEFT_DTYPE_BOOL, .sq = 'c', .sk = 's', .len = -1,
         .sinks = true},
        {.b = 2, .hq = 4, .hkv = 2, .tq = 70, .tk = 90, .d = 8, .q = F32, .kv = F32, .mask = F32, .sq = 't', .sk = 'c', .len = -1, .left = 9, .right = 3,
         .slopes = true},
        {.b = 1, .hq = 2, .hkv = 1, .tq = 40, .tk = 33, .d = 5, .e = 40, .q = F16, .kv = F16, .mask = NONE, .sq = 'c', .sk = 'c', .causal = true, .len = -1,
         .left = 17, .sinks = true, .softcap = 0.5f},
        {.b = 1, .hq = 3, .hkv = 3, .tq = 20, .tk = 40, .d = 33, .e = 7, .q = BF16, .kv = F32, .mask = WEFT_DTYPE_BOOL, .sq = 'c', .sk = 'c', .len = 35,
         .right = 2, .sinks = true, .slopes = true, .softcap = 3},
    };
    for (size_t i = 0; i < WF_COUNT(cases); i++)
        assert_true(run_sdpa(&cases[i]) >= (cases[i].tq == 1 ? 3 : 2));
}

static void nan_in_a_key_reaches_only_rows_that_see_it(void **state)
{
    (void)state;
    if (!need_device())
        return;
    int64_t s[4] = {1, 2, 9, 8};
    operand q = operand_make(F32, 4, s, 'c'), k = operand_make(F32, 4, s, 'c'), v = operand_make(F32, 4, s, 'c');
    set_at(&k, 4, (int64_t[]){0, 1, 8, 3}, NAN);
    wf_kernel_req r = req_sdpa(&q, &k, &v, NULL, true, NULL);
    for (const char *const *row = kernel_rows_of[3] + 1; *row; row++) {
        wf_kernel_choice c;
        float got[2 * 9 * 8];
        if (!choose_row(&r, "sdpa", *row, &c))
            continue;
        run_choice(&c, (const operand *[]){&q, &k, &v}, 3, 0, got, sizeof got);
        for (int i = 0; i < 2 * 9 * 8; i++)
            assert_true(isnan(got[i]) == (i / 8 == 8 * 2 + 1));
        choice_free(&c);
    }
    operand_free(&q), operand_free(&k), operand_free(&v);
}

/* ---- top-k ---- */
static bool comes_first(double a, int64_t i, double b, int64_t j)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && (!isnan(b) || i < j);
    return a > b || (a == b && i < j);
}

static void run_topk(weft_dtype dtype, int64_t rows, int64_t n, int64_t k, char style, double ties)
{
    int64_t shape[2] = {rows, n};
    operand x = operand_make(dtype, 2, shape, style);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++)
            set_at(&x, 2, (int64_t[]){r, i}, ties > 0 ? floor(rng_unit() * ties) : dtype == WEFT_DTYPE_I32 ? rng_unit() * 1e9 : rng_unit());
    if (n > 6 && dtype != WEFT_DTYPE_I32) {
        set_at(&x, 2, (int64_t[]){0, 5}, NAN);
        set_at(&x, 2, (int64_t[]){0, 2}, -NAN);
        set_at(&x, 2, (int64_t[]){0, 1}, -HUGE_VAL);
        set_at(&x, 2, (int64_t[]){rows - 1, 3}, HUGE_VAL);
        set_at(&x, 2, (int64_t[]){rows - 1, 4}, -0.0);
    }
    wf_kernel_req req = req_topk(&x, k);
    int32_t *got = malloc((size_t)(rows * k) * 4);
    for (const char *const *row = kernel_rows_of[4] + 1; *row; row++) {
        wf_kernel_choice c;
        if (!choose_row(&req, "topk", *row, &c))
            continue;
        if (!spend("topk", *row)) {
            choice_free(&c);
            continue;
        }
        run_choice(&c, (const operand *[]){&x}, 1, 0, got, (size_t)(rows * k) * 4);
        for (int64_t r = 0; r < rows; r++) {
            bool *used = calloc((size_t)n, 1);
            for (int64_t o = 0; o < k; o++) {
                int64_t best = -1;
                for (int64_t i = 0; i < n; i++)
                    if (!used[i] && (best < 0 || comes_first(value_at(&x, 2, (int64_t[]){r, i}), i, value_at(&x, 2, (int64_t[]){r, best}), best)))
                        best = i;
                used[best] = true;
                if (got[r * k + o] != best)
                    fail_msg("topk:%s %s n %lld k %lld row %lld place %lld: got %d, expected %lld", *row, weft_dtype_name(dtype),
                             (long long)n, (long long)k, (long long)r, (long long)o, got[r * k + o], (long long)best);
            }
            free(used);
        }
        choice_free(&c);
    }
    free(got);
    operand_free(&x);
}

static void topk_rows_order_by_value_then_index(void **state)
{
    (void)state;
    if (!need_device())
        return;
    run_topk(F32, 2, 300, 40, 'c', 0);
    run_topk(F32, 3, 129, 17, 's', 3);
    run_topk(F32, 1, 1000, 7, 'n', 1); /* nearly all equal */
    run_topk(F16, 2, 63, 63, 't', 0);
    run_topk(BF16, 1, 33, 1, 'c', 0);
    run_topk(WEFT_DTYPE_I32, 2, 70, 5, 'c', 0);
    run_topk(F32, 2, 40000, 30, 's', 900); /* blocks */
    run_topk(F32, 1, 70001, 1, 'n', 3);
    run_topk(BF16, 2, 9000, 1500, 'c', 0); /* a sort */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_rows_agree_with_f64),
        cmocka_unit_test(batches_broadcast_and_merge),
        cmocka_unit_test(block_weights_equal_dequantised_ones),
        cmocka_unit_test(epilogue_gets_each_element_once),
        cmocka_unit_test(attention_rows_agree_with_f64),
        cmocka_unit_test(nan_in_a_key_reaches_only_rows_that_see_it),
        cmocka_unit_test(topk_rows_order_by_value_then_index),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
