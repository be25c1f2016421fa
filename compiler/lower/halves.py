"""int64 as int32 words: splitting into lower and upper words, joining them, conversion to int32."""

from collections.abc import Sequence

import numpy as np

from tq_hw.compiler.ir.staged import Flat, Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import TYPE_CODES, Value, element_count
from tq_hw.compiler.lower.legalize import Legalizer
from tq_hw.compiler.programs.words import (
    OUT,
    SAR,
    STREAM_A,
    STREAM_B,
    Uop,
    immediate,
    immediate_a,
    low,
    reg_a,
    reg_b,
    to,
)
from tq_hw.isa.uop import Alu
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import INT32_MAX

__all__ = ["half", "indices_of", "joined", "saturated"]

_INT32 = TYPE_CODES["int32"]
_NAMES = ("lower", "upper")


def half(state: Legalizer, op: Operator, value: Value, count: int, part: int) -> Value:
    """Return the lower (`part` 0) or upper words of `count` numbers of int64: [1, 1, 1, 4 * count] bytes."""
    name, shape = f"{value.name} ({_NAMES[part]} words)", (1, 1, 1, 4 * count)
    if value.data is not None:
        data = np.ascontiguousarray(value.data).reshape(-1).view(np.int32)[part::2]
        return Value(name, value.tensor, shape, data=np.ascontiguousarray(data))
    made, base, target = Value(name, value.tensor, shape), blank((count,), "int64"), blank((count,), "int32")
    state.layers.append(Move(op.index, op.op, (value,), made, (
        copy_between(0, base[:, 4 * part:4 * part + 4], base, target, target),)))
    return made


def joined(state: Legalizer, op: Operator, parts: Sequence[Value], count: int) -> None:
    """Write the int64 output from its lower and upper words."""
    base, target = blank((count,), "int32"), blank((count,), "int64")
    state.layers.append(Move(op.index, op.op, tuple(parts), state.output(op), tuple(
        copy_between(part, base, base, target[:, 4 * part:4 * part + 4], target) for part in range(2))))


def indices_of(state: Legalizer, op: Operator, position: int) -> Value:
    """Return an input of int32 or int64 as int32; engines refuse or truncate numbers that do not fit."""
    tensor, value = state.tensor(op, position), state.input(op, position)
    return value if tensor.dtype == "int32" else half(state, op, value, element_count(tensor.shape), 0)


#: Stream A (lower words) where stream B (upper words) is its sign extension, else the limit of int32 on B's side.
_SATURATED: tuple[Uop, ...] = (
    to(0, STREAM_A, immediate(31), SAR), to(0, reg_a(0), STREAM_B, alu=Alu.EQUAL),
    to(1, immediate_a(0), STREAM_B, alu=Alu.ADD), to(1, reg_a(1), immediate(31), SAR),
    # The limit, 2^31 - 1 or one more, which wraps; then r0 selects A or the limit.
    to(1, immediate_a(INT32_MAX), reg_b(1), alu=Alu.SUB),
    to(2, STREAM_A, reg_b(1), alu=Alu.SUB), to(2, reg_a(2), reg_b(0), low()),
    {**reg_a(2), **reg_b(1), "alu": Alu.ADD, **OUT})


def saturated(state: Legalizer, op: Operator, position: int) -> Value:
    """Return an input of int32 or int64 as int32, saturated."""
    tensor, value = state.tensor(op, position), state.input(op, position)
    if tensor.dtype == "int32":
        return value
    count = element_count(tensor.shape)
    words = tuple(half(state, op, value, count, part) for part in range(2))
    made = Value(f"{value.name} (saturated)", value.tensor, (1, 1, 1, 4 * count))
    state.layers.append(Flat(op.index, op.op, words, made, count, (_INT32, _INT32), _INT32, _SATURATED))
    return made
