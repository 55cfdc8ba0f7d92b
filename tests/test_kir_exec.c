/* test_kir_exec.c - the block interpreter against the one-point-at-a-time reference, on fixed and random
 * kernels. The values are small whole numbers, so every order of arithmetic gives the same bits and
 * results are compared exactly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "cpu.h"
#include "kir_fixture.h"
#include "kir_reference.h"

/* ---- running one kernel both ways ---- */

enum { MAX_POINTS = 60000, GUARD = 64 };

typedef struct bound {
    weft_dtype dtype;
    int64_t n;
    size_t bytes;
    uint8_t *got, *want; /* outputs differ only if the interpreter is wrong */
} bound;

typedef struct world {
    fixture f;
    bound b[WF_KIR_MAX_BIND];
    uint32_t step[1024];
} world;

static wf_pool *pools[3]; /* 1, 2 and 3 threads */
static uint64_t rng_state;

static uint32_t rnd(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return n ? (uint32_t)(rng_state >> 33) % n : 0;
}

static void fill_value(weft_dtype dtype, uint8_t *p, int64_t i, int v)
{
    rvalue r = {.l = 0};
    switch (wf_kty_of_dtype(dtype)) {
    case WF_KTY_F32: r.f = (float)v; break;
    case WF_KTY_F64: r.d = v; break;
    case WF_KTY_I64: r.l = v; break;
    case WF_KTY_U32: r.u = (uint32_t)(v + 4); break;
    case WF_KTY_BOOL: r.u = v > 0; break;
    default: r.i = v;
    }
    r_store(dtype, p, i, r);
}

static void fill_blocks(weft_dtype dtype, uint8_t *p, size_t bytes)
{
    size_t block = weft_dtype_block_bytes(dtype);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(dtype == WEFT_DTYPE_Q8_0 ? (int)rnd(9) - 4 : (int)rnd(256));
    for (size_t i = 0; i < bytes; i += block) {
        uint16_t one = wf_f32_to_f16(rnd(2) ? 1.0f : -1.0f), min = wf_f32_to_f16((float)rnd(5));
        memcpy(p + i, &one, 2);
        if (dtype == WEFT_DTYPE_Q4_1)
            memcpy(p + i + 2, &min, 2);
    }
}

static void make_bound(bound *b, weft_dtype dtype, int64_t n, bool input)
{
    int block = weft_dtype_block(dtype);
    n = (int64_t)wf_align_up((uint64_t)WF_MAX(n, 1), (uint64_t)block);
    b->dtype = dtype;
    b->n = n;
    b->bytes = (size_t)(n / block) * weft_dtype_block_bytes(dtype);
    b->got = malloc(b->bytes + GUARD);
    b->want = input ? b->got : malloc(b->bytes + GUARD);
    memset(b->got, 0x5a, b->bytes + GUARD);
    memset(b->want, 0x5a, b->bytes + GUARD);
    if (input && block > 1)
        fill_blocks(dtype, b->got, b->bytes);
    for (int64_t i = 0; input && block == 1 && i < n; i++)
        fill_value(dtype, b->got, i, (int)rnd(9) - 4);
}

static void free_world(world *w)
{
    for (int i = 0; i < w->f.k.n_bind; i++) {
        if (w->b[i].want != w->b[i].got)
            free(w->b[i].want);
        free(w->b[i].got);
    }
}

static bool same_element(weft_dtype dtype, const uint8_t *a, const uint8_t *b, int64_t i)
{
    if (weft_dtype_block(dtype) > 1)
        return true;
    size_t n = weft_dtype_block_bytes(dtype);
    if (memcmp(a + (size_t)i * n, b + (size_t)i * n, n) == 0)
        return true;
    rvalue x = r_load(dtype, a, i), y = r_load(dtype, b, i);
    wf_kty t = wf_kty_of_dtype(dtype);
    return (r_nan(t, x) && r_nan(t, y)) || (weft_dtype_is_float(dtype) && r_as_double(t, x) == 0 && r_as_double(t, y) == 0);
}

static int32_t found[WF_ERROR_WORDS]; /* the error words of the last run */

static void run_with(world *w, wf_pool *pool, uint32_t *error)
{
    wf_cpu_kernel *ck = NULL;
    assert_int_equal(wf_cpu_kernel_create(&w->f.k, &ck), WEFT_OK);
    _Atomic uint32_t word[WF_ERROR_WORDS] = {0};
    wf_cpu_run run = {.n_bind = w->f.k.n_bind, .statics = w->f.words, .step = w->step, .pool = pool, .error = word};
    for (int i = 0; i < w->f.k.n_bind; i++) {
        run.ptr[i] = w->b[i].got;
        run.size[i] = w->b[i].bytes;
    }
    assert_int_equal(wf_cpu_kernel_run(ck, &run), WEFT_OK);
    *error = word[WF_ERROR_SET];
    for (int i = 0; i < WF_ERROR_WORDS; i++)
        found[i] = (int32_t)word[i];
    wf_cpu_kernel_destroy(ck);
}

static void check_outputs(const world *w, const char *what, uint64_t seed)
{
    for (int i = 0; i < w->f.k.n_bind; i++) {
        const bound *b = &w->b[i];
        if (b->got == b->want)
            continue;
        for (int64_t e = 0; e < b->n; e++)
            if (!same_element(b->dtype, b->got, b->want, e)) {
                wf_str text = WF_STR_INIT;
                wf_kir_print(&w->f.k, &text);
                rvalue g = r_load(b->dtype, b->got, e), x = r_load(b->dtype, b->want, e);
                wf_kty t = wf_kty_of_dtype(b->dtype);
                print_error("%s seed %llu: binding %d (%s) element %lld is %g, expected %g\n%s\n", what,
                            (unsigned long long)seed, i, weft_dtype_name(b->dtype), (long long)e, r_as_double(t, g),
                            r_as_double(t, x), text.ptr);
                for (int s = 0; s < w->f.k.n_static; s++)
                    print_error("%d ", w->f.words[s]);
                print_error("\n");
                wf_str_free(&text);
                fail();
            }
        assert_memory_equal(b->got + b->bytes, b->want + b->bytes, GUARD);
    }
}

/* Runs on 1, 2 and 3 threads: each must equal the reference. */
static void check_world(world *w, const char *what, uint64_t seed)
{
    if (wf_kir_verify(&w->f.k) != WEFT_OK) {
        print_error("%s seed %llu: %s\n", what, (unsigned long long)seed, weft_error_message());
        fail();
    }
    void *ptr[WF_KIR_MAX_BIND];
    uint64_t size[WF_KIR_MAX_BIND];
    for (int i = 0; i < w->f.k.n_bind; i++) {
        ptr[i] = w->b[i].want;
        size[i] = w->b[i].bytes;
    }
    uint32_t want = r_run(&w->f.k, w->f.words, w->step, ptr, size), got;
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < w->f.k.n_bind; i++)
            if (w->b[i].got != w->b[i].want)
                memset(w->b[i].got, 0x5a, w->b[i].bytes);
        run_with(w, pools[p], &got);
        check_outputs(w, what, seed);
        assert_int_equal(got != 0, want != 0);
    }
}

