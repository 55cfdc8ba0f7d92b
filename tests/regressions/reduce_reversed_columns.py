"""Reductions of a reversed, long stack of columns; of a transposed and cut matrix; of windows that overlap (mlx 4528, burn 5599)."""
import numpy as np
import weft as wf
from check import check

x = np.arange(1, 2 * 1024 * 16 + 1, dtype=np.float32).reshape(2, 1024, 16)
for name, f in (("sum", np.sum), ("amax", np.max), ("amin", np.min), ("mean", np.mean), ("any", np.any)):
    check(getattr(wf, name)(wf.tensor(x)[::-1], dim=1), f(x[::-1].astype(np.float64), axis=1), 1.0)
y = np.arange(12, dtype=np.float32).reshape(3, 4)
check(wf.tensor(y).transpose(0, 1).narrow(0, 0, 2).sum(dim=0), [1, 9, 17])
check(wf.tensor(y)[1:, 1:].sum(), y[1:, 1:].sum())
check(wf.tensor(np.arange(5, dtype=np.float32)).unfold(0, 3, 1).sum(dim=0), [3, 6, 9])
check(wf.tensor(np.arange(16, dtype=np.float32).reshape(4, 4))[:, :2].reshape(8), np.arange(16).reshape(4, 4)[:, :2].reshape(8))
