/* rows_sort.c - the rows of sort and scatter on devices that take WGSL. */
#include "rows_lines.h"

typedef struct sort_problem {
    wf_line_words words;
} sort_problem;
_Static_assert(sizeof(sort_problem) <= WF_PROBLEM_BYTES, "WF_PROBLEM_BYTES");

enum { RANK_BEST = 256, RANK_MOST = 4096 }; /* lines in which every element counts those before it */
enum { BEFORE_ALL = -1, OUTPUT = -2 };      /* places beside those in scratch, see sort_radix.wgsl */

/* ---- launches that sort ---- */

static int passes_of(const wf_sort_plan *s) { return (s->bits + 3) / 4; }

/* Of all loops of one invocation; a loop ends in a round of its own. */
static int64_t sort_rounds(const wf_sort_plan *s, int64_t group)
{
    int64_t run = ((s->blocks ? wf_line_blocks(s->n).len : s->n) + group - 1) / group;
    int64_t pass = 2 * (run + 1) + 3 * 17 + group + 2;
    return s->rank ? s->n + 1 : s->blocks ? pass : (passes_of(s) + 1) * pass;
}

int64_t wf_sort_words(const wf_sort_plan *s)
{
    /* Two places, or one beside the output while one work group moves to and fro; and the counts of blocks. */
    int64_t all = s->lines * s->n, counts = s->blocks ? 16 * s->lines * wf_line_blocks(s->n).blocks : 0;
    int64_t words = s->rank ? (s->to_output ? 0 : all) : (s->to_output && !s->blocks ? all : 2 * all) + counts;
    return s->lines > INT32_MAX / 2 / s->n || words > INT32_MAX ? -1 : words;
}

static weft_status text_sort(const wf_sort_plan *s, int64_t group, wf_str *out, wf_launch *l)
{
    bool scratch = !(s->rank && s->to_output);
    wf_launch_bind(l, s->input, WF_ACCESS_READ);
    if (!s->digits->ptr)
        return wf_fail_oom(s->digits->len);
    wf_str_add(out, s->digits->ptr);
    wf_text_lines(out, group);
    if (s->to_output) {
        wf_str_addf(out, "@group(0) @binding(%u) var<storage, read_write> b%u: array<i32>;\n", l->n_bind, l->n_bind);
        wf_launch_bind(l, WF_BIND_OUT, WF_ACCESS_READ_WRITE);
    }
    if (scratch) {
        wf_str_addf(out, "@group(0) @binding(%u) var<storage, read_write> order: array<i32>;\n", l->n_bind);
        wf_launch_bind(l, WF_BIND_SCRATCH, WF_ACCESS_READ_WRITE);
    }
    wf_str_add(out, "fn order_at(b: Block, place: i32, i: i32) -> i32 {\n    if (place == -1) {\n        return i;\n    }\n");
    if (s->to_output)
        wf_str_add(out, "    if (place == -2) {\n        return b1[b.out + i * p(4u)];\n    }\n");
    wf_str_add(out, scratch ? "    return order[place + b.line * p(1u) + i];\n}\n" : "    return i;\n}\n");
    wf_str_add(out, "fn order_put(b: Block, place: i32, i: i32, e: i32) {\n");
    if (s->to_output)
        wf_str_add(out, "    if (place == -2) {\n        if (i < p(34u)) {\n            b1[b.out + i * p(4u)] = e;\n        }\n        return;\n    }\n");
    wf_str_add(out, scratch ? "    order[place + b.line * p(1u) + i] = e;\n}\n" : "}\n");
    return WEFT_OK;
}

/* One dispatch; words 30 .. 33 are the caller's. */
static weft_status sort_launch(const wf_kernel_ask *ask, const wf_sort_plan *s, int phase, wf_launch *l)
{
    weft_status st;
    wf_str decls = WF_STR_INIT;
    wf_slots slots = {0};
    int64_t group = ask->row->param[0];
    wf_line_cut cut = s->blocks ? wf_line_blocks(s->n) : (wf_line_cut){1, s->n};
    memcpy(l->statics, s->words, 27 * sizeof *s->words);
    wf_line_cut_words(cut, l);
    l->statics[34] = (int32_t)s->limit;
    l->n_static = 35;
    wf_slots_set(&slots, "WG", group);
    wf_slots_set(&slots, "PASSES", passes_of(s) + passes_of(s) % 2);
    wf_slots_set(&slots, "PHASE", phase);
    WF_TRY_GOTO(st, text_sort(s, group, &decls, l), done);
    WF_TRY_GOTO(st, wf_grid_flat(ask->caps, s->rank ? (s->lines * s->n + group - 1) / group : s->lines * cut.blocks, l->grid), done);
    st = wf_launch_compose(ask, s->rank ? "sort_rank" : "sort_radix", &slots, &decls, false, l);
done:
    wf_str_free(&decls);
    return st;
}

