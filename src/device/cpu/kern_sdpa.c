/* kern_sdpa.c - scaled dot-product attention: softmax(scale Q K^T + mask) V without the Tq x Tk matrix.
 *
 * Online softmax over blocks of keys (Dao et al. 2022, arXiv:2205.14135, algorithm 1). Many queries: a part is a
 * block of queries of one head, and both products run on the matrix microkernel. Few queries (decode): the
 * heads that share keys are done together, keys are cut into chunks of CHUNK, and the chunks' results are
 * combined in order. Neither cut depends on the number of threads.
 * Bindings: q, k, v, [mask], [kv_len], out, [scratch].
 */
#include "kern.h"

#include <math.h>

enum { QB = 48, KB = 64, CHUNK = 256, FEW_ROWS = 16 };

typedef struct sdpa_job {
    const wf_cpu_run *run;
    const wf_kern_isa *isa;
    int64_t b, hq, hkv, tq, tk, d, len, dp; /* len: keys that exist; dp: d padded to nr */
    float scale;
    bool causal;
    int mask_kind;
    const void *q, *k, *v, *mask;
    void *out;
    weft_dtype q_dtype, k_dtype, v_dtype, out_dtype, mask_dtype;
    int64_t q_at, q_str[4], k_at, k_str[4], v_at, v_str[4], mask_at, mask_str[4];
    int64_t blocks;  /* parts of one head */
    float *partials; /* [b, hkv, chunks, rows, d + 2]: values, maximum, sum */
    char *workers;
    size_t worker_bytes;
} sdpa_job;

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static bool is_few(int64_t hq, int64_t hkv, int64_t tq) { return hq / hkv * tq <= FEW_ROWS; }

/* Keys that query t may see: causal masks are aligned at the bottom right. */
static int64_t key_limit(const sdpa_job *j, int64_t t)
{
    const int64_t limit = j->causal ? j->len - j->tq + t + 1 : j->len;
    return limit < 0 ? 0 : WF_MIN(limit, j->len);
}

/* Adds the mask of keys k0 .. k0+n-1 to one row of scores; a key that is not attended gets -inf. */
static void mask_row(const sdpa_job *j, int64_t b, int64_t h, int64_t t, int64_t k0, int64_t n, float *s)
{
    const int64_t at = j->mask_at + b * j->mask_str[0] + h * j->mask_str[1] + t * j->mask_str[2] + k0 * j->mask_str[3];
    if (j->mask_kind == 1) {
        const uint8_t *m = j->mask;
        for (int64_t i = 0; i < n; i++)
            if (!m[at + i * j->mask_str[3]])
                s[i] = -INFINITY;
    } else if (j->mask_kind == 2) {
        for (int64_t i = 0; i < n; i++)
            s[i] += wf_kern_load(j->mask, j->mask_dtype, at + i * j->mask_str[3]);
    }
    const int64_t limit = key_limit(j, t);
    for (int64_t i = limit > k0 ? limit - k0 : 0; i < n; i++)
        s[i] = -INFINITY;
}

/* A row with NaN whose masked values may have caused it (0 * NaN in a block product): only keys that are
 * attended count. Slow and rare. */
static void exact_row(const sdpa_job *j, int64_t b, int64_t h, int64_t t, float *o)
{
    const int64_t hk = h / (j->hq / j->hkv), limit = key_limit(j, t);
    const int64_t q = j->q_at + b * j->q_str[0] + h * j->q_str[1] + t * j->q_str[2];
    const int64_t k = j->k_at + b * j->k_str[0] + hk * j->k_str[1], v = j->v_at + b * j->v_str[0] + hk * j->v_str[1];
    float most = -INFINITY, sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1)
            memset(o, 0, (size_t)j->d * 4);
        for (int64_t i = 0; i < limit; i++) {
            float s = 0;
            for (int64_t c = 0; c < j->d; c++)
                s += wf_kern_load(j->q, j->q_dtype, q + c * j->q_str[3]) * wf_kern_load(j->k, j->k_dtype, k + i * j->k_str[2] + c * j->k_str[3]);
            s *= j->scale;
            const bool gone = j->mask_kind == 1 && !((const uint8_t *)j->mask)[j->mask_at + b * j->mask_str[0] + h * j->mask_str[1] +
                                                                               t * j->mask_str[2] + i * j->mask_str[3]];
            if (gone)
                continue;
            if (j->mask_kind == 2)
                mask_row(j, b, h, t, i, 1, &s);
            if (pass == 0) {
                most = s > most ? s : most;
                continue;
            }
            const float p = expf(s - (most == -INFINITY ? 0 : most));
            sum += p;
            for (int64_t c = 0; c < j->d; c++)
                o[c] += p * wf_kern_load(j->v, j->v_dtype, v + i * j->v_str[2] + c * j->v_str[3]);
        }
    }
    for (int64_t c = 0; c < j->d; c++)
        o[c] = sum == 0 ? 0 : o[c] / sum;
}

