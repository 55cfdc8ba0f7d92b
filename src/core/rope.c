/* rope.c - builder of rotary position embedding, and the table of frequencies behind it.
 *
 * An angle of position p is p times a frequency, and only its fraction of a turn matters. A float product
 * loses that fraction at large p, so a frequency is kept as turns a position in 0.64 fixed point, two
 * u32 words (high, low): multiplying by an integer position modulo 2^64 drops whole turns exactly.
 * A table is uploaded once for each (dim, base, scale, factors) and kept by the context, because a decode
 * step must not upload anything but its parameters.
 */
#include "build.h"

#include <math.h>

enum { CACHE_MAX = 16 }; /* tables a context keeps; models have one or two */

typedef struct wf_rope_freq {
    struct wf_rope_freq *next;
    wf_node *node;
    double base, scale;
    int32_t dim;
    bool has_factors;
    float factors[]; /* dim / 2 */
} wf_rope_freq;

void wf_rope_drop(wf_core_ctx *core)
{
    wf_rope_freq *f = core->rope_freqs;
    core->rope_freqs = NULL;
    for (wf_rope_freq *next; f; f = next) {
        next = f->next;
        wf_node_unref(f->node);
        wf_free(f);
    }
}

static bool matches(const wf_rope_freq *f, int dim, double base, double scale, const float *factors)
{
    return f->dim == dim && f->base == base && f->scale == scale && f->has_factors == (factors != NULL) &&
           (!factors || memcmp(f->factors, factors, (size_t)(dim / 2) * sizeof *factors) == 0);
}

/* floor(frac(base^(-2i/dim) * scale / factor / (2 pi)) * 2^64). The relative error of long double (at
 * worst that of double, 1.1e-16) times 2^20 positions stays below 1e-7 turns. */
static uint64_t turns(int i, int dim, double base, double scale, double factor)
{
    const long double two_pi = 6.283185307179586476925286766559005768L;
    long double t = powl((long double)base, -2.0L * i / dim) * scale / factor / two_pi;
    t -= floorl(t);
    t = ldexpl(t, 64);
    return t >= 0x1p64L ? UINT64_MAX : (uint64_t)t;
}

static weft_status upload_freq(weft_ctx *ctx, int dim, double base, double scale, const float *factors, wf_node **out)
{
    wf_core_ctx *core = wf_core(ctx);
    if (!core->upload)
        return wf_fail(WEFT_E_UNSUPPORTED, "rope: the context takes no data");
    int half = dim / 2;
    size_t size_bytes = (size_t)half * 2 * sizeof(uint32_t);
    uint32_t *words = wf_alloc(size_bytes);
    if (!words)
        return WEFT_E_OOM;
    for (int i = 0; i < half; i++) {
        uint64_t f = turns(i, dim, base, scale, factors ? factors[i] : 1.0);
        words[2 * i] = (uint32_t)(f >> 32);
        words[2 * i + 1] = (uint32_t)f;
    }
    wf_storage *storage = NULL;
    weft_status st = core->upload(ctx, WEFT_DTYPE_U32, 2 * (int64_t)half, 2, words, size_bytes, &storage);
    wf_free(words);
    WF_TRY(st);
    wf_node *n = wf_node_new(ctx, WF_OP_LEAF, WEFT_DTYPE_U32, 0, 2, (int64_t[]){half, 2});
    if (!n) {
        wf_storage_release(storage);
        return WEFT_E_OOM;
    }
    n->storage = storage;
    *out = n;
    return WEFT_OK;
}

/* The newest table comes first; the oldest goes when there are too many. */
static void remember(wf_core_ctx *core, wf_rope_freq *f)
{
    f->next = core->rope_freqs;
    core->rope_freqs = f;
    wf_rope_freq **link = &core->rope_freqs;
    for (int n = 0; *link && n < CACHE_MAX; n++)
        link = &(*link)->next;
    wf_rope_freq *oldest = *link;
    if (oldest) {
        *link = NULL;
        wf_node_unref(oldest->node);
        wf_free(oldest);
    }
}

