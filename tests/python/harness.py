"""The oracle harness: cases drawn by Hypothesis for each row of the table of operations, held to a reference.

To add a reference, write in reference_SECTION.py:

    @reference("softmax", draw=lambda d: (d.tensor(min_rank=1), {"dim": d.axis()}))
    def softmax(x, dim=-1):
        return scipy.special.softmax(x, axis=dim)

`draw` gets a Draw and gives (arguments .., {keywords}) as the operation takes them, Operands (d.tensor) among them; the
keywords may be left out. The function gets the same with each Operand as a NumPy array: float64 for float dtypes, int64 for
integers, bool. It gives the exact result (a tuple for several), from NumPy, SciPy or JAX and never from weft.
    n=lambda x, **kw: ..    elements folded into one result, for the bound; else input.size / result.size
    dtypes=..               dtypes of the first operand (harness.FLOATS); d.tensor(dtype=..) for others
    values=".."             "any" (infinity, NaN, denormal, huge), "special" (infinity, NaN, 0 and 1 alone), "finite", "moderate", "unit", "fraction" (0 .. 1), "positive", "small"
    result="same"           the result's dtype: "same" or "promote" of the operands, "float" (as promote, integers give f32), a name, or a
                            function of the operands' dtypes and the keywords; a keyword dtype comes before it
    tolerance=lambda env: ..  in place of the row's bound, where that cannot be said in one expression
    compare=f               f(got, want, case) asserts itself, for results that are not unique (random, eigenvectors)

The row's bound is read with eps (unit roundoff of the result), S (|exact|), M (its maximum), X (largest |input|), n, a b c (the
operands), NumPy's functions, and any other function NAME(x, ..), which is the reference with its operands replaced: sum(abs(a)), and
op(abs) on the magnitudes of all of them.
Integers and "0" are exact. bfloat16 and float16 are computed in float32 and rounded once.
"""
import base64
import math
import os
import sys
import warnings
import zlib

import numpy as np
import hypothesis
from hypothesis import strategies as st

import weft as wf

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

FLOATS = ("float32", "float16", "bfloat16", "float64")
INTEGERS = ("int32", "uint8", "int8", "int64", "uint32")
NUMBERS = FLOATS + INTEGERS
ALL = NUMBERS + ("bool_",)
DEVICE = os.environ.get("WEFT_TEST_DEVICE", "cpu")
UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53}
LARGEST = {"float32": 3.4028234663852886e38, "float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float64": 1.7976931348623157e308}
SMALLEST_NORMAL = {"float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126, "float64": 2.0**-1022}
SMALLEST = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133, "float64": 2.0**-1074}
EXTENTS = (3, 2, 1, 4, 5, 3, 2, 7, 8)
MAX_ELEMENTS = 400
# What kernels cut at: vectors, tiles, blocks and pieces of 8 to 4096, one less and one more.
BORDERS = (15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 95, 97, 127, 128, 129, 255, 256, 257, 384, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049,
           4095, 4096, 4097)
MAX_BORDER_ELEMENTS = 9000

HEAD = ["import base64", "import zlib", "import numpy as np", "import weft as wf"]

ROWS = {row[0]: row for row in wf.operation_table()}
REFERENCES = {}


def numpy_type(dtype):
    if dtype == "bfloat16":
        return np.dtype(ml_dtypes.bfloat16) if ml_dtypes else np.dtype("float32")
    return np.dtype({"bool_": "bool"}.get(dtype, dtype))


class Reference:
    def __init__(self, name, function, draw, options):
        self.name, self.function, self.draw = name, function, draw
        self.dtypes = options.pop("dtypes", FLOATS)
        self.values = options.pop("values", "any")
        self.result = options.pop("result", None)
        self.n = options.pop("n", None)
        self.tolerance = options.pop("tolerance", None)
        self.compare = options.pop("compare", None)
        self.evaluates = options.pop("evaluates", False)
        if options:
            raise TypeError(f"reference {name}: unknown {sorted(options)}")


