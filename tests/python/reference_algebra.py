"""References of the section linear algebra; harness.py says how to add one."""
import numpy as np

from harness import FLOATS, NUMBERS, reference

WIDE = ("float32", "float64")
EXACT = dict(values="moderate", result="promote")


def product(*shapes):
    """Operands of shapes written in letters: "nk", "km"."""
    def draw(d):
        extent = {}
        for letter in "".join(shapes):
            extent.setdefault(letter, d.int(0, 5) if d.int(0, 9) == 0 else d.int(1, 5))
        return tuple(d.tensor(tuple(extent[k] for k in s)) for s in shapes)
    return draw


def inner_length(*operands, **kw):
    return max(1, operands[-1].shape[-2] if operands[-1].ndim > 1 else operands[-1].size)


for _name, _shapes in {"mm": ("nk", "km"), "bmm": ("bnk", "bkm"), "mv": ("nk", "k"), "dot": ("k", "k"), "vdot": ("k", "k")}.items():
    reference(_name, draw=product(*_shapes), dtypes=NUMBERS, n=inner_length, **EXACT)(lambda a, b: a @ b)
reference("outer", draw=product("n", "m"), dtypes=NUMBERS, **EXACT)(np.outer)
reference("inner", draw=product("xyk", "zk"), dtypes=NUMBERS, n=lambda a, b: max(1, a.shape[-1]), **EXACT)(np.inner)


def with_scales(shapes):
    def draw(d):
        a, b = product(*shapes)(d)
        to = (*a.view().shape[:-1], b.view().shape[-1])
        return d.tensor(d.broadcast(to)), a, b, {"beta": d.choice((1, 0.5, 0, 2)), "alpha": d.choice((1, -0.25, 3))}
    return draw


for _name, _shapes in {"addmm": ("nk", "km"), "baddbmm": ("bnk", "bkm")}.items():
    @reference(_name, draw=with_scales(_shapes), n=inner_length, tolerance=lambda e: (e["n"] + 6) * e["eps"] * (2 * abs(e["a"]) + 3 * abs(e["b"]) @ abs(e["c"])), **EXACT)
    def add_product(x, a, b, beta=1, alpha=1):
        return (0 if beta == 0 else beta * x) + alpha * (a @ b)


def draw_einsum(d):
    letters = "abcdAB"
    extent = {k: d.int(1, 4) for k in letters}
    dots = [d.int(1, 3) for _ in range(d.int(0, 2))]
    parts, operands, used = [], [], set()
    for _ in range(d.int(1, 4)):
        names = [d.choice(letters) for _ in range(d.int(0, 3))]
        used |= set(names)
        has_dots = d.int(0, 2) == 0
        at = d.int(0, len(names))
        few = dots[len(dots) - d.int(0, len(dots)):] if has_dots else []
        shape = [extent[k] for k in names[:at]] + [1 if d.int(0, 3) == 0 else n for n in few] + [extent[k] for k in names[at:]]
        parts.append("".join(names[:at]) + ("..." if has_dots else "") + "".join(names[at:]))
        operands.append(d.tensor(shape))
    equation = ",".join(parts)
    if d.bool() or "..." in equation:
        out = sorted(used)
        d.rng.shuffle(out)
        equation += "->" + ("..." if "..." in equation else "") + "".join(out[:d.int(0, len(out))])
    if np.prod([float(n) for n in extent.values()]) > 3000:
        d.reject()
    return (equation, *operands)


def all_letters(equation, *operands):
    """Every product that can be folded into one result."""
    return int(max(1, np.prod([max(1, o.size) for o in operands], dtype=np.float64)))


@reference("einsum", draw=draw_einsum, dtypes=NUMBERS, n=lambda *a: min(2000, all_letters(*a)), **EXACT)
def einsum(equation, *operands):
    return np.einsum(equation, *operands)


def draw_tensordot(d):
    pairs = d.int(0, 2)
    common = [d.int(1, 4) for _ in range(pairs)]
    a = [d.int(1, 3) for _ in range(d.int(0, 2))]
    b = [d.int(1, 3) for _ in range(d.int(0, 2))]
    return d.tensor(a + common), d.tensor(common + b), {"dims": pairs}


@reference("tensordot", draw=draw_tensordot, dtypes=NUMBERS, n=lambda a, b, dims: max(1, int(np.prod(b.shape[:dims]))), **EXACT)
def tensordot(a, b, dims=2):
    return np.tensordot(a, b, dims)


def draw_power(d):
    n = d.int(1, 4)
    return d.tensor((*d.shape(max_rank=2), n, n)), d.int(0, 5)


@reference("matrix_power", draw=draw_power, values="unit", n=lambda x, n: x.shape[-1] * max(n, 1),
           tolerance=lambda e: 64 * e["n"] * e["eps"] * e["power"](abs(e["a"])) + e["eps"])
def matrix_power(x, n):
    return np.linalg.matrix_power(x, n)


def draw_cross(d):
    shape = list(d.shape(min_rank=1, max_rank=3))
    axis = d.int(0, len(shape) - 1)
    shape[axis] = 3
    return d.tensor(shape), d.tensor(shape), {"dim": axis - len(shape) if d.bool() else axis}


