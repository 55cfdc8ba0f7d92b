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
#include "kir_walk.h"

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
    if (x->p >= 0 || end - first + 2 * st->n_acc > WALK_MAX_OPS / 2) /* a step may need expansions before it */
        return false;
    for (int i = first; i < end; i++)
        if (!step_fits(x, stage, &x->step[i]))
            return false;
    return true;
}

/* ---- making the list ---- */

static walk_op *new_op(kx_walk *w, walk_kind kind, bool single)
{
    static const walk_ptr nowhere = {.value = -1};
    if (w->n_ops == WALK_MAX_OPS)
        return NULL;
    walk_op *op = &w->op[w->n_ops++];
    op->kind = (uint8_t)kind; /* field by field: a memset of this size costs more than a short loop's block */
    op->single = single;
    op->d = op->a = op->b = op->c = op->e = op->f = nowhere;
    op->first = op->add_first = op->over_first = op->stride = 0;
    return op;
}

static int64_t move_of(const kx_walk *w, int i) { return in_list(w->c->x, w->stage, i) ? w->move[i] : 0; }

/* Where the list finds value i. */
static walk_ptr value_at(const kx_walk *w, int i)
{
    walk_ptr p = {.at = w->c->at[i], .value = (int16_t)i};
    if (in_list(w->c->x, w->stage, i) && !w->constant[i])
        p = (walk_ptr){p.at, w->add[i], w->over[i], -1};
    return p;
}

/* Elements that index i moves when the last outer axis goes a tile on; false: it does not move evenly. */
static bool row_move(const kx_run *x, int i, int64_t *out)
{
    const wf_kinstr *in = &x->k->instr[i];
    int d = x->outer.n - 1, axis = x->outer.axis[d];
    int64_t a, b;
    *out = 0;
    if (x->val[i].level == 0)
        return true;
    if (!x->val[i].linear)
        return false;
    if (in->op == WF_KOP_AXIS || in->op == WF_KOP_AFFINE) {
        *out = x->outer.step[d] * wf_kx_stride(x, i, axis);
        return true;
    }
    if (!row_move(x, in->a, &a) || !row_move(x, in->b, &b))
        return false;
    *out = in->op == WF_KOP_SUB ? a - b : a + b;
    return true;
}

static int64_t over_of(kx_walk *w, int i)
{
    int64_t move = 0;
    if (w->replays && !row_move(w->c->x, i, &move))
        w->replays = false;
    return move;
}

/* Where value i lies: a kept row, else its own block or single value. */
static char *place(kx_walk *w, int i, uint8_t cls)
{
    kx_ctx *c = w->c;
    const kx_run *x = c->x;
    w->add[i] = w->over[i] = 0;
    if (x->keep[i]) {
        w->add[i] = (ptrdiff_t)x->slot_bytes;
        return c->at[i] = wf_kx_kept(c, x->keep[i] - 1, w->tile);
    }
    return c->at[i] = cls == KX_S ? (char *)&c->scalar[i] : wf_kx_slot(c, x->kernel->info[i].slot);
}

static void make_here(kx_walk *w, walk_op *op, const kx_step *s)
{
    op->d.at = place(w, s->i, s->cls);
    op->d.add = w->add[s->i];
}

static int64_t stride_along(const kx_walk *w, int i)
{
    const kx_run *x = w->c->x;
    const wf_kinstr *in = &x->k->instr[i];
    if (w->axis < 0)
        return 0;
    if (in->op == WF_KOP_AXIS)
        return in->slot == w->axis;
    return x->statics[in->slot + 1 + w->axis];
}

static bool add_index(kx_walk *w, const kx_step *s)
{
    kx_ctx *c = w->c;
    const wf_kinstr *in = &c->x->k->instr[s->i];
    wf_kx_one(c, s);
    if (s->kind == KX_SUM)
        w->move[s->i] = move_of(w, in->a) + (in->op == WF_KOP_SUB ? -move_of(w, in->b) : move_of(w, in->b));
    else
        w->move[s->i] = stride_along(w, s->i) * w->step;
    if (!c->x->val[s->i].need || (s->cls == KX_S && w->move[s->i] == 0))
        return w->add[s->i] = w->over[s->i] = 0, true;
    walk_op *op = new_op(w, OP_IOTA, s->cls == KX_S);
    if (!op)
        return false;
    op->first = c->base[s->i];
    op->add_first = w->move[s->i];
    op->over_first = over_of(w, s->i);
    op->stride = c->x->val[s->i].sc;
    make_here(w, op, s);
    return true;
}

