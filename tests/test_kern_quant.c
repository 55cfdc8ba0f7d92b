/* test_kern_quant.c - linear on GGUF blocks against dequantise-then-multiply in f64, and with i8 activations
 * against the same product of the quantised activations.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "kern_check.h"
#include "kern.h"

static wf_pool *pools[2];
static int start(void **state)
{
    (void)state;
    return wf_pool_create(1, &pools[0]) != WEFT_OK || wf_pool_create(3, &pools[1]) != WEFT_OK;
}
static int stop(void **state)
{
    (void)state;
    wf_pool_destroy(pools[0]);
    wf_pool_destroy(pools[1]);
    return 0;
}

static const weft_dtype types[3] = {WEFT_DTYPE_Q8_0, WEFT_DTYPE_Q4_0, WEFT_DTYPE_Q4_1};
static const size_t sizes[3] = {34, 18, 20};

static uint8_t *random_blocks(int type, int64_t blocks)
{
    uint8_t *w = malloc((size_t)blocks * sizes[type]);
    assert_non_null(w);
    for (size_t i = 0; i < (size_t)blocks * sizes[type]; i++)
        w[i] = (uint8_t)rng();
    for (int64_t b = 0; b < blocks; b++) {
        put_value(w + (size_t)b * sizes[type], WEFT_DTYPE_F16, 0, rng_float() * 0.1);
        if (type == 2)
            put_value(w + (size_t)b * sizes[type] + 2, WEFT_DTYPE_F16, 0, rng_float());
    }
    return w;
}
static double weight(int type, const uint8_t *w, int64_t i)
{
    const uint8_t *b = w + (size_t)(i / 32) * sizes[type];
    uint16_t h[2];
    memcpy(h, b, 4);
    const int at = (int)(i % 32);
    if (type == 0)
        return (double)wf_f16_to_f32(h[0]) * (int8_t)b[2 + at];
    const uint8_t byte = b[(type == 1 ? 2 : 4) + at % 16];
    const int q = at < 16 ? byte & 15 : byte >> 4;
    return type == 1 ? (double)wf_f16_to_f32(h[0]) * (q - 8) : (double)wf_f16_to_f32(h[0]) * q + (double)wf_f16_to_f32(h[1]);
}

/* One row of activations as the int8 path sees it. */
static void quantised(const double *x, int64_t k, double *out)
{
    for (int64_t b = 0; b < k; b += 32) {
        double most = 0;
        for (int i = 0; i < 32; i++)
            most = fmax(most, fabs(x[b + i]));
        const float d = (float)most / 127.0f;
        for (int i = 0; i < 32; i++)
            out[b + i] = d == 0 ? 0 : (double)d * (double)lrintf((float)x[b + i] / d);
    }
}

