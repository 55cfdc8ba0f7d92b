"""References of the section shape; harness.py says how to add one."""
import math

import numpy as np

from harness import ALL, NUMBERS, Operand, reference
from reference_basic import along, one, other_shape


def same(*names, draw, **options):
    """The elements of the operand in other places."""
    return reference(*names, draw=draw, dtypes=options.pop("dtypes", ALL), result="same", **options)


def plain(d, shape):
    """An operand that lies row-major."""
    x = d.tensor(shape)
    return Operand(x.view().copy(), x.dtype, [])


def drawn_view(d):
    shape = d.shape(low=1)
    return plain(d, shape), other_shape(d, math.prod(shape))


same("view", draw=drawn_view)(lambda x, size: x.reshape(size))


def drawn_as(d):
    shape = d.shape(low=1)
    return plain(d, shape), d.tensor(other_shape(d, math.prod(shape)), dtype="int32")


same("view_as", "reshape_as", draw=drawn_as)(lambda x, other: x.reshape(other.shape))


def drawn_flatten(d):
    x = d.tensor(windows=d.int(0, 3) == 0)
    first, last = sorted((d.axis() % max(len(d.first_shape), 1), d.axis() % max(len(d.first_shape), 1)))
    return x, {"start_dim": first, "end_dim": last - (len(d.first_shape) or 1) if d.bool() else last}


@same("flatten", draw=drawn_flatten)
def flatten(x, start_dim=0, end_dim=-1):
    if x.ndim == 0:
        return x.reshape(1)
    end_dim %= x.ndim
    return x.reshape(x.shape[:start_dim] + (math.prod(x.shape[start_dim:end_dim + 1]),) + x.shape[end_dim + 1:])


