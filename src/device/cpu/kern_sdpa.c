/* kern_sdpa.c - scaled dot-product attention: softmax(scale Q K^T + mask) V without the Tq x Tk matrix.
 *
 * Online softmax over blocks of keys (Dao et al. 2022, arXiv:2205.14135, algorithm 1). Many queries: a part is a
 * block of queries of one head, and both products run on the matrix microkernel. Few queries (decode): the
 * heads that share keys are done together, keys are cut into chunks of CHUNK, and the chunks' results are
 * combined in order. Neither cut depends on the number of threads. Keys that a window or the causal bound
 * hides from a whole block of queries are skipped; sinks are where the running maximum and sum begin.
 * Bindings: q, k, v, [mask], [kv_len], [slopes], [sinks], out, [scratch].
 */
#include "kern.h"
#include "vec_ops.h"

#include <math.h>

enum { QB = 48, KB = 64, CHUNK = 256, FEW_ROWS = 16 };

typedef struct sdpa_job {
    const wf_cpu_run *run;
    const wf_kern_isa *isa;
    int64_t b, hq, hkv, tq, tk, d, e, len, ep; /* len: keys that exist; e: width of values; ep: e padded to nr */
    int64_t left, right; /* keys that a query sees before and after its own position */
    float scale, softcap;
    int mask_kind;
    const void *q, *k, *v, *mask;
    const float *slopes, *sinks; /* or NULL */
    int64_t slope_at, slope_str, sink_at, sink_str;
    void *out;
    weft_dtype q_dtype, k_dtype, v_dtype, out_dtype, mask_dtype;
    int64_t q_at, q_str[4], k_at, k_str[4], v_at, v_str[4], mask_at, mask_str[4];
    int64_t blocks;  /* parts of one head */
    float *partials; /* [b, hkv, chunks, rows, e + 2]: values, maximum, sum */
    char *workers;
    size_t worker_bytes;
} sdpa_job;

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static bool is_few(int64_t hq, int64_t hkv, int64_t tq) { return hq / hkv * tq <= FEW_ROWS; }

/* The last query stands at the last key: causal bounds and windows are aligned at the bottom right. */
static int64_t position_of(const sdpa_job *j, int64_t t) { return j->len - j->tq + t; }

/* Query t may see keys first_key .. end_key - 1; both grow with t. */
static int64_t first_key(const sdpa_job *j, int64_t t)
{
    const int64_t first = position_of(j, t) - j->left;
    return first < 0 ? 0 : WF_MIN(first, j->len);
}
static int64_t end_key(const sdpa_job *j, int64_t t)
{
    const int64_t end = position_of(j, t) + j->right + 1;
    return end < 0 ? 0 : WF_MIN(end, j->len);
}
static bool hides(const sdpa_job *j) { return j->mask_kind || j->left < j->tk || j->right < j->tq; }

/* s = softcap tanh(s / softcap) */
static void cap_row(const sdpa_job *j, float *s, int64_t n)
{
    float t[CHUNK];
    const wf_vec1 tanh_f32 = wf_vec_ops_get()->unary[WF_KOP_TANH][WF_KTY_F32];
    const float inverse = 1 / j->softcap;
    for (int64_t i = 0; i < n; i++)
        s[i] *= inverse;
    tanh_f32(t, s, n);
    for (int64_t i = 0; i < n; i++)
        s[i] = t[i] * j->softcap;
}

/* Products of query t with keys k0 .. k0+n-1, n at most CHUNK, become its logits; a key that is not attended gets -inf. */
static void logits_row(const sdpa_job *j, int64_t b, int64_t h, int64_t t, int64_t k0, int64_t n, float *s)
{
    const int64_t at = j->mask_at + b * j->mask_str[0] + h * j->mask_str[1] + t * j->mask_str[2] + k0 * j->mask_str[3];
    if (j->softcap > 0)
        cap_row(j, s, n);
    if (j->slopes) {
        const float slope = j->slopes[j->slope_at + h * j->slope_str];
        const int64_t distance = k0 - position_of(j, t);
        for (int64_t i = 0; i < n; i++)
            s[i] += slope * (float)(distance + i);
    }
    if (j->mask_kind == 1) {
        const uint8_t *m = j->mask;
        for (int64_t i = 0; i < n; i++)
            if (!m[at + i * j->mask_str[3]])
                s[i] = -INFINITY;
    } else if (j->mask_kind == 2) {
        for (int64_t i = 0; i < n; i++)
            s[i] += wf_kern_load(j->mask, j->mask_dtype, at + i * j->mask_str[3]);
    }
    const int64_t first = first_key(j, t), end = end_key(j, t);
    for (int64_t i = 0; i < n && k0 + i < first; i++)
        s[i] = -INFINITY;
    for (int64_t i = end > k0 ? end - k0 : 0; i < n; i++)
        s[i] = -INFINITY;
}

