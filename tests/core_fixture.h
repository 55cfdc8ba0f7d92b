/* core_fixture.h - a context for tests of core: no device, an upload that keeps the bytes in memory. */
#ifndef CORE_FIXTURE_H
#define CORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node.h"

typedef struct fake_ctx {
    wf_core_ctx core; /* first, as in weft_ctx */
    int uploads, destroyed, storages;
    bool refuse_upload;
    void *bytes; /* of the last upload */
    int *destroyed_out;
} fake_ctx;

typedef struct fake_storage {
    wf_storage base;
    void *bytes;
} fake_storage;

static void fake_release(wf_storage *s)
{
    ((fake_ctx *)(void *)s->ctx)->storages--;
    wf_free(((fake_storage *)s)->bytes);
    wf_free(s);
}

static weft_status fake_upload(weft_ctx *ctx, weft_dtype dtype, int64_t numel, int64_t row, const void *data,
                               size_t size_bytes, wf_storage **out)
{
    (void)dtype, (void)numel, (void)row;
    fake_ctx *f = (fake_ctx *)(void *)ctx;
    if (f->refuse_upload)
        return wf_fail(WEFT_E_OOM, "fake: no room for %zu bytes", size_bytes);
    fake_storage *s = wf_calloc(1, sizeof *s);
    if (!s)
        return WEFT_E_OOM;
    s->bytes = wf_alloc(size_bytes);
    if (!s->bytes) {
        wf_free(s);
        return WEFT_E_OOM;
    }
    memcpy(s->bytes, data, size_bytes);
    atomic_init(&s->base.refs, 1);
    s->base.size_bytes = size_bytes;
    s->base.ctx = ctx;
    s->base.release = fake_release;
    f->uploads++;
    f->storages++;
    f->bytes = s->bytes;
    *out = &s->base;
    return WEFT_OK;
}

static void fake_destroy(weft_ctx *ctx)
{
    fake_ctx *f = (fake_ctx *)(void *)ctx;
    if (f->destroyed_out)
        (*f->destroyed_out)++;
    free(f);
}

static inline weft_ctx *fake_open(int *destroyed)
{
    fake_ctx *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(wf_core_init(&f->core), WEFT_OK);
    f->core.destroy = fake_destroy;
    f->core.upload = fake_upload;
    f->destroyed_out = destroyed;
    return (weft_ctx *)(void *)f;
}

static inline fake_ctx *fake(weft_ctx *ctx) { return (fake_ctx *)(void *)ctx; }

/* What weft_ctx_close does to core. */
static inline void fake_close(weft_ctx *ctx)
{
    wf_lock(&wf_core(ctx)->lock);
    wf_core(ctx)->closed = true;
    wf_core_drop_caches(wf_core(ctx));
    wf_unlock(&wf_core(ctx)->lock);
    wf_core_release(ctx);
}

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__}

static inline void check_shape(const weft_tensor *t, int rank, const int64_t *shape)
{
    if (weft_tensor_status(t) != WEFT_OK)
        fail_msg("%s", weft_tensor_message(t));
    assert_int_equal(weft_tensor_rank(t), rank);
    for (int k = 0; k < rank; k++)
        assert_int_equal(weft_tensor_shape(t)[k], shape[k]);
}

static inline void check_error(const weft_tensor *t, weft_status st, const char *part)
{
    assert_non_null(t);
    assert_string_equal(weft_status_name(weft_tensor_status(t)), weft_status_name(st));
    if (part && !strstr(weft_tensor_message(t), part))
        fail_msg("\"%s\" does not say \"%s\"", weft_tensor_message(t), part);
}

#endif
