/* test_cpu_device.c - the HAL on the processor: what it reports, when, and that it goes on afterwards. */
#include "hal_conformance.h"
#include "cpu.h"

static wf_device *dev;
static atomic_bool cancel;
static weft_stats stats;

static int open_cpu(void **state)
{
    (void)state;
    cancel = false;
    if (wf_cpu_open(2, &dev) != WEFT_OK)
        return -1;
    dev->cancel = &cancel;
    dev->stats = &stats;
    return 0;
}

static int close_cpu(void **state)
{
    (void)state;
    dev->vt->close(dev);
    return 0;
}

static void bad_commands_are_reported_by_wait_once_and_the_device_goes_on(void **state)
{
    (void)state;
    assert_int_equal(dev->vt->buffer_create(dev, 1, 256), WEFT_OK);
    const wf_cmd bad[] = {
        {.kind = WF_CMD_DISPATCH, .program = 99},
        {.kind = 17},
        {.kind = WF_CMD_COPY, .n_bind = 2, .bind = {{.buffer = 1, .size = 64}, {.buffer = 1, .offset = 200, .size = 64}}},
        {.kind = WF_CMD_COPY, .n_bind = 2, .bind = {{.buffer = 7, .size = 64}, {.buffer = 1, .size = 64}}},
        {.kind = WF_CMD_COPY, .n_bind = 1, .bind = {{.buffer = 1, .size = 64}}},
        {.kind = WF_CMD_FILL, .n_bind = 1, .bind = {{.buffer = 1, .offset = UINT64_MAX - 3, .size = 8}}},
    };
    for (size_t i = 0; i < WF_COUNT(bad); i++) {
        wf_cmd cmds[2] = {bad[i], {.kind = WF_CMD_FILL, .n_bind = 1, .fill_word = 7, .bind = {{.buffer = 1, .size = 4}}}};
        wf_cmdlist list = {.key = 1 + i, .cmds = cmds, .n_cmds = 2};
        uint64_t fence = 0, zero = 0;
        uint32_t word = 1;
        assert_int_equal(dev->vt->write(dev, 1, 0, &zero, 8), WEFT_OK);
        assert_int_equal(dev->vt->submit(dev, &list, &fence), WEFT_OK);
        assert_int_equal(dev->vt->wait(dev, fence, -1), WEFT_E_VALUE);
        assert_true(strncmp(weft_error_message(), "cpu: ", 5) == 0);
        assert_int_equal(dev->vt->wait(dev, fence, -1), WEFT_OK); /* once */
        assert_int_equal(dev->vt->read(dev, 1, 0, &word, 4, &fence), WEFT_OK);
        assert_int_equal(word, 0); /* the rest of the list did not run */
    }
    wf_cmd fill = {.kind = WF_CMD_FILL, .n_bind = 1, .fill_word = 0x01020304, .bind = {{.buffer = 1, .offset = 4, .size = 8}}};
    wf_cmdlist list = {.key = 9, .cmds = &fill, .n_cmds = 1};
    uint64_t fence = 0;
    uint32_t words[4];
    assert_int_equal(dev->vt->submit(dev, &list, &fence), WEFT_OK);
    assert_int_equal(dev->vt->wait(dev, fence, -1), WEFT_OK);
    assert_int_equal(dev->vt->read(dev, 1, 0, words, 16, &fence), WEFT_OK);
    assert_true(words[0] == 0 && words[1] == 0x01020304 && words[2] == 0x01020304);
    dev->vt->buffer_destroy(dev, 1);
}

