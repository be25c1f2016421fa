"""Inferences after the first one: which constants stay resident, with the same results."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.stream.stream import Access, Stream
from tq_hw.compiler.warm import kept_loads, warm_program
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import Unit
from tq_hw.model.samples.layers import KINDS, sample
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run

CONSTANT = {"memory_offset_bytes": 64, "run_bytes": 16}


def pad(low: int, high: int) -> tuple[Access, ...]:
    return (Access("pad", low, high),)


def kept(stream: Stream) -> list[int]:
    found = kept_loads(stream, 64)
    return [number for number, operation in enumerate(stream.operations) if id(operation) in found]


def test_constants_stay_where_nothing_else_is_written() -> None:
    stream = Stream(PRESETS["tiny"])
    stream.add(Unit.LOAD, CONSTANT, (), pad(0, 4), 0)
    stream.add(Unit.LOAD, CONSTANT | {"memory_offset_bytes": 128}, (Access("region0", 128, 144),), pad(4, 8), 0)
    stream.add(Unit.LOAD, CONSTANT | {"region": 1}, (Access("region1", 64, 80),), pad(8, 12), 0)
    stream.add(Unit.LOAD, CONSTANT | {"memory_offset_bytes": 256}, (), pad(12, 16), 0)
    stream.add(Unit.VECTOR, {}, pad(8, 12), pad(15, 20), 0)
    assert kept(stream) == [0, 1]


def test_the_same_constants_again_are_no_loss_and_others_are() -> None:
    stream = Stream(PRESETS["tiny"])
    for offset, low in ((0, 0), (16, 8), (0, 0), (32, 10), (48, 20), (48, 22)):
        stream.add(Unit.LOAD, CONSTANT | {"memory_offset_bytes": offset, "destination": low}, (), pad(low, low + 4), 0)
    assert kept(stream) == [0, 2]


@pytest.mark.parametrize("config", ["n16", "tiny"])
@pytest.mark.parametrize("kind", KINDS)
def test_inferences_in_turn_equal_golden(kind: str, config: str) -> None:
    """Inputs differ between inferences, so that stale inputs would be noticed."""
    model = sample(kind, 3)
    compiled = compile_model(model, PRESETS[config])
    program, scratchpad = compiled.program, None
    rng = np.random.default_rng(3)
    for _ in range(3):
        inputs = [rng.integers(-128, 128, model.main.tensors[i].shape).astype(np.int8) for i in model.main.inputs]
        result = execute(program, inputs, keep=True, check_races=True, scratchpad=scratchpad)
        for found, wanted in zip(result.outputs, run(model, inputs).outputs, strict=True):
            np.testing.assert_array_equal(found, wanted)
        program, scratchpad = warm_program(compiled), result.scratchpad


def test_the_image_begins_with_the_first_program_s() -> None:
    compiled = compile_model(sample("conv", 3), PRESETS["tiny"])
    first, again = compiled.program, warm_program(compiled)
    assert again.image.startswith(first.image)
    assert again.command_bytes < first.command_bytes
    assert again.image[again.command_offset:] == again.commands
