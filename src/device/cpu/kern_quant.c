/* kern_quant.c - x [M, K] times a weight matrix in GGUF blocks [N, K], transposed: rows linear_q8_0, linear_q4_0
 * and linear_q4_1. The blocks are read as they are; nothing is expanded in memory beyond a panel.
 *
 * f32 activations: M <= 8 dequantises in registers (each weight row is read once); more rows dequantise panels
 * for the packed product. act_int8: activations become i8 by blocks of 32 once, then integer dot products.
 */
#include "kern.h"

enum { VEC_ROWS = 8, ROWS_MAX = 256, INT_ROWS = 64 /* result rows a part of the integer product */ };
static const char *const row_names[WF_KERN_Q_COUNT] = {"linear_q8_0", "linear_q4_0", "linear_q4_1"};
static const size_t block_bytes[WF_KERN_Q_COUNT] = {34, 18, 20};

typedef struct quant_job {
    int type;
    int64_t m, n, k, blocks;
    const uint8_t *w; /* row 0 */
    size_t row_bytes;
    const void *x;
    weft_dtype x_dtype;
    int64_t x_at, x_col, extents[4], strides[4];
    bool act_int8;
    int scratch_bind;
    wf_kern_dest dest;
    /* prepared activations */
    float *xf;  /* [m, k] f32 */
    int8_t *xq; /* [m, k] */
    float *xd, *xs;
    float *workers;
    int64_t part_rows;
} quant_job;

static int64_t x_row_at(const quant_job *t, int64_t row)
{
    int64_t at = t->x_at;
    for (int i = 3; i >= 0; i--) {
        at += row % t->extents[i] * t->strides[i];
        row /= t->extents[i];
    }
    return at;
}

static weft_status read_job(int type, const wf_cpu_run *run, const wf_cpu_kernel *epilogue, quant_job *t)
{
    const char *row = row_names[type];
    const int32_t *w = run->statics;
    const uint32_t n_own = epilogue ? 2 : 3;
    const bool has_scratch = (w[11] & WF_KERN_HAS_SCRATCH) != 0;
    WF_TRY(wf_kern_binds(row, run, n_own + has_scratch));
    *t = (quant_job){.type = type, .m = w[0], .n = w[1], .k = w[2], .blocks = w[2] / WF_QK, .row_bytes = (size_t)((int64_t)w[10] * (int64_t)block_bytes[type]),
                     .x = run->ptr[0], .x_dtype = wf_kern_dtype(w[11], 0), .x_at = w[4], .x_col = w[6], .act_int8 = w[9] != 0,
                     .scratch_bind = has_scratch ? (int)n_own : -1};
    if (t->m < 0 || t->n < 0 || t->k < 0 || t->blocks * WF_QK != t->k)
        return wf_kern_bad(row, "extents");
    int64_t rows = 1, ext[5], str[5], elements;
    for (int i = 0; i < 4; i++) {
        ext[i] = t->extents[i] = w[12 + i];
        str[i] = t->strides[i] = w[16 + i];
        if (t->extents[i] < 0 || !wf_mul_i64(rows, t->extents[i], &rows))
            return wf_kern_bad(row, "extents");
    }
    ext[4] = t->k;
    str[4] = t->x_col;
    const weft_dtype out_dtype = wf_kern_dtype(w[11], 1);
    if (rows != t->m || !wf_kern_is_f(t->x_dtype) || !wf_kern_is_f(out_dtype))
        return wf_kern_bad(row, "rows or dtypes");
    if (t->m > 0 && t->n > 0 && t->k > 0) {
        const int64_t w_ext[2] = {t->n, t->blocks}, w_str[2] = {w[10], 1};
        if (!wf_mul_i64(t->m, t->k, &elements) || elements > (int64_t)1 << 40 ||
            !wf_kern_in_range(run->size[1], block_bytes[type], w[3], 2, w_ext, w_str) ||
            !wf_kern_in_range(run->size[0], wf_kern_float_bytes(t->x_dtype), t->x_at, 5, ext, str))
            return wf_kern_bad(row, "an operand leaves its binding");
    }
    if (!epilogue && (uint64_t)(t->m * t->n) > run->size[2] / wf_kern_float_bytes(out_dtype))
        return wf_kern_bad(row, "the result leaves its binding");
    t->w = (const uint8_t *)run->ptr[1] + (int64_t)w[3] * (int64_t)block_bytes[type];
    t->dest = (wf_kern_dest){.run = run, .epilogue = epilogue, .bind_base = n_own + has_scratch, .static_base = WF_KERN_QUANT_WORDS,
                             .out = epilogue ? NULL : run->ptr[2], .dtype = out_dtype, .batch_rows = t->m, .cols = t->n,
                             .isa = wf_kern_isa_get()};
    return WEFT_OK;
}

