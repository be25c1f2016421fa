"""compiler.emit.mac_constants, ring and mac: where constants are stored, operations of many output blocks."""

import random
from dataclasses import replace

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.compiler.compile import Compiled
from tq_hw.compiler.emit.ring import Ring
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import Unit
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model
from tq_hw.sim import golden
from tq_hw.sim.executor import execute

#: Without layers that begin by slices, which have their own tests.
N16 = replace(PRESETS["n16"], acc_open=0)


def convolution(shape: tuple[int, ...], outputs: int, kernel: int, *, uniform: bool = False) -> Model:
    builder = ModelBuilder("convolution")
    at = builder.input(shape, scale=0.05, zero_point=3)
    rng = np.random.default_rng(0)
    scales = np.full(outputs, 0.004) if uniform else rng.uniform(0.001, 0.01, outputs)
    weights = builder.constant(rng.integers(-127, 128, (outputs, kernel, kernel, shape[3])).astype(np.int8),
                               scale=scales.tolist(), dimension=0)
    bias = builder.bias(at, weights, rng.integers(-500, 500, outputs))
    at = builder.add("CONV_2D", [at, weights, bias], padding="SAME", scale=0.05, zero_point=3)
    return parse_model(builder.build(at), "convolution")


def blocks_of(made: Compiled, unit: Unit) -> list[tuple[int, int]]:
    """Slots and output blocks of a unit's operations."""
    return [(o.fields["slots"], o.fields["out_blocks"]) for o in made.emitter.stream.by_unit[unit]]


def test_rectangles_between_the_first_and_the_last_are_one_operation() -> None:
    """The first one waits for its weights block by block, and the last one is stored block by block."""
    made = compile_model(convolution((1, 12, 12, 128), 128, 1), N16)
    expected = [(36, 1)] * 8 + [(24, 8), (36, 8), (24, 8)] + [(24, 1)] * 8
    assert blocks_of(made, Unit.ARRAY) == expected == blocks_of(made, Unit.VECTOR)


def test_chunks_of_output_blocks_are_alike() -> None:
    """512 x 512 weights need four times half of the ring; no chunk is so small that it would wait for its input."""
    blocks = blocks_of(compile_model(convolution((1, 512, 1, 512), 512, 1), N16), Unit.ARRAY)
    assert {count for _, count in blocks} - {1} == {10, 11}


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("config", ["n16", "n8", "tiny", "n16x8"])
@pytest.mark.parametrize(("shape", "outputs", "kernel"), [
    ((1, 9, 11, 40), 72, 1), ((2, 10, 8, 17), 70, 3), ((1, 20, 20, 3), 40, 3), ((1, 1, 1, 300), 130, 1),
    ((1, 6, 7, 3), 300, 1)])
def test_integers_and_order(shape: tuple[int, ...], outputs: int, kernel: int, config: str, uniform: bool) -> None:
    """In `n16x8` words of parameters have 16 bytes, and words of weights 8."""
    model = convolution(shape, outputs, kernel, uniform=uniform)
    program = compile_model(model, PRESETS[config]).program
    inputs = [np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)]
    right = golden.run(model, inputs).outputs
    for seed in (0, 1):
        found = execute(program, inputs, seed=seed, check_races=True).outputs
        assert all(np.array_equal(a, b) for a, b in zip(found, right, strict=True))


def test_blocks_lie_one_behind_the_other() -> None:
    """Each has nine words of parameters and 8 * 16 of weights, in the ring as in memory."""
    made = compile_model(convolution((1, 12, 12, 128), 128, 1), N16)
    arrays, vectors = (made.emitter.stream.by_unit[unit] for unit in (Unit.ARRAY, Unit.VECTOR))
    loads = [o.fields for o in made.emitter.stream.by_unit[Unit.LOAD] if o.fields["region"] == 0]
    assert {f["run_bytes"] for f in loads} == {137 * 16}
    assert np.diff([f["memory_offset_bytes"] for f in loads]).tolist() == [137 * 16] * 7
    base = loads[0]["destination"]
    assert [f["destination"] - base for f in loads] == [137 * n for n in range(8)]
    assert [o.fields["param_base"] - base for o in vectors[:8]] == [137 * n for n in range(8)]
    assert [o.fields["weight_base"] - base for o in arrays[:8]] == [137 * n + 9 for n in range(8)]
    assert {o.fields["weight_block_step"] for o in arrays} == {o.fields["param_block_step"] for o in vectors} == {137}


def test_a_ring_gives_what_was_not_touched_for_longest() -> None:
    ring = Ring(64)
    ring.touch((Access("pad", 0, 24),))
    ring.touch((Access("pad", 32, 64),))
    assert ring.take(8, 0, held=False) == 24
    assert ring.take(16, 0, held=False) == 0
    assert ring.take(24, 0, held=False) == 32
    assert ring.take(9, 0, held=False) is None
    assert ring.take(8, 0, held=False) == 16


@pytest.mark.parametrize("seed", range(20))
def test_what_is_held_leaves_the_rest_in_one_piece(seed: int) -> None:
    rng = random.Random(seed)
    ring = Ring(1024)
    for _ in range(50):
        low = rng.randrange(1024)
        ring.touch((Access("pad", low, min(1024, low + rng.randrange(1, 200))),))
    left = 1024 - 128
    while left:
        words = min(left, 8 * rng.randrange(1, 40))
        assert ring.take(words, 128, held=True) is not None
        left -= words
    assert ring.take(1, 128, held=True) is None
    assert sum(high - low for low, high in ring.live) == 1024 - 128
