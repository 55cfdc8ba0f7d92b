"""References of the section reduction; harness.py says how to add one."""
import numpy as np
import scipy.special

from harness import ALL, FLOATS, INTEGERS, NUMBERS, reference, with_dtype  # noqa: F401
from reference_basic import along, folded, one, reduced, two


def spread(d):
    x, keywords = reduced(low=1, values="moderate")(d)
    return x, dict(keywords, correction=d.choice((1, 0, 2, 0.5)))


def variance(x, dim=None, correction=1, keepdim=False):
    n = folded(x, dim)
    mean = np.mean(x, axis=dim, keepdims=True)
    return np.sum((x - mean) ** 2, axis=dim, keepdims=keepdim) / max(n - correction, 0)


@reference("var", draw=spread, n=folded, result="same")
def var(x, dim=None, correction=1, keepdim=False):
    return variance(x, dim, correction, keepdim)


@reference("std", draw=spread, n=folded, result="same")
def std(x, dim=None, correction=1, keepdim=False):
    return np.sqrt(variance(x, dim, correction, keepdim))


@reference("var_mean", draw=spread, n=folded, result="same")
def var_mean(x, dim=None, correction=1, keepdim=False):
    return variance(x, dim, correction, keepdim), np.mean(x, axis=dim, keepdims=keepdim)


@reference("std_mean", draw=spread, n=folded, result="same")
def std_mean(x, dim=None, correction=1, keepdim=False):
    return np.sqrt(variance(x, dim, correction, keepdim)), np.mean(x, axis=dim, keepdims=keepdim)


def one_axis(low=1, values=None):
    def draw(d):
        x = d.tensor(values=values, low=low)
        return x, {"dim": d.axis() if d.bool() else None, "keepdim": d.bool()}
    return draw


def picked(x, dim, keepdim, pick):
    """Values and indices along an axis, of which `pick` says where they stand."""
    line = np.atleast_1d(x)
    at = np.expand_dims(pick(line, dim), dim)
    v = np.take_along_axis(line, at, dim)
    if x.ndim == 0:
        return v.reshape(()), at.reshape(())
    return (v, at) if keepdim else (np.squeeze(v, dim), np.squeeze(at, dim))


@reference("max", draw=one_axis(), dtypes=ALL, result="same")
def max_(x, dim=None, keepdim=False):
    return np.max(x, keepdims=keepdim) if dim is None else picked(x, dim, keepdim, np.argmax)


@reference("min", draw=one_axis(), dtypes=ALL, result="same")
def min_(x, dim=None, keepdim=False):
    return np.min(x, keepdims=keepdim) if dim is None else picked(x, dim, keepdim, np.argmin)


def some_axis(d):
    x = d.tensor(min_rank=1, low=1)
    return x, {"dim": d.axis() if d.bool() else None, "keepdim": d.bool()}


@reference("aminmax", draw=some_axis, dtypes=NUMBERS, result="same")
def aminmax(x, dim=None, keepdim=False):
    return np.min(x, axis=dim, keepdims=keepdim), np.max(x, axis=dim, keepdims=keepdim)


@reference("any", draw=reduced(), dtypes=ALL, result="bool_")
def any_(x, dim=None, keepdim=False):
    return np.any(x, axis=dim, keepdims=keepdim)


@reference("all", draw=reduced(), dtypes=ALL, result="bool_")
def all_(x, dim=None, keepdim=False):
    return np.all(x, axis=dim, keepdims=keepdim)


@reference("count_nonzero", draw=reduced(), dtypes=ALL, result="int32")
def count_nonzero(x, dim=None, keepdim=False):
    return np.sum(x != 0, axis=dim, keepdims=keepdim)


@reference("logsumexp", draw=lambda d: reduced(d.choice(("any", "any", "special")), low=1)(d), n=folded, result="same")
def logsumexp(x, dim=None, keepdim=False):
    return scipy.special.logsumexp(x, axis=dim, keepdims=keepdim and x.ndim > 0)


def with_p(d):
    x, keywords = reduced(low=1, values="moderate")(d)
    return x, dict(keywords, p=d.choice((2, 1, 3, 0, 1.5, np.inf, -np.inf)))


@reference("norm", draw=with_p, n=lambda x, p=2, dim=None, keepdim=False: folded(x, dim), result="same")
def norm(x, p=2, dim=None, keepdim=False):
    size = np.abs(x)
    if np.isinf(p):
        return (np.max if p > 0 else np.min)(size, axis=dim, keepdims=keepdim)
    if p == 0:
        return np.sum(x != 0, axis=dim, keepdims=keepdim)
    return np.sum(size**p, axis=dim, keepdims=keepdim) ** (1 / p)


@reference("nansum", draw=with_dtype(reduced()), n=folded, dtypes=FLOATS + ("int32",), result="same")
def nansum(x, dim=None, keepdim=False, dtype=None):
    return np.nansum(x, axis=dim, keepdims=keepdim)


@reference("nanmean", draw=with_dtype(reduced(low=1)), n=folded, result="same")
def nanmean(x, dim=None, keepdim=False, dtype=None):
    return np.nanmean(x, axis=dim, keepdims=keepdim)


def length(x, dim, dtype=None):
    return x.shape[dim] if x.ndim else 1


@reference("cumsum", draw=with_dtype(along()), dtypes=NUMBERS, n=length)
def cumsum(x, dim, dtype=None):
    return np.cumsum(x, axis=dim)


