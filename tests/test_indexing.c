/* test_indexing.c - scatter, advanced indexing, sorting and searching against f64 loops, on views, dtypes, NaN, ties; indices
 * outside are errors of the evaluation.
 */
#include "lines_case.h"

/* ---- sort ---- */

static bool before(double a, double b, bool descending)
{
    if (a != a || b != b)
        return descending ? a != a && b == b : b != b && a == a;
    return descending ? a > b : a < b;
}

static void check_sort(const data *x, int axis, bool descending)
{
    weft_tensor *at, *r = weft_sort(x->t, axis, descending, &at);
    double *got = read_all(r), *index = read_all(at);
    int64_t n = x->shape[axis];
    for (int64_t line = 0; line < x->n / n; line++)
        for (int64_t k = 0; k < n; k++) {
            int64_t p = place(x, axis, line, k), from = (int64_t)index[p];
            if (from < 0 || from >= n)
                fail_msg("sort: index %lld", (long long)from);
            close_to(got[p], x->v[place(x, axis, line, from)], 0, "sort", p);
            if (k == 0)
                continue;
            int64_t q = place(x, axis, line, k - 1);
            bool equal_values = !before(got[q], got[p], descending) && !before(got[p], got[q], descending);
            if (before(got[p], got[q], descending) || (equal_values && index[q] >= index[p]))
                fail_msg("sort: %g from %g, then %g from %g", got[q], index[q], got[p], index[p]);
        }
    free(got);
    free(index);
}

static void sorts_are_stable_on_every_view_and_dtype(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 33, 700};
    for (size_t i = 0; i < 3; i++)
        for (int view = 0; view < VIEWS; view++) {
            data x = operand(WEFT_DTYPE_F32, sizes[i], true, view);
            check_sort(&x, 0, false);
            check_sort(&x, 1, view & 1);
            check_sort(&x, 2, true);
            free(x.v);
        }
    for (int d = 0; d <= WEFT_DTYPE_BOOL; d++) {
        data x = operand((weft_dtype)d, 90, d <= WEFT_DTYPE_F64, 1);
        check_sort(&x, 1, false);
        check_sort(&x, 1, true);
        free(x.v);
    }
}

/* Lines that are dealt into buckets, some of one value and some of all: a software adapter takes minutes for what the CPU sorts
 * in pieces. */
static void long_lines_are_sorted_stably(void **state)
{
    (void)state;
    const int64_t long_line = strcmp(test_opts().device, "cpu") == 0 ? 150000 : 500, sizes[] = {long_line, 9000};
    const weft_dtype dtypes[] = {WEFT_DTYPE_F32, WEFT_DTYPE_I32, WEFT_DTYPE_U8, WEFT_DTYPE_F64, WEFT_DTYPE_I64};
    for (int i = 0; i < 20; i++) {
        const int64_t n = sizes[i & 1];
        const bool wide = i & 2;
        const weft_dtype dtype = dtypes[i / 4];
        if ((dtype == WEFT_DTYPE_F64 || dtype == WEFT_DTYPE_I64) && long_line < 150000) /* a GPU need not have them */
            continue;
        float *v = malloc((size_t)n * sizeof *v);
        assert_non_null(v);
        for (int64_t k = 0; k < n; k++) {
            v[k] = (float)((int)(next_random() % 2001) - 1000) * (wide ? (float)(1 << next_random() % 20) : 0.25f);
            if (next_random() % 50 == 0 && (dtype == WEFT_DTYPE_F32 || dtype == WEFT_DTYPE_F64))
                v[k] = next_random() % 2 ? NAN : -0.0f;
            v[k] = dtype == WEFT_DTYPE_U8 ? fabsf(fmodf(v[k], 200)) : v[k];
        }
        data x = data_of(weft_cast(weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, &n, v), dtype));
        check_sort(&x, 0, false);
        check_sort(&x, 0, true);
        free(x.v);
        free(v);
    }
}

