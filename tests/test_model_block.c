/* test_model_block.c - one block of a real 135-million-parameter model against its reference values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "data_file.h"
#include "mdl.h"

static void ok_at(weft_status st, int line)
{
    if (st != WEFT_OK)
        fail_msg("line %d: %s: %s", line, weft_status_name(st), weft_error_message());
}
#define OK(expr) ok_at((expr), __LINE__)

static const struct { mdl_role role; const char *name; } parts[] = {
    {MDL_ATTN_NORM, "blk.0.attn_norm.weight"}, {MDL_Q, "blk.0.attn_q.weight"}, {MDL_K, "blk.0.attn_k.weight"},
    {MDL_V, "blk.0.attn_v.weight"}, {MDL_O, "blk.0.attn_output.weight"}, {MDL_FFN_NORM, "blk.0.ffn_norm.weight"},
    {MDL_GATE, "blk.0.ffn_gate.weight"}, {MDL_UP, "blk.0.ffn_up.weight"}, {MDL_DOWN, "blk.0.ffn_down.weight"},
};

/* The file holds one block without an embedding, so the model is put together by hand. */
static void load_block(weft_ctx *ctx, weft_model *m, weft_tensor **layer)
{
    weft_file *file;
    OK(weft_file_open(source_path("tests/data/smollm2-135m/smollm2-blk0.Q4_1.gguf"), &file));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        weft_file_tensor t;
        OK(weft_file_tensor_find(file, parts[i].name, &t));
        layer[parts[i].role - MDL_LAYER_ROLE] = weft_tensor_from(ctx, t.dtype, t.rank, t.shape, weft_file_tensor_map(file, &t));
    }
    weft_file_close(file);
    m->ctx = ctx;
    m->layers = layer;
    m->config = (mdl_config){.n_layers = 1, .n_heads = 9, .n_kv_heads = 3, .head_dim = 64, .width = 576, .ffn_width = 1536,
                             .rope_dim = 64, .norm_eps = 1e-5f, .rope_base = 100000, .rope_scale = 1, .rope_interleaved = true};
}

static void block_on(const char *device)
{
    weft_ctx *ctx;
    weft_model m = {0};
    weft_tensor *layer[MDL_LAYER_ROLES] = {0}, *kv[2], *kv_out[2];
    weft_dtype dtype;
    int rank;
    int64_t shape[8];
    void *in = NULL, *want = NULL;
    OK(weft_ctx_open(&(weft_ctx_opts){.device = device}, &ctx));
    weft_scope *scope = weft_scope_begin(ctx);
    load_block(ctx, &m, layer);
    OK(weft_npy_read(source_path("tests/data/smollm2-135m/blk0_in.npy"), &dtype, &rank, shape, &in));
    OK(weft_npy_read(source_path("tests/data/smollm2-135m/blk0_out.npy"), &dtype, &rank, shape, &want));
    assert_int_equal(dtype, WEFT_DTYPE_F32);
    assert_int_equal(rank, 2);
    int64_t n = shape[0] * shape[1];
    for (int i = 0; i < 2; i++)
        kv[i] = weft_zeros(ctx, WEFT_DTYPE_F32, 4, (const int64_t[]){1, 3, 16, 64});
    mdl_step step = {.n = shape[0], .position = weft_scalar_i32(ctx, 0), .length = weft_scalar_i32(ctx, (int32_t)shape[0]),
                     .kv_in = kv, .kv_out = kv_out};
    weft_tensor *y = mdl_llama_block(&m, 0, weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, shape, in), &step);
    float *got = malloc((size_t)n * sizeof *got);
    assert_non_null(got);
    OK(weft_read(y, got, (size_t)n * sizeof *got));
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)got[i] - ((float *)want)[i]));
        largest = fmax(largest, fabs(((float *)want)[i]));
    }
    print_message("%s: largest difference %.3g, largest value %.3g\n", device, worst, largest);
    assert_true(worst <= 2e-5 * fmax(largest, 1)); /* f32 sums of up to 1536 terms */
    free(got);
    weft_npy_free(in);
    weft_npy_free(want);
    weft_scope_end(scope);
    weft_ctx_close(ctx);
}

static void a_real_block_gives_its_reference_values(void **state)
{
    (void)state;
    block_on("cpu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_real_block_gives_its_reference_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
