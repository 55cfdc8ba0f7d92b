/* test_tune_kept.c - measured choices on disk: a later context knows them and measures nothing, whatever became of the file. */
#include "cache_fixture.h"

#include "tuner.h"

/* One row is the fastest by far, not the usual one. */
static int64_t cost(void *user, const char *label, const wf_cmd *cmd)
{
    (void)user, (void)cmd;
    return strcmp(label, "tile_64x64x16") == 0 ? 10000 : 50000;
}

static weft_ctx *opened(const char *dir)
{
    weft_ctx_opts o = {.device = "null", .cache_dir = dir};
    weft_ctx *ctx;
    if (weft_ctx_open(&o, &ctx) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    wf_null_set_cost(ctx->dev, cost, NULL);
    return ctx;
}

static weft_tensor *product(weft_ctx *ctx, int64_t n)
{
    static float values[256 * 256];
    weft_tensor *x = weft_tensor_from(ctx, WEFT_DTYPE_F32, DIMS(n, n), values);
    return weft_matmul(x, x);
}

/* Tunes a product; whether rows were measured. `ends` by weft_tune_end. */
static bool measures(const char *dir, int64_t n, bool ends)
{
    weft_stats s;
    weft_ctx *ctx = opened(dir);
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *y = product(ctx, n);
    if (ends) {
        assert_int_equal(weft_tune_begin(ctx, NULL), WEFT_OK);
        assert_int_equal(weft_eval(&y, 1), WEFT_OK);
        assert_int_equal(weft_tune_end(ctx, NULL), WEFT_OK);
    } else {
        assert_int_equal(weft_tune(&y, 1, NULL, NULL), WEFT_OK);
    }
    char *text;
    weft_tensor *again = product(ctx, n);
    assert_int_equal(weft_explain(&again, 1, NULL, &text), WEFT_OK);
    assert_non_null(strstr(text, "tile_64x64x16")); /* taken, measured now or before */
    weft_explain_free(text);
    assert_int_equal(weft_ctx_stats(ctx, &s), WEFT_OK);
    weft_scope_end(scope);
    weft_ctx_close(ctx);
    return s.rows_measured > 0;
}

static void a_second_run_measures_nothing(void **state)
{
    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        each_file(remove_any);
        assert_true(measures("", 64, ends));
        assert_true(measures("", 64, ends)); /* nothing is kept unasked */
        assert_true(measures(folder, 64, ends));
        assert_false(measures(folder, 64, ends));
        assert_true(measures(folder, 256, ends)); /* another kind */
        assert_false(measures(folder, 256, ends));
        assert_false(measures(folder, 64, ends)); /* beside it */
    }
    assert_int_equal(lines_logged, 0);
}

static void contexts_add_to_what_others_measured(void **state)
{
    (void)state;
    weft_ctx *first = opened(folder); /* before the other has measured */
    weft_scope *scope = weft_scope_begin(first);
    weft_tensor *y = product(first, 64);
    assert_true(measures(folder, 256, false));
    assert_int_equal(weft_tune(&y, 1, NULL, NULL), WEFT_OK);
    weft_scope_end(scope);
    weft_ctx_close(first);
    assert_false(measures(folder, 64, false));
    assert_false(measures(folder, 256, false));
}

static void with_any_byte_changed_it_measures_again_with_one_line(void **state)
{
    (void)state;
    weft_ctx *ctx = opened(folder);
    weft_scope *scope = weft_scope_begin(ctx);
    weft_tensor *y = product(ctx, 64);
    assert_int_equal(weft_tune(&y, 1, NULL, NULL), WEFT_OK);
    weft_scope_end(scope);
    weft_ctx_close(ctx);
    n_images = 0;
    each_file(take_image);
    int tables = 0;
    for (int f = 0; f < n_images; f++) {
        for (size_t at = 0; at < images[f].n && !memcmp(images[f].bytes + 24, "tune\n", 5); at++) {
            images[f].bytes[at] ^= 0x20;
            put_bytes(images[f].path, images[f].bytes, images[f].n);
            images[f].bytes[at] ^= 0x20;
            lines_logged = 0;
            weft_ctx *other = opened(folder);
            assert_int_equal(other->tuned.generation, 0);
            assert_int_equal(lines_logged, 1);
            weft_ctx_close(other);
        }
        tables += !memcmp(images[f].bytes + 24, "tune\n", 5);
    }
    assert_int_equal(tables, 1);
    assert_true(measures(folder, 64, false));
    lines_logged = 0;
    assert_false(measures(folder, 64, false));
    assert_int_equal(lines_logged, 0);
    free_images();
}

static void tuning_that_is_off_reads_and_writes_nothing(void **state)
{
    (void)state;
    assert_true(measures(folder, 64, false));
    assert_int_equal(setenv("WEFT_TUNE", "off", 1), 0);
    weft_ctx *ctx = opened(folder);
    assert_int_equal(ctx->tuned.generation, 0);
    weft_ctx_close(ctx);
    assert_int_equal(unsetenv("WEFT_TUNE"), 0);
    ctx = opened(folder);
    assert_true(ctx->tuned.generation > 0);
    weft_ctx_close(ctx);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_test_folder, drop_test_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_second_run_measures_nothing), T(contexts_add_to_what_others_measured), T(with_any_byte_changed_it_measures_again_with_one_line),
        T(tuning_that_is_off_reads_and_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
