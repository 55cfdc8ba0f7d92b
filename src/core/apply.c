/* apply.c - every operation by its name: the table made from functions.def, and weft_apply.
 *
 * Signatures are parsed once, when the table is first asked for. A call puts its inputs and attributes into slots,
 * one a parameter, and hands them to the row's function, which unpacks them for the builder.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "functions.h"

/* ---- rows ---- */
typedef struct row {
    const char *name, *section, *signature, *bound, *doc;
    bool differentiable;
    void (*call)(const wf_call *c);
} row;

#define WF_FN_SECTION(name)
#define WF_FN(name, signature, diff, bound, doc, call) static void call_##name(const wf_call *c) { call; }
#include "functions_calls.h"
#include "functions.def"
#undef WF_FN_SECTION
#undef WF_FN

static const row rows[] = {
#define WF_FN_SECTION(name) {NULL, name, NULL, NULL, NULL, false, NULL},
#define WF_FN(name, signature, diff, bound, doc, call) {#name, NULL, signature, bound, doc, diff, call_##name},
#include "functions.def"
#undef WF_FN_SECTION
#undef WF_FN
};

enum { MAX_OPS = WF_COUNT(rows) };

static weft_op_info info[MAX_OPS];
static void (*calls[MAX_OPS])(const wf_call *);
static int16_t by_name[MAX_OPS];
static int n_ops;

/* ---- signatures ---- */

static const struct {
    const char *name;
    weft_param_type type;
} type_names[] = {
    {"Tensors", WEFT_PARAM_TENSORS}, {"Tensor", WEFT_PARAM_TENSOR}, {"ints", WEFT_PARAM_INTS},     {"int", WEFT_PARAM_INT},
    {"float", WEFT_PARAM_FLOAT},     {"bool", WEFT_PARAM_BOOL},     {"str", WEFT_PARAM_STRING},    {"dtype", WEFT_PARAM_DTYPE},
    {"ints|str", WEFT_PARAM_INTS_OR_STRING}, {"floats", WEFT_PARAM_FLOATS},
};

static void copy_word(char *dst, size_t size, const char *from, size_t n)
{
    n = WF_MIN(n, size - 1);
    memcpy(dst, from, n);
    dst[n] = '\0';
}

/* "Type? name=default" of n characters. A row that does not parse has no parameters, which the tests see. */
static bool parse_param(const char *s, size_t n, weft_param_info *p)
{
    const char *end = s + n;
    for (size_t i = 0; i < WF_COUNT(type_names); i++) {
        size_t len = strlen(type_names[i].name);
        if (n <= len || strncmp(s, type_names[i].name, len) != 0 || (s[len] != ' ' && s[len] != '?'))
            continue;
        p->type = type_names[i].type;
        s += len;
        p->optional = *s == '?';
        s += p->optional;
        while (s < end && *s == ' ')
            s++;
        const char *eq = memchr(s, '=', (size_t)(end - s));
        copy_word(p->name, sizeof p->name, s, (size_t)((eq ? eq : end) - s));
        p->has_default = eq != NULL;
        if (eq)
            copy_word(p->preset, sizeof p->preset, eq + 1, (size_t)(end - eq - 1));
        return p->name[0] != '\0';
    }
    return false;
}

static void parse_signature(weft_op_info *op)
{
    const char *s = op->signature;
    while (*s && op->n_params < WEFT_MAX_PARAMS) {
        size_t n = 0;
        for (int depth = 0; s[n] && (s[n] != ',' || depth > 0); n++)
            depth += s[n] == '[' ? 1 : s[n] == ']' ? -1 : 0;
        if (!parse_param(s, n, &op->params[op->n_params])) {
            op->n_params = 0;
            return;
        }
        op->n_params++;
        s += n;
        while (*s == ',' || *s == ' ')
            s++;
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(info[*(const int16_t *)a].name, info[*(const int16_t *)b].name);
}

static void build_table(void)
{
    const char *section = "";
    for (size_t i = 0; i < WF_COUNT(rows); i++) {
        if (!rows[i].name) {
            section = rows[i].section;
            continue;
        }
        weft_op_info *op = &info[n_ops];
        op->name = rows[i].name;
        op->section = section;
        op->signature = rows[i].signature;
        op->bound = rows[i].bound;
        op->doc = rows[i].doc;
        op->differentiable = rows[i].differentiable;
        calls[n_ops] = rows[i].call;
        by_name[n_ops] = (int16_t)n_ops;
        parse_signature(op);
        n_ops++;
    }
    qsort(by_name, (size_t)n_ops, sizeof by_name[0], compare_names);
}

static void table(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, build_table);
}

