/* unfold.c - products whose operand is a row-major copy of windows read the windows themselves.
 *
 * A convolution is recorded as pad, windows, copy to columns, product. The packed product of the CPU copies its operands
 * to panels in any case, so it can read the tensor behind the copy: the operand's matrix axes become several axes of that
 * tensor each, and the zeros of the padding become bounds. The copy and the padding are then computed only if somebody else
 * reads them. Devices with their own kernels keep the copy.
 */
#include "compile.h"

#include "kernel_rows.h"

enum { MAX_STEPS = 16, MIN_ROWS = 4, MIN_COLS = 8 };

/* `count` steps of one matrix axis (`group`: a batch axis, or K, or FREE), each of `step` along axis `dim` of a tensor. */
enum { GROUP_K = WEFT_MAX_RANK, GROUP_FREE, GROUPS };
typedef struct step_axis {
    int group, dim;
    int64_t count, step;
} step_axis;

/* The operand as places of a tensor: the first, and the steps from it, outermost first within a group. */
typedef struct trace {
    int n;
    step_axis axis[MAX_STEPS];
    int64_t origin[WEFT_MAX_RANK];
} trace;

/* Row-major places of a shape: `count` steps of `stride` elements as steps along its axes, outermost first. */
static bool add_steps(trace *t, int group, int rank, const int64_t *shape, int64_t count, int64_t stride)
{
    step_axis found[WEFT_MAX_RANK];
    int n = 0;
    int64_t unit = 1;
    for (int d = rank - 1; d >= 0 && count > 1; unit *= shape[d], d--) {
        if (shape[d] == 1 || stride >= unit * shape[d])
            continue;
        if (stride < unit || stride % unit)
            return false;
        const int64_t step = stride / unit;
        int64_t some = count;
        if ((count - 1) * step >= shape[d]) { /* goes on along the next axis */
            if (shape[d] % step || count % (shape[d] / step))
                return false;
            some = shape[d] / step;
        }
        if (some > 1)
            found[n++] = (step_axis){group, d, some, step};
        count /= some;
        stride = unit * shape[d];
    }
    if (count > 1 || t->n + n > MAX_STEPS)
        return false;
    while (n > 0)
        t->axis[t->n++] = found[--n];
    return true;
}

/* No sum of steps leaves an axis: then the axes of the shape move independently of each other. */
static bool stays_inside(const trace *t, int rank, const int64_t *shape)
{
    for (int d = 0; d < rank; d++) {
        int64_t last = t->origin[d];
        for (int i = 0; i < t->n; i++)
            if (t->axis[i].dim == d)
                last += (t->axis[i].count - 1) * t->axis[i].step;
        if (last >= shape[d])
            return false;
    }
    return true;
}

static void origin_of(trace *t, int rank, const int64_t *shape, int64_t offset)
{
    for (int d = rank - 1; d >= 0; d--) {
        t->origin[d] = offset % shape[d];
        offset /= shape[d];
    }
}

/* A view of `from` steps over a tensor of a shape, as places of that tensor. */
static bool replace(const trace *from, const wf_view *v, int rank, const int64_t *shape, trace *out)
{
    int64_t offset = v->offset;
    *out = (trace){0};
    for (int d = 0; d < v->rank; d++)
        offset += from->origin[d] * v->strides[d];
    if (offset < 0)
        return false;
    for (int i = 0; i < from->n; i++) {
        const step_axis *a = &from->axis[i];
        const int64_t stride = a->step * v->strides[a->dim];
        if (stride <= 0 || !add_steps(out, a->group, rank, shape, a->count, stride))
            return false;
    }
    origin_of(out, rank, shape, offset);
    return stays_inside(out, rank, shape);
}

