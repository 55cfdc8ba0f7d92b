/* file.c - a file of tensors, whatever its format: recognising, the tables of names, answering questions. */
#include <math.h>

#include "parsed_file.h"

/* ---- bytes of the beginning ---- */

weft_status wf_file_head(weft_file *f, uint64_t at, uint64_t n, const char *what, const uint8_t **out)
{
    uint64_t size = f->reader.size_bytes;
    if (at > size || n > size - at)
        return wf_fail(WEFT_E_FORMAT, "%s: %s at byte %llu needs %llu bytes, the file ends at %llu",
                       f->format ? f->format : "file", what, (unsigned long long)at, (unsigned long long)n,
                       (unsigned long long)size);
    if (!f->map && at + n > f->head_bytes) {
        /* Read ahead in doubling steps: a header is parsed in thousands of small pieces. */
        uint64_t want = WF_MAX(at + n, WF_MIN(size, WF_MAX((uint64_t)f->head_bytes * 2, (uint64_t)65536)));
        if (want > SIZE_MAX)
            return wf_fail_oom(SIZE_MAX);
        WF_TRY(wf_grow((void **)&f->head, &f->head_cap, (size_t)want, 1));
        if (!f->reader.read(f->reader.user, f->head_bytes, f->head + f->head_bytes, (size_t)want - f->head_bytes))
            return wf_fail(WEFT_E_IO, "%s: cannot read bytes %zu .. %llu", f->format ? f->format : "file",
                           f->head_bytes, (unsigned long long)want);
        f->head_bytes = (size_t)want;
    }
    *out = wf_file_known(f, at);
    return WEFT_OK;
}

const uint8_t *wf_file_known(const weft_file *f, uint64_t at)
{
    const uint8_t *base = f->map ? f->map : f->head;
    return base ? base + at : (const uint8_t *)"";
}

/* ---- names ---- */

typedef const char *(*name_fn)(const weft_file *f, size_t i);

static const char *tensor_name(const weft_file *f, size_t i)
{
    return f->tensors[i].name;
}

static const char *meta_key(const weft_file *f, size_t i)
{
    return f->metas[i].key;
}

static size_t find_slot(const weft_file *f, const wf_name_index *index, name_fn name_of, const char *name)
{
    size_t slot = (size_t)wf_hash(name, strlen(name), 0).lo & index->mask;
    while (index->slots[slot] && strcmp(name_of(f, index->slots[slot] - 1), name) != 0)
        slot = (slot + 1) & index->mask;
    return slot;
}

static weft_status build_index(weft_file *f, wf_name_index *index, size_t n, name_fn name_of, const char *what)
{
    size_t slots = 8;
    if (n > UINT32_MAX / 4)
        return wf_fail(WEFT_E_FORMAT, "%s: %zu of %s", f->format, n, what);
    while (slots < 2 * n)
        slots *= 2;
    index->slots = wf_calloc(slots, sizeof *index->slots);
    if (!index->slots)
        return WEFT_E_OOM;
    index->mask = slots - 1;
    for (size_t i = 0; i < n; i++) {
        const char *name = name_of(f, i);
        size_t slot = find_slot(f, index, name_of, name);
        if (index->slots[slot])
            return wf_fail(WEFT_E_FORMAT, "%s: %s \"%s\" occurs twice", f->format, what, name);
        index->slots[slot] = (uint32_t)i + 1;
    }
    return WEFT_OK;
}

static int64_t lookup(const weft_file *f, const wf_name_index *index, name_fn name_of, const char *name)
{
    return (int64_t)index->slots[find_slot(f, index, name_of, name)] - 1;
}

/* ---- places of tensors ---- */

static int by_offset(const weft_file_tensor *a, const weft_file_tensor *b)
{
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return a->size_bytes < b->size_bytes ? -1 : a->size_bytes > b->size_bytes;
}

/* Heap sort of numbers: qsort may allocate, and its worst case is the library's secret. */
static void sort_by_offset(const weft_file_tensor *t, uint32_t *order, size_t n)
{
    for (size_t i = n / 2, end = n; end > 1;) {
        uint32_t moved;
        if (i > 0) {
            moved = order[--i];
        } else {
            moved = order[--end];
            order[end] = order[0];
        }
        size_t hole = i;
        for (size_t child; (child = 2 * hole + 1) < end; hole = child) {
            if (child + 1 < end && by_offset(&t[order[child]], &t[order[child + 1]]) < 0)
                child++;
            if (by_offset(&t[moved], &t[order[child]]) >= 0)
                break;
            order[hole] = order[child];
        }
        order[hole] = moved;
    }
}

