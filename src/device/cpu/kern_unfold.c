/* kern_unfold.c - the row matmul_unfold: a product whose operand lies as windows in a tensor, as the columns of a
 * convolution do. The packed product copies its operands to panels anyway; here that copy walks the windows, and writes
 * zeros for the places of the padding. Words: kernel_table.h.
 */
#include "kern.h"

enum { AXES = 4, BOUNDS = 3, MAX_RUNS = WF_KERN_MAX_NR };

typedef struct axis {
    int64_t extent, move;
    int bound; /* -1: none */
} axis;
typedef struct unfold {
    const wf_kern_mat *mat;
    const void *p;
    int64_t elements; /* of its binding */
    weft_dtype dtype;
    bool is_b;
    int n_k, n_free, n_bounds;
    axis k[AXES], free[AXES];
    int64_t extent[BOUNDS], start[BOUNDS], stride[BOUNDS];
} unfold;

/* ---- words ---- */
static bool read_axes(const int32_t *w, int n, int n_bounds, axis *out)
{
    for (int i = 0; i < n; i++) {
        out[i] = (axis){w[3 * i], w[3 * i + 1], w[3 * i + 2]};
        if (out[i].extent < 1 || out[i].bound < -1 || out[i].bound >= n_bounds || (out[i].bound >= 0 && out[i].move < 1))
            return false;
    }
    return true;
}
static bool covers(const axis *axes, int n, int64_t count)
{
    int64_t all = 1;
    for (int i = 0; i < n; i++)
        if (!wf_mul_i64(all, axes[i].extent, &all))
            return false;
    return all == count;
}
/* Moves are added up without a check, outside the bounds too: each must be far from what 64 bits hold. */
static bool is_near(const unfold *u, int bound, int64_t move)
{
    const int64_t most = (int64_t)1 << 56, stride = bound < 0 ? 1 : u->stride[bound];
    int64_t address;
    return wf_mul_i64(move, stride, &address) && address > -most && address < most && move > -most && move < most;
}
static weft_status read_words(const wf_kern_mat *t, const int32_t *w, unfold *u)
{
    *u = (unfold){.mat = t, .is_b = w[20] != 0, .n_k = w[21], .n_free = w[22], .n_bounds = w[23]};
    u->p = u->is_b ? t->b : t->a;
    u->dtype = u->is_b ? t->b_dtype : t->a_dtype;
    if (u->n_k < 0 || u->n_k > AXES || u->n_free < 0 || u->n_free > AXES || u->n_bounds < 0 || u->n_bounds > BOUNDS ||
        !read_axes(w + 33, u->n_k, u->n_bounds, u->k) || !read_axes(w + 45, u->n_free, u->n_bounds, u->free) ||
        !covers(u->k, u->n_k, t->k) || !covers(u->free, u->n_free, u->is_b ? t->n : t->m) || (!u->is_b && t->batch != 1))
        return wf_kern_bad("matmul_unfold", "axes");
    for (int i = 0; i < u->n_bounds; i++) {
        u->extent[i] = w[24 + 3 * i];
        u->start[i] = w[25 + 3 * i];
        u->stride[i] = w[26 + 3 * i];
        if (u->extent[i] < 1 || !is_near(u, i, u->start[i]))
            return wf_kern_bad("matmul_unfold", "bounds");
    }
    for (int i = 0; i < u->n_k + u->n_free; i++) {
        const axis *a = i < u->n_k ? &u->k[i] : &u->free[i - u->n_k];
        if (!is_near(u, a->bound, (a->extent - 1) * a->move))
            return wf_kern_bad("matmul_unfold", "steps");
    }
    return WEFT_OK;
}

