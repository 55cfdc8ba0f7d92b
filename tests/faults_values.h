/* faults_values.h - right values where runtimes give wrong ones: views, empty tensors, NaN and infinity, 16-bit
 * types, alignment, rotary embedding, attention. Included by test_faults.c.
 */
#ifndef FAULTS_VALUES_H
/* Rows long enough for vector loops, of values whose exponentials are subnormal, zero, or of a NaN: a loop that
 * runs twice for such blocks must not read what it wrote. */
TEST(exponentials_beyond_the_normal_range)
{
    enum { ROWS = 40, COLS = 600 };
    static float x[ROWS * COLS], got[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++)
        x[i] = i % COLS == 0 ? 0.0f : i % 7 == 0 ? -INFINITY : -(float)((i * 37) % 113);
    x[5 * COLS + 77] = NAN;
    weft_tensor *in = weft_cast(f32_of(DIMS(ROWS, COLS), x), WEFT_DTYPE_F16); /* all are exact */
    read_ok(weft_cast(weft_log_softmax(in, -1), WEFT_DTYPE_F32), got, sizeof got);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int c = 0; c < COLS; c++)
            sum += exp((double)x[r * COLS + c]);
        for (int c = 0; c < COLS; c++) {
            float want = (float)(x[r * COLS + c] - log(sum));
            if (r == 5 ? !isnan(got[r * COLS + c]) : !near(got[r * COLS + c], want, 0.001f * fabsf(want) + 1e-4f))
                fail_msg("log_softmax [%d, %d]: %g, not %g", r, c, (double)got[r * COLS + c], (double)want);
        }
    }
    read_ok(weft_exp(weft_sub(f32_of(DIMS(ROWS, COLS), x), weft_scalar_f32(ctx, 3))), got, sizeof got);
    for (int i = 0; i < ROWS * COLS; i++)
        if (!near(got[i], (float)exp((double)x[i] - 3), (float)exp((double)x[i] - 3) * 1e-6f + 2e-38f))
            fail_msg("exp(%g - 3): %g", (double)x[i], (double)got[i]);
}

#define FAULTS_VALUES_H

/* ---- views ---- */
TEST(two_views_of_one_storage_are_two_inputs)
{
    weft_tensor *b = VEC(1, 2, 3, 4);
    EXPECT(weft_add(weft_slice(b, 0, 0, 2, 1), weft_slice(b, 0, 2, 4, 1)), 0, 4, 6);
    EXPECT(weft_sub(weft_slice(b, 0, 1, 4, 1), weft_slice(b, 0, 0, 3, 1)), 0, 1, 1, 1);
    EXPECT(weft_mul(b, weft_flip(b, 0)), 0, 4, 6, 6, 4);
}

TEST(a_flipped_tensor_sums_like_its_copy)
{
    weft_tensor *x = weft_reshape(weft_arange(ctx, WEFT_DTYPE_F32, 8, 0, 1), DIMS(2, 4));
    EXPECT(weft_sum(weft_slice(x, 0, WEFT_INDEX_NONE, WEFT_INDEX_NONE, -1), (int[]){0}, 1, false), 0, 4, 6, 8, 10);
    EXPECT(weft_sum(weft_flip(weft_flip(x, 0), 1), (int[]){-1}, 1, false), 0, 22, 6);
}

TEST(a_transposed_operand_multiplies_like_its_copy)
{
    weft_tensor *x = weft_reshape(weft_arange(ctx, WEFT_DTYPE_F32, 6, 0, 1), DIMS(2, 3));
    EXPECT(weft_matmul(weft_transpose(x, 0, 1), FULL(1, 2, 2)), 0, 3, 3, 5, 5, 7, 7);
    EXPECT(weft_matmul(x, weft_transpose(x, 0, 1)), 0, 5, 14, 14, 50);
}

TEST(writing_over_an_overlapping_view_reads_the_old_values)
{
    weft_tensor *x = VEC(1, 2, 3, 4, 5, 6);
    for (int i = 0; i < 20; i++) { /* a race would show now and then */
        EXPECT(weft_slice_update(x, weft_slice(x, 0, 0, 5, 1), 0, at(1)), 0, 1, 1, 2, 3, 4, 5);
        EXPECT(weft_slice_update(x, weft_slice(x, 0, 1, 6, 1), 0, at(0)), 0, 2, 3, 4, 5, 6, 6);
        EXPECT(weft_slice_update(x, weft_flip(x, 0), 0, at(0)), 0, 6, 5, 4, 3, 2, 1);
    }
    EXPECT(x, 0, 1, 2, 3, 4, 5, 6);
}

