/* test_quant.c - block codecs against blobs made by ggml, and the planar layout. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "data_file.h"
#include "quant.h"
#include "weft/quantize.h"

static const struct { weft_dtype dtype; const char *name; bool random; } blobs[] = {
    {WEFT_DTYPE_F16, "F16", false},
    {WEFT_DTYPE_BF16, "BF16", false},
    {WEFT_DTYPE_Q8_0, "Q8_0", true},
    {WEFT_DTYPE_Q4_0, "Q4_0", true},
    {WEFT_DTYPE_Q4_1, "Q4_1", true},
};

static void *blob(const char *name, const char *suffix, size_t *n)
{
    char path[200];
    snprintf(path, sizeof path, "tests/data/quant-blobs/%s%s", name, suffix);
    void *bytes = read_whole(source_path(path), n);
    if (!bytes)
        fail_msg("cannot read %s", path);
    return bytes;
}

static void check_decode(weft_dtype dtype, const char *name, const char *bits, const char *values)
{
    size_t n_in, n_out;
    void *in = blob(name, bits, &n_in);
    float *want = blob(name, values, &n_out);
    int64_t n = (int64_t)(n_out / 4);
    assert_int_equal(n / weft_dtype_block(dtype) * (int64_t)weft_dtype_block_bytes(dtype), n_in);
    float *got = malloc(n_out);
    assert_int_equal(wf_quant_decode(dtype, in, got, n), WEFT_OK);
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], 4))
            fail_msg("%s%s element %lld: got %a, expected %a", name, bits, (long long)i, got[i], want[i]);
    free(got);
    free(want);
    free(in);
}

static void decode_equals_ggml_bit_for_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < WF_COUNT(blobs); i++) {
        check_decode(blobs[i].dtype, blobs[i].name, ".bin", ".f32.bin");
        if (blobs[i].random)
            check_decode(blobs[i].dtype, blobs[i].name, ".rand.bin", ".rand.f32.bin");
    }
}

static void encode_equals_ggml_bit_for_bit(void **state)
{
    (void)state;
    size_t n_src, n_want;
    float *src = blob("src", ".f32.bin", &n_src);
    for (size_t i = 0; i < 3; i++) { /* the 4-bit blobs come from ggml's search for the best scale, not from this rule */
        uint8_t *want = blob(blobs[i].name, ".bin", &n_want), *got = malloc(n_want);
        assert_int_equal(wf_quant_encode(blobs[i].dtype, src, got, (int64_t)(n_src / 4)), WEFT_OK);
        for (size_t k = 0; k < n_want; k++)
            if (got[k] != want[k])
                fail_msg("%s byte %zu: got %02x, expected %02x", blobs[i].name, k, got[k], want[k]);
        free(got);
        free(want);
    }
    free(src);
}

/* Codes are the nearest ones: the error is half a step, plus the f16 rounding of scale and minimum. In
 * Q4_0 one end of the range has a code less, so there the error may be a whole step. */
static void four_bit_encode_is_within_a_step(void **state)
{
    (void)state;
    size_t n_src;
    float *src = blob("src", ".f32.bin", &n_src), back[32];
    uint8_t block[20];
    for (size_t at = 0; at + 32 <= n_src / 4; at += 32) {
        float low = src[at], high = src[at], most = 0;
        for (int i = 0; i < 32; i++) {
            low = fminf(low, src[at + i]);
            high = fmaxf(high, src[at + i]);
            most = fmaxf(most, fabsf(src[at + i]));
        }
        wf_quant_encode(WEFT_DTYPE_Q4_0, src + at, block, 32);
        wf_quant_decode(WEFT_DTYPE_Q4_0, block, back, 32);
        for (int i = 0; i < 32; i++)
            assert_true(fabsf(back[i] - src[at + i]) <= most / 8 + most * 0x1p-11f);
        wf_quant_encode(WEFT_DTYPE_Q4_1, src + at, block, 32);
        wf_quant_decode(WEFT_DTYPE_Q4_1, block, back, 32);
        for (int i = 0; i < 32; i++)
            assert_true(fabsf(back[i] - src[at + i]) <= (high - low) / 30 + (high - low + fabsf(low)) * 0x1.1p-11f);
    }
    free(src);
}

static void four_bit_rounding_by_hand(void **state)
{
    (void)state;
    float x[32] = {-8, 7, 0.5f, -0.5f, 0.49f, 1.5f, 7.6f, [16] = 3}; /* -8 sets the scale to 1 */
    uint8_t block[20];
    static const uint8_t q4_0[] = {0x00, 0x3c, 0xb0, 0x8f, 0x89, 0x88, 0x88, 0x8a, 0x8f, 0x88};
    wf_quant_encode(WEFT_DTYPE_Q4_0, x, block, 32);
    assert_memory_equal(block, q4_0, sizeof q4_0);
    float y[32] = {0, 15, 0.5f, 1.49f, [20] = 7};
    static const uint8_t q4_1[] = {0x00, 0x3c, 0x00, 0x00, 0x00, 0x0f, 0x01, 0x01, 0x70, 0x00};
    wf_quant_encode(WEFT_DTYPE_Q4_1, y, block, 32);
    assert_memory_equal(block, q4_1, sizeof q4_1);
}

