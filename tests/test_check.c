/* test_check.c - WEFT_CHECK: what is right passes, on the device that WEFT_TEST_DEVICE names; what the null device leaves
 * undone is found and named; so is the first NaN.
 */
#include "device_context.h"

#include <math.h>

static weft_ctx *open_checked(const char *how, const char *device)
{
    weft_ctx_opts o = test_opts();
    weft_ctx *ctx = NULL;
    if (device)
        o.device = device;
    setenv("WEFT_CHECK", how, 1);
    if (weft_ctx_open(&o, &ctx) != WEFT_OK)
        print_message("%s\n", weft_error_message());
    unsetenv("WEFT_CHECK");
    return ctx;
}

static void names(const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (!strstr(weft_error_message(), words[i]))
            fail_msg("\"%s\" is not in: %s", words[i], weft_error_message());
}
#define NAMES(...) names((const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static weft_tensor *ramp(weft_ctx *ctx, int64_t rows, int64_t cols)
{
    return weft_reshape(weft_arange(ctx, WEFT_DTYPE_F32, (double)(rows * cols), -3, 0.01), DIMS(rows, cols));
}

/* Views, a product with an epilogue, rows, an update in place, half precision, indices, a value that is used twice. */
static weft_tensor *mixed_graph(weft_ctx *ctx)
{
    weft_tensor *x = ramp(ctx, 12, 20), *w = weft_transpose(ramp(ctx, 9, 20), 0, 1);
    weft_tensor *y = weft_relu(weft_add(weft_matmul(weft_flip(x, 0), w), weft_full(ctx, WEFT_DTYPE_F32, DIMS(9), 0.5)));
    weft_tensor *s = weft_softmax(weft_cast(y, WEFT_DTYPE_F16), 0), *top_values, *top = weft_topk(y, 3, &top_values);
    weft_tensor *z = weft_slice_update(y, weft_mul(weft_slice(y, 0, 0, 3, 1), weft_cast(weft_slice(s, 0, 5, 8, 1), WEFT_DTYPE_F32)), 0, weft_scalar_i32(ctx, 4));
    weft_tensor *picked = weft_gather(z, 0, weft_slice(top, 1, 0, 1, 1));
    return weft_add(weft_sum(picked, (int[]){0, 1}, 2, false), weft_mean(z, (int[]){0}, 1, false));
}

static void right_results_pass(void **state)
{
    (void)state;
    weft_ctx *ctx = open_checked("1", NULL), *plain = open_test_ctx();
    assert_non_null(ctx);
    assert_non_null(plain);
    weft_scope *a = weft_scope_begin(ctx), *b = weft_scope_begin(plain);
    float checked[9], unchecked[9];
    weft_tensor *t = mixed_graph(ctx);
    if (weft_read(t, checked, sizeof checked) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    if (weft_read(mixed_graph(plain), unchecked, sizeof unchecked) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    assert_memory_equal(checked, unchecked, sizeof checked);
    weft_scope_end(b);
    weft_scope_end(a);
    weft_ctx_close(plain);
    weft_ctx_close(ctx);
}

static void the_first_wrong_kernel_is_named(void **state)
{
    (void)state;
    weft_ctx *ctx = open_checked("1", "null"); /* computes nothing: all bytes stay 0 */
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = ramp(ctx, 3, 5), *kept = weft_mul(x, x), *t = weft_cumsum(weft_exp(kept), 1);
    float out[15];
    assert_int_equal(weft_read(t, out, sizeof out), WEFT_E_INTERNAL);
    NAMES("WEFT_CHECK: exp", "command 1 of 2", "[3, 5]", "at [0, 0]", "is 0", "reference 8103.08");
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void the_first_nan_is_named(void **state)
{
    (void)state;
    weft_ctx *ctx = open_checked("finite", NULL);
    weft_scope *s = weft_scope_begin(ctx);
    float data[6] = {1, 2, 3, 4, -1, 6}, out[2];
    weft_tensor *x = weft_tensor_from(ctx, WEFT_DTYPE_F32, DIMS(2, 3), data);
    weft_tensor *t = weft_softmax(weft_sum(weft_log(x), (int[]){1}, 1, false), 0);
    assert_int_equal(weft_read(t, out, sizeof out), WEFT_E_NONFINITE);
    NAMES("WEFT_CHECK: sum", "[2]", "at [1]", "nan");
    float good[6] = {1, 2, 3, 4, 5, 6};
    t = weft_sum(weft_log(weft_tensor_from(ctx, WEFT_DTYPE_F32, DIMS(2, 3), good)), (int[]){1}, 1, false);
    assert_int_equal(weft_read(t, out, sizeof out), WEFT_OK); /* the context goes on */
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void another_word_is_refused(void **state)
{
    (void)state;
    assert_null(open_checked("perhaps", "cpu"));
    NAMES("WEFT_CHECK", "perhaps", "finite");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_results_pass),
        cmocka_unit_test(the_first_wrong_kernel_is_named),
        cmocka_unit_test(the_first_nan_is_named),
        cmocka_unit_test(another_word_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
