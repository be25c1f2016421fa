"""The meaning of an operation in the graph's terms: the elements of the tensors that it reads and writes.

Emitters give a meaning to every operation that computes. `verify` compares it with the accesses that the operation's
fields cause in the hardware. A meaning has no addresses. An operation without a meaning moves bytes; its effect follows
from its fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir.fold import FoldPlan
from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.isa.config import Config

__all__ = ["Code", "LookUp", "Meaning", "Part", "Scratch", "Streams", "Sums", "Terms", "Tile", "Walk", "pixels",
           "tile_pixels"]


@dataclass(frozen=True, eq=False)
class Code:
    """A program of micro-operations and its first address."""

    first: int
    uops: tuple[Mapping[str, int], ...]


@dataclass(frozen=True, eq=False)
class Scratch:
    """Intermediate bytes of a layer in the scratchpad, elements of `type`."""

    name: str
    size_bytes: int
    type: int


@dataclass(frozen=True)
class Walk:
    """A walk of slots over the dense bytes of a tensor, of scratch or of constants.

    The first element of the first slot is at byte `start + at`. Each pass of a loop (blocks, rows, columns of slots,
    repeats) adds the member of that name in bytes. The elements of a slot end with their run.

    Members
    -------
    start, run : first byte and bytes of the first slot's run (a run: channels of a pixel, a flat tensor)
    at : the first slot's first byte in it
    cols : slots that count as a row here, 0: those of the operation; `first` slots are before the first one
    span : bytes of a slot that have a meaning, 0: all
    made : whether they are bytes that the layer itself writes, not its inputs
    type : type of the elements, as the vector unit's `a_type`
    """

    of: "Value | Scratch | bytes"
    run: int
    start: int = 0
    at: int = 0
    block: int = 0
    row: int = 0
    col: int = 0
    repeat1: int = 0
    repeat2: int = 0
    cols: int = 0
    first: int = 0
    span: int = 0
    made: bool = False
    type: int = 0


def pixels(value: Value, at: tuple[int, int, int], block: int, stride: tuple[int, int] = (1, 1)) -> Walk:
    """Walk over pixels from `at` (row over all images, block of `block` channels, column) on, `stride` pixels apart."""
    _, _, w, c = value.shape
    return Walk(value, c, (at[0] * w + at[2]) * c, at[1] * block, block, stride[0] * w * c, stride[1] * c)


@dataclass(frozen=True, eq=False)
class Sums:
    """The contents of a run of accumulator buffers, accumulated by `parts` operations of the array."""

    parts: int = 1


@dataclass(frozen=True, eq=False)
class Tile(Sums):
    """Sums of a layer's windows: pixels of the output, channels.

    Members
    -------
    rows, cols : first output row and column, and their counts
    image : index in the batch
    col_step : output columns from slot to slot
    blocks : output blocks of `cols` channels
    phases : if more than 1, the blocks of the operations are neighbouring columns of one output block
    results : the results, if they are not the layer's output with one byte for each sum
    """

    layer: Mac = field(kw_only=True)
    image: int = field(kw_only=True)
    rows: tuple[int, int] = field(kw_only=True)
    cols: tuple[int, int] = field(kw_only=True)
    blocks: tuple[int, int] = field(kw_only=True)
    col_step: int = field(kw_only=True, default=1)
    phases: int = field(kw_only=True, default=1)
    results: Walk | None = field(kw_only=True, default=None)


def tile_pixels(tile: Tile, config: Config, block: int = 0) -> Walk:
    """Return the elements of the layer's output that a tile is requantized to, from its `block`-th block on."""
    if tile.results is not None:
        assert not block
        return tile.results
    value = tile.layer.output
    _, h, w, c = value.shape
    start = ((tile.image * h + tile.rows[0]) * w + tile.cols[0]) * c
    return Walk(value, c, start, (tile.blocks[0] + block) // config.sub_blocks * config.block,
                c if tile.phases > 1 else config.block, w * c, tile.col_step * c, cols=tile.cols[1])


@dataclass(frozen=True, eq=False)
class Part:
    """An operation of the array on a tile: the whole kernel, or the given taps and input blocks.

    Members
    -------
    weights : [blocks of the tile, or 1 for all of them; ...; array row; column]
    fold, window : folding of windows, and the tile's first column relative to the one its window begins at
    diagonal : whether each output block reads only the input block of its own channels
    """

    tile: Tile
    weights: npt.NDArray[np.int8]
    rows: tuple[int, int]
    cols: tuple[int, int]
    blocks: tuple[int, int]
    fold: FoldPlan | None = None
    window: int = 0
    diagonal: bool = False


@dataclass(frozen=True, eq=False)
class Terms:
    """An operation of the array on rows that are not an image.

    Members
    -------
    sums, part : the sums that it adds to, and the number of its part
    x : rows (slots are columns of rows, input blocks blocks), or one byte for all of them
    weights : bytes in the array's layout; columns of a matrix (a row is `row` bytes, an output block `block`); or one
        byte for all of them
    depth : rows of the matrix in these input blocks; weights after them are 0
    """

    sums: Sums
    part: int
    x: Walk | int
    weights: bytes | Walk | int
    depth: int = 0


@dataclass(frozen=True, eq=False)
class Streams:
    """A program of the vector unit.

    Members
    -------
    sums, block : contents of the accumulators, and the block that the operation begins with
    parameters : parameter block of each output block, or one for all
    tables : contents of the tables, if they are not the layer's
    body : first of the repeated micro-operations, and their count
    repeats : number of repetitions, if they read no stream
    """

    code: Code
    a: Walk | None = None
    b: Walk | None = None
    out: Walk | None = None
    sums: Sums | None = None
    block: int = 0
    parameters: tuple[bytes, ...] = ()
    tables: tuple[IntArray | None, IntArray | None] | None = None
    body: tuple[int, int] = (0, 0)
    repeats: int = 1


@dataclass(frozen=True, eq=False)
class LookUp:
    """A look-up of a layer's windows in its table, byte by byte, in place."""

    code: Code
    layer: Mac


Meaning = Part | Terms | Streams | LookUp
