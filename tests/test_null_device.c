/* test_null_device.c - the null device records exactly what it was given. */
#include "hal_conformance.h"

static void the_last_list_its_statics_and_its_step_are_kept(void **state)
{
    (void)state;
    wf_device *d = NULL;
    assert_int_equal(wf_null_open(&d), WEFT_OK);
    uint32_t words[64], params[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (uint32_t i = 0; i < 64; i++)
        words[i] = i * 3;
    wf_program_desc desc = {.kind = WF_PROGRAM_WGSL, .wgsl = "any text", .n_bind = 1};
    assert_int_equal(d->vt->buffer_create(d, 1, sizeof words), WEFT_OK);
    assert_int_equal(d->vt->buffer_create(d, 2, WF_STEP_BYTES), WEFT_OK);
    assert_int_equal(d->vt->program_create(d, 1, &desc), WEFT_OK);
    assert_int_equal(d->vt->write(d, 1, 0, words, sizeof words), WEFT_OK);
    wf_cmd cmds[3] = {{.kind = WF_CMD_DISPATCH, .program = 1}, {.kind = WF_CMD_COPY, .n_bind = 2}, {.kind = WF_CMD_FILL, .n_bind = 1}};
    wf_cmdlist list = {.key = 5, .cmds = cmds, .n_cmds = 3, .static_buffer = 1, .step_buffer = 2, .step = params, .step_bytes = sizeof params};
    uint64_t fence = 0;
    assert_int_equal(d->vt->submit(d, &list, &fence), WEFT_OK);
    assert_int_equal(d->vt->wait(d, fence, 0), WEFT_OK);
    d->vt->buffer_destroy(d, 1); /* the record keeps its bytes */
    const void *l, *s, *p;
    size_t nl, ns, np;
    wf_null_last(d, &l, &nl, &s, &ns, &p, &np);
    assert_int_equal(nl, sizeof cmds);
    assert_memory_equal(l, cmds, nl);
    assert_int_equal(ns, sizeof words);
    assert_memory_equal(s, words, ns);
    assert_int_equal(np, sizeof params);
    assert_memory_equal(p, params, np);
    d->vt->close(d);
}

static void reads_give_zeros(void **state)
{
    (void)state;
    wf_device *d = NULL;
    assert_int_equal(wf_null_open(&d), WEFT_OK);
    uint32_t word = 7;
    uint64_t fence = 0;
    assert_int_equal(d->vt->buffer_create(d, 1, 16), WEFT_OK);
    assert_int_equal(d->vt->write(d, 1, 0, &word, 4), WEFT_OK);
    assert_int_equal(d->vt->read(d, 1, 0, &word, 4, &fence), WEFT_OK);
    assert_int_equal(d->vt->wait(d, fence, -1), WEFT_OK);
    assert_int_equal(word, 0);
    assert_int_equal(d->vt->read(d, 1, 16, &word, 4, &fence), WEFT_E_VALUE);
    assert_int_equal(d->vt->read(d, 9, 0, &word, 4, &fence), WEFT_E_VALUE);
    d->vt->close(d);
}

static void it_looks_like_a_gpu(void **state)
{
    (void)state;
    wf_device *d = NULL;
    assert_int_equal(wf_null_open(&d), WEFT_OK);
    assert_true(d->caps.runs_wgsl && !d->caps.runs_kir && !d->caps.f64 && !d->caps.i64 && d->caps.indirect);
    assert_null(d->vt->map(d, 1));
    d->vt->close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_list_its_statics_and_its_step_are_kept),
        cmocka_unit_test(reads_give_zeros),
        cmocka_unit_test(it_looks_like_a_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
