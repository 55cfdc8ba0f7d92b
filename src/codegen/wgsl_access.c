/* wgsl_access.c - bindings in WGSL: declarations, and the functions through which a kernel loads and
 * stores elements of every dtype.
 *
 * WebGPU's smallest storage word has 32 bits, so f16, bf16, i8, u8, bool and block types lie packed in
 * array<u32>. A store of part of a word is either one of a whole word that the invocation owns, or an
 * atomic AND and OR that leaves the neighbours alone. Vector bindings (array<vec4<..>>) hold what an
 * invocation takes at once.
 */
#include "wgsl_gen.h"

#include <stdio.h>

int wf_wgsl_elem_bits(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_DTYPE_F16:
    case WEFT_DTYPE_BF16: return 16;
    case WEFT_DTYPE_I8:
    case WEFT_DTYPE_U8:
    case WEFT_DTYPE_BOOL:
    case WEFT_DTYPE_Q8_0: return 8;
    case WEFT_DTYPE_Q4_0:
    case WEFT_DTYPE_Q4_1: return 4;
    default: return 32;
    }
}

static const char *storage_type(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_DTYPE_F32: return "f32";
    case WEFT_DTYPE_I32: return "i32";
    default: return "u32";
    }
}

wf_wgsl_store wf_wgsl_store_of(const wf_wgsl_gen *g, int bind)
{
    const wf_kbind *b = &g->k->bind[bind];
    int bits = wf_wgsl_elem_bits((weft_dtype)b->dtype);
    if (!(b->access & WF_ACCESS_WRITE))
        return WF_WGSL_STORE_ELEMENT;
    if (b->linear && g->form == WF_WGSL_LANES && g->width > 1 && g->width * bits >= 32)
        return WF_WGSL_STORE_LANES;
    if (bits == 32)
        return WF_WGSL_STORE_ELEMENT;
    return b->linear && g->form == WF_WGSL_WORDS ? WF_WGSL_STORE_WORD : WF_WGSL_STORE_ATOMIC;
}

static bool takes_vectors(const wf_wgsl_gen *g, int bind)
{
    const wf_kbind *b = &g->k->bind[bind];
    if (b->access & WF_ACCESS_WRITE)
        return wf_wgsl_store_of(g, bind) == WF_WGSL_STORE_LANES;
    return b->wide && g->form == WF_WGSL_LANES && g->width > 1 && !weft_dtype_is_quantised((weft_dtype)b->dtype) &&
           g->width * wf_wgsl_elem_bits((weft_dtype)b->dtype) >= 32;
}

int wf_wgsl_vector_words(const wf_wgsl_gen *g, int bind)
{
    return takes_vectors(g, bind) ? g->width * wf_wgsl_elem_bits((weft_dtype)g->k->bind[bind].dtype) / 32 : 1;
}

bool wf_wgsl_loads_wide(const wf_wgsl_gen *g, const wf_kinstr *load)
{
    return takes_vectors(g, load->slot) && g->k->bind[load->slot].wide && g->k->instr[load->a].op == WF_KOP_AFFINE;
}

/* ---- declarations ---- */

static void declare(uint32_t index, const wf_kbind *b, bool atomic, int vector_words, wf_str *out)
{
    const char *type = atomic ? "u32" : storage_type((weft_dtype)b->dtype);
    wf_str_addf(out, "@group(0) @binding(%u) var<storage, %s> b%u: array<", index,
                b->access == WF_ACCESS_READ ? "read" : "read_write", index);
    if (atomic)
        wf_str_addf(out, "atomic<%s>", type);
    else if (vector_words > 1)
        wf_str_addf(out, "vec%d<%s>", vector_words, type);
    else
        wf_str_add(out, type);
    wf_str_add(out, ">;\n");
}

void wf_wgsl_emit_binding(uint32_t index, const wf_kbind *b, bool atomic, wf_str *out)
{
    declare(index, b, atomic, 1, out);
}

void wf_wgsl_emit_bindings(const wf_wgsl_gen *g, wf_str *out)
{
    for (int i = 0; i < g->k->n_bind; i++)
        declare(g->bind_base + (uint32_t)i, &g->k->bind[i], wf_wgsl_store_of(g, i) == WF_WGSL_STORE_ATOMIC,
                wf_wgsl_vector_words(g, i), out);
    if (g->k->has_error) {
        wf_kbind error = {.dtype = WEFT_DTYPE_U32, .access = WF_ACCESS_READ_WRITE};
        declare(g->bind_base + g->k->n_bind, &error, true, 1, out);
    }
    uint32_t next = g->bind_base + g->k->n_bind + g->k->has_error;
    for (int i = 0; i < g->k->n_bind; i++)
        for (int c = 1; c < g->k->bind[i].chunks; c++)
            declare(next++, &g->k->bind[i], false, 1, out);
}

