/* Normalisation, positions, losses, distances and attention against NumPy's values, in f32, f64 and f16, of
 * contiguous and transposed inputs; and what wrong arguments are told.
 */
#include <math.h>
#include <stdio.h>

#include "base.h"
#include "device_fixture.h"

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

/* A device without f64 leaves these kernels to the CPU, by plan. */
static void values_in_f64(void **state)
{
    (void)state;
    run_all(WEFT_DTYPE_F64, false);
}

/* ---- wrong arguments ---- */

#define TENSOR(dtype, ...) weft_zeros(ctx, dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__})
#define F(...) TENSOR(WEFT_DTYPE_F32, __VA_ARGS__)
#define I(...) TENSOR(WEFT_DTYPE_I32, __VA_ARGS__)

static void refused(weft_tensor *t, weft_status st, const char *part)
{
    if (!strstr(weft_tensor_message(t), part))
        fail_msg("\"%s\" does not say \"%s\"", weft_tensor_message(t), part);
    assert_string_equal(weft_status_name(weft_tensor_status(t)), weft_status_name(st));
}

static void norms_say_what_does_not_fit(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = F(2, 3, 4), *mean, *var;
    int64_t dims[2] = {3, 4}, wrong[2] = {3, 5};
    refused(weft_layer_norm_shape(x, 2, wrong, NULL, NULL, 0), WEFT_E_SHAPE, "layer_norm: normalized_shape of 2 axes, the last 5, is not the end of input [2, 3, 4]");
    refused(weft_layer_norm_shape(x, 0, NULL, NULL, NULL, 0), WEFT_E_SHAPE, "normalized_shape of 0 axes");
    refused(weft_layer_norm_shape(x, 2, dims, F(12), NULL, 0), WEFT_E_SHAPE, "weight is [12]");
    refused(weft_layer_norm_shape(x, 2, dims, NULL, F(4), 0), WEFT_E_SHAPE, "bias is [4]");
    refused(weft_layer_norm_shape(x, 2, dims, NULL, NULL, -1), WEFT_E_VALUE, "eps is -1");
    refused(weft_rms_norm_shape(I(2, 3), 1, (int64_t[]){3}, NULL, 0), WEFT_E_DTYPE, "rms_norm: input is i32");
    refused(weft_group_norm(F(2, 6, 3), 4, NULL, NULL, 0), WEFT_E_VALUE, "6 channels do not divide into 4 groups");
    refused(weft_group_norm(F(6), 1, NULL, NULL, 0), WEFT_E_SHAPE, "rank 1");
    refused(weft_batch_norm(x, &(weft_batch_norm_opts){.running_mean = F(3)}, &mean, &var), WEFT_E_VALUE, "running_mean and running_var");
    refused(mean, WEFT_E_VALUE, "running_mean and running_var");
    refused(weft_batch_norm(x, &(weft_batch_norm_opts){.running_mean = F(4), .running_var = F(3)}, NULL, NULL), WEFT_E_SHAPE,
            "running_mean is [4], expected [3]");
    refused(weft_batch_norm(F(1, 3), &(weft_batch_norm_opts){.training = true}, &mean, &var), WEFT_E_VALUE, "one value a channel");
    refused(weft_local_response_norm(x, 0, 1, 1, 1), WEFT_E_VALUE, "size is 0");
    refused(weft_local_response_norm(F(2, 3), 2, 1, 1, 1), WEFT_E_SHAPE, "rank 2");
    refused(weft_adaln(x, F(5), F(4), 0), WEFT_E_SHAPE, "");
    refused(weft_adaln(F(1, 4), F(2, 4), F(4), 0), WEFT_E_SHAPE, "do not broadcast to input [1, 4]");
    refused(weft_weight_norm(x, F(3), 0), WEFT_E_SHAPE, "g is [3], expected one element for each of 2 along axis 0");
    refused(weft_weight_norm(x, F(3), 3), WEFT_E_SHAPE, "weight_norm");
    weft_scope_end(scope);
}

