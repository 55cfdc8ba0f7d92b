/* test_tap.c - taps: what is inside a fused graph is seen, the results stay, and nothing is kept. */
#include "device_context.h"

#include <math.h>
#include <stdio.h>

enum { N = 24 };

typedef struct seen {
    int calls;
    char name[64];
    int64_t rows, cols;
    float values[N];
} seen;

static void look(void *user, const char *name, weft_tensor *value)
{
    seen *s = user;
    s->calls++;
    snprintf(s->name, sizeof s->name, "%s", name);
    s->rows = weft_tensor_dim(value, 0);
    s->cols = weft_tensor_dim(value, 1);
    assert_int_equal(weft_read(value, s->values, sizeof s->values), WEFT_OK);
}

static weft_tensor *given(weft_ctx *ctx)
{
    float v[N];
    for (int i = 0; i < N; i++)
        v[i] = (float)i / 8 - 1;
    return weft_tensor_from(ctx, WEFT_DTYPE_F32, DIMS(4, 6), v);
}

/* One kernel without taps: tanh, a product and a sum are the prologue of the softmax. */
static weft_tensor *graph(weft_ctx *ctx, weft_tensor *x)
{
    weft_tensor *t = weft_named(weft_tanh(x), "part.tanh");
    weft_tensor *half = weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, 0.5);
    return weft_softmax(weft_named(weft_add(weft_mul(t, half), x), "part.sum"), -1);
}

