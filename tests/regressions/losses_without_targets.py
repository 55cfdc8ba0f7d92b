"""All targets ignored: the mean is 0 / 0, the sum 0; weights and smoothing count only what is there."""
import numpy as np
import weft as wf
from check import check

x = wf.tensor(np.array([[1, 2, 3], [3, 2, 1]], np.float32))
none = wf.tensor(np.array([-100, -100], np.int32))
check(wf.cross_entropy(x, none), np.nan)
check(wf.cross_entropy(x, none, reduction="sum"), 0)
check(wf.cross_entropy(x, none, reduction="none"), [0, 0])
one = -np.log(np.exp(1) / np.exp([1, 2, 3]).sum())
check(wf.cross_entropy(x, wf.tensor(np.array([0, -100], np.int32))), one, 1e-5)
check(wf.cross_entropy(x, wf.tensor(np.array([0, -100], np.int32)), weight=wf.tensor(np.array([5, 1, 1], np.float32))), one, 1e-5)
check(wf.nll_loss(wf.log_softmax(x, dim=1), none), np.nan)
check(wf.mse_loss(wf.zeros((0,)), wf.zeros((0,))), np.nan)
check(wf.kl_div(wf.tensor(np.array([-1.0], np.float32)), wf.tensor(np.array([0.0], np.float32)), reduction="sum"), 0)
check(wf.binary_cross_entropy_with_logits(wf.tensor(np.array([1000, -1000], np.float32)), wf.tensor(np.array([0, 1], np.float32)), reduction="none"), [1000, 1000])
