/* py_weft.h - what the files of the extension module share: the two object types, errors, and the call of an
 * operation. CPython's limited interface of 3.11 only, so that one wheel serves every later Python.
 */
#ifndef PY_WEFT_H
#define PY_WEFT_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>

#include "weft/weft.h"

/* An open context. Tensors hold a reference, so a device outlives its tensors. */
typedef struct wp_device {
    PyObject_HEAD
    weft_ctx *ctx;     /* NULL after close */
    weft_ctx *closing; /* the context of a closed device, while memory of it is lent */
    Py_ssize_t n_lent;
    PyObject *spec;
} wp_device;

/* A Python tensor owns one reference of a handle. */
typedef struct wp_tensor {
    PyObject_HEAD
    weft_tensor *t;
    wp_device *device;
} wp_tensor;

/* The module's objects, made at import. */
typedef struct wp_module {
    PyTypeObject *tensor_type, *device_type;
    PyObject *error;                      /* weft.Error */
    PyObject *status_error[WEFT_STATUS_COUNT];
    PyObject *dtypes[WEFT_DTYPE_COUNT];   /* the Python object of each dtype; set by the package */
    PyObject *as_tensor, *as_dtype, *as_device; /* conversions of what is none yet; set by the package */
    wp_device *current;                   /* the default device, or NULL until one is needed */
    int is_over;                          /* the interpreter is ending: its lock must not be asked for */
    int unscoped;                         /* calls have no scope: a test counts what operations leave behind */
} wp_module;
extern wp_module wp;

#define wp_is_tensor(o) Py_IS_TYPE(o, wp.tensor_type)
#define wp_is_device(o) Py_IS_TYPE(o, wp.device_type)

/* Text of the library, which may be cut inside a character. */
PyObject *wp_text(const char *text);
/* Raise the exception of a status with that sentence; returns NULL. */
PyObject *wp_raise(weft_status st, const char *sentence);
/* The same with the sentence of this thread. */
PyObject *wp_raise_last(weft_status st);
int wp_errors_init(PyObject *module);

/* A Python tensor that takes over the caller's reference of `t`; an error tensor is raised instead. */
PyObject *wp_wrap(weft_tensor *t, wp_device *device);
/* The default device, opened now if there is none; borrowed. NULL: raised. */
wp_device *wp_default(void);
/* The device that an argument names: None, a device, or what the package resolves; a new reference. */
wp_device *wp_device_of(PyObject *o);
PyTypeObject *wp_device_type(void);
PyTypeObject *wp_tensor_type(PyMethodDef *ops, int n_ops);

/* Evaluate without the interpreter's lock; Ctrl-C stops between steps. 0, or -1: raised. */
int wp_eval(wp_device *device, weft_tensor *const *tensors, int n);
/* Read n bytes as `dtype`, in the same way. */
int wp_read(wp_tensor *self, weft_dtype dtype, void *dst, size_t n);

/* Operation `op` of the table on Python arguments; `self`, if there is one, is its first. */
PyObject *wp_call(int op, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords);
/* Two or one arguments, by name of the operation. */
PyObject *wp_call_named(const char *name, PyObject *const *args, Py_ssize_t n);
/* (True, "") where the device runs that call itself, else (False, why): weft_device_supports. `keywords` names the last arguments. */
PyObject *wp_supports_named(const char *name, PyObject *const *args, Py_ssize_t n, PyObject *keywords);
/* Make one definition for each operation; `methods` those whose first parameter is a tensor. */
int wp_ops_init(PyObject *module, PyMethodDef **methods, int *n_methods);

/* Memory of a tensor that another object reads; wp_lent_back ends it. */
typedef struct wp_lent {
    weft_tensor *t;
    wp_device *device;
} wp_lent;
int wp_lend(wp_tensor *self, wp_lent *out, const void **data, int64_t *strides); /* 1: lent; 0: the device cannot; -1: raised */
void wp_lent_back(wp_lent *lent);
/* Evaluate, and where the elements lie: 1; 0: not in host memory; -1: raised. Without the interpreter's lock, as wp_eval. */
int wp_map(wp_device *device, weft_tensor *t, const void **data, int64_t *strides);
int wp_get_buffer(PyObject *self, Py_buffer *view, int flags);
void wp_release_buffer(PyObject *self, Py_buffer *view);

/* What keeps memory that a tensor reads; drop, which frees it, has the interpreter's lock. */
typedef struct wp_owner {
    struct wp_owner *next;
    void (*drop)(struct wp_owner *);
} wp_owner;
PyObject *wp_borrow(wp_device *device, weft_dtype dtype, int rank, const int64_t *shape, const int64_t *strides, const void *data, wp_owner *owner);
PyObject *wp_borrow_buffer(PyObject *module, PyObject *args);

PyObject *wp_dlpack(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *wp_from_dlpack(PyObject *module, PyObject *args);

#endif
