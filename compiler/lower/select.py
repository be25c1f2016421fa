"""SELECT and SELECT_V2: unselected bytes become zeros, and the two sides are added byte by byte.

If one value serves all bytes of a side, a single pass suffices: `(other - value) * chosen + value`. Under a uniform
constant condition the output is the selected side.
"""

import numpy as np

from tq_hw.compiler.ir.layers import Elementwise
from tq_hw.compiler.ir.staged import Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import Value
from tq_hw.compiler.lower.choose import CHOSEN, choose
from tq_hw.compiler.lower.elementwise import table_pass
from tq_hw.compiler.lower.legalize import Legalizer, lowers, publish
from tq_hw.compiler.lower.spread import spread
from tq_hw.compiler.programs.words import OUT, STREAMS, low
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import INT8_CODES
from tq_hw.sim.golden.logical import condition_shape

__all__: list[str] = []



def _condition(state: Legalizer, op: Operator) -> Value:
    """Return the condition, repeated for every byte of the output."""
    tensor, output = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    size, view = np.dtype(output.dtype).itemsize, state.view(output.shape, output.dtype)
    shape = condition_shape(op.op, tensor.shape, len(output.shape))
    if tensor.data is not None:
        data = np.broadcast_to(tensor.data.reshape(shape)[..., None], (*output.shape, size))
        return Value(tensor.name, tensor.index, view, data=np.ascontiguousarray(data).view(np.int8))
    value = state.input(op, 0)
    if tensor.shape == output.shape and size == 1:
        return value
    base, target = blank(shape, "bool"), blank(output.shape, output.dtype)
    wide = Value(f"{tensor.name} ({op.op})", tensor.index, view)
    state.layers.append(Move(op.index, op.op, (value,), wide, (
        copy_between(0, np.broadcast_to(base, target.shape), base, target, target),)))
    return wide


def _only_byte(state: Legalizer, op: Operator, position: int) -> int | None:
    """Return the byte that a constant side consists of; None if it has several or is computed."""
    data = state.tensor(op, position).data
    if data is None or data.size == 0:
        return None
    found = np.unique(np.frombuffer(data.tobytes(), np.int8))
    return int(found[0]) if found.size == 1 else None


@lowers("SELECT", "SELECT_V2")
def lower_select(state: Legalizer, op: Operator) -> None:
    """A copy, a table, one pass, or three."""
    known = state.tensor(op, 0).data
    if known is not None and known.size and (known == known.flat[0]).all():
        publish(state, op, spread(state, op, 1 if known.flat[0] else 2))
        return
    single = [_only_byte(state, op, position) for position in (1, 2)]
    condition = _condition(state, op)
    if single[0] is not None and single[1] is not None:
        table_pass(state, op, condition, np.where(CHOSEN, single[0], single[1]))
        return
    for side, taken in ((1, CHOSEN), (2, 1 - CHOSEN)):
        other = single[2 - side]
        if other is not None:
            uop = {**STREAMS, "a_table": 1, "b_table": 2, **low(), "zero_point": other, **OUT}
            inputs = spread(state, op, side), condition
            state.layers.append(Elementwise(op.index, op.op, inputs, state.output(op), uop,
                                            (INT8_CODES.astype(np.int64) - other, taken)))
            return
    choose(state, op, condition, (spread(state, op, 1), spread(state, op, 2)))
