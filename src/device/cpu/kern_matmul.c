/* kern_matmul.c - matrix products of plain dtypes: operand words, packing from any strides, and the rows
 * matmul_packed, matmul_blas and matmul_plain. Few rows or columns: kern_matvec.c.
 */
#include "kern.h"

/* ---- operands ---- */
static void merge_batches(wf_kern_mat *t)
{
    /* All batches see one b, and a's rows go on from batch to batch with one stride: one tall matrix. */
    int64_t rows = t->m;
    for (int i = 2; i >= 0; i--) {
        if (t->extents[i] == 1)
            continue;
        if (t->b_batch[i] != 0)
            return;
        if (t->m == 1 && rows == 1)
            t->a_row = t->a_batch[i];
        else if (t->a_batch[i] != rows * t->a_row)
            return;
        rows *= t->extents[i];
    }
    t->m = rows;
    t->batch = 1;
    t->extents[0] = t->extents[1] = t->extents[2] = 1;
}

static weft_status check_range(const char *row, const wf_cpu_run *run, const wf_kern_mat *t)
{
    if (t->batch == 0 || t->m == 0 || t->n == 0)
        return WEFT_OK;
    const int64_t a_ext[5] = {t->extents[0], t->extents[1], t->extents[2], t->m, t->k};
    const int64_t a_str[5] = {t->a_batch[0], t->a_batch[1], t->a_batch[2], t->a_row, t->a_col};
    const int64_t b_ext[5] = {t->extents[0], t->extents[1], t->extents[2], t->k / t->per_byte, t->n};
    const int64_t b_str[5] = {t->b_batch[0], t->b_batch[1], t->b_batch[2], t->b_row, t->b_col};
    if (t->k > 0 && (!wf_kern_in_range(run->size[0], wf_kern_float_bytes(t->a_dtype), t->a_at, 5, a_ext, a_str) ||
                     !wf_kern_in_range(run->size[1], wf_kern_float_bytes(t->b_dtype), t->b_at, 5, b_ext, b_str)))
        return wf_kern_bad(row, "an operand leaves its binding");
    int64_t out;
    if (!wf_mul_i64(t->batch, t->m, &out) || !wf_mul_i64(out, t->n, &out))
        return wf_kern_bad(row, "too many results");
    if (!t->dest.epilogue && (uint64_t)out > run->size[2] / wf_kern_float_bytes(t->out_dtype))
        return wf_kern_bad(row, "the result leaves its binding");
    return WEFT_OK;
}

weft_status wf_kern_mat_words(const char *row, const int32_t *w, wf_kern_mat *out)
{
    wf_kern_mat t = {.m = w[0], .n = w[1], .k = w[2], .batch = w[3], .a_at = w[7], .a_row = w[8], .a_col = w[9],
                     .b_at = w[13], .b_row = w[14], .b_col = w[15]};
    for (int i = 0; i < 3; i++) {
        t.extents[i] = w[4 + i];
        t.a_batch[i] = w[10 + i];
        t.b_batch[i] = w[16 + i];
    }
    t.a_dtype = wf_kern_dtype(w[19], 0);
    t.b_dtype = wf_kern_dtype(w[19], 1);
    t.out_dtype = wf_kern_dtype(w[19], 2);
    t.per_byte = 1;
    if (strcmp(row, "matmul_i8") == 0) {
        if (t.b_dtype == WEFT_DTYPE_U8) {
            t.per_byte = (int)wf_kern_dtype(w[19], 3);
            if ((t.per_byte != 2 && t.per_byte != 4) || !wf_kern_is_f(t.a_dtype) || !wf_kern_is_f(t.out_dtype) || t.k % t.per_byte)
                return wf_kern_bad(row, "packed numbers");
        } else if (t.b_dtype != WEFT_DTYPE_I8 || (t.a_dtype == WEFT_DTYPE_I8 ? t.out_dtype != WEFT_DTYPE_I32 : !wf_kern_is_f(t.a_dtype) || !wf_kern_is_f(t.out_dtype)))
            return wf_kern_bad(row, "dtypes");
    } else if (t.a_dtype == WEFT_DTYPE_F64 ? t.b_dtype != WEFT_DTYPE_F64 || t.out_dtype != WEFT_DTYPE_F64
                                    : !wf_kern_is_f(t.a_dtype) || !wf_kern_is_f(t.b_dtype) || !wf_kern_is_f(t.out_dtype))
        return wf_kern_bad(row, "dtypes");
    int64_t batch = 1;
    for (int i = 0; i < 3; i++)
        if (t.extents[i] < 0 || !wf_mul_i64(batch, t.extents[i], &batch))
            return wf_kern_bad(row, "extents");
    if (t.m < 0 || t.n < 0 || t.k < 0 || t.batch != batch)
        return wf_kern_bad(row, "extents");
    *out = t;
    merge_batches(out);
    return WEFT_OK;
}

