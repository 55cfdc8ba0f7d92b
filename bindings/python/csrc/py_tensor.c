/* py_tensor.c - the Tensor type: what it says about itself, reading, and operators by the name of their operation. */
#include <string.h>

#include "py_weft.h"

PyObject *wp_wrap(weft_tensor *t, wp_device *device)
{
    if (weft_tensor_status(t) != WEFT_OK) {
        wp_raise(weft_tensor_status(t), weft_tensor_message(t));
        weft_tensor_release(t);
        return NULL;
    }
    wp_tensor *self = PyObject_New(wp_tensor, wp.tensor_type);
    if (!self) {
        weft_tensor_release(t);
        return NULL;
    }
    self->t = t;
    self->device = (wp_device *)Py_NewRef((PyObject *)device);
    return (PyObject *)self;
}

static void tensor_dealloc(PyObject *o)
{
    wp_tensor *self = (wp_tensor *)o;
    PyTypeObject *type = Py_TYPE(o);
    weft_tensor_release(self->t);
    Py_XDECREF((PyObject *)self->device);
    PyObject_Free(o);
    Py_DECREF(type);
}

/* ---- what it says about itself ---- */

static PyObject *get_shape(PyObject *o, void *unused)
{
    const weft_tensor *t = ((wp_tensor *)o)->t;
    int rank = weft_tensor_rank(t);
    PyObject *shape = PyTuple_New(rank);
    for (int k = 0; shape && k < rank; k++) {
        PyObject *n = PyLong_FromLongLong(weft_tensor_shape(t)[k]);
        if (!n || PyTuple_SetItem(shape, k, n) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

static PyObject *get_strides(PyObject *o, void *unused)
{
    const weft_tensor *t = ((wp_tensor *)o)->t;
    int rank = weft_tensor_rank(t);
    PyObject *strides = PyTuple_New(rank);
    for (int k = 0; strides && k < rank; k++) {
        PyObject *n = PyLong_FromLongLong(weft_tensor_strides(t)[k]);
        if (!n || PyTuple_SetItem(strides, k, n) < 0)
            Py_CLEAR(strides);
    }
    return strides;
}

/* Another Python tensor of the same value: values never change, but a handle may stand for another later. */
static PyObject *copy_handle(PyObject *o, PyObject *unused)
{
    wp_tensor *self = (wp_tensor *)o;
    return wp_wrap(weft_tensor_retain(self->t), self->device);
}

static PyObject *get_dtype(PyObject *o, void *unused)
{
    weft_dtype d = weft_tensor_dtype(((wp_tensor *)o)->t);
    return wp.dtypes[d] ? Py_NewRef(wp.dtypes[d]) : PyLong_FromLong(d);
}

static PyObject *get_device(PyObject *o, void *unused) { return Py_NewRef((PyObject *)((wp_tensor *)o)->device); }
static PyObject *get_ndim(PyObject *o, void *unused) { return PyLong_FromLong(weft_tensor_rank(((wp_tensor *)o)->t)); }
static PyObject *get_nbytes(PyObject *o, void *unused) { return PyLong_FromSize_t(weft_tensor_nbytes(((wp_tensor *)o)->t)); }
static PyObject *is_contiguous(PyObject *o, PyObject *unused) { return PyBool_FromLong(weft_tensor_is_contiguous(((wp_tensor *)o)->t)); }
static PyObject *numel(PyObject *o, PyObject *unused) { return PyLong_FromLongLong(weft_tensor_numel(((wp_tensor *)o)->t)); }

/* ---- reading ---- */

static PyObject *eval_self(PyObject *o, PyObject *unused)
{
    wp_tensor *self = (wp_tensor *)o;
    return wp_eval(self->device, &self->t, 1) < 0 ? NULL : Py_NewRef(o);
}

/* _read(dtype): the elements, row-major, as bytes. */
static PyObject *read_bytes(PyObject *o, PyObject *dtype)
{
    weft_tensor *t = ((wp_tensor *)o)->t;
    long d = PyLong_AsLong(dtype);
    if (d == -1 && PyErr_Occurred())
        return NULL;
    size_t n = (weft_dtype)d == weft_tensor_dtype(t) ? weft_tensor_nbytes(t) : (size_t)weft_tensor_numel(t) * weft_dtype_block_bytes((weft_dtype)d);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n);
    if (bytes && wp_read((wp_tensor *)o, (weft_dtype)d, PyBytes_AsString(bytes), n) < 0)
        Py_CLEAR(bytes);
    return bytes;
}

/* _read_into(buffer): the elements in their own dtype into memory of exactly their size. */
static PyObject *read_into(PyObject *o, PyObject *target)
{
    Py_buffer buffer;
    if (PyObject_GetBuffer(target, &buffer, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    wp_tensor *self = (wp_tensor *)o;
    int bad = wp_read(self, weft_tensor_dtype(self->t), buffer.buf, (size_t)buffer.len);
    PyBuffer_Release(&buffer);
    return bad < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *item(PyObject *o, PyObject *unused)
{
    wp_tensor *self = (wp_tensor *)o;
    weft_dtype d = weft_tensor_dtype(self->t);
    if (weft_tensor_numel(self->t) != 1)
        return PyErr_Format(PyExc_ValueError, "a tensor of %lld elements is no number", (long long)weft_tensor_numel(self->t));
    if (weft_dtype_is_float(d)) {
        double v;
        return wp_read(self, WEFT_DTYPE_F64, &v, sizeof v) < 0 ? NULL : PyFloat_FromDouble(v);
    }
    int64_t v;
    if (wp_read(self, WEFT_DTYPE_I64, &v, sizeof v) < 0)
        return NULL;
    return d == WEFT_DTYPE_BOOL ? PyBool_FromLong(v != 0) : PyLong_FromLongLong(v);
}

static PyObject *as_number(PyObject *o, PyObject *convert(PyObject *))
{
    PyObject *v = item(o, NULL), *result = v ? convert(v) : NULL;
    Py_XDECREF(v);
    return result;
}
static PyObject *as_float(PyObject *o) { return as_number(o, PyNumber_Float); }
static PyObject *as_int(PyObject *o) { return as_number(o, PyNumber_Long); }
static PyObject *as_index(PyObject *o)
{
    weft_dtype d = weft_tensor_dtype(((wp_tensor *)o)->t);
    if (weft_dtype_is_float(d))
        return PyErr_Format(PyExc_TypeError, "a tensor of %s is no integer", weft_dtype_name(d));
    if (weft_tensor_numel(((wp_tensor *)o)->t) != 1)
        return PyErr_Format(PyExc_TypeError, "a tensor of %lld elements is no integer", (long long)weft_tensor_numel(((wp_tensor *)o)->t));
    return as_number(o, PyNumber_Long);
}

static int as_bool(PyObject *o)
{
    PyObject *v = item(o, NULL);
    int truth = v ? PyObject_IsTrue(v) : -1;
    Py_XDECREF(v);
    return truth;
}

static Py_ssize_t length(PyObject *o)
{
    const weft_tensor *t = ((wp_tensor *)o)->t;
    if (weft_tensor_rank(t) > 0)
        return (Py_ssize_t)weft_tensor_shape(t)[0];
    PyErr_SetString(PyExc_TypeError, "a tensor of rank 0 has no length");
    return -1;
}

/* _assign(other): this handle stands for the value of another from now on. */
static PyObject *assign(PyObject *o, PyObject *other)
{
    if (!wp_is_tensor(other))
        return PyErr_Format(PyExc_TypeError, "a tensor takes the value of a tensor");
    wp_tensor *self = (wp_tensor *)o, *from = (wp_tensor *)other;
    weft_tensor *old = self->t;
    self->t = weft_tensor_retain(from->t);
    weft_tensor_release(old);
    Py_INCREF((PyObject *)from->device);
    Py_DECREF((PyObject *)self->device);
    self->device = from->device;
    Py_RETURN_NONE;
}

/* ---- operators ---- */

/* Tensors, numbers and arrays; what else there is may know what to do with a tensor itself. */
static bool is_operand(PyObject *o)
{
    return wp_is_tensor(o) || PyLong_Check(o) || PyFloat_Check(o) || PyObject_HasAttrString(o, "__array__");
}

static PyObject *binary(const char *name, PyObject *a, PyObject *b)
{
    if (!is_operand(a) || !is_operand(b))
        return Py_NewRef(Py_NotImplemented);
    return wp_call_named(name, (PyObject *[]){a, b}, 2);
}

#define BINARY(python, operation) \
    static PyObject *python(PyObject *a, PyObject *b) { return binary(#operation, a, b); }
BINARY(op_add, add)
BINARY(op_sub, sub)
BINARY(op_mul, mul)
BINARY(op_div, div)
BINARY(op_floordiv, floor_divide)
BINARY(op_mod, remainder)
BINARY(op_matmul, matmul)
BINARY(op_and, bitwise_and)
BINARY(op_or, bitwise_or)
BINARY(op_xor, bitwise_xor)
BINARY(op_lshift, bitwise_left_shift)
BINARY(op_rshift, bitwise_right_shift)

static PyObject *op_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    return modulus == Py_None ? binary("pow", a, b) : Py_NewRef(Py_NotImplemented);
}
static PyObject *op_neg(PyObject *a) { return wp_call_named("neg", &a, 1); }
static PyObject *op_abs(PyObject *a) { return wp_call_named("abs", &a, 1); }
static PyObject *op_invert(PyObject *a) { return wp_call_named("bitwise_not", &a, 1); }
static PyObject *op_pos(PyObject *a) { return Py_NewRef(a); }

static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    static const char *const names[] = {[Py_LT] = "lt", [Py_LE] = "le", [Py_EQ] = "eq", [Py_NE] = "ne", [Py_GT] = "gt", [Py_GE] = "ge"};
    return binary(names[how], a, b);
}

/* == compares elements, so identity is what a dictionary can use. */
static Py_hash_t hash(PyObject *o) { return (Py_hash_t)((uintptr_t)o >> 4); }

static PyGetSetDef getset[] = {
    {"shape", get_shape, NULL, "the extents, a tuple", NULL},
    {"dtype", get_dtype, NULL, "the dtype of the elements", NULL},
    {"device", get_device, NULL, "the device it lives on", NULL},
    {"_strides", get_strides, NULL, NULL, NULL},
    {"ndim", get_ndim, NULL, "the number of axes", NULL},
    {"nbytes", get_nbytes, NULL, "the bytes of the elements, packed", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static const PyMethodDef own_methods[] = {
    {"numel", numel, METH_NOARGS, "The number of elements."},
    {"is_contiguous", is_contiguous, METH_NOARGS, "Whether the elements lie row-major and without gaps."},
    {"eval", eval_self, METH_NOARGS, "Compute it now; returns the tensor."},
    {"item", item, METH_NOARGS, "The only element, as a Python number."},
    {"__copy__", copy_handle, METH_NOARGS, "A tensor of the same value, which assignment to this one does not change."},
    {"__deepcopy__", copy_handle, METH_O, "As __copy__: a value is never written."},
    {"_read", read_bytes, METH_O, NULL},
    {"_read_into", read_into, METH_O, NULL},
    {"_assign", assign, METH_O, NULL},
    {"__dlpack__", (PyCFunction)(void (*)(void))wp_dlpack, METH_VARARGS | METH_KEYWORDS, "A capsule with the elements in host memory: the tensor's own, read-only, where the consumer knows DLPack 1, else a copy."},
};
enum { N_OWN = sizeof own_methods / sizeof own_methods[0] };

PyTypeObject *wp_tensor_type(PyMethodDef *ops, int n_ops)
{
    /* What a tensor is comes before the operation of the same name. */
    PyMethodDef *all = PyMem_Calloc((size_t)(n_ops + N_OWN + 1), sizeof *all);
    if (!all)
        return (PyTypeObject *)PyErr_NoMemory();
    int n = N_OWN;
    memcpy(all, own_methods, sizeof own_methods);
    for (int i = 0; i < n_ops; i++) {
        bool taken = false;
        for (const PyGetSetDef *g = getset; g->name; g++)
            taken |= strcmp(g->name, ops[i].ml_name) == 0;
        for (int k = 0; k < N_OWN; k++)
            taken |= strcmp(own_methods[k].ml_name, ops[i].ml_name) == 0;
        if (!taken)
            all[n++] = ops[i];
    }
    PyType_Slot slots[] = {
        {Py_tp_dealloc, tensor_dealloc}, {Py_tp_getset, getset}, {Py_tp_methods, all}, {Py_tp_richcompare, compare}, {Py_tp_hash, hash},
        {Py_tp_doc, "A value that may not have been computed yet. Made by weft.tensor and by every operation."},
        {Py_nb_add, op_add}, {Py_nb_subtract, op_sub}, {Py_nb_multiply, op_mul}, {Py_nb_true_divide, op_div}, {Py_nb_floor_divide, op_floordiv},
        {Py_nb_remainder, op_mod}, {Py_nb_power, op_pow}, {Py_nb_matrix_multiply, op_matmul}, {Py_nb_and, op_and}, {Py_nb_or, op_or},
        {Py_nb_xor, op_xor}, {Py_nb_lshift, op_lshift}, {Py_nb_rshift, op_rshift}, {Py_nb_negative, op_neg}, {Py_nb_positive, op_pos},
        {Py_nb_absolute, op_abs}, {Py_nb_invert, op_invert}, {Py_nb_bool, as_bool}, {Py_nb_float, as_float}, {Py_nb_int, as_int},
        {Py_nb_index, as_index}, {Py_mp_length, length}, {Py_bf_getbuffer, wp_get_buffer}, {Py_bf_releasebuffer, wp_release_buffer}, {0, NULL},
    };
    PyType_Spec spec = {"weft.Tensor", sizeof(wp_tensor), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return (PyTypeObject *)PyType_FromSpec(&spec);
}
