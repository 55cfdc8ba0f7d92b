/* kern_common.c - what the named kernels share: handing on finished tiles, operand ranges, scratch. */
#include "kern.h"

static void store_rows(const wf_kern_dest *d, const float *acc, int64_t row_stride, int64_t row0, int64_t rows, int64_t col0,
                       int64_t cols)
{
    const size_t size = wf_kern_float_bytes(d->dtype);
    char *out = (char *)d->out + (size_t)(row0 * d->cols + col0) * size;
    if (row_stride == cols && cols == d->cols) {
        cols *= rows;
        rows = 1;
    }
    for (int64_t i = 0; i < rows; i++)
        d->isa->narrow[d->dtype](acc + i * row_stride, out + (size_t)(i * d->cols) * size, cols);
}

void wf_kern_emit(const wf_kern_dest *d, const float *acc, int64_t row_stride, int64_t row0, int64_t rows, int64_t col0,
                  int64_t cols)
{
    if (rows <= 0 || cols <= 0)
        return;
    if (!d->epilogue) {
        store_rows(d, acc, row_stride, row0, rows, col0, cols);
        return;
    }
    while (rows > 0) {
        const int64_t b = row0 / d->batch_rows, m = row0 % d->batch_rows;
        const int64_t n = WF_MIN(rows, d->batch_rows - m);
        wf_cpu_epilogue_run(d->epilogue, d->run, d->bind_base, d->static_base, acc, row_stride, b, m, n, col0, cols);
        acc += n * row_stride;
        row0 += n;
        rows -= n;
    }
}

bool wf_kern_in_range(uint64_t size_bytes, size_t element_bytes, int64_t offset, int n, const int64_t *extents, const int64_t *strides)
{
    int64_t lo = offset, hi = offset, span;
    for (int i = 0; i < n; i++) {
        if (extents[i] <= 0 || !wf_mul_i64(extents[i] - 1, strides[i], &span))
            return false;
        if (!wf_add_i64(span < 0 ? lo : hi, span, span < 0 ? &lo : &hi))
            return false;
    }
    return lo >= 0 && (uint64_t)hi < size_bytes / element_bytes;
}

void wf_kern_gather(const wf_kern_isa *isa, const void *p, weft_dtype t, int64_t at, int64_t stride, int64_t n, float *dst)
{
    if (stride == 1) {
        isa->widen[t]((const char *)p + (size_t)at * wf_kern_float_bytes(t), dst, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        dst[i] = wf_kern_load(p, t, at + i * stride);
}

weft_status wf_kern_scratch_get(const wf_cpu_run *run, int bind, size_t size_bytes, wf_kern_scratch *out)
{
    *out = (wf_kern_scratch){0};
    if (bind >= 0 && (uint32_t)bind < run->n_bind && run->size[bind] >= size_bytes) {
        out->ptr = run->ptr[bind];
        return WEFT_OK;
    }
    out->owned = wf_alloc(size_bytes + 64);
    if (!out->owned)
        return WEFT_E_OOM;
    out->ptr = (char *)(uintptr_t)wf_align_up((uintptr_t)out->owned, 64);
    return WEFT_OK;
}

weft_status wf_kern_done(const wf_cpu_run *run)
{
    return wf_kern_cancelled(run) ? wf_fail(WEFT_E_CANCELLED, "cancelled") : WEFT_OK;
}

weft_status wf_kern_bad(const char *row, const char *what)
{
    return wf_fail(WEFT_E_INTERNAL, "%s: %s", row, what);
}

weft_status wf_kern_binds(const char *row, const wf_cpu_run *run, uint32_t n)
{
    if (run->n_bind < n)
        return wf_fail(WEFT_E_INTERNAL, "%s: %u bindings, expected at least %u", row, run->n_bind, n);
    return WEFT_OK;
}
