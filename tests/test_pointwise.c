/* test_pointwise.c - functions of weft/ops_pointwise.h over floats of every exponent and both signs, against the C library
 * in double, within the bound of the function's row; on the device that WEFT_TEST_DEVICE names.
 *
 * WEFT_TEST_VERBOSE=1 prints the worst error of each function in eps of the result.
 */
#include "device_context.h"

#include <math.h>
#include <stdint.h>

#define EPS 0x1p-24
static bool on_gpu;
#define TINY 0x1p-126 /* below it a device may flush, and CPUs round to multiples of 2^-149 */

static weft_ctx *ctx;

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static uint32_t random_state = 12345;
static uint32_t random_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    return random_state ^= random_state << 5;
}

/* For every exponent and sign the ends of the binade and random significands; special values; a fine walk where functions
 * change their form. */
enum { PER_BINADE = 24, WALK = 6000, SWEEP = 2 * 255 * PER_BINADE + WALK + 16 };
static float sweep[SWEEP];
static int64_t n_sweep;

static void fill_sweep(void)
{
    static const float special[] = {0.0f, -0.0f, 1, -1, 0.5f, -0.5f, 2, -2, INFINITY, -INFINITY, NAN, 3.4028235e38f, -3.4028235e38f};
    n_sweep = 0;
    for (uint32_t e = 0; e < 255; e++)
        for (uint32_t i = 0; i < PER_BINADE; i++)
            for (uint32_t sign = 0; sign < 2; sign++) {
                uint32_t m = i == 0 ? 0 : i == 1 ? 0x7fffff : i == 2 ? 1 : random_word() & 0x7fffff;
                sweep[n_sweep++] = from_bits(sign << 31 | e << 23 | m);
            }
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        sweep[n_sweep++] = special[i];
    for (int64_t i = 0; n_sweep < SWEEP; i++)
        sweep[n_sweep++] = (float)((double)(i - WALK / 2) * 0.00391 + (double)(random_word() >> 8) * 0x1p-32);
}

static weft_tensor *leaf(weft_dtype dtype, int64_t n, const void *data) { return weft_tensor_from(ctx, dtype, 1, &n, data); }

static void read_all(weft_tensor *t, void *out, size_t bytes)
{
    if (weft_read(t, out, bytes) != WEFT_OK)
        fail_msg("%s", weft_error_message());
}

static bool verbose(void) { return getenv("WEFT_TEST_VERBOSE") != NULL; }

/* One result: within bound (in eps), infinities and NaN where they belong. Returns the error in eps of the scale. */
static double check_one(const char *name, float x, float y, float got, double want, double scale, double bound)
{
    float rounded = (float)want;
    double diff = fabs((double)got - want), err = diff / (EPS * scale);
    bool ok;
    if (want != want || got != got)
        ok = (want != want) == (got != got), err = 0;
    else if (isinf(rounded) || isinf(got))
        ok = got == rounded || (on_gpu && isinf(got) && fabs(want) >= 0x1p126) /* WGSL may regroup products, and one part overflows */ || fabs(fabs(want) - 0x1.fffffep127) <= bound * EPS * 0x1p128, err = 0;
    else
        ok = diff <= bound * EPS * scale + (on_gpu ? 64 + fmin(fabs((double)x), 128) : 1) * TINY; /* a GPU may take a subnormal for zero; slopes are up to 58 */
    if (diff <= TINY)
        err = 0;
    if (!ok && !verbose())
        fail_msg("%s(%.9g [%08x], %.9g [%08x]): got %.9g, expected %.17g, error %.3g eps, bound %.3g", name, (double)x, to_bits(x),
                 (double)y, to_bits(y), (double)got, want, err, bound);
    return err;
}

/* ---- one operand ---- */

typedef struct one_row {
    const char *name;
    weft_tensor *(*fn)(weft_tensor *);
    double (*reference)(double);
    double bound, plus; /* bound * eps * (S + plus) */
} one_row;

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double silu(double x) { return x * sigmoid(x); }

