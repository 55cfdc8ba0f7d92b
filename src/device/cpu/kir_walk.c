/* kir_walk.c - a stage along one axis: a list of loops with pointers, run block after block with nothing in
 * between but pointer additions.
 *
 * kir_step.c works out every address anew for each tile; here that is done once, and each block moves each
 * pointer by a constant. It also allows small blocks, which memory-bound kernels need: a processor overlaps
 * loads and stores only within a window of a few hundred instructions, so blocks of 128 elements of an
 * a * b + c over 16M floats run 1.3 times as fast as blocks of 1024, where operands are read one after the
 * other.
 *
 * The axis is q for elementwise kernels and rows; where columns are folded, the innermost inner axis.
 * Steps that do not fit (gathers, checks, tiles of two axes) leave the whole stage to kir_step.c.
 */
#include "kir_exec.h"

enum {
    MAX_OPS = 64,
    PREFETCH_POINTS = 1 << 20 /* smaller inputs may lie in a cache already */
};

typedef enum op_kind { OP_VEC1, OP_VEC2, OP_VEC3, OP_STREAM, OP_FILL4, OP_FILL8, OP_IOTA, OP_STRIDED, OP_BLOCKS, OP_FOLD, OP_PREFETCH } op_kind;

typedef struct walk_op {
    uint8_t kind;
    bool single; /* one element, not a block */
    union {
        wf_vec1 f1;
        wf_vec2 f2;
        wf_vec3 f3;
        void (*strided)(void *d, const void *a, int64_t stride, int64_t n);
        void (*dequantise)(float *d, const void *blocks, int64_t first, int64_t n);
    };
    char *d;
    const char *a, *b, *c;
    ptrdiff_t add_d, add_a, add_b, add_c; /* bytes a block */
    int64_t first, add_first; /* IOTA: value; BLOCKS: element */
    int64_t stride;           /* IOTA, STRIDED */
    kx_fold fold;
} walk_op;

typedef struct walk {
    kx_ctx *c;
    int stage, axis; /* -1: no axis, one block */
    int64_t step;    /* of the axis, a block */
    int64_t n_blocks, last_cols; /* elements of the last block */
    int64_t tile;    /* number of the first inner tile */
    int n_ops;
    walk_op op[MAX_OPS];
    ptrdiff_t add[WF_KIR_MAX_INSTR]; /* bytes a block moves the value's pointer */
    int64_t move[WF_KIR_MAX_INSTR];  /* elements a block moves an index form */
    int16_t made[WF_KIR_MAX_INSTR];  /* the op that makes a value, -1: none */
} walk;

/* ---- which stages fit ---- */

static bool in_list(const kx_run *x, int stage, int i)
{
    uint8_t deepest = x->k->stages[stage].kind == WF_KSTAGE_OUTER ? 1 : 2;
    return x->kernel->info[i].stage == stage && x->val[i].level == deepest;
}

/* An index whose change from block to block is known beforehand. */
static bool steady(const kx_run *x, int stage, int i) { return x->val[i].linear || (x->val[i].cls == KX_S && !in_list(x, stage, i)); }

static bool load_fits(const kx_run *x, int stage, const kx_step *s)
{
    const wf_kinstr *in = &x->k->instr[s->i];
    const wf_kbind *b = &x->k->bind[in->slot];
    bool blocks = weft_dtype_block((weft_dtype)b->dtype) != 1;
    bool wide = !blocks && weft_dtype_block_bytes((weft_dtype)b->dtype) >= 4;
    if (!steady(x, stage, in->a) || b->access != WF_ACCESS_READ)
        return false;
    return s->cls == KX_S || x->val[in->a].sc == 1 || wide;
}

