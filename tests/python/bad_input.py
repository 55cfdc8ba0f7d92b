"""Wrong arguments for every row of the table: each call must end with a result or with an exception that has a sentence.

    bad_input.py SEED EXAMPLES OPERATION ..      prints one JSON line for each finding; a crash ends the process instead

A call that is right comes from the operation's reference (harness.py), then one of its arguments is replaced. A result of
moderate size is computed too. test_bad_input.py runs this in a process of its own with bounded memory.
"""
import faulthandler
import json
import math
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import hypothesis
import numpy as np
from hypothesis import strategies as st

import weft as wf

EXPECTED = (wf.Error, TypeError, ValueError, OverflowError, IndexError, NotImplementedError, MemoryError)
LARGEST_COMPUTED, LARGEST_READ = 1 << 16, 1 << 22
LAZY = True  # whether the operation only records
INTS = (-1, 0, 1, 7, -7, 255, 2**31 - 1, 2**31, -(2**31) - 1, 2**40, 2**62, 2**63 - 1, -(2**63), 2**70, True)
OTHERS = (None, "x", 1.5, math.nan, [], {}, b"b", object(), 1j, np.float32(2), np.zeros((2, 2), np.float32), np.zeros(3, np.int16))
FLOATS = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e308, -1e-320, 2**70, 3)
STRINGS = ("", "nonsense", "\u00e9", "a" * 5000, "none", "->", "i->", "ii,jj->ij", "ij,jk->iq", "...i,i...->", "%s%n", "\0")
DTYPES = ("float32", "float16", "bfloat16", "float64", "int32", "uint32", "int8", "uint8", "int64", "bool_", "q8_0", "f12", 99, -1, None)


def other_device(rng):
    if not hasattr(other_device, "tensor"):
        device = wf._weft.Device("cpu")
        other_device.tensor = wf.tensor([[1.0, 2.0]], device=device)
        closed = wf._weft.Device("cpu")
        other_device.closed = wf.tensor([1.0], device=closed)
        closed.close()
    return rng.choice((other_device.tensor, other_device.closed))