static const one_row one_rows[] = {
    {"erfc", weft_erfc, erfc, 8, 0},    {"lgamma", weft_lgamma, lgamma, 8, 4}, {"expm1", weft_expm1, expm1, 4, 0},
    {"log1p", weft_log1p, log1p, 4, 0}, {"log2", weft_log2, log2, 4, 0},        {"exp2", weft_exp2, exp2, 4, 0},
    {"log10", weft_log10, log10, 4, 0}, {"sinh", weft_sinh, sinh, 6, 0},        {"cosh", weft_cosh, cosh, 6, 0},
    {"tan", weft_tan, tan, 8, 0},      {"asin", weft_asin, asin, 6, 0},        {"acos", weft_acos, acos, 6, 0},
    {"atan", weft_atan, atan, 6, 0},    {"asinh", weft_asinh, asinh, 8, 0},     {"acosh", weft_acosh, acosh, 8, 0},
    {"sigmoid", weft_sigmoid, sigmoid, 8, 0}, {"silu", weft_silu, silu, 10, 0},
    {"atanh", weft_atanh, atanh, 8, 0}, {"ceil", weft_ceil, ceil, 0, 0},        {"trunc", weft_trunc, trunc, 0, 0},
};

static void check_one_operand(const one_row *r)
{
    static float got[SWEEP];
    weft_scope *s = weft_scope_begin(ctx);
    read_all(r->fn(leaf(WEFT_DTYPE_F32, n_sweep, sweep)), got, sizeof got);
    double worst = 0;
    float at = 0;
    for (int64_t i = 0; i < n_sweep; i++) {
        double want = r->reference((double)sweep[i]);
        double err = check_one(r->name, sweep[i], 0, got[i], want, fabs(want) + r->plus, r->bound);
        if (err > worst)
            worst = err, at = sweep[i];
    }
    if (verbose())
        print_message("%-12s %6.2f eps at %.9g\n", r->name, worst, (double)at);
    weft_scope_end(s);
}

static void functions_of_one_operand_keep_their_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof one_rows / sizeof *one_rows; i++)
        check_one_operand(&one_rows[i]);
}

/* ---- two operands: some of the sweep with some of it ---- */

enum { SIDE = 160 };

typedef struct two_row {
    const char *name;
    weft_tensor *(*fn)(weft_tensor *, weft_tensor *);
    double (*reference)(double, double);
    double bound, plus;
} two_row;

