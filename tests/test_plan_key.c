/* test_plan_key.c - what makes two evaluations share a plan and what must not, and views that cut across the rows
 * of a node computed in the same kernel. On the device WEFT_TEST_DEVICE names (default: cpu). */
#include <string.h>

#include "device_context.h"

static weft_ctx *ctx;

static int open_ctx(void **state)
{
    (void)state;
    ctx = open_test_ctx();
    return ctx ? 0 : -1;
}

static int close_ctx(void **state)
{
    (void)state;
    weft_ctx_close(ctx);
    return 0;
}

static weft_tensor *counting(int64_t n)
{
    float v[64];
    for (int i = 0; i < 64; i++)
        v[i] = (float)i;
    return weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, &n, v);
}

static void expect(weft_tensor *t, int n, const float *want)
{
    float got[64];
    if (weft_read(t, got, sizeof *got * (size_t)n) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    for (int i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("element %d: %g, expected %g", i, got[i], want[i]);
}
#define EXPECT(t, ...) expect(t, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (float[]){__VA_ARGS__})

static weft_stats stats_now(void)
{
    weft_stats s;
    assert_int_equal(weft_ctx_stats(ctx, &s), WEFT_OK);
    return s;
}

/* ---- what is part of the structure ---- */

static void slices_at_two_offsets_are_two_plans(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = counting(6);
    EXPECT(weft_neg(weft_slice(x, 0, 1, 3, 1)), -1, -2);
    EXPECT(weft_neg(weft_slice(x, 0, 3, 5, 1)), -3, -4);
    weft_scope_end(scope);
}

static void slices_of_two_steps_are_two_plans(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = counting(6);
    EXPECT(weft_neg(weft_slice(x, 0, 1, 4, 2)), -1, -3);
    EXPECT(weft_neg(weft_slice(x, 0, 1, 6, 4)), -1, -5);
    EXPECT(weft_neg(weft_slice(x, 0, 1, 3, 1)), -1, -2);
    weft_scope_end(scope);
}

static void a_matrix_and_its_transpose_are_two_plans(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = weft_reshape(counting(4), 2, (int64_t[]){2, 2});
    EXPECT(weft_neg(x), 0, -1, -2, -3);
    EXPECT(weft_neg(weft_transpose(x, 0, 1)), 0, -2, -1, -3);
    EXPECT(weft_neg(weft_flip(x, 0)), -2, -3, 0, -1);
    weft_scope_end(scope);
}

static void axes_attributes_and_operand_order_are_part_of_the_plan(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = weft_reshape(counting(4), 2, (int64_t[]){2, 2}), *y = weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, 1);
    EXPECT(weft_sum(x, (int[]){0}, 1, false), 2, 4);
    EXPECT(weft_sum(x, (int[]){1}, 1, false), 1, 5);
    EXPECT(weft_max(x, (int[]){1}, 1, false), 1, 3);
    EXPECT(weft_sub(x, y), -1, 0, 1, 2);
    EXPECT(weft_sub(y, x), 1, 0, -1, -2);
    weft_scope_end(scope);
}

static void one_storage_twice_and_two_storages_are_two_plans(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *a = counting(2), *b = weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){2}, (float[]){10, 20});
    EXPECT(weft_sub(a, a), 0, 0);
    EXPECT(weft_sub(b, a), 10, 19);
    EXPECT(weft_sub(a, b), -10, -19);
    weft_scope_end(scope);
}

/* ---- what is not ---- */

static void other_data_and_other_scalars_find_the_same_plan(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *a = counting(3), *b = weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){3}, (float[]){5, 6, 7});
    EXPECT(weft_mul(a, weft_scalar_f32(ctx, 2)), 0, 2, 4);
    weft_stats first = stats_now();
    EXPECT(weft_mul(a, weft_scalar_f32(ctx, -1)), 0, -1, -2);
    EXPECT(weft_mul(b, weft_scalar_f32(ctx, 3)), 15, 18, 21);
    weft_stats last = stats_now();
    assert_int_equal(last.plans_built, first.plans_built);
    assert_int_equal(last.plans_reused, first.plans_reused + 2);
    assert_int_equal(last.pipelines, first.pipelines);
    assert_int_equal(last.static_uploads, first.static_uploads);
    weft_scope_end(scope);
}

/* ---- views of a node that is computed where it is used ---- */

/* Elements 1 .. 3 of a [2, 3] begin in one row and end in the next. */
static void a_flat_slice_crosses_rows_of_a_transposed_operand(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *y = weft_reshape(counting(6), 2, (int64_t[]){3, 2});
    weft_tensor *a = weft_neg(weft_transpose(y, 0, 1)); /* 0 -2 -4 / -1 -3 -5 */
    weft_tensor *flat = weft_reshape(a, 1, (int64_t[]){6});
    EXPECT(weft_abs(weft_slice(flat, 0, 1, 4, 1)), 2, 4, 1);
    weft_scope_end(scope);
}

static void other_rows_of_a_node_keep_the_offset_of_its_operand(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *y = weft_reshape(weft_slice(counting(10), 0, 2, 8, 1), 2, (int64_t[]){2, 3});
    weft_tensor *m = weft_abs(weft_reshape(weft_neg(y), 2, (int64_t[]){3, 2}));
    EXPECT(weft_transpose(m, 0, 1), 2, 4, 6, 3, 5, 7);
    EXPECT(m, 2, 3, 4, 5, 6, 7);
    EXPECT(weft_sum(m, (int[]){0}, 1, false), 12, 15);
    weft_scope_end(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_at_two_offsets_are_two_plans),
        cmocka_unit_test(slices_of_two_steps_are_two_plans),
        cmocka_unit_test(a_matrix_and_its_transpose_are_two_plans),
        cmocka_unit_test(axes_attributes_and_operand_order_are_part_of_the_plan),
        cmocka_unit_test(one_storage_twice_and_two_storages_are_two_plans),
        cmocka_unit_test(other_data_and_other_scalars_find_the_same_plan),
        cmocka_unit_test(a_flat_slice_crosses_rows_of_a_transposed_operand),
        cmocka_unit_test(other_rows_of_a_node_keep_the_offset_of_its_operand),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
