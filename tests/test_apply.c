/* test_apply.c - the table of operations and the generic builder: signatures parse, defaults and numbers work as
 * written, wrong calls say what is wrong.
 */
#include <string.h>

#include "device_fixture.h"

static weft_tensor *vec(float a, float b, float c)
{
    return weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){3}, (float[]){a, b, c});
}

static void expect(weft_tensor *t, int n, const float *want)
{
    float got[64];
    assert_int_equal(weft_tensor_numel(t), n);
    if (weft_read_as(t, WEFT_DTYPE_F32, got, (size_t)n * 4) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    for (int i = 0; i < n; i++)
        assert_float_equal(got[i], want[i], 1e-6f);
}

static void every_signature_parses_and_names_are_unique(void **state)
{
    (void)state;
    assert_true(weft_op_count() > 50);
    for (int i = 0; i < weft_op_count(); i++) {
        const weft_op_info *op = weft_op_at(i);
        if (strcmp(op->signature, "") != 0)
            assert_true(op->n_params > 0);
        int commas = 1;
        for (int depth = 0, j = 0; op->signature[j]; j++) {
            depth += op->signature[j] == '[' ? 1 : op->signature[j] == ']' ? -1 : 0;
            commas += op->signature[j] == ',' && depth == 0;
        }
        assert_int_equal(op->n_params, op->signature[0] ? commas : 0);
        for (int p = 0; p < op->n_params; p++)
            assert_true(strlen(op->params[p].name) > 0 && strlen(op->params[p].name) < 23 && strlen(op->params[p].preset) < 23);
        assert_ptr_equal(weft_op_find(op->name), op);
        assert_true(op->section[0] && op->bound[0] && op->doc[0]);
    }
    assert_null(weft_op_find("no_such_operation"));
    assert_null(weft_op_at(-1));
    assert_null(weft_op_at(weft_op_count()));
}

static void defaults_names_and_positions(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_outputs out;
    weft_tensor *in[2] = {vec(1, 2, 3), vec(10, 20, 30)};
    assert_int_equal(weft_apply(ctx, "add", in, 2, NULL, &out), WEFT_OK);
    assert_int_equal(out.n, 1);
    expect(out.tensor[0], 3, (float[]){11, 22, 33});
    weft_attr alpha = {.name = "alpha", .kind = WEFT_ATTR_INT, .i = 2};
    assert_int_equal(weft_apply(ctx, "add", in, 2, &(weft_attrs){&alpha, 1}, &out), WEFT_OK);
    expect(out.tensor[0], 3, (float[]){21, 42, 63});
    weft_attr dim = {.position = 1, .kind = WEFT_ATTR_INT, .i = -1};
    assert_int_equal(weft_apply(ctx, "sum", in, 1, &(weft_attrs){&dim, 1}, &out), WEFT_OK);
    expect(out.tensor[0], 1, (float[]){6});
    assert_int_equal(weft_apply(NULL, "topk", in, 1, &(weft_attrs){&(weft_attr){.name = "k", .kind = WEFT_ATTR_INT, .i = 2}, 1}, &out), WEFT_OK);
    assert_int_equal(out.n, 2);
    expect(out.tensor[0], 2, (float[]){3, 2});
    expect(out.tensor[1], 2, (float[]){2, 1});
    assert_int_equal(weft_apply(ctx, "cat", in, 2, NULL, &out), WEFT_OK);
    expect(out.tensor[0], 6, (float[]){1, 2, 3, 10, 20, 30});
    weft_scope_end(scope);
}

static void a_number_stands_for_a_tensor(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_outputs out;
    weft_tensor *x = vec(1, 2, 3), *i = weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, (int64_t[]){2}, (int32_t[]){1, 2});
    weft_attr other = {.name = "other", .kind = WEFT_ATTR_FLOAT, .f = 0.5};
    assert_int_equal(weft_apply(ctx, "mul", &x, 1, &(weft_attrs){&other, 1}, &out), WEFT_OK);
    expect(out.tensor[0], 3, (float[]){0.5f, 1, 1.5f});
    weft_attr input = {.name = "input", .kind = WEFT_ATTR_INT, .i = 1};
    assert_int_equal(weft_apply(ctx, "sub", &x, 1, &(weft_attrs){&input, 1}, &out), WEFT_OK);
    expect(out.tensor[0], 3, (float[]){0, -1, -2});
    weft_attr two = {.name = "other", .kind = WEFT_ATTR_INT, .i = 2};
    assert_int_equal(weft_apply(ctx, "mul", &i, 1, &(weft_attrs){&two, 1}, &out), WEFT_OK);
    assert_int_equal(weft_tensor_dtype(out.tensor[0]), WEFT_DTYPE_I32);
    assert_int_equal(weft_apply(ctx, "mul", &i, 1, &(weft_attrs){&other, 1}, &out), WEFT_OK);
    assert_int_equal(weft_tensor_dtype(out.tensor[0]), WEFT_DTYPE_F32);
    weft_scope_end(scope);
}

