"""Batches of a dense layer that is bound by its weights: each weight is fetched once, for any batch size."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


def dense(batch: int, features: int, layers: int = 1) -> Model:
    rng, b = np.random.default_rng(0), ModelBuilder("dense")
    x = b.input((batch, features), scale=0.05)
    for _ in range(layers):
        weights = b.constant(rng.integers(-127, 128, (features, features)).astype(np.int8), scale=0.001)
        x = b.add("FULLY_CONNECTED", [x, weights, b.bias(x, weights, rng.integers(-99, 99, features).astype(np.int32))],
                  shape=(batch, features), scale=0.05, options={"fused_activation_function": "NONE"})
    return parse_model(b.build(x), "dense")


@pytest.mark.parametrize(("features", "layers"), [(256, 1), (256, 2)])
def test_four_take_little_longer_than_one(features: int, layers: int) -> None:
    cycles = []
    for batch in (1, 4):
        model = dense(batch, features, layers)
        compiled = compile_model(model, load_config("n16"))
        inputs = random_inputs(model)
        np.testing.assert_array_equal(execute(compiled.program, inputs).outputs[0], run(model, inputs).outputs[0])
        assert sum(row.bytes for row in compiled.report) < layers * features * (features + 64)
        cycles.append(sum(row.cycles for row in compiled.report))
    assert 4 * cycles[0] / cycles[1] > 3.9


@pytest.mark.parametrize(("config", "batch"), [("n8", 3), ("n8", 21), ("tiny", 5), ("serial", 2), ("n9x8", 17)])
def test_any_batch(config: str, batch: int) -> None:
    model = dense(batch, 40, 2)
    inputs = random_inputs(model)
    found = execute(compile_model(model, load_config(config)).program, inputs).outputs[0]
    np.testing.assert_array_equal(found, run(model, inputs).outputs[0])
