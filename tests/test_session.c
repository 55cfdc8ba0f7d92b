/* test_session.c - sessions of the small story model on the CPU: steps, truncation, state, failure. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base.h"
#include "data_file.h"
#include "weft/model.h"
#include "weft/weft.h"

enum { VOCAB = 512, N = 40 };

typedef struct fixture {
    weft_ctx *ctx;
    weft_model *model;
    int32_t ids[1100];
} fixture;

static void ok_at(weft_status st, int line)
{
    if (st != WEFT_OK)
        fail_msg("line %d: %s: %s", line, weft_status_name(st), weft_error_message());
}
#define OK(expr) ok_at((expr), __LINE__)

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    OK(weft_ctx_open(&(weft_ctx_opts){.device = "cpu"}, &f->ctx));
    OK(weft_model_load(f->ctx, source_path("models/stories260k/stories260K.F32.gguf"), NULL, &f->model));
    f->ids[0] = 1;
    for (int i = 1; i < 1100; i++)
        f->ids[i] = 259 + i * 37 % 250;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    weft_model_close(f->model);
    weft_ctx_close(f->ctx);
    free(f);
    return 0;
}

static weft_session *new_session(fixture *f, int64_t context)
{
    weft_session *s = NULL;
    OK(weft_session_create(f->model, &(weft_session_opts){.context_length = context}, &s));
    return s;
}

/* Logits of the last of n ids. */
static void step(weft_session *s, const int32_t *ids, int64_t n, float out[VOCAB])
{
    weft_tensor *t = NULL;
    OK(weft_session_step(s, ids, n, false, &t));
    assert_int_equal(weft_tensor_rank(t), 2);
    assert_int_equal(weft_tensor_dim(t, 0), 1);
    OK(weft_read(t, out, VOCAB * sizeof *out));
    weft_tensor_release(t);
}

static void assert_close(const float *a, const float *b, int n, double tolerance)
{
    for (int i = 0; i < n; i++)
        if (!(fabs((double)a[i] - b[i]) <= tolerance))
            fail_msg("element %d: %g and %g", i, a[i], b[i]);
}

static void tokens_one_by_one_give_the_logits_of_one_prompt(void **state)
{
    fixture *f = *state;
    weft_session *a = new_session(f, 64), *b = new_session(f, 64);
    float one[VOCAB], all[VOCAB];
    for (int i = 0; i < N; i++)
        step(a, f->ids + i, 1, one);
    step(b, f->ids, N, all);
    assert_close(one, all, VOCAB, 1e-4);
    assert_int_equal(weft_session_length(a), N);
    assert_int_equal(weft_session_capacity(a), 64);
    weft_session_destroy(a);
    weft_session_destroy(b);
}

static void all_logits_end_with_those_of_the_last_token(void **state)
{
    fixture *f = *state;
    weft_session *a = new_session(f, 64), *b = new_session(f, 64);
    static float all[N * VOCAB];
    float last[VOCAB];
    weft_tensor *t = NULL;
    OK(weft_session_step(a, f->ids, N, true, &t));
    assert_int_equal(weft_tensor_dim(t, 0), N);
    OK(weft_read(t, all, sizeof all));
    weft_tensor_release(t);
    step(b, f->ids, N, last);
    assert_close(all + (N - 1) * VOCAB, last, VOCAB, 1e-4);
    weft_session_destroy(a);
    weft_session_destroy(b);
}

static void a_prompt_of_several_chunks_equals_its_parts(void **state)
{
    fixture *f = *state;
    weft_session *a = new_session(f, 1200), *b = new_session(f, 1200);
    float one[VOCAB], two[VOCAB];
    weft_tensor *t = NULL;
    step(a, f->ids, 1100, one);
    step(b, f->ids, 333, two);
    step(b, f->ids + 333, 1100 - 333, two);
    assert_close(one, two, VOCAB, 1e-3);
    OK(weft_session_truncate(b, 0));
    OK(weft_session_step(b, f->ids, 1100, true, &t));
    assert_int_equal(weft_tensor_dim(t, 0), 1100);
    weft_tensor_release(t);
    weft_session_destroy(a);
    weft_session_destroy(b);
}

static void truncated_tokens_are_forgotten(void **state)
{
    fixture *f = *state;
    weft_session *a = new_session(f, 64), *b = new_session(f, 64);
    float x[VOCAB], y[VOCAB];
    step(a, f->ids + 100, 30, x);
    OK(weft_session_truncate(a, 0));
    step(a, f->ids, 20, x);
    step(a, f->ids + 60, 20, x);
    OK(weft_session_truncate(a, 20));
    step(a, f->ids + 20, 5, x);
    step(b, f->ids, 25, y);
    assert_close(x, y, VOCAB, 1e-4);
    assert_int_equal(weft_session_truncate(a, 26), WEFT_E_VALUE);
    assert_int_equal(weft_session_truncate(a, -1), WEFT_E_VALUE);
    weft_session_destroy(a);
    weft_session_destroy(b);
}