static int find(const char *name)
{
    table();
    int low = 0, high = n_ops;
    while (low < high) {
        int mid = (low + high) / 2, order = strcmp(name, info[by_name[mid]].name);
        if (order == 0)
            return by_name[mid];
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return -1;
}

int weft_op_count(void)
{
    table();
    return n_ops;
}

const weft_op_info *weft_op_at(int index)
{
    table();
    return index >= 0 && index < n_ops ? &info[index] : NULL;
}

const weft_op_info *weft_op_find(const char *name)
{
    int i = name ? find(name) : -1;
    return i < 0 ? NULL : &info[i];
}

/* Edits between two names (Levenshtein), for the sentence that names the nearest one. */
static int distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    int before[LONGEST + 1], now[LONGEST + 1], n = (int)WF_MIN(strlen(b), LONGEST);
    for (int j = 0; j <= n; j++)
        before[j] = j;
    for (int i = 0; a[i] && i < LONGEST; i++) {
        now[0] = i + 1;
        for (int j = 0; j < n; j++)
            now[j + 1] = WF_MIN(WF_MIN(before[j + 1], now[j]) + 1, before[j] + (a[i] != b[j]));
        memcpy(before, now, sizeof before);
    }
    return before[n];
}

static const char *nearest(const char *name)
{
    int best = 0;
    for (int i = 1; i < n_ops; i++)
        if (distance(name, info[i].name) < distance(name, info[best].name))
            best = i;
    return info[best].name;
}

/* ---- values of parameters ---- */

/* Defaults are short decimals; strtod would read them by the locale of the caller. */
static double decimal(const char *s)
{
    double sign = *s == '-' ? -1 : 1, v = 0;
    int digits = 0;
    s += *s == '-';
    for (; *s >= '0' && *s <= '9'; s++)
        v = v * 10 + (*s - '0');
    if (*s == '.')
        for (s++; *s >= '0' && *s <= '9'; s++, digits++)
            v = v * 10 + (*s - '0');
    int exponent = *s == 'e' ? (int)strtol(s + 1, NULL, 10) : 0;
    exponent -= digits;
    return sign * (exponent < 0 ? v / pow(10, -exponent) : v * pow(10, exponent));
}

static weft_status set_preset(wf_call *c, int i)
{
    const weft_param_info *p = &c->op->params[i];
    wf_slot *s = &c->slot[i];
    if (!p->has_default && p->type != WEFT_PARAM_TENSORS)
        return wf_fail(WEFT_E_VALUE, "%s: %s is missing: %s(%s)", c->op->name, p->name, c->op->name, c->op->signature);
    if (!p->has_default || strcmp(p->preset, "None") == 0)
        return WEFT_OK;
    s->given = true;
    switch (p->type) {
    case WEFT_PARAM_INT: s->i = strtoll(p->preset, NULL, 10); break;
    case WEFT_PARAM_FLOAT:
        s->f = decimal(p->preset);
        s->i = strpbrk(p->preset, ".e") ? WEFT_ATTR_FLOAT : WEFT_ATTR_INT;
        break;
    case WEFT_PARAM_BOOL: s->i = p->preset[0] == 'T'; break;
    case WEFT_PARAM_STRING: s->s = p->preset; break;
    case WEFT_PARAM_DTYPE:
        for (int d = 0; d < WEFT_DTYPE_COUNT; d++)
            if (strcmp(weft_dtype_name((weft_dtype)d), p->preset) == 0)
                s->i = d;
        break;
    case WEFT_PARAM_INTS_OR_STRING:
    case WEFT_PARAM_INTS: {
        const char *at = p->preset;
        for (char *end; *at && s->n < WF_SLOT_INTS; at = end) {
            at += strcspn(at, "-0123456789");
            int64_t v = strtoll(at, &end, 10);
            if (end == at)
                break;
            s->room[s->n++] = v;
        }
        s->ints = s->room;
        break;
    }
    default: s->given = false; break;
    }
    return WEFT_OK;
}

