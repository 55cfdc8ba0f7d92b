/* test_webgpu_device.c - the WebGPU device through its HAL table, on whatever adapter is there.
 *
 * Where no adapter can be opened every test is skipped (and fails when WEFT_REQUIRE names webgpu).
 * WEFT_TEST_ADAPTER picks the adapter.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#if __has_include(<webgpu.h>)

#include "runtime.h"
#include "webgpu_device.h"
#include "weft/ops_indexing.h"

static wf_device *dev; /* opened once for the tests that do not break it */

static int adapter_index(void)
{
    const char *v = getenv("WEFT_TEST_ADAPTER");
    return v ? atoi(v) : -1;
}

static bool required(void)
{
    const char *v = getenv("WEFT_REQUIRE");
    return v && strstr(v, "webgpu");
}

static void need_device(void)
{
    if (dev)
        return;
    if (required())
        fail_msg("no WebGPU device: %s", weft_error_message());
    print_message("skip: webgpu: %s\n", weft_error_message());
    skip();
}

#define NEED() do { need_device(); if (!dev) return; } while (0)
/* Dawn's Null backend takes every call and computes nothing. */
#define NEED_RESULTS() do { NEED(); if (strcmp(dev->caps.info.kind, "null") == 0) { print_message("skip: Null backend\n"); skip(); return; } } while (0)
#define OK(expr) ok((expr), #expr, __LINE__)
static void ok(weft_status st, const char *what, int line)
{
    if (st != WEFT_OK)
        fail_msg("line %d: %s gives %s: %s", line, what, weft_status_name(st), weft_error_message());
}

/* ---- programs ---- */

static const char *const vadd_wgsl =
    "@group(0) @binding(0) var<storage, read> a: array<f32>;\n"
    "@group(0) @binding(1) var<storage, read> b: array<f32>;\n"
    "@group(0) @binding(2) var<storage, read_write> c: array<f32>;\n"
    "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) g: vec3u) {\n"
    "    if (g.x < arrayLength(&c)) { c[g.x] = a[g.x] + b[g.x]; }\n}\n";

/* x[i] = x[i] * static[0] + step[0] */
static const char *const scale_wgsl =
    "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
    "@group(0) @binding(1) var<uniform> p: array<vec4f, 64>;\n"
    "@group(0) @binding(2) var<uniform> s: array<vec4f, 256>;\n"
    "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) g: vec3u) {\n"
    "    if (g.x < arrayLength(&x)) { x[g.x] = x[g.x] * p[0].x + s[0].x; }\n}\n";

/* Each work group adds one to its counter. */
static const char *const count_wgsl =
    "@group(0) @binding(0) var<storage, read_write> n: array<atomic<u32>>;\n"
    "@compute @workgroup_size(1) fn main(@builtin(workgroup_id) g: vec3u) { atomicAdd(&n[g.x], 1u); }\n";

static const wf_program_desc vadd = {.label = "vadd", .n_bind = 3, .access = {WF_ACCESS_READ, WF_ACCESS_READ, WF_ACCESS_WRITE}};
static const wf_program_desc one_bind = {.label = "one", .n_bind = 1, .access = {WF_ACCESS_READ_WRITE}};

static weft_status program(wf_device *d, uint32_t id, const wf_program_desc *like, const char *wgsl)
{
    wf_program_desc desc = *like;
    desc.kind = WF_PROGRAM_WGSL;
    desc.wgsl = wgsl;
    return d->vt->program_create(d, id, &desc);
}

static weft_status read_now(wf_device *d, uint32_t id, uint64_t offset, void *dst, uint64_t n)
{
    uint64_t fence;
    WF_TRY(d->vt->read(d, id, offset, dst, n, &fence));
    return d->vt->wait(d, fence, -1);
}

static wf_cmd dispatch(uint32_t prog, uint32_t groups, uint32_t n_bind, const uint32_t *ids, uint64_t size)
{
    wf_cmd c = {.kind = WF_CMD_DISPATCH, .program = prog, .n_bind = n_bind, .grid = {groups, 1, 1}};
    for (uint32_t i = 0; i < n_bind; i++)
        c.bind[i] = (wf_bind){.buffer = ids[i], .size = size};
    return c;
}

/* ---- tests ---- */

static void the_list_describes_every_adapter(void **state)
{
    (void)state;
    NEED();
    weft_device_info *infos;
    int n;
    OK(wf_webgpu_list(NULL, &infos, &n));
    assert_true(n >= 1);
    for (int i = 0; i < n; i++) {
        char spec[32];
        snprintf(spec, sizeof spec, "webgpu:%d", i);
        assert_string_equal(infos[i].spec, spec);
        assert_true(infos[i].name[0] && infos[i].implementation[0]);
        assert_true(infos[i].max_storage_buffers >= 8 || infos[i].kind[0] == 'n');
        assert_true(strcmp(infos[i].backend, "opengl") != 0);
        for (int k = 0; k < infos[i].n_features; k++) /* what is off has its reason, what is on has none */
            assert_true(infos[i].features[k].on == (infos[i].features[k].reason[0] == '\0'));
    }
    wf_free(infos);
}

static void adding_two_vectors_gives_their_sum(void **state)
{
    (void)state;
    NEED_RESULTS();
    enum { N = 1000 };
    float a[N], b[N], c[N];
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = (float)(i % 7) - 3;
    }
    uint32_t ids[3] = {11, 12, 13};
    for (int i = 0; i < 3; i++)
        OK(dev->vt->buffer_create(dev, ids[i], sizeof a));
    OK(dev->vt->write(dev, 11, 0, a, sizeof a));
    OK(dev->vt->write(dev, 12, 0, b, sizeof b));
    OK(program(dev, 11, &vadd, vadd_wgsl));
    wf_cmd cmd = dispatch(11, (N + 63) / 64, 3, ids, sizeof a);
    wf_cmdlist list = {.cmds = &cmd, .n_cmds = 1};
    uint64_t fence;
    OK(dev->vt->submit(dev, &list, &fence));
    OK(read_now(dev, 13, 0, c, sizeof c));
    for (int i = 0; i < N; i++)
        assert_true(c[i] == a[i] + b[i]);
    OK(dev->vt->wait(dev, fence, 0)); /* the later read implies it */
    dev->vt->program_destroy(dev, 11);
    for (int i = 0; i < 3; i++)
        dev->vt->buffer_destroy(dev, ids[i]);
}

