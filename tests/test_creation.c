/* test_creation.c - creation operations against values computed in double, and what bad arguments say. Runs on the device that
 * WEFT_TEST_DEVICE names (default: cpu).
 */
#include <math.h>
#include <string.h>

#include "device_context.h"

static weft_ctx *ctx;
static bool on_cpu;
static int open_ctx(void **state)
{
    (void)state;
    const char *device = getenv("WEFT_TEST_DEVICE");
    on_cpu = !device || strcmp(device, "cpu") == 0;
    return (ctx = open_test_ctx()) ? 0 : -1;
}
static int close_ctx(void **state)
{
    (void)state;
    weft_ctx_close(ctx);
    return 0;
}

static const double *values(weft_tensor *t, int64_t n)
{
    static double got[4096];
    static float narrow[4096];
    if (weft_tensor_status(t) != WEFT_OK)
        fail_msg("%s", weft_tensor_message(t));
    assert_int_equal(weft_tensor_numel(t), n);
    bool wide = weft_tensor_dtype(t) == WEFT_DTYPE_F64;
    if (weft_read_as(t, wide ? WEFT_DTYPE_F64 : WEFT_DTYPE_F32, wide ? (void *)got : (void *)narrow, (size_t)n * (wide ? 8 : 4)) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    for (int64_t i = 0; i < n && !wide; i++)
        got[i] = (double)narrow[i];
    return got;
}

static void is(weft_tensor *t, weft_dtype dtype, int rank, const int64_t *shape, const double *want, double within)
{
    if (weft_tensor_status(t) != WEFT_OK)
        fail_msg("%s", weft_tensor_message(t));
    assert_int_equal(weft_tensor_dtype(t), dtype);
    assert_int_equal(weft_tensor_rank(t), rank);
    int64_t n = 1;
    for (int k = 0; k < rank; k++) {
        assert_int_equal(weft_tensor_shape(t)[k], shape[k]);
        n *= shape[k];
    }
    const double *got = values(t, n);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= within))
            fail_msg("element %lld is %.17g, expected %.17g", (long long)i, got[i], want[i]);
}
#define LIST(...) 1, (int64_t[]){(int64_t)(sizeof((double[]){__VA_ARGS__}) / 8)}, (double[]){__VA_ARGS__}
#define MATRIX(rows, cols, ...) 2, (int64_t[]){rows, cols}, (double[]){__VA_ARGS__}

static void says(weft_tensor *t, weft_status st, const char *part)
{
    assert_string_equal(weft_status_name(weft_tensor_status(t)), weft_status_name(st));
    if (!strstr(weft_tensor_message(t), part))
        fail_msg("\"%s\" does not say \"%s\"", weft_tensor_message(t), part);
}

static void constants(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = weft_zeros(ctx, WEFT_DTYPE_F16, 2, (int64_t[]){2, 2});
    is(weft_ones(ctx, WEFT_DTYPE_U8, 1, (int64_t[]){3}), WEFT_DTYPE_U8, LIST(1, 1, 1), 0);
    is(weft_full_like(x, WEFT_DTYPE_I32, 2.9), WEFT_DTYPE_I32, MATRIX(2, 2, 2, 2, 2, 2), 0);
    is(weft_scalar_tensor(ctx, WEFT_DTYPE_F32, 0.5), WEFT_DTYPE_F32, 0, NULL, (double[]){0.5}, 0);
    is(weft_scalar_tensor(ctx, WEFT_DTYPE_BF16, 2), WEFT_DTYPE_BF16, 0, NULL, (double[]){2}, 0);
    is(weft_eye(ctx, WEFT_DTYPE_F32, 2, 3), WEFT_DTYPE_F32, MATRIX(2, 3, 1, 0, 0, 0, 1, 0), 0);
    is(weft_eye(ctx, WEFT_DTYPE_BOOL, 3, 2), WEFT_DTYPE_BOOL, MATRIX(3, 2, 1, 0, 0, 1, 0, 0), 0);
    assert_int_equal(weft_tensor_numel(weft_eye(ctx, WEFT_DTYPE_F32, 0, 3)), 0);
    says(weft_eye(ctx, WEFT_DTYPE_F32, -1, 3), WEFT_E_SHAPE, "-1 rows");
    says(weft_full_like(NULL, WEFT_DTYPE_F32, 0), WEFT_E_CONTEXT, "NULL");
    weft_scope_end(scope);
}

