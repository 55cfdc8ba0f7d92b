"""One output element with align_corners is the first input; corners meet; downsampling keeps its ratio (tinygrad 17790)."""
import numpy as np
import weft as wf
from check import check

x = wf.tensor(np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4))
check(wf.interpolate(x, size=(1, 1), mode="bilinear", align_corners=True), [[[[1]]]])
check(wf.interpolate(x, size=(1, 4), mode="bilinear", align_corners=True), [[[[1, 2, 3, 4]]]])
check(wf.interpolate(x, size=(3, 7), mode="bilinear", align_corners=True)[0, 0, :, ::2], [[1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7, 8]], 1e-5)
check(wf.interpolate(x, size=(1, 2), mode="bilinear"), [[[[3.5, 5.5]]]], 1e-5)
check(wf.interpolate(wf.tensor(np.array([[[0, 1]]], np.float32)), size=(4,), mode="linear"), [[[0, 0.25, 0.75, 1]]], 1e-6)
check(wf.interpolate(wf.tensor(np.array([[[0, 1, 2]]], np.float32)), scale_factor=2, mode="nearest"), [[[0, 0, 1, 1, 2, 2]]])
check(wf.interpolate(wf.tensor(np.arange(5, dtype=np.float32).reshape(1, 1, 5)), size=(3,), mode="nearest"), [[[0, 1, 3]]])
check(wf.interpolate(wf.tensor(np.arange(5, dtype=np.float32).reshape(1, 1, 5)), size=(3,), mode="nearest-exact"), [[[0, 2, 4]]])