static void generate(weft_session *s, const int32_t *ids, size_t n, int64_t max, const weft_sampling *sampling, weft_generate_result *r)
{
    OK(weft_session_generate(s, ids, n, &(weft_generate_opts){.max_tokens = max, .sampling = *sampling}, r));
}

static void a_restored_session_continues_as_the_saved_one(void **state)
{
    fixture *f = *state;
    const weft_sampling sampling = {.temperature = 1, .top_k = 50, .repeat_penalty = 1.1f, .seed = 9};
    weft_session *a = new_session(f, 128), *b = new_session(f, 100);
    weft_generate_result whole, first, rest;
    void *data = NULL;
    size_t size = 0;
    generate(a, f->ids, 5, 30, &sampling, &whole);
    OK(weft_session_truncate(a, 0));
    generate(a, f->ids, 5, 10, &sampling, &first);
    OK(weft_session_save(a, &data, &size));
    OK(weft_session_restore(b, data, size));
    assert_int_equal(weft_session_length(b), 14); /* the tenth token has not been run yet */
    generate(b, &first.ids[9], 1, 20, &sampling, &rest);
    assert_int_equal(whole.n_ids, 30);
    assert_memory_equal(whole.ids, first.ids, 10 * sizeof *whole.ids);
    assert_memory_equal(whole.ids + 10, rest.ids, 20 * sizeof *whole.ids);
    weft_ids_free(whole.ids);
    weft_ids_free(first.ids);
    weft_ids_free(rest.ids);
    weft_state_free(data);
    weft_session_destroy(a);
    weft_session_destroy(b);
}

static void states_that_do_not_fit_are_refused_and_change_nothing(void **state)
{
    fixture *f = *state;
    weft_session *a = new_session(f, 64), *b = new_session(f, 16);
    float x[VOCAB], y[VOCAB];
    void *data = NULL;
    size_t size = 0;
    step(a, f->ids, 20, x);
    OK(weft_session_save(a, &data, &size));
    assert_int_equal(weft_session_restore(b, data, size), WEFT_E_VALUE); /* 20 tokens, context 16 */
    for (size_t cut = 0; cut < size; cut += 1 + size / 50)
        assert_int_not_equal(weft_session_restore(a, data, cut), WEFT_OK);
    for (size_t i = 0; i < size; i += i < 64 ? 1 : 1 + size / 200) { /* every byte of the header, and some behind it */
        ((uint8_t *)data)[i] ^= 0x5A;
        assert_int_not_equal(weft_session_restore(a, data, size), WEFT_OK);
        ((uint8_t *)data)[i] ^= 0x5A;
    }
    step(a, f->ids + 20, 1, x);
    OK(weft_session_truncate(a, 0));
    step(a, f->ids, 21, y);
    assert_close(x, y, VOCAB, 1e-4);
    weft_state_free(data);
    weft_session_destroy(a);
    weft_session_destroy(b);
}

static void f16_caches_work_and_restore_into_f32(void **state)
{
    fixture *f = *state;
    weft_session *a = NULL, *b = new_session(f, 64);
    float x[VOCAB], y[VOCAB];
    void *data = NULL;
    size_t size = 0;
    OK(weft_session_create(f->model, &(weft_session_opts){.context_length = 64, .kv_dtype = WEFT_DTYPE_F16}, &a));
    step(a, f->ids, N, x);
    step(b, f->ids, N, y);
    assert_close(x, y, VOCAB, 0.05);
    OK(weft_session_save(a, &data, &size));
    OK(weft_session_restore(b, data, size));
    step(a, f->ids + N, 1, x);
    step(b, f->ids + N, 1, y);
    assert_close(x, y, VOCAB, 0.05);
    weft_state_free(data);
    weft_session_destroy(a);
    weft_session_destroy(b);
}

static void a_cancelled_step_leaves_the_session_as_before(void **state)
{
    fixture *f = *state;
    weft_session *a = new_session(f, 64), *b = new_session(f, 64);
    float x[VOCAB], y[VOCAB];
    weft_tensor *t = NULL;
    step(a, f->ids, 10, x);
    for (int round = 0; round < 3; round++) {
        weft_cancel(f->ctx);
        assert_int_equal(weft_session_step(a, f->ids + 500, 7, false, &t), WEFT_E_CANCELLED);
        assert_int_equal(weft_session_length(a), 10);
    }
    step(a, f->ids + 10, 5, x);
    step(b, f->ids, 15, y);
    assert_close(x, y, VOCAB, 1e-4);
    weft_session_destroy(a);
    weft_session_destroy(b);
}

