"""No operation leaves handles behind: each row of the table is called without a scope, as a C program may call it, and when its
results are gone there are as many handles as before."""
import gc

import hypothesis
import pytest
from hypothesis import strategies as st

import harness
import test_oracle  # noqa: F401  reads the references
import weft as wf

NAMES = [name for name in harness.ROWS if name in harness.REFERENCES]


def live():
    return wf.device().stats()["handles_live"]


@pytest.mark.parametrize("name", NAMES)
def test_an_operation_leaves_no_handle(name):
    @hypothesis.settings(max_examples=4, parent=hypothesis.settings.get_profile("fixed"))
    @hypothesis.given(st.data())
    def cases(data):
        case = harness.Case(harness.REFERENCES[name], data)
        arguments, keywords = case.map(harness.Operand.tensor)
        gc.collect(0)
        for wrong in (False, True):
            if wrong:
                arguments = [wf.zeros((2, 3, 4, 5, 6, 7, 8), dtype="bool_") if isinstance(a, wf.Tensor) else a for a in arguments]
            getattr(wf._weft.ops, name)  # what the interpreter keeps, it keeps now
            before = live()
            wf._weft._set_unscoped(True)
            try:
                result = getattr(wf._weft.ops, name)(*arguments, **keywords)
                wf._weft._set_unscoped(False)
                if not wrong:
                    wf.eval(*(result if isinstance(result, tuple) else (result,)))
                del result
            except (wf.Error, TypeError, ValueError):
                pass
            finally:
                wf._weft._set_unscoped(False)
            assert live() == before, f"{live() - before} handles are left of a {'wrong' if wrong else 'right'} call\n{case.program()}"
    cases()
