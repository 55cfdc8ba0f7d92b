/* wgsl.c - kernel IR to a WGSL program: how points are spread over invocations, and the stages.
 *
 * The text depends on the kernel's structure and the work-group size alone; extents, strides and
 * offsets come from the uniform P. One dialect for Tint and naga: no `enable`, no storage or workgroup
 * pointers passed to functions, barriers only where control flow depends on P and the work-group id.
 *
 *   elementwise   one invocation takes 1, 2 or 4 elements as a vector (WF_WGSL_LANES), or loops over the
 *                 elements of the 32-bit words it owns when an output is narrower (WF_WGSL_WORDS)
 *   rows          one invocation a row with a serial inner loop (THREAD), one work group a row: each
 *                 invocation strides over it, then a tree in workgroup memory (GROUP), or the same with several
 *                 rows a work group (LANES): rows past the end stand at the first and fold and store nothing
 */
#include "wgsl_gen.h"

#include <stdio.h>

/* ---- choosing the form; wf_wgsl_grid must agree with the text ---- */

static bool is_elementwise(const wf_kir *k)
{
    for (int s = 0; s < k->n_stages; s++)
        if (k->stages[s].kind != WF_KSTAGE_OUTER)
            return false;
    return k->n_inner == 0;
}

/* Elements in the widest-packed word of the linear outputs that `vec` lanes do not fill; 1: none. */
static int word_elements(const wf_kir *k, int vec)
{
    int most = 1;
    for (int i = 0; i < k->n_bind; i++) {
        const wf_kbind *b = &k->bind[i];
        int bits = wf_wgsl_elem_bits((weft_dtype)b->dtype);
        if ((b->access & WF_ACCESS_WRITE) && b->linear && bits < 32 && vec * bits < 32)
            most = WF_MAX(most, 32 / bits);
    }
    return most;
}

static uint32_t group_size(const wf_caps *caps)
{
    uint32_t most = caps->max_workgroup_invocations ? caps->max_workgroup_invocations : WF_WGSL_GROUP;
    uint32_t size = WF_WGSL_GROUP;
    while (size > 1 && size > most)
        size /= 2;
    return size;
}

static void choose_form(const wf_caps *caps, const wf_kir *k, wf_wgsl_gen *g)
{
    int vec = k->vec > 1 ? k->vec : 1;
    g->k = k;
    g->group = group_size(caps);
    g->width = g->per_invocation = 1;
    if (!is_elementwise(k)) {
        g->form = k->strategy == WF_KSTRAT_THREAD ? WF_WGSL_THREAD : WF_WGSL_GROUP_ROW;
        g->lanes = k->strategy == WF_KSTRAT_LANES ? WF_MIN(g->group, WF_KSTRAT_LANES_WIDTH) : g->group;
    } else if (word_elements(k, vec) > 1) {
        g->form = WF_WGSL_WORDS;
        g->per_invocation = word_elements(k, 1);
    } else {
        g->form = WF_WGSL_LANES;
        g->width = g->per_invocation = vec;
    }
}

void wf_wgsl_grid(const wf_caps *caps, const wf_kir *k, const int64_t *extents, uint32_t grid[3])
{
    wf_wgsl_gen g = {0};
    uint64_t groups = 1, most = caps->max_workgroups ? caps->max_workgroups : 65535;
    choose_form(caps, k, &g);
    for (int axis = 0; axis < k->n_outer; axis++)
        groups *= extents[axis] > 0 ? (uint64_t)extents[axis] : 0;
    uint64_t per_group = g.form == WF_WGSL_GROUP_ROW ? g.group / g.lanes : (uint64_t)g.group * (uint64_t)g.per_invocation;
    groups = (groups + per_group - 1) / per_group;
    uint64_t rows = groups ? (groups + most - 1) / most : 1;
    grid[0] = (uint32_t)((groups + rows - 1) / rows); /* even rows: at most rows - 1 groups find nothing to do */
    grid[1] = (uint32_t)rows;
    grid[2] = 1;
}

/* ---- pieces of the entry point ---- */

/* Several rows share a work group. */
static bool shares_group(const wf_wgsl_gen *g) { return g->form == WF_WGSL_GROUP_ROW && g->lanes < g->group; }

/* This invocation's number among those of its row. */
static const char *lane_of(const wf_wgsl_gen *g) { return shares_group(g) ? "lane" : "lid"; }

