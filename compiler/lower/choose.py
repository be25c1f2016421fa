"""Selection between two values by a condition: unselected bytes become zeros, and the two sides are added."""

import numpy as np

from tq_hw.compiler.ir.layers import Elementwise
from tq_hw.compiler.ir.value import IntArray, Value
from tq_hw.compiler.lower.legalize import Legalizer
from tq_hw.compiler.programs.words import OUT, STREAMS, low
from tq_hw.isa.uop import Alu
from tq_hw.model.graph import Operator

__all__ = ["CHOSEN", "choose"]

#: 1 where a condition is true, by unsigned code.
CHOSEN: IntArray = (np.arange(256) != 0).astype(np.int64)


def choose(state: Legalizer, op: Operator, condition: Value, sides: tuple[Value, Value]) -> None:
    """Write the output: bytes of the first value where a condition of the same shape is 1, else of the second."""
    parts: list[Value] = []
    for side, taken in zip(sides, (CHOSEN, 1 - CHOSEN), strict=True):
        part = Value(f"{side.name} ({op.op})", op.outputs[0], condition.shape)
        state.layers.append(Elementwise(op.index, op.op, (side, condition), part,
                                        {**STREAMS, "b_table": 2, **low(), **OUT}, (None, taken)))
        parts.append(part)
    added = {**STREAMS, "alu": Alu.ADD, **OUT}
    state.layers.append(Elementwise(op.index, op.op, tuple(parts), state.output(op), added))
