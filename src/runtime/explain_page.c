/* explain_page.c - an explanation as text, JSON or a page. */
#include "explain_page.h"

#include <stdio.h>

/* ---- totals ---- */

static void totals(const wf_explain *x, int64_t *flops, int64_t *bytes)
{
    *flops = *bytes = 0;
    for (size_t i = 0; i < x->n; i++) {
        *flops += x->kernels[i].flops;
        *bytes += x->kernels[i].bytes;
    }
}

/* 1234567 as "1.23 M". */
static void short_number(double v, char out[24])
{
    static const char *const units[] = {"", " k", " M", " G", " T"};
    int u = 0;
    for (; v >= 1000 && u < 4; u++)
        v /= 1000;
    snprintf(out, 24, u && v < 100 ? "%.3g%s" : "%.0f%s", v, units[u]);
}

static void summary(const wf_explain *x, const weft_device_info *device, wf_str *out)
{
    int64_t flops, bytes;
    char f[24], b[24], a[24], live[24];
    totals(x, &flops, &bytes);
    short_number((double)flops, f);
    short_number((double)bytes, b);
    short_number((double)x->arena_bytes, a);
    short_number((double)x->largest_live, live);
    wf_str_addf(out, "%zu kernels in %u dispatches on %s (%s), %u copies, %u on the CPU instead; at least %s operations and %s bytes; %s bytes of intermediates "
                "(%s alive at once)",
                x->n, x->dispatches, device->spec, device->name, x->copies, x->fallbacks, f, b, a, live);
}

/* ---- text ---- */

static void reads_text(const wf_explain_kernel *k, wf_str *out)
{
    int leaves = 0;
    for (int i = 0; i < k->n_reads; i++)
        leaves += k->reads[i] < 0;
    for (int i = 0; i < k->n_reads; i++)
        if (k->reads[i] >= 0)
            wf_str_addf(out, "#%d ", k->reads[i] + 1);
    if (leaves)
        wf_str_addf(out, "%d given", leaves);
}

static void kernel_text(const wf_explain_kernel *k, size_t number, bool wgsl, wf_str *out)
{
    char f[24], b[24];
    wf_str reads = WF_STR_INIT;
    reads_text(k, &reads);
    short_number((double)k->flops, f);
    short_number((double)k->bytes, b);
    wf_str_addf(out, "%4zu  %-16s %-24s %8s %8s  %u,%u,%u  reads %s\n      %s\n", number + 1, k->row, k->result, f, b, k->grid[0], k->grid[1],
                k->grid[2], reads.ptr ? reads.ptr : "nothing", k->ops);
    wf_str_free(&reads);
    if (k->n_cmds > 1)
        wf_str_addf(out, "      in %u dispatches\n", k->n_cmds);
    if (k->copy)
        wf_str_addf(out, "      a copy: the view cannot be read in place\n");
    if (k->host)
        wf_str_addf(out, "      on the CPU: %s\n", k->host_why);
    if (k->chosen[0])
        wf_str_addf(out, "      %s\n", k->chosen);
    if (k->passed[0])
        wf_str_addf(out, "      passed over: %s\n", k->passed);
    if (wgsl && k->wgsl.len)
        wf_str_addf(out, "%s\n", k->wgsl.ptr);
}

static void as_text(const wf_explain *x, const weft_device_info *device, bool wgsl, wf_str *out)
{
    summary(x, device, out);
    wf_str_addf(out, "\n   #  row              result                      flops    bytes  groups\n");
    for (size_t i = 0; i < x->n; i++)
        kernel_text(&x->kernels[i], i, wgsl, out);
}

/* ---- JSON ---- */

void wf_json_string(const char *s, wf_str *out)
{
    wf_str_add(out, "\"");
    for (; s && *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            wf_str_addf(out, "\\%c", c);
        else if (c == '\n')
            wf_str_add(out, "\\n");
        else if (c < 32)
            wf_str_addf(out, "\\u%04x", c);
        else
            wf_str_addn(out, s, 1);
    }
    wf_str_add(out, "\"");
}

static void json_field(const char *name, const char *value, wf_str *out)
{
    wf_str_addf(out, "\"%s\": ", name);
    wf_json_string(value, out);
}

