/* test_disk_cache.c - the store: what is kept comes back, whatever else lies in the folder, is written beside or is killed. */
#include "cache_fixture.h"

#include "disk_cache.h"
#include "text_cache.h"

#include <signal.h>
#include <time.h>

static wf_disk_cache *opened(uint64_t max_bytes)
{
    wf_disk_cache *c;
    assert_int_equal(wf_disk_open(folder, max_bytes, &c), WEFT_OK);
    return c;
}

static void store(wf_disk_cache *c, const char *key, const char *value)
{
    wf_disk_store(c, key, strlen(key), value, strlen(value));
}

/* The value is there, and this one. */
static bool holds(wf_disk_cache *c, const char *key, const char *value)
{
    void *got = NULL;
    size_t n;
    bool found = wf_disk_find(c, key, strlen(key), &got, &n);
    if (found && (n != strlen(value) || memcmp(got, value, n + 1) != 0))
        fail_msg("the value of %s is \"%.*s\", not \"%s\"", key, (int)n, (const char *)got, value);
    wf_free(got);
    return found;
}

static void what_is_stored_is_found_by_another(void **state)
{
    (void)state;
    wf_disk_cache *a = opened(0), *b = opened(0);
    assert_false(holds(a, "k", "v"));
    store(a, "k", "v");
    store(a, "empty", "");
    assert_true(holds(b, "k", "v"));
    assert_true(holds(b, "empty", ""));
    assert_false(holds(b, "K", ""));
    assert_int_equal(wf_disk_counted(a).stored, 2);
    assert_int_equal(wf_disk_counted(b).found, 2);
    wf_disk_close(a);
    wf_disk_close(b);
    assert_int_equal(lines_logged, 0);
}

