/* hal_conformance.h - what every device must do, whatever is behind it: the checks of a backend.
 *
 *   hal_conformance(device)
 *
 * runs them all and fails the running cmocka test at the first breach. Programs are kernels where the
 * device takes them, else WGSL; on a device of kind "null" what depends on computed bytes is left out.
 */
#ifndef WF_TEST_HAL_CONFORMANCE_H
#define WF_TEST_HAL_CONFORMANCE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "hal.h"
#include "kir_fixture.h"
#include "wgsl.h"

typedef struct hc {
    wf_device *d;
    bool computes; /* results can be looked at */
    uint32_t next_id;
} hc;

static uint32_t hc_buffer(hc *h, uint64_t bytes)
{
    uint32_t id = h->next_id++;
    assert_int_equal(h->d->vt->buffer_create(h->d, id, bytes), WEFT_OK);
    return id;
}

static void hc_write(hc *h, uint32_t id, uint64_t offset, const void *src, uint64_t n)
{
    assert_int_equal(h->d->vt->write(h->d, id, offset, src, n), WEFT_OK);
}

static void hc_read(hc *h, uint32_t id, uint64_t offset, void *dst, uint64_t n)
{
    uint64_t fence = 0;
    assert_int_equal(h->d->vt->read(h->d, id, offset, dst, n, &fence), WEFT_OK);
    assert_int_equal(h->d->vt->wait(h->d, fence, -1), WEFT_OK);
}

static weft_status hc_run(hc *h, const wf_cmdlist *list)
{
    uint64_t fence = 0;
    weft_status st = h->d->vt->submit(h->d, list, &fence);
    return st == WEFT_OK ? h->d->vt->wait(h->d, fence, -1) : st;
}

/* A program for a kernel: as it is, or as WGSL. */
static uint32_t hc_program(hc *h, const wf_kir *k)
{
    uint32_t id = h->next_id++;
    wf_str text = WF_STR_INIT;
    wf_program_desc desc = {.label = "conformance", .n_bind = k->n_bind};
    for (int i = 0; i < k->n_bind; i++)
        desc.access[i] = k->bind[i].access;
    if (h->d->caps.runs_kir) {
        desc.kind = WF_PROGRAM_KIR;
        desc.kir = k;
    } else {
        assert_int_equal(wf_wgsl_emit(&h->d->caps, k, &text), WEFT_OK);
        desc.kind = WF_PROGRAM_WGSL;
        desc.wgsl = text.ptr;
    }
    assert_int_equal(h->d->vt->program_create(h->d, id, &desc), WEFT_OK);
    wf_str_free(&text);
    return id;
}

/* y = x * step[3] + static word, over n elements: uses every kind of parameter. */
static void hc_scale_kernel(fixture *f, int64_t n, int32_t add)
{
    int64_t extents[] = {n};
    int32_t step_word = 3;
    fx_begin(f, 1, 0, extents);
    fx_bind(f, WEFT_DTYPE_F32, WF_ACCESS_READ, false);
    fx_bind(f, WEFT_DTYPE_F32, WF_ACCESS_WRITE, true);
    fx_stage(f, WF_KSTAGE_OUTER);
    int index = fx_row_major(f, 1), x = fx_load(f, 0, index);
    int s = fx_imm(f, WF_KOP_STEP, WF_KTY_F32, -1, fx_words(f, 1, &step_word), 0);
    int a = fx_imm(f, WF_KOP_CAST, WF_KTY_F32, fx_imm(f, WF_KOP_STATIC, WF_KTY_I32, -1, fx_words(f, 1, &add), 0), 0, 0);
    fx_store(f, 1, index, fx_op(f, WF_KOP_ADD, WF_KTY_F32, fx_op(f, WF_KOP_MUL, WF_KTY_F32, x, s, -1), a, -1));
}

static wf_cmd hc_dispatch(hc *h, uint32_t program, const fixture *f, uint32_t static_offset)
{
    wf_cmd c = {.kind = WF_CMD_DISPATCH, .program = program, .static_offset = static_offset, .grid = {1, 1, 1}};
    c.static_bytes = f->k.n_static * 4u;
    wf_wgsl_grid(&h->d->caps, &f->k, f->extents, c.grid);
    return c;
}

static void hc_bind(wf_cmd *c, uint32_t buffer, uint64_t offset, uint64_t size)
{
    c->bind[c->n_bind++] = (wf_bind){.buffer = buffer, .offset = offset, .size = size};
}

/* ---- the checks ---- */

