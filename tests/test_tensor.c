/* Handles, scopes, error tensors, leaves, and the life of nodes and contexts. */
#include "core_fixture.h"

#include <pthread.h>

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

static void leaves_carry_shape_dtype_and_bytes(void **state)
{
    (void)state;
    float data[6] = {1, 2, 3, 4, 5, 6};
    weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_F32, SHAPE(2, 3), data);
    check_shape(t, SHAPE(2, 3));
    assert_int_equal(weft_tensor_numel(t), 6);
    assert_int_equal(weft_tensor_nbytes(t), 24);
    assert_int_equal(weft_tensor_dim(t, -1), 3);
    assert_int_equal(weft_tensor_dim(t, 2), -1);
    assert_true(weft_tensor_is_contiguous(t));
    assert_ptr_equal(weft_tensor_ctx(t), ctx);
    assert_string_equal(weft_tensor_message(t), "");
    assert_memory_equal(fake(ctx)->bytes, data, sizeof data);
    assert_int_equal(t->node->op, WF_OP_LEAF);
    weft_tensor_release(t);
    assert_int_equal(fake(ctx)->storages, 0);
}

static void constants_and_empty_leaves_move_no_bytes(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *z = weft_zeros(ctx, WEFT_DTYPE_F16, SHAPE(3, 5));
    assert_int_equal(z->node->op, WF_OP_FULL);
    assert_true(weft_tensor_is_contiguous(z));
    assert_int_equal(weft_tensor_nbytes(z), 30);
    check_shape(weft_tensor_from(ctx, WEFT_DTYPE_F32, SHAPE(0, 3), NULL), SHAPE(0, 3));
    check_shape(weft_arange(ctx, WEFT_DTYPE_I32, 5, 2, 3), SHAPE(5));
    check_shape(weft_tri(ctx, 3, 4, INT64_MAX), SHAPE(3, 4));
    check_shape(weft_scalar_f32(ctx, 1.5f), 0, NULL);
    check_shape(weft_full(ctx, WEFT_DTYPE_BOOL, 0, NULL, 7), 0, NULL);
    assert_int_equal(fake(ctx)->uploads, 0);
    weft_scope_end(s);
}

static void constants_are_rounded_to_their_dtype(void **state)
{
    (void)state;
    static const struct { weft_dtype dtype; double in, out; } rows[] = {
        {WEFT_DTYPE_F32, 0.1, (double)0.1f}, {WEFT_DTYPE_F16, 65519, 65504}, {WEFT_DTYPE_I32, -2.9, -2},
        {WEFT_DTYPE_U8, -3, 0}, {WEFT_DTYPE_I8, 1000, 127}, {WEFT_DTYPE_U32, 5e9, 4294967295.0}, {WEFT_DTYPE_BOOL, 0.5, 1},
        /* Halfway between two bf16 values, plus less than f32 can hold: not to even, but up. */
        {WEFT_DTYPE_BF16, 1.0 + 0x1p-8 + 0x1p-40, 1.0 + 0x1p-7},
        {WEFT_DTYPE_BF16, 1.0 + 0x1p-8, 1.0}, {WEFT_DTYPE_BF16, -(1.0 + 0x1p-8 + 0x1p-40), -(1.0 + 0x1p-7)},
        {WEFT_DTYPE_BF16, 1.0 + 0x3p-8 - 0x1p-40, 1.0 + 0x1p-7},
    };
    for (size_t i = 0; i < WF_COUNT(rows); i++) {
        weft_tensor *t = weft_full(ctx, rows[i].dtype, 0, NULL, rows[i].in);
        assert_true(t->node->attrs.constant.value == rows[i].out);
        weft_tensor_release(t);
    }
}

