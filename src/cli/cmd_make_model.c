/* cmd_make_model.c - weft make-model: a llama-shaped GGUF file of random weights, for tests and
 * benchmarks. Tensors are written row by row, so a file of any size needs little memory; the same seed
 * gives the same bytes. Layout: https://github.com/ggml-org/ggml, docs/gguf.md. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { GGUF_U32 = 4, GGUF_I32 = 5, GGUF_F32 = 6, GGUF_STRING = 8, GGUF_ARRAY = 9, ALIGNMENT = 32 };
enum { FIRST_PIECE = 3 + 256 }; /* <unk>, <s>, </s>, then one token a byte */

typedef struct plan {
    int64_t layers, width, heads, kv_heads, ffn, vocab, rope_dim, head_dim, context;
    uint64_t seed;
    bool untied;
    const char *type;
} plan;

typedef struct row_type {
    weft_dtype dtype;
    uint32_t id; /* ggml_type */
} row_type;

typedef struct tensor {
    char name[64];
    int64_t rows, cols; /* rows 0: a vector */
    const row_type *type;
    uint64_t offset;
} tensor;

typedef struct writer {
    const char *path;
    FILE *f;
    uint64_t at;
    int err; /* errno of the first write that failed */
} writer;

static const row_type types[] = {
    {WEFT_DTYPE_F32, 0}, {WEFT_DTYPE_F16, 1}, {WEFT_DTYPE_BF16, 30}, {WEFT_DTYPE_Q8_0, 8}, {WEFT_DTYPE_Q4_0, 2}, {WEFT_DTYPE_Q4_1, 3},
};
enum { TYPE_F32 = 0, TYPE_F16 = 1, N_TYPES = sizeof types / sizeof types[0] };

static size_t row_bytes(const row_type *type, int64_t cols)
{
    return (size_t)(cols / weft_dtype_block(type->dtype)) * weft_dtype_block_bytes(type->dtype);
}

/* ---- random weights: splitmix64 of (seed, tensor, element) ---- */
static double uniform(uint64_t seed, uint64_t stream, uint64_t i)
{
    uint64_t z = seed * 0x9E3779B97F4A7C15u + stream * 0xD1B54A32D192ED03u + i * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (double)(z >> 11) * (2.0 / 9007199254740992.0) - 1;
}

/* Matrices: variance 1 / columns keeps the stream of a deep model finite. Norms: near 1. */
static void fill_row(const plan *p, uint64_t stream, const tensor *t, int64_t row, float *out)
{
    double scale = t->rows ? sqrt(3.0 / (double)t->cols) : 0.1, base = t->rows ? 0 : 1;
    for (int64_t i = 0; i < t->cols; i++)
        out[i] = (float)(base + scale * uniform(p->seed, stream, (uint64_t)(row * t->cols + i)));
}

/* ---- GGUF ---- */
static void put(writer *w, const void *bytes, size_t n)
{
    if (!w->err && fwrite(bytes, 1, n, w->f) != n)
        w->err = errno;
    w->at += n;
}

static void put_u32(writer *w, uint32_t v) { put(w, &v, sizeof v); }
static void put_u64(writer *w, uint64_t v) { put(w, &v, sizeof v); }

static void put_str(writer *w, const char *s)
{
    put_u64(w, strlen(s));
    put(w, s, strlen(s));
}

static void meta_u32(writer *w, const char *key, int64_t v)
{
    put_str(w, key);
    put_u32(w, GGUF_U32);
    put_u32(w, (uint32_t)v);
}

static void meta_f32(writer *w, const char *key, float v)
{
    put_str(w, key);
    put_u32(w, GGUF_F32);
    put(w, &v, sizeof v);
}

static void meta_str(writer *w, const char *key, const char *v)
{
    put_str(w, key);
    put_u32(w, GGUF_STRING);
    put_str(w, v);
}

static void meta_array(writer *w, const char *key, uint32_t type, int64_t n)
{
    put_str(w, key);
    put_u32(w, GGUF_ARRAY);
    put_u32(w, type);
    put_u64(w, (uint64_t)n);
}

static void pad(writer *w)
{
    static const char zeros[ALIGNMENT];
    put(w, zeros, (size_t)(-w->at % ALIGNMENT));
}

/* Bytes, then syllables: enough of a vocabulary that text goes in and comes out. */
static void piece(int64_t id, char out[32])
{
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    if (id < 3)
        snprintf(out, 32, "%s", special[id]);
    else if (id < FIRST_PIECE)
        snprintf(out, 32, "<0x%02X>", (unsigned)(id - 3));
    else if (id == FIRST_PIECE)
        snprintf(out, 32, "\xE2\x96\x81");
    else
        snprintf(out, 32, "\xE2\x96\x81w%lld", (long long)(id - FIRST_PIECE));
}

