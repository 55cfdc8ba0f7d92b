/* test_runtime.c - evaluation end to end through the public interface, on the device WEFT_TEST_DEVICE names
 * (default: cpu). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "weft/weft.h"

static weft_ctx *ctx;

static int open_ctx(void **state)
{
    (void)state;
    const char *device = getenv("WEFT_TEST_DEVICE");
    weft_ctx_opts opts = {.device = device ? device : "cpu"};
    if (weft_ctx_open(&opts, &ctx) != WEFT_OK) {
        print_message("%s\n", weft_error_message());
        return -1;
    }
    return 0;
}

static int close_ctx(void **state)
{
    (void)state;
    weft_ctx_close(ctx);
    return 0;
}

static weft_tensor *f32(int rank, const int64_t *shape, const float *v)
{
    return weft_tensor_from(ctx, WEFT_DTYPE_F32, rank, shape, v);
}
#define VEC(n, ...) f32(1, (int64_t[]){n}, (float[]){__VA_ARGS__})

static void expect(weft_tensor *t, int n, const float *want, float tolerance)
{
    float got[256];
    assert_int_equal(weft_tensor_numel(t), n);
    weft_status st = weft_read(t, got, sizeof(float) * (size_t)n);
    if (st != WEFT_OK)
        fail_msg("%s: %s", weft_status_name(st), weft_error_message());
    for (int i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= tolerance) && !(isnan(got[i]) && isnan(want[i])) && got[i] != want[i])
            fail_msg("element %d: got %.9g, expected %.9g", i, got[i], want[i]);
}
#define EXPECT(t, n, tol, ...) expect(t, n, (float[]){__VA_ARGS__}, tol)

static void two_views_of_one_storage_are_two_inputs(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *b = VEC(4, 1, 2, 3, 4);
    EXPECT(weft_add(weft_slice(b, 0, 0, 2, 1), weft_slice(b, 0, 2, 4, 1)), 2, 0, 4, 6);
    weft_scope_end(s);
}

static void flipped_sum_equals_its_copy(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = weft_reshape(weft_arange(ctx, WEFT_DTYPE_F32, 8, 0, 1), 2, (int64_t[]){2, 4});
    EXPECT(weft_sum(weft_flip(x, 0), (int[]){0}, 1, false), 4, 0, 4, 6, 8, 10);
    EXPECT(weft_sum(x, NULL, 0, false), 1, 0, 28);
    EXPECT(weft_mean(weft_transpose(x, 0, 1), (int[]){1}, 1, false), 4, 0, 2, 3, 4, 5);
    weft_scope_end(s);
}

static void transposed_matmul_equals_its_copy(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = weft_reshape(weft_arange(ctx, WEFT_DTYPE_F32, 6, 0, 1), 2, (int64_t[]){2, 3});
    weft_tensor *ones = weft_full(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){2, 2}, 1);
    EXPECT(weft_matmul(weft_transpose(x, 0, 1), ones), 6, 0, 3, 3, 5, 5, 7, 7);
    EXPECT(weft_matmul(weft_zeros(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){2, 0}), weft_zeros(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){0, 3})),
           6, 0, 0, 0, 0, 0, 0, 0);
    weft_scope_end(s);
}

static void elementwise_chain_is_one_dispatch(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_stats before, after;
    weft_tensor *a = VEC(4, 1, -2, 3, -4), *b = VEC(4, 2, 2, 2, 2), *c = VEC(4, 1, 1, 1, 1);
    weft_tensor *y = weft_sub(weft_relu(weft_add(weft_mul(a, b), c)), c);
    weft_ctx_stats(ctx, &before);
    EXPECT(y, 4, 0, 2, -1, 6, -1);
    weft_ctx_stats(ctx, &after);
    assert_int_equal(after.dispatches - before.dispatches, 1);
    assert_int_equal(after.submits - before.submits, 1);
    weft_scope_end(s);
}

static void softmax_of_all_minus_inf_is_nan(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    EXPECT(weft_softmax(VEC(2, -INFINITY, -INFINITY), 0), 2, 0, NAN, NAN);
    EXPECT(weft_softmax(VEC(2, 3.4e38f, 0), 0), 2, 0, 1, 0);
    EXPECT(weft_softmax(VEC(2, 0, 0), 0), 2, 1e-7f, 0.5f, 0.5f);
    EXPECT(weft_max(VEC(3, 1, NAN, 2), NULL, 0, false), 1, 0, NAN);
    weft_scope_end(s);
}

static void norms_match_their_formulas(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = VEC(4, 1, 2, 3, 4), *w = VEC(4, 1, 1, 2, 1);
    float r = 1 / sqrtf(7.5f);
    EXPECT(weft_rms_norm(x, w, 0, -1), 4, 1e-6f, r, 2 * r, 6 * r, 4 * r);
    float d = 1 / sqrtf(1.25f);
    EXPECT(weft_layer_norm(x, NULL, NULL, 0, -1), 4, 1e-6f, -1.5f * d, -0.5f * d, 0.5f * d, 1.5f * d);
    weft_scope_end(s);
}

static void linear_adds_bias_and_activates_in_one_dispatch(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_stats before, after;
    weft_tensor *x = f32(2, (int64_t[]){1, 2}, (float[]){1, 2});
    weft_tensor *w = f32(2, (int64_t[]){3, 2}, (float[]){1, 0, 0, 1, -1, -1});
    weft_tensor *y = weft_linear(x, w, &(weft_linear_opts){.bias = VEC(3, 1, 1, 1), .activation = WEFT_ACT_RELU});
    weft_ctx_stats(ctx, &before);
    EXPECT(y, 3, 1e-6f, 2, 3, 0);
    weft_ctx_stats(ctx, &after);
    assert_int_equal(after.dispatches - before.dispatches, 1);
    weft_scope_end(s);
}

static void rope_rotates_the_right_pairs(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = f32(2, (int64_t[]){1, 4}, (float[]){1, 2, 3, 4});
    weft_tensor *one = weft_scalar_i32(ctx, 1);
    float c0 = cosf(1), s0 = sinf(1), c1 = cosf(0.01f), s1 = sinf(0.01f);
    EXPECT(weft_rope(x, &(weft_rope_opts){.offset = one}), 4, 2e-6f, c0 - 3 * s0, 2 * c1 - 4 * s1, 3 * c0 + s0, 4 * c1 + 2 * s1);
    EXPECT(weft_rope(x, &(weft_rope_opts){.offset = one, .interleaved = true}), 4, 2e-6f, c0 - 2 * s0, 2 * c0 + s0, 3 * c1 - 4 * s1,
           4 * c1 + 3 * s1);
    weft_scope_end(s);
}

static void grouped_query_attention_reads_its_head(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *q = weft_full(ctx, WEFT_DTYPE_F32, 4, (int64_t[]){1, 4, 1, 5}, 1);
    weft_tensor *k = weft_full(ctx, WEFT_DTYPE_F32, 4, (int64_t[]){1, 2, 3, 5}, 1);
    weft_tensor *v = weft_expand(f32(4, (int64_t[]){1, 2, 1, 1}, (float[]){1, 2}), 4, (int64_t[]){1, 2, 3, 5});
    weft_tensor *y = weft_scaled_dot_product_attention(q, k, v, NULL);
    EXPECT(weft_slice(y, 3, 0, 1, 1), 4, 1e-6f, 1, 1, 2, 2);
    weft_tensor *none = weft_full(ctx, WEFT_DTYPE_BOOL, 4, (int64_t[]){1, 1, 1, 3}, 0);
    EXPECT(weft_slice(weft_scaled_dot_product_attention(q, k, v, &(weft_attention_opts){.mask = none}), 3, 0, 1, 1), 4, 0, 0, 0, 0, 0);
    weft_scope_end(s);
}

static void an_update_leaves_the_old_value(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *a = VEC(4, 1, 2, 3, 4);
    weft_tensor *b = weft_slice_update(a, VEC(2, 8, 9), 0, weft_scalar_i32(ctx, 1));
    EXPECT(b, 4, 0, 1, 8, 9, 4);
    EXPECT(a, 4, 0, 1, 2, 3, 4);
    weft_scope_end(s);
}

static void an_update_nobody_else_sees_is_in_place(void **state)
{
    (void)state;
    weft_tensor *cache = weft_zeros(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){64});
    assert_int_equal(weft_eval(&cache, 1), WEFT_OK);
    weft_stats before, after;
    weft_ctx_stats(ctx, &before);
    for (int i = 0; i < 50; i++) {
        float v = (float)i;
        weft_tensor *src = f32(1, (int64_t[]){1}, &v), *at = weft_scalar_i32(ctx, i);
        weft_tensor *next = weft_slice_update(cache, src, 0, at);
        weft_tensor_release(cache);
        weft_tensor_release(src);
        weft_tensor_release(at);
        cache = next;
        assert_int_equal(weft_eval(&cache, 1), WEFT_OK);
    }
    weft_ctx_stats(ctx, &after);
    assert_int_equal(after.copies, before.copies);
    assert_true(after.plans_built - before.plans_built <= 2);
    assert_true(after.buffers_created - before.buffers_created <= 4);
    float got[64];
    assert_int_equal(weft_read(cache, got, sizeof got), WEFT_OK);
    for (int i = 0; i < 50; i++)
        assert_true(got[i] == (float)i);
    weft_tensor_release(cache);
}

static void an_index_outside_is_an_error_and_the_context_goes_on(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    float got[4];
    weft_tensor *x = VEC(4, 1, 2, 3, 4);
    weft_tensor *bad = weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, (int64_t[]){2}, (int32_t[]){1, 4});
    assert_int_equal(weft_read(weft_index_select(x, 0, bad), got, 8), WEFT_E_INDEX);
    weft_tensor *good = weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, (int64_t[]){2}, (int32_t[]){-1, 2});
    EXPECT(weft_index_select(x, 0, good), 2, 0, 4, 3);
    weft_scope_end(s);
}

static void an_index_outside_is_found_inside_the_epilogue_of_a_product(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    float got[6];
    weft_tensor *x = f32(2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4}), *m = f32(2, (int64_t[]){3, 2}, (float[]){1, 0, 0, 1, 1, 1});
    weft_tensor *rows = f32(2, (int64_t[]){4, 3}, (float[]){1, 2, 3, 10, 20, 30, 100, 200, 300, 7, 8, 9});
    weft_tensor *bad = weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, (int64_t[]){2}, (int32_t[]){1, 77});
    weft_tensor *good = weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, (int64_t[]){2}, (int32_t[]){-2, 0});
    assert_int_equal(weft_read(weft_add(weft_linear(x, m, NULL), weft_index_select(rows, 0, bad)), got, sizeof got), WEFT_E_INDEX);
    weft_tensor *product = weft_matmul(x, weft_transpose(m, 0, 1));
    assert_int_equal(weft_read(weft_add(product, weft_index_select(rows, 0, bad)), got, sizeof got), WEFT_E_INDEX);
    EXPECT(weft_add(weft_linear(x, m, NULL), weft_index_select(rows, 0, good)), 6, 0, 101, 202, 303, 4, 6, 10);
    weft_scope_end(s);
}

static void cat_and_topk_and_casts(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *a = VEC(2, 1, 5), *b = VEC(3, 9, 2, 7), *values;
    weft_tensor *c = weft_cat((weft_tensor *[]){a, b}, 2, 0);
    EXPECT(c, 5, 0, 1, 5, 9, 2, 7);
    weft_tensor *i = weft_topk(c, 3, &values);
    EXPECT(values, 3, 0, 9, 7, 5);
    int32_t ids[3];
    assert_int_equal(weft_read(i, ids, sizeof ids), WEFT_OK);
    assert_int_equal(ids[0], 2);
    assert_int_equal(ids[1], 4);
    assert_int_equal(ids[2], 1);
    weft_tensor *h = weft_cast(VEC(3, 65519, 65520, 1e-7f), WEFT_DTYPE_F16);
    uint16_t bits[3];
    assert_int_equal(weft_read(h, bits, sizeof bits), WEFT_OK);
    assert_int_equal(bits[0], 0x7bff);
    assert_int_equal(bits[1], 0x7c00);
    assert_int_equal(bits[2], 2);
    weft_scope_end(s);
}

static void doubles_compute_everywhere(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    double got[2], v[2] = {1.0 / 3.0, 1e300};
    weft_tensor *x = weft_tensor_from(ctx, WEFT_DTYPE_F64, 1, (int64_t[]){2}, v);
    weft_status st = weft_read(weft_add(x, x), got, sizeof got);
    if (st != WEFT_OK)
        fail_msg("%s", weft_error_message());
    assert_true(got[0] == 2.0 / 3.0 && got[1] == 2e300);
    weft_scope_end(s);
}

static void a_long_row_sums_exactly_and_fuses_what_follows(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = weft_contiguous(weft_full(ctx, WEFT_DTYPE_F32, 3, (int64_t[]){2, 512, 300}, 1));
    assert_int_equal(weft_eval(&x, 1), WEFT_OK);
    weft_tensor *twice = weft_mul(x, weft_scalar_f32(ctx, 2));
    weft_tensor *sum = weft_add(weft_sum(twice, (int[]){1, 2}, 2, false), VEC(2, 1, 2));
    EXPECT(sum, 2, 0, 307201, 307202);
    EXPECT(weft_mean(x, NULL, 0, true), 1, 0, 1);
    EXPECT(weft_max(weft_permute(x, (int[]){2, 0, 1}), (int[]){0, 2}, 2, true), 2, 0, 1, 1);
    weft_scope_end(s);
}

static void a_node_used_twice_at_each_level_is_emitted_once(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = VEC(2, 1, 0.5f);
    for (int i = 0; i < 50; i++)
        x = weft_mul(x, x);
    EXPECT(x, 2, 0, 1, 0);
    weft_tensor *y = VEC(2, 0, 0);
    for (int i = 0; i < 80; i++)
        y = weft_gelu_tanh(y);
    EXPECT(y, 2, 0, 0, 0);
    weft_scope_end(s);
}

static void every_result_may_read_all_earlier_ones(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *w = f32(2, (int64_t[]){2, 2}, (float[]){1, 0, 0, 1}), *all[7];
    all[0] = f32(2, (int64_t[]){1, 2}, (float[]){1, 2});
    for (int i = 1; i < 7; i++) {
        all[i] = weft_linear(all[i - 1], w, NULL);
        for (int j = 0; j < i; j++)
            all[i] = weft_add(all[i], all[j]);
    }
    EXPECT(all[6], 2, 0, 233, 466);
    weft_scope_end(s);
}

static void a_mean_counts_past_two_to_the_31(void **state)
{
    (void)state;
    /* More points than a shader counts: elsewhere than on the CPU this is a planned fall-back. */
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *ones = weft_expand(VEC(1, 1), 2, (int64_t[]){40000, 65536});
    EXPECT(weft_mean(ones, NULL, 0, false), 1, 1e-3f, 1);
    weft_scope_end(s);
}