/* ---- few rows, f32 activations ---- */
/* From [rows of w, 4] to [rows of x, ..]. */
static void spread(const float *out, int64_t rows, int64_t nx, float *to, int64_t ld)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < nx; j++)
            to[j * ld + r] = out[r * 4 + j];
}
static void vec_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const quant_job *t = user;
    if (wf_kern_cancelled(t->dest.run))
        return;
    const int64_t r0 = index * t->part_rows, rows = WF_MIN(t->part_rows, t->n - r0);
    float *acc = t->workers + worker * VEC_ROWS * ROWS_MAX;
    const uint8_t *w = t->w + (size_t)r0 * t->row_bytes;
    for (int64_t i = 0; i < rows; i += 4)
        for (int64_t j = 0; j < t->m; j += 4) {
            float out[16];
            const int64_t some = WF_MIN(4, rows - i), nx = WF_MIN(4, t->m - j);
            t->dest.isa->qdot[t->type](w + (size_t)i * t->row_bytes, t->row_bytes, (int)some, t->xf + j * t->k, t->k, (int)nx, t->blocks,
                                       out);
            spread(out, some, nx, acc + j * ROWS_MAX + i, ROWS_MAX);
        }
    wf_kern_emit(&t->dest, acc, ROWS_MAX, 0, t->m, r0, rows);
}

static weft_status run_vec(quant_job *t)
{
    const wf_cpu_run *run = t->dest.run;
    const size_t floats = (size_t)(t->m * t->k);
    wf_kern_scratch scratch;
    WF_TRY(wf_kern_scratch_get(run, t->scratch_bind, (floats + (size_t)wf_pool_size(run->pool) * VEC_ROWS * ROWS_MAX) * 4, &scratch));
    t->workers = (float *)scratch.ptr;
    t->xf = t->workers + (size_t)wf_pool_size(run->pool) * VEC_ROWS * ROWS_MAX;
    for (int64_t i = 0; i < t->m; i++)
        wf_kern_gather(t->dest.isa, t->x, t->x_dtype, x_row_at(t, i), t->x_col, t->k, t->xf + i * t->k);
    wf_pool_run(run->pool, vec_part, t, (t->n + t->part_rows - 1) / t->part_rows);
    wf_kern_scratch_end(&scratch);
    return wf_kern_done(run);
}

