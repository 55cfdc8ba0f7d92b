/* kern_gemm.c - the packed matrix product: operands of any layout are packed to panels, a microkernel makes
 * tiles of them, and each finished tile goes to the destination while it is in cache.
 *
 * Few rows (THIN_M): a part packs a block of b columns, KC deep, and uses it at once for all rows. Loops as in Van Zee and van de Geijn 2015 (BLIS): the packed b strip [KC, NR] stays in L1, the packed a
 * block [MC, KC] in L2. Panels are packed once by all threads and then shared. An element is summed in
 * blocks of KC in order, whatever the tiles, so neither tiles nor threads change its bits.
 */
#include "kern.h"

enum {
    KC = 384, /* at most; K is cut evenly, and at blocks of quantised weights (32) */
    MC = 96,  /* rows of a tile: a multiple of every mr */
    NC = 256, /* columns of a tile: a multiple of every nr */
    THIN_M = 256, THIN_N = 64,
    K_WHOLE = 8192, /* a longer K is cut into chunks of K_CHUNK, with the sums kept in memory between them */
    K_CHUNK = 4096
};
#define A_PANEL_BYTES ((size_t)16 << 20)
#define B_PANEL_BYTES ((size_t)8 << 20)
#define SMALL_BYTES ((size_t)1 << 20) /* a and b panels of one batch that a thread packs for itself */
#define PART_FLOPS 1000000            /* about what waking a thread is worth */

typedef struct gemm_plan {
    bool thin;       /* a part is a block of columns, which it packs for itself */
    int64_t cols;    /* thin: columns of a part */
    bool small;      /* one thread does a whole matrix; parts are groups of batches */
    int64_t group;   /* batches a part */
    int64_t ks, chunks;
    int64_t ms, ns;  /* rows and columns of the panels */
    size_t a_bytes, b_bytes, c_bytes; /* shared panels; sums kept between chunks */
    size_t worker_bytes;
    size_t total;
} gemm_plan;

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static int64_t block_depth(int64_t k)
{
    const int64_t blocks = (k + KC - 1) / KC;
    return blocks <= 1 ? KC : WF_MIN(KC, round_up((k + blocks - 1) / blocks, 32));
}
/* Panels are cut along K into blocks of depth kc, and a block into strips, so that a block is one stretch of memory: where
 * strip i (a row or column) of block kb, kc deep, lies in a panel of n rows or columns. */
static int64_t strip_at(int64_t n, int width, int64_t kb, int64_t kc, int64_t i) { return round_up(n, width) * kb + i * kc; }

/* Panels of about `bytes`, cut evenly: a last one of few rows would read the whole other operand for them. */
static int64_t panel_extent(int64_t n, int64_t k, int64_t step, size_t bytes)
{
    const int64_t fit = WF_MAX((int64_t)(bytes / 4) / k, step), panels = WF_MAX((n + fit / 2) / fit, 1);
    return round_up((n + panels - 1) / panels, step);
}

