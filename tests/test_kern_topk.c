/* test_kern_topk.c - indices of the k largest against a stable sort. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "kern_check.h"

static wf_pool *pools[2];
static int start(void **state)
{
    (void)state;
    return wf_pool_create(1, &pools[0]) != WEFT_OK || wf_pool_create(3, &pools[1]) != WEFT_OK;
}
static int stop(void **state)
{
    (void)state;
    wf_pool_destroy(pools[0]);
    wf_pool_destroy(pools[1]);
    return 0;
}

typedef struct item {
    double v;
    int32_t i;
} item;
static int by_value(const void *a, const void *b)
{
    const item *x = a, *y = b;
    const bool nx = isnan(x->v), ny = isnan(y->v);
    if (nx != ny)
        return nx ? -1 : 1;
    if (!nx && x->v != y->v)
        return x->v > y->v ? -1 : 1;
    return x->i < y->i ? -1 : 1;
}

static void check(int64_t rows, int64_t n, int64_t k, weft_dtype t, int lie, int values)
{
    const int64_t shape[3] = {rows % 2 ? 1 : 2, rows % 2 ? rows : rows / 2, n};
    operand x = make_operand(t, 3, shape, lie);
    for (int64_t i = 0; i < x.op.numel; i++)
        put_value(x.data, t, i, values == 0 ? rng_float() : values == 1 ? (double)pick(5) - 2 : pick(7) ? -0.0 * rng_float() : pick(2) ? NAN : -INFINITY);
    wf_kernel_req req = {.op = WF_OP_TOPK, .n_in = 1, .in = {x.op}, .out_dtype = WEFT_DTYPE_I32, .out_rank = 3, .out_shape = {shape[0], shape[1], k}};
    req.attrs.topk.k = k;
    void *in[1] = {x.data};
    const size_t bytes = (size_t)(rows * k) * 4;
    int32_t *out = malloc(bytes + GUARD);
    item *items = malloc((size_t)(n + 1) * sizeof *items);
    assert_true(out && items);
    for (int p = 0; p < 2; p++) {
        if (run_request(&req, in, &x.bytes, out, bytes, NULL, pools[p], NULL) != WEFT_OK)
            fail_msg("%s", weft_error_message());
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t i = 0; i < n; i++)
                items[i] = (item){get_value(x.data, t, x.op.view.offset + r / shape[1] * x.op.view.strides[0] + r % shape[1] * x.op.view.strides[1] +
                                                           i * x.op.view.strides[2]), (int32_t)i};
            qsort(items, (size_t)n, sizeof *items, by_value);
            for (int64_t i = 0; i < k; i++)
                if (out[r * k + i] != items[i].i)
                    fail_msg("rows %lld n %lld k %lld %s: place %lld of row %lld is %d, expected %d", (long long)rows, (long long)n, (long long)k,
                             weft_dtype_name(t), (long long)i, (long long)r, out[r * k + i], items[i].i);
        }
    }
    free(items);
    free(out);
    free(x.data);
}

static void descending_ties_by_index_nan_first(void **state)
{
    (void)state;
    static const weft_dtype types[] = {WEFT_DTYPE_F32, WEFT_DTYPE_F16, WEFT_DTYPE_BF16, WEFT_DTYPE_F64};
    static const int64_t sizes[][3] = {{1, 1, 1}, {1, 5, 0}, {3, 7, 7}, {4, 100, 3}, {2, 1000, 40}, {70, 9, 2}, {0, 4, 2}};
    for (size_t s = 0; s < WF_COUNT(sizes); s++)
        for (size_t t = 0; t < WF_COUNT(types); t++)
            for (int v = 0; v < 3; v++)
                check(sizes[s][0], sizes[s][1], sizes[s][2], types[t], (int)pick(LIE_COUNT), v);
    for (int v = 0; v < 2; v++)
        check(2, 50, 10, WEFT_DTYPE_I32, LIE_SLICED, 1);
}

static void long_rows_are_merged_from_pieces(void **state)
{
    (void)state;
    for (int v = 0; v < 3; v++) {
        check(1, 100000, 40, WEFT_DTYPE_F32, LIE_ROWS, v);
        check(2, 32769, 1, WEFT_DTYPE_F16, LIE_ROWS, v);
        check(1, 33000, 900, WEFT_DTYPE_F32, LIE_NEGATIVE, v);
        check(1, 40000, 39000, WEFT_DTYPE_F32, LIE_ROWS, v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descending_ties_by_index_nan_first),
        cmocka_unit_test(long_rows_are_merged_from_pieces),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