static void hc_bytes_come_back(hc *h)
{
    static const uint64_t sizes[] = {4, 8, 256, 260, 65536, 3 << 20};
    for (size_t i = 0; i < WF_COUNT(sizes); i++) {
        uint8_t *a = malloc(sizes[i]), *b = malloc(sizes[i]);
        for (uint64_t j = 0; j < sizes[i]; j++)
            a[j] = (uint8_t)(j * 131 + i);
        uint32_t id = hc_buffer(h, sizes[i]);
        hc_write(h, id, 0, a, sizes[i]);
        hc_read(h, id, 0, b, sizes[i]);
        if (h->computes)
            assert_memory_equal(a, b, sizes[i]);
        if (sizes[i] >= 256) { /* parts */
            hc_write(h, id, 128, a, 64);
            hc_read(h, id, 132, b, 4);
            if (h->computes)
                assert_memory_equal(a + 4, b, 4);
        }
        h->d->vt->buffer_destroy(h->d, id);
        free(a);
        free(b);
    }
}

static void hc_commands_run_in_order(hc *h)
{
    enum { N = 1000 };
    fixture *f = malloc(sizeof *f);
    hc_scale_kernel(f, N, 5);
    uint32_t program = hc_program(h, &f->k);
    uint32_t x = hc_buffer(h, N * 4), y = hc_buffer(h, N * 4), z = hc_buffer(h, N * 4);
    uint32_t statics = hc_buffer(h, 2 * WF_STATIC_MAX_BYTES), step = hc_buffer(h, WF_STEP_BYTES);
    float in[N], out[N], params[16] = {0};
    for (int i = 0; i < N; i++)
        in[i] = (float)i;
    hc_write(h, x, 0, in, sizeof in);
    uint8_t block[WF_STATIC_MAX_BYTES] = {0};
    memcpy(block, f->words, f->k.n_static * 4u);
    hc_write(h, statics, 256, block, sizeof block);
    params[3] = 2;
    wf_cmd cmds[4] = {hc_dispatch(h, program, f, 256), hc_dispatch(h, program, f, 256), {.kind = WF_CMD_COPY}, {.kind = WF_CMD_FILL}};
    hc_bind(&cmds[0], x, 0, N * 4);
    hc_bind(&cmds[0], y, 0, N * 4);
    hc_bind(&cmds[1], y, 0, N * 4);
    hc_bind(&cmds[1], z, 0, N * 4);
    hc_bind(&cmds[2], z, 0, 2000);
    hc_bind(&cmds[2], x, 0, 2000);
    hc_bind(&cmds[3], z, 256, 1024);
    wf_cmdlist list = {.key = 77, .cmds = cmds, .n_cmds = 4, .static_buffer = statics, .step_buffer = step, .step = params, .step_bytes = sizeof params};
    assert_int_equal(hc_run(h, &list), WEFT_OK);
    hc_read(h, z, 0, out, sizeof out);
    for (int i = 0; h->computes && i < N; i++)
        assert_true(out[i] == (i >= 64 && i < 320 ? 0 : 2 * (2 * in[i] + 5) + 5));
    hc_read(h, x, 0, out, sizeof out);
    for (int i = 0; h->computes && i < N; i++)
        assert_true(out[i] == (i < 500 ? 2 * (2 * in[i] + 5) + 5 : in[i]));

    /* the same list again, with another step block */
    hc_write(h, x, 0, in, sizeof in);
    params[3] = -1;
    assert_int_equal(hc_run(h, &list), WEFT_OK);
    hc_read(h, y, 0, out, sizeof out);
    for (int i = 0; h->computes && i < N; i++)
        assert_true(out[i] == -in[i] + 5);
    h->d->vt->program_destroy(h->d, program);
    const uint32_t all[] = {x, y, z, statics, step};
    for (size_t i = 0; i < WF_COUNT(all); i++)
        h->d->vt->buffer_destroy(h->d, all[i]);
    free(f);
}

