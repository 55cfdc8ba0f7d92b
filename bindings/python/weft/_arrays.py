"""Tensors from numbers, lists, NumPy arrays and DLPack, and back. Works without NumPy."""
import operator
import struct

from . import _dtypes, _weft


def _numpy():
    import numpy
    return numpy


def _flatten(data, shape, depth, out):
    if depth == len(shape):
        if isinstance(data, (list, tuple)):
            raise _weft.ShapeError(f"tensor: a list where axis {depth - 1} has numbers")
        out.append(data)
        return
    if not isinstance(data, (list, tuple)) or len(data) != shape[depth]:
        found = len(data) if isinstance(data, (list, tuple)) else "a number"
        raise _weft.ShapeError(f"tensor: axis {depth} has lists of {shape[depth]} and of {found}")
    for one in data:
        _flatten(one, shape, depth + 1, out)


def _from_numbers(data, dtype, device):
    shape, probe = [], data
    while isinstance(probe, (list, tuple)):
        shape.append(len(probe))
        if not probe:
            break
        probe = probe[0]
    numbers = []
    _flatten(data, shape, 0, numbers)
    numbers = [n.item() if hasattr(n, "item") else n for n in numbers]
    for n in numbers:
        if not isinstance(n, (bool, int, float)):
            raise TypeError(f"tensor: {type(n).__name__} is no number")
    if all(isinstance(n, bool) for n in numbers) and numbers:
        natural = "bool"
    elif all(isinstance(n, int) for n in numbers) and numbers:
        natural = "i32" if all(-2**31 <= n < 2**31 for n in numbers) else "i64"
    else:
        natural = "f32"
    if natural in ("i32", "i64") and dtype is not None and dtype.is_floating_point:
        natural = "f64"
    if natural == "f32" and dtype is not None and dtype.short == "f64":
        natural = "f64"
    source = _dtypes.as_dtype(natural)
    if natural == "i64":
        _require_range(numbers, source, "; dtype=float32 takes it")
    if dtype is not None and dtype.short in _INTEGERS and natural != "bool":
        _require_range(numbers, dtype)
    try:
        numbers = [float(n) for n in numbers] if natural in ("f32", "f64") else numbers
    except OverflowError:
        raise _weft.ArgumentError("tensor: an integer is beyond the largest float") from None
    packed = struct.pack(f"{len(numbers)}{source.struct_code}", *map(_beyond_f32, numbers) if natural == "f32" else numbers)
    return _weft._from_buffer(source, tuple(shape), packed, device)


_INTEGERS = {"i8": (-2**7, 2**7), "u8": (0, 2**8), "i32": (-2**31, 2**31), "u32": (0, 2**32), "i64": (-2**63, 2**63)}


def _require_range(numbers, dtype, more=""):
    """Of an integer dtype: whole numbers that it does not hold are an error, floats are converted."""
    low, high = _INTEGERS[dtype.short]
    for n in numbers:
        if isinstance(n, int) and not low <= n < high:
            shown = n if abs(n) < 2**80 else f"an integer of {n.bit_length()} bits"
            raise _weft.ArgumentError(f"tensor: {shown} is outside {dtype.name}, {low} .. {high - 1}{more}")


def _beyond_f32(v):
    # struct refuses what rounds beyond the largest float; a conversion gives infinity.
    try:
        struct.pack("f", v)
        return v
    except OverflowError:
        return float("inf") if v > 0 else float("-inf")


def _from_numpy(array, device, share=False):
    name = array.dtype.name
    if name in ("int16", "uint16", "uint64", "longdouble", "complex64", "complex128", "object") or array.dtype.kind in "OSUVMmc" and name != "bfloat16":
        raise _weft.DtypeError(f"tensor: weft has no dtype for NumPy's {name}")
    np = _numpy()
    array = array.astype(array.dtype.newbyteorder("="), copy=False) if not array.dtype.isnative else array
    if share and array.size:
        dtype = _dtypes.as_dtype(name)
        return _weft._borrow_buffer(dtype, array.view(np.uint16) if name == "bfloat16" else array, device)
    array = np.asarray(array, order="C")
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    flat = array.reshape(-1).view(np.uint8) if array.size else b""
    return _weft._from_buffer(_dtypes.as_dtype(name), array.shape, flat, device)


