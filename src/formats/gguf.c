/* gguf.c - the header of GGUF versions 2 and 3, little endian.
 *
 * magic, version, counts; then keys with typed values; then tensor names, shapes, types and offsets;
 * then, at the next multiple of the alignment, the bytes. Every count is compared with what is left
 * of the file before anything is allocated for it, and tables grow with what was really read.
 * Source: the GGUF specification of project ggml (docs/gguf.md).
 */
#include "parsed_file.h"

const wf_gguf_type_info wf_gguf_types[WF_GGUF_TYPE_COUNT] = {
    [WF_GGUF_U8] = {"u8", "array<u8>", WEFT_META_UINT, 1},
    [WF_GGUF_I8] = {"i8", "array<i8>", WEFT_META_INT, 1},
    [WF_GGUF_U16] = {"u16", "array<u16>", WEFT_META_UINT, 2},
    [WF_GGUF_I16] = {"i16", "array<i16>", WEFT_META_INT, 2},
    [WF_GGUF_U32] = {"u32", "array<u32>", WEFT_META_UINT, 4},
    [WF_GGUF_I32] = {"i32", "array<i32>", WEFT_META_INT, 4},
    [WF_GGUF_F32] = {"f32", "array<f32>", WEFT_META_FLOAT, 4},
    [WF_GGUF_BOOL] = {"bool", "array<bool>", WEFT_META_BOOL, 1},
    [WF_GGUF_STRING] = {"string", "array<string>", WEFT_META_STRING, 8},
    [WF_GGUF_ARRAY] = {"array", "array<array>", WEFT_META_ARRAY, 0},
    [WF_GGUF_U64] = {"u64", "array<u64>", WEFT_META_UINT, 8},
    [WF_GGUF_I64] = {"i64", "array<i64>", WEFT_META_INT, 8},
    [WF_GGUF_F64] = {"f64", "array<f64>", WEFT_META_FLOAT, 8},
};

/* Tensor types by their number in the file. Numbers that the format has withdrawn have no name. */
static const struct tensor_type {
    const char *name;
    uint16_t block, block_bytes;
    int16_t dtype; /* weft_dtype, or -1 */
} tensor_types[] = {
    [0] = {"F32", 1, 4, WEFT_DTYPE_F32},
    [1] = {"F16", 1, 2, WEFT_DTYPE_F16},
    [2] = {"Q4_0", 32, 18, WEFT_DTYPE_Q4_0},
    [3] = {"Q4_1", 32, 20, WEFT_DTYPE_Q4_1},
    [6] = {"Q5_0", 32, 22, -1},
    [7] = {"Q5_1", 32, 24, -1},
    [8] = {"Q8_0", 32, 34, WEFT_DTYPE_Q8_0},
    [9] = {"Q8_1", 32, 36, -1},
    [10] = {"Q2_K", 256, 84, -1},
    [11] = {"Q3_K", 256, 110, -1},
    [12] = {"Q4_K", 256, 144, -1},
    [13] = {"Q5_K", 256, 176, -1},
    [14] = {"Q6_K", 256, 210, -1},
    [15] = {"Q8_K", 256, 292, -1},
    [16] = {"IQ2_XXS", 256, 66, -1},
    [17] = {"IQ2_XS", 256, 74, -1},
    [18] = {"IQ3_XXS", 256, 98, -1},
    [19] = {"IQ1_S", 256, 50, -1},
    [20] = {"IQ4_NL", 32, 18, -1},
    [21] = {"IQ3_S", 256, 110, -1},
    [22] = {"IQ2_S", 256, 82, -1},
    [23] = {"IQ4_XS", 256, 136, -1},
    [24] = {"I8", 1, 1, WEFT_DTYPE_I8},
    [25] = {"I16", 1, 2, -1},
    [26] = {"I32", 1, 4, WEFT_DTYPE_I32},
    [27] = {"I64", 1, 8, WEFT_DTYPE_I64},
    [28] = {"F64", 1, 8, WEFT_DTYPE_F64},
    [29] = {"IQ1_M", 256, 56, -1},
    [30] = {"BF16", 1, 2, WEFT_DTYPE_BF16},
    [34] = {"TQ1_0", 256, 54, -1},
    [35] = {"TQ2_0", 256, 66, -1},
    [39] = {"MXFP4", 32, 17, -1},
    [40] = {"NVFP4", 64, 36, -1},
};

