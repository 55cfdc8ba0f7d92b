#!/usr/bin/env python3
"""Write weft/__init__.pyi, the type stubs of the package, from the table of operations.

    stubs.py [--check]      the package must be importable: PYTHONPATH=build/release/python
"""
import keyword
import pathlib
import re
import sys

import weft

TARGET = pathlib.Path(__file__).resolve().parent.parent / "weft" / "__init__.pyi"
TYPES = {"Tensor": "Operand", "Tensors": "Sequence[Operand] | Tensor", "int": "int", "float": "float", "bool": "bool", "ints": "Ints", "str": "str",
         "dtype": "DtypeLike", "ints|str": "Ints | str", "floats": "float | Sequence[float]"}
ROWS = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "src" / "core"
HEAD = '''# Made by tools/stubs.py from the table of operations; do not edit.
from typing import Any, Callable, Iterator, Sequence, Union

Number = Union[bool, int, float]
Ints = Union[int, Sequence[int]]
Operand = Union["Tensor", Number, Any]
DtypeLike = Union["dtype", str, type, Any]
Result = Any  # a tensor, or a tuple of several

__version__: str
operations: dict[str, Callable[..., Result]]

class dtype(int):
    short: str
    name: str
    itemsize: int
    @property
    def is_floating_point(self) -> bool: ...

class Device:
    spec: str
    def __init__(self, spec: str | None = ..., n_threads: int = ..., webgpu_lib: str | None = ..., webgpu_get_proc: int = ..., trace_path: str | None = ..., cache_dir: str | None = ...) -> None: ...
    def close(self) -> None: ...
    def info(self) -> dict[str, Any]: ...
    def stats(self) -> dict[str, int]: ...
    def sync(self) -> None: ...

class Error(Exception):
    status: str
class ShapeError(Error, ValueError): ...
class DtypeError(Error, TypeError): ...
class ArgumentError(Error, ValueError): ...
class IndexError(Error, LookupError): ...
class UnsupportedError(Error, NotImplementedError): ...
class OutOfMemoryError(Error, MemoryError): ...
class TimeoutError(Error): ...

def tensor(data: Any, dtype: DtypeLike | None = ..., device: Device | str | None = ...) -> Tensor: ...
def asarray(data: Any, dtype: DtypeLike | None = ..., device: Device | str | None = ...) -> Tensor: ...
def from_numpy(array: Any, device: Device | str | None = ...) -> Tensor: ...
def from_dlpack(x: Any, device: Device | str | None = ...) -> Tensor: ...
def device(spec: str | Device | None = ...) -> Device: ...
def use_dawn() -> str: ...
def eval(*tensors: Tensor) -> None: ...
def apply(name: str, *arguments: Any) -> Result: ...
def supports(name: str, *arguments: Any, **keywords: Any) -> tuple[bool, str]: ...
def grad(loss: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]: ...
def promote_types(a: DtypeLike, b: DtypeLike) -> dtype: ...
def operation_table() -> list[tuple[str, str, str, str, str, bool, tuple[tuple[str, str, bool, str | None], ...]]]: ...
'''
OWN = '''    shape: tuple[int, ...]
    dtype: dtype
    device: Device
    ndim: int
    nbytes: int
    T: Tensor
    mT: Tensor
    def numpy(self) -> Any: ...
    def tolist(self) -> Any: ...
    def item(self) -> Number: ...
    def eval(self) -> Tensor: ...
    def numel(self) -> int: ...
    def is_contiguous(self) -> bool: ...
    def to(self, target: Any) -> Tensor: ...
    def size(self, dim: int | None = ...) -> Any: ...
    def dim(self) -> int: ...
    def __getitem__(self, key: Any) -> Tensor: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __index__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __array__(self, dtype: Any = ..., copy: bool | None = ...) -> Any: ...
    def __dlpack__(self, **keywords: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
'''
OWN_NAMES = {"shape", "dtype", "device", "ndim", "nbytes", "numel", "eval", "item", "numpy", "tolist", "to", "size", "dim", "tensor", "apply"}


def parameter(row):
    name, kind, optional, preset = row
    text = f"{name}_" if keyword.iskeyword(name) else name
    return f"{text}: {TYPES[kind]}{' | None' if optional else ''}{' = ...' if preset is not None or optional else ''}"


def numpys_names(rows):
    """axis and keepdims, where the axis may be left out under PyTorch's name."""
    names = []
    for name, kind, optional, preset in rows:
        if name in ("dim", "dims") and (preset is not None or optional):
            names.append(f"axis: {TYPES[kind]} | None = ...")
        elif name == "keepdim":
            names.append("keepdims: bool = ...")
    return names


def ordered(rows):
    """A parameter without a default after one with it can only be given by its name."""
    out, defaulted = [], False
    for row in rows:
        has = row[3] is not None or row[2]
        if defaulted and not has and "*" not in out:
            out.append("*")
        defaulted |= has
        out.append(parameter(row))
    return out


def of_many_results():
    """The operations that may give a tuple: their rows say MANY."""
    rows = re.split(r"^WF_FN\(", "\n".join(f.read_text() for f in sorted(ROWS.glob("functions_*.def"))), flags=re.M)[1:]
    return {row.split(",", 1)[0] for row in rows if "MANY(" in row}


def stubs():
    many = of_many_results()
    lines = [HEAD] + [f"{d.name}: dtype" for d in weft._dtypes.ALL] + ["", "class Tensor:", OWN.rstrip()]
    for op in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"):
        lines += [f"    def __{op}__(self, other: Operand) -> Tensor: ...", f"    def __r{op}__(self, other: Operand) -> Tensor: ..."]
    lines += [f"    def __{op}__(self) -> Tensor: ..." for op in ("neg", "pos", "abs", "invert")]
    lines += [f"    def __{op}__(self, other: Operand) -> Tensor: ..." for op in ("lt", "le", "gt", "ge")]
    lines += [f"    def __{op}__(self, other: Any) -> Tensor: ...  # type: ignore[override]" for op in ("eq", "ne")]
    functions = []
    for name, section, signature, bound, doc, differentiable, params in weft.operation_table():
        more = ["*rest: Any"] if params and params[-1][1] in ("ints", "Tensors") else []
        device = [] if any(p[0] == "device" for p in params) else ["device: Device | str | None = ..."]
        ints = ["*rest: Any"] if more else []
        listed = ordered(params)
        result = "Result" if name in many else "Tensor"
        star = [] if "*" in listed or ints else ["*"]
        numpys = numpys_names(params)
        own = ordered(params[1:])
        own_star = [] if "*" in own or ints or not numpys else ["*"]
        if name not in OWN_NAMES:
            functions.append(f"def {name}({', '.join(listed + ints + star + numpys + device)}) -> {result}: ...")
        if params and params[0][1] == "Tensor" and name not in OWN_NAMES:
            lines.append(f"    def {name}({', '.join(['self'] + own + ints + own_star + numpys)}) -> {result}: ...")
    return "\n".join(lines + [""] + functions) + "\n"


def main():
    text = stubs()
    if "--check" in sys.argv:
        return 0 if TARGET.exists() and TARGET.read_text() == text else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