static void a_start_outside_is_an_error_whatever_holds_it(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    float got[6];
    weft_tensor *x = VEC(6, 1, 2, 3, 4, 5, 6), *two = VEC(2, 8, 9);
    for (int32_t start = -1; start <= 5; start += 6) {
        weft_tensor *at = weft_tensor_from(ctx, WEFT_DTYPE_I32, 0, NULL, &start);
        assert_int_equal(weft_read(weft_slice_update(x, two, 0, at), got, sizeof got), WEFT_E_INDEX);
    }
    int32_t start = 4;
    EXPECT(weft_slice_update(x, two, 0, weft_tensor_from(ctx, WEFT_DTYPE_I32, 0, NULL, &start)), 6, 0, 1, 2, 3, 4, 8, 9);
    weft_scope_end(s);
}

static void rank_eight_reduces(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    const int64_t shape[8] = {2, 2, 2, 2, 2, 2, 2, 2};
    weft_tensor *x = weft_reshape(weft_arange(ctx, WEFT_DTYPE_F32, 256, 0, 1), 8, shape);
    assert_int_equal(weft_eval(&x, 1), WEFT_OK);
    weft_tensor *p = weft_flip(weft_permute(x, (int[]){7, 3, 5, 1, 6, 0, 4, 2}), 3);
    EXPECT(weft_sum(p, NULL, 0, false), 1, 0, 32640);
    EXPECT(weft_max(weft_neg(p), NULL, 0, false), 1, 0, 0);
    weft_scope_end(s);
}