/* Depends on the shape alone, but for the number of worker buffers. */
static gemm_plan plan_gemm(int64_t batch, int64_t m, int64_t n, int64_t k, int n_workers)
{
    gemm_plan p = {.ks = k <= K_WHOLE ? k : K_CHUNK};
    p.chunks = (k + p.ks - 1) / p.ks;
    const double flops = 2.0 * (double)m * (double)n * (double)k;
    const double floats = ((double)m + (double)n + WF_KERN_MAX_MR + WF_KERN_MAX_NR) * (double)k;
    p.small = p.chunks == 1 && floats * 4 <= (double)SMALL_BYTES && (batch >= 8 || flops <= PART_FLOPS);
    if (p.small) {
        p.ms = round_up(m, WF_KERN_MAX_MR);
        p.ns = round_up(n, WF_KERN_MAX_NR);
        p.group = flops >= PART_FLOPS ? 1 : (int64_t)(PART_FLOPS / (flops + 256));
    } else if (m <= THIN_M && n >= 4 * THIN_N && (double)m * (double)k * 4 <= (double)A_PANEL_BYTES) {
        p.thin = true;
        p.ks = k;
        p.chunks = 1;
        p.ms = round_up(m, WF_KERN_MAX_MR);
        p.cols = n >= 16 * THIN_N ? THIN_N : THIN_N / 2;
        p.a_bytes = (size_t)p.ms * (size_t)k * 4;
        p.worker_bytes = (size_t)(KC + THIN_M) * THIN_N * 4;
        p.total = p.a_bytes + p.worker_bytes * (size_t)n_workers;
        return p;
    } else {
        p.ms = panel_extent(m, p.ks, MC, A_PANEL_BYTES);
        p.ns = panel_extent(n, p.ks, NC, B_PANEL_BYTES);
    }
    const size_t a = (size_t)p.ms * (size_t)p.ks * 4, b = (size_t)p.ns * (size_t)p.ks * 4;
    p.worker_bytes = (size_t)MC * NC * 4 + (p.small ? a + b : 0);
    if (!p.small) {
        p.a_bytes = a;
        p.b_bytes = b;
        p.c_bytes = p.chunks > 1 ? (size_t)p.ms * (size_t)p.ns * 4 : 0;
    }
    p.total = p.a_bytes + p.b_bytes + p.c_bytes + p.worker_bytes * (size_t)n_workers;
    return p;
}

size_t wf_kern_gemm_scratch(int64_t batch, int64_t m, int64_t n, int64_t k, int n_threads)
{
    return batch <= 0 || m <= 0 || n <= 0 || k <= 0 ? 0 : plan_gemm(batch, m, n, k, n_threads).total;
}

typedef struct gemm_job {
    const wf_kern_gemm *g;
    const wf_kern_dest *d;
    const wf_kern_isa *isa;
    gemm_plan p;
    float *a, *b, *c;
    char *workers;
    bool plain;  /* the result is f32 as it is: finished sums go there at once */
    bool pack_a, pack_b;
    /* the panels that are being worked on */
    int64_t batch, m0, m, n0, n, k0, k;
} gemm_job;

/* Where sums are; p NULL: nowhere, zeros. */
typedef struct sums {
    float *p;
    int64_t ld;
} sums;

/* rows x cols of `to` = from + product of packed strips, kc deep. */
static void run_block(const wf_kern_isa *isa, int64_t kc, const float *a, const float *b, int64_t rows, int64_t cols, sums from, sums to)
{
    const int mr = isa->mr, nr = isa->nr;
    float edge[WF_KERN_MAX_MR * WF_KERN_MAX_NR];
    const int64_t calls = (rows + mr - 1) / mr, share = round_up((kc * nr + calls - 1) / calls, 16);
    for (int64_t j = 0; j < cols; j += nr, b += kc * nr) {
        const float *ap = a, *next = b + kc * nr; /* the strip behind, asked for bit by bit: its first use would wait */
        for (int64_t i = 0; i < rows; i += mr, ap += kc * mr) {
            for (int64_t x = 0; x < share && j + nr < cols; x += 16)
                __builtin_prefetch(next + x, 0, 2);
            next += share;
            const float *before = from.p ? from.p + i * from.ld + j : NULL;
            float *after = to.p + i * to.ld + j;
            if (i + mr <= rows && j + nr <= cols) {
                isa->micro(kc, ap, b, before, from.ld, after, to.ld);
                continue;
            }
            const int64_t r = WF_MIN(mr, rows - i), s = WF_MIN(nr, cols - j);
            /* Copies of bytes: what is summed need not be floats. */
            memset(edge, 0, sizeof edge);
            for (int64_t y = 0; before && y < r; y++)
                memcpy(edge + y * nr, before + y * from.ld, (size_t)s * 4);
            isa->micro(kc, ap, b, edge, nr, edge, nr);
            for (int64_t y = 0; y < r; y++)
                memcpy(after + y * to.ld, edge + y * nr, (size_t)s * 4);
        }
    }
}
/* One tile: rows [i0, i0 + rows) and columns [j0, j0 + cols) of panels of m rows, n columns, packed k deep, added to
 * `from`. Sums between blocks of K are in `tile`, the last go to `to`, which may be the same. */
