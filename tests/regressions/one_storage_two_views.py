"""Views of one storage are operands of their own; a slice that is assigned leaves the views before it as they were."""
import numpy as np
import weft as wf
from check import check

b = wf.tensor(np.array([1, 2, 3, 4], np.float32))
check(b[0:2] + b[2:4], [4, 6])
check(b[::-1] * b, [4, 6, 6, 4])
x = wf.arange(8).cast(wf.float32).reshape(2, 4)
check(x.flip(0).sum(dim=0), [4, 6, 8, 10])
check(wf.arange(6).cast(wf.float32).reshape(2, 3).transpose(0, 1) @ wf.ones((2, 2)), [[3, 3], [5, 5], [7, 7]])
view = b[1:3]
b[1:3] = b[0:2]
check(view, [2, 3])
check(b, [1, 1, 2, 4])
check(wf.tensor(np.arange(6, dtype=np.float32)).expand((3, 6)).transpose(0, 1).reshape(18)[:4], [0, 0, 0, 1])
check(wf.maximum(wf.tensor(np.array([1, np.nan, -np.inf], np.float32)), wf.tensor(np.array([np.nan, 1, np.nan], np.float32))), [np.nan] * 3)
check(wf.relu(wf.tensor(np.array([np.nan, -1], np.float32))), [np.nan, 0])
check(wf.clamp(wf.tensor(np.array([np.nan, 9, -9], np.float32)), -1, 1), [np.nan, 1, -1])
check(wf.where(wf.tensor(np.array([True, False])), wf.tensor(np.array([1, 2], np.float32)), wf.tensor(np.array([np.nan, 3], np.float32))), [1, 3])