/* The first block and the last of the first row and the last lie inside, hence those between, since pointers move
 * evenly. */
static bool run_inside(const kx_walk *w, kx_form f, int index, int64_t over, int64_t limit)
{
    int64_t rows = w->replays ? w->rows - 1 : 0;
    kx_form last = f;
    last.base += (w->n_blocks - 1) * move_of(w, index);
    last.cols = last.cols > 1 ? w->last_cols : 1;
    if (!wf_kx_inside(&f, limit) || !wf_kx_inside(&last, limit))
        return false;
    f.base += rows * over;
    last.base += rows * over;
    return rows == 0 || (wf_kx_inside(&f, limit) && wf_kx_inside(&last, limit));
}

static bool add_load(kx_walk *w, const kx_step *s)
{
    kx_ctx *c = w->c;
    const kx_run *x = c->x;
    const wf_vec_ops *ops = x->kernel->ops;
    const wf_kinstr *in = &x->k->instr[s->i];
    kx_memory m = wf_kx_memory(c, in);
    kx_form f = wf_kx_form(c, in->a, s->cls);
    int lb = m.log2_bytes;
    int64_t move = move_of(w, in->a);
    int64_t over = over_of(w, in->a);
    if (!run_inside(w, f, in->a, over, m.limit))
        return false;
    bool single = s->cls == KX_S;
    if (lb < 0) {
        walk_op *op = new_op(w, OP_BLOCKS, single);
        if (!op)
            return false;
        op->dequantise = ops->dequantise[m.dtype - WEFT_DTYPE_Q8_0];
        op->a.at = m.ptr;
        op->first = f.base;
        op->add_first = move;
        op->over_first = over;
        make_here(w, op, s);
        return true;
    }
    char *from = m.ptr + (f.base << lb);
    if (m.direct && (single || f.sc == 1) && !x->keep[s->i]) {
        c->at[s->i] = from;
        w->add[s->i] = (ptrdiff_t)(move * (1 << lb));
        w->over[s->i] = (ptrdiff_t)(over * (1 << lb));
        return true;
    }
    bool dense = single || f.sc == 1 || f.cols == 1; /* a last block of one element has no stride; moved as it is, it would not be converted */
    walk_op *op = new_op(w, dense ? OP_VEC1 : OP_STRIDED, single);
    if (!op)
        return false;
    if (dense)
        op->f1 = ops->load[m.dtype];
    else
        op->strided = ops->strided[lb];
    op->stride = f.sc;
    op->a = (walk_ptr){from, (ptrdiff_t)(move * (1 << lb)), (ptrdiff_t)(over * (1 << lb)), -1};
    make_here(w, op, s);
    return true;
}

/* Operand o of a step; an op before brings a single value to a block. */
static bool add_operand(kx_walk *w, bool expand, int o, int value, walk_ptr *out)
{
    kx_ctx *c = w->c;
    *out = value_at(w, value);
    if (!expand)
        return true;
    bool wide = c->x->kernel->info[value].esize == 8;
    walk_op *op = new_op(w, wide ? OP_FILL8 : OP_FILL4, false);
    if (!op)
        return false;
    op->a = *out;
    op->d.at = wf_kx_slot(c, c->x->kernel->n_slots + o);
    *out = (walk_ptr){.at = op->d.at, .value = -1};
    return true;
}

/* Is value i what the last op makes, for one reader only? */
static bool made_last(const kx_walk *w, int i)
{
    const kx_run *x = w->c->x;
    return in_list(x, w->stage, i) && w->made[i] == w->n_ops - 1 && w->n_ops > 0 && x->kernel->info[i].uses == 1 && !x->keep[i];
}

/* Would step s write over what the last op reads? Its operands' blocks may be free from there on. */
static bool writes_over(const kx_walk *w, const kx_step *s)
{
    const walk_op *op = &w->op[w->n_ops - 1];
    const char *d = wf_kx_slot(w->c, w->c->x->kernel->info[s->i].slot);
    return d == op->a.at || d == op->b.at;
}

/* The last op is value * w + b for step s: with (x - m) * s of the op before for value, both are one loop. */
static void join_standard(kx_walk *w, const kx_step *s, const wf_kinstr *mul)
{
    const kx_run *x = w->c->x;
    const int last = w->n_ops - 1;
    if (last < 1 || w->made[mul->a] != last - 1 || x->kernel->info[mul->a].uses != 1 || x->keep[mul->a])
        return;
    walk_op *first = &w->op[last - 1], *op = &w->op[last];
    const char *d = op->d.at;
    if (first->kind != OP_VEC3 || first->f3 != x->kernel->ops->sub_mul || d == first->a.at || d == op->b.at || d == op->c.at)
        return;
    first->kind = OP_STANDARD;
    first->e = op->b;
    first->f = op->c;
    first->d = op->d;
    w->n_ops--;
    w->made[s->i] = (int16_t)(last - 1);
}