/* Every place that is read lies in the binding: bounded axes add any coordinate inside their bound. */
static weft_status check_range(const wf_cpu_run *run, unfold *u)
{
    int64_t extents[3 + 2 * AXES + BOUNDS], strides[3 + 2 * AXES + BOUNDS];
    const wf_kern_mat *t = u->mat;
    int n = 0;
    for (int i = 0; i < 3; i++, n++) {
        extents[n] = t->extents[i];
        strides[n] = u->is_b ? t->b_batch[i] : t->a_batch[i];
    }
    for (int i = 0; i < u->n_k + u->n_free; i++) {
        const axis *a = i < u->n_k ? &u->k[i] : &u->free[i - u->n_k];
        extents[n] = a->extent;
        strides[n] = a->move;
        n += a->bound < 0;
    }
    for (int i = 0; i < u->n_bounds; i++, n++) {
        extents[n] = u->extent[i];
        strides[n] = u->stride[i];
    }
    const int at = u->is_b;
    u->elements = (int64_t)(run->size[at] / wf_kern_float_bytes(u->dtype));
    if (!wf_kern_in_range(run->size[at], wf_kern_float_bytes(u->dtype), u->is_b ? t->b_at : t->a_at, n, extents, strides))
        return wf_kern_bad("matmul_unfold", "the windows leave their binding");
    return WEFT_OK;
}

/* ---- walking ---- */
/* A place: its address, bounded moves included, and its coordinates in the bounds. */
typedef struct place {
    int64_t at, coord[BOUNDS];
} place;
static void move(const unfold *u, const axis *a, int64_t steps, place *p)
{
    if (a->bound < 0) {
        p->at += steps * a->move;
        return;
    }
    p->coord[a->bound] += steps * a->move;
    p->at += steps * a->move * u->stride[a->bound];
}
typedef struct odometer {
    int64_t digit[AXES];
    place p;
} odometer;
static void set(const unfold *u, const axis *axes, int n, int64_t i, odometer *o)
{
    for (int d = n - 1; d >= 0; d--) {
        o->digit[d] = i % axes[d].extent;
        i /= axes[d].extent;
        move(u, &axes[d], o->digit[d], &o->p);
    }
}
/* Some steps along the last axis, at most to its end. */
static void step(const unfold *u, const axis *axes, int n, int64_t some, odometer *o)
{
    for (int d = n - 1; d >= 0; d--) {
        move(u, &axes[d], some, &o->p);
        o->digit[d] += some;
        if (o->digit[d] < axes[d].extent || d == 0)
            return;
        move(u, &axes[d], -o->digit[d], &o->p);
        o->digit[d] = 0;
        some = 1;
    }
}

/* A stretch of a strip along the last free axis. */
typedef struct stretch {
    int64_t n, step; /* step in elements */
    place p;
} stretch;

static int stretches_of(const unfold *u, int64_t first, int64_t count, place origin, stretch *out)
{
    const axis whole = {1, 1, -1}, *last = u->n_free ? &u->free[u->n_free - 1] : &whole;
    const int64_t along = last->bound < 0 ? last->move : last->move * u->stride[last->bound];
    odometer o = {.p = origin};
    int n = 0;
    set(u, u->free, u->n_free, first, &o);
    while (count > 0) {
        const int64_t some = u->n_free ? WF_MIN(count, last->extent - o.digit[u->n_free - 1]) : 1;
        out[n++] = (stretch){some, along, o.p};
        step(u, u->free, u->n_free, some, &o);
        count -= some;
    }
    return n;
}

/* ---- packing ---- */
enum { K_BLOCK = 128, K_AHEAD = 18 }; /* places of k that are known at once */
typedef struct k_places {
    int64_t n;
    place at[K_BLOCK];
    int64_t low[BOUNDS], high[BOUNDS]; /* of their coordinates */
} k_places;

static void next_places(const unfold *u, int64_t n, odometer *o, k_places *k)
{
    k->n = n;
    for (int64_t i = 0; i < n; i++) {
        k->at[i] = o->p;
        for (int b = 0; b < u->n_bounds; b++) {
            k->low[b] = i ? WF_MIN(k->low[b], o->p.coord[b]) : o->p.coord[b];
            k->high[b] = i ? WF_MAX(k->high[b], o->p.coord[b]) : o->p.coord[b];
        }
        step(u, u->k, u->n_k, 1, o);
    }
}

