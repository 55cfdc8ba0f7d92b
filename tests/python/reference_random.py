"""References of the section random: Philox 4x32-10 in NumPy, and the numbers that are made of its words, in float64.

harness.py says how to add one.
"""
import math

import numpy as np

from harness import FLOATS, NUMBERS, reference

LOW = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)


def philox(seed, offset, size):
    """Four columns of 32-bit words, a row for each of the values offset .. offset + size - 1 of a stream."""
    place = np.uint64(offset) + np.arange(size, dtype=np.uint64)
    c = [place & LOW, place >> SHIFT, np.zeros(size, np.uint64), np.zeros(size, np.uint64)]
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        left, right = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [right >> SHIFT ^ c[1] ^ np.uint64(key[0]), right & LOW, left >> SHIFT ^ c[3] ^ np.uint64(key[1]), left & LOW]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return [w.astype(np.float64) for w in c]


def stream(d, **more):
    return {"seed": d.int(0, 2**62), "offset": d.choice((0, 1, 2**32 - 7, 2**40 + 5)), **more}


def uniform_of(words, dtype, at=0):
    if dtype == "float64":
        return (np.floor(words[at] / 32) * 2.0**26 + np.floor(words[at + 1] / 64)) * 2.0**-53
    bits = {"float32": 24, "float16": 11, "bfloat16": 8}[dtype]
    return np.floor(words[0] / 2.0 ** (32 - bits)) * 2.0**-bits


def exponential_of(words, dtype):
    if dtype == "float64":
        return -np.log1p(-uniform_of(words, dtype))
    u = np.where(words[0] < 2**24, (words[0] + 1) * 2.0**-32, (np.floor(words[0] / 256) + 1) * 2.0**-24)
    return -np.log(u)


def normal_of(words, dtype):
    turns = uniform_of(words, dtype, 2) if dtype == "float64" else np.floor(words[1] / 256) * 2.0**-24
    quarter = np.round(turns * 4)
    rest = 2 * math.pi * (turns - quarter / 4)
    wave = np.where(quarter % 2 == 1, np.cos(rest), np.sin(rest)) * np.where(quarter % 4 >= 2, -1, 1)
    return np.sqrt(2 * exponential_of(words, dtype)) * wave


def words_of(shape, seed, offset):
    return [w.reshape(shape) for w in philox(seed, offset, math.prod(shape))]


def sized(d, *more, **keywords):
    return (d.shape(max_rank=3), *more, stream(d, dtype=d.choice(FLOATS), **keywords))


def wide(dtype):
    return "float64" if dtype == "float64" else "float32"


NORMAL = {"tolerance": lambda e: 8 * e["eps"] * e["S"] + 16 * 2.0**-53}

reference("rand", draw=sized)(lambda size, dtype, seed, offset: uniform_of(words_of(size, seed, offset), dtype))
reference("randn", draw=sized, **NORMAL)(lambda size, dtype, seed, offset: normal_of(words_of(size, seed, offset), dtype))
reference("exponential", draw=lambda d: sized(d, lambd=d.choice((1, 2, 0.25))))(
    lambda size, lambd, dtype, seed, offset: exponential_of(words_of(size, seed, offset), wide(dtype)) / lambd)
reference("uniform", draw=lambda d: sized(d, low=d.int(-4, 0) / 2, high=d.int(1, 5)), tolerance=lambda e: 4 * e["eps"] * (e["M"] + 8))(
    lambda size, low, high, dtype, seed, offset: low + (high - low) * uniform_of(words_of(size, seed, offset), wide(dtype)))


def drawn_randint(d):
    low = d.choice((0, -5, -2**31, 7))
    dtype = "int64" if d.int(0, 3) == 0 else "int32"
    if dtype == "int64" and d.bool():
        return *d.choice(((-2**63, 2**63 - 1), (-2**40, 2**40), (0, 2**63 - 1), (5, 2**33))), d.shape(max_rank=3), stream(d, dtype=dtype)
    return low, d.choice((low + 1, low + 10, 2**31 if low < 0 else low + 2**31 - 8)), d.shape(max_rank=3), stream(d, dtype=dtype)


@reference("randint", draw=drawn_randint)
def randint(low, high, size, dtype, seed, offset):
    return integers_of(low, high, size, seed, offset)


def integers_of(low, high, size, seed, offset):
    w = [x.astype(np.uint64) for x in words_of(size, seed, offset)]
    if high - low > 2**32:
        return np.array([(((int(a) << 32) + int(b)) * (high - low) >> 64) + low for a, b in zip(w[0].flat, w[1].flat)], np.int64).reshape(size)
    n = np.uint64(high - low)
    return ((w[0] * n + (w[1] * n >> SHIFT)) >> SHIFT).astype(np.int64) + low


