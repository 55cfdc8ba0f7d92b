/* test_tokenizer.c - ids against the reference library's, and the rules at the edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <jansson.h>

#include "base.h"
#include "data_file.h"
#include "weft/text.h"

static weft_tokenizer *story, *gpt2, *smollm;

static weft_tokenizer *from_path(const char *path)
{
    weft_file *f = NULL;
    weft_tokenizer *t = NULL;
    if (weft_file_open(source_path(path), &f) != WEFT_OK || weft_tokenizer_from_file(f, &t) != WEFT_OK)
        print_error("%s\n", weft_error_message());
    weft_file_close(f);
    return t;
}

static weft_tokenizer *from_bytes(const void *bytes, size_t n)
{
    weft_reader r;
    weft_file *f = NULL;
    weft_tokenizer *t = NULL;
    if (weft_reader_borrow_memory(bytes, n, &r) != WEFT_OK)
        return NULL;
    if (weft_file_open_reader(&r, &f) != WEFT_OK)
        weft_reader_close(&r);
    else
        weft_tokenizer_from_file(f, &t);
    weft_file_close(f);
    return t;
}

static void *unpack(const char *path, size_t *n)
{
    char command[1200];
    snprintf(command, sizeof command, "xz -dc '%s'", source_path(path));
    FILE *p = popen(command, "r");
    size_t cap = 1 << 16, got;
    char *bytes = malloc(cap);
    for (*n = 0; p && (got = fread(bytes + *n, 1, cap - *n, p)) > 0;)
        if ((*n += got) == cap)
            bytes = realloc(bytes, cap *= 2);
    if (p)
        pclose(p);
    return bytes;
}

static int set_up(void **state)
{
    (void)state;
    size_t n;
    story = from_path("models/stories260k/stories260K.F32.gguf");
    gpt2 = from_path("tests/data/tokenizers/ggml-vocab-gpt-2.gguf");
    void *bytes = unpack("tests/data/tokenizers/ggml-vocab-smollm.gguf.xz", &n);
    smollm = from_bytes(bytes, n);
    free(bytes); /* the tokenizer keeps nothing of the file */
    return story && gpt2 && smollm ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    weft_tokenizer_destroy(story);
    weft_tokenizer_destroy(gpt2);
    weft_tokenizer_destroy(smollm);
    if (wf_alloc_live())
        print_error("%llu blocks are still held\n", (unsigned long long)wf_alloc_live());
    return wf_alloc_live() ? -1 : 0;
}

static void expect_ids(const weft_tokenizer *t, const char *text, size_t n, weft_tokenize_opts opts,
                       const int32_t *want, size_t n_want)
{
    int32_t *got = NULL;
    size_t n_got = 0;
    assert_int_equal(weft_tokenize(t, text, n, &opts, &got, &n_got), WEFT_OK);
    bool same = n_got == n_want && (!n_want || memcmp(got, want, n_want * sizeof *want) == 0);
    if (!same) {
        wf_str s = WF_STR_INIT;
        for (size_t i = 0; i < WF_MIN(n_got, 60); i++)
            wf_str_addf(&s, " %d", got[i]);
        wf_str_add(&s, " | expected");
        for (size_t i = 0; i < WF_MIN(n_want, 60); i++)
            wf_str_addf(&s, " %d", want[i]);
        fail_msg("\"%.*s\":%s", (int)WF_MIN(n, 200), text, s.ptr);
    }
    weft_ids_free(got);
}

#define EXPECT(t, text, opts, ...)                                                                       \
    expect_ids(t, text, sizeof(text) - 1, opts, (const int32_t[]){__VA_ARGS__},                          \
               sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))
static const weft_tokenize_opts plain = {-1, false}, with_bos = {1, false}, special = {-1, true};

static size_t json_ids(const json_t *array, int32_t *out, size_t room)
{
    size_t n = json_array_size(array);
    assert_true(n <= room);
    for (size_t i = 0; i < n; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return n;
}

/* A list of {text, ids, decoded?}. */
static void check_cases(const weft_tokenizer *t, const json_t *cases, const char *ids_key, weft_tokenize_opts opts)
{
    int32_t want[4096];
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        size_t n = json_ids(json_object_get(c, ids_key), want, WF_COUNT(want));
        const json_t *text = json_object_get(c, "text");
        expect_ids(t, json_string_value(text), json_string_length(text), opts, want, n);
    }
}

