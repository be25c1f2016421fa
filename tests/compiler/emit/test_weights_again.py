"""Layers with the same weights load them once, unless they are overwritten in the ring in between."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.layout import Unit
from tq_hw.isa.program import REGION_IMAGE
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

_WIDTH = 48


def _unrolled(steps: int, same: bool) -> Model:
    """Consecutive dense layers with the same or different weights, each with an output scale of its own."""
    b, rng = ModelBuilder(), np.random.default_rng(4)
    x = b.input((1, _WIDTH), scale=0.05, zero_point=3)
    for step in range(steps):
        if step == 0 or not same:
            weights = b.constant(rng.integers(-127, 128, (_WIDTH, _WIDTH)).astype(np.int8),
                                 scale=rng.uniform(0.001, 0.01, _WIDTH).tolist())
        bias = b.bias(x, weights, rng.integers(-500, 500, _WIDTH))
        x = b.add("FULLY_CONNECTED", [x, weights, bias], scale=0.05 + step / 200, zero_point=step)
    return parse_model(b.build(x), "unrolled")


def _constant_bytes(model: Model, config: Config) -> int:
    compiled = compile_model(model, config)
    image = np.random.default_rng(1).integers(-128, 128, (1, _WIDTH)).astype(np.int8)
    found = execute(compiled.program, [image], seed=1, check_races=True).outputs[0]
    np.testing.assert_array_equal(found, run(model, [image]).outputs[0])
    return sum(operation.fields["run_bytes"] * operation.fields["count2"]
               for operation in compiled.emitter.stream.by_unit[Unit.LOAD]
               if operation.fields.get("region") == REGION_IMAGE)


@pytest.mark.parametrize("config", ["n16", "n8"])
def test_the_same_weights_come_once(config: str) -> None:
    four, others = (_constant_bytes(_unrolled(4, same), load_config(config)) for same in (True, False))
    assert others - four >= 2 * _WIDTH * _WIDTH


def test_a_small_ring_may_load_them_again() -> None:
    tight = Config("tight", 8, 8, 4, 4 << 10)
    one, four = (_constant_bytes(_unrolled(steps, True), tight) for steps in (1, 4))
    assert four > one
