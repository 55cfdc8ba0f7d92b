/* test_gguf.c - the GGUF reader: verdicts on good and bad files, values, and every way to fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <jansson.h>
#include <unistd.h>

#include "base.h"
#include "data_file.h"
#include "file_bytes.h"

#define MALFORMED "tests/data/malformed/"
static const char suffix[] = ".gguf";

static void *malformed(const char *name, size_t *n)
{
    char path[300];
    snprintf(path, sizeof path, MALFORMED "%s", name);
    char *whole = read_whole(source_path(path), n);
    if (!whole)
        fail_msg("cannot read %s", path);
    void *exact = malloc(*n ? *n : 1); /* no byte behind the last */
    memcpy(exact, whole, *n);
    free(whole);
    return exact;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
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
        if (!ends_with(name, suffix) && !ends_with(name, ".bin"))
            continue;
        for (int mapped = 0; mapped < 2; mapped++) {
            byte_source s;
            weft_file *f = NULL;
            size_t n;
            void *bytes = malformed(name, &n);
            weft_status st = open_bytes(&s, bytes, n, mapped, &f);
            if (strcmp(expect, "accept") == 0 && st != WEFT_OK)
                fail_msg("%s is refused: %s", name, weft_error_message());
            if (strcmp(expect, "reject") == 0 && st != WEFT_E_FORMAT)
                fail_msg("%s gives %s", name, weft_status_name(st));
            assert_true(st == WEFT_OK || (st == WEFT_E_FORMAT && f == NULL && strlen(weft_error_message()) > 8));
            if (f)
                touch_file(f);
            weft_file_close(f);
            free(bytes);
        }
        n_checked++;
    }
    json_decref(root);
    assert_true(n_checked > 45);
    assert_int_equal(wf_alloc_live(), 0);
}

static void unpadded_tail_is_accepted(void **state)
{
    (void)state;
    byte_source s;
    weft_file *f = NULL;
    size_t n;
    void *bytes = malformed("either_unpadded_tail.gguf", &n);
    assert_int_equal(open_bytes(&s, bytes, n, true, &f), WEFT_OK);
    weft_file_close(f);
    free(bytes);
}

static void values_of_every_kind(void **state)
{
    (void)state;
    byte_source s;
    weft_file *f = NULL;
    size_t n;
    void *bytes = malformed("ok_all_kv_types.gguf", &n);
    assert_int_equal(open_bytes(&s, bytes, n, false, &f), WEFT_OK);
    assert_string_equal(weft_file_format(f), "gguf");
    assert_int_equal(weft_file_version(f), 3);
    unsigned kinds = 0;
    weft_meta m;
    for (int64_t i = 0; weft_file_meta_at(f, i, &m) == WEFT_OK; i++) {
        weft_meta again;
        int64_t v;
        double d;
        const char *text;
        size_t len;
        kinds |= 1u << m.kind;
        assert_int_equal(weft_file_meta_find(f, m.key, &again), WEFT_OK);
        assert_string_equal(m.type_name, again.type_name);
        /* a value of one kind is none of the other, and no element lies past the end */
        if (m.elem == WEFT_META_STRING) {
            if (m.count)
                assert_int_equal(weft_file_meta_i64(f, m.key, 0, &v), WEFT_E_VALUE);
            assert_int_equal(weft_file_meta_str(f, m.key, m.count, &text, &len), WEFT_E_INDEX);
        } else {
            if (m.count)
                assert_int_equal(weft_file_meta_str(f, m.key, 0, &text, &len), WEFT_E_VALUE);
            assert_int_equal(weft_file_meta_f64(f, m.key, m.count, &d), WEFT_E_INDEX);
        }
    }
    assert_int_equal(kinds, 0x3f); /* UINT INT FLOAT BOOL STRING ARRAY */
    assert_int_equal(weft_file_meta_find(f, "no.such.key", &m), WEFT_E_VALUE);
    for (int64_t i = 0; weft_file_meta_at(f, i, &m) == WEFT_OK; i++) { /* no result pointer, whatever the kind */
        const char *text;
        size_t len;
        assert_int_equal(weft_file_meta_i64(f, m.key, 0, NULL), WEFT_E_CONTEXT);
        assert_int_equal(weft_file_meta_f64(f, m.key, 0, NULL), WEFT_E_CONTEXT);
        assert_int_equal(weft_file_meta_str(f, m.key, 0, NULL, &len), WEFT_E_CONTEXT);
        assert_int_equal(weft_file_meta_str(f, m.key, 0, &text, NULL), WEFT_E_CONTEXT);
        assert_int_equal(weft_file_meta_find(f, m.key, NULL), WEFT_E_CONTEXT);
    }
    assert_int_equal(weft_file_meta_at(f, 0, NULL), WEFT_E_CONTEXT);
    assert_int_equal(weft_file_tensor_find(f, "x", NULL), WEFT_E_CONTEXT);
    assert_int_equal(weft_file_tensor_at(f, 0, NULL), WEFT_E_CONTEXT);
    assert_int_equal(weft_file_meta_at(f, -1, &m), WEFT_E_INDEX);
    weft_file_tensor t;
    assert_int_equal(weft_file_tensor_find(f, "no such tensor", &t), WEFT_E_VALUE);
    assert_int_equal(weft_file_tensor_at(f, 1 << 30, &t), WEFT_E_INDEX);
    weft_file_close(f);
    free(bytes);
}

