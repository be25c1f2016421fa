"""Sums, maxima and minima of chunks of any length, back to back and with gaps, against the executor's."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from bench import Bench
from vector_reference import VECTOR_CONFIGS

from tq_hw.hdl.vector.reduce import ReduceUnit
from tq_hw.isa.config import Config
from tq_hw.isa.latency import reduce_tree_cycles
from tq_hw.isa.uop import Reduce
from tq_hw.sim.executor.uop import reduce_all

CORNERS = (0, 1, -1, (1 << 31) - 1, -(1 << 31), (1 << 31) - 2, 1 - (1 << 31))
WORD_BITS = 4


@dataclass(frozen=True)
class Chunk:
    """Words of a block of channels each, of the last one `lanes`; reduced into register `word`."""

    kind: Reduce
    words: list[list[int]]
    lanes: int
    word: int


def chunk(config: Config, rng: random.Random) -> Chunk:
    """Draw one: of near numbers or of far ones, so that comparisons overflow, and ties are there."""
    draw = rng.choice((lambda: rng.choice(CORNERS), lambda: rng.randint(-3, 3),
                       lambda: rng.randint(-(1 << 31), (1 << 31) - 1)))
    words = [[draw() for _ in range(config.block)] for _ in range(rng.randint(1, 4))]
    return Chunk(rng.choice(list(Reduce)), words, rng.randint(1, config.block), rng.randrange(1 << WORD_BITS))


def expected(chunks: list[Chunk]) -> list[tuple[int, int]]:
    """Return register word and result of each."""
    return [(each.word, int(reduce_all(each.kind, np.array([each.words], np.int32),
                                       np.arange(len(each.words[0])) < each.lanes)[0])) for each in chunks]


def rtl(config: Config, chunks: list[Chunk], rng: random.Random, gap: float) -> list[tuple[int, int]]:
    """Give the beats of the chunks to the unit; return the same. A result comes in its cycle after the last beat."""
    unit = ReduceUnit(config, WORD_BITS)
    found: list[tuple[int, int]] = []
    due: set[int] = set()

    async def watch(ctx: Any) -> None:
        cycle = 0
        while True:
            assert bool(ctx.get(unit.done)) == (cycle in due)
            if ctx.get(unit.done):
                found.append((ctx.get(unit.word), ctx.get(unit.result)))
            else:
                assert ctx.get(unit.result) == 0
            await ctx.tick()
            cycle += 1

    async def feed(ctx: Any) -> None:
        cycle = 0
        for each in chunks:
            beats = [(number == len(each.words) - 1, position) for number in range(len(each.words))
                     for position in range(config.beats_per_word)]
            for number, (last_word, position) in enumerate(beats):
                valid = False
                while not valid:
                    valid = rng.random() >= gap
                    ctx.set(unit.valid, valid)
                    lanes = config.requantize_lanes
                    word = each.words[number // config.beats_per_word]
                    for lane in range(lanes):
                        channel = position * lanes + lane
                        ctx.set(unit.x[lane], word[channel] if valid and channel < config.block else rng.randint(-9, 9))
                    for name, value in (("first", number == 0), ("last", number == len(beats) - 1),
                                        ("kind", each.kind if valid else rng.randrange(3)), ("position", position),
                                        ("lanes", each.lanes if last_word else config.block), ("word", each.word)):
                        ctx.set(unit.beat[name], value)
                    if valid and number == len(beats) - 1:
                        due.add(cycle + reduce_tree_cycles(config) - 1)
                    await ctx.tick()
                    cycle += 1
        ctx.set(unit.valid, 0)
        for _ in range(reduce_tree_cycles(config) + 1):
            await ctx.tick()

    Bench(unit, 2).run(watch, feed)
    return found


@pytest.mark.parametrize("config", [each for each in VECTOR_CONFIGS.values() if not each.activation_lanes],
                         ids=lambda config: config.name)
@pytest.mark.parametrize("gap", [0, 0.4])
def test_reduces_chunks(config: Config, gap: float) -> None:
    rng = random.Random(f"{config.name} {gap}")
    chunks = [chunk(config, rng) for _ in range(80)]
    assert rtl(config, chunks, rng, gap) == expected(chunks)
