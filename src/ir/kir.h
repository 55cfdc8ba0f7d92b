/* kir.h - the kernel IR: one loop nest in SSA form, from which both WGSL and the CPU's block
 * interpreter are made.
 *
 * A kernel runs over n_outer outer axes (independent points) and n_inner inner axes (a "row" that is
 * reduced or walked). Its stages run in order for each outer point:
 *
 *   OUTER   once per outer point
 *   REDUCE  over all inner points, folding values into accumulators
 *   MAP     over all inner points, storing
 *
 * An elementwise kernel is one OUTER stage and no inner axes. A sum is REDUCE then OUTER. Softmax is
 * REDUCE (max), REDUCE (sum of exp), MAP.
 *
 * Instruction results are numbered by their position. An instruction may use values of its own stage
 * and of earlier OUTER stages, and accumulators (ACC) of earlier REDUCE stages.
 *
 * Extents, strides and offsets are not in the IR: they are 32-bit words of the dispatch's static
 * block, addressed by slot, so one program serves every shape of the same structure. Run-time scalars
 * are words of the step block; a static word says which.
 */
#ifndef WF_KIR_H
#define WF_KIR_H

#include "base.h"

#define WF_KIR_MAX_AXES 8
#define WF_KIR_MAX_BIND 12
#define WF_KIR_MAX_INSTR 512
#define WF_KIR_MAX_STAGES 6
#define WF_KIR_MAX_ACC 4

typedef enum wf_kty { WF_KTY_F32, WF_KTY_I32, WF_KTY_U32, WF_KTY_BOOL, WF_KTY_F64, WF_KTY_I64, WF_KTY_COUNT } wf_kty;

/* The compute type of a storage dtype: f16 bf16 f32 and block types -> F32; i8 i32 -> I32; u8 u32 -> U32;
 * bool -> BOOL; f64 -> F64; i64 -> I64. */
wf_kty wf_kty_of_dtype(weft_dtype dtype);

/* WF_KOP(id, name, operands). Integer arithmetic wraps. Operands have the result's type unless noted. */
#define WF_KOPS(X)                                                                                      \
    /* sources */                                                                                       \
    X(CONST, "const", 0)     /* imm: bits of the value (f64/i64: 64 bits) */                            \
    X(STATIC, "static", 0)   /* static[slot], type I32, U32 or F32 (bits) */                            \
    X(STEP, "step", 0)       /* step[static[slot]], type I32, U32 or F32 (bits) */                      \
    X(AXIS, "axis", 0)       /* I32: coordinate on axis `slot` (0 .. n_outer+n_inner-1) */              \
    X(AFFINE, "affine", 0)   /* I32: static[slot] + sum over all axes k of coord_k * static[slot+1+k]; in an \
                              * OUTER stage the inner coordinates are 0 */                              \
    X(UNRAVEL, "unravel", 1) /* I32: a is a row-major index in the shape static[slot .. slot+n-1] (n = imm); \
                              * result static[slot+n] + sum coord_k * static[slot+n+1+k] */            \
    X(LOAD, "load", 1)       /* binding `slot`, element index a (I32); converted to the compute type */ \
    X(ACC, "acc", 0)         /* accumulator imm of REDUCE stage `slot`; ARGMAX and ARGMIN give I32 */   \
    X(IN, "in", 0)           /* F32: the value a hand-written kernel hands to its epilogue */           \
    /* sinks */                                                                                         \
    X(STORE, "store", 2)     /* binding `slot`, element index a, value b; converted to the storage dtype */ \
    X(CHECK, "check", 1)     /* I32 index a against extent static[slot]: negative counts from the end, unless imm is 1; \
                              * one outside sets the error words, if none did, and gives 0 */           \
    /* conversion */                                                                                    \
    X(CAST, "cast", 1)       /* value of a to this type: float to integer truncates and saturates, NaN to 0; \
                              * anything to BOOL is a != 0 */                                           \
    X(ROUND16, "round16", 1) /* F32 rounded through dtype imm (f16 or bf16), nearest even, and back */  \
    X(BITCAST, "bitcast", 1) /* between F32, I32 and U32 */                                             \
    /* two operands */                                                                                  \
    X(ADD, "add", 2) X(SUB, "sub", 2) X(MUL, "mul", 2)                                                  \
    X(DIV, "div", 2)         /* floats IEEE; integers truncate, x / 0 = 0 */                            \
    X(MOD, "mod", 2)         /* sign of a; integers: x % 0 = 0; floats: C's fmod, exact */              \
    X(POW, "pow", 2) X(MAX, "max", 2) X(MIN, "min", 2) /* NaN wins in MAX and MIN */                    \
    X(MULHI, "mulhi", 2)     /* U32: high word of the product */                                        \
    X(AND, "and", 2) X(OR, "or", 2) X(XOR, "xor", 2) X(SHL, "shl", 2) X(SHR, "shr", 2) /* SHR of I32 is arithmetic */ \
    /* comparisons: result BOOL, operands of one type (that of a) */                                    \
    X(EQ, "eq", 2) X(NE, "ne", 2) X(LT, "lt", 2) X(LE, "le", 2) X(GT, "gt", 2) X(GE, "ge", 2)           \
    /* one operand */                                                                                   \
    X(NEG, "neg", 1) X(ABS, "abs", 1) X(NOT, "not", 1) X(EXP, "exp", 1) X(LOG, "log", 1) X(SQRT, "sqrt", 1) \
    X(RSQRT, "rsqrt", 1) X(SIN, "sin", 1) X(COS, "cos", 1) X(TANH, "tanh", 1) X(ERF, "erf", 1) X(FLOOR, "floor", 1) \
    /* three operands */                                                                                \
    X(SELECT, "select", 3)   /* a (BOOL) ? b : c */                                                     \
    X(FMA, "fma", 3)         /* a * b + c, fused or not */                                              \
    /* of the processor's C library, no WGSL */                                                         \
    X(LIBM, "libm", 2)       /* F64: function imm (wf_libm) of a, or of a and b */

