"""References of the section creation; harness.py says how to add one."""
import numpy as np

from harness import ALL, FLOATS, reference



def sized(d):
    return d.shape(max_rank=4), {"dtype": d.choice(ALL)}


reference("zeros", "empty", draw=sized)(lambda size, dtype: np.zeros(size))
reference("ones", draw=sized)(lambda size, dtype: np.ones(size))


def drawn_full(d):
    value = d.choice((3, -2, 2.5, -0.25, True))
    return d.shape(max_rank=4), value, {"dtype": d.choice((None, "float32", "float16"))}


reference("full", draw=drawn_full)(lambda size, value, dtype: np.full(size, value))
reference("scalar_tensor", draw=lambda d: (d.choice((3, -2, 2.5, True)), {"dtype": d.choice((None, "float32", "float64"))}))(
    lambda s, dtype: np.array(s))
reference("eye", draw=lambda d: (d.int(0, 9), {"m": d.choice((None, 0, 1, 7)), "dtype": d.choice(ALL)}))(lambda n, m, dtype: np.eye(n, m))
reference("tri", draw=lambda d: (d.int(0, 9), {"M": d.choice((None, 0, 1, 7)), "k": d.int(-9, 9), "dtype": d.choice(ALL)}))(
    lambda N, M, k, dtype: np.tri(N, M, k))


def drawn_arange(d):
    start, count, step = d.int(-9, 9), d.int(0, 40), d.choice((1, 2, 3, -1, -4))
    if d.bool():
        return (count,)
    if d.bool():
        step, start = step / 4, start / 2
    return start, start + step * count, step


@reference("arange", draw=drawn_arange)
def arange(start, end=None, step=1):
    return np.arange(start) if end is None else np.arange(start, end, step)


def drawn_linspace(d):
    return d.int(-20, 20) / 4, d.int(-20, 20) / 4, d.int(0, 40), {"dtype": d.choice(FLOATS)}


reference("linspace", draw=drawn_linspace)(lambda start, end, steps, dtype: np.linspace(start, end, steps))
reference("logspace", draw=lambda d: (d.int(-8, 8) / 4, d.int(-8, 8) / 4, d.int(0, 40), {"base": d.choice((10, 2, 0.5)), "dtype": d.choice(FLOATS)}))(
    lambda start, end, steps, base, dtype: np.logspace(start, end, steps, base=base))


def triangle(d):
    return d.tensor(min_rank=2), {"diagonal": d.int(-6, 6)}


reference("tril", draw=triangle, dtypes=ALL, result="same")(lambda x, diagonal: np.where(np.tri(*x.shape[-2:], diagonal) > 0, x, 0).astype(x.dtype))
reference("triu", draw=triangle, dtypes=ALL, result="same")(lambda x, diagonal: np.where(np.tri(*x.shape[-2:], diagonal - 1) > 0, 0, x).astype(x.dtype))


def rows_and_columns(d):
    return d.int(0, 7), d.int(0, 7), {"offset": d.int(-8, 8)}


reference("tril_indices", draw=rows_and_columns, result="int32")(lambda row, col, offset: np.stack(np.tril_indices(row, offset, col)))
reference("triu_indices", draw=rows_and_columns, result="int32")(lambda row, col, offset: np.stack(np.triu_indices(row, offset, col)))

for _name, _value in {"zeros_like": 0, "empty_like": 0, "ones_like": 1}.items():
    reference(_name, draw=lambda d: d.tensor(), dtypes=ALL, result="same")(lambda x, v=_value: np.full(x.shape, v))
reference("full_like", draw=lambda d: (d.tensor(), d.choice((2, 3.0, 0.5))), dtypes=FLOATS, result="same")(lambda x, v: np.full(x.shape, v))


def drawn_one_hot(d):
    n = d.int(1, 9)
    at = d.index(d.shape(max_rank=4), n)
    at.base = abs(at.base) % n
    return at, -1 if at.base.size and d.bool() else n


reference("one_hot", draw=drawn_one_hot, result="int32")(lambda x, n: np.eye(n if n > 0 else x.max() + 1)[x])
