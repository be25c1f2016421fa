"""Arithmetic and comparisons of int64: lower and upper words are int32, with a carry between them.

Lower words are unsigned: signed comparisons subtract 2^31 first. The upper word of the product of two lower words is
computed from four products of half words.
"""

from collections.abc import Sequence

import numpy as np

from tq_hw.compiler.ir.staged import Flat, Move
from tq_hw.compiler.ir.strided import blank, copy_between
from tq_hw.compiler.ir.value import TYPE_CODES, Value, element_count
from tq_hw.compiler.lower.choose import choose
from tq_hw.compiler.lower.halves import half, joined
from tq_hw.compiler.lower.legalize import Legalizer
from tq_hw.compiler.lower.spread import spread
from tq_hw.compiler.programs.words import (
    OUT,
    SAR,
    STREAM_A,
    STREAM_B,
    STREAMS,
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
from tq_hw.sim.golden.arith import INT32_MIN

__all__ = ["lower_double_words"]

_INT8, _INT32 = TYPE_CODES["int8"], TYPE_CODES["int32"]
#: Both streams less 2^31, in registers 0 and 1.
_UNSIGNED = (to(0, STREAM_A, immediate(INT32_MIN), alu=Alu.ADD),
             to(1, immediate_a(INT32_MIN), STREAM_B, alu=Alu.ADD))
_HALF = 0xFFFF
_LESS: tuple[Uop, ...] = (*_UNSIGNED, {**reg_a(0), **reg_b(1), "alu": Alu.LESS, **OUT})


def _words(state: Legalizer, op: Operator, position: int, count: int) -> tuple[Value, Value]:
    """Lower and upper words of an operand in the shape of the output."""
    value = spread(state, op, position)
    return half(state, op, value, count, 0), half(state, op, value, count, 1)


def _upper_halves(register: int) -> tuple[Uop, ...]:
    """The unsigned upper half of a register."""
    return (to(register, reg_a(register), immediate(16), SAR),
            to(register, reg_a(register), immediate(_HALF), alu=Alu.AND))


def _upper_product() -> tuple[Uop, ...]:
    """The upper word of the unsigned product of streams A and B."""
    return (
        # r0, r1: lower and upper half of A; r2, r3: those of B
        to(0, STREAM_A, immediate(_HALF), alu=Alu.AND), to(1, STREAM_A), *_upper_halves(1),
        to(3, immediate_a(0), STREAM_B, alu=Alu.ADD),
        to(2, reg_a(3), immediate(_HALF), alu=Alu.AND), *_upper_halves(3),
        # r4: the carry of the lowest product; r5, r0: the two middle products
        to(4, reg_a(0), reg_b(2), low()), *_upper_halves(4),
        to(5, reg_a(0), reg_b(3), low()), to(0, reg_a(1), reg_b(2), low()), to(1, reg_a(1), reg_b(3), low()),
        to(6, reg_a(5), immediate(_HALF), alu=Alu.AND), to(4, reg_a(4), reg_b(6), alu=Alu.ADD),
        to(6, reg_a(0), immediate(_HALF), alu=Alu.AND), to(4, reg_a(4), reg_b(6), alu=Alu.ADD),
        *_upper_halves(4), *_upper_halves(5), *_upper_halves(0),
        to(1, reg_a(1), reg_b(4), alu=Alu.ADD), to(1, reg_a(1), reg_b(5), alu=Alu.ADD),
        {**reg_a(1), **reg_b(0), "alu": Alu.ADD, **OUT})


class _Words:
    """The lowering of one operator; `first` and `second` are the lower and upper words of its operands."""

    def __init__(self, state: Legalizer, op: Operator):
        self.state, self.op = state, op
        self.output = state.subgraph.tensors[op.outputs[0]]
        self.count = element_count(self.output.shape)
        self.first, self.second = (_words(state, op, position, self.count) for position in range(2))

    def made(self, what: str, inputs: tuple[Value, Value], uops: Sequence[Uop], out: int = _INT32,
             into: Value | None = None) -> Value:
        """Add a program of two streams of int32, or of truth values."""
        size = self.count * (4 if out else 1)
        value = into or Value(f"{self.output.name} ({what})", self.op.outputs[0], (1, 1, 1, size))
        types = tuple(_INT32 if each.size_bytes == 4 * self.count else _INT8 for each in inputs)
        self.state.layers.append(Flat(self.op.index, self.op.op, inputs, value, self.count, types, out, tuple(uops)))
        return value

    def sums(self) -> None:
        """ADD and SUB."""
        alu, lower, upper = Alu[self.op.op], *zip(self.first, self.second, strict=True)
        low_words = self.made("lower", lower, _one(alu))
        # There is a carry if the sum is less than a summand, a borrow if the minuend is less than the subtrahend.
        carry = self.made("carry", (low_words, lower[0]) if alu is Alu.ADD else lower, _LESS)
        high_words = self.made("upper", (self.made("upper alone", upper, _one(alu)), carry), _one(alu))
        joined(self.state, self.op, (low_words, high_words), self.count)

    def product(self) -> None:
        """MUL: the product of the two upper words does not contribute."""
        lower, crossed = (self.first[0], self.second[0]), (self.first[1], self.second[0])
        product: tuple[Uop] = ({**STREAMS, **low(), **OUT},)
        middle = (self.made("upper by lower", crossed, product),
                  self.made("lower by upper", (self.first[0], self.second[1]), product))
        upper = (self.made("carry", lower, _upper_product()), self.made("middle", middle, _one(Alu.ADD)))
        words = self.made("lower", lower, product), self.made("upper", upper, _one(Alu.ADD))
        joined(self.state, self.op, words, self.count)

    def less(self, first: tuple[Value, Value], second: tuple[Value, Value], into: Value | None, *,
             or_equal: bool) -> Value:
        """Add `first < second` (`or_equal`: `<=`): the upper words are less, or equal with lower words less."""
        order = (*_LESS[:-1], _LESS[-1] | {"alu": Alu.LESS_EQUAL}) if or_equal else _LESS
        upper = first[1], second[1]
        below = (self.made("lower", (first[0], second[0]), order, _INT8),
                 self.made("equal", upper, _one(Alu.EQUAL), _INT8))
        halves = (self.made("upper", upper, _one(Alu.LESS), _INT8),
                  self.made("lower decides", below, _one(Alu.MIN), _INT8))
        return self.made("both", halves, _one(Alu.MAX), _INT8, into)

    def equal(self) -> None:
        """EQUAL and NOT_EQUAL."""
        alu = Alu[self.op.op]
        lower, upper = zip(self.first, self.second, strict=True)
        halves = self.made("lower", lower, _one(alu), _INT8), self.made("upper", upper, _one(alu), _INT8)
        self.made("both", halves, _one(Alu.MIN if alu is Alu.EQUAL else Alu.MAX), _INT8, self.state.output(self.op))

    def extreme(self) -> None:
        """MAXIMUM and MINIMUM: a selection of all bytes."""
        pair = (self.second, self.first) if self.op.op == "MAXIMUM" else (self.first, self.second)
        chosen = self.less(*pair, None, or_equal=False)
        view = self.state.view(self.output.shape, "int64")
        wide = Value(f"{chosen.name} (for each)", self.op.outputs[0], view)
        base, target = blank((self.count,), "bool"), blank((self.count,), "int64")
        self.state.layers.append(Move(self.op.index, self.op.op, (chosen,), wide, (
            copy_between(0, np.broadcast_to(base, target.shape), base, target, target),)))
        choose(self.state, self.op, wide, (spread(self.state, self.op, 0), spread(self.state, self.op, 1)))


def _one(alu: Alu) -> tuple[Uop]:
    return ({**STREAMS, "alu": alu, **OUT},)


def lower_double_words(state: Legalizer, op: Operator) -> None:
    """Arithmetic and comparisons of two int64 tensors, which broadcast."""
    words = _Words(state, op)
    if op.op in ("ADD", "SUB"):
        words.sums()
    elif op.op == "MUL":
        words.product()
    elif op.op in ("MAXIMUM", "MINIMUM"):
        words.extreme()
    elif op.op in ("EQUAL", "NOT_EQUAL"):
        words.equal()
    else:
        pair = (words.second, words.first) if op.op.startswith("GREATER") else (words.first, words.second)
        words.less(*pair, state.output(op), or_equal=op.op.endswith("_EQUAL"))