/* o [d] unnormalised values, sum the softmax denominator; a fully masked row is zeros. */
static void finish_row(const sdpa_job *j, int64_t b, int64_t h, int64_t t, float *o, float sum)
{
    const float inverse = sum == 0 ? 0 : 1.0f / sum;
    bool nan = false;
    for (int64_t c = 0; c < j->d; c++) {
        o[c] = sum == 0 ? 0 : o[c] * inverse;
        nan |= o[c] != o[c];
    }
    if (nan && (j->causal || j->mask_kind))
        exact_row(j, b, h, t, o);
    const int64_t at = ((b * j->tq + t) * j->hq + h) * j->d;
    j->isa->narrow[j->out_dtype](o, (char *)j->out + (size_t)at * wf_kern_float_bytes(j->out_dtype), j->d);
}

/* ---- many queries ---- */
static size_t many_floats(int64_t d, int64_t dp)
{
    const int64_t rows = round_up(QB, WF_KERN_MAX_MR);
    return (size_t)(rows * d + KB * d + dp * KB + 2 * rows * KB + rows * dp + 3 * rows + 64);
}

typedef struct block_state {
    float *q, *k, *v, *s, *p, *o, *most, *sum;
} block_state;

static void key_block(const sdpa_job *j, const block_state *w, int64_t b, int64_t h, int64_t t0, int64_t rows, int64_t k0, int64_t keys)
{
    const int mr = j->isa->mr, nr = j->isa->nr;
    const int64_t hk = h / (j->hq / j->hkv);
    const int64_t k_at = j->k_at + b * j->k_str[0] + hk * j->k_str[1], v_at = j->v_at + b * j->v_str[0] + hk * j->v_str[1];
    wf_kern_pack(j->isa, j->k, j->k_dtype, k_at + k0 * j->k_str[2], j->k_str[2], j->k_str[3], keys, nr, j->d, w->k);
    wf_kern_pack(j->isa, j->v, j->v_dtype, v_at + k0 * j->v_str[2], j->v_str[3], j->v_str[2], j->d, nr, keys, w->v);
    for (int64_t i = 0; i < keys; i += nr)
        for (int64_t r = 0; r < rows; r += mr)
            j->isa->micro(j->d, w->q + r * j->d, w->k + i * j->d, NULL, 0, w->s + r * KB + i, KB);
    for (int64_t r = 0; r < rows; r++) {
        float *s = w->s + r * KB;
        mask_row(j, b, h, t0 + r, k0, keys, s);
        const float most = j->isa->max_row(s, keys, w->most[r]);
        const float shift = most == -INFINITY ? 0 : most;
        const float keep = expf(w->most[r] - shift);
        w->sum[r] = w->sum[r] * keep + j->isa->exp_row(s, keys, shift);
        w->most[r] = most;
        if (keep != 1.0f)
            for (int64_t c = 0; c < j->dp; c++)
                w->o[r * j->dp + c] *= keep;
        float *p = w->p + r / mr * mr * keys + r % mr;
        for (int64_t i = 0; i < keys; i++)
            p[i * mr] = s[i];
    }
    for (int64_t c = 0; c < j->d; c += nr)
        for (int64_t r = 0; r < rows; r += mr)
            j->isa->micro(keys, w->p + r * keys, w->v + c * keys, w->o + r * j->dp + c, j->dp, w->o + r * j->dp + c, j->dp);
}