/* ---- random kernels ---- */

static const weft_dtype input_types[] = {WEFT_DTYPE_F32, WEFT_DTYPE_F32, WEFT_DTYPE_F32, WEFT_DTYPE_F16, WEFT_DTYPE_BF16,
                                         WEFT_DTYPE_F64, WEFT_DTYPE_I32, WEFT_DTYPE_U32, WEFT_DTYPE_I8,  WEFT_DTYPE_U8,
                                         WEFT_DTYPE_I64, WEFT_DTYPE_BOOL, WEFT_DTYPE_Q8_0, WEFT_DTYPE_Q4_0, WEFT_DTYPE_Q4_1};
static const weft_dtype output_types[] = {WEFT_DTYPE_F32, WEFT_DTYPE_F32, WEFT_DTYPE_F16, WEFT_DTYPE_BF16, WEFT_DTYPE_F64,
                                          WEFT_DTYPE_I32, WEFT_DTYPE_U32, WEFT_DTYPE_I8, WEFT_DTYPE_U8, WEFT_DTYPE_I64,
                                          WEFT_DTYPE_BOOL};

static void random_extents(int n, int64_t *extents)
{
    static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64, 100, 255, 257, 300, 1025, 2100, 5000};
    for (;;) {
        int64_t points = 1;
        for (int a = 0; a < n; a++)
            points *= extents[a] = sizes[rnd(WF_COUNT(sizes))];
        if (n > 0 && rnd(30) == 0)
            extents[rnd((uint32_t)n)] = 0;
        if (points <= MAX_POINTS)
            return;
    }
}

/* A view of a fresh storage: axes in random order, steps, reversals, broadcasts. Returns the storage's size. */
static int64_t random_view(const fixture *f, int n_axes, bool broadcast, int32_t *words)
{
    int order[WF_KIR_MAX_AXES];
    int64_t stride = 1, offset = rnd(3) ? 0 : rnd(5);
    for (int a = 0; a < n_axes; a++)
        order[a] = a;
    for (int a = n_axes - 1; a > 0 && rnd(2); a--) {
        int b = (int)rnd((uint32_t)a + 1), t = order[a];
        order[a] = order[b];
        order[b] = t;
    }
    bool odd_steps = rnd(4) == 0;
    for (int i = n_axes - 1; i >= 0; i--) {
        int64_t extent = f->extents[order[i]];
        if (broadcast && rnd(4) == 0) {
            words[1 + order[i]] = 0;
            continue;
        }
        int64_t step = odd_steps && rnd(3) == 0 ? 2 : 1;
        bool back = odd_steps && rnd(3) == 0 && extent > 0;
        words[1 + order[i]] = (int32_t)(back ? -stride * step : stride * step);
        if (back)
            offset += stride * step * (extent - 1);
        stride *= WF_MAX(extent, 1) * step;
    }
    for (int a = n_axes; a < fx_axes(f); a++)
        words[1 + a] = 0;
    words[0] = (int32_t)offset;
    return stride + offset + 1;
}

static int cast_to(fixture *f, wf_kty type, int v)
{
    return f->k.instr[v].type == type ? v : fx_imm(f, WF_KOP_CAST, type, v, 0, 0);
}

static int random_index(world *w, int n_axes, int64_t *numel)
{
    int32_t words[1 + WF_KIR_MAX_AXES];
    fixture *f = &w->f;
    int64_t n = random_view(f, n_axes, true, words);
    int index = fx_affine(f, words);
    if (rnd(4) == 0 && f->k.n_bind < 5) { /* an index from memory picks a row: checked, times a stride, plus the rest */
        int bind = fx_bind(f, WEFT_DTYPE_I32, WF_ACCESS_READ, false);
        int64_t n_index = random_view(f, n_axes, true, words);
        make_bound(&w->b[bind], WEFT_DTYPE_I32, n_index, true);
        int32_t extent = 9;
        int picked = fx_load(f, bind, fx_affine(f, words));
        f->k.has_error = 1;
        picked = fx_imm(f, WF_KOP_CHECK, WF_KTY_I32, picked, fx_words(f, 1, &extent), 0);
        int32_t row = (int32_t)n;
        int scaled = fx_op(f, WF_KOP_MUL, WF_KTY_I32, picked, fx_imm(f, WF_KOP_STATIC, WF_KTY_I32, -1, fx_words(f, 1, &row), 0), -1);
        index = fx_op(f, WF_KOP_ADD, WF_KTY_I32, index, scaled, -1);
        n *= extent;
    }
    *numel = n;
    return index;
}

/* A value in F32 from memory, through a random type and view over the first n_axes axes. */
static int random_input(world *w, int n_axes)
{
    fixture *f = &w->f;
    if (f->k.n_bind > 5 || rnd(12) == 0) {
        int axis = n_axes > 0 ? (int)rnd((uint32_t)n_axes) : -1;
        int32_t word = (int32_t)rnd(1000);
        if (axis >= 0 && rnd(2)) { /* a coordinate, kept small */
            int x = fx_imm(f, WF_KOP_AXIS, WF_KTY_I32, -1, axis, 0), seven = fx_imm(f, WF_KOP_CONST, WF_KTY_I32, -1, 0, 7);
            return cast_to(f, WF_KTY_F32, fx_op(f, WF_KOP_AND, WF_KTY_I32, x, seven, -1));
        }
        if (rnd(2))
            return fx_imm(f, WF_KOP_STEP, WF_KTY_F32, -1, fx_words(f, 1, &word), 0);
        return fx_f32(f, (float)rnd(4) - 1);
    }
    weft_dtype dtype = input_types[rnd(WF_COUNT(input_types))];
    int64_t numel;
    int index = random_index(w, n_axes, &numel);
    int bind = fx_bind(f, dtype, WF_ACCESS_READ, false);
    make_bound(&w->b[bind], dtype, numel, true);
    return cast_to(f, WF_KTY_F32, fx_load(f, bind, index));
}


