/* Tensors larger than one binding compute on the device: each case runs under a binding of a few KiB and in an
 * ordinary context of the same device, and gives the same, without a kernel on the CPU. Bits are compared where no sum is
 * cut; where one is, small whole numbers keep every order exact. */
#include "weft/weft.h"
#include "device_context.h"

#include <stdatomic.h>

#define TEST(name) static void name(void **state)

enum { BINDING = 4096, BUFFERS = 8 };

static weft_ctx *open_ctx(uint64_t binding)
{
    weft_ctx_opts o = test_opts();
    weft_ctx *c = NULL;
    o.max_binding_bytes = binding;
    o.max_storage_buffers = BUFFERS;
    o.max_workgroup_invocations = 256;
    o.max_workgroup_bytes = 16384;
    if (weft_ctx_open(&o, &c) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    return c;
}

/* Small whole numbers in no simple order. */
static weft_tensor *numbers(weft_ctx *c, weft_dtype dtype, int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        n *= shape[d];
    float *v = malloc((size_t)n * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)((i * 2654435761u >> 7) % 17) - 8;
    weft_tensor *t = weft_tensor_from(c, WEFT_DTYPE_F32, rank, shape, v);
    free(v);
    return dtype == WEFT_DTYPE_F32 ? t : weft_cast(t, dtype);
}

static weft_tensor *indices(weft_ctx *c, int64_t extent, int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        n *= shape[d];
    int32_t *v = malloc((size_t)n * sizeof *v);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (int32_t)(i * 2654435761u % (2 * extent)) - (int32_t)extent; /* every second one counts from the end */
    weft_tensor *t = weft_tensor_from(c, WEFT_DTYPE_I32, rank, shape, v);
    free(v);
    return t;
}

/* The largest single request of memory since it was set to 0. */
static _Atomic size_t largest_request;

static void *counting_realloc(void *user, void *ptr, size_t size_bytes)
{
    (void)user;
    size_t seen = atomic_load(&largest_request);
    while (size_bytes > seen && !atomic_compare_exchange_weak(&largest_request, &seen, size_bytes))
        ;
    return realloc(ptr, size_bytes);
}

static void counting_free(void *user, void *ptr)
{
    (void)user;
    free(ptr);
}

typedef weft_tensor *(*expression)(weft_ctx *c);

static void compute(expression make, const char *name, uint64_t binding, uint8_t **bytes, size_t *n)
{
    weft_ctx *c = open_ctx(binding);
    weft_scope *scope = weft_scope_begin(c);
    weft_tensor *y = make(c);
    weft_stats stats;
    *n = weft_tensor_nbytes(y);
    *bytes = malloc(*n ? *n : 1);
    assert_non_null(*bytes);
    if (weft_read(y, *bytes, *n) != WEFT_OK)
        fail_msg("%s, binding %llu: %s", name, (unsigned long long)binding, weft_error_message());
    assert_int_equal(weft_ctx_stats(c, &stats), WEFT_OK);
    if (stats.fallbacks)
        fail_msg("%s, binding %llu: %llu kernels on the CPU", name, (unsigned long long)binding, (unsigned long long)stats.fallbacks);
    weft_scope_end(scope);
    weft_ctx_close(c);
}

static void same_in_parts(expression make, const char *name)
{
    uint8_t *whole, *parts;
    size_t n, m;
    compute(make, name, 0, &whole, &n);
    compute(make, name, BINDING, &parts, &m);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++)
        if (whole[i] != parts[i])
            fail_msg("%s: byte %zu of %zu is %u, expected %u", name, i, n, parts[i], whole[i]);
    free(whole);
    free(parts);
}
#define SAME(make) same_in_parts(make, #make)