static void a_thousand_dependent_dispatches_run_in_order(void **state)
{
    (void)state;
    NEED_RESULTS();
    enum { N = 64, CMDS = 1000 };
    static wf_cmd cmds[CMDS];
    float x[N] = {0}, statics[2 * 256] = {0}, step[4] = {0};
    statics[0] = 0.5f;   /* block at 0: x = x / 2 + s */
    statics[64] = 1.0f;  /* block at 256: x = x + s */
    uint32_t id = 21;
    OK(dev->vt->buffer_create(dev, 21, sizeof x));
    OK(dev->vt->buffer_create(dev, 22, sizeof statics));
    OK(dev->vt->buffer_create(dev, 23, WF_STEP_BYTES));
    OK(dev->vt->write(dev, 22, 0, statics, sizeof statics));
    OK(program(dev, 21, &one_bind, scale_wgsl));
    for (int i = 0; i < CMDS; i++) {
        cmds[i] = dispatch(21, 1, 1, &id, sizeof x);
        cmds[i].static_offset = i % 2 ? 256 : 0;
        cmds[i].static_bytes = 4;
    }
    wf_cmdlist list = {.key = 77, .cmds = cmds, .n_cmds = CMDS, .static_buffer = 22, .step_buffer = 23, .step = step, .step_bytes = 16};
    float expect = 0;
    for (int round = 0; round < 3; round++) { /* the same key: replayed, with another step block */
        uint64_t fence;
        step[0] = (float)(round + 1);
        OK(dev->vt->submit(dev, &list, &fence));
        for (int i = 0; i < CMDS; i++)
            expect = expect * (i % 2 ? 1.0f : 0.5f) + step[0];
        OK(read_now(dev, 21, 0, x, sizeof x));
        for (int i = 0; i < N; i++)
            assert_true(x[i] == expect);
    }
    dev->vt->program_destroy(dev, 21);
    for (uint32_t b = 21; b <= 23; b++)
        dev->vt->buffer_destroy(dev, b);
}

static void indirect_grids_come_from_the_step_block(void **state)
{
    (void)state;
    NEED_RESULTS();
    uint32_t counts[8], id = 31, step[8] = {9, 9, 5, 1, 1, 0};
    OK(dev->vt->buffer_create(dev, 31, 256));
    OK(dev->vt->buffer_create(dev, 32, WF_STEP_BYTES));
    OK(program(dev, 31, &one_bind, count_wgsl));
    wf_cmd cmds[2] = {{.kind = WF_CMD_FILL, .n_bind = 1, .bind = {{.buffer = 31, .size = 256}}}, dispatch(31, 8, 1, &id, 256)};
    cmds[1].indirect = 1 + 8;
    wf_cmdlist list = {.key = 31, .cmds = cmds, .n_cmds = 2, .step_buffer = 32, .step = step, .step_bytes = sizeof step};
    uint64_t fence;
    OK(dev->vt->submit(dev, &list, &fence));
    OK(read_now(dev, 31, 0, counts, sizeof counts));
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(counts[i], i < 5);
    list.step = NULL; /* what the buffer holds: dispatched indirectly on the device */
    list.step_bytes = 0;
    uint32_t three = 3;
    OK(dev->vt->write(dev, 32, 8, &three, 4));
    OK(dev->vt->submit(dev, &list, &fence));
    OK(read_now(dev, 31, 0, counts, sizeof counts));
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(counts[i], i < 3);
    list.step = step;
    list.step_bytes = sizeof step;
    step[2] = 0; /* an empty grid does nothing */
    OK(dev->vt->submit(dev, &list, &fence));
    OK(read_now(dev, 31, 0, counts, sizeof counts));
    assert_int_equal(counts[0], 0);
    step[2] = 65536;
    assert_int_equal(dev->vt->submit(dev, &list, &fence), WEFT_E_VALUE);
    dev->vt->program_destroy(dev, 31);
    dev->vt->buffer_destroy(dev, 31);
    dev->vt->buffer_destroy(dev, 32);
}

static void odd_sizes_are_written_and_read_back(void **state)
{
    (void)state;
    NEED_RESULTS();
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 255, 256, 257, 4095, 65537};
    for (size_t k = 0; k < WF_COUNT(sizes); k++) {
        uint64_t n = sizes[k];
        unsigned char *in = malloc(n), *back = malloc(n + 1);
        for (uint64_t i = 0; i < n; i++)
            in[i] = (unsigned char)(i * 31 + 7);
        back[n] = 0xAA;
        OK(dev->vt->buffer_create(dev, 41, n));
        OK(dev->vt->write(dev, 41, 0, in, n));
        OK(read_now(dev, 41, 0, back, n));
        assert_memory_equal(in, back, n);
        assert_int_equal(back[n], 0xAA);
        dev->vt->buffer_destroy(dev, 41);
        free(in);
        free(back);
    }
}

static void large_transfers_go_in_pieces(void **state)
{
    (void)state;
    NEED_RESULTS();
    uint64_t n = (100u << 20) + 12; /* more than the staging that may be in flight */
    uint32_t *in = malloc(n), *back = calloc(1, n);
    for (uint64_t i = 0; i < n / 4; i++)
        in[i] = (uint32_t)(i * 2654435761u);
    OK(dev->vt->buffer_create(dev, 42, n));
    OK(dev->vt->write(dev, 42, 0, in, n));
    OK(read_now(dev, 42, 0, back, n));
    assert_int_equal(memcmp(in, back, n), 0);
    dev->vt->buffer_destroy(dev, 42);
    free(in);
    free(back);
}

