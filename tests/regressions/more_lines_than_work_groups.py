"""70,001 lines, heads, rows and products: more than a dispatch has work groups along one dimension."""
import numpy as np
import weft as wf
from check import check

N = 70001
x = np.random.default_rng(0).integers(-4, 5, (N, 3)).astype(np.float32)
t = wf.tensor(x)
check(wf.cumsum(t, 1), np.cumsum(x, 1))
check(wf.sort(t, dim=1), np.sort(x, 1))
check(wf.argmax(t, dim=1), x.argmax(1))
check(wf.layer_norm(t, (3,)), (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5), 1e-4)
check(wf.linear(t, wf.ones((2, 3))), np.repeat(x.sum(1, keepdims=True), 2, 1))
check(wf.linear(wf.ones((1, 3)), t), x.sum(1)[None])
check(wf.bmm(t.reshape(N, 1, 3), t.reshape(N, 3, 1)), (x * x).sum(1)[:, None, None])
check(wf.bmm(t.reshape(N, 3, 1), t.reshape(N, 1, 3)), x[:, :, None] * x[:, None])
check(wf.transpose(t, 0, 1).contiguous(), x.T)
rows = (np.arange(N) % 2).astype(np.int32)
check(wf.embedding(wf.tensor(rows), wf.tensor(np.array([[1, 2], [3, 4]], np.float32))), np.array([[1, 2], [3, 4]])[rows])
check(wf.gather(t, 1, wf.tensor(rows[:, None])), x[np.arange(N), rows][:, None])
for shape in ((N, 1, 1, 3), (1, N, 1, 3)):  # one key: its value
    q = t.reshape(shape)
    check(wf.scaled_dot_product_attention(q, q, q), x.reshape(shape))
c = t.reshape(N, 1, 3)
check(wf.conv1d(c, wf.ones((1, 1, 2))), (x[:, :-1] + x[:, 1:])[:, None])
check(wf.max_pool1d(c, 3), x.max(1)[:, None, None])
check(wf.cross_entropy(t, wf.tensor(rows), reduction="none"), np.log(np.exp(x.astype(float)).sum(1)) - x[np.arange(N), rows], 1e-5)
