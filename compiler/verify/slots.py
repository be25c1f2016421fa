"""Slots of the vector unit's operations: their order, the words of their streams, their writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tq_hw.compiler.verify.areas import ADDRESSES, Area
from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import NOTHING, Bytes, Index
from tq_hw.compiler.verify.walks import Loops
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.errors import DataflowError

__all__ = ["Slots", "no_feedback", "put", "tile_order"]


@lru_cache(maxsize=1024)
def tile_order(blocks: int, slots: int, size: int, inner: bool) -> tuple[Index, Index, Index]:
    """Return output block, first and last slot of each tile, in the order of their accumulator buffers."""
    tiles = np.arange(ceil_div(slots, size))
    if inner:
        tile, block = (axis.reshape(-1) for axis in np.meshgrid(tiles, np.arange(blocks), indexing="ij"))
    else:
        block, tile = (axis.reshape(-1) for axis in np.meshgrid(np.arange(blocks), tiles, indexing="ij"))
    return block, tile * size, np.minimum((tile + 1) * size, slots)


@dataclass(frozen=True, eq=False)
class _Geometry:
    """The slots of operations of one shape: word of channels and part of it for each block; number, row and column.

    `even`: each block has a separate word, the first block word 0.
    """

    blocks: Index
    numbers: Index
    row: Index
    col: Index
    parts: list[tuple[int, Index]]
    even: bool


@lru_cache(maxsize=512)
def _geometry(out_blocks: int, slots: int, cols: int, sub_first: int, sub_blocks: int) -> _Geometry:
    numbers = np.arange(slots)
    row, col = np.divmod(numbers, cols)
    blocks, sub = np.divmod(np.arange(out_blocks) + sub_first, sub_blocks)
    parts = [(int(part), np.flatnonzero(sub == part)) for part in np.unique(sub)]
    return _Geometry(blocks, numbers, row, col, parts, sub_blocks == 1 and not sub_first)


@lru_cache(maxsize=512)
def _pattern(geometry: _Geometry, block_step: int, row_step: int, col_step: int) -> Index:
    words: Index = geometry.blocks[:, None] * block_step + geometry.row * row_step + geometry.col * col_step
    return words


@lru_cache(maxsize=512)
def _loops(geometry: _Geometry, part: int, cols: int, repeat1: int, repeat2: int) -> Loops:
    return Loops(geometry.blocks[geometry.parts[part][1]], geometry.numbers, cols,
                 np.tile(np.arange(repeat1), repeat2), np.repeat(np.arange(repeat2), repeat1))


class Slots(NamedTuple):
    """Words of channels of an operation's slots; `channels` are those of a slot."""

    fields: Mapping[str, int]
    channels: int
    geometry: _Geometry

    @classmethod
    def of(cls, f: Mapping[str, int], config: Config) -> "Slots":
        """Return the slots of an operation."""
        if not f["use_acc"]:
            return cls(f, config.block, _geometry(f["out_blocks"], f["slots"], f["cols"], 0, 1))
        return cls(f, config.cols, _geometry(f["out_blocks"], f["slots"], f["cols"], f["sub_first"], config.sub_blocks))

    def words(self, stream: str) -> Index:
        """Return the words [block, slot] of a stream."""
        f = self.fields
        words: Index = f[f"{stream}_base"] + _pattern(self.geometry, f[f"{stream}_block_step"], f[f"{stream}_row_step"],
                                                      f[f"{stream}_col_step"])
        return words

    def area(self, stream: str, repeats: tuple[int, int] = (1, 1), steps: tuple[int, int] = (0, 0)) -> Area | None:
        """Return the words [repeat 2, repeat 1, block, row, column] of a stream with a word a slot; None if uneven.

        `steps` go from repeat to repeat, the inner loop first.
        """
        f, geometry = self.fields, self.geometry
        count, cols = len(geometry.numbers), f["cols"]
        if not geometry.even or (count > cols and count % cols):
            return None
        rows = count // cols if count > cols else 1
        return Area.of(f[f"{stream}_base"], (repeats[1], repeats[0], len(geometry.blocks), rows, count // rows), (
            steps[1], steps[0], f[f"{stream}_block_step"], f[f"{stream}_row_step"], f[f"{stream}_col_step"]))

    def loops(self, part: int, repeat1: int = 1, repeat2: int = 1) -> Loops:
        """Return the loops over the output blocks of one part, and repeats."""
        return _loops(self.geometry, part, self.fields["cols"], repeat1, repeat2)

    def parts(self) -> list[tuple[int, Index]]:
        """Return the parts of a word, each with its output blocks."""
        return self.geometry.parts

    def together(self, found: list[Index], axis: int) -> Index:
        """Merge the results of the parts in the order of output blocks."""
        if len(found) == 1:
            return found[0]
        order = np.argsort(np.concatenate([which for _, which in self.parts()]))
        # Some parts may be in more words than others: the last word is repeated.
        most = max(words.shape[-1] for words in found)
        found = [words.take(np.minimum(np.arange(most), words.shape[-1] - 1), axis=-1) for words in found]
        return np.concatenate(found, axis=axis).take(order, axis=axis)


