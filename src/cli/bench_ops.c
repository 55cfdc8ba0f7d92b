/* bench_ops.c - single operations: what each row records, how big it is, and the bytes or flops that
 * the work needs at least. */
#include "bench.h"

#include <stdlib.h>

const char *const bench_suites[] = {"copy", "elementwise", "reduce", "softmax", "matmul", "matvec", "attention", "decode"};
const int bench_n_suites = sizeof bench_suites / sizeof bench_suites[0];

enum { MAX_IN = 24, MAX_OUT = 8 };

typedef struct bench_case bench_case;
typedef struct bench_state {
    weft_ctx *ctx;
    const bench_case *c;
    weft_tensor *in[MAX_IN];
    int n_in;
} bench_state;

struct bench_case {
    const char *suite, *name;
    const char *unit;
    bench_limit limit;
    int64_t p[5]; /* sizes, for setup, record and work */
    weft_dtype dtype;
    void (*setup)(bench_state *s);
    int (*record)(const bench_state *s, weft_tensor **out);
    double (*work)(const bench_case *c); /* bytes or flops */
};

/* ---- inputs ---- */
static void *random_bytes(size_t n_bytes, weft_dtype dtype)
{
    uint8_t *p = malloc(n_bytes ? n_bytes : 1);
    uint32_t x = 12345;
    size_t block = weft_dtype_block_bytes(dtype);
    if (!p)
        return NULL;
    if (dtype == WEFT_DTYPE_F32) {
        for (size_t i = 0; i < n_bytes / 4; i++) {
            x = x * 1664525u + 1013904223u;
            float f = (float)(int32_t)x * 4.6566129e-10f;
            memcpy(p + 4 * i, &f, 4);
        }
        return p;
    }
    for (size_t i = 0; i < n_bytes; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = (uint8_t)(x >> 24);
    }
    if (dtype == WEFT_DTYPE_F16) /* finite and near 1 */
        for (size_t i = 1; i < n_bytes; i += 2)
            p[i] = (uint8_t)((p[i] & 0x83) | 0x38);
    else /* block scales (and minima) near 0.01 */
        for (size_t b = 0; b + block <= n_bytes; b += block) {
            p[b + 1] = 0x21;
            if (dtype == WEFT_DTYPE_Q4_1)
                p[b + 3] = 0xA1;
        }
    return p;
}

static void input(bench_state *s, weft_dtype dtype, int rank, const int64_t *shape)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)shape[i];
    void *data = random_bytes(n / (size_t)weft_dtype_block(dtype) * weft_dtype_block_bytes(dtype), dtype);
    if (data && s->n_in < MAX_IN)
        s->in[s->n_in++] = weft_keep(weft_tensor_from(s->ctx, dtype, rank, shape, data));
    free(data);
}

#define DIMS(...) (const int64_t[]){__VA_ARGS__}

static void setup_vectors(bench_state *s) /* p: elements, how many */
{
    for (int i = 0; i < s->c->p[1]; i++)
        input(s, WEFT_DTYPE_F32, 1, s->c->p);
}

static void setup_matrix(bench_state *s) /* p: rows, columns */
{
    input(s, WEFT_DTYPE_F32, 2, s->c->p);
    input(s, WEFT_DTYPE_F32, 1, s->c->p + 1);
}

static void setup_matmul(bench_state *s) /* p: M, N, K */
{
    input(s, s->c->dtype, 2, DIMS(s->c->p[0], s->c->p[2]));
    input(s, s->c->dtype, 2, DIMS(s->c->p[2], s->c->p[1]));
}

static void setup_matvec(bench_state *s) /* p: rows of x, N, K, matrices, int8 */
{
    input(s, WEFT_DTYPE_F32, 2, DIMS(s->c->p[0], s->c->p[2]));
    for (int64_t i = 0; i < s->c->p[3]; i++)
        input(s, s->c->dtype, 2, DIMS(s->c->p[1], s->c->p[2]));
}

