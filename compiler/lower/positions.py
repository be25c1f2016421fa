"""DYNAMIC_UPDATE_SLICE and SLICE with a computed start.

Indices along an axis are int32. Slices at such indices are taken by a product with one-hot rows, as in GATHER. An
update is selected where its own indices are.
"""

import math

import numpy as np

from tq_hw.compiler.ir.staged import Flat, Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import TYPE_CODES, Value
from tq_hw.compiler.lower.choose import choose
from tq_hw.compiler.lower.gather import look_up_rows
from tq_hw.compiler.lower.halves import indices_of, saturated
from tq_hw.compiler.lower.legalize import Legalizer, lowers, publish
from tq_hw.compiler.lower.moves import add_view
from tq_hw.compiler.programs.words import (
    OUT,
    STREAM_A,
    STREAM_B,
    STREAMS,
    Uop,
    immediate,
    immediate_a,
    reg_a,
    reg_b,
    to,
)
from tq_hw.isa.uop import Alu
from tq_hw.model.graph import Operator

__all__ = ["update_at"]

_INT8, _INT32 = TYPE_CODES["int8"], TYPE_CODES["int32"]
Shape = tuple[int, ...]


def _start(state: Legalizer, op: Operator, starts: Value, axis: int, rank: int, count: int) -> Value:
    """Return the start along one axis, from an int32 vector with one number an axis, `count` times."""
    base, target = blank((rank,), "int32"), blank((count,), "int32")
    value = Value(f"{starts.name} (axis {axis})", starts.tensor, (1, 1, 1, 4 * count))
    state.layers.append(Move(op.index, op.op, (starts,), value, (
        copy_between(0, np.broadcast_to(base[axis], target.shape), base, target, target),)))
    return value


def _places(state: Legalizer, op: Operator, start: Value, count: int, out_type: int, uops: tuple[Uop, ...]) -> Value:
    """Add a program over the start and the numbers 0, 1, ...; return its results."""
    numbers = Value("places", start.tensor, start.shape, data=np.arange(count, dtype=np.int32))
    value = Value(f"{start.name} (places)", op.outputs[0], (1, 1, 1, count * (4 if out_type else 1)))
    state.layers.append(Flat(op.index, op.op, (start, numbers), value, count, (_INT32, _INT32), out_type, uops))
    return value


def _taken(state: Legalizer, op: Operator, value: Value, shape: Shape, axis: int, places: Value, count: int) -> Value:
    """Return `count` slices along an axis at computed indices, dense, in the order of the axes; zeros outside."""
    dtype = state.subgraph.tensors[op.outputs[0]].dtype
    rest = (*shape[:axis], *shape[axis + 1:])
    if math.prod(shape[:axis]) > 1:
        base, target = blank(shape, dtype), blank((shape[axis], *rest), dtype)
        front = Value(f"{value.name} (axis {axis} first)", value.tensor, (1, 1, 1, value.size_bytes), value.zero_point)
        state.layers.append(Move(op.index, op.op, (value,), front, (
            copy_between(0, np.moveaxis(base, axis, 0), base, target, target),)))
        value = front
    size = math.prod(rest) * np.dtype(dtype).itemsize
    rows = look_up_rows(state, op, places, count, value, (1, shape[axis], size))
    if math.prod(shape[:axis]) == 1:
        return rows
    base, target = blank((count, *rest), dtype), blank((*shape[:axis], count, *shape[axis + 1:]), dtype)
    back = Value(f"{rows.name} (in order)", op.outputs[0], (1, 1, 1, rows.size_bytes), rows.zero_point)
    state.layers.append(Move(op.index, op.op, (rows,), back, (
        copy_between(0, np.moveaxis(base, 0, axis), base, target, target),)))
    return back


@lowers("SLICE")
def lower_slice(state: Legalizer, op: Operator) -> None:
    """A rectangle; with a computed begin, a table look-up along each axis that is not taken whole."""
    if state.tensor(op, 1).data is None:
        _slice_at(state, op)
        return
    begins = state.constant(op, 1).astype(int).tolist()
    sizes = state.subgraph.tensors[op.outputs[0]].shape
    add_view(state, op, lambda x: x[tuple(slice(b, b + n) for b, n in zip(begins, sizes, strict=True))])


def _slice_at(state: Legalizer, op: Operator) -> None:
    shape, taken = state.tensor(op, 0).shape, state.subgraph.tensors[op.outputs[0]].shape
    value, starts = state.input(op, 0), indices_of(state, op, 1)
    for axis, count in enumerate(taken):
        if count < shape[axis]:
            places = _places(state, op, _start(state, op, starts, axis, len(taken), count), count, _INT32,
                             ({**STREAMS, "alu": Alu.ADD, **OUT},))
            value = _taken(state, op, value, shape, axis, places, count)
            shape = (*shape[:axis], count, *shape[axis + 1:])
    publish(state, op, value)


def update_at(state: Legalizer, op: Operator) -> None:
    """DYNAMIC_UPDATE_SLICE with a computed start and an update that is smaller along one axis."""
    shape, part = state.tensor(op, 0).shape, state.tensor(op, 1).shape
    axes = [axis for axis, size in enumerate(part) if size < shape[axis]]
    if not axes:
        add_view(state, op, lambda x: x, 1)
        return
    axis = axes[0]
    count, width = shape[axis], part[axis]
    # The start is clamped so that the whole update is inside. r1: the index in the update; r2: r1 clamped to it.
    uops = (to(0, STREAM_A, immediate(0), alu=Alu.MAX), to(0, reg_a(0), immediate(count - width), alu=Alu.MIN),
            to(1, reg_a(0), STREAM_B, alu=Alu.SUB), to(1, immediate_a(0), reg_b(1), alu=Alu.SUB),
            to(2, reg_a(1), immediate(0), alu=Alu.MAX), to(2, reg_a(2), immediate(width - 1), alu=Alu.MIN))
    start = _start(state, op, saturated(state, op, 2), axis, len(shape), count)
    mask = _places(state, op, start, count, _INT8, (*uops, {**reg_a(1), **reg_b(2), "alu": Alu.EQUAL, **OUT}))
    update = state.input(op, 1)
    if width > 1:
        places = _places(state, op, start, count, _INT32, (*uops, {**reg_a(2), **OUT}))
        update, part = _taken(state, op, update, part, axis, places, count), shape
    output = state.subgraph.tensors[op.outputs[0]]
    target, view = blank(output.shape, output.dtype), state.view(output.shape, output.dtype)
    wide = []
    line = tuple(count if each == axis else 1 for each in range(len(shape)))
    for value, base in ((mask, blank(line, "bool")), (update, blank(part, output.dtype))):
        wide.append(Value(f"{value.name} (for each)", op.outputs[0], view, update.zero_point))
        state.layers.append(Move(op.index, op.op, (value,), wide[-1], (
            copy_between(0, np.broadcast_to(base, target.shape), base, target, target),)))
    choose(state, op, wide[0], (wide[1], state.input(op, 0)))