/* The product of the extents of axes first .. last-1, as u32 text. */
static void emit_product(const wf_wgsl_gen *g, int first, int last)
{
    char word[32];
    if (first == last)
        wf_str_add(g->out, "1u");
    for (int axis = first; axis < last; axis++)
        wf_str_addf(g->out, "%su32(%s)", axis > first ? " * " : "",
                    wf_wgsl_word(g, g->k->extent_slot + (uint32_t)axis, word));
}

/* Coordinates of axes first .. last-1 from the row-major index `from`. */
static void emit_coordinates(const wf_wgsl_gen *g, int first, int last, const char *from, const char *indent)
{
    char word[32];
    if (last - first > 1)
        wf_str_addf(g->out, "%svar t%d = %s;\n", indent, first, from);
    for (int axis = last; axis-- > first;) {
        wf_wgsl_word(g, g->k->extent_slot + (uint32_t)axis, word);
        if (last - first == 1)
            wf_str_addf(g->out, "%slet c%d = i32(%s);\n", indent, axis, from);
        else if (axis == first)
            wf_str_addf(g->out, "%slet c%d = i32(t%d);\n", indent, axis, first);
        else
            wf_str_addf(g->out, "%slet c%d = i32(t%d %% u32(%s));\n%st%d = t%d / u32(%s);\n", indent, axis, first, word,
                        indent, first, first, word);
    }
}

/* ---- stores ---- */

/* The row-major index that a linear output is stored at, as u32 text. */
static const char *linear_index(const wf_wgsl_gen *g)
{
    return g->k->stages[g->stage].kind == WF_KSTAGE_MAP ? "row * inner + j" : "row";
}

static void emit_store(const wf_wgsl_gen *g, int at, const char *indent)
{
    const wf_kinstr *in = &g->k->instr[at];
    const wf_kbind *b = &g->k->bind[in->slot];
    wf_kty to = wf_kty_of_dtype((weft_dtype)b->dtype);
    wf_wgsl_store how = wf_wgsl_store_of(g, in->slot);
    unsigned n = g->bind_base + in->slot;
    char name[16];

    if (how == WF_WGSL_STORE_ATOMIC && b->linear && g->word_bits)
        how = WF_WGSL_STORE_WORD;

    snprintf(name, sizeof name, "v%d", in->b);
    if (in->type != to) {
        wf_str_addf(g->out, "%slet s%d = ", indent, at);
        wf_wgsl_emit_cast((wf_kty)in->type, to, g->width, name, g->out);
        wf_str_add(g->out, ";\n");
        snprintf(name, sizeof name, "s%d", at);
    }
    if (how == WF_WGSL_STORE_LANES) {
        wf_str_addf(g->out, "%sstw%u(first >> %uu, %s);\n", indent, n, g->width == 4 ? 2u : 1u, name);
    } else if (how == WF_WGSL_STORE_WORD) {
        wf_str_addf(g->out, "%sy%u = ", indent, n);
        wf_wgsl_bits((weft_dtype)b->dtype, name, g->out);
        wf_str_add(g->out, ";\n");
    } else {
        for (int lane = 0; lane < g->width; lane++) {
            char suffix[3] = {'.', "xyzw"[lane], 0};
            const char *component = g->width > 1 ? suffix : "";
            if (how == WF_WGSL_STORE_ATOMIC)
                wf_str_addf(g->out, "%sst%u(", indent, n);
            else
                wf_str_addf(g->out, "%sb%u[", indent, n);
            if (b->linear && g->form != WF_WGSL_EPILOGUE && g->width == 1)
                wf_str_addf(g->out, how == WF_WGSL_STORE_ATOMIC ? "i32(%s)" : "%s", linear_index(g));
            else
                wf_str_addf(g->out, "v%d%s", in->a, component);
            wf_str_addf(g->out, how == WF_WGSL_STORE_ATOMIC ? ", %s%s);\n" : "] = %s%s;\n", name, component);
        }
    }
}

/* The instructions of the open stage; stores by one invocation of the group when the group shares a row. */
static void emit_body(const wf_wgsl_gen *g, const char *indent)
{
    const wf_kstage *stage = &g->k->stages[g->stage];
    bool once = g->form == WF_WGSL_GROUP_ROW && stage->kind == WF_KSTAGE_OUTER;
    for (int i = stage->first; i < stage->first + stage->count; i++) {
        if (g->k->instr[i].op != WF_KOP_STORE) {
            wf_wgsl_emit_instr(g, i, indent);
            continue;
        }
        if (once)
            wf_str_addf(g->out, "%sif (%s) {\n", indent, shares_group(g) ? "lane == 0u && live" : "lid == 0u");
        emit_store(g, i, indent);
        if (once)
            wf_str_addf(g->out, "%s}\n", indent);
    }
}

