/* lower_generated.c - dispatching generated kernels. */
#include "explain_notes.h"
#include "quant.h"
#include "rows_reduce.h"
#include "wgsl.h"

#include <stdio.h>

static weft_status kir_program(wf_lowering *l, wf_kir *k, const char *label, uint32_t *id)
{
    wf_str identity = WF_STR_INIT, text = WF_STR_INIT;
    weft_status st;
    bool wgsl = !l->host && l->caps->runs_wgsl;
    wf_str_add(&identity, wgsl ? "G" : "K");
    WF_TRY_GOTO(st, wf_kir_write(k, &identity), done);
    bool known = wf_programs_find(l->programs, identity.ptr, identity.len, id);
    if (known && !l->s->env->explain)
        goto done;
    wf_program_desc desc = {.kind = wgsl ? WF_PROGRAM_WGSL : WF_PROGRAM_KIR, .label = label, .kir = k};
    desc.n_bind = (uint32_t)wf_kir_total_bind(k);
    for (uint32_t i = 0; i < desc.n_bind; i++)
        desc.access[i] = (i < k->n_bind && k->bind[i].access == WF_ACCESS_READ) || i >= (uint32_t)k->n_bind + k->has_error
                             ? WF_ACCESS_READ : WF_ACCESS_READ_WRITE;
    if (wgsl) {
        if (!wf_texts_find(l->s->env->texts, &identity, &text)) {
            WF_TRY_GOTO(st, wf_wgsl_emit(l->caps, k, &text), done);
            wf_texts_made(l->s->env->texts, &identity, &text);
        }
        if (text.oom) {
            st = wf_fail_oom(text.len);
            goto done;
        }
        desc.wgsl = text.ptr;
        if (l->s->env->explain)
            wf_explain_wgsl(l->s->env->explain, text.ptr);
    }
    if (!known)
        st = wf_programs_get(l->programs, &desc, identity.ptr, identity.len, id);
done:
    wf_str_free(&identity);
    wf_str_free(&text);
    return st;
}

static bool kir_runs_here(const wf_lowering *l, const wf_group_code *c)
{
    const wf_kir *k = &c->kir;
    int64_t points = 1;
    for (int a = 0; a < c->n_axes && l->caps->runs_wgsl; a++)
        if (!wf_mul_i64(points, c->extents[a], &points) || points > INT32_MAX)
            return false; /* shaders count points in 32 bits */
    for (int i = 0; i < k->n_instr; i++)
        if ((k->instr[i].type == WF_KTY_F64 && !l->caps->f64) || (k->instr[i].type == WF_KTY_I64 && !l->caps->i64))
            return false;
    return k->n_bind + k->has_error <= (int)l->caps->max_storage_buffers || !l->caps->runs_wgsl;
}

/* What is after "NAME: " in a sentence that begins with the name. */
static const char *without_name(const char *why, const char *name)
{
    size_t n = strlen(name);
    return strncmp(why, name, n) == 0 && strncmp(why + n, ": ", 2) == 0 ? why + n + 2 : why;
}

/* Turn to the host for one kernel; UNSUPPORTED when that is refused. */
weft_status wf_lower_use_host(wf_lowering *l, const char *what, const char *why)
{
    why = without_name(why, what);
    if (!l->caps->runs_wgsl || !l->s->env->host)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: %s", what, why);
    if (l->s->env->fallback_is_error)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s has no row on this device (%s) and WEFT_FALLBACK=error", what, why);
    if (l->s->env->why && !l->s->env->why[0])
        snprintf(l->s->env->why, WF_WHY_BYTES, "%s: %s", what, why);
    if (l->s->env->explain)
        snprintf(l->s->env->explain->host_why, sizeof l->s->env->explain->host_why, "%s: %s", what, why);
    WF_TRY(l->s->env->host(l->s->env->user, &l->dev, &l->programs));
    l->host = true;
    return WEFT_OK;
}