@reference("cross", draw=draw_cross, dtypes=FLOATS, values="moderate", result="promote",
           tolerance=lambda e: 4 * e["eps"] * e["X"] * e["X"])
def cross(a, b, dim=None):
    return np.cross(a, b, axis=dim)


# ---- decompositions: what multiplies back, and what is unique ----

def matrices(square=True, positive=False):
    def draw(d):
        n = d.int(1, 5)
        shape = (*d.shape(max_rank=2, low=1), n if square else d.int(1, 5), n)
        return d.tensor(shape)
    return draw


def near(got, want, case, scale=1.0):
    """Within 256 roundings of the largest entry."""
    got = np.asarray(got, np.float64)
    eps = 2.0**-24 if case.operands()[0].dtype == "float32" else 2.0**-53
    assert got.shape == want.shape, f"shape {got.shape}, not {want.shape}"
    bound = 256 * eps * scale * (1 + np.max(np.abs(want), initial=0))
    assert np.all(np.abs(got - want) <= bound), f"{got.tolist()}\nnot {want.tolist()} within {bound}"


def numbers(got):
    return [np.asarray(t.numpy(), np.float64) for t in (got if isinstance(got, tuple) else (got,))]


def multiplies_back(make):
    """The product of the results is the operand."""
    def compare(got, want, case):
        x = case.operands()[0].exact()
        near(make(*numbers(got)), x, case)
    return compare


def singular(d, x, limit=1e-3):
    s = np.linalg.svd(x.exact(), compute_uv=False)
    if np.any(s[..., -1] < limit * s[..., 0]) or np.any(s[..., 0] == 0):
        d.reject()


def regular(d):
    x = matrices()(d)
    singular(d, x, 0.02)
    return x


UNIT = dict(values="unit", dtypes=WIDE)
reference("lu", draw=matrices(False), compare=multiplies_back(lambda p, l, u: p @ l @ u), **UNIT)(None)
reference("qr", draw=lambda d: (matrices(False)(d), {"mode": d.choice(("reduced", "complete"))}), compare=multiplies_back(lambda q, r: q @ r), **UNIT)(None)
reference("svd", draw=lambda d: (matrices(False)(d), {"full_matrices": False}), compare=multiplies_back(lambda u, s, v: (u * s[..., None, :]) @ v), **UNIT)(None)


def compare_eigh(got, want, case):
    x = np.tril(case.operands()[0].exact())
    w, v = numbers(got)
    near((v * w[..., None, :]) @ np.swapaxes(v, -1, -2), x + np.swapaxes(np.tril(x, -1), -1, -2), case)


reference("eigh", draw=matrices(), compare=compare_eigh, **UNIT)(None)


def dominated(d):
    """[.., N, N] with a large diagonal in its lower triangle: positive definite."""
    x = matrices()(d)
    n = x.view().shape[-1]
    if np.any(np.diagonal(x.exact(), axis1=-2, axis2=-1) < 0.2) or np.any(np.linalg.eigvalsh(x.exact()) < 0.05) or n > 3:
        d.reject()
    return x


def compare_cholesky(got, want, case):
    x = np.tril(case.operands()[0].exact())
    low, = numbers(got)
    near(low @ np.swapaxes(low, -1, -2), x + np.swapaxes(np.tril(x, -1), -1, -2), case)


reference("cholesky", draw=lambda d: dominated(d), compare=compare_cholesky, **UNIT)(None)
reference("det", draw=matrices(), compare=lambda got, want, case: near(*numbers(got), want, case), **UNIT)(np.linalg.det)


@reference("slogdet", draw=regular, compare=lambda got, want, case: [near(g, w, case, 100) for g, w in zip(numbers(got), want)], **UNIT)
def slogdet(x):
    return np.linalg.slogdet(x)


@reference("inv", draw=regular, compare=lambda got, want, case: near(*numbers(got), want, case, 100), **UNIT)
def inv(x):
    return np.linalg.inv(x)


@reference("pinv", draw=lambda d: regular(d), compare=lambda got, want, case: near(*numbers(got), want, case, 200), **UNIT)
def pinv(x):
    return np.linalg.pinv(x)


def draw_solve(d):
    x = regular(d)
    return x, d.tensor((*x.view().shape[:-1], d.int(1, 3)))


@reference("solve", draw=draw_solve, compare=lambda got, want, case: near(*numbers(got), want, case, 100), **UNIT)
def solve(a, b):
    return np.linalg.solve(a, b)


@reference("lstsq", draw=draw_solve, compare=lambda got, want, case: near(*numbers(got), want, case, 1000), **UNIT)
def lstsq(a, b):
    return np.linalg.pinv(a) @ b


def draw_triangular(d):
    x = matrices()(d)
    if np.any(np.abs(np.diagonal(x.exact(), axis1=-2, axis2=-1)) < 0.3):
        d.reject()
    return x, d.tensor((*x.view().shape[:-1], d.int(1, 3))), {"upper": d.bool(), "unitriangular": d.bool()}


@reference("solve_triangular", draw=draw_triangular, compare=lambda got, want, case: near(*numbers(got), want, case, 1000), **UNIT)
def solve_triangular(a, b, upper, unitriangular):
    a = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return np.linalg.solve(a, b)
