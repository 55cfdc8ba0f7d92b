/* test_safetensors.c - the safetensors reader: verdicts, values, and every way to fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <jansson.h>

#include "base.h"
#include "data_file.h"
#include "file_bytes.h"

#define MALFORMED "tests/data/malformed/"

static unsigned char *malformed(const char *name, size_t *n)
{
    char path[300];
    snprintf(path, sizeof path, MALFORMED "%s", name);
    char *whole = read_whole(source_path(path), n);
    if (!whole)
        fail_msg("cannot read %s", path);
    void *exact = malloc(*n ? *n : 1);
    memcpy(exact, whole, *n);
    free(whole);
    return exact;
}

/* Both ways of reading, which must agree. */
static weft_status verdict(const void *bytes, size_t n)
{
    weft_status st[2];
    for (int mapped = 0; mapped < 2; mapped++) {
        byte_source source;
        weft_file *f = NULL;
        void *exact = malloc(n ? n : 1);
        memcpy(exact, bytes, n);
        st[mapped] = open_bytes(&source, exact, n, mapped, &f);
        if (f)
            touch_file(f);
        weft_file_close(f);
        free(exact);
    }
    assert_int_equal(st[0], st[1]);
    return st[0];
}

/* A header, `data` bytes behind it. */
static weft_status header_verdict(const char *header, size_t data)
{
    size_t n = strlen(header);
    char *bytes = calloc(1, 8 + n + data);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)((uint64_t)n >> 8 * i);
    memcpy(bytes + 8, header, n);
    weft_status st = verdict(bytes, 8 + n + data);
    free(bytes);
    return st;
}

static void verdicts_of_the_manifest(void **state)
{
    (void)state;
    json_error_t e;
    json_t *root = json_load_file(source_path(MALFORMED "manifest.json"), 0, &e);
    assert_non_null(root);
    int n_checked = 0;
    for (size_t i = 0; i < json_array_size(root); i++) {
        const json_t *row = json_array_get(root, i);
        const char *name = json_string_value(json_object_get(row, "file"));
        const char *expect = json_string_value(json_object_get(row, "expect"));
        if (!strstr(name, ".safetensors"))
            continue;
        size_t n;
        void *bytes = malformed(name, &n);
        weft_status st = verdict(bytes, n);
        if (strcmp(expect, "accept") == 0 && st != WEFT_OK)
            fail_msg("%s is refused: %s", name, weft_error_message());
        if (strcmp(expect, "reject") == 0 && st != WEFT_E_FORMAT)
            fail_msg("%s gives %s", name, weft_status_name(st));
        assert_true(st == WEFT_OK || st == WEFT_E_FORMAT);
        free(bytes);
        n_checked++;
    }
    json_decref(root);
    assert_true(n_checked > 25);
    assert_int_equal(wf_alloc_live(), 0);
}

static void names_and_metadata_are_decoded(void **state)
{
    (void)state;
    byte_source source;
    weft_file *f = NULL;
    weft_file_tensor t;
    const char *text;
    weft_meta m;
    size_t n, len;
    void *bytes = malformed("ok_unicode_escape.safetensors", &n);
    assert_int_equal(open_bytes(&source, bytes, n, true, &f), WEFT_OK);
    assert_int_equal(weft_file_tensor_at(f, 0, &t), WEFT_OK);
    assert_non_null(strstr(t.name, "\xc3\xa9"));
    assert_non_null(strchr(t.name, '\n'));
    weft_file_close(f);
    free(bytes);
    bytes = malformed("ok_metadata.safetensors", &n);
    assert_int_equal(open_bytes(&source, bytes, n, true, &f), WEFT_OK);
    assert_string_equal(weft_file_format(f), "safetensors");
    assert_int_equal(weft_file_version(f), 0);
    assert_true(weft_file_meta_count(f) > 0);
    assert_int_equal(weft_file_meta_at(f, 0, &m), WEFT_OK);
    assert_int_equal(m.kind, WEFT_META_STRING);
    assert_int_equal(weft_file_meta_str(f, m.key, 0, &text, &len), WEFT_OK);
    int64_t v;
    assert_int_equal(weft_file_meta_i64(f, m.key, 0, &v), WEFT_E_VALUE);
    weft_file_close(f);
    free(bytes);
}

