/* webgpu_device.h - inside the WebGPU device. Every wgpu* call of the project is made from this folder.
 *
 * One wf_wgpu is one instance, one adapter, one device and its queue. Calls on it come from one thread
 * at a time (the context serialises them); only the device-lost callback may come from another thread,
 * so what it touches is in wf_wgpu_events behind a lock.
 *
 * webgpu_lib.c      finding the library and its functions
 * webgpu_adapter.c  adapters of an instance, described
 * webgpu_feature.c  what each implementation can switch on, and why something is off
 * webgpu_kept.c     compiled pipelines kept between runs
 * webgpu_open.c     opening, closing, the table of entries
 * webgpu_event.c    waiting, error scopes, lost devices
 * webgpu_buffer.c   buffers, writes, deferred destruction
 * webgpu_read.c     readback through mapped staging buffers
 * webgpu_program.c  layouts and pipelines, each made once
 * webgpu_group.c    bind groups and their cache
 * webgpu_submit.c   command lists: resolve, cache, encode
 */
#ifndef WF_WEBGPU_DEVICE_H
#define WF_WEBGPU_DEVICE_H

#include <webgpu.h>
#include <wgpu.h>

#include "hal.h"
#include "thread.h"
#include "webgpu_map.h"

/* ---- library ---- */

/* Functions of webgpu.h that every implementation has to have. wgpu-native exports more, of which some
 * end the process when called: only those of this list and the next are ever used. */
#define WF_WGPU_FNS(X)                                                                             \
    X(CreateInstance) X(InstanceRequestAdapter) X(InstanceProcessEvents) X(InstanceRelease)       \
    X(AdapterGetInfo) X(AdapterInfoFreeMembers) X(AdapterGetLimits) X(AdapterGetFeatures)         \
    X(SupportedFeaturesFreeMembers) X(AdapterRequestDevice) X(AdapterRelease)                     \
    X(DeviceGetQueue) X(DeviceCreateBuffer) X(DeviceCreateShaderModule)                           \
    X(DeviceCreateBindGroupLayout) X(DeviceCreatePipelineLayout) X(DeviceCreateComputePipeline)   \
    X(DeviceCreateBindGroup) X(DeviceCreateCommandEncoder) X(DevicePushErrorScope)                \
    X(DevicePopErrorScope) X(DeviceDestroy) X(DeviceRelease)                                      \
    X(BindGroupLayoutRelease) X(PipelineLayoutRelease) X(ComputePipelineRelease)                  \
    X(BindGroupRelease) X(ShaderModuleRelease) X(CommandEncoderBeginComputePass)                  \
    X(CommandEncoderCopyBufferToBuffer) X(CommandEncoderClearBuffer) X(CommandEncoderFinish)      \
    X(CommandEncoderRelease) X(CommandBufferRelease) X(ComputePassEncoderSetPipeline)             \
    X(ComputePassEncoderSetBindGroup) X(ComputePassEncoderDispatchWorkgroups)                     \
    X(ComputePassEncoderDispatchWorkgroupsIndirect) X(ComputePassEncoderEnd)                      \
    X(ComputePassEncoderRelease) X(QueueSubmit) X(QueueWriteBuffer) X(QueueOnSubmittedWorkDone)   \
    X(QueueRelease) X(BufferMapAsync) X(BufferGetConstMappedRange) X(BufferUnmap)                 \
    X(BufferDestroy) X(BufferRelease) X(BufferGetSize) X(BufferGetUsage) X(BufferAddRef)          \
    X(DeviceGetLimits) X(DeviceGetFeatures)

/* wgpu-native only; NULL elsewhere. */
#define WF_WGPU_NATIVE_FNS(X) \
    X(GetVersion) X(SetLogLevel) X(DevicePoll) X(InstanceEnumerateAdapters) X(DeviceCreateShaderModuleTrusted)

typedef enum wf_wgpu_impl { WF_WGPU_NATIVE, WF_WGPU_DAWN } wf_wgpu_impl;

