"""The layers that the accelerator knows, after legalization: frozen records with all constants as integers.

A `Value` is an activation, always seen as NHWC. It lives in system memory (dense), in the scratchpad
(blocked), or both; which one is the plan's business. `alias_of` makes two values share their dense
bytes (RESHAPE, flat copies).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div
from tq_hw.model.graph import Tensor

__all__ = [
    "ELEMENT_BYTES", "GROUP", "TANH_FRACTION", "TYPE_CODES", "Columns", "Copy", "Elementwise", "Flat", "Gate",
    "Graph", "Layer", "LongRows", "Lstm", "Mac", "MatMul", "MaxPool", "Move", "OneHot", "Pad", "Pitch", "Resize",
    "RowProgram", "Staged", "Turn", "Value", "Wide",
]

#: Fraction bits of the argument of `isa.uop.Activation.TANH`.
TANH_FRACTION = 13

#: Bytes of one pixel, and pixels, that the array puts into one word.
GROUP = 4

#: The vector unit's codes of integer types.
TYPE_CODES = {"int8": 0, "bool": 0, "int16": 1, "int32": 2, "uint8": 3}

IntArray = npt.NDArray[Any]
#: Bytes of an element by its code in the vector unit's registers.
ELEMENT_BYTES = (1, 2, 4, 1)


@dataclass(frozen=True)
class Pitch:
    """Where a tensor lies inside another one's dense bytes: offset of its first byte, distances of rows and pixels."""

    offset_bytes: int
    row_bytes: int
    pixel_bytes: int


@dataclass(frozen=True, eq=False)
class Value:
    """One activation tensor of int8 (or uint8 at an edge), seen as NHWC.

    Members
    -------
    tensor : index in the model's subgraph
    flip : the bytes in system memory are the accelerator's with bit 7 inverted (uint8 edges)
    alias_of : the value whose dense bytes in system memory these are, or that they are a part of
    pitch : where in them they are, None if they are all of them
    data : dense bytes of a constant, or None
    initial : contents before the first inference, for a value that lives on from one to the next
    """

    name: str
    tensor: int
    shape: tuple[int, int, int, int]
    zero_point: int = 0
    flip: bool = False
    alias_of: "Value | None" = None
    pitch: Pitch | None = None
    data: "npt.NDArray[Any] | None" = None
    initial: "npt.NDArray[Any] | None" = None

    @property
    def root(self) -> "Value":
        """The value that owns the dense bytes."""
        return self.alias_of.root if self.alias_of is not None else self

    @property
    def place(self) -> Pitch:
        """Where the value lies in the bytes of its root."""
        _, _, w, c = self.shape
        own = self.pitch or Pitch(0, w * c, c)
        if self.alias_of is None:
            return own
        if self.pitch is None and not self.alias_of.dense:
            raise AssertionError(f"{self.name} is a view of bytes with gaps")
        return Pitch(self.alias_of.place.offset_bytes + own.offset_bytes, own.row_bytes, own.pixel_bytes)

    @property
    def dense(self) -> bool:
        """Whether its bytes follow each other without gaps."""
        _, _, w, c = self.shape
        if self.pitch is not None and (self.pitch.row_bytes != w * c or self.pitch.pixel_bytes != c):
            return False
        return self.alias_of is None or self.alias_of.dense

    @property
    def size_bytes(self) -> int:
        """Dense size."""
        n, h, w, c = self.shape
        return n * h * w * c


@dataclass(frozen=True, eq=False)
class Layer:
    """What every layer has: the operator it came from, its input and output values."""

    index: int
    op: str
    inputs: tuple[Value, ...]
    output: Value


@dataclass(frozen=True, eq=False)
class Wide:
    """Multipliers of two words, by channel: `(high + low / 2^low_bits) / 2^(31 + right_shift)`, rounded half up once.

    Members
    -------
    high, low : 31 and `low_bits` bits
    low_bits : 29
    left_shift, right_shift : of the accumulator, of the result; the same for all channels
    limit : accumulators are clamped to this magnitude before they are shifted left, None if that is not necessary
    """

    high: IntArray
    low: IntArray
    low_bits: int
    left_shift: int
    right_shift: int
    limit: int | None


