/* test_kernel_table.c - which row of the kernel table a request gets, its static words, and that every
 * row's text expands. No device is needed.
 *
 * WEFT_WGSL_DIR=FOLDER writes every text there that keeps the default limits, for tools/lint_wgsl.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "kernel_case.h"
#include "kernel_text.h"

#define F32 WEFT_DTYPE_F32
#define F16 WEFT_DTYPE_F16
#define BF16 WEFT_DTYPE_BF16

/* ---- templates ---- */
static void expand(const char *text, const char *want)
{
    wf_slots s = {0};
    wf_str out = WF_STR_INIT;
    wf_slots_set(&s, "N", 3);
    wf_slots_set(&s, "ZERO", 0);
    wf_slots_set_text(&s, "WORD", "abc");
    weft_status st = wf_template_expand("test", text, &s, &out);
    if (want) {
        assert_int_equal(st, WEFT_OK);
        assert_string_equal(out.ptr ? out.ptr : "", want);
    } else {
        assert_int_equal(st, WEFT_E_INTERNAL);
    }
    wf_str_free(&out);
}

static void directives_expand_as_documented(void **state)
{
    (void)state;
    expand("", "");
    expand("plain", "plain");
    expand("{{N}} {{WORD}} {{=N * (N + 1) - 5 % 3}}", "3 abc 10");
    expand("{{=N == 3 ? 7 : 9}}{{=ZERO ? 7 : 9}}{{=!ZERO && N > 2}}", "791");
    expand("{{#for I=0..N}}{{#for J=I..N}}{{=10 * I + J}} {{/for}}{{/for}}", "0 1 2 11 12 22 ");
    expand("{{#for I=0..ZERO}}x{{/for}}y", "y");
    expand("{{#for I=0..ZERO}}{{#for J=0..2}}{{UNKNOWN}}{{/for}}{{/for}}y", "y");
    expand("{{#if N == 3}}a{{#else}}b{{/if}}{{#if ZERO}}a{{#else}}b{{/if}}", "ab");
    expand("{{#if ZERO}}{{#if N}}a{{#else}}b{{/if}}{{#else}}c{{/if}}", "c");
    expand("a\n  {{#if N}}\n  b\n  {{/if}}\nc", "a\n  b\nc");
}

static void bad_templates_are_errors(void **state)
{
    (void)state;
    static const char *const bad[] = {"{{UNKNOWN}}", "{{=1 / ZERO}}", "{{=1 +}}", "{{#if 1}}", "{{/if}}", "{{/for}}", "{{N",
                                      "{{#for I=0..2}}{{/if}}", "{{#else}}", "{{#for 3}}{{/for}}", "{{=N N}}", "{{=((1)}}",
                                      "{{#for I=0..100000000}}0123456789{{/for}}"};
    for (size_t i = 0; i < WF_COUNT(bad); i++)
        expand(bad[i], NULL);
}

