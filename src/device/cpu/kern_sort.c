/* kern_sort.c - the stable order of every line of a tensor, as indices; NaN above all.
 *
 * A line becomes words of 32 bits of key above 32 bits of index, and is sorted by radix, least digit first
 * (Knuth, The Art of Computer Programming 3, section 5.2.5); digits that are the same everywhere are passed over.
 * 64-bit keys are sorted by their low half, then by their high half. One long line is first dealt out by its top digit,
 * piece by piece, into buckets that a cache holds; these are then sorted apart. A stable order is unique, so the bits do not
 * depend on threads.
 */
#include "kern.h"

#include "line_ops.h"

enum {
    BITS = 11,
    BINS = 1 << BITS,
    DIGITS = 3,        /* of 32 bits */
    SMALL = 48,        /* sorted by insertion */
    SHORT = 8192,      /* below, digits of SHORT_BITS: sums over the bins would take longer than the passes they save */
    SHORT_BITS = 8,
    LONG = 131072,
    PIECES = 16,
    TOP = 64 - BITS,   /* the top digit's place in a word */
    BUCKET_PARTS = 64
};

typedef struct job {
    const wf_cpu_run *run;
    wf_kern_lines l;
    bool wide_keys;
    uint64_t *from, *to;     /* a line's words; of a worker, where lines are shared out */
    char *scratch;
    size_t worker_bytes;
    /* a long line: the pass that runs now */
    int64_t x, out;
    bool high;
    uint32_t *bins;          /* [PIECES, BINS] of the top digit: counts, then where the next word of each goes */
} job;

static uint64_t key64(const job *j, int64_t at)
{
    const uint64_t k = wf_kern_key(j->l.x, j->l.dtype, at);
    return j->l.kind ? ~k : k;
}

static inline uint32_t float_key(float v)
{
    uint32_t u;
    v += 0.0f; /* -0 to +0 */
    memcpy(&u, &v, 4);
    const uint32_t key = u ^ ((uint32_t)-(int32_t)(u >> 31) | 0x80000000u);
    return v != v ? UINT32_MAX : key;
}

/* The key of a dtype of up to 32 bits, in 32 bits. */
static uint32_t key32(const job *j, int64_t at)
{
    const void *x = j->l.x;
    uint32_t u;
    switch (j->l.dtype) {
    case WEFT_DTYPE_I32: u = ((const uint32_t *)x)[at] ^ 0x80000000u; break;
    case WEFT_DTYPE_U32: u = ((const uint32_t *)x)[at]; break;
    case WEFT_DTYPE_I8: u = (uint32_t)(((const int8_t *)x)[at] + 128); break;
    case WEFT_DTYPE_U8:
    case WEFT_DTYPE_BOOL: u = ((const uint8_t *)x)[at]; break;
    default: u = float_key(wf_kern_load(x, j->l.dtype, at)); break;
    }
    return j->l.kind ? ~u : u;
}

static uint64_t word_of(const job *j, int64_t x, int64_t i, bool high)
{
    const int64_t at = x + i * j->l.x_step;
    const uint32_t key = !j->wide_keys ? key32(j, at) : high ? (uint32_t)(key64(j, at) >> 32) : (uint32_t)key64(j, at);
    return (uint64_t)key << 32 | (uint32_t)i;
}

/* Words first .. end-1 of the line at x, in order. The usual dtype has a loop without a switch in it. */
static void load_words(const job *j, int64_t x, int64_t first, int64_t end, uint64_t *w)
{
    const uint32_t flip = j->l.kind ? UINT32_MAX : 0;
    const float *v = (const float *)j->l.x + x;
    if (j->l.dtype != WEFT_DTYPE_F32) {
        for (int64_t i = first; i < end; i++)
            w[i] = word_of(j, x, i, false);
        return;
    }
    for (int64_t i = first; i < end; i++)
        w[i] = (uint64_t)(float_key(v[i * j->l.x_step]) ^ flip) << 32 | (uint32_t)i;
}

/* ---- one line on one thread ---- */

static void insert_sort(uint64_t *w, int64_t n)
{
    for (int64_t i = 1; i < n; i++) { /* words differ by their index, so this is stable */
        const uint64_t e = w[i];
        int64_t k = i;
        for (; k > 0 && w[k - 1] > e; k--)
            w[k] = w[k - 1];
        w[k] = e;
    }
}

