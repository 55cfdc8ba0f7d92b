/* test_kern_matmul.c - matrix rows of the CPU against a plain f64 loop, on any strides, dtypes and rows. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "kern_check.h"
#include "kern.h"
#include "kir_fixture.h"

static wf_pool *pools[3];
static const int pool_threads[3] = {1, 2, 3};

static int start(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        if (wf_pool_create(pool_threads[i], &pools[i]) != WEFT_OK)
            return -1;
    return 0;
}
static int stop(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        wf_pool_destroy(pools[i]);
    return 0;
}

typedef struct problem {
    int rank;
    int64_t batch[3], m, n, k;
    weft_dtype a, b, out;
    int lie_a, lie_b;
    bool linear; /* b is [n, k] */
} problem;

static int64_t element(const wf_view *v, const int64_t *at)
{
    int64_t i = v->offset;
    for (int d = 0; d < v->rank; d++)
        i += (v->shape[d] == 1 ? 0 : at[d]) * v->strides[d];
    return i;
}

/* Runs a problem on 1, 2 and 3 threads: equal bits, within the bound of op.def. */
static void check(const problem *p)
{
    int64_t sa[5], sb[5], so[5];
    const int lead = p->rank - 2;
    int64_t batches = 1;
    for (int i = 0; i < lead; i++) {
        sa[i] = sb[i] = so[i] = p->batch[i];
        batches *= p->batch[i];
    }
    sa[lead] = so[lead] = p->m;
    sa[lead + 1] = p->k;
    so[lead + 1] = p->n;
    sb[lead] = p->linear ? p->n : p->k;
    sb[lead + 1] = p->linear ? p->k : p->n;
    operand a = make_operand(p->a, p->rank, sa, p->lie_a);
    operand b = p->linear ? make_operand(p->b, 2, sb + lead, p->lie_b) : make_operand(p->b, p->rank, sb, p->lie_b);
    wf_kernel_req req = {.op = p->linear ? WF_OP_LINEAR : WF_OP_MATMUL, .n_in = 2, .in = {a.op, b.op}, .out_dtype = p->out,
                         .out_rank = p->rank};
    memcpy(req.out_shape, so, sizeof so);
    const int64_t count = batches * p->m * p->n;
    const size_t bytes = (size_t)count * float_bytes(p->out);
    void *in[2] = {a.data, b.data}, *out[3];
    const size_t in_bytes[2] = {a.bytes, b.bytes};
    const char *row = "";
    for (int t = 0; t < 3; t++) {
        out[t] = malloc(bytes + GUARD);
        assert_non_null(out[t]);
        const weft_status st = run_request(&req, in, in_bytes, out[t], bytes, NULL, pools[t], &row);
        if (st != WEFT_OK)
            fail_msg("%s: %s", row, weft_error_message());
        if (memcmp(out[0], out[t], bytes) != 0)
            fail_msg("%s: bits differ between 1 and %d threads, %lld x %lld x %lld", row, pool_threads[t], (long long)p->m,
                     (long long)p->n, (long long)p->k);
    }
    const double eps = p->a == WEFT_DTYPE_F64 ? 1.2e-16 : 6e-8;
    const double out_eps = p->out == WEFT_DTYPE_F16 ? 4.9e-4 : p->out == WEFT_DTYPE_BF16 ? 3.9e-3 : 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t at_a[5], at_b[5], rest = i / p->n / p->m;
        for (int d = lead - 1; d >= 0; d--) {
            at_a[d] = at_b[d] = rest % p->batch[d];
            rest /= p->batch[d];
        }
        at_a[lead] = i / p->n % p->m;
        double sum = 0, size = 0;
        for (int64_t k = 0; k < p->k; k++) {
            at_a[lead + 1] = k;
            at_b[lead] = p->linear ? i % p->n : k;
            at_b[lead + 1] = p->linear ? k : i % p->n;
            const double x = get_value(a.data, p->a, element(&a.op.view, at_a)) *
                             get_value(b.data, p->b, element(&b.op.view, p->linear ? at_b + lead : at_b));
            sum += x;
            size += fabs(x);
        }
        const double got = get_value(out[0], p->out, i), bound = ((double)p->k + 2) * eps * size + out_eps * fabs(sum) + (p->out == WEFT_DTYPE_F16 ? 0x1p-25 : 0);
        if (!(fabs(got - sum) <= bound))
            fail_msg("%s: %lld x %lld x %lld, element %lld: %.9g, expected %.9g +- %.3g (layouts %d %d, dtypes %d %d %d)", row,
                     (long long)p->m, (long long)p->n, (long long)p->k, (long long)i, got, sum, bound, p->lie_a, p->lie_b, p->a, p->b,
                     p->out);
    }
    for (int t = 0; t < 3; t++)
        free(out[t]);
    free(a.data);
    free(b.data);
}

