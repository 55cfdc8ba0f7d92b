/* kern_matvec.c - products with few rows or columns (row matmul_vec): bandwidth bound, so the large operand
 * is read once, as it is stored, and never packed.
 *
 * The large operand is w [R, K], the others are X <= 8 vectors of length K: either b transposed and the
 * rows of a (decode: M = 1), or a and the columns of b. w is contiguous along K (dot products) or along R
 * (sums of scaled rows).
 */
#include "kern.h"

enum {
    MAX_X = 8,
    ROWS_MAX = 256, /* rows of w a part, at most */
    COLS = 512,     /* axpy: sums a part, [X, COLS] in L1 */
    K_SPLIT = 1024, /* axpy with few columns: K is cut so that all threads work */
    SPLITS_MAX = 16
};

typedef struct vec_job {
    const wf_kern_mat *t;
    bool swapped;     /* w is a, the vectors are columns of b */
    bool along_k;     /* w contiguous along K */
    int64_t r, k;     /* w [r, k] */
    int nx;
    weft_dtype w_dtype, x_dtype;
    int64_t w_row, w_k, x_row, x_k; /* strides */
    int64_t part_rows, parts;       /* of one batch */
    int64_t splits, k_split;        /* axpy */
    float *sums;                    /* [splits, nx, r] */
    float *workers;
    int64_t worker_floats;
    bool x_direct; /* the vectors can be read in place */
} vec_job;

static bool shape_vec(const wf_kern_mat *t, vec_job *job)
{
    *job = (vec_job){.t = t, .k = t->k};
    const bool by_rows = t->m <= MAX_X && (t->b_row == 1 || t->b_col == 1 || t->k == 1 || t->n == 1);
    const bool by_cols = t->n <= MAX_X && (t->a_row == 1 || t->a_col == 1 || t->k == 1 || t->m == 1);
    if (!by_rows && !by_cols)
        return false;
    job->swapped = !by_rows || (by_cols && t->n < t->m);
    if (job->swapped) {
        job->r = t->m;
        job->nx = (int)t->n;
        job->w_row = t->a_row;
        job->w_k = t->a_col;
        job->x_row = t->b_col;
        job->x_k = t->b_row;
        job->w_dtype = t->a_dtype;
        job->x_dtype = t->b_dtype;
    } else {
        job->r = t->n;
        job->nx = (int)t->m;
        job->w_row = t->b_col;
        job->w_k = t->b_row;
        job->x_row = t->a_row;
        job->x_k = t->a_col;
        job->w_dtype = t->b_dtype;
        job->x_dtype = t->a_dtype;
    }
    job->along_k = job->w_k == 1 || job->k == 1;
    return true;
}

static void plan_vec(vec_job *job)
{
    const int64_t row_bytes = job->k * (int64_t)wf_kern_float_bytes(job->w_dtype);
    job->splits = 1;
    job->k_split = job->k;
    if (job->along_k) {
        const int64_t rows = WF_PART_ROWS(row_bytes);
        job->part_rows = WF_MIN(rows, ROWS_MAX);
    } else {
        job->part_rows = COLS;
        if (job->r <= COLS * SPLITS_MAX && job->k >= 2 * K_SPLIT) {
            job->splits = WF_MIN(job->k / K_SPLIT, SPLITS_MAX);
            job->k_split = (job->k + job->splits - 1) / job->splits;
            job->k_split = (job->k_split + 7) / 8 * 8;
            job->splits = (job->k + job->k_split - 1) / job->k_split;
        }
    }
    job->parts = (job->r + job->part_rows - 1) / job->part_rows;
    job->x_direct = job->x_dtype == WEFT_DTYPE_F32 && (job->x_k == 1 || job->k == 1);
    job->worker_floats = ((job->x_direct ? 0 : job->nx * job->k) + MAX_X * COLS + 15) / 16 * 16;
}

