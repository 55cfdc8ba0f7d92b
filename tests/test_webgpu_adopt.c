/* test_webgpu_adopt.c - weft on the device of a program that uses WebGPU itself, and buffers shared both ways.
 *
 * The program's side is written with the functions of webgpu.h. Skipped where no adapter can be opened (a failure when
 * WEFT_REQUIRE names webgpu).
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if __has_include(<webgpu.h>)

#include "webgpu_device.h"
#include "weft/webgpu.h"
#include "weft/weft.h"

static wf_wgpu_lib lib;
static WGPUInstance instance;
static WGPUAdapter adapter;
static WGPUDevice device;
static WGPUQueue queue;
static int lost, released;

/* ---- the program's own WebGPU ---- */

static void on_device(WGPURequestDeviceStatus status, WGPUDevice d, WGPUStringView message, void *out, void *unused)
{
    (void)status, (void)message, (void)unused;
    *(WGPUDevice *)out = d;
}

static void on_lost(WGPUDevice const *d, WGPUDeviceLostReason reason, WGPUStringView message, void *a, void *b)
{
    (void)d, (void)reason, (void)message, (void)a, (void)b;
    lost++;
}

static void on_error(WGPUDevice const *d, WGPUErrorType type, WGPUStringView message, void *a, void *b)
{
    (void)d, (void)type, (void)message, (void)a, (void)b;
}

/* With the limits that WebGPU promises everywhere, and no features. */
static int open_program(void **state)
{
    (void)state;
    wf_wgpu_adapters *list = calloc(1, sizeof *list);
    if (!list || wf_wgpu_lib_open(NULL, &lib) != WEFT_OK || wf_wgpu_instance_create(&lib, &instance) != WEFT_OK ||
        wf_wgpu_adapters_find(&lib, instance, &(weft_ctx_opts){0}, list) != WEFT_OK) {
        free(list);
        return 0;
    }
    adapter = list->item[0].handle;
    list->item[0].handle = NULL;
    wf_wgpu_adapters_free(&lib, list);
    free(list);
    WGPUDeviceDescriptor desc = {.label = wf_wgpu_sv("program"),
                                 .deviceLostCallbackInfo = {.mode = WGPUCallbackMode_AllowSpontaneous, .callback = on_lost},
                                 .uncapturedErrorCallbackInfo = {.callback = on_error}};
    WGPURequestDeviceCallbackInfo info = {.mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_device, .userdata1 = &device};
    lib.AdapterRequestDevice(adapter, &desc, info);
    for (int i = 0; i < 100000 && !device; i++)
        lib.InstanceProcessEvents(instance);
    queue = device ? lib.DeviceGetQueue(device) : NULL;
    return device ? 0 : -1;
}

static int close_program(void **state)
{
    (void)state;
    if (!device)
        return 0;
    lib.DeviceDestroy(device);
    lib.QueueRelease(queue);
    lib.DeviceRelease(device);
    lib.AdapterRelease(adapter);
    lib.InstanceRelease(instance);
    wf_wgpu_lib_close(&lib);
    return 0;
}

static bool have_program(void)
{
    const char *want = getenv("WEFT_REQUIRE");
    if (device)
        return true;
    if (want && strstr(want, "webgpu"))
        fail_msg("no webgpu: %s", weft_error_message());
    print_message("skip: webgpu: %s\n", weft_error_message());
    return false;
}
#define NEED() do { if (!have_program()) { skip(); return; } } while (0)

static WGPUBuffer buffer_of(WGPUBufferUsage usage, uint64_t size, const void *data)
{
    WGPUBuffer b = lib.DeviceCreateBuffer(device, &(WGPUBufferDescriptor){.usage = usage | WGPUBufferUsage_CopyDst, .size = size});
    assert_non_null(b);
    if (data)
        lib.QueueWriteBuffer(queue, b, 0, data, (size_t)size);
    return b;
}

static void on_mapped(WGPUMapAsyncStatus status, WGPUStringView message, void *done, void *unused)
{
    (void)message, (void)unused;
    *(int *)done = status == WGPUMapAsyncStatus_Success ? 1 : -1;
}

