"""GATHER_ND at computed indices equals LiteRT, and becomes GATHER."""

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
