/* kir_exec.c - the loops of the block interpreter and its use of threads. Read kir_exec.h first.
 *
 * Outer tiles are independent: they are shared out in contiguous ranges. With few of them and long rows,
 * each row's tiles are cut into chunks instead, a number that depends on sizes only; the chunks' states
 * are combined in order.
 */
#include "kir_exec.h"

enum {
    SERIAL_WORK = 32768,   /* instructions x elements below which threads cost more than they give */
    PARTS_PER_THREAD = 4,
    STACK_BYTES = 16384,   /* work space up to this lies on the stack */
    CANCEL_EVERY = 64,     /* tiles between looks at the cancel flag */
    LIST_ROWS = 16         /* rows of a part from which lists are kept from row to row */
};

/* ---- walking tiles ---- */

static void seek(kx_ctx *c, const kx_space *s, int64_t tile)
{
    for (int d = s->n - 1; d >= 0; d--) {
        c->coord[s->axis[d]] = tile % s->count[d] * s->step[d];
        tile /= s->count[d];
    }
}

static void advance(kx_ctx *c, const kx_space *s)
{
    for (int d = s->n - 1; d >= 0; d--) {
        int a = s->axis[d];
        c->coord[a] += s->step[d];
        if (c->coord[a] < c->x->extent[a])
            return;
        c->coord[a] = 0;
    }
}

static void reset_inner(kx_ctx *c)
{
    for (int a = c->x->k->n_outer; a < c->x->n_axes; a++)
        c->coord[a] = 0;
    wf_kx_dims(c);
}

static bool cancelled(const kx_run *x)
{
    return x->run->cancel && atomic_load_explicit(x->run->cancel, memory_order_relaxed);
}

static void start(kx_ctx *c, const kx_run *x, char *ws)
{
    c->x = x;
    c->ws = ws;
    c->stores = true;
    c->kept = true;
    c->in = NULL;
    c->lists = NULL;
    memset(c->coord, 0, sizeof c->coord);
    wf_kx_dims(c);
    for (int s = 0; s < x->k->n_stages; s++)
        wf_kx_steps(c, s, 0);
}

/* Streamed stores become visible to other threads in order only after a fence. */
static void finish(const kx_run *x)
{
#if defined(__x86_64__)
    if (x->past_caches)
        __builtin_ia32_sfence();
#else
    (void)x;
#endif
}

/* Tiles along one axis from c->coord to `end`; `tile` is the number of the first. */
static void run_along(kx_ctx *c, int stage, int axis, int64_t step, int64_t end, int64_t tile)
{
    const kx_run *x = c->x;
    uint8_t kind = x->k->stages[stage].kind;
    wf_kx_dims(c);
    if (x->walk[stage] && (c->kept || !x->n_keep) && wf_kx_walk(c, stage, axis, step, end, tile))
        return;
    c->kept = false; /* steps keep nothing, so later stages of this row cannot use what was kept */
    for (int64_t at = axis < 0 ? 0 : c->coord[axis]; at < end; at += step) {
        if (axis >= 0)
            c->coord[axis] = at;
        wf_kx_dims(c);
        wf_kx_steps(c, stage, kind == WF_KSTAGE_OUTER ? 1 : 2);
        if (kind == WF_KSTAGE_REDUCE)
            wf_kx_acc_fold(c, stage);
    }
}

/* Inner tiles first .. end-1 of a REDUCE or MAP stage. */
static void walk_inner(kx_ctx *c, int stage, int64_t first, int64_t end)
{
    const kx_run *x = c->x;
    const kx_space *s = &x->inner;
    if (first >= end)
        return;
    seek(c, s, first);
    for (int64_t t = first, n; t < end && !cancelled(x); t += n) {
        if (s->n == 0) {
            run_along(c, stage, -1, 1, 1, t);
            break;
        }
        int d = s->n - 1, a = s->axis[d];
        int64_t index = c->coord[a] / s->step[d];
        n = WF_MIN(end - t, s->count[d] - index);
        run_along(c, stage, a, s->step[d], WF_MIN((index + n) * s->step[d], x->extent[a]), t);
        c->coord[a] = (index + n - 1) * s->step[d];
        advance(c, s);
    }
    reset_inner(c);
}