static void nothing_is_made_before_the_first_store(void **state)
{
    (void)state;
    char below[128];
    wf_disk_cache *c;
    snprintf(below, sizeof below, "%.60s/a", folder);
    assert_int_equal(wf_disk_open(below, 0, &c), WEFT_OK);
    assert_false(holds(c, "k", ""));
    assert_int_equal(each_file(NULL), 0);
    store(c, "k", "v");
    assert_true(holds(c, "k", "v"));
    wf_disk_close(c);
    struct stat info;
    assert_int_equal(stat(below, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700); /* for this user alone */
    char command[256];
    snprintf(command, sizeof command, "rm -r '%s'", below);
    assert_int_equal(system(command), 0);
}

/* Every byte, and every length: not used, one line, and whole again after the next store. */
static void a_changed_byte_or_length_is_noticed(void **state)
{
    (void)state;
    wf_disk_cache *c = opened(0);
    store(c, "a key of some bytes", "and a value");
    wf_disk_close(c);
    n_images = 0;
    each_file(take_image);
    assert_int_equal(n_images, 1);
    file_image *f = &images[0];
    for (size_t at = 0; at < 9 * f->n; at++) {
        bool cut = at >= 8 * f->n;
        size_t n = cut ? at - 8 * f->n : f->n;
        f->bytes[at % f->n] ^= cut ? 0 : 1u << at / f->n;
        put_bytes(f->path, f->bytes, n);
        f->bytes[at % f->n] ^= cut ? 0 : 1u << at / f->n;
        lines_logged = 0;
        c = opened(0);
        assert_false(holds(c, "a key of some bytes", ""));
        assert_int_equal(lines_logged, 1);
        assert_int_equal(wf_disk_counted(c).refused, 1);
        store(c, "a key of some bytes", "and a value");
        assert_true(holds(c, "a key of some bytes", "and a value"));
        assert_int_equal(lines_logged, 1);
        wf_disk_close(c);
    }
    f->bytes = realloc(f->bytes, f->n + 1);
    f->bytes[f->n] = 0;
    put_bytes(f->path, f->bytes, f->n + 1); /* longer */
    c = opened(0);
    assert_false(holds(c, "a key of some bytes", ""));
    wf_disk_close(c);
    free_images();
}

static char foreign[512];
static void note_path(const char *path) { snprintf(foreign, sizeof foreign, "%s", path); }

static void a_foreign_thing_is_passed_over(void **state)
{
    (void)state;
    wf_disk_cache *c = opened(0);
    store(c, "k", "v");
    wf_disk_close(c);
    each_file(note_path);
    for (int kind = 0; kind < 5; kind++) {
        if (kind < 4)
            remove_any(foreign);
        if (kind == 0)
            put_bytes(foreign, "{\"some\": \"other program's file, as long as one of ours would be\"}", 64);
        else if (kind == 1)
            assert_int_equal(mkfifo(foreign, 0600), 0); /* opening one to read would wait for a writer */
        else if (kind == 2)
            assert_int_equal(symlink("/etc/hostname", foreign), 0);
        else if (kind == 3)
            put_bytes(foreign, "", 0);
        else
            assert_int_equal(chmod(foreign, 0666), 0); /* sound, but anyone may have put it there */
        lines_logged = 0;
        c = opened(0);
        assert_false(holds(c, "k", ""));
        assert_int_equal(lines_logged, 1);
        store(c, "k", "v");
        assert_true(holds(c, "k", "v"));
        assert_int_equal(lines_logged, 1);
        wf_disk_close(c);
    }
    remove_any(foreign);
    assert_int_equal(mkdir(foreign, 0700), 0); /* cannot be replaced: a line for that too, and the caller goes on */
    c = opened(0);
    lines_logged = 0;
    assert_false(holds(c, "k", ""));
    store(c, "k", "v");
    store(c, "k", "v");
    assert_int_equal(lines_logged, 2);
    wf_disk_close(c);
}

static void many_damaged_files_are_one_line(void **state)
{
    (void)state;
    char key[16];
    wf_disk_cache *c = opened(0);
    for (int i = 0; i < 20; i++) {
        snprintf(key, sizeof key, "key %d", i);
        store(c, key, "value");
    }
    wf_disk_close(c);
    n_images = 0;
    each_file(take_image);
    for (int i = 0; i < n_images; i++)
        put_bytes(images[i].path, "WEFTKEPT", 8);
    c = opened(0);
    for (int i = 0; i < 20; i++) {
        snprintf(key, sizeof key, "key %d", i);
        assert_false(holds(c, key, ""));
    }
    assert_int_equal(lines_logged, 1);
    assert_int_equal(wf_disk_counted(c).refused, 20);
    wf_disk_close(c);
    free_images();
}

static void a_folder_that_cannot_be_written_is_one_line(void **state)
{
    (void)state;
    char below[128];
    wf_disk_cache *c;
    snprintf(below, sizeof below, "%.60s/file", folder);
    put_bytes(below, "x", 1);
    snprintf(below, sizeof below, "%.60s/file/cache", folder); /* not even root can make this one */
    assert_int_equal(wf_disk_open(below, 0, &c), WEFT_OK);
    store(c, "k", "v");
    store(c, "l", "w");
    assert_int_equal(lines_logged, 1);
    assert_non_null(strstr(last_line, below));
    wf_disk_close(c);
    if (geteuid() == 0)
        return; /* permissions do not bind root */
    c = opened(0);
    store(c, "k", "v");
    wf_disk_close(c);
    lines_logged = 0;
    assert_int_equal(chmod(folder, 0500), 0);
    c = opened(0);
    assert_true(holds(c, "k", "v")); /* what is there is used */
    store(c, "l", "w");
    assert_int_equal(lines_logged, 1);
    wf_disk_close(c);
    assert_int_equal(chmod(folder, 0700), 0);
}

/* ---- size ---- */

static uint64_t folder_bytes;
static void add_bytes(const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0)
        folder_bytes += (uint64_t)info.st_size;
}

static void set_age(const char *path, time_t age_s)
{
    struct timespec t[2] = {{.tv_sec = time(NULL) - age_s}, {.tv_sec = time(NULL) - age_s}};
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}
static void make_old(const char *path) { set_age(path, 10 * 86400); }

static void the_folder_stays_small_and_keeps_what_is_used(void **state)
{
    (void)state;
    enum { MAX = 64 * 1024 };
    char key[16], value[1025], other[128], part[128], young[128];
    memset(value, 'v', 1024);
    value[1024] = '\0';
    snprintf(other, sizeof other, "%.60s/notes.txt", folder);
    wf_disk_cache *c = opened(MAX);
    store(c, "used", value);
    store(c, "unused", value);
    each_file(make_old);
    put_bytes(other, "mine", 4);
    make_old(other);
    snprintf(part, sizeof part, "%.60s/00112233445566778899aabbccddeeff-1-2-3.part", folder);
    put_bytes(part, "killed", 6);
    make_old(part);
    snprintf(young, sizeof young, "%.60s/00112233445566778899aabbccddeeff-4-5-6.part", folder);
    put_bytes(young, "at work", 7);
    assert_true(holds(c, "used", value)); /* has a new date now */
    for (int i = 0; i < 300; i++) {
        snprintf(key, sizeof key, "key %d", i);
        store(c, key, value);
        if (i == 40)
            assert_true(holds(c, "used", value));
        folder_bytes = 0;
        each_file(add_bytes);
        assert_true(folder_bytes <= MAX + MAX / 8 + 2048); /* measured after every eighth of it */
    }
    assert_false(holds(c, "unused", value));
    assert_true(holds(c, "key 299", value));
    assert_int_equal(access(other, F_OK), 0); /* not ours, however old */
    assert_int_not_equal(access(part, F_OK), 0);
    assert_int_equal(access(young, F_OK), 0);
    char *large = calloc(1, MAX / 4 + 2);
    memset(large, 'x', MAX / 4 + 1);
    store(c, "large", large); /* would push out everything else */
    assert_false(holds(c, "large", large));
    free(large);
    wf_disk_close(c);
    assert_int_equal(lines_logged, 0);
}

