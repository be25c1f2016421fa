"""Reductions of images, with scratchpads of all sizes."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.ir.staged import Flat
from tq_hw.isa.config import PRESETS, Config
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

#: The smallest scratchpads: with words of few channels, of one block, and of several output blocks.
SMALL = [Config(f"{rows}x{cols}", rows, cols, lanes, 512 * word, acc_words=16, vector_words=128)
         for rows, cols, lanes, word in ((3, 2, 1, 4), (5, 7, 7, 8), (12, 12, 12, 16))]


def mean_of(size: int, channels: int) -> Model:
    b = ModelBuilder("mean")
    x = b.input((1, size, size, channels), scale=0.1, zero_point=3)
    return b.model(b.add("MEAN", [x, b.constant([1, 2])], keep_dims=True, scale=0.05, zero_point=-4))


@pytest.mark.parametrize("size", [7, 16, 17, 18, 20, 27, 32, 33])
@pytest.mark.parametrize("config", SMALL, ids=lambda config: config.name)
def test_mean_of_an_image_of_any_size(config: Config, size: int) -> None:
    """An image that cannot be one window of this scratchpad is summed by rows, as are larger ones elsewhere."""
    model = mean_of(size, 9)
    inputs = np.random.default_rng(size).integers(-128, 128, (1, size, size, 9)).astype(np.int8)
    found = execute(compile_model(model, config).program, [inputs], check_races=True)
    assert (found.outputs[0] == run(model, [inputs]).outputs[0]).all()


@pytest.mark.parametrize("op", ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"])
def test_many_rows_of_int16_are_reduced_together(op: str) -> None:
    """Each row would take an operation whose additions wait for each other. Few rows, or long ones, do not gain."""
    for shape, axis, images in (((1, 60, 12), 2, 1), ((5, 7, 9), 1, 1), ((4, 12), 1, 4), ((6, 3, 130), 1, 6)):
        b = ModelBuilder("rows")
        x = b.input(shape, "int16", scale=0.001)
        more = {"scale": 0.002} if op in ("MEAN", "SUM") else {}
        model = b.model(b.add(op, [x, b.constant([axis])], dtype="int16", **more))
        compiled = compile_model(model, PRESETS["n16"])
        inputs = np.random.default_rng(1).integers(-(1 << 15), 1 << 15, shape).astype(np.int16)
        np.testing.assert_array_equal(execute(compiled.program, [inputs]).outputs[0], run(model, [inputs]).outputs[0],
                                      strict=True)
        assert [layer.images for layer in compiled.emitter.graph.layers if isinstance(layer, Flat)] == [images]
