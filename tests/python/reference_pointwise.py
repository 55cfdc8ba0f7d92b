"""References of the section pointwise; harness.py says how to add one."""
import numpy as np
import scipy.special

from harness import ALL, FLOATS, INTEGERS, NUMBERS, reference
from reference_basic import one, sigmoid_of, two

BITS = INTEGERS + ("bool_",)
WHOLE = FLOATS + INTEGERS


# ---- functions of one operand ----

def erfc(x):
    """scipy's own loses digits where x^2 is large: here e^-x^2 comes of the two halves of x, whose products are exact."""
    with np.errstate(all="ignore"):
        high = x.astype(np.float32).astype(np.float64)
        return np.where((x > 1) & (x < 1e4), scipy.special.erfcx(x) * np.exp(-high * high) * np.exp(-(x - high) * (x + high)), scipy.special.erfc(x))


def sinc(x):
    """At the end of the range pi x overflows and np.sinc is NaN; a finite x so large has a sinc of nearly 0."""
    return np.where(np.isfinite(x) & (np.abs(x) > 1e300), 0, np.sinc(x))


def lgamma(x):
    """As C's: infinite at minus infinity (SciPy: minus infinity), -log |x| near 0 (SciPy: infinite for subnormal doubles)."""
    with np.errstate(all="ignore"):
        return np.where(np.isneginf(x), np.inf, np.where(np.abs(x) < 1e-290, -np.log(np.abs(x)), scipy.special.gammaln(x)))


_functions = {
    "erfc": erfc, "lgamma": lgamma, "expm1": np.expm1, "log1p": np.log1p, "log2": np.log2, "exp2": np.exp2,
    "log10": np.log10, "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "reciprocal": lambda x: 1 / np.asarray(x, np.float64),
    "rad2deg": np.rad2deg, "deg2rad": np.deg2rad, "sinc": sinc,
}
for _name, _f in _functions.items():
    reference(_name, draw=one(), dtypes=ALL, result="float")(lambda x, f=_f: f(np.asarray(x, np.float64)))

reference("tan", draw=one(), result="float")(np.tan)  # a whole number that f32 does not hold has another tangent
for _name, _f in {"ceil": np.ceil, "trunc": np.trunc}.items():
    reference(_name, draw=one(), dtypes=WHOLE, result="same")(lambda x, f=_f: f(x) if x.dtype.kind == "f" else x)

reference("round", draw=one(), dtypes=WHOLE, result="same")(lambda x, decimals=0: np.rint(x) if x.dtype.kind == "f" else x)
reference("frac", draw=one(), dtypes=WHOLE, result="same")(lambda x: x - (np.trunc(x) if x.dtype.kind == "f" else x))
reference("sign", draw=one(), dtypes=WHOLE, result="same")(np.sign)
reference("signbit", draw=one(), dtypes=ALL, result="bool_")(lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0)
reference("positive", draw=one(), dtypes=WHOLE, result="same")(lambda x: x)
reference("square", draw=one(), dtypes=WHOLE, result="same")(lambda x: x * x)
for _name, _f in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}.items():
    reference(_name, draw=one(), dtypes=ALL, result="bool_")(lambda x, f=_f: f(np.asarray(x, np.float64)))


def eighths(d, low, high):
    """A number that every floating-point dtype holds."""
    return np.round(d.float(low, high) * 8) / 8


@reference("nan_to_num", draw=lambda d: (d.tensor(), {"nan": eighths(d, -2, 2), "posinf": eighths(d, 3, 9), "neginf": eighths(d, -9, -3)}), result="same")
def nan_to_num(x, nan=0, posinf=None, neginf=None):
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


# ---- two operands ----

reference("copysign", draw=two(), result="float")(np.copysign)
for _name, _f in {"atan2": np.arctan2, "hypot": np.hypot, "logaddexp": np.logaddexp, "xlogy": scipy.special.xlogy}.items():
    reference(_name, draw=two(), dtypes=NUMBERS, result="float")(lambda a, b, f=_f: f(np.asarray(a, np.float64), np.asarray(b, np.float64)))


@reference("fmod", draw=two("moderate"), dtypes=NUMBERS, result="promote")
def fmod(a, b):
    return np.fmod(a, b)


@reference("remainder", draw=two("moderate"), dtypes=NUMBERS, result="promote")
def remainder(a, b):
    m = np.fmod(a, b)
    return np.where((m != 0) & ((m < 0) != (np.asarray(b) < 0)), m + b, m)


@reference("floor_divide", draw=two("moderate"), dtypes=NUMBERS, result="promote")
def floor_divide(a, b):
    if np.result_type(a, b).kind != "f":
        return np.floor_divide(a, b)
    m = np.fmod(a, b)
    q = np.rint((a - m) / b)
    q = np.where((m != 0) & ((m < 0) != (np.asarray(b) < 0)), q - 1, q)
    return np.where(np.asarray(b) == 0, np.divide(a, b), np.where(q == 0, np.copysign(0, np.divide(a, b)), q))


@reference("heaviside", draw=two(), dtypes=WHOLE, result="promote")
def heaviside(a, b):
    return np.where(np.isnan(a), a, np.where(a == 0, b, np.where(a > 0, 1, 0)))


for _name, _f in {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}.items():
    reference(_name, draw=two(), dtypes=ALL, result="bool_")(_f)
reference("logical_not", draw=one(), dtypes=ALL, result="bool_")(np.logical_not)
for _name, _f in {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}.items():
    reference(_name, draw=two(), dtypes=BITS, result="promote")(_f)
reference("bitwise_not", draw=one(), dtypes=BITS, result="same")(np.bitwise_not)
reference("bitwise_left_shift", draw=two("small", "small"), dtypes=INTEGERS, result="promote")(np.left_shift)
reference("bitwise_right_shift", draw=two("any", "small"), dtypes=INTEGERS, result="promote")(np.right_shift)


