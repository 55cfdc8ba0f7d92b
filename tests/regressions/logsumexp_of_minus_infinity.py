"""log of a sum of nothing but zeros is -inf, and NaN is not dropped (onnxruntime 28461, tensorflow 127513)."""
import numpy as np
import weft as wf
from check import check

inf, nan = np.inf, np.nan
check(wf.logsumexp(wf.tensor(np.full(5, -inf, np.float32)), dim=0), -inf)
check(wf.logsumexp(wf.tensor(np.array([[-inf, 0], [inf, 1], [nan, 1], [inf, -inf]], np.float32)), dim=1), [0, inf, nan, inf])
check(wf.logcumsumexp(wf.tensor(np.array([-inf, -inf, 0], np.float32)), dim=0), [-inf, -inf, 0])
check(wf.logcumsumexp(wf.tensor(np.array([1, nan, 2], np.float32)), dim=0), [1, nan, nan])
check(wf.softmax(wf.tensor(np.array([[-inf, -inf], [3.4e38, 0], [-inf, 0]], np.float32)), dim=1), [[nan, nan], [1, 0], [0, 1]])
check(wf.log_softmax(wf.tensor(np.array([[-inf, 0]], np.float32)), dim=1), [[-inf, 0]])