static int random_expression(world *w, int n_axes, int extra)
{
    fixture *f = &w->f;
    int v = random_input(w, n_axes);
    int steps = (int)rnd(4);
    for (int i = 0; i < steps && f->k.n_static < 160; i++) {
        int other = rnd(3) || extra < 0 ? random_input(w, n_axes) : extra;
        switch (rnd(8)) {
        case 0: v = fx_op(f, WF_KOP_ADD, WF_KTY_F32, v, other, -1); break;
        case 1: v = fx_op(f, WF_KOP_SUB, WF_KTY_F32, other, v, -1); break;
        case 2: v = fx_op(f, WF_KOP_MUL, WF_KTY_F32, v, fx_f32(f, 2), -1); break;
        case 3: v = fx_op(f, WF_KOP_MAX, WF_KTY_F32, v, other, -1); break;
        case 4: v = fx_op(f, WF_KOP_NEG, WF_KTY_F32, v, -1, -1); break;
        case 5: v = fx_op(f, WF_KOP_SELECT, WF_KTY_F32, fx_op(f, WF_KOP_LT, WF_KTY_BOOL, v, other, -1), other, v); break;
        case 6: v = cast_to(f, WF_KTY_F32, fx_op(f, WF_KOP_MIN, WF_KTY_I32, cast_to(f, WF_KTY_I32, v), cast_to(f, WF_KTY_I32, other), -1)); break;
        default: v = cast_to(f, WF_KTY_F32, fx_op(f, WF_KOP_ADD, WF_KTY_F64, cast_to(f, WF_KTY_F64, v), cast_to(f, WF_KTY_F64, other), -1)); break;
        }
    }
    return v;
}

/* A store over the first n_axes axes, row-major or permuted, never broadcast. */
static void random_store(world *w, int n_axes, int value)
{
    fixture *f = &w->f;
    weft_dtype dtype = output_types[rnd(WF_COUNT(output_types))];
    int bind = fx_bind(f, dtype, WF_ACCESS_WRITE, false);
    int64_t n = 1;
    int index;
    if (rnd(3)) {
        index = fx_row_major(f, n_axes);
        for (int a = 0; a < n_axes; a++)
            n *= f->extents[a];
    } else {
        int32_t words[1 + WF_KIR_MAX_AXES];
        n = random_view(f, n_axes, false, words);
        index = fx_affine(f, words);
    }
    make_bound(&w->b[bind], dtype, n, false);
    fx_store(f, bind, index, cast_to(f, wf_kty_of_dtype(dtype), value));
}

static int random_fold(world *w, int value)
{
    static const wf_krop rops[] = {WF_KROP_SUM, WF_KROP_MAX, WF_KROP_MIN, WF_KROP_ARGMAX, WF_KROP_ARGMIN, WF_KROP_SUM};
    static const wf_kty types[] = {WF_KTY_F32, WF_KTY_F32, WF_KTY_F32, WF_KTY_I32, WF_KTY_F64, WF_KTY_I64};
    return fx_fold(&w->f, rops[rnd(WF_COUNT(rops))], cast_to(&w->f, types[rnd(WF_COUNT(types))], value));
}

static void random_kernel(world *w, uint64_t seed)
{
    rng_state = seed * 0x9e3779b97f4a7c15u + 1;
    rnd(1);
    memset(w, 0, sizeof *w);
    fixture *f = &w->f;
    int n_outer = (int)rnd(4), n_inner = (int)rnd(3), n = n_outer + n_inner;
    int64_t extents[WF_KIR_MAX_AXES];
    random_extents(n, extents);
    fx_begin(f, n_outer, n_inner, extents);
    for (int i = 0; i < 1024; i++)
        fill_value(WEFT_DTYPE_F32, (uint8_t *)w->step, i, (int)rnd(7) - 3);
    if (n_inner == 0) {
        fx_stage(f, WF_KSTAGE_OUTER);
        int v = random_expression(w, n, -1);
        random_store(w, n, v);
        if (rnd(3) == 0)
            random_store(w, n, random_expression(w, n, v));
        return;
    }
    int per_row = -1, last = -1;
    if (rnd(2)) {
        fx_stage(f, WF_KSTAGE_OUTER);
        per_row = random_input(w, n_outer);
    }
    int n_reduce = 1 + (int)rnd(2);
    for (int r = 0; r < n_reduce; r++) {
        fx_stage(f, WF_KSTAGE_REDUCE);
        int stage = f->k.n_stages - 1;
        int v = random_expression(w, n, per_row);
        random_fold(w, v);
        if (rnd(3) == 0)
            random_fold(w, v);
        fx_stage(f, WF_KSTAGE_OUTER);
        last = cast_to(f, WF_KTY_F32, fx_acc(f, stage, f->k.stages[stage].n_acc - 1));
        last = fx_op(f, WF_KOP_MIN, WF_KTY_F32, last, fx_f32(f, 9), -1);
        last = fx_op(f, WF_KOP_MAX, WF_KTY_F32, last, fx_f32(f, -9), -1);
        per_row = last;
        if (r == n_reduce - 1 || rnd(3) == 0)
            random_store(w, n_outer, fx_op(f, WF_KOP_ADD, WF_KTY_F32, random_input(w, n_outer), last, -1));
    }
    if (rnd(2)) {
        fx_stage(f, WF_KSTAGE_MAP);
        random_store(w, n, random_expression(w, n, per_row));
    }
}

static void random_kernels_equal_the_reference(void **state)
{
    (void)state;
    const char *one = getenv("WEFT_TEST_SEED"), *count = getenv("WEFT_TEST_COUNT");
    uint64_t first = one ? strtoull(one, NULL, 10) : 1, n = one ? 1 : count ? strtoull(count, NULL, 10) : 1500;
    for (uint64_t seed = first; seed < first + n; seed++) {
        world *w = calloc(1, sizeof *w);
        random_kernel(w, seed);
        check_world(w, "random", seed);
        free_world(w);
        free(w);
    }
}

/* ---- fixed kernels ---- */

static bound *bind_data(world *w, weft_dtype dtype, int64_t n, int access)
{
    int i = fx_bind(&w->f, dtype, access, access == WF_ACCESS_WRITE);
    make_bound(&w->b[i], dtype, n, access == WF_ACCESS_READ);
    return &w->b[i];
}

/* out[r] = fold over c of x[r, c], through strides `by_row` and `by_col`. */
static void make_fold(world *w, wf_krop rop, int64_t rows, int64_t cols, int32_t by_row, int32_t by_col)
{
    fixture *f = &w->f;
    int64_t extents[] = {rows, cols};
    int32_t words[] = {0, by_row, by_col};
    fx_begin(f, 1, 1, extents);
    bind_data(w, WEFT_DTYPE_F32, rows * cols, WF_ACCESS_READ);
    bool arg = rop == WF_KROP_ARGMAX || rop == WF_KROP_ARGMIN;
    bind_data(w, arg ? WEFT_DTYPE_I32 : WEFT_DTYPE_F32, rows, WF_ACCESS_WRITE);
    fx_stage(f, WF_KSTAGE_REDUCE);
    fx_fold(f, rop, fx_load(f, 0, fx_affine(f, words)));
    fx_stage(f, WF_KSTAGE_OUTER);
    int v = fx_acc(f, 0, 0);
    fx_store(f, 1, fx_row_major(f, 1), v);
}

static void done(world *w)
{
    free_world(w);
    free(w);
}

