/* test_kir.c - the kernel IR's verifier, printer and byte form. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "kir_fixture.h"

/* y[r] = sum of exp(x[r, :]), then z[r, :] = x / y: every kind of stage. */
static void make_rows(fixture *f)
{
    fx_begin(f, 1, 1, (int64_t[]){3, 5});
    int x = fx_bind(f, WEFT_DTYPE_F16, WF_ACCESS_READ, false), z = fx_bind(f, WEFT_DTYPE_F32, WF_ACCESS_WRITE, true);
    fx_stage(f, WF_KSTAGE_REDUCE);
    int e = fx_op(f, WF_KOP_EXP, WF_KTY_F32, fx_load(f, x, fx_row_major(f, 2)), -1, -1);
    fx_fold(f, WF_KROP_SUM, e);
    fx_stage(f, WF_KSTAGE_OUTER);
    int one = fx_f32(f, 1), sum = fx_acc(f, 0, 0);
    int r = fx_op(f, WF_KOP_DIV, WF_KTY_F32, one, sum, -1);
    fx_stage(f, WF_KSTAGE_MAP);
    int at = fx_row_major(f, 2);
    fx_store(f, z, at, fx_op(f, WF_KOP_MUL, WF_KTY_F32, fx_load(f, x, at), r, -1));
}

/* Element of a table picked by an index tensor that is checked, through a view. */
static void make_gather(fixture *f)
{
    fx_begin(f, 2, 0, (int64_t[]){4, 6});
    int table = fx_bind(f, WEFT_DTYPE_Q4_1, WF_ACCESS_READ, false), ids = fx_bind(f, WEFT_DTYPE_I32, WF_ACCESS_READ, false);
    int out = fx_bind(f, WEFT_DTYPE_BF16, WF_ACCESS_WRITE, true);
    f->k.has_error = 1;
    f->k.bind[table].layout = WF_LAYOUT_PLANAR;
    f->k.bind[table].plane_slot = fx_words(f, 2, (int32_t[]){1024, 2048});
    fx_stage(f, WF_KSTAGE_OUTER);
    int id = fx_load(f, ids, fx_row_major(f, 1));
    int row = fx_imm(f, WF_KOP_CHECK, WF_KTY_I32, id, fx_words(f, 1, (int32_t[]){9}), 0);
    int at = fx_imm(f, WF_KOP_UNRAVEL, WF_KTY_I32, row, fx_words(f, 5, (int32_t[]){3, 3, 0, 96, 32}), 2);
    fx_store(f, out, fx_row_major(f, 2), fx_load(f, table, at));
}

static void well_formed_kernels_verify(void **state)
{
    (void)state;
    fixture f;
    make_rows(&f);
    assert_int_equal(wf_kir_verify(&f.k), WEFT_OK);
    make_gather(&f);
    assert_int_equal(wf_kir_verify(&f.k), WEFT_OK);
}

static void every_dtype_has_a_compute_type(void **state)
{
    (void)state;
    assert_int_equal(wf_kty_of_dtype(WEFT_DTYPE_BF16), WF_KTY_F32);
    assert_int_equal(wf_kty_of_dtype(WEFT_DTYPE_Q4_0), WF_KTY_F32);
    assert_int_equal(wf_kty_of_dtype(WEFT_DTYPE_I8), WF_KTY_I32);
    assert_int_equal(wf_kty_of_dtype(WEFT_DTYPE_U8), WF_KTY_U32);
    assert_int_equal(wf_kty_of_dtype(WEFT_DTYPE_BOOL), WF_KTY_BOOL);
    assert_int_equal(wf_kty_of_dtype(WEFT_DTYPE_F64), WF_KTY_F64);
    assert_int_equal(wf_kty_of_dtype(WEFT_DTYPE_I64), WF_KTY_I64);
}