/* Values alone are sorted by another kernel on the CPU: the bits are those of picking by the order, NaNs and -0 where they stood. */
static void sorted_values_have_the_bits_of_picking_by_the_order(void **state)
{
    (void)state;
    const bool on_cpu = strcmp(test_opts().device, "cpu") == 0;
    const int64_t sizes[] = {1, 40, 1000, 9001, on_cpu ? 140000 : 600};
    for (int i = 0; i < 40; i++) {
        const int64_t n = sizes[i % 5];
        const int form = i / 5 % 4; /* 0: all bits that there are; 1: few values, with NaNs and both zeros; 2: whole numbers; 3: that differ in low bits, but for one */
        const bool descending = i >= 20;
        uint32_t *v = malloc((size_t)n * 2 * sizeof *v), *got = malloc((size_t)n * 8), *want = malloc((size_t)n * 8);
        assert_non_null(v);
        assert_non_null(got);
        assert_non_null(want);
        for (int64_t k = 0; k < 2 * n; k++) {
            static const uint32_t few[] = {0, 0x80000000u, 0x7fc00001u, 0xffc00002u, 0x7f800000u, 0xff800000u, 0x3f800000u, 0xbf800000u};
            v[k] = form == 1 ? few[next_random() % 8] : (uint32_t)next_random() * 2654435761u ^ (uint32_t)next_random();
            if (form == 3)
                v[k] = k / 2 == n / 3 ? 0x40000000u : v[k] & 0xffff;
            if (form == 0 && !on_cpu && (v[k] & 0x7f800000u) == 0) /* a GPU may read denormals as 0 */
                v[k] |= 0x3f000000u;
        }
        int64_t shape[] = {n, 2};
        weft_tensor *x = weft_tensor_from(ctx, form >= 2 ? WEFT_DTYPE_I32 : WEFT_DTYPE_F32, 2, shape, v);
        x = i % 2 ? x : weft_contiguous(weft_transpose(x, 0, 1));
        const int axis = i % 2 ? 0 : 1;
        assert_int_equal(weft_read(weft_sort(x, axis, descending, NULL), got, (size_t)n * 8), WEFT_OK);
        weft_tensor *order = weft_argsort(x, axis, descending);
        assert_int_equal(weft_eval(&order, 1), WEFT_OK);
        assert_int_equal(weft_read(weft_gather(x, axis, order), want, (size_t)n * 8), WEFT_OK);
        for (int64_t k = 0; k < 2 * n; k++)
            if (got[k] != want[k])
                fail_msg("case %d: element %lld is %08x, expected %08x", i, (long long)k, got[k], want[k]);
        free(v);
        free(got);
        free(want);
    }
}

static void order_knows_its_edges(void **state)
{
    (void)state;
    weft_tensor *at, *x = weft_reshape(FLOATS(3, 1, 2, 6, 5, 4), 2, (int64_t[]){2, 3});
    EXPECT(weft_sort(weft_scalar_f32(ctx, 3), -1, false, &at), 0, 3);
    EXPECT(at, 0, 0);
    EXPECT(weft_argsort(FLOATS(-0.0f, 0, -INFINITY, NAN, INFINITY), 0, false), 0, 2, 0, 1, 4, 3);
    EXPECT(weft_topk_along(x, 1, 0, true, &at), 0, 1, 1, 1);
    EXPECT(at, 0, 6, 5, 4);
    EXPECT(weft_topk_along(FLOATS(3, NAN, 1, 2), 2, 0, false, &at), 0, 2, 3);
    EXPECT(at, 0, 1, 2);
    EXPECT(weft_kthvalue(x, 2, 1, false, &at), 0, 2, 5);
    EXPECT(at, 0, 2, 1);
    refuses(WEFT_E_VALUE, "kthvalue: k is 4, axis 1 has 3 elements", weft_kthvalue(x, 4, 1, false, &at));
    refuses(WEFT_E_VALUE, "topk: k is 4", weft_topk_along(x, 4, 1, true, &at));
    refuses(WEFT_E_SHAPE, "sort: axis 2 is outside rank 2", weft_sort(x, 2, false, NULL));
}

