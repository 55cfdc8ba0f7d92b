/* test_long_lines.c - scans, sorts, top-k and scatters along lines as long as many work groups, and at the lengths where the
 * kernels change, against plain loops.
 */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "scope_fixture.h"

static const struct { int64_t lines, n; } shapes[] = {{1, 1},    {3, 255},   {2, 256},   {2, 257},     {1, 2048},    {2, 8193},
                                                      {1, 65535}, {3, 65536}, {1, 65537}, {1, 1000000}, {2, 300001}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static uint32_t seed;
static uint32_t next_random(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static void *room(int64_t n, size_t bytes)
{
    void *p = calloc((size_t)n + 1, bytes);
    assert_non_null(p);
    return p;
}

static void read_into(weft_tensor *t, void *out, size_t bytes)
{
    if (weft_read(t, out, bytes) != WEFT_OK)
        fail_msg("%s", weft_error_message());
}

/* [lines, n] of values 0 .. ties-1 less half of them, or of any size in [-1, 1) when ties is 0; some NaN and infinities. */
static float *floats(int64_t all, uint32_t ties, bool special)
{
    float *v = room(all, sizeof *v);
    for (int64_t i = 0; i < all; i++)
        v[i] = ties ? (float)(next_random() % ties) - (float)(ties / 2) : (float)next_random() / 8388608.0f - 1.0f;
    for (int64_t i = 0; special && i < all; i += 1 + next_random() % 97)
        v[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -0.0f;
    return v;
}

/* The lines as rows, or as columns of a turned tensor. */
static weft_tensor *as_lines(weft_dtype dtype, int64_t lines, int64_t n, const void *v, bool turned, int *axis)
{
    int64_t shape[2] = {lines, n};
    weft_tensor *t = weft_tensor_from(ctx, dtype, 2, shape, v);
    *axis = turned ? 0 : 1;
    return turned ? weft_transpose(t, 0, 1) : t;
}
static weft_tensor *as_rows(weft_tensor *t, bool turned) { return turned ? weft_transpose(t, 0, 1) : t; }

static void integers_and_products_scan_exactly(void **state)
{
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        const int64_t lines = shapes[s].lines, n = shapes[s].n, all = lines * n;
        int32_t *v = room(all, 4), *got = room(all, 4);
        int axis;
        for (int64_t i = 0; i < all; i++)
            v[i] = (int32_t)(next_random() << 8 | next_random() % 256);
        weft_tensor *x = as_lines(WEFT_DTYPE_I32, lines, n, v, s % 2, &axis);
        for (int product = 0; product < 2; product++) {
            for (int64_t i = 0; product && i < all; i++)
                v[i] |= 1;
            weft_tensor *from = product ? as_lines(WEFT_DTYPE_I32, lines, n, v, s % 2, &axis) : x;
            read_into(as_rows(product ? weft_cumprod(from, axis) : weft_cumsum(from, axis), s % 2), got, (size_t)all * 4);
            for (int64_t l = 0; l < lines; l++) {
                uint32_t want = (uint32_t)product;
                for (int64_t i = l * n; i < (l + 1) * n; i++) {
                    want = product ? want * (uint32_t)v[i] : want + (uint32_t)v[i];
                    if (got[i] != (int32_t)want)
                        fail_msg("%s of [%lld, %lld], element %lld: %d, expected %d", product ? "cumprod" : "cumsum", (long long)lines, (long long)n,
                                 (long long)i, got[i], (int32_t)want);
                }
            }
        }
        free(v);
        free(got);
    }
}

/* (n + 2) eps times the running sum of magnitudes; logcumsumexp (n + 16) eps (|y| + 1). */
static void floats_scan_within_their_bound(void **state)
{
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        const int64_t lines = shapes[s].lines, n = shapes[s].n, all = lines * n;
        float *v = floats(all, 0, false), *sum = room(all, 4), *log_sum = room(all, 4);
        int axis;
        weft_tensor *x = as_lines(WEFT_DTYPE_F32, lines, n, v, s % 2, &axis);
        read_into(as_rows(weft_cumsum(x, axis), s % 2), sum, (size_t)all * 4);
        read_into(as_rows(weft_logcumsumexp(x, axis), s % 2), log_sum, (size_t)all * 4);
        for (int64_t l = 0; l < lines; l++) {
            double want = 0, size = 0, e = 0;
            for (int64_t k = 0; k < n; k++) {
                const int64_t i = l * n + k;
                want += (double)v[i];
                size += fabs((double)v[i]);
                e += exp((double)v[i]);
                const double eps = (double)FLT_EPSILON / 2, y = log(e);
                if (!(fabs(sum[i] - want) <= (double)(k + 3) * eps * size))
                    fail_msg("cumsum of [%lld, %lld], element %lld: %.9g, expected %.9g", (long long)lines, (long long)n, (long long)i, (double)sum[i], want);
                if (!(fabs(log_sum[i] - y) <= (double)(k + 17) * eps * (fabs(y) + 2)))
                    fail_msg("logcumsumexp of [%lld, %lld], element %lld: %.9g, expected %.9g", (long long)lines, (long long)n, (long long)i,
                             (double)log_sum[i], y);
            }
        }
        free(v);
        free(sum);
        free(log_sum);
    }
}

static void extremes_keep_the_last_of_equal_ones_and_nan(void **state)
{
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        const int64_t lines = shapes[s].lines, n = shapes[s].n, all = lines * n;
        float *v = floats(all, 100000, false);
        int32_t *got = room(all, 4);
        int axis;
        if (n > 3)
            v[all - 3] = NAN;
        weft_tensor *index, *x = as_lines(WEFT_DTYPE_F32, lines, n, v, s % 2, &axis);
        weft_cummax(x, axis, &index);
        read_into(as_rows(index, s % 2), got, (size_t)all * 4);
        for (int64_t l = 0; l < lines; l++) {
            int64_t best = 0;
            for (int64_t k = 0; k < n; k++) {
                const float a = v[l * n + k], b = v[l * n + best];
                best = a >= b || a != a ? (b != b && a == a ? best : k) : best;
                if (got[l * n + k] != best)
                    fail_msg("cummax of [%lld, %lld], element %lld: index %d, expected %lld", (long long)lines, (long long)n, (long long)(l * n + k),
                             got[l * n + k], (long long)best);
            }
        }
        free(v);
        free(got);
    }
}