static void long_rows_are_cut_the_same_for_any_number_of_threads(void **state)
{
    (void)state;
    static const struct { int64_t rows, cols; bool columns; } cases[] = {
        {1, 300000, false}, {3, 200001, false}, {16, 40000, true}, {5, 70000, true}, {300, 3000, true}, {1, 1, false}};
    for (size_t i = 0; i < WF_COUNT(cases); i++)
        for (int rop = WF_KROP_SUM; rop <= WF_KROP_ARGMIN; rop++) {
            if (rop == WF_KROP_PROD)
                continue;
            world *w = calloc(1, sizeof *w);
            int64_t r = cases[i].rows, c = cases[i].cols;
            rng_state = i * 7 + 1;
            make_fold(w, (wf_krop)rop, r, c, cases[i].columns ? 1 : (int32_t)c, cases[i].columns ? (int32_t)r : 1);
            check_world(w, "long row", i);
            done(w);
        }
}

/* Sums of numbers that do round: bits equal on 1, 2 and 3 threads, error far below n * eps. */
static void sums_have_the_same_bits_on_all_threads_and_a_small_error(void **state)
{
    (void)state;
    for (int columns = 0; columns < 2; columns++)
        for (int shape = 0; shape < 2; shape++) {
            int64_t rows = shape ? 700 : 2, cols = shape ? 900 : 400000;
            world *w = calloc(1, sizeof *w);
            make_fold(w, WF_KROP_SUM, rows, cols, columns ? 1 : (int32_t)cols, columns ? (int32_t)rows : 1);
            float *x = (float *)w->b[0].got, *y = (float *)w->b[1].got, first[700];
            for (int64_t i = 0; i < rows * cols; i++)
                x[i] = (float)(i * 2654435761u % 1000003u) * 1e-6f;
            for (int p = 0; p < 3; p++) {
                uint32_t error;
                run_with(w, pools[p], &error);
                if (p == 0)
                    memcpy(first, y, (size_t)rows * 4);
                assert_memory_equal(first, y, (size_t)rows * 4);
            }
            for (int64_t r = 0; r < rows; r++) {
                double want = 0;
                for (int64_t c = 0; c < cols; c++)
                    want += x[columns ? c * rows + r : r * cols + c];
                assert_true(fabs(first[r] - want) <= 64 * 0x1p-24 * want);
            }
            done(w);
        }
}

static void sum_of_many_ones_is_exact(void **state)
{
    (void)state;
    world *w = calloc(1, sizeof *w);
    int64_t extents[] = {1, 1 << 25};
    fx_begin(&w->f, 1, 1, extents);
    bind_data(w, WEFT_DTYPE_F32, 1, WF_ACCESS_WRITE);
    fx_stage(&w->f, WF_KSTAGE_REDUCE);
    fx_fold(&w->f, WF_KROP_SUM, fx_f32(&w->f, 1));
    fx_stage(&w->f, WF_KSTAGE_OUTER);
    fx_store(&w->f, 0, fx_row_major(&w->f, 1), fx_acc(&w->f, 0, 0));
    uint32_t error;
    run_with(w, pools[1], &error);
    assert_true(*(float *)w->b[0].got == 33554432.0f);
    done(w);
}

static void make_softmax(world *w, int64_t rows, int64_t cols, bool columns)
{
    fixture *f = &w->f;
    int64_t extents[] = {rows, cols};
    int32_t words[] = {0, columns ? 1 : (int32_t)cols, columns ? (int32_t)rows : 1};
    fx_begin(f, 1, 1, extents);
    bind_data(w, WEFT_DTYPE_F32, rows * cols, WF_ACCESS_READ);
    bind_data(w, WEFT_DTYPE_F32, rows * cols, WF_ACCESS_WRITE);
    fx_stage(f, WF_KSTAGE_REDUCE);
    fx_fold(f, WF_KROP_MAX, fx_load(f, 0, fx_affine(f, words)));
    fx_stage(f, WF_KSTAGE_REDUCE);
    int x = fx_op(f, WF_KOP_SUB, WF_KTY_F32, fx_load(f, 0, fx_affine(f, words)), fx_acc(f, 0, 0), -1);
    fx_fold(f, WF_KROP_SUM, fx_op(f, WF_KOP_EXP, WF_KTY_F32, x, -1, -1));
    fx_stage(f, WF_KSTAGE_MAP);
    int index = fx_affine(f, words);
    x = fx_op(f, WF_KOP_SUB, WF_KTY_F32, fx_load(f, 0, index), fx_acc(f, 0, 0), -1);
    x = fx_op(f, WF_KOP_EXP, WF_KTY_F32, x, -1, -1);
    fx_store(f, 1, index, fx_op(f, WF_KOP_DIV, WF_KTY_F32, x, fx_acc(f, 1, 0), -1));
}

static void softmax_is_right_for_rows_of_every_length_and_order(void **state)
{
    (void)state;
    static const struct { int64_t rows, cols; } cases[] = {{1, 1}, {7, 3}, {300, 16}, {5, 511}, {4, 513}, {9, 4096}, {2, 40000}, {2, 150000}, {1000, 9}};
    for (size_t i = 0; i < 2 * WF_COUNT(cases); i++) {
        int64_t rows = cases[i / 2].rows, cols = cases[i / 2].cols;
        bool columns = i & 1;
        world *w = calloc(1, sizeof *w);
        make_softmax(w, rows, cols, columns);
        assert_int_equal(wf_kir_verify(&w->f.k), WEFT_OK);
        const float *x = (const float *)w->b[0].got, *y = (const float *)w->b[1].got;
        uint32_t error;
        run_with(w, pools[i % 3], &error);
        for (int64_t r = 0; r < rows; r++) {
            double max = -INFINITY, sum = 0;
            for (int64_t c = 0; c < cols; c++)
                max = fmax(max, x[columns ? c * rows + r : r * cols + c]);
            for (int64_t c = 0; c < cols; c++)
                sum += exp(x[columns ? c * rows + r : r * cols + c] - max);
            for (int64_t c = 0; c < cols; c++) {
                int64_t at = columns ? c * rows + r : r * cols + c;
                double want = exp(x[at] - max) / sum;
                assert_true(fabs(y[at] - want) <= 8 * 0x1p-24 * want);
            }
        }
        done(w);
    }
}

static void softmax_of_all_minus_inf_is_nan(void **state)
{
    (void)state;
    world *w = calloc(1, sizeof *w);
    make_softmax(w, 1, 2, false);
    float *x = (float *)w->b[0].got, *y = (float *)w->b[1].got;
    uint32_t error;
    x[0] = x[1] = -INFINITY;
    run_with(w, pools[0], &error);
    assert_true(y[0] != y[0] && y[1] != y[1]);
    x[0] = 3.4e38f;
    x[1] = 0;
    run_with(w, pools[0], &error);
    assert_true(y[0] == 1 && y[1] == 0);
    done(w);
}