TEST(a_view_of_a_result_reads_the_right_elements)
{
    weft_tensor *x = weft_reshape(weft_arange(ctx, WEFT_DTYPE_F32, 12, 0, 1), DIMS(3, 4));
    weft_tensor *y = weft_transpose(weft_mul(x, FULL(2, 1)), 0, 1);
    EXPECT(weft_slice(weft_slice(y, 0, 3, WEFT_INDEX_NONE, -2), 1, 1, 3, 1), 0, 14, 22, 10, 18);
    EXPECT(weft_reshape(y, DIMS(12)), 0, 0, 8, 16, 2, 10, 18, 4, 12, 20, 6, 14, 22);
}

/* Leading axes that no stride joins: the kernels of products and of top-k walk only a few. */
TEST(products_take_any_strides_of_seven_axes)
{
    weft_tensor *x = weft_reshape(weft_arange(ctx, WEFT_DTYPE_F32, 64 * 64, 0, 1), DIMS(2, 2, 2, 2, 2, 2, 64));
    weft_tensor *y = weft_permute(x, (int[]){5, 4, 3, 2, 1, 0, 6}), *rows = weft_sum(weft_contiguous(y), (int[]){6}, 1, false);
    weft_tensor *w = weft_full(ctx, WEFT_DTYPE_F32, DIMS(2, 64), 1), *at_most;
    weft_tensor *l = weft_linear(y, w, NULL), *m = weft_matmul(y, weft_transpose(w, 0, 1));
    EXPECT(weft_max(weft_abs(weft_sub(weft_slice(l, -1, 0, 1, 1), weft_unsqueeze(rows, -1))), NULL, 0, false), 0, 0);
    EXPECT(weft_max(weft_abs(weft_sub(l, m)), NULL, 0, false), 0, 0);
    EXPECT(weft_max(weft_abs(weft_sub(weft_topk(y, 1, &at_most), weft_full(ctx, WEFT_DTYPE_I32, 0, NULL, 63))), NULL, 0, false), 0, 0);
    EXPECT(weft_max(weft_sub(at_most, weft_max(y, (int[]){6}, 1, true)), NULL, 0, false), 0, 0);
    uint8_t blocks[2 * 34 * 2] = {0}; /* q8_0, every weight 1 */
    for (int b = 0; b < 4; b++) {
        blocks[34 * b + 1] = 0x3c;
        memset(blocks + 34 * b + 2, 1, 32);
    }
    weft_tensor *q = weft_linear(y, weft_tensor_from(ctx, WEFT_DTYPE_Q8_0, DIMS(2, 64), blocks), NULL);
    weft_stats before = stats();
    EXPECT(weft_max(weft_abs(weft_sub(q, l)), NULL, 0, false), 0, 0);
    assert_int_equal(stats().fallbacks, before.fallbacks);
}

/* ---- empty and rank 0 ---- */
TEST(empty_tensors_have_the_values_mathematics_gives_them)
{
    EXPECT(weft_matmul(FULL(1, 2, 0), FULL(1, 0, 3)), 0, 0, 0, 0, 0, 0, 0);
    EXPECT(weft_sum(FULL(1, 0, 3), (int[]){0}, 1, false), 0, 0, 0, 0);
    EXPECT(weft_prod(FULL(1, 0, 3), (int[]){0}, 1, false), 0, 1, 1, 1);
    EXPECT(weft_mean(FULL(1, 0, 2), (int[]){0}, 1, false), 0, NAN, NAN);
    EXPECT(weft_sum(FULL(1, 0), NULL, 0, false), 0, 0);
    weft_tensor *x = weft_reshape(VEC(1, 2, 3), DIMS(1, 3)), *empty = FULL(1, 0, 3);
    EXPECT(weft_cat((weft_tensor *[]){x, empty}, 2, 0), 0, 1, 2, 3);
    EXPECT(weft_cat((weft_tensor *[]){empty, x, empty}, 3, 0), 0, 1, 2, 3);
    EXPECT(weft_slice_update(x, weft_slice(x, 1, 1, 1, 1), 1, at(2)), 0, 1, 2, 3);
    weft_tensor *r = weft_softmax(FULL(1, 3, 0), -1);
    assert_int_equal(weft_eval(&r, 1), WEFT_OK);
    assert_int_equal(weft_tensor_numel(r), 0);
}