static void positions_say_what_does_not_fit(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = F(2, 12, 8);
    refused(weft_rope_3d(x, 2, 3, 2, 0, false), WEFT_E_SHAPE, "rope_3d: head dimension 8 is no multiple of 6");
    refused(weft_rope_3d(F(2, 12, 6), 2, 3, 3, 0, false), WEFT_E_SHAPE, "a grid of 2 x 3 x 3 for 12 tokens");
    refused(weft_rope_3d(F(2, 12, 6), INT64_MAX, 3, 3, 0, false), WEFT_E_SHAPE, "for 12 tokens");
    refused(weft_rope_3d(F(2, 12, 6), -2, -3, 2, 0, false), WEFT_E_SHAPE, "for 12 tokens");
    refused(weft_rope_3d(F(6), 1, 1, 1, 0, false), WEFT_E_SHAPE, "rank 1");
    refused(weft_rope_sections(x, I(2, 12), 2, (int64_t[]){2, 3}, 100, false), WEFT_E_SHAPE, "sections of 5 pairs for a head of 8");
    refused(weft_rope_sections(x, I(3, 12), 2, (int64_t[]){2, 2}, 100, false), WEFT_E_SHAPE, "positions are [3, 12], expected [2, 12]");
    refused(weft_sinusoidal_embedding(I(3), 5, 100, true), WEFT_E_VALUE, "dim is 5");
    refused(weft_sinusoidal_embedding(I(3), 4, 0, true), WEFT_E_VALUE, "base is 0");
    refused(weft_relative_position_bucket(F(3), true, 32, 128), WEFT_E_DTYPE, "relative_position is f32");
    refused(weft_relative_position_bucket(I(3), true, 32, 8), WEFT_E_VALUE, "max_distance is 8, expected more than 8");
    refused(weft_relative_position_bias(F(32), 2, 2, true, 128, 0), WEFT_E_SHAPE, "weight is [32]");
    refused(weft_alibi_slopes(ctx, 0), WEFT_E_VALUE, "n_heads is 0");
    refused(weft_embedding_bag(I(5), F(4, 3), NULL), WEFT_E_SHAPE, "input is [5], expected [B, L]");
    refused(weft_embedding_bag(I(2, 5), F(4, 3), &(weft_embedding_bag_opts){.offsets = I(2)}), WEFT_E_SHAPE, "expected [L]");
    refused(weft_embedding_bag(I(2, 5), F(4, 3), &(weft_embedding_bag_opts){.per_sample_weights = F(2, 5)}), WEFT_E_VALUE, "need mode sum");
    refused(weft_embedding_bag(I(2, 5), F(4, 3), &(weft_embedding_bag_opts){.has_padding_idx = true, .padding_idx = 4}), WEFT_E_INDEX, "padding_idx 4");
    weft_scope_end(scope);
}

static void losses_and_distances_say_what_does_not_fit(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_class_loss_opts weight = {.weight = F(3)};
    refused(weft_cross_entropy(F(2, 4, 3), I(2, 4), NULL), WEFT_E_SHAPE, "target is [2, 4], expected input [2, 4, 3] without axis 1");
    refused(weft_cross_entropy(F(2, 4), F(2, 3), NULL), WEFT_E_DTYPE, "target is f32 [2, 3]");
    refused(weft_cross_entropy(F(2, 4), I(2), &weight), WEFT_E_SHAPE, "weight is [3], expected [4]");
    refused(weft_cross_entropy(F(2, 4), I(2), &(weft_class_loss_opts){.label_smoothing = 2}), WEFT_E_VALUE, "label_smoothing is 2");
    refused(weft_nll_loss(F(2, 4), F(2, 4), NULL), WEFT_E_DTYPE, "nll_loss: target is f32");
    refused(weft_nll_loss(I(2, 4), I(2), NULL), WEFT_E_DTYPE, "input is i32");
    refused(weft_mse_loss(F(2, 4), F(3, 4), NULL, WEFT_REDUCTION_MEAN), WEFT_E_SHAPE, "");
    refused(weft_mse_loss(F(2, 4), F(2, 4), NULL, WEFT_REDUCTION_BATCHMEAN), WEFT_E_VALUE, "mse_loss: no reduction of number 3");
    refused(weft_binary_cross_entropy(F(2, 4), F(4), NULL, WEFT_REDUCTION_MEAN), WEFT_E_SHAPE, "target is [4], input is [2, 4]");
    refused(weft_smooth_l1_loss(F(2), F(2), WEFT_REDUCTION_MEAN, -1), WEFT_E_VALUE, "beta is -1");
    refused(weft_huber_loss(F(2), F(2), WEFT_REDUCTION_MEAN, 0), WEFT_E_VALUE, "delta is 0");
    refused(weft_cosine_embedding_loss(F(2, 3), F(2, 3), F(2, 3), 0, WEFT_REDUCTION_MEAN), WEFT_E_SHAPE, "target of rank 2");
    refused(weft_cdist(F(2, 3), F(2, 4), 2), WEFT_E_SHAPE, "[2, 3] and [2, 4]");
    refused(weft_pairwise_distance(F(2, 3), F(2, 3), -1, 0, false), WEFT_E_VALUE, "p is -1");
    refused(weft_bilinear(F(2, 3), F(2, 4), F(5, 4, 3), NULL), WEFT_E_SHAPE, "weight [5, 4, 3]");
    weft_outputs out;
    weft_tensor *in[2] = {F(2), F(2)};
    weft_attr word = {.name = "reduction", .kind = WEFT_ATTR_STRING, .s = "avg"};
    assert_int_equal(weft_apply(ctx, "mse_loss", in, 2, &(weft_attrs){&word, 1}, &out), WEFT_OK);
    refused(out.tensor[0], WEFT_E_VALUE, "mse_loss: reduction is \"avg\", expected one of mean, sum, none");
    weft_scope_end(scope);
}

