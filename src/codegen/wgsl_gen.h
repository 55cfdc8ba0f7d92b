/* wgsl_gen.h - what the parts of the WGSL emitter share: the state of one emission. */
#ifndef WF_WGSL_GEN_H
#define WF_WGSL_GEN_H

#include "wgsl.h"

/* How a kernel covers its points. */
typedef enum wf_wgsl_form {
    WF_WGSL_LANES,    /* elementwise: an invocation takes `width` elements as one vector */
    WF_WGSL_WORDS,    /* elementwise: an invocation loops over the elements of whole words of sub-word outputs */
    WF_WGSL_THREAD,   /* rows: an invocation a row */
    WF_WGSL_GROUP_ROW,/* rows: `lanes` invocations of a work group a row */
    WF_WGSL_EPILOGUE  /* a function called by a hand-written kernel */
} wf_wgsl_form;

typedef struct wf_wgsl_gen {
    const wf_kir *k;
    wf_str *out;
    wf_wgsl_form form;
    int width;          /* lanes of a value: 1, 2 or 4 */
    int per_invocation; /* elements an invocation covers */
    uint32_t group;     /* invocations in a work group, a power of two */
    uint32_t lanes;     /* GROUP_ROW: of them for one row, a power of two */
    uint32_t bind_base, static_base;
    int stage;          /* the open stage */
    int word_bits;      /* a MAP stage that makes whole words: bits of an element of its narrow outputs; else 0 */
} wf_wgsl_gen;

/* How a binding is declared and written. */
typedef enum wf_wgsl_store { WF_WGSL_STORE_ELEMENT, WF_WGSL_STORE_ATOMIC, WF_WGSL_STORE_LANES, WF_WGSL_STORE_WORD } wf_wgsl_store;

int wf_wgsl_elem_bits(weft_dtype dtype);         /* 8, 16, 32; 4 and 8 for block types */
const char *wf_wgsl_type(wf_kty type);           /* "f32" */
void wf_wgsl_type_n(wf_kty type, int width, wf_str *out); /* "f32", "vec4<f32>" */
const char *wf_wgsl_word(const wf_wgsl_gen *g, uint32_t slot, char buf[32]); /* static word: "P[3].y" */

/* wgsl_access.c */
wf_wgsl_store wf_wgsl_store_of(const wf_wgsl_gen *g, int bind);
int wf_wgsl_vector_words(const wf_wgsl_gen *g, int bind); /* 32-bit words of one element of the declared array */
void wf_wgsl_emit_bindings(const wf_wgsl_gen *g, wf_str *out);
void wf_wgsl_emit_access(const wf_wgsl_gen *g);  /* the ldN, ldwN, stN, stwN functions in use */
bool wf_wgsl_loads_wide(const wf_wgsl_gen *g, const wf_kinstr *load);
void wf_wgsl_bits(weft_dtype dtype, const char *value, wf_str *out); /* the storage bits of a value, in a u32 */

/* wgsl_expr.c */
void wf_wgsl_emit_functions(const wf_wgsl_gen *g); /* UNRAVEL and CHECK of this kernel */
void wf_wgsl_emit_instr(const wf_wgsl_gen *g, int at, const char *indent);
/* A value converted to another compute type, for one lane or all (lane "" or ".x"). */
void wf_wgsl_emit_cast(wf_kty from, wf_kty to, int width, const char *value, wf_str *out);
bool wf_wgsl_hides_zero(const wf_wgsl_gen *g); /* the kernel needs the private variable `zero` */
void wf_wgsl_literal(wf_kty type, uint64_t bits, wf_str *out);

#endif