/* The stages of the outer tile at c->coord: `row` of `rows` that are like it and keep their lists, 0 of 0 for a tile of its
 * own. False: its lists cannot be kept. */
static bool run_stages(kx_ctx *c, int64_t row, int64_t rows)
{
    const kx_run *x = c->x;
    bool lists = rows > 0;
    c->kept = true;
    for (int s = 0; s < x->k->n_stages; s++) {
        uint8_t kind = x->k->stages[s].kind;
        wf_kx_steps(c, s, 1);
        if (kind == WF_KSTAGE_OUTER)
            continue;
        if (kind == WF_KSTAGE_REDUCE)
            wf_kx_acc_start(c, s);
        if (row > 0) {
            wf_kx_rows_next(c, s, row == rows - 1);
        } else if (!lists || !c->kept || !wf_kx_rows_start(c, s, rows)) {
            lists = false;
            walk_inner(c, s, 0, x->inner.total);
        }
        if (kind == WF_KSTAGE_REDUCE)
            wf_kx_acc_finish(c, s);
    }
    return lists;
}

static void run_outer_tile(kx_ctx *c)
{
    const kx_run *x = c->x;
    if (x->walk_cols) {
        c->kept = true;
        int64_t at = c->coord[x->q];
        run_along(c, 0, x->q, x->tile_cols, WF_MIN(at + x->walk_cols, x->extent[x->q]), 0);
        c->coord[x->q] = at;
        return;
    }
    run_stages(c, 0, 0);
}

/* Outer tiles at c->coord and behind it along the last outer axis, at most `most`; returns how many. */
static int64_t run_rows(kx_ctx *c, int64_t most)
{
    const kx_run *x = c->x;
    int axis = x->outer.axis[x->outer.n - 1];
    int64_t step = x->outer.step[x->outer.n - 1];
    int64_t rows = WF_MIN(most, (x->extent[axis] - c->coord[axis] + step - 1) / step);
    for (int64_t r = 0; r < rows; r++) {
        wf_kx_dims(c);
        bool again = run_stages(c, r, rows) && (r > 0 || wf_kx_rows_replay(c));
        advance(c, &x->outer);
        if (!again)
            return r + 1;
    }
    return rows;
}

static void run_outer_range(const kx_run *x, char *ws, int64_t first, int64_t end)
{
    kx_ctx c;
    start(&c, x, ws);
    seek(&c, &x->outer, first);
    if (x->lists_at)
        c.lists = (kx_walk *)(void *)(ws + x->lists_at);
    for (int64_t t = first; t < end;) {
        if (cancelled(x))
            break;
        if (c.lists) {
            t += run_rows(&c, WF_MIN(end - t, CANCEL_EVERY));
            continue;
        }
        for (int64_t stop = WF_MIN(end, t + CANCEL_EVERY); t < stop; t++) {
            wf_kx_dims(&c);
            run_outer_tile(&c);
            advance(&c, &x->outer);
        }
    }
    finish(x);
}

/* ---- threads over outer tiles ---- */

typedef struct job {
    const kx_run *x;
    char *ws; /* ws_bytes for each worker */
    /* chunks: */
    int64_t outer_tile, n_chunks;
    int stage;
    char *states;       /* n_chunks states of the stage that runs */
    size_t state_bytes;
    const char *results; /* accumulators of stages that are done: the main thread's block */
} job;

