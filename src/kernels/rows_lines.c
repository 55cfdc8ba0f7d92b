/* rows_lines.c - the rows of scan, sort and scatter on devices that take WGSL. */
#include "kernel_rows.h"
#include "line_ops.h"

typedef struct line_problem {
    wf_line_words words;
} line_problem;
_Static_assert(sizeof(line_problem) <= WF_PROBLEM_BYTES, "WF_PROBLEM_BYTES");

static bool fits_group(wf_kernel_ask *ask, int64_t bytes)
{
    int64_t group = ask->row->param[0];
    if (group > wf_group_limit(ask->caps))
        return wf_kernel_refuse(ask, "%lld invocations, the device has %u", (long long)group, wf_group_limit(ask->caps));
    if (bytes > wf_group_bytes(ask->caps))
        return wf_kernel_refuse(ask, "%lld bytes of workgroup memory, the device has %u", (long long)bytes, wf_group_bytes(ask->caps));
    return true;
}

static bool always(const wf_kernel_ask *ask)
{
    (void)ask;
    return true;
}

/* First element of a line in x and in the output. */
static void text_lines(wf_str *out)
{
    wf_str_add(out, "fn line_at(line: i32, at: i32, strides: u32) -> i32 {\n"
                    "    var rest = line;\n    var to = at;\n"
                    "    for (var k = 6u; k < 7u; k--) {\n"
                    "        to += (rest % p(6u + k)) * p(strides + k);\n"
                    "        rest = rest / p(6u + k);\n    }\n"
                    "    return to;\n}\n");
}

/* ---- scan ---- */

static weft_status read_scan(const wf_caps *caps, const wf_kernel_req *req, void *problem)
{
    (void)caps;
    return wf_line_words_of("scan", req, &((line_problem *)problem)->words);
}

static bool scan_admissible(wf_kernel_ask *ask)
{
    return fits_group(ask, 8 * ask->row->param[0]);
}

/* Binding b0 and fn value_at, in the type that is folded. */
static weft_status text_value(wf_str *out, const wf_kernel_req *req, int kind, const char **type)
{
    weft_dtype dtype = req->in[0].dtype;
    *type = "f32";
    if (kind >= WF_SCAN_MAX_INDEX) {
        *type = "vec2<u32>";
        WF_TRY(wf_text_key("scan", out, dtype));
        wf_str_add(out, kind == WF_SCAN_MAX_INDEX
                            ? "fn value_at(at: i32, i: i32) -> vec2<u32> {\n    return vec2<u32>(key_at(at), u32(i));\n}\n"
                            : "fn value_at(at: i32, i: i32) -> vec2<u32> {\n    let key = key_at(at);\n"
                              "    return vec2<u32>(select(0xfffffffeu - key, key, key == 0xffffffffu), u32(i));\n}\n");
        return WEFT_OK;
    }
    if (dtype == WEFT_DTYPE_I32 || dtype == WEFT_DTYPE_U32) { /* the same bits */
        *type = "i32";
        wf_str_add(out, "@group(0) @binding(0) var<storage, read> b0: array<i32>;\n"
                        "fn value_at(at: i32, i: i32) -> i32 {\n    return b0[at];\n}\n");
        return WEFT_OK;
    }
    if (!wf_operand_loads(dtype))
        return wf_fail(WEFT_E_UNSUPPORTED, "scan: no WGSL kernel reads %s", weft_dtype_name(dtype));
    WF_TRY(wf_text_operand(out, 0, "x", dtype, 1));
    wf_str_add(out, "fn value_at(at: i32, i: i32) -> f32 {\n    return x1(at);\n}\n");
    return WEFT_OK;
}

static weft_status build_scan(const wf_kernel_ask *ask, wf_kernel_choice *out)
{
    static const char *const fold[WF_SCAN_COUNT] = {
        "return a + b;", "return a * b;",
        /* log(e^a + e^b); an infinite or NaN one is the result, and -infinity adds nothing. */
        "let high = max(a, b);\n    let low = min(a, b);\n"
        "    if (a != a || b != b) {\n        return a + b;\n    }\n"
        "    if (low == bitcast<f32>(p(27u)) || high == -bitcast<f32>(p(27u))) {\n        return high;\n    }\n"
        "    return high + log(1.0 + exp(low - high));",
        "return select(a, b, b.x >= a.x);", "return select(a, b, b.x >= a.x);",
    };
    weft_status st;
    const line_problem *p = ask->problem;
    wf_launch *l = &out->launch[0];
    wf_str decls = WF_STR_INIT;
    wf_slots s = {0};
    const char *type;
    int kind = p->words.word[5];
    bool index = kind >= WF_SCAN_MAX_INDEX;
    memcpy(l->statics, p->words.word, sizeof p->words.word);
    l->statics[27] = (int32_t)0xff800000u; /* -infinity */
    l->n_static = 28;
    wf_launch_bind(l, 0, WF_ACCESS_READ);
    wf_launch_bind(l, WF_BIND_OUT, WF_ACCESS_READ_WRITE);
    WF_TRY_GOTO(st, text_value(&decls, ask->req, kind, &type), done);
    text_lines(&decls);
    wf_str_addf(&decls, "fn fold(a: %s, b: %s) -> %s {\n    %s\n}\n", type, type, type, fold[kind]);
    wf_slots_set(&s, "WG", ask->row->param[0]);
    wf_slots_set_text(&s, "TYPE", type);
    wf_slots_set_text(&s, "OUT", index ? "u32" : type);
    wf_slots_set_text(&s, "RESULT", index ? "acc.y" : "acc");
    WF_TRY_GOTO(st, wf_grid_flat(ask->caps, p->words.lines, l->grid), done);
    WF_TRY_GOTO(st, wf_launch_compose(ask, ask->row->file, &s, &decls, false, l), done);
    out->n_launches = 1;
done:
    wf_str_free(&decls);
    return st;
}

