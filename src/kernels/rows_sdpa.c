/* rows_sdpa.c - the rows of attention: tiles of queries for prefill, splits over the keys for one
 * query (decode), a work group a row, and four components an invocation behind them all.
 *
 * The kernels share a few functions whose text is made here: loads of four components through any
 * view (q_at, k_at, v_at), the length of the keys, which of them a query sees (keys_of), a score with softcap, ALiBi and
 * mask where the request has them, where maximum and sum begin (a sink), a weight. Causal bounds and windows are
 * words, not text.
 */
#include "kernel_rows.h"

#include <stdio.h>

typedef struct sdpa_problem {
    int64_t b, hq, hkv, tq, tk, d, e, left, right;
    int64_t off[3], stride[3][4];      /* q, k, v: B, H, T, D */
    bool vec[3];
    int mask_kind, mask_in;            /* 0 none, 1 bool, 2 float; index of the input */
    int64_t mask_off, mask_stride[4];
    int len_in;                        /* -1: all keys */
    int32_t len_word;                  /* step word, or element of the bound input */
    bool len_bound;
    int64_t heads, chunk, splits;      /* decode: query heads a group, keys a split */
    float scale, softcap;
    int per_head[2];                   /* slopes, sinks: index of the input, or -1 */
    int64_t per_head_off[2], per_head_stride[2];
} sdpa_problem;
_Static_assert(sizeof(sdpa_problem) <= WF_PROBLEM_BYTES, "WF_PROBLEM_BYTES");

#define ROW_GROUP 64
#define DECODE_GROUP_HEADS 8 /* query heads that share a key row's load in one work group */

void wf_sdpa_window(const wf_attrs *attrs, int64_t tq, int64_t tk, int64_t *left, int64_t *right)
{
    *left = attrs->sdpa.has_left ? WF_MIN(attrs->sdpa.left, tk) : tk;
    *right = attrs->sdpa.has_right ? WF_MIN(attrs->sdpa.right, tq) : tq;
    if (attrs->sdpa.causal)
        *right = 0;
}

int64_t wf_sdpa_flops(const wf_attrs *attrs, const wf_view *q, const wf_view *k, const wf_view *v)
{
    int64_t tq = q->shape[2], tk = k->shape[2], left, right;
    wf_sdpa_window(attrs, tq, tk, &left, &right);
    int64_t pairs = tq * tk;
    if (right == 0 && tq > 0)
        pairs = tq <= tk ? tq * tk - tq * (tq - 1) / 2 : tk * (tk + 1) / 2;
    pairs = WF_MIN(pairs, tq * (left + right + 1));
    return 2 * q->shape[0] * q->shape[1] * pairs * (q->shape[3] + v->shape[3]);
}

/* ---- reading ---- */
static weft_status read_operand(const wf_kernel_req *req, int i, sdpa_problem *p)
{
    const wf_operand *x = &req->in[i];
    const wf_view *v = &x->view;
    static const char *const what[3] = {"q", "k", "v"};
    WF_TRY(wf_operand_check(what[i], x));
    if (v->rank != 4)
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: %s has rank %d", what[i], v->rank);
    if (!wf_operand_loads(x->dtype))
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: no WGSL kernel reads %s", weft_dtype_name(x->dtype));
    p->off[i] = v->offset;
    p->vec[i] = v->strides[3] == 1 && v->shape[3] % 4 == 0 && v->offset % 4 == 0;
    for (int k = 0; k < 4; k++) {
        p->stride[i][k] = v->shape[k] == 1 ? (k == 3 ? 1 : 0) : v->strides[k];
        p->vec[i] = p->vec[i] && (k == 3 || p->stride[i][k] % 4 == 0);
    }
    return WEFT_OK;
}

static weft_status read_mask(const wf_kernel_req *req, int i, sdpa_problem *p)
{
    const wf_operand *x = &req->in[i];
    const wf_view *v = &x->view;
    WF_TRY(wf_operand_check("mask", x));
    p->mask_kind = x->dtype == WEFT_DTYPE_BOOL ? 1 : 2;
    if (p->mask_kind == 2 && !wf_operand_loads(x->dtype))
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: no WGSL kernel reads a %s mask", weft_dtype_name(x->dtype));
    if (v->rank > 4)
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: mask has rank %d", v->rank);
    p->mask_in = i;
    p->mask_off = v->offset;
    for (int k = 0; k < 4; k++) {
        int at = k - (4 - v->rank);
        p->mask_stride[k] = at < 0 || v->shape[at] == 1 ? 0 : v->strides[at];
    }
    return WEFT_OK;
}