/* Where the running maximum and sum of a row of head h begin: a sink is a logit without a value. */
static void begin_row(const sdpa_job *j, int64_t h, float *most, float *sum)
{
    *most = j->sinks ? j->sinks[j->sink_at + h * j->sink_str] : -INFINITY;
    *sum = *most == -INFINITY ? 0 : expf(*most - *most); /* NaN stays */
}

/* A row with NaN whose masked values may have caused it (0 * NaN in a block product): only keys that are
 * attended count. Slow and rare. */
static void exact_row(const sdpa_job *j, int64_t b, int64_t h, int64_t t, float *o)
{
    const int64_t hk = h / (j->hq / j->hkv), end = end_key(j, t);
    const int64_t q = j->q_at + b * j->q_str[0] + h * j->q_str[1] + t * j->q_str[2];
    const int64_t k = j->k_at + b * j->k_str[0] + hk * j->k_str[1], v = j->v_at + b * j->v_str[0] + hk * j->v_str[1];
    float most, sum;
    begin_row(j, h, &most, &sum);
    const float sink = most;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            memset(o, 0, (size_t)j->e * 4);
            sum = sink == -INFINITY ? 0 : expf(sink - most);
        }
        for (int64_t i = first_key(j, t); i < end; i++) {
            float s = 0;
            for (int64_t c = 0; c < j->d; c++)
                s += wf_kern_load(j->q, j->q_dtype, q + c * j->q_str[3]) * wf_kern_load(j->k, j->k_dtype, k + i * j->k_str[2] + c * j->k_str[3]);
            s *= j->scale;
            const bool gone = j->mask_kind == 1 && !((const uint8_t *)j->mask)[j->mask_at + b * j->mask_str[0] + h * j->mask_str[1] +
                                                                               t * j->mask_str[2] + i * j->mask_str[3]];
            if (gone)
                continue;
            logits_row(j, b, h, t, i, 1, &s);
            if (pass == 0) {
                most = s > most ? s : most;
                continue;
            }
            const float p = expf(s - (most == -INFINITY ? 0 : most));
            sum += p;
            for (int64_t c = 0; c < j->e; c++)
                o[c] += p * wf_kern_load(j->v, j->v_dtype, v + i * j->v_str[2] + c * j->v_str[3]);
        }
    }
    for (int64_t c = 0; c < j->e; c++)
        o[c] = sum == 0 ? 0 : o[c] / sum;
}

/* o [e] unnormalised values, sum the softmax denominator; a fully masked row is zeros. */
static void finish_row(const sdpa_job *j, int64_t b, int64_t h, int64_t t, float *o, float sum)
{
    const float inverse = sum == 0 ? 0 : 1.0f / sum;
    bool nan = false;
    for (int64_t c = 0; c < j->e; c++) {
        o[c] = sum == 0 ? 0 : o[c] * inverse;
        nan |= o[c] != o[c];
    }
    if (nan && hides(j))
        exact_row(j, b, h, t, o);
    const int64_t at = ((b * j->tq + t) * j->hq + h) * j->e;
    j->isa->narrow[j->out_dtype](o, (char *)j->out + (size_t)at * wf_kern_float_bytes(j->out_dtype), j->e);
}