static void many_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const sdpa_job *j = user;
    if (wf_kern_cancelled(j->run))
        return;
    /* Late blocks of a causal head are the long ones: they start first. */
    const int64_t t0 = (j->blocks - 1 - index % j->blocks) * QB, h = index / j->blocks % j->hq, b = index / j->blocks / j->hq;
    const int64_t rows = WF_MIN(QB, j->tq - t0), padded = round_up(QB, WF_KERN_MAX_MR);
    block_state w = {.q = (float *)(j->workers + (size_t)worker * j->worker_bytes)};
    w.k = w.q + padded * j->d;
    w.v = w.k + KB * j->d;
    w.s = w.v + j->dp * KB;
    w.p = w.s + padded * KB;
    w.o = w.p + padded * KB;
    w.most = w.o + padded * j->dp;
    w.sum = w.most + padded;
    const int mr = j->isa->mr;
    const int64_t q_at = j->q_at + b * j->q_str[0] + h * j->q_str[1] + t0 * j->q_str[2];
    wf_kern_pack(j->isa, j->q, j->q_dtype, q_at, j->q_str[2], j->q_str[3], rows, mr, j->d, w.q);
    for (int64_t i = 0; i < padded * j->d; i++)
        w.q[i] = i < round_up(rows, mr) * j->d ? w.q[i] * j->scale : 0;
    memset(w.o, 0, (size_t)(padded * j->dp) * 4);
    memset(w.p, 0, (size_t)(padded * KB) * 4);
    for (int64_t r = 0; r < rows; r++) {
        w.most[r] = -INFINITY;
        w.sum[r] = 0;
    }
    const int64_t limit = key_limit(j, t0 + rows - 1);
    for (int64_t k0 = 0; k0 < limit; k0 += KB)
        key_block(j, &w, b, h, t0, rows, k0, WF_MIN(KB, limit - k0));
    for (int64_t r = 0; r < rows; r++)
        finish_row(j, b, h, t0 + r, w.o + r * j->dp, w.sum[r]);
}

/* ---- few queries ---- */
static size_t few_floats(int64_t d) { return (size_t)(FEW_ROWS * d + FEW_ROWS * CHUNK + 2 * CHUNK * d); }

/* Rows of keys or values with stride 1 along D: in place, or gathered to f32. */
static const void *chunk_rows(const sdpa_job *j, const void *p, weft_dtype *dtype, int64_t at, const int64_t *str, int64_t keys,
                              float *copy, int64_t *stride)
{
    if (str[3] == 1 || j->d == 1) {
        *stride = str[2];
        return (const char *)p + at * (int64_t)wf_kern_float_bytes(*dtype);
    }
    for (int64_t i = 0; i < keys; i++)
        wf_kern_gather(j->isa, p, *dtype, at + i * str[2], str[3], j->d, copy + i * j->d);
    *dtype = WEFT_DTYPE_F32;
    *stride = j->d;
    return copy;
}

static void few_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const sdpa_job *j = user;
    if (wf_kern_cancelled(j->run))
        return;
    const int64_t chunk = index % j->blocks, hk = index / j->blocks % j->hkv, b = index / j->blocks / j->hkv;
    const int64_t group = j->hq / j->hkv, rows = group * j->tq, k0 = chunk * CHUNK, keys = WF_MIN(CHUNK, j->len - k0);
    float *q = (float *)(j->workers + (size_t)worker * j->worker_bytes), *s = q + FEW_ROWS * j->d, *copy = s + FEW_ROWS * CHUNK;
    for (int64_t r = 0; r < rows; r++) {
        wf_kern_gather(j->isa, j->q, j->q_dtype,
                       j->q_at + b * j->q_str[0] + (hk * group + r / j->tq) * j->q_str[1] + r % j->tq * j->q_str[2], j->q_str[3], j->d,
                       q + r * j->d);
        for (int64_t c = 0; c < j->d; c++)
            q[r * j->d + c] *= j->scale;
    }
    int64_t stride;
    weft_dtype dtype = j->k_dtype;
    const char *k = chunk_rows(j, j->k, &dtype, j->k_at + b * j->k_str[0] + hk * j->k_str[1] + k0 * j->k_str[2], j->k_str, keys, copy,
                               &stride);
    for (int64_t i = 0; i < keys; i += 4)
        for (int64_t r = 0; r < rows; r += 4) {
            float out[16];
            const int some = (int)WF_MIN(4, keys - i), nx = (int)WF_MIN(4, rows - r);
            j->isa->dot[dtype](k + i * stride * (int64_t)wf_kern_float_bytes(dtype), stride, some, q + r * j->d, j->d, nx, j->d, out);
            for (int x = 0; x < nx; x++)
                for (int y = 0; y < some; y++)
                    s[(r + x) * CHUNK + i + y] = out[y * 4 + x];
        }
    dtype = j->v_dtype;
    const char *v = chunk_rows(j, j->v, &dtype, j->v_at + b * j->v_str[0] + hk * j->v_str[1] + k0 * j->v_str[2], j->v_str, keys,
                               copy + CHUNK * j->d, &stride);
    float *part = j->partials + index * rows * (j->d + 2);
    for (int64_t r = 0; r < rows; r++, part += j->d + 2) {
        float *p = s + r * CHUNK;
        mask_row(j, b, hk * group + r / j->tq, r % j->tq, k0, keys, p);
        const float most = j->isa->max_row(p, keys, -INFINITY);
        part[j->d] = most;
        part[j->d + 1] = j->isa->exp_row(p, keys, most == -INFINITY ? 0 : most);
        memset(part, 0, (size_t)j->d * 4);
    }
    part = j->partials + index * rows * (j->d + 2);
    for (int64_t i = 0; i < keys; i += 8)
        j->isa->axpy[dtype](v + i * stride * (int64_t)wf_kern_float_bytes(dtype), stride, (int)WF_MIN(8, keys - i), s + i, CHUNK, (int)rows,
                            j->d, part, j->d + 2);
}

