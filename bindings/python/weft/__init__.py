"""weft: tensors in the language of NumPy and PyTorch, on the CPU and on any GPU that WebGPU reaches.

    import weft as wf
    x = wf.tensor([[1.0, 2.0], [3.0, 4.0]])
    print((x @ x.T).softmax(dim=-1).numpy())

Values are computed when they are read (numpy(), item(), print) or by eval. Every operation is a function
weft.NAME and, when its first parameter is a tensor, a method; they are made at import from the library's table
of operations (docs/ops.md), and this package adds notation only. NumPy's axis and keepdims are accepted.
"""
from . import _weft
from ._weft import (ArgumentError, Device, DtypeError, Error, IndexError, OutOfMemoryError, ShapeError, Tensor, TimeoutError,
                    UnsupportedError, apply, eval, supports)
from ._dtypes import *
from ._dtypes import dtype, promote_types
from ._devices import device, devices_close, use_dawn
from ._arrays import asarray, from_dlpack, from_numpy, tensor
from ._random import Generator, default_generator, initial_seed, manual_seed, seed
from . import _index, _text

__version__ = "0.1.0"

_weft._setup(_arrays.operand, _dtypes.as_dtype, _devices.resolve, _dtypes.ALL)
operations = {name: value for name, value in vars(_weft.ops).items() if not name.startswith("_")}
for _name, _operation in operations.items():
    if _name not in ("tensor", "device", "dtype", "eval", "apply", "supports"):
        globals()[_name] = _operation


def grad(loss, tensors):
    """Gradients of a scalar. Not there yet."""
    raise NotImplementedError("weft.grad: this version computes no gradients")


def operation_table():
    """The rows of the table: (name, section, signature, bound, what it computes, differentiable, parameters)."""
    return _weft._table()


_arrays.add_methods(Tensor)
_index.add_methods(Tensor)
_text.add_methods(Tensor)