/* Exponentials of a row are summed on the way, in pieces that give up where an element is masked or tiny. */
static void softmax_of_rows_with_masked_tiny_and_nan_elements_is_right(void **state)
{
    (void)state;
    static const int64_t lengths[] = {257, 300, 512, 1000, 2500};
    for (int l = 0; l < 5; l++)
        for (int kind = 0; kind < 5; kind++) {
            const int64_t rows = 70, cols = lengths[l];
            world *w = calloc(1, sizeof *w);
            make_softmax(w, rows, cols, false);
            float *x = (float *)w->b[0].got;
            const float *y = (const float *)w->b[1].got;
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < cols; c++) {
                    const bool here = kind == 0 ? c > r * 7 : kind == 4 ? c == cols - 1 : c == r * 3;
                    if (here && (r || c))
                        x[r * cols + c] = kind == 1 ? x[r * cols + c] - 95 : kind == 2 ? -1e30f : kind == 3 ? NAN : -INFINITY;
                }
            uint32_t error;
            run_with(w, pools[(l + kind) % 3], &error);
            for (int64_t r = 0; r < rows; r++) {
                double max = -INFINITY, sum = 0;
                bool nan = false;
                for (int64_t c = 0; c < cols; c++) {
                    max = fmax(max, x[r * cols + c]);
                    nan |= isnan(x[r * cols + c]);
                }
                for (int64_t c = 0; c < cols; c++)
                    sum += exp(x[r * cols + c] - max);
                for (int64_t c = 0; c < cols; c++) {
                    const double want = exp(x[r * cols + c] - max) / sum, got = y[r * cols + c];
                    if (nan ? !isnan(got) : !(fabs(got - want) <= 8 * 0x1p-24 * want + 0x1p-148))
                        fail_msg("kind %d, row %d of %d, element %d: %g, expected %g", kind, (int)r, (int)cols, (int)c, got, want);
                }
            }
            done(w);
        }
}

/* (x - mean) / sqrt(variance + eps), times a row and plus another where `affine`. */
static void make_norm(world *w, int64_t rows, int64_t cols, bool affine)
{
    fixture *f = &w->f;
    int64_t extents[] = {rows, cols};
    int32_t words[] = {0, (int32_t)cols, 1}, row[] = {0, 0, 1};
    fx_begin(f, 1, 1, extents);
    bind_data(w, WEFT_DTYPE_F32, rows * cols, WF_ACCESS_READ);
    bind_data(w, WEFT_DTYPE_F32, rows * cols, WF_ACCESS_WRITE);
    bind_data(w, WEFT_DTYPE_F32, cols, WF_ACCESS_READ);
    bind_data(w, WEFT_DTYPE_F32, cols, WF_ACCESS_READ);
    const int t = WF_KTY_F32;
    fx_stage(f, WF_KSTAGE_REDUCE);
    fx_fold(f, WF_KROP_SUM, fx_load(f, 0, fx_affine(f, words)));
    fx_stage(f, WF_KSTAGE_OUTER);
    int mean = fx_op(f, WF_KOP_DIV, t, fx_acc(f, 0, 0), fx_f32(f, (float)cols), -1);
    fx_stage(f, WF_KSTAGE_REDUCE);
    int d = fx_op(f, WF_KOP_SUB, t, fx_load(f, 0, fx_affine(f, words)), mean, -1);
    fx_fold(f, WF_KROP_SUM, fx_op(f, WF_KOP_MUL, t, d, d, -1));
    fx_stage(f, WF_KSTAGE_OUTER);
    int v = fx_op(f, WF_KOP_DIV, t, fx_acc(f, 2, 0), fx_f32(f, (float)cols), -1);
    int s = fx_op(f, WF_KOP_RSQRT, t, fx_op(f, WF_KOP_ADD, t, v, fx_f32(f, 1e-5f), -1), -1, -1);
    fx_stage(f, WF_KSTAGE_MAP);
    int index = fx_affine(f, words);
    d = fx_op(f, WF_KOP_SUB, t, fx_load(f, 0, index), mean, -1);
    int y = fx_op(f, WF_KOP_MUL, t, d, s, -1);
    if (affine) {
        y = fx_op(f, WF_KOP_MUL, t, y, fx_load(f, 2, fx_affine(f, row)), -1);
        y = fx_op(f, WF_KOP_ADD, t, y, fx_load(f, 3, fx_affine(f, row)), -1);
    }
    fx_store(f, 1, index, y);
}

static void normalised_rows_of_every_length_are_right(void **state)
{
    (void)state;
    static const struct { int64_t rows, cols; } cases[] = {{1, 300}, {70, 257}, {200, 512}, {9, 1025}, {64, 2000}, {40, 33}};
    for (size_t i = 0; i < 2 * WF_COUNT(cases); i++) {
        const int64_t rows = cases[i / 2].rows, cols = cases[i / 2].cols;
        const bool affine = i & 1;
        world *w = calloc(1, sizeof *w);
        make_norm(w, rows, cols, affine);
        assert_int_equal(wf_kir_verify(&w->f.k), WEFT_OK);
        const float *x = (const float *)w->b[0].got, *y = (const float *)w->b[1].got, *a = (const float *)w->b[2].got,
                    *b = (const float *)w->b[3].got;
        uint32_t error;
        run_with(w, pools[i % 3], &error);
        for (int64_t r = 0; r < rows; r++) {
            double mean = 0, v = 0;
            for (int64_t c = 0; c < cols; c++)
                mean += x[r * cols + c] / (double)cols;
            for (int64_t c = 0; c < cols; c++)
                v += (x[r * cols + c] - mean) * (x[r * cols + c] - mean) / (double)cols;
            for (int64_t c = 0; c < cols; c++) {
                const double u = (x[r * cols + c] - mean) / sqrt(v + 1e-5), want = affine ? u * a[c] + b[c] : u;
                if (!(fabs(y[r * cols + c] - want) <= 32 * 0x1p-24 * (1 + fabs(u) * (affine ? fabs(a[c]) : 1) + (affine ? fabs(b[c]) : 0))))
                    fail_msg("row %d of %d, element %d: %g, expected %g", (int)r, (int)cols, (int)c, y[r * cols + c], want);
            }
        }
        done(w);
    }
}

