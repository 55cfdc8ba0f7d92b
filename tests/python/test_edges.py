"""The edges of the language: whole numbers that a double does not hold, numbers that a dtype does not hold, values that are checked
when they are computed, tensors of rank 0."""
import math

import numpy as np
import pytest

import harness
import weft as wf

B = 2**53 + 1  # the first integer that a double does not hold
BIG = (B, -B, 2**62 + 1, 2**63 - 1, -(2**63))


@pytest.fixture(autouse=True)
def device():
    wf.device(harness.DEVICE)


def i64(*numbers):
    return wf.tensor(np.array(numbers, np.int64))


@pytest.mark.parametrize("v", BIG)
def test_whole_numbers_are_exact(v):
    low, high = max(v - 1, -(2**63)), min(v + 1, 2**63 - 1)
    x = i64(low, v, high)
    n = np.array([low, v, high], np.int64)
    assert wf.full((2, 1), v).tolist() == [[v], [v]]
    assert wf.full((2,), v, dtype="int64").tolist() == [v, v]
    assert wf.full((), v).item() == v and wf.full((0,), v).shape == (0,)
    assert wf.full_like(x, v).tolist() == [v] * 3
    assert wf.scalar_tensor(v).item() == v
    assert wf.pad(x, (1, 2), value=v).tolist() == [v, low, v, high, v, v]
    assert x.masked_fill(x == v, 0).tolist() == np.where(n == v, 0, n).tolist()
    assert wf.zeros((3,), dtype="int64").masked_fill(x == v, v).tolist() == np.where(n == v, v, 0).tolist()
    assert x.clamp(v, v).tolist() == [v] * 3
    assert wf.where(x == v, v, 3).tolist() == np.where(n == v, v, 3).tolist()
    assert wf.where(x == v, x, v).tolist() == [v] * 3
    for name, f in (("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)):
        assert getattr(wf, name)(x, v).tolist() == f(n, v).tolist(), name
        assert getattr(wf, name)(v, x).tolist() == f(v, n).tolist(), name
    with np.errstate(over="ignore"):
        for name, f in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("maximum", np.maximum), ("minimum", np.minimum)):
            assert getattr(wf, name)(x, v).tolist() == f(n, np.int64(v)).tolist(), name
        assert wf.add(x, x, alpha=v).tolist() == (n + n * np.int64(v)).tolist()
        assert wf.sub(x, x, alpha=v).tolist() == (n - n * np.int64(v)).tolist()
        assert wf.index_add(x, 0, wf.tensor([0]), i64(3), alpha=v).tolist()[0] == (n[:1] + 3 * np.int64(v)).tolist()[0]
    assert wf.threshold(x, v, 7).tolist() == np.where(n > v, n, 7).tolist()
    assert wf.threshold(x, 7, v).tolist() == np.where(n > 7, n, v).tolist()
    assert x[x == v].tolist() == n[n == v].tolist()


def test_ranges_of_64_bits_are_exact():
    for start, end, step in ((B, B + 3, 1), (2**62, 2**62 + 10, 3), (-(2**63), -(2**63) + 5, 2), (2**63 - 1, 2**63 - 6, -2), (0, 2**62, 2**61 + 1),
                             (-(2**63), 2**63 - 1, 2**62), (5, -(2**63), -(2**62) - 1)):
        assert wf.arange(start, end, step, dtype="int64").tolist() == list(range(start, end, step))
        assert wf.arange(start, end, step).tolist() == list(range(start, end, step))
    with pytest.raises(wf.ArgumentError, match="away"):
        wf.arange(2**62, 2**62 + 1, -1, dtype="int64")
    with pytest.raises(wf.ShapeError, match="too many"):
        wf.arange(0, 2**62, dtype="int64")


def test_randint_reaches_all_64_bits():
    for low, high in ((-(2**63), 2**63 - 1), (0, 2**63 - 1), (-(2**63), 0), (B, B + 2), (2**62, 2**63 - 1)):
        v = wf.randint(low, high, (4000,), dtype="int64", seed=1).numpy()
        assert v.min() >= low and v.max() < high
        spread = float(high - low)
        assert float(v.max()) - float(v.min()) >= spread / 2 or spread <= 2
    for dtype, low, high in (("uint32", 0, 2**32), ("int32", -(2**31), 2**31), ("uint8", 0, 256), ("int8", -128, 128)):
        v = wf.randint(low, high, (4000,), dtype=dtype, seed=1).numpy().astype(np.int64)
        assert low <= v.min() < low + (high - low) // 8 and high - (high - low) // 8 <= v.max() < high
    for dtype, low, high in (("uint8", 0, 257), ("uint8", -1, 5), ("int8", 0, 129), ("int8", -129, 0), ("uint32", -1, 5), ("int32", 0, 2**31 + 1)):
        with pytest.raises(wf.ArgumentError, match=f"from {low} to {high} in"):
            wf.randint(low, high, (3,), dtype=dtype)


@pytest.mark.parametrize("value, dtype", [(300, "uint8"), (-1, "uint8"), (128, "int8"), (-1, "uint32"), (2**32, "uint32"), (2**31, "int32"), (2**70, "int64"),
                                          (-(2**64), "int64"), (math.nan, "int32"), (math.inf, "int64"), (3e9, "int32")])
def test_a_number_that_a_dtype_cannot_hold_is_an_error(value, dtype):
    short = wf._dtypes.as_dtype(dtype).short
    for call in (lambda: wf.full((2,), value, dtype=dtype), lambda: wf.full_like(wf.zeros((2,), dtype=dtype), value),
                 lambda: wf.scalar_tensor(value, dtype=dtype)):
        with pytest.raises(wf.ArgumentError, match=f"{short} cannot hold the number"):
            call()


def test_alpha_keeps_integers():
    x, y = wf.tensor([1, 2], dtype="int32"), wf.tensor([3, 4], dtype="int64")
    assert wf.add(x, x, alpha=2).dtype == wf.int32 and wf.add(x, x, alpha=2).tolist() == [3, 6]
    assert wf.sub(y, x, alpha=3).dtype == wf.int64 and wf.sub(y, x, alpha=3).tolist() == [0, -2]
    assert wf.add(x, 1, alpha=2).tolist() == [3, 4]
    f = wf.tensor([0.5, 1.5], dtype="float64")
    assert wf.add(f, x, alpha=0.1).tolist() == [0.5 + 0.1 * 1, 1.5 + 0.1 * 2]
    assert wf.add(x, f.float(), alpha=0.5).dtype == wf.float32
    for call in (lambda: wf.add(x, x, alpha=2.5), lambda: wf.sub(x, y, alpha=1.0), lambda: wf.index_add(x, 0, wf.tensor([0]), x[:1], alpha=1.5)):
        with pytest.raises(wf.DtypeError, match="alpha is"):
            call()


def test_values_are_checked_when_they_are_computed():
    for weights in ([1.0, -1.0], [1.0, math.nan], [math.inf, 1.0], [0.0, 0.0], [[1.0, 2.0], [0.0, 0.0]], [[-0.5, 1.0], [1.0, 1.0]]):
        for replacement in (False, True):
            drawn = wf.multinomial(wf.tensor(weights), 1, replacement)
            with pytest.raises(wf.ArgumentError, match="multinomial: a weight is negative, infinite or NaN, or all of a line are 0") as e:
                drawn.numpy()
            assert e.value.status == "WEFT_E_VALUE"
            assert wf.multinomial(wf.tensor([0.0, 2.0]), 1, replacement).tolist() == [1]  # and the context goes on
    assert wf.multinomial(wf.tensor([1e-30, 0.0]), 3, True).tolist() == [0, 0, 0]
    x = wf.tensor([1.0, 2.0, 4.0])
    for q in (2.0, -0.1, math.nan, 2, -1):
        with pytest.raises(wf.ArgumentError, match="quantile: q is "):
            wf.quantile(x, q)
    for q in ([0.5, 1.5], [-1e-3, 0.0], [math.nan]):
        with pytest.raises(wf.ArgumentError, match="quantile: a q is outside 0 .. 1"):
            wf.quantile(x, wf.tensor(q)).numpy()
    assert wf.quantile(x, wf.tensor([0.0, 0.5, 1.0])).tolist() == [1.0, 2.0, 4.0] and wf.quantile(x, 1).item() == 4.0


def test_sizes_beyond_all_bounds_are_named():
    x, w = wf.zeros((1, 1, 4, 4)), wf.zeros((1, 1, 3, 3))
    for call in (lambda: wf.conv2d(x, w, padding=2**62), lambda: wf.conv2d(x, w, dilation=2**62), lambda: wf.max_pool2d(x, 2**62, dilation=2**10),
                 lambda: wf.conv2d(x, w, groups=2**62), lambda: wf.conv_transpose2d(x, w, groups=2**62)):
        with pytest.raises(wf.Error, match=str(2**62)) as e:
            call()
        assert "-1" not in str(e.value)


def arguments_of_a_number(name, parameters, dim):
    """Arguments of an operation along an axis, whose input has rank 0, or None where there are none."""
    keywords = {}
    for parameter, kind, optional, preset in parameters[1:]:
        if parameter in ("dim", "dims", "dim0", "dim1", "start_dim", "end_dim", "axis", "axis0", "axis1", "source", "destination", "dimension") and kind in ("int", "ints"):
            keywords[parameter] = dim
        elif preset is None and not optional:
            keywords[parameter] = {"Tensor": wf.tensor(0) if parameter in ("index", "indices") else wf.tensor(0.5), "int": 1, "ints": 1, "float": 1.0,
                                   "str": "sum", "dtype": "float32", "bool": True}[kind]
    return keywords


# Of the operations along an axis: those that PyTorch refuses a tensor of rank 0, with axis 0 too. Every other takes 0 and -1 for an axis
# of one element.
NO_NUMBERS = {"permute", "slice", "rope", "slice_update", "glu", "geglu", "swiglu", "permutation", "unflatten", "narrow", "select", "rot90", "roll",
              "split", "chunk", "tensor_split", "unbind", "diff", "weight_norm", "cross", "diagonal", "diag_embed"}
NO_AXIS = {"sinusoidal_embedding", "tensordot", "tile", "repeat_interleave", "masked_scatter"}  # not an axis, or PyTorch's own rule


def along_an_axis():
    for row in wf.operation_table():
        names = [p[0] for p in row[6] if p[1] in ("int", "ints")]
        if row[6] and row[6][0][1] == "Tensor" and {"dim", "dims", "dim0", "start_dim", "axis", "axis0", "source", "dimension"} & set(names) and row[0] not in NO_AXIS:
            yield row[0], row[6]


@pytest.mark.parametrize("name, parameters", [pytest.param(*row, id=row[0]) for row in along_an_axis()])
def test_a_number_along_an_axis(name, parameters):
    x = wf.tensor(0.25)
    for dim in (0, -1):
        keywords = arguments_of_a_number(name, parameters, dim)
        if name in NO_NUMBERS:
            with pytest.raises(wf.Error) as e:
                getattr(wf, name)(x, **keywords)
            assert e.value.status in ("WEFT_E_SHAPE", "WEFT_E_VALUE"), str(e.value)
            continue
        found = getattr(wf, name)(x, **keywords)
        for one in found if isinstance(found, tuple) else (found,):
            assert one.shape in ((), (1,)), (name, one.shape)
            one.numpy()
    with pytest.raises(wf.Error) as e:
        getattr(wf, name)(x, **arguments_of_a_number(name, parameters, 1))
    assert e.value.status in ("WEFT_E_SHAPE", "WEFT_E_VALUE", "WEFT_E_DTYPE"), str(e.value)


def test_a_number_has_one_element_along_its_axis():
    x = wf.tensor(2.5)
    for dim in (0, -1):
        for same in (x.flip(dim), x.transpose(dim, dim), x.movedim(dim, dim), x.moveaxis(dim, dim), x.swapaxes(dim, dim), x.gather(dim, wf.tensor(0)), x.gather(dim, wf.tensor(-1)),
                     x.index_select(dim, wf.tensor([0])), x.index_select(dim, wf.tensor(0)), x.take_along_dim(wf.tensor(0), dim), x.sum(dim), x.amax(dim),
                     x.cumsum(dim), x.sort(dim)[0], x.topk(1, dim)[0], x.squeeze(dim), x.scatter(dim, wf.tensor(0), wf.tensor(2.5)), x.quantile(0.3, dim)):
            assert same.shape == () and same.item() == 2.5
        assert wf.softmax(x, dim).item() == 1 and x.argmax(dim).item() == 0 and x.unfold(dim, 1, 1).tolist() == [2.5]
        assert wf.cosine_similarity(x, -x, dim).item() == pytest.approx(-1)
        assert x.gather(dim, wf.tensor([0, 0])).tolist() == [2.5, 2.5]
        assert wf.tensor([1.0, 7.0]).gather(dim, wf.tensor(1)).tolist() == 7.0
    with pytest.raises(wf.ShapeError, match="2 elements"):
        x.index_select(0, wf.tensor([0, 0]))
    with pytest.raises(wf.IndexError):
        x.gather(0, wf.tensor(1)).numpy()


def test_permutation_of_an_integer():
    assert sorted(wf.permutation(5).tolist()) == [0, 1, 2, 3, 4] and wf.permutation(0).shape == (0,)
    assert wf.permutation(7, seed=3).tolist() == wf.randperm(7, seed=3).tolist()
    with pytest.raises(wf.ShapeError, match="rank 0"):
        wf.permutation(wf.tensor(5))
    with pytest.raises(wf.ArgumentError, match="-1"):
        wf.permutation(-1)
