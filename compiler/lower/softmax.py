"""SOFTMAX, LOG_SOFTMAX and L2_NORMALIZATION: programs over the channels of each pixel."""

import numpy as np

from tq_hw.compiler.ir.layers import RowProgram
from tq_hw.compiler.ir.staged import Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.lower.legalize import Legalizer, lowers
from tq_hw.compiler.lower.sixteen_elements import lower_softmax_wide
from tq_hw.model.graph import Operator
from tq_hw.sim.golden import softmax
from tq_hw.sim.golden.arith import multiply_by_quantized_multiplier
from tq_hw.sim.golden.registry import require_dtype

__all__: list[str] = []

#: Distance from the maximum, by the low byte of a difference of 0 or less.
_BY_CODE = -np.arange(256) % 256


@lowers("SOFTMAX")
def lower_softmax(state: Legalizer, op: Operator) -> None:
    """Maximum, table of exponentials, sum, reciprocal, product; an int16 result is computed a byte at a time."""
    if state.tensor(op, 0).dtype == "int16":
        lower_softmax_wide(state, op)
        return
    p = softmax.params(op, state.subgraph)
    source, tables = state.input(op, 0), (softmax.exp_table(p)[_BY_CODE], None)
    if p.output_bits == 8:
        state.layers.append(RowProgram(op.index, op.op, (source,), state.output(op), "softmax", {"output_bits": 8},
                                       tables))
        return
    tensor = state.subgraph.tensors[op.outputs[0]]
    target = blank(tensor.shape, tensor.dtype)
    part = blank(tensor.shape, "int8")
    values, copies = [], []
    for high in (0, 1):
        values.append(Value(f"{tensor.name} (byte {high})", tensor.index, source.shape))
        copies.append(copy_between(high, part, part, target[..., high:high + 1], target))
        state.layers.append(RowProgram(op.index, op.op, (source,), values[-1], "softmax",
                                       {"output_bits": 16, "high": high}, tables))
    state.layers.append(Move(op.index, op.op, tuple(values), state.output(op), tuple(copies)))


@lowers("LOG_SOFTMAX")
def lower_log_softmax(state: Legalizer, op: Operator) -> None:
    """The steps of SOFTMAX up to the sum, then its logarithm; table 2 rescales the differences."""
    p = softmax.params(op, state.subgraph)
    diff = -np.arange(256, dtype=np.int64)
    scaled = multiply_by_quantized_multiplier(np.where(diff >= p.diff_min, diff, 0), p.multiplier, p.left_shift)
    # The result is -128 from -16 down: differences below that, or below diff_min, become -16, which cannot wrap.
    scaled = np.where(diff >= p.diff_min, np.maximum(scaled, -(1 << 30)), -(1 << 30))
    state.layers.append(RowProgram(op.index, op.op, (state.input(op, 0),), state.output(op), "log_softmax", {},
                                   (softmax.exp_table(p)[_BY_CODE], scaled[_BY_CODE])))


@lowers("L2_NORMALIZATION")
def lower_l2_normalization(state: Legalizer, op: Operator) -> None:
    """Sum of squares, reciprocal square root, product."""
    tensor = require_dtype(op, state.subgraph, "int8")
    state.layers.append(RowProgram(op.index, op.op, (state.input(op, 0),), state.output(op), "l2_normalization",
                                   {"zero_point": tensor.zero_point}))
