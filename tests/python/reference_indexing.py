"""References of the section indexing; harness.py says how to add one."""
import numpy as np

from harness import ALL, FLOATS, INTEGERS, NUMBERS, Operand, reference  # noqa: F401
from reference_basic import along, one


# ---- scatter ----

def scattered(values="moderate", least=0):
    """x, an axis, an index no larger on the other axes, and its src."""
    def draw(d):
        x = d.tensor(min_rank=1, low=1, values=values)
        dim, shape = d.axis(), list(d.first_shape)
        shape = [n if k == dim % len(shape) else d.int(least, n) for k, n in enumerate(shape)]
        shape[dim] = d.int(least, 7)
        return x, dim, d.index(tuple(shape), d.first_shape[dim]), d.tensor(tuple(shape), values=values)
    return draw


def scatter_by(x, dim, index, src, meet):
    out = x.copy()
    for at in np.ndindex(index.shape):
        to = list(at)
        to[dim] = index[at]
        out[tuple(to)] = meet(out[tuple(to)], src[at])
    return out


def per_place(x, dim, index, *unused, **also_unused):
    return 1 + (index.shape[dim] if index.ndim else 1)


@reference("scatter", draw=scattered("any"), dtypes=ALL, result="same")
def scatter(x, dim, index, src):
    return scatter_by(x, dim, index, src, lambda a, b: b)


@reference("scatter_add", draw=scattered(), dtypes=NUMBERS, n=per_place, result="same")
def scatter_add(x, dim, index, src):
    return scatter_by(x, dim, index, src, lambda a, b: a + b)


def combined(d):
    kind = d.choice(("sum", "prod", "amax", "amin", "mean") if d.dtype in FLOATS else ("sum", "amax", "amin"))
    x, dim, index, src = scattered(d.choice(("any", "special")) if kind in ("amax", "amin") else "unit")(d)
    return x, dim, index, src, kind, {"include_self": d.bool()}


