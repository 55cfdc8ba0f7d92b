/* kernel_compose.c - what the kernel families share: checks on views, operand loads as text, putting
 * a launch's text together.
 */
#include "kernel_rows.h"
#include "wgsl.h"

#include <stdio.h>

bool wf_kernel_refuse(wf_kernel_ask *ask, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(ask->why, sizeof ask->why, fmt, args);
    va_end(args);
    return false;
}

/* ---- views ---- */
weft_status wf_operand_check(const char *what, const wf_operand *x)
{
    int64_t lo, hi;
    if (!wf_view_extent(&x->view, &lo, &hi))
        return wf_fail(WEFT_E_UNSUPPORTED, "kernels: %s is empty", what);
    if (lo < 0 || hi > INT32_MAX - 64)
        return wf_fail(WEFT_E_UNSUPPORTED, "kernels: %s reaches element %lld, 32-bit indices end at %d", what,
                       (long long)(lo < 0 ? lo : hi), INT32_MAX - 64);
    for (int i = 0; i < x->view.rank; i++)
        if (x->view.shape[i] > INT32_MAX || x->view.strides[i] > INT32_MAX || x->view.strides[i] < INT32_MIN)
            return wf_fail(WEFT_E_UNSUPPORTED, "kernels: axis %d of %s does not fit 32 bits", i, what);
    return WEFT_OK;
}

int wf_axes_merge(wf_axis_run *axes, int n, int n_views)
{
    int out = 0;
    for (int i = 0; i < n; i++) {
        if (axes[i].extent == 1)
            continue;
        bool joins = out > 0;
        for (int v = 0; v < n_views && joins; v++)
            joins = axes[out - 1].stride[v] == axes[i].stride[v] * axes[i].extent;
        if (joins) {
            axes[out - 1].extent *= axes[i].extent;
            memcpy(axes[out - 1].stride, axes[i].stride, sizeof axes[i].stride);
        } else {
            axes[out++] = axes[i];
        }
    }
    return out;
}

/* ---- operand text ---- */
bool wf_operand_loads(weft_dtype dtype)
{
    return dtype == WEFT_DTYPE_F32 || dtype == WEFT_DTYPE_F16 || dtype == WEFT_DTYPE_BF16;
}

static void declare(wf_str *out, uint32_t index, const char *type)
{
    wf_str_addf(out, "@group(0) @binding(%u) var<storage, read> b%u: array<%s>;\n", index, index, type);
}

/* Two 16-bit floats of a word, as expressions. */
static void text_halves(wf_str *out, weft_dtype dtype, const char *word)
{
    if (dtype == WEFT_DTYPE_F16)
        wf_str_addf(out, "unpack2x16float(%s)", word);
    else
        wf_str_addf(out, "vec2<f32>(bitcast<f32>(%s << 16u), bitcast<f32>(%s & 0xffff0000u))", word, word);
}

static void text_load1(wf_str *out, uint32_t b, const char *name, weft_dtype dtype)
{
    declare(out, b, dtype == WEFT_DTYPE_F32 ? "f32" : "u32");
    wf_str_addf(out, "fn %s1(i: i32) -> f32 {\n", name);
    if (dtype == WEFT_DTYPE_F32) {
        wf_str_addf(out, "    return b%u[i];\n}\n", b);
        return;
    }
    wf_str_addf(out, "    let w = b%u[u32(i) >> 1u] >> ((u32(i) & 1u) * 16u);\n", b);
    wf_str_add(out, dtype == WEFT_DTYPE_F16 ? "    return unpack2x16float(w).x;\n}\n"
                                            : "    return bitcast<f32>(w << 16u);\n}\n");
}

static void text_load4(wf_str *out, uint32_t b, const char *name, weft_dtype dtype)
{
    declare(out, b, dtype == WEFT_DTYPE_F32 ? "vec4<f32>" : "vec2<u32>");
    wf_str_addf(out, "fn %s4(i: i32) -> vec4<f32> {\n    let w = b%u[u32(i) >> 2u];\n    return ", name, b);
    if (dtype == WEFT_DTYPE_F32) {
        wf_str_add(out, "w;\n}\n");
        return;
    }
    wf_str_add(out, "vec4<f32>(");
    text_halves(out, dtype, "w.x");
    wf_str_add(out, ", ");
    text_halves(out, dtype, "w.y");
    wf_str_add(out, ");\n}\n");
}