/* Sorted by `digits` digits of `bits` bits from bit `low` on, stable; returns which of the two holds the result. */
static inline uint64_t *radix(uint64_t *from, uint64_t *to, int64_t n, int low, int bits, int digits)
{
    uint32_t bins[DIGITS * BINS];
    const uint32_t mask = (1u << bits) - 1;
    memset(bins, 0, ((size_t)digits << bits) * sizeof *bins);
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < digits; d++)
            bins[((uint32_t)d << bits) + ((uint32_t)(from[i] >> (low + d * bits)) & mask)]++;
    for (int d = 0; d < digits; d++) {
        const int shift = low + d * bits;
        uint32_t *b = bins + ((size_t)d << bits), at = 0;
        if (b[(uint32_t)(from[0] >> shift) & mask] == (uint32_t)n)
            continue;
        for (uint32_t k = 0; k <= mask; k++) {
            const uint32_t count = b[k];
            b[k] = at;
            at += count;
        }
        for (int64_t i = 0; i < n; i++)
            to[b[(uint32_t)(from[i] >> shift) & mask]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

/* By the lowest `width` bits of the keys; above them all keys are the same. */
static uint64_t *sort_words(uint64_t *from, uint64_t *to, int64_t n, int width, bool by_index)
{
    if (n <= SMALL && by_index) {
        insert_sort(from, n);
        return from;
    }
    if (n < SHORT) /* numbers known to the compiler: shifts and masks of each digit are constants */
        return radix(from, to, n, 32, SHORT_BITS, (width + SHORT_BITS - 1) / SHORT_BITS);
    return radix(from, to, n, 32, BITS, (width + BITS - 1) / BITS);
}

static void sort_line(const job *j, int64_t line, uint64_t *a, uint64_t *b)
{
    int64_t x, out;
    const int64_t n = j->l.n;
    wf_kern_line_at(&j->l, line, &x, &out);
    load_words(j, x, 0, n, a);
    uint64_t *w = sort_words(a, b, n, 32, true);
    if (j->wide_keys) {
        for (int64_t i = 0; i < n; i++)
            w[i] = word_of(j, x, (int64_t)(uint32_t)w[i], true);
        w = sort_words(w, w == a ? b : a, n, 32, false);
    }
    int32_t *to = (int32_t *)j->l.out + out;
    for (int64_t i = 0; i < n; i++)
        to[i * j->l.out_step] = (int32_t)(uint32_t)w[i];
}

static void lines_part(void *user, int64_t index, int64_t count, int worker)
{
    const job *j = user;
    uint64_t *a = (uint64_t *)(j->scratch + (size_t)worker * j->worker_bytes);
    const int64_t end = j->l.lines * (index + 1) / count;
    for (int64_t line = j->l.lines * index / count; line < end && !wf_kern_cancelled(j->run); line++)
        sort_line(j, line, a, a + j->l.n);
}

/* ---- one long line on all threads ---- */

static int64_t piece_begin(const job *j, int64_t piece) { return j->l.n * piece / PIECES; }

static void load_part(void *user, int64_t piece, int64_t count, int worker)
{
    (void)count, (void)worker;
    const job *j = user;
    uint32_t *b = j->bins + piece * BINS;
    const int64_t first = piece_begin(j, piece), end = piece_begin(j, piece + 1);
    memset(b, 0, BINS * sizeof *b);
    if (!j->high)
        load_words(j, j->x, first, end, j->from);
    for (int64_t i = first; i < end; i++) {
        if (j->high)
            j->from[i] = word_of(j, j->x, (int64_t)(uint32_t)j->from[i], true);
        b[j->from[i] >> TOP]++;
    }
}

static void deal_part(void *user, int64_t piece, int64_t count, int worker)
{
    (void)count, (void)worker;
    const job *j = user;
    uint32_t *b = j->bins + piece * BINS;
    for (int64_t i = piece_begin(j, piece); i < piece_begin(j, piece + 1); i++)
        j->to[b[j->from[i] >> TOP]++] = j->from[i];
}

/* A bucket ends where its last piece has dealt to. */
static int64_t bucket_end(const job *j, int64_t bucket) { return bucket < 0 ? 0 : j->bins[(PIECES - 1) * BINS + bucket]; }

static void bucket_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)worker;
    const job *j = user;
    for (int64_t k = BINS * index / count; k < BINS * (index + 1) / count && !wf_kern_cancelled(j->run); k++) {
        const int64_t first = bucket_end(j, k - 1), n = bucket_end(j, k) - first;
        if (n < 2)
            continue;
        const uint64_t *sorted = sort_words(j->to + first, j->from + first, n, 32 - BITS, !j->high);
        if (sorted != j->to + first)
            memcpy(j->to + first, sorted, (size_t)n * sizeof *sorted);
    }
}