static void ids_and_ranges_are_checked(void **state)
{
    (void)state;
    uint64_t fence;
    uint32_t word;
    assert_int_equal(dev->vt->buffer_create(dev, 0, 16), WEFT_E_VALUE);
    assert_int_equal(dev->vt->buffer_create(dev, 5, 0), WEFT_E_VALUE);
    assert_int_equal(dev->vt->buffer_create(dev, 5, 16), WEFT_OK);
    assert_int_equal(dev->vt->buffer_create(dev, 5, 16), WEFT_E_VALUE);
    assert_int_equal(dev->vt->write(dev, 5, 16, &word, 4), WEFT_E_VALUE);
    assert_int_equal(dev->vt->write(dev, 5, UINT64_MAX, &word, 4), WEFT_E_VALUE);
    assert_int_equal(dev->vt->read(dev, 6, 0, &word, 4, &fence), WEFT_E_VALUE);
    assert_int_equal(dev->vt->wait(dev, UINT64_MAX, -1), WEFT_E_VALUE);
    dev->vt->buffer_destroy(dev, 5);
    dev->vt->buffer_destroy(dev, 5);
    dev->vt->program_destroy(dev, 5);
    assert_null(dev->vt->map(dev, 5));
    for (uint32_t id = 1; id < 3000; id++)
        assert_int_equal(dev->vt->buffer_create(dev, id * 7919, 16), WEFT_OK);
    for (uint32_t id = 1; id < 3000; id += 2)
        dev->vt->buffer_destroy(dev, id * 7919);
    for (uint32_t id = 1; id < 3000; id++)
        assert_true((dev->vt->map(dev, id * 7919) != NULL) == (id % 2 == 0));
    for (uint32_t id = 2; id < 3000; id += 2)
        dev->vt->buffer_destroy(dev, id * 7919);
}

static void programs_are_verified(void **state)
{
    (void)state;
    fixture *f = malloc(sizeof *f);
    hc_scale_kernel(f, 4, 1);
    wf_program_desc wgsl = {.kind = WF_PROGRAM_WGSL, .wgsl = ""}, named = {.kind = WF_PROGRAM_NAMED, .row = "no such row"};
    wf_program_desc none = {.kind = WF_PROGRAM_KIR}, few = {.kind = WF_PROGRAM_KIR, .kir = &f->k, .n_bind = 1};
    assert_int_equal(dev->vt->program_create(dev, 1, &wgsl), WEFT_E_UNSUPPORTED);
    assert_int_equal(dev->vt->program_create(dev, 1, &named), WEFT_E_UNSUPPORTED);
    assert_int_equal(dev->vt->program_create(dev, 1, &none), WEFT_E_VALUE);
    assert_int_equal(dev->vt->program_create(dev, 1, &few), WEFT_E_VALUE);
    f->k.instr[0].op = 200;
    wf_program_desc broken = {.kind = WF_PROGRAM_KIR, .kir = &f->k, .n_bind = 2};
    assert_int_equal(dev->vt->program_create(dev, 1, &broken), WEFT_E_FORMAT);
    free(f);
}

/* A kernel whose dispatch brings fewer bindings, static bytes or no step block never reads past them. */
static void dispatches_are_checked_against_their_program(void **state)
{
    (void)state;
    fixture *f = malloc(sizeof *f);
    hc_scale_kernel(f, 4, 1);
    wf_program_desc desc = {.kind = WF_PROGRAM_KIR, .kir = &f->k, .n_bind = 2};
    assert_int_equal(dev->vt->program_create(dev, 1, &desc), WEFT_OK);
    assert_int_equal(dev->vt->buffer_create(dev, 1, 1024), WEFT_OK);
    assert_int_equal(dev->vt->buffer_create(dev, 2, 1024), WEFT_OK);
    uint8_t block[1024] = {0};
    memcpy(block, f->words, f->k.n_static * 4u);
    assert_int_equal(dev->vt->write(dev, 2, 0, block, 1024), WEFT_OK);
    for (int how = 0; how < 4; how++) {
        wf_cmd c = {.kind = WF_CMD_DISPATCH, .program = 1, .n_bind = 2, .static_bytes = f->k.n_static * 4u};
        c.bind[0] = (wf_bind){.buffer = 1, .size = 16};
        c.bind[1] = (wf_bind){.buffer = 1, .offset = 256, .size = 16};
        wf_cmdlist list = {.key = 1, .cmds = &c, .n_cmds = 1, .static_buffer = 2};
        if (how == 0)
            c.n_bind = 1;
        if (how == 1)
            c.static_bytes = 4;
        if (how == 2)
            c.static_offset = 1024;
        uint64_t fence = 0;
        assert_int_equal(dev->vt->submit(dev, &list, &fence), WEFT_OK);
        assert_int_equal(dev->vt->wait(dev, fence, -1), how == 3 ? WEFT_OK : WEFT_E_VALUE);
    }
    dev->vt->program_destroy(dev, 1);
    dev->vt->buffer_destroy(dev, 1);
    dev->vt->buffer_destroy(dev, 2);
    free(f);
}

