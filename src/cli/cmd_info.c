/* cmd_info.c - weft info: metadata, tensors, types and sizes of a file. */
#include "cli.h"

#include <stdlib.h>

enum { ARRAY_SHOWN = 16 }; /* elements of a metadata array; vocabularies have tens of thousands */

typedef struct type_total {
    const char *name;
    int64_t n;
    uint64_t bytes;
    int64_t elements;
} type_total;

static int64_t elements_of(const weft_file_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

static json_t *element(const weft_file *file, const char *key, weft_meta_kind kind, uint64_t i)
{
    int64_t n;
    double d;
    const char *s;
    size_t len;
    switch (kind) {
    case WEFT_META_BOOL:
        return weft_file_meta_i64(file, key, i, &n) == WEFT_OK ? json_boolean(n != 0) : json_null();
    case WEFT_META_UINT:
    case WEFT_META_INT:
        return weft_file_meta_i64(file, key, i, &n) == WEFT_OK     ? json_integer(n)
               : weft_file_meta_f64(file, key, i, &d) == WEFT_OK ? json_real(d) /* past 2^63 */
                                                                  : json_null();
    case WEFT_META_FLOAT: /* infinities and NaN have no JSON form */
        return weft_file_meta_f64(file, key, i, &d) == WEFT_OK && d - d == 0 ? json_real(d) : json_null();
    case WEFT_META_STRING:
        return weft_file_meta_str(file, key, i, &s, &len) == WEFT_OK ? cli_json_text(s, len) : json_null();
    case WEFT_META_ARRAY:
        break;
    }
    return json_null();
}

static json_t *value(const weft_file *file, const weft_meta *m, uint64_t shown)
{
    if (m->kind != WEFT_META_ARRAY)
        return element(file, m->key, m->kind, 0);
    json_t *a = json_array();
    for (uint64_t i = 0; i < m->count && i < shown; i++)
        json_array_append_new(a, element(file, m->key, m->elem, i));
    if (m->count <= shown)
        return a;
    return json_pack("{s:s, s:I, s:o}", "type", m->type_name, "count", (json_int_t)m->count, "first", a);
}

static void add_type(type_total *totals, int *n, int cap, const weft_file_tensor *t)
{
    int i = 0;
    while (i < *n && strcmp(totals[i].name, t->type_name) != 0)
        i++;
    if (i == cap)
        return;
    if (i == *n)
        totals[(*n)++] = (type_total){.name = t->type_name};
    totals[i].n++;
    totals[i].bytes += t->size_bytes;
    totals[i].elements += elements_of(t);
}

static json_t *tensor_json(const weft_file_tensor *t)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->rank; i++)
        json_array_append_new(shape, json_integer(t->shape[i]));
    return json_pack("{s:o, s:s, s:o, s:I, s:I, s:b}", "name", cli_json_text(t->name, strlen(t->name)), "type", t->type_name,
                     "shape", shape, "offset", (json_int_t)t->offset, "bytes", (json_int_t)t->size_bytes, "loadable",
                     (int)t->known);
}

typedef struct summary {
    type_total types[64];
    int n_types;
    int64_t n_tensors, n_params;
    uint64_t bytes;
} summary;

static int summarise(const weft_file *file, summary *s)
{
    *s = (summary){.n_tensors = weft_file_tensor_count(file)};
    for (int64_t i = 0; i < s->n_tensors; i++) {
        weft_file_tensor t;
        if (weft_file_tensor_at(file, i, &t) != WEFT_OK)
            return cli_fail_last();
        add_type(s->types, &s->n_types, 64, &t);
        s->n_params += elements_of(&t);
        s->bytes += t.size_bytes;
    }
    return CLI_OK;
}

