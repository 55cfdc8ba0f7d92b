/* test_wgsl_run.c - generated WGSL on a WebGPU device, against f64 and against plain C.
 *
 * Bounds are those of op.def in units of eps = 2^-24; integers, conversions and comparisons are exact.
 * Where no adapter can be opened every test is skipped (and fails when WEFT_REQUIRE names webgpu).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hal.h"
#include "kir_fixture.h"
#include "wgsl.h"

static wf_device *dev;
static weft_stats stats;
static atomic_bool cancel;
static uint32_t next_id = 1;

static int open_device(void **state)
{
    (void)state;
    const char *at = getenv("WEFT_TEST_ADAPTER");
    if (wf_webgpu_open(at ? atoi(at) : -1, NULL, &dev) == WEFT_OK) {
        dev->stats = &stats;
        dev->cancel = &cancel;
    }
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    if (dev)
        dev->vt->close(dev);
    return 0;
}

static void need_device(void)
{
    const char *want = getenv("WEFT_REQUIRE");
    if (!dev && want && strstr(want, "webgpu"))
        fail_msg("no WebGPU device: %s", weft_error_message());
    if (!dev)
        skip();
}

#define OK(expr) ok((expr), #expr, __LINE__)
static void ok(weft_status st, const char *what, int line)
{
    if (st != WEFT_OK)
        fail_msg("line %d: %s gives %s: %s", line, what, weft_status_name(st), weft_error_message());
}

/* ---- running a kernel ---- */

typedef struct operand {
    void *bytes;
    size_t n;
} operand;

