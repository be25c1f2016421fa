"""Float32 sums in words, which patterns made: programs of the vector unit over elements of any shape."""

import numpy as np

from tq_hw.compiler.ir.staged import Flat
from tq_hw.compiler.ir.value import TYPE_CODES, Value
from tq_hw.compiler.lower.legalize import Legalizer, lowers, publish
from tq_hw.compiler.lower.reduce import grouped_value
from tq_hw.compiler.lower.spread import spread
from tq_hw.compiler.programs.soft_float import codes_program, reduce_program, sum_program
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.reduce import axes
from tq_hw.sim.golden.registry import bool_option, int_option

__all__: list[str] = []


@lowers("FLOAT_SUM")
def lower_float_sum(state: Legalizer, op: Operator) -> None:
    """One addition; bytes become words by tables."""
    types = tuple(TYPE_CODES[state.tensor(op, position).dtype] for position in range(2))
    one, other = (state.constant(op, position).astype(np.int64) if op.inputs[position] >= 0 else None
                  for position in (2, 3))
    uops = sum_program(int(one is not None), 2 * int(other is not None), relu=bool_option(op, "relu"))
    output = state.subgraph.tensors[op.outputs[0]]
    state.layers.append(Flat(op.index, op.op, (spread(state, op, 0), spread(state, op, 1)), state.output(op),
                             int(np.prod(output.shape, dtype=np.int64)), types, TYPE_CODES["int32"], tuple(uops),
                             tables=(one, other)))


@lowers("FLOAT_REDUCE")
def lower_float_reduce(state: Legalizer, op: Operator) -> None:
    """Sequential additions, for adjacent results at the same time."""
    tensor, name = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]].name
    value, (outer, count, inner) = grouped_value(state, op, axes(state.constant(op, 1), len(tensor.shape)))
    table = state.constant(op, 2).astype(np.int64) if op.inputs[2] >= 0 else None
    before, body, after = map(tuple, reduce_program(int(table is not None)))
    raw = Value(name, op.outputs[0], (1, 1, 1, 4 * outer * inner))
    state.layers.append(Flat(op.index, op.op, (value,), raw, inner, (TYPE_CODES[tensor.dtype],), TYPE_CODES["int32"],
                             before, body, after, count, tables=(table, None), images=outer))
    publish(state, op, raw)


@lowers("FLOAT_CODES")
def lower_float_codes(state: Legalizer, op: Operator) -> None:
    """QUANTIZE of words."""
    output = state.subgraph.tensors[op.outputs[0]]
    uops = codes_program(int_option(op, "left"), int_option(op, "multiplier"), int_option(op, "shift"),
                         output.zero_point)
    tables = (state.constant(op, 1).astype(np.int64), state.constant(op, 2).astype(np.int64))
    state.layers.append(Flat(op.index, op.op, (state.input(op, 0),), state.output(op),
                             int(np.prod(output.shape, dtype=np.int64)), (TYPE_CODES["int32"],), TYPE_CODES["int8"],
                             tuple(uops), tables=tables))
