/* test_wgsl.c - the text of generated WGSL, without a device.
 *
 * A corpus covers every operation on every type, every pair of dtypes, every reduction and strategy, and
 * the special forms. With WEFT_WGSL_DIR=FOLDER its kernels are written there for tools/lint_wgsl.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kir_fixture.h"
#include "wgsl.h"

static const wf_caps caps = {.max_workgroup_invocations = 256, .max_workgroups = 65535, .max_workgroup_bytes = 16384};
static int n_texts;

/* Emit; every text of the corpus passes here. The caller frees it. */
static char *emit(const char *name, const fixture *f)
{
    wf_str text = WF_STR_INIT;
    const char *folder = getenv("WEFT_WGSL_DIR");
    weft_status st = wf_wgsl_emit(&caps, &f->k, &text);
    if (st != WEFT_OK)
        fail_msg("%s: %s", name, weft_error_message());
    if (folder) {
        char path[512];
        snprintf(path, sizeof path, "%s/%04d_%s.wgsl", folder, n_texts, name);
        FILE *file = fopen(path, "w");
        if (!file)
            fail_msg("%s cannot be written", path);
        fputs(text.ptr, file);
        fclose(file);
    }
    n_texts++;
    return text.ptr;
}

static void emit_only(const char *name, const fixture *f) { wf_free(emit(name, f)); }

/* ---- the corpus ---- */

static const weft_dtype dtype_of[] = {WEFT_DTYPE_F32, WEFT_DTYPE_I32, WEFT_DTYPE_U32, WEFT_DTYPE_BOOL};

/* op over loads of `type`; false when the verifier says that the operation has no such type */
static bool make_op(fixture *f, wf_kop op, wf_kty type, wf_kty result, int vec)
{
    int64_t extents[2] = {3, 8};
    fx_begin(f, 2, 0, extents);
    f->k.vec = (uint8_t)vec;
    f->k.has_error = op == WF_KOP_CHECK;
    int in[3], load[3], n = wf_kop_operands[op];
    for (int i = 0; i < 3; i++)
        in[i] = fx_bind(f, dtype_of[i == 0 && op == WF_KOP_SELECT ? WF_KTY_BOOL : type], WF_ACCESS_READ, false);
    int out = fx_bind(f, dtype_of[result], WF_ACCESS_WRITE, true);
    fx_stage(f, WF_KSTAGE_OUTER);
    int at = fx_row_major(f, 2);
    for (int i = 0; i < 3; i++)
        load[i] = fx_load(f, in[i], at);
    uint16_t words = fx_words(f, 5, (int32_t[]){3, 8, 0, 8, 1});
    int v = fx_instr(f, (wf_kinstr){.op = (uint8_t)op, .type = (uint8_t)result, .slot = op == WF_KOP_AXIS ? 1 : words,
                                    .a = (int16_t)(n > 0 ? load[0] : -1), .b = (int16_t)(n > 1 ? load[1] : -1),
                                    .c = (int16_t)(n > 2 ? load[2] : -1),
                                    .imm = op == WF_KOP_UNRAVEL ? 2 : op == WF_KOP_ROUND16 ? WEFT_DTYPE_F16 : 0});
    fx_store(f, out, at, v);
    return wf_kir_verify(&f->k) == WEFT_OK;
}

static void every_operation_has_text(void **state)
{
    (void)state;
    for (int op = 0; op < WF_KOP_COUNT; op++) {
        int made = 0;
        if (op == WF_KOP_STORE || op == WF_KOP_IN || op == WF_KOP_ACC || op == WF_KOP_LOAD)
            continue; /* in the other kernels */
        for (int type = 0; type <= WF_KTY_BOOL; type++)
            for (int result = 0; result <= WF_KTY_BOOL; result++)
                for (int vec = 1; vec <= 4; vec *= 4) {
                    fixture f;
                    char name[64], assignment[32];
                    if (!make_op(&f, (wf_kop)op, (wf_kty)type, (wf_kty)result, vec))
                        continue;
                    snprintf(name, sizeof name, "%s_%d_%d_vec%d", wf_kop_name[op], type, result, vec);
                    char *text = emit(name, &f);
                    snprintf(assignment, sizeof assignment, "let v4 = ;");
                    if (strstr(text, assignment))
                        fail_msg("%s has no text", name);
                    wf_free(text);
                    made++;
                }
        if (made == 0 && op != WF_KOP_LIBM) /* f64 alone */
            fail_msg("%s: no type is accepted", wf_kop_name[op]);
    }
}