/* Runs f over its operands, one a binding; written ones are read back. Returns the error word. */
static uint32_t run(fixture *f, const operand *operands, const uint32_t *step, int step_words)
{
    wf_str text = WF_STR_INIT;
    uint32_t ids[WF_MAX_BIND], statics = next_id++, steps = next_id++, program = next_id++, error = 0;
    wf_cmd cmd = {.kind = WF_CMD_DISPATCH, .program = program, .static_bytes = f->k.n_static * 4u};
    uint8_t window[WF_STATIC_MAX_BYTES] = {0}, block[WF_STEP_BYTES] = {0};
    uint64_t fence;

    OK(wf_wgsl_emit(&dev->caps, &f->k, &text));
    wf_program_desc desc = {.kind = WF_PROGRAM_WGSL, .label = "test", .wgsl = text.ptr};
    for (int i = 0; i < f->k.n_bind + f->k.has_error; i++) {
        bool is_error = i == f->k.n_bind;
        const void *bytes = is_error ? (const void *)&error : operands[i].bytes;
        size_t n = is_error ? 4 : operands[i].n, padded = wf_align_up(n, 16);
        uint8_t *copy = calloc(1, padded);
        ids[i] = next_id++;
        memcpy(copy, bytes, n);
        OK(dev->vt->buffer_create(dev, ids[i], padded));
        OK(dev->vt->write(dev, ids[i], 0, copy, padded));
        free(copy);
        desc.access[i] = is_error ? WF_ACCESS_READ_WRITE : f->k.bind[i].access;
        cmd.bind[i] = (wf_bind){.buffer = ids[i], .size = padded};
    }
    desc.n_bind = cmd.n_bind = f->k.n_bind + f->k.has_error;
    OK(dev->vt->program_create(dev, program, &desc));
    wf_wgsl_grid(&dev->caps, &f->k, f->extents, cmd.grid);
    memcpy(window, f->words, sizeof f->words);
    memcpy(block, step, (size_t)step_words * 4);
    OK(dev->vt->buffer_create(dev, statics, sizeof window));
    OK(dev->vt->write(dev, statics, 0, window, sizeof window));
    OK(dev->vt->buffer_create(dev, steps, sizeof block));
    wf_cmdlist list = {.cmds = &cmd, .n_cmds = 1, .static_buffer = statics, .step_buffer = steps, .step = block,
                       .step_bytes = sizeof block};
    OK(dev->vt->submit(dev, &list, &fence));
    OK(dev->vt->wait(dev, fence, -1));
    for (int i = 0; i < (int)cmd.n_bind; i++) {
        bool is_error = i == f->k.n_bind;
        size_t n = is_error ? 4 : operands[i].n;
        if (desc.access[i] & WF_ACCESS_WRITE) {
            uint8_t *copy = calloc(1, wf_align_up(n, 4));
            OK(dev->vt->read(dev, ids[i], 0, copy, wf_align_up(n, 4), &fence));
            OK(dev->vt->wait(dev, fence, -1));
            memcpy(is_error ? (void *)&error : operands[i].bytes, copy, n);
            free(copy);
        }
        dev->vt->buffer_destroy(dev, ids[i]);
    }
    dev->vt->buffer_destroy(dev, statics);
    dev->vt->buffer_destroy(dev, steps);
    dev->vt->program_destroy(dev, program);
    wf_str_free(&text);
    return error;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static uint32_t random_state = 12345;
static uint32_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* out[i] = op(a[i], b[i]) over n elements of one axis. */
static void run_op(wf_kop op, wf_kty type, int n_operands, int64_t n, int vec, weft_dtype in_dtype, weft_dtype out_dtype,
                   void *a, void *b, void *out)
{
    fixture f;
    fx_begin(&f, 1, 0, &n);
    f.k.vec = (uint8_t)vec;
    int ba = fx_bind(&f, in_dtype, WF_ACCESS_READ, false), bb = n_operands > 1 ? fx_bind(&f, in_dtype, WF_ACCESS_READ, false) : -1;
    int bo = fx_bind(&f, out_dtype, WF_ACCESS_WRITE, true);
    fx_stage(&f, WF_KSTAGE_OUTER);
    int at = fx_row_major(&f, 1);
    int va = fx_load(&f, ba, at), vb = bb >= 0 ? fx_load(&f, bb, at) : -1;
    fx_store(&f, bo, at, fx_op(&f, op, type, va, vb, -1));
    size_t in_bytes = weft_dtype_block_bytes(in_dtype) * (size_t)n, out_bytes = weft_dtype_block_bytes(out_dtype) * (size_t)n;
    operand operands[3] = {{a, in_bytes}, {b, in_bytes}};
    operands[bo] = (operand){out, out_bytes};
    run(&f, operands, NULL, 0);
}

/* ---- math ---- */

static const float special[] = {0.0f, -0.0f, 1, -1, 2, -2, 0.5f, -0.5f, 3, 88, -88, 88.7f, 88.73f, -87.4f, -103.9f, -104.1f, 1e-30f, -1e-30f,
                                1e30f, 1e-40f, -1e-40f, 1e-45f, 3.4e38f, -3.4e38f, INFINITY, -INFINITY, NAN, 1e5f, 1e8f, 3e20f,
                                3.1415927f, 1.5707964f, 6.2831855f, 0.875f, 0.625f, 1.1754944e-38f, 1048575.0f, 16777216.0f,
                                0.99999994f, 1.0000001f, 4, 9.1f, 2.5f, -2.5f, 300, 21600, 72, -0.1f};

/* Half the values spread over all exponents, half in [-range, range]. */
static float *make_inputs(int64_t n, float range)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        if (i < (int64_t)WF_COUNT(special))
            x[i] = special[i];
        else if (i & 1)
            x[i] = float_of(random_bits());
        else
            x[i] = range * ((float)(int32_t)random_bits() * 0x1p-31f);
    }
    return x;
}

static double rsqrt_of(double x) { return 1 / sqrt(x); }

typedef struct unary {
    const char *name;
    wf_kop op;
    double (*f)(double);
    double bound;    /* in eps */
    bool absolute;   /* against 1, not the result */
    float range;
} unary;

static double error_in_eps(float got, double want, bool absolute)
{
    float rounded = (float)want;
    if (isnan(want) || isinf(rounded))
        return isnan(want) ? (isnan(got) ? 0 : INFINITY) : got == rounded || fabs(got) > 3.402823e38f ? 0 : INFINITY;
    if (isnan(got) || isinf(got))
        return INFINITY;
    double scale = absolute ? 1 : fmax(fabs(want), 0x1p-126); /* below, the grid is that of the smallest normal */
    return fabs((double)got - want) / scale * 0x1p24;
}