static void check(int type, int64_t m, int64_t n, int64_t blocks, int64_t extra, weft_dtype xt, int lie, bool int8)
{
    const int64_t k = blocks * 32, lead = m % 2 == 0 && m > 0 ? 2 : 1;
    const int64_t shape[3] = {lead, m / lead, k};
    operand x = make_operand(xt, 3, shape, lie);
    /* rows of w longer than K by `extra` blocks, from row 1 on */
    uint8_t *w = random_blocks(type, (n + 1) * (blocks + extra));
    const size_t w_bytes = (size_t)((n + 1) * (blocks + extra)) * sizes[type];
    wf_kernel_req req = {.op = WF_OP_LINEAR, .n_in = 2, .in = {x.op}, .out_rank = 3, .out_shape = {lead, m / lead, n}};
    req.attrs.linear.act_int8 = int8;
    req.in[1] = (wf_operand){.dtype = types[type], .step_slot = -1, .numel = (n + 1) * (blocks + extra) * 32,
                             .view = {.rank = 2, .offset = (blocks + extra) * 32, .shape = {n, k}, .strides = {(blocks + extra) * 32, 1}}};
    void *in[2] = {x.data, w};
    const size_t in_bytes[2] = {x.bytes, w_bytes};
    const size_t bytes = (size_t)(m * n) * 4;
    float *out[2];
    for (int p = 0; p < 2; p++) {
        out[p] = malloc(bytes + GUARD);
        assert_non_null(out[p]);
        if (run_request(&req, in, in_bytes, out[p], bytes, NULL, pools[p], NULL) != WEFT_OK)
            fail_msg("%s", weft_error_message());
    }
    assert_memory_equal(out[0], out[1], bytes);
    double *row = malloc((size_t)(k + 1) * 16), *used = row + k;
    assert_non_null(row);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t c = 0; c < k; c++)
            row[c] = get_value(x.data, xt, x.op.view.offset + i / (m / lead) * x.op.view.strides[0] +
                                               i % (m / lead) * x.op.view.strides[1] + c * x.op.view.strides[2]);
        if (int8)
            quantised(row, k, used);
        else
            memcpy(used, row, (size_t)k * 8);
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 0;
            for (int64_t c = 0; c < k; c++) {
                const double v = used[c] * weight(type, w, (j + 1) * (blocks + extra) * 32 + c);
                sum += v;
                size += fabs(v);
            }
            /* The two terms of Q4_1, and of Q4_0 in integers, may cancel: their sizes count, not that of the sum. */
            const double bound = ((double)k + 8) * 6e-8 * size * (type == 2 || (type == 1 && int8) ? 8 : 1) + 1e-30;
            if (!(fabs(out[0][i * n + j] - sum) <= bound))
                fail_msg("%s%s %lld x %lld x %lld: [%lld, %lld] is %.9g, expected %.9g +- %.2g", weft_dtype_name(types[type]),
                         int8 ? " int8" : "", (long long)m, (long long)n, (long long)k, (long long)i, (long long)j, out[0][i * n + j], sum,
                         bound);
        }
    }
    free(row);
    free(out[0]);
    free(out[1]);
    free(w);
    free(x.data);
}

static void equals_dequantise_then_multiply(void **state)
{
    (void)state;
    static const int64_t ns[] = {1, 3, 7, 33, 65}, ms[] = {0, 1, 2, 5, 8, 9, 65}, ks[] = {0, 1, 3, 9};
    for (int type = 0; type < 3; type++)
        for (size_t n = 0; n < WF_COUNT(ns); n++)
            for (size_t m = 0; m < WF_COUNT(ms); m++)
                for (size_t k = 0; k < WF_COUNT(ks); k++)
                    check(type, ms[m], ns[n], ks[k], pick(2), (weft_dtype)pick(3), (int)pick(LIE_COUNT), false);
}

static void int8_activations_equal_their_quantised_values(void **state)
{
    (void)state;
    static const int64_t ns[] = {1, 3, 7, 33, 65, 300}, ms[] = {1, 2, 5, 65}, ks[] = {0, 1, 3, 9};
    for (int type = 0; type < 3; type++)
        for (size_t n = 0; n < WF_COUNT(ns); n++)
            for (size_t m = 0; m < WF_COUNT(ms); m++)
                for (size_t k = 0; k < WF_COUNT(ks); k++)
                    check(type, ms[m], ns[n], ks[k], pick(2), (weft_dtype)pick(3), (int)pick(LIE_COUNT), true);
}

static void extreme_bytes_do_not_saturate(void **state)
{
    (void)state;
    /* |w| = 128 times |x| = 127, two at a time in 16 bits */
    uint8_t w[34];
    memset(w, 0x80, sizeof w);
    put_value(w, WEFT_DTYPE_F16, 0, 1);
    int8_t q[32];
    memset(q, 0x81, sizeof q);
    const float d = 1, s = 32 * -127;
    for (int i = 0; wf_kern_isa_name(i); i++) {
        const wf_kern_isa *isa = wf_kern_isa_find(wf_kern_isa_name(i));
        float out[4];
        if (!isa)
            continue;
        isa->idot[0](w, 34, 1, q, &d, &s, 1, 1, out);
        assert_true(out[0] == 128.0f * 127.0f * 32.0f);
    }
}