static const int64_t sizes[][3] = {{1, 1, 1},  {1, 7, 5},   {7, 1, 33},  {3, 5, 0},    {0, 4, 3},   {2, 9, 17},   {8, 33, 65}, {9, 16, 96},
                                   {6, 16, 8}, {13, 31, 7}, {65, 33, 19}, {1, 600, 40}, {97, 257, 3}, {5, 3, 1030}, {4, 4, 300}};

static void every_layout_and_dtype_matches_f64(void **state)
{
    (void)state;
    for (size_t s = 0; s < WF_COUNT(sizes); s++)
        for (int lie = 0; lie < LIE_COUNT * LIE_COUNT; lie++)
            for (int mix = 0; mix < 3; mix++) {
                const problem p = {.rank = 3, .batch = {1 + (lie + mix) % 3}, .m = sizes[s][0], .n = sizes[s][1], .k = sizes[s][2],
                                   .a = (weft_dtype)pick(3), .b = (weft_dtype)pick(3), .out = (weft_dtype)pick(3),
                                   .lie_a = lie / LIE_COUNT, .lie_b = lie % LIE_COUNT};
                check(&p);
            }
}

static void linear_takes_rows_that_do_not_merge(void **state)
{
    (void)state;
    for (size_t s = 0; s < WF_COUNT(sizes); s++)
        for (int lie = 0; lie < LIE_COUNT; lie++) {
            const problem p = {.rank = 4, .batch = {2, 3}, .m = sizes[s][0], .n = sizes[s][1], .k = sizes[s][2], .linear = true,
                               .b = (weft_dtype)pick(3), .lie_a = lie, .lie_b = (int)pick(LIE_BROADCAST)};
            check(&p);
        }
}

static void f64_is_summed_in_f64(void **state)
{
    (void)state;
    for (size_t s = 0; s < WF_COUNT(sizes); s++) {
        const problem p = {.rank = 3, .batch = {2}, .m = sizes[s][0], .n = sizes[s][1], .k = sizes[s][2], .a = WEFT_DTYPE_F64,
                           .b = WEFT_DTYPE_F64, .out = WEFT_DTYPE_F64, .lie_a = (int)pick(LIE_COUNT), .lie_b = (int)pick(LIE_COUNT)};
        check(&p);
    }
}

static void every_row_that_fits_can_be_forced(void **state)
{
    (void)state;
    static const char *const rows[] = {"matmul:matmul_packed", "matmul:matmul_plain", "matmul:matmul_vec"};
    for (size_t i = 0; i < WF_COUNT(rows); i++) {
        setenv("WEFT_KERNEL", rows[i], 1);
        for (int lie = 0; lie < LIE_COUNT; lie++) {
            const problem p = {.rank = 3, .batch = {2}, .m = 4, .n = 40, .k = 70, .lie_a = lie, .lie_b = LIE_ROWS};
            check(&p);
        }
    }
    const int64_t shape[2] = {20, 20};
    operand a = make_operand(WEFT_DTYPE_F32, 2, shape, LIE_ROWS);
    const wf_kernel_req req = {.op = WF_OP_MATMUL, .n_in = 2, .in = {a.op, a.op}, .out_rank = 2, .out_shape = {20, 20}};
    wf_kernel_choice c;
    const wf_caps caps = cpu_caps(2);
    assert_int_equal(wf_kernel_choose_cpu(&caps, &req, &c), WEFT_E_UNSUPPORTED);
    assert_non_null(strstr(weft_error_message(), "matmul_vec"));
    setenv("WEFT_KERNEL", "matmul:matmul_plain,matmul:none_such", 1); /* the last counts */
    assert_int_equal(wf_kernel_choose_cpu(&caps, &req, &c), WEFT_E_UNSUPPORTED);
    unsetenv("WEFT_KERNEL");
    free(a.data);
}