static bool step_fits(const kx_run *x, int stage, const kx_step *s)
{
    const wf_kinstr *in = &x->k->instr[s->i];
    switch ((kx_kind)s->kind) {
    case KX_SUM: return steady(x, stage, in->a) && steady(x, stage, in->b);
    case KX_LOAD: return load_fits(x, stage, s);
    case KX_STORE: return steady(x, stage, in->a) && (s->cls == KX_S || x->val[in->a].sc == 1);
    case KX_AFFINE:
    case KX_AXIS:
    case KX_CONST:
    case KX_STATIC:
    case KX_STEP:
    case KX_VEC1:
    case KX_VEC2:
    case KX_VEC3: return true;
    default: return false;
    }
}

bool wf_kx_walk_fits(const kx_run *x, int stage)
{
    const wf_kstage *st = &x->k->stages[stage];
    int level = st->kind == WF_KSTAGE_OUTER ? 1 : 2;
    int first = x->first[stage][level], end = x->first[stage][level + 1];
    if (x->p >= 0 || end - first + 2 * st->n_acc > MAX_OPS / 2) /* a step may need expansions before it */
        return false;
    for (int i = first; i < end; i++)
        if (!step_fits(x, stage, &x->step[i]))
            return false;
    return true;
}

/* ---- making the list ---- */

static walk_op *new_op(walk *w, op_kind kind, bool single)
{
    if (w->n_ops == MAX_OPS)
        return NULL;
    walk_op *op = &w->op[w->n_ops++];
    memset(op, 0, offsetof(walk_op, fold));
    op->kind = (uint8_t)kind;
    op->single = single;
    return op;
}

static ptrdiff_t add_of(const walk *w, int i) { return in_list(w->c->x, w->stage, i) ? w->add[i] : 0; }
static int64_t move_of(const walk *w, int i) { return in_list(w->c->x, w->stage, i) ? w->move[i] : 0; }

/* Where value i lies: a kept row, else its own block or single value. */
static char *place(walk *w, int i, uint8_t cls)
{
    kx_ctx *c = w->c;
    const kx_run *x = c->x;
    w->add[i] = 0;
    if (x->keep[i]) {
        w->add[i] = (ptrdiff_t)x->slot_bytes;
        return c->at[i] = wf_kx_kept(c, x->keep[i] - 1, w->tile);
    }
    return c->at[i] = cls == KX_S ? (char *)&c->scalar[i] : wf_kx_slot(c, x->kernel->info[i].slot);
}

static int64_t stride_along(const walk *w, int i)
{
    const kx_run *x = w->c->x;
    const wf_kinstr *in = &x->k->instr[i];
    if (w->axis < 0)
        return 0;
    if (in->op == WF_KOP_AXIS)
        return in->slot == w->axis;
    return x->statics[in->slot + 1 + w->axis];
}

static bool add_index(walk *w, const kx_step *s)
{
    kx_ctx *c = w->c;
    const wf_kinstr *in = &c->x->k->instr[s->i];
    wf_kx_one(c, s);
    if (s->kind == KX_SUM)
        w->move[s->i] = move_of(w, in->a) + (in->op == WF_KOP_SUB ? -move_of(w, in->b) : move_of(w, in->b));
    else
        w->move[s->i] = stride_along(w, s->i) * w->step;
    if (!c->x->val[s->i].need || (s->cls == KX_S && w->move[s->i] == 0))
        return w->add[s->i] = 0, true;
    walk_op *op = new_op(w, OP_IOTA, s->cls == KX_S);
    if (!op)
        return false;
    op->first = c->base[s->i];
    op->add_first = w->move[s->i];
    op->stride = c->x->val[s->i].sc;
    op->d = place(w, s->i, s->cls);
    op->add_d = w->add[s->i];
    return true;
}

/* The first block and the last lie inside, hence those between, since pointers move evenly. */
static bool run_inside(const walk *w, kx_form f, int index, int64_t limit)
{
    if (!wf_kx_inside(&f, limit))
        return false;
    f.base += (w->n_blocks - 1) * move_of(w, index);
    f.cols = f.cols > 1 ? w->last_cols : 1;
    return wf_kx_inside(&f, limit);
}