static void extremes_of_rows_with_nan_are_nan_and_their_first_index(void **state)
{
    (void)state;
    for (int64_t cols = 1; cols < 3000; cols = cols * 3 + 1)
        for (int64_t at = 0; at < cols; at += 1 + cols / 5)
            for (int columns = 0; columns < 2; columns++) {
                world *w = calloc(1, sizeof *w), *v = calloc(1, sizeof *v);
                make_fold(w, WF_KROP_MAX, 1, cols, 0, 1);
                make_fold(v, WF_KROP_ARGMAX, columns ? 20 : 1, cols, columns ? 1 : (int32_t)cols, columns ? 20 : 1);
                uint32_t error;
                ((float *)w->b[0].got)[at] = NAN;
                ((float *)v->b[0].got)[columns ? at * 20 + 3 : at] = NAN;
                ((float *)v->b[0].got)[columns ? (cols - 1) * 20 + 3 : cols - 1] = NAN;
                run_with(w, pools[0], &error);
                run_with(v, pools[0], &error);
                float m = *(float *)w->b[1].got;
                assert_true(m != m);
                assert_int_equal(((int32_t *)v->b[1].got)[columns ? 3 : 0], at);
                done(w);
                done(v);
            }
}

static void empty_rows_give_starting_values_and_empty_outputs_run_nothing(void **state)
{
    (void)state;
    uint32_t error;
    world *w = calloc(1, sizeof *w);
    make_fold(w, WF_KROP_SUM, 3, 0, 0, 1);
    run_with(w, pools[1], &error);
    const float zero[3] = {0, 0, 0};
    assert_memory_equal(w->b[1].got, zero, sizeof zero);
    done(w);
    w = calloc(1, sizeof *w);
    make_fold(w, WF_KROP_MAX, 2, 0, 0, 1);
    run_with(w, pools[1], &error);
    assert_true(((float *)w->b[1].got)[1] == -INFINITY);
    done(w);
    w = calloc(1, sizeof *w);
    make_fold(w, WF_KROP_SUM, 0, 5, 5, 1);
    uint8_t before = w->b[1].got[0];
    run_with(w, pools[1], &error);
    assert_int_equal(w->b[1].got[0], before);
    done(w);
}

/* Loads outside take the nearest element, stores outside are dropped, whatever path the tile takes. */
static void indices_outside_a_binding_touch_nothing_outside(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 5000; n = n * 4 + 1)
        for (int32_t offset = -3; offset <= 3; offset += 3)
            for (int32_t stride = -1; stride <= 2; stride++) {
                world *w = calloc(1, sizeof *w);
                int64_t extents[] = {n};
                int32_t in[] = {offset, stride}, out[] = {-offset, 1};
                fx_begin(&w->f, 1, 0, extents);
                bind_data(w, WEFT_DTYPE_F32, n, WF_ACCESS_READ);
                bind_data(w, WEFT_DTYPE_F32, n, WF_ACCESS_WRITE);
                fx_stage(&w->f, WF_KSTAGE_OUTER);
                int v = fx_load(&w->f, 0, fx_affine(&w->f, in));
                fx_store(&w->f, 1, fx_affine(&w->f, out), v);
                float *x = (float *)w->b[0].got, *y = (float *)w->b[1].got;
                for (int64_t i = 0; i < n; i++)
                    x[i] = (float)i + 1;
                uint32_t error;
                run_with(w, pools[1], &error);
                for (int64_t i = 0; i < n; i++) {
                    int64_t from = offset + i * stride, to = i - offset;
                    from = from < 0 ? 0 : from >= n ? n - 1 : from;
                    if (to >= 0 && to < n)
                        assert_true(y[to] == x[from]);
                }
                for (int g = 0; g < GUARD; g++)
                    assert_int_equal(w->b[1].got[w->b[1].bytes + (size_t)g], 0x5a);
                done(w);
            }
}

/* out[r, c] = table[index[r] * pitch + shift + c], stored as it is or doubled, with a pitch of its own. */
static void rows_of_every_length_are_picked_and_moved_right(void **state)
{
    (void)state;
    static const weft_dtype types[] = {WEFT_DTYPE_F32, WEFT_DTYPE_I64, WEFT_DTYPE_F16, WEFT_DTYPE_U8};
    static const int32_t lengths[] = {1, 7, 64, 255, 300, 1500, 2100};
    for (int t = 0; t < 4; t++)
        for (int l = 0; l < 7; l++)
            for (int how = 0; how < 4; how++) { /* 1: doubled; 2: rows of an axis, not picked */
                world *w = calloc(1, sizeof *w);
                int32_t cols = lengths[l], rows = 23, gap = how == 0 ? 0 : 3, pitch = cols + 1;
                int64_t extents[] = {rows, cols};
                int32_t shift[] = {2, 0, 1}, by_axis[] = {1, pitch, 1}, by_row[] = {0, 1, 0}, out[] = {gap, cols + gap, 1};
                fx_begin(&w->f, 2, 0, extents);
                bind_data(w, types[t], (rows + 1) * pitch, WF_ACCESS_READ);
                bind_data(w, WEFT_DTYPE_I32, rows, WF_ACCESS_READ);
                bind_data(w, types[t], rows * (cols + gap) + gap, WF_ACCESS_WRITE);
                for (int r = 0; r < rows; r++)
                    ((int32_t *)w->b[1].got)[r] = (int32_t)rnd((uint32_t)rows);
                fx_stage(&w->f, WF_KSTAGE_OUTER);
                int at = fx_affine(&w->f, how == 2 ? by_axis : shift);
                if (how != 2) {
                    int row = fx_load(&w->f, 1, fx_affine(&w->f, by_row));
                    row = fx_op(&w->f, WF_KOP_MUL, WF_KTY_I32, row, fx_imm(&w->f, WF_KOP_STATIC, WF_KTY_I32, -1, fx_words(&w->f, 1, &pitch), 0), -1);
                    at = how == 3 ? fx_op(&w->f, WF_KOP_ADD, WF_KTY_I32, row, at, -1) : fx_op(&w->f, WF_KOP_ADD, WF_KTY_I32, at, row, -1);
                }
                int v = fx_load(&w->f, 0, at);
                if (how == 1)
                    v = fx_op(&w->f, WF_KOP_ADD, wf_kty_of_dtype(types[t]), v, v, -1);
                fx_store(&w->f, 2, fx_affine(&w->f, out), v);
                check_world(w, "rows", (uint64_t)(t * 100 + l * 10 + how));
                done(w);
            }
}

