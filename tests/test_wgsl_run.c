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
    if (!dev) {
        print_message("skip: webgpu: no device\n");
        skip();
    }
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

static int32_t found[4]; /* the error words of the last run */

/* Runs f over its operands, one a binding; written ones are read back. Returns the first error word. */
static uint32_t run(fixture *f, const operand *operands, const uint32_t *step, int step_words)
{
    wf_str text = WF_STR_INIT;
    uint32_t ids[WF_MAX_BIND], statics = next_id++, steps = next_id++, program = next_id++;
    wf_cmd cmd = {.kind = WF_CMD_DISPATCH, .program = program, .static_bytes = f->k.n_static * 4u};
    uint8_t window[WF_STATIC_MAX_BYTES] = {0}, block[WF_STEP_BYTES] = {0};
    uint64_t fence;

    memset(found, 0, sizeof found);
    OK(wf_wgsl_emit(&dev->caps, &f->k, &text));
    wf_program_desc desc = {.kind = WF_PROGRAM_WGSL, .label = "test", .wgsl = text.ptr};
    for (int i = 0; i < f->k.n_bind + f->k.has_error; i++) {
        bool is_error = i == f->k.n_bind;
        const void *bytes = is_error ? (const void *)found : operands[i].bytes;
        size_t n = is_error ? sizeof found : operands[i].n, padded = wf_align_up(n, 16);
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
    if (step_words)
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
        size_t n = is_error ? sizeof found : operands[i].n;
        if (desc.access[i] & WF_ACCESS_WRITE) {
            uint8_t *copy = calloc(1, wf_align_up(n, 4));
            OK(dev->vt->read(dev, ids[i], 0, copy, wf_align_up(n, 4), &fence));
            OK(dev->vt->wait(dev, fence, -1));
            memcpy(is_error ? (void *)found : operands[i].bytes, copy, n);
            free(copy);
        }
        dev->vt->buffer_destroy(dev, ids[i]);
    }
    dev->vt->buffer_destroy(dev, statics);
    dev->vt->buffer_destroy(dev, steps);
    dev->vt->program_destroy(dev, program);
    wf_str_free(&text);
    return (uint32_t)found[WF_ERROR_SET];
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

static double neg_of(double x) { return -x; }
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
        {"neg", WF_KOP_NEG, neg_of, 0, false, 1},
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

/* ---- conversions ---- */

static const weft_dtype plain[] = {WEFT_DTYPE_F32, WEFT_DTYPE_F16, WEFT_DTYPE_BF16, WEFT_DTYPE_I32,
                                   WEFT_DTYPE_U32, WEFT_DTYPE_I8,  WEFT_DTYPE_U8,   WEFT_DTYPE_BOOL};

/* A value of each compute type, wide enough for all. */
typedef struct value {
    float f;
    int64_t i;
} value;

static value decode(weft_dtype dtype, const void *bytes, int64_t at)
{
    value v = {0};
    const uint8_t *p = (const uint8_t *)bytes + at * (int64_t)weft_dtype_block_bytes(dtype);
    uint16_t h;
    uint32_t u;
    memcpy(&u, p, weft_dtype_block_bytes(dtype) == 4 ? 4 : 1);
    switch (dtype) {
    case WEFT_DTYPE_F32: v.f = float_of(u); break;
    case WEFT_DTYPE_F16: memcpy(&h, p, 2); v.f = wf_f16_to_f32(h); break;
    case WEFT_DTYPE_BF16: memcpy(&h, p, 2); v.f = wf_bf16_to_f32(h); break;
    case WEFT_DTYPE_I32: v.i = (int32_t)u; break;
    case WEFT_DTYPE_U32: v.i = u; break;
    case WEFT_DTYPE_I8: v.i = (int8_t)*p; break;
    case WEFT_DTYPE_U8: v.i = *p; break;
    default: v.i = *p != 0; break;
    }
    return v;
}

static int64_t truncated(float f, double lo, double hi)
{
    return isnan(f) ? 0 : f <= lo ? (int64_t)lo : f >= hi ? (int64_t)hi : (int64_t)f;
}

/* CAST between compute types, then the storage conversion. */
static uint32_t expected_bits(weft_dtype from, weft_dtype to, value v)
{
    wf_kty a = wf_kty_of_dtype(from), b = wf_kty_of_dtype(to);
    if (a == WF_KTY_F32 && b == WF_KTY_I32)
        v.i = truncated(v.f, -2147483648.0, 2147483647.0);
    else if (a == WF_KTY_F32 && b == WF_KTY_U32)
        v.i = truncated(v.f, 0, 4294967295.0);
    else if (a == WF_KTY_F32 && b == WF_KTY_BOOL)
        v.i = v.f != 0;
    else if (b == WF_KTY_BOOL)
        v.i = v.i != 0;
    else if (a != WF_KTY_F32 && b == WF_KTY_F32)
        v.f = (float)v.i;
    switch (to) {
    case WEFT_DTYPE_F32: return bits_of(v.f);
    case WEFT_DTYPE_F16: return wf_f32_to_f16(v.f);
    case WEFT_DTYPE_BF16: return wf_f32_to_bf16(v.f);
    case WEFT_DTYPE_I8:
    case WEFT_DTYPE_U8: return (uint32_t)v.i & 0xff;
    default: return (uint32_t)v.i;
    }
}

static uint32_t stored_bits(weft_dtype dtype, const void *bytes, int64_t at)
{
    uint32_t u = 0;
    size_t n = weft_dtype_block_bytes(dtype);
    memcpy(&u, (const uint8_t *)bytes + (size_t)at * n, n);
    return u;
}

static void fill_random(weft_dtype dtype, void *bytes, int64_t n)
{
    size_t width = weft_dtype_block_bytes(dtype);
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = random_bits();
        if (dtype == WEFT_DTYPE_BOOL)
            u &= 1;
        else if (dtype == WEFT_DTYPE_F32 && i % 4 == 0)
            u = bits_of((float)(int32_t)(u % 20001 - 10000) / 64);
        else if (dtype == WEFT_DTYPE_F32 && i % 4 == 1) /* around the range of f16, subnormals and ties included */
            u = (u & 0x80003fffu) | (u >> 3 & 0x7fc000u) | (102 + u % 42) << 23;
        else if (dtype == WEFT_DTYPE_F32 && i % 4 == 2)
            u = bits_of(special[u % WF_COUNT(special)]);
        memcpy((uint8_t *)bytes + (size_t)i * width, &u, width);
    }
}