/* ---- many queries ---- */
static size_t many_floats(int64_t d, int64_t ep)
{
    const int64_t rows = round_up(QB, WF_KERN_MAX_MR);
    return (size_t)(rows * d + KB * d + ep * KB + 2 * rows * KB + rows * ep + 3 * rows + 64);
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
    wf_kern_pack(j->isa, j->v, j->v_dtype, v_at + k0 * j->v_str[2], j->v_str[3], j->v_str[2], j->e, nr, keys, w->v);
    for (int64_t i = 0; i < keys; i += nr)
        for (int64_t r = 0; r < rows; r += mr)
            j->isa->micro(j->d, w->q + r * j->d, w->k + i * j->d, NULL, 0, w->s + r * KB + i, KB);
    for (int64_t r = 0; r < rows; r++) {
        float *s = w->s + r * KB;
        logits_row(j, b, h, t0 + r, k0, keys, s);
        const float most = j->isa->max_row(s, keys, w->most[r]);
        const float shift = most == -INFINITY ? 0 : most;
        const float keep = expf(w->most[r] - shift);
        w->sum[r] = w->sum[r] * keep + j->isa->exp_row(s, keys, shift);
        w->most[r] = most;
        if (keep != 1.0f)
            for (int64_t c = 0; c < j->ep; c++)
                w->o[r * j->ep + c] *= keep;
        float *p = w->p + r / mr * mr * keys + r % mr;
        for (int64_t i = 0; i < keys; i++)
            p[i * mr] = s[i];
    }
    for (int64_t c = 0; c < j->e; c += nr)
        for (int64_t r = 0; r < rows; r += mr)
            j->isa->micro(keys, w->p + r * keys, w->v + c * keys, w->o + r * j->ep + c, j->ep, w->o + r * j->ep + c, j->ep);
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
    w.s = w.v + j->ep * KB;
    w.p = w.s + padded * KB;
    w.o = w.p + padded * KB;
    w.most = w.o + padded * j->ep;
    w.sum = w.most + padded;
    const int mr = j->isa->mr;
    const int64_t q_at = j->q_at + b * j->q_str[0] + h * j->q_str[1] + t0 * j->q_str[2];
    wf_kern_pack(j->isa, j->q, j->q_dtype, q_at, j->q_str[2], j->q_str[3], rows, mr, j->d, w.q);
    for (int64_t i = 0; i < padded * j->d; i++)
        w.q[i] = i < round_up(rows, mr) * j->d ? w.q[i] * j->scale : 0;
    memset(w.o, 0, (size_t)(padded * j->ep) * 4);
    memset(w.p, 0, (size_t)(padded * KB) * 4);
    for (int64_t r = 0; r < rows; r++)
        begin_row(j, h, &w.most[r], &w.sum[r]);
    const int64_t end = end_key(j, t0 + rows - 1);
    for (int64_t k0 = first_key(j, t0); k0 < end; k0 += KB)
        key_block(j, &w, b, h, t0, rows, k0, WF_MIN(KB, end - k0));
    for (int64_t r = 0; r < rows; r++)
        finish_row(j, b, h, t0 + r, w.o + r * j->ep, w.sum[r]);
}

/* ---- few queries ---- */
static size_t few_floats(int64_t d, int64_t e) { return (size_t)(FEW_ROWS * WF_MAX(d, e) + FEW_ROWS * CHUNK + CHUNK * (d + e)); }

/* Rows of keys or values, `width` components with stride 1: in place, or gathered to f32. */
static const void *chunk_rows(const sdpa_job *j, const void *p, weft_dtype *dtype, int64_t at, const int64_t *str, int64_t keys,
                              int64_t width, float *copy, int64_t *stride)
{
    if (str[3] == 1 || width == 1) {
        *stride = str[2];
        return (const char *)p + at * (int64_t)wf_kern_float_bytes(*dtype);
    }
    for (int64_t i = 0; i < keys; i++)
        wf_kern_gather(j->isa, p, *dtype, at + i * str[2], str[3], width, copy + i * width);
    *dtype = WEFT_DTYPE_F32;
    *stride = width;
    return copy;
}

