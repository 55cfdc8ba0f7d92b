"""Statistics of small differences on a large mean; eps inside the root; the mean of f16 squares does not overflow."""
import numpy as np
import weft as wf
from check import check

x = (np.float32(1e4) + np.array([0, 1, 2, 3], np.float32))
want = (np.arange(4) - 1.5) / np.sqrt(1.25 + 1e-5)
check(wf.layer_norm(wf.tensor(x), (4,)), want, 1e-3)
check(wf.var(wf.tensor(x)), 5 / 3, 1e-5)
check(wf.layer_norm(wf.tensor(np.array([0, 800, -800, 0], np.float32)).cast(wf.float16), (4,)), [0, 2**0.5, -(2**0.5), 0], 2e-3)
check(wf.rms_norm(wf.tensor(np.full(4, 300, np.float32)).cast(wf.float16), (4,)), [1, 1, 1, 1], 1e-3)
check(wf.norm(wf.tensor(np.full(4, 300, np.float32)).cast(wf.float16)), 600, 0.5)
check(wf.layer_norm(wf.full((3, 4), 7.0), (4,)), np.zeros((3, 4)))
