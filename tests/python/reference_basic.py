"""References of the section basic, and drawing patterns that other sections use."""
import math

import numpy as np
import scipy.special

from harness import ALL, FLOATS, INTEGERS, LARGEST, NUMBERS, UNIT, numpy_type, promoted, reference, with_dtype


def one(values=None):
    """A tensor."""
    return lambda d: d.tensor(values=values)


def two(values=None, other=None):
    """Two tensors that broadcast."""
    def draw(d):
        shape = d.shape()
        if d.bool():
            return d.tensor(shape, values=values), d.tensor(d.broadcast(shape), values=other or values)
        return d.tensor(d.broadcast(shape), values=values), d.tensor(shape, values=other or values)
    return draw


def reduced(values=None, min_rank=0, low=0):
    """A tensor, axes and keepdim."""
    def draw(d):
        x = d.tensor(values=values, min_rank=min_rank, low=low)
        return x, {"dim": d.axes(), "keepdim": d.bool()}
    return draw


def along(values=None, low=0):
    """A tensor of rank 1 or more, and an axis."""
    def draw(d):
        x = d.tensor(values=values, min_rank=1, low=low)
        return x, {"dim": d.axis()}
    return draw


def folded(x, dim=None, keepdim=False, **unused):
    axes = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return max(1, math.prod(x.shape[k] for k in axes))


def with_alpha(d):
    a, b = two()(d)
    return a, b, {"alpha": d.choice((1, 2, -0.5)) if d.dtype in FLOATS else 1}


@reference("add", draw=with_alpha, dtypes=NUMBERS, result="promote")
def add(a, b, alpha=1):
    return a + alpha * b


@reference("sub", draw=with_alpha, dtypes=NUMBERS, result="promote")
def sub(a, b, alpha=1):
    return a - alpha * b


reference("mul", draw=two(), dtypes=NUMBERS, result="promote")(lambda a, b: a * b)


def drawn_div(d):
    a, b = two()(d)
    mode = d.choice((None, None, "trunc", "floor"))
    if mode and a.dtype in FLOATS and (a.dtype != "float64" or b.dtype != "float64"):
        mode = None  # the quotient is rounded before it becomes whole
    return a, b, {"rounding_mode": mode}


@reference("div", draw=drawn_div, dtypes=NUMBERS, result=lambda operands, rounding_mode: promoted(operands, rounding_mode is None))
def div(a, b, rounding_mode=None):
    if rounding_mode is None:
        return np.divide(a, b)
    if a.dtype.kind != "f" and b.dtype.kind != "f":
        q = np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b)))
        return q + (rounding_mode == "trunc") * ((q < 0) & (q * b != a) & (b != 0))
    return np.trunc(a / b) if rounding_mode == "trunc" else np.floor_divide(a, b)


def drawn_pow(d):
    a, b = two("positive", "unit")(d)
    return a, b


reference("pow", draw=drawn_pow, result="promote", tolerance=lambda e: 16 * e["eps"] * e["S"])(lambda a, b: np.power(a, b))
reference("maximum", draw=two(), dtypes=NUMBERS, result="promote")(np.maximum)
reference("minimum", draw=two(), dtypes=NUMBERS, result="promote")(np.minimum)
for _name, _f in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}.items():
    reference(_name, draw=two(), dtypes=NUMBERS, result="bool_")(_f)


def drawn_where(d):
    shape = d.shape()
    return d.tensor(d.broadcast(shape), dtype="bool_"), d.tensor(shape), d.tensor(d.broadcast(shape))


reference("where", draw=drawn_where, dtypes=NUMBERS)(np.where)
reference("neg", draw=one(), dtypes=FLOATS + ("int32", "int8", "int64"), result="same")(np.negative)
reference("abs", draw=one(), dtypes=FLOATS + ("int32", "int8", "int64"), result="same")(np.abs)
reference("exp", draw=one(), result="same")(np.exp)
reference("log", draw=one(), result="same", tolerance=lambda e: 4 * e["eps"] * e["S"] + e["eps"])(np.log)
reference("sqrt", draw=one(), result="same")(np.sqrt)
reference("rsqrt", draw=one(), result="same")(lambda x: 1 / np.sqrt(x))
reference("sin", draw=one("moderate"), result="same")(np.sin)
reference("cos", draw=one("moderate"), result="same")(np.cos)
reference("tanh", draw=one(), result="same")(np.tanh)
reference("erf", draw=one(), result="same")(scipy.special.erf)
reference("floor", draw=one(), dtypes=NUMBERS, result="same")(np.floor)