static const char *const kind_names[] = {"None", "an integer", "a float", "a bool", "a list of integers", "a string", "a dtype", "a list of numbers"};

static weft_status wrong_kind(const wf_call *c, int i, const weft_attr *a)
{
    static const char *const wanted[] = {"a tensor", "tensors", "an integer", "a number", "a bool", "a list of integers", "a string", "a dtype",
                                         "a list of integers or a string", "a list of numbers"};
    return wf_fail(WEFT_E_DTYPE, "%s: %s takes %s, not %s", c->op->name, c->op->params[i].name, wanted[c->op->params[i].type], kind_names[a->kind]);
}

static bool fits(weft_dtype dtype, double v)
{
    switch (dtype) {
    case WEFT_DTYPE_I8: return v >= -128 && v <= 127;
    case WEFT_DTYPE_U8: return v >= 0 && v <= 255;
    case WEFT_DTYPE_I32: return v >= INT32_MIN && v <= INT32_MAX;
    case WEFT_DTYPE_U32: return v >= 0 && v <= UINT32_MAX;
    default: return true;
    }
}

/* A number takes the dtype of the tensor it meets when that can hold its kind, as in PyTorch: f16 + 2.5 is f16. */
weft_tensor *wf_call_number(const wf_call *c, const weft_tensor *beside, double value, bool is_int)
{
    weft_dtype dtype = is_int ? WEFT_DTYPE_I32 : WEFT_DTYPE_F32, other = beside && beside->status == WEFT_OK ? beside->node->dtype : dtype;
    if (weft_dtype_is_float(other) || (is_int && weft_dtype_is_integer(other)))
        dtype = other;
    if (is_int && !fits(dtype, value))
        dtype = fits(WEFT_DTYPE_I32, value) ? WEFT_DTYPE_I32 : WEFT_DTYPE_I64;
    if (dtype == WEFT_DTYPE_I32)
        return weft_scalar_i32(c->ctx, (int32_t)value); /* a run-time value: another one finds the same plan */
    if (dtype == WEFT_DTYPE_F32)
        return weft_scalar_f32(c->ctx, (float)value);
    if (dtype == WEFT_DTYPE_F16 || dtype == WEFT_DTYPE_BF16)
        return weft_cast(weft_scalar_f32(c->ctx, (float)value), dtype);
    return weft_full(c->ctx, dtype, 0, NULL, value);
}

static weft_status set_floats(wf_call *c, int i, const weft_attr *a)
{
    wf_slot *s = &c->slot[i];
    s->floats = s->reals;
    s->n = 1;
    if (a->kind == WEFT_ATTR_FLOAT || a->kind == WEFT_ATTR_INT) {
        s->reals[0] = a->kind == WEFT_ATTR_INT ? (double)a->i : a->f;
        return WEFT_OK;
    }
    s->n = a->n_ints;
    if (a->kind == WEFT_ATTR_FLOATS && a->n_ints >= 0 && (a->floats || a->n_ints == 0)) {
        s->floats = a->floats;
        return WEFT_OK;
    }
    if (a->kind != WEFT_ATTR_INTS || a->n_ints < 0 || a->n_ints > WF_SLOT_INTS || (!a->ints && a->n_ints))
        return wrong_kind(c, i, a);
    for (int k = 0; k < a->n_ints; k++)
        s->reals[k] = (double)a->ints[k];
    return WEFT_OK;
}

