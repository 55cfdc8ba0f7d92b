/* test_random.c - random numbers: the known answers of Philox, the same bits on every device, streams that go on where they
 * stopped, plans that are found again, and the distributions (moments, chi-square). Runs on the device that
 * WEFT_TEST_DEVICE names (default: cpu).
 */
#include <math.h>
#include <string.h>

#include "device_context.h"
#include "philox.h"

enum { N = 40000 };

static weft_ctx *ctx;
static bool on_cpu;
static int open_ctx(void **state)
{
    (void)state;
    const char *device = getenv("WEFT_TEST_DEVICE");
    on_cpu = !device || strcmp(device, "cpu") == 0;
    return (ctx = open_test_ctx()) ? 0 : -1;
}
static int close_ctx(void **state)
{
    (void)state;
    weft_ctx_close(ctx);
    return 0;
}

static void read_as(weft_tensor *t, weft_dtype dtype, void *dst, size_t size_bytes)
{
    if (weft_read_as(t, dtype, dst, size_bytes) != WEFT_OK)
        fail_msg("%s", weft_error_message());
}

static const int64_t many = N;
static float *numbers(weft_tensor *t)
{
    static float x[N];
    assert_int_equal(weft_tensor_numel(t), N);
    read_as(t, WEFT_DTYPE_F32, x, sizeof x);
    return x;
}

static void philox_gives_its_known_answers(void **state)
{
    (void)state;
    /* The kat_vectors file of the authors' library: counter, key, result. */
    static const uint32_t known[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
    };
    for (int i = 0; i < 3; i++) {
        philox_block b = philox(known[i], known[i][4], known[i][5]);
        for (int k = 0; k < 4; k++)
            assert_int_equal(b.w[k], known[i][6 + k]);
    }
}

static void integers_and_uniforms_are_exact_everywhere(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_generator g = {0x0123456789abcdefu, 0xffffff00u}, h = g, k = g; /* the place passes 2^32 */
    float *x = numbers(weft_rand(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){N / 8, 8}, &g));
    assert_true(g.offset == h.offset + N);
    for (int i = 0; i < N; i++)
        assert_true((double)x[i] == philox_uniform(philox_at(h.seed, h.offset + (uint64_t)i)));
    static uint32_t words[N];
    read_as(weft_randint(ctx, WEFT_DTYPE_U32, 0, (int64_t)1 << 32, 1, &many, &h), WEFT_DTYPE_U32, words, sizeof words);
    for (int i = 0; i < N; i++)
        assert_int_equal(words[i], philox_at(k.seed, k.offset + (uint64_t)i).w[0]);
    h = k;
    static int32_t ints[N];
    read_as(weft_randint(ctx, WEFT_DTYPE_I32, INT32_MIN, 2000000000, 1, &many, &h), WEFT_DTYPE_I32, ints, sizeof ints);
    for (int i = 0; i < N; i++)
        assert_int_equal(ints[i], INT32_MIN + (int64_t)philox_below(philox_at(k.seed, k.offset + (uint64_t)i), 4147483648u));
    weft_scope_end(scope);
}

static int64_t ulps(float a, float b)
{
    int32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    int64_t p = x < 0 ? INT32_MIN - (int64_t)x : x, q = y < 0 ? INT32_MIN - (int64_t)y : y;
    return p > q ? p - q : q - p;
}