def reference(*names, draw, **options):
    """Say how to draw and compute the operations of these names."""
    def decorate(function):
        for name in names:
            if name in REFERENCES:
                raise ValueError(f"two references for {name}")
            REFERENCES[name] = Reference(name, function, draw, dict(options))
        return function
    return decorate


# ---- operands: an array in memory and the views that lead to what the operation sees ----

def array_text(values):
    """An array as Python writes it; a long one packed."""
    values = np.ascontiguousarray(values).reshape(values.shape)
    if values.size > 2000:
        packed = base64.b85encode(zlib.compress(values.tobytes(), 9)).decode()
        return f"np.frombuffer(zlib.decompress(base64.b85decode({packed!r})), {values.dtype.name!r}).reshape({values.shape})"
    text = str(values.tolist())
    for word in ("nan", "inf"):
        text = text.replace(word, "np." + word)
    return f"np.array({text}, {values.dtype.name!r}).reshape({values.shape})"


class Operand:
    def __init__(self, base, dtype, steps):
        self.base, self.dtype, self.steps = base, dtype, steps

    def view(self):
        """The stored elements as NumPy sees them."""
        x = self.base
        for step in self.steps:
            if step[0] == "slice":
                index = [slice(None)] * x.ndim
                index[step[1]] = slice(*step[2:])
                x = x[tuple(index)]
            elif step[0] == "permute":
                x = x.transpose(step[1])
            elif step[0] == "unfold":
                x = np.lib.stride_tricks.sliding_window_view(x, step[2], step[1])
                x = x[(slice(None),) * step[1] + (slice(None, None, step[3]),)]
            else:
                x = np.broadcast_to(x, step[1])
        return x

    def exact(self):
        x = self.view()
        return x if x.dtype == bool else x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)

    def tensor(self):
        t = wf.tensor(self.base, dtype=self.dtype)
        for step in self.steps:
            t = getattr(t, step[0])(*step[1:])
        return t

    def program(self):
        values = self.base
        return f"wf.tensor({array_text(values.astype(np.float32) if self.dtype == 'bfloat16' else values)}, {self.dtype!r})" + self.steps_text()

    def steps_text(self):
        return "".join(f".{step[0]}({', '.join(repr(s) for s in step[1:])})" for step in self.steps)

    __repr__ = program