/* Two loops that are one where the last op makes value `first` for nobody else: exp(a - b) for a single b, and
 * a * b + c, which saves a pass over a block in the first-level cache. Bits are those of two loops. */
static bool join_loops(kx_walk *w, const kx_step *s, int first, walk_ptr other)
{
    const wf_vec_ops *ops = w->c->x->kernel->ops;
    const wf_kinstr *in = &w->c->x->k->instr[s->i];
    if (in->type != WF_KTY_F32 || s->cls == KX_S || s->expand || !made_last(w, first) || writes_over(w, s))
        return false;
    walk_op *op = &w->op[w->n_ops - 1];
    if (op->single || op->kind != OP_VEC2)
        return false;
    if (in->op == WF_KOP_EXP && op->f2 == ops->vec_scalar[WF_KOP_SUB])
        op->f3 = ops->exp_shift, op->c = op->a;
    else if (in->op == WF_KOP_MUL && s->f2 == ops->vec_scalar[WF_KOP_MUL] && op->f2 == ops->vec_scalar[WF_KOP_SUB])
        op->f3 = ops->sub_mul, op->c = other;
    else if (in->op == WF_KOP_ADD && s->f2 == ops->binary[WF_KOP_ADD][WF_KTY_F32] && op->f2 == ops->binary[WF_KOP_MUL][WF_KTY_F32])
        op->f3 = ops->mul_add, op->c = other;
    else
        return false;
    op->kind = OP_VEC3;
    make_here(w, op, s);
    w->made[s->i] = w->made[first];
    const wf_kinstr *mul = &w->c->x->k->instr[first];
    if (op->f3 == ops->mul_add && in_list(w->c->x, w->stage, mul->a))
        join_standard(w, s, mul);
    return true;
}

static bool add_loop(kx_walk *w, const kx_step *s)
{
    kx_ctx *c = w->c;
    const wf_kinstr *in = &c->x->k->instr[s->i];
    walk_ptr from[3] = {{.value = -1}, {.value = -1}, {.value = -1}};
    const int16_t operand[3] = {in->a, in->b, in->c};
    int n = s->kind == KX_VEC1 ? 1 : s->kind == KX_VEC2 ? 2 : 3;
    for (int o = 0; o < n; o++)
        if (!add_operand(w, s->expand >> o & 1, o, operand[o], &from[o]))
            return false;
    if (join_loops(w, s, in->a, from[1]) || (n == 2 && join_loops(w, s, in->b, from[0])))
        return true;
    w->made[s->i] = (int16_t)w->n_ops;
    walk_op *op = new_op(w, n == 1 ? OP_VEC1 : n == 2 ? OP_VEC2 : OP_VEC3, s->cls == KX_S);
    if (!op)
        return false;
    op->f3 = s->f3;
    op->a = from[0];
    op->b = from[1];
    op->c = from[2];
    make_here(w, op, s);
    return true;
}

/* The loop of the last op, made by `in`, that writes past the caches; NULL: there is none. */
static wf_vec2 streaming(const kx_walk *w, const wf_kinstr *in)
{
    const wf_vec_ops *ops = w->c->x->kernel->ops;
    const walk_op *op = &w->op[w->n_ops - 1];
    if (in->type != WF_KTY_F32 || op->kind != OP_VEC2 || op->single)
        return NULL;
    return op->f2 == ops->binary[in->op][WF_KTY_F32] ? ops->binary_stream[in->op]
           : op->f2 == ops->vec_scalar[in->op]       ? ops->scalar_stream[in->op]
                                                     : NULL;
}

