/* test_quantised.c - integers with scales: what packs unpacks, products are exact, zeros stay zeros. The expected values are
 * computed here, element by element.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_fixture.h"
#include "weft/ops_quantised.h"

enum { ROWS = 5, MAX_K = 4096 };
static const int64_t lengths[] = {1, 15, 16, 17, 4096};
static const struct {
    const char *name;
    int levels, per_byte;
} formats[] = {{"i8", 127, 1}, {"i4", 7, 2}, {"ternary", 1, 4}};

static uint32_t seed = 1;
static float draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(int32_t)seed * 4.6566129e-10f;
}

static void read_ok(weft_tensor *t, void *dst, size_t size_bytes)
{
    if (weft_read(t, dst, size_bytes) != WEFT_OK)
        fail_msg("%s", weft_error_message());
}

static float scale_of(const float *row, int64_t k, int format)
{
    double sum = 0;
    float most = 0;
    for (int64_t i = 0; i < k; i++) {
        sum += fabsf(row[i]);
        most = fmaxf(most, fabsf(row[i]));
    }
    return formats[format].levels == 1 ? (float)(sum / (double)k) : most / (float)formats[format].levels;
}

static int number_at(const uint8_t *data, int64_t i, int format)
{
    switch (format) {
    case WEFT_ROWS_I8: return ((const int8_t *)data)[i];
    case WEFT_ROWS_I4: return (data[i / 2] >> (i % 2 * 4) & 15) - 8;
    default: return (data[i / 4] >> (i % 4 * 2) & 3) - 1;
    }
}

static void rows_are_packed_as_the_format_says(void **state)
{
    (void)state;
    static float x[ROWS * MAX_K], back[ROWS * MAX_K];
    static uint8_t data[ROWS * MAX_K];
    for (int f = 0; f < 3; f++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            const int64_t k = lengths[l], bytes = (k + formats[f].per_byte - 1) / formats[f].per_byte;
            weft_scope *scope = weft_scope_begin(ctx);
            for (int64_t i = 0; i < ROWS * k; i++)
                x[i] = i / k == 2 ? 0 : draw(); /* row 2 is zeros */
            weft_tensor *s, *q = weft_quantize_to_rows(weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){ROWS, k}, x), (weft_row_format)f, &s);
            float scales[ROWS];
            assert_int_equal(weft_tensor_nbytes(q), ROWS * bytes);
            read_ok(q, data, (size_t)(ROWS * bytes));
            read_ok(s, scales, sizeof scales);
            for (int r = 0; r < ROWS; r++) {
                const float want = scale_of(x + r * k, k, f);
                assert_true(fabsf(scales[r] - want) <= 1e-5f * want);
                for (int64_t i = 0; i < k; i++) {
                    const float exact = scales[r] > 0 ? x[r * k + i] / scales[r] : 0;
                    const float level = fminf(fmaxf(rintf(exact), (float)-formats[f].levels), (float)formats[f].levels);
                    const int got = number_at(data + r * bytes, i, f);
                    if (got != (int)level && fabsf(fabsf(exact - (float)got) - 0.5f) > 1e-4f)
                        fail_msg("%s, K %lld, row %d, element %lld: %d, not %d", formats[f].name, (long long)k, r, (long long)i, got, (int)level);
                }
            }
            read_ok(weft_dequantize_from_rows(q, s, (weft_row_format)f, k), back, (size_t)(ROWS * k) * 4);
            for (int64_t i = 0; i < ROWS * k; i++)
                assert_true(fabsf(back[i] - (float)number_at(data + i / k * bytes, i % k, f) * scales[i / k]) <= 1e-6f * fabsf(back[i]));
            weft_scope_end(scope);
        }
}

