"""Sums of bool and bytes do not wrap at 8 bits, the least integer over -1 does not trap, division rounds down (numpy 21507, dpctl 1260)."""
import numpy as np
import weft as wf
from check import check

check(wf.sum(wf.ones((300,), dtype=wf.bool_)), 300)
check(wf.sum(wf.full((1000,), 255, dtype=wf.uint8)), 255000)
check(wf.sum(wf.full((1000,), -128, dtype=wf.int8)), -128000)
low = np.array([-2**31, -7, 7, -7, 7, 0], np.int32)
by = np.array([-1, 2, -2, -2, 2, 5], np.int32)
check(wf.floor_divide(wf.tensor(low), wf.tensor(by)), [-2**31, -4, -4, 3, 3, 0])
check(wf.remainder(wf.tensor(low), wf.tensor(by)), [0, 1, -1, -1, 1, 0])
check(wf.fmod(wf.tensor(low), wf.tensor(by)), [0, -1, 1, -1, 1, 0])
check(wf.abs(wf.tensor(np.array([-2**31], np.int32))), [-2**31])
check(wf.tensor(np.array([200, 100], np.uint8)) + wf.tensor(np.array([100, 100], np.uint8)), [44, 200])
check(wf.amin(wf.tensor(np.array([2**32 - 1, 3 * 10**9], np.uint32))), 3 * 10**9)
check(wf.amax(wf.tensor(np.array([-5, -128], np.int8))), -5)
check(wf.tensor(np.array([1e10, -1e10, np.nan, 300, -129.5], np.float32)).cast(wf.int8), [127, -128, 0, 127, -128])
check(wf.tensor(np.array([0.5, np.nan, 0], np.float32)).cast(wf.bool_), [1, 1, 0])
check(wf.floor(wf.tensor(np.float32(21600)) / wf.tensor(np.float32(72))), 300)
check(wf.remainder(wf.tensor(np.array([-1, 5, -0.0, 5], np.float32)), wf.tensor(np.array([3, np.inf, 1, -3], np.float32))), [2, 5, 0, -1])