/* ---- more rows, f32 activations ---- */
/* Elements k .. k+n-1 of a row, at most 64; with act_int8 the values that their i8 stand for. */
static void x_values(const quant_job *t, const wf_kern_isa *isa, int64_t row, int64_t k, int64_t n, float *out)
{
    int8_t q[64];
    float d[2], s[2];
    wf_kern_gather(isa, t->x, t->x_dtype, x_row_at(t, row) + k * t->x_col, t->x_col, n, out);
    if (!t->act_int8)
        return;
    isa->quantise(out, n / WF_QK, q, d, s);
    for (int64_t i = 0; i < n; i++)
        out[i] = d[i / WF_QK] * (float)q[i];
}
static void pack_x(const void *user, const wf_kern_isa *isa, int64_t batch, int64_t first, int64_t count, int width, int64_t k0,
                   int64_t kc, float *dst)
{
    (void)batch;
    const quant_job *t = user;
    enum { BLOCK = 64 };
    float rows[WF_KERN_MAX_NR * BLOCK];
    /* Rows are addressed one by one: their stride may change inside a strip. */
    for (const int64_t end = first + count; first < end; first += width, dst += width * kc) {
        const int64_t some = WF_MIN(width, end - first);
        for (int64_t k = 0; k < kc; k += BLOCK) {
            const int64_t n = WF_MIN(BLOCK, kc - k);
            for (int64_t i = 0; i < some; i++)
                x_values(t, isa, first + i, k0 + k, n, rows + i * BLOCK);
            isa->weave(rows, BLOCK, some, width, n, dst + k * width);
        }
    }
}
static void pack_w(const void *user, const wf_kern_isa *isa, int64_t batch, int64_t first, int64_t count, int width, int64_t k0,
                   int64_t kc, float *dst)
{
    (void)batch;
    const quant_job *t = user;
    enum { BLOCKS = 6 };
    float rows[WF_KERN_MAX_NR * BLOCKS * WF_QK];
    const int64_t b0 = k0 / WF_QK, n_blocks = kc / WF_QK; /* chunks of K are whole blocks */
    for (const int64_t end = first + count; first < end; first += width, dst += width * kc) {
        const int64_t some = WF_MIN(width, end - first);
        for (int64_t b = 0; b < n_blocks; b += BLOCKS) {
            const int64_t deep = WF_MIN(BLOCKS, n_blocks - b);
            for (int64_t i = 0; i < some; i++) {
                const uint8_t *w = t->w + (size_t)(first + i) * t->row_bytes + (size_t)(b0 + b) * block_bytes[t->type];
                /* The same blocks of the next panel: pieces of rows are too short for the processor to foresee. */
                for (size_t at = 0; at < (size_t)deep * block_bytes[t->type]; at += 64)
                    __builtin_prefetch(w + (size_t)n_blocks * block_bytes[t->type] + at);
                isa->dequant[t->type](w, deep, rows + i * BLOCKS * WF_QK);
            }
            isa->weave(rows, BLOCKS * WF_QK, some, width, deep * WF_QK, dst + b * WF_QK * width);
        }
    }
}

/* ---- i8 activations ---- */
static void quantise_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const quant_job *t = user;
    float *row = t->workers + worker * (t->k + VEC_ROWS * ROWS_MAX);
    wf_kern_gather(t->dest.isa, t->x, t->x_dtype, x_row_at(t, index), t->x_col, t->k, row);
    t->dest.isa->quantise(row, t->blocks, t->xq + index * t->k, t->xd + index * t->blocks, t->xs + index * t->blocks);
}

static void int_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const quant_job *t = user;
    if (wf_kern_cancelled(t->dest.run))
        return;
    const int64_t groups = (t->m + INT_ROWS - 1) / INT_ROWS;
    const int64_t m0 = index % groups * INT_ROWS, rows_m = WF_MIN(INT_ROWS, t->m - m0);
    const int64_t r0 = index / groups * t->part_rows, rows = WF_MIN(t->part_rows, t->n - r0);
    /* [rows_m, rows]: with one row of x as wide as the part, else at most 16 columns */
    float acc[INT_ROWS * 16], *wide = t->workers + worker * (t->k + VEC_ROWS * ROWS_MAX) + t->k;
    const uint8_t *w = t->w + (size_t)r0 * t->row_bytes;
    const int64_t step = rows_m <= VEC_ROWS ? rows : 16;
    float *to = rows_m <= VEC_ROWS ? wide : acc;
    const int64_t ld = rows_m <= VEC_ROWS ? ROWS_MAX : 16;
    for (int64_t c = 0; c < rows; c += step) {
        const int64_t cols = WF_MIN(step, rows - c);
        for (int64_t i = 0; i < cols; i += 4)
            for (int64_t j = 0; j < rows_m; j += 4) {
                float out[16];
                const int64_t some = WF_MIN(4, cols - i), nx = WF_MIN(4, rows_m - j);
                t->dest.isa->idot[t->type](w + (size_t)(c + i) * t->row_bytes, t->row_bytes, (int)some, t->xq + (m0 + j) * t->k,
                                           t->xd + (m0 + j) * t->blocks, t->xs + (m0 + j) * t->blocks, (int)nx, t->blocks, out);
                spread(out, some, nx, to + j * ld + i, ld);
            }
        wf_kern_emit(&t->dest, to, ld, m0, rows_m, r0 + c, cols);
    }
}