static void wrong_leaves_are_error_tensors_with_numbers(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    float x = 0;
    check_error(weft_tensor_from(ctx, WEFT_DTYPE_F32, 9, (int64_t[9]){0}, &x), WEFT_E_SHAPE, "tensor_from: rank 9");
    check_error(weft_tensor_from(ctx, WEFT_DTYPE_F32, SHAPE(-4), &x), WEFT_E_SHAPE, "-4");
    check_error(weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, NULL, &x), WEFT_E_VALUE, NULL);
    check_error(weft_tensor_from(ctx, WEFT_DTYPE_F32, SHAPE(1), NULL), WEFT_E_VALUE, "data");
    check_error(weft_tensor_from(ctx, (weft_dtype)99, SHAPE(1), &x), WEFT_E_DTYPE, "99");
    check_error(weft_tensor_from(ctx, WEFT_DTYPE_Q8_0, SHAPE(2, 33), &x), WEFT_E_SHAPE, "33 is no multiple of 32");
    check_error(weft_tensor_from(ctx, WEFT_DTYPE_Q8_0, 0, NULL, &x), WEFT_E_SHAPE, NULL);
    check_error(weft_tensor_from(ctx, WEFT_DTYPE_F32, SHAPE(65536, (int64_t)1 << 50), &x), WEFT_E_SHAPE, "too many");
    check_error(weft_zeros(ctx, WEFT_DTYPE_Q4_0, SHAPE(32)), WEFT_E_DTYPE, "q4_0");
    check_error(weft_arange(ctx, WEFT_DTYPE_F16, 3, 0, 1), WEFT_E_DTYPE, "f16");
    check_error(weft_arange(ctx, WEFT_DTYPE_I32, -1, 0, 1), WEFT_E_VALUE, "-1");
    check_error(weft_arange(ctx, WEFT_DTYPE_I32, 3, 0.5, 1), WEFT_E_VALUE, "integers");
    check_error(weft_arange(ctx, WEFT_DTYPE_I32, 3, 2147483647, 1), WEFT_E_VALUE, "fit");
    check_error(weft_tri(ctx, -1, 2, 0), WEFT_E_SHAPE, "tri");
    fake(ctx)->refuse_upload = true;
    check_error(weft_tensor_from(ctx, WEFT_DTYPE_F32, SHAPE(1), &x), WEFT_E_OOM, "fake: no room for 4 bytes");
    fake(ctx)->refuse_upload = false;
    weft_scope_end(s);
}

static void bools_are_stored_as_zero_or_one(void **state)
{
    (void)state;
    uint8_t data[4] = {0, 2, 255, 1}, want[4] = {0, 1, 1, 1};
    weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_BOOL, SHAPE(4), data);
    assert_memory_equal(fake(ctx)->bytes, want, 4);
    weft_tensor_release(t);
}

static void errors_pass_through_every_op(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *a = weft_zeros(ctx, WEFT_DTYPE_F32, SHAPE(2, 3)), *b = weft_zeros(ctx, WEFT_DTYPE_F32, SHAPE(4, 5));
    weft_tensor *e = weft_matmul(a, b);
    const char *sentence = "matmul: inner dimensions differ: a [2, 3] x b [4, 5]";
    assert_int_equal(weft_tensor_status(e), WEFT_E_SHAPE);
    assert_string_equal(weft_tensor_message(e), sentence);
    weft_tensor *chain = weft_reshape(weft_softmax(weft_add(weft_neg(e), a), 0), SHAPE(6));
    assert_int_equal(weft_tensor_status(chain), WEFT_E_SHAPE);
    assert_string_equal(weft_tensor_message(chain), sentence);
    assert_int_equal(weft_tensor_rank(chain), 0);
    assert_int_equal(weft_tensor_numel(chain), 0);
    assert_non_null(weft_tensor_shape(chain));
    weft_scope_end(s);
}

static void null_gives_a_static_error_that_can_be_used_and_released(void **state)
{
    (void)state;
    weft_tensor *e = weft_add(NULL, NULL);
    check_error(e, WEFT_E_CONTEXT, "NULL");
    assert_non_null(strstr(weft_error_message(), "add: input 0 is NULL"));
    assert_ptr_equal(weft_tensor_retain(e), e);
    assert_ptr_equal(weft_keep(e), e);
    check_error(weft_neg(e), WEFT_E_CONTEXT, "NULL");
    weft_tensor_release(e);
    weft_tensor_release(e);
    weft_tensor_release(NULL);
    assert_null(weft_keep(NULL));
    assert_int_equal(weft_tensor_status(NULL), WEFT_E_CONTEXT);
    check_error(weft_zeros(NULL, WEFT_DTYPE_F32, 0, NULL), WEFT_E_CONTEXT, NULL);
    check_error(weft_cat(NULL, 0, 0), WEFT_E_VALUE, NULL);
    weft_tensor *a = weft_scalar_f32(ctx, 1);
    weft_tensor *m = weft_add(a, NULL);
    check_error(m, WEFT_E_CONTEXT, "add: input 1 is NULL");
    weft_tensor_release(m);
    weft_tensor_release(a);
    assert_null(weft_scope_begin(NULL));
    weft_scope_end(NULL);
}

