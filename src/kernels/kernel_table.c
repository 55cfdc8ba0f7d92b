/* kernel_table.c - choosing a row. The rows are in kernels.def, their predicates and texts in
 * rows_*.c; what a device without WGSL has is in kernels_cpu.c.
 */
#include "kernel_rows.h"
#include "kernels_cpu.h"
#include "rows_reduce.h"

#include <stdio.h>
#include <stdlib.h>

static const wf_kernel_row rows[] = {
#define WF_KERNEL(op, name, file, needs, ...) {#op, name, file, needs, {__VA_ARGS__}},
#include "kernels.def"
#undef WF_KERNEL
};

_Static_assert(WF_COUNT(rows) <= 64, "wf_kernel_req.skip has a bit a row");

/* How WEFT_KERNEL and messages name the request, and whose rows it walks. */
typedef struct op_names {
    const char *spoken, *rows;
    const wf_kernel_family *family;
} op_names;

static bool name_op(const wf_kernel_req *req, op_names *out)
{
    bool quant = req->n_in > 1 && weft_dtype_is_quantised(req->in[1].dtype);
    switch (req->op) {
    case WF_OP_MATMUL: *out = (op_names){"matmul", "matrix", &wf_matrix_family}; return true;
    case WF_OP_LINEAR:
        *out = quant ? (op_names){"qlinear", "qlinear", &wf_matrix_family} : (op_names){"linear", "matrix", &wf_matrix_family};
        return true;
    case WF_OP_SDPA: *out = (op_names){"sdpa", "sdpa", &wf_sdpa_family}; return true;
    case WF_OP_TOPK: *out = (op_names){"topk", "topk", &wf_topk_family}; return true;
    case WF_OP_SCAN: *out = (op_names){"scan", "scan", &wf_scan_family}; return true;
    case WF_OP_SORT: *out = (op_names){"sort", "sort", &wf_sort_family}; return true;
    case WF_OP_SCATTER: *out = (op_names){"scatter", "scatter", &wf_scatter_family}; return true;
    default: return false;
    }
}

bool wf_kernel_forced(const char *op, char *row, size_t size)
{
    const char *p = getenv("WEFT_KERNEL");
    size_t n = strlen(op);
    row[0] = 0;
    while (p && *p) {
        size_t part = strcspn(p, ",");
        if (part > n + 1 && strncmp(p, op, n) == 0 && p[n] == ':')
            snprintf(row, size, "%.*s", (int)(part - n - 1), p + n + 1);
        p += part + (p[part] == ',');
    }
    return row[0] != 0;
}

static bool has_features(wf_kernel_ask *ask)
{
    const wf_caps *c = ask->caps;
    if ((ask->row->needs & WF_NEED_SUBGROUP32) && !(c->subgroups && c->subgroup_min == 32 && c->subgroup_max == 32))
        return wf_kernel_refuse(ask, !c->subgroups ? "no subgroups" : c->subgroup_max == 0 ? "the size of subgroups is not known, it needs 32"
                                : "subgroups are %u to %u invocations, it needs 32", c->subgroup_min, c->subgroup_max);
    return true;
}

static void choice_clear(wf_kernel_choice *c)
{
    for (int i = 0; i < WF_MAX_LAUNCHES; i++)
        wf_str_free(&c->launch[i].wgsl);
    memset(c, 0, sizeof *c);
    for (int i = 0; i < WF_MAX_LAUNCHES; i++)
        c->launch[i].indirect_in = -1;
}

static int64_t view_bytes(const wf_operand *x)
{
    int64_t n = x->step_slot >= 0 ? 1 : wf_view_numel(&x->view), block = weft_dtype_block(x->dtype);
    return n / block * (int64_t)weft_dtype_block_bytes(x->dtype);
}

static void count_bytes(const wf_kernel_req *req, wf_kernel_choice *out)
{
    int64_t n = 1;
    for (int i = 0; i < req->out_rank; i++)
        n *= req->out_shape[i];
    out->bytes = n * (int64_t)weft_dtype_block_bytes(req->out_dtype);
    for (int i = 0; i < req->n_in; i++)
        out->bytes += view_bytes(&req->in[i]);
}

static void note(char *reasons, size_t size, size_t *used, const char *row, const char *why)
{
    if (*used < size)
        *used += (size_t)snprintf(reasons + *used, size - *used, "%s%s: %s", *used ? "; " : "", row, why);
}

/* Walk the rows in order: the named one, else the first that is admissible and wanted. A row whose text
 * cannot be made (too many bindings with this epilogue) is passed over like an inadmissible one. */
