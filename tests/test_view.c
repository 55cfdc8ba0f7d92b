/* Views: the algebra against explicit lists of element indices, and the canonical bytes. */
#include "core_fixture.h"

enum { MAX_ELEMENTS = 4096 };

/* Element indices of a view in row-major order. */
static int64_t list(const wf_view *v, int64_t *out)
{
    int64_t n = wf_view_numel(v), at[WEFT_MAX_RANK] = {0};
    assert_true(n <= MAX_ELEMENTS);
    for (int64_t i = 0; i < n; i++) {
        out[i] = v->offset;
        for (int k = 0; k < v->rank; k++)
            out[i] += at[k] * v->strides[k];
        for (int k = v->rank - 1; k >= 0 && ++at[k] == v->shape[k]; k--)
            at[k] = 0;
    }
    return n;
}

static void check_canonical(const wf_view *v)
{
    assert_int_equal(v->pad_, 0);
    bool empty = wf_view_numel(v) == 0;
    for (int k = 0; k < WEFT_MAX_RANK; k++) {
        if (k >= v->rank)
            assert_int_equal(v->shape[k], 1);
        if (k >= v->rank || v->shape[k] == 1 || empty)
            assert_int_equal(v->strides[k], 0);
    }
    if (empty)
        assert_int_equal(v->offset, 0);
}

static uint32_t seed = 1;
static int below(int n)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)n);
}

/* Brute force: strides read off the first element of each axis; do they explain all elements? */
static bool is_a_view(const int64_t *elements, int64_t n, int rank, const int64_t *shape)
{
    int64_t strides[WEFT_MAX_RANK], step = 1;
    for (int k = rank - 1; k >= 0; k--) {
        strides[k] = shape[k] > 1 ? elements[step] - elements[0] : 0;
        step *= shape[k];
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at = elements[0];
        for (int k = rank - 1; k >= 0; k--) {
            at += rest % shape[k] * strides[k];
            rest /= shape[k];
        }
        if (at != elements[i])
            return false;
    }
    return true;
}

static void random_factors(int64_t n, int *rank, int64_t *shape)
{
    *rank = 0;
    while (*rank < 5 && (n > 1 || below(2))) {
        int64_t f = 1 + below(4);
        if (*rank == 4 || n % f != 0)
            f = *rank == 4 ? n : 1;
        shape[(*rank)++] = f;
        n /= f;
    }
    if (n > 1)
        shape[(*rank)++] = n;
}

