"""Folded windows; on the smallest machines the weights of all phases do not fit."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.engines import random_inputs
from tq_hw.sim.executor import execute


@pytest.mark.parametrize(("kib", "folds"), [(64, False), (512, True)])
def test_is_left_out_where_its_weights_find_no_room(kib: int, folds: bool) -> None:
    """A word holds sixteen blocks of two columns: each needs 32 rows of weights, for every phase."""
    b, rng = ModelBuilder("m"), np.random.default_rng(0)
    x = b.input((1, 20, 20, 3), scale=0.1)
    weights = b.constant(rng.integers(-127, 128, (32, 3, 3, 3), dtype=np.int8), scale=0.01)
    out = b.add("CONV_2D", [x, weights, b.bias(x, weights, [5] * 32)], padding="SAME", scale=0.1)
    model = parse_model(b.build(out), "m")
    compiled = compile_model(model, Config("r32c2", 32, 2, 2, kib << 10, acc_words=16, acc_buffers=2, bus_bytes=4))
    assert (compiled.emitter.plan.layers[0].fold is not None) == folds
    inputs = random_inputs(model)
    np.testing.assert_array_equal(execute(compiled.program, inputs).outputs[0], golden.run(model, inputs).outputs[0])
