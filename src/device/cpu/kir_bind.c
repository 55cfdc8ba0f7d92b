/* kir_bind.c - what the block interpreter works out once a run, from extents and strides.
 *
 * After the tile is chosen (kir_tile.c), one pass over the instructions gives each value its class (which
 * tile axes it varies along), its level (how often it must be computed), an index form base + r * sr +
 * c * sc where it has one (so that loads become pointers, fills or strided moves instead of gathers), and
 * the loop that computes it. Then: which stages are walked, how long rows are cut, what is kept of a row.
 */
#include "kir_exec.h"

enum {
    FEW_OUTER = 8,        /* outer tiles below which rows are cut for threads, */
    CHUNK_ELEMS = 65536,  /* into pieces of at least this many elements, */
    CHUNK_ROWS = 128,     /* and this many times the accumulator's, */
    MAX_CHUNKS = 64,      /* at most this many */
    STREAM_BYTES = 16 << 20 /* outputs from here on would only push others out of the last-level cache */
};

/* ---- values and steps ---- */

/* Class and level of an index form, from the axes it moves along. */
static void classify(const kx_run *x, int i, bool outer_stage, kx_val *v)
{
    const wf_kir *k = x->k;
    v->linear = 1;
    v->sr = v->sc = 0;
    v->cls = KX_S;
    v->level = 0;
    int end = outer_stage ? k->n_outer : x->n_axes;
    for (int a = 0; a < end; a++) {
        int32_t s = wf_kx_stride(x, i, a);
        if (s == 0 || x->extent[a] == 1)
            continue;
        if (a == x->p) {
            v->sr = s;
            v->cls |= KX_P;
        } else if (a == x->q) {
            v->sc = s;
            v->cls |= KX_Q;
        }
        v->level = WF_MAX(v->level, a < k->n_outer ? 1 : 2);
    }
}

static bool is_index(const kx_val *v) { return v->linear || v->cls == KX_S; }

/* Where a LOAD or STORE may go unchanged between storage and block. */
static bool streams(const kx_run *x, const wf_kinstr *in)
{
    const wf_kbind *b = &x->k->bind[in->slot];
    size_t bytes = weft_dtype_block_bytes((weft_dtype)b->dtype);
    return (bytes == 4 || bytes == 8) && weft_dtype_block((weft_dtype)b->dtype) == 1 &&
           (uint64_t)x->points * bytes >= STREAM_BYTES;
}

static void bind_binary(const kx_run *x, const wf_kinstr *in, kx_val *v, kx_step *s)
{
    const kx_val *a = &x->val[in->a], *b = &x->val[in->b];
    const wf_vec_ops *ops = x->kernel->ops;
    uint8_t type = x->k->instr[in->a].type;
    s->kind = KX_VEC2;
    s->f2 = ops->binary[in->op][type];
    if (type == WF_KTY_F32 && v->cls != KX_S && ops->vec_scalar[in->op]) {
        if (b->cls == KX_S) {
            s->f2 = ops->vec_scalar[in->op];
            s->expand = a->cls != v->cls;
            return;
        }
        if (a->cls == KX_S) {
            s->f2 = ops->scalar_vec[in->op];
            s->expand = (uint8_t)((b->cls != v->cls) << 1);
            return;
        }
    }
    if (in->type == WF_KTY_I32 && a->cls == v->cls && b->cls == KX_S && v->cls != KX_S && ops->vec_scalar_i32[in->op]) {
        s->f2 = ops->vec_scalar_i32[in->op];
        return;
    }
    s->expand = (uint8_t)((a->cls != v->cls) | (b->cls != v->cls) << 1);
}

/* i = a + b, an index of one LOAD only: is one of the two linear and contiguous along q, the other a value for each row of the
 * tile? Then rows are moved whole, and the index of each element is never made. */