@reference("scatter_reduce", draw=combined, dtypes=FLOATS + ("int32", "uint8"), n=per_place, result="same")
def scatter_reduce(x, dim, index, src, reduce, include_self=True):
    meet = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce]
    touched = scatter_by(np.zeros(x.shape, np.int64), dim, index, np.ones(index.shape, np.int64), np.add)
    start = x
    if not include_self:
        low, high = (-np.inf, np.inf) if x.dtype.kind == "f" else (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
        start = np.where(touched > 0, {"sum": 0, "mean": 0, "prod": 1, "amax": low, "amin": high}[reduce], x)
    out = scatter_by(start, dim, index, src, meet)
    if reduce == "mean":
        out = out / np.maximum(touched + include_self, 1)
    return out


def sliced(values="moderate"):
    def draw(d):
        x = d.tensor(min_rank=1, low=1, values=values)
        dim, shape = d.axis(), list(d.first_shape)
        m = shape[dim] = d.int(1, 6)
        return x, dim, d.index((m,), d.first_shape[dim]), d.tensor(tuple(shape), values=values)
    return draw


def slices(x, dim, index, src, meet):
    out = np.moveaxis(x.copy(), dim, 0)
    for k, at in enumerate(index):
        out[at] = meet(out[at], np.moveaxis(src, dim, 0)[k])
    return np.moveaxis(out, 0, dim)


def with_alpha(d):
    return (*sliced()(d), {"alpha": d.choice((1, 2))})


@reference("index_add", draw=with_alpha, dtypes=FLOATS + ("int32",), n=lambda x, dim, index, src, alpha=1: 4 * (1 + len(index)), result="same")
def index_add(x, dim, index, src, alpha=1):
    return slices(x, dim, index, src, lambda a, b: a + alpha * b)


@reference("index_copy", draw=sliced("any"), dtypes=ALL, result="same")
def index_copy(x, dim, index, src):
    return slices(x, dim, index, src, lambda a, b: b)


def filled(d):
    x, dim, index, _ = sliced("any")(d)
    return x, dim, index, d.tensor((), values="small")


@reference("index_fill", draw=filled, dtypes=ALL, result="same")
def index_fill(x, dim, index, value):
    out = np.moveaxis(x.copy(), dim, 0)
    out[index] = value
    return np.moveaxis(out, 0, dim)


# ---- picking ----

@reference("take", draw=lambda d: (d.tensor(low=1), d.index(d.shape(max_rank=3), int(np.prod(d.first_shape)))), dtypes=ALL, result="same")
def take(x, index):
    return np.take(x.reshape(-1), index)


def along_axis(d):
    x = d.tensor(min_rank=1, low=1)
    dim = d.axis()
    shape = [d.int(1, 5) if k == dim % len(d.first_shape) else 1 if d.bool() else n for k, n in enumerate(d.first_shape)]
    return x, d.index(tuple(shape), d.first_shape[dim]), dim


@reference("take_along_dim", "take_along_axis", draw=along_axis, dtypes=ALL, result="same")
def take_along_axis(x, index, dim):
    return np.take_along_axis(x, index, dim)


def advanced(d):
    x = d.tensor(min_rank=1, max_rank=4, low=1)
    rank, common = len(d.first_shape), d.shape(max_rank=2)
    picks = [None if d.int(0, 2) == 0 else d.index(d.broadcast(common), d.first_shape[k]) for k in range(d.int(1, rank))]
    return x, picks


def at_places(indices):
    return tuple(slice(None) if i is None else i for i in indices)


@reference("index", draw=advanced, dtypes=ALL, result="same")
def index(x, indices):
    return x[at_places(indices)]


def put(d):
    x, picks = advanced(d)
    shape = np.empty(d.first_shape, bool)[at_places([p.exact() if p else None for p in picks])].shape
    return x, picks, d.tensor(d.broadcast(shape), values="moderate"), {"accumulate": d.bool()}


@reference("index_put", draw=put, dtypes=("float32", "float64", "int32"), n=lambda *a, **k: 32, values="moderate", result=lambda operands, accumulate: operands[0])
def index_put(x, indices, values, accumulate=False):
    out = x.copy()
    if accumulate:
        np.add.at(out, at_places(indices), np.broadcast_to(values, out[at_places(indices)].shape).copy())
    else:
        out[at_places(indices)] = values
    return out


# ---- where ----

@reference("nonzero", draw=lambda d: (d.tensor(values="small"), {"as_tuple": d.bool()}), dtypes=ALL, result="int32", evaluates=True)
def nonzero(x, as_tuple=False):
    if not as_tuple:
        return np.argwhere(x != 0)
    found = np.nonzero(np.atleast_1d(x))
    return found if len(found) > 1 else found[0]


@reference("nonzero_static", draw=lambda d: (d.tensor(values="small"), d.int(0, 9)), dtypes=ALL, result="int32")
def nonzero_static(x, size):
    out, places = np.full((size, x.ndim), -1), np.argwhere(x != 0)[:size]
    out[:len(places)] = places
    return out


def masked(d):
    shape = d.shape()
    return d.tensor(d.broadcast(shape)), d.tensor(shape, dtype="bool_")


@reference("masked_select", draw=masked, dtypes=ALL, result="same", evaluates=True)
def masked_select(x, mask):
    x, mask = np.broadcast_arrays(x, mask)
    return x[mask]


def masked_source(d):
    x = d.tensor()
    n = int(np.prod(d.first_shape))
    return x, d.tensor(d.broadcast(d.first_shape), dtype="bool_"), d.tensor((n + 1,))


@reference("masked_scatter", draw=masked_source, dtypes=ALL, result="same")
def masked_scatter(x, mask, source):
    out, mask = x.copy(), np.broadcast_to(mask, x.shape)
    out[mask] = source[:int(mask.sum())]
    return out


def drawn_unique(d):
    x = d.tensor(values="small")
    along = 0 not in d.first_shape and d.first_shape and d.bool()
    return x, {"return_inverse": True, "return_counts": True, "dim": d.axis() if along else None}


@reference("unique", draw=drawn_unique, dtypes=ALL, result="same", evaluates=True)
def unique(x, return_inverse=True, return_counts=True, dim=None):
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
    return values, inverse.reshape(x.shape if dim is None else x.shape[dim]), counts


def counted(d):
    n = d.int(0, 30)
    x = Operand(d.rng.integers(0, 9, n).astype(d.dtype), d.dtype, [])
    return x, d.tensor((n,), dtype="float32", values="moderate") if d.bool() else None, d.int(0, 12)


@reference("bincount", draw=counted, dtypes=("int32", "uint8", "int64"), n=lambda *a: 32, evaluates=True)
def bincount(x, weights, minlength):
    return np.bincount(x, weights, minlength)


# ---- order ----

def order(x, dim, descending=False):
    """Stable, NaN the largest."""
    x = np.atleast_1d(x)
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    back = np.flip(np.argsort(np.flip(x, dim), axis=dim, kind="stable"), dim)
    return x.shape[dim] - 1 - back


def sorting(d):
    x = d.tensor()
    return x, {"dim": d.axis(), "descending": d.bool()}


@reference("sort", draw=sorting, dtypes=ALL, result="same")
def sort(x, dim=-1, descending=False):
    at = order(x, dim, descending)
    return np.take_along_axis(np.atleast_1d(x), at, dim).reshape(x.shape), at.reshape(x.shape)


@reference("argsort", draw=sorting, dtypes=ALL, result="int32")
def argsort(x, dim=-1, descending=False):
    return order(x, dim, descending).reshape(x.shape)


def kth(d):
    x = d.tensor(min_rank=1, low=1)
    dim = d.axis()
    return x, d.int(1, d.first_shape[dim]), {"dim": dim, "keepdim": d.bool()}


@reference("kthvalue", draw=kth, dtypes=NUMBERS, result="same")
def kthvalue(x, k, dim=-1, keepdim=False):
    at = np.take(order(x, dim), [k - 1], axis=dim)
    v = np.take_along_axis(x, at, dim)
    return (v, at) if keepdim else (np.squeeze(v, dim), np.squeeze(at, dim))


def searched(d):
    sorted_ = Operand(np.sort(d.tensor((d.int(0, 20),), values="small").exact()).astype(d.dtype), d.dtype, [])
    d.first = None
    return sorted_, d.tensor(values="small"), {"right": d.bool()}


def searched_by_side(d):
    sorted_, x, right = searched(d)
    sorter = d.rng.permutation(sorted_.base.size).astype(np.int32)
    if d.bool():
        return sorted_, x, right
    unsorted = np.empty_like(sorted_.base)
    unsorted[sorter] = sorted_.base
    return Operand(unsorted, d.dtype, []), x, {"side": "right" if right["right"] else "left", "sorter": Operand(sorter, "int32", [])}


@reference("searchsorted", draw=searched_by_side, dtypes=("float32", "float64", "int32", "int64"), result="int32")
def searchsorted(sorted_, x, right=False, side=None, sorter=None):
    return np.searchsorted(sorted_, x, "right" if right else side or "left", sorter)


@reference("bucketize", draw=lambda d: (lambda s, x, k: (x, s, k))(*searched(d)), dtypes=("float32", "int32"), result="int32")
def bucketize(x, boundaries, right=False):
    return np.searchsorted(boundaries, x, "right" if right else "left")


@reference("histc", draw=lambda d: (d.tensor(values="small"), d.choice((1, 2, 4, 8)), -2.0, 2.0), dtypes=("float32", "float64"), result="same")
def histc(x, bins, low, high):
    return np.histogram(x, bins, (low, high))[0]


def sought(d):
    """Elements of the first among those that are sought, the ends of the range too."""
    x = d.tensor(values="small" if d.bool() else "any")
    n, flat = d.choice((0, 3, 70)), x.base.reshape(-1)
    test = d.tensor((n,), values="small")
    if n and flat.size and d.bool():
        test.steps, test.base = [], d.rng.choice(flat, n)
    return x, test, {"invert": d.bool()}


@reference("isin", draw=sought, dtypes=NUMBERS, result="bool_")
def isin(x, test, invert=False):
    return np.isin(x, test, invert=invert)
