"""Equal elements keep their order both ways, NaN stands above all, -0 equals 0; short, long and one-element lines (tinygrad 11601)."""
import numpy as np
import weft as wf
from check import check

nan = np.nan
x = np.array([3, 1, 3, nan, 1, -nan, -np.inf, 3], np.float32)
values, at = wf.sort(wf.tensor(x), dim=0)
check(values, [-np.inf, 1, 1, 3, 3, 3, nan, nan])
check(at, [6, 1, 4, 0, 2, 7, 3, 5])
values, at = wf.sort(wf.tensor(x), dim=0, descending=True)
check(at, [3, 5, 0, 2, 7, 1, 4, 6])
check(wf.argsort(wf.tensor(np.array([0.0, -0.0, 0.0, -0.0], np.float32))), [0, 1, 2, 3])
for n in (1, 2, 3, 47, 49, 257, 2049):
    y = (np.arange(n) * 7919 % 5).astype(np.int32)
    check(wf.argsort(wf.tensor(y)), np.argsort(y, kind="stable"))
    check(wf.argsort(wf.tensor(y), descending=True), np.argsort(-y, kind="stable"))
check(wf.sort(wf.tensor(np.float32(4)))[0], 4)
check(wf.topk(wf.tensor(np.array([1, nan, 3, 3], np.float32)), 3)[0], [nan, 3, 3])
check(wf.median(wf.tensor(np.array([4, 1, 3, 2], np.float32))), 2)
check(wf.median(wf.tensor(np.array([4, nan, 3, 2], np.float32))), nan)