void wf_wgsl_emit_params(uint32_t n_bind, uint32_t n_static, wf_str *out)
{
    (void)n_static; /* the window is always whole: the binding's size is fixed */
    wf_str_addf(out,
                "@group(0) @binding(%u) var<uniform> P: array<vec4<i32>, 64>;\n"
                "@group(0) @binding(%u) var<uniform> S: array<vec4<u32>, 256>;\n"
                "fn p(i: u32) -> i32 { return P[i >> 2u][i & 3u]; }\n"
                "fn step(i: i32) -> u32 { return S[u32(i) >> 2u][u32(i) & 3u]; }\n",
                n_bind, n_bind + 1);
}

/* ---- loads ---- */

/* wordN(i): a word of an operand that lies in several bindings. */
static void emit_chunk_function(const wf_wgsl_gen *g, int bind)
{
    const wf_kbind *b = &g->k->bind[bind];
    unsigned n = g->bind_base + (unsigned)bind, next = g->bind_base + g->k->n_bind + g->k->has_error;
    char words[32];
    for (int i = 0; i < bind; i++)
        next += g->k->bind[i].chunks > 1 ? g->k->bind[i].chunks - 1u : 0u;
    wf_str_addf(g->out, "fn word%u(i: u32) -> %s {\n    let c = u32(%s);\n    if (i < c) { return b%u[i]; }\n", n,
                storage_type((weft_dtype)b->dtype), wf_wgsl_word(g, b->chunk_slot, words), n);
    for (unsigned k = 1; k + 1 < b->chunks; k++)
        wf_str_addf(g->out, "    if (i < %uu * c) { return b%u[i - %uu * c]; }\n", k + 1, next + k - 1, k);
    wf_str_addf(g->out, "    return b%u[i - %uu * c];\n", next + b->chunks - 2u, b->chunks - 1u);
    wf_str_add(g->out, "}\n");
}

/* A 32-bit word of a binding, by word index. */
static void word_at(const wf_wgsl_gen *g, int bind, const char *index, wf_str *out)
{
    unsigned n = g->bind_base + (unsigned)bind;
    int words = wf_wgsl_vector_words(g, bind);
    if (wf_wgsl_store_of(g, bind) == WF_WGSL_STORE_ATOMIC)
        wf_str_addf(out, "atomicLoad(&b%u[%s])", n, index);
    else if (g->k->bind[bind].chunks > 1)
        wf_str_addf(out, "word%u(%s)", n, index);
    else if (words > 1)
        wf_str_addf(out, "b%u[(%s) >> %du][(%s) & %du]", n, index, words == 4 ? 2 : 1, index, words - 1);
    else
        wf_str_addf(out, "b%u[%s]", n, index);
}

/* The value in the low bits of the u32 `word` (bits above it may be set for i8 only). */
static void decode(weft_dtype dtype, const char *word, wf_str *out)
{
    switch (dtype) {
    case WEFT_DTYPE_F16: wf_str_addf(out, "wf_f16_to_f32((%s) & 0xffffu)", word); break;
    case WEFT_DTYPE_BF16: wf_str_addf(out, "wf_bf16_to_f32(%s)", word); break;
    case WEFT_DTYPE_I8: wf_str_addf(out, "(bitcast<i32>((%s) << 24u) >> 24u)", word); break;
    case WEFT_DTYPE_U8: wf_str_addf(out, "((%s) & 0xffu)", word); break;
    case WEFT_DTYPE_BOOL: wf_str_addf(out, "(((%s) & 0xffu) != 0u)", word); break;
    default: wf_str_add(out, word); break;
    }
}

