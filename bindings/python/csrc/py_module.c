/* py_module.c - the module weft._weft: its functions and what the package sets up at import. */
#include <string.h>

#include "py_weft.h"

wp_module wp;

/* _from_buffer(dtype, shape, buffer or None, device) */
static PyObject *from_buffer(PyObject *module, PyObject *args)
{
    int dtype;
    PyObject *shape, *data, *where;
    if (!PyArg_ParseTuple(args, "iO!OO", &dtype, &PyTuple_Type, &shape, &data, &where))
        return NULL;
    int64_t extents[WEFT_MAX_RANK + 1];
    Py_ssize_t rank = PyTuple_Size(shape);
    if (rank > WEFT_MAX_RANK)
        return PyErr_Format(wp.status_error[WEFT_E_SHAPE], "tensor: rank %zd, at most %d", rank, WEFT_MAX_RANK);
    int64_t numel = 1;
    for (Py_ssize_t k = 0; k < rank; k++) {
        extents[k] = PyLong_AsLongLong(PyTuple_GetItem(shape, k));
        if (PyErr_Occurred())
            return NULL;
        if (extents[k] < 0 || __builtin_mul_overflow(numel, extents[k], &numel))
            return PyErr_Format(wp.status_error[WEFT_E_SHAPE], "tensor: extent %lld of axis %zd", (long long)extents[k], k);
    }
    wp_device *device = wp_device_of(where);
    if (!device)
        return NULL;
    Py_buffer buffer;
    if (PyObject_GetBuffer(data, &buffer, PyBUF_C_CONTIGUOUS) < 0) {
        Py_DECREF((PyObject *)device);
        return NULL;
    }
    size_t want = (size_t)(numel / weft_dtype_block((weft_dtype)dtype)) * weft_dtype_block_bytes((weft_dtype)dtype);
    PyObject *result = NULL;
    if (want != (size_t)buffer.len)
        PyErr_Format(PyExc_ValueError, "tensor: %zd bytes for a shape that takes %zu", buffer.len, want);
    else
        result = wp_wrap(weft_tensor_from(device->ctx, (weft_dtype)dtype, (int)rank, extents, buffer.buf), device);
    PyBuffer_Release(&buffer);
    Py_DECREF((PyObject *)device);
    return result;
}

static PyObject *eval_many(PyObject *module, PyObject *args)
{
    Py_ssize_t n = PyTuple_Size(args);
    weft_tensor **list = PyMem_Malloc((size_t)(n + 1) * sizeof *list);
    if (!list)
        return PyErr_NoMemory();
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = PyTuple_GetItem(args, k);
        if (!wp_is_tensor(o)) {
            PyMem_Free(list);
            return PyErr_Format(PyExc_TypeError, "eval: argument %zd is no tensor", k);
        }
        list[k] = ((wp_tensor *)o)->t;
    }
    int bad = n > 0 ? wp_eval(((wp_tensor *)PyTuple_GetItem(args, 0))->device, list, (int)n) : 0;
    PyMem_Free(list);
    return bad < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *set_default(PyObject *module, PyObject *o)
{
    if (!wp_is_device(o))
        return PyErr_Format(PyExc_TypeError, "a device is needed");
    wp_device *old = wp.current;
    wp.current = (wp_device *)Py_NewRef(o);
    Py_XDECREF((PyObject *)old);
    Py_RETURN_NONE;
}

static PyObject *get_default(PyObject *module, PyObject *unused)
{
    wp_device *d = wp_default();
    return d ? Py_NewRef((PyObject *)d) : NULL;
}

/* _setup(as_tensor, as_dtype, as_device, dtypes) */
static PyObject *setup(PyObject *module, PyObject *args)
{
    PyObject *dtypes;
    if (!PyArg_ParseTuple(args, "OOOO!", &wp.as_tensor, &wp.as_dtype, &wp.as_device, &PyTuple_Type, &dtypes))
        return NULL;
    Py_INCREF(wp.as_tensor);
    Py_INCREF(wp.as_dtype);
    Py_INCREF(wp.as_device);
    for (Py_ssize_t d = 0; d < PyTuple_Size(dtypes) && d < WEFT_DTYPE_COUNT; d++)
        wp.dtypes[d] = Py_NewRef(PyTuple_GetItem(dtypes, d));
    Py_RETURN_NONE;
}

static PyObject *set_unscoped(PyObject *module, PyObject *o)
{
    wp.unscoped = PyObject_IsTrue(o) == 1;
    Py_RETURN_NONE;
}

/* _current(): the default device if there is one, else None. */
static PyObject *current(PyObject *module, PyObject *unused)
{
    return Py_NewRef(wp.current ? (PyObject *)wp.current : Py_None);
}

/* _over(): from here on nothing waits for the interpreter. */
static PyObject *set_over(PyObject *module, PyObject *unused)
{
    wp.is_over = 1;
    Py_RETURN_NONE;
}

static PyObject *call_by_name(PyObject *module, PyObject *args)
{
    PyObject *items[16];
    Py_ssize_t n = PyTuple_Size(args);
    const char *name = n > 0 && PyUnicode_Check(PyTuple_GetItem(args, 0)) ? PyUnicode_AsUTF8AndSize(PyTuple_GetItem(args, 0), NULL) : NULL;
    if (!name || n > 16)
        return PyErr_Format(PyExc_TypeError, "apply: the name of an operation, then its arguments");
    for (Py_ssize_t k = 1; k < n; k++)
        items[k - 1] = PyTuple_GetItem(args, k);
    return wp_call_named(name, items, n - 1);
}