static void ranges(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    is(weft_arange_to(ctx, WEFT_DTYPE_I32, 1, 8, 3), WEFT_DTYPE_I32, LIST(1, 4, 7), 0);
    is(weft_arange_to(ctx, WEFT_DTYPE_I32, 3, -2, -2), WEFT_DTYPE_I32, LIST(3, 1, -1), 0);
    is(weft_arange_to(ctx, WEFT_DTYPE_F32, 0, 1, 0.25), WEFT_DTYPE_F32, LIST(0, 0.25, 0.5, 0.75), 0);
    is(weft_arange_to(ctx, WEFT_DTYPE_F16, 0, 4, 1.5), WEFT_DTYPE_F16, LIST(0, 1.5, 3), 0);
    is(weft_arange_to(ctx, WEFT_DTYPE_U8, 254, 258, 1), WEFT_DTYPE_U8, LIST(254, 255, 0, 1), 0);
    is(weft_arange_to(ctx, WEFT_DTYPE_I8, -2, 2, 1), WEFT_DTYPE_I8, LIST(-2, -1, 0, 1), 0);
    assert_int_equal(weft_tensor_numel(weft_arange_to(ctx, WEFT_DTYPE_F32, 2, 2, -1)), 0);
    if (on_cpu) {
        is(weft_arange_to(ctx, WEFT_DTYPE_F64, 0, 0.35, 0.1), WEFT_DTYPE_F64, LIST(0, 0.1, 0.2, 0.3), 1e-16);
        is(weft_arange_to(ctx, WEFT_DTYPE_U32, 4294967294, 4294967296, 1), WEFT_DTYPE_U32, LIST((float)4294967294.0, (float)4294967295.0), 0);
    }
    says(weft_arange_to(ctx, WEFT_DTYPE_F32, 0, 1, 0), WEFT_E_VALUE, "step 0");
    says(weft_arange_to(ctx, WEFT_DTYPE_F32, 0, 1, -1), WEFT_E_VALUE, "leads from 0 away from 1");
    says(weft_arange_to(ctx, WEFT_DTYPE_F32, 0, NAN, 1), WEFT_E_VALUE, "end nan");
    says(weft_arange_to(ctx, WEFT_DTYPE_F32, 0, 1e30, 1e-3), WEFT_E_SHAPE, "too many");
    says(weft_arange_to(ctx, WEFT_DTYPE_I32, 0, 3, 0.5), WEFT_E_VALUE, "integers");
    says(weft_arange_to(ctx, WEFT_DTYPE_BOOL, 0, 2, 1), WEFT_E_DTYPE, "bool");
    weft_scope_end(scope);
}