static void copies_and_fills_keep_their_place_among_dispatches(void **state)
{
    (void)state;
    NEED_RESULTS();
    uint32_t x[64], id = 51;
    OK(dev->vt->buffer_create(dev, 51, 256));
    OK(dev->vt->buffer_create(dev, 52, 256));
    OK(program(dev, 51, &one_bind, count_wgsl));
    wf_bind a = {.buffer = 51, .size = 256}, b = {.buffer = 52, .size = 256};
    wf_cmd cmds[] = {
        {.kind = WF_CMD_FILL, .n_bind = 1, .bind = {a}},
        dispatch(51, 64, 1, &id, 256), /* 1 */
        {.kind = WF_CMD_COPY, .n_bind = 2, .bind = {a, b}},
        dispatch(51, 32, 1, &id, 256), /* the first half 2 */
        {.kind = WF_CMD_COPY, .n_bind = 2, .bind = {{.buffer = 51, .offset = 0, .size = 128}, {.buffer = 51, .offset = 64, .size = 128}}},
        {.kind = WF_CMD_COPY, .n_bind = 2, .bind = {{.buffer = 52, .offset = 4, .size = 4}, {.buffer = 51, .offset = 0, .size = 4}}},
    };
    wf_cmdlist list = {.cmds = cmds, .n_cmds = WF_COUNT(cmds)};
    uint64_t fence;
    OK(dev->vt->submit(dev, &list, &fence));
    OK(read_now(dev, 51, 0, x, sizeof x));
    for (int i = 0; i < 64; i++)
        assert_int_equal(x[i], i == 0 ? 1 : i < 48 ? 2 : 1);
    OK(read_now(dev, 52, 0, x, sizeof x));
    for (int i = 0; i < 64; i++)
        assert_int_equal(x[i], 1);
    dev->vt->program_destroy(dev, 51);
    dev->vt->buffer_destroy(dev, 51);
    dev->vt->buffer_destroy(dev, 52);
}

static void a_copy_inside_one_buffer_may_overlap(void **state)
{
    (void)state;
    NEED_RESULTS();
    enum { N = 5 << 18 }; /* 5 MiB: more than the scratch buffer */
    uint32_t *in = malloc(2 * N * 4), *back = malloc(2 * N * 4);
    OK(dev->vt->buffer_create(dev, 53, 2 * N * 4));
    for (int backwards = 0; backwards < 2; backwards++) {
        for (uint32_t i = 0; i < 2 * N; i++)
            in[i] = i * 7 + (uint32_t)backwards;
        OK(dev->vt->write(dev, 53, 0, in, 2 * N * 4));
        uint64_t from = backwards ? 400 : 0, to = backwards ? 0 : 400;
        wf_cmd cmd = {.kind = WF_CMD_COPY, .n_bind = 2,
                      .bind = {{.buffer = 53, .offset = from, .size = N * 4}, {.buffer = 53, .offset = to, .size = N * 4}}};
        uint64_t fence;
        OK(dev->vt->submit(dev, &(wf_cmdlist){.cmds = &cmd, .n_cmds = 1}, &fence));
        memmove((char *)in + to, (char *)in + from, N * 4);
        OK(read_now(dev, 53, 0, back, 2 * N * 4));
        assert_int_equal(memcmp(in, back, 2 * N * 4), 0);
    }
    dev->vt->buffer_destroy(dev, 53);
    free(in);
    free(back);
}

static void a_program_that_does_not_compile_says_why(void **state)
{
    (void)state;
    NEED();
    uint64_t pipelines = dev->stats->pipelines;
    assert_int_not_equal(program(dev, 61, &one_bind, "@compute @workgroup_size(1) fn main() { let x: i32 = 1.5f; }"), WEFT_OK);
    assert_true(strlen(weft_error_message()) > 20);
    assert_int_not_equal(program(dev, 61, &one_bind, "fn not_main() {}"), WEFT_OK);
    assert_int_equal(dev->stats->pipelines, pipelines);
    OK(program(dev, 61, &one_bind, count_wgsl)); /* the id is still free */
    dev->vt->program_destroy(dev, 61);
}

static bool feature_is_on(const char *name)
{
    for (int i = 0; i < dev->caps.info.n_features; i++)
        if (strcmp(dev->caps.info.features[i].name, name) == 0)
            return dev->caps.info.features[i].on;
    return false;
}

static void optional_features_compile_where_they_are_on(void **state)
{
    (void)state;
    NEED();
    static const char *const f16 =
        "enable f16;\n@group(0) @binding(0) var<storage, read_write> x: array<f16>;\n"
        "@compute @workgroup_size(1) fn main() { x[0] = x[0] + 1.5h; }\n";
    static const char *const subgroups =
        "enable subgroups;\n@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n"
        "@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32, @builtin(subgroup_size) n: u32) {\n"
        "    let s = subgroupAdd(1.0);\n    if (i == 0u) { x[0] = s; x[1] = f32(n); }\n}\n";
    if (feature_is_on("f16"))
        OK(program(dev, 75, &one_bind, f16));
    else
        assert_int_not_equal(program(dev, 75, &one_bind, f16), WEFT_OK);
    dev->vt->program_destroy(dev, 75);
    if (!dev->caps.subgroups)
        return;
    OK(program(dev, 76, &one_bind, subgroups));
    uint32_t id = 76;
    float x[2] = {0};
    uint64_t fence;
    OK(dev->vt->buffer_create(dev, 76, 256));
    wf_cmd cmd = dispatch(76, 1, 1, &id, 256);
    OK(dev->vt->submit(dev, &(wf_cmdlist){.cmds = &cmd, .n_cmds = 1}, &fence));
    OK(read_now(dev, 76, 0, x, sizeof x));
    print_message("subgroup size %g (told: %u to %u)\n", x[1], dev->caps.subgroup_min, dev->caps.subgroup_max);
    if (strcmp(dev->caps.info.kind, "null") != 0)
        assert_true(x[0] == x[1]);
    if (dev->caps.subgroup_max != 0 && strcmp(dev->caps.info.kind, "null") != 0)
        assert_true(x[1] >= (float)dev->caps.subgroup_min && x[1] <= (float)dev->caps.subgroup_max);
    dev->vt->program_destroy(dev, 76);
    dev->vt->buffer_destroy(dev, 76);
}

