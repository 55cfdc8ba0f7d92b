/* test_shape.c - shape operations against the values that NumPy gives for the same expressions, what is a view and what
 * copies, and what bad arguments say. Runs on the device that WEFT_TEST_DEVICE names (default: cpu).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device_fixture.h"
#include "node.h"

/* 0, 1, .. as a leaf, so that nothing is folded into a constant. */
static weft_tensor *iota(int64_t n)
{
    float data[64];
    for (int i = 0; i < 64; i++)
        data[i] = (float)i;
    return weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, &n, data);
}
static weft_tensor *shaped(int n, const int64_t *shape, int64_t count) { return weft_reshape(iota(count), n, shape); }
static weft_tensor *x24(void) { return shaped(3, (int64_t[]){2, 3, 4}, 24); }
static weft_tensor *m34(void) { return shaped(2, (int64_t[]){3, 4}, 12); }
static weft_tensor *m43(void) { return shaped(2, (int64_t[]){4, 3}, 12); }
static weft_tensor *x0(void) { return weft_zeros(ctx, WEFT_DTYPE_F32, 3, (int64_t[]){2, 0, 3}); }
static weft_tensor *number(float v) { return weft_tensor_from(ctx, WEFT_DTYPE_F32, 0, NULL, &v); }

/* The shape and the values; many values are "# sum of value i times (i % 997 + 1)". */
static void is(weft_tensor *t, const char *shape, const char *values)
{
    static float got[4096];
    char text[200] = "";
    if (weft_tensor_status(t) != WEFT_OK)
        fail_msg("%s", weft_tensor_message(t));
    for (int k = 0, at = 0; k < weft_tensor_rank(t); k++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld", k ? "," : "", (long long)weft_tensor_shape(t)[k]);
    assert_string_equal(text, shape);
    int64_t n = weft_tensor_numel(t);
    assert_true(n <= 4096);
    if (weft_read_as(t, WEFT_DTYPE_F32, got, (size_t)n * 4) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    if (*values == '#') {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += (double)got[i] * (double)(i % 997 + 1);
        assert_true(sum == strtod(values + 1, NULL));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        char *end;
        double want = strtod(values, &end);
        if (end == values || (double)got[i] != want)
            fail_msg("element %lld of [%s] is %g, expected %g", (long long)i, shape, (double)got[i], want);
        values = end;
    }
}

static void shapes_and_axes(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    is(weft_view(x24(), 2, (int64_t[]){4, -1}), "4,6", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23");
    is(weft_flatten(x24(), 1, -1), "2,12", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23");
    is(weft_flatten(weft_transpose(x24(), 0, 1), 0, 1), "6,4", "0 1 2 3 12 13 14 15 4 5 6 7 16 17 18 19 8 9 10 11 20 21 22 23");
    is(weft_flatten(number(7), 0, -1), "1", "7");
    is(weft_unflatten(x24(), -1, 2, (int64_t[]){2, -1}), "2,3,2,2", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23");
    is(weft_movedim(x24(), 2, (int[]){0, 1}, (int[]){-1, 0}), "3,4,2", "0 12 1 13 2 14 3 15 4 16 5 17 6 18 7 19 8 20 9 21 10 22 11 23");
    is(weft_movedim(x24(), 1, (int[]){2}, (int[]){0}), "4,2,3", "0 4 8 12 16 20 1 5 9 13 17 21 2 6 10 14 18 22 3 7 11 15 19 23");
    is(weft_squeeze_axes(weft_reshape(x24(), 3, (int64_t[]){1, 24, 1}), NULL, 0), "24", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23");
    is(weft_squeeze_axes(weft_reshape(x24(), 3, (int64_t[]){1, 24, 1}), (int[]){0, 1}, 2), "24,1", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23");
    is(weft_atleast(number(7), 1), "1", "7");
    is(weft_atleast(number(7), 3), "1,1,1", "7");
    is(weft_atleast(iota(3), 2), "1,3", "0 1 2");
    is(weft_atleast(iota(3), 3), "1,3,1", "0 1 2");
    is(weft_atleast(m34(), 3), "3,4,1", "0 1 2 3 4 5 6 7 8 9 10 11");
    is(weft_atleast(m34(), 1), "3,4", "0 1 2 3 4 5 6 7 8 9 10 11");
    weft_scope_end(scope);
}

static void parts_and_orders(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    is(weft_narrow(x24(), 1, -2, 2), "2,2,4", "4 5 6 7 8 9 10 11 16 17 18 19 20 21 22 23");
    is(weft_select(x24(), 1, -1), "2,4", "8 9 10 11 20 21 22 23");
    is(weft_flip_axes(x24(), (int[]){0, -1}, 2), "2,3,4", "15 14 13 12 19 18 17 16 23 22 21 20 3 2 1 0 7 6 5 4 11 10 9 8");
    is(weft_flip_axes(x24(), NULL, 0), "2,3,4", "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23");
    is(weft_rot90(m34(), 0, 0, 1), "3,4", "0 1 2 3 4 5 6 7 8 9 10 11");
    is(weft_rot90(m34(), 1, 0, 1), "4,3", "3 7 11 2 6 10 1 5 9 0 4 8");
    is(weft_rot90(m34(), 2, 0, 1), "3,4", "11 10 9 8 7 6 5 4 3 2 1 0");
    is(weft_rot90(m34(), 3, 0, 1), "4,3", "8 4 0 9 5 1 10 6 2 11 7 3");
    is(weft_rot90(m34(), -1, 0, 1), "4,3", "8 4 0 9 5 1 10 6 2 11 7 3");
    is(weft_rot90(m34(), 5, 0, 1), "4,3", "3 7 11 2 6 10 1 5 9 0 4 8");
    is(weft_rot90(x24(), 1, 2, 0), "4,3,2", "12 0 16 4 20 8 13 1 17 5 21 9 14 2 18 6 22 10 15 3 19 7 23 11");
    is(weft_diagonal(m34(), 0, 0, 1), "3", "0 5 10");
    is(weft_diagonal(m34(), 1, 0, 1), "3", "1 6 11");
    is(weft_diagonal(m34(), -1, 0, 1), "2", "4 9");
    is(weft_diagonal(m34(), 3, 0, 1), "1", "3");
    is(weft_diagonal(m34(), -2, 0, 1), "1", "8");
    is(weft_diagonal(m34(), 9, 0, 1), "0", "");
    is(weft_diagonal(m34(), -9, 0, 1), "0", "");
    is(weft_diagonal(x24(), 1, -1, 0), "3,1", "12 16 20");
    is(weft_diagonal(weft_flip(x24(), 1), 0, 1, 2), "2,3", "8 5 2 20 17 14");
    is(weft_unfold(iota(7), 0, 3, 2), "3,3", "0 1 2 2 3 4 4 5 6");
    is(weft_unfold(x24(), 1, 2, 1), "2,2,4,2", "0 4 1 5 2 6 3 7 4 8 5 9 6 10 7 11 12 16 13 17 14 18 15 19 16 20 17 21 18 22 19 23");
    is(weft_unfold(weft_flip(m34(), 1), 1, 4, 9), "3,1,4", "3 2 1 0 7 6 5 4 11 10 9 8");
    is(weft_add(weft_unfold(iota(6), 0, 3, 1), m43()), "4,3", "0 2 4 4 6 8 8 10 12 12 14 16");
    is(weft_sum(weft_unfold(weft_add(iota(7), iota(7)), 0, 3, 2), (int[]){1}, 1, false), "3", "6 18 30");
    weft_scope_end(scope);
}

static void repetition_and_joining(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    is(weft_repeat(m34(), 3, (int64_t[]){2, 1, 2}), "2,3,8", "0 1 2 3 0 1 2 3 4 5 6 7 4 5 6 7 8 9 10 11 8 9 10 11 0 1 2 3 0 1 2 3 4 5 6 7 4 5 6 7 8 9 10 11 8 9 10 11");
    is(weft_repeat(weft_transpose(m34(), 0, 1), 2, (int64_t[]){1, 3}), "4,9", "0 4 8 0 4 8 0 4 8 1 5 9 1 5 9 1 5 9 2 6 10 2 6 10 2 6 10 3 7 11 3 7 11 3 7 11");
    is(weft_repeat(m34(), 2, (int64_t[]){0, 2}), "0,8", "");
    is(weft_tile(x24(), 1, (int64_t[]){2}), "2,3,8", "0 1 2 3 0 1 2 3 4 5 6 7 4 5 6 7 8 9 10 11 8 9 10 11 12 13 14 15 12 13 14 15 16 17 18 19 16 17 18 19 20 21 22 23 20 21 22 23");
    is(weft_tile(number(7), 2, (int64_t[]){2, 2}), "2,2", "7 7 7 7");
    is(weft_tile(weft_reshape(iota(8), 5, (int64_t[]){2, 1, 2, 1, 2}), 5, (int64_t[]){2, 2, 1, 2, 2}), "4,2,2,2,4", "# 33536");
    is(weft_tile(weft_reshape(iota(32), 5, (int64_t[]){2, 2, 2, 2, 2}), 5, (int64_t[]){1, 2, 2, 2, 2}), "2,4,4,4,4", "# 2634752");
    is(weft_repeat_interleave(m34(), 2, 0), "6,4", "0 1 2 3 0 1 2 3 4 5 6 7 4 5 6 7 8 9 10 11 8 9 10 11");
    is(weft_repeat_interleave(m34(), 3, -1), "3,12", "0 0 0 1 1 1 2 2 2 3 3 3 4 4 4 5 5 5 6 6 6 7 7 7 8 8 8 9 9 9 10 10 10 11 11 11");
    is(weft_repeat_interleave(m34(), 0, 1), "3,0", "");
    is(weft_repeat_interleave(weft_reshape(iota(8), 8, (int64_t[]){1, 1, 2, 2, 1, 1, 2, 1}), 2, 3), "1,1,2,4,1,1,2,1", "0 1 0 1 2 3 2 3 4 5 4 5 6 7 6 7");
    is(weft_kron(m34(), weft_reshape(iota(2), 2, (int64_t[]){1, 2})), "3,8", "0 0 0 1 0 2 0 3 0 4 0 5 0 6 0 7 0 8 0 9 0 10 0 11");
    is(weft_kron(iota(3), m34()), "3,12", "0 0 0 0 0 1 2 3 0 2 4 6 0 0 0 0 4 5 6 7 8 10 12 14 0 0 0 0 8 9 10 11 16 18 20 22");
    is(weft_kron(weft_reshape(iota(8), 4, (int64_t[]){2, 2, 2, 1}), weft_reshape(iota(8), 4, (int64_t[]){2, 2, 1, 2})), "4,4,2,2", "# 37744");
    is(weft_kron(weft_reshape(iota(32), 5, (int64_t[]){2, 2, 2, 2, 2}), weft_reshape(iota(32), 5, (int64_t[]){2, 2, 2, 2, 2})), "4,4,4,4,4", "# 159434141");
    is(weft_stack((weft_tensor *[]){m34(), m34()}, 2, -1), "3,4,2", "0 0 1 1 2 2 3 3 4 4 5 5 6 6 7 7 8 8 9 9 10 10 11 11");
    is(weft_stack((weft_tensor *[]){number(1), number(2)}, 2, 0), "2", "1 2");
    is(weft_hstack((weft_tensor *[]){iota(3), iota(2)}, 2), "5", "0 1 2 0 1");
    is(weft_hstack((weft_tensor *[]){m34(), m34()}, 2), "3,8", "0 1 2 3 0 1 2 3 4 5 6 7 4 5 6 7 8 9 10 11 8 9 10 11");
    is(weft_hstack((weft_tensor *[]){number(1), iota(2)}, 2), "3", "1 0 1");
    is(weft_vstack((weft_tensor *[]){iota(4), m34()}, 2), "4,4", "0 1 2 3 0 1 2 3 4 5 6 7 8 9 10 11");
    weft_scope_end(scope);
}

static void rolling_and_padding(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    is(weft_roll(m34(), (int64_t[]){-5}, NULL, 1), "3,4", "5 6 7 8 9 10 11 0 1 2 3 4");
    is(weft_roll(m34(), (int64_t[]){1}, (int[]){1}, 1), "3,4", "3 0 1 2 7 4 5 6 11 8 9 10");
    is(weft_roll(m34(), (int64_t[]){4, -1}, (int[]){0, -1}, 2), "3,4", "9 10 11 8 1 2 3 0 5 6 7 4");
    is(weft_roll(m34(), (int64_t[]){1, 1}, (int[]){0, 0}, 2), "3,4", "4 5 6 7 8 9 10 11 0 1 2 3");
    is(weft_roll(x0(), (int64_t[]){1}, (int[]){1}, 1), "2,0,3", "");
    is(weft_pad(m34(), 2, (int64_t[]){1, 2}, WEFT_PAD_CONSTANT, 7), "3,7", "7 0 1 2 3 7 7 7 4 5 6 7 7 7 7 8 9 10 11 7 7");
    is(weft_pad(m34(), 4, (int64_t[]){0, 1, 2, 0}, WEFT_PAD_CONSTANT, -1.5), "5,5", "-1.5 -1.5 -1.5 -1.5 -1.5 -1.5 -1.5 -1.5 -1.5 -1.5 0 1 2 3 -1.5 4 5 6 7 -1.5 8 9 10 11 -1.5");
    is(weft_pad(m34(), 4, (int64_t[]){-1, 1, 0, -2}, WEFT_PAD_CONSTANT, 9), "1,4", "1 2 3 9");
    is(weft_pad(m34(), 4, (int64_t[]){3, 2, 1, 2}, WEFT_PAD_REFLECT, 0), "6,9", "# 7251");
    is(weft_pad(m34(), 4, (int64_t[]){3, 1, 0, 2}, WEFT_PAD_REPLICATE, 0), "5,8", "0 0 0 0 1 2 3 3 4 4 4 4 5 6 7 7 8 8 8 8 9 10 11 11 8 8 8 8 9 10 11 11 8 8 8 8 9 10 11 11");
    is(weft_pad(m34(), 4, (int64_t[]){4, 1, 1, 3}, WEFT_PAD_CIRCULAR, 0), "7,9", "# 12256");
    is(weft_pad(x0(), 4, (int64_t[]){0, 0, 1, 1}, WEFT_PAD_CONSTANT, 2), "2,2,3", "2 2 2 2 2 2 2 2 2 2 2 2");
    is(weft_pad(weft_flip(weft_transpose(m34(), 0, 1), 0), 2, (int64_t[]){1, 1}, WEFT_PAD_REFLECT, 0), "4,5", "7 3 7 11 7 6 2 6 10 6 5 1 5 9 5 4 0 4 8 4");
    weft_scope_end(scope);
}

static void diagonals_and_pixels(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    is(weft_diag(iota(3), 0), "3,3", "0 0 0 0 1 0 0 0 2");
    is(weft_diag(iota(3), 1), "4,4", "0 0 0 0 0 0 1 0 0 0 0 2 0 0 0 0");
    is(weft_diag(iota(3), -2), "5,5", "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0 0 0 2 0 0");
    is(weft_diag(m34(), 1), "3", "1 6 11");
    is(weft_diag_embed(weft_reshape(iota(6), 2, (int64_t[]){2, 3}), 1, -2, -1), "2,4,4", "0 0 0 0 0 0 1 0 0 0 0 2 0 0 0 0 0 3 0 0 0 0 4 0 0 0 0 5 0 0 0 0");
    is(weft_diag_embed(weft_reshape(iota(6), 2, (int64_t[]){2, 3}), 1, -1, -2), "2,4,4", "0 0 0 0 0 0 0 0 0 1 0 0 0 0 2 0 0 0 0 0 3 0 0 0 0 4 0 0 0 0 5 0");
    is(weft_diag_embed(weft_reshape(iota(6), 2, (int64_t[]){2, 3}), 1, 0, 2), "4,2,4", "0 0 0 0 0 3 0 0 0 0 1 0 0 0 4 0 0 0 0 2 0 0 0 5 0 0 0 0 0 0 0 0");
    is(weft_pixel_shuffle(weft_reshape(iota(24), 4, (int64_t[]){1, 8, 1, 3}), 2), "1,2,2,6", "0 3 1 4 2 5 6 9 7 10 8 11 12 15 13 16 14 17 18 21 19 22 20 23");
    is(weft_pixel_unshuffle(weft_reshape(iota(16), 3, (int64_t[]){2, 2, 4}), 2), "8,1,2", "0 2 1 3 4 6 5 7 8 10 9 11 12 14 13 15");
    weft_scope_end(scope);
}

/* ---- lists ---- */

static void lists_of_parts(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *out[8];
    assert_int_equal(weft_split(iota(7), 3, 0, out, 8), 3);
    is(out[0], "3", "0 1 2");
    is(out[2], "1", "6");
    assert_int_equal(weft_split(x24(), 2, 1, out, 8), 2);
    is(out[1], "2,1,4", "8 9 10 11 20 21 22 23");
    assert_int_equal(weft_split(x0(), 5, 1, out, 8), 1);
    is(out[0], "2,0,3", "");
    assert_int_equal(weft_split_sizes(iota(7), 3, (int64_t[]){1, 0, 6}, -1, out, 8), 3);
    is(out[1], "0", "");
    is(out[2], "6", "1 2 3 4 5 6");
    assert_int_equal(weft_chunk(iota(7), 4, 0, out, 8), 4);
    is(out[3], "1", "6");
    assert_int_equal(weft_chunk(iota(5), 4, 0, out, 8), 3);
    assert_int_equal(weft_chunk(x0(), 3, 1, out, 8), 3);
    is(out[2], "2,0,3", "");
    assert_int_equal(weft_tensor_split(iota(7), 3, 0, out, 8), 3);
    is(out[0], "3", "0 1 2");
    is(out[2], "2", "5 6");
    assert_int_equal(weft_tensor_split(iota(2), 3, 0, out, 8), 3);
    is(out[2], "0", "");
    assert_int_equal(weft_tensor_split_at(iota(7), 3, (int64_t[]){2, -1, 9}, 0, out, 8), 4);
    is(out[0], "2", "0 1");
    is(out[1], "4", "2 3 4 5");
    is(out[2], "1", "6");
    is(out[3], "0", "");
    assert_int_equal(weft_unbind(x24(), 1, out, 8), 3);
    is(out[2], "2,4", "8 9 10 11 20 21 22 23");
    assert_int_equal(weft_unbind(x0(), 1, out, 8), 0);
    weft_tensor *xs[2] = {iota(2), iota(3)};
    assert_int_equal(weft_meshgrid(xs, 2, false, out, 8), 2);
    is(out[0], "2,3", "0 0 0 1 1 1");
    is(out[1], "2,3", "0 1 2 0 1 2");
    assert_int_equal(weft_meshgrid(xs, 2, true, out, 8), 2);
    is(out[0], "3,2", "0 1 0 1 0 1");
    is(out[1], "3,2", "0 0 1 1 2 2");
    weft_scope_end(scope);
}

/* ---- views ---- */

static uint64_t dispatches(void)
{
    weft_stats s;
    assert_int_equal(weft_ctx_stats(ctx, &s), WEFT_OK);
    return s.dispatches;
}

static void views_compute_nothing(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = x24(), *xt = weft_transpose(x, 0, 2), *out[8];
    assert_int_equal(weft_eval(&x, 1), WEFT_OK);
    uint64_t before = dispatches();
    weft_tensor *views[] = {
        weft_view(x, 2, (int64_t[]){6, 4}), weft_flatten(x, 0, 1), weft_unflatten(x, 2, 2, (int64_t[]){2, 2}), weft_movedim(x, 1, (int[]){0}, (int[]){2}),
        weft_squeeze_axes(x, NULL, 0), weft_narrow(x, 1, 1, 2), weft_select(x, 0, 1), weft_flip_axes(x, (int[]){0, 1}, 2), weft_rot90(x, 1, 0, 2),
        weft_diagonal(x, 0, 1, 2), weft_unfold(x, 2, 2, 1), weft_atleast(x, 1), weft_unflatten(xt, 0, 2, (int64_t[]){2, 2}), weft_diagonal(xt, -1, 0, 1),
        weft_view(xt, 4, (int64_t[]){2, 2, 3, 2}),
    };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        assert_int_equal(weft_eval(&views[i], 1), WEFT_OK);
    int n = weft_split(x, 1, 2, out, 8);
    assert_int_equal(weft_eval(out, n), WEFT_OK);
    n = weft_meshgrid((weft_tensor *[]){weft_flatten(x, 0, -1), weft_flatten(x, 0, -1)}, 2, true, out, 8);
    assert_int_equal(weft_eval(out, n), WEFT_OK);
    assert_int_equal(dispatches(), before);
    weft_scope_end(scope);
}

/* Other dtypes than f32 move the same way. */
static void every_dtype_moves(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_DTYPE_F16, WEFT_DTYPE_BF16, WEFT_DTYPE_I32, WEFT_DTYPE_U32, WEFT_DTYPE_I8, WEFT_DTYPE_U8, WEFT_DTYPE_F64, WEFT_DTYPE_I64};
    const char *device = getenv("WEFT_TEST_DEVICE");
    int n = device && strcmp(device, "cpu") != 0 ? 6 : 8;
    for (int i = 0; i < n; i++) {
        weft_scope *scope = weft_scope_begin(ctx);
        weft_tensor *m = weft_cast(m34(), dtypes[i]);
        weft_tensor *p = weft_pad(m, 4, (int64_t[]){1, 0, 1, 0}, WEFT_PAD_CONSTANT, 7);
        assert_int_equal(weft_tensor_dtype(p), dtypes[i]);
        is(p, "4,5", "7 7 7 7 7 7 0 1 2 3 7 4 5 6 7 7 8 9 10 11");
        is(weft_roll(m, (int64_t[]){1}, (int[]){1}, 1), "3,4", "3 0 1 2 7 4 5 6 11 8 9 10");
        is(weft_repeat_interleave(weft_narrow(m, 0, 1, 1), 2, 1), "1,8", "4 4 5 5 6 6 7 7");
        is(weft_diag_embed(weft_select(m, 0, 0), 0, 0, 1), "4,4", "0 0 0 0 0 1 0 0 0 0 2 0 0 0 0 3");
        weft_scope_end(scope);
    }
}

/* ---- errors ---- */

static void says(weft_tensor *t, weft_status st, const char *part)
{
    assert_string_equal(weft_status_name(weft_tensor_status(t)), weft_status_name(st));
    if (!strstr(weft_tensor_message(t), part))
        fail_msg("\"%s\" does not say \"%s\"", weft_tensor_message(t), part);
}

static void bad_arguments_say_what_is_wrong(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = x24(), *out[2], *nothing = NULL;
    says(weft_view(weft_transpose(x, 0, 1), 1, (int64_t[]){24}), WEFT_E_SHAPE, "strides of [3, 2, 4] allow no view as [24]");
    says(weft_flatten(x, 2, 1), WEFT_E_SHAPE, "start_dim 2 is behind end_dim 1");
    says(weft_unflatten(x, 1, 2, (int64_t[]){2, 2}), WEFT_E_SHAPE, "extent 3");
    says(weft_unflatten(x, 1, 2, (int64_t[]){-1, -1}), WEFT_E_SHAPE, "extent 3");
    says(weft_movedim(x, 2, (int[]){0, 0}, (int[]){1, 2}), WEFT_E_SHAPE, "axis 0 is named twice");
    says(weft_movedim(x, 1, (int[]){3}, (int[]){1}), WEFT_E_SHAPE, "axis 3 is outside rank 3");
    says(weft_squeeze_axes(x, (int[]){5}, 1), WEFT_E_SHAPE, "axis 5 is outside rank 3");
    says(weft_narrow(x, 1, 2, 2), WEFT_E_SHAPE, "2 elements from 2 on of an axis of 3");
    says(weft_select(x, 1, 3), WEFT_E_INDEX, "index 3 of an axis of 3");
    says(weft_select(number(1), 0, 0), WEFT_E_SHAPE, "outside rank 0");
    says(weft_flip_axes(x, (int[]){0, -3}, 2), WEFT_E_SHAPE, "named twice");
    says(weft_rot90(x, 1, 1, -2), WEFT_E_SHAPE, "named twice");
    says(weft_diagonal(x, 0, 1, 1), WEFT_E_SHAPE, "named twice");
    says(weft_unfold(x, 1, 4, 1), WEFT_E_VALUE, "windows of 4 elements, 1 apart, of an axis of 3");
    says(weft_unfold(x, 1, 2, 0), WEFT_E_VALUE, "0 apart");
    says(weft_repeat(x, 2, (int64_t[]){1, 1}), WEFT_E_VALUE, "2 repeats for rank 3");
    says(weft_repeat(x, 3, (int64_t[]){1, -1, 1}), WEFT_E_VALUE, "-1 repeats of axis 1");
    says(weft_repeat(x, 3, (int64_t[]){INT64_MAX, 1, 1}), WEFT_E_SHAPE, "too many");
    says(weft_stack((weft_tensor *[]){x, m34()}, 2, 0), WEFT_E_SHAPE, "cat");
    says(weft_stack(&nothing, 1, 0), WEFT_E_CONTEXT, "NULL");
    says(weft_roll(x, (int64_t[]){1}, (int[]){7}, 1), WEFT_E_SHAPE, "axis 7");
    says(weft_pad(x, 3, (int64_t[]){1, 1, 1}, WEFT_PAD_CONSTANT, 0), WEFT_E_VALUE, "3 numbers for rank 3");
    says(weft_pad(x, 2, (int64_t[]){-3, -2}, WEFT_PAD_CONSTANT, 0), WEFT_E_VALUE, "crops more than the 4 elements of axis 2");
    says(weft_pad(x, 2, (int64_t[]){4, 0}, WEFT_PAD_REFLECT, 0), WEFT_E_VALUE, "(4, 0) is more than axis 2 of extent 4 gives");
    says(weft_pad(x, 2, (int64_t[]){0, 5}, WEFT_PAD_CIRCULAR, 0), WEFT_E_VALUE, "(0, 5)");
    says(weft_pad(x, 2, (int64_t[]){INT64_MAX, 0}, WEFT_PAD_CONSTANT, 0), WEFT_E_SHAPE, "too many");
    says(weft_diag(x, 0), WEFT_E_SHAPE, "rank 3, expected 1 or 2");
    says(weft_diag_embed(x, INT64_MIN, 0, 1), WEFT_E_SHAPE, "too many");
    says(weft_pixel_shuffle(x, 2), WEFT_E_SHAPE, "2 channels are no multiple of 2 squared");
    says(weft_pixel_unshuffle(x, 2), WEFT_E_SHAPE, "3 x 4 is no multiple of 2");
    assert_int_equal(weft_split(x, 0, 0, out, 2), 1);
    says(out[0], WEFT_E_VALUE, "parts of 0 elements");
    assert_int_equal(weft_split(x, 1, 1, out, 2), 1);
    says(out[0], WEFT_E_VALUE, "3 results, room for 2");
    assert_int_equal(weft_split_sizes(x, 2, (int64_t[]){1, 1}, 1, out, 2), 1);
    says(out[0], WEFT_E_VALUE, "2 sizes add up to 2, axis 1 has 3");
    assert_int_equal(weft_unbind(number(1), 0, out, 2), 1);
    says(out[0], WEFT_E_SHAPE, "rank 0");
    assert_int_equal(weft_chunk(x, 0, 0, out, 2), 1);
    says(out[0], WEFT_E_VALUE, "0 chunks");
    says(weft_kron(x, weft_narrow(x, 5, 0, 1)), WEFT_E_SHAPE, "axis 5"); /* an error passes through */
    weft_scope_end(scope);
}

/* Without a scope the caller owns the result, and nothing else is left. */
static void a_call_leaves_one_handle(void **state)
{
    (void)state;
    weft_tensor *x = iota(4), *m = weft_zeros(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){4, 4});
    int64_t before = wf_core(ctx)->live_tensors;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *results[] = {
        weft_select(m, 0, 1), weft_rot90(m, 1, 0, 1), weft_repeat(m, 2, (int64_t[]){2, 2}), weft_tile(x, 1, (int64_t[]){2}), weft_repeat_interleave(m, 2, 0),
        weft_kron(m, x), weft_stack((weft_tensor *[]){x, x}, 2, 0), weft_hstack((weft_tensor *[]){m, m}, 2), weft_roll(m, (int64_t[]){1}, NULL, 1),
        weft_pad(m, 4, (int64_t[]){1, 1, 1, 1}, WEFT_PAD_REFLECT, 0), weft_diag(x, 1), weft_pixel_unshuffle(weft_view(m, 3, (int64_t[]){1, 4, 4}), 2),
        weft_tril(m, 0), weft_eye(ctx, WEFT_DTYPE_F32, 3, 3), weft_linspace(ctx, WEFT_DTYPE_F32, 0, 1, 5), weft_arange_to(ctx, WEFT_DTYPE_F16, 0, 3, 1),
        weft_one_hot(x, 4), weft_rand(ctx, WEFT_DTYPE_F32, 0, NULL, NULL), weft_randn_like(x, NULL), weft_dropout(x, 0.5, true, NULL),
        weft_multinomial(x, 2, true, NULL), weft_permutation(m, 0, NULL), weft_pad(m, 1, NULL, WEFT_PAD_CONSTANT, 0),
    };
    int n = (int)(sizeof results / sizeof *results);
    assert_int_equal(wf_core(ctx)->live_tensors - before, n + 1); /* and the view that pixel_unshuffle read */
    weft_scope_end(scope);
    assert_int_equal(wf_core(ctx)->live_tensors, before);
}

/* ---- by name ---- */

static weft_tensor *call(const char *name, weft_tensor *const *in, int n_in, const weft_attr *a, int n, int *count)
{
    static weft_outputs out;
    if (weft_apply(ctx, name, in, n_in, &(weft_attrs){a, n}, &out) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    if (count)
        *count = out.n;
    return out.tensor[0];
}

static void names_take_pytorch_arguments(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *v = iota(5), *m = m34();
    int count;
    weft_attr two = {.name = "split_size_or_sections", .kind = WEFT_ATTR_INT, .i = 2};
    call("split", &v, 1, &two, 1, &count);
    assert_int_equal(count, 3);
    weft_attr list = {.name = "split_size_or_sections", .kind = WEFT_ATTR_INTS, .ints = (int64_t[]){5}, .n_ints = 1};
    call("split", &v, 1, &list, 1, &count);
    assert_int_equal(count, 1);
    weft_attr pad[2] = {{.name = "pad", .kind = WEFT_ATTR_INTS, .ints = (int64_t[]){1, 1}, .n_ints = 2}, {.name = "mode", .kind = WEFT_ATTR_STRING, .s = "replicate"}};
    is(call("pad", &v, 1, pad, 2, NULL), "7", "0 0 1 2 3 4 4");
    pad[1].s = "mirror";
    says(call("pad", &v, 1, pad, 2, NULL), WEFT_E_VALUE, "mode is \"mirror\"");
    is(call("rot90", &m, 1, NULL, 0, NULL), "4,3", "3 7 11 2 6 10 1 5 9 0 4 8");
    is(call("t", &m, 1, NULL, 0, NULL), "4,3", "0 4 8 1 5 9 2 6 10 3 7 11");
    is(call("ravel", &m, 1, NULL, 0, NULL), "12", "0 1 2 3 4 5 6 7 8 9 10 11");
    weft_attr shifts = {.name = "shifts", .kind = WEFT_ATTR_INT, .i = 2};
    is(call("roll", &v, 1, &shifts, 1, NULL), "5", "3 4 0 1 2");
    weft_attr repeats = {.name = "repeats", .kind = WEFT_ATTR_INT, .i = 2};
    is(call("repeat_interleave", &v, 1, &repeats, 1, NULL), "10", "0 0 1 1 2 2 3 3 4 4");
    is(call("squeeze", &m, 1, NULL, 0, NULL), "3,4", "0 1 2 3 4 5 6 7 8 9 10 11");
    is(call("expand_as", (weft_tensor *[]){iota(4), m}, 2, NULL, 0, NULL), "3,4", "0 1 2 3 0 1 2 3 0 1 2 3");
    weft_scope_end(scope);
}

/* Squares in registers, what is left at their edges, and copies large enough to go past the caches. */
static void turned_copies_hold_every_element(void **state)
{
    (void)state;
    const int64_t shapes[][2] = {{1, 9}, {8, 8}, {9, 17}, {63, 65}, {130, 71}, {257, 300}, {1000, 33}, {2053, 2111}};
    const weft_dtype dtypes[] = {WEFT_DTYPE_F32, WEFT_DTYPE_I32, WEFT_DTYPE_F16, WEFT_DTYPE_I8, WEFT_DTYPE_F64, WEFT_DTYPE_I64};
    const char *device = getenv("WEFT_TEST_DEVICE");
    const int n_dtypes = device && strcmp(device, "cpu") != 0 ? 4 : 6; /* a GPU need not have those of 8 bytes */
    for (int i = 0; i < 8 * n_dtypes; i++) {
        const int64_t *shape = shapes[i % 8], rows = shape[0], cols = shape[1];
        float *v = malloc((size_t)(rows * cols) * sizeof *v);
        assert_non_null(v);
        for (int64_t k = 0; k < rows * cols; k++)
            v[k] = (float)((k * 7 + k / 101) % 127);
        weft_scope *scope = weft_scope_begin(ctx);
        weft_tensor *x = weft_cast(weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, shape, v), dtypes[i / 8]);
        assert_int_equal(weft_eval(&x, 1), WEFT_OK);
        weft_tensor *turned = weft_contiguous(weft_transpose(x, 0, 1));
        float *got = malloc((size_t)(rows * cols) * sizeof *got);
        assert_non_null(got);
        if (weft_read_as(turned, WEFT_DTYPE_F32, got, (size_t)(rows * cols) * sizeof *got) != WEFT_OK)
            fail_msg("%s", weft_error_message());
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++)
                if (got[c * rows + r] != v[r * cols + c])
                    fail_msg("dtype %d, %lld x %lld: row %lld, column %lld", (int)dtypes[i / 8], (long long)rows, (long long)cols, (long long)r, (long long)c);
        weft_scope_end(scope);
        free(got);
        free(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_and_axes), cmocka_unit_test(parts_and_orders), cmocka_unit_test(repetition_and_joining),
        cmocka_unit_test(rolling_and_padding), cmocka_unit_test(diagonals_and_pixels), cmocka_unit_test(lists_of_parts),
        cmocka_unit_test(views_compute_nothing), cmocka_unit_test(every_dtype_moves), cmocka_unit_test(bad_arguments_say_what_is_wrong),
        cmocka_unit_test(names_take_pytorch_arguments), cmocka_unit_test(a_call_leaves_one_handle),
        cmocka_unit_test(turned_copies_hold_every_element),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