static void linear_over_rows_is_the_product_with_what_they_hold(void **state)
{
    (void)state;
    static float x[3 * MAX_K], w[ROWS * MAX_K], held[ROWS * MAX_K];
    for (int f = 0; f < 3; f++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            const int64_t k = lengths[l];
            weft_scope *scope = weft_scope_begin(ctx);
            for (int64_t i = 0; i < ROWS * k; i++)
                w[i] = i / k == 1 ? 0 : draw();
            for (int64_t i = 0; i < 3 * k; i++)
                x[i] = (float)(int)(draw() * 8); /* integers: the sums are exact up to the scale */
            weft_tensor *s, *q = weft_quantize_to_rows(weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){ROWS, k}, w), (weft_row_format)f, &s);
            weft_tensor *y = weft_linear_rows(weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){3, k}, x), q, s, (weft_row_format)f, NULL);
            float got[3 * ROWS];
            read_ok(y, got, sizeof got);
            read_ok(weft_dequantize_from_rows(q, s, (weft_row_format)f, k), held, (size_t)(ROWS * k) * 4);
            for (int i = 0; i < 3 * ROWS; i++) {
                double want = 0, size = 0;
                for (int64_t j = 0; j < k; j++) {
                    want += (double)x[i / ROWS * k + j] * held[i % ROWS * k + j];
                    size += fabs((double)x[i / ROWS * k + j] * held[i % ROWS * k + j]);
                }
                if (fabs(got[i] - want) > 1e-6 * size)
                    fail_msg("%s, K %lld, result %d: %g, not %g", formats[f].name, (long long)k, i, (double)got[i], want);
            }
            weft_scope_end(scope);
        }
}

static void integer_products_are_exact(void **state)
{
    (void)state;
    enum { M = 3, N = 4 };
    static int8_t a[M * MAX_K], b[N * MAX_K];
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        const int64_t k = lengths[l];
        weft_scope *scope = weft_scope_begin(ctx);
        for (int64_t i = 0; i < M * k; i++)
            a[i] = (int8_t)(i / k == 1 ? 0 : i / k == 2 ? -128 : (int)(draw() * 128));
        for (int64_t i = 0; i < N * k; i++)
            b[i] = (int8_t)(i % N == 3 ? -128 : (int)(draw() * 128));
        int32_t got[M * N];
        read_ok(weft_matmul_i8(weft_tensor_from(ctx, WEFT_DTYPE_I8, 2, (int64_t[]){M, k}, a), weft_tensor_from(ctx, WEFT_DTYPE_I8, 2, (int64_t[]){k, N}, b)),
                got, sizeof got);
        for (int i = 0; i < M * N; i++) {
            int32_t want = 0;
            for (int64_t j = 0; j < k; j++)
                want += a[i / N * k + j] * b[j * N + i % N];
            assert_int_equal(got[i], want);
        }
        weft_scope_end(scope);
    }
}