static void two_contexts_do_not_mix(void **state)
{
    (void)state;
    int other_gone = 0;
    weft_ctx *other = fake_open(&other_gone);
    weft_tensor *a = weft_scalar_f32(ctx, 1), *b = weft_scalar_f32(other, 1);
    weft_tensor *e = weft_mul(a, b);
    check_error(e, WEFT_E_CONTEXT, "mul: inputs 0 and 1 belong to two contexts");
    weft_tensor_release(e);
    weft_tensor_release(a);
    weft_tensor_release(b);
    fake_close(other);
    assert_int_equal(other_gone, 1);
}

static void handles_outlive_their_context_as_memory(void **state)
{
    (void)state;
    int other_gone = 0;
    weft_ctx *other = fake_open(&other_gone);
    weft_tensor *a = weft_scalar_f32(other, 1);
    weft_scope *s = weft_scope_begin(other);
    fake_close(other);
    assert_int_equal(other_gone, 0);
    check_error(weft_neg(a), WEFT_E_CONTEXT, "neg: the context is closed");
    check_error(weft_zeros(other, WEFT_DTYPE_F32, 0, NULL), WEFT_E_CONTEXT, "closed");
    assert_int_equal(weft_tensor_rank(a), 0);
    weft_scope_end(s);
    assert_int_equal(other_gone, 0);
    weft_tensor_release(a);
    assert_int_equal(other_gone, 1);
}

static void scopes_own_results_until_kept(void **state)
{
    (void)state;
    weft_tensor *a = weft_scalar_f32(ctx, 1); /* no scope: the caller's */
    weft_scope *outer = weft_scope_begin(ctx);
    weft_tensor *b = weft_neg(a);
    weft_scope *inner = weft_scope_begin(ctx);
    weft_tensor *c = weft_keep(weft_neg(b)), *d = weft_tensor_retain(weft_neg(c));
    weft_neg(d);
    assert_int_equal(wf_core(ctx)->live_tensors, 5);
    weft_scope_end(inner);
    assert_int_equal(wf_core(ctx)->live_tensors, 4);
    check_shape(c, 0, NULL);
    check_shape(d, 0, NULL);
    weft_scope_end(outer);
    assert_int_equal(wf_core(ctx)->live_tensors, 3);
    weft_tensor_release(d);
    weft_tensor_release(c);
    weft_tensor_release(a);
    assert_int_equal(wf_core(ctx)->live_nodes, 0);
}

static void scopes_belong_to_their_context(void **state)
{
    (void)state;
    weft_ctx *other = fake_open(NULL);
    weft_scope *s1 = weft_scope_begin(ctx), *s2 = weft_scope_begin(other);
    weft_scalar_f32(ctx, 1);
    weft_scalar_f32(other, 1);
    weft_scope_end(s2);
    assert_int_equal(wf_core(other)->live_tensors, 0);
    assert_int_equal(wf_core(ctx)->live_tensors, 1);
    weft_scope_end(s1);
    fake_close(other);
}

static void ending_scopes_out_of_order_or_twice_is_harmless(void **state)
{
    (void)state;
    weft_scope *outer = weft_scope_begin(ctx), *inner = weft_scope_begin(ctx);
    weft_scalar_f32(ctx, 1);
    weft_scope_end(outer);
    assert_int_equal(wf_core(ctx)->live_tensors, 1);
    weft_scope_end(inner);
    assert_int_equal(wf_core(ctx)->live_tensors, 0);
    weft_scope_end(inner);
    assert_non_null(strstr(weft_error_message(), "scope_end"));
}

static void a_chain_of_a_million_nodes_is_freed_without_recursion(void **state)
{
    (void)state;
    weft_tensor *t = weft_scalar_f32(ctx, 1);
    for (int i = 0; i < 1000000; i++) {
        weft_tensor *next = weft_neg(t);
        weft_tensor_release(t);
        t = next;
    }
    assert_int_equal(wf_core(ctx)->live_nodes, 1000001);
    weft_tensor_release(t);
    assert_int_equal(wf_core(ctx)->live_nodes, 0);
}