static void rows_outside_a_binding_touch_nothing_outside(void **state)
{
    (void)state;
    enum { ROWS = 19, TABLE = 11 };
    for (int32_t cols = 5; cols < 2000; cols *= 6) {
        world *w = calloc(1, sizeof *w);
        int64_t extents[] = {ROWS, cols};
        int32_t shift[] = {-1, 0, 1}, by_row[] = {0, 1, 0}, out[] = {-2, cols, 1};
        fx_begin(&w->f, 2, 0, extents);
        bind_data(w, WEFT_DTYPE_F32, TABLE * cols, WF_ACCESS_READ);
        bind_data(w, WEFT_DTYPE_I32, ROWS, WF_ACCESS_READ);
        bind_data(w, WEFT_DTYPE_F32, ROWS * cols - 3, WF_ACCESS_WRITE);
        float *x = (float *)w->b[0].got, *y = (float *)w->b[2].got;
        int32_t *index = (int32_t *)w->b[1].got;
        for (int64_t i = 0; i < TABLE * cols; i++)
            x[i] = (float)i + 1;
        for (int r = 0; r < ROWS; r++)
            index[r] = r % 4 == 0 ? (int32_t)rnd(40) - 20 : (int32_t)rnd(TABLE);
        fx_stage(&w->f, WF_KSTAGE_OUTER);
        int at = fx_affine(&w->f, shift), row = fx_load(&w->f, 1, fx_affine(&w->f, by_row));
        row = fx_op(&w->f, WF_KOP_MUL, WF_KTY_I32, row, fx_imm(&w->f, WF_KOP_STATIC, WF_KTY_I32, -1, fx_words(&w->f, 1, &cols), 0), -1);
        fx_store(&w->f, 2, fx_affine(&w->f, out), fx_load(&w->f, 0, fx_op(&w->f, WF_KOP_ADD, WF_KTY_I32, at, row, -1)));
        uint32_t error;
        run_with(w, pools[1], &error);
        for (int64_t i = 2; i < ROWS * cols && i - 2 < ROWS * cols - 3; i++) {
            int64_t from = index[i / cols] * (int64_t)cols + i % cols - 1;
            from = from < 0 ? 0 : from >= TABLE * cols ? TABLE * cols - 1 : from;
            assert_true(y[i - 2] == x[from]);
        }
        for (int g = 0; g < GUARD; g++)
            assert_int_equal(w->b[2].got[w->b[2].bytes + (size_t)g], 0x5a);
        done(w);
    }
}

static void large_outputs_are_stored_past_the_caches_and_right(void **state)
{
    (void)state;
    world *w = calloc(1, sizeof *w);
    int64_t n = 5000003, extents[] = {n};
    fx_begin(&w->f, 1, 0, extents);
    bind_data(w, WEFT_DTYPE_F32, n + 1, WF_ACCESS_READ);
    bind_data(w, WEFT_DTYPE_F32, n + 1, WF_ACCESS_WRITE);
    fx_stage(&w->f, WF_KSTAGE_OUTER);
    int32_t shifted[] = {1, 1};
    int x = fx_load(&w->f, 0, fx_affine(&w->f, shifted));
    x = fx_op(&w->f, WF_KOP_ADD, WF_KTY_F32, x, x, -1);
    fx_store(&w->f, 1, fx_affine(&w->f, shifted), x);
    uint32_t error;
    run_with(w, pools[2], &error);
    const float *a = (const float *)w->b[0].got, *y = (const float *)w->b[1].got;
    for (int64_t i = 1; i <= n; i++)
        assert_true(y[i] == a[i] + a[i]);
    done(w);
}

static void an_index_outside_its_extent_sets_the_error_words(void **state)
{
    (void)state;
    for (int bad = 0; bad < 4; bad++) {
        world *w = calloc(1, sizeof *w);
        int64_t extents[] = {4};
        int32_t extent = 5;
        fx_begin(&w->f, 1, 0, extents);
        w->f.k.has_error = 1;
        bind_data(w, WEFT_DTYPE_I32, 4, WF_ACCESS_READ);
        bind_data(w, WEFT_DTYPE_I32, 4, WF_ACCESS_WRITE);
        fx_stage(&w->f, WF_KSTAGE_OUTER);
        int index = fx_row_major(&w->f, 1);
        int v = fx_imm(&w->f, WF_KOP_CHECK, WF_KTY_I32, fx_load(&w->f, 0, index), fx_words(&w->f, 1, &extent), bad == 3);
        fx_store(&w->f, 1, index, v);
        int32_t *x = (int32_t *)w->b[0].got, *y = (int32_t *)w->b[1].got;
        const int32_t values[] = {0, bad == 3 ? 0 : -5, 4, bad == 0 ? -1 : bad == 1 ? 5 : bad == 2 ? -6 : -2};
        const int32_t want[] = {0, 0, 4, bad == 0 ? 4 : 0};
        memcpy(x, values, sizeof values);
        uint32_t error;
        run_with(w, pools[0], &error);
        assert_int_equal(error != 0, bad != 0);
        assert_int_equal(found[WF_ERROR_INDEX], bad ? values[3] : 0);
        assert_int_equal(found[WF_ERROR_EXTENT], bad ? extent : 0);
        assert_memory_equal(y, want, sizeof want);
        done(w);
    }
}

static void a_cancelled_kernel_says_so(void **state)
{
    (void)state;
    world *w = calloc(1, sizeof *w);
    make_softmax(w, 300, 300, false);
    wf_cpu_kernel *ck = NULL;
    assert_int_equal(wf_cpu_kernel_create(&w->f.k, &ck), WEFT_OK);
    _Atomic uint32_t word[WF_ERROR_WORDS] = {0};
    atomic_bool cancel = true;
    wf_cpu_run run = {.n_bind = 2, .statics = w->f.words, .pool = pools[1], .cancel = &cancel, .error = word};
    for (int i = 0; i < 2; i++) {
        run.ptr[i] = w->b[i].got;
        run.size[i] = w->b[i].bytes;
    }
    assert_int_equal(wf_cpu_kernel_run(ck, &run), WEFT_E_CANCELLED);
    cancel = false;
    assert_int_equal(wf_cpu_kernel_run(ck, &run), WEFT_OK);
    wf_cpu_kernel_destroy(ck);
    done(w);
}

static void a_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    world *w = calloc(1, sizeof *w);
    make_softmax(w, 2, 200000, false);
    uint64_t live = wf_alloc_live();
    int failures = 0;
    for (uint64_t n = 1; n < 12; n++) {
        wf_cpu_kernel *ck = NULL;
        _Atomic uint32_t word[WF_ERROR_WORDS] = {0};
        wf_cpu_run run = {.n_bind = 2, .statics = w->f.words, .pool = pools[1], .error = word};
        for (int i = 0; i < 2; i++) {
            run.ptr[i] = w->b[i].got;
            run.size[i] = w->b[i].bytes;
        }
        wf_alloc_fail_nth(n);
        weft_status st = wf_cpu_kernel_create(&w->f.k, &ck);
        if (st == WEFT_OK)
            st = wf_cpu_kernel_run(ck, &run);
        wf_alloc_fail_nth(0);
        assert_true(st == WEFT_OK || st == WEFT_E_OOM);
        failures += st == WEFT_E_OOM;
        wf_cpu_kernel_destroy(ck);
        assert_int_equal(wf_alloc_live(), live);
    }
    assert_true(failures >= 4);
    done(w);
}

/* ---- epilogues ---- */