static void the_least_used_go_first(void **state)
{
    (void)state;
    enum { MAX = 16 * 1024 };
    char value[1025];
    memset(value, 'v', 1024);
    value[1024] = '\0';
    wf_disk_cache *c = opened(0);
    store(c, "old", value);
    each_file(make_old);
    store(c, "new", value);
    wf_disk_close(c);
    c = opened(MAX);
    char key[16];
    for (int i = 0; i < 14; i++) {
        snprintf(key, sizeof key, "key %d", i);
        store(c, key, value);
        if (i == 0)
            assert_true(holds(c, "new", value));
    }
    store(c, "one more", value);
    store(c, "and one", value);
    assert_false(holds(c, "old", value));
    assert_true(holds(c, "and one", value));
    wf_disk_close(c);
}

/* ---- several processes ---- */

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* A value that follows from its key, so that any process can check it. */
static void value_of(uint32_t key, char *value, size_t *n)
{
    uint32_t seed = key * 2654435761u + 1;
    *n = 100 + draw(&seed) % 60000;
    for (size_t i = 0; i < *n; i++)
        value[i] = (char)draw(&seed);
}

static void write_without_end(uint32_t seed)
{
    static char value[65536];
    wf_disk_cache *c;
    size_t n;
    if (wf_disk_open(folder, 8 << 20, &c) != WEFT_OK)
        _exit(1);
    for (;;) {
        uint32_t key = draw(&seed) % 16;
        value_of(key, value, &n);
        wf_disk_store(c, &key, sizeof key, value, n);
    }
}

static void killed_and_crowding_writers_leave_only_whole_values(void **state)
{
    (void)state;
    enum { WRITERS = 3, ROUNDS = 16 };
    static char value[65536];
    uint64_t found = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child[WRITERS];
        for (int i = 0; i < WRITERS; i++)
            if ((child[i] = fork()) == 0)
                write_without_end((uint32_t)(round * WRITERS + i));
        wf_disk_cache *c = opened(8 << 20);
        for (int turn = 0; turn < 60; turn++) {
            uint32_t key = (uint32_t)turn % 16;
            void *got = NULL;
            size_t n, want;
            if (wf_disk_find(c, &key, sizeof key, &got, &n)) {
                value_of(key, value, &want);
                assert_int_equal(n, want);
                assert_memory_equal(got, value, n);
                found++;
            }
            wf_free(got);
            nanosleep(&(struct timespec){.tv_nsec = 100000 + 37000 * (round % 7)}, NULL);
        }
        for (int i = 0; i < WRITERS; i++) {
            kill(child[i], SIGKILL);
            assert_int_equal(waitpid(child[i], NULL, 0), child[i]);
        }
        assert_int_equal(wf_disk_counted(c).refused, 0);
        wf_disk_close(c);
    }
    assert_true(found > ROUNDS);
    assert_int_equal(lines_logged, 0);
}

/* ---- keys and failures ---- */

static bool text_is_kept(wf_disk_cache *disk, const wf_caps *caps)
{
    wf_texts t = {.disk = disk, .caps = caps};
    wf_str key = WF_STR_INIT, text = WF_STR_INIT;
    wf_str_add(&key, "a kernel");
    bool found = wf_texts_find(&t, &key, &text);
    wf_str_free(&key);
    wf_str_free(&text);
    wf_texts_free(&t);
    return found;
}