static void every_chain_of_views_addresses_the_same_elements_as_lists(void **state)
{
    (void)state;
    static int64_t have[MAX_ELEMENTS], now[MAX_ELEMENTS];
    for (int trial = 0; trial < 20000; trial++) {
        wf_view v, r;
        int64_t shape[WEFT_MAX_RANK];
        int rank = below(5);
        for (int k = 0; k < rank; k++)
            shape[k] = below(12) == 0 ? 0 : 1 + below(4);
        assert_int_equal(wf_view_contiguous("t", rank, shape, &v), WEFT_OK);
        for (int step = 0; step < 4; step++) {
            int64_t n = list(&v, have);
            check_canonical(&v);
            int op = below(4), axis = v.rank ? below(v.rank) : 0;
            if (op == 0 && v.rank) { /* slice */
                int64_t start = below(9) - 4, stop = below(9) - 4, s = below(2) ? 1 + below(3) : -1 - below(3);
                assert_int_equal(wf_view_slice(&v, axis, start, stop, s, &r), WEFT_OK);
                /* Python's slice.indices, written out */
                int64_t e = v.shape[axis];
                int64_t lo = s > 0 ? 0 : -1, hi = s > 0 ? e : e - 1;
                int64_t a = start < 0 ? start + e : start, z = stop < 0 ? stop + e : stop;
                a = a < lo ? lo : a > hi ? hi : a;
                z = z < lo ? lo : z > hi ? hi : z;
                int64_t inner = 1, outer = 1, m = 0, got;
                for (int k = 0; k < v.rank; k++)
                    *(k < axis ? &outer : k > axis ? &inner : &got) *= k == axis ? 0 : v.shape[k];
                got = list(&r, now);
                for (int64_t o = 0; o < outer; o++)
                    for (int64_t i = a; s > 0 ? i < z : i > z; i += s)
                        for (int64_t j = 0; j < inner; j++, m++)
                            assert_int_equal(now[m], have[(o * e + i) * inner + j]);
                assert_int_equal(m, got);
            } else if (op == 1 && v.rank) { /* a swap of two axes */
                int axes[WEFT_MAX_RANK], other = below(v.rank);
                for (int k = 0; k < v.rank; k++)
                    axes[k] = k == axis ? other : k == other ? axis : k - (below(2) ? v.rank : 0);
                assert_int_equal(wf_view_permute(&v, axes, &r), WEFT_OK);
                assert_int_equal(list(&r, now), n);
                int64_t in[WEFT_MAX_RANK] = {0};
                for (int64_t i = 0; i < n; i++) { /* i is the index in r */
                    int64_t from = 0;
                    for (int k = 0; k < v.rank; k++)
                        from = from * v.shape[k] + in[k == axis ? other : k == other ? axis : k];
                    assert_int_equal(now[i], have[from]);
                    for (int k = r.rank - 1; k >= 0 && ++in[k] == r.shape[k]; k--)
                        in[k] = 0;
                }
            } else if (op == 2) { /* expand a new leading axis, and an axis of 1 */
                int64_t want[WEFT_MAX_RANK];
                if (v.rank >= 6 || n > 500)
                    continue;
                want[0] = 1 + below(3);
                for (int k = 0; k < v.rank; k++)
                    want[k + 1] = v.shape[k] == 1 && below(2) ? 2 : -1;
                assert_int_equal(wf_view_expand("t", &v, v.rank + 1, want, &r), WEFT_OK);
                list(&r, now);
                if (n)
                    assert_int_equal(now[0], have[0]);
            } else { /* reshape */
                int to_rank;
                if (n == 0)
                    continue;
                random_factors(n, &to_rank, shape);
                bool possible = is_a_view(have, n, to_rank, shape);
                assert_int_equal(wf_view_reshape(&v, to_rank, shape, &r), possible);
                if (!possible)
                    continue;
                assert_int_equal(list(&r, now), n);
                assert_memory_equal(now, have, (size_t)n * sizeof *now);
            }
            v = r;
        }
    }
}

static void equal_views_have_equal_bytes(void **state)
{
    (void)state;
    wf_view a, b, c;
    wf_view_contiguous("t", 3, (int64_t[]){2, 1, 3}, &a);
    wf_view_permute(&a, (int[]){1, 0, 2}, &b);
    wf_view_permute(&b, (int[]){1, 0, 2}, &b); /* in place */
    assert_memory_equal(&a, &b, sizeof a);
    wf_view_slice(&a, 0, 5, 9, 1, &b);
    wf_view_slice(&a, 0, 1, 1, -1, &c);
    assert_memory_equal(&b, &c, sizeof a);
    wf_view_slice(&a, 0, 1, 2, 7, &b);
    wf_view_slice(&a, 0, 1, 2, 1, &c);
    assert_memory_equal(&b, &c, sizeof a);
}

static void too_many_elements_are_an_error_that_names_the_shape(void **state)
{
    (void)state;
    wf_view v;
    assert_int_equal(wf_view_contiguous("zeros", SHAPE((int64_t)1 << 40, (int64_t)1 << 40), &v), WEFT_E_SHAPE);
    assert_non_null(strstr(weft_error_message(), "zeros: shape [1099511627776, 1099511627776]"));
    assert_int_equal(wf_view_contiguous("zeros", SHAPE((int64_t)1 << 40, (int64_t)1 << 40, 0), &v), WEFT_OK);
    check_canonical(&v);
    assert_int_equal(wf_view_contiguous("zeros", SHAPE(0, (int64_t)1 << 40, (int64_t)1 << 40), &v), WEFT_OK);
    check_canonical(&v);
    assert_int_equal(wf_view_contiguous("zeros", SHAPE(2, -1), &v), WEFT_E_SHAPE);
    assert_int_equal(wf_view_contiguous("zeros", 9, (int64_t[9]){1}, &v), WEFT_E_SHAPE);
    assert_int_equal(wf_view_contiguous("zeros", SHAPE(1), &v), WEFT_OK);
    assert_int_equal(wf_view_expand("expand", &v, SHAPE((int64_t)1 << 40, (int64_t)1 << 40), &v), WEFT_E_SHAPE);
}

