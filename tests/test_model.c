/* test_model.c - loading models: progress, readers, configurations, and failures that leave nothing behind. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base.h"
#include "data_file.h"
#include "mdl.h"

#define STORY "models/stories260k/stories260K.F32.gguf"
#define TENSORS "tests/data/stories260k/model.safetensors"

static void ok_at(weft_status st, int line)
{
    if (st != WEFT_OK)
        fail_msg("line %d: %s: %s", line, weft_status_name(st), weft_error_message());
}
#define OK(expr) ok_at((expr), __LINE__)

static int set_up(void **state)
{
    OK(weft_ctx_open(&(weft_ctx_opts){.device = "cpu"}, (weft_ctx **)state));
    return 0;
}

static int tear_down(void **state)
{
    weft_ctx_close(*state);
    return 0;
}

static void a_model_describes_itself(void **state)
{
    weft_model *m = NULL;
    weft_model_info info;
    OK(weft_model_load(*state, source_path(STORY), NULL, &m));
    OK(weft_model_describe(m, &info));
    assert_string_equal(info.architecture, "llama");
    assert_int_equal(info.n_layers, 5);
    assert_int_equal(info.n_heads, 8);
    assert_int_equal(info.n_kv_heads, 4);
    assert_int_equal(info.head_dim, 8);
    assert_int_equal(info.width, 64);
    assert_int_equal(info.ffn_width, 172);
    assert_int_equal(info.vocab_size, 512);
    assert_int_equal(info.rope_dim, 8);
    assert_int_equal(info.context_length, 512);
    assert_int_equal(info.weight_bytes, 4 * info.n_params);
    assert_non_null(weft_model_tokenizer(m));
    weft_model_close(m);
}

typedef struct seen {
    int calls;
    uint64_t last, total;
    int stop_at;
} seen;

static bool watch(void *user, const char *phase, uint64_t done, uint64_t total)
{
    seen *s = user;
    assert_string_equal(phase, "load");
    assert_true(done >= s->last && done <= total);
    s->last = done;
    s->total = total;
    return ++s->calls != s->stop_at;
}

static void loading_reports_progress_and_can_be_cancelled(void **state)
{
    seen s = {0};
    weft_model *m = NULL;
    OK(weft_model_load(*state, source_path(STORY), &(weft_model_opts){.progress = watch, .progress_user = &s}, &m));
    weft_model_close(m);
    assert_true(s.calls > 40);
    assert_int_equal(s.last, s.total);
    m = NULL;
    for (int stop = 1; stop <= s.calls; stop += 9) {
        seen c = {.stop_at = stop};
        assert_int_equal(weft_model_load(*state, source_path(STORY), &(weft_model_opts){.progress = watch, .progress_user = &c}, &m),
                         WEFT_E_CANCELLED);
        assert_null(m);
    }
}

typedef struct blob {
    const char *bytes;
    size_t n;
} blob;

static bool read_blob(void *user, uint64_t offset, void *dst, size_t n)
{
    const blob *b = user;
    if (offset > b->n || n > b->n - offset)
        return false;
    memcpy(dst, b->bytes + offset, n);
    return true;
}

static void first_logits(weft_ctx *ctx, weft_file *file, float out[512])
{
    weft_model *m = NULL;
    weft_session *s = NULL;
    weft_tensor *t = NULL;
    OK(weft_model_load_file(ctx, file, NULL, &m));
    weft_file_close(file);
    OK(weft_session_create(m, &(weft_session_opts){.context_length = 4}, &s));
    OK(weft_session_step(s, (const int32_t[]){1, 403}, 2, false, &t));
    OK(weft_read(t, out, 512 * sizeof *out));
    weft_tensor_release(t);
    weft_session_destroy(s);
    weft_model_close(m);
}

static void memory_and_callback_readers_load_the_same_model(void **state)
{
    float a[512], b[512], c[512];
    blob whole = {0};
    weft_file *file;
    weft_reader reader;
    whole.bytes = read_whole(source_path(STORY), &whole.n);
    assert_non_null(whole.bytes);
    OK(weft_file_open(source_path(STORY), &file));
    first_logits(*state, file, a);
    OK(weft_reader_borrow_memory(whole.bytes, whole.n, &reader));
    OK(weft_file_open_reader(&reader, &file));
    first_logits(*state, file, b);
    reader = (weft_reader){.user = &whole, .size_bytes = whole.n, .read = read_blob};
    OK(weft_file_open_reader(&reader, &file));
    first_logits(*state, file, c);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(a, c, sizeof a);
    free((void *)whole.bytes);
}

static void a_failed_allocation_in_loading_leaves_nothing_behind(void **state)
{
    weft_model *m = NULL;
    int failures = 0;
    OK(weft_model_load(*state, source_path(STORY), NULL, &m)); /* pools and caches are warm now */
    weft_model_close(m);
    m = NULL;
    weft_stats before, after;
    OK(weft_ctx_stats(*state, &before));
    uint64_t live = wf_alloc_live();
    for (uint64_t n = 1; n < 3000; n += 1 + n / 6) {
        wf_alloc_fail_nth(n);
        weft_status st = weft_model_load(*state, source_path(STORY), NULL, &m);
        wf_alloc_fail_nth(0);
        if (st == WEFT_OK) {
            weft_model_close(m);
            m = NULL;
            continue;
        }
        failures++;
        assert_null(m);
    }
    assert_true(failures > 10);
    OK(weft_ctx_stats(*state, &after));
    assert_true(wf_alloc_live() <= live + 64); /* freelists may hold a few blocks more */
    assert_true(after.bytes_live <= before.bytes_live + (1 << 20));
}

