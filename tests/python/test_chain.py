"""Chains of operations in one graph: what fuses equals NumPy on every step, exactly.

A graph of up to seven operations is drawn over a few operands: views of views, elementwise, casts, reductions with a prologue and an
epilogue, scans, joins, gathers. The operands are multiples of 1/4 below 3 and products stay small, so that every step is exact in float32
and the results are compared bit for bit. A case whose exact values leave that range is passed over, not compared loosely.
"""
import hypothesis
import numpy as np
from hypothesis import strategies as st

import harness
import weft as wf

EXACT = 2.0**22  # in units of 2^-12, float32 holds what is below

SPEC = harness.Reference("chain", None, None, {"dtypes": ("float32",)})


class Value:
    """A tensor, what NumPy says it is, and the text that makes it."""

    def __init__(self, tensor, exact, text):
        self.tensor, self.exact, self.text = tensor, exact, text


class Chain:
    def __init__(self, data):
        self.d = harness.Draw(data, SPEC)
        self.rng = self.d.rng
        self.lines, self.values = [], []
        shape = self.d.shape(min_rank=1, max_rank=4, low=1)
        for _ in range(self.d.int(1, 3)):
            self.leaf(shape if self.rng.random() < 0.6 else self.d.broadcast(shape))

    def leaf(self, shape):
        kind = ("float32", "float32", "float32", "float16", "int32", "bfloat16", "int8", "uint8")[int(self.rng.integers(0, 8))]
        wide = kind in ("int8", "uint8") and self.rng.random() < 0.5  # then sums and products pass the 8 bits, and wrap before what follows
        operand = self.d.tensor(shape, dtype=kind, values="any" if wide else "small")
        if kind == "float32" and self.rng.random() < 0.4:  # more digits than a 16-bit float holds
            operand.base = (self.rng.integers(-1200, 1201, operand.base.shape) / 4).astype(np.float32)
        return self.keep(operand.tensor(), operand.exact(), operand.program())

    def keep(self, tensor, exact, text):
        name = f"v{len(self.values)}"
        self.lines.append(f"{name} = {text}")
        self.values.append(Value(tensor, np.asarray(exact, np.float64), name))
        return self.values[-1]

    def pick(self):
        """The newest most often."""
        at = len(self.values) - 1 - min(int(self.rng.geometric(0.6)) - 1, len(self.values) - 1)
        return self.values[at]

    def call(self, name, *arguments, exact, **keywords):
        plain = [a.tensor if isinstance(a, Value) else [p.tensor for p in a] if isinstance(a, list) and a and isinstance(a[0], Value) else a for a in arguments]
        shown = [a.text if isinstance(a, Value) else "[" + ", ".join(p.text for p in a) + "]" if isinstance(a, list) and a and isinstance(a[0], Value) else repr(a)
                 for a in arguments]
        got = getattr(wf._weft.ops, name)(*plain, **keywords)
        self.keep(got[0] if isinstance(got, tuple) else got, exact,
                  f"wf.{name}({', '.join(shown + [f'{k}={v!r}' for k, v in keywords.items()])})" + ("[0]" if isinstance(got, tuple) else ""))

    # ---- the steps ----

    def binary(self):
        a, b = self.pick(), self.pick()
        try:
            shape = np.broadcast_shapes(a.exact.shape, b.exact.shape)
        except ValueError:
            b = self.leaf(a.exact.shape[-1:])
            shape = a.exact.shape
        if len(shape) > 6 or np.prod(shape) > 3000:
            return
        f = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
        name = ("add", "sub", "mul", "maximum", "minimum")[int(self.rng.integers(0, 5))]
        self.call(name, a, b, exact=f[name](a.exact, b.exact))

    def unary(self):
        x = self.pick()
        kinds = (("abs", np.abs), ("neg", np.negative), ("relu", lambda v: np.maximum(v, 0)), ("square", np.square), ("floor", np.floor))
        name, f = kinds[int(self.rng.integers(0, 4 if x.tensor.dtype.name in ("int8", "uint8") else 5))]
        self.call(name, x, exact=f(x.exact))

    def cast(self):
        x = self.pick()
        kind = ("float32", "float16", "bfloat16", "bfloat16", "int32", "float64")[int(self.rng.integers(0, 6 if harness.DEVICE == "cpu" else 5))]
        exact = np.trunc(x.exact) if kind == "int32" else x.exact.astype(harness.numpy_type(kind)).astype(np.float64)
        self.call("cast", x, kind, exact=exact)

    def where(self):
        a, b = self.pick(), self.pick()
        if a.exact.shape == b.exact.shape:
            self.call("ge", a, b, exact=a.exact >= b.exact)
            mask = self.values.pop()
            self.call("where", mask, b, a, exact=np.where(mask.exact > 0, b.exact, a.exact))

    def view(self):
        x = self.pick()
        shape, rank = x.exact.shape, x.exact.ndim
        how = int(self.rng.integers(0, 7))
        if rank == 0 or (how == 4 and rank > 4):
            return
        axis = int(self.rng.integers(0, rank))
        n = shape[axis]
        if how == 0:
            order = [int(k) for k in self.rng.permutation(rank)]
            self.call("permute", x, order, exact=x.exact.transpose(order))
        elif how == 1:
            step = int(self.rng.choice((1, 2, -1, -2)))
            first, last = sorted(int(k) for k in self.rng.integers(0, n + 1, 2))
            start, stop = (first, last) if step > 0 else (last, first)
            index = [slice(None)] * rank
            index[axis] = slice(start, stop, step)
            if x.exact[tuple(index)].size:
                self.call("slice", x, axis, start, stop, step, exact=x.exact[tuple(index)])
        elif how == 2:
            self.call("flip", x, [axis], exact=np.flip(x.exact, axis))
        elif how == 3:
            flat = (x.exact.size,) if self.rng.random() < 0.5 or rank < 2 else (shape[0] * shape[1],) + shape[2:]
            self.call("reshape", x, list(flat), exact=x.exact.reshape(flat))
        elif how == 4:
            more = int(self.rng.integers(1, 4))
            self.call("expand", x, [more, *shape], exact=np.broadcast_to(x.exact, (more, *shape)))
        elif how == 5 and n % 2 == 0:
            split = shape[:axis] + (2, n // 2) + shape[axis + 1:]
            if len(split) <= 6:
                self.call("reshape", x, list(split), exact=x.exact.reshape(split))
        else:
            self.call("roll", x, [int(self.rng.integers(-3, 4))], dims=[axis], exact=None)
            self.values[-1].exact = np.roll(x.exact, int(self.lines[-1].split("[")[1].split("]")[0]), axis)

    def fold(self):
        x = self.pick()
        if x.exact.ndim == 0 or x.exact.size == 0:
            return
        name, f = (("sum", np.sum), ("sum", np.sum), ("amax", np.max), ("amin", np.min), ("argmax", np.argmax), ("count_nonzero", np.count_nonzero))[
            int(self.rng.integers(0, 6))]
        axis, keep = int(self.rng.integers(0, x.exact.ndim)), bool(self.rng.integers(0, 2))
        self.call(name, x, dim=axis, keepdim=keep, exact=f(x.exact, axis=axis, keepdims=keep))

    def move(self):
        x = self.pick()
        if x.exact.ndim == 0 or x.exact.size == 0:
            return
        axis = int(self.rng.integers(0, x.exact.ndim))
        n, how = x.exact.shape[axis], int(self.rng.integers(0, 5))
        if how == 0:
            self.call("cumsum", x, axis, exact=np.cumsum(x.exact, axis))
        elif how == 1:
            self.call("cat", [x, x], axis, exact=np.concatenate([x.exact, x.exact], axis))
        elif how == 2:
            pads = [0, 0] * (x.exact.ndim - 1 - axis) + [1, 2]
            widths = [(0, 0)] * axis + [(1, 2)] + [(0, 0)] * (x.exact.ndim - 1 - axis)
            self.call("pad", x, pads, exact=np.pad(x.exact, widths))
        elif how == 3:
            at = self.rng.integers(-n, n, int(self.rng.integers(1, 6))).astype(np.int32)
            index = self.keep(wf.tensor(at), at, f"wf.tensor(np.array({at.tolist()}, 'int32'))")
            self.values.pop()
            self.call("index_select", x, axis, index, exact=np.take(x.exact, at, axis))
        else:
            self.call("sort", x, axis, exact=np.sort(x.exact, axis))

    def run(self):
        steps = (self.binary, self.binary, self.unary, self.cast, self.where, self.view, self.view, self.fold, self.move)
        for _ in range(self.d.int(2, 7)):
            before = len(self.values)
            steps[int(self.rng.integers(0, len(steps)))]()
            for v in self.values[before:]:
                kind = v.tensor.dtype.name
                if kind in ("int8", "uint8"):  # these wrap
                    v.exact = v.exact.astype(np.int64).astype(kind).astype(np.float64)
                size = np.max(np.abs(v.exact), initial=0)
                if size * 2**12 >= EXACT or v.exact.size > 4000 or np.any(v.exact * 2**12 != np.round(v.exact * 2**12)):
                    hypothesis.reject()
                if kind in ("float16", "bfloat16"):  # rounded once where a 16-bit float is the result
                    v.exact = v.exact.astype(harness.numpy_type(kind)).astype(np.float64)
                if kind in ("int32", "bool_"):
                    v.exact = v.exact.astype(np.int64).astype(np.float64)
        # The last first: it is evaluated with all that leads to it, and then the others, some of them again.
        for v in [self.values[-1], *self.values[:-1]]:
            got = np.asarray(v.tensor.numpy()).astype(np.float64)
            text = "\n".join([*harness.HEAD, f"wf.device({harness.DEVICE!r})", *self.lines, f"print({v.text})"])
            if got.shape != v.exact.shape or not np.array_equal(got, v.exact):
                harness.FAILURES["chain"] = "\n".join(['"""chain: a step of a graph differs from NumPy\'s"""', *harness.HEAD, "from check import check", *self.lines,
                                                      f"check({v.text}, {harness.array_text(v.exact)})"]) + "\n"
            assert got.shape == v.exact.shape, f"shape {got.shape}, not {v.exact.shape}\n{text}"
            assert np.array_equal(got, v.exact), f"{got.tolist()}\nnot {v.exact.tolist()}\n{text}"


def test_chains_equal_their_steps():
    @hypothesis.settings(max_examples=6 * hypothesis.settings().max_examples)
    @hypothesis.given(st.data())
    def cases(data):
        Chain(data).run()
    cases()
