/* safetensors.c - a length, a JSON object that names tensors, and their bytes without gaps.
 *
 * The JSON is read by jansson (docs/decisions/0001-json-library.md says why). It refuses duplicate names, invalid UTF-8
 * and integers beyond 64 bits, and tells integers from fractions; what remains to check is the format's
 * own rule: the tensors cover the bytes after the header exactly.
 * Source: the format section of the README of project safetensors.
 */
#include <jansson.h>

#include "parsed_file.h"

/* The reference library's bound. */
#define MAX_HEADER_BYTES ((uint64_t)100000000)

static const struct tensor_type {
    const char *name;
    int bits;
    int dtype; /* weft_dtype, or -1 */
} tensor_types[] = {
    {"F32", 32, WEFT_DTYPE_F32},
    {"F16", 16, WEFT_DTYPE_F16},
    {"BF16", 16, WEFT_DTYPE_BF16},
    {"F64", 64, WEFT_DTYPE_F64},
    {"I64", 64, WEFT_DTYPE_I64},
    {"I32", 32, WEFT_DTYPE_I32},
    {"I16", 16, -1},
    {"I8", 8, WEFT_DTYPE_I8},
    {"U64", 64, -1},
    {"U32", 32, WEFT_DTYPE_U32},
    {"U16", 16, -1},
    {"U8", 8, WEFT_DTYPE_U8},
    {"BOOL", 8, WEFT_DTYPE_BOOL},
    {"C64", 64, -1},
    {"F8_E4M3", 8, -1},
    {"F8_E5M2", 8, -1},
    {"F8_E8M0", 8, -1},
    {"F8_E4M3FNUZ", 8, -1},
    {"F8_E5M2FNUZ", 8, -1},
    {"F6_E2M3", 6, -1},
    {"F6_E3M2", 6, -1},
    {"F4", 4, -1},
};

static weft_status copy_text(weft_file *f, const char *text, size_t n, const char **out)
{
    char *copy = wf_arena_alloc(&f->arena, n + 1);
    if (!copy)
        return WEFT_E_OOM;
    memcpy(copy, text, n);
    *out = copy;
    return WEFT_OK;
}

static weft_status take_metadata(weft_file *f, json_t *object)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return wf_fail(WEFT_E_FORMAT, "safetensors: __metadata__ is no object");
    json_object_foreach(object, key, value) {
        if (!json_is_string(value))
            return wf_fail(WEFT_E_FORMAT, "safetensors: __metadata__ \"%s\" is no string", key);
        wf_meta_entry e = {.type = WF_GGUF_STRING, .count = 1, .n = json_string_length(value)};
        WF_TRY(copy_text(f, key, strlen(key), &e.key));
        WF_TRY(copy_text(f, json_string_value(value), (size_t)e.n, &e.text));
        WF_TRY(wf_grow((void **)&f->metas, &f->cap_metas, f->n_metas + 1, sizeof *f->metas));
        f->metas[f->n_metas++] = e;
    }
    return WEFT_OK;
}

static weft_status take_count(const weft_file_tensor *t, const char *what, const json_t *value, int64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return wf_fail(WEFT_E_FORMAT, "safetensors: tensor \"%s\": %s holds no count", t->name, what);
    *out = json_integer_value(value);
    return WEFT_OK;
}

static weft_status take_shape(weft_file_tensor *t, const json_t *shape, int64_t *numel)
{
    if (!json_is_array(shape))
        return wf_fail(WEFT_E_FORMAT, "safetensors: tensor \"%s\" has no shape", t->name);
    if (json_array_size(shape) > WF_COUNT(t->shape))
        return wf_fail(WEFT_E_FORMAT, "safetensors: tensor \"%s\" has %zu dimensions, at most %zu", t->name,
                       json_array_size(shape), WF_COUNT(t->shape));
    t->rank = (int)json_array_size(shape);
    *numel = 1;
    for (int k = 0; k < t->rank; k++) {
        WF_TRY(take_count(t, "shape", json_array_get(shape, (size_t)k), &t->shape[k]));
        if (!wf_mul_i64(*numel, t->shape[k], numel))
            return wf_fail(WEFT_E_FORMAT, "safetensors: tensor \"%s\" has more than 2^63 elements", t->name);
    }
    return WEFT_OK;
}

