/* kir_lite.c - plain elementwise kernels over contiguous memory, the ones that memory limits.
 *
 * A processor overlaps loads and stores only within a window of a few hundred instructions. With the blocks
 * of kir_step.c it reads one operand, then the next, then writes, and the memory system idles in between;
 * with blocks of 128 elements the window spans several operands (a * b + c over 16M floats: 1.3 times the
 * rate). So a tile is first turned into a list of loops with pointers, which then runs block by block
 * with nothing in between.
 */
#include "kir_exec.h"

enum { MAX_OPS = 48, MIN_POINTS = 4 * KX_LITE_BLOCK };

typedef struct lite_op {
    uint8_t kind; /* KX_VEC1, KX_VEC2, KX_VEC3; KX_STORE: stream */
    uint8_t add_d, add_a, add_b, add_c; /* bytes an element moves each pointer; 0: a block or a single value */
    union {
        wf_vec1 f1;
        wf_vec2 f2;
        wf_vec3 f3;
    };
    char *d;
    const char *a, *b, *c;
} lite_op;

typedef struct lite_list {
    int n;
    lite_op op[MAX_OPS];
    uint8_t add[WF_KIR_MAX_INSTR]; /* of a value: how far an element moves its pointer */
    int16_t made[WF_KIR_MAX_INSTR]; /* the op that makes it */
} lite_list;

static bool unit(const kx_run *x, int index) { return x->val[index].linear && x->val[index].sc == 1; }

static bool step_fits(const kx_run *x, const kx_step *s)
{
    const wf_kinstr *in = &x->k->instr[s->i];
    switch ((kx_kind)s->kind) {
    case KX_AFFINE:
    case KX_AXIS:
    case KX_SUM: return s->cls == KX_S || !x->val[s->i].need;
    case KX_LOAD:
        return s->cls == KX_S || (unit(x, in->a) && x->k->bind[in->slot].access == WF_ACCESS_READ &&
                                  weft_dtype_block((weft_dtype)x->k->bind[in->slot].dtype) == 1);
    case KX_STORE: return s->cls == KX_Q && s->expand == 0 && unit(x, in->a);
    case KX_VEC1:
    case KX_VEC2:
    case KX_VEC3: return s->expand == 0;
    case KX_CONST:
    case KX_STATIC:
    case KX_STEP: return true;
    default: return false;
    }
}

bool wf_kx_lite_fits(const kx_run *x)
{
    const wf_kir *k = x->k;
    if (k->n_inner || x->p >= 0 || x->q < 0 || k->n_stages != 1 || x->extent[x->q] < MIN_POINTS || k->n_instr > MAX_OPS)
        return false;
    for (int i = x->first[0][0]; i < x->first[0][3]; i++)
        if (!step_fits(x, &x->step[i]))
            return false;
    return true;
}

static lite_op *new_op(lite_list *l, uint8_t kind)
{
    lite_op *op = &l->op[l->n++];
    memset(op, 0, sizeof *op);
    op->kind = kind;
    return op;
}

static bool add_load(kx_ctx *c, lite_list *l, const kx_step *s)
{
    const wf_kinstr *in = &c->x->k->instr[s->i];
    kx_memory m = wf_kx_memory(c, in);
    kx_form f = wf_kx_form(c, in->a, s->cls);
    if (!wf_kx_inside(&f, m.limit))
        return false;
    char *from = m.ptr + (f.base << m.log2_bytes);
    l->made[s->i] = -1;
    if (m.direct) {
        c->at[s->i] = from;
        l->add[s->i] = (uint8_t)(1 << m.log2_bytes);
        return true;
    }
    lite_op *op = new_op(l, KX_VEC1);
    op->f1 = c->x->kernel->ops->load[m.dtype];
    op->a = from;
    op->add_a = (uint8_t)(1 << m.log2_bytes);
    op->d = c->at[s->i] = wf_kx_slot(c, c->x->kernel->info[s->i].slot);
    l->add[s->i] = 0;
    return true;
}

static bool add_store(kx_ctx *c, lite_list *l, const kx_step *s)
{
    const wf_kinstr *in = &c->x->k->instr[s->i];
    kx_memory m = wf_kx_memory(c, in);
    kx_form f = wf_kx_form(c, in->a, s->cls);
    if (!wf_kx_inside(&f, m.limit))
        return false;
    char *to = m.ptr + (f.base << m.log2_bytes);
    uint8_t add = (uint8_t)(1 << m.log2_bytes);
    int made = l->made[in->b];
    if (m.log2_bytes >= 2 && !s->nt && made >= 0 && c->x->kernel->info[in->b].uses == 1) {
        l->op[made].d = to; /* the loop that makes the value writes it where it belongs */
        l->op[made].add_d = add;
        return true;
    }
    lite_op *op = new_op(l, s->nt ? KX_STORE : KX_VEC1);
    op->f1 = c->x->kernel->ops->store[m.dtype];
    op->d = to;
    op->add_d = add;
    op->a = c->at[in->b];
    op->add_a = l->add[in->b];
    return true;
}

static void add_loop(kx_ctx *c, lite_list *l, const kx_step *s)
{
    const wf_kinstr *in = &c->x->k->instr[s->i];
    l->made[s->i] = (int16_t)l->n;
    lite_op *op = new_op(l, s->kind);
    op->f3 = s->f3;
    op->a = c->at[in->a];
    op->add_a = l->add[in->a];
    if (s->kind != KX_VEC1) {
        op->b = c->at[in->b];
        op->add_b = l->add[in->b];
    }
    if (s->kind == KX_VEC3) {
        op->c = c->at[in->c];
        op->add_c = l->add[in->c];
    }
    op->d = c->at[s->i] = wf_kx_slot(c, c->x->kernel->info[s->i].slot);
    l->add[s->i] = 0;
}

static bool make_list(kx_ctx *c, lite_list *l)
{
    const kx_run *x = c->x;
    l->n = 0;
    for (int i = x->first[0][0]; i < x->first[0][3]; i++) {
        const kx_step *s = &x->step[i];
        bool single = s->cls == KX_S || s->kind == KX_AFFINE || s->kind == KX_AXIS || s->kind == KX_SUM;
        if (single) {
            l->add[s->i] = 0;
            l->made[s->i] = -1;
            if (i >= x->first[0][1]) /* level 0 is done */
                wf_kx_one(c, s);
        } else if (s->kind == KX_LOAD) {
            if (!add_load(c, l, s))
                return false;
        } else if (s->kind == KX_STORE) {
            if (!add_store(c, l, s))
                return false;
        } else {
            add_loop(c, l, s);
        }
    }
    return true;
}

bool wf_kx_lite_tile(kx_ctx *c)
{
    lite_list l;
    if (!make_list(c, &l))
        return false;
    const wf_vec_ops *ops = c->x->kernel->ops;
    for (int64_t rest = c->cols; rest > 0; rest -= KX_LITE_BLOCK) {
        int64_t n = WF_MIN(rest, KX_LITE_BLOCK);
        for (lite_op *op = l.op; op < l.op + l.n; op++) {
            switch (op->kind) {
            case KX_VEC1: op->f1(op->d, op->a, n); break;
            case KX_VEC2: op->f2(op->d, op->a, op->b, n); break;
            case KX_VEC3: op->f3(op->d, op->a, op->b, op->c, n); break;
            default: ops->stream(op->d, op->a, (size_t)n * op->add_d); break;
            }
            op->d += n * op->add_d;
            op->a += n * op->add_a;
            op->b += n * op->add_b;
            op->c += n * op->add_c;
        }
    }
    return true;
}