TEST(the_extreme_of_an_empty_axis_is_an_error)
{
    weft_tensor *x = FULL(1, 0, 3);
    assert_int_equal(weft_tensor_status(weft_max(x, (int[]){0}, 1, false)), WEFT_E_SHAPE);
    assert_int_equal(weft_tensor_status(weft_min(x, NULL, 0, false)), WEFT_E_SHAPE);
    assert_int_equal(weft_tensor_status(weft_argmax(x, (int[]){0}, 1, true)), WEFT_E_SHAPE);
    assert_int_equal(weft_tensor_numel(weft_max(x, (int[]){1}, 1, false)), 0); /* none to take */
}

TEST(nothing_empty_reaches_the_device)
{
    weft_stats before = stats();
    weft_tensor *e = weft_tensor_from(ctx, WEFT_DTYPE_F32, DIMS(3, 0, 2), NULL);
    weft_tensor *t[6] = {weft_exp(e), weft_sum(e, (int[]){0}, 1, false), weft_matmul(FULL(1, 0, 3), FULL(1, 3, 2)),
                         weft_softmax(e, 0), weft_transpose(weft_add(e, e), 0, 1), weft_rms_norm(e, NULL, 1e-5f, 0)};
    float none;
    assert_int_equal(weft_eval(t, 6), WEFT_OK);
    for (int i = 0; i < 6; i++)
        assert_int_equal(weft_read(t[i], &none, 0), WEFT_OK);
    weft_stats after = stats();
    assert_int_equal(after.dispatches, before.dispatches);
    assert_int_equal(after.buffers_created, before.buffers_created);
}

TEST(rank_0_goes_through_every_kind_of_op)
{
    weft_tensor *x = f32_of(0, NULL, (float[]){3});
    EXPECT(weft_add(x, x), 0, 6);
    EXPECT(weft_sum(x, NULL, 0, true), 0, 3);
    EXPECT(weft_max(weft_neg(x), NULL, 0, false), 0, -3);
    EXPECT(weft_reshape(x, DIMS(1, 1, 1)), 0, 3);
    EXPECT(weft_index_select(VEC(5, 6, 7), 0, at(-1)), 0, 7);
    EXPECT(weft_mul(x, VEC(1, 2)), 0, 3, 6);
    EXPECT(weft_matmul(VEC(1, 2, 3), VEC(4, 5, 6)), 0, 32);
}

/* ---- NaN and infinity ---- */
TEST(nan_and_infinity_pass_as_ieee_754_says)
{
    EXPECT(weft_softmax(VEC(-INFINITY, -INFINITY), 0), 0, NAN, NAN);
    EXPECT(weft_softmax(VEC(3.4e38f, 0), 0), 0, 1, 0);
    EXPECT(weft_max(VEC(1, NAN, 2), NULL, 0, false), 0, NAN);
    EXPECT(weft_min(VEC(1, 2, NAN), NULL, 0, false), 0, NAN);
    EXPECT(weft_argmax(VEC(1, NAN, INFINITY), NULL, 0, false), 0, 1);
    EXPECT(weft_maximum(VEC(NAN, 1, INFINITY), VEC(1, NAN, -INFINITY)), 0, NAN, NAN, INFINITY);
    EXPECT(weft_relu(VEC(NAN, -1, INFINITY)), 0, NAN, 0, INFINITY);
    EXPECT(weft_mul(FULL(INFINITY, 2), FULL(0, 2)), 0, NAN, NAN);
    EXPECT(weft_div(VEC(1, -1, 0), FULL(0, 3)), 0, INFINITY, -INFINITY, NAN);
    EXPECT(weft_sub(FULL(INFINITY, 1), VEC(INFINITY)), 0, NAN);
    EXPECT(weft_where(weft_eq(VEC(NAN, 1), VEC(NAN, 1)), FULL(1, 2), FULL(0, 2)), 0, 0, 1);
    EXPECT(weft_sum(VEC(1, INFINITY, 2), NULL, 0, false), 0, INFINITY);
    EXPECT(weft_matmul(weft_reshape(VEC(0, INFINITY), DIMS(1, 2)), weft_reshape(VEC(NAN, 1), DIMS(2, 1))), 0, NAN);
}

