/* webgpu_absent.c - stands in for the WebGPU device where webgpu.h was not there at build time. */
#include "hal.h"

static const char why[] = "webgpu: this build has no WebGPU device (webgpu.h was not found when it was configured)";

weft_status wf_webgpu_open(int adapter, const weft_ctx_opts *opts, wf_device **out)
{
    (void)adapter, (void)opts, (void)out;
    return wf_fail(WEFT_E_DEVICE_INIT, "%s", why);
}

weft_status wf_webgpu_open_with(int adapter, const weft_ctx_opts *opts, wf_disk_cache *disk, wf_device **out)
{
    (void)disk;
    return wf_webgpu_open(adapter, opts, out);
}

weft_status wf_webgpu_list(const weft_ctx_opts *opts, weft_device_info **out, int *n)
{
    (void)opts, (void)out, (void)n;
    return wf_fail(WEFT_E_DEVICE_INIT, "%s", why);
}

weft_status wf_webgpu_adopt(const wf_webgpu_handles *handles, const weft_ctx_opts *opts, wf_device **out)
{
    (void)handles, (void)opts, (void)out;
    return wf_fail(WEFT_E_DEVICE_INIT, "%s", why);
}

void wf_webgpu_note_lost(wf_device *d, const char *message)
{
    (void)d, (void)message;
}

weft_status wf_webgpu_wrap(wf_device *d, uint32_t id, void *buffer, uint64_t need_bytes, void (*release)(void *user), void *user)
{
    (void)d, (void)id, (void)buffer, (void)need_bytes, (void)release, (void)user;
    return wf_fail(WEFT_E_UNSUPPORTED, "%s", why);
}

void *wf_webgpu_handle(wf_device *d, uint32_t id)
{
    (void)d, (void)id;
    return NULL;
}