static bool comes_first(float a, float b) /* ascending, NaN last */
{
    return b != b ? a == a : a < b;
}

/* A stable order is a permutation in which no element comes before one it follows, and equal ones keep theirs. */
static void check_order(const char *what, const float *v, const int32_t *got, int64_t n, int64_t k, bool descending)
{
    uint8_t *seen = room(n, 1);
    for (int64_t i = 0; i < k; i++) {
        if (got[i] < 0 || got[i] >= n || seen[got[i]]++)
            fail_msg("%s of %lld, place %lld: %d is no index or comes twice", what, (long long)n, (long long)i, got[i]);
        if (i == 0)
            continue;
        const float a = v[got[i - 1]], b = v[got[i]];
        if ((descending ? comes_first(a, b) : comes_first(b, a)) || (!comes_first(a, b) && !comes_first(b, a) && got[i - 1] > got[i]))
            fail_msg("%s of %lld, place %lld: %.9g at %d before %.9g at %d", what, (long long)n, (long long)i, (double)a, got[i - 1], (double)b, got[i]);
    }
    /* what is left out of the first k comes after the last of them */
    for (int64_t i = 0; k < n && i < n; i++)
        if (!seen[i]) {
            const float a = v[got[k - 1]];
            if ((descending ? comes_first(a, v[i]) : comes_first(v[i], a)) || (!comes_first(a, v[i]) && !comes_first(v[i], a) && i < got[k - 1]))
                fail_msg("%s of %lld leaves out %.9g at %lld and takes %.9g at %d", what, (long long)n, (double)v[i], (long long)i, (double)a, got[k - 1]);
        }
    free(seen);
}