/* ---- choices ---- */
static const char *row_of(const wf_caps *caps, const wf_kernel_req *r)
{
    static char name[64];
    wf_kernel_choice c;
    if (wf_kernel_choose(caps, r, &c) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    snprintf(name, sizeof name, "%s", c.launch[0].row);
    choice_free(&c);
    return name;
}

/* A contiguous operand that has a shape and no bytes. */
static operand shape_only(weft_dtype dtype, int rank, const int64_t *shape, char style)
{
    operand x = {.op = {.dtype = dtype, .step_slot = -1}};
    x.op.view = styled_view(rank, shape, style, &x.op.numel);
    x.op.layout = weft_dtype_is_quantised(dtype) ? WF_LAYOUT_PLANAR : WF_LAYOUT_PLAIN;
    return x;
}

static const char *matrix_row(const wf_caps *caps, int64_t m, int64_t n, int64_t k, weft_dtype b, bool linear, char style)
{
    int64_t sa[2] = {m, k}, sb[2] = {linear ? n : k, linear ? k : n};
    operand x = shape_only(F32, 2, sa, style), y = shape_only(b, 2, sb, 'c');
    wf_kernel_req r = req_matmul(&x, &y, linear);
    return row_of(caps, &r);
}

static void matrices_get_the_row_their_shape_wants(void **state)
{
    (void)state;
    wf_caps min = caps_default(), large = caps_large();
    assert_string_equal(matrix_row(&large, 4096, 4096, 4096, F32, false, 'c'), "tile_256x128x16");
    assert_string_equal(matrix_row(&min, 4096, 4096, 4096, F32, false, 'c'), "tile_128x128x16");
    assert_string_equal(matrix_row(&min, 1024, 1024, 1024, F32, false, 'c'), "tile_64x64x16");
    assert_string_equal(matrix_row(&min, 100, 100, 100, F32, false, 's'), "tile_32x32x16");
    assert_string_equal(matrix_row(&min, 3, 3, 3, F32, false, 'c'), "plain");
    assert_string_equal(matrix_row(&min, 2, 4096, 4096, F32, false, 'c'), "plain"); /* k is strided in b */
    assert_string_equal(matrix_row(&min, 1, 4096, 4096, F16, true, 'c'), "matvec");
    assert_string_equal(matrix_row(&large, 1, 4096, 4096, F16, true, 'c'), "matvec_sg");
    assert_string_equal(matrix_row(&min, 8, 2048, 8192, BF16, true, 'c'), "matvec_long");
    assert_string_equal(matrix_row(&min, 3, 64, 67, F32, true, 'c'), "matvec_odd");
    assert_string_equal(matrix_row(&min, 1, 64, 64, WEFT_DTYPE_Q8_0, true, 's'), "matvec");
    assert_string_equal(matrix_row(&min, 64, 64, 64, WEFT_DTYPE_Q4_0, true, 'c'), "tile_32x32x32");
    assert_string_equal(matrix_row(&min, 512, 4096, 4096, WEFT_DTYPE_Q4_1, true, 'c'), "tile_64x64x32");
    min.max_workgroup_invocations = 32;
    assert_string_equal(matrix_row(&min, 512, 4096, 4096, F32, true, 'c'), "plain");
}

static void attention_and_topk_get_the_row_their_shape_wants(void **state)
{
    (void)state;
    wf_caps min = caps_default(), large = caps_large();
    int64_t q[4] = {1, 32, 1, 64}, kv[4] = {1, 8, 1024, 64}, x[2] = {4, 1000};
    operand oq = shape_only(F32, 4, q, 'c'), ok = shape_only(F16, 4, kv, 'c'), len = shape_only(WEFT_DTYPE_I32, 0, NULL, 'c');
    len.op.step_slot = 5;
    wf_kernel_req r = req_sdpa(&oq, &ok, &ok, NULL, true, &len);
    wf_kernel_choice c;
    assert_int_equal(wf_kernel_choose(&min, &r, &c), WEFT_OK);
    assert_int_equal(c.n_launches, 2);
    assert_string_equal(c.launch[0].row, "decode");
    assert_int_equal(c.launch[0].indirect_in, 3);
    assert_int_equal(c.launch[0].indirect_axis, 0);
    assert_int_equal(c.launch[0].indirect_div, 64);
    assert_int_equal(c.launch[0].grid[0], 16);
    assert_int_equal(c.launch[0].statics[29], 5);
    assert_int_equal(c.launch[1].indirect_in, -1);
    assert_int_equal(c.scratch_bytes, 32 * 16 * 66 * 4);
    assert_int_equal(c.launch[0].bind[3], WF_BIND_SCRATCH);
    assert_int_equal(c.launch[1].bind[0], WF_BIND_SCRATCH);
    assert_int_equal(c.launch[1].bind[1], WF_BIND_OUT);
    choice_free(&c);

    q[2] = 512;
    oq = shape_only(F32, 4, q, 'c');
    r = req_sdpa(&oq, &ok, &ok, NULL, true, NULL);
    assert_string_equal(row_of(&min, &r), "tile_32");
    assert_string_equal(row_of(&large, &r), "tile_64");
    q[2] = 2;
    oq = shape_only(F32, 4, q, 'c');
    r = req_sdpa(&oq, &ok, &ok, NULL, true, NULL);
    assert_string_equal(row_of(&min, &r), "row");
    memcpy(min.info.kind, "software", 9);
    assert_string_equal(row_of(&min, &r), "plain");

    operand ox = shape_only(F32, 2, x, 'c');
    r = req_topk(&ox, 40);
    assert_string_equal(row_of(&min, &r), "select");
    r = req_topk(&ox, 1);
    assert_string_equal(row_of(&min, &r), "plain");
}

static void static_words_are_those_of_the_header(void **state)
{
    (void)state;
    wf_caps caps = caps_default();
    int64_t sa[4] = {2, 1, 5, 8}, sb[4] = {2, 3, 8, 9}, sw[2] = {9, 64}, sx[3] = {2, 3, 64};
    operand a = shape_only(F32, 4, sa, 'c'), b = shape_only(F32, 4, sb, 't'), w = shape_only(WEFT_DTYPE_Q4_1, 2, sw, 'r');
    operand x = shape_only(F32, 3, sx, 'o');
    wf_kernel_req r = req_matmul(&a, &b, false);
    wf_kernel_choice c;
    assert_int_equal(wf_kernel_choose(&caps, &r, &c), WEFT_OK);
    static const int32_t plain[20] = {5, 9, 8, 6, 1, 2, 3, 0, 8, 1, 0, 40, 0, 0, 1, 8, 0, 216, 72, 5};
    assert_int_equal(c.launch[0].n_static, 20);
    assert_memory_equal(c.launch[0].statics, plain, sizeof plain);
    assert_int_equal(c.flops, 2 * 6 * 5 * 9 * 8);
    choice_free(&c);

    int64_t sy[2] = {64, 4}; /* one right matrix for the batch: the batch joins the rows */
    operand y = shape_only(F32, 2, sy, 'c');
    r = req_matmul(&x, &y, false);
    assert_int_equal(wf_kernel_choose(&caps, &r, &c), WEFT_OK);
    assert_int_equal(c.launch[0].statics[0], 6);
    assert_int_equal(c.launch[0].statics[3], 1);
    assert_int_equal(c.launch[0].statics[19], 3);
    choice_free(&c);

    r = req_matmul(&x, &w, true);
    assert_int_equal(wf_kernel_choose(&caps, &r, &c), WEFT_OK);
    wf_planes planes = wf_quant_planar_offsets(WEFT_DTYPE_Q4_1, w.op.numel / 32);
    const int32_t quant[12] = {6, 9, 64, 4, 16, 64, 1, (int32_t)planes.scales, (int32_t)planes.minima, 0, 2, 0};
    assert_int_equal(c.launch[0].n_static, 12);
    assert_memory_equal(c.launch[0].statics, quant, sizeof quant);
    choice_free(&c);
}

static void past_65535_work_groups_the_grid_folds(void **state)
{
    (void)state;
    wf_caps caps = caps_default();
    int64_t s[3] = {65536 * 256, 1, 1};
    operand a = shape_only(F32, 3, s, 'c');
    wf_kernel_req r = req_matmul(&a, &a, false);
    wf_kernel_choice c;
    assert_int_equal(wf_kernel_choose(&caps, &r, &c), WEFT_OK);
    assert_true(c.launch[0].grid[0] <= 65535 && c.launch[0].grid[1] == 2);
    assert_true((uint64_t)c.launch[0].grid[0] * c.launch[0].grid[1] * 256 >= 65536 * 256);
    choice_free(&c);
}

/* ---- refusals ---- */
static void refused(const wf_caps *caps, const wf_kernel_req *r, const char *says)
{
    wf_kernel_choice c;
    assert_int_equal(wf_kernel_choose(caps, r, &c), WEFT_E_UNSUPPORTED);
    if (!strstr(weft_error_message(), says))
        fail_msg("\"%s\" does not say \"%s\"", weft_error_message(), says);
}

static void a_forced_row_that_does_not_fit_says_why(void **state)
{
    (void)state;
    wf_caps caps = caps_default();
    int64_t s[2] = {16, 16}, n[2] = {16, 8};
    operand a = shape_only(F32, 2, s, 'c'), b = shape_only(F32, 2, n, 'c');
    wf_kernel_req r = req_matmul(&a, &b, false);
    setenv("WEFT_KERNEL", "sdpa:plain,matmul:matvec", 1);
    refused(&caps, &r, "16 rows, it takes 8");
    setenv("WEFT_KERNEL", "matmul:matvec_sg", 1);
    refused(&caps, &r, "no subgroups");
    setenv("WEFT_KERNEL", "matmul:tile_256x128x16", 1);
    refused(&caps, &r, "24576 bytes of workgroup memory, the device has 16384");
    setenv("WEFT_KERNEL", "matmul:matvec,matmul:nonesuch", 1); /* the last counts */
    refused(&caps, &r, "no row \"nonesuch\"");
    setenv("WEFT_KERNEL", "linear:matvec", 1);
    assert_string_equal(row_of(&caps, &r), "plain");
    setenv("WEFT_KERNEL", "matmul:tile_64x64x16", 1);
    assert_string_equal(row_of(&caps, &r), "tile_64x64x16");
    unsetenv("WEFT_KERNEL");
}

static void what_no_row_takes_is_unsupported(void **state)
{
    (void)state;
    wf_caps caps = caps_default();
    int64_t s[2] = {8, 64}, empty[2] = {8, 0};
    operand f = shape_only(F32, 2, s, 'c'), i = shape_only(WEFT_DTYPE_I32, 2, s, 'c'), e = shape_only(F32, 2, empty, 'c');
    operand q = shape_only(WEFT_DTYPE_Q8_0, 2, s, 'c');
    wf_kernel_req r = req_matmul(&f, &i, true);
    refused(&caps, &r, "i32");
    r = req_matmul(&e, &e, true);
    refused(&caps, &r, "empty");
    q.op.layout = WF_LAYOUT_PLAIN;
    r = req_matmul(&f, &q, true);
    refused(&caps, &r, "planar");
    r = req_matmul(&f, &f, true);
    r.in[0].view.offset = 1ll << 31;
    refused(&caps, &r, "32-bit");
    r = req_topk(&f, 0);
    refused(&caps, &r, "k is 0");
    caps.max_storage_buffers = 2;
    r = req_matmul(&f, &f, true);
    refused(&caps, &r, "needs 3 storage buffers");
}

/* ---- texts ---- */
static int n_texts;

static void check_text(const char *op, const wf_launch *l, bool write)
{
    const char *text = l->wgsl.ptr;
    if (!text || strstr(text, "{{") || strstr(text, "}}") || !strstr(text, "fn main("))
        fail_msg("%s:%s is not a whole text:\n%s", op, l->row, text ? text : "");
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p > 126)
            fail_msg("%s:%s has a byte beyond ASCII", op, l->row);
    assert_true(l->n_bind > 0 && l->grid[0] > 0 && l->grid[1] > 0 && l->grid[2] > 0);
    n_texts++;
    const char *folder = getenv("WEFT_WGSL_DIR");
    if (!folder || !write)
        return;
    char path[600];
    snprintf(path, sizeof path, "%s/%03d_%s_%s.wgsl", folder, n_texts, op, l->row);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fwrite(text, 1, l->wgsl.len, f);
    fclose(f);
}