static bool add_load(walk *w, const kx_step *s)
{
    kx_ctx *c = w->c;
    const kx_run *x = c->x;
    const wf_vec_ops *ops = x->kernel->ops;
    const wf_kinstr *in = &x->k->instr[s->i];
    kx_memory m = wf_kx_memory(c, in);
    kx_form f = wf_kx_form(c, in->a, s->cls);
    int lb = m.log2_bytes;
    int64_t move = move_of(w, in->a);
    if (!run_inside(w, f, in->a, m.limit))
        return false;
    bool single = s->cls == KX_S;
    if (lb < 0) {
        walk_op *op = new_op(w, OP_BLOCKS, single);
        if (!op)
            return false;
        op->dequantise = ops->dequantise[m.dtype - WEFT_DTYPE_Q8_0];
        op->a = m.ptr;
        op->first = f.base;
        op->add_first = move;
        op->d = place(w, s->i, s->cls);
        op->add_d = w->add[s->i];
        return true;
    }
    char *from = m.ptr + (f.base << lb);
    if (m.direct && (single || f.sc == 1) && !x->keep[s->i]) {
        c->at[s->i] = from;
        w->add[s->i] = (ptrdiff_t)(move * (1 << lb));
        return true;
    }
    bool dense = single || f.sc == 1;
    walk_op *op = new_op(w, dense ? OP_VEC1 : OP_STRIDED, single);
    if (!op)
        return false;
    if (dense)
        op->f1 = ops->load[m.dtype];
    else
        op->strided = ops->strided[lb];
    op->stride = f.sc;
    op->a = from;
    op->add_a = (ptrdiff_t)(move * (1 << lb));
    op->d = place(w, s->i, s->cls);
    op->add_d = w->add[s->i];
    return true;
}

/* Operand o of a step; an op before brings a single value to a block. */
static bool add_operand(walk *w, bool expand, int o, int value, const char **at, ptrdiff_t *add)
{
    kx_ctx *c = w->c;
    *at = c->at[value];
    *add = add_of(w, value);
    if (!expand)
        return true;
    bool wide = c->x->kernel->info[value].esize == 8;
    walk_op *op = new_op(w, wide ? OP_FILL8 : OP_FILL4, false);
    if (!op)
        return false;
    op->a = *at;
    op->add_a = *add;
    op->d = wf_kx_slot(c, c->x->kernel->n_slots + o);
    *at = op->d;
    *add = 0;
    return true;
}

static bool add_loop(walk *w, const kx_step *s)
{
    kx_ctx *c = w->c;
    const wf_kinstr *in = &c->x->k->instr[s->i];
    const char *at[3] = {NULL, NULL, NULL};
    ptrdiff_t add[3] = {0, 0, 0};
    const int16_t operand[3] = {in->a, in->b, in->c};
    int n = s->kind == KX_VEC1 ? 1 : s->kind == KX_VEC2 ? 2 : 3;
    for (int o = 0; o < n; o++)
        if (!add_operand(w, s->expand >> o & 1, o, operand[o], &at[o], &add[o]))
            return false;
    w->made[s->i] = (int16_t)w->n_ops;
    walk_op *op = new_op(w, n == 1 ? OP_VEC1 : n == 2 ? OP_VEC2 : OP_VEC3, s->cls == KX_S);
    if (!op)
        return false;
    op->f3 = s->f3;
    op->a = at[0];
    op->b = at[1];
    op->c = at[2];
    op->add_a = add[0];
    op->add_b = add[1];
    op->add_c = add[2];
    op->d = place(w, s->i, s->cls);
    op->add_d = w->add[s->i];
    return true;
}

