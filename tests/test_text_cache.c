/* test_text_cache.c - shader texts kept between processes: on the null device, or on that of WEFT_TEST_DEVICE where it takes
 * WGSL; then results are compared too. Run with "child" it is the second process. */
#include "cache_fixture.h"

#include "weft/weft.h"

static const char *program;

static const char *spec(void)
{
    const char *device = getenv("WEFT_TEST_DEVICE");
    return device && strncmp(device, "webgpu", 6) == 0 ? device : "null";
}

static bool computes(void) { return strcmp(spec(), "null") != 0; }

static weft_ctx *opened(const char *dir)
{
    weft_ctx_opts o = {.device = spec(), .cache_dir = dir};
    weft_ctx *ctx = NULL;
    if (weft_ctx_open(&o, &ctx) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    return ctx;
}

static weft_tensor *ramp(weft_ctx *ctx, int64_t rows, int64_t cols)
{
    float values[64 * 64];
    for (int64_t i = 0; i < rows * cols; i++)
        values[i] = (float)(i % 13) / 8 - 0.5f;
    return weft_tensor_from(ctx, WEFT_DTYPE_F32, DIMS(rows, cols), values);
}

/* One generated kernel. */
static weft_tensor *small_graph(weft_ctx *ctx)
{
    weft_tensor *x = ramp(ctx, 8, 16);
    return weft_add(weft_mul(x, x), ramp(ctx, 1, 16));
}

/* Generated kernels, a product with and without an epilogue, attention, a sort, a scan, a top-k: rows of every kind. */
enum { N_OUT = 6 };
static void large_graph(weft_ctx *ctx, weft_tensor *out[N_OUT])
{
    weft_tensor *x = ramp(ctx, 32, 48), *w = ramp(ctx, 24, 48), *q = weft_reshape(ramp(ctx, 16, 64), DIMS(1, 2, 16, 32));
    out[0] = weft_softmax(weft_linear(x, w, &(weft_linear_opts){.activation = WEFT_ACT_GELU}), -1);
    out[1] = weft_matmul(x, weft_transpose(w, 0, 1));
    out[2] = weft_scaled_dot_product_attention(q, q, q, NULL);
    out[3] = weft_cumsum(x, 1);
    out[4] = weft_sum(small_graph(ctx), NULL, 0, false);
    out[5] = weft_sort(x, 1, false, NULL);
}

static void evaluate(weft_tensor *const *t, int n)
{
    if (weft_eval(t, n) != WEFT_OK)
        fail_msg("%s", weft_error_message());
}

static weft_stats stats_of(weft_ctx *ctx)
{
    weft_stats s;
    assert_int_equal(weft_ctx_stats(ctx, &s), WEFT_OK);
    return s;
}

/* A number that the results of the large graph decide, and the counters. */
static void run_large(const char *dir, weft_stats *s, double *sum)
{
    float values[48 * 64];
    weft_ctx *ctx = opened(dir);
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *out[N_OUT];
    large_graph(ctx, out);
    evaluate(out, N_OUT);
    *sum = 0;
    for (int i = 0; i < N_OUT; i++) {
        size_t n = (size_t)weft_tensor_numel(out[i]);
        assert_true(n <= sizeof values / sizeof *values);
        assert_int_equal(weft_read(out[i], values, n * sizeof *values), WEFT_OK);
        for (size_t j = 0; j < n; j++)
            *sum += (double)values[j] * (double)(j % 7 + 1);
    }
    weft_scope_end(scope);
    *s = stats_of(ctx);
    weft_ctx_close(ctx);
}

typedef struct report {
    unsigned long long generated, found, refused, pipelines;
    double sum;
} report;

static FILE *start_child(void)
{
    char command[1024];
    snprintf(command, sizeof command, "'%s' child '%s'", program, folder);
    return popen(command, "r");
}

static report end_child(FILE *child)
{
    report r;
    assert_non_null(child);
    assert_int_equal(fscanf(child, "%llu %llu %llu %llu %la", &r.generated, &r.found, &r.refused, &r.pipelines, &r.sum), 5);
    assert_int_equal(pclose(child), 0);
    return r;
}

static int child(const char *dir)
{
    weft_stats s;
    double sum;
    run_large(dir, &s, &sum);
    printf("%llu %llu %llu %llu %la\n", (unsigned long long)s.texts_generated, (unsigned long long)s.cache_found,
           (unsigned long long)s.cache_refused, (unsigned long long)s.pipelines, sum);
    return 0;
}

static void a_second_process_generates_no_text(void **state)
{
    (void)state;
    weft_stats s;
    double sum;
    run_large("", &s, &sum);
    report first = end_child(start_child()), second = end_child(start_child());
    assert_int_equal(s.texts_generated, first.generated);
    assert_true(first.generated >= 6);
    assert_int_equal(first.found, 0);
    assert_int_equal(second.generated, 0);
    assert_int_equal(second.found, first.generated);
    assert_int_equal(second.pipelines, first.pipelines);
    assert_int_equal(first.refused + second.refused, 0);
    assert_true(first.sum == sum && second.sum == sum); /* the same bits */
    print_message("%llu texts, %llu pipelines\n", first.generated, first.pipelines);
}

static void processes_share_a_folder_at_once(void **state)
{
    (void)state;
    enum { N = 4 };
    FILE *children[N];
    report r[N];
    for (int i = 0; i < N; i++)
        children[i] = start_child();
    for (int i = 0; i < N; i++)
        r[i] = end_child(children[i]);
    for (int i = 0; i < N; i++) {
        assert_int_equal(r[i].refused, 0);
        assert_int_equal(r[i].generated + r[i].found, r[0].generated + r[0].found);
        assert_true(r[i].sum == r[0].sum);
    }
    assert_int_equal(end_child(start_child()).generated, 0);
}

/* The text of the small graph's kernel, and on a device that computes its result. */
static void run_small(weft_ctx *ctx, char **text, float result[128])
{
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *y = small_graph(ctx);
    const weft_explain_opts o = {.wgsl = true};
    assert_int_equal(weft_explain(&y, 1, &o, text), WEFT_OK);
    evaluate(&y, 1);
    assert_int_equal(weft_read(y, result, 128 * sizeof *result), WEFT_OK);
    weft_scope_end(scope);
}

/* Each byte of the folder; on devices that compile what they get every 17th, so that it takes seconds, and all with
 * WEFT_TEST_LONG=1. */
static void with_any_byte_changed_it_runs_right_with_one_line(void **state)
{
    (void)state;
    char *want, *got;
    float right[128], result[128];
    weft_ctx *ctx = opened(folder);
    run_small(ctx, &want, right);
    assert_int_equal(stats_of(ctx).texts_generated, 1); /* to explain; then it is found to run */
    weft_ctx_close(ctx);
    n_images = 0;
    each_file(take_image);
    assert_int_equal(n_images, 1);
    file_image *f = &images[0];
    size_t step = computes() && !getenv("WEFT_TEST_LONG") ? 17 : 1, tried = 0;
    for (size_t at = 0; at < f->n; at += step, tried++) {
        f->bytes[at] ^= 0x15;
        put_bytes(f->path, f->bytes, f->n);
        f->bytes[at] ^= 0x15;
        lines_logged = 0;
        ctx = opened(folder);
        run_small(ctx, &got, result);
        weft_stats s = stats_of(ctx);
        if (lines_logged != 1 || s.texts_generated != 1 || s.cache_refused != 1 || strcmp(got, want) != 0 || memcmp(result, right, sizeof right) != 0)
            fail_msg("byte %zu of %zu: %d lines, %llu texts, %llu refused", at, f->n, lines_logged, (unsigned long long)s.texts_generated,
                     (unsigned long long)s.cache_refused);
        weft_explain_free(got);
        weft_ctx_close(ctx);
    }
    lines_logged = 0;
    ctx = opened(folder); /* the last one was written anew */
    run_small(ctx, &got, result);
    assert_int_equal(stats_of(ctx).texts_generated, 0);
    assert_string_equal(got, want);
    assert_int_equal(lines_logged, 0);
    weft_explain_free(got);
    weft_explain_free(want);
    weft_ctx_close(ctx);
    print_message("%zu of %zu bytes\n", tried, f->n);
    free_images();
}

static void nothing_is_kept_unasked(void **state)
{
    (void)state;
    assert_int_equal(setenv("WEFT_CACHE_DIR", folder, 1), 0);
    weft_ctx *ctx = opened(""); /* "" is no, whatever the environment says */
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *y = small_graph(ctx);
    evaluate(&y, 1);
    assert_int_equal(each_file(NULL), 0);
    weft_scope_end(scope);
    weft_ctx_close(ctx);
    ctx = opened(NULL);
    scope = weft_scope_begin(ctx);
    y = small_graph(ctx);
    evaluate(&y, 1);
    assert_int_equal(each_file(NULL), 1);
    assert_int_equal(stats_of(ctx).cache_stored, 1);
    weft_scope_end(scope);
    weft_ctx_close(ctx);
    assert_int_equal(unsetenv("WEFT_CACHE_DIR"), 0);
    each_file(remove_any);
    ctx = opened(NULL);
    scope = weft_scope_begin(ctx);
    y = small_graph(ctx);
    evaluate(&y, 1);
    assert_int_equal(each_file(NULL), 0);
    weft_scope_end(scope);
    weft_ctx_close(ctx);
}

/* A lowered limit changes kernels; the texts of one are not those of the other. */
static void another_limit_has_texts_of_its_own(void **state)
{
    (void)state;
    weft_stats s;
    double sum;
    const char *given = getenv("WEFT_LIMITS");
    char before[200];
    snprintf(before, sizeof before, "%s", given ? given : "");
    run_large(folder, &s, &sum);
    uint64_t all = s.texts_generated;
    assert_int_equal(setenv("WEFT_LIMITS", "invocations=128", 1), 0);
    run_large(folder, &s, &sum);
    assert_int_equal(s.cache_found, 0);
    assert_true(s.texts_generated >= all / 2);
    assert_int_equal(given ? setenv("WEFT_LIMITS", before, 1) : unsetenv("WEFT_LIMITS"), 0);
    run_large(folder, &s, &sum);
    assert_int_equal(s.texts_generated, 0);
}

static void the_texts_of_a_folder_that_cannot_be_written_are_made(void **state)
{
    (void)state;
    char below[128];
    weft_stats s;
    double sum, want;
    run_large("", &s, &want);
    uint64_t all = s.texts_generated;
    snprintf(below, sizeof below, "%.60s/file", folder);
    put_bytes(below, "x", 1);
    snprintf(below, sizeof below, "%.60s/file/cache", folder);
    lines_logged = 0;
    run_large(below, &s, &sum);
    assert_int_equal(s.texts_generated, all);
    assert_true(sum == want);
    assert_int_equal(lines_logged, 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_test_folder, drop_test_folder)
int main(int argc, char **argv)
{
    program = argv[0];
    if (argc == 3)
        return child(argv[2]);
    const struct CMUnitTest tests[] = {
        T(a_second_process_generates_no_text), T(processes_share_a_folder_at_once), T(with_any_byte_changed_it_runs_right_with_one_line),
        T(nothing_is_kept_unasked), T(another_limit_has_texts_of_its_own), T(the_texts_of_a_folder_that_cannot_be_written_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
