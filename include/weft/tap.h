/* weft/tap.h - look at values inside a graph that is evaluated, wherever fusion put them.
 *
 *   static void show(void *user, const char *name, weft_tensor *value) { .. weft_read(value, ..) .. }
 *
 *   weft_tap(ctx, "blk.*", show, NULL);
 *   h = weft_named(weft_silu(x), "blk.0.gate");     the model under study names what may be looked at
 *   weft_read(y, ..);                               show is called with blk.0.gate when y is there
 *
 * Without a tap a name costs taking the context's lock and is not kept. With one, the named value is an output of the
 * evaluation: it is written to memory beside what the kernels write anyway. An f16 or bf16 value is rounded where it is
 * written, so results that follow from it can differ in their last places; those of other types do so only where a kernel
 * was cut in two and adds in another order.
 */
#ifndef WEFT_TAP_H
#define WEFT_TAP_H

#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Receives a named value that an evaluation has computed. It runs after the evaluation, on the thread that called for
 * it (with several threads on one context: on one of them), and may call any function of weft. `name` and `value` are borrowed: weft_tensor_retain keeps the tensor. */
typedef void (*weft_tap_fn)(void *user, const char *name, weft_tensor *value);

/* Call `fn` for values whose name matches from now on.
 *   pattern  the name itself, or a beginning followed by "*"; "*" is every name. A pattern that was given before gets the
 *            new function, NULL removes it. A name that matches several patterns goes to each.
 * Errors: WEFT_E_CONTEXT (ctx NULL or closed), WEFT_E_VALUE (pattern NULL or empty), WEFT_E_OOM. */
WEFT_API weft_status weft_tap(weft_ctx *ctx, const char *pattern, weft_tap_fn fn, void *user);

/* Give a lazy or computed tensor a name that taps know it by; a name may be given to many tensors.
 * Returns `t`, with no reference more. An error tensor and a NULL are returned as they are, as is a tensor whose name no
 * tap asks for. A matching value is kept alive until an evaluation that needs it has run, or its tap is removed. */
WEFT_API weft_tensor *weft_named(weft_tensor *t, const char *name);

/* True while some tap is set: whether putting a name together is worth while. */
WEFT_API bool weft_tapped(weft_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