/* Element j of `in` became element i of `out`. */
static void check_converted(weft_dtype from, weft_dtype to, const void *in, int64_t j, const void *out, int64_t i)
{
    value x = decode(from, in, j);
    uint32_t got = stored_bits(to, out, i), want = expected_bits(from, to, x);
    bool nan = to == WEFT_DTYPE_F32 && isnan(x.f) && isnan(float_of(got)); /* any NaN will do in f32 */
    if (got != want && !nan)
        fail_msg("%s to %s: element %lld: %.9g / %lld gives 0x%x, expected 0x%x", weft_dtype_name(from), weft_dtype_name(to),
                 (long long)i, (double)x.f, (long long)x.i, got, want);
}

static void check_copy(weft_dtype from, weft_dtype to, int vec, bool linear, bool wide, int64_t n, bool reversed)
{
    fixture f;
    size_t in_bytes = weft_dtype_block_bytes(from) * (size_t)n, out_bytes = weft_dtype_block_bytes(to) * (size_t)n;
    uint8_t *in = malloc(in_bytes), *out = malloc(out_bytes + 4);
    fill_random(from, in, n);
    memset(out, 0xa5, out_bytes + 4);
    fx_begin(&f, 1, 0, &n);
    f.k.vec = (uint8_t)vec;
    int a = fx_bind(&f, from, WF_ACCESS_READ, false), b = fx_bind(&f, to, WF_ACCESS_WRITE, linear);
    f.k.bind[a].wide = wide;
    fx_stage(&f, WF_KSTAGE_OUTER);
    int at = fx_affine(&f, reversed ? (int32_t[]){(int32_t)n - 1, -1} : (int32_t[]){0, 1}), to_at = fx_row_major(&f, 1);
    int v = fx_load(&f, a, at);
    wf_kty to_type = wf_kty_of_dtype(to);
    if (f.k.instr[v].type != to_type)
        v = fx_op(&f, WF_KOP_CAST, to_type, v, -1, -1);
    fx_store(&f, b, to_at, v);
    run(&f, (operand[]){{in, in_bytes}, {out, out_bytes}}, NULL, 0);
    for (int64_t i = 0; i < n; i++)
        check_converted(from, to, in, reversed ? n - 1 - i : i, out, i);
    free(in);
    free(out);
}

/* Four outputs a kernel. */
static void every_conversion_is_exact(void **state)
{
    (void)state;
    enum { N = 4099 };
    need_device();
    for (size_t i = 0; i < WF_COUNT(plain); i++)
        for (size_t first = 0; first < WF_COUNT(plain); first += 4) {
            fixture f;
            int64_t n = N;
            uint8_t *in = malloc(N * 4), *out[4];
            operand operands[5] = {{in, N * weft_dtype_block_bytes(plain[i])}};
            fill_random(plain[i], in, N);
            fx_begin(&f, 1, 0, &n);
            int a = fx_bind(&f, plain[i], WF_ACCESS_READ, false);
            fx_stage(&f, WF_KSTAGE_OUTER);
            int at = fx_row_major(&f, 1), v = fx_load(&f, a, at);
            for (size_t j = 0; j < 4; j++) {
                weft_dtype to = plain[first + j];
                wf_kty type = wf_kty_of_dtype(to);
                int b = fx_bind(&f, to, WF_ACCESS_WRITE, (i + j) % 3 != 0);
                out[j] = calloc(N, 4);
                operands[b] = (operand){out[j], N * weft_dtype_block_bytes(to)};
                fx_store(&f, b, at, f.k.instr[v].type == type ? v : fx_op(&f, WF_KOP_CAST, type, v, -1, -1));
            }
            run(&f, operands, NULL, 0);
            for (size_t j = 0; j < 4; j++) {
                for (int64_t e = 0; e < N; e++)
                    check_converted(plain[i], plain[first + j], in, e, out[j], e);
                free(out[j]);
            }
            free(in);
        }
}

static void sub_word_outputs_keep_their_neighbours(void **state)
{
    (void)state;
    need_device();
    static const weft_dtype dtypes[] = {WEFT_DTYPE_F32, WEFT_DTYPE_F16, WEFT_DTYPE_U8};
    for (size_t j = 0; j < WF_COUNT(dtypes); j++)
        for (int vec = 1; vec <= 4; vec *= 2)
            for (int linear = 0; linear < 2; linear++)
                check_copy(WEFT_DTYPE_F32, dtypes[j], vec, linear, false, vec == 1 ? 515 : 516, true);
}

static void wide_loads_give_the_same_values(void **state)
{
    (void)state;
    need_device();
    for (size_t i = 0; i < WF_COUNT(plain); i++)
        for (int vec = 2; vec <= 4; vec *= 2)
            check_copy(plain[i], WEFT_DTYPE_F32, vec, true, true, 1028, false);
}

