/* kern_topk.c - indices of the k largest along a row: descending, equal values by lower index, NaN first.
 *
 * Every value becomes an integer key in that order; a row's k best are kept in a heap whose root is the
 * worst of them, so most elements cost one comparison. Long rows are cut into pieces of PIECE elements.
 */
#include "kern.h"

enum { PIECE = 16384 };

typedef struct entry {
    uint64_t key;   /* larger is better */
    int64_t index;  /* smaller is better */
} entry;

typedef struct topk_job {
    const wf_cpu_run *run;
    const void *x;
    weft_dtype dtype;
    int64_t rows, n, k, at, stride, extents[3], strides[3];
    int64_t pieces, keep; /* of a row; entries a piece keeps */
    entry *heaps;         /* [rows in flight * pieces, keep] */
    int64_t row0;
    int32_t *out;
} topk_job;

static uint64_t key_of(const topk_job *j, int64_t i) { return wf_kern_key(j->x, j->dtype, i); }
static bool better(const entry *a, const entry *b) { return a->key != b->key ? a->key > b->key : a->index < b->index; }

/* Root: the worst. */
static void sift_down(entry *h, int64_t n, int64_t i)
{
    const entry e = h[i];
    for (int64_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && better(&h[c], &h[c + 1]))
            c++;
        if (!better(&e, &h[c]))
            break;
        h[i] = h[c];
    }
    h[i] = e;
}
static int64_t offer(entry *h, int64_t n, int64_t keep, entry e)
{
    if (n < keep) {
        h[n++] = e;
        if (n == keep)
            for (int64_t i = n / 2 - 1; i >= 0; i--)
                sift_down(h, n, i);
        return n;
    }
    if (better(&e, &h[0])) {
        h[0] = e;
        sift_down(h, n, 0);
    }
    return n;
}
/* Best first. The heap may be unfinished (fewer than keep offered). */
static void sort_heap(entry *h, int64_t n)
{
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sift_down(h, n, i);
    for (int64_t i = n - 1; i > 0; i--) {
        const entry worst = h[0];
        h[0] = h[i];
        h[i] = worst;
        sift_down(h, i, 0);
    }
}

static int64_t row_at(const topk_job *j, int64_t row)
{
    int64_t at = j->at;
    for (int i = 2; i >= 0; i--) {
        at += row % j->extents[i] * j->strides[i];
        row /= j->extents[i];
    }
    return at;
}

static void piece_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count, (void)worker;
    const topk_job *j = user;
    if (wf_kern_cancelled(j->run))
        return;
    const int64_t row = j->row0 + index / j->pieces, at = row_at(j, row);
    const int64_t first = index % j->pieces * PIECE, end = j->pieces == 1 ? j->n : WF_MIN(first + PIECE, j->n);
    entry *heap = j->heaps + index * j->keep;
    int64_t n = 0;
    for (int64_t i = first; i < end; i++)
        n = offer(heap, n, WF_MIN(j->keep, end - first), (entry){key_of(j, at + i * j->stride), i});
    if (j->pieces > 1) {
        /* An empty place is worse than any entry. */
        for (; n < j->keep; n++)
            heap[n] = (entry){0, INT64_MAX};
        return;
    }
    sort_heap(heap, n);
    for (int64_t i = 0; i < j->k; i++)
        j->out[row * j->k + i] = (int32_t)heap[i].index;
}

static void merge_row(const topk_job *j, int64_t row, entry *heaps)
{
    int64_t n = j->keep;
    entry *heap = heaps; /* the first piece's entries are the start */
    sort_heap(heap, n);
    for (int64_t i = 0; i < n / 2; i++) { /* best first, to worst first, which is a heap */
        const entry e = heap[i];
        heap[i] = heap[n - 1 - i];
        heap[n - 1 - i] = e;
    }
    for (int64_t i = j->keep; i < j->pieces * j->keep; i++)
        n = offer(heap, n, j->keep, heaps[i]);
    sort_heap(heap, n);
    for (int64_t i = 0; i < j->k; i++)
        j->out[row * j->k + i] = (int32_t)heap[i].index;
}

static bool is_cut(int64_t n, int64_t k) { return n >= 2 * PIECE && k <= PIECE / 16; }
#define ROWS_IN_FLIGHT 64

size_t wf_kern_topk_scratch(int64_t rows, int64_t n, int64_t k)
{
    const int64_t pieces = is_cut(n, k) ? (n + PIECE - 1) / PIECE : 1;
    return rows <= 0 || k <= 0 ? 0 : (size_t)(WF_MIN(rows, ROWS_IN_FLIGHT) * pieces * k) * sizeof(entry);
}

weft_status wf_kern_topk(const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    const int32_t *w = run->statics;
    if (epilogue)
        return wf_kern_bad("topk", "takes no epilogue");
    topk_job j = {.run = run, .x = run->ptr[0], .dtype = wf_kern_dtype(w[11], 0), .rows = w[0], .n = w[1], .k = w[2], .at = w[3],
                  .stride = w[10], .out = run->ptr[1]};
    const bool has_scratch = (w[11] & WF_KERN_HAS_SCRATCH) != 0;
    WF_TRY(wf_kern_binds("topk", run, 2 + has_scratch));
    for (int i = 0; i < 3; i++) {
        j.extents[i] = w[4 + i];
        j.strides[i] = w[7 + i];
    }
    if (j.rows < 0 || j.n < 0 || j.k < 0 || j.k > j.n || j.rows != j.extents[0] * j.extents[1] * j.extents[2] ||
        j.dtype > WEFT_DTYPE_BOOL)
        return wf_kern_bad("topk", "extents or dtype");
    if (j.rows == 0 || j.k == 0)
        return WEFT_OK;
    const int64_t ext[4] = {j.extents[0], j.extents[1], j.extents[2], j.n}, str[4] = {j.strides[0], j.strides[1], j.strides[2], j.stride};
    if (!wf_kern_in_range(run->size[0], weft_dtype_block_bytes(j.dtype), j.at, 4, ext, str) ||
        (uint64_t)(j.rows * j.k) > run->size[1] / 4)
        return wf_kern_bad("topk", "an operand leaves its binding");
    j.pieces = is_cut(j.n, j.k) ? (j.n + PIECE - 1) / PIECE : 1;
    j.keep = j.k;
    wf_kern_scratch scratch;
    WF_TRY(wf_kern_scratch_get(run, has_scratch ? 2 : -1, wf_kern_topk_scratch(j.rows, j.n, j.k), &scratch));
    j.heaps = (entry *)scratch.ptr;
    for (j.row0 = 0; j.row0 < j.rows && !wf_kern_cancelled(run); j.row0 += ROWS_IN_FLIGHT) {
        const int64_t rows = WF_MIN(ROWS_IN_FLIGHT, j.rows - j.row0);
        wf_pool_run(run->pool, piece_part, &j, rows * j.pieces);
        for (int64_t r = 0; j.pieces > 1 && r < rows; r++)
            merge_row(&j, j.row0 + r, j.heaps + r * j.pieces * j.keep);
    }
    wf_kern_scratch_end(&scratch);
    return wf_kern_done(run);
}