static void spaces(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    enum { N = 1001 };
    static double want[N];
    for (int i = 0; i < N; i++)
        want[i] = -3 + 10.0 * i / (N - 1);
    is(weft_linspace(ctx, WEFT_DTYPE_F32, -3, 7, N), WEFT_DTYPE_F32, 1, (int64_t[]){N}, want, 7 * 0x1p-22);
    const double *got = values(weft_linspace(ctx, WEFT_DTYPE_F32, 0.1, 0.7, 10), 10);
    assert_true(got[0] == (double)0.1f && got[9] == (double)0.7f);
    is(weft_linspace(ctx, WEFT_DTYPE_I32, 0, 10, 5), WEFT_DTYPE_I32, LIST(0, 2, 5, 7, 10), 0);
    is(weft_linspace(ctx, WEFT_DTYPE_U8, 0, 9, 4), WEFT_DTYPE_U8, LIST(0, 3, 6, 9), 0);
    is(weft_linspace(ctx, WEFT_DTYPE_F32, 5, 9, 1), WEFT_DTYPE_F32, LIST(5), 0);
    is(weft_linspace(ctx, WEFT_DTYPE_BF16, 0, 3, 4), WEFT_DTYPE_BF16, LIST(0, 1, 2, 3), 0);
    assert_int_equal(weft_tensor_numel(weft_linspace(ctx, WEFT_DTYPE_F32, 5, 9, 0)), 0);
    is(weft_logspace(ctx, WEFT_DTYPE_F32, -1, 2, 4, 10), WEFT_DTYPE_F32, LIST((double)0.1f, 1, 10, 100), 0);
    is(weft_logspace(ctx, WEFT_DTYPE_I32, 0, 3, 4, 10), WEFT_DTYPE_I32, LIST(1, 10, 100, 1000), 0);
    is(weft_logspace(ctx, WEFT_DTYPE_F32, 0, 2, 3, 0), WEFT_DTYPE_F32, LIST(1, 0, 0), 0);
    if (on_cpu) {
        is(weft_linspace(ctx, WEFT_DTYPE_F64, 0, 1, 4), WEFT_DTYPE_F64, LIST(0, 1.0 / 3, 2.0 / 3, 1), 1e-15);
        is(weft_linspace(ctx, WEFT_DTYPE_I64, -4, 4, 3), WEFT_DTYPE_I64, LIST(-4, 0, 4), 0);
    }
    says(weft_linspace(ctx, WEFT_DTYPE_F32, 0, 1, -1), WEFT_E_VALUE, "steps is -1");
    says(weft_linspace(ctx, WEFT_DTYPE_F32, 0, INFINITY, 3), WEFT_E_VALUE, "end inf");
    says(weft_logspace(ctx, WEFT_DTYPE_BOOL, 0, 1, 3, 10), WEFT_E_DTYPE, "bool");
    weft_scope_end(scope);
}

static void triangles(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    float data[12];
    for (int i = 0; i < 12; i++)
        data[i] = i == 5 ? INFINITY : (float)(i + 1);
    weft_tensor *m = weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){3, 4}, data);
    for (int64_t d = -5; d <= 6; d++) {
        double low[12], high[12];
        for (int i = 0; i < 12; i++) {
            low[i] = i % 4 <= i / 4 + d ? (double)data[i] : 0;
            high[i] = i % 4 >= i / 4 + d ? (double)data[i] : 0;
        }
        const double *got = values(weft_tril(m, d), 12);
        for (int i = 0; i < 12; i++)
            assert_true(got[i] == low[i]);
        got = values(weft_triu(m, d), 12);
        for (int i = 0; i < 12; i++)
            assert_true(got[i] == high[i]);
        /* The list of indices names the same elements. */
        for (int upper = 0; upper < 2; upper++) {
            weft_tensor *at = upper ? weft_triu_indices(ctx, 3, 4, d) : weft_tril_indices(ctx, 3, 4, d);
            int64_t n = weft_tensor_dim(at, 1), k = 0;
            const double *pairs = values(at, 2 * n);
            for (int i = 0; i < 12; i++)
                if ((upper ? high : low)[i] != 0) {
                    assert_true(k < n && pairs[k] == i / 4 && pairs[n + k] == i % 4);
                    k++;
                }
            assert_int_equal(k, n);
        }
    }
    weft_tensor *batch = weft_ones(ctx, WEFT_DTYPE_I32, 3, (int64_t[]){2, 2, 2});
    is(weft_tril(batch, 0), WEFT_DTYPE_I32, 3, (int64_t[]){2, 2, 2}, (double[]){1, 0, 1, 1, 1, 0, 1, 1}, 0);
    is(weft_triu(weft_cast(batch, WEFT_DTYPE_BOOL), 1), WEFT_DTYPE_BOOL, 3, (int64_t[]){2, 2, 2}, (double[]){0, 1, 0, 0, 0, 1, 0, 0}, 0);
    is(weft_triu(batch, INT64_MIN), WEFT_DTYPE_I32, 3, (int64_t[]){2, 2, 2}, (double[]){1, 1, 1, 1, 1, 1, 1, 1}, 0);
    says(weft_tril(weft_select(m, 0, 0), 0), WEFT_E_SHAPE, "rank 1, expected 2 or more");
    says(weft_tril_indices(ctx, -1, 2, 0), WEFT_E_VALUE, "-1 rows");
    weft_scope_end(scope);
}