static weft_status choose(const wf_caps *caps, const wf_kernel_req *req, const op_names *op, const void *problem, const char *forced,
                          wf_kernel_choice *out)
{
    char reasons[sizeof out->passed] = "";
    size_t used = 0;
    bool known = false;
    for (size_t i = 0; i < WF_COUNT(rows); i++) {
        const wf_kernel_row *row = &rows[i];
        if (strcmp(row->op, op->rows) != 0 || (forced[0] && strcmp(forced, row->name) != 0))
            continue;
        wf_kernel_ask ask = {.caps = caps, .req = req, .row = row, .problem = problem};
        known = true;
        if (req->skip >> i & 1) {
            note(reasons, sizeof reasons, &used, row->name, "does not compile on this device");
            continue;
        }
        if (has_features(&ask) && op->family->admissible(&ask)) {
            if (!forced[0] && !op->family->wanted(&ask)) {
                note(reasons, sizeof reasons, &used, row->name, "not worth it for this shape");
                continue;
            }
            choice_clear(out);
            weft_status st = op->family->build(&ask, out);
            if (st == WEFT_OK) {
                count_bytes(req, out);
                out->place = (int)i;
                memcpy(out->passed, reasons, sizeof out->passed);
                return WEFT_OK;
            }
            choice_clear(out);
            if (st != WEFT_E_UNSUPPORTED)
                return st;
            wf_kernel_refuse(&ask, "%s", weft_error_message());
        }
        note(reasons, sizeof reasons, &used, row->name, ask.why);
    }
    if (!known)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s has no row \"%s\" on this device", op->spoken, forced);
    return wf_fail(WEFT_E_UNSUPPORTED, "%s: no kernel row fits%s%s: %s", op->spoken, forced[0] ? ", asked for is " : "", forced, reasons);
}

typedef union problem {
    uint8_t bytes[WF_PROBLEM_BYTES];
    int64_t align;
} problem_words;

static bool is_cpu(const wf_caps *caps) { return caps->runs_kir && !caps->runs_wgsl; }

/* The problem of a request to a device that takes WGSL. */
static weft_status read_request(const wf_caps *caps, const wf_kernel_req *req, op_names *op, problem_words *problem)
{
    if (!name_op(req, op))
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: no kernel on this device", wf_op_table[req->op].name);
    memset(problem, 0, sizeof *problem);
    return op->family->read(caps, req, problem->bytes);
}

weft_status wf_kernel_choose(const wf_caps *caps, const wf_kernel_req *req, wf_kernel_choice *out)
{
    if (is_cpu(caps))
        return wf_kernel_choose_cpu(caps, req, out);
    op_names op;
    problem_words problem;
    char forced[64];
    memset(out, 0, sizeof *out);
    WF_TRY(read_request(caps, req, &op, &problem));
    if (wf_kernel_forced(op.spoken, forced, sizeof forced))
        return choose(caps, req, &op, problem.bytes, forced, out);
    if (req->row) {
        weft_status st = choose(caps, req, &op, problem.bytes, req->row, out);
        if (st != WEFT_E_UNSUPPORTED || req->only)
            return st;
    }
    return choose(caps, req, &op, problem.bytes, "", out);
}

/* ---- for the tuner ---- */

static bool tune_op_of(const char *spoken, uint8_t *out)
{
    for (unsigned i = 0; i < WF_TUNE_OPS; i++)
        if (strcmp(wf_tune_op_name(i), spoken) == 0) {
            *out = (uint8_t)i;
            return true;
        }
    return false;
}

bool wf_kernel_tune_key(const wf_caps *caps, const wf_kernel_req *req, wf_tune_key *out)
{
    op_names op;
    problem_words problem;
    memset(out, 0, sizeof *out);
    if (!name_op(req, &op) || !tune_op_of(op.spoken, &out->op))
        return false;
    if (is_cpu(caps))
        return wf_kernel_tune_key_cpu(req, out);
    if (!op.family->key || read_request(caps, req, &op, &problem) != WEFT_OK)
        return false;
    op.family->key(req, problem.bytes, out);
    return true;
}

/* Work whose plain row takes a second or more on slow processors. */
enum { PLAIN_BUCKETS = 28 }; /* of M N K together: 2^28 terms */

static bool is_hopeless(const char *row, const wf_tune_key *key)
{
    return strstr(row, "plain") && key->bucket[0] + key->bucket[1] + key->bucket[2] + key->bucket[3] > PLAIN_BUCKETS;
}