/* ---- config.json ---- */
static const char plain_config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64, \"intermediate_size\": 172, \"num_hidden_layers\": 5,"
    " \"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"vocab_size\": 512, \"max_position_embeddings\": 512,"
    " \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, \"hidden_act\": \"silu\", \"tie_word_embeddings\": true %s}";

static weft_status load_with(weft_ctx *ctx, const char *text, weft_model **out)
{
    char path[] = "config-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    weft_status st = weft_model_load(ctx, source_path(TENSORS), &(weft_model_opts){.config_path = path}, out);
    unlink(path);
    return st;
}

static void configurations_that_cannot_be_run_are_named(void **state)
{
    const struct { const char *from, *to, *says; weft_status st; } rows[] = {
        {"LlamaForCausalLM", "ZebraForCausalLM", "LlamaForCausalLM", WEFT_E_UNSUPPORTED},
        {"LlamaForCausalLM", "ZebraForCausalLM", "ZebraForCausalLM", WEFT_E_UNSUPPORTED},
        {"\"silu\"", "\"gelu\"", "gelu", WEFT_E_UNSUPPORTED},
        {"\"hidden_size\": 64", "\"hidden_size\": 60", "60", WEFT_E_FORMAT},
        {"\"hidden_size\": 64", "\"hidden_size\": 0", "0", WEFT_E_FORMAT},
        {"\"hidden_size\": 64", "\"hidden_size\": -64", "hidden_size", WEFT_E_FORMAT},
        {"\"hidden_size\": 64", "\"hidden_size\": \"64\"", "hidden_size", WEFT_E_FORMAT},
        {"\"hidden_size\": 64", "\"hidden_size\": 64.5", "hidden_size", WEFT_E_FORMAT},
        {"\"hidden_size\": 64,", "", "hidden_size", WEFT_E_FORMAT},
        {"\"num_key_value_heads\": 4", "\"num_key_value_heads\": 3", "3", WEFT_E_FORMAT},
        {"\"num_hidden_layers\": 5", "\"num_hidden_layers\": 6", "layers.5", WEFT_E_FORMAT},
        {"\"num_hidden_layers\": 5", "\"num_hidden_layers\": 9999999", "9999999", WEFT_E_FORMAT},
        {"\"vocab_size\": 512", "\"vocab_size\": 511", "512", WEFT_E_FORMAT},
        {"\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false", "lm_head.weight", WEFT_E_FORMAT},
        {"\"hidden_size\"", "hidden_size", "line", WEFT_E_FORMAT},
        {"true ", "true, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}", "yarn", WEFT_E_UNSUPPORTED},
    };
    char base[1024];
    snprintf(base, sizeof base, plain_config, "");
    for (size_t i = 0; i < WF_COUNT(rows); i++) {
        char text[1200];
        weft_model *m = NULL;
        const char *at = strstr(base, rows[i].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - base), base, rows[i].to, at + strlen(rows[i].from));
        weft_status st = load_with(*state, text, &m);
        if (st != rows[i].st || !strstr(weft_error_message(), rows[i].says))
            fail_msg("row %zu: %s: %s", i, weft_status_name(st), weft_error_message());
        assert_null(m);
    }
}

static void an_absent_configuration_is_an_error(void **state)
{
    weft_model *m = NULL;
    weft_file *file;
    assert_int_equal(weft_model_load(*state, source_path(TENSORS), &(weft_model_opts){.config_path = "no/such.json"}, &m), WEFT_E_IO);
    OK(weft_file_open(source_path(TENSORS), &file));
    assert_int_equal(weft_model_load_file(*state, file, NULL, &m), WEFT_E_VALUE);
    weft_file_close(file);
}

static void rope_scaling_is_read_from_the_configuration(void **state)
{
    char text[1400];
    weft_model *m = NULL;
    snprintf(text, sizeof text, plain_config, ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}");
    OK(load_with(*state, text, &m));
    assert_true(m->config.rope_scale == 0.25);
    weft_model_close(m);
    snprintf(text, sizeof text, plain_config,
             ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0,"
             " \"original_max_position_embeddings\": 1024}");
    OK(load_with(*state, text, &m));
    /* Waves of 2 pi 10^i tokens against 1024: 163 and 16.3 turns stay, 1.63 blends, 0.163 slows by 8. */
    assert_non_null(m->config.freq_factors);
    const double blend = (1024 / (2 * 3.14159265358979 * 100) - 1) / 3, want[4] = {1, 1, 1 / ((1 - blend) / 8 + blend), 8};
    for (int i = 0; i < 4; i++)
        assert_true(fabs(m->config.freq_factors[i] - want[i]) < 1e-5);
    weft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_describes_itself),
        cmocka_unit_test(loading_reports_progress_and_can_be_cancelled),
        cmocka_unit_test(memory_and_callback_readers_load_the_same_model),
        cmocka_unit_test(a_failed_allocation_in_loading_leaves_nothing_behind),
        cmocka_unit_test(configurations_that_cannot_be_run_are_named),
        cmocka_unit_test(an_absent_configuration_is_an_error),
        cmocka_unit_test(rope_scaling_is_read_from_the_configuration),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