static void each_row(const char *const *names, const wf_kernel_req *r)
{
    wf_caps caps = caps_large(), small = caps_large();
    small.max_workgroup_bytes = 16384;
    for (int i = 1; names[i]; i++) {
        char forced[100];
        wf_kernel_choice c;
        bool fits;
        snprintf(forced, sizeof forced, "%s:%s", names[0], names[i]);
        setenv("WEFT_KERNEL", forced, 1);
        fits = wf_kernel_choose(&small, r, &c) == WEFT_OK;
        if (fits)
            choice_free(&c);
        if (wf_kernel_choose(&caps, r, &c) == WEFT_OK) {
            for (int k = 0; k < c.n_launches; k++)
                check_text(names[0], &c.launch[k], fits);
            choice_free(&c);
        }
    }
    unsetenv("WEFT_KERNEL");
}

static void every_row_gives_a_whole_text(void **state)
{
    (void)state;
    static const weft_dtype plain[3] = {F32, F16, BF16}, blocks[3] = {WEFT_DTYPE_Q8_0, WEFT_DTYPE_Q4_0, WEFT_DTYPE_Q4_1};
    static const int64_t size[4][3] = {{256, 128, 32}, {33, 65, 17}, {7, 40, 64}, {1, 36, 12}};
    static const char styles[] = "cts";
    for (int i = 0; i < 4 * 3 * 3; i++)
        for (int linear = 0; linear < 2; linear++) {
            const int64_t *d = size[i % 4], sa[2] = {d[0], d[2]}, sb[2] = {linear ? d[1] : d[2], linear ? d[2] : d[1]};
            operand a = shape_only(plain[i % 3], 2, sa, styles[i / 12]), b = shape_only(plain[(i / 4) % 3], 2, sb, styles[i / 4 % 3]);
            wf_kernel_req r = req_matmul(&a, &b, linear);
            each_row(kernel_rows_of[linear], &r);
        }
    for (int i = 0; i < 9; i++) {
        int64_t sx[2] = {i % 3 == 0 ? 4 : 128, 64}, sw[2] = {33, 64};
        operand x = shape_only(plain[i / 3], 2, sx, styles[i % 3]), w = shape_only(blocks[i % 3], 2, sw, 'c');
        wf_kernel_req r = req_matmul(&x, &w, true);
        each_row(kernel_rows_of[2], &r);
    }
    for (int i = 0; i < 12; i++) {
        int64_t tq = i % 2 ? 1 : 40, q[4] = {2, 6, tq, i % 4 < 2 ? 64 : 5}, kv[4] = {2, i % 3 ? 2 : 1, 300, q[3]}, m[4] = {1, 6, tq, 300};
        operand oq = shape_only(plain[i % 3], 4, q, 'c'), ok = shape_only(plain[i / 4], 4, kv, styles[i % 3]);
        operand mask = shape_only(i % 2 ? WEFT_DTYPE_BOOL : plain[i / 4], 4, m, 'c'), len = shape_only(WEFT_DTYPE_I32, 0, NULL, 'c');
        len.op.step_slot = i % 5 == 0 ? -1 : 3;
        wf_kernel_req r = req_sdpa(&oq, &ok, &ok, i % 3 ? &mask : NULL, i % 2, i > 5 ? &len : NULL);
        each_row(kernel_rows_of[3], &r);
        operand heads = shape_only(F32, 1, (int64_t[]){6}, 'c');
        r.attrs.sdpa.softcap = i % 3 ? 0 : 2;
        r.attrs.sdpa.has_slopes = i % 2;
        r.attrs.sdpa.has_sinks = i % 4 > 1;
        for (int k = 0; k < (i % 2) + (i % 4 > 1); k++)
            r.in[r.n_in++] = heads.op;
        each_row(kernel_rows_of[3], &r);
    }
    static const weft_dtype ordered[8] = {F32, F16, BF16, WEFT_DTYPE_I32, WEFT_DTYPE_U32, WEFT_DTYPE_I8, WEFT_DTYPE_U8, WEFT_DTYPE_BOOL};
    for (int i = 0; i < 8; i++) {
        int64_t s[2] = {3, 200 << (2 * i)};
        operand x = shape_only(ordered[i], 2, s, 'c');
        wf_kernel_req r = req_topk(&x, i < 4 ? 10 : 120);
        each_row(kernel_rows_of[4], &r);
    }
    for (int i = 0; i < 8; i++) {
        int64_t s[2] = {3, 200 << (2 * i)}, few[2] = {i < 4 ? 5 : 90000, s[1]};
        operand x = shape_only(ordered[i], 2, s, 'c'), index = shape_only(WEFT_DTYPE_I32, 2, few, 'c');
        wf_kernel_req sort = req_lines(WF_OP_SORT, &x, NULL, i % 2), scatter = req_lines(WF_OP_SCATTER, &x, &index, i % 2 ? 0 : 1);
        each_row(kernel_rows_of[6], &sort);
        if (i != 1 && i != 2) /* no two halves are added */
            each_row(kernel_rows_of[7], &scatter);
        for (uint32_t kind = 0; kind < 5 && i < 4; kind++) {
            wf_kernel_req scan = req_lines(WF_OP_SCAN, &x, NULL, kind);
            if (kind != 2 || i < 3)
                each_row(kernel_rows_of[5], &scan);
        }
    }
    assert_true(n_texts > 500);
}

