/* kir_tile.c - which axes make the tile of a run, and the space its tiles fill.
 *
 * q is the axis along which most memory is contiguous; p joins it when q is short, or when an operand is
 * contiguous along p instead (a transposition). Rows are folded along q where their memory lies along it;
 * where it lies along an outer axis, whole rows are folded into a block of columns.
 */
#include "kir_exec.h"

enum {
    SHORT_AXIS = 256,     /* below this many columns a second axis joins the tile */
    TRANSPOSE_TILE = 64,  /* columns of a transposing tile: few pages for what is moved, both ways, */
    TRANSPOSE_BLOCK = 4096, /* and its elements: beside the lines read, a part of the first-level cache */
    FEW_INNER = 8         /* rows this short are folded across, many rows at a time */
};

int32_t wf_kx_stride(const kx_run *x, int i, int axis)
{
    const wf_kinstr *in = &x->k->instr[i];
    return in->op == WF_KOP_AXIS ? in->slot == axis : x->statics[in->slot + 1 + axis];
}

/* ---- choosing the tile ---- */

/* An index form counts for an axis: 2 when contiguous or constant along it, 0 when strided. With inner axes
 * only those that move along an inner axis count: the others are once a row. */
static int axis_score(const kx_run *x, int axis, bool rows_only)
{
    const wf_kir *k = x->k;
    int score = 0;
    for (int i = 0; i < k->n_instr; i++) {
        int w = x->kernel->info[i].weight;
        if (!w)
            continue;
        if (rows_only) {
            bool moves = false;
            for (int a = k->n_outer; a < x->n_axes; a++)
                moves |= x->extent[a] > 1 && wf_kx_stride(x, i, a) != 0;
            if (!moves || k->stages[x->kernel->info[i].stage].kind == WF_KSTAGE_OUTER)
                continue;
        }
        int32_t s = wf_kx_stride(x, i, axis);
        score += s == 1 || s == 0 ? 2 * w : 0;
    }
    return score;
}

/* The best of axes first .. end-1: score, then length (up to a block), then the later one. */
static int best_axis(const kx_run *x, int first, int end, bool rows_only, int *score_out)
{
    int best = -1, best_score = -1;
    bool alone = true;
    for (int a = first, n = 0; a < end; a++)
        alone = (n += x->extent[a] > 1) <= 1;
    for (int a = first; a < end; a++) {
        if (x->extent[a] <= 1)
            continue;
        int s = alone && !score_out ? 0 : axis_score(x, a, rows_only);
        if (s >= best_score) {
            best = a;
            best_score = s;
        }
    }
    if (score_out)
        *score_out = best_score;
    return best;
}

static int longest_axis(const kx_run *x, int first, int end, int except)
{
    int best = -1;
    for (int a = first; a < end; a++)
        if (a != except && x->extent[a] > 1 && (best < 0 || x->extent[a] >= x->extent[best]))
            best = a;
    return best;
}

/* An axis other than q along which an operand strided on q is contiguous. */
static int transposed_axis(const kx_run *x, int q, int first, int end)
{
    for (int i = 0; i < x->k->n_instr; i++) {
        if (!x->kernel->info[i].weight)
            continue;
        int32_t s = wf_kx_stride(x, i, q);
        if (s == 0 || s == 1)
            continue;
        for (int a = first; a < end; a++)
            if (a != q && x->extent[a] >= 8 && wf_kx_stride(x, i, a) == 1)
                return a;
    }
    return -1;
}

/* Equal parts of at most `most`, a multiple of 16 but for short axes. */
static int64_t even_part(int64_t extent, int64_t most)
{
    if (extent <= most)
        return WF_MAX(extent, 1);
    int64_t parts = (extent + most - 1) / most;
    return WF_MIN((int64_t)wf_align_up((uint64_t)((extent + parts - 1) / parts), 16), most);
}

static int64_t product(const kx_run *x, int first, int end)
{
    int64_t n = 1;
    for (int a = first; a < end; a++)
        if (!wf_mul_i64(n, x->extent[a], &n))
            return INT64_MAX / 4;
    return n;
}

void wf_kx_set_tile(kx_run *x, int p, int q, int64_t rows, int64_t cols)
{
    x->p = rows > 1 ? p : -1;
    x->q = q;
    x->tile_rows = x->p < 0 ? 1 : rows;
    x->tile_cols = q < 0 ? 1 : cols;
}

static void join_rows(kx_run *x, int p, int64_t block)
{
    int64_t cols = x->extent[x->q];
    if (p >= 0)
        wf_kx_set_tile(x, p, x->q, even_part(x->extent[p], WF_MAX(block / cols, 1)), cols);
    else
        wf_kx_set_tile(x, -1, x->q, 1, cols);
}