weft_status wf_kern_mat_read(const char *row, const wf_cpu_run *run, const wf_cpu_kernel *epilogue, wf_kern_mat *out)
{
    const int32_t *w = run->statics;
    const uint32_t n_own = epilogue ? 2 : 3;
    const bool has_scratch = (w[19] & WF_KERN_HAS_SCRATCH) != 0;
    wf_kern_mat t;
    WF_TRY(wf_kern_mat_words(row, w, &t));
    if (epilogue && !wf_kern_is_f(t.a_dtype))
        return wf_kern_bad(row, "an epilogue, whose input is f32, after another product");
    WF_TRY(wf_kern_binds(row, run, n_own + has_scratch));
    t.scratch_bind = has_scratch ? (int)n_own : -1;
    t.a = run->ptr[0];
    t.b = run->ptr[1];
    t.dest = (wf_kern_dest){.run = run, .epilogue = epilogue, .bind_base = n_own + has_scratch, .static_base = WF_KERN_MAT_WORDS,
                            .out = epilogue ? NULL : run->ptr[2], .dtype = t.out_dtype, .cols = t.n, .isa = wf_kern_isa_get()};
    t.dest.batch_rows = w[19] & WF_KERN_FLAT ? (int64_t)w[3] * w[0] : w[0];
    WF_TRY(check_range(row, run, &t));
    *out = t;
    return WEFT_OK;
}

void wf_kern_mat_at(const wf_kern_mat *t, int64_t batch, int64_t *a_at, int64_t *b_at)
{
    *a_at = t->a_at;
    *b_at = t->b_at;
    for (int i = 2; i >= 0; i--) {
        const int64_t c = batch % t->extents[i];
        batch /= t->extents[i];
        *a_at += c * t->a_batch[i];
        *b_at += c * t->b_batch[i];
    }
}

/* ---- packing ---- */
void wf_kern_pack(const wf_kern_isa *isa, const void *p, weft_dtype t, int64_t at, int64_t stride, int64_t k_stride, int64_t count,
                  int width, int64_t kc, float *dst)
{
    const char *src = (const char *)p + at * (int64_t)wf_kern_float_bytes(t);
    if (stride == 1) {
        isa->lay[t](src, k_stride, count, width, kc, dst);
        return;
    }
    if (k_stride == 1 && t == WEFT_DTYPE_F32) {
        isa->weave((const float *)src, stride, count, width, kc, dst);
        return;
    }
    /* Through f32 rows of BLOCK elements, which stay in L1. */
    enum { BLOCK = 64 };
    float rows[WF_KERN_MAX_NR * BLOCK];
    for (int64_t first = 0; first < count; first += width, dst += width * kc) {
        const int64_t some = WF_MIN(width, count - first);
        for (int64_t k = 0; k < kc; k += BLOCK) {
            const int64_t n = WF_MIN(BLOCK, kc - k);
            for (int64_t i = 0; i < some; i++)
                wf_kern_gather(isa, p, t, at + (first + i) * stride + k * k_stride, k_stride, n, rows + i * BLOCK);
            isa->weave(rows, BLOCK, some, width, n, dst + k * width);
        }
    }
}

void wf_kern_mat_pack_a(const void *mat, const wf_kern_isa *isa, int64_t batch, int64_t first, int64_t count, int width, int64_t k0,
                        int64_t kc, float *dst)
{
    const wf_kern_mat *t = mat;
    int64_t a_at, b_at;
    wf_kern_mat_at(t, batch, &a_at, &b_at);
    wf_kern_pack(isa, t->a, t->a_dtype, a_at + first * t->a_row + k0 * t->a_col, t->a_row, t->a_col, count, width, kc, dst);
}
void wf_kern_mat_pack_b(const void *mat, const wf_kern_isa *isa, int64_t batch, int64_t first, int64_t count, int width, int64_t k0,
                        int64_t kc, float *dst)
{
    const wf_kern_mat *t = mat;
    int64_t a_at, b_at;
    wf_kern_mat_at(t, batch, &a_at, &b_at);
    wf_kern_pack(isa, t->b, t->b_dtype, b_at + first * t->b_col + k0 * t->b_row, t->b_col, t->b_row, count, width, kc, dst);
}