static const float *vectors(const vec_job *job, int64_t x_at, float *scratch, int64_t *stride)
{
    const void *x = job->swapped ? job->t->b : job->t->a;
    if (job->x_direct) {
        *stride = job->x_row;
        return (const float *)x + x_at;
    }
    *stride = job->k;
    for (int j = 0; j < job->nx; j++)
        wf_kern_gather(job->t->dest.isa, x, job->x_dtype, x_at + j * job->x_row, job->x_k, job->k, scratch + j * job->k);
    return scratch;
}

/* acc is [nx, COLS or part_rows] or, swapped, [rows, MAX_X]. */
static void hand_on(const vec_job *job, int64_t batch, int64_t r0, int64_t rows, const float *acc, int64_t stride)
{
    const wf_kern_mat *t = job->t;
    if (job->swapped)
        wf_kern_emit(&t->dest, acc, stride, batch * t->m + r0, rows, 0, job->nx);
    else
        wf_kern_emit(&t->dest, acc, stride, batch * t->m, job->nx, r0, rows);
}

/* ---- w contiguous along K ---- */
static void dot_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const vec_job *job = user;
    const wf_kern_mat *t = job->t;
    if (wf_kern_cancelled(t->dest.run))
        return;
    const int64_t batch = index / job->parts, r0 = index % job->parts * job->part_rows;
    const int64_t rows = WF_MIN(job->part_rows, job->r - r0);
    int64_t a_at, b_at, x_stride;
    wf_kern_mat_at(t, batch, &a_at, &b_at);
    float *acc = job->workers + worker * job->worker_floats;
    const float *x = vectors(job, job->swapped ? b_at : a_at, acc + MAX_X * COLS, &x_stride);
    const char *w = (const char *)(job->swapped ? t->a : t->b) +
                    ((job->swapped ? a_at : b_at) + r0 * job->w_row) * (int64_t)wf_kern_float_bytes(job->w_dtype);
    const int64_t sr = job->swapped ? MAX_X : 1, sx = job->swapped ? 1 : COLS;
    for (int64_t i = 0; i < rows; i += 4) {
        const int some = (int)WF_MIN(4, rows - i);
        for (int j = 0; j < job->nx; j += 4) {
            const int nx = WF_MIN(4, job->nx - j);
            float out[16];
            t->dest.isa->dot[job->w_dtype](w + i * job->w_row * (int64_t)wf_kern_float_bytes(job->w_dtype), job->w_row, some,
                                           x + j * x_stride, x_stride, nx, job->k, out);
            for (int a = 0; a < some; a++)
                for (int b = 0; b < nx; b++)
                    acc[(i + a) * sr + (j + b) * sx] = out[a * 4 + b];
        }
    }
    hand_on(job, batch, r0, rows, acc, job->swapped ? MAX_X : COLS);
}

/* ---- w contiguous along R ---- */
static void axpy_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const vec_job *job = user;
    const wf_kern_mat *t = job->t;
    if (wf_kern_cancelled(t->dest.run))
        return;
    const int64_t split = index % job->splits, at = index / job->splits, batch = at / job->parts, r0 = at % job->parts * COLS;
    const int64_t rows = WF_MIN(COLS, job->r - r0), k0 = split * job->k_split, k1 = WF_MIN(k0 + job->k_split, job->k);
    int64_t a_at, b_at, x_stride;
    wf_kern_mat_at(t, batch, &a_at, &b_at);
    float *acc = job->workers + worker * job->worker_floats;
    const float *x = vectors(job, job->swapped ? b_at : a_at, acc + MAX_X * COLS, &x_stride);
    const char *w = (const char *)(job->swapped ? t->a : t->b);
    const int64_t w_at = (job->swapped ? a_at : b_at) + r0, size = (int64_t)wf_kern_float_bytes(job->w_dtype);
    memset(acc, 0, (size_t)(job->nx * COLS) * 4);
    for (int64_t k = k0; k < k1; k += 8) {
        const int some = (int)WF_MIN(8, k1 - k);
        t->dest.isa->axpy[job->w_dtype](w + (w_at + k * job->w_k) * size, job->w_k, some, x + k, x_stride, job->nx, rows, acc, COLS);
    }
    if (job->splits > 1) {
        for (int j = 0; j < job->nx; j++)
            memcpy(job->sums + ((batch * job->splits + split) * job->nx + j) * job->r + r0, acc + j * COLS, (size_t)rows * 4);
        return;
    }
    if (job->swapped) {
        float turned[COLS * MAX_X];
        for (int64_t i = 0; i < rows; i++)
            for (int j = 0; j < job->nx; j++)
                turned[i * MAX_X + j] = acc[j * COLS + i];
        hand_on(job, batch, r0, rows, turned, MAX_X);
        return;
    }
    hand_on(job, batch, r0, rows, acc, COLS);
}