static bool picks_rows(const kx_run *x, int i)
{
    const wf_kir *k = x->k;
    const wf_kinstr *in = &k->instr[i];
    if (x->p < 0 || in->op != WF_KOP_ADD || in->type != WF_KTY_I32 || x->kernel->info[i].uses != 1)
        return false;
    const bool a_linear = x->val[in->a].linear;
    const kx_val *l = &x->val[a_linear ? in->a : in->b], *r = &x->val[a_linear ? in->b : in->a];
    if (!l->linear || l->sc != 1 || r->linear || r->by_row || r->cls != KX_P)
        return false;
    const kx_info *info = &x->kernel->info[i];
    for (int j = i + 1; j < k->n_instr && x->kernel->info[j].stage == info->stage; j++)
        if (k->instr[j].op == WF_KOP_LOAD && k->instr[j].a == i)
            return weft_dtype_block((weft_dtype)k->bind[k->instr[j].slot].dtype) == 1;
    return false;
}

static void bind_one(kx_run *x, int i, int stage, kx_step *s)
{
    const wf_cpu_kernel *ck = x->kernel;
    const wf_kinstr *in = &x->k->instr[i];
    const wf_vec_ops *ops = ck->ops;
    kx_val *v = &x->val[i];
    bool outer_stage = x->k->stages[stage].kind == WF_KSTAGE_OUTER;
    uint8_t deepest = outer_stage ? 1 : 2;
    memset(s, 0, sizeof *s);
    memset(v, 0, sizeof *v);
    s->i = (int16_t)i;
    int n_ops = wf_kop_operands[in->op];
    const int16_t operand[3] = {in->a, in->b, in->c};
    for (int o = 0; o < n_ops; o++) {
        const kx_val *w = &x->val[operand[o]];
        v->cls |= w->cls;
        uint8_t level = ck->info[operand[o]].stage == stage ? w->level : WF_MIN(w->level, 1);
        v->level = WF_MAX(v->level, level);
    }
    int index_operands = 0; /* leading operands read as an index form */
    switch (in->op) {
    case WF_KOP_CONST: s->kind = KX_CONST; break;
    case WF_KOP_STATIC: s->kind = KX_STATIC; break;
    case WF_KOP_STEP: s->kind = KX_STEP; break;
    case WF_KOP_AXIS:
    case WF_KOP_AFFINE:
        s->kind = in->op == WF_KOP_AXIS ? KX_AXIS : KX_AFFINE;
        classify(x, i, outer_stage, v);
        break;
    case WF_KOP_UNRAVEL: s->kind = KX_UNRAVEL; break;
    case WF_KOP_LOAD:
        index_operands = is_index(&x->val[in->a]) || x->val[in->a].by_row;
        s->kind = x->val[in->a].by_row ? KX_LOAD_ROWS : index_operands ? KX_LOAD : KX_LOAD_GATHER;
        if (x->k->bind[in->slot].access != WF_ACCESS_READ)
            v->level = deepest; /* never before an earlier STORE */
        break;
    case WF_KOP_ACC:
        s->kind = KX_ACC;
        v->cls = x->outer_class;
        v->level = 1;
        break;
    case WF_KOP_IN:
        s->kind = KX_IN;
        v->cls = x->tile_class;
        v->level = 1;
        break;
    case WF_KOP_STORE:
        index_operands = is_index(&x->val[in->a]);
        s->kind = index_operands ? KX_STORE : KX_STORE_SCATTER;
        s->expand = (uint8_t)((!index_operands && x->val[in->a].cls != v->cls) | (x->val[in->b].cls != v->cls) << 1);
        s->nt = streams(x, in);
        x->past_caches |= s->nt != 0;
        v->level = deepest;
        break;
    case WF_KOP_CHECK: s->kind = KX_CHECK; break;
    case WF_KOP_CAST:
        s->kind = KX_VEC1;
        s->f1 = ops->cast[x->k->instr[in->a].type][in->type];
        break;
    case WF_KOP_BITCAST:
        s->kind = KX_VEC1;
        s->f1 = ops->cast[WF_KTY_U32][WF_KTY_U32];
        break;
    case WF_KOP_ROUND16:
        s->kind = KX_VEC1;
        s->f1 = in->imm == WEFT_DTYPE_F16 ? ops->round_f16 : ops->round_bf16;
        break;
    case WF_KOP_SELECT:
    case WF_KOP_FMA:
        s->kind = KX_VEC3;
        s->f3 = in->op == WF_KOP_FMA ? ops->fma[in->type] : ck->info[i].esize == 8 ? ops->select8 : ops->select4;
        for (int o = 0; o < 3; o++)
            s->expand |= (uint8_t)((x->val[operand[o]].cls != v->cls) << o);
        break;
    case WF_KOP_LIBM:
        bind_binary(x, in, v, s);
        s->f2 = wf_libm_loop((wf_libm)in->imm);
        break;
    default:
        if (n_ops == 1) {
            s->kind = KX_VEC1;
            s->f1 = ops->unary[in->op][in->type];
            break;
        }
        if ((in->op == WF_KOP_ADD || in->op == WF_KOP_SUB) && in->type == WF_KTY_I32 && is_index(&x->val[in->a]) &&
            is_index(&x->val[in->b])) {
            int32_t sign = in->op == WF_KOP_ADD ? 1 : -1;
            s->kind = KX_SUM;
            v->linear = 1;
            v->sr = x->val[in->a].sr + sign * x->val[in->b].sr;
            v->sc = x->val[in->a].sc + sign * x->val[in->b].sc;
            index_operands = 2;
            break;
        }
        if (picks_rows(x, i)) {
            s->kind = KX_ROWS;
            v->by_row = 1;
            index_operands = 2;
            x->val[x->val[in->a].linear ? in->b : in->a].need = 1;
            break;
        }
        bind_binary(x, in, v, s);
    }
    if (v->cls != KX_S)
        v->level = deepest; /* blocks share slots within a stage, so only single values move out of its loop */
    s->cls = v->cls;
    for (int o = index_operands; o < n_ops; o++)
        x->val[operand[o]].need = 1;
}

