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

static void run_with(world *w, wf_pool *pool, uint32_t *error)
{
    wf_cpu_kernel *ck = NULL;
    assert_int_equal(wf_cpu_kernel_create(&w->f.k, &ck), WEFT_OK);
    _Atomic uint32_t word = 0;
    wf_cpu_run run = {.n_bind = w->f.k.n_bind, .statics = w->f.words, .step = w->step, .pool = pool, .error_word = &word};
    for (int i = 0; i < w->f.k.n_bind; i++) {
        run.ptr[i] = w->b[i].got;
        run.size[i] = w->b[i].bytes;
    }
    assert_int_equal(wf_cpu_kernel_run(ck, &run), WEFT_OK);
    *error = word;
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
    };
    return cmocka_run_group_tests(tests, make_pools, free_pools);
}
