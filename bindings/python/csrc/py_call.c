/* py_call.c - a call from Python of any operation of the table.
 *
 * Arguments are matched to the operation's signature (weft_op_info), turned into the inputs and attributes of
 * weft_apply, and the results wrapped. Nothing here knows a single operation. Two notations are rewritten: NumPy's
 * axis and keepdims are dim and keepdim, and reshape(2, 3) is reshape((2, 3)).
 */
#include <stdio.h>
#include <string.h>

#include "py_weft.h"

enum {
    MAX_OPS = 1024,
    MAX_INPUTS = 256,
    MAX_INTS = 512,
    MAX_FLOATS = 16
};

/* What a call needs to know of an operation, with its names as Python strings. */
static struct op {
    const weft_op_info *info;
    PyObject *names[WEFT_MAX_PARAMS];
    int self_at; /* the parameter of t.NAME(..), or -1 */
    bool has_device;
} ops[MAX_OPS];
static int n_ops;

/* The arguments of one call. */
typedef struct call {
    const struct op *op;
    PyObject *given[WEFT_MAX_PARAMS];   /* borrowed; NULL: left out */
    PyObject *const *rest;              /* arguments that one parameter takes together, or NULL */
    Py_ssize_t n_rest;
    int rest_at;
    wp_device *device;                  /* owned */
    weft_tensor *inputs[MAX_INPUTS];
    int n_inputs;
    weft_attr attrs[WEFT_MAX_PARAMS];
    int n_attrs;
    int64_t ints[MAX_INTS];
    int n_ints;
    double floats[MAX_FLOATS];
    int n_floats;
    PyObject *generator;        /* of generator=, borrowed; NULL: none */
    PyObject *made[MAX_INPUTS + 2]; /* tensors made from arrays for this call, and the place of the generator */
    int n_made;
} call;

static bool is_int(PyObject *o) { return PyLong_Check(o) && !PyBool_Check(o); }

/* ---- which argument is which parameter ---- */

static int find_name(const struct op *op, PyObject *name)
{
    for (int i = 0; i < op->info->n_params; i++)
        if (op->names[i] == name)
            return i;
    for (int i = 0; i < op->info->n_params; i++)
        if (PyUnicode_Compare(op->names[i], name) == 0)
            return i;
    static const char *const alias[][2] = {{"axis", "dim"}, {"axis", "dims"}, {"axes", "dims"}, {"axes", "dim"}, {"keepdims", "keepdim"}, {"dims", "dim"}, {"x", "input"},
                                             {"unbiased", "correction"}, {"ddof", "correction"}, {"a", "input"}, {"a_min", "min"}, {"a_max", "max"}};
    for (size_t a = 0; a < sizeof alias / sizeof alias[0]; a++)
        if (PyUnicode_CompareWithASCIIString(name, alias[a][0]) == 0)
            for (int i = 0; i < op->info->n_params; i++)
                if (strcmp(op->info->params[i].name, alias[a][1]) == 0)
                    return i;
    return -1;
}

/* Whether an integer could be meant for the parameter after a list, so that it does not join the list. */
static bool takes_int(const weft_op_info *info, int i)
{
    if (i >= info->n_params)
        return false;
    weft_param_type t = info->params[i].type;
    return t == WEFT_PARAM_INT || t == WEFT_PARAM_INTS || t == WEFT_PARAM_INTS_OR_STRING || t == WEFT_PARAM_FLOAT || t == WEFT_PARAM_TENSOR;
}

