"""Banks that the array's feeds read in each cycle of a step, with the hardware's padding, strides and folds.

Pixels outside the image are not read, so steps at the border leave more banks to other units.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tq_hw.isa.config import BANKS, Config
from tq_hw.isa.layout import ArrayMode
from tq_hw.isa.sizes import ceil_div

__all__ = ["Step", "array_steps", "step_reads"]


@dataclass(frozen=True)
class Step:
    """A step: a set of weights applied to a tile.

    Members
    -------
    offset : words from a slot's address to the words that it reads
    feeds : for each used feed, further words from there, and its kernel row in rows of the image
    col : columns from a slot's column
    lag : cycles by which the feeds read later than the slots
    """

    offset: int
    feeds: tuple[tuple[int, int], ...]
    col: int
    lag: int


#: Entries of the folding table: the address's bank, lane_end and kernel_row of each feed.
Folds = tuple[tuple[tuple[int, int, int], ...], ...]


def array_steps(f: Mapping[str, int], folds: Folds, config: Config) -> list[Step]:
    """Return the steps of each tile in their order."""
    if f["mode"] == ArrayMode.FOLDED:
        return [Step(0, _used(entry), 0, 0) for entry in folds]
    dilation = f["kernel_row_dilation"]
    if f["mode"] == ArrayMode.DEPTHWISE:
        rows = [(row * f["kernel_row_step"], tuple(
            (feed * f["kernel_row_step"], (row + feed) * dilation)
            for feed in range(min(config.groups, f["kernel_rows"] - row))))
            for row in range(0, f["kernel_rows"], config.groups)]
        return [Step(offset + col * f["in_col_step"], feeds, col, max(0, -f["col_first"] - col))
                for offset, feeds in rows for col in range(0, f["kernel_cols"], 3)]
    return [Step(row * f["kernel_row_step"] + col * f["kernel_col_step"] + block * f["kernel_block_step"],
                 ((0, row * dilation),), col * f["kernel_col_dilation"], 0)
            for row in range(f["kernel_rows"]) for col in range(f["kernel_cols"])
            for block in range(f["kernel_blocks"]) for _ in range(f["slices"])]


def _used(entry: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the addresses and rows of the feeds that have lanes in a folded step."""
    covered, found = 0, []
    for address, lane_end, row in entry:
        if lane_end > covered:
            found.append((address, row))
            covered = lane_end
    return tuple(found)


def step_reads(f: Mapping[str, int], step: Step, first: int, slots: int, more: int) -> bytes:
    """Return a bit mask of the banks that a step's feeds read, for each slot and for `lag` more cycles.

    The tile has `slots` slots from `first` on; its block is `more` words after the first block.
    """
    row, place = divmod(first, f["out_cols"])
    base = f["in_base"] + row * f["in_row_step"] + step.offset + more
    depthwise, gemm = f["mode"] == ArrayMode.DEPTHWISE, f["mode"] == ArrayMode.GEMM
    rows = ceil_div(place + slots, f["out_cols"])
    feeds = tuple(((base + offset) % BANKS, *_inside(
        f["row_first"] + row * f["row_stride"] + below, f["row_stride"], f["in_rows"], rows))
        for offset, below in step.feeds)
    if depthwise:
        col_first = f["col_first"] + step.col
        period = max(f["period"], 1 - f["col_first"])
        cols = min(period, max(0, f["in_cols"] - max(0, col_first)))
        return _rows_read(feeds, rows, period, step.lag, cols, f["in_row_step"] % BANKS, f["in_col_step"] % BANKS)
    low, high = 0, f["out_cols"]
    if gemm:
        low, high = _inside(f["col_first"] + step.col, f["col_stride"], f["in_cols"], f["out_cols"])
    return _slots_read(feeds, place, slots, f["out_cols"], low, high, f["in_row_step"] % BANKS,
                       f["in_col_step"] % BANKS)


def _inside(first: int, stride: int, size: int, count: int) -> tuple[int, int]:
    """Return the range of `count` positions, `stride` apart, that are inside an image of `size`."""
    low = min(count, max(0, ceil_div(-first, stride)))
    return low, min(count, max(low, ceil_div(size - first, stride)))


@lru_cache(maxsize=1 << 14)
def _slots_read(feeds: tuple[tuple[int, int, int], ...], place: int, slots: int, cols: int, low: int, high: int,
                row_step: int, col_step: int) -> bytes:
    """Masks of a step with one slot an output word; feeds read columns `low` to `high`, each in its range of rows."""
    rows, here = np.divmod(np.arange(place, place + slots), cols)
    words = rows * row_step + here * col_step
    found = np.zeros(slots, np.uint8)
    within = (here >= low) & (here < high)
    for bank, first, end in feeds:
        found |= np.where(within & (rows >= first) & (rows < end), 1 << (words + bank) % BANKS, 0).astype(np.uint8)
    return found.tobytes()


@lru_cache(maxsize=1 << 14)
def _rows_read(feeds: tuple[tuple[int, int, int], ...], rows: int, period: int, lag: int, cols: int, row_step: int,
               col_step: int) -> bytes:
    """Masks of a step with `period` slots a row, whose columns are read from `lag` cycles after the first slot on."""
    found = np.zeros(rows * period + lag, np.uint8)
    words = np.arange(lag, lag + cols) * col_step
    for row in range(rows):
        at = row * period + lag
        for bank, first, end in feeds:
            if first <= row < end:
                found[at:at + cols] |= (1 << (words + bank + row * row_step) % BANKS).astype(np.uint8)
    return found.tobytes()
