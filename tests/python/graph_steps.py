"""Steps of random graphs (graph_fuzz.py): what weft is asked for, what NumPy says it is, and how far from that the result may be.

A Value holds the exact result in float64 (int64 for integers) and a bound of the error, element by element. Bounds come from the unit
roundoff of dtypes, from the lengths of sums and from the bounds of operations (op.def), and are carried through each step by its
derivative. What is exact stays exact: multiples of 1/4 that are added are compared bit for bit. 16-bit floats may be rounded at each step or
only where they are stored, and the bound allows both. A step that would have to decide between two near numbers (comparing, rounding
to integers, the place of the largest), or whose values grow too large, does nothing.
"""
import random

import numpy as np

import weft as wf
from harness import FLOATS, SMALLEST_NORMAL, UNIT, numpy_type

LARGEST_VALUE = 3000.0   # 16-bit floats hold it, and sums of a few thousand
LARGEST_ERROR = 0.02     # relative to the largest value: what is vaguer says nothing
MAX_ELEMENTS = 6000
ops = wf._weft.ops


class Skip(Exception):
    """This step cannot be done here."""


class Value:
    __slots__ = ("exact", "err", "dtype", "name", "tensor")

    def __init__(self, exact, err, dtype, name, tensor):
        self.exact, self.err, self.dtype, self.name, self.tensor = exact, err, dtype, name, tensor

    @property
    def shape(self):
        return self.exact.shape

    @property
    def is_float(self):
        return self.dtype in FLOATS


class Call:
    """One line of the program: values[at] = wf.NAME(..)."""
    __slots__ = ("at", "name", "args", "keywords", "pick")

    def __init__(self, at, name, args, keywords, pick=None):
        self.at, self.name, self.args, self.keywords, self.pick = at, name, args, keywords, pick


def unit(dtype):
    """Of the numbers that are computed with."""
    return UNIT["float64"] * 4 if dtype == "float64" else UNIT["float32"]


def exact_sum(a, err, axis):
    """Are all partial sums exact in float32, in any order?"""
    if np.any(err):
        return False
    scaled = a * 4096
    return bool(np.all(scaled == np.round(scaled)) and np.sum(np.abs(scaled), axis=axis, keepdims=True).max(initial=0) < 2**24)


# name: f, derivative(a, e), what its evaluation adds (a, r) in units, where it is defined (a, e); op.def has the same bounds
UNARY = {
    "neg": (np.negative, lambda a, e: 1, lambda a, r: 0, None),
    "abs": (np.abs, lambda a, e: 1, lambda a, r: 0, None),
    "relu": (lambda a: np.maximum(a, 0), lambda a, e: 1, lambda a, r: 0, None),
    "square": (np.square, lambda a, e: 2 * np.abs(a) + e, lambda a, r: r, None),
    "exp": (np.exp, lambda a, e: np.exp(a + e), lambda a, r: 4 * r, lambda a, e: np.abs(a) < 6),
    "tanh": (np.tanh, lambda a, e: 1, lambda a, r: 6 * np.abs(r), None),
    "sigmoid": (lambda a: 1 / (1 + np.exp(-a)), lambda a, e: 0.25, lambda a, r: 8 * r, lambda a, e: np.abs(a) < 50),
    "silu": (lambda a: a / (1 + np.exp(-a)), lambda a, e: 1.1, lambda a, r: 10 * np.abs(r), lambda a, e: np.abs(a) < 50),
    "sin": (np.sin, lambda a, e: 1, lambda a, r: 4, lambda a, e: np.abs(a) < 50),
    "cos": (np.cos, lambda a, e: 1, lambda a, r: 4, lambda a, e: np.abs(a) < 50),
    "sqrt": (np.sqrt, lambda a, e: 0.5 / np.sqrt(a - e), lambda a, r: 3 * r, lambda a, e: a - e > 0.01),
    "rsqrt": (lambda a: 1 / np.sqrt(a), lambda a, e: 0.5 * (a - e) ** -1.5, lambda a, r: 4 * r, lambda a, e: a - e > 0.05),
    "reciprocal": (lambda a: 1 / a, lambda a, e: (np.abs(a) - e) ** -2.0, lambda a, r: 3 * np.abs(r), lambda a, e: np.abs(a) - e > 0.05),
    "log1p": (np.log1p, lambda a, e: 1 / (1 + a - e), lambda a, r: 4 * np.abs(r), lambda a, e: a - e > -0.9),
}
EXACT_UNARY = ("neg", "abs", "relu", "square")
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum, "div": np.divide,
          "bitwise_and": np.bitwise_and, "bitwise_xor": np.bitwise_xor}