static int match_positional(call *c, PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    const weft_op_info *info = c->op->info;
    Py_ssize_t at = 0;
    if (self)
        c->given[c->op->self_at] = self;
    for (int i = 0; at < n; i++) {
        if (i >= info->n_params) {
            PyErr_Format(PyExc_TypeError, "%s: %zd arguments, of which it takes %d: %s(%s)", info->name, n + (self != NULL), info->n_params,
                         info->name, info->signature);
            return -1;
        }
        if (self && i == c->op->self_at)
            continue;
        weft_param_type type = info->params[i].type;
        Py_ssize_t more = at + 1;
        if (type == WEFT_PARAM_TENSORS && !PyList_Check(args[at]) && !PyTuple_Check(args[at])) {
            while (more < n && wp_is_tensor(args[more]))
                more++;
        } else if ((type == WEFT_PARAM_INTS || type == WEFT_PARAM_INTS_OR_STRING) && is_int(args[at]) && !takes_int(info, i + 1)) {
            while (more < n && is_int(args[more]))
                more++;
        }
        if (type == WEFT_PARAM_INTS && PyBool_Check(args[at]) && i + 1 < info->n_params && strcmp(info->params[i + 1].name, "correction") == 0)
            i++; /* var(unbiased) */
        c->given[i] = args[at];
        if (more > at + 1 || type == WEFT_PARAM_TENSORS) {
            c->rest_at = i;
            c->rest = args + at;
            c->n_rest = more - at;
        }
        at = more;
    }
    return 0;
}

static int parameter_at(const struct op *op, const char *name)
{
    for (int i = 0; i < op->info->n_params; i++)
        if (strcmp(op->info->params[i].name, name) == 0)
            return i;
    return -1;
}

/* generator=: its seed and offset stand for those parameters. */
static int take_generator(call *c, PyObject *generator)
{
    static const char *const parts[] = {"seed", "offset"};
    if (generator == Py_None)
        return 0;
    for (int k = 0; k < 2; k++) {
        int i = parameter_at(c->op, parts[k]);
        PyObject *v = c->given[i] ? NULL : PyObject_GetAttrString(generator, k ? "_offset" : "_seed");
        if (!v) {
            PyErr_Format(PyExc_TypeError, c->given[i] ? "%s: %s is given beside a generator" : "%s: generator takes a weft.Generator", c->op->info->name, parts[k]);
            return -1;
        }
        c->made[c->n_made++] = c->given[i] = v;
    }
    c->generator = generator;
    return 0;
}

static int match_keywords(call *c, PyObject *const *args, PyObject *keywords)
{
    const weft_op_info *info = c->op->info;
    Py_ssize_t n = PyTuple_Size(keywords);
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *name = PyTuple_GetItem(keywords, k);
        int i = find_name(c->op, name);
        if (i < 0 && parameter_at(c->op, "seed") >= 0 && PyUnicode_CompareWithASCIIString(name, "generator") == 0) {
            if (take_generator(c, args[k]) < 0)
                return -1;
            continue;
        }
        if (i < 0 && !c->op->has_device && PyUnicode_CompareWithASCIIString(name, "device") == 0) {
            if (!(c->device = wp_device_of(args[k])))
                return -1;
            continue;
        }
        if (i < 0) {
            PyErr_Format(PyExc_TypeError, "%s: no parameter %U: %s(%s)", info->name, name, info->name, info->signature);
            return -1;
        }
        if (c->given[i]) {
            PyErr_Format(PyExc_TypeError, "%s: %s is given twice", info->name, info->params[i].name);
            return -1;
        }
        c->given[i] = args[k];
    }
    return 0;
}

/* ---- values ---- */

static int wrong(const call *c, int i, const char *wanted, PyObject *o)
{
    PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
    if (type)
        PyErr_Format(PyExc_TypeError, "%s: %s takes %s, not %U", c->op->info->name, c->op->info->params[i].name, wanted, type);
    Py_XDECREF(type);
    return -1;
}