static const weft_dtype plain[] = {WEFT_DTYPE_F32, WEFT_DTYPE_F16, WEFT_DTYPE_BF16, WEFT_DTYPE_I32,
                                   WEFT_DTYPE_U32, WEFT_DTYPE_I8,  WEFT_DTYPE_U8,   WEFT_DTYPE_BOOL};

static void make_copy(fixture *f, weft_dtype from, weft_dtype to, int vec, bool linear, bool wide)
{
    int64_t extent = 32;
    fx_begin(f, 1, 0, &extent);
    f->k.vec = (uint8_t)vec;
    int in = fx_bind(f, from, WF_ACCESS_READ, false), out = fx_bind(f, to, WF_ACCESS_READ_WRITE, linear);
    f->k.bind[in].wide = wide;
    fx_stage(f, WF_KSTAGE_OUTER);
    int at = fx_row_major(f, 1);
    fx_store(f, out, at, fx_load(f, in, at));
    fx_load(f, out, at);
}

static void every_pair_of_dtypes_has_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < WF_COUNT(plain); i++)
        for (size_t j = 0; j < WF_COUNT(plain); j++)
            for (int vec = 1; vec <= 4; vec *= 2)
                for (int flags = 0; flags < 4; flags++) {
                    fixture f;
                    char name[64];
                    if ((flags & 1) && (vec == 1 || plain[j] != WEFT_DTYPE_F32)) /* wide is a matter of the input */
                        continue;
                    make_copy(&f, plain[i], plain[j], vec, flags >> 1 & 1, flags & 1);
                    snprintf(name, sizeof name, "copy_%s_%s_vec%d_%d", weft_dtype_name(plain[i]), weft_dtype_name(plain[j]),
                             vec, flags);
                    emit_only(name, &f);
                }
}

static void block_types_have_text(void **state)
{
    (void)state;
    for (int dtype = WEFT_DTYPE_Q8_0; dtype <= WEFT_DTYPE_Q4_1; dtype++)
        for (int planar = 0; planar < 2; planar++) {
            fixture f;
            char name[64];
            make_copy(&f, (weft_dtype)dtype, WEFT_DTYPE_F16, 4, true, true);
            f.k.bind[0].layout = (uint8_t)planar;
            f.k.bind[0].plane_slot = fx_words(&f, 2, (int32_t[]){512, 1024});
            snprintf(name, sizeof name, "%s_%s", weft_dtype_name((weft_dtype)dtype), planar ? "planar" : "plain");
            emit_only(name, &f);
        }
}

/* All reductions of a dtype over n_inner axes, a value of them stored a row and one a point. */
static void make_rows(fixture *f, weft_dtype dtype, wf_krop first, wf_kstrategy strategy, int n_outer, int n_inner)
{
    wf_kty type = wf_kty_of_dtype(dtype);
    int64_t extents[4] = {3, 4, 5, 6};
    fx_begin(f, n_outer, n_inner, extents);
    f->k.strategy = (uint8_t)strategy;
    int x = fx_bind(f, dtype, WF_ACCESS_READ, false), rows = fx_bind(f, dtype, WF_ACCESS_WRITE, true);
    int points = fx_bind(f, dtype, WF_ACCESS_WRITE, true), at_out = fx_bind(f, WEFT_DTYPE_I32, WF_ACCESS_WRITE, true);
    fx_stage(f, WF_KSTAGE_REDUCE);
    int v = fx_load(f, x, fx_row_major(f, n_outer + n_inner));
    fx_fold(f, first, v);
    fx_fold(f, WF_KROP_ARGMAX, v);
    fx_fold(f, WF_KROP_ARGMIN, v);
    fx_stage(f, WF_KSTAGE_OUTER);
    int row = fx_row_major(f, n_outer), acc = fx_acc(f, 0, 0);
    fx_store(f, rows, row, acc);
    int where = fx_acc(f, 0, 1);
    fx_store(f, at_out, row, where);
    fx_stage(f, WF_KSTAGE_REDUCE);
    int w = fx_load(f, x, fx_row_major(f, n_outer + n_inner));
    fx_fold(f, WF_KROP_MAX, w);
    fx_stage(f, WF_KSTAGE_MAP);
    int point = fx_row_major(f, n_outer + n_inner), u = fx_load(f, x, point), best = fx_acc(f, 2, 0);
    fx_store(f, points, point, fx_op(f, WF_KOP_MAX, type, u, best, -1));
}

