/* compose_networks_attention.c - scaled dot-product attention in all its forms.
 *
 * The fused node takes [B, H, T, D] in f32, f16 or bf16 with every mask form; other ranks become that shape. f64 and heads
 * of no components are computed with the matrix of logits.
 */
#include <math.h>

#include "compose_networks.h"

static const char who[] = "scaled_dot_product_attention";

/* ---- with the matrix of logits ---- */

/* Position of every query minus that of every key, i32 [Tq, Tk]; the last query stands at the last key. */
static weft_tensor *distances(weft_ctx *ctx, int64_t Tq, int64_t Tk, weft_tensor *kv_len)
{
    weft_tensor *keys = weft_arange(ctx, WEFT_DTYPE_I32, Tk, 0, 1);
    weft_tensor *queries = weft_arange(ctx, WEFT_DTYPE_I32, Tq, kv_len ? -(double)Tq : (double)(Tk - Tq), 1);
    if (kv_len)
        queries = weft_add(queries, weft_cast(kv_len, WEFT_DTYPE_I32));
    return weft_sub(weft_unsqueeze(queries, -1), keys);
}

static weft_tensor *int_constant(weft_ctx *ctx, int64_t v)
{
    return weft_full(ctx, WEFT_DTYPE_I32, 0, NULL, (double)(v > INT32_MAX ? INT32_MAX : v < -INT32_MAX ? -INT32_MAX : v));
}

/* bool [Tq, Tk] of the keys inside the window, or NULL when it has no bound. */
static weft_tensor *inside_window(weft_ctx *ctx, const weft_attention_opts *o, weft_tensor *distance)
{
    weft_tensor *left = NULL, *right = NULL;
    if (o->has_window && o->window_left >= 0)
        left = weft_le(distance, int_constant(ctx, o->window_left));
    if (o->has_window && o->window_right >= 0)
        right = weft_ge(distance, int_constant(ctx, -o->window_right));
    return left && right ? weft_mul(left, right) : left ? left : right;
}

/* One mask out of the caller's, the window and ALiBi: bool while nothing is added, else float. NULL: none. */
static weft_tensor *one_mask(weft_ctx *ctx, const weft_attention_opts *o, weft_tensor *mask, weft_tensor *distance, weft_dtype wide)
{
    weft_tensor *inside = inside_window(ctx, o, distance), *added = NULL;
    bool is_bool = mask && weft_tensor_dtype(mask) == WEFT_DTYPE_BOOL;
    if (is_bool)
        inside = inside ? weft_mul(inside, mask) : mask;
    else if (mask)
        added = weft_cast(mask, wide);
    if (o->alibi_slopes) {
        /* slope times (key - query): [Hq, Tq, Tk] */
        int64_t shape[3] = {weft_tensor_shape(o->alibi_slopes)[0], 1, 1};
        weft_tensor *slopes = weft_reshape(weft_cast(o->alibi_slopes, wide), 3, shape);
        weft_tensor *bias = weft_mul(slopes, weft_cast(weft_neg(distance), wide));
        added = added ? weft_add(added, bias) : bias;
    }
    if (!added)
        return inside;
    return inside ? weft_where(inside, added, weft_full(ctx, wide, 0, NULL, -INFINITY)) : added;
}

/* Bounds that the fused node knows by itself. */
static weft_tensor *bounds(weft_ctx *ctx, const weft_attention_opts *o, int64_t Tk, weft_tensor *distance, weft_tensor *inside)
{
    if (o->is_causal) {
        weft_tensor *causal = weft_ge(distance, int_constant(ctx, 0));
        inside = inside ? weft_mul(inside, causal) : causal;
    }
    if (o->kv_len) {
        weft_tensor *there = weft_lt(weft_arange(ctx, WEFT_DTYPE_I32, Tk, 0, 1), weft_cast(o->kv_len, WEFT_DTYPE_I32));
        inside = inside ? weft_mul(inside, there) : there;
    }
    return inside;
}