@reference("randint_like", draw=lambda d: (d.tensor(), *d.choice(((100,), (-5, 5), (7, 127))), stream(d)), dtypes=("float32", "float16", "int32", "int64", "int8"),
           result="same")
def randint_like(x, *ends, seed, offset):
    return integers_of(*(ends if len(ends) == 2 else (0, *ends)), x.shape, seed, offset)




# The function does not see which float dtype the operand had: what depends on it draws f32 alone, or compares itself.
reference("rand_like", draw=lambda d: (d.tensor(), stream(d)), dtypes=("float32",), result="same")(
    lambda x, seed, offset: uniform_of(words_of(x.shape, seed, offset), "float32"))
reference("randn_like", draw=lambda d: (d.tensor(), stream(d)), dtypes=("float32", "float16"), result="same", **NORMAL)(
    lambda x, seed, offset: normal_of(words_of(x.shape, seed, offset), "float32"))


def drawn_normal(d):
    shape = d.shape(max_rank=4)
    return d.tensor(shape, values="moderate"), d.tensor(d.broadcast(shape), values="positive"), stream(d)


@reference("normal", draw=drawn_normal, dtypes=("float32", "float16"), tolerance=lambda e: 16 * e["eps"] * (e["S"] + np.abs(e["a"]) + 8 * np.abs(e["b"])))
def normal(mean, std, seed, offset):
    shape = np.broadcast_shapes(mean.shape, std.shape)
    return mean + std * normal_of(words_of(shape, seed, offset), "float32")


def drawn_bernoulli(d):
    p = d.tensor(values="unit")
    return p, stream(d)


@reference("bernoulli", draw=drawn_bernoulli, dtypes=("float32", "float16", "bfloat16"), result="same")
def bernoulli(p, seed, offset):
    return (uniform_of(words_of(p.shape, seed, offset), "float32") < p).astype(np.float64)


def drawn_dropout(d):
    return d.tensor(values="moderate"), {"p": d.choice((0, 0.25, 0.5, 1)), "training": d.int(0, 4) > 0, **stream(d)}


@reference("dropout", draw=drawn_dropout, dtypes=("float32", "float16", "bfloat16"), result="same")
def dropout(x, p, training, seed, offset):
    if not training:
        return x
    keep = uniform_of(words_of(x.shape, seed, offset), "float32") >= p
    return np.where(keep, x / (1 - p) if p < 1 else 0, 0)


def order(n, seed, offset):
    return np.argsort(-philox(seed, offset, n)[0], kind="stable")


reference("randperm", draw=lambda d: (d.int(0, 60), stream(d)), result="int32")(order)


def drawn_permutation(d):
    x = d.tensor(min_rank=1)
    return x, {"dim": d.axis(), **stream(d)}


reference("permutation", draw=drawn_permutation, dtypes=NUMBERS, result="same")(
    lambda x, dim, seed, offset: np.take(x, order(x.shape[dim], seed, offset), axis=dim))


def drawn_multinomial(d):
    shape = d.shape(min_rank=1, max_rank=2, low=1)
    replacement = d.bool()
    return d.tensor(shape, values="positive"), d.int(1, 9 if replacement else shape[-1]), {"replacement": replacement, **stream(d)}


def compare_draws(got, want, case):
    """Rounding may change the order of two that are close: the indices are checked for what they are, and most for where."""
    index, C = got.numpy(), case.arguments[0].view().shape[-1]
    assert index.dtype == np.int32 and index.shape == want.shape and np.all((index >= 0) & (index < C))
    if not case.keywords["replacement"]:
        assert all(len(set(row)) == len(row) for row in index.reshape(-1, index.shape[-1]).tolist())
    assert np.mean(index != want) <= 0.1 or index.size < 20 and np.sum(index != want) <= 2


@reference("multinomial", draw=drawn_multinomial, dtypes=("float32",), compare=compare_draws)
def multinomial(p, n, replacement, seed, offset):
    if replacement:
        sums = np.cumsum(p, axis=-1)
        t = uniform_of(words_of(p.shape[:-1] + (n,), seed, offset), "float64") * sums[..., -1:]
        return np.sum(sums[..., None, :] <= t[..., None], axis=-1)
    return np.argsort(-p / exponential_of(words_of(p.shape, seed, offset), "float64"), axis=-1, kind="stable")[..., :n]