/* Each fault alone makes the kernel invalid. */
typedef void (*fault_fn)(wf_kir *k);
static void too_many_axes(wf_kir *k) { k->n_outer = 8; }
static void operand_from_later(wf_kir *k) { k->instr[1].a = 5; }
static void operand_negative(wf_kir *k) { k->instr[1].a = -1; }
static void operand_from_reduce_stage(wf_kir *k) { k->instr[k->n_instr - 2].a = 1; }
static void operand_of_wrong_type(wf_kir *k) { k->instr[2].a = 0; }
static void result_of_wrong_type(wf_kir *k) { k->instr[2].type = WF_KTY_I32; }
static void load_of_wrong_type(wf_kir *k) { k->instr[1].type = WF_KTY_U32; }
static void unknown_operation(wf_kir *k) { k->instr[2].op = WF_KOP_COUNT; }
static void unknown_type(wf_kir *k) { k->instr[2].type = WF_KTY_COUNT; }
static void unknown_dtype(wf_kir *k) { k->bind[0].dtype = WEFT_DTYPE_COUNT; }
static void unknown_binding(wf_kir *k) { k->instr[1].slot = 2; }
static void store_to_read_only(wf_kir *k) { k->bind[1].access = WF_ACCESS_READ; }
static void affine_past_statics(wf_kir *k) { k->n_static = (uint16_t)(k->instr[0].slot + 2); }
static void extents_past_statics(wf_kir *k) { k->extent_slot = k->n_static; }
static void statics_past_window(wf_kir *k) { k->n_static = 257; }
static void stages_overlap(wf_kir *k) { k->stages[1].first = 0; }
static void stages_leave_a_gap(wf_kir *k) { k->stages[2].count--; }
static void accumulator_of_later_stage(wf_kir *k) { k->instr[4].slot = 1; }
static void accumulator_out_of_range(wf_kir *k) { k->instr[4].imm = 1; }
static void fold_of_outside_value(wf_kir *k) { k->stages[0].acc[0].value = 6; }
static void reduce_without_accumulator(wf_kir *k) { k->stages[0].n_acc = 0; }
static void too_many_stages(wf_kir *k) { k->n_stages = WF_KIR_MAX_STAGES + 1; }
static void vec_in_rows(wf_kir *k) { k->vec = 4; }
static void odd_vec(wf_kir *k) { k->vec = 3; }
static void too_many_bindings(wf_kir *k) { k->n_bind = 255; }
static void chunks_past_statics(wf_kir *k) { k->bind[0].chunks = 2; k->bind[0].chunk_slot = k->n_static; }
static void chunks_of_an_output(wf_kir *k) { k->bind[1].chunks = 2; }
static void chunks_loaded_wide(wf_kir *k) { k->bind[0].chunks = 2; k->bind[0].wide = 1; }

static void every_fault_is_refused(void **state)
{
    (void)state;
    static const fault_fn faults[] = {
        too_many_axes, operand_from_later, operand_negative, operand_from_reduce_stage, operand_of_wrong_type,
        result_of_wrong_type, load_of_wrong_type, unknown_operation, unknown_type, unknown_dtype, unknown_binding,
        store_to_read_only, affine_past_statics, extents_past_statics, statics_past_window, stages_overlap,
        stages_leave_a_gap, accumulator_of_later_stage, accumulator_out_of_range, fold_of_outside_value,
        reduce_without_accumulator, too_many_stages, vec_in_rows, odd_vec, too_many_bindings,
        chunks_past_statics, chunks_of_an_output, chunks_loaded_wide};
    for (size_t i = 0; i < WF_COUNT(faults); i++) {
        fixture f;
        make_rows(&f);
        faults[i](&f.k);
        if (wf_kir_verify(&f.k) != WEFT_E_FORMAT)
            fail_msg("fault %zu is accepted", i);
    }
}

static void check_needs_an_error_word(void **state)
{
    (void)state;
    fixture f;
    make_gather(&f);
    f.k.has_error = 0;
    assert_int_equal(wf_kir_verify(&f.k), WEFT_E_FORMAT);
}

static void bytes_round_trip(void **state)
{
    (void)state;
    static void (*const make[])(fixture *) = {make_rows, make_gather};
    for (size_t i = 0; i < WF_COUNT(make); i++) {
        fixture f;
        wf_str first = WF_STR_INIT, second = WF_STR_INIT, a = WF_STR_INIT, b = WF_STR_INIT;
        wf_kir *back = calloc(1, sizeof *back);
        make[i](&f);
        assert_int_equal(wf_kir_write(&f.k, &first), WEFT_OK);
        assert_int_equal(wf_kir_read(first.ptr, first.len, back), WEFT_OK);
        assert_int_equal(wf_kir_write(back, &second), WEFT_OK);
        assert_int_equal(first.len, second.len);
        assert_memory_equal(first.ptr, second.ptr, first.len);
        wf_kir_print(&f.k, &a);
        wf_kir_print(back, &b);
        assert_string_equal(a.ptr, b.ptr);
        free(back);
        wf_str_free(&first);
        wf_str_free(&second);
        wf_str_free(&a);
        wf_str_free(&b);
    }
}