const wf_kernel_family wf_scan_family = {read_scan, scan_admissible, always, build_scan};

/* ---- sort ---- */

static weft_status read_sort(const wf_caps *caps, const wf_kernel_req *req, void *problem)
{
    (void)caps;
    return wf_line_words_of("sort", req, &((line_problem *)problem)->words);
}

enum { RANK_BEST = 256, RANK_MOST = 4096 }; /* lines in which every element counts those before it */

static bool is_rank(const wf_kernel_row *row) { return strcmp(row->name, "rank") == 0; }

static bool radix_fits(wf_kernel_ask *ask)
{
    return fits_group(ask, 68 * ask->row->param[0]);
}

static bool sort_admissible(wf_kernel_ask *ask)
{
    const line_problem *p = ask->problem;
    if (!is_rank(ask->row))
        return radix_fits(ask);
    if (p->words.n > RANK_MOST || p->words.lines * p->words.n > INT32_MAX)
        return wf_kernel_refuse(ask, "lines of %lld elements, it takes at most %d", (long long)p->words.n, RANK_MOST);
    return fits_group(ask, 0);
}

static bool sort_wanted(const wf_kernel_ask *ask)
{
    const line_problem *p = ask->problem;
    return !is_rank(ask->row) || p->words.n <= RANK_BEST;
}

/* Launch `l`: the order of `lines` lines of n elements, by `rank` or by `bits` bits of digits from first_bit on. By digits the
 * order is moved to and fro between two places, an even number of times, and ends in the first. */
static weft_status compose_sort(const wf_kernel_ask *ask, wf_str *decls, int first_bit, int bits, bool rank, int64_t lines, int64_t n,
                                wf_launch *l)
{
    wf_slots s = {0};
    int passes = (bits + 3) / 4;
    int64_t group = ask->row->param[0];
    wf_slots_set(&s, "WG", group);
    wf_slots_set(&s, "PASSES", passes + passes % 2);
    wf_slots_set(&s, "FIRST_BIT", first_bit);
    wf_slots_set(&s, "DIGITS", (32 - first_bit) / 4);
    WF_TRY(wf_grid_flat(ask->caps, rank ? (lines * n + group - 1) / group : lines, l->grid));
    return wf_launch_compose(ask, rank ? "sort_rank" : "sort_radix", &s, decls, false, l);
}

static weft_status build_sort(const wf_kernel_ask *ask, wf_kernel_choice *out)
{
    static const char *const first =
        "@group(0) @binding(1) var<storage, read_write> b1: array<i32>;\n"
        "fn digits_at(line_x: i32, i: i32) -> u32 {\n"
        "    let key = key_at(line_x + i * p(3u));\n"
        "    return select(key, ~key, p(5u) != 0);\n}\n"
        "fn get_first(line: i32, at: i32, i: i32) -> i32 {\n    return b1[at + i * p(4u)];\n}\n"
        "fn put_first(line: i32, at: i32, i: i32, v: i32) {\n    b1[at + i * p(4u)] = v;\n}\n";
    static const char *const second =
        "@group(0) @binding(2) var<storage, read_write> b2: array<i32>;\n"
        "fn get_second(line: i32, i: i32) -> i32 {\n    return b2[line * p(1u) + i];\n}\n"
        "fn put_second(line: i32, i: i32, v: i32) {\n    b2[line * p(1u) + i] = v;\n}\n";
    weft_status st;
    const line_problem *p = ask->problem;
    wf_launch *l = &out->launch[0];
    wf_str decls = WF_STR_INIT;
    int first_bit, bits;
    bool rank = is_rank(ask->row);
    wf_key_bits(ask->req->in[0].dtype, &first_bit, &bits);
    memcpy(l->statics, p->words.word, sizeof p->words.word);
    l->n_static = 28;
    wf_launch_bind(l, 0, WF_ACCESS_READ);
    wf_launch_bind(l, WF_BIND_OUT, WF_ACCESS_READ_WRITE);
    WF_TRY_GOTO(st, wf_text_key("sort", &decls, ask->req->in[0].dtype), done);
    text_lines(&decls);
    wf_str_add(&decls, first);
    if (!rank) {
        wf_launch_bind(l, WF_BIND_SCRATCH, WF_ACCESS_READ_WRITE);
        out->scratch_bytes = 4 * (uint64_t)p->words.lines * (uint64_t)p->words.n;
        wf_str_add(&decls, second);
    }
    WF_TRY_GOTO(st, compose_sort(ask, &decls, first_bit, bits, rank, p->words.lines, p->words.n, l), done);
    out->n_launches = 1;
done:
    wf_str_free(&decls);
    return st;
}

