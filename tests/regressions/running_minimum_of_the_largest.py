"""The largest i64 is no NaN: a smaller one behind it is the running minimum. Found by test_op[cummin]."""
import numpy as np
import weft as wf
from check import check

most = 2**63 - 1
values, at = wf.cummin(wf.tensor(np.array([most, 5, most, 3], np.int64)), 0)
check(values[1:], [5, 5, 3])
check(at, [0, 1, 1, 3])
values, at = wf.cummax(wf.tensor(np.array([5, most, 3], np.int64)), 0)
check(at, [0, 1, 1])