/* Steps of each stage, sorted by level; kept in order within one. */
static void bind_steps(kx_run *x)
{
    const wf_kir *k = x->k;
    int n = 0;
    for (int s = 0; s < k->n_stages; s++) {
        const wf_kstage *st = &k->stages[s];
        int count[3] = {0, 0, 0};
        kx_step *steps = x->step + n;
        for (int i = 0; i < st->count; i++) {
            bind_one(x, st->first + i, s, &steps[i]);
            count[x->val[st->first + i].level]++;
        }
        for (int a = 0; a < st->n_acc; a++)
            x->val[st->acc[a].value].need = 1;
        x->first[s][0] = (uint16_t)n;
        for (int l = 0; l < 3; l++)
            x->first[s][l + 1] = (uint16_t)(x->first[s][l] + count[l]);
        int kinds = (count[0] > 0) + (count[1] > 0) + (count[2] > 0);
        if (kinds > 1) {
            kx_step sorted[WF_KIR_MAX_INSTR];
            int at[3] = {0, count[0], count[0] + count[1]};
            for (int i = 0; i < st->count; i++)
                sorted[at[x->val[steps[i].i].level]++] = steps[i];
            memcpy(steps, sorted, st->count * sizeof *steps);
        }
        n += st->count;
    }
}

/* Rows of a tile that a STORE takes as a LOAD finds them go from one to the other in one move. */
static void bind_moves(kx_run *x)
{
    if (!x->kernel->moves || x->p < 0)
        return;
    kx_step *end = x->step + x->first[0][3], *load = NULL;
    for (kx_step *s = x->step; s < end; s++) {
        const wf_kinstr *in = &x->k->instr[s->i];
        if (s->kind == KX_LOAD || s->kind == KX_LOAD_ROWS)
            load = s->cls == KX_F && (x->val[in->a].by_row || (x->val[in->a].linear && x->val[in->a].sc == 1)) ? s : NULL;
        else if (s->kind == KX_STORE && load && in->b == load->i && s->cls == KX_F && x->val[in->a].linear && x->val[in->a].sc == 1) {
            load->kind = KX_MOVED;
            s->kind = KX_STORE_MOVED;
        }
    }
}