def sigmoid_of(x):
    """scipy's expit is 0 where e^-x overflows, before the result is."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1 + e)


def times(x, y):
    """x * y where y underflows to 0 before x is infinite."""
    return np.where(np.isneginf(x), np.nan, x * y)


reference("sigmoid", draw=one(), result="same")(sigmoid_of)
reference("silu", draw=one("finite"), result="same")(lambda x: x * sigmoid_of(x))


@reference("gelu", draw=lambda d: (d.tensor(values="finite"), {"approximate": d.choice(("none", "tanh"))}), result="same")
def gelu(x, approximate="none"):
    if approximate == "none":
        return x * scipy.special.ndtr(x)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@reference("relu", draw=one(), dtypes=NUMBERS, result="same")
def relu(x):
    return np.where(np.isnan(x), x, np.maximum(x, 0))


def near_limits(dtype, to):
    """Floats around both ends of an integer dtype and around 0: half a unit, a unit, and one step of the float to either side."""
    found = [0.0, -0.0, 0.5, -0.5, 0.99, -0.99, np.inf, -np.inf, np.nan, LARGEST[dtype], -LARGEST[dtype]]
    for limit in (float(np.iinfo(to).min), float(np.iinfo(to).max)):
        found += [limit * scale + more for scale in (1, 1 + 2 * UNIT[dtype], 1 - 2 * UNIT[dtype], 2) for more in (0, -1, -0.5, 0.5, 1)]
    with np.errstate(over="ignore"):
        return np.array(found).astype(numpy_type(dtype))


def drawn_cast(d):
    if d.bool():
        d.dtype, to = d.choice(FLOATS), d.choice(INTEGERS)
        x = d.tensor(min_rank=1, low=1)
        x.base = d.rng.choice(near_limits(d.dtype, to), x.base.shape)
        return x, to
    return d.tensor(), d.choice(ALL)


@reference("cast", draw=drawn_cast, dtypes=ALL)
def cast(x, dtype):
    if dtype == "bool_":
        return x != 0
    if dtype in INTEGERS and x.dtype.kind == "f":
        info = np.iinfo(dtype)
        low, high = float(info.min), float(info.max)
        whole = np.trunc(np.where(np.isnan(x), 0, x))
        inside = np.where((whole > low) & (whole < high), whole, 0).astype(np.int64)
        return np.where(whole <= low, info.min, np.where(whole >= high, info.max, inside))
    return x.astype(np.float64) if dtype in FLOATS else x


@reference("sum", draw=with_dtype(reduced()), dtypes=FLOATS + ("int32", "int64"), n=folded)
def sum_(x, dim=None, keepdim=False, dtype=None):
    return np.sum(x, axis=dim, keepdims=keepdim)


@reference("mean", draw=with_dtype(reduced()), n=folded, result="same")
def mean(x, dim=None, keepdim=False, dtype=None):
    return np.mean(x, axis=dim, keepdims=keepdim)


@reference("prod", draw=with_dtype(reduced("unit")), n=folded, result="same")
def prod(x, dim=None, keepdim=False, dtype=None):
    return np.prod(x, axis=dim, keepdims=keepdim)


@reference("amax", draw=reduced(low=1), dtypes=NUMBERS, result="same")
def amax(x, dim=None, keepdim=False):
    return np.max(x, axis=dim, keepdims=keepdim)


@reference("amin", draw=reduced(low=1), dtypes=NUMBERS, result="same")
def amin(x, dim=None, keepdim=False):
    return np.min(x, axis=dim, keepdims=keepdim)


def drawn_arg(d):
    x = d.tensor(low=1, values=d.choice(("any", "small")))
    return x, {"dim": None if d.bool() else d.axis(), "keepdim": d.bool()}


@reference("argmax", draw=drawn_arg, dtypes=NUMBERS, result="int32")
def argmax(x, dim=None, keepdim=False):
    return np.argmax(x, axis=dim if x.ndim else None, keepdims=keepdim)


@reference("argmin", draw=drawn_arg, dtypes=NUMBERS, result="int32")
def argmin(x, dim=None, keepdim=False):
    return np.argmin(x, axis=dim if x.ndim else None, keepdims=keepdim)


def other_shape(d, size):
    """Extents with that product."""
    shape = []
    while size > 1 and d.int(0, 3):
        n = d.choice([k for k in range(1, size + 1) if size % k == 0])
        shape.append(n)
        size //= n
    return tuple(shape[:6]) + ((size * math.prod(shape[6:]),) if size * math.prod(shape[6:]) != 1 or d.bool() else ())


def drawn_reshape(d):
    x = d.tensor(low=1, windows=d.int(0, 3) == 0)
    if d.int(0, 3) == 0:  # one axis: every pair of axes must join, or be copied
        return x, (-1,)
    shape = list(other_shape(d, math.prod(d.first_shape)))
    if shape and d.bool():
        shape[d.int(0, len(shape) - 1)] = -1
    return x, tuple(shape)


reference("reshape", draw=drawn_reshape, dtypes=ALL, result="same")(lambda x, shape: np.reshape(x, shape))


def drawn_permute(d):
    x = d.tensor()
    rank = len(d.first_shape)
    return x, tuple(int(k) - rank if d.bool() else int(k) for k in d.rng.permutation(rank))


reference("permute", draw=drawn_permute, dtypes=ALL, result="same")(lambda x, dims: np.transpose(x, [k % x.ndim for k in dims]))


def drawn_transpose(d):
    x = d.tensor(min_rank=1)
    return x, d.axis(), d.axis()


reference("transpose", draw=drawn_transpose, dtypes=ALL, result="same")(lambda x, i, j: np.swapaxes(x, i, j))


def drawn_slice(d):
    x = d.tensor(min_rank=1)
    step = d.choice((1, 1, 2, 3, -1, -2))
    return x, {"dim": d.axis(), "start": d.choice((None, *range(-9, 10))), "end": d.choice((None, *range(-9, 10))), "step": step}


@reference("slice", draw=drawn_slice, dtypes=ALL, result="same")
def slice_(x, dim=0, start=None, end=None, step=1):
    index = [slice(None)] * x.ndim
    index[dim] = slice(start, end, step)
    return x[tuple(index)]


def drawn_expand(d):
    shape = d.shape(max_rank=5)
    x = d.tensor(tuple(1 if d.bool() else n for n in shape))
    size = [-1 if n == m and d.bool() else n for n, m in zip(shape, d.first_shape)]
    return x, ((d.int(0, 3),) if d.bool() else ()) + tuple(size)


@reference("expand", draw=drawn_expand, dtypes=ALL, result="same")
def expand(x, size):
    more = len(size) - x.ndim
    return np.broadcast_to(x, [x.shape[i - more] if n == -1 else n for i, n in enumerate(size)])


reference("contiguous", draw=one(), dtypes=ALL, result="same")(lambda x: x)


def drawn_matmul(d):
    m, k, n = d.int(0, 9), d.int(0, 20), d.int(0, 9)
    batch = d.shape(max_rank=2)
    how = d.int(0, 4)
    if how == 0:
        return d.tensor((k,)), d.tensor((k,))
    if how == 1:
        return d.tensor(batch + (m, k)), d.tensor((k,))
    if how == 2:
        return d.tensor((k,)), d.tensor(batch + (k, n))
    return d.tensor(batch + (m, k)), d.tensor(d.broadcast(batch) + (k, n))


reference("matmul", draw=drawn_matmul, values="moderate", n=lambda a, b: max(1, a.shape[-1]), result="promote")(np.matmul)


def drawn_linear(d):
    i, o = d.int(0, 20), d.int(0, 9)
    x, w = d.tensor(d.shape(max_rank=3) + (i,)), d.tensor((o, i))
    return x, w, d.tensor((o,)) if d.bool() else None


@reference("linear", draw=drawn_linear, values="moderate", n=lambda x, w, bias=None: max(1, x.shape[-1]),
           tolerance=lambda e: (e["n"] + 4) * e["eps"] * (np.matmul(np.abs(e["a"]), np.abs(e["b"]).T) + np.abs(e.get("c", 0))))
def linear(x, weight, bias=None):
    return x @ weight.T + (0 if bias is None else bias)


@reference("softmax", draw=along(low=1), n=lambda x, dim: x.shape[dim], result="same")
def softmax(x, dim=-1):
    return scipy.special.softmax(x, axis=dim)


@reference("log_softmax", draw=along(low=1), n=lambda x, dim: x.shape[dim], result="same")
def log_softmax(x, dim=-1):
    """As softmax where it is infinite: SciPy's own is not NaN there."""
    shifted = x - np.max(x, axis=dim, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=dim, keepdims=True))