@dataclass(frozen=True, eq=False)
class Steps:
    """A product of one word that gives a result or one more, and the accumulators at which the results begin.

    Members
    -------
    multiplier, left_shift, right_shift : truncated product of the accumulator shifted left, rounded half up; 1 is added
        if `right_shift` is 0
    limit : accumulators are clamped to this magnitude before they are shifted left, None if that is not necessary
    table : by the low 8 bits of a result the least accumulator that gives it
    """

    multiplier: int
    left_shift: int
    right_shift: int
    limit: int | None
    table: IntArray


@dataclass(frozen=True, eq=False)
class Mac(Layer):
    """Multiply-accumulate over windows, then requantize.

    Members
    -------
    depthwise : one input channel per output channel
    weights : int8; [out channel, kernel row, kernel col, in channel], depthwise [kernel row, kernel col, channel]
    bias : int32 added to `sum(w * x_raw)`: the operator's bias less `zero_point * sum(w)`
    multiplier, shift : per output channel (TFLite's signed exponent)
    rounding : "tflite": doubling high multiply, then shift; "divide": truncated product, then half up (exact
        division by a constant); "shift": no product, shift half away from zero; "steps": by `steps`; "wide": by `wide`
    pad_value : what taps outside the image read
    """

    depthwise: bool
    weights: npt.NDArray[np.int8]
    bias: IntArray
    multiplier: IntArray
    shift: IntArray
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int]
    pad_value: int
    zero_point: int
    act_min: int
    act_max: int
    rounding: str = "tflite"
    region: "tuple[int, int, int, int] | None" = None  #: output rows and columns [r0, r1) x [c0, c1), None: all
    useful_weights: int | None = None  #: how many weights are not there for the shape of the matrix alone, None: all
    input_table: IntArray | None = None  #: by which the bytes of the input are looked up first, if it is folded
    outside: int | None = None  #: byte that the table makes `pad_value` of
    steps: Steps | None = None
    wide: Wide | None = None

    @property
    def tables(self) -> tuple[IntArray | None, IntArray | None]:
        """Contents of tables 1 and 2."""
        return (self.input_table, None if self.steps is None else self.steps.table)

    @property
    def kernel(self) -> tuple[int, int]:
        """Kernel rows and columns."""
        return (self.weights.shape[0], self.weights.shape[1]) if self.depthwise else (
            self.weights.shape[1], self.weights.shape[2])

    @property
    def macs(self) -> int:
        """Useful multiply-accumulates."""
        n, h, w, _ = self.output.shape
        if self.region is not None:
            h, w = self.region[1] - self.region[0], self.region[3] - self.region[2]
        return int(n * h * w * (self.weights.size if self.useful_weights is None else self.useful_weights))


@dataclass(frozen=True, eq=False)
class Elementwise(Layer):
    """Micro-operations over one or two inputs of the output's shape, or of one pixel.

    Members
    -------
    uop : fields of the first micro-operation
    tables : contents of tables 1 and 2 (256 int32 each) or None
    rest : the micro-operations after it; the last one of all writes the output
    """

    uop: dict[str, int]
    tables: tuple[IntArray | None, IntArray | None] = (None, None)
    rest: tuple[dict[str, int], ...] = ()