/* ---- matmul_packed: f32, f16 and bf16 in any mix and layout ---- */
static bool is_shared(const int64_t *batch_strides)
{
    return batch_strides[0] == 0 && batch_strides[1] == 0 && batch_strides[2] == 0;
}
weft_status wf_kern_packed_run(const wf_kern_mat *t, wf_kern_pack_fn pack_a, const void *user_a, wf_kern_pack_fn pack_b, const void *user_b)
{
    const wf_kern_gemm g = {.batch = t->batch, .m = t->m, .n = t->n, .k = t->k, .pack_a = pack_a, .pack_b = pack_b,
                            .user_a = user_a, .user_b = user_b, .a_by_k = t->a_col == 1, .b_by_k = t->b_row == 1,
                            .a_shared = is_shared(t->a_batch), .b_shared = is_shared(t->b_batch), .scratch_bind = t->scratch_bind};
    return wf_kern_gemm_run(&g, &t->dest);
}

weft_status wf_kern_matmul_packed(const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    wf_kern_mat t;
    WF_TRY(wf_kern_mat_read("matmul_packed", run, epilogue, &t));
    if (t.a_dtype == WEFT_DTYPE_F64)
        return wf_kern_bad("matmul_packed", "f64 operands");
    return wf_kern_packed_run(&t, wf_kern_mat_pack_a, &t, wf_kern_mat_pack_b, &t);
}

/* ---- matmul_blas: f32, one library call a tile ---- */
enum { BLAS_TILE_M = 512, BLAS_TILE_N = 512 };
typedef struct blas_job {
    const wf_kern_mat *t;
    const wf_blas *blas;
    float *tiles;
    bool direct;
    atomic_bool failed;
} blas_job;

/* A matrix that a BLAS takes: one stride 1, the other at least the extent of the first. */
static bool blas_layout(int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride, bool *transposed, int64_t *ld)
{
    *transposed = col_stride != 1;
    *ld = *transposed ? col_stride : row_stride;
    if ((*transposed ? row_stride : col_stride) != 1)
        return false;
    const int64_t inner = *transposed ? rows : cols, outer = *transposed ? cols : rows;
    if (outer == 1 && *ld < inner)
        *ld = inner;
    return *ld >= inner;
}

static void blas_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    blas_job *job = user;
    const wf_kern_mat *t = job->t;
    if (wf_kern_cancelled(t->dest.run))
        return;
    const int64_t tiles_m = (t->m + BLAS_TILE_M - 1) / BLAS_TILE_M, tiles_n = (t->n + BLAS_TILE_N - 1) / BLAS_TILE_N;
    const int64_t batch = index / (tiles_m * tiles_n), at = index % (tiles_m * tiles_n);
    const int64_t i = at % tiles_m * BLAS_TILE_M, j = at / tiles_m * BLAS_TILE_N;
    const int64_t rows = WF_MIN(BLAS_TILE_M, t->m - i), cols = WF_MIN(BLAS_TILE_N, t->n - j);
    int64_t a_at, b_at, lda, ldb;
    bool ta, tb;
    wf_kern_mat_at(t, batch, &a_at, &b_at);
    blas_layout(t->m, t->k, t->a_row, t->a_col, &ta, &lda);
    blas_layout(t->k, t->n, t->b_row, t->b_col, &tb, &ldb);
    const float *a = (const float *)t->a + a_at + i * t->a_row, *b = (const float *)t->b + b_at + j * t->b_col;
    const int64_t row = batch * t->m + i;
    float *c = job->direct ? (float *)t->dest.out + row * t->n + j : job->tiles + (int64_t)worker * BLAS_TILE_M * BLAS_TILE_N;
    const int64_t ldc = job->direct ? t->n : cols;
    if (!job->blas->sgemm(ta, tb, rows, cols, t->k, a, lda, b, ldb, c, ldc))
        atomic_store(&job->failed, true);
    if (!job->direct)
        wf_kern_emit(&t->dest, c, ldc, row, rows, j, cols);
}

bool wf_kern_blas_fits(const int32_t *words, const char **why)
{
    wf_kern_mat t;
    bool trans;
    int64_t ld;
    *why = "operands that a BLAS takes: f32, one stride 1";
    if (wf_kern_mat_words("matmul_blas", words, &t) != WEFT_OK || t.a_dtype != WEFT_DTYPE_F32 || t.b_dtype != WEFT_DTYPE_F32 || t.k == 0 ||
        !blas_layout(t.m, t.k, t.a_row, t.a_col, &trans, &ld) || !blas_layout(t.k, t.n, t.b_row, t.b_col, &trans, &ld))
        return false;
    *why = wf_blas_get()->reason;
    return wf_blas_get()->name != NULL;
}