static void setup_attention(bench_state *s) /* p: Hq, Hkv, Tq, Tk, D */
{
    const int64_t *p = s->c->p;
    input(s, WEFT_DTYPE_F32, 4, DIMS(1, p[0], p[2], p[4]));
    input(s, s->c->dtype, 4, DIMS(1, p[1], p[3], p[4]));
    input(s, s->c->dtype, 4, DIMS(1, p[1], p[3], p[4]));
}

/* ---- what is recorded ---- */
static int record_neg(const bench_state *s, weft_tensor **out) { out[0] = weft_neg(s->in[0]); return 1; }
static int record_transpose(const bench_state *s, weft_tensor **out) { out[0] = weft_contiguous(weft_transpose(s->in[0], 0, 1)); return 1; }
static int record_gelu(const bench_state *s, weft_tensor **out) { out[0] = weft_gelu(s->in[0]); return 1; }
static int record_gelu_tanh(const bench_state *s, weft_tensor **out) { out[0] = weft_gelu_tanh(s->in[0]); return 1; }
static int record_sum_last(const bench_state *s, weft_tensor **out) { out[0] = weft_sum(s->in[0], (const int[]){-1}, 1, false); return 1; }
static int record_sum_first(const bench_state *s, weft_tensor **out) { out[0] = weft_sum(s->in[0], (const int[]){0}, 1, false); return 1; }
static int record_sum_all(const bench_state *s, weft_tensor **out) { out[0] = weft_sum(s->in[0], NULL, 0, false); return 1; }
static int record_argmax(const bench_state *s, weft_tensor **out) { out[0] = weft_argmax(s->in[0], (const int[]){-1}, 1, false); return 1; }
static int record_softmax(const bench_state *s, weft_tensor **out) { out[0] = weft_softmax(s->in[0], -1); return 1; }
static int record_rms(const bench_state *s, weft_tensor **out) { out[0] = weft_rms_norm(s->in[0], s->in[1], 1e-5f, -1); return 1; }
static int record_layer(const bench_state *s, weft_tensor **out) { out[0] = weft_layer_norm(s->in[0], s->in[1], s->in[1], 1e-5f, -1); return 1; }
static int record_matmul(const bench_state *s, weft_tensor **out) { out[0] = weft_matmul(s->in[0], s->in[1]); return 1; }

static int record_chain(const bench_state *s, weft_tensor **out)
{
    out[0] = weft_sub(weft_relu(weft_add(weft_mul(s->in[0], s->in[1]), s->in[2])), s->in[3]);
    return 1;
}

static int record_matvec(const bench_state *s, weft_tensor **out)
{
    int n = 0;
    weft_linear_opts opts = {.act_int8 = s->c->p[4] != 0};
    for (; n < s->n_in - 1; n++)
        out[n] = weft_linear(s->in[0], s->in[n + 1], &opts);
    return n;
}

static int record_attention(const bench_state *s, weft_tensor **out)
{
    out[0] = weft_scaled_dot_product_attention(s->in[0], s->in[1], s->in[2], &(weft_attention_opts){.is_causal = true});
    return 1;
}

/* ---- the least that must be done ---- */
static double bytes_vectors(const bench_case *c) { return 4.0 * (double)c->p[0] * (double)(c->p[1] + 1); }
static double bytes_in_out(const bench_case *c) { return 8.0 * (double)c->p[0] * (double)c->p[1]; }
static double bytes_in(const bench_case *c) { return 4.0 * (double)c->p[0] * (double)c->p[1]; }
static double flops_matmul(const bench_case *c) { return 2.0 * (double)c->p[0] * (double)c->p[1] * (double)c->p[2]; }

static double bytes_matvec(const bench_case *c)
{
    double weight = (double)weft_dtype_block_bytes(c->dtype) / weft_dtype_block(c->dtype);
    return (double)c->p[3] * ((double)c->p[1] * (double)c->p[2] * weight + 4.0 * (double)(c->p[0] * (c->p[1] + c->p[2])));
}