/* Partial sums of one block of columns, added in the order of K. */
static void combine_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count, (void)worker;
    const vec_job *job = user;
    const int64_t batch = index / job->parts, r0 = index % job->parts * COLS, rows = WF_MIN(COLS, job->r - r0);
    float acc[MAX_X * COLS];
    for (int64_t i = 0; i < rows; i++)
        for (int j = 0; j < job->nx; j++) {
            const float *sums = job->sums + (batch * job->splits * job->nx + j) * job->r + r0 + i;
            float s = 0;
            for (int64_t split = 0; split < job->splits; split++)
                s += sums[split * job->nx * job->r];
            acc[job->swapped ? i * MAX_X + j : j * COLS + i] = s;
        }
    hand_on(job, batch, r0, rows, acc, job->swapped ? MAX_X : COLS);
}

bool wf_kern_vec_fits(const int32_t *words, const char **why)
{
    wf_kern_mat t;
    vec_job job;
    *why = "at most 8 rows or columns, and the other operand with a stride of 1";
    return wf_kern_mat_words("matmul_vec", words, &t) == WEFT_OK && t.a_dtype != WEFT_DTYPE_F64 && t.k > 0 && shape_vec(&t, &job);
}

static size_t scratch_floats(const vec_job *job, int64_t batch, int n_threads)
{
    return (size_t)job->worker_floats * (size_t)n_threads + (job->splits > 1 ? (size_t)(batch * job->splits * job->nx * job->r) : 0);
}

size_t wf_kern_vec_scratch(const int32_t *words, int n_threads)
{
    wf_kern_mat t;
    vec_job job;
    if (wf_kern_mat_words("matmul_vec", words, &t) != WEFT_OK || !shape_vec(&t, &job))
        return 0;
    plan_vec(&job);
    return scratch_floats(&job, t.batch, n_threads) * 4;
}

weft_status wf_kern_matmul_vec(const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    wf_kern_mat t;
    WF_TRY(wf_kern_mat_read("matmul_vec", run, epilogue, &t));
    vec_job job;
    if (t.a_dtype == WEFT_DTYPE_F64 || t.k == 0 || !shape_vec(&t, &job))
        return t.a_dtype == WEFT_DTYPE_F64 ? wf_kern_bad("matmul_vec", "f64 operands") : wf_kern_matmul_packed(run, epilogue);
    if (t.batch == 0 || job.r == 0 || job.nx == 0)
        return WEFT_OK;
    plan_vec(&job);
    wf_kern_scratch scratch;
    WF_TRY(wf_kern_scratch_get(run, t.scratch_bind, scratch_floats(&job, t.batch, wf_pool_size(run->pool)) * 4, &scratch));
    job.workers = (float *)scratch.ptr;
    job.sums = job.workers + job.worker_floats * wf_pool_size(run->pool);
    wf_pool_run(run->pool, job.along_k ? dot_part : axpy_part, &job, t.batch * job.parts * job.splits);
    if (job.splits > 1)
        wf_pool_run(run->pool, combine_part, &job, t.batch * job.parts);
    wf_kern_scratch_end(&scratch);
    return wf_kern_done(run);
}