static void a_cancelled_evaluation_is_reported_once(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = weft_add(VEC(2, 1, 2), VEC(2, 1, 2));
    float got[2];
    weft_cancel(ctx);
    assert_int_equal(weft_read(x, got, sizeof got), WEFT_E_CANCELLED);
    EXPECT(x, 2, 0, 2, 4);
    weft_scope_end(s);
}

/* Every operand here is larger than a binding of 64 KiB. */
static void tensors_larger_than_a_binding_compute(void **state)
{
    (void)state;
    const char *device = getenv("WEFT_TEST_DEVICE");
    weft_ctx_opts opts = {.device = device ? device : "cpu", .max_binding_bytes = 65536};
    weft_ctx *keep = ctx;
    assert_int_equal(weft_ctx_open(&opts, &ctx), WEFT_OK);
    weft_scope *s = weft_scope_begin(ctx);
    enum { R = 301, C = 100 };
    float *x = malloc(sizeof(float) * R * C), *got = malloc(sizeof(float) * R * R);
    for (int i = 0; i < R * C; i++)
        x[i] = (float)(i % 7) - 3;
    weft_tensor *t = f32(2, (int64_t[]){R, C}, x);
    weft_tensor *y = weft_mul(weft_add(t, weft_flip(t, 0)), weft_slice(t, 0, 0, 1, 1));
    weft_status st = weft_read(y, got, sizeof(float) * R * C);
    if (st != WEFT_OK)
        fail_msg("%s", weft_error_message());
    for (int i = 0; i < R; i++)
        for (int j = 0; j < C; j++)
            assert_true(got[i * C + j] == (x[i * C + j] + x[(R - 1 - i) * C + j]) * x[j]);
    assert_int_equal(weft_read(weft_sum(t, (int[]){1}, 1, false), got, sizeof(float) * R), WEFT_OK);
    for (int i = 0; i < R; i++) {
        float sum = 0;
        for (int j = 0; j < C; j++)
            sum += x[i * C + j];
        assert_true(got[i] == sum);
    }
    int32_t ids[3] = {300, 0, 177};
    weft_tensor *rows = weft_embedding(t, weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, (int64_t[]){3}, ids));
    assert_int_equal(weft_read(rows, got, sizeof(float) * 3 * C), WEFT_OK);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(got + i * C, x + ids[i] * C, sizeof(float) * C);
    st = weft_read(weft_linear(t, t, NULL), got, sizeof(float) * R * R);
    if (st != WEFT_OK)
        fail_msg("%s", weft_error_message());
    for (int i = 0; i < R; i += 13)
        for (int j = 0; j < R; j++) {
            float dot = 0;
            for (int k = 0; k < C; k++)
                dot += x[i * C + k] * x[j * C + k];
            if (got[i * R + j] != dot)
                fail_msg("linear [%d, %d]: %g, expected %g", i, j, got[i * R + j], dot);
        }
    free(x);
    free(got);
    weft_scope_end(s);
    weft_ctx_close(ctx);
    ctx = keep;
}