/* ---- reductions ---- */

static bool is_arg(unsigned rop) { return rop == WF_KROP_ARGMAX || rop == WF_KROP_ARGMIN; }

static void start_value(const wf_kacc *acc, wf_str *out)
{
    static const uint32_t lowest[] = {0xff800000u, 0x80000000u, 0, 0}, highest[] = {0x7f800000u, 0x7fffffffu, 0xffffffffu, 1};
    uint32_t bits = 0;
    switch (acc->rop) {
    case WF_KROP_PROD: bits = acc->type == WF_KTY_F32 ? 0x3f800000u : 1; break;
    case WF_KROP_MAX:
    case WF_KROP_ARGMAX: bits = lowest[acc->type]; break;
    case WF_KROP_MIN:
    case WF_KROP_ARGMIN: bits = highest[acc->type]; break;
    default: break;
    }
    wf_wgsl_literal((wf_kty)acc->type, bits, out);
}

/* Fold `value` (for ARGMAX and ARGMIN found at `at`) into accumulator i of the open stage. */
static void emit_fold(const wf_wgsl_gen *g, int i, const char *value, const char *at, const char *indent)
{
    const wf_kacc *acc = &g->k->stages[g->stage].acc[i];
    bool f = acc->type == WF_KTY_F32, boolean = acc->type == WF_KTY_BOOL, max = acc->rop == WF_KROP_ARGMAX;
    char a[16];
    snprintf(a, sizeof a, "a%d_%d", g->stage, i);
    if (is_arg(acc->rop)) {
        if (f)
            wf_str_addf(g->out, "%sif (wf_arg_%s(%s, %s_at, %s, %s)) {\n", indent, max ? "max" : "min", a, a,
                        value, at);
        else
            wf_str_addf(g->out, boolean ? "%sif (u32(%s) %s u32(%s) || (%s == %s && %s < %s_at)) {\n"
                                        : "%sif (%s %s %s || (%s == %s && %s < %s_at)) {\n",
                        indent, value, max ? ">" : "<", a, value, a, at, a);
        wf_str_addf(g->out, "%s    %s = %s;\n%s    %s_at = %s;\n%s}\n", indent, a, value, indent, a, at, indent);
    } else if (acc->rop == WF_KROP_SUM || acc->rop == WF_KROP_PROD) {
        wf_str_addf(g->out, "%s%s = %s %s %s;\n", indent, a, a, acc->rop == WF_KROP_SUM ? "+" : "*", value);
    } else if (boolean) {
        wf_str_addf(g->out, "%s%s = %s %s %s;\n", indent, a, a, acc->rop == WF_KROP_MAX ? "|" : "&", value);
    } else {
        wf_str_addf(g->out, "%s%s = %s%s(%s, %s);\n", indent, a, f ? "wf_" : "",
                    acc->rop == WF_KROP_MAX ? "max" : "min", a, value);
    }
}

static void emit_accumulators(const wf_wgsl_gen *g)
{
    const wf_kstage *stage = &g->k->stages[g->stage];
    for (int i = 0; i < stage->n_acc; i++) {
        wf_str_addf(g->out, "    var a%d_%d = ", g->stage, i);
        start_value(&stage->acc[i], g->out);
        wf_str_add(g->out, ";\n");
        if (is_arg(stage->acc[i].rop))
            wf_str_addf(g->out, "    var a%d_%d_at = 0i;\n", g->stage, i);
    }
}

static void to_word(wf_kty type, int stage, int i, wf_str *out)
{
    wf_str_addf(out, type == WF_KTY_BOOL ? "select(0u, 1u, a%d_%d)" : "bitcast<u32>(a%d_%d)", stage, i);
}

static void from_word(wf_kty type, int i, const char *index, wf_str *out)
{
    if (type == WF_KTY_BOOL)
        wf_str_addf(out, "w%d[%s] != 0u", i, index);
    else
        wf_str_addf(out, "bitcast<%s>(w%d[%s])", wf_wgsl_type(type), i, index);
}