static void epilogues_equal_the_reference_on_tiles_of_every_size(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 6, 16, 17, 64, 65, 300, 1100};
    for (size_t i = 0; i < WF_COUNT(sizes) * WF_COUNT(sizes); i++) {
        int64_t rows = sizes[i / WF_COUNT(sizes)], cols = sizes[i % WF_COUNT(sizes)], M = rows + 3, N = cols + 5, m0 = 2, n0 = 4;
        if (rows * cols > 20000)
            continue;
        world *w = calloc(1, sizeof *w);
        fixture *f = &w->f;
        int64_t extents[] = {2, M, N};
        int32_t bias[] = {0, 0, 0, 1}, per_row[] = {0, 0, 1, 0}, shift = 7;
        fx_begin(f, 3, 0, extents);
        bind_data(w, WEFT_DTYPE_F16, N, WF_ACCESS_READ);
        bind_data(w, WEFT_DTYPE_F32, 2 * M * N, WF_ACCESS_READ);
        bind_data(w, WEFT_DTYPE_F32, M, WF_ACCESS_READ);
        bind_data(w, i % 2 ? WEFT_DTYPE_F32 : WEFT_DTYPE_BF16, 2 * M * N, WF_ACCESS_WRITE);
        fx_stage(f, WF_KSTAGE_OUTER);
        int v = fx_op(f, WF_KOP_IN, WF_KTY_F32, -1, -1, -1), index = fx_row_major(f, 3);
        v = fx_op(f, WF_KOP_ADD, WF_KTY_F32, v, fx_load(f, 0, fx_affine(f, bias)), -1);
        v = fx_op(f, WF_KOP_MAX, WF_KTY_F32, v, fx_f32(f, 0), -1);
        v = fx_op(f, WF_KOP_ADD, WF_KTY_F32, v, fx_load(f, 1, index), -1);
        v = fx_op(f, WF_KOP_MUL, WF_KTY_F32, v, fx_load(f, 2, fx_affine(f, per_row)), -1);
        fx_store(f, 3, index, v);
        assert_int_equal(wf_kir_verify(&f->k), WEFT_OK);
        int64_t ld = cols + (int64_t)rnd(4);
        float *acc = malloc((size_t)(rows * ld) * 4);
        for (int64_t e = 0; e < rows * ld; e++)
            acc[e] = (float)rnd(9) - 4;
        wf_cpu_kernel *ck = NULL;
        assert_int_equal(wf_cpu_kernel_create(&f->k, &ck), WEFT_OK);
        /* bindings and static words start behind the kernel's own */
        int32_t statics[300];
        statics[0] = shift;
        memcpy(statics + 1, f->words, sizeof f->words);
        _Atomic uint32_t word[WF_ERROR_WORDS] = {0};
        wf_cpu_run run = {.n_bind = 5, .statics = statics, .error = word};
        rmachine *m = calloc(1, sizeof *m);
        void *want[4];
        for (int b = 0; b < 4; b++) {
            run.ptr[1 + b] = w->b[b].got;
            run.size[1 + b] = w->b[b].bytes;
            want[b] = w->b[b].want;
        }
        wf_cpu_epilogue_run(ck, &run, 1, 1, acc, ld, 1, m0, rows, n0, cols);
        *m = (rmachine){.k = &f->k, .statics = f->words, .ptr = want};
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++) {
                m->coord[0] = 1;
                m->coord[1] = m0 + r;
                m->coord[2] = n0 + c;
                m->in = &acc[r * ld + c];
                r_point(m);
            }
        assert_memory_equal(w->b[3].got, w->b[3].want, w->b[3].bytes + GUARD);
        wf_cpu_kernel_destroy(ck);
        free(m);
        free(acc);
        done(w);
    }
}

/* ---- the smallest kernel ---- */

static void a_kernel_of_one_element_is_quick(void **state)
{
    (void)state;
    world *w = calloc(1, sizeof *w);
    int64_t extents[] = {1};
    fx_begin(&w->f, 1, 0, extents);
    bind_data(w, WEFT_DTYPE_F32, 1, WF_ACCESS_READ);
    bind_data(w, WEFT_DTYPE_F32, 1, WF_ACCESS_WRITE);
    fx_stage(&w->f, WF_KSTAGE_OUTER);
    int index = fx_row_major(&w->f, 1), v = fx_load(&w->f, 0, index);
    fx_store(&w->f, 1, index, fx_op(&w->f, WF_KOP_NEG, WF_KTY_F32, v, -1, -1));
    wf_cpu_kernel *ck = NULL;
    assert_int_equal(wf_cpu_kernel_create(&w->f.k, &ck), WEFT_OK);
    _Atomic uint32_t word[WF_ERROR_WORDS] = {0};
    wf_cpu_run run = {.n_bind = 2, .statics = w->f.words, .pool = pools[1], .error = word};
    for (int i = 0; i < 2; i++) {
        run.ptr[i] = w->b[i].got;
        run.size[i] = w->b[i].bytes;
    }
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 50; round++) {
        uint64_t t = wf_now_ns();
        for (int i = 0; i < 200; i++)
            wf_cpu_kernel_run(ck, &run);
        best = WF_MIN(best, wf_now_ns() - t);
    }
    assert_true(best / 200 < 20000); /* 200 ns here; the bound only catches a wake-up of threads under a sanitizer */
    wf_cpu_kernel_destroy(ck);
    done(w);
}

static int make_pools(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        if (wf_pool_create(i + 1, &pools[i]) != WEFT_OK)
            return -1;
    return 0;
}

static int free_pools(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        wf_pool_destroy(pools[i]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_kernels_equal_the_reference),
        cmocka_unit_test(long_rows_are_cut_the_same_for_any_number_of_threads),
        cmocka_unit_test(sums_have_the_same_bits_on_all_threads_and_a_small_error),
        cmocka_unit_test(sum_of_many_ones_is_exact),
        cmocka_unit_test(softmax_is_right_for_rows_of_every_length_and_order),
        cmocka_unit_test(softmax_of_all_minus_inf_is_nan),
        cmocka_unit_test(softmax_of_rows_with_masked_tiny_and_nan_elements_is_right),
        cmocka_unit_test(normalised_rows_of_every_length_are_right),
        cmocka_unit_test(extremes_of_rows_with_nan_are_nan_and_their_first_index),
        cmocka_unit_test(empty_rows_give_starting_values_and_empty_outputs_run_nothing),
        cmocka_unit_test(indices_outside_a_binding_touch_nothing_outside),
        cmocka_unit_test(rows_of_every_length_are_picked_and_moved_right),
        cmocka_unit_test(rows_outside_a_binding_touch_nothing_outside),
        cmocka_unit_test(large_outputs_are_stored_past_the_caches_and_right),
        cmocka_unit_test(an_index_outside_its_extent_sets_the_error_words),
        cmocka_unit_test(a_cancelled_kernel_says_so),
        cmocka_unit_test(a_failed_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(epilogues_equal_the_reference_on_tiles_of_every_size),
        cmocka_unit_test(a_kernel_of_one_element_is_quick),
    };
    return cmocka_run_group_tests(tests, make_pools, free_pools);
}