static void a_deep_chain_evaluates(void **state)
{
    (void)state;
    weft_tensor *x = VEC(1, 0), *one = VEC(1, 1);
    for (int i = 0; i < 20000; i++) {
        weft_tensor *y = weft_add(x, one);
        weft_tensor_release(x);
        x = y;
    }
    EXPECT(x, 1, 0, 20000);
    weft_tensor_release(x);
    weft_tensor_release(one);
}

static void count_call(void *user) { ++*(int *)user; }

static void borrowed_memory_is_read_in_place_and_given_back_once(void **state)
{
    (void)state;
    enum { N = 5000 };
    static float memory[N + 2048];
    float *x = memory + 16 - (uintptr_t)memory / 4 % 16, got[N]; /* aligned, and with room behind it */
    int given_back = 0;
    const int64_t n = N, too_many[] = {(int64_t)1 << 40, (int64_t)1 << 40};
    const void *at = NULL;
    int64_t stride = 0;
    while (((uintptr_t)(x + N) - 1) % 4096 + 64 >= 4096)
        x += 16;
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    weft_device_info device;
    assert_int_equal(weft_ctx_device(ctx, &device), WEFT_OK);
    bool in_place = strcmp(device.kind, "cpu") == 0;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *t = weft_tensor_borrow(ctx, WEFT_DTYPE_F32, 1, &n, x, count_call, &given_back);
    assert_int_equal(given_back, !in_place);
    weft_tensor *back = weft_slice(t, 0, WEFT_INDEX_NONE, WEFT_INDEX_NONE, -1);
    if (in_place) {
        assert_int_equal(weft_tensor_map(back, &at, &stride), WEFT_OK);
        assert_ptr_equal(at, x + N - 1);
        assert_int_equal(stride, -1);
    } else {
        assert_int_equal(weft_tensor_map(back, &at, &stride), WEFT_E_UNSUPPORTED);
    }
    weft_tensor *changed = weft_slice_update(weft_tensor_borrow(ctx, WEFT_DTYPE_F32, 1, &n, x, NULL, NULL), weft_full(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){1}, 9), 0,
                                             weft_scalar_i32(ctx, 3));
    assert_int_equal(weft_read(changed, got, sizeof got), WEFT_OK);
    assert_true(got[3] == 9 && x[3] == 3);
    weft_tensor_borrow(ctx, WEFT_DTYPE_F32, 2, too_many, x, count_call, &given_back); /* fails, and is told */
    assert_int_equal(given_back, 1 + !in_place);
    weft_scope_end(scope);
    assert_int_equal(given_back, 2);
}