const wf_kernel_family wf_sort_family = {read_sort, sort_admissible, sort_wanted, build_sort};

/* ---- scatter: the index in order, then every element of the result takes its own run of it ---- */

typedef struct scatter_problem {
    wf_scatter_words words;
    int64_t lines, m;        /* of the index: those that differ, and their elements */
    int32_t strides[8];      /* of the order in scratch */
    int32_t line_words[28];  /* of the sort */
    int bits;                /* an index has */
} scatter_problem;
_Static_assert(sizeof(scatter_problem) <= WF_PROBLEM_BYTES, "WF_PROBLEM_BYTES");

static weft_status read_scatter(const wf_caps *caps, const wf_kernel_req *req, void *problem)
{
    scatter_problem *p = problem;
    (void)caps;
    WF_TRY(wf_scatter_words_of(req, &p->words));
    const int32_t *w = p->words.word;
    const int axis = w[1];
    int32_t *lw = p->line_words;
    p->m = w[13 + axis];
    p->lines = 1;
    for (int d = 7, k = 6; d >= 0; d--) { /* a line that repeats is sorted once */
        if (d == axis)
            continue;
        bool differs = w[29 + d] != 0 && w[13 + d] > 1;
        p->strides[d] = differs ? (int32_t)(p->lines * p->m) : 0;
        lw[6 + k] = differs ? w[13 + d] : 1;
        lw[13 + k--] = w[29 + d];
        p->lines *= differs ? w[13 + d] : 1;
    }
    if (p->lines > INT32_MAX / 2 / p->m)
        return wf_fail(WEFT_E_UNSUPPORTED, "scatter: %lld lines of %lld indices", (long long)p->lines, (long long)p->m);
    p->strides[axis] = 1;
    lw[0] = (int32_t)p->lines;
    lw[1] = (int32_t)p->m;
    lw[2] = w[46];
    lw[3] = w[29 + axis];
    lw[4] = (int32_t)(p->lines * p->m); /* where the second place of the order begins */
    while (p->bits < 31 && w[5 + axis] > 1ll << p->bits)
        p->bits++;
    return WEFT_OK;
}

static weft_status sort_index(const wf_kernel_ask *ask, wf_launch *l)
{
    static const char *const places =
        "@group(0) @binding(0) var<storage, read> b0: array<u32>;\n"
        "@group(0) @binding(1) var<storage, read_write> b1: array<i32>;\n"
        "fn digits_at(line_x: i32, i: i32) -> u32 {\n    return b0[line_x + i * p(3u)];\n}\n"
        "fn get_first(line: i32, at: i32, i: i32) -> i32 {\n    return b1[line * p(1u) + i];\n}\n"
        "fn put_first(line: i32, at: i32, i: i32, v: i32) {\n    b1[line * p(1u) + i] = v;\n}\n"
        "fn get_second(line: i32, i: i32) -> i32 {\n    return b1[p(4u) + line * p(1u) + i];\n}\n"
        "fn put_second(line: i32, i: i32, v: i32) {\n    b1[p(4u) + line * p(1u) + i] = v;\n}\n";
    const scatter_problem *p = ask->problem;
    wf_str decls = WF_STR_INIT;
    memcpy(l->statics, p->line_words, sizeof p->line_words);
    l->n_static = 28;
    wf_launch_bind(l, 1, WF_ACCESS_READ);
    wf_launch_bind(l, WF_BIND_SCRATCH, WF_ACCESS_READ_WRITE);
    text_lines(&decls);
    wf_str_add(&decls, places);
    weft_status st = compose_sort(ask, &decls, 0, p->bits, p->m <= RANK_BEST, p->lines, p->m, l);
    wf_str_free(&decls);
    return st;
}