static void no_failed_allocation_leaks(void **state)
{
    (void)state;
    wf_caps caps = caps_default();
    int64_t s[2] = {64, 64}, line[2] = {1, 70000}, index[2] = {9000, 1};
    operand a = shape_only(F32, 2, s, 'c'), x = shape_only(F32, 2, line, 'c'), at = shape_only(WEFT_DTYPE_I32, 2, index, 'c');
    wf_kernel_req r[4] = {req_matmul(&a, &a, false), req_lines(WF_OP_SORT, &x, NULL, 0), req_topk(&x, 20), req_lines(WF_OP_SCATTER, &x, &at, 0)};
    uint64_t live = wf_alloc_live();
    for (size_t i = 0; i < WF_COUNT(r); i++) {
        weft_status st = WEFT_E_OOM;
        for (uint64_t n = 1; n < 4000 && st != WEFT_OK; n++) {
            wf_kernel_choice c;
            wf_alloc_fail_nth(n);
            st = wf_kernel_choose(&caps, &r[i], &c);
            wf_alloc_fail_nth(0);
            if (st == WEFT_OK)
                choice_free(&c);
            else
                assert_int_equal(st, WEFT_E_OOM);
            assert_int_equal(wf_alloc_live(), live);
        }
        assert_int_equal(st, WEFT_OK);
    }
}

int main(void)
{
    unsetenv("WEFT_KERNEL");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directives_expand_as_documented),
        cmocka_unit_test(bad_templates_are_errors),
        cmocka_unit_test(matrices_get_the_row_their_shape_wants),
        cmocka_unit_test(attention_and_topk_get_the_row_their_shape_wants),
        cmocka_unit_test(static_words_are_those_of_the_header),
        cmocka_unit_test(past_65535_work_groups_the_grid_folds),
        cmocka_unit_test(a_forced_row_that_does_not_fit_says_why),
        cmocka_unit_test(what_no_row_takes_is_unsupported),
        cmocka_unit_test(every_row_gives_a_whole_text),
        cmocka_unit_test(no_failed_allocation_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
