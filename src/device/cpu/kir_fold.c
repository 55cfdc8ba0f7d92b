/* kir_fold.c - the accumulators of a REDUCE stage.
 *
 * Where the tile has an inner column axis, each row's block is folded to one number, and the blocks' sums
 * are added in double. Where columns are outer, whole rows are folded element by element in f32; every
 * FLUSH_ROWS rows the sums so far move to a second array, so an element passes through FLUSH_ROWS +
 * n / FLUSH_ROWS roundings at most.
 *
 * State of an accumulator: `value` (acc_elems numbers of 8 or 4 bytes) and `extra` (positions, or sums not
 * yet flushed); then `result` in the type that ACC instructions read.
 */
#include "kir_exec.h"

enum { FLUSH_ROWS = 64 };

static char *acc_at(const kx_ctx *c, int number, int part)
{
    const kx_run *x = c->x;
    char *first = c->ws + (size_t)(x->kernel->n_slots + KX_TEMPS) * x->slot_bytes;
    if (part == 2) /* results lie behind all states, which are contiguous for each stage */
        return first + (size_t)(2 * x->kernel->n_accs + number) * x->acc_bytes;
    return first + (size_t)(2 * number + part) * x->acc_bytes;
}

static bool is_arg(uint8_t rop) { return rop == WF_KROP_ARGMAX || rop == WF_KROP_ARGMIN; }

bool wf_kx_folds_columns(const kx_run *x) { return (x->tile_class & ~x->outer_class & KX_Q) != 0 || x->tile_class == KX_S; }

static bool in_double(const kx_run *x, const wf_kacc *a)
{
    return a->type == WF_KTY_F32 && (a->rop == WF_KROP_SUM || a->rop == WF_KROP_PROD) && wf_kx_folds_columns(x);
}

static bool has_flush(const kx_run *x, const wf_kacc *a)
{
    return a->type == WF_KTY_F32 && a->rop == WF_KROP_SUM && !wf_kx_folds_columns(x);
}

/* Elements of the accumulator in this tile. */
static int64_t acc_count(const kx_ctx *c) { return c->n[c->x->outer_class]; }

static uint64_t start_bits(const kx_run *x, const wf_kacc *a)
{
    static const uint64_t lowest[WF_KTY_COUNT] = {
        [WF_KTY_F32] = 0xff800000u, [WF_KTY_I32] = 0x80000000u, [WF_KTY_U32] = 0, [WF_KTY_BOOL] = 0,
        [WF_KTY_F64] = 0xfff0000000000000u, [WF_KTY_I64] = 0x8000000000000000u};
    static const uint64_t highest[WF_KTY_COUNT] = {
        [WF_KTY_F32] = 0x7f800000u, [WF_KTY_I32] = 0x7fffffffu, [WF_KTY_U32] = 0xffffffffu, [WF_KTY_BOOL] = 1,
        [WF_KTY_F64] = 0x7ff0000000000000u, [WF_KTY_I64] = 0x7fffffffffffffffu};
    static const uint64_t one[WF_KTY_COUNT] = {
        [WF_KTY_F32] = 0x3f800000u, [WF_KTY_I32] = 1, [WF_KTY_U32] = 1, [WF_KTY_BOOL] = 1,
        [WF_KTY_F64] = 0x3ff0000000000000u, [WF_KTY_I64] = 1};
    switch (a->rop) {
    case WF_KROP_SUM: return 0;
    case WF_KROP_PROD: return in_double(x, a) ? one[WF_KTY_F64] : one[a->type];
    case WF_KROP_MAX:
    case WF_KROP_ARGMAX: return lowest[a->type];
    default: return highest[a->type];
    }
}

static bool wide(const kx_run *x, const wf_kacc *a)
{
    return in_double(x, a) || a->type == WF_KTY_F64 || a->type == WF_KTY_I64;
}

void wf_kx_acc_start(kx_ctx *c, int stage)
{
    const kx_run *x = c->x;
    const wf_kstage *st = &x->k->stages[stage];
    const wf_vec_ops *ops = x->kernel->ops;
    int64_t n = acc_count(c);
    c->folded_rows = 0;
    for (int j = 0; j < st->n_acc; j++) {
        const wf_kacc *a = &st->acc[j];
        int number = x->kernel->acc_first[stage] + j;
        uint64_t bits = start_bits(x, a);
        if (n == 1 && wide(x, a)) /* for each row of many: without calls */
            memcpy(acc_at(c, number, 0), &bits, 8);
        else if (n == 1)
            memcpy(acc_at(c, number, 0), &(uint32_t){(uint32_t)bits}, 4);
        else if (wide(x, a))
            ops->fill8(acc_at(c, number, 0), bits, n);
        else
            ops->fill4(acc_at(c, number, 0), (uint32_t)bits, n);
        if (is_arg(a->rop) || has_flush(x, a))
            ops->fill4(acc_at(c, number, 1), 0, n);
    }
}