static void every_f16_loads_exactly(void **state)
{
    (void)state;
    enum { N = 65536 };
    uint16_t *in = malloc(N * sizeof *in);
    float *out = malloc(N * sizeof *out);
    fixture f;
    int64_t n = N;
    need_device();
    for (int dtype = WEFT_DTYPE_F16; dtype <= WEFT_DTYPE_BF16; dtype++) {
        for (int i = 0; i < N; i++)
            in[i] = (uint16_t)i;
        fx_begin(&f, 1, 0, &n);
        int a = fx_bind(&f, (weft_dtype)dtype, WF_ACCESS_READ, false), b = fx_bind(&f, WEFT_DTYPE_F32, WF_ACCESS_WRITE, true);
        fx_stage(&f, WF_KSTAGE_OUTER);
        int at = fx_row_major(&f, 1);
        fx_store(&f, b, at, fx_load(&f, a, at));
        run(&f, (operand[]){{in, N * sizeof *in}, {out, N * sizeof *out}}, NULL, 0);
        for (int i = 0; i < N; i++) {
            float want = dtype == WEFT_DTYPE_F16 ? wf_f16_to_f32((uint16_t)i) : wf_bf16_to_f32((uint16_t)i);
            if (bits_of(out[i]) != bits_of(want) && !(isnan(want) && isnan(out[i])))
                fail_msg("%s 0x%04x loads as 0x%08x, expected 0x%08x", weft_dtype_name((weft_dtype)dtype), i, bits_of(out[i]),
                         bits_of(want));
        }
    }
    free(in);
    free(out);
}

/* ---- integers, comparisons ---- */

static int64_t wrap(wf_kty type, int64_t v) { return type == WF_KTY_I32 ? (int32_t)v : (int64_t)(uint32_t)v; }

static int64_t integer_result(wf_kop op, wf_kty type, int64_t a, int64_t b)
{
    switch (op) {
    case WF_KOP_ADD: return wrap(type, a + b);
    case WF_KOP_SUB: return wrap(type, a - b);
    case WF_KOP_MUL: return wrap(type, (int64_t)((uint64_t)a * (uint64_t)b));
    case WF_KOP_DIV: return b == 0 ? 0 : wrap(type, a / b);
    case WF_KOP_MOD: return b == 0 ? 0 : wrap(type, a % b);
    case WF_KOP_MAX: return a > b ? a : b;
    case WF_KOP_MIN: return a < b ? a : b;
    case WF_KOP_MULHI: return (int64_t)((uint64_t)a * (uint64_t)b >> 32);
    case WF_KOP_AND: return a & b;
    case WF_KOP_OR: return a | b;
    case WF_KOP_XOR: return wrap(type, a ^ b);
    case WF_KOP_SHL: return wrap(type, (int64_t)((uint64_t)a << (b & 31)));
    case WF_KOP_SHR: return a >> (b & 31);
    case WF_KOP_NEG: return wrap(type, -a);
    case WF_KOP_ABS: return wrap(type, a < 0 ? -a : a);
    case WF_KOP_NOT: return wrap(type, ~a);
    case WF_KOP_EQ: return a == b;
    case WF_KOP_NE: return a != b;
    case WF_KOP_LT: return a < b;
    case WF_KOP_LE: return a <= b;
    case WF_KOP_GT: return a > b;
    default: return a >= b;
    }
}

/* All of `ops` on a and b in one kernel (a pipeline costs more than its run): op t of pair i in out[t * n + i]. */
static void run_ops(const wf_kop *ops, size_t n_ops, wf_kty type, weft_dtype dtype, void *a, void *b, int64_t n, int vec, uint32_t *out)
{
    fixture f;
    fx_begin(&f, 1, 0, &n);
    f.k.vec = (uint8_t)vec;
    int ba = fx_bind(&f, dtype, WF_ACCESS_READ, false), bb = fx_bind(&f, dtype, WF_ACCESS_READ, false);
    int bo = fx_bind(&f, WEFT_DTYPE_U32, WF_ACCESS_WRITE, false);
    fx_stage(&f, WF_KSTAGE_OUTER);
    int at = fx_row_major(&f, 1), x = fx_load(&f, ba, at), y = fx_load(&f, bb, at);
    for (size_t t = 0; t < n_ops; t++) {
        bool compare = ops[t] >= WF_KOP_EQ && ops[t] <= WF_KOP_GE;
        int v = fx_op(&f, ops[t], compare ? WF_KTY_BOOL : type, x, y, -1);
        if (compare || type != WF_KTY_U32)
            v = fx_op(&f, WF_KOP_CAST, WF_KTY_U32, v, -1, -1);
        fx_store(&f, bo, fx_affine(&f, (int32_t[]){(int32_t)(t * (size_t)n), 1}), v);
    }
    run(&f, (operand[]){{a, (size_t)n * 4}, {b, (size_t)n * 4}, {out, n_ops * (size_t)n * 4}}, NULL, 0);
}

