"""Slices of a layer's output in the scratchpad are read there."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import REGION_ARENA
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


@pytest.mark.parametrize(("config", "stores"), [("n16", 1), ("n8", 1), ("tiny", 1)])
def test_parts_of_a_dense_layer(config: str, stores: int) -> None:
    rng = np.random.default_rng(3)
    b = ModelBuilder("slices")
    x = b.input((1, 32), scale=0.05, zero_point=3)
    weights = b.constant(rng.integers(-127, 128, (48, 32)).astype(np.int8), scale=0.01)
    y = b.add("FULLY_CONNECTED", [x, weights, b.bias(x, weights, np.arange(48, dtype=np.int32))], scale=0.3,
              zero_point=-5)
    parts = b.add_many("SPLIT", [b.constant(1), y], 3)
    product = b.add("MUL", parts[:2], scale=2.0, zero_point=1)
    model = parse_model(b.build(b.add("ADD", [product, parts[2]], scale=1.5, zero_point=0)), "slices")
    compiled = compile_model(model, load_config(config))
    inputs = [rng.integers(-128, 128, (1, 32)).astype(np.int8)]
    np.testing.assert_array_equal(execute(compiled.program, inputs, check_races=True).outputs[0],
                                  run(model, inputs).outputs[0], strict=True)
    stream = compiled.emitter.stream
    assert len(stream.by_unit[Unit.STORE]) == stores
    assert sum(operation.fields["region"] == REGION_ARENA for operation in stream.by_unit[Unit.LOAD]) == 1