/* Block types. byteN(i) and halfN(i) read the byte and the f16 at byte position i. */
static void emit_block_load(const wf_wgsl_gen *g, int bind)
{
    const wf_kbind *b = &g->k->bind[bind];
    unsigned n = g->bind_base + (unsigned)bind;
    bool q8 = b->dtype == WEFT_DTYPE_Q8_0, has_min = b->dtype == WEFT_DTYPE_Q4_1;
    unsigned block_bytes = (unsigned)weft_dtype_block_bytes((weft_dtype)b->dtype), head = has_min ? 4 : 2;
    unsigned quant_bytes = q8 ? 32 : 16;
    char scale[32], minimum[32];
    wf_str_addf(g->out, "fn byte%u(i: u32) -> u32 { return (", n);
    word_at(g, bind, "i >> 2u", g->out);
    wf_str_addf(g->out, " >> ((i & 3u) << 3u)) & 0xffu; }\nfn half%u(i: u32) -> f32 { return wf_f16_to_f32((", n);
    word_at(g, bind, "i >> 2u", g->out);
    wf_str_addf(g->out,
                " >> ((i & 2u) << 3u)) & 0xffffu); }\n"
                "fn ld%u(i: i32) -> f32 {\n"
                "    let block = u32(i) >> 5u;\n"
                "    let j = u32(i) & 31u;\n",
                n);
    if (b->layout == WF_LAYOUT_PLANAR)
        wf_str_addf(g->out,
                    "    let q_at = block * %uu;\n"
                    "    let d = half%u(u32(%s) + block * 2u);\n",
                    quant_bytes, n, wf_wgsl_word(g, b->plane_slot, scale));
    else
        wf_str_addf(g->out, "    let q_at = block * %uu + %uu;\n    let d = half%u(block * %uu);\n", block_bytes, head, n,
                    block_bytes);
    if (has_min && b->layout == WF_LAYOUT_PLANAR)
        wf_str_addf(g->out, "    let m = half%u(u32(%s) + block * 2u);\n", n,
                    wf_wgsl_word(g, b->plane_slot + 1u, minimum));
    else if (has_min)
        wf_str_addf(g->out, "    let m = half%u(block * %uu + 2u);\n", n, block_bytes);
    if (q8)
        wf_str_addf(g->out, "    return f32(bitcast<i32>(byte%u(q_at + j) << 24u) >> 24u) * d;\n}\n", n);
    else
        wf_str_addf(g->out,
                    "    let q = (byte%u(q_at + (j & 15u)) >> ((j >> 4u) << 2u)) & 15u;\n"
                    "    return %s;\n}\n",
                    n, has_min ? "f32(q) * d + m" : "f32(i32(q) - 8) * d");
}

static void emit_load_function(const wf_wgsl_gen *g, int bind)
{
    const wf_kbind *b = &g->k->bind[bind];
    weft_dtype dtype = (weft_dtype)b->dtype;
    unsigned n = g->bind_base + (unsigned)bind;
    int bits = wf_wgsl_elem_bits(dtype);
    if (weft_dtype_is_quantised(dtype)) {
        emit_block_load(g, bind);
        return;
    }
    wf_str_addf(g->out, "fn ld%u(i: i32) -> %s { ", n, wf_wgsl_type(wf_kty_of_dtype(dtype)));
    if (bits == 32) {
        wf_str_add(g->out, "return ");
        word_at(g, bind, "u32(i)", g->out);
    } else {
        wf_str_add(g->out, "let w = ");
        word_at(g, bind, bits == 16 ? "u32(i) >> 1u" : "u32(i) >> 2u", g->out);
        wf_str_add(g->out, "; return ");
        decode(dtype, bits == 16 ? "w >> ((u32(i) & 1u) << 4u)" : "w >> ((u32(i) & 3u) << 3u)", g->out);
    }
    wf_str_add(g->out, "; }\n");
}

/* All lanes at once, from the element index of the first. */
static void emit_wide_load_function(const wf_wgsl_gen *g, int bind)
{
    weft_dtype dtype = (weft_dtype)g->k->bind[bind].dtype;
    unsigned n = g->bind_base + (unsigned)bind;
    int bits = wf_wgsl_elem_bits(dtype), words = wf_wgsl_vector_words(g, bind);
    wf_str_addf(g->out, "fn ldw%u(i: i32) -> ", n);
    wf_wgsl_type_n(wf_kty_of_dtype(dtype), g->width, g->out);
    if (bits == 32) {
        wf_str_addf(g->out, " { return b%u[u32(i) >> %du]; }\n", n, g->width == 4 ? 2 : 1);
        return;
    }
    wf_str_addf(g->out, " {\n    let w = b%u[u32(i) >> %du];\n    return ", n, g->width == 4 ? 2 : 1);
    wf_wgsl_type_n(wf_kty_of_dtype(dtype), g->width, g->out);
    for (int lane = 0; lane < g->width; lane++) {
        char component[4] = "", word[24];
        if (words > 1)
            snprintf(component, sizeof component, ".%c", "xyzw"[lane * bits / 32]);
        snprintf(word, sizeof word, "w%s >> %du", component, lane * bits % 32);
        wf_str_add(g->out, lane ? ", " : "(");
        decode(dtype, word, g->out);
    }
    wf_str_add(g->out, ");\n}\n");
}