static void integer_operations_are_exact(void **state)
{
    (void)state;
    static const wf_kop ops[] = {WF_KOP_ADD, WF_KOP_SUB, WF_KOP_MUL, WF_KOP_DIV, WF_KOP_MOD, WF_KOP_MAX, WF_KOP_MIN, WF_KOP_AND,
                                 WF_KOP_OR,  WF_KOP_XOR, WF_KOP_SHL, WF_KOP_SHR, WF_KOP_NEG, WF_KOP_ABS, WF_KOP_NOT, WF_KOP_EQ,
                                 WF_KOP_NE,  WF_KOP_LT,  WF_KOP_LE,  WF_KOP_GT,  WF_KOP_GE,  WF_KOP_MULHI};
    static const uint32_t edge[] = {0, 1, 2, 3, 7, 31, 32, 0x7fffffffu, 0x80000000u, 0x80000001u, 0xffffffffu, 0xfffffffeu, 65536, 100000};
    enum { E = WF_COUNT(edge), N = 1024 };
    uint32_t a[N], b[N], *out = malloc(sizeof a * WF_COUNT(ops));
    need_device();
    for (int i = 0; i < N; i++) {
        a[i] = i < E * E ? edge[i / E] : random_bits() >> (i % 32);
        b[i] = i < E * E ? edge[i % E] : random_bits() >> (i / 32 % 32);
    }
    for (int type = WF_KTY_I32; type <= WF_KTY_U32; type++) {
        bool is_signed = type == WF_KTY_I32;
        size_t n_ops = WF_COUNT(ops) - is_signed; /* MULHI is of U32 */
        run_ops(ops, n_ops, (wf_kty)type, is_signed ? WEFT_DTYPE_I32 : WEFT_DTYPE_U32, a, b, N, is_signed ? 4 : 1, out);
        for (size_t t = 0; t < n_ops; t++)
            for (int i = 0; i < N; i++) {
                int64_t x = is_signed ? (int32_t)a[i] : (int64_t)a[i], y = is_signed ? (int32_t)b[i] : (int64_t)b[i];
                uint32_t want = (uint32_t)integer_result(ops[t], (wf_kty)type, x, y), got = out[t * N + (size_t)i];
                if (want != got)
                    fail_msg("%s, signed %d: (%lld, %lld) gives 0x%x, expected 0x%x", wf_kop_name[ops[t]], is_signed,
                             (long long)x, (long long)y, got, want);
            }
    }
    free(out);
}

static void float_comparisons_see_nan_and_subnormals(void **state)
{
    (void)state;
    static const wf_kop ops[] = {WF_KOP_EQ, WF_KOP_NE, WF_KOP_LT, WF_KOP_LE, WF_KOP_GT, WF_KOP_GE};
    enum { S = WF_COUNT(special), N = S * S };
    float *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
    uint32_t *out = malloc(N * sizeof *out * WF_COUNT(ops));
    need_device();
    for (int i = 0; i < N; i++) {
        a[i] = special[i / S];
        b[i] = special[i % S];
    }
    run_ops(ops, WF_COUNT(ops), WF_KTY_F32, WEFT_DTYPE_F32, a, b, N, 1, out);
    for (size_t t = 0; t < WF_COUNT(ops); t++)
        for (int i = 0; i < N; i++) {
            bool lt = a[i] < b[i], eq = a[i] == b[i], gt = a[i] > b[i];
            bool want = (bool[]){eq, !eq, lt, lt || eq, gt, gt || eq}[t];
            if (out[t * N + (size_t)i] != want)
                fail_msg("%s(%.9g, %.9g) gives %u", wf_kop_name[ops[t]], (double)a[i], (double)b[i], out[t * N + (size_t)i]);
        }
    free(a);
    free(b);
    free(out);
}

/* not(a < b) must not become a >= b, and inf * 0 must not become 0. */
static void drivers_do_not_fold_nan_away(void **state)
{
    (void)state;
    float a[4] = {NAN, INFINITY, 1, -INFINITY}, out[8] = {0};
    fixture f;
    int64_t n = 4;
    need_device();
    fx_begin(&f, 1, 0, &n);
    int in = fx_bind(&f, WEFT_DTYPE_F32, WF_ACCESS_READ, false), o = fx_bind(&f, WEFT_DTYPE_F32, WF_ACCESS_WRITE, false);
    fx_stage(&f, WF_KSTAGE_OUTER);
    int at = fx_row_major(&f, 1), x = fx_load(&f, in, at), zero = fx_f32(&f, 0), seven = fx_f32(&f, 7);
    int product = fx_op(&f, WF_KOP_MUL, WF_KTY_F32, x, zero, -1);
    int lt = fx_op(&f, WF_KOP_LT, WF_KTY_BOOL, x, zero, -1);
    int not = fx_op(&f, WF_KOP_NOT, WF_KTY_BOOL, lt, -1, -1);
    int pick = fx_op(&f, WF_KOP_SELECT, WF_KTY_F32, not, seven, x);
    fx_store(&f, o, at, product);
    fx_store(&f, o, fx_affine(&f, (int32_t[]){4, 1}), pick);
    run(&f, (operand[]){{a, sizeof a}, {out, sizeof out}}, NULL, 0);
    assert_true(isnan(out[0]) && isnan(out[1]) && isnan(out[3]));
    assert_true(out[2] == 0);
    assert_true(out[4] == 7 && out[5] == 7 && out[6] == 7 && out[7] == -INFINITY);
}

/* ---- rows ---- */

typedef struct rows_case {
    weft_dtype dtype;
    wf_krop rop;
    int outer, inner_a, inner_b; /* extents; x is [inner_a, outer, inner_b] seen with axes (outer, a, b) */
} rows_case;

