"""SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION: programs over the channels of each pixel."""

import numpy as np

from tq_hw.compiler.ir import RowProgram
from tq_hw.compiler.legalize import Legalizer, lowers
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import softmax
from tq_hw.sim.golden.arith import multiply_by_quantized_multiplier
from tq_hw.sim.golden.registry import require, require_dtype

__all__: list[str] = []


@lowers("SOFTMAX")
def lower_softmax(state: Legalizer, op: Operator) -> None:
    """Maximum, table of exponentials, sum, reciprocal, product."""
    p = softmax.params(op, state.subgraph)
    require(p.output_bits == 8, "output must be int8")
    source = state.input(op, 0)
    state.layers.append(RowProgram(op.index, op.op, (source,), state.output(op), "softmax", {},
                                   (softmax.exp_table(p), None)))


@lowers("LOG_SOFTMAX")
def lower_log_softmax(state: Legalizer, op: Operator) -> None:
    """As SOFTMAX up to the sum, then its logarithm; table 2 rescales the differences."""
    p = softmax.params(op, state.subgraph)
    diff = -np.arange(256, dtype=np.int64)
    scaled = multiply_by_quantized_multiplier(np.where(diff >= p.diff_min, diff, 0), p.multiplier, p.left_shift)
    numbers = {"diff_min": p.diff_min, "reverse_multiplier": p.reverse_multiplier, "reverse_shift": p.reverse_shift}
    state.layers.append(RowProgram(op.index, op.op, (state.input(op, 0),), state.output(op), "log_softmax", numbers,
                                   (softmax.exp_table(p), scaled)))


@lowers("L2_NORMALIZATION")
def lower_l2_normalization(state: Legalizer, op: Operator) -> None:
    """Sum of squares, reciprocal square root, product."""
    tensor = require_dtype(op, state.subgraph, "int8")
    state.layers.append(RowProgram(op.index, op.op, (state.input(op, 0),), state.output(op), "l2_normalization",
                                   {"zero_point": tensor.zero_point}))
