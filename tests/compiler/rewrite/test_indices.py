"""GATHER_ND at computed indices equals LiteRT, and becomes GATHER; ONE_HOT needs no float32."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.rewrite.library import LIBRARY
from tq_hw.compiler.rewrite.rewrite import rewrite
from tq_hw.isa.config import load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle


@pytest.mark.parametrize(("shape", "count", "depth", "dtype"), [
    ((5, 7), (4,), 1, "int32"), ((3, 4, 5), (2, 3), 2, "int64"), ((3, 4), (6,), 2, "int32"),
    ((2, 3, 4), (), 3, "int32"), ((1, 6, 2, 3), (5,), 2, "int32")])
def test_equals_the_engine(litert: Oracle, shape: tuple[int, ...], count: tuple[int, ...], depth: int,
                           dtype: str) -> None:
    b = ModelBuilder("places")
    x, indices = b.input(shape, scale=0.1, zero_point=-7), b.input((*count, depth), dtype=dtype)
    data = b.build(b.add("GATHER_ND", [x, indices], scale=0.1, zero_point=-7))
    model = parse_model(data, "places")
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-128, 128, shape).astype(np.int8),
              np.stack([rng.integers(0, size, count) for size in shape[:depth]], axis=-1).astype(dtype)]
    operators = [op.op for op in rewrite(model.main, LIBRARY).operators]
    assert "GATHER" in operators and "GATHER_ND" not in operators
    expected = litert.run(data, inputs)[0]
    for found in (run(model, inputs), execute(compile_model(model, load_config("n8")).program, inputs)):
        np.testing.assert_array_equal(found.outputs[0].reshape(expected.shape), expected)


@pytest.mark.parametrize(("given", "taken"), [("int32", "int64"), ("int32", "int32"), ("int64", "int64")])
def test_one_hot_of_integers_that_were_float32(litert: Oracle, given: str, taken: str) -> None:
    """Also of numbers that float32 rounds."""
    b = ModelBuilder("hot")
    number = b.add("CAST", [b.add("CAST", [b.input((9,), given)], dtype="float32")], dtype=taken)
    on, off = (b.constant(np.array(code, np.int8), scale=1 / 255, zero_point=-128) for code in (127, -128))
    data = b.build(b.add("ONE_HOT", [number, b.constant(np.array(7, np.int32)), on, off], shape=(9, 7), dtype="int8",
                         scale=1 / 255, zero_point=-128, options={"axis": -1}))
    model = parse_model(data, "hot")
    assert "CAST" not in [op.op for op in rewrite(model.main, LIBRARY).operators]
    x = np.array([0, 6, 3, 7, -1, -5, (1 << 24) + 1, (1 << 31) - 129, -(1 << 31)]).astype(given)
    expected = litert.run(data, [x])[0]
    for found in (run(model, [x]), execute(compile_model(model, load_config("n8")).program, [x])):
        np.testing.assert_array_equal(found.outputs[0], expected, strict=True)
