/* kern_sort_values.c - the sorted values of every line of a tensor of 32-bit elements, where nobody asks for their order.
 *
 * Keys alone are sorted, half of what key and index are (kern_sort.c), and values are made from them: a key says every bit of its
 * element but that of a NaN. What the stable order leaves as it stood, NaNs among each other and -0 among 0, is put in from
 * the line afterwards, so the result has the bits of picking by the order. Radix passes, least digit first; a long line is
 * dealt out by the top digit first, as in kern_sort.c.
 */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#pragma GCC optimize("O3") /* keys and values in vectors, the digits of a pass unrolled */
#endif

#include "kern.h"

enum {
    BITS = 11,
    BINS = 1 << BITS,
    DIGITS = 4,        /* at most, of SHORT_BITS */
    SMALL = 48,        /* sorted by insertion */
    SHORT = 8192,      /* below, digits of SHORT_BITS */
    SHORT_BITS = 8,
    SETTLE_MOVES = 8,  /* of insertion, for each key */
    LONG = 131072,
    PIECES = 16,
    TOP = 32 - BITS,
    BUCKET_PARTS = 64
};
_Static_assert(PIECES * BINS <= 2 * LONG, "room for ends behind the keys");
_Static_assert(DIGITS << SHORT_BITS <= 3 << BITS, "room for the bins of both");

typedef struct job {
    const wf_cpu_run *run;
    const wf_kern_lines *l;
    uint32_t flip; /* of every key: all bits where lines descend */
    uint32_t *from, *to;
    char *scratch;
    size_t worker_bytes;
    /* a long line: */
    int64_t x, out;
    uint32_t *bins;        /* [PIECES, BINS] of the top digit: counts, then where the next key of each goes */
    uint32_t *ends;        /* [PIECES, BINS], and what the last goes before */
    uint32_t odd[PIECES];  /* elements whose key does not say where they stood */
} job;

/* ---- keys ---- */

#define SIGN 0x80000000u

/* NaN above all; -0 below 0 for now. */
static inline uint32_t key_of_f32(uint32_t u)
{
    const uint32_t key = u ^ ((uint32_t)-(int32_t)(u >> 31) | SIGN);
    return (u & ~SIGN) > 0x7f800000u ? UINT32_MAX : key;
}
static inline uint32_t f32_of_key(uint32_t k) { return k & SIGN ? k ^ SIGN : ~k; }

/* What is added to an integer to make its key. */
static uint32_t shift_of(weft_dtype t) { return t == WEFT_DTYPE_I32 ? SIGN : 0; }

/* Keys first .. end-1 of the line at x; returns how many are of NaN or -0. */
static uint32_t load_keys(const job *j, int64_t x, int64_t first, int64_t end, uint32_t *keys)
{
    const int64_t step = j->l->x_step;
    const uint32_t *v = (const uint32_t *)j->l->x + x, flip = j->flip, shift = shift_of(j->l->dtype);
    uint32_t odd = 0;
    if (j->l->dtype != WEFT_DTYPE_F32) {
        for (int64_t i = first; i < end; i++)
            keys[i] = (v[i * step] ^ shift) ^ flip;
        return 0;
    }
    if (step == 1) /* a loop of vectors */
        for (int64_t i = first; i < end; i++) {
            odd += (uint32_t)(v[i] == SIGN) + (uint32_t)((v[i] & ~SIGN) > 0x7f800000u);
            keys[i] = key_of_f32(v[i]) ^ flip;
        }
    else
        for (int64_t i = first; i < end; i++) {
            const uint32_t u = v[i * step];
            odd += (uint32_t)(u == SIGN) + (uint32_t)((u & ~SIGN) > 0x7f800000u);
            keys[i] = key_of_f32(u) ^ flip;
        }
    return odd;
}

static void store_values(const job *j, int64_t out, int64_t first, int64_t end, const uint32_t *keys)
{
    const int64_t step = j->l->out_step;
    uint32_t *to = (uint32_t *)j->l->out + out;
    const uint32_t flip = j->flip, shift = shift_of(j->l->dtype);
    if (j->l->dtype != WEFT_DTYPE_F32)
        for (int64_t i = first; i < end; i++)
            to[i * step] = (keys[i] ^ flip) ^ shift;
    else if (step == 1)
        for (int64_t i = first; i < end; i++)
            to[i] = f32_of_key(keys[i] ^ flip);
    else
        for (int64_t i = first; i < end; i++)
            to[i * step] = f32_of_key(keys[i] ^ flip);
}