/* 4 units between any two devices: each within 2 of the exact value would be enough, and is what is seen; 4 is what is promised. */
static void normals_are_within_four_units_of_the_cpu(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_generator g = {42, 0}, h = g;
    float *x = numbers(weft_randn(ctx, WEFT_DTYPE_F32, 1, &many, &g));
    int64_t worst = 0;
    for (int i = 0; i < N; i++) {
        int64_t d = ulps(x[i], (float)philox_normal(philox_at(42, (uint64_t)i)));
        worst = d > worst ? d : worst;
    }
    print_message("normals: %lld units from exact\n", (long long)worst);
    assert_true(worst <= 4);
    if (!on_cpu) {
        weft_ctx *cpu = NULL;
        assert_int_equal(weft_ctx_open(&(weft_ctx_opts){.device = "cpu"}, &cpu), WEFT_OK);
        weft_scope *inner = weft_scope_begin(cpu);
        static float y[N];
        read_as(weft_randn(cpu, WEFT_DTYPE_F32, 1, &many, &h), WEFT_DTYPE_F32, y, sizeof y);
        for (int i = 0, most = 0; i < N; i++)
            if ((most = (int)ulps(x[i], y[i])) > 4)
                fail_msg("value %d: %a and %a", i, (double)x[i], (double)y[i]);
        h = (weft_generator){9, 9};
        read_as(weft_exponential(cpu, WEFT_DTYPE_F32, 1, 1, &many, &h), WEFT_DTYPE_F32, y, sizeof y);
        h = (weft_generator){9, 9};
        x = numbers(weft_exponential(ctx, WEFT_DTYPE_F32, 1, 1, &many, &h));
        for (int i = 0; i < N; i++)
            assert_true(ulps(x[i], y[i]) <= 4);
        weft_scope_end(inner);
        weft_ctx_close(cpu);
    }
    weft_scope_end(scope);
}

/* ---- streams ---- */

static void a_stream_goes_on_where_it_stopped(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    float whole[30], parts[30], again[30];
    int64_t all = 30, ten = 10, twenty = 20;
    weft_generator g = {5, 100}, h = g;
    read_as(weft_rand(ctx, WEFT_DTYPE_F32, 1, &all, &g), WEFT_DTYPE_F32, whole, sizeof whole);
    read_as(weft_rand(ctx, WEFT_DTYPE_F32, 1, &ten, &h), WEFT_DTYPE_F32, parts, 40);
    read_as(weft_rand(ctx, WEFT_DTYPE_F32, 1, &twenty, &h), WEFT_DTYPE_F32, parts + 10, 80);
    assert_memory_equal(whole, parts, sizeof whole);
    assert_int_equal(weft_manual_seed(ctx, 5), WEFT_OK);
    weft_tensor *skipped = weft_rand(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){100}, NULL);
    (void)skipped; /* what is drawn moves the stream, evaluated or not */
    read_as(weft_rand(ctx, WEFT_DTYPE_F32, 1, &all, NULL), WEFT_DTYPE_F32, again, sizeof again);
    assert_memory_equal(whole, again, sizeof whole);
    /* The same by name, with the seed and without. */
    weft_outputs out;
    weft_attr a[3] = {{.name = "size", .kind = WEFT_ATTR_INTS, .ints = &all, .n_ints = 1}, {.name = "seed", .kind = WEFT_ATTR_INT, .i = 5}, {.name = "offset", .kind = WEFT_ATTR_INT, .i = 100}};
    assert_int_equal(weft_apply(ctx, "rand", NULL, 0, &(weft_attrs){a, 3}, &out), WEFT_OK);
    read_as(out.tensor[0], WEFT_DTYPE_F32, again, sizeof again);
    assert_memory_equal(whole, again, sizeof whole);
    assert_int_equal(weft_manual_seed(NULL, 1), WEFT_E_CONTEXT);
    weft_scope_end(scope);
}

static void a_repeated_step_finds_its_plan(void **state)
{
    (void)state;
    weft_stats before, after;
    float previous = -1;
    for (int step = 0; step < 6; step++) {
        if (step == 1)
            assert_int_equal(weft_ctx_stats(ctx, &before), WEFT_OK);
        weft_scope *scope = weft_scope_begin(ctx);
        if (step == 4) /* another seed, and one where words happen to be equal */
            weft_manual_seed(ctx, 0x100000001u);
        weft_tensor *x = weft_full(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){64, 64}, 1);
        weft_tensor *y = weft_dropout(weft_add(x, weft_randn_like(x, NULL)), 0.25 + 0.01 * step, true, NULL);
        weft_tensor *sum = weft_sum(y, NULL, 0, false);
        float got;
        read_as(sum, WEFT_DTYPE_F32, &got, 4);
        assert_true(got != previous);
        previous = got;
        weft_scope_end(scope);
    }
    assert_int_equal(weft_ctx_stats(ctx, &after), WEFT_OK);
    assert_int_equal(after.plans_built, before.plans_built);
}

/* ---- distributions: fixed seeds, so nothing here fails by chance; the margins are 5 deviations ---- */