# ---- selection and mixtures ----

def drawn_clamp(d):
    shape = d.shape()
    x = d.tensor(shape)
    which = d.int(0, 2)
    return x, {"min": None if which == 1 else d.tensor(d.broadcast(shape)), "max": None if which == 0 else d.tensor(d.broadcast(shape))}


@reference("clamp", "clip", draw=drawn_clamp, dtypes=NUMBERS, result="promote")
def clamp(x, min=None, max=None):
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def drawn_fill(d):
    shape = d.shape()
    x = d.tensor(shape)
    return x, d.tensor(d.broadcast(shape), dtype="bool_"), d.int(0, 9)


reference("masked_fill", draw=drawn_fill, dtypes=NUMBERS, result="same")(lambda x, mask, value: np.where(mask, value, x))


def drawn_three(values):
    def draw(d):
        shape = d.shape()
        return d.tensor(shape, values=values), d.tensor(d.broadcast(shape), values=values), d.tensor(d.broadcast(shape), values=values)
    return draw


@reference("lerp", draw=drawn_three("moderate"), result="promote")
def lerp(x, end, weight):
    return np.where(np.abs(weight) < 0.5, x + weight * (end - x), end - (end - x) * (1 - weight))


def with_value(values):
    def draw(d):
        return (*drawn_three(values)(d), {"value": d.choice((1, 0.5, -2)) if d.dtype in FLOATS else 1})
    return draw


reference("addcmul", draw=with_value("moderate"), result="promote")(lambda x, a, b, value=1: x + value * a * b)
reference("addcdiv", draw=with_value("moderate"), result="promote")(lambda x, a, b, value=1: x + value * a / b)


# ---- activations ----

def softplus_of(x):
    return np.logaddexp(0, x)


def with_floats(**ranges):
    """A tensor and keywords, each a number of its range."""
    return lambda d: (d.tensor(), {name: d.float(*ends) for name, ends in ranges.items()})


@reference("softplus", draw=with_floats(beta=(0.5, 2), threshold=(5, 20)), result="float")
def softplus(x, beta=1, threshold=20):
    return np.where(x * beta > threshold, x, softplus_of(x * beta) / beta)


@reference("elu", draw=with_floats(alpha=(0.5, 2)), result="float")
def elu(x, alpha=1):
    return np.where(x > 0, x, alpha * np.expm1(x))


@reference("selu", draw=one(), dtypes=FLOATS, result="float")
def selu(x):
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))


@reference("celu", draw=with_floats(alpha=(0.5, 2)), result="float")
def celu(x, alpha=1):
    return np.where(x > 0, x, alpha * np.expm1(x / alpha))


@reference("leaky_relu", draw=with_floats(negative_slope=(0, 1)), result="float")
def leaky_relu(x, negative_slope=0.01):
    return np.where(x > 0, x, negative_slope * x)


def drawn_prelu(d):
    shape = d.shape(min_rank=2)
    return d.tensor(shape), d.tensor((1,) if d.bool() else (shape[1],), values="moderate")


@reference("prelu", draw=drawn_prelu, result="float")
def prelu(x, weight):
    return np.where(x > 0, x, weight.reshape((-1,) + (1,) * (x.ndim - 2)) * x)


def hard_gate(x):
    return np.minimum(np.maximum(x + 3, 0), 6) / 6


reference("relu6", draw=one(), dtypes=NUMBERS, result="same")(lambda x: np.minimum(np.maximum(x, 0), 6))
reference("relu2", draw=one(), dtypes=NUMBERS, result="same")(lambda x: np.maximum(x, 0) ** 2)
reference("relu_mask", draw=one(), dtypes=NUMBERS, result="same")(lambda x: np.where(x > 0, 1, 0).astype(x.dtype))
reference("hardsigmoid", draw=one(), result="float")(hard_gate)
reference("hardswish", draw=one(), result="float")(lambda x: x * hard_gate(x))
reference("hardtanh", draw=with_floats(min_val=(-3, -1), max_val=(1, 3)), result="float")(
    lambda x, min_val=-1, max_val=1: np.minimum(np.maximum(x, min_val), max_val))
reference("mish", draw=one(), result="float")(lambda x: x * np.tanh(softplus_of(x)))
reference("softsign", draw=one(), result="float")(lambda x: x / (1 + np.abs(x)))
reference("tanhshrink", draw=one(), result="float")(lambda x: x - np.tanh(x))
reference("hardshrink", draw=with_floats(lambd=(0, 2)), result="float")(lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, x))
reference("softshrink", draw=with_floats(lambd=(0, 2)), result="float")(
    lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0, np.where(x > lambd, x - lambd, x + lambd)))
reference("logsigmoid", draw=one(), result="float")(lambda x: -softplus_of(-x))
reference("threshold", draw=lambda d: (d.tensor(), {"threshold": d.float(-1, 1), "value": d.float(-4, 4)}), result="same")(
    lambda x, threshold, value: np.where(x <= threshold, value, x))


def halved(d):
    shape = list(d.shape(min_rank=1))
    dim = d.int(0, len(shape) - 1)
    shape[dim] *= 2
    return d.tensor(tuple(shape), values="moderate"), {"dim": dim}


def gated(gate):
    def unit(x, dim=-1):
        a, b = np.split(x, 2, axis=dim)
        return a * gate(b)
    return unit


reference("glu", draw=halved, result="same")(gated(sigmoid_of))
reference("geglu", draw=halved, result="same")(gated(lambda x: x * 0.5 * scipy.special.erfc(-x / np.sqrt(2))))
reference("swiglu", draw=halved, result="same")(gated(lambda x: x * sigmoid_of(x)))