static bool add_store(kx_walk *w, const kx_step *s)
{
    kx_ctx *c = w->c;
    const kx_run *x = c->x;
    const wf_kinstr *in = &x->k->instr[s->i];
    kx_memory m = wf_kx_memory(c, in);
    kx_form f = wf_kx_form(c, in->a, s->cls);
    int64_t over = over_of(w, in->a);
    if (!run_inside(w, f, in->a, over, m.limit))
        return false;
    int64_t bytes = (int64_t)1 << m.log2_bytes;
    walk_ptr to = {m.ptr + f.base * bytes, (ptrdiff_t)(move_of(w, in->a) * bytes), (ptrdiff_t)(over * bytes), -1};
    int made = in_list(x, w->stage, in->b) ? w->made[in->b] : -1;
    if (m.log2_bytes >= 2 && !s->nt && made >= 0 && !s->expand && !x->keep[in->b] && x->kernel->info[in->b].uses == 1) {
        w->op[made].d = to; /* the loop that makes the value writes it where it belongs */
        return true;
    }
    wf_vec2 stream2 = s->nt && !s->expand && made_last(w, in->b) ? streaming(w, &x->k->instr[in->b]) : NULL;
    if (stream2) {
        w->op[made].f2 = stream2;
        w->op[made].d = to;
        return true;
    }
    walk_ptr from;
    if (!add_operand(w, s->expand >> 1 & 1, 1, in->b, &from))
        return false;
    bool stream = s->nt && s->cls != KX_S;
    walk_op *op = new_op(w, stream ? OP_STREAM : OP_VEC1, s->cls == KX_S);
    if (!op)
        return false;
    op->f1 = x->kernel->ops->store[m.dtype];
    op->stride = bytes;
    op->d = to;
    op->a = from;
    return true;
}

/* A sum over a row of products that the last op makes: without the block of products between. */
static bool joins_dot(const kx_walk *w, const wf_kacc *a)
{
    const kx_run *x = w->c->x;
    return a->rop == WF_KROP_SUM && a->type == WF_KTY_F32 && wf_kx_folds_columns(x) && made_last(w, a->value) &&
           !w->op[w->n_ops - 1].single && w->op[w->n_ops - 1].f2 == x->kernel->ops->binary[WF_KOP_MUL][WF_KTY_F32];
}

/* A sum of squares of a - b for a single b: without the blocks of differences and of squares. */
static bool joins_squares(const kx_walk *w)
{
    const kx_run *x = w->c->x;
    if (w->n_ops < 2)
        return false;
    const walk_op *op = &w->op[w->n_ops - 1], *first = &w->op[w->n_ops - 2]; /* op: what joins_dot found */
    if (op->a.at != op->b.at || first->kind != OP_VEC2 || first->single || first->f2 != x->kernel->ops->vec_scalar[WF_KOP_SUB] ||
        first->d.at != op->a.at)
        return false;
    for (int i = x->first[w->stage][2]; i < x->first[w->stage][3]; i++) {
        const int value = x->step[i].i;
        if (!x->dead[value] && w->made[value] == w->n_ops - 2)
            return x->kernel->info[value].uses == 2 && !x->keep[value];
    }
    return false;
}

/* A sum of exponentials that the last op makes, who else may need them. */
static bool joins_exp(const kx_walk *w, const wf_kacc *a)
{
    const kx_run *x = w->c->x;
    if (w->n_ops == 0)
        return false;
    const walk_op *op = &w->op[w->n_ops - 1];
    return a->rop == WF_KROP_SUM && a->type == WF_KTY_F32 && wf_kx_folds_columns(x) && in_list(x, w->stage, a->value) &&
           w->made[a->value] == w->n_ops - 1 && op->kind == OP_VEC3 && !op->single && op->f3 == x->kernel->ops->exp_shift;
}

static bool add_folds(kx_walk *w)
{
    kx_ctx *c = w->c;
    const kx_run *x = c->x;
    const wf_kstage *st = &x->k->stages[w->stage];
    for (int j = 0; j < st->n_acc; j++) {
        int v = st->acc[j].value;
        if (joins_dot(w, &st->acc[j])) {
            w->n_ops -= joins_squares(w);
            walk_op *op = &w->op[w->n_ops - 1];
            op->kind = op->f2 == x->kernel->ops->vec_scalar[WF_KOP_SUB] ? OP_SQUARES : OP_DOT;
            wf_kx_fold_of(c, w->stage, j, &op->fold);
            continue;
        }
        if (joins_exp(w, &st->acc[j])) {
            w->op[w->n_ops - 1].kind = OP_EXP_SUM;
            wf_kx_fold_of(c, w->stage, j, &w->op[w->n_ops - 1].fold);
            continue;
        }
        walk_ptr from;
        if (!add_operand(w, x->val[v].cls != x->tile_class, 0, v, &from))
            return false;
        walk_op *op = new_op(w, OP_FOLD, false);
        if (!op)
            return false;
        wf_kx_fold_of(c, w->stage, j, &op->fold);
        op->fold.add_pos = (int32_t)(w->axis < 0 ? 0 : w->step * x->position[w->axis]);
        op->a = from;
    }
    return true;
}