/* Write the accumulators of this invocation to workgroup memory. */
static void emit_publish(const wf_wgsl_gen *g, const char *indent)
{
    const wf_kstage *stage = &g->k->stages[g->stage];
    for (int i = 0; i < stage->n_acc; i++) {
        wf_str_addf(g->out, "%sw%d[lid] = ", indent, i);
        to_word((wf_kty)stage->acc[i].type, g->stage, i, g->out);
        wf_str_add(g->out, ";\n");
        if (is_arg(stage->acc[i].rop))
            wf_str_addf(g->out, "%sw%d_at[lid] = a%d_%d_at;\n", indent, i, g->stage, i);
    }
}

/* Combine the accumulators of a row's invocations by halves; each of them ends with the result. */
static void emit_tree(const wf_wgsl_gen *g)
{
    const wf_kstage *stage = &g->k->stages[g->stage];
    const char *first = shares_group(g) ? "lid - lane" : "0";
    emit_publish(g, "    ");
    wf_str_addf(g->out,
                "    workgroupBarrier();\n"
                "    for (var s = %uu; s > 0u; s = s >> 1u) {\n"
                "        if (%s < s) {\n",
                g->lanes / 2, lane_of(g));
    for (int i = 0; i < stage->n_acc; i++) {
        char value[] = "u0", at[] = "u0_at";
        value[1] = at[1] = (char)('0' + i);
        wf_str_addf(g->out, "            let u%d = ", i);
        from_word((wf_kty)stage->acc[i].type, i, "lid + s", g->out);
        wf_str_add(g->out, ";\n");
        if (is_arg(stage->acc[i].rop))
            wf_str_addf(g->out, "            let u%d_at = w%d_at[lid + s];\n", i, i);
        emit_fold(g, i, value, at, "            ");
    }
    emit_publish(g, "            ");
    wf_str_add(g->out, "        }\n        workgroupBarrier();\n    }\n");
    for (int i = 0; i < stage->n_acc; i++) {
        wf_str_addf(g->out, "    a%d_%d = ", g->stage, i);
        from_word((wf_kty)stage->acc[i].type, i, first, g->out);
        wf_str_add(g->out, ";\n");
        if (is_arg(stage->acc[i].rop))
            wf_str_addf(g->out, "    a%d_%d_at = w%d_at[%s];\n", g->stage, i, i, first);
    }
    wf_str_add(g->out, "    workgroupBarrier();\n");
}

static void emit_workgroup_arrays(const wf_wgsl_gen *g)
{
    bool word[WF_KIR_MAX_ACC] = {false}, at[WF_KIR_MAX_ACC] = {false};
    for (int s = 0; s < g->k->n_stages; s++)
        for (int i = 0; i < g->k->stages[s].n_acc; i++) {
            word[i] = true;
            at[i] |= is_arg(g->k->stages[s].acc[i].rop);
        }
    for (int i = 0; i < WF_KIR_MAX_ACC; i++) {
        if (word[i])
            wf_str_addf(g->out, "var<workgroup> w%d: array<u32, %u>;\n", i, g->group);
        if (at[i])
            wf_str_addf(g->out, "var<workgroup> w%d_at: array<i32, %u>;\n", i, g->group);
    }
}

/* ---- stages of row kernels ---- */

static void emit_inner_loop(const wf_wgsl_gen *g)
{
    const wf_kstage *stage = &g->k->stages[g->stage];
    bool group = g->form == WF_WGSL_GROUP_ROW;
    wf_str_addf(g->out, "    for (var j = %s; j < inner; j = j + %uu) {\n", group ? lane_of(g) : "0u", group ? g->lanes : 1u);
    emit_coordinates(g, g->k->n_outer, g->k->n_outer + g->k->n_inner, "j", "        ");
    emit_body(g, "        ");
    for (int i = 0; i < stage->n_acc; i++) {
        char value[16];
        snprintf(value, sizeof value, "v%d", stage->acc[i].value);
        emit_fold(g, i, value, "i32(j)", "        ");
    }
    wf_str_add(g->out, "    }\n");
}

static bool is_narrow_output(const wf_wgsl_gen *g, int bind)
{
    return g->k->bind[bind].linear && wf_wgsl_store_of(g, bind) == WF_WGSL_STORE_ATOMIC;
}

/* Bits of an element of the open stage's linear outputs that are narrower than a word; 0 when there are
 * none, or of several widths. */
