"""Numbers of bytes among which multiplexers choose: computed from sizes alone, equal to those of the hardware."""

import random
from collections.abc import Iterator

import pytest

from tq_hw.boards.resources.choices import lane_choices, parameter_choices, rotated_bytes
from tq_hw.hdl.vector.beats import Beats, element_bytes
from tq_hw.isa.config import Config, ConfigError


def machines(count: int) -> Iterator[Config]:
    chance = random.Random(0)
    while count:
        try:
            yield Config("drawn", chance.randint(3, 32), chance.randint(2, 32), chance.randint(1, 16), 64 << 10)
        except ConfigError:  # most draws are illegal
            continue
        count -= 1


def test_lanes_choose_among_the_places_of_their_elements() -> None:
    for config in machines(40):
        beats = Beats(config)
        places = {kind: list(beats.places(kind)) for kind in range(4)}
        operand = 0
        for lane in range(config.requantize_lanes):
            for part in range(4):
                choices: set[object] = {"sign" if part >= element_bytes(kind) else byte + part
                                        for kind, found in places.items() for *_, of, byte in found if of == lane}
                operand += len(choices) - 1
        output = 0
        for byte in range(config.word_bytes):
            results = {4 * lane + byte - first for kind in range(3) for *_, lane, first in places[kind]
                       if first <= byte < first + element_bytes(kind)}
            output += max(0, len(results) - 1)
        assert lane_choices(config) == 2 * operand + output, config


@pytest.mark.parametrize(("sizes", "count"), [
    ((4, 4, 2), 3 * (4 + 4)), ((16, 8, 4), 3 * 4 * 16),
    # Feeds without a depthwise group feed only rows: four bytes, rotated from 8, 16, 32 and 32.
    ((4, 20, 2), 20 + 4 * 32 + 2 * (4 + 8 + 16 + 32 + 32)),
    ((24, 3, 1), 3 * (24 + 4 * 32))])
def test_rotators_have_the_bytes_that_are_used(sizes: tuple[int, int, int], count: int) -> None:
    assert rotated_bytes(Config("x", *sizes, 64 << 10)) == count


@pytest.mark.parametrize(("sizes", "count"), [
    ((8, 8, 8), 0), ((4, 4, 4), 0),
    # With four lanes, each has its biases at one place of their words, and its shifts, of six bits, at two.
    ((8, 8, 4), 4 * 0.75), ((8, 8, 1), 4 + 4 + 7 * 0.75)])
def test_parameters_come_from_the_places_of_their_channels(sizes: tuple[int, int, int], count: float) -> None:
    assert parameter_choices(Config("x", *sizes, 64 << 10)) == count
