"""Memory shared with NumPy, JAX and other readers of buffers and DLPack: nothing is copied where it need not be, nobody writes
a tensor's elements, and memory lives as long as its last reader."""
import ctypes
import gc
import weakref

import numpy as np
import pytest

import weft as wf

ON_CPU = wf.device().info()["kind"] == "cpu"
cpu_only = pytest.mark.skipif(not ON_CPU, reason="the elements are not in host memory")


def address(array):
    return array.__array_interface__["data"][0]


def base(shape=(2, 3, 4), dtype=np.float32):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def lendable(n=1 << 14):
    """An array whose memory the CPU can read as it is: aligned, and not at the very end of a page."""
    memory = np.zeros(4 * n + 8192, np.uint8)
    at = -address(memory) % 4096 + 64
    array = memory[at:at + 4 * n].view(np.float32)
    array[:] = np.arange(n)
    return array


@cpu_only
def test_numpy_reads_a_tensor_where_it_lies():
    x = wf.tensor(base())
    a = x.numpy()
    assert address(a) == address(x.numpy()) == address(np.asarray(x)) and not a.flags.writeable
    view = x[:, ::-1, ::2].permute(2, 0, 1)
    assert np.array_equal(view.numpy(), a[:, ::-1, ::2].transpose(2, 0, 1)) and address(view.numpy()) == address(a) + 4 * 8
    assert np.array(x).flags.writeable and address(np.array(x)) != address(a)
    assert memoryview(x).format == "f" and memoryview(x).shape == (2, 3, 4) and bytes(wf.tensor([1, 2], dtype="uint8")) == b"\1\2"
    for dtype in ("float16", "float64", "int32", "uint32", "int8", "uint8", "int64", "bool"):
        t = wf.tensor(base(dtype=dtype))
        assert t.numpy().dtype == dtype and np.array_equal(np.asarray(memoryview(t)), base(dtype=dtype))
    for shape in ((), (0,), (2, 0, 3)):
        assert wf.zeros(shape).numpy().shape == shape
    for request in (lambda: memoryview(x)[0, 0].__setitem__(0, 1), lambda: memoryview(wf.zeros((2,), dtype="bfloat16"))):
        with pytest.raises((BufferError, TypeError, NotImplementedError)):
            request()


class Request(ctypes.Structure):
    """Py_buffer."""
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


def given(t, flags):
    """Whether a request is granted, and whether it came with a shape."""
    get, view = ctypes.pythonapi.PyObject_GetBuffer, Request()
    try:
        get(ctypes.py_object(t), ctypes.byref(view), flags)
    except BufferError:
        return None
    has_shape = view.shape is not None
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return has_shape


@cpu_only
def test_a_buffer_has_the_layout_that_is_asked_for():
    simple, nd, strides, c_order, f_order, any_order = 0, 0x8, 0x18, 0x38, 0x58, 0x98
    x = wf.tensor(base((2, 3)))
    assert [given(x, f) for f in (simple, nd, strides, c_order, f_order, any_order)] == [False, True, True, True, None, True]
    assert [given(x[:, ::2], f) for f in (simple, nd, strides, c_order, f_order, any_order)] == [None, None, True, None, None, None]
    for shape in ((6,), (1, 6, 1), (), (0, 3)):
        assert given(wf.zeros(shape), f_order)


@cpu_only
def test_what_numpy_reads_outlives_the_tensor_and_its_device():
    device = wf._weft.Device("cpu")
    t = wf.tensor(base((300, 300)), device=device)
    a, want = (t + 0).numpy(), base((300, 300))
    device.close()
    for call in (lambda: t.numpy(), lambda: t.eval(), lambda: t + 1, lambda: t.item()):
        with pytest.raises((wf.Error, ValueError)):
            call()
    del t, device
    gc.collect()
    assert np.array_equal(a, want)


@cpu_only
def test_a_tensor_reads_an_array_where_it_lies():
    array = lendable()
    t = wf.from_numpy(array)
    assert address(t.numpy()) == address(array) and np.array_equal((t + 1).numpy(), array + 1)
    assert address(wf.asarray(array).numpy()) == address(array) and address(wf.tensor(array).numpy()) != address(array)
    folded = array.reshape(16, 32, 32).transpose(2, 0, 1)
    t = wf.from_numpy(folded)
    assert np.array_equal(t.numpy(), folded) and address(t.numpy()) == address(folded) and t.numpy().strides == folded.strides
    for copied in (folded[::-1], folded[:, ::2], array[1:], base((3, 0)), base(()), base(dtype=np.uint8), array > 3, base().astype(">f4")):
        assert np.array_equal(wf.from_numpy(copied).numpy(), copied)


@cpu_only
def test_an_array_lives_as_long_as_a_tensor_reads_it_and_is_never_written():
    array = lendable()
    gone = weakref.ref(array.base)
    t = wf.from_numpy(array)
    view, later = t[5:], t * 2
    t[0] = 99.0
    updated = wf.scatter(wf.from_numpy(array), 0, wf.tensor([1]), wf.tensor([77.0])).eval()
    assert array[0] == 0 and array[1] == 1 and t[0].item() == 99 and updated[1].item() == 77
    del array, t, updated
    gc.collect()
    assert gone() is not None and view[0].item() == 5 and later[7].item() == 14
    del view, later
    gc.collect()
    wf.from_numpy(base())  # what was given back is dropped at the interpreter's next chance
    assert gone() is None


@cpu_only
def test_dlpack_shares_and_says_what_it_does():
    x = wf.tensor(base())
    shared, copied = np.from_dlpack(x), np.from_dlpack(x, copy=True)
    assert address(shared) == address(x.numpy()) and not shared.flags.writeable
    assert address(copied) != address(shared) and copied.flags.writeable and np.array_equal(copied, shared)
    assert np.array_equal(np.from_dlpack(x[:, ::-1, 1::2]), base()[:, ::-1, 1::2])
    array = lendable()
    t = wf.from_dlpack(array)
    assert address(t.numpy()) == address(array)
    array.flags.writeable = False
    assert np.array_equal(wf.from_dlpack(array[::-2]).numpy(), array[::-2])
    del array
    gc.collect()
    assert t[3].item() == 3
    for keywords in ({"copy": False}, {"stream": 1, "max_version": (1, 0)}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            x.__dlpack__(**keywords)  # an old capsule cannot say read-only
    for wrong in ({"max_version": 1}, {"no": 1}):
        with pytest.raises(TypeError):
            x.__dlpack__(**wrong)
    capsule = x.__dlpack__(max_version=(1, 0))
    assert "versioned" in repr(capsule)
    assert address(wf.from_dlpack(capsule).numpy()) == address(shared)
    with pytest.raises(ValueError):
        wf.from_dlpack(capsule)


def test_jax_both_ways():
    jax = pytest.importorskip("jax")
    x = wf.tensor(base())
    assert np.array_equal(jax.dlpack.from_dlpack(x), base())
    y = jax.device_put(jax.numpy.arange(4096.0), jax.devices("cpu")[0])
    t = wf.from_dlpack(y)
    del y
    gc.collect()
    assert np.array_equal(t.numpy(), np.arange(4096, dtype=np.float32))


@cpu_only
def test_a_loop_of_arrays_keeps_nothing():
    def loop(n):
        for _ in range(n):
            assert (wf.from_numpy(lendable()) + 1).numpy()[1] == 2
        gc.collect()
        return wf.device().stats()["bytes_live"]
    assert loop(20) + (1 << 20) > loop(200)
