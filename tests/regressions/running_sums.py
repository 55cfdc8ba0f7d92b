"""Running sums: rank 0, negative axes, half precision that does not stall, long lines in f32, integers that wrap (tinygrad 1261, 4781)."""
import numpy as np
import weft as wf
from check import check

check(wf.cumsum(wf.tensor(np.float32(3)), 0), 3)
check(wf.cumsum(wf.tensor(np.arange(6, dtype=np.float32).reshape(2, 3)), -2), [[0, 1, 2], [3, 5, 7]])
check(wf.cumsum(wf.ones((5000,)).cast(wf.bfloat16), 0)[-1], 4992, 16)
check(wf.sum(wf.ones((5000,)).cast(wf.bfloat16)), 4992, 16)
check(wf.mean(wf.full((4096,), 60000.0).cast(wf.float16)), 60000, 32)
x = np.full(200000, 0.1, np.float32)
check(wf.cumsum(wf.tensor(x), 0)[-1], float(np.sum(x.astype(np.float64))), 0.01)
check(wf.cumsum(wf.tensor(np.array([2**31 - 1, 1, 1], np.int32)), 0), [2**31 - 1, -2**31, -2**31 + 1])
check(wf.cumprod(wf.tensor(np.array([2, 0, np.inf], np.float32)), 0), [2, 0, np.nan])
check(wf.cummax(wf.tensor(np.array([1, 3, 3, np.nan, 5], np.float32)), 0)[1], [0, 1, 2, 3, 3])
check(wf.cummin(wf.tensor(np.array([3, 1, np.nan, 0], np.float32)), 0)[0], [3, 1, np.nan, np.nan])
check(wf.cumsum(wf.tensor(np.ones((2, 0), np.float32)), 1), np.ones((2, 0)))
