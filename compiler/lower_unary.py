"""Unary operators on int8: the golden kernel evaluated on all 256 codes becomes one table pass."""

import numpy as np

from tq_hw.compiler.ir import Elementwise, IntArray, Value
from tq_hw.compiler.legalize import Legalizer, lowers
from tq_hw.isa.uop import Alu, Destination, Source
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.kernels import KERNELS
from tq_hw.sim.golden.pointwise import POINTWISE

__all__ = ["CODES", "table_pass"]

#: int8 value of each table index (the low 8 bits of an operand).
CODES = np.arange(256).astype(np.uint8).view(np.int8)


def table_pass(state: Legalizer, op: Operator, source: Value, table: IntArray, into: Value | None = None) -> None:
    """Add a layer that looks every byte of `source` up in `table` (256 entries by unsigned code).

    It gives the operator's output unless it goes `into` another value.
    """
    uop = {"a_source": Source.STREAM, "a_table": 1, "alu": Alu.PASS, "destination": Destination.OUTPUT}
    state.layers.append(Elementwise(op.index, op.op, (source,), into or state.output(op), uop,
                                    (table.astype(np.int64), None)))


@lowers("TABLE")
def lower_table(state: Legalizer, op: Operator) -> None:
    """What patterns made of several operators."""
    table_pass(state, op, state.input(op, 0), state.constant(op, 1))


@lowers("LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU", "HARD_SWISH", *POINTWISE)
def lower_unary(state: Legalizer, op: Operator) -> None:
    """Any function of one int8."""
    table = KERNELS[op.op](op, state.subgraph, [CODES])[0]
    table_pass(state, op, state.input(op, 0), table)