static weft_status run_int(quant_job *t)
{
    const wf_cpu_run *run = t->dest.run;
    const size_t q_bytes = wf_align_up((uint64_t)(t->m * t->k), 64), d_floats = (size_t)(t->m * t->blocks);
    const size_t worker_floats = (size_t)(t->k + VEC_ROWS * ROWS_MAX) * (size_t)wf_pool_size(run->pool);
    wf_kern_scratch scratch;
    WF_TRY(wf_kern_scratch_get(run, t->scratch_bind, q_bytes + (2 * d_floats + worker_floats) * 4, &scratch));
    t->xq = (int8_t *)scratch.ptr;
    t->xd = (float *)(scratch.ptr + q_bytes);
    t->xs = t->xd + d_floats;
    t->workers = t->xs + d_floats;
    wf_pool_run(run->pool, quantise_part, t, t->m);
    wf_pool_run(run->pool, int_part, t, (t->m + INT_ROWS - 1) / INT_ROWS * ((t->n + t->part_rows - 1) / t->part_rows));
    wf_kern_scratch_end(&scratch);
    return wf_kern_done(run);
}

/* Many rows on a processor without fast products of bytes: the values of the i8 go through the packed product. */
static bool is_integer(int64_t m) { return m <= 2 * VEC_ROWS || wf_kern_isa_get()->int8_products; }

size_t wf_kern_quant_scratch(int64_t m, int64_t n, int64_t k, bool act_int8, int n_threads)
{
    const size_t workers = (size_t)n_threads;
    if (m <= 0 || n <= 0 || k <= 0)
        return 0;
    if (act_int8 && is_integer(m))
        return wf_align_up((uint64_t)(m * k), 64) + ((size_t)(2 * m * (k / WF_QK)) + (size_t)(k + VEC_ROWS * ROWS_MAX) * workers) * 4;
    if (!act_int8 && m <= VEC_ROWS)
        return ((size_t)(m * k) + workers * VEC_ROWS * ROWS_MAX) * 4;
    return wf_kern_gemm_scratch(1, m, n, k, n_threads);
}

static weft_status run_quant(int type, const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    quant_job t;
    WF_TRY(read_job(type, run, epilogue, &t));
    if (t.m == 0 || t.n == 0)
        return WEFT_OK;
    t.part_rows = WF_MIN(WF_PART_ROWS((int64_t)t.row_bytes), ROWS_MAX);
    if (t.k > 0 && t.act_int8 && is_integer(t.m))
        return run_int(&t);
    if (t.k > 0 && !t.act_int8 && t.m <= VEC_ROWS)
        return run_vec(&t);
    const wf_kern_gemm g = {.batch = 1, .m = t.m, .n = t.n, .k = t.k, .pack_a = pack_x, .pack_b = pack_w, .user_a = &t, .user_b = &t,
                            .a_by_k = true, .b_by_k = true, .b_shared = true, .scratch_bind = t.scratch_bind};
    return wf_kern_gemm_run(&g, &t.dest);
}

weft_status wf_kern_linear_q8_0(const wf_cpu_run *run, const wf_cpu_kernel *epilogue) { return run_quant(WF_KERN_Q8_0, run, epilogue); }
weft_status wf_kern_linear_q4_0(const wf_cpu_run *run, const wf_cpu_kernel *epilogue) { return run_quant(WF_KERN_Q4_0, run, epilogue); }
weft_status wf_kern_linear_q4_1(const wf_cpu_run *run, const wf_cpu_kernel *epilogue) { return run_quant(WF_KERN_Q4_1, run, epilogue); }
