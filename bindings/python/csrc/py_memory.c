/* py_memory.c - memory that tensors share with Python objects: lent to buffers and capsules, and borrowed from arrays.
 *
 * What is lent keeps the tensor, and through it the device: one that is closed meanwhile gives its memory up when the last of it
 * comes back. What is borrowed is given back on whatever thread weft lets it go, which holds the context's lock: taking the
 * interpreter's lock there could wait for a thread that waits for the context. So it is put on a list, which the interpreter
 * empties at its next chance.
 */
#include <stdatomic.h>
#include <string.h>

#include "py_weft.h"

/* ---- lent ---- */

/* 1: lent; 0: the device cannot; -1: raised. */
int wp_lend(wp_tensor *self, wp_lent *out, const void **data, int64_t *strides)
{
    static const char nothing[64];
    if (!self->device->ctx)
        return wp_raise(WEFT_E_CONTEXT, "the device is closed"), -1;
    weft_tensor *t = weft_tensor_retain(self->t);
    wp_device *device = (wp_device *)Py_NewRef((PyObject *)self->device);
    device->n_lent++;
    *out = (wp_lent){t, device};
    int done = wp_map(device, t, data, strides);
    if (done <= 0)
        wp_lent_back(out);
    else if (!*data)
        *data = nothing;
    return done;
}

void wp_lent_back(wp_lent *lent)
{
    weft_tensor_release(lent->t);
    lent->t = NULL;
    if (--lent->device->n_lent == 0 && lent->device->closing) {
        weft_ctx_close(lent->device->closing);
        lent->device->closing = NULL;
    }
    Py_CLEAR(lent->device);
}

/* ---- the buffer protocol: numpy.asarray(t), memoryview(t) ---- */

typedef struct shown {
    wp_lent lent;
    Py_ssize_t shape[WEFT_MAX_RANK], strides[WEFT_MAX_RANK];
} shown;

static const char *const formats[WEFT_DTYPE_COUNT] = {
    [WEFT_DTYPE_F32] = "f", [WEFT_DTYPE_F16] = "e", [WEFT_DTYPE_F64] = "d", [WEFT_DTYPE_I32] = "i", [WEFT_DTYPE_U32] = "I",
    [WEFT_DTYPE_I8] = "b",  [WEFT_DTYPE_U8] = "B",  [WEFT_DTYPE_I64] = "q", [WEFT_DTYPE_BOOL] = "?",
};

static bool asks(int flags, int for_what) { return (flags & for_what) == for_what; }

/* Whether the elements lie as a request wants them. Row-major is column-major too where at most one axis is longer than 1. */
static bool has_layout(const weft_tensor *t, int flags)
{
    int long_axes = 0;
    for (int k = 0; k < weft_tensor_rank(t); k++)
        long_axes += weft_tensor_shape(t)[k] > 1;
    bool rows = weft_tensor_is_contiguous(t), columns = rows && (long_axes < 2 || weft_tensor_numel(t) == 0);
    if (asks(flags, PyBUF_F_CONTIGUOUS) && !columns)
        return false;
    return rows || (asks(flags, PyBUF_STRIDES) && !asks(flags, PyBUF_C_CONTIGUOUS) && !asks(flags, PyBUF_ANY_CONTIGUOUS));
}