static weft_status read_length(const wf_kernel_req *req, int i, sdpa_problem *p)
{
    const wf_operand *x = &req->in[i];
    p->len_in = i;
    p->len_bound = x->step_slot < 0;
    if (p->len_bound && x->dtype != WEFT_DTYPE_I32)
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: kv_len is %s, not i32", weft_dtype_name(x->dtype));
    if (p->len_bound)
        WF_TRY(wf_operand_check("kv_len", x));
    p->len_word = p->len_bound ? (int32_t)x->view.offset : x->step_slot;
    return WEFT_OK;
}

static weft_status read_per_head(const wf_kernel_req *req, int i, int which, sdpa_problem *p)
{
    const wf_operand *x = &req->in[i];
    WF_TRY(wf_operand_check(which ? "sinks" : "slopes", x));
    if (x->dtype != WEFT_DTYPE_F32 || x->view.rank != 1)
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: %s of rank %d in %s", which ? "sinks" : "slopes", x->view.rank, weft_dtype_name(x->dtype));
    p->per_head[which] = i;
    p->per_head_off[which] = x->view.offset;
    p->per_head_stride[which] = x->view.strides[0];
    return WEFT_OK;
}

/* Keys a split: enough work groups for a large device at any length, few enough to join quickly. */
static int64_t chunk_keys(int64_t tk)
{
    return tk <= 4096 ? 64 : tk <= 16384 ? 128 : 256;
}

static weft_status read_problem(const wf_caps *caps, const wf_kernel_req *req, void *problem)
{
    sdpa_problem *p = problem;
    (void)caps;
    int next = 3;
    p->len_in = -1;
    p->len_word = p->per_head[0] = p->per_head[1] = -1;
    const bool per_head[2] = {req->attrs.sdpa.has_slopes != 0, req->attrs.sdpa.has_sinks != 0};
    if (req->n_in < 3 + (req->attrs.sdpa.has_mask != 0) + (req->attrs.sdpa.has_kv_len != 0) + per_head[0] + per_head[1])
        return wf_fail(WEFT_E_INTERNAL, "kernels: attention with %d inputs", req->n_in);
    for (int i = 0; i < 3; i++)
        WF_TRY(read_operand(req, i, p));
    if (req->attrs.sdpa.has_mask)
        WF_TRY(read_mask(req, next++, p));
    if (req->attrs.sdpa.has_kv_len)
        WF_TRY(read_length(req, next++, p));
    for (int i = 0; i < 2; i++)
        if (per_head[i])
            WF_TRY(read_per_head(req, next++, i, p));
    const wf_view *q = &req->in[0].view, *k = &req->in[1].view;
    p->b = q->shape[0];
    p->hq = q->shape[1];
    p->tq = q->shape[2];
    p->d = q->shape[3];
    p->e = req->in[2].view.shape[3];
    p->hkv = k->shape[1];
    p->tk = k->shape[2];
    if (p->hkv == 0 || p->hq % p->hkv || k->shape[3] != p->d)
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: %lld query heads, %lld key heads, D %lld and %lld", (long long)p->hq,
                       (long long)p->hkv, (long long)p->d, (long long)k->shape[3]);
    if (!wf_operand_loads(req->out_dtype))
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: no WGSL store of %s", weft_dtype_name(req->out_dtype));
    if (p->b * p->hq * p->tq > INT32_MAX / WF_MAX(p->e, 1) || p->tq + p->tk > INT32_MAX)
        return wf_fail(WEFT_E_UNSUPPORTED, "sdpa: output or positions pass 32-bit indices");
    p->scale = req->attrs.sdpa.scale;
    p->softcap = req->attrs.sdpa.softcap;
    wf_sdpa_window(&req->attrs, p->tq, p->tk, &p->left, &p->right);
    p->heads = p->hq / p->hkv;
    while (p->heads > DECODE_GROUP_HEADS) { /* the largest divisor that fits */
        int64_t n = 2;
        while (p->heads % n)
            n++;
        p->heads /= n;
    }
    p->chunk = chunk_keys(p->tk);
    p->splits = (p->tk + p->chunk - 1) / p->chunk;
    return WEFT_OK;
}

