"""Windows that ceil_mode adds divide by what of them lies in the padding asked for; none begins in padding alone (onnxruntime 16203, onnx 4958)."""
import numpy as np
import weft as wf
from check import check

x = wf.tensor(np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4))
want = np.array([14 / 9, 10 / 3, 2, 19 / 3, 11, 6, 4.5, 7.5, 4]).reshape(1, 1, 3, 3)
check(wf.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True), want, 1e-5)
check(wf.avg_pool2d(x, 3, stride=2, ceil_mode=True), np.array([6, 7.5, 12, 13.5]).reshape(1, 1, 2, 2), 1e-5)
inside = np.array([3.5, 5, 6, 9.5, 11, 12, 13.5, 15, 16]).reshape(1, 1, 3, 3)
check(wf.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False), inside, 1e-5)
row = wf.tensor(np.array([[[2.0903, 4.6493, 1.6320, -3.2051, 4.6975, 4.7296, 3.3653, -1.5815, -2.3832]]], np.float32))
check(wf.avg_pool1d(row, 7, stride=3, padding=3, ceil_mode=True), [[[0.73807144, 2.5655572, 0.8032287, -0.09989995]]], 1e-5)
assert tuple(wf.avg_pool2d(wf.ones((1, 1, 9, 9)), 4, stride=4, padding=2, ceil_mode=True).shape) == (1, 1, 3, 3)
assert tuple(wf.max_pool2d(wf.ones((1, 3, 2, 2)), 3, stride=3, padding=1, ceil_mode=True).shape) == (1, 3, 1, 1)
check(wf.max_pool1d(wf.tensor(np.array([[[-5, -7, -9]]], np.int32)), 2, padding=1), [[[-5, -7]]])
check(wf.max_pool1d(wf.tensor(np.array([[[1, np.nan, 2]]], np.float32)), 2, stride=1), [[[np.nan, np.nan]]])
