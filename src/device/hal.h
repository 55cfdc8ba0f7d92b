/* hal.h - the device interface. A device knows bytes, programs and command lists, not tensors.
 *
 * Ids of buffers and programs are chosen by the client (nonzero, never reused while live). A command
 * list is plain data: the same bytes are hashed, replayed, traced and sent over a wire.
 */
#ifndef WF_HAL_H
#define WF_HAL_H

#include "disk_cache.h"
#include "kir.h"
#include "weft/device.h"
#include "weft/stats.h"

#define WF_MAX_BIND WF_KIR_MAX_BIND
#define WF_STEP_BYTES 4096    /* the step block is at most this; the step buffer is exactly this */
#define WF_BIND_ALIGN 256     /* storage and uniform offsets (WebGPU limits table, default) */
#define WF_STATIC_MAX_BYTES 1024 /* of one dispatch: the binding is always this wide, so pad the block's end */

typedef struct wf_device wf_device;

typedef enum wf_program_kind { WF_PROGRAM_WGSL, WF_PROGRAM_KIR, WF_PROGRAM_NAMED } wf_program_kind;

/* Bindings of a program, in group 0: storage 0 .. n_bind-1; then the static block (uniform) at
 * n_bind; then the step block (uniform) at n_bind + 1. WGSL declares the ones it uses. */
typedef struct wf_program_desc {
    wf_program_kind kind;
    const char *label;
    uint32_t n_bind;
    uint8_t access[WF_MAX_BIND]; /* WF_ACCESS_READ: var<storage, read>; else read_write */
    const char *wgsl;            /* WGSL: entry point "main" */
    const wf_kir *kir;           /* KIR: the kernel. NAMED: the epilogue, or NULL */
    const char *row;             /* NAMED: the kernel's name */
} wf_program_desc;

typedef struct wf_bind {
    uint32_t buffer; /* id */
    uint32_t pad_;
    uint64_t offset, size; /* bytes; offset a multiple of WF_BIND_ALIGN, size of 4, size > 0 */
} wf_bind;

typedef enum wf_cmd_kind { WF_CMD_DISPATCH, WF_CMD_COPY, WF_CMD_FILL } wf_cmd_kind;

typedef struct wf_cmd {
    uint32_t kind;
    uint32_t program;      /* DISPATCH: id */
    uint32_t n_bind;       /* COPY: 2 (source, destination); FILL: 1 */
    uint32_t grid[3];      /* work groups; the CPU ignores them for KIR and NAMED programs */
    uint32_t indirect;     /* 0: use grid; else 1 + byte offset of 3 u32 counts in the step block */
    uint32_t static_offset;/* bytes in the static buffer, a multiple of WF_BIND_ALIGN */
    uint32_t static_bytes; /* used bytes */
    uint32_t fill_word;    /* FILL: this 32-bit word (0 on WebGPU) */
    uint32_t label;        /* index into the plan's label table, for traces; not executed */
    uint32_t pad_;
    wf_bind bind[WF_MAX_BIND];
} wf_cmd;

typedef struct wf_cmdlist {
    uint64_t key;          /* nonzero: equal keys on one device promise equal cmds bytes (replay) */
    const wf_cmd *cmds;
    uint32_t n_cmds;
    uint32_t static_buffer; /* id; written by the client beforehand; 0 when no command has static bytes */
    uint32_t step_buffer;   /* id; 0: none */
    const void *step;       /* copied to step_buffer by submit, before the commands run */
    uint32_t step_bytes;
    const char *const *labels; /* label table, or NULL */
} wf_cmdlist;

typedef struct wf_caps {
    weft_device_info info;
    bool runs_wgsl;          /* takes WGSL programs */
    bool runs_kir;           /* takes KIR and NAMED programs */
    bool f64, i64;           /* compute types beyond f32, i32, u32, bool */
    bool unforced;           /* WEFT_KERNEL does not count here: the reference of checks */
    bool subgroups, unchecked, indirect;
    uint32_t subgroup_min, subgroup_max;
    uint32_t layout;         /* WF_LAYOUT_* that block-type weights must have here */
    uint64_t max_buffer_bytes, max_binding_bytes;
    uint32_t max_storage_buffers, max_workgroup_invocations, max_workgroup_bytes, max_workgroups;
} wf_caps;

enum { WF_BORROW_TAIL = 64 };