static int print_json(const weft_file *file, const char *path, const summary *s, bool all)
{
    json_t *meta = json_object(), *tensors = json_array(), *types = json_object();
    for (int64_t i = 0; i < weft_file_meta_count(file); i++) {
        weft_meta m;
        if (weft_file_meta_at(file, i, &m) != WEFT_OK)
            continue;
        json_t *key = cli_json_text(m.key, strlen(m.key));
        if (key)
            json_object_set_new(meta, json_string_value(key), value(file, &m, all ? UINT64_MAX : 64));
        json_decref(key);
    }
    for (int64_t i = 0; i < s->n_tensors; i++) {
        weft_file_tensor t;
        if (weft_file_tensor_at(file, i, &t) == WEFT_OK)
            json_array_append_new(tensors, tensor_json(&t));
    }
    for (int i = 0; i < s->n_types; i++)
        json_object_set_new(types, s->types[i].name,
                            json_pack("{s:I, s:I, s:I}", "tensors", (json_int_t)s->types[i].n, "elements",
                                      (json_int_t)s->types[i].elements, "bytes", (json_int_t)s->types[i].bytes));
    return cli_json_print(json_pack("{s:o, s:s, s:i, s:I, s:I, s:I, s:o, s:o, s:o}", "file", cli_json_text(path, strlen(path)),
                                    "format", weft_file_format(file), "version", (int)weft_file_version(file), "n_tensors",
                                    (json_int_t)s->n_tensors, "n_params", (json_int_t)s->n_params, "tensor_bytes",
                                    (json_int_t)s->bytes, "metadata", meta, "types", types, "tensors", tensors));
}

static void print_meta(const weft_file *file, const weft_meta *m)
{
    json_t *v = value(file, m, ARRAY_SHOWN);
    char *text = json_dumps(json_is_object(v) ? json_object_get(v, "first") : v,
                            JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(7));
    if (text && strlen(text) > 120)
        memcpy(text + 117, "...", 4);
    printf("  %-40s %-14s", m->key, m->type_name);
    if (m->kind == WEFT_META_ARRAY)
        printf(" %llu:", (unsigned long long)m->count);
    printf(" %s\n", text ? text : "");
    free(text);
    json_decref(v);
}

static void print_text(const weft_file *file, const char *path, const summary *s)
{
    char size[32];
    cli_format_bytes(s->bytes, size);
    printf("%s: %s", path, weft_file_format(file));
    if (weft_file_version(file))
        printf(" version %u", weft_file_version(file));
    printf(", %lld tensors, %.3f M elements, %s\n", (long long)s->n_tensors, (double)s->n_params / 1e6, size);
    if (weft_file_meta_count(file) > 0)
        printf("\nmetadata\n");
    for (int64_t i = 0; i < weft_file_meta_count(file); i++) {
        weft_meta m;
        if (weft_file_meta_at(file, i, &m) == WEFT_OK)
            print_meta(file, &m);
    }
    printf("\ntypes\n");
    for (int i = 0; i < s->n_types; i++) {
        cli_format_bytes(s->types[i].bytes, size);
        printf("  %-8s %6lld tensors  %s\n", s->types[i].name, (long long)s->types[i].n, size);
    }
    printf("\ntensors\n");
    for (int64_t i = 0; i < s->n_tensors; i++) {
        weft_file_tensor t;
        if (weft_file_tensor_at(file, i, &t) != WEFT_OK)
            continue;
        cli_format_bytes(t.size_bytes, size);
        printf("  %-48s %-8s [", t.name, t.type_name);
        for (int k = 0; k < t.rank; k++)
            printf("%s%lld", k ? ", " : "", (long long)t.shape[k]);
        printf("]  %s%s\n", size, t.known ? "" : "  (this type cannot be loaded)");
    }
}

int cmd_info(int argc, char **argv)
{
    const char *path;
    bool json = false, all = false;
    const cli_option options[] = {
        {"--json", CLI_FLAG, &json, 0, 0, NULL, "print {file, format, version, metadata, types, tensors, ..}"},
        {"--all", CLI_FLAG, &all, 0, 0, NULL, "with --json: whole metadata arrays, however long"},
    };
    int code = cli_parse(cli_command_named("info"), argc, argv, options, sizeof options / sizeof options[0], &path, 1, 1);
    if (code != CLI_OK)
        return code == CLI_HELP ? CLI_OK : code;
    weft_file *file;
    if (weft_file_open(path, &file) != WEFT_OK)
        return cli_fail_last();
    summary s;
    code = summarise(file, &s);
    if (code == CLI_OK && json)
        code = print_json(file, path, &s, all);
    else if (code == CLI_OK)
        print_text(file, path, &s);
    weft_file_close(file);
    return code;
}
