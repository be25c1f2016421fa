"""TOPK_V2 of few long rows, which are split, and of many short ones; ties, extremes, and k equal to the row."""

import numpy as np
import pytest

from tq_hw.compiler import compile_model
from tq_hw.isa.config import PRESETS
from tq_hw.model.samples.build import ModelBuilder
from tq_hw.sim.executor import execute
from tq_hw.sim.golden.run import run


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize(("dims", "kept"), [
    ((700,), 3), ((1, 769), 2), ((2, 3, 130), 4), ((40, 30), 2), ((300, 5), 5), ((5, 1), 1), ((7,), 7), ((1, 1), 1)])
def test_equals_golden(dims: tuple[int, ...], kept: int, dtype: str) -> None:
    b, rng = ModelBuilder("top"), np.random.default_rng(kept)
    found = b.add_many("TOPK_V2", [b.input(dims, dtype, scale=0.1), b.constant(np.array(kept, np.int32))], 2)
    model = b.model(*found)
    program = compile_model(model, PRESETS["n8"]).program
    least, most = (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for low, high in ((least, most), (-2, 1), (least, least), (most, most), (least, least + 1)):
        inputs = [rng.integers(low, high, dims, endpoint=True).astype(dtype)]
        expected = run(model, inputs).outputs
        for ours, theirs in zip(execute(program, inputs, check_races=True).outputs, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_row_is_not_gone_over_element_by_element() -> None:
    """As a detector finds the peaks of its map: a wait for each element and each rank would take 700,000 cycles."""
    b = ModelBuilder("peaks")
    found = b.add_many("TOPK_V2", [b.input((1, 768), scale=0.1), b.constant(np.array(8, np.int32))], 2)
    assert sum(row.cycles for row in compile_model(b.model(*found), PRESETS["n16"]).report) < 40_000