static void check_rows(const rows_case *c, wf_kstrategy strategy)
{
    fixture f;
    int64_t n = (int64_t)c->outer * c->inner_a * c->inner_b, inner = (int64_t)c->inner_a * c->inner_b;
    size_t width = weft_dtype_block_bytes(c->dtype);
    bool arg = c->rop >= WF_KROP_ARGMAX;
    weft_dtype out_dtype = arg ? WEFT_DTYPE_I32 : c->dtype;
    size_t in_bytes = (size_t)WF_MAX(n, 1) * width, out_bytes = (size_t)c->outer * weft_dtype_block_bytes(out_dtype);
    uint8_t *x = calloc(1, in_bytes), *y = calloc(1, out_bytes + 4);
    fill_random(c->dtype, x, n);
    if (c->dtype == WEFT_DTYPE_F32)
        for (int64_t i = 0; i < n; i++)
            if (c->rop <= WF_KROP_PROD || isnan(float_of(stored_bits(c->dtype, x, i)))) {
                float v = c->rop == WF_KROP_PROD ? (i % 3 ? 1.0f : i % 2 ? -2.0f : 0.5f) : (float)(int32_t)(random_bits() % 65536) - 32768;
                memcpy(x + i * 4, &v, 4);
            }
    if (c->dtype == WEFT_DTYPE_F32 && c->rop >= WF_KROP_MAX && inner > 5) /* two NaN in row 1 */
        for (int64_t i = inner - 5; i < inner && c->outer > 1; i += 3) {
            float nan = NAN;
            memcpy(x + 4 * (size_t)(i / c->inner_b * c->outer * c->inner_b + c->inner_b + i % c->inner_b), &nan, 4);
        }
    fx_begin(&f, 1, 2, (int64_t[]){c->outer, c->inner_a, c->inner_b});
    f.k.strategy = (uint8_t)strategy;
    int a = fx_bind(&f, c->dtype, WF_ACCESS_READ, false), b = fx_bind(&f, out_dtype, WF_ACCESS_WRITE, true);
    fx_stage(&f, WF_KSTAGE_REDUCE);
    fx_fold(&f, c->rop, fx_load(&f, a, fx_affine(&f, (int32_t[]){0, c->inner_b, c->outer * c->inner_b, 1})));
    fx_stage(&f, WF_KSTAGE_OUTER);
    int acc = fx_acc(&f, 0, 0);
    fx_store(&f, b, fx_row_major(&f, 1), acc);
    run(&f, (operand[]){{x, in_bytes}, {y, out_bytes}}, NULL, 0);

    wf_kty type = wf_kty_of_dtype(c->dtype);
    for (int64_t r = 0; r < c->outer; r++) {
        bool nan = false, max = c->rop == WF_KROP_MAX || c->rop == WF_KROP_ARGMAX;
        double best = max ? -INFINITY : INFINITY, sum = 0, product = 1, magnitude = 0;
        int64_t at = 0, isum = 0, iproduct = 1;
        for (int64_t i = 0; i < inner; i++) {
            value e = decode(c->dtype, x, (i / c->inner_b) * c->outer * c->inner_b + r * c->inner_b + i % c->inner_b);
            double v = type == WF_KTY_F32 ? (double)e.f : (double)e.i;
            if (!nan && (isnan(v) || (max ? v > best : v < best))) {
                best = v;
                at = i;
                nan = isnan(v);
            }
            sum += v;
            magnitude += fabs(v);
            product *= v;
            isum = wrap(type, isum + e.i);
            iproduct = wrap(type, (int64_t)((uint64_t)iproduct * (uint64_t)e.i));
        }
        uint32_t got = stored_bits(out_dtype, y, r);
        double want = c->rop == WF_KROP_SUM ? sum : c->rop == WF_KROP_PROD ? product : best;
        double bound = c->rop == WF_KROP_SUM ? ((double)inner + 2) * 0x1p-24 * magnitude
                                             : c->rop == WF_KROP_PROD ? ((double)inner + 2) * 0x1p-24 * fabs(product) : 0;
        bool right;
        if (arg)
            right = (int64_t)(int32_t)got == at;
        else if (type == WF_KTY_F32)
            right = nan ? isnan(float_of(got)) : (double)float_of(got) == want || fabs((double)float_of(got) - want) <= bound;
        else if (inner == 0 && c->rop >= WF_KROP_MAX)
            right = true;
        else {
            int64_t v = c->rop == WF_KROP_SUM ? isum : c->rop == WF_KROP_PROD ? iproduct : (int64_t)best;
            right = (got ^ (uint32_t)v) << (32 - 8 * width) == 0;
        }
        if (!right)
            fail_msg("reduction %d of %s, strategy %d, [%d, %d, %d], row %lld: 0x%x (%.9g), expected %.9g, index %lld", c->rop,
                     weft_dtype_name(c->dtype), strategy, c->outer, c->inner_a, c->inner_b, (long long)r, got,
                     (double)float_of(got), want, (long long)at);
    }
    free(x);
    free(y);
}

static void reductions_agree_with_plain_loops(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_DTYPE_F32, WEFT_DTYPE_I32, WEFT_DTYPE_U32, WEFT_DTYPE_U8, WEFT_DTYPE_BOOL};
    need_device();
    for (size_t d = 0; d < WF_COUNT(dtypes); d++)
        for (int rop = 0; rop <= WF_KROP_ARGMIN; rop++)
            for (int strategy = 0; strategy <= WF_KSTRAT_LANES; strategy++) {
                if ((dtypes[d] == WEFT_DTYPE_BOOL && rop <= WF_KROP_PROD) || (d > 1 && (rop + strategy) % 2))
                    continue;
                check_rows(&(rows_case){dtypes[d], (wf_krop)rop, 5, 7, 91}, (wf_kstrategy)strategy);
            }
}

static void reductions_take_any_extent(void **state)
{
    (void)state;
    need_device();
    for (int strategy = 0; strategy <= WF_KSTRAT_LANES; strategy++) {
        check_rows(&(rows_case){WEFT_DTYPE_F32, WF_KROP_SUM, 3, 1, 1}, (wf_kstrategy)strategy);
        check_rows(&(rows_case){WEFT_DTYPE_F32, WF_KROP_SUM, 3, 1, 0}, (wf_kstrategy)strategy);
        check_rows(&(rows_case){WEFT_DTYPE_F32, WF_KROP_MAX, 2, 3, 0}, (wf_kstrategy)strategy);
        check_rows(&(rows_case){WEFT_DTYPE_F32, WF_KROP_ARGMAX, 1, 1, 70001}, (wf_kstrategy)strategy);
        check_rows(&(rows_case){WEFT_DTYPE_I32, WF_KROP_PROD, 700, 2, 3}, (wf_kstrategy)strategy);
        for (int rows = 7; rows <= 9; rows++) /* around the rows that share a work group */
            check_rows(&(rows_case){WEFT_DTYPE_F32, WF_KROP_ARGMIN, rows, 3, 33}, (wf_kstrategy)strategy);
    }
}