/* ---- shapes of the kernels ---- */
/* Lanes that share a row of V, four components each, and how many rounds of them cover D. */
static int64_t row_lanes(int64_t d)
{
    int64_t lanes = 1;
    while (lanes < ROW_GROUP && lanes * 4 < d)
        lanes *= 2;
    return lanes;
}

static int64_t row_rounds(int64_t d) { return (d + row_lanes(d) * 4 - 1) / (row_lanes(d) * 4); }

static int64_t row_quads(int64_t d) { return row_lanes(d) * row_rounds(d); }

static int64_t row_bytes(const sdpa_problem *p, int64_t heads)
{
    return heads * row_quads(p->d) * 16 + 2 * 4 * heads * ROW_GROUP + 16 * ROW_GROUP;
}

/* Of its two loops; the inner one ends in a round of its own. */
static int64_t plain_rounds(const sdpa_problem *p) { return p->tk * ((p->d + 3) / 4 + 2) + 1; }

static bool is_plain(const wf_kernel_row *row) { return strcmp(row->file, "sdpa_plain") == 0; }
static bool is_tile(const wf_kernel_row *row) { return strcmp(row->file, "sdpa_tile") == 0; }
static bool is_decode(const wf_kernel_row *row) { return strcmp(row->name, "decode") == 0; }

static bool decode_admissible(wf_kernel_ask *ask, const sdpa_problem *p)
{
    int64_t limit = ask->caps->max_workgroups ? ask->caps->max_workgroups : 65535;
    if (p->tq != 1)
        return wf_kernel_refuse(ask, "%lld query positions, it takes 1", (long long)p->tq);
    if (p->b * p->hkv > limit || p->splits > limit)
        return wf_kernel_refuse(ask, "%lld rows and %lld splits, a grid dimension ends at %lld",
                                (long long)(p->b * p->hkv), (long long)p->splits, (long long)limit);
    if (p->b * p->hq * p->splits > INT32_MAX / (p->e + 2) - 1)
        return wf_kernel_refuse(ask, "partial results pass 32-bit indices");
    return true;
}

static bool admissible(wf_kernel_ask *ask)
{
    const sdpa_problem *p = ask->problem;
    int64_t group = ask->row->param[0], bytes = 0;
    if (is_plain(ask->row))
        return wf_kernel_rounds(ask, plain_rounds(p)) &&
               (p->b * p->hq * p->tq * (p->e + 4) <= INT32_MAX || wf_kernel_refuse(ask, "output passes 32-bit indices"));
    bool tile = is_tile(ask->row), decode = is_decode(ask->row);
    if (tile) {
        bytes = 16 * (18 * group + 256);
        group *= 2;
        if (p->e > 256)
            return wf_kernel_refuse(ask, "values are %lld wide, it takes at most 256", (long long)p->e);
    } else {
        bytes = row_bytes(p, decode ? p->heads : 1);
    }
    if (group > wf_group_limit(ask->caps))
        return wf_kernel_refuse(ask, "%lld invocations, the device has %u", (long long)group, wf_group_limit(ask->caps));
    if (bytes > wf_group_bytes(ask->caps))
        return wf_kernel_refuse(ask, "%lld bytes of workgroup memory, the device has %u", (long long)bytes,
                                wf_group_bytes(ask->caps));
    return !decode || decode_admissible(ask, p);
}

static bool wanted(const wf_kernel_ask *ask)
{
    const sdpa_problem *p = ask->problem;
    if (is_plain(ask->row))
        return true;
    if (wf_caps_software(ask->caps)) /* the plain row is quick to compile there, and refuses long loops */
        return strcmp(ask->row->name, "row") == 0 && plain_rounds(p) > WF_SOFTWARE_ROUNDS;
    if (is_decode(ask->row))
        return p->splits > 1;
    if (strcmp(ask->row->name, "tile_64") == 0)
        return p->tq > 32 && (p->tq + 63) / 64 * p->hq * p->b >= 256;
    return strcmp(ask->row->name, "tile_32") != 0 || p->tq >= 8;
}

