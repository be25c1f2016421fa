"""Operators on the bits of float32 inputs of a model: FLOAT_ORDER, STEPS, and CAST to int32 and bool."""

import numpy as np

from tq_hw.compiler.ir.staged import Flat
from tq_hw.compiler.ir.value import TYPE_CODES, Value, output_code
from tq_hw.compiler.lower.legalize import Legalizer, lowers
from tq_hw.compiler.programs.words import (
    OUT,
    SAR,
    SHL,
    STREAM_A,
    STREAM_B,
    Uop,
    immediate,
    immediate_a,
    low,
    reg_a,
    reg_b,
    shifted,
    to,
)
from tq_hw.isa.uop import Alu, Rounding
from tq_hw.model.graph import Operator
from tq_hw.sim.golden.arith import INT32_MIN
from tq_hw.sim.golden.raw_float import INFINITY
from tq_hw.sim.golden.registry import bool_option, int_option

__all__ = ["is_true", "whole_numbers"]

_INT32 = TYPE_CODES["int32"]
_FRACTION_BITS = 23
#: Most steps of one program: each takes two or three micro-operations.
_STEPS = 12


def _flat(state: Legalizer, op: Operator, value: Value, out: Value, out_type: int, uops: tuple[Uop, ...]) -> None:
    count = int(np.prod(state.tensor(op, 0).shape, dtype=np.int64))
    state.layers.append(Flat(op.index, op.op, (value,), out, count, (_INT32,), out_type, uops))


@lowers("FLOAT_ORDER")
def lower_float_order(state: Legalizer, op: Operator) -> None:
    """Mirror negative bits; move NaN, which is beyond infinity, to one end."""
    high = bool_option(op, "high")
    # 1 beyond infinity, then INT32_MIN, or INT32_MIN - 1, which wraps to INT32_MAX; else 0.
    beyond = (to(1, reg_a(0), immediate(-INFINITY), alu=Alu.LESS) if high else
              to(1, immediate_a(INFINITY), reg_b(0), alu=Alu.LESS))
    end = (to(3, reg_a(1), immediate(31), SHL),
           *((to(3, reg_a(3), reg_b(1), alu=Alu.SUB),) if high else ()))
    _flat(state, op, state.input(op, 0), state.output(op), _INT32, (
        to(0, STREAM_A), to(1, immediate_a(INT32_MIN), reg_b(0), alu=Alu.SUB),
        to(0, reg_a(0), reg_b(1), alu=Alu.SELECT_NEGATIVE), beyond,
        to(2, immediate_a(1), reg_b(1), alu=Alu.SUB), to(0, reg_a(0), reg_b(2), low()), *end,
        {**reg_a(0), **reg_b(3), "alu": Alu.ADD, **OUT}))


@lowers("STEPS")
def lower_steps(state: Legalizer, op: Operator) -> None:
    """A chain of programs: each adds its steps to the result of the one before it."""
    places, changes = (state.constant(op, position).tolist() for position in (1, 2))
    output, value = state.subgraph.tensors[op.outputs[0]], state.input(op, 0)
    count, before, last = int(np.prod(output.shape, dtype=np.int64)), list[Value](), max(len(places) - 1, 0) // _STEPS
    for number in range(last + 1):
        some = slice(number * _STEPS, (number + 1) * _STEPS)
        uops = [to(0, STREAM_A), to(1, immediate_a(0), STREAM_B, alu=Alu.ADD) if before else
                to(1, immediate_a(int_option(op, "first")))]
        for place, change in zip(places[some], changes[some], strict=True):
            uops += [to(2, immediate_a(place), reg_b(0), alu=Alu.LESS_EQUAL),
                     *((to(2, reg_a(2), immediate(change), low()),) if abs(change) != 1 else ()),
                     to(1, reg_a(1), reg_b(2), alu=Alu.SUB if change == -1 else Alu.ADD)]
        made = state.output(op) if number == last else Value(f"{output.name} ({number})", op.outputs[0],
                                                             (1, 1, 1, 4 * count))
        state.layers.append(Flat(op.index, op.op, (value, *before), made, count, (_INT32,) * (1 + len(before)),
                                 output_code(output.dtype) if number == last else _INT32,
                                 (*uops, {**reg_a(1), **OUT})))
        before = [made]


def whole_numbers(state: Legalizer, op: Operator) -> Value:
    """Return float32 numbers, below 2^31 in magnitude, truncated to int32."""
    out = Value(f"{state.tensor(op, 0).name} (whole)", op.outputs[0],
                state.view(state.tensor(op, 0).shape, "int32"))
    exponent = to(1, STREAM_A, immediate(INFINITY), shifted(-_FRACTION_BITS, Rounding.FLOOR), alu=Alu.AND)
    places = 127 + _FRACTION_BITS
    _flat(state, op, state.input(op, 0), out, _INT32, (
        to(0, STREAM_A, immediate((1 << _FRACTION_BITS) - 1), alu=Alu.AND),
        to(0, reg_a(0), immediate(1 << _FRACTION_BITS), alu=Alu.ADD), exponent,
        to(2, immediate_a(places), reg_b(1), alu=Alu.SUB), to(3, reg_a(2), immediate(0), alu=Alu.MAX),
        to(3, reg_a(3), immediate(31), alu=Alu.MIN), to(0, reg_a(0), reg_b(3), SAR),
        to(3, reg_a(1), immediate(places), alu=Alu.SUB), to(3, reg_a(3), immediate(0), alu=Alu.MAX),
        to(0, reg_a(0), reg_b(3), SHL),
        to(3, STREAM_A, immediate(INT32_MIN), shifted(-30, Rounding.FLOOR), alu=Alu.AND, zero_point=1),
        {**reg_a(0), **reg_b(3), **low(), **OUT}))
    return out


def is_true(state: Legalizer, op: Operator) -> None:
    """Bool of float32 bits: false for both zeros, else true."""
    _flat(state, op, state.input(op, 0), state.output(op), 0, (
        to(0, STREAM_A, immediate((1 << 31) - 1), alu=Alu.AND),
        {**reg_a(0), **immediate(0), "alu": Alu.NOT_EQUAL, **OUT}))