/* The program reads a buffer with its own copy and its own mapping. */
static void program_reads(WGPUBuffer from, uint64_t offset, void *dst, size_t n)
{
    WGPUBuffer staging = lib.DeviceCreateBuffer(device, &(WGPUBufferDescriptor){.usage = WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst, .size = n});
    WGPUCommandEncoder e = lib.DeviceCreateCommandEncoder(device, NULL);
    lib.CommandEncoderCopyBufferToBuffer(e, from, offset, staging, 0, n);
    WGPUCommandBuffer c = lib.CommandEncoderFinish(e, NULL);
    lib.QueueSubmit(queue, 1, &c);
    lib.CommandBufferRelease(c);
    lib.CommandEncoderRelease(e);
    int done = 0;
    lib.BufferMapAsync(staging, WGPUMapMode_Read, 0, n, (WGPUBufferMapCallbackInfo){.mode = WGPUCallbackMode_AllowProcessEvents, .callback = on_mapped, .userdata1 = &done});
    for (int i = 0; i < 10000000 && !done; i++) {
        if (lib.DevicePoll)
            lib.DevicePoll(device, 0, NULL);
        lib.InstanceProcessEvents(instance);
    }
    assert_int_equal(done, 1);
    memcpy(dst, lib.BufferGetConstMappedRange(staging, 0, n), n);
    lib.BufferUnmap(staging);
    lib.BufferRelease(staging);
}

static void count_release(void *user)
{
    (void)user;
    released++;
}

static weft_ctx *adopt(void)
{
    weft_ctx *ctx = NULL;
    void *get_proc = NULL;
    memcpy(&get_proc, &lib.get_proc, sizeof get_proc); /* of Dawn, whose library was not found by its path */
    if (weft_webgpu_adopt(&(weft_ctx_opts){.webgpu_get_proc = get_proc}, instance, adapter, device, queue, &ctx) != WEFT_OK)
        fail_msg("%s", weft_error_message());
    return ctx;
}

/* ---- tests ---- */

static void a_program_s_device_computes(void **state)
{
    (void)state;
    NEED();
    for (int round = 0; round < 2; round++) { /* closing leaves the device as it was */
        weft_ctx *ctx = adopt();
        weft_device_info info;
        assert_int_equal(weft_ctx_device(ctx, &info), WEFT_OK);
        assert_true(info.max_storage_buffers <= 8 && info.max_workgroup_invocations <= 256); /* the device's limits, not the adapter's */
        weft_scope *s = weft_scope_begin(ctx);
        float v[6] = {1, 2, 3, 4, 5, 6}, out[2];
        weft_tensor *x = weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){2, 3}, v);
        assert_int_equal(weft_read(weft_sum(weft_mul(x, x), (int[]){1}, 1, false), out, sizeof out), WEFT_OK);
        assert_true(out[0] == 14 && out[1] == 77);
        weft_scope_end(s);
        weft_ctx_close(ctx);
        assert_int_equal(lost, 0);
        uint32_t word = 7;
        WGPUBuffer b = buffer_of(WGPUBufferUsage_CopySrc, 4, &word);
        word = 0;
        program_reads(b, 0, &word, 4);
        assert_int_equal(word, 7);
        lib.BufferRelease(b);
    }
}

static void the_program_s_buffer_is_a_tensor(void **state)
{
    (void)state;
    NEED();
    weft_ctx *ctx = adopt();
    enum { N = 8192 };
    static float v[N], out[N / 2];
    for (int i = 0; i < N; i++)
        v[i] = (float)i;
    WGPUBuffer b = buffer_of(WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc, sizeof v, v);
    weft_stats before, after;
    released = 0;
    weft_ctx_stats(ctx, &before);
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *whole = weft_webgpu_tensor(ctx, b, 0, WEFT_DTYPE_F32, 2, (int64_t[]){2, N / 2}, count_release, NULL);
    weft_tensor *part = weft_webgpu_tensor(ctx, b, 12, WEFT_DTYPE_F32, 1, (int64_t[]){N / 2}, count_release, NULL);
    assert_int_equal(weft_read(weft_add(weft_select(whole, 0, 1), part), out, sizeof out), WEFT_OK);
    for (int i = 0; i < N / 2; i++)
        assert_true(out[i] == (float)(N / 2 + i + 3 + i));
    weft_ctx_stats(ctx, &after);
    assert_true(after.bytes_up - before.bytes_up < sizeof v / 4); /* no elements: parameters alone */
    for (int i = 0; i < N; i++)
        v[i] = -1;
    lib.QueueWriteBuffer(queue, b, 0, v, sizeof v); /* the program writes; the next evaluation sees it */
    assert_int_equal(weft_read(weft_mul(part, part), out, sizeof out), WEFT_OK);
    assert_true(out[0] == 1 && out[N / 2 - 1] == 1);
    assert_int_equal(released, 0);
    weft_scope_end(s);
    assert_int_equal(weft_ctx_sync(ctx), WEFT_OK);
    weft_ctx_close(ctx);
    assert_int_equal(released, 2);
    program_reads(b, 0, v, sizeof v); /* the buffer is whole */
    assert_true(v[N - 1] == -1);
    lib.BufferRelease(b);
}