static double python_mod(double a, double b)
{
    double m = fmod(a, b);
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

static double log_add_exp(double a, double b)
{
    if (a != a || b != b)
        return NAN;
    return a == b ? a + log(2) : fmax(a, b) + log1p(exp(-fabs(a - b)));
}

static double xlogy(double a, double b) { return a == 0 && b == b ? 0 : a * log(b); }
static double heaviside(double a, double b) { return a != a ? a : a == 0 ? b : a > 0; }

static const two_row two_rows[] = {
    {"atan2", weft_atan2, atan2, 8, 0},
    {"hypot", weft_hypot, hypot, 6, 0},
    {"copysign", weft_copysign, copysign, 0, 0},
    {"fmod", weft_fmod, fmod, 0, 0},
    {"remainder", weft_remainder, python_mod, 1, 0},
    {"logaddexp", weft_logaddexp, log_add_exp, 8, 1},
    {"xlogy", weft_xlogy, xlogy, 8, 0},
    {"heaviside", weft_heaviside, heaviside, 0, 0},
};

static void functions_of_two_operands_keep_their_bounds(void **state)
{
    static float side[SIDE], got[SIDE * SIDE];
    (void)state;
    for (int i = 0; i < SIDE; i++)
        side[i] = i < 13 ? sweep[2 * 255 * PER_BINADE + i] : i < 60 ? sweep[SWEEP - WALK / 2 - 30 + i] * 3 : sweep[(i * 7919) % n_sweep];
    for (size_t r = 0; r < sizeof two_rows / sizeof *two_rows; r++) {
        const two_row *row = &two_rows[r];
        weft_scope *s = weft_scope_begin(ctx);
        weft_tensor *x = leaf(WEFT_DTYPE_F32, SIDE, side);
        read_all(row->fn(weft_unsqueeze(x, 1), x), got, sizeof got);
        double worst = 0;
        for (int i = 0; i < SIDE * SIDE; i++) {
            float a = side[i / SIDE], b = side[i % SIDE];
            double want = row->reference((double)a, (double)b);
            double err = check_one(row->name, a, b, got[i], want, fabs(want) + row->plus, row->bound);
            worst = err > worst ? err : worst;
        }
        if (verbose())
            print_message("%-12s %6.2f eps\n", row->name, worst);
        weft_scope_end(s);
    }
}

/* ---- activations, and others with parameters ---- */

static double soft_plus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double hard_gate(double x) { return (x != x ? x : fmin(fmax(x + 3, 0), 6)) / 6; }
static double between(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

#define CALL(name, expression) \
    static weft_tensor *call_##name(weft_tensor *x) { return expression; }
CALL(softplus, weft_softplus(x, 2, 5))
CALL(elu, weft_elu(x, 1.5))
CALL(celu, weft_celu(x, 0.7))
CALL(leaky_relu, weft_leaky_relu(x, 0.01))
CALL(hardtanh, weft_hardtanh(x, -0.5, 2))
CALL(hardshrink, weft_hardshrink(x, 0.5))
CALL(softshrink, weft_softshrink(x, 0.5))
CALL(threshold, weft_threshold(x, 0.25, -7))
CALL(round, weft_round(x, 0))
CALL(nan_to_num, weft_nan_to_num(x, 3, NULL, &(double){-5}))
CALL(prelu, weft_prelu(x, weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, 0.25)))
CALL(clamp, weft_clamp(x, weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, -1.5), NULL))
CALL(clamp_both, weft_clamp(x, weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, 2), weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, 1)))
CALL(lerp, weft_lerp(x, weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, 2), weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, 0.75)))
CALL(addcmul, weft_addcmul(x, x, x, 0.5))
CALL(addcdiv, weft_addcdiv(x, weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, 1), x, 2))
CALL(masked_fill, weft_masked_fill(x, weft_gt(x, weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, 1)), weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, 9)))

#define REF(name, expression) \
    static double ref_##name(double x) { return expression; }
REF(softplus, 2 * x > 5 ? x : soft_plus(2 * x) / 2)
REF(elu, x > 0 ? x : 1.5 * expm1(x))
REF(selu, 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * expm1(x)))
REF(celu, x > 0 ? x : (double)0.7f * expm1(x / (double)0.7f))
REF(leaky_relu, x > 0 ? x : (double)0.01f * x)
REF(hardsigmoid, hard_gate(x))
REF(hardswish, x * hard_gate(x))
REF(hardtanh, between(x, -0.5, 2))
REF(mish, x * tanh(x != x ? x : soft_plus(x)))
REF(softsign, x / (1 + fabs(x)))
REF(tanhshrink, x - tanh(x))
REF(hardshrink, fabs(x) <= 0.5 ? 0 : x)
REF(softshrink, fabs(x) <= 0.5 ? 0 : x > 0 ? x - 0.5 : x + 0.5)
REF(logsigmoid, x != x ? x : fmin(x, 0) - log1p(exp(-fabs(x))))
REF(threshold, x <= 0.25 ? -7 : x)
REF(relu6, between(x, 0, 6))
REF(relu2, x != x ? x : fmax(x, 0) * fmax(x, 0))
REF(relu_mask, x > 0)
REF(prelu, x > 0 ? x : 0.25 * x)
REF(nan_to_num, x != x ? 3 : x == -INFINITY ? -5 : fmin(x, 0x1.fffffep127))
REF(sinc, x == 0 ? 1 : sin(x * 3.141592653589793) / (x * 3.141592653589793))
REF(reciprocal, 1 / x)
REF(rad2deg, x * 57.29577951308232)
REF(deg2rad, x * 0.017453292519943295)
REF(frac, x - trunc(x))
REF(sign, x != x ? x : (x > 0) - (x < 0))
REF(square, x * x)
REF(clamp, x < -1.5 ? -1.5 : x)
REF(clamp_both, x != x ? x : 1)
REF(lerp, 2 - 0.25 * (2 - x))
REF(addcmul, x + 0.5 * x * x)
REF(addcdiv, x + 2 / x)
REF(masked_fill, x > 1 ? 9 : x)