/* An integer of Python, NumPy or a tensor. */
static int to_int64(const call *c, int i, PyObject *o, int64_t *out)
{
    PyObject *whole = PyLong_Check(o) ? NULL : PyNumber_Index(o);
    if (!PyLong_Check(o) && !whole) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError))
            return -1;
        PyErr_Clear();
        return wrong(c, i, "an integer", o);
    }
    int overflow = 0;
    *out = PyLong_AsLongLongAndOverflow(whole ? whole : o, &overflow);
    Py_XDECREF(whole);
    if (overflow) {
        PyErr_Format(PyExc_OverflowError, "%s: %s is beyond 64 bits", c->op->info->name, c->op->info->params[i].name);
        return -1;
    }
    return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static int add_ints(call *c, int i, PyObject *o, weft_attr *a)
{
    bool many = c->rest && c->rest_at == i;
    Py_ssize_t n = many ? c->n_rest : PyUnicode_Check(o) ? -1 : PySequence_Size(o);
    if (n < 0) {
        PyErr_Clear();
        return wrong(c, i, "a list of integers", o);
    }
    if (n > MAX_INTS - c->n_ints) {
        PyErr_Format(PyExc_ValueError, "%s: %s has %zd numbers, at most %d fit a call", c->op->info->name, c->op->info->params[i].name, n, MAX_INTS);
        return -1;
    }
    a->kind = WEFT_ATTR_INTS;
    a->ints = c->ints + c->n_ints;
    a->n_ints = (int)n;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *item = many ? c->rest[k] : PySequence_GetItem(o, k);
        int bad = item ? to_int64(c, i, item, &c->ints[c->n_ints]) : -1;
        if (!many)
            Py_XDECREF(item);
        if (bad)
            return -1;
        c->n_ints++;
    }
    return 0;
}

static int add_floats(call *c, int i, PyObject *o, weft_attr *a)
{
    Py_ssize_t n = PyUnicode_Check(o) ? -1 : PySequence_Size(o);
    if (n < 0) {
        PyErr_Clear();
        return wrong(c, i, "a number or a list of numbers", o);
    }
    if (n > MAX_FLOATS - c->n_floats) {
        PyErr_Format(PyExc_ValueError, "%s: %s has %zd numbers, at most %d fit a call", c->op->info->name, c->op->info->params[i].name, n, MAX_FLOATS);
        return -1;
    }
    a->kind = WEFT_ATTR_FLOATS;
    a->floats = c->floats + c->n_floats;
    a->n_ints = (int)n;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *item = PySequence_GetItem(o, k);
        double v = item ? PyFloat_AsDouble(item) : -1;
        Py_XDECREF(item);
        if (v == -1 && PyErr_Occurred())
            return -1;
        c->floats[c->n_floats++] = v;
    }
    return 0;
}

/* All tensors of a call live on one device. */
static int same_device(const call *c, int i, const wp_tensor *t)
{
    if (t->device == c->device)
        return 0;
    PyObject *a = PyObject_Repr((PyObject *)t->device), *b = PyObject_Repr((PyObject *)c->device);
    PyObject *text = a && b ? PyUnicode_FromFormat("%s: %s is on %U, the call on %U%s", c->op->info->name, c->op->info->params[i].name, a, b,
                                                   PyUnicode_Compare(a, b) == 0 ? " that was opened apart" : "")
                            : NULL;
    PyObject *utf8 = text ? PyUnicode_AsUTF8String(text) : NULL;
    if (utf8)
        wp_raise(WEFT_E_CONTEXT, PyBytes_AsString(utf8));
    Py_XDECREF(utf8);
    Py_XDECREF(text);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return -1;
}

static int add_input(call *c, int i, PyObject *o)
{
    if (c->n_inputs >= MAX_INPUTS) {
        PyErr_Format(PyExc_ValueError, "%s: more than %d tensors", c->op->info->name, MAX_INPUTS);
        return -1;
    }
    if (o && !wp_is_tensor(o)) {
        if (!wp.as_tensor || !(o = PyObject_CallFunctionObjArgs(wp.as_tensor, o, c->device ? (PyObject *)c->device : Py_None, NULL))) {
            if (PyErr_ExceptionMatches(PyExc_TypeError)) {
                PyErr_Clear();
                return wrong(c, i, "a tensor", c->given[i]);
            }
            return -1;
        }
        c->made[c->n_made++] = o;
    }
    if (o && same_device(c, i, (const wp_tensor *)o) < 0)
        return -1;
    c->inputs[c->n_inputs++] = o ? ((wp_tensor *)o)->t : NULL;
    return 0;
}

