"""What the programs beside this one check with. Each is run by tests/python/test_regressions.py, and by hand:

    PYTHONPATH=build/release/python python3 tests/regressions/NAME.py

on the CPU, or on the device that WEFT_TEST_DEVICE names.
"""
import os

import numpy as np

import weft as wf

wf.device(os.environ.get("WEFT_TEST_DEVICE", "cpu"))


def opened(threads, settings):
    """The device of this run, opened with other settings of the environment, such as WEFT_FUSE=0."""
    before = {key: os.environ.get(key) for key in settings}
    os.environ.update(settings)
    try:
        return wf._weft.Device(os.environ.get("WEFT_TEST_DEVICE", "cpu"), n_threads=threads)
    finally:
        for key, value in before.items():
            os.environ.pop(key)
            if value is not None:
                os.environ[key] = value


def check(got, want=None, bound=0.0):
    """got is within `bound` of want, NaN and infinity at the same places; without want it can be computed."""
    values = [one.numpy() for one in (got if isinstance(got, tuple) else (got,))]
    if want is None:
        return
    value, want = values[0].astype(np.float64), np.asarray(want, np.float64)
    assert value.shape == want.shape, f"shape {value.shape}, not {want.shape}"
    with np.errstate(invalid="ignore"):
        near = (value == want) | np.isnan(value) & np.isnan(want) | (np.abs(value - want) <= bound)
    assert near.all(), f"{value.tolist()}\nnot {want.tolist()} within {bound}"