static void searches_find_their_place(void **state)
{
    (void)state;
    weft_tensor *s = FLOATS(1, 3, 3, 5, 7), *v = FLOATS(0, 3, 4, 8, NAN);
    EXPECT(weft_searchsorted(s, v, false), 0, 0, 1, 3, 5, 5);
    EXPECT(weft_searchsorted(s, v, true), 0, 0, 3, 3, 5, 5);
    EXPECT(weft_bucketize(weft_scalar_f32(ctx, 6), s, false), 0, 4);
    weft_tensor *lines = weft_reshape(INTS(1, 2, 3, 4, 5, 6), 2, (int64_t[]){2, 3});
    EXPECT(weft_searchsorted(lines, weft_reshape(INTS(3, 5), 2, (int64_t[]){2, 1}), false), 0, 2, 1);
    EXPECT(weft_isin(INTS(1, 2, 3, 4), INTS(4, 1), false), 0, 1, 0, 0, 1);
    EXPECT(weft_isin(INTS(1, 200, 3, 4), weft_arange(ctx, WEFT_DTYPE_I32, 100, 3, 1), true), 0, 1, 1, 0, 0);
    EXPECT(weft_histc(FLOATS(0, 1, 1.5f, 2, 4, 9, NAN), 4, 0, 4), 0, 1, 2, 1, 1);
    EXPECT(weft_histc(FLOATS(0, 1, 2, 4), 2, 0, 0), 0, 2, 2);
    refuses(WEFT_E_SHAPE, "searchsorted: sorted_sequence [2, 3] and input [5]", weft_searchsorted(lines, v, false));
}

/* ---- scatter ---- */

static double meet(const char *reduce, double a, double b)
{
    if (strcmp(reduce, "sum") == 0)
        return a + b;
    if (strcmp(reduce, "prod") == 0)
        return a * b;
    if (strcmp(reduce, "set") == 0)
        return b;
    return a != a || b != b ? NAN : strcmp(reduce, "amax") == 0 ? fmax(a, b) : fmin(a, b);
}

/* Index [3, m, 4] or smaller along `axis` of x [3, n, 5]. */
static void check_scatter(weft_dtype dtype, int axis, const char *reduce, int view, double eps)
{
    data x = operand(dtype, 9, false, view), src = operand(dtype, 12, false, (view + 1) % VIEWS);
    int64_t shape[3] = {3, 9, 5};
    shape[axis] = axis == 0 ? 3 : axis == 1 ? 12 : 4;
    shape[2] = axis == 2 ? 5 : 4;
    int32_t index[3 * 12 * 5];
    int64_t n = shape[0] * shape[1] * shape[2];
    for (int64_t i = 0; i < n; i++)
        index[i] = (int32_t)(next_random() % (uint32_t)x.shape[axis]) - (next_random() % 2 ? (int32_t)x.shape[axis] : 0);
    weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_I32, 3, shape, index), *r;
    r = strcmp(reduce, "set") == 0 ? weft_scatter(x.t, axis, t, src.t) : weft_scatter_reduce(x.t, axis, t, src.t, reduce, true);
    double *want = malloc((size_t)x.n * sizeof *want), *got = read_all(r);
    assert_non_null(want);
    memcpy(want, x.v, (size_t)x.n * sizeof *want);
    for (int64_t i = 0; i < n; i++) {
        int64_t c[3] = {i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]};
        double s = src.v[(c[0] * 12 + c[1]) * 5 + c[2]];
        c[axis] = index[i] < 0 ? index[i] + x.shape[axis] : index[i];
        double *w = &want[(c[0] * 9 + c[1]) * 5 + c[2]];
        *w = meet(reduce, *w, s);
    }
    for (int64_t i = 0; i < x.n; i++)
        close_to(got[i], dtype == WEFT_DTYPE_BOOL ? want[i] != 0 : want[i], eps * (1 + fabs(want[i])), reduce, i);
    free(want);
    free(got);
    free(x.v);
    free(src.v);
}

static void scatters_combine_in_order_on_every_view_and_dtype(void **state)
{
    (void)state;
    static const char *const reduce[] = {"set", "sum", "prod", "amax", "amin"};
    for (size_t k = 0; k < 5; k++)
        for (int view = 0; view < VIEWS; view++)
            for (int axis = 0; axis < 3; axis++)
                check_scatter(WEFT_DTYPE_F32, axis, reduce[k], view, 1e-6);
    const weft_dtype dtypes[] = {WEFT_DTYPE_F16, WEFT_DTYPE_BF16, WEFT_DTYPE_F64, WEFT_DTYPE_I32, WEFT_DTYPE_U32, WEFT_DTYPE_I64};
    for (size_t d = 0; d < 6; d++)
        for (size_t k = 0; k < 5; k++)
            if (k != 2)
                check_scatter(dtypes[d], 1, reduce[k], 0, d == 0 ? 1e-3 : d == 1 ? 8e-3 : 0);
    check_scatter(WEFT_DTYPE_I8, 1, "amax", 0, 0);
    check_scatter(WEFT_DTYPE_U8, 2, "amin", 0, 0);
    check_scatter(WEFT_DTYPE_U8, 1, "set", 2, 0);
    check_scatter(WEFT_DTYPE_BOOL, 1, "set", 0, 0);
    check_scatter(WEFT_DTYPE_BOOL, 1, "sum", 0, 0);
}