static void a_target_outside_the_classes_is_found(void **state)
{
    (void)state;
    static const int32_t wrong[] = {4, -1, 100};
    for (int i = 0; i < 3; i++) {
        weft_scope *scope = weft_scope_begin(ctx);
        weft_tensor *target = weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, (int64_t[]){2}, (int32_t[]){1, wrong[i]});
        weft_tensor *loss = weft_cross_entropy(F(2, 4), target, NULL);
        float value;
        char sentence[80];
        assert_int_equal(weft_read(loss, &value, sizeof value), WEFT_E_INDEX);
        snprintf(sentence, sizeof sentence, "holds %d, outside its axis of extent 4", wrong[i]);
        assert_non_null(strstr(weft_error_message(), sentence));
        weft_scope_end(scope);
    }
    const char *device = getenv("WEFT_TEST_DEVICE");
    if (device && strcmp(device, "cpu") != 0)
        return;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *target = weft_tensor_from(ctx, WEFT_DTYPE_I64, 1, (int64_t[]){2}, (int64_t[]){1, (1LL << 32) + 1});
    float value;
    assert_int_equal(weft_read(weft_cross_entropy(F(2, 4), target, NULL), &value, sizeof value), WEFT_E_INDEX);
    weft_class_loss_opts o = {.ignore_index = (1LL << 32) + 1};
    assert_int_equal(weft_read(weft_cross_entropy(F(2, 4), target, &o), &value, sizeof value), WEFT_OK);
    assert_float_equal(value, logf(4), 1e-6f);
    weft_scope_end(scope);
}

static void attention_says_what_does_not_fit(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *q = F(1, 4, 3, 8), *k = F(1, 2, 5, 8);
    refused(weft_scaled_dot_product_attention(q, k, k, &(weft_attention_opts){.softcap = -1}), WEFT_E_VALUE, "softcap is -1");
    refused(weft_scaled_dot_product_attention(q, k, k, &(weft_attention_opts){.sinks = F(2)}), WEFT_E_SHAPE, "sinks are [2], expected [4]");
    refused(weft_scaled_dot_product_attention(q, k, k, &(weft_attention_opts){.alibi_slopes = I(4)}), WEFT_E_DTYPE, "alibi_slopes are i32");
    refused(weft_scaled_dot_product_attention(q, k, k, &(weft_attention_opts){.sinks = F(4), .mask = F(3, 4)}), WEFT_E_SHAPE,
            "mask [3, 4] does not broadcast to [1, 4, 3, 5]");
    refused(weft_scaled_dot_product_attention(q, F(1, 3, 5, 8), F(1, 3, 5, 8), &(weft_attention_opts){.sinks = F(4)}), WEFT_E_SHAPE, "do not fit");
    refused(weft_scaled_dot_product_attention(F(3, 8), k, k, NULL), WEFT_E_SHAPE, "ranks 2, 4 and 4");
    weft_outputs out;
    weft_tensor *in[3] = {q, k, k};
    weft_attr dropout = {.name = "dropout_p", .kind = WEFT_ATTR_FLOAT, .f = 0.5};
    assert_int_equal(weft_apply(ctx, "scaled_dot_product_attention", in, 3, &(weft_attrs){&dropout, 1}, &out), WEFT_OK);
    refused(out.tensor[0], WEFT_E_UNSUPPORTED, "dropout_p is 0.5");
    weft_scope_end(scope);
}

