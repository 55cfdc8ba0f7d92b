/* test_async.c - fences, several threads, cancelling, closing early, foreign readers. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "weft/model.h"
#include "weft/weft.h"

#define STORY WEFT_SOURCE_DIR "/models/stories260k/stories260K.F32.gguf"

static weft_ctx *open_ctx(void)
{
    const char *device = getenv("WEFT_TEST_DEVICE");
    weft_ctx_opts opts = {.device = device ? device : "cpu"};
    weft_ctx *ctx = NULL;
    if (weft_ctx_open(&opts, &ctx) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    return ctx;
}

static weft_tensor *iota(weft_ctx *ctx, int64_t n)
{
    return weft_arange(ctx, WEFT_DTYPE_F32, n, 0, 1);
}

static void reads_in_flight_finish_in_any_order(void **state)
{
    (void)state;
    weft_ctx *ctx = open_ctx();
    enum { N = 8 };
    weft_fence *fences[N];
    float got[N][5];
    for (int i = 0; i < N; i++) {
        weft_scope *s = weft_scope_begin(ctx);
        weft_tensor *x = weft_mul(iota(ctx, 5), weft_scalar_f32(ctx, (float)i));
        assert_int_equal(weft_read_async(x, got[i], sizeof got[i], &fences[i]), WEFT_OK);
        weft_scope_end(s);
    }
    for (int i = N - 1; i >= 0; i--) {
        assert_int_equal(weft_fence_wait(fences[i], -1), WEFT_OK);
        for (int j = 0; j < 5; j++)
            assert_true(got[i][j] == (float)(i * j));
        weft_fence_destroy(fences[i]);
    }
    weft_ctx_close(ctx);
}

static void a_fence_outlives_its_context(void **state)
{
    (void)state;
    weft_ctx *ctx = open_ctx();
    float got[3];
    weft_fence *fence;
    weft_tensor *x = iota(ctx, 3);
    assert_int_equal(weft_read_async(x, got, sizeof got, &fence), WEFT_OK);
    weft_ctx_close(ctx);
    weft_status st = weft_fence_wait(fence, 1000);
    assert_true(st == WEFT_OK || st == WEFT_E_CONTEXT);
    weft_fence_destroy(fence);
    assert_int_equal(weft_eval(&x, 1), WEFT_E_CONTEXT);
    weft_tensor_release(x);
}

typedef struct job {
    weft_ctx *ctx;
    int seed;
    bool right;
} job;

static void *multiply(void *user)
{
    job *j = user;
    enum { N = 17 };
    float a[N * N], want[N * N], got[N * N];
    for (int i = 0; i < N * N; i++)
        a[i] = (float)((i * 7 + j->seed) % 5) - 2;
    for (int r = 0; r < N; r++)
        for (int c = 0; c < N; c++) {
            want[r * N + c] = 0;
            for (int k = 0; k < N; k++)
                want[r * N + c] += a[r * N + k] * a[c * N + k];
        }
    j->right = true;
    for (int turn = 0; turn < 50; turn++) {
        weft_scope *s = weft_scope_begin(j->ctx);
        weft_tensor *t = weft_tensor_from(j->ctx, WEFT_DTYPE_F32, 2, (int64_t[]){N, N}, a);
        weft_status st = weft_read(weft_matmul(t, weft_transpose(t, 0, 1)), got, sizeof got);
        j->right &= st == WEFT_OK && memcmp(got, want, sizeof got) == 0;
        weft_scope_end(s);
    }
    return NULL;
}

static void threads_on_one_context_give_the_serial_results(void **state)
{
    (void)state;
    weft_ctx *ctx = open_ctx();
    enum { THREADS = 8 };
    pthread_t thread[THREADS];
    job jobs[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){ctx, i, false};
        assert_int_equal(pthread_create(&thread[i], NULL, multiply, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_true(jobs[i].right);
    }
    weft_ctx_close(ctx);
}

static void contexts_on_their_own_threads_do_not_meet(void **state)
{
    (void)state;
    enum { THREADS = 3 };
    pthread_t thread[THREADS];
    job jobs[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){open_ctx(), i, false};
        assert_int_equal(pthread_create(&thread[i], NULL, multiply, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_true(jobs[i].right);
        weft_ctx_close(jobs[i].ctx);
    }
}

typedef struct canceller {
    weft_ctx *ctx;
    atomic_int tokens;
} canceller;

static bool count_token(void *user, int32_t id, const char *bytes, size_t n)
{
    (void)id, (void)bytes, (void)n;
    ((canceller *)user)->tokens++;
    return true;
}

static void *cancel_soon(void *user)
{
    canceller *c = user;
    while (c->tokens < 2)
        ;
    weft_cancel(c->ctx);
    return NULL;
}

static void cancelling_from_another_thread_ends_generation_and_the_context_goes_on(void **state)
{
    (void)state;
    canceller c = {.ctx = open_ctx()};
    weft_model *model;
    weft_session *session;
    assert_int_equal(weft_model_load(c.ctx, STORY, NULL, &model), WEFT_OK);
    assert_int_equal(weft_session_create(model, NULL, &session), WEFT_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &c), 0);
    weft_generate_opts opts = {.max_tokens = 400, .on_token = count_token, .user = &c};
    weft_generate_result result = {0};
    weft_status st = WEFT_OK;
    for (int i = 0; i < 50 && st == WEFT_OK; i++) { /* greedy text may end before the other thread acts */
        assert_int_equal(weft_session_truncate(session, 0), WEFT_OK);
        st = weft_session_generate(session, (int32_t[]){1, 403}, 2, &opts, &result);
        if (st == WEFT_OK)
            weft_ids_free(result.ids);
    }
    pthread_join(thread, NULL);
    assert_int_equal(st, WEFT_E_CANCELLED);
    assert_int_equal(weft_session_truncate(session, 0), WEFT_OK);
    opts.max_tokens = 3;
    assert_int_equal(weft_session_generate(session, (int32_t[]){1, 403}, 2, &opts, &result), WEFT_OK);
    assert_int_equal(result.n_ids, 3);
    weft_ids_free(result.ids);
    weft_session_destroy(session);
    weft_model_close(model);
    weft_ctx_close(c.ctx);
}

