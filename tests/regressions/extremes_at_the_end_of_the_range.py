"""The largest integer is no NaN to a running minimum, and a NaN among scattered elements stays the extreme."""
import numpy as np
import weft as wf
from check import check

for dtype in (np.int32, np.int64, np.int8, np.uint8):
    top = np.iinfo(dtype).max
    x = wf.tensor(np.array([top - 2, top - 6, top], dtype))
    check(wf.cummin(x, 0)[0] - (top - 6), [4, 0, 0])
    check(wf.cummin(x, 0)[1], [0, 1, 1])
    check(wf.cummax(x, 0)[1], [0, 0, 2])
src, index = wf.tensor(np.array([np.nan, -2, -0.125], np.float32)), wf.tensor(np.array([0, 1, 0], np.int32))
for how in ("amax", "amin"):
    check(wf.scatter_reduce(wf.zeros((3,)), 0, index, src, how, include_self=False), [np.nan, -2, 0])
    check(wf.scatter_reduce(wf.tensor(np.array([np.nan, 0, 1], np.float32)), 0, index, wf.ones((3,)), how)[0], np.nan)
