"""Layers that load their inputs from memory in their own order, and store their outputs there."""

from dataclasses import dataclass, replace

from tq_hw.compiler.ir.layers import Layer, Steps
from tq_hw.compiler.ir.value import ELEMENT_BYTES, IntArray
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div

__all__ = ["Columns", "Copy", "Flat", "LongRows", "MatMul", "Move", "OneHot", "Parts", "Resize", "Staged", "Transpose"]


@dataclass(frozen=True, eq=False)
class Staged(Layer):
    """A layer from system memory to system memory that allocates its scratchpad words itself."""

    def minimum_words(self, config: Config) -> int:
        """Fewest scratchpad words that the layer needs."""
        return 64


@dataclass(frozen=True)
class Copy:
    """Bytes of dense tensors that move: for each index, one byte from `source_offset` to `target_offset`.

    Members
    -------
    source : position among the layer's inputs; -1 writes `fill`
    dims : (count, source stride, target stride) in bytes of each loop, in any order
    """

    source: int
    source_offset: int
    target_offset: int
    dims: tuple[tuple[int, int, int], ...]
    fill: int = 0


@dataclass(frozen=True, eq=False)
class Move(Staged):
    """Strided copies of dense bytes; a later copy may overwrite what an earlier one wrote."""

    copies: tuple[Copy, ...]


@dataclass(frozen=True, eq=False)
class Transpose(Move):
    """A copy of a whole tensor that permutes its axes, so that bytes of another axis than the channels share a word.

    It works within the scratchpad if both tensors are there, else as a move.

    Members
    -------
    axes : for each axis of the output, the axis of the input
    words : scratchpad words that it needs if the array cannot transpose it; else 0
    """

    axes: tuple[int, int, int, int]
    words: int = 0

    def minimum_words(self, config: Config) -> int:
        """Words of a move, and of all bytes if the array cannot transpose them."""
        return max(super().minimum_words(config), self.words)


@dataclass(frozen=True, eq=False)
class Flat(Staged):
    """Micro-operations over dense elements of any size, independent of channels.

    The first input has `rows` times as many elements as the output; the body runs once for each row.

    Members
    -------
    count : elements of the output
    types : element type of each input, as the vector unit's `a_type`: 0 int8, 1 int16, 2 int32, 3 uint8
    out_type : element type of the output, in the same code
    before, body, after : micro-operations
    images : number of repetitions of all this, with consecutive inputs and outputs
    """

    count: int
    types: tuple[int, ...]
    out_type: int
    before: tuple[dict[str, int], ...]
    body: tuple[dict[str, int], ...] = ()
    after: tuple[dict[str, int], ...] = ()
    rows: int = 1
    tables: tuple[IntArray | None, IntArray | None] = (None, None)
    images: int = 1

    def minimum_words(self, config: Config) -> int:
        """Words for one row of one word of channels, and for its other inputs and output."""
        sizes = [ELEMENT_BYTES[code] for code in (*self.types, self.out_type)]
        return sum(ceil_div(size * config.block, config.word_bytes) for size in sizes)


@dataclass(frozen=True, eq=False)
class LongRows(Staged):
    """A program over the channels of each pixel, which do not fit in registers; otherwise like `RowProgram`."""

    program: str
    numbers: dict[str, int]
    tables: tuple[IntArray | None, IntArray | None] = (None, None)


@dataclass(frozen=True, eq=False)
class Columns(Staged):
    """A program over transposed rows: [1, elements of a row, rows in two dimensions]; otherwise like `RowProgram`.

    It works within the scratchpad if both tensors are there.

    Members
    -------
    upright : whether the shape is [1, matrices, elements of a row, rows of a matrix]
    """

    program: str
    numbers: dict[str, int]
    tables: tuple[IntArray | None, IntArray | None] = (None, None)
    upright: bool = False

    @property
    def elements(self) -> int:
        """Elements of a row."""
        return self.output.shape[2 if self.upright else 1]

    def minimum_words(self, config: Config) -> int:
        """Words for one word of every element."""
        return self.elements


@dataclass(frozen=True, eq=False)
class OneHot(Staged):
    """For each int32 index of the input, a one-hot row of the output, [1, indices, 1, row bytes]."""

    def minimum_words(self, config: Config) -> int:
        """Words for one index and one word of a row."""
        wide = ceil_div(4 * config.block, config.word_bytes)
        return wide + 1