weft_status wf_tensors_disjoint(const weft_file *f, bool gapless, uint64_t begin, uint64_t end)
{
    size_t n = f->n_tensors;
    uint32_t *order = wf_alloc(n * sizeof *order);
    if (!order)
        return WEFT_E_OOM;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    sort_by_offset(f->tensors, order, n);
    weft_status st = WEFT_OK;
    uint64_t at = begin;
    for (size_t i = 0; i < n && st == WEFT_OK; i++) {
        const weft_file_tensor *t = &f->tensors[order[i]];
        if (t->offset < at && t->size_bytes)
            st = wf_fail(WEFT_E_FORMAT, "%s: tensor \"%s\" begins at byte %llu, inside the one that ends at %llu",
                         f->format, t->name, (unsigned long long)t->offset, (unsigned long long)at);
        else if (gapless && t->offset != at)
            st = wf_fail(WEFT_E_FORMAT, "%s: tensor \"%s\" begins at byte %llu, expected %llu", f->format, t->name,
                         (unsigned long long)t->offset, (unsigned long long)at);
        at = WF_MAX(at, t->offset + t->size_bytes);
    }
    if (st == WEFT_OK && gapless && at != end)
        st = wf_fail(WEFT_E_FORMAT, "%s: the last tensor ends at byte %llu, the file at %llu", f->format,
                     (unsigned long long)at, (unsigned long long)end);
    wf_free(order);
    return st;
}

/* ---- open and close ---- */

static weft_status recognise(weft_file *f)
{
    uint64_t size = f->reader.size_bytes;
    const uint8_t *p;
    if (size == 0)
        return wf_fail(WEFT_E_FORMAT, "file: is empty");
    WF_TRY(wf_file_head(f, 0, WF_MIN(size, (uint64_t)9), "the beginning", &p));
    if (size >= 4 && memcmp(p, "GGUF", 4) == 0)
        return wf_gguf_parse(f);
    /* safetensors has no magic: a length, then JSON */
    if (size >= 8 && ((size >= 9 && p[8] == '{') || wf_load_le64(p) <= size - 8))
        return wf_safetensors_parse(f);
    char seen[28] = "";
    for (size_t i = 0; i < WF_MIN(size, (uint64_t)8); i++)
        memcpy(seen + 3 * i, (char[]){' ', "0123456789abcdef"[p[i] >> 4], "0123456789abcdef"[p[i] & 15], 0}, 4);
    return wf_fail(WEFT_E_FORMAT, "file: %llu bytes that begin with%s are neither GGUF nor safetensors",
                   (unsigned long long)size, seen);
}

static weft_status parse(weft_file *f)
{
    WF_TRY(recognise(f));
    WF_TRY(build_index(f, &f->tensor_index, f->n_tensors, tensor_name, "tensor"));
    return build_index(f, &f->meta_index, f->n_metas, meta_key, "key");
}

static void free_parts(weft_file *f)
{
    wf_free(f->tensor_index.slots);
    wf_free(f->meta_index.slots);
    wf_free(f->tensors);
    wf_free(f->metas);
    wf_free(f->head);
    wf_arena_free(&f->arena);
    wf_free(f);
}

weft_status weft_file_open_reader(const weft_reader *reader, weft_file **out)
{
    if (!reader || !reader->read || !out)
        return wf_fail(WEFT_E_CONTEXT, "file_open_reader: reader, its read function and out are required");
    weft_file *f = wf_calloc(1, sizeof *f);
    if (!f)
        return WEFT_E_OOM;
    f->reader = *reader;
    f->map = reader->map ? reader->map(reader->user) : NULL;
    weft_status st = parse(f);
    if (st != WEFT_OK) {
        free_parts(f); /* the reader stays the caller's */
        return st;
    }
    *out = f;
    return WEFT_OK;
}

weft_status weft_file_open(const char *path, weft_file **out)
{
    weft_reader reader;
    if (!path || !out)
        return wf_fail(WEFT_E_CONTEXT, "file_open: path and out are required");
    WF_TRY(weft_reader_open_file(path, 0, 0, &reader));
    weft_status st = weft_file_open_reader(&reader, out);
    if (st != WEFT_OK) {
        weft_reader_close(&reader);
        return wf_fail(st, "%s: %s", path, weft_error_message());
    }
    return WEFT_OK;
}

void weft_file_close(weft_file *file)
{
    if (!file)
        return;
    weft_reader_close(&file->reader);
    free_parts(file);
}

const char *weft_file_format(const weft_file *file)
{
    return file ? file->format : "";
}

uint32_t weft_file_version(const weft_file *file)
{
    return file ? file->version : 0;
}