static weft_status set_attr(wf_call *c, int i, const weft_attr *a)
{
    const weft_param_info *p = &c->op->params[i];
    wf_slot *s = &c->slot[i];
    if (s->given || s->none)
        return wf_fail(WEFT_E_VALUE, "%s: %s is given twice", c->op->name, p->name);
    if (a->kind == WEFT_ATTR_NONE) {
        if (!p->optional)
            return wrong_kind(c, i, a);
        s->none = true;
        return WEFT_OK;
    }
    s->given = true;
    switch (p->type) {
    case WEFT_PARAM_TENSOR:
        if (a->kind != WEFT_ATTR_BOOL && a->kind != WEFT_ATTR_INT && a->kind != WEFT_ATTR_FLOAT)
            return wrong_kind(c, i, a);
        s->number = a;
        return WEFT_OK;
    case WEFT_PARAM_INT:
        s->i = a->i;
        return a->kind == WEFT_ATTR_INT || a->kind == WEFT_ATTR_BOOL ? WEFT_OK : wrong_kind(c, i, a);
    case WEFT_PARAM_FLOAT:
        s->f = a->kind == WEFT_ATTR_FLOAT ? a->f : (double)a->i;
        s->whole = a->kind == WEFT_ATTR_INT ? a->i : 0;
        s->i = a->kind;
        return a->kind == WEFT_ATTR_FLOAT || a->kind == WEFT_ATTR_INT || a->kind == WEFT_ATTR_BOOL ? WEFT_OK : wrong_kind(c, i, a);
    case WEFT_PARAM_BOOL:
        s->i = a->i != 0;
        return a->kind == WEFT_ATTR_BOOL || a->kind == WEFT_ATTR_INT ? WEFT_OK : wrong_kind(c, i, a);
    case WEFT_PARAM_STRING:
        s->s = a->s;
        return a->kind == WEFT_ATTR_STRING && a->s ? WEFT_OK : wrong_kind(c, i, a);
    case WEFT_PARAM_DTYPE:
        s->i = a->i;
        return a->kind == WEFT_ATTR_DTYPE && a->i >= 0 && a->i < WEFT_DTYPE_COUNT ? WEFT_OK : wrong_kind(c, i, a);
    case WEFT_PARAM_INTS_OR_STRING:
        if (a->kind == WEFT_ATTR_STRING && a->s) {
            s->s = a->s;
            return WEFT_OK;
        }
        /* fallthrough */
    case WEFT_PARAM_INTS:
        if (a->kind == WEFT_ATTR_INT) {
            s->room[0] = a->i;
            s->ints = s->room;
            s->n = 1;
            return WEFT_OK;
        }
        s->ints = a->ints;
        s->n = a->n_ints;
        return a->kind == WEFT_ATTR_INTS && a->n_ints >= 0 && (a->ints || a->n_ints == 0) ? WEFT_OK : wrong_kind(c, i, a);
    case WEFT_PARAM_FLOATS: return set_floats(c, i, a);
    default: return wrong_kind(c, i, a);
    }
}

static weft_status set_attrs(wf_call *c, const weft_attrs *attrs)
{
    for (int k = 0; attrs && k < attrs->n; k++) {
        const weft_attr *a = &attrs->list[k];
        int i = a->name ? 0 : a->position;
        while (a->name && i < c->op->n_params && strcmp(a->name, c->op->params[i].name) != 0)
            i++;
        if (i < 0 || i >= c->op->n_params)
            return wf_fail(WEFT_E_VALUE, "%s: no parameter %s: %s(%s)", c->op->name, a->name ? a->name : "at that position", c->op->name,
                           c->op->signature);
        WF_TRY(set_attr(c, i, a));
    }
    return WEFT_OK;
}

/* How many tensors the parameters after a list need. */
static int needed_after(const wf_call *c, int list)
{
    int n = 0;
    for (int i = list + 1; i < c->op->n_params; i++)
        n += c->op->params[i].type == WEFT_PARAM_TENSOR && !c->op->params[i].has_default && !c->slot[i].given && !c->slot[i].none;
    return n;
}