static void large_panels_and_long_k_match(void **state)
{
    (void)state;
    const problem p[] = {
        {.rank = 2, .m = 200, .n = 530, .k = 700},
        {.rank = 2, .m = 10, .n = 40, .k = 9000, .out = WEFT_DTYPE_F16},          /* K in chunks, sums kept */
        {.rank = 2, .m = 101, .n = 300, .k = 8200, .a = WEFT_DTYPE_F16},          /* K in chunks, sums in the output */
        {.rank = 2, .m = 1, .n = 1000, .k = 5000, .lie_b = LIE_ROWS},             /* K split among parts */
        {.rank = 2, .m = 3, .n = 100, .k = 5000, .lie_b = LIE_TURNED, .b = WEFT_DTYPE_BF16},
        {.rank = 3, .batch = {40}, .m = 30, .n = 20, .k = 10},
    };
    for (size_t i = 0; i < WF_COUNT(p); i++)
        check(&p[i]);
}

static void sixty_five_thousand_tiny_matrices(void **state)
{
    (void)state;
    const problem p = {.rank = 3, .batch = {65536}, .m = 1, .n = 1, .k = 1};
    check(&p);
}

static void f16_products_accumulate_in_f32(void **state)
{
    (void)state;
    for (int m = 1; m <= 9; m += 8) {
        const int64_t sa[2] = {m, 4096}, sb[2] = {4096, 3};
        operand a = make_operand(WEFT_DTYPE_F16, 2, sa, LIE_ROWS), b = make_operand(WEFT_DTYPE_F16, 2, sb, LIE_ROWS);
        for (int64_t i = 0; i < a.op.numel; i++)
            put_value(a.data, WEFT_DTYPE_F16, i, 16);
        for (int64_t i = 0; i < b.op.numel; i++)
            put_value(b.data, WEFT_DTYPE_F16, i, 16);
        const wf_kernel_req req = {.op = WF_OP_MATMUL, .n_in = 2, .in = {a.op, b.op}, .out_rank = 2, .out_shape = {m, 3}};
        void *in[2] = {a.data, b.data};
        const size_t in_bytes[2] = {a.bytes, b.bytes};
        float out[27 + GUARD];
        assert_int_equal(run_request(&req, in, in_bytes, out, (size_t)m * 12, NULL, pools[1], NULL), WEFT_OK);
        for (int i = 0; i < m * 3; i++)
            assert_true(out[i] == 1048576.0f);
        free(a.data);
        free(b.data);
    }
}

static void nan_and_infinity_pass_on(void **state)
{
    (void)state;
    for (int m = 1; m <= 12; m += 11) {
        const int64_t sa[2] = {m, 40}, sb[2] = {40, 24};
        operand a = make_operand(WEFT_DTYPE_F32, 2, sa, LIE_ROWS), b = make_operand(WEFT_DTYPE_F32, 2, sb, LIE_ROWS);
        ((float *)b.data)[39 * 24 + 23] = NAN;
        ((float *)b.data)[39 * 24 + 22] = INFINITY;
        const wf_kernel_req req = {.op = WF_OP_MATMUL, .n_in = 2, .in = {a.op, b.op}, .out_rank = 2, .out_shape = {m, 24}};
        void *in[2] = {a.data, b.data};
        const size_t in_bytes[2] = {a.bytes, b.bytes};
        float out[12 * 24 + GUARD];
        assert_int_equal(run_request(&req, in, in_bytes, out, (size_t)m * 96, NULL, pools[1], NULL), WEFT_OK);
        for (int i = 0; i < m; i++)
            assert_true(isnan(out[i * 24 + 23]) && isinf(out[i * 24 + 22]) && isfinite(out[i * 24 + 21]));
        free(a.data);
        free(b.data);
    }
}

