/* cpu_device.c - the HAL on this machine's processor.
 *
 * Buffers are memory; a submit runs its commands in order on the pool before it returns, so a fence is
 * always signalled. What a command does wrong (an unknown id, a range outside a buffer, a failed kernel)
 * does not fail the submit: the first failure of a list stops it and is reported by the next wait, as on
 * a device that runs behind.
 */
#include <stdio.h>
#include <unistd.h>

#include "cpu_internal.h"
#include "cpu_kernels.h"
#include "id_table.h"
#include "kern.h"
#include "lapack.h"

enum {
    MAP_BYTES = 1 << 20, /* buffers from here on are mapped from the system */
    TAIL_BYTES = WF_BORROW_TAIL /* beyond a buffer's end: vector loads of a last word stay inside the block */
};

typedef struct buffer {
    void *ptr; /* 64-byte aligned */
    void *block;
    uint64_t size;
    size_t mapped; /* bytes from the system; 0: block is from wf_alloc */
    void (*release)(void *user); /* of borrowed memory, which has no block */
    void *user;
} buffer;

typedef struct program {
    wf_program_kind kind;
    uint32_t n_bind;
    bool has_error;
    uint32_t n_static;     /* words, those of an epilogue included */
    wf_cpu_kernel *kernel; /* KIR: the kernel; NAMED: the epilogue or NULL */
    const wf_cpu_named *named;
} program;

typedef struct cpu_device {
    wf_device base;
    wf_mutex lock;
    wf_pool *pool;
    wf_id_table buffers, programs;
    uint64_t fence;
    weft_status failed; /* not reported yet; WEFT_OK: none */
    uint64_t failed_fence;
    char message[256];
    _Atomic uint32_t no_error[WF_ERROR_WORDS]; /* where kernels without error words point */
} cpu_device;

static cpu_device *cpu(wf_device *d) { return (cpu_device *)d; }

/* ---- buffers ---- */

static weft_status buffer_memory(buffer *b, uint64_t size)
{
    if (size > SIZE_MAX - 2 * TAIL_BYTES)
        return wf_fail_oom(SIZE_MAX);
    b->size = size;
    if (size >= MAP_BYTES) {
        b->mapped = (size_t)size + TAIL_BYTES;
        b->block = b->ptr = wf_cpu_map_pages(b->mapped);
        return b->block ? WEFT_OK : wf_fail_oom((size_t)size);
    }
    b->block = wf_alloc((size_t)size + 2 * TAIL_BYTES);
    if (!b->block)
        return WEFT_E_OOM;
    b->ptr = (char *)b->block + (-(uintptr_t)b->block & 63);
    return WEFT_OK;
}

static void buffer_free(buffer *b)
{
    if (!b)
        return;
    if (b->mapped)
        wf_cpu_unmap_pages(b->block, b->mapped);
    else
        wf_free(b->block);
    if (b->release)
        b->release(b->user);
    wf_free(b);
}

static weft_status add_buffer(cpu_device *c, uint32_t id, buffer *b)
{
    wf_lock(&c->lock);
    weft_status st = wf_id_insert(&c->buffers, "buffer", id, b);
    wf_unlock(&c->lock);
    return st;
}

static weft_status buffer_borrow(wf_device *d, uint32_t id, const void *ptr, uint64_t size, void (*release)(void *), void *user)
{
    buffer *b = wf_calloc(1, sizeof *b);
    if (!b)
        return WEFT_E_OOM;
    b->size = size;
    memcpy(&b->ptr, &ptr, sizeof ptr); /* commands that only read are all that see it */
    weft_status st = add_buffer(cpu(d), id, b);
    if (st != WEFT_OK) {
        wf_free(b);
        return st;
    }
    b->release = release;
    b->user = user;
    return WEFT_OK;
}

static weft_status buffer_create(wf_device *d, uint32_t id, uint64_t size)
{
    cpu_device *c = cpu(d);
    if (size == 0 || size > d->caps.max_buffer_bytes)
        return size == 0 ? wf_fail(WEFT_E_VALUE, "cpu: a buffer of 0 bytes") : wf_fail_oom((size_t)size);
    buffer *b = wf_calloc(1, sizeof *b);
    if (!b)
        return WEFT_E_OOM;
    weft_status st = buffer_memory(b, size);
    if (st == WEFT_OK)
        st = add_buffer(c, id, b);
    if (st != WEFT_OK)
        buffer_free(b);
    return st;
}

static void buffer_destroy(wf_device *d, uint32_t id)
{
    cpu_device *c = cpu(d);
    wf_lock(&c->lock);
    buffer *b = wf_id_remove(&c->buffers, id);
    wf_unlock(&c->lock);
    buffer_free(b);
}