static void scatter_reduce_can_leave_itself_out(void **state)
{
    (void)state;
    weft_tensor *x = FLOATS(10, 20, 30), *at = INTS(0, 0, 2), *s = FLOATS(1, 2, 4);
    EXPECT(weft_scatter_reduce(x, 0, at, s, "sum", false), 0, 3, 20, 4);
    EXPECT(weft_scatter_reduce(x, 0, at, s, "prod", false), 0, 2, 20, 4);
    EXPECT(weft_scatter_reduce(x, 0, at, s, "amax", false), 0, 2, 20, 4);
    EXPECT(weft_scatter_reduce(x, 0, at, s, "amin", true), 0, 1, 20, 4);
    EXPECT(weft_scatter_reduce(x, 0, at, s, "mean", false), 1e-6, 1.5, 20, 4);
    EXPECT(weft_scatter_reduce(x, 0, at, s, "mean", true), 1e-5, 13.0 / 3, 20, 17);
    EXPECT(weft_scatter(x, 0, INTS(1), weft_scalar_f32(ctx, 5)), 0, 10, 5, 30);
    refuses(WEFT_E_DTYPE, "scatter: index is f32, expected integers", weft_scatter(x, 0, s, s));
    refuses(WEFT_E_DTYPE, "index: index is f32", weft_index(x, &s, 1));
    refuses(WEFT_E_VALUE, "reduce is \"max\"", weft_scatter_reduce(x, 0, at, s, "max", true));
    refuses(WEFT_E_SHAPE, "scatter: src [2] is smaller than index [3]", weft_scatter(x, 0, at, FLOATS(1, 2)));
    refuses(WEFT_E_SHAPE, "scatter_add: index [3] does not fit input [1, 3]", weft_scatter_add(weft_unsqueeze(x, 0), 0, at, s));
}

static void slices_are_added_copied_and_filled(void **state)
{
    (void)state;
    weft_tensor *x = weft_reshape(FLOATS(1, 2, 3, 4, 5, 6), 2, (int64_t[]){3, 2}), *at = INTS(2, 0, -1);
    weft_tensor *s = weft_reshape(FLOATS(10, 20, 30, 40, 50, 60), 2, (int64_t[]){3, 2});
    EXPECT(weft_index_add(x, 0, at, s, 2), 0, 61, 82, 3, 4, 125, 166);
    EXPECT(weft_index_copy(x, 0, at, s), 0, 30, 40, 3, 4, 50, 60);
    EXPECT(weft_index_fill(x, 1, INTS(-1), weft_scalar_f32(ctx, 0)), 0, 1, 0, 3, 0, 5, 0);
    EXPECT(weft_index_add(weft_transpose(x, 0, 1), 1, at, weft_transpose(s, 0, 1), 1), 0, 31, 3, 65, 42, 4, 86);
    refuses(WEFT_E_SHAPE, "index_add: src [3, 2] does not fit input [3, 2] with 2 indices", weft_index_add(x, 0, INTS(0, 1), s, 1));
}