typedef struct wf_wgpu_lib {
#define X(name) __typeof__(&wgpu##name) name;
    WF_WGPU_FNS(X)
    WF_WGPU_NATIVE_FNS(X)
#undef X
    void *handle; /* of dlopen, or NULL */
    void *(*get_proc)(WGPUStringView name);
    wf_wgpu_impl impl;
    char name[96]; /* "wgpu-native 29.0.1.1" */
} wf_wgpu_lib;

/* Errors: DEVICE_INIT, with what was tried. */
weft_status wf_wgpu_lib_open(const weft_ctx_opts *opts, wf_wgpu_lib *out);
void wf_wgpu_lib_close(wf_wgpu_lib *lib); /* the code stays mapped: the libraries keep threads and exit handlers */
void *wf_wgpu_lib_symbol(const wf_wgpu_lib *lib, const char *name);

static inline WGPUStringView wf_wgpu_sv(const char *s)
{
    return (WGPUStringView){s, s ? strlen(s) : 0};
}
/* Copy a message as one line of at most cap - 1 bytes. */
void wf_wgpu_sv_copy(WGPUStringView v, char *dst, size_t cap);

/* ---- features ---- */

/* Dawn's extension structures; numbers from its webgpu.h, 0x0005xxxx. */
enum {
    WF_DAWN_STYPE_CACHE = 0x00050007,
    WF_DAWN_STYPE_TOGGLES = 0x0005000A,
    WF_DAWN_STYPE_MEMORY_HEAPS = 0x00050013,
    WF_DAWN_STYPE_SUBGROUP_MATRIX_CONFIGS = 0x0005003B,
    WF_DAWN_FEATURE_MEMORY_HEAPS = 0x00050014,
    WF_DAWN_FEATURE_SUBGROUP_MATRIX = 0x00050034,
};
typedef struct wf_dawn_toggles {
    WGPUChainedStruct chain;
    size_t n_on;
    const char *const *on;
    size_t n_off;
    const char *const *off;
} wf_dawn_toggles;

typedef struct wf_dawn_cache {
    WGPUChainedStruct chain;
    WGPUStringView isolation_key;
    struct {
        WGPUChainedStruct *next;
        size_t (*call)(size_t key_bytes, const uint8_t *key, size_t value_bytes, uint8_t *value, void *user, void *unused); /* value NULL: its size */
        void *user, *unused;
    } load;
    struct {
        WGPUChainedStruct *next;
        void (*call)(size_t key_bytes, const uint8_t *key, size_t value_bytes, const uint8_t *value, void *user, void *unused);
        void *user, *unused;
    } store;
} wf_dawn_cache;

enum { WF_WGPU_MAX_FEATURES = 16 };
typedef struct wf_wgpu_features {
    WGPUFeatureName want[WF_WGPU_MAX_FEATURES]; /* to ask the device for */
    size_t n_want;
    bool subgroups, unchecked;
} wf_wgpu_features;
/* Fills info's feature list and memory_bytes too. */
void wf_wgpu_features_find(const wf_wgpu_lib *lib, WGPUAdapter adapter, WGPUDevice device /* NULL: to be made */, wf_wgpu_features *out,
                           weft_device_info *info);
bool wf_wgpu_feature_switched_off(const char *name); /* named in WEFT_WEBGPU_OFF */
/* Toggles for Dawn's instance, adapter and device; false: none for this implementation. */
bool wf_wgpu_toggles_instance(const wf_wgpu_lib *lib, wf_dawn_toggles *out);
bool wf_wgpu_toggles_adapter(const wf_wgpu_lib *lib, wf_dawn_toggles *out);
bool wf_wgpu_toggles_device(const wf_wgpu_lib *lib, wf_dawn_toggles *out);

/* ---- adapters ---- */

typedef struct wf_wgpu_adapter {
    WGPUAdapter handle;
    WGPULimits limits;
    wf_wgpu_features features;
    weft_device_info info;
    uint32_t subgroup_min, subgroup_max, vendor_id, device_id, backend;
    int rank; /* smaller is better */
} wf_wgpu_adapter;