static void fails(weft_status want, const char *part, weft_status got)
{
    assert_int_equal(got, want);
    if (!strstr(weft_error_message(), part))
        fail_msg("\"%s\" does not say \"%s\"", weft_error_message(), part);
}

/* A number that the dtype of the tensor cannot hold: compared as it is, else an error, never another number. */
static void a_number_out_of_range_is_not_another_number(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_outputs out;
    weft_tensor *i8 = weft_tensor_from(ctx, WEFT_DTYPE_I8, 1, (int64_t[]){2}, (int8_t[]){44, -100});
    weft_tensor *u8 = weft_tensor_from(ctx, WEFT_DTYPE_U8, 1, (int64_t[]){2}, (uint8_t[]){0, 255});
    weft_tensor *mask = weft_eq(i8, i8), *in[3] = {i8, mask, NULL};
    weft_attr a = {.name = "other", .kind = WEFT_ATTR_INT, .i = 300};
    const weft_attrs attrs = {&a, 1};
    const char *const true_of_i8[] = {"lt", "le", "ne"}, *const true_of_u8[] = {"gt", "ge", "ne"};
    for (int k = 0; k < 3; k++) {
        a.i = 300;
        assert_int_equal(weft_apply(ctx, true_of_i8[k], &i8, 1, &attrs, &out), WEFT_OK);
        expect(weft_cast(out.tensor[0], WEFT_DTYPE_F32), 2, (float[]){1, 1});
        a.i = -1;
        assert_int_equal(weft_apply(ctx, true_of_u8[k], &u8, 1, &attrs, &out), WEFT_OK);
        expect(weft_cast(out.tensor[0], WEFT_DTYPE_F32), 2, (float[]){1, 1});
    }
    assert_int_equal(weft_apply(ctx, "add", &u8, 1, &attrs, &out), WEFT_OK); /* x + -1 is x - 1, which wraps */
    expect(weft_cast(out.tensor[0], WEFT_DTYPE_F32), 2, (float[]){255, 254});
    static const struct { const char *op, *name, *says; int64_t number; } errors[] = {
        {"add", "other", "add: i8 cannot hold the number 300", 300}, {"mul", "other", "cannot hold the number 1099511627776", (int64_t)1 << 40},
        {"maximum", "other", "i8 cannot hold the number -129", -129}, {"clamp", "max", "clamp: i8 cannot hold the number 128", 128},
        {"masked_fill", "value", "masked_fill: i8 cannot hold the number 300", 300}, {"floor_divide", "other", "cannot hold the number 200", 200},
    };
    for (size_t k = 0; k < sizeof errors / sizeof errors[0]; k++) {
        a = (weft_attr){.name = errors[k].name, .kind = WEFT_ATTR_INT, .i = errors[k].number};
        int n = strcmp(errors[k].op, "masked_fill") == 0 ? 2 : 1;
        assert_int_equal(weft_apply(ctx, errors[k].op, in, n, &attrs, &out), WEFT_OK);
        fails(WEFT_E_VALUE, errors[k].says, weft_tensor_status(out.tensor[0]));
    }
    weft_scope_end(scope);
}

static void wrong_calls_say_what_is_wrong(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_outputs out;
    weft_tensor *in[3] = {vec(1, 2, 3), vec(1, 2, 3), vec(1, 2, 3)};
    weft_attr a = {.name = "dmi", .kind = WEFT_ATTR_INT};
    fails(WEFT_E_VALUE, "nearest name is softmax", weft_apply(ctx, "softmx", in, 1, NULL, &out));
    fails(WEFT_E_VALUE, "no parameter dmi: softmax(Tensor input, int dim=-1, dtype? dtype=None)", weft_apply(ctx, "softmax", in, 1, &(weft_attrs){&a, 1}, &out));
    a.name = "dim", a.kind = WEFT_ATTR_FLOAT;
    fails(WEFT_E_DTYPE, "dim takes an integer, not a float", weft_apply(ctx, "softmax", in, 1, &(weft_attrs){&a, 1}, &out));
    fails(WEFT_E_VALUE, "3 inputs, of which it takes 2", weft_apply(ctx, "add", in, 3, NULL, &out));
    fails(WEFT_E_VALUE, "other is missing", weft_apply(ctx, "add", in, 1, NULL, &out));
    fails(WEFT_E_VALUE, "k is missing", weft_apply(ctx, "topk", in, 1, NULL, &out));
    fails(WEFT_E_VALUE, "is missing", weft_apply(ctx, NULL, in, 1, NULL, &out));
    a = (weft_attr){.position = 7, .kind = WEFT_ATTR_INT};
    fails(WEFT_E_VALUE, "no parameter at that position", weft_apply(ctx, "softmax", in, 1, &(weft_attrs){&a, 1}, &out));
    weft_attr twice[2] = {{.name = "dim", .kind = WEFT_ATTR_INT}, {.position = 1, .kind = WEFT_ATTR_INT}};
    fails(WEFT_E_VALUE, "dim is given twice", weft_apply(ctx, "softmax", in, 1, &(weft_attrs){twice, 2}, &out));
    in[1] = NULL;
    fails(WEFT_E_CONTEXT, "other is NULL", weft_apply(ctx, "add", in, 2, NULL, &out));
    weft_scope_end(scope);
}

