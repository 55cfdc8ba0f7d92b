"""The dtype of a result whose operands differ: JAX's lattice, which is PyTorch's, and PyTorch's rule for rank 0."""
import itertools

import numpy as np
import pytest

import harness
import weft as wf

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp  # noqa: E402

NAMES = ("bool_", "uint8", "int8", "int32", "uint32", "int64", "float16", "bfloat16", "float32", "float64")


def kind(name):
    return 2 if "float" in name else 0 if name == "bool_" else 1


def promoted(a, rank_a, b, rank_b):
    if (rank_a == 0) != (rank_b == 0):  # a number beside an array counts when it is of a higher kind
        with_axes, number = (a, b) if rank_a else (b, a)
        if kind(number) <= kind(with_axes):
            return with_axes
    name = jnp.promote_types(harness.numpy_type(a), harness.numpy_type(b)).name
    return {"bool": "bool_", "int16": "int32"}.get(name, name)  # no i16 here: docs/ops.md


def made(name, rank, value):
    array = np.full((2, 3)[:rank], value, np.float32)
    return wf.tensor(array).cast(getattr(wf, name)) if rank else wf.tensor(np.float32(value)).cast(getattr(wf, name))


@pytest.mark.parametrize("rank_a, rank_b", ((2, 2), (1, 0), (0, 1), (0, 0)))
def test_dtypes_of_two_operands(rank_a, rank_b):
    wrong = []
    for a, b in itertools.product(NAMES, NAMES):
        x, y, want = made(a, rank_a, 3), made(b, rank_b, 2), promoted(a, rank_a, b, rank_b)
        cases = {"add": want, "mul": want, "maximum": want, "eq": "bool_", "div": want if kind(want) == 2 else "float32"}
        for name, expected in cases.items():
            got = getattr(wf._weft.ops, name)(x, y)
            number = {"add": 5, "mul": 6, "maximum": 3, "eq": 0, "div": 1.5}[name]
            if "bool_" in (a, b):  # True is 1
                va, vb = (1 if n == "bool_" else v for n, v in ((a, 3), (b, 2)))
                number = {"add": va + vb, "mul": va * vb, "maximum": max(va, vb), "eq": va == vb, "div": va / vb}[name]
            if expected == "bool_":
                number = bool(number)
            value = np.asarray(got.numpy(), np.float64)
            if got.dtype.name != expected or not np.all(value == np.float64(number)):
                wrong.append(f"{name}({a}, {b}) is {got.dtype.name} {value.reshape(-1)[0]}, not {expected} {number}")
    assert not wrong, "\n".join(wrong)


def test_dtypes_of_joined_tensors():
    wrong = []
    for a, b in itertools.product(NAMES, NAMES):
        got, want = wf.cat([made(a, 1, 1), made(b, 1, 1)]), promoted(a, 1, b, 1)
        if got.dtype.name != want:
            wrong.append(f"cat({a}, {b}) is {got.dtype.name}, not {want}")
    assert not wrong, "\n".join(wrong)