/* The bytes of a range, or NULL with the message set. */
static void *range(cpu_device *c, const char *what, uint32_t id, uint64_t offset, uint64_t n)
{
    buffer *b = wf_id_find(&c->buffers, id);
    if (!b) {
        wf_fail(WEFT_E_VALUE, "cpu: %s: no buffer %u", what, id);
        return NULL;
    }
    if (offset > b->size || n > b->size - offset) {
        wf_fail(WEFT_E_VALUE, "cpu: %s: bytes %llu+%llu of buffer %u, which has %llu", what, (unsigned long long)offset,
                (unsigned long long)n, id, (unsigned long long)b->size);
        return NULL;
    }
    return (char *)b->ptr + offset;
}

static weft_status write_buffer(wf_device *d, uint32_t id, uint64_t offset, const void *src, uint64_t n)
{
    cpu_device *c = cpu(d);
    wf_lock(&c->lock);
    void *dst = range(c, "write", id, offset, n);
    if (dst)
        memcpy(dst, src, (size_t)n);
    wf_unlock(&c->lock);
    return dst ? WEFT_OK : WEFT_E_VALUE;
}

static weft_status read_buffer(wf_device *d, uint32_t id, uint64_t offset, void *dst, uint64_t n, uint64_t *fence)
{
    cpu_device *c = cpu(d);
    wf_lock(&c->lock);
    const void *src = range(c, "read", id, offset, n);
    if (src) {
        memcpy(dst, src, (size_t)n);
        *fence = ++c->fence;
    }
    wf_unlock(&c->lock);
    return src ? WEFT_OK : WEFT_E_VALUE;
}

static void *map_buffer(wf_device *d, uint32_t id)
{
    cpu_device *c = cpu(d);
    wf_lock(&c->lock);
    buffer *b = wf_id_find(&c->buffers, id);
    wf_unlock(&c->lock);
    return b ? b->ptr : NULL;
}

/* ---- programs ---- */

static void program_free(program *p)
{
    if (!p)
        return;
    wf_cpu_kernel_destroy(p->kernel);
    wf_free(p);
}

static weft_status program_fill(program *p, const wf_program_desc *desc)
{
    p->kind = desc->kind;
    p->n_bind = desc->n_bind;
    if (desc->n_bind > WF_MAX_BIND)
        return wf_fail(WEFT_E_VALUE, "cpu: %u bindings, at most %d", desc->n_bind, WF_MAX_BIND);
    if (desc->kind == WF_PROGRAM_KIR && !desc->kir)
        return wf_fail(WEFT_E_VALUE, "cpu: a kernel program without a kernel");
    if (desc->kind == WF_PROGRAM_NAMED) {
        p->named = desc->row ? wf_cpu_named_find(desc->row) : NULL;
        if (!p->named)
            return wf_fail(WEFT_E_UNSUPPORTED, "cpu: no kernel is named \"%s\"", desc->row ? desc->row : "");
        if (desc->kir && !p->named->epilogues)
            return wf_fail(WEFT_E_UNSUPPORTED, "cpu: %s takes no epilogue", desc->row);
        p->n_static = p->named->n_words;
    }
    if (!desc->kir)
        return WEFT_OK;
    WF_TRY(wf_kir_verify(desc->kir));
    p->has_error = desc->kir->has_error;
    p->n_static += desc->kir->n_static;
    if (desc->kind == WF_PROGRAM_KIR && desc->n_bind < desc->kir->n_bind)
        return wf_fail(WEFT_E_VALUE, "cpu: %u bindings for a kernel with %d", desc->n_bind, desc->kir->n_bind);
    return wf_cpu_kernel_create(desc->kir, &p->kernel);
}

static weft_status program_create(wf_device *d, uint32_t id, const wf_program_desc *desc)
{
    cpu_device *c = cpu(d);
    if (desc->kind == WF_PROGRAM_WGSL)
        return wf_fail(WEFT_E_UNSUPPORTED, "cpu: takes kernels, not WGSL");
    program *p = wf_calloc(1, sizeof *p);
    if (!p)
        return WEFT_E_OOM;
    weft_status st = program_fill(p, desc);
    if (st == WEFT_OK) {
        wf_lock(&c->lock);
        st = wf_id_insert(&c->programs, "program", id, p);
        wf_unlock(&c->lock);
    }
    if (st != WEFT_OK)
        program_free(p);
    return st;
}

static void program_destroy(wf_device *d, uint32_t id)
{
    cpu_device *c = cpu(d);
    wf_lock(&c->lock);
    program *p = wf_id_remove(&c->programs, id);
    wf_unlock(&c->lock);
    program_free(p);
}

/* ---- submit ---- */

