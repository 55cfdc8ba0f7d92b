"""The first NaN is the extreme, the first of equals its place, whatever the length (jax 3193, tensorflow 118647)."""
import numpy as np
import weft as wf
from check import check

for n in (1, 2, 3, 5, 8, 17, 31, 33, 100, 1025):
    for at in {0, n // 2, n - 1}:
        x = np.zeros(n, np.float32)
        x[at:] = np.nan
        check(wf.argmax(wf.tensor(x)), at)
        check(wf.argmin(wf.tensor(x)), at)
    check(wf.argmax(wf.tensor(np.full(n, -np.inf, np.float32))), 0)
    check(wf.argmax(wf.tensor(np.full((3, n), 7, np.int32)), dim=1), [0, 0, 0])
x = np.array([[1, 5, 3], [np.nan, 2, 6]], np.float32)
check(wf.argmax(wf.tensor(x), dim=0), [1, 0, 1])
check(wf.argmax(wf.tensor(x), dim=1), [1, 0])
check(wf.amax(wf.tensor(x), dim=0), [np.nan, 5, 6])