static double flops_attention(const bench_case *c) /* bottom-right causal: the attended pairs only */
{
    double tq = (double)c->p[2], tk = (double)c->p[3], pairs = tq * (tk - tq) + tq * (tq + 1) / 2;
    return 4.0 * (double)c->p[0] * (double)c->p[4] * pairs;
}

static double bytes_attention(const bench_case *c) /* one query: the cache is read once */
{
    return 2.0 * (double)c->p[1] * (double)c->p[3] * (double)c->p[4] * (double)weft_dtype_block_bytes(c->dtype);
}

#define F32 WEFT_DTYPE_F32
#define F16 WEFT_DTYPE_F16
#define Q8 WEFT_DTYPE_Q8_0
#define Q4 WEFT_DTYPE_Q4_0
enum { M16 = 1 << 24 };
static const bench_case cases[] = {
    {"copy", "neg f32 16M", "GB/s", BENCH_COPY, {M16, 1}, F32, setup_vectors, record_neg, bytes_vectors},
    {"copy", "transpose copy f32 4096x4096", "GB/s", BENCH_COPY, {4096, 4096}, F32, setup_matrix, record_transpose, bytes_in_out},
    {"elementwise", "relu(a*b+c)-d f32 16M", "GB/s", BENCH_TRIAD, {M16, 4}, F32, setup_vectors, record_chain, bytes_vectors},
    {"elementwise", "gelu f32 16M", "GB/s", BENCH_COPY, {M16, 1}, F32, setup_vectors, record_gelu, bytes_vectors},
    {"elementwise", "gelu_tanh f32 16M", "GB/s", BENCH_COPY, {M16, 1}, F32, setup_vectors, record_gelu_tanh, bytes_vectors},
    {"reduce", "sum last axis f32 4096x4096", "GB/s", BENCH_READ, {4096, 4096}, F32, setup_matrix, record_sum_last, bytes_in},
    {"reduce", "sum first axis f32 4096x4096", "GB/s", BENCH_READ, {4096, 4096}, F32, setup_matrix, record_sum_first, bytes_in},
    {"reduce", "sum all f32 4096x4096", "GB/s", BENCH_READ, {4096, 4096}, F32, setup_matrix, record_sum_all, bytes_in},
    {"reduce", "argmax last axis f32 4096x4096", "GB/s", BENCH_READ, {4096, 4096}, F32, setup_matrix, record_argmax, bytes_in},
    {"softmax", "softmax f32 4096x4096", "GB/s", BENCH_COPY, {4096, 4096}, F32, setup_matrix, record_softmax, bytes_in_out},
    {"softmax", "rms_norm f32 4096x4096", "GB/s", BENCH_COPY, {4096, 4096}, F32, setup_matrix, record_rms, bytes_in_out},
    {"softmax", "layer_norm f32 4096x4096", "GB/s", BENCH_COPY, {4096, 4096}, F32, setup_matrix, record_layer, bytes_in_out},
    {"matmul", "matmul f32 512", "GFLOP/s", BENCH_FMA, {512, 512, 512}, F32, setup_matmul, record_matmul, flops_matmul},
    {"matmul", "matmul f32 1024", "GFLOP/s", BENCH_FMA, {1024, 1024, 1024}, F32, setup_matmul, record_matmul, flops_matmul},
    {"matmul", "matmul f32 2048", "GFLOP/s", BENCH_FMA, {2048, 2048, 2048}, F32, setup_matmul, record_matmul, flops_matmul},
    {"matvec", "linear f32 1x4096x4096 of 4", "GB/s", BENCH_READ, {1, 4096, 4096, 4, 0}, F32, setup_matvec, record_matvec, bytes_matvec},
    {"matvec", "linear f16 1x4096x4096 of 6", "GB/s", BENCH_READ, {1, 4096, 4096, 6, 0}, F16, setup_matvec, record_matvec, bytes_matvec},
    {"matvec", "linear q8_0 1x4096x4096 of 8", "GB/s", BENCH_READ, {1, 4096, 4096, 8, 0}, Q8, setup_matvec, record_matvec, bytes_matvec},
    {"matvec", "linear q8_0 1x4096x4096 of 8, int8 activations", "GB/s", BENCH_READ, {1, 4096, 4096, 8, 1}, Q8, setup_matvec, record_matvec, bytes_matvec},
    {"matvec", "linear q4_0 1x8192x4096 of 8", "GB/s", BENCH_READ, {1, 8192, 4096, 8, 0}, Q4, setup_matvec, record_matvec, bytes_matvec},
    {"matvec", "linear q4_0 1x8192x4096 of 8, int8 activations", "GB/s", BENCH_READ, {1, 8192, 4096, 8, 1}, Q4, setup_matvec, record_matvec, bytes_matvec},
    {"attention", "attention causal f32 T 1024, 32/8 heads of 64", "GFLOP/s", BENCH_FMA, {32, 8, 1024, 1024, 64}, F32, setup_attention, record_attention, flops_attention},
    {"attention", "attention one query f32 T 16384, 32/8 heads of 64", "GB/s", BENCH_READ, {32, 8, 1, 16384, 64}, F32, setup_attention, record_attention, bytes_attention},
    {"attention", "attention one query f16 cache T 16384, 32/8 heads of 64", "GB/s", BENCH_READ, {32, 8, 1, 16384, 64}, F16, setup_attention, record_attention, bytes_attention},
};

