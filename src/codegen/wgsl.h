/* wgsl.h - kernel IR to WGSL text in the dialect that Tint and naga both take. */
#ifndef WF_WGSL_H
#define WF_WGSL_H

#include "hal.h"
#include "kir.h"

/* A whole program for a kernel: bindings b0 .. bn-1, error word, P (static words), S (step words), entry
 * point main. Work-group size is WF_WGSL_GROUP, or less where caps demand. Errors: UNSUPPORTED (F64,
 * I64: the type is named). */
#define WF_WGSL_GROUP 256
weft_status wf_wgsl_emit(const wf_caps *caps, const wf_kir *k, wf_str *out);
/* Work groups for a kernel whose axes have these extents; grid is 2-D past 65,535. */
void wf_wgsl_grid(const wf_caps *caps, const wf_kir *k, const int64_t *extents, uint32_t grid[3]);
/* Set k->vec and the bindings' `wide` from the static words that the kernel will run with, before emit: kernels
 * with contiguous, aligned inputs then load vectors. */
void wf_wgsl_widen(wf_kir *k, const int32_t *words);

/* Parts for hand-written templates. Declarations of the helper functions (conversion, accurate math)
 * that a text uses; and an epilogue as `fn epilogue(acc: f32, c0: i32, c1: i32, c2: i32)`, whose
 * bindings are named b{bind_base + i} and whose static words start at static_base. */
weft_status wf_wgsl_emit_epilogue(const wf_kir *k, uint32_t bind_base, uint32_t static_base, wf_str *bindings, wf_str *body);
/* Declare one storage binding: @group(0) @binding(index) var<storage, read> b{index}: array<..>. */
void wf_wgsl_emit_binding(uint32_t index, const wf_kbind *b, bool atomic, wf_str *out);
void wf_wgsl_emit_params(uint32_t n_bind, uint32_t n_static, wf_str *out); /* P and S, with fn p(i: u32) -> i32, fn step(i: i32) -> u32 */
/* Helper library: text of every function whose name occurs in `body`, dependencies first. */
weft_status wf_wgsl_emit_helpers(const char *body, wf_str *out);

#endif