static bool add_store(walk *w, const kx_step *s)
{
    kx_ctx *c = w->c;
    const kx_run *x = c->x;
    const wf_kinstr *in = &x->k->instr[s->i];
    kx_memory m = wf_kx_memory(c, in);
    kx_form f = wf_kx_form(c, in->a, s->cls);
    if (!run_inside(w, f, in->a, m.limit))
        return false;
    char *to = m.ptr + (f.base << m.log2_bytes);
    ptrdiff_t add_to = (ptrdiff_t)(move_of(w, in->a) * (1 << m.log2_bytes));
    int made = in_list(x, w->stage, in->b) ? w->made[in->b] : -1;
    if (m.log2_bytes >= 2 && !s->nt && made >= 0 && !s->expand && !x->keep[in->b] && x->kernel->info[in->b].uses == 1) {
        w->op[made].d = to; /* the loop that makes the value writes it where it belongs */
        w->op[made].add_d = add_to;
        return true;
    }
    const char *from;
    ptrdiff_t add_from;
    if (!add_operand(w, s->expand >> 1 & 1, 1, in->b, &from, &add_from))
        return false;
    bool stream = s->nt && s->cls != KX_S;
    walk_op *op = new_op(w, stream ? OP_STREAM : OP_VEC1, s->cls == KX_S);
    if (!op)
        return false;
    op->f1 = x->kernel->ops->store[m.dtype];
    op->stride = (int64_t)1 << m.log2_bytes;
    op->d = to;
    op->add_d = add_to;
    op->a = from;
    op->add_a = add_from;
    return true;
}

static bool add_folds(walk *w)
{
    kx_ctx *c = w->c;
    const kx_run *x = c->x;
    const wf_kstage *st = &x->k->stages[w->stage];
    for (int j = 0; j < st->n_acc; j++) {
        int v = st->acc[j].value;
        const char *at;
        ptrdiff_t add;
        if (!add_operand(w, x->val[v].cls != x->tile_class, 0, v, &at, &add))
            return false;
        walk_op *op = new_op(w, OP_FOLD, false);
        if (!op)
            return false;
        wf_kx_fold_of(c, w->stage, j, &op->fold);
        op->fold.add_pos = (int32_t)(w->axis < 0 ? 0 : w->step * x->position[w->axis]);
        op->a = at;
        op->add_a = add;
    }
    return true;
}

static bool add_step(walk *w, const kx_step *s)
{
    kx_ctx *c = w->c;
    const kx_run *x = c->x;
    w->made[s->i] = -1;
    if (x->dead[s->i])
        return true;
    if (x->reuse[s->i]) {
        c->at[s->i] = wf_kx_kept(c, x->reuse[s->i] - 1, w->tile);
        w->add[s->i] = (ptrdiff_t)x->slot_bytes;
        return true;
    }
    bool constant = s->cls == KX_S && w->axis == x->q && s->kind != KX_STORE;
    if (constant) {
        w->add[s->i] = w->move[s->i] = 0;
        wf_kx_one(c, s);
        return true;
    }
    switch ((kx_kind)s->kind) {
    case KX_AFFINE:
    case KX_AXIS:
    case KX_SUM: return add_index(w, s);
    case KX_LOAD: return add_load(w, s);
    case KX_STORE: return !c->stores || add_store(w, s);
    case KX_VEC1:
    case KX_VEC2:
    case KX_VEC3: return add_loop(w, s);
    default: return false;
    }
}

/* The last walk over a row asks for the next row, so that memory is busy while this one is computed and
 * written: the first stage's loads, one outer tile on. rms_norm 4096 x 4096 takes three quarters of the time. */