static int add_tensors(call *c, int i, PyObject *o)
{
    bool many = c->rest && c->rest_at == i && !PyList_Check(o) && !PyTuple_Check(o);
    Py_ssize_t n = many ? c->n_rest : PySequence_Size(o);
    if (n < 0) {
        PyErr_Clear();
        return wrong(c, i, "a list of tensors", o);
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *item = many ? c->rest[k] : PySequence_GetItem(o, k);
        int bad = item ? add_input(c, i, item == Py_None ? NULL : item) : -1; /* None: absent, where the operation knows it */
        if (!many) /* the sequence keeps it during the call */
            Py_XDECREF(item);
        if (bad)
            return -1;
    }
    return 0;
}

/* A scalar of NumPy, which is a number and neither an array nor a sequence. */
static bool is_scalar(PyObject *o)
{
    return !wp_is_tensor(o) && !PySequence_Check(o) && PyObject_HasAttrString(o, "__array__") && PyObject_HasAttrString(o, "item") &&
           (PyIndex_Check(o) || PyNumber_Check(o));
}

/* Whether a tensor of the call holds no floats: then a number is a whole one. */
static bool beside_integers(const call *c)
{
    for (int i = 0; i < c->op->info->n_params; i++)
        if (c->given[i] && wp_is_tensor(c->given[i]) && !weft_dtype_is_float(weft_tensor_dtype(((wp_tensor *)c->given[i])->t)))
            return true;
    return false;
}

static int require_64_bits(const call *c, int i, PyObject *o)
{
    int overflow = 0;
    PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow)
        return 0;
    PyErr_Format(PyExc_OverflowError, "%s: %s is beyond 64 bits", c->op->info->name, c->op->info->params[i].name);
    return -1;
}

static int add_number(weft_attr *a, PyObject *o)
{
    if (!PyLong_Check(o) && !PyFloat_Check(o) && is_scalar(o)) {
        PyObject *plain = PyObject_CallMethod(o, "item", NULL);
        int bad = !plain || (!PyLong_Check(plain) && !PyFloat_Check(plain));
        if (plain && bad)
            PyErr_SetString(PyExc_TypeError, "a scalar that is no real number");
        if (!bad)
            bad = add_number(a, plain) < 0;
        Py_XDECREF(plain);
        return bad ? -1 : 0;
    }
    if (PyBool_Check(o)) {
        a->kind = WEFT_ATTR_BOOL;
        a->i = o == Py_True;
    } else if (PyLong_Check(o)) {
        int overflow = 0;
        a->kind = WEFT_ATTR_INT;
        a->i = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow) {
            a->kind = WEFT_ATTR_FLOAT;
            a->f = PyLong_AsDouble(o);
            if (PyErr_Occurred())
                return -1;
        }
    } else {
        a->kind = WEFT_ATTR_FLOAT;
        a->f = PyFloat_AsDouble(o);
    }
    return 0;
}