static void write_vocabulary(writer *w, const plan *p)
{
    char text[32];
    meta_str(w, "tokenizer.ggml.model", "llama");
    meta_array(w, "tokenizer.ggml.tokens", GGUF_STRING, p->vocab);
    for (int64_t i = 0; i < p->vocab; i++) {
        piece(i, text);
        put_str(w, text);
    }
    meta_array(w, "tokenizer.ggml.scores", GGUF_F32, p->vocab);
    for (int64_t i = 0; i < p->vocab; i++) {
        float score = i < FIRST_PIECE ? 0 : -(float)(i - FIRST_PIECE);
        put(w, &score, sizeof score);
    }
    meta_array(w, "tokenizer.ggml.token_type", GGUF_I32, p->vocab);
    for (int64_t i = 0; i < p->vocab; i++)
        put_u32(w, i == 0 ? 2 : i < 3 ? 3 : i < FIRST_PIECE ? 6 : 1);
    meta_u32(w, "tokenizer.ggml.bos_token_id", 1);
    meta_u32(w, "tokenizer.ggml.eos_token_id", 2);
    meta_u32(w, "tokenizer.ggml.unknown_token_id", 0);
}

static void write_header(writer *w, const plan *p, const tensor *t, int n)
{
    bool vocabulary = p->vocab > FIRST_PIECE;
    put(w, "GGUF", 4);
    put_u32(w, 3);
    put_u64(w, (uint64_t)n);
    put_u64(w, 12 + (vocabulary ? 7 : 0));
    meta_str(w, "general.architecture", "llama");
    meta_str(w, "general.name", "random weights");
    meta_u32(w, "llama.block_count", p->layers);
    meta_u32(w, "llama.context_length", p->context);
    meta_u32(w, "llama.embedding_length", p->width);
    meta_u32(w, "llama.feed_forward_length", p->ffn);
    meta_u32(w, "llama.attention.head_count", p->heads);
    meta_u32(w, "llama.attention.head_count_kv", p->kv_heads);
    meta_u32(w, "llama.rope.dimension_count", p->rope_dim);
    meta_f32(w, "llama.rope.freq_base", 10000);
    meta_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    meta_u32(w, "llama.vocab_size", p->vocab);
    if (vocabulary)
        write_vocabulary(w, p);
    for (int i = 0; i < n; i++) {
        put_str(w, t[i].name);
        put_u32(w, t[i].rows ? 2 : 1);
        put_u64(w, (uint64_t)t[i].cols); /* GGUF lists the innermost extent first */
        if (t[i].rows)
            put_u64(w, (uint64_t)t[i].rows);
        put_u32(w, t[i].type->id);
        put_u64(w, t[i].offset);
    }
}

static uint64_t tensor_bytes(const tensor *t)
{
    return (uint64_t)(t->rows ? t->rows : 1) * row_bytes(t->type, t->cols);
}

static void add(tensor *t, int *n, const row_type *type, int64_t layer, const char *name, int64_t rows, int64_t cols)
{
    tensor *x = &t[*n];
    uint64_t end = *n ? t[*n - 1].offset + tensor_bytes(&t[*n - 1]) : 0;
    if (layer >= 0)
        snprintf(x->name, sizeof x->name, "blk.%lld.%s.weight", (long long)layer, name);
    else
        snprintf(x->name, sizeof x->name, "%s.weight", name);
    x->rows = rows;
    x->cols = cols;
    /* Norms are f32; a row that is no multiple of the block is f16, as the usual converters do. */
    x->type = rows == 0 ? &types[TYPE_F32] : cols % weft_dtype_block(type->dtype) ? &types[TYPE_F16] : type;
    x->offset = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    (*n)++;
}

static int list_tensors(const plan *p, const row_type *type, tensor *t)
{
    int64_t q = p->heads * p->head_dim, kv = p->kv_heads * p->head_dim;
    int n = 0;
    add(t, &n, type, -1, "token_embd", p->vocab, p->width);
    add(t, &n, type, -1, "output_norm", 0, p->width);
    if (p->untied)
        add(t, &n, type, -1, "output", p->vocab, p->width);
    for (int64_t i = 0; i < p->layers; i++) {
        add(t, &n, type, i, "attn_norm", 0, p->width);
        add(t, &n, type, i, "attn_q", q, p->width);
        add(t, &n, type, i, "attn_k", kv, p->width);
        add(t, &n, type, i, "attn_v", kv, p->width);
        add(t, &n, type, i, "attn_output", p->width, q);
        add(t, &n, type, i, "ffn_norm", 0, p->width);
        add(t, &n, type, i, "ffn_gate", p->ffn, p->width);
        add(t, &n, type, i, "ffn_up", p->ffn, p->width);
        add(t, &n, type, i, "ffn_down", p->width, p->ffn);
    }
    return n;
}

