"""ADD and SUB of int16 whose scales LiteRT takes for one power of two: it adds codes, with saturation."""

from collections.abc import Callable

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import load_config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run
from tq_hw.sim.oracles import Oracle

#: ai-edge-quantizer writes 1/32767, which is near.
POWER, NEAR, FAR = 2.0**-15, 1 / 32767, 1.0006 * 2.0**-15


@pytest.mark.parametrize(("op", "dims"), [("ADD", (1, 7, 30)), ("SUB", (1, 7, 30)), ("SUB", (1, 1, 30))])
@pytest.mark.parametrize("scales", [(POWER, POWER, POWER), (NEAR, NEAR, NEAR), (POWER, NEAR, FAR)])
@pytest.mark.parametrize("activation", ["NONE", "RELU"])
@pytest.mark.parametrize(("profile", "engine"), [("canon", "litert-ref"), ("litert", "litert-ref"), ("tflm", "tflm")])
def test_equals_the_engine(op: str, dims: tuple[int, ...], scales: tuple[float, float, float], activation: str,
                           profile: str, engine: str, oracles: Callable[[str], Oracle]) -> None:
    b = ModelBuilder("sum")
    x, y = b.input((1, 7, 30), "int16", scale=scales[0]), b.input(dims, "int16", scale=scales[1])
    data = b.build(b.add(op, [x, y], scale=scales[2], zero_point=0, fused_activation_function=activation,
                         pot_scale_int16=True))
    model, rng = parse_model(data, "sum").under(profile), np.random.default_rng(0)
    inputs = [rng.integers(-2**15, 2**15, shape).astype(np.int16) for shape in ((1, 7, 30), dims)]
    expected = oracles(engine).run(data, inputs)[0]
    for ours in (run(model, inputs), execute(compile_model(model, load_config("n8")).program, inputs)):
        np.testing.assert_array_equal(ours.outputs[0], expected, strict=True)
