/* faults_limits.h - sizes past a device's limits: work groups, bindings, buffers, memory, 32-bit counts.
 * Included by test_faults.c.
 */
#ifndef FAULTS_LIMITS_H
#define FAULTS_LIMITS_H

/* 65,535 work groups of 64 invocations and one element more. */
enum { PAST_ALL_GROUPS = 4194241 };

static float *ramp(int64_t n, float scale)
{
    float *v = malloc((size_t)n * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(i % 1021) * scale;
    return v;
}

TEST(an_elementwise_op_passes_65535_work_groups)
{
    float *v = ramp(PAST_ALL_GROUPS, 0.5f), *got = malloc(PAST_ALL_GROUPS * sizeof *got);
    assert_non_null(got);
    read_ok(weft_neg(f32_of(DIMS(PAST_ALL_GROUPS), v)), got, PAST_ALL_GROUPS * sizeof *got);
    for (int64_t i = 0; i < PAST_ALL_GROUPS; i++)
        if (got[i] != -v[i])
            fail_msg("element %lld is %g, expected %g", (long long)i, got[i], -v[i]);
    free(v);
    free(got);
}

TEST(softmax_over_4194241_rows_of_1_is_ones)
{
    weft_tensor *x = weft_reshape(weft_arange(ctx, WEFT_DTYPE_F32, PAST_ALL_GROUPS, 0, 1), DIMS(PAST_ALL_GROUPS, 1));
    weft_tensor *y = weft_softmax(x, 1);
    assert_true(one_value(weft_min(y, NULL, 0, false)) == 1);
    assert_true(one_value(weft_max(y, NULL, 0, false)) == 1);
}

TEST(a_batch_of_65536_products_of_1_by_1)
{
    enum { B = 65536 };
    float *a = ramp(B, 1), *got = malloc(B * sizeof *got);
    assert_non_null(got);
    weft_tensor *x = f32_of(DIMS(B, 1, 1), a);
    read_ok(weft_matmul(x, weft_flip(x, 0)), got, B * sizeof *got);
    for (int i = 0; i < B; i++)
        if (got[i] != a[i] * a[B - 1 - i])
            fail_msg("product %d is %g, expected %g", i, got[i], a[i] * a[B - 1 - i]);
    free(a);
    free(got);
}

TEST(reductions_of_more_rows_than_work_groups)
{
    weft_tensor *x = weft_reshape(weft_arange(ctx, WEFT_DTYPE_F32, 70001 * 3, 0, 1), DIMS(70001, 3));
    weft_tensor *y = weft_sum(x, (int[]){1}, 1, false); /* 9 i + 3 */
    EXPECT(weft_slice(y, 0, 69998, 70001, 1), 0, 629985, 629994, 630003);
    EXPECT(weft_argmax(weft_transpose(x, 0, 1), (int[]){1}, 1, false), 0, 70000, 70000, 70000);
}

TEST(the_sum_of_2_to_25_ones_is_exact)
{
    const int64_t n = 1 << 25;
    float one = 1;
    weft_tensor *ones = weft_expand(f32_of(DIMS(1), &one), DIMS(n));
    assert_true(one_value(weft_sum(ones, NULL, 0, false)) == 33554432);
    assert_true(one_value(weft_mean(ones, NULL, 0, false)) == 1);
    assert_true(one_value(weft_sum(weft_full(ctx, WEFT_DTYPE_F32, DIMS(n), 1), NULL, 0, false)) == 33554432);
}

/* ---- bindings and buffers ---- */
static weft_ctx *low_ctx(uint64_t max_binding_bytes)
{
    weft_ctx_opts o = test_opts();
    weft_ctx *c = NULL;
    o.max_binding_bytes = max_binding_bytes;
    o.max_storage_buffers = 8;
    o.max_workgroup_invocations = 256;
    o.max_workgroup_bytes = 16384;
    if (weft_ctx_open(&o, &c) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    return c;
}

/* A table of `rows` rows under a binding that holds a part of it. */
static void embed_in_parts(int64_t rows, int64_t width, uint64_t binding)
{
    weft_ctx *c = low_ctx(binding), *usual = ctx;
    ctx = c;
    weft_scope *scope = weft_scope_begin(c);
    float *v = malloc((size_t)(rows * width) * sizeof *v), *got = malloc((size_t)width * 4 * sizeof *got);
    assert_true(v && got);
    for (int64_t i = 0; i < rows * width; i++)
        v[i] = (float)(i / width) + (float)(i % 7) / 8;
    int32_t ids[4] = {0, (int32_t)rows - 1, (int32_t)(rows / 2), -2};
    weft_tensor *w = f32_of(DIMS(rows, width), v);
    weft_tensor *y = weft_embedding(w, weft_tensor_from(c, WEFT_DTYPE_I32, DIMS(4), ids));
    weft_status st = weft_read(y, got, (size_t)width * 4 * sizeof *got);
    for (int i = 0; st == WEFT_OK && i < 4; i++)
        for (int64_t k = 0; k < width; k++)
            if (got[i * width + k] != v[(ids[i] < 0 ? ids[i] + rows : ids[i]) * width + k])
                st = WEFT_E_INTERNAL;
    if (st == WEFT_OK) { /* reduced whole, and by columns */
        float most = 0;
        for (int64_t r = 0; r < rows; r++)
            most = fmaxf(most, v[r * width + 1]);
        st = one_value(weft_max(weft_neg(w), NULL, 0, false)) != 0 ? WEFT_E_INTERNAL
             : one_value(weft_slice(weft_max(w, (int[]){0}, 1, false), 0, 1, 2, 1)) != most ? WEFT_E_INTERNAL : WEFT_OK;
    }
    free(v);
    free(got);
    weft_scope_end(scope);
    if (st != WEFT_OK)
        print_message("%s: %s\n", weft_status_name(st), weft_error_message());
    weft_ctx_close(c);
    ctx = usual;
    assert_int_equal(st, WEFT_OK);
}

TEST(a_table_larger_than_a_binding_is_read_in_parts)
{
    embed_in_parts(5000, 384, 2u << 20); /* 7.3 MiB */
}

TEST(an_embedding_of_151936_by_1024_fits_under_a_binding_of_128_mib)
{
    if (!getenv("WEFT_TEST_LONG")) {
        print_message("skip: long\n");
        skip();
    }
    embed_in_parts(151936, 1024, 128u << 20);
}

TEST(more_inputs_than_buffers_are_joined)
{
    weft_ctx *c = low_ctx(0), *usual = ctx;
    ctx = c;
    weft_scope *scope = weft_scope_begin(c);
    weft_tensor *x[40], *sum = NULL;
    for (int i = 0; i < 40; i++) {
        float v[3] = {(float)i, 1, (float)-i};
        x[i] = f32_of(DIMS(3), v);
        sum = sum ? weft_add(sum, x[i]) : x[i];
    }
    float got[3], all[120];
    weft_status st = weft_read(sum, got, sizeof got);
    weft_status st2 = weft_read(weft_cat(x, 40, 0), all, sizeof all);
    weft_scope_end(scope);
    if (st != WEFT_OK || st2 != WEFT_OK)
        print_message("%s\n", weft_error_message());
    weft_ctx_close(c);
    ctx = usual;
    assert_int_equal(st, WEFT_OK);
    assert_int_equal(st2, WEFT_OK);
    assert_true(got[0] == 780 && got[1] == 40 && got[2] == -780);
    for (int i = 0; i < 40; i++)
        assert_true(all[3 * i] == (float)i && all[3 * i + 1] == 1 && all[3 * i + 2] == (float)-i);
}

/* ---- memory and counts ---- */
TEST(a_tebibyte_is_out_of_memory_and_1_plus_1_still_works)
{
    const int64_t n = (int64_t)1 << 38; /* f32 */
    weft_stats before = stats();
    weft_tensor *x = weft_add(weft_full(ctx, WEFT_DTYPE_F32, DIMS(n), 1), weft_arange(ctx, WEFT_DTYPE_F32, n, 0, 1));
    assert_int_equal(weft_tensor_status(x), WEFT_OK);
    assert_int_equal(weft_eval(&x, 1), WEFT_E_OOM);
    assert_non_null(strpbrk(weft_error_message(), "0123456789")); /* the numbers are in the sentence */
    EXPECT(weft_add(VEC(1), VEC(1)), 0, 2);
    assert_true(stats().bytes_live < before.bytes_live + (1 << 20));
}

TEST(counts_past_32_and_64_bits_are_no_wrap)
{
    weft_tensor *x = weft_zeros(ctx, WEFT_DTYPE_F32, DIMS(65536, 65536, 2));
    assert_int_equal(weft_tensor_numel(x), (int64_t)1 << 33);
    assert_true(weft_tensor_nbytes(x) == (size_t)1 << 35);
    if (device.memory_bytes && device.memory_bytes < (uint64_t)1 << 35) {
        weft_tensor *y = weft_exp(weft_expand(VEC(1), DIMS(65536, 65536, 2)));
        assert_int_equal(weft_eval(&y, 1), WEFT_E_OOM);
    }
    const int64_t m = (int64_t)1 << 32;
    assert_int_equal(weft_tensor_status(weft_zeros(ctx, WEFT_DTYPE_F32, DIMS(m, m))), WEFT_E_SHAPE);
    assert_int_equal(weft_tensor_status(weft_zeros(ctx, WEFT_DTYPE_F64, DIMS(m, m / 2 - 1))), WEFT_E_SHAPE);
    assert_int_equal(weft_tensor_status(weft_zeros(ctx, WEFT_DTYPE_F32, DIMS(3, -1))), WEFT_E_SHAPE);
    assert_int_equal(weft_tensor_status(weft_reshape(VEC(1, 2), DIMS(m, m, 2))), WEFT_E_SHAPE);
    assert_int_equal(weft_tensor_status(weft_expand(VEC(1), DIMS(m, m, 2))), WEFT_E_SHAPE);
    assert_int_equal(weft_tensor_numel(weft_zeros(ctx, WEFT_DTYPE_F32, DIMS(m, 0, m))), 0);
    weft_tensor *wide = weft_expand(VEC(1), DIMS(m / 2, 1)), *tall = weft_expand(VEC(1), DIMS(1, m / 2));
    assert_int_equal(weft_tensor_status(weft_matmul(weft_expand(wide, DIMS(m, m / 4, 1)), tall)), WEFT_E_SHAPE);
    EXPECT(weft_add(VEC(1), VEC(1)), 0, 2);
}

/* ---- loops that a software adapter cuts off ---- */
/* All indices are one: an element of the result takes every element of src. */
TEST(as_many_indices_as_there_are_may_point_at_one_element)
{
    static const int64_t counts[] = {1, 255, 257, 4096, 70001};
    for (int i = 0; i < 5; i++) {
        for (int64_t axis = 1; axis <= 3; axis++) {
            const int64_t n = counts[i];
            weft_tensor *index = weft_full(ctx, WEFT_DTYPE_I32, DIMS(n), (double)(axis - 1)), *x = FULL(2, axis);
            weft_tensor *order = weft_arange(ctx, WEFT_DTYPE_F32, n, 0, 1);
            weft_tensor *sum = weft_scatter_add(x, 0, index, FULL(1, n)), *set = weft_scatter(x, 0, index, order);
            weft_tensor *most = weft_scatter_reduce(x, 0, index, order, "amax", false);
            weft_tensor *bytes = weft_scatter_add(weft_full(ctx, WEFT_DTYPE_I8, DIMS(axis), 2), 0, index, weft_full(ctx, WEFT_DTYPE_I8, DIMS(n), 1));
            const float last[3] = {(float)(n + 2), (float)(n - 1), (float)(int8_t)(n + 2)};
            weft_tensor *results[4] = {sum, set, bytes, most};
            for (int k = 0; k < 4; k++) {
                weft_tensor *at_index = weft_slice(results[k], 0, axis - 1, axis, 1), *others = weft_slice(results[k], 0, 0, axis - 1, 1);
                EXPECT(weft_cast(at_index, WEFT_DTYPE_F32), 0, last[k == 3 ? 1 : k]);
                EXPECT(weft_sum(weft_cast(others, WEFT_DTYPE_F32), NULL, 0, false), 0, 2.0f * (float)(axis - 1));
            }
        }
    }
}

/* Keys of nothing but the last, which a loop that ends early never reaches. */
TEST(attention_reaches_the_last_key)
{
    static const int64_t widths[] = {1, 4, 8, 64}, keys[] = {21840, 21850, 32767, 32768, 16390, 3640, 3645, 3855, 3860};
    for (int w = 0; w < 4; w++)
        for (int i = 0; i < 9; i++) {
            const int64_t d = widths[w], n = keys[i];
            if (n * d > 300000)
                continue;
            weft_tensor *k = weft_cat((weft_tensor *[]){FULL(0, 1, 1, n - 1, d), FULL((double)n, 1, 1, 1, d)}, 2, 2);
            weft_tensor *y = weft_scaled_dot_product_attention(FULL(0, 1, 1, 2, d), k, k, NULL);
            EXPECT(weft_slice(weft_reshape(y, DIMS(2 * d)), 0, 2 * d - 1, 2 * d, 1), 1e-4f, 1);
        }
}

TEST(products_reach_the_end_of_long_rows)
{
    static const int64_t lengths[] = {65534, 65535, 65536, 140000};
    for (int i = 0; i < 4; i++) {
        const int64_t n = lengths[i];
        weft_tensor *row = weft_cat((weft_tensor *[]){FULL(0, 1, n - 1), FULL(1, 1, 1)}, 2, 1);
        EXPECT(weft_linear(row, weft_expand(row, DIMS(3, n)), NULL), 0, 1, 1, 1);
        EXPECT(weft_sum(weft_transpose(weft_expand(row, DIMS(3, n)), 0, 1), (int[]){0}, 1, false), 0, 1, 1, 1);
        EXPECT(weft_slice(weft_cumsum(weft_expand(row, DIMS(2, n)), 1), 1, n - 1, n, 1), 0, 1, 1);
        EXPECT(weft_topk(weft_expand(row, DIMS(2, n)), 1, &(weft_tensor *){NULL}), 0, (float)(n - 1), (float)(n - 1));
    }
    for (int64_t blocks = 6552; blocks <= 7300; blocks += 187) { /* q8_0, of which the last block alone is not 0 */
        uint8_t *w = calloc((size_t)blocks, 34);
        assert_non_null(w);
        w[34 * (blocks - 1) + 1] = 0x3c;
        w[34 * (blocks - 1) + 33] = 3;
        weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_Q8_0, DIMS(1, 32 * blocks), w);
        EXPECT(weft_linear(FULL(1, 2, 32 * blocks), t, NULL), 0, 3, 3);
        free(w);
    }
}

#define FAULTS_LIMITS                                                                                                    \
    cmocka_unit_test(an_elementwise_op_passes_65535_work_groups), cmocka_unit_test(softmax_over_4194241_rows_of_1_is_ones), \
        cmocka_unit_test(a_batch_of_65536_products_of_1_by_1), cmocka_unit_test(reductions_of_more_rows_than_work_groups), \
        cmocka_unit_test(the_sum_of_2_to_25_ones_is_exact), cmocka_unit_test(a_table_larger_than_a_binding_is_read_in_parts), \
        cmocka_unit_test(an_embedding_of_151936_by_1024_fits_under_a_binding_of_128_mib),                                \
        cmocka_unit_test(as_many_indices_as_there_are_may_point_at_one_element), cmocka_unit_test(attention_reaches_the_last_key), \
        cmocka_unit_test(products_reach_the_end_of_long_rows), cmocka_unit_test(more_inputs_than_buffers_are_joined),                                                           \
        cmocka_unit_test(a_tebibyte_is_out_of_memory_and_1_plus_1_still_works), cmocka_unit_test(counts_past_32_and_64_bits_are_no_wrap)

#endif
