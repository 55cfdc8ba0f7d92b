/* py_device.c - the Device type, evaluation without the interpreter's lock, Ctrl-C, and errors as exceptions. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "py_weft.h"

static _Thread_local bool is_main;

/* ---- errors ---- */

static const struct {
    weft_status status;
    const char *name, *doc;
    PyObject **builtin;
} errors[] = {
    {WEFT_E_SHAPE, "weft.ShapeError", "Shapes, ranks or axes that do not fit.", &PyExc_ValueError},
    {WEFT_E_DTYPE, "weft.DtypeError", "A dtype that the operation does not take.", &PyExc_TypeError},
    {WEFT_E_VALUE, "weft.ArgumentError", "Any other argument out of its range.", &PyExc_ValueError},
    {WEFT_E_INDEX, "weft.IndexError", "An index outside its axis.", &PyExc_IndexError},
    {WEFT_E_UNSUPPORTED, "weft.UnsupportedError", "Right, but not possible on this device or in this build.", &PyExc_NotImplementedError},
    {WEFT_E_OOM, "weft.OutOfMemoryError", "Out of host or device memory.", &PyExc_MemoryError},
    {WEFT_E_TIMEOUT, "weft.TimeoutError", "A bounded wait ran out.", &PyExc_TimeoutError},
};

int wp_errors_init(PyObject *module)
{
    is_main = true; /* the thread that imports; in any other Ctrl-C waits for the end of an evaluation */
    wp.error = PyErr_NewExceptionWithDoc("weft.Error", "Any failure of weft; `status` is the name of its code.", NULL, NULL);
    if (!wp.error || PyModule_AddObjectRef(module, "Error", wp.error) < 0)
        return -1;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        PyObject *bases = PyTuple_Pack(2, wp.error, *errors[i].builtin);
        PyObject *e = bases ? PyErr_NewExceptionWithDoc(errors[i].name, errors[i].doc, bases, NULL) : NULL;
        Py_XDECREF(bases);
        if (!e || PyModule_AddObjectRef(module, strchr(errors[i].name, '.') + 1, e) < 0)
            return -1;
        PyObject *code = PyUnicode_FromString(weft_status_name(errors[i].status)); /* for those that the package raises */
        int bad = !code || PyObject_SetAttrString(e, "status", code) < 0;
        Py_XDECREF(code);
        if (bad)
            return -1;
        wp.status_error[errors[i].status] = e;
    }
    return 0;
}