static void sorts_are_stable_with_nan_last(void **state)
{
    (void)state;
    for (int s = 0; s < N_SHAPES; s++) {
        const int64_t lines = shapes[s].lines, n = shapes[s].n, all = lines * n;
        float *v = floats(all, s % 3 ? 300 : 0, true);
        int32_t *got = room(all, 4);
        int axis;
        weft_tensor *x = as_lines(WEFT_DTYPE_F32, lines, n, v, s % 2, &axis);
        read_into(as_rows(weft_argsort(x, axis, s % 4 > 1), s % 2), got, (size_t)all * 4);
        for (int64_t l = 0; l < lines; l++)
            check_order("argsort", v + l * n, got + l * n, n, n, s % 4 > 1);
        if (s % 2 == 0) { /* bytes: two digits */
            uint8_t *bytes = room(all, 1);
            for (int64_t i = 0; i < all; i++)
                v[i] = bytes[i] = (uint8_t)(next_random() % 256);
            read_into(weft_argsort(as_lines(WEFT_DTYPE_U8, lines, n, bytes, false, &axis), axis, false), got, (size_t)all * 4);
            for (int64_t l = 0; l < lines; l++)
                check_order("argsort of bytes", v + l * n, got + l * n, n, n, false);
            free(bytes);
        }
        free(v);
        free(got);
    }
}

static void the_largest_are_found_in_long_lines(void **state)
{
    (void)state;
    static const int64_t counts[3] = {1, 40, 1500};
    for (int s = 1; s < N_SHAPES; s++)
        for (int c = 0; c < 3; c++) {
            const int64_t lines = shapes[s].lines, n = shapes[s].n, k = counts[c];
            if (k > n || (n > 500000 && k == 1500 && s % 2))
                continue;
            float *v = floats(lines * n, c ? 5000 : 0, c == 1);
            int32_t *got = room(lines * k, 4);
            int64_t shape[2] = {lines, n};
            read_into(weft_topk(weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, shape, v), k, NULL), got, (size_t)(lines * k) * 4);
            for (int64_t l = 0; l < lines; l++)
                check_order("topk", v + l * n, got + l * k, n, k, true);
            free(v);
            free(got);
        }
}

/* Indices in order: the last of several set elements stays, and added ones are added in theirs. */
static void long_scatters_keep_the_order_of_the_index(void **state)
{
    (void)state;
    const int64_t n = 100003, m = 300001;
    int32_t *index = room(m, 4), *got = room(n, 4), *want = room(n, 4), *src = room(m, 4);
    float *f = room(m, 4), *sums = room(n, 4), *expected = room(n, 4);
    for (int64_t i = 0; i < m; i++) {
        index[i] = (int32_t)(next_random() % (uint32_t)n);
        src[i] = (int32_t)i;
        f[i] = (float)next_random() / 8388608.0f;
        want[index[i]] = src[i];
        expected[index[i]] += f[i];
    }
    weft_tensor *at = weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, &m, index);
    read_into(weft_scatter(weft_zeros(ctx, WEFT_DTYPE_I32, 1, &n), 0, at, weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, &m, src)), got, (size_t)n * 4);
    assert_memory_equal(got, want, (size_t)n * 4);
    read_into(weft_scatter_add(weft_zeros(ctx, WEFT_DTYPE_F32, 1, &n), 0, at, weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, &m, f)), sums, (size_t)n * 4);
    assert_memory_equal(sums, expected, (size_t)n * 4); /* one after the other: the same bits */
    free(index), free(got), free(want), free(src), free(f), free(sums), free(expected);
}

/* Where a device has rows for all of these, none falls back. */
static void nothing_ran_elsewhere(void **state)
{
    (void)state;
    weft_stats stats;
    assert_int_equal(weft_ctx_stats(ctx, &stats), WEFT_OK);
    assert_int_equal(stats.fallbacks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(integers_and_products_scan_exactly, begin, end),
        cmocka_unit_test_setup_teardown(floats_scan_within_their_bound, begin, end),
        cmocka_unit_test_setup_teardown(extremes_keep_the_last_of_equal_ones_and_nan, begin, end),
        cmocka_unit_test_setup_teardown(sorts_are_stable_with_nan_last, begin, end),
        cmocka_unit_test_setup_teardown(the_largest_are_found_in_long_lines, begin, end),
        cmocka_unit_test_setup_teardown(long_scatters_keep_the_order_of_the_index, begin, end),
        cmocka_unit_test_setup_teardown(nothing_ran_elsewhere, begin, end),
    };
    seed = 7;
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