/* softmax of rows in f16, written over its input */
static void map_stages_see_accumulators(void **state)
{
    (void)state;
    enum { R = 3, C = 333 };
    uint16_t x[R * C], y[R * C];
    fixture f;
    need_device();
    for (int strategy = 0; strategy <= WF_KSTRAT_LANES; strategy++) {
        for (int i = 0; i < R * C; i++)
            x[i] = wf_f32_to_f16((float)(random_bits() % 2000) / 100 - 10);
        memcpy(y, x, sizeof x);
        fx_begin(&f, 1, 1, (int64_t[]){R, C});
        f.k.strategy = (uint8_t)strategy;
        int b = fx_bind(&f, WEFT_DTYPE_F16, WF_ACCESS_READ_WRITE, true);
        fx_stage(&f, WF_KSTAGE_REDUCE);
        fx_fold(&f, WF_KROP_MAX, fx_load(&f, b, fx_row_major(&f, 2)));
        fx_stage(&f, WF_KSTAGE_REDUCE);
        int v = fx_load(&f, b, fx_row_major(&f, 2)), m = fx_acc(&f, 0, 0);
        fx_fold(&f, WF_KROP_SUM, fx_op(&f, WF_KOP_EXP, WF_KTY_F32, fx_op(&f, WF_KOP_SUB, WF_KTY_F32, v, m, -1), -1, -1));
        fx_stage(&f, WF_KSTAGE_OUTER);
        int one = fx_f32(&f, 1), s = fx_acc(&f, 1, 0), r = fx_op(&f, WF_KOP_DIV, WF_KTY_F32, one, s, -1);
        fx_stage(&f, WF_KSTAGE_MAP);
        int at = fx_row_major(&f, 2), u = fx_load(&f, b, at), top = fx_acc(&f, 0, 0);
        int e = fx_op(&f, WF_KOP_EXP, WF_KTY_F32, fx_op(&f, WF_KOP_SUB, WF_KTY_F32, u, top, -1), -1, -1);
        fx_store(&f, b, at, fx_op(&f, WF_KOP_MUL, WF_KTY_F32, e, r, -1));
        run(&f, (operand[]){{y, sizeof y}}, NULL, 0);
        for (int row = 0; row < R; row++) {
            double max = -INFINITY, sum = 0;
            for (int i = 0; i < C; i++)
                max = fmax(max, wf_f16_to_f32(x[row * C + i]));
            for (int i = 0; i < C; i++)
                sum += exp(wf_f16_to_f32(x[row * C + i]) - max);
            for (int i = 0; i < C; i++) {
                double want = exp(wf_f16_to_f32(x[row * C + i]) - max) / sum, got = wf_f16_to_f32(y[row * C + i]);
                if (!(fabs(got - want) <= want * 0x1p-10 + 0x1p-24))
                    fail_msg("strategy %d, [%d, %d]: %.9g, expected %.9g", strategy, row, i, got, want);
            }
        }
    }
}

/* Rows of odd length share words: each row writes x - max in a narrow type beside an i32 output. */
static void narrow_map_outputs_keep_their_neighbours(void **state)
{
    (void)state;
    static const struct { weft_dtype a, b; int rows, a_inner, b_inner; } cases[] = {
        {WEFT_DTYPE_F16, WEFT_DTYPE_I32, 7, 3, 5},  {WEFT_DTYPE_U8, WEFT_DTYPE_I32, 9, 1, 7}, {WEFT_DTYPE_U8, WEFT_DTYPE_BOOL, 5, 1, 1},
        {WEFT_DTYPE_F16, WEFT_DTYPE_BF16, 3, 1, 601}, {WEFT_DTYPE_F16, WEFT_DTYPE_I8, 3, 1, 9}};
    need_device();
    for (size_t c = 0; c < WF_COUNT(cases); c++)
        for (int strategy = 0; strategy <= WF_KSTRAT_LANES; strategy++) {
            fixture f;
            int inner = cases[c].a_inner * cases[c].b_inner, n = cases[c].rows * inner;
            int32_t *x = malloc((size_t)n * 4);
            uint8_t *a = calloc((size_t)n, 4), *b = calloc((size_t)n, 4);
            for (int i = 0; i < n; i++)
                x[i] = (int32_t)(random_bits() % 100);
            fx_begin(&f, 1, 2, (int64_t[]){cases[c].rows, cases[c].a_inner, cases[c].b_inner});
            f.k.strategy = (uint8_t)strategy;
            int bx = fx_bind(&f, WEFT_DTYPE_I32, WF_ACCESS_READ, false), ba = fx_bind(&f, cases[c].a, WF_ACCESS_WRITE, true);
            int bb = fx_bind(&f, cases[c].b, WF_ACCESS_WRITE, true);
            fx_stage(&f, WF_KSTAGE_REDUCE);
            fx_fold(&f, WF_KROP_MAX, fx_load(&f, bx, fx_row_major(&f, 3)));
            fx_stage(&f, WF_KSTAGE_MAP);
            int at = fx_row_major(&f, 3), v = fx_load(&f, bx, at), top = fx_acc(&f, 0, 0);
            int below = fx_op(&f, WF_KOP_SUB, WF_KTY_I32, top, v, -1);
            fx_store(&f, ba, at, below); /* stores convert */
            fx_store(&f, bb, at, below);
            run(&f, (operand[]){{x, (size_t)n * 4}, {a, (size_t)n * weft_dtype_block_bytes(cases[c].a)},
                                {b, (size_t)n * weft_dtype_block_bytes(cases[c].b)}}, NULL, 0);
            for (int i = 0; i < n; i++) {
                value want = {0};
                int32_t most = 0;
                for (int j = 0; j < inner; j++)
                    most = WF_MAX(most, x[i / inner * inner + j]);
                want.i = most - x[i];
                for (int k = 0; k < 2; k++) {
                    weft_dtype to = k ? cases[c].b : cases[c].a;
                    if (stored_bits(to, k ? b : a, i) != expected_bits(WEFT_DTYPE_I32, to, want))
                        fail_msg("case %zu, strategy %d, output %d: element %d is 0x%x, expected %lld", c, strategy, k, i,
                                 stored_bits(to, k ? b : a, i), (long long)want.i);
                }
            }
            free(x);
            free(a);
            free(b);
        }
}