def wrong_tensor(rng, x):
    """Another tensor in the place of one of that shape and dtype."""
    how = rng.randrange(10)
    shape = list(x.shape)
    if how == 0:
        return wf.tensor(np.zeros((1,) * rng.randrange(9), np.float32))
    if how == 1 and shape:
        shape[rng.randrange(len(shape))] = rng.choice((0, 1, 9))
    elif how == 2:
        shape = shape[1:]
    elif how == 3 and len(shape) < 8:
        shape.insert(rng.randrange(len(shape) + 1), rng.choice((0, 1, 3)))
    elif how == 4 and shape:
        shape = [int(n) for n in x.shape]
        k = rng.randrange(len(shape))
        huge = max(1, rng.choice((2**31 if LAZY else 2**50, 2**33 if LAZY else 2**50, 2**50)) // math.prod(max(n, 1) for n in shape))
        return wf.tensor(np.ones(shape[:k] + [1] + shape[k + 1:], np.float32)).expand(shape[:k] + [huge] + shape[k + 1:])
    elif how == 5:
        return other_device(rng)
    elif how == 6:
        return wf._weft._from_buffer(wf._dtypes.as_dtype("q8_0"), (4, 64), bytes(4 * 2 * 34), None)
    dtype = rng.choice(("float32", "float64", "float16", "int32", "int64", "uint8", "int8", "uint32", "bool")) if how >= 4 else x.dtype.numpy_name or "float32"
    fill = rng.choice((0, 1, 127, 100))
    return wf.tensor(np.full(shape, fill, dtype))


def wrong(rng, value):
    """Another value in the place of one."""
    if rng.random() < 0.15:
        return rng.choice(OTHERS)
    if isinstance(value, wf.Tensor):
        return wrong_tensor(rng, value) if rng.random() < 0.8 else rng.choice(INTS + FLOATS)
    if isinstance(value, bool):
        return rng.choice(INTS)
    if isinstance(value, int):
        return rng.choice(INTS)
    if isinstance(value, float):
        return rng.choice(FLOATS)
    if isinstance(value, str):
        if rng.random() < 0.4 and value:
            k = rng.randrange(len(value))
            return value[:k] + rng.choice(("", ",", "->", "...", "i", " ", "Z")) + value[k + 1:]
        return rng.choice(STRINGS + DTYPES)
    if isinstance(value, (list, tuple)):
        how = rng.randrange(5)
        if how == 0:
            return type(value)()
        if how == 1:
            return type(value)(list(value) * rng.choice((2, 9, 600)))
        if how == 2 and value:
            return type(value)(list(value)[1:])
        if value:
            k = rng.randrange(len(value))
            return type(value)([wrong(rng, v) if i == k else v for i, v in enumerate(value)])
        return type(value)([rng.choice(INTS)])
    return rng.choice(OTHERS + INTS + DTYPES)


def spoil(rng, arguments, keywords, parameters):
    arguments, keywords = list(arguments), dict(keywords)
    how = rng.random()
    if how < 0.05 and arguments:
        arguments.pop(rng.randrange(len(arguments)))
    elif how < 0.08:
        arguments.insert(rng.randrange(len(arguments) + 1), rng.choice(INTS[:9] + OTHERS))
    elif how < 0.10:
        keywords["no_such_keyword"] = 1
    elif how < 0.3:
        name, kind, optional, preset = rng.choice(parameters)
        keywords[name] = rng.choice({"int": INTS, "ints": INTS + ((1, 2), [-1] * 9, (2**40, 2**40)), "float": FLOATS, "str": STRINGS, "dtype": DTYPES}.get(kind, INTS + OTHERS))
    elif how < 0.4 and keywords:
        name = rng.choice(sorted(keywords))
        keywords[name] = wrong(rng, keywords[name])
    elif arguments:
        k = rng.randrange(len(arguments))
        arguments[k] = wrong(rng, arguments[k])
    return arguments, keywords


def elements(value):
    """The largest operand among arguments."""
    if isinstance(value, (list, tuple)):
        return max((elements(v) for v in value), default=0)
    return value.numel() if isinstance(value, wf.Tensor) else 0


def check(name, arguments, keywords):
    """What is wrong with how the call ended, or None."""
    where = "call"
    small = elements(arguments + list(keywords.values())) <= LARGEST_READ
    try:
        result = getattr(wf._weft.ops, name)(*arguments, **keywords)
        where = "evaluation"
        for one in result if isinstance(result, tuple) else (result,):
            if small and one.numel() <= LARGEST_COMPUTED and one.dtype.struct_code:
                one.numpy()
                repr(one)
    except EXPECTED as error:
        if not str(error).strip():
            return f"{where}: {type(error).__name__} without a sentence"
        if getattr(error, "status", "") == "WEFT_E_INTERNAL":
            return f"{where}: an internal error: {error}"
    except Exception as error:
        return f"{where}: {type(error).__name__}: {error}"
    return None


def short(value):
    if isinstance(value, wf.Tensor):
        return f"<{value.dtype.short} {list(value.shape)}>"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(short(v) for v in value[:10]) + (", .." if len(value) > 10 else "") + "]"
    return repr(value)[:60]


def sweep(name, seed, examples):
    import harness
    global LAZY
    spec, parameters = harness.REFERENCES[name], harness.ROWS[name][6]
    LAZY = not spec.evaluates
    trail = os.environ.get("WEFT_BAD_INPUT_TRAIL")

    @hypothesis.settings(max_examples=examples, deadline=None, database=None, phases=[hypothesis.Phase.generate], suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.seed(seed)
    @hypothesis.given(st.data())
    def cases(data):
        case = harness.Case(spec, data)
        rng = random.Random(data.draw(st.integers(0, 2**32)))
        for _ in range(4):
            arguments, keywords = case.map(harness.Operand.tensor)
            arguments, keywords = spoil(rng, arguments, keywords, parameters)
            call = f"{name}({', '.join([short(a) for a in arguments] + [f'{k}={short(v)}' for k, v in keywords.items()])})"
            if trail:
                print("trail", call, file=sys.stderr, flush=True)
            found = check(name, arguments, keywords)
            if found:
                print(json.dumps([call, found]), flush=True)
    cases()


def main():
    faulthandler.enable()
    import harness
    import test_oracle  # noqa: F401  reads the references
    wf.device(harness.DEVICE)
    seed, examples, names = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    for name in names or list(harness.ROWS):
        if name in harness.REFERENCES and harness.ROWS[name][6]:
            print(json.dumps([name]), flush=True)
            sweep(name, seed, examples)


if __name__ == "__main__":
    main()