/* Functions of LIBM: one operand (the second is ignored), then two. */
#define WF_LIBM_ONE(X)                                                                                  \
    X(erfc) X(lgamma) X(expm1) X(log1p) X(log2) X(exp2) X(log10) X(sinh) X(cosh) X(tan) X(asin) X(acos) \
    X(atan) X(asinh) X(acosh) X(atanh) X(rint) X(ceil) X(trunc)
#define WF_LIBM_TWO(X) X(atan2) X(hypot) X(copysign)

typedef enum wf_libm {
#define X(name) WF_LIBM_##name,
    WF_LIBM_ONE(X) WF_LIBM_TWO(X)
#undef X
    WF_LIBM_COUNT
} wf_libm;

typedef enum wf_kop {
#define X(id, name, n) WF_KOP_##id,
    WF_KOPS(X)
#undef X
    WF_KOP_COUNT
} wf_kop;
extern const char *const wf_kop_name[WF_KOP_COUNT];
extern const uint8_t wf_kop_operands[WF_KOP_COUNT];

typedef struct wf_kinstr {
    uint8_t op;   /* wf_kop */
    uint8_t type; /* wf_kty of the result (STORE: of the value) */
    uint16_t slot;
    int16_t a, b, c; /* operand instruction numbers, -1: none */
    uint16_t pad_;
    uint64_t imm;
} wf_kinstr;

typedef enum wf_krop { WF_KROP_SUM, WF_KROP_PROD, WF_KROP_MAX, WF_KROP_MIN, WF_KROP_ARGMAX, WF_KROP_ARGMIN } wf_krop;
/* MAX, MIN: NaN wins. ARGMAX, ARGMIN: first index of the extreme, NaN counts as the extreme; the index
 * is the row-major position in the inner axes. Starting values: 0, 1, lowest, highest, (lowest, 0).. */

typedef struct wf_kacc {
    uint8_t rop;   /* wf_krop */
    uint8_t type;  /* wf_kty of the folded value */
    int16_t value; /* instruction folded */
} wf_kacc;

