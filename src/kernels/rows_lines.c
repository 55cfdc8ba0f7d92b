/* rows_lines.c - the rows of scan on devices that take WGSL, and what all kernels along one axis share: lines cut into blocks.
 *
 * A line is one block of one work group while it is short or there are many; else it is cut into blocks that work groups of
 * one dispatch fold, a dispatch of one group a line folds those, and another dispatch uses them.
 */
#include "rows_lines.h"

typedef struct line_problem {
    wf_line_words words;
} line_problem;
_Static_assert(sizeof(line_problem) <= WF_PROBLEM_BYTES, "WF_PROBLEM_BYTES");

bool wf_line_fits_group(wf_kernel_ask *ask, int64_t bytes)
{
    int64_t group = ask->row->param[0];
    if (group > wf_group_limit(ask->caps))
        return wf_kernel_refuse(ask, "%lld invocations, the device has %u", (long long)group, wf_group_limit(ask->caps));
    if (bytes > wf_group_bytes(ask->caps))
        return wf_kernel_refuse(ask, "%lld bytes of workgroup memory, the device has %u", (long long)bytes, wf_group_bytes(ask->caps));
    return true;
}

/* Blocks of at least 2048 elements and at most 4096 a line: what is folded of them stays small. */
wf_line_cut wf_line_blocks(int64_t n)
{
    int64_t len = WF_MAX(2048, (n + 4095) / 4096);
    return (wf_line_cut){(n + len - 1) / len, len};
}

/* Fewer lines than would fill a large device with one work group each, and long enough for three dispatches. */
bool wf_line_blocks_wanted(int64_t lines, int64_t n) { return n > 8192 && lines < 256; }

void wf_line_cut_words(wf_line_cut cut, wf_launch *l)
{
    l->statics[28] = (int32_t)cut.blocks;
    l->statics[29] = (int32_t)cut.len;
}

void wf_text_lines(wf_str *out, int64_t group)
{
    /* First element of a line in x and in the output. */
    wf_str_add(out, "fn line_at(line: i32, at: i32, strides: u32) -> i32 {\n"
                    "    var rest = line;\n    var to = at;\n"
                    "    for (var k = 6u; k < 7u; k--) {\n"
                    "        to += (rest % p(6u + k)) * p(strides + k);\n"
                    "        rest = rest / p(6u + k);\n    }\n"
                    "    return to;\n}\n");
    wf_str_addf(out,
                "struct Block {\n    line: i32,\n    x: i32,\n    out: i32,\n    index: i32,\n    begin: i32,\n    end: i32,\n    run: i32,\n}\n"
                "fn block_of(group: i32) -> Block {\n"
                "    let line = group / p(28u);\n"
                "    let index = group %% p(28u);\n"
                "    let begin = index * p(29u);\n"
                "    let len = min(p(29u), p(1u) - begin);\n"
                "    return Block(line, line_at(line, p(2u), 13u), line_at(line, 0, 20u), index, begin, begin + len, (len + %lld) / %lld);\n}\n",
                (long long)group - 1, (long long)group);
}

/* The words of `lines` contiguous lines of n words from `offset` on, in place. */
static void contiguous_lines(int64_t lines, int64_t n, int64_t offset, wf_launch *l)
{
    const int64_t w[6] = {lines, n, offset, 1, 1, 0};
    for (int i = 0; i < 6; i++)
        l->statics[i] = (int32_t)w[i];
    for (int i = 6; i < 13; i++)
        l->statics[i] = i == 12 ? (int32_t)lines : 1;
    l->statics[19] = l->statics[26] = (int32_t)n;
}

weft_status wf_line_scan_scratch(const wf_kernel_ask *ask, const char *type, const char *fold, int64_t lines, int64_t n, int64_t offset,
                                 wf_launch *l)
{
    weft_status st;
    wf_str decls = WF_STR_INIT;
    wf_slots s = {0};
    contiguous_lines(lines, n, offset, l);
    l->statics[27] = (int32_t)0xff800000u;
    wf_line_cut_words((wf_line_cut){1, n}, l);
    l->n_static = 30;
    wf_launch_bind(l, WF_BIND_SCRATCH, WF_ACCESS_READ_WRITE);
    wf_text_lines(&decls, ask->row->param[0]);
    wf_str_addf(&decls,
                "@group(0) @binding(0) var<storage, read_write> b0: array<%s>;\n"
                "fn value_at(at: i32, i: i32) -> %s {\n    return b0[at];\n}\n"
                "fn store_at(at: i32, v: %s) {\n    b0[%sat] = v;\n}\n"
                "fn fold(a: %s, b: %s) -> %s {\n    %s\n}\n", type, type, type, offset ? "p(2u) + " : "", type, type, type, fold);
    wf_slots_set(&s, "WG", ask->row->param[0]);
    wf_slots_set(&s, "FOLD", 0);
    wf_slots_set(&s, "CARRY", 0);
    wf_slots_set_text(&s, "TYPE", type);
    WF_TRY_GOTO(st, wf_grid_flat(ask->caps, lines, l->grid), done);
    st = wf_launch_compose(ask, "scan_line", &s, &decls, false, l);
done:
    wf_str_free(&decls);
    return st;
}