static void kernel_json(const wf_explain_kernel *k, bool wgsl, wf_str *out)
{
    wf_str_add(out, "{");
    json_field("row", k->row, out);
    wf_str_add(out, ", ");
    json_field("operations", k->ops, out);
    wf_str_add(out, ", ");
    json_field("result", k->result, out);
    wf_str_addf(out, ", \"reads\": [");
    for (int i = 0; i < k->n_reads; i++)
        wf_str_addf(out, "%s%d", i ? ", " : "", k->reads[i]);
    wf_str_addf(out, "], \"flops\": %lld, \"bytes\": %lld, \"groups\": [%u, %u, %u], \"dispatches\": %u, \"copy\": %s, \"on_cpu\": %s, ",
                (long long)k->flops, (long long)k->bytes, k->grid[0], k->grid[1], k->grid[2], k->n_cmds, k->copy ? "true" : "false",
                k->host ? "true" : "false");
    json_field("why_cpu", k->host_why, out);
    wf_str_add(out, ", ");
    json_field("passed_over", k->passed, out);
    wf_str_add(out, ", ");
    json_field("chosen", k->chosen, out);
    if (wgsl && k->wgsl.len) {
        wf_str_add(out, ", ");
        json_field("wgsl", k->wgsl.ptr, out);
    }
    wf_str_add(out, "}");
}

static void as_json(const wf_explain *x, const weft_device_info *device, bool wgsl, wf_str *out)
{
    int64_t flops, bytes;
    totals(x, &flops, &bytes);
    wf_str_add(out, "{\"device\": {");
    json_field("spec", device->spec, out);
    wf_str_add(out, ", ");
    json_field("name", device->name, out);
    wf_str_addf(out, "}, \"dispatches\": %u, \"copies\": %u, \"fallbacks\": %u, \"flops\": %lld, \"bytes\": %lld, \"arena_bytes\": %llu, \"largest_live_bytes\": %llu, \"kernels\": [",
                x->dispatches, x->copies, x->fallbacks, (long long)flops, (long long)bytes, (unsigned long long)x->arena_bytes,
                (unsigned long long)x->largest_live);
    for (size_t i = 0; i < x->n; i++) {
        wf_str_add(out, i ? ",\n" : "\n");
        kernel_json(&x->kernels[i], wgsl, out);
    }
    wf_str_add(out, "]}\n");
}

/* ---- a page ---- */

static void html_text(const char *s, wf_str *out)
{
    for (; s && *s; s++)
        if (*s == '<' || *s == '>' || *s == '&')
            wf_str_add(out, *s == '<' ? "&lt;" : *s == '>' ? "&gt;" : "&amp;");
        else
            wf_str_addn(out, s, 1);
}

enum { BOX_W = 190, BOX_H = 46, GAP_X = 24, GAP_Y = 34 };

typedef struct place {
    int level, column;
} place;

/* A kernel stands one level below the lowest that it reads. */
static int lay_out(const wf_explain *x, place *at, int *columns)
{
    int levels = 0;
    for (size_t i = 0; i < x->n; i++) {
        at[i].level = 0;
        for (int r = 0; r < x->kernels[i].n_reads; r++) {
            int from = x->kernels[i].reads[r];
            if (from >= 0 && at[from].level >= at[i].level)
                at[i].level = at[from].level + 1;
        }
        at[i].column = 0;
        for (size_t j = 0; j < i; j++)
            at[i].column += at[j].level == at[i].level;
        *columns = WF_MAX(*columns, at[i].column + 1);
        levels = WF_MAX(levels, at[i].level + 1);
    }
    return levels;
}

