"""Layout of tensors in the scratchpad: views with pitches, and sizes of buffers."""

from dataclasses import dataclass
from itertools import pairwise

from tq_hw.compiler.ir.layers import RowProgram
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.stream.stream import Access
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div

__all__ = [
    "GRANULE_WORDS", "View", "block_count", "blocked_words", "even_cuts", "even_tiles", "has_room", "odd",
    "ring_minimum", "row_cuts", "row_parts", "row_period", "row_registers", "row_words", "signed_step",
]

#: Alignment of constants in the scratchpad.
GRANULE_WORDS = 8


def odd(words: int) -> int:
    """Round up to an odd number: a row pitch that puts three neighbouring rows in three banks."""
    return words | 1


def block_count(channels: int, config: Config) -> int:
    """Words of the channels of one pixel."""
    return ceil_div(channels, config.block)


def row_words(cols: int, blocks: int) -> int:
    """Row pitch of a blocked tensor."""
    return odd(cols * blocks)


def blocked_words(value: Value, config: Config) -> int:
    """Words of a whole blocked tensor."""
    n, h, w, c = value.shape
    return n * h * row_words(w, block_count(c, config))


def ring_minimum(config: Config) -> int:
    """Words of the ring of a layer with weights, at least."""
    return config.scratchpad_words // 4


def has_room(window: tuple[int, int, int], results: int, config: Config) -> bool:
    """Whether the scratchpad holds a window [rows, cols, channels] and a pixel of `results`, beside the least ring."""
    rows, cols, channels = window
    words = rows * row_words(cols, block_count(channels, config)) + row_words(1, block_count(results, config))
    return words + ring_minimum(config) <= config.scratchpad_words


#: A layer of at least this many output pixels is cut into rectangles.
_CUT_SLOTS = 32


def row_parts(slots: int, config: Config) -> int:
    """Number of rectangles for a layer that would fit in one: the next layer can start after the first of them."""
    if slots < _CUT_SLOTS:
        return 1
    return min(4, max(2, ceil_div(slots, config.acc_words)))


def row_cuts(first: int, last: int, rows: int, ramp: int = 0, *, dips: bool = False) -> list[tuple[int, int]]:
    """Cut rows [first, last) into pieces of `rows`; the first pieces start at `ramp` rows, so that readers start early.

    With `dips` the second piece is smaller than the first, and the others are nearly equal.
    """
    cuts, at = [], first
    size = min(rows, ramp) if ramp else rows
    while at < last:
        cuts.append((at, min(at + size, last)))
        at += size
        if dips and len(cuts) == 1:
            size = max(1, size * 2 // 3)
        elif dips and len(cuts) > 1 and at < last:
            size = ceil_div(last - at, ceil_div(last - at, rows))
        else:
            size = min(2 * size, rows)
    return cuts


def even_cuts(first: int, last: int, rows: int) -> list[tuple[int, int]]:
    """Cut rows [first, last) into the fewest pieces of at most `rows`, nearly equal."""
    count = ceil_div(last - first, rows)
    at = [first + (last - first) * number // max(count, 1) for number in range(count + 1)]
    return list(pairwise(at))


@dataclass(frozen=True)
class View:
    """A rectangle of a blocked (or window) tensor in the scratchpad.

    `address(row, block, col)` takes coordinates of the whole tensor; rows count over all images of a batch. The blocks
    of a window tensor are its pieces.

    Members
    -------
    host, host_row, host_block : for a part of another view: that view, its first row and row step, its first block
    """

    buffer: int
    base: int
    words: int
    row_pitch: int
    block_pitch: int
    row0: int = 0
    block0: int = 0
    col0: int = 0
    col_pitch: int = 1
    host: "View | None" = None
    host_row: tuple[int, int] = (0, 1)
    host_block: int = 0

    def address(self, row: int, block: int, col: int) -> int:
        """Word address modulo 2^16 of a pixel's block (for bases, also of pixels outside)."""
        return (self.base + (row - self.row0) * self.row_pitch + (block - self.block0) * self.block_pitch
                + (col - self.col0) * self.col_pitch) & 0xFFFF

    def access(self, rows: tuple[int, int], blocks: tuple[int, int]) -> Access:
        """The words that an operation accesses; all of a view without a row pitch."""
        if self.host is not None:
            first, step = self.host_row
            return self.host.access((first + rows[0] * step, first + (rows[1] - 1) * step + 1),
                                    (self.host_block + blocks[0], self.host_block + blocks[1]))
        if not self.row_pitch:
            return Access("pad", self.base, self.base + self.words, self.buffer, rows, blocks)
        low = max(0, (rows[0] - self.row0) * self.row_pitch)
        high = min(self.words, (rows[1] - self.row0) * self.row_pitch)
        return Access("pad", self.base + low, self.base + high, self.buffer, rows, blocks)


def signed_step(step: int) -> int:
    """Return a step modulo 2^16 as the signed value of the register."""
    return (step + 0x8000 & 0xFFFF) - 0x8000


def even_tiles(slots: int, acc_words: int) -> dict[str, int]:
    """Tiles of nearly equal size."""
    return {"tile_slots": ceil_div(slots, ceil_div(slots, acc_words))}


def row_period(width: int, stride: int, kernel_cols: int, col_first: int, in_cols: int) -> int:
    """Slots of an output row in depthwise mode: enough for its outputs and for the image columns that a step reads."""
    period = (width - 1) * stride + 1
    for first in range(0, kernel_cols, 3):
        low = max(0, col_first + first)
        high = min(in_cols, col_first + first + (width - 1) * stride + 3)
        period = max(period, high - low)
    return period


def row_registers(layer: RowProgram, config: Config) -> int:
    """Number of vector registers for a row of `layer`."""
    beats = block_count(layer.output.shape[3], config) * config.beats_per_word
    return ceil_div(beats, config.vector_register_words)
