/* test_half.c - f16 and bf16 conversions against arithmetic in f64: nearest, ties to even, every pattern. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base.h"

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* The value of f16 bits, from the definition. Infinity stands for 65536, the next step, so that rounding
 * towards it can be compared. */
static double f16_value(uint16_t h, bool inf_as_step)
{
    int e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : inf_as_step ? 65536.0 : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

static void f16_to_f32_is_exact_for_every_pattern(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        double want = f16_value((uint16_t)h, false);
        float got = wf_f16_to_f32((uint16_t)h);
        if (isnan(want))
            assert_true(isnan(got));
        else if ((double)got != want || !!signbit(got) != (h >> 15))
            fail_msg("0x%04x gives %a, expected %a", h, got, want);
    }
}

static void f16_round_trips_every_pattern(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = wf_f16_to_f32((uint16_t)h);
        if (isnan(f)) {
            assert_true(isnan(wf_f16_to_f32(wf_f32_to_f16(f))));
            continue;
        }
        assert_int_equal(wf_f32_to_f16(f), h);
        assert_int_equal(wf_f64_to_f16((double)f), h);
    }
}

/* Between two neighbours: the middle goes to the even one, a hair off goes to the nearer. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double a = f16_value((uint16_t)h, true), b = f16_value((uint16_t)(h + 1), true), middle = (a + b) / 2;
        uint16_t even = (uint16_t)(h & 1 ? h + 1 : h);
        float m = (float)middle; /* exact: 12 bits */
        assert_int_equal(wf_f32_to_f16(m), even);
        assert_int_equal(wf_f32_to_f16(-m), even | 0x8000);
        assert_int_equal(wf_f32_to_f16(nextafterf(m, -1)), h);
        assert_int_equal(wf_f32_to_f16(nextafterf(m, 1e9f)), h + 1);
        assert_int_equal(wf_f64_to_f16(middle), even);
        assert_int_equal(wf_f64_to_f16(nextafter(middle, -1)), h);
        assert_int_equal(wf_f64_to_f16(nextafter(-middle, -1e9)), (h + 1) | 0x8000);
    }
}

static void f64_to_f16_rounds_once(void **state)
{
    (void)state;
    /* just above the middle of 1 and the next f16: rounding to f32 first gives the middle, then 1 */
    double d = 1 + ldexp(1, -11) + ldexp(1, -40);
    assert_int_equal(wf_f64_to_f16(d), 0x3c01);
    assert_int_equal(wf_f32_to_f16((float)d), 0x3c00);
}

static void overflow_goes_to_infinity(void **state)
{
    (void)state;
    assert_int_equal(wf_f32_to_f16(65504), 0x7bff);
    assert_int_equal(wf_f32_to_f16(65519), 0x7bff);
    assert_int_equal(wf_f32_to_f16(65520), 0x7c00);
    assert_int_equal(wf_f32_to_f16(-65520), 0xfc00);
    assert_int_equal(wf_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(wf_f32_to_f16(3.4e38f), 0x7c00);
    assert_int_equal(wf_f64_to_f16(65519.999999), 0x7bff);
    assert_int_equal(wf_f64_to_f16(65520), 0x7c00);
    assert_int_equal(wf_f64_to_f16(-1e300), 0xfc00);
    assert_int_equal(wf_f32_to_bf16(3.4e38f), 0x7f80);
    assert_int_equal(wf_f32_to_bf16(from_bits(0x7f7fffff)), 0x7f80);
}

static void subnormals_and_signed_zeros_stay(void **state)
{
    (void)state;
    assert_int_equal(wf_f32_to_f16(0x1p-24f), 1);
    assert_int_equal(wf_f32_to_f16(0x1p-25f), 0); /* tie to even */
    assert_int_equal(wf_f32_to_f16(0x1.000002p-25f), 1);
    assert_int_equal(wf_f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(wf_f32_to_f16(1e-45f), 0);
    assert_int_equal(wf_f64_to_f16(-5e-324), 0x8000);
    assert_int_equal(wf_f32_to_bf16(from_bits(0x00010000)), 1);
    assert_int_equal(wf_f32_to_bf16(-0.0f), 0x8000);
}

static void nan_stays_nan(void **state)
{
    (void)state;
    for (uint32_t m = 1; m < 0x800000; m = m * 2 + 1) /* payloads of high and low bits */
        for (uint32_t sign = 0; sign < 2; sign++) {
            float f = from_bits(sign << 31 | 0x7f800000 | m);
            assert_true(isnan(wf_f16_to_f32(wf_f32_to_f16(f))));
            assert_true(isnan(wf_bf16_to_f32(wf_f32_to_bf16(f))));
            assert_int_equal(wf_f32_to_f16(f) >> 15, sign);
            assert_int_equal(wf_f32_to_bf16(f) >> 15, sign);
        }
    assert_true(isnan(wf_f16_to_f32(wf_f64_to_f16(NAN))));
    assert_true(isnan(wf_f16_to_f32(wf_f32_to_f16(from_bits(0x7f800001)))));
    assert_true(isnan(wf_f16_to_f32(wf_f32_to_f16(from_bits(0x7fffffff)))));
    assert_true(isnan(wf_bf16_to_f32(wf_f32_to_bf16(from_bits(0x7fffffff)))));
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7f80; h++) {
        assert_int_equal(wf_f32_to_bf16(from_bits(h << 16)), h);
        assert_int_equal(bits(wf_bf16_to_f32((uint16_t)h)), h << 16);
        assert_int_equal(wf_f32_to_bf16(from_bits(h << 16 | 0x7fff)), h);
        assert_int_equal(wf_f32_to_bf16(from_bits(h << 16 | 0x8000)), h & 1 ? h + 1 : h);
        assert_int_equal(wf_f32_to_bf16(from_bits(h << 16 | 0x8001)), h + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_to_f32_is_exact_for_every_pattern),
        cmocka_unit_test(f16_round_trips_every_pattern),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(f64_to_f16_rounds_once),
        cmocka_unit_test(overflow_goes_to_infinity),
        cmocka_unit_test(subnormals_and_signed_zeros_stay),
        cmocka_unit_test(nan_stays_nan),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
