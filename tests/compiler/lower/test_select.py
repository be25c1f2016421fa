"""SELECT with a known condition: readers of its output use the output's zero point, and its own bytes."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tq_hw.isa.config import load_config
from tq_hw.model.graph import Model
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.model.tflite.reader import parse_model

sys.path.insert(0, str(Path(__file__).parents[3] / "benches"))
from agreement import check_model


def padded_model(convolved: bool) -> Model:
    """Select one of two images into an output with another zero point, and pad it with zeros."""
    rng, b = np.random.default_rng(0), ModelBuilder("padded")
    sides = [b.input((1, 4, 5, 3), scale=0.05, zero_point=5) for _ in range(2)]
    chosen = b.tensor((1, 4, 5, 3), scale=0.05, zero_point=-7)
    b.operator("SELECT_V2", [b.constant(np.ones((1, 4, 5, 3), bool)), *sides], [chosen])
    made = b.add("PAD", [chosen, b.constant([[0, 0], [1, 1], [1, 2], [0, 0]])])
    if convolved:
        weights = b.constant(rng.integers(-127, 128, (2, 3, 3, 3)).astype(np.int8), scale=0.002)
        made = b.add("CONV_2D", [made, weights, b.bias(made, weights, [5, -7])], padding="VALID", scale=0.05)
    return parse_model(b.build(made), "padded")


@pytest.mark.parametrize("convolved", [False, True])
def test_padding_is_the_zero_point_of_what_is_padded(convolved: bool) -> None:
    for name in ("n16", "tiny"):
        check_model(padded_model(convolved), load_config(name), trials=False)


def test_planes_are_of_what_was_spread() -> None:
    """Both the int16 rows and their choice, in which each row occurs several times, go through the array."""
    rng, b = np.random.default_rng(0), ModelBuilder("spread")
    row, others = (b.input((1, count, 8), "int16", scale=0.001) for count in (1, 4))
    spread = b.add("SELECT_V2", [b.constant(np.ones((1, 4, 8), bool)), row, others])

    def dense(source: int, units: int) -> int:
        weights = b.constant(rng.integers(-127, 128, (units, 8)).astype(np.int8), scale=0.01)
        return b.add("FULLY_CONNECTED", [source, weights, -1], keep_num_dims=True, scale=0.001)
    for name in ("n16", "n8"):
        check_model(parse_model(b.build(dense(row, 3), dense(spread, 5)), "spread"), load_config(name), trials=False)