/* ---- generated kernels ---- */
static weft_tensor *turned(weft_ctx *c) { return weft_contiguous(weft_transpose(numbers(c, WEFT_DTYPE_F32, DIMS(70, 90)), 0, 1)); }
static weft_tensor *turned_halves(weft_ctx *c) { return weft_contiguous(weft_transpose(numbers(c, WEFT_DTYPE_F16, DIMS(3, 71, 93)), 0, 2)); }
static weft_tensor *turned_bytes(weft_ctx *c) { return weft_contiguous(weft_flip(weft_transpose(numbers(c, WEFT_DTYPE_I8, DIMS(101, 103)), 0, 1), 1)); }
static weft_tensor *joined(weft_ctx *c)
{
    return weft_cat((weft_tensor *[]){numbers(c, WEFT_DTYPE_F32, DIMS(2, 40, 50)), numbers(c, WEFT_DTYPE_F32, DIMS(2, 7, 50))}, 2, 1);
}
static weft_tensor *reshaped(weft_ctx *c) /* indices that are split into coordinates inside one kernel */
{
    weft_tensor *x = weft_transpose(numbers(c, WEFT_DTYPE_F32, DIMS(60, 30, 2)), 0, 1);
    return weft_exp(weft_add(weft_reshape(x, DIMS(60, 60)), numbers(c, WEFT_DTYPE_F32, DIMS(60, 60))));
}
static weft_tensor *rows_scaled(weft_ctx *c)
{
    return weft_softmax(weft_mul(numbers(c, WEFT_DTYPE_F32, DIMS(40, 90)), numbers(c, WEFT_DTYPE_F32, DIMS(40, 1))), 1);
}
static weft_tensor *columns_summed(weft_ctx *c) { return weft_sum(numbers(c, WEFT_DTYPE_F32, DIMS(90, 80)), (int[]){0}, 1, false); }
static weft_tensor *long_rows(weft_ctx *c) { return weft_argmax(numbers(c, WEFT_DTYPE_F32, DIMS(3, 3001)), (int[]){1}, 1, false); }

TEST(copies_and_elementwise_ops_are_cut_along_any_axis)
{
    SAME(turned);
    SAME(turned_halves);
    SAME(turned_bytes);
    SAME(joined);
    SAME(reshaped);
}

TEST(rows_and_reductions_are_cut_or_read_through_several_bindings)
{
    SAME(rows_scaled);
    SAME(columns_summed);
    SAME(long_rows);
}

/* ---- updates ---- */
static int update_axis, update_by_tensor;
static weft_dtype update_dtype;
static int32_t update_at;

static weft_tensor *start(weft_ctx *c)
{
    return update_by_tensor ? weft_tensor_from(c, WEFT_DTYPE_I32, 0, NULL, &update_at) : weft_scalar_i32(c, update_at);
}
static weft_tensor *updated(weft_ctx *c)
{
    int64_t shape[2] = {60, 60};
    weft_tensor *to = numbers(c, update_dtype, 2, shape);
    shape[update_axis] = 3;
    return weft_slice_update(to, numbers(c, update_dtype, 2, shape), update_axis, start(c));
}
static weft_tensor *updated_much(weft_ctx *c) /* what is written is larger than a binding too, and computed on the way */
{
    weft_tensor *from = weft_add(numbers(c, update_dtype, DIMS(50, 45)), numbers(c, update_dtype, DIMS(45)));
    return weft_slice_update(numbers(c, update_dtype, DIMS(60, 45)), from, 0, start(c));
}
static weft_tensor *updated_cache(weft_ctx *c)
{
    return weft_slice_update(numbers(c, update_dtype, DIMS(1, 4, 64, 16)), numbers(c, update_dtype, DIMS(1, 4, 1, 16)), 2, start(c));
}

/* On the device that computes nothing: compiled without a kernel on the CPU. */
static void compiles(expression make, const char *name)
{
    weft_ctx_opts o = {.device = "null", .max_binding_bytes = BINDING};
    weft_ctx *c = NULL;
    weft_stats stats;
    assert_int_equal(weft_ctx_open(&o, &c), WEFT_OK);
    weft_scope *scope = weft_scope_begin(c);
    weft_tensor *y = make(c);
    if (weft_eval(&y, 1) != WEFT_OK)
        fail_msg("%s, axis %d, by tensor %d: %s", name, update_axis, update_by_tensor, weft_error_message());
    assert_int_equal(weft_ctx_stats(c, &stats), WEFT_OK);
    assert_int_equal(stats.fallbacks, 0);
    weft_scope_end(scope);
    weft_ctx_close(c);
}