/* ---- files made here ---- */

static void add_u32(wf_str *s, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        wf_str_addn(s, (char[]){(char)(v >> 8 * i)}, 1);
}

static void add_u64(wf_str *s, uint64_t v)
{
    add_u32(s, (uint32_t)v);
    add_u32(s, (uint32_t)(v >> 32));
}

static void add_text(wf_str *s, const char *text)
{
    add_u64(s, strlen(text));
    wf_str_add(s, text);
}

static void add_head(wf_str *s, uint64_t n_tensors, uint64_t n_keys)
{
    wf_str_add(s, "GGUF");
    add_u32(s, 3);
    add_u64(s, n_tensors);
    add_u64(s, n_keys);
}

static void add_tensor(wf_str *s, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t offset)
{
    add_text(s, name);
    add_u32(s, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        add_u64(s, ne[i]);
    add_u32(s, type);
    add_u64(s, offset);
}

static void add_data(wf_str *s, size_t n)
{
    while (s->len % 32)
        wf_str_addn(s, "", 1);
    while (n--)
        wf_str_addn(s, "\x2a", 1);
}

/* Opens both ways, which must agree; the file is closed and its verdict returned. */
static weft_status verdict(const wf_str *s)
{
    weft_status st[2];
    for (int mapped = 0; mapped < 2; mapped++) {
        byte_source source;
        weft_file *f = NULL;
        char *exact = malloc(s->len);
        memcpy(exact, s->ptr, s->len);
        st[mapped] = open_bytes(&source, exact, s->len, mapped, &f);
        if (f)
            touch_file(f);
        weft_file_close(f);
        free(exact);
    }
    assert_int_equal(st[0], st[1]);
    return st[0];
}

static weft_status one_tensor(uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t offset, size_t data)
{
    wf_str s = WF_STR_INIT;
    add_head(&s, 1, 0);
    add_tensor(&s, "t", n_dims, ne, type, offset);
    add_data(&s, data);
    weft_status st = verdict(&s);
    wf_str_free(&s);
    return st;
}

static void hostile_shapes_are_refused(void **state)
{
    (void)state;
    static const uint64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, huge[4] = {(uint64_t)1 << 62, 4, 1, 1};
    static const uint64_t top[1] = {UINT64_MAX}, eight[1] = {8}, none[2] = {0, 5}, zero_huge[2] = {0, INT64_MAX};
    assert_int_equal(one_tensor(9, nine, 0, 0, 64), WEFT_E_FORMAT);
    assert_int_equal(one_tensor(4, huge, 0, 0, 64), WEFT_E_FORMAT);
    assert_int_equal(one_tensor(4, huge, 24, 0, 64), WEFT_E_FORMAT);
    assert_int_equal(one_tensor(1, top, 24, 0, 64), WEFT_E_FORMAT);
    assert_int_equal(one_tensor(1, eight, 0, UINT64_MAX - 31, 64), WEFT_E_FORMAT);
    assert_int_equal(one_tensor(1, eight, 0, (uint64_t)INT64_MAX + 1, 64), WEFT_E_FORMAT);
    assert_int_equal(one_tensor(1, eight, 0, 32, 64), WEFT_OK);
    assert_int_equal(one_tensor(1, eight, 0, 64, 64), WEFT_E_FORMAT);
    assert_int_equal(one_tensor(2, none, 0, 0, 0), WEFT_OK);
    assert_int_equal(one_tensor(2, zero_huge, 0, 0, 0), WEFT_OK);
    assert_int_equal(one_tensor(0, NULL, 0, 0, 4), WEFT_OK);
    assert_int_equal(one_tensor(0, NULL, 0, 0, 3), WEFT_E_FORMAT);
}

static void alignment_must_be_a_power_of_two_within_the_file(void **state)
{
    (void)state;
    static const struct { uint32_t alignment; weft_status want; } cases[] = {
        {0, WEFT_E_FORMAT}, {3, WEFT_E_FORMAT}, {(uint32_t)1 << 31, WEFT_E_FORMAT}, {UINT32_MAX, WEFT_E_FORMAT},
        {32, WEFT_OK}, {8, WEFT_OK}, {1, WEFT_OK},
    };
    for (size_t i = 0; i < WF_COUNT(cases); i++) {
        wf_str s = WF_STR_INIT;
        add_head(&s, 1, 1);
        add_text(&s, "general.alignment");
        add_u32(&s, 4);
        add_u32(&s, cases[i].alignment);
        add_tensor(&s, "t", 1, (const uint64_t[]){8}, 0, 0);
        add_data(&s, 32);
        assert_int_equal(verdict(&s), cases[i].want);
        wf_str_free(&s);
    }
}

static void hostile_strings_and_arrays_are_refused(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {(uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7, 1000, 65536};
    for (size_t i = 0; i < WF_COUNT(lengths); i++)
        for (int what = 0; what < 4; what++) {
            wf_str s = WF_STR_INIT;
            add_head(&s, what == 3, what != 3);
            if (what == 0) { /* a key */
                add_u64(&s, lengths[i]);
            } else if (what == 1) { /* a string */
                add_text(&s, "k");
                add_u32(&s, 8);
                add_u64(&s, lengths[i]);
            } else if (what == 2) { /* an array of strings */
                add_text(&s, "k");
                add_u32(&s, 9);
                add_u32(&s, 8);
                add_u64(&s, lengths[i]);
            } else { /* a tensor's name */
                add_u64(&s, lengths[i]);
            }
            add_data(&s, 64);
            assert_int_equal(verdict(&s), WEFT_E_FORMAT);
            wf_str_free(&s);
        }
    /* arrays of arrays, a bool of 2, a key with a zero byte */
    for (int what = 0; what < 3; what++) {
        wf_str s = WF_STR_INIT;
        add_head(&s, 0, 1);
        if (what == 2) {
            add_u64(&s, 3);
            wf_str_addn(&s, "a\0b", 3);
        } else {
            add_text(&s, "k");
        }
        add_u32(&s, what == 0 ? 9 : 7);
        if (what == 0) {
            add_u32(&s, 9);
            add_u64(&s, 1);
        }
        wf_str_addn(&s, what == 1 ? "\2" : "\1", 1);
        add_data(&s, 64);
        assert_int_equal(verdict(&s), WEFT_E_FORMAT);
        wf_str_free(&s);
    }
}

static void overlapping_tensors_are_refused(void **state)
{
    (void)state;
    for (int overlap = 0; overlap < 2; overlap++) {
        wf_str s = WF_STR_INIT;
        add_head(&s, 3, 0);
        add_tensor(&s, "c", 1, (const uint64_t[]){8}, 0, 96);
        add_tensor(&s, "a", 1, (const uint64_t[]){16}, 0, 0);
        add_tensor(&s, "b", 1, (const uint64_t[]){8}, 0, overlap ? 32 : 64);
        add_data(&s, 128);
        assert_int_equal(verdict(&s), overlap ? WEFT_E_FORMAT : WEFT_OK);
        wf_str_free(&s);
    }
}

static void types_without_kernels_are_listed(void **state)
{
    (void)state;
    static const struct { uint32_t type; const char *name; uint64_t bytes; bool known; } cases[] = {
        {12, "Q4_K", 144, false}, {14, "Q6_K", 210, false}, {16, "IQ2_XXS", 66, false}, {39, "MXFP4", 8 * 17, false},
        {40, "NVFP4", 4 * 36, false}, {25, "I16", 512, false}, {30, "BF16", 512, true}, {8, "Q8_0", 8 * 34, true},
    };
    for (size_t i = 0; i < WF_COUNT(cases); i++) {
        wf_str s = WF_STR_INIT;
        byte_source source;
        weft_file *f = NULL;
        weft_file_tensor t;
        add_head(&s, 1, 0);
        add_tensor(&s, "t", 1, (const uint64_t[]){256}, cases[i].type, 0);
        add_data(&s, cases[i].bytes);
        assert_int_equal(open_bytes(&source, s.ptr, s.len, true, &f), WEFT_OK);
        assert_int_equal(weft_file_tensor_at(f, 0, &t), WEFT_OK);
        assert_string_equal(t.type_name, cases[i].name);
        assert_int_equal(t.size_bytes, cases[i].bytes);
        assert_int_equal(t.known, cases[i].known);
        assert_int_equal(t.shape[0], 256);
        weft_file_close(f);
        wf_str_free(&s);
    }
}

/* ---- every byte, every length, every allocation ---- */

static void any_byte_flipped_gives_a_verdict(void **state)
{
    (void)state;
    size_t n;
    unsigned char *bytes = malformed("ok_all_kv_types.gguf", &n);
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 9; bit++) {
            unsigned char flip = bit == 8 ? 0xff : (unsigned char)(1 << bit);
            bytes[i] ^= flip;
            wf_str s = {.ptr = (char *)bytes, .len = n};
            weft_status st = verdict(&s);
            assert_true(st == WEFT_OK || st == WEFT_E_FORMAT);
            bytes[i] ^= flip;
        }
    free(bytes);
    assert_int_equal(wf_alloc_live(), 0);
}

static const char *const good[] = {
    "ok_minimal.gguf",      "ok_no_tensors.gguf",         "ok_align64.gguf",
    "ok_all_kv_types.gguf", "ok_two_tensors_padded.gguf", "ok_version2.gguf",
};

static void every_cut_is_refused_or_lacks_only_padding(void **state)
{
    (void)state;
    for (size_t g = 0; g < WF_COUNT(good); g++) {
        size_t n;
        unsigned char *bytes = malformed(good[g], &n);
        byte_source source;
        weft_file *f = NULL;
        assert_int_equal(open_bytes(&source, bytes, n, true, &f), WEFT_OK);
        /* the last byte that matters: the end of the last tensor, if there is one */
        uint64_t used = 0;
        weft_file_tensor t;
        for (int64_t i = 0; weft_file_tensor_at(f, i, &t) == WEFT_OK; i++)
            used = WF_MAX(used, t.offset + t.size_bytes);
        weft_file_close(f);
        for (size_t cut = 0; cut < n; cut++) {
            wf_str s = {.ptr = (char *)bytes, .len = cut};
            weft_status st = verdict(&s);
            if (used)
                assert_int_equal(st, cut < used ? WEFT_E_FORMAT : WEFT_OK);
            else
                assert_true(st == WEFT_OK || st == WEFT_E_FORMAT);
        }
        free(bytes);
    }
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    size_t n;
    unsigned char *bytes = malformed("ok_all_kv_types.gguf", &n);
    for (int mapped = 0; mapped < 2; mapped++) {
        bool opened = false;
        for (uint64_t nth = 1; !opened; nth++) {
            byte_source source;
            weft_file *f = NULL;
            assert_true(nth < 200);
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

static bool read_nothing(void *user, uint64_t offset, void *dst, size_t n)
{
    (void)user, (void)offset, (void)dst, (void)n;
    return false;
}

static void a_failing_reader_is_an_io_error(void **state)
{
    (void)state;
    weft_file *f = NULL;
    weft_reader r = {.size_bytes = 1000, .read = read_nothing};
    assert_int_equal(weft_file_open_reader(&r, &f), WEFT_E_IO);
    /* a size that is a lie does not lead to an allocation of that size */
    r.size_bytes = UINT64_MAX / 2;
    assert_int_equal(weft_file_open_reader(&r, &f), WEFT_E_IO);
    assert_null(f);
    assert_int_equal(weft_file_open("tests/no such file.gguf", &f), WEFT_E_IO);
    assert_int_equal(weft_file_open(source_path("tests"), &f), WEFT_E_IO);
    assert_int_equal(weft_file_open("/dev/null", &f), WEFT_E_IO);
    assert_int_equal(weft_file_open(source_path(MALFORMED "manifest.json"), &f), WEFT_E_FORMAT);
    assert_int_equal(wf_alloc_live(), 0);
}

static void a_file_inside_a_file_opens_at_its_offset(void **state)
{
    (void)state;
    size_t n;
    void *inner = malformed("ok_two_tensors_padded.gguf", &n);
    char path[] = "/tmp/weft_test_gguf_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    char junk[5000];
    memset(junk, 'x', sizeof junk);
    assert_int_equal(write(fd, junk, sizeof junk), sizeof junk);
    assert_int_equal(write(fd, inner, n), n);
    assert_int_equal(write(fd, junk, 100), 100);
    close(fd);
    weft_reader r;
    weft_file *f = NULL;
    assert_int_equal(weft_reader_open_file(path, sizeof junk, n, &r), WEFT_OK);
    assert_int_equal(weft_file_open_reader(&r, &f), WEFT_OK);
    byte_source source;
    weft_file *whole = NULL;
    assert_int_equal(open_bytes(&source, inner, n, true, &whole), WEFT_OK);
    assert_int_equal(touch_file(f), touch_file(whole));
    assert_int_equal(touch_file(f), touch_file(whole)); /* pages that were released come back */
    weft_file_close(whole);
    weft_file_close(f);
    assert_int_equal(weft_reader_open_file(path, sizeof junk + n + 200, 0, &r), WEFT_E_IO);
    assert_int_equal(weft_reader_open_file(path, sizeof junk, UINT64_MAX, &r), WEFT_E_IO);
    unlink(path);
    free(inner);
    assert_int_equal(wf_alloc_live(), 0);
}

static void the_story_model_is_read(void **state)
{
    (void)state;
    weft_file *f = NULL;
    weft_file_tensor t;
    int64_t v;
    double eps;
    const char *text;
    size_t n;
    assert_int_equal(weft_file_open(source_path("models/stories260k/stories260K.F32.gguf"), &f), WEFT_OK);
    assert_int_equal(weft_file_meta_str(f, "general.architecture", 0, &text, &n), WEFT_OK);
    assert_int_equal(n, 5);
    assert_memory_equal(text, "llama", 5);
    assert_int_equal(weft_file_meta_i64(f, "llama.block_count", 0, &v), WEFT_OK);
    assert_int_equal(v, 5);
    assert_int_equal(weft_file_meta_f64(f, "llama.attention.layer_norm_rms_epsilon", 0, &eps), WEFT_OK);
    assert_true(eps > 0.9e-5 && eps < 1.1e-5);
    assert_int_equal(weft_file_tensor_find(f, "blk.0.ffn_down.weight", &t), WEFT_OK);
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.shape[0], 64);  /* rows: outputs */
    assert_int_equal(t.shape[1], 172); /* the contiguous axis */
    assert_string_equal(t.type_name, "F32");
    assert_true(t.known && t.dtype == WEFT_DTYPE_F32);
    weft_file_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_of_the_manifest),
        cmocka_unit_test(unpadded_tail_is_accepted),
        cmocka_unit_test(values_of_every_kind),
        cmocka_unit_test(hostile_shapes_are_refused),
        cmocka_unit_test(alignment_must_be_a_power_of_two_within_the_file),
        cmocka_unit_test(hostile_strings_and_arrays_are_refused),
        cmocka_unit_test(overlapping_tensors_are_refused),
        cmocka_unit_test(types_without_kernels_are_listed),
        cmocka_unit_test(any_byte_flipped_gives_a_verdict),
        cmocka_unit_test(every_cut_is_refused_or_lacks_only_padding),
        cmocka_unit_test(every_failing_allocation_is_reported),
        cmocka_unit_test(a_failing_reader_is_an_io_error),
        cmocka_unit_test(a_file_inside_a_file_opens_at_its_offset),
        cmocka_unit_test(the_story_model_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