static void equal_text_is_one_pipeline(void **state)
{
    (void)state;
    NEED();
    uint64_t before = dev->stats->pipelines;
    for (uint32_t i = 0; i < 5; i++)
        OK(program(dev, 70 + i, &one_bind, "@compute @workgroup_size(1) fn main() {}"));
    assert_int_equal(dev->stats->pipelines, before + 1);
    for (uint32_t i = 0; i < 5; i++)
        dev->vt->program_destroy(dev, 70 + i);
}

static void bad_lists_are_refused_before_the_device_sees_them(void **state)
{
    (void)state;
    NEED();
    uint32_t id = 81;
    uint64_t fence;
    OK(dev->vt->buffer_create(dev, 81, 256));
    OK(program(dev, 81, &one_bind, count_wgsl));
    wf_cmd good = dispatch(81, 1, 1, &id, 256), bad;
    wf_cmdlist list = {.cmds = &bad, .n_cmds = 1};
#define REFUSED(change)                                                      \
    do {                                                                     \
        bad = good;                                                          \
        change;                                                              \
        assert_int_not_equal(dev->vt->submit(dev, &list, &fence), WEFT_OK);  \
    } while (0)
    REFUSED(bad.bind[0].size = 0);
    REFUSED(bad.bind[0].size = 255);
    REFUSED(bad.bind[0].size = 512);
    REFUSED(bad.bind[0].offset = 4);
    REFUSED(bad.bind[0].offset = UINT64_MAX - 255);
    REFUSED(bad.bind[0].buffer = 99999);
    REFUSED(bad.program = 99999);
    REFUSED(bad.n_bind = 2);
    REFUSED(bad.grid[1] = 65536);
    REFUSED(bad.static_bytes = 4);
    REFUSED(bad.indirect = 1);
    REFUSED(bad.kind = 9);
#undef REFUSED
    bad = good;
    OK(dev->vt->submit(dev, &list, &fence));
    OK(dev->vt->wait(dev, fence, -1));
    assert_int_equal(dev->vt->buffer_create(dev, 81, 4), WEFT_E_VALUE);
    assert_int_equal(dev->vt->wait(dev, fence + 1000, 0), WEFT_E_VALUE);
    dev->vt->program_destroy(dev, 81);
    dev->vt->buffer_destroy(dev, 81);
}

static void a_validation_error_arrives_once_with_the_fence(void **state)
{
    (void)state;
    NEED_RESULTS();
    uint32_t ids[3] = {82, 82, 82}; /* read and read_write in one dispatch */
    uint64_t fence;
    float x[64] = {1}, back[64];
    OK(dev->vt->buffer_create(dev, 82, 256));
    OK(dev->vt->write(dev, 82, 0, x, sizeof x));
    OK(program(dev, 82, &vadd, vadd_wgsl));
    wf_cmd cmd = dispatch(82, 1, 3, ids, 256);
    wf_cmdlist list = {.cmds = &cmd, .n_cmds = 1};
    OK(dev->vt->submit(dev, &list, &fence));
    assert_int_equal(dev->vt->wait(dev, fence, -1), WEFT_E_INTERNAL);
    assert_true(strlen(weft_error_message()) > 30);
    OK(dev->vt->wait(dev, fence, -1));
    OK(read_now(dev, 82, 0, back, sizeof back)); /* the device goes on working */
    assert_memory_equal(x, back, sizeof x);
    dev->vt->program_destroy(dev, 82);
    dev->vt->buffer_destroy(dev, 82);
}

static void an_invalid_list_behind_an_unreported_error_is_reported_too(void **state)
{
    (void)state;
    NEED_RESULTS();
    uint32_t ids[3] = {83, 83, 83};
    uint64_t first, second;
    float x[64] = {1}, back[64];
    OK(dev->vt->buffer_create(dev, 83, 256));
    OK(dev->vt->write(dev, 83, 0, x, sizeof x));
    OK(program(dev, 83, &vadd, vadd_wgsl));
    wf_cmd cmd = dispatch(83, 1, 3, ids, 256);
    wf_cmdlist list = {.cmds = &cmd, .n_cmds = 1};
    OK(dev->vt->submit(dev, &list, &first));
    OK(dev->vt->submit(dev, &list, &second));
    assert_int_not_equal(program(dev, 84, &one_bind, "fn main( {"), WEFT_OK); /* its error is its own */
    assert_int_equal(dev->vt->wait(dev, first, -1), WEFT_E_INTERNAL);
    assert_int_equal(dev->vt->wait(dev, second, -1), WEFT_E_INTERNAL);
    OK(dev->vt->wait(dev, second, -1));
    OK(read_now(dev, 83, 0, back, sizeof back));
    assert_memory_equal(x, back, sizeof x);
    dev->vt->program_destroy(dev, 83);
    dev->vt->buffer_destroy(dev, 83);
}

static void a_forgotten_read_writes_nothing(void **state)
{
    (void)state;
    NEED_RESULTS();
    static uint8_t x[1 << 20], gone[1 << 20], kept[1 << 20];
    uint64_t fence, last;
    memset(x, 5, sizeof x);
    OK(dev->vt->buffer_create(dev, 85, sizeof x));
    OK(dev->vt->write(dev, 85, 0, x, sizeof x));
    OK(dev->vt->read(dev, 85, 0, gone, sizeof gone, &fence));
    OK(dev->vt->read(dev, 85, 0, kept, sizeof kept, &last));
    dev->vt->forget(dev, gone);
    OK(dev->vt->wait(dev, last, -1));
    assert_true(gone[0] == 0 && gone[sizeof gone - 1] == 0);
    assert_memory_equal(kept, x, sizeof x);
    dev->vt->buffer_destroy(dev, 85);
}

static void a_buffer_too_large_is_out_of_memory_and_nothing_breaks(void **state)
{
    (void)state;
    NEED_RESULTS();
    float x[4] = {1, 2, 3, 4}, back[4];
    assert_int_equal(dev->vt->buffer_create(dev, 91, (uint64_t)1 << 40), WEFT_E_OOM);
    OK(dev->vt->buffer_create(dev, 91, sizeof x));
    OK(dev->vt->write(dev, 91, 0, x, sizeof x));
    OK(read_now(dev, 91, 0, back, sizeof back));
    assert_memory_equal(x, back, sizeof x);
    dev->vt->buffer_destroy(dev, 91);
}