typedef struct wf_device_vt {
    const char *name;
    void (*close)(wf_device *d);
    weft_status (*buffer_create)(wf_device *d, uint32_t id, uint64_t size_bytes); /* contents undefined; any storage, copy, uniform, indirect use */
    void (*buffer_destroy)(wf_device *d, uint32_t id); /* safe while work that uses it is in flight */
    /* Ordered with submits. Offset and size multiples of 4 (the device pads a tail inside its buffer). */
    weft_status (*write)(wf_device *d, uint32_t id, uint64_t offset, const void *src, uint64_t n);
    /* Starts a read, ordered after earlier submits; dst is filled once wait(*fence) succeeds. */
    weft_status (*read)(wf_device *d, uint32_t id, uint64_t offset, void *dst, uint64_t n, uint64_t *fence);
    weft_status (*program_create)(wf_device *d, uint32_t id, const wf_program_desc *desc);
    void (*program_destroy)(wf_device *d, uint32_t id);
    weft_status (*submit)(wf_device *d, const wf_cmdlist *list, uint64_t *fence);
    /* WEFT_E_TIMEOUT when the bound runs out (negative: the device's own, 60 s), WEFT_E_DEVICE_LOST; and the
     * first validation error, out of memory or failure of any command up to the fence, once. */
    weft_status (*wait)(wf_device *d, uint64_t fence, int64_t timeout_ns);
    /* Pending reads to dst write nothing any more: before dst is freed after a wait that failed (TIMEOUT leaves
     * its reads pending). NULL where a read is done when it returns. */
    void (*forget)(wf_device *d, void *dst);
    /* CPU only: the address of a buffer's bytes, for zero-copy reads; others NULL. */
    void *(*map)(wf_device *d, uint32_t id);
    /* CPU only, others NULL: a buffer that is the caller's memory, aligned to 16 bytes, only read, and readable for
     * WF_BORROW_TAIL bytes beyond its end. release(user) is called when it is destroyed. */
    weft_status (*buffer_borrow)(wf_device *d, uint32_t id, const void *ptr, uint64_t size_bytes, void (*release)(void *user), void *user);
    /* A clock of its own, in nanoseconds, that counts what it was given to do; NULL: wf_now_ns. */
    uint64_t (*clock)(wf_device *d);
} wf_device_vt;

struct wf_device {
    const wf_device_vt *vt;
    wf_caps caps;
    weft_stats *stats;  /* of the owner, never NULL after wf_device_open; a device counts pipelines, the runtime the rest */
    atomic_bool *cancel; /* polled by long work; never NULL */
};

/* device.c: one row a backend; SPEC parsing; "auto". `disk`: where compiled pipelines may be kept, outlives the device. */
weft_status wf_device_open_with(const char *spec, const weft_ctx_opts *opts, wf_disk_cache *disk, weft_stats *stats, atomic_bool *cancel,
                                wf_device **out);
weft_status wf_device_open(const char *spec, const weft_ctx_opts *opts, weft_stats *stats, atomic_bool *cancel, wf_device **out);

/* environment.c: WEFT_E_VALUE for a variable with a value that is not known; n_threads as asked for, 0: WEFT_THREADS counts. */
weft_status wf_environment_check(int n_threads);
weft_status wf_cpu_environment_check(void); /* of WEFT_ISA, WEFT_BLAS, WEFT_LAPACK */

/* Over the handles of the caller. */
typedef struct wf_webgpu_handles wf_webgpu_handles;
weft_status wf_device_adopt(const wf_webgpu_handles *handles, const weft_ctx_opts *opts, weft_stats *stats, atomic_bool *cancel, wf_device **out);

/* backends */
weft_status wf_cpu_open(int n_threads, wf_device **out);
weft_status wf_null_open(wf_device **out); /* as a GPU: takes WGSL; records */
weft_status wf_webgpu_open(int adapter /* -1: best */, const weft_ctx_opts *opts, wf_device **out);
weft_status wf_webgpu_open_with(int adapter, const weft_ctx_opts *opts, wf_disk_cache *disk, wf_device **out);
weft_status wf_webgpu_list(const weft_ctx_opts *opts, weft_device_info **out, int *n); /* wf_alloc'd */
/* A device over handles that a program has already; they stay the program's. */
struct wf_webgpu_handles {
    void *instance, *adapter, *device, *queue;
};
weft_status wf_webgpu_adopt(const wf_webgpu_handles *handles, const weft_ctx_opts *opts, wf_device **out);
void wf_webgpu_note_lost(wf_device *d, const char *message);
/* A WGPUBuffer of the caller under an id: buffer_destroy calls `release` instead of destroying it. */
weft_status wf_webgpu_wrap(wf_device *d, uint32_t id, void *buffer, uint64_t need_bytes, void (*release)(void *user), void *user);
void *wf_webgpu_handle(wf_device *d, uint32_t id); /* the WGPUBuffer; NULL: none, or no WebGPU device */
void wf_cpu_describe(weft_device_info *out);
/* null device: `cost` says how long a command with this label takes on its clock, in nanoseconds; WF_NULL_FAILS when it is run,
 * WF_NULL_REFUSED when its program is made. NULL: real time again. */
enum { WF_NULL_FAILS = -1, WF_NULL_REFUSED = -2 };
typedef int64_t (*wf_null_cost)(void *user, const char *label, const wf_cmd *cmd /* NULL: the program is made */);
void wf_null_set_cost(wf_device *d, wf_null_cost cost, void *user);
/* null device: what was last submitted */
void wf_null_last(wf_device *d, const void **list, size_t *list_bytes, const void **statics, size_t *static_bytes,
                  const void **step, size_t *step_bytes);

#endif
