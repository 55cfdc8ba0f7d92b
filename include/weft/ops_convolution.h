/* weft/ops_convolution.h - convolutions, pooling, windows, resampling; see weft/ops.h for what all operations share.
 *
 * Inputs are [B, C, spatial axes ..], or [C, spatial axes ..] without a batch, which the result then has none of
 * either. Lists of one entry an axis hold up to three; entries beyond the spatial axes are ignored.
 */
#ifndef WEFT_OPS_CONVOLUTION_H
#define WEFT_OPS_CONVOLUTION_H

#include "weft/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- convolution ---- */

/* How the borders are padded. */
typedef enum weft_conv_pad {
    WEFT_CONV_PAD_LIST = 0, /* `padding` zeros on both sides */
    WEFT_CONV_PAD_SAME,     /* the result has the input's extents; stride 1; the odd zero is on the right */
    WEFT_CONV_PAD_VALID     /* none */
} weft_conv_pad;

/* Options of a convolution; all zero: stride 1, no padding, dilation 1, one group, no bias. */
typedef struct weft_conv_opts {
    weft_tensor *bias;         /* [O], a float dtype; NULL: none */
    int64_t stride[3];         /* 0: 1 */
    int64_t padding[3];        /* with WEFT_CONV_PAD_LIST */
    int64_t dilation[3];       /* distance of the kernel's elements; 0: 1 */
    int64_t groups;            /* 0: 1; divides C and O */
    weft_conv_pad pad;
    int64_t output_padding[3]; /* transposed: extents added on the right, below max(stride, dilation) */
} weft_conv_opts;

/* Cross-correlation of x with kernels, as networks call convolution.
 *   x        [B, C, spatial ..], a float dtype
 *   w        [O, C / groups, kernel ..], a float dtype
 *   opts     NULL for the defaults
 *   returns  [B, O, (extent + 2 padding - dilation (kernel - 1) - 1) / stride + 1, ..]; the promoted dtype, accumulated in f32
 * Depthwise (C == groups) reads windows in place; otherwise the windows are copied once ([B, C kernel, positions]),
 * except for kernels of extent 1 with stride 1. Errors: WEFT_E_SHAPE, WEFT_E_DTYPE; WEFT_E_VALUE for an option out of its range. */
WEFT_API weft_tensor *weft_conv1d(weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts);
WEFT_API weft_tensor *weft_conv2d(weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts); /* the same, two axes */
WEFT_API weft_tensor *weft_conv3d(weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts); /* the same, three axes */

/* Transposed convolution: the gradient of weft_conv1d with respect to its input.
 *   x        [B, C, spatial ..], a float dtype
 *   w        [C, O / groups, kernel ..], a float dtype
 *   returns  [B, O, (extent - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1, ..]; the promoted dtype
 * Errors: as weft_conv1d; `pad` must be WEFT_CONV_PAD_LIST. */
WEFT_API weft_tensor *weft_conv_transpose1d(weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts);
WEFT_API weft_tensor *weft_conv_transpose2d(weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts); /* two axes */
WEFT_API weft_tensor *weft_conv_transpose3d(weft_tensor *x, weft_tensor *w, const weft_conv_opts *opts); /* three axes */

/* Options of weft_causal_conv1d; all zero: zeros before the first step, no bias, no activation. */
typedef struct weft_causal_conv1d_opts {
    weft_tensor *bias;           /* [C] */
    weft_tensor *state;          /* [B, C, K - 1]: the inputs before x; NULL: zeros */
    bool silu;                   /* silu of the result */
    weft_tensor **final_state;   /* NULL, or receives [B, C, K - 1], the state for the next call; owned as the result is */
} weft_causal_conv1d_opts;

/* Depthwise convolution that sees only what came before: y[b, c, t] = sum_k w[c, k] x[b, c, t - (K - 1) + k].
 *   x        [B, C, T], a float dtype
 *   w        [C, K]
 *   returns  [B, C, T]
 * Errors: WEFT_E_SHAPE, WEFT_E_DTYPE. */
WEFT_API weft_tensor *weft_causal_conv1d(weft_tensor *x, weft_tensor *w, const weft_causal_conv1d_opts *opts);

/* ---- windows ---- */

/* Options of weft_im2col and weft_fold; all zero: stride 1, dilation 1, no padding. */
typedef struct weft_window_opts {
    int64_t dilation[2], padding[2], stride[2];
} weft_window_opts;

/* Sliding windows as columns: torch.nn.functional.unfold.
 *   x        [B, C, H, W] or [C, H, W]
 *   kernel   [2]
 *   returns  [B, C kernel[0] kernel[1], positions], dtype of x */
