/* test_base.c - errors, log, memory, strings, hashes, and the table of dtypes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base.h"
#include "weft/weft.h"

/* ---- errors and log ---- */

static void statuses_have_names(void **state)
{
    (void)state;
    assert_string_equal(weft_status_name(WEFT_OK), "WEFT_OK");
    assert_string_equal(weft_status_name(WEFT_E_SHAPE), "WEFT_E_SHAPE");
    assert_string_equal(weft_status_name(WEFT_E_INTERNAL), "WEFT_E_INTERNAL");
    assert_string_equal(weft_status_name((weft_status)-1), "WEFT_E_UNKNOWN");
    assert_string_equal(weft_status_name(WEFT_STATUS_COUNT), "WEFT_E_UNKNOWN");
    for (int i = 0; i < WEFT_STATUS_COUNT; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(weft_status_name((weft_status)i), weft_status_name((weft_status)k));
    assert_string_equal(weft_version(), "0.1.0");
}

static void *message_of_another_thread(void *out)
{
    strcpy(out, weft_error_message());
    wf_fail(WEFT_E_IO, "elsewhere");
    return NULL;
}

static void messages_belong_to_a_thread(void **state)
{
    (void)state;
    char seen[100] = "?";
    pthread_t thread;
    assert_int_equal(wf_fail(WEFT_E_VALUE, "here %d", 7), WEFT_E_VALUE);
    pthread_create(&thread, NULL, message_of_another_thread, seen);
    pthread_join(thread, NULL);
    assert_string_equal(seen, "");
    assert_string_equal(weft_error_message(), "here 7");
}

static void messages_may_hold_the_one_before(void **state)
{
    (void)state;
    wf_fail(WEFT_E_VALUE, "inner");
    wf_fail(WEFT_E_VALUE, "outer: %s", weft_error_message());
    assert_string_equal(weft_error_message(), "outer: inner");
    char big[5000];
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = '\0';
    wf_fail(WEFT_E_VALUE, "%s", big);
    assert_int_equal(strlen(weft_error_message()), WF_MESSAGE_BYTES - 1);
    weft_fail(WEFT_E_VALUE, "%s", big); /* the public one cuts at the same length */
    assert_int_equal(strlen(weft_error_message()), WF_MESSAGE_BYTES - 1);
}

static int n_logged;
static char last_logged[64];

static void count_log(void *user, weft_log_level level, const char *message)
{
    (void)level;
    n_logged += *(int *)user;
    snprintf(last_logged, sizeof last_logged, "%s", message);
}

static void log_respects_the_level(void **state)
{
    (void)state;
    int one = 1;
    wf_log(WEFT_LOG_ERROR, "nobody listens");
    weft_set_log(count_log, &one, WEFT_LOG_INFO);
    wf_log(WEFT_LOG_DEBUG, "too fine");
    wf_log(WEFT_LOG_INFO, "n = %d", 3);
    assert_int_equal(n_logged, 1);
    assert_string_equal(last_logged, "n = 3");
    weft_set_log(NULL, NULL, WEFT_LOG_DEBUG);
    wf_log(WEFT_LOG_ERROR, "off again");
    assert_int_equal(n_logged, 1);
}

/* ---- memory ---- */

typedef struct counted {
    int held, refuse;
} counted;

static void *counted_realloc(void *user, void *ptr, size_t n)
{
    counted *c = user;
    if (c->refuse)
        return NULL;
    c->held += !ptr;
    return realloc(ptr, n);
}

static void counted_free(void *user, void *ptr)
{
    ((counted *)user)->held -= ptr != NULL;
    free(ptr);
}

static void allocations_pass_the_hook(void **state)
{
    (void)state;
    counted c = {0};
    weft_allocator a = {counted_realloc, counted_free, &c};
    assert_int_equal(weft_set_allocator(&a), WEFT_OK);
    void *p = wf_alloc(10), *q = wf_calloc(3, 5);
    assert_int_equal(c.held, 2);
    assert_int_equal(wf_alloc_live(), 2);
    assert_int_equal(weft_set_allocator(NULL), WEFT_E_VALUE);
    p = wf_realloc(p, 1000);
    assert_int_equal(c.held, 2);
    c.refuse = 1;
    assert_null(wf_realloc(p, 2000));
    assert_string_equal(weft_error_message(), "out of memory: 2000 bytes");
    memset(p, 1, 1000); /* still valid */
    wf_free(p);
    wf_free(q);
    wf_free(NULL);
    assert_int_equal(c.held, 0);
    assert_int_equal(weft_set_allocator(NULL), WEFT_OK);
    a.free = NULL;
    assert_int_equal(weft_set_allocator(&a), WEFT_E_VALUE);
}

static void the_nth_allocation_fails(void **state)
{
    (void)state;
    wf_alloc_fail_nth(3);
    void *a = wf_alloc(1), *b = wf_alloc(0), *c = wf_alloc(1), *d = wf_alloc(1);
    assert_non_null(a);
    assert_non_null(b); /* size 0 is a valid pointer */
    assert_null(c);
    assert_non_null(d);
    wf_free(a);
    wf_free(b);
    wf_free(d);
    wf_alloc_fail_nth(1);
    wf_alloc_fail_nth(0);
    char *s = wf_strdup("text");
    assert_string_equal(s, "text");
    wf_free(s);
    assert_int_equal(wf_alloc_live(), 0);
}

static void impossible_sizes_fail_cleanly(void **state)
{
    (void)state;
    assert_null(wf_calloc(SIZE_MAX / 2, 3));
    assert_null(wf_alloc(SIZE_MAX));
    assert_null(wf_alloc((size_t)PTRDIFF_MAX + 1));
    size_t cap = 0;
    void *v = NULL;
    assert_int_equal(wf_grow(&v, &cap, SIZE_MAX / 2, 16), WEFT_E_OOM);
    assert_null(v);
    assert_int_equal(cap, 0);
    wf_arena arena = {0};
    assert_null(wf_arena_alloc(&arena, SIZE_MAX - 3));
    wf_arena_free(&arena);
    assert_int_equal(wf_alloc_live(), 0);
}

static void arrays_grow_and_keep_their_content(void **state)
{
    (void)state;
    int *v = NULL;
    size_t cap = 0;
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(wf_grow((void **)&v, &cap, i + 1, sizeof *v), WEFT_OK);
        v[i] = (int)i;
    }
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(v[i], i);
    wf_alloc_fail_nth(1);
    assert_int_equal(wf_grow((void **)&v, &cap, cap + 1, sizeof *v), WEFT_E_OOM);
    assert_int_equal(v[999], 999);
    wf_free(v);
}

