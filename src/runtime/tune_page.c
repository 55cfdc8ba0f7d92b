/* tune_page.c - the report of a tuner as text or JSON. */
#include "tuner.h"

#include "explain_page.h"

static const char *why_of(const wf_tune_result *r, int i)
{
    return r->kernel.why[i][0] ? r->kernel.why[i] : r->known ? "not kept" : "not measured";
}

static void result_text(const wf_tune_result *r, wf_str *out)
{
    const wf_tune_kernel *k = &r->kernel;
    wf_str_addf(out, "%-8s ", wf_tune_op_name(k->key.op));
    wf_tune_key_print(&k->key, out);
    wf_str_addf(out, "; %d in the graph%s\n", k->n_uses, r->known ? "; measured before" : "");
    for (int i = 0; i < k->n_rows; i++) {
        wf_str_addf(out, "  %c %-18s ", i == r->taken ? '*' : ' ', k->rows[i]);
        if (r->ns[i])
            wf_str_addf(out, "%12.1f us%s\n", (double)r->ns[i] * 1e-3, i ? "" : "  taken without measuring");
        else
            wf_str_addf(out, "%15s  %s%s\n", "-", why_of(r, i), i ? "" : "; taken without measuring");
    }
}

static void field(const char *name, const char *value, wf_str *out)
{
    wf_str_addf(out, "\"%s\": ", name);
    wf_json_string(value, out);
}

static void result_json(const wf_tune_result *r, wf_str *out)
{
    const wf_tune_kernel *k = &r->kernel;
    wf_str shape = WF_STR_INIT;
    wf_tune_key_print(&k->key, &shape);
    out->oom |= shape.oom;
    wf_str_add(out, "{");
    field("operation", wf_tune_op_name(k->key.op), out);
    wf_str_add(out, ", ");
    field("shape", shape.ptr ? shape.ptr : "", out);
    wf_str_addf(out, ", \"kernels\": %d, \"known\": %s, ", k->n_uses, r->known ? "true" : "false");
    field("row", r->taken < 0 ? k->rows[0] : k->rows[r->taken], out);
    wf_str_add(out, ", ");
    field("usual", k->rows[0], out);
    wf_str_add(out, ", \"rows\": [");
    for (int i = 0; i < k->n_rows; i++) {
        wf_str_add(out, i ? ", {" : "{");
        field("row", k->rows[i], out);
        if (r->ns[i]) {
            wf_str_addf(out, ", \"us\": %.3f}", (double)r->ns[i] * 1e-3);
        } else {
            wf_str_add(out, ", ");
            field("skipped", why_of(r, i), out);
            wf_str_add(out, "}");
        }
    }
    wf_str_add(out, "]}");
    wf_str_free(&shape);
}

void wf_tune_render(const wf_tune *t, const weft_device_info *device, double seconds, wf_str *out)
{
    size_t measured = 0;
    for (size_t i = 0; i < t->n; i++)
        measured += t->results[i].taken >= 0 && !t->results[i].known;
    if (t->opts.format == WEFT_TUNE_JSON) {
        wf_str_add(out, "{\"device\": {");
        field("spec", device->spec, out);
        wf_str_add(out, ", ");
        field("name", device->name, out);
        wf_str_addf(out, "}, \"seconds\": %.3f, \"measured\": %zu, \"complete\": %s, \"kernels\": [", seconds, measured, t->incomplete ? "false" : "true");
        for (size_t i = 0; i < t->n; i++) {
            wf_str_add(out, i ? ",\n" : "\n");
            result_json(&t->results[i], out);
        }
        wf_str_add(out, "]}\n");
        return;
    }
    wf_str_addf(out, "%zu kinds of kernels with a choice on %s (%s), %zu measured in %.1f s%s\n", t->n, device->spec, device->name, measured, seconds,
                t->incomplete ? "; the time ran out" : "");
    for (size_t i = 0; i < t->n; i++)
        result_text(&t->results[i], out);
}
