"""Layers on int16 activations, which are two byte planes: x is `256 * high + low + 128`."""

from dataclasses import dataclass

from tq_hw.compiler.ir.layers import Mac
from tq_hw.compiler.ir.staged import Staged
from tq_hw.compiler.ir.value import IntArray
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div

__all__ = ["PlaneMac"]


@dataclass(frozen=True, eq=False)
class PlaneMac(Staged):
    """Multiply-accumulate over windows of both planes; 256 times the high sums plus the low sums are rescaled.

    Members
    -------
    high, low : the same windows over each plane; their biases sum to the operator's plus 128 times the sums of weights;
        their outputs have no bytes
    multiplier, shift : per output channel
    rounding : "wide": sums of 40 bits, `multiply_wide`; "once": the same for sums of 32 bits, with reduced multipliers
        and right shifts; "tflite": sums that wrap at 32 bits, rounded twice; "double": sums of 32 bits, multipliers
        with 29 more bits in `low_words`, one shift for all channels
    most_high : with "double", the clamp of the high plane's sums if the whole sum would exceed int32
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
        """Multiply-accumulates of the operator."""
        return self.high.macs

    def minimum_words(self, config: Config) -> int:
        """Words for one output pixel of one word of channels: its windows of both planes, sums, results."""
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