static void text_load8(wf_str *out, uint32_t b, const char *name, weft_dtype dtype)
{
    declare(out, b, dtype == WEFT_DTYPE_F32 ? "vec4<f32>" : "vec4<u32>");
    wf_str_addf(out, "fn %s8(i: i32) -> array<vec4<f32>, 2> {\n", name);
    if (dtype == WEFT_DTYPE_F32) {
        wf_str_addf(out, "    let j = u32(i) >> 2u;\n    return array<vec4<f32>, 2>(b%u[j], b%u[j + 1u]);\n}\n", b, b);
        return;
    }
    wf_str_addf(out, "    let w = b%u[u32(i) >> 3u];\n    return array<vec4<f32>, 2>(vec4<f32>(", b);
    static const char *const word[4] = {"w.x", "w.y", "w.z", "w.w"};
    for (int q = 0; q < 4; q++) {
        text_halves(out, dtype, word[q]);
        wf_str_add(out, q == 1 ? "), vec4<f32>(" : q == 3 ? "));\n}\n" : ", ");
    }
}

weft_status wf_text_operand(wf_str *out, uint32_t index, const char *name, weft_dtype dtype, int vec)
{
    if (!wf_operand_loads(dtype))
        return wf_fail(WEFT_E_UNSUPPORTED, "kernels: no WGSL load of %s", weft_dtype_name(dtype));
    (vec == 8 ? text_load8 : vec == 4 ? text_load4 : text_load1)(out, index, name, dtype);
    return WEFT_OK;
}

/* 16-bit outputs: two invocations may own the halves of one word, so each changes its half alone. */
weft_status wf_text_output(wf_str *out, uint32_t index, weft_dtype dtype)
{
    if (dtype == WEFT_DTYPE_F32) {
        wf_str_addf(out,
                    "@group(0) @binding(%u) var<storage, read_write> b%u: array<f32>;\n"
                    "fn store_out(i: i32, v: f32) {\n    b%u[i] = v;\n}\n",
                    index, index, index);
        return WEFT_OK;
    }
    if (!wf_operand_loads(dtype))
        return wf_fail(WEFT_E_UNSUPPORTED, "kernels: no WGSL store of %s", weft_dtype_name(dtype));
    /* Rounding by bits: nearest even, overflow to infinity, subnormals kept, NaN quiet; pack2x16float may do
     * otherwise with values out of range (WGSL 17.9). */
    wf_str_add(out, dtype == WEFT_DTYPE_BF16 ?
        "fn out_bits(v: f32) -> u32 {\n"
        "    let u = bitcast<u32>(v);\n"
        "    if ((u & 0x7fffffffu) > 0x7f800000u) { return (u >> 16u) | 0x40u; }\n"
        "    return (u + 0x7fffu + ((u >> 16u) & 1u)) >> 16u;\n}\n" :
        "fn out_bits(v: f32) -> u32 {\n"
        "    let u = bitcast<u32>(v);\n"
        "    let s = (u >> 16u) & 0x8000u;\n"
        "    let m = u & 0x7fffffffu;\n"
        "    if (m > 0x7f800000u) { return s | 0x7e00u; }\n"
        "    if (m >= 0x477ff000u) { return s | 0x7c00u; }\n"
        "    if (m < 0x38800000u) {\n"
        "        let shift = min(126u - (m >> 23u), 31u);\n"
        "        let f = (m & 0x7fffffu) | 0x800000u;\n"
        "        let half = (1u << (shift - 1u)) - 1u + ((f >> shift) & 1u);\n"
        "        return s | select((f + half) >> shift, 0u, m < 0x33000000u);\n"
        "    }\n"
        "    return s | ((m - 0x38000000u + 0xfffu + ((m >> 13u) & 1u)) >> 13u);\n}\n");
    wf_str_addf(out,
                "@group(0) @binding(%u) var<storage, read_write> b%u: array<atomic<u32>>;\n"
                "fn store_out(i: i32, v: f32) {\n"
                "    let shift = (u32(i) & 1u) * 16u;\n"
                "    atomicAnd(&b%u[u32(i) >> 1u], ~(0xffffu << shift));\n"
                "    atomicOr(&b%u[u32(i) >> 1u], out_bits(v) << shift);\n}\n",
                index, index, index, index);
    return WEFT_OK;
}