/* q [B, Hq, Tq, D], k [B, Hkv, Tk, D], v [B, Hkv, Tk, E]. A row whose every key is masked is zeros. */
static weft_tensor *unfused(weft_ctx *ctx, weft_tensor *q, weft_tensor *k, weft_tensor *v, const weft_attention_opts *o, weft_dtype dtype)
{
    weft_dtype wide = dtype == WEFT_DTYPE_F64 ? WEFT_DTYPE_F64 : WEFT_DTYPE_F32;
    const int64_t *sq = weft_tensor_shape(q), *sk = weft_tensor_shape(k);
    int64_t B = sq[0], Hq = sq[1], Tq = sq[2], D = sq[3], Hkv = sk[1], Tk = sk[2], E = weft_tensor_shape(v)[3];
    int64_t G = Hkv ? Hq / Hkv : 0;
    int last = -1;
    double scale = o->scale != 0 ? (double)o->scale : D ? 1 / sqrt((double)D) : 1;
    weft_tensor *grouped = weft_reshape(weft_cast(q, wide), 4, (int64_t[]){B, Hkv, G * Tq, D});
    weft_tensor *s = wf_times(weft_matmul(grouped, weft_transpose(weft_cast(k, wide), 2, 3)), scale);
    s = weft_reshape(s, 4, (int64_t[]){B, Hq, Tq, Tk});
    if (o->softcap > 0)
        s = wf_times(weft_tanh(wf_times(s, 1 / (double)o->softcap)), o->softcap);
    weft_tensor *distance = distances(ctx, Tq, Tk, o->kv_len), *none = weft_full(ctx, wide, 0, NULL, -INFINITY);
    weft_tensor *mask = one_mask(ctx, o, o->mask, distance, wide), *inside = NULL;
    if (mask && weft_tensor_dtype(mask) == WEFT_DTYPE_BOOL)
        inside = mask;
    else if (mask)
        s = weft_add(s, mask);
    inside = bounds(ctx, o, Tk, distance, inside);
    if (inside)
        s = weft_where(inside, s, none);
    weft_tensor *sink = NULL, *most;
    if (Tk == 0)
        return weft_zeros(ctx, dtype, 4, (int64_t[]){B, Hq, Tq, E});
    most = weft_max(s, &last, 1, true);
    if (o->sinks) {
        sink = weft_reshape(weft_cast(o->sinks, wide), 3, (int64_t[]){Hq, 1, 1});
        most = weft_maximum(most, sink);
    }
    weft_tensor *zero = weft_full(ctx, wide, 0, NULL, 0);
    most = weft_where(weft_eq(most, none), zero, most);
    weft_tensor *e = weft_exp(weft_sub(s, most)), *sum = weft_sum(e, &last, 1, true);
    if (sink)
        sum = weft_add(sum, weft_exp(weft_sub(sink, most)));
    weft_tensor *p = weft_div(e, weft_where(weft_eq(sum, zero), weft_full(ctx, wide, 0, NULL, 1), sum));
    p = weft_reshape(p, 4, (int64_t[]){B, Hkv, G * Tq, Tk});
    return weft_cast(weft_reshape(weft_matmul(p, weft_cast(v, wide)), 4, (int64_t[]){B, Hq, Tq, E}), dtype);
}

/* ---- checks and ranks ---- */