/* ---- indices ---- */

static void gather_checks_its_indices(void **state)
{
    (void)state;
    float table[9 * 6], out[4 * 6];
    int32_t ids[4] = {0, -1, 3, 5};
    fixture f;
    need_device();
    for (int i = 0; i < 9 * 6; i++)
        table[i] = (float)i;
    for (int bad = 0; bad < 2; bad++) {
        uint32_t step[8] = {0, 0, 0, 0, 0, 0, 0, bad ? 4u : 0u}; /* added to every index */
        fx_begin(&f, 2, 0, (int64_t[]){4, 6});
        f.k.has_error = 1;
        int t = fx_bind(&f, WEFT_DTYPE_F32, WF_ACCESS_READ, false), d = fx_bind(&f, WEFT_DTYPE_I32, WF_ACCESS_READ, false);
        int o = fx_bind(&f, WEFT_DTYPE_F32, WF_ACCESS_WRITE, true);
        fx_stage(&f, WF_KSTAGE_OUTER);
        int id = fx_load(&f, d, fx_row_major(&f, 1));
        int past = fx_imm(&f, WF_KOP_STEP, WF_KTY_I32, -1, fx_words(&f, 1, (int32_t[]){7}), 0);
        int sum = fx_op(&f, WF_KOP_ADD, WF_KTY_I32, id, past, -1);
        int row = fx_imm(&f, WF_KOP_CHECK, WF_KTY_I32, sum, fx_words(&f, 1, (int32_t[]){9}), 0);
        /* the 9 rows as [3, 3] with a step of 1 and 3 rows: row r is at 6 * (r / 3 + 3 * (r % 3)) */
        int at = fx_imm(&f, WF_KOP_UNRAVEL, WF_KTY_I32, row, fx_words(&f, 5, (int32_t[]){3, 3, 0, 6, 18}), 2);
        int column = fx_imm(&f, WF_KOP_AXIS, WF_KTY_I32, -1, 1, 0);
        int cell = fx_op(&f, WF_KOP_ADD, WF_KTY_I32, at, column, -1);
        fx_store(&f, o, fx_row_major(&f, 2), fx_load(&f, t, cell));
        uint32_t error = run(&f, (operand[]){{table, sizeof table}, {ids, sizeof ids}, {out, sizeof out}}, step, 8);
        assert_true((error != 0) == (bad == 1));
        assert_int_equal(found[WF_ERROR_INDEX], bad ? 9 : 0);
        assert_int_equal(found[WF_ERROR_EXTENT], bad ? 9 : 0);
        for (int i = 0; i < 4; i++)
            for (int c = 0; c < 6; c++) {
                int r = ids[i] + (bad ? 4 : 0);
                r = r < 0 ? r + 9 : r >= 9 ? 0 : r;
                assert_int_equal((int)out[i * 6 + c], 6 * (r / 3 + 3 * (r % 3)) + c);
            }
    }
}

static void many_axes_and_negative_strides_address_right(void **state)
{
    (void)state;
    int32_t in[360], out[360];
    fixture f;
    need_device();
    for (int i = 0; i < 360; i++)
        in[i] = i;
    for (int vec = 1; vec <= 4; vec++) {
        if (vec == 3)
            continue;
        fx_begin(&f, 4, 0, (int64_t[]){3, 5, 6, 4});
        f.k.vec = (uint8_t)vec;
        int a = fx_bind(&f, WEFT_DTYPE_I32, WF_ACCESS_READ, false), b = fx_bind(&f, WEFT_DTYPE_I32, WF_ACCESS_WRITE, true);
        fx_stage(&f, WF_KSTAGE_OUTER);
        int x = fx_load(&f, a, fx_affine(&f, (int32_t[]){99, 120, -24, 4, -1})); /* axes 1 and 3 reversed */
        int last = fx_imm(&f, WF_KOP_AXIS, WF_KTY_I32, -1, 3, 0), y = fx_load(&f, a, fx_affine(&f, (int32_t[]){7, 0, 0, 1, 0}));
        int sum = fx_op(&f, WF_KOP_ADD, WF_KTY_I32, x, y, -1);
        fx_store(&f, b, fx_row_major(&f, 4), fx_op(&f, WF_KOP_ADD, WF_KTY_I32, sum, last, -1));
        memset(out, 0, sizeof out);
        run(&f, (operand[]){{in, sizeof in}, {out, sizeof out}}, NULL, 0);
        for (int i = 0; i < 360; i++) {
            int c0 = i / 120, c1 = i / 24 % 5, c2 = i / 4 % 6, c3 = i % 4;
            assert_int_equal(out[i], 99 + 120 * c0 - 24 * c1 + 4 * c2 - c3 + 7 + c2 + c3);
        }
    }
}

