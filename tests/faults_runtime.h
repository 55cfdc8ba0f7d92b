/* faults_runtime.h - what must hold over many calls: pipelines, buffers, readbacks, threads, lost contexts.
 * Included by test_faults.c.
 */
#ifndef FAULTS_RUNTIME_H
#define FAULTS_RUNTIME_H

/* ---- pipelines ---- */
TEST(a_thousand_shapes_make_a_handful_of_pipelines)
{
    enum { SHAPES = 1000 };
    float *v = malloc(2000 * sizeof *v), got;
    assert_non_null(v);
    for (int i = 0; i < 2000; i++)
        v[i] = 1;
    weft_stats before = stats();
    for (int i = 1; i <= SHAPES; i++) {
        weft_scope *s = weft_scope_begin(ctx);
        weft_tensor *x = f32_of(DIMS(i), v);
        read_ok(weft_slice(weft_exp(x), 0, i - 1, i, 1), &got, sizeof got);
        assert_true(fabsf(got - 2.7182817f) < 1e-5f);
        weft_scope_end(s);
    }
    uint64_t elementwise = stats().pipelines - before.pipelines;
    before = stats();
    for (int i = 1; i <= SHAPES; i += 3) {
        weft_scope *s = weft_scope_begin(ctx);
        read_ok(weft_slice(weft_reshape(weft_softmax(f32_of(DIMS(2, i), v), 1), DIMS(2 * i)), 0, 2 * i - 1, 2 * i, 1), &got, sizeof got);
        assert_true(fabsf(got * (float)i - 1) < 1e-4f);
        weft_scope_end(s);
    }
    uint64_t rows = stats().pipelines - before.pipelines;
    free(v);
    print_message("%llu pipelines of exp, %llu of softmax\n", (unsigned long long)elementwise, (unsigned long long)rows);
    assert_true(elementwise <= 8 && rows <= 8);
}

/* ---- leaks ---- */
typedef struct cache {
    weft_tensor *k, *v;
} cache;

/* One step of a decoder: a token's keys and values go into the cache, and it attends to all so far. */
static void decode_step(cache *c, int32_t step)
{
    weft_scope *s = weft_scope_begin(ctx);
    float row[2 * 1 * 8], got[16];
    for (int i = 0; i < 16; i++)
        row[i] = (float)((step * 7 + i) % 13) / 13;
    weft_tensor *x = f32_of(DIMS(1, 2, 1, 8), row), *pos = at(step);
    weft_tensor *k = weft_slice_update(c->k, weft_rope(x, &(weft_rope_opts){.offset = pos}), 2, pos);
    weft_tensor *v = weft_slice_update(c->v, x, 2, pos);
    weft_tensor_release(c->k);
    weft_tensor_release(c->v);
    c->k = weft_keep(k);
    c->v = weft_keep(v);
    weft_tensor *y = weft_scaled_dot_product_attention(x, k, v, &(weft_attention_opts){.is_causal = true, .kv_len = at(step + 1)});
    weft_tensor *all[3] = {weft_rms_norm(y, NULL, 1e-5f, -1), k, v};
    assert_int_equal(weft_eval(all, 3), WEFT_OK);
    read_ok(all[0], got, sizeof got);
    weft_scope_end(s);
}

static void five_hundred_decode_steps_leave_nothing_behind(void **state)
{
    (void)state;
    cache c = {weft_zeros(ctx, WEFT_DTYPE_F32, DIMS(1, 2, 512, 8)), weft_zeros(ctx, WEFT_DTYPE_F32, DIMS(1, 2, 512, 8))};
    weft_stats at_250 = {0};
    for (int i = 0; i < 500; i++) {
        decode_step(&c, i);
        if (i == 249)
            at_250 = stats();
    }
    weft_stats end = stats();
    weft_tensor_release(c.k);
    weft_tensor_release(c.v);
    assert_int_equal(end.buffers_live, at_250.buffers_live);
    assert_int_equal(end.bytes_live, at_250.bytes_live);
    assert_int_equal(end.buffers_created, at_250.buffers_created);
    assert_int_equal(end.pipelines, at_250.pipelines);
    assert_int_equal(end.plans_built, at_250.plans_built);
    assert_int_equal(end.copies, at_250.copies);
}

static void tensors_of_growing_length_give_their_memory_back(void **state)
{
    (void)state;
    weft_stats half = {0}, end;
    for (int round = 0; round < 2; round++) {
        for (int n = 1; n <= 200; n++) {
            weft_scope *s = weft_scope_begin(ctx);
            weft_tensor *x = weft_arange(ctx, WEFT_DTYPE_F32, n * 50, 0, 1);
            float want = (float)(n * 50 - 1);
            assert_true(one_value(weft_max(weft_cat((weft_tensor *[]){x, x}, 2, 0), NULL, 0, false)) == want);
            weft_scope_end(s);
        }
        end = stats();
        if (round == 0)
            half = end;
    }
    assert_true(end.buffers_live <= half.buffers_live);
    assert_true(end.bytes_live <= half.bytes_live);
}