COMPARE = {"ge": np.greater_equal, "lt": np.less, "eq": np.equal, "ne": np.not_equal}


class Graph:
    """Interprets a program: builds tensors on a device, and what they have to be."""

    def __init__(self, device, extents, data_seed):
        self.device, self.extents, self.data_seed = device, extents, data_seed
        self.values, self.calls, self.evaluated = [], [], set()

    # ---- how steps are made ----

    def step(self, kind, seed, backs, fine):
        """One step; values grows by a Value, or None where it cannot be done. What is drawn from self.fine keeps shapes as they are."""
        self.r, self.backs, self.seed, self.fine = random.Random(seed), list(backs), seed, random.Random(seed + fine)
        self.values.append(None)
        try:
            with np.errstate(all="ignore"):
                getattr(self, kind)()
        except Skip:
            pass

    def pick(self, suits=lambda v: True):
        """An earlier value, most often one of the newest."""
        live = [v for v in self.values if v is not None]
        if not live:
            raise Skip
        first = max(len(live) - 1 - self.backs.pop(0), 0)
        for k in range(len(live)):
            v = live[(first - k) % len(live)]
            if suits(v):
                return v
        raise Skip

    def axis(self, v):
        if not v.exact.ndim:
            raise Skip
        return self.r.randrange(v.exact.ndim)

    def call(self, name, *args, exact, err=0.0, pick=None, **keywords):
        """Ask weft, and keep what is right."""
        at = len(self.values) - 1
        if exact.size > MAX_ELEMENTS or exact.ndim > 6:
            raise Skip
        call = Call(at, name, args, keywords, pick)
        tensor = play(call, lambda v: v.tensor)
        dtype = tensor.dtype.name
        if dtype not in FLOATS:
            exact = exact.astype(numpy_type(dtype)).astype(bool if dtype == "bool_" else np.int64)
            err = 0.0
        else:
            exact = np.asarray(exact, np.float64)
            err = self.rounded(exact, err, dtype)
        if exact.ndim == 0:
            exact = exact.reshape(())
        self.values[at] = Value(exact, np.broadcast_to(np.asarray(err, np.float64), exact.shape), dtype, f"v{at}", tensor)
        self.calls.append(call)

    def rounded(self, exact, err, dtype):
        """The error after a result is stored in a dtype, or kept in float32."""
        short = exact.astype(np.float32 if dtype == "float64" else numpy_type(dtype)).astype(np.float64)
        size = np.abs(exact) + err
        if not np.all(np.isfinite(exact)) or size.max(initial=0) > LARGEST_VALUE:
            raise Skip
        more = err + (4 if dtype == "float64" else 1) * UNIT[dtype] * size + SMALLEST_NORMAL[dtype if dtype != "float64" else "float32"]
        err = np.where((short == exact) & (np.asarray(err) == 0), 0, more)
        if err.max(initial=0) > LARGEST_ERROR * max(1.0, np.abs(exact).max(initial=0)):
            raise Skip
        return err

    def as_type(self, v, dtype):
        """(exact, error) of an operand that an operation takes as a dtype."""
        if dtype not in FLOATS:
            return v.exact.astype(numpy_type(dtype)).astype(np.int64), np.zeros(v.shape)
        a = v.exact.astype(np.float64)
        lost = a.astype(numpy_type(dtype)).astype(np.float64) != a
        return a, np.where(lost, v.err + UNIT[dtype] * np.abs(a), v.err)

    def leaf_of(self, array, dtype):
        """A new leaf, as an operand of the step that is being made."""
        at = len(self.values) - 1
        self.values[at] = v = Value(array.astype(np.float64 if dtype in FLOATS else bool if dtype == "bool_" else np.int64), np.zeros(array.shape), dtype,
                                    f"v{at}", wf.tensor(array, dtype=dtype, device=self.device))
        self.calls.append(Call(at, None, (array, dtype), {}))
        self.values.append(None)
        return v

    def like(self, shape, dtype):
        rng = np.random.default_rng((self.data_seed, self.seed))
        if dtype not in FLOATS:
            low, high = (0, 1) if dtype == "bool_" else (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype in ("int8", "uint8") and self.r.random() < 0.3 else \
                (0 if dtype == "uint8" else -6, 6)
            return rng.integers(low, high, shape, endpoint=True).astype(numpy_type(dtype))
        x = rng.integers(-8, 9, shape) / 4 if self.r.random() < 0.5 else rng.standard_normal(shape)
        return np.asarray(x).astype(numpy_type(dtype))

    # ---- leaves ----

    def leaf(self):
        rank = self.r.choice((1, 2, 2, 3, 3, 4))
        shape = [self.r.choice(self.extents) for _ in range(rank)]
        while np.prod(shape) > MAX_ELEMENTS // 4:
            shape[int(np.argmax(shape))] = self.r.choice((1, 2, 3))
        kinds = ("float32",) * 7 + ("float16", "bfloat16", "int32", "int8", "uint8", "bool_") + (("float64", "int64") if self.r.random() < 0.2 else ())
        dtype = self.r.choice(kinds)
        self.leaf_of(self.like(tuple(shape), dtype), dtype)
        self.values.pop()

    def constant(self):
        v = self.pick()
        number = self.fine.randrange(-8, 9) / 4 if v.is_float else self.fine.randrange(2)
        self.call("full_like", v, number, exact=np.full(v.shape, number))

    # ---- elementwise ----

    def unary(self):
        v = self.pick(lambda v: v.dtype != "bool_")
        name = self.r.choice(list(UNARY) if v.is_float or self.r.random() < 0.2 else EXACT_UNARY)
        f, slope, more, inside = UNARY[name]
        if not v.is_float and name in EXACT_UNARY:
            return self.call(name, v, exact=f(v.exact))
        a, e = self.as_type(v, v.dtype if v.is_float else "float32")
        if inside and not np.all(inside(a, e)):
            raise Skip
        r = f(a)
        rounds = more(a, r) * unit(v.dtype)
        if name == "square":
            rounds = np.where((r.astype(np.float32) == r) & (e == 0), 0, rounds)
        self.call(name, v, exact=r, err=slope(a, e) * e + rounds)

    def whole(self):
        """To whole numbers, where nothing lies near a border."""
        v = self.pick(lambda v: v.is_float)
        name, f = self.r.choice((("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc)))
        if np.any((f(v.exact - v.err) != f(v.exact + v.err))):
            raise Skip
        self.call(name, v, exact=f(v.exact))

    def partner(self, a):
        """Another operand that broadcasts with a, itself at the worst."""
        def fits(v):
            return all(n == m or n == 1 or m == 1 for n, m in zip(v.shape[::-1], a.shape[::-1])) and max(len(v.shape), len(a.shape)) <= 6
        how = self.r.random()
        if how < 0.25:
            keep = self.r.randrange(len(a.shape) + 1)
            shape = tuple(1 if self.r.random() < 0.3 else n for n in a.shape[len(a.shape) - keep:])
            dtype = a.dtype if self.r.random() < 0.7 else self.r.choice(("float32", "float16", "bfloat16", "int32", "uint8", "int8"))
            return self.leaf_of(self.like(shape, dtype), dtype)
        if how < 0.45:  # a number, known when the graph runs
            return self.r.randrange(-8, 9) / 4 if a.is_float else self.r.randrange(0 if a.dtype == "uint8" else -5, 6)
        return self.pick(fits)

    def both(self, names):
        """(name, a, b, the operands as the operation takes them, their dtype)."""
        a = self.pick(lambda v: v.dtype != "bool_")
        b = self.partner(a)
        number = not isinstance(b, Value)
        if not number and b.dtype == "bool_":
            raise Skip
        first, second = (b, a) if self.r.random() < 0.3 else (a, b)
        if number and not a.is_float and isinstance(b, float):
            b = int(b)
        dtype = a.dtype if number else ops.add(a.tensor, b.tensor).dtype.name
        xs = [self.as_type(v, dtype) if isinstance(v, Value) else (np.asarray(v, np.float64 if dtype in FLOATS else np.int64), np.zeros(())) for v in (first, second)]
        if number and dtype not in FLOATS:
            xs = [(x.astype(numpy_type(dtype)).astype(np.int64), e) for x, e in xs]
        return self.r.choice([n for n in names if dtype in FLOATS or n != "div"]), first, second, xs, dtype

    def binary(self):
        names = ["add", "sub", "mul", "maximum", "minimum", "div"]
        name, first, second, ((a, ea), (b, eb)), dtype = self.both(names)
        if dtype not in FLOATS and self.r.random() < 0.2:
            name = self.r.choice(("bitwise_and", "bitwise_xor"))
        if name == "div":
            if not np.all(np.abs(b) - eb > 0.1):
                raise Skip
            r = a / b
            low = np.abs(b) - eb
            return self.call(name, first, second, exact=r, err=(ea + np.abs(r) * eb) / low + 3 * unit(dtype) * (np.abs(r) + ea / low) + SMALLEST_NORMAL["float32"])
        r = BINARY[name](a, b)
        if dtype not in FLOATS:
            return self.call(name, first, second, exact=r)
        if name == "mul":
            e = np.abs(a) * eb + np.abs(b) * ea + ea * eb
        else:
            e = np.maximum(ea, eb) if name in ("maximum", "minimum") else ea + eb
        rounds = unit(dtype) * (np.abs(r) + e)
        exact = (r.astype(np.float32) == r) & (e == 0)
        self.call(name, first, second, exact=r, err=np.where(exact, 0, e + (0 if name in ("maximum", "minimum") else rounds)))

    def compare(self):
        name, first, second, ((a, ea), (b, eb)), dtype = self.both(list(COMPARE))
        if not np.all((np.abs(a - b) > ea + eb) | (ea + eb == 0)):
            raise Skip
        self.call(name, first, second, exact=COMPARE[name](a, b))

    def where(self):
        c = self.pick(lambda v: v.dtype == "bool_")
        fits = lambda v: all(n == m or n == 1 or m == 1 for n, m in zip(v.shape[::-1], c.shape[::-1]))  # noqa: E731
        a = self.pick(lambda v: fits(v) and v.dtype != "bool_")
        if self.r.random() < 0.4:
            number = self.r.randrange(-8, 9) / 4 if a.is_float else self.r.randrange(0, 6)
            if np.broadcast_shapes(c.shape, a.shape) != a.shape:
                raise Skip
            return self.call("masked_fill", a, c, number, exact=np.where(c.exact, number, a.exact), err=np.where(c.exact, 0, a.err))
        b = self.pick(lambda v: fits(v) and v.dtype == a.dtype)
        try:
            r = np.where(c.exact, a.exact, b.exact)
        except ValueError:
            raise Skip from None
        self.call("where", c, a, b, exact=r, err=np.where(c.exact, a.err, b.err))

    def clamp(self):
        v = self.pick(lambda v: v.dtype != "bool_")
        low = self.r.randrange(0 if v.dtype == "uint8" else -8, 5)
        high = low + self.r.randrange(0, 8)
        self.call("clamp", v, low, high, exact=np.clip(v.exact, low, high), err=v.err)

    def cast(self):
        v = self.pick()
        to = self.r.choice(("float32", "float32", "float16", "bfloat16", "int32", "int8", "uint8", "bool_") + (("float64", "int64") if self.r.random() < 0.3 else ()))
        if to in FLOATS:
            a, e = self.as_type(v, to)
            return self.call("cast", v, to, exact=a, err=e)
        if to == "bool_":
            if np.any((np.abs(v.exact) <= v.err) & (v.err > 0)):
                raise Skip
            return self.call("cast", v, to, exact=v.exact != 0)
        if not v.is_float:
            return self.call("cast", v, to, exact=v.exact.astype(np.int64))
        whole, info = np.trunc(v.exact), np.iinfo(to)
        if np.any(np.trunc(v.exact - v.err) != np.trunc(v.exact + v.err)):
            raise Skip
        self.call("cast", v, to, exact=np.clip(whole, max(info.min, -2.0**40), min(info.max, 2.0**40)))

    # ---- views, and copies that move elements ----

    def moved(self, name, v, *args, f, **keywords):
        self.call(name, v, *args, exact=f(v.exact), err=f(v.err), **keywords)

    def view(self):
        v = self.pick()
        rank, shape = v.exact.ndim, v.shape
        how = self.r.randrange(9)
        if how == 0 and rank > 1:
            order = list(range(rank))
            self.r.shuffle(order)
            return self.moved("permute", v, order, f=lambda x: x.transpose(order))
        if how == 1 and rank:
            axis = self.axis(v)
            n, step = shape[axis], self.r.choice((1, 1, 2, -1, -2, 3))
            length = self.r.randrange(1, n + 1)
            first = self.fine.randrange(n - length + 1)
            last = first + length
            start, stop = (first, last) if step > 0 else (last, first)
            index = (slice(None),) * axis + (slice(start, stop, step),)
            if not v.exact[index].size:
                raise Skip
            return self.moved("slice", v, axis, start, stop, step, f=lambda x: x[index])
        if how == 2 and rank:
            axis = self.axis(v)
            return self.moved("flip", v, [axis], f=lambda x: np.flip(x, axis))
        if how == 3 and rank > 1:
            k = self.r.randrange(rank - 1)
            new = list(shape[:k] + (shape[k] * shape[k + 1],) + shape[k + 2:])
            return self.moved("reshape", v, new, f=lambda x: x.reshape(new))
        if how == 4 and rank:
            axis = self.axis(v)
            n = shape[axis]
            parts = [p for p in range(1, n + 1) if n % p == 0]
            p = self.r.choice(parts)
            new = list(shape[:axis] + (p, n // p) + shape[axis + 1:])
            return self.moved("reshape", v, new, f=lambda x: x.reshape(new))
        if how == 5:
            axis = self.r.randrange(rank + 1)
            new = list(shape[:axis] + (1,) + shape[axis:])
            more = [self.r.randrange(1, 4) if k == axis else n for k, n in enumerate(new)]
            self.moved("unsqueeze", v, axis, f=lambda x: x.reshape(new))
            one = self.values[-1]
            self.values.append(None)
            return self.moved("expand", one, more, f=lambda x: np.broadcast_to(x, more))
        if how == 6 and rank:
            axis = self.axis(v)
            at = self.fine.randrange(shape[axis])
            return self.moved("select", v, axis, at, f=lambda x: np.take(x, at, axis))
        if how == 7 and rank:
            axis = self.axis(v)
            size = self.r.randrange(1, shape[axis] + 1)
            step = self.r.choice((1, 1, 2, size))
            cut = (slice(None),) * axis + (slice(None, None, step),)
            return self.moved("unfold", v, axis, size, step, f=lambda x: np.lib.stride_tricks.sliding_window_view(x, size, axis)[cut])
        if how == 8 and rank > 1:
            return self.moved("diagonal", v, 0, 0, 1, f=lambda x: np.diagonal(x, 0, 0, 1))
        raise Skip

    def move(self):
        v = self.pick()
        axis = self.axis(v)
        n, how, rank = v.shape[axis], self.r.randrange(7), v.exact.ndim
        if how == 0:
            shift = self.fine.randrange(-n, n + 1)
            return self.moved("roll", v, [shift], f=lambda x: np.roll(x, shift, axis), dims=[axis])
        if how == 1:
            widths = [(0, 0)] * rank
            widths[axis] = (self.r.randrange(3), self.r.randrange(3))
            flat = [p for pair in reversed(widths) for p in pair]
            return self.moved("pad", v, flat, f=lambda x: np.pad(x, widths))
        if how == 2:
            shape = v.shape[:axis] + (self.r.choice((1, n)),) + v.shape[axis + 1:]
            w = self.pick(lambda w: w.dtype == v.dtype and len(w.shape) == rank and all(a == b or k == axis for k, (a, b) in enumerate(zip(w.shape, shape))))
            return self.cat(v, w, axis)
        if how == 3:
            w = self.pick(lambda w: w.dtype == v.dtype and w.shape == v.shape)
            return self.call("stack", [v, w], axis, exact=np.stack([v.exact, w.exact], axis), err=np.stack([v.err, w.err], axis))
        if how == 4:
            repeats = [self.r.choice((1, 1, 2)) for _ in range(rank)]
            return self.moved("repeat", v, repeats, f=lambda x: np.tile(x, repeats))
        if how == 5 and rank > 1:
            k = self.fine.randrange(-2, 3)
            name, f = self.r.choice((("tril", np.tril), ("triu", np.triu)))
            return self.moved(name, v, k, f=lambda x: f(x, k))
        return self.moved("contiguous", v, f=lambda x: x)

    def cat(self, v, w, axis):
        parts = [v, w, v][:self.r.choice((2, 2, 3))]
        self.call("cat", parts, axis, exact=np.concatenate([p.exact for p in parts], axis), err=np.concatenate([p.err for p in parts], axis))

    def gather(self):
        v = self.pick()
        axis = self.axis(v)
        n = v.shape[axis]
        count = self.r.randrange(1, 7)
        rng = np.random.default_rng((self.data_seed, self.seed))
        if self.r.random() < 0.5:
            at = self.leaf_of(rng.integers(-n, n, count).astype(np.int32), "int32")
            return self.moved("index_select", v, axis, at, f=lambda x: np.take(x, at.exact, axis))
        shape = v.shape[:axis] + (count,) + v.shape[axis + 1:]
        at = self.leaf_of(rng.integers(0, n, shape).astype(np.int32), "int32")
        self.moved("gather", v, axis, at, f=lambda x: np.take_along_axis(x, at.exact, axis))

    # ---- updates ----

    def update(self):
        v = self.pick(lambda v: v.dtype != "bool_")
        axis = self.axis(v)
        n, rank = v.shape[axis], v.exact.ndim
        count = self.r.randrange(1, n + 1)
        shape = v.shape[:axis] + (count,) + v.shape[axis + 1:]
        same = [w for w in self.values if w is not None and w.dtype == v.dtype and w.shape == shape]
        src = self.r.choice(same) if same and self.r.random() < 0.6 else self.leaf_of(self.like(shape, v.dtype), v.dtype)
        rng = np.random.default_rng((self.data_seed, self.seed, 1))
        how = self.r.randrange(4)
        line = (slice(None),) * axis
        if how < 2:
            start = self.r.randrange(n - count + 1)
            at = self.leaf_of(np.array(start, np.int32), "int32")
            exact, err = v.exact.copy(), v.err.copy()
            exact[line + (slice(start, start + count),)] = src.exact
            err[line + (slice(start, start + count),)] = src.err
            return self.call("slice_update", v, src, axis, at, exact=exact, err=err)
        if how == 2:
            index = rng.permutation(n)[:count].astype(np.int32)
            at = self.leaf_of(index, "int32")
            exact, err = v.exact.copy(), v.err.copy()
            exact[line + (index,)] = src.exact
            err[line + (index,)] = src.err
            return self.call("index_copy", v, axis, at, src, exact=exact, err=err)
        index = rng.integers(0, n, count).astype(np.int32)
        at = self.leaf_of(index, "int32")
        exact, err, size = np.moveaxis(v.exact.copy(), axis, 0), np.moveaxis(v.err.copy(), axis, 0), np.moveaxis(np.abs(v.exact), axis, 0).copy()
        np.add.at(exact, index, np.moveaxis(src.exact, axis, 0))
        np.add.at(err, index, np.moveaxis(src.err, axis, 0))
        np.add.at(size, index, np.moveaxis(np.abs(src.exact), axis, 0))
        exact, err, size = (np.moveaxis(x, 0, axis) for x in (exact, err, size))
        if v.is_float:
            quarters = size * 4096 < 2**24
            whole = (exact * 4096 == np.round(exact * 4096)) & (err == 0) & quarters & (size * 4096 == np.round(size * 4096))
            if not np.all(whole):
                err = err + (count + 2) * UNIT[v.dtype] * (size + err)
        self.call("index_add", v, axis, at, src, exact=exact, err=err)

    # ---- along axes ----

    def fold(self):
        v = self.pick()
        rank = v.exact.ndim
        if not rank or not v.exact.size:
            raise Skip
        axes = tuple(sorted(self.fine.sample(range(rank), self.r.choice([1, 1, rank] if rank < 2 else [1, 1, 2, rank]))))
        keep, u = self.r.random() < 0.5, unit(v.dtype)
        name = self.r.choice(("sum", "sum", "mean", "amax", "amin", "argmax", "count_nonzero", "any"))
        kw = {"axis": axes, "keepdims": keep}
        n = int(np.prod([v.shape[k] for k in axes]))
        a, e = v.exact, v.err
        if v.dtype == "bool_" and name not in ("any", "count_nonzero"):
            name = "any"
        if name in ("any", "count_nonzero"):
            if np.any((np.abs(a) <= e) & (e > 0)):
                raise Skip
            if name == "any":
                return self.call("any", v, dim=list(axes), keepdim=keep, exact=np.any(a != 0, **kw))
            return self.call(name, v, dim=list(axes), keepdim=keep, exact=np.asarray(np.sum(a != 0, **kw)))
        if name == "argmax":
            axis = axes[0]
            top = np.sort(np.moveaxis(a, axis, -1), axis=-1)
            worst = 2 * np.max(e, initial=0)
            if worst > 0 and top.shape[-1] > 1 and np.any(top[..., -1] - top[..., -2] <= worst):
                raise Skip
            return self.call(name, v, dim=axis, keepdim=keep, exact=np.argmax(a, axis=axis, keepdims=keep))
        if name in ("amax", "amin"):
            f = np.max if name == "amax" else np.min
            return self.call(name, v, dim=list(axes), keepdim=keep, exact=f(a, **kw), err=np.max(e, **kw))
        if not v.is_float:
            return self.call("sum", v, dim=list(axes), keepdim=keep, exact=np.sum(a, **kw))
        err = 0.0 if exact_sum(a, e, axes) else np.sum(e, **kw) + (n + 4) * u * np.sum(np.abs(a) + e, **kw)
        if name == "mean":
            r = np.sum(a, **kw) / n
            return self.call(name, v, dim=list(axes), keepdim=keep, exact=r, err=err / n + 4 * u * np.abs(r))
        self.call(name, v, dim=list(axes), keepdim=keep, exact=np.sum(a, **kw), err=err)

    def fan(self):
        """One operation several times on one value: nodes that differ in one thing alone, the axis, the dtype or the view."""
        v = self.pick(lambda v: v.is_float and v.exact.ndim > 1)
        how, results = self.r.randrange(3), []
        name = self.r.choice(("softmax", "log_softmax", "cumsum", "sort"))
        axis = self.axis(v)
        for k in range(v.exact.ndim if how == 0 else 3):
            if how == 0:
                self.line(v, name, k)
            elif how == 1:
                a, e = self.as_type(v, to := ("float16", "bfloat16", "float32")[k])
                self.call("cast", v, to, exact=a, err=e)
            else:
                n = v.shape[axis] // 3
                if not n:
                    raise Skip
                part = (slice(None),) * axis + (slice(k * n, k * n + n),)
                self.moved("slice", v, axis, k * n, k * n + n, f=lambda x: x[part])
                one = self.values[-1]
                self.values.append(None)
                self.call("neg", one, exact=-one.exact, err=one.err)
            results.append(self.values[-1])
            self.values.append(None)
        a, b = results[:2]
        r = a.exact - b.exact
        self.call("sub", a, b, exact=r, err=np.where((a.err + b.err == 0) & (r.astype(np.float32) == r), 0, a.err + b.err + unit(v.dtype) * np.abs(r)))

    def line(self, v=None, name=None, axis=None):
        """Operations that keep the shape and work along one axis."""
        v = v or self.pick(lambda v: v.is_float and v.exact.ndim > 0)
        axis, u = self.axis(v) if axis is None else axis, unit(v.dtype)
        a, e, n = v.exact, v.err, v.shape[axis]
        name = name or self.r.choice(("softmax", "softmax", "log_softmax", "logsumexp", "cumsum", "sort"))
        if name == "cumsum":
            err = 0.0 if exact_sum(a, e, axis) else np.cumsum(e, axis) + (n + 2) * u * np.cumsum(np.abs(a) + e, axis)
            return self.call(name, v, axis, exact=np.cumsum(a, axis), err=err)
        if name == "sort":
            return self.call(name, v, axis, exact=np.sort(a, axis), err=np.broadcast_to(np.max(e, axis, keepdims=True), a.shape), pick=0)
        top = np.max(a, axis, keepdims=True)
        worst, size = np.max(e, axis, keepdims=True), np.max(np.abs(a), axis, keepdims=True)
        total = np.log(np.sum(np.exp(a - top), axis, keepdims=True)) + top
        if name == "softmax":
            r = np.exp(a - total)
            return self.call(name, v, axis, exact=r, err=r * np.expm1(2 * worst + ((n + 20) + 4 * size) * u) + SMALLEST_NORMAL["float32"])
        slack = worst + u * (n + 12 + 4 * size + np.abs(total))
        if name == "logsumexp":
            keep = self.r.random() < 0.5
            return self.call(name, v, [axis], keepdim=keep, exact=total if keep else np.squeeze(total, axis), err=slack if keep else np.squeeze(slack, axis))
        self.call(name, v, axis, exact=a - total, err=e + slack + u * np.abs(a - total))

    def norm(self):
        v = self.pick(lambda v: v.is_float and v.exact.ndim > 0)
        n, u, a, e, eps = v.shape[-1], unit(v.dtype), v.exact, v.err, 0.0625
        weight = self.leaf_of(self.like((n,), v.dtype), v.dtype) if self.r.random() < 0.7 else None
        w = weight.exact if weight else 1.0
        rms = self.r.random() < 0.5
        if not rms:
            shift = np.mean(a, -1, keepdims=True)
            off = np.mean(e, -1, keepdims=True) + (n + 8) * u * np.max(np.abs(a), -1, keepdims=True)
            a = a - shift
            e = e + off + u * np.abs(a)
        square = np.mean(a * a, -1, keepdims=True) + eps
        wrong = np.mean(2 * np.abs(a) * e + e * e, -1, keepdims=True) + (n + 8) * u * square
        if np.any(square - wrong < eps / 2):
            raise Skip
        scale = square ** -0.5
        off = 0.5 * (square - wrong) ** -1.5 * wrong + 8 * u * scale
        r = a * scale * w
        err = (np.abs(a) * off + scale * e + e * off) * np.abs(w) + 8 * u * np.abs(r)
        if rms:
            return self.call("rms_norm", v, [n], weight, eps=eps, exact=r, err=err)
        self.call("layer_norm", v, [n], weight, None, eps=eps, exact=r, err=err)

    def turned_half(self, k, width):
        """A 16-bit leaf, turned and cast: [k, width] of float32."""
        dtype = self.r.choice(("float16", "bfloat16"))
        leaf = self.leaf_of(self.like((width, k), dtype), dtype)
        self.moved("permute", leaf, [1, 0], f=lambda x: x.T)
        turned = self.values[-1]
        self.values.append(None)
        self.moved("cast", turned, "float32", f=lambda x: x)
        b = self.values[-1]
        self.values.append(None)
        return b

    def product(self):
        a = self.pick(lambda v: v.is_float and v.exact.ndim >= 2)
        k, u = a.shape[-1], unit(a.dtype)
        width = self.r.choice(self.extents)
        linear = self.r.random() < 0.5
        def fits(w):
            return w.dtype == a.dtype and w.exact.ndim >= 2 and w.shape[-2] == k and (w.exact.ndim == 2 or w.shape[:-2] == a.shape[:-2])
        if linear:
            some = [w for w in self.values if w is not None and w.dtype == a.dtype and w.exact.ndim == 2 and w.shape[1] == k]
            b = self.r.choice(some) if some and self.r.random() < 0.5 else self.leaf_of(self.like((width, k), a.dtype), a.dtype)
            width = b.shape[0]
            bias = self.leaf_of(self.like((width,), a.dtype), a.dtype) if self.r.random() < 0.5 else None
            w, ew = b.exact.T, b.err.T
        else:
            some = [w for w in self.values if w is not None and fits(w)]
            if a.dtype == "float32" and self.r.random() < 0.25:
                some = [self.turned_half(k, width)]
            b, bias = self.r.choice(some) if some and self.r.random() < 0.7 else self.leaf_of(self.like((k, width), a.dtype), a.dtype), None
            w, ew = b.exact, b.err
        r = a.exact @ w
        size = (np.abs(a.exact) + a.err) @ (np.abs(w) + ew)
        err = a.err @ np.abs(w) + np.abs(a.exact) @ ew + a.err @ ew
        exact = not np.any(err) and size.max(initial=0) * 256 < 2**24 and np.all(r * 256 == np.round(r * 256)) and \
            np.all(a.exact * 16 == np.round(a.exact * 16)) and np.all(w * 16 == np.round(w * 16))
        err = 0.0 if exact else err + (k + 4) * u * size
        if bias:
            r = r + bias.exact
            err = err if exact and np.all(r.astype(np.float32) == r) else err + u * np.abs(r)
        if linear:
            return self.call("linear", a, b, bias, exact=r, err=err)
        self.call("matmul", a, b, exact=r, err=err)

    def realise(self):
        """Computed now: what follows reads its memory."""
        v = self.pick()
        v.tensor.eval()
        self.calls.append(Call(int(v.name[1:]), "eval", (v,), {}))
        raise Skip


STEPS = {"leaf": 3, "constant": 1, "unary": 8, "whole": 1, "binary": 14, "compare": 3, "where": 4, "clamp": 1, "cast": 5, "view": 16, "move": 6, "gather": 3,
         "update": 6, "fold": 8, "line": 4, "fan": 3, "norm": 2, "product": 4, "realise": 1}


def play(call, tensor_of, device=None):
    """Make a line of a program: the tensor, on the device of its operands."""
    def deep(a):
        return tensor_of(a) if isinstance(a, Value) else [deep(one) for one in a] if isinstance(a, list) and a and isinstance(a[0], Value) else a
    if call.name is None:
        return wf.tensor(call.args[0], dtype=call.args[1], device=device)
    args = [deep(a) for a in call.args]
    if call.name == "eval":
        args[0].eval()
        return args[0]
    got = getattr(ops, call.name)(*args, **call.keywords)
    return got if call.pick is None else got[call.pick]