static void an_operand_outside_its_binding_is_refused(void **state)
{
    (void)state;
    const int64_t s[2] = {20, 20};
    operand a = make_operand(WEFT_DTYPE_F32, 2, s, LIE_ROWS);
    const wf_kernel_req req = {.op = WF_OP_MATMUL, .n_in = 2, .in = {a.op, a.op}, .out_rank = 2, .out_shape = {20, 20}};
    void *in[2] = {a.data, a.data};
    const size_t in_bytes[2] = {a.bytes, a.bytes - 4};
    float out[400 + GUARD];
    assert_int_equal(run_request(&req, in, in_bytes, out, 1600, NULL, pools[0], NULL), WEFT_E_INTERNAL);
    const size_t right[2] = {a.bytes, a.bytes};
    assert_int_equal(run_request(&req, in, right, out, 1596, NULL, pools[0], NULL), WEFT_E_INTERNAL);
    free(a.data);
}

static void each_instruction_set_agrees_with_plain(void **state)
{
    (void)state;
    const wf_kern_isa *plain = &wf_kern_isa_plain;
    for (int s = 0; wf_kern_isa_name(s); s++) {
        const wf_kern_isa *isa = wf_kern_isa_find(wf_kern_isa_name(s));
        if (!isa)
            continue;
        float x[8 * 100], f[2][100];
        uint16_t h[8 * 100], g[2][100];
        for (int i = 0; i < 800; i++) {
            x[i] = rng_float() * powf(2.0f, (float)pick(40) - 26);
            h[i] = (uint16_t)rng();
        }
        for (int t = 0; t < 3; t++) {
            isa->widen[t](t ? (void *)h : (void *)x, f[0], 77);
            plain->widen[t](t ? (void *)h : (void *)x, f[1], 77);
            for (int i = 0; i < 77; i++)
                assert_true(memcmp(&f[0][i], &f[1][i], 4) == 0 || (isnan(f[0][i]) && isnan(f[1][i])));
            isa->narrow[t](x, t ? (void *)g[0] : (void *)f[0], 77);
            plain->narrow[t](x, t ? (void *)g[1] : (void *)f[1], 77);
            assert_memory_equal(t ? (void *)g[0] : (void *)f[0], t ? (void *)g[1] : (void *)f[1], t ? 77 * 2 : 77 * 4);
        }
        for (int i = 0; i < 800; i++)
            x[i] = rng_float();
        isa->narrow[1](x, h, 800);
        for (int at = 0; at < 8 * 6; at++)
            for (int n = 1; n < 100; n += 7) {
                const int rows = at % 8 + 1, nx = at / 8 + 1;
                float acc[2][600] = {{0}};
                isa->axpy[1](h, 100, rows, x, 9, nx, n, acc[0], 100);
                plain->axpy[1](h, 100, rows, x, 9, nx, n, acc[1], 100);
                for (int i = 0; i < 600; i++)
                    assert_true(fabsf(acc[0][i] - acc[1][i]) < 1e-5f && (i % 100 < n || acc[0][i] == 0));
            }
        for (int n = 0; n < 100; n += 9) {
            float p[2][100], sum[2];
            for (int i = 0; i < n; i++)
                p[0][i] = p[1][i] = i == 3 ? -INFINITY : -90.0f * (float)(rng() & 1023) / 1024.0f;
            assert_true(isa->max_row(p[0], n, -INFINITY) == plain->max_row(p[1], n, -INFINITY));
            sum[0] = isa->exp_row(p[0], n, 0.0f);
            for (int i = 0; i < n; i++)
                assert_true(i == 3 ? p[0][i] == 0 : fabs(p[0][i] - exp((double)p[1][i])) <= 2e-7 * exp((double)p[1][i]) + 2e-38);
            sum[1] = plain->exp_row(p[1], n, 0.0f);
            assert_true(fabsf(sum[0] - sum[1]) <= 1e-5f * sum[1]);
        }
    }
}