/* The operand of a product as places of the row-major node that it reads. */
static bool trace_operand(const wf_view *v, bool is_b, int rank, const int64_t *shape, trace *out)
{
    *out = (trace){0};
    for (int d = 0; d < v->rank; d++) {
        const bool last = d == v->rank - 1, row = d == v->rank - 2;
        const int group = last ? (is_b ? GROUP_FREE : GROUP_K) : row ? (is_b ? GROUP_K : GROUP_FREE) : d;
        if (v->shape[d] == 1 || (v->strides[d] == 0 && group < GROUP_K))
            continue;
        if (v->strides[d] <= 0 || !add_steps(out, group, rank, shape, v->shape[d], v->strides[d]))
            return false;
    }
    if (v->offset < 0)
        return false;
    origin_of(out, rank, shape, v->offset);
    return stays_inside(out, rank, shape);
}

static bool is_zeros(const wf_cnode *n) { return n->op == WF_OP_FULL && n->attrs.constant.value == 0; }

/* The one input of a cat that is not zeros, -1: none such; *before is where it begins. */
static int padded_input(const wf_compile_state *s, const wf_cnode *cat, int64_t *before)
{
    int at = -1;
    int64_t sum = 0;
    for (int i = 0; i < cat->n_in; i++) {
        if (wf_view_numel(&cat->in[i].view) == 0)
            continue;
        if (!is_zeros(&s->g.nodes[cat->src[i]])) {
            if (at >= 0)
                return -1;
            at = i;
            *before = sum;
        }
        sum += cat->in[i].view.shape[cat->attrs.index.axis];
    }
    return at;
}

static void put_axis(wf_unfold_axis *axes, int32_t *n, const wf_unfold_axis *a)
{
    wf_unfold_axis *last = *n ? &axes[*n - 1] : NULL;
    if (last && last->bound < 0 && a->bound < 0 && last->move == a->move * a->extent)
        *last = (wf_unfold_axis){last->extent * a->extent, a->move, -1, 0};
    else
        axes[(*n)++] = *a;
}

/* What the kernel is told: steps over view v of a tensor, of which the axes with a bound are padded. */
static bool finish(const trace *t, const wf_view *v, const int *bound_of, wf_unfold *u, wf_view *operand)
{
    operand->offset = v->offset;
    for (int d = 0; d < v->rank; d++) {
        if (bound_of[d] >= 0) {
            u->bound[bound_of[d]].start = t->origin[d];
            u->bound[bound_of[d]].stride = v->strides[d];
        } else {
            operand->offset += t->origin[d] * v->strides[d];
        }
    }
    for (int d = 0; d < operand->rank; d++)
        operand->strides[d] = 0;
    for (int i = 0; i < t->n; i++) {
        const step_axis *a = &t->axis[i];
        const int bound = bound_of[a->dim];
        const wf_unfold_axis one = {a->count, bound < 0 ? a->step * v->strides[a->dim] : a->step, bound, 0};
        if (a->group < GROUP_K) {
            if (bound >= 0 || a->count != operand->shape[a->group]) /* a batch axis has one stride */
                return false;
            operand->strides[a->group] = one.move;
            continue;
        }
        int32_t *n = a->group == GROUP_K ? &u->n_k : &u->n_free;
        if (*n == WF_UNFOLD_AXES)
            return false;
        put_axis(a->group == GROUP_K ? u->k : u->free, n, &one);
    }
    return u->n_k > 1 || u->n_free > 1 || u->n_bounds > 0; /* else it is a plain matrix: the copy has its reasons */
}

/* Behind the copy: through paddings, to the tensor that they pad. */
static bool look_behind(const wf_compile_state *s, const wf_cnode *copy, const trace *over_copy, wf_unfold *u, wf_view *operand, int32_t *src)
{
    int bound_of[WEFT_MAX_RANK];
    trace t;
    for (int d = 0; d < WEFT_MAX_RANK; d++)
        bound_of[d] = -1;
    const wf_view *v = &copy->in[0].view;
    *src = copy->src[0];
    const wf_cnode *n = &s->g.nodes[*src];
    if (n->op != WF_OP_CAT || !replace(over_copy, v, n->rank, n->shape, &t))
        return finish(over_copy, v, bound_of, u, operand);
    for (bool first = true;; first = false) {
        int64_t before = 0;
        const int axis = n->attrs.index.axis;
        const int at = n->op == WF_OP_CAT && u->n_bounds < WF_UNFOLD_BOUNDS && bound_of[axis] < 0 ? padded_input(s, n, &before) : -1;
        bool batched = false;
        for (int i = 0; i < t.n; i++)
            batched |= t.axis[i].dim == axis && t.axis[i].group < GROUP_K;
        if (at < 0 || batched) {
            if (first)
                return finish(over_copy, v, bound_of, u, operand);
            break;
        }
        t.origin[axis] -= before;
        u->bound[u->n_bounds].extent = n->in[at].view.shape[axis];
        bound_of[axis] = u->n_bounds++;
        v = &n->in[at].view;
        *src = n->src[at];
        n = &s->g.nodes[*src];
        if (n->op != WF_OP_CAT || !wf_view_is_whole(v, n->numel))
            break;
    }
    return finish(&t, v, bound_of, u, operand);
}