/* ---- text ---- */
static weft_status text_at(wf_str *out, uint32_t b, const char *name, weft_dtype dtype, bool vec, int stride_word, int width_word)
{
    WF_TRY(wf_text_operand(out, b, name, dtype, vec ? 4 : 1));
    wf_str_addf(out, "fn %s_at(base: i32, d: i32) -> vec4<f32> {\n    var v = vec4<f32>();\n", name);
    if (vec)
        wf_str_addf(out, "    if (d < p(%du)) {\n        v = %s4(base + d);\n    }\n", width_word, name);
    else
        for (int c = 0; c < 4; c++)
            wf_str_addf(out, "    if (d + %d < p(%du)) {\n        v[%d] = %s1(base + (d + %d) * p(%du));\n    }\n", c, width_word, c,
                        name, c, stride_word);
    wf_str_add(out, "    return v;\n}\n");
    return WEFT_OK;
}

static weft_status text_mask(wf_str *out, const wf_kernel_req *req, const sdpa_problem *p, wf_launch *l)
{
    uint32_t b = l->n_bind;
    wf_launch_bind(l, p->mask_in, WF_ACCESS_READ);
    if (p->mask_kind == 2) {
        WF_TRY(wf_text_operand(out, b, "mask", req->in[p->mask_in].dtype, 1));
        wf_str_add(out, "fn masked(s: f32, i: i32) -> f32 {\n    return s + mask1(i);\n}\n");
        return WEFT_OK;
    }
    wf_str_addf(out,
                "@group(0) @binding(%u) var<storage, read> b%u: array<u32>;\n"
                "fn masked(s: f32, i: i32) -> f32 {\n"
                "    let attends = ((b%u[u32(i) >> 2u] >> ((u32(i) & 3u) * 8u)) & 255u) != 0u;\n"
                "    return select(bitcast<f32>(p(31u)), s, attends);\n}\n",
                b, b, b);
    return WEFT_OK;
}

static void text_length(wf_str *out, const sdpa_problem *p, wf_launch *l)
{
    const char *value = "p(4u)";
    char bound[48];
    if (p->len_in >= 0 && p->len_bound) {
        uint32_t b = l->n_bind;
        wf_launch_bind(l, p->len_in, WF_ACCESS_READ);
        wf_str_addf(out, "@group(0) @binding(%u) var<storage, read> b%u: array<i32>;\n", b, b);
        snprintf(bound, sizeof bound, "clamp(b%u[p(29u)], 0, p(4u))", b);
        value = bound;
    } else if (p->len_in >= 0) {
        value = "clamp(i32(step(p(29u))), 0, p(4u))";
    }
    wf_str_addf(out, "fn kv_len() -> i32 {\n    return %s;\n}\n", value);
}

/* The keys first .. last that query i of a head sees, where its mask begins, its position, the head's slope. */
static weft_status text_keys(wf_str *out, const sdpa_problem *p, wf_launch *l)
{
    const char *slope = "0.0";
    if (p->per_head[0] >= 0) {
        WF_TRY(wf_text_operand(out, l->n_bind, "slope", WEFT_DTYPE_F32, 1));
        wf_launch_bind(l, p->per_head[0], WF_ACCESS_READ);
        slope = "slope1(p(35u) + head * p(36u))";
    }
    wf_str_addf(out,
                "struct Keys {\n    first: i32,\n    last: i32,\n    mask: i32,\n    position: i32,\n    slope: f32,\n}\n"
                "fn keys_of(batch: i32, head: i32, i: i32, length: i32) -> Keys {\n"
                "    let position = length - p(3u) + i;\n"
                "    return Keys(max(position - p(32u), 0), min(position + p(7u), length - 1),\n"
                "                p(24u) + batch * p(25u) + head * p(26u) + i * p(27u), position, %s);\n}\n", slope);
    return WEFT_OK;
}

/* Where the running maximum and sum of a row begin: at the most negative finite f32 and 0, or at a sink. -infinity comes
 * as a word, for WGSL has no literal of it, and is recognised by its bits. */