static void every_reduction_has_text(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_DTYPE_F32, WEFT_DTYPE_F16, WEFT_DTYPE_I32, WEFT_DTYPE_U8, WEFT_DTYPE_BOOL};
    for (size_t i = 0; i < WF_COUNT(dtypes); i++)
        for (int rop = 0; rop <= WF_KROP_ARGMIN; rop++)
            for (int strategy = 0; strategy <= WF_KSTRAT_LANES; strategy++)
                for (int shape = 0; shape < 4; shape++) {
                    fixture f;
                    char name[64];
                    if (dtypes[i] == WEFT_DTYPE_BOOL && rop <= WF_KROP_PROD)
                        continue;
                    make_rows(&f, dtypes[i], (wf_krop)rop, (wf_kstrategy)strategy, (int[]){1, 2, 0, 1}[shape],
                              (int[]){1, 2, 1, 3}[shape]);
                    if (rop >= WF_KROP_ARGMAX)
                        f.k.instr[f.k.stages[1].first + 1].type = WF_KTY_I32,
                        f.k.instr[f.k.stages[1].first + 2].type = WF_KTY_I32;
                    snprintf(name, sizeof name, "rows_%s_%d_%d_%d", weft_dtype_name(dtypes[i]), rop, strategy, shape);
                    emit_only(name, &f);
                }
}

/* A gather with a checked index, a run-time offset and hidden zero. */
static void make_gather(fixture *f)
{
    fx_begin(f, 2, 0, (int64_t[]){4, 6});
    f->k.has_error = 1;
    int table = fx_bind(f, WEFT_DTYPE_F32, WF_ACCESS_READ, false), ids = fx_bind(f, WEFT_DTYPE_I32, WF_ACCESS_READ, false);
    int out = fx_bind(f, WEFT_DTYPE_F32, WF_ACCESS_WRITE, true);
    fx_stage(f, WF_KSTAGE_OUTER);
    int id = fx_load(f, ids, fx_row_major(f, 1));
    int past = fx_imm(f, WF_KOP_STEP, WF_KTY_I32, -1, fx_words(f, 1, (int32_t[]){7}), 0);
    int sum = fx_op(f, WF_KOP_ADD, WF_KTY_I32, id, past, -1);
    int row = fx_imm(f, WF_KOP_CHECK, WF_KTY_I32, sum, fx_words(f, 1, (int32_t[]){9}), 0);
    int at = fx_imm(f, WF_KOP_UNRAVEL, WF_KTY_I32, row, fx_words(f, 5, (int32_t[]){3, 3, 0, 96, 32}), 2);
    int value = fx_load(f, table, at), zero = fx_f32(f, 0);
    fx_store(f, out, fx_row_major(f, 2), fx_op(f, WF_KOP_MUL, WF_KTY_F32, value, zero, -1));
}

static void indexed_kernels_have_text(void **state)
{
    (void)state;
    fixture f;
    make_gather(&f);
    char *text = emit("gather", &f);
    assert_non_null(strstr(text, "@binding(3) var<storage, read_write> b3: array<atomic<u32>>"));
    assert_non_null(strstr(text, "@binding(4) var<uniform> P: array<vec4<i32>, 64>"));
    assert_non_null(strstr(text, "@binding(5) var<uniform> S: array<vec4<u32>, 256>"));
    wf_free(text);
}

