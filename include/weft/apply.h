/* weft/apply.h - every operation by its name, for bindings, tests and programs that are made from the table of
 * operations (src/core/functions.def), and questions about that table.
 */
#ifndef WEFT_APPLY_H
#define WEFT_APPLY_H

#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a parameter takes. */
typedef enum weft_param_type {
    WEFT_PARAM_TENSOR,  /* one tensor; a number attribute of the same name stands for a rank-0 tensor */
    WEFT_PARAM_TENSORS, /* all inputs that are left */
    WEFT_PARAM_INT,
    WEFT_PARAM_FLOAT,
    WEFT_PARAM_BOOL,
    WEFT_PARAM_INTS,    /* a list; one integer stands for a list of one */
    WEFT_PARAM_STRING,
    WEFT_PARAM_DTYPE,
    WEFT_PARAM_INTS_OR_STRING, /* a list, as WEFT_PARAM_INTS, or a word */
    WEFT_PARAM_FLOATS   /* a list of numbers; one stands for a list of one */
} weft_param_type;

/* A parameter of an operation. */
typedef struct weft_param_info {
    char name[24];
    weft_param_type type;
    bool optional;      /* absent is a value of its own ("None") */
    bool has_default;   /* may be left out */
    char preset[24];    /* the default as written: "0", "1e-05", "False", "None", "mean", "[1, 1]" */
} weft_param_info;

/* Parameters of an operation, at most. */
#define WEFT_MAX_PARAMS 16

/* An operation. Texts are static. */
typedef struct weft_op_info {
    const char *name;
    const char *section;    /* of the manual: "pointwise" */
    const char *signature;  /* "Tensor input, float beta=1, float threshold=20" */
    const char *bound;      /* largest error, an expression in eps, S, M, X, n (docs/ops.md says what they are) */
    const char *doc;        /* what it computes, and how it differs from PyTorch's */
    bool differentiable;
    int n_params;
    weft_param_info params[WEFT_MAX_PARAMS];
} weft_op_info;

/* Number of operations. */
WEFT_API int weft_op_count(void);
/* Operation `index`, in the order of the table; NULL outside. */
WEFT_API const weft_op_info *weft_op_at(int index);
/* The operation of that name; NULL when there is none. */
WEFT_API const weft_op_info *weft_op_find(const char *name);

/* One attribute. `name` may be NULL where `position` says which parameter it is. */
typedef struct weft_attr {
    const char *name;
    int position;       /* index in the signature, used when name is NULL */
    enum { WEFT_ATTR_NONE, WEFT_ATTR_INT, WEFT_ATTR_FLOAT, WEFT_ATTR_BOOL, WEFT_ATTR_INTS, WEFT_ATTR_STRING, WEFT_ATTR_DTYPE, WEFT_ATTR_FLOATS } kind;
    int64_t i;          /* INT; BOOL: 0 or 1; DTYPE */
    double f;           /* FLOAT */
    const char *s;      /* STRING */
    const int64_t *ints;
    int n_ints;         /* of ints, and of floats */
    const double *floats;
} weft_attr;

/* The attributes of a call. */
typedef struct weft_attrs {
    const weft_attr *list;
    int n;
} weft_attrs;

/* Results of a call, at most. */
#define WEFT_MAX_OUTPUTS 256

/* The results of a call. */
typedef struct weft_outputs {
    weft_tensor *tensor[WEFT_MAX_OUTPUTS]; /* of the current scope, as the results of any builder */
    int n;
} weft_outputs;

/* Record operation `name`.
 *   ctx         for operations without inputs and for numbers in place of tensors
 *   inputs      the tensors of the signature in order, NULL for one that is absent; trailing ones may be left out
 *   attributes  the other parameters, by name or position; NULL: none. What is left out takes its default
 *   outputs     the results; errors of the operation itself are error tensors among them
 * Errors: WEFT_E_VALUE for an unknown name (the nearest is named), an unknown or repeated parameter, a parameter
 * without default that is missing, too many inputs; WEFT_E_DTYPE for an attribute of the wrong kind. */
WEFT_API weft_status weft_apply(weft_ctx *ctx, const char *name, weft_tensor *const *inputs, int n, const weft_attrs *attributes,
                                weft_outputs *outputs);

/* A tensor that is not there yet. */
typedef struct weft_operand {
    weft_dtype dtype;
    int rank;
    const int64_t *shape;
} weft_operand;

/* Where an operation would run. */
typedef struct weft_support {
    bool native;      /* wholly on the context's own device */
    char reason[160]; /* the first part that would run on the CPU and why; "" when native */
} weft_support;

/* Would operation `name` on contiguous operands of these dtypes and shapes run on the context's device? The compiler
 * itself is asked; nothing runs. On the CPU every operation that is accepted is native.
 *   attributes  as for weft_apply
 * Errors: those of weft_apply and of the operation itself, such as WEFT_E_SHAPE; WEFT_E_VALUE for out NULL;
 * WEFT_E_UNSUPPORTED when nothing could run it. */
WEFT_API weft_status weft_device_supports(weft_ctx *ctx, const char *name, const weft_operand *operands, int n, const weft_attrs *attributes,
                                          weft_support *out);

#ifdef __cplusplus
}
#endif
#endif