enum { MAX_DIMS = 4, DEFAULT_ALIGNMENT = 32 };
/* The fewest bytes that one of these can take: what bounds their count by the file's size. */
enum { LEAST_KEY_BYTES = 8 + 4 + 1, LEAST_TENSOR_BYTES = 8 + 4 + 4 + 8 };

typedef struct cursor {
    weft_file *file;
    uint64_t at;
} cursor;

static uint64_t left(const cursor *c)
{
    return c->file->reader.size_bytes - c->at;
}

static weft_status take(cursor *c, uint64_t n, const char *what, const uint8_t **out)
{
    WF_TRY(wf_file_head(c->file, c->at, n, what, out));
    c->at += n;
    return WEFT_OK;
}

static weft_status take_u32(cursor *c, const char *what, uint32_t *out)
{
    const uint8_t *p;
    WF_TRY(take(c, 4, what, &p));
    *out = wf_load_le32(p);
    return WEFT_OK;
}

static weft_status take_u64(cursor *c, const char *what, uint64_t *out)
{
    const uint8_t *p;
    WF_TRY(take(c, 8, what, &p));
    *out = wf_load_le64(p);
    return WEFT_OK;
}

/* A length and that many bytes; *at is where the bytes begin. */
static weft_status skip_string(cursor *c, const char *what, uint64_t *at, uint64_t *n)
{
    const uint8_t *p;
    WF_TRY(take_u64(c, what, n));
    *at = c->at;
    return take(c, *n, what, &p);
}

/* A key or a tensor name, copied with a NUL behind it. */
static weft_status take_name(cursor *c, const char *what, const char **out)
{
    uint64_t at, n;
    WF_TRY(skip_string(c, what, &at, &n));
    if (n > 65535)
        return wf_fail(WEFT_E_FORMAT, "gguf: %s at byte %llu has %llu bytes, at most 65535", what,
                       (unsigned long long)at, (unsigned long long)n);
    if (memchr(wf_file_known(c->file, at), 0, (size_t)n))
        return wf_fail(WEFT_E_FORMAT, "gguf: %s at byte %llu holds a zero byte", what, (unsigned long long)at);
    char *name = wf_arena_alloc(&c->file->arena, (size_t)n + 1);
    if (!name)
        return WEFT_E_OOM;
    memcpy(name, wf_file_known(c->file, at), (size_t)n);
    *out = name;
    return WEFT_OK;
}

static weft_status check_bools(const wf_meta_entry *e, const uint8_t *p)
{
    for (uint64_t i = 0; i < e->count; i++)
        if (p[i] > 1)
            return wf_fail(WEFT_E_FORMAT, "gguf: \"%s\" is a bool of value %u", e->key, p[i]);
    return WEFT_OK;
}

static weft_status take_strings(cursor *c, wf_meta_entry *e)
{
    /* e->count <= left / 8, so the table is no larger than the rest of the file. */
    uint64_t *strings = wf_arena_alloc(&c->file->arena, (size_t)e->count * sizeof *strings);
    if (!strings)
        return WEFT_E_OOM;
    for (uint64_t i = 0, at, n; i < e->count; i++) {
        strings[i] = c->at;
        WF_TRY(skip_string(c, e->key, &at, &n));
    }
    e->strings = strings;
    return WEFT_OK;
}

