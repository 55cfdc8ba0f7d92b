/* functions_calls_networks.h - calls of functions_networks.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_NETWORKS_H
#define WF_FUNCTIONS_CALLS_NETWORKS_H

#include <float.h>
#include <stdio.h>

#include "weft/ops_networks.h"

/* The position of a word in a list, or -1 with the error tensor as the only result. */
static int word_index(const wf_call *c, int param, const char *const *words, int n)
{
    char known[80] = "";
    for (int i = 0; i < n; i++) {
        if (strcmp(S(param), words[i]) == 0)
            return i;
        size_t at = strlen(known);
        snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", words[i]);
    }
    ONE(wf_tensor_error(CTX, WEFT_E_VALUE, "%s: %s is \"%.20s\", expected one of %s", c->op->name, c->op->params[param].name, S(param), known));
    return -1;
}

static const char *const reduction_words[] = {"mean", "sum", "none", "batchmean"};
/* One result with `reduction` read from a parameter. kl_div alone knows the fourth word. */
#define LOSS(param, tensor)                                                                                        \
    do {                                                                                                           \
        int r = word_index(c, param, reduction_words, strcmp(c->op->name, "kl_div") == 0 ? 4 : 3);                 \
        weft_reduction reduction = (weft_reduction)r;                                                              \
        if (r >= 0)                                                                                                \
            ONE(tensor);                                                                                           \
    } while (0)

/* softmax and its kin: converted first when dtype is given. */
static weft_tensor *converted(const wf_call *c, weft_tensor *(*f)(weft_tensor *, int))
{
    if (!HAS(2))
        return f(T(0), AXIS(1));
    wf_composite scope;
    if (!wf_composite_begin(&scope, c->op->name, 1, WF_INPUTS(T(0))))
        return scope.failed;
    return wf_composite_end(&scope, f(weft_cast(T(0), D(2)), AXIS(1)));
}

/* The default eps of rms_norm: the spacing of 1 in the dtype it is computed in. */
static double rms_eps(const wf_call *c)
{
    return HAS(3) ? F(3) : weft_tensor_dtype(T(0)) == WEFT_DTYPE_F64 ? DBL_EPSILON : FLT_EPSILON;
}

typedef weft_tensor *running_norm(weft_tensor *, const weft_batch_norm_opts *, weft_tensor **, weft_tensor **);
/* batch_norm and instance_norm: the running statistics follow the output where they moved. */
static int norm_outputs(const wf_call *c, running_norm *f)
{
    weft_batch_norm_opts o = {.running_mean = T(1), .running_var = T(2), .weight = T(3), .bias = T(4), .training = B(5), .momentum = F(6), .eps = F(7)};
    bool moves = o.training && o.running_mean && o.running_var;
    OUT[0] = f(T(0), &o, moves ? &OUT[1] : NULL, moves ? &OUT[2] : NULL);
    return moves ? 3 : 1;
}

static void embedding_bag(const wf_call *c)
{
    static const char *const modes[] = {"mean", "sum", "max"};
    int mode = word_index(c, 3, modes, 3);
    weft_embedding_bag_opts o = {.offsets = T(2), .per_sample_weights = T(4), .mode = (weft_bag_mode)mode, .include_last_offset = B(5),
                                 .has_padding_idx = HAS(6), .padding_idx = I(6)};
    if (mode >= 0)
        ONE(weft_embedding_bag(T(0), T(1), &o));
}

static weft_tensor *attention(const wf_call *c)
{
    if (F(4) != 0)
        return wf_tensor_error(CTX, WEFT_E_UNSUPPORTED, "%s: dropout_p is %g, only 0 is there", c->op->name, F(4));
    weft_attention_opts o = {.mask = T(3), .is_causal = B(5), .scale = HAS(6) ? (float)F(6) : 0, .kv_len = T(8), .window_left = I(9), .window_right = I(10),
                             .has_window = I(9) >= 0 || I(10) >= 0, .softcap = (float)F(11), .alibi_slopes = T(12), .sinks = T(13)};
    return weft_scaled_dot_product_attention(T(0), T(1), T(2), &o);
}

#endif