static void outer_task(void *user, int64_t index, int64_t count, int worker)
{
    const job *j = user;
    int64_t n = j->x->outer.total;
    run_outer_range(j->x, j->ws + (size_t)worker * j->x->ws_bytes, n / count * index + WF_MIN(index, n % count),
                    n / count * (index + 1) + WF_MIN(index + 1, n % count));
}

/* ---- threads over the chunks of a row ---- */

static char *acc_block(const kx_run *x, char *ws)
{
    return ws + (size_t)(x->kernel->n_slots + KX_TEMPS) * x->slot_bytes;
}

static void chunk_task(void *user, int64_t index, int64_t count, int worker)
{
    const job *j = user;
    const kx_run *x = j->x;
    char *ws = j->ws + (size_t)(worker + 1) * x->ws_bytes; /* 0 is the main thread's own */
    kx_ctx c;
    if (j->stage > 0)
        memcpy(acc_block(x, ws), j->results, (size_t)x->kernel->n_accs * 3 * x->acc_bytes);
    start(&c, x, ws);
    seek(&c, &x->outer, j->outer_tile);
    wf_kx_dims(&c);
    c.stores = false; /* the main thread stores what OUTER stages store */
    for (int s = 0; s < j->stage; s++)
        if (x->k->stages[s].kind == WF_KSTAGE_OUTER)
            wf_kx_steps(&c, s, 1);
    c.stores = true;
    bool fold = x->k->stages[j->stage].kind == WF_KSTAGE_REDUCE;
    c.kept = true;
    wf_kx_steps(&c, j->stage, 1);
    if (fold)
        wf_kx_acc_start(&c, j->stage);
    int64_t n = x->inner.total;
    walk_inner(&c, j->stage, n / count * index + WF_MIN(index, n % count), n / count * (index + 1) + WF_MIN(index + 1, n % count));
    if (fold) {
        wf_kx_acc_finish(&c, j->stage); /* flushes */
        size_t bytes;
        memcpy(j->states + (size_t)index * j->state_bytes, wf_kx_acc_state(&c, j->stage, &bytes), j->state_bytes);
    }
    finish(x);
}

static void run_chunked_tile(kx_ctx *c, job *j, wf_pool *pool)
{
    const kx_run *x = c->x;
    for (int s = 0; s < x->k->n_stages && !cancelled(x); s++) {
        uint8_t kind = x->k->stages[s].kind;
        wf_kx_steps(c, s, 1);
        if (kind == WF_KSTAGE_OUTER)
            continue;
        j->stage = s;
        wf_kx_acc_state(c, s, &j->state_bytes);
        wf_pool_run(pool, chunk_task, j, j->n_chunks);
        if (kind != WF_KSTAGE_REDUCE)
            continue;
        wf_kx_acc_start(c, s);
        for (int64_t i = 0; i < j->n_chunks; i++)
            wf_kx_acc_combine(c, s, j->states + (size_t)i * j->state_bytes);
        wf_kx_acc_finish(c, s);
    }
}

static weft_status run_chunked(const kx_run *x, int64_t n_chunks)
{
    int workers = wf_pool_size(x->run->pool);
    size_t state_bytes = (size_t)x->kernel->n_accs * 2 * x->acc_bytes;
    char *ws = wf_alloc((size_t)(workers + 1) * x->ws_bytes), *states = wf_alloc((size_t)n_chunks * state_bytes);
    if (!ws || !states) {
        wf_free(ws);
        wf_free(states);
        return WEFT_E_OOM;
    }
    kx_ctx c;
    start(&c, x, ws);
    job j = {.x = x, .ws = ws, .n_chunks = n_chunks, .states = states, .results = acc_block(x, ws)};
    for (int64_t t = 0; t < x->outer.total && !cancelled(x); t++) {
        seek(&c, &x->outer, t);
        wf_kx_dims(&c);
        j.outer_tile = t;
        run_chunked_tile(&c, &j, x->run->pool);
    }
    wf_free(ws);
    wf_free(states);
    return WEFT_OK;
}

