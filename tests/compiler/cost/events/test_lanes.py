"""compiler.cost.events.banks and cost.array_reads: when banks are taken; reads outside the image do not occur."""

import pytest

from tq_hw.compiler.cost.array_reads import array_steps, step_reads
from tq_hw.compiler.cost.events.banks import Lane
from tq_hw.isa.config import PRESETS
from tq_hw.isa.layout import ArrayMode

GEMM = {"mode": ArrayMode.GEMM, "kernel_rows": 3, "kernel_cols": 3, "kernel_blocks": 1, "slices": 1, "in_base": 0,
        "kernel_row_step": 5, "kernel_col_step": 1, "kernel_block_step": 0, "in_row_step": 5, "in_col_step": 1,
        "row_first": -1, "col_first": -1, "in_rows": 4, "in_cols": 4, "out_cols": 4, "row_stride": 1, "col_stride": 1,
        "kernel_row_dilation": 1, "kernel_col_dilation": 1, "period": 0}


def test_a_lane_keeps_what_was_taken() -> None:
    lane = Lane()
    lane.put(2, bytes((1, 1)))
    lane.put(3, bytes((2, 4)))
    assert bytes(lane.banks) == bytes((0, 0, 1, 3, 4))
    assert [lane.free(at, 1) for at in (0, 2, 3, 9)] == [0, 4, 4, 9]
    assert lane.quiet(0, 2) and not lane.quiet(1, 3)


@pytest.mark.parametrize(("step", "read"), [(0, 9), (1, 12), (4, 16), (8, 9)])
def test_padding_is_not_read(step: int, read: int) -> None:
    """4x4 slots, a padded 3x3 kernel: a corner tap misses a row and a column of the image, an edge tap a row."""
    steps = array_steps(GEMM, (), PRESETS["n8"])
    found = step_reads(GEMM, steps[step], 0, 16, 0)
    assert len(found) == 16 and sum(map(bool, found)) == read


def test_a_depthwise_row_is_read_late() -> None:
    fields = GEMM | {"mode": ArrayMode.DEPTHWISE, "period": 4, "row_first": 0}
    (step,) = array_steps(fields, (), PRESETS["n9x8"])
    assert step.lag == 1
    found = step_reads(fields, step, 0, 8, 0)
    # Two rows of four words with three feeds each, a cycle after the slots.
    assert [bin(banks).count("1") for banks in found] == [0, 3, 3, 3, 3, 3, 3, 3, 3]