static void store_part(void *user, int64_t piece, int64_t count, int worker)
{
    (void)count, (void)worker;
    const job *j = user;
    int32_t *to = (int32_t *)j->l.out + j->out;
    for (int64_t i = piece_begin(j, piece); i < piece_begin(j, piece + 1); i++)
        to[i * j->l.out_step] = (int32_t)(uint32_t)j->from[i];
}

/* From counts to where each piece deals its words: bucket by bucket, in a bucket piece by piece. */
static void place_pieces(const job *j)
{
    uint32_t at = 0;
    for (int k = 0; k < BINS; k++)
        for (int p = 0; p < PIECES; p++) {
            const uint32_t n = j->bins[p * BINS + k];
            j->bins[p * BINS + k] = at;
            at += n;
        }
}

static void sort_long(job *j, int64_t line)
{
    wf_kern_line_at(&j->l, line, &j->x, &j->out);
    for (int half = 0; half < (j->wide_keys ? 2 : 1); half++) {
        j->high = half == 1;
        wf_pool_run(j->run->pool, load_part, j, PIECES);
        place_pieces(j);
        wf_pool_run(j->run->pool, deal_part, j, PIECES);
        wf_pool_run(j->run->pool, bucket_part, j, BUCKET_PARTS);
        uint64_t *swap = j->from;
        j->from = j->to;
        j->to = swap;
    }
    wf_pool_run(j->run->pool, store_part, j, PIECES);
}

/* ---- entry ---- */

static bool is_long(int64_t n) { return n >= LONG; }

size_t wf_kern_sort_scratch(int64_t lines, int64_t n, int n_threads)
{
    if (lines <= 0 || n <= 0)
        return 0;
    const size_t line = 2 * (size_t)n * sizeof(uint64_t);
    return is_long(n) ? line + PIECES * BINS * sizeof(uint32_t) : line * (size_t)n_threads;
}

weft_status wf_kern_sort(const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    job j = {.run = run};
    if (epilogue)
        return wf_kern_bad("sort", "takes no epilogue");
    WF_TRY(wf_kern_lines_read("sort", run, &j.l));
    const bool values = (j.l.kind & WF_SORT_VALUES) != 0;
    if (!values && j.l.out_dtype != WEFT_DTYPE_I32)
        return wf_kern_bad("sort", "dtype of the result");
    j.wide_keys = j.l.dtype == WEFT_DTYPE_F64 || j.l.dtype == WEFT_DTYPE_I64;
    const bool has_scratch = (run->statics[27] & WF_KERN_HAS_SCRATCH) != 0;
    const int64_t n = j.l.n;
    wf_kern_scratch scratch;
    WF_TRY(wf_kern_scratch_get(run, has_scratch ? 2 : -1, wf_kern_sort_scratch(j.l.lines, n, wf_pool_size(run->pool)), &scratch));
    j.scratch = scratch.ptr;
    if (values) {
        const weft_status st = wf_kern_sort_values(run, &j.l, j.scratch);
        wf_kern_scratch_end(&scratch);
        return st == WEFT_OK ? wf_kern_done(run) : st;
    }
    if (is_long(n)) {
        for (int64_t line = 0; line < j.l.lines && !wf_kern_cancelled(run); line++) {
            j.from = (uint64_t *)(void *)j.scratch;
            j.to = j.from + n;
            j.bins = (uint32_t *)(void *)(j.to + n);
            sort_long(&j, line);
        }
    } else {
        j.worker_bytes = 2 * (size_t)n * sizeof(uint64_t);
        wf_pool_run(run->pool, lines_part, &j, WF_MIN(j.l.lines, WF_MAX(1, j.l.lines * n / 4096)));
    }
    wf_kern_scratch_end(&scratch);
    return wf_kern_done(run);
}