int wf_kernel_rows(const wf_caps *caps, const wf_kernel_req *req, const char *names[WF_TUNE_ROWS])
{
    op_names op;
    problem_words problem;
    wf_tune_key key;
    int n = 0, kept = 0;
    if (!wf_kernel_tune_key(caps, req, &key))
        return 0;
    if (is_cpu(caps))
        n = wf_kernel_rows_cpu(req, names);
    else if (read_request(caps, req, &op, &problem) == WEFT_OK)
        for (size_t i = 0; i < WF_COUNT(rows) && n < WF_TUNE_ROWS; i++) {
            wf_kernel_ask ask = {.caps = caps, .req = req, .row = &rows[i], .problem = problem.bytes};
            if (strcmp(rows[i].op, op.rows) == 0 && has_features(&ask) && op.family->admissible(&ask))
                names[n++] = rows[i].name;
        }
    for (int i = 0; i < n; i++)
        if (!is_hopeless(names[i], &key) || n == 1)
            names[kept++] = names[i];
    return kept;
}

/* ---- WEFT_KERNEL ---- */

bool wf_kernel_is_forced(const wf_kernel_req *req)
{
    op_names op;
    char row[64];
    return !req->unforced && name_op(req, &op) && wf_kernel_forced(op.spoken, row, sizeof row);
}

/* The operations that WEFT_KERNEL names, and whose rows of the table they take. */
static const struct spoken_op {
    const char *name, *rows;
} spoken_ops[] = {{"matmul", "matrix"}, {"linear", "matrix"}, {"qlinear", "qlinear"}, {"reduce", ""}, {"sdpa", "sdpa"},
                  {"topk", "topk"}, {"scan", "scan"}, {"sort", "sort"}, {"scatter", "scatter"}};

bool wf_kernel_row_known(const char *op, const char *row)
{
    const struct spoken_op *s = spoken_ops;
    while (s < spoken_ops + WF_COUNT(spoken_ops) && strcmp(s->name, op) != 0)
        s++;
    if (s == spoken_ops + WF_COUNT(spoken_ops))
        return false;
    for (size_t i = 0; i < WF_COUNT(rows); i++)
        if (strcmp(rows[i].op, s->rows) == 0 && strcmp(rows[i].name, row) == 0)
            return true;
    if (!s->rows[0])
        return wf_reduce_row_named(row) >= 0;
    for (int i = 0; wf_kernel_row_cpu(op, i); i++)
        if (strcmp(wf_kernel_row_cpu(op, i), row) == 0)
            return true;
    return false;
}

static weft_status refuse_row(const char *part, int n, const struct spoken_op *s)
{
    wf_str list = WF_STR_INIT;
    weft_status st;
    for (size_t i = 0; i < WF_COUNT(rows); i++)
        if (strcmp(rows[i].op, s->rows) == 0)
            wf_str_addf(&list, " %s", rows[i].name);
    for (int i = 0; !s->rows[0] && i <= WF_KSTRAT_LANES; i++)
        wf_str_addf(&list, " %s", wf_reduce_row_name((unsigned)i));
    for (int i = 0; wf_kernel_row_cpu(s->name, i); i++)
        wf_str_addf(&list, "%s %s", i ? "" : "; on the CPU", wf_kernel_row_cpu(s->name, i));
    st = wf_fail(WEFT_E_VALUE, "WEFT_KERNEL: \"%.*s\" names no row of %s; known:%s", n, part, s->name, list.ptr ? list.ptr : "");
    wf_str_free(&list);
    return st;
}

weft_status wf_kernel_check_env(void)
{
    for (const char *p = getenv("WEFT_KERNEL"); p && *p;) {
        int part = (int)strcspn(p, ","), shown = WF_MIN(part, 60);
        char op[16] = "", row[64] = "";
        const char *colon = memchr(p, ':', (size_t)part);
        if (colon) {
            snprintf(op, sizeof op, "%.*s", (int)(colon - p), p);
            snprintf(row, sizeof row, "%.*s", (int)(p + part - colon - 1), colon + 1);
        }
        const struct spoken_op *s = NULL;
        for (size_t i = 0; i < WF_COUNT(spoken_ops); i++)
            if (strcmp(spoken_ops[i].name, op) == 0)
                s = &spoken_ops[i];
        if (!s)
            return wf_fail(WEFT_E_VALUE, "WEFT_KERNEL: \"%.*s\" is not op:row; known operations: matmul linear qlinear reduce sdpa topk scan sort scatter",
                           shown, p);
        if (!wf_kernel_row_known(op, row))
            return refuse_row(p, shown, s);
        p += part + (p[part] == ',');
    }
    return WEFT_OK;
}