static weft_status text_sinks(wf_str *out, int in, wf_launch *l)
{
    wf_str_add(out, "const lowest = -3.40282346e38;\n"
                    "fn weight(s: f32, m: f32) -> f32 {\n"
                    "    return select(exp(s - m), 0.0, bitcast<u32>(s) == 0xff800000u);\n}\n");
    if (in < 0) {
        wf_str_add(out, "fn begin_max(head: i32) -> f32 {\n    return lowest;\n}\n"
                        "fn begin_sum(head: i32, m: f32) -> f32 {\n    return 0.0;\n}\n");
        return WEFT_OK;
    }
    WF_TRY(wf_text_operand(out, l->n_bind, "sink", WEFT_DTYPE_F32, 1));
    wf_launch_bind(l, in, WF_ACCESS_READ);
    wf_str_add(out, "fn begin_max(head: i32) -> f32 {\n    return max(sink1(p(37u) + head * p(38u)), lowest);\n}\n"
                    "fn begin_sum(head: i32, m: f32) -> f32 {\n    return weight(sink1(p(37u) + head * p(38u)), m);\n}\n");
    return WEFT_OK;
}

static void text_score(wf_str *out, const sdpa_problem *p)
{
    wf_str_add(out, "fn score(v: f32, keys: Keys, j: i32) -> f32 {\n    var s = bitcast<f32>(p(31u));\n"
                    "    if (j >= keys.first && j <= keys.last) {\n        s = v * bitcast<f32>(p(6u));\n");
    if (p->softcap > 0)
        wf_str_add(out, "        s = wf_tanh(s / bitcast<f32>(p(33u))) * bitcast<f32>(p(33u));\n");
    if (p->per_head[0] >= 0)
        wf_str_add(out, "        s = fma(keys.slope, f32(j - keys.position), s);\n");
    if (p->mask_kind)
        wf_str_add(out, "        s = masked(s, keys.mask + j * p(28u));\n");
    wf_str_add(out, "    }\n    return s;\n}\n");
}

static void statics(const sdpa_problem *p, wf_launch *l)
{
    int64_t w[40] = {p->b, p->hq, p->hkv, p->tq, p->tk, p->d, 0, p->right};
    for (int i = 0; i < 3; i++) {
        w[8 + 5 * i] = p->off[i];
        for (int k = 0; k < 4; k++)
            w[9 + 5 * i + k] = p->stride[i][k];
    }
    w[23] = p->mask_kind;
    w[24] = p->mask_off;
    for (int k = 0; k < 4; k++)
        w[25 + k] = p->mask_stride[k];
    w[29] = p->len_word;
    w[30] = p->splits;
    w[32] = p->left;
    w[34] = p->e;
    for (int i = 0; i < 2; i++) {
        w[35 + 2 * i] = p->per_head_off[i];
        w[36 + 2 * i] = p->per_head_stride[i];
    }
    l->n_static = 40;
    for (int i = 0; i < 40; i++)
        l->statics[i] = (int32_t)w[i];
    memcpy(&l->statics[6], &p->scale, 4);
    memcpy(&l->statics[33], &p->softcap, 4);
    l->statics[31] = (int32_t)0xff800000u;
}

static void slots_row(const sdpa_problem *p, bool split, wf_slots *s)
{
    int64_t lanes = row_lanes(p->e);
    wf_slots_set(s, "WG", ROW_GROUP);
    wf_slots_set(s, "HEADS", split ? p->heads : 1);
    wf_slots_set(s, "SPLIT", split);
    wf_slots_set(s, "CHUNK", p->chunk);
    wf_slots_set(s, "DL", lanes);
    wf_slots_set(s, "NV", row_rounds(p->e));
    wf_slots_set(s, "D4", row_quads(p->d));
}

