"""A small program that a type checker must accept (test_docs.py); it also runs."""
from __future__ import annotations

import numpy as np
import weft as wf


def normalised(x: wf.Tensor) -> wf.Tensor:
    return (x - x.mean(dim=-1, keepdim=True)) / x.std(dim=-1, keepdim=True)


def main() -> None:
    x = wf.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=wf.float32)
    y = normalised(x @ x.T + 1)
    y[0, :] = 0.0
    values, indices = wf.topk(x, 1)
    larger: wf.Tensor = wf.interpolate(wf.zeros((1, 1, 4)), scale_factor=2.0, mode="linear")
    total: float = float(y.sum())
    rows: int = len(x)
    for row in x:
        assert isinstance(2 * row // 2 - abs(-row), wf.Tensor) and row.shape == (2,)
    joined = wf.cat([x, x], 0).sum(axis=0, keepdims=True) if rows else larger
    assert joined.shape == (1, 2) and total == total and values.shape == indices.shape
    assert wf.from_numpy(np.zeros(3, np.float32)).to("f64").dtype.name == "float64"
    try:
        x.reshape(7)
    except wf.ShapeError as error:
        assert error.status == "WEFT_E_SHAPE"


if __name__ == "__main__":
    main()