TEST(updates_begin_anywhere_in_tensors_larger_than_a_binding)
{
    for (update_by_tensor = 0; update_by_tensor < 2; update_by_tensor++)
        for (int i = 0; i < 2; i++) {
            update_dtype = i ? WEFT_DTYPE_F16 : WEFT_DTYPE_F32;
            for (update_axis = 0; update_axis < 2; update_axis++)
                for (update_at = 0; update_at <= 57; update_at += 19) {
                    compiles(updated, "updated");
                    SAME(updated);
                }
            update_at = 9;
            compiles(updated_much, "updated_much");
            SAME(updated_much);
            compiles(updated_cache, "updated_cache");
            SAME(updated_cache);
        }
}

/* ---- tables ---- */
static weft_tensor *picked(weft_ctx *c) /* by chunks of a kernel's bindings */
{
    return weft_embedding(numbers(c, WEFT_DTYPE_F32, DIMS(200, 16)), indices(c, 200, DIMS(7, 5)));
}
static weft_tensor *picked_from_many(weft_ctx *c) /* part by part */
{
    return weft_mul(weft_embedding(numbers(c, WEFT_DTYPE_F32, DIMS(900, 33)), indices(c, 900, DIMS(11))), numbers(c, WEFT_DTYPE_F32, DIMS(33)));
}
static weft_tensor *picked_halves(weft_ctx *c)
{
    return weft_embedding(numbers(c, WEFT_DTYPE_F16, DIMS(1500, 33)), indices(c, 1500, DIMS(50)));
}
static weft_tensor *picked_columns(weft_ctx *c)
{
    return weft_index_select(numbers(c, WEFT_DTYPE_F32, DIMS(60, 500)), 1, indices(c, 500, DIMS(9)));
}
static weft_tensor *gathered(weft_ctx *c)
{
    return weft_gather(numbers(c, WEFT_DTYPE_I32, DIMS(700, 20)), 0, indices(c, 700, DIMS(31, 20)));
}
static weft_tensor *gathered_along_rows(weft_ctx *c)
{
    return weft_gather(numbers(c, WEFT_DTYPE_F32, DIMS(40, 300)), 1, indices(c, 300, DIMS(40, 77)));
}
static int picked_axis;
static weft_tensor *picked_one(weft_ctx *c) /* by a run-time number */
{
    return weft_index_select(numbers(c, WEFT_DTYPE_F32, DIMS(60, 60)), picked_axis, weft_scalar_i32(c, -7));
}

TEST(a_run_time_number_picks_from_tensors_larger_than_a_binding)
{
    for (picked_axis = 0; picked_axis < 2; picked_axis++) {
        compiles(picked_one, "picked_one");
        SAME(picked_one);
    }
}

TEST(tables_beyond_all_bindings_are_read_part_by_part)
{
    SAME(picked);
    SAME(picked_from_many);
    SAME(picked_halves);
    SAME(picked_columns);
    SAME(gathered);
    SAME(gathered_along_rows);
}

TEST(an_index_outside_a_table_in_parts_is_an_error)
{
    weft_ctx *c = open_ctx(BINDING);
    weft_scope *scope = weft_scope_begin(c);
    int32_t outside[2] = {3, 900};
    weft_tensor *y = weft_embedding(numbers(c, WEFT_DTYPE_F32, DIMS(900, 33)), weft_tensor_from(c, WEFT_DTYPE_I32, DIMS(2), outside));
    float got[66];
    assert_int_equal(weft_read(y, got, sizeof got), WEFT_E_INDEX);
    assert_non_null(strstr(weft_error_message(), "900"));
    weft_scope_end(scope);
    weft_ctx_close(c);
}

/* ---- block types ---- */
static const weft_dtype block_types[] = {WEFT_DTYPE_Q8_0, WEFT_DTYPE_Q4_0, WEFT_DTYPE_Q4_1};
static weft_dtype block_type;
static int64_t block_rows = 150, block_width = 96, x_rows = 1;

