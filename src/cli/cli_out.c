/* cli_out.c - text in whole UTF-8 sequences, JSON, progress and the small measurements that are printed. */
#include "cli.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Length of the sequence that starts with `c`, 0 for a byte that starts none. */
static size_t sequence_length(unsigned char c)
{
    return c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
}

/* Valid bytes at s: their number, 0 when invalid, or -1 when the sequence is cut off by the end. */
static int check_sequence(const unsigned char *s, size_t n)
{
    size_t len = sequence_length(s[0]);
    if (len == 0)
        return 0;
    for (size_t i = 1; i < len; i++) {
        unsigned char low = 0x80, high = 0xBF;
        if (i >= n)
            return -1;
        if (i == 1) { /* overlong forms, surrogates and numbers past U+10FFFF (RFC 3629, section 4) */
            low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : low;
            high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : high;
        }
        if (s[i] < low || s[i] > high)
            return 0;
    }
    return (int)len;
}

bool cli_utf8_valid(const char *s, size_t n, size_t *bad_at)
{
    for (size_t i = 0; i < n;) {
        int len = check_sequence((const unsigned char *)s + i, n - i);
        if (len <= 0) {
            *bad_at = i;
            return false;
        }
        i += (size_t)len;
    }
    return true;
}

static void collect(cli_stream *s, const char *bytes, size_t n)
{
    if (s->out)
        fwrite(bytes, 1, n, s->out);
    if (s->len + n + 1 > s->cap) {
        size_t cap = 2 * s->cap + n + 256;
        char *p = realloc(s->text, cap);
        if (!p) {
            s->failed = true;
            return;
        }
        s->text = p;
        s->cap = cap;
    }
    memcpy(s->text + s->len, bytes, n);
    s->len += n;
    s->text[s->len] = 0;
}

void cli_stream_add(cli_stream *s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->held[s->n_held++] = bytes[i];
        if (check_sequence((unsigned char *)s->held, s->n_held) >= 0) { /* whole, or no sequence at all */
            collect(s, s->held, s->n_held);
            s->n_held = 0;
        }
    }
    if (s->out)
        fflush(s->out);
}

void cli_stream_flush(cli_stream *s)
{
    collect(s, s->held, s->n_held);
    s->n_held = 0;
    if (s->out)
        fflush(s->out);
}

void cli_stream_free(cli_stream *s)
{
    free(s->text);
    *s = (cli_stream){0};
}

json_t *cli_json_text(const char *bytes, size_t n)
{
    char *clean = malloc(3 * n + 1);
    size_t len = 0;
    if (!clean)
        return NULL;
    for (size_t i = 0; i < n;) {
        int k = check_sequence((const unsigned char *)bytes + i, n - i);
        if (k > 0) {
            memcpy(clean + len, bytes + i, (size_t)k);
            len += (size_t)k;
            i += (size_t)k;
        } else { /* one sign for the longest beginning of a sequence (Unicode 15, section 3.9, table 3-8) */
            size_t bad = 1;
            while (i + bad < n && check_sequence((const unsigned char *)bytes + i, bad + 1) < 0)
                bad++;
            memcpy(clean + len, "\xEF\xBF\xBD", 3);
            len += 3;
            i += bad;
        }
    }
    json_t *j = json_stringn(clean, len);
    free(clean);
    return j;
}

json_t *cli_json_str(const char *s)
{
    return cli_json_text(s, strlen(s));
}

json_t *cli_json_u64(uint64_t n)
{
    char digits[24];
    if (n <= INT64_MAX)
        return json_integer((json_int_t)n);
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    return json_string(digits);
}

int cli_json_print(json_t *root)
{
    char *text = root ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(root);
    if (!text)
        return cli_fail("out of memory for JSON");
    puts(text);
    free(text);
    return CLI_OK;
}

json_t *cli_json_ids(const int32_t *ids, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(a, json_integer(ids[i]));
    return a;
}

json_t *cli_json_stats(weft_ctx *ctx)
{
    weft_stats s;
    json_t *j = json_object();
    if (weft_ctx_stats(ctx, &s) != WEFT_OK)
        return j;
    const struct { const char *name; uint64_t value; } rows[] = {
        {"evals", s.evals}, {"plans_built", s.plans_built}, {"plans_reused", s.plans_reused},
        {"buffers_created", s.buffers_created}, {"buffers_reused", s.buffers_reused}, {"buffers_live", s.buffers_live},
        {"bytes_live", s.bytes_live}, {"bytes_peak", s.bytes_peak}, {"pipelines", s.pipelines}, {"dispatches", s.dispatches},
        {"submits", s.submits}, {"copies", s.copies}, {"fallbacks", s.fallbacks}, {"cpu_programs", s.cpu_programs},
        {"bytes_up", s.bytes_up}, {"bytes_down", s.bytes_down}, {"static_uploads", s.static_uploads},
        {"step_uploads", s.step_uploads}, {"texts_generated", s.texts_generated}, {"cache_found", s.cache_found},
        {"cache_stored", s.cache_stored}, {"cache_refused", s.cache_refused}, {"rows_measured", s.rows_measured},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        json_object_set_new(j, rows[i].name, json_integer((json_int_t)rows[i].value));
    return j;
}

void cli_progress(const char *what, double share)
{
    static bool shown;
    if (!isatty(STDERR_FILENO))
        return;
    if (share < 0 && shown)
        fputs("\r\033[K", stderr);
    else if (share >= 0)
        fprintf(stderr, "\r\033[K%s %3.0f %%", what, 100 * share);
    shown = share >= 0;
    fflush(stderr);
}

size_t cli_peak_memory(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (size_t)u.ru_maxrss * 1024 : 0;
}

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void cli_format_bytes(uint64_t n, char out[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)n;
    int u = 0;
    for (; v >= 1024 && u < 4; u++)
        v /= 1024;
    snprintf(out, 32, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}
