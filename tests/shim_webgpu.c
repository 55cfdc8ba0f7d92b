/* shim_webgpu.c - a stand-in WebGPU library: wgpu-native, but its dispatches do nothing.
 *
 * It is linked with wgpu-native, so that looking up a name in it finds the two functions below first and
 * everything else in wgpu-native. A program that really computes on the device gets other results through it.
 */
#include "webgpu.h"

__attribute__((visibility("default"))) void wgpuComputePassEncoderDispatchWorkgroups(WGPUComputePassEncoder pass, uint32_t x,
                                                                                     uint32_t y, uint32_t z)
{
    (void)pass, (void)x, (void)y, (void)z;
}

__attribute__((visibility("default"))) void wgpuComputePassEncoderDispatchWorkgroupsIndirect(WGPUComputePassEncoder pass,
                                                                                             WGPUBuffer buffer, uint64_t offset)
{
    (void)pass, (void)buffer, (void)offset;
}