static int add_param(call *c, int i)
{
    const weft_param_info *p = &c->op->info->params[i];
    PyObject *o = c->given[i];
    if (p->type == WEFT_PARAM_TENSORS)
        return o ? add_tensors(c, i, o) : 0;
    if (p->type == WEFT_PARAM_TENSOR) {
        if (!o || o == Py_None) {
            if (!p->optional) {
                PyErr_Format(PyExc_TypeError, "%s: %s is missing: %s(%s)", c->op->info->name, p->name, c->op->info->name, c->op->info->signature);
                return -1;
            }
            return add_input(c, i, NULL);
        }
        if (!PyLong_Check(o) && !PyFloat_Check(o) && !is_scalar(o))
            return add_input(c, i, o);
        if (PyLong_Check(o) && beside_integers(c) && require_64_bits(c, i, o) < 0)
            return -1;
    }
    if (!o)
        return 0; /* the table has its default */
    weft_attr *a = &c->attrs[c->n_attrs++];
    *a = (weft_attr){.position = i, .kind = WEFT_ATTR_NONE};
    if (o == Py_None)
        return 0;
    switch (p->type) {
    case WEFT_PARAM_INT:
        a->kind = WEFT_ATTR_INT;
        return to_int64(c, i, o, &a->i);
    case WEFT_PARAM_FLOATS:
        if (!PyLong_Check(o) && !PyFloat_Check(o) && PySequence_Check(o))
            return add_floats(c, i, o, a);
        /* fall through */
    case WEFT_PARAM_FLOAT:
        if (PyLong_Check(o) || PyFloat_Check(o) || is_scalar(o))
            return add_number(a, o);
        a->kind = WEFT_ATTR_FLOAT;
        a->f = PyFloat_AsDouble(o);
        if (a->f == -1 && PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_TypeError))
                return -1;
            PyErr_Clear();
            return wrong(c, i, "a number", o);
        }
        return 0;
    case WEFT_PARAM_BOOL: {
        int truth = PyUnicode_Check(o) ? -1 : PyObject_IsTrue(o);
        a->kind = WEFT_ATTR_BOOL;
        a->i = truth;
        return truth < 0 && !PyErr_Occurred() ? wrong(c, i, "a bool", o) : truth < 0 ? -1 : 0;
    }
    case WEFT_PARAM_INTS_OR_STRING:
        if (PyUnicode_Check(o)) {
            a->kind = WEFT_ATTR_STRING;
            return (a->s = PyUnicode_AsUTF8AndSize(o, NULL)) ? 0 : -1;
        } /* fall through */
    case WEFT_PARAM_INTS:
        if (is_int(o) && !(c->rest && c->rest_at == i)) {
            a->kind = WEFT_ATTR_INT;
            return to_int64(c, i, o, &a->i);
        }
        if (!PyLong_Check(o) && !PySequence_Check(o)) {
            a->kind = WEFT_ATTR_INT;
            return to_int64(c, i, o, &a->i);
        }
        return add_ints(c, i, o, a);
    case WEFT_PARAM_STRING:
        a->kind = WEFT_ATTR_STRING;
        if (!PyUnicode_Check(o))
            return wrong(c, i, "a string", o);
        return (a->s = PyUnicode_AsUTF8AndSize(o, NULL)) ? 0 : -1;
    case WEFT_PARAM_DTYPE: {
        PyObject *dtype = PyLong_Check(o) || !wp.as_dtype ? Py_NewRef(o) : PyObject_CallFunctionObjArgs(wp.as_dtype, o, NULL);
        a->kind = WEFT_ATTR_DTYPE;
        a->i = dtype ? PyLong_AsLong(dtype) : -1;
        Py_XDECREF(dtype);
        return PyErr_Occurred() ? -1 : 0;
    }
    default: return add_number(a, o);
    }
}

/* ---- the call ---- */

/* Results leave the scope of the call and become Python's; the first error among them is raised. */
static PyObject *wrap_outputs(const weft_outputs *out, wp_device *device)
{
    for (int k = 0; k < out->n; k++)
        if (weft_tensor_status(out->tensor[k]) != WEFT_OK) {
            wp_raise(weft_tensor_status(out->tensor[k]), weft_tensor_message(out->tensor[k]));
            for (int i = 0; i < out->n && wp.unscoped; i++)
                weft_tensor_release(out->tensor[i]);
            return NULL;
        }
    if (out->n == 1)
        return wp_wrap(weft_keep(out->tensor[0]), device);
    PyObject *all = PyTuple_New(out->n);
    for (int k = 0; all && k < out->n; k++) {
        PyObject *one = wp_wrap(weft_keep(out->tensor[k]), device);
        if (!one || PyTuple_SetItem(all, k, one) < 0)
            Py_CLEAR(all);
    }
    return all;
}

static wp_device *find_device(const call *c)
{
    for (int i = 0; i < c->op->info->n_params; i++)
        if (c->given[i] && wp_is_tensor(c->given[i]))
            return ((wp_tensor *)c->given[i])->device;
    for (int i = 0; i < c->op->info->n_params; i++) {
        PyObject *o = c->given[i];
        if (!o || c->op->info->params[i].type != WEFT_PARAM_TENSORS || !(PyList_Check(o) || PyTuple_Check(o)) || PySequence_Size(o) < 1)
            continue;
        PyObject *first = PySequence_GetItem(o, 0);
        wp_device *device = first && wp_is_tensor(first) ? ((wp_tensor *)first)->device : NULL;
        Py_XDECREF(first);
        if (device)
            return device;
    }
    return wp_default();
}