/* Inputs go to the tensor parameters in order, past those that a number stands for. */
static weft_status set_inputs(wf_call *c, weft_tensor *const *inputs, int n)
{
    int used = 0;
    for (int i = 0; i < c->op->n_params; i++) {
        wf_slot *s = &c->slot[i];
        if (c->op->params[i].type == WEFT_PARAM_TENSORS) {
            c->list = inputs + used;
            c->n_list = WF_MAX(n - used - needed_after(c, i), 0);
            used += c->n_list;
        }
        if (c->op->params[i].type != WEFT_PARAM_TENSOR || s->given || s->none || used >= n)
            continue;
        s->t = inputs[used++];
        s->given = s->t != NULL;
        s->none = s->t == NULL;
        if (s->none && !c->op->params[i].optional)
            return wf_fail(WEFT_E_CONTEXT, "%s: %s is NULL", c->op->name, c->op->params[i].name);
    }
    if (used < n)
        return wf_fail(WEFT_E_VALUE, "%s: %d inputs, of which it takes %d: %s(%s)", c->op->name, n, used, c->op->name, c->op->signature);
    return WEFT_OK;
}

/* Numbers become tensors beside the first tensor there is. */
static void set_numbers(wf_call *c)
{
    const weft_tensor *beside = NULL;
    for (int i = 0; i < c->op->n_params && !beside; i++)
        beside = c->slot[i].t;
    for (int i = 0; i < c->op->n_params; i++) {
        const weft_attr *a = c->slot[i].number;
        weft_dtype other = beside ? weft_tensor_dtype(beside) : WEFT_DTYPE_BOOL;
        if (a && a->kind == WEFT_ATTR_INT && wf_beyond_double(a->i) && (other == WEFT_DTYPE_I64 || other == WEFT_DTYPE_BOOL))
            c->slot[i].t = weft_tensor_from(c->ctx, WEFT_DTYPE_I64, 0, NULL, &a->i);
        else if (a && a->kind == WEFT_ATTR_BOOL)
            c->slot[i].t = weft_full(c->ctx, WEFT_DTYPE_BOOL, 0, NULL, a->i != 0);
        else if (a)
            c->slot[i].t = wf_call_number(c, beside, a->kind == WEFT_ATTR_INT ? (double)a->i : a->f, a->kind == WEFT_ATTR_INT);
    }
}

/* The tensors that stand for numbers die with the call. */
static void call_with_numbers(wf_call *c, void (*call)(const wf_call *))
{
    wf_composite k;
    if (!wf_composite_begin_ctx(&k, c->op->name, c->ctx)) {
        c->out->tensor[0] = k.failed;
        c->out->n = 1;
        return;
    }
    set_numbers(c);
    call(c);
    for (int i = 1; i < c->out->n; i++)
        c->out->tensor[i] = wf_composite_give(&k, c->out->tensor[i]);
    c->out->tensor[0] = wf_composite_end(&k, c->out->tensor[0]);
}

weft_status weft_apply(weft_ctx *ctx, const char *name, weft_tensor *const *inputs, int n, const weft_attrs *attributes,
                       weft_outputs *outputs)
{
    if (!name || !outputs || n < 0 || (n > 0 && !inputs) || (attributes && attributes->n > 0 && !attributes->list))
        return wf_fail(WEFT_E_VALUE, "weft_apply: name, inputs, attributes or outputs is missing");
    outputs->n = 0;
    int op = find(name);
    if (op < 0)
        return wf_fail(WEFT_E_VALUE, "weft_apply: no operation %.60s; the nearest name is %s", name, nearest(name));
    wf_call c = {.ctx = ctx, .op = &info[op], .out = outputs};
    for (int i = 0; i < n && !c.ctx; i++)
        c.ctx = inputs[i] ? weft_tensor_ctx(inputs[i]) : NULL;
    WF_TRY(set_attrs(&c, attributes));
    WF_TRY(set_inputs(&c, inputs, n));
    for (int i = 0; i < c.op->n_params; i++)
        if (!c.slot[i].given && !c.slot[i].none)
            WF_TRY(set_preset(&c, i));
    bool has_number = false;
    for (int i = 0; i < c.op->n_params; i++)
        has_number |= c.slot[i].number != NULL;
    if (has_number)
        call_with_numbers(&c, calls[op]);
    else
        calls[op](&c);
    return WEFT_OK;
}
