"""Slots of the vector unit's operations: their order, the words of their streams, what is written to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tq_hw.compiler.verify.machine import Machine
from tq_hw.compiler.verify.numbers import NOTHING, Bytes, Index
from tq_hw.compiler.verify.walks import Loops
from tq_hw.isa.config import Config
from tq_hw.model.errors import DataflowError

__all__ = ["Slots", "no_feedback", "put", "tile_order"]


@lru_cache(maxsize=1024)
def tile_order(blocks: int, slots: int, size: int, inner: bool) -> tuple[Index, Index, Index]:
    """Output block, first and last slot of each tile, in the order in which they take accumulator buffers."""
    tiles = np.arange(-(-slots // size))
    if inner:
        tile, block = (axis.reshape(-1) for axis in np.meshgrid(tiles, np.arange(blocks), indexing="ij"))
    else:
        block, tile = (axis.reshape(-1) for axis in np.meshgrid(np.arange(blocks), tiles, indexing="ij"))
    return block, tile * size, np.minimum((tile + 1) * size, slots)


@dataclass(frozen=True)
class Slots:
    """Words of channels that an operation walks over.

    Members
    -------
    blocks, sub : word of channels of each output block, and which part of it
    row, col : of each slot
    channels : of a slot
    """

    fields: Mapping[str, int]
    blocks: Index
    sub: Index
    row: Index
    col: Index
    channels: int

    @classmethod
    def of(cls, f: Mapping[str, int], config: Config) -> "Slots":
        """Slots of an operation."""
        row, col = _rows(f["slots"], f["cols"])
        numbers = np.arange(f["out_blocks"])
        if not f["use_acc"]:
            return cls(f, numbers, np.zeros_like(numbers), row, col, config.block)
        blocks, sub = np.divmod(numbers + f["sub_first"], config.sub_blocks)
        return cls(f, blocks, sub, row, col, config.cols)

    def words(self, stream: str) -> Index:
        """Word [block, slot] of a stream."""
        f = self.fields
        words: Index = (f[f"{stream}_base"] + self.blocks[:, None] * f[f"{stream}_block_step"]
                        + self.row * f[f"{stream}_row_step"] + self.col * f[f"{stream}_col_step"])
        return words

    def loops(self, which: Index) -> Loops:
        """Loops over some of the output blocks."""
        return Loops(self.blocks[which], np.arange(len(self.row)), self.fields["cols"])

    def parts(self) -> list[tuple[int, Index]]:
        """Parts of a word, each with the output blocks that it is."""
        if len(self.sub) == 1 or not self.sub.any():
            return [(int(self.sub[0]), np.arange(len(self.sub)))]
        return [(int(sub), np.flatnonzero(self.sub == sub)) for sub in np.unique(self.sub)]

    def together(self, found: list[Index], axis: int) -> Index:
        """Put what was found for each of the parts in the order of output blocks."""
        if len(found) == 1:
            return found[0]
        order = np.argsort(np.concatenate([which for _, which in self.parts()]))
        # Some parts may lie in more words than others: the last one is named again.
        most = max(words.shape[-1] for words in found)
        found = [words.take(np.minimum(np.arange(most), words.shape[-1] - 1), axis=-1) for words in found]
        return np.concatenate(found, axis=axis).take(order, axis=axis)


@lru_cache(maxsize=1024)
def _rows(slots: int, cols: int) -> tuple[Index, Index]:
    return np.divmod(np.arange(slots), cols)


def put(machine: Machine, slots: Slots, which: Index, low: int, values: Bytes) -> Index:
    """Write bytes [block, slot, byte] from byte `low` of slots on; other parts of their words stay."""
    width, size = machine.config.word_bytes, values.shape[-1]
    first, count = low // width, -(-(low + size) // width) - low // width
    words = slots.words("out")[which][..., None] + np.arange(first, first + count)
    # Parts of words that belong to other blocks stay, others mean nothing.
    whole = slots.fields["use_acc"] and machine.config.sub_blocks > 1
    for word in range(count):
        lane = max(0, low - (first + word) * width)
        at = (first + word) * width + lane - low
        part = values[..., at:at + width - lane]
        if not whole and part.shape[-1] < width:
            part = np.pad(part, ((0, 0), (0, 0), (0, width - part.shape[-1])), constant_values=NOTHING)
        machine.write(words[..., word], lane, part, "its result")
    return words


def no_feedback(slots: Slots, read: Index, written: Index) -> None:
    """Refuse an operation that reads what it has written itself: words of later slots that are those of earlier ones.

    Words are [repeat, block, slot, word] and [block, slot, word].
    """
    read, written = read & 0xFFFF, written & 0xFFFF
    if int(read.min()) > int(written.max()) or int(read.max()) < int(written.min()):
        return
    f = slots.fields
    block, first, last = tile_order(f["out_blocks"], f["slots"], f["tile_slots"], bool(f["blocks_inner"]))
    turn = np.empty((f["out_blocks"], f["slots"]), np.int64)
    at = 0
    for o, low, high in zip(block.tolist(), first.tolist(), last.tolist(), strict=True):
        turn[o, low:high] = np.arange(at, at + high - low)
        at += high - low
    earliest = np.full(1 << 16, at, np.int64)
    order = np.argsort(-turn.reshape(-1))
    earliest[written.reshape(turn.size, -1)[order]] = turn.reshape(-1)[order][:, None]
    late = earliest[read] < turn[:, :, None]
    if late.any():
        raise DataflowError(f"it reads scratchpad word {int(read[late][0])} after it has written it")