static int64_t tile_position(const kx_ctx *c)
{
    const kx_run *x = c->x;
    int64_t pos = 0;
    for (int a = x->k->n_outer; a < x->n_axes; a++)
        pos += c->coord[a] * x->position[a];
    return pos;
}

static void fold_arg(kx_ctx *c, const wf_kacc *a, char *value, int32_t *index, const char *v, size_t esize)
{
    const kx_run *x = c->x;
    const wf_vec_ops *ops = x->kernel->ops;
    int which = a->rop == WF_KROP_ARGMIN;
    int32_t pos = (int32_t)tile_position(c);
    bool rows_inner = (x->tile_class & ~x->outer_class & KX_P) != 0;
    int32_t row_step = rows_inner ? (int32_t)x->position[x->p] : 0;
    if (!wf_kx_folds_columns(x)) {
        int64_t rows = rows_inner ? c->rows : 1;
        ops->arg_cols[which][a->type](value, index, v, rows, c->n[x->tile_class] / rows, pos, row_step);
        return;
    }
    int32_t step = x->q < 0 ? 0 : (int32_t)x->position[x->q];
    for (int64_t r = 0; r < c->rows; r++) {
        size_t at = rows_inner ? 0 : (size_t)r;
        ops->arg_row[which][a->type](value + at * esize, index + at, v + (size_t)(r * c->cols) * esize, c->cols,
                                     pos + (int32_t)r * row_step, step);
    }
}

static void flush(kx_ctx *c, int number)
{
    const kx_run *x = c->x;
    char *extra = acc_at(c, number, 1);
    x->kernel->ops->fold_cols[WF_KROP_SUM][WF_KTY_F32](acc_at(c, number, 0), extra, 1, acc_count(c));
    x->kernel->ops->fill4(extra, 0, acc_count(c));
}

static void fold_one(kx_ctx *c, const wf_kacc *a, int number)
{
    const kx_run *x = c->x;
    const wf_vec_ops *ops = x->kernel->ops;
    size_t esize = x->kernel->info[a->value].esize;
    char *value = acc_at(c, number, 0), *extra = acc_at(c, number, 1);
    const char *v = x->val[a->value].cls == x->tile_class ? c->at[a->value] : wf_kx_expand(c, 0, a->value, x->tile_class);
    if (is_arg(a->rop)) {
        fold_arg(c, a, value, (int32_t *)extra, v, esize);
        return;
    }
    if (!wf_kx_folds_columns(x)) {
        bool rows_inner = (x->tile_class & ~x->outer_class & KX_P) != 0;
        int64_t rows = rows_inner ? c->rows : 1;
        ops->fold_cols[a->rop][a->type](has_flush(x, a) ? extra : value, v, rows, c->n[x->tile_class] / rows);
        return;
    }
    wf_fold_row fold = ops->fold_row[a->rop][a->type];
    if (!(x->outer_class & KX_P)) {
        fold(value, v, c->n[x->tile_class]);
        return;
    }
    size_t step = wide(x, a) ? 8 : 4;
    for (int64_t r = 0; r < c->rows; r++)
        fold(value + (size_t)r * step, v + (size_t)(r * c->cols) * esize, c->cols);
}

void wf_kx_acc_folded(kx_ctx *c, int stage, int64_t rows)
{
    const kx_run *x = c->x;
    const wf_kstage *st = &x->k->stages[stage];
    c->folded_rows += rows;
    if (c->folded_rows < FLUSH_ROWS)
        return;
    c->folded_rows = 0;
    for (int j = 0; j < st->n_acc; j++)
        if (has_flush(x, &st->acc[j]))
            flush(c, x->kernel->acc_first[stage] + j);
}

void wf_kx_acc_fold(kx_ctx *c, int stage)
{
    const kx_run *x = c->x;
    const wf_kstage *st = &x->k->stages[stage];
    for (int j = 0; j < st->n_acc; j++)
        fold_one(c, &st->acc[j], x->kernel->acc_first[stage] + j);
    wf_kx_acc_folded(c, stage, (x->tile_class & ~x->outer_class & KX_P) ? c->rows : 1);
}

