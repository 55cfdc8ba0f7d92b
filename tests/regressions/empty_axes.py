"""Folding nothing: 0, 1, NaN or an error; products without an inner axis; joins and views of nothing."""
import numpy as np
import weft as wf
from check import check

x = wf.zeros((0, 3))
check(wf.sum(x, dim=0), [0, 0, 0])
check(wf.prod(x, dim=0), [1, 1, 1])
check(wf.mean(x, dim=0), [np.nan] * 3)
check(wf.logsumexp(x, dim=0), [-np.inf] * 3)
check(wf.any(x, dim=0), [0, 0, 0])
check(wf.all(x, dim=0), [1, 1, 1])
check(wf.zeros((2, 0)) @ wf.zeros((0, 3)), np.zeros((2, 3)))
check(wf.linear(wf.zeros((2, 0)), wf.zeros((3, 0)), wf.tensor(np.array([1, 2, 3], np.float32))), [[1, 2, 3]] * 2)
check(wf.einsum("ij,jk->ik", wf.zeros((2, 0)), wf.zeros((0, 2))), np.zeros((2, 2)))
check(wf.cat([wf.ones((2, 3)), x]), np.ones((2, 3)))
check(wf.softmax(wf.zeros((2, 0)), dim=1), np.zeros((2, 0)))
check(wf.sort(x, dim=0)[0], np.zeros((0, 3)))
check(wf.layer_norm(wf.zeros((0, 4)), (4,)), np.zeros((0, 4)))
check(wf.var(wf.ones((1,)), dim=0), np.nan)
check(wf.var(wf.ones((1,)), dim=0, correction=0), 0)
check(wf.std(wf.tensor(np.array([[1, 3]], np.float32)), dim=0), [np.nan, np.nan])
check(wf.nonzero(wf.zeros((3,))), np.zeros((0, 1)))
for name in ("amax", "amin", "argmax", "argmin"):
    try:
        getattr(wf, name)(x, dim=0).numpy()
    except wf.Error:
        continue
    raise AssertionError(f"{name} of an empty axis is no error")
