/* test_hal_conformance.c - every device that opens here keeps the contract of hal.h. WEFT_TEST_DEVICE adds
 * the named one to cpu and null and must then open. */
#include "hal_conformance.h"

static weft_stats stats;
static atomic_bool cancel;

static void check(const char *spec)
{
    wf_device *d = NULL;
    weft_status st = wf_device_open(spec, NULL, &stats, &cancel, &d);
    if (st != WEFT_OK)
        print_error("%s: %s\n", spec, weft_error_message());
    assert_int_equal(st, WEFT_OK);
    assert_ptr_equal(d->stats, &stats);
    hal_conformance(d);
    d->vt->close(d);
}

static void cpu_conforms(void **state)
{
    (void)state;
    uint64_t live = wf_alloc_live();
    check("cpu");
    assert_int_equal(wf_alloc_live(), live);
}

static void null_conforms(void **state)
{
    (void)state;
    uint64_t live = wf_alloc_live();
    check("null");
    assert_int_equal(wf_alloc_live(), live);
}

static void webgpu_conforms(void **state)
{
    (void)state;
    const char *asked = getenv("WEFT_TEST_DEVICE");
    if (asked) {
        check(asked);
        return;
    }
    weft_device_info *list = NULL;
    int n = 0;
    if (wf_webgpu_list(&(weft_ctx_opts){0}, &list, &n) != WEFT_OK || n == 0) {
        const char *required = getenv("WEFT_REQUIRE");
        if (required && strstr(required, "webgpu"))
            fail_msg("no WebGPU adapter: %s", weft_error_message());
        print_message("SKIP webgpu: %s\n", weft_error_message());
        wf_free(list);
        skip();
    }
    wf_free(list);
    check("webgpu");
}

static void auto_never_takes_a_software_adapter(void **state)
{
    (void)state;
    wf_device *d = NULL;
    assert_int_equal(wf_device_open("auto", NULL, &stats, &cancel, &d), WEFT_OK);
    assert_string_not_equal(d->caps.info.kind, "software");
    assert_string_not_equal(d->caps.info.kind, "null");
    d->vt->close(d);
}

static void unknown_specs_are_refused_with_the_known_ones(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "gpu", "cpu:0", "webgpu:", "webgpu:-1", "webgpu:x", "webgpu:1x", "webgpu:99999999999", "null ", "CPU"};
    for (size_t i = 0; i < WF_COUNT(bad); i++) {
        wf_device *d = NULL;
        assert_int_equal(wf_device_open(bad[i], NULL, &stats, &cancel, &d), WEFT_E_VALUE);
        assert_non_null(strstr(weft_error_message(), "webgpu:N"));
        assert_null(d);
    }
}

static void the_list_begins_with_the_cpu_and_ends_with_null(void **state)
{
    (void)state;
    weft_device_info *list = NULL;
    int n = 0;
    assert_int_equal(weft_device_list(NULL, &list, &n), WEFT_OK);
    assert_true(n >= 2);
    assert_string_equal(list[0].spec, "cpu");
    assert_true(list[0].n_threads >= 1 && list[0].memory_bytes > 0);
    assert_string_equal(list[n - 1].spec, "null");
    for (int i = 1; i < n - 1; i++)
        assert_memory_equal(list[i].spec, "webgpu", 6);
    weft_device_list_free(list);
    weft_device_list_free(NULL);
    assert_int_equal(weft_device_list(NULL, NULL, &n), WEFT_E_VALUE);
}

static void limits_of_the_null_device_can_be_lowered(void **state)
{
    (void)state;
    weft_ctx_opts opts = {.max_binding_bytes = 1 << 20, .max_storage_buffers = 8, .max_workgroup_bytes = 16384};
    wf_device *d = NULL;
    assert_int_equal(wf_device_open("null", &opts, &stats, &cancel, &d), WEFT_OK);
    assert_true(d->caps.max_binding_bytes == 1 << 20 && d->caps.max_storage_buffers == 8 && d->caps.max_workgroup_bytes == 16384);
    d->vt->close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_conforms),
        cmocka_unit_test(null_conforms),
        cmocka_unit_test(webgpu_conforms),
        cmocka_unit_test(auto_never_takes_a_software_adapter),
        cmocka_unit_test(unknown_specs_are_refused_with_the_known_ones),
        cmocka_unit_test(the_list_begins_with_the_cpu_and_ends_with_null),
        cmocka_unit_test(limits_of_the_null_device_can_be_lowered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