/* ---- tensors ---- */

int64_t weft_file_tensor_count(const weft_file *file)
{
    return file ? (int64_t)file->n_tensors : 0;
}

weft_status weft_file_tensor_at(const weft_file *file, int64_t index, weft_file_tensor *out)
{
    if (!file || !out)
        return wf_fail(WEFT_E_CONTEXT, "file_tensor_at: file and out are required");
    if (index < 0 || (uint64_t)index >= file->n_tensors)
        return wf_fail(WEFT_E_INDEX, "%s: tensor %lld of %zu", file->format, (long long)index, file->n_tensors);
    *out = file->tensors[index];
    return WEFT_OK;
}

weft_status weft_file_tensor_find(const weft_file *file, const char *name, weft_file_tensor *out)
{
    if (!file || !name || !out)
        return wf_fail(WEFT_E_CONTEXT, "file_tensor_find: file, name and out are required");
    int64_t i = lookup(file, &file->tensor_index, tensor_name, name);
    if (i < 0)
        return wf_fail(WEFT_E_VALUE, "%s: no tensor \"%s\" among %zu", file->format, name, file->n_tensors);
    *out = file->tensors[i];
    return WEFT_OK;
}

const void *weft_file_tensor_map(const weft_file *file, const weft_file_tensor *tensor)
{
    if (!file || !tensor || !file->map || tensor->offset > file->reader.size_bytes ||
        tensor->size_bytes > file->reader.size_bytes - tensor->offset)
        return NULL;
    return file->map + tensor->offset;
}

weft_status weft_file_read(const weft_file *file, uint64_t offset, void *dst, size_t n)
{
    if (!file || (!dst && n))
        return wf_fail(WEFT_E_CONTEXT, "file_read: file and dst are required");
    uint64_t size = file->reader.size_bytes;
    if (offset > size || n > size - offset)
        return wf_fail(WEFT_E_INDEX, "%s: bytes %llu + %zu of %llu", file->format, (unsigned long long)offset, n,
                       (unsigned long long)size);
    if (n && !file->reader.read(file->reader.user, offset, dst, n))
        return wf_fail(WEFT_E_IO, "%s: cannot read %zu bytes at %llu", file->format, n, (unsigned long long)offset);
    return WEFT_OK;
}

void weft_file_release(const weft_file *file, const weft_file_tensor *tensor)
{
    if (file && tensor && file->reader.release)
        file->reader.release(file->reader.user, tensor->offset, (size_t)tensor->size_bytes);
}

/* ---- metadata ---- */

static void describe(const wf_meta_entry *e, weft_meta *out)
{
    const wf_gguf_type_info *t = &wf_gguf_types[e->type];
    *out = (weft_meta){e->key, e->is_array ? WEFT_META_ARRAY : t->kind, t->kind,
                       e->is_array ? t->array_name : t->name, e->count};
}

int64_t weft_file_meta_count(const weft_file *file)
{
    return file ? (int64_t)file->n_metas : 0;
}

weft_status weft_file_meta_at(const weft_file *file, int64_t index, weft_meta *out)
{
    if (!file || !out)
        return wf_fail(WEFT_E_CONTEXT, "file_meta_at: file and out are required");
    if (index < 0 || (uint64_t)index >= file->n_metas)
        return wf_fail(WEFT_E_INDEX, "%s: key %lld of %zu", file->format, (long long)index, file->n_metas);
    describe(&file->metas[index], out);
    return WEFT_OK;
}

static weft_status find_meta(const weft_file *file, const char *key, const wf_meta_entry **out)
{
    if (!file || !key)
        return wf_fail(WEFT_E_CONTEXT, "file_meta: file and key are required");
    int64_t i = lookup(file, &file->meta_index, meta_key, key);
    if (i < 0)
        return wf_fail(WEFT_E_VALUE, "%s: no key \"%s\" among %zu", file->format, key, file->n_metas);
    *out = &file->metas[i];
    return WEFT_OK;
}

weft_status weft_file_meta_find(const weft_file *file, const char *key, weft_meta *out)
{
    const wf_meta_entry *e = NULL;
    if (!out)
        return wf_fail(WEFT_E_CONTEXT, "file_meta_find: out is required");
    WF_TRY(find_meta(file, key, &e));
    describe(e, out);
    return WEFT_OK;
}

/* `result`: where the caller's value goes, of whatever type. */
static weft_status find_element(const weft_file *file, const char *key, uint64_t element, const void *result, const wf_meta_entry **out)
{
    if (!result)
        return wf_fail(WEFT_E_CONTEXT, "file_meta: a result pointer is NULL");
    WF_TRY(find_meta(file, key, out));
    if (element >= (*out)->count)
        return wf_fail(WEFT_E_INDEX, "%s: element %llu of \"%s\", which has %llu", file->format,
                       (unsigned long long)element, key, (unsigned long long)(*out)->count);
    return WEFT_OK;
}

