/* test_sample.c - choosing tokens: filters, penalty, and that draws follow their probabilities. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mdl.h"

enum { N = 6 };
static const float logits[N] = {1.0f, 3.0f, 2.0f, -1.0f, 2.5f, 0.0f};

static int32_t draw(const weft_sampling *p, const int32_t *history, int64_t n_history, uint64_t position)
{
    mdl_candidate c[N];
    for (int i = 0; i < N; i++)
        c[i] = (mdl_candidate){logits[i], i};
    return mdl_sample(p, c, N, history, n_history, position);
}

static void counts(const weft_sampling *p, int n, int out[N])
{
    memset(out, 0, N * sizeof *out);
    for (int i = 0; i < n; i++)
        out[draw(p, NULL, 0, (uint64_t)i)]++;
}

static void temperature_zero_takes_the_largest(void **state)
{
    (void)state;
    assert_int_equal(draw(&(weft_sampling){0}, NULL, 0, 0), 1);
}

static void draws_follow_the_softmax(void **state)
{
    (void)state;
    enum { DRAWS = 40000 };
    int seen[N];
    double total = 0;
    weft_sampling p = {.temperature = 1.5f, .seed = 42};
    counts(&p, DRAWS, seen);
    for (int i = 0; i < N; i++)
        total += exp(logits[i] / 1.5);
    for (int i = 0; i < N; i++) { /* five standard deviations of a binomial count */
        double q = exp(logits[i] / 1.5) / total;
        assert_true(fabs(seen[i] - DRAWS * q) < 5 * sqrt(DRAWS * q * (1 - q)));
    }
}

static void a_draw_depends_on_seed_and_position_alone(void **state)
{
    (void)state;
    weft_sampling a = {.temperature = 5, .seed = 1}, b = {.temperature = 5, .seed = 2};
    int differ = 0;
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(draw(&a, NULL, 0, i), draw(&a, NULL, 0, i));
        differ += draw(&a, NULL, 0, i) != draw(&b, NULL, 0, i);
    }
    assert_true(differ > 20);
}

static void filters_keep_what_they_should(void **state)
{
    (void)state;
    int seen[N];
    counts(&(weft_sampling){.temperature = 10, .top_k = 3}, 2000, seen);
    assert_true(seen[1] && seen[4] && seen[2] && !seen[0] && !seen[3] && !seen[5]);
    /* at temperature 1 the two best have 0.49 and 0.30 of the probability */
    counts(&(weft_sampling){.temperature = 1, .top_p = 0.5f}, 2000, seen);
    assert_true(seen[1] && seen[4] && !seen[2]);
    counts(&(weft_sampling){.temperature = 1, .top_p = 0.4f}, 2000, seen);
    assert_int_equal(seen[1], 2000);
    counts(&(weft_sampling){.temperature = 1, .min_p = 0.5f}, 2000, seen); /* e^-0.5 = 0.61, e^-1 = 0.37 */
    assert_true(seen[1] && seen[4] && !seen[2] && !seen[0]);
}

static void the_penalty_lowers_recent_ids_once(void **state)
{
    (void)state;
    const int32_t recent[] = {1, 1, 1, 4};
    weft_sampling p = {.repeat_penalty = 1.2f};
    /* 3 / 1.2 = 2.5 stays above 2 but 2.5 / 1.2 falls below: the best is 1 still */
    assert_int_equal(draw(&p, recent, 4, 0), 1);
    p.repeat_penalty = 2;
    assert_int_equal(draw(&p, recent, 4, 0), 2);
    p.repeat_last = 1; /* only id 4 is recent */
    assert_int_equal(draw(&p, recent, 4, 0), 1);
}

static void the_penalty_lowers_negative_logits_too(void **state)
{
    (void)state;
    const weft_sampling p = {.repeat_penalty = 2};
    mdl_candidate c[2] = {{-1, 0}, {-1.5f, 1}};
    assert_int_equal(mdl_sample(&p, c, 2, (int32_t[]){0}, 1, 0), 1); /* -2 against -1.5 */
}

static void candidates_suffice_for_an_exact_draw(void **state)
{
    (void)state;
    assert_int_equal(mdl_sampling_candidates(&(weft_sampling){0}, 1000), 1);
    assert_int_equal(mdl_sampling_candidates(&(weft_sampling){.repeat_penalty = 1.1f}, 1000), 65);
    assert_int_equal(mdl_sampling_candidates(&(weft_sampling){.repeat_penalty = 0.9f}, 1000), 0);
    assert_int_equal(mdl_sampling_candidates(&(weft_sampling){.temperature = 1, .top_k = 40}, 1000), 40);
    assert_int_equal(mdl_sampling_candidates(&(weft_sampling){.temperature = 1, .top_k = 40}, 30), 0);
    assert_int_equal(mdl_sampling_candidates(&(weft_sampling){.temperature = 1}, 1000), 0);
}

static void nan_and_infinite_logits_give_an_id(void **state)
{
    (void)state;
    weft_sampling p = {.temperature = 1, .seed = 3};
    mdl_candidate a[3] = {{NAN, 0}, {1, 1}, {NAN, 2}}, b[2] = {{INFINITY, 0}, {1, 1}}, c[2] = {{NAN, 0}, {NAN, 1}},
                  d[2] = {{-INFINITY, 0}, {0, 1}};
    assert_int_equal(mdl_sample(&p, a, 3, NULL, 0, 0), 1);
    assert_int_equal(mdl_sample(&p, b, 2, NULL, 0, 0), 0);
    assert_in_range(mdl_sample(&p, c, 2, NULL, 0, 0), 0, 1);
    assert_int_equal(mdl_sample(&p, d, 2, NULL, 0, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_zero_takes_the_largest),    cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(a_draw_depends_on_seed_and_position_alone), cmocka_unit_test(filters_keep_what_they_should),
        cmocka_unit_test(the_penalty_lowers_recent_ids_once),    cmocka_unit_test(candidates_suffice_for_an_exact_draw),
        cmocka_unit_test(nan_and_infinite_logits_give_an_id),     cmocka_unit_test(the_penalty_lowers_negative_logits_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