PyObject *wp_text(const char *text) { return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"); }

PyObject *wp_raise(weft_status st, const char *sentence)
{
    PyObject *type = (unsigned)st < WEFT_STATUS_COUNT && wp.status_error[st] ? wp.status_error[st] : wp.error;
    PyObject *text = wp_text(sentence && *sentence ? sentence : weft_status_name(st));
    PyObject *e = text ? PyObject_CallFunctionObjArgs(type, text, NULL) : NULL;
    Py_XDECREF(text);
    PyObject *name = PyUnicode_FromString(weft_status_name(st));
    if (e && name && PyObject_SetAttrString(e, "status", name) == 0)
        PyErr_SetObject(type, e);
    Py_XDECREF(name);
    Py_XDECREF(e);
    return NULL;
}

PyObject *wp_raise_last(weft_status st) { return wp_raise(st, weft_error_message()); }

/* ---- Ctrl-C ----
 * Python's handler only sets a flag that nobody looks at while an evaluation runs, so ours stands before it and asks
 * the context to stop as well. Python raises KeyboardInterrupt in its main thread alone: only that is watched. */
static weft_ctx *_Atomic running;
static atomic_int interrupted;
static struct sigaction python_action;

static void on_interrupt(int number, siginfo_t *info, void *context)
{
    weft_ctx *ctx = atomic_load(&running);
    if (ctx) {
        atomic_store(&interrupted, 1);
        weft_cancel(ctx);
    }
    if (python_action.sa_flags & SA_SIGINFO)
        python_action.sa_sigaction(number, info, context);
    else if (python_action.sa_handler != SIG_DFL && python_action.sa_handler != SIG_IGN)
        python_action.sa_handler(number);
}

/* signal.signal() in Python puts Python's handler back, so it is looked at before each evaluation. */
static void watch(wp_device *device)
{
    if (!is_main)
        return;
    struct sigaction now;
    if (sigaction(SIGINT, NULL, &now) == 0 && !((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_interrupt) &&
        ((now.sa_flags & SA_SIGINFO) || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN))) {
        python_action = now;
        struct sigaction ours = {.sa_sigaction = on_interrupt, .sa_flags = SA_SIGINFO | (now.sa_flags & (SA_RESTART | SA_ONSTACK))};
        ours.sa_mask = now.sa_mask;
        sigaction(SIGINT, &ours, NULL);
    }
    atomic_store(&interrupted, 0);
    atomic_store(&running, device->ctx);
}

static int unwatch(wp_device *device, weft_status st)
{
    if (is_main) {
        atomic_store(&running, NULL);
        if (atomic_exchange(&interrupted, 0)) {
            weft_cancel_clear(device->ctx);
            if (PyErr_CheckSignals() < 0)
                return -1;
        }
    }
    if (st == WEFT_OK)
        return 0;
    wp_raise_last(st);
    return -1;
}

int wp_eval(wp_device *device, weft_tensor *const *tensors, int n)
{
    weft_status st;
    if (!device->ctx)
        return wp_raise(WEFT_E_CONTEXT, "the device is closed"), -1;
    watch(device);
    Py_BEGIN_ALLOW_THREADS
    st = weft_eval(tensors, n);
    Py_END_ALLOW_THREADS
    return unwatch(device, st);
}

int wp_map(wp_device *device, weft_tensor *t, const void **data, int64_t *strides)
{
    weft_status st;
    watch(device);
    Py_BEGIN_ALLOW_THREADS
    st = weft_tensor_map(t, data, strides);
    Py_END_ALLOW_THREADS
    if (st == WEFT_E_UNSUPPORTED)
        return unwatch(device, WEFT_OK);
    return unwatch(device, st) < 0 ? -1 : 1;
}

int wp_read(wp_tensor *self, weft_dtype dtype, void *dst, size_t n)
{
    weft_status st;
    if (!self->device->ctx)
        return wp_raise(WEFT_E_CONTEXT, "the device is closed"), -1;
    wp_device *device = (wp_device *)Py_NewRef((PyObject *)self->device);
    weft_tensor *t = weft_tensor_retain(self->t); /* another thread may assign to the Python tensor meanwhile */
    static char nowhere;
    void *to = n ? dst : &nowhere;
    watch(device);
    Py_BEGIN_ALLOW_THREADS
    st = dtype == weft_tensor_dtype(t) ? weft_read(t, to, n) : weft_read_as(t, dtype, to, n);
    Py_END_ALLOW_THREADS
    int bad = unwatch(device, st);
    weft_tensor_release(t);
    Py_DECREF((PyObject *)device);
    return bad;
}

/* ---- devices ---- */

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"spec", "n_threads", "webgpu_lib", "webgpu_get_proc", "trace_path", "cache_dir", NULL};
    const char *spec = NULL, *lib = NULL, *trace = NULL, *cache = NULL;
    int n_threads = 0;
    unsigned long long proc = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|z$izKzz:Device", names, &spec, &n_threads, &lib, &proc, &trace, &cache))
        return NULL;
    weft_ctx_opts opts = {.device = spec, .n_threads = n_threads, .webgpu_lib = lib, .webgpu_get_proc = (void *)(uintptr_t)proc, .trace_path = trace,
                          .cache_dir = cache};
    weft_ctx *ctx = NULL;
    weft_status st;
    Py_BEGIN_ALLOW_THREADS
    st = weft_ctx_open(&opts, &ctx);
    Py_END_ALLOW_THREADS
    if (st != WEFT_OK)
        return wp_raise_last(st);
    wp_device *self = PyObject_New(wp_device, type);
    weft_device_info info;
    const char *name = weft_ctx_device(ctx, &info) == WEFT_OK ? info.spec : spec ? spec : "auto";
    PyObject *text = wp_text(name);
    if (!self || !text) {
        Py_XDECREF(text);
        if (self)
            PyObject_Free(self);
        weft_ctx_close(ctx);
        return NULL;
    }
    self->ctx = ctx;
    self->closing = NULL;
    self->n_lent = 0;
    self->spec = text;
    return (PyObject *)self;
}

static PyObject *device_close(PyObject *o, PyObject *unused)
{
    wp_device *self = (wp_device *)o;
    weft_ctx *ctx = self->ctx;
    self->ctx = NULL;
    if (ctx && self->n_lent > 0) { /* arrays still read its memory: it goes with the last of them */
        self->closing = ctx;
        Py_RETURN_NONE;
    }
    Py_BEGIN_ALLOW_THREADS
    weft_ctx_close(ctx);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static void device_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    weft_ctx_close(((wp_device *)o)->ctx);
    Py_XDECREF(((wp_device *)o)->spec);
    PyObject_Free(o);
    Py_DECREF(type);
}

static PyObject *device_repr(PyObject *o)
{
    return PyUnicode_FromFormat("device(%R)", ((wp_device *)o)->spec);
}

static PyObject *device_str(PyObject *o, void *unused) { return Py_NewRef(((wp_device *)o)->spec); }