@dataclass(frozen=True, eq=False)
class Resize(Staged):
    """Linear interpolation along columns and rows: `x[low] * (1024 - fraction) + x[high] * fraction` each.

    Members
    -------
    rows, cols : (low, high, fraction) of each output row and column
    """

    rows: tuple[tuple[int, int, int], ...]
    cols: tuple[tuple[int, int, int], ...]

    def minimum_words(self, config: Config) -> int:
        """Words for one output pixel: four input pixels, two int32 intermediates, one result."""
        return 16 + 2 * ceil_div(4 * config.block, config.word_bytes)


@dataclass(frozen=True, eq=False)
class MatMul(Staged):
    """Products of matrices that may both be computed at run time: inputs [n, rows, depth] and [m, depth, cols].

    A third input, int16 of the output's shape, is added to the result.

    Members
    -------
    pairs : for each matrix of the output, the matrices of both inputs
    zero_points : of both inputs
    multiplier, shift, zero_point : rescaling of the sum of products, less the zero points, to the output; beside a
        bias, multiplier and shift may be those of each column
    bias : int32 for each column, or None
    wide : whether the output is int16 and saturates
    raw : whether the output is the int32 sums themselves
    saturates : whether the result is also saturated to int16 before the third input is added
    rounding, steps : those of a `Mac`
    table : table in which results are looked up; None: they are the output
    is_useful : whether the products are the model's; those that look up rows of a table are not
    """

    pairs: tuple[tuple[int, int], ...]
    zero_points: tuple[int, int]
    multiplier: int | IntArray
    shift: int | IntArray
    zero_point: int
    bias: IntArray | None = None
    wide: bool = False
    raw: bool = False
    saturates: bool = False
    rounding: str = "tflite"
    steps: Steps | None = None
    table: IntArray | None = None
    is_useful: bool = True

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the model."""
        _, _, depth, cols = self.inputs[1].shape
        return len(self.pairs) * self.lhs_rows * depth * cols if self.is_useful else 0

    @property
    def tables(self) -> tuple[IntArray | None, IntArray | None]:
        """Contents of tables 1 and 2."""
        return (self.table, None if self.steps is None else self.steps.table)

    @property
    def out_type(self) -> int:
        """Type of the output's elements, as the vector unit's `a_type`."""
        return 2 if self.raw else int(self.wide)

    @property
    def lhs_rows(self) -> int:
        """Rows of each matrix of the first input and of the output."""
        return self.inputs[0].shape[2]

    def minimum_words(self, config: Config) -> int:
        """Words for one row (of the whole depth, or a block at a time), zero points, one row of results."""
        blocks = ceil_div(self.inputs[0].shape[3], config.block)
        block_words = config.slices * config.gemm_rows
        out_words = ceil_div(self.inputs[1].shape[3], config.block) * (1, 6, 6)[self.out_type]
        return min(4 + blocks * (3 * block_words + 1) + out_words, 8 + 2 * (4 * block_words + 2 + out_words))


@dataclass(frozen=True, eq=False)
class Parts(Staged):
    """A product whose matrices are parts of whole tensors, the inputs and the output of this layer.

    It works within the scratchpad if both inputs are there, else as the product, whose inputs and output are views.

    Members
    -------
    matrices : the product; its operands are parts of values that had the places of this layer's
    """

    matrices: MatMul

    @property
    def product(self) -> MatMul:
        """The product with parts of this layer's values as operands."""
        left, right, output = (whole if part.alias_of is None else replace(part, alias_of=whole) for part, whole in zip(
            (*self.matrices.inputs, self.matrices.output), (*self.inputs, self.output), strict=True))
        return replace(self.matrices, inputs=(left, right), output=output)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the model."""
        return self.matrices.macs

    @property
    def tables(self) -> tuple[IntArray | None, IntArray | None]:
        """Contents of tables 1 and 2."""
        return self.matrices.tables

    def minimum_words(self, config: Config) -> int:
        """Words of the product through memory, or of a zero point for the whole depth and a row of results."""
        blocks, made = (ceil_div(value.shape[3], config.block) for value in (
            self.matrices.inputs[0], self.matrices.output))
        return max(self.matrices.minimum_words(config), 4 + (blocks + 1) * config.block + made)
