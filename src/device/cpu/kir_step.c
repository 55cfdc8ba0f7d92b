/* kir_step.c - the steps of a tile: loads, stores, index forms, and the vector loops between them.
 *
 * Every element index is checked against its binding: a load outside takes the nearest element, a store
 * outside is dropped, so a kernel cannot reach past its buffers whatever its statics say. For index forms
 * the check is a few integer operations a tile; only a tile that does reach outside goes element-wise.
 */
#include "kir_exec.h"

enum { TEMP_RAW = 3, TEMP_INDEX = 4 };

static void *temp(const kx_ctx *c, int t) { return wf_kx_slot(c, c->x->kernel->n_slots + t); }

/* Where instruction i puts its elements. */
static void *place(kx_ctx *c, int i, uint8_t cls)
{
    c->at[i] = cls == KX_S ? (void *)&c->scalar[i] : (void *)wf_kx_slot(c, c->x->kernel->info[i].slot);
    return c->at[i];
}

void *wf_kx_expand(kx_ctx *c, int t, int value, uint8_t cls)
{
    const wf_vec_ops *ops = c->x->kernel->ops;
    const char *from = c->at[value];
    char *to = temp(c, t);
    uint8_t have = c->x->val[value].cls;
    size_t esize = c->x->kernel->info[value].esize;
    bool wide = esize == 8;
    if (have == KX_S || have == KX_P) {
        int64_t rows = have == KX_P ? c->rows : 1, cols = c->n[cls] / rows;
        for (int64_t r = 0; r < rows; r++)
            if (wide)
                ops->fill8(to + (size_t)(r * cols) * 8, ((const uint64_t *)from)[r], cols);
            else
                ops->fill4(to + (size_t)(r * cols) * 4, ((const uint32_t *)from)[r], cols);
    } else {
        /* Rows may be a few elements: copy what is there already, doubling. */
        size_t have_bytes = (size_t)c->cols * esize, all = (size_t)c->rows * have_bytes;
        memcpy(to, from, have_bytes);
        for (; have_bytes < all; have_bytes *= 2)
            memcpy(to + have_bytes, to, WF_MIN(have_bytes, all - have_bytes));
    }
    return to;
}

static const void *operand(kx_ctx *c, const kx_step *s, int o, int value)
{
    return s->expand >> o & 1 ? wf_kx_expand(c, o, value, s->cls) : c->at[value];
}

/* ---- index forms ---- */

static int64_t base_of(const kx_ctx *c, int i)
{
    return c->x->val[i].linear ? c->base[i] : *(const int32_t *)c->at[i];
}

kx_form wf_kx_form(const kx_ctx *c, int i, uint8_t cls)
{
    const kx_val *v = &c->x->val[i];
    kx_form f = {base_of(c, i), (cls & KX_P) ? c->rows : 1, (cls & KX_Q) ? c->cols : 1, v->sr, v->sc};
    if (f.cols == 1) {
        f.cols = f.rows;
        f.sc = f.sr;
        f.rows = 1;
    } else if (f.rows > 1 && f.sr == f.cols * f.sc) {
        f.cols *= f.rows;
        f.rows = 1;
    }
    return f;
}

bool wf_kx_inside(const kx_form *f, int64_t limit)
{
    int64_t r = (f->rows - 1) * f->sr, q = (f->cols - 1) * f->sc;
    int64_t lo = f->base + WF_MIN(r, 0) + WF_MIN(q, 0), hi = f->base + WF_MAX(r, 0) + WF_MAX(q, 0);
    return lo >= 0 && hi < limit;
}

static void indices_of(const kx_ctx *c, const kx_form *f, int32_t *d)
{
    for (int64_t r = 0; r < f->rows; r++)
        c->x->kernel->ops->iota(d + r * f->cols, (int32_t)(f->base + r * f->sr), (int32_t)f->sc, f->cols);
}

static void index_form(kx_ctx *c, const kx_step *s)
{
    const kx_run *x = c->x;
    const wf_kinstr *in = &x->k->instr[s->i];
    int64_t base = 0;
    if (s->kind == KX_SUM) {
        int64_t b = base_of(c, in->b);
        base = base_of(c, in->a) + (in->op == WF_KOP_SUB ? -b : b);
    } else if (s->kind == KX_AXIS) {
        base = c->coord[in->slot];
    } else {
        const int32_t *w = x->statics + in->slot;
        base = w[0];
        for (int a = 0; a < x->n_axes; a++)
            base += c->coord[a] * w[1 + a];
    }
    c->base[s->i] = base;
    if (!x->val[s->i].need)
        return;
    int32_t *d = place(c, s->i, s->cls);
    if (s->cls == KX_S) {
        *d = (int32_t)base;
        return;
    }
    kx_form f = wf_kx_form(c, s->i, s->cls);
    indices_of(c, &f, d);
}