static void combine_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const sdpa_job *j = user;
    const int64_t hk = index % j->hkv, b = index / j->hkv, group = j->hq / j->hkv, rows = group * j->tq, wide = j->d + 2;
    float *o = (float *)(j->workers + (size_t)worker * j->worker_bytes);
    for (int64_t r = 0; r < rows; r++) {
        const float *part = j->partials + (index * j->blocks * rows + r) * wide;
        float most = -INFINITY, sum = 0;
        for (int64_t c = 0; c < j->blocks; c++)
            most = part[c * rows * wide + j->d] > most ? part[c * rows * wide + j->d] : most;
        memset(o, 0, (size_t)j->d * 4);
        for (int64_t c = 0; c < j->blocks; c++, part += rows * wide) {
            /* A chunk that is all -inf has sum 0, or NaN where a score was NaN; exp(0) keeps the latter. */
            const float weight = part[j->d] == -INFINITY ? 1.0f : expf(part[j->d] - most);
            sum += part[j->d + 1] * weight;
            for (int64_t i = 0; i < j->d; i++)
                o[i] += part[i] * weight;
        }
        finish_row(j, b, hk * group + r / j->tq, r % j->tq, o, sum);
    }
}

/* ---- entry ---- */
static weft_status read_job(const wf_cpu_run *run, sdpa_job *j, int *scratch_bind)
{
    const int32_t *w = run->statics;
    *j = (sdpa_job){.run = run, .isa = wf_kern_isa_get(), .b = w[0], .hq = w[1], .hkv = w[2], .tq = w[3], .tk = w[4], .d = w[5],
                    .causal = w[7] != 0, .q_at = w[8], .k_at = w[13], .v_at = w[18], .mask_kind = w[23], .mask_at = w[24]};
    memcpy(&j->scale, &w[6], 4);
    for (int i = 0; i < 4; i++) {
        j->q_str[i] = w[9 + i];
        j->k_str[i] = w[14 + i];
        j->v_str[i] = w[19 + i];
        j->mask_str[i] = w[25 + i];
    }
    j->q_dtype = wf_kern_dtype(w[31], 0);
    j->k_dtype = wf_kern_dtype(w[31], 1);
    j->v_dtype = wf_kern_dtype(w[31], 2);
    j->out_dtype = wf_kern_dtype(w[31], 3);
    j->mask_dtype = wf_kern_dtype(w[31], 4);
    const bool has_scratch = (w[31] & WF_KERN_HAS_SCRATCH) != 0, len_bound = (w[31] & WF_KERN_LEN_BOUND) != 0;
    const uint32_t mask_at = 3, len_at = mask_at + (j->mask_kind != 0), out_at = len_at + len_bound;
    WF_TRY(wf_kern_binds("sdpa", run, out_at + 1 + has_scratch));
    *scratch_bind = has_scratch ? (int)out_at + 1 : -1;
    if (j->b < 0 || j->hq < 0 || j->hkv < 0 || j->tq < 0 || j->tk < 0 || j->d < 0 || (j->hq > 0 && (j->hkv <= 0 || j->hq % j->hkv)))
        return wf_kern_bad("sdpa", "extents");
    if (!wf_kern_is_f(j->q_dtype) || !wf_kern_is_f(j->k_dtype) || !wf_kern_is_f(j->v_dtype) || !wf_kern_is_f(j->out_dtype) ||
        j->mask_kind < 0 || j->mask_kind > 2 || (j->mask_kind == 2 && !wf_kern_is_f(j->mask_dtype)))
        return wf_kern_bad("sdpa", "dtypes");
    j->q = run->ptr[0];
    j->k = run->ptr[1];
    j->v = run->ptr[2];
    j->mask = j->mask_kind ? run->ptr[mask_at] : NULL;
    j->out = run->ptr[out_at];
    j->len = j->tk;
    if (len_bound && (w[30] < 0 || (uint64_t)w[30] >= run->size[len_at] / 4))
        return wf_kern_bad("sdpa", "kv_len leaves its binding");
    if (len_bound)
        j->len = ((const int32_t *)run->ptr[len_at])[w[30]];
    else if (w[29] >= 0 && (!run->step || w[29] >= WF_STEP_BYTES / 4))
        return wf_kern_bad("sdpa", "no step block");
    else if (w[29] >= 0)
        j->len = (int32_t)run->step[w[29]];
    j->len = WF_MIN(WF_MAX(j->len, 0), j->tk);
    j->dp = round_up(j->d, j->isa->nr);
    const int64_t total = j->b * j->hq * j->tq;
    if (total == 0 || j->d == 0)
        return WEFT_OK;
    const int64_t q_ext[4] = {j->b, j->hq, j->tq, j->d}, kv_ext[4] = {j->b, j->hkv, j->tk, j->d}, m_ext[4] = {j->b, j->hq, j->tq, j->tk};
    if (!wf_kern_in_range(run->size[0], wf_kern_float_bytes(j->q_dtype), j->q_at, 4, q_ext, j->q_str) ||
        (j->tk > 0 && (!wf_kern_in_range(run->size[1], wf_kern_float_bytes(j->k_dtype), j->k_at, 4, kv_ext, j->k_str) ||
                       !wf_kern_in_range(run->size[2], wf_kern_float_bytes(j->v_dtype), j->v_at, 4, kv_ext, j->v_str) ||
                       (j->mask_kind && !wf_kern_in_range(run->size[mask_at], j->mask_kind == 1 ? 1 : wf_kern_float_bytes(j->mask_dtype),
                                                          j->mask_at, 4, m_ext, j->mask_str)))) ||
        (uint64_t)total > run->size[out_at] / wf_kern_float_bytes(j->out_dtype) / (uint64_t)j->d)
        return wf_kern_bad("sdpa", "an operand leaves its binding");
    return WEFT_OK;
}