/* ---- scan ---- */

static weft_status read_scan(const wf_caps *caps, const wf_kernel_req *req, void *problem)
{
    (void)caps;
    return wf_line_words_of("scan", req, &((line_problem *)problem)->words);
}

static bool is_blocks(const wf_kernel_row *row) { return strcmp(row->name, "blocks") == 0; }

static bool scan_admissible(wf_kernel_ask *ask)
{
    const line_problem *p = ask->problem;
    if (is_blocks(ask->row) && p->words.lines > INT32_MAX / wf_line_blocks(p->words.n).blocks)
        return wf_kernel_refuse(ask, "%lld lines of blocks pass 32-bit indices", (long long)p->words.lines);
    if (!is_blocks(ask->row) && !wf_kernel_rounds(ask, 2 * (p->words.n / ask->row->param[0] + 2) + ask->row->param[0]))
        return false;
    return wf_line_fits_group(ask, 8 * ask->row->param[0]);
}

static bool scan_wanted(const wf_kernel_ask *ask)
{
    const line_problem *p = ask->problem;
    return !is_blocks(ask->row) || wf_line_blocks_wanted(p->words.lines, p->words.n);
}

/* Binding b0 and fn value_at, in the type that is folded. */
static weft_status text_value(wf_str *out, const wf_kernel_req *req, int kind, const char **type)
{
    weft_dtype dtype = req->in[0].dtype;
    *type = "f32";
    if (kind >= WF_SCAN_MAX_INDEX) {
        *type = "vec2<u32>";
        WF_TRY(wf_text_key("scan", out, dtype));
        bool nan = weft_dtype_is_float(dtype); /* an integer may have the key of a NaN */
        wf_str_add(out, kind == WF_SCAN_MAX_INDEX
                            ? "fn value_at(at: i32, i: i32) -> vec2<u32> {\n    return vec2<u32>(key_at(at), u32(i));\n}\n"
                        : nan ? "fn value_at(at: i32, i: i32) -> vec2<u32> {\n    let key = key_at(at);\n"
                                "    return vec2<u32>(select(0xfffffffeu - key, key, key == 0xffffffffu), u32(i));\n}\n"
                              : "fn value_at(at: i32, i: i32) -> vec2<u32> {\n    return vec2<u32>(~key_at(at), u32(i));\n}\n");
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
    if (kind == WF_SCAN_SUM) { /* the sum, and what its roundings left out */
        *type = "vec2<f32>";
        wf_str_add(out, "fn value_at(at: i32, i: i32) -> vec2<f32> {\n    return vec2<f32>(x1(at), 0.0);\n}\n");
        return WEFT_OK;
    }
    wf_str_add(out, "fn value_at(at: i32, i: i32) -> f32 {\n    return x1(at);\n}\n");
    return WEFT_OK;
}

static bool is_pair(const char *type) { return strncmp(type, "vec2", 4) == 0; }

/* Sums of floats carry the error of every addition along (Knuth, The Art of Computer Programming 2, 4.2.2, theorem B). The
 * subtractions are additions of a number whose sign bit is turned: what a compiler may not simplify away. */
static const char *fold_of(int kind, const char *type)
{
    if (strcmp(type, "vec2<f32>") == 0)
        return "let s = a.x + b.x;\n    let t = s + bitcast<f32>(bitcast<u32>(a.x) ^ 0x80000000u);\n"
               "    let u = s + bitcast<f32>(bitcast<u32>(t) ^ 0x80000000u);\n"
               "    let e = (a.x + bitcast<f32>(bitcast<u32>(u) ^ 0x80000000u)) + (b.x + bitcast<f32>(bitcast<u32>(t) ^ 0x80000000u)) + (a.y + b.y);\n"
               "    return vec2<f32>(s, select(0.0, e, abs(s) < -bitcast<f32>(p(27u))));";
    static const char *const fold[WF_SCAN_COUNT] = {
        "return a + b;", "return a * b;",
        /* log(e^a + e^b); an infinite or NaN one is the result, and -infinity adds nothing. */
        "let high = max(a, b);\n    let low = min(a, b);\n"
        "    if (wf_is_nan(a) || wf_is_nan(b)) {\n        return a + b;\n    }\n"
        "    if (low == bitcast<f32>(p(27u)) || high == -bitcast<f32>(p(27u))) {\n        return high;\n    }\n"
        "    return high + log(1.0 + exp(low - high));",
        "return select(a, b, b.x >= a.x);", "return select(a, b, b.x >= a.x);",
    };
    return fold[kind];
}

enum { WHOLE_LINES, FOLD_BLOCKS, CARRY_BLOCKS };

static weft_status scan_launch(const wf_kernel_ask *ask, int phase, wf_line_cut cut, const char **type, wf_launch *l)
{
    weft_status st;
    const line_problem *p = ask->problem;
    wf_str decls = WF_STR_INIT;
    wf_slots s = {0};
    int kind = p->words.word[5];
    bool index = kind >= WF_SCAN_MAX_INDEX;
    memcpy(l->statics, p->words.word, sizeof p->words.word);
    l->statics[27] = (int32_t)0xff800000u; /* -infinity */
    wf_line_cut_words(cut, l);
    l->n_static = 30;
    wf_launch_bind(l, 0, WF_ACCESS_READ);
    WF_TRY_GOTO(st, text_value(&decls, ask->req, kind, type), done);
    wf_text_lines(&decls, ask->row->param[0]);
    wf_str_addf(&decls, "fn fold(a: %s, b: %s) -> %s {\n    %s\n}\n", *type, *type, *type, fold_of(kind, *type));
    if (phase != FOLD_BLOCKS) {
        wf_launch_bind(l, WF_BIND_OUT, WF_ACCESS_READ_WRITE);
        wf_str_addf(&decls,
                    "@group(0) @binding(1) var<storage, read_write> b1: array<%s>;\n"
                    "fn store_at(at: i32, v: %s) {\n    b1[at] = %s;\n}\n", index ? "u32" : is_pair(*type) ? "f32" : *type, *type,
                    index ? "v.y" : is_pair(*type) ? "v.x + v.y" : "v");
    }
    if (phase != WHOLE_LINES) {
        wf_str_addf(&decls, "@group(0) @binding(%u) var<storage, %s> carry: array<%s>;\n", l->n_bind, phase == FOLD_BLOCKS ? "read_write" : "read",
                    *type);
        wf_launch_bind(l, WF_BIND_SCRATCH, phase == FOLD_BLOCKS ? WF_ACCESS_READ_WRITE : WF_ACCESS_READ);
    }
    wf_slots_set(&s, "WG", ask->row->param[0]);
    wf_slots_set(&s, "FOLD", phase == FOLD_BLOCKS);
    wf_slots_set(&s, "CARRY", phase == CARRY_BLOCKS);
    wf_slots_set_text(&s, "TYPE", *type);
    WF_TRY_GOTO(st, wf_grid_flat(ask->caps, p->words.lines * cut.blocks, l->grid), done);
    st = wf_launch_compose(ask, ask->row->file, &s, &decls, false, l);
done:
    wf_str_free(&decls);
    return st;
}

static weft_status build_scan(const wf_kernel_ask *ask, wf_kernel_choice *out)
{
    const line_problem *p = ask->problem;
    const int kind = p->words.word[5];
    const char *type = "";
    if (!is_blocks(ask->row)) {
        out->n_launches = 1;
        return scan_launch(ask, WHOLE_LINES, (wf_line_cut){1, p->words.n}, &type, &out->launch[0]);
    }
    wf_line_cut cut = wf_line_blocks(p->words.n);
    out->n_launches = 3;
    WF_TRY(scan_launch(ask, FOLD_BLOCKS, cut, &type, &out->launch[0]));
    out->scratch_bytes = (uint64_t)(p->words.lines * cut.blocks) * (is_pair(type) ? 8 : 4);
    WF_TRY(wf_line_scan_scratch(ask, type, fold_of(kind, type), p->words.lines, cut.blocks, 0, &out->launch[1]));
    return scan_launch(ask, CARRY_BLOCKS, cut, &type, &out->launch[2]);
}

const wf_kernel_family wf_scan_family = {read_scan, scan_admissible, scan_wanted, build_scan, NULL};