static void unravel(kx_ctx *c, const kx_step *s)
{
    const kx_run *x = c->x;
    const wf_kinstr *in = &x->k->instr[s->i];
    int n_dims = (int)in->imm;
    const int32_t *shape = x->statics + in->slot, *offset = shape + n_dims, *stride = offset + 1;
    const int32_t *a = c->at[in->a];
    int32_t *d = place(c, s->i, s->cls);
    for (int64_t e = 0; e < c->n[s->cls]; e++) {
        uint32_t rest = (uint32_t)a[e], sum = (uint32_t)offset[0];
        for (int k = n_dims - 1; k > 0; k--) {
            uint32_t extent = (uint32_t)WF_MAX(shape[k], 1), next = rest / extent;
            sum += (rest - next * extent) * (uint32_t)stride[k];
            rest = next;
        }
        if (n_dims > 0)
            sum += rest * (uint32_t)stride[0];
        d[e] = (int32_t)sum;
    }
}

static void check(kx_ctx *c, const kx_step *s)
{
    const kx_run *x = c->x;
    const wf_kinstr *in = &x->k->instr[s->i];
    int32_t extent = x->statics[in->slot];
    const int32_t *a = c->at[in->a];
    int32_t wrap = in->imm ? 0 : extent;
    bool bad = x->kernel->ops->check_index(place(c, s->i, s->cls), a, wrap, extent, c->n[s->cls]);
    if (!bad || atomic_exchange(&x->run->error[WF_ERROR_SET], 1))
        return;
    int64_t at = 0; /* the first one outside */
    while (a[at] >= 0 ? a[at] < extent : (int64_t)a[at] + wrap >= 0)
        at++;
    atomic_store(&x->run->error[WF_ERROR_INDEX], (uint32_t)a[at]);
    atomic_store(&x->run->error[WF_ERROR_EXTENT], (uint32_t)extent);
}

/* ---- loads ---- */

kx_memory wf_kx_memory(const kx_ctx *c, const wf_kinstr *in)
{
    static const int8_t log2_of[WEFT_DTYPE_COUNT] = {
        [WEFT_DTYPE_F32] = 2, [WEFT_DTYPE_F16] = 1, [WEFT_DTYPE_BF16] = 1, [WEFT_DTYPE_F64] = 3,  [WEFT_DTYPE_I32] = 2,
        [WEFT_DTYPE_U32] = 2, [WEFT_DTYPE_I8] = 0,  [WEFT_DTYPE_U8] = 0,   [WEFT_DTYPE_I64] = 3,  [WEFT_DTYPE_BOOL] = 0,
        [WEFT_DTYPE_Q8_0] = -1, [WEFT_DTYPE_Q4_0] = -1, [WEFT_DTYPE_Q4_1] = -1};
    const wf_kbind *b = &c->x->k->bind[in->slot];
    weft_dtype dtype = (weft_dtype)b->dtype;
    int lb = log2_of[dtype];
    uint64_t size = c->x->size[in->slot];
    int64_t limit = lb >= 0 ? (int64_t)(size >> lb) : (int64_t)(size / weft_dtype_block_bytes(dtype)) * 32;
    return (kx_memory){c->x->ptr[in->slot], limit, dtype, lb, lb >= 2 && b->access == WF_ACCESS_READ};
}

static void dequantise(const kx_ctx *c, const kx_memory *src, float *d, int64_t first, int64_t n)
{
    c->x->kernel->ops->dequantise[src->dtype - WEFT_DTYPE_Q8_0](d, src->ptr, first, n);
}

