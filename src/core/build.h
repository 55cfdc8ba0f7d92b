/* build.h - what the builders of ops share: entering a context, operands, casts, constants.
 *
 * A builder checks its inputs, takes the context's lock once, makes a node, wraps it in a handle and
 * leaves. A node without references is "fresh": it either becomes an input or a handle, or is given
 * to wf_node_sink.
 */
#ifndef WF_BUILD_H
#define WF_BUILD_H

#include "node.h"

/* An operand while a node is being built: borrowed from a handle, or a fresh node with a view beside it. */
typedef struct wf_arg {
    wf_node *node;
    const wf_view *view;
} wf_arg;
static inline wf_arg wf_arg_of(const weft_tensor *t) { return (wf_arg){t->node, &t->view}; }

/* ---- entering and leaving ---- */
weft_tensor *wf_enter_failed(const char *who, int n, weft_tensor *const *in);

/* All inputs are there, sound, and of one open context, whose lock is now held. If not, *fail is the result. */
static inline bool wf_enter(const char *who, int n, weft_tensor *const *in, weft_tensor **fail)
{
    bool ok = true;
    for (int i = 0; i < n; i++)
        ok = ok && in[i] && in[i]->status == WEFT_OK && in[i]->ctx == in[0]->ctx;
    if (__builtin_expect(ok, 1)) {
        wf_core_ctx *core = wf_core(in[0]->ctx);
        wf_lock(&core->lock);
        if (__builtin_expect(!core->closed, 1))
            return true;
        wf_unlock(&core->lock);
    }
    *fail = wf_enter_failed(who, n, in);
    return false;
}
/* The same for a leaf, which has no inputs. */
bool wf_enter_ctx(const char *who, weft_ctx *ctx, weft_tensor **fail);
static inline weft_tensor *wf_leave(weft_ctx *ctx, weft_tensor *result)
{
    wf_unlock(&wf_core(ctx)->lock);
    return result;
}

/* ---- nodes and operands ---- */
void wf_node_sink(wf_node *n); /* frees it if nothing refers to it; NULL is a no-op */

static inline bool wf_same_shape(const wf_view *a, const wf_view *b)
{
    return a->rank == b->rank && memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}
/* A node of the shape of a view. */
wf_node *wf_node_like(weft_ctx *ctx, wf_op op, weft_dtype dtype, int n_in, const wf_view *shape);
/* A handle whose view the caller fills in; NULL on OOM, and then a fresh node is gone. */
weft_tensor *wf_tensor_begin(weft_ctx *ctx, wf_node *node);

/* Converts the operand: folds constants and run-time scalars, else a CAST node, whose view is written
 * to `room`. The dtypes are plain, or from a block type to a float. Errors: OOM; the operand is unchanged. */
weft_status wf_arg_cast(weft_ctx *ctx, wf_arg *arg, weft_dtype dtype, wf_view *room);
/* A FULL node; the value is rounded to the dtype. NULL on OOM. */
wf_node *wf_full_node(weft_ctx *ctx, weft_dtype dtype, int rank, const int64_t *shape, double value);
double wf_dtype_round(weft_dtype dtype, double value);
/* A value that the caller's handle already shows, under a new handle. */
static inline weft_tensor *wf_same_value(weft_tensor *t) { return wf_tensor_new(t->ctx, t->node, &t->view); }

/* A rank-0 i32 operand (positions, lengths): converted from other integers. */
weft_status wf_arg_rank0_i32(const char *who, const char *what, weft_ctx *ctx, wf_arg *arg, wf_view *room);
/* A number and its only element along axis 0 (compose_index.c). */
weft_tensor *wf_gather_number(weft_tensor *x, weft_tensor *index);
weft_tensor *wf_select_number(weft_tensor *x, weft_tensor *index);
/* An index tensor, converted to i32. */
weft_status wf_arg_index(const char *who, weft_ctx *ctx, wf_arg *arg, wf_view *room);
/* Errors when t is a block type. */
weft_status wf_require_plain(const char *who, const weft_tensor *t);
/* Errors when t is no f32, f16, bf16 or f64. */
weft_status wf_require_float(const char *who, const weft_tensor *t);

/* index_select of axis 0 where negative indices lie outside, instead of counting from the end. */
weft_tensor *wf_select_strict(const char *who, weft_tensor *x, weft_tensor *index);

/* build_attention.c: the fused node. q, k, v have rank 4 and no f64; slopes and sinks are f32 [Hq]; softcap is finite and >= 0. */
weft_tensor *wf_attention_node(weft_tensor *q, weft_tensor *k, weft_tensor *v, const weft_attention_opts *opts);

/* ---- build_elementwise.c ---- */
/* The common dtype of those of n plain tensors that are there, by the rule of weft/ops.h. */
weft_status wf_promote(const char *who, int n, weft_tensor *const *in, weft_dtype *out);
/* WEFT_E_VALUE when a number of rank 0 is an integer that the integer dtype cannot hold; tensors with storage wrap. NULL is absent. */
weft_status wf_numbers_fit(const char *who, int n, weft_tensor *const *in, weft_dtype dtype);
/* An elementwise op over checked, promoted and broadcast operands. */
weft_tensor *wf_build_unary(wf_op op, weft_tensor *x);
weft_tensor *wf_build_binary(wf_op op, weft_tensor *a, weft_tensor *b);

/* build_reduce.c: the axes named, as bits; all when none is. A number has an axis where one is named, as PyTorch. */
weft_status wf_reduce_axes(const char *who, const weft_tensor *x, const int *axes, int n_axes, uint32_t *mask);

/* rope.c, and its composite in f64 */
enum { WF_PAIR_HALF, WF_PAIR_INTERLEAVED, WF_PAIR_ACROSS_HEAD };
typedef struct wf_rope_spec {
    int dim, pairing;
    double base, scale;
} wf_rope_spec;
weft_status wf_rope_check(const weft_tensor *x, const weft_rope_opts *o, wf_rope_spec *r);
weft_status wf_rope_check_positions(const weft_tensor *x, const weft_tensor *positions);
weft_tensor *wf_rope_f64(weft_tensor *x, const weft_rope_opts *o);
void wf_rope_drop(wf_core_ctx *core);

#endif
