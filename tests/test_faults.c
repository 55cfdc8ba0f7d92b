/* test_faults.c - faults that tensor runtimes keep shipping, one test a claim, on the device that
 * WEFT_TEST_DEVICE names (default: cpu). What an op must equal in general is test_ops; here are the smallest
 * inputs that show a fault, the limits, and what must stay flat over many steps.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "device_context.h"

static weft_ctx *ctx;
static weft_device_info device;

static int open_ctx(void **state)
{
    (void)state;
    ctx = open_test_ctx();
    return ctx && weft_ctx_device(ctx, &device) == WEFT_OK ? 0 : -1;
}

static int close_ctx(void **state)
{
    (void)state;
    weft_ctx_close(ctx);
    return 0;
}

/* ---- short forms ---- */
#define VEC(...) f32_of(DIMS(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (float[]){__VA_ARGS__})
#define EXPECT(t, tolerance, ...) expect(t, sizeof((float[]){__VA_ARGS__}) / sizeof(float), (float[]){__VA_ARGS__}, tolerance)
#define FULL(value, ...) weft_full(ctx, WEFT_DTYPE_F32, DIMS(__VA_ARGS__), value)

static weft_tensor *f32_of(int rank, const int64_t *shape, const float *v)
{
    return weft_tensor_from(ctx, WEFT_DTYPE_F32, rank, shape, v);
}

static weft_tensor *at(int32_t i) { return weft_scalar_i32(ctx, i); }

static void read_ok(weft_tensor *t, void *dst, size_t size_bytes)
{
    weft_status st = weft_read(t, dst, size_bytes);
    if (st != WEFT_OK)
        fail_msg("%s: %s", weft_status_name(st), weft_error_message());
}

static bool near(float got, float want, float tolerance)
{
    return got == want || fabsf(got - want) <= tolerance || (isnan(got) && isnan(want));
}

static void expect(weft_tensor *t, size_t n, const float *want, float tolerance)
{
    float got[256];
    assert_int_equal(weft_tensor_status(t), WEFT_OK);
    assert_int_equal(weft_tensor_numel(t), n);
    weft_status st = weft_read_as(t, WEFT_DTYPE_F32, got, n * sizeof *got);
    if (st != WEFT_OK)
        fail_msg("%s: %s", weft_status_name(st), weft_error_message());
    for (size_t i = 0; i < n; i++)
        if (!near(got[i], want[i], tolerance))
            fail_msg("element %zu is %.9g, expected %.9g", i, got[i], want[i]);
}

static float one_value(weft_tensor *t)
{
    float v = NAN;
    assert_int_equal(weft_tensor_numel(t), 1);
    weft_status st = weft_read_as(t, WEFT_DTYPE_F32, &v, sizeof v);
    if (st != WEFT_OK)
        fail_msg("%s: %s", weft_status_name(st), weft_error_message());
    return v;
}

static weft_stats stats(void)
{
    weft_stats s;
    assert_int_equal(weft_ctx_stats(ctx, &s), WEFT_OK);
    return s;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A test whose handles live in one scope. */
#define TEST(name)                                   \
    static void name##_body(void);                   \
    static void name(void **state)                   \
    {                                                \
        (void)state;                                 \
        weft_scope *scope = weft_scope_begin(ctx);   \
        name##_body();                               \
        weft_scope_end(scope);                       \
    }                                                \
    static void name##_body(void)

#include "faults_values.h"
#include "faults_limits.h"
#include "faults_runtime.h"

int main(void)
{
    const struct CMUnitTest tests[] = {FAULTS_VALUES, FAULTS_LIMITS, FAULTS_RUNTIME};
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