static void a_failed_allocation_leaves_the_session_as_before(void **state)
{
    fixture *f = *state;
    weft_session *a = new_session(f, 64);
    float want[VOCAB], x[VOCAB];
    weft_tensor *t = NULL;
    step(a, f->ids, 12, want);
    OK(weft_session_truncate(a, 10));
    int failures = 0;
    for (uint64_t n = 1; n < 4000; n += 1 + n / 8) {
        wf_alloc_fail_nth(n);
        weft_status st = weft_session_step(a, f->ids + 10, 2, false, &t);
        wf_alloc_fail_nth(0);
        if (st == WEFT_OK) {
            assert_int_equal(weft_session_length(a), 12);
            weft_tensor_release(t);
        } else {
            failures++;
            assert_int_equal(weft_session_length(a), 10);
            step(a, f->ids + 10, 2, x);
            assert_close(x, want, VOCAB, 1e-4);
        }
        OK(weft_session_truncate(a, 10));
    }
    assert_true(failures > 0);
    weft_session_destroy(a);
}

static void wrong_steps_say_the_numbers(void **state)
{
    fixture *f = *state;
    weft_session *a = new_session(f, 16);
    weft_tensor *t = NULL;
    const int32_t bad[2] = {5, VOCAB};
    assert_int_equal(weft_session_step(a, f->ids, 17, false, &t), WEFT_E_VALUE);
    assert_non_null(strstr(weft_error_message(), "17"));
    assert_non_null(strstr(weft_error_message(), "16"));
    assert_int_equal(weft_session_step(a, bad, 2, false, &t), WEFT_E_VALUE);
    assert_non_null(strstr(weft_error_message(), "512"));
    assert_int_equal(weft_session_step(a, f->ids, 0, false, &t), WEFT_E_VALUE);
    assert_int_equal(weft_session_step(NULL, f->ids, 1, false, &t), WEFT_E_CONTEXT);
    assert_null(t);
    weft_session_destroy(a);
}

static void sampling_numbers_outside_their_range_are_refused(void **state)
{
    fixture *f = *state;
    weft_session *a = new_session(f, 64);
    weft_generate_result r = {0};
    const weft_sampling wrong[] = {{.temperature = NAN}, {.temperature = -1}, {.temperature = INFINITY}, {.top_k = -1}, {.top_p = 2},
                                   {.min_p = -0.5f}, {.min_p = NAN}, {.repeat_penalty = -1}, {.repeat_last = -3}};
    for (size_t i = 0; i < WF_COUNT(wrong); i++)
        assert_int_equal(weft_session_generate(a, f->ids, 2, &(weft_generate_opts){.max_tokens = 2, .sampling = wrong[i]}, &r),
                         WEFT_E_VALUE);
    assert_int_equal(weft_session_length(a), 0);
    weft_session_destroy(a);
}

static bool stop_at_three(void *user, int32_t id, const char *bytes, size_t n)
{
    (void)id, (void)bytes, (void)n;
    return ++*(int *)user < 3;
}

static bool cancel_late(void *user, const char *phase, uint64_t done, uint64_t total)
{
    (void)user, (void)total;
    return !(strcmp(phase, "generate") == 0 && done == 4);
}

static void callbacks_end_and_cancel_a_generation(void **state)
{
    fixture *f = *state;
    weft_session *a = new_session(f, 64);
    weft_generate_result r = {0};
    int seen = 0;
    OK(weft_session_generate(a, f->ids, 4, &(weft_generate_opts){.max_tokens = 20, .on_token = stop_at_three, .user = &seen}, &r));
    assert_int_equal(r.n_ids, 3);
    assert_int_equal(r.stop_id, -1);
    weft_ids_free(r.ids);
    OK(weft_session_truncate(a, 0));
    r = (weft_generate_result){0};
    assert_int_equal(weft_session_generate(a, f->ids, 4, &(weft_generate_opts){.max_tokens = 20, .progress = cancel_late}, &r),
                     WEFT_E_CANCELLED);
    assert_int_equal(weft_session_length(a), 0);
    assert_null(r.ids);
    weft_session_destroy(a);
}

typedef struct score_watch {
    int calls, stop_at;
    uint64_t last, total;
} score_watch;

static bool watch_score(void *user, const char *phase, uint64_t done, uint64_t total)
{
    score_watch *w = user;
    assert_string_equal(phase, "score");
    assert_true(done >= w->last && done <= total);
    w->last = done;
    w->total = total;
    return ++w->calls != w->stop_at;
}

