"""How a tensor is printed."""
from . import _weft

_EDGE, _WHOLE = 3, 1000  # elements shown at each end of an axis when there are more than that many


def _short(t):
    """The tensor's corners, which are all that is read of a large one."""
    for axis, n in enumerate(t.shape):
        if n > 2 * _EDGE:
            t = _weft.ops.cat([_weft.ops.slice(t, axis, 0, _EDGE), _weft.ops.slice(t, axis, n - _EDGE, n)], axis)
    return t


def _format(v):
    return f"{v:.4g}" if isinstance(v, float) else str(v)


def _lines(values, shape, full, indent):
    if not shape:
        return _format(values)
    if not values:
        return "[]"
    parts = [_lines(v, shape[1:], full[1:], indent + 1) for v in values]
    if full[0] > len(parts):
        parts.insert(_EDGE, "...")
    joint = ", " if len(shape) == 1 else "," + "\n" * (len(shape) - 1) + " " * (indent + 1)
    return "[" + joint.join(parts) + "]"


def text(t):
    tail = f", shape={t.shape}, dtype={t.dtype.name}, device='{t.device.spec}')"
    try:
        if not t.dtype.struct_code and t.dtype.short != "bf16":
            return "tensor(.." + tail
        if t.numel() == 0:  # whatever the other extents are
            return "tensor([]" + tail
        shown = _short(t) if t.numel() > _WHOLE else t
        return "tensor(" + _lines(shown.tolist(), shown.shape, t.shape, len("tensor(")) + tail
    except _weft.Error as error:
        return f"tensor(<{error}>" + tail


def add_methods(Tensor):
    Tensor.__repr__ = text
    Tensor.__str__ = text

    def __format__(self, spec):
        return format(self.item(), spec) if spec else text(self)
    Tensor.__format__ = __format__