/* A text of one device is not that of another which differs in anything that validity depends on. */
static void another_driver_device_feature_or_limit_is_another_key(void **state)
{
    (void)state;
    wf_caps caps = {.info = {.kind = "discrete", .name = "adapter", .driver = "580.1", .implementation = "wgpu-native 29", .backend = "vulkan",
                             .n_features = 1, .features = {{.name = "f16", .on = true}}},
                    .runs_wgsl = true, .max_buffer_bytes = 1 << 30, .max_binding_bytes = 1 << 27, .max_storage_buffers = 8,
                    .max_workgroup_invocations = 256, .max_workgroup_bytes = 16384, .max_workgroups = 65535};
    wf_caps same = caps, other[24];
    int n = 0;
    wf_disk_cache *disk = opened(0);
    wf_texts t = {.disk = disk, .caps = &caps};
    wf_str key = WF_STR_INIT, text = WF_STR_INIT;
    wf_str_add(&key, "a kernel");
    wf_str_add(&text, "fn main() {}");
    wf_texts_made(&t, &key, &text);
    wf_str_free(&key);
    wf_str_free(&text);
    wf_texts_free(&t);
    strcpy(same.info.spec, "webgpu:3");
    same.info.memory_bytes = 1;
    assert_true(text_is_kept(disk, &same));
#define OTHER(change) do { other[n] = caps; change; n++; } while (0)
    OTHER(strcpy(other[n].info.kind, "software"));
    OTHER(strcpy(other[n].info.name, "adapteR"));
    OTHER(strcpy(other[n].info.driver, "580.2"));
    OTHER(strcpy(other[n].info.implementation, "wgpu-native 30"));
    OTHER(strcpy(other[n].info.backend, "metal"));
    OTHER(other[n].info.features[0].on = false);
    OTHER(other[n].info.n_features = 0);
    OTHER(other[n].subgroups = true);
    OTHER(other[n].unchecked = true);
    OTHER(other[n].indirect = true);
    OTHER(other[n].subgroup_min = 32);
    OTHER(other[n].subgroup_max = 32);
    OTHER(other[n].layout = WF_LAYOUT_PLANAR);
    OTHER(other[n].max_buffer_bytes++);
    OTHER(other[n].max_binding_bytes++);
    OTHER(other[n].max_storage_buffers++);
    OTHER(other[n].max_workgroup_invocations++);
    OTHER(other[n].max_workgroup_bytes++);
    OTHER(other[n].max_workgroups--);
#undef OTHER
    for (int i = 0; i < n; i++)
        if (text_is_kept(disk, &other[i]))
            fail_msg("device %d has the key of another", i);
    wf_disk_close(disk);
}

static void the_sources_and_the_version_are_in_the_key(void **state)
{
    (void)state;
    wf_caps caps = {.runs_wgsl = true};
    wf_str s = WF_STR_INIT;
    wf_caps_identity(&caps, &s);
    assert_int_equal(strlen(wf_text_fingerprint), 64);
    assert_non_null(strstr(s.ptr, wf_text_fingerprint));
    assert_non_null(strstr(s.ptr, weft_version()));
    wf_str_free(&s);
}

static void a_failed_allocation_costs_only_the_value(void **state)
{
    (void)state;
    wf_disk_cache *c = NULL;
    uint64_t live = wf_alloc_live();
    int n = 1;
    for (bool whole = false; !whole; n++) {
        each_file(remove_any);
        wf_alloc_fail_nth((uint64_t)n);
        bool is_open = wf_disk_open(folder, 0, &c) == WEFT_OK;
        if (is_open) {
            store(c, "k", "v");
            whole = holds(c, "k", "v");
        }
        wf_alloc_fail_nth(0);
        if (is_open) {
            store(c, "k", "v");
            assert_true(holds(c, "k", "v"));
            wf_disk_close(c);
        }
        assert_int_equal(wf_alloc_live(), live);
        assert_true(n < 50);
    }
    assert_true(n > 4);
}

static void a_path_that_is_too_long_is_an_error(void **state)
{
    (void)state;
    char *path = malloc(8192);
    wf_disk_cache *c;
    memset(path, 'a', 8191);
    path[0] = '/';
    path[8191] = '\0';
    assert_int_equal(wf_disk_open(path, 0, &c), WEFT_E_VALUE);
    free(path);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_test_folder, drop_test_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(what_is_stored_is_found_by_another), T(nothing_is_made_before_the_first_store), T(a_changed_byte_or_length_is_noticed),
        T(a_foreign_thing_is_passed_over), T(many_damaged_files_are_one_line), T(a_folder_that_cannot_be_written_is_one_line),
        T(the_folder_stays_small_and_keeps_what_is_used), T(the_least_used_go_first), T(killed_and_crowding_writers_leave_only_whole_values),
        T(another_driver_device_feature_or_limit_is_another_key), T(the_sources_and_the_version_are_in_the_key),
        T(a_failed_allocation_costs_only_the_value), T(a_path_that_is_too_long_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
