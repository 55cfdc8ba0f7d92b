/* kernel_table.c - choosing a row. The rows are in kernels.def, their predicates and texts in
 * rows_*.c; what a device without WGSL has is in kernels_cpu.c.
 */
#include "kernel_rows.h"
#include "kernels_cpu.h"

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
        return wf_kernel_refuse(ask, c->subgroups ? "subgroups are %u to %u invocations, it needs 32" : "no subgroups",
                                c->subgroup_min, c->subgroup_max);
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

/* Walk the rows in order: the forced one, else the first that is admissible and wanted. A row whose text
 * cannot be made (too many bindings with this epilogue) is passed over like an inadmissible one. */
static weft_status choose(const wf_caps *caps, const wf_kernel_req *req, const op_names *op, const void *problem,
                          wf_kernel_choice *out)
{
    char forced[64], reasons[sizeof out->passed] = "";
    size_t used = 0;
    bool known = false;
    wf_kernel_forced(op->spoken, forced, sizeof forced);
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
        return wf_fail(WEFT_E_UNSUPPORTED, "WEFT_KERNEL: %s has no row \"%s\"", op->spoken, forced);
    return wf_fail(WEFT_E_UNSUPPORTED, "%s: no kernel row fits%s%s: %s", op->spoken, forced[0] ? ", WEFT_KERNEL asks for " : "",
                   forced, reasons);
}

weft_status wf_kernel_choose(const wf_caps *caps, const wf_kernel_req *req, wf_kernel_choice *out)
{
    if (caps->runs_kir && !caps->runs_wgsl)
        return wf_kernel_choose_cpu(caps, req, out);
    op_names op;
    union {
        uint8_t bytes[WF_PROBLEM_BYTES];
        int64_t align;
    } problem;
    if (!name_op(req, &op))
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: no kernel on this device", wf_op_table[req->op].name);
    memset(&problem, 0, sizeof problem);
    memset(out, 0, sizeof *out);
    WF_TRY(op.family->read(caps, req, problem.bytes));
    return choose(caps, req, &op, problem.bytes, out);
}