/* bound * eps * (S + plus + times |x|) */
typedef struct more_row {
    const char *name;
    weft_tensor *(*fn)(weft_tensor *);
    double (*reference)(double);
    double bound, plus, times;
} more_row;

static const more_row more_rows[] = {
    {"softplus", call_softplus, ref_softplus, 12, 0, 0},
    {"elu", call_elu, ref_elu, 6, 0, 0},
    {"selu", weft_selu, ref_selu, 8, 0, 0},
    {"celu", call_celu, ref_celu, 12, 0, 0},
    {"leaky_relu", call_leaky_relu, ref_leaky_relu, 2, 0, 0},
    {"hardsigmoid", weft_hardsigmoid, ref_hardsigmoid, 4, 1, 0},
    {"hardswish", weft_hardswish, ref_hardswish, 6, 0, 1},
    {"hardtanh", call_hardtanh, ref_hardtanh, 0, 0, 0},
    {"mish", weft_mish, ref_mish, 24, 0, 0},
    {"softsign", weft_softsign, ref_softsign, 4, 0, 0},
    {"tanhshrink", weft_tanhshrink, ref_tanhshrink, 8, 0, 1},
    {"hardshrink", call_hardshrink, ref_hardshrink, 0, 0, 0},
    {"softshrink", call_softshrink, ref_softshrink, 1, 0, 1},
    {"logsigmoid", weft_logsigmoid, ref_logsigmoid, 12, 0, 0},
    {"threshold", call_threshold, ref_threshold, 0, 0, 0},
    {"relu6", weft_relu6, ref_relu6, 0, 0, 0},
    {"relu2", weft_relu2, ref_relu2, 1, 0, 0},
    {"relu_mask", weft_relu_mask, ref_relu_mask, 0, 0, 0},
    {"prelu", call_prelu, ref_prelu, 1, 0, 0},
    {"round", call_round, rint, 0, 0, 0},
    {"nan_to_num", call_nan_to_num, ref_nan_to_num, 0, 0, 0},
    {"sinc", weft_sinc, ref_sinc, 8, 1, 0},
    {"reciprocal", weft_reciprocal, ref_reciprocal, 3, 0, 0},
    {"rad2deg", weft_rad2deg, ref_rad2deg, 2, 0, 0},
    {"deg2rad", weft_deg2rad, ref_deg2rad, 2, 0, 0},
    {"frac", weft_frac, ref_frac, 0, 0, 0},
    {"sign", weft_sign, ref_sign, 0, 0, 0},
    {"square", weft_square, ref_square, 1, 0, 0},
    {"clamp", call_clamp, ref_clamp, 0, 0, 0},
    {"clamp_both", call_clamp_both, ref_clamp_both, 0, 0, 0},
    {"lerp", call_lerp, ref_lerp, 4, 2, 1},
    {"addcmul", call_addcmul, ref_addcmul, 8, 0, 1},
    {"addcdiv", call_addcdiv, ref_addcdiv, 6, 0, 2},
    {"masked_fill", call_masked_fill, ref_masked_fill, 0, 0, 0},
};