static void unused_fields_do_not_change_the_bytes(void **state)
{
    (void)state;
    fixture f, g;
    wf_str a = WF_STR_INIT, b = WF_STR_INIT;
    make_rows(&f);
    make_rows(&g);
    g.k.vec = 0;
    g.k.instr[2].b = 7;     /* exp has one operand */
    g.k.instr[2].imm = 99;
    g.k.instr[2].slot = 3;
    g.k.instr[WF_KIR_MAX_INSTR - 1].op = 5;
    assert_int_equal(wf_kir_write(&f.k, &a), WEFT_OK);
    assert_int_equal(wf_kir_write(&g.k, &b), WEFT_OK);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.ptr, b.ptr, a.len);
    wf_str_free(&a);
    wf_str_free(&b);
}

static void short_and_long_bytes_are_refused(void **state)
{
    (void)state;
    fixture f;
    wf_str bytes = WF_STR_INIT;
    wf_kir *back = calloc(1, sizeof *back), *zero = calloc(1, sizeof *zero);
    make_gather(&f);
    assert_int_equal(wf_kir_write(&f.k, &bytes), WEFT_OK);
    for (size_t n = 0; n < bytes.len; n++)
        assert_int_equal(wf_kir_read(bytes.ptr, n, back), WEFT_E_FORMAT);
    wf_str_addn(&bytes, "", 1);
    assert_int_equal(wf_kir_read(bytes.ptr, bytes.len, back), WEFT_E_FORMAT);
    assert_memory_equal(back, zero, sizeof *back); /* untouched on failure */
    free(back);
    free(zero);
    wf_str_free(&bytes);
}

/* Any byte changed gives a refusal or another kernel that verifies: never a crash or one that does not. */
static void flipped_bytes_never_pass_unverified(void **state)
{
    (void)state;
    fixture f;
    wf_str bytes = WF_STR_INIT;
    wf_kir *back = calloc(1, sizeof *back);
    make_rows(&f);
    assert_int_equal(wf_kir_write(&f.k, &bytes), WEFT_OK);
    for (size_t at = 0; at < bytes.len; at++)
        for (int value = 0; value < 256; value += 5) {
            char kept = bytes.ptr[at];
            bytes.ptr[at] = (char)value;
            if (wf_kir_read(bytes.ptr, bytes.len, back) == WEFT_OK)
                assert_int_equal(wf_kir_verify(back), WEFT_OK);
            bytes.ptr[at] = kept;
        }
    free(back);
    wf_str_free(&bytes);
}

static void print_shows_stages_and_operands(void **state)
{
    (void)state;
    fixture f;
    wf_str text = WF_STR_INIT;
    make_rows(&f);
    wf_kir_print(&f.k, &text);
    assert_non_null(strstr(text.ptr, "1 outer, 1 inner axes"));
    assert_non_null(strstr(text.ptr, "b0: f16 read"));
    assert_non_null(strstr(text.ptr, "%2: f32 = exp %1"));
    assert_non_null(strstr(text.ptr, "fold 0: sum %2"));
    assert_non_null(strstr(text.ptr, "%3: f32 = const 1"));
    assert_non_null(strstr(text.ptr, "store b1"));
    wf_str_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_kernels_verify),
        cmocka_unit_test(every_dtype_has_a_compute_type),
        cmocka_unit_test(every_fault_is_refused),
        cmocka_unit_test(check_needs_an_error_word),
        cmocka_unit_test(bytes_round_trip),
        cmocka_unit_test(unused_fields_do_not_change_the_bytes),
        cmocka_unit_test(short_and_long_bytes_are_refused),
        cmocka_unit_test(flipped_bytes_never_pass_unverified),
        cmocka_unit_test(print_shows_stages_and_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