void wf_lower_use_device(wf_lowering *l)
{
    l->dev = l->s->env->dev;
    l->programs = l->s->env->programs;
    l->host = false;
}

void wf_lower_planes(wf_lowering *l, wf_group_code *c)
{
    for (int i = 0; i < c->kir.n_bind; i++) {
        wf_kbind *b = &c->kir.bind[i];
        if (!weft_dtype_is_quantised(b->dtype) || b->layout != WF_LAYOUT_PLANAR)
            continue;
        wf_planes at = wf_quant_planar_offsets(b->dtype, l->s->g.nodes[c->src[i]].numel / weft_dtype_block(b->dtype));
        c->statics[b->plane_slot] = (int32_t)at.scales;
        c->statics[b->plane_slot + 1] = (int32_t)at.minima;
    }
}

static const char *group_label(const wf_lowering *l, int32_t root)
{
    const wf_cnode *r = &l->s->g.nodes[root];
    return wf_op_table[r->anchor >= 0 ? l->s->g.nodes[r->anchor].op : r->op].name;
}

/* One dispatch of l->code with these static words and windows. */
static weft_status dispatch_piece(wf_lowering *l, int32_t root, const int32_t *words, const wf_window *windows, const char *label)
{
    wf_kir *k = &l->code.kir;
    wf_dispatch d = {.label = label, .statics = words, .grid = {1, 1, 1}};
    int64_t extents[WF_KIR_MAX_AXES];
    for (int a = 0; a < k->n_outer + k->n_inner; a++)
        extents[a] = words[k->extent_slot + a];
    if (!l->host && l->caps->runs_wgsl)
        wf_wgsl_widen(k, words);
    WF_TRY(kir_program(l, k, label, &d.program));
    d.n_static = k->n_static;
    d.n_bind = k->n_bind + k->has_error;
    for (int i = 0; i < d.n_bind; i++) {
        wf_lower_bind(l, &d, i, l->code.src[i], root, i < k->n_bind ? k->bind[i].access : WF_ACCESS_READ_WRITE);
        if (windows && i < k->n_bind) {
            d.offset[i] = windows[i].offset;
            d.size[i] = windows[i].size;
        }
    }
    uint64_t limit = wf_lower_limit(l);
    for (int i = 0; i < k->n_bind; i++)
        for (uint64_t c = 1; c < k->bind[i].chunks; c++) {
            int extra = d.n_bind++;
            wf_lower_bind(l, &d, extra, l->code.src[i], root, WF_ACCESS_READ);
            uint64_t begin = c * limit < d.size[i] ? c * limit : 0; /* a piece that ends before it binds its beginning */
            d.offset[extra] = d.offset[i] + begin;
            d.size[extra] = WF_MIN(limit, d.size[i] - begin);
        }
    for (int i = 0; i < k->n_bind; i++)
        if (k->bind[i].chunks > 1)
            d.size[i] = WF_MIN(limit, d.size[i]);
    if (!l->host && l->caps->runs_wgsl)
        wf_wgsl_grid(l->caps, k, extents, d.grid);
    return wf_lower_dispatch(l, &d);
}

/* ---- operands larger than a binding ---- */

enum { MAX_PIECES = 65536 };

