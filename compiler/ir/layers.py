"""The accelerator's layers, after legalization: frozen records with all constants as integers.

The layers here read their inputs from the scratchpad in the layout that the previous layer wrote; those in `staged`
load them from memory in their own order.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.model.graph import Tensor

__all__ = ["After", "ByteTable", "Elementwise", "GROUP", "Graph", "Layer", "Mac", "MaxPool", "Pad", "RowProgram",
           "Steps", "Wide"]

#: The array combines this many bytes of this many pixels into one word.
GROUP = 4


@dataclass(frozen=True, eq=False)
class Layer:
    """Members of every layer: its operator, its input and output values."""

    index: int
    op: str
    inputs: tuple[Value, ...]
    output: Value

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the model in this layer."""
        return 0


@dataclass(frozen=True, eq=False)
class Wide:
    """Multipliers of two words, by channel: `(high + low / 2^low_bits) / 2^(31 + right_shift)`, rounded half up once.

    Members
    -------
    high, low : words of 31 and `low_bits` bits
    low_bits : 29
    left_shift, right_shift : shifts of the accumulator and of the result, the same for all channels
    limit : magnitude to which accumulators are clamped before the left shift, None if not necessary
    """

    high: IntArray
    low: IntArray
    low_bits: int
    left_shift: int
    right_shift: int
    limit: int | None


@dataclass(frozen=True, eq=False)
class Steps:
    """A product of one word that gives a result or one more, and the thresholds of the results.

    Members
    -------
    multiplier, left_shift, right_shift : the accumulator, shifted left, times the multiplier, truncated, then shifted
        right and rounded half up; 1 is added if `right_shift` is 0
    limit : magnitude to which accumulators are clamped before the left shift, None if not necessary
    table : by the low 8 bits of a result, the least accumulator that gives it
    """

    multiplier: int
    left_shift: int
    right_shift: int
    limit: int | None
    table: IntArray


@dataclass(frozen=True, eq=False)
class ByteTable:
    """A table of int8 in a byte of the entries of table 1 or 2.

    Members
    -------
    entries : 256 int32, by the low 8 bits of an operand
    half : 0 for table 1, 1 for table 2
    place : the byte of each entry, counted from the lowest
    """

    entries: IntArray
    half: int = 0
    place: int = 0

    @property
    def tables(self) -> tuple[IntArray | None, IntArray | None]:
        """Contents of tables 1 and 2."""
        return (None, self.entries) if self.half else (self.entries, None)


@dataclass(frozen=True, eq=False)
class After:
    """An elementwise program over the results of a convolution and another operand, its layer's second input.

    Members
    -------
    uops, tables : those of `Elementwise`
    position : operand of the results: 0 stream A, 1 stream B; the other stream has the other operand
    """

    uops: tuple[dict[str, int], ...]
    tables: tuple[IntArray | None, IntArray | None]
    position: int


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
    pad_value : the value of taps outside the image
    output_table : the table in which results are looked up last; such a layer has no other table and no `wide`
    after : the program that goes on with the results, before they are looked up; such a layer has no `wide`, and an
        `output_table` only if the program has no tables
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
    useful_weights: int | None = None  #: number of weights that are in the model; None: all
    input_table: IntArray | None = None  #: table in which a folded layer's input is looked up first
    outside: int | None = None  #: byte that the table maps to `pad_value`
    steps: Steps | None = None
    wide: Wide | None = None
    output_table: ByteTable | None = None
    after: After | None = None

    @property
    def tables(self) -> tuple[IntArray | None, IntArray | None]:
        """Contents of tables 1 and 2."""
        if self.output_table is not None:
            return self.output_table.tables
        if self.after is not None:
            return self.after.tables
        return (self.input_table, None if self.steps is None else self.steps.table)

    @property
    def kernel(self) -> tuple[int, int]:
        """Kernel rows and columns."""
        return (self.weights.shape[0], self.weights.shape[1]) if self.depthwise else (
            self.weights.shape[1], self.weights.shape[2])

    @property
    def macs(self) -> int:
        """Multiply-accumulates by weights of the model."""
        return self._pixels * (self.weights.size if self.useful_weights is None else self.useful_weights)

    @property
    def dense_macs(self) -> int:
        """Multiply-accumulates by all weights, including those that only complete the matrix."""
        return self._pixels * self.weights.size

    @property
    def _pixels(self) -> int:
        n, h, w, _ = self.output.shape
        if self.region is not None:
            h, w = self.region[1] - self.region[0], self.region[3] - self.region[2]
        return n * h * w


@dataclass(frozen=True, eq=False)
class Elementwise(Layer):
    """Micro-operations over one or two inputs of the output's shape, of one pixel, or of one word of each pixel.

    An input of one pixel is read for all pixels of its image, an input of fewer channels for all blocks.

    Members
    -------
    uop : fields of the first micro-operation
    tables : contents of tables 1 and 2 (256 int32 each) or None
    rest : the micro-operations after it; the last one writes the output
    plain : equivalent micro-operations without tables; empty if there are none
    """

    uop: dict[str, int]
    tables: tuple[IntArray | None, IntArray | None] = (None, None)
    rest: tuple[dict[str, int], ...] = ()
    plain: tuple[dict[str, int], ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the layer uses its micro-operations without tables."""
        return bool(self.plain) and self.uop is self.plain[0]


@dataclass(frozen=True, eq=False)
class MaxPool(Layer):
    """Maximum over windows inside the image, then a clamp, or instead of it a table in which results are looked up."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    act_min: int
    act_max: int
    output_table: ByteTable | None = None

    @property
    def tables(self) -> tuple[IntArray | None, IntArray | None]:
        """Contents of tables 1 and 2."""
        return (None, None) if self.output_table is None else self.output_table.tables


@dataclass(frozen=True, eq=False)
class RowProgram(Layer):
    """A program of the vector unit over the channels of each pixel.

    Members
    -------
    program : "softmax", "log_softmax" or "l2_normalization", see compiler.programs.rows
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
class Graph:
    """All layers in order, with the values of the model's inputs and outputs (in its order).

    `edges[tensor]` is the integer tensor to which the host quantizes float32 model input `tensor`, or from which it
    dequantizes float32 model output `tensor`.
    """

    layers: tuple[Layer, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    edges: dict[int, Tensor] = field(default_factory=dict)