/* Tiles without p only: a block is the columns of one row. */
void wf_kx_fold_of(kx_ctx *c, int stage, int acc, kx_fold *out)
{
    const kx_run *x = c->x;
    const wf_kacc *a = &x->k->stages[stage].acc[acc];
    const wf_vec_ops *ops = x->kernel->ops;
    int number = x->kernel->acc_first[stage] + acc, which = a->rop == WF_KROP_ARGMIN;
    bool row = wf_kx_folds_columns(x);
    *out = (kx_fold){.value = NULL};
    out->value = acc_at(c, number, has_flush(x, a) ? 1 : 0);
    if (is_arg(a->rop)) {
        out->index = (int32_t *)acc_at(c, number, 1);
        out->pos = (int32_t)tile_position(c);
        out->step = row && x->q >= 0 ? (int32_t)x->position[x->q] : 0;
        if (row)
            out->arg_row = ops->arg_row[which][a->type];
        else
            out->arg_cols = ops->arg_cols[which][a->type];
    } else if (row) {
        out->row = ops->fold_row[a->rop][a->type];
    } else {
        out->cols = ops->fold_cols[a->rop][a->type];
    }
}

void wf_kx_fold_block(kx_fold *f, const void *v, int64_t n)
{
    if (f->row)
        f->row(f->value, v, n);
    else if (f->cols)
        f->cols(f->value, v, 1, n);
    else if (f->arg_row)
        f->arg_row(f->value, f->index, v, n, f->pos, f->step);
    else
        f->arg_cols(f->value, f->index, v, 1, n, f->pos, 0);
    f->pos += f->add_pos;
}

void *wf_kx_acc_result(kx_ctx *c, int stage, int acc) { return acc_at(c, c->x->kernel->acc_first[stage] + acc, 2); }

void wf_kx_acc_finish(kx_ctx *c, int stage)
{
    const kx_run *x = c->x;
    const wf_kstage *st = &x->k->stages[stage];
    int64_t n = acc_count(c);
    for (int j = 0; j < st->n_acc; j++) {
        const wf_kacc *a = &st->acc[j];
        int number = x->kernel->acc_first[stage] + j;
        char *value = acc_at(c, number, 0), *result = acc_at(c, number, 2);
        if (has_flush(x, a))
            flush(c, number);
        if (is_arg(a->rop))
            memcpy(result, acc_at(c, number, 1), (size_t)n * 4);
        else if (in_double(x, a) && n == 1)
            *(float *)(void *)result = (float)*(const double *)(const void *)value;
        else if (in_double(x, a))
            x->kernel->ops->cast[WF_KTY_F64][WF_KTY_F32](result, value, n);
        else
            memcpy(result, value, (size_t)n * (wide(x, a) ? 8 : 4));
    }
}

char *wf_kx_acc_state(kx_ctx *c, int stage, size_t *size_bytes)
{
    *size_bytes = (size_t)c->x->k->stages[stage].n_acc * 2 * c->x->acc_bytes;
    return acc_at(c, c->x->kernel->acc_first[stage], 0);
}

static void combine_arg(kx_ctx *c, const wf_kacc *a, char *value, int32_t *index, const char *v, const int32_t *at)
{
    size_t esize = c->x->kernel->info[a->value].esize;
    wf_arg_cols fold = c->x->kernel->ops->arg_cols[a->rop == WF_KROP_ARGMIN][a->type];
    for (int64_t i = 0; i < acc_count(c); i++)
        fold(value + (size_t)i * esize, index + i, v + (size_t)i * esize, 1, 1, at[i], 0);
}

/* `partial` is a finished walk of a later part of the row: its unflushed sums are zero. */
void wf_kx_acc_combine(kx_ctx *c, int stage, const char *partial)
{
    const kx_run *x = c->x;
    const wf_kstage *st = &x->k->stages[stage];
    for (int j = 0; j < st->n_acc; j++) {
        const wf_kacc *a = &st->acc[j];
        int number = x->kernel->acc_first[stage] + j;
        const char *v = partial + (size_t)(2 * j) * x->acc_bytes;
        char *value = acc_at(c, number, 0);
        if (is_arg(a->rop))
            combine_arg(c, a, value, (int32_t *)acc_at(c, number, 1), v, (const int32_t *)(v + x->acc_bytes));
        else
            x->kernel->ops->fold_cols[a->rop][in_double(x, a) ? WF_KTY_F64 : a->type](value, v, 1, acc_count(c));
    }
}