/* The box in pieces: one that does not fit is halved along the axis that leaves the least beyond a binding. */
static weft_status dispatch_box(wf_lowering *l, int32_t root, const wf_box *box, const char *label, int *n_pieces)
{
    wf_group_code *c = &l->code;
    int32_t words[WF_STATIC_WORDS_MAX];
    wf_window windows[WF_KIR_MAX_BIND];
    if (wf_lower_window(l, c, root, box, words, windows)) {
        if (++*n_pieces > MAX_PIECES)
            return wf_fail(WEFT_E_UNSUPPORTED, "%s: more than %d pieces of %llu bytes, the device's largest binding", label, MAX_PIECES,
                           (unsigned long long)l->caps->max_binding_bytes);
        return dispatch_piece(l, root, words, windows, label);
    }
    int best = -1;
    uint64_t least = 0;
    for (int a = 0; a < c->kir.n_outer; a++) {
        wf_box half = *box;
        if (box->len[a] == 1)
            continue;
        half.len[a] = (box->len[a] + 1) / 2;
        uint64_t excess = wf_lower_excess(l, c, root, &half);
        if (best < 0 || excess < least || (excess == least && box->len[a] > box->len[best])) {
            best = a;
            least = excess;
        }
    }
    if (best < 0)
        return wf_fail(WEFT_E_UNSUPPORTED, "%s: one slice of an operand is larger than the device's largest binding (%llu bytes)", label,
                       (unsigned long long)l->caps->max_binding_bytes);
    wf_box first = *box, second = *box;
    first.len[best] = (box->len[best] + 1) / 2;
    second.begin[best] += first.len[best];
    second.len[best] -= first.len[best];
    WF_TRY(dispatch_box(l, root, &first, label, n_pieces));
    return dispatch_box(l, root, &second, label, n_pieces);
}

/* The whole loop, in boxes whose windows fit. */
static weft_status dispatch_boxes(wf_lowering *l, int32_t root, const char *label, int *n_pieces)
{
    wf_group_code *c = &l->code;
    wf_kir *k = &c->kir;
    wf_box box = wf_lower_whole_box(c);
    int64_t extent = c->extents[0], len = wf_lower_piece(l, c, root, 0);
    for (int i = 0; i < k->n_bind && len < extent; i++) /* not every piece begins where the binding does */
        if (len == 0 || wf_lower_value_bytes(l, c->src[i], root) <= l->caps->max_binding_bytes)
            k->bind[i].linear = 0;
    if (len == 0)
        return dispatch_box(l, root, &box, label, n_pieces);
    for (int64_t s = 0; s < extent; s += len) {
        box.begin[0] = s;
        box.len[0] = WF_MIN(len, extent - s);
        WF_TRY(dispatch_box(l, root, &box, label, n_pieces));
    }
    return WEFT_OK;
}

static weft_status dispatch_big(wf_lowering *l, int32_t root, const char *label)
{
    wf_group_code *c = &l->code;
    wf_kir *k = &c->kir;
    wf_parts parts = {.bind = -1};
    int n_pieces = 0;
    for (int i = 0; i < k->n_bind; i++) {
        uint64_t need = wf_lower_value_bytes(l, c->src[i], root), limit = l->caps->max_binding_bytes;
        if (need > limit && !wf_lower_reaches(l, c, root, i) && !wf_lower_chunk(l, c, root, i) &&
            (parts.bind >= 0 || !wf_lower_take_parts(l, c, i, &parts)))
            return wf_fail(WEFT_E_UNSUPPORTED, "%s: one place of the result needs %llu bytes of an operand at once; the device binds %llu bytes, and %u operands, to a kernel",
                           label, (unsigned long long)need, (unsigned long long)limit, l->caps->max_storage_buffers);
    }
    if (parts.bind < 0)
        return dispatch_boxes(l, root, label, &n_pieces);
    for (int64_t i = 0; i < wf_lower_n_parts(&parts); i++) {
        wf_lower_part(&parts, c, i);
        WF_TRY(dispatch_boxes(l, root, label, &n_pieces));
    }
    return WEFT_OK;
}

/* ---- rows of reductions ---- */

/* The row that WEFT_KERNEL asks for. */
static weft_status forced_reduction(const wf_lowering *l, wf_kir *k, const int64_t *extents, const char *row)
{
    char why[WF_WHY_MAX] = "";
    int strategy = wf_reduce_row_named(row);
    if (!l->caps->runs_wgsl)
        return wf_fail(WEFT_E_UNSUPPORTED, "reduce: WEFT_KERNEL asks for %s: %s: the CPU has no work groups", row, row);
    if (strategy < 0 || !wf_reduce_admissible(l->caps, k, extents, strategy, why))
        return wf_fail(WEFT_E_UNSUPPORTED, "reduce: WEFT_KERNEL asks for %s: %s: %s", row, row, strategy < 0 ? "no such row" : why);
    k->strategy = (uint8_t)strategy;
    return WEFT_OK;
}

