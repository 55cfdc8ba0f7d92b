/* test_ops.c - every row of op.def against the f64 reference of tests/reference, on the device that
 * WEFT_TEST_DEVICE names (default: cpu).
 *
 * A row of op.def becomes a test. Its cases differ in dtype and in how the operands lie: contiguous, transposed,
 * sliced, with negative strides, broadcast, overlapping, empty, of extent 1, and special values. A result has to be
 * within the row's bound, which is read from op.def. A row that no driver knows fails.
 *   WEFT_OPS_REPORT=path   writes the table of cells: op, dtype, view, cases, worst error / bound, where it ran
 *   WEFT_OPS_FILTER=name   runs the rows of that name alone
 *   WEFT_TEST_LONG=1       all cases on software adapters too
 */
#include "device_context.h"
#include "ops_indexed.h"
#include "ops_linalg.h"
#include "ops_draws.h"

static const char *filter;

static int open_ctx(void **state)
{
    (void)state;
    weft_device_info info;
    ctx = open_test_ctx();
    if (!ctx || weft_ctx_device(ctx, &info) != WEFT_OK)
        return -1;
    on_gpu = strcmp(info.kind, "cpu") != 0;
    flushes = on_gpu;
    thrifty = strcmp(info.kind, "software") == 0 && !getenv("WEFT_TEST_LONG");
    filter = getenv("WEFT_OPS_FILTER");
    return 0;
}

/* scan, sort and scatter: test_reduction.c and test_indexing.c, through the operations that are written over them. */
static void run_elsewhere(const ops_row *op) { (void)op; }

/* ---- rows ---- */
typedef void (*row_driver)(const ops_row *);
static const row_driver drivers[OP_COUNT] = {
    [OP_FULL] = run_full, [OP_WHERE] = run_where, [OP_CAST] = run_cast, [OP_COPY] = run_copy, [OP_MATMUL] = run_matmul,
    [OP_LINEAR] = run_linear, [OP_IOTA] = run_iota, [OP_TRI] = run_tri, [OP_INDEX_SELECT] = run_select, [OP_GATHER] = run_select,
    [OP_CAT] = run_joins, [OP_SLICE_UPDATE] = run_joins, [OP_ROPE] = run_rope, [OP_SDPA] = run_sdpa, [OP_TOPK] = run_topk,
    [OP_RANDOM] = run_random, [OP_LINALG] = run_linalg, [OP_SCAN] = run_elsewhere, [OP_SORT] = run_elsewhere,
    [OP_SCATTER] = run_elsewhere,
};

static void row_equals_its_reference(void **state)
{
    const ops_row *op = *state;
    if (filter && strcmp(filter, op->name) != 0)
        skip();
    n_failed = case_number = 0;
    row_driver run = drivers[op->id];
    if (!run && op->klass == ELEMENTWISE)
        run = run_pointwise;
    if (!run && op->klass == REDUCE)
        run = run_reduce;
    if (!run && op->klass == ROW)
        run = run_row;
    if (!run)
        fail_msg("%s: no case is made for this row", op->name);
    weft_stats before, after;
    weft_ctx_stats(ctx, &before);
    run(op);
    weft_ctx_stats(ctx, &after);
    print_message("%s: %d cases, %llu pipelines\n", op->name, case_number, (unsigned long long)(after.pipelines - before.pipelines));
    if (n_failed)
        fail_msg("%s: %d of %d cases failed", op->name, n_failed, case_number);
}

static void run_blocks(void **state, ops_id id, void (*run)(const ops_row *, ref_dtype))
{
    (void)state;
    if (filter && strcmp(filter, ops_rows[id].name) != 0)
        skip();
    n_failed = 0;
    case_number = 10000;
    for (int t = REF_Q8_0; t <= REF_Q4_1; t++)
        run(&ops_rows[id], (ref_dtype)t);
    if (n_failed)
        fail_msg("%d cases failed", n_failed);
}

static void linear_of_blocks_equals_dequantised_weights(void **state)
{
    run_blocks(state, OP_LINEAR, run_quantised_linear);
}

static void embedding_of_blocks_equals_dequantised_rows(void **state)
{
    run_blocks(state, OP_INDEX_SELECT, run_quantised_embedding);
}

static void blocks_that_do_not_divide_K_are_a_shape_error(void **state)
{
    (void)state;
    static const char bytes[4096];
    weft_scope *s = weft_scope_begin(ctx);
    for (int t = WEFT_DTYPE_Q8_0; t <= WEFT_DTYPE_Q4_1; t++)
        for (int64_t K = 1; K < 80; K += 13) {
            weft_tensor *w = weft_tensor_from(ctx, (weft_dtype)t, 2, (int64_t[]){3, K}, bytes);
            assert_int_equal(weft_tensor_status(w), WEFT_E_SHAPE);
            assert_int_equal(weft_tensor_status(weft_linear(weft_zeros(ctx, WEFT_DTYPE_F32, 1, &K), w, NULL)), WEFT_E_SHAPE);
        }
    weft_scope_end(s);
}

