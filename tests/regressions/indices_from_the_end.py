"""Negative indices, repeated ones, a strided source; an index outside is an error (candle 3711, mlx 4253)."""
import numpy as np
import weft as wf
from check import check

x = np.arange(24, dtype=np.float32).reshape(4, 6)
t = wf.tensor(x).transpose(0, 1)
at = np.array([[-1, 0, -4, 3]], np.int32)
check(wf.gather(t, 1, wf.tensor(at)), np.take_along_axis(x.T[:1], at, 1))
check(wf.index_select(t, 0, wf.tensor(np.array([-6, 5, -1], np.int32))), x.T[[-6, 5, -1]])
check(wf.take(t, wf.tensor(np.array([-1, -24, 3], np.int32))), x.T.reshape(-1)[[-1, -24, 3]])
check(wf.scatter_add(wf.zeros((3,)), 0, wf.tensor(np.array([-1, 2, 0, -3], np.int32)), wf.ones((4,))), [2, 0, 2])
check(wf.scatter(wf.zeros((3,)), 0, wf.tensor(np.array([1, 1], np.int32)), wf.tensor(np.array([5, 7], np.float32))), [0, 7, 0])
check(wf.index_add(wf.tensor(x).transpose(0, 1)[:, :2], 0, wf.tensor(np.array([0, 0, -1], np.int32)), wf.ones((3, 2))), x.T[:, :2] + np.array([[2], [0], [0], [0], [0], [1]]))
check(wf.scatter_reduce(wf.tensor(np.array([9, 9], np.float32)), 0, wf.tensor(np.array([0, 0], np.int32)), wf.tensor(np.array([1, 2], np.float32)), "amax",
                        include_self=False), [2, 9])
for bad in (4, -5):
    try:
        wf.index_select(wf.tensor(x), 0, wf.tensor(np.array([bad], np.int32))).numpy()
    except (wf.Error, IndexError):
        continue
    raise AssertionError(f"index {bad} of 4 is no error")