static int narrow_bits(const wf_wgsl_gen *g)
{
    const wf_kstage *stage = &g->k->stages[g->stage];
    int bits = 0;
    for (int i = stage->first; i < stage->first + stage->count; i++) {
        const wf_kinstr *in = &g->k->instr[i];
        if (in->op != WF_KOP_STORE || !is_narrow_output(g, in->slot))
            continue;
        int width = wf_wgsl_elem_bits((weft_dtype)g->k->bind[in->slot].dtype);
        if (bits && bits != width)
            return 0;
        bits = width;
    }
    return bits;
}

static bool stores_in_stage(const wf_wgsl_gen *g, int bind)
{
    const wf_kstage *stage = &g->k->stages[g->stage];
    for (int i = stage->first; i < stage->first + stage->count; i++)
        if (g->k->instr[i].op == WF_KOP_STORE && g->k->instr[i].slot == bind)
            return true;
    return false;
}

/* `text` once for each narrow output of the open stage, with # for the number of its binding. */
static void emit_for_outputs(const wf_wgsl_gen *g, const char *text)
{
    for (int i = 0; i < g->k->n_bind; i++) {
        if (!is_narrow_output(g, i) || !stores_in_stage(g, i))
            continue;
        for (const char *p = text; *p; p++) {
            if (*p == '#')
                wf_str_addf(g->out, "%d", i);
            else
                wf_str_addn(g->out, p, 1);
        }
    }
}

/* A MAP stage over the words of its row: those that lie wholly inside are stored at once, the two at the
 * ends, shared with the neighbouring rows, by atomic AND and OR. */
static void emit_word_loop(wf_wgsl_gen *g, int bits)
{
    bool group = g->form == WF_WGSL_GROUP_ROW;
    int per_word = 32 / bits, log2_per_word = bits == 16 ? 1 : 2;
    wf_str_addf(g->out,
                "    let end%d = (row * inner + inner + %du) >> %du;\n"
                "    for (var k = ((row * inner) >> %du) + %s; k < end%d; k = k + %uu) {\n"
                "        var mask = 0u;\n",
                g->stage, per_word - 1, log2_per_word, log2_per_word, group ? lane_of(g) : "0u", g->stage,
                group ? g->lanes : 1u);
    emit_for_outputs(g, "        var x# = 0u;\n");
    wf_str_addf(g->out,
                "        for (var at = 0u; at < %du; at = at + 1u) {\n"
                "            let j = (k << %du) + at - row * inner;\n"
                "            if (j < inner) {\n",
                per_word, log2_per_word);
    emit_for_outputs(g, "                var y# = 0u;\n");
    emit_coordinates(g, g->k->n_outer, g->k->n_outer + g->k->n_inner, "j", "                ");
    g->word_bits = bits;
    emit_body(g, "                ");
    g->word_bits = 0;
    wf_str_addf(g->out, "                let s = at * %du;\n                mask = mask | (%s << s);\n", bits,
                bits == 16 ? "0xffffu" : "0xffu");
    emit_for_outputs(g, "                x# = x# | (y# << s);\n");
    wf_str_add(g->out, "            }\n        }\n        if (mask == 0xffffffffu) {\n");
    emit_for_outputs(g, "            atomicStore(&b#[k], x#);\n");
    wf_str_add(g->out, "        } else {\n");
    emit_for_outputs(g, "            atomicAnd(&b#[k], ~mask);\n            atomicOr(&b#[k], x#);\n");
    wf_str_add(g->out, "        }\n    }\n");
}

static void emit_row_stages(wf_wgsl_gen *g)
{
    for (g->stage = 0; g->stage < g->k->n_stages; g->stage++) {
        switch (g->k->stages[g->stage].kind) {
        case WF_KSTAGE_OUTER: emit_body(g, "    "); break;
        case WF_KSTAGE_MAP:
            if (narrow_bits(g))
                emit_word_loop(g, narrow_bits(g));
            else
                emit_inner_loop(g);
            break;
        default:
            emit_accumulators(g);
            emit_inner_loop(g);
            if (g->form == WF_WGSL_GROUP_ROW)
                emit_tree(g);
            break;
        }
    }
}

/* ---- elementwise ---- */

static void emit_elementwise_stages(wf_wgsl_gen *g, const char *indent)
{
    for (g->stage = 0; g->stage < g->k->n_stages; g->stage++)
        emit_body(g, indent);
}