static void bind_head(kx_run *x, const wf_cpu_kernel *kernel, const wf_cpu_run *run, uint32_t bind_base, uint32_t static_base)
{
    const wf_kir *k = kernel->k;
    x->kernel = kernel;
    x->k = k;
    x->run = run;
    x->ptr = run->ptr + bind_base;
    x->size = run->size + bind_base;
    x->statics = run->statics + static_base;
    x->n_axes = k->n_outer + k->n_inner;
    x->walk_cols = x->chunks = x->n_keep = 0;
    x->lists_at = 0;
    x->past_caches = false;
    memset(x->walk, 0, sizeof x->walk);
    memset(x->keep, 0, k->n_instr);
    memset(x->reuse, 0, k->n_instr);
    memset(x->dead, 0, k->n_instr);
    x->points = 1;
    for (int a = 0; a < x->n_axes; a++) {
        x->extent[a] = WF_MAX(x->statics[k->extent_slot + a], 0);
        if (!wf_mul_i64(x->points, x->extent[a], &x->points))
            x->points = INT64_MAX / 16;
    }
}

/* ---- walking, and values kept for a row ---- */

static void choose_walks(kx_run *x)
{
    const wf_kir *k = x->k;
    if (k->n_inner == 0) {
        if (k->n_stages != 1 || x->q < 0 || x->extent[x->q] < 4 * KX_BLOCK_WALK || !wf_kx_walk_fits(x, 0))
            return;
        x->walk[0] = true;
        x->tile_cols = KX_BLOCK_WALK;
        int64_t most = WF_MIN(WF_MAX(x->extent[x->q] / KX_WALK_PARTS, KX_WALK_COLS_MIN), KX_WALK_COLS_MAX);
        int64_t parts = (x->extent[x->q] + most - 1) / most;
        x->walk_cols = (int64_t)wf_align_up((uint64_t)((x->extent[x->q] + parts - 1) / parts), KX_BLOCK_WALK);
        wf_kx_layout(x);
        return;
    }
    for (int s = 0; s < k->n_stages; s++)
        x->walk[s] = k->stages[s].kind != WF_KSTAGE_OUTER && wf_kx_walk_fits(x, s);
}

/* 0: no cut. From sizes only, so that sums do not depend on the number of threads. */
static int64_t count_chunks(const kx_run *x)
{
    if (x->inner.n == 0 || x->outer.total >= FEW_OUTER)
        return 0;
    int64_t piece = WF_MAX(CHUNK_ELEMS, CHUNK_ROWS * x->acc_elems);
    int64_t chunks = x->points / WF_MAX(x->outer.total, 1) / piece;
    chunks = WF_MIN(WF_MIN(chunks, x->inner.total), MAX_CHUNKS);
    return chunks >= 2 ? chunks : 0;
}

/* Is i computed like its twin, static words included? `root` is the first instruction that computes the same,
 * for those before i. */
static bool same_as_twin(const kx_run *x, const int16_t *root, int i)
{
    int j = x->kernel->twin[i];
    if (j < 0)
        return false;
    const wf_kinstr *a = &x->k->instr[i], *b = &x->k->instr[j];
    size_t words = a->op == WF_KOP_AFFINE ? (size_t)x->n_axes + 1 : a->op == WF_KOP_STATIC || a->op == WF_KOP_STEP ? 1 : 0;
    if (words && memcmp(x->statics + a->slot, x->statics + b->slot, words * 4) != 0)
        return false;
    const int16_t oa[3] = {a->a, a->b, a->c}, ob[3] = {b->a, b->b, b->c};
    for (int o = 0; o < wf_kop_operands[a->op]; o++)
        if (root[oa[o]] != root[ob[o]])
            return false;
    return true;
}