static void few_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const sdpa_job *j = user;
    if (wf_kern_cancelled(j->run))
        return;
    const int64_t chunk = index % j->blocks, hk = index / j->blocks % j->hkv, b = index / j->blocks / j->hkv;
    const int64_t group = j->hq / j->hkv, rows = group * j->tq;
    const int64_t k0 = first_key(j, 0) + chunk * CHUNK, keys = WF_MIN(CHUNK, end_key(j, j->tq - 1) - k0);
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
    const char *k = chunk_rows(j, j->k, &dtype, j->k_at + b * j->k_str[0] + hk * j->k_str[1] + k0 * j->k_str[2], j->k_str, keys, j->d,
                               copy, &stride);
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
    const char *v = chunk_rows(j, j->v, &dtype, j->v_at + b * j->v_str[0] + hk * j->v_str[1] + k0 * j->v_str[2], j->v_str, keys, j->e,
                               copy + CHUNK * j->d, &stride);
    float *part = j->partials + index * rows * (j->e + 2);
    for (int64_t r = 0; r < rows; r++, part += j->e + 2) {
        float *p = s + r * CHUNK;
        logits_row(j, b, hk * group + r / j->tq, r % j->tq, k0, keys, p);
        const float most = j->isa->max_row(p, keys, -INFINITY);
        part[j->e] = most;
        part[j->e + 1] = j->isa->exp_row(p, keys, most == -INFINITY ? 0 : most);
        memset(part, 0, (size_t)j->e * 4);
    }
    part = j->partials + index * rows * (j->e + 2);
    for (int64_t i = 0; i < keys; i += 8)
        j->isa->axpy[dtype](v + i * stride * (int64_t)wf_kern_float_bytes(dtype), stride, (int)WF_MIN(8, keys - i), s + i, CHUNK, (int)rows,
                            j->e, part, j->e + 2);
}

