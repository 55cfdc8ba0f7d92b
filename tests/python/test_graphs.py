"""Random graphs with fixed seeds: graph_fuzz.py says what is compared. WEFT_GRAPHS is the number of cases, WEFT_GRAPHS_FROM the first seed."""
import os

import pytest

import graph_fuzz
import harness

CASES = int(os.environ.get("WEFT_GRAPHS", "60"))
FIRST = int(os.environ.get("WEFT_GRAPHS_FROM", "1"))


@pytest.fixture(scope="module")
def fuzzer():
    found = graph_fuzz.Fuzzer(graph_fuzz.ON_CPU if harness.DEVICE == "cpu" else graph_fuzz.ON_WEBGPU)
    yield found
    found.close()


@pytest.mark.parametrize("block", range(10))
def test_graphs_equal_numpy(fuzzer, block):
    for seed in range(FIRST + block * CASES // 10, FIRST + (block + 1) * CASES // 10):
        text = fuzzer.case(seed)
        assert not text, text


def test_the_draws_reach_what_they_are_for():
    """Of the steps that are drawn most become lines; views, updates, several results and 16-bit floats are among them."""
    device = graph_fuzz.open_device("cpu")
    names, dtypes, lines, steps, many = set(), set(), 0, 0, 0
    for seed in range(150):
        program = graph_fuzz.draw(seed)
        graph = graph_fuzz.build(program, device)
        steps, lines = steps + len(program.steps), lines + sum(call.name is not None for call in graph.calls)
        names |= {call.name for call in graph.calls}
        dtypes |= {v.dtype for v in graph.values}
        many += len(graph_fuzz.asked(program, graph)[0]) > 1
    device.close()
    assert lines >= 0.6 * steps, (lines, steps)
    assert {"permute", "slice", "flip", "unfold", "expand", "slice_update", "index_add", "matmul", "linear", "softmax", "layer_norm", "cat", "where", "eval"} <= names
    assert dtypes >= {"float32", "float16", "bfloat16", "float64", "int32", "int8", "uint8", "int64", "bool_"}
    assert many >= 50, many