/* The angle of position 2^20 - 1 itself: x = (1, 0) turns to (cos, sin). */
static void rope_keeps_its_angle_at_position_1048575(void **state)
{
    (void)state;
    weft_scope *scope = weft_scope_begin(ctx);
    enum { D = 128 };
    float x[D], y[D];
    for (int i = 0; i < D; i++)
        x[i] = i < D / 2;
    for (int form = 0; form < 3; form++) { /* an offset, an i32 position, an f32 position */
        int64_t one = 1;
        weft_rope_opts o = {0};
        if (form == 0)
            o.offset = weft_scalar_i32(ctx, 1048575);
        else if (form == 1)
            o.positions = weft_tensor_from(ctx, WEFT_DTYPE_I32, 1, &one, (int32_t[]){1048575});
        else
            o.positions = weft_tensor_from(ctx, WEFT_DTYPE_F32, 1, &one, (float[]){1048575});
        weft_tensor *t = weft_rope(weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){1, D}, x), &o);
        if (weft_read(t, y, sizeof y) != WEFT_OK)
            fail_msg("%s", weft_error_message());
        for (int i = 0; i < D / 2; i++) {
            long double angle = 1048575 * powl(10000, -2.0L * i / D);
            double error = fabs(remainder((double)(atan2l(y[i + D / 2], y[i]) - remainderl(angle, 6.283185307179586476925L)), 6.283185307179586));
            if (!(error < 1e-5))
                fail_msg("form %d, pair %d: the angle is off by %g rad", form, i, error);
        }
    }
    weft_scope_end(scope);
}

static void every_bound_can_be_read(void **state)
{
    (void)state;
    bound_values ones;
    for (int i = 0; i < BOUND_NAMES; i++)
        ones.v[i] = 1;
    for (int i = 0; i < OP_COUNT; i++) {
        double v;
        if (!bound_value(ops_rows[i].bound, &ones, &v) || !(v >= 0))
            fail_msg("%s: \"%s\" is no bound that this test can read", ops_rows[i].name, ops_rows[i].bound);
    }
    double v;
    assert_true(bound_value("(n+16)*eps*(S + max|x|/std)", &ones, &v) && v == 34);
    assert_false(bound_value("4*ulp", &ones, &v));
    assert_false(bound_value("4*eps)", &ones, &v));
}

/* ---- the report ---- */
static void f32_ran_on_the_device(void **state)
{
    (void)state;
    if (!on_gpu || filter)
        return; /* the CPU is the device */
    int f32 = 0, elsewhere = 0;
    for (int i = 0; i < n_cells; i++) {
        if (cells[i].dtype != REF_F32)
            continue;
        f32++;
        if (!cells[i].on_fallback)
            continue;
        elsewhere++;
        print_message("not on the device: %s of f32, %s (%d of %d cases; first: %s)\n", ops_rows[cells[i].op].name,
                      kind_names[cells[i].kind], cells[i].on_fallback, cells[i].cases, cells[i].reason);
    }
    print_message("cells: %d of %d of f32 ran on the device\n", f32 - elsewhere, f32);
    assert_true((f32 - elsewhere) * 100 >= f32 * 95);
}

static int write_report(void **state)
{
    (void)state;
    const char *path = getenv("WEFT_OPS_REPORT");
    FILE *f = path ? fopen(path, "w") : NULL;
    weft_device_info info;
    weft_stats stats;
    if (f && weft_ctx_device(ctx, &info) == WEFT_OK && weft_ctx_stats(ctx, &stats) == WEFT_OK) {
        fprintf(f, "# %s (%s, %s), %llu pipelines\n", info.name, info.kind, info.implementation, (unsigned long long)stats.pipelines);
        fprintf(f, "%-28s %-5s %-15s %6s %6s %13s  %s\n", "op", "dtype", "view", "cases", "failed", "error/bound", "ran on");
        for (int i = 0; i < n_cells; i++) {
            const cell *e = &cells[i];
            fprintf(f, "%-28s %-5s %-15s %6d %6d %13.3g  %s\n", ops_rows[e->op].name, dtype_names[e->dtype], kind_names[e->kind],
                    e->cases, e->fails, e->worst, !on_gpu ? "cpu" : e->on_fallback == 0 ? "device" : e->on_fallback == e->cases ? "fallback" : "both");
        }
    }
    if (f)
        fclose(f);
    weft_ctx_close(ctx);
    return 0;
}

int main(void)
{
    struct CMUnitTest tests[OP_COUNT + 8];
    size_t n = 0;
    for (int i = 0; i < OP_COUNT; i++)
        if (i != OP_LEAF && i != OP_SCALAR)
            tests[n++] = (struct CMUnitTest){ops_rows[i].name, row_equals_its_reference, NULL, NULL, (void *)&ops_rows[i]};
    const struct CMUnitTest others[] = {
        cmocka_unit_test(every_bound_can_be_read),
        cmocka_unit_test(linear_of_blocks_equals_dequantised_weights),
        cmocka_unit_test(embedding_of_blocks_equals_dequantised_rows),
        cmocka_unit_test(blocks_that_do_not_divide_K_are_a_shape_error),
        cmocka_unit_test(rope_keeps_its_angle_at_position_1048575),
        cmocka_unit_test(f32_ran_on_the_device),
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        tests[n++] = others[i];
    return _cmocka_run_group_tests("ops", tests, n, open_ctx, write_report);
}
