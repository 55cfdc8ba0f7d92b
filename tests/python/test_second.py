"""The references against a second oracle: JAX, and PyTorch where it is installed (it is never needed, and nothing else asks for it).

A reference is what weft is held to; here each is held to an implementation that its author did not write, on the operands that the oracle
tests draw, in float64. PyTorch's names and keywords are weft's, so every operation that PyTorch has under its name is compared.
"""
import warnings

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import harness
import test_oracle  # noqa: F401  loads the references

second_jax = pytest.importorskip("second_jax")
try:
    import torch
    torch.set_default_dtype(torch.float64)  # what functions of integers compute in
except ImportError:
    torch = None

EXAMPLES = max(2, hypothesis.settings().max_examples // 4)
# weft's own in name or arguments, indices that may differ among equals, or another definition (docs/ops.md says which).
NOT_TORCH = {"cast", "slice", "expand", "quantile", "round", "histc", "einsum",
             "empty_like",  # of any values there
             "kthvalue",    # gives any index among equal values
             "sign", "heaviside",  # 0 for NaN there
             "sinc",        # NaN there where pi x overflows
             "nanmean",     # sums in another order: infinite or NaN where a part of the sum overflows
             "pixel_unshuffle"}  # keeps the extents of an empty input


def agree(reference, other, scale):
    assert reference.shape == other.shape, f"the reference has shape {reference.shape}, the other {other.shape}"
    with np.errstate(all="ignore"):
        a, b = reference.astype(np.float64), other.astype(np.float64)
        largest = np.max(np.abs(a[np.isfinite(a)]), initial=0)
        bound = 1e-9 * (np.abs(a) + largest) + 1e-13 * (scale + min(scale, 1e150) ** 2) + 1e-290  # what cancels in sums of squares
        same = (a == b) | np.isnan(a) & np.isnan(b) | (np.abs(a - b) <= bound) | (np.abs(a) > 1e306) | (np.abs(b) > 1e306) & ~np.isnan(a)
    assert same.all(), f"the reference says {a[~same][:4].tolist()}, the other {b[~same][:4].tolist()}"


def compare(name, other):
    spec, compared = harness.REFERENCES[name], []

    @hypothesis.settings(max_examples=EXAMPLES)
    @hypothesis.given(st.data())
    def cases(data):
        case = harness.Case(spec, data)
        arguments, keywords = case.map(harness.Operand.exact)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = spec.function(*arguments, **keywords)
            got = other(arguments, keywords)
        if got is None:
            return
        compared.append(1)
        wants, gots = (v if isinstance(v, (tuple, list)) else (v,) for v in (want, got))
        sizes = [np.max(np.abs(a[np.isfinite(a)]), initial=1) for a in map(harness.Operand.exact, case.operands()) if a.dtype.kind == "f"]
        try:
            for a, b in zip(wants, gots):
                agree(np.asarray(a), np.asarray(b), float(max(sizes, default=1)))
        except AssertionError as error:
            error.add_note(case.program())
            raise
    cases()
    return len(compared)


def flushed(args):
    """XLA takes subnormal doubles for 0."""
    return any(a.dtype.kind == "f" and np.any((a != 0) & (np.abs(a) < 2.0**-1022)) for a in args if isinstance(a, np.ndarray))


def in_jax(name):
    """None for keywords that JAX's function has not."""
    def call(args, keywords):
        given = {k: v for k, v in keywords.items() if v is not None}
        try:
            return None if flushed(args) else second_jax.JAX[name](*args, **given)
        except TypeError as error:
            if "unexpected keyword" in str(error):
                return None
            raise
    return call


@pytest.mark.parametrize("name", [name for name in second_jax.JAX if name in harness.REFERENCES and harness.REFERENCES[name].function])
def test_jax(name):
    compared = compare(name, in_jax(name))
    assert compared or EXAMPLES < 40, "no case that JAX has"


def torch_function(name):
    for home in (torch, torch.nn.functional, torch.linalg, torch.special):
        if hasattr(home, name):
            return getattr(home, name)
    return getattr(torch.Tensor, name, None)


def in_torch(f):
    """Called with PyTorch's tensors; None where it takes no such arguments."""
    def tensor(v):
        if isinstance(v, np.ndarray):
            return torch.from_numpy(np.ascontiguousarray(v).reshape(v.shape).copy())
        return type(v)(tensor(one) for one in v) if isinstance(v, (list, tuple)) else v

    def call(args, keywords):
        try:
            got = f(*map(tensor, args), **{k: tensor(v) for k, v in keywords.items()})
        except (TypeError, RuntimeError, ValueError, NotImplementedError, IndexError):
            return None
        return tuple(one.numpy() for one in got) if isinstance(got, (tuple, list)) else got.numpy() if isinstance(got, torch.Tensor) else None
    return call


@pytest.mark.skipif(torch is None, reason="long: PyTorch is not installed, and is not needed")
@pytest.mark.parametrize("name", [name for name, spec in harness.REFERENCES.items() if spec.function and name not in NOT_TORCH])
def test_torch(name):
    f = torch_function(name)
    if f:
        compare(name, in_torch(f))