static void run_tile(const wf_kern_isa *isa, const float *a, const float *b, int64_t m, int64_t n, int64_t k, int64_t i0, int64_t rows, int64_t j0,
                     int64_t cols, sums from, sums tile, sums to)
{
    const int64_t depth = block_depth(k);
    for (int64_t kb = 0; kb < k; kb += depth) {
        const int64_t kc = WF_MIN(depth, k - kb);
        run_block(isa, kc, a + strip_at(m, isa->mr, kb, kc, i0), b + strip_at(n, isa->nr, kb, kc, j0), rows, cols, kb ? tile : from,
                  kb + kc < k ? tile : to);
    }
}

static float *worker_tile(const gemm_job *t, int worker) { return (float *)(t->workers + (size_t)worker * t->p.worker_bytes); }

/* ---- many small matrices ---- */
static void small_matrix(const gemm_job *t, int64_t batch, float *tile, bool *b_packed)
{
    const wf_kern_gemm *g = t->g;
    const wf_kern_isa *isa = t->isa;
    float *a = tile + MC * NC, *b = a + t->p.ms * t->p.ks;
    const int64_t depth = block_depth(g->k);
    for (int64_t kb = 0; kb < g->k; kb += depth) {
        const int64_t kc = WF_MIN(depth, g->k - kb);
        g->pack_a(g->user_a, isa, batch, 0, g->m, isa->mr, kb, kc, a + strip_at(g->m, isa->mr, kb, kc, 0));
        if (!g->b_shared || !*b_packed)
            g->pack_b(g->user_b, isa, batch, 0, g->n, isa->nr, kb, kc, b + strip_at(g->n, isa->nr, kb, kc, 0));
    }
    *b_packed = true;
    for (int64_t i = 0; i < g->m; i += MC)
        for (int64_t j = 0; j < g->n; j += NC) {
            const int64_t rows = WF_MIN(MC, g->m - i), cols = WF_MIN(NC, g->n - j);
            const int64_t row = batch * g->m + i;
            const sums own = {tile, NC}, out = {(float *)t->d->out + row * g->n + j, g->n};
            run_tile(isa, a, b, g->m, g->n, g->k, i, rows, j, cols, (sums){NULL, 0}, own, t->plain ? out : own);
            if (!t->plain)
                wf_kern_emit(t->d, tile, NC, row, rows, j, cols);
        }
}
static void small_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const gemm_job *t = user;
    const int64_t first = index * t->p.group, end = WF_MIN(first + t->p.group, t->g->batch);
    bool b_packed = false;
    for (int64_t batch = first; batch < end && !wf_kern_cancelled(t->d->run); batch++)
        small_matrix(t, batch, worker_tile(t, worker), &b_packed);
}

/* ---- large matrices: all threads pack, then all make tiles ---- */
enum { STRIPS_A_PART = 4, STRIPS_B_PART = 4 };
static int64_t pack_parts(int64_t n, int64_t width, int64_t strips) { return (n + width * strips - 1) / (width * strips); }