/* ---- launches ---- */
uint32_t wf_group_limit(const wf_caps *caps)
{
    return caps->max_workgroup_invocations ? caps->max_workgroup_invocations : 256;
}

uint32_t wf_group_bytes(const wf_caps *caps)
{
    return caps->max_workgroup_bytes ? caps->max_workgroup_bytes : 16384;
}

bool wf_caps_software(const wf_caps *caps)
{
    return strcmp(caps->info.kind, "software") == 0;
}

bool wf_kernel_rounds(wf_kernel_ask *ask, int64_t rounds)
{
    return !wf_caps_software(ask->caps) || rounds <= WF_SOFTWARE_ROUNDS ||
           wf_kernel_refuse(ask, "%lld rounds of loops, a software adapter makes %d", (long long)rounds, WF_SOFTWARE_ROUNDS);
}

weft_status wf_grid_flat(const wf_caps *caps, int64_t n_groups, uint32_t grid[3])
{
    int64_t limit = caps->max_workgroups ? caps->max_workgroups : 65535;
    int64_t x = n_groups, y = 1;
    if (x > limit) {
        y = (n_groups + limit - 1) / limit;
        x = (n_groups + y - 1) / y;
    }
    if (y > limit || n_groups > INT32_MAX - limit)
        return wf_fail(WEFT_E_UNSUPPORTED, "kernels: %lld work groups do not fit a grid of %lld by %lld",
                       (long long)n_groups, (long long)limit, (long long)limit);
    grid[0] = (uint32_t)x;
    grid[1] = (uint32_t)y;
    grid[2] = 1;
    return WEFT_OK;
}

void wf_launch_bind(wf_launch *l, int what, uint8_t access)
{
    if (l->n_bind < WF_MAX_BIND) {
        l->bind[l->n_bind] = what;
        l->access[l->n_bind++] = access;
    }
}

static void bind_epilogue(const wf_kir *k, wf_launch *l)
{
    if (!k)
        wf_launch_bind(l, WF_BIND_OUT, WF_ACCESS_READ_WRITE);
    for (int i = 0; k && i < k->n_bind; i++)
        wf_launch_bind(l, WF_BIND_EPILOGUE - i, k->bind[i].access);
    if (k && k->has_error)
        wf_launch_bind(l, WF_BIND_EPILOGUE - k->n_bind, WF_ACCESS_READ_WRITE);
}

/* The compiler always hands an epilogue to matrices; without one the f32 result goes to the output. */
static weft_status text_epilogue(const wf_kernel_req *req, const wf_launch *l, wf_str *body)
{
    const wf_kir *k = req->epilogue;
    uint32_t base = l->n_bind;
    if (!k) {
        if (req->out_dtype != WEFT_DTYPE_F32)
            return wf_fail(WEFT_E_UNSUPPORTED, "kernels: %s output needs an epilogue", weft_dtype_name(req->out_dtype));
        WF_TRY(wf_text_output(body, base, WEFT_DTYPE_F32));
        /* Word 19 of the plain matrix kernels: M of one batch. Block types have 12 words and no batch. */
        wf_str_addf(body, "fn epilogue(v: f32, c0: i32, c1: i32, c2: i32) {\n"
                          "    store_out((c0 * p(%uu) + c1) * p(1u) + c2, v);\n}\n", l->n_static > 19 ? 19u : 0u);
        return WEFT_OK;
    }
    return wf_wgsl_emit_epilogue(k, base, l->n_static, body, body);
}

typedef struct row_text {
    const char *file;
    const wf_slots *slots;
    const wf_str *decls;
    bool with_epilogue;
    uint32_t n_bind, n_static; /* with the epilogue's */
} row_text;