static void compositions_keep_their_bounds(void **state)
{
    static float got[SWEEP];
    (void)state;
    for (size_t k = 0; k < sizeof more_rows / sizeof *more_rows; k++) {
        const more_row *r = &more_rows[k];
        weft_scope *s = weft_scope_begin(ctx);
        read_all(r->fn(leaf(WEFT_DTYPE_F32, n_sweep, sweep)), got, sizeof got);
        double worst = 0;
        float at = 0;
        for (int64_t i = 0; i < n_sweep; i++) {
            double x = (double)sweep[i], want = r->reference(x);
            double scale = fabs(want) + r->plus + (r->times != 0 ? r->times * fabs(x) : 0);
            double err = check_one(r->name, sweep[i], 0, got[i], want, scale, r->bound);
            if (err > worst)
                worst = err, at = sweep[i];
        }
        if (verbose())
            print_message("%-12s %6.2f eps at %.9g\n", r->name, worst, (double)at);
        weft_scope_end(s);
    }
}

/* ---- integers and bools ---- */

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = b == 0 ? 0 : a / b;
    return b != 0 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static void integers_divide_as_python_does(void **state)
{
    static const int32_t values[] = {0, 1, -1, 2, -2, 3, -3, 7, -7, 10, 2147483647, -2147483647 - 1};
    enum { N = sizeof values / sizeof *values };
    int32_t q[N * N], m[N * N], f[N * N];
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *b = leaf(WEFT_DTYPE_I32, N, values), *a = weft_unsqueeze(b, 1);
    read_all(weft_floor_divide(a, b), q, sizeof q);
    read_all(weft_remainder(a, b), m, sizeof m);
    read_all(weft_fmod(a, b), f, sizeof f);
    for (int i = 0; i < N * N; i++) {
        int64_t x = values[i / N], y = values[i % N], want = floor_div(x, y);
        assert_int_equal(q[i], (int32_t)want);
        assert_int_equal(m[i], y == 0 ? 0 : (int32_t)(x - want * y));
        assert_int_equal(f[i], y == 0 ? 0 : (int32_t)(x % y));
    }
    static const int8_t low = -128, minus = -1;
    static const uint8_t u7 = 7, u200 = 200;
    int8_t got8;
    uint8_t gotu;
    read_all(weft_floor_divide(leaf(WEFT_DTYPE_I8, 1, &low), leaf(WEFT_DTYPE_I8, 1, &minus)), &got8, 1);
    assert_int_equal(got8, -128);
    read_all(weft_remainder(leaf(WEFT_DTYPE_U8, 1, &u200), leaf(WEFT_DTYPE_U8, 1, &u7)), &gotu, 1);
    assert_int_equal(gotu, 4);
    weft_tensor *t = weft_floor_divide(weft_eq(b, b), weft_eq(b, b));
    assert_int_equal(weft_tensor_status(t), WEFT_E_DTYPE);
    weft_scope_end(s);
}

static void floats_divide_as_python_does(void **state)
{
    static const float a[] = {7, -7, 7, -7, 1, -1, 0, -0.0f, 5.5f, 1e30f, -1, 0.3f};
    static const float b[] = {2, 2, -2, -2, 0, 0, 3, 3, -2, 7, INFINITY, 0.1f};
    static const float want[] = {3, -4, -4, 3, INFINITY, -INFINITY, 0, -0.0f, -3, 0, -1, 3};
    float got[12];
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    read_all(weft_floor_divide(leaf(WEFT_DTYPE_F32, 12, a), leaf(WEFT_DTYPE_F32, 12, b)), got, sizeof got);
    for (int i = 0; i < 12; i++)
        if (i != 9)
            assert_int_equal(to_bits(got[i]), to_bits(want[i]));
    assert_true(fabs((double)got[9] - 1e30 / 7) < 1e24);
    weft_scope_end(s);
}