/* The kernels walk three axes of batches. */
static bool has_few_batches(const wf_view *v)
{
    int n = 0;
    for (int d = 0; d < v->rank - 2; d++)
        n += v->shape[d] > 1;
    return n <= 3;
}

static bool is_row_float(uint8_t dtype) { return dtype == WEFT_DTYPE_F32 || dtype == WEFT_DTYPE_F16 || dtype == WEFT_DTYPE_BF16; }

static weft_status unfold_operand(wf_compile_state *s, wf_cnode *c, int which)
{
    const wf_view *v = &c->in[which].view;
    const wf_cnode *copy = &s->g.nodes[c->src[which]];
    const int64_t rows = c->in[0].view.shape[v->rank - 2], cols = c->in[1].view.shape[v->rank - 1], batch = c->numel / (rows * cols);
    wf_unfold u = {.operand = which};
    trace t;
    wf_view operand = *v;
    int32_t src;
    if (copy->op != WF_OP_COPY || copy->kind != WF_CK_COMPUTE || !is_row_float(copy->dtype) || rows < MIN_ROWS || cols < MIN_COLS ||
        (which == 0 && batch != 1) || !has_few_batches(v) || copy->in[0].view.rank != copy->rank || s->g.nodes[copy->src[0]].dtype != copy->dtype)
        return WEFT_OK;
    if (!trace_operand(v, which == 1, copy->rank, copy->shape, &t) || !look_behind(s, copy, &t, &u, &operand, &src))
        return WEFT_OK;
    wf_unfold *kept = wf_arena_alloc(&s->scratch, sizeof *kept);
    wf_value *in = wf_arena_alloc(&s->scratch, 2 * sizeof *in);
    int32_t *srcs = wf_arena_alloc(&s->scratch, 2 * sizeof *srcs);
    if (!kept || !in || !srcs)
        return wf_fail_oom(sizeof *kept);
    *kept = u;
    for (int i = 0; i < 2; i++) {
        in[i] = i == which ? (wf_value){NULL, operand} : c->in[i];
        srcs[i] = i == which ? src : c->src[i];
    }
    c->unfold = kept;
    c->in = in;
    c->src = srcs;
    return WEFT_OK;
}

weft_status wf_unfold_operands(wf_compile_state *s)
{
    const wf_caps *caps = &s->env->dev->caps;
    char forced[64];
    if (!caps->runs_kir || caps->runs_wgsl || (!caps->unforced && wf_kernel_forced("matmul", forced, sizeof forced) && strcmp(forced, "matmul_unfold") != 0))
        return WEFT_OK;
    for (int32_t i = 0; i < s->g.n; i++) {
        wf_cnode *c = &s->g.nodes[i];
        if (c->kind != WF_CK_COMPUTE || c->op != WF_OP_MATMUL || c->numel == 0 || c->dtype == WEFT_DTYPE_F64 || c->dtype == WEFT_DTYPE_I32 || !is_row_float(s->g.nodes[c->src[1]].dtype) || wf_view_numel(&c->in[0].view) == 0)
            continue;
        for (int which = 1; which >= 0 && !c->unfold; which--)
            WF_TRY(unfold_operand(s, c, which));
    }
    return WEFT_OK;
}
