/* test_explain.c - weft_explain against what the null device is then given to do. */
#include "device_context.h"
#include "json_number.h"

#include <stdio.h>

static weft_ctx *ctx;

static weft_ctx *open_null(void)
{
    weft_ctx_opts o = {.device = "null"};
    assert_int_equal(weft_ctx_open(&o, &ctx), WEFT_OK);
    return ctx;
}

static weft_tensor *leaf(int64_t rows, int64_t cols)
{
    float *zeros = calloc((size_t)(rows * cols), sizeof *zeros);
    weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_F32, DIMS(rows, cols), zeros);
    free(zeros);
    return t;
}

static char *explained(weft_tensor *t, weft_explain_format format, bool wgsl)
{
    const weft_explain_opts o = {.format = format, .wgsl = wgsl};
    char *text = NULL;
    if (weft_explain(&t, 1, &o, &text) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    return text;
}

static void has(const char *text, const char *word)
{
    if (!strstr(text, word))
        fail_msg("\"%s\" is not in: %s", word, text);
}

/* The dispatches that it foretells are those that the device then gets. */
static void dispatches_are_those_of_the_device(void **state)
{
    (void)state;
    open_null();
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = leaf(64, 48), *w = leaf(32, 48), *b = leaf(1, 32);
    weft_tensor *h = weft_linear(x, w, &(weft_linear_opts){.bias = weft_reshape(b, DIMS(32)), .activation = WEFT_ACT_RELU}), *y = weft_softmax(weft_sum(weft_mul(h, h), (int[]){1}, 1, false), 0);
    char *json = explained(y, WEFT_EXPLAIN_JSON, false);
    weft_stats before, after;
    weft_ctx_stats(ctx, &before);
    assert_int_equal(weft_eval(&y, 1), WEFT_OK);
    weft_ctx_stats(ctx, &after);
    assert_int_equal(json_number(json, "dispatches"), after.dispatches - before.dispatches);
    assert_int_equal(json_number(json, "copies"), after.copies - before.copies);
    assert_int_equal(json_number(json, "fallbacks"), 0);
    weft_explain_free(json);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

/* A product's operations are 2 M N K; its bytes both operands and the result, each once. */
static void work_is_the_least_there_is(void **state)
{
    (void)state;
    open_null();
    weft_scope *s = weft_scope_begin(ctx);
    for (int64_t m = 1; m <= 64; m += 63) {
        weft_tensor *y = weft_linear(leaf(m, 48), leaf(32, 48), &(weft_linear_opts){.bias = weft_reshape(leaf(1, 32), DIMS(32)), .activation = WEFT_ACT_RELU});
        char *json = explained(y, WEFT_EXPLAIN_JSON, false);
        assert_int_equal(json_number(json, "dispatches"), 1); /* bias and activation are its epilogue */
        assert_int_equal(json_number(json, "flops"), 2 * m * 32 * 48 + 2 * m * 32);
        assert_int_equal(json_number(json, "bytes"), 4 * (m * 48 + 32 * 48 + 32 + m * 32));
        weft_explain_free(json);
    }
    weft_tensor *x = leaf(10, 30), *part = weft_slice(x, 1, 3, 13, 1), *sum = weft_sum(weft_exp(part), (int[]){0}, 1, false);
    char *json = explained(sum, WEFT_EXPLAIN_JSON, false);
    assert_int_equal(json_number(json, "bytes"), 4 * (100 + 10)); /* of the part alone */
    assert_int_equal(json_number(json, "flops"), 200);
    weft_explain_free(json);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void rows_and_reasons_are_named(void **state)
{
    (void)state;
    open_null();
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *y = weft_add(weft_matmul(leaf(512, 512), leaf(512, 512)), leaf(1, 512));
    char *text = explained(y, WEFT_EXPLAIN_TEXT, true);
    has(text, "matmul, add");
    has(text, "passed over: matvec_sg: no subgroups");
    has(text, "fn main");
    weft_explain_free(text);
    weft_tensor *transposed = weft_contiguous(weft_transpose(leaf(3, 4), 0, 1));
    text = explained(transposed, WEFT_EXPLAIN_TEXT, false);
    has(text, "1 copies");
    has(text, "a copy: the view cannot be read in place");
    weft_explain_free(text);
    char *page = explained(weft_softmax(weft_matmul(leaf(8, 8), leaf(8, 8)), 1), WEFT_EXPLAIN_HTML, true);
    has(page, "<svg");
    has(page, "softmax");
    has(page, "</html>");
    assert_null(strstr(page, "http")); /* it needs nothing else */
    weft_explain_free(page);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void between_begin_and_end(void **state)
{
    (void)state;
    open_null();
    weft_scope *s = weft_scope_begin(ctx);
    char *text = NULL;
    assert_int_equal(weft_explain_end(ctx, NULL, &text), WEFT_E_VALUE);
    assert_int_equal(weft_explain_begin(ctx), WEFT_OK);
    assert_int_equal(weft_explain_end(ctx, NULL, &text), WEFT_E_VALUE);
    assert_int_equal(weft_explain_begin(ctx), WEFT_OK);
    for (int i = 0; i < 2; i++) { /* the second time its plan is in the cache */
        weft_tensor *y = weft_exp(leaf(5, 7));
        assert_int_equal(weft_eval(&y, 1), WEFT_OK);
    }
    assert_int_equal(weft_explain_end(ctx, NULL, &text), WEFT_OK);
    has(text, "[5, 7] f32");
    weft_explain_free(text);
    assert_int_equal(weft_explain(NULL, 0, NULL, &text), WEFT_E_CONTEXT);
    weft_tensor *bad = weft_matmul(leaf(2, 3), leaf(2, 3));
    assert_int_equal(weft_explain(&bad, 1, NULL, &text), WEFT_E_SHAPE);
    const weft_explain_opts o = {.format = (weft_explain_format)7};
    weft_tensor *good = leaf(2, 3);
    assert_int_equal(weft_explain(&good, 1, &o, &text), WEFT_E_VALUE);
    assert_int_equal(weft_explain_begin(ctx), WEFT_OK); /* closing ends it */
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dispatches_are_those_of_the_device),
        cmocka_unit_test(work_is_the_least_there_is),
        cmocka_unit_test(rows_and_reasons_are_named),
        cmocka_unit_test(between_begin_and_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
