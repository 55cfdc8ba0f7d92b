/* py_dlpack.c - tensors to and from other libraries through DLPack, in host memory.
 *
 * The structures are those of DLPack 0.x, which every library still reads. Both ways copy: weft's storage
 * belongs to its device, whose memory no call of the public interface maps.
 */
#include <string.h>

#include "py_weft.h"

enum { DL_CPU = 1, DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* in elements; strides NULL: row-major */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *manager;
    void (*deleter)(struct dl_managed *);
} dl_managed;

static const struct {
    uint8_t code, bits;
} kinds[WEFT_DTYPE_COUNT] = {
    [WEFT_DTYPE_F32] = {DL_FLOAT, 32}, [WEFT_DTYPE_F16] = {DL_FLOAT, 16}, [WEFT_DTYPE_BF16] = {DL_BFLOAT, 16}, [WEFT_DTYPE_F64] = {DL_FLOAT, 64},
    [WEFT_DTYPE_I32] = {DL_INT, 32},   [WEFT_DTYPE_U32] = {DL_UINT, 32},  [WEFT_DTYPE_I8] = {DL_INT, 8},       [WEFT_DTYPE_U8] = {DL_UINT, 8},
    [WEFT_DTYPE_I64] = {DL_INT, 64},   [WEFT_DTYPE_BOOL] = {DL_BOOL, 8},
};

/* One allocation: the structure, the shape, then the elements at a multiple of 64 bytes. */
typedef struct export {
    dl_managed managed;
    int64_t shape[WEFT_MAX_RANK], strides[WEFT_MAX_RANK];
    void *memory;
} export;

static void free_export(dl_managed *m)
{
    export *e = (export *)m;
    weft_free(e->memory);
    weft_free(e);
}

static void drop_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) { /* not consumed: a consumer renames it */
        dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        m->deleter(m);
    }
}

PyObject *wp_dlpack(PyObject *o, PyObject *args, PyObject *keywords)
{
    wp_tensor *self = (wp_tensor *)o;
    weft_dtype d = weft_tensor_dtype(self->t);
    if (kinds[d].bits == 0)
        return wp_raise(WEFT_E_DTYPE, "dlpack: block types have no element of their own; cast first");
    size_t n = weft_tensor_nbytes(self->t);
    export *e = weft_realloc(NULL, sizeof *e);
    void *memory = e ? weft_realloc(NULL, n + 64) : NULL;
    if (!memory) {
        weft_free(e);
        return PyErr_NoMemory();
    }
    memset(e, 0, sizeof *e);
    e->memory = memory;
    char *data = (char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    int rank = weft_tensor_rank(self->t);
    int64_t stride = 1;
    for (int k = rank - 1; k >= 0; k--) {
        e->shape[k] = weft_tensor_shape(self->t)[k];
        e->strides[k] = stride;
        stride *= e->shape[k] > 0 ? e->shape[k] : 1;
    }
    e->managed = (dl_managed){{data, DL_CPU, 0, rank, kinds[d].code, kinds[d].bits, 1, e->shape, e->strides, 0}, NULL, free_export};
    PyObject *capsule = wp_read(self, d, data, n) < 0 ? NULL : PyCapsule_New(e, "dltensor", drop_capsule);
    if (!capsule)
        free_export(&e->managed);
    return capsule;
}

/* The elements row-major, whatever the strides. */
static void gather(const dl_tensor *t, size_t size, char *dst)
{
    const char *base = (const char *)t->data + t->byte_offset;
    int64_t at[WEFT_MAX_RANK] = {0}, numel = 1;
    for (int k = 0; k < t->ndim; k++)
        numel *= t->shape[k];
    for (int64_t i = 0; i < numel; i++) {
        int64_t offset = 0;
        for (int k = 0; k < t->ndim; k++)
            offset += at[k] * t->strides[k];
        memcpy(dst + (size_t)i * size, base + offset * (int64_t)size, size);
        for (int k = t->ndim - 1; k >= 0 && ++at[k] == t->shape[k]; k--)
            at[k] = 0;
    }
}

static bool is_packed(const dl_tensor *t)
{
    int64_t stride = 1;
    for (int k = t->ndim - 1; t->strides && k >= 0; k--) {
        if (t->shape[k] != 1 && t->strides[k] != stride)
            return false;
        stride *= t->shape[k];
    }
    return true;
}

static PyObject *import(const dl_tensor *t, wp_device *device)
{
    if (t->device_type != DL_CPU)
        return wp_raise(WEFT_E_UNSUPPORTED, "from_dlpack: the tensor is not in host memory");
    int d = 0;
    while (d < WEFT_DTYPE_COUNT && (kinds[d].code != t->code || kinds[d].bits != t->bits))
        d++;
    if (d == WEFT_DTYPE_COUNT || t->lanes != 1)
        return PyErr_Format(wp.status_error[WEFT_E_DTYPE], "from_dlpack: no dtype of weft has code %d, %d bits, %d lanes", t->code, t->bits, t->lanes);
    if (t->ndim < 0 || t->ndim > WEFT_MAX_RANK)
        return PyErr_Format(wp.status_error[WEFT_E_SHAPE], "from_dlpack: rank %d, at most %d", (int)t->ndim, WEFT_MAX_RANK);
    size_t numel = 1, size = t->bits / 8u;
    bool empty = false;
    for (int k = 0; k < t->ndim; k++)
        empty |= t->shape[k] <= 0;
    for (int k = 0; k < t->ndim && !empty; k++)
        if (__builtin_mul_overflow(numel, (size_t)t->shape[k], &numel))
            return PyErr_NoMemory();
    if (empty || is_packed(t))
        return wp_wrap(weft_tensor_from(device->ctx, (weft_dtype)d, t->ndim, t->shape, empty ? NULL : (char *)t->data + t->byte_offset), device);
    if (__builtin_mul_overflow(numel, size, &numel))
        return PyErr_NoMemory();
    char *packed = weft_realloc(NULL, numel);
    if (!packed)
        return PyErr_NoMemory();
    gather(t, size, packed);
    PyObject *result = wp_wrap(weft_tensor_from(device->ctx, (weft_dtype)d, t->ndim, t->shape, packed), device);
    weft_free(packed);
    return result;
}

PyObject *wp_from_dlpack(PyObject *module, PyObject *args)
{
    PyObject *o, *where = Py_None;
    if (!PyArg_ParseTuple(args, "O|O:from_dlpack", &o, &where))
        return NULL;
    if (PyCapsule_IsValid(o, "used_dltensor"))
        return PyErr_Format(PyExc_ValueError, "from_dlpack: the capsule is used already");
    PyObject *capsule = PyCapsule_IsValid(o, "dltensor") ? Py_NewRef(o) : PyObject_CallMethod(o, "__dlpack__", NULL);
    wp_device *device = capsule ? wp_device_of(where) : NULL;
    PyObject *result = NULL;
    dl_managed *m = device ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;
    if (m && (result = import(&m->tensor, device))) {
        PyCapsule_SetName(capsule, "used_dltensor");
        if (m->deleter)
            m->deleter(m);
    }
    Py_XDECREF((PyObject *)device);
    Py_XDECREF(capsule);
    return result;
}