static void pack_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count, (void)worker;
    const gemm_job *t = user;
    const wf_kern_gemm *g = t->g;
    if (wf_kern_cancelled(t->d->run))
        return;
    const int64_t parts_a = t->pack_a ? pack_parts(t->m, t->isa->mr, STRIPS_A_PART) : 0;
    const bool is_a = index < parts_a;
    const int width = is_a ? t->isa->mr : t->isa->nr;
    const int64_t strips = is_a ? STRIPS_A_PART : STRIPS_B_PART, n = is_a ? t->m : t->n;
    const int64_t first = (is_a ? index : index - parts_a) * width * strips, end = WF_MIN(first + width * strips, n);
    /* Along the operand's rows: a strip in its whole depth, or strips side by side, KC deep. */
    const bool by_k = is_a ? g->a_by_k : g->b_by_k;
    const int64_t step = by_k ? width : width * strips, depth = block_depth(t->k);
    for (int64_t i = first; i < end; i += step)
        for (int64_t kb = 0; kb < t->k; kb += depth) {
            const int64_t kc = WF_MIN(depth, t->k - kb), some = WF_MIN(step, end - i);
            if (is_a)
                g->pack_a(g->user_a, t->isa, t->batch, t->m0 + i, some, width, t->k0 + kb, kc, t->a + strip_at(t->m, width, kb, kc, i));
            else
                g->pack_b(g->user_b, t->isa, t->batch, t->n0 + i, some, width, t->k0 + kb, kc, t->b + strip_at(t->n, width, kb, kc, i));
        }
}

static void tile_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const gemm_job *t = user;
    const wf_kern_gemm *g = t->g;
    if (wf_kern_cancelled(t->d->run))
        return;
    const int64_t tiles_m = (t->m + MC - 1) / MC;
    const int64_t i = index % tiles_m * MC, j = index / tiles_m * NC;
    const int64_t rows = WF_MIN(MC, t->m - i), cols = WF_MIN(NC, t->n - j);
    const int64_t row = t->batch * g->m + t->m0 + i, col = t->n0 + j;
    /* Blocks of K are summed in a worker's buffer: rows of a power-of-two length would evict each other from the cache.
     * Between chunks of K the sums wait in the result if it can hold them. */
    const sums tile = {worker_tile(t, worker), NC}, out = {t->plain ? (float *)t->d->out + row * g->n + col : NULL, g->n};
    const sums kept = t->p.chunks == 1 ? tile : t->plain ? out : (sums){t->c + i * t->p.ns + j, t->p.ns};
    const bool last = t->k0 + t->k == g->k;
    const sums to = t->plain ? out : kept;
    run_tile(t->isa, t->a, t->b, t->m, t->n, t->k, i, rows, j, cols, t->k0 ? kept : (sums){NULL, 0}, tile, to);
    if (last && !t->plain)
        wf_kern_emit(t->d, to.p, to.ld, row, rows, col, cols);
}

/* ---- few rows ---- */
static void thin_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const gemm_job *t = user;
    const wf_kern_gemm *g = t->g;
    const wf_kern_isa *isa = t->isa;
    if (wf_kern_cancelled(t->d->run))
        return;
    const int64_t j0 = index * t->p.cols, cols = WF_MIN(t->p.cols, g->n - j0), row = t->batch * g->m;
    float *b = worker_tile(t, worker);
    const sums c = {b + KC * THIN_N, THIN_N}, out = {t->plain ? (float *)t->d->out + row * g->n + j0 : NULL, g->n};
    const int64_t depth = block_depth(g->k);
    for (int64_t kb = 0; kb < g->k; kb += depth) {
        const int64_t kc = WF_MIN(depth, g->k - kb);
        g->pack_b(g->user_b, isa, t->batch, j0, cols, isa->nr, kb, kc, b);
        run_block(isa, kc, t->a + strip_at(g->m, isa->mr, kb, kc, 0), b, g->m, cols, kb ? c : (sums){NULL, 0}, t->plain && kb + kc == g->k ? out : c);
    }
    if (!t->plain)
        wf_kern_emit(t->d, c.p, c.ld, row, g->m, j0, cols);
}
static void run_thin(gemm_job *t)
{
    const wf_kern_gemm *g = t->g;
    t->m = g->m;
    t->k = g->k;
    t->pack_a = true;
    for (t->batch = 0; t->batch < g->batch; t->batch++) {
        if (t->batch == 0 || !g->a_shared)
            wf_pool_run(t->d->run->pool, pack_part, t, pack_parts(t->m, t->isa->mr, STRIPS_A_PART));
        wf_pool_run(t->d->run->pool, thin_part, t, (g->n + t->p.cols - 1) / t->p.cols);
    }
}