static json_t *load_json(const char *path)
{
    json_error_t e;
    json_t *root = json_load_file(source_path(path), JSON_ALLOW_NUL, &e);
    if (!root)
        fail_msg("%s: %s", path, e.text);
    return root;
}

static void sentencepiece_ids_equal_the_reference(void **state)
{
    (void)state;
    json_t *root = load_json("tests/data/stories260k/tok_ref.json");
    check_cases(story, root, "ids", with_bos);
    check_cases(story, root, "ids", (weft_tokenize_opts){0, false}); /* the file asks for BOS */
    json_decref(root);
}

static void detokenized_bytes_give_the_text_back(void **state)
{
    (void)state;
    json_t *root = load_json("tests/data/stories260k/tok_ref.json");
    for (size_t i = 0; i < json_array_size(root); i++) {
        const json_t *c = json_array_get(root, i), *ids = json_object_get(c, "ids");
        const json_t *text = json_object_get(c, "text");
        wf_str s = WF_STR_INIT;
        for (size_t k = 0; k < json_array_size(ids); k++) {
            const char *bytes;
            size_t n;
            assert_int_equal(weft_token_bytes(story, (int32_t)json_integer_value(json_array_get(ids, k)), false, &bytes,
                                              &n), WEFT_OK);
            wf_str_addn(&s, bytes, n);
        }
        size_t skip = json_string_length(text) > 0; /* the space before the text */
        assert_int_equal(s.len, json_string_length(text) + skip);
        assert_memory_equal(s.ptr + skip, json_string_value(text), json_string_length(text));
        wf_str_free(&s);
    }
    json_decref(root);
}

static void byte_level_ids_equal_the_reference(void **state)
{
    (void)state;
    json_t *root = load_json("tests/data/tokenizers/gpt-2.json");
    check_cases(gpt2, json_object_get(root, "cases"), "ids", (weft_tokenize_opts){0, false});
    if (json_object_get(root, "with_special_parsing"))
        check_cases(gpt2, json_object_get(root, "with_special_parsing"), "ids", special);
    json_decref(root);
    root = load_json("tests/data/tokenizers/smollm.json");
    check_cases(smollm, json_object_get(root, "cases"), "ids", (weft_tokenize_opts){0, false});
    if (json_object_get(root, "with_special_parsing"))
        check_cases(smollm, json_object_get(root, "with_special_parsing"), "ids", special);
    json_decref(root);
}

static void gpt2_vectors_of_the_vocabulary_file(void **state)
{
    (void)state;
    static const char between[] = "\n__ggml_vocab_test__\n";
    size_t n_in, n_out;
    char *in = read_whole(source_path("tests/data/tokenizers/ggml-vocab-gpt-2.gguf.inp"), &n_in);
    char *out = read_whole(source_path("tests/data/tokenizers/ggml-vocab-gpt-2.gguf.out"), &n_out);
    assert_true(in && out);
    int n_cases = 0;
    for (char *text = in, *line = out; text; n_cases++) {
        char *end = strstr(text, between);
        size_t n = end ? (size_t)(end - text) : strlen(text);
        int32_t want[1024];
        size_t n_want = 0;
        char *stop = line + strcspn(line, "\n");
        while (line < stop) {
            char *after;
            long id = strtol(line, &after, 10);
            if (after == line || after > stop)
                break;
            want[n_want++] = (int32_t)id;
            line = after;
        }
        line = *stop ? stop + 1 : stop;
        expect_ids(gpt2, text, n, plain, want, n_want);
        text = end ? end + sizeof between - 1 : NULL;
    }
    assert_true(n_cases > 30);
    free(in);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentencepiece_ids_equal_the_reference),
        cmocka_unit_test(detokenized_bytes_give_the_text_back),
        cmocka_unit_test(byte_level_ids_equal_the_reference),
        cmocka_unit_test(gpt2_vectors_of_the_vocabulary_file),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