static void hc_bindings_start_where_they_say(hc *h)
{
    fixture *f = malloc(sizeof *f);
    hc_scale_kernel(f, 10, 0);
    uint32_t program = hc_program(h, &f->k), b = hc_buffer(h, 4096), out = hc_buffer(h, 4096), statics = hc_buffer(h, WF_STATIC_MAX_BYTES);
    uint32_t step = hc_buffer(h, WF_STEP_BYTES);
    float v[1024], r[10];
    for (int i = 0; i < 1024; i++)
        v[i] = (float)i;
    hc_write(h, b, 0, v, sizeof v);
    uint8_t block[WF_STATIC_MAX_BYTES] = {0};
    memcpy(block, f->words, f->k.n_static * 4u);
    hc_write(h, statics, 0, block, sizeof block);
    float params[4] = {0, 0, 0, 1};
    wf_cmd c = hc_dispatch(h, program, f, 0);
    hc_bind(&c, b, 512, 40);
    hc_bind(&c, out, 1024, 40);
    wf_cmdlist list = {.key = 78, .cmds = &c, .n_cmds = 1, .static_buffer = statics, .step_buffer = step, .step = params, .step_bytes = sizeof params};
    assert_int_equal(hc_run(h, &list), WEFT_OK);
    hc_read(h, out, 1024, r, sizeof r);
    if (h->computes)
        assert_memory_equal(r, v + 128, sizeof r);
    /* destroyed while it may still be in flight, and created again under the same ids afterwards */
    uint64_t fence = 0;
    assert_int_equal(h->d->vt->submit(h->d, &list, &fence), WEFT_OK);
    h->d->vt->buffer_destroy(h->d, b);
    h->d->vt->buffer_destroy(h->d, out);
    h->d->vt->buffer_destroy(h->d, statics);
    h->d->vt->buffer_destroy(h->d, step);
    h->d->vt->program_destroy(h->d, program);
    assert_int_equal(h->d->vt->wait(h->d, fence, -1), WEFT_OK);
    assert_int_equal(h->d->vt->buffer_create(h->d, b, 16), WEFT_OK);
    h->d->vt->buffer_destroy(h->d, b);
    free(f);
}

static void hc_an_empty_list_is_a_list(hc *h)
{
    wf_cmdlist list = {.key = 79};
    uint64_t a = 0, b = 0;
    assert_int_equal(h->d->vt->submit(h->d, &list, &a), WEFT_OK);
    assert_int_equal(h->d->vt->submit(h->d, &list, &b), WEFT_OK);
    assert_true(b > a);
    assert_int_equal(h->d->vt->wait(h->d, b, -1), WEFT_OK);
    assert_int_equal(h->d->vt->wait(h->d, a, -1), WEFT_OK);
}

static void hc_impossible_sizes_fail_and_the_device_goes_on(hc *h)
{
    uint32_t id = h->next_id++;
    weft_status st = h->d->vt->buffer_create(h->d, id, (uint64_t)1 << 40);
    assert_int_equal(st, WEFT_E_OOM);
    assert_int_not_equal(h->d->vt->buffer_create(h->d, id, UINT64_MAX - 8), WEFT_OK);
    hc_bytes_come_back(h);
}

static void hc_many_small_reads_do_not_hang(hc *h)
{
    uint32_t id = hc_buffer(h, 4096);
    uint32_t v[1024], got;
    for (uint32_t i = 0; i < 1024; i++)
        v[i] = i;
    hc_write(h, id, 0, v, sizeof v);
    for (uint32_t i = 0; i < 300; i++) {
        hc_read(h, id, i * 4, &got, 4);
        if (h->computes)
            assert_int_equal(got, i);
    }
    h->d->vt->buffer_destroy(h->d, id);
}

static void hc_capabilities_are_consistent(const wf_device *d)
{
    const wf_caps *c = &d->caps;
    assert_true(c->runs_wgsl || c->runs_kir);
    assert_true(c->max_binding_bytes > 0 && c->max_binding_bytes <= c->max_buffer_bytes);
    assert_true(c->max_storage_buffers >= 8 && c->max_workgroup_invocations >= 128 && c->max_workgroup_bytes >= 16384);
    assert_true(c->max_workgroups >= 65535);
    assert_true(c->info.spec[0] && c->info.kind[0] && c->info.implementation[0] && c->info.backend[0]);
    for (int i = 0; i < c->info.n_features; i++)
        assert_true(c->info.features[i].on == (c->info.features[i].reason[0] == 0));
    assert_non_null(d->vt->name);
}

static inline void hal_conformance(wf_device *d)
{
    hc h = {.d = d, .computes = strcmp(d->caps.info.kind, "null") != 0, .next_id = 1000};
    hc_capabilities_are_consistent(d);
    hc_bytes_come_back(&h);
    hc_commands_run_in_order(&h);
    hc_bindings_start_where_they_say(&h);
    hc_an_empty_list_is_a_list(&h);
    hc_impossible_sizes_fail_and_the_device_goes_on(&h);
    hc_many_small_reads_do_not_hang(&h);
}

#endif