static void arenas_give_zeroed_aligned_memory(void **state)
{
    (void)state;
    wf_arena a = {0};
    for (int round = 0; round < 3; round++) {
        for (size_t n = 0; n < 3000; n += 7) {
            unsigned char *p = wf_arena_alloc(&a, n);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 16, 0);
            for (size_t i = 0; i < n; i++)
                assert_int_equal(p[i], 0);
            memset(p, 0xee, n);
        }
        assert_non_null(wf_arena_alloc(&a, 9 << 20));
        wf_arena_reset(&a);
        assert_int_equal(wf_alloc_live(), 1);
    }
    wf_arena_free(&a);
    wf_arena_free(&a);
    assert_int_equal(wf_alloc_live(), 0);
}

/* ---- strings ---- */

static void strings_append_and_format(void **state)
{
    (void)state;
    wf_str s = WF_STR_INIT;
    char want[3000] = "";
    for (int i = 0; i < 100; i++) {
        wf_str_addf(&s, "%d,", i * 1000);
        sprintf(want + strlen(want), "%d,", i * 1000);
        wf_str_add(&s, "");
        wf_str_addn(&s, "xyz", 2);
        strcat(want, "xy");
    }
    assert_string_equal(s.ptr, want);
    assert_int_equal(s.len, strlen(want));
    wf_str_clear(&s);
    assert_int_equal(s.len, 0);
    wf_str_addf(&s, "%300s", "x");
    assert_int_equal(s.len, 300);
    wf_str_free(&s);
    assert_null(s.ptr);
}

static void strings_remember_a_failed_append(void **state)
{
    (void)state;
    wf_str s = WF_STR_INIT;
    wf_str_add(&s, "12345");
    wf_alloc_fail_nth(1);
    wf_str_addf(&s, "%500d", 1);
    assert_true(s.oom);
    assert_string_equal(s.ptr, "12345");
    wf_str_add(&s, "6");
    assert_string_equal(s.ptr, "12345");
    wf_str_free(&s);
    assert_int_equal(wf_alloc_live(), 0);
}

/* ---- hash ---- */