/* ---- readback ---- */
TEST(ten_thousand_single_floats_are_read_back)
{
    weft_tensor *x = weft_keep(VEC(1)), *one = VEC(1);
    double begin = seconds();
    int n = strcmp(device.kind, "software") == 0 && !getenv("WEFT_TEST_LONG") ? 2000 : 10000;
    for (int i = 0; i < n; i++) {
        weft_scope *s = weft_scope_begin(ctx);
        if (i % 10 == 0) {
            weft_tensor *next = weft_keep(weft_add(x, one));
            weft_tensor_release(x);
            x = next;
        }
        float v = one_value(x);
        if (v != (float)(2 + i / 10))
            fail_msg("readback %d is %g", i, v);
        weft_scope_end(s);
    }
    weft_tensor_release(x);
    assert_true(seconds() - begin < 120);
}

static void a_read_that_nobody_waits_for_does_not_hang(void **state)
{
    (void)state;
    weft_ctx *c = open_test_ctx();
    assert_non_null(c);
    float got[4][1000];
    weft_fence *fence[4];
    weft_tensor *x = weft_arange(c, WEFT_DTYPE_F32, 1000, 0, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(weft_read_async(x, got[i], sizeof got[i], &fence[i]), WEFT_OK);
    assert_int_equal(weft_fence_wait(fence[3], -1), WEFT_OK);
    assert_true(got[3][999] == 999);
    for (int i = 0; i < 3; i++)
        weft_fence_destroy(fence[i]);
    weft_fence_destroy(fence[3]);
    weft_fence *last;
    assert_int_equal(weft_read_async(x, got[0], sizeof got[0], &last), WEFT_OK);
    weft_ctx_close(c);
    weft_fence_destroy(last);
    assert_int_equal(weft_read(x, got[0], sizeof got[0]), WEFT_E_CONTEXT);
    weft_tensor_release(x);
}

/* ---- threads ---- */
typedef struct worker {
    weft_ctx *ctx;
    int id, wrong;
    weft_status status;
} worker;

enum { THREADS = 8, MATMULS = 200, SIDE = 12 };

/* 200 products by a permutation matrix times 1: exact, and different for each thread and step. */
static void *multiply(void *arg)
{
    worker *w = arg;
    for (int step = 0; step < MATMULS && w->status == WEFT_OK; step++) {
        weft_scope *s = weft_scope_begin(w->ctx);
        float a[SIDE * SIDE], p[SIDE * SIDE] = {0}, got[SIDE * SIDE];
        int turn = (w->id + step) % SIDE;
        for (int i = 0; i < SIDE * SIDE; i++)
            a[i] = (float)(i + w->id * 1000 + step);
        for (int i = 0; i < SIDE; i++)
            p[i * SIDE + (i + turn) % SIDE] = 1;
        const int64_t shape[2] = {SIDE, SIDE};
        weft_tensor *y = weft_matmul(weft_tensor_from(w->ctx, WEFT_DTYPE_F32, 2, shape, a), weft_tensor_from(w->ctx, WEFT_DTYPE_F32, 2, shape, p));
        w->status = weft_read(y, got, sizeof got);
        for (int r = 0; r < SIDE; r++)
            for (int i = 0; i < SIDE; i++)
                w->wrong += got[r * SIDE + (i + turn) % SIDE] != a[r * SIDE + i];
        weft_scope_end(s);
    }
    return NULL;
}

static void run_workers(worker *w, int n)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, multiply, &w[i]), 0);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n; i++) {
        assert_int_equal(w[i].status, WEFT_OK);
        assert_int_equal(w[i].wrong, 0);
    }
}

static void eight_threads_share_one_context(void **state)
{
    (void)state;
    worker w[THREADS] = {{0}};
    for (int i = 0; i < THREADS; i++)
        w[i] = (worker){.ctx = ctx, .id = i};
    run_workers(w, THREADS);
}

static void contexts_on_several_threads_do_not_meet(void **state)
{
    (void)state;
    enum { N = 4 };
    worker w[N] = {{0}};
    for (int i = 0; i < N; i++) {
        w[i] = (worker){.ctx = open_test_ctx(), .id = i};
        assert_non_null(w[i].ctx);
    }
    run_workers(w, N);
    for (int i = 0; i < N; i++)
        weft_ctx_close(w[i].ctx);
}