def fill(rng, shape, dtype, values):
    """Elements of a kind."""
    size = int(np.prod(shape, dtype=np.int64))
    if dtype == "bool_":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        low, high = -9, 10
        if values == "any":  # of all, or at one end of the range
            low, high = ((info.min, info.max), (info.max - 9, info.max), (info.min, info.min + 9), (low, high))[rng.choice(4, p=(0.25, 0.1, 0.05, 0.6))]
        if values in ("positive", "small"):
            low, high = (1, 10) if values == "positive" else (0, 4)
        return rng.integers(max(low, info.min), min(high, info.max), shape, dtype=np.int64, endpoint=True).astype(dtype)
    if values == "unit":
        x = rng.uniform(-1, 1, size)
    elif values == "fraction":
        x = rng.uniform(-0.25, 1.25, size).clip(0, 1)
    elif values == "positive":
        x = rng.uniform(0.05, 4, size) * 10 ** rng.uniform(-1, 1)
    elif values == "small":
        x = rng.integers(-8, 9, size) / 4
    elif values == "special":
        x = rng.choice((math.inf, -math.inf, -math.inf, math.nan, 0.0, 1.0), size)
    else:
        x = rng.standard_normal(size) * (1, 1, 1, 30, 1e-3, 1000)[rng.integers(0, 6)]
        whole = rng.random(size) < 0.1
        x[whole] = np.round(x[whole])
    if values in ("any", "finite") and rng.random() < 0.4:
        big, tiny = LARGEST[dtype], SMALLEST_NORMAL[dtype]
        special = [0.0, -0.0, big, -big / 2, tiny, -tiny * 3]
        if DEVICE == "cpu":
            special += [SMALLEST[dtype], -tiny / 2]
        if values == "any":
            special += [math.inf, -math.inf, math.nan, -math.nan]
        at = rng.random(size) < (0.25, 0.25, 2 / (size + 1))[rng.integers(0, 3)]  # many, or one or two among plain ones
        x[at] = np.array(special)[rng.integers(0, len(special), int(at.sum()))]
        if rng.random() < 0.1:  # nothing else, as in a row that is masked
            x[:] = special[rng.integers(0, len(special))]
    with np.errstate(over="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return x.reshape(shape).astype(numpy_type(dtype))


class Draw:
    """What a reference draws its arguments from."""

    def __init__(self, data, spec, borders=False):
        self.data, self.spec, self.borders = data, spec, borders
        self.rng = np.random.default_rng(self.int(0, 2**31))
        self.dtype = self.choice(spec.dtypes)
        self.first = None

    def int(self, low, high):
        return self.data.draw(st.integers(low, high))

    def float(self, low, high):
        """A number that float32 holds, so that a float attribute is the same everywhere."""
        return float(np.float32(low + (high - low) * self.int(0, 64) / 64))

    def bool(self):
        return self.data.draw(st.booleans())

    def choice(self, options):
        return self.data.draw(st.sampled_from(list(options)))

    def border_shape(self, min_rank, max_rank):
        """One or two axes as long as what kernels cut at, among short ones."""
        rank = min(max(int(self.rng.integers(1, 4)), min_rank), max_rank)
        shape, size = [1] * rank, 1
        for k, axis in enumerate(self.rng.permutation(rank)):
            shape[axis] = int(self.rng.choice(BORDERS) if k < 2 else self.rng.integers(1, 4))
            if size * shape[axis] > MAX_BORDER_ELEMENTS:
                shape[axis] = max(1, min(int(self.rng.integers(1, 18)), MAX_BORDER_ELEMENTS // size))
            size *= shape[axis]
        return tuple(shape)

    def shape(self, min_rank=0, max_rank=6, low=0):
        if self.borders:
            return self.border_shape(min_rank, max_rank)
        rank = min(max(self.choice((1, 2, 3, 2, 3, 0, 4, 5, 6)), min_rank), max_rank)
        shape, size = [], 1
        for _ in range(rank):
            n = max(self.choice(EXTENTS), low)
            while n > 1 and size * n > MAX_ELEMENTS:
                n -= 1
            shape.append(n)
            size *= max(n, 1)
        if low == 0 and rank and self.int(0, 11) == 11:
            shape[int(self.rng.integers(0, rank))] = 0
        return tuple(shape)

    def broadcast(self, shape):
        """A shape that broadcasts with another to it."""
        keep = self.int(0, len(shape)) if self.bool() else len(shape)
        return tuple(1 if self.int(0, 3) == 0 else n for n in shape[len(shape) - keep:])

    def tensor(self, shape=None, dtype=None, values=None, min_rank=0, max_rank=6, low=0, windows=False):
        """An operand of that shape (or one drawn), any view of any memory (windows: one axis is windows of another); the first one is
        d.first."""
        shape = self.shape(min_rank, max_rank, low) if shape is None else tuple(shape)
        dtype = dtype or self.dtype
        steps, cur = [], list(shape)
        kind = 10 if windows else self.int(0, 11)  # 0 and 1: the elements as they lie
        if kind in (10, 11) and len(cur) > 1 and cur[-1] > 0 and any(cur[:-1]):  # windows of one axis, which may overlap
            axes = [k for k, n in enumerate(cur[:-1]) if n > 0]  # the neighbour most often: do the two axes join?
            axis, size = axes[-1] if self.rng.random() < 0.5 else int(self.rng.choice(axes)), cur[-1]
            step = int(self.rng.choice((1, 1, 2, cur[axis], cur[axis], size)))
            step = step if step * int(np.prod(cur[:-1], dtype=np.int64)) < 1 << 22 else 1  # what lies behind is so many times larger
            steps.insert(0, ("unfold", axis, size, step))
            cur = [(n - 1) * step + size if k == axis else n for k, n in enumerate(cur[:-1])]
        if kind in (8, 9) and any(n > 1 for n in cur):
            steps.insert(0, ("expand", tuple(cur)))
            cur = [1 if n > 1 and self.bool() else n for n in cur]
        if kind in (2, 3, 4, 5, 9) and len(cur) > 1:
            order = [int(k) for k in self.rng.permutation(len(cur))]
            steps.insert(0, ("permute", tuple(order)))
            before = [0] * len(cur)
            for to, come in enumerate(order):
                before[come] = cur[to]
            cur = before
        if kind in (5, 6, 7) and cur:
            for axis in range(len(cur)):
                n, how = cur[axis], int(self.rng.integers(0, 5))
                if how == 1:
                    steps.insert(0, ("slice", axis, None, None, -1))
                elif how == 2:
                    begin = int(self.rng.integers(0, 3))
                    steps.insert(0, ("slice", axis, begin, begin + n, 1))
                    cur[axis] = n + begin + int(self.rng.integers(0, 2))
                elif how == 3:
                    step = int(self.rng.integers(2, 4))
                    steps.insert(0, ("slice", axis, 0, n * step, step))
                    cur[axis] = n * step
                elif how == 4 and n > 0:
                    steps.insert(0, ("slice", axis, 2 * n, 0, -2))
                    cur[axis] = 2 * n + 1
        operand = Operand(fill(self.rng, tuple(cur), dtype, values or self.spec.values), dtype, steps)
        if self.first is None:
            self.first = operand
            self.first_shape = shape
        return operand

    def axis(self, rank=None):
        """An axis of the first operand, from either end."""
        rank = len(self.first_shape) if rank is None else rank
        return self.int(-rank, rank - 1) if rank else self.choice((0, -1))

    def axes(self, rank=None, none=True):
        """None, an axis, or several."""
        rank = len(self.first_shape) if rank is None else rank
        how = self.int(0, 3)
        if how == 0 and none or rank == 0:
            return None
        if how == 1:
            return self.axis(rank)
        some = sorted(self.data.draw(st.sets(st.integers(0, rank - 1), min_size=1)))
        return tuple(k - rank if self.bool() else k for k in some)

    def index(self, shape, extent, dtype="int32"):
        """Indices below an extent, negative ones too."""
        low, high = (-extent, extent - 1) if extent else (0, 0)
        return Operand(self.rng.integers(low, high, shape, endpoint=True).astype(numpy_type(dtype)), dtype, [])

    def reject(self):
        hypothesis.reject()


# ---- one case ----

class Case:
    def __init__(self, spec, data, draw=None, borders=False):
        self.spec = spec
        drawn = (draw or spec.draw)(Draw(data, spec, borders))
        drawn = drawn if isinstance(drawn, tuple) else (drawn,)
        self.keywords = drawn[-1] if drawn and isinstance(drawn[-1], dict) else {}
        self.arguments = drawn[:-1] if drawn and isinstance(drawn[-1], dict) else drawn
        self.want, self.bounds = None, []

    def map(self, f):
        def deep(v):
            if isinstance(v, Operand):
                return f(v)
            return type(v)(deep(one) for one in v) if isinstance(v, (list, tuple)) else v
        return [deep(v) for v in self.arguments], {k: deep(v) for k, v in self.keywords.items()}

    def operands(self):
        found = []
        self.map(found.append)
        return found

    def lines(self):
        """The operands, and the call."""
        lines, names = [], {}

        class Name:
            def __init__(self, operand):
                self.name = names.setdefault(id(operand), chr(ord("a") + len(names)))

            def __repr__(self):
                return self.name
        args, keywords = self.map(Name)
        lines += [f"{names[id(o)]} = {o.program()}" for o in {id(o): o for o in self.operands()}.values()]
        call = ", ".join([repr(a) for a in args] + [f"{k}={v!r}" for k, v in keywords.items()])
        return lines, f"wf.{self.spec.name}({call})"

    def program(self):
        lines, call = self.lines()
        return "\n".join(HEAD + [f"wf.device({DEVICE!r})", *lines, f"print({call})"])

    def kept(self, said):
        """The program of tests/regressions/: what the reference gives, and how near it has to be."""
        lines, call = self.lines()
        got = [f"got = {call}"]
        if self.want is None or self.spec.compare:
            got.append("check(got)")
        else:
            wants = self.want if isinstance(self.want, (tuple, list)) else (self.want,)
            bounds = self.bounds + [0.0] * (len(wants) - len(self.bounds))
            for k, (want, bound) in enumerate(zip(wants, bounds)):
                one = f"got[{k}]" if isinstance(self.want, (tuple, list)) else "got"
                got.append(f"check({one}, {array_text(np.asarray(want))}, {bound!r})")
        return "\n".join([f'"""{self.spec.name}: {said}"""', *HEAD, "from check import check", *lines, *got]) + "\n"


FAILURES = {}  # operation: the program of its last failure, which Hypothesis has made small


class Worst:
    """Cases and largest errors, by operation and dtype."""
    table = {}
    fallback = set()  # "operation dtype" that ran a kernel on the CPU for the device
    planned = {}  # (operation, dtype of the first operand): why part of it runs on the CPU, as weft_device_supports says
    asked = set()
    before = 0

    @classmethod
    def ask(cls, case, arguments, keywords):
        """Where would this call run? Once for each dtype and number of operands."""
        operands = case.operands()
        if DEVICE == "cpu" or not operands or (key := (case.spec.name, operands[0].dtype, len(operands))) in cls.asked:
            return
        cls.asked.add(key)
        try:
            native, why = wf.supports(case.spec.name, *arguments, **keywords)
        except wf.Error:
            return
        if not native:
            cls.planned.setdefault((case.spec.name, operands[0].dtype), why)

    @classmethod
    def begin(cls):
        cls.before = wf.device().stats()["fallbacks"]

    @classmethod
    def add(cls, case, dtype, ulps):
        row = cls.table.setdefault((case.spec.name, dtype), [0, None])
        row[0] += 1
        row[1] = row[1] if ulps is None else max(row[1] or 0.0, ulps)
        if wf.device().stats()["fallbacks"] > cls.before:
            cls.fallback.add(f"{case.spec.name} {dtype}")


def functions(spec, arguments, keywords):
    """Names that a bound may use, beyond the variables."""
    def magnitude(v):
        if isinstance(v, (list, tuple)):
            return type(v)(magnitude(one) for one in v)
        return np.abs(v) if isinstance(v, np.ndarray) and v.dtype.kind == "f" else abs(v) if isinstance(v, float) else v

    def again(*replaced):
        """The reference on other operands: sum(abs(a)); op(abs) is on the magnitudes of all of them."""
        replaced = [] if replaced and replaced[0] is np.abs else list(replaced)
        args = [replaced.pop(0) if replaced and isinstance(a, np.ndarray) else magnitude(a) for a in arguments]
        result = spec.function(*args, **{k: magnitude(v) for k, v in keywords.items()})
        return result[0] if isinstance(result, tuple) else result

    class Names(dict):
        def __missing__(self, name):
            if name.startswith("__"):  # a traceback asks its frames
                raise KeyError(name)
            if name in ("sqrt", "log", "exp", "maximum", "minimum", "log2", "where", "isfinite"):
                return getattr(np, name)
            return again
    return Names


def least(dtype):
    """The smallest number above 0 that the device keeps."""
    return SMALLEST[dtype] if DEVICE == "cpu" else SMALLEST_NORMAL[dtype]


def bound_of(case, arguments, keywords, want, dtype):
    """The largest error allowed, element by element: of 16-bit floats that of float32, in which they are computed, and one rounding."""
    if dtype not in ("float16", "bfloat16"):
        return row_bound(case, arguments, keywords, want, dtype)
    bound = row_bound(case, arguments, keywords, want, "float32")
    return bound + UNIT[dtype] * (np.abs(want) + bound) if np.any(bound > 0) else bound


def row_bound(case, arguments, keywords, want, dtype):
    """What the row says, read with the eps of a dtype."""
    spec, text = case.spec, ROWS[case.spec.name][3]
    flat = [a for a in arguments for a in (a if isinstance(a, (list, tuple)) else [a])]
    arrays = [np.asarray(a, np.float64) for a in flat if isinstance(a, (np.ndarray, float, int)) and not isinstance(a, bool)]
    arrays += [np.asarray(v, np.float64) for v in keywords.values() if isinstance(v, np.ndarray)]
    finite = [np.abs(a[np.isfinite(a)]) for a in arrays if a.size]
    S = np.abs(want)
    names = functions(spec, arguments, keywords)({
        "eps": UNIT[dtype], "tiny": least(dtype), "S": S, "M": float(np.max(S[np.isfinite(S)], initial=0)),
        "X": max([float(np.max(f, initial=0)) for f in finite], default=0.0), "abs": np.abs, "max": np.maximum, "min": np.minimum,
    })
    for letter, a in zip("abcd", arrays):
        names[letter] = a
    if spec.n:
        names["n"] = spec.n(*arguments, **keywords)
    else:
        names["n"] = max(1, arrays[0].size // max(want.size, 1)) if arrays else 1
    if spec.tolerance:
        return np.asarray(spec.tolerance(names), np.float64)
    if text.strip() == "0":
        return np.zeros_like(S)
    return np.asarray(eval(compile(text, spec.name, "eval"), {"__builtins__": {}}, names), np.float64)


def sums_overflow(case, arguments, keywords, want, dtype):
    """Where the bound speaks of magnitudes beyond the type: what comes first overflows, and no value is wrong."""
    bound = row_bound(case, arguments, keywords, want, "float32") if dtype == "bfloat16" else bound_of(case, arguments, keywords, want, dtype)
    return ~np.isfinite(bound) | (bound / UNIT["float32" if dtype == "bfloat16" else dtype] > LARGEST[dtype] * 0.5)


def finite(v):
    """Operands with 0 in place of infinity and NaN."""
    if isinstance(v, (list, tuple)):
        return type(v)(finite(one) for one in v)
    return np.where(np.isfinite(v), v, 0) if isinstance(v, np.ndarray) and v.dtype.kind == "f" else v


def at_most_one(v):
    """Magnitudes, those above 1 (and infinity and NaN) as 1."""
    return np.fmin(np.abs(v), 1) if isinstance(v, np.ndarray) and v.dtype.kind == "f" else v


def check_one(case, got, want, arguments, keywords):
    dtype = got.dtype.name
    shown = got.numpy()
    want = np.asarray(want)
    assert shown.shape == want.shape, f"shape {shown.shape}, not {want.shape}"
    if dtype not in FLOATS:
        case.bounds.append(0.0)
        if want.dtype.kind == "f":
            want = want.astype(np.int64)
        expected = want.astype(shown.dtype)
        assert np.array_equal(shown, expected), f"{shown.tolist()}\nnot {expected.tolist()}"
        Worst.add(case, dtype, 0.0)
        return
    exact, shown = want.astype(np.float64), shown.astype(np.float64)
    bound = np.broadcast_to(bound_of(case, arguments, keywords, exact, dtype), exact.shape)
    eps, largest = UNIT[dtype], LARGEST[dtype]
    if dtype == "float64":
        bound = 4 * bound + 4 * eps * np.abs(exact)  # the reference rounds too
    if np.any(bound > 0):
        bound = bound + least(dtype)
    elif dtype in ("float16", "bfloat16"):
        pass
    case.bounds.append(float(np.max(bound[np.isfinite(bound)], initial=0)))
    rounded = shown.astype(numpy_type(dtype)).astype(np.float64)
    assert np.array_equal(rounded, shown, equal_nan=True)
    with np.errstate(all="ignore"):
        nan = np.isnan(exact)
        overflow = np.abs(exact) + bound >= largest * (1 - eps)
        right = np.where(nan, np.isnan(shown), np.where(np.isinf(exact), shown == exact, np.abs(shown - exact) <= bound))
        right |= overflow & ~nan & ((shown == np.sign(exact) * np.inf) | (np.abs(shown) == largest) & ~np.isinf(exact))
        free = np.isfinite(exact) & sums_overflow(case, arguments, keywords, exact, dtype) if not right.all() else np.zeros_like(right)
        right |= free
        if np.any(np.isinf(exact) & ~right):  # an infinite operand, and finite ones that overflow before it is met
            others = finite(arguments), {k: finite(v) for k, v in keywords.items()}
            lost = ~np.isfinite(shown) | (np.abs(shown) >= largest * (1 - eps))
            right |= lost & np.isinf(exact) & sums_overflow(case, *others, finite(exact), dtype)
            if "prod" in case.spec.name:  # or small ones whose product is 0 before it is met: 0 times infinity
                small = case.spec.function(*map(at_most_one, arguments), **{k: at_most_one(v) for k, v in keywords.items()})
                right |= lost & np.isinf(exact) & (np.asarray(small) < SMALLEST_NORMAL[dtype])
        ulp = np.maximum(2 * eps * 2.0 ** np.floor(np.log2(np.maximum(np.abs(exact), SMALLEST_NORMAL[dtype]))), SMALLEST[dtype])
        ulps = np.where(np.isfinite(exact) & np.isfinite(shown) & ~free, np.abs(shown - exact) / ulp, 0)
    if not right.all():
        at = tuple(int(k) for k in np.argwhere(~right)[0])
        raise AssertionError(f"element {at}: {shown[at]!r}, exact {exact[at]!r}, off by {abs(shown[at] - exact[at]):.3g}, allowed {bound[at]:.3g} "
                             f"({ROWS[case.spec.name][3]}), {int((~right).sum())} of {right.size} wrong; result {dtype}")
    Worst.add(case, dtype, float(np.max(ulps, initial=0)))


def promoted(operands, to_float=False):
    """The dtype of an operation on operands of these."""
    kind = operands[0]
    for other in operands[1:]:
        kind = wf.promote_types(kind, other)
    return wf.float32 if to_float and not kind.is_floating_point else kind


def with_dtype(draw):
    """A draw that may ask for the result in the widest dtype of its kind."""
    def drawn(d):
        some = draw(d)
        some = some if isinstance(some, tuple) else (some,)
        some, keywords = (some[:-1], some[-1]) if isinstance(some[-1], dict) else (some, {})
        wide = "float64" if d.dtype in FLOATS else "int64"
        return (*some, {**keywords, "dtype": wide} if d.int(0, 4) == 0 else keywords)
    return drawn


def expected_dtype(case, got):
    rule, operands = case.spec.result, [wf.float32 if o is None else getattr(wf, o.dtype) for o in case.operands()]
    if isinstance(case.keywords.get("dtype"), str):
        return getattr(wf, case.keywords["dtype"])
    if callable(rule):
        return rule(operands, **case.keywords)
    if rule in ("promote", "float") and operands:
        return promoted(operands, rule == "float")
    if rule == "same":
        return operands[0]
    return getattr(wf, rule) if rule else got.dtype


def run(case):
    """Compute a case both ways and compare."""
    spec = case.spec
    arguments, keywords = case.map(Operand.exact)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = case.want = None if spec.compare and not spec.function else spec.function(*arguments, **keywords)
    Worst.begin()
    got_args, got_keywords = case.map(Operand.tensor)
    if os.environ.get("WEFT_CONFORMANCE_OUT"):
        Worst.ask(case, got_args, got_keywords)
    got = getattr(wf._weft.ops, spec.name)(*got_args, **got_keywords)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if spec.compare:
            spec.compare(got, want, case)
            for one in got if isinstance(got, tuple) else (got,):
                Worst.add(case, one.dtype.name, None)
            return
        many = isinstance(got, tuple)
        wants = want if isinstance(want, (tuple, list)) else (want,)
        gots = got if many else (got,)
        assert len(gots) == len(wants), f"{len(gots)} results, not {len(wants)}"
        for one, exact in zip(gots, wants):
            check_one(case, one, exact, arguments, keywords)
        assert gots[0].dtype == expected_dtype(case, gots[0]), f"dtype {gots[0].dtype}, not {expected_dtype(case, gots[0])}"


def try_case(spec, data, draw=None, borders=False):
    case = Case(spec, data, draw, borders)
    try:
        run(case)
    except hypothesis.errors.UnsatisfiedAssumption:
        raise
    except Exception as error:
        error.add_note("\n" + case.program() + "\n")
        FAILURES[spec.name] = case.kept(str(error).splitlines()[0].replace("\\", "/").replace('"', "'")[:200] if str(error) else type(error).__name__)
        raise
