"""The layer of an LSTM: its gates, its constants, and its buffers."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_hw.compiler.ir.staged import Staged
from tq_hw.compiler.ir.value import IntArray
from tq_hw.isa.config import Config
from tq_hw.isa.sizes import ceil_div

__all__ = ["Gate", "Lstm", "TANH_FRACTION"]

#: Fraction bits of the argument of `isa.uop.Activation.TANH`.
TANH_FRACTION = 13


@dataclass(frozen=True, eq=False)
class Gate:
    """A gate: two products, rescaled to Q3.12 and added.

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
    steps, batch, time_major : shape of the sequence, [batch, steps, inputs] or [steps, batch, inputs]
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
        """Number of cells, and of elements of a hidden state."""
        return int(self.gates[0].recurrent_weights.shape[0])

    @property
    def macs(self) -> int:
        """Useful multiply-accumulates."""
        return self.steps * self.batch * sum(g.input_weights.size + g.recurrent_weights.size for g in self.gates)

    def gates_activate(self, config: Config) -> bool:
        """Whether activation lanes compute the activations of the gates."""
        return config.activation_lanes > 0 and not self.interpolated

    def cells_activate(self, config: Config) -> bool:
        """Whether they compute those of the cells, too: the lanes' tanh takes arguments with 13 fraction bits."""
        return self.gates_activate(config) and self.cell_scale_log2 >= -TANH_FRACTION

    def width(self, config: Config) -> int:
        """Cells of a block, the same for all blocks, because the array waits for the weights' rows."""
        return ceil_div(self.cells, ceil_div(self.cells, config.block))

    def weight_rows(self, config: Config) -> int:
        """Rows of recurrent weights of an array step."""
        return self.width(config) if config.slices == 1 else config.gemm_rows

    def buffers(self, config: Config) -> dict[str, int]:
        """Return the scratchpad words of the buffers that persist during all steps, by name."""
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
            **({} if self.cells_activate(config) else {"codes": 1}),
            **({} if self.gates_activate(config) else {"codes": gates + 1, "sums": 4 * vector})}

    def minimum_words(self, config: Config) -> int:
        """Words of all buffers."""
        return sum(self.buffers(config).values())

    def constant_words(self, config: Config) -> int:
        """Words in the ring at a time: input weights and parameters of a block of cells."""
        depth = self.gates[0].input_weights.shape[1]
        return ceil_div(depth, config.block) * config.slices * config.gemm_rows + config.param_words