static weft_status freq_node(weft_ctx *ctx, int dim, double base, double scale, const float *factors, wf_node **out)
{
    wf_core_ctx *core = wf_core(ctx);
    for (wf_rope_freq *f = core->rope_freqs; f; f = f->next)
        if (matches(f, dim, base, scale, factors)) {
            *out = f->node;
            return WEFT_OK;
        }
    size_t factor_bytes = factors ? (size_t)(dim / 2) * sizeof *factors : 0;
    for (int i = 0; factors && i < dim / 2; i++)
        if (!isfinite(factors[i]) || factors[i] == 0)
            return wf_fail(WEFT_E_VALUE, "rope: frequency factor %d is %g", i, (double)factors[i]);
    wf_rope_freq *f = wf_alloc(sizeof *f + factor_bytes);
    if (!f)
        return WEFT_E_OOM;
    weft_status st = upload_freq(ctx, dim, base, scale, factors, &f->node);
    if (st != WEFT_OK) {
        wf_free(f);
        return st;
    }
    f->node->refs++;
    f->dim = dim;
    f->base = base;
    f->scale = scale;
    f->has_factors = factors != NULL;
    if (factors)
        memcpy(f->factors, factors, factor_bytes);
    remember(core, f);
    *out = f->node;
    return WEFT_OK;
}

/* ---- the builder ---- */

typedef struct rope {
    wf_rope_spec spec;
    wf_node *freq;
    wf_arg positions, offset;
    wf_view room_positions, room_offset;
} rope;

weft_status wf_rope_check(const weft_tensor *x, const weft_rope_opts *o, wf_rope_spec *r)
{
    weft_dtype dtype = (weft_dtype)x->node->dtype;
    if (dtype > WEFT_DTYPE_F64)
        return wf_fail(WEFT_E_DTYPE, "rope: x is %s, expected a float dtype", weft_dtype_name(dtype));
    if (x->view.rank < 2)
        return wf_fail(WEFT_E_SHAPE, "rope: x has rank %d, expected [.., T, D]", x->view.rank);
    int64_t D = x->view.shape[x->view.rank - 1], dim = o->dim ? o->dim : D;
    if (dim < 0 || dim > D || dim % 2 || dim > INT32_MAX - 1)
        return wf_fail(WEFT_E_SHAPE, "rope: dim %lld must be even and at most D = %lld", (long long)dim, (long long)D);
    if (o->interleaved && o->across_head)
        return wf_fail(WEFT_E_VALUE, "rope: interleaved and across_head exclude each other");
    if (o->across_head && D % 2)
        return wf_fail(WEFT_E_SHAPE, "rope: across_head needs an even D, it is %lld", (long long)D);
    r->dim = (int)dim;
    r->pairing = o->interleaved ? WF_PAIR_INTERLEAVED : o->across_head && dim < D ? WF_PAIR_ACROSS_HEAD : WF_PAIR_HALF;
    r->base = o->base == 0 ? 10000.0 : o->base;
    r->scale = o->scale == 0 ? 1.0 : o->scale;
    if (!(r->base > 0) || !isfinite(r->base))
        return wf_fail(WEFT_E_VALUE, "rope: base is %g", r->base);
    if (!isfinite(r->scale))
        return wf_fail(WEFT_E_VALUE, "rope: scale is %g", r->scale);
    return WEFT_OK;
}

weft_status wf_rope_check_positions(const weft_tensor *x, const weft_tensor *p)
{
    int64_t T = x->view.shape[x->view.rank - 2];
    if (p->view.rank != 1 || p->view.shape[0] != T) {
        char text[200];
        wf_view_format(&p->view, text, sizeof text);
        return wf_fail(WEFT_E_SHAPE, "rope: positions are %s, expected [%lld]", text, (long long)T);
    }
    weft_dtype dtype = (weft_dtype)p->node->dtype;
    if (!weft_dtype_is_integer(dtype) && !weft_dtype_is_float(dtype))
        return wf_fail(WEFT_E_DTYPE, "rope: positions are %s, expected i32 or f32", weft_dtype_name(dtype));
    return WEFT_OK;
}

