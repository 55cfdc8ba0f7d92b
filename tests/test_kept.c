/* test_kept.c - what Dawn is answered when it asks for a compiled pipeline, by both of the orders in which versions of it ask. */
#include "cache_fixture.h"

#if __has_include(<webgpu.h>)

#include "webgpu_device.h"

typedef struct asked_through {
    wf_disk_cache *disk;
    wf_wgpu_kept *kept;
    wf_dawn_cache chained;
} asked_through;

static asked_through attach(const char *driver)
{
    asked_through a = {0};
    wf_wgpu_lib lib = {.impl = WF_WGPU_DAWN, .name = "Dawn of a test"};
    weft_device_info info = {.name = "adapter", .backend = "vulkan"};
    WGPUChainedStruct toggles = {0};
    WGPUDeviceDescriptor desc = {.nextInChain = &toggles};
    snprintf(info.driver, sizeof info.driver, "%s", driver);
    assert_int_equal(wf_disk_open(folder, 0, &a.disk), WEFT_OK);
    a.kept = wf_wgpu_kept_new(a.disk, &lib, &info);
    assert_non_null(a.kept);
    wf_wgpu_kept_attach(a.kept, &a.chained, &desc);
    assert_ptr_not_equal(desc.nextInChain, &toggles);
    assert_ptr_equal(a.chained.chain.next, &toggles);
    return a;
}

static void detach(asked_through *a)
{
    wf_wgpu_kept_detach(a->kept);
    wf_disk_close(a->disk);
    wf_wgpu_kept_free(a->kept);
}

static const uint8_t key[] = "a key of Dawn's";

static void put(asked_through *a, const char *value)
{
    a->chained.store.call(sizeof key, key, strlen(value), (const uint8_t *)value, a->chained.store.user, NULL);
}

static size_t size_of_value(asked_through *a) { return a->chained.load.call(sizeof key, key, 0, NULL, a->chained.load.user, NULL); }
static size_t get(asked_through *a, uint8_t *value, size_t n) { return a->chained.load.call(sizeof key, key, n, value, a->chained.load.user, NULL); }

static void a_value_comes_back_to_another_device_of_the_same_driver(void **state)
{
    (void)state;
    uint8_t got[16] = "";
    asked_through a = attach("1.0");
    assert_int_equal(size_of_value(&a), 0);
    put(&a, "compiled");
    detach(&a);
    a = attach("1.0");
    assert_int_equal(size_of_value(&a), 8);
    assert_int_equal(get(&a, got, 8), 8);
    assert_memory_equal(got, "compiled", 8);
    assert_int_equal(get(&a, got, 8), 0); /* not asked for */
    detach(&a);
    a = attach("1.1");
    assert_int_equal(size_of_value(&a), 0);
    detach(&a);
    assert_int_equal(lines_logged, 0);
}

/* Dawn takes room for the size that it was told and does not look at what it is told next. */
static void the_bytes_are_those_whose_size_was_told(void **state)
{
    (void)state;
    uint8_t got[32];
    asked_through a = attach("1"), b = attach("1");
    put(&a, "the first value");
    assert_int_equal(size_of_value(&a), 15);
    put(&b, "other");
    memset(got, '?', sizeof got);
    assert_int_equal(get(&a, got, 15), 15);
    assert_memory_equal(got, "the first value?", 16);
    assert_int_equal(size_of_value(&a), 5);
    each_file(remove_any);
    assert_int_equal(get(&a, got, 5), 5);
    assert_memory_equal(got, "other", 5);
    assert_int_equal(size_of_value(&a), 0);
    put(&a, "left behind");
    assert_int_equal(size_of_value(&a), 11); /* and never fetched: freed at the end */
    assert_int_equal(size_of_value(&a), 11);
    assert_int_equal(get(&a, got, 4), 0); /* no room */
    assert_int_equal(size_of_value(&a), 11);
    detach(&a);
    detach(&b);
}

static void a_version_that_asks_the_other_way_round_gets_nothing(void **state)
{
    (void)state;
    asked_through a = attach("1");
    size_t (*call)(size_t, const uint8_t *, size_t, uint8_t *, void *, void *) = a.chained.load.call;
    assert_null(a.chained.load.next); /* where that version looks for its function to load */
    assert_int_equal(call((size_t)(uintptr_t)key, (const uint8_t *)sizeof key, (size_t)(uintptr_t)"value", (uint8_t *)5, a.chained.load.user, NULL), 0);
    assert_int_equal(each_file(NULL), 0);
    detach(&a);
}

static void a_late_call_finds_and_keeps_nothing(void **state)
{
    (void)state;
    asked_through a = attach("1");
    put(&a, "v");
    wf_wgpu_kept_detach(a.kept);
    wf_disk_close(a.disk);
    assert_int_equal(size_of_value(&a), 0);
    put(&a, "w");
    wf_wgpu_kept_free(a.kept);
}

static void only_dawn_with_a_cache_is_asked(void **state)
{
    (void)state;
    wf_wgpu_lib lib = {.impl = WF_WGPU_NATIVE};
    weft_device_info info = {.name = "adapter"};
    wf_disk_cache *disk;
    assert_int_equal(wf_disk_open(folder, 0, &disk), WEFT_OK);
    assert_null(wf_wgpu_kept_new(disk, &lib, &info));
    lib.impl = WF_WGPU_DAWN;
    assert_null(wf_wgpu_kept_new(NULL, &lib, &info));
    wf_disk_close(disk);
    WGPUDeviceDescriptor desc = {0};
    wf_wgpu_kept_attach(NULL, NULL, &desc);
    assert_null(desc.nextInChain);
    wf_wgpu_kept_detach(NULL);
    wf_wgpu_kept_free(NULL);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make_test_folder, drop_test_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_value_comes_back_to_another_device_of_the_same_driver), T(the_bytes_are_those_whose_size_was_told),
        T(a_version_that_asks_the_other_way_round_gets_nothing), T(a_late_call_finds_and_keeps_nothing), T(only_dawn_with_a_cache_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void this_build_has_no_webgpu(void **state)
{
    (void)state;
    print_message("skip: no webgpu.h\n");
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(this_build_has_no_webgpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