/* The mean of more values than one invocation of every device walks alone: half of them are 1. */
static void long_attention_is_whole(void **state)
{
    (void)state;
    enum { TK = 20000, D = 16 };
    weft_scope *scope = weft_scope_begin(ctx);
    float *v = calloc(TK * D, sizeof *v), q[2 * D] = {0}, got[2 * D];
    assert_non_null(v);
    for (int64_t i = TK / 2 * D; i < TK * D; i++)
        v[i] = 1;
    weft_tensor *k = weft_tensor_from(ctx, WEFT_DTYPE_F32, 4, (int64_t[]){1, 1, TK, D}, v);
    weft_tensor *out = weft_scaled_dot_product_attention(weft_tensor_from(ctx, WEFT_DTYPE_F32, 4, (int64_t[]){1, 1, 2, D}, q), k, k, NULL);
    if (weft_read(out, got, sizeof got) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    for (int i = 0; i < 2 * D; i++)
        assert_true(got[i] == 0.5f); /* sums of whole numbers */
    free(v);
    weft_scope_end(scope);
}

/* Every form at once, of 1024 queries and keys, holds less than one byte a pair: on the device of the test, and by the null
 * device's count. */
static void attention_stores_no_matrix_of_pairs(void **state)
{
    (void)state;
    enum { T = 1024 };
    const char *device = getenv("WEFT_TEST_DEVICE"), *const on[2] = {device ? device : "cpu", "null"};
    weft_ctx *const outer = ctx;
    for (int i = 0; i < 2; i++)
        for (int form = 0; form < 4; form++) {
            weft_ctx_opts opts = {.device = on[i]};
            assert_int_equal(weft_ctx_open(&opts, &ctx), WEFT_OK);
            weft_scope *scope = weft_scope_begin(ctx);
            weft_attention_opts o = {.is_causal = form == 0, .has_window = form > 0, .window_left = 100, .window_right = form == 2 ? 7 : -1,
                                     .softcap = form == 3 ? 2 : 0, .alibi_slopes = form > 1 ? F(2) : NULL, .sinks = form > 0 ? F(2) : NULL,
                                     .mask = form == 3 ? F(T) : NULL};
            weft_tensor *q = form == 3 ? weft_cast(F(2, T, 3), WEFT_DTYPE_F16) : F(1, 2, T, 3), *k = form == 3 ? F(2, T, 3) : F(1, 2, T, 3);
            weft_tensor *v = form == 3 ? F(2, T, 2) : F(1, 2, T, 3);
            if (form == 3) /* [T, D]-ranks go through the composite */
                o.alibi_slopes = o.sinks = F(1);
            weft_tensor *y = weft_scaled_dot_product_attention(q, k, v, &o);
            if (weft_eval(&y, 1) != WEFT_OK)
                fail_msg("%s, form %d: %s", on[i], form, weft_error_message());
            weft_stats stats;
            assert_int_equal(weft_ctx_stats(ctx, &stats), WEFT_OK);
            if (stats.bytes_peak >= (uint64_t)T * T || stats.fallbacks)
                fail_msg("%s, form %d: %llu bytes, %llu fallbacks", on[i], form, (unsigned long long)stats.bytes_peak, (unsigned long long)stats.fallbacks);
            weft_scope_end(scope);
            weft_ctx_close(ctx);
        }
    ctx = outer;
}

/* One case of each operation, with every allocation of its building failing once. */
static void building_survives_every_failed_allocation(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof network_cases / sizeof *network_cases; i++) {
        const network_case *c = &network_cases[i];
        if (i > 0 && strcmp(c->op, network_cases[i - 1].op) == 0)
            continue;
        bool whole = false;
        for (uint64_t nth = 1; !whole && nth < 400; nth++) {
            weft_scope *scope = weft_scope_begin(ctx);
            weft_tensor *in[7];
            weft_outputs out;
            for (int k = 0; k < c->n_inputs; k++)
                in[k] = input(&c->inputs[k], WEFT_DTYPE_F32, false);
            wf_alloc_fail_nth(nth);
            weft_status st = weft_apply(ctx, c->op, in, c->n_inputs, &(weft_attrs){c->attrs, c->n_attrs}, &out);
            wf_alloc_fail_nth(0);
            assert_int_equal(st, WEFT_OK);
            whole = true;
            for (int k = 0; k < out.n; k++) {
                assert_non_null(out.tensor[k]);
                whole = whole && weft_tensor_status(out.tensor[k]) == WEFT_OK;
            }
            weft_scope_end(scope);
        }
        if (!whole)
            fail_msg("%s is never built", c->op);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_in_f32),
        cmocka_unit_test(values_of_transposed_inputs),
        cmocka_unit_test(values_in_f16),
        cmocka_unit_test(values_in_f64),
        cmocka_unit_test(norms_say_what_does_not_fit),
        cmocka_unit_test(positions_say_what_does_not_fit),
        cmocka_unit_test(losses_and_distances_say_what_does_not_fit),
        cmocka_unit_test(a_target_outside_the_classes_is_found),
        cmocka_unit_test(attention_says_what_does_not_fit),
        cmocka_unit_test(attention_stores_no_matrix_of_pairs),
        cmocka_unit_test(long_attention_is_whole),
        cmocka_unit_test(building_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