int wp_get_buffer(PyObject *o, Py_buffer *view, int flags)
{
    wp_tensor *self = (wp_tensor *)o;
    weft_dtype d = weft_tensor_dtype(self->t);
    int64_t strides[WEFT_MAX_RANK];
    const void *data;
    view->obj = NULL;
    if (!formats[d] || (flags & PyBUF_WRITABLE) == PyBUF_WRITABLE || !has_layout(self->t, flags)) {
        PyErr_SetString(PyExc_BufferError, formats[d] ? "a tensor is a value: its buffer is read-only, and contiguous where the tensor is" : "no buffer of this dtype");
        return -1;
    }
    shown *s = PyMem_Calloc(1, sizeof *s);
    if (!s)
        return PyErr_NoMemory(), -1;
    int lent = wp_lend(self, &s->lent, &data, strides);
    if (lent <= 0) {
        PyMem_Free(s);
        if (lent == 0)
            PyErr_SetString(PyExc_BufferError, "the elements are not in host memory");
        return -1;
    }
    Py_ssize_t size = (Py_ssize_t)weft_dtype_block_bytes(d);
    int rank = weft_tensor_rank(self->t);
    for (int k = 0; k < rank; k++) {
        s->shape[k] = (Py_ssize_t)weft_tensor_shape(self->t)[k];
        s->strides[k] = (Py_ssize_t)strides[k] * size;
    }
    void *writable;
    memcpy(&writable, &data, sizeof data);
    *view = (Py_buffer){.buf = writable, .obj = Py_NewRef(o), .len = (Py_ssize_t)weft_tensor_nbytes(self->t), .itemsize = size, .readonly = 1, .ndim = rank,
                        .shape = asks(flags, PyBUF_ND) ? s->shape : NULL, .strides = asks(flags, PyBUF_STRIDES) ? s->strides : NULL, .internal = s};
    if (flags & PyBUF_FORMAT) {
        char *format;
        memcpy(&format, &formats[d], sizeof format);
        view->format = format;
    }
    return 0;
}

void wp_release_buffer(PyObject *o, Py_buffer *view)
{
    shown *s = view->internal;
    wp_lent_back(&s->lent);
    PyMem_Free(s);
}

/* ---- borrowed ---- */

static wp_owner *_Atomic given_back;

static int drop_owners(void *unused)
{
    wp_owner *o = atomic_exchange(&given_back, NULL);
    while (o) {
        wp_owner *next = o->next;
        o->drop(o);
        o = next;
    }
    return 0;
}

/* Called by weft, on any thread, with or without the interpreter's lock. */
static void give_back(void *user)
{
    wp_owner *o = user, *first = atomic_load(&given_back);
    do
        o->next = first;
    while (!atomic_compare_exchange_weak(&given_back, &first, o));
    if (!first && Py_IsInitialized())
        Py_AddPendingCall(drop_owners, NULL);
}

/* The axes by falling strides, when the elements lie without gaps in that order: then `order` says which axis comes where. */
static bool is_permuted(int rank, const int64_t *shape, const int64_t *strides, int64_t *order)
{
    int64_t expected = 1;
    for (int k = 0; k < rank; k++) {
        int at = k;
        for (; at > 0 && strides[order[at - 1]] < strides[k]; at--)
            order[at] = order[at - 1];
        order[at] = k;
    }
    for (int k = rank - 1; k >= 0; k--) {
        if (shape[order[k]] == 1)
            continue;
        if (strides[order[k]] != expected)
            return false;
        expected *= shape[order[k]];
    }
    return true;
}

/* The elements row-major, whatever the strides. */
static void gather(int rank, const int64_t *shape, const int64_t *strides, size_t size, int64_t numel, const char *base, char *dst)
{
    int64_t at[WEFT_MAX_RANK] = {0};
    for (int64_t i = 0; i < numel; i++) {
        int64_t offset = 0;
        for (int k = 0; k < rank; k++)
            offset += at[k] * strides[k];
        memcpy(dst + (size_t)i * size, base + offset * (int64_t)size, size);
        for (int k = rank - 1; k >= 0 && ++at[k] == shape[k]; k--)
            at[k] = 0;
    }
}

