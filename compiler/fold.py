"""Patch folding: a first layer of few channels fills the array's rows with a whole window.

The load unit stores, for each input row and output column, the window's bytes (kernel columns x channels) as one or
more words ("pieces"). A step takes up to three such words, of neighbouring pieces and kernel rows, and packs
their bytes into the array rows without gaps.
"""

from dataclasses import dataclass

from tq_hw.compiler.ir import Mac
from tq_hw.compiler.layout import block_count
from tq_hw.isa.config import Config

__all__ = ["FoldPlan", "Segment", "plan_fold"]

_KERNEL_ROW_LIMIT = 31


@dataclass(frozen=True)
class Segment:
    """Bytes of one piece in one step: array rows [first_row, first_row + count)."""

    kernel_row: int
    piece: int
    first_byte: int
    first_row: int
    count: int


@dataclass(frozen=True)
class FoldPlan:
    """Steps of at most three segments each; `pieces` words per window row."""

    pieces: int
    steps: tuple[tuple[Segment, ...], ...]


def plan_fold(layer: Mac, config: Config) -> FoldPlan | None:
    """Return the folding of a convolution, or None where plain steps are as few or the hardware has no such form."""
    kernel_rows, kernel_cols = layer.kernel
    channels = layer.weights.shape[3]
    window_bytes = kernel_cols * channels
    if layer.dilation != (1, 1) or layer.stride[1] * channels > config.word_bytes:
        return None
    if kernel_rows - 1 > _KERNEL_ROW_LIMIT:
        return None
    pieces = -(-window_bytes // config.word_bytes)
    steps: list[tuple[Segment, ...]] = []
    current: list[Segment] = []
    used = 0
    for kernel_row in range(kernel_rows):
        for piece in range(pieces):
            at, left = piece * config.word_bytes, min(config.word_bytes, window_bytes - piece * config.word_bytes)
            while left:
                if used == config.rows or len(current) == config.feeds:
                    steps.append(tuple(current))
                    current, used = [], 0
                count = min(left, config.rows - used)
                current.append(Segment(kernel_row, piece, at, used, count))
                at, left, used = at + count, left - count, used + count
    steps.append(tuple(current))
    plain = kernel_rows * kernel_cols * block_count(channels, config) * config.slices
    if len(steps) > config.fold_steps or len(steps) >= plain:
        return None
    return FoldPlan(pieces, tuple(steps))