static void add_prefetches(walk *w)
{
    kx_ctx *c = w->c;
    const kx_run *x = c->x;
    if (x->points < PREFETCH_POINTS || w->axis != x->q || x->outer.n == 0 || x->inner.n != 1)
        return;
    int first = 0, last = x->k->n_stages - 1; /* REDUCE or MAP stages: there is one, the walk is in it */
    while (x->k->stages[first].kind == WF_KSTAGE_OUTER)
        first++;
    while (x->k->stages[last].kind == WF_KSTAGE_OUTER)
        last--;
    if (w->stage != last || !x->walk[first])
        return;
    int d = x->outer.n - 1, a = x->outer.axis[d];
    if (c->coord[a] + x->outer.step[d] >= x->extent[a])
        return;
    for (int i = x->first[first][2]; i < x->first[first][3]; i++) {
        const kx_step *s = &x->step[i];
        const wf_kinstr *in = &x->k->instr[s->i];
        if (s->kind != KX_LOAD || s->cls == KX_S || x->k->instr[in->a].op != WF_KOP_AFFINE || x->val[in->a].sc != 1)
            continue;
        kx_memory m = wf_kx_memory(c, in);
        int64_t stride = x->statics[x->k->instr[in->a].slot + 1 + a] * x->outer.step[d];
        int64_t base = c->base[in->a] + stride;
        walk_op *op = stride && m.log2_bytes >= 0 && base >= 0 && base < m.limit ? new_op(w, OP_PREFETCH, false) : NULL;
        if (!op)
            continue;
        op->a = m.ptr + (base << m.log2_bytes);
        op->stride = (int64_t)1 << m.log2_bytes;
        op->add_a = (ptrdiff_t)(w->step << m.log2_bytes);
    }
}

/* ---- running it ---- */

static void run_block(walk *w, int64_t n_cols)
{
    const wf_vec_ops *ops = w->c->x->kernel->ops;
    for (walk_op *op = w->op, *end = w->op + w->n_ops; op < end; op++) {
        int64_t n = op->single ? 1 : n_cols;
        switch ((op_kind)op->kind) {
        case OP_VEC1: op->f1(op->d, op->a, n); break;
        case OP_VEC2: op->f2(op->d, op->a, op->b, n); break;
        case OP_VEC3: op->f3(op->d, op->a, op->b, op->c, n); break;
        case OP_STREAM: ops->stream(op->d, op->a, (size_t)(n * op->stride)); break;
        case OP_FILL4: ops->fill4(op->d, *(const uint32_t *)op->a, n); break;
        case OP_FILL8: ops->fill8(op->d, *(const uint64_t *)op->a, n); break;
        case OP_IOTA: ops->iota((int32_t *)op->d, (int32_t)op->first, (int32_t)op->stride, n); break;
        case OP_STRIDED: op->strided(op->d, op->a, op->stride, n); break;
        case OP_BLOCKS: op->dequantise((float *)op->d, op->a, op->first, n); break;
        case OP_PREFETCH:
            for (int64_t at = 0; at < n * op->stride; at += 64)
                __builtin_prefetch(op->a + at, 0, 2); /* to the second level: the first is full of this row */
            break;
        case OP_FOLD: wf_kx_fold_block(&op->fold, op->a, n); break;
        }
        op->d += op->add_d;
        op->a += op->add_a;
        op->b += op->add_b;
        op->c += op->add_c;
        op->first += op->add_first;
    }
}

bool wf_kx_walk(kx_ctx *c, int stage, int axis, int64_t step, int64_t end, int64_t tile)
{
    const kx_run *x = c->x;
    bool reduce = x->k->stages[stage].kind == WF_KSTAGE_REDUCE, columns = axis >= 0 && axis == x->q;
    int level = x->k->stages[stage].kind == WF_KSTAGE_OUTER ? 1 : 2;
    walk w;
    w.c = c;
    w.stage = stage;
    w.axis = axis;
    w.step = step;
    w.n_blocks = axis < 0 ? 1 : (end - c->coord[axis] + step - 1) / step;
    w.last_cols = columns ? end - c->coord[axis] - (w.n_blocks - 1) * step : c->cols;
    w.tile = tile;
    w.n_ops = 0;
    for (int i = x->first[stage][level]; i < x->first[stage][level + 1]; i++)
        if (!add_step(&w, &x->step[i]))
            return false;
    if (!add_folds(&w))
        return false;
    add_prefetches(&w);
    for (int64_t b = 0; b < w.n_blocks; b++) {
        run_block(&w, b == w.n_blocks - 1 ? w.last_cols : c->cols);
        if (reduce)
            wf_kx_acc_folded(c, stage, 1);
    }
    return true;
}