/* One timed evaluation. Handles of intermediate results are gone before it runs. */
static weft_status once(const bench_state *s, double *seconds)
{
    weft_tensor *out[MAX_OUT];
    double start = cli_now();
    weft_scope *scope = weft_scope_begin(s->ctx);
    if (!scope)
        return WEFT_E_OOM;
    int n = s->c->record(s, out);
    for (int i = 0; i < n; i++)
        weft_keep(out[i]);
    weft_scope_end(scope);
    weft_status st = weft_eval(out, n);
    if (st == WEFT_OK)
        st = weft_ctx_sync(s->ctx);
    *seconds = cli_now() - start;
    for (int i = 0; i < n; i++)
        weft_tensor_release(out[i]);
    return st;
}

static weft_status time_case(const bench_case *c, weft_ctx *ctx, bench_row *row)
{
    bench_state s = {.ctx = ctx, .c = c};
    double seconds = 0, spent = 0, work = c->work(c);
    weft_scope *scope = weft_scope_begin(ctx);
    if (!scope)
        return WEFT_E_OOM;
    c->setup(&s);
    weft_scope_end(scope);
    weft_status st = WEFT_OK;
    for (int warm = 0; st == WEFT_OK && warm < 3 && spent < 1; warm++, spent += seconds)
        st = once(&s, &seconds);
    /* At least 5 samples, and 0.5 s of them; a slow device is not kept longer than 5 s. */
    for (spent = 0; st == WEFT_OK && row->n_samples < BENCH_MAX_SAMPLES && !cli_interrupted();) {
        if ((row->n_samples >= 5 && spent > 0.5) || (row->n_samples >= 1 && spent > 5))
            break;
        st = once(&s, &seconds);
        spent += seconds;
        row->samples[row->n_samples++] = work / seconds / 1e9;
    }
    for (int i = 0; i < s.n_in; i++)
        weft_tensor_release(s.in[i]);
    return st;
}

int bench_ops(bench_run *run)
{
    int code = CLI_OK;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0] && !cli_interrupted(); i++) {
        if (!bench_wanted(run, cases[i].suite, cases[i].name))
            continue;
        bench_row *row = bench_add(run, cases[i].name, cases[i].unit, cases[i].limit);
        if (!row)
            return CLI_FAILED;
        weft_status st = time_case(&cases[i], run->ctx, row);
        bench_done(run, row, st);
        if (st != WEFT_OK) /* the other rows still count */
            code = cli_fail("bench: %s: %s", cases[i].name, weft_error_message());
    }
    return code;
}