static void helpers_of_hand_written_kernels_compile(void **state)
{
    (void)state;
    static const char *const calls = "wf_pow wf_div wf_rsqrt wf_sqrt wf_log wf_sin wf_cos wf_tanh wf_erf wf_f32_to_bf16 wf_umod";
    wf_str text = WF_STR_INIT;
    const char *folder = getenv("WEFT_WGSL_DIR");
    assert_int_equal(wf_wgsl_emit_helpers(calls, &text), WEFT_OK);
    assert_non_null(strstr(text.ptr, "fn wf_mulhi("));  /* needed by wf_pow */
    assert_null(strstr(text.ptr, "fn wf_f16_to_f32(")); /* needed by none */
    for (const char *p = text.ptr; (p = strstr(p, "fn wf_scale(")) != NULL; p++) /* declared once */
        assert_null(strstr(p + 1, "fn wf_scale("));
    if (folder) {
        char path[512];
        snprintf(path, sizeof path, "%s/helpers.wgsl", folder);
        FILE *file = fopen(path, "w");
        if (!file)
            fail_msg("%s cannot be written", path);
        fputs(text.ptr, file);
        fclose(file);
    }
    wf_str_free(&text);
}

/* ---- claims about the text ---- */

static void text_does_not_depend_on_shapes(void **state)
{
    (void)state;
    for (int strategy = 0; strategy <= WF_KSTRAT_LANES; strategy++) {
        fixture f;
        make_rows(&f, WEFT_DTYPE_F32, WF_KROP_SUM, (wf_kstrategy)strategy, 2, 1);
        char *a = emit("shape", &f);
        memset(f.words, 0x5a, sizeof f.words);
        char *b = emit("shape", &f);
        assert_string_equal(a, b);
        wf_free(a);
        wf_free(b);
    }
}

static void constants_are_never_infinite_literals(void **state)
{
    (void)state;
    static const uint32_t bits[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x00000001u, 0x80000000u, 0x7f7fffffu, 0x3dcccccdu};
    fixture f;
    int64_t extent = 4;
    fx_begin(&f, 1, 0, &extent);
    int out = fx_bind(&f, WEFT_DTYPE_F32, WF_ACCESS_WRITE, true);
    fx_stage(&f, WF_KSTAGE_OUTER);
    int at = fx_row_major(&f, 1);
    for (size_t i = 0; i < WF_COUNT(bits); i++)
        fx_store(&f, out, at, fx_imm(&f, WF_KOP_CONST, WF_KTY_F32, -1, 0, bits[i]));
    fx_store(&f, out, at, fx_imm(&f, WF_KOP_CONST, WF_KTY_I32, -1, 0, 0x80000000u));
    char *text = emit("constants", &f);
    assert_non_null(strstr(text, "wf_bits(0x7f800000u)"));
    assert_non_null(strstr(text, "wf_bits(0x00000001u)"));
    assert_non_null(strstr(text, "wf_bits(0x7f7fffffu)")); /* 3.40282347e+38 is above it */
    assert_non_null(strstr(text, "0.100000001f"));
    assert_null(strstr(text, "nan"));
    wf_free(text);
}

static void types_that_wgsl_lacks_are_named(void **state)
{
    (void)state;
    fixture f;
    wf_str text = WF_STR_INIT;
    make_copy(&f, WEFT_DTYPE_F64, WEFT_DTYPE_F32, 1, true, false);
    assert_int_equal(wf_wgsl_emit(&caps, &f.k, &text), WEFT_E_UNSUPPORTED);
    assert_non_null(strstr(weft_error_message(), "f64"));
    make_copy(&f, WEFT_DTYPE_F32, WEFT_DTYPE_I64, 1, true, false);
    assert_int_equal(wf_wgsl_emit(&caps, &f.k, &text), WEFT_E_UNSUPPORTED);
    assert_non_null(strstr(weft_error_message(), "i64"));
    assert_int_equal(text.len, 0);
    wf_str_free(&text);
}