static void gather(kx_ctx *c, const kx_memory *src, void *d, const int32_t *index, int64_t n, size_t esize)
{
    const wf_vec_ops *ops = c->x->kernel->ops;
    if (src->limit <= 0) {
        memset(d, 0, (size_t)n * esize);
    } else if (src->log2_bytes < 0) {
        for (int64_t e = 0; e < n; e++) {
            int64_t k = index[e] < 0 ? 0 : index[e];
            dequantise(c, src, (float *)d + e, WF_MIN(k, src->limit - 1), 1);
        }
    } else if (src->log2_bytes >= 2) {
        ops->gather[src->log2_bytes](d, src->ptr, index, n, src->limit);
    } else {
        void *raw = temp(c, TEMP_RAW);
        ops->gather[src->log2_bytes](raw, src->ptr, index, n, src->limit);
        ops->load[src->dtype](d, raw, n);
    }
}

static void load_gather(kx_ctx *c, const kx_step *s)
{
    const wf_kinstr *in = &c->x->k->instr[s->i];
    kx_memory src = wf_kx_memory(c, in);
    const int32_t *index = c->at[in->a];
    gather(c, &src, place(c, s->i, s->cls), index, c->n[s->cls], c->x->kernel->info[s->i].esize);
}

static void load_blocks(kx_ctx *c, const kx_memory *src, const kx_form *f, float *d)
{
    for (int64_t r = 0; r < f->rows; r++)
        if (f->sc == 1)
            dequantise(c, src, d + r * f->cols, f->base + r * f->sr, f->cols);
        else
            for (int64_t q = 0; q < f->cols; q++)
                dequantise(c, src, d + r * f->cols + q, f->base + r * f->sr + q * f->sc, 1);
}

/* Strided storage into a dense block, unconverted. */
static void move_strided(const kx_ctx *c, const kx_memory *src, const kx_form *f, char *d)
{
    const wf_vec_ops *ops = c->x->kernel->ops;
    int lb = src->log2_bytes;
    if (f->sr == 1 && f->rows >= 4) {
        ops->transpose[lb](d, src->ptr + (f->base << lb), f->sc, f->rows, f->cols);
        return;
    }
    for (int64_t r = 0; r < f->rows; r++)
        ops->strided[lb](d + (r * f->cols << lb), src->ptr + ((f->base + r * f->sr) << lb), f->sc, f->cols);
}

static void load_form(kx_ctx *c, const kx_step *s)
{
    const wf_vec_ops *ops = c->x->kernel->ops;
    const wf_kinstr *in = &c->x->k->instr[s->i];
    kx_memory src = wf_kx_memory(c, in);
    size_t esize = c->x->kernel->info[s->i].esize;
    kx_form f = wf_kx_form(c, in->a, s->cls);
    int lb = src.log2_bytes;
    if (!wf_kx_inside(&f, src.limit)) {
        int32_t *index = temp(c, TEMP_INDEX);
        indices_of(c, &f, index);
        gather(c, &src, place(c, s->i, s->cls), index, f.rows * f.cols, esize);
        return;
    }
    bool contiguous = f.sc == 1 || f.cols == 1;
    if (src.direct && contiguous && f.rows == 1) {
        c->at[s->i] = (void *)(src.ptr + (f.base << lb));
        return;
    }
    char *d = place(c, s->i, s->cls);
    if (lb < 0) {
        load_blocks(c, &src, &f, (float *)d);
    } else if (contiguous) {
        for (int64_t r = 0; r < f.rows; r++)
            ops->load[src.dtype](d + (size_t)(r * f.cols) * esize, src.ptr + ((f.base + r * f.sr) << lb), f.cols);
    } else if (lb >= 2) {
        move_strided(c, &src, &f, d);
    } else {
        move_strided(c, &src, &f, temp(c, TEMP_RAW));
        ops->load[src.dtype](d, temp(c, TEMP_RAW), f.rows * f.cols);
    }
}

/* The rows of LOAD or STORE `in`, contiguous along each. */
static kx_rows rows_of(const kx_ctx *c, const wf_kinstr *in)
{
    const kx_val *v = &c->x->val[in->a];
    if (!v->by_row)
        return (kx_rows){base_of(c, in->a), v->sr, NULL};
    const wf_kinstr *sum = &c->x->k->instr[in->a];
    const bool a_linear = c->x->val[sum->a].linear;
    const int linear = a_linear ? sum->a : sum->b;
    return (kx_rows){base_of(c, linear), c->x->val[linear].sr, c->at[a_linear ? sum->b : sum->a]};
}

static inline int64_t row_at(const kx_rows *w, int64_t r) { return w->base + r * w->step + (w->at ? w->at[r] : 0); }

static bool row_inside(int64_t first, int64_t cols, int64_t limit) { return first >= 0 && first <= limit - cols; }

