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
    if (json_array_size(json_object_get(root, "with_special_parsing")))
        check_cases(gpt2, json_object_get(root, "with_special_parsing"), "ids", special);
    json_decref(root);
    root = load_json("tests/data/tokenizers/smollm.json");
    check_cases(smollm, json_object_get(root, "cases"), "ids", (weft_tokenize_opts){0, false});
    if (json_array_size(json_object_get(root, "with_special_parsing")))
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

/* ---- lines of the fault list: ids by Hugging Face tokenizers (byte level) and by a plain loop over all
 * pairs (SentencePiece), both from the same vocabularies ---- */

static void hard_texts_equal_the_reference(void **state)
{
    (void)state;
    EXPECT(gpt2, " Vi\xe1\xbb\x87t", plain, 16049, 157, 119, 229, 83);
    EXPECT(gpt2, "<s>G", plain, 27, 82, 29, 38);
    EXPECT(gpt2, "a  b", plain, 64, 220, 275);
    EXPECT(gpt2, "\xf0\x9f\xa6\x99", plain, 8582, 99, 247);
    EXPECT(gpt2, "\r\n\r\n", plain, 201, 198, 201, 198);
    EXPECT(gpt2, "1234567", plain, 10163, 2231, 3134);
    EXPECT(gpt2, "a\xc2\xa0" "b", plain, 64, 1849, 65);
    EXPECT(gpt2, "   ", plain, 220, 220, 220);
    EXPECT(smollm, " Vi\xe1\xbb\x87t", plain, 10506, 25275, 225, 100);
    EXPECT(smollm, "<s>G", plain, 44, 99, 46, 55);
    EXPECT(smollm, "a  b", plain, 81, 216, 278);
    EXPECT(smollm, "\xf0\x9f\xa6\x99", plain, 10813, 116, 243);
    EXPECT(smollm, "\r\n\r\n", plain, 18682);
    EXPECT(smollm, "1234567", plain, 33, 34, 35, 36, 37, 38, 39);
    EXPECT(smollm, "\xc2\xa0", plain, 15442);
    EXPECT(smollm, "   ", plain, 333);
    EXPECT(story, " Vi\xe1\xbb\x87t", plain, 410, 410, 470, 417, 228, 190, 138, 413);
    EXPECT(story, "<s>G", plain, 410, 504, 419, 505, 463);
    EXPECT(story, "a  b", plain, 261, 410, 268);
    EXPECT(story, "\xf0\x9f\xa6\x99", plain, 410, 243, 162, 169, 156);
    EXPECT(story, "\r\n\r\n", plain, 410, 16, 13, 16, 13);
    EXPECT(story, "1234567", plain, 410, 475, 479, 472, 484, 480, 490, 491);
    EXPECT(story, "a\xc2\xa0" "b", plain, 261, 498, 430);
    EXPECT(story, "   ", plain, 410, 410, 410, 410);
}

static void an_empty_text_is_at_most_bos(void **state)
{
    (void)state;
    EXPECT(story, "", with_bos, 1);
    expect_ids(story, "", 0, plain, NULL, 0);
    expect_ids(gpt2, NULL, 0, plain, NULL, 0);
    assert_true(weft_tokenizer_adds_bos(story));
    assert_false(weft_tokenizer_adds_bos(gpt2));
    assert_false(weft_tokenizer_adds_bos(smollm));
}

static void control_tokens_need_parse_special(void **state)
{
    (void)state;
    EXPECT(smollm, "a<|endoftext|>b", special, 81, 0, 82);
    int32_t *ids;
    size_t n;
    assert_int_equal(weft_tokenize(smollm, "a<|endoftext|>b", 15, &plain, &ids, &n), WEFT_OK);
    for (size_t i = 0; i < n; i++)
        assert_false(weft_tokenizer_is_control(smollm, ids[i]));
    weft_ids_free(ids);
    /* SentencePiece: a space goes before the text after a special token, too */
    EXPECT(story, "<s>a b", special, 1, 261, 268);
    EXPECT(story, "<s>", special, 1);
    EXPECT(story, "<s></s>", special, 1, 2);
}

