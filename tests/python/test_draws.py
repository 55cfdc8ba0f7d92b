"""What the oracle tests draw: views, extents and values in the shares that find faults, over the cases of every operation."""
import hypothesis
import numpy as np
from hypothesis import strategies as st

import harness
import test_oracle  # noqa: F401  loads the references

NEED = {"not contiguous": 0.30, "a zero or one axis": 0.10, "a negative stride": 0.05, "NaN or infinity": 0.05, "a broadcast stride": 0.05,
        "a step": 0.05, "an offset": 0.05, "overlapping elements": 0.015, "huge or subnormal": 0.05}


def starts_inside(x, base):
    return x.size > 0 and x.__array_interface__["data"][0] != base.__array_interface__["data"][0]


def overlaps(x):
    """Two places of one element, but for strides of 0."""
    axes = [(abs(s), e) for s, e in zip(x.strides, x.shape) if e > 1 and s != 0]
    return sum(s * (e - 1) for s, e in axes) // x.itemsize + 1 < np.prod([e for _, e in axes])


def seen_in(operand):
    x, base = operand.view(), operand.base
    real = operand.dtype in harness.FLOATS
    size = np.abs(x.astype(np.float64)) if real else None
    strides = [(s // x.itemsize, e) for s, e in zip(x.strides, x.shape) if e > 1]
    with np.errstate(invalid="ignore"):
        extreme = real and bool(np.any((size > harness.LARGEST[operand.dtype] / 4) & np.isfinite(size) | (size > 0) & (size < harness.SMALLEST_NORMAL[operand.dtype])))
    return {
        "not contiguous": not x.flags.c_contiguous,
        "a zero or one axis": any(e < 2 for e in x.shape),
        "a negative stride": any(s < 0 for s, _ in strides),
        "a broadcast stride": any(s == 0 for s, _ in strides),
        "a step": any(abs(s) > 1 for s, _ in strides[-1:]),
        "an offset": starts_inside(x, base),
        "overlapping elements": overlaps(x),
        "NaN or infinity": real and not np.isfinite(size).all(),
        "huge or subnormal": extreme,
    }


def count(cases):
    """Of the cases with operands, in how many one has each property; and the ranks and dtypes that were seen."""
    n, shares, ranks, dtypes = 0, dict.fromkeys(NEED, 0), set(), set()
    for case in cases:
        operands = case.operands()
        if not operands:
            continue
        n += 1
        ranks |= {o.view().ndim for o in operands}
        dtypes |= {o.dtype for o in operands}
        found = [seen_in(o) for o in operands]
        for what in NEED:
            shares[what] += any(f[what] for f in found)
    return n, shares, ranks, dtypes


def drawn(spec, examples, cases):
    @hypothesis.settings(max_examples=examples, phases=[hypothesis.Phase.generate])
    @hypothesis.given(st.data())
    def draw(data):
        cases.append(harness.Case(spec, data))
    draw()


def test_shares_over_all_operations():
    """Four cases of each operation, as test_op draws them: more than 1,000."""
    cases = []
    for spec in harness.REFERENCES.values():
        drawn(spec, 4, cases)
    n, shares, ranks, dtypes = count(cases)
    assert n >= 1000
    for what, share in NEED.items():
        assert shares[what] >= share * n, f"{what}: {shares[what]} of {n}, {shares}"
    assert ranks >= set(range(7)) and dtypes == set(harness.ALL)


def test_shares_of_one_tensor():
    """The draw that most operations begin with, 1,000 times."""
    cases = []
    drawn(harness.Reference("none", None, lambda d: d.tensor(), {"dtypes": ("float32",)}), 1000, cases)
    n, shares, ranks, _ = count(cases)
    assert n >= 1000 and ranks == set(range(7))
    for what, share in NEED.items():
        assert shares[what] >= share * n, f"{what}: {shares[what]} of {n}, {shares}"
