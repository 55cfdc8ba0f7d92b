/* kir_walk_run.c - running the list of kir_walk.c: for one row, and again for the rows behind it. */
#include "kir_walk.h"

static void run_block(kx_walk *w, int64_t n_cols)
{
    const wf_vec_ops *ops = w->c->x->kernel->ops;
    for (walk_op *op = w->op, *end = w->op + w->n_ops; op < end; op++) {
        int64_t n = op->single ? 1 : n_cols;
        switch ((walk_kind)op->kind) {
        case OP_VEC1: op->f1(op->d.at, op->a.at, n); break;
        case OP_VEC2: op->f2(op->d.at, op->a.at, op->b.at, n); break;
        case OP_VEC3: op->f3(op->d.at, op->a.at, op->b.at, op->c.at, n); break;
        case OP_STREAM: ops->stream(op->d.at, op->a.at, (size_t)(n * op->stride)); break;
        case OP_FILL4: ops->fill4(op->d.at, *(const uint32_t *)op->a.at, n); break;
        case OP_FILL8: ops->fill8(op->d.at, *(const uint64_t *)op->a.at, n); break;
        case OP_IOTA: ops->iota((int32_t *)op->d.at, (int32_t)op->first, (int32_t)op->stride, n); break;
        case OP_STRIDED: op->strided(op->d.at, op->a.at, op->stride, n); break;
        case OP_BLOCKS: op->dequantise((float *)op->d.at, op->a.at, op->first, n); break;
        case OP_DOT: ops->dot_row(op->fold.value, op->a.at, op->b.at, n); break;
        case OP_SQUARES: ops->squares_row(op->fold.value, op->a.at, op->b.at, n); break;
        case OP_EXP_SUM: ops->exp_sum(op->fold.value, op->d.at, op->a.at, op->b.at, op->c.at, n); break;
        case OP_STANDARD:
            ops->standard(op->d.at, op->a.at, (const void *[]){op->b.at, op->c.at, op->e.at, op->f.at}, n);
            op->e.at += op->e.add;
            op->f.at += op->f.add;
            break;
        case OP_PREFETCH:
            for (int64_t at = 0; at < n * op->stride; at += 64)
                __builtin_prefetch(op->a.at + at, 0, 3);
            break;
        case OP_FOLD: wf_kx_fold_block(&op->fold, op->a.at, n); break;
        }
        op->d.at += op->d.add;
        op->a.at += op->a.add;
        op->b.at += op->b.add;
        op->c.at += op->c.add;
        op->first += op->add_first;
    }
}

static void run_row(kx_walk *w)
{
    kx_ctx *c = w->c;
    bool flushes = c->x->k->stages[w->stage].kind == WF_KSTAGE_REDUCE && !wf_kx_folds_columns(c->x);
    for (int64_t b = 0; b < w->n_blocks; b++) {
        run_block(w, b == w->n_blocks - 1 ? w->last_cols : c->cols);
        if (flushes)
            wf_kx_acc_folded(c, w->stage, 1);
    }
}

bool wf_kx_walk(kx_ctx *c, int stage, int axis, int64_t step, int64_t end, int64_t tile)
{
    kx_walk w;
    if (!wf_kx_walk_make(&w, c, stage, axis, step, end, tile, 1))
        return false;
    run_row(&w);
    return true;
}

/* ---- rows one after another ---- */

void wf_kx_rows_place(kx_run *x)
{
    if (x->inner.n != 1 || x->q < x->k->n_outer || x->outer.n == 0)
        return;
    for (int s = 0; s < x->k->n_stages; s++)
        if (x->k->stages[s].kind != WF_KSTAGE_OUTER && !x->walk[s])
            return;
    x->lists_at = (size_t)wf_align_up(x->ws_bytes, 64);
    x->ws_bytes = x->lists_at + (size_t)wf_align_up((size_t)x->k->n_stages * sizeof(kx_walk), 64);
}

bool wf_kx_rows_start(kx_ctx *c, int stage, int64_t rows)
{
    const kx_run *x = c->x;
    int axis = x->inner.axis[0];
    kx_walk *w = &c->lists[stage];
    if (!wf_kx_walk_make(w, c, stage, axis, x->inner.step[0], x->extent[axis], 0, rows))
        return false;
    run_row(w);
    return true;
}

bool wf_kx_rows_replay(const kx_ctx *c)
{
    for (int s = 0; s < c->x->k->n_stages; s++)
        if (c->x->k->stages[s].kind != WF_KSTAGE_OUTER && !c->lists[s].replays)
            return false;
    return true;
}

static void next_row(const kx_ctx *c, walk_ptr *p)
{
    p->at = p->value >= 0 ? c->at[p->value] : p->at + p->over;
}

void wf_kx_rows_next(kx_ctx *c, int stage, bool last)
{
    kx_walk *w = &c->lists[stage];
    for (int i = 0; i < w->n_ones; i++)
        wf_kx_one(c, w->one[i]);
    for (walk_op *op = w->op; op < w->op + w->n_ops; op++) {
        next_row(c, &op->d);
        next_row(c, &op->a);
        next_row(c, &op->b);
        next_row(c, &op->c);
        next_row(c, &op->e);
        next_row(c, &op->f);
        op->first += op->over_first;
        if (op->kind == OP_FOLD)
            op->fold.pos -= (int32_t)w->n_blocks * op->fold.add_pos;
        if (last && op->kind == OP_PREFETCH) /* no row behind this one */
            op->stride = 0;
        if (last && (op->kind == OP_VEC3 || op->kind == OP_EXP_SUM) && op->f3 == c->x->kernel->ops->exp_shift)
            op->c = op->a;
    }
    run_row(w);
}
