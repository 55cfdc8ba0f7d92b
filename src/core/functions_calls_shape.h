/* functions_calls_shape.h - calls of functions_shape.def that need more than a word. Part of apply.c. */
#ifndef WF_FUNCTIONS_CALLS_SHAPE_H
#define WF_FUNCTIONS_CALLS_SHAPE_H

#include "weft/ops_indexing.h"
#include "weft/ops_shape.h"

/* The integers of parameter k as axes. More than the largest rank repeat one, which builders refuse. */
static int axes_of(const wf_call *c, int k, int axes[WEFT_MAX_RANK + 1])
{
    int n = WF_MIN(N(k), WEFT_MAX_RANK + 1);
    for (int i = 0; i < n; i++)
        axes[i] = wf_call_axis(V(k)[i]);
    return n;
}

/* Whether a list parameter came as one number. */
static bool is_number(const wf_call *c, int k) { return V(k) == c->slot[k].room; }

static weft_tensor *movedim(const wf_call *c)
{
    int from[WEFT_MAX_RANK + 1], to[WEFT_MAX_RANK + 1];
    if (N(1) != N(2))
        return wf_tensor_error(CTX, WEFT_E_VALUE, "movedim: %d axes to %d places", N(1), N(2));
    axes_of(c, 2, to);
    return weft_movedim(T(0), axes_of(c, 1, from), from, to);
}

static weft_tensor *matrix_transpose(const wf_call *c)
{
    int rank = weft_tensor_rank(T(0));
    if (rank > 2)
        return wf_tensor_error(CTX, WEFT_E_SHAPE, "t: input has rank %d, expected at most 2", rank);
    return rank == 2 ? weft_transpose(T(0), 0, 1) : weft_reshape(T(0), rank, weft_tensor_shape(T(0)));
}

static weft_tensor *squeeze(const wf_call *c)
{
    int axes[WEFT_MAX_RANK + 1];
    int n = axes_of(c, 1, axes);
    return weft_squeeze_axes(T(0), HAS(1) ? axes : NULL, n);
}

static weft_tensor *flip(const wf_call *c)
{
    int axes[WEFT_MAX_RANK + 1];
    int n = axes_of(c, 1, axes);
    return weft_flip_axes(T(0), axes, n);
}

static weft_tensor *rot90(const wf_call *c)
{
    int axes[WEFT_MAX_RANK + 1];
    if (axes_of(c, 2, axes) != 2)
        return wf_tensor_error(CTX, WEFT_E_VALUE, "rot90: %d axes, expected 2", N(2));
    return weft_rot90(T(0), I(1), axes[0], axes[1]);
}

static weft_tensor *roll(const wf_call *c)
{
    int axes[WEFT_MAX_RANK + 1];
    if (!HAS(2) || N(2) == 0)
        return weft_roll(T(0), V(1), NULL, N(1));
    if (N(1) != N(2) || N(2) > WEFT_MAX_RANK)
        return wf_tensor_error(CTX, WEFT_E_VALUE, "roll: %d shifts for %d axes", N(1), N(2));
    axes_of(c, 2, axes);
    return weft_roll(T(0), V(1), axes, N(1));
}

/* The value is put where a padded mask says so: weft_pad takes a double. */
static weft_tensor *pad_with_whole(const wf_call *c)
{
    weft_tensor *x = weft_pad(T(0), N(1), V(1), WEFT_PAD_CONSTANT, 0);
    weft_tensor *inside = weft_pad(weft_full_like(T(0), WEFT_DTYPE_BOOL, 1), N(1), V(1), WEFT_PAD_CONSTANT, 0);
    return weft_where(inside, x, WHOLE(3));
}

static weft_tensor *pad_by_mode(const wf_call *c)
{
    static const char *const modes[] = {"constant", "reflect", "replicate", "circular"};
    for (int m = 0; m < (int)WF_COUNT(modes); m++)
        if (strcmp(S(2), modes[m]) == 0)
            return BEYOND(3) && m == 0 && weft_tensor_dtype(T(0)) == WEFT_DTYPE_I64 ? pad_with_whole(c)
                                                                                    : weft_pad(T(0), N(1), V(1), (weft_pad_mode)m, HAS(3) ? F(3) : 0);
    return wf_tensor_error(CTX, WEFT_E_VALUE, "pad: mode is \"%.20s\", not constant, reflect, replicate or circular", S(2));
}

/* input, repeats (a number, or a tensor of them), dim, output_size */
static weft_tensor *interleave(const wf_call *c)
{
    weft_tensor *x = HAS(2) ? T(0) : weft_flatten(T(0), 0, -1);
    int axis = HAS(2) ? AXIS(2) : 0;
    const weft_attr *one = c->slot[1].number;
    if (!one || one->kind == WEFT_ATTR_FLOAT)
        return weft_repeat_interleave_counts(x, T(1), axis, HAS(3) ? I(3) : -1);
    return weft_repeat_interleave(x, one->i, axis);
}

static int split_parts(const wf_call *c)
{
    return is_number(c, 1) ? weft_split(T(0), V(1)[0], AXIS(2), OUT, ROOM) : weft_split_sizes(T(0), N(1), V(1), AXIS(2), OUT, ROOM);
}

static int tensor_split_parts(const wf_call *c)
{
    return is_number(c, 1) ? weft_tensor_split(T(0), V(1)[0], AXIS(2), OUT, ROOM) : weft_tensor_split_at(T(0), N(1), V(1), AXIS(2), OUT, ROOM);
}

static int meshgrid_parts(const wf_call *c)
{
    bool xy = strcmp(S(1), "xy") == 0;
    if (xy || strcmp(S(1), "ij") == 0)
        return weft_meshgrid(LIST, N_LIST, xy, OUT, ROOM);
    OUT[0] = wf_tensor_error(CTX, WEFT_E_VALUE, "meshgrid: indexing is \"%.20s\", not ij or xy", S(1));
    return 1;
}

#endif
