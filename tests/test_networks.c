/* Normalisation, positions, losses, distances and attention against NumPy's values, in f32, f64 and f16, of
 * contiguous and transposed inputs; and what wrong arguments are told.
 */
#include <math.h>
#include <stdio.h>

#include "device_context.h"

typedef struct network_tensor {
    bool absent;
    enum { KIND_FLOAT, KIND_INT, KIND_BOOL } kind;
    int rank;
    int64_t shape[WEFT_MAX_RANK];
    int at; /* in network_values */
} network_tensor;

typedef struct network_case {
    const char *op;
    int n_inputs;
    network_tensor inputs[7];
    int n_attrs;
    weft_attr attrs[8];
    int n_outputs;
    network_tensor outputs[3];
    bool f32_only; /* what the angles and slopes of f32 allow */
} network_case;

#include "networks_cases.h"

static weft_ctx *ctx;
static int open_ctx(void **state)
{
    (void)state;
    return (ctx = open_test_ctx()) ? 0 : -1;
}
static int close_ctx(void **state)
{
    (void)state;
    weft_ctx_close(ctx);
    return 0;
}

static int64_t count(const network_tensor *t)
{
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++)
        n *= t->shape[k];
    return n;
}

/* The tensor with its axes stored in reverse, so that every stride is another; or as it is. */
static weft_tensor *input(const network_tensor *t, weft_dtype dtype, bool transposed)
{
    static double values[4096];
    if (t->absent)
        return NULL;
    int64_t n = count(t), shape[WEFT_MAX_RANK] = {0};
    int axes[WEFT_MAX_RANK];
    assert_true(n <= 4096);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i, to = 0, stride = 1, strides[WEFT_MAX_RANK];
        for (int k = 0; k < t->rank; k++) {
            strides[k] = stride;
            stride *= t->shape[k];
        }
        for (int k = t->rank - 1; k >= 0; k--) {
            to += at % t->shape[k] * strides[k];
            at /= t->shape[k];
        }
        values[transposed ? to : i] = network_values[t->at + i];
    }
    for (int k = 0; k < t->rank; k++) {
        shape[k] = t->shape[transposed ? t->rank - 1 - k : k];
        axes[k] = t->rank - 1 - k;
    }
    weft_dtype as = t->kind == KIND_FLOAT ? dtype : t->kind == KIND_INT ? WEFT_DTYPE_I32 : WEFT_DTYPE_BOOL;
    weft_tensor *x;
    if (as == WEFT_DTYPE_F64) {
        x = weft_tensor_from(ctx, as, t->rank, shape, values);
    } else {
        static float narrow[4096];
        for (int64_t i = 0; i < n; i++)
            narrow[i] = (float)values[i];
        x = weft_cast(weft_tensor_from(ctx, WEFT_DTYPE_F32, t->rank, shape, narrow), as);
    }
    return transposed && t->rank > 1 ? weft_permute(x, axes) : x;
}

static void compare(const network_case *c, int index, weft_tensor *got, const network_tensor *want, weft_dtype dtype, bool transposed)
{
    static double values[4096];
    int64_t n = count(want);
    double largest = 1;
    if (weft_read_as(got, WEFT_DTYPE_F64, values, (size_t)n * 8) != WEFT_OK)
        fail_msg("%s, case %d, %s: %s", c->op, index, weft_dtype_name(dtype), weft_error_message());
    assert_int_equal(weft_tensor_rank(got), want->rank);
    for (int k = 0; k < want->rank; k++)
        assert_int_equal(weft_tensor_shape(got)[k], want->shape[k]);
    if (want->kind == KIND_FLOAT && !c->f32_only)
        assert_string_equal(weft_dtype_name(weft_tensor_dtype(got)), weft_dtype_name(dtype));
    for (int64_t i = 0; i < n; i++)
        if (isfinite(network_values[want->at + i]))
            largest = fmax(largest, fabs(network_values[want->at + i]));
    /* The longest reductions here have 120 elements; the largest angle is 2^20. */
    double eps = dtype == WEFT_DTYPE_F64 ? 0x1p-53 : dtype == WEFT_DTYPE_F16 ? 0x1p-11 : 0x1p-24;
    double bound = want->kind == KIND_FLOAT ? largest * (c->f32_only ? 4e-6 : 0) + largest * eps * (dtype == WEFT_DTYPE_F16 ? 8 : 128) : 0;
    for (int64_t i = 0; i < n; i++) {
        double w = network_values[want->at + i];
        bool same = isnan(w) ? isnan(values[i]) : fabs(values[i] - w) <= bound;
        if (!same)
            fail_msg("%s, case %d, %s%s, element %d: %.9g, expected %.9g within %g", c->op, index, weft_dtype_name(dtype),
                     transposed ? " transposed" : "", (int)i, values[i], w, bound);
    }
}

static void run_all(weft_dtype dtype, bool transposed)
{
    for (size_t i = 0; i < sizeof network_cases / sizeof *network_cases; i++) {
        const network_case *c = &network_cases[i];
        weft_scope *scope = weft_scope_begin(ctx);
        weft_tensor *in[7];
        weft_outputs out;
        for (int k = 0; k < c->n_inputs; k++)
            in[k] = input(&c->inputs[k], dtype, transposed);
        if (weft_apply(ctx, c->op, in, c->n_inputs, &(weft_attrs){c->attrs, c->n_attrs}, &out) != WEFT_OK)
            fail_msg("%s, case %d: %s", c->op, (int)i, weft_error_message());
        assert_int_equal(out.n, c->n_outputs);
        for (int k = 0; k < c->n_outputs; k++)
            compare(c, (int)i, out.tensor[k], &c->outputs[k], dtype, transposed);
        weft_scope_end(scope);
    }
}

static void values_in_f32(void **state)
{
    (void)state;
    run_all(WEFT_DTYPE_F32, false);
}

static void values_of_transposed_inputs(void **state)
{
    (void)state;
    run_all(WEFT_DTYPE_F32, true);
}

static void values_in_f16(void **state)
{
    (void)state;
    run_all(WEFT_DTYPE_F16, false);
}

static void values_in_f64_on_the_cpu(void **state)
{
    (void)state;
    const char *device = getenv("WEFT_TEST_DEVICE");
    if (device && strcmp(device, "cpu") != 0)
        skip();
    run_all(WEFT_DTYPE_F64, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_in_f32),
        cmocka_unit_test(values_of_transposed_inputs),
        cmocka_unit_test(values_in_f16),
        cmocka_unit_test(values_in_f64_on_the_cpu),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