static void combine_part(void *user, int64_t index, int64_t count, int worker)
{
    (void)count;
    const sdpa_job *j = user;
    const int64_t hk = index % j->hkv, b = index / j->hkv, group = j->hq / j->hkv, rows = group * j->tq, wide = j->e + 2;
    float *o = (float *)(j->workers + (size_t)worker * j->worker_bytes);
    for (int64_t r = 0; r < rows; r++) {
        const float *part = j->partials + (index * j->blocks * rows + r) * wide;
        float most, sum;
        begin_row(j, hk * group + r / j->tq, &most, &sum);
        const float sink = most;
        for (int64_t c = 0; c < j->blocks; c++)
            most = part[c * rows * wide + j->e] > most ? part[c * rows * wide + j->e] : most;
        memset(o, 0, (size_t)j->e * 4);
        sum *= sink == -INFINITY ? 1 : expf(sink - most);
        for (int64_t c = 0; c < j->blocks; c++, part += rows * wide) {
            /* A chunk that is all -inf has sum 0, or NaN where a score was NaN; exp(0) keeps the latter. */
            const float weight = part[j->e] == -INFINITY ? 1.0f : expf(part[j->e] - most);
            sum += part[j->e + 1] * weight;
            for (int64_t i = 0; i < j->e; i++)
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
                    .right = w[7], .q_at = w[8], .k_at = w[13], .v_at = w[18], .mask_kind = w[23], .mask_at = w[24], .left = w[32],
                    .e = w[34], .slope_at = w[35], .slope_str = w[36], .sink_at = w[37], .sink_str = w[38]};
    memcpy(&j->scale, &w[6], 4);
    memcpy(&j->softcap, &w[33], 4);
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
    const bool has_slopes = (w[39] & WF_SDPA_SLOPES) != 0, has_sinks = (w[39] & WF_SDPA_SINKS) != 0;
    const uint32_t mask_at = 3, len_at = mask_at + (j->mask_kind != 0), slopes_at = len_at + len_bound, sinks_at = slopes_at + has_slopes,
                   out_at = sinks_at + has_sinks;
    WF_TRY(wf_kern_binds("sdpa", run, out_at + 1 + has_scratch));
    *scratch_bind = has_scratch ? (int)out_at + 1 : -1;
    if (j->b < 0 || j->hq < 0 || j->hkv < 0 || j->tq < 0 || j->tk < 0 || j->d < 0 || j->e < 0 || j->left < 0 || j->right < 0 || (j->hq > 0 && (j->hkv <= 0 || j->hq % j->hkv)))
        return wf_kern_bad("sdpa", "extents");
    if (!wf_kern_is_f(j->q_dtype) || !wf_kern_is_f(j->k_dtype) || !wf_kern_is_f(j->v_dtype) || !wf_kern_is_f(j->out_dtype) ||
        j->mask_kind < 0 || j->mask_kind > 2 || (j->mask_kind == 2 && !wf_kern_is_f(j->mask_dtype)))
        return wf_kern_bad("sdpa", "dtypes");
    j->q = run->ptr[0];
    j->k = run->ptr[1];
    j->v = run->ptr[2];
    j->mask = j->mask_kind ? run->ptr[mask_at] : NULL;
    j->slopes = has_slopes ? run->ptr[slopes_at] : NULL;
    j->sinks = has_sinks ? run->ptr[sinks_at] : NULL;
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
    j->ep = round_up(j->e, j->isa->nr);
    const int64_t total = j->b * j->hq * j->tq;
    if (total == 0 || j->d == 0 || j->e == 0)
        return WEFT_OK;
    const int64_t q_ext[4] = {j->b, j->hq, j->tq, j->d}, k_ext[4] = {j->b, j->hkv, j->tk, j->d}, v_ext[4] = {j->b, j->hkv, j->tk, j->e},
                  m_ext[4] = {j->b, j->hq, j->tq, j->tk};
    if (!wf_kern_in_range(run->size[0], wf_kern_float_bytes(j->q_dtype), j->q_at, 4, q_ext, j->q_str) ||
        (j->tk > 0 && (!wf_kern_in_range(run->size[1], wf_kern_float_bytes(j->k_dtype), j->k_at, 4, k_ext, j->k_str) ||
                       !wf_kern_in_range(run->size[2], wf_kern_float_bytes(j->v_dtype), j->v_at, 4, v_ext, j->v_str) ||
                       (j->mask_kind && !wf_kern_in_range(run->size[mask_at], j->mask_kind == 1 ? 1 : wf_kern_float_bytes(j->mask_dtype),
                                                          j->mask_at, 4, m_ext, j->mask_str)))) ||
        (has_slopes && !wf_kern_in_range(run->size[slopes_at], 4, j->slope_at, 1, &j->hq, &j->slope_str)) ||
        (has_sinks && !wf_kern_in_range(run->size[sinks_at], 4, j->sink_at, 1, &j->hq, &j->sink_str)) ||
        (uint64_t)total > run->size[out_at] / wf_kern_float_bytes(j->out_dtype) / (uint64_t)j->e)
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
    if (j.b * j.hq * j.tq == 0 || j.d == 0 || j.e == 0)
        return WEFT_OK;
    const bool few = is_few(j.hq, j.hkv, j.tq);
    const int64_t rows = j.hq / j.hkv * j.tq;
    const int64_t keys = WF_MAX(end_key(&j, j.tq - 1) - first_key(&j, 0), 0);
    j.blocks = few ? (keys + CHUNK - 1) / CHUNK : (j.tq + QB - 1) / QB;
    j.worker_bytes = (few ? few_floats(j.d, j.e) : many_floats(j.d, j.ep)) * 4;
    j.worker_bytes = wf_align_up(j.worker_bytes, 64);
    const size_t workers = j.worker_bytes * (size_t)wf_pool_size(run->pool);
    const size_t partials = few ? (size_t)(j.b * j.hkv * j.blocks * rows * (j.e + 2)) * 4 : 0;
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

size_t wf_kern_sdpa_scratch(int64_t b, int64_t hq, int64_t hkv, int64_t tq, int64_t tk, int64_t d, int64_t e, int n_threads)
{
    if (b <= 0 || hq <= 0 || hkv <= 0 || tq <= 0 || d <= 0 || e <= 0)
        return 0;
    const bool few = is_few(hq, hkv, tq);
    const size_t worker = wf_align_up((few ? few_floats(d, e) : many_floats(d, round_up(e, WF_KERN_MAX_NR))) * 4, 64);
    return worker * (size_t)n_threads +
           (few ? (size_t)(b * hkv * ((tk + CHUNK - 1) / CHUNK) * (hq / hkv * tq) * (e + 2)) * 4 : 0);
}