static void unary_functions_meet_their_bounds(void **state)
{
    (void)state;
    static const unary table[] = {
        {"exp", WF_KOP_EXP, exp, 4, false, 100},         {"log", WF_KOP_LOG, log, 4, false, 10},
        {"sqrt", WF_KOP_SQRT, sqrt, 3, false, 10},       {"rsqrt", WF_KOP_RSQRT, rsqrt_of, 4, false, 10},
        {"sin", WF_KOP_SIN, sin, 4, true, 50},           {"cos", WF_KOP_COS, cos, 4, true, 50},
        {"tanh", WF_KOP_TANH, tanh, 6, false, 5},        {"erf", WF_KOP_ERF, erf, 6, false, 4},
        {"floor", WF_KOP_FLOOR, floor, 0, false, 100},   {"abs", WF_KOP_ABS, fabs, 0, false, 1},
    };
    enum { N = 1 << 17 };
    need_device();
    for (size_t t = 0; t < WF_COUNT(table); t++) {
        float *x = make_inputs(N, table[t].range), *y = malloc(N * sizeof *y), worst_x = 0;
        double worst = -1;
        run_op(table[t].op, WF_KTY_F32, 1, N, 4, WEFT_DTYPE_F32, WEFT_DTYPE_F32, x, NULL, y);
        for (int i = 0; i < N; i++) {
            double e = error_in_eps(y[i], table[t].f(x[i]), table[t].absolute);
            if (e > worst) {
                worst = e;
                worst_x = x[i];
            }
        }
        if (getenv("WEFT_TEST_VERBOSE"))
            printf("%s: %.2f eps at %.9g\n", table[t].name, worst, (double)worst_x);
        if (!(worst <= table[t].bound))
            fail_msg("%s: %.2f eps at %.9g (0x%08x), bound %g", table[t].name, worst, (double)worst_x, bits_of(worst_x),
                     table[t].bound);
        free(x);
        free(y);
    }
}

static double add_of(double a, double b) { return a + b; }
static double sub_of(double a, double b) { return a - b; }
static double mul_of(double a, double b) { return a * b; }
static double div_of(double a, double b) { return a / b; }
static double max_of(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }
static double min_of(double a, double b) { return isnan(a) || isnan(b) ? NAN : a < b ? a : b; }

static void binary_functions_meet_their_bounds(void **state)
{
    (void)state;
    static const struct { const char *name; wf_kop op; double (*f)(double, double); double bound; float range; } table[] = {
        {"add", WF_KOP_ADD, add_of, 1, 10}, {"sub", WF_KOP_SUB, sub_of, 1, 10}, {"mul", WF_KOP_MUL, mul_of, 1, 10},
        {"div", WF_KOP_DIV, div_of, 3, 10}, {"pow", WF_KOP_POW, pow, 16, 20},
        {"max", WF_KOP_MAX, max_of, 0, 10}, {"min", WF_KOP_MIN, min_of, 0, 10},
    };
    enum { N = 1 << 17, S = WF_COUNT(special) };
    need_device();
    for (size_t t = 0; t < WF_COUNT(table); t++) {
        float *a = make_inputs(N, table[t].range), *b = make_inputs(N, table[t].range), *y = malloc(N * sizeof *y);
        double worst = -1;
        int at = 0;
        for (int i = 0; i < S * S; i++) { /* all pairs of special values */
            a[i] = special[i / S];
            b[i] = special[i % S];
        }
        for (int i = S * S; i < N; i += 3)
            a[i] = fabsf(a[i]);
        run_op(table[t].op, WF_KTY_F32, 2, N, 4, WEFT_DTYPE_F32, WEFT_DTYPE_F32, a, b, y);
        for (int i = 0; i < N; i++) {
            bool tiny_operand = fabsf(a[i]) < 0x1p-126f || fabsf(b[i]) < 0x1p-126f;
            if (table[t].op <= WF_KOP_MUL && tiny_operand && (a[i] != 0 && b[i] != 0))
                continue; /* WGSL may flush subnormal operands of + - and * */
            double e = error_in_eps(y[i], table[t].f(a[i], b[i]), false);
            if (table[t].op <= WF_KOP_MUL && fabs(table[t].f(a[i], b[i])) < 0x1p-125)
                e = 0; /* and subnormal results */
            if (e > worst) {
                worst = e;
                at = i;
            }
        }
        if (getenv("WEFT_TEST_VERBOSE"))
            printf("%s: %.2f eps at %.9g, %.9g\n", table[t].name, worst, (double)a[at], (double)b[at]);
        if (!(worst <= table[t].bound))
            fail_msg("%s: %.2f eps at (%.9g, %.9g) -> %.9g, bound %g", table[t].name, worst, (double)a[at], (double)b[at],
                     (double)y[at], table[t].bound);
        free(a);
        free(b);
        free(y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_functions_meet_their_bounds),
        cmocka_unit_test(binary_functions_meet_their_bounds),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