static void scoring_reports_progress_and_can_be_cancelled(void **state)
{
    fixture *f = *state;
    enum { TOKENS = 300 };
    weft_session *s = new_session(f, 512), *plain = new_session(f, 512);
    float nll[TOKENS - 1], want[TOKENS - 1];
    double mean = -1, want_mean = 0, sum = 0;
    OK(weft_session_score(plain, f->ids, TOKENS, NULL, want, &want_mean, NULL));
    for (int i = 0; i < TOKENS - 1; i++)
        sum += want[i];
    assert_true(fabs(sum / (TOKENS - 1) - want_mean) < 1e-6);
    score_watch w = {0};
    weft_score_opts opts = {.progress = watch_score, .progress_user = &w};
    for (int stop = 1; stop <= 3; stop++) {
        for (int i = 0; i < TOKENS - 1; i++)
            nll[i] = 7;
        w = (score_watch){.stop_at = stop};
        assert_int_equal(weft_session_score(s, f->ids, TOKENS, &opts, nll, &mean, NULL), WEFT_E_CANCELLED);
        for (int i = 0; i < TOKENS - 1; i++)
            assert_true(nll[i] == 7);
        assert_true(mean == -1);
        assert_int_equal(weft_session_length(s), 0);
    }
    w = (score_watch){0};
    OK(weft_session_score(s, f->ids, TOKENS, &opts, nll, &mean, NULL));
    assert_int_equal(w.last, TOKENS);
    assert_int_equal(w.total, TOKENS);
    assert_true(w.calls > 2);
    assert_int_equal(weft_session_length(s), TOKENS);
    assert_close(nll, want, TOKENS - 1, 1e-6);
    /* refused arguments change nothing */
    const int32_t outside[2] = {1, VOCAB};
    assert_int_equal(weft_session_score(s, outside, 2, &opts, nll, &mean, NULL), WEFT_E_VALUE);
    assert_int_equal(weft_session_score(s, f->ids, 513, &opts, nll, &mean, NULL), WEFT_E_VALUE);
    assert_int_equal(weft_session_length(s), TOKENS);
    weft_session_destroy(s);
    weft_session_destroy(plain);
}

static void sessions_keep_their_model_alive_and_do_not_share_caches(void **state)
{
    fixture *f = *state;
    weft_model *model = NULL;
    weft_session *a = NULL, *b = NULL;
    float x[VOCAB], y[VOCAB];
    OK(weft_model_load(f->ctx, source_path("models/stories260k/stories260K.F32.gguf"), NULL, &model));
    OK(weft_session_create(model, NULL, &a));
    OK(weft_session_create(model, NULL, &b));
    assert_int_equal(weft_session_capacity(a), 512);
    weft_model_close(model);
    for (int i = 0; i < 10; i++) {
        step(a, f->ids + i, 1, x);
        step(b, f->ids + 10 - i, 1, y);
    }
    OK(weft_session_truncate(b, 0));
    step(b, f->ids, 10, y);
    assert_close(x, y, VOCAB, 1e-4);
    weft_session_destroy(a);
    weft_session_destroy(b);
}

static void decode_steps_leave_no_buffers_behind(void **state)
{
    fixture *f = *state;
    weft_session *a = new_session(f, 400);
    weft_stats before, after;
    float x[VOCAB];
    for (int i = 0; i < 150; i++)
        step(a, f->ids + i, 1, x);
    OK(weft_ctx_stats(f->ctx, &before));
    for (int i = 150; i < 300; i++)
        step(a, f->ids + i, 1, x);
    OK(weft_ctx_stats(f->ctx, &after));
    assert_int_equal(after.buffers_live, before.buffers_live);
    assert_int_equal(after.bytes_live, before.bytes_live);
    assert_int_equal(after.plans_built, before.plans_built);
    assert_int_equal(after.buffers_created, before.buffers_created);
    weft_session_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_one_by_one_give_the_logits_of_one_prompt),
        cmocka_unit_test(all_logits_end_with_those_of_the_last_token),
        cmocka_unit_test(a_prompt_of_several_chunks_equals_its_parts),
        cmocka_unit_test(truncated_tokens_are_forgotten),
        cmocka_unit_test(a_restored_session_continues_as_the_saved_one),
        cmocka_unit_test(states_that_do_not_fit_are_refused_and_change_nothing),
        cmocka_unit_test(f16_caches_work_and_restore_into_f32),
        cmocka_unit_test(a_cancelled_step_leaves_the_session_as_before),
        cmocka_unit_test(a_failed_allocation_leaves_the_session_as_before),
        cmocka_unit_test(wrong_steps_say_the_numbers),
        cmocka_unit_test(sampling_numbers_outside_their_range_are_refused),
        cmocka_unit_test(callbacks_end_and_cancel_a_generation),
        cmocka_unit_test(scoring_reports_progress_and_can_be_cancelled),
        cmocka_unit_test(sessions_keep_their_model_alive_and_do_not_share_caches),
        cmocka_unit_test(decode_steps_leave_no_buffers_behind),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