WEFT_API weft_tensor *weft_im2col(weft_tensor *x, const int64_t *kernel, const weft_window_opts *opts);
/* Columns added back where they came from: torch.nn.functional.fold.
 *   x            [B, C kernel[0] kernel[1], positions], a float dtype
 *   output_size  [2]
 *   returns      [B, C, output_size ..], dtype of x; overlaps are summed */
WEFT_API weft_tensor *weft_fold(weft_tensor *x, const int64_t *output_size, const int64_t *kernel, const weft_window_opts *opts);

/* ---- pooling ---- */

/* Options of pooling; all zero: windows side by side, no padding. */
typedef struct weft_pool_opts {
    int64_t stride[3];        /* 0: the kernel's extent */
    int64_t padding[3];       /* on both sides, at most half the kernel */
    int64_t dilation[3];      /* max only; 0: 1 */
    bool ceil_mode;           /* a last window that is partly outside counts */
    bool exclude_padding;     /* avg: divide by the elements inside x (count_include_pad False) */
    int64_t divisor_override; /* avg: divide by this; 0: none */
    weft_tensor **indices;    /* max: NULL, or receives i32 indices in the row-major spatial axes of x */
} weft_pool_opts;

/* The largest of each window; NaN wins.
 *   x        [B, C, spatial ..], any plain dtype but bool
 *   kernel   one extent an axis
 *   returns  [B, C, positions ..], dtype of x
 * Errors: WEFT_E_SHAPE; WEFT_E_VALUE for an option out of its range. */
WEFT_API weft_tensor *weft_max_pool1d(weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts);
WEFT_API weft_tensor *weft_max_pool2d(weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts); /* two axes */
WEFT_API weft_tensor *weft_max_pool3d(weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts); /* three axes */
/* The mean of each window; x is of a float dtype, summed in f32. The rest as weft_max_pool1d. */
WEFT_API weft_tensor *weft_avg_pool1d(weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts);
WEFT_API weft_tensor *weft_avg_pool2d(weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts); /* two axes */
WEFT_API weft_tensor *weft_avg_pool3d(weft_tensor *x, const int64_t *kernel, const weft_pool_opts *opts); /* three axes */

/* Pooling to given extents: window i of n elements covers floor(i n / out) .. ceil((i + 1) n / out) - 1.
 *   size     one extent an axis; -1 keeps it
 *   indices  NULL, or receives i32 indices in the row-major spatial axes of x */
WEFT_API weft_tensor *weft_adaptive_max_pool1d(weft_tensor *x, const int64_t *size, weft_tensor **indices);
WEFT_API weft_tensor *weft_adaptive_max_pool2d(weft_tensor *x, const int64_t *size, weft_tensor **indices); /* two axes */
WEFT_API weft_tensor *weft_adaptive_max_pool3d(weft_tensor *x, const int64_t *size, weft_tensor **indices); /* three axes */
WEFT_API weft_tensor *weft_adaptive_avg_pool1d(weft_tensor *x, const int64_t *size); /* means, x of a float dtype */
WEFT_API weft_tensor *weft_adaptive_avg_pool2d(weft_tensor *x, const int64_t *size); /* two axes */
WEFT_API weft_tensor *weft_adaptive_avg_pool3d(weft_tensor *x, const int64_t *size); /* three axes */

/* ---- resampling ---- */

/* How an element between elements is found. */
typedef enum weft_interpolation {
    WEFT_NEAREST = 0,   /* element floor(i / scale), in f32 as PyTorch */
    WEFT_NEAREST_EXACT, /* element floor((i + 1/2) / scale) */
    WEFT_LINEAR,        /* between two elements an axis: linear, bilinear, trilinear */
    WEFT_CUBIC,         /* between four elements an axis, a = -0.75: bicubic */
    WEFT_AREA           /* the mean of the elements that lie under each: adaptive_avg_pool */
} weft_interpolation;

/* Options of weft_interpolate: size or scale. */
typedef struct weft_interpolate_opts {
    const int64_t *size;     /* one extent an axis; NULL: from scale */
    double scale[3];         /* one factor an axis; ignored where size is given */
    weft_interpolation mode;
    bool align_corners;      /* linear, cubic: the first and last elements stay */
    bool recompute_scale;    /* with scale: take the ratio of the rounded extents */
} weft_interpolate_opts;

/* x resampled along its spatial axes.
 *   x        [B, C, spatial ..] with 1 to 3 spatial axes; a float dtype unless mode is nearest
 *   returns  [B, C, size ..] or [B, C, floor(extent scale) ..], dtype of x
 * Errors: WEFT_E_SHAPE; WEFT_E_VALUE for an unknown mode, no size and no scale, or one out of range. */
WEFT_API weft_tensor *weft_interpolate(weft_tensor *x, const weft_interpolate_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