def tensor(data, dtype=None, device=None):
    """A tensor with the elements of a number, a nested list, a NumPy array, a tensor or anything with __dlpack__.

    Arrays keep their dtype. Of Python's numbers, floats are float32 and integers int32 (int64 when they need it).
    """
    if dtype is not None:
        dtype = _dtypes.as_dtype(dtype)
    if isinstance(data, _weft.Tensor):
        t = data if device is None else _move(data, device)
    elif isinstance(data, (bool, int, float, list, tuple)):
        t = _from_numbers(_untensor(data), dtype, device)
    elif hasattr(data, "__array__"):
        t = _from_numpy(_numpy().asarray(data), device)
    elif hasattr(data, "__dlpack__"):
        t = _weft.from_dlpack(data, device)
    else:
        raise TypeError(f"tensor: {type(data).__name__} is neither numbers nor an array")
    return t if dtype is None or t.dtype == dtype else _weft.ops.cast(t, dtype)


def _untensor(data):
    """Lists with arrays or tensors among their items as lists of numbers."""
    if isinstance(data, (list, tuple)):
        return [_untensor(one) for one in data]
    return data.tolist() if hasattr(data, "tolist") and not isinstance(data, (bool, int, float)) else data


def _move(t, device):
    from ._devices import resolve
    target = resolve(device)
    return t if target is t.device else _weft._from_buffer(t.dtype, t.shape, t._read(t.dtype), target)


def operand(value, device=None):
    """What stands where an operation takes a tensor."""
    if isinstance(value, (str, bytes, dict)) or value is None:
        raise TypeError("no tensor")
    return tensor(value, device=device)


def asarray(data, dtype=None, device=None):
    """As tensor, but a NumPy array shares its memory where it can: see from_numpy."""
    if isinstance(data, _weft.Tensor) or not hasattr(data, "__array__") or getattr(data, "ndim", None) is None:
        return tensor(data, dtype, device)
    t = _from_numpy(_numpy().asarray(data), device, share=True)
    return t if dtype is None or t.dtype == _dtypes.as_dtype(dtype) else _weft.ops.cast(t, _dtypes.as_dtype(dtype))


def from_numpy(array, device=None):
    """A tensor over the memory of a NumPy array, on the CPU and where the elements lie without gaps in some order of the axes;
    else a copy. The array must not be written while the tensor is used."""
    return _from_numpy(_numpy().asarray(array), device, share=True)


def from_dlpack(x, device=None):
    """A tensor over the memory of another library's array in host memory, as from_numpy."""
    if not hasattr(x, "__dlpack__") and type(x).__name__ != "PyCapsule":
        raise TypeError(f"from_dlpack: {type(x).__name__} has no __dlpack__")
    return _weft.from_dlpack(x, device)


def to_numpy(self):
    """The elements as a NumPy array: on the CPU the tensor's own memory, read-only (numpy.array(t) is a copy); else a copy.
    bfloat16 needs ml_dtypes; without it the array is float32."""
    np = _numpy()
    source = self.dtype
    if source.numpy_name:
        try:
            view = memoryview(self)
        except BufferError:
            pass
        else:
            return np.asarray(view)
        out = np.empty(self.shape, source.numpy_name)
        self._read_into(out.reshape(-1).view(np.uint8))
        return out
    if source.short == "bf16":
        try:
            import ml_dtypes
            return np.frombuffer(bytearray(self._read(source)), ml_dtypes.bfloat16).reshape(self.shape)
        except ImportError:
            pass
    as_f32 = self if source.short == "bf16" else _weft.ops.cast(self, _dtypes.as_dtype("f32"))
    return np.frombuffer(bytearray(as_f32._read(_dtypes.as_dtype("f32"))), np.float32).reshape(self.shape)