/* Marks the row values of a stage that only led to a reused one. */
static void mark_dead(kx_run *x, int stage)
{
    const wf_kstage *st = &x->k->stages[stage];
    bool live[WF_KIR_MAX_INSTR];
    memset(live + st->first, 0, st->count);
    for (int a = 0; a < st->n_acc; a++)
        live[st->acc[a].value] = true;
    for (int i = st->first + st->count - 1; i >= st->first; i--) {
        const wf_kinstr *in = &x->k->instr[i];
        live[i] |= in->op == WF_KOP_STORE || in->op == WF_KOP_CHECK;
        x->dead[i] = !live[i];
        if (!live[i] || x->reuse[i])
            continue;
        const int16_t operand[3] = {in->a, in->b, in->c};
        for (int o = 0; o < wf_kop_operands[in->op]; o++)
            live[operand[o]] = true;
    }
}

/* A costly value that a later stage computes again (the exponentials of a softmax) is kept for the row where
 * it fits the cache. One a stage: the last, which the others usually lead to. */
static void choose_keeps(kx_run *x)
{
    const wf_kir *k = x->k;
    if (!x->kernel->has_twins || x->chunks || (uint64_t)x->inner.total * x->slot_bytes > KX_KEEP_BYTES)
        return;
    int16_t root[WF_KIR_MAX_INSTR];
    for (int s = 0; s < k->n_stages; s++) {
        int found = -1;
        for (int i = k->stages[s].first; i < k->stages[s].first + k->stages[s].count; i++) {
            int j = x->kernel->twin[i];
            bool same = same_as_twin(x, root, i);
            root[i] = same ? root[j] : (int16_t)i;
            if (same && wf_kx_costly(x->kernel, i) && x->val[i].cls == x->tile_class && x->tile_class != KX_S &&
                x->val[i].level == 2 && x->walk[s] && x->walk[x->kernel->info[j].stage])
                found = i;
        }
        if (found < 0)
            continue;
        int j = x->kernel->twin[found];
        if (!x->keep[j])
            x->keep[j] = (uint8_t)++x->n_keep;
        x->reuse[found] = x->keep[j];
        mark_dead(x, s);
    }
    x->ws_bytes += (size_t)x->n_keep * (size_t)x->inner.total * x->slot_bytes;
}

/* The walk of a row that computes longest: the last with a costly loop, else the last. */
static int8_t longest_walk(const kx_run *x)
{
    int8_t found = -1;
    bool costly = false;
    for (int s = 0; s < x->k->n_stages; s++) {
        const wf_kstage *st = &x->k->stages[s];
        if (st->kind == WF_KSTAGE_OUTER || !x->walk[s])
            continue;
        bool here = false;
        for (int i = st->first; i < st->first + st->count; i++)
            here |= !x->dead[i] && !x->reuse[i] && x->val[i].cls != KX_S && wf_kx_costly(x->kernel, i);
        if (here || !costly)
            found = (int8_t)s;
        costly |= here;
    }
    return found;
}

void wf_kx_bind(kx_run *x, const wf_cpu_kernel *kernel, const wf_cpu_run *run)
{
    bind_head(x, kernel, run, 0, 0);
    wf_kx_choose(x);
    wf_kx_layout(x);
    bind_steps(x);
    bind_moves(x);
    choose_walks(x);
    x->chunks = count_chunks(x);
    choose_keeps(x);
    x->longest = longest_walk(x);
}

void wf_kx_bind_tile(kx_run *x, const wf_cpu_kernel *kernel, const wf_cpu_run *run, uint32_t bind_base, uint32_t static_base,
                     int64_t rows, int64_t cols)
{
    bind_head(x, kernel, run, bind_base, static_base);
    wf_kx_set_tile(x, 1, 2, rows, cols);
    wf_kx_layout(x);
    bind_steps(x);
}
