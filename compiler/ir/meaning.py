"""What an operation is for, in the words of the graph: which elements of which tensors it takes and gives.

Emitters say so with the fields of every operation that computes; `verify` holds it against what the fields make the
hardware touch. Nothing here knows an address. An operation without a meaning moves bytes: what it does with them
follows from its fields alone.
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
    """A program of micro-operations and where it begins."""

    first: int
    uops: tuple[Mapping[str, int], ...]


@dataclass(frozen=True, eq=False)
class Scratch:
    """Bytes that a layer makes for itself and keeps in the scratchpad for a while, elements of `type`."""

    name: str
    size_bytes: int
    type: int


@dataclass(frozen=True)
class Walk:
    """Slots walk over the dense bytes of a tensor, of scratch or of constants.

    The byte of a slot's first element is `start + at`, and for each pass of a loop (blocks, rows, columns of slots,
    repeats) as many bytes more. Elements end with their run.

    Members
    -------
    start, run : first byte and bytes of the run that the first slot is in (a run: channels of a pixel, a flat tensor)
    at : the first slot's first byte in it
    cols : slots that count as a row here, 0: as many as the operation says; `first` slots are before the first one
    span : bytes of a slot that mean something, 0: all
    made : they are those that the layer itself makes, not those that it finds
    type : of the elements, as the vector unit's `a_type`
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
    """Pixels from (row over all images, block of `block` channels, column) `at` on; slots are `stride` pixels apart."""
    _, _, w, c = value.shape
    return Walk(value, c, (at[0] * w + at[2]) * c, at[1] * block, block, stride[0] * w * c, stride[1] * c)


@dataclass(frozen=True, eq=False)
class Sums:
    """What a run of accumulator buffers holds: `parts` operations of the array add up to it."""

    parts: int = 1


@dataclass(frozen=True, eq=False)
class Tile(Sums):
    """Sums of a layer's windows: pixels of the output, channels.

    Members
    -------
    rows, cols : first output row and column, and how many
    image : of the batch
    col_step : output columns from slot to slot
    blocks : output blocks of `cols` channels
    phases : more than 1: the blocks of the operations are neighbouring columns instead, of one output block
    results : what is made of them, if that is not the layer's output with an element of one byte for each sum
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
    """An operation of the array on a tile: all of the kernel, or the taps and input blocks named here.

    Members
    -------
    weights : [blocks of the tile, or 1 for all of them; ...; array row; column]
    fold, window : how windows are folded, and the tile's first column after those whose windows begin at it
    diagonal : each output block sees the input block of its own channels alone
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
    """An operation of the array on rows that are no image.

    Members
    -------
    sums, part : what it adds to, and as which part
    x : rows (slots are columns of rows, input blocks blocks), or a byte that all of them are
    weights : bytes as the array takes them; columns of a matrix (a row is `row` bytes, an output block `block`), or a
        byte that all of them are
    depth : rows of the matrix in these input blocks; after them weights are 0
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
    sums, block : what is in the accumulators, and which block of it the operation begins with
    parameters : parameter block of each output block, or one for all
    tables : contents of the tables, if they are not the layer's
    body : first of the repeated micro-operations, and how many they are
    repeats : how often they come, if they take no stream
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
    """Windows of a layer's input go through its table, each byte where it is."""

    code: Code
    layer: Mac


Meaning = Part | Terms | Streams | LookUp
