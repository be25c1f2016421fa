"""Reductions of images, with scratchpads of all sizes."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import Config
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