static PyObject *supports_by_name(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    const char *name = n > 0 && PyUnicode_Check(args[0]) ? PyUnicode_AsUTF8AndSize(args[0], NULL) : NULL;
    return name ? wp_supports_named(name, args + 1, n - 1, keywords) : PyErr_Format(PyExc_TypeError, "supports: the name of an operation, then its arguments");
}

static PyObject *param_of(const weft_param_info *p)
{
    static const char *const types[] = {"Tensor", "Tensors", "int", "float", "bool", "ints", "str", "dtype", "ints|str", "floats"};
    return Py_BuildValue("(ssOz)", p->name, types[p->type], p->optional ? Py_True : Py_False, p->has_default ? p->preset : NULL);
}

/* _table(): (name, section, signature, bound, doc, differentiable, ((parameter, type, optional, default or None), ..)) for each row. */
static PyObject *table(PyObject *module, PyObject *unused)
{
    PyObject *rows = PyList_New(0);
    for (int i = 0; rows && i < weft_op_count(); i++) {
        const weft_op_info *op = weft_op_at(i);
        PyObject *params = PyTuple_New(op->n_params);
        for (int p = 0; params && p < op->n_params; p++) {
            PyObject *one = param_of(&op->params[p]);
            if (!one || PyTuple_SetItem(params, p, one) < 0)
                Py_CLEAR(params);
        }
        PyObject *row = params ? Py_BuildValue("(sssssON)", op->name, op->section, op->signature, op->bound, op->doc,
                                               op->differentiable ? Py_True : Py_False, params)
                               : NULL;
        if (!row || PyList_Append(rows, row) < 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

static PyObject *dtype_table(PyObject *module, PyObject *unused)
{
    PyObject *names = PyList_New(0);
    for (int d = 0; names && d < WEFT_DTYPE_COUNT; d++) {
        PyObject *row = Py_BuildValue("(si)", weft_dtype_name((weft_dtype)d), (int)weft_dtype_block_bytes((weft_dtype)d));
        if (!row || PyList_Append(names, row) < 0)
            Py_CLEAR(names);
        Py_XDECREF(row);
    }
    return names;
}

static PyObject *promote(PyObject *module, PyObject *args)
{
    int a, b;
    weft_dtype out;
    if (!PyArg_ParseTuple(args, "ii", &a, &b))
        return NULL;
    weft_status st = weft_dtype_promote((weft_dtype)a, (weft_dtype)b, &out);
    return st == WEFT_OK ? Py_NewRef(wp.dtypes[out] ? wp.dtypes[out] : Py_None) : wp_raise_last(st);
}

static PyMethodDef functions[] = {
    {"_from_buffer", from_buffer, METH_VARARGS, NULL},
    {"_borrow_buffer", wp_borrow_buffer, METH_VARARGS, NULL},
    {"eval", eval_many, METH_VARARGS, "eval(*tensors): compute them in one evaluation."},
    {"_set_default", set_default, METH_O, NULL},
    {"_get_default", get_default, METH_NOARGS, NULL},
    {"_set_unscoped", set_unscoped, METH_O, NULL},
    {"_setup", setup, METH_VARARGS, NULL},
    {"_over", set_over, METH_NOARGS, NULL},
    {"_current", current, METH_NOARGS, NULL},
    {"_table", table, METH_NOARGS, NULL},
    {"_dtypes", dtype_table, METH_NOARGS, NULL},
    {"apply", call_by_name, METH_VARARGS, "apply(name, *arguments): an operation by its name."},
    {"supports", (PyCFunction)(void (*)(void))supports_by_name, METH_FASTCALL | METH_KEYWORDS,
     "supports(name, *arguments): (True, \"\"), or (False, why) where part of that call would run on the CPU for the device."},
    {"promote_types", promote, METH_VARARGS, "promote_types(a, b): the dtype of an operation on both."},
    {"from_dlpack", wp_from_dlpack, METH_VARARGS, "from_dlpack(x, device=None): a tensor that shares the memory of another library's where it can."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "weft._weft", "The C half of the package weft.", -1, functions, NULL, NULL, NULL, NULL};

static struct PyModuleDef ops_definition = {PyModuleDef_HEAD_INIT, "weft._weft.ops", "Every operation of the table.", -1, NULL, NULL, NULL, NULL, NULL};

/* The operations live in a module of their own, so that none of them hides a function of this one. */
static int fill(PyObject *module, PyObject *ops)
{
    PyMethodDef *methods;
    int n = 0;
    if (wp_errors_init(module) < 0 || wp_ops_init(ops, &methods, &n) < 0 || PyModule_AddObjectRef(module, "ops", ops) < 0)
        return -1;
    if (!(wp.device_type = wp_device_type()) || PyModule_AddObjectRef(module, "Device", (PyObject *)wp.device_type) < 0)
        return -1;
    if (!(wp.tensor_type = wp_tensor_type(methods, n)) || PyModule_AddObjectRef(module, "Tensor", (PyObject *)wp.tensor_type) < 0)
        return -1;
    return 0;
}

PyMODINIT_FUNC PyInit__weft(void)
{
    PyObject *module = PyModule_Create(&definition), *ops = module ? PyModule_Create(&ops_definition) : NULL;
    if (!ops || fill(module, ops) < 0)
        Py_CLEAR(module);
    Py_XDECREF(ops);
    return module;
}