/* What weft_apply needs of the arguments; 0, or -1: raised. `end_call` is due either way. */
static int prepare(call *c, int index, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    c->op = &ops[index];
    memset(c->given, 0, sizeof c->given);
    c->rest = NULL;
    c->device = NULL;
    c->generator = NULL;
    c->n_inputs = c->n_attrs = c->n_ints = c->n_floats = c->n_made = 0;
    if (match_positional(c, self, args, n) < 0 || (keywords && match_keywords(c, args + n, keywords) < 0))
        return -1;
    if (!c->device) {
        c->device = find_device(c);
        if (!c->device)
            return -1;
        Py_INCREF((PyObject *)c->device);
    }
    for (int i = 0; i < c->op->info->n_params; i++)
        if (add_param(c, i) < 0)
            return -1;
    while (c->n_inputs > 0 && !c->inputs[c->n_inputs - 1])
        c->n_inputs--;
    if (!c->device->ctx) {
        wp_raise(WEFT_E_CONTEXT, "the device is closed");
        return -1;
    }
    return 0;
}

static void end_call(call *c)
{
    for (int k = 0; k < c->n_made; k++)
        Py_DECREF(c->made[k]);
    Py_XDECREF((PyObject *)c->device);
}

/* A call draws at most as many numbers as its largest operand or result has elements: the generator goes on behind them. */
static int advance(const call *c, const weft_outputs *out)
{
    int64_t n = 0;
    for (int k = 0; k < c->n_inputs; k++)
        n = c->inputs[k] && weft_tensor_numel(c->inputs[k]) > n ? weft_tensor_numel(c->inputs[k]) : n;
    for (int k = 0; k < out->n; k++)
        n = weft_tensor_numel(out->tensor[k]) > n ? weft_tensor_numel(out->tensor[k]) : n;
    PyObject *done = PyObject_CallMethod(c->generator, "_advance", "L", (long long)n);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

PyObject *wp_call(int index, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    call c;
    PyObject *result = NULL;
    if (prepare(&c, index, self, args, n, keywords) < 0)
        goto done;
    weft_outputs out;
    weft_scope *scope = wp.unscoped ? NULL : weft_scope_begin(c.device->ctx);
    if (!scope && !wp.unscoped) {
        wp_raise_last(WEFT_E_OOM);
        goto done;
    }
    weft_status st = weft_apply(c.device->ctx, c.op->info->name, c.inputs, c.n_inputs, &(weft_attrs){c.attrs, c.n_attrs}, &out);
    result = st == WEFT_OK ? wrap_outputs(&out, c.device) : wp_raise_last(st);
    if (result && c.generator && advance(&c, &out) < 0)
        Py_CLEAR(result);
    weft_scope_end(scope);
done:
    end_call(&c);
    return result;
}

static PyObject *supports(int index, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    call c;
    PyObject *result = NULL;
    weft_operand operands[MAX_INPUTS];
    weft_support answer;
    if (prepare(&c, index, NULL, args, n, keywords) == 0) {
        weft_status st = WEFT_OK;
        for (int k = 0; k < c.n_inputs && st == WEFT_OK; k++) {
            if (c.inputs[k])
                operands[k] = (weft_operand){weft_tensor_dtype(c.inputs[k]), weft_tensor_rank(c.inputs[k]), weft_tensor_shape(c.inputs[k])};
            else
                st = WEFT_E_UNSUPPORTED;
        }
        if (st == WEFT_OK)
            st = weft_device_supports(c.device->ctx, c.op->info->name, operands, c.n_inputs, &(weft_attrs){c.attrs, c.n_attrs}, &answer);
        else
            weft_fail(st, "device_supports: an operand before the last is left out");
        result = st == WEFT_OK ? Py_BuildValue("(ON)", answer.native ? Py_True : Py_False, wp_text(answer.reason)) : wp_raise_last(st);
    }
    end_call(&c);
    return result;
}

static int index_of(const char *name)
{
    for (int i = 0; i < n_ops; i++)
        if (strcmp(ops[i].info->name, name) == 0)
            return i;
    return -1;
}

PyObject *wp_supports_named(const char *name, PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
    int i = index_of(name);
    return i < 0 ? PyErr_Format(PyExc_NotImplementedError, "this build of weft has no operation %s", name) : supports(i, args, n, keywords);
}

PyObject *wp_call_named(const char *name, PyObject *const *args, Py_ssize_t n)
{
    int i = index_of(name);
    if (i < 0)
        return PyErr_Format(PyExc_NotImplementedError, "this build of weft has no operation %s", name);
    return wp_call(i, NULL, args, n, NULL);
}

/* ---- one C function for each row ----
 * A method descriptor hands its function self and the arguments, but not which method it is. So there is one small
 * function for each number, and the definitions made at import pair them with the names of the table. */
#define ENTRY(n) \
    static PyObject *entry_##n(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) \
    { return wp_call(0x##n, self, args, count, keywords); }
#define ROW(M, n) M(n##0) M(n##1) M(n##2) M(n##3) M(n##4) M(n##5) M(n##6) M(n##7) M(n##8) M(n##9) M(n##a) M(n##b) M(n##c) M(n##d) M(n##e) M(n##f)
#define BLOCK(M, n) ROW(M, n##0) ROW(M, n##1) ROW(M, n##2) ROW(M, n##3) ROW(M, n##4) ROW(M, n##5) ROW(M, n##6) ROW(M, n##7) \
    ROW(M, n##8) ROW(M, n##9) ROW(M, n##a) ROW(M, n##b) ROW(M, n##c) ROW(M, n##d) ROW(M, n##e) ROW(M, n##f)
BLOCK(ENTRY, 0)
BLOCK(ENTRY, 1)
BLOCK(ENTRY, 2)
BLOCK(ENTRY, 3)
#define NAME(n) entry_##n,
static PyObject *(*const entries[])(PyObject *, PyObject *const *, Py_ssize_t, PyObject *) = {BLOCK(NAME, 0) BLOCK(NAME, 1) BLOCK(NAME, 2) BLOCK(NAME, 3)};

static PyMethodDef functions[MAX_OPS + 1], methods[MAX_OPS + 1];

static char *doc_of(const weft_op_info *info)
{
    const char *form = "%s(%s)\n\n%s\n\nLargest error: %s. %s.";
    size_t room = strlen(info->name) + strlen(info->signature) + strlen(info->doc) + strlen(info->bound) + 80;
    char *doc = PyMem_Malloc(room);
    if (doc)
        snprintf(doc, room, form, info->name, info->signature, info->doc, info->bound, info->differentiable ? "Differentiable" : "Not differentiable");
    return doc;
}

int wp_ops_init(PyObject *module, PyMethodDef **out, int *n_out)
{
    int n_methods = 0;
    n_ops = weft_op_count();
    if (n_ops > (int)(sizeof entries / sizeof entries[0])) {
        PyErr_Format(PyExc_ImportError, "weft: the table has %d operations, this module room for %zu", n_ops, sizeof entries / sizeof entries[0]);
        return -1;
    }
    PyObject *module_name = PyUnicode_FromString("weft");
    for (int i = 0; i < n_ops; i++) {
        const weft_op_info *info = ops[i].info = weft_op_at(i);
        ops[i].self_at = info->n_params > 0 && info->params[0].type == WEFT_PARAM_TENSOR ? 0 : -1;
        for (int p = 0; p < info->n_params; p++) {
            ops[i].has_device |= strcmp(info->params[p].name, "device") == 0;
            if (!(ops[i].names[p] = PyUnicode_InternFromString(info->params[p].name)))
                return -1;
        }
        functions[i] = (PyMethodDef){info->name, (PyCFunction)(void (*)(void))entries[i], METH_FASTCALL | METH_KEYWORDS, doc_of(info)};
        if (ops[i].self_at == 0)
            methods[n_methods++] = functions[i];
        PyObject *f = PyCFunction_NewEx(&functions[i], NULL, module_name);
        int bad = !f || PyModule_AddObjectRef(module, info->name, f) < 0;
        Py_XDECREF(f);
        if (bad)
            return -1;
    }
    Py_XDECREF(module_name);
    *out = methods;
    *n_out = n_methods;
    return 0;
}
