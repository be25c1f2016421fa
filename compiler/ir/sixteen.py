"""Layers on activations of int16, which are two planes of bytes: x is `256 * high + low + 128`."""

from dataclasses import dataclass

from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.staged import Staged
from tq_hw.compiler.ir.value import IntArray
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div

__all__ = ["PlaneMac"]


@dataclass(frozen=True, eq=False)
class PlaneMac(Staged):
    """Multiply-accumulate over windows of both planes, and one rescaling of 256 times the first sums plus the others.

    Members
    -------
    high, low : the same windows over either plane; their biases together are the operator's and 128 times the sums of
        the weights, their outputs have no bytes
    multiplier, shift : per output channel
    rounding : "wide": sums of 40 bits, `multiply_wide`; "once": the same of sums that have 32, by multipliers reduced
        already and to the right; "tflite": sums that wrap at 32 bits, rounded twice; "double": sums of 32 bits,
        multipliers of which `low_words` are 29 bits more, all shifted alike
    most_high : with "double", sums of the high plane are kept within it where the whole would leave int32
    act_min, act_max : of the int16 output
    """

    high: Mac
    low: Mac
    multiplier: IntArray
    shift: IntArray
    rounding: str
    act_min: int
    act_max: int
    low_words: IntArray | None = None
    most_high: int | None = None

    @property
    def macs(self) -> int:
        """Useful multiply-accumulates: those of the operator."""
        return self.high.macs

    def minimum_words(self, config: Config) -> int:
        """One output pixel of one word of channels: what it sees of both planes, sums, results."""
        return self.strip_words(config, 1, 1, 1)

    def strip_words(self, config: Config, rows: int, cols: int, blocks: int) -> int:
        """Words for output rows, columns and blocks (words of channels): both planes, sums, results twice."""
        _, h, w, c = self.inputs[0].shape
        (sy, sx), (dy, dx), kernel = self.high.stride, self.high.dilation, self.high.kernel
        in_rows = min(h, (rows - 1) * sy + (kernel[0] - 1) * dy + 1)
        in_cols = min(w, (cols - 1) * sx + (kernel[1] - 1) * dx + 1)
        depth = blocks if self.high.depthwise else ceil_div(c, config.block)
        sums, results = (ceil_div(size * config.block, config.word_bytes) for size in (4, 2))
        return 2 * in_rows * (in_cols * depth | 1) + rows * cols * blocks * (sums + results)