def to_list(self):
    """The elements as nested lists of Python's numbers."""
    source = self.dtype if self.dtype.struct_code else _dtypes.as_dtype("f32")
    flat = struct.unpack(f"{self.numel()}{source.struct_code}", self._read(source))
    def nest(axis, begin, size):
        if axis == len(self.shape):
            return flat[begin]
        size = size // self.shape[axis] if self.shape[axis] else 0
        return [nest(axis + 1, begin + i * size, size) for i in range(self.shape[axis])]
    return nest(0, 0, len(flat))


def _unpickled(dtype, shape, data, spec):
    from ._devices import of_pickle
    return _weft._from_buffer(dtype, shape, data, of_pickle(spec))


def add_methods(Tensor):
    def __array__(self, dtype=None, copy=None):
        array = to_numpy(self)
        shared = not array.flags.writeable  # the tensor's own memory is read-only
        found = array if dtype is None else array.astype(dtype, copy=False)
        if copy is False and (not shared or found is not array):
            raise ValueError(f"a tensor of {self.dtype.name} on {self.device.spec} can only be copied to an array of {found.dtype.name}")
        return found.copy() if copy and found is array and shared else found

    def to(self, target):
        """On another device, or of another dtype."""
        if isinstance(target, _weft.Device) or isinstance(target, str) and target.split(":")[0] in ("cpu", "webgpu", "auto", "null"):
            return _move(self, target)
        return _weft.ops.cast(self, _dtypes.as_dtype(target))

    Tensor.numpy = to_numpy
    Tensor.tolist = to_list
    Tensor.to = to
    Tensor.type = Tensor.astype = lambda self, dtype: _weft.ops.cast(self, _dtypes.as_dtype(dtype))
    for name in ("float32", "float16", "bfloat16", "float64", "int32", "int64", "bool_"):
        short = {"float32": "float", "float16": "half", "float64": "double", "int32": "int", "int64": "long", "bool_": "bool"}.get(name, name)
        if not hasattr(Tensor, short):
            setattr(Tensor, short, lambda self, d=_dtypes.as_dtype(name): _weft.ops.cast(self, d))
    Tensor.__array__ = __array__
    Tensor.__array_priority__ = 1000  # an array on the left leaves the operator to the tensor
    Tensor.__dlpack_device__ = lambda self: (1, 0)
    Tensor.detach = Tensor.cpu = lambda self: self
    Tensor.T = property(lambda self: _weft.ops.permute(self, tuple(range(self.ndim))[::-1]))
    Tensor.mT = property(lambda self: _weft.ops.transpose(self, -2, -1))

    def of_axis(self, values, dim):
        if dim is None:
            return values
        if not -len(values) <= operator.index(dim) < len(values):
            raise _weft.IndexError(f"axis {dim} is outside rank {len(values)}")
        return values[dim]

    def size(self, dim=None):
        """The extents, or that of one axis."""
        return of_axis(self, self.shape, dim)

    def stride(self, dim=None):
        """The distances in elements between neighbours along the axes, or along one."""
        return of_axis(self, self._strides, dim)

    def element_size(self):
        """The bytes of one element."""
        if self.dtype.numpy_name is None and self.dtype.short != "bf16":
            raise _weft.DtypeError(f"element_size: {self.dtype.name} is a block type, whose elements have no size of their own")
        return self.dtype.itemsize

    def of_pickle(self):
        return _unpickled, (self.dtype, self.shape, self._read(self.dtype), self.device.spec)

    Tensor.size = size
    Tensor.stride = stride
    Tensor.element_size = element_size
    Tensor.itemsize = property(element_size)
    Tensor.nelement = lambda self: self.numel()
    Tensor.ndimension = lambda self: self.ndim
    Tensor.is_floating_point = lambda self: self.dtype.is_floating_point
    Tensor.__reduce__ = of_pickle
    Tensor.dim = lambda self: self.ndim
