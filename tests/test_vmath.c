/* test_vmath.c - the vector functions against libm in double, for every instruction set this processor has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "cpu.h"
#include "vec_ops.h"

enum { N = 1024 };

static const wf_vec_ops *tables[3];
static int n_tables;

static int find_tables(void **state)
{
    (void)state;
    tables[n_tables++] = &wf_vec_ops_base;
#if defined(__x86_64__)
    const wf_cpu_features *f = wf_cpu_detect();
    if (f->avx2 && f->fma && f->f16c)
        tables[n_tables++] = &wf_vec_ops_avx2;
    if (f->avx512f && f->avx512bw)
        tables[n_tables++] = &wf_vec_ops_avx512;
#endif
    return 0;
}

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Distance in units of the float spacing at the exact value; huge when one is NaN or infinite alone. */
static double ulps(float got, double want)
{
    if (want != want || got != got)
        return (want != want) == (got != got) ? 0 : 1e30;
    float rounded = (float)want;
    if (isinf(rounded) || isinf(got))
        return rounded == got || (isinf(got) && fabs(want) > 3.4028235e38) ? 0 : 1e30;
    int e;
    frexp(want, &e);
    return fabs((double)got - want) / ldexp(1, e < -125 ? -149 : e - 24);
}

/* Every 2^13th float of each sign from `step` on, ends and special values first. */
static int sample(float *x, uint64_t *at)
{
    static const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 1,          0x80000001,
                                       0x007fffff, 0x00800000, 0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x42b00000,
                                       0xc2cff1b5, 0x42b17218, 0x3f317218, 0x3f7fffff, 0x3f800001, 0x40800000, 0x49742400};
    int n = 0;
    for (; n < N && *at < WF_COUNT(special); ++*at)
        x[n++] = from_bits(special[*at]);
    for (; n < N && *at - WF_COUNT(special) < (1u << 19); ++*at)
        x[n++] = from_bits((uint32_t)(*at - WF_COUNT(special)) * 8191u);
    return n;
}

static void check_unary(const wf_vec_ops *t, wf_kop op, double (*exact)(double), double bound, double absolute)
{
    float x[N], y[N];
    uint64_t at = 0;
    int n;
    while ((n = sample(x, &at)) > 0) {
        t->unary[op][WF_KTY_F32](y, x, n);
        for (int i = 0; i < n; i++) {
            double want = exact(x[i]);
            double err = ulps(y[i], want);
            if (err > bound && !(fabs(y[i] - want) <= absolute)) {
                print_error("%s %s(%a) is %a, exactly %a: %.2f ulp, allowed %.2f\n", t->name, wf_kop_name[op], x[i], y[i], want,
                            err, bound);
                fail();
            }
        }
    }
}

static void functions_are_within_their_bounds_on_all_floats(void **state)
{
    (void)state;
    for (int t = 0; t < n_tables; t++) {
        check_unary(tables[t], WF_KOP_EXP, exp, 2, 0);
        check_unary(tables[t], WF_KOP_LOG, log, 2, 0);
        check_unary(tables[t], WF_KOP_SIN, sin, 2, 0);
        check_unary(tables[t], WF_KOP_COS, cos, 2, 0);
        check_unary(tables[t], WF_KOP_TANH, tanh, 3, 0);
        check_unary(tables[t], WF_KOP_ERF, erf, 3, 0);
        check_unary(tables[t], WF_KOP_SQRT, sqrt, 0.5, 0);
        check_unary(tables[t], WF_KOP_FLOOR, floor, 0, 0);
    }
}