static weft_status supports(const char *name, weft_dtype dtype, weft_support *out)
{
    const int64_t shape[2] = {5, 64};
    const weft_operand one[2] = {{dtype, 2, shape}, {dtype, 2, shape}};
    return weft_device_supports(ctx, name, one, strcmp(name, "add") == 0 ? 2 : 1, NULL, out);
}

static void the_compiler_says_where_an_operation_would_run(void **state)
{
    (void)state;
    weft_device_info device;
    weft_support s;
    assert_int_equal(weft_ctx_device(ctx, &device), WEFT_OK);
    weft_stats before, after;
    weft_ctx_stats(ctx, &before);
    assert_int_equal(supports("add", WEFT_DTYPE_F32, &s), WEFT_OK);
    assert_true(s.native);
    assert_string_equal(s.reason, "");
    assert_int_equal(supports("softmax", WEFT_DTYPE_F16, &s), WEFT_OK);
    assert_true(s.native);
    assert_int_equal(supports("add", WEFT_DTYPE_F64, &s), WEFT_OK);
    assert_int_equal(s.native, strcmp(device.kind, "cpu") == 0);
    if (!s.native)
        assert_non_null(strstr(s.reason, "64-bit"));
    const weft_operand operands[2] = {{WEFT_DTYPE_F32, 2, (int64_t[]){5, 64}}, {WEFT_DTYPE_BOOL, 2, (int64_t[]){5, 64}}};
    const weft_operand whole = {WEFT_DTYPE_I32, 1, (int64_t[]){40}};
    assert_int_equal(weft_device_supports(ctx, "masked_select", operands, 2, NULL, &s), WEFT_OK); /* these evaluate while they are recorded */
    assert_true(s.native);
    assert_int_equal(weft_device_supports(ctx, "index", operands, 2, NULL, &s), WEFT_OK);
    assert_true(s.native);
    static const char *const evaluating[] = {"nonzero", "unique", "bincount", "one_hot"};
    for (size_t i = 0; i < sizeof evaluating / sizeof evaluating[0]; i++) {
        assert_int_equal(weft_device_supports(ctx, evaluating[i], &whole, 1, NULL, &s), WEFT_OK);
        assert_true(s.native);
    }
    weft_attr along = {.name = "dim", .kind = WEFT_ATTR_INT};
    assert_int_equal(weft_device_supports(ctx, "unique", operands, 1, &(weft_attrs){&along, 1}, &s), WEFT_OK);
    const weft_operand wide = {WEFT_DTYPE_F64, 2, (int64_t[]){5, 64}};
    assert_int_equal(weft_device_supports(ctx, "nonzero", &wide, 1, NULL, &s), WEFT_OK);
    assert_int_equal(s.native, strcmp(device.kind, "cpu") == 0);
    if (!s.native)
        assert_non_null(strstr(s.reason, "64-bit"));
    weft_ctx_stats(ctx, &after);
    assert_int_equal(before.dispatches, after.dispatches); /* nothing ran */
    fails(WEFT_E_VALUE, "nearest name", supports("ad", WEFT_DTYPE_F32, &s));
    fails(WEFT_E_DTYPE, "softmax", supports("softmax", WEFT_DTYPE_I32, &s));
    fails(WEFT_E_VALUE, "no room", weft_device_supports(ctx, "add", NULL, 0, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_signature_parses_and_names_are_unique), cmocka_unit_test(defaults_names_and_positions),
        cmocka_unit_test(a_number_stands_for_a_tensor),
        cmocka_unit_test(a_number_out_of_range_is_not_another_number), cmocka_unit_test(wrong_calls_say_what_is_wrong),
        cmocka_unit_test(the_compiler_says_where_an_operation_would_run),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