static void ten_thousand_small_reads_do_not_hang(void **state)
{
    (void)state;
    NEED_RESULTS();
    float x[16], back;
    for (int i = 0; i < 16; i++)
        x[i] = (float)i;
    OK(dev->vt->buffer_create(dev, 92, sizeof x));
    OK(dev->vt->write(dev, 92, 0, x, sizeof x));
    for (uint32_t i = 0; i < 10000; i++) {
        back = -1;
        OK(read_now(dev, 92, (i % 16) * 4, &back, 4));
        assert_true(back == x[i % 16]);
    }
    dev->vt->buffer_destroy(dev, 92);
}

static void many_reads_may_be_in_flight(void **state)
{
    (void)state;
    NEED_RESULTS();
    enum { N = 200 };
    uint32_t x[N], back[N];
    uint64_t fences[N];
    for (uint32_t i = 0; i < N; i++)
        x[i] = i * i;
    OK(dev->vt->buffer_create(dev, 93, sizeof x));
    OK(dev->vt->write(dev, 93, 0, x, sizeof x));
    for (uint32_t i = 0; i < N; i++)
        OK(dev->vt->read(dev, 93, i * 4, &back[i], 4, &fences[i]));
    dev->vt->buffer_destroy(dev, 93); /* while they are in flight */
    for (uint32_t i = N; i-- > 0;)
        OK(dev->vt->wait(dev, fences[i], -1));
    assert_memory_equal(x, back, sizeof x);
}

static long resident_kib(void)
{
    long pages = 0, skipped;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f)
        return 0;
    if (fscanf(f, "%ld %ld", &skipped, &pages) != 2)
        pages = 0;
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void buffers_created_used_and_destroyed_leave_nothing(void **state)
{
    (void)state;
    NEED();
    enum { BYTES = 1 << 20, ROUNDS = 300 };
    wf_wgpu *d = wf_wgpu_of(dev);
    uint32_t ids[3] = {101, 102, 103};
    long at_half = 0;
    char *x = calloc(1, BYTES);
    OK(program(dev, 101, &vadd, vadd_wgsl));
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t fence;
        for (int i = 0; i < 3; i++)
            OK(dev->vt->buffer_create(dev, ids[i], BYTES));
        OK(dev->vt->write(dev, 101, 0, x, BYTES));
        wf_cmd cmd = dispatch(101, 16, 3, ids, BYTES);
        OK(dev->vt->submit(dev, &(wf_cmdlist){.key = 101, .cmds = &cmd, .n_cmds = 1}, &fence));
        for (int i = 0; i < 3; i++)
            dev->vt->buffer_destroy(dev, ids[i]); /* in flight */
        if (round % 16 == 15)
            OK(dev->vt->wait(dev, fence, -1));
        if (round == ROUNDS / 2)
            at_half = resident_kib();
    }
    float back;
    OK(dev->vt->buffer_create(dev, 101, 4));
    OK(read_now(dev, 101, 0, &back, 4));
    dev->vt->buffer_destroy(dev, 101);
    OK(dev->vt->wait(dev, d->last_fence, -1));
    assert_int_equal(d->buffers.count, 0);
    assert_int_equal(d->groups.count, 0);
    assert_int_equal(d->n_dead, 0);
    assert_true(resident_kib() - at_half < 32 << 10);
    dev->vt->program_destroy(dev, 101);
    free(x);
}

static void no_pipeline(WGPUComputePassEncoder p, WGPUComputePipeline q)
{
    (void)p, (void)q;
}
static void no_group(WGPUComputePassEncoder p, uint32_t i, WGPUBindGroup g, size_t n, uint32_t const *o)
{
    (void)p, (void)i, (void)g, (void)n, (void)o;
}
static void no_dispatch(WGPUComputePassEncoder p, uint32_t x, uint32_t y, uint32_t z)
{
    (void)p, (void)x, (void)y, (void)z;
}

/* The library's part of a replayed dispatch taken out, ours is tens of nanoseconds; the bound leaves room for
 * sanitizers, valgrind and a busy machine. */
static void measure_our_part(wf_wgpu *d, const wf_cmdlist *list)
{
    wf_wgpu_lib real = d->lib;
    uint64_t fence, best = UINT64_MAX;
    d->lib.ComputePassEncoderSetPipeline = no_pipeline;
    d->lib.ComputePassEncoderSetBindGroup = no_group;
    d->lib.ComputePassEncoderDispatchWorkgroups = no_dispatch;
    for (int round = 0; round < 20; round++) {
        uint64_t t = wf_now_ns();
        OK(dev->vt->submit(dev, list, &fence));
        t = wf_now_ns() - t;
        OK(dev->vt->wait(dev, fence, -1));
        if (t < best)
            best = t;
    }
    d->lib = real;
    print_message("replay: %.3f us a dispatch without the library's part\n", (double)best / list->n_cmds * 1e-3);
    assert_true(best < (uint64_t)list->n_cmds * 5000);
}