static void one_hot_rows(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    int64_t three = 3;
    weft_tensor *i = weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, &three, (int32_t[]){2, 0, 1});
    is(weft_one_hot(i, 4), WEFT_DTYPE_I32, MATRIX(3, 4, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0), 0);
    is(weft_one_hot(weft_select(i, 0, 0), 3), WEFT_DTYPE_I32, LIST(0, 0, 1), 0);
    is(weft_one_hot(weft_cast(i, WEFT_DTYPE_U8), 3), WEFT_DTYPE_I32, MATRIX(3, 3, 0, 0, 1, 1, 0, 0, 0, 1, 0), 0);
    weft_tensor *beyond = weft_one_hot(i, 2);
    assert_int_equal(weft_eval(&beyond, 1), WEFT_E_INDEX);
    weft_tensor *negative = weft_one_hot(weft_sub(i, weft_scalar_i32(ctx, 1)), 3);
    assert_int_equal(weft_eval(&negative, 1), WEFT_E_INDEX);
    says(weft_one_hot(i, 0), WEFT_E_VALUE, "num_classes is 0");
    says(weft_one_hot(weft_cast(i, WEFT_DTYPE_F32), 3), WEFT_E_DTYPE, "index is f32");
    weft_scope_end(scope);
}

/* ---- by name ---- */

static weft_tensor *call(const char *name, const weft_attr *a, int n)
{
    static weft_outputs out;
    if (weft_apply(ctx, name, NULL, 0, &(weft_attrs){a, n}, &out) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    return out.tensor[0];
}

static void numbers_decide_the_dtype(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_attr size = {.name = "size", .kind = WEFT_ATTR_INTS, .ints = (int64_t[]){2}, .n_ints = 1};
    weft_attr five = {.name = "start", .kind = WEFT_ATTR_INT, .i = 5}, half = {.name = "step", .kind = WEFT_ATTR_FLOAT, .f = 0.5};
    weft_attr end = {.name = "end", .kind = WEFT_ATTR_INT, .i = 7};
    is(call("arange", &five, 1), WEFT_DTYPE_I32, LIST(0, 1, 2, 3, 4), 0);
    is(call("arange", (weft_attr[]){five, end}, 2), WEFT_DTYPE_I32, LIST(5, 6), 0);
    is(call("arange", (weft_attr[]){five, end, half}, 3), WEFT_DTYPE_F32, LIST(5, 5.5, 6, 6.5), 0);
    weft_attr fill = {.name = "fill_value", .kind = WEFT_ATTR_INT, .i = 3};
    is(call("full", (weft_attr[]){size, fill}, 2), WEFT_DTYPE_I32, LIST(3, 3), 0);
    fill = (weft_attr){.name = "fill_value", .kind = WEFT_ATTR_FLOAT, .f = 3};
    is(call("full", (weft_attr[]){size, fill}, 2), WEFT_DTYPE_F32, LIST(3, 3), 0);
    fill = (weft_attr){.name = "fill_value", .kind = WEFT_ATTR_BOOL, .i = 1};
    is(call("full", (weft_attr[]){size, fill}, 2), WEFT_DTYPE_BOOL, LIST(1, 1), 0);
    is(call("zeros", &size, 1), WEFT_DTYPE_F32, LIST(0, 0), 0);
    weft_attr dtype = {.name = "dtype", .kind = WEFT_ATTR_DTYPE, .i = WEFT_DTYPE_I8};
    is(call("ones", (weft_attr[]){size, dtype}, 2), WEFT_DTYPE_I8, LIST(1, 1), 0);
    is(call("tri", (weft_attr[]){{.name = "N", .kind = WEFT_ATTR_INT, .i = 2}, {.name = "k", .kind = WEFT_ATTR_INT, .i = -1}}, 2), WEFT_DTYPE_F32,
       MATRIX(2, 2, 0, 0, 1, 0), 0);
    is(call("eye", &(weft_attr){.name = "n", .kind = WEFT_ATTR_INT, .i = 2}, 1), WEFT_DTYPE_F32, MATRIX(2, 2, 1, 0, 0, 1), 0);
    weft_scope_end(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants), cmocka_unit_test(ranges), cmocka_unit_test(spaces), cmocka_unit_test(triangles), cmocka_unit_test(one_hot_rows),
        cmocka_unit_test(numbers_decide_the_dtype),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