/* Three dispatches a digit. The last pass ends in the wanted place; those before it alternate. */
static weft_status sort_blocks(const wf_kernel_ask *ask, const wf_sort_plan *s, wf_kernel_choice *out)
{
    int64_t all = s->lines * s->n, blocks = wf_line_blocks(s->n).blocks;
    for (int pass = 0, n = passes_of(s); pass < n; pass++) {
        int64_t from = pass == 0 ? BEFORE_ALL : (n - pass) % 2 * all, to = s->to_output && pass == n - 1 ? OUTPUT : (n - 1 - pass) % 2 * all;
        for (int phase = 1; phase <= 2; phase++) {
            wf_launch *l = &out->launch[out->n_launches++];
            WF_TRY(sort_launch(ask, s, phase, l));
            l->statics[30] = s->first_bit + 4 * pass;
            l->statics[31] = (int32_t)from;
            l->statics[32] = (int32_t)to;
            l->statics[33] = (int32_t)(2 * all);
            if (phase == 1)
                WF_TRY(wf_line_scan_scratch(ask, "i32", "return a + b;", s->lines, 16 * blocks, 2 * all, &out->launch[out->n_launches++]));
        }
    }
    return WEFT_OK;
}

weft_status wf_sort_launches(const wf_kernel_ask *ask, const wf_sort_plan *s, wf_kernel_choice *out)
{
    int64_t words = wf_sort_words(s);
    if (words < 0 || passes_of(s) > WF_SORT_PASSES)
        return wf_fail(WEFT_E_UNSUPPORTED, "sort: %lld lines of %lld elements pass 32-bit indices", (long long)s->lines, (long long)s->n);
    out->scratch_bytes = WF_MAX(out->scratch_bytes, 4 * (uint64_t)words);
    if (s->blocks)
        return sort_blocks(ask, s, out);
    wf_launch *l = &out->launch[out->n_launches++];
    WF_TRY(sort_launch(ask, s, 0, l));
    l->statics[30] = s->first_bit;
    l->statics[31] = s->to_output ? OUTPUT : 0;
    l->statics[32] = s->to_output ? 0 : (int32_t)(s->lines * s->n);
    return WEFT_OK;
}

/* Binding b0 and digits_at: keys of x, or their complements for a descending order (word 5). */
static weft_status text_digits(const char *who, weft_dtype dtype, wf_str *out)
{
    WF_TRY(wf_text_key(who, out, dtype));
    wf_str_add(out, "fn digits_at(line_x: i32, i: i32) -> u32 {\n    let key = key_at(line_x + i * p(3u));\n"
                    "    return select(key, ~key, p(5u) != 0);\n}\n");
    return WEFT_OK;
}

weft_status wf_sort_keys(const wf_kernel_ask *ask, wf_sort_plan *s, wf_kernel_choice *out)
{
    weft_dtype dtype = ask->req->in[0].dtype;
    wf_str digits = WF_STR_INIT;
    wf_key_bits(dtype, &s->first_bit, &s->bits);
    s->input = 0;
    s->to_output = true;
    s->digits = &digits;
    weft_status st = text_digits(ask->row->op, dtype, &digits);
    if (st == WEFT_OK)
        st = wf_sort_launches(ask, s, out);
    wf_str_free(&digits);
    return st;
}

/* ---- sort ---- */

static weft_status read_sort(const wf_caps *caps, const wf_kernel_req *req, void *problem)
{
    (void)caps;
    return wf_line_words_of("sort", req, &((sort_problem *)problem)->words);
}

static bool is_rank(const wf_kernel_row *row) { return strcmp(row->name, "rank") == 0; }
static bool is_blocks(const wf_kernel_row *row) { return strcmp(row->name, "blocks") == 0; }

static wf_sort_plan plan_of(const wf_kernel_ask *ask)
{
    const sort_problem *p = ask->problem;
    return (wf_sort_plan){.words = p->words.word, .lines = p->words.lines, .n = p->words.n, .limit = p->words.n, .to_output = true,
                          .rank = is_rank(ask->row), .blocks = is_blocks(ask->row)};
}

static bool sort_admissible(wf_kernel_ask *ask)
{
    wf_sort_plan s = plan_of(ask);
    if (s.rank && s.n > RANK_MOST)
        return wf_kernel_refuse(ask, "lines of %lld elements, it takes at most %d", (long long)s.n, RANK_MOST);
    if (wf_sort_words(&s) < 0)
        return wf_kernel_refuse(ask, "%lld lines of %lld elements pass 32-bit indices", (long long)s.lines, (long long)s.n);
    if (!wf_kernel_rounds(ask, sort_rounds(&s, ask->row->param[0])))
        return false;
    return wf_line_fits_group(ask, s.rank ? 0 : 68 * ask->row->param[0]);
}

static bool sort_wanted(const wf_kernel_ask *ask)
{
    wf_sort_plan s = plan_of(ask);
    return s.rank ? s.n <= RANK_BEST : !s.blocks || wf_line_blocks_wanted(s.lines, s.n);
}

static weft_status build_sort(const wf_kernel_ask *ask, wf_kernel_choice *out)
{
    wf_sort_plan s = plan_of(ask);
    return wf_sort_keys(ask, &s, out);
}