@reference("cumprod", draw=with_dtype(along("moderate")), dtypes=NUMBERS, n=length)
def cumprod(x, dim, dtype=None):
    return np.cumprod(x, axis=dim)


@reference("logcumsumexp", draw=along("moderate"), n=length, result="same")
def logcumsumexp(x, dim):
    return np.logaddexp.accumulate(x, axis=dim)


def running(x, dim, better):
    """Each element replaces the extreme that it is not worse than; a NaN stays, but for another."""
    lines = np.moveaxis(x, dim, 0)
    values, index = lines.copy(), np.zeros(lines.shape, np.int64)
    for k in range(1, len(lines)):
        last = values[k - 1]
        takes = np.isnan(lines[k]) | (~np.isnan(last) & better(lines[k], last))
        values[k] = np.where(takes, lines[k], last)
        index[k] = np.where(takes, k, index[k - 1])
    return np.moveaxis(values, 0, dim), np.moveaxis(index, 0, dim)


@reference("cummax", draw=along(), dtypes=ALL, result="same")
def cummax(x, dim):
    return running(x, dim, np.greater_equal)


@reference("cummin", draw=along(), dtypes=ALL, result="same")
def cummin(x, dim):
    return running(x, dim, np.less_equal)


def differences(d):
    x, keywords = along("moderate")(d)
    return x, dict(keywords, n=d.choice((1, 0, 2)))


@reference("diff", draw=differences, dtypes=("float32", "float64", "int32", "bool_"), n=lambda x, n=1, dim=-1: 4 ** n, result="same")
def diff(x, n=1, dim=-1):
    return np.diff(x, n=min(n, x.shape[dim]), axis=dim)


def middle(line, dim):
    order = np.argsort(line, axis=dim, kind="stable")
    at = np.take(order, (line.shape[dim] - 1) // 2, axis=dim)
    return np.where(np.isnan(line).any(axis=dim), np.argmax(np.isnan(line), axis=dim), at)


def nanmiddle(line, dim):
    order, there = np.argsort(line, axis=dim, kind="stable"), np.sum(~np.isnan(line), axis=dim, keepdims=True)
    return np.squeeze(np.take_along_axis(order, np.maximum(there - 1, 0) // 2, axis=dim), dim)


@reference("median", draw=one_axis(), dtypes=NUMBERS, result="same")
def median(x, dim=None, keepdim=False):
    return picked(x.reshape(-1), 0, False, middle)[0] if dim is None else picked(x, dim, keepdim, middle)


@reference("nanmedian", draw=one_axis(), dtypes=NUMBERS, result="same")
def nanmedian(x, dim=None, keepdim=False):
    return picked(x.reshape(-1), 0, False, nanmiddle)[0] if dim is None else picked(x, dim, keepdim, nanmiddle)


def fractions(d):
    x = d.tensor(values="moderate", low=1, max_rank=5)
    q = d.tensor(() if d.bool() else (d.int(1, 4),), values="fraction")
    return x, q, {"dim": d.axis(len(d.first_shape)) if d.bool() else None, "keepdim": d.bool()}


@reference("quantile", draw=fractions, dtypes=("float32", "float64"), result="same",
           tolerance=lambda env: 16 * env["eps"] * (env["S"] + env["X"]) * max(env["a"].size, 4))
def quantile(x, q, dim=None, keepdim=False):
    return np.quantile(x, q, axis=dim if x.ndim else None, keepdims=keepdim)


@reference("trace", draw=lambda d: (d.tensor(min_rank=2, max_rank=2),), dtypes=FLOATS + ("int32",), n=lambda x: min(x.shape), result="same")
def trace(x):
    return np.trace(x)


def pair(d):
    a, b = two("moderate")(d)
    some = np.broadcast(a.exact(), b.exact()).size > 0  # nothing has no largest element
    return a, b, {"p": d.choice((2, 1, 3) + (np.inf,) * some)}


@reference("dist", draw=pair, n=lambda a, b, p=2: np.broadcast(a, b).size, result="promote",
           tolerance=lambda env: (env["n"] + 64) * env["eps"] * (env["S"] + 2 * env["X"] * env["n"]))
def dist(a, b, p=2):
    size = np.abs(a - b).reshape(-1)
    return np.max(size, initial=0) if np.isinf(p) else np.sum(size**p) ** (1 / p)


def similar(d):
    shape = d.shape(min_rank=1, low=1)
    a, b = d.tensor(shape, values="moderate"), d.tensor(shape, values="moderate")
    return a, b, {"dim": d.axis(len(shape))}


@reference("cosine_similarity", draw=similar, dtypes=("float32", "float64"), n=lambda a, b, dim=1: a.shape[dim], result="promote")
def cosine_similarity(a, b, dim=1):
    size = np.maximum(np.linalg.norm(a, axis=dim), 1e-8) * np.maximum(np.linalg.norm(b, axis=dim), 1e-8)
    return np.sum(a * b, axis=dim) / size


def normal(d):
    x, keywords = along("moderate", low=1)(d)
    return x, dict(keywords, p=d.choice((2, 1, 3)))


@reference("normalize", draw=normal, n=lambda x, p=2, dim=1: x.shape[dim], result="same")
def normalize(x, p=2, dim=1):
    return x / np.maximum(np.sum(np.abs(x) ** p, axis=dim, keepdims=True) ** (1 / p), 1e-12)