static weft_tensor *blocks(weft_ctx *c)
{
    size_t n = (size_t)(block_rows * block_width), bytes = n / (size_t)weft_dtype_block(block_type) * weft_dtype_block_bytes(block_type);
    float *v = malloc(n * sizeof *v);
    void *packed = malloc(bytes);
    assert_true(v && packed);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((i * 2654435761u >> 7) % 15) - 8; /* of every type exactly */
    for (size_t i = 0; i < n; i += 32) { /* both ends in every block: a scale of 1 */
        v[i] = block_type == WEFT_DTYPE_Q8_0 ? -127 : -8;
        v[i + 1] = block_type == WEFT_DTYPE_Q4_1 ? 7 : v[i + 1];
    }
    assert_int_equal(weft_quantize_rows(block_type, block_rows, block_width, v, packed), WEFT_OK);
    weft_tensor *t = weft_tensor_from(c, block_type, DIMS(block_rows, block_width), packed);
    assert_int_equal(weft_tensor_status(t), WEFT_OK);
    free(v);
    free(packed);
    return t;
}
static weft_tensor *product_with_blocks(weft_ctx *c) { return weft_linear(numbers(c, WEFT_DTYPE_F32, DIMS(x_rows, block_width)), blocks(c), &(weft_linear_opts){.bias = numbers(c, WEFT_DTYPE_F32, DIMS(block_rows))}); }
static weft_tensor *product_with_some_rows(weft_ctx *c)
{
    return weft_linear(numbers(c, WEFT_DTYPE_F32, DIMS(x_rows, block_width)), weft_slice(blocks(c), 0, 7, block_rows - 5, 1), NULL);
}
static weft_tensor *picked_blocks(weft_ctx *c) { return weft_embedding(blocks(c), indices(c, block_rows, DIMS(12))); }
static weft_tensor *widened_blocks(weft_ctx *c) { return weft_cast(blocks(c), WEFT_DTYPE_F32); }
static weft_tensor *stored_blocks(weft_ctx *c) { return weft_slice(blocks(c), 0, 3, block_rows - 1, 1); }

TEST(block_types_beyond_a_binding_are_read_section_by_section)
{
    for (size_t i = 0; i < sizeof block_types / sizeof *block_types; i++) {
        block_type = block_types[i];
        SAME(stored_blocks);
        SAME(widened_blocks);
        SAME(picked_blocks);
        for (x_rows = 1; x_rows <= 70; x_rows += 23) {
            SAME(product_with_blocks);
            SAME(product_with_some_rows);
        }
    }
}

/* ---- hand-written kernels ---- */
static weft_tensor *plain_product(weft_ctx *c) { return weft_matmul(numbers(c, WEFT_DTYPE_F32, DIMS(50, 60)), numbers(c, WEFT_DTYPE_F32, DIMS(60, 90))); }
static weft_tensor *batched_product(weft_ctx *c)
{
    weft_tensor *a = weft_transpose(numbers(c, WEFT_DTYPE_F32, DIMS(3, 60, 50)), 1, 2);
    return weft_relu(weft_matmul(a, numbers(c, WEFT_DTYPE_F32, DIMS(3, 60, 70))));
}
static weft_tensor *halves_layer(weft_ctx *c) { return weft_linear(numbers(c, WEFT_DTYPE_F32, DIMS(3, 200)), numbers(c, WEFT_DTYPE_F16, DIMS(301, 200)), NULL); }
static weft_tensor *layer_lying_across(weft_ctx *c)
{
    return weft_linear(numbers(c, WEFT_DTYPE_F32, DIMS(3, 90)), weft_transpose(numbers(c, WEFT_DTYPE_F32, DIMS(90, 101)), 0, 1), NULL);
}
static weft_tensor *running_sums(weft_ctx *c) { return weft_cumsum(numbers(c, WEFT_DTYPE_F32, DIMS(7, 5, 300)), 2); }
static weft_tensor *running_sums_of_columns(weft_ctx *c) { return weft_cumsum(numbers(c, WEFT_DTYPE_F32, DIMS(9, 40, 20)), 1); }
static weft_tensor *order(weft_ctx *c) { return weft_argsort(numbers(c, WEFT_DTYPE_F32, DIMS(50, 100)), 1, false); }
static weft_tensor *largest(weft_ctx *c)
{
    weft_tensor *values, *at = weft_topk(numbers(c, WEFT_DTYPE_F32, DIMS(60, 110)), 7, &values);
    return weft_mul(weft_cast(at, WEFT_DTYPE_F32), values);
}
static weft_tensor *attention(weft_ctx *c)
{
    return weft_scaled_dot_product_attention(numbers(c, WEFT_DTYPE_F32, DIMS(2, 4, 9, 16)), numbers(c, WEFT_DTYPE_F32, DIMS(2, 2, 40, 16)),
                                             numbers(c, WEFT_DTYPE_F32, DIMS(2, 2, 40, 16)), &(weft_attention_opts){.is_causal = true});
}