/* ---- building ---- */
static weft_status build_first(const wf_kernel_ask *ask, const sdpa_problem *p, bool split, wf_launch *l)
{
    weft_status st;
    wf_str decls = WF_STR_INIT;
    wf_slots s = {0};
    int64_t bq = ask->row->param[0], group = WF_MIN(256, wf_group_limit(ask->caps));
    static const char *const name[3] = {"q", "k", "v"};

    statics(p, l);
    for (int i = 0; i < 3; i++) {
        wf_launch_bind(l, i, WF_ACCESS_READ);
        WF_TRY_GOTO(st, text_at(&decls, (uint32_t)i, name[i], ask->req->in[i].dtype, p->vec[i], 12 + 5 * i, i == 2 ? 34 : 5), done);
    }
    if (p->mask_kind)
        WF_TRY_GOTO(st, text_mask(&decls, ask->req, p, l), done);
    text_length(&decls, p, l);
    WF_TRY_GOTO(st, text_keys(&decls, p, l), done);
    WF_TRY_GOTO(st, text_sinks(&decls, split ? -1 : p->per_head[1], l), done);
    text_score(&decls, p);
    WF_TRY_GOTO(st, wf_text_output(&decls, l->n_bind, split ? WEFT_DTYPE_F32 : ask->req->out_dtype), done);
    wf_launch_bind(l, split ? WF_BIND_SCRATCH : WF_BIND_OUT, WF_ACCESS_READ_WRITE);
    if (is_plain(ask->row)) {
        int64_t n = p->b * p->hq * p->tq * ((p->e + 3) / 4);
        wf_slots_set(&s, "WG", group);
        WF_TRY_GOTO(st, wf_grid_flat(ask->caps, (n + group - 1) / group, l->grid), done);
    } else if (is_tile(ask->row)) {
        wf_slots_set(&s, "BQ", bq);
        wf_slots_set(&s, "WG", 2 * bq);
        wf_slots_set(&s, "NC", (p->e + 31) / 32);
        WF_TRY_GOTO(st, wf_grid_flat(ask->caps, (p->tq + bq - 1) / bq * p->hq * p->b, l->grid), done);
    } else {
        slots_row(p, split, &s);
        if (!split)
            WF_TRY_GOTO(st, wf_grid_flat(ask->caps, p->b * p->hq * p->tq, l->grid), done);
    }
    if (split) {
        l->grid[0] = (uint32_t)p->splits;
        l->grid[1] = (uint32_t)(p->b * p->hkv);
        l->grid[2] = (uint32_t)(p->hq / p->hkv / p->heads);
        if (p->len_in >= 0 && !p->len_bound && ask->caps->indirect) {
            l->indirect_in = p->len_in;
            l->indirect_axis = 0;
            l->indirect_div = (int32_t)p->chunk;
        }
    }
    st = wf_launch_compose(ask, ask->row->file, &s, &decls, false, l);
done:
    wf_str_free(&decls);
    return st;
}

static weft_status build_combine(const wf_kernel_ask *ask, const sdpa_problem *p, wf_launch *l)
{
    weft_status st;
    wf_str decls = WF_STR_INIT;
    wf_slots s = {0};
    statics(p, l);
    wf_launch_bind(l, WF_BIND_SCRATCH, WF_ACCESS_READ);
    WF_TRY_GOTO(st, wf_text_operand(&decls, 0, "part", WEFT_DTYPE_F32, 1), done);
    text_length(&decls, p, l);
    WF_TRY_GOTO(st, text_sinks(&decls, p->per_head[1], l), done);
    WF_TRY_GOTO(st, wf_text_output(&decls, l->n_bind, ask->req->out_dtype), done);
    wf_launch_bind(l, WF_BIND_OUT, WF_ACCESS_READ_WRITE);
    wf_slots_set(&s, "WG", ROW_GROUP);
    wf_slots_set(&s, "CHUNK", p->chunk);
    WF_TRY_GOTO(st, wf_grid_flat(ask->caps, p->b * p->hq, l->grid), done);
    st = wf_launch_compose(ask, "sdpa_combine", &s, &decls, false, l);
    l->row = "decode_combine";
done:
    wf_str_free(&decls);
    return st;
}

static weft_status build(const wf_kernel_ask *ask, wf_kernel_choice *out)
{
    const sdpa_problem *p = ask->problem;
    bool split = is_decode(ask->row);
    out->n_launches = split ? 2 : 1;
    WF_TRY(build_first(ask, p, split, &out->launch[0]));
    if (split) {
        out->scratch_bytes = (uint64_t)(p->b * p->hq * p->splits * (p->e + 2)) * 4;
        WF_TRY(build_combine(ask, p, &out->launch[1]));
    }
    out->flops = wf_sdpa_flops(&ask->req->attrs, &ask->req->in[0].view, &ask->req->in[1].view, &ask->req->in[2].view);
    return WEFT_OK;
}

const wf_kernel_family wf_sdpa_family = {read_problem, admissible, wanted, build, NULL};