static void an_index_outside_is_an_error_of_the_evaluation(void **state)
{
    (void)state;
    weft_tensor *x = FLOATS(1, 2, 3);
    float out[3];
    weft_tensor *bad[] = {weft_scatter(x, 0, INTS(3), FLOATS(1)), weft_index_add(x, 0, INTS(-4), FLOATS(1), 1), weft_take(x, INTS(0, 7)),
                          weft_index(x, (weft_tensor *[]){INTS(5)}, 1), weft_index_put(x, (weft_tensor *[]){INTS(-9)}, 1, FLOATS(1), true),
                          weft_masked_scatter(x, weft_tensor_from(ctx, WEFT_DTYPE_BOOL, 1, (int64_t[]){3}, "\1\1\1"), FLOATS(1, 2)),
                          weft_gather(x, 0, INTS(1, 3)), weft_index_select(x, 0, INTS(-4)), weft_take_along_axis(x, INTS(2, 1000000), 0),
                          weft_embedding(weft_reshape(x, 2, (int64_t[]){3, 1}), INTS(0, 8))};
    static const char *const sentences[] = {"holds 3, outside its axis of extent 3", "holds -4, outside its axis of extent 3", "holds 7, outside its axis of extent 3",
                                            "holds 5, outside its axis of extent 3", "holds -9, outside its axis of extent 3", "holds 2, outside its axis of extent 2",
                                            "holds 3, outside its axis of extent 3", "holds -4, outside its axis of extent 3",
                                            "holds 1000000, outside its axis of extent 3", "holds 8, outside its axis of extent 3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sound(bad[i]);
        assert_int_equal(weft_read(bad[i], out, weft_tensor_nbytes(bad[i])), WEFT_E_INDEX);
        if (!strstr(weft_error_message(), sentences[i]))
            fail_msg("\"%s\" does not say \"%s\"", weft_error_message(), sentences[i]);
    }
    EXPECT(weft_scatter(x, 0, INTS(-3), FLOATS(9)), 0, 9, 2, 3);
}

/* ---- advanced indexing ---- */

static void indices_combine_as_in_numpy(void **state)
{
    (void)state;
    weft_tensor *x = weft_reshape(weft_arange(ctx, WEFT_DTYPE_F32, 24, 0, 1), 3, (int64_t[]){2, 3, 4});
    weft_tensor *i = INTS(1, 0), *k = INTS(-1, 2), *column = weft_reshape(INTS(0, 2), 2, (int64_t[]){2, 1});
    EXPECT(weft_index(x, (weft_tensor *[]){i, NULL, k}, 3), 0, 15, 19, 23, 2, 6, 10); /* in front: [2, 3] */
    EXPECT(weft_index(x, (weft_tensor *[]){NULL, column, k}, 3), 0, 3, 2, 11, 10, 15, 14, 23, 22);
    assert_int_equal(weft_tensor_rank(weft_index(x, (weft_tensor *[]){NULL, column, k}, 3)), 3);
    EXPECT(weft_index(weft_transpose(x, 0, 2), (weft_tensor *[]){k, INTS(1, 0)}, 2), 0, 7, 19, 2, 14);
    EXPECT(weft_index(x, (weft_tensor *[]){NULL, NULL, INTS(3)}, 3), 0, 3, 7, 11, 15, 19, 23);
    weft_tensor *mask = weft_tensor_from(ctx, WEFT_DTYPE_BOOL, 2, (int64_t[]){2, 3}, "\0\1\0\0\0\1");
    EXPECT(weft_index(x, (weft_tensor *[]){mask, INTS(0)}, 2), 0, 4, 20);
    EXPECT(weft_index_put(FLOATS(1, 2, 3), (weft_tensor *[]){INTS(0, 0, 2)}, 1, FLOATS(10, 20, 30), false), 0, 20, 2, 30);
    EXPECT(weft_index_put(FLOATS(1, 2, 3), (weft_tensor *[]){INTS(0, 0, 2)}, 1, FLOATS(10, 20, 30), true), 0, 31, 2, 33);
    weft_tensor *z = weft_zeros(ctx, WEFT_DTYPE_I32, 3, (int64_t[]){2, 2, 2});
    EXPECT(weft_index_put(z, (weft_tensor *[]){i, NULL, INTS(0, 1)}, 3, INTS(5, 6), false), 0, 0, 5, 0, 6, 5, 0, 6, 0);
    refuses(WEFT_E_SHAPE, "index: 4 indices take more than the 3 axes", weft_index(x, (weft_tensor *[]){i, i, i, i}, 4));
    refuses(WEFT_E_SHAPE, "index: the bool index 0 has extent 2 where input has 3", weft_index(FLOATS(1, 2, 3), (weft_tensor *[]){weft_squeeze(weft_slice(mask, 1, 0, 1, 1), 1)}, 1));
}

