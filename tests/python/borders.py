"""Draws at the borders of what kernels cut at: tiles, blocks, strips, pieces, chunks.

Most operations need nothing here: a Draw with borders=True gives long axes where their reference asks for a shape. Those below draw
their extents one by one, so they have a second draw. `border("matmul")` names the operation whose reference, bound and dtypes are used.
"""
import numpy as np

from harness import DEVICE, FLOATS, REFERENCES, Operand, numpy_type

BORDERS = {}
# References whose cost grows faster than their operands, draws of a few numbers, and what runs on the host.
TOO_SLOW = {"einsum", "fold", "interpolate", "upsample", "matrix_power", "multinomial", "relative_position_bias", "embedding_bag", "kron", "unbind",
            "diag_embed", "block_diag", "cdist", "pairwise_distance", "combinations", "cartesian_prod", "meshgrid", "unfold", "pdist",
            "cholesky", "det", "slogdet", "inv", "pinv", "solve", "lstsq", "lu", "qr", "svd", "eigh", "solve_triangular", "cross"}


def border(*names):
    def decorate(draw):
        for name in names:
            BORDERS[name] = draw
        return draw
    return decorate


def draw_of(name):
    """(draw, borders) of an operation, or None."""
    if name in BORDERS:
        return BORDERS[name], False
    return None if name in TOO_SLOW else (REFERENCES[name].draw, True)


def pick(d, *extents):
    return int(d.rng.choice(extents))


# ---- products: microkernels of 8 to 48, tiles of 64 to 512, depths of 384, splits of 1024 ----

SIDES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 95, 96, 97, 127, 129, 192, 255, 256, 257)
DEPTHS = (1, 3, 8, 15, 16, 17, 32, 33, 63, 64, 65, 100, 255, 257, 383, 384, 385, 769)


