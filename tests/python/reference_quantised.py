"""References of the section quantised; harness.py says how to add one."""
import numpy as np

from harness import reference

FORMATS = {"i8": (1, 127, 0, "int8"), "i4": (2, 7, 8, "uint8"), "ternary": (4, 1, 1, "uint8")}  # numbers a byte, largest, zero, dtype


def numbers_of(data, columns, form):
    """[.., columns] integers of packed rows."""
    per, _, zero, _ = FORMATS[form]
    if per == 1:
        return data.astype(np.int64)
    bits = 8 // per
    parts = [(data.astype(np.int64) >> (bits * j)) & ((1 << bits) - 1) for j in range(per)]
    return np.stack(parts, -1).reshape(*data.shape[:-1], -1)[..., :columns] - zero


def rounds_to(got, x, scale, largest):
    """Each integer is nearest to x / scale, within what f32 leaves open at ties."""
    scale = np.broadcast_to(scale, x.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.where(scale > 0, x / np.where(scale > 0, scale, 1), 0)
    level = np.clip(exact, -largest, largest)
    assert np.all(np.abs(got - level) <= 0.5 + 1e-4 * largest), f"{got.tolist()} of {exact.tolist()}"


def compare_tensor(got, want, case):
    x = case.operands()[0].exact()
    scale = float(got[1].numpy())
    assert abs(scale - np.max(np.abs(x), initial=0) / 127) <= 1e-6 * scale
    rounds_to(got[0].numpy().astype(np.int64), x, scale, 127)


reference("quantize_tensor", draw=lambda d: d.tensor(max_rank=3), values="moderate", compare=compare_tensor,
          dtypes=("float32", "float16"))(None)


def compare_rows(got, want, case):
    x, form = case.operands()[0].exact(), case.keywords["format"]
    per, largest, _, _ = FORMATS[form]
    data, scale = got[0].numpy(), got[1].numpy().astype(np.float64)
    size = np.abs(x)
    expected = size.mean(-1) if form == "ternary" else size.max(-1) / largest
    assert scale.shape == expected.shape and np.all(np.abs(scale - expected) <= 1e-5 * expected)
    assert data.shape[-1] == -(-x.shape[-1] // per)
    rounds_to(numbers_of(data, x.shape[-1], form), x, scale[..., None], largest)


reference("quantize_rows", draw=lambda d: (d.tensor(min_rank=1, max_rank=3, low=1), {"format": d.choice(tuple(FORMATS))}), values="moderate",
          compare=compare_rows, dtypes=("float32", "float16"))(None)


@reference("dequantize_tensor", draw=lambda d: (d.tensor(max_rank=3), d.tensor((), dtype="float32", values="unit")), dtypes=("int8",),
           result="float32")
def dequantize_tensor(data, scale):
    return data * scale


def draw_product(d):
    k = d.int(1, 40)
    return d.tensor((d.int(1, 4), k)), d.tensor((k, d.int(1, 4)), dtype="int8")


@reference("matmul_i8", draw=draw_product, dtypes=("int8",), result="int32")
def matmul_i8(a, b):
    return a @ b


def draw_scaled(d):
    a, b = draw_product(d)
    return a, d.tensor((), dtype="float32", values="unit"), b, d.tensor((), dtype="float32", values="unit")


@reference("matmul_scaled", draw=draw_scaled, dtypes=("int8",), result="float32")
def matmul_scaled(a, a_scale, b, b_scale):
    return (a @ b) * a_scale * b_scale


def draw_rows(d, n):
    form = d.choice(tuple(FORMATS))
    per, _, _, dtype = FORMATS[form]
    columns = d.int(1, 33)
    return form, columns, d.tensor((n, -(-columns // per)), dtype=dtype), d.tensor((n,), dtype="float32", values="unit")


def draw_dequantize(d):
    form, columns, data, scale = draw_rows(d, d.int(1, 4))
    return data, scale, columns, {"format": form}


@reference("dequantize_rows", draw=draw_dequantize, dtypes=("uint8",), result="float32")
def dequantize_rows(data, scale, columns, format):
    return numbers_of(data, columns, format) * scale[..., None]


def draw_linear(d):
    form, columns, data, scale = draw_rows(d, d.int(1, 4))
    x = d.tensor((d.int(1, 3), columns), dtype="float32", values="unit")
    return x, data, scale, {"format": form}


def tolerance(env):
    return 2.0**-24 * (64 + 64) * 130 * (1 + np.zeros_like(env["S"]))


@reference("linear_rows", draw=draw_linear, dtypes=("float32",), result="float32", tolerance=tolerance)
def linear_rows(x, data, scale, format):
    return x @ (numbers_of(data, x.shape[-1], format) * scale[..., None]).T