static void load_rows(kx_ctx *c, const kx_step *s)
{
    const wf_kinstr *in = &c->x->k->instr[s->i];
    const kx_memory src = wf_kx_memory(c, in);
    const kx_rows w = rows_of(c, in);
    const size_t esize = c->x->kernel->info[s->i].esize;
    char *d = place(c, s->i, s->cls);
    for (int64_t r = 0; r < c->rows; r++, d += (size_t)c->cols * esize) {
        const int64_t first = row_at(&w, r);
        if (row_inside(first, c->cols, src.limit)) {
            c->x->kernel->ops->load[src.dtype](d, src.ptr + (first << src.log2_bytes), c->cols);
            continue;
        }
        const kx_form f = {first, 1, c->cols, 0, 1};
        int32_t *index = temp(c, TEMP_INDEX);
        indices_of(c, &f, index);
        gather(c, &src, d, index, c->cols, esize);
    }
}

/* ---- stores ---- */

/* The value in its storage type: in place when it has that type already. */
static const void *stored(kx_ctx *c, const kx_memory *t, const void *value, int64_t n)
{
    if (t->log2_bytes >= 2)
        return value;
    c->x->kernel->ops->store[t->dtype](temp(c, TEMP_RAW), value, n);
    return temp(c, TEMP_RAW);
}

static void store_scatter(kx_ctx *c, const kx_step *s)
{
    if (!c->stores)
        return;
    const wf_kinstr *in = &c->x->k->instr[s->i];
    kx_memory t = wf_kx_memory(c, in);
    const int32_t *index = operand(c, s, 0, in->a);
    const void *value = operand(c, s, 1, in->b);
    int64_t n = c->n[s->cls];
    c->x->kernel->ops->scatter[t.log2_bytes](t.ptr, stored(c, &t, value, n), index, n, t.limit);
}

static void put_strided(char *d, const char *v, int lb, int64_t stride, int64_t n)
{
    size_t bytes = (size_t)1 << lb;
    for (int64_t q = 0; q < n; q++)
        switch (lb) { /* constant sizes, so that each copy is one move */
        case 0: d[q * stride] = v[q]; break;
        case 1: memcpy(d + q * stride * 2, v + q * 2, 2); break;
        case 2: memcpy(d + q * stride * 4, v + q * 4, 4); break;
        default: memcpy(d + q * stride * (int64_t)bytes, v + q * 8, 8); break;
        }
}

static void store_form(kx_ctx *c, const kx_step *s)
{
    if (!c->stores)
        return;
    const wf_vec_ops *ops = c->x->kernel->ops;
    const wf_kinstr *in = &c->x->k->instr[s->i];
    kx_memory t = wf_kx_memory(c, in);
    kx_form f = wf_kx_form(c, in->a, s->cls);
    const char *value = operand(c, s, 1, in->b);
    size_t esize = c->x->kernel->info[in->b].esize;
    int lb = t.log2_bytes;
    int64_t n = f.rows * f.cols;
    if (!wf_kx_inside(&f, t.limit)) {
        int32_t *index = temp(c, TEMP_INDEX);
        indices_of(c, &f, index);
        ops->scatter[lb](t.ptr, stored(c, &t, value, n), index, n, t.limit);
        return;
    }
    if (f.sc == 1 || f.cols == 1) {
        for (int64_t r = 0; r < f.rows; r++) {
            char *d = t.ptr + ((f.base + r * f.sr) << lb);
            const char *v = value + (size_t)(r * f.cols) * esize;
            if (s->nt)
                ops->stream(d, v, (size_t)f.cols * esize);
            else
                ops->store[t.dtype](d, v, f.cols);
        }
        return;
    }
    const char *raw = stored(c, &t, value, n);
    for (int64_t r = 0; r < f.rows; r++)
        put_strided(t.ptr + ((f.base + r * f.sr) << lb), raw + (r * f.cols << lb), lb, f.sc, f.cols);
}