size_t wf_kern_blas_scratch(const int32_t *words, int n_threads)
{
    (void)words;
    return (size_t)BLAS_TILE_M * BLAS_TILE_N * 4 * (size_t)n_threads;
}

size_t wf_kern_packed_scratch(const int32_t *words, int n_threads)
{
    wf_kern_mat t;
    if (wf_kern_mat_words("matmul_packed", words, &t) != WEFT_OK)
        return 0;
    return wf_kern_gemm_scratch(t.batch, t.m, t.n, t.k, n_threads);
}

weft_status wf_kern_matmul_blas(const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    wf_kern_mat t;
    WF_TRY(wf_kern_mat_read("matmul_blas", run, epilogue, &t));
    const wf_blas *blas = wf_blas_get();
    const char *why;
    if (!wf_kern_blas_fits(run->statics, &why))
        return wf_kern_matmul_packed(run, epilogue);
    blas_job job = {.t = &t, .blas = blas, .direct = !epilogue && t.out_dtype == WEFT_DTYPE_F32};
    wf_kern_scratch scratch = {0};
    if (!job.direct) {
        const size_t bytes = (size_t)BLAS_TILE_M * BLAS_TILE_N * 4 * (size_t)wf_pool_size(run->pool);
        WF_TRY(wf_kern_scratch_get(run, t.scratch_bind, bytes, &scratch));
        job.tiles = (float *)scratch.ptr;
    }
    const int64_t tiles = (t.m + BLAS_TILE_M - 1) / BLAS_TILE_M * ((t.n + BLAS_TILE_N - 1) / BLAS_TILE_N);
    wf_pool_run(run->pool, blas_part, &job, t.batch * tiles);
    wf_kern_scratch_end(&scratch);
    if (atomic_load(&job.failed))
        return wf_fail(WEFT_E_INTERNAL, "matmul_blas: %s refused a tile", blas->name);
    return wf_kern_done(run);
}

/* ---- matmul_plain: any float dtype, f64 included; sums in f64 ---- */
enum { PLAIN_COLS = 256 };
static double load_f64(const void *p, weft_dtype t, int64_t i)
{
    return t == WEFT_DTYPE_F64 ? ((const double *)p)[i] : (double)wf_kern_load(p, t, i);
}
static void plain_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count, (void)worker;
    const wf_kern_mat *t = user;
    if (wf_kern_cancelled(t->dest.run))
        return;
    const int64_t blocks = (t->n + PLAIN_COLS - 1) / PLAIN_COLS, row = index / blocks;
    const int64_t batch = row / t->m, i = row % t->m, j0 = index % blocks * PLAIN_COLS, cols = WF_MIN(PLAIN_COLS, t->n - j0);
    int64_t a_at, b_at;
    wf_kern_mat_at(t, batch, &a_at, &b_at);
    double acc[PLAIN_COLS] = {0};
    for (int64_t k = 0; k < t->k; k++) {
        const double a = load_f64(t->a, t->a_dtype, a_at + i * t->a_row + k * t->a_col);
        const int64_t b = b_at + k * t->b_row + j0 * t->b_col;
        if (t->b_dtype == WEFT_DTYPE_F64)
            for (int64_t j = 0; j < cols; j++)
                acc[j] += a * ((const double *)t->b)[b + j * t->b_col];
        else
            for (int64_t j = 0; j < cols; j++)
                acc[j] += a * (double)wf_kern_load(t->b, t->b_dtype, b + j * t->b_col);
    }
    if (t->out_dtype == WEFT_DTYPE_F64) {
        memcpy((double *)t->dest.out + row * t->n + j0, acc, (size_t)cols * 8);
        return;
    }
    float tile[PLAIN_COLS];
    for (int64_t j = 0; j < cols; j++)
        tile[j] = (float)acc[j];
    wf_kern_emit(&t->dest, tile, PLAIN_COLS, row, 1, j0, cols);
}

weft_status wf_kern_matmul_plain(const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    wf_kern_mat t;
    WF_TRY(wf_kern_mat_read("matmul_plain", run, epilogue, &t));
    if (t.m > 0 && t.n > 0 && t.batch > 0)
        wf_pool_run(run->pool, plain_part, &t, t.batch * t.m * ((t.n + PLAIN_COLS - 1) / PLAIN_COLS));
    return wf_kern_done(run);
}