static void a_cancelled_list_stops_between_commands(void **state)
{
    (void)state;
    assert_int_equal(dev->vt->buffer_create(dev, 1, 16), WEFT_OK);
    wf_cmd fill = {.kind = WF_CMD_FILL, .n_bind = 1, .fill_word = 7, .bind = {{.buffer = 1, .size = 16}}};
    wf_cmdlist list = {.key = 1, .cmds = &fill, .n_cmds = 1};
    uint64_t fence = 0;
    cancel = true;
    assert_int_equal(dev->vt->submit(dev, &list, &fence), WEFT_OK);
    assert_int_equal(dev->vt->wait(dev, fence, -1), WEFT_E_CANCELLED);
    cancel = false;
    assert_int_equal(dev->vt->submit(dev, &list, &fence), WEFT_OK);
    assert_int_equal(dev->vt->wait(dev, fence, -1), WEFT_OK);
    assert_int_equal(*(uint32_t *)dev->vt->map(dev, 1), 7);
    dev->vt->buffer_destroy(dev, 1);
}

static void buffers_are_aligned_and_large_copies_right(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {4, 100, 1 << 20, 20 << 20};
    for (size_t i = 0; i < WF_COUNT(sizes); i++) {
        assert_int_equal(dev->vt->buffer_create(dev, 1, sizes[i]), WEFT_OK);
        assert_int_equal(dev->vt->buffer_create(dev, 2, sizes[i]), WEFT_OK);
        uint32_t *a = dev->vt->map(dev, 1), *b = dev->vt->map(dev, 2);
        assert_int_equal((uintptr_t)a % 64, 0);
        for (uint64_t j = 0; j < sizes[i] / 4; j++)
            a[j] = (uint32_t)j * 2654435761u;
        wf_cmd copy = {.kind = WF_CMD_COPY, .n_bind = 2, .bind = {{.buffer = 1, .size = sizes[i]}, {.buffer = 2, .size = sizes[i]}}};
        wf_cmdlist list = {.key = 1, .cmds = &copy, .n_cmds = 1};
        uint64_t fence = 0;
        assert_int_equal(dev->vt->submit(dev, &list, &fence), WEFT_OK);
        assert_int_equal(dev->vt->wait(dev, fence, -1), WEFT_OK);
        assert_memory_equal(a, b, sizes[i]);
        dev->vt->buffer_destroy(dev, 1);
        dev->vt->buffer_destroy(dev, 2);
    }
}

static void no_failed_allocation_leaks(void **state)
{
    (void)state;
    uint64_t live = wf_alloc_live();
    fixture *f = malloc(sizeof *f);
    hc_scale_kernel(f, 4, 1);
    wf_program_desc desc = {.kind = WF_PROGRAM_KIR, .kir = &f->k, .n_bind = 2};
    int failures = 0;
    for (uint64_t n = 1; n < 30; n++) {
        wf_device *d = NULL;
        wf_alloc_fail_nth(n);
        weft_status st = wf_cpu_open(1, &d);
        if (st == WEFT_OK)
            st = d->vt->buffer_create(d, 1, 64);
        if (st == WEFT_OK)
            st = d->vt->program_create(d, 1, &desc);
        wf_alloc_fail_nth(0);
        assert_true(st == WEFT_OK || st == WEFT_E_OOM);
        failures += st == WEFT_E_OOM;
        if (d)
            d->vt->close(d);
        assert_int_equal(wf_alloc_live(), live);
    }
    assert_true(failures >= 6);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_commands_are_reported_by_wait_once_and_the_device_goes_on),
        cmocka_unit_test(ids_and_ranges_are_checked),
        cmocka_unit_test(programs_are_verified),
        cmocka_unit_test(dispatches_are_checked_against_their_program),
        cmocka_unit_test(a_cancelled_list_stops_between_commands),
        cmocka_unit_test(buffers_are_aligned_and_large_copies_right),
        cmocka_unit_test(no_failed_allocation_leaks),
    };
    return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
