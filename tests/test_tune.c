/* test_tune.c - measured choices: on the null device with a clock that the test sets, and on the device WEFT_TEST_DEVICE names. */
#include "device_context.h"

#include <math.h>
#include <stdio.h>

#include "../src/runtime/tuner.h"

static weft_ctx *ctx;

/* ---- the null device ---- */

/* What each row costs; a row that is not named costs 50 us. */
typedef struct price {
    const char *row;
    int64_t ns;
} price;
static const price *prices;
static uint64_t n_asked;

static int64_t cost(void *user, const char *label, const wf_cmd *cmd)
{
    (void)user;
    n_asked += cmd != NULL;
    for (const price *p = prices; p && p->row; p++)
        if (strcmp(p->row, label) == 0)
            return p->ns;
    return 50000;
}

/* A reduction's label is its operation: its rows differ in their work groups. */
static int64_t fewest_groups(void *user, const char *label, const wf_cmd *cmd)
{
    (void)user, (void)label;
    return cmd ? 1000 * (int64_t)cmd->grid[0] * cmd->grid[1] : 0;
}

static void open_null(const price *p)
{
    weft_ctx_opts o = {.device = "null"};
    if (weft_ctx_open(&o, &ctx) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    prices = p;
    n_asked = 0;
    wf_null_set_cost(ctx->dev, cost, NULL);
}

static weft_tensor *leaf(int64_t rows, int64_t cols)
{
    float *ones = malloc((size_t)(rows * cols) * sizeof *ones);
    for (int64_t i = 0; i < rows * cols; i++)
        ones[i] = (float)(i % 7) - 3;
    weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_F32, DIMS(rows, cols), ones);
    free(ones);
    return t;
}

static weft_tensor *product(int64_t m, int64_t k, int64_t n) { return weft_relu(weft_matmul(leaf(m, k), leaf(k, n))); }

