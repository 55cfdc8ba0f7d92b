/* fuzz_tokenizer.c - two halves. An input that begins with "GGUF" is a vocabulary file, whose tokenizer then
 * reads a fixed text; any other is a text for small vocabularies of both kinds, made here: the ids must
 * spell the text, byte for byte. Seeds: tests/data/tokenizers and fuzz/seeds/tokenizer. */
#include "../tests/file_bytes.h"
#include "replay_main.h"
#include "weft/text.h"

/* ---- a GGUF file in a fixed buffer ---- */

typedef struct gguf_text {
    unsigned char bytes[65536];
    size_t n;
} gguf_text;

static void add(gguf_text *g, const void *p, size_t n)
{
    if (n > sizeof g->bytes - g->n)
        abort();
    memcpy(g->bytes + g->n, p, n);
    g->n += n;
}

static void add_u32(gguf_text *g, uint32_t v)
{
    add(g, &v, 4); /* little-endian machines */
}

static void add_u64(gguf_text *g, uint64_t v)
{
    add(g, &v, 8);
}

static void add_string(gguf_text *g, const char *s, size_t n)
{
    add_u64(g, n);
    add(g, s, n);
}

static void add_key(gguf_text *g, const char *key, uint32_t type)
{
    add_string(g, key, strlen(key));
    add_u32(g, type);
}

static void add_array(gguf_text *g, const char *key, uint32_t type, uint64_t count)
{
    add_key(g, key, 9);
    add_u32(g, type);
    add_u64(g, count);
}

enum { N_SPECIAL = 3, N_WORDS = 12 };
static const char *const spm_words[N_WORDS] = {"\xe2\x96\x81", "a", "b", "ab", "\342\226\201a", "\342\226\201ab",
                                               "aa", "aaaa", "ba", "\xc3\xa9", "\303\251a", "abab"};
static const char *const bpe_words[N_WORDS] = {"ab", "\304\240a", "\304\240ab", "aa", "aaaa", "ba", "12", "''",
                                               "\xc4\xa0\xc4\xa0", "abab", "'s", "bb"};
static const char *const bpe_merges[N_WORDS] = {"a b", "\xc4\xa0 a", "\304\240a b", "a a", "aa aa", "b a", "1 2", "' '",
                                                "\xc4\xa0 \xc4\xa0", "ab ab", "' s", "b b"};

/* The printable alphabet of byte-level BPE. */
static size_t alphabet(int byte, char out[3])
{
    static int spare[256];
    static bool made;
    if (!made) {
        for (int b = 0, next = 256; b < 256; b++)
            spare[b] = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174 ? b : next++;
        made = true;
    }
    int c = spare[byte];
    if (c < 128) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 63));
    return 2;
}

static weft_tokenizer *make(bool spm, const char *pre)
{
    static gguf_text g;
    static const char *const specials[N_SPECIAL] = {"<unk>", "<s>", "</s>"};
    const uint64_t n = N_SPECIAL + 256 + N_WORDS;
    g.n = 0;
    add(&g, "GGUF", 4);
    add_u32(&g, 3);
    add_u64(&g, 0);
    add_u64(&g, spm ? 4 : 5);
    add_key(&g, "tokenizer.ggml.model", 8);
    add_string(&g, spm ? "llama" : "gpt2", spm ? 5 : 4);
    add_array(&g, "tokenizer.ggml.tokens", 8, n);
    for (int i = 0; i < N_SPECIAL; i++)
        add_string(&g, specials[i], strlen(specials[i]));
    for (int b = 0; b < 256; b++) {
        char text[8];
        if (spm)
            snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        add_string(&g, text, spm ? 6 : alphabet(b, text));
    }
    for (int i = 0; i < N_WORDS; i++)
        add_string(&g, (spm ? spm_words : bpe_words)[i], strlen((spm ? spm_words : bpe_words)[i]));
    add_array(&g, "tokenizer.ggml.token_type", 5, n);
    for (uint32_t i = 0; i < n; i++)
        add_u32(&g, i == 0 ? 2 : i < N_SPECIAL ? 3 : i < N_SPECIAL + 256 && spm ? 6 : 1);
    if (spm) {
        add_array(&g, "tokenizer.ggml.scores", 6, n);
        for (uint32_t i = 0; i < n; i++) {
            float score = i < N_SPECIAL + 256 ? 0 : -(float)(i % 5);
            add(&g, &score, 4);
        }
    } else {
        add_array(&g, "tokenizer.ggml.merges", 8, N_WORDS);
        for (int i = 0; i < N_WORDS; i++)
            add_string(&g, bpe_merges[i], strlen(bpe_merges[i]));
        add_key(&g, "tokenizer.ggml.pre", 8);
        add_string(&g, pre, strlen(pre));
    }
    byte_source source;
    weft_file *f = NULL;
    weft_tokenizer *t = NULL;
    if (open_bytes(&source, g.bytes, g.n, true, &f) != WEFT_OK || weft_tokenizer_from_file(f, &t) != WEFT_OK)
        abort();
    weft_file_close(f);
    return t;
}