/* The part of stretch s, moved by k, that lies inside every bound. Only the last free axis moves within a stretch. */
static inline void inside_part(const unfold *u, const stretch *s, const place *k, int64_t *lo, int64_t *hi)
{
    const axis *last = u->n_free ? &u->free[u->n_free - 1] : NULL;
    *lo = 0;
    *hi = s->n;
    for (int b = 0; b < u->n_bounds; b++) {
        const int64_t c = s->p.coord[b] + k->coord[b], extent = u->extent[b];
        if (last && last->bound == b) {
            if (c < 0)
                *lo = last->move == 1 ? -c : (last->move - 1 - c) / last->move;
            if (c + last->move * (s->n - 1) >= extent)
                *hi = c >= extent ? 0 : last->move == 1 ? extent - c : (extent - 1 - c) / last->move + 1;
        } else if (c < 0 || c >= extent) {
            *hi = 0;
        }
    }
    *lo = WF_MIN(*lo, s->n);
    *hi = WF_MAX(*hi, *lo);
}
static bool is_inside(const unfold *u, const stretch *s, const k_places *k)
{
    const axis *last = u->n_free ? &u->free[u->n_free - 1] : NULL;
    for (int b = 0; b < u->n_bounds; b++) {
        const int64_t far = last && last->bound == b ? last->move * (s->n - 1) : 0;
        if (s->p.coord[b] + k->low[b] < 0 || s->p.coord[b] + k->high[b] + far >= u->extent[b])
            return false;
    }
    return true;
}

static inline __attribute__((always_inline)) void copy_n(float *dst, const float *src, int64_t n)
{
    if (n == 16) { /* known when compiled: four moves */
        memcpy(dst, src, 64);
        return;
    }
    for (; n >= 4; n -= 4, dst += 4, src += 4)
        memcpy(dst, src, 16);
    for (int64_t i = 0; i < n; i++)
        dst[i] = src[i];
}
static void load(const unfold *u, const wf_kern_isa *isa, float *dst, int64_t at, int64_t step, int64_t n)
{
    if (u->dtype == WEFT_DTYPE_F32)
        for (int64_t i = 0; i < n; i++)
            dst[i] = ((const float *)u->p)[at + i * step];
    else
        wf_kern_gather(isa, u->p, u->dtype, at, step, n, dst);
}
/* Any dtype and step, any bounds. */
static void stretch_any(const unfold *u, const wf_kern_isa *isa, const stretch *s, const place *k, float *dst)
{
    int64_t lo, hi;
    inside_part(u, s, k, &lo, &hi);
    for (int64_t i = 0; i < lo; i++)
        dst[i] = 0;
    if (lo < hi)
        load(u, isa, dst + lo, s->p.at + k->at + lo * s->step, s->step, hi - lo);
    for (int64_t i = hi; i < s->n; i++)
        dst[i] = 0;
}
/* Neighbours in memory, f32: n of them, a constant in the usual case. */
static inline __attribute__((always_inline)) void stretch_rows(const unfold *u, const wf_kern_isa *isa, const stretch *s, const k_places *k,
                                                               int64_t n, int width, float *dst)
{
    const float *p = u->p;
    if (is_inside(u, s, k)) {
        for (int64_t i = 0; i < k->n; i++) {
            __builtin_prefetch(p + s->p.at + k->at[WF_MIN(i + K_AHEAD, k->n - 1)].at);
            copy_n(dst + i * width, p + s->p.at + k->at[i].at, n);
        }
        return;
    }
    const axis *last = u->n_free ? &u->free[u->n_free - 1] : NULL;
    int64_t from[BOUNDS], room[BOUNDS]; /* coordinates of k from which all of the stretch is inside, and how many */
    for (int b = 0; b < BOUNDS; b++) {
        from[b] = b < u->n_bounds ? -s->p.coord[b] : 0;
        room[b] = b < u->n_bounds ? u->extent[b] - (last && last->bound == b ? last->move * (n - 1) : 0) : 1;
    }
    for (int64_t i = 0; i < k->n; i++, dst += width) {
        const int64_t at = s->p.at + k->at[i].at, *c = k->at[i].coord;
        const bool whole = c[0] >= from[0] && c[0] < from[0] + room[0] && c[1] >= from[1] && c[1] < from[1] + room[1] && c[2] >= from[2] &&
                           c[2] < from[2] + room[2];
        if (whole) {
            copy_n(dst, p + at, n);
            continue;
        }
        int64_t lo, hi;
        inside_part(u, s, &k->at[i], &lo, &hi);
        if (lo >= hi) {
            for (int64_t j = 0; j < n; j++)
                dst[j] = 0;
        } else if (at < 0 || at + n > u->elements) {
            stretch_any(u, isa, s, &k->at[i], dst);
        } else { /* all of it, the part outside too, which then becomes zeros */
            copy_n(dst, p + at, n);
            for (int64_t j = 0; j < lo; j++)
                dst[j] = 0;
            for (int64_t j = hi; j < n; j++)
                dst[j] = 0;
        }
    }
}