static void elements_are_picked(void **state)
{
    (void)state;
    weft_tensor *x = weft_reshape(FLOATS(1, 2, 3, 4, 5, 6), 2, (int64_t[]){2, 3});
    EXPECT(weft_take(weft_transpose(x, 0, 1), weft_reshape(INTS(0, 1, -1, 2), 2, (int64_t[]){2, 2})), 0, 1, 4, 6, 2);
    EXPECT(weft_take_along_axis(x, weft_reshape(INTS(2, 0), 2, (int64_t[]){1, 2}), 1), 0, 3, 1, 6, 4);
    refuses(WEFT_E_SHAPE, "take_along_axis: input has rank 2, index 1", weft_take_along_axis(x, INTS(1), 0));
}

/* ---- where ---- */

static void places_become_dense(void **state)
{
    (void)state;
    weft_tensor *x = weft_reshape(FLOATS(0, 2, NAN, 0, 0, 6), 2, (int64_t[]){2, 3}), *inverse, *counts;
    EXPECT(weft_nonzero(x), 0, 0, 1, 0, 2, 1, 2);
    EXPECT(weft_nonzero(weft_transpose(x, 0, 1)), 0, 1, 0, 2, 0, 2, 1);
    EXPECT(weft_nonzero_static(x, 4, -1), 0, 0, 1, 0, 2, 1, 2, -1, -1);
    EXPECT(weft_nonzero_static(x, 1, -1), 0, 0, 1);
    assert_int_equal(weft_tensor_numel(weft_nonzero(weft_zeros(ctx, WEFT_DTYPE_I32, 2, (int64_t[]){2, 3}))), 0);
    assert_int_equal(weft_tensor_dim(weft_nonzero(weft_zeros(ctx, WEFT_DTYPE_I32, 2, (int64_t[]){0, 3})), 1), 2);
    EXPECT(weft_masked_select(x, weft_gt(x, weft_scalar_f32(ctx, 1))), 0, 2, 6);
    EXPECT(weft_masked_select(x, weft_tensor_from(ctx, WEFT_DTYPE_BOOL, 1, (int64_t[]){3}, "\1\0\1")), 0, 0, NAN, 0, 6);
    EXPECT(weft_masked_scatter(FLOATS(1, 2, 3, 4), weft_tensor_from(ctx, WEFT_DTYPE_BOOL, 1, (int64_t[]){4}, "\0\1\0\1"), FLOATS(8, 9, 7)), 0, 1, 8, 3, 9);
    EXPECT(weft_unique(INTS(3, 1, 3, -2, 1, 3), &inverse, &counts), 0, -2, 1, 3);
    EXPECT(inverse, 0, 2, 1, 2, 0, 1, 2);
    EXPECT(counts, 0, 1, 2, 3);
    EXPECT(weft_unique(FLOATS(NAN, 1, NAN), NULL, NULL), 0, 1, NAN, NAN);
    assert_int_equal(weft_tensor_numel(weft_unique(weft_zeros(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){0}), &inverse, &counts)), 0);
    EXPECT(weft_bincount(INTS(1, 3, 1), NULL, 0), 0, 0, 2, 0, 1);
    EXPECT(weft_bincount(INTS(1, 3, 1), FLOATS(0.5f, 1, 2), 5), 0, 0, 2.5, 0, 1, 0);
    refuses(WEFT_E_VALUE, "bincount: input holds -1", weft_bincount(INTS(1, -1), NULL, 0));
    refuses(WEFT_E_DTYPE, "bincount: input is f32", weft_bincount(FLOATS(1), NULL, 0));
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_case, end_case)
    const struct CMUnitTest tests[] = {
        CASE(sorts_are_stable_on_every_view_and_dtype), CASE(long_lines_are_sorted_stably), CASE(sorted_values_have_the_bits_of_picking_by_the_order),
        CASE(order_knows_its_edges), CASE(searches_find_their_place),
        CASE(scatters_combine_in_order_on_every_view_and_dtype), CASE(scatter_reduce_can_leave_itself_out),
        CASE(slices_are_added_copied_and_filled), CASE(an_index_outside_is_an_error_of_the_evaluation),
        CASE(indices_combine_as_in_numpy), CASE(elements_are_picked), CASE(places_become_dense),
    };
    return cmocka_run_group_tests(tests, open_case, close_case);
}