static void encode_takes_any_float(void **state)
{
    (void)state;
    static const float odd[] = {0, -0.0f, NAN, INFINITY, -INFINITY, 3.4e38f, -3.4e38f, 1e-45f, 65504, 1};
    float x[32];
    uint8_t out[64];
    for (size_t i = 0; i < WF_COUNT(odd); i++)
        for (size_t k = 0; k < WF_COUNT(odd); k++) {
            for (int j = 0; j < 32; j++)
                x[j] = j & 1 ? odd[i] : odd[k];
            for (size_t b = 0; b < WF_COUNT(blobs); b++)
                assert_int_equal(wf_quant_encode(blobs[b].dtype, x, out, 32), WEFT_OK);
        }
    /* zeros stay zeros */
    memset(x, 0, sizeof x);
    for (size_t b = 0; b < WF_COUNT(blobs); b++) {
        float back[32];
        assert_int_equal(wf_quant_encode(blobs[b].dtype, x, out, 32), WEFT_OK);
        assert_int_equal(wf_quant_decode(blobs[b].dtype, out, back, 32), WEFT_OK);
        for (int j = 0; j < 32; j++)
            assert_true(back[j] == 0);
    }
}

static void counts_off_the_block_are_refused(void **state)
{
    (void)state;
    float x[33] = {0};
    uint8_t out[80];
    assert_int_equal(wf_quant_encode(WEFT_DTYPE_Q4_0, x, out, 33), WEFT_E_SHAPE);
    assert_int_equal(wf_quant_decode(WEFT_DTYPE_Q8_0, out, x, 31), WEFT_E_SHAPE);
    assert_int_equal(wf_quant_decode(WEFT_DTYPE_Q8_0, out, x, -32), WEFT_E_SHAPE);
    assert_int_equal(wf_quant_decode(WEFT_DTYPE_F32, out, x, 1), WEFT_E_DTYPE);
    assert_int_equal(wf_quant_decode((weft_dtype)99, out, x, 1), WEFT_E_DTYPE);
    assert_int_equal(wf_quant_decode(WEFT_DTYPE_F16, out, x, 0), WEFT_OK);
}

static void public_rows_are_those_of_the_codecs(void **state)
{
    (void)state;
    enum { ROWS = 3, COLS = 64 };
    float x[ROWS * COLS], back[ROWS * COLS], want[ROWS * COLS];
    uint8_t a[ROWS * COLS * 4], b[sizeof a];
    for (int i = 0; i < ROWS * COLS; i++)
        x[i] = (float)(i * 37 % 101) / 7 - 6.5f;
    for (size_t k = 0; k < WF_COUNT(blobs); k++) {
        weft_dtype d = blobs[k].dtype;
        size_t bytes = (size_t)(ROWS * COLS / weft_dtype_block(d)) * weft_dtype_block_bytes(d);
        memset(a, 0xA5, sizeof a);
        assert_int_equal(weft_quantize_rows(d, ROWS, COLS, x, a), WEFT_OK);
        for (size_t i = bytes; i < sizeof a; i++)
            assert_int_equal(a[i], 0xA5);
        assert_int_equal(wf_quant_encode(d, x, b, ROWS * COLS), WEFT_OK);
        assert_memory_equal(a, b, bytes);
        assert_int_equal(weft_dequantize_rows(d, ROWS, COLS, a, back), WEFT_OK);
        assert_int_equal(wf_quant_decode(d, a, want, ROWS * COLS), WEFT_OK);
        assert_memory_equal(back, want, sizeof want);
    }
    assert_int_equal(weft_quantize_rows(WEFT_DTYPE_F32, ROWS, COLS, x, a), WEFT_OK);
    assert_int_equal(weft_dequantize_rows(WEFT_DTYPE_F32, ROWS, COLS, a, back), WEFT_OK);
    assert_memory_equal(back, x, sizeof x);
}