static void emit_lanes(wf_wgsl_gen *g)
{
    if (g->width > 1) {
        static const char *const lanes[] = {"", "", "0, 1", "", "0, 1, 2, 3"};
        wf_str_addf(g->out, "    let lanes = vec%d<i32>(%s);\n", g->width, lanes[g->width]);
    }
    emit_coordinates(g, 0, g->k->n_outer, g->width > 1 ? "first" : "row", "    ");
    emit_elementwise_stages(g, "    ");
}

/* One pass of the loop makes one element; a word is written when its last element is there. Elements
 * past the end of the tensor are zeros. */
static void emit_words(wf_wgsl_gen *g)
{
    int n = g->per_invocation;
    for (int i = 0; i < g->k->n_bind; i++)
        if (wf_wgsl_store_of(g, i) == WF_WGSL_STORE_WORD)
            wf_str_addf(g->out, "    var x%d = 0u;\n", i);
    wf_str_addf(g->out, "    for (var row = first; row < first + %du; row = row + 1u) {\n", n);
    for (int i = 0; i < g->k->n_bind; i++)
        if (wf_wgsl_store_of(g, i) == WF_WGSL_STORE_WORD)
            wf_str_addf(g->out, "        var y%d = 0u;\n", i);
    wf_str_add(g->out, "        if (row < total) {\n");
    emit_coordinates(g, 0, g->k->n_outer, "row", "            ");
    emit_elementwise_stages(g, "            ");
    wf_str_add(g->out, "        }\n");
    for (int i = 0; i < g->k->n_bind; i++) {
        if (wf_wgsl_store_of(g, i) != WF_WGSL_STORE_WORD)
            continue;
        bool half = wf_wgsl_elem_bits((weft_dtype)g->k->bind[i].dtype) == 16;
        unsigned mask = half ? 1 : 3, log2_bits = half ? 4 : 3, log2_elements = half ? 1 : 2;
        wf_str_addf(g->out,
                    "        x%d = x%d | (y%d << ((row & %uu) << %uu));\n"
                    "        if ((row & %uu) == %uu) {\n"
                    "            if (row - %uu < total) { b%d[row >> %uu] = x%d; }\n"
                    "            x%d = 0u;\n"
                    "        }\n",
                    i, i, i, mask, log2_bits, mask, mask, mask, i, log2_elements, i, i);
    }
    wf_str_add(g->out, "    }\n");
}

/* ---- the program ---- */

static void emit_entry(wf_wgsl_gen *g)
{
    const wf_kir *k = g->k;
    bool group = g->form == WF_WGSL_GROUP_ROW;
    wf_str_addf(g->out,
                "@compute @workgroup_size(%u)\n"
                "fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) nwg: vec3<u32>,\n"
                "        @builtin(local_invocation_index) lid: u32) {\n",
                g->group);
    if (wf_wgsl_hides_zero(g))
        wf_str_add(g->out, "    zero = bitcast<f32>(wid.z);\n");
    wf_str_add(g->out, "    let total = ");
    emit_product(g, 0, k->n_outer);
    wf_str_add(g->out, ";\n");
    if (shares_group(g)) /* no invocation leaves: all take part in the barriers */
        wf_str_addf(g->out,
                    "    let lane = lid %% %uu;\n"
                    "    let wanted = (wid.y * nwg.x + wid.x) * %uu + lid / %uu;\n"
                    "    let live = wanted < total;\n"
                    "    let row = select(0u, wanted, live);\n",
                    g->lanes, g->group / g->lanes, g->lanes);
    else if (group)
        wf_str_add(g->out, "    let row = wid.y * nwg.x + wid.x;\n    if (row >= total) { return; }\n");
    else if (g->per_invocation > 1)
        wf_str_addf(g->out,
                    "    let first = ((wid.y * nwg.x + wid.x) * %uu + lid) * %du;\n"
                    "    if (first >= total) { return; }\n",
                    g->group, g->per_invocation);
    else
        wf_str_addf(g->out,
                    "    let row = (wid.y * nwg.x + wid.x) * %uu + lid;\n"
                    "    if (row >= total) { return; }\n",
                    g->group);
    if (g->form == WF_WGSL_LANES) {
        emit_lanes(g);
    } else if (g->form == WF_WGSL_WORDS) {
        emit_words(g);
    } else {
        wf_str_add(g->out, shares_group(g) ? "    let inner = select(0u, " : "    let inner = ");
        emit_product(g, k->n_outer, k->n_outer + k->n_inner);
        wf_str_add(g->out, shares_group(g) ? ", live);\n" : ";\n");
        emit_coordinates(g, 0, k->n_outer, "row", "    ");
        emit_row_stages(g);
    }
    wf_str_add(g->out, "}\n");
}