static weft_tensor *check(wf_composite *c, const weft_tensor *q, const weft_tensor *k, const weft_tensor *v, const weft_attention_opts *o)
{
    const weft_tensor *const in[3] = {q, k, v};
    static const char *const names[3] = {"q", "k", "v"};
    char a[200], b[200], d[200];
    for (int i = 0; i < 3; i++)
        if (!wf_is_float(in[i]))
            return wf_composite_fail(c, WEFT_E_DTYPE, "%s is %s, expected a float dtype", names[i], weft_dtype_name(weft_tensor_dtype(in[i])));
    const int64_t *sq = weft_tensor_shape(q), *sk = weft_tensor_shape(k), *sv = weft_tensor_shape(v);
    bool heads = sk[1] == 0 ? sq[1] == 0 : sq[1] % sk[1] == 0;
    if (sq[0] != sk[0] || sk[0] != sv[0] || sk[1] != sv[1] || sk[2] != sv[2] || sq[3] != sk[3] || !heads)
        return wf_composite_fail(c, WEFT_E_SHAPE, "q %s, k %s, v %s do not fit: [B, Hq, Tq, D], [B, Hkv, Tk, D], [B, Hkv, Tk, E]",
                                 wf_shape_text(q, a), wf_shape_text(k, b), wf_shape_text(v, d));
    if (!isfinite(o->scale))
        return wf_composite_fail(c, WEFT_E_VALUE, "scale is %g", (double)o->scale);
    if (!(o->softcap >= 0) || isinf(o->softcap))
        return wf_composite_fail(c, WEFT_E_VALUE, "softcap is %g, expected at least 0", (double)o->softcap);
    const weft_tensor *const per_head[2] = {o->alibi_slopes, o->sinks};
    static const char *const head_names[2] = {"alibi_slopes", "sinks"};
    for (int i = 0; i < 2; i++) {
        if (!per_head[i])
            continue;
        if (!wf_is_float(per_head[i]))
            return wf_composite_fail(c, WEFT_E_DTYPE, "%s are %s, expected a float dtype", head_names[i], weft_dtype_name(weft_tensor_dtype(per_head[i])));
        if (weft_tensor_rank(per_head[i]) != 1 || weft_tensor_shape(per_head[i])[0] != sq[1])
            return wf_composite_fail(c, WEFT_E_SHAPE, "%s are %s, expected [%lld], one a query head", head_names[i],
                                     wf_shape_text(per_head[i], a), (long long)sq[1]);
    }
    if (o->mask && weft_tensor_dtype(o->mask) != WEFT_DTYPE_BOOL && !wf_is_float(o->mask))
        return wf_composite_fail(c, WEFT_E_DTYPE, "mask is %s, expected bool or a float", weft_dtype_name(weft_tensor_dtype(o->mask)));
    if (o->kv_len && (weft_tensor_rank(o->kv_len) != 0 || !weft_dtype_is_integer(weft_tensor_dtype(o->kv_len))))
        return wf_composite_fail(c, WEFT_E_SHAPE, "kv_len is %s %s, expected one integer", weft_dtype_name(weft_tensor_dtype(o->kv_len)),
                                 wf_shape_text(o->kv_len, a));
    return NULL;
}

/* [.., H, T, D] as [B, H, T, D]. */
static weft_tensor *as_rank_4(weft_tensor *t)
{
    int rank = weft_tensor_rank(t);
    const int64_t *s = weft_tensor_shape(t);
    if (rank == 4)
        return t;
    int64_t shape[4] = {1, 1, s[rank - 2], s[rank - 1]};
    if (rank == 3) {
        shape[0] = s[0];
    } else if (rank > 4) {
        shape[1] = s[rank - 3];
        for (int k = 0; k < rank - 3; k++)
            shape[0] *= s[k];
    }
    return weft_reshape(t, 4, shape);
}

/* A mask that broadcasts to [.., H, Tq, Tk] of q's own rank, as one that broadcasts to [B, H, Tq, Tk]. Only leading axes
 * that differ are spread out. */
static weft_tensor *mask_as_rank_4(weft_tensor *mask, const weft_tensor *q)
{
    int rank = weft_tensor_rank(q), own = weft_tensor_rank(mask), lead = own - 3;
    if (rank == 3)
        return own == 3 ? weft_unsqueeze(mask, 1) : mask;
    if (rank <= 4 || lead <= 0)
        return mask;
    bool differs = false;
    for (int k = 0; k < lead; k++)
        differs |= weft_tensor_shape(mask)[k] != 1;
    int64_t shape[WEFT_MAX_RANK];
    memcpy(shape, weft_tensor_shape(q), sizeof shape);
    memcpy(shape + rank - 3, weft_tensor_shape(mask) + lead, 3 * sizeof *shape);
    return as_rank_4(differs ? weft_expand(mask, rank, shape) : mask);
}