/* Rows and columns enough for the CPU's kernel, edges of its tiles, batches that broadcast, and views: 1 turned, 2 backwards. */
static void integer_products_of_many_rows_are_exact(void **state)
{
    (void)state;
    static const int sizes[][3] = {{13, 8, 1}, {8, 19, 15}, {14, 33, 16}, {9, 40, 17}, {100, 270, 385}, {270, 300, 770}, {16, 16, 4096}, {64, 9, 16500}};
    const bool on_cpu = !getenv("WEFT_TEST_DEVICE");
    for (size_t c = 0; c < sizeof sizes / sizeof *sizes - (on_cpu ? 0 : 4); c++)
        for (int how = 0; how < 3; how++) {
            const int64_t M = sizes[c][0], N = sizes[c][1], K = sizes[c][2], B = c == 2 ? 3 : 1;
            int8_t *a = malloc((size_t)(B * M * K)), *b = malloc((size_t)(N * K));
            int32_t *got = malloc((size_t)(B * M * N) * 4);
            assert_true(a && b && got);
            for (int64_t i = 0; i < B * M * K; i++)
                a[i] = (int8_t)(i / K == 2 ? -128 : (int)(draw() * 128));
            for (int64_t i = 0; i < N * K; i++)
                b[i] = (int8_t)(i % N == 3 ? -128 : (int)(draw() * 128));
            weft_scope *scope = weft_scope_begin(ctx);
            weft_tensor *ta = weft_tensor_from(ctx, WEFT_DTYPE_I8, 3, (int64_t[]){B, M, K}, a), *tb = weft_tensor_from(ctx, WEFT_DTYPE_I8, 2, (int64_t[]){K, N}, b);
            if (how) { /* the same numbers, lying otherwise */
                weft_tensor *la = weft_contiguous(how == 1 ? weft_transpose(ta, -1, -2) : weft_flip(ta, -1)), *lb = weft_contiguous(how == 1 ? weft_transpose(tb, 0, 1) : weft_flip(tb, 1));
                assert_int_equal(weft_eval((weft_tensor *[]){la, lb}, 2), WEFT_OK);
                ta = how == 1 ? weft_transpose(la, -1, -2) : weft_flip(la, -1);
                tb = how == 1 ? weft_transpose(lb, 0, 1) : weft_flip(lb, 1);
            }
            weft_stats before, after;
            weft_ctx_stats(ctx, &before);
            read_ok(weft_matmul_i8(ta, tb), got, (size_t)(B * M * N) * 4);
            weft_ctx_stats(ctx, &after);
            if (on_cpu)
                assert_int_equal(after.dispatches - before.dispatches, 1);
            for (int64_t i = 0; i < B * M * N; i++) {
                int64_t want = 0;
                for (int64_t j = 0; j < K; j++)
                    want += a[i / N * K + j] * b[j * N + i % N];
                if (got[i] != want)
                    fail_msg("%lld x %lld x %lld, view %d, element %lld: %d, not %lld", (long long)M, (long long)N, (long long)K, how, (long long)i, (int)got[i],
                             (long long)want);
            }
            weft_scope_end(scope);
            free(a), free(b), free(got);
        }
}

static void product_with_rows(int f, int64_t M, int64_t N, int64_t K, bool turned)
{
    static float x[64 * 500], w[40 * 500], bias[40], got[64 * 40], scales[40];
    static uint8_t data[40 * 500];
    const int64_t bytes = (K + formats[f].per_byte - 1) / formats[f].per_byte;
    weft_scope *scope = weft_scope_begin(ctx);
    for (int64_t i = 0; i < 2 * M * K; i++)
        x[i] = draw();
    for (int64_t i = 0; i < N * K; i++)
        w[i] = i / K == 4 ? 0 : draw();
    for (int64_t i = 0; i < N; i++)
        bias[i] = draw();
    weft_tensor *s, *q = weft_quantize_to_rows(weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){N, K}, w), (weft_row_format)f, &s);
    weft_tensor *tx = weft_tensor_from(ctx, WEFT_DTYPE_F32, 3, (int64_t[]){2, M, K}, x);
    read_ok(q, data, (size_t)(N * bytes));
    read_ok(s, scales, (size_t)N * 4);
    if (turned) { /* the same numbers, the last axes the other way in memory */
        weft_tensor *lx = weft_contiguous(weft_transpose(tx, 1, 2)), *lq = weft_contiguous(weft_transpose(q, 0, 1));
        assert_int_equal(weft_eval((weft_tensor *[]){lx, lq}, 2), WEFT_OK);
        tx = weft_transpose(lx, 1, 2);
        q = weft_transpose(lq, 0, 1);
    }
    weft_stats before, after;
    weft_ctx_stats(ctx, &before);
    read_ok(weft_linear_rows(tx, q, s, (weft_row_format)f, weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){N}, bias)), got, (size_t)(2 * M * N) * 4);
    weft_ctx_stats(ctx, &after);
    weft_device_info device;
    weft_ctx_device(ctx, &device);
    if (K % 4 == 0 && device.max_binding_bytes >= sizeof x && (strcmp(device.kind, "cpu") == 0 || device.max_storage_buffers > 8)) /* it binds nine */
        assert_int_equal(after.dispatches - before.dispatches, 1);
    for (int64_t i = 0; i < 2 * M * N; i++) {
        const int64_t n = i % N;
        double want = 0, size = 0;
        for (int64_t k = 0; k < K; k++) {
            const double p = (double)x[i / N * K + k] * number_at(data + n * bytes, k, f);
            want += p;
            size += fabs(p);
        }
        want = want * scales[n] + bias[n];
        if (!(fabs(got[i] - want) <= (double)(K + 4) * 5.97e-8 * (size * scales[n] + fabs(bias[n]))))
            fail_msg("%s, [2, %lld, %lld] by %lld rows%s, element %lld: %g, not %g", formats[f].name, (long long)M, (long long)K, (long long)N, turned ? ", turned" : "",
                     (long long)i, (double)got[i], want);
    }
    weft_scope_end(scope);
}