typedef enum wf_kstage_kind { WF_KSTAGE_OUTER, WF_KSTAGE_REDUCE, WF_KSTAGE_MAP } wf_kstage_kind;
typedef struct wf_kstage {
    uint8_t kind;
    uint8_t n_acc;
    uint16_t first, count; /* instructions */
    wf_kacc acc[WF_KIR_MAX_ACC];
} wf_kstage;

typedef struct wf_kbind {
    uint8_t dtype;    /* weft_dtype of the storage */
    uint8_t access;   /* WF_ACCESS_* */
    uint8_t layout;   /* WF_LAYOUT_* for block types */
    uint8_t linear;   /* outputs: every STORE here goes to the row-major linear index of (outer, inner) and
                       * covers it wholly, so whole words can be written */
    uint16_t plane_slot; /* block types in planar layout: static[plane_slot] and [+1] are the BYTE offsets, from
                       * the start of the binding, of the scale and minimum planes */
    uint8_t chunks;      /* inputs: > 1 when the operand is larger than a binding and lies in this many, of
                          * static[chunk_slot] 32-bit words each; binding 0 of them is this one, the others come
                          * after all bindings and the error word, in order */
    uint8_t pad_;
    uint16_t chunk_slot;
    uint16_t wide;       /* inputs, vec > 1: every LOAD here has, on the last outer axis, stride 1, and its offset and other
                          * strides are multiples of vec, so a GPU invocation may load its elements at once. 0 is always right */
} wf_kbind;
enum { WF_ACCESS_READ = 1, WF_ACCESS_WRITE = 2, WF_ACCESS_READ_WRITE = 3 };

/* How a device with work groups spreads the rows: an outer point is one invocation's, a work group's, or that of
 * WF_KSTRAT_LANES_WIDTH neighbours in a work group. Others ignore it. Sums are added in another order by each. */
typedef enum wf_kstrategy { WF_KSTRAT_THREAD, WF_KSTRAT_GROUP, WF_KSTRAT_LANES } wf_kstrategy;
enum { WF_KSTRAT_LANES_WIDTH = 32 };

typedef struct wf_kir {
    uint8_t n_outer, n_inner, n_bind, n_stages;
    uint8_t strategy;   /* wf_kstrategy */
    uint8_t has_error;  /* uses CHECK: one more binding, after the others, is the error words (WF_ERROR_*, u32) */
    uint8_t vec;        /* elementwise: elements of the last outer axis a GPU invocation takes in a row (1, 2 or 4);
                         * > 1 promises the last extent is a multiple of it */
    uint8_t pad_;
    uint16_t n_instr, n_static; /* static words used */
    uint16_t extent_slot;       /* static[extent_slot + k]: extent of axis k, outer axes first */
    uint16_t pad2_;
    wf_kbind bind[WF_KIR_MAX_BIND];
    wf_kstage stages[WF_KIR_MAX_STAGES];
    wf_kinstr instr[WF_KIR_MAX_INSTR];
} wf_kir;

/* The error words: whether an index was outside its extent, and which was found first. */
enum { WF_ERROR_SET, WF_ERROR_INDEX, WF_ERROR_EXTENT, WF_ERROR_WORDS };

/* Bindings in all: those of the list, the error words, and further chunks. */
static inline int wf_kir_total_bind(const wf_kir *k)
{
    int n = k->n_bind + k->has_error;
    for (int i = 0; i < k->n_bind; i++)
        n += k->bind[i].chunks > 1 ? k->bind[i].chunks - 1 : 0;
    return n;
}

/* Structure, types, operand order, stage visibility, slot ranges. Run on everything from outside. */
weft_status wf_kir_verify(const wf_kir *k);
void wf_kir_print(const wf_kir *k, wf_str *out);
/* Compact bytes: equal kernels give equal bytes. */
weft_status wf_kir_write(const wf_kir *k, wf_str *out);
weft_status wf_kir_read(const void *bytes, size_t n, wf_kir *out);

#endif