/* A value of the environment that nobody knows: opening fails with one sentence that names the variable, the value and what is known. */
static void an_unknown_value_of_the_environment_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *says;
    } bad[] = {
        {"WEFT_ISA", "sse9", "plain"},
        {"WEFT_BLAS", "opneblas", "openblas"},
        {"WEFT_BLAS", "/no/such/library.so", "none"},
        {"WEFT_LAPACK", "mkl", "none"},
        {"WEFT_THREADS", "two", "1024"},
        {"WEFT_THREADS", "0", "1024"},
        {"WEFT_NULL_REPLAY", "yes", "0, 1"},
        {"WEFT_WEBGPU_NULL", "2", "0, 1"},
        {"WEFT_FUSE", "off", "0, 1"},
        {"WEFT_WEBGPU_OFF", "f16,subgruops", "subgroups"},
        {"WEFT_FALLBACK", "ignore", "error"},
        {"WEFT_LIMITS", "binding", "NAME=NUMBER"},
        {"WEFT_LIMITS", "buffers=4294967304", "4294967295"},
        {"WEFT_LIMITS", "invocations=0", "no number"},
        {"WEFT_LIMITS", "binding=64k", "no number"},
    };
    static const char *const good[][2] = {{"WEFT_ISA", "plain"}, {"WEFT_BLAS", "none"}, {"WEFT_LAPACK", "none"}, {"WEFT_THREADS", "1"},
                                          {"WEFT_NULL_REPLAY", "0"}, {"WEFT_FUSE", "1"}, {"WEFT_WEBGPU_OFF", "timestamp-query,f16"},
                                          {"WEFT_ISA", ""}, {"WEFT_BLAS", ""}, {"WEFT_LAPACK", ""}, {"WEFT_WEBGPU_OFF", ""}};
    static const char *const devices[] = {"cpu", "null"};
    for (size_t d = 0; d < 2; d++) {
        weft_ctx_opts opts = {.device = devices[d]};
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            char before[200] = "";
            const char *was = getenv(bad[i].name);
            weft_ctx *c = NULL;
            if (was)
                snprintf(before, sizeof before, "%s", was);
            setenv(bad[i].name, bad[i].value, 1);
            weft_status st = weft_ctx_open(&opts, &c);
            if (was)
                setenv(bad[i].name, before, 1);
            else
                unsetenv(bad[i].name);
            const char *says = weft_error_message();
            if (st != WEFT_E_VALUE || c || !strstr(says, bad[i].name) || !strstr(says, bad[i].says) || !strstr(says, strrchr(bad[i].value, ',') ? "subgruops" : bad[i].value))
                fail_msg("%s=%s on %s: %s: %s", bad[i].name, bad[i].value, devices[d], weft_status_name(st), says);
        }
        for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
            weft_ctx *c = NULL;
            const char *was = getenv(good[i][0]);
            if (was)
                continue; /* this run is about another value */
            setenv(good[i][0], good[i][1], 1);
            weft_status st = weft_ctx_open(&opts, &c);
            unsetenv(good[i][0]);
            if (st != WEFT_OK)
                fail_msg("%s=%s on %s: %s", good[i][0], good[i][1], devices[d], weft_error_message());
            weft_ctx_close(c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(borrowed_memory_is_read_in_place_and_given_back_once),
        cmocka_unit_test(two_views_of_one_storage_are_two_inputs),
        cmocka_unit_test(flipped_sum_equals_its_copy),
        cmocka_unit_test(transposed_matmul_equals_its_copy),
        cmocka_unit_test(elementwise_chain_is_one_dispatch),
        cmocka_unit_test(softmax_of_all_minus_inf_is_nan),
        cmocka_unit_test(norms_match_their_formulas),
        cmocka_unit_test(linear_adds_bias_and_activates_in_one_dispatch),
        cmocka_unit_test(rope_rotates_the_right_pairs),
        cmocka_unit_test(grouped_query_attention_reads_its_head),
        cmocka_unit_test(an_update_leaves_the_old_value),
        cmocka_unit_test(an_update_nobody_else_sees_is_in_place),
        cmocka_unit_test(an_index_outside_is_an_error_and_the_context_goes_on),
        cmocka_unit_test(an_index_outside_is_found_inside_the_epilogue_of_a_product),
        cmocka_unit_test(cat_and_topk_and_casts),
        cmocka_unit_test(doubles_compute_everywhere),
        cmocka_unit_test(a_long_row_sums_exactly_and_fuses_what_follows),
        cmocka_unit_test(a_node_used_twice_at_each_level_is_emitted_once),
        cmocka_unit_test(every_result_may_read_all_earlier_ones),
        cmocka_unit_test(a_mean_counts_past_two_to_the_31),
        cmocka_unit_test(a_start_outside_is_an_error_whatever_holds_it),
        cmocka_unit_test(rank_eight_reduces),
        cmocka_unit_test(an_unknown_value_of_the_environment_is_an_error),
        cmocka_unit_test(a_cancelled_evaluation_is_reported_once),
        cmocka_unit_test(tensors_larger_than_a_binding_compute),
        cmocka_unit_test(a_deep_chain_evaluates),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