static void shifts_beyond_the_width_leave_the_sign(void **state)
{
    static const int32_t a[] = {5, -5, 5, -5, 5, -5, 1, -1}, b[] = {1, 1, 32, 32, -1, -1, 31, 31};
    static const int32_t left[] = {10, -10, 0, 0, 0, 0, -2147483647 - 1, -2147483647 - 1}, right[] = {2, -3, 0, -1, 0, -1, 0, -1};
    static const uint8_t u[] = {200, 200, 200}, v[] = {1, 8, 7}, uleft[] = {144, 0, 0}, uright[] = {100, 0, 1};
    int32_t got[8];
    uint8_t got8[3];
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = leaf(WEFT_DTYPE_I32, 8, a), *y = leaf(WEFT_DTYPE_I32, 8, b);
    read_all(weft_bitwise_left_shift(x, y), got, sizeof got);
    assert_memory_equal(got, left, sizeof left);
    read_all(weft_bitwise_right_shift(x, y), got, sizeof got);
    assert_memory_equal(got, right, sizeof right);
    weft_tensor *p = leaf(WEFT_DTYPE_U8, 3, u), *q = leaf(WEFT_DTYPE_U8, 3, v);
    read_all(weft_bitwise_left_shift(p, q), got8, sizeof got8);
    assert_memory_equal(got8, uleft, sizeof uleft);
    read_all(weft_bitwise_right_shift(p, q), got8, sizeof got8);
    assert_memory_equal(got8, uright, sizeof uright);
    assert_int_equal(weft_tensor_status(weft_bitwise_and(leaf(WEFT_DTYPE_F32, 8, a), y)), WEFT_E_DTYPE);
    weft_scope_end(s);
}

static void logic_and_tests_give_bools(void **state)
{
    static const float x[] = {0, -0.0f, 1, NAN, INFINITY, -INFINITY, -2}, y[] = {1, 1, 0, 0, NAN, 0, 3};
    static const uint8_t and[] = {0, 0, 0, 0, 1, 0, 1}, or[] = {1, 1, 1, 1, 1, 1, 1}, xor[] = {1, 1, 1, 1, 0, 1, 0};
    static const uint8_t not[] = {1, 1, 0, 0, 0, 0, 0}, nan[] = {0, 0, 0, 1, 0, 0, 0}, inf[] = {0, 0, 0, 0, 1, 1, 0};
    static const uint8_t finite[] = {1, 1, 1, 0, 0, 0, 1}, sign[] = {0, 1, 0, 0, 0, 1, 1};
    uint8_t got[7];
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *a = leaf(WEFT_DTYPE_F32, 7, x), *b = leaf(WEFT_DTYPE_F32, 7, y);
    const struct {
        weft_tensor *t;
        const uint8_t *want;
    } rows[] = {{weft_logical_and(a, b), and}, {weft_logical_or(a, b), or},  {weft_logical_xor(a, b), xor}, {weft_logical_not(a), not},
                {weft_isnan(a), nan},          {weft_isinf(a), inf},         {weft_isfinite(a), finite},    {weft_signbit(a), sign},
                {weft_isinf(weft_cast(a, WEFT_DTYPE_F16)), inf}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(weft_tensor_dtype(rows[i].t), WEFT_DTYPE_BOOL);
        read_all(rows[i].t, got, sizeof got);
        assert_memory_equal(got, rows[i].want, sizeof got);
    }
    weft_scope_end(s);
}

/* ---- dtypes ---- */