static PyObject *copied(wp_device *device, weft_dtype d, int rank, const int64_t *shape, const int64_t *strides, const void *data)
{
    size_t size = weft_dtype_block_bytes(d), bytes;
    int64_t numel = 1;
    for (int k = 0; k < rank; k++)
        if (__builtin_mul_overflow(numel, shape[k], &numel))
            return PyErr_NoMemory();
    if (__builtin_mul_overflow((size_t)numel, size, &bytes))
        return PyErr_NoMemory();
    char *packed = weft_realloc(NULL, bytes + 1);
    if (!packed)
        return PyErr_NoMemory();
    gather(rank, shape, strides, size, numel, data, packed);
    PyObject *result = wp_wrap(weft_tensor_from(device->ctx, d, rank, shape, packed), device);
    weft_free(packed);
    return result;
}

/* A tensor over memory that `owner` keeps, whose strides (NULL: row-major) are in elements; takes the owner over. */
PyObject *wp_borrow(wp_device *device, weft_dtype d, int rank, const int64_t *shape, const int64_t *strides, const void *data, wp_owner *owner)
{
    int64_t order[WEFT_MAX_RANK], extents[WEFT_MAX_RANK];
    bool empty = false, plain = true;
    drop_owners(NULL);
    for (int k = 0; k < rank; k++)
        empty |= shape[k] <= 0;
    if (!strides || empty)
        for (int k = 0; k < rank; k++)
            order[k] = k;
    else if (!is_permuted(rank, shape, strides, order)) {
        PyObject *result = copied(device, d, rank, shape, strides, data);
        owner->drop(owner);
        return result;
    }
    for (int k = 0; k < rank; k++) {
        extents[k] = shape[order[k]];
        plain &= order[k] == k;
    }
    weft_tensor *t = weft_tensor_borrow(device->ctx, d, rank, extents, data, give_back, owner);
    if (!plain && weft_tensor_status(t) == WEFT_OK) {
        int axes[WEFT_MAX_RANK];
        for (int k = 0; k < rank; k++)
            axes[order[k]] = k;
        weft_tensor *back = weft_permute(t, axes);
        weft_tensor_release(t);
        t = back;
    }
    return wp_wrap(t, device);
}

/* A Python object whose buffer a tensor reads. */
typedef struct buffer_owner {
    wp_owner base;
    Py_buffer buffer;
} buffer_owner;

static void drop_buffer(wp_owner *base)
{
    PyBuffer_Release(&((buffer_owner *)base)->buffer);
    PyMem_Free(base);
}

/* _borrow_buffer(dtype, buffer, device): a tensor of the shape and strides of the buffer, whose items have the size of dtype. */
PyObject *wp_borrow_buffer(PyObject *module, PyObject *args)
{
    int dtype;
    PyObject *data, *where;
    int64_t shape[WEFT_MAX_RANK], strides[WEFT_MAX_RANK];
    if (!PyArg_ParseTuple(args, "iOO", &dtype, &data, &where))
        return NULL;
    buffer_owner *o = PyMem_Calloc(1, sizeof *o);
    if (!o)
        return PyErr_NoMemory();
    o->base.drop = drop_buffer;
    if (PyObject_GetBuffer(data, &o->buffer, PyBUF_STRIDES) < 0) {
        PyMem_Free(o);
        return NULL;
    }
    const Py_buffer *b = &o->buffer;
    bool fits = b->ndim <= WEFT_MAX_RANK && b->itemsize == (Py_ssize_t)weft_dtype_block_bytes((weft_dtype)dtype);
    for (int k = 0; fits && k < b->ndim; k++) {
        shape[k] = b->shape[k];
        strides[k] = b->strides[k] / b->itemsize;
        fits = b->strides[k] % b->itemsize == 0;
    }
    wp_device *device = fits ? wp_device_of(where) : NULL;
    if (!fits)
        PyErr_Format(wp.status_error[WEFT_E_SHAPE], "tensor: a buffer of rank %d with items of %zd bytes", b->ndim, b->itemsize);
    if (!device) {
        drop_buffer(&o->base);
        return NULL;
    }
    PyObject *result = wp_borrow(device, (weft_dtype)dtype, b->ndim, shape, strides, b->buf, &o->base);
    Py_DECREF((PyObject *)device);
    return result;
}