static void moments(const float *x, double *mean, double *variance)
{
    double sum = 0, square = 0;
    for (int i = 0; i < N; i++)
        sum += (double)x[i];
    *mean = sum / N;
    for (int i = 0; i < N; i++)
        square += ((double)x[i] - *mean) * ((double)x[i] - *mean);
    *variance = square / N;
}

static void near(double got, double want, double deviation)
{
    if (!(fabs(got - want) < 5 * deviation))
        fail_msg("%g, expected %g +- %g", got, want, deviation);
}

/* Counts of k equally likely bins: chi-square with k - 1 degrees has mean k - 1 and deviation sqrt(2 (k - 1)). */
static void even(const int *count, int k, int n)
{
    double chi = 0, expected = (double)n / k;
    for (int i = 0; i < k; i++)
        chi += (count[i] - expected) * (count[i] - expected) / expected;
    near(chi, k - 1, sqrt(2.0 * (k - 1)));
}

static void distributions_have_their_moments(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_generator g = {2024, 0};
    double mean, variance;
    int bins[100] = {0};
    float *x = numbers(weft_rand(ctx, WEFT_DTYPE_F32, 1, &many, &g));
    moments(x, &mean, &variance);
    near(mean, 0.5, sqrt(1.0 / 12 / N));
    near(variance, 1.0 / 12, sqrt(1.0 / 180 / N));
    for (int i = 0; i < N; i++) {
        assert_true(x[i] >= 0 && x[i] < 1);
        bins[(int)(x[i] * 100)]++;
    }
    even(bins, 100, N);

    moments(numbers(weft_randn(ctx, WEFT_DTYPE_F32, 1, &many, &g)), &mean, &variance);
    near(mean, 0, sqrt(1.0 / N));
    near(variance, 1, sqrt(2.0 / N));
    memset(bins, 0, sizeof bins);
    x = numbers(weft_randn(ctx, WEFT_DTYPE_F32, 1, &many, &g));
    for (int i = 0; i < N; i++)
        bins[(int)fmin(99, 100 * (0.5 + 0.5 * erf((double)x[i] * 0.70710678118654752)))]++;
    even(bins, 100, N);

    moments(numbers(weft_exponential(ctx, WEFT_DTYPE_F32, 2, 1, &many, &g)), &mean, &variance);
    near(mean, 0.5, sqrt(0.25 / N));
    near(variance, 0.25, sqrt(8.0 / 16 / N));

    moments(numbers(weft_uniform(ctx, WEFT_DTYPE_F32, -3, 5, 1, &many, &g)), &mean, &variance);
    near(mean, 1, sqrt(64.0 / 12 / N));

    x = numbers(weft_randint(ctx, WEFT_DTYPE_I32, -5, 5, 1, &many, &g));
    memset(bins, 0, sizeof bins);
    for (int i = 0; i < N; i++) {
        assert_true(x[i] >= -5 && x[i] < 5 && x[i] == floorf(x[i]));
        bins[(int)x[i] + 5]++;
    }
    even(bins, 10, N);
    weft_tensor *bytes = weft_randint_like(weft_zeros(ctx, WEFT_DTYPE_I8, 1, &many), 120, 128, &g);
    assert_int_equal(weft_tensor_dtype(bytes), WEFT_DTYPE_I8);
    x = numbers(bytes);
    for (int i = 0; i < N; i++)
        assert_true(x[i] >= 120 && x[i] < 128 && x[i] == floorf(x[i]));

    weft_tensor *mu = weft_scalar_f32(ctx, 3), *sigma = weft_expand(weft_scalar_f32(ctx, 0.5f), 1, &many);
    moments(numbers(weft_normal(mu, sigma, &g)), &mean, &variance);
    near(mean, 3, sqrt(0.25 / N));
    near(variance, 0.25, sqrt(2 * 0.0625 / N));
    weft_scope_end(scope);
}