@dataclass(frozen=True, eq=False)
class MaxPool(Layer):
    """Maximum over windows inside the image."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    act_min: int
    act_max: int


@dataclass(frozen=True, eq=False)
class RowProgram(Layer):
    """A program of the vector unit over the channels of each pixel.

    Members
    -------
    program : "softmax", "log_softmax" or "l2_normalization", see compiler.row_programs
    numbers : the program's constants
    tables : contents of tables 1 and 2, by the low 8 bits of an element less the row's maximum
    """

    program: str
    numbers: dict[str, int]
    tables: tuple[IntArray | None, IntArray | None] = (None, None)


@dataclass(frozen=True, eq=False)
class Pad(Layer):
    """Spatial padding by copying: rows and columns of `fill` around the input."""

    before: tuple[int, int]
    fill: int


@dataclass(frozen=True, eq=False)
class Staged(Layer):
    """A layer from system memory to system memory that divides the scratchpad words it gets by itself."""

    def minimum_words(self, config: Config) -> int:
        """Fewest scratchpad words that it can work with."""
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
class Turn(Move):
    """A copy of a whole tensor that permutes its axes, so that other bytes than the channels share a word.

    From scratchpad to scratchpad if both tensors are there, else a move.

    Members
    -------
    axes : for each axis of the output, the axis of the input
    """

    axes: tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class Flat(Staged):
    """Micro-operations over dense elements of any size, without regard to channels.

    The first input has `rows` times as many elements as the output; the body runs once for each row.

    Members
    -------
    count : elements of the output
    types : element type of each input, as the vector unit's `a_type`: 0 int8, 1 int16, 2 int32, 3 uint8
    out_type : the output's, coded alike
    before, body, after : micro-operations
    images : how often all of this is done, with inputs and outputs that follow each other
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
        """One row of one word of channels, and what goes with it."""
        sizes = [ELEMENT_BYTES[code] for code in (*self.types, self.out_type)]
        return sum(ceil_div(size * config.block, config.word_bytes) for size in sizes)


@dataclass(frozen=True, eq=False)
class LongRows(Staged):
    """A program over the channels of each pixel, of which there are more than registers hold; as `RowProgram`."""

    program: str
    numbers: dict[str, int]
    tables: tuple[IntArray | None, IntArray | None] = (None, None)


@dataclass(frozen=True, eq=False)
class Columns(Staged):
    """A program over rows that lie across: [1, elements of a row, 1, rows]; as `RowProgram`."""

    program: str
    numbers: dict[str, int]
    tables: tuple[IntArray | None, IntArray | None] = (None, None)

    def minimum_words(self, config: Config) -> int:
        """One word of every element."""
        return self.output.shape[1]


@dataclass(frozen=True, eq=False)
class OneHot(Staged):
    """For each int32 index of the input a row of the output, [1, indices, 1, row bytes]: 1 at the index, else 0."""

    def minimum_words(self, config: Config) -> int:
        """One index, one word of a row."""
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
        """One output pixel: four input pixels, two int32 between, one result."""
        return 16 + 2 * ceil_div(4 * config.block, config.word_bytes)


@dataclass(frozen=True, eq=False)
class MatMul(Staged):
    """Products of matrices that may both be computed at run time: inputs [n, rows, depth] and [m, depth, cols].

    A third input, int16 of the output's shape, is added to the result.

    Members
    -------
    pairs : for each matrix of the output, the matrix of either input
    zero_points : of both inputs
    multiplier, shift, zero_point : from the sum of products, less the zero points, to the output
    bias : int32 of each column, or None
    wide : the output is int16 and saturates
    saturates : the result is saturated to int16 before the third input is added, too
    rounding, steps : as of a `Mac`
    """

    pairs: tuple[tuple[int, int], ...]
    zero_points: tuple[int, int]
    multiplier: int
    shift: int
    zero_point: int
    bias: IntArray | None = None
    wide: bool = False
    saturates: bool = False
    rounding: str = "tflite"
    steps: Steps | None = None

    @property
    def tables(self) -> tuple[IntArray | None, IntArray | None]:
        """Contents of tables 1 and 2."""
        return (None, None if self.steps is None else self.steps.table)

    @property
    def lhs_rows(self) -> int:
        """Rows of each matrix of the first input and of the output."""
        return self.inputs[0].shape[2]

    def minimum_words(self, config: Config) -> int:
        """One row, of the whole depth or of a block at a time; zero points, one row of results."""
        blocks = ceil_div(self.inputs[0].shape[3], config.block)
        block_words = config.slices * config.gemm_rows
        out_words = ceil_div(self.inputs[1].shape[3], config.block) * (6 if self.wide else 1)
        return min(4 + blocks * (3 * block_words + 1) + out_words, 8 + 2 * (4 * block_words + 2 + out_words))