static void replaying_a_list_costs_little(void **state)
{
    (void)state;
    NEED_RESULTS();
    enum { CMDS = 500, ROUNDS = 20 };
    static wf_cmd cmds[CMDS];
    wf_wgpu *d = wf_wgpu_of(dev);
    uint32_t id = 111, step[4] = {0};
    OK(dev->vt->buffer_create(dev, 111, 256 * CMDS));
    OK(dev->vt->buffer_create(dev, 112, WF_STEP_BYTES));
    OK(program(dev, 111, &one_bind, count_wgsl));
    OK(program(dev, 112, &one_bind, scale_wgsl));
    for (uint32_t i = 0; i < CMDS; i++) {
        cmds[i] = dispatch(111, 1, 1, &id, 256);
        cmds[i].bind[0].offset = 256 * i;
    }
    wf_cmdlist list = {.key = 111, .cmds = cmds, .n_cmds = CMDS, .step_buffer = 112, .step = step, .step_bytes = 16};
    uint64_t fence, best = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t t = wf_now_ns();
        OK(dev->vt->submit(dev, &list, &fence));
        t = wf_now_ns() - t;
        OK(dev->vt->wait(dev, fence, -1));
        if (t < best)
            best = t;
    }
    print_message("replay: %.3f us a dispatch, library included\n", (double)best / CMDS * 1e-3);
    measure_our_part(d, &list);
    assert_int_equal(d->groups.count, CMDS);
    assert_int_equal(d->lists.count > 0, 1);
    /* Destroying something else does not disturb it; destroying what it uses does. */
    dev->vt->program_destroy(dev, 112);
    OK(dev->vt->submit(dev, &list, &fence));
    uint32_t n[1];
    OK(read_now(dev, 111, 256, n, 4));
    assert_int_equal(n[0], ROUNDS + 1);
    dev->vt->buffer_destroy(dev, 111);
    assert_int_equal(dev->vt->submit(dev, &list, &fence), WEFT_E_VALUE);
    OK(dev->vt->buffer_create(dev, 111, 256 * CMDS)); /* the same id, another buffer */
    OK(dev->vt->submit(dev, &list, &fence));
    OK(read_now(dev, 111, 0, n, 4));
    assert_int_equal(n[0], 1);
    dev->vt->buffer_destroy(dev, 111);
    dev->vt->buffer_destroy(dev, 112);
    dev->vt->program_destroy(dev, 111);
    OK(dev->vt->wait(dev, d->last_fence, -1));
}

static void a_destroyed_device_gives_an_error_in_under_a_second(void **state)
{
    (void)state;
    NEED_RESULTS();
    wf_device *own;
    OK(wf_webgpu_open(adapter_index(), NULL, &own));
    wf_wgpu *d = wf_wgpu_of(own);
    uint32_t id = 1;
    float x[64] = {0}, back[64];
    uint64_t fence = 0, read_fence = 0;
    OK(own->vt->buffer_create(own, 1, sizeof x));
    OK(own->vt->write(own, 1, 0, x, sizeof x));
    OK(program(own, 1, &one_bind, count_wgsl));
    wf_cmd cmd = dispatch(1, 64, 1, &id, sizeof x);
    wf_cmdlist list = {.key = 5, .cmds = &cmd, .n_cmds = 1};
    OK(own->vt->submit(own, &list, &fence));
    OK(own->vt->read(own, 1, 0, back, sizeof back, &read_fence));
    d->lib.DeviceDestroy(d->device);
    uint64_t start = wf_now_ns();
    assert_int_equal(own->vt->wait(own, read_fence, -1), WEFT_E_DEVICE_LOST);
    assert_int_equal(own->vt->submit(own, &list, &fence), WEFT_E_DEVICE_LOST);
    assert_int_equal(own->vt->read(own, 1, 0, back, sizeof back, &read_fence), WEFT_E_DEVICE_LOST);
    assert_int_equal(own->vt->write(own, 1, 0, x, sizeof x), WEFT_E_DEVICE_LOST);
    assert_int_equal(own->vt->buffer_create(own, 2, 4), WEFT_E_DEVICE_LOST);
    assert_int_equal(program(own, 2, &one_bind, scale_wgsl), WEFT_E_DEVICE_LOST);
    assert_true(wf_now_ns() - start < 1000000000);
    own->vt->buffer_destroy(own, 1);
    own->vt->close(own);
    float again[4] = {1, 2, 3, 4}, got[4]; /* another device works */
    OK(dev->vt->buffer_create(dev, 121, sizeof again));
    OK(dev->vt->write(dev, 121, 0, again, sizeof again));
    OK(read_now(dev, 121, 0, got, sizeof got));
    assert_memory_equal(again, got, sizeof got);
    dev->vt->buffer_destroy(dev, 121);
}

/* Through the public calls: a read in flight and every call after it say DEVICE_LOST, and the weights, which the caller
 * still has, go to a new context. */
static void a_context_whose_device_is_lost_says_so_and_a_new_one_takes_the_weights(void **state)
{
    (void)state;
    NEED_RESULTS();
    char spec[32];
    snprintf(spec, sizeof spec, "webgpu:%d", adapter_index());
    weft_ctx_opts opts = {.device = adapter_index() < 0 ? "webgpu" : spec};
    const int64_t shape[2] = {2, 2};
    float weights[4] = {1, 2, 3, 4}, back[2][4] = {{0}}, product[4] = {0};
    weft_ctx *c;
    weft_fence *fence;
    OK(weft_ctx_open(&opts, &c));
    weft_scope *scope = weft_scope_begin(c);
    weft_tensor *w = weft_tensor_from(c, WEFT_DTYPE_F32, 2, shape, weights), *y = weft_matmul(w, w);
    OK(weft_read(y, product, sizeof product));
    assert_true(product[0] == 7 && product[3] == 22);
    weft_tensor *later = weft_exp(w);
    OK(weft_read_async(later, back[0], sizeof back[0], &fence));
    wf_wgpu *d = wf_wgpu_of(c->dev);
    d->lib.DeviceDestroy(d->device);
    uint64_t start = wf_now_ns();
    assert_int_equal(weft_fence_wait(fence, -1), WEFT_E_DEVICE_LOST);
    assert_non_null(strstr(weft_error_message(), "lost"));
    weft_fence_destroy(fence);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weft_read(weft_sqrt(w), back[1], sizeof back[1]), WEFT_E_DEVICE_LOST);
        assert_int_equal(weft_read(weft_tensor_from(c, WEFT_DTYPE_F32, 2, shape, weights), back[1], sizeof back[1]), WEFT_E_DEVICE_LOST);
        weft_tensor *big = weft_expand(w, 3, (int64_t[]){100000, 2, 2}), *all = weft_sum(weft_exp(big), NULL, 0, false);
        assert_int_equal(weft_eval(&all, 1), WEFT_E_DEVICE_LOST);
    }
    assert_true(back[1][0] == 0 && back[1][3] == 0);
    weft_scope_end(scope);
    weft_ctx_close(c);
    assert_true(wf_now_ns() - start < 1000000000);
    OK(weft_ctx_open(&opts, &c));
    scope = weft_scope_begin(c);
    w = weft_tensor_from(c, WEFT_DTYPE_F32, 2, shape, weights);
    OK(weft_read(weft_matmul(w, w), back[1], sizeof back[1]));
    assert_memory_equal(back[1], product, sizeof product);
    weft_scope_end(scope);
    weft_ctx_close(c);
}