TEST(extremes_at_indices_keep_nan)
{
    weft_tensor *x = VEC(NAN, 1, 2, 7), *index = weft_tensor_from(ctx, WEFT_DTYPE_I32, DIMS(4), (int32_t[]){0, 1, 2, 2}), *src = VEC(1, NAN, NAN, 3);
    EXPECT(weft_scatter_reduce(x, 0, index, src, "amax", true), 0, NAN, NAN, NAN, 7);
    EXPECT(weft_scatter_reduce(x, 0, index, src, "amin", true), 0, NAN, NAN, NAN, 7);
    EXPECT(weft_scatter_reduce(x, 0, index, weft_flip(src, 0), "amax", false), 0, 3, NAN, NAN, 7);
    EXPECT(weft_scatter_reduce(x, 0, weft_flip(index, 0), VEC(INFINITY, -INFINITY, 5, 6), "amin", true), 0, NAN, 1, -INFINITY, 7);
}

TEST(a_wholly_masked_row_of_attention_is_zeros)
{
    weft_tensor *q = FULL(1, 1, 1, 2, 5), *v = FULL(3, 1, 1, 3, 5);
    weft_tensor *mask = weft_tensor_from(ctx, WEFT_DTYPE_BOOL, DIMS(2, 1), (uint8_t[]){0, 1});
    weft_tensor *y = weft_scaled_dot_product_attention(q, FULL(1, 1, 1, 3, 5), v, &(weft_attention_opts){.mask = mask});
    EXPECT(y, 1e-6f, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3);
    y = weft_scaled_dot_product_attention(q, FULL(1, 1, 1, 3, 5), v,
                                          &(weft_attention_opts){.mask = weft_reshape(VEC(-INFINITY, 0), DIMS(2, 1))});
    EXPECT(y, 1e-6f, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3);
    y = weft_scaled_dot_product_attention(q, FULL(1, 1, 1, 3, 5), v, &(weft_attention_opts){.kv_len = at(0)});
    EXPECT(y, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

/* ---- 16-bit types ---- */
TEST(f16_products_accumulate_in_f32)
{
    weft_tensor *h = weft_full(ctx, WEFT_DTYPE_F16, DIMS(1, 4096), 16);
    EXPECT(weft_linear(FULL(16, 1, 4096), h, NULL), 0, 1048576);
    EXPECT(weft_linear(h, h, NULL), 0, INFINITY); /* 65520 and more round to infinity in f16 */
    weft_tensor *ones = weft_full(ctx, WEFT_DTYPE_F16, DIMS(1, 4097), 1);
    EXPECT(weft_matmul(ones, weft_transpose(ones, 0, 1)), 0, 4096); /* 4097 rounds to even; in f16 the sum sticks at 2048 */
    EXPECT(weft_sum(ones, NULL, 0, false), 0, 4096);
    EXPECT(weft_mean(weft_full(ctx, WEFT_DTYPE_F16, DIMS(4096), 256), NULL, 0, false), 0, 256); /* the sum overflows f16 */
}

TEST(f16_statistics_are_finite_and_right)
{
    weft_tensor *x = weft_cast(VEC(0, 800, -800, 0), WEFT_DTYPE_F16);
    float s = sqrtf(2);
    EXPECT(weft_layer_norm(x, NULL, NULL, 0, -1), s * 0x1p-11f, 0, s, -s, 0);
    EXPECT(weft_rms_norm(x, NULL, 0, -1), s * 0x1p-11f, 0, s, -s, 0);
    EXPECT(weft_softmax(weft_cast(VEC(60000, 60000, -60000), WEFT_DTYPE_F16), 0), 0, 0.5f, 0.5f, 0);
}

TEST(f32_to_f16_rounds_to_even_and_overflows_to_infinity)
{
    weft_tensor *h = weft_cast(VEC(65519, 65520, -65520, 2049, 2051, 0x1p-24f, 0x1p-25f, 0x1.8p-25f), WEFT_DTYPE_F16);
    uint16_t bits[8];
    read_ok(h, bits, sizeof bits);
    static const uint16_t want[8] = {0x7bff, 0x7c00, 0xfc00, 0x6800, 0x6802, 1, 0, 1};
    for (int i = 0; i < 8; i++)
        assert_int_equal(bits[i], want[i]);
    assert_true(isinf(one_value(weft_max(h, NULL, 0, false)))); /* overflow can be asked about */
    h = weft_cast(VEC(256.5f, 257, 259, 3.4e38f), WEFT_DTYPE_BF16);
    read_ok(h, bits, 8);
    assert_int_equal(bits[0], 0x4380); /* 256 */
    assert_int_equal(bits[1], 0x4380); /* a tie to even */
    assert_int_equal(bits[2], 0x4382); /* 260 */
    assert_int_equal(bits[3], 0x7f80);
}

/* ---- alignment ---- */
TEST(odd_counts_of_narrow_types_round_trip)
{
    uint16_t h[3] = {0x3c00, 0x4000, 0x4200}, h2[3];
    int8_t b[5] = {-1, 2, -3, 4, -5}, b2[5];
    uint8_t u[7] = {1, 2, 3, 250, 5, 6, 7}, u2[7];
    weft_tensor *th = weft_tensor_from(ctx, WEFT_DTYPE_F16, DIMS(3), h), *tb = weft_tensor_from(ctx, WEFT_DTYPE_I8, DIMS(5), b);
    weft_tensor *tu = weft_tensor_from(ctx, WEFT_DTYPE_U8, DIMS(7), u);
    read_ok(th, h2, sizeof h2);
    read_ok(tb, b2, sizeof b2);
    read_ok(tu, u2, sizeof u2);
    assert_memory_equal(h, h2, sizeof h);
    assert_memory_equal(b, b2, sizeof b);
    assert_memory_equal(u, u2, sizeof u);
    EXPECT(weft_slice(th, 0, 1, 3, 1), 0, 2, 3);
    EXPECT(weft_add(weft_slice(th, 0, 1, 3, 1), weft_slice(th, 0, 0, 2, 1)), 0, 3, 5);
    EXPECT(weft_slice(tb, 0, 1, 4, 1), 0, 2, -3, 4);
    EXPECT(weft_cat((weft_tensor *[]){tb, tb, tb}, 3, 0), 0, -1, 2, -3, 4, -5, -1, 2, -3, 4, -5, -1, 2, -3, 4, -5);
    EXPECT(weft_slice_update(tu, weft_slice(tu, 0, 3, 4, 1), 0, at(6)), 0, 1, 2, 3, 250, 5, 6, 250);
}

TEST(host_data_may_lie_at_any_address)
{
    char room[64];
    float v[3] = {1, 2, 3};
    for (int offset = 1; offset < 8; offset++) {
        memcpy(room + offset, v, sizeof v);
        weft_tensor *t = f32_of(DIMS(3), (const float *)(const void *)(room + offset));
        EXPECT(weft_add(t, t), 0, 2, 4, 6);
        memset(room, 0, sizeof room);
        read_ok(t, room + offset, sizeof v);
        assert_memory_equal(room + offset, v, sizeof v);
    }
}

TEST(rows_of_18_byte_blocks_begin_at_odd_words)
{
    uint8_t w[3 * 18 + 2] = {0}; /* and the blocks lie at an odd 2-byte offset of the caller's memory */
    uint8_t *p = w + 2;
    for (int row = 0; row < 3; row++, p += 18) {
        p[1] = 0x3c; /* scale 1.0 */
        for (int i = 0; i < 16; i++)
            p[2 + i] = (uint8_t)(0x88 + row + 1 + ((row + 1) << 4)); /* every quant is row + 1 */
    }
    weft_tensor *t = weft_tensor_from(ctx, WEFT_DTYPE_Q4_0, DIMS(3, 32), w + 2), *x = FULL(1, 1, 32);
    EXPECT(weft_linear(x, t, NULL), 0, 32, 64, 96);
    EXPECT(weft_linear(x, weft_slice(t, 0, 1, 3, 1), NULL), 0, 64, 96);
    EXPECT(weft_sum(weft_embedding(t, weft_tensor_from(ctx, WEFT_DTYPE_I32, DIMS(2), (int32_t[]){2, -2})), (int[]){1}, 1, false), 0, 96, 64);
    EXPECT(weft_sum(weft_cast(weft_slice(t, 0, 1, 2, 1), WEFT_DTYPE_F32), NULL, 0, false), 0, 64);
    uint8_t back[54];
    read_ok(t, back, sizeof back);
    assert_memory_equal(back, w + 2, sizeof back);
}

/* ---- rope ---- */
TEST(rope_turns_the_pairs_its_form_names)
{
    weft_tensor *x = f32_of(DIMS(1, 4), (float[]){1, 2, 3, 4});
    float c0 = cosf(1), s0 = sinf(1), c1 = cosf(0.01f), s1 = sinf(0.01f);
    weft_tensor *pos[2] = {at(1), NULL};
    EXPECT(weft_rope(x, &(weft_rope_opts){.offset = pos[0]}), 2e-6f, c0 - 3 * s0, 2 * c1 - 4 * s1, 3 * c0 + s0, 4 * c1 + 2 * s1);
    EXPECT(weft_rope(x, &(weft_rope_opts){.offset = pos[0], .interleaved = true}), 2e-6f, c0 - 2 * s0, 2 * c0 + s0, 3 * c1 - 4 * s1,
           4 * c1 + 3 * s1);
    EXPECT(weft_rope(x, &(weft_rope_opts){.offset = pos[0], .dim = 2}), 2e-6f, c0 - 2 * s0, 2 * c0 + s0, 3, 4);
    EXPECT(weft_rope(x, &(weft_rope_opts){.offset = pos[0], .dim = 2, .across_head = true}), 2e-6f, c0 - 3 * s0, 2, 3 * c0 + s0, 4);
    weft_tensor *ones = weft_tensor_from(ctx, WEFT_DTYPE_I32, DIMS(1), (int32_t[]){1});
    EXPECT(weft_rope(x, &(weft_rope_opts){.positions = ones}), 2e-6f, c0 - 3 * s0, 2 * c1 - 4 * s1, 3 * c0 + s0, 4 * c1 + 2 * s1);
    EXPECT(weft_rope(x, &(weft_rope_opts){.positions = VEC(0.5f), .scale = 2}), 2e-6f, c0 - 3 * s0, 2 * c1 - 4 * s1, 3 * c0 + s0,
           4 * c1 + 2 * s1);
    EXPECT(weft_rope(x, NULL), 0, 1, 2, 3, 4); /* position 0 turns nothing */
    assert_int_equal(weft_tensor_status(weft_rope(x, &(weft_rope_opts){.dim = 3})), WEFT_E_SHAPE);
    assert_int_equal(weft_tensor_status(weft_rope(x, &(weft_rope_opts){.dim = 6})), WEFT_E_SHAPE);
}

/* ---- grouped-query attention ---- */
TEST(query_heads_read_the_key_head_of_their_group)
{
    weft_tensor *q = FULL(1, 1, 4, 1, 5), *k = FULL(1, 1, 2, 3, 5);
    weft_tensor *v = weft_expand(f32_of(DIMS(1, 2, 1, 1), (float[]){1, 2}), DIMS(1, 2, 3, 5));
    weft_tensor *y = weft_scaled_dot_product_attention(q, k, v, NULL);
    EXPECT(weft_slice(y, 3, 4, 5, 1), 1e-6f, 1, 1, 2, 2);
    EXPECT(weft_slice(y, 1, 1, 3, 1), 1e-6f, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2);
    assert_int_equal(weft_tensor_status(weft_scaled_dot_product_attention(FULL(1, 1, 3, 1, 5), k, v, NULL)), WEFT_E_SHAPE);
}

/* ---- indices ---- */
TEST(an_index_outside_its_axis_is_an_error_and_the_context_goes_on)
{
    float got[64];
    weft_tensor *x = weft_reshape(weft_arange(ctx, WEFT_DTYPE_F32, 12, 0, 1), DIMS(3, 4));
    weft_tensor *bad = weft_tensor_from(ctx, WEFT_DTYPE_I32, DIMS(1, 2), (int32_t[]){1, 4});
    weft_tensor *low = weft_tensor_from(ctx, WEFT_DTYPE_I32, DIMS(1), (int32_t[]){-4});
    assert_int_equal(weft_read(weft_gather(x, 1, bad), got, 8), WEFT_E_INDEX);
    assert_int_equal(weft_read(weft_embedding(x, low), got, 16), WEFT_E_INDEX);
    assert_int_equal(weft_read(weft_index_select(x, -1, weft_neg(bad)), got, 24), WEFT_OK);
    assert_int_equal(weft_read(weft_add(weft_index_select(x, 0, at(3)), VEC(1)), got, 16), WEFT_E_INDEX);
    weft_tensor *late = weft_slice_update(x, FULL(0, 2, 4), 0, weft_add(at(1), at(1)));
    assert_int_equal(weft_read(late, got, 48), WEFT_E_INDEX);
    weft_tensor *q = FULL(1, 1, 1, 1, 4), *k = FULL(1, 1, 1, 3, 4);
    weft_attention_opts past = {.kv_len = at(4)};
    assert_int_equal(weft_read(weft_scaled_dot_product_attention(q, k, k, &past), got, 16), WEFT_E_INDEX);
    EXPECT(weft_gather(x, 1, weft_tensor_from(ctx, WEFT_DTYPE_I32, DIMS(2, 2), (int32_t[]){-1, 0, 1, -4})), 0, 3, 0, 5, 4);
}

/* ---- numbers ---- */
TEST(wide_integers_keep_all_their_bits)
{
    int64_t v[3] = {((int64_t)1 << 53) + 1, -((int64_t)1 << 62), INT64_MAX}, got[3];
    weft_tensor *x = weft_tensor_from(ctx, WEFT_DTYPE_I64, DIMS(3), v), *one = weft_full(ctx, WEFT_DTYPE_I64, DIMS(3), 1);
    read_ok(weft_sub(x, one), got, sizeof got);
    for (int i = 0; i < 3; i++)
        assert_true(got[i] == v[i] - 1);
    read_ok(weft_sum(weft_slice(x, 0, 0, 2, 1), NULL, 0, false), got, 8);
    assert_true(got[0] == v[0] + v[1]);
    int32_t small[2] = {16777217, -2147483647}, back[2];
    weft_tensor *y = weft_tensor_from(ctx, WEFT_DTYPE_I32, DIMS(2), small);
    read_ok(weft_add(y, weft_full(ctx, WEFT_DTYPE_I32, DIMS(2), -1)), back, sizeof back);
    assert_true(back[0] == 16777216 && back[1] == INT32_MIN);
}

TEST(reading_as_another_dtype_converts_as_cast_does)
{
    weft_tensor *x = VEC(1.5f, -2.5f, 65520, 3e9f, -1, NAN);
    for (int to = 0; to <= WEFT_DTYPE_BOOL; to++) {
        uint8_t direct[48], cast[48];
        size_t n = 6 * weft_dtype_block_bytes((weft_dtype)to);
        assert_int_equal(weft_read_as(x, (weft_dtype)to, direct, n), WEFT_OK);
        read_ok(weft_cast(x, (weft_dtype)to), cast, n);
        n = weft_dtype_is_float((weft_dtype)to) ? n / 6 * 5 : n; /* the bits of a NaN are not promised */
        assert_memory_equal(direct, cast, n);
    }
}

TEST(integers_divided_as_floats_are_exact_where_they_divide)
{
    float got[300], a[300], b[300];
    for (int i = 0; i < 300; i++) {
        b[i] = (float)(i + 1);
        a[i] = b[i] * 72;
    }
    EXPECT(weft_floor(weft_div(VEC(21600, 86400), VEC(72, 72))), 0, 300, 1200);
    EXPECT(weft_floor(weft_div(weft_scalar_f32(ctx, 21600), FULL(72, 1))), 0, 300);
    read_ok(weft_floor(weft_div(f32_of(DIMS(300), a), f32_of(DIMS(300), b))), got, sizeof got);
    for (int i = 0; i < 300; i++)
        assert_true(got[i] == 72);
}

TEST(functions_hold_at_the_ends_of_their_range)
{
    const float x[8] = {88, -88, 1e-30f, -1e-30f, 88.7f, -103, 20, -20};
    float got[8];
    weft_tensor *t = f32_of(DIMS(8), x);
    read_ok(weft_exp(t), got, sizeof got);
    for (int i = 0; i < 8; i++)
        assert_true(near(got[i], (float)exp((double)x[i]), 4 * 0x1p-24f * (float)exp((double)x[i]) + 0x1p-126f));
    read_ok(weft_tanh(t), got, sizeof got);
    for (int i = 0; i < 8; i++)
        assert_true(near(got[i], (float)tanh((double)x[i]), 6 * 0x1p-24f * fabsf((float)tanh((double)x[i]))));
    read_ok(weft_erf(t), got, sizeof got);
    for (int i = 0; i < 8; i++)
        assert_true(near(got[i], (float)erf((double)x[i]), 6 * 0x1p-24f * fabsf((float)erf((double)x[i]))));
}

TEST(constants_in_kernels_keep_all_their_digits)
{
    static const float values[] = {0.1f, 1.0f / 3, 3.40282347e38f, 1.17549435e-38f, 16777217, 1e-7f, -2.71828183f, 6.02214076e23f, 0x1.fffffep-1f};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        EXPECT(weft_mul(VEC(1, -1), FULL(values[i], 1)), 0, values[i], -values[i]);
        EXPECT(weft_maximum(VEC(-INFINITY), weft_scalar_f32(ctx, values[i])), 0, values[i]);
    }
}

TEST(infinity_less_itself_is_nan_on_every_device)
{
    weft_tensor *x = VEC(INFINITY, -INFINITY, NAN, 1);
    EXPECT(weft_sub(x, x), 0, NAN, NAN, NAN, 0);
    EXPECT(weft_sub(weft_add(x, FULL(1, 1)), x), 0, NAN, NAN, NAN, 1);
}

TEST(powers_of_constants_compile_in_bounded_time)
{
    weft_tensor *x = VEC(0.5f, 2, 3, 1);
    EXPECT(weft_pow(FULL(2, 1), x), 1e-5f, 1.41421356f, 4, 8, 2);
    EXPECT(weft_pow(FULL(1, 1), x), 0, 1, 1, 1, 1);
    EXPECT(weft_pow(x, FULL(3, 1)), 1e-4f, 0.125f, 8, 27, 1);
}

TEST(an_index_that_a_cast_would_wrap_is_outside)
{
    float out[1];
    weft_tensor *x = VEC(0, 1, 2, 3, 4, 5);
    weft_tensor *wide = weft_tensor_from(ctx, WEFT_DTYPE_I64, 1, (int64_t[]){1}, (int64_t[]){((int64_t)1 << 32) + 1});
    weft_tensor *low = weft_tensor_from(ctx, WEFT_DTYPE_I64, 1, (int64_t[]){1}, (int64_t[]){-((int64_t)1 << 32) - 1});
    weft_tensor *high = weft_tensor_from(ctx, WEFT_DTYPE_U32, 1, (int64_t[]){1}, (uint32_t[]){4294967295u});
    weft_tensor *good = weft_tensor_from(ctx, WEFT_DTYPE_I64, 1, (int64_t[]){1}, (int64_t[]){-2});
    assert_int_equal(weft_read(weft_index_select(x, 0, wide), out, sizeof out), WEFT_E_INDEX);
    assert_int_equal(weft_read(weft_index_select(x, 0, low), out, sizeof out), WEFT_E_INDEX);
    assert_int_equal(weft_read(weft_index_select(x, 0, high), out, sizeof out), WEFT_E_INDEX);
    EXPECT(weft_index_select(x, 0, good), 0, 4);
}

#define FAULTS_VALUES                                                                                                     \
    cmocka_unit_test(two_views_of_one_storage_are_two_inputs), cmocka_unit_test(a_flipped_tensor_sums_like_its_copy),     \
        cmocka_unit_test(a_transposed_operand_multiplies_like_its_copy),                                                  \
        cmocka_unit_test(writing_over_an_overlapping_view_reads_the_old_values),                                          \
        cmocka_unit_test(a_view_of_a_result_reads_the_right_elements),                                                    \
        cmocka_unit_test(products_take_any_strides_of_seven_axes),                                                        \
        cmocka_unit_test(empty_tensors_have_the_values_mathematics_gives_them),                                           \
        cmocka_unit_test(the_extreme_of_an_empty_axis_is_an_error), cmocka_unit_test(nothing_empty_reaches_the_device),   \
        cmocka_unit_test(rank_0_goes_through_every_kind_of_op), cmocka_unit_test(nan_and_infinity_pass_as_ieee_754_says), \
        cmocka_unit_test(extremes_at_indices_keep_nan), cmocka_unit_test(a_wholly_masked_row_of_attention_is_zeros), cmocka_unit_test(f16_products_accumulate_in_f32),    \
        cmocka_unit_test(f16_statistics_are_finite_and_right),                                                            \
        cmocka_unit_test(f32_to_f16_rounds_to_even_and_overflows_to_infinity),                                            \
        cmocka_unit_test(odd_counts_of_narrow_types_round_trip), cmocka_unit_test(host_data_may_lie_at_any_address),      \
        cmocka_unit_test(rows_of_18_byte_blocks_begin_at_odd_words), cmocka_unit_test(rope_turns_the_pairs_its_form_names), \
        cmocka_unit_test(query_heads_read_the_key_head_of_their_group),                                                   \
        cmocka_unit_test(an_index_outside_its_axis_is_an_error_and_the_context_goes_on),                                  \
        cmocka_unit_test(wide_integers_keep_all_their_bits),                                                              \
        cmocka_unit_test(reading_as_another_dtype_converts_as_cast_does),                                                 \
        cmocka_unit_test(integers_divided_as_floats_are_exact_where_they_divide),                                         \
        cmocka_unit_test(infinity_less_itself_is_nan_on_every_device), cmocka_unit_test(powers_of_constants_compile_in_bounded_time), \
        cmocka_unit_test(an_index_that_a_cast_would_wrap_is_outside),                                                     \
        cmocka_unit_test(exponentials_beyond_the_normal_range),                                                            \
        cmocka_unit_test(functions_hold_at_the_ends_of_their_range), cmocka_unit_test(constants_in_kernels_keep_all_their_digits)

#endif