static void a_block_with_nan_gives_nan(void **state)
{
    (void)state;
    for (int int8 = 0; int8 < 2; int8++) {
        uint8_t *w = random_blocks(0, 2);
        const int64_t shape[2] = {1, 64};
        operand x = make_operand(WEFT_DTYPE_F32, 2, shape, LIE_ROWS);
        ((float *)x.data)[40] = int8 ? INFINITY : NAN;
        wf_kernel_req req = {.op = WF_OP_LINEAR, .n_in = 2, .in = {x.op}, .out_rank = 2, .out_shape = {1, 1}};
        req.attrs.linear.act_int8 = int8 != 0;
        req.in[1] = (wf_operand){.dtype = WEFT_DTYPE_Q8_0, .step_slot = -1, .numel = 64,
                                 .view = {.rank = 2, .shape = {1, 64}, .strides = {64, 1}}};
        void *in[2] = {x.data, w};
        const size_t in_bytes[2] = {x.bytes, 68};
        float out[1 + GUARD];
        assert_int_equal(run_request(&req, in, in_bytes, out, 4, NULL, pools[0], NULL), WEFT_OK);
        assert_true(isnan(out[0]));
        free(x.data);
        free(w);
    }
}

static void partial_blocks_are_refused(void **state)
{
    (void)state;
    const int64_t shape[2] = {1, 48};
    operand x = make_operand(WEFT_DTYPE_F32, 2, shape, LIE_ROWS);
    wf_kernel_req req = {.op = WF_OP_LINEAR, .n_in = 2, .in = {x.op}, .out_rank = 2, .out_shape = {1, 1}};
    req.in[1] = (wf_operand){.dtype = WEFT_DTYPE_Q4_0, .step_slot = -1, .numel = 64, .view = {.rank = 2, .shape = {1, 48}, .strides = {64, 1}}};
    wf_kernel_choice c;
    const wf_caps caps = cpu_caps(2);
    assert_int_equal(wf_kernel_choose_cpu(&caps, &req, &c), WEFT_E_UNSUPPORTED);
    free(x.data);
}

static void each_instruction_set_agrees_with_plain(void **state)
{
    (void)state;
    enum { BLOCKS = 7, ROWS = 4, X = 4 };
    for (int i = 0; wf_kern_isa_name(i); i++) {
        const wf_kern_isa *isa = wf_kern_isa_find(wf_kern_isa_name(i)), *plain = &wf_kern_isa_plain;
        if (!isa)
            continue;
        for (int type = 0; type < 3; type++) {
            uint8_t *w = random_blocks(type, ROWS * BLOCKS);
            float x[X * BLOCKS * 32], d[2][X * BLOCKS], s[2][X * BLOCKS], out[2][16], values[2][BLOCKS * 32];
            int8_t q[2][X * BLOCKS * 32];
            for (int e = 0; e < X * BLOCKS * 32; e++)
                x[e] = rng_float();
            isa->quantise(x, X * BLOCKS, q[0], d[0], s[0]);
            plain->quantise(x, X * BLOCKS, q[1], d[1], s[1]);
            assert_memory_equal(q[0], q[1], sizeof q[0]);
            assert_memory_equal(d[0], d[1], sizeof d[0]);
            isa->dequant[type](w, BLOCKS, values[0]);
            plain->dequant[type](w, BLOCKS, values[1]);
            for (int e = 0; e < BLOCKS * 32; e++)
                assert_true(fabsf(values[0][e] - values[1][e]) <= 1e-6f * fabsf(values[1][e]) + 1e-6f);
            const size_t row_bytes = BLOCKS * sizes[type];
            for (int at = 0; at < ROWS * X; at++) {
                const int rows = at / X + 1, nx = at % X + 1;
                for (int integer = 0; integer < 2; integer++) {
                    for (int side = 0; side < 2; side++) {
                        const wf_kern_isa *of = side ? plain : isa;
                        if (integer)
                            of->idot[type](w, row_bytes, rows, q[0], d[0], s[0], nx, BLOCKS, out[side]);
                        else
                            of->qdot[type](w, row_bytes, rows, x, BLOCKS * 32, nx, BLOCKS, out[side]);
                    }
                    for (int r = 0; r < rows; r++)
                        for (int j = 0; j < nx; j++)
                            assert_true(fabsf(out[0][r * 4 + j] - out[1][r * 4 + j]) < 1e-3f);
                }
            }
            free(w);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_dequantise_then_multiply),
        cmocka_unit_test(int8_activations_equal_their_quantised_values),
        cmocka_unit_test(extreme_bytes_do_not_saturate),
        cmocka_unit_test(a_block_with_nan_gives_nan),
        cmocka_unit_test(partial_blocks_are_refused),
        cmocka_unit_test(each_instruction_set_agrees_with_plain),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