static const struct tensor_type *find_type(const char *name)
{
    for (size_t i = 0; name && i < WF_COUNT(tensor_types); i++)
        if (strcmp(tensor_types[i].name, name) == 0)
            return &tensor_types[i];
    return NULL;
}

static weft_status take_span(weft_file_tensor *t, const json_t *offsets, uint64_t data_bytes)
{
    int64_t begin = 0, end = 0;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        return wf_fail(WEFT_E_FORMAT, "safetensors: tensor \"%s\" has no pair of data_offsets", t->name);
    WF_TRY(take_count(t, "data_offsets", json_array_get(offsets, 0), &begin));
    WF_TRY(take_count(t, "data_offsets", json_array_get(offsets, 1), &end));
    if (begin > end || (uint64_t)end > data_bytes)
        return wf_fail(WEFT_E_FORMAT, "safetensors: tensor \"%s\" is bytes %lld .. %lld of %llu", t->name,
                       (long long)begin, (long long)end, (unsigned long long)data_bytes);
    t->offset = (uint64_t)begin;
    t->size_bytes = (uint64_t)(end - begin);
    return WEFT_OK;
}

static weft_status take_tensor(weft_file *f, const char *name, const json_t *info, uint64_t data_at)
{
    weft_file_tensor t = {0};
    int64_t numel = 0, bits;
    WF_TRY(copy_text(f, name, strlen(name), &t.name));
    if (!json_is_object(info))
        return wf_fail(WEFT_E_FORMAT, "safetensors: tensor \"%s\" is no object", name);
    const char *dtype = json_string_value(json_object_get(info, "dtype"));
    const struct tensor_type *type = find_type(dtype);
    if (!type)
        return wf_fail(WEFT_E_FORMAT, "safetensors: tensor \"%s\" has dtype \"%.40s\", which is none", name,
                       dtype ? dtype : "");
    t.type_name = type->name;
    t.known = type->dtype >= 0;
    t.dtype = t.known ? (weft_dtype)type->dtype : WEFT_DTYPE_U8;
    WF_TRY(take_shape(&t, json_object_get(info, "shape"), &numel));
    WF_TRY(take_span(&t, json_object_get(info, "data_offsets"), f->reader.size_bytes - data_at));
    if (!wf_mul_i64(numel, type->bits, &bits) || bits % 8 || (uint64_t)(bits / 8) != t.size_bytes)
        return wf_fail(WEFT_E_FORMAT, "safetensors: tensor \"%s\" has %lld elements of %d bits in %llu bytes", name,
                       (long long)numel, type->bits, (unsigned long long)t.size_bytes);
    t.offset += data_at;
    WF_TRY(wf_grow((void **)&f->tensors, &f->cap_tensors, f->n_tensors + 1, sizeof *f->tensors));
    f->tensors[f->n_tensors++] = t;
    return WEFT_OK;
}

static weft_status take_header(weft_file *f, json_t *root, uint64_t data_at)
{
    const char *key;
    json_t *value;
    if (!json_is_object(root))
        return wf_fail(WEFT_E_FORMAT, "safetensors: the header is no JSON object");
    json_object_foreach(root, key, value) {
        if (strcmp(key, "__metadata__") == 0)
            WF_TRY(take_metadata(f, value));
        else
            WF_TRY(take_tensor(f, key, value, data_at));
    }
    return wf_tensors_disjoint(f, true, data_at, f->reader.size_bytes);
}

weft_status wf_safetensors_parse(weft_file *f)
{
    const uint8_t *p;
    json_error_t error;
    f->format = "safetensors";
    WF_TRY(wf_file_head(f, 0, 8, "the header's length", &p));
    uint64_t n = wf_load_le64(p), most = WF_MIN(f->reader.size_bytes - 8, MAX_HEADER_BYTES);
    if (n > most)
        return wf_fail(WEFT_E_FORMAT, "safetensors: a header of %llu bytes, at most %llu here", (unsigned long long)n,
                       (unsigned long long)most);
    WF_TRY(wf_file_head(f, 8, n, "the header", &p));
    json_t *root = json_loadb((const char *)p, (size_t)n, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return json_error_code(&error) == json_error_out_of_memory
                   ? wf_fail(WEFT_E_OOM, "out of memory: safetensors header of %llu bytes", (unsigned long long)n)
                   : wf_fail(WEFT_E_FORMAT, "safetensors: header, byte %d: %s", error.position, error.text);
    weft_status st = take_header(f, root, 8 + n);
    json_decref(root);
    return st;
}