static weft_status bind_all(cpu_device *c, const wf_cmd *cmd, wf_cpu_run *run)
{
    if (cmd->n_bind > WF_MAX_BIND)
        return wf_fail(WEFT_E_VALUE, "cpu: %u bindings, at most %d", cmd->n_bind, WF_MAX_BIND);
    run->n_bind = cmd->n_bind;
    for (uint32_t i = 0; i < cmd->n_bind; i++) {
        run->ptr[i] = range(c, "binding", cmd->bind[i].buffer, cmd->bind[i].offset, cmd->bind[i].size);
        run->size[i] = cmd->bind[i].size;
        if (!run->ptr[i])
            return WEFT_E_VALUE;
    }
    return WEFT_OK;
}

/* Bindings before those of the IR. */
static uint32_t kernel_bindings(const program *p, const int32_t *statics)
{
    return p->named ? p->named->n_operands + ((statics[p->named->flags_word] & WF_KERN_HAS_SCRATCH) != 0) : 0;
}

static weft_status run_dispatch(cpu_device *c, const wf_cmdlist *list, const wf_cmd *cmd, const void *step)
{
    const program *p = wf_id_find(&c->programs, cmd->program);
    if (!p)
        return wf_fail(WEFT_E_VALUE, "cpu: dispatch: no program %u", cmd->program);
    if (cmd->n_bind < p->n_bind)
        return wf_fail(WEFT_E_VALUE, "cpu: dispatch: %u bindings, the program has %u", cmd->n_bind, p->n_bind);
    if (cmd->static_bytes < p->n_static * 4)
        return wf_fail(WEFT_E_VALUE, "cpu: dispatch: %u static bytes, the kernel has %u", cmd->static_bytes, p->n_static * 4);
    wf_cpu_run run;
    WF_TRY(bind_all(c, cmd, &run));
    run.statics = NULL;
    if (cmd->static_bytes) {
        run.statics = range(c, "static block", list->static_buffer, cmd->static_offset, cmd->static_bytes);
        if (!run.statics)
            return WEFT_E_VALUE;
    }
    run.step = step;
    run.pool = c->pool;
    run.cancel = c->base.cancel;
    run.error = c->no_error;
    if (p->kernel) {
        uint32_t word = kernel_bindings(p, run.statics) + p->kernel->k->n_bind; /* the error words, where there are some */
        if (cmd->n_bind < word + p->has_error || (p->has_error && run.size[word] < 4 * WF_ERROR_WORDS))
            return wf_fail(WEFT_E_VALUE, "cpu: dispatch: %u bindings, the kernel and its epilogue have %u", cmd->n_bind, word + p->has_error);
        if (p->has_error)
            run.error = run.ptr[word];
    }
    return p->named ? p->named->fn(&run, p->kernel) : wf_cpu_kernel_run(p->kernel, &run);
}

static weft_status run_copy(cpu_device *c, const wf_cmd *cmd)
{
    if (cmd->n_bind != 2 || cmd->bind[0].size != cmd->bind[1].size)
        return wf_fail(WEFT_E_VALUE, "cpu: copy: %u bindings of %llu and %llu bytes", cmd->n_bind,
                       (unsigned long long)cmd->bind[0].size, (unsigned long long)cmd->bind[1].size);
    void *src = range(c, "copy", cmd->bind[0].buffer, cmd->bind[0].offset, cmd->bind[0].size);
    void *dst = src ? range(c, "copy", cmd->bind[1].buffer, cmd->bind[1].offset, cmd->bind[1].size) : NULL;
    if (!dst)
        return WEFT_E_VALUE;
    wf_cpu_copy(c->pool, dst, src, (size_t)cmd->bind[0].size);
    return WEFT_OK;
}

static weft_status run_fill(cpu_device *c, const wf_cmd *cmd)
{
    if (cmd->n_bind != 1)
        return wf_fail(WEFT_E_VALUE, "cpu: fill: %u bindings", cmd->n_bind);
    void *dst = range(c, "fill", cmd->bind[0].buffer, cmd->bind[0].offset, cmd->bind[0].size);
    if (!dst)
        return WEFT_E_VALUE;
    wf_vec_ops_get()->fill4(dst, cmd->fill_word, (int64_t)(cmd->bind[0].size / 4));
    return WEFT_OK;
}

static weft_status run_command(cpu_device *c, const wf_cmdlist *list, const wf_cmd *cmd, const void *step)
{
    if (c->base.cancel && atomic_load_explicit(c->base.cancel, memory_order_relaxed))
        return wf_fail(WEFT_E_CANCELLED, "cancelled");
    switch (cmd->kind) {
    case WF_CMD_DISPATCH: return run_dispatch(c, list, cmd, step);
    case WF_CMD_COPY: return run_copy(c, cmd);
    case WF_CMD_FILL: return run_fill(c, cmd);
    default: return wf_fail(WEFT_E_VALUE, "cpu: command of kind %u", cmd->kind);
    }
}