static void a_realised_node_is_a_leaf_and_lets_its_inputs_go(void **state)
{
    (void)state;
    weft_tensor *a = weft_scalar_f32(ctx, 1), *b = weft_exp(a), *c = weft_neg(b);
    weft_tensor_release(a);
    weft_tensor_release(b);
    assert_int_equal(wf_core(ctx)->live_nodes, 3);
    wf_storage *s = NULL;
    float one = 1;
    wf_lock(&wf_core(ctx)->lock);
    assert_int_equal(fake_upload(ctx, WEFT_DTYPE_F32, 1, 1, &one, 4, &s), WEFT_OK);
    wf_node_realise(c->node, s);
    wf_unlock(&wf_core(ctx)->lock);
    assert_int_equal(wf_core(ctx)->live_nodes, 1);
    assert_int_equal(c->node->op, WF_OP_LEAF);
    assert_int_equal(c->node->n_in, 0);
    weft_tensor_release(c);
    assert_int_equal(fake(ctx)->storages, 0);
}

static void recording_again_reuses_blocks(void **state)
{
    (void)state;
    uint64_t before = 0;
    for (int step = 0; step < 3; step++) {
        weft_scope *s = weft_scope_begin(ctx);
        weft_tensor *x = weft_zeros(ctx, WEFT_DTYPE_F32, SHAPE(4, 8));
        for (int i = 0; i < 50; i++)
            x = weft_add(x, weft_where(weft_gt(x, x), x, weft_neg(x)));
        weft_scope_end(s);
        if (step)
            assert_int_equal(wf_alloc_live(), before);
        before = wf_alloc_live();
    }
}

typedef struct work {
    weft_tensor *shared;
    int64_t sum;
} work;

static void *record(void *arg)
{
    work *w = arg;
    for (int i = 0; i < 2000; i++) {
        weft_scope *s = weft_scope_begin(ctx);
        weft_tensor *t = weft_tensor_retain(w->shared);
        weft_tensor *kept = weft_keep(weft_add(weft_neg(t), weft_scalar_f32(ctx, 1)));
        w->sum += weft_tensor_numel(kept);
        weft_tensor_release(t);
        weft_scope_end(s);
        weft_tensor_release(kept);
    }
    return NULL;
}

static void threads_record_on_one_context(void **state)
{
    (void)state;
    enum { N = 6 };
    pthread_t threads[N];
    work works[N + 1];
    weft_tensor *shared = weft_zeros(ctx, WEFT_DTYPE_F32, SHAPE(7));
    for (int i = 0; i <= N; i++)
        works[i] = (work){shared, 0};
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, record, &works[i]), 0);
    record(&works[N]); /* the thread that opened the context goes on at the same time */
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i <= N; i++)
        assert_int_equal(works[i].sum, 7 * 2000);
    assert_int_equal(shared->node->refs, 1);
    weft_tensor_release(shared);
}

typedef struct counter {
    wf_biased_lock lock;
    int64_t value, rounds;
} counter;

static void *count(void *arg)
{
    counter *c = arg;
    for (int64_t i = 0; i < c->rounds; i++) {
        wf_lock(&c->lock);
        wf_lock(&c->lock);
        int64_t v = c->value;
        c->value = v + 1;
        wf_unlock(&c->lock);
        wf_unlock(&c->lock);
    }
    return NULL;
}

static void the_biased_lock_excludes_while_its_bias_is_revoked(void **state)
{
    (void)state;
    for (int trial = 0; trial < 20; trial++) {
        counter c = {.rounds = 200000};
        pthread_t t;
        wf_biased_init(&c.lock);
        assert_int_equal(pthread_create(&t, NULL, count, &c), 0);
        count(&c);
        pthread_join(t, NULL);
        assert_int_equal(c.value, 2 * c.rounds);
        wf_biased_destroy(&c.lock);
    }
}

#define FIXED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXED(leaves_carry_shape_dtype_and_bytes),
        FIXED(constants_and_empty_leaves_move_no_bytes),
        FIXED(constants_are_rounded_to_their_dtype),
        FIXED(wrong_leaves_are_error_tensors_with_numbers),
        FIXED(bools_are_stored_as_zero_or_one),
        FIXED(errors_pass_through_every_op),
        FIXED(null_gives_a_static_error_that_can_be_used_and_released),
        FIXED(two_contexts_do_not_mix),
        FIXED(handles_outlive_their_context_as_memory),
        FIXED(scopes_own_results_until_kept),
        FIXED(scopes_belong_to_their_context),
        FIXED(ending_scopes_out_of_order_or_twice_is_harmless),
        FIXED(a_chain_of_a_million_nodes_is_freed_without_recursion),
        FIXED(a_realised_node_is_a_leaf_and_lets_its_inputs_go),
        FIXED(recording_again_reuses_blocks),
        FIXED(threads_record_on_one_context),
        cmocka_unit_test(the_biased_lock_excludes_while_its_bias_is_revoked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