def drawn_unflatten(d):
    x = d.tensor(min_rank=1, max_rank=4, low=1)
    dim = d.axis()
    n = d.first_shape[dim]
    part = d.choice([k for k in range(1, n + 1) if n % k == 0])
    return x, dim, d.choice(((part, n // part), (-1, part), (part, -1, 1), (n,)))


@same("unflatten", draw=drawn_unflatten)
def unflatten(x, dim, sizes):
    dim %= x.ndim
    n = x.shape[dim]
    sizes = [n // -math.prod(sizes) if s == -1 else s for s in sizes]
    return x.reshape(x.shape[:dim] + tuple(sizes) + x.shape[dim + 1:])


same("ravel", draw=one())(np.ravel)


def drawn_movedim(d):
    x = d.tensor()
    rank = len(d.first_shape)
    n = d.int(0, rank)
    return x, [int(k) for k in d.rng.permutation(rank)[:n]], [int(k) - rank for k in d.rng.permutation(rank)[:n]]


same("movedim", "moveaxis", draw=drawn_movedim)(np.moveaxis)


def two_axes(d):
    x = d.tensor(min_rank=1)
    return x, d.axis(), d.axis()


same("swapaxes", "swapdims", draw=two_axes)(np.swapaxes)
same("t", draw=lambda d: d.tensor(max_rank=2))(np.transpose)


def drawn_squeeze(d):
    shape = tuple(1 if d.int(0, 2) == 0 else n for n in d.shape())
    return d.tensor(shape), {"dim": d.axes()}


@same("squeeze", draw=drawn_squeeze)
def squeeze(x, dim=None):
    if dim is None:
        return np.squeeze(x)
    dims = [k % max(x.ndim, 1) for k in ([dim] if isinstance(dim, int) else dim)]
    return np.squeeze(x, tuple(k for k in dims if x.ndim and x.shape[k] == 1))


def drawn_unsqueeze(d):
    x = d.tensor()
    return x, d.axis(len(d.first_shape) + 1)


same("unsqueeze", draw=drawn_unsqueeze)(np.expand_dims)


def drawn_broadcast(d):
    shape = d.shape()
    return d.tensor(d.broadcast(shape)), shape


same("broadcast_to", draw=drawn_broadcast)(np.broadcast_to)


def drawn_expand_as(d):
    shape = d.shape()
    return d.tensor(d.broadcast(shape)), d.tensor(shape, dtype="uint8")


same("expand_as", draw=drawn_expand_as)(lambda x, other: np.broadcast_to(x, other.shape))


def drawn_narrow(d):
    x = d.tensor(min_rank=1)
    dim = d.axis()
    n = d.first_shape[dim]
    start = d.int(0, n)
    return x, dim, start - n if d.bool() and start < n else start, d.int(0, n - start)


@same("narrow", draw=drawn_narrow)
def narrow(x, dim, start, length):
    start %= max(x.shape[dim], 1) if start < 0 else 10**9
    return np.take(x, np.arange(start, start + length), axis=dim)


def drawn_select(d):
    x = d.tensor(min_rank=1, low=1)
    dim = d.axis()
    n = d.first_shape[dim] or d.reject()
    return x, dim, d.int(-n, n - 1)


same("select", draw=drawn_select)(lambda x, dim, index: np.take(x, index, axis=dim))


def drawn_flip(d):
    x = d.tensor()
    axes = d.axes(none=False)
    return x, () if axes is None else axes


same("flip", draw=drawn_flip)(lambda x, dims: np.flip(x, dims))
same("fliplr", draw=lambda d: d.tensor(min_rank=2))(np.fliplr)
same("flipud", draw=lambda d: d.tensor(min_rank=1))(np.flipud)


def plane(d):
    rank = len(d.first_shape)
    a, b = (int(k) for k in d.rng.permutation(rank)[:2])
    return a - rank if d.bool() else a, b


def drawn_rot90(d):
    x = d.tensor(min_rank=2)
    return x, {"k": d.int(-5, 5), "dims": plane(d)}


same("rot90", draw=drawn_rot90)(lambda x, k, dims: np.rot90(x, k, dims))


def drawn_diagonal(d):
    x = d.tensor(min_rank=2)
    a, b = plane(d)
    return x, {"offset": d.int(-6, 6), "dim1": a, "dim2": b}


@same("diagonal", draw=drawn_diagonal)
def diagonal(x, offset, dim1, dim2):
    n, m = x.shape[dim1], x.shape[dim2]
    return np.diagonal(x, max(min(offset, m), -n), dim1, dim2)


@same("diag", draw=lambda d: (d.tensor(min_rank=1, max_rank=2), {"diagonal": d.int(-3, 3)}))
def diag(x, diagonal=0):
    return np.diag(x, diagonal) if x.ndim == 1 else np.diagonal(x, max(min(diagonal, x.shape[1]), -x.shape[0]))


def drawn_embed(d):
    x = d.tensor(min_rank=1, max_rank=4)
    rank = len(d.first_shape) + 1
    a, b = (int(k) for k in d.rng.permutation(rank)[:2])
    return x, {"offset": d.int(-3, 3), "dim1": a - rank if d.bool() else a, "dim2": b}


@same("diag_embed", draw=drawn_embed)
def diag_embed(x, offset, dim1, dim2):
    n = x.shape[-1] + abs(offset)
    y = np.zeros(x.shape[:-1] + (n, n), x.dtype)
    at = np.arange(x.shape[-1])
    y[..., at + max(-offset, 0), at + max(offset, 0)] = x
    return np.moveaxis(y, (-2, -1), (dim1, dim2))


def drawn_unfold(d):
    x = d.tensor(min_rank=1, max_rank=5)
    dim = d.axis()
    return x, dim, d.int(0, d.first_shape[dim]), d.int(1, 4)


@same("unfold", draw=drawn_unfold)
def unfold(x, dim, size, step):
    count = (x.shape[dim] - size) // step + 1
    at = np.arange(count)[:, None] * step + np.arange(size)
    return np.moveaxis(np.take(np.moveaxis(x, dim, -1), at, axis=-1), -2, dim % x.ndim)


same("atleast_1d", draw=one())(np.atleast_1d)
same("atleast_2d", draw=one())(np.atleast_2d)
same("atleast_3d", draw=one())(np.atleast_3d)


def drawn_repeat(d):
    x = d.tensor(max_rank=4)
    return x, tuple(d.int(0, 2) for _ in range(d.int(0, 1) + len(d.first_shape)))


same("repeat", draw=drawn_repeat)(np.tile)
same("tile", draw=lambda d: (d.tensor(max_rank=4), tuple(d.int(0, 3) for _ in range(d.int(0, 5)))))(np.tile)


def drawn_interleave(d):
    x = d.tensor()
    dim = d.axis() if d.first_shape and d.bool() else None
    if d.bool():
        return x, d.int(0, 3), {"dim": dim}
    n = math.prod(d.first_shape) if dim is None else d.first_shape[dim]
    counts = d.rng.integers(0, 4, n).astype(np.int32)
    return x, Operand(counts, "int32", []), {"dim": dim, "output_size": int(counts.sum()) if d.bool() else None}


same("repeat_interleave", draw=drawn_interleave)(lambda x, repeats, dim, output_size=None: np.repeat(x, repeats, axis=dim))


@reference("kron", draw=lambda d: (d.tensor(max_rank=5), d.tensor(d.shape(max_rank=5)[:2])), dtypes=NUMBERS, values="moderate", result="promote")
def kron(x, y):
    rank = max(x.ndim, y.ndim)
    x, y = x.reshape((1,) * (rank - x.ndim) + x.shape), y.reshape((1,) * (rank - y.ndim) + y.shape)
    z = np.multiply.outer(x, y).transpose([k for i in range(rank) for k in (i, i + rank)])
    return z.reshape([n * m for n, m in zip(x.shape, y.shape)])


def drawn_stack(d):
    parts = [d.tensor(max_rank=5)]
    parts += [d.tensor(d.first_shape) for _ in range(d.int(0, 3))]
    return parts, {"dim": d.axis(len(d.first_shape) + 1)}


same("stack", draw=drawn_stack)(lambda tensors, dim: np.stack(tensors, dim))


def drawn_beside(d):
    shape = d.shape(min_rank=1, max_rank=4)
    axis = 1 if len(shape) > 1 else 0
    return ([d.tensor(tuple(d.int(0, 4) if k == axis else n for k, n in enumerate(shape))) for _ in range(d.int(1, 3))],)


def drawn_above(d):
    shape = d.shape(max_rank=4)
    return ([d.tensor(tuple(d.int(0, 4) if k == 0 and len(shape) > 1 else n for k, n in enumerate(shape))) for _ in range(d.int(1, 3))],)


same("hstack", draw=drawn_beside)(np.hstack)
same("vstack", draw=drawn_above)(np.vstack)


def drawn_roll(d):
    x = d.tensor()
    if not d.first_shape or d.bool():
        return x, d.int(-9, 9), {"dims": None}
    n = d.int(1, 3)
    return x, [d.int(-9, 9) for _ in range(n)], {"dims": [d.axis() for _ in range(n)]}


same("roll", draw=drawn_roll)(lambda x, shifts, dims: np.roll(x, shifts, axis=dims))


def drawn_pad(d):
    mode = d.choice(("constant", "reflect", "replicate", "circular"))
    x = d.tensor(max_rank=4, low=0 if mode == "constant" else 1)
    pads = []
    for n in d.first_shape[::-1][:d.int(0, len(d.first_shape))]:
        most = {"constant": 3, "replicate": 3 if n else 0, "reflect": max(n - 1, 0), "circular": n}[mode]
        pads += [d.int(-(n // 2), most), d.int(-(n // 2), most)] if n > 1 and d.int(0, 4) == 0 and mode == "constant" else [d.int(0, most), d.int(0, most)]
    return x, pads, {"mode": mode, "value": d.choice((None, 1, 2))}


@same("pad", draw=drawn_pad)
def pad(x, pads, mode, value):
    if not pads:
        return x
    widths = [(0, 0)] * x.ndim
    for i in range(len(pads) // 2):
        widths[x.ndim - 1 - i] = (pads[2 * i], pads[2 * i + 1])
    x = x[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, widths))]
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    if mode == "constant":
        return np.pad(x, widths, constant_values=value or 0)
    return np.pad(x, widths, mode={"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


def drawn_shuffle(d):
    r = d.int(1, 3)
    c, h, w = d.int(0, 2), d.int(1, 3), d.int(0, 3)
    return d.tensor(d.shape(max_rank=2)[:1] + (c * r * r, h, w)), r


@same("pixel_shuffle", draw=drawn_shuffle)
def pixel_shuffle(x, r):
    *lead, c, h, w = x.shape
    n = len(lead)
    y = x.reshape(*lead, c // (r * r), r, r, h, w).transpose(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return y.reshape(*lead, c // (r * r), h * r, w * r)


def drawn_unshuffle(d):
    r = d.int(1, 3)
    return d.tensor(d.shape(max_rank=2)[:1] + (d.int(0, 2), d.int(1, 3) * r, d.int(0, 3) * r)), r


@same("pixel_unshuffle", draw=drawn_unshuffle)
def pixel_unshuffle(x, r):
    *lead, c, h, w = x.shape
    n = len(lead)
    y = x.reshape(*lead, c, h // r, r, w // r, r).transpose(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return y.reshape(*lead, c * r * r, h // r, w // r)


# ---- lists ----

def drawn_split(d):
    x = d.tensor(min_rank=1)
    dim = d.axis()
    n = d.first_shape[dim]
    first = d.int(0, n)
    return x, d.choice((max(first, 1, -(-n // 256)), [first, 0, n - first])), {"dim": dim}  # at most 256 results


@reference("split", draw=drawn_split, dtypes=ALL)
def split(x, parts, dim):
    n = x.shape[dim]
    cuts = list(range(parts, n, parts)) if isinstance(parts, int) else np.cumsum(parts)[:-1].tolist()
    return tuple(np.split(x, cuts, axis=dim))


@reference("chunk", draw=lambda d: (along()(d)[0], d.int(1, 5), {"dim": d.axis()}), dtypes=ALL)
def chunk(x, n, dim):
    have = x.shape[dim]
    size = -(-have // n)
    cuts = list(range(size, have, size)) if have else [0] * (n - 1)
    return tuple(np.split(x, cuts, axis=dim))


def drawn_tensor_split(d):
    x = d.tensor(min_rank=1)
    dim = d.axis()
    return x, d.choice((d.int(1, 5), sorted(d.int(0, 9) for _ in range(3)))), {"dim": dim}


reference("tensor_split", draw=drawn_tensor_split, dtypes=ALL)(lambda x, parts, dim: tuple(np.array_split(x, parts, axis=dim)))


def drawn_unbind(d):
    x = d.tensor(min_rank=1, low=1)
    return x, {"dim": d.axis()}


reference("unbind", draw=drawn_unbind, dtypes=ALL)(lambda x, dim: tuple(np.moveaxis(x, dim, 0)))


def drawn_meshgrid(d):
    return [d.tensor(d.shape(max_rank=1)) for _ in range(d.int(1, 4))], {"indexing": d.choice(("ij", "xy"))}


reference("meshgrid", draw=drawn_meshgrid, dtypes=ALL)(lambda tensors, indexing: tuple(np.meshgrid(*tensors, indexing=indexing)))