static weft_status take_value(cursor *c, wf_meta_entry *e)
{
    const uint8_t *p;
    uint32_t type;
    WF_TRY(take_u32(c, e->key, &type));
    e->count = 1;
    if (type == WF_GGUF_ARRAY) {
        e->is_array = true;
        WF_TRY(take_u32(c, e->key, &type));
        WF_TRY(take_u64(c, e->key, &e->count));
        if (type == WF_GGUF_ARRAY)
            return wf_fail(WEFT_E_FORMAT, "gguf: \"%s\" is an array of arrays", e->key);
    }
    if (type >= WF_GGUF_TYPE_COUNT)
        return wf_fail(WEFT_E_FORMAT, "gguf: \"%s\" has type %u, known are 0 .. %d", e->key, type,
                       WF_GGUF_TYPE_COUNT - 1);
    e->type = (uint8_t)type;
    uint64_t element_bytes = (uint64_t)wf_gguf_types[type].bytes;
    if (e->count > left(c) / element_bytes)
        return wf_fail(WEFT_E_FORMAT, "gguf: \"%s\" has %llu elements of at least %llu bytes, the file has %llu left",
                       e->key, (unsigned long long)e->count, (unsigned long long)element_bytes,
                       (unsigned long long)left(c));
    e->at = c->at;
    if (type == WF_GGUF_STRING)
        return e->is_array ? take_strings(c, e) : skip_string(c, e->key, &e->at, &e->n);
    WF_TRY(take(c, e->count * element_bytes, e->key, &p));
    return type == WF_GGUF_BOOL ? check_bools(e, p) : WEFT_OK;
}

static weft_status take_metas(cursor *c, uint64_t n)
{
    weft_file *f = c->file;
    for (uint64_t i = 0; i < n; i++) {
        wf_meta_entry e = {0};
        WF_TRY(take_name(c, "a key", &e.key));
        WF_TRY(take_value(c, &e));
        WF_TRY(wf_grow((void **)&f->metas, &f->cap_metas, f->n_metas + 1, sizeof *f->metas));
        f->metas[f->n_metas++] = e;
    }
    return WEFT_OK;
}

static weft_status find_alignment(const weft_file *f, uint32_t *out)
{
    *out = DEFAULT_ALIGNMENT;
    for (size_t i = 0; i < f->n_metas; i++) {
        const wf_meta_entry *e = &f->metas[i];
        if (strcmp(e->key, "general.alignment") != 0)
            continue;
        if (e->type != WF_GGUF_U32 || e->is_array)
            return wf_fail(WEFT_E_FORMAT, "gguf: general.alignment is %s, expected u32", wf_gguf_types[e->type].name);
        *out = wf_load_le32(wf_file_known(f, e->at));
        if (*out == 0 || (*out & (*out - 1)))
            return wf_fail(WEFT_E_FORMAT, "gguf: general.alignment is %u, expected a power of two", *out);
    }
    return WEFT_OK;
}

/* Bytes of a tensor; the count of elements and the product are checked. */
static weft_status tensor_bytes(const weft_file_tensor *t, const struct tensor_type *type, uint64_t *out)
{
    int64_t numel = 1, bytes;
    for (int k = 0; k < t->rank; k++)
        if (!wf_mul_i64(numel, t->shape[k], &numel))
            return wf_fail(WEFT_E_FORMAT, "gguf: tensor \"%s\" has more than 2^63 elements", t->name);
    int64_t row = t->rank ? t->shape[t->rank - 1] : 1;
    if (row % type->block)
        return wf_fail(WEFT_E_FORMAT, "gguf: tensor \"%s\" has rows of %lld elements, %s needs a multiple of %d",
                       t->name, (long long)row, type->name, type->block);
    if (!wf_mul_i64(numel / type->block, type->block_bytes, &bytes))
        return wf_fail(WEFT_E_FORMAT, "gguf: tensor \"%s\" has more than 2^63 bytes", t->name);
    *out = (uint64_t)bytes;
    return WEFT_OK;
}