static void results_have_the_documented_dtypes(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    int64_t shape[2] = {2, 4};
    weft_tensor *half = weft_full(ctx, WEFT_DTYPE_F16, 2, shape, 1), *scalar = weft_full(ctx, WEFT_DTYPE_BF16, 0, NULL, 1);
    weft_tensor *whole = weft_full(ctx, WEFT_DTYPE_I8, 2, shape, 1), *f32 = weft_full(ctx, WEFT_DTYPE_F32, 2, shape, 1);
    weft_tensor *f64 = weft_full(ctx, WEFT_DTYPE_F64, 2, shape, 1);
    const struct {
        weft_tensor *t;
        weft_dtype want;
    } rows[] = {{weft_elu(half, 1), WEFT_DTYPE_F16},          {weft_elu(scalar, 1), WEFT_DTYPE_BF16},
                {weft_elu(whole, 1), WEFT_DTYPE_F32},         {weft_elu(f64, 1), WEFT_DTYPE_F64},
                {weft_relu6(whole), WEFT_DTYPE_I8},           {weft_sign(whole), WEFT_DTYPE_I8},
                {weft_round(whole, 0), WEFT_DTYPE_I8},        {weft_log1p(whole), WEFT_DTYPE_F32},
                {weft_atan2(whole, half), WEFT_DTYPE_F16},    {weft_logaddexp(half, f32), WEFT_DTYPE_F32},
                {weft_clamp(whole, scalar, NULL), WEFT_DTYPE_BF16}, {weft_bitwise_not(whole), WEFT_DTYPE_I8},
                {weft_copysign(whole, whole), WEFT_DTYPE_F32}, {weft_nan_to_num(half, 0, NULL, NULL), WEFT_DTYPE_F16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (weft_tensor_status(rows[i].t) != WEFT_OK)
            fail_msg("row %zu: %s", i, weft_tensor_message(rows[i].t));
        assert_int_equal(weft_tensor_dtype(rows[i].t), rows[i].want);
    }
    weft_scope_end(s);
}

static void doubles_are_computed_in_double(void **state)
{
    static const double x[] = {0.3, -0.7, 1e-300, 0.999999999};
    double got[4];
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    for (size_t k = 0; k < sizeof one_rows / sizeof *one_rows; k++) {
        read_all(one_rows[k].fn(leaf(WEFT_DTYPE_F64, 4, x)), got, sizeof got);
        for (int i = 0; i < 4; i++) {
            double want = one_rows[k].reference(x[i]);
            if (!(want != want && got[i] != got[i]) && fabs(got[i] - want) > 4e-16 * fabs(want))
                fail_msg("%s(%.17g): got %.17g, expected %.17g", one_rows[k].name, x[i], got[i], want);
        }
    }
    read_all(weft_signbit(leaf(WEFT_DTYPE_F64, 4, x)), (uint8_t[4]){0}, 4);
    weft_scope_end(s);
}

/* ---- gates, slopes and errors ---- */

static void gates_take_halves_of_an_axis(void **state)
{
    static const float x[] = {1, 2, 0.5f, -1, 3, -4, 0, 2};
    float got[4];
    int64_t shape[2] = {2, 4};
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, shape, x);
    read_all(weft_glu(t, -1), got, sizeof got);
    for (int i = 0; i < 4; i++) {
        double a = (double)x[i / 2 * 4 + i % 2], b = (double)x[i / 2 * 4 + 2 + i % 2];
        assert_true(fabs((double)got[i] - a * sigmoid(b)) < 1e-6);
    }
    read_all(weft_swiglu(t, 0), got, sizeof got);
    for (int i = 0; i < 4; i++)
        assert_true(fabs((double)got[i] - (double)x[i] * (double)x[i + 4] * sigmoid((double)x[i + 4])) < 1e-5);
    read_all(weft_geglu(t, 0), got, sizeof got);
    for (int i = 0; i < 4; i++)
        assert_true(fabs((double)got[i] - (double)x[i] * 0.5 * (double)x[i + 4] * erfc(-(double)x[i + 4] * sqrt(0.5))) < 1e-5);
    assert_int_equal(weft_tensor_status(weft_glu(weft_slice(t, 1, 0, 3, 1), 1)), WEFT_E_SHAPE);
    assert_int_equal(weft_tensor_status(weft_glu(t, 2)), WEFT_E_SHAPE);
    weft_scope_end(s);
}

