"""Networks with tensors much larger than the scratchpad: their results, rectangles and memory."""

import itertools

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.compile import Compiled
from tq_hw.isa.config import Config, load_config
from tq_hw.isa.program import REGION_ARENA
from tq_hw.model.graph import Model
from tq_hw.model.samples.networks import super_resolution
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

SMALL = Config("small", 8, 8, 8, 16 << 10, acc_words=32)


def _exact(model: Model, compiled: Compiled) -> None:
    shape = model.main.tensors[model.main.inputs[0]].shape
    image = np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)
    found = execute(compiled.program, [image], check_races=True).outputs[0]
    np.testing.assert_array_equal(found, run(model, [image]).outputs[0], strict=True)


@pytest.mark.parametrize(("config", "height", "width"), [(SMALL, 22, 44), (load_config("tiny"), 9, 28)],
                         ids=["small", "tiny"])
def test_images_larger_than_the_scratchpad(config: Config, height: int, width: int) -> None:
    model = super_resolution(height, width, channels=16, blocks=1)
    compiled = compile_model(model, config)
    _exact(model, compiled)
    rectangles = [(plan.rows, plan.cols) for plan in compiled.emitter.plan.layers]
    assert any(rows > 4 and cols < width for rows, cols in rectangles)
    _places_are_apart(compiled)


@pytest.mark.slow
def test_a_quarter_of_full_hd_made_twice_as_large() -> None:
    compiled = compile_model(super_resolution(540, 960), load_config("n16"))
    assert len(compiled.emitter.stream.operations) < 40_000
    assert compiled.program.arena_bytes < 100_000_000
    _places_are_apart(compiled)


def _places_are_apart(compiled: Compiled) -> None:
    """Tensors that are live at the same time have separate bytes; others may share bytes."""
    places = [(offset, offset + size, life) for _, region, offset, size, life in compiled.emitter.places()
              if region == REGION_ARENA]
    shared = 0
    for (low, high, (first, last)), (other_low, other_high, (other_first, other_last)) in itertools.combinations(
            places, 2):
        if low < other_high and other_low < high:
            assert last < other_first or other_last < first
            shared += 1
    assert shared > 0
    assert compiled.program.arena_bytes < sum(high - low for low, high, _ in places)