/* One past each limit, with the limits lowered: 3 work groups a dimension of 32 invocations. */
static void dispatches_past_a_dimension_reach_every_point(void **state)
{
    (void)state;
    need_device();
    wf_caps kept = dev->caps;
    dev->caps.max_workgroups = 3;
    dev->caps.max_workgroup_invocations = 32;
    check_copy(WEFT_DTYPE_I32, WEFT_DTYPE_F32, 1, true, false, 3 * 32 + 1, true);
    check_copy(WEFT_DTYPE_I32, WEFT_DTYPE_F32, 4, true, false, 3 * 32 * 4 + 4, true);
    check_copy(WEFT_DTYPE_I32, WEFT_DTYPE_F16, 1, true, false, 3 * 32 * 2 + 1, true);
    for (int strategy = 0; strategy <= WF_KSTRAT_LANES; strategy++)
        check_rows(&(rows_case){WEFT_DTYPE_I32, WF_KROP_SUM, 7, 3, 50}, (wf_kstrategy)strategy);
    check_rows(&(rows_case){WEFT_DTYPE_F32, WF_KROP_ARGMIN, 97, 1, 3}, WF_KSTRAT_THREAD);
    dev->caps = kept;
}

/* ---- block types ---- */

/* Two blocks' worth of random bytes in file order, and the same as planes; decoded by the definition. */
static void check_blocks(weft_dtype dtype, bool planar)
{
    enum { BLOCKS = 5, N = BLOCKS * 32 };
    size_t block = weft_dtype_block_bytes(dtype), head = dtype == WEFT_DTYPE_Q4_1 ? 4 : 2, quants = block - head;
    uint8_t bytes[BLOCKS * 40] = {0}, planes[1024] = {0};
    size_t scale_at = wf_align_up(quants * BLOCKS, 16), min_at = wf_align_up(scale_at + 2 * BLOCKS, 16);
    float want[N], got[N];
    int64_t n = N;
    fixture f;
    for (int b = 0; b < BLOCKS; b++) {
        uint16_t d = wf_f32_to_f16((float)(b + 1) / 7), m = wf_f32_to_f16((float)b - 2.5f);
        uint8_t *p = bytes + (size_t)b * block;
        memcpy(p, &d, 2);
        if (head == 4)
            memcpy(p + 2, &m, 2);
        for (size_t i = 0; i < quants; i++)
            p[head + i] = (uint8_t)random_bits();
        memcpy(planes + (size_t)b * quants, p + head, quants);
        memcpy(planes + scale_at + 2 * b, &d, 2);
        memcpy(planes + min_at + 2 * b, &m, 2);
        for (int j = 0; j < 32; j++) {
            float scale = wf_f16_to_f32(d);
            int q4 = j < 16 ? p[head + (size_t)j % 16] & 15 : p[head + (size_t)j % 16] >> 4;
            want[b * 32 + j] = dtype == WEFT_DTYPE_Q8_0   ? (float)(int8_t)p[head + (size_t)j] * scale
                               : dtype == WEFT_DTYPE_Q4_0 ? (float)(q4 - 8) * scale
                                                          : (float)q4 * scale + wf_f16_to_f32(m);
        }
    }
    fx_begin(&f, 1, 0, &n);
    int a = fx_bind(&f, dtype, WF_ACCESS_READ, false), o = fx_bind(&f, WEFT_DTYPE_F32, WF_ACCESS_WRITE, true);
    f.k.bind[a].layout = planar;
    f.k.bind[a].plane_slot = fx_words(&f, 2, (int32_t[]){(int32_t)scale_at, (int32_t)min_at});
    fx_stage(&f, WF_KSTAGE_OUTER);
    int at = fx_row_major(&f, 1);
    fx_store(&f, o, at, fx_load(&f, a, at));
    run(&f, (operand[]){{planar ? planes : bytes, planar ? sizeof planes : sizeof bytes}, {got, sizeof got}}, NULL, 0);
    for (int i = 0; i < N; i++)
        if (fabsf(got[i] - want[i]) > 0x1p-22f * fabsf(want[i])) /* Q4_1: one rounding more or less, by contraction */
            fail_msg("%s planar %d, element %d: %.9g, expected %.9g", weft_dtype_name(dtype), planar, i, (double)got[i], (double)want[i]);
}

static void block_types_load_their_values(void **state)
{
    (void)state;
    need_device();
    for (int dtype = WEFT_DTYPE_Q8_0; dtype <= WEFT_DTYPE_Q4_1; dtype++)
        for (int planar = 0; planar < 2; planar++)
            check_blocks((weft_dtype)dtype, planar);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_functions_meet_their_bounds),
        cmocka_unit_test(binary_functions_meet_their_bounds),
        cmocka_unit_test(every_conversion_is_exact),
        cmocka_unit_test(sub_word_outputs_keep_their_neighbours),
        cmocka_unit_test(wide_loads_give_the_same_values),
        cmocka_unit_test(every_f16_loads_exactly),
        cmocka_unit_test(integer_operations_are_exact),
        cmocka_unit_test(float_comparisons_see_nan_and_subnormals),
        cmocka_unit_test(drivers_do_not_fold_nan_away),
        cmocka_unit_test(reductions_agree_with_plain_loops),
        cmocka_unit_test(reductions_take_any_extent),
        cmocka_unit_test(map_stages_see_accumulators),
        cmocka_unit_test(narrow_map_outputs_keep_their_neighbours),
        cmocka_unit_test(gather_checks_its_indices),
        cmocka_unit_test(many_axes_and_negative_strides_address_right),
        cmocka_unit_test(dispatches_past_a_dimension_reach_every_point),
        cmocka_unit_test(block_types_load_their_values),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