enum { WF_WGPU_MAX_ADAPTERS = 16 };
typedef struct wf_wgpu_adapters {
    wf_wgpu_adapter item[WF_WGPU_MAX_ADAPTERS];
    int n;
} wf_wgpu_adapters;

weft_status wf_wgpu_instance_create(const wf_wgpu_lib *lib, WGPUInstance *out);
/* Best first. Errors: DEVICE_INIT when there is none, with what was refused and why. */
weft_status wf_wgpu_adapters_find(const wf_wgpu_lib *lib, WGPUInstance instance, const weft_ctx_opts *opts,
                                  wf_wgpu_adapters *out);
/* An adapter whose device is there already: the limits and features are the device's. Both stay the caller's. */
weft_status wf_wgpu_adapter_of(const wf_wgpu_lib *lib, WGPUAdapter adapter, WGPUDevice device, const weft_ctx_opts *opts, wf_wgpu_adapter *out);
void wf_wgpu_adapters_free(const wf_wgpu_lib *lib, wf_wgpu_adapters *list);

/* ---- asynchronous answers ---- */

/* One answer waited for. It is on the heap: an answer that comes after its wait gave up frees it. */
typedef struct wf_wgpu_answer {
    int done; /* callbacks come from this thread's own calls */
    bool abandoned;
    int status, type;
    void *object;
    void (*drop)(const struct wf_wgpu_answer *a); /* abandoned: releases the object */
    const wf_wgpu_lib *lib;
    char message[700];
} wf_wgpu_answer;
wf_wgpu_answer *wf_wgpu_answer_new(const wf_wgpu_lib *lib);
void wf_wgpu_answer_give(wf_wgpu_answer *a, int status, int type, void *object, WGPUStringView message);
/* True: done. False: timed out, and `a` is no longer the caller's. */
bool wf_wgpu_answer_wait(const wf_wgpu_lib *lib, WGPUInstance instance, wf_wgpu_answer *a, int64_t timeout_ns);
void wf_wgpu_backoff(uint64_t since_ns); /* spins at first, then sleeps longer and longer, at most 1 ms */

/* ---- the device ---- */

typedef struct wf_wgpu_events {
    atomic_bool lost, closing;
    wf_mutex lock;
    char lost_message[400];
    uint64_t fence;       /* what is being recorded: errors are charged to it */
    weft_status error;    /* first one not yet reported, or OK */
    uint64_t error_fence;
    weft_status newest;   /* the newest error, recorded or not, and what it was charged to */
    uint64_t newest_fence, scope_newest; /* the latter: when the open scope began */
    uint64_t error_serial, scope_serial; /* errors in all, and when the open scope began */
    uint64_t recorded_serial;            /* of `error` */
    char error_message[700];
} wf_wgpu_events;

typedef struct wf_wgpu_buffer {
    uint32_t id;
    uint32_t n_groups; /* cached bind groups that bind it */
    WGPUBuffer handle;
    uint64_t size;       /* rounded up to 4 */
    uint64_t serial;     /* unique in this device's life: ids may come again */
    uint64_t last_fence; /* last work that uses it */
    bool foreign;        /* the caller's: released, never destroyed */
    bool shared;         /* handed out: the same, since a submit with a destroyed buffer ends the process in wgpu-native */
    void (*release)(void *user);
    void *user;
} wf_wgpu_buffer;

typedef struct wf_wgpu_dead { /* a destroyed buffer that work in flight may still use */
    WGPUBuffer handle;
    uint64_t fence, size;
    bool foreign;                /* the caller's: our reference goes, its bytes stay */
    void (*release)(void *user); /* tells the caller; NULL: nobody asked */
    void *user;
} wf_wgpu_dead;

typedef struct wf_wgpu_layout {
    uint32_t n_bind;
    WGPUBindGroupLayout group;
    WGPUPipelineLayout pipeline;
} wf_wgpu_layout;