static void pack_strip(const unfold *u, const wf_kern_isa *isa, const stretch *s, int n, const k_places *k, int width, float *dst)
{
    int64_t done = 0;
    for (int r = 0; r < n; done += s[r].n, r++) {
        if (s[r].step != 1 || u->dtype != WEFT_DTYPE_F32)
            for (int64_t i = 0; i < k->n; i++)
                stretch_any(u, isa, &s[r], &k->at[i], dst + i * width + done);
        else if (s[r].n == 16)
            stretch_rows(u, isa, &s[r], k, 16, width, dst + done);
        else
            stretch_rows(u, isa, &s[r], k, s[r].n, width, dst + done);
    }
    for (int64_t i = 0; i < k->n && done < width; i++)
        for (int64_t j = done; j < width; j++)
            dst[i * width + j] = 0;
}

static void pack(const void *user, const wf_kern_isa *isa, int64_t batch, int64_t first, int64_t count, int width, int64_t k0, int64_t kc, float *dst)
{
    const unfold *u = user;
    int64_t a_at, b_at;
    wf_kern_mat_at(u->mat, batch, &a_at, &b_at);
    place origin = {.at = u->is_b ? b_at : a_at};
    for (int b = 0; b < u->n_bounds; b++) {
        origin.coord[b] = u->start[b];
        origin.at += u->start[b] * u->stride[b];
    }
    odometer k_at = {0};
    set(u, u->k, u->n_k, k0, &k_at);
    for (int64_t kb = 0; kb < kc; kb += K_BLOCK) {
        k_places k;
        next_places(u, WF_MIN(K_BLOCK, kc - kb), &k_at, &k);
        for (int64_t i = 0; i < count; i += width) {
            stretch s[MAX_RUNS];
            const int n = stretches_of(u, first + i, WF_MIN(width, count - i), origin, s);
            pack_strip(u, isa, s, n, &k, width, dst + i * kc + kb * width);
        }
    }
}

weft_status wf_kern_matmul_unfold(const wf_cpu_run *run, const wf_cpu_kernel *epilogue)
{
    wf_kern_mat t;
    unfold u;
    WF_TRY(wf_kern_mat_read("matmul_unfold", run, epilogue, &t));
    t.dest.static_base = WF_KERN_UNFOLD_WORDS;
    if (t.a_dtype == WEFT_DTYPE_F64 || t.k < 1 || t.m < 1 || t.n < 1 || t.batch < 1)
        return wf_kern_bad("matmul_unfold", "f64 operands, or none");
    WF_TRY(read_words(&t, run->statics, &u));
    WF_TRY(check_range(run, &u));
    return u.is_b ? wf_kern_packed_run(&t, wf_kern_mat_pack_a, &t, pack, &u) : wf_kern_packed_run(&t, pack, &u, wf_kern_mat_pack_b, &t);
}