static void choose_elementwise(kx_run *x)
{
    int n = x->k->n_outer;
    int q = best_axis(x, 0, n, false, NULL);
    if (q < 0) {
        wf_kx_set_tile(x, -1, -1, 1, 1);
        return;
    }
    x->q = q;
    int p = n > 1 ? transposed_axis(x, q, 0, n) : -1;
    if (p >= 0 && x->extent[q] >= 8) {
        int64_t cols = even_part(x->extent[q], TRANSPOSE_TILE);
        wf_kx_set_tile(x, p, q, even_part(x->extent[p], TRANSPOSE_BLOCK / cols), cols);
    } else if (x->extent[q] < (x->kernel->picks_rows ? KX_MOVE_AXIS : SHORT_AXIS)) {
        join_rows(x, longest_axis(x, 0, n, q), x->kernel->moves ? KX_BLOCK_MOVE : KX_BLOCK);
    } else {
        wf_kx_set_tile(x, -1, q, 1, even_part(x->extent[q], KX_BLOCK));
    }
}

static void choose_rows(kx_run *x, int q)
{
    const wf_kir *k = x->k;
    x->q = q;
    if (x->extent[q] >= SHORT_AXIS) {
        wf_kx_set_tile(x, -1, q, 1, even_part(x->extent[q], x->kernel->bare_rows ? KX_BLOCK_ROW_BARE : KX_BLOCK_ROW));
        return;
    }
    int p = longest_axis(x, k->n_outer, x->n_axes, q);
    if (p < 0)
        p = longest_axis(x, 0, k->n_outer, -1);
    join_rows(x, p, KX_BLOCK);
}

static void choose_cols(kx_run *x, int q, int64_t n_inner_points)
{
    const wf_kir *k = x->k;
    x->q = q;
    if (x->extent[q] < SHORT_AXIS) {
        int p = longest_axis(x, k->n_outer, x->n_axes, -1);
        if (p < 0 || x->extent[q] * n_inner_points < 64)
            p = longest_axis(x, 0, k->n_outer, q);
        join_rows(x, p, KX_BLOCK);
        return;
    }
    wf_kx_set_tile(x, -1, q, 1, even_part(x->extent[q], KX_BLOCK_COLS));
}

void wf_kx_choose(kx_run *x)
{
    const wf_kir *k = x->k;
    if (k->n_inner == 0) {
        choose_elementwise(x);
        return;
    }
    int64_t n_inner = product(x, k->n_outer, x->n_axes);
    int inner_score, outer_score;
    int qi = best_axis(x, k->n_outer, x->n_axes, true, &inner_score);
    int qo = best_axis(x, 0, k->n_outer, true, &outer_score);
    if (qi < 0 && qo < 0)
        wf_kx_set_tile(x, -1, -1, 1, 1);
    else if (qi < 0 || (qo >= 0 && (outer_score > inner_score || (n_inner <= FEW_INNER && x->extent[qo] >= 16))))
        choose_cols(x, qo, n_inner);
    else
        choose_rows(x, qi);
}

/* ---- spaces ---- */

static void make_space(const kx_run *x, int first, int end, kx_space *s)
{
    s->n = 0;
    s->total = 1;
    for (int pass = 0; pass < 3; pass++) /* other axes, then p, then q: the tile's rows stay together */
        for (int a = first; a < end; a++) {
            int turn = a == x->q ? 2 : a == x->p ? 1 : 0;
            if (turn != pass || x->extent[a] == 1)
                continue;
            s->axis[s->n] = (uint8_t)a;
            int64_t cols = x->walk_cols ? x->walk_cols : x->tile_cols;
            s->step[s->n] = a == x->q ? cols : a == x->p ? x->tile_rows : 1;
            s->count[s->n] = (x->extent[a] + s->step[s->n] - 1) / s->step[s->n];
            if (!wf_mul_i64(s->total, s->count[s->n], &s->total))
                s->total = INT64_MAX / 2;
            s->n++;
        }
}

void wf_kx_layout(kx_run *x)
{
    const wf_kir *k = x->k;
    x->tile_class = (uint8_t)((x->p >= 0 ? KX_P : 0) | (x->q >= 0 ? KX_Q : 0));
    x->outer_class = (uint8_t)((x->p >= 0 && x->p < k->n_outer ? KX_P : 0) | (x->q >= 0 && x->q < k->n_outer ? KX_Q : 0));
    make_space(x, 0, k->n_outer, &x->outer);
    make_space(x, k->n_outer, x->n_axes, &x->inner);
    int64_t weight = 1;
    for (int a = x->n_axes - 1; a >= k->n_outer; a--) {
        x->position[a] = weight;
        weight *= x->extent[a];
    }
    x->block_elems = x->tile_rows * x->tile_cols;
    x->acc_elems = ((x->outer_class & KX_P) ? x->tile_rows : 1) * ((x->outer_class & KX_Q) ? x->tile_cols : 1);
    x->slot_bytes = wf_align_up((uint64_t)x->block_elems * (uint64_t)x->kernel->slot_esize, 64);
    if (x->slot_bytes % KX_PAGE == 0)
        x->slot_bytes += KX_PAGE_PAD; /* slots a whole page apart would make loads wait for stores to other slots */
    x->acc_bytes = wf_align_up((uint64_t)x->acc_elems * 8, 64);
    /* an accumulator has a value, a second half (index, or sums not yet flushed) and a result */
    x->ws_bytes = (size_t)(x->kernel->n_slots + KX_TEMPS) * x->slot_bytes + (size_t)x->kernel->n_accs * 3 * x->acc_bytes;
}