/* Undo tokenization; `expected` has the space that SentencePiece puts in front. */
static void check_spelling(const weft_tokenizer *t, const int32_t *ids, size_t n_ids, const uint8_t *text, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n_ids; i++) {
        const char *bytes;
        size_t len;
        if (weft_token_bytes(t, ids[i], true, &bytes, &len) != WEFT_OK)
            abort();
        if (i == 0 && len && weft_tokenizer_space_prefix(t)) {
            if (*bytes != ' ')
                abort();
            bytes++;
            len--;
        }
        if (len > n - at || memcmp(bytes, text + at, len))
            abort();
        at += len;
    }
    if (at != n)
        abort();
}

static bool has_space_sign(const uint8_t *text, size_t n)
{
    for (size_t i = 0; i + 3 <= n; i++)
        if (memcmp(text + i, "\xe2\x96\x81", 3) == 0)
            return true; /* reads back as a space */
    return false;
}

static void fuzz_text(const uint8_t *text, size_t n)
{
    static weft_tokenizer *toks[6];
    static const char *const pres[6] = {NULL, "gpt-2", "smollm", "llama-bpe", "qwen2", "default"};
    for (int k = 0; k < 6; k++) {
        int32_t *ids = NULL;
        size_t n_ids = 0;
        if (!toks[k])
            toks[k] = make(k == 0, pres[k]);
        weft_tokenize_opts opts = {-1, false};
        if (weft_tokenize(toks[k], (const char *)text, n, &opts, &ids, &n_ids) != WEFT_OK)
            abort();
        if (k || !has_space_sign(text, n))
            check_spelling(toks[k], ids, n_ids, text, n);
        weft_ids_free(ids);
        opts = (weft_tokenize_opts){1, true};
        if (weft_tokenize(toks[k], (const char *)text, n, &opts, &ids, &n_ids) != WEFT_OK)
            abort();
        weft_ids_free(ids);
    }
}

static void fuzz_vocabulary(const uint8_t *data, size_t size)
{
    static const char text[] = "Hello  w\xc3\xb6rld 123 <s>\r\n\n it's\xff \xf0\x9f\xa6\x99 aaaaaaaa";
    byte_source source;
    weft_file *f = NULL;
    weft_tokenizer *t = NULL;
    if (open_bytes(&source, data, size, true, &f) != WEFT_OK)
        return;
    if (weft_tokenizer_from_file(f, &t) == WEFT_OK) {
        int32_t *ids = NULL;
        size_t n_ids = 0;
        if (weft_tokenize(t, text, sizeof text - 1, &(weft_tokenize_opts){1, true}, &ids, &n_ids) == WEFT_OK)
            for (size_t i = 0; i < n_ids; i++)
                if (ids[i] < 0 || ids[i] >= weft_tokenizer_size(t))
                    abort();
        weft_ids_free(ids);
        for (int32_t i = 0; i < weft_tokenizer_size(t); i++) {
            const char *bytes;
            size_t len;
            if (weft_token_bytes(t, i, true, &bytes, &len) != WEFT_OK)
                abort();
            sum_bytes(bytes, len);
        }
    }
    weft_tokenizer_destroy(t);
    weft_file_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0)
        fuzz_vocabulary(data, size);
    else
        fuzz_text(data, size);
    return 0;
}