static void public_rows_refuse_what_they_cannot_do(void **state)
{
    (void)state;
    float x[64] = {0};
    uint8_t out[256];
    const struct { weft_dtype dtype; int64_t rows, cols; const void *src; void *dst; weft_status st; } rows[] = {
        {WEFT_DTYPE_I8, 1, 32, x, out, WEFT_E_DTYPE},         {(weft_dtype)99, 1, 32, x, out, WEFT_E_DTYPE},
        {WEFT_DTYPE_Q8_0, 2, 16, x, out, WEFT_E_SHAPE},       {WEFT_DTYPE_F16, -1, 32, x, out, WEFT_E_SHAPE},
        {WEFT_DTYPE_F16, -1, -32, x, out, WEFT_E_SHAPE},      {WEFT_DTYPE_F32, (int64_t)1 << 40, (int64_t)1 << 40, x, out, WEFT_E_SHAPE},
        {WEFT_DTYPE_F32, (int64_t)1 << 59, 1, x, out, WEFT_E_SHAPE}, {WEFT_DTYPE_Q4_0, 1, 32, NULL, out, WEFT_E_CONTEXT},
        {WEFT_DTYPE_Q4_0, 1, 32, x, NULL, WEFT_E_CONTEXT},    {WEFT_DTYPE_Q4_1, 0, 32, NULL, NULL, WEFT_OK},
        {WEFT_DTYPE_F32, 5, 0, NULL, NULL, WEFT_OK},
    };
    for (size_t i = 0; i < WF_COUNT(rows); i++) {
        assert_int_equal(weft_quantize_rows(rows[i].dtype, rows[i].rows, rows[i].cols, rows[i].src, rows[i].dst), rows[i].st);
        assert_int_equal(weft_dequantize_rows(rows[i].dtype, rows[i].rows, rows[i].cols, rows[i].src, rows[i].dst), rows[i].st);
    }
}

static void planes_are_aligned_and_in_order(void **state)
{
    (void)state;
    wf_planes p = wf_quant_planar_offsets(WEFT_DTYPE_Q4_1, 3);
    assert_int_equal(p.quants, 0);
    assert_int_equal(p.scales, 48);
    assert_int_equal(p.minima, 64);
    assert_int_equal(p.bytes, 80);
    p = wf_quant_planar_offsets(WEFT_DTYPE_Q8_0, 9);
    assert_int_equal(p.scales, 288);
    assert_int_equal(p.minima, 320);
    assert_int_equal(p.bytes, 320);
    assert_int_equal(wf_quant_planar_bytes(WEFT_DTYPE_Q4_0, 0), 0);
    assert_int_equal(wf_quant_planar_bytes(WEFT_DTYPE_F16, 4), 0);
    assert_int_equal(wf_quant_planar_bytes(WEFT_DTYPE_Q4_0, -1), 0);
    assert_int_equal(wf_quant_planar_bytes(WEFT_DTYPE_Q4_0, INT64_MAX), 0);
}

static void planar_round_trips_in_pieces(void **state)
{
    (void)state;
    static const weft_dtype types[] = {WEFT_DTYPE_Q8_0, WEFT_DTYPE_Q4_0, WEFT_DTYPE_Q4_1};
    for (size_t t = 0; t < WF_COUNT(types); t++)
        for (int64_t n = 1; n < 40; n += 3) {
            size_t bytes = (size_t)n * weft_dtype_block_bytes(types[t]);
            size_t planar_bytes = wf_quant_planar_bytes(types[t], n);
            uint8_t *in = malloc(bytes), *planar = malloc(planar_bytes), *out = malloc(bytes);
            for (size_t i = 0; i < bytes; i++)
                in[i] = (uint8_t)(i * 37 + 11 * t);
            memset(planar, 0xee, planar_bytes);
            for (int64_t at = 0; at < n; at += 5)
                assert_int_equal(wf_quant_to_planar(types[t], n, in + at * (int64_t)weft_dtype_block_bytes(types[t]),
                                                    planar, at, WF_MIN(5, n - at)), WEFT_OK);
            for (int64_t at = 0; at < n; at += 7)
                assert_int_equal(wf_quant_from_planar(types[t], n, planar,
                                                      out + at * (int64_t)weft_dtype_block_bytes(types[t]), at,
                                                      WF_MIN(7, n - at)), WEFT_OK);
            assert_memory_equal(in, out, bytes);
            /* the scale of block 0 opens the second plane */
            assert_memory_equal(planar + wf_quant_planar_offsets(types[t], n).scales, in, 2);
            free(out);
            free(planar);
            free(in);
        }
    assert_int_equal(wf_quant_to_planar(WEFT_DTYPE_Q8_0, 4, NULL, NULL, 2, 3), WEFT_E_VALUE);
    assert_int_equal(wf_quant_to_planar(WEFT_DTYPE_Q8_0, 4, NULL, NULL, -1, 1), WEFT_E_VALUE);
    assert_int_equal(wf_quant_to_planar(WEFT_DTYPE_F16, 4, NULL, NULL, 0, 1), WEFT_E_DTYPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_equals_ggml_bit_for_bit),
        cmocka_unit_test(encode_equals_ggml_bit_for_bit),
        cmocka_unit_test(four_bit_encode_is_within_a_step),
        cmocka_unit_test(four_bit_rounding_by_hand),
        cmocka_unit_test(encode_takes_any_float),
        cmocka_unit_test(counts_off_the_block_are_refused),
        cmocka_unit_test(public_rows_are_those_of_the_codecs),
        cmocka_unit_test(public_rows_refuse_what_they_cannot_do),
        cmocka_unit_test(planes_are_aligned_and_in_order),
        cmocka_unit_test(planar_round_trips_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