def put(machine: Machine, slots: Slots, which: Index, low: int, values: Bytes) -> Index:
    """Write bytes [block, slot, byte] from byte `low` of slots on; other parts of their words are kept."""
    width, size = machine.config.word_bytes, values.shape[-1]
    first, count = low // width, ceil_div(low + size, width) - low // width
    words = slots.words("out")[which][..., None] + np.arange(first, first + count)
    # Parts of words that belong to other blocks are kept; the others have no meaning.
    whole = slots.fields["use_acc"] and machine.config.sub_blocks > 1
    for word in range(count):
        lane = max(0, low - (first + word) * width)
        at = (first + word) * width + lane - low
        part = values[..., at:at + width - lane]
        if not whole and part.shape[-1] < width:
            part = np.pad(part, ((0, 0), (0, 0), (0, width - part.shape[-1])), constant_values=NOTHING)
        machine.write(words[..., word], lane, part, "its result")
    return words


def no_feedback(slots: Slots, read: Index | Area, written: Index | Area) -> None:
    """Refuse an operation that reads its own writes: words of later slots that earlier slots write.

    Words are [repeat, block, slot, word] and [block, slot, word].
    """
    (low, high), (first_written, last_written) = _ends(read), _ends(written)
    if low > last_written or high < first_written:
        return
    shape = slots.fields["out_blocks"], slots.fields["slots"]
    if isinstance(read, Area):
        read = read.places().reshape(-1, *shape, 1)
    if isinstance(written, Area):
        written = written.places().reshape(*shape, 1)
    _no_feedback(slots, read & ADDRESSES - 1, written & ADDRESSES - 1)


def _ends(words: Index | Area) -> tuple[int, int]:
    """Return the first and the last of some words."""
    if isinstance(words, Area):
        return words.low, words.high - 1
    words = words & ADDRESSES - 1
    return int(words.min()), int(words.max())


def _no_feedback(slots: Slots, read: Index, written: Index) -> None:
    f = slots.fields
    block, first, last = tile_order(f["out_blocks"], f["slots"], f["tile_slots"], bool(f["blocks_inner"]))
    number = np.empty((f["out_blocks"], f["slots"]), np.int64)
    at = 0
    for o, low, high in zip(block.tolist(), first.tolist(), last.tolist(), strict=True):
        number[o, low:high] = np.arange(at, at + high - low)
        at += high - low
    earliest = np.full(ADDRESSES, at, np.int64)
    order = np.argsort(-number.reshape(-1))
    earliest[written.reshape(number.size, -1)[order]] = number.reshape(-1)[order][:, None]
    late = earliest[read] < number[:, :, None]
    if late.any():
        raise DataflowError(f"it reads scratchpad word {int(read[late][0])} after it has written it")