/* How many elements a 32-bit word has, and the type they meet in. */
static weft_status text_elements(wf_str *out, weft_dtype dtype, int *per_word, const char **type)
{
    static const char *const loads[3] = {
        "fn %s(i: i32) -> %s {\n    return %s(b%u[i]);\n}\n",
        "fn %s(i: i32) -> %s {\n    return %s((b%u[u32(i) >> 1u] >> ((u32(i) & 1u) * 16u)) & 0xffffu);\n}\n",
        "fn %s(i: i32) -> %s {\n    return %s((b%u[u32(i) >> 2u] >> ((u32(i) & 3u) * 8u)) & 0xffu);\n}\n",
    };
    const char *to = "", *back = "";
    int form = 0;
    *type = "u32";
    switch (dtype) {
    case WEFT_DTYPE_F32: *type = "f32"; to = "bitcast<f32>"; back = "bitcast<u32>"; break;
    case WEFT_DTYPE_I32: *type = "i32"; to = "bitcast<i32>"; back = "bitcast<u32>"; break;
    case WEFT_DTYPE_U32: break;
    case WEFT_DTYPE_F16: case WEFT_DTYPE_BF16: form = 1; break; /* only set, never combined: their bits */
    case WEFT_DTYPE_I8: *type = "i32"; to = "signed"; back = "bitcast<u32>"; form = 2; break;
    case WEFT_DTYPE_U8: case WEFT_DTYPE_BOOL: form = 2; break;
    default: return wf_fail(WEFT_E_UNSUPPORTED, "scatter: no WGSL kernel combines %s", weft_dtype_name(dtype));
    }
    *per_word = 1 << form;
    for (uint32_t b = 0; b < 3; b++)
        wf_str_addf(out, "@group(0) @binding(%u) var<storage, read> b%u: array<u32>;\n", b, b);
    wf_str_add(out, "@group(0) @binding(3) var<storage, read_write> b3: array<u32>;\n"
                    "@group(0) @binding(4) var<storage, read_write> b4: array<i32>;\n"
                    "fn signed(v: u32) -> i32 {\n    return bitcast<i32>(v << 24u) >> 24u;\n}\n");
    wf_str_addf(out, loads[form], "x_at", *type, to, 0u);
    wf_str_addf(out, loads[form], "src_at", *type, to, 2u);
    wf_str_addf(out, "fn bits_of(v: %s) -> u32 {\n    return %s(v)%s;\n}\n", *type, back, form == 0 ? "" : form == 1 ? " & 0xffffu" : " & 0xffu");
    return WEFT_OK;
}

static weft_status combine(const wf_kernel_ask *ask, wf_launch *l)
{
    static const char *const meet[WF_SCATTER_COUNT] = {
        "return b;", "return a + b;", "return a * b;",
        "return select(b, a, a > b || a != a);", "return select(b, a, a < b || a != a);",
    };
    weft_status st;
    const scatter_problem *p = ask->problem;
    wf_str decls = WF_STR_INIT;
    wf_slots s = {0};
    const char *type;
    int per_word = 1;
    memcpy(l->statics, p->words.word, sizeof p->words.word);
    l->statics[49] = (int32_t)p->m;
    memcpy(&l->statics[50], p->strides, sizeof p->strides);
    l->n_static = 60;
    for (int i = 0; i < 3; i++)
        wf_launch_bind(l, i, WF_ACCESS_READ);
    wf_launch_bind(l, WF_BIND_OUT, WF_ACCESS_READ_WRITE);
    wf_launch_bind(l, WF_BIND_SCRATCH, WF_ACCESS_READ_WRITE);
    WF_TRY_GOTO(st, text_elements(&decls, ask->req->in[0].dtype, &per_word, &type), done);
    wf_str_addf(&decls, "fn meet(a: %s, b: %s) -> %s {\n    %s\n}\n", type, type, type, meet[p->words.word[2]]);
    wf_slots_set(&s, "WG", ask->row->param[0]);
    wf_slots_set(&s, "PER_WORD", per_word);
    wf_slots_set(&s, "BITS", 32 / per_word);
    int64_t words = (p->words.word[0] + per_word - 1) / per_word;
    WF_TRY_GOTO(st, wf_grid_flat(ask->caps, (words + ask->row->param[0] - 1) / ask->row->param[0], l->grid), done);
    WF_TRY_GOTO(st, wf_launch_compose(ask, ask->row->file, &s, &decls, false, l), done);
done:
    wf_str_free(&decls);
    return st;
}

static weft_status build_scatter(const wf_kernel_ask *ask, wf_kernel_choice *out)
{
    const scatter_problem *p = ask->problem;
    WF_TRY(sort_index(ask, &out->launch[0]));
    WF_TRY(combine(ask, &out->launch[1]));
    out->scratch_bytes = 8 * (uint64_t)p->lines * (uint64_t)p->m;
    out->n_launches = 2;
    return WEFT_OK;
}

const wf_kernel_family wf_scatter_family = {read_scatter, radix_fits, always, build_scatter};