typedef struct wf_wgpu_pipeline {
    uint32_t refs;
    wf_hash128 key;
    wf_wgpu_layout *layout;
    WGPUComputePipeline handle;
} wf_wgpu_pipeline;

typedef struct wf_wgpu_program {
    uint32_t id;
    uint64_t serial;
    wf_wgpu_pipeline *pipeline;
} wf_wgpu_program;

#define WF_WGPU_GROUP_BUFFERS (WF_MAX_BIND + 2)
typedef struct wf_wgpu_group {
    uint32_t refs; /* the cache and every resolved list that uses it */
    uint32_t n;
    wf_hash128 key;
    uint64_t used; /* fence of the last use */
    WGPUBindGroup handle;
    wf_wgpu_buffer *buffers[WF_WGPU_GROUP_BUFFERS]; /* valid while it is in the cache */
} wf_wgpu_group;

typedef struct wf_wgpu_kept wf_wgpu_kept;
typedef struct wf_wgpu_stage wf_wgpu_stage;
typedef struct wf_wgpu_list wf_wgpu_list;

enum { WF_WGPU_STAGE_CLASSES = 17 }; /* 256 bytes .. 16 MiB */

typedef struct wf_wgpu {
    wf_device base;
    wf_wgpu_lib lib;
    WGPUInstance instance;
    WGPUAdapter adapter;
    WGPUDevice device;
    WGPUQueue queue;
    bool adopted;        /* those four are the caller's */
    wf_wgpu_events *events;
    wf_wgpu_kept *kept; /* NULL: no pipelines are kept between runs */
    weft_stats own_stats; /* until the owner gives its own */
    atomic_bool own_cancel;

    uint64_t serial;     /* of the newest buffer or program */
    uint64_t epoch;      /* counts destructions: resolved lists check themselves when it moved */
    uint64_t last_fence; /* newest submitted */
    uint64_t done_fence; /* newest known to be finished */
    uint32_t n_callbacks;/* outstanding */

    wf_wmap buffers, programs;  /* by id */
    wf_wmap layouts, pipelines, groups, lists; /* by content */

    wf_wgpu_dead *dead;
    size_t n_dead, dead_capacity;
    uint64_t dead_bytes;
    uint64_t written_bytes;  /* through the queue's staging since the last submit */
    uint64_t flush_fence;    /* of the last submit made to bound that staging */

    wf_wgpu_stage *stage_free[WF_WGPU_STAGE_CLASSES];
    wf_wgpu_stage *stage_first, *stage_last; /* in flight, oldest first */
    wf_wgpu_stage *stage_lost;               /* given up; their callbacks are still due */
    uint64_t stage_flight_bytes, stage_free_bytes;

    WGPUBuffer zero;    /* bound where a list has no static or step buffer */
    WGPUBuffer scratch; /* for copies inside one buffer */
} wf_wgpu;

static inline wf_wgpu *wf_wgpu_of(wf_device *d)
{
    return (wf_wgpu *)d;
}

/* webgpu_kept.c */
wf_wgpu_kept *wf_wgpu_kept_new(wf_disk_cache *disk, const wf_wgpu_lib *lib, const weft_device_info *info); /* NULL: nothing to be kept */
void wf_wgpu_kept_attach(wf_wgpu_kept *k, wf_dawn_cache *chained, WGPUDeviceDescriptor *desc); /* all three outlive the request */
void wf_wgpu_kept_detach(wf_wgpu_kept *k); /* late callbacks then find and keep nothing */
void wf_wgpu_kept_free(wf_wgpu_kept *k);