/* Everything that a row's text follows from, but for the library's sources and the device. */
static weft_status text_key(const wf_kernel_ask *ask, const row_text *t, const wf_launch *l, wf_str *key)
{
    wf_str_addf(key, "R%s:%s:%s %u %u %u %u %u %d %d\n", ask->row->op, ask->row->name, t->file, ask->row->needs, l->n_bind, l->n_static, t->n_bind,
                t->n_static, t->with_epilogue, ask->req->out_dtype);
    for (int i = 0; i < t->slots->n; i++) {
        const char *text = t->slots->slot[i].text;
        wf_str_addf(key, "%s=%lld %zu:", t->slots->slot[i].name, (long long)t->slots->slot[i].value, text ? strlen(text) : 0);
        wf_str_add(key, text ? text : "");
    }
    wf_str_addf(key, "\n%zu:", t->decls->len);
    wf_str_addn(key, t->decls->ptr, t->decls->len);
    return t->with_epilogue && ask->req->epilogue ? wf_kir_write(ask->req->epilogue, key) : WEFT_OK;
}

static weft_status make_text(const wf_kernel_ask *ask, const row_text *t, const wf_launch *l, wf_str *out)
{
    weft_status st;
    wf_str body = WF_STR_INIT;
    const char *text;
    wf_str_add(&body, t->decls->ptr);
    wf_wgsl_emit_params(t->n_bind, t->n_static, &body);
    if (t->with_epilogue)
        WF_TRY_GOTO(st, text_epilogue(ask->req, l, &body), done);
    WF_TRY_GOTO(st, wf_template_find(t->file, &text), done);
    WF_TRY_GOTO(st, wf_template_expand(t->file, text, t->slots, &body), done);
    if (ask->row->needs & WF_NEED_SUBGROUP32)
        wf_str_add(out, "enable subgroups;\n");
    if (body.oom) {
        st = wf_fail_oom(body.len);
        goto done;
    }
    WF_TRY_GOTO(st, wf_wgsl_emit_helpers(body.ptr, out), done);
    wf_str_addn(out, body.ptr, body.len);
    st = out->oom ? wf_fail_oom(body.len) : WEFT_OK;
done:
    wf_str_free(&body);
    return st;
}

static weft_status find_or_make_text(const wf_kernel_ask *ask, const row_text *t, const wf_launch *l, wf_str *out)
{
    wf_str key = WF_STR_INIT;
    wf_texts *texts = ask->req->texts;
    weft_status st = texts && texts->disk ? text_key(ask, t, l, &key) : WEFT_OK;
    if (st == WEFT_OK && !wf_texts_find(texts, &key, out)) {
        st = make_text(ask, t, l, out);
        if (st == WEFT_OK)
            wf_texts_made(texts, &key, out);
    }
    if (st == WEFT_OK && out->oom)
        st = wf_fail_oom(out->len);
    wf_str_free(&key);
    return st;
}

weft_status wf_launch_compose(const wf_kernel_ask *ask, const char *file, const wf_slots *slots, const wf_str *decls,
                              bool with_epilogue, wf_launch *l)
{
    const wf_kir *k = with_epilogue ? ask->req->epilogue : NULL;
    uint32_t n_bind = l->n_bind + (!with_epilogue ? 0u : k ? k->n_bind + (k->has_error ? 1u : 0u) : 1u);
    uint32_t n_static = l->n_static + (k ? k->n_static : 0u);
    uint32_t limit = ask->caps->max_storage_buffers ? ask->caps->max_storage_buffers : 8;

    if (decls->oom)
        return wf_fail_oom(decls->len);
    if (n_bind > WF_MAX_BIND || n_bind > limit)
        return wf_fail(WEFT_E_UNSUPPORTED, "kernels: %s:%s needs %u storage buffers, the device has %u", ask->row->op,
                       ask->row->name, n_bind, limit < WF_MAX_BIND ? limit : WF_MAX_BIND);
    if (n_static > WF_STATIC_MAX_BYTES / 4)
        return wf_fail(WEFT_E_UNSUPPORTED, "kernels: %s:%s needs %u static words, the block has %d", ask->row->op,
                       ask->row->name, n_static, WF_STATIC_MAX_BYTES / 4);

    const row_text t = {file, slots, decls, with_epilogue, n_bind, n_static};
    WF_TRY(find_or_make_text(ask, &t, l, &l->wgsl));
    if (with_epilogue)
        bind_epilogue(k, l);
    l->kind = WF_PROGRAM_WGSL;
    l->row = ask->row->name;
    l->with_epilogue = false;
    l->n_bind = n_bind;
    return WEFT_OK;
}