static void stray_bytes_are_spelt(void **state)
{
    (void)state;
    EXPECT(story, "a\xff", plain, 261, 3 + 0xff);
    EXPECT(story, "\xed\xa0\x80", plain, 410, 3 + 0xed, 3 + 0xa0, 3 + 0x80);
    static const char *const texts[] = {"\xed\xa0\x80", "\xff\xfe", "a\xc3", "\xe2\x82", "x\x80y\xf0\x9f", "\xc0\xaf", "\xf5\x80\x80\x80"};
    const weft_tokenizer *const toks[] = {story, gpt2};
    for (size_t k = 0; k < WF_COUNT(toks); k++)
        for (size_t i = 0; i < WF_COUNT(texts); i++) {
            int32_t *ids;
            size_t n;
            wf_str s = WF_STR_INIT;
            assert_int_equal(weft_tokenize(toks[k], texts[i], strlen(texts[i]), &plain, &ids, &n), WEFT_OK);
            for (size_t j = 0; j < n; j++) {
                const char *bytes;
                size_t len;
                assert_int_equal(weft_token_bytes(toks[k], ids[j], false, &bytes, &len), WEFT_OK);
                wf_str_addn(&s, bytes, len);
            }
            assert_string_equal(s.ptr + weft_tokenizer_space_prefix(toks[k]), texts[i]);
            wf_str_free(&s);
            weft_ids_free(ids);
        }
}

/* SmolLM has no token for 0x04 and 0xff, and a merge for neither. */
static void bytes_without_a_token_are_dropped_from_text_and_refused_elsewhere(void **state)
{
    (void)state;
    int32_t *ids = NULL;
    size_t n;
    EXPECT(smollm, "a\4b", plain, 81, 82);
    assert_int_equal(weft_tokenize(smollm, "a\xff", 2, &plain, &ids, &n), WEFT_E_VALUE);
    assert_null(ids);
    assert_int_equal(weft_tokenize(smollm, "a\xed\xa0\x80", 4, &plain, &ids, &n), WEFT_OK);
    weft_ids_free(ids);
}

static void tokens_know_what_they_are(void **state)
{
    (void)state;
    const char *bytes;
    size_t n;
    assert_int_equal(weft_tokenizer_size(story), 512);
    assert_int_equal(weft_tokenizer_bos(story), 1);
    assert_int_equal(weft_tokenizer_eos(story), 2);
    assert_true(weft_tokenizer_is_stop(story, 1) && weft_tokenizer_is_stop(story, 2));
    assert_false(weft_tokenizer_is_stop(story, 0) || weft_tokenizer_is_stop(story, -1) || weft_tokenizer_is_stop(story, 512));
    assert_true(weft_tokenizer_is_stop(smollm, 0)); /* <|endoftext|>, by its text */
    assert_int_equal(weft_token_bytes(story, 1, false, &bytes, &n), WEFT_OK);
    assert_int_equal(n, 0);
    assert_int_equal(weft_token_bytes(story, 1, true, &bytes, &n), WEFT_OK);
    assert_true(n == 3 && memcmp(bytes, "<s>", 3) == 0);
    assert_int_equal(weft_token_bytes(story, 3 + 0xe9, false, &bytes, &n), WEFT_OK);
    assert_true(n == 1 && bytes[0] == (char)0xe9);
    assert_int_equal(weft_token_bytes(story, 512, true, &bytes, &n), WEFT_E_INDEX);
    assert_int_equal(weft_token_bytes(story, -1, true, &bytes, &n), WEFT_E_INDEX);
    assert_int_equal(weft_token_bytes(NULL, 0, true, &bytes, &n), WEFT_E_CONTEXT);
}

static void long_runs_do_not_take_quadratic_time(void **state)
{
    (void)state;
    const weft_tokenizer *const toks[] = {story, gpt2, smollm};
    static const char fill[] = {'a', ' ', '\n', '7', '!'};
    size_t n = 200000;
    char *text = malloc(n);
    for (size_t k = 0; k < WF_COUNT(toks); k++)
        for (size_t c = 0; c < WF_COUNT(fill); c++) {
            int32_t *ids;
            size_t n_ids;
            memset(text, fill[c], n);
            assert_int_equal(weft_tokenize(toks[k], text, n, &plain, &ids, &n_ids), WEFT_OK);
            weft_ids_free(ids);
        }
    free(text);
}

