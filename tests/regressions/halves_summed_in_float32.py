"""float16 and bfloat16: sums and statistics are kept in float32, and only the result is rounded."""
import numpy as np
import weft as wf
from check import check


def f32(values):
    return wf.tensor(np.asarray(values, np.float32))


def half(values):
    return f32(values).cast(wf.float16)


check(wf.norm(half([30000, 40000])), 50000, 16)
check(wf.norm(half([300, 400])), 500)
check(wf.mse_loss(half(np.full(4096, 10.)), half(np.zeros(4096))), 100)
check(wf.l1_loss(half(np.full(4096, 8.)), half(np.zeros(4096)), reduction="sum"), 32768)
check(wf.cumsum(half(np.ones(4096)), 0)[-1:], [4096])
check(wf.conv1d(half(np.full((1, 4096, 1), 1)), half(np.ones((1, 4096, 1)))), [[[4096]]])
check(wf.einsum("i, i->", half(np.ones(4096)), half(np.ones(4096))), 4096)
check(wf.dot(half(np.ones(4096)), half(np.ones(4096))), 4096)
check(wf.cross_entropy(half(np.zeros((4096, 3))), wf.tensor(np.zeros(4096, np.int32)), reduction="sum"), 4096*np.log(3), 4)
check(wf.avg_pool1d(half(np.full((1, 1, 4096), 60000)), 4096), [[[60000]]], 32)
check(wf.group_norm(half([[0, 800, -800, 0]]), 1), [[0, 2**.5, -2**.5, 0]], 1e-3)
check(wf.instance_norm(half([[[0, 800, -800, 0]]])), [[[0, 2**.5, -2**.5, 0]]], 1e-3)
check(wf.scaled_dot_product_attention(half(np.full((1, 1, 1, 64), 200)), half(np.full((1, 1, 3, 64), 200)), half(np.full((1, 1, 3, 64), 60000))), np.full((1, 1, 1, 64), 60000.), 32)
check(wf.logsumexp(half(np.full(4096, 11.)), 0), 11+np.log(4096), .02)
check(wf.scatter_add(wf.zeros((1,), dtype=wf.float16), 0, wf.tensor(np.zeros(4096, np.int32)), half(np.ones(4096))), [4096])
check(wf.index_add(wf.zeros((1,), dtype=wf.float16), 0, wf.tensor(np.zeros(4096, np.int32)), half(np.ones(4096))), [4096])
check(wf.mean(half(np.full((4096, 2), 60000)), dim=0), [60000, 60000], 32)
check(wf.cosine_similarity(half([[300, 400.]]), half([[300, 400.]]), dim=1), [1], 1e-3)
check(wf.sum(f32(np.ones(4096)).cast(wf.bfloat16)), 4096)
