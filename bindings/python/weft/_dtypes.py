"""The dtypes: weft.float32 and its kin, and what NumPy calls them."""
from . import _weft

# name in the library: (name here, name in NumPy or None, code of struct or None)
_NAMES = {
    "f32": ("float32", "float32", "f"), "f16": ("float16", "float16", "e"), "bf16": ("bfloat16", None, None),
    "f64": ("float64", "float64", "d"), "i32": ("int32", "int32", "i"), "u32": ("uint32", "uint32", "I"),
    "i8": ("int8", "int8", "b"), "u8": ("uint8", "uint8", "B"), "i64": ("int64", "int64", "q"), "bool": ("bool_", "bool", "?"),
}


class dtype(int):
    """An element type. Its integer value is the code of the C interface."""

    def __new__(cls, code, short, nbytes):
        self = super().__new__(cls, code)
        self.short = short
        self.itemsize = nbytes
        self.name, self.numpy_name, self.struct_code = _NAMES.get(short, (short, None, None))
        return self

    @property
    def is_floating_point(self):
        return self.short in ("f16", "bf16", "f32", "f64")

    def __repr__(self):
        return "weft." + self.name

    __str__ = __repr__

    def __reduce__(self):
        return as_dtype, (self.short,)


ALL = tuple(dtype(code, short, nbytes) for code, (short, nbytes) in enumerate(_weft._dtypes()))
_BY_NAME = {}
for _d in ALL:
    globals()[_d.name] = _d
    _BY_NAME[_d.short] = _BY_NAME[_d.name] = _d
_BY_NAME["bool"] = _BY_NAME["bool_"]
half, double, int_, long = (_BY_NAME[n] for n in ("f16", "f64", "i32", "i64"))  # noqa: F821
__all__ = [d.name for d in ALL]


def as_dtype(value):
    """The dtype that a dtype, a name, a Python type or a dtype of NumPy stands for."""
    if isinstance(value, dtype):
        return value
    if value is float:
        return _BY_NAME["f32"]
    if value is int:
        return _BY_NAME["i32"]
    if value is bool:
        return _BY_NAME["bool"]
    name = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    found = _BY_NAME.get(name)
    if found is None:
        raise _weft.DtypeError(f"dtype: {name!r} is none of {' '.join(d.name for d in ALL)}")
    return found


def promote_types(a, b):
    """The dtype of an operation on tensors of both."""
    return _weft.promote_types(as_dtype(a), as_dtype(b))