/* ---- small vocabularies made here ---- */

typedef struct maker {
    wf_str body;
    uint64_t n_keys;
} maker;

static void add_u32(wf_str *s, uint32_t v)
{
    wf_str_addn(s, (char[]){(char)v, (char)(v >> 8), (char)(v >> 16), (char)(v >> 24)}, 4);
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

static void key_text(maker *m, const char *key, const char *value)
{
    add_text(&m->body, key);
    add_u32(&m->body, 8);
    add_text(&m->body, value);
    m->n_keys++;
}

static void key_u32(maker *m, const char *key, uint32_t type, uint32_t value)
{
    add_text(&m->body, key);
    add_u32(&m->body, type);
    if (type == 7)
        wf_str_addn(&m->body, value ? "\1" : "\0", 1);
    else
        add_u32(&m->body, value);
    m->n_keys++;
}

/* Words separated by spaces. */
static void key_words(maker *m, const char *key, const char *words, char between)
{
    uint64_t n = *words != 0;
    for (const char *p = words; *p; p++)
        n += *p == between;
    add_text(&m->body, key);
    add_u32(&m->body, 9);
    add_u32(&m->body, 8);
    add_u64(&m->body, n);
    for (const char *p = words; n--;) {
        const char *end = strchr(p, between);
        size_t len = end ? (size_t)(end - p) : strlen(p);
        add_u64(&m->body, len);
        wf_str_addn(&m->body, p, len);
        p += len + 1;
    }
    m->n_keys++;
}

static void key_numbers(maker *m, const char *key, bool floats, size_t n, const int *values)
{
    add_text(&m->body, key);
    add_u32(&m->body, 9);
    add_u32(&m->body, floats ? 6 : 5);
    add_u64(&m->body, n);
    for (size_t i = 0; i < n; i++) {
        float f = (float)values[i];
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        add_u32(&m->body, floats ? u : (uint32_t)values[i]);
    }
    m->n_keys++;
}

/* Ends the maker. The status of weft_tokenizer_from_file. */
static weft_status finish(maker *m, weft_tokenizer **out)
{
    wf_str s = WF_STR_INIT;
    weft_reader r;
    weft_file *f = NULL;
    wf_str_add(&s, "GGUF");
    add_u32(&s, 3);
    add_u64(&s, 0);
    add_u64(&s, m->n_keys);
    wf_str_addn(&s, m->body.ptr, m->body.len);
    assert_int_equal(weft_reader_borrow_memory(s.ptr, s.len, &r), WEFT_OK);
    assert_int_equal(weft_file_open_reader(&r, &f), WEFT_OK);
    weft_status st = weft_tokenizer_from_file(f, out);
    weft_file_close(f);
    wf_str_free(&s);
    wf_str_free(&m->body);
    return st;
}

#define TOKENS "tokenizer.ggml.tokens"

static void equal_scores_join_the_leftmost_and_higher_scores_first(void **state)
{
    (void)state;
    weft_tokenizer *t = NULL;
    maker m = {0};
    key_text(&m, "tokenizer.ggml.model", "llama");
    key_words(&m, TOKENS, "<unk> <s> </s> a b aa ab aab ba", ' ');
    key_numbers(&m, "tokenizer.ggml.token_type", false, 9, (const int[]){2, 3, 3, 1, 1, 1, 1, 1, 1});
    key_numbers(&m, "tokenizer.ggml.scores", true, 9, (const int[]){0, 0, 0, -9, -9, -2, -1, -3, -2});
    key_u32(&m, "tokenizer.ggml.add_space_prefix", 7, 0);
    key_u32(&m, "tokenizer.ggml.add_bos_token", 7, 0);
    assert_int_equal(finish(&m, &t), WEFT_OK);
    EXPECT(t, "aaa", plain, 5, 3);
    EXPECT(t, "aab", plain, 7);       /* ab first, then a + ab */
    EXPECT(t, "aba", plain, 6, 3);
    EXPECT(t, "bab", plain, 4, 6);
    EXPECT(t, "aaaa", plain, 5, 5);
    /* no byte tokens: whole characters become the unknown token, stray bytes an error */
    EXPECT(t, "a\xc3\xa9z", plain, 3, 0, 0);
    int32_t *ids = NULL;
    size_t n;
    assert_int_equal(weft_tokenize(t, "a\xff", 2, &plain, &ids, &n), WEFT_E_VALUE);
    assert_null(ids);
    EXPECT(t, "<s>a<unk>", special, 1, 3, 0);
    weft_tokenizer_destroy(t);
}

static void user_tokens_are_always_recognised(void **state)
{
    (void)state;
    weft_tokenizer *t = NULL;
    maker m = {0};
    key_text(&m, "tokenizer.ggml.model", "gpt2");
    key_text(&m, "tokenizer.ggml.pre", "gpt-2");
    key_words(&m, TOKENS, "a b c", ' ');
    key_numbers(&m, "tokenizer.ggml.token_type", false, 2, (const int[]){1, 1});
    key_words(&m, "tokenizer.ggml.merges", "a b", '|');
    assert_int_equal(finish(&m, &t), WEFT_E_FORMAT); /* three tokens, two types */
    m = (maker){0};
    key_text(&m, "tokenizer.ggml.model", "gpt2");
    key_text(&m, "tokenizer.ggml.pre", "gpt-2");
    key_words(&m, TOKENS, "a b \xc4\xa0 ab [x] [xx] [C]", ' ');
    key_numbers(&m, "tokenizer.ggml.token_type", false, 7, (const int[]){1, 1, 1, 1, 4, 4, 3});
    key_words(&m, "tokenizer.ggml.merges", "a b", '|');
    assert_int_equal(finish(&m, &t), WEFT_OK);
    EXPECT(t, "ab[x]ab a[xx]", plain, 3, 4, 3, 2, 0, 5);
    EXPECT(t, "a[C]b", special, 0, 6, 1);
    EXPECT(t, "a[C]b", plain, 0, 1); /* no token for '[', 'C' and ']' */
    weft_tokenizer_destroy(t);
}

static void unusable_vocabularies_are_refused(void **state)
{
    (void)state;
    weft_tokenizer *t = NULL;
    maker m = {0};
    assert_int_equal(finish(&m, &t), WEFT_E_FORMAT);
    m = (maker){0};
    key_text(&m, "tokenizer.ggml.model", "bert");
    assert_int_equal(finish(&m, &t), WEFT_E_UNSUPPORTED);
    assert_non_null(strstr(weft_error_message(), "bert"));
    assert_non_null(strstr(weft_error_message(), "gpt2"));
    m = (maker){0};
    key_text(&m, "tokenizer.ggml.model", "llama");
    key_text(&m, TOKENS, "no array");
    assert_int_equal(finish(&m, &t), WEFT_E_FORMAT);
    m = (maker){0};
    key_text(&m, "tokenizer.ggml.model", "gpt2");
    key_text(&m, "tokenizer.ggml.pre", "no-such-pre");
    key_words(&m, TOKENS, "a b", ' ');
    key_words(&m, "tokenizer.ggml.merges", "a b", '|');
    assert_int_equal(finish(&m, &t), WEFT_E_UNSUPPORTED);
    assert_non_null(strstr(weft_error_message(), "no-such-pre"));
    assert_non_null(strstr(weft_error_message(), "qwen2"));
    static const char *const bad_merges[] = {"ab", "a ", " b", " "};
    for (size_t i = 0; i < WF_COUNT(bad_merges); i++) {
        m = (maker){0};
        key_text(&m, "tokenizer.ggml.model", "gpt2");
        key_words(&m, TOKENS, "a b", ' ');
        key_words(&m, "tokenizer.ggml.merges", bad_merges[i], '|');
        assert_int_equal(finish(&m, &t), WEFT_E_FORMAT);
    }
    /* an id of none, or outside */
    m = (maker){0};
    key_text(&m, "tokenizer.ggml.model", "llama");
    key_words(&m, TOKENS, "a b", ' ');
    key_u32(&m, "tokenizer.ggml.bos_token_id", 4, UINT32_MAX);
    assert_int_equal(finish(&m, &t), WEFT_OK);
    assert_int_equal(weft_tokenizer_bos(t), -1);
    assert_int_equal(weft_tokenizer_eos(t), -1);
    weft_tokenizer_destroy(t);
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    uint64_t before = wf_alloc_live();
    for (int spm = 0; spm < 2; spm++) {
        maker m = {0};
        key_text(&m, "tokenizer.ggml.model", spm ? "llama" : "gpt2");
        if (!spm) {
            key_text(&m, "tokenizer.ggml.pre", "smollm");
            key_words(&m, "tokenizer.ggml.merges", "a b|ab a", '|');
        }
        key_words(&m, TOKENS, "<s> a b ab aba \xc4\xa0 1", ' ');
        key_numbers(&m, "tokenizer.ggml.token_type", false, 7, (const int[]){3, 1, 1, 1, 1, 1, 1});
        wf_str s = WF_STR_INIT;
        wf_str_add(&s, "GGUF");
        add_u32(&s, 3);
        add_u64(&s, 0);
        add_u64(&s, m.n_keys);
        wf_str_addn(&s, m.body.ptr, m.body.len);
        wf_str_free(&m.body);
        weft_reader r;
        weft_file *f = NULL;
        assert_int_equal(weft_reader_borrow_memory(s.ptr, s.len, &r), WEFT_OK);
        assert_int_equal(weft_file_open_reader(&r, &f), WEFT_OK);
        uint64_t held = wf_alloc_live();
        weft_tokenizer *t = NULL;
        weft_status st = WEFT_E_OOM;
        for (uint64_t nth = 1; st != WEFT_OK; nth++) {
            assert_true(nth < 500);
            wf_alloc_fail_nth(nth);
            st = weft_tokenizer_from_file(f, &t);
            wf_alloc_fail_nth(0);
            assert_true(st == WEFT_OK || (st == WEFT_E_OOM && !t && wf_alloc_live() == held));
        }
        held = wf_alloc_live();
        st = WEFT_E_OOM;
        for (uint64_t nth = 1; st != WEFT_OK; nth++) {
            int32_t *ids = NULL;
            size_t n = 0;
            assert_true(nth < 500);
            wf_alloc_fail_nth(nth);
            st = weft_tokenize(t, "aba<s>ab1a", 10, &special, &ids, &n);
            wf_alloc_fail_nth(0);
            assert_true(st == WEFT_OK || (st == WEFT_E_OOM && !ids));
            weft_ids_free(ids);
            assert_int_equal(wf_alloc_live(), held);
        }
        weft_tokenizer_destroy(t);
        weft_file_close(f);
        wf_str_free(&s);
    }
    assert_int_equal(wf_alloc_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentencepiece_ids_equal_the_reference),
        cmocka_unit_test(detokenized_bytes_give_the_text_back),
        cmocka_unit_test(byte_level_ids_equal_the_reference),
        cmocka_unit_test(gpt2_vectors_of_the_vocabulary_file),
        cmocka_unit_test(hard_texts_equal_the_reference),
        cmocka_unit_test(an_empty_text_is_at_most_bos),
        cmocka_unit_test(control_tokens_need_parse_special),
        cmocka_unit_test(stray_bytes_are_spelt),
        cmocka_unit_test(bytes_without_a_token_are_dropped_from_text_and_refused_elsewhere),
        cmocka_unit_test(tokens_know_what_they_are),
        cmocka_unit_test(long_runs_do_not_take_quadratic_time),
        cmocka_unit_test(equal_scores_join_the_leftmost_and_higher_scores_first),
        cmocka_unit_test(user_tokens_are_always_recognised),
        cmocka_unit_test(unusable_vocabularies_are_refused),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