@dataclass(frozen=True, eq=False)
class Graph:
    """All layers in order, with the values that are the model's inputs and outputs (in its order).

    `edges[tensor]` is the integer tensor that the host makes of float32 model input `tensor`, or from which it makes
    float32 model output `tensor`.
    """

    layers: tuple[Layer, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    edges: dict[int, Tensor] = field(default_factory=dict)


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Gate:
    """Two products that are rescaled to Q3.12 and added.

    Members
    -------
    input_weights, recurrent_weights : int8 [cells, inputs] and [cells, cells]
    input_bias, recurrent_bias : int32 [cells], less zero point times the sum of the weights
    input_scale, recurrent_scale : multiplier and shift
    """

    input_weights: npt.NDArray[np.int8]
    recurrent_weights: npt.NDArray[np.int8]
    input_bias: IntArray
    recurrent_bias: IntArray
    input_scale: tuple[int, int]
    recurrent_scale: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Lstm(Staged):
    """All steps; inputs are the sequence, the hidden state (int8) and the cell state (int16, as bytes).

    Members
    -------
    steps, batch, time_major : of the sequence, [batch, steps, inputs] or [steps, batch, inputs]
    gates : input, forget, output and cell gate
    cell_scale_log2, cell_clip : the cell state's scale, and its largest magnitude or None
    hidden : multiplier, shift and zero point of the hidden state
    interpolated : as in the golden model's `LstmParams`
    """

    steps: int
    batch: int
    time_major: bool
    gates: tuple[Gate, Gate, Gate, Gate]
    cell_scale_log2: int
    cell_clip: int | None
    hidden: tuple[int, int, int]
    interpolated: bool = False

    @property
    def cells(self) -> int:
        """Cells, and elements of a hidden state."""
        return int(self.gates[0].recurrent_weights.shape[0])

    @property
    def macs(self) -> int:
        """Useful multiply-accumulates."""
        return self.steps * self.batch * sum(g.input_weights.size + g.recurrent_weights.size for g in self.gates)

    def activates(self, config: Config) -> bool:
        """Whether the vector unit's activations serve: arguments of a tanh have 13 fraction bits there."""
        return config.activation_lanes > 0 and self.cell_scale_log2 >= -TANH_FRACTION and not self.interpolated

    def width(self, config: Config) -> int:
        """Cells of a block: as many in each, as the array waits for the weights' rows."""
        return ceil_div(self.cells, ceil_div(self.cells, config.block))

    def weight_rows(self, config: Config) -> int:
        """Rows of recurrent weights that the array takes in a step."""
        return self.width(config) if config.slices == 1 else config.gemm_rows

    def buffers(self, config: Config) -> dict[str, int]:
        """Return the scratchpad words of everything that stays there during all steps, by name."""
        blocks = ceil_div(self.cells, config.block)
        wide = ceil_div(2 * config.block, config.word_bytes)
        rows = config.slices * self.weight_rows(config)
        vector, gates = blocks * self.batch * wide, 4 * blocks
        inputs = ceil_div(self.gates[0].input_weights.shape[1], config.block)
        return {
            "weights": gates * config.sub_blocks * blocks * rows,
            "parameters": gates * config.sub_blocks * config.param_words,
            "sequence": self.steps * self.batch * inputs, "products": self.steps * 4 * vector,
            "hidden": (self.steps + 1) * blocks * self.batch, "active": 4 * vector, "cell": vector, "squashed": vector,
            **({} if self.activates(config) else {"codes": gates + 1, "sums": 4 * vector})}

    def minimum_words(self, config: Config) -> int:
        """All buffers."""
        return sum(self.buffers(config).values())