/* A model inside another file, through the three kinds of reader. */
static void a_model_loads_from_memory_a_part_of_a_file_and_a_callback(void **state)
{
    (void)state;
    weft_ctx *ctx = open_ctx();
    weft_reader file;
    assert_int_equal(weft_reader_open_file(STORY, 0, 0, &file), WEFT_OK);
    size_t size = (size_t)file.size_bytes, pad = 777;
    char *bytes = malloc(size + pad), name[] = "/tmp/weft-test-XXXXXX";
    memset(bytes, 'x', pad);
    assert_true(file.read(file.user, 0, bytes + pad, size));
    int fd = mkstemp(name);
    FILE *f = fdopen(fd, "wb");
    assert_int_equal(fwrite(bytes, 1, size + pad, f), size + pad);
    fclose(f);
    weft_reader readers[3];
    assert_int_equal(weft_reader_borrow_memory(bytes + pad, size, &readers[0]), WEFT_OK);
    assert_int_equal(weft_reader_open_file(name, pad, 0, &readers[1]), WEFT_OK);
    readers[2] = file;
    readers[2].map = NULL;
    for (int i = 0; i < 3; i++) {
        weft_file *opened;
        weft_model *model;
        weft_model_info info;
        if (weft_file_open_reader(&readers[i], &opened) != WEFT_OK || weft_model_load_file(ctx, opened, NULL, &model) != WEFT_OK)
            fail_msg("reader %d: %s", i, weft_error_message());
        assert_int_equal(weft_model_describe(model, &info), WEFT_OK);
        assert_int_equal(info.n_layers, 5);
        weft_model_close(model);
        weft_file_close(opened);
    }
    remove(name);
    free(bytes);
    weft_ctx_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_in_flight_finish_in_any_order),
        cmocka_unit_test(a_fence_outlives_its_context),
        cmocka_unit_test(threads_on_one_context_give_the_serial_results),
        cmocka_unit_test(contexts_on_their_own_threads_do_not_meet),
        cmocka_unit_test(cancelling_from_another_thread_ends_generation_and_the_context_goes_on),
        cmocka_unit_test(a_model_loads_from_memory_a_part_of_a_file_and_a_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