static weft_status wrong_kind(const weft_file *file, const wf_meta_entry *e, const char *expected)
{
    const wf_gguf_type_info *t = &wf_gguf_types[e->type];
    return wf_fail(WEFT_E_VALUE, "%s: \"%s\" is %s, expected %s", file->format, e->key,
                   e->is_array ? t->array_name : t->name, expected);
}

typedef struct number {
    weft_meta_kind kind; /* UINT, INT, FLOAT or BOOL (in u) */
    uint64_t u;
    int64_t i;
    double f;
} number;

static float f32_at(const uint8_t *p)
{
    uint32_t u = wf_load_le32(p);
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static double f64_at(const uint8_t *p)
{
    uint64_t u = wf_load_le64(p);
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

static bool load_number(const weft_file *file, const wf_meta_entry *e, uint64_t element, number *out)
{
    const wf_gguf_type_info *t = &wf_gguf_types[e->type];
    if (t->kind == WEFT_META_STRING)
        return false;
    const uint8_t *p = wf_file_known(file, e->at + element * (uint64_t)t->bytes);
    *out = (number){.kind = t->kind};
    switch ((wf_gguf_type)e->type) {
    case WF_GGUF_U8:
    case WF_GGUF_BOOL: out->u = p[0]; return true;
    case WF_GGUF_U16: out->u = (uint64_t)p[0] | (uint64_t)p[1] << 8; return true;
    case WF_GGUF_U32: out->u = wf_load_le32(p); return true;
    case WF_GGUF_U64: out->u = wf_load_le64(p); return true;
    case WF_GGUF_I8: out->i = (int8_t)p[0]; return true;
    case WF_GGUF_I16: out->i = (int16_t)(p[0] | p[1] << 8); return true;
    case WF_GGUF_I32: out->i = (int32_t)wf_load_le32(p); return true;
    case WF_GGUF_I64: out->i = (int64_t)wf_load_le64(p); return true;
    case WF_GGUF_F32: out->f = (double)f32_at(p); return true;
    case WF_GGUF_F64: out->f = f64_at(p); return true;
    default: return false;
    }
}

weft_status weft_file_meta_i64(const weft_file *file, const char *key, uint64_t element, int64_t *out)
{
    const wf_meta_entry *e = NULL;
    number v;
    WF_TRY(find_element(file, key, element, out, &e));
    if (!load_number(file, e, element, &v))
        return wrong_kind(file, e, "a number");
    if (v.kind == WEFT_META_FLOAT) {
        if (!(v.f >= -0x1p63 && v.f < 0x1p63) || v.f != floor(v.f))
            return wf_fail(WEFT_E_VALUE, "%s: \"%s\" is %g, expected an integer", file->format, key, v.f);
        *out = (int64_t)v.f;
    } else if (v.kind == WEFT_META_INT) {
        *out = v.i;
    } else if (v.u > INT64_MAX) {
        return wf_fail(WEFT_E_VALUE, "%s: \"%s\" is %llu, above the 64-bit signed range", file->format, key,
                       (unsigned long long)v.u);
    } else {
        *out = (int64_t)v.u;
    }
    return WEFT_OK;
}

weft_status weft_file_meta_f64(const weft_file *file, const char *key, uint64_t element, double *out)
{
    const wf_meta_entry *e = NULL;
    number v;
    WF_TRY(find_element(file, key, element, out, &e));
    if (!load_number(file, e, element, &v))
        return wrong_kind(file, e, "a number");
    *out = v.kind == WEFT_META_FLOAT ? v.f : v.kind == WEFT_META_INT ? (double)v.i : (double)v.u;
    return WEFT_OK;
}

weft_status weft_file_meta_str(const weft_file *file, const char *key, uint64_t element, const char **out, size_t *n)
{
    const wf_meta_entry *e = NULL;
    WF_TRY(find_element(file, key, element, n ? (const void *)out : NULL, &e));
    if (e->type != WF_GGUF_STRING)
        return wrong_kind(file, e, "a string");
    if (e->is_array) {
        uint64_t at = e->strings[element];
        *n = (size_t)wf_load_le64(wf_file_known(file, at));
        *out = (const char *)wf_file_known(file, at + 8);
    } else {
        *n = (size_t)e->n;
        *out = e->text ? e->text : (const char *)wf_file_known(file, e->at);
    }
    return WEFT_OK;
}
