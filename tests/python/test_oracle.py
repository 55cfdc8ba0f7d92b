"""Every row of the table of operations against its reference. harness.py says how to add a reference."""
import hypothesis
import pytest
from hypothesis import strategies as st

import borders
import harness
import reference_algebra  # noqa: F401
import reference_basic  # noqa: F401
import reference_convolution  # noqa: F401
import reference_creation  # noqa: F401
import reference_indexing  # noqa: F401
import reference_networks  # noqa: F401
import reference_pointwise  # noqa: F401
import reference_quantised  # noqa: F401
import reference_random  # noqa: F401
import reference_reduction  # noqa: F401
import reference_shape  # noqa: F401


@pytest.mark.parametrize("name", [name for name in harness.ROWS if name in harness.REFERENCES])
def test_op(name):
    spec = harness.REFERENCES[name]

    @hypothesis.given(st.data())
    def cases(data):
        harness.try_case(spec, data)
    cases()


@pytest.mark.parametrize("name", [name for name in harness.ROWS if name in harness.REFERENCES and borders.draw_of(name)])
def test_border(name):
    """Long axes, at the borders of what kernels cut at: fewer of them, since each takes longer."""
    spec, (draw, long_axes) = harness.REFERENCES[name], borders.draw_of(name)

    @hypothesis.settings(max_examples=max(2, hypothesis.settings().max_examples // 5))
    @hypothesis.given(st.data())
    def cases(data):
        harness.try_case(spec, data, draw, long_axes)
    cases()


def test_every_op_has_a_reference():
    missing = [f"{row[1]}: {name}" for name, row in harness.ROWS.items() if name not in harness.REFERENCES]
    assert not missing, "no reference: " + ", ".join(missing)


def test_every_reference_has_an_op():
    unknown = [name for name in harness.REFERENCES if name not in harness.ROWS]
    assert not unknown, f"references of no operation: {unknown}"
