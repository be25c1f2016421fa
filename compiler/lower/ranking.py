"""ONE_HOT and TOPK_V2.

The best of a row, then the best of what is below it, and so on: with its place in it, each element is a number of its
own (`walks.py`), and every number of the answer is a walk over the row.
"""

import math

import numpy as np

from tq_hw.compiler.ir.staged import Flat, Move, OneHot
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import TYPE_CODES, Value
from tq_hw.compiler.lower.elementwise import table_pass
from tq_hw.compiler.lower.halves import indices_of
from tq_hw.compiler.lower.legalize import Legalizer, lowers, reshaped
from tq_hw.compiler.lower.moves import move_view, output_blank
from tq_hw.compiler.lower.walks import PLACE_BITS, walk_below
from tq_hw.compiler.programs.words import OUT, STREAM_A, Uop, immediate, immediate_a, reg_a, reg_b, to
from tq_hw.isa.uop import Alu
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import INT8_CODES
from tq_hw.sim.golden.registry import int_option, normalize_axis, require

__all__: list[str] = []

_INT32 = TYPE_CODES["int32"]


@lowers("ONE_HOT")
def lower_one_hot(state: Legalizer, op: Operator) -> None:
    """Rows that are 1 at the index; a table for each byte of an element; a move to the axis."""
    indices, output = state.tensor(op, 0), state.subgraph.tensors[op.outputs[0]]
    count, depth = math.prod(indices.shape), int(state.constant(op, 1).reshape(-1)[0])
    value = indices_of(state, op, 0)
    hot = Value(f"{output.name} (one-hot)", output.index, (1, count, 1, depth))
    state.layers.append(OneHot(op.index, op.op, (value,), hot))
    on, off = (np.frombuffer(state.constant(op, position).tobytes(), np.int8) for position in (2, 3))
    planes = [Value(f"{output.name} (byte {byte})", output.index, hot.shape) for byte in range(len(on))]
    axis = normalize_axis(int_option(op, "axis"), len(output.shape))
    if len(planes) == 1 and math.prod(output.shape[axis + 1:]) == 1:
        rows = reshaped(hot, state.view(output.shape, output.dtype))
        table_pass(state, op, rows, np.where(INT8_CODES != 0, on[0], off[0]))
        return
    for plane, high, low in zip(planes, on, off, strict=True):
        table_pass(state, op, hot, np.where(INT8_CODES != 0, high, low), plane)
    after = math.prod(output.shape[axis + 1:])
    base, target = blank((count // after, after, depth), "int8"), output_blank(state, op)
    parts = target.reshape(count // after, depth, after, len(planes)).transpose(0, 2, 1, 3)
    made = state.output(op)
    state.layers.append(Move(op.index, op.op, tuple(planes), made, tuple(
        copy_between(byte, base[..., 0], base, parts[..., byte], target) for byte in range(len(planes)))))


@lowers("TOPK_V2")
def lower_top_k(state: Legalizer, op: Operator) -> None:
    """A walk for each place of the answer; what it finds is a code and its place in one number."""
    tensor, (codes, places) = state.tensor(op, 0), (state.subgraph.tensors[index] for index in op.outputs)
    kind = TYPE_CODES[tensor.dtype]
    place_bits = PLACE_BITS[kind]
    require(tensor.shape[-1] < 1 << place_bits,
            f"rows of {tensor.dtype} must have less than {1 << place_bits} elements, found {tensor.shape[-1]}")
    rank, length = len(tensor.shape), tensor.shape[-1]
    rows, best = math.prod(tensor.shape[:-1]), codes.shape[-1]
    order = (rank - 1, *range(rank - 1), rank)
    transposed = move_view(state, op, state.input(op, 0), tensor, lambda x: x.transpose(order))
    codes_value, places_value = state.new_value(codes), state.new_value(places)
    found: list[Value] = []
    for _ in range(best):
        found.append(walk_below(state, op, transposed, (1, length, rows), found[-1] if found else None, kind))
    keys = found[0]
    if best > 1:
        keys = Value(f"{codes.name} (codes and places)", codes.index, (1, 1, 1, 4 * rows * best))
        base, target = blank((rows,), "int32"), blank((rows, best), "int32")
        state.layers.append(Move(op.index, op.op, tuple(found), keys, tuple(
            copy_between(number, base, base, target[:, number], target) for number in range(best))))
    # A number is `code * 2^place_bits - place`.
    negative = to(0, immediate_a(0), reg_b(1), alu=Alu.SUB)
    first = to(1, STREAM_A)
    code = (first, negative, to(0, reg_a(0), immediate(place_bits), alu=Alu.SAR),
            {**immediate_a(0), **reg_b(0), "alu": Alu.SUB, **OUT})
    place: tuple[Uop, ...] = (first, negative, {**reg_a(0), **immediate((1 << place_bits) - 1), "alu": Alu.AND, **OUT})
    for value, out_type, uops in ((codes_value, kind, code), (places_value, _INT32, place)):
        state.values[value.tensor] = value
        state.layers.append(Flat(op.index, op.op, (keys,), value, rows * best, (_INT32,), out_type, uops))