static void narrow_dtypes_stay_below_one(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_generator g = {3, 0};
    static const weft_dtype dtypes[] = {WEFT_DTYPE_F16, WEFT_DTYPE_BF16, WEFT_DTYPE_F64};
    for (int t = 0; t < (on_cpu ? 3 : 2); t++) {
        double mean, variance;
        weft_tensor *u = weft_rand(ctx, dtypes[t], 1, &many, &g);
        assert_int_equal(weft_tensor_dtype(u), dtypes[t]);
        float *x = numbers(u);
        for (int i = 0; i < N; i++)
            assert_true(x[i] >= 0 && (x[i] < 1 || t == 2)); /* f64 may round to 1 in f32 */
        moments(x, &mean, &variance);
        near(mean, 0.5, sqrt(1.0 / 12 / N) + (t == 1 ? 0x1p-9 : 0));
        moments(numbers(weft_randn(ctx, dtypes[t], 1, &many, &g)), &mean, &variance);
        near(variance, 1, sqrt(2.0 / N));
    }
    weft_scope_end(scope);
}

/* ---- choices ---- */

static void coins_and_dropout(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_generator g = {11, 0};
    float *x = numbers(weft_bernoulli(weft_full(ctx, WEFT_DTYPE_F32, 1, &many, 0.3), &g));
    double sum = 0;
    for (int i = 0; i < N; i++) {
        assert_true(x[i] == 0 || x[i] == 1);
        sum += (double)x[i];
    }
    near(sum / N, 0.3, sqrt(0.21 / N));
    x = numbers(weft_bernoulli(weft_full(ctx, WEFT_DTYPE_F32, 1, &many, 1), &g));
    for (int i = 0; i < N; i++)
        assert_true(x[i] == 1);
    x = numbers(weft_dropout(weft_full(ctx, WEFT_DTYPE_F32, 1, &many, 3), 0.25, true, &g));
    sum = 0;
    for (int i = 0; i < N; i++) {
        assert_true(x[i] == 0 || x[i] == 4);
        sum += (double)x[i];
    }
    near(sum / N, 3, sqrt(16 * 0.1875 / N));
    x = numbers(weft_dropout(weft_full(ctx, WEFT_DTYPE_F32, 1, &many, INFINITY), 1, true, &g));
    for (int i = 0; i < N; i++)
        assert_true(x[i] == 0);
    x = numbers(weft_dropout(weft_full(ctx, WEFT_DTYPE_F32, 1, &many, 3), 0.25, false, &g));
    for (int i = 0; i < N; i++)
        assert_true(x[i] == 3);
    weft_tensor *half = weft_dropout(weft_full(ctx, WEFT_DTYPE_F16, 0, NULL, 3), 0, true, &g);
    assert_int_equal(weft_tensor_dtype(half), WEFT_DTYPE_F16);
    float three;
    read_as(half, WEFT_DTYPE_F32, &three, 4);
    assert_true(three == 3);
    weft_scope_end(scope);
}

static void permutations_and_draws_by_weight(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_generator g = {77, 0};
    enum { M = 1000 };
    static int32_t order[M];
    bool seen[M] = {false};
    int fixed = 0;
    read_as(weft_randperm(ctx, M, &g), WEFT_DTYPE_I32, order, sizeof order);
    for (int i = 0; i < M; i++) {
        assert_true(order[i] >= 0 && order[i] < M && !seen[order[i]]);
        seen[order[i]] = true;
        fixed += order[i] == i;
    }
    assert_true(fixed < 10);
    assert_int_equal(weft_tensor_numel(weft_randperm(ctx, 0, &g)), 0);
    float rows[8];
    read_as(weft_permutation(weft_arange(ctx, WEFT_DTYPE_F32, 8, 0, 1), 0, &g), WEFT_DTYPE_F32, rows, sizeof rows);
    float sum = 0;
    for (int i = 0; i < 8; i++)
        sum += rows[i];
    assert_true(sum == 28);

    weft_tensor *w = weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){2, 4}, (float[]){1, 0, 3, 4, 0, 0, 5, 0});
    enum { K = 4000 };
    static int32_t pick[2 * K];
    int count[4] = {0};
    weft_tensor *drawn = weft_multinomial(w, K, true, &g);
    assert_int_equal(weft_tensor_dtype(drawn), WEFT_DTYPE_I32);
    read_as(drawn, WEFT_DTYPE_I32, pick, sizeof pick);
    for (int i = 0; i < K; i++) {
        assert_true(pick[i] >= 0 && pick[i] < 4 && pick[K + i] == 2);
        count[pick[i]]++;
    }
    assert_int_equal(count[1], 0);
    near(count[0] / (double)K, 0.125, sqrt(0.125 * 0.875 / K));
    near(count[2] / (double)K, 0.375, sqrt(0.375 * 0.625 / K));
    int first[4] = {0};
    weft_tensor *many_w = weft_expand(weft_select(w, 0, 0), 2, (int64_t[]){K, 4});
    static int32_t two[2 * K];
    read_as(weft_multinomial(many_w, 2, false, &g), WEFT_DTYPE_I32, two, sizeof two);
    for (int i = 0; i < K; i++) {
        assert_true(two[2 * i] != two[2 * i + 1] && two[2 * i] != 1 && two[2 * i + 1] != 1);
        first[two[2 * i]]++;
    }
    near(first[3] / (double)K, 0.5, sqrt(0.25 / K));
    weft_scope_end(scope);
}