/* A device on which the text of some kernel rows does not compile. */
static struct {
    const wf_device_vt *real;
    const char *label;
    int refused;
} picky;

static weft_status picky_create(wf_device *d, uint32_t id, const wf_program_desc *desc)
{
    if (desc->kind != WF_PROGRAM_WGSL || !desc->row || (picky.label && strcmp(desc->row, picky.label) != 0))
        return picky.real->program_create(d, id, desc);
    picky.refused++;
    wf_program_desc broken = *desc;
    broken.wgsl = "fn main( {";
    return picky.real->program_create(d, id, &broken);
}

static void expect_products_and_orders(weft_ctx *c)
{
    weft_scope *scope = weft_scope_begin(c);
    const int64_t n = 40;
    float x[40], top[3], square[40 * 40];
    int32_t order[40];
    uint8_t blocks[34] = {0, 0x3c, 1, 2, 3};
    for (int i = 0; i < 40; i++)
        x[i] = (float)(i * 7 % 40);
    weft_tensor *t = weft_tensor_from(c, WEFT_DTYPE_F32, 1, &n, x), *values;
    weft_tensor *column = weft_reshape(t, 2, (int64_t[]){40, 1}), *row = weft_reshape(t, 2, (int64_t[]){1, 40});
    weft_topk(t, 3, &values);
    OK(weft_read(values, top, sizeof top));
    assert_true(top[0] == 39 && top[1] == 38 && top[2] == 37);
    OK(weft_read(weft_argsort(t, 0, false), order, sizeof order));
    for (int i = 0; i < 40; i++)
        assert_true(x[order[i]] == (float)i);
    OK(weft_read(weft_relu(weft_matmul(column, row)), square, sizeof square));
    assert_true(square[41] == 49 && square[40 * 39 + 38] == x[39] * x[38]);
    weft_tensor *w = weft_tensor_from(c, WEFT_DTYPE_Q8_0, 2, (int64_t[]){1, 32}, blocks);
    OK(weft_read(weft_linear(weft_slice(row, 1, 0, 32, 1), w, NULL), top, sizeof *top));
    assert_true(top[0] == 7 * 2 + 14 * 3);
    weft_scope_end(scope);
}

static void a_kernel_that_does_not_compile_is_passed_over(void **state)
{
    (void)state;
    NEED_RESULTS();
    static const char *const labels[] = {"select", "rank", "plain", "row", NULL}; /* NULL: no row compiles, the CPU does it all */
    char spec[32];
    snprintf(spec, sizeof spec, "webgpu:%d", adapter_index());
    weft_ctx_opts opts = {.device = adapter_index() < 0 ? "webgpu" : spec};
    int refused = 0;
    for (int i = 0; i < 5; i++) {
        weft_ctx *c;
        weft_stats stats;
        OK(weft_ctx_open(&opts, &c));
        picky.real = c->dev->vt;
        picky.label = labels[i];
        picky.refused = 0;
        wf_device_vt vt = *c->dev->vt;
        vt.program_create = picky_create;
        c->dev->vt = &vt;
        expect_products_and_orders(c);
        int first = picky.refused;
        expect_products_and_orders(c);
        assert_int_equal(picky.refused, first); /* tried once */
        OK(weft_ctx_stats(c, &stats));
        if (!labels[i])
            assert_true(stats.fallbacks >= 4 && first > 4);
        refused += labels[i] ? first : 0;
        c->dev->vt = picky.real;
        weft_ctx_close(c);
    }
    assert_true(refused >= 3);
}

static void lowered_limits_show_in_the_capabilities(void **state)
{
    (void)state;
    NEED();
    wf_device *own;
    weft_ctx_opts opts = {.max_binding_bytes = 1 << 20, .max_storage_buffers = 4, .max_workgroup_invocations = 128,
                          .max_workgroup_bytes = 8192};
    OK(wf_webgpu_open(adapter_index(), &opts, &own));
    assert_int_equal(own->caps.max_binding_bytes, 1 << 20);
    assert_int_equal(own->caps.max_storage_buffers, 4);
    assert_int_equal(own->caps.max_workgroup_invocations, 128);
    assert_int_equal(own->caps.max_workgroup_bytes, 8192);
    uint32_t id = 1;
    uint64_t fence;
    OK(own->vt->buffer_create(own, 1, 2 << 20));
    OK(program(own, 1, &one_bind, count_wgsl));
    wf_cmd cmd = dispatch(1, 1, 1, &id, 2 << 20);
    wf_cmdlist list = {.cmds = &cmd, .n_cmds = 1};
    assert_int_equal(own->vt->submit(own, &list, &fence), WEFT_E_UNSUPPORTED);
    own->vt->close(own);
}

static void a_failing_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    NEED();
    uint64_t live = wf_alloc_live();
    uint32_t ids[3] = {131, 132, 133};
    for (uint64_t nth = 1; nth < 200; nth++) {
        wf_alloc_fail_nth(nth);
        weft_status st = WEFT_OK;
        uint64_t fence;
        float x[64] = {0};
        for (int i = 0; i < 3 && st == WEFT_OK; i++)
            st = dev->vt->buffer_create(dev, ids[i], 256);
        if (st == WEFT_OK)
            st = program(dev, 131, &vadd, vadd_wgsl);
        wf_cmd cmd = dispatch(131, 1, 3, ids, 256);
        if (st == WEFT_OK)
            st = dev->vt->submit(dev, &(wf_cmdlist){.cmds = &cmd, .n_cmds = 1}, &fence);
        if (st == WEFT_OK)
            st = read_now(dev, 133, 0, x, sizeof x);
        wf_alloc_fail_nth(0);
        for (int i = 0; i < 3; i++)
            dev->vt->buffer_destroy(dev, ids[i]);
        dev->vt->program_destroy(dev, 131);
        OK(dev->vt->wait(dev, wf_wgpu_of(dev)->last_fence, -1));
        if (st == WEFT_OK)
            break;
        assert_int_equal(st, WEFT_E_OOM);
    }
    assert_true(wf_alloc_live() <= live + 40); /* maps, layouts and staging that stay by design */
}