static int64_t count_below(const uint32_t *keys, int64_t n, uint32_t key)
{
    int64_t low = 0;
    while (n > 0) {
        const int64_t half = n / 2;
        if (keys[low + half] < key) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

/* NaNs and zeros as they stood in the line, over what was stored of them. */
static void store_odd(const job *j, int64_t x, int64_t out, const uint32_t *keys)
{
    const wf_kern_lines *l = j->l;
    const uint32_t *v = (const uint32_t *)l->x + x, lowest_zero = ~SIGN; /* the keys of -0 and 0 are ~SIGN and SIGN, flipped or not */
    uint32_t *to = (uint32_t *)l->out + out;
    int64_t zero = count_below(keys, l->n, lowest_zero), nan = count_below(keys, l->n, UINT32_MAX ^ j->flip);
    for (int64_t i = 0; i < l->n; i++) {
        const uint32_t u = v[i * l->x_step], size = u & ~SIGN;
        if (size == 0)
            to[zero++ * l->out_step] = u;
        else if (size > 0x7f800000u)
            to[nan++ * l->out_step] = u;
    }
}

/* ---- one line on one thread ---- */

/* False, and not sorted yet: more than `most` moves. */
static bool insert_sort(uint32_t *w, int64_t n, int64_t most)
{
    for (int64_t i = 1; i < n; i++) {
        const uint32_t e = w[i];
        int64_t k = i;
        for (; k > 0 && w[k - 1] > e; k--)
            w[k] = w[k - 1];
        w[k] = e;
        most -= i - k;
        if (most < 0)
            return false;
    }
    return true;
}

/* Keys first .. end-1 to their digit's places, from both ends: `at` says where the first of each goes, `ends` what the last goes
 * before. Where keys share a digit, each waits for the place that the one before wrote back; two rows of them wait half as long. */
static inline __attribute__((always_inline)) void deal(const uint32_t *from, int64_t first, int64_t end, uint32_t *to, uint32_t *at, uint32_t *ends,
                                                       int shift, uint32_t mask)
{
    for (; first < end - 1; first++) {
        const uint32_t key = from[first], last = from[--end];
        to[at[key >> shift & mask]++] = key;
        to[--ends[last >> shift & mask]] = last;
    }
    if (first < end)
        to[at[from[first] >> shift & mask]++] = from[first];
}

/* Sorted by `digits` digits of `bits` bits from bit `low` on; returns which of the two holds the result. */
static inline __attribute__((always_inline)) uint32_t *radix(uint32_t *from, uint32_t *to, int64_t n, int low, int bits, int digits)
{
    uint32_t bins[3 * BINS];
    const uint32_t mask = (1u << bits) - 1;
    memset(bins, 0, ((size_t)digits << bits) * sizeof *bins);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t key = from[i];
        for (int d = 0; d < digits; d++)
            bins[((uint32_t)d << bits) + (key >> (low + d * bits) & mask)]++;
    }
    for (int d = 0; d < digits; d++) {
        const int shift = low + d * bits;
        uint32_t *b = bins + ((size_t)d << bits), ends[BINS], at = 0;
        if (b[from[0] >> shift & mask] == (uint32_t)n)
            continue;
        for (uint32_t k = 0; k <= mask; k++) {
            const uint32_t count = b[k];
            b[k] = at;
            at += count;
            ends[k] = at;
        }
        deal(from, 0, n, to, b, ends, shift, mask);
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

/* By the highest 16 bits that differ, then by insertion, which finds few keys out of place unless many share those bits. */
static uint32_t *sort_short(uint32_t *from, uint32_t *to, int64_t n)
{
    uint32_t any = 0, all = UINT32_MAX;
    for (int64_t i = 0; i < n; i++) {
        any |= from[i];
        all &= from[i];
    }
    int width = 0;
    while (width < 32 && (any ^ all) >> width != 0)
        width++;
    const int low = WF_MAX(width - 2 * SHORT_BITS, 0);
    uint32_t *sorted = radix(from, to, n, low, SHORT_BITS, 2);
    if (low > 0 && !insert_sort(sorted, n, SETTLE_MOVES * n))
        sorted = radix(sorted, sorted == from ? to : from, n, 0, SHORT_BITS, 4);
    return sorted;
}

/* By all bits, or by those below the top digit where that is the same everywhere. Each call of radix has constant digits. */
static uint32_t *sort_keys(uint32_t *from, uint32_t *to, int64_t n, bool all)
{
    if (n <= SMALL) {
        insert_sort(from, n, INT64_MAX);
        return from;
    }
    if (n < SHORT)
        return sort_short(from, to, n);
    return all ? radix(from, to, n, 0, BITS, 3) : radix(from, to, n, 0, BITS, 2);
}

static void lines_part(void *user, int64_t index, int64_t count, int worker)
{
    const job *j = user;
    const int64_t n = j->l->n, end = j->l->lines * (index + 1) / count;
    uint32_t *a = (uint32_t *)(void *)(j->scratch + (size_t)worker * j->worker_bytes);
    for (int64_t line = j->l->lines * index / count; line < end && !wf_kern_cancelled(j->run); line++) {
        int64_t x, out;
        wf_kern_line_at(j->l, line, &x, &out);
        const uint32_t odd = load_keys(j, x, 0, n, a);
        const uint32_t *sorted = sort_keys(a, a + n, n, true);
        store_values(j, out, 0, n, sorted);
        if (odd)
            store_odd(j, x, out, sorted);
    }
}

/* ---- one long line on all threads ---- */

static int64_t piece_begin(const job *j, int64_t piece) { return j->l->n * piece / PIECES; }

static void load_part(void *user, int64_t piece, int64_t count, int worker)
{
    (void)count, (void)worker;
    job *j = user;
    uint32_t *b = j->bins + piece * BINS;
    const int64_t first = piece_begin(j, piece), end = piece_begin(j, piece + 1);
    memset(b, 0, BINS * sizeof *b);
    j->odd[piece] = load_keys(j, j->x, first, end, j->from);
    for (int64_t i = first; i < end; i++)
        b[j->from[i] >> TOP]++;
}

static void deal_part(void *user, int64_t piece, int64_t count, int worker)
{
    (void)count, (void)worker;
    const job *j = user;
    uint32_t ends[BINS];
    memcpy(ends, j->ends + piece * BINS, sizeof ends);
    deal(j->from, piece_begin(j, piece), piece_begin(j, piece + 1), j->to, j->bins + piece * BINS, ends, TOP, BINS - 1);
}

/* A bucket ends where its last piece does. */
static int64_t bucket_end(const job *j, int64_t bucket) { return bucket < 0 ? 0 : j->ends[(PIECES - 1) * BINS + bucket]; }

static void bucket_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)worker;
    const job *j = user;
    for (int64_t k = BINS * index / count; k < BINS * (index + 1) / count && !wf_kern_cancelled(j->run); k++) {
        const int64_t first = bucket_end(j, k - 1), n = bucket_end(j, k) - first;
        if (n == 0)
            continue;
        const uint32_t *sorted = sort_keys(j->to + first, j->from + first, n, false);
        if (sorted != j->to + first)
            memcpy(j->to + first, sorted, (size_t)n * sizeof *sorted); /* counting zeros needs all keys in one place */
        store_values(j, j->out, first, first + n, j->to);
    }
}

/* From counts to where each piece deals its keys: bucket by bucket, in a bucket piece by piece. */
static void place_pieces(const job *j)
{
    uint32_t at = 0;
    for (int k = 0; k < BINS; k++)
        for (int p = 0; p < PIECES; p++) {
            const uint32_t n = j->bins[p * BINS + k];
            j->bins[p * BINS + k] = at;
            at += n;
            j->ends[p * BINS + k] = at;
        }
}

static void sort_long(job *j, int64_t line)
{
    wf_kern_line_at(j->l, line, &j->x, &j->out);
    wf_pool_run(j->run->pool, load_part, j, PIECES);
    place_pieces(j);
    wf_pool_run(j->run->pool, deal_part, j, PIECES);
    wf_pool_run(j->run->pool, bucket_part, j, BUCKET_PARTS);
    uint32_t odd = 0;
    for (int p = 0; p < PIECES; p++)
        odd |= j->odd[p];
    if (odd && !wf_kern_cancelled(j->run))
        store_odd(j, j->x, j->out, j->to);
}

/* Work space as wf_kern_sort_scratch gives it: two words of 64 bits for each element of a line, then bins. */
weft_status wf_kern_sort_values(const wf_cpu_run *run, const wf_kern_lines *l, char *scratch)
{
    job j = {.run = run, .l = l, .flip = l->kind & 1 ? UINT32_MAX : 0, .scratch = scratch};
    const int64_t n = l->n;
    if (l->out_dtype != l->dtype || (l->dtype != WEFT_DTYPE_F32 && l->dtype != WEFT_DTYPE_I32 && l->dtype != WEFT_DTYPE_U32))
        return wf_kern_bad("sort", "dtype of the values");
    if (n >= LONG) {
        j.from = (uint32_t *)(void *)scratch;
        j.to = j.from + n;
        j.ends = j.to + n; /* LONG is many times their number */
        j.bins = (uint32_t *)(void *)(scratch + 2 * (size_t)n * sizeof(uint64_t));
        for (int64_t line = 0; line < l->lines && !wf_kern_cancelled(run); line++)
            sort_long(&j, line);
    } else {
        j.worker_bytes = 2 * (size_t)n * sizeof(uint64_t);
        wf_pool_run(run->pool, lines_part, &j, WF_MIN(l->lines, WF_MAX(1, l->lines * n / 4096)));
    }
    return WEFT_OK;
}