static char *tuned(weft_tensor *t, bool again)
{
    const weft_tune_opts o = {.format = WEFT_TUNE_JSON, .again = again};
    char *json = NULL;
    if (weft_tune(&t, 1, &o, &json) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    return json;
}

static char *explained(weft_tensor *t)
{
    char *text = NULL;
    if (weft_explain(&t, 1, NULL, &text) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    return text;
}

static void has(const char *text, const char *word)
{
    if (!strstr(text, word))
        fail_msg("\"%s\" is not in: %s", word, text);
}

static void tells(char *text, const char *word)
{
    has(text, word);
    weft_tune_free(text);
}

static void the_faster_row_wins(void **state)
{
    (void)state;
    static const price p[] = {{"tile_64x64x16", 12100}, {"tile_32x32x16", 19000}, {NULL, 0}};
    open_null(p);
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *y = product(64, 64, 64);
    char *before = explained(y);
    has(before, "tile_32x32x16"); /* what is taken without measuring */
    assert_null(strstr(before, "measuring"));
    weft_explain_free(before);
    tells(tuned(y, false), "\"row\": \"tile_64x64x16\", \"usual\": \"tile_32x32x16\"");
    char *after = explained(y);
    has(after, "tile_64x64x16");
    has(after, "chosen by measuring: 12.1 us against 19.0 us of row tile_32x32x16");
    weft_explain_free(after);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

/* The choice is in plans that are made later, and plans from before are not taken. */
static void plans_made_later_take_it(void **state)
{
    (void)state;
    static const price p[] = {{"tile_64x64x16", 10}, {NULL, 0}};
    open_null(p);
    weft_stats a, b, c;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = weft_keep(leaf(64, 64)), *y = weft_matmul(x, x), *z = weft_matmul(x, x), *w = weft_matmul(x, x);
    assert_int_equal(weft_eval(&y, 1), WEFT_OK);
    weft_ctx_stats(ctx, &a);
    weft_tune_free(tuned(z, false));
    assert_int_equal(weft_eval(&z, 1), WEFT_OK);
    weft_ctx_stats(ctx, &b);
    assert_int_equal(b.plans_built, a.plans_built + 1);
    assert_true(b.rows_measured > a.rows_measured);
    assert_int_equal(weft_eval(&w, 1), WEFT_OK);
    weft_ctx_stats(ctx, &c);
    assert_int_equal(c.plans_built, b.plans_built);
    weft_tensor_release(x);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void two_shapes_share_a_bucket(void **state)
{
    (void)state;
    static const price p[] = {{"tile_64x64x16", 10}, {NULL, 0}};
    open_null(p);
    weft_stats a, b;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tune_free(tuned(product(100, 64, 200), false));
    weft_tensor *same = product(120, 48, 132), *next = product(129, 64, 200), *odd = product(100, 63, 200);
    char *text = explained(same);
    has(text, "chosen by measuring");
    weft_explain_free(text);
    weft_ctx_stats(ctx, &a);
    tells(tuned(same, false), "\"known\": true");
    weft_ctx_stats(ctx, &b);
    assert_int_equal(a.rows_measured, b.rows_measured);
    weft_tensor *others[] = {next, odd}; /* the next power of two; a length that no four divide */
    for (int i = 0; i < 2; i++) {
        text = explained(others[i]);
        assert_null(strstr(text, "measuring"));
        weft_explain_free(text);
        tells(tuned(others[i], false), "\"known\": false");
    }
    weft_ctx_stats(ctx, &a);
    tells(tuned(same, true), "\"known\": false"); /* again, as it was asked */
    weft_ctx_stats(ctx, &b);
    assert_true(b.rows_measured > a.rows_measured);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void a_failing_row_is_skipped(void **state)
{
    (void)state;
    static const price p[] = {{"tile_64x64x16", WF_NULL_REFUSED}, {"tile_128x64x16", WF_NULL_FAILS}, {"plain", 20}, {NULL, 0}};
    open_null(p);
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *y = product(64, 64, 64);
    char *json = tuned(y, false);
    has(json, "\"row\": \"plain\", \"usual\"");
    has(json, "{\"row\": \"tile_64x64x16\", \"skipped\": \"");
    has(json, "{\"row\": \"tile_128x64x16\", \"skipped\": \"null: \\\"tile_128x64x16\\\" fails\"}");
    weft_tune_free(json);
    assert_int_equal(weft_eval(&y, 1), WEFT_OK);
    /* The winner stops to compile: the usual row stands in. */
    static const price q[] = {{"plain", WF_NULL_REFUSED}, {NULL, 0}};
    wf_tune_entry e = *wf_tune_find(&ctx->tuned, &ctx->tuned.entries[0].key);
    weft_tensor *z = weft_exp(weft_matmul(leaf(64, 64), leaf(64, 64)));
    prices = q;
    assert_string_equal(e.row, "plain");
    assert_int_equal(weft_eval(&z, 1), WEFT_OK);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

/* All rows at one price: nothing moves. 2 % are no reason either, 4 % are. */
static void equal_rows_leave_the_usual_one(void **state)
{
    (void)state;
    static const price rest[] = {{NULL, 0}};
    static price few[] = {{"tile_64x64x16", 49000}, {NULL, 0}};
    open_null(rest);
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *y = product(64, 64, 64);
    tells(tuned(y, true), "\"row\": \"tile_32x32x16\", \"usual\": \"tile_32x32x16\"");
    prices = few;
    tells(tuned(y, true), "\"row\": \"tile_32x32x16\", \"usual\"");
    few[0].ns = 48000;
    tells(tuned(y, true), "\"row\": \"tile_64x64x16\", \"usual\"");
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void reductions_have_rows(void **state)
{
    (void)state;
    open_null(NULL);
    wf_null_set_cost(ctx->dev, fewest_groups, NULL);
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *y = weft_softmax(leaf(2000, 300), 1);
    char *text = explained(y);
    has(text, "group ");
    weft_explain_free(text);
    tells(tuned(y, false), "\"row\": \"thread\", \"usual\": \"group\", \"rows\": [{\"row\": \"group\", \"us\": 2000.000}, {\"row\": \"thread\", \"us\": 8.000}, {\"row\": \"lanes\", \"us\": 250.000}]");
    text = explained(y);
    has(text, "chosen by measuring: 8.0 us against 2000.0 us of row group");
    weft_explain_free(text);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static bool stop_at_second(void *user, const weft_tune_progress *p)
{
    int *calls = user;
    assert_true(p->total == 3 && p->done == *calls && strstr(p->shape, "f32") && (!strcmp(p->operation, "matmul") || !strcmp(p->operation, "reduce")));
    return ++*calls < 2;
}

static void cancelling_and_budgets(void **state)
{
    (void)state;
    static const price slow[] = {{NULL, 0}};
    open_null(slow);
    int calls = 0;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *y = weft_sum(weft_matmul(product(64, 64, 64), leaf(64, 300)), (int[]){1}, 1, false);
    weft_tune_opts o = {.format = WEFT_TUNE_JSON, .progress = stop_at_second, .user = &calls};
    char *text = NULL;
    assert_int_equal(weft_tune(&y, 1, &o, &text), WEFT_E_CANCELLED);
    assert_null(text);
    assert_int_equal(ctx->tuned.n, 1); /* the first is kept */
    weft_cancel(ctx);
    assert_int_equal(weft_tune(&y, 1, NULL, &text), WEFT_E_CANCELLED);
    o = (weft_tune_opts){.format = WEFT_TUNE_JSON, .budget_s = 1e-6}; /* less than one row costs: one more is begun */
    assert_int_equal(weft_tune(&y, 1, &o, &text), WEFT_OK);
    has(text, "\"complete\": false");
    weft_tune_free(text);
    assert_int_equal(ctx->tuned.n, 2);
    assert_int_equal(weft_tune(&y, 1, NULL, &text), WEFT_OK);
    has(text, "3 kinds of kernels with a choice on null");
    has(text, "taken without measuring");
    weft_tune_free(text);
    o = (weft_tune_opts){.budget_s = NAN};
    assert_int_equal(weft_tune(&y, 1, &o, NULL), WEFT_E_VALUE);
    o = (weft_tune_opts){.repeats = -1};
    assert_int_equal(weft_tune(&y, 1, &o, NULL), WEFT_E_VALUE);
    o = (weft_tune_opts){.format = (weft_tune_format)9};
    assert_int_equal(weft_tune(&y, 1, &o, NULL), WEFT_E_VALUE);
    assert_int_equal(weft_tune(NULL, 0, NULL, NULL), WEFT_E_CONTEXT);
    weft_tensor *bad = weft_matmul(leaf(2, 3), leaf(2, 3));
    assert_int_equal(weft_tune(&bad, 1, NULL, NULL), WEFT_E_SHAPE);
    assert_int_equal(weft_tune_end(ctx, NULL), WEFT_E_VALUE);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void between_begin_and_end(void **state)
{
    (void)state;
    static const price p[] = {{"tile_64x64x16", 10}, {NULL, 0}};
    open_null(p);
    weft_scope *s = weft_scope_begin(ctx);
    char *text = NULL;
    assert_int_equal(weft_tune_begin(ctx, NULL), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        weft_tensor *y = product(64, 64, 64);
        assert_int_equal(weft_eval(&y, 1), WEFT_OK);
    }
    assert_int_equal(weft_tune_end(ctx, &text), WEFT_OK);
    has(text, "2 in the graph");
    has(text, "* tile_64x64x16");
    weft_tune_free(text);
    assert_int_equal(weft_tune_begin(ctx, NULL), WEFT_OK); /* closing ends it */
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void off_leaves_choices_out(void **state)
{
    (void)state;
    static const price p[] = {{"tile_64x64x16", 10}, {NULL, 0}};
    setenv("WEFT_TUNE", "off", 1);
    open_null(p);
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *y = product(64, 64, 64);
    weft_tune_free(tuned(y, false));
    char *text = explained(y);
    has(text, "tile_32x32x16");
    weft_explain_free(text);
    weft_scope_end(s);
    weft_ctx_close(ctx);
    setenv("WEFT_TUNE", "maybe", 1);
    weft_ctx_opts o = {.device = "null"};
    assert_int_equal(weft_ctx_open(&o, &ctx), WEFT_E_VALUE);
    unsetenv("WEFT_TUNE");
}

/* ---- the table as bytes ---- */

static uint8_t *saved(size_t *n)
{
    assert_int_equal(wf_tune_save(ctx, NULL, 0, n), WEFT_OK);
    uint8_t *bytes = malloc(*n);
    assert_int_equal(wf_tune_save(ctx, bytes, *n - 1, n), WEFT_E_VALUE);
    assert_int_equal(wf_tune_save(ctx, bytes, *n, n), WEFT_OK);
    return bytes;
}

static void the_table_survives_as_bytes(void **state)
{
    (void)state;
    static const price p[] = {{"tile_64x64x16", 10}, {NULL, 0}};
    weft_stats st;
    size_t n, m;
    open_null(p);
    weft_scope *s = weft_scope_begin(ctx);
    weft_tune_free(tuned(product(64, 64, 64), false));
    weft_tune_free(tuned(weft_sum(leaf(70, 700), (int[]){1}, 1, false), false));
    uint8_t *bytes = saved(&n), *again;
    weft_scope_end(s);
    weft_ctx_close(ctx);
    open_null(p);
    s = weft_scope_begin(ctx);
    assert_int_equal(wf_tune_load(ctx, bytes, n), WEFT_OK);
    assert_int_equal(ctx->tuned.n, 2);
    again = saved(&m);
    assert_true(m == n && memcmp(again, bytes, n) == 0);
    char *text = explained(product(64, 64, 64));
    has(text, "chosen by measuring");
    weft_explain_free(text);
    tells(tuned(product(64, 64, 64), false), "\"known\": true");
    weft_ctx_stats(ctx, &st);
    assert_int_equal(st.rows_measured, 0);
    weft_scope_end(s);
    weft_ctx_close(ctx);
    /* Another device's. */
    weft_ctx_opts o = {.device = "null", .max_workgroup_bytes = 8192};
    assert_int_equal(weft_ctx_open(&o, &ctx), WEFT_OK);
    assert_int_equal(wf_tune_load(ctx, bytes, n), WEFT_E_FORMAT);
    has(weft_error_message(), "another device");
    weft_ctx_close(ctx);
    free(bytes);
    free(again);
}

static void put_hash(uint8_t *bytes, size_t n)
{
    wf_hash128 h = wf_hash(bytes, n - 16, 1);
    for (int i = 0; i < 8; i++) {
        bytes[n - 16 + (size_t)i] = (uint8_t)(h.lo >> (8 * i));
        bytes[n - 8 + (size_t)i] = (uint8_t)(h.hi >> (8 * i));
    }
}

/* Each byte flipped, each length cut: refused; and with the checksum put right: refused, or entries that are valid. */
static void damaged_bytes_are_refused(void **state)
{
    (void)state;
    static const price p[] = {{"tile_64x64x16", 10}, {NULL, 0}};
    size_t n;
    open_null(p);
    weft_scope *s = weft_scope_begin(ctx);
    weft_tune_free(tuned(product(64, 64, 64), false));
    uint8_t *bytes = saved(&n), *copy = malloc(n);
    weft_scope_end(s);
    weft_ctx_close(ctx);
    open_null(p);
    size_t valid = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(copy, bytes, n);
        copy[i] ^= 0x55;
        assert_int_equal(wf_tune_load(ctx, copy, n), WEFT_E_FORMAT);
        assert_int_equal(wf_tune_load(ctx, bytes, i), WEFT_E_FORMAT);
        assert_int_equal(ctx->tuned.n, 0);
        put_hash(copy, n);
        if (i >= n - 16 || wf_tune_load(ctx, copy, n) != WEFT_OK)
            continue;
        valid++;
        assert_int_equal(ctx->tuned.n, 1);
        assert_true(wf_tune_entry_valid(&ctx->tuned.entries[0]));
        wf_tune_table_free(&ctx->tuned);
    }
    assert_true(valid > 0 && valid < 12 + 16 + 2 * WF_ROW_NAME); /* times, buckets, what follows a name's end */
    weft_ctx_close(ctx);
    free(bytes);
    free(copy);
}

/* ---- WEFT_KERNEL ---- */

static void unknown_names_fail_at_open(void **state)
{
    (void)state;
    static const struct { const char *env, *says; } cases[] = {
        {"matmul", "known operations: matmul linear"}, {"mutmal:plain", "known operations"}, {"matmul:nonesuch", "known: matvec_sg"},
        {"sdpa:plain,matmul:", "names no row of matmul"}, {"reduce:fast", "known: thread group lanes"}, {"matmul:plain,,", "is not op:row"},
        {"qlinear:zip", "on the CPU linear_q8_0"}};
    weft_ctx_opts o = {.device = "null"};
    for (size_t i = 0; i < WF_COUNT(cases); i++) {
        setenv("WEFT_KERNEL", cases[i].env, 1);
        assert_int_equal(weft_ctx_open(&o, &ctx), WEFT_E_VALUE);
        has(weft_error_message(), cases[i].says);
    }
    setenv("WEFT_KERNEL", "matmul:plain,reduce:lanes,matmul:matmul_vec,sort:radix", 1);
    assert_int_equal(weft_ctx_open(&o, &ctx), WEFT_OK);
    weft_ctx_close(ctx);
    unsetenv("WEFT_KERNEL");
}

/* The sentence of the error is the one that explain prints of a row that was passed over. */
static void an_inadmissible_row_is_an_error_that_says_why(void **state)
{
    (void)state;
    open_null(NULL);
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *y = weft_matmul(leaf(16, 64), leaf(64, 64));
    char *text = explained(y);
    has(text, "matvec: 16 rows, it takes 8");
    weft_explain_free(text);
    setenv("WEFT_KERNEL", "matmul:matvec", 1);
    assert_int_equal(weft_eval(&y, 1), WEFT_E_UNSUPPORTED);
    has(weft_error_message(), "matvec: 16 rows, it takes 8");
    setenv("WEFT_KERNEL", "matmul:matmul_vec", 1);
    assert_int_equal(weft_eval(&y, 1), WEFT_E_UNSUPPORTED);
    has(weft_error_message(), "no row \"matmul_vec\" on this device");
    unsetenv("WEFT_KERNEL");
    assert_int_equal(weft_eval(&y, 1), WEFT_OK);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

/* ---- on a device that computes ---- */

static uint32_t seed = 12345;
static int64_t draw(int64_t low, int64_t high)
{
    seed = seed * 1664525u + 1013904223u;
    return low + (int64_t)(seed >> 8) % (high - low + 1);
}

static weft_tensor *drawn(int64_t rows, int64_t cols, float *into)
{
    for (int64_t i = 0; i < rows * cols; i++)
        into[i] = (float)draw(-8, 8);
    return weft_tensor_from(ctx, WEFT_DTYPE_F32, DIMS(rows, cols), into);
}

/* Small whole numbers: every order of adding gives the same sum. 0 when the row does not take the shape. */
static bool product_is_right(int64_t m, int64_t k, int64_t n, bool linear, bool turned)
{
    float *a = malloc((size_t)(m * k) * 4), *b = malloc((size_t)(k * n) * 4), *got = malloc((size_t)(m * n) * 4);
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = drawn(m, k, a), *w = linear || turned ? drawn(n, k, b) : drawn(k, n, b);
    weft_tensor *y = linear ? weft_linear(x, w, NULL) : weft_matmul(x, turned ? weft_transpose(w, 0, 1) : w);
    weft_status st = weft_read(weft_add(y, x = weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, 1.0)), got, (size_t)(m * n) * 4);
    if (st != WEFT_OK && (st != WEFT_E_UNSUPPORTED || !strstr(weft_error_message(), "WEFT_KERNEL") || strlen(weft_error_message()) < 40))
        if (st != WEFT_E_UNSUPPORTED || !strstr(weft_error_message(), "asked for is"))
            fail_msg("%d: %s", st, weft_error_message());
    for (int64_t i = 0; st == WEFT_OK && i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float want = 1;
            for (int64_t t = 0; t < k; t++)
                want += a[i * k + t] * (linear || turned ? b[j * k + t] : b[t * n + j]);
            if (got[i * n + j] != want)
                fail_msg("%s [%lld, %lld, %lld]: (%lld, %lld) is %g, expected %g", getenv("WEFT_KERNEL"), (long long)m, (long long)k, (long long)n, (long long)i,
                         (long long)j, (double)got[i * n + j], (double)want);
        }
    weft_scope_end(s);
    free(a);
    free(b);
    free(got);
    return st == WEFT_OK;
}

static bool device_is(const char *kind)
{
    weft_device_info info;
    weft_ctx_device(ctx, &info);
    return strcmp(info.kind, kind) == 0;
}

static void forced_rows_are_right(void **state)
{
    (void)state;
    static const char *const cpu[] = {"matmul_vec", "matmul_packed", "matmul_plain"};
    static const char *const gpu[] = {"matvec_long", "matvec", "matvec_odd", "tile_128x64x16", "tile_64x64x16", "tile_32x32x16", "plain"};
    ctx = open_test_ctx();
    assert_non_null(ctx);
    const char *const *rows = device_is("cpu") ? cpu : gpu;
    size_t n = device_is("cpu") ? WF_COUNT(cpu) : WF_COUNT(gpu), n_shapes = device_is("cpu") ? 24 : 5;
    for (size_t r = 0; r < n; r++)
        for (int linear = 0; linear < 2; linear++) {
            char env[64];
            int taken = 0;
            snprintf(env, sizeof env, "%s:%s", linear ? "linear" : "matmul", rows[r]);
            setenv("WEFT_KERNEL", env, 1);
            for (size_t i = 0; i < n_shapes; i++)
                taken += product_is_right(i % 3 ? draw(1, 80) : draw(1, 8), i % 2 ? 8 * draw(1, 9) : draw(1, 70), draw(1, 80), linear, i % 2);
            taken += product_is_right(5, 64, 40, linear, true);
            if (!taken)
                fail_msg("%s took none of the shapes: %s", env, weft_error_message());
        }
    unsetenv("WEFT_KERNEL");
    weft_ctx_close(ctx);
}

/* The reference of WEFT_CHECK is not asked for the row that is checked. */
static void a_forced_row_can_be_checked(void **state)
{
    (void)state;
    setenv("WEFT_CHECK", "1", 1);
    ctx = open_test_ctx();
    assert_non_null(ctx);
    setenv("WEFT_KERNEL", device_is("cpu") ? "matmul:matmul_packed" : "matmul:plain,reduce:lanes", 1);
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *y = weft_sum(weft_exp(weft_matmul(leaf(16, 16), weft_exp(leaf(16, 16)))), (int[]){1}, 1, false);
    if (weft_eval(&y, 1) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    weft_scope_end(s);
    unsetenv("WEFT_KERNEL");
    unsetenv("WEFT_CHECK");
    weft_ctx_close(ctx);
}

static void forced_reductions_are_right(void **state)
{
    (void)state;
    static const char *const rows[] = {"reduce:thread", "reduce:group", "reduce:lanes"};
    float x[90 * 70], got[90];
    ctx = open_test_ctx();
    assert_non_null(ctx);
    for (size_t r = 0; r < WF_COUNT(rows); r++)
        for (int i = 0; i < 6; i++) {
            int64_t m = draw(1, 90), n = draw(1, 70);
            int across = i % 2;
            setenv("WEFT_KERNEL", rows[r], 1);
            weft_scope *s = weft_scope_begin(ctx);
            weft_tensor *t = drawn(m, n, x), *y = weft_sum(across ? weft_transpose(t, 0, 1) : t, (int[]){across ? 0 : 1}, 1, false);
            weft_status st = weft_read(y, got, (size_t)m * 4);
            if (device_is("cpu")) {
                assert_int_equal(st, WEFT_E_UNSUPPORTED);
                has(weft_error_message(), "the CPU has no work groups");
            } else if (st != WEFT_OK) {
                fail_msg("%s", weft_error_message());
            }
            for (int64_t l = 0; st == WEFT_OK && l < m; l++) {
                float want = 0;
                for (int64_t k = 0; k < n; k++)
                    want += x[l * n + k];
                if (got[l] != want)
                    fail_msg("%s [%lld, %lld]: line %lld is %g, expected %g", rows[r], (long long)m, (long long)n, (long long)l, (double)got[l], (double)want);
            }
            weft_scope_end(s);
        }
    unsetenv("WEFT_KERNEL");
    weft_ctx_close(ctx);
}

/* Tuning measures, computes nothing that was asked for, and what is computed after it is right. */
static void tuning_leaves_results_right(void **state)
{
    (void)state;
    float x[40 * 64], w[64 * 48], got[40], before[40];
    ctx = open_test_ctx();
    assert_non_null(ctx);
    for (int pass = 0; pass < 2; pass++) {
        weft_scope *s = weft_scope_begin(ctx);
        seed = 77;
        weft_tensor *a = drawn(40, 64, x), *b = drawn(64, 48, w), *p = weft_matmul(weft_add(a, a), b);
        weft_tensor *y = weft_sum(weft_relu(p), (int[]){1}, 1, false);
        if (pass) {
            const weft_tune_opts o = {.repeats = 2, .format = WEFT_TUNE_JSON};
            char *text = NULL;
            if (weft_tune(&y, 1, &o, &text) != WEFT_OK)
                fail_msg("%s", weft_error_message());
            has(text, "\"operation\": \"matmul\"");
            has(text, "\"us\": ");
            weft_tune_free(text);
            assert_true(ctx->tuned.n >= 1);
            char *why = explained(y);
            if (ctx->tuned.n)
                has(why, "chosen by measuring");
            weft_explain_free(why);
        }
        assert_int_equal(weft_read(y, pass ? got : before, sizeof got), WEFT_OK);
        weft_scope_end(s);
    }
    assert_memory_equal(got, before, sizeof got); /* whole numbers: no order shows */
    weft_ctx_close(ctx);
}

static void failed_allocations_leak_nothing(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        static const price p[] = {{"tile_64x64x16", 10}, {NULL, 0}};
        uint64_t live = wf_alloc_live();
        open_null(p);
        weft_scope *s = weft_scope_begin(ctx);
        weft_tensor *y = product(64, 64, 64);
        char *text = NULL;
        wf_alloc_fail_nth(n);
        weft_status st = weft_tune(&y, 1, NULL, &text);
        wf_alloc_fail_nth(0);
        weft_tune_free(text);
        weft_scope_end(s);
        weft_ctx_close(ctx);
        assert_int_equal(wf_alloc_live(), live);
        if (st == WEFT_OK && text)
            break;
        assert_int_equal(st, WEFT_E_OOM);
        assert_true(n < 20000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_row_wins),
        cmocka_unit_test(plans_made_later_take_it),
        cmocka_unit_test(two_shapes_share_a_bucket),
        cmocka_unit_test(a_failing_row_is_skipped),
        cmocka_unit_test(equal_rows_leave_the_usual_one),
        cmocka_unit_test(reductions_have_rows),
        cmocka_unit_test(cancelling_and_budgets),
        cmocka_unit_test(between_begin_and_end),
        cmocka_unit_test(off_leaves_choices_out),
        cmocka_unit_test(the_table_survives_as_bytes),
        cmocka_unit_test(damaged_bytes_are_refused),
        cmocka_unit_test(unknown_names_fail_at_open),
        cmocka_unit_test(an_inadmissible_row_is_an_error_that_says_why),
        cmocka_unit_test(forced_rows_are_right),
        cmocka_unit_test(a_forced_row_can_be_checked),
        cmocka_unit_test(forced_reductions_are_right),
        cmocka_unit_test(tuning_leaves_results_right),
        cmocka_unit_test(failed_allocations_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