static void linear_over_rows_of_any_format_and_size(void **state)
{
    (void)state;
    for (int f = 0; f < 3; f++)
        for (int turned = 0; turned < 2; turned++) {
            product_with_rows(f, 21, 35, 403, turned);
            product_with_rows(f, 7, 40, 404, turned);
            product_with_rows(f, 1, 9, 100, turned);
            product_with_rows(f, 5, 8, 3, turned);
            product_with_rows(f, 2, 8, 1, turned);
        }
}

static void a_whole_tensor_has_one_scale(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *s, *q = weft_quantize_tensor(weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){5}, (float[]){-2.54f, 0, 0.01f, 0.03f, 1.27f}), &s);
    int8_t got[5];
    float scale, back[5];
    read_ok(q, got, sizeof got);
    read_ok(s, &scale, sizeof scale);
    assert_float_equal(scale, 0.02f, 1e-7f);
    assert_memory_equal(got, ((int8_t[]){-127, 0, 0, 2, 64}), 5); /* 0.5 and 1.5 and 63.5 go to even, up to the rounding of the scale */
    read_ok(weft_dequantize_tensor(q, s), back, sizeof back);
    assert_float_equal(back[0], -2.54f, 1e-6f);
    weft_tensor *zero = weft_quantize_tensor(weft_zeros(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){3}), &s);
    read_ok(zero, got, 3);
    read_ok(s, &scale, sizeof scale);
    assert_memory_equal(got, ((int8_t[]){0, 0, 0}), 3);
    assert_true(scale == 0);
    weft_scope_end(scope);
}

static void says(weft_tensor *t, const char *part)
{
    assert_int_not_equal(weft_tensor_status(t), WEFT_OK);
    if (!strstr(weft_tensor_message(t), part))
        fail_msg("\"%s\" does not say \"%s\"", weft_tensor_message(t), part);
}

static void what_does_not_fit_is_an_error(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = weft_zeros(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){2, 9}), *s;
    weft_tensor *q = weft_quantize_to_rows(x, WEFT_ROWS_I4, &s);
    says(weft_linear_rows(weft_zeros(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){2, 12}), q, s, WEFT_ROWS_I4, NULL), "12 columns in i4 are u8 with 6");
    says(weft_linear_rows(x, q, s, WEFT_ROWS_TERNARY, NULL), "9 columns in ternary");
    says(weft_dequantize_from_rows(q, s, WEFT_ROWS_I4, 11), "11 columns");
    says(weft_quantize_to_rows(q, WEFT_ROWS_I8, &s), "u8 of rank 2, expected a float");
    says(s, "u8 of rank 2, expected a float");
    says(weft_matmul_i8(x, x), "f32 and f32, expected i8");
    weft_row_format f;
    assert_int_equal(weft_row_format_find("i5", &f), WEFT_E_VALUE);
    weft_scope_end(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_packed_as_the_format_says), cmocka_unit_test(linear_over_rows_is_the_product_with_what_they_hold),
        cmocka_unit_test(integer_products_are_exact),
        cmocka_unit_test(integer_products_of_many_rows_are_exact),
        cmocka_unit_test(linear_over_rows_of_any_format_and_size), cmocka_unit_test(a_whole_tensor_has_one_scale),
        cmocka_unit_test(what_does_not_fit_is_an_error),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