static void pow_is_rounded_once_and_has_the_special_cases_of_c(void **state)
{
    (void)state;
    static const float values[] = {0, -0.0f, 1, -1, 2, -2, 3, -3, 0.5f, -0.5f, 1.5f, 1e-40f, -1e-40f, 1e30f, -1e30f, INFINITY,
                                   -INFINITY, NAN, 16777216, 16777217, -16777215, 33554432, 1.0000001f, 0.9999999f, 3e38f, 127.25f};
    enum { V = WF_COUNT(values) };
    float a[V * V], b[V * V], y[V * V];
    for (size_t i = 0; i < V * V; i++) {
        a[i] = values[i / V];
        b[i] = values[i % V];
    }
    for (int t = 0; t < n_tables; t++) {
        tables[t]->binary[WF_KOP_POW][WF_KTY_F32](y, a, b, V * V);
        for (size_t i = 0; i < V * V; i++) {
            float want = powf(a[i], b[i]);
            if (ulps(y[i], pow(a[i], b[i])) > 1 || (want == 0 && signbit(want) != signbit(y[i]))) {
                print_error("%s pow(%a, %a) is %a, libm %a\n", tables[t]->name, a[i], b[i], y[i], want);
                fail();
            }
        }
        float x[N], e[N], r[N];
        for (uint32_t round = 0; round < 200; round++) {
            for (uint32_t i = 0; i < N; i++) {
                x[i] = from_bits((round * N + i) * 10007u % 0x7f800000u);
                e[i] = (float)((int)(i % 257) - 128) * 0.37f;
            }
            tables[t]->binary[WF_KOP_POW][WF_KTY_F32](r, x, e, N);
            for (int i = 0; i < N; i++)
                assert_true(ulps(r[i], pow(x[i], e[i])) <= 1);
        }
    }
}

/* The bits of an element depend on neither the length of the array nor its place in it. */
static void tails_have_the_bits_of_bodies(void **state)
{
    (void)state;
    static const wf_kop ops[] = {WF_KOP_EXP, WF_KOP_LOG, WF_KOP_SIN, WF_KOP_COS, WF_KOP_TANH, WF_KOP_ERF, WF_KOP_SQRT, WF_KOP_RSQRT};
    float x[N], whole[N], part[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i * 7919 % 1000) * 0.0137f - 5.0f;
    for (int t = 0; t < n_tables; t++)
        for (size_t o = 0; o < WF_COUNT(ops); o++) {
            tables[t]->unary[ops[o]][WF_KTY_F32](whole, x, N);
            for (int n = 1; n < 70; n++) {
                tables[t]->unary[ops[o]][WF_KTY_F32](part, x + 3, n);
                for (int i = 0; i < n; i++)
                    assert_int_equal(to_bits(part[i]), to_bits(whole[i + 3]));
            }
        }
    for (int t = 0; t < n_tables; t++)
        for (int n = 1; n < 40; n++) {
            tables[t]->fma[WF_KTY_F32](whole, x, x + 1, x + 2, N - 2);
            tables[t]->fma[WF_KTY_F32](part, x + 5, x + 6, x + 7, n);
            for (int i = 0; i < n; i++)
                assert_int_equal(to_bits(part[i]), to_bits(whole[i + 5]));
        }
}

static void half_conversions_have_the_bits_of_the_scalar_ones(void **state)
{
    (void)state;
    uint16_t all[65536], back[65536];
    static float f[65536];
    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (int t = 0; t < n_tables; t++) {
        tables[t]->load[WEFT_DTYPE_F16](f, all, 65536);
        for (uint32_t i = 0; i < 65536; i++)
            assert_true(f[i] != f[i] ? (i & 0x7fff) > 0x7c00 : to_bits(f[i]) == to_bits(wf_f16_to_f32((uint16_t)i)));
        for (uint32_t round = 0; round < 64; round++) {
            for (uint32_t i = 0; i < 65536; i++)
                f[i] = from_bits((round * 65536 + i) * 1021u);
            tables[t]->store[WEFT_DTYPE_F16](back, f, 65535); /* an odd count */
            for (uint32_t i = 0; i < 65535; i++)
                assert_int_equal(back[i], wf_f32_to_f16(f[i]));
            tables[t]->store[WEFT_DTYPE_BF16](back, f, 65535);
            for (uint32_t i = 0; i < 65535; i++)
                assert_int_equal(back[i], wf_f32_to_bf16(f[i]));
        }
    }
}

