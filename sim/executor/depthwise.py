"""Depthwise array operations: taps on rows that stream through the array."""

from collections.abc import Mapping

import numpy as np

from tq_hw.isa.promises import broken_depthwise
from tq_hw.isa.sizes import ceil_div
from tq_hw.sim.executor.array_reads import Gathered, Slots, check_banks, in_image, read_inside, weights_of
from tq_hw.sim.executor.machine import Index, Machine

__all__ = ["depthwise"]


def depthwise(machine: Machine, fields: Mapping[str, int], places: Slots) -> Gathered:
    """Run a depthwise operation."""
    config = machine.config
    cols, used, groups = config.cols, fields["weight_rows"], config.groups
    row_steps, col_steps = ceil_div(fields["kernel_rows"], groups), ceil_div(fields["kernel_cols"], 3)
    weights, weights_unknown, weight_words = weights_of(machine, fields, row_steps * col_steps)
    shape = (fields["out_blocks"], row_steps * col_steps, used, cols)
    weights, weights_unknown = weights.reshape(shape), weights_unknown.reshape(shape)
    broken = broken_depthwise(fields)
    machine.promise(not broken, broken)
    blocks = fields["sub_first"] + np.arange(fields["out_blocks"])
    lane = (blocks % config.sub_blocks)[:, None] * cols + np.arange(cols)
    block_words = blocks // config.sub_blocks * fields["in_block_step"]
    serial = config.design == "serial"
    sums = np.zeros((fields["slots"], fields["out_blocks"], cols), np.int32)
    unknown = np.zeros(sums.shape, bool)
    read: list[Index] = []
    for i in range(row_steps):
        if not serial:
            _check_passing(machine, fields, i, block_words, col_steps)
        for ky in range(groups * i, groups * i + groups):
            row = fields["row_first"] + places.oy * fields["row_stride"] + ky * fields["kernel_row_dilation"]
            row_inside = in_image(machine, row, fields["in_rows"]) & (ky < fields["kernel_rows"])
            for kx in range(3 * col_steps):
                r, step = 3 * (ky - groups * i) + kx % 3, i * col_steps + kx // 3
                if r >= used:
                    continue
                col = fields["col_first"] + places.ox * fields["col_stride"] + kx
                inside = row_inside & in_image(machine, col, fields["in_cols"])
                w, w_unknown = weights[:, step, r], weights_unknown[:, step, r]
                words = (fields["in_base"] + places.oy * fields["in_row_step"] + ky * fields["kernel_row_step"]
                         + (places.ox * fields["col_stride"] + kx) * fields["in_col_step"])[:, None] + block_words
                beyond = kx >= fields["kernel_cols"]
                machine.promise(not (beyond and w.any()),
                                f"weights of kernel column {kx}, which does not exist, must be 0")
                # The serial design has no step for such a column; the parallel one cannot use a column that never
                # enters the array.
                reaches = inside & (not beyond if serial else col <= _last_column(fields, kx // 3))
                x, x_unknown, here = read_inside(machine, words, reaches[:, None])
                # Data that meet no weight are not waited for and may have any value.
                read += [] if beyond else [here[..., None]]
                x = np.take_along_axis(x, lane[None], axis=2)
                sums += np.where(inside[:, None, None], x, np.int8(fields["zero_point"])).astype(np.int32) * w
                if x_unknown is not None:
                    missed = (inside & ~reaches)[:, None, None] | (beyond and serial)
                    x_unknown = np.take_along_axis(x_unknown, lane[None], axis=2) | missed
                    unknown |= x_unknown & (w != 0) | w_unknown
    inputs = np.concatenate([np.full((fields["slots"], fields["out_blocks"], 1), -1), *read], axis=2)
    return Gathered(sums, unknown, inputs, weight_words, per_block=True)


def _last_column(fields: Mapping[str, int], step: int) -> int:
    """Return the last column of a row that the parallel design reads in the `step`-th step of kernel columns."""
    first = fields["col_first"]
    return int(max(0, first + 3 * step) + max(fields["period"], 1 - first) - 1)


def _check_passing(machine: Machine, fields: Mapping[str, int], i: int, block_words: Index, col_steps: int) -> None:
    """Check all words of the rows that stream through the array in the steps of kernel rows `i`.

    BAD_ADDRESS for a word beyond the scratchpad, BANK_CONFLICT if two rows that stream together share a bank.
    """
    groups = machine.config.groups
    oy = np.arange(ceil_div(fields["slots"], fields["out_cols"]), dtype=np.int64)
    for j in range(col_steps):
        first = max(0, fields["col_first"] + 3 * j)
        columns = np.arange(first, min(_last_column(fields, j) + 1, fields["in_cols"]))
        if not len(columns):
            continue
        together = []
        for ky in range(groups * i, min(groups * i + groups, fields["kernel_rows"])):
            row = fields["row_first"] + oy * fields["row_stride"] + ky * fields["kernel_row_dilation"]
            inside = in_image(machine, row, fields["in_rows"])
            words = (fields["in_base"] + oy * fields["in_row_step"] + ky * fields["kernel_row_step"])[:, None] + (
                columns - fields["col_first"]) * fields["in_col_step"]
            machine.address(np.where(inside[:, None, None], words[:, None] + block_words[:, None], 0))
            together.append(np.where(inside, ky * fields["kernel_row_step"] + (1 << 20), -1))
        check_banks(machine, np.stack(together, axis=1))
