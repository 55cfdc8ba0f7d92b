/* kernel_rows.h - inside the kernel table: what a row is, and what its families share.
 *
 * A family (matrix, attention, top-k) reads a request once into its problem struct, then each row
 * of the family is asked whether it is admissible (else why not), whether it is wanted for this shape,
 * and to make its launches.
 */
#ifndef WF_KERNEL_ROWS_H
#define WF_KERNEL_ROWS_H

#include "kernel_table.h"
#include "kernel_text.h"

typedef struct wf_kernel_row {
    const char *op;       /* as WEFT_KERNEL names it: matmul linear qlinear sdpa topk; "matrix" serves the first two */
    const char *name;
    const char *file;     /* file in wgsl/ */
    uint32_t needs;       /* WF_NEED_* */
    int32_t param[6];     /* tile parameters; their meaning is the family's, see kernels.def */
} wf_kernel_row;
enum { WF_NEED_SUBGROUP32 = 1 /* subgroups, all of 32 invocations */ };

#define WF_WHY_MAX 160
typedef struct wf_kernel_ask {
    const wf_caps *caps;
    const wf_kernel_req *req;
    const wf_kernel_row *row;
    const void *problem;   /* the family's */
    char why[WF_WHY_MAX];  /* set by a refusal */
} wf_kernel_ask;

typedef struct wf_kernel_family {
    /* Read the request into a problem (zeroed, at most WF_PROBLEM_BYTES). Errors: UNSUPPORTED, for every row. */
    weft_status (*read)(const wf_caps *caps, const wf_kernel_req *req, void *problem);
    bool (*admissible)(wf_kernel_ask *ask);         /* right results; false: ask->why says what is in the way */
    bool (*wanted)(const wf_kernel_ask *ask);       /* worth taking when nobody forces it */
    weft_status (*build)(const wf_kernel_ask *ask, wf_kernel_choice *out);
    void (*key)(const wf_kernel_req *req, const void *problem, wf_tune_key *out); /* all but op; NULL: not tuned */
} wf_kernel_family;
#define WF_PROBLEM_BYTES 1024
extern const wf_kernel_family wf_matrix_family, wf_sdpa_family, wf_topk_family, wf_scan_family, wf_sort_family, wf_scatter_family;

/* The row that WEFT_KERNEL ("op:row,op:row", the last of an op counts) asks for; false and empty when none. A longer
 * name is cut, and then names no row. */
bool wf_kernel_forced(const char *op, char *row, size_t size);
bool wf_kernel_refuse(wf_kernel_ask *ask, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* false */

/* ---- views ---- */
/* All elements lie at indices that fit i32, none below zero; an empty view is refused. */
weft_status wf_operand_check(const char *what, const wf_operand *x);
typedef struct wf_axis_run {
    int64_t extent, stride[2];
} wf_axis_run;
/* Axes that advance together in `n_views` (1 or 2) become one; extents of 1 go. Gives the count. */
int wf_axes_merge(wf_axis_run *axes, int n, int n_views);

/* Keys before and after its own position that a query of attention sees; tk and tq where nothing bounds them. */
void wf_sdpa_window(const wf_attrs *attrs, int64_t tq, int64_t tk, int64_t *left, int64_t *right);
int64_t wf_sdpa_flops(const wf_attrs *attrs, const wf_view *q, const wf_view *k, const wf_view *v);

/* Words 0 .. 26 of scan and sort (kernel_table.h). Errors: UNSUPPORTED (an operand beyond 32-bit indices). */
typedef struct wf_line_words {
    int32_t word[27];
    int64_t lines, n;
} wf_line_words;
weft_status wf_line_words_of(const char *who, const wf_kernel_req *req, wf_line_words *out);
/* Words 0 .. 47 of scatter. */
typedef struct wf_scatter_words {
    int32_t word[48];
} wf_scatter_words;
weft_status wf_scatter_words_of(const wf_kernel_req *req, wf_scatter_words *out);

/* ---- text ---- */
/* Binding b0 and fn key_at(i: i32) -> u32: an element as a number in its order. Floats: NaN highest, -0 equal to 0; 16-bit
 * ones by their own bits, so that subnormals keep their order on devices that flush them. Errors: UNSUPPORTED (dtype). */
weft_status wf_text_key(const char *who, wf_str *out, weft_dtype dtype);
void wf_key_bits(weft_dtype dtype, int *first, int *count); /* those of a key that differ */
/* Binding b{index} of an operand and its load functions, returning f32:
 *   vec 1: fn NAME1(i: i32) -> f32                       any element
 *   vec 4: fn NAME4(i: i32) -> vec4<f32>                 elements i .. i+3, i a multiple of 4
 *   vec 8: fn NAME8(i: i32) -> array<vec4<f32>, 2>       elements i .. i+7, i a multiple of 8
 * Errors: UNSUPPORTED (dtype). */
weft_status wf_text_operand(wf_str *out, uint32_t index, const char *name, weft_dtype dtype, int vec);
bool wf_operand_loads(weft_dtype dtype); /* f32, f16, bf16 */
/* Binding b{index} of an output and fn store_out(i: i32, v: f32), for dtypes f32, f16, bf16. */
weft_status wf_text_output(wf_str *out, uint32_t index, weft_dtype dtype);

/* Put a launch's text together: declarations (operands), the epilogue or none, parameters, helpers, the
 * expanded template. `l` has its own bindings and n_static; the epilogue's bindings are appended here. */
weft_status wf_launch_compose(const wf_kernel_ask *ask, const char *file, const wf_slots *slots, const wf_str *decls,
                              bool with_epilogue, wf_launch *l);
/* Work groups for a flat count: one dimension, or two where it is more than the device allows. The
 * kernels read workgroup_id.x + workgroup_id.y * num_workgroups.x and leave when past the end. */
weft_status wf_grid_flat(const wf_caps *caps, int64_t n_groups, uint32_t grid[3]);
uint32_t wf_group_limit(const wf_caps *caps); /* invocations; the WebGPU default where unset */
uint32_t wf_group_bytes(const wf_caps *caps);
bool wf_caps_software(const wf_caps *caps); /* an adapter that runs on the CPU */
/* Refuses more rounds of loops in one invocation than the device makes: lavapipe ends one after 65,535 of all its loops together,
 * whatever it has done by then (Mesa 22.3, lp_bld_limits.h). The round in which a loop ends counts. */
enum { WF_SOFTWARE_ROUNDS = 65535 };
bool wf_kernel_rounds(wf_kernel_ask *ask, int64_t rounds);
void wf_launch_bind(wf_launch *l, int what, uint8_t access);

#endif
