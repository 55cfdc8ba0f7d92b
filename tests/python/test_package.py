"""The package itself: notation, conversions, errors, memory. What operations compute is test_oracle.py's."""
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import weft as wf

HAS = wf.operations


def needs(*names):
    missing = [n for n in names if n not in HAS]
    return pytest.mark.skipif(bool(missing), reason=f"no operation {', '.join(missing)} in the table yet")


def test_every_row_is_a_function_and_those_of_tensors_are_methods():
    for name, section, signature, bound, doc, differentiable, params in wf.operation_table():
        assert callable(HAS[name]) and signature in HAS[name].__doc__
        if params and params[0][1] == "Tensor":
            assert hasattr(wf.Tensor, name)


def test_numbers_lists_and_arrays_become_tensors():
    assert wf.tensor(1.5).dtype == wf.float32 and wf.tensor(1.5).shape == ()
    assert wf.tensor([1, 2]).dtype == wf.int32 and wf.tensor([2**40]).dtype == wf.int64
    assert wf.tensor([True]).dtype == wf.bool_ and wf.tensor([]).shape == (0,)
    assert wf.tensor([[1, 2], [3, 4]], dtype="float64").tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert wf.tensor([1e300]).item() == float("inf")
    for name in ("float32", "float16", "float64", "int32", "uint32", "int8", "uint8", "int64", "bool"):
        a = np.arange(6).reshape(2, 3).astype(name)
        t = wf.tensor(a)
        assert t.numpy().dtype == a.dtype and np.array_equal(t.numpy(), a) and t.tolist() == a.tolist()
        assert np.array_equal(wf.tensor(a.T[:, ::-1]).numpy(), a.T[:, ::-1])
        assert np.array_equal(wf.tensor(a.astype(a.dtype.newbyteorder(">"))).numpy(), a)
    bf16 = pytest.importorskip("ml_dtypes").bfloat16
    a = np.array([1.5, -2], bf16)
    assert wf.tensor(a).dtype == wf.bfloat16 and wf.tensor(a).numpy().dtype == a.dtype
    assert np.array_equal(np.asarray(wf.tensor([1.0, 2.0])), [1.0, 2.0])


def test_dlpack_both_ways():
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for x in (a, a.T, a[:, ::-1, ::2], a[:0], a[0, 0, 0:1]):
        t = wf.from_dlpack(x)
        assert np.array_equal(t.numpy(), x) and np.array_equal(np.from_dlpack(t), x)
    assert wf.tensor([1.0]).__dlpack_device__() == (1, 0)
    capsule = wf.tensor([1.0, 2.0]).__dlpack__()
    assert wf.from_dlpack(capsule).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError):
        wf.from_dlpack(capsule)  # used
    with pytest.raises(wf.DtypeError):
        wf.from_dlpack(np.zeros(2, np.int16))


def test_operators_are_those_of_python():
    a, b = np.array([5.0, -7.0, 2.5], np.float32), np.array([2.0, 3.0, -2.0], np.float32)
    x, y = wf.tensor(a), wf.tensor(b)
    for f in (lambda p, q: p + q, lambda p, q: p - q, lambda p, q: p * q, lambda p, q: p / q, lambda p, q: p @ q,
              lambda p, q: p < q, lambda p, q: p <= q, lambda p, q: p == q, lambda p, q: p != q, lambda p, q: p > q, lambda p, q: p >= q,
              lambda p, q: 2 - p, lambda p, q: 2 / p, lambda p, q: 2.5 * p, lambda p, q: p**2, lambda p, q: -p, lambda p, q: +p, lambda p, q: abs(p),
              lambda p, q: 3 < p, lambda p, q: p + np.float32(2), lambda p, q: a + q, lambda p, q: p * b):
        np.testing.assert_allclose(f(x, y).numpy(), f(a, b), rtol=1e-6)
        assert isinstance(f(x, y), wf.Tensor)
    z = before = x
    z += y
    assert np.array_equal(before.numpy(), a) and np.array_equal(z.numpy(), a + b)
    assert {x: 1}[x] == 1
    for wrong in (lambda: x + "a", lambda: x + None, lambda: x + [object()], lambda: bool(x), lambda: float(x), lambda: int(x), lambda: len(wf.tensor(1.0)),
                  lambda: "a" @ x):
        with pytest.raises((TypeError, ValueError)):
            wrong()