static bool add_step(kx_walk *w, const kx_step *s)
{
    kx_ctx *c = w->c;
    const kx_run *x = c->x;
    w->made[s->i] = -1;
    w->constant[s->i] = false;
    if (x->dead[s->i])
        return true;
    if (x->reuse[s->i]) {
        c->at[s->i] = wf_kx_kept(c, x->reuse[s->i] - 1, w->tile);
        w->add[s->i] = (ptrdiff_t)x->slot_bytes;
        w->over[s->i] = 0;
        return true;
    }
    if (s->cls == KX_S && w->axis == x->q && s->kind != KX_STORE) {
        w->add[s->i] = w->over[s->i] = w->move[s->i] = 0;
        w->constant[s->i] = true;
        if (w->n_ones < WALK_MAX_ONES)
            w->one[w->n_ones++] = s;
        else
            w->replays = false;
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

/* By a loop that does so on the way, else by a loop of its own. */
static void add_prefetch(kx_walk *w, char *from, int64_t bytes, int64_t row)
{
    walk_ptr p = {from, (ptrdiff_t)(w->step * bytes), (ptrdiff_t)(row * bytes), -1};
    wf_vec3 exp_shift = w->c->x->kernel->ops->exp_shift;
    for (int i = 0; bytes == 4 && i < w->n_ops; i++)
        if ((w->op[i].kind == OP_VEC3 || w->op[i].kind == OP_EXP_SUM) && w->op[i].f3 == exp_shift && !w->op[i].single && w->op[i].c.at == w->op[i].a.at) {
            w->op[i].c = p;
            return;
        }
    walk_op *op = new_op(w, OP_PREFETCH, false);
    if (!op)
        return;
    op->stride = bytes;
    op->a = p;
}

/* One walk over a row asks for the next row, so that memory is busy while this one is computed: the first stage's
 * loads, one outer tile on. rms_norm 4096 x 4096 takes three quarters of the time. */
static void add_prefetches(kx_walk *w)
{
    kx_ctx *c = w->c;
    const kx_run *x = c->x;
    if (x->points < WALK_PREFETCH_POINTS || w->axis != x->q || x->outer.n == 0 || x->inner.n != 1)
        return;
    int first = 0; /* REDUCE or MAP stage: there is one, the walk is in it */
    while (x->k->stages[first].kind == WF_KSTAGE_OUTER)
        first++;
    if (w->stage != x->longest || !x->walk[first])
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
        if (stride && m.log2_bytes >= 0 && base >= 0 && base < m.limit)
            add_prefetch(w, m.ptr + (base << m.log2_bytes), (int64_t)1 << m.log2_bytes, stride);
    }
}

/* From where a row's last block left a pointer to the next row's first. */
static void rewind_ptr(walk_ptr *p, int64_t n_blocks) { p->over -= n_blocks * p->add; }

bool wf_kx_walk_make(kx_walk *w, kx_ctx *c, int stage, int axis, int64_t step, int64_t end, int64_t tile, int64_t rows)
{
    const kx_run *x = c->x;
    bool columns = axis >= 0 && axis == x->q;
    int level = x->k->stages[stage].kind == WF_KSTAGE_OUTER ? 1 : 2;
    w->c = c;
    w->stage = stage;
    w->axis = axis;
    w->step = step;
    w->n_blocks = axis < 0 ? 1 : (end - c->coord[axis] + step - 1) / step;
    w->last_cols = columns ? end - c->coord[axis] - (w->n_blocks - 1) * step : c->cols;
    w->tile = tile;
    w->rows = rows;
    w->replays = rows > 1;
    w->n_ops = w->n_ones = 0;
    for (int i = x->first[stage][level]; i < x->first[stage][level + 1]; i++)
        if (!add_step(w, &x->step[i]))
            return false;
    if (!add_folds(w))
        return false;
    add_prefetches(w);
    for (walk_op *op = w->op; w->replays && op < w->op + w->n_ops; op++) {
        rewind_ptr(&op->d, w->n_blocks);
        rewind_ptr(&op->a, w->n_blocks);
        rewind_ptr(&op->b, w->n_blocks);
        rewind_ptr(&op->c, w->n_blocks);
        rewind_ptr(&op->e, w->n_blocks);
        rewind_ptr(&op->f, w->n_blocks);
        op->over_first -= w->n_blocks * op->add_first;
    }
    return true;
}