static void says(weft_tensor *t, weft_status st, const char *part)
{
    assert_string_equal(weft_status_name(weft_tensor_status(t)), weft_status_name(st));
    if (!strstr(weft_tensor_message(t), part))
        fail_msg("\"%s\" does not say \"%s\"", weft_tensor_message(t), part);
}

static void bad_arguments_say_what_is_wrong(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    weft_generator g = {1, 2};
    weft_tensor *x = weft_full(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){4}, 1), *i = weft_cast(x, WEFT_DTYPE_I32);
    says(weft_rand(ctx, WEFT_DTYPE_I32, 0, NULL, &g), WEFT_E_DTYPE, "i32 is no float");
    says(weft_rand(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){-1}, &g), WEFT_E_SHAPE, "negative");
    says(weft_randn(ctx, WEFT_DTYPE_F32, 9, NULL, &g), WEFT_E_SHAPE, "rank 9");
    says(weft_randint(ctx, WEFT_DTYPE_I32, 5, 5, 0, NULL, &g), WEFT_E_VALUE, "from 5 to 5");
    says(weft_randint(ctx, WEFT_DTYPE_I32, 0, (int64_t)1 << 33, 0, NULL, &g), WEFT_E_VALUE, "8589934592");
    says(weft_exponential(ctx, WEFT_DTYPE_F32, 0, 0, NULL, &g), WEFT_E_VALUE, "the rate is 0");
    says(weft_uniform(ctx, WEFT_DTYPE_F32, 0, INFINITY, 0, NULL, &g), WEFT_E_VALUE, "inf");
    says(weft_dropout(x, 1.5, true, &g), WEFT_E_VALUE, "p is 1.5");
    says(weft_dropout(i, 0.5, true, &g), WEFT_E_DTYPE, "i32");
    says(weft_bernoulli(i, &g), WEFT_E_DTYPE, "i32");
    says(weft_multinomial(x, 5, false, &g), WEFT_E_VALUE, "5 draws of 4 weights");
    says(weft_multinomial(x, 0, true, &g), WEFT_E_VALUE, "0 draws");
    says(weft_multinomial(weft_select(x, 0, 0), 1, true, &g), WEFT_E_SHAPE, "rank 0");
    says(weft_randperm(ctx, -1, &g), WEFT_E_VALUE, "-1");
    says(weft_permutation(x, 3, &g), WEFT_E_SHAPE, "axis 3");
    says(weft_rand(NULL, WEFT_DTYPE_F32, 0, NULL, &g), WEFT_E_CONTEXT, "NULL");
    says(weft_normal(x, NULL, &g), WEFT_E_CONTEXT, "NULL");
    assert_true(g.offset == 2); /* nothing was drawn */
    weft_scope_end(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_its_known_answers), cmocka_unit_test(integers_and_uniforms_are_exact_everywhere),
        cmocka_unit_test(normals_are_within_four_units_of_the_cpu), cmocka_unit_test(a_stream_goes_on_where_it_stopped),
        cmocka_unit_test(a_repeated_step_finds_its_plan), cmocka_unit_test(distributions_have_their_moments),
        cmocka_unit_test(narrow_dtypes_stay_below_one), cmocka_unit_test(coins_and_dropout),
        cmocka_unit_test(permutations_and_draws_by_weight), cmocka_unit_test(bad_arguments_say_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
