"""A long line whose last block is one element: 8- and 16-bit elements are converted there too. Found by test_border[cumsum]."""
import numpy as np
import weft as wf
from check import check

for n in (4097, 131073, 262145):
    x = np.ones(n, np.int8)
    x[-1] = -2
    for dtype in ("int8", "float16", "bfloat16"):
        t = wf.tensor(x).cast(getattr(wf, dtype))
        wf.eval(t)
        check(t.cast(wf.float32)[-3:], [1, 1, -2])
        check((t.cast(wf.float32) + wf.tensor(np.ones(n, np.float32)))[-2:], [2, -1])
