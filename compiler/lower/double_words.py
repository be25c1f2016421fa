"""ADD, SUB and comparisons of int64: the lower and upper words are int32, and a carry goes from one to the other.

The order of lower words is that of unsigned numbers: of signed ones, less 2^31.
"""

from collections.abc import Sequence

import numpy as np

from tq_hw.compiler.ir.staged import Flat, Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import TYPE_CODES, Value, element_count
from tq_hw.compiler.lower.legalize import Legalizer
from tq_hw.compiler.lower.spread import spread
from tq_hw.compiler.programs.words import OUT, STREAM_A, STREAM_B, Uop, immediate, reg_a, reg_b, to
from tq_hw.isa.uop import Alu, Source
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import INT32_MIN

__all__ = ["lower_double_words"]

_INT8, _INT32 = TYPE_CODES["int8"], TYPE_CODES["int32"]
_BOTH: Uop = STREAM_A | STREAM_B
#: Both streams less 2^31, in registers 0 and 1.
_UNSIGNED = (to(0, STREAM_A, immediate(INT32_MIN), alu=Alu.ADD),
             to(1, {"a_source": Source.IMMEDIATE, "immediate": INT32_MIN}, STREAM_B, alu=Alu.ADD))
_LESS: tuple[Uop, ...] = (*_UNSIGNED, {**reg_a(0), **reg_b(1), "alu": Alu.LESS, **OUT})


def _words(state: Legalizer, op: Operator, position: int, count: int) -> tuple[Value, Value]:
    """Lower and upper words of an operand in the shape of the output."""
    value, halves = spread(state, op, position), []
    for part, name in enumerate(("lower", "upper")):
        half = Value(f"{value.name} ({name} words)", value.tensor, (1, 1, 1, 4 * count))
        if value.data is not None:
            data = np.ascontiguousarray(value.data).reshape(-1).view(np.int32)[part::2]
            half = Value(half.name, value.tensor, half.shape, data=np.ascontiguousarray(data))
        else:
            base, target = blank((count,), "int64"), blank((count,), "int32")
            state.layers.append(Move(op.index, op.op, (value,), half, (
                copy_between(0, base[:, 4 * part:4 * part + 4], base, target, target),)))
        halves.append(half)
    return halves[0], halves[1]


def lower_double_words(state: Legalizer, op: Operator) -> None:
    """Two tensors of int64 that broadcast."""
    output = state.subgraph.tensors[op.outputs[0]]
    count, name = element_count(output.shape), output.name
    first, second = (_words(state, op, position, count) for position in range(2))
    if op.op.startswith("GREATER"):
        first, second = second, first

    def made(what: str, inputs: tuple[Value, Value], uops: Sequence[Uop], out: int = _INT32,
             into: Value | None = None) -> Value:
        value = into or Value(f"{name} ({what})", op.outputs[0], (1, 1, 1, count * (4 if out else 1)))
        types = tuple(_INT32 if each.size_bytes == 4 * count else _INT8 for each in inputs)
        state.layers.append(Flat(op.index, op.op, inputs, value, count, types, out, tuple(uops)))
        return value

    def one(alu: Alu) -> tuple[Uop]:
        return ({**_BOTH, "alu": alu, **OUT},)
    lower, upper = (first[0], second[0]), (first[1], second[1])
    if op.op in ("ADD", "SUB"):
        alu = Alu[op.op]
        low = made("lower", lower, one(alu))
        # A sum that is less than a summand has a carry, a minuend that is less than the subtrahend a borrow.
        carry = made("carry", (low, lower[0]) if op.op == "ADD" else lower, _LESS)
        high = made("upper", (made("upper alone", upper, one(alu)), carry), one(alu))
        base, target = blank((count,), "int32"), blank((count,), "int64")
        state.layers.append(Move(op.index, op.op, (low, high), state.output(op), tuple(
            copy_between(part, base, base, target[:, 4 * part:4 * part + 4], target) for part in range(2))))
    elif op.op in ("EQUAL", "NOT_EQUAL"):
        halves = made("lower", lower, one(Alu[op.op]), _INT8), made("upper", upper, one(Alu[op.op]), _INT8)
        made("both", halves, one(Alu.MIN if op.op == "EQUAL" else Alu.MAX), _INT8, state.output(op))
    else:
        # Less, or equal above and less below; where equal counts, below as well.
        order = _LESS if not op.op.endswith("_EQUAL") else (*_LESS[:-1], _LESS[-1] | {"alu": Alu.LESS_EQUAL})
        below = made("lower", lower, order, _INT8), made("equal", upper, one(Alu.EQUAL), _INT8)
        halves = made("upper", upper, one(Alu.LESS), _INT8), made("lower decides", below, one(Alu.MIN), _INT8)
        made("both", halves, one(Alu.MAX), _INT8, state.output(op))