const wf_kernel_family wf_sort_family = {read_sort, sort_admissible, sort_wanted, build_sort, NULL};

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
    p->bits = 1; /* an axis of one element too: its indices are still put in order */
    while (p->bits < 31 && w[5 + axis] > 1ll << p->bits)
        p->bits++;
    return WEFT_OK;
}

static wf_sort_plan index_plan(const scatter_problem *p)
{
    return (wf_sort_plan){.words = p->line_words, .lines = p->lines, .n = p->m, .bits = p->bits, .input = 1, .rank = p->m <= RANK_BEST,
                          .blocks = wf_line_blocks_wanted(p->lines, p->m)};
}

/* Elements of the result in a 32-bit word. */
static int per_word(weft_dtype dtype)
{
    size_t bytes = weft_dtype_block_bytes(dtype);
    return bytes < 4 ? (int)(4 / bytes) : 1;
}

/* Elements of src a round: software adapters make few rounds. */
static int64_t step_of(const wf_caps *caps) { return wf_caps_software(caps) ? 16 : 1; }

static bool scatter_admissible(wf_kernel_ask *ask)
{
    const wf_sort_plan s = index_plan(ask->problem);
    if (wf_sort_words(&s) < 0)
        return wf_kernel_refuse(ask, "%lld lines of %lld indices pass 32-bit indices", (long long)s.lines, (long long)s.n);
    /* An element of the result searches the index, and combines what may be all of it. */
    const scatter_problem *p = ask->problem;
    int64_t rounds = 4 * 64 + (p->words.word[2] == WF_SCATTER_SET ? 0 : per_word(ask->req->in[0].dtype) * (p->m / step_of(ask->caps) + 2));
    if (!wf_kernel_rounds(ask, sort_rounds(&s, ask->row->param[0])) || !wf_kernel_rounds(ask, rounds))
        return false;
    return wf_line_fits_group(ask, 68 * ask->row->param[0]);
}

static bool always(const wf_kernel_ask *ask)
{
    (void)ask;
    return true;
}

static weft_status sort_index(const wf_kernel_ask *ask, wf_kernel_choice *out)
{
    wf_str digits = WF_STR_INIT;
    wf_sort_plan s = index_plan(ask->problem);
    wf_str_add(&digits, "@group(0) @binding(0) var<storage, read> b0: array<u32>;\n"
                        "fn digits_at(line_x: i32, i: i32) -> u32 {\n    return b0[line_x + i * p(3u)];\n}\n");
    s.digits = &digits;
    weft_status st = wf_sort_launches(ask, &s, out);
    wf_str_free(&digits);
    return st;
}

/* How elements are taken out of a 32-bit word, and the type they meet in. */
static weft_status text_elements(wf_str *out, weft_dtype dtype, const char **type)
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
        "return select(b, a, a > b || nan(a));", "return select(b, a, a < b || nan(a));",
    };
    weft_status st;
    const scatter_problem *p = ask->problem;
    wf_str decls = WF_STR_INIT;
    wf_slots s = {0};
    const char *type;
    const int n = per_word(ask->req->in[0].dtype);
    memcpy(l->statics, p->words.word, sizeof p->words.word);
    l->statics[49] = (int32_t)p->m;
    memcpy(&l->statics[50], p->strides, sizeof p->strides);
    l->n_static = 60;
    for (int i = 0; i < 3; i++)
        wf_launch_bind(l, i, WF_ACCESS_READ);
    wf_launch_bind(l, WF_BIND_OUT, WF_ACCESS_READ_WRITE);
    wf_launch_bind(l, WF_BIND_SCRATCH, WF_ACCESS_READ_WRITE);
    WF_TRY_GOTO(st, text_elements(&decls, ask->req->in[0].dtype, &type), done);
    wf_str_addf(&decls, "fn nan(a: %s) -> bool {\n    return %s;\n}\n", type, type[0] == 'f' ? "wf_is_nan(a)" : "false");
    wf_str_addf(&decls, "fn meet(a: %s, b: %s) -> %s {\n    %s\n}\n", type, type, type, meet[p->words.word[2]]);
    wf_slots_set(&s, "WG", ask->row->param[0]);
    wf_slots_set(&s, "SET", p->words.word[2] == WF_SCATTER_SET);
    wf_slots_set(&s, "STEP", step_of(ask->caps));
    wf_slots_set(&s, "PER_WORD", n);
    wf_slots_set(&s, "BITS", 32 / n);
    int64_t words = (p->words.word[0] + n - 1) / n;
    WF_TRY_GOTO(st, wf_grid_flat(ask->caps, (words + ask->row->param[0] - 1) / ask->row->param[0], l->grid), done);
    WF_TRY_GOTO(st, wf_launch_compose(ask, ask->row->file, &s, &decls, false, l), done);
done:
    wf_str_free(&decls);
    return st;
}

static weft_status build_scatter(const wf_kernel_ask *ask, wf_kernel_choice *out)
{
    WF_TRY(sort_index(ask, out));
    return combine(ask, &out->launch[out->n_launches++]);
}

const wf_kernel_family wf_scatter_family = {read_scatter, scatter_admissible, always, build_scatter, NULL};