def drawn_norm(d, bias):
    x = d.tensor(min_rank=1, low=1)
    tail = d.first_shape[len(d.first_shape) - d.int(1, len(d.first_shape)):]
    vectors = [d.tensor(tail) if d.bool() else None for _ in range(1 + bias)]
    return (x, tail, *vectors, {"eps": d.float(0.01, 0.5)})


def trailing(x, shape):
    return tuple(range(x.ndim - len(shape), x.ndim))


@reference("rms_norm", draw=lambda d: drawn_norm(d, False), values="moderate", n=lambda x, shape, *a, **k: math.prod(shape))
def rms_norm(x, normalized_shape, weight=None, eps=None):
    y = x / np.sqrt(np.mean(x * x, axis=trailing(x, normalized_shape), keepdims=True) + eps)
    return y if weight is None else y * weight


@reference("layer_norm", draw=lambda d: drawn_norm(d, True), values="unit",
           tolerance=lambda e: (e["n"] + 16) * e["eps"] * (e["S"] + 32 * e["M"] + 16 * e["X"]), n=lambda x, shape, *a, **k: math.prod(shape))
def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    axes = trailing(x, normalized_shape)
    mean = np.mean(x, axis=axes, keepdims=True)
    y = (x - mean) / np.sqrt(np.mean((x - mean) ** 2, axis=axes, keepdims=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def drawn_rope(d):
    t, size = d.int(1, 5), 2 * d.int(1, 4)
    x = d.tensor(d.shape(max_rank=2, low=1) + (t, size))
    dim = d.choice((0, size, 2))
    return x, d.index((t,), 30) if False else None, {"dim": dim, "base": d.choice((10000.0, 500.0)), "scale": d.choice((1.0, 0.5)), "interleaved": d.bool()}


@reference("rope", draw=drawn_rope, values="moderate", result="same")
def rope(x, positions=None, dim=0, base=10000.0, scale=1.0, interleaved=False):
    dim = dim or x.shape[-1]
    half = dim // 2
    angle = np.arange(x.shape[-2])[:, None] * scale * base ** (-np.arange(half) * 2.0 / dim)
    cos, sin = np.cos(angle), np.sin(angle)
    y = x.copy()
    first, second = (slice(0, dim, 2), slice(1, dim, 2)) if interleaved else (slice(0, half), slice(half, dim))
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


def drawn_attention(d):
    b, h, group = d.int(1, 2), d.int(1, 2), d.int(1, 2)
    tq, tk, size, width = d.int(1, 5), d.int(1, 7), d.int(1, 8), d.choice((None, 3))
    q, k, v = d.tensor((b, h * group, tq, size)), d.tensor((b, h, tk, size)), d.tensor((b, h, tk, width or size))
    form = d.choice((None, (tq, tk), (b, 1, tq, tk), (b, h * group, tq, tk), (1, h * group, 1, tk)))
    mask = None if form is None else d.tensor(form, dtype="bool_") if d.bool() else d.tensor(form)
    more = {name: d.tensor((h * group,)) for name in ("alibi_slopes", "sinks") if d.int(0, 3) == 0}
    if d.bool():
        more |= {"window_left": d.int(-1, 4), "window_right": d.int(-1, 4)}
    return q, k, v, {"attn_mask": mask, "is_causal": d.bool(), "scale": d.choice((None, 0.5)), "softcap": d.choice((0.0, 0.0, 0.75)), **more}


@reference("scaled_dot_product_attention", draw=drawn_attention, values="unit", dtypes=("float32", "float16", "bfloat16"),
           n=lambda q, k, v, **kw: k.shape[-2] + q.shape[-1])
def attention(q, k, v, attn_mask=None, is_causal=False, scale=None, window_left=-1, window_right=-1, softcap=0.0, alibi_slopes=None, sinks=None):
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    s = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    tq, tk = s.shape[-2:]
    distance = np.arange(tk) - (tk - tq + np.arange(tq))[:, None]
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if alibi_slopes is not None:
        s = s + alibi_slopes[:, None, None] * distance
    hidden = np.zeros((tq, tk), bool)
    if is_causal:
        hidden |= distance > 0
    if window_left >= 0:
        hidden |= distance < -window_left
    if window_right >= 0:
        hidden |= distance > window_right
    if attn_mask is not None:
        s = np.where(attn_mask, s, -np.inf) if attn_mask.dtype == bool else s + attn_mask
    s = np.where(hidden, -np.inf, s)
    top = np.max(s, axis=-1, keepdims=True)
    if sinks is not None:
        top = np.maximum(top, sinks[:, None, None])
    p = np.where(np.isneginf(top), 0, np.exp(s - np.where(np.isneginf(top), 0, top)))
    total = p.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks[:, None, None] - top)
    return np.where(total == 0, 0, p / np.where(total == 0, 1, total)) @ v


def drawn_index_select(d):
    x = d.tensor(min_rank=1, low=1)
    dim = d.axis()
    return x, dim, d.index((d.int(0, 6),), d.first_shape[dim])


reference("index_select", draw=drawn_index_select, dtypes=ALL, result="same")(lambda x, dim, index: np.take(x, index, axis=dim))


def drawn_embedding(d):
    rows = d.int(1, 9)
    weight = d.tensor((rows, d.int(0, 7)))
    return d.index(d.shape(max_rank=3), rows), weight


reference("embedding", draw=drawn_embedding, result=lambda operands: operands[1])(lambda index, weight: weight[index])


def drawn_gather(d):
    x = d.tensor(min_rank=1, low=1)
    dim = d.axis()
    shape = [n if k == dim % len(d.first_shape) else d.int(0, n) for k, n in enumerate(d.first_shape)]
    shape[dim] = d.int(0, 6)
    return x, dim, d.index(tuple(shape), d.first_shape[dim])


@reference("gather", draw=drawn_gather, dtypes=ALL, result="same")
def gather(x, dim, index):
    part = tuple(slice(None) if k == dim % x.ndim else slice(0, n) for k, n in enumerate(index.shape))
    return np.take_along_axis(x[part], index, axis=dim)


def drawn_cat(d):
    first = d.tensor(min_rank=1)
    dim, shape = d.axis(), list(d.first_shape)
    parts = [first]
    for _ in range(d.int(0, 3)):
        shape[dim] = d.int(0, 4)
        parts.append(d.tensor(tuple(shape)))
    return parts, {"dim": dim}


reference("cat", draw=drawn_cat, dtypes=ALL)(lambda tensors, dim=0: np.concatenate(tensors, axis=dim))


def drawn_update(d):
    x = d.tensor(min_rank=1, low=1)
    dim, shape = d.axis(), list(d.first_shape)
    size = d.int(0, shape[dim])
    start = d.int(0, shape[dim] - size)
    shape[dim] = size
    from harness import Operand
    return x, d.tensor(tuple(shape)), dim, Operand(np.array(start, np.int32), "int32", [])


@reference("slice_update", draw=drawn_update, dtypes=FLOATS + ("int32",), result="same")
def slice_update(x, src, dim, start):
    y, at = x.copy(), [slice(None)] * x.ndim
    at[dim] = slice(int(start), int(start) + src.shape[dim])
    y[tuple(at)] = src
    return y


def drawn_topk(d):
    x = d.tensor(min_rank=1, low=1)
    return x, d.int(1, d.first_shape[-1])


def compare_topk(got, want, case):
    values, index = got[0].numpy().astype(np.float64), got[1].numpy()
    x = case.arguments[0].exact()
    assert np.array_equal(values, want, equal_nan=True), f"{values.tolist()} not {want.tolist()}"
    assert np.array_equal(np.take_along_axis(x, index.astype(np.int64), -1), values, equal_nan=True)
    assert all(len(set(row)) == len(row) for row in index.reshape(-1, index.shape[-1]).tolist())


@reference("topk", draw=drawn_topk, dtypes=FLOATS + ("int32", "uint8"), compare=compare_topk)
def topk(x, k):
    """NaN is larger than all."""
    return np.flip(np.sort(x, axis=-1), -1)[..., :k]