static void a_result_is_the_program_s_to_read(void **state)
{
    (void)state;
    NEED();
    weft_ctx *ctx = adopt();
    weft_scope *s = weft_scope_begin(ctx);
    float v[6] = {1, 2, 3, 4, 5, 6}, out[6];
    weft_tensor *x = weft_tensor_from(ctx, WEFT_DTYPE_F32, 2, (int64_t[]){2, 3}, v), *y = weft_mul(x, x), *held = NULL;
    void *buffer = NULL;
    uint64_t offset = 99;
    assert_int_equal(weft_webgpu_buffer(y, &buffer, &offset, &held), WEFT_OK);
    program_reads(buffer, offset, out, sizeof out);
    for (int i = 0; i < 6; i++)
        assert_true(out[i] == v[i] * v[i]);
    weft_tensor_release(held);
    assert_int_equal(weft_webgpu_buffer(weft_select(y, 0, 1), &buffer, &offset, &held), WEFT_OK); /* a view of one run: no copy */
    assert_int_equal(offset, 12);
    weft_tensor_release(held);
    assert_int_equal(weft_webgpu_buffer(weft_transpose(y, 0, 1), &buffer, &offset, &held), WEFT_OK);
    program_reads(buffer, offset, out, sizeof out);
    assert_true(out[0] == 1 && out[1] == 16 && out[2] == 4);
    weft_tensor_release(held);
    weft_scope_end(s);
    weft_ctx_close(ctx);
}

static void says(weft_tensor *t, weft_status st, const char *word)
{
    assert_int_equal(weft_tensor_status(t), st);
    if (!strstr(weft_tensor_message(t), word))
        fail_msg("\"%s\" is not in: %s", word, weft_tensor_message(t));
}

/* What one context handed out and another took in outlives the first. */
static void a_buffer_goes_from_one_context_to_another(void **state)
{
    (void)state;
    NEED();
    weft_ctx *from = adopt(), *to = adopt();
    float v[4] = {1, 2, 3, 4}, out[4] = {0};
    weft_scope *sf = weft_scope_begin(from);
    void *buffer = NULL;
    uint64_t offset;
    weft_tensor *held = NULL, *y = weft_tensor_from(from, WEFT_DTYPE_F32, 1, (int64_t[]){4}, v);
    assert_int_equal(weft_webgpu_buffer(weft_mul(y, y), &buffer, &offset, &held), WEFT_OK);
    weft_scope *st = weft_scope_begin(to);
    weft_tensor *x = weft_webgpu_tensor(to, buffer, offset, WEFT_DTYPE_F32, 1, (int64_t[]){4}, NULL, NULL);
    assert_int_equal(weft_read(x, out, sizeof out), WEFT_OK);
    assert_true(out[3] == 16);
    weft_tensor_release(held);
    weft_scope_end(sf);
    weft_ctx_close(from);
    memset(out, 0, sizeof out);
    assert_int_equal(weft_read(x, out, sizeof out), WEFT_OK);
    assert_true(out[3] == 16);
    weft_scope_end(st);
    weft_ctx_close(to);
}