static int write_data(writer *w, const plan *p, const tensor *t, int n)
{
    int64_t longest = 0;
    for (int i = 0; i < n; i++)
        longest = t[i].cols > longest ? t[i].cols : longest;
    float *row = malloc((size_t)longest * sizeof *row);
    uint8_t *coded = malloc((size_t)longest * 4);
    int code = row && coded ? CLI_OK : cli_fail("out of memory: %lld floats", (long long)longest);
    pad(w);
    for (int i = 0; code == CLI_OK && i < n; i++) {
        const row_type *type = t[i].type;
        size_t bytes = row_bytes(type, t[i].cols);
        pad(w);
        cli_progress("writing", (double)i / n);
        for (int64_t r = 0; code == CLI_OK && r < (t[i].rows ? t[i].rows : 1); r++) {
            fill_row(p, (uint64_t)i, &t[i], r, row);
            if (weft_quantize_rows(type->dtype, 1, t[i].cols, row, coded) != WEFT_OK)
                code = cli_fail_last();
            put(w, coded, bytes);
        }
        if (w->err && code == CLI_OK)
            code = cli_fail("%s: cannot write: %s", w->path, strerror(w->err));
    }
    pad(w);
    cli_progress(NULL, -1);
    free(row);
    free(coded);
    return code;
}

static int write_model(const char *path, const plan *p, const row_type *type)
{
    tensor *t = calloc((size_t)(9 * p->layers + 3), sizeof *t);
    writer w = {0};
    cli_file file;
    if (!t)
        return cli_fail("out of memory: %lld layers", (long long)p->layers);
    int n = list_tensors(p, type, t), code;
    code = cli_file_begin(path, &file);
    if (code == CLI_OK) {
        w.path = path;
        w.f = file.stream;
        write_header(&w, p, t, n);
        code = cli_file_end(&file, write_data(&w, p, t, n));
    }
    free(t);
    return code;
}

static int check(plan *p, const row_type **type)
{
    *type = NULL;
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(weft_dtype_name(types[i].dtype), p->type) == 0)
            *type = &types[i];
    if (!*type)
        return cli_usage("make-model: --type is \"%s\", expected f32, f16, bf16, q8_0, q4_0 or q4_1", p->type);
    if (p->head_dim == 0 && p->width % p->heads != 0)
        return cli_usage("make-model: width %lld is not a multiple of %lld heads", (long long)p->width, (long long)p->heads);
    if (p->head_dim == 0)
        p->head_dim = p->width / p->heads;
    if (p->kv_heads == 0)
        p->kv_heads = p->heads;
    if (p->heads % p->kv_heads != 0)
        return cli_usage("make-model: %lld heads are not a multiple of %lld key and value heads", (long long)p->heads,
                         (long long)p->kv_heads);
    if (p->rope_dim < 0)
        p->rope_dim = p->head_dim / 2 * 2;
    if (p->rope_dim % 2 || p->rope_dim > p->head_dim)
        return cli_usage("make-model: --rope-dim %lld must be even and at most %lld", (long long)p->rope_dim, (long long)p->head_dim);
    return CLI_OK;
}

int cmd_make_model(int argc, char **argv)
{
    plan p = {.layers = 4, .width = 256, .heads = 8, .ffn = 688, .vocab = 1024, .rope_dim = -1, .context = 2048, .seed = 1,
              .type = "f16"};
    const char *path;
    const cli_option options[] = {
        {"--layers", CLI_INT, &p.layers, 1, 1000, "N", "blocks (default 4)"},
        {"--width", CLI_INT, &p.width, 1, 65536, "N", "embedding length (default 256)"},
        {"--heads", CLI_INT, &p.heads, 1, 1024, "N", "query heads (default 8)"},
        {"--kv-heads", CLI_INT, &p.kv_heads, 1, 1024, "N", "key and value heads (default: as heads)"},
        {"--head-dim", CLI_INT, &p.head_dim, 1, 4096, "N", "components of a head (default: width / heads)"},
        {"--ffn", CLI_INT, &p.ffn, 1, 262144, "N", "feed-forward length (default 688)"},
        {"--vocab", CLI_INT, &p.vocab, 2, 1000000, "N", "tokens (default 1024); above 259 the file holds a tokenizer"},
        {"--context", CLI_INT, &p.context, 1, 1 << 20, "N", "trained context (default 2048)"},
        {"--rope-dim", CLI_INT, &p.rope_dim, 0, 4096, "N", "components that turn (default: the whole head)"},
        {"--type", CLI_STR, &p.type, 0, 0, "TYPE", "f32, f16, bf16, q8_0, q4_0 or q4_1 (default f16)"},
        {"--untied", CLI_FLAG, &p.untied, 0, 0, NULL, "an output matrix of its own"},
        {"--seed", CLI_U64, &p.seed, 0, 0, "S", "seed of the weights (default 1)"},
    };
    const row_type *type;
    int code = cli_parse(cli_command_named("make-model"), argc, argv, options, sizeof options / sizeof options[0], &path, 1, 1);
    if (code != CLI_OK)
        return code == CLI_HELP ? CLI_OK : code;
    code = check(&p, &type);
    return code == CLI_OK ? write_model(path, &p, type) : code;
}