/* ---- entry points ---- */

weft_status wf_cpu_kernel_run(const wf_cpu_kernel *kernel, const wf_cpu_run *run)
{
    kx_run x;
    wf_kx_bind(&x, kernel, run);
    if (x.outer.total == 0)
        return WEFT_OK;
    int workers = run->pool ? wf_pool_size(run->pool) : 1;
    bool serial = workers == 1 || x.points < SERIAL_WORK / WF_MAX(kernel->k->n_instr, 1);
    if (x.chunks && run->pool) {
        WF_TRY(run_chunked(&x, x.chunks));
    } else {
        job j = {.x = &x};
        int64_t parts = serial ? 1 : WF_MIN(x.outer.total, (int64_t)workers * PARTS_PER_THREAD);
        if (x.outer.total >= parts * LIST_ROWS)
            wf_kx_rows_place(&x);
        size_t bytes = parts == 1 ? x.ws_bytes : (size_t)workers * x.ws_bytes;
        _Alignas(64) char small[STACK_BYTES];
        j.ws = bytes <= sizeof small ? small : wf_alloc(bytes);
        if (!j.ws)
            return WEFT_E_OOM;
        if (parts == 1)
            run_outer_range(&x, j.ws, 0, x.outer.total);
        else
            wf_pool_run(run->pool, outer_task, &j, parts);
        if (j.ws != small)
            wf_free(j.ws);
    }
    if (cancelled(&x))
        return wf_fail(WEFT_E_CANCELLED, "cancelled");
    return WEFT_OK;
}

/* ---- epilogues of named kernels ---- */

/* Elements of a block whose work space fits the stack below: epilogues allocate nothing and cannot fail. */
enum { EPILOGUE_STACK = 65536 };

static int64_t epilogue_block(const wf_cpu_kernel *e)
{
    int64_t bytes = EPILOGUE_STACK / (e->n_slots + KX_TEMPS) / 64 * 64; /* of a slot, whose size is rounded up so */
    if (bytes >= KX_PAGE)
        bytes -= KX_PAGE_PAD; /* a slot of whole pages is longer; smaller tiles than this block may have one */
    return WF_MAX(WF_MIN(bytes / e->slot_esize / 16 * 16, KX_BLOCK), 8); /* the cap on instructions leaves at least 8 */
}

void wf_cpu_epilogue_run(const wf_cpu_kernel *epilogue, const wf_cpu_run *run, uint32_t bind_base, uint32_t static_base,
                         const float *acc, int64_t ld, int64_t b, int64_t m0, int64_t rows, int64_t n0, int64_t cols)
{
    if (rows <= 0 || cols <= 0)
        return;
    int64_t block = epilogue_block(epilogue);
    int64_t block_cols = WF_MIN(cols, block), block_rows = WF_MIN(rows, WF_MAX(block / block_cols, 1));
    _Alignas(64) char ws[EPILOGUE_STACK];
    kx_run x;
    kx_ctx c;
    wf_kx_bind_tile(&x, epilogue, run, bind_base, static_base, block_rows, block_cols);
    c.x = &x;
    c.ws = ws;
    c.stores = true;
    c.in_ld = ld;
    memset(c.coord, 0, sizeof c.coord);
    c.coord[0] = b;
    c.n[KX_S] = 1;
    for (int64_t m = 0; m < rows; m += block_rows)
        for (int64_t n = 0; n < cols; n += block_cols) {
            c.in = acc + m * ld + n;
            c.coord[1] = m0 + m;
            c.coord[2] = n0 + n;
            c.n[KX_P] = c.rows = WF_MIN(block_rows, rows - m);
            c.n[KX_Q] = c.cols = WF_MIN(block_cols, cols - n);
            c.n[KX_F] = c.rows * c.cols;
            wf_kx_steps(&c, 0, 0);
            wf_kx_steps(&c, 0, 1);
        }
}