static weft_status dispatched(wf_device *d, const wf_program_desc *desc, uint32_t n_bind, uint32_t static_bytes)
{
    uint64_t fence = 0;
    wf_cmd cmd = {.kind = WF_CMD_DISPATCH, .program = 1, .n_bind = n_bind, .static_bytes = static_bytes};
    for (uint32_t i = 0; i < n_bind; i++)
        cmd.bind[i] = (wf_bind){.buffer = 1, .size = 1024};
    assert_int_equal(d->vt->program_create(d, 1, desc), WEFT_OK);
    assert_int_equal(d->vt->submit(d, &(wf_cmdlist){.cmds = &cmd, .n_cmds = 1, .static_buffer = 1}, &fence), WEFT_OK);
    d->vt->program_destroy(d, 1);
    return d->vt->wait(d, fence, -1);
}

/* Small integers are exact, so every order of sums gives the same bits: what is tested is that no row, column or k is lost. */
static void microkernels_add_every_k_to_what_was_there(void **state)
{
    (void)state;
    static float a[100 * WF_KERN_MAX_MR], b[100 * WF_KERN_MAX_NR], from[WF_KERN_MAX_MR * 40], to[WF_KERN_MAX_MR * 48];
    for (size_t i = 0; i < WF_COUNT(a); i++)
        a[i] = (float)pick(9) - 4;
    for (size_t i = 0; i < WF_COUNT(b); i++)
        b[i] = (float)pick(9) - 4;
    for (size_t i = 0; i < WF_COUNT(from); i++)
        from[i] = (float)pick(100);
    for (int n = 0; wf_kern_isa_name(n); n++) {
        const wf_kern_isa *isa = wf_kern_isa_find(wf_kern_isa_name(n));
        for (int kc = 0; isa && kc <= 100; kc += kc < 10 ? 1 : 45)
            for (int what = 0; what < 3; what++) { /* nothing before; elsewhere; in place */
                for (size_t i = 0; i < WF_COUNT(to); i++)
                    to[i] = 1000 + (float)i;
                isa->micro(kc, a, b, what == 0 ? NULL : what == 1 ? from : to, what == 1 ? 40 : 48, to, 48);
                for (int i = 0; i < WF_KERN_MAX_MR; i++)
                    for (int j = 0; j < 48; j++) {
                        const float before = 1000 + (float)(i * 48 + j);
                        float want = what == 0 ? 0 : what == 1 ? from[i * 40 + (j < 40 ? j : 0)] : before;
                        for (int k = 0; k < kc && i < isa->mr && j < isa->nr; k++)
                            want += a[k * isa->mr + i] * b[k * isa->nr + j];
                        if (to[i * 48 + j] != (i < isa->mr && j < isa->nr ? want : before))
                            fail_msg("%s, kc %d, form %d: element %d, %d", isa->name, kc, what, i, j);
                    }
            }
    }
}

static void microkernels_of_pairs_are_exact(void **state)
{
    (void)state;
    static int16_t a[40 * WF_KERN_MAX_MR * 2], b[40 * WF_KERN_MAX_NR * 2];
    static int32_t to[WF_KERN_MAX_MR * 48];
    for (size_t i = 0; i < WF_COUNT(a); i++)
        a[i] = (int16_t)(pick(256) - 128);
    for (size_t i = 0; i < WF_COUNT(b); i++)
        b[i] = (int16_t)(pick(256) - 128);
    for (int n = 0; wf_kern_isa_name(n); n++) {
        const wf_kern_isa *isa = wf_kern_isa_find(wf_kern_isa_name(n));
        for (int kc = 0; isa && kc <= 40; kc += kc < 4 ? 1 : 12)
            for (int in_place = 0; in_place < 2; in_place++) {
                for (size_t i = 0; i < WF_COUNT(to); i++)
                    to[i] = (int32_t)i - 100;
                isa->micro_pairs(kc, (const float *)(const void *)a, (const float *)(const void *)b, in_place ? (const float *)(void *)to : NULL, 48,
                                 (float *)(void *)to, 48);
                for (int i = 0; i < isa->mr; i++)
                    for (int j = 0; j < isa->nr; j++) {
                        int32_t want = in_place ? i * 48 + j - 100 : 0;
                        for (int k = 0; k < kc; k++)
                            for (int h = 0; h < 2; h++)
                                want += a[2 * (k * isa->mr + i) + h] * b[2 * (k * isa->nr + j) + h];
                        if (to[i * 48 + j] != want)
                            fail_msg("%s, kc %d: element %d, %d is %d, not %d", isa->name, kc, i, j, to[i * 48 + j], want);
                    }
            }
    }
}

