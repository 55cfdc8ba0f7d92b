/* py_dlpack.c - tensors to and from other libraries through DLPack, in host memory.
 *
 * Versioned capsules (DLPack 1.x), which can say that memory is read-only, share memory; the older ones, which cannot, get a copy,
 * since a tensor is a value that nobody may write.
 */
#include <string.h>

#include "py_weft.h"

enum { DL_CPU = 1, DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };
enum { DL_MAJOR = 1, DL_READ_ONLY = 1, DL_IS_COPIED = 2 };

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

typedef struct dl_versioned {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

static const struct {
    uint8_t code, bits;
} kinds[WEFT_DTYPE_COUNT] = {
    [WEFT_DTYPE_F32] = {DL_FLOAT, 32}, [WEFT_DTYPE_F16] = {DL_FLOAT, 16}, [WEFT_DTYPE_BF16] = {DL_BFLOAT, 16}, [WEFT_DTYPE_F64] = {DL_FLOAT, 64},
    [WEFT_DTYPE_I32] = {DL_INT, 32},   [WEFT_DTYPE_U32] = {DL_UINT, 32},  [WEFT_DTYPE_I8] = {DL_INT, 8},       [WEFT_DTYPE_U8] = {DL_UINT, 8},
    [WEFT_DTYPE_I64] = {DL_INT, 64},   [WEFT_DTYPE_BOOL] = {DL_BOOL, 8},
};

/* ---- out ---- */

/* What a consumer holds: either memory of its own, or a tensor on whose device the elements lie. */
typedef struct export {
    dl_managed old;
    dl_versioned new;
    int64_t shape[WEFT_MAX_RANK], strides[WEFT_MAX_RANK];
    void *memory;
    wp_lent lent;
} export;

static void free_export(export *e)
{
    if (e->lent.t && (!Py_IsInitialized() || (wp.is_over && !PyGILState_GetThisThreadState())))
        return; /* a consumer outlives the interpreter, whose lock nobody may ask for: the process ends, and with it the memory */
    if (e->lent.t) { /* a consumer may give it back on any thread */
        PyGILState_STATE state = PyGILState_Ensure();
        wp_lent_back(&e->lent);
        PyGILState_Release(state);
    }
    weft_free(e->memory);
    weft_free(e);
}
static void delete_old(dl_managed *m) { free_export(m->manager); }
static void delete_new(dl_versioned *m) { free_export(m->manager); }

static void drop_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) /* not consumed: a consumer renames it */
        free_export(((dl_managed *)PyCapsule_GetPointer(capsule, "dltensor"))->manager);
    else if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        free_export(((dl_versioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned"))->manager);
}

/* The elements in memory of the export, row-major. */
static void *copy_out(wp_tensor *self, export *e)
{
    size_t n = weft_tensor_nbytes(self->t);
    int64_t stride = 1;
    e->memory = weft_realloc(NULL, n + 64);
    if (!e->memory)
        return PyErr_NoMemory();
    char *data = (char *)(((uintptr_t)e->memory + 63) & ~(uintptr_t)63);
    for (int k = weft_tensor_rank(self->t) - 1; k >= 0; k--) {
        e->strides[k] = stride;
        stride *= e->shape[k] > 0 ? e->shape[k] : 1;
    }
    return wp_read(self, weft_tensor_dtype(self->t), data, n) < 0 ? NULL : data;
}

/* keywords of the protocol: what the consumer understands, where it wants the elements, whether they may be copied */
static int read_options(PyObject *args, PyObject *keywords, bool *versioned, int *copy)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *none = PyTuple_New(0), *stream = Py_None, *version = Py_None, *where = Py_None, *how = Py_None;
    if (!none || PyTuple_Size(args) > 0) {
        Py_XDECREF(none);
        return none ? (PyErr_SetString(PyExc_TypeError, "__dlpack__ takes keywords"), -1) : -1;
    }
    int ok = PyArg_ParseTupleAndKeywords(none, keywords, "|OOOO:__dlpack__", names, &stream, &version, &where, &how);
    Py_DECREF(none);
    if (!ok)
        return -1;
    int major = 0, minor = 0, type = DL_CPU, id = 0;
    if (version != Py_None && (!PyTuple_Check(version) || !PyArg_ParseTuple(version, "ii", &major, &minor)))
        return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_TypeError, "__dlpack__: max_version is no pair"), -1);
    if (where != Py_None && (!PyTuple_Check(where) || !PyArg_ParseTuple(where, "ii", &type, &id)))
        return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_TypeError, "__dlpack__: dl_device is no pair"), -1);
    if (type != DL_CPU || stream != Py_None) {
        PyErr_SetString(PyExc_BufferError, "__dlpack__: the elements are given in host memory only, without a stream");
        return -1;
    }
    *versioned = major >= DL_MAJOR;
    *copy = how == Py_None ? -1 : PyObject_IsTrue(how);
    return *copy < 0 && how != Py_None ? -1 : 0;
}