static void draw(const wf_explain *x, const place *at, int levels, int columns, wf_str *out)
{
    wf_str_addf(out, "<svg width=\"%d\" height=\"%d\">", columns * (BOX_W + GAP_X), levels * (BOX_H + GAP_Y));
    for (size_t i = 0; i < x->n; i++)
        for (int r = 0; r < x->kernels[i].n_reads; r++) {
            int from = x->kernels[i].reads[r];
            if (from >= 0)
                wf_str_addf(out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>", at[from].column * (BOX_W + GAP_X) + BOX_W / 2,
                            at[from].level * (BOX_H + GAP_Y) + BOX_H, at[i].column * (BOX_W + GAP_X) + BOX_W / 2, at[i].level * (BOX_H + GAP_Y));
        }
    for (size_t i = 0; i < x->n; i++) {
        const wf_explain_kernel *k = &x->kernels[i];
        int left = at[i].column * (BOX_W + GAP_X), top = at[i].level * (BOX_H + GAP_Y);
        wf_str_addf(out, "<a href=\"#k%zu\"><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/><text x=\"%d\" y=\"%d\">#%zu ", i + 1,
                    k->host ? "cpu" : k->copy ? "copy" : "", left, top, BOX_W, BOX_H, left + 8, top + 18, i + 1);
        html_text(k->row, out);
        wf_str_addf(out, "</text><text class=\"small\" x=\"%d\" y=\"%d\">", left + 8, top + 36);
        html_text(k->result, out);
        wf_str_add(out, "</text></a>");
    }
    wf_str_add(out, "</svg>");
}

static void as_html(const wf_explain *x, const weft_device_info *device, bool wgsl, wf_str *out)
{
    place *at = wf_alloc(sizeof *at * (x->n + 1));
    int columns = 1, levels = at ? lay_out(x, at, &columns) : 0;
    wf_str_add(out, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>weft explain</title><style>"
                    "body{font:14px system-ui,sans-serif;margin:1.5em;color:#222}svg{font:12px ui-monospace,monospace}div.graph{overflow:auto;border:1px solid #ddd;padding:12px}"
                    "line{stroke:#999}rect{fill:#eef4fb;stroke:#5b84b1}rect.copy{fill:#fdf3dc;stroke:#b98b1d}rect.cpu{fill:#fbe6e6;stroke:#b04a4a}text.small{fill:#666}"
                    "table{border-collapse:collapse;margin-top:1em}td,th{border-bottom:1px solid #ddd;padding:4px 10px;text-align:left;vertical-align:top}"
                    "td.n{text-align:right}pre{max-height:24em;overflow:auto;background:#f6f6f6;padding:8px}</style><h1>weft explain</h1><p>");
    wf_str text = WF_STR_INIT;
    summary(x, device, &text);
    html_text(text.ptr, out);
    wf_str_add(out, ".</p><div class=\"graph\">");
    if (at)
        draw(x, at, levels, columns, out);
    wf_str_add(out, "</div><table><tr><th>#<th>row<th>operations<th>result<th>flops<th>bytes<th>groups<th>notes</tr>");
    for (size_t i = 0; i < x->n; i++) {
        const wf_explain_kernel *k = &x->kernels[i];
        wf_str_addf(out, "<tr id=\"k%zu\"><td class=\"n\">%zu<td>", i + 1, i + 1);
        html_text(k->row, out);
        wf_str_add(out, "<td>");
        html_text(k->ops, out);
        wf_str_add(out, "<td>");
        html_text(k->result, out);
        wf_str_addf(out, "<td class=\"n\">%lld<td class=\"n\">%lld<td>%u, %u, %u<td>", (long long)k->flops, (long long)k->bytes, k->grid[0], k->grid[1], k->grid[2]);
        wf_str_add(out, k->copy ? "a copy. " : "");
        if (k->host) {
            wf_str_add(out, "on the CPU: ");
            html_text(k->host_why, out);
            wf_str_add(out, ". ");
        }
        if (k->chosen[0]) {
            html_text(k->chosen, out);
            wf_str_add(out, ". ");
        }
        if (k->passed[0]) {
            wf_str_add(out, "passed over: ");
            html_text(k->passed, out);
        }
        if (wgsl && k->wgsl.len) {
            wf_str_add(out, "<details><summary>WGSL</summary><pre>");
            html_text(k->wgsl.ptr, out);
            wf_str_add(out, "</pre></details>");
        }
        wf_str_add(out, "</tr>");
    }
    wf_str_add(out, "</table></html>\n");
    wf_str_free(&text);
    out->oom |= !at;
    wf_free(at);
}

void wf_explain_render(const wf_explain *x, const weft_device_info *device, const weft_explain_opts *o, wf_str *out)
{
    if (o->format == WEFT_EXPLAIN_JSON)
        as_json(x, device, o->wgsl, out);
    else if (o->format == WEFT_EXPLAIN_HTML)
        as_html(x, device, o->wgsl, out);
    else
        as_text(x, device, o->wgsl, out);
}