static void dtypes_and_places(void **state)
{
    (void)state;
    byte_source source;
    weft_file *f = NULL;
    weft_file_tensor t;
    size_t n;
    void *bytes = malformed("ok_dtypes.safetensors", &n);
    assert_int_equal(open_bytes(&source, bytes, n, false, &f), WEFT_OK);
    uint64_t end = 0;
    for (int64_t i = 0; weft_file_tensor_at(f, i, &t) == WEFT_OK; i++) {
        if (t.known) {
            int64_t numel = 1;
            for (int k = 0; k < t.rank; k++)
                numel *= t.shape[k];
            assert_int_equal((uint64_t)numel * weft_dtype_block_bytes(t.dtype), t.size_bytes);
        }
        end = WF_MAX(end, t.offset + t.size_bytes);
    }
    assert_int_equal(end, n);
    weft_file_close(f);
    free(bytes);
    assert_int_equal(header_verdict("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[0,3]}}", 3), WEFT_OK);
    assert_int_equal(header_verdict("{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]}}", 2), WEFT_OK);
    assert_int_equal(header_verdict("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2), WEFT_E_FORMAT);
    assert_int_equal(header_verdict("{\"a\":{\"dtype\":\"F7\",\"shape\":[3],\"data_offsets\":[0,3]}}", 3), WEFT_E_FORMAT);
}

static void hostile_headers_are_refused(void **state)
{
    (void)state;
    static const struct { const char *header; size_t data; } cases[] = {
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,4]}}", 8},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,8]}}", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0.0,4.0]}}", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[-4,0]}}", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551620],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,18446744073709551620]}}", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[\"4\"],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":{},\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[04],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":7}", 0},
        {"{\"__metadata__\":7}", 0},
        {"{\"__metadata__\":{\"a\":7}}", 0},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 5},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}x", 4},
        {"{\"\xff\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"I64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0},
        {"{", 0},
    };
    for (size_t i = 0; i < WF_COUNT(cases); i++)
        if (header_verdict(cases[i].header, cases[i].data) != WEFT_E_FORMAT)
            fail_msg("case %zu is accepted: %s", i, cases[i].header);
    assert_int_equal(header_verdict("{\"a\":{\"dtype\":\"U8\",\"shape\":[0,9223372036854775807],\"data_offsets\":[0,0]}}", 0),
                     WEFT_OK);
    /* nesting deeper than a stack would hold */
    size_t deep = 1000000;
    char *header = malloc(deep + 1);
    memset(header, '[', deep);
    memcpy(header, "{\"a\":", 5);
    header[deep] = '\0';
    assert_int_equal(header_verdict(header, 0), WEFT_E_FORMAT);
    free(header);
}

static void any_byte_flipped_gives_a_verdict(void **state)
{
    (void)state;
    static const char *const files[] = {"ok_metadata.safetensors", "ok_dtypes.safetensors"};
    for (size_t k = 0; k < WF_COUNT(files); k++) {
        size_t n;
        unsigned char *bytes = malformed(files[k], &n);
        for (size_t i = 0; i < n; i++)
            for (int bit = 0; bit < 9; bit++) {
                unsigned char flip = bit == 8 ? 0xff : (unsigned char)(1 << bit);
                bytes[i] ^= flip;
                weft_status st = verdict(bytes, n);
                assert_true(st == WEFT_OK || st == WEFT_E_FORMAT);
                bytes[i] ^= flip;
            }
        free(bytes);
    }
    assert_int_equal(wf_alloc_live(), 0);
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    static const char *const good[] = {
        "ok_minimal.safetensors", "ok_metadata.safetensors", "ok_padded_header.safetensors", "ok_empty.safetensors",
        "ok_scalar.safetensors",  "ok_zero_dim.safetensors", "ok_dtypes.safetensors", "ok_unicode_escape.safetensors",
    };
    for (size_t g = 0; g < WF_COUNT(good); g++) {
        size_t n;
        unsigned char *bytes = malformed(good[g], &n);
        assert_int_equal(verdict(bytes, n), WEFT_OK);
        for (size_t cut = 0; cut < n; cut++)
            assert_int_equal(verdict(bytes, cut), WEFT_E_FORMAT);
        free(bytes);
    }
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    size_t n;
    unsigned char *bytes = malformed("ok_metadata.safetensors", &n);
    for (int mapped = 0; mapped < 2; mapped++) {
        bool opened = false;
        for (uint64_t nth = 1; !opened; nth++) {
            byte_source source;
            weft_file *f = NULL;
            assert_true(nth < 100);
            wf_alloc_fail_nth(nth);
            weft_status st = open_bytes(&source, bytes, n, mapped, &f);
            wf_alloc_fail_nth(0);
            opened = st == WEFT_OK;
            assert_true(opened || (st == WEFT_E_OOM && f == NULL));
            weft_file_close(f);
            assert_int_equal(wf_alloc_live(), 0);
        }
    }
    free(bytes);
}

static void the_story_model_is_read(void **state)
{
    (void)state;
    weft_file *f = NULL;
    weft_file_tensor t;
    assert_int_equal(weft_file_open(source_path("tests/data/stories260k/model.safetensors"), &f), WEFT_OK);
    assert_int_equal(weft_file_tensor_find(f, "model.layers.0.mlp.down_proj.weight", &t), WEFT_OK);
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.shape[0], 64);
    assert_int_equal(t.shape[1], 172);
    assert_non_null(weft_file_tensor_map(f, &t));
    touch_file(f);
    weft_file_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_of_the_manifest),
        cmocka_unit_test(names_and_metadata_are_decoded),
        cmocka_unit_test(dtypes_and_places),
        cmocka_unit_test(hostile_headers_are_refused),
        cmocka_unit_test(any_byte_flipped_gives_a_verdict),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(the_story_model_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