/* webgpu_event.c */
void wf_wgpu_events_attach(wf_wgpu_events *e, WGPUDeviceDescriptor *desc);
weft_status wf_wgpu_check_lost(wf_wgpu *d); /* DEVICE_LOST, with the reason it went */
weft_status wf_wgpu_probe(wf_wgpu *d);      /* the same, having asked the device */
void wf_wgpu_pump(wf_wgpu *d);              /* run callbacks that are due */
void wf_wgpu_scope_push(wf_wgpu *d);        /* validation, out of memory, internal errors */
weft_status wf_wgpu_scope_pop(wf_wgpu *d, const char *what);
weft_status wf_wgpu_take_error(wf_wgpu *d, uint64_t fence);
void wf_wgpu_watch(wf_wgpu *d, uint64_t fence); /* have done_fence follow the queue */
/* Finish and submit; `errors_before`: events->error_serial when encoding began. Frees the encoder. */
void wf_wgpu_send(wf_wgpu *d, WGPUCommandEncoder encoder, uint64_t errors_before);
/* Wait for a fence: DEVICE_LOST, TIMEOUT, or a read that failed. Recorded errors stay for wait. */
weft_status wf_wgpu_settle(wf_wgpu *d, uint64_t fence);
weft_status wf_wgpu_settle_within(wf_wgpu *d, uint64_t fence, uint64_t bound_ns);
weft_status wf_wgpu_wait(wf_device *base, uint64_t fence, int64_t timeout_ns);

/* webgpu_buffer.c */
wf_wgpu_buffer *wf_wgpu_buffer_find(wf_wgpu *d, uint32_t id); /* NULL, with the message set */
weft_status wf_wgpu_buffer_raw(wf_wgpu *d, uint64_t size, WGPUBufferUsage usage, const char *what, WGPUBuffer *out);
weft_status wf_wgpu_buffer_create(wf_device *base, uint32_t id, uint64_t size);
void wf_wgpu_buffer_destroy(wf_device *base, uint32_t id);
weft_status wf_wgpu_write(wf_device *base, uint32_t id, uint64_t offset, const void *src, uint64_t n);
void wf_wgpu_collect(wf_wgpu *d); /* free dead buffers whose work is done */
uint64_t wf_wgpu_flush(wf_wgpu *d); /* submit what is written; its fence */
void wf_wgpu_buffers_close(wf_wgpu *d);

/* webgpu_read.c */
weft_status wf_wgpu_read(wf_device *base, uint32_t id, uint64_t offset, void *dst, uint64_t n, uint64_t *fence);
bool wf_wgpu_reads_pending(const wf_wgpu *d, uint64_t fence); /* a read up to it is unfinished */
weft_status wf_wgpu_reads_harvest(wf_wgpu *d, uint64_t fence); /* copy out what has arrived */
void wf_wgpu_reads_drop(wf_wgpu *d);
void wf_wgpu_forget(wf_device *base, void *dst);
void wf_wgpu_reads_close(wf_wgpu *d);
void wf_wgpu_reads_free(wf_wgpu *d); /* once no callback is due */

/* webgpu_program.c */
weft_status wf_wgpu_program_create(wf_device *base, uint32_t id, const wf_program_desc *desc);
void wf_wgpu_program_destroy(wf_device *base, uint32_t id);
void wf_wgpu_pipeline_release(wf_wgpu *d, wf_wgpu_pipeline *p);
void wf_wgpu_programs_close(wf_wgpu *d);

/* webgpu_group.c */
weft_status wf_wgpu_group_get(wf_wgpu *d, const wf_wgpu_layout *layout, const wf_cmd *cmd, wf_wgpu_buffer *const *buffers,
                              wf_wgpu_buffer *statics, wf_wgpu_buffer *step, wf_wgpu_group **out); /* adds a reference */
void wf_wgpu_group_release(wf_wgpu *d, wf_wgpu_group *g);
void wf_wgpu_groups_forget(wf_wgpu *d, wf_wgpu_buffer *b); /* drop those that bind it */
void wf_wgpu_groups_close(wf_wgpu *d);

/* webgpu_submit.c */
weft_status wf_wgpu_submit(wf_device *base, const wf_cmdlist *list, uint64_t *fence);
void wf_wgpu_lists_close(wf_wgpu *d);

#endif