static void conversions_to_integers_truncate_and_saturate(void **state)
{
    (void)state;
    const float x[] = {0, 1.9f, -1.9f, 2147483520.0f, 2147483648.0f, -2147483648.0f, 3e9f, -3e9f, 4294967040.0f, 4294967296.0f,
                       1e30f, -1e30f, INFINITY, -INFINITY, NAN, 255.5f};
    const int32_t want_i[] = {0, 1, -1, 2147483520, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MAX, INT32_MAX,
                              INT32_MIN, INT32_MAX, INT32_MIN, 0, 255};
    const uint32_t want_u[] = {0, 1, 0, 2147483520u, 2147483648u, 0, 3000000000u, 0, 4294967040u, UINT32_MAX, UINT32_MAX, 0,
                               UINT32_MAX, 0, 0, 255};
    enum { M = WF_COUNT(x) };
    int32_t i32[M];
    uint32_t u32[M];
    int64_t i64[M];
    for (int t = 0; t < n_tables; t++) {
        tables[t]->cast[WF_KTY_F32][WF_KTY_I32](i32, x, M);
        tables[t]->cast[WF_KTY_F32][WF_KTY_U32](u32, x, M);
        tables[t]->cast[WF_KTY_F32][WF_KTY_I64](i64, x, M);
        for (int i = 0; i < M; i++) {
            assert_int_equal(i32[i], want_i[i]);
            assert_int_equal(u32[i], want_u[i]);
        }
        assert_true(i64[10] == INT64_MAX && i64[11] == INT64_MIN && i64[14] == 0 && i64[6] == 3000000000);
    }
}

static void integer_division_never_traps(void **state)
{
    (void)state;
    const int32_t a[] = {7, -7, INT32_MIN, 5}, b[] = {-2, 2, -1, 0};
    const int64_t la[] = {7, -7, INT64_MIN, 5}, lb[] = {-2, 2, -1, 0};
    int32_t q[4], m[4];
    int64_t lq[4], lm[4];
    for (int t = 0; t < n_tables; t++) {
        tables[t]->binary[WF_KOP_DIV][WF_KTY_I32](q, a, b, 4);
        tables[t]->binary[WF_KOP_MOD][WF_KTY_I32](m, a, b, 4);
        tables[t]->binary[WF_KOP_DIV][WF_KTY_I64](lq, la, lb, 4);
        tables[t]->binary[WF_KOP_MOD][WF_KTY_I64](lm, la, lb, 4);
        const int32_t want_q[] = {-3, -3, INT32_MIN, 0}, want_m[] = {1, -1, 0, 0};
        assert_memory_equal(q, want_q, sizeof q);
        assert_memory_equal(m, want_m, sizeof m);
        assert_true(lq[0] == -3 && lq[1] == -3 && lq[2] == INT64_MIN && lq[3] == 0);
        assert_true(lm[0] == 1 && lm[1] == -1 && lm[2] == 0 && lm[3] == 0);
    }
}

static void max_and_min_keep_nan_wherever_it_stands(void **state)
{
    (void)state;
    for (int t = 0; t < n_tables; t++)
        for (int at = 0; at < 100; at++) {
            float x[100], r = -INFINITY, q = INFINITY;
            for (int i = 0; i < 100; i++)
                x[i] = (float)i;
            tables[t]->fold_row[WF_KROP_MAX][WF_KTY_F32](&r, x, 100);
            tables[t]->fold_row[WF_KROP_MIN][WF_KTY_F32](&q, x, 100);
            assert_true(r == 99 && q == 0);
            x[at] = NAN;
            tables[t]->fold_row[WF_KROP_MAX][WF_KTY_F32](&r, x, 100);
            tables[t]->fold_row[WF_KROP_MIN][WF_KTY_F32](&q, x, 100);
            assert_true(r != r && q != q);
            x[at] = 1000;
            tables[t]->fold_row[WF_KROP_MAX][WF_KTY_F32](&r, x, 100); /* NaN stays */
            assert_true(r != r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_within_their_bounds_on_all_floats),
        cmocka_unit_test(pow_is_rounded_once_and_has_the_special_cases_of_c),
        cmocka_unit_test(tails_have_the_bits_of_bodies),
        cmocka_unit_test(half_conversions_have_the_bits_of_the_scalar_ones),
        cmocka_unit_test(conversions_to_integers_truncate_and_saturate),
        cmocka_unit_test(integer_division_never_traps),
        cmocka_unit_test(max_and_min_keep_nan_wherever_it_stands),
    };
    return cmocka_run_group_tests(tests, find_tables, NULL);
}