/* A row that a tuner or the table of measured choices wants, when it compiles; else the kernel stays as it was. */
static weft_status wanted_reduction(wf_lowering *l, wf_kir *k, const int64_t *extents, const char *row, bool *taken)
{
    char why[WF_WHY_MAX];
    uint8_t usual = k->strategy;
    int strategy = wf_reduce_row_named(row);
    uint32_t id;
    *taken = strategy >= 0 && wf_reduce_admissible(l->caps, k, extents, strategy, why);
    if (!*taken)
        return WEFT_OK;
    k->strategy = (uint8_t)strategy;
    weft_status st = kir_program(l, k, "reduce", &id);
    *taken = st == WEFT_OK;
    if (st == WEFT_OK || (st != WEFT_E_INTERNAL && st != WEFT_E_UNSUPPORTED))
        return st;
    wf_log(WEFT_LOG_WARN, "tune: reduce:%s is passed over: %s", row, weft_error_message());
    if (l->s->env->pass)
        wf_tune_pass_refused(l->s->env->pass, weft_error_message());
    k->strategy = usual;
    return WEFT_OK;
}

static weft_status choose_reduction(wf_lowering *l)
{
    wf_group_code *c = &l->code;
    wf_kir *k = &c->kir;
    const wf_compile_env *env = l->s->env;
    char forced[64], why[WF_WHY_MAX];
    const char *rows[WF_TUNE_ROWS], *want = NULL;
    const int64_t *extents = c->extents;
    const wf_tune_entry *tuned = NULL;
    wf_tune_key key;
    bool taken = false;
    int n = 0;
    if (!l->caps->unforced && wf_kernel_forced("reduce", forced, sizeof forced))
        return forced_reduction(l, k, extents, forced);
    if (!l->caps->runs_wgsl || (!env->pass && (!env->tuned || !env->tuned->n)) || !wf_reduce_tune_key(k, extents, c->statics, &key))
        return WEFT_OK;
    if (!env->pass) {
        tuned = wf_tune_find(env->tuned, &key);
        want = tuned ? tuned->row : NULL;
    } else {
        for (int s = 0; s <= WF_KSTRAT_LANES; s++)
            if (wf_reduce_admissible(l->caps, k, extents, s, why))
                rows[n++] = wf_reduce_row_name((unsigned)s);
        WF_TRY(wf_tune_pass_open(env->pass, &key, rows, n, &want));
    }
    if (want)
        WF_TRY(wanted_reduction(l, k, extents, want, &taken));
    if (env->pass)
        env->pass->taken = wf_reduce_row_name(k->strategy);
    else if (taken)
        wf_tune_sentence(tuned, l->chosen, sizeof l->chosen);
    return WEFT_OK;
}

weft_status wf_lower_code(wf_lowering *l, int32_t root)
{
    wf_group_code *c = &l->code;
    wf_kir *k = &c->kir;
    const char *label = group_label(l, root);
    wf_lower_use_device(l);
    if (!kir_runs_here(l, c))
        WF_TRY(wf_lower_use_host(l, label, "64-bit numbers, too many buffers, or more than 2^31 points"));
    if (l->host)
        for (int i = 0; i < k->n_bind; i++)
            k->bind[i].layout = WF_LAYOUT_PLAIN;
    wf_lower_planes(l, c);
    if (!l->host && wf_lower_is_big(l, c, root))
        return dispatch_big(l, root, label);
    if (!l->host && wf_reduce_is(k))
        WF_TRY(choose_reduction(l));
    return dispatch_piece(l, root, c->statics, NULL, label);
}