PyObject *wp_dlpack(PyObject *o, PyObject *args, PyObject *keywords)
{
    wp_tensor *self = (wp_tensor *)o;
    weft_dtype d = weft_tensor_dtype(self->t);
    bool versioned;
    int copy;
    if (read_options(args, keywords, &versioned, &copy) < 0)
        return NULL;
    if (kinds[d].bits == 0)
        return wp_raise(WEFT_E_DTYPE, "dlpack: block types have no element of their own; cast first");
    export *e = weft_realloc(NULL, sizeof *e);
    if (!e)
        return PyErr_NoMemory();
    memset(e, 0, sizeof *e);
    for (int k = 0; k < weft_tensor_rank(self->t); k++)
        e->shape[k] = weft_tensor_shape(self->t)[k];
    const void *data = NULL;
    int lent = versioned && copy != 1 ? wp_lend(self, &e->lent, &data, e->strides) : 0;
    if (lent == 0 && copy == 0)
        PyErr_SetString(PyExc_BufferError, "__dlpack__: the elements can only be copied");
    else if (lent == 0)
        data = copy_out(self, e);
    if (PyErr_Occurred()) {
        free_export(e);
        return NULL;
    }
    void *writable;
    memcpy(&writable, &data, sizeof data);
    dl_tensor t = {writable, DL_CPU, 0, weft_tensor_rank(self->t), kinds[d].code, kinds[d].bits, 1, e->shape, e->strides, 0};
    e->old = (dl_managed){t, e, delete_old};
    e->new = (dl_versioned){DL_MAJOR, 0, e, delete_new, lent ? DL_READ_ONLY : DL_IS_COPIED, t};
    PyObject *capsule = versioned ? PyCapsule_New(&e->new, "dltensor_versioned", drop_capsule) : PyCapsule_New(&e->old, "dltensor", drop_capsule);
    if (!capsule)
        free_export(e);
    return capsule;
}

/* ---- in ---- */

/* A capsule that is consumed, until its memory is no longer needed. */
typedef struct owner {
    wp_owner base;
    dl_managed *old;
    dl_versioned *new;
} owner;

static void drop_owner(wp_owner *base)
{
    owner *o = (owner *)base;
    if (o->old && o->old->deleter)
        o->old->deleter(o->old);
    if (o->new && o->new->deleter)
        o->new->deleter(o->new);
    PyMem_Free(o);
}

/* WEFT_DTYPE_COUNT: weft has none such. */
static int dtype_of(const dl_tensor *t)
{
    int d = 0;
    while (d < WEFT_DTYPE_COUNT && (kinds[d].bits == 0 || kinds[d].code != t->code || kinds[d].bits != t->bits))
        d++;
    return d;
}

static int check_import(const dl_tensor *t)
{
    if (t->device_type != DL_CPU)
        wp_raise(WEFT_E_UNSUPPORTED, "from_dlpack: the tensor is not in host memory");
    else if (dtype_of(t) == WEFT_DTYPE_COUNT || t->lanes != 1)
        PyErr_Format(wp.status_error[WEFT_E_DTYPE], "from_dlpack: no dtype of weft has code %d, %d bits, %d lanes", t->code, t->bits, t->lanes);
    else if (t->ndim < 0 || t->ndim > WEFT_MAX_RANK)
        PyErr_Format(wp.status_error[WEFT_E_SHAPE], "from_dlpack: rank %d, at most %d", (int)t->ndim, WEFT_MAX_RANK);
    return PyErr_Occurred() ? -1 : 0;
}

/* The capsule of an object: of the newest kind that its library knows. */
static PyObject *ask(PyObject *o)
{
    PyObject *method = PyObject_GetAttrString(o, "__dlpack__"), *none = PyTuple_New(0);
    PyObject *keywords = method && none ? Py_BuildValue("{s(ii)}", "max_version", DL_MAJOR, 0) : NULL;
    PyObject *capsule = keywords ? PyObject_Call(method, none, keywords) : NULL;
    if (keywords && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) { /* older than the keyword */
        PyErr_Clear();
        capsule = PyObject_CallObject(method, none);
    }
    Py_XDECREF(keywords);
    Py_XDECREF(none);
    Py_XDECREF(method);
    return capsule;
}

PyObject *wp_from_dlpack(PyObject *module, PyObject *args)
{
    PyObject *o, *where = Py_None;
    if (!PyArg_ParseTuple(args, "O|O:from_dlpack", &o, &where))
        return NULL;
    if (PyCapsule_IsValid(o, "used_dltensor") || PyCapsule_IsValid(o, "used_dltensor_versioned"))
        return PyErr_Format(PyExc_ValueError, "from_dlpack: the capsule is used already");
    PyObject *capsule = PyCapsule_CheckExact(o) ? Py_NewRef(o) : ask(o), *result = NULL;
    wp_device *device = capsule ? wp_device_of(where) : NULL;
    dl_versioned *new = device && PyCapsule_IsValid(capsule, "dltensor_versioned") ? PyCapsule_GetPointer(capsule, "dltensor_versioned") : NULL;
    dl_managed *old = device && !new ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;
    owner *owned = NULL;
    if (new && new->major > DL_MAJOR)
        PyErr_Format(PyExc_BufferError, "from_dlpack: the capsule has version %u, known is %d", new->major, DL_MAJOR);
    else if ((new || old) && check_import(new ? &new->tensor : &old->tensor) == 0 && !(owned = PyMem_Calloc(1, sizeof *owned)))
        PyErr_NoMemory();
    if (owned) { /* from here on the capsule is ours */
        *owned = (owner){.base.drop = drop_owner, .old = old, .new = new};
        PyCapsule_SetName(capsule, new ? "used_dltensor_versioned" : "used_dltensor");
        const dl_tensor *t = new ? &new->tensor : &old->tensor;
        result = wp_borrow(device, (weft_dtype)dtype_of(t), t->ndim, t->shape, t->strides, (const char *)t->data + t->byte_offset, &owned->base);
    }
    Py_XDECREF((PyObject *)device);
    Py_XDECREF(capsule);
    return result;
}