static void run_panels(gemm_job *t, int64_t *a_id, int64_t *b_id)
{
    const wf_kern_gemm *g = t->g;
    wf_pool *pool = t->d->run->pool;
    for (t->k0 = 0; t->k0 < g->k && !wf_kern_cancelled(t->d->run); t->k0 += t->p.ks) {
        t->k = WF_MIN(t->p.ks, g->k - t->k0);
        /* A panel that is still packed from the round before is kept. */
        const int64_t chunk = t->k0 / t->p.ks;
        const int64_t a_now = ((g->a_shared ? 0 : t->batch) * (g->m + 1) + t->m0) * t->p.chunks + chunk;
        const int64_t b_now = ((g->b_shared ? 0 : t->batch) * (g->n + 1) + t->n0) * t->p.chunks + chunk;
        t->pack_a = *a_id != a_now;
        t->pack_b = *b_id != b_now;
        *a_id = a_now;
        *b_id = b_now;
        const int64_t parts = (t->pack_a ? pack_parts(t->m, t->isa->mr, STRIPS_A_PART) : 0) +
                              (t->pack_b ? pack_parts(t->n, t->isa->nr, STRIPS_B_PART) : 0);
        if (parts > 0)
            wf_pool_run(pool, pack_part, t, parts);
        wf_pool_run(pool, tile_part, t, (t->m + MC - 1) / MC * ((t->n + NC - 1) / NC));
    }
}

/* ---- K = 0: zeros ---- */
static void zero_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)worker;
    const wf_kern_gemm *g = ((const gemm_job *)user)->g;
    static const float zeros[NC];
    const int64_t rows = g->batch * g->m;
    for (int64_t i = rows / count * index + WF_MIN(index, rows % count), end = i + rows / count + (index < rows % count); i < end; i++)
        for (int64_t j = 0; j < g->n; j += NC)
            wf_kern_emit(((const gemm_job *)user)->d, zeros, NC, i, 1, j, WF_MIN(NC, g->n - j));
}

weft_status wf_kern_gemm_run(const wf_kern_gemm *g, const wf_kern_dest *d)
{
    const wf_cpu_run *run = d->run;
    if (g->batch <= 0 || g->m <= 0 || g->n <= 0)
        return WEFT_OK;
    gemm_job t = {.g = g, .d = d, .isa = d->isa};
    if (g->k <= 0) {
        wf_pool_run(run->pool, zero_part, &t, WF_MIN(g->batch * g->m, 64));
        return wf_kern_done(run);
    }
    t.p = plan_gemm(g->batch, g->m, g->n, g->k, wf_pool_size(run->pool));
    wf_kern_scratch scratch;
    WF_TRY(wf_kern_scratch_get(run, g->scratch_bind, t.p.total, &scratch));
    t.a = (float *)scratch.ptr;
    t.b = t.a + t.p.a_bytes / 4;
    t.c = t.b + t.p.b_bytes / 4;
    t.workers = (char *)(t.c + t.p.c_bytes / 4);
    t.plain = !d->epilogue && d->dtype == WEFT_DTYPE_F32;
    if (t.p.small) {
        wf_pool_run(run->pool, small_part, &t, (g->batch + t.p.group - 1) / t.p.group);
    } else if (t.p.thin) {
        run_thin(&t);
    } else {
        int64_t a_id = -1, b_id = -1;
        for (t.batch = 0; t.batch < g->batch; t.batch++)
            for (t.n0 = 0; t.n0 < g->n; t.n0 += t.p.ns)
                for (t.m0 = 0; t.m0 < g->m; t.m0 += t.p.ms) {
                    t.n = WF_MIN(t.p.ns, g->n - t.n0);
                    t.m = WF_MIN(t.p.ms, g->m - t.m0);
                    run_panels(&t, &a_id, &b_id);
                }
    }
    wf_kern_scratch_end(&scratch);
    return wf_kern_done(run);
}