/* ---- stores ---- */

void wf_wgsl_bits(weft_dtype dtype, const char *value, wf_str *out)
{
    switch (dtype) {
    case WEFT_DTYPE_F16: wf_str_addf(out, "wf_f32_to_f16(%s)", value); break;
    case WEFT_DTYPE_BF16: wf_str_addf(out, "wf_f32_to_bf16(%s)", value); break;
    case WEFT_DTYPE_I8: wf_str_addf(out, "(u32(%s) & 0xffu)", value); break;
    case WEFT_DTYPE_U8: wf_str_addf(out, "(%s & 0xffu)", value); break;
    case WEFT_DTYPE_BOOL: wf_str_addf(out, "select(0u, 1u, %s)", value); break;
    default: wf_str_add(out, value); break;
    }
}

static void emit_atomic_store(const wf_wgsl_gen *g, int bind)
{
    weft_dtype dtype = (weft_dtype)g->k->bind[bind].dtype;
    unsigned n = g->bind_base + (unsigned)bind;
    bool half = wf_wgsl_elem_bits(dtype) == 16;
    wf_str_addf(g->out,
                "fn st%u(i: i32, v: %s) {\n"
                "    let s = (u32(i) & %uu) << %uu;\n"
                "    atomicAnd(&b%u[u32(i) >> %uu], ~(%s << s));\n"
                "    atomicOr(&b%u[u32(i) >> %uu], ",
                n, wf_wgsl_type(wf_kty_of_dtype(dtype)), half ? 1u : 3u, half ? 4u : 3u, n, half ? 1u : 2u,
                half ? "0xffffu" : "0xffu", n, half ? 1u : 2u);
    wf_wgsl_bits(dtype, "v", g->out);
    wf_str_add(g->out, " << s);\n}\n");
}

/* stwN(i, v): the lanes of v, which fill element i of the vector binding. */
static void emit_lanes_store(const wf_wgsl_gen *g, int bind)
{
    weft_dtype dtype = (weft_dtype)g->k->bind[bind].dtype;
    unsigned n = g->bind_base + (unsigned)bind;
    int bits = wf_wgsl_elem_bits(dtype), words = wf_wgsl_vector_words(g, bind), per_word = 32 / bits;
    wf_str_addf(g->out, "fn stw%u(i: u32, v: ", n);
    wf_wgsl_type_n(wf_kty_of_dtype(dtype), g->width, g->out);
    wf_str_addf(g->out, ") { b%u[i] = ", n);
    if (bits == 32) {
        wf_str_add(g->out, "v; }\n");
        return;
    }
    wf_str_addf(g->out, words > 1 ? "vec%d<u32>(" : "(", words);
    for (int lane = 0; lane < g->width; lane++) {
        char value[] = "v.x";
        value[2] = "xyzw"[lane];
        wf_str_add(g->out, lane == 0 ? "" : lane % per_word == 0 ? ", " : " | ");
        wf_str_add(g->out, "(");
        wf_wgsl_bits(dtype, value, g->out);
        wf_str_addf(g->out, " << %du)", lane % per_word * bits);
    }
    wf_str_add(g->out, "); }\n");
}

void wf_wgsl_emit_access(const wf_wgsl_gen *g)
{
    for (int bind = 0; bind < g->k->n_bind; bind++) {
        bool loads = false, loads_wide = false, stores = false;
        for (int i = 0; i < g->k->n_instr; i++) {
            const wf_kinstr *in = &g->k->instr[i];
            if (in->op == WF_KOP_LOAD && in->slot == bind)
                *(wf_wgsl_loads_wide(g, in) ? &loads_wide : &loads) = true;
            stores |= in->op == WF_KOP_STORE && in->slot == bind;
        }
        if (g->k->bind[bind].chunks > 1)
            emit_chunk_function(g, bind);
        if (loads)
            emit_load_function(g, bind);
        if (loads_wide)
            emit_wide_load_function(g, bind);
        if (stores && wf_wgsl_store_of(g, bind) == WF_WGSL_STORE_ATOMIC)
            emit_atomic_store(g, bind);
        if (stores && wf_wgsl_store_of(g, bind) == WF_WGSL_STORE_LANES)
            emit_lanes_store(g, bind);
    }
}
