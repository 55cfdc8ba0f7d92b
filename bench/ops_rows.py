"""The rows of bench_ops.py: one operation each, said in weft, NumPy, JAX and ONNX.

A row has inputs, a function of them for each library (None: the library has no such operation), the same in f64
where results are rounded, and how far a result may be from it.
"""
from dataclasses import dataclass, field
from typing import Callable

import numpy as np

F32_EPS = 2.0**-24


@dataclass
class Row:
    name: str
    inputs: list
    weft: Callable      # (weft, tensors) -> tensor
    numpy: Callable     # (arrays) -> array
    jax: Callable | None      # (jnp, jax, arrays) -> array
    onnx: list = field(default_factory=list)  # nodes: (operator, inputs, outputs, attributes); the last makes "y"
    constants: dict = field(default_factory=dict)
    mark: float | None = None
    against: str = "best"  # the peer the mark is about
    exact: Callable | None = None  # f64 reference; None: NumPy's result, bit for bit
    marks: dict = field(default_factory=dict)  # by peer: its time over weft's, at least
    bytes: int = 0         # that the work must move; with limit, its share of this machine's triad, at least
    limit: float | None = None
    terms: int = 1  # of the longest sum: the error allowed grows with it


def softmax_numpy(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def layer_norm_numpy(x, w, b):
    d = x - x.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + x.dtype.type(1e-5)) * w + b


def layer_norm_jax(jnp, x, w, b):
    d = x - x.mean(axis=-1, keepdims=True)
    return d / jnp.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5) * w + b


def text(shape):
    return "x".join(map(str, shape))


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


def softmax_row(rng, shape, axis):
    return Row(f"softmax {text(shape)} axis {axis}", [normal(rng, *shape)], lambda wf, x: wf.softmax(x, axis),
               lambda x: softmax_numpy(x, axis), lambda jnp, jax, x: jax.nn.softmax(x, axis=axis),
               [("Softmax", ["0"], ["y"], {"axis": axis})], mark=0.95, exact=lambda x: softmax_numpy(x, axis), terms=shape[axis])


def layer_norm_row(rng, shape):
    n = shape[-1]
    return Row(f"layer_norm {text(shape)}", [normal(rng, *shape), normal(rng, n), normal(rng, n)],
               lambda wf, x, w, b: wf.layer_norm(x, [n], w, b), layer_norm_numpy,
               lambda jnp, jax, x, w, b: layer_norm_jax(jnp, x, w, b),
               [("LayerNormalization", ["0", "1", "2"], ["y"], {"axis": -1, "epsilon": 1e-5})], mark=0.95, exact=layer_norm_numpy, terms=n)


def var_row(rng, shape, axis):
    n = int(np.prod(shape)) if axis is None else shape[axis]
    axes = list(range(len(shape))) if axis is None else [axis]
    nodes = [("ReduceMean", ["0", "axes"], ["m"], {"keepdims": 1}), ("Sub", ["0", "m"], ["d"], {}), ("Mul", ["d", "d"], ["q"], {}),
             ("ReduceSum", ["q", "axes"], ["s"], {"keepdims": 0}), ("Div", ["s", "count"], ["y"], {})]
    return Row(f"var {text(shape)} {'all' if axis is None else f'axis {axis}'}", [normal(rng, *shape)],
               lambda wf, x: wf.var(x, axis), lambda x: x.var(axis=axis, ddof=1), lambda jnp, jax, x: x.var(axis=axis, ddof=1), nodes,
               {"axes": np.array(axes, np.int64), "count": np.float32(n - 1)}, mark=0.95, exact=lambda x: x.var(axis=axis, ddof=1), terms=n)


def cumsum_row(rng, shape, axis):
    return Row(f"cumsum {text(shape)} axis {axis}", [normal(rng, *shape)], lambda wf, x: wf.cumsum(x, axis), lambda x: x.cumsum(axis=axis),
               lambda jnp, jax, x: jnp.cumsum(x, axis=axis), [("CumSum", ["0", "axis"], ["y"], {})], {"axis": np.array(axis, np.int64)}, mark=0.95,
               exact=lambda x: x.cumsum(axis=axis), terms=shape[axis])


def transpose_row(rng, shape, order, dtype=np.float32):
    x = normal(rng, *shape).astype(dtype)
    kind = "" if dtype == np.float32 else " " + np.dtype(dtype).name
    return Row(f"transpose-copy {text(shape)} to {''.join(map(str, order))}{kind}", [x],
               lambda wf, x: wf.contiguous(wf.permute(x, list(order))), lambda x: np.ascontiguousarray(x.transpose(order)),
               lambda jnp, jax, x: x.transpose(order), [("Transpose", ["0"], ["y"], {"perm": list(order)})], mark=0.95)


def rows_gather_row(rng, n, width, count):
    index = rng.integers(0, n, count).astype(np.int32)
    return Row(f"gather {count} rows of {n}x{width}", [normal(rng, n, width), index], lambda wf, x, i: wf.index_select(x, 0, i),
               lambda x, i: x[i], lambda jnp, jax, x, i: jnp.take(x, i, axis=0, mode="clip"), [("Gather", ["0", "1"], ["y"], {"axis": 0})], mark=0.95)


def gather_row(rng, shape, count, axis):
    index_shape = list(shape)
    index_shape[axis] = count
    index = rng.integers(0, shape[axis], index_shape).astype(np.int32)
    return Row(f"gather {text(index_shape)} from {text(shape)} axis {axis}", [normal(rng, *shape), index], lambda wf, x, i: wf.gather(x, axis, i),
               lambda x, i: np.take_along_axis(x, i, axis), lambda jnp, jax, x, i: jnp.take_along_axis(x, i, axis, mode="clip"),
               [("GatherElements", ["0", "1"], ["y"], {"axis": axis})], mark=0.95)