static void a_value_inside_a_fused_kernel_is_seen(void **state)
{
    (void)state;
    weft_ctx *ctx = open_test_ctx();
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = given(ctx);
    float plain[N], tapped[N], again[N];
    seen sum = {0};
    assert_false(weft_tapped(ctx));
    assert_int_equal(weft_read(graph(ctx, x), plain, sizeof plain), WEFT_OK);
    assert_int_equal(weft_tap(ctx, "part.sum", look, &sum), WEFT_OK);
    assert_true(weft_tapped(ctx));
    assert_int_equal(weft_read(graph(ctx, x), tapped, sizeof tapped), WEFT_OK);
    assert_int_equal(sum.calls, 1);
    assert_string_equal(sum.name, "part.sum");
    assert_true(sum.rows == 4 && sum.cols == 6);
    for (int i = 0; i < N; i++) {
        float v = (float)i / 8 - 1;
        assert_true(fabs(sum.values[i] - (tanh(v) * 0.5 + v)) < 1e-6);
        assert_true(fabs(tapped[i] - plain[i]) < 1e-6);
    }
    assert_int_equal(weft_tap(ctx, "part.sum", NULL, NULL), WEFT_OK);
    assert_int_equal(weft_read(graph(ctx, x), again, sizeof again), WEFT_OK);
    assert_memory_equal(again, plain, sizeof plain); /* the first plan again */
    assert_int_equal(sum.calls, 1);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void patterns_choose_names(void **state)
{
    (void)state;
    weft_ctx *ctx = open_test_ctx();
    weft_scope *s = weft_scope_begin(ctx);
    seen all = {0}, part = {0}, other = {0};
    assert_int_equal(weft_tap(ctx, "*", look, &all), WEFT_OK);
    assert_int_equal(weft_tap(ctx, "part.t*", look, &part), WEFT_OK);
    assert_int_equal(weft_tap(ctx, "part", look, &other), WEFT_OK);
    weft_tensor *y = graph(ctx, given(ctx));
    assert_int_equal(weft_eval(&y, 1), WEFT_OK);
    assert_int_equal(all.calls, 2);
    assert_int_equal(part.calls, 1);
    assert_string_equal(part.name, "part.tanh");
    assert_int_equal(other.calls, 0);
    assert_int_equal(weft_tap(ctx, "*", look, &other), WEFT_OK); /* the same pattern: another function */
    y = graph(ctx, given(ctx));
    assert_int_equal(weft_eval(&y, 1), WEFT_OK);
    assert_int_equal(all.calls, 2);
    assert_int_equal(other.calls, 2);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void what_is_computed_already_comes_with_the_next_evaluation(void **state)
{
    (void)state;
    weft_ctx *ctx = open_test_ctx();
    weft_scope *s = weft_scope_begin(ctx);
    seen got = {0};
    assert_int_equal(weft_tap(ctx, "x", look, &got), WEFT_OK);
    weft_tensor *x = weft_named(given(ctx), "x"), *y = weft_exp(x);
    assert_int_equal(got.calls, 0);
    assert_int_equal(weft_eval(&y, 1), WEFT_OK);
    assert_int_equal(got.calls, 1);
    assert_true(got.values[5] == -0.375f);
    weft_tensor *view = weft_named(weft_flip(x, 0), "x"); /* a view has the values that it shows */
    assert_int_equal(weft_eval(&view, 1), WEFT_OK);
    assert_int_equal(got.calls, 2);
    assert_true(got.values[0] == 1.25f);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

/* Values that no evaluation asked for do not stay when their tap goes, nor when the context closes. */
static void nothing_is_kept(void **state)
{
    (void)state;
    weft_ctx *ctx = open_test_ctx();
    weft_stats before, after;
    seen got = {0};
    weft_ctx_stats(ctx, &before);
    assert_int_equal(weft_tap(ctx, "part.*", look, &got), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        weft_scope *s = weft_scope_begin(ctx);
        graph(ctx, given(ctx));
        weft_scope_end(s);
    }
    weft_ctx_stats(ctx, &after);
    assert_int_equal(after.handles_live - before.handles_live, 6);
    assert_int_equal(weft_tap(ctx, "part.*", NULL, NULL), WEFT_OK);
    weft_ctx_stats(ctx, &after);
    assert_int_equal(after.handles_live, before.handles_live);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(weft_tap(ctx, "part.sum", look, &got), WEFT_OK);
        weft_scope *s = weft_scope_begin(ctx);
        weft_tensor *y = graph(ctx, given(ctx));
        assert_int_equal(weft_eval(&y, 1), WEFT_OK);
        weft_scope_end(s);
    }
    assert_int_equal(got.calls, 100);
    weft_ctx_stats(ctx, &after);
    assert_int_equal(after.handles_live, before.handles_live);
    weft_scope *s = weft_scope_begin(ctx);
    graph(ctx, given(ctx));
    weft_scope_end(s);
    weft_ctx_close(ctx); /* with a value that waits */
    assert_int_equal(got.calls, 100);
}

/* A callback may evaluate, name values itself and remove its own tap. */
static void look_once(void *user, const char *name, weft_tensor *value)
{
    int *calls = user;
    weft_ctx *ctx = weft_tensor_ctx(value);
    assert_string_equal(name, "part.sum");
    ++*calls;
    weft_scope *s = weft_scope_begin(ctx);
    float sum;
    assert_int_equal(weft_read(weft_sum(weft_named(weft_mul(value, value), "part.square"), NULL, 0, false), &sum, sizeof sum), WEFT_OK);
    assert_int_equal(weft_tap(ctx, "part.sum", NULL, NULL), WEFT_OK);
    weft_scope_end(s);
}

static void a_callback_may_call_anything(void **state)
{
    (void)state;
    weft_ctx *ctx = open_test_ctx();
    int calls = 0;
    seen square = {0};
    assert_int_equal(weft_tap(ctx, "part.sum", look_once, &calls), WEFT_OK);
    assert_int_equal(weft_tap(ctx, "part.square", look, &square), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        weft_scope *s = weft_scope_begin(ctx);
        weft_tensor *y = graph(ctx, given(ctx));
        assert_int_equal(weft_eval(&y, 1), WEFT_OK);
        weft_scope_end(s);
    }
    assert_int_equal(calls, 1);
    assert_int_equal(square.calls, 1);
    weft_ctx_close(ctx);
}

typedef struct order {
    int depth, deepest, next;
} order;

static void look_in_order(void *user, const char *name, weft_tensor *value)
{
    order *o = user;
    float v;
    o->depth++;
    o->deepest = o->depth > o->deepest ? o->depth : o->deepest;
    assert_int_equal(atoi(name), o->next++);
    weft_scope *s = weft_scope_begin(weft_tensor_ctx(value));
    assert_int_equal(weft_read(weft_sum(value, NULL, 0, false), &v, sizeof v), WEFT_OK); /* an evaluation of its own */
    weft_scope_end(s);
    o->depth--;
}

/* One callback at a time, in the order of naming, however many values wait. */
static void callbacks_do_not_nest(void **state)
{
    (void)state;
    enum { MANY = 400 };
    weft_ctx *ctx = open_test_ctx();
    weft_scope *s = weft_scope_begin(ctx);
    order o = {0};
    assert_int_equal(weft_tap(ctx, "*", look_in_order, &o), WEFT_OK);
    weft_tensor *x = given(ctx);
    for (int i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        x = weft_named(weft_tanh(x), name);
    }
    assert_int_equal(weft_eval(&x, 1), WEFT_OK);
    assert_int_equal(o.next, MANY);
    assert_int_equal(o.deepest, 1);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void bad_calls_are_errors(void **state)
{
    (void)state;
    weft_ctx *ctx = open_test_ctx();
    assert_int_equal(weft_tap(NULL, "x", look, NULL), WEFT_E_CONTEXT);
    assert_int_equal(weft_tap(ctx, NULL, look, NULL), WEFT_E_VALUE);
    assert_int_equal(weft_tap(ctx, "", look, NULL), WEFT_E_VALUE);
    assert_int_equal(weft_tap(ctx, "never set", NULL, NULL), WEFT_OK);
    assert_null(weft_named(NULL, "x"));
    assert_false(weft_tapped(NULL));
    seen got = {0};
    assert_int_equal(weft_tap(ctx, "x", look, &got), WEFT_OK);
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = given(ctx), *bad = weft_matmul(x, x);
    assert_ptr_equal(weft_named(bad, "x"), bad);
    assert_ptr_equal(weft_named(x, NULL), x);
    assert_int_equal(weft_eval(&x, 1), WEFT_OK);
    assert_int_equal(got.calls, 0);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_inside_a_fused_kernel_is_seen), cmocka_unit_test(patterns_choose_names),
        cmocka_unit_test(what_is_computed_already_comes_with_the_next_evaluation), cmocka_unit_test(nothing_is_kept),
        cmocka_unit_test(a_callback_may_call_anything), cmocka_unit_test(callbacks_do_not_nest),
        cmocka_unit_test(bad_calls_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