/* Rows from a LOAD, which did nothing, to the STORE that takes them. */
static void store_moved(kx_ctx *c, const kx_step *s)
{
    enum { AHEAD_BYTES = 1024 }; /* from there on the processor reads ahead by itself */
    if (!c->stores)
        return;
    const wf_kinstr *in = &c->x->k->instr[s->i], *from = &c->x->k->instr[in->b];
    const kx_memory src = wf_kx_memory(c, from), dst = wf_kx_memory(c, in);
    const kx_rows rs = rows_of(c, from), rd = rows_of(c, in);
    bool inside = true;
    for (int64_t r = 0; r < c->rows; r++)
        inside &= row_inside(row_at(&rs, r), c->cols, src.limit) && row_inside(row_at(&rd, r), c->cols, dst.limit);
    if (!inside) {
        const kx_step load = {.i = in->b, .cls = s->cls};
        if (rs.at)
            load_rows(c, &load);
        else
            load_form(c, &load);
        store_form(c, s);
        return;
    }
    const size_t bytes = (size_t)c->cols << src.log2_bytes;
    for (int64_t r = 0; r < c->rows; r++) {
        const char *a = src.ptr + (row_at(&rs, r) << src.log2_bytes);
        char *d = dst.ptr + (row_at(&rd, r) << dst.log2_bytes);
        if (r + 1 < c->rows) {
            const char *next = src.ptr + (row_at(&rs, r + 1) << src.log2_bytes);
            for (size_t at = 0; at < WF_MIN(bytes, AHEAD_BYTES); at += 64)
                __builtin_prefetch(next + at, 0, 3);
        }
        if (s->nt)
            c->x->kernel->ops->stream(d, a, bytes);
        else
            memcpy(d, a, bytes);
    }
}

/* ---- sources ---- */

static void run_time_word(kx_ctx *c, const kx_step *s)
{
    const kx_run *x = c->x;
    uint32_t *d = place(c, s->i, KX_S);
    uint32_t word = (uint32_t)x->statics[x->k->instr[s->i].slot];
    if (s->kind == KX_STATIC)
        *d = word;
    else
        *d = x->run->step && word < WF_STEP_BYTES / 4 ? x->run->step[word] : 0;
}

static void input(kx_ctx *c, const kx_step *s)
{
    if (c->rows == 1 || c->in_ld == c->cols) {
        c->at[s->i] = (void *)c->in;
        return;
    }
    float *d = place(c, s->i, KX_F);
    for (int64_t r = 0; r < c->rows; r++)
        memcpy(d + r * c->cols, c->in + r * c->in_ld, (size_t)c->cols * sizeof *d);
}

void wf_kx_one(kx_ctx *c, const kx_step *s)
{
    const kx_run *x = c->x;
    const wf_kinstr *in = &x->k->instr[s->i];
    switch ((kx_kind)s->kind) {
    case KX_CONST:
        c->scalar[s->i] = in->imm;
        c->at[s->i] = &c->scalar[s->i];
        break;
    case KX_STATIC:
    case KX_STEP: run_time_word(c, s); break;
    case KX_AFFINE:
    case KX_AXIS:
    case KX_SUM: index_form(c, s); break;
    case KX_UNRAVEL: unravel(c, s); break;
    case KX_LOAD: load_form(c, s); break;
    case KX_LOAD_GATHER: load_gather(c, s); break;
    case KX_ROWS:
    case KX_MOVED: break;
    case KX_LOAD_ROWS: load_rows(c, s); break;
    case KX_STORE_MOVED: store_moved(c, s); break;
    case KX_ACC: c->at[s->i] = wf_kx_acc_result(c, in->slot, (int)in->imm); break;
    case KX_IN: input(c, s); break;
    case KX_STORE: store_form(c, s); break;
    case KX_STORE_SCATTER: store_scatter(c, s); break;
    case KX_CHECK: check(c, s); break;
    case KX_VEC1: {
        const void *a = c->at[in->a];
        s->f1(place(c, s->i, s->cls), a, c->n[s->cls]);
        break;
    }
    case KX_VEC2: {
        const void *a = operand(c, s, 0, in->a), *b = operand(c, s, 1, in->b);
        s->f2(place(c, s->i, s->cls), a, b, c->n[s->cls]);
        break;
    }
    case KX_VEC3: {
        const void *a = operand(c, s, 0, in->a), *b = operand(c, s, 1, in->b), *d = operand(c, s, 2, in->c);
        s->f3(place(c, s->i, s->cls), a, b, d, c->n[s->cls]);
        break;
    }
    }
}

void wf_kx_steps(kx_ctx *c, int stage, int level)
{
    const kx_run *x = c->x;
    const kx_step *s = x->step + x->first[stage][level], *end = x->step + x->first[stage][level + 1];
    for (; s < end; s++)
        wf_kx_one(c, s);
}