def einsum_row(rng, equation, shapes, terms):
    return Row(f"einsum {equation} {' '.join(map(text, shapes))}", [normal(rng, *s) for s in shapes], lambda wf, *x: wf.einsum(equation, list(x)),
               lambda *x: np.einsum(equation, *x, optimize=True), lambda jnp, jax, *x: jnp.einsum(equation, *x),
               [("Einsum", [str(i) for i in range(len(shapes))], ["y"], {"equation": equation})], mark=0.95,
               exact=lambda *x: np.einsum(equation, *x, optimize=True), terms=terms)


def conv_numpy(x, w):
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w, optimize=True)


def conv_row(rng, shape, filters):
    return Row(f"conv2d {text(shape)} by {filters} of 3x3", [normal(rng, *shape), normal(rng, filters, shape[1], 3, 3)],
               lambda wf, x, w: wf.conv2d(x, w, padding=1), conv_numpy,
               lambda jnp, jax, x, w: jax.lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1))),
               [("Conv", ["0", "1"], ["y"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})], mark=0.9, exact=conv_numpy, terms=9 * shape[1])


def sort_row(x, name):
    return Row(f"sort {name}", [x], lambda wf, x: wf.sort(x)[0], lambda x: np.sort(x), lambda jnp, jax, x: jnp.sort(x),
               [("TopK", ["0", "count"], ["y", "i"], {"largest": 0})], {"count": np.array([x.shape[-1]], np.int64)}, mark=0.5, against="numpy")


def argsort_row(x, name):
    return Row(f"argsort {name}", [x], lambda wf, x: wf.argsort(x), lambda x: np.argsort(x, kind="stable").astype(np.int32),
               lambda jnp, jax, x: jnp.argsort(x))


CHAIN = (lambda np, v, r, c: v * r, lambda np, v, r, c: v + c, lambda np, v, r, c: np.maximum(v, r), lambda np, v, r, c: v - r,
         lambda np, v, r, c: abs(v), lambda np, v, r, c: v * c)


def chain(np_like, n, x, r, c):
    """n elementwise operations in turn with a row and a column."""
    for i in range(n):
        x = CHAIN[i % len(CHAIN)](np_like, x, r, c)
    return x


def chain_row(rng, shape, n):
    x, r, c = normal(rng, *shape), normal(rng, shape[-1]) * 0.5, normal(rng, shape[0], 1) * 0.5
    return Row(f"chain of {n} on {text(shape)} with row and column", [x, r, c], lambda wf, *v: chain(wf, n, *v), lambda *v: chain(np, n, *v),
               lambda jnp, jax, *v: chain(jnp, n, *v), exact=lambda *v: chain(np, n, *v), terms=n, marks={"numpy": 2.0, "jax": 1.0},
               bytes=2 * x.nbytes, limit=0.85)


def all_rows():
    """Made one by one: inputs of a row live as long as it does."""
    rng = np.random.default_rng(1)
    million = 1 << 20
    for shape in ((4096, 4096), (1024, 512)):
        yield softmax_row(rng, shape, -1)
        yield softmax_row(rng, shape, 0)
    for shape in ((4096, 4096), (1024, 768), (16, 128, 1024)):
        yield layer_norm_row(rng, shape)
    for shape in ((4096, 4096), (1024, 512)):
        for axis in (-1, 0, None):
            yield var_row(rng, shape, axis)
    for shape, axis in (((4096, 4096), -1), ((4096, 4096), 0), ((1024, 512), -1), ((1024, 512), 0), ((million,), 0)):
        yield cumsum_row(rng, shape, axis)
    for shape, order in (((4096, 4096), (1, 0)), ((1000, 3000), (1, 0)), ((1024, 512), (1, 0)), ((8, 512, 12, 64), (0, 2, 1, 3)),
                         ((16, 64, 56, 56), (0, 2, 3, 1)), ((8, 12, 512, 64), (0, 1, 3, 2))):
        yield transpose_row(rng, shape, order)
    yield transpose_row(rng, (4096, 4096), (1, 0), np.float16)
    yield rows_gather_row(rng, 32000, 1024, 2048)
    yield rows_gather_row(rng, 32000, 64, 65536)
    yield gather_row(rng, (4096, 4096), 4096, 1)
    yield gather_row(rng, (4096, 4096), 1024, 0)
    yield gather_row(rng, (million,), million, 0)
    yield einsum_row(rng, "ij,jk,kl->il", ((512, 512), (512, 512), (512, 512)), 1024)
    yield einsum_row(rng, "bi,ijk,bj->bk", ((128, 64), (64, 64, 64), (128, 64)), 4096)
    yield einsum_row(rng, "bhqd,bhkd,bhkv->bhqv", ((2, 8, 128, 64), (2, 8, 128, 64), (2, 8, 128, 64)), 8192)
    for n in (3, 6, 12):
        yield chain_row(rng, (4096, 4096), n)
    yield conv_row(rng, (1, 64, 56, 56), 64)
    yield conv_row(rng, (8, 64, 56, 56), 64)
    yield sort_row(normal(rng, million), "1M f32")
    yield sort_row(rng.integers(-2**31, 2**31 - 1, million).astype(np.int32), "1M i32")
    yield sort_row(normal(rng, 1024, 1024), "1024x1024 f32")
    yield argsort_row(normal(rng, million), "1M f32")