static void contiguous_aligned_inputs_are_widened(void **state)
{
    (void)state;
    static const struct { int32_t words[3], extent; int vec, wide; } cases[] = {
        {{0, 8, 1}, 8, 4, 1},  /* rows */
        {{4, 12, 1}, 8, 4, 1}, /* a slice of rows of 12 */
        {{2, 8, 1}, 8, 4, 0},  /* from the second element */
        {{2, 8, 1}, 6, 2, 1},
        {{0, 9, 1}, 8, 4, 0},  /* rows of 9 */
        {{0, 1, 3}, 8, 4, 0},  /* transposed */
        {{7, 8, -1}, 8, 4, 0},
        {{0, 0, 0}, 8, 4, 0},  /* broadcast */
        {{0, 0, 1}, 8, 4, 1},
        {{0, 7, 1}, 7, 1, 0}};
    for (size_t i = 0; i < WF_COUNT(cases); i++) {
        fixture f;
        fx_begin(&f, 2, 0, (int64_t[]){3, cases[i].extent});
        int in = fx_bind(&f, WEFT_DTYPE_F16, WF_ACCESS_READ, false), out = fx_bind(&f, WEFT_DTYPE_F32, WF_ACCESS_WRITE, true);
        fx_stage(&f, WF_KSTAGE_OUTER);
        int v = fx_load(&f, in, fx_affine(&f, cases[i].words));
        fx_store(&f, out, fx_row_major(&f, 2), v);
        wf_wgsl_widen(&f.k, f.words);
        if (f.k.vec != cases[i].vec || f.k.bind[in].wide != cases[i].wide)
            fail_msg("case %zu: vec %d, wide %d", i, f.k.vec, f.k.bind[in].wide);
        emit_only("widened", &f);
    }
    fixture rows;
    make_rows(&rows, WEFT_DTYPE_F32, WF_KROP_SUM, WF_KSTRAT_GROUP, 2, 1);
    wf_wgsl_widen(&rows.k, rows.words);
    assert_int_equal(rows.k.vec, 1);
    assert_int_equal(wf_kir_verify(&rows.k), WEFT_OK);
}

static void grid_covers_every_point(void **state)
{
    (void)state;
    fixture f;
    uint32_t grid[3];
    make_copy(&f, WEFT_DTYPE_F32, WEFT_DTYPE_F32, 1, true, false);
    wf_wgsl_grid(&caps, &f.k, (int64_t[]){256 * 65535}, grid);
    assert_int_equal(grid[0], 65535);
    assert_int_equal(grid[1], 1);
    wf_wgsl_grid(&caps, &f.k, (int64_t[]){256 * 65535 + 1}, grid);
    assert_int_equal(grid[0], 32768);
    assert_int_equal(grid[1], 2);
    wf_wgsl_grid(&caps, &f.k, (int64_t[]){0}, grid);
    assert_int_equal(grid[0], 0);
    f.k.vec = 4;
    wf_wgsl_grid(&caps, &f.k, (int64_t[]){1028}, grid);
    assert_int_equal(grid[0], 2);
    make_copy(&f, WEFT_DTYPE_F32, WEFT_DTYPE_BOOL, 1, true, false); /* 4 elements a word */
    wf_wgsl_grid(&caps, &f.k, (int64_t[]){1025}, grid);
    assert_int_equal(grid[0], 2);
    make_rows(&f, WEFT_DTYPE_F32, WF_KROP_SUM, WF_KSTRAT_GROUP, 2, 1);
    wf_wgsl_grid(&caps, &f.k, (int64_t[]){1000, 1000, 5}, grid);
    assert_true((uint64_t)grid[0] * grid[1] >= 1000000 && grid[0] <= 65535);
}

