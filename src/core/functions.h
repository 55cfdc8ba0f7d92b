/* functions.h - a call by name, between weft_apply and the rows of functions.def. */
#ifndef WF_FUNCTIONS_H
#define WF_FUNCTIONS_H

#include "node.h"
#include "weft/apply.h"

#define WF_SLOT_INTS 8

typedef struct wf_slot {
    bool given, none;
    weft_tensor *t;
    const weft_attr *number; /* in place of a tensor */
    int64_t i; /* of a float parameter: the kind of attribute it came as */
    double f;
    int64_t whole; /* of a float parameter that came as an integer: the integer itself */
    const char *s;
    const int64_t *ints;
    const double *floats;
    int n;                    /* of ints or floats */
    union {
        int64_t room[WF_SLOT_INTS];
        double reals[WF_SLOT_INTS];
    };
} wf_slot;

typedef struct wf_call {
    weft_ctx *ctx;
    const weft_op_info *op;
    wf_slot slot[WEFT_MAX_PARAMS];
    weft_tensor *const *list;
    int n_list;
    weft_outputs *out;
} wf_call;

/* A rank-0 tensor of a number, of a dtype that does not narrow the tensor it meets (NULL: none). */
weft_tensor *wf_call_number(const wf_call *c, const weft_tensor *beside, double value, bool is_int);

/* An integer that a double may not hold. */
static inline bool wf_beyond_double(int64_t v) { return v > (1LL << 53) || v < -(1LL << 53); }

/* An axis as builders take it: one beyond int is beyond every rank too. */
static inline int wf_call_axis(int64_t v) { return v > 1000 ? 1000 : v < -1000 ? -1000 : (int)v; }

#endif