/* Everything but the check of the place, which needs the end of the header. */
static weft_status take_tensor(cursor *c, weft_file_tensor *t)
{
    uint32_t n_dims, type;
    WF_TRY(take_name(c, "a tensor name", &t->name));
    WF_TRY(take_u32(c, t->name, &n_dims));
    if (n_dims > MAX_DIMS)
        return wf_fail(WEFT_E_FORMAT, "gguf: tensor \"%s\" has %u dimensions, at most %d", t->name, n_dims, MAX_DIMS);
    t->rank = (int)n_dims;
    for (int k = t->rank - 1; k >= 0; k--) { /* innermost first in the file */
        uint64_t extent;
        WF_TRY(take_u64(c, t->name, &extent));
        if (extent > INT64_MAX)
            return wf_fail(WEFT_E_FORMAT, "gguf: tensor \"%s\" has an extent of %llu", t->name,
                           (unsigned long long)extent);
        t->shape[k] = (int64_t)extent;
    }
    WF_TRY(take_u32(c, t->name, &type));
    if (type >= WF_COUNT(tensor_types) || !tensor_types[type].name)
        return wf_fail(WEFT_E_FORMAT, "gguf: tensor \"%s\" has type %u, which is no tensor type", t->name, type);
    t->type_name = tensor_types[type].name;
    t->known = tensor_types[type].dtype >= 0;
    t->dtype = t->known ? (weft_dtype)tensor_types[type].dtype : WEFT_DTYPE_U8;
    WF_TRY(tensor_bytes(t, &tensor_types[type], &t->size_bytes));
    return take_u64(c, t->name, &t->offset);
}

static weft_status take_tensors(cursor *c, uint64_t n)
{
    weft_file *f = c->file;
    for (uint64_t i = 0; i < n; i++) {
        weft_file_tensor t = {0};
        WF_TRY(take_tensor(c, &t));
        WF_TRY(wf_grow((void **)&f->tensors, &f->cap_tensors, f->n_tensors + 1, sizeof *f->tensors));
        f->tensors[f->n_tensors++] = t;
    }
    return WEFT_OK;
}

/* Offsets in the file count from the data section; afterwards from the beginning. */
static weft_status place_tensors(weft_file *f, uint64_t header_end, uint32_t alignment)
{
    uint64_t size = f->reader.size_bytes, data = wf_align_up(header_end, alignment);
    for (size_t i = 0; i < f->n_tensors; i++) {
        weft_file_tensor *t = &f->tensors[i];
        if (t->offset % alignment)
            return wf_fail(WEFT_E_FORMAT, "gguf: tensor \"%s\" has offset %llu, expected a multiple of %u", t->name,
                           (unsigned long long)t->offset, alignment);
        if (data > size || t->offset > size - data || t->size_bytes > size - data - t->offset)
            return wf_fail(WEFT_E_FORMAT,
                           "gguf: tensor %zu \"%s\" has %llu bytes at offset %llu after byte %llu, the file has %llu", i,
                           t->name, (unsigned long long)t->size_bytes, (unsigned long long)t->offset,
                           (unsigned long long)data, (unsigned long long)size);
        t->offset += data;
    }
    return wf_tensors_disjoint(f, false, 0, 0);
}

weft_status wf_gguf_parse(weft_file *f)
{
    cursor c = {f, 4};
    uint64_t n_tensors, n_metas;
    uint32_t alignment;
    f->format = "gguf";
    WF_TRY(take_u32(&c, "the version", &f->version));
    if (f->version == 0x02000000 || f->version == 0x03000000)
        return wf_fail(WEFT_E_FORMAT, "gguf: a big-endian file (version %u), expected little-endian", f->version >> 24);
    if (f->version < 2 || f->version > 3)
        return wf_fail(WEFT_E_FORMAT, "gguf: version %u, expected 2 or 3", f->version);
    WF_TRY(take_u64(&c, "the count of tensors", &n_tensors));
    WF_TRY(take_u64(&c, "the count of keys", &n_metas));
    if (n_metas > left(&c) / LEAST_KEY_BYTES)
        return wf_fail(WEFT_E_FORMAT, "gguf: %llu keys in a file of %llu bytes", (unsigned long long)n_metas,
                       (unsigned long long)f->reader.size_bytes);
    if (n_tensors > left(&c) / LEAST_TENSOR_BYTES)
        return wf_fail(WEFT_E_FORMAT, "gguf: %llu tensors in a file of %llu bytes", (unsigned long long)n_tensors,
                       (unsigned long long)f->reader.size_bytes);
    WF_TRY(take_metas(&c, n_metas));
    WF_TRY(find_alignment(f, &alignment));
    WF_TRY(take_tensors(&c, n_tensors));
    return place_tensors(f, c.at, alignment);
}