/* bias added in an epilogue after two bindings and 5 static words of the kernel */
static void epilogue_names_follow_its_bases(void **state)
{
    (void)state;
    fixture f;
    wf_str bindings = WF_STR_INIT, body = WF_STR_INIT, text = WF_STR_INIT;
    fx_begin(&f, 3, 0, (int64_t[]){2, 3, 4});
    int bias = fx_bind(&f, WEFT_DTYPE_F16, WF_ACCESS_READ, false), out = fx_bind(&f, WEFT_DTYPE_F16, WF_ACCESS_WRITE, true);
    fx_stage(&f, WF_KSTAGE_OUTER);
    int acc = fx_op(&f, WF_KOP_IN, WF_KTY_F32, -1, -1, -1);
    int b = fx_load(&f, bias, fx_affine(&f, (int32_t[]){0, 0, 0, 1}));
    int sum = fx_op(&f, WF_KOP_ADD, WF_KTY_F32, acc, b, -1);
    fx_store(&f, out, fx_row_major(&f, 3), fx_op(&f, WF_KOP_EXP, WF_KTY_F32, sum, -1, -1));
    assert_int_equal(wf_wgsl_emit_epilogue(&f.k, 2, 5, &bindings, &body), WEFT_OK);
    assert_non_null(strstr(bindings.ptr, "@binding(2) var<storage, read> b2: array<u32>"));
    assert_non_null(strstr(bindings.ptr, "@binding(3) var<storage, read_write> b3: array<atomic<u32>>"));
    assert_non_null(strstr(body.ptr, "P[2].x + c0 * P[2].y")); /* word 3 of the epilogue is word 8 */
    assert_int_equal(wf_wgsl_emit(&caps, &f.k, &text), WEFT_E_UNSUPPORTED);

    const char *folder = getenv("WEFT_WGSL_DIR");
    if (folder) { /* a kernel around it, so that the lint sees the whole */
        char path[512];
        wf_str_add(&text, bindings.ptr);
        wf_wgsl_emit_params(4, 16, &text);
        assert_int_equal(wf_wgsl_emit_helpers(body.ptr, &text), WEFT_OK);
        wf_str_add(&text, body.ptr);
        wf_str_add(&text, "@compute @workgroup_size(1) fn main() { epilogue(1.0, 0, 0, 0); }\n");
        snprintf(path, sizeof path, "%s/epilogue.wgsl", folder);
        FILE *file = fopen(path, "w");
        if (!file)
            fail_msg("%s cannot be written", path);
        fputs(text.ptr, file);
        fclose(file);
    }
    wf_str_free(&bindings);
    wf_str_free(&body);
    wf_str_free(&text);
}

static void failed_allocations_are_reported(void **state)
{
    (void)state;
    fixture f;
    make_rows(&f, WEFT_DTYPE_F16, WF_KROP_ARGMAX, WF_KSTRAT_GROUP, 1, 1);
    f.k.instr[f.k.stages[1].first + 1].type = f.k.instr[f.k.stages[1].first + 2].type = WF_KTY_I32;
    for (uint64_t n = 1;; n++) {
        wf_str text = WF_STR_INIT;
        wf_alloc_fail_nth(n);
        weft_status st = wf_wgsl_emit(&caps, &f.k, &text);
        wf_alloc_fail_nth(0);
        wf_str_free(&text);
        if (st == WEFT_OK)
            break;
        assert_int_equal(st, WEFT_E_OOM);
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_has_text),
        cmocka_unit_test(every_pair_of_dtypes_has_text),
        cmocka_unit_test(block_types_have_text),
        cmocka_unit_test(every_reduction_has_text),
        cmocka_unit_test(indexed_kernels_have_text),
        cmocka_unit_test(helpers_of_hand_written_kernels_compile),
        cmocka_unit_test(text_does_not_depend_on_shapes),
        cmocka_unit_test(constants_are_never_infinite_literals),
        cmocka_unit_test(types_that_wgsl_lacks_are_named),
        cmocka_unit_test(contiguous_aligned_inputs_are_widened),
        cmocka_unit_test(grid_covers_every_point),
        cmocka_unit_test(epilogue_names_follow_its_bases),
        cmocka_unit_test(failed_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
