/* Composites keep their intermediates to themselves and hand their results to the caller's scope. */
#include "core_fixture.h"

#include "composite.h"

static int gone;
static weft_ctx *ctx;

static int setup(void **state)
{
    (void)state;
    gone = 0;
    ctx = fake_open(&gone);
    return 0;
}

/* Every handle is back, so the context's memory goes with the owner. */
static int teardown(void **state)
{
    (void)state;
    assert_int_equal(wf_core(ctx)->live_tensors, 0);
    fake_close(ctx);
    assert_int_equal(gone, 1);
    return wf_alloc_live() == 0 ? 0 : -1;
}

static weft_tensor *vec(int64_t n) { return weft_zeros(ctx, WEFT_DTYPE_F32, 1, &n); }

/* x y + x, or with a weight that times weight. */
static weft_tensor *both(weft_tensor *x, weft_tensor *y, weft_tensor *weight)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "both", 2, WF_INPUTS(x, y, weight)))
        return c.failed;
    if (weft_tensor_rank(x) != 1)
        return wf_composite_fail(&c, WEFT_E_SHAPE, "rank %d, expected 1", weft_tensor_rank(x));
    weft_tensor *sum = weft_add(weft_mul(x, y), x);
    return wf_composite_end(&c, weight ? weft_mul(sum, weight) : sum);
}

static weft_tensor *outer(weft_tensor *x, weft_tensor **second)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "outer", 1, WF_INPUTS(x)))
        return c.failed;
    weft_tensor *r = both(both(x, x, NULL), weft_exp(x), NULL);
    *second = wf_composite_give(&c, weft_neg(r));
    return wf_composite_end(&c, r);
}

static weft_tensor *same(weft_tensor *x)
{
    wf_composite c;
    if (!wf_composite_begin(&c, "same", 1, WF_INPUTS(x)))
        return c.failed;
    return wf_composite_end(&c, x);
}

static weft_tensor *ones(weft_ctx *on, int64_t n)
{
    wf_composite c;
    if (!wf_composite_begin_ctx(&c, "ones", on))
        return c.failed;
    return wf_composite_end(&c, weft_neg(weft_full(on, WEFT_DTYPE_F32, 1, &n, -1)));
}

static void results_join_the_scope_and_the_rest_goes(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = vec(3), *second;
    int64_t before = wf_core(ctx)->live_tensors;
    weft_tensor *r = both(x, x, NULL);
    check_shape(r, SHAPE(3));
    assert_int_equal(wf_core(ctx)->live_tensors, before + 1);
    r = both(x, x, x);
    assert_int_equal(wf_core(ctx)->live_tensors, before + 2);
    outer(x, &second);
    check_shape(second, SHAPE(3));
    assert_int_equal(wf_core(ctx)->live_tensors, before + 4);
    check_shape(ones(ctx, 2), SHAPE(2));
    assert_int_equal(wf_core(ctx)->live_tensors, before + 5);
    weft_scope_end(s);
}

static void without_a_scope_results_are_the_callers(void **state)
{
    (void)state;
    weft_tensor *x = vec(3), *second, *r = outer(x, &second), *input = same(x);
    assert_ptr_not_equal(input, x);
    assert_int_equal(wf_core(ctx)->live_tensors, 4);
    weft_tensor_release(input);
    weft_tensor_release(x);
    weft_tensor_release(r);
    check_shape(second, SHAPE(3));
    weft_tensor_release(second);
}

static void results_join_the_scope_of_their_context(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    int other_gone = 0;
    weft_ctx *other = fake_open(&other_gone);
    weft_scope *inner = weft_scope_begin(other);
    weft_tensor *r = ones(ctx, 2);
    assert_ptr_equal(r->scope, s);
    weft_scope_end(inner);
    fake_close(other);
    weft_scope_end(s);
}

static void errors_pass_through_and_sentences_name_the_operation(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = vec(3), *bad = weft_add(x, vec(4)), *second;
    check_error(both(x, bad, NULL), WEFT_E_SHAPE, "add: ");
    check_error(both(x, x, bad), WEFT_E_SHAPE, "add: ");
    check_error(both(NULL, x, NULL), WEFT_E_CONTEXT, "both: input 0 is NULL");
    check_error(both(weft_scalar_f32(ctx, 1), x, NULL), WEFT_E_SHAPE, "both: rank 0, expected 1");
    check_error(same(bad), WEFT_E_SHAPE, "add: ");
    check_error(ones(NULL, 2), WEFT_E_CONTEXT, NULL);
    check_error(ones(ctx, -2), WEFT_E_SHAPE, NULL);
    check_error(outer(bad, &second), WEFT_E_SHAPE, "add: ");
    weft_scope_end(s);
    int other_gone = 0;
    weft_ctx *other = fake_open(&other_gone);
    weft_tensor *theirs = ones(other, 3);
    s = weft_scope_begin(ctx);
    check_error(both(vec(3), theirs, NULL), WEFT_E_CONTEXT, "two contexts");
    weft_scope_end(s);
    weft_tensor_release(theirs);
    fake_close(other);
}

static void every_failed_allocation_gives_an_error_tensor(void **state)
{
    (void)state;
    for (int64_t n = 1;; n++) {
        weft_scope *s = weft_scope_begin(ctx);
        weft_tensor *x = vec(3), *second = NULL;
        wf_alloc_fail_nth(n);
        weft_tensor *r = outer(x, &second);
        wf_alloc_fail_nth(0);
        assert_non_null(r);
        assert_non_null(second);
        bool ok = weft_tensor_status(r) == WEFT_OK && weft_tensor_status(second) == WEFT_OK;
        assert_true(ok || weft_tensor_status(second) == WEFT_E_OOM);
        weft_scope_end(s);
        if (ok)
            break;
    }
}

#define FIXED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXED(results_join_the_scope_and_the_rest_goes),
        FIXED(without_a_scope_results_are_the_callers),
        FIXED(results_join_the_scope_of_their_context),
        FIXED(errors_pass_through_and_sentences_name_the_operation),
        FIXED(every_failed_allocation_gives_an_error_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