static weft_status run_list(cpu_device *c, const wf_cmdlist *list)
{
    void *step = NULL;
    if (list->step_buffer) {
        /* Kernels may read any word of the block, so the whole of it must be there. */
        step = range(c, "step block", list->step_buffer, 0, WF_STEP_BYTES);
        if (!step)
            return WEFT_E_VALUE;
        if (list->step_bytes > WF_STEP_BYTES)
            return wf_fail(WEFT_E_VALUE, "cpu: step block of %u bytes, at most %d", list->step_bytes, WF_STEP_BYTES);
        if (list->step)
            memcpy(step, list->step, list->step_bytes);
    }
    for (uint32_t i = 0; i < list->n_cmds; i++)
        WF_TRY(run_command(c, list, &list->cmds[i], step));
    return WEFT_OK;
}

static weft_status submit(wf_device *d, const wf_cmdlist *list, uint64_t *fence)
{
    cpu_device *c = cpu(d);
    wf_lock(&c->lock);
    weft_status st = run_list(c, list);
    *fence = ++c->fence;
    if (st != WEFT_OK && c->failed == WEFT_OK) {
        c->failed = st;
        c->failed_fence = c->fence;
        snprintf(c->message, sizeof c->message, "%s", weft_error_message());
    }
    wf_unlock(&c->lock);
    return WEFT_OK;
}

static weft_status wait_fence(wf_device *d, uint64_t fence, int64_t timeout_ns)
{
    (void)timeout_ns; /* everything submitted has run */
    cpu_device *c = cpu(d);
    weft_status st = WEFT_OK;
    wf_lock(&c->lock);
    if (fence > c->fence) {
        st = wf_fail(WEFT_E_VALUE, "cpu: wait for fence %llu, the last is %llu", (unsigned long long)fence,
                     (unsigned long long)c->fence);
    } else if (c->failed != WEFT_OK && c->failed_fence <= fence) {
        st = wf_fail(c->failed, "%s", c->message);
        c->failed = WEFT_OK;
    }
    wf_unlock(&c->lock);
    return st;
}

/* ---- opening and closing ---- */

static void close_device(wf_device *d)
{
    cpu_device *c = cpu(d);
    for (uint32_t i = 0; i < c->buffers.capacity; i++)
        buffer_free(c->buffers.entries[i].object);
    for (uint32_t i = 0; i < c->programs.capacity; i++)
        program_free(c->programs.entries[i].object);
    wf_id_table_free(&c->buffers);
    wf_id_table_free(&c->programs);
    wf_pool_destroy(c->pool);
    pthread_mutex_destroy(&c->lock);
    wf_free(c);
}

static const wf_device_vt cpu_vt = {
    .name = "cpu",
    .close = close_device,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .write = write_buffer,
    .read = read_buffer,
    .program_create = program_create,
    .program_destroy = program_destroy,
    .submit = submit,
    .wait = wait_fence,
    .map = map_buffer,
    .buffer_borrow = buffer_borrow,
};

weft_status wf_cpu_environment_check(void)
{
    WF_TRY(wf_kern_isa_check());
    WF_TRY(wf_blas_check());
    return wf_lapack_check();
}

weft_status wf_cpu_open(int n_threads, wf_device **out)
{
    int n = n_threads;
    if (n <= 0)
        WF_TRY(wf_thread_wanted(&n));
    cpu_device *c = wf_calloc(1, sizeof *c);
    if (!c)
        return WEFT_E_OOM;
    c->base.vt = &cpu_vt;
    weft_status st = wf_pool_create(n, &c->pool);
    if (st != WEFT_OK) {
        wf_free(c);
        return st;
    }
    wf_mutex_init(&c->lock, false);
    wf_caps *caps = &c->base.caps;
    wf_cpu_describe(&caps->info);
    caps->info.n_threads = (uint32_t)wf_pool_size(c->pool);
    caps->runs_kir = true;
    caps->f64 = caps->i64 = true;
    caps->indirect = true;
    caps->max_buffer_bytes = caps->info.max_buffer_bytes;
    caps->max_binding_bytes = caps->info.max_binding_bytes;
    caps->max_storage_buffers = caps->info.max_storage_buffers;
    caps->max_workgroup_invocations = caps->info.max_workgroup_invocations;
    caps->max_workgroup_bytes = caps->info.max_workgroup_bytes;
    caps->max_workgroups = caps->info.max_workgroups;
    *out = &c->base;
    return WEFT_OK;
}
