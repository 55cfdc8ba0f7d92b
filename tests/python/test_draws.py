"""What the harness draws: views, extents and values in the shares that find faults."""
import hypothesis
import numpy as np
from hypothesis import strategies as st

import harness


def test_shares_of_what_is_drawn():
    spec = harness.Reference("none", None, lambda d: d.tensor(), {"dtypes": ("float32",)})
    seen = []

    @hypothesis.settings(max_examples=1000)
    @hypothesis.given(st.data())
    def draw(data):
        seen.append(harness.Case(spec, data).arguments[0].view())
    draw()
    n = len(seen)
    assert n >= 1000
    count = {
        "not contiguous": sum(not x.flags.c_contiguous for x in seen),
        "a zero or one axis": sum(any(e < 2 for e in x.shape) for x in seen),
        "a negative stride": sum(any(s < 0 for s, e in zip(x.strides, x.shape) if e > 1) for x in seen),
        "a broadcast stride": sum(any(s == 0 for s, e in zip(x.strides, x.shape) if e > 1) for x in seen),
        "NaN or infinity": sum(not np.isfinite(x).all() for x in seen),
    }
    need = {"not contiguous": 0.30, "a zero or one axis": 0.10, "a negative stride": 0.05, "a broadcast stride": 0.03, "NaN or infinity": 0.05}
    for what, share in need.items():
        assert count[what] >= share * n, f"{what}: {count[what]} of {n}, {count}, ranks {[sum(x.ndim == r for x in seen) for r in range(7)]}"
    assert {x.ndim for x in seen} == set(range(7))