weft_status wf_kern_sdpa(const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    sdpa_job j;
    int scratch_bind;
    if (epilogue)
        return wf_kern_bad("sdpa", "takes no epilogue");
    WF_TRY(read_job(run, &j, &scratch_bind));
    if (j.b * j.hq * j.tq == 0 || j.d == 0)
        return WEFT_OK;
    const bool few = is_few(j.hq, j.hkv, j.tq);
    const int64_t rows = j.hq / j.hkv * j.tq;
    j.blocks = few ? (j.len + CHUNK - 1) / CHUNK : (j.tq + QB - 1) / QB;
    j.worker_bytes = (few ? few_floats(j.d) : many_floats(j.d, j.dp)) * 4;
    j.worker_bytes = wf_align_up(j.worker_bytes, 64);
    const size_t workers = j.worker_bytes * (size_t)wf_pool_size(run->pool);
    const size_t partials = few ? (size_t)(j.b * j.hkv * j.blocks * rows * (j.d + 2)) * 4 : 0;
    wf_kern_scratch scratch;
    WF_TRY(wf_kern_scratch_get(run, scratch_bind, workers + partials, &scratch));
    j.workers = scratch.ptr;
    j.partials = (float *)(scratch.ptr + workers);
    if (few) {
        if (j.blocks > 0)
            wf_pool_run(run->pool, few_part, &j, j.b * j.hkv * j.blocks);
        wf_pool_run(run->pool, combine_part, &j, j.b * j.hkv);
    } else {
        wf_pool_run(run->pool, many_part, &j, j.b * j.hq * j.blocks);
    }
    wf_kern_scratch_end(&scratch);
    return wf_kern_done(run);
}

size_t wf_kern_sdpa_scratch(int64_t b, int64_t hq, int64_t hkv, int64_t tq, int64_t tk, int64_t d, int n_threads)
{
    if (b <= 0 || hq <= 0 || hkv <= 0 || tq <= 0 || d <= 0)
        return 0;
    const bool few = is_few(hq, hkv, tq);
    const size_t worker = wf_align_up((few ? few_floats(d) : many_floats(d, round_up(d, WF_KERN_MAX_NR))) * 4, 64);
    return worker * (size_t)n_threads +
           (few ? (size_t)(b * hkv * ((tk + CHUNK - 1) / CHUNK) * (hq / hkv * tq) * (d + 2)) * 4 : 0);
}