def product(d):
    """m, k, n of at most 4 M multiplications: any, few rows or columns and a long depth, or wider than a tile."""
    how = int(d.rng.integers(0, 7))
    if how == 0:
        m, k, n = pick(d, 1, 2, 5, 8), pick(d, 2047, 2048, 2049, 3000, 4099), pick(d, 1, 3, 63, 65, 130)
    elif how == 1:
        m, k, n = pick(d, 9, 17, 65, 100), pick(d, 2, 9, 33), pick(d, 511, 513, 520, 1025, 1031)
    elif how == 2:
        m, k, n = pick(d, 511, 513, 600), pick(d, 3, 17, 33), pick(d, 9, 33, 100)
    elif how == 3 and DEVICE == "cpu":
        m, k, n = pick(d, 9, 17), pick(d, 8192, 8193, 8300), pick(d, 9, 20)  # more than one chunk of the packed depth
    elif how == 4:
        m, k, n = pick(d, 257, 288, 289), pick(d, 3, 8, 17), pick(d, 255, 256, 257, 272, 511, 512, 513, 767, 768)  # tiles of 96 x 256
    else:
        m, k, n = pick(d, *SIDES), pick(d, *DEPTHS), pick(d, *SIDES)
    while m * k * n > 4_000_000:
        m, k, n = max(1, m // 2 + 1), k, max(1, n // 2 + 1)
    return (n, k, m) if d.rng.random() < 0.3 else (m, k, n)


@border("matmul")
def matmul(d):
    m, k, n = product(d)
    batch = (pick(d, 2, 3, 9),) if m * k * n < 30000 and d.rng.random() < 0.4 else ()
    return d.tensor(batch + (m, k)), d.tensor((() if d.rng.random() < 0.4 else batch) + (k, n))


@border("mm")
def mm(d):
    m, k, n = product(d)
    return d.tensor((m, k)), d.tensor((k, n))


@border("bmm")
def bmm(d):
    m, k, n = (pick(d, 1, 7, 8, 9, 17, 33, 65) for _ in range(3))
    b = pick(d, 2, 7, 9, 17)
    return d.tensor((b, m, k)), d.tensor((b, k, n))


@border("mv")
def mv(d):
    m, k, _ = product(d)
    return d.tensor((m, k)), d.tensor((k,))


@border("dot", "vdot")
def dot(d):
    n = pick(d, 255, 257, 1025, 4097, 70001)
    return d.tensor((n,)), d.tensor((n,))


@border("linear")
def linear(d):
    m, k, n = product(d)
    return d.tensor((m, k)), d.tensor((n, k)), d.tensor((n,)) if d.rng.random() < 0.5 else None


@border("matmul_i8")
def matmul_i8(d):
    m, k, n = pick(d, 1, 3, 17, 33), pick(d, 1, 15, 16, 17, 257, 4096), pick(d, 1, 5, 16, 33)
    return d.tensor((m, k)), d.tensor((k, n), dtype="int8")


@border("linear_rows")
def linear_rows(d):
    form, per, dtype = (("i8", 1, "int8"), ("i4", 2, "uint8"), ("ternary", 4, "uint8"))[int(d.rng.integers(0, 3))]
    columns, n = pick(d, 15, 16, 17, 31, 33, 255, 257, 1000), pick(d, 1, 7, 17, 33)
    return (d.tensor((pick(d, 1, 2, 9), columns), dtype="float32", values="unit"), d.tensor((n, -(-columns // per)), dtype=dtype),
            d.tensor((n,), dtype="float32", values="unit"), {"format": form})


# ---- convolution, attention ----

@border("conv1d")
def conv1d(d):
    c, o, t, k = pick(d, 1, 7, 16, 17, 33), pick(d, 1, 9, 16, 33), pick(d, 17, 33, 65, 130), pick(d, 1, 3, 4)
    return d.tensor((pick(d, 1, 2), c, t)), d.tensor((o, c, k)), {"padding": pick(d, 0, 1), "stride": pick(d, 1, 2)}


@border("conv2d")
def conv2d(d):
    c, o, h, w, k = pick(d, 1, 5, 16, 17), pick(d, 1, 7, 16, 33), pick(d, 5, 9, 17), pick(d, 7, 15, 17, 33), pick(d, 1, 3)
    return d.tensor((pick(d, 1, 2), c, h, w)), d.tensor((o, c, k, k)), {"padding": pick(d, 0, 1), "stride": pick(d, 1, 2)}


@border("scaled_dot_product_attention")
def attention(d):
    h, group = pick(d, 1, 2), pick(d, 1, 3)
    tq, tk, size = pick(d, 1, 9, 17, 33, 65), pick(d, 31, 33, 63, 65, 127, 129, 257), pick(d, 5, 16, 33, 64, 80)
    q, k, v = d.tensor((1, h * group, tq, size)), d.tensor((1, h, tk, size)), d.tensor((1, h, tk, size))
    mask = d.tensor((tq, tk)) if d.rng.random() < 0.4 else None
    return q, k, v, {"attn_mask": mask, "is_causal": bool(d.rng.random() < 0.5), "scale": None}


# ---- lines ----

@border("sort", "argsort")
def sort(d):
    if DEVICE == "cpu" and d.rng.random() < 0.35:  # one line of several threads
        n = pick(d, 131071, 131072, 131075, 140001)
        d.dtype = str(d.rng.choice(("float64", "int64", "int64", "float32", "int32", "uint8", "bfloat16")))
        x = d.rng.integers(-2**31, 2**31, n) if d.dtype not in FLOATS else d.rng.standard_normal(n)
        with np.errstate(all="ignore"):
            x = (x % 2 if d.dtype == "bool_" else x).astype("bool" if d.dtype == "bool_" else "float32" if d.dtype == "bfloat16" else d.dtype)
        if d.dtype == "bfloat16":
            x = (np.round(x * 8) / 8).astype(np.float32)
        d.first_shape = (n,)
        return Operand(x, d.dtype, []), {"dim": -1, "descending": bool(d.rng.random() < 0.5)}
    d.borders = True
    return REFERENCES["sort"].draw(d)


@border("scatter_add", "scatter")
def scatter(d):
    """Few long lines: cut along the axis."""
    n = pick(d, 5, 100, 1025)
    lines, m = (pick(d, 1, 3), pick(d, 65535, 65536, 65537)) if DEVICE == "cpu" and d.rng.random() < 0.3 else (pick(d, 1, 9, 33), pick(d, 255, 257, 1023, 1025))
    x = d.tensor((n, lines) if d.rng.random() < 0.5 else (lines, n), values="small")
    dim = 0 if d.first_shape == (n, lines) else 1
    shape = (m, lines) if dim == 0 else (lines, m)
    return x, dim, d.index(shape, n), d.tensor(shape, values="small")


@border("histc")
def histc(d):
    return d.tensor((pick(d, 255, 257, 4097),), values="small"), pick(d, 1, 2, 16), -2.0, 2.0


@border("bincount")
def bincount(d):
    n = pick(d, 255, 257, 4097)
    return Operand(d.rng.integers(0, 30, n).astype(d.dtype), d.dtype, []), None, pick(d, 0, 40)


@border("searchsorted")
def searchsorted(d):
    n = pick(d, 1, 2, 3, 4, 7, 8, 9, 255, 256, 257)
    sorted_ = Operand(np.sort(d.rng.integers(-40, 40, n)).astype(d.dtype), d.dtype, [])
    return sorted_, d.tensor((pick(d, 17, 129, 1025),), values="moderate" if d.dtype in FLOATS else "any"), {"right": bool(d.rng.random() < 0.5)}


# ---- long reductions: cut for threads ----

def one_odd(d):
    """(operand, its long axis): lines of plain elements with one odd element each, NaN, an infinity or an extreme, at places that differ from
    line to line: every lane, part and tail of what a kernel reads at once holds one."""
    if "float32" in d.spec.dtypes and d.rng.random() < 0.5:
        d.dtype = "float32"
    n, lines = pick(d, 33, 47, 64, 100, 129, 257), 65
    if d.dtype in FLOATS:
        x = d.rng.standard_normal((lines, n)) if d.rng.random() < 0.5 else np.full((lines, n), float(d.rng.integers(0, 2)))
        odd = d.rng.choice((np.nan, np.inf, -np.inf, 0.5, -30.0), lines)
    else:
        low, high = (0, 1) if d.dtype == "bool_" else (np.iinfo(d.dtype).min, np.iinfo(d.dtype).max)
        x = np.full((lines, n), int(d.rng.integers(0, 2))) if d.rng.random() < 0.5 else d.rng.integers(0, min(high, 9), (lines, n), endpoint=True)
        odd = d.rng.choice((low, high), lines)
    x[np.arange(lines), np.resize(d.rng.permutation(n), lines)] = odd
    x = x.astype(numpy_type(d.dtype))
    how = int(d.rng.integers(0, 3))  # as they lie, lines across, across and turned
    d.first = Operand(x if how == 0 else np.ascontiguousarray(x.T), d.dtype, [("permute", (1, 0))] if how == 2 else [])
    d.first_shape = (n, lines) if how == 1 else (lines, n)
    return d.first, 0 if how == 1 else 1


def long_line(d):
    """Long rows, and few of them."""
    n = pick(d, 1023, 1025, 4097, 65537, 131073, 150001) if DEVICE == "cpu" else pick(d, 1023, 1025, 4097, 65537)
    lead = pick(d, 1, 2, 3)
    return d.tensor(((n, lead), (lead, n), (n,))[int(d.rng.integers(0, 3))])


def long_reduction(d):
    if d.rng.random() < 0.4:
        x, dim = one_odd(d)
        return x, {"dim": dim, "keepdim": bool(d.rng.random() < 0.5)}
    x = long_line(d)
    rank = len(d.first_shape)
    dim = None if d.rng.random() < 0.3 else int(np.argmax(d.first_shape)) if d.rng.random() < 0.8 else int(d.rng.integers(0, rank))
    return x, {"dim": dim, "keepdim": bool(d.rng.random() < 0.5)}


border("sum", "mean", "amax", "amin", "argmax", "argmin", "any", "all", "count_nonzero", "logsumexp", "nansum", "prod")(long_reduction)


@border("softmax", "log_softmax")
def long_row(d):
    if d.rng.random() < 0.3:
        x, dim = one_odd(d)
        return x, {"dim": dim}
    x = long_line(d) if d.rng.random() < 0.5 else d.tensor(d.border_shape(1, 3))
    return x, {"dim": int(np.argmax(d.first_shape))}


@border("cumsum", "logcumsumexp", "cummax", "cummin")
def long_scan(d):
    if d.rng.random() < 0.3:
        x, dim = one_odd(d)
        return x, {"dim": dim}
    x = long_line(d) if d.rng.random() < 0.5 else d.tensor(d.border_shape(1, 3))
    return x, {"dim": int(np.argmax(d.first_shape)) if d.rng.random() < 0.7 else 0}


@border("rand", "randn", "exponential")
def long_stream(d):
    size = (pick(d, 1025, 4097, 5003),)
    extra = (d.choice((1, 2, 0.25)),) if d.spec.name == "exponential" else ()
    return (size, *extra, {"seed": d.int(0, 2**62), "offset": d.choice((0, 1, 2**32 - 1000, 2**40 + 5)), "dtype": d.choice(FLOATS)}) if not extra else \
        (size, {"lambd": extra[0], "seed": d.int(0, 2**62), "offset": d.choice((0, 2**32 - 1000)), "dtype": d.choice(FLOATS)})
