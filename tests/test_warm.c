/* test_warm.c - weft/warm.h: after warming up, an evaluation makes nothing new; on the null device, or on that of WEFT_TEST_DEVICE. */
#include "device_context.h"

#include "compile.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static weft_ctx *opened(void)
{
    weft_ctx_opts o = test_opts();
    weft_ctx *ctx;
    if (!getenv("WEFT_TEST_DEVICE"))
        o.device = "null";
    if (weft_ctx_open(&o, &ctx) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    return ctx;
}

static bool computes(weft_ctx *ctx)
{
    weft_device_info info;
    assert_int_equal(weft_ctx_device(ctx, &info), WEFT_OK);
    return strcmp(info.kind, "null") != 0;
}

static weft_stats stats_of(weft_ctx *ctx)
{
    weft_stats s;
    assert_int_equal(weft_ctx_stats(ctx, &s), WEFT_OK);
    return s;
}

static weft_tensor *leaf(weft_ctx *ctx)
{
    float v[16 * 24];
    for (int i = 0; i < 16 * 24; i++)
        v[i] = (float)(i % 11) / 4 - 1;
    return weft_tensor_from(ctx, WEFT_DTYPE_F32, DIMS(16, 24), v);
}

/* Four results from several kernels, one of them a row of the kernel table. */
enum { N_OUT = 4 };
static void record(weft_tensor *x, weft_tensor *out[N_OUT])
{
    out[0] = weft_softmax(weft_linear(x, x, NULL), -1);
    out[1] = weft_sum(weft_mul(x, x), (int[]){0}, 1, false);
    out[2] = weft_exp(weft_add(x, x));
    out[3] = weft_cumsum(x, 1);
}

static void check_exp(weft_tensor *t)
{
    float got[16 * 24];
    assert_int_equal(weft_read(t, got, sizeof got), WEFT_OK);
    assert_true(got[4] == 1 && got[0] > 0.1353f && got[0] < 0.1354f); /* exp(0), exp(-2) */
}

static void the_evaluation_makes_nothing_new(void **state)
{
    (void)state;
    weft_ctx *ctx = opened();
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = leaf(ctx), *out[N_OUT];
    record(x, out);
    weft_stats before = stats_of(ctx);
    assert_int_equal(weft_warm_up(out, N_OUT, NULL), WEFT_OK);
    weft_stats warm = stats_of(ctx);
    assert_int_equal(warm.evals, before.evals);
    assert_int_equal(warm.submits, before.submits); /* nothing ran */
    assert_int_equal(warm.plans_built, before.plans_built + 1);
    assert_int_equal(weft_warm_up(out, N_OUT, NULL), WEFT_OK); /* once is enough */
    assert_int_equal(stats_of(ctx).plans_built, warm.plans_built);
    for (int again = 0; again < 2; again++) { /* these tensors, and others recorded the same way */
        assert_int_equal(weft_eval(out, N_OUT), WEFT_OK);
        weft_stats after = stats_of(ctx);
        assert_int_equal(after.pipelines, warm.pipelines);
        assert_int_equal(after.texts_generated, warm.texts_generated);
        assert_int_equal(after.plans_built, warm.plans_built);
        assert_int_equal(after.plans_reused, warm.plans_reused + 1 + (uint64_t)again);
        if (computes(ctx))
            check_exp(out[2]);
        record(x, out);
    }
    assert_int_equal(weft_eval(out, N_OUT), WEFT_OK);
    assert_int_equal(weft_warm_up(out, N_OUT, NULL), WEFT_OK); /* computed already: nothing to do */
    weft_scope_end(scope);
    weft_ctx_close(ctx);
}

typedef struct progress_seen {
    uint64_t calls, done, total, stop_at;
    bool falls;
} progress_seen;

static bool note_progress(void *user, const char *phase, uint64_t done, uint64_t total)
{
    progress_seen *s = user;
    assert_string_equal(phase, "warm");
    s->falls |= done != s->done + 1 || total < s->total || done > total;
    s->calls++;
    s->done = done;
    s->total = total;
    return s->calls != s->stop_at;
}

static void progress_counts_the_pipelines_and_can_stop(void **state)
{
    (void)state;
    weft_ctx *ctx = opened();
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = leaf(ctx), *out[N_OUT];
    record(x, out);
    progress_seen seen = {.stop_at = 2};
    const weft_warm_opts o = {.progress = note_progress, .progress_user = &seen};
    weft_device_info info;
    assert_int_equal(weft_ctx_device(ctx, &info), WEFT_OK);
    bool shaders = strcmp(info.kind, "cpu") != 0;
    assert_int_equal(weft_warm_up(out, N_OUT, &o), shaders ? WEFT_E_CANCELLED : WEFT_OK);
    if (shaders) {
        assert_int_equal(seen.done, 2);
        assert_true(seen.total >= 4);
        progress_seen rest = {0};
        const weft_warm_opts more = {.progress = note_progress, .progress_user = &rest};
        weft_cancel(ctx);
        assert_int_equal(weft_warm_up(out, N_OUT, &more), WEFT_E_CANCELLED); /* takes the request */
        assert_int_equal(rest.calls, 0);
        assert_int_equal(weft_warm_up(out, N_OUT, &more), WEFT_OK);
        assert_int_equal(rest.done, rest.total);
        assert_int_equal(rest.total + 2, seen.total); /* the two that were made stay */
        assert_false(seen.falls || rest.falls);
    }
    weft_scope_end(scope);
    weft_ctx_close(ctx);
}

static void evaluations_go_on_meanwhile(void **state)
{
    (void)state;
    for (int round = 0; round < 8; round++) {
        weft_ctx *ctx = opened();
        weft_scope *scope = weft_scope_begin(ctx);
        weft_tensor *x = leaf(ctx), *out[N_OUT], *again[N_OUT];
        weft_warm *warm;
        record(x, out);
        record(x, again);
        assert_int_equal(weft_warm_begin(out, N_OUT, NULL, &warm), WEFT_OK);
        for (int i = 0; i < 2 * round; i++) { /* other graphs, and parts of this one */
            weft_tensor *y = weft_add(x, weft_scalar_f32(ctx, (float)i)), *z = again[i % N_OUT];
            assert_int_equal(weft_eval(&y, 1), WEFT_OK);
            assert_int_equal(weft_eval(&z, 1), WEFT_OK);
        }
        assert_int_equal(weft_warm_wait(warm, 60000), WEFT_OK);
        weft_stats s = stats_of(ctx);
        assert_int_equal(weft_eval(out, N_OUT), WEFT_OK);
        assert_int_equal(stats_of(ctx).pipelines, s.pipelines);
        if (computes(ctx))
            check_exp(out[2]);
        assert_int_equal(weft_warm_wait(warm, 0), WEFT_OK); /* may be asked again */
        weft_warm_end(warm);
        weft_scope_end(scope);
        weft_ctx_close(ctx);
    }
}

static atomic_int turnstile;
static bool wait_at_the_first(void *user, const char *phase, uint64_t done, uint64_t total)
{
    (void)user, (void)phase, (void)total;
    for (int i = 0; done == 1 && atomic_load(&turnstile) == 0 && i < 10000; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return true;
}

static void it_can_be_ended_early_and_outlive_its_context(void **state)
{
    (void)state;
    for (int close_first = 0; close_first < 2; close_first++) {
        weft_ctx *ctx = opened();
        weft_scope *scope = weft_scope_begin(ctx);
        weft_tensor *out[N_OUT];
        weft_warm *warm;
        const weft_warm_opts o = {.progress = wait_at_the_first};
        record(leaf(ctx), out);
        atomic_store(&turnstile, 0);
        weft_device_info info;
        assert_int_equal(weft_ctx_device(ctx, &info), WEFT_OK);
        assert_int_equal(weft_warm_begin(out, N_OUT, &o, &warm), WEFT_OK);
        if (strcmp(info.kind, "cpu") != 0)
            assert_int_equal(weft_warm_wait(warm, 20), WEFT_E_TIMEOUT);
        weft_scope_end(scope); /* it keeps the tensors */
        if (close_first)
            weft_ctx_close(ctx);
        atomic_store(&turnstile, 1);
        if (close_first && strcmp(info.kind, "cpu") != 0)
            assert_int_equal(weft_warm_wait(warm, 60000), WEFT_E_CONTEXT);
        weft_warm_end(warm);
        if (!close_first)
            weft_ctx_close(ctx);
    }
}

static void mistakes_are_errors(void **state)
{
    (void)state;
    weft_ctx *ctx = opened(), *other = opened();
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *x = leaf(ctx), *bad = weft_add(x, weft_reshape(leaf(ctx), DIMS(24, 16))), *two[2] = {x, leaf(other)}, *none = NULL;
    weft_warm *warm = NULL;
    assert_int_equal(weft_warm_up(NULL, 1, NULL), WEFT_E_CONTEXT);
    assert_int_equal(weft_warm_up(&x, 0, NULL), WEFT_E_CONTEXT);
    assert_int_equal(weft_warm_up(&none, 1, NULL), WEFT_E_CONTEXT);
    assert_int_equal(weft_warm_up(two, 2, NULL), WEFT_E_CONTEXT);
    assert_int_equal(weft_warm_up(&bad, 1, NULL), WEFT_E_SHAPE);
    assert_int_equal(weft_warm_begin(&bad, 1, NULL, &warm), WEFT_E_SHAPE);
    assert_int_equal(weft_warm_begin(&x, 1, NULL, NULL), WEFT_E_CONTEXT);
    assert_null(warm);
    assert_int_equal(weft_warm_wait(NULL, 0), WEFT_E_CONTEXT);
    weft_warm_end(NULL);
    weft_tensor_release(two[1]);
    weft_scope_end(scope);
    weft_ctx_close(other);
    weft_ctx_close(ctx);
}

static void a_failed_allocation_leaks_nothing_and_can_be_tried_again(void **state)
{
    (void)state;
    bool done = false;
    uint64_t live = 0;
    for (uint64_t n = 1; !done; n += n < 40 ? 1 : 23) {
        weft_ctx *ctx = opened();
        weft_scope *scope = weft_scope_begin(ctx);
        weft_tensor *out[N_OUT];
        record(leaf(ctx), out);
        wf_alloc_fail_nth(n);
        weft_status st = weft_warm_up(out, N_OUT, NULL);
        wf_alloc_fail_nth(0);
        done = st == WEFT_OK && n > 400;
        if (st != WEFT_OK)
            assert_int_equal(st, WEFT_E_OOM);
        assert_int_equal(weft_warm_up(out, N_OUT, NULL), WEFT_OK);
        weft_stats s = stats_of(ctx);
        assert_int_equal(weft_eval(out, N_OUT), WEFT_OK);
        assert_int_equal(stats_of(ctx).pipelines, s.pipelines);
        weft_scope_end(scope);
        weft_ctx_close(ctx);
        live = live ? live : wf_alloc_live(); /* what the first context left for the process */
        assert_int_equal(wf_alloc_live(), live);
    }
}

/* ---- a device that refuses ---- */

static weft_status answer;
static int asked;
static weft_status refuse(wf_device *d, uint32_t id, const wf_program_desc *desc)
{
    (void)d, (void)id, (void)desc;
    asked++;
    return answer == WEFT_OK ? WEFT_OK : wf_fail(answer, "refused");
}
static void destroy_nothing(wf_device *d, uint32_t id) { (void)d, (void)id; }

static void a_refused_row_is_passed_over_and_a_refused_kernel_is_an_error(void **state)
{
    (void)state;
    const wf_device_vt vt = {.program_create = refuse, .program_destroy = destroy_nothing};
    wf_device dev = {.vt = &vt};
    uint32_t next = 0, id;
    const weft_status answers[] = {WEFT_E_INTERNAL, WEFT_E_UNSUPPORTED, WEFT_E_DEVICE_LOST};
    for (size_t i = 0; i < WF_COUNT(answers); i++)
        for (int is_row = 0; is_row < 2; is_row++) {
            wf_pending pending = {0};
            wf_programs p = {.dev = &dev, .next_id = &next, .pending = &pending};
            const wf_program_desc desc = {.kind = WF_PROGRAM_WGSL, .label = "k", .row = is_row ? "k" : NULL, .wgsl = "fn main() {}"};
            bool passed = is_row && answers[i] != WEFT_E_DEVICE_LOST;
            asked = 0;
            assert_int_equal(wf_programs_get(&p, &desc, "key", 3, &id), WEFT_OK);
            assert_int_equal(wf_programs_get(&p, &desc, "key", 3, &id), WEFT_OK);
            assert_int_equal(asked, 0); /* put off */
            assert_int_equal(pending.n, 1);
            p.pending = NULL;
            answer = answers[i];
            assert_int_equal(wf_programs_make(&p, &pending.item[0]), passed ? WEFT_OK : answers[i]);
            answer = WEFT_OK;
            assert_int_equal(wf_programs_get(&p, &desc, "key", 3, &id), passed ? WEFT_E_UNSUPPORTED : WEFT_OK);
            assert_int_equal(asked, passed ? 1 : 2);
            assert_int_equal(wf_programs_make(&p, &pending.item[0]), WEFT_OK); /* it is known now */
            assert_int_equal(asked, passed ? 1 : 2);
            wf_pending_clear(&pending);
            wf_programs_free(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_evaluation_makes_nothing_new), cmocka_unit_test(progress_counts_the_pipelines_and_can_stop),
        cmocka_unit_test(evaluations_go_on_meanwhile), cmocka_unit_test(it_can_be_ended_early_and_outlive_its_context),
        cmocka_unit_test(mistakes_are_errors), cmocka_unit_test(a_failed_allocation_leaks_nothing_and_can_be_tried_again),
        cmocka_unit_test(a_refused_row_is_passed_over_and_a_refused_kernel_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