static void *own_device(void *failure)
{
    wf_device *own;
    uint32_t n = 0, id = 1;
    uint64_t fence;
    weft_status st = wf_webgpu_open(adapter_index(), NULL, &own);
    if (st != WEFT_OK)
        return failure;
    st = own->vt->buffer_create(own, 1, 256);
    if (st == WEFT_OK)
        st = program(own, 1, &one_bind, count_wgsl);
    wf_cmd cmd = dispatch(1, 1, 1, &id, 256);
    for (int i = 0; i < 50 && st == WEFT_OK; i++)
        st = own->vt->submit(own, &(wf_cmdlist){.key = 1, .cmds = &cmd, .n_cmds = 1}, &fence);
    if (st == WEFT_OK)
        st = read_now(own, 1, 0, &n, 4);
    own->vt->close(own);
    return st == WEFT_OK && n == 50 ? NULL : failure;
}

static void devices_on_several_threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    NEED_RESULTS();
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    static char failure[] = "failed";
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, own_device, failure), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result = failure;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
}

/* NVIDIA's driver cannot be loaded a 31st time in one process: it has to stay. */
static void contexts_are_opened_again_and_again(void **state)
{
    (void)state;
    NEED();
    for (int i = 0; i < 40; i++) {
        weft_ctx *ctx;
        OK(weft_ctx_open(&(weft_ctx_opts){.device = "webgpu"}, &ctx));
        weft_ctx_close(ctx);
    }
}

static void opening_what_is_not_there_says_so(void **state)
{
    (void)state;
    wf_device *d;
    weft_ctx_opts opts = {.webgpu_lib = "/no/such/library.so"};
    assert_int_equal(wf_webgpu_open(-1, &opts, &d), WEFT_E_DEVICE_INIT);
    assert_non_null(strstr(weft_error_message(), "/no/such/library.so"));
    opts.webgpu_lib = "libm.so.6"; /* a library, but not of WebGPU */
    assert_int_equal(wf_webgpu_open(-1, &opts, &d), WEFT_E_DEVICE_INIT);
    if (dev)
        assert_int_equal(wf_webgpu_open(1000, NULL, &d), WEFT_E_DEVICE_INIT);
}

static int open_device(void **state)
{
    (void)state;
    if (wf_webgpu_open(adapter_index(), NULL, &dev) != WEFT_OK)
        dev = NULL;
    else
        print_message("on %s (%s, %s)\n", dev->caps.info.name, dev->caps.info.implementation, dev->caps.info.kind);
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    uint64_t live = 0;
    if (dev)
        dev->vt->close(dev);
    dev = NULL;
    live = wf_alloc_live();
    if (live)
        print_error("%llu blocks are still held\n", (unsigned long long)live);
    return live != 0;
}

WEFT_API int weft_main(int argc, char **argv); /* the entry that tools/dawn.py calls */
int weft_main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_describes_every_adapter),
        cmocka_unit_test(adding_two_vectors_gives_their_sum),
        cmocka_unit_test(a_thousand_dependent_dispatches_run_in_order),
        cmocka_unit_test(indirect_grids_come_from_the_step_block),
        cmocka_unit_test(odd_sizes_are_written_and_read_back),
        cmocka_unit_test(large_transfers_go_in_pieces),
        cmocka_unit_test(copies_and_fills_keep_their_place_among_dispatches),
        cmocka_unit_test(a_copy_inside_one_buffer_may_overlap),
        cmocka_unit_test(a_program_that_does_not_compile_says_why),
        cmocka_unit_test(optional_features_compile_where_they_are_on),
        cmocka_unit_test(equal_text_is_one_pipeline),
        cmocka_unit_test(bad_lists_are_refused_before_the_device_sees_them),
        cmocka_unit_test(a_validation_error_arrives_once_with_the_fence),
        cmocka_unit_test(an_invalid_list_behind_an_unreported_error_is_reported_too),
        cmocka_unit_test(a_forgotten_read_writes_nothing),
        cmocka_unit_test(a_buffer_too_large_is_out_of_memory_and_nothing_breaks),
        cmocka_unit_test(ten_thousand_small_reads_do_not_hang),
        cmocka_unit_test(many_reads_may_be_in_flight),
        cmocka_unit_test(buffers_created_used_and_destroyed_leave_nothing),
        cmocka_unit_test(replaying_a_list_costs_little),
        cmocka_unit_test(a_destroyed_device_gives_an_error_in_under_a_second),
        cmocka_unit_test(a_context_whose_device_is_lost_says_so_and_a_new_one_takes_the_weights),
        cmocka_unit_test(a_kernel_that_does_not_compile_is_passed_over),
        cmocka_unit_test(lowered_limits_show_in_the_capabilities),
        cmocka_unit_test(a_failing_allocation_is_reported_and_leaks_nothing),
        cmocka_unit_test(devices_on_several_threads_do_not_disturb_each_other),
        cmocka_unit_test(opening_what_is_not_there_says_so),
        cmocka_unit_test(contexts_are_opened_again_and_again),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}

#else /* the build without webgpu.h: webgpu_absent.c */

#include "hal.h"

static void without_webgpu_the_device_says_so(void **state)
{
    (void)state;
    wf_device *d;
    weft_device_info *infos;
    int n;
    assert_int_equal(wf_webgpu_open(-1, NULL, &d), WEFT_E_DEVICE_INIT);
    assert_non_null(strstr(weft_error_message(), "no WebGPU device"));
    assert_int_equal(wf_webgpu_list(NULL, &infos, &n), WEFT_E_DEVICE_INIT);
    const char *v = getenv("WEFT_REQUIRE");
    if (v && strstr(v, "webgpu"))
        fail_msg("webgpu is required, and this build has none");
}

WEFT_API int weft_main(int argc, char **argv);
int weft_main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_webgpu_the_device_says_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif

int main(int argc, char **argv)
{
    return weft_main(argc, argv);
}
