"""t[key] and t[key] = value are NumPy's, for keys that mix integers, slices, None, Ellipsis, lists, index arrays and masks."""
import random
import warnings

import numpy as np
import pytest

import weft as wf


def part(rng, numbers, n):
    """A part of a key for an axis of n elements."""
    return rng.choice((lambda: rng.randrange(-n, n), lambda: slice(None),
                       lambda: slice(rng.choice((None, 0, 1, -2, 5)), rng.choice((None, 2, -1, 9)), rng.choice((None, 1, 2, -1, -3))), lambda: None,
                       lambda: Ellipsis, lambda: [rng.randrange(-n, n) for _ in range(3)], lambda: numbers.integers(-n, n, (2, 1)),
                       lambda: numbers.integers(0, 2, n).astype(bool), lambda: numbers.integers(-n, n, 1)))()


def drawn_key(rng, numbers, shape):
    key, axis = [], 0
    if rng.random() < 0.1:
        return numbers.integers(0, 2, shape).astype(bool)
    while axis < len(shape) and rng.random() < 0.85:
        p = part(rng, numbers, shape[axis])
        if p is Ellipsis and any(k is Ellipsis for k in key):
            continue
        key.append(p)
        axis += rng.randrange(len(shape) - axis + 1) if p is Ellipsis else p is not None
    return tuple(key) if len(key) != 1 or rng.random() < 0.5 else key[0]


@pytest.mark.parametrize("seed", range(4))
def test_keys_are_those_of_numpy(seed):
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    for _ in range(150):
        shape = tuple(rng.choice((1, 2, 3, 4)) for _ in range(rng.randrange(1, 5)))
        a = numbers.integers(0, 100, shape).astype(np.float32)
        key, x = drawn_key(rng, numbers, shape), wf.tensor(a)
        said = f"shape {shape}, key {key!r}"
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an index outside an empty result
            try:
                want = a[key]
            except (IndexError, DeprecationWarning):
                with pytest.raises((IndexError, wf.Error)):
                    x[key].numpy()
                continue
        got = x[key].numpy()
        assert got.shape == want.shape and np.array_equal(got, want), said
        value = rng.choice((7.0, numbers.integers(0, 9, want.shape).astype(np.float32), numbers.integers(0, 9, want.shape[-1:]).astype(np.float32)))
        a[key] = value
        x[key] = wf.tensor(value) if rng.random() < 0.5 else value
        assert np.array_equal(x.numpy(), a), said


def test_bools_are_axes():
    a = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    x = wf.tensor(a)
    for key in (True, False, np.True_, np.False_, (False, 0), (0, True)):
        assert x[key].numpy().shape == a[key].shape
    for key in ((0, 0, 0), 2, -3, (Ellipsis, Ellipsis), np.array([2]), 1.5, "a", np.zeros(3, bool)):
        with pytest.raises((IndexError, TypeError, wf.Error)):
            x[key].numpy()
