"""t[key] and t[key] = value, written as operations of the table.

Integers, slices, None and Ellipsis are views. Index tensors, index lists and masks are the operation `index`.
"""
import operator

from . import _weft

ops = _weft.ops


def _is_array(k):
    return isinstance(k, (_weft.Tensor, list)) or hasattr(k, "__array__") and getattr(k, "ndim", 0) > 0


def _as_index(k, device):
    from ._arrays import tensor
    if isinstance(k, _weft.Tensor):
        return k
    t = tensor(k, device=device)
    return ops.cast(t, 4) if t.numel() == 0 and t.dtype.is_floating_point else t


def _axes_of(k):
    """How many axes of the tensor a part of the key takes."""
    if k is None or k is Ellipsis or isinstance(k, bool):
        return 0
    if isinstance(k, _weft.Tensor) and k.dtype.short == "bool":
        return k.ndim
    return 1


def _parts(t, key):
    """The key with its arrays as tensors and its bools as Python's."""
    key = list(key) if isinstance(key, tuple) else [key]
    key = [bool(k) if type(k).__name__ in ("bool_", "bool") and not isinstance(k, _weft.Tensor) else k for k in key]
    return [_as_index(k, t.device) if _is_array(k) else k for k in key]


def _expand(t, key):
    """The parts of a key with Ellipsis and what is left out as full slices."""
    taken = sum(_axes_of(k) for k in key)
    if taken > t.ndim:
        raise _weft.IndexError(f"index: {taken} axes of a tensor of rank {t.ndim}")
    dots = [i for i, k in enumerate(key) if k is Ellipsis]
    if len(dots) > 1:
        raise _weft.IndexError("index: more than one Ellipsis")
    at = dots[0] if dots else len(key)
    return key[:at] + [slice(None)] * (t.ndim - taken) + key[at + bool(dots):]


def _view(t, key):
    """The part of the key that is a view; index tensors that are left, one an axis (None: the axis as it is)."""
    axis, left = 0, []
    for k in key:
        if k is None or isinstance(k, bool):
            t = ops.reshape(t, t.shape[:axis] + (1,) + t.shape[axis:])
            t = ops.slice(t, axis, 0, 0, 1) if k is False else t
            left.append(None)
        elif isinstance(k, slice):
            if k != slice(None):
                start, stop, step = (None if v is None else operator.index(v) for v in (k.start, k.stop, k.step))
                if step == 0:
                    raise ValueError("slice step cannot be zero")
                t = ops.slice(t, axis, start, stop, 1 if step is None else step)
            left.append(None)
        elif isinstance(k, _weft.Tensor) and (k.ndim > 0 or k.dtype.short == "bool"):
            left.append(k)
            axis += _axes_of(k) - 1
        else:
            try:
                i = operator.index(k)
            except TypeError:
                raise TypeError(f"index: {type(k).__name__} is no index") from None
            n = t.shape[axis]
            if not -n <= i < n:
                raise _weft.IndexError(f"index: {i} is outside axis {axis} of extent {n}")
            t = ops.slice(t, axis, i % n, i % n + 1, 1)
            t = ops.reshape(t, t.shape[:axis] + t.shape[axis + 1:])
            continue
        axis += 1
    return t, left


def _advanced(t, left):
    while left and left[-1] is None:
        left.pop()
    if not left:
        return t
    if not hasattr(ops, "index"):
        raise NotImplementedError("this build of weft has no operation index")
    return ops.index(t, left)


def _are_apart(key):
    """Whether something lies between the indices of a key, integers among them: then NumPy puts their axes first."""
    at = [i for i, k in enumerate(key) if not (k is None or k is Ellipsis or isinstance(k, (slice, bool)))]
    return bool(at) and at[-1] - at[0] >= len(at)


def _pick(t, key):
    parts = _parts(t, key)
    t, left = _view(t, _expand(t, parts))
    arrays = [k for k in left if k is not None]
    result = _advanced(t, left)
    if not arrays or not _are_apart(parts):
        return result
    first = next(i for i, k in enumerate(left) if k is not None)
    first = first if all(k is not None for k in left[first:]) else 0
    count = max(1 if k.dtype.short == "bool" else k.ndim for k in arrays)
    moved = tuple(range(first, first + count))
    return ops.permute(result, moved + tuple(k for k in range(result.ndim) if k not in moved)) if first else result


def get(self, key):
    return _pick(self, key)


def _places(t, key):
    """The number of each element that the key names, in the shape of what it gives."""
    return _pick(ops.reshape(ops.arange(t.numel(), device=t.device), t.shape), key)


def set_(self, key, value):
    from ._arrays import tensor
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31:  # a number that the dtype cannot hold is an error
        value = ops.masked_fill(ops.zeros((), dtype=self.dtype, device=self.device), True, value)
    elif not isinstance(value, _weft.Tensor):
        value = tensor(value, device=self.device)
    if value.dtype != self.dtype:
        value = ops.cast(value, self.dtype)
    if isinstance(key, _weft.Tensor) and key.dtype.short == "bool" and key.shape == self.shape and value.numel() == 1:
        self._assign(ops.where(key, ops.reshape(value, ()), self))
        return
    places = _places(self, key)
    while value.ndim > places.ndim and value.shape[0] == 1:
        value = ops.reshape(value, value.shape[1:])
    try:
        value = ops.expand(value, places.shape)
    except _weft.Error as error:
        raise _weft.ShapeError(f"assignment: a value of shape {value.shape} to elements of shape {places.shape}") from error
    count = places.numel()
    if count == 0:
        return
    flat = ops.scatter(ops.reshape(self, (self.numel(),)), 0, ops.reshape(places, (count,)), ops.reshape(value, (count,)))
    self._assign(ops.reshape(flat, self.shape))


def iterate(self):
    if self.ndim == 0:
        raise TypeError("a tensor of rank 0 has no elements to go through")
    return (get(self, i) for i in range(self.shape[0]))


def add_methods(Tensor):
    Tensor.__getitem__ = get
    Tensor.__setitem__ = set_
    Tensor.__iter__ = iterate
    Tensor.__contains__ = lambda self, value: bool((self == value).reshape(-1).amax()) if self.numel() else False