static void bad_calls_are_errors(void **state)
{
    (void)state;
    NEED();
    weft_ctx *ctx = adopt(), *other = NULL;
    assert_int_equal(weft_webgpu_adopt(NULL, instance, adapter, NULL, queue, &other), WEFT_E_CONTEXT);
    assert_int_equal(weft_webgpu_adopt(NULL, instance, adapter, device, queue, NULL), WEFT_E_CONTEXT);
    assert_int_equal(weft_webgpu_adopt(&(weft_ctx_opts){.webgpu_lib = "/nowhere/lib.so"}, instance, adapter, device, queue, &other), WEFT_E_DEVICE_INIT);
    WGPUBuffer b = buffer_of(WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc, 48, NULL), poor = buffer_of(WGPUBufferUsage_CopySrc, 48, NULL);
    weft_scope *s = weft_scope_begin(ctx);
    const int64_t twelve[] = {12}, none[] = {0}, huge[] = {INT64_MAX};
    released = 0;
    says(weft_webgpu_tensor(ctx, NULL, 0, WEFT_DTYPE_F32, 1, twelve, count_release, NULL), WEFT_E_CONTEXT, "NULL");
    says(weft_webgpu_tensor(ctx, b, 2, WEFT_DTYPE_F32, 1, twelve, count_release, NULL), WEFT_E_VALUE, "multiple");
    says(weft_webgpu_tensor(ctx, b, 4, WEFT_DTYPE_F32, 1, twelve, count_release, NULL), WEFT_E_VALUE, "48");
    says(weft_webgpu_tensor(ctx, poor, 0, WEFT_DTYPE_F32, 1, twelve, count_release, NULL), WEFT_E_VALUE, "Storage");
    says(weft_webgpu_tensor(ctx, b, 0, WEFT_DTYPE_Q8_0, 1, twelve, count_release, NULL), WEFT_E_DTYPE, "q8_0");
    says(weft_webgpu_tensor(ctx, b, 0, WEFT_DTYPE_F32, 1, none, count_release, NULL), WEFT_E_SHAPE, "empty");
    weft_tensor *too_large = weft_webgpu_tensor(ctx, b, 0, WEFT_DTYPE_F32, 1, huge, count_release, NULL);
    assert_int_not_equal(weft_tensor_status(too_large), WEFT_OK);
    says(weft_webgpu_tensor(ctx, b, UINT64_MAX - 3, WEFT_DTYPE_F32, 1, twelve, count_release, NULL), WEFT_E_VALUE, "more than any");
    assert_int_equal(released, 8);
    void *buffer;
    uint64_t offset;
    weft_tensor *held;
    assert_int_equal(weft_webgpu_buffer(NULL, &buffer, &offset, &held), WEFT_E_CONTEXT);
    assert_int_equal(weft_webgpu_buffer(weft_zeros(ctx, WEFT_DTYPE_F32, 1, none), &buffer, &offset, &held), WEFT_E_UNSUPPORTED);
    assert_int_equal(weft_ctx_open(&(weft_ctx_opts){.device = "cpu"}, &other), WEFT_OK);
    weft_scope *so = weft_scope_begin(other);
    says(weft_webgpu_tensor(other, b, 0, WEFT_DTYPE_F32, 1, twelve, NULL, NULL), WEFT_E_UNSUPPORTED, "cpu");
    assert_int_equal(weft_webgpu_buffer(weft_ones(other, WEFT_DTYPE_F32, 1, twelve), &buffer, &offset, &held), WEFT_E_UNSUPPORTED);
    weft_webgpu_lost(other, "not a GPU"); /* nothing to tell */
    weft_webgpu_lost(NULL, NULL);
    weft_scope_end(so);
    weft_ctx_close(other);
    weft_scope_end(s);
    weft_ctx_close(ctx);
    lib.BufferRelease(b);
    lib.BufferRelease(poor);
}

static void a_lost_device_is_told_and_typed(void **state)
{
    (void)state;
    NEED();
    weft_ctx *ctx = adopt();
    weft_scope *s = weft_scope_begin(ctx);
    weft_tensor *x = weft_ones(ctx, WEFT_DTYPE_F32, 1, (int64_t[]){4}), *y = weft_exp(x);
    weft_webgpu_lost(ctx, "the program lost it");
    assert_int_equal(weft_eval(&y, 1), WEFT_E_DEVICE_LOST);
    assert_non_null(strstr(weft_error_message(), "the program lost it"));
    weft_scope_end(s);
    weft_ctx_close(ctx);
    uint32_t word = 3; /* the device is still the program's */
    WGPUBuffer b = buffer_of(WGPUBufferUsage_CopySrc, 4, &word);
    program_reads(b, 0, &word, 4);
    assert_int_equal(word, 3);
    lib.BufferRelease(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_s_device_computes), cmocka_unit_test(the_program_s_buffer_is_a_tensor),
        cmocka_unit_test(a_result_is_the_program_s_to_read), cmocka_unit_test(a_buffer_goes_from_one_context_to_another),
        cmocka_unit_test(bad_calls_are_errors),
        cmocka_unit_test(a_lost_device_is_told_and_typed),
    };
    return cmocka_run_group_tests(tests, open_program, close_program);
}

#else

int main(void)
{
    return 0;
}

#endif