static void a_dispatch_with_too_few_words_or_bindings_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {"matmul_vec", "matmul_blas", "matmul_packed", "matmul_plain", "linear_q8_0", "linear_q4_0",
                                       "linear_q4_1", "sdpa", "topk"};
    static const uint32_t zero[256];
    const weft_ctx_opts opts = {.n_threads = 1};
    weft_stats stats = {0};
    atomic_bool cancel = false;
    wf_device *d;
    assert_int_equal(wf_device_open("cpu", &opts, &stats, &cancel, &d), WEFT_OK);
    assert_int_equal(d->vt->buffer_create(d, 1, sizeof zero), WEFT_OK);
    assert_int_equal(d->vt->write(d, 1, 0, zero, sizeof zero), WEFT_OK);
    for (size_t i = 0; i < WF_COUNT(rows); i++) {
        const wf_program_desc desc = {.kind = WF_PROGRAM_NAMED, .row = rows[i]};
        assert_int_equal(dispatched(d, &desc, 4, 0), WEFT_E_VALUE);
        assert_int_equal(dispatched(d, &desc, 4, 44), WEFT_E_VALUE);
        assert_int_not_equal(dispatched(d, &desc, 0, 1024), WEFT_OK);
    }
    fixture f;
    fx_begin(&f, 3, 0, (int64_t[]){1, 1, 1});
    const int bias = fx_bind(&f, WEFT_DTYPE_F32, WF_ACCESS_READ, false), out = fx_bind(&f, WEFT_DTYPE_F32, WF_ACCESS_WRITE, false);
    fx_stage(&f, WF_KSTAGE_OUTER);
    const int at = fx_row_major(&f, 3), in = fx_op(&f, WF_KOP_IN, WF_KTY_F32, -1, -1, -1);
    fx_store(&f, out, at, fx_op(&f, WF_KOP_ADD, WF_KTY_F32, in, fx_load(&f, bias, at), -1));
    f.k.has_error = 1;
    const wf_program_desc desc = {.kind = WF_PROGRAM_NAMED, .row = "matmul_plain", .kir = &f.k};
    assert_int_equal(dispatched(d, &desc, 5, 4 * WF_KERN_MAT_WORDS), WEFT_E_VALUE);
    for (uint32_t n = 0; n < 5; n++) /* two operands, the epilogue's two, the error word */
        assert_int_equal(dispatched(d, &desc, n, 1024), WEFT_E_VALUE);
    assert_int_equal(dispatched(d, &desc, 5, 1024), WEFT_OK);
    const wf_program_desc none = {.kind = WF_PROGRAM_NAMED, .row = "sdpa", .kir = &f.k};
    assert_int_equal(d->vt->program_create(d, 1, &none), WEFT_E_UNSUPPORTED);
    d->vt->close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_and_dtype_matches_f64),
        cmocka_unit_test(linear_takes_rows_that_do_not_merge),
        cmocka_unit_test(f64_is_summed_in_f64),
        cmocka_unit_test(every_row_that_fits_can_be_forced),
        cmocka_unit_test(large_panels_and_long_k_match),
        cmocka_unit_test(sixty_five_thousand_tiny_matrices),
        cmocka_unit_test(f16_products_accumulate_in_f32),
        cmocka_unit_test(nan_and_infinity_pass_on),
        cmocka_unit_test(an_operand_outside_its_binding_is_refused),
        cmocka_unit_test(each_instruction_set_agrees_with_plain),
        cmocka_unit_test(microkernels_add_every_k_to_what_was_there),
        cmocka_unit_test(microkernels_of_pairs_are_exact),
        cmocka_unit_test(a_dispatch_with_too_few_words_or_bindings_is_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