static weft_tensor *attend(wf_composite *c, weft_tensor *q, weft_tensor *k, weft_tensor *v, weft_attention_opts *o)
{
    char a[200];
    int rank = weft_tensor_rank(q);
    if (rank < 2 || weft_tensor_rank(k) != rank || weft_tensor_rank(v) != rank)
        return wf_composite_fail(c, WEFT_E_SHAPE, "q, k and v have ranks %d, %d and %d, expected one rank from 2", rank, weft_tensor_rank(k),
                                 weft_tensor_rank(v));
    int64_t shape[WEFT_MAX_RANK], Tk = weft_tensor_dim(k, -2);
    memcpy(shape, weft_tensor_shape(q), sizeof shape);
    shape[rank - 1] = weft_tensor_dim(v, -1);
    if (o->mask)
        o->mask = mask_as_rank_4(o->mask, q);
    if (o->mask && weft_tensor_status(o->mask) != WEFT_OK)
        return wf_composite_end(c, o->mask);
    q = as_rank_4(q);
    k = as_rank_4(k);
    v = as_rank_4(v);
    weft_tensor *fail = check(c, q, k, v, o), *y;
    if (fail)
        return fail;
    const int64_t *sq = weft_tensor_shape(q);
    wf_view fits;
    if (o->mask && wf_view_expand(who, &o->mask->view, 4, (int64_t[]){sq[0], sq[1], sq[2], Tk}, &fits) != WEFT_OK)
        return wf_composite_fail(c, WEFT_E_SHAPE, "mask %s does not broadcast to [%lld, %lld, %lld, %lld]", wf_shape_text(o->mask, a),
                                 (long long)sq[0], (long long)sq[1], (long long)sq[2], (long long)Tk);
    weft_dtype dtype = weft_tensor_dtype(q);
    bool f64 = dtype == WEFT_DTYPE_F64 || weft_tensor_dtype(k) == WEFT_DTYPE_F64 || weft_tensor_dtype(v) == WEFT_DTYPE_F64;
    if (f64 || sq[3] == 0) {
        y = unfused(c->ctx, q, k, v, o, f64 ? WEFT_DTYPE_F64 : dtype);
    } else {
        weft_attention_opts fused = *o;
        fused.alibi_slopes = o->alibi_slopes ? weft_cast(o->alibi_slopes, WEFT_DTYPE_F32) : NULL;
        fused.sinks = o->sinks ? weft_cast(o->sinks, WEFT_DTYPE_F32) : NULL;
        y = wf_attention_node(q, k, v, &fused);
    }
    y = weft_cast(y, dtype);
    return wf_composite_end(c, rank == 4 ? y : weft_reshape(y, rank, shape));
}

weft_tensor *weft_scaled_dot_product_attention(weft_tensor *q, weft_tensor *k, weft_tensor *v, const weft_attention_opts *opts)
{
    weft_attention_opts o = opts ? *opts : (weft_attention_opts){.scale = 0};
    bool sound = q && k && v && q->status == WEFT_OK && k->status == WEFT_OK && v->status == WEFT_OK;
    bool plain = o.softcap == 0 && !o.alibi_slopes && !o.sinks;
    if (!sound || (plain && q->view.rank == 4 && q->node->dtype != WEFT_DTYPE_F64 && k->node->dtype != WEFT_DTYPE_F64 &&
                   v->node->dtype != WEFT_DTYPE_F64 && k->view.rank == 4 && v->view.rank == 4 && q->view.shape[3] > 0))
        return wf_attention_node(q, k, v, opts);
    wf_composite c;
    if (!wf_composite_begin(&c, who, 3, WF_INPUTS(q, k, v, o.mask, o.kv_len, o.alibi_slopes, o.sinks)))
        return c.failed;
    return attend(&c, q, k, v, &o);
}