@needs("floor_divide", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift", "bitwise_right_shift")
def test_integer_operators_are_those_of_python():
    a, b = np.array([5, -7, 12], np.int32), np.array([2, 3, 5], np.int32)
    x, y = wf.tensor(a), wf.tensor(b)
    for f in (lambda p, q: p // q, lambda p, q: p % q, lambda p, q: p & q, lambda p, q: p | q, lambda p, q: p ^ q, lambda p, q: ~p,
              lambda p, q: p << q, lambda p, q: p >> q, lambda p, q: 7 // q, lambda p, q: 7 % q, lambda p, q: 1 << q, lambda p, q: p & 3):
        assert np.array_equal(f(x, y).numpy(), f(a, b)) and f(x, y).dtype == wf.int32
    assert np.array_equal(((x > 0) & ~(y > 2)).numpy(), (a > 0) & ~(b > 2))


def test_numpy_and_pytorch_notation():
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = wf.tensor(a)
    assert np.array_equal(x.sum(axis=1, keepdims=True).numpy(), a.sum(1, keepdims=True))
    assert np.array_equal(wf.sum(x, dim=(0, -1), keepdim=True).numpy(), a.sum((0, -1), keepdims=True))
    assert x.reshape(4, -1).shape == x.reshape((4, -1)).shape == x.reshape([4, 6]).shape == (4, 6)
    assert x.permute(2, 0, 1).shape == (4, 2, 3) and x.T.shape == (4, 3, 2) and x.mT.shape == (2, 4, 3)
    assert x.sum(0, True).shape == (1, 3, 4) and x.sum(np.int64(0)).shape == (3, 4)
    assert wf.cat([x, x], 1).shape == (2, 6, 4) and wf.cat((x, a)).shape == (4, 3, 4)
    assert wf.add(x, 1, alpha=2).numpy()[0, 0, 0] == 2 and wf.add(a, x).shape == x.shape
    assert x.size() == x.shape and x.size(1) == 3 and x.dim() == x.ndim == 3 and x.numel() == 24 and x.nbytes == 96
    assert x.is_contiguous() and not x.T.is_contiguous()
    assert x.to(wf.float16).dtype == x.cast("f16").dtype == x.half().dtype == x.astype(np.float16).dtype == wf.float16


KEYS = [0, -1, (1, 2), (slice(None), 1), slice(None, None, -1), (Ellipsis, slice(None, None, 2)), (None, 0, None), (slice(2, 0, -1), Ellipsis, -1),
        (slice(5, 9),), (Ellipsis,), (), (slice(None, None, -2), slice(None, None, -3)), (0, 1, 2), np.int64(1)]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_views_by_index(key):
    a = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    assert np.array_equal(wf.tensor(a)[key].numpy(), a[key])


@needs("index")
@pytest.mark.parametrize("key", [np.array([2, 0, -1]), [1, 1], (slice(None), np.array([[0, 1], [3, 2]])), (np.array([0, 2]), np.array([1, 3])),
                                 (np.array([[0], [2]]), np.array([1, 3])), (slice(1, 3), slice(None), np.array([4, 0])), (slice(None), np.array([1]), slice(0, 2))], ids=str)
def test_index_tensors(key):
    a = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    assert np.array_equal(wf.tensor(a)[key].numpy(), a[key])


@needs("index")
def test_masks():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = wf.tensor(a)
    assert np.array_equal(x[x > 5].numpy(), a[a > 5])
    assert np.array_equal(x[wf.tensor([True, False, True])].numpy(), a[[True, False, True]])


@needs("arange", "scatter")
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_assignment(key):
    a = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    x = wf.tensor(a)
    old, view = x, x[0]
    b = a.copy()
    b[key] = 100
    x[key] = 100
    assert x is old and np.array_equal(x.numpy(), b)
    assert np.array_equal(view.numpy(), a[0])
    values = np.arange(b[key].size, dtype=np.float32).reshape(b[key].shape)
    b[key] = values
    x[key] = wf.tensor(values)
    assert np.array_equal(x.numpy(), b)
    with pytest.raises(wf.ShapeError):
        x[key] = wf.zeros((7, 11)) if "zeros" in HAS else wf.tensor(np.zeros((7, 11), np.float32))


def test_wrong_calls_are_exceptions_with_a_sentence():
    x = wf.tensor([[1.0, 2.0], [3.0, 4.0]])
    cases = [
        (lambda: x.reshape(3), wf.ShapeError, ValueError, "4 elements"), (lambda: x.softmax(dim=5), wf.ShapeError, ValueError, "axis 5"),
        (lambda: x @ wf.tensor([1.0, 2, 3]), wf.ShapeError, ValueError, "inner dimensions"), (lambda: x[5], wf.IndexError, IndexError, "extent 2"),
        (lambda: x[0, 0, 0], wf.IndexError, IndexError, "rank 2"), (lambda: wf.device("nowhere"), wf.ArgumentError, ValueError, "nowhere"),
        (lambda: wf.tensor([[1, 2], [3]]), wf.ShapeError, ValueError, "axis 1"), (lambda: x.cast("f12"), wf.DtypeError, TypeError, "f12"),
        (lambda: x.gather(0, x), wf.DtypeError, TypeError, "gather"),
    ]
    for call, kind, builtin, part in cases:
        with pytest.raises(kind) as caught:
            call()
        assert isinstance(caught.value, builtin) and isinstance(caught.value, wf.Error) and part in str(caught.value)
        assert caught.value.status.startswith("WEFT_E_")
    for call, part in [(lambda: x.softmax(dmi=1), "no parameter dmi"), (lambda: x.add(), "other is missing"), (lambda: x.add(1, 2, 3), "4 arguments"),
                       (lambda: x.sum(dim="q"), "dim takes"), (lambda: x.sum(0, dim=1), "given twice"), (lambda: wf.add(x, "a"), "other takes a tensor"),
                       (lambda: x["a"], "no index"), (lambda: wf.tensor(object()), "neither"), (lambda: wf.Tensor(), "cannot create")]:
        with pytest.raises(TypeError) as caught:
            call()
        assert part in str(caught.value)
    with pytest.raises(NotImplementedError):
        wf.grad(x, [x])


def test_an_index_outside_is_an_error_where_it_is_read():
    t = wf.tensor([1.0, 2.0]).index_select(0, wf.tensor([0, 5]))
    with pytest.raises(wf.IndexError) as caught:
        t.numpy()
    assert "outside its axis" in str(caught.value)


def test_tensors_of_two_devices_and_of_a_closed_one():
    a, other = wf.tensor([1.0]), wf._weft.Device("cpu")
    b = wf.tensor([1.0], device=other)
    assert b.device is other
    with pytest.raises(wf.Error) as caught:
        (a + b).eval()
    apart = wf.device().spec == "cpu"  # the same name twice; else the two names tell them apart
    assert ("opened apart" if apart else "device('cpu')") in str(caught.value)
    assert (a.to(other) + b).item() == 2
    other.close()
    for call in (lambda: b + 1, lambda: b.numpy(), lambda: b.sum(), lambda: wf.tensor(1.0, device=other)):
        with pytest.raises(wf.Error):
            call()


if not wf.device().spec.startswith("cpu"):  # nothing to compare there, which is no skip
    def test_random_integers_are_those_of_the_cpu():
        weights = np.random.default_rng(1).random((3, 500)).astype(np.float32)
        for call in (lambda d: wf.multinomial(wf.tensor(weights, device=d), 200, replacement=True, seed=5),
                     lambda d: wf.multinomial(wf.tensor(weights, device=d), 200, seed=6), lambda d: wf.randperm(1000, seed=7, device=d),
                     lambda d: wf.randint(-5, 1000, (999,), seed=8, device=d), lambda d: wf.randint(-2**63, 2**63 - 1, (99,), dtype="int64", seed=9, device=d),
                     lambda d: wf.bernoulli(wf.tensor(weights, device=d), seed=10), lambda d: wf.rand(999, seed=11, device=d)):
            assert np.array_equal(call(wf.device()).numpy(), call("cpu").numpy())


def test_printing():
    x = wf.tensor([[1.5, 2.0], [3.0, 4.0]])
    assert repr(x) == f"tensor([[1.5, 2],\n        [3, 4]], shape=(2, 2), dtype=float32, device='{wf.device().spec}')"
    assert "..." in repr(wf.tensor(np.zeros((100, 100)), dtype="float32")) and len(repr(wf.tensor(np.zeros((100, 100)), dtype="float32"))) < 900
    assert f"{x.sum():.2f}" == "10.50" and repr(wf.float32) == "weft.float32"
    for empty in (np.zeros((0, 3), np.float32), np.zeros((), np.float32), np.zeros((2, 0), np.float32)):
        assert repr(wf.tensor(empty)).startswith("tensor(")


def test_reading():
    assert wf.tensor(3).item() == 3 and isinstance(wf.tensor(3).item(), int) and wf.tensor([True]).item() is True
    assert int(wf.tensor(3.7)) == 3 and float(wf.tensor(2)) == 2.0 and [10, 20, 30][wf.tensor(1)] == 20
    with pytest.raises(TypeError):
        [10, 20][wf.tensor(1.0)]
    assert [float(v) for v in wf.tensor([1.0, 2.0])] == [1.0, 2.0] and 2.0 in wf.tensor([1.0, 2.0])
    a, b = wf.tensor([1.0]) + 1, wf.tensor([1.0]) * 3
    wf.eval(a, b)
    wf.eval()
    assert (a.item(), b.item()) == (2.0, 3.0)


def resident():
    gc.collect()
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_a_loop_of_100000_operations_keeps_nothing():
    x, one = wf.tensor([1.0, 2.0, 3.0]), wf.tensor(1.0)
    def loop(n):
        y = x
        for i in range(n):
            y = (y + one).softmax(dim=0)
            if i % 8 == 7:
                y.eval()
        return y
    loop(4000)
    before, live = resident(), wf.device().stats()["buffers_live"]
    loop(50_000)
    assert wf.device().stats()["buffers_live"] <= live + 4
    room = 1 << 40 if os.environ.get("WEFT_SANITIZER") else 4 << 20  # a sanitizer keeps what is freed for a while
    assert resident() - before < room
    for _ in range(20_000):  # failing calls too
        try:
            x.reshape(7)
        except wf.ShapeError:
            pass
    assert resident() - before < 2 * room


def test_threads_compute_side_by_side():
    x, failures = wf.tensor(np.arange(1000, dtype=np.float32)), []
    def work(k):
        for _ in range(50):
            if (x * k).sum().item() != 499500.0 * k:
                failures.append(k)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


INTERRUPTED = """
import os, signal, sys, threading, time
import weft as wf, numpy as np
signal.signal(signal.SIGINT, signal.default_int_handler)  # a program started in the background ignores it
wf.device("cpu")
x = wf.tensor(np.ones((700, 700), np.float32))
y = x
for _ in range(400):
    y = y @ x * 1e-3
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.time()
try:
    y.eval()
except KeyboardInterrupt:
    print("interrupted", wf.tensor(2.0).item())
"""


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_stops_between_steps():
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    begin = time.time()
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, env=env, timeout=120)
    assert done.stdout.strip() == "interrupted 2.0", done.stdout + done.stderr


def test_supports_says_where_a_call_would_run():
    x = wf.tensor(np.ones((2, 3), np.float32))
    assert wf.supports("add", x, x) == (True, "")
    assert wf.supports("softmax", x, dim=1) == (True, "")
    native, why = wf.supports("qr", x)
    assert native == (why == "")
    with pytest.raises(wf.ShapeError):
        wf.supports("add", x, wf.tensor(np.ones(4, np.float32)))
    with pytest.raises(NotImplementedError):
        wf.supports("no_such_operation", x)
    with pytest.raises(TypeError):
        wf.supports()