static bool same(wf_hash128 a, wf_hash128 b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

static void hash_depends_on_every_byte_the_length_and_the_seed(void **state)
{
    (void)state;
    unsigned char data[200] = {0};
    for (size_t n = 0; n <= sizeof data; n++) {
        wf_hash128 h = wf_hash(data, n, 0);
        assert_true(same(h, wf_hash(data, n, 0)));
        assert_false(same(h, wf_hash(data, n, 1)));
        if (n < sizeof data) /* all zero: only the length differs */
            assert_false(same(h, wf_hash(data, n + 1, 0)));
        for (size_t i = 0; i < n; i++) {
            data[i] = 0x80;
            wf_hash128 g = wf_hash(data, n, 0);
            assert_true(g.lo != h.lo && g.hi != h.hi);
            data[i] = 0;
        }
    }
}

static int by_lo(const void *a, const void *b)
{
    uint64_t x = ((const wf_hash128 *)a)->lo, y = ((const wf_hash128 *)b)->lo;
    return x < y ? -1 : x > y;
}

static void hash_has_no_collisions_on_small_differences(void **state)
{
    (void)state;
    enum { N = 200000 };
    wf_hash128 *h = malloc(N * sizeof *h);
    unsigned char data[96] = {0};
    for (uint32_t i = 0; i < N; i++) {
        memcpy(data + 4 * (i % 23), &i, 4);
        h[i] = wf_hash(data, sizeof data, 0);
        memset(data + 4 * (i % 23), 0, 4);
    }
    qsort(h, N, sizeof *h, by_lo);
    for (uint32_t i = 1; i < N; i++)
        assert_true(h[i].lo != h[i - 1].lo);
    free(h);
}

/* One input bit turns each output bit with probability one half: 64 x 8 flips of 512 bits give a mean of 64
 * of 128 within 6 standard deviations (sqrt(128)/2 = 5.7 each, over 512 samples 0.25). */
static void hash_avalanches(void **state)
{
    (void)state;
    unsigned char data[64];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 41);
    wf_hash128 h = wf_hash(data, sizeof data, 9);
    int total = 0;
    for (int bit = 0; bit < 512; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        wf_hash128 g = wf_hash(data, sizeof data, 9);
        total += __builtin_popcountll(g.lo ^ h.lo) + __builtin_popcountll(g.hi ^ h.hi);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_true(total > 512 * 62 && total < 512 * 66);
}

/* ---- dtypes ---- */

static void dtypes_have_names_and_sizes(void **state)
{
    (void)state;
    weft_dtype d;
    for (int i = 0; i < WEFT_DTYPE_COUNT; i++) {
        assert_int_equal(weft_dtype_parse(weft_dtype_name((weft_dtype)i), &d), WEFT_OK);
        assert_int_equal(d, i);
        assert_true(weft_dtype_block_bytes((weft_dtype)i) > 0);
    }
    assert_int_equal(weft_dtype_parse("f31", &d), WEFT_E_DTYPE);
    assert_non_null(strstr(weft_error_message(), "bf16"));
    assert_int_equal(weft_dtype_parse(NULL, &d), WEFT_E_DTYPE);
    assert_string_equal(weft_dtype_name((weft_dtype)77), "?");
    assert_int_equal(weft_dtype_block_bytes((weft_dtype)-1), 0);
    assert_int_equal(weft_dtype_block(WEFT_DTYPE_Q4_1), 32);
    assert_int_equal(weft_dtype_block_bytes(WEFT_DTYPE_Q4_1), 20);
    assert_true(weft_dtype_is_float(WEFT_DTYPE_BF16) && !weft_dtype_is_float(WEFT_DTYPE_Q8_0));
    assert_true(weft_dtype_is_integer(WEFT_DTYPE_U8) && !weft_dtype_is_integer(WEFT_DTYPE_BOOL));
    assert_true(weft_dtype_is_quantised(WEFT_DTYPE_Q8_0) && !weft_dtype_is_quantised(WEFT_DTYPE_F16));
}

static void promotion_follows_the_table(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"bool", "bool", "bool"}, {"bool", "u8", "u8"}, {"bool", "f16", "f16"}, {"u8", "i8", "i32"}, {"i8", "i32", "i32"},
        {"u8", "i32", "i32"}, {"u8", "u32", "u32"}, {"i32", "u32", "i64"}, {"u32", "i64", "i64"}, {"i64", "f16", "f16"},
        {"i64", "bf16", "bf16"}, {"f16", "bf16", "f32"}, {"f16", "f32", "f32"}, {"bf16", "f64", "f64"}, {"f32", "f64", "f64"},
        {"i8", "i8", "i8"}, {"u8", "i64", "i64"}, {"bool", "i64", "i64"}, {"i32", "f32", "f32"},
    };
    for (size_t i = 0; i < WF_COUNT(cases); i++) {
        weft_dtype a, b, want, got;
        weft_dtype_parse(cases[i][0], &a);
        weft_dtype_parse(cases[i][1], &b);
        weft_dtype_parse(cases[i][2], &want);
        assert_int_equal(weft_dtype_promote(a, b, &got), WEFT_OK);
        assert_int_equal(got, want);
        assert_int_equal(weft_dtype_promote(b, a, &got), WEFT_OK);
        assert_int_equal(got, want);
    }
    weft_dtype got;
    assert_int_equal(weft_dtype_promote(WEFT_DTYPE_F32, WEFT_DTYPE_Q8_0, &got), WEFT_E_DTYPE);
    assert_int_equal(weft_dtype_promote(WEFT_DTYPE_F32, (weft_dtype)99, &got), WEFT_E_DTYPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(messages_belong_to_a_thread),
        cmocka_unit_test(messages_may_hold_the_one_before),
        cmocka_unit_test(log_respects_the_level),
        cmocka_unit_test(allocations_pass_the_hook),
        cmocka_unit_test(the_nth_allocation_fails),
        cmocka_unit_test(impossible_sizes_fail_cleanly),
        cmocka_unit_test(arrays_grow_and_keep_their_content),
        cmocka_unit_test(arenas_give_zeroed_aligned_memory),
        cmocka_unit_test(strings_append_and_format),
        cmocka_unit_test(strings_remember_a_failed_append),
        cmocka_unit_test(hash_depends_on_every_byte_the_length_and_the_seed),
        cmocka_unit_test(hash_has_no_collisions_on_small_differences),
        cmocka_unit_test(hash_avalanches),
        cmocka_unit_test(dtypes_have_names_and_sizes),
        cmocka_unit_test(promotion_follows_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
