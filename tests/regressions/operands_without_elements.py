"""Operands without elements through every kind of op: sums of nothing, and results of the right shape."""
import numpy as np
import weft as wf
from check import check


def empty(*shape):
    return wf.zeros(shape)


def f32(values):
    return wf.tensor(np.asarray(values, np.float32))


check(wf.conv2d(empty(0, 2, 3, 3), empty(4, 2, 2, 2)), np.zeros((0, 4, 2, 2)))
check(wf.scaled_dot_product_attention(empty(1, 2, 0, 4), empty(1, 2, 3, 4), empty(1, 2, 3, 4)), np.zeros((1, 2, 0, 4)))
check(wf.scaled_dot_product_attention(empty(1, 2, 3, 4), empty(1, 2, 0, 4), empty(1, 2, 0, 4)), np.zeros((1, 2, 3, 4)))
check(wf.scaled_dot_product_attention(empty(0, 2, 3, 4), empty(0, 2, 3, 4), empty(0, 2, 3, 4)), np.zeros((0, 2, 3, 4)))
check(wf.scaled_dot_product_attention(empty(1, 2, 3, 4), empty(1, 2, 3, 4), empty(1, 2, 3, 0)), np.zeros((1, 2, 3, 0)))
check(wf.topk(empty(3, 4), 0), np.zeros((3, 0)))
check(wf.topk(empty(0, 4), 2), np.zeros((0, 2)))
check(wf.sort(empty(2, 0)), np.zeros((2, 0)))
check(wf.gather(empty(3, 4), 1, wf.zeros((3, 0), dtype=wf.int32)), np.zeros((3, 0)))
check(wf.index_select(empty(3, 4), 0, wf.zeros((0,), dtype=wf.int32)), np.zeros((0, 4)))
check(wf.embedding(wf.zeros((0,), dtype=wf.int32), empty(3, 4)), np.zeros((0, 4)))
check(wf.embedding(wf.zeros((0,), dtype=wf.int32), empty(0, 4)), np.zeros((0, 4)))
check(wf.index_add(wf.ones((3,)), 0, wf.zeros((0,), dtype=wf.int32), empty(0)), [1, 1, 1])
check(wf.scatter_add(wf.ones((3,)), 0, wf.zeros((0,), dtype=wf.int32), empty(0)), [1, 1, 1])
check(wf.cumsum(empty(0, 3), 0), np.zeros((0, 3)))
check(wf.cumsum(empty(3, 0), 0), np.zeros((3, 0)))
check(wf.pad(empty(0), (1, 2), value=5), [5, 5, 5])
check(wf.mse_loss(empty(0), empty(0)), np.nan)
check(wf.mse_loss(empty(0), empty(0), reduction="sum"), 0)
check(wf.cross_entropy(empty(0, 3), wf.zeros((0,), dtype=wf.int32)), np.nan)
check(wf.max_pool2d(empty(0, 1, 4, 4), 2), np.zeros((0, 1, 2, 2)))
check(wf.adaptive_avg_pool2d(empty(0, 1, 4, 4), (1, 1)), np.zeros((0, 1, 1, 1)))
check(wf.group_norm(empty(0, 4, 2), 2), np.zeros((0, 4, 2)))
check(wf.rope(empty(0, 4)), np.zeros((0, 4)))
check(wf.stack([empty(0), empty(0)]), np.zeros((2, 0)))
check(wf.kron(empty(2, 0), empty(3, 2)), np.zeros((6, 0)))
check(wf.outer(empty(0), empty(3)), np.zeros((0, 3)))
check(wf.dot(empty(0), empty(0)), 0)
check(wf.norm(empty(0)), 0)
check(wf.var(empty(0)), np.nan)
check(wf.any(empty(0)), 0)
check(wf.arange(0), np.zeros(0))
check(wf.eye(0), np.zeros((0, 0)))
check(wf.linspace(0, 1, 0), np.zeros(0))
check(wf.one_hot(wf.zeros((0,), dtype=wf.int32), 3), np.zeros((0, 3)))
check(wf.tril(empty(0, 3)), np.zeros((0, 3)))
check(wf.rand((0, 3)), np.zeros((0, 3)))
check(wf.where(empty(0)>0, empty(0), empty(1)), np.zeros(0))
check(wf.unique(empty(0)), np.zeros(0))
check(wf.masked_select(empty(0), empty(0)>0), np.zeros(0))
check(wf.searchsorted(empty(0), f32([1., 2.])), [0, 0])
check(wf.interpolate(empty(0, 1, 4), size=(2,)), np.zeros((0, 1, 2)))
check(wf.det(empty(0, 0)), 1)
check(wf.inv(empty(0, 0)), np.zeros((0, 0)))
check(wf.cholesky(empty(0, 2, 2)), np.zeros((0, 2, 2)))
check(wf.matmul_i8(wf.zeros((2, 0), dtype=wf.int8), wf.zeros((0, 3), dtype=wf.int8)), np.zeros((2, 3)))
check(wf.linear(empty(2, 0), empty(3, 0)), np.zeros((2, 3)))
check(wf.bmm(empty(0, 2, 3), empty(0, 3, 2)), np.zeros((0, 2, 2)))
check(wf.log_softmax(empty(2, 0), 1), np.zeros((2, 0)))