static weft_status positions_operand(weft_ctx *ctx, const weft_tensor *x, const weft_tensor *p, rope *r)
{
    WF_TRY(wf_rope_check_positions(x, p));
    weft_dtype dtype = (weft_dtype)p->node->dtype;
    r->positions = wf_arg_of(p);
    if (weft_dtype_is_integer(dtype))
        return wf_arg_cast(ctx, &r->positions, WEFT_DTYPE_I32, &r->room_positions);
    return wf_arg_cast(ctx, &r->positions, WEFT_DTYPE_F32, &r->room_positions);
}

static weft_status prepare(weft_ctx *ctx, const weft_tensor *x, const weft_rope_opts *o, rope *r)
{
    WF_TRY(wf_rope_check(x, o, &r->spec));
    if (o->positions)
        WF_TRY(positions_operand(ctx, x, o->positions, r));
    if (o->offset) {
        r->offset = wf_arg_of(o->offset);
        WF_TRY(wf_arg_rank0_i32("rope", "offset", ctx, &r->offset, &r->room_offset));
    }
    if (r->spec.dim == 0)
        return WEFT_OK;
    return freq_node(ctx, r->spec.dim, r->spec.base, r->spec.scale, o->freq_factors, &r->freq);
}

static wf_node *build(weft_ctx *ctx, weft_tensor *x, const rope *r)
{
    int n_in = 2 + (r->positions.node != NULL) + (r->offset.node != NULL), at = 2;
    wf_node *n = wf_node_like(ctx, WF_OP_ROPE, (weft_dtype)x->node->dtype, n_in, &x->view);
    if (!n)
        return NULL;
    wf_view freq;
    wf_view_rows(2, r->freq->shape, &freq);
    wf_node_set_input(n, 0, x->node, &x->view);
    wf_node_set_input(n, 1, r->freq, &freq);
    if (r->positions.node)
        wf_node_set_input(n, at++, r->positions.node, r->positions.view);
    if (r->offset.node)
        wf_node_set_input(n, at++, r->offset.node, r->offset.view);
    n->attrs.rope.dim = r->spec.dim;
    n->attrs.rope.pairing = r->spec.pairing;
    n->attrs.rope.has_positions = r->positions.node != NULL;
    n->attrs.rope.has_offset = r->offset.node != NULL;
    return n;
}

weft_tensor *weft_rope(weft_tensor *x, const weft_rope_opts *opts)
{
    static const weft_rope_opts defaults;
    const weft_rope_opts *o = opts ? opts : &defaults;
    if (x && x->status == WEFT_OK && x->node->dtype == WEFT_DTYPE_F64)
        return wf_rope_f64(x, o);
    weft_tensor *in[3] = {x}, *result;
    int n_in = 1;
    if (o->positions)
        in[n_in++] = o->positions;
    if (o->offset)
        in[n_in++] = o->offset;
    if (!wf_enter("rope", n_in, in, &result))
        return result;
    weft_ctx *ctx = x->ctx;
    rope r;
    r.positions.node = r.offset.node = NULL;
    weft_status st = prepare(ctx, x, o, &r);
    bool nothing = st == WEFT_OK && r.spec.dim == 0; /* D is 0 */
    wf_node *n = NULL;
    if (st == WEFT_OK && !nothing && !(n = build(ctx, x, &r)))
        st = WEFT_E_OOM;
    if (!n) { /* casts that became no input */
        wf_node_sink(r.positions.node);
        if (r.offset.node != r.positions.node)
            wf_node_sink(r.offset.node);
    }
    if (nothing)
        return wf_leave(ctx, wf_same_value(x));
    return wf_leave(ctx, n ? wf_tensor_new(ctx, n, NULL) : wf_tensor_error_last(ctx, st));
}