static void extent_is_the_lowest_and_highest_element(void **state)
{
    (void)state;
    wf_view v;
    int64_t lo, hi;
    wf_view_contiguous("t", SHAPE(3, 4), &v);
    wf_view_slice(&v, 0, WEFT_INDEX_NONE, WEFT_INDEX_NONE, -2, &v);
    wf_view_slice(&v, 1, 1, 3, 1, &v);
    assert_true(wf_view_extent(&v, &lo, &hi));
    assert_int_equal(lo, 1);
    assert_int_equal(hi, 10);
    wf_view_slice(&v, 1, 1, 1, 1, &v);
    assert_false(wf_view_extent(&v, &lo, &hi));
}

static void contiguity_ignores_offsets_and_axes_of_one(void **state)
{
    (void)state;
    wf_view v;
    wf_view_contiguous("t", SHAPE(4, 1, 3), &v);
    assert_true(wf_view_is_whole(&v, 12));
    wf_view_slice(&v, 0, 1, 3, 1, &v);
    assert_true(wf_view_is_contiguous(&v));
    assert_false(wf_view_is_whole(&v, 12));
    wf_view_permute(&v, (int[]){1, 0, 2}, &v);
    assert_true(wf_view_is_contiguous(&v));
    wf_view_permute(&v, (int[]){2, 1, 0}, &v);
    assert_false(wf_view_is_contiguous(&v));
    wf_view_slice(&v, 0, 0, 0, 1, &v);
    assert_true(wf_view_is_contiguous(&v));
}

static void slice_bounds_far_outside_are_clamped(void **state)
{
    (void)state;
    wf_view v, r;
    wf_view_contiguous("t", SHAPE(5), &v);
    assert_int_equal(wf_view_slice(&v, 0, INT64_MIN + 1, INT64_MAX, INT64_MAX, &r), WEFT_OK);
    assert_int_equal(r.shape[0], 1);
    assert_int_equal(wf_view_slice(&v, -1, INT64_MAX, INT64_MIN + 1, -INT64_MAX, &r), WEFT_OK);
    assert_int_equal(r.shape[0], 1);
    assert_int_equal(r.offset, 4);
    assert_int_equal(wf_view_slice(&v, 0, 0, 1, 0, &r), WEFT_E_VALUE);
    assert_int_equal(wf_view_slice(&v, 1, 0, 1, 1, &r), WEFT_E_SHAPE);
}

static void broadcasting_follows_numpy(void **state)
{
    (void)state;
    wf_view a, b, r;
    wf_view_contiguous("t", SHAPE(2, 1, 3), &a);
    wf_view_contiguous("t", SHAPE(4, 1), &b);
    assert_int_equal(wf_view_broadcast_shape("add", &a, &b, &r), WEFT_OK);
    assert_int_equal(r.rank, 3);
    assert_int_equal(r.shape[1], 4);
    wf_view_contiguous("t", SHAPE(0, 1), &b);
    assert_int_equal(wf_view_broadcast_shape("add", &a, &b, &r), WEFT_OK);
    assert_int_equal(r.shape[1], 0);
    wf_view_contiguous("t", SHAPE(2), &b);
    assert_int_equal(wf_view_broadcast_shape("add", &a, &b, &r), WEFT_E_SHAPE);
    assert_string_equal(weft_error_message(), "add: shapes do not broadcast: a [2, 1, 3], b [2]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chain_of_views_addresses_the_same_elements_as_lists),
        cmocka_unit_test(equal_views_have_equal_bytes),
        cmocka_unit_test(too_many_elements_are_an_error_that_names_the_shape),
        cmocka_unit_test(extent_is_the_lowest_and_highest_element),
        cmocka_unit_test(contiguity_ignores_offsets_and_axes_of_one),
        cmocka_unit_test(slice_bounds_far_outside_are_clamped),
        cmocka_unit_test(broadcasting_follows_numpy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