/* The bits of a sum do not depend on how many threads share the work. */
static void the_number_of_threads_does_not_change_a_bit(void **state)
{
    (void)state;
    enum { M = 97, K = 513, N = 131 };
    if (strcmp(device.kind, "cpu") != 0)
        return; /* a matter of the CPU device */
    float *a = malloc(M * K * sizeof *a), *got[3] = {NULL};
    assert_non_null(a);
    for (int i = 0; i < M * K; i++)
        a[i] = sinf((float)i);
    for (int t = 0; t < 3; t++) {
        weft_ctx_opts o = test_opts();
        o.n_threads = t == 0 ? 1 : 2 * t + 1;
        weft_ctx *c;
        assert_int_equal(weft_ctx_open(&o, &c), WEFT_OK);
        weft_scope *s = weft_scope_begin(c);
        got[t] = malloc((M * N + M + 1) * sizeof(float));
        assert_non_null(got[t]);
        weft_tensor *x = weft_tensor_from(c, WEFT_DTYPE_F32, DIMS(M, K), a);
        weft_tensor *w = weft_slice(weft_reshape(weft_tensor_from(c, WEFT_DTYPE_F32, DIMS(M * K), a), DIMS(K, M)), 1, 0, 67, 1);
        weft_tensor *y = weft_matmul(x, weft_cat((weft_tensor *[]){w, weft_flip(w, 0)}, 2, 1));
        weft_tensor *z = weft_softmax(weft_slice(y, 1, 0, N, 1), -1);
        read_ok(z, got[t], M * N * sizeof(float));
        read_ok(weft_sum(weft_exp(x), (int[]){1}, 1, false), got[t] + M * N, M * sizeof(float));
        read_ok(weft_sum(x, NULL, 0, false), got[t] + M * N + M, sizeof(float));
        weft_scope_end(s);
        weft_ctx_close(c);
        assert_memory_equal(got[0], got[t], (M * N + M + 1) * sizeof(float));
    }
    for (int t = 0; t < 3; t++)
        free(got[t]);
    free(a);
}

/* ---- contexts that end ---- */
static void weights_go_to_a_new_context_after_the_old_one_ended(void **state)
{
    (void)state;
    float v[4] = {1, 2, 3, 4}, got[4];
    weft_ctx *first = open_test_ctx();
    assert_non_null(first);
    weft_tensor *old = weft_tensor_from(first, WEFT_DTYPE_F32, DIMS(4), v), *sum = weft_add(old, old);
    weft_ctx_close(first);
    assert_int_equal(weft_read(sum, got, sizeof got), WEFT_E_CONTEXT);
    weft_tensor *late = weft_neg(old);
    assert_int_equal(weft_tensor_status(late), WEFT_E_CONTEXT);
    weft_ctx *second = open_test_ctx();
    assert_non_null(second);
    weft_tensor *fresh = weft_tensor_from(second, WEFT_DTYPE_F32, DIMS(4), v);
    weft_tensor *mixed = weft_add(fresh, old);
    assert_int_equal(weft_tensor_status(mixed), WEFT_E_CONTEXT);
    weft_tensor *y = weft_add(fresh, fresh);
    read_ok(y, got, sizeof got);
    assert_true(got[3] == 8);
    weft_tensor *handles[] = {old, sum, late, fresh, mixed, y};
    for (int i = 0; i < 6; i++)
        weft_tensor_release(handles[i]);
    weft_ctx_close(second);
}

TEST(a_cancelled_evaluation_says_so_and_the_next_one_works)
{
    weft_tensor *x = weft_exp(weft_arange(ctx, WEFT_DTYPE_F32, 1000, 0, 0.001));
    weft_cancel(ctx);
    assert_int_equal(weft_eval(&x, 1), WEFT_E_CANCELLED);
    assert_int_equal(weft_eval(&x, 1), WEFT_OK);
}

TEST(every_feature_that_is_off_says_why)
{
    for (int i = 0; i < device.n_features; i++) {
        assert_true(device.features[i].name[0] != 0);
        if (!device.features[i].on && !device.features[i].reason[0])
            fail_msg("feature %s is off without a reason", device.features[i].name);
    }
}

#define FAULTS_RUNTIME                                                                                                  \
    cmocka_unit_test(a_thousand_shapes_make_a_handful_of_pipelines),                                                    \
        cmocka_unit_test(five_hundred_decode_steps_leave_nothing_behind),                                               \
        cmocka_unit_test(tensors_of_growing_length_give_their_memory_back),                                             \
        cmocka_unit_test(ten_thousand_single_floats_are_read_back), cmocka_unit_test(a_read_that_nobody_waits_for_does_not_hang), \
        cmocka_unit_test(eight_threads_share_one_context), cmocka_unit_test(contexts_on_several_threads_do_not_meet),   \
        cmocka_unit_test(the_number_of_threads_does_not_change_a_bit),                                                  \
        cmocka_unit_test(weights_go_to_a_new_context_after_the_old_one_ended),                                          \
        cmocka_unit_test(a_cancelled_evaluation_says_so_and_the_next_one_works), cmocka_unit_test(every_feature_that_is_off_says_why)

#endif