static void slopes_belong_to_axis_1(void **state)
{
    static const float x[] = {-1, -2, 3, -4, -5, 6, -7, -8}, w[] = {0.5f, 2};
    static const float want[] = {-0.5f, -1, 3, -8, -2.5f, 6, -14, -16};
    float got[8];
    int64_t shape[3] = {2, 2, 2};
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_F32, 3, shape, x);
    read_all(weft_prelu(t, leaf(WEFT_DTYPE_F32, 2, w)), got, sizeof got);
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(weft_tensor_status(weft_prelu(t, leaf(WEFT_DTYPE_F32, 8, x))), WEFT_E_SHAPE);
    weft_scope_end(s);
}

static void decimals_round_as_pytorch_does(void **state)
{
    static const float x[] = {1.25f, -2.375f, 1234.5f, 0.5f};
    float got[4];
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *t = leaf(WEFT_DTYPE_F32, 4, x);
    read_all(weft_round(t, 1), got, sizeof got);
    assert_true(fabs((double)got[0] - 1.2) < 1e-6 && fabs((double)got[1] + 2.4) < 1e-6);
    read_all(weft_round(t, -2), got, sizeof got);
    assert_true(got[2] == 1200);
    assert_int_equal(weft_tensor_status(weft_round(t, 31)), WEFT_E_VALUE);
    weft_scope_end(s);
}

static void bad_arguments_are_refused_with_a_sentence(void **state)
{
    (void)state;
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = weft_full(ctx, WEFT_DTYPE_F32, 0, NULL, 1), *truth = weft_full(ctx, WEFT_DTYPE_BOOL, 0, NULL, 1);
    const struct {
        weft_tensor *t;
        weft_status want;
    } rows[] = {{weft_clamp(x, NULL, NULL), WEFT_E_VALUE},      {weft_erfc(NULL), WEFT_E_CONTEXT},
                {weft_elu(NULL, 1), WEFT_E_CONTEXT},            {weft_celu(x, 0), WEFT_E_VALUE},
                {weft_hardtanh(x, 2, 1), WEFT_E_VALUE},         {weft_masked_fill(x, x, x), WEFT_E_DTYPE},
                {weft_sign(truth), WEFT_E_DTYPE},               {weft_bitwise_not(x), WEFT_E_DTYPE},
                {weft_bitwise_left_shift(truth, truth), WEFT_E_DTYPE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(weft_tensor_status(rows[i].t), rows[i].want);
        assert_true(strlen(weft_tensor_message(rows[i].t)) > 8);
    }
    weft_scope_end(s);
}

static int setup(void **state)
{
    (void)state;
    fill_sweep();
    weft_device_info info;
    ctx = open_test_ctx();
    if (!ctx || weft_ctx_device(ctx, &info) != WEFT_OK)
        return -1;
    on_gpu = strcmp(info.kind, "cpu") != 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    weft_ctx_close(ctx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one_operand_keep_their_bounds),
        cmocka_unit_test(functions_of_two_operands_keep_their_bounds),
        cmocka_unit_test(compositions_keep_their_bounds),
        cmocka_unit_test(integers_divide_as_python_does),
        cmocka_unit_test(floats_divide_as_python_does),
        cmocka_unit_test(shifts_beyond_the_width_leave_the_sign),
        cmocka_unit_test(logic_and_tests_give_bools),
        cmocka_unit_test(results_have_the_documented_dtypes),
        cmocka_unit_test(doubles_are_computed_in_double),
        cmocka_unit_test(gates_take_halves_of_an_axis),
        cmocka_unit_test(slopes_belong_to_axis_1),
        cmocka_unit_test(decimals_round_as_pytorch_does),
        cmocka_unit_test(bad_arguments_are_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