TEST(products_are_cut_and_what_lies_across_is_turned)
{
    SAME(plain_product);
    SAME(batched_product);
    SAME(halves_layer);
    SAME(layer_lying_across);
}

TEST(lines_and_heads_are_cut_apart)
{
    SAME(running_sums);
    SAME(running_sums_of_columns);
    SAME(order);
    SAME(largest);
    SAME(attention);
}

/* Many operations that may be cut: each is given room for the parts it has, not for the most there can be. */
static weft_tensor *many_products(weft_ctx *c)
{
    weft_tensor *x = numbers(c, WEFT_DTYPE_F32, DIMS(20, 20)), *w = numbers(c, WEFT_DTYPE_F32, DIMS(20, 20));
    for (int i = 0; i < 300; i++)
        x = weft_matmul(x, w);
    return x;
}
static weft_tensor *many_lines(weft_ctx *c)
{
    weft_tensor *x = numbers(c, WEFT_DTYPE_F32, DIMS(40, 50));
    for (int i = 0; i < 300; i++)
        x = weft_cumsum(x, 1);
    return x;
}

TEST(a_graph_of_many_operations_that_may_be_cut_takes_little_memory)
{
    atomic_store(&largest_request, 0);
    compiles(many_products, "many_products");
    compiles(many_lines, "many_lines");
    size_t largest = atomic_load(&largest_request);
    if (largest == 0 || largest > 8 << 20)
        fail_msg("one request of %zu bytes", largest);
}

TEST(what_no_axis_helps_is_an_error_that_says_what_it_needs)
{
    weft_ctx *c = open_ctx(BINDING);
    weft_scope *scope = weft_scope_begin(c);
    weft_tensor *y = weft_argsort(numbers(c, WEFT_DTYPE_F32, DIMS(20000)), 0, false), *one = weft_add(numbers(c, WEFT_DTYPE_F32, DIMS(1)), numbers(c, WEFT_DTYPE_F32, DIMS(1)));
    weft_stats stats;
    float sum = 0;
    weft_device_info device;
    assert_int_equal(weft_ctx_device(c, &device), WEFT_OK);
    if (device.max_binding_bytes > BINDING) { /* the CPU has no such limit */
        assert_int_equal(weft_eval(&y, 1), WEFT_OK);
    } else {
        assert_int_equal(weft_eval(&y, 1), WEFT_E_UNSUPPORTED);
        assert_non_null(strstr(weft_error_message(), "sort"));
        assert_non_null(strstr(weft_error_message(), "80000"));
        assert_non_null(strstr(weft_error_message(), "4096"));
    }
    assert_int_equal(weft_read(one, &sum, sizeof sum), WEFT_OK);
    assert_true(sum == -16);
    assert_int_equal(weft_ctx_stats(c, &stats), WEFT_OK);
    assert_int_equal(stats.fallbacks, 0);
    weft_scope_end(scope);
    weft_ctx_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_and_elementwise_ops_are_cut_along_any_axis),
        cmocka_unit_test(rows_and_reductions_are_cut_or_read_through_several_bindings),
        cmocka_unit_test(updates_begin_anywhere_in_tensors_larger_than_a_binding),
        cmocka_unit_test(a_run_time_number_picks_from_tensors_larger_than_a_binding),
        cmocka_unit_test(tables_beyond_all_bindings_are_read_part_by_part),
        cmocka_unit_test(an_index_outside_a_table_in_parts_is_an_error),
        cmocka_unit_test(block_types_beyond_a_binding_are_read_section_by_section),
        cmocka_unit_test(products_are_cut_and_what_lies_across_is_turned),
        cmocka_unit_test(lines_and_heads_are_cut_apart),
        cmocka_unit_test(a_graph_of_many_operations_that_may_be_cut_takes_little_memory),
        cmocka_unit_test(what_no_axis_helps_is_an_error_that_says_what_it_needs),
    };
    weft_allocator counting = {.realloc = counting_realloc, .free = counting_free};
    if (weft_set_allocator(&counting) != WEFT_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