/* Compute types that WGSL has. */
static weft_status check_types(const wf_kir *k)
{
    for (int i = 0; i < k->n_instr; i++)
        if (k->instr[i].type >= WF_KTY_F64)
            return wf_fail(WEFT_E_UNSUPPORTED, "wgsl: no type %s", wf_wgsl_type((wf_kty)k->instr[i].type));
    for (int i = 0; i < k->n_bind; i++)
        if (wf_kty_of_dtype((weft_dtype)k->bind[i].dtype) >= WF_KTY_F64)
            return wf_fail(WEFT_E_UNSUPPORTED, "wgsl: no type %s", weft_dtype_name((weft_dtype)k->bind[i].dtype));
    for (int s = 0; s < k->n_stages; s++)
        for (int i = 0; i < k->stages[s].n_acc; i++)
            if (k->stages[s].acc[i].type >= WF_KTY_F64)
                return wf_fail(WEFT_E_UNSUPPORTED, "wgsl: no type %s", wf_wgsl_type((wf_kty)k->stages[s].acc[i].type));
    return WEFT_OK;
}

weft_status wf_wgsl_emit(const wf_caps *caps, const wf_kir *k, wf_str *out)
{
    weft_status st;
    wf_str body = WF_STR_INIT;
    wf_wgsl_gen g = {.out = &body};

    WF_TRY(wf_kir_verify(k));
    WF_TRY(check_types(k));
    choose_form(caps, k, &g);
    for (int i = 0; i < k->n_instr; i++)
        if (k->instr[i].op == WF_KOP_IN)
            return wf_fail(WEFT_E_UNSUPPORTED, "wgsl: an epilogue alone is no program");
    wf_wgsl_emit_access(&g);
    wf_wgsl_emit_functions(&g);
    if (g.form == WF_WGSL_GROUP_ROW)
        emit_workgroup_arrays(&g);
    emit_entry(&g);
    if (body.oom) {
        st = wf_fail_oom(body.len);
        goto done;
    }
    wf_wgsl_emit_bindings(&g, out);
    wf_wgsl_emit_params((uint32_t)wf_kir_total_bind(k), k->n_static, out);
    if (wf_wgsl_hides_zero(&g))
        wf_str_add(out, "var<private> zero: f32;\n");
    WF_TRY_GOTO(st, wf_wgsl_emit_helpers(body.ptr, out), done);
    wf_str_addn(out, body.ptr, body.len);
    st = out->oom ? wf_fail_oom(out->len) : WEFT_OK;
done:
    wf_str_free(&body);
    return st;
}

weft_status wf_wgsl_emit_epilogue(const wf_kir *k, uint32_t bind_base, uint32_t static_base, wf_str *bindings, wf_str *body)
{
    wf_wgsl_gen g = {.k = k, .out = body, .form = WF_WGSL_EPILOGUE, .width = 1, .per_invocation = 1,
                     .bind_base = bind_base, .static_base = static_base};
    WF_TRY(wf_kir_verify(k));
    WF_TRY(check_types(k));
    if (k->n_stages != 1 || k->n_outer != 3 || k->n_inner != 0)
        return wf_fail(WEFT_E_UNSUPPORTED, "wgsl: an epilogue has one stage over 3 axes, this one %d over %d",
                       k->n_stages, k->n_outer + k->n_inner);
    if (static_base + k->n_static > WF_STATIC_MAX_BYTES / 4)
        return wf_fail(WEFT_E_UNSUPPORTED, "wgsl: %u static words, at most %d", static_base + k->n_static,
                       WF_STATIC_MAX_BYTES / 4);
    wf_wgsl_emit_bindings(&g, bindings);
    wf_wgsl_emit_access(&g);
    wf_wgsl_emit_functions(&g);
    wf_str_add(body, "fn epilogue(acc: f32, c0: i32, c1: i32, c2: i32) {\n");
    emit_body(&g, "    ");
    wf_str_add(body, "}\n");
    return body->oom || bindings->oom ? wf_fail_oom(body->len) : WEFT_OK;
}
