"""Dilation with groups and stride, by the definition; the transposed one is its adjoint; a stride that leaves a rest."""
import numpy as np
import weft as wf
from check import check

rng = np.random.default_rng(5)
x, w = rng.integers(-3, 4, (2, 4, 9, 8)).astype(np.float32), rng.integers(-3, 4, (6, 2, 3, 2)).astype(np.float32)


def by_hand(x, w, groups, stride, pad, dilation):
    xp = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    h, v = ((n - d * (k - 1) - 1) // stride + 1 for n, k, d in zip(xp.shape[2:], w.shape[2:], (dilation, dilation)))
    y = np.zeros((x.shape[0], w.shape[0], h, v))
    each, out = w.shape[1], w.shape[0] // groups
    for o in range(w.shape[0]):
        for i in range(h):
            for j in range(v):
                part = xp[:, o // out * each:(o // out + 1) * each, i * stride:i * stride + dilation * (w.shape[2] - 1) + 1:dilation,
                          j * stride:j * stride + dilation * (w.shape[3] - 1) + 1:dilation]
                y[:, o, i, j] = (part * w[o]).sum((1, 2, 3))
    return y


for stride in (1, 2, 3):
    for dilation in (1, 2):
        want = by_hand(x, w, 2, stride, 1, dilation)
        check(wf.conv2d(wf.tensor(x), wf.tensor(w), stride=stride, padding=1, dilation=dilation, groups=2), want)
        back = rng.integers(-2, 3, want.shape).astype(np.float32)
        rest = [n + 2 - dilation * (k - 1) - 1 - (m - 1) * stride for n, k, m in zip(x.shape[2:], w.shape[2:], want.shape[2:])]
        t = wf.conv_transpose2d(wf.tensor(back), wf.tensor(w), stride=stride, padding=1, dilation=dilation, groups=2, output_padding=rest)
        check((t * wf.tensor(x)).sum(), float((back * want).sum()))