static PyObject *device_info(PyObject *o, PyObject *unused)
{
    weft_device_info d;
    weft_status st = weft_ctx_device(((wp_device *)o)->ctx, &d);
    if (st != WEFT_OK)
        return wp_raise_last(st);
    return Py_BuildValue("{sN sN sN sN sN sN sK si}", "spec", wp_text(d.spec), "kind", wp_text(d.kind), "name", wp_text(d.name), "driver",
                         wp_text(d.driver), "implementation", wp_text(d.implementation), "backend", wp_text(d.backend), "memory_bytes",
                         (unsigned long long)d.memory_bytes, "n_threads", (int)d.n_threads);
}

static PyObject *device_stats(PyObject *o, PyObject *unused)
{
    weft_stats s;
    weft_status st = weft_ctx_stats(((wp_device *)o)->ctx, &s);
    if (st != WEFT_OK)
        return wp_raise_last(st);
    return Py_BuildValue("{sK sK sK sK sK sK sK sK sK sK sK sK}", "evals", s.evals, "plans_built", s.plans_built, "plans_reused", s.plans_reused,
                         "buffers_live", s.buffers_live, "bytes_live", s.bytes_live, "bytes_peak", s.bytes_peak, "dispatches", s.dispatches,
                         "submits", s.submits, "fallbacks", s.fallbacks, "handles_live", s.handles_live,
                         "texts_generated", s.texts_generated, "cache_found", s.cache_found);
}

static PyObject *device_sync(PyObject *o, PyObject *unused)
{
    weft_status st;
    weft_ctx *ctx = ((wp_device *)o)->ctx;
    Py_BEGIN_ALLOW_THREADS
    st = weft_ctx_sync(ctx);
    Py_END_ALLOW_THREADS
    return st == WEFT_OK ? Py_NewRef(Py_None) : wp_raise_last(st);
}

/* Seed the device's own stream of random numbers. */
static PyObject *device_seed(PyObject *o, PyObject *seed)
{
    wp_device *self = (wp_device *)o;
    PyObject *whole = PyNumber_Index(seed);
    if (!whole)
        return NULL;
    unsigned long long v = PyLong_AsUnsignedLongLongMask(whole); /* the package checks the range: a negative seed is that many below 2^64 */
    Py_DECREF(whole);
    if (v == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    if (!self->ctx)
        return wp_raise(WEFT_E_CONTEXT, "the device is closed");
    weft_status st = weft_manual_seed(self->ctx, v);
    return st == WEFT_OK ? Py_NewRef(Py_None) : wp_raise_last(st);
}

static PyMethodDef device_methods[] = {
    {"_manual_seed", device_seed, METH_O, NULL},
    {"close", device_close, METH_NOARGS, "Close it; its tensors then report an error. Arrays that share its memory stay as they are."},
    {"info", device_info, METH_NOARGS, "What it is, a dict."},
    {"stats", device_stats, METH_NOARGS, "What it did since it was opened, a dict."},
    {"sync", device_sync, METH_NOARGS, "Wait for everything submitted."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef device_getset[] = {{"spec", device_str, NULL, "what opens it", NULL}, {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject *wp_device_type(void)
{
    PyType_Slot slots[] = {
        {Py_tp_new, device_new}, {Py_tp_dealloc, device_dealloc}, {Py_tp_repr, device_repr}, {Py_tp_methods, device_methods},
        {Py_tp_getset, device_getset}, {Py_tp_doc, "An open device. weft.device(SPEC) opens each once."}, {0, NULL},
    };
    PyType_Spec spec = {"weft.Device", sizeof(wp_device), 0, Py_TPFLAGS_DEFAULT, slots};
    return (PyTypeObject *)PyType_FromSpec(&spec);
}

wp_device *wp_default(void)
{
    if (!wp.current) {
        if (!wp.as_device)
            return (wp_device *)PyErr_Format(PyExc_RuntimeError, "weft is not imported completely");
        PyObject *device = PyObject_CallFunction(wp.as_device, "O", Py_None);
        if (!device || !wp_is_device(device)) {
            Py_XDECREF((PyObject *)device);
            return NULL;
        }
        wp.current = (wp_device *)device;
    }
    return wp.current;
}

wp_device *wp_device_of(PyObject *o)
{
    if (o == Py_None) {
        wp_device *d = wp_default();
        return d ? (wp_device *)Py_NewRef((PyObject *)d) : NULL;
    }
    if (wp_is_device(o))
        return (wp_device *)Py_NewRef(o);
    PyObject *d = wp.as_device ? PyObject_CallFunctionObjArgs(wp.as_device, o, NULL) : NULL;
    if (d && !wp_is_device(d)) {
        Py_DECREF(d);
        PyErr_SetString(PyExc_TypeError, "device takes a device or its name");
        return NULL;
    }
    return (wp_device *)d;
}
